//! A stranger who may create in the schema of the extension, or in one of a search_path, has none of his code run by
//! others.
//!
//! An overload with the exact types of a call beats a conversion in pg_catalog. `hostile/overloads.sql` makes one for
//! every call that our texts could mean, and each of them fails.

use crate::calls::{Function, functions};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Database, Installation, Signal, error, need_extension, project, sources, test, value};

/// A database where a stranger has made all overloads in the schema public, on a server with a durable mark.
fn beset() -> (Database, Client) {
    let database = Cluster::builder().worker(7).database_after("beset", |server| {
        server.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        let mut config = server.config();
        let mut client = config.dbname("template1").connect(NoTls).expect("a session");
        client
            .batch_execute("CREATE ROLE stranger LOGIN; GRANT CREATE ON SCHEMA public TO stranger")
            .expect("a stranger");
        let mut stranger = config.user("stranger").connect(NoTls).expect("a session");
        stranger.batch_execute(&format!("SET hostile.words = '{}'", words())).expect("the words");
        stranger.batch_execute(include_str!("hostile/overloads.sql")).unwrap_or_else(|error| panic!("{error:?}"));
        let made = "SELECT pg_catalog.count(*) || ' operators and ' || (SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc
            WHERE proowner = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = 'stranger'::name)) || ' functions'
            FROM pg_catalog.pg_operator WHERE oprowner = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = 'stranger'::name)";
        println!("a stranger's: {}", value(&mut stranger, made));
    });
    let mut client = database.connect();
    let there = "SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 20000::bigint FROM pg_catalog.pg_proc";
    assert_eq!(value(&mut client, there), "t", "there are overloads");
    (database, client)
}

/// A database among such overloads, with the extensions.
fn beset_extension() -> (Database, Client) {
    let (database, mut client) = beset();
    run(&mut client, "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt");
    let mut stranger = database.config().user("stranger").connect(NoTls).expect("a session");
    stranger.batch_execute(OF_OURS).unwrap_or_else(|error| panic!("{error:?}"));
    (database, client)
}

/// Functions that are called as ours, where a call has literals without a type.
const OF_OURS: &str = "DO $$
    DECLARE call record;
    BEGIN
        FOR call IN SELECT DISTINCT p.proname, p.pronargs FROM pg_catalog.pg_proc p
            WHERE p.proname LIKE 'snowflake%'::text AND p.pronargs > 0::smallint AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc o
                WHERE o.proname OPERATOR(pg_catalog.=) p.proname AND o.pronargs OPERATOR(pg_catalog.=) p.pronargs
                    AND 25::oid OPERATOR(pg_catalog.=) ALL (o.proargtypes::oid[]))
        LOOP
            EXECUTE pg_catalog.format('CREATE FUNCTION public.%I(%s) RETURNS bigint LANGUAGE plpgsql AS
                ''BEGIN RAISE EXCEPTION ''''hostile code is run''''; END'''::text, call.proname,
                pg_catalog.rtrim(pg_catalog.repeat('text, '::text, call.pronargs::integer), ', '::text));
        END LOOP;
    END $$";

/// Runs a statement that nobody else's code may be a part of.
fn run(client: &mut Client, statement: &str) {
    client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
}

