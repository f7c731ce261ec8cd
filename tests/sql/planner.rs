//! In queries the planner sees the layout as a constant, and nowhere else.

use crate::calls::{Function, functions};
use testbed::postgres::Client;
use testbed::{Cluster, Database, Signal, error, need_extension, plan, test, value};

const RANGE: &str = "'2026-01-01Z', '2026-01-02Z'";

fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(7).database();
    let mut client = database.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (database, client)
}

/// A server of its own, which can be restarted.
fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, client)
}

#[test]
fn every_function_that_goes_without_a_layout_is_planned_with_it() {
    let (_database, mut client) = database();
    let mut planned = 0;
    let functions = functions(&mut client);
    for function in &functions {
        let with = |other: &&Function| {
            let layout = [("layout".to_owned(), "text".to_owned())];
            other.name == function.name && other.arguments == [&*function.arguments, &layout].concat()
        };
        // The life that issued an ID is not a matter of its layout.
        if !functions.iter().any(|other| with(&other)) || function.name == "snowflake_explain" {
            continue;
        }
        let each = |shown: fn(&(String, String)) -> String| {
            function.arguments.iter().map(shown).collect::<Vec<_>>().join(", ")
        };
        // A plan has no call of constants.
        let columns = each(|(name, kind)| format!("NULL::{kind} AS \"{name}\""));
        let call = format!("{}({})", function.name, each(|(name, _)| format!("\"{name}\"")));
        let shown = plan(
            &mut client,
            &format!("EXPLAIN (VERBOSE, COSTS OFF) SELECT {call} FROM (SELECT {columns} OFFSET 0) arguments"),
        );
        assert!(shown.contains("'flat'::text)"), "{call}:\n{shown}");
        planned += 1;
    }
    assert!(planned > 9, "{planned}");
    client.batch_execute("CREATE TABLE ids (id bigint, at timestamptz, of_type regtype)").expect("a table");
    let calls = [
        ("snowflake_timestamp(id)", "snowflake_timestamp(id, 'flat'::text)"),
        ("snowflake_timestamp(id => id)", "snowflake_timestamp(id, 'flat'::text)"),
        ("snowflake_explain(id)", "snowflake_explain(id)"),
        ("snowflake_min_id(now())", "snowflake_min_id(now(), 'flat'::text)"),
        ("snowflake_time_expression('a', of_type)", "snowflake_time_expression('a'::name, of_type, 'flat'::text)"),
        // It is inlined.
        ("snowflake_add_created_at(0)", "'timestamp with time zone'::regtype, 'flat'::text))"),
        ("snowflake_compose(at, 1, 2, 3)", "snowflake_compose(at, 1, 2, 3, 0, 'flat'::text)"),
        (
            "snowflake_compose(at, sequence => 3, worker_id => 2, datacenter_id => 1)",
            "snowflake_compose(at, 1, 2, 3, 0, 'flat'::text)",
        ),
        (
            "snowflake_compose(tag => 4, sequence => 3, worker_id => 2, datacenter_id => 1, issued_at => at)",
            "snowflake_compose(at, 1, 2, 3, 4, 'flat'::text)",
        ),
        ("snowflake_compose(at, 1, 2, 3, NULL)", "snowflake_compose(at, 1, 2, 3, NULL::integer, 'flat'::text)"),
        ("snowflake_min_id('2026-01-01Z')", "2006515713438646272"),
        (
            "snowflake_within(id, '2026-01-01Z', '2026-01-02Z')",
            "((id >= '2006515713438646272'::bigint) AND (id <= '2006878101304246271'::bigint))",
        ),
        (
            "snowflake_within(id, at)",
            "((id >= snowflake_bound(at, '>='::text, 'flat'::text)) AND (id <= '9223372036854775807'::bigint))",
        ),
        (
            "snowflake_within(id => id, since => '2026-01-01Z')",
            "((id >= '2006515713438646272'::bigint) AND (id <= '9223372036854775807'::bigint))",
        ),
        (
            "snowflake_within(until => at, id => id, since => '2026-01-01Z')",
            "((id >= '2006515713438646272'::bigint) AND (id <= snowflake_bound(at, '<'::text, 'flat'::text)))",
        ),
        // Wherever a query has one.
        ("(SELECT max(snowflake_timestamp(i.id)) FROM ids i)", "snowflake_timestamp(max(i.id), 'flat'::text)"),
        (
            "(SELECT avg(snowflake_timestamp(i.id) - at) FROM ids i)",
            "avg((snowflake_timestamp(i.id, 'flat'::text) - i.at))",
        ),
    ];
    for (call, planned) in calls {
        let shown = plan(&mut client, &format!("EXPLAIN (VERBOSE, COSTS OFF) SELECT {call} FROM ids"));
        assert!(shown.contains(planned), "{call}:\n{shown}");
    }
    for query in [
        "WITH seen AS MATERIALIZED (SELECT snowflake_timestamp(id) FROM ids) SELECT * FROM seen",
        "SELECT d.* FROM ids, snowflake_decode(id) d",
        "DELETE FROM ids WHERE at < now() RETURNING snowflake_timestamp(id)",
        "INSERT INTO ids VALUES (1) RETURNING snowflake_timestamp(id)",
    ] {
        let shown = plan(&mut client, &format!("EXPLAIN (VERBOSE, COSTS OFF) {query}"));
        assert!(shown.contains("(id, 'flat'::text)") || shown.contains("(ids.id, 'flat'::text)"), "{query}:\n{shown}");
    }
    // And says what it said before.
    let id = 1541815603606036480_i64;
    for call in ["snowflake_timestamp", "snowflake_decode"] {
        let query = format!("SELECT {call}(id) = {call}(id, 'flat') FROM (VALUES ({id})) ids (id)");
        assert_eq!(value(&mut client, &query), "t");
    }
}

