//! In comparisons, joins, keys and aggregates it is what a bigint is.

use super::{TABLES, database, expect, plan};
use testbed::{error, test, value};

#[test]
fn indexes_of_every_kind_serve_comparisons_with_every_integer_type() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    client
        .batch_execute("ALTER TABLE s DROP CONSTRAINT s_pkey; SET enable_seqscan = off; SET enable_sort = off")
        .expect("no index");
    let equal = ["= 42", "= '42'", "= 42::smallint", "= 42::bigint", "= 42::bigint::snowflake"];
    let ranges = ["> 42", "< '42'", ">= 42::smallint", "<= 42::bigint", "BETWEEN 42 AND 9007199254740993"];
    let lists = ["IN (1, 2)", "IN ('1', '2')", "IN (1, 9007199254740993)", "= ANY ('{1,2}')", "= ANY (ARRAY[1, 2])"];
    for (method, conditions) in
        [("btree", [equal, ranges, lists].concat()), ("hash", equal.to_vec()), ("brin", [equal, ranges].concat())]
    {
        client
            .batch_execute(&format!("CREATE INDEX found ON s USING {method} (id)"))
            .expect("a default operator class");
        for condition in conditions {
            let plan = plan(&mut client, &format!("SELECT n FROM s WHERE id {condition}"));
            assert!(plan.contains("Index Cond") && plan.contains(" found"), "{method}, {condition}:\n{plan}");
        }
        // And what the index finds is right.
        for table in ["s", "b"] {
            let query = format!("SELECT n FROM s WHERE id = (SELECT id FROM {table} WHERE n = 17)");
            assert_eq!(value(&mut client, &query), "17", "{method}");
        }
        client.batch_execute("DROP INDEX found").expect("an index");
    }
}

#[test]
fn a_parameter_without_a_type_is_one_that_every_client_can_send() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    for (query, types) in [
        ("SELECT n FROM s WHERE id = $1", "{bigint}"),
        ("SELECT n FROM s WHERE id > $1 ORDER BY id LIMIT 10", "{bigint}"),
        ("SELECT n FROM s WHERE id = ANY ($1)", "{bigint[]}"),
        ("SELECT n FROM s WHERE id BETWEEN $1 AND $2", "{bigint,bigint}"),
        // Here the column's type counts. A client that only has bigint says so: $1::bigint.
        ("INSERT INTO s VALUES ($1)", "{snowflake}"),
        ("INSERT INTO s VALUES ($1::bigint)", "{bigint}"),
    ] {
        client.batch_execute(&format!("PREPARE p AS {query}")).expect("a statement");
        assert_eq!(value(&mut client, "SELECT parameter_types FROM pg_prepared_statements"), types, "{query}");
        client.batch_execute("DEALLOCATE p").expect("a statement");
    }
    let id: i64 = client.query_one("SELECT id FROM b WHERE n = 3", &[]).expect("a row").get(0);
    assert_eq!(client.query_one("SELECT n FROM s WHERE id = $1", &[&id]).expect("the row").get::<_, i32>(0), 3);
}

#[test]
fn joins_with_bigint_use_the_index_of_either_side() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    for (outer, index) in [("s", "b_pkey"), ("b", "s_pkey")] {
        let plan = plan(&mut client, &format!("SELECT * FROM s JOIN b USING (id) WHERE {outer}.n = 1"));
        assert!(plan.contains(&format!("Index Scan using {index}")), "{plan}");
    }
    client.batch_execute("SET enable_hashjoin = off; SET enable_nestloop = off").expect("settings");
    let merged = plan(&mut client, "SELECT * FROM s JOIN b ON s.id = b.id ORDER BY s.id");
    assert!(merged.contains("Merge Join") && !merged.contains("Sort"), "{merged}");
    assert_eq!(value(&mut client, "SELECT count(*) FROM s JOIN b ON s.id = b.id"), "20000");
    client.batch_execute("RESET ALL; SET enable_mergejoin = off; SET enable_nestloop = off").expect("settings");
    let hashed = plan(&mut client, "SELECT * FROM s JOIN b ON s.id = b.id");
    assert!(hashed.contains("Hash Join"), "{hashed}");
    assert_eq!(value(&mut client, "SELECT count(*) FROM s JOIN b ON s.id = b.id"), "20000");
}

#[test]
fn foreign_keys_hold_between_the_type_and_bigint_both_ways() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    for (parent, child_type) in [("s", "bigint"), ("b", "snowflake"), ("s", "snowflake")] {
        client
            .batch_execute(&format!(
                "CREATE TABLE child (parent {child_type} REFERENCES {parent} ON UPDATE CASCADE ON DELETE CASCADE);
                 INSERT INTO child SELECT id FROM s;
                 DELETE FROM {parent} WHERE n = (SELECT min(n) FROM {parent});
                 UPDATE {parent} SET id = 5 WHERE n = (SELECT max(n) FROM {parent})"
            ))
            .unwrap_or_else(|error| panic!("{parent}, {child_type}: {error:?}"));
        assert_eq!(error(&mut client, "INSERT INTO child VALUES (4)").code().code(), "23503", "{parent}, {child_type}");
        let query = format!("SELECT count(*) = (SELECT count(*) FROM {parent}) AND min(parent) = 5 FROM child");
        assert_eq!(value(&mut client, &query), "t", "{parent}, {child_type}");
        client.batch_execute(&format!("DROP TABLE child, s, b; {TABLES}")).expect("tables");
    }
}

