//! What is replaced must not be slower by much, nor lose a plan.

use super::shown;
use std::sync::atomic::{AtomicUsize, Ordering};
use testbed::postgres::Client;
use testbed::{Cluster, Database, postgresql, test, value};

/// Rows of 2026, of 400 customers, and some of customer 1000 that are the oldest of all.
fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(7).database();
    let mut client = database.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE customers (id integer PRIMARY KEY, name text);
             INSERT INTO customers SELECT n, 'name ' || n FROM generate_series(0, 1000) n;
             CREATE TABLE visits (id bigint PRIMARY KEY, customer integer NOT NULL REFERENCES customers,
                 page integer NOT NULL, agent integer REFERENCES customers,
                 created_at timestamptz GENERATED ALWAYS AS (to_timestamp(((id >> 22) + 1288834974657) / 1000.0)) STORED);
             INSERT INTO visits (id, customer, page)
                 SELECT snowflake_compose('2026-01-01Z'::timestamptz + n * interval '1 minute', NULL, 7, 0),
                     CASE WHEN n < 100 THEN 1000 ELSE n % 400 END, n % 50 FROM generate_series(0, 39999) n;
             CREATE INDEX ON visits (customer);
             CREATE VIEW seen AS SELECT *, snowflake_timestamp(id) AS at FROM visits;
             ANALYZE",
        )
        .expect("tables");
    (database, client)
}

fn set(client: &mut Client, setting: &str) {
    client.batch_execute(&format!("SET snowflake_pg.enable_time_ranges = {setting}")).expect("a setting");
}

/// The plans of a query with and without ranges.
fn plans(client: &mut Client, query: &str) -> [String; 2] {
    ["on", "off"].map(|setting| {
        set(client, setting);
        shown(client, query)
    })
}

/// PostgreSQL takes the rows of a customer to be spread evenly over the key, and reads it from its end until it has
/// them.
#[test]
fn the_key_is_not_read_from_its_end_for_rows_that_may_be_at_the_other() {
    let (_database, mut client) = database();
    for query in [
        "SELECT * FROM visits WHERE customer = 1000 ORDER BY created_at DESC LIMIT 10",
        "SELECT * FROM seen WHERE customer = 1000 ORDER BY at DESC LIMIT 10",
        "SELECT max(at) FROM seen WHERE customer = 1000",
        "SELECT max(created_at), min(created_at) FROM visits WHERE customer IN (999, 1000)",
        "SELECT c, (SELECT max(created_at) FROM visits WHERE customer = c) FROM generate_series(0, 20) c",
        "SELECT * FROM (SELECT * FROM visits WHERE customer = 1000) v ORDER BY created_at DESC LIMIT 10",
        "WITH v AS (SELECT * FROM seen WHERE page = 5 OR id > 7) SELECT * FROM v ORDER BY at DESC LIMIT 10",
        "SELECT * FROM (SELECT id, at FROM seen GROUP BY id, at HAVING count(page) > 1) s ORDER BY at DESC LIMIT 10",
        "SELECT v.* FROM visits v JOIN customers c ON c.id = customer AND name = 'name 1000' ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v JOIN customers c ON c.id = v.page ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v JOIN customers c ON c.id = v.agent ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v JOIN customers c ON c.id < customer ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v, customers c WHERE c.id = customer AND name = 'name 1000' ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v, customers c WHERE c.id = v.agent ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v, customers c, customers d WHERE c.id = customer AND d.id = c.id ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v, customers c WHERE c.id = customer AND v.page = 5 ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v JOIN (SELECT * FROM customers WHERE name = 'name 1000') c ON c.id = customer ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM visits v JOIN customers c TABLESAMPLE SYSTEM (1) ON c.id = customer ORDER BY created_at DESC LIMIT 10",
        "SELECT v.* FROM customers c LEFT JOIN visits v ON customer = c.id ORDER BY created_at DESC LIMIT 10",
        "SELECT * FROM visits WHERE EXISTS (SELECT FROM customers c WHERE c.id = customer AND name > 'name 99') ORDER BY created_at LIMIT 10",
    ] {
        let [on, off] = plans(&mut client, query);
        assert_eq!(on, off, "{query}");
    }
    client
        .batch_execute(
            "DROP ROLE IF EXISTS sees_one; CREATE ROLE sees_one; GRANT SELECT ON visits, customers TO sees_one;
             ALTER TABLE customers ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON customers USING (name = 'name 1000');
             SET ROLE sees_one",
        )
        .expect("a policy");
    let query = "SELECT v.* FROM visits v JOIN customers c ON c.id = customer ORDER BY created_at DESC LIMIT 10";
    let [on, off] = plans(&mut client, query);
    assert_eq!(on, off);
}

