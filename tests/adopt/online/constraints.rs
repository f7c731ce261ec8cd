//! Constraints that are not valid, not enforced, or of others: each is as it was before.

use super::{call, differences_when_adopted, dump, launch, make_what_comes_before_the_swap, server};
use testbed::postgres::NoTls;
use testbed::{error, need_postgresql, postgresql, test, value};

/// As one adds it to a large table.
#[test]
fn a_column_that_is_not_null_but_has_a_null_of_before_is_adopted_as_it_is() {
    need_postgresql(18);
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE kid (p integer REFERENCES orders); INSERT INTO kid VALUES (1), (NULL);
             ALTER TABLE kid ADD CONSTRAINT nn NOT NULL p NOT VALID; CREATE TABLE lone (p integer REFERENCES orders);
             ALTER TABLE lone ADD CONSTRAINT ni NOT NULL p NO INHERIT",
        )
        .expect("tables");
    let before = dump(&cluster);
    client.batch_execute("SET statement_timeout = '1min'").expect("a setting");
    for step in ["start", "run", "finish"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    let after = dump(&cluster).replace("p bigint", "p integer");
    assert_eq!(differences_when_adopted(&before, &after), [const { Vec::<String>::new() }; 2]);
    assert_eq!(error(&mut client, "INSERT INTO kid VALUES (NULL)").code().code(), "23502");
}

#[test]
fn constraints_that_are_not_enforced_are_not_enforced_afterwards() {
    need_postgresql(18);
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "ALTER TABLE items ADD CONSTRAINT kf FOREIGN KEY (order_id) REFERENCES orders NOT ENFORCED, ADD CONSTRAINT ck CHECK (order_id < 9) NOT ENFORCED,
                ADD CONSTRAINT later FOREIGN KEY (order_id) REFERENCES orders NOT ENFORCED",
        )
        .expect("constraints");
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    make_what_comes_before_the_swap(&mut client);
    // Its successor is there already.
    client
        .batch_execute("ALTER TABLE items ALTER CONSTRAINT later ENFORCED, ALTER CONSTRAINT later DEFERRABLE")
        .expect("a constraint");
    call(&mut client, "finish('orders')");
    let kept =
        "SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), '; ' ORDER BY conname) FROM pg_constraint
        WHERE conrelid = 'items'::regclass AND conname IN ('kf', 'ck', 'later')";
    let foreign_key = "FOREIGN KEY (order_id) REFERENCES orders(id)";
    let kept_as = format!(
        "ck CHECK ((order_id < 9)) NOT ENFORCED; kf {foreign_key} NOT ENFORCED; later {foreign_key} DEFERRABLE"
    );
    assert_eq!(value(&mut client, kept), kept_as);
    client.batch_execute("UPDATE items SET order_id = 77 WHERE id = 1").expect("no check");
}

#[test]
fn the_keys_of_partitions_have_their_names_again() {
    need_postgresql(18);
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE parts (p integer NOT NULL REFERENCES orders, n integer) PARTITION BY LIST (n); CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN (1);
             CREATE TABLE parts2 (p integer NOT NULL, n integer, CONSTRAINT own FOREIGN KEY (p) REFERENCES orders) PARTITION BY LIST (n);
             CREATE TABLE parts3 PARTITION OF parts2 FOR VALUES IN (2); ALTER TABLE parts ATTACH PARTITION parts2 FOR VALUES IN (2);
             INSERT INTO parts VALUES (1, 1), (2, 2)",
        )
        .expect("a partitioned table");
    let names = "SELECT string_agg(format('%s.%s', conrelid::regclass, conname), ', ' ORDER BY conrelid, conname) FROM pg_constraint
        WHERE conrelid::regclass::text LIKE 'parts%' AND contype = 'f'";
    let before = value(&mut client, names);
    call(&mut client, "start('orders')");
    client
        .batch_execute(
            "CREATE TABLE parts4 PARTITION OF parts FOR VALUES IN (4); CREATE TABLE parts5 PARTITION OF parts2 DEFAULT;
             CREATE TABLE parts6 (n integer, p integer NOT NULL, snowflake_adopt_p bigint, CONSTRAINT mine NOT NULL snowflake_adopt_p) PARTITION BY LIST (n);
             CREATE TABLE parts7 PARTITION OF parts6 DEFAULT; ALTER TABLE parts ATTACH PARTITION parts6 FOR VALUES IN (6)",
        )
        .expect("partitions");
    for step in ["run", "finish"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    client.batch_execute("DROP TABLE parts4, parts5, parts6").expect("no partitions");
    assert_eq!(value(&mut client, names), before);
    assert!(!dump(&cluster).contains("snowflake_adopt_"));
    assert_eq!(error(&mut client, "INSERT INTO parts1 (p, n) VALUES (12345678, 1)").code().code(), "23503");
}