#[test]
fn partitions_by_an_id_of_the_type_are_pruned() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE r (id snowflake PRIMARY KEY) PARTITION BY RANGE (id);
             CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (MINVALUE) TO (100);
             CREATE TABLE r2 PARTITION OF r FOR VALUES FROM ('100') TO (1541815603606036480);
             CREATE TABLE r3 PARTITION OF r FOR VALUES FROM (1541815603606036480) TO (MAXVALUE);
             INSERT INTO r SELECT n FROM generate_series(0, 199) n;
             CREATE TABLE h (id snowflake PRIMARY KEY) PARTITION BY HASH (id);
             CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE h2 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
             INSERT INTO h SELECT n FROM generate_series(0, 199) n",
        )
        .expect("partitions");
    for (condition, scanned) in [
        ("id = 7", "r1"),
        ("id < 100", "r1"),
        ("id = '107'", "r2"),
        ("id BETWEEN 100::bigint AND 200::smallint", "r2"),
        ("snowflake_within(id, '2023-01-01Z', 'infinity')", "r3"),
    ] {
        let plan = plan(&mut client, &format!("SELECT * FROM r WHERE {condition}"));
        // Those that a STABLE function prunes are removed when the query starts, and not shown either.
        let shown: Vec<_> =
            ["r1", "r2", "r3"].into_iter().filter(|name| plan.contains(&format!(" on {name} r"))).collect();
        assert_eq!(shown, [scanned], "{condition}:\n{plan}");
    }
    let plan = plan(&mut client, "SELECT * FROM h WHERE id = 7");
    assert!(plan.contains(" on h1 h") != plan.contains(" on h2 h"), "{plan}");
    assert_eq!(value(&mut client, "SELECT count(*) FROM r1"), "100");
    assert_eq!(value(&mut client, "SELECT id FROM h WHERE id = 7"), "7");
}

#[test]
fn the_functions_that_take_an_id_take_the_type() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    let within =
        "SELECT count(*) FROM s WHERE snowflake_within(id, '2024-01-01 00:00:00.1Z', '2024-01-01 00:00:00.2Z')";
    let found = plan(&mut client, within);
    assert!(found.contains("Index Cond") && found.contains("using s_pkey") && !found.contains("Filter"), "{found}");
    assert_eq!(value(&mut client, within), value(&mut client, &within.replace("FROM s", "FROM b")));
    expect(
        &mut client,
        &[
            ("SELECT snowflake_timestamp('1541815603606036480'::snowflake)", "2022-06-28 16:07:40.105+00"),
            ("SELECT snowflake_decode('1541815603606036480'::snowflake)", r#"("2022-06-28 16:07:40.105+00",,378,0,)"#),
            ("SELECT snowflake_timestamp(NULL::snowflake, 'flat')", "NULL"),
            ("SELECT snowflake_to_text('1541815603606036480'::snowflake, 'base62')", "1ptWyK4WgZU"),
        ],
    );
}

#[test]
fn it_counts_sorts_groups_and_aggregates_as_bigint_does() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    for query in [
        "SELECT min(id) FROM t",
        "SELECT max(id) FROM t",
        "SELECT max(id) FROM t WHERE false",
        "SELECT count(DISTINCT id % 100) FROM t",
        "SELECT md5(string_agg(id::text, ',' ORDER BY id DESC)) FROM t",
        "SELECT count(*) FROM (SELECT id FROM t UNION SELECT id FROM t) u",
        "SELECT count(*) FROM (SELECT id FROM t GROUP BY id HAVING count(*) = 1) g",
        "SELECT n FROM t ORDER BY id DESC LIMIT 1",
        "SELECT id FROM (VALUES (-1), (NULL), (-9223372036854775808), (5)) v(id) ORDER BY id::TYPE DESC NULLS LAST LIMIT 1",
        "SELECT array_agg(id ORDER BY id) FROM (SELECT id::TYPE AS id FROM unnest(ARRAY[3, -1, NULL, 7]) id) u",
    ] {
        let on =
            |table: &str, of_type: &str| query.replace("FROM t", &format!("FROM {table}")).replace("TYPE", of_type);
        assert_eq!(value(&mut client, &on("s", "snowflake")), value(&mut client, &on("b", "bigint")), "{query}");
    }
    // Also where partial results are combined, as they are in parallel plans.
    client
        .batch_execute(
            "CREATE TABLE p (LIKE s) PARTITION BY LIST ((n % 2));
             CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
             CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
             INSERT INTO p SELECT * FROM s;
             ANALYZE p;
             SET enable_partitionwise_aggregate = on",
        )
        .expect("partitions");
    let partial = plan(&mut client, "SELECT min(id), max(id) FROM p");
    assert_eq!(partial.matches("Partial Aggregate").count(), 2, "{partial}");
    let query = "SELECT (min(id), max(id))::text = (SELECT (min(id), max(id))::text FROM b) FROM p";
    assert_eq!(value(&mut client, query), "t");
    // What the comment on max(snowflake) says.
    let newest = plan(&mut client, "SELECT id FROM s ORDER BY id DESC LIMIT 1");
    assert!(newest.contains("Scan Backward using s_pkey"), "{newest}");
}
