//! The ID is the address: partitions by a field of it, and IDs for a given place.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Signal, error, plan, test, value};

/// A server with tags in its IDs.
const WITH_TAGS: &str = "t41 w5 s9 h8";

fn server(layout: &str) -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).set("snowflake_pg.layout", layout).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
    (cluster, client)
}

/// A table with as many hash partitions, `t_0` and so on.
fn partitioned(client: &mut Client, table: &str, columns: &str, key: &str, count: u32) {
    client.batch_execute(&format!("CREATE TABLE {table} ({columns}) PARTITION BY HASH ({key})")).expect("a table");
    for n in 0..count {
        let partition =
            format!("CREATE TABLE {table}_{n} PARTITION OF {table} FOR VALUES WITH (MODULUS {count}, REMAINDER {n})");
        client.batch_execute(&partition).expect("a partition");
    }
}

#[test]
fn the_shard_of_an_id_is_what_postgresql_itself_says() {
    let (_cluster, mut client) = server("flat");
    for (id, shards) in [
        (1_541_815_603_606_036_480_i64, [1, 1, 13]),
        (1_541_815_603_606_036_481, [1, 2, 21]),
        (2_124_492_133_267_144_704, [0, 0, 24]),
    ] {
        for (modulus, shard) in [2, 3, 32].into_iter().zip(shards) {
            let query = format!("SELECT snowflake_shard_of({id}, {modulus})");
            assert_eq!(value(&mut client, &query), shard.to_string(), "{query}");
        }
    }
    partitioned(&mut client, "t", "id bigint", "id", 1);
    let differ = "SELECT count(*) FROM (SELECT (random() * 9e18)::bigint * (n % 2 * 2 - 1) AS id, 1 + n % 50 AS modulus
            FROM generate_series(1, 20000) n) tried
        WHERE NOT satisfies_hash_partition('t'::regclass, modulus, snowflake_shard_of(id, modulus), id)";
    assert_eq!(value(&mut client, differ), "0");
}

#[test]
fn a_table_is_partitioned_by_the_worker_of_its_ids_and_a_row_is_found_in_one_partition() {
    let (mut cluster, mut client) = server("flat");
    partitioned(
        &mut client,
        "orders",
        "id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer",
        "id snowflake_flat_worker_ops",
        4,
    );
    client
        .batch_execute(
            "CREATE TABLE items (id snowflake PRIMARY KEY, order_id bigint REFERENCES orders);
             INSERT INTO orders SELECT snowflake_compose('2026-01-01Z', NULL, n % 1024, n / 1024), n FROM generate_series(0, 4095) n;
             INSERT INTO orders (n) VALUES (-1); INSERT INTO items SELECT snowflake_nextval(), id FROM orders LIMIT 10",
        )
        .expect("rows");
    let misplaced = "SELECT count(*) FROM orders CROSS JOIN LATERAL snowflake_decode(id)
        WHERE right(orders.tableoid::regclass::text, 1)::integer <> worker_id % 4";
    assert_eq!(value(&mut client, misplaced), "0");
    assert_eq!(value(&mut client, "SELECT tableoid::regclass FROM orders WHERE n = -1"), "orders_3");
    let id = value(&mut client, "SELECT id FROM orders WHERE n = 5");
    for condition in
        [format!("id = {id}"), format!("id = ANY ('{{{id},{id}}}')"), format!("id = {id}::bigint::snowflake")]
    {
        let shown = plan(&mut client, &format!("EXPLAIN SELECT * FROM orders WHERE {condition}"));
        assert!(
            shown.contains("orders_1") && !shown.contains("orders_0") && !shown.contains("orders_2"),
            "{condition}: {shown}"
        );
    }
    client
        .batch_execute(
            "PREPARE by_id(bigint) AS SELECT * FROM orders WHERE id = $1; SET plan_cache_mode = force_generic_plan",
        )
        .expect("a query");
    let shown = plan(&mut client, &format!("EXPLAIN ANALYZE EXECUTE by_id({id})"));
    assert!(shown.contains("Subplans Removed: 3"), "{shown}");
    // No parameter has a say in it.
    client.batch_execute("ALTER SYSTEM SET snowflake_pg.layout = 'js'").expect("another layout");
    drop(client);
    cluster.restart(Signal::INT);
    let mut client = cluster.connect();
    assert_eq!(value(&mut client, &format!("SELECT n FROM orders WHERE id = {id}")), "5");
}

