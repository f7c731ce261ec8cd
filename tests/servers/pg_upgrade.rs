//! pg_upgrade, with tables of every kind. `make suite NAME=upgrade` runs it from another major version.

use std::fmt::Write;
use std::time::Instant;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, PATIENCE, Signal, error, has_extension, test, value};

/// Keys, columns of all kinds, partitions by all classes, and what refers to them.
const TABLES: &str = "
    CREATE ROLE app;
    CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt;
    CREATE DOMAIN exact_id AS snowflake; CREATE DOMAIN order_id AS bigint CHECK (snowflake_timestamp(VALUE, 'flat') > '2020-01-01Z');
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), exact snowflake DEFAULT snowflake_id() UNIQUE,
        of_domain order_id DEFAULT snowflake_nextval(), other exact_id DEFAULT snowflake_id(), item text DEFAULT 'tea', reply_to bigint REFERENCES orders,
        created_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'flat')) STORED,
        worker integer GENERATED ALWAYS AS ((snowflake_decode(id, 'flat')).worker_id) STORED,
        CONSTRAINT of_layout CHECK (snowflake_timestamp(id, 'flat') > '2020-01-01Z' AND exact > 0));
    CREATE INDEX by_time ON orders (snowflake_timestamp(id, 'flat'));
    CREATE INDEX by_text ON orders ((exact::text)) WHERE (snowflake_decode(id, 'flat')).worker_id = 7;
    CREATE INDEX by_hash ON orders USING hash (exact); CREATE INDEX by_range ON orders USING brin (exact);
    GRANT SELECT, INSERT ON orders TO app; GRANT EXECUTE ON FUNCTION snowflake_reset_stats() TO app;
    REVOKE SELECT ON snowflake_status FROM PUBLIC;
    CREATE VIEW recent AS SELECT * FROM orders WHERE snowflake_within(id, now() - interval '1 day');
    CREATE MATERIALIZED VIEW days AS SELECT snowflake_timestamp(id, 'flat')::date AS day, count(*) FROM orders GROUP BY 1;
    CREATE FUNCTION last_time() RETURNS timestamptz RETURN (SELECT snowflake_timestamp(max(id)) FROM orders);
    CREATE TABLE filled (id bigint PRIMARY KEY, item text DEFAULT 'tea');
    CREATE TRIGGER fill_id BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
    SELECT snowflake_create_operator_class('by_tag', 'tag', 'public', 't41 w5 s9 h8');
    CREATE TABLE tags (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text DEFAULT 'tea') PARTITION BY HASH (id by_tag);
    CREATE TABLE workers (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), item text DEFAULT 'tea')
        PARTITION BY HASH (id snowflake_flat_worker_ops);
    CREATE TABLE hashes (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text DEFAULT 'tea')
        PARTITION BY HASH (id);
    CREATE TABLE times (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text DEFAULT 'tea') PARTITION BY RANGE (id);
    CREATE TABLE shard (id bigint PRIMARY KEY DEFAULT snowflake_nextval_for_shard(2, 1), item text DEFAULT 'tea',
        CHECK (snowflake_shard_of(id, 2) = 1));
    SET snowflake_pg.serial_schemas = '*'; SET snowflake_pg.widen_serial = on;
    CREATE TABLE serials (id bigserial PRIMARY KEY, item text DEFAULT 'tea');
    CREATE TABLE widened (id serial PRIMARY KEY, other integer GENERATED ALWAYS AS IDENTITY, item text DEFAULT 'tea');
    RESET snowflake_pg.serial_schemas; RESET snowflake_pg.widen_serial;
    CREATE TABLE adopted (id serial PRIMARY KEY, item text DEFAULT 'tea');
    CREATE TABLE under_way (id serial PRIMARY KEY, item text DEFAULT 'tea');
    CREATE TABLE begun (id serial PRIMARY KEY, item text DEFAULT 'tea')";

/// Those that take rows with nothing but defaults.
const NAMES: [&str; 12] = [
    "orders",
    "filled",
    "tags",
    "workers",
    "hashes",
    "times",
    "shard",
    "serials",
    "widened",
    "adopted",
    "under_way",
    "begun",
];