#[test]
fn undo_drops_no_constraint_of_others_whatever_its_name_is() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE people (n integer PRIMARY KEY); INSERT INTO people SELECT generate_series(1, 5000);
             ALTER TABLE items ADD CONSTRAINT snowflake_adopt_is_what_we_do FOREIGN KEY (n) REFERENCES people;
             ALTER TABLE people ADD CONSTRAINT snowflake_adopt_7 CHECK (n > 0)",
        )
        .expect("a foreign key");
    let before = dump(&cluster);
    call(&mut client, "start('orders')");
    launch(&mut client, "orders", "adopted", "100");
    cluster.wait_until(
        "SELECT NOT EXISTS (SELECT FROM snowflake_adopt.migration) OR EXISTS (SELECT FROM pg_constraint WHERE contype = 'f'
            AND conname LIKE 'snowflake\\_adopt\\_%' AND conname <> 'snowflake_adopt_is_what_we_do')",
    );
    call(&mut client, "undo('orders')");
    assert_eq!(dump(&cluster), before);
}

/// As it was added before PostgreSQL 18, without a look at all rows.
#[test]
fn a_second_column_that_never_becomes_equal_ends_the_tries() {
    let (_cluster, mut client) = server();
    client
        .batch_execute("CREATE TABLE kid (p integer REFERENCES orders); INSERT INTO kid VALUES (1), (NULL)")
        .expect("a table");
    client
        .batch_execute(if postgresql() < 18 {
            "UPDATE pg_attribute SET attnotnull = true WHERE attrelid = 'kid'::regclass AND attname = 'p'"
        } else {
            "ALTER TABLE kid ADD CONSTRAINT nn NOT NULL p NOT VALID; UPDATE pg_constraint SET convalidated = true WHERE conname = 'nn'"
        })
        .expect("a column");
    call(&mut client, "start('orders')");
    client.batch_execute("SET statement_timeout = '1min'").expect("a setting");
    // From 19 on, PostgreSQL itself refuses to write the row.
    let why = if postgresql() < 19 { "snowflake_adopt_equal" } else { "not-null constraint" };
    for _ in 0..2 {
        let refused = error(&mut client, "CALL snowflake_adopt.finish('orders')");
        assert_eq!(refused.message(), "the migration of public.orders is paused");
        assert!(refused.detail().is_some_and(|detail| detail.contains(why)), "{refused:?}");
    }
    client.batch_execute("TRUNCATE kid").expect("no row");
    call(&mut client, "finish('orders')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(p)) FROM kid"), "bigint");
}

/// Whoever may reference the table can do so.
#[test]
fn undo_names_a_foreign_key_of_another_role_that_references_a_second_column() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE bob LOGIN; CREATE ROLE mallory; GRANT ALL ON SCHEMA public TO bob, mallory; SET ROLE bob;
             CREATE TABLE owned (id serial PRIMARY KEY); GRANT REFERENCES ON owned TO mallory",
        )
        .expect("a table");
    let mut bob = cluster.config().user("bob").connect(NoTls).expect("a session");
    call(&mut bob, "start('owned')");
    client
        .batch_execute("CREATE UNIQUE INDEX ON owned (snowflake_adopt_id); SET ROLE mallory; CREATE TABLE refers (id bigint REFERENCES owned (snowflake_adopt_id))")
        .expect("a foreign key");
    let refused = error(&mut bob, "CALL snowflake_adopt.undo('owned')");
    let says =
        "constraint refers_id_fkey on table public.refers depends on column snowflake_adopt_id of table public.owned";
    assert!(refused.detail().is_some_and(|detail| detail.contains(says)), "{refused:?}");
    bob.batch_execute("ALTER TABLE owned DROP COLUMN snowflake_adopt_id CASCADE").expect("no column");
    call(&mut bob, "undo('owned')");
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'owned'::regclass"), "0");
}
