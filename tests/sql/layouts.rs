//! Layouts of every kind, on servers: IDs are issued in them, decoded by them, and selected by time.

use snowflake_core::id::layout::PRESETS;
use std::process::Stdio;
use testbed::postgres::Client;
use testbed::{Cluster, Database, assert_refused, error, plan, project, test, value};

/// A database on a server with the layout `twitter`.
fn database() -> (Database, Client) {
    database_of("twitter")
}

fn database_of(layout: &str) -> (Database, Client) {
    let database = Cluster::builder().worker(3).set("snowflake_pg.layout", layout).set("timezone", "UTC").database();
    let mut client = database.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (database, client)
}

/// IDs of other systems with what their publishers say of them.
#[test]
fn published_ids_decode_in_sql_and_compose_back() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE known (id bigint, layout text, issued_at timestamptz, datacenter_id integer, worker_id integer,
                                 sequence integer, published text)",
        )
        .expect("a table");
    let mut copy = client.copy_in("COPY known FROM STDIN (FORMAT csv, DELIMITER E'\\t', HEADER)").expect("COPY");
    std::io::copy(&mut include_str!("../../crates/snowflake_core/tests/known-answers.tsv").as_bytes(), &mut copy)
        .expect("the file");
    let rows = copy.finish().expect("rows");
    let right = "SELECT count(*) FROM known, snowflake_decode(id, layout) d
        WHERE (d.issued_at, d.datacenter_id, d.worker_id, d.sequence)
              IS NOT DISTINCT FROM (known.issued_at, known.datacenter_id, known.worker_id, known.sequence)
          AND snowflake_timestamp(id, layout) = known.issued_at
          AND snowflake_compose(d.issued_at, d.datacenter_id, d.worker_id, d.sequence, d.tag, layout) = id";
    assert_eq!(value(&mut client, right), rows.to_string());
}

