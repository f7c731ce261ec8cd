//! A condition on the time of an ID is planned as a range of IDs, and chooses the same rows.

mod bound;
mod extremes;
mod foreign;
mod plans;
mod random;

use testbed::postgres::Client;
use testbed::{Cluster, Database, error, need_postgresql, plan, postgresql, test, value};

/// An hour with an ID in each second, and its first ID.
const TABLES: &str = "CREATE EXTENSION snowflake_pg;
    CREATE TABLE orders (id bigint PRIMARY KEY, item text);
    INSERT INTO orders SELECT snowflake_compose('2026-01-01Z'::timestamptz + n * interval '1 second', NULL, 7, 0), n
        FROM generate_series(0, 3599) n;
    CREATE TABLE typed (id snowflake PRIMARY KEY, order_id bigint);
    INSERT INTO typed SELECT id, id FROM orders;
    CREATE VIEW seen AS SELECT *, snowflake_timestamp(id) AS created_at FROM orders;
    CREATE VIEW computed AS SELECT id, to_timestamp(((id >> 22) + 1288834974657) / 1000.0) AS created_at FROM orders;
    ANALYZE orders, typed";

fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(7).database();
    let mut client = database.connect();
    client.batch_execute(TABLES).expect("tables");
    client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").expect("settings");
    (database, client)
}

fn shown(client: &mut Client, query: &str) -> String {
    plan(client, &format!("EXPLAIN (COSTS OFF) {query}"))
}

#[test]
fn a_condition_on_the_time_uses_the_key_wherever_a_query_has_it() {
    let (_database, mut client) = database();
    let constant = "Index Cond: (id >= '2006519689638838272'::bigint)";
    let stable = "(id >= snowflake_bound((now() - '01:00:00'::interval), '>'::text, 'flat'::text))";
    for (query, planned) in [
        ("SELECT * FROM orders WHERE snowflake_timestamp(id) >= '2026-01-01 00:15:48Z'", constant),
        ("SELECT * FROM orders WHERE '2026-01-01 00:15:48Z' <= snowflake_timestamp(id)", constant),
        ("SELECT * FROM orders WHERE NOT (snowflake_timestamp(id) < '2026-01-01 00:15:48Z')", constant),
        ("SELECT * FROM orders WHERE (snowflake_decode(id)).issued_at >= '2026-01-01 00:15:48Z'", constant),
        ("SELECT * FROM orders WHERE snowflake_timestamp(id, 'flat') >= '2026-01-01 00:15:48Z'", constant),
        ("SELECT * FROM seen WHERE created_at >= '2026-01-01 00:15:48Z' AND item <> ''", constant),
        (
            "SELECT * FROM (SELECT * FROM seen OFFSET 0) s WHERE created_at >= '2026-01-01 00:15:48Z'",
            "(s.id >= '2006519689638838272'",
        ),
        ("WITH s AS (SELECT * FROM seen) SELECT * FROM s WHERE created_at >= '2026-01-01 00:15:48Z'", constant),
        ("DELETE FROM orders WHERE snowflake_timestamp(id) >= '2026-01-01 00:15:48Z'", constant),
        ("UPDATE orders SET item = '' WHERE snowflake_timestamp(id) >= '2026-01-01 00:15:48Z'", constant),
        ("SELECT * FROM orders WHERE snowflake_timestamp(id) > now() - interval '1 hour'", stable),
        (
            "SELECT * FROM typed WHERE snowflake_timestamp(id) > now() - interval '1 hour'",
            "((id)::bigint >= snowflake_bound(",
        ),
        (
            "SELECT * FROM orders WHERE snowflake_timestamp(id) = '2026-01-01Z'",
            "((id >= '2006515713438646272'::bigint) AND (id <= '2006515713442840575'::bigint))",
        ),
        ("SELECT * FROM orders WHERE snowflake_timestamp(id) > 'infinity'", "One-Time Filter: false"),
        (
            "SELECT * FROM typed LEFT JOIN seen ON seen.id = order_id AND created_at < '2026-01-01 00:00:10Z'",
            "Index Cond: (id <= '2006515755381686271'::bigint)",
        ),
        (
            "SELECT * FROM orders o JOIN seen ON created_at > snowflake_timestamp(o.id) WHERE o.item = '5'",
            "Index Cond: (id >= snowflake_bound(snowflake_timestamp(o.id, 'flat'::text), '>'::text, 'flat'::text))",
        ),
        (
            "SELECT * FROM seen WHERE (created_at, id) < ('2026-01-01 00:00:10Z', 5) ORDER BY created_at DESC, id DESC",
            "Index Cond: (id <= '2006515755385880575'::bigint)",
        ),
        (
            "SELECT * FROM seen WHERE (now(), item) <= (created_at, '')",
            "Index Cond: (id >= snowflake_bound(now(), '>='::text",
        ),
        (
            "SELECT max(created_at), min(snowflake_timestamp(id)) FROM seen",
            "Index Only Scan Backward using orders_pkey",
        ),
        ("SELECT max(created_at) FROM computed", "Index Only Scan Backward using orders_pkey"),
        ("SELECT * FROM seen ORDER BY created_at DESC LIMIT 5", "Index Scan Backward using orders_pkey"),
        ("SELECT created_at FROM seen ORDER BY created_at, id LIMIT 5", "Index Only Scan using orders_pkey"),
    ] {
        let shown = shown(&mut client, query);
        assert!(shown.contains(planned), "{query}:\n{shown}");
        assert!(!shown.contains("Sort"), "{query}:\n{shown}");
    }
    client
        .batch_execute(
            "SET plan_cache_mode = force_generic_plan; PREPARE since AS SELECT * FROM seen WHERE created_at >= $1",
        )
        .expect("a query");
    let generic = shown(&mut client, "EXECUTE since('2026-01-01Z')");
    assert!(generic.contains("Index Cond: (id >= snowflake_bound($1, '>='::text, 'flat'::text))"), "{generic}");
}