#[test]
fn a_range_of_time_chooses_partitions_when_it_is_planned() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE events (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
             CREATE TABLE january PARTITION OF events
                 FOR VALUES FROM (snowflake_min_id('2026-01-01Z')) TO (snowflake_min_id('2026-02-01Z'));
             CREATE TABLE february PARTITION OF events
                 FOR VALUES FROM (snowflake_min_id('2026-02-01Z')) TO (snowflake_min_id('2026-03-01Z'))",
        )
        .expect("partitions");
    let shown = plan(&mut client, &format!("EXPLAIN SELECT * FROM events WHERE snowflake_within(id, {RANGE})"));
    assert!(shown.contains("january") && !shown.contains("february") && !shown.contains("Removed"), "{shown}");
    let natural = "snowflake_timestamp(id) BETWEEN '2026-01-10Z' AND '2026-01-20Z'";
    let shown = plan(&mut client, &format!("EXPLAIN SELECT * FROM events WHERE {natural}"));
    assert!(shown.contains("january") && !shown.contains("february") && !shown.contains("Removed"), "{shown}");
    // To the end of time.
    for open in ["snowflake_within(id, '2026-02-02Z')", "snowflake_within(since => '2026-02-02Z', id => id)"] {
        let shown = plan(&mut client, &format!("EXPLAIN SELECT * FROM events WHERE {open}"));
        assert!(shown.contains("february") && !shown.contains("january") && !shown.contains("Removed"), "{shown}");
    }
}

