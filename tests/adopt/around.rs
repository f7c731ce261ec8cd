//! What reads a column that must become wider is dropped, and made again as it was.

use super::{database, plan, run};
use std::process::Command;
use testbed::{Database, test, value};

/// What pg_dump says of the database, but for what a plan is to change.
fn dump(database: &Database) -> String {
    let mut pg_dump = Command::new(database.server().bindir().join("pg_dump"));
    let output = pg_dump.args(["--schema-only", database.name()]).envs(database.server().environment()).output();
    let output = output.expect("pg_dump");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text").replace("integer", "bigint");
    let text = text.replace(" DEFAULT ids.snowflake_nextval()", "").replace("(10)::bigint", "10");
    let is_changed = |line: &&str| {
        ["orders ALTER COLUMN id SET DEFAULT", "    AS bigint", "restrict "]
            .iter()
            .any(|changed| line.contains(changed))
    };
    let lines = text.lines().filter(|line| !is_changed(line));
    // Their order is that in which they were made.
    let mut blocks: Vec<_> =
        lines.collect::<Vec<_>>().join("\n").split("\n--\n").map(|block| block.trim().to_owned()).collect();
    blocks.retain(|block| !block.is_empty() && !block.contains("Type: DEFAULT;"));
    blocks.sort();
    blocks.join("\n--\n")
}

#[test]
fn whatever_reads_a_column_is_after_a_plan_as_it_was() {
    let (database, mut client) = database();
    client
        .batch_execute(
            r#"CREATE ROLE "View er"; CREATE ROLE keeper_of_views; CREATE ROLE "Shop's owner"; GRANT CREATE ON SCHEMA public TO "Shop's owner";
            SET ROLE "Shop's owner";
            CREATE TABLE orders (id serial PRIMARY KEY, n integer);
            CREATE TABLE items (order_id integer REFERENCES orders, x integer); ALTER TABLE items ENABLE ROW LEVEL SECURITY;
            CREATE VIEW "First" WITH (security_barrier, check_option = local) AS SELECT id AS "The ID", n FROM orders;
            ALTER VIEW "First" ALTER n SET DEFAULT 7;
            CREATE VIEW second AS SELECT "The ID", x FROM "First" JOIN items ON order_id = "The ID";
            CREATE RULE quiet AS ON DELETE TO second DO INSTEAD NOTHING;
            CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
            CREATE TRIGGER instead INSTEAD OF INSERT ON second FOR EACH ROW EXECUTE FUNCTION nothing();
            CREATE MATERIALIZED VIEW kept WITH (fillfactor = 50) AS SELECT "The ID" % 10 AS last, count(*) FROM second GROUP BY 1;
            CREATE UNIQUE INDEX ON kept (last) WHERE last > 0;
            CREATE MATERIALIZED VIEW hollow AS TABLE kept WITH NO DATA;
            CREATE FUNCTION greatest_of(more integer) RETURNS bigint SECURITY DEFINER
                BEGIN ATOMIC SELECT max("The ID") + more FROM second; END;
            CREATE VIEW third AS SELECT greatest_of(1);
            CREATE POLICY own ON items AS RESTRICTIVE FOR UPDATE TO "View er", keeper_of_views
                USING (order_id > 0) WITH CHECK (EXISTS (SELECT FROM "First" WHERE "The ID" = order_id));
            CREATE TRIGGER t BEFORE UPDATE OF id ON orders FOR EACH ROW WHEN (new.id > 5)
                EXECUTE FUNCTION suppress_redundant_updates_trigger(); ALTER TABLE orders ENABLE ALWAYS TRIGGER t;
            COMMENT ON VIEW "First" IS 'it''s the first'; COMMENT ON COLUMN "First"."The ID" IS 'an ID';
            COMMENT ON POLICY own ON items IS 'a policy'; COMMENT ON TRIGGER t ON orders IS 'a trigger';
            COMMENT ON FUNCTION greatest_of(integer) IS 'a function'; COMMENT ON MATERIALIZED VIEW kept IS 'kept';
            GRANT SELECT, UPDATE ON "First" TO "View er"; GRANT SELECT (x) ON second TO "View er" WITH GRANT OPTION;
            GRANT SELECT ON kept TO PUBLIC; REVOKE ALL ON FUNCTION greatest_of(integer) FROM PUBLIC;
            GRANT EXECUTE ON FUNCTION greatest_of(integer) TO "View er";
            ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO keeper_of_views; GRANT SELECT ON third TO "View er";
            REVOKE INSERT ON third FROM "Shop's owner"; ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM "Shop's owner";
            RESET ROLE; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO keeper_of_views;
            INSERT INTO orders (n) VALUES (1), (2); INSERT INTO items VALUES (1, 1), (2, 2);
            REFRESH MATERIALIZED VIEW kept"#,
        )
        .expect("an application");
    let before = dump(&database);
    run(&mut client, "plan", "'orders'");
    let after = dump(&database);
    let lines = |text: &str, other: &str| -> Vec<String> {
        text.lines().filter(|line| !other.contains(line)).map(str::to_owned).collect()
    };
    assert_eq!((lines(&before, &after), lines(&after, &before)), (vec![], vec![]));
    assert_eq!(before, after);
    assert_eq!(value(&mut client, "SELECT count(*) FROM kept"), "2");
    assert_eq!(value(&mut client, "SELECT relispopulated FROM pg_class WHERE relname = 'hollow'"), "f");
    client
        .batch_execute("INSERT INTO orders (n) VALUES (3); INSERT INTO items SELECT max(id), 3 FROM orders")
        .expect("rows");
    assert!(super::is_new(&mut client, "SELECT max(\"The ID\") FROM second"));
    client
        .batch_execute(
            "ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM keeper_of_views; DROP OWNED BY keeper_of_views, \"View er\";
             DROP OWNED BY \"Shop's owner\" CASCADE",
        )
        .expect("the end");
}