#[test]
fn what_the_time_does_not_order_stays_as_it_was_written() {
    let (_database, mut client) = database();
    for query in [
        "SELECT * FROM orders WHERE NOT (snowflake_timestamp(id) = now())",
        "SELECT * FROM orders WHERE snowflake_timestamp(id) <> now()",
        "SELECT * FROM orders WHERE (snowflake_timestamp(id) > now()) IS NULL",
        "SELECT * FROM orders WHERE snowflake_timestamp(id) > clock_timestamp()",
        // These do not sort by time, as a bigint.
        "SELECT * FROM orders WHERE snowflake_timestamp(id, 'instagram') > now()",
        "SELECT * FROM orders WHERE snowflake_timestamp(id, 'js') > now() AND id IN (1)",
        // No layout has these.
        "SELECT * FROM orders WHERE to_timestamp(((id >> 22) * 60000 + 5) / 1000.0) > now()",
        "SELECT * FROM orders WHERE to_timestamp(((id >> 60) + 5) / 1000.0) > now()",
        "SELECT * FROM orders WHERE to_timestamp(((id >> 22) + 999999999999999) / 1000.0) > now()",
        // Joins that can hash.
        "SELECT * FROM seen a JOIN seen b ON a.created_at = b.created_at",
        "SELECT * FROM seen a FULL JOIN seen b ON a.created_at = b.created_at",
        "SELECT * FROM typed t WHERE NOT EXISTS (SELECT FROM seen WHERE created_at = snowflake_timestamp(t.id))",
        // A row of the total of an ID has no time.
        "SELECT * FROM (SELECT id, created_at FROM seen GROUP BY ROLLUP (id, created_at)) s WHERE created_at > now()",
        "SELECT snowflake_timestamp(id) > now() FROM orders",
        "SELECT * FROM seen ORDER BY created_at, item",
        "SELECT * FROM seen ORDER BY created_at FETCH FIRST 3 ROWS WITH TIES",
        "SELECT DISTINCT created_at FROM seen ORDER BY created_at",
    ] {
        let [on, off] = ["on", "off"].map(|setting| {
            client.batch_execute(&format!("SET snowflake_pg.enable_time_ranges = {setting}")).expect("a setting");
            shown(&mut client, query)
        });
        if query.contains("'js'") {
            continue;
        }
        assert_eq!(on, off, "{query}");
    }
}

/// A condition takes as many rows as the planner expects of a range of the key, and no fewer.
#[test]
fn the_planner_expects_as_many_rows_as_of_a_range_of_ids() {
    let (_database, mut client) = database();
    let rows = |client: &mut Client, condition: &str| -> f64 {
        let shown = plan(client, &format!("EXPLAIN SELECT * FROM orders WHERE {condition}"));
        let rows = shown.split("rows=").nth(1).and_then(|rest| rest.split(' ').next()).expect("rows");
        rows.parse().expect("a number")
    };
    let (since, until) = ("'2026-01-01 00:10Z'", "'2026-01-01 00:20Z'");
    let time = format!("snowflake_timestamp(id) >= {since} AND snowflake_timestamp(id) < {until}");
    let range = format!("snowflake_within(id, {since}, {until})");
    assert!((rows(&mut client, &time) - rows(&mut client, &range)).abs() < 3.0, "the bound is between two IDs");
    assert!((500.0..700.0).contains(&rows(&mut client, &time)));
    client.batch_execute("SET snowflake_pg.enable_time_ranges = off").expect("a setting");
    assert!(rows(&mut client, &time) < 100.0, "what PostgreSQL guesses without");
}

