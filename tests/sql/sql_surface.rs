//! What every function gives, and how it refuses what it can't.

use std::fs;
use testbed::postgres::Client;
use testbed::{Cluster, Database, assert_refused, error, plan, project, test, value, version_of};

/// A database with the extension, the layout `twitter`, data center 3 and worker 7.
fn database() -> (Database, Client) {
    let builder = Cluster::builder()
        .worker(7)
        .set("snowflake_pg.layout", "twitter")
        .set("snowflake_pg.datacenter_id", 3)
        .set("timezone", "UTC");
    let database = builder.database();
    let mut client = database.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (database, client)
}

#[test]
fn the_functions_give_what_the_documentation_says() {
    let (_database, mut client) = database();
    for (query, expected) in [
        // A published ID: Wikipedia, "Snowflake ID".
        ("SELECT snowflake_decode(1541815603606036480)", r#"("2022-06-28 16:07:40.105+00",11,26,0,)"#),
        ("SELECT snowflake_timestamp(1541815603606036480)", "2022-06-28 16:07:40.105+00"),
        ("SELECT snowflake_timestamp(0)", "2010-11-04 01:42:54.657+00"),
        ("SELECT snowflake_timestamp(9223372036854775807)", "2080-07-10 17:30:30.208+00"),
        // The lowest ID of a tick: its timestamp is that tick, and the ID before it belongs to the tick before.
        ("SELECT snowflake_min_id('2010-11-04 01:42:54.657+00')", "0"),
        ("SELECT snowflake_min_id('2010-11-04 01:42:54.658+00')", "4194304"),
        ("SELECT snowflake_min_id('2010-11-04 01:42:54.658999+00')", "4194304"),
        ("SELECT snowflake_timestamp(snowflake_min_id('2024-02-29 12:00:00.001+00'))", "2024-02-29 12:00:00.001+00"),
        ("SELECT snowflake_timestamp(snowflake_min_id('2024-02-29 12:00:00.001+00') - 1)", "2024-02-29 12:00:00+00"),
        ("SELECT snowflake_within(1541815603606036480, '2022-06-28 16:07:40.105Z', '2022-06-28 16:07:40.106Z')", "t"),
        ("SELECT snowflake_within(1541815603606036480, '2022-06-28 16:07:40.104Z', '2022-06-28 16:07:40.105Z')", "f"),
        ("SELECT snowflake_within(1541815603606036480, '-infinity', 'infinity')", "t"),
        ("SELECT snowflake_within(1541815603606036480, '2022-06-28 16:07:40.105Z')", "t"),
        ("SELECT snowflake_within(id => 1541815603606036480, since => '2022-06-28 16:07:40.106Z')", "f"),
        // A length of time in IDs.
        ("SELECT snowflake_min_id('2026-01-02Z') - snowflake_min_id('2026-01-01Z')", "362387865600000"),
        // A new ID carries this server's numbers and the time of the clock, give or take the start margin of a first
        // start.
        ("SELECT worker_id FROM snowflake_decode(snowflake_nextval())", "7"),
        ("SELECT datacenter_id FROM snowflake_decode(snowflake_nextval())", "3"),
        ("SELECT abs(extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())) < 5", "t"),
        ("SELECT snowflake_nextval() < snowflake_nextval()", "t"),
        // A batch: as many as asked for, ascending, and above what came before.
        ("SELECT count(DISTINCT id) FROM snowflake_nextvals(1000000) id", "1000000"),
        ("SELECT bool_and(ok) FROM (SELECT id > lag(id) OVER () AS ok FROM snowflake_nextvals(10000) id) s", "t"),
        // NULL gives NULL, and a batch of NULL is empty.
        ("SELECT snowflake_decode(NULL)", "NULL"),
        ("SELECT snowflake_timestamp(NULL)", "NULL"),
        ("SELECT snowflake_min_id(NULL)", "NULL"),
        ("SELECT snowflake_within(NULL, now(), now())", "NULL"),
        ("SELECT snowflake_within(1, NULL, NULL)", "NULL"),
        ("SELECT snowflake_within(1, NULL)", "NULL"),
        ("SELECT count(*) FROM snowflake_nextvals(NULL)", "0"),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
}

#[test]
fn an_id_of_unknown_origin_is_shown_in_each_layout_that_it_fits_the_latest_time_first() {
    let (_database, mut client) = database();
    // The layouts whose bits have room for the ID, by what snowflake_decode() gives.
    client
        .batch_execute(
            "CREATE FUNCTION expected(id bigint) RETURNS TABLE (
                 layout text, issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer)
                 BEGIN ATOMIC
                     SELECT name, d.* FROM (
                         SELECT place, name, (SELECT sum(bits[1]::integer) FROM regexp_matches(fields, '[0-9]+', 'g') bits) AS bits
                         FROM (SELECT row_number() OVER () AS place, * FROM snowflake_layouts) l) layouts
                     CROSS JOIN LATERAL snowflake_decode(
                         CASE WHEN bits = 64 OR id >= 0 AND id::numeric < 2::numeric ^ bits THEN id END, name) d
                     WHERE d.issued_at <= now() + interval '1 day'
                     ORDER BY d.issued_at DESC, place;
                 END",
        )
        .unwrap_or_else(|error| panic!("{error:?}"));
    for (id, some) in [
        ("0", "flat twitter mastodon"),
        ("1541815603606036480", "flat twitter leaf discord instagram"),
        ("175928847299117063", "discord"),
        ("snowflake_nextval()", "twitter"),
        ("snowflake_min_id(now() + interval '23 hours', 'sonyflake')", "sonyflake"),
        ("snowflake_min_id(now() + interval '25 hours', 'js')", "flat"),
        // Only layouts of 64 bits have negative ones, far in the future.
        ("-1", ""),
        ("-9223372036854775808", ""),
        ("9223372036854775807", ""),
        ("NULL", ""),
    ] {
        let id = value(&mut client, &format!("SELECT {id}"));
        let rows = |client: &mut Client, function: &str| {
            value(client, &format!("SELECT string_agg(d::text, E'\\n') FROM {function}({id}) d"))
        };
        let shown = rows(&mut client, "snowflake_decode_all");
        assert_eq!(shown, rows(&mut client, "expected"), "{id}");
        for layout in some.split_whitespace() {
            assert!(shown.contains(&format!("({layout},")), "{id} in {layout}: {shown}");
        }
    }
    let future = "SELECT count(*) FROM snowflake_decode_all(snowflake_min_id(now() + interval '25 hours', 'js')) WHERE layout = 'js'";
    assert_eq!(value(&mut client, future), "0");
}

#[test]
fn wrong_arguments_are_refused_with_their_values_and_the_session_goes_on() {
    let (_database, mut client) = database();
    let range = "from 2010-11-04T01:42:54.657Z to 2080-07-10T17:30:30.208Z";
    for (query, code, words) in [
        ("SELECT snowflake_decode(-1)", "22003", ["must not be negative", "-1"]),
        ("SELECT snowflake_timestamp(-5)", "22003", ["must not be negative", "-5"]),
        ("SELECT snowflake_nextvals(0)", "22023", ["between 1 and 1000000", "is 0"]),
        ("SELECT snowflake_nextvals(-1)", "22023", ["between 1 and 1000000", "is -1"]),
        ("SELECT snowflake_nextvals(1000001)", "22023", ["between 1 and 1000000", "is 1000001"]),
        ("SELECT snowflake_min_id('2010-11-04 01:42:54.656999Z')", "22008", ["before the epoch", range]),
        ("SELECT snowflake_min_id('4713-01-01 BC')", "22008", ["before the epoch", range]),
        ("SELECT snowflake_min_id('2080-07-10 17:30:30.209Z')", "22008", ["after the end", range]),
        ("SELECT snowflake_min_id('2026-01-01Z', 'w10 t41')", "22023", ["do not sort by time", "\"w10 t41\""]),
    ] {
        assert_refused(&error(&mut client, query), code, &words);
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

/// They may become wider, and not narrower.
#[test]
fn arguments_at_their_limits_are_taken() {
    let (_database, mut client) = database();
    let tables = "CREATE TABLE orders (id snowflake PRIMARY KEY); INSERT INTO orders VALUES (1);
                  CREATE TABLE parts (id bigint) PARTITION BY RANGE (id)";
    client.batch_execute(tables).expect("tables");
    for (query, expected) in [
        ("SELECT count(*) FROM snowflake_nextvals(1)", "1"),
        ("SELECT count(*) FROM snowflake_nextvals(1000000)", "1000000"),
        ("SELECT count(*) FROM snowflake_poll(NULL::orders, 0, 1)", "1"),
        ("SELECT count(*) FROM snowflake_poll(NULL::orders, 0, 2147483647, wait => '1 minute')", "1"),
        ("SELECT snowflake_shard_of(snowflake_nextval_for_shard(1, 0), 1)", "0"),
        ("SELECT snowflake_shard_of(1, 2147483647) BETWEEN 0 AND 2147483646", "t"),
        ("SELECT count(*) FROM snowflake_create_partitions('parts', '1 s', 0)", "1"),
        ("SELECT count(*) > 990 FROM snowflake_create_partitions('parts', '1 s', 1000)", "t"),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
}

#[test]
fn milliseconds_survive_exactly() {
    let (_database, mut client) = database();
    let query = "SELECT count(*) FROM generate_series(0, 9999) ms,
        LATERAL (SELECT timestamptz '2024-12-31 23:59:55Z' + ms * interval '1 ms' AS at) t
        WHERE snowflake_timestamp(snowflake_min_id(at)) <> at";
    assert_eq!(value(&mut client, query), "0");
}

#[test]
fn a_time_range_uses_the_index_on_the_id() {
    let (_database, mut client) = database();
    // Of the last second before now, whenever the server's own IDs are.
    client
        .batch_execute(
            "CREATE TABLE event (id bigint PRIMARY KEY, n integer);
             INSERT INTO event SELECT snowflake_compose(now() - n / 50 * interval '1 ms', 0, 1, 49 - n % 50), n
                 FROM generate_series(0, 49999) n;
             ANALYZE event",
        )
        .expect("a table");
    for until in [", now()", ""] {
        let range = format!("snowflake_within(id, now() - interval '1 ms'{until})");
        let plan = plan(&mut client, &format!("EXPLAIN SELECT * FROM event WHERE {range}"));
        assert!(plan.contains("Index Scan using event_pkey"), "{plan}");
        assert!(plan.contains("Index Cond") && !plan.contains("snowflake_within"), "{plan}");
    }

    // A range says the same as the timestamps do, wherever it begins and ends.
    let query = "SELECT count(*) FROM event a, generate_series(1, 50) step,
        LATERAL (SELECT snowflake_timestamp((SELECT min(id) FROM event)) + step * interval '1 ms' AS at) t
        WHERE snowflake_within(id, at, at + interval '3 ms')
           <> (snowflake_timestamp(id) >= at AND snowflake_timestamp(id) < at + interval '3 ms')";
    assert_eq!(value(&mut client, query), "0");
}

#[test]
fn ids_can_be_taken_in_a_parallel_plan() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE source AS SELECT generate_series(1, 200000) AS n;
             ANALYZE source;
             SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0",
        )
        .expect("a table");
    let query = "SELECT count(DISTINCT id) FROM (SELECT snowflake_nextval() AS id FROM source) s";
    let counting = plan(&mut client, &format!("EXPLAIN {query}"));
    assert!(counting.contains("Parallel Seq Scan"), "{counting}");
    assert_eq!(value(&mut client, query), "200000");

    // PostgreSQL makes a table in parallel, and the workers take the IDs.
    let create = "CREATE TABLE made AS SELECT snowflake_nextval() AS id FROM source";
    let creating = plan(&mut client, &format!("EXPLAIN (VERBOSE, COSTS OFF) {create}"));
    let (_, below_gather) = creating.split_once("Gather").unwrap_or_else(|| panic!("not in parallel:\n{creating}"));
    let (_, scan) =
        below_gather.split_once("Parallel Seq Scan").unwrap_or_else(|| panic!("not in parallel:\n{creating}"));
    assert!(scan.contains("Output: snowflake_nextval()"), "not taken by the workers:\n{creating}");
    client.batch_execute(create).expect("a table");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM made"), "200000");

    // It inserts in one process, whatever the key is; the IDs do not change the plan.
    client.batch_execute("CREATE TABLE filled (id bigint PRIMARY KEY, n integer)").expect("a table");
    let insert = |key: &str| format!("INSERT INTO filled SELECT {key}, n FROM source");
    let mut gathers = |key| plan(&mut client, &format!("EXPLAIN {}", insert(key))).contains("Gather");
    assert_eq!(gathers("snowflake_nextval()"), gathers("n"));
    client.batch_execute(&insert("snowflake_nextval()")).expect("distinct IDs");
}

/// A function that is not VOLATILE would be called again wherever its value is used.
#[test]
fn an_id_that_a_query_uses_twice_is_one_id() {
    let (_database, mut client) = database();
    let query = "WITH ids AS (SELECT snowflake_nextval() AS id FROM generate_series(1, 1000))
        SELECT count(*) FROM ids WHERE id < id OR id > id";
    assert_eq!(value(&mut client, query), "0");
}

#[test]
fn status_shows_the_configuration_the_mark_and_what_was_issued() {
    let builder = Cluster::builder()
        .worker(7)
        .set("snowflake_pg.layout", "twitter")
        .set("snowflake_pg.datacenter_id", 3)
        .with_defaults();
    let cluster = builder.set("timezone", "UTC").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let status = |client: &mut Client, column: &str| value(client, &format!("SELECT {column} FROM snowflake_status"));
    while status(&mut client, "state") != "idle" {
        std::thread::yield_now(); // The keeper is about to, when the start margin has passed.
    }
    assert_eq!(status(&mut client, "state"), "idle");
    assert_eq!(status(&mut client, "ids_issued"), "0");
    assert_eq!(status(&mut client, "durable_mark > now()"), "t");
    assert_eq!(status(&mut client, "last_issued_at"), "NULL");
    assert_eq!(status(&mut client, "pg_current_xact_id_if_assigned()"), "NULL", "so standbys show it, too");

    client.batch_execute("SELECT snowflake_nextval(); SELECT snowflake_nextvals(12345)").expect("IDs");
    for (column, expected) in [
        ("state", "ready"),
        ("worker_id", "7"),
        ("datacenter_id", "3"),
        ("layout", "t41 d5 w5 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z"),
        ("ids_issued", "12346"),
        ("last_issued_at < durable_mark", "t"),
        ("lead < interval '3 s'", "t"),
        ("usable_until", "2080-07-10 17:30:30.208+00"),
    ] {
        assert_eq!(status(&mut client, column), expected, "{column}");
    }
}

#[test]
fn an_ordinary_role_can_issue_decode_and_look_unless_it_is_told_not_to() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    client
        .batch_execute(
            "SELECT snowflake_decode(snowflake_nextval()); SELECT * FROM snowflake_status;
             SELECT * FROM snowflake_identity(); SELECT snowflake_issued_elsewhere(1)",
        )
        .expect("functions for everyone");
    assert_eq!(error(&mut client, "SHOW snowflake_pg.state_directory").code().code(), "42501", "for administrators");
    client
        .batch_execute("RESET ROLE; REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC; SET ROLE app")
        .expect("a revocation");
    assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), "42501");
}

