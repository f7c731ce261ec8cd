//! Lives that are gone, and servers that tell nonsense.

use super::super::fixture::{member, start};
use super::{audit, column, have_told, ids, issue_beside_each_other, life_of};
use snowflake_core::mark::lives::{self, LifeSpan};
use std::fs;
use std::path::PathBuf;
use testbed::{Cluster, Signal, error, test};

fn trace(server: &Cluster) -> PathBuf {
    server.data().join("snowflake_pg.trace")
}

/// Where the nth life is in a file.
fn place(nth: u64) -> std::ops::Range<usize> {
    let begin = usize::try_from(lives::offset(nth)).expect("a place in the file");
    begin..begin + lives::LENGTH
}

#[test]
fn an_audit_says_how_many_lives_a_server_has_forgotten_and_since_when_it_knows_all() {
    let mut server = start(member(7));
    ids(&server);
    server.restart(Signal::INT);
    ids(&server);
    server.stop(Signal::INT);
    // As if it had lived 600 times before the last one.
    let mut bytes = fs::read(trace(&server)).expect("a trace");
    let last = lives::read(&bytes[lives::BEGIN..]).pop().expect("a life");
    bytes.resize(lives::FILE_LENGTH, 0);
    bytes[lives::BEGIN..].fill(0);
    bytes[place(601)].copy_from_slice(&LifeSpan { nth: 601, ..last }.encode());
    fs::write(trace(&server), &bytes).expect("own file");
    server.start();
    ids(&server);
    let numbers = column(&mut server.connect(), "SELECT number::text FROM snowflake_lives() ORDER BY number");
    assert_eq!(numbers, ["601", "602"]);
    let (results, details) = audit(&server, &[&server]);
    assert_eq!(results, ["not seen", "no overlap", "not seen"], "{details}");
    let [first, forgotten] = details.split('\n').collect::<Vec<_>>()[..] else { panic!("{details}") };
    let ending = "worker 7, 2 lives of 1 server, no two overlap; 1 row says what is not known before that";
    let since = first.strip_prefix("since ").and_then(|text| text.strip_suffix(ending)).expect(first);
    assert!(forgotten.contains("no longer keeps 600 lives before"), "{details}");
    assert!(since.trim_end_matches(": ").ends_with(forgotten.rsplit(' ').next().expect("a time")), "{details}");
}

#[test]
fn a_server_with_a_damaged_life_has_not_told() {
    let mut server = start(member(7));
    for _ in 0..3 {
        ids(&server);
        server.restart(Signal::INT);
    }
    ids(&server);
    server.stop(Signal::INT);
    let mut bytes = fs::read(trace(&server)).expect("a trace");
    bytes[place(2)][80] ^= 1;
    fs::write(trace(&server), &bytes).expect("own file");
    server.start();
    ids(&server);
    assert_eq!(error(&mut server.connect(), "SELECT snowflake_lives()").code().code(), "58030");
    let other = start(member(8));
    ids(&other);
    let (results, details) = audit(&other, &[&server]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("could not read the lives"), "{details}");
}

/// A volume that was copied while its server was stopped.
#[test]
fn the_audit_finds_a_cold_copy_that_runs_beside_its_original() {
    let mut original = start(member(7));
    ids(&original);
    original.stop(Signal::INT);
    let mut copy = Cluster::builder().copy_of(&original);
    for server in [&mut original, &mut copy] {
        server.start();
    }
    issue_beside_each_other(&original, &copy);
    let (results, details) = audit(&original, &[&copy]);
    assert_eq!(results[0], "overlap", "{details}");
    let (results, details) = audit(&copy, &[&copy]);
    assert_eq!(results[0], "not seen", "{details}");
}

/// Servers of a fleet are upgraded one after the other.
#[test]
fn an_older_server_understands_a_newer_one_and_is_answered_in_the_version_that_it_knows() {
    let [by, asked] = [7, 8].map(|worker| start(member(worker)));
    [&by, &asked].into_iter().for_each(|server| drop(ids(server)));
    for version in [1, 2, i32::MAX] {
        let versions = format!("SELECT told->>'version' FROM snowflake_lives_for_servers({version}) AS told");
        assert_eq!(column(&mut asked.connect(), &versions), ["1"], "asked for {version}");
    }
    let life = life_of(&asked);
    have_told(&asked, &format!("SELECT '{life}'::jsonb || '{{\"colour\": \"green\", \"places\": [1, {{}}]}}'"));
    let (results, details) = audit(&by, &[&asked]);
    assert_eq!(results, ["no overlap"; 3], "{details}");
    // One that would tell what nobody here can read.
    have_told(&asked, &format!("SELECT '{life}'::jsonb || '{{\"version\": 2}}'"));
    let (results, details) = audit(&by, &[&asked]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("has not told"), "{details}");
}