/// A plan is kept when its session changes its role, and may hold nothing that the other role may not call.
#[test]
fn a_function_of_somebody_else_and_one_that_not_everybody_may_call_stay_as_they_are() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE SCHEMA theirs;
             CREATE FUNCTION theirs.snowflake_timestamp(bigint, text) RETURNS timestamptz IMMUTABLE LANGUAGE plpgsql
                AS $$ BEGIN RETURN now(); END $$;
             CREATE FUNCTION theirs.snowflake_bound(timestamptz, text, text) RETURNS bigint IMMUTABLE LANGUAGE plpgsql
                AS $$ BEGIN RAISE 'called'; END $$",
        )
        .expect("functions");
    let foreign = shown(&mut client, "SELECT * FROM orders WHERE theirs.snowflake_timestamp(id, 'flat') > now()");
    assert!(foreign.contains("Filter: (theirs.snowflake_timestamp(id, 'flat'::text) > now())"), "{foreign}");
    let ours = "SELECT * FROM orders WHERE snowflake_timestamp(id) > now()";
    assert!(shown(&mut client, ours).contains("Index Cond: (id >= snowflake_bound(now(), '>'::text"));
    client
        .batch_execute("REVOKE EXECUTE ON FUNCTION snowflake_bound(timestamptz, text, text) FROM PUBLIC")
        .expect("a privilege");
    let shown = shown(&mut client, ours);
    assert!(shown.contains("Filter: (snowflake_timestamp(id, 'flat'::text) > now())"), "{shown}");
    assert_eq!(value(&mut client, "SELECT count(*) FROM orders WHERE snowflake_timestamp(id) < now()"), "3600");
}

/// From PostgreSQL 18 on, the column takes no room.
#[test]
fn a_column_for_the_time_shows_the_time_of_the_id_and_its_conditions_use_the_key() {
    let (_database, mut client) = database();
    let stored = postgresql() < 18;
    if stored {
        let refused = error(&mut client, "SELECT snowflake_add_created_at('orders')");
        assert_eq!((refused.code().code(), refused.message()), ("0A000", "virtual columns came with PostgreSQL 18"));
    }
    let size = "SELECT pg_relation_size('orders')";
    let before = value(&mut client, size);
    client.batch_execute("DROP VIEW seen").expect("no view");
    value(&mut client, &format!("SELECT snowflake_add_created_at('orders', stored => {stored})"));
    assert_eq!(value(&mut client, size) == before, !stored);
    let differ = "SELECT count(*) FROM orders WHERE created_at IS DISTINCT FROM snowflake_timestamp(id)";
    assert_eq!(value(&mut client, differ), "0");
    let query =
        "SELECT created_at FROM orders WHERE created_at > now() - interval '1 hour' ORDER BY created_at DESC LIMIT 5";
    let used = shown(&mut client, query);
    assert!(
        used.contains("Index Cond: (id >= snowflake_bound((now() - '01:00:00'::interval), '>'::text, 'flat'"),
        "{used}"
    );
    assert!(used.contains("Backward") && !used.contains("Sort"), "{used}");
    let kind = if stored { "STORED" } else { "VIRTUAL" };
    if postgresql() == 15 {
        client
            .batch_execute(
                "CREATE TABLE parts (LIKE orders INCLUDING GENERATED INCLUDING INDEXES) PARTITION BY RANGE (id);
                 CREATE TABLE part PARTITION OF parts DEFAULT",
            )
            .expect("partitions");
        assert!(shown(&mut client, "SELECT * FROM parts WHERE created_at > now()").contains("(id >= snowflake_bound("));
    }
    // From PostgreSQL 16 on, a child can have another expression. Of virtual columns, a query uses the one of the table
    // that it names.
    if postgresql() > 15 {
        client
        .batch_execute(&format!(
            "CREATE TABLE child (id bigint NOT NULL, item text, created_at timestamptz GENERATED ALWAYS AS ('2030-01-01Z'::timestamptz) {kind});
             ALTER TABLE child INHERIT orders; INSERT INTO child VALUES (1)"
        ))
        .expect("a row");
        for time_ranges in ["on", "off"] {
            client.batch_execute(&format!("SET snowflake_pg.enable_time_ranges = {time_ranges}")).expect("a setting");
            let count = value(&mut client, "SELECT count(*) FROM orders WHERE created_at > '2029-01-01Z'");
            assert_eq!(count == "1", stored, "{time_ranges}: {count}");
        }
        client.batch_execute("DROP TABLE child; RESET snowflake_pg.enable_time_ranges").expect("no child");
    }
    let expression = value(&mut client, "SELECT snowflake_time_expression('id')");
    client
        .batch_execute(&format!(
            "ALTER TABLE orders ADD COLUMN second timestamptz(0) GENERATED ALWAYS AS ({expression}) {kind}"
        ))
        .expect("a column");
    let rounded = shown(&mut client, "SELECT * FROM orders WHERE second > now()");
    assert!(!rounded.contains("snowflake_bound"), "{rounded}");
    let refused = error(&mut client, "SELECT snowflake_add_created_at('typed')");
    let message = "a virtual column cannot use a key of type snowflake";
    assert_eq!((refused.code().code(), refused.message()), ("0A000", message));
    value(&mut client, "SELECT snowflake_add_created_at('typed', stored => true)");
    let used = shown(&mut client, "SELECT * FROM typed WHERE created_at > now()");
    assert!(used.contains("Index Cond: ((id)::bigint >= snowflake_bound(now(), '>'::text"), "{used}");
    for (table, key) in [("without", ""), ("two", ", PRIMARY KEY (id, n)"), ("narrow", ", PRIMARY KEY (n)")] {
        client.batch_execute(&format!("CREATE TABLE {table} (id bigint, n integer{key})")).expect("a table");
        let refused = error(&mut client, &format!("SELECT snowflake_add_created_at('{table}')"));
        let message = format!("relation public.{table} has no primary key of one bigint column");
        assert_eq!((refused.code().code(), refused.message()), ("42809", message.as_str()));
    }
}