#[test]
fn the_view_of_layouts_shows_what_each_can_do() {
    let (_database, mut client) = database();
    for (name, expected) in [
        (
            "twitter",
            "(twitter,\"t41 d5 w5 s12\",00:00:00.001,\"2010-11-04 01:42:54.657+00\",\"2080-07-10 17:30:30.208+00\",69.7,1024,4096000,t)",
        ),
        (
            "uid",
            "(uid,\"t28 w22 s13\",00:00:01,\"2016-05-19 16:00:00+00\",\"2024-11-20 13:24:15+00\",8.5,4194304,8192,f)",
        ),
        (
            "k8s",
            "(k8s,\"t28 w24 s11\",00:00:01,\"2021-09-16 08:14:08+00\",\"2030-03-20 05:38:23+00\",8.5,16777216,2048,t)",
        ),
        (
            "sonyflake",
            "(sonyflake,\"t39 s8 w16\",00:00:00.01,\"2014-09-01 00:00:00+00\",\"2188-11-16 03:28:58.87+00\",174.2,65536,25600,t)",
        ),
        (
            "pgactive",
            "(pgactive,\"t40 w10 s14\",00:00:00.001,\"2016-10-06 23:22:19.634+00\",\"2051-08-10 19:16:07.409+00\",34.8,1024,16384000,f)",
        ),
        (
            "pgdog_compact",
            "(pgdog_compact,\"t41 w6 s6\",00:00:00.001,\"2025-11-26 19:13:15+00\",\"2095-08-03 11:00:50.551+00\",69.7,64,64000,t)",
        ),
        (
            "mastodon",
            "(mastodon,\"t48 s16\",00:00:00.001,\"1970-01-01 00:00:00+00\",\"10889-08-02 05:31:50.655+00\",8919.6,1,65536000,f)",
        ),
    ] {
        let query = format!(
            "SELECT (name, fields, unit, epoch, usable_until, years, workers, max_ids_per_second, can_issue)
             FROM snowflake_layouts WHERE name = '{name}'"
        );
        assert_eq!(value(&mut client, &query), expected);
    }
    let presets = PRESETS.len().to_string();
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_layouts WHERE source <> ''"), presets);
    // The planner's estimate.
    assert_eq!(value(&mut client, "SELECT prorows FROM pg_proc WHERE proname = 'snowflake_get_layouts'"), presets);
    // Each is the layout of its name.
    let same = "SELECT count(*) FROM snowflake_layouts WHERE snowflake_decode(123456789012345, name) IS DISTINCT FROM
        snowflake_decode(123456789012345, format('%s unit=%sms epoch=%s', fields, extract(milliseconds FROM unit)::int,
                                                 to_char(epoch, 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')))";
    assert_eq!(value(&mut client, same), "0");
}

#[test]
fn what_takes_a_layout_decodes_composes_and_selects_by_it() {
    let (_database, mut client) = database();
    for (query, expected) in [
        ("SELECT snowflake_compose('2022-06-28 16:07:40.105Z', 11, 26, 0)", "1541815603606036480"),
        ("SELECT snowflake_compose('2022-06-28 16:07:40.105999Z', 11, 26, 0, 0, 'twitter')", "1541815603606036480"),
        ("SELECT snowflake_compose('2010-11-04 01:42:54.657Z', 0, 0, 0, 0, 'twitter')", "0"),
        ("SELECT snowflake_compose('2022-06-28 16:07:40.105Z', NULL, 378, 0, 0, 'flat')", "1541815603606036480"),
        ("SELECT snowflake_compose('2022-06-28 16:07:40.105Z', 0, 378, 0, 0, 'flat')", "1541815603606036480"),
        ("SELECT snowflake_compose('2022-06-28 16:07:40.105Z', NULL, 26, 0, 0, 'twitter')", "NULL"),
        ("SELECT snowflake_compose('2022-06-28 16:07:40.105Z', 11, NULL, 0, 0, 'twitter')", "NULL"),
        ("SELECT snowflake_compose('2022-06-28 16:07:40.105Z', 11, 26, NULL, 0, 'twitter')", "NULL"),
        ("SELECT snowflake_compose(NULL, 11, 26, 0, 0, 'twitter')", "NULL"),
        ("SELECT snowflake_compose(now(), 0, 0, 0, 0, NULL)", "NULL"),
        ("SELECT snowflake_decode(1541815603606036480, NULL)", "NULL"),
        // The lowest ID of a tick, whatever the tick's length.
        ("SELECT snowflake_min_id('2021-09-16 08:14:09.999Z', 'k8s')", "34359738368"),
        ("SELECT snowflake_min_id('2021-09-16 08:14:09Z', 'k8s')", "34359738368"),
        ("SELECT snowflake_timestamp(34359738367, 'k8s')", "2021-09-16 08:14:08+00"),
        ("SELECT snowflake_bound('infinity', '<=', 'discord')", "9223372036854775807"),
        (
            "SELECT snowflake_within(175928847299117063, '2016-04-30 11:18:25.796Z', '2016-04-30 11:18:25.797Z', 'discord')",
            "t",
        ),
        ("SELECT snowflake_within(175928847299117063, '2016-04-30 11:18:25.797Z', 'infinity', 'discord')", "f"),
        ("SELECT snowflake_timestamp(-1, 'discord')", "2154-05-15 07:35:11.103+00"),
        ("SELECT snowflake_compose('2154-05-15 07:35:11.103Z', 31, 31, 4095, 0, 'discord')", "-1"),
        // As pgactive computes its IDs, and the first one of them that is negative.
        (
            "SELECT snowflake_decode((291429460366 << 24) + (5 << 14) + 7, 't40 w10 s14 epoch=2016-10-06T23:22:19.634Z')",
            "(\"2026-01-01 00:00:00+00\",,5,7,)",
        ),
        (
            "SELECT snowflake_timestamp(-9223372036854775808, 't40 w10 s14 epoch=2016-10-06T23:22:19.634Z')",
            "2034-03-09 21:19:13.522+00",
        ),
        ("SELECT snowflake_timestamp(9007199254740991, 'js')", "2093-09-06 15:47:35.551+00"),
        ("SELECT snowflake_timestamp(123, 's12 w3 t41 epoch=0')", "1970-01-01 00:00:00.123+00"),
        // One transaction, one now.
        ("SELECT snowflake_timestamp(snowflake_min_id(now())) = date_trunc('milliseconds', now())", "t"),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
}

#[test]
fn what_a_layout_cannot_hold_is_refused_with_its_range() {
    let (_database, mut client) = database();
    let range = "from 2010-11-04T01:42:54.657Z to 2080-07-10T17:30:30.208Z";
    for (call, code, words) in [
        ("decode(1, 't37 w20 s16')", "22023", ["73 bits", "64"]),
        ("explain(9007199254740992, 'js')", "22003", ["9007199254740992", "9007199254740991"]),
        ("timestamp(-1, 'flat')", "22003", ["must not be negative", "-1"]),
        ("compose(now(), 32, 0, 0, 0, 'twitter')", "22003", ["datacenter_id is 32", "0 to 31"]),
        ("compose(now(), 0, -1, 0, 0, 'twitter')", "22003", ["worker_id is -1", "0 to 31"]),
        ("compose(now(), 0, 0, 4096, 0, 'twitter')", "22003", ["sequence is 4096", "0 to 4095"]),
        ("compose('infinity', 0, 0, 0)", "22008", ["after the end", range]),
        ("compose('-infinity', 0, 0, 0)", "22008", ["before the epoch", range]),
        ("compose('2000-01-01Z', 0, 0, 0)", "22008", ["before the epoch", range]),
        ("min_id(now(), 'w10 t41 s12')", "22023", ["do not sort by time", "\"w10 t41 s12\""]),
        ("min_id('2100-01-01Z', 'discord')", "22008", ["after the last bigint", "2084-09-06T15:47:35.551Z"]),
    ] {
        assert_refused(&error(&mut client, &format!("SELECT snowflake_{call}")), code, &words);
    }
}

/// As unsigned numbers they go on, and as bigints they are below all others.
#[test]
fn ids_with_the_highest_of_64_bits_are_decoded_and_are_in_no_range_of_time() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE tsids AS SELECT at, snowflake_compose(at, 0, 3, 4, 0, 'tsid') AS id FROM unnest(ARRAY[
                 '2020-01-01Z', '2089-09-06 15:47:35.551Z', '2089-09-06 15:47:35.552Z', '2159-05-15 07:35:11.103Z'
             ]::timestamptz[]) at",
        )
        .expect("a table");
    let within = |since: &str, until: &str| {
        format!("SELECT count(*) FROM tsids WHERE snowflake_within(id, '{since}', '{until}', 'tsid')")
    };
    for (query, expected) in [
        ("SELECT array_agg(id < 0 ORDER BY at) FROM tsids", "{f,f,t,t}"),
        ("SELECT bool_and(snowflake_timestamp(id, 'tsid') = at) FROM tsids", "t"),
        ("SELECT bool_and((worker_id, sequence) = (3, 4)) FROM tsids, snowflake_decode(id, 'tsid')", "t"),
        ("SELECT bool_and(snowflake_explain(id, 'tsid') LIKE '%w worker       3 of%') FROM tsids", "t"),
        // In the order of bigint, the first negative one comes first.
        ("SELECT array_agg(extract(year FROM at) ORDER BY id) FROM tsids", "{2089,2159,2020,2089}"),
        (&within("-infinity", "infinity"), "2"),
        (&within("-infinity", "2089-09-06 15:47:35.551Z"), "1"),
        (&within("2089-09-06 15:47:35.551Z", "infinity"), "1"),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
    for query in [
        "SELECT snowflake_min_id('2089-09-06 15:47:35.552Z', 'tsid')",
        &within("2020-01-01Z", "2100-01-01Z"),
        &within("2100-01-01Z", "infinity"),
    ] {
        assert_eq!(error(&mut client, query).message(), "timestamp is after the last bigint of the layout", "{query}");
    }
}

/// What a picture in the documentation shows, too.
#[test]
fn the_picture_of_the_layouts_is_of_those_there_are() {
    let drawn = std::fs::read_to_string(project().join("docs/layouts.svg")).expect("the picture");
    assert_eq!(drawn, pictures::layouts(), "make picture NAME=layouts");
}

/// An index or a generated column must not depend on the configuration.
#[test]
fn with_its_layout_named_a_function_can_be_indexed_and_generated_and_without_it_cannot() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE message (
                 id bigint PRIMARY KEY,
                 sent_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'discord')) STORED);
             CREATE INDEX ON message (((snowflake_decode(id, 'discord')).worker_id));
             CREATE INDEX ON message (snowflake_timestamp(id, 'discord'));
             INSERT INTO message (id) VALUES (175928847299117063), (105484726235607040)",
        )
        .expect("an index and a generated column");
    let query = "SELECT id FROM message WHERE sent_at > '2016-01-01Z'";
    assert_eq!(value(&mut client, query), "175928847299117063");
    for (statement, code) in [
        ("CREATE INDEX ON message (snowflake_timestamp(id))", "42P17"),
        ("ALTER TABLE message ADD t timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED", "42P17"),
    ] {
        assert_eq!(error(&mut client, statement).code().code(), code, "{statement}");
    }
}

