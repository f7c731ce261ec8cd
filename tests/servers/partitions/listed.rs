//! What `snowflake_partitions()` shows, and what is dropped by the query in docs/time.md.

use super::{rows, server};
use std::fs;
use std::io::Write;
use std::thread;
use testbed::postgres::Client;
use testbed::{Cluster, error, project, test, value};

const LIST: &str = "SELECT partition, begins_at, ends_at, rows, bytes > 0 FROM snowflake_partitions";

/// Days from 2024-02-25 to 2024-02-29, with a hundred rows in that of the 26th.
fn server_with_days() -> (Cluster, Client) {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE SCHEMA \"My Schema\";
             CREATE TABLE \"My Schema\".\"Days\" (id bigint PRIMARY KEY, n integer) PARTITION BY RANGE (id)",
        )
        .expect("a table");
    for day in 25..30 {
        let create = format!(
            "CREATE TABLE \"My Schema\".\"Day {day}\" PARTITION OF \"My Schema\".\"Days\"
             FOR VALUES FROM ({}) TO ({})",
            bound(&mut client, day),
            bound(&mut client, day + 1)
        );
        client.batch_execute(&create).expect("a partition");
    }
    let fill = format!(
        "INSERT INTO \"My Schema\".\"Days\" SELECT {} + n, n FROM generate_series(1, 100) n; ANALYZE",
        bound(&mut client, 26)
    );
    client.batch_execute(&fill).expect("rows");
    (cluster, client)
}

/// The first ID of a day after the beginning of February.
fn bound(client: &mut Client, day: i32) -> String {
    value(client, &format!("SELECT snowflake_min_id('2024-02-01Z'::timestamptz + interval '1 day' * {})", day - 1))
}

#[test]
fn partitions_are_listed_with_their_times_their_rows_and_a_default_at_the_end() {
    let (_cluster, mut client) = server_with_days();
    client
        .batch_execute(
            "CREATE ROLE app; GRANT USAGE ON SCHEMA \"My Schema\" TO app;
             GRANT SELECT ON \"My Schema\".\"Days\" TO app; SET ROLE app",
        )
        .expect("a role");
    let day = |day: i32, rows: i32| {
        let [from, until] = [0, 1].map(|more| {
            let day = day + more;
            if day > 29 { format!("2024-03-{:02}", day - 29) } else { format!("2024-02-{day:02}") }
        });
        format!("\"My Schema\".\"Day {day}\"|{from} 00:00:00+00|{until} 00:00:00+00|{rows}|t")
    };
    let listed = rows(&mut client, &format!("{LIST}('\"My Schema\".\"Days\"')"));
    assert_eq!(listed, [day(25, 0), day(26, 100), day(27, 0), day(28, 0), day(29, 0)]);
    client
        .batch_execute(
            "RESET ROLE;
             CREATE TABLE open (id bigint) PARTITION BY RANGE (id);
             CREATE TABLE others PARTITION OF open DEFAULT;
             CREATE TABLE low PARTITION OF open FOR VALUES FROM (MINVALUE) TO (4194304);
             CREATE TABLE high PARTITION OF open FOR VALUES FROM (9223372032559808512) TO (MAXVALUE) PARTITION BY HASH (id);
             CREATE TABLE leaf PARTITION OF high FOR VALUES WITH (MODULUS 1, REMAINDER 0);
             INSERT INTO leaf SELECT 9223372036854775807 FROM generate_series(1, 50); ANALYZE leaf",
        )
        .expect("open ends");
    assert_eq!(
        rows(&mut client, &format!("{LIST}('open')")),
        [
            "low|-infinity|2010-11-04 01:42:54.658+00|NULL|f",
            "high|2080-07-10 17:30:29.185+00|infinity|50|t",
            "others|NULL|NULL|NULL|f",
        ]
    );
    // By another layout, the same bounds are other times.
    let discord =
        rows(&mut client, "SELECT begins_at FROM snowflake_partitions('\"My Schema\".\"Days\"', 'discord') LIMIT 1");
    assert_eq!(discord, ["2028-04-22 22:17:05.343+00"]);
}

/// The query in the document that drops old partitions, for the table of these tests and another time.
fn drop_before(time: &str) -> String {
    let document = fs::read_to_string(project().join("docs/time.md")).expect("a document");
    let block = document.split("```sql\n").find(|block| block.contains("DETACH PARTITION")).expect("a query");
    let query = block.split("```").next().expect("a query");
    let replace = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        text.replace(from, to)
    };
    let query = replace(query, "now() - interval '90 days'", &format!("timestamptz '{time}'"));
    replace(&query, "'measurements'", "'\"My Schema\".\"Days\"'")
}

/// As a DBA types it.
fn run(cluster: &Cluster, script: &str) -> (bool, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(script.as_bytes()).expect("a file");
    let output = cluster.psql().arg("--file").arg(file.path()).output().expect("psql");
    (output.status.success(), String::from_utf8(output.stderr).expect("text"))
}