#[test]
fn ids_for_a_partition_fall_into_it_as_a_default_in_copy_and_from_several_sessions() {
    let (cluster, mut client) = server("flat");
    partitioned(&mut client, "t", "id bigint PRIMARY KEY, n integer", "id", 8);
    client.batch_execute("ALTER TABLE t_5 ALTER id SET DEFAULT snowflake_nextval_for('t_5')").expect("a default");
    let sessions = [(); 4].map(|()| {
        let mut client = cluster.connect();
        std::thread::spawn(move || {
            client.batch_execute("INSERT INTO t_5 (n) SELECT generate_series(1, 5000)").expect("rows");
            client.batch_execute("COPY t_5 (n) FROM PROGRAM 'seq 1000'").expect("rows");
            for _ in 0..100 {
                client.batch_execute("INSERT INTO t_5 VALUES (snowflake_nextval_for_shard(8, 5))").expect("a row");
            }
        })
    });
    for session in sessions {
        session.join().expect("no error");
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM t WHERE snowflake_shard_of(id, 8) = 5"), "24400");
    let issued = value(&mut client, "SELECT ids_issued FROM snowflake_status");
    assert_eq!(issued, "24401", "what was skipped is not counted");
    // The first partition of another name with another bound is noticed.
    client
        .batch_execute("ALTER TABLE t DETACH PARTITION t_5; ALTER TABLE t DETACH PARTITION t_6; ALTER TABLE t_5 RENAME TO old; ALTER TABLE t_6 RENAME TO t_5;
            ALTER TABLE t ATTACH PARTITION t_5 FOR VALUES WITH (MODULUS 8, REMAINDER 6)")
        .expect("another partition");
    assert_eq!(value(&mut client, "SELECT snowflake_shard_of(snowflake_nextval_for('t_5'), 8)"), "6");
    assert_eq!(error(&mut client, "SELECT snowflake_nextval_for('old')").code().code(), "42809");
}

/// A session that holds no lock is told so by PostgreSQL before its next statement or transaction; that is too late.
#[test]
fn a_session_issues_no_id_for_an_old_bound_whatever_it_is_amid() {
    let (cluster, mut client) = server("flat");
    partitioned(&mut client, "t", "id bigint PRIMARY KEY", "id", 2);
    let mut session = cluster.connect();
    let query = session.prepare("SELECT snowflake_nextval_for('t_1')").expect("a query");
    let cursor = "BEGIN; DECLARE ids CURSOR FOR SELECT snowflake_nextval_for('t_1') FROM generate_series(1, 1000)";
    session.batch_execute(cursor).expect("a cursor");
    let shards = |session: &mut Client, modulus: i64| {
        let ids = (0..50).flat_map(|_| {
            let fetched: i64 = value(session, "FETCH FROM ids").parse().expect("an ID");
            [fetched, session.query_one(&query, &[]).expect("an ID").get(0)]
        });
        let ids: Vec<i64> = ids.collect();
        let of = format!("SELECT DISTINCT snowflake_shard_of(unnest($1::bigint[]), {modulus}::integer) ORDER BY 1");
        let shards = cluster.connect().query(&of, &[&ids]).expect("shards");
        shards.iter().map(|row| row.get(0)).collect::<Vec<i32>>()
    };
    assert_eq!(shards(&mut session, 4), [1, 3]);
    client
        .batch_execute(
            "BEGIN; ALTER TABLE t DETACH PARTITION t_1; CREATE TABLE t_3 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 3);
             ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 4, REMAINDER 1); COMMIT",
        )
        .expect("a split");
    assert_eq!(shards(&mut session, 4), [1]);
}

#[test]
fn a_default_follows_its_partition_and_fails_once_it_is_none() {
    let (_cluster, mut client) = server("flat");
    partitioned(&mut client, "t", "id bigint PRIMARY KEY, n integer", "id", 2);
    client
        .batch_execute(
            "ALTER TABLE t_1 ALTER id SET DEFAULT snowflake_nextval_for('t_1');
             CREATE TABLE u (id bigint PRIMARY KEY DEFAULT snowflake_nextval_for('t_0'), n integer);
             PREPARE to_u AS INSERT INTO u (n) VALUES (1); PREPARE to_t AS INSERT INTO t_1 (n) VALUES (1); PREPARE id AS SELECT snowflake_nextval_for('t_0');
             SET plan_cache_mode = force_generic_plan; EXECUTE to_u; EXECUTE to_t; EXECUTE id; ALTER TABLE t_1 RENAME TO renamed;
             PREPARE to_renamed AS INSERT INTO renamed (n) VALUES (1); EXECUTE to_renamed",
        )
        .expect("rows");
    client.batch_execute("ALTER TABLE t DETACH PARTITION renamed").expect("a table alone");
    for insert in ["EXECUTE to_renamed", "INSERT INTO renamed (n) VALUES (1)"] {
        let refused = error(&mut client, insert);
        assert_eq!(refused.message(), "which IDs fall into public.renamed is not known", "{insert}");
    }
    let depends = error(&mut client, "DROP TABLE t_0");
    assert_eq!(depends.code().code(), "2BP01");
    client.batch_execute("DROP TABLE t_0 CASCADE").expect("no partition, and no default");
    let refused = error(&mut client, "EXECUTE to_u");
    assert_eq!(refused.message(), "null value in column \"id\" of relation \"u\" violates not-null constraint");
    assert_eq!(error(&mut client, "EXECUTE id").message(), "relation \"t_0\" does not exist");
    client.batch_execute("CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 2)").expect("another");
    let id = value(&mut client, "EXECUTE id");
    assert_eq!(value(&mut client, &format!("SELECT snowflake_shard_of({id}, 4)")), "2");
    assert_eq!(value(&mut client, "SELECT count(*) FROM (SELECT FROM u UNION ALL SELECT FROM renamed) r"), "3");
}

#[test]
fn a_partition_that_is_detached_while_its_bound_is_read_causes_no_internal_error() {
    let (cluster, mut client) = server("flat");
    partitioned(&mut client, "t", "id bigint", "id", 2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session = cluster.connect();
                while !done.load(Ordering::Relaxed) {
                    if let Err(refused) = session.batch_execute("SELECT snowflake_nextval_for('t_1')") {
                        assert_eq!(refused.code().map(|code| code.code()), Some("42809"), "{refused:?}");
                    }
                }
            });
        }
        for _ in 0..2000 {
            for command in ["DETACH PARTITION t_1", "ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)"] {
                client.batch_execute(&format!("ALTER TABLE t {command}")).expect("a move");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_row_lands_in_the_partition_of_the_row_that_it_is_near() {
    for layout in ["flat", WITH_TAGS] {
        let (_cluster, mut client) = server(layout);
        for (table, count) in [("orders", 32), ("items", 8)] {
            partitioned(&mut client, table, "id bigint PRIMARY KEY, near bigint", "id", count);
        }
        client
            .batch_execute(
                "INSERT INTO orders (id) SELECT snowflake_nextval() FROM generate_series(1, 300);
                 INSERT INTO items SELECT snowflake_nextval_for('items', id), id FROM orders;
                 INSERT INTO orders SELECT snowflake_nextval_for('orders', id), id FROM orders",
            )
            .expect("rows");
        for (table, modulus) in [("orders", 32), ("items", 8)] {
            let apart = format!(
                "SELECT count(*) FROM {table} WHERE snowflake_shard_of(id, {modulus}) <> snowflake_shard_of(near, {modulus})"
            );
            assert_eq!(value(&mut client, &apart), "0", "{layout}: {table}");
        }
        assert_eq!(value(&mut client, "SELECT count(*) FROM orders"), "600");
    }
}

#[test]
fn a_class_of_another_layout_s_field_is_made_by_a_function_and_with_a_tag_no_number_is_lost() {
    let (_cluster, mut client) = server(WITH_TAGS);
    client
        .batch_execute(&format!("CREATE SCHEMA \"my classes\"; SELECT snowflake_create_operator_class('by_tag', 'tag', 'my classes', '{WITH_TAGS}')"))
        .expect("a class");
    partitioned(&mut client, "t", "id bigint PRIMARY KEY", "id \"my classes\".by_tag", 3);
    client
        .batch_execute("INSERT INTO t_1 SELECT snowflake_nextval_for('t_1') FROM generate_series(1, 100); INSERT INTO t SELECT snowflake_nextval_tagged(44)")
        .expect("rows");
    assert_eq!(value(&mut client, "SELECT count(*) FROM t_1 WHERE id % 256 % 3 = 1"), "100");
    assert_eq!(value(&mut client, "SELECT id % 256 FROM t_2"), "44");
    let skipped =
        "SELECT count(*) FROM (SELECT id >> 8 AS position, lag(id >> 8) OVER (ORDER BY id) AS last FROM t_1) s
        WHERE position >> 9 = last >> 9 AND position <> last + 1";
    assert_eq!(value(&mut client, skipped), "0");
    assert_eq!(value(&mut client, "SELECT (snowflake_nextval_for('t', 44 + 256)) % 256"), "44", "the same tag");
    let refused = error(&mut client, "SELECT snowflake_create_operator_class('other', 'tag', 'public', 'flat')");
    assert_eq!(refused.message(), "the layout has no such field: \"tag\"");
    // The sign is a bit, too.
    client
        .batch_execute("SELECT snowflake_create_operator_class('highest', 'sequence', 'public', 's12 t42 w10')")
        .expect("a class");
    partitioned(&mut client, "highest", "id bigint", "id highest", 3);
    client.batch_execute("INSERT INTO highest VALUES (-1::bigint << 52), (1::bigint << 52)").expect("rows");
    let refused = error(&mut client, "DROP EXTENSION snowflake_pg");
    let detail = refused.detail().unwrap_or_default();
    for table in ["t", "highest"] {
        assert!(detail.contains(&format!("table {table} depends on operator class")), "{detail}");
    }
    assert_eq!(value(&mut client, "SELECT id FROM highest_0"), (-1_i64 << 52).to_string(), "4095 % 3 is 0");
}

#[test]
fn what_cannot_be_placed_is_refused_with_what_to_do() {
    let (cluster, mut client) = server("flat");
    partitioned(&mut client, "orders", "id bigint PRIMARY KEY", "id snowflake_flat_worker_ops", 4);
    partitioned(&mut client, "texts", "id text", "id", 2);
    partitioned(&mut client, "expressions", "id bigint", "(id >> 3)", 2);
    client
        .batch_execute(
            "CREATE TABLE plain (id bigint); CREATE ROLE clerk LOGIN; GRANT CREATE ON SCHEMA public TO clerk;
             CREATE TABLE twice (id bigint) PARTITION BY HASH (id);
             CREATE TABLE twice_0 PARTITION OF twice FOR VALUES WITH (MODULUS 2, REMAINDER 0) PARTITION BY HASH (id);
             CREATE TABLE twice_0_0 PARTITION OF twice_0 FOR VALUES WITH (MODULUS 3, REMAINDER 0);
             CREATE TABLE spans (id bigint, tenant integer) PARTITION BY RANGE (tenant, id);
             CREATE TABLE span PARTITION OF spans FOR VALUES FROM (0, 0) TO (9, 9) PARTITION BY HASH (id);
             CREATE TABLE span_1 PARTITION OF span FOR VALUES WITH (MODULUS 3, REMAINDER 1);
             CREATE TABLE years (id bigint) PARTITION BY RANGE (snowflake_timestamp(id, 'flat'));
             CREATE TABLE year PARTITION OF years FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY HASH (id);
             CREATE TABLE year_1 PARTITION OF year FOR VALUES WITH (MODULUS 3, REMAINDER 1);
             CREATE TABLE tenants (id bigint, tenant integer) PARTITION BY LIST (tenant);
             CREATE TABLE tenant PARTITION OF tenants FOR VALUES IN (5) PARTITION BY HASH (id);
             CREATE TABLE tenant_1 PARTITION OF tenant FOR VALUES WITH (MODULUS 3, REMAINDER 1)",
        )
        .expect("a table");
    let mut clerk = cluster.connect();
    clerk.batch_execute("SET SESSION AUTHORIZATION clerk").expect("a user");
    for (call, code, message) in [
        ("snowflake_nextval_for('orders_2')", "55000", "no ID of this server falls into this partition"),
        ("snowflake_nextval_for('orders')", "42809", "public.orders is not a partition, so each ID falls into it"),
        ("snowflake_nextval_for('orders_3', 1)", "22023", "the row with this ID is not in public.orders_3"),
        ("snowflake_nextval_for('plain')", "42809", "which IDs fall into public.plain is not known"),
        ("snowflake_nextval_for('texts_0')", "42809", "which IDs fall into public.texts_0 is not known"),
        ("snowflake_nextval_for('expressions_0')", "42809", "which IDs fall into public.expressions_0 is not known"),
        ("snowflake_nextval_for('expressions', 1)", "42809", "which IDs fall into public.expressions is not known"),
        ("snowflake_nextval_for('twice_0_0')", "42809", "which IDs fall into public.twice_0_0 is not known"),
        ("snowflake_nextval_for('span_1')", "42809", "which IDs fall into public.span_1 is not known"),
        ("snowflake_nextval_for('span', 1)", "42809", "which IDs fall into public.span is not known"),
        ("snowflake_nextval_for('year_1')", "42809", "which IDs fall into public.year_1 is not known"),
        ("snowflake_nextval_for(0)", "42809", "which IDs fall into 0 is not known"),
        ("snowflake_nextval_for_shard(0, 0)", "22023", "shards must be greater than 0"),
        ("snowflake_nextval_for_shard(8, 8)", "22023", "shard must be between 0 and 7"),
        ("snowflake_nextval_for_shard(2000000000, 13)", "53400", "none of the next IDs falls into this place"),
        ("snowflake_shard_of(1, -1)", "22023", "shards must be greater than 0"),
        (
            "snowflake_create_operator_class('c', 'worker', 'public', 'flat')",
            "42501",
            "permission denied for function snowflake_create_operator_class",
        ),
    ] {
        let refused = error(&mut clerk, &format!("SELECT {call}"));
        assert_eq!((refused.code().code(), refused.message()), (code, message), "{call}");
    }
    assert_eq!(value(&mut clerk, "SELECT snowflake_nextval_for('orders_3') > 0"), "t");
    client
        .batch_execute("INSERT INTO tenant_1 SELECT snowflake_nextval_for('tenant_1'), 5 FROM generate_series(1, 20)")
        .expect("rows");
}

/// To look at a whole tick of this layout takes a minute.
#[test]
fn a_call_that_looks_for_a_place_can_be_ended_amid_a_tick() {
    let (cluster, mut client) = server("t27 w3 s21 h12 unit=1s epoch=2026-01-01T00:00:00Z");
    let mut session = cluster.connect();
    let pid = value(&mut session, "SELECT pg_backend_pid()");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            session.batch_execute("SELECT snowflake_nextval_for_shard(2147483647, 13)").expect_err("an end")
        });
        let looks = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND query LIKE '%2147483647%'");
        while value(&mut client, &looks) == "0" {}
        assert_eq!(value(&mut client, &format!("SELECT pg_terminate_backend({pid}, 20000)")), "t");
    });
}