/// What pg_upgrade has to keep, as the catalogs say it, and all rows.
fn kept(client: &mut Client) -> String {
    let mut kept = value(
        client,
        "SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
            SELECT concat_ws(' ', adrelid::regclass, adnum, pg_get_expr(adbin, adrelid)) FROM pg_attrdef
            UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index
                WHERE indrelid::regclass::text = ANY ('{orders,tags,workers,hashes,times}')
            UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
                WHERE contype <> 'n' AND connamespace = 'public'::regnamespace
            UNION ALL SELECT concat_ws(' ', oid::regclass, pg_get_partkeydef(oid), pg_get_expr(relpartbound, oid)) FROM pg_class
                WHERE relnamespace = 'public'::regnamespace AND (relispartition OR relkind = 'p')
            UNION ALL SELECT concat_ws(' ', proname, privilege_type) FROM pg_proc, aclexplode(proacl) WHERE grantee = 'app'::regrole
            UNION ALL SELECT concat_ws(' ', relname, grantee, privilege_type) FROM pg_class, aclexplode(relacl)
                WHERE grantee = 'app'::regrole OR (grantee, relname) = (0, 'snowflake_status')
            UNION ALL SELECT concat_ws(' ', extname, extversion) FROM pg_extension WHERE extname LIKE 'snowflake%'
        ) lines (line)",
    );
    for table in NAMES {
        let rows = format!("SELECT md5(string_agg(concat(tableoid::regclass, t), ',' ORDER BY id)) FROM {table} t");
        write!(kept, "\n{table} {}", value(client, &rows)).expect("a text");
    }
    kept
}