#[test]
fn the_order_of_the_key_is_used_where_nothing_else_chooses_rows_or_an_index_has_both() {
    let (_database, mut client) = database();
    set(&mut client, "on");
    let key = "Scan Backward using visits_pkey";
    for (query, planned) in [
        ("SELECT * FROM visits ORDER BY created_at DESC LIMIT 10", key),
        ("SELECT max(at) FROM seen", key),
        ("SELECT max(at) FROM seen WHERE at < '2026-01-05' OR at > '2026-01-10'", key),
        ("SELECT * FROM seen WHERE at < '2026-01-05' AND id > 5 ORDER BY at DESC LIMIT 10", key),
        ("SELECT * FROM seen WHERE at < '2026-01-05' AND current_user > '' ORDER BY at DESC LIMIT 10", key),
        ("SELECT * FROM seen WHERE (at, id) < ('2026-01-05', 5) ORDER BY at DESC, id DESC LIMIT 10", key),
        ("SELECT * FROM visits LEFT JOIN customers c ON c.id = page ORDER BY created_at DESC LIMIT 10", key),
        ("SELECT * FROM visits v JOIN customers c ON c.id = v.customer ORDER BY created_at DESC LIMIT 10", key),
        ("SELECT * FROM customers c JOIN seen v ON c.id = v.customer ORDER BY at DESC LIMIT 10", key),
        ("SELECT * FROM customers c, visits v WHERE c.id = v.customer ORDER BY created_at DESC LIMIT 10", key),
        (
            "SELECT * FROM seen v, customers c, customers d WHERE c.id = v.customer AND at > '2026-01-01' AND customer = d.id ORDER BY at DESC LIMIT 10",
            key,
        ),
    ] {
        let shown = shown(&mut client, query);
        assert!(shown.contains(planned) && !shown.contains("Sort"), "{query}:\n{shown}");
    }
    client.batch_execute("CREATE INDEX visits_by ON visits (customer, id)").expect("an index");
    let both = "Scan Backward using visits_by";
    for query in [
        "SELECT * FROM visits WHERE customer = 1000 ORDER BY created_at DESC LIMIT 10",
        "SELECT * FROM seen WHERE customer = 1000 AND at > '2026-01-01' ORDER BY at DESC LIMIT 10",
        "SELECT max(at) FROM seen WHERE customer = 1000",
        "SELECT c, (SELECT max(created_at) FROM visits WHERE customer = c) FROM generate_series(0, 20) c",
    ] {
        let shown = shown(&mut client, query);
        assert!(shown.contains(both) && !shown.contains("Sort"), "{query}:\n{shown}");
    }
    for index in ["(customer, page, id)", "(customer, id) WHERE page > 5", "(page, id)"] {
        client
            .batch_execute(&format!("DROP INDEX visits_by; CREATE INDEX visits_by ON visits {index}"))
            .expect("an index");
        let [on, off] =
            plans(&mut client, "SELECT * FROM visits WHERE customer = 1000 ORDER BY created_at DESC LIMIT 10");
        assert_eq!(on, off, "{index}");
    }
}

