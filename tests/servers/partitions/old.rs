//! What `snowflake_partitions()` shows, and what `snowflake_drop_partitions()` drops.

use super::{rows, server};
use std::thread;
use testbed::postgres::Client;
use testbed::{Cluster, error, test, value};

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

/// As psql's \gexec does.
fn execute(client: &mut Client, plan: &str) -> usize {
    let commands = rows(client, plan);
    for command in &commands {
        client.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
    commands.len()
}

#[test]
fn the_plan_detaches_and_drops_what_is_older_than_a_time_while_a_reader_continues() {
    let (cluster, mut client) = server_with_days();
    let plan = "SELECT command FROM snowflake_drop_partitions('\"My Schema\".\"Days\"', '2024-02-27 12:00Z')";
    let detach = |day: i32| {
        format!("ALTER TABLE \"My Schema\".\"Days\" DETACH PARTITION \"My Schema\".\"Day {day}\" CONCURRENTLY")
    };
    let drop = |day: i32| format!("DROP TABLE \"My Schema\".\"Day {day}\"");
    assert_eq!(rows(&mut client, plan), [detach(25), drop(25), detach(26), drop(26)], "not that of noon");
    let shown = "SELECT partition, rows FROM snowflake_drop_partitions('\"My Schema\".\"Days\"', '2024-02-27Z')";
    let [one, other] = ["\"My Schema\".\"Day 25\"|0", "\"My Schema\".\"Day 26\"|100"];
    assert_eq!(rows(&mut client, shown), [one, one, other, other]);
    let psql = cluster.psql().args(["--command", plan, "--command", "\\q"]).output().expect("psql");
    assert!(psql.status.success());
    assert_eq!(rows(&mut client, &format!("{LIST}('\"My Schema\".\"Days\"')")).len(), 5, "a plan changes nothing");

    // A transaction that has read the table would block, and be blocked by, DROP TABLE alone.
    let reader = thread::spawn({
        let mut reader = cluster.connect();
        move || {
            for _ in 0..200 {
                reader.batch_execute("SELECT count(*) FROM \"My Schema\".\"Days\"").expect("a reader");
            }
        }
    });
    assert_eq!(execute(&mut client, plan), 4);
    reader.join().expect("a reader");
    let left = rows(&mut client, "SELECT partition FROM snowflake_partitions('\"My Schema\".\"Days\"')");
    assert_eq!(left, ["\"My Schema\".\"Day 27\"", "\"My Schema\".\"Day 28\"", "\"My Schema\".\"Day 29\""]);
    assert_eq!(execute(&mut client, plan), 0, "nothing is left to do");
}

#[test]
fn a_detach_that_was_interrupted_is_finished_and_a_default_partition_is_reckoned_with() {
    let (cluster, mut client) = server_with_days();
    let plan = "SELECT command FROM snowflake_drop_partitions('\"My Schema\".\"Days\"', '2024-02-26Z')";
    let mut reader = cluster.connect();
    reader.batch_execute("BEGIN; SELECT count(*) FROM \"My Schema\".\"Days\"").expect("a transaction");
    client.batch_execute("SET lock_timeout = '100ms'").expect("a setting");
    let commands = rows(&mut client, plan);
    assert_eq!(error(&mut client, &commands[0]).code().code(), "55P03", "it waits for the reader");
    reader.batch_execute("COMMIT").expect("the end of the reader");
    let again = rows(&mut client, plan);
    assert!(again[0].ends_with("DETACH PARTITION \"My Schema\".\"Day 25\" FINALIZE"), "{again:?}");
    assert_eq!(execute(&mut client, plan), 2);
    client
        .batch_execute("CREATE TABLE \"My Schema\".others PARTITION OF \"My Schema\".\"Days\" DEFAULT")
        .expect("a default partition");
    let plan = plan.replace("02-26Z", "02-27Z");
    assert!(rows(&mut client, &plan)[0].ends_with("DETACH PARTITION \"My Schema\".\"Day 26\""));
    assert_eq!(execute(&mut client, &plan), 2);
}

#[test]
fn without_a_dry_run_partitions_are_dropped_at_once_and_come_back_with_a_rollback() {
    let (_cluster, mut client) = server_with_days();
    client.batch_execute("BEGIN").expect("a transaction");
    let drop =
        "SELECT command FROM snowflake_drop_partitions('\"My Schema\".\"Days\"', '2024-02-27Z', dry_run => false)";
    assert_eq!(rows(&mut client, drop), ["DROP TABLE \"My Schema\".\"Day 25\"", "DROP TABLE \"My Schema\".\"Day 26\""]);
    assert_eq!(value(&mut client, "SELECT count(*) FROM \"My Schema\".\"Days\""), "0");
    client.batch_execute("ROLLBACK").expect("the end");
    assert_eq!(value(&mut client, "SELECT count(*) FROM \"My Schema\".\"Days\""), "100");
    assert_eq!(rows(&mut client, drop).len(), 2);
    assert_eq!(rows(&mut client, drop).len(), 0);
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_partitions('\"My Schema\".\"Days\"')"), "3");
}

#[test]
fn nothing_is_dropped_for_a_time_to_come_or_for_a_role_that_does_not_own_the_table() {
    let (_cluster, mut client) = server_with_days();
    let drop = |before: &str| format!("SELECT snowflake_drop_partitions('\"My Schema\".\"Days\"', {before}, false)");
    for before in ["'infinity'", "now() + interval '1 hour'"] {
        let refused = error(&mut client, &drop(before));
        assert_eq!((refused.code().code(), refused.message()), ("22023", "before must not be in the future"));
        assert!(refused.detail().is_some_and(|detail| detail.starts_with("The clock shows 2024-02-28T12:")));
    }
    for before in ["'-infinity'", "'1999-01-01'", "NULL"] {
        assert_eq!(rows(&mut client, &drop(before)).len(), 0, "{before}");
    }
    let unsorted = "SELECT snowflake_drop_partitions('\"My Schema\".\"Days\"', now(), false, 'w10 t41')";
    assert_eq!(error(&mut client, unsorted).message(), "IDs of this layout do not sort by time");
    client
        .batch_execute(
            "CREATE ROLE app; GRANT ALL ON SCHEMA \"My Schema\" TO app;
             GRANT SELECT ON \"My Schema\".\"Days\" TO app; SET ROLE app",
        )
        .expect("a role");
    assert_eq!(error(&mut client, &drop("'2024-02-27Z'")).code().code(), "42501");
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_partitions('\"My Schema\".\"Days\"')"), "5");
    client.batch_execute("RESET ROLE; CREATE TABLE plain (id bigint)").expect("a table");
    for call in ["snowflake_partitions('plain')", "snowflake_drop_partitions('plain', now())"] {
        assert_eq!(error(&mut client, &format!("SELECT {call}")).message(), "\"plain\" is not a partitioned table");
    }
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