#[test]
fn a_range_of_time_is_sent_to_a_foreign_server() {
    need_extension("postgres_fdw");
    let (_database, mut client) = database();
    let foreign = Cluster::builder().start();
    foreign.connect().batch_execute("CREATE TABLE events (id bigint)").expect("a table");
    client
        .batch_execute(&format!(
            "CREATE EXTENSION postgres_fdw;
             CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{}', dbname 'postgres');
             CREATE USER MAPPING FOR postgres SERVER far OPTIONS (user 'postgres');
             CREATE FOREIGN TABLE events (id bigint) SERVER far",
            foreign.host().display()
        ))
        .expect("a foreign table");
    let condition = |client: &mut Client, condition: &str| {
        let shown = plan(client, &format!("EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM events WHERE {condition}"));
        shown.lines().find_map(|line| line.trim().strip_prefix("Remote SQL: ")).expect("a remote query").to_owned()
    };
    assert_eq!(
        condition(&mut client, &format!("snowflake_within(id, {RANGE})")),
        "SELECT id FROM public.events WHERE ((id >= 2006515713438646272::bigint)) AND ((id <= 2006878101304246271::bigint))"
    );
    assert_eq!(
        condition(&mut client, "snowflake_timestamp(id) >= '2026-01-01Z'"),
        "SELECT id FROM public.events WHERE ((id >= 2006515713438646272::bigint))"
    );
    // What is only known when the query runs is sent as a parameter.
    let sent = "SELECT id FROM public.events WHERE ((id >= $1::bigint))";
    let natural = "snowflake_timestamp(id) >= now() - interval '1 hour'";
    assert_eq!(condition(&mut client, natural), sent);
    client
        .batch_execute(
            "CREATE VIEW seen AS SELECT id, snowflake_timestamp(id) AS created_at FROM events;
             SET plan_cache_mode = force_generic_plan; PREPARE since AS SELECT id FROM seen WHERE created_at >= $1;
             CREATE TABLE parts (id bigint) PARTITION BY RANGE (id);
             CREATE FOREIGN TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (maxvalue) SERVER far OPTIONS (table_name 'events')",
        )
        .expect("a prepared statement, and partitions");
    let remote = |client: &mut Client, query: &str| {
        let shown = plan(client, &format!("EXPLAIN (VERBOSE, COSTS OFF) {query}"));
        shown.lines().find_map(|line| line.trim().strip_prefix("Remote SQL: ")).expect("a remote query").to_owned()
    };
    assert_eq!(remote(&mut client, "EXECUTE since('2026-01-01Z')"), sent);
    assert_eq!(remote(&mut client, &format!("SELECT id FROM parts WHERE {natural}")), sent);
    let local = "SELECT (SELECT count(*) FROM events WHERE snowflake_timestamp(id) > at) FROM (VALUES (now())) v (at)";
    assert!(remote(&mut client, local).contains("WHERE ((id >= $1::bigint))"));
    // What the other server has in a generated column may be anything.
    let expression = value(&mut client, "SELECT snowflake_time_expression('id')");
    client
        .batch_execute(&format!(
            "CREATE FOREIGN TABLE distant (id bigint, created_at timestamptz GENERATED ALWAYS AS ({expression}) STORED) SERVER far"
        ))
        .expect("a foreign table");
    let distant = remote(&mut client, "SELECT * FROM distant WHERE created_at > '2026-01-01Z'");
    assert!(distant.contains("created_at > ") && !distant.contains("id >="), "{distant}");
    client
        .batch_execute(&format!(
            "CREATE TABLE spread (id bigint, created_at timestamptz GENERATED ALWAYS AS ({expression}) STORED) PARTITION BY RANGE (id);
             CREATE FOREIGN TABLE spread_1 PARTITION OF spread DEFAULT SERVER far"
        ))
        .expect("a foreign partition");
    let spread = remote(&mut client, "SELECT * FROM spread WHERE created_at > '2026-01-01Z'");
    assert!(spread.contains("created_at > ") && !spread.contains("id >="), "{spread}");
    // So it is if it comes from a sub-query.
    assert_eq!(
        condition(&mut client, "id >= (SELECT snowflake_min_id(now() - interval '1 hour'))"),
        "SELECT id FROM public.events WHERE ((id >= $1::bigint))"
    );
}

/// What is stored is stored as it was written: the next life of the server may have another layout.
#[test]
fn nothing_that_is_stored_has_the_layout_of_the_day_in_it() {
    let (mut cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE events (id bigint);
             CREATE VIEW seen AS SELECT snowflake_timestamp(id) AS at FROM events;
             CREATE MATERIALIZED VIEW kept AS SELECT snowflake_timestamp(id) AS at FROM events;
             CREATE FUNCTION at(bigint) RETURNS timestamptz LANGUAGE sql BEGIN ATOMIC SELECT snowflake_timestamp($1); END;
             CREATE RULE moved AS ON UPDATE TO events DO ALSO NOTIFY events;
             INSERT INTO events VALUES (1541815603606036480)",
        )
        .expect("what may depend on the layout");
    let stored =
        "SELECT pg_get_viewdef('seen') || pg_get_viewdef('kept') || pg_get_functiondef('at(bigint)'::regprocedure)";
    let text = value(&mut client, stored);
    assert!(text.contains("snowflake_timestamp(") && !text.contains("flat"), "{text}");
    for refused in [
        "CREATE INDEX ON events (snowflake_timestamp(id))",
        "CREATE INDEX ON events (id) WHERE snowflake_timestamp(id) < '2026-01-01Z'",
        "CREATE INDEX ON events (id) WHERE snowflake_within(id, '2026-01-01Z', '2026-01-02Z')",
        "ALTER TABLE events ADD COLUMN at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED",
        "CREATE TABLE parts (id bigint) PARTITION BY RANGE (snowflake_timestamp(id))",
    ] {
        let refusal = error(&mut client, refused);
        assert_eq!(refusal.code().code(), "42P17", "{refused}: {refusal}");
    }
    let times =
        "SELECT concat_ws(' ', at, at(1541815603606036480), snowflake_timestamp(1541815603606036480)) FROM seen";
    assert_eq!(value(&mut client, times), ["2022-06-28 16:07:40.105+00"; 3].join(" "));
    drop(client);
    cluster.configure("snowflake_pg.layout", "flat epoch=2024-01-01T00:00:00Z");
    cluster.restart(Signal::INT);
    assert_eq!(value(&mut cluster.connect(), times), ["2035-08-25 14:24:45.448+00"; 3].join(" "));
}

