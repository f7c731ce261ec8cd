//! Tables are adopted while they are in use: `start`, `run`, `finish`, `pause` and `undo`.

mod bounds;
mod constraints;
mod disturbed;
mod goals;
mod lent;
mod money;
mod names;
mod obstacles;
mod overloads;
mod references;
mod renamed;
mod rights;
mod settings;
mod turns;
mod updated;
mod watched;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use testbed::postgres::Client;
use testbed::{Builder, Cluster, Signal, error, test, value};

const TABLES: &str = "
    CREATE TABLE orders (id serial PRIMARY KEY, parent integer REFERENCES orders ON DELETE SET NULL, note text,
        updated_at timestamptz DEFAULT 'epoch', CONSTRAINT positive CHECK (id > 0 AND note <> ''));
    CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id integer NOT NULL DEFAULT 1
        REFERENCES orders ON DELETE CASCADE, n integer, UNIQUE (n, order_id));
    CREATE SCHEMA other; CREATE TABLE other.notes (order_id integer REFERENCES orders ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE INDEX partial ON items (order_id DESC NULLS LAST) INCLUDE (n) WITH (fillfactor = 80) WHERE order_id > 3;
    CREATE INDEX hashed ON other.notes USING hash (order_id); CREATE INDEX ON orders (parent, lower(note) COLLATE \"C\");
    CREATE INDEX ON items USING brin (order_id int4_minmax_multi_ops (values_per_range = 16));
    ALTER INDEX orders_parent_lower_idx ALTER COLUMN 2 SET STATISTICS 300;
    COMMENT ON INDEX partial IS 'partial'; COMMENT ON COLUMN items.order_id IS 'an order'; COMMENT ON CONSTRAINT positive ON orders IS 'positive';
    CREATE ROLE reader; GRANT SELECT (id) ON orders TO reader; ALTER TABLE items ALTER order_id SET STATISTICS 500;
    CREATE STATISTICS pairs ON n, order_id FROM items;
    CREATE VIEW sizes AS SELECT o.id, count(*) FROM orders o JOIN items ON order_id = o.id GROUP BY o.id;
    CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at := now(); RETURN NEW; END';
    CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch();
    INSERT INTO orders (note) SELECT 'n' FROM generate_series(1, 5000);
    INSERT INTO items (order_id, n) SELECT id, id FROM orders; INSERT INTO other.notes SELECT id FROM orders;
    ANALYZE";

/// A server with room for workers.
fn builder() -> Builder {
    Cluster::builder().worker(7).set("max_worker_processes", 16).set("max_prepared_transactions", 1)
}

/// A server with tables that have rows.
fn server() -> (Cluster, Client) {
    let cluster = builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval()")
        .expect("the extensions");
    client.batch_execute(TABLES).expect("tables");
    (cluster, client)
}

fn call(client: &mut Client, command: &str) {
    client
        .batch_execute(&format!("CALL snowflake_adopt.{command}"))
        .unwrap_or_else(|error| panic!("{command}: {error:?}"));
}

/// Sets a goal, and then, when it is committed, starts a worker: this one would not see it before.
fn launch(client: &mut Client, table: &str, goal: &str, share: &str) {
    client.batch_execute(&format!("SELECT snowflake_adopt.aim('{table}', '{goal}', {share}, NULL)")).expect("a goal");
    client.batch_execute(&format!("SELECT snowflake_adopt.launch('{table}'::regclass)")).expect("a worker");
}

/// As the worker would, after `run`.
fn make_what_comes_before_the_swap(client: &mut Client) {
    for phase in ["indexes", "statistics", "constraints"] {
        loop {
            let next = format!("SELECT coalesce(command, '') FROM snowflake_adopt.to_do('{phase}', 'orders')");
            let next = value(client, &next);
            if next.is_empty() {
                break;
            }
            client.batch_execute(&next).unwrap_or_else(|error| panic!("{next}: {error:?}"));
        }
    }
}

/// What pg_dump says of the database.
fn dump(cluster: &Cluster) -> String {
    let mut pg_dump = Command::new(cluster.bindir().join("pg_dump"));
    let output = pg_dump.args(["--schema-only", "postgres"]).envs(cluster.environment()).output().expect("pg_dump");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().filter(|line| !line.contains("restrict ")).collect::<Vec<_>>().join("\n")
}

/// The lines of a dump that are too many, and those that are missing, after the tables of another dump were adopted.
/// All is as before, and the columns are wide; those of a table are in another order.
fn differences_when_adopted(before: &str, after: &str) -> [Vec<String>; 2] {
    let lines = |text: &str| text.lines().map(|line| line.trim_end_matches(',').to_owned()).collect::<Vec<_>>();
    let missing =
        |from: &[String], of: &[String]| of.iter().filter(|line| !from.contains(line)).cloned().collect::<Vec<_>>();
    let narrow = before.replace("int4_minmax", "int8_minmax").replace("order_id integer", "order_id bigint");
    let narrow = narrow
        .replace("parent integer", "parent bigint")
        .replace("    id integer", "    id bigint DEFAULT public.snowflake_nextval()");
    let narrow = narrow.replace("    AS integer\n", "").replace("ON order_id, n FROM", "ON n, order_id FROM");
    // pg_dump sets a default apart if it calls a sequence.
    let is_apart =
        |line: &String| line.contains("orders ALTER COLUMN id SET") || line.contains("orders id; Type: DEFAULT");
    let (after, mut expected) = (lines(after), lines(&narrow));
    expected.retain(|line| !is_apart(line));
    [missing(&expected, &after), missing(&after, &expected)]
}

/// Readers and writers, until they are told to stop; how many rows they have inserted.
fn load(cluster: &Cluster, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<i64>> {
    (0..4)
        .map(|number| {
            let (mut client, stop) = (cluster.connect(), Arc::clone(stop));
            thread::spawn(move || {
                let mut inserted = 0;
                while !stop.load(Ordering::Relaxed) {
                    let old = (inserted * 4 + number) % 4000 + 1;
                    let work = format!(
                        "BEGIN; WITH o AS (INSERT INTO orders (note, parent) VALUES ('new', {}) RETURNING id),
                            i AS (INSERT INTO items (order_id, n) SELECT id, 1 FROM o)
                        INSERT INTO other.notes SELECT id FROM o;
                        UPDATE orders SET note = note || '.' WHERE id = {old}; UPDATE items SET n = n - 10000 WHERE order_id = {old};
                        SELECT count(*) FROM sizes WHERE id = {old}; COMMIT;
                        DELETE FROM orders WHERE id = {old} AND id % 8 = 0",
                        4001 + old % 1000
                    );
                    client.batch_execute(&work).unwrap_or_else(|error| panic!("{error:?}"));
                    inserted += 1;
                }
                inserted
            })
        })
        .collect()
}

#[test]
fn a_table_in_use_is_adopted_with_all_that_refers_to_it_and_nobody_sees_an_error() {
    let (cluster, mut client) = server();
    let before = dump(&cluster);
    let stop = Arc::new(AtomicBool::new(false));
    let clients = load(&cluster, &stop);
    for step in ["start", "run", "finish"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    thread::sleep(Duration::from_millis(200));
    stop.store(true, Ordering::Relaxed);
    let inserted: i64 = clients.into_iter().map(|client| client.join().expect("no error")).sum();
    for (query, expected) in [
        ("SELECT count(*) FROM snowflake_adopt.migration", "0".to_owned()),
        ("SELECT count(*) FROM orders WHERE note LIKE 'new%'", inserted.to_string()),
        ("SELECT count(*) FROM orders WHERE id BETWEEN 4001 AND 5000 AND note = 'n'", "1000".to_owned()),
        (
            "SELECT count(*) FROM orders FULL JOIN items ON order_id = orders.id WHERE items.id IS NULL OR orders.id IS NULL",
            "0".to_owned(),
        ),
        (
            "SELECT count(*) FROM orders FULL JOIN other.notes ON order_id = id WHERE order_id IS NULL OR id IS NULL",
            "0".to_owned(),
        ),
        ("SELECT snowflake_timestamp(max(id)) > now() - interval '1 min' FROM orders", "t".to_owned()),
        ("SELECT count(*) FROM pg_attribute WHERE attname LIKE 'snowflake\\_adopt\\_%'", "0".to_owned()),
        // A copy is no update.
        ("SELECT count(*) FROM orders WHERE id BETWEEN 4001 AND 5000 AND updated_at <> 'epoch'", "0".to_owned()),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
    assert_eq!(differences_when_adopted(&before, &dump(&cluster)), [const { Vec::<String>::new() }; 2]);
}

#[test]
fn a_migration_goes_on_after_a_crash_a_restart_and_the_end_of_its_worker() {
    let (mut cluster, mut client) = server();
    call(&mut client, "start('orders')");
    // A row that cannot be copied meanwhile.
    client
        .batch_execute("BEGIN; SELECT FROM orders WHERE id = 7 FOR UPDATE; PREPARE TRANSACTION 'of others'")
        .expect("a prepared transaction");
    for round in 0..3 {
        if round == 0 {
            launch(&mut client, "orders", "adopted", "100");
        } else {
            cluster.restart(if round == 1 { Signal::KILL } else { Signal::INT });
            client = cluster.connect();
        }
        cluster.wait_until("SELECT snowflake_adopt.carrier('orders'::regclass) IS NOT NULL");
    }
    cluster.wait_until("SELECT phase = 'rows' AND error IS NULL AND rows_copied = 14999 FROM snowflake_adopt.progress");
    client.batch_execute("SELECT pg_terminate_backend(snowflake_adopt.carrier('orders'::regclass))").expect("its end");
    cluster.wait_until("SELECT snowflake_adopt.carrier('orders'::regclass) IS NULL");
    let waits_for = value(&mut client, "SELECT waits_for FROM snowflake_adopt.progress");
    assert_eq!(waits_for, "a background worker: run() or finish() starts one");
    client.batch_execute("COMMIT PREPARED 'of others'").expect("its end");
    call(&mut client, "run('orders', share => 100)");
    call(&mut client, "finish('orders')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(order_id)) FROM items"), "bigint");
    assert_eq!(value(&mut client, "SELECT count(*) FROM sizes WHERE count = 1"), "5000");
}

#[test]
fn undo_leaves_a_table_as_it_was_wherever_the_migration_is() {
    let (cluster, mut client) = server();
    let before = dump(&cluster);
    for until in ["start('orders')", "run('orders', share => 100)", "finish('orders')"] {
        call(&mut client, "start('orders')");
        if until.starts_with("finish") {
            // It makes all indexes and constraints, and waits for this reader.
            let mut reader = cluster.connect();
            reader.batch_execute("BEGIN; LOCK TABLE other.notes IN ACCESS SHARE MODE").expect("a transaction");
            launch(&mut client, "orders", "adopted", "100");
            cluster.wait_until("SELECT failures > 0 FROM snowflake_adopt.migration");
        } else {
            call(&mut client, until);
        }
        call(&mut client, "undo('orders')");
        assert_eq!(dump(&cluster), before, "{until}");
        assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_adopt.copying"), "0");
    }
}

#[test]
fn a_partitioned_table_with_a_key_of_two_columns_is_adopted_and_so_is_a_partition_that_comes_later() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE events (id integer GENERATED BY DEFAULT AS IDENTITY, at date, parent integer, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
             CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
             CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') PARTITION BY HASH (at);
             CREATE TABLE events_2a PARTITION OF events_2 FOR VALUES WITH (modulus 1, remainder 0);
             CREATE INDEX ON events (id); INSERT INTO events (at) SELECT date '2026-01-01' + n % 59 FROM generate_series(0, 4999) n",
        )
        .expect("a partitioned table");
    call(&mut client, "start('events')");
    call(&mut client, "run('events', share => 100)");
    client
        .batch_execute(
            "CREATE TABLE later (id integer NOT NULL, at date NOT NULL, parent integer, snowflake_adopt_id bigint, PRIMARY KEY (at, id));
             INSERT INTO later VALUES (77, '2026-03-01'); ALTER TABLE events ATTACH PARTITION later FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
             ALTER TABLE events DETACH PARTITION events_1; INSERT INTO events_1 VALUES (78, '2026-01-01');
             ALTER TABLE events ATTACH PARTITION events_1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
        )
        .expect("partitions");
    call(&mut client, "finish('events')");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT (at, id)) FROM events WHERE id <= 5000"), "5002");
    assert_eq!(
        value(&mut client, "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'events_pkey'"),
        "PRIMARY KEY (at, id)"
    );
    let valid = "SELECT count(*) FROM pg_index JOIN pg_inherits ON inhrelid = indexrelid WHERE indisvalid AND inhparent IN ('events_pkey'::regclass, 'events_id_idx'::regclass)";
    assert_eq!(value(&mut client, valid), "6");
    let id = value(&mut client, "INSERT INTO events (at) VALUES ('2026-02-01') RETURNING id");
    assert_eq!(value(&mut client, &format!("SELECT {id} > snowflake_min_id(now() - interval '1 min')")), "t");
}

#[test]
fn a_key_that_is_wide_and_has_no_narrow_references_gets_its_default_at_once() {
    let (_cluster, mut client) = server();
    client
        .batch_execute("CREATE TABLE wide (id bigserial PRIMARY KEY); INSERT INTO wide DEFAULT VALUES")
        .expect("a table");
    call(&mut client, "start('wide')");
    call(&mut client, "finish('wide')");
    assert_eq!(value(&mut client, "SELECT snowflake_timestamp(max(id)) IS NOT NULL FROM wide"), "t");
    let id = value(&mut client, "INSERT INTO wide DEFAULT VALUES RETURNING id");
    assert_eq!(value(&mut client, &format!("SELECT {id} > snowflake_min_id(now() - interval '1 min')")), "t");
}

/// Migrations of frameworks call them again, on servers where somebody has called them before.
#[test]
fn a_default_that_somebody_sets_meanwhile_is_kept_if_it_issues_ids() {
    let (_cluster, mut client) = server();
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    client
        .batch_execute("ALTER TABLE orders ALTER id SET DEFAULT snowflake_nextval_for_shard(4, 1)")
        .expect("a default");
    call(&mut client, "finish('orders')");
    let default = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass AND adnum = (
        SELECT attnum FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'id')";
    assert_eq!(value(&mut client, default), "snowflake_nextval_for_shard(4, 1)");
}

#[test]
fn calls_that_are_repeated_after_the_end_find_nothing_to_do() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE TABLE wide (id bigserial PRIMARY KEY)").expect("a table");
    for _ in 0..2 {
        for step in ["start", "run", "finish"] {
            call(&mut client, &format!("{step}('wide')"));
        }
        // By its other name, as Rails needs it.
        client.batch_execute("ALTER TABLE wide ALTER id SET DEFAULT snowflake_id()").expect("a default");
    }
    for step in ["pause", "undo"] {
        let refused = error(&mut client, &format!("CALL snowflake_adopt.{step}('wide')"));
        assert_eq!(refused.message(), "public.wide is not being adopted");
    }
}

#[test]
fn a_paused_migration_rests_and_an_index_that_cannot_be_made_is_told() {
    let (_cluster, mut client) = server();
    call(&mut client, "start('orders')");
    call(&mut client, "pause('orders')");
    let refused = error(&mut client, "SELECT snowflake_adopt.has_reached('orders', 'copied', 'id')");
    assert_eq!(refused.message(), "the migration of public.orders is paused");
    assert_eq!(error(&mut client, "CALL snowflake_adopt.run('items')").message(), "public.items is not being adopted");
    // Somebody makes an index of this name, which no try can get around.
    call(&mut client, "run('orders', share => 100)");
    let blocker = "SELECT format('CREATE TABLE snowflake_adopt_%s ()', 'partial'::regclass::oid)";
    let blocker = value(&mut client, blocker);
    client.batch_execute(&blocker).expect("a table");
    let refused = error(&mut client, "CALL snowflake_adopt.finish('orders')");
    assert_eq!(refused.message(), "the migration of public.orders is paused");
    assert!(refused.detail().is_some_and(|detail| detail.contains("already exists")), "{refused:?}");
    client.batch_execute(&blocker.replace("CREATE", "DROP").replace(" ()", "")).expect("no table");
    call(&mut client, "finish('orders')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(order_id)) FROM items"), "bigint");
}

