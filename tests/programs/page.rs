//! The page that decodes IDs and computes layouts, in a browser, beside the extension's own answers. `make suite
//! NAME=page`.

use fastrand::Rng;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::postgres::Client;
use testbed::{Cluster, project, test};

/// Layouts beside those with a name.
const OWN: [&str; 9] = [
    "t41 w5 h8 s9",
    "T40 s7 H16 unit=10ms",
    "t41 d5 w5 s12 unit=10ms epoch=2024-01-01T00:00:00Z",
    "flat epoch=2024-01-01T00:00:00.5+05:30",
    "T42 W10 S12 unit=7ms epoch=0",
    "w10 t41 s12",
    "t45",
    "t50 s14",
    "js t40 w7 s6 unit=1S",
];
const INVALID: [&str; 20] = [
    "",
    " ",
    "t",
    "t0",
    "t64",
    "w32",
    "x5",
    "t41 t5",
    "t41 w5 w5",
    "w5 s5",
    "t41 unit=2s",
    "t41 unit=0ms",
    "t41 unit=1",
    "t41 unit=1ms unit=1ms",
    "t41 epoch=abc",
    "t41 epoch=2024-01-01",
    "t41 epoch=0 epoch=0",
    "t60 w5",
    "t63 unit=1s",
    "t41 twitter",
];

/// The page after it has run, as a browser shows it.
fn dump(address: &str) -> String {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom", address])
        .output()
        .expect("chromium, by `tools/setup page`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn plain(html: &str) -> String {
    html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The text of an element of the page.
fn text_of(page: &str, id: &str) -> String {
    let (_, rest) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {page}"));
    let (_, rest) = rest.split_once('>').expect("the end of a tag");
    plain(rest.split("</").next().expect("text"))
}

/// What the page's functions answer to these cases: `[function, argument, ...]`.
fn answers(cases: &[Value]) -> Vec<Value> {
    let directory = tempfile::tempdir().expect("a directory");
    fs::copy(project().join("contrib/page/snowflake.js"), directory.path().join("snowflake.js")).expect("a copy");
    let page = format!(
        r#"<!doctype html><meta charset="utf-8"><pre id="out"></pre><script src="snowflake.js"></script><script>
        const functions = {{
          decode: (id, layout) => {{
            const {{ issuedAt, datacenter, worker, tag, sequence }} = snowflake.decode(BigInt(id), snowflake.parseLayout(layout));
            return [issuedAt, datacenter, worker, tag, sequence];
          }},
          decodeAll: (id) => snowflake.decodeAll(BigInt(id))
            .map(({{ name, issuedAt, datacenter, worker, sequence, tag }}) => [name, issuedAt, datacenter, worker, sequence, tag]),
          minId: (ms, layout) => snowflake.minId(BigInt(ms), snowflake.parseLayout(layout)),
          texts: (id) => [...Object.keys(snowflake.ENCODINGS).map((one) => snowflake.toText(BigInt(id), one)), snowflake.toUuid(BigInt(id))],
          parseId: (text, encoding) => snowflake.parseId(text, encoding),
          room: (layout) => {{
            const {{ servers, idsPerSecond, years, lastTimestamp, decodeOnly }} = snowflake.room(snowflake.parseLayout(layout));
            return [servers, idsPerSecond, years.toFixed(1), lastTimestamp, decodeOnly ?? null];
          }},
          layoutText: (layout) => snowflake.parseLayout(layout).text,
          names: () => Object.keys(snowflake.PRESETS),
        }};
        const answer = ([name, ...rest]) => {{
          try {{ return functions[name](...rest); }} catch (problem) {{ return {{ error: problem.message, invalid: problem instanceof snowflake.Invalid }}; }}
        }};
        const cases = {};
        document.getElementById("out").textContent =
          JSON.stringify(cases.map(answer), (_, value) => (typeof value === "bigint" ? value.toString() : value));
        </script>"#,
        json!(cases).to_string().replace("</", "<\\/")
    );
    let file = directory.path().join("cases.html");
    fs::write(&file, page).expect("own file");
    let out = text_of(&dump(&format!("file://{}", file.display())), "out");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).set("timezone", "UTC").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, client)
}

