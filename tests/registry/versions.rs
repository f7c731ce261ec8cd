//! Servers and registries of different versions.

use super::fixture::{OF_NEXT_ID, answer_of, member, start, worker_of};
use testbed::postgres::NoTls;
use testbed::{Registry, Signal, error, test, value};

/// Makes a later registry: functions that note their calls, with the same arguments in another order, more of them, and
/// more results.
const LATER: &str = r"CREATE TABLE public.called (name name);
    CREATE SCHEMA first;
    DO $do$
    DECLARE
        f record;
    BEGIN
        FOR f IN
            SELECT p.oid::regprocedure AS signature, proname,
                string_agg(format('%I %s', name, format_type(type, NULL)), ', ' ORDER BY -nth) FILTER (WHERE mode = 'i') AS arguments,
                string_agg(format('OUT %I %s', name, format_type(type, NULL)), ', ' ORDER BY nth) FILTER (WHERE mode = 'o') AS results,
                string_agg(format('%1$I => %1$I', name), ', ') FILTER (WHERE mode = 'i') AS names
            FROM pg_proc p CROSS JOIN LATERAL unnest(proallargtypes, proargmodes, proargnames) WITH ORDINALITY a(type, mode, name, nth)
            WHERE pronamespace = 'snowflake_registry'::regnamespace AND proname LIKE 'server%'
            GROUP BY p.oid
        LOOP
            EXECUTE format('ALTER FUNCTION %s SET SCHEMA first', f.signature);
            EXECUTE format('CREATE FUNCTION snowflake_registry.%1$I(%2$s, later boolean DEFAULT true, %3$s, OUT later_note text)
                LANGUAGE sql VOLATILE SECURITY DEFINER AS
                $$INSERT INTO public.called VALUES (%1$L); SELECT *, ''new'' FROM first.%1$s(%4$s)$$',
                f.proname, f.arguments, f.results, f.names);
        END LOOP;
        UPDATE snowflake_registry.registry SET registry_version = registry_version + 1;
        PERFORM snowflake_registry.note_origin();
    END
    $do$";

/// So a later registry is free in their order, and servers of two versions can use one.
#[test]
fn a_server_names_the_arguments_of_a_later_registry_that_has_more_of_them() {
    let registry = Registry::start();
    registry.connect().batch_execute(LATER).expect("functions");
    let mut server = start(member(&registry).set("snowflake_pg.registry_lease", "5s"));
    assert_eq!(worker_of(&server), "1023");
    let called = |function: &str| format!("SELECT count(*) > 0 FROM called WHERE name = '{function}'");
    for function in ["server_hello", "server_claim", "server_renew"] {
        registry.wait_until(&called(function));
    }
    assert_eq!(answer_of(&server, OF_NEXT_ID), "1023");
    server.stop(Signal::INT);
    registry.wait_until(&called("server_release"));
    server.start();
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
}

#[test]
fn a_server_refuses_a_registry_of_an_earlier_version_than_it_knows_and_says_what_to_do() {
    let registry = Registry::start();
    let earlier =
        "UPDATE snowflake_registry.registry SET registry_version = 0; SELECT snowflake_registry.note_origin()";
    registry.connect().batch_execute(earlier).expect("an earlier one");
    let server = start(member(&registry));
    server.wait_until("SELECT registry_error IS NOT NULL FROM snowflake_status");
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "55000");
    let told = format!("{:?} {:?}", refused.detail(), refused.hint());
    for words in ["The registry has version 0, and this server needs 1", "ALTER EXTENSION snowflake_registry UPDATE"] {
        assert!(told.contains(words), "{refused:?}");
    }
}

/// What a server of version 1 says of itself, and a field that only a later one has.
const ABOUT: [&str; 2] = [
    "jsonb_build_object('lease_ms', 60000, 'clock', 1, 'clock_offset_ms', 0, 'issued_until', 0, 'begins_at', NULL,
        'layout', 't41 w10 s12', 'server', 'pg-2', 'system_identifier', 1, 'host', 'db2', 'port', 5432)",
    "jsonb_build_object('lease_ms', 60000, 'clock', 1, 'later', 'unknown')",
];

/// What servers of version 1 send and read, in their words: never to be changed with the registry.
#[test]
fn a_registry_serves_a_server_of_version_1_and_tells_one_that_says_too_little() {
    let registry = Registry::start();
    let mut client = registry.config().user("fleet").connect(NoTls).expect("a session");
    for (nth, about) in ABOUT.into_iter().enumerate() {
        let token = |turn: usize| format!("{nth}{turn}000000-0000-4000-8000-000000000000");
        let hello = "SELECT registry_version > 0 AND clock > 0 FROM snowflake_registry.server_hello(held_token => NULL,
            held_until => NULL, held_receipt => NULL, worker_id => NULL, seen_revision => NULL)";
        assert_eq!(value(&mut client, hello), "t");
        let claim = format!(
            "SELECT concat_ws(' ', granted_until, receipt, revision, worker_id, is_first, begins_at, holder_note, layout_note)
             FROM snowflake_registry.server_claim(held_tokens => '{{}}', new_token => '{}', configured_worker_id => NULL,
                least_worker_id => 0, greatest_worker_id => 1023, avoided_worker_id => NULL, about => {about})",
            token(0)
        );
        let claimed = value(&mut client, &claim);
        let words: Vec<_> = claimed.split(' ').collect();
        let [until, receipt, revision, worker, "t", "0"] = words[..] else { panic!("{claimed}") };
        assert_eq!(worker, (1023 - nth).to_string());
        let renew = format!(
            "SELECT concat_ws(' ', granted_until, receipt, revision, refusal, hint, is_final, must_stop, layout_note, conflict_note)
             FROM snowflake_registry.server_renew(held_tokens => '{{{}}}', new_token => '{}', held_until => {until},
                held_receipt => '{receipt}', worker_id => {worker}, seen_revision => {revision}, about => {about})",
            token(0),
            token(1)
        );
        let renewed = value(&mut client, &renew);
        let words: Vec<_> = renewed.split(' ').collect();
        let [until, receipt, revision] = words[..] else { panic!("{renewed}") };
        let release = format!(
            "SELECT granted_until >= 0 AND receipt IS NOT NULL AND revision > {revision}
             FROM snowflake_registry.server_release(held_tokens => '{{{}}}', new_token => '{}', held_until => {until},
                held_receipt => '{receipt}', worker_id => {worker}, seen_revision => {revision}, lowered_until => 0,
                about => {about})",
            token(1),
            token(2)
        );
        assert_eq!(value(&mut client, &release), "t");
        let less = claim.replace("'clock', 1", "'clock', NULL");
        assert_eq!(error(&mut client, &less).message(), "invalid request");
    }
}