fn partitions(client: &mut Client) -> String {
    rows(client, "SELECT partition FROM snowflake_partitions('\"My Schema\".\"Days\"')")
        .join(" ")
        .replace("\"My Schema\".", "")
        .replace("\"Day ", "")
        .replace('"', "")
}

#[test]
fn the_query_detaches_and_drops_what_is_older_than_a_time_while_a_reader_continues() {
    let (cluster, mut client) = server_with_days();
    let at_noon = drop_before("2024-02-27 12:00Z");
    let detach = |day: i32| {
        format!("ALTER TABLE \"My Schema\".\"Days\" DETACH PARTITION \"My Schema\".\"Day {day}\" CONCURRENTLY")
    };
    let drop = |day: i32| format!("DROP TABLE \"My Schema\".\"Day {day}\"");
    let plan = at_noon.replace("\\set ON_ERROR_STOP on", "").replace("\\gexec", "ORDER BY ends_at");
    assert_eq!(
        rows(&mut client, &plan),
        [25, 26].map(|day| format!("{}|{}", detach(day), drop(day))),
        "not that of noon"
    );

    // A transaction that has read the table would block, and be blocked by, DROP TABLE alone.
    let reader = thread::spawn({
        let mut reader = cluster.connect();
        move || {
            for _ in 0..200 {
                reader.batch_execute("SELECT count(*) FROM \"My Schema\".\"Days\"").expect("a reader");
            }
        }
    });
    assert_eq!(run(&cluster, &at_noon), (true, String::new()));
    reader.join().expect("a reader");
    assert_eq!(partitions(&mut client), "27 28 29");
    let tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'Day %' AND relkind = 'r'";
    assert_eq!(value(&mut client, tables), "3");
    assert_eq!(run(&cluster, &at_noon), (true, String::new()), "nothing is left to do");
    assert_eq!(partitions(&mut client), "27 28 29");
}

#[test]
fn a_partition_that_could_not_be_detached_is_not_dropped_and_the_query_finishes_it_later() {
    let (cluster, mut client) = server_with_days();
    let query = drop_before("2024-02-27Z");
    let mut reader = cluster.connect();
    reader.batch_execute("BEGIN; SELECT count(*) FROM \"My Schema\".\"Days\"").expect("a transaction");
    let (is_done, said) = run(&cluster, &format!("SET lock_timeout = '100ms';\n{query}"));
    assert!(!is_done && said.contains("lock timeout"), "{said}");
    let tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'Day %' AND relkind = 'r'";
    assert_eq!(value(&mut client, tables), "5");
    reader.batch_execute("COMMIT").expect("the end of the reader");
    assert_eq!(run(&cluster, &query), (true, String::new()));
    assert_eq!(partitions(&mut client), "27 28 29");
}

#[test]
fn a_default_partition_is_never_dropped_and_stops_the_query_until_it_may_lock() {
    let (cluster, mut client) = server_with_days();
    let others = "CREATE TABLE \"My Schema\".others PARTITION OF \"My Schema\".\"Days\" DEFAULT";
    client.batch_execute(others).expect("a default partition");
    let query = drop_before("2024-02-27Z");
    let (is_done, said) = run(&cluster, &query);
    assert!(!is_done && said.contains("when a default partition exists"), "{said}");
    assert_eq!(partitions(&mut client), "25 26 27 28 29 others");
    assert_eq!(run(&cluster, &query.replace("'CONCURRENTLY'", "''")), (true, String::new()));
    assert_eq!(partitions(&mut client), "27 28 29 others");
}

#[test]
fn only_a_partitioned_table_has_partitions_to_list() {
    let (_cluster, mut client) = server_with_days();
    client.batch_execute("CREATE TABLE plain (id bigint)").expect("a table");
    let refused = error(&mut client, "SELECT snowflake_partitions('plain')");
    assert_eq!(refused.message(), "\"plain\" is not a partitioned table");
    let unsorted = error(&mut client, "SELECT snowflake_partitions('\"My Schema\".\"Days\"', 'w10 t41')");
    assert_eq!(unsorted.message(), "IDs of this layout do not sort by time");
}

#[test]
fn psql_says_until_when_the_partitions_reach() {
    let (cluster, mut client) = server_with_days();
    client
        .batch_execute("ALTER TABLE \"My Schema\".\"Days\" DETACH PARTITION \"My Schema\".\"Day 29\"")
        .expect("a gap");
    for (every, ahead, until) in [
        ("1 day", 0, "2024-02-29T00:00:00Z"),
        ("1 day", 3, "2024-03-03T00:00:00Z"),
        ("1000 years", 0, "the end of the layout"),
    ] {
        let call = format!("SELECT snowflake_create_partitions('\"My Schema\".\"Days\"', '{every}', {ahead})");
        let output = cluster.psql().args(["--command", &call]).output().expect("psql");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said, format!("NOTICE:  partitions of \"Days\" reach until {until}\n"), "{every}");
    }
}
