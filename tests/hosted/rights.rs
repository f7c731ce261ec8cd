//! What a role without rights can do.

use super::{LOCKED, install, server};
use testbed::postgres::NoTls;
use testbed::{Cluster, error, hosted_script, test, value};

#[test]
fn everybody_can_issue_and_decode_and_change_nothing() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE ROLE passer_by; CREATE SCHEMA own AUTHORIZATION passer_by; SET ROLE passer_by;
             CREATE TABLE own.events (id bigint); CREATE TABLE own.orders (id bigint) PARTITION BY HASH (id);
             CREATE TABLE own.orders_0 PARTITION OF own.orders FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TRIGGER fill BEFORE INSERT ON own.events FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id')",
        )
        .expect("a role with a table");
    for query in [
        "INSERT INTO own.events VALUES (snowflake_nextval()) RETURNING id",
        "SELECT snowflake_nextval()",
        "SELECT snowflake_id()",
        "SELECT count(*) FROM snowflake_nextvals(10)",
        "SELECT snowflake_nextblock(10)",
        "INSERT INTO own.orders_0 VALUES (snowflake_nextval_for('own.orders_0')) RETURNING snowflake_shard_of(id, 2)",
        "SELECT snowflake_nextval_for('own.orders', 1)",
        "SELECT snowflake_nextval_for_shard(8, 3)",
        "SELECT snowflake_lastval()",
        "SELECT snowflake_explain(snowflake_lastval())",
        "SELECT state FROM snowflake_status",
        "SELECT count(*) FROM snowflake_layouts",
        "SELECT snowflake_worker_id()",
    ] {
        value(&mut client, query);
    }
    for query in [
        "SELECT snowflake_set_worker_id(8)",
        "SELECT snowflake_set_layout('js')",
        "SELECT snowflake_advance(1)",
        "SELECT snowflake_begin_session()",
        "SELECT snowflake_problem_of_database()",
        "SELECT snowflake_set_last(1)",
        "SELECT snowflake_move(1, 1, 1, false, 0, snowflake_own_fields())",
        "SELECT snowflake_refuse()",
        "SELECT snowflake_is_set_back()",
        "SELECT snowflake_register(NULL)",
        "SELECT * FROM snowflake_high_water_mark",
        "SELECT setval('snowflake_high_water_mark', 1)",
        "SELECT setval('snowflake_position', 1)",
        "SELECT nextval('snowflake_position')",
        "SELECT nextval('snowflake_began')",
        "SELECT * FROM snowflake_position",
        "SELECT * FROM snowflake_database",
        "DELETE FROM snowflake_database",
        "ALTER SEQUENCE snowflake_position RESTART",
        "CREATE OR REPLACE FUNCTION snowflake_worker_id() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 8",
    ] {
        assert_eq!(error(&mut client, query).code().code(), "42501", "{query}");
    }
}

#[test]
fn nobody_can_take_the_position_back_or_leave_the_lock_behind_by_a_number() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute("CREATE ROLE passer_by; SET ROLE passer_by").expect("a role");
    let mut last: i64 = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
    for count in ["0", "-1", "-1000000000000", "4294967296", "9223372036854775807"] {
        assert_eq!(error(&mut client, &format!("SELECT snowflake_take({count})")).code().code(), "22023", "{count}");
        let next: i64 = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    client.batch_execute("RESET ROLE; SET default_transaction_read_only = on").expect("a setting");
    assert_eq!(error(&mut client, "SELECT snowflake_advance(1000000)").code().code(), "25006");
    assert_eq!(value(&mut client, LOCKED), "0");
}