/// Every name and every operator that our texts have, and more.
fn words() -> String {
    fn texts(directory: &Path, all: &mut String) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                texts(&path, all);
            } else {
                all.push_str(&fs::read_to_string(path).unwrap_or_default());
            }
        }
    }
    let mut all = String::new();
    for directory in ["sql", "src", "examples/sql", "contrib/monitoring"] {
        texts(&sources().join(directory), &mut all);
    }
    let is_operator = |c: char| "+-*/<>=~!@#%^&|".contains(c);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let names = all.split(|c| !is_name(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    let operators = all.split(|c| !is_operator(c)).filter(|word| (1..=3).contains(&word.len()));
    names.chain(operators).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

fn psql(database: &Database, file: &Path) -> Output {
    database.psql().args(["--set=ON_ERROR_STOP=1", "--file"]).arg(file).output().expect("psql")
}

/// The queries in a configuration: what is further to the right, below such a line.
fn queries(configuration: &str) -> Vec<String> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<_> = configuration.lines().collect();
    let begins = lines.iter().enumerate().filter(|(_, line)| line.ends_with("query: |"));
    let query = |(nth, begin): (usize, &&str)| {
        lines[nth + 1..].iter().take_while(|line| depth(line) > depth(begin)).copied().collect::<Vec<_>>().join("\n")
    };
    let found: Vec<_> = begins.map(query).collect();
    assert!(!found.is_empty(), "no query");
    found
}

/// What no signature tells.
const CALLS: &[&str] = &[
    "snowflake_within(id, '2026-01-01Z'::timestamptz) FROM rows",
    "snowflake_within(id, '2026-01-01Z'::timestamptz, '2026-01-02Z'::timestamptz, 'twitter'::text) FROM rows",
    "snowflake_nextval_for('hashed_0'::regclass)",
    "snowflake_nextval_for('hashed'::regclass, 1::bigint)",
    "* FROM snowflake_layouts",
    "* FROM snowflake_status",
    "* FROM snowflake_metrics",
    "* FROM snowflake_writers",
    "count(*) FROM by_worker WHERE id OPERATOR(pg_catalog.=) 1::bigint",
    "min(id::snowflake), max(id::snowflake) FROM rows",
    "snowflake_adopt.plan('numbered')",
    "snowflake_adopt.schema_plan('public')",
    "snowflake_adopt.revert_plan('numbered')",
    "snowflake_adopt.revert_schema_plan('public')",
    "snowflake_adopt.all_or_nothing()",
];

const CALLS_OF_A_SUPERUSER: &[&str] = &[
    "snowflake_add_created_at('rows'::regclass, stored => true)",
    "snowflake_add_created_at('rows'::regclass, 'sent_at'::name, true, 'timestamp'::regtype, 'js'::text)",
    "snowflake_adopt.run_as('pg_monitor', 'SELECT 1::bigint')",
];

/// What those calls have, what views read, one that stops IDs, and one for another layout.
const NOT_DERIVED: &[&str] = &[
    "snowflake_add_column",
    "snowflake_add_created_at",
    "snowflake_get_layouts",
    "snowflake_get_status",
    "snowflake_get_writers",
    "snowflake_key_of",
    "snowflake_nextval_for",
    "snowflake_nextval_tagged",
    "snowflake_reset_mark",
];

/// Calls of all functions and views, and whether everybody may make them.
fn calls(client: &mut Client) -> Vec<(String, bool)> {
    let functions = functions(client).into_iter().filter(|function| !NOT_DERIVED.contains(&&*function.name));
    // The owner of a table alone may create its partitions.
    let of_everybody =
        |function: &Function| function.is_for_everybody && function.name != "snowflake_create_partitions";
    let derived = functions.map(|function| (function.call(None, ""), of_everybody(&function)));
    let listed = CALLS.iter().map(|call| (call, true)).chain(CALLS_OF_A_SUPERUSER.iter().map(|call| (call, false)));
    derived.chain(listed.map(|(call, of_everybody)| ((*call).to_owned(), of_everybody))).collect()
}

#[test]
fn no_function_and_no_view_runs_code_of_who_may_create_in_the_schema_of_the_extension() {
    let (database, mut client) = beset_extension();
    client
        .batch_execute(
            "CREATE TABLE rows (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), tag integer); INSERT INTO rows DEFAULT VALUES;
             CREATE TABLE days (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
             CREATE TABLE old PARTITION OF days FOR VALUES FROM (snowflake_min_id('2025-01-01Z'::timestamptz))
                 TO (snowflake_min_id('2025-01-02Z'::timestamptz));
             CREATE TABLE hashed (id bigint) PARTITION BY HASH (id);
             CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 1, REMAINDER 0);
             CREATE TABLE by_worker (id bigint PRIMARY KEY) PARTITION BY HASH (id snowflake_flat_worker_ops);
             CREATE TABLE by_worker_0 PARTITION OF by_worker FOR VALUES WITH (MODULUS 1, REMAINDER 0);
             CREATE TABLE numbered (id serial PRIMARY KEY);
             CREATE TABLE filled (id bigint PRIMARY KEY);
             CREATE TRIGGER fill BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
             GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC;
             CREATE ROLE ordinary; CREATE ROLE exporter IN ROLE pg_monitor;
             INSERT INTO filled VALUES (NULL); COPY rows (tag) FROM PROGRAM 'echo 1'",
        )
        .unwrap_or_else(|error| panic!("{error:?}"));
    let mut ran = 0;
    let derived = calls(&mut database.server().connect());
    let (of_everybody, of_a_superuser): (Vec<_>, Vec<_>) =
        derived.into_iter().partition(|(_, of_everybody)| *of_everybody);
    for role in ["postgres", "exporter", "ordinary"] {
        run(&mut client, &format!("SET ROLE {role}"));
        for (call, _) in &of_everybody {
            run(&mut client, &format!("SELECT {call}"));
            ran += 1;
        }
    }
    run(&mut client, "RESET ROLE");
    for (call, _) in &of_a_superuser {
        run(&mut client, &format!("SELECT {call}"));
        ran += 1;
    }
    // And what exporters ask.
    run(&mut client, "SET ROLE exporter");
    for file in ["postgres_exporter.yml", "sql_exporter.yml"] {
        let text = fs::read_to_string(sources().join("contrib/monitoring").join(file)).expect("a file");
        for query in queries(&text) {
            run(&mut client, &query);
            ran += 1;
        }
    }
    println!("{ran} statements beside a stranger's overloads");
}

/// It runs with the schema of the extension as its search_path.
#[test]
fn an_upgrade_script_begins_without_code_of_who_may_create_in_the_schema_of_the_extension() {
    let (_database, mut client) = beset_extension();
    let text = fs::read_to_string(project().join("contrib/packaging/publishing.md")).expect("a document");
    let (_, script) = text.split_once("```sql\n\\echo").expect("a script");
    let block = &script[script.find("DO $$").expect("a block")..script.find("```").expect("an end")];
    run(&mut client, "SET search_path = public, pg_temp");
    let refused = error(&mut client, block);
    assert!(refused.message().ends_with("needs the library of that version"), "{refused:?}");
}

#[test]
fn a_plan_for_adopting_runs_no_code_of_who_may_create_in_a_schema_of_the_search_path() {
    let (database, mut client) = beset_extension();
    client
        .batch_execute(
            "CREATE TABLE orders (id serial PRIMARY KEY, n integer); CREATE TABLE items (of integer REFERENCES orders);
             CREATE VIEW listed AS SELECT id FROM orders; CREATE POLICY all_of ON items USING (of IS NOT NULL);
             CREATE TABLE parts (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
             CREATE TABLE far (id bigserial PRIMARY KEY);
             CREATE TABLE made (id snowflake PRIMARY KEY CHECK (id IS NOT NULL) DEFAULT snowflake_nextval());
             INSERT INTO made DEFAULT VALUES; INSERT INTO far SELECT snowflake_min_id(pg_catalog.clock_timestamp()) + 1::bigint;
             INSERT INTO orders (n) VALUES (1); INSERT INTO items VALUES (1); INSERT INTO parts DEFAULT VALUES",
        )
        .unwrap_or_else(|error| panic!("{error:?}"));
    // Of another owner.
    client
        .batch_execute(
            "CREATE ROLE keeper; ALTER TABLE parts OWNER TO keeper; ALTER TABLE made OWNER TO keeper; ALTER TABLE items OWNER TO keeper; GRANT REFERENCES ON orders TO keeper",
        )
        .unwrap_or_else(|error| panic!("{error:?}"));
    // A call with the exact types is none of the stranger's.
    let tables = ["orders", "parts", "far", "made"].map(|table| ("", format!("'{table}'")));
    for (of, arguments) in tables.into_iter().chain([("schema_", "'public'".to_owned())]) {
        for which in ["", "revert_"].map(|way| format!("{way}{of}plan")) {
            let script = database.server().make_directory(&format!("{which} {arguments}")).join("plan.sql");
            fs::write(&script, format!("SELECT command FROM snowflake_adopt.{which}({arguments}) \\gexec\n"))
                .expect("a script");
            let output = psql(&database, &script);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{which} {arguments}: {said}");
        }
    }
}

#[test]
fn new_tables_with_snowflake_ids_run_no_code_of_who_may_create_in_a_schema_of_the_search_path() {
    let (_database, mut client) = beset_extension();
    run(&mut client, "SET snowflake_pg.serial_schemas = '*'; SET snowflake_pg.widen_serial = on");
    for statement in [
        "CREATE TABLE orders (id serial PRIMARY KEY, other bigint GENERATED ALWAYS AS IDENTITY)",
        "CREATE TABLE items (of integer REFERENCES orders, id integer GENERATED ALWAYS AS IDENTITY (START WITH 5))",
        "CREATE TABLE parts (of integer); ALTER TABLE parts ADD FOREIGN KEY (of) REFERENCES orders",
        "SET snowflake_pg.serial_schemas = ''; CREATE TABLE old (id bigint GENERATED ALWAYS AS IDENTITY)",
        "SET snowflake_pg.serial_schemas = '*'; CREATE TABLE copy (LIKE old INCLUDING ALL)",
        "CREATE TABLE another (LIKE orders INCLUDING IDENTITY); CREATE TABLE part (id integer NOT NULL)",
        "CREATE TABLE whole (id serial) PARTITION BY RANGE (id); ALTER TABLE whole ATTACH PARTITION part DEFAULT",
        "INSERT INTO orders DEFAULT VALUES; INSERT INTO items SELECT id FROM orders; INSERT INTO copy DEFAULT VALUES",
    ] {
        run(&mut client, statement);
    }
    let defaults = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_attrdef
        WHERE pg_catalog.pg_get_expr(adbin, adrelid) = 'snowflake_id()'::text";
    assert_eq!(value(&mut client, defaults), "7");
}

#[test]
fn no_object_of_the_extension_depends_on_anything_but_pg_catalog_and_its_own() {
    let (_database, mut client) = beset_extension();
    client.batch_execute("SET search_path = ''").expect("a setting");
    let ours = "SELECT objid FROM pg_catalog.pg_depend WHERE deptype = 'e' AND refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass";
    let foreign = format!(
        "SELECT pg_catalog.string_agg(pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) || ' on '
                || pg_catalog.pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), '; ')
         FROM pg_catalog.pg_depend d LEFT JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
         WHERE (d.objid IN ({ours}) OR r.ev_class IN ({ours})) AND d.refobjid >= 16384
             AND d.deptype <> 'e' AND d.refobjid NOT IN ({ours})
             AND d.refclassid <> 'pg_catalog.pg_namespace'::pg_catalog.regclass
             AND d.refobjid NOT IN (SELECT oid FROM pg_catalog.pg_type WHERE typelem IN ({ours}) OR typrelid IN ({ours}))"
    );
    assert_eq!(value(&mut client, &foreign), "NULL");
}