/// Fills all tables, and brings three of them to different states of adopting.
fn fill(client: &mut Client) {
    client.batch_execute(TABLES).expect("tables");
    let is_with_virtual = value(client, "SELECT current_setting('server_version_num')::integer >= 180000") == "t";
    if is_with_virtual {
        let expression = value(client, "SELECT snowflake_time_expression('id')");
        let add = format!("ALTER TABLE filled ADD at timestamptz GENERATED ALWAYS AS ({expression}) VIRTUAL");
        client.batch_execute(&add).expect("a virtual column");
    }
    for (table, modulus) in [("tags", 3), ("workers", 4), ("hashes", 2)] {
        for remainder in 0..modulus {
            let part = format!(
                "CREATE TABLE {table}_{remainder} PARTITION OF {table} FOR VALUES WITH (MODULUS {modulus}, REMAINDER {remainder})"
            );
            client.batch_execute(&part).expect("a partition");
        }
    }
    client
        .batch_execute(
            "ALTER TABLE hashes_1 ALTER id SET DEFAULT snowflake_nextval_for('hashes_1');
             SELECT snowflake_create_partitions('times', '1 day', 3)",
        )
        .expect("partitions");
    insert(client);
    for call in ["start('adopted')", "finish('adopted')", "start('under_way')", "run('under_way')", "start('begun')"] {
        client
            .batch_execute(&format!("CALL snowflake_adopt.{call}"))
            .unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    insert(client);
    client.batch_execute("REFRESH MATERIALIZED VIEW days").expect("a view");
}

fn insert(client: &mut Client) {
    for table in NAMES.into_iter().chain(["hashes_1"]) {
        let insert = format!("INSERT INTO {table} (item) SELECT 'tea' FROM generate_series(1, 50)");
        client.batch_execute(&insert).unwrap_or_else(|error| panic!("{table}: {error:?}"));
    }
}

fn connect(cluster: &Cluster, database: &str) -> Client {
    cluster.config().dbname(database).connect(NoTls).expect("a session")
}

/// A database that reads a feed of the server that it is on, and one with a registry.
fn with_others(cluster: &Cluster, has_feed: bool) {
    cluster.connect().batch_execute("CREATE DATABASE registry").expect("a database");
    connect(cluster, "registry")
        .batch_execute(
            "CREATE EXTENSION snowflake_registry; SELECT snowflake_registry.forbid_workers(0, 15, 'by hand')",
        )
        .expect("a registry");
    if !has_feed {
        return;
    }
    cluster.connect().batch_execute("CREATE DATABASE reader").expect("a database");
    let mut reader = connect(cluster, "reader");
    let feed = format!(
        "CREATE EXTENSION snowflake_feed CASCADE; CREATE TABLE orders (id bigint, item text);
         CREATE SERVER s FOREIGN DATA WRAPPER dblink_fdw
            OPTIONS (host '{}', dbname 'postgres', connect_timeout '30', tcp_user_timeout '30000');
         CREATE USER MAPPING FOR postgres SERVER s OPTIONS (user 'postgres');
         SELECT snowflake_feed.create('all', 'public.orders'); SELECT snowflake_feed.add_server('all', 's', '-infinity')",
        cluster.host().display()
    );
    reader.batch_execute(&feed).expect("a feed");
    read_all(&mut reader, cluster);
}

/// Reads until all rows have come, each once.
fn read_all(reader: &mut Client, from: &Cluster) {
    let (all, deadline) = (value(&mut from.connect(), ORDERS), Instant::now() + PATIENCE);
    while value(reader, ORDERS) != all {
        assert!(Instant::now() < deadline, "not {all} rows: {}", value(reader, ORDERS));
        value(reader, READ);
    }
    assert_eq!(value(reader, "SELECT count(*) - count(DISTINCT id) FROM orders"), "0");
}

const READ: &str = "WITH new AS (INSERT INTO orders SELECT * FROM snowflake_feed.read(NULL::orders, 'all') RETURNING 1)
    SELECT count(*) FROM new";
const ORDERS: &str = "SELECT count(*) FROM orders";

/// All are there: the registry takes the upgrade for a restore, and the feed goes on when its server is accepted.
fn others_go_on(new: &Cluster, has_feed: bool) {
    let mut registry = connect(new, "registry");
    assert_eq!(value(&mut registry, "SELECT count(*) FROM snowflake_registry.lease WHERE rule = 'forbidden'"), "16");
    value(&mut registry, "SELECT registry_version FROM snowflake_registry.server_hello(NULL, NULL, NULL, NULL, NULL)");
    assert_eq!(value(&mut registry, "SELECT restored_at > 0 FROM snowflake_registry.registry"), "t");
    if has_feed {
        let mut reader = connect(new, "reader");
        let there = format!("ALTER SERVER s OPTIONS (SET host '{}')", new.host().display());
        reader.batch_execute(&there).expect("the new server");
        assert_eq!(value(&mut reader, READ), "0");
        value(&mut reader, "SELECT snowflake_feed.accept_server('all', 's')::text");
        read_all(&mut reader, new);
    }
}

#[test]
fn pg_upgrade_keeps_tables_of_every_kind_and_their_new_ids_are_above_those_before() {
    let mut old = Cluster::builder().old().worker(7).set("max_worker_processes", 16).start();
    let mut client = old.connect();
    fill(&mut client);
    let is_there = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'dblink')";
    let has_feed = value(&mut client, is_there) == "t" && has_extension("dblink");
    with_others(&old, has_feed);
    let before = kept(&mut client);
    let last = value(&mut client, "SELECT snowflake_nextval()");
    drop(client);
    old.stop(Signal::INT);

    let mut new = Cluster::builder().worker(7).set("max_worker_processes", 16).upgrade_of(&old);
    new.start();
    let mut client = new.connect();
    assert_eq!(kept(&mut client), before);
    assert_eq!(value(&mut client, &format!("SELECT snowflake_nextval() > {last}")), "t");
    let state = "SELECT state || (library_version = extension_version) FROM snowflake_status";
    assert_eq!(value(&mut client, state), "readytrue");

    insert(&mut client);
    // `begun` and `under_way` still draw from their sequences.
    for table in &NAMES[..10] {
        let above = format!("SELECT count(*) >= 50 AND count(*) = count(DISTINCT id) FROM {table} WHERE id > {last}");
        assert_eq!(value(&mut client, &above), "t", "{table}");
    }
    for (query, expected) in [
        (
            "SELECT bool_and(created_at = snowflake_timestamp(id) AND worker = 7 AND exact::bigint > id) FROM orders",
            "t",
        ),
        ("SELECT (SELECT count(*) FROM recent) = count(*) FROM orders", "t"),
        ("SELECT last_time() = max(created_at) FROM orders", "t"),
        (
            "SELECT bool_and(tableoid::regclass::text = 'workers_' || (snowflake_decode(id)).worker_id % 4) FROM workers",
            "t",
        ),
        ("SELECT bool_and(tableoid::regclass::text = 'tags_' || (id % 256) % 3) FROM tags", "t"),
        ("SELECT count(*) >= 150 FROM hashes_1 WHERE snowflake_shard_of(id, 2) = 1", "t"),
        ("SELECT bool_and(satisfies_hash_partition('hashes'::regclass, 2, 1, id)) FROM hashes_1", "t"),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
    for (refused, code) in [
        ("INSERT INTO orders (id) VALUES (5)", "23514"),
        ("INSERT INTO orders (reply_to) VALUES (5)", "23503"),
        ("INSERT INTO orders (exact) SELECT max(exact) FROM orders", "23505"),
        ("INSERT INTO orders (of_domain) VALUES (5)", "23514"),
        ("INSERT INTO workers_0 VALUES (snowflake_compose(now(), NULL, 7, 0))", "23514"),
        ("INSERT INTO shard SELECT id FROM serials WHERE snowflake_shard_of(id, 2) = 0", "23514"),
        ("SET ROLE app; SELECT FROM snowflake_status", "42501"),
    ] {
        assert_eq!(error(&mut client, refused).code().code(), code, "{refused}");
    }
    client
        .batch_execute("INSERT INTO orders (item) VALUES ('bread'); SELECT snowflake_reset_stats(); RESET ROLE")
        .expect("rights");
    for table in ["under_way", "begun"] {
        client.batch_execute(&format!("CALL snowflake_adopt.finish('{table}')")).expect("the end of a migration");
        let adopted = format!("INSERT INTO {table} DEFAULT VALUES RETURNING id > {last}");
        assert_eq!(value(&mut client, &adopted), "t", "{table}");
    }
    others_go_on(&new, has_feed);
}