/// What PUBLIC may not call.
const FOR_THE_OWNER: &[&str] = &[
    "snowflake_advance",
    "snowflake_begin_session",
    "snowflake_catalog_xmin",
    "snowflake_directory_made",
    "snowflake_follow_clock",
    "snowflake_guard_database",
    "snowflake_id_at",
    "snowflake_is_checked",
    "snowflake_is_set_back",
    "snowflake_is_writable",
    "snowflake_last",
    "snowflake_last_of_both",
    "snowflake_max_count",
    "snowflake_move",
    "snowflake_problem_of_call",
    "snowflake_problem_of_clock",
    "snowflake_problem_of_database",
    "snowflake_raise",
    "snowflake_refuse",
    "snowflake_register",
    "snowflake_registration",
    "snowflake_running",
    "snowflake_script_version",
    "snowflake_set_last",
    "snowflake_set_layout",
    "snowflake_set_worker_id",
    "snowflake_settle",
    "snowflake_start",
    "snowflake_tick",
    "snowflake_wait_for_clock",
    "snowflake_whole_xid",
];

#[test]
fn every_function_is_for_everybody_or_for_the_owner_and_one_without_a_comment_is_for_the_owner() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE ROLE passer_by; CREATE FUNCTION snowflake_forgotten() RETURNS bigint LANGUAGE sql RETURN 1",
        )
        .expect("a function");
    install(&mut client, 7);
    let closed = "SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND NOT has_function_privilege('passer_by', oid, 'EXECUTE')";
    let mut expected = [FOR_THE_OWNER, &["snowflake_forgotten"]].concat();
    expected.sort_unstable();
    let new = "list each new function in FOR_THE_OWNER, or let everybody call it by its comment: sql/hosted/rights.sql";
    assert_eq!(value(&mut client, closed), expected.join(" "), "{new}");
    let users = "SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proname <> 'snowflake_forgotten'
        AND obj_description(oid, 'pg_proc') NOT LIKE 'not to be called%' AND NOT has_function_privilege('passer_by', oid, 'EXECUTE')";
    assert_eq!(value(&mut client, users), "snowflake_advance snowflake_set_layout snowflake_set_worker_id");
}

/// As some services set them for the schema public.
#[test]
fn default_privileges_give_nobody_the_position() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE ROLE web; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO web; ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO web;
             ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO web",
        )
        .expect("privileges");
    install(&mut client, 7);
    // As an older script, which did not have these.
    let older = "DROP SEQUENCE snowflake_pending_until; DROP FUNCTION snowflake_advance";
    for prepare in ["", older] {
        client.batch_execute(&format!("RESET ROLE; {prepare}")).expect("an owner");
        client.batch_execute(&hosted_script()).expect("the script");
        client.batch_execute("SET ROLE web").expect("a role");
        value(&mut client, "SELECT snowflake_nextval()");
        for query in [
            "SELECT setval('snowflake_position', 1)",
            "SELECT setval('snowflake_began', 1)",
            "SELECT setval('snowflake_pending_until', 1)",
            "DELETE FROM snowflake_database",
            "SELECT snowflake_advance(1)",
            "SELECT snowflake_set_worker_id(8)",
        ] {
            assert_eq!(error(&mut client, query).code().code(), "42501", "{query}");
        }
    }
}