/// What the extension answers, as JSON, or the message and the DETAIL of its error.
fn ask(client: &mut Client, query: &str) -> Result<Value, (String, String)> {
    match client.query_one(&format!("SELECT to_json(x)::text FROM ({query}) q(x)"), &[]) {
        Ok(row) => Ok(serde_json::from_str(&row.get::<_, String>(0)).expect("JSON")),
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{query}: {error:?}"));
            Err((error.message().to_owned(), error.detail().unwrap_or_default().to_owned()))
        }
    }
}

/// A sentence without its capital and its period.
fn bare(sentence: &str) -> String {
    let mut text = sentence.trim_end_matches('.').to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

fn assert_same(case: &Value, page: &Value, extension: Result<Value, (String, String)>) {
    match extension {
        Ok(expected) => assert_eq!(*page, expected, "{case}"),
        Err((message, detail)) => {
            assert_eq!(page["invalid"], true, "{case}: {page}, and the extension says {message}: {detail}");
            let said = bare(page["error"].as_str().expect("an error"));
            let is_same = said == bare(&detail) || said.starts_with(&bare(&message));
            assert!(is_same, "{case}: the page says {said}, and the extension {message}: {detail}");
        }
    }
}

#[test(By("make suite NAME=page"))]
fn the_page_decodes_ids_of_every_layout_as_the_extension_does() {
    let (_cluster, mut client) = server();
    let named = client.query("SELECT name FROM snowflake_layouts", &[]).expect("layouts");
    let named: Vec<String> = named.iter().map(|row| row.get(0)).collect();
    let mut random = Rng::with_seed(1);
    let mut cases = vec![json!(["names"])];
    for layout in named.iter().map(String::as_str).chain(OWN) {
        let borders = [0, 1, -1, i64::MAX, i64::MIN, 1_541_815_603_606_036_480];
        let ids = borders.into_iter().chain(std::iter::repeat_with(|| random.i64(..) >> random.u32(..60)).take(50));
        cases.extend(ids.map(|id| json!(["decode", id.to_string(), layout])));
        for ms in [0, 1_288_834_974_657_i64, 1_700_000_000_000, 4_000_000_000_000, 99_000_000_000_000] {
            cases.push(json!(["minId", ms.to_string(), layout]));
        }
    }
    cases.extend(INVALID.map(|layout| json!(["decode", "1", layout])));
    let page = answers(&cases);
    assert_eq!(page[0], json!(named), "the layouts with a name");
    for (case, page) in cases.iter().zip(&page).skip(1) {
        let layout = case[2].as_str().expect("a layout");
        let argument = case[1].as_str().expect("a number");
        let query = if case[0] == "decode" {
            format!(
                "SELECT json_build_array((extract(epoch FROM issued_at) * 1000)::bigint::text, datacenter_id::text,
                     worker_id::text, tag::text, sequence::text) FROM snowflake_decode('{argument}', '{layout}')"
            )
        } else {
            format!("SELECT snowflake_min_id(timestamptz 'epoch' + interval '1 ms' * {argument}, '{layout}')::text")
        };
        // An ID of 64 bits can be above the last bigint of the layout, which the page knows nothing of.
        let extension = ask(&mut client, &query);
        if matches!(&extension, Err((message, _)) if message.contains("last bigint")) {
            continue;
        }
        assert_same(case, page, extension);
    }
    println!("{} answers compared", cases.len());
}