#[test]
fn of_many_tags_each_is_found() {
    let (_cluster, mut client) = server("t40 w3 s4 h16");
    client
        .batch_execute("SELECT snowflake_create_operator_class('by_tag', 'tag', 'public', 't40 w3 s4 h16')")
        .expect("a class");
    client
        .batch_execute(
            "CREATE TABLE t (id bigint) PARTITION BY HASH (id by_tag);
             CREATE TABLE t_30000 PARTITION OF t FOR VALUES WITH (MODULUS 65536, REMAINDER 30000);
             INSERT INTO t_30000 SELECT snowflake_nextval_for('t_30000') FROM generate_series(1, 20)",
        )
        .expect("rows");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM t WHERE id % 65536 = 30000"), "20");
}

/// What is dumped names no layout, and a default of a partition names the partition itself.
#[test]
fn a_dump_and_pg_upgrade_leave_each_row_where_its_id_says_under_any_layout() {
    let mut old = Cluster::builder().old().worker(7).set("snowflake_pg.layout", WITH_TAGS).start();
    let mut client = old.connect();
    client
        .batch_execute(&format!(
            "CREATE EXTENSION snowflake_pg; SELECT snowflake_create_operator_class('by_tag', 'tag', 'public', '{WITH_TAGS}')"
        ))
        .expect("a class");
    partitioned(&mut client, "tags", "id bigint PRIMARY KEY", "id by_tag", 3);
    partitioned(&mut client, "workers", "id snowflake PRIMARY KEY REFERENCES tags", "id snowflake_flat_worker_ops", 4);
    partitioned(&mut client, "hashes", "id bigint PRIMARY KEY", "id", 8);
    client
        .batch_execute(
            "ALTER TABLE hashes_5 ALTER id SET DEFAULT snowflake_nextval_for('hashes_5');
             INSERT INTO tags SELECT snowflake_nextval_tagged(n % 256) FROM generate_series(1, 1000) n;
             INSERT INTO workers SELECT id FROM tags;
             INSERT INTO hashes_5 SELECT FROM generate_series(1, 100)",
        )
        .expect("rows");
    let places = ["tags", "workers", "hashes"]
        .map(|table| {
            format!("SELECT '{table}' AS part, tableoid::regclass::text AS partition, id::bigint FROM {table}")
        })
        .join(" UNION ALL ");
    let places =
        format!("SELECT md5(string_agg(concat(part, partition, id), ',' ORDER BY part, id)) FROM ({places}) s");
    let before = value(&mut client, &places);
    let mut pg_dump = Command::new(old.bindir().join("pg_dump"));
    let dump = pg_dump.envs(old.environment()).arg("postgres").output().expect("pg_dump");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    drop(client);
    old.stop(Signal::INT);

    let mut new = Cluster::builder().worker(8).upgrade_of(&old);
    new.start();
    let mut client = new.connect();
    client.batch_execute("CREATE DATABASE restored").expect("a database");
    let mut psql = new.psql();
    psql.args(["--set=ON_ERROR_STOP=1", "--dbname=restored"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut psql = psql.spawn().expect("psql");
    psql.stdin.take().expect("a pipe").write_all(&dump.stdout).expect("psql reads");
    assert!(psql.wait().expect("psql").success());
    for database in ["postgres", "restored"] {
        let mut client = new.config().dbname(database).connect(NoTls).expect("a session");
        assert_eq!(value(&mut client, "SHOW snowflake_pg.layout"), "flat");
        assert_eq!(value(&mut client, &places), before, "{database}");
        client.batch_execute("INSERT INTO hashes_5 SELECT FROM generate_series(1, 100)").expect("rows");
        for table in ["tags", "workers", "hashes"] {
            let lost = format!(
                "SELECT count(*) FROM (SELECT id FROM {table} OFFSET 0) t WHERE NOT EXISTS
                (SELECT FROM {table} found WHERE found.id = t.id)"
            );
            assert_eq!(value(&mut client, &lost), "0", "{database}: {table}");
            let id = value(&mut client, &format!("SELECT id FROM {table} OFFSET 5 LIMIT 1"));
            let shown = plan(&mut client, &format!("EXPLAIN SELECT * FROM {table} WHERE id = {id}"));
            assert_eq!(shown.matches(&format!(" on {table}_")).count(), 1, "{shown}");
        }
    }
}