/// Functions look nothing up but in pg_catalog, and call nothing but what was there when the script ran.
/// `snowflake_take()` names everything with its schema.
#[test]
fn no_function_calls_what_others_have_made() {
    let cluster = server(7);
    let mut client = cluster.connect();
    let open =
        "SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        AND prosqlbody IS NULL AND proname NOT IN ('snowflake_take', 'snowflake_poll') AND NOT coalesce(proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']";
    assert_eq!(value(&mut client, open), "NULL");
    let calls = "SELECT string_agg(DISTINCT pg_describe_object(refclassid, refobjid, 0), ', ') FROM pg_depend
        LEFT JOIN pg_proc p ON refclassid = 'pg_proc'::regclass AND p.oid = refobjid
        LEFT JOIN pg_operator o ON refclassid = 'pg_operator'::regclass AND o.oid = refobjid
        WHERE classid = 'pg_proc'::regclass AND objid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
            AND coalesce(pronamespace, oprnamespace) NOT IN ('pg_catalog'::regnamespace, 'public'::regnamespace)";
    assert_eq!(value(&mut client, calls), "NULL");
    // Better fits for every call, in the schema of the functions and in that of temporary objects.
    client
        .batch_execute(
            "CREATE TABLE polled (id bigint PRIMARY KEY); CREATE ROLE hostile; GRANT ALL ON SCHEMA public TO hostile;
             SET ROLE hostile;
             CREATE FUNCTION trap() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trap''; END';
             CREATE FUNCTION public.format(text, bigint) RETURNS text LANGUAGE sql AS 'SELECT public.trap()::text';
             CREATE FUNCTION public.format(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT public.trap()::text';
             CREATE FUNCTION public.floor(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT public.trap()';
             CREATE FUNCTION public.traps(numeric, bigint) RETURNS numeric LANGUAGE sql AS 'SELECT public.trap()';
             CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = bigint, FUNCTION = public.traps);
             CREATE OPERATOR public./ (LEFTARG = numeric, RIGHTARG = bigint, FUNCTION = public.traps);
             CREATE OPERATOR public.- (LEFTARG = numeric, RIGHTARG = bigint, FUNCTION = public.traps);
             CREATE TEMPORARY TABLE snowflake_database (is_only boolean); CREATE TEMPORARY SEQUENCE snowflake_position; CREATE TEMPORARY VIEW pg_locks AS SELECT 1;
             RESET ROLE",
        )
        .expect("traps");
    for query in [
        "SELECT snowflake_nextval()",
        "SELECT snowflake_min_id(now())",
        "SELECT snowflake_explain(1)",
        "SELECT snowflake_decode(1)",
        "SELECT snowflake_compose(now(), 0, 1, 1)",
        "SELECT snowflake_to_text(1, 'hex')",
        "SELECT state FROM snowflake_status",
        "SELECT snowflake_nextblock(2)",
        "SELECT snowflake_advance(1)",
        "SELECT snowflake_set_worker_id(7)",
        "SELECT count(*) FROM snowflake_layouts",
        "SELECT count(*) FROM snowflake_poll(NULL::public.polled, 0, wait => '10 ms')",
    ] {
        value(&mut client, query);
    }
}

/// Who can create or drop objects beside the functions could run code with the rights of their owner.
#[test]
fn the_script_refuses_a_schema_in_which_others_can_create_or_have_created() {
    let cluster = Cluster::builder().start();
    let mut dba = cluster.connect();
    dba.batch_execute("CREATE ROLE owner LOGIN; CREATE ROLE thief; GRANT thief TO owner; GRANT CREATE ON DATABASE postgres TO owner, thief").expect("roles");
    let function = "CREATE FUNCTION ids.snowflake_worker_id() RETURNS integer LANGUAGE sql RETURN 1";
    for (prepare, detail) in [
        ("SET ROLE thief; CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO owner", "It belongs to thief."),
        ("SET ROLE owner; CREATE SCHEMA ids; GRANT CREATE ON SCHEMA ids TO thief", "thief can create objects in it."),
        ("SET ROLE owner; CREATE SCHEMA ids; GRANT CREATE ON SCHEMA ids TO PUBLIC", "PUBLIC can create objects in it."),
        (
            &format!("SET ROLE owner; CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO thief; SET ROLE thief; {function};
                SET ROLE owner; REVOKE ALL ON SCHEMA ids FROM thief"),
            "ids.snowflake_worker_id() belongs to thief.",
        ),
        (
            "SET ROLE owner; CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO thief; SET ROLE thief; CREATE DOMAIN ids.snowflake AS bigint;
                SET ROLE owner; REVOKE ALL ON SCHEMA ids FROM thief",
            "ids.snowflake belongs to thief.",
        ),
    ] {
        dba.batch_execute(prepare).expect("a schema");
        for role in ["owner", "postgres"] {
            dba.batch_execute(&format!("SET ROLE {role}; SET search_path = ids")).expect("a role");
            let refused = error(&mut dba, &hosted_script());
            assert_eq!(refused.code().code(), "42501", "{refused:?}");
            if role == "owner" {
                assert_eq!(refused.detail(), Some(detail));
            }
        }
        dba.batch_execute("RESET ALL; RESET ROLE; DROP SCHEMA ids CASCADE").expect("no schema");
    }
    // A sequence of this name elsewhere does not stop the owner.
    let elsewhere = "SET ROLE thief; CREATE SCHEMA other; CREATE SEQUENCE other.snowflake_began; CREATE TEMP SEQUENCE snowflake_began";
    dba.batch_execute(elsewhere).expect("sequences");
    let mut owner = cluster.connect();
    owner.batch_execute("SET ROLE owner; CREATE SCHEMA ids; SET search_path = ids").expect("a schema");
    install(&mut owner, 7);
    value(&mut owner, "SELECT snowflake_nextval()");
}

#[test]
fn everybody_can_issue_where_default_privileges_give_functions_to_nobody() {
    let cluster = Cluster::builder().start();
    let mut owner = cluster.connect();
    let hardened = "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; CREATE ROLE passer_by";
    owner.batch_execute(hardened).expect("a hardened database");
    install(&mut owner, 7);
    let call = "SET ROLE passer_by; SELECT snowflake_decode(snowflake_nextval())";
    owner.batch_execute(call).expect("an ID");
    assert_eq!(error(&mut owner, "SELECT snowflake_set_worker_id(8)").code().code(), "42501");
    // What the owner takes away later is not given back.
    owner.batch_execute("RESET ROLE; REVOKE ALL ON FUNCTION snowflake_nextval() FROM PUBLIC").expect("a privilege");
    owner
        .batch_execute("GRANT EXECUTE ON FUNCTION snowflake_advance(bigint, boolean) TO passer_by")
        .expect("a privilege");
    owner.batch_execute(&hosted_script()).expect("the script");
    owner.batch_execute("SET ROLE passer_by").expect("a role");
    assert_eq!(error(&mut owner, "SELECT snowflake_nextval()").code().code(), "42501");
    let granted = "SELECT has_function_privilege('snowflake_advance(bigint, boolean)', 'EXECUTE')";
    assert_eq!(value(&mut owner, granted), "t");
}

/// Anybody could attach a function to a table of his own, whose domains and casts run his code.
#[test]
fn no_trigger_function_runs_a_strangers_code_with_the_owners_rights() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute("CREATE ROLE evil LOGIN").expect("a role");
    let mut evil = cluster.config().user("evil").connect(NoTls).expect("a session");
    evil.batch_execute(
        "CREATE FUNCTION pg_temp.f(v oid) RETURNS boolean LANGUAGE plpgsql AS
             'BEGIN IF current_user <> session_user THEN RAISE EXCEPTION ''as the owner''; END IF; RETURN true; END';
         CREATE DOMAIN pg_temp.d AS oid CHECK (pg_temp.f(VALUE));
         CREATE TEMP TABLE mine (inserted_by xid8, database pg_temp.d)",
    )
    .expect("a trap");
    let attach = "CREATE TRIGGER t BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION snowflake_guard_database()";
    assert_eq!(error(&mut evil, attach).code().code(), "42501");
    // As after pg_dump --no-privileges.
    client.batch_execute("GRANT EXECUTE ON FUNCTION snowflake_guard_database() TO PUBLIC").expect("a privilege");
    evil.batch_execute(attach).expect("a trigger");
    assert_eq!(error(&mut evil, "INSERT INTO mine VALUES ('1', 5)").code().code(), "39P01");
    value(&mut client, "SELECT snowflake_nextval()");
    let definers =
        "SELECT string_agg(proname, ', ' ORDER BY proname) FROM pg_proc WHERE proname LIKE 'snowflake%' AND prosecdef";
    assert_eq!(
        value(&mut client, definers),
        "snowflake_get_status, snowflake_lastval, snowflake_read_horizon, snowflake_take"
    );
}