/// Each object, the reason, and what makes it.
#[test]
fn what_cannot_be_made_again_as_it_was_is_named_and_nothing_is_done() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE ROLE view_maker; GRANT CREATE ON SCHEMA public TO view_maker").expect("a role");
    for (object, reason, make) in [
        (
            "table public.archive",
            "it depends on a column that must become bigint",
            "CREATE VIEW v AS SELECT id FROM orders; CREATE TABLE archive (row v)",
        ),
        (
            "function public.p()",
            "it is not a function",
            "CREATE PROCEDURE p() BEGIN ATOMIC UPDATE orders SET n = 1 WHERE id = 3; END",
        ),
        (
            "view public.v",
            "it and the tables that it reads have different owners",
            "CREATE VIEW v AS SELECT id FROM orders; ALTER VIEW v OWNER TO view_maker",
        ),
        (
            "policy own on table public.others",
            "it and the tables that it reads have different owners",
            "CREATE TABLE others (id integer); CREATE POLICY own ON others USING (id IN (SELECT id FROM orders)); ALTER TABLE others OWNER TO view_maker",
        ),
        (
            "view public.v",
            "other roles have granted privileges on it",
            "CREATE VIEW v AS SELECT id FROM orders; GRANT SELECT (id) ON v TO view_maker WITH GRANT OPTION;
             SET ROLE view_maker; GRANT SELECT (id) ON v TO pg_monitor; RESET ROLE",
        ),
        (
            "materialized view public.v",
            "it has its own statistics, storage or order",
            "CREATE MATERIALIZED VIEW v AS SELECT id, id % 2 AS odd FROM orders; CREATE STATISTICS s ON id, odd FROM v",
        ),
        (
            "materialized view public.v",
            "it has its own statistics, storage or order",
            "CREATE MATERIALIZED VIEW v AS SELECT id, n::text FROM orders; ALTER MATERIALIZED VIEW v ALTER n SET STORAGE PLAIN",
        ),
        (
            "materialized view public.w",
            "it has rows, and reads a materialized view that has not been populated",
            "CREATE MATERIALIZED VIEW v AS SELECT id FROM orders; CREATE MATERIALIZED VIEW w AS TABLE v;
             REFRESH MATERIALIZED VIEW v WITH NO DATA",
        ),
        (
            "function public.p()",
            "it belongs to an extension",
            "CREATE FUNCTION p() RETURNS bigint BEGIN ATOMIC SELECT max(id) FROM orders; END;
             ALTER FUNCTION p DEPENDS ON EXTENSION plpgsql",
        ),
        (
            "view public.v",
            "it uses a type of another role",
            "CREATE DOMAIN theirs AS text; ALTER DOMAIN theirs OWNER TO view_maker; CREATE TYPE pair AS (first theirs);
             CREATE VIEW v AS SELECT id FROM orders WHERE (NULL::pair) IS NULL",
        ),
        (
            "view public.v",
            "its owner cannot create in its schema",
            "CREATE VIEW v AS SELECT id FROM orders; ALTER TABLE orders OWNER TO view_maker; ALTER VIEW v OWNER TO view_maker;
             REVOKE CREATE ON SCHEMA public FROM view_maker",
        ),
    ] {
        let orders = "CREATE TABLE orders (id serial PRIMARY KEY, n integer)";
        client.batch_execute(&format!("{orders}; {make}")).expect("objects");
        let found = plan(&mut client, "plan", "'orders'");
        assert_eq!(found.notes, [format!("{object} cannot be dropped and recreated: {reason}.")], "{make}");
        assert!(found.commands.is_empty(), "{make}: {found:?}");
        client
            .batch_execute(
                "DROP TABLE IF EXISTS archive, others CASCADE; DROP ROUTINE IF EXISTS p; DROP TABLE orders CASCADE;
                 DROP DOMAIN IF EXISTS theirs CASCADE; DROP TYPE IF EXISTS pair; GRANT CREATE ON SCHEMA public TO view_maker",
            )
            .expect("the end");
    }
    client.batch_execute("DROP OWNED BY view_maker; DROP ROLE view_maker").expect("the end");
    // Also that of another session, which a plan could not make.
    client
        .batch_execute("CREATE TABLE orders (id serial PRIMARY KEY); CREATE TEMPORARY VIEW v AS SELECT id FROM orders")
        .expect("a view");
    let notes = plan(&mut client, "plan", "'orders'").notes;
    assert!(notes[0].ends_with("cannot be dropped and recreated: it is temporary."), "{notes:?}");
}