#[test(By("make suite NAME=page"))]
fn the_page_decodes_an_id_of_unknown_origin_under_the_layouts_that_the_extension_finds() {
    let (_cluster, mut client) = server();
    let mut random = Rng::with_seed(3);
    let borders = [0, -1, i64::MAX, i64::MIN, 175_928_847_299_117_063, 1_541_815_603_606_036_480];
    let ids = borders.into_iter().chain(std::iter::repeat_with(|| random.i64(..) >> random.u32(..60)).take(200));
    let cases: Vec<_> = ids.map(|id| json!(["decodeAll", id.to_string()])).collect();
    for (case, page) in cases.iter().zip(answers(&cases)) {
        let query = format!(
            "SELECT coalesce(json_agg(json_build_array(layout, (extract(epoch FROM issued_at) * 1000)::bigint::text,
                 datacenter_id::text, worker_id::text, sequence::text, tag::text)), '[]')
             FROM snowflake_decode_all('{}')",
            case[1].as_str().expect("a number")
        );
        assert_eq!(Ok(page), ask(&mut client, &query), "{case}");
    }
}

#[test(By("make suite NAME=page"))]
fn the_page_reads_a_number_with_separators_of_thousands_and_no_other_sign() {
    let parse = |text: &str| json!(["parseId", text, "number"]);
    let read = ["1,541,815", "1.541.815", "1 541 815", "1_541_815", "1\u{a0}541\u{a0}815", "1'541'815"];
    let wrong = ["1,54,815", "1.5", "1,541.815", "1541,815", "1.541.815e3", ",541"];
    let page = answers(&read.iter().chain(&wrong).map(|text| parse(text)).collect::<Vec<_>>());
    for (text, page) in read.iter().zip(&page) {
        assert_eq!(*page, json!("1541815"), "{text}");
    }
    for (text, page) in wrong.iter().zip(&page[read.len()..]) {
        assert_eq!(page["invalid"], true, "{text}: {page}");
    }
}

#[test(By("make suite NAME=page"))]
fn the_page_computes_the_room_of_every_named_layout_as_the_extension_does() {
    let (_cluster, mut client) = server();
    let query = "SELECT name, json_build_array(workers::text, max_ids_per_second::text, years::numeric(12, 1)::text,
            (extract(epoch FROM usable_until) * 1000)::bigint::text)::text FROM snowflake_layouts";
    let rows = client.query(query, &[]).expect("layouts");
    let cases: Vec<_> = rows.iter().map(|row| json!(["room", row.get::<_, &str>(0)])).collect();
    for (row, page) in rows.iter().zip(answers(&cases)) {
        let expected: Value = serde_json::from_str(row.get(1)).expect("JSON");
        let page = Value::from(page.as_array().unwrap_or_else(|| panic!("{page}"))[..4].to_vec());
        assert_eq!(page, expected, "{}", row.get::<_, &str>(0));
    }
}

#[test(By("make suite NAME=page"))]
fn the_page_writes_and_reads_texts_and_uuids_as_the_extension_does() {
    let (_cluster, mut client) = server();
    let mut random = Rng::with_seed(2);
    let ids: Vec<i64> = [0, 1, 61, 62, i64::MAX].into_iter().chain((0..50).map(|_| random.i64(0..))).collect();
    let page = answers(&ids.iter().map(|id| json!(["texts", id.to_string()])).collect::<Vec<_>>());
    let mut back = Vec::new();
    for (id, texts) in ids.iter().zip(&page) {
        let query = format!(
            "SELECT json_build_array(snowflake_to_text({id}, 'base62'), snowflake_to_text({id}, 'base58'),
                 snowflake_to_text({id}, 'crockford32'), snowflake_to_text({id}, 'hex'), snowflake_to_uuid({id}))"
        );
        assert_eq!(Ok(texts.clone()), ask(&mut client, &query), "{id}");
        for (encoding, text) in
            ["base62", "base58", "crockford32", "hex", "number"].iter().zip(texts.as_array().expect("texts"))
        {
            back.push((json!(["parseId", text, encoding]), id.to_string()));
        }
    }
    let cases: Vec<_> = back.iter().map(|(case, _)| case.clone()).collect();
    for ((case, id), page) in back.iter().zip(answers(&cases)) {
        assert_eq!(page, json!(id), "{case}");
    }
    let wrong = [
        ("!", "base62"),
        ("", "base62"),
        ("0", "base58"),
        ("zzzzzzzzzzzz", "base62"),
        ("u", "crockford32"),
        ("g", "hex"),
    ];
    let cases: Vec<_> = wrong.iter().map(|(text, encoding)| json!(["parseId", text, encoding])).collect();
    for (((text, encoding), case), page) in wrong.iter().zip(&cases).zip(answers(&cases)) {
        assert_same(case, &page, ask(&mut client, &format!("SELECT snowflake_from_text('{text}', '{encoding}')")));
    }
}

