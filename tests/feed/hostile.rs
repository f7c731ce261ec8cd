//! A server that lies gives wrong rows of its own, and nothing else. Objects of others change nothing.

use super::fixture::{Fleet, insert, read, read_all, wait_for_rows};
use super::liar::{Answer, Liar, columns, data, row};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::hostile::message;
use testbed::postgres::error::SqlState;
use testbed::{PATIENCE, error, test, value};

const FAR: i64 = 9_000_000_000_000_000_000;

fn honest() -> Answer {
    Answer::Rows(Some(FAR.to_string()), Some("2026-01-01 00:00:00+00".to_owned()), vec![])
}

/// A fleet with one server that is honest, and one that is not yet known to lie.
fn fleet() -> (Fleet, Liar) {
    let fleet = Fleet::start(1);
    let liar = Liar::start(honest());
    add(&fleet, "liar", &liar);
    (fleet, liar)
}

fn add(fleet: &Fleet, name: &str, liar: &Liar) {
    let add = format!(
        "CREATE SERVER {name} FOREIGN DATA WRAPPER dblink_fdw OPTIONS ({});
         CREATE USER MAPPING FOR postgres SERVER {name} OPTIONS (user 'postgres');
         SELECT snowflake_feed.add_server('all', '{name}', '-infinity')",
        liar.options()
    );
    fleet.reader.connect().batch_execute(&add).unwrap_or_else(|error| panic!("{error:?}"));
}

fn problem(fleet: &Fleet) -> String {
    value(&mut fleet.reader.connect(), "SELECT coalesce(problem, '') FROM snowflake_feed.servers WHERE server = 'liar'")
}

#[test]
fn a_server_that_lies_spoils_no_row_of_others_and_is_named() {
    let (fleet, liar) = fleet();
    let mut client = fleet.reader.connect();
    let horizon = || Some(FAR.to_string());
    let time = || Some("2026-01-01 00:00:00+00".to_owned());
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let with = |rows| Answer::Rows(horizon(), time(), rows);
    let all = [
        (Answer::Rows(Some(i64::MAX.to_string()), time(), vec![]), ""),
        (Answer::Rows(None, time(), vec![]), "has no horizon"),
        (Answer::Rows(Some("-5".into()), time(), vec![]), "horizon has gone back"),
        (Answer::Rows(Some("five".into()), time(), vec![]), "invalid input syntax for type bigint"),
        (Answer::Rows(Some("\"{}\"".into()), time(), vec![]), "invalid input syntax for type bigint"),
        (Answer::Rows(horizon(), Some("infinity".into()), vec![]), "server has sent what it was not asked for"),
        (Answer::Rows(horizon(), None, vec![]), "server has sent what it was not asked for"),
        (Answer::Rows(horizon(), Some("epoch of mine".into()), vec![]), "invalid input syntax for type timestamp"),
        (Answer::Worker(FAR, b"\xff"), "invalid byte sequence"),
        (with(vec![row(1, "old")]), "server has sent what it was not asked for"),
        (with(vec![(None, text("(x,1)"))]), "server has sent what it was not asked for"),
        (with(vec![(Some("5".into()), None)]), "server has sent what it was not asked for"),
        (with(vec![(Some("five".into()), text("(x,1)"))]), "invalid input syntax for type bigint"),
        (with(vec![row(i64::MAX, "last"), row(i64::MAX, "last")]), ""),
        (with(vec![row(1009, "one"), row(1010, "and another")]), "server has sent what it was not asked for"),
        (with(vec![(Some("2000".into()), text("(no end"))]), "malformed record literal"),
        (with(vec![(Some("2000".into()), text("(1,2,3)"))]), "malformed record literal"),
        (with(vec![(Some("2000".into()), text("(a,b)"))]), "invalid input syntax for type bigint"),
        (with(vec![(Some("2000".into()), Some(vec![b'x'; 4 << 20]))]), "malformed record literal"),
        (with(vec![(Some("2000".into()), Some(vec![b'(', 0xff, b',', b'1', b')']))]), "invalid byte sequence"),
        (Answer::Error("42000", b"no".to_vec()), "no"),
        (Answer::Error("57014", b"canceled".to_vec()), "canceled"),
        (Answer::Error("P0004", b"asserted".to_vec()), "asserted"),
        (Answer::Error("00000", b"success".to_vec()), "success"),
        (Answer::Error("40001", vec![b'x'; 1 << 20]), "xxx"),
        (Answer::Error("42000", b"\xff\xfe".to_vec()), "server has sent an error that is not valid"),
    ];
    for (lie, expected) in all {
        client
            .batch_execute(
                "UPDATE snowflake_feed.member SET read_to = 1000, horizon = 1001, problem = NULL WHERE server = 'liar'",
            )
            .expect("an update");
        liar.answer(lie);
        insert(&fleet.members[0], &["one", "two", "three"]);
        let (mut rows, mut problems, begin) = (String::new(), String::new(), Instant::now());
        while !rows.contains("three") {
            rows += &read(&mut client, ", 1, patience => '0'");
            problems += &problem(&fleet);
            // So each read asks it again.
            sleep(Duration::from_millis(50));
            assert!(begin.elapsed() < PATIENCE, "{expected}: only {rows}");
        }
        assert_eq!(rows, "onetwothree", "{expected}");
        assert_eq!(fleet.shows(0, "problem"), "", "{expected}");
        let shown = problems.chars().take(100).collect::<String>();
        assert!(problems.contains(expected) && problems.is_empty() == expected.is_empty(), "{expected}: {shown}");
        assert!(problem(&fleet).len() <= 1000);
    }
    client
        .batch_execute(
            "UPDATE snowflake_feed.member SET read_to = 1000, horizon = 1001, problem = NULL WHERE server = 'liar'",
        )
        .expect("an update");
    insert(&fleet.members[0], &["after"]);
    // Its rows can be in any order.
    liar.answer(with(vec![row(1009, "nine"), row(1007, "seven"), row(1008, "eight")]));
    wait_for_rows(&mut client, "seven eight nine");
    liar.answer(honest());
    wait_for_rows(&mut client, "after");
}

