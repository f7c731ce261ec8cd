//! The first minute of a new server, as a user of README sees it.

use std::fs;
use testbed::{Cluster, Signal, error, project, test, value};

#[test]
fn a_range_up_to_now_finds_the_rows_of_the_first_example_at_once() {
    let readme = fs::read_to_string(project().join("README.md")).expect("README");
    let mut examples = readme.split("```sql\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let (example, _) = examples.find(|(sql, _)| sql.contains("CREATE TABLE orders")).expect("the first example");
    let cluster = Cluster::builder().worker(0).with_all_defaults().start();
    let mut client = cluster.connect();
    client.batch_execute(example).expect("rows");
    let rows = "SELECT count(*) FROM orders WHERE snowflake_timestamp(id) BETWEEN now() - interval '1 hour' AND now()";
    assert_eq!(value(&mut client, rows), "2");
    assert_eq!(value(&mut client, "SELECT borrowed_ids FROM snowflake_status"), "0", "ahead of the clock");
}

#[test]
fn a_new_server_whose_ids_may_be_far_ahead_of_its_clock_waits_no_longer_for_that() {
    let cluster = Cluster::builder().worker(0).with_all_defaults().set("snowflake_pg.max_borrow", "1h").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SET statement_timeout = '2min'").expect("the extension");
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
}

#[test]
fn a_new_server_says_until_when_there_is_nothing_to_do() {
    let cluster = Cluster::builder()
        .worker(0)
        .set("snowflake_pg.max_borrow", "1h")
        .set("snowflake_pg.max_first_wait", "1h")
        .start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SET timezone = 'UTC'").expect("the extension");
    cluster.wait_until("SELECT state = 'waiting' FROM snowflake_status");
    let mut status = |column: &str| value(&mut client, &format!("SELECT {column} FROM snowflake_status"));
    let problem = status("problem");
    assert!(problem.starts_with("The server does not issue IDs yet"), "{problem}");
    let until =
        problem.split_once("IDs begin at ").and_then(|(_, rest)| rest.strip_suffix(". Nothing to do: IDs begin then."));
    let until = until.unwrap_or_else(|| panic!("{problem}"));
    assert_eq!(status(&format!("'{until}' BETWEEN now() AND now() + interval '1 hour'")), "t", "{problem}");
    assert_eq!(status("problem_sqlstate"), "53400");
}

/// Its mark is an hour earlier.
#[test]
fn a_server_that_started_by_a_clock_that_was_ahead_says_when_its_ids_begin() {
    let mut cluster = Cluster::builder().worker(0).own_clock().start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    cluster.set_clock(3600.0);
    cluster.start();
    cluster.wait_for_log("durable mark found, IDs begin at ");
    cluster.set_clock(0.0);
    let mut client = cluster.connect();
    client.batch_execute("SET timezone = 'UTC'").expect("a setting");
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    let detail = refused.detail().expect("a detail");
    let (_, after) = detail.split_once(", and IDs begin after ").unwrap_or_else(|| panic!("{refused:?}"));
    let (after, _) = after.split_once(';').expect("a limit");
    let log = cluster.log();
    let (begin, _) = log.rsplit_once("IDs begin at ").and_then(|(_, rest)| rest.split_once('\n')).expect("a time");
    assert_eq!(value(&mut client, &format!("SELECT '{begin}'::timestamptz - '{after}'")), "00:00:00.001");
    let hint = refused.hint().expect("a hint");
    let (_, until) = hint.split_once("IDs will be issued once it reaches ").unwrap_or_else(|| panic!("{refused:?}"));
    let (until, _) = until.split_once(',').expect("another way");
    let max_borrow = format!("SELECT '{begin}'::timestamptz - '{until}' BETWEEN '4.9 s' AND '5.1 s'");
    assert_eq!(value(&mut client, &max_borrow), "t", "{refused:?}, and the log says {begin}");
    let hour = format!("SELECT '{begin}'::timestamptz - clock_timestamp() BETWEEN '50 min' AND '1 h'");
    assert_eq!(value(&mut client, &hour), "t", "{begin}");
    let problem = value(&mut client, "SELECT problem FROM snowflake_status");
    assert!(problem.contains(until), "{problem}");
}

/// Its standby cannot tell it from a primary whose marks did not arrive.
#[test]
fn a_standby_whose_primary_is_lost_before_its_first_id_issues_ids_once_that_is_accepted() {
    let builder = Cluster::builder().worker(0).set("snowflake_pg.max_borrow", "1h");
    let mut primary = builder.set("snowflake_pg.max_first_wait", "1h").start();
    primary.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    primary.wait_until("SELECT state = 'waiting' FROM snowflake_status");
    let mut standby = Cluster::builder().worker(0).standby_of(&primary);
    primary.stop(Signal::KILL);
    standby.promote();
    for _ in 0..2 {
        let refused = error(&mut standby.connect(), "SELECT snowflake_nextval()");
        assert_eq!(refused.code().code(), "55000", "{refused:?}");
        assert!(refused.message().starts_with("WAL does not contain the durable mark"), "{refused:?}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("snowflake_accept_mark()")), "{refused:?}");
        standby.restart(Signal::INT);
    }
    standby.connect().batch_execute("SELECT snowflake_accept_mark(), snowflake_nextval()").expect("an ID");
}