#[test]
fn a_column_of_times_becomes_that_of_the_id_unless_a_value_differs() {
    need_postgresql(18);
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_adopt; CREATE TABLE visits (id bigint PRIMARY KEY, n integer, created_at timestamp(3) NOT NULL);
             INSERT INTO visits SELECT id, n, snowflake_timestamp(id) AT TIME ZONE 'UTC' + interval '1 s' * (n % 3)
                FROM (SELECT id, row_number() OVER () AS n FROM orders) s;
             UPDATE visits SET created_at = created_at + interval '3 s' WHERE n = 77;
             CREATE INDEX ON visits (created_at)",
        )
        .expect("a table");
    let commands = client
        .query("SELECT command FROM snowflake_adopt.replace_created_at('visits', 'created_at', '2 s')", &[])
        .expect("commands");
    let commands: Vec<String> = commands.iter().map(|row| row.get(0)).collect();
    let [count, refuse, check, replace] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(value(&mut client, count), "1");
    // A larger bound, of which all is done but the last, is not this one.
    let within = |bound: &str| {
        format!("SELECT command FROM snowflake_adopt.replace_created_at('visits', 'created_at', {bound})")
    };
    for command in client.query(&within("'1 day'"), &[]).expect("commands").iter().take(3) {
        client.batch_execute(command.get(0)).expect("a constraint");
    }
    assert_eq!(error(&mut client, replace).code().code(), "55000");
    for bound in ["NULL", "'-2 s'"] {
        assert_eq!(error(&mut client, &within(bound)).code().code(), "22023");
    }
    // psql goes on after an error, and rows can still be inserted.
    for command in [refuse, check, replace] {
        let refused = error(&mut client, command).code().code().to_owned();
        assert_eq!(refused, if command == check { "42704" } else { "55000" }, "{command}");
    }
    client
        .batch_execute("INSERT INTO visits VALUES (1, 1, '2010-11-04 01:43'); DELETE FROM visits WHERE id = 1")
        .expect("a row");
    client.batch_execute("UPDATE visits SET created_at = created_at - interval '3 s' WHERE n = 77").expect("a mend");
    assert_eq!(value(&mut client, count), "0");
    client.batch_execute(refuse).expect("a constraint");
    assert_eq!(error(&mut client, "INSERT INTO visits VALUES (1, 1, now())").code().code(), "23514");
    assert_eq!(error(&mut client, replace).code().code(), "55000");
    client.batch_execute(check).expect("no row that differs");
    client.batch_execute(replace).expect("another column");
    let same = "SELECT count(*) FROM visits WHERE created_at = snowflake_timestamp(id) AT TIME ZONE 'UTC'";
    assert_eq!(value(&mut client, same), "3600");
    let used = shown(
        &mut client,
        "SELECT * FROM visits WHERE created_at > '2026-01-01 00:30' ORDER BY created_at DESC LIMIT 5",
    );
    assert!(used.contains("Index Cond: (id >= '") && used.contains("Backward"), "{used}");
    client
        .batch_execute(
            "CREATE TABLE rounded (id bigint PRIMARY KEY, created_at timestamptz(0)); CREATE TABLE child () INHERITS (rounded);
             ALTER TABLE child ADD PRIMARY KEY (id)",
        )
        .expect("tables");
    for (table, column, code) in
        [("visits", "gone", "42703"), ("rounded", "created_at", "0A000"), ("child", "created_at", "42809")]
    {
        let refused =
            error(&mut client, &format!("SELECT snowflake_adopt.replace_created_at('{table}', '{column}', '2 s')"));
        assert_eq!(refused.code().code(), code, "{table}");
    }
}