/// An index helps that has the rows that a condition chooses, and no others.
#[test]
fn an_index_of_the_rows_that_a_query_chooses_gives_their_order() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "ALTER TABLE visits ADD is_new boolean NOT NULL GENERATED ALWAYS AS (page < 25) STORED;
             DROP VIEW seen; CREATE VIEW seen AS SELECT *, snowflake_timestamp(id) AS at FROM visits; ANALYZE visits",
        )
        .expect("a column");
    for (index, condition, is_used) in [
        ("(id) WHERE agent IS NULL", "agent IS NULL", true),
        ("(id) WHERE agent IS NULL", "at > '2026-01-02' AND agent IS NULL", true),
        ("(id) WHERE agent IS NULL", "agent IS NULL AND customer = 1000", false),
        ("(id) WHERE agent IS NULL", "agent IS NOT NULL", false),
        ("(id, page) WHERE agent IS NULL OR page > 5", "(page > 5 OR agent IS NULL)", true),
        ("(id) WHERE page IN (1, 2)", "page IN (1, 2)", true),
        ("(id) WHERE page > 5", "page > 5", true),
        ("(id) WHERE page > 5", "page > 7", false),
        ("(id) WHERE page > 7", "page > 5", false),
        ("(id) WHERE customer = 1000", "customer = 1000", true),
        ("(id) WHERE customer = 1000 AND id > 5", "customer = 1000 AND id > 7", true),
        ("(id) WHERE customer = 1000 AND id > 7", "customer = 1000 AND id > 5", false),
        ("(customer, id) WHERE agent IS NULL", "agent IS NULL AND customer = 1000", true),
        ("(customer, page, id) WHERE agent IS NULL", "agent IS NULL AND customer = 1000", false),
        ("(page) WHERE agent IS NULL", "agent IS NULL", false),
        ("(is_new, id)", "is_new", true),
        ("(is_new, id)", "is_new = true", true),
        ("(is_new, id)", "is_new IS TRUE", true),
        ("(is_new, id)", "NOT is_new", true),
        ("(is_new, id)", "is_new IS FALSE", true),
        ("(is_new, id)", "is_new IS NOT UNKNOWN", false),
        ("(is_new, id)", "NOT is_new AND customer = 1000", false),
        ("(is_new, customer, id)", "NOT is_new AND customer = 1000", true),
        ("(id) WHERE is_new", "is_new", true),
        ("(id) WHERE is_new", "is_new = true", true),
        ("(id) WHERE is_new", "NOT is_new", false),
        ("(customer, id) WHERE NOT is_new", "is_new = false AND customer = 1000", true),
    ] {
        client.batch_execute(&format!("CREATE INDEX visits_by ON visits {index}")).expect("an index");
        for query in [
            format!("SELECT * FROM seen WHERE {condition} ORDER BY at DESC LIMIT 10"),
            format!(
                "SELECT * FROM (SELECT * FROM seen WHERE page >= 0 OR true) s WHERE {condition} ORDER BY created_at LIMIT 10"
            ),
            format!("SELECT max(created_at) FROM seen WHERE {condition}"),
            format!(
                "SELECT s.* FROM seen s, customers c (number) WHERE number = customer AND {condition} ORDER BY at LIMIT 10"
            ),
        ] {
            let [on, off] = plans(&mut client, &query);
            let uses = on.contains("Index") && !on.contains("Sort") && on != off;
            assert_eq!((uses, on != off), (is_used, is_used), "{index}: {query}: {on}");
        }
        client.batch_execute("DROP INDEX visits_by").expect("no index");
    }
}

/// The same table twice is two sets of rows.
#[test]
fn an_index_of_a_table_gives_no_order_to_the_rows_that_a_condition_on_another_one_chooses() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE replies (id bigint PRIMARY KEY, reply_to bigint NOT NULL REFERENCES replies, author integer);
             INSERT INTO replies SELECT id, id, customer FROM visits; CREATE INDEX ON replies (author, id); ANALYZE replies",
        )
        .expect("a table");
    for (condition, is_used) in [("r.author = 1000", true), ("t.author = 1000", false)] {
        for from in
            ["replies r JOIN replies t ON t.id = r.reply_to WHERE", "replies r, replies t WHERE t.id = r.reply_to AND"]
        {
            let query = format!("SELECT r.* FROM {from} {condition} ORDER BY snowflake_timestamp(r.id) DESC LIMIT 10");
            let [on, off] = plans(&mut client, &query);
            assert_eq!(on != off, is_used, "{query}: {on}");
        }
    }
}

