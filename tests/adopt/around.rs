//! What reads a column that must become wider is dropped, and made again as it was.

use super::{database, plan, run};
use std::process::Command;
use testbed::postgres::NoTls;
use testbed::{Database, error, test, value};

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
            r#"CREATE ROLE "View er"; CREATE ROLE keeper_of_views; GRANT CREATE ON SCHEMA public TO keeper_of_views;
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
            ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO keeper_of_views;
            ALTER VIEW third OWNER TO keeper_of_views; GRANT SELECT ON third TO "View er";
            INSERT INTO orders (n) VALUES (1), (2); INSERT INTO items VALUES (1, 1), (2, 2);
            REFRESH MATERIALIZED VIEW kept"#,
        )
        .expect("an application");
    let before = dump(&database);
    run(&mut client, "adopt", "'orders'");
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
        .batch_execute("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM keeper_of_views; DROP OWNED BY keeper_of_views, \"View er\"")
        .expect("the end");
}

#[test]
fn what_cannot_be_made_again_is_named_and_nothing_is_done() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id serial PRIMARY KEY); CREATE VIEW shown AS SELECT id FROM orders;
             CREATE TABLE archive (row shown)",
        )
        .expect("tables");
    let found = plan(&mut client, "adopt", "'orders'");
    let note =
        "table public.archive cannot be dropped and made again, and reads what must become bigint, or a view of it.";
    assert_eq!((&*found.notes, found.commands.len()), (&[note.to_owned()][..], 0));
}

/// As the database's own, who could put code of theirs into a view that a superuser makes again.
#[test]
fn a_superuser_who_makes_views_again_runs_no_code_of_their_owners() {
    let (database, mut client) = database();
    client
        .batch_execute("CREATE ROLE view_maker LOGIN; GRANT ALL ON SCHEMA public, ids TO view_maker; CREATE TABLE orders (id serial PRIMARY KEY); GRANT SELECT ON orders TO view_maker; INSERT INTO orders DEFAULT VALUES")
        .expect("a table");
    let mut maker = database.config().user("view_maker").connect(NoTls).expect("a session");
    maker
        .batch_execute(
            "CREATE FUNCTION code(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
                 IF current_user <> 'view_maker' THEN RAISE EXCEPTION '% runs code', current_user; END IF; RETURN $1; END $$;
             CREATE VIEW seen AS SELECT code(id) AS id, code(1) AS one FROM orders WHERE code(2) = 2;
             CREATE MATERIALIZED VIEW kept AS SELECT code(id) AS id, code(3) AS three FROM orders; CREATE INDEX ON kept (code(id))",
        )
        .expect("views");
    run(&mut client, "adopt", "'orders'");
    assert_eq!(value(&mut maker, "SELECT count(*) FROM kept"), "1");
    assert_eq!(error(&mut client, "SELECT * FROM seen").message(), "postgres runs code");
    client.batch_execute("DROP OWNED BY view_maker CASCADE; DROP ROLE view_maker").expect("the end");
}