/// A function that takes a bigint would fit better than the one that took an integer: a stranger's, or the owner's own.
#[test]
fn what_is_made_again_calls_what_it_called_before_or_nothing_is_done() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE ROLE stranger_here; CREATE SCHEMA shared; GRANT CREATE, USAGE ON SCHEMA shared TO stranger_here;
             CREATE FUNCTION shared.allowed(integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = 1';
             CREATE TABLE orders (id serial PRIMARY KEY)",
        )
        .expect("objects");
    for (create, role, what, drop) in [
        (
            "CREATE POLICY own ON orders USING (shared.allowed(id))",
            "stranger_here",
            "policy own on table public.orders",
            "DROP POLICY own ON orders",
        ),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT id FROM orders; CREATE INDEX ON m (shared.allowed(id))",
            "none",
            "materialized view public.m",
            "DROP MATERIALIZED VIEW m",
        ),
    ] {
        client
            .batch_execute(&format!(
                "{create}; SET ROLE {role};
                 CREATE FUNCTION shared.allowed(bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'; RESET ROLE"
            ))
            .expect("what reads the column");
        let mut failed = Vec::new();
        for command in plan(&mut client, "plan", "'orders'").commands {
            if let Err(error) = client.batch_execute(&command) {
                failed.push(error.as_db_error().expect("an error of the server").message().to_owned());
            }
        }
        let says = format!("{what} does not depend on the same objects as before");
        assert_eq!(failed.first(), Some(&says), "{failed:?}");
        let calls = "SELECT string_agg(DISTINCT concat(refobjid::regprocedure, ' ', pg_typeof(id)), ', ')
            FROM pg_depend CROSS JOIN (SELECT max(id) FROM orders) o(id)
            WHERE classid <> 'pg_proc'::regclass AND refclassid = 'pg_proc'::regclass AND refobjid::regproc::text LIKE 'shared.%'";
        assert_eq!(value(&mut client, calls), "shared.allowed(integer) integer", "{create}");
        client.batch_execute(&format!("{drop}; DROP FUNCTION shared.allowed(bigint)")).expect("no reader");
    }
    client.batch_execute("DROP OWNED BY stranger_here; DROP ROLE stranger_here").expect("the end");
}