/// Whatever the layout, a range says the same as the timestamps do.
#[test]
fn a_range_selects_what_the_timestamps_say_in_every_layout() {
    let (_database, mut client) = database();
    let query = "SELECT count(*) FROM snowflake_layouts,
        LATERAL (SELECT epoch + interval '3 days' + n * unit AS at, n FROM generate_series(0, 30) n) t,
        LATERAL (SELECT snowflake_compose(at, 0, 0, 5, 0, name) AS id) i,
        LATERAL (SELECT epoch + interval '3 days' + 10 * unit AS a, epoch + interval '3 days' + 20 * unit AS b) r
        WHERE snowflake_within(id, a, b, name) <> (snowflake_timestamp(id, name) >= a AND snowflake_timestamp(id, name) < b)
           OR snowflake_timestamp(id, name) <> at";
    assert_eq!(value(&mut client, query), "0");
}

/// A million rows, ten seconds apart, so 115 days: one day is read through the primary key.
#[test]
fn a_day_of_a_million_rows_is_read_through_the_primary_key() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE event (id bigint PRIMARY KEY);
             INSERT INTO event SELECT snowflake_compose('2026-01-01Z', 0, 0, 0) + (n * 10000::bigint << 22)
                 FROM generate_series(0, 999999) n;
             ANALYZE event",
        )
        .expect("a table");
    let range = "snowflake_within(id, '2026-03-01Z', '2026-03-02Z')";
    assert_eq!(value(&mut client, &format!("SELECT count(*) FROM event WHERE {range}")), "8640");
    for range in [range, "snowflake_within(id, '2026-03-01Z', '2026-03-02Z', 'twitter')"] {
        let plan = plan(&mut client, &format!("EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM event WHERE {range}"));
        println!("{plan}");
        assert!(plan.contains("using event_pkey") && plan.contains("Index Cond") && !plan.contains("Filter"), "{plan}");
    }
}