/// Rows that were inserted by one layout may violate by another what they were checked for.
#[test]
fn a_constraint_with_the_layout_of_another_day_hides_no_row() {
    let (mut cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE events (id bigint CHECK (snowflake_timestamp(id) < '2030-01-01Z'));
             INSERT INTO events VALUES (1541815603606036480)",
        )
        .expect("a row");
    drop(client);
    cluster.configure("snowflake_pg.layout", "flat epoch=2024-01-01T00:00:00Z");
    cluster.restart(Signal::INT);
    let mut client = cluster.connect();
    client.batch_execute("SET constraint_exclusion = on").expect("a setting");
    assert_eq!(value(&mut client, "SELECT count(*) FROM events WHERE snowflake_timestamp(id) >= '2030-01-01Z'"), "1");
}

/// Without preload each session may have its own layout, and another one with each statement.
#[test]
fn without_preload_a_plan_that_is_kept_follows_the_session() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; SET plan_cache_mode = force_generic_plan;
             PREPARE at (bigint) AS SELECT snowflake_timestamp($1)",
        )
        .expect("a statement");
    for (layout, at) in [
        ("twitter", "2022-06-28 16:07:40.105+00"),
        ("flat epoch=2024-01-01T00:00:00Z", "2035-08-25 14:24:45.448+00"),
        ("twitter", "2022-06-28 16:07:40.105+00"),
    ] {
        client.batch_execute(&format!("SET snowflake_pg.layout = '{layout}'")).expect("a layout");
        assert_eq!(value(&mut client, "EXECUTE at (1541815603606036480)"), at);
    }
}

#[test]
fn a_plan_calls_nothing_that_its_user_may_not_call_and_nobody_elses_functions() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE ids (id bigint); INSERT INTO ids VALUES (1541815603606036480);
             CREATE ROLE planned; GRANT SELECT ON ids TO planned;
             CREATE SCHEMA other;
             CREATE FUNCTION other.snowflake_timestamp(bigint) RETURNS text LANGUAGE sql STABLE RETURN 'one';
             CREATE FUNCTION other.snowflake_timestamp(bigint, text) RETURNS text LANGUAGE sql STABLE RETURN 'two';
             GRANT USAGE ON SCHEMA other TO planned;
             SET plan_cache_mode = force_generic_plan;
             PREPARE kept AS SELECT snowflake_timestamp(id) FROM ids; EXECUTE kept",
        )
        .expect("functions");
    let time = "2022-06-28 16:07:40.105+00";
    assert_eq!(value(&mut client, "SELECT other.snowflake_timestamp(id) FROM ids"), "one");
    // With a layout only some may call it. A plan is kept when its session takes on another role.
    client
        .batch_execute(
            "REVOKE EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) FROM PUBLIC; EXECUTE kept; SET ROLE planned",
        )
        .expect("a privilege");
    for query in ["SELECT snowflake_timestamp(id) FROM ids", "EXECUTE kept"] {
        assert_eq!(value(&mut client, query), time);
    }
    // And without.
    client
        .batch_execute(
            "RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) TO PUBLIC;
             REVOKE EXECUTE ON FUNCTION snowflake_timestamp(bigint) FROM PUBLIC; EXECUTE kept; SET ROLE planned",
        )
        .expect("a privilege");
    for query in ["SELECT snowflake_timestamp(id) FROM ids", "EXECUTE kept"] {
        assert_eq!(error(&mut client, query).code().code(), "42501", "{query}");
    }
    assert_eq!(value(&mut client, "SELECT snowflake_timestamp(id, 'twitter') FROM ids"), time);
}

/// What is known of functions is forgotten when they change.
#[test]
fn an_extension_that_is_created_anew_is_planned_with_its_own_functions() {
    let (_database, mut client) = database();
    client
        .batch_execute("CREATE TABLE ids (id bigint); PREPARE kept AS SELECT snowflake_min_id(now()) > 0")
        .expect("a table");
    for schema in ["public", "other"] {
        let shown = plan(&mut client, &format!("EXPLAIN (VERBOSE) SELECT {schema}.snowflake_timestamp(id) FROM ids"));
        assert!(shown.contains("snowflake_timestamp(id, 'flat'::text)"), "{shown}");
        client
            .batch_execute("DROP EXTENSION snowflake_pg; CREATE SCHEMA IF NOT EXISTS other; CREATE EXTENSION snowflake_pg SCHEMA other")
            .expect("the extension");
    }
}