/// Else a step that ends the server would end it again after each start.
#[test]
fn a_step_that_has_ended_three_workers_is_not_tried_again_until_somebody_says_so() {
    let (cluster, mut client) = server();
    call(&mut client, "start('orders')");
    let mut blocker = cluster.connect();
    blocker.batch_execute("BEGIN; LOCK TABLE items IN SHARE UPDATE EXCLUSIVE MODE").expect("a lock");
    client.batch_execute("SELECT snowflake_adopt.aim('orders', 'adopted', 100, NULL)").expect("a goal");
    for _ in 0..3 {
        client.batch_execute("SELECT snowflake_adopt.launch('orders'::regclass)").expect("a worker");
        let at_index =
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = snowflake_adopt.carrier('orders'::regclass)
            AND wait_event_type = 'Lock'";
        cluster.wait_until(at_index);
        client
            .batch_execute("SELECT pg_terminate_backend(snowflake_adopt.carrier('orders'::regclass))")
            .expect("its end");
        cluster.wait_until("SELECT snowflake_adopt.carrier('orders'::regclass) IS NULL");
    }
    blocker.batch_execute("COMMIT").expect("no lock");
    let refused = error(&mut client, "CALL snowflake_adopt.wait('orders', 'adopted')");
    assert_eq!(refused.detail(), Some("the background worker has ended three times in phase indexes"));
    call(&mut client, "finish('orders')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(order_id)) FROM items"), "bigint");
}

/// The swap has seen that nothing is missing before it waits for the lock that CREATE INDEX holds.
#[test]
fn an_index_that_is_created_while_the_swap_waits_is_not_lost() {
    let (cluster, mut client) = server();
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    make_what_comes_before_the_swap(&mut client);
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; CREATE INDEX late ON other.notes (order_id) WHERE order_id > 7").expect("an index");
    launch(&mut client, "orders", "adopted", "100");
    let waits = "SELECT cardinality(pg_blocking_pids(snowflake_adopt.carrier('orders'::regclass))) > 0";
    cluster.wait_until(waits);
    other.batch_execute("COMMIT").expect("an index");
    call(&mut client, "finish('orders')");
    let late = "SELECT count(*) FROM pg_index WHERE indexrelid = 'other.late'::regclass AND indisvalid AND indrelid = 'other.notes'::regclass";
    assert_eq!(value(&mut client, late), "1");
}

#[test]
fn a_table_that_is_dropped_during_a_migration_is_forgotten() {
    let (_cluster, mut client) = server();
    call(&mut client, "start('orders')");
    client.batch_execute("DROP TABLE items CASCADE").expect("no table");
    call(&mut client, "finish('orders')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(order_id)) FROM other.notes"), "bigint");
}
