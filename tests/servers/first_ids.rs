//! The first minute of a new server, as a user of README sees it.

use std::fs;
use testbed::{Cluster, project, test, value};

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
    let cluster = Cluster::builder().worker(0).set("snowflake_pg.start_margin", "1h").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SET timezone = 'UTC'").expect("the extension");
    cluster.wait_until("SELECT state = 'waiting' FROM snowflake_status");
    let mut status = |column: &str| value(&mut client, &format!("SELECT {column} FROM snowflake_status"));
    let problem = status("problem");
    assert!(problem.starts_with("The server does not issue IDs yet"), "{problem}");
    let until = problem.split_once("There is nothing to do until ").and_then(|(_, rest)| rest.strip_suffix('.'));
    let until = until.unwrap_or_else(|| panic!("{problem}"));
    assert_eq!(status(&format!("'{until}' BETWEEN now() AND now() + interval '1 hour'")), "t", "{problem}");
    assert_eq!(status("problem_sqlstate"), "53400");
}