#[test]
fn an_explanation_can_be_read_in_psql() {
    let (database, _client) = database();
    let mut psql = database.psql();
    psql.args(["-c", "SELECT snowflake_explain(1671372309237077023, 'instagram')"]).stdout(Stdio::piped());
    let output = psql.output().expect("psql");
    let shown = String::from_utf8(output.stdout).expect("text");
    assert!(shown.contains("w worker       5 of 0 to 8191") && shown.contains("= 2017-12-16T22:25:27.28Z"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[test]
fn decoding_by_any_layout_works_without_preload() {
    let cluster = Cluster::builder().set("shared_preload_libraries", "").set("timezone", "UTC").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let query = "SELECT snowflake_decode(175928847299117063, 'discord')";
    assert_eq!(value(&mut client, query), r#"("2016-04-30 11:18:25.796+00",1,0,7,)"#);
    // What such a session is told without a layout follows what is configured, also when it changes.
    for (layout, expected) in
        [("js", "(\"2024-01-01 00:00:00.001+00\",,0,0,)"), ("k8s", "(\"2021-09-16 08:14:08+00\",,2,0,)")]
    {
        client.batch_execute(&format!("SET snowflake_pg.layout = '{layout}'")).expect("a variable nobody knows");
        assert_eq!(value(&mut client, "SELECT snowflake_decode(4096)"), expected);
    }
}

/// The timestamp of such an ID would be cut off, and the floor raised to too little.
#[test]
fn an_advance_past_an_id_that_no_id_of_the_layout_exceeds_is_refused() {
    let (_database, mut client) = database_of("js");
    let refused = error(&mut client, "SELECT snowflake_advance(9007199254740992)");
    assert_eq!((refused.code().code(), refused.message()), ("22003", "no ID of the layout is greater"));
}