/// They have values that nobody has compared.
#[test]
fn a_column_that_has_taken_the_name_of_another_one_is_not_replaced_by_the_time_of_the_id() {
    need_postgresql(18);
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_adopt; CREATE TABLE visits (id bigint PRIMARY KEY, created_at timestamptz NOT NULL);
             INSERT INTO visits SELECT id, snowflake_timestamp(id) FROM orders; CREATE TABLE parent (LIKE visits INCLUDING ALL);
             CREATE TABLE child (created_at timestamptz) INHERITS (parent)",
        )
        .expect("tables");
    let refused = error(&mut client, "SELECT snowflake_adopt.replace_created_at('parent', 'created_at', '2 s')");
    assert_eq!(refused.message(), "child table public.child has column \"created_at\" of its own");
    let commands = client
        .query("SELECT command FROM snowflake_adopt.replace_created_at('visits', 'created_at', '2 s')", &[])
        .expect("commands");
    let commands: Vec<String> = commands.iter().map(|row| row.get(0)).collect();
    let (replace, before) = commands.split_last().expect("commands");
    for command in before {
        client.batch_execute(command).expect("a constraint");
    }
    for (column, other) in [("id", "bigint DEFAULT 7"), ("created_at", "timestamptz DEFAULT '2000-01-01Z'")] {
        client
            .batch_execute(&format!(
                "ALTER TABLE visits RENAME {column} TO old; ALTER TABLE visits ADD {column} {other}"
            ))
            .expect("another column");
        assert_eq!(error(&mut client, replace).message(), "values of the column may differ from the time of the ID");
        client
            .batch_execute(&format!("ALTER TABLE visits DROP {column}; ALTER TABLE visits RENAME old TO {column}"))
            .expect("the columns of before");
    }
    client.batch_execute(replace).expect("a virtual column");
    let same = "SELECT count(*) FROM visits WHERE created_at = snowflake_timestamp(id)";
    assert_eq!(value(&mut client, same), "3600");
}

/// A range of IDs would use no such index.
#[test]
fn an_index_by_the_time_is_used_as_long_as_it_is_there() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE visits (page integer, id bigint, PRIMARY KEY (page, id),
                 seen timestamptz GENERATED ALWAYS AS (to_timestamp(((id >> 22) + 1288834974657) / 1000.0)) STORED)",
        )
        .expect("a table");
    for (index, condition, used) in [
        (
            "((snowflake_timestamp(id, 'flat')))",
            "snowflake_timestamp(id) > now()",
            "Index Cond: (snowflake_timestamp(id",
        ),
        (
            "(page) WHERE snowflake_timestamp(id, 'flat') > '2026-01-01Z'",
            "snowflake_timestamp(id) > '2026-01-02Z'",
            "using visits_by",
        ),
        ("(seen)", "seen > now()", "Index Cond: (seen > now())"),
        ("(page) WHERE seen > '2026-01-01Z'", "seen > '2026-01-02Z'", "using visits_by"),
        ("(id)", "seen > now()", "Index Cond: (id >= snowflake_bound(now()"),
        ("(page) INCLUDE (seen)", "seen > now()", "Index Cond: (id >= snowflake_bound(now()"),
        ("((to_timestamp(page)))", "seen > now()", "Index Cond: (id >= snowflake_bound(now()"),
    ] {
        client.batch_execute(&format!("CREATE INDEX visits_by ON visits {index}")).expect("an index");
        let shown = shown(&mut client, &format!("SELECT * FROM visits WHERE {condition}"));
        assert!(shown.contains(used), "{index}: {shown}");
        client.batch_execute("DROP INDEX visits_by").expect("no index");
    }
}