/// What a person sees.
#[test(By("make suite NAME=page"))]
fn the_page_shows_what_its_address_asks_for() {
    let page = |fragment: &str| dump(&format!("file://{}#{fragment}", index().display()));
    let first = page("");
    for (id, expected) in [
        ("issued-at", "2022-06-28T16:07:40.105Z"),
        ("datacenter", "none in this layout"),
        ("worker", "378"),
        ("sequence", "0"),
        ("base62", "1ptWyK4WgZU"),
        ("servers", "1,024"),
        ("rate", "4,096,000"),
        ("years", "69.7"),
        ("setting", "snowflake_pg.layout = 'flat'"),
        ("sql", "SELECT * FROM snowflake_decode(1541815603606036480, 'flat');"),
        ("id-error", ""),
        ("layout-error", ""),
    ] {
        assert_eq!(text_of(&first, id), expected, "{id}");
    }
    for bits in ["00101010110010110100001000111110110001000", "0101111010", "000000000000"] {
        assert!(first.contains(&format!("<b>{bits}</b>")), "{bits}");
    }
    let discord = page("id=175928847299117063&as=number&layout=discord");
    assert_eq!(text_of(&discord, "issued-at"), "2016-04-30T11:18:25.796Z");
    assert!(
        text_of(&discord, "decode-only")
            .starts_with("IDs of this layout can be decoded but not issued. \"t42 d5 w5 s12\"")
    );
    assert_eq!(text_of(&discord, "width"), "64 of 64");
    let row = "layout=discord\">discord</a></td><td>2016-04-30T11:18:25.796Z</td><td>1</td><td>0</td><td>7</td>";
    assert!(discord.contains(row) && page("id=175928847299117063&layout=t0").contains(row), "{discord}");
    assert_eq!(text_of(&discord, "sql"), "SELECT * FROM snowflake_decode(175928847299117063, 'discord');");
    // Nothing to copy into a configuration.
    assert!(
        discord.contains("<pre id=\"setting\" hidden=\"\">") && first.contains("<pre id=\"setting\">"),
        "{discord}"
    );
    let text = "t41 s10 w12 unit=1ms epoch=2010-11-04T01:42:54.657Z";
    assert_eq!(text_of(&page("id=1&layout=flat t41 s10 w12"), "setting"), format!("snowflake_pg.layout = '{text}'"));
    assert_eq!(text_of(&page("id=1ptWyK4WgZU&as=base62&layout=twitter"), "worker"), "26");
    let wrong = page("id=abc&layout=t41 w99");
    assert_eq!(text_of(&wrong, "id-error"), "\"abc\" is not an ID: type a number, or choose how it is written.");
    assert_eq!(text_of(&wrong, "layout-error"), "\"w99\" is not a width: the field w has 1 to 31 bits.");
    for section in ["decoded", "all", "computed"] {
        let hidden = format!("id=\"{section}\" aria-labelledby=\"{section}-title\" hidden");
        assert!(wrong.contains(&hidden), "{section}: {wrong}");
    }
}

fn index() -> std::path::PathBuf {
    Path::new(&project()).join("contrib/page/index.html").canonicalize().expect("the page")
}

/// So that it works from a file, and sends nothing anywhere.
#[test]
fn the_page_names_no_other_host() {
    for name in ["index.html", "page.css", "page.js", "snowflake.js"] {
        let text = fs::read_to_string(project().join("contrib/page").join(name)).expect("a file of the page");
        assert!(!text.contains("//") || !text.contains("http"), "{name}");
        assert!(!["fetch(", "XMLHttpRequest", "import ", "@import"].iter().any(|word| text.contains(word)), "{name}");
    }
}