/// As the query of a server has them, whose names for values are unknown literals.
const ABOUT: &str = "text, bigint, text, bigint, text, bigint, text, bigint, text, bigint, text, text, text, text, text, text, text, text, \
                     text, integer";

#[test]
fn servers_and_people_who_use_a_registry_run_no_code_of_who_may_create_in_its_database() {
    let (database, mut client) = beset();
    run(
        &mut client,
        &format!(
            "SET ROLE stranger; CREATE FUNCTION jsonb_build_object({ABOUT}) RETURNS jsonb LANGUAGE plpgsql
                 AS 'BEGIN RAISE EXCEPTION ''hostile code is run''; END'; RESET ROLE"
        ),
    );
    let output = psql(&database, &Installation::shared().script("snowflake_registry.sql"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    run(&mut client, "CREATE ROLE fleet LOGIN IN ROLE snowflake_registry_server");
    let conninfo = format!("host={} user=fleet dbname={}", database.server().host().display(), database.name());
    let builder = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", conninfo);
    let mut server = builder.set("snowflake_pg.registry_lease", "5s").set("snowflake_pg.max_borrow", "1s").start();
    run(&mut server.connect(), "CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()");
    // It renews its lease, releases it, and gets it again.
    let until = value(&mut server.connect(), "SELECT lease_until FROM snowflake_status");
    server.wait_until(&format!("SELECT lease_until > '{until}' FROM snowflake_status"));
    server.restart(Signal::INT);
    run(&mut server.connect(), "SELECT snowflake_nextval()");
    let problem = value(&mut server.connect(), "SELECT registry_error FROM snowflake_status");
    assert_eq!(problem, "NULL", "{}", server.log());
    server.stop(Signal::KILL);
    run(&mut client, "CREATE ROLE person IN ROLE snowflake_registry_admin; SET ROLE person");
    for statement in [
        "SELECT * FROM snowflake_registry.workers",
        "SELECT * FROM snowflake_registry.status",
        "SELECT snowflake_registry.reserve_workers(5::bigint, 7::bigint, 'ours'::text)",
        "SELECT snowflake_registry.forbid_workers(5::bigint, 7::bigint, 'broken'::text)",
        "SELECT snowflake_registry.allow_workers(5::bigint, 7::bigint)",
        "SELECT snowflake_registry.end_recovery()",
        "SELECT snowflake_registry.set_longest_lease('1 hour'::interval)",
        "SELECT snowflake_registry.version()",
        "SELECT snowflake_registry.release_worker(1023::bigint)",
    ] {
        run(&mut client, statement);
    }
}

/// The database is its own member.
#[test]
fn a_feed_runs_no_code_of_who_may_create_in_a_schema_of_the_search_path_here_or_there() {
    need_extension("dblink");
    let (database, mut client) = beset_extension();
    let server = format!(
        "CREATE SERVER own FOREIGN DATA WRAPPER dblink_fdw
            OPTIONS (host '{}', dbname '{}', connect_timeout '3', tcp_user_timeout '3000')",
        database.server().host().display(),
        database.name()
    );
    for statement in [
        "CREATE EXTENSION dblink; CREATE EXTENSION snowflake_feed",
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)",
        &server,
        "CREATE USER MAPPING FOR postgres SERVER own OPTIONS (user 'postgres')",
        "SELECT snowflake_feed.create('all', 'public.orders')",
        "SELECT snowflake_feed.add_server('all', 'own', '2026-01-01Z'::timestamptz)",
        "INSERT INTO orders (item) VALUES ('tea')",
        "CREATE ROLE consumer; SELECT snowflake_feed.allow_reader('consumer'::regrole)",
        "CREATE TABLE got AS SELECT * FROM snowflake_feed.read(NULL::orders, 'all')",
        "SELECT server, is_late, (content).* FROM snowflake_feed.read_marked(NULL::orders, 'all', 5)",
        "SELECT * FROM snowflake_feed.servers",
        "SELECT snowflake_feed.forbid_reader('consumer'::regrole)",
        "SELECT snowflake_feed.drop_server('all', 'own', true); SELECT snowflake_feed.drop('all')",
    ] {
        run(&mut client, statement);
    }
    assert_eq!(value(&mut client, "SELECT pg_catalog.count(*) FROM got"), "1");
}

#[test]
fn a_migration_runs_no_code_of_who_may_create_in_a_schema_of_the_search_path() {
    let (_database, mut client) = beset_extension();
    run(
        &mut client,
        "CREATE TABLE orders (id serial PRIMARY KEY, parent integer REFERENCES orders CHECK (parent > 0::integer));
         CREATE VIEW listed AS SELECT id FROM orders; CREATE INDEX ON orders (parent) WHERE parent IS NOT NULL;
         INSERT INTO orders SELECT n::integer FROM pg_catalog.generate_series(1::integer, 1000::integer) n; ANALYZE orders",
    );
    for call in
        ["start('orders')", "undo('orders')", "start('orders')", "run('orders')", "pause('orders')", "run('orders')"]
    {
        run(&mut client, &format!("CALL snowflake_adopt.{call}"));
    }
    run(&mut client, "SELECT * FROM snowflake_adopt.progress");
    run(&mut client, "CALL snowflake_adopt.finish('orders')");
    run(&mut client, "INSERT INTO orders DEFAULT VALUES");
}

#[test]
fn the_examples_run_no_code_of_who_may_create_in_a_schema_of_the_search_path() {
    need_extension("postgres_fdw");
    let (database, mut client) = beset_extension();
    for (example, after) in [
        (
            "order_codes.sql",
            "INSERT INTO orders (item) VALUES ('tea'); SELECT order_id(order_code(id)) FROM orders; DROP TABLE orders CASCADE",
        ),
        (
            "outbox.sql",
            "INSERT INTO outbox (topic, body) VALUES ('tea', '{}'::jsonb); SELECT count_topics(10)",
        ),
        ("events_by_time.sql", "INSERT INTO events (what) VALUES ('tea'); SELECT * FROM events_of_last_hour"),
        (
            "shards.sql",
            "INSERT INTO notes (id, shard)
             VALUES (snowflake_compose('2026-01-01Z'::timestamptz, 0, 1, 2, 3, 't41 w5 s9 h8'::text), 3); DROP TABLE notes",
        ),
        ("sharded_orders_shard.sql", "INSERT INTO customers (name) VALUES ('Ada'); DROP TABLE customers, orders CASCADE"),
        ("sharded_orders_router.sql", "SELECT name FROM customers WHERE id IS NULL; DROP TABLE customers, orders, orders_by_id"),
    ] {
        let mut psql = database.psql();
        psql.args(["--set=ON_ERROR_STOP=1", "--set=shard=7", "--set=host=a", "--set=password=b", "--file"]).arg(project().join("examples/sql").join(example));
        let output = psql.output().expect("psql");
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        run(&mut client, after);
    }
}