/// A range of IDs would read all of the tables.
#[test]
fn partitions_and_children_that_know_the_time_are_chosen_by_it() {
    let (_database, mut client) = database();
    client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").expect("settings");
    let time = "snowflake_timestamp(id, 'flat')";
    let tables = format!(
        "CREATE TABLE parts (id bigint, page integer) PARTITION BY RANGE ({time});
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO ('2026-02-01Z');
         CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2026-02-01Z') TO ('2026-03-01Z');
         CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM ('2026-03-01Z') TO (MAXVALUE);
         CREATE TABLE checked (id bigint, page integer);
         CREATE TABLE checked_1 (CHECK ({time} < '2026-02-01Z')) INHERITS (checked);
         CREATE TABLE checked_2 (CHECK ({time} >= '2026-02-01Z')) INHERITS (checked);
         CREATE TABLE pages (id bigint, page integer) PARTITION BY LIST (page);
         CREATE TABLE pages_1 PARTITION OF pages FOR VALUES IN (1) PARTITION BY LIST (page);
         CREATE TABLE pages_1_1 PARTITION OF pages_1 DEFAULT;
         CREATE INDEX ON pages_1_1 (({time}));
         CREATE TABLE heirs (id bigint PRIMARY KEY, page integer); CREATE TABLE heir () INHERITS (heirs)"
    );
    client.batch_execute(&tables).expect("tables");
    for (table, planned) in [("parts", "parts_3"), ("checked", "checked_2"), ("pages", "Index Scan")] {
        for time in ["'2026-04-01Z'", "now() + interval '200 years'"] {
            let query = format!("SELECT * FROM {table} WHERE snowflake_timestamp(id) > {time}");
            let [on, off] = plans(&mut client, &query);
            assert_eq!(on, off, "{query}");
            assert!(on.contains(planned), "{query}: {on}");
        }
    }
    // What is known of tables is forgotten when they change.
    let query = "SELECT * FROM heirs WHERE snowflake_timestamp(id) > now()";
    set(&mut client, "on");
    for (change, has_range) in [
        ("ANALYZE heirs", true),
        ("CREATE INDEX heir_by ON heir ((snowflake_timestamp(id, 'flat')))", false),
        ("DROP INDEX heir_by", true),
        ("ALTER TABLE heir ADD CONSTRAINT late CHECK (snowflake_timestamp(id, 'flat') > '2026-01-01Z')", false),
        ("ALTER TABLE heir NO INHERIT heirs; ANALYZE heirs", true),
    ] {
        client.batch_execute(change).expect(change);
        assert_eq!(shown(&mut client, query).contains("id >= "), has_range, "{change}");
    }
    if postgresql() == 15 {
        client
            .batch_execute(
                "CREATE TABLE spread (LIKE visits INCLUDING GENERATED) PARTITION BY LIST (page);
                 CREATE TABLE spread_1 (created_at timestamptz GENERATED ALWAYS AS (to_timestamp(((id >> 22) + 1288834974657) / 1000.0)) STORED,
                     page integer NOT NULL, customer integer NOT NULL, agent integer, id bigint NOT NULL);
                 ALTER TABLE spread ATTACH PARTITION spread_1 DEFAULT",
            )
            .expect("a partition");
        let query = "SELECT * FROM spread WHERE created_at > now()";
        set(&mut client, "on");
        assert!(shown(&mut client, query).contains("id >= "));
        client.batch_execute("CREATE INDEX ON spread_1 (created_at)").expect("an index");
        let [on, off] = plans(&mut client, query);
        assert_eq!(on, off);
    }
}

/// As many as a row can have: there is no room for one more to sort by.
#[test]
fn a_query_of_as_many_columns_as_there_can_be_is_ordered_by_the_time() {
    let (_database, mut client) = database();
    let columns: Vec<String> = (1..1664).map(|n| format!("page AS c{n}")).collect();
    let columns = columns.join(", ");
    for order in ["ORDER BY at", "ORDER BY at DESC LIMIT 5"] {
        let query =
            format!("SELECT count(*) FROM (SELECT at, {columns} FROM seen WHERE at < '2026-01-01 01:00Z' {order}) s");
        assert_eq!(value(&mut client, &query), if order.contains("LIMIT") { "5" } else { "60" });
    }
}

/// The planner looks at children without a lock, so they can go meanwhile.
#[test]
fn queries_are_planned_while_others_drop_children_of_their_table() {
    let (database, mut client) = database();
    client.batch_execute("CREATE TABLE plain (n integer, at timestamptz)").expect("a table");
    let working = AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let mut other = database.connect();
            let working = &working;
            scope.spawn(move || {
                for _ in 0..500 {
                    other.batch_execute(&format!("CREATE TABLE c{number} () INHERITS (plain)")).expect("a child");
                    other.batch_execute(&format!("DROP TABLE c{number}")).expect("no child");
                }
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while working.load(Ordering::Relaxed) > 0 {
            client.batch_execute("EXPLAIN SELECT FROM plain WHERE at < '2026-02-05Z'").expect("a plan");
        }
    });
}
