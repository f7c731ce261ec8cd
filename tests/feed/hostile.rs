//! A server that lies gives wrong rows of its own, and nothing else.

use super::fixture::{Fleet, insert, read, read_all};
use testbed::test;

const HORIZON: &str = "CREATE OR REPLACE FUNCTION snowflake_horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE AS";
const POLL: &str = "CREATE OR REPLACE FUNCTION snowflake_poll(
    relation anyelement, after bigint, max_rows integer DEFAULT 1000, column_name name DEFAULT NULL)
    RETURNS SETOF anyelement LANGUAGE plpgsql AS";

#[test]
fn a_server_that_lies_spoils_no_row_of_others() {
    for (lie, body, problem) in [
        (HORIZON, "BEGIN RETURN 9223372036854775807; END", ""),
        (HORIZON, "BEGIN RETURN NULL; END", "server has no horizon"),
        (HORIZON, "BEGIN RETURN -5; END", ""),
        (HORIZON, "BEGIN RAISE 'no'; END", "no"),
        (POLL, "BEGIN RETURN QUERY SELECT (jsonb_populate_record(relation, '{\"id\": 1}')).*; END", "not asked for"),
        (
            POLL,
            "BEGIN RETURN QUERY SELECT (jsonb_populate_record(relation, '{\"id\": 9223372036854775807}')).*; END",
            "",
        ),
        (POLL, "BEGIN RETURN QUERY SELECT (jsonb_populate_record(relation, '{}')).*; END", "not asked for"),
        (POLL, "BEGIN RETURN QUERY SELECT o.* FROM outbox o; RETURN QUERY SELECT o.* FROM outbox o; END", ""),
    ] {
        let fleet = Fleet::start(2);
        let mut client = fleet.reader.connect();
        insert(&fleet.members[0], &["one"]);
        assert_eq!(read_all(&mut client), "one");
        fleet.members[1]
            .connect()
            .batch_execute(&format!("{lie} $${body}$$"))
            .unwrap_or_else(|error| panic!("{error:?}"));
        insert(&fleet.members[0], &["two", "three"]);
        let mut all = String::new();
        // The order of one that is left out is lost, and no row of others.
        while !all.contains("three") {
            all += &read(&mut client, ", 1, patience => '1 ms'");
            if body.contains("-5") {
                break;
            }
        }
        assert!(fleet.shows(1, "problem").contains(problem), "{body}: {}", fleet.shows(1, "problem"));
        assert_eq!(fleet.shows(0, "problem"), "", "{body}");
        if !body.contains("-5") {
            assert_eq!(all, "twothree", "{body}");
        }
    }
}

/// Columns of another type, or that are not there.
#[test]
fn rows_that_the_reader_cannot_hold_are_a_problem_of_their_server() {
    let fleet = Fleet::start(2);
    let mut client = fleet.reader.connect();
    let change = "ALTER TABLE outbox ADD n text; INSERT INTO outbox (note, n) VALUES ('x', 'no number')";
    fleet.members[1].connect().batch_execute(change).expect("a column");
    client.batch_execute("ALTER TABLE outbox ADD n integer").expect("a column");
    assert_eq!(read(&mut client, ""), "");
    assert!(fleet.shows(0, "problem").starts_with("column r.n does not exist"), "{}", fleet.shows(0, "problem"));
    let problem = fleet.shows(1, "problem");
    assert!(problem.starts_with("invalid input syntax for type integer"), "{problem}");
}