#[test]
fn a_server_that_answers_without_end_or_not_at_all_holds_others_up_for_seconds() {
    let (fleet, silent) = fleet();
    let first = message(b'T', &columns(1)[5..]);
    let horizon = [first, data(&[Some(format!("{{{FAR},2026-01-01,0}}").as_bytes())]), message(b'C', b"SELECT 1\0")];
    let horizon = horizon.concat();
    let row = data(&[Some(b"9000000000000000001"), Some(&[b'x'; 4000])]);
    let liars = [
        ("results", Answer::Endless(vec![], message(b'C', b"SELECT 0\0"))),
        ("copies", Answer::Endless(message(b'H', &[0; 3]), message(b'd', &[b'x'; 4000]))),
        ("rows", Answer::Endless([horizon, columns(2)].concat(), row)),
    ];
    let liars = liars.map(|(name, answer)| {
        let liar = Liar::start(honest());
        add(&fleet, name, &liar);
        (liar, answer)
    });
    let mut client = fleet.reader.connect();
    assert_eq!(read_all(&mut client), "");
    for (liar, answer) in &liars {
        liar.answer(answer.clone());
    }
    silent.answer(Answer::Silence);
    insert(&fleet.members[0], &["one"]);
    client.batch_execute("SET statement_timeout = '500ms'").expect("a setting");
    let canceled = error(&mut client, "SELECT * FROM snowflake_feed.read(NULL::outbox, 'all', patience => '0')");
    assert_eq!(canceled.code(), &SqlState::QUERY_CANCELED, "{canceled:?}");
    assert!(canceled.detail().is_some_and(|detail| detail.starts_with("It waited for server ")), "{canceled:?}");
    client.batch_execute("SET statement_timeout = 0").expect("a setting");
    let begin = Instant::now();
    let mut rows = String::new();
    while rows.is_empty() {
        rows = read(&mut client, ", 1, patience => '0'");
    }
    println!("one row in {:?} beside 4 such servers", begin.elapsed());
    assert_eq!(rows, "one");
    let problems = "SELECT count(problem) || ' ' || count(*) FROM snowflake_feed.servers";
    assert_eq!(value(&mut client, problems), "4 5");
    // They are not asked again at once.
    insert(&fleet.members[0], &["two"]);
    let begin = Instant::now();
    while read(&mut client, ", 1, patience => '0'") != "two" {}
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

/// From 16 on, dblink waits for such a server as long as its caller does.
#[test]
fn a_server_that_says_nothing_to_who_connects_is_named() {
    let (fleet, liar) = fleet();
    liar.answer(Answer::NoSession);
    let mut client = fleet.reader.connect();
    client.batch_execute("ALTER SERVER liar OPTIONS (SET connect_timeout '2')").expect("an option");
    if value(&mut client, "SELECT current_setting('server_version_num')::integer < 160000") == "t" {
        assert_eq!(read(&mut client, ""), "");
        assert!(problem(&fleet).contains("timeout expired"), "{}", problem(&fleet));
        return;
    }
    client.batch_execute("SET statement_timeout = '2s'").expect("a setting");
    let canceled = error(&mut client, "SELECT * FROM snowflake_feed.read(NULL::outbox, 'all')");
    assert_eq!(canceled.code(), &SqlState::QUERY_CANCELED, "{canceled:?}");
    assert_eq!(canceled.detail(), Some("It waited for server \"liar\"."));
}

/// Connecting is done for one server after the other.
#[test]
fn servers_that_a_read_has_no_time_to_connect_to_are_asked_first_by_the_next() {
    let (fleet, liar) = fleet();
    let mut client = fleet.reader.connect();
    if value(&mut client, "SELECT current_setting('server_version_num')::integer >= 160000") == "t" {
        testbed::skip("from 16 on, connecting has no limit");
    }
    insert(&fleet.members[0], &["waits"]);
    liar.answer(Answer::NoSession);
    client
        .batch_execute(
            "ALTER SERVER liar OPTIONS (SET connect_timeout '11');
             UPDATE snowflake_feed.member SET asked_at = 'epoch' WHERE server = 'liar'",
        )
        .expect("an option");
    assert_eq!(read(&mut client, ", patience => '1 hour'"), "");
    assert!(problem(&fleet).contains("timeout expired"), "{}", problem(&fleet));
    assert_eq!(fleet.shows(0, "problem"), "server was not asked, since connecting to others took too long");
    assert_eq!(read(&mut client, ", patience => '0'"), "waits");
}

/// Columns of another type, or that are not there.
#[test]
fn rows_that_the_reader_cannot_hold_are_a_problem_of_their_server() {
    let fleet = Fleet::start(2);
    let mut client = fleet.reader.connect();
    client.batch_execute("ALTER TABLE outbox ADD n integer").expect("a column");
    let change = "ALTER TABLE outbox ADD n text; INSERT INTO outbox (note, n) VALUES ('x', 'no number')";
    fleet.members[1].connect().batch_execute(change).expect("a column");
    assert_eq!(read(&mut client, ""), "");
    assert!(fleet.shows(0, "problem").starts_with("column r.n does not exist"), "{}", fleet.shows(0, "problem"));
    fleet.members[0].connect().batch_execute("ALTER TABLE outbox ADD n smallint").expect("a column");
    insert(&fleet.members[0], &["later"]);
    while !fleet.shows(0, "problem").is_empty() {
        assert_eq!(read(&mut client, ""), "");
    }
    let problem = fleet.shows(1, "problem");
    assert!(problem.starts_with("invalid input syntax for type integer"), "{problem}");
    fleet.members[1].connect().batch_execute("UPDATE outbox SET n = '7'").expect("a number");
    wait_for_rows(&mut client, "x later");
}

/// Everything that a feed asks is of pg_catalog, or has no arguments but those of the function itself.
#[test]
fn objects_of_a_stranger_on_a_server_or_the_reader_change_nothing() {
    let fleet = Fleet::start(1);
    let fail = "LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hostile code is run''; END'";
    let objects = format!(
        "CREATE ROLE stranger; CREATE SCHEMA evil AUTHORIZATION stranger; GRANT CREATE ON SCHEMA public TO stranger;
         SET ROLE stranger;
         CREATE FUNCTION public.snowflake_poll(outbox, bigint, integer, name) RETURNS SETOF outbox {fail};
         CREATE FUNCTION public.snowflake_horizon(VARIADIC text[]) RETURNS bigint {fail};
         CREATE FUNCTION public.snowflake_timestamp(integer) RETURNS timestamptz {fail};
         CREATE FUNCTION public.snowflake_min_id(timestamp) RETURNS bigint {fail};
         CREATE FUNCTION evil.later(bigint, bigint) RETURNS boolean {fail};
         CREATE OPERATOR evil.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.later);
         CREATE OPERATOR evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.later);
         CREATE FUNCTION evil.same(oid, oid) RETURNS boolean {fail};
         CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.same);
         CREATE FUNCTION evil.format(text, text, text, text, bigint, integer) RETURNS text {fail};
         CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text {fail};
         RESET ROLE; GRANT USAGE ON SCHEMA evil TO PUBLIC;
         ALTER ROLE postgres SET search_path = evil, public, pg_catalog"
    );
    fleet.members[0].connect().batch_execute(&objects).unwrap_or_else(|error| panic!("{error:?}"));
    let objects = objects.replace("outbox", "public.outbox");
    let mut client = fleet.reader.connect();
    client.batch_execute(&objects).unwrap_or_else(|error| panic!("{error:?}"));
    let mut client = fleet.reader.connect();
    client
        .batch_execute(
            "CREATE TEMP TABLE feed (name text); CREATE TEMP TABLE member (feed text); CREATE TEMP TABLE pg_type (oid oid);
             CREATE TEMP TABLE pg_attribute (attname text); CREATE TEMP TABLE pg_foreign_server (srvname name);
             CREATE TEMP VIEW outbox AS SELECT 'temporary' AS note, 1 AS id",
        )
        .expect("objects");
    insert(&fleet.members[0], &["one"]);
    let read = "SELECT note FROM snowflake_feed.read(NULL::public.outbox, 'all')";
    let rows = client.query(read, &[]).expect("rows").len();
    assert_eq!(rows, 1, "{}", fleet.shows(0, "problem"));
    insert(&fleet.members[0], &["two"]);
    client
        .batch_execute(
            "SELECT snowflake_feed.create('since', 'public.outbox');
             SELECT snowflake_feed.add_server('since', 's0', now() - interval '1 hour')",
        )
        .expect("a feed");
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_feed.read(NULL::public.outbox, 'since')"), "2");
    value(&mut client, "SELECT snowflake_feed.drop_server('since', 's0')::text");
}
