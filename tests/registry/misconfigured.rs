//! What a server says that cannot use its registry, and what a DBA is to do.

use super::fixture::{answer_of, member, numbered, start, worker_of};
use testbed::postgres::error::DbError;
use testbed::{Cluster, Registry, assert_refused, error, test};

fn refusal(server: &Cluster) -> DbError {
    error(&mut server.connect(), "SELECT snowflake_nextval()")
}

#[test]
fn a_database_without_the_registry_names_the_extension_and_the_script() {
    let registry = Registry::start();
    let conninfo = format!("host={} user=fleet dbname=template1", registry.host().display());
    let server = start(member(&registry).set("snowflake_pg.registry_conninfo", conninfo));
    let refused = refusal(&server);
    assert_refused(&refused, "55000", &["Schema \"snowflake_registry\"", "CREATE EXTENSION snowflake_registry"]);
}

#[test]
fn a_role_without_the_right_to_lease_names_the_role_that_has_it() {
    let registry = Registry::start();
    registry.connect().batch_execute("REVOKE snowflake_registry_server FROM fleet").expect("a role");
    let refused = refusal(&start(member(&registry)));
    assert_refused(&refused, "55000", &["Permission denied", "Grant snowflake_registry_server"]);
}

#[test]
fn a_lease_that_ends_since_its_role_has_lost_the_right_ends_in_an_error_that_does_not_pass() {
    let registry = Registry::start();
    let server = start(member(&registry).set("snowflake_pg.registry_lease", "5s").set("snowflake_pg.max_borrow", "1s"));
    worker_of(&server);
    registry.connect().batch_execute("REVOKE snowflake_registry_server FROM fleet").expect("a role");
    server.wait_until("SELECT state = 'no lease' FROM snowflake_status");
    let refused = refusal(&server);
    assert_refused(&refused, "55000", &["worker ID ends at", "Permission denied", "Grant snowflake_registry_server"]);
    registry.connect().batch_execute("GRANT snowflake_registry_server TO fleet").expect("a role");
    server.wait_until("SELECT state <> 'no lease' FROM snowflake_status");
    answer_of(&server, "SELECT snowflake_nextval()");
}

#[test]
fn a_number_for_which_the_layout_has_no_room_is_leased_to_nobody() {
    let registry = Registry::start();
    let server = start(numbered(&registry, 5000));
    assert_eq!(refusal(&server).code().code(), "F0000");
    assert_eq!(answer_of(&registry, "SELECT count(*) FROM snowflake_registry.workers"), "0");
}

#[test]
fn a_server_without_room_for_background_workers_says_so() {
    let registry = Registry::start();
    let server = start(member(&registry).set("max_worker_processes", 1).set("max_logical_replication_workers", 0));
    let refused = refusal(&server);
    assert_refused(&refused, "55000", &["registry client is not running", "max_worker_processes"]);
}

#[test]
fn a_server_in_single_user_mode_issues_nothing_and_says_why() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    server.stop(testbed::Signal::INT);
    server.single_user("SELECT snowflake_nextval();\n");
    server.wait_for_log("DETAIL:  There are no background workers in single-user mode.");
}

#[test]
fn a_connection_string_that_is_none_is_refused_without_being_quoted() {
    let registry = Registry::start();
    let server = start(member(&registry));
    let refused = error(&mut server.connect(), "ALTER SYSTEM SET snowflake_pg.registry_conninfo = 'hunter2'");
    assert_refused(&refused, "22023", &["registry_conninfo", "\"host=registry.example "]);
    assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
}

/// As one of U+001F, which could separate the parts of an error.
#[test]
fn an_error_of_the_registry_is_shown_whole_whatever_characters_it_has() {
    let registry = Registry::start();
    let conninfo = format!("host={} user=fleet dbname=a\u{1f}b", registry.host().display());
    let server = start(member(&registry).set("snowflake_pg.registry_conninfo", conninfo));
    let detail = refusal(&server).detail().map(str::to_owned).unwrap_or_default();
    assert!(detail.ends_with("database \"a\\u{1f}b\" does not exist."), "{detail}");
}