#[test]
fn an_audit_takes_no_nonsense_for_an_answer() {
    let [by, asked] = [7, 8].map(|worker| start(member(worker).set("temp_file_limit", "100MB")));
    ids(&by);
    asked
        .connect()
        .batch_execute("ALTER EXTENSION snowflake_pg DROP FUNCTION snowflake_lives_for_servers(integer)")
        .expect("a superuser");
    // Times from 2026-01-01 on.
    let sound = [
        ("version", "1"),
        ("life", "to_hex(g)"),
        ("server", "'ff'"),
        ("is_own", "true"),
        ("number", "g"),
        ("timeline", "1"),
        ("system_identifier", "-1"),
        ("worker_id", "8"),
        ("layout", "'flat'"),
        ("reason", "'restart'"),
        ("state", "'stopped'"),
        ("begins_at", "1767225600000 + g * 1000"),
        ("issued_until", "1767225600000 + g * 1000"),
        ("reserved_until", "1767225600000 + g * 1000"),
        ("ended_at", "0"),
        ("found", "0"),
        ("logged", "0"),
        ("follows", "'0'"),
    ];
    let tell = |changed: &[(&str, &str)], rows: &str| {
        let value = |&(column, sound): &(&str, &str)| {
            let changed = changed.iter().find(|(name, _)| *name == column);
            format!("'{column}', {}", changed.map_or(sound, |(_, value)| value))
        };
        let columns: Vec<_> = sound.iter().map(value).collect();
        let script = format!(
            "DROP VIEW IF EXISTS told CASCADE;
             CREATE VIEW told AS SELECT jsonb_build_object({}) AS life FROM generate_series(1, {rows}) AS g;
             DROP FUNCTION IF EXISTS snowflake_lives_for_servers(integer);
             CREATE FUNCTION snowflake_lives_for_servers(integer) RETURNS SETOF jsonb LANGUAGE sql VOLATILE
                 AS 'SELECT life FROM public.told';
             ALTER EXTENSION snowflake_pg ADD FUNCTION snowflake_lives_for_servers(integer)",
            columns.join(", ")
        );
        let script = format!(
            "DO $$ BEGIN IF to_regprocedure('snowflake_lives_for_servers(integer)') IS NOT NULL THEN
            BEGIN ALTER EXTENSION snowflake_pg DROP FUNCTION snowflake_lives_for_servers(integer);
                EXCEPTION WHEN OTHERS THEN NULL; END;
            DROP FUNCTION snowflake_lives_for_servers(integer); END IF; END $$; {script}"
        );
        asked.connect().batch_execute(&script).unwrap_or_else(|error| panic!("{script}: {error:?}"));
        let told = audit(&by, &[&asked]);
        // What was given up has ended there, too.
        asked.wait_until(
            "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'snowflake_audit_fleet')",
        );
        told
    };
    let (results, details) = tell(&[], "3");
    assert_eq!(results[0], "no overlap", "{details}");
    let (results, details) = tell(&[("state", "'sleeps'")], "1");
    assert_eq!(results[0], "not seen", "{details}");

    let long = "1780272000000";
    let (results, details) = tell(&[("issued_until", long), ("reserved_until", long)], "10000");
    assert_eq!(results[0], "overlap", "{details}");
    assert!(results.len() < 110 && details.contains("more overlaps"), "{} rows", results.len());

    let nonsense = [
        ("life", "NULL::text", "1"),
        ("life", "'no number'", "1"),
        ("life", "repeat('f', 10000000)", "1"),
        ("server", "NULL::text", "1"),
        ("is_own", "'perhaps'::text", "1"),
        ("number", "-g", "1"),
        ("timeline", "-1", "1"),
        ("worker_id", "1024", "1"),
        ("worker_id", "-1", "1"),
        ("worker_id", "9223372036854775807", "1"),
        ("worker_id", "NULL::bigint", "1"),
        ("layout", "repeat('flat ', 1000000)", "1"),
        ("layout", "'twitter'", "1"),
        ("begins_at", "NULL::bigint", "1"),
        ("begins_at", "'-Infinity'::float8", "1"),
        ("begins_at", "315532800000", "1"),
        ("begins_at", "1798761600000", "1"),
        ("begins_at", "'2026-01-01'::timestamptz", "1"),
        ("reserved_until", "'Infinity'::float8", "1"),
        ("reserved_until", "9223372036854775807", "1"),
        ("system_identifier", "9223372036854775808", "1"),
        ("version", "NULL::integer", "1"),
        ("version", "0", "1"),
        ("version", "2", "1"),
        ("reason", "g / (g - g)", "1"),
        ("reason", "pg_sleep(3600)::text", "1"),
        ("reason", "repeat('x', 100)", "1000000000000"),
    ];
    for (column, value, rows) in nonsense {
        let (results, details) = tell(&[(column, value)], rows);
        assert_eq!(results[0], "not seen", "{column} = {value}: {details}");
        assert!(details.contains("has not told") && details.len() < 1000, "{column} = {value}: {details}");
    }
}