/// A database of another encoding could not read anything else.
#[test]
fn the_scripts_and_the_control_files_are_ascii() {
    let (database, _client) = database();
    let mut seen = 0;
    for entry in fs::read_dir(database.server().extension_scripts()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("snowflake_")) {
            let text = fs::read_to_string(&path).expect("a script");
            assert_eq!(text.lines().find(|line| !line.is_ascii()), None, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen}");
}

/// Those of 1.0 have one version. What can still change has its own, below 1.0.
#[test]
fn the_control_files_have_the_version_of_the_crate_or_one_that_promises_less() {
    for extension in ["snowflake_pg", "snowflake_registry"] {
        assert_eq!(version_of(extension), env!("CARGO_PKG_VERSION"), "{extension}");
    }
    for (extension, page) in [
        ("snowflake_adopt", "docs/adopting.md"),
        ("snowflake_feed", "docs/reading.md"),
        ("snowflake_hosted", "docs/hosted.md"),
    ] {
        let version = version_of(extension);
        assert!(version.starts_with("0."), "{extension}: {version}");
        let page = std::fs::read_to_string(project().join(page)).expect("a page");
        assert!(
            page.contains(&format!("version {version}")),
            "{extension} has version {version}, and its page does not"
        );
    }
}

#[test]
fn the_extension_can_live_in_any_schema_and_be_moved() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "DROP EXTENSION snowflake_pg; CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids;
             SELECT ids.snowflake_within(ids.snowflake_nextval(), '-infinity', 'infinity');
             CREATE SCHEMA other; ALTER EXTENSION snowflake_pg SET SCHEMA other;
             SELECT other.snowflake_within(other.snowflake_nextval(), '-infinity', 'infinity');
             SELECT * FROM other.snowflake_status",
        )
        .expect("functions that do not depend on the search path");
}

#[test]
fn psql_shows_the_functions_in_lines_of_less_than_250_characters() {
    let (database, _client) = database();
    let output = database.psql().args(["--command", "\\df snowflake*"]).output().expect("psql");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("snowflake_get_status"), "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest < Some(250), "{widest:?}\n{text}");
}
