//! The trigger `snowflake_fill()`, on one server.

use testbed::postgres::Client;
use testbed::{Cluster, error, test, value};

/// Worker 7, with a table `orders` that the trigger fills.
fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids;
             CREATE TABLE orders (item text, id bigint PRIMARY KEY);
             CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('id')",
        )
        .expect("a table");
    (cluster, client)
}

/// How many rows have an ID of this server of their own.
const ISSUED_HERE: &str =
    "SELECT count(DISTINCT id) FROM public.orders WHERE (ids.snowflake_decode(id)).worker_id = 7 AND id > 1000";

#[test]
fn a_row_whose_key_is_null_gets_an_id_however_it_is_inserted() {
    let (_cluster, mut client) = server();
    // As postgres_fdw has it, which sends NULL for a column without a default.
    client.batch_execute("SET search_path = pg_catalog").expect("a search path");
    client
        .batch_execute(
            "INSERT INTO public.orders (item) VALUES ('a');
             INSERT INTO public.orders VALUES ('b', NULL), ('c', DEFAULT);
             INSERT INTO public.orders (item) SELECT 'd' FROM generate_series(1, 1000);
             WITH new AS (INSERT INTO public.orders (item) VALUES ('e') RETURNING id) SELECT * FROM new;
             INSERT INTO public.orders (item) VALUES ('f') ON CONFLICT (id) DO UPDATE SET item = 'never';
             COPY public.orders (item) FROM PROGRAM 'seq 1000';
             MERGE INTO public.orders o USING (VALUES ('g')) n (item) ON o.item = n.item
                 WHEN NOT MATCHED THEN INSERT (item) VALUES (n.item);
             PREPARE one(text, bigint) AS INSERT INTO public.orders VALUES ($1, $2); EXECUTE one('h', NULL)",
        )
        .expect("rows");
    assert_eq!(value(&mut client, ISSUED_HERE), "2007");
    assert_eq!(value(&mut client, "SELECT count(*) FROM public.orders"), "2007");
    let returned = "INSERT INTO public.orders (item) VALUES ('i') RETURNING (ids.snowflake_decode(id)).worker_id";
    assert_eq!(value(&mut client, returned), "7");
}

#[test]
fn a_default_that_chooses_a_tag_gives_it_to_the_rows_of_the_trigger_too() {
    let cluster = Cluster::builder().worker(7).set("snowflake_pg.layout", "t41 h8 w6 s8").start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE orders (item text, id bigint PRIMARY KEY DEFAULT snowflake_nextval_tagged(3));
             CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
             INSERT INTO orders VALUES ('a', NULL), ('b', NULL); INSERT INTO orders (item) VALUES ('c')",
        )
        .expect("rows");
    let tags = "SELECT array_agg((snowflake_decode(id)).tag ORDER BY item) FROM orders";
    assert_eq!(value(&mut client, tags), "{3,3,3}");
}

#[test]
fn a_key_that_is_given_is_kept_and_an_update_to_null_is_refused() {
    let (_cluster, mut client) = server();
    assert_eq!(value(&mut client, "INSERT INTO orders VALUES ('a', 5) RETURNING id"), "5");
    let update = error(&mut client, "UPDATE orders SET id = NULL");
    assert_eq!(update.code().code(), "23502");
}

#[test]
fn a_key_can_be_a_snowflake_or_a_domain_and_what_is_generated_from_it_has_the_new_id() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE DOMAIN order_id AS bigint CHECK (VALUE > 1000); CREATE DOMAIN small_id AS ids.snowflake CHECK (VALUE < 1000);
             CREATE TABLE typed (id ids.snowflake PRIMARY KEY, also order_id, twin bigint GENERATED ALWAYS AS (id) STORED);
             CREATE TRIGGER fill_id BEFORE INSERT ON typed FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('id');
             CREATE TRIGGER fill_also BEFORE INSERT ON typed FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('also');
             CREATE TABLE small (id small_id);
             CREATE TRIGGER fill_id BEFORE INSERT ON small FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('id')",
        )
        .expect("tables");
    let insert = "INSERT INTO typed DEFAULT VALUES RETURNING id = twin AND id <> also AND also > 1000";
    // The triggers fire in the order of their names.
    assert_eq!(value(&mut client, insert), "t");
    let refused = error(&mut client, "INSERT INTO small VALUES (NULL)");
    assert_eq!(refused.message(), "value for domain small_id violates check constraint \"small_id_check\"");
}

/// As on a shard that a router finds by the hash of the ID, where the client has sent NULL instead of no value.
#[test]
fn a_default_that_chooses_the_place_of_an_id_is_used_for_a_null_key() {
    let (_cluster, mut client) = server();
    let by_hash = "ids.snowflake_nextval_for_shard(2, current_setting('shop.shard')::int)";
    client
        .batch_execute(&format!(
            "CREATE DOMAIN order_id AS bigint CHECK (VALUE > 1000);
             CREATE TABLE placed (item text, id bigint DEFAULT {by_hash}, typed ids.snowflake DEFAULT {by_hash},
                 of_domain order_id DEFAULT {by_hash});
             CREATE TABLE hashed (id bigint) PARTITION BY HASH (id);
             CREATE TABLE second PARTITION OF hashed FOR VALUES WITH (MODULUS 4, REMAINDER 1);
             ALTER TABLE second ALTER id SET DEFAULT ids.snowflake_nextval_for('public.second');
             CREATE TRIGGER fill BEFORE INSERT ON second FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('id')"
        ))
        .expect("tables");
    for column in ["id", "typed", "of_domain"] {
        let trigger = format!(
            "CREATE TRIGGER {column} BEFORE INSERT ON placed FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('{column}')"
        );
        client.batch_execute(&trigger).expect("a trigger");
    }
    client
        .batch_execute(
            "SET search_path = pg_catalog; SET shop.shard = 1;
             INSERT INTO public.placed SELECT 'a', NULL, NULL, NULL FROM generate_series(1, 100);
             COPY public.placed FROM PROGRAM $$seq 100 | awk '{ print \"b\\t\\\\N\\t\\\\N\\t\\\\N\" }'$$;
             INSERT INTO public.second SELECT NULL FROM generate_series(1, 100);
             SET shop.shard = 0; INSERT INTO public.placed VALUES ('c', NULL, NULL, NULL)",
        )
        .expect("rows");
    let shards = "SELECT string_agg(DISTINCT item || ids.snowflake_shard_of(id, 2) || ids.snowflake_shard_of(typed, 2)
            || ids.snowflake_shard_of(of_domain, 2), ' ') FROM public.placed";
    assert_eq!(value(&mut client, shards), "a111 b111 c000");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM public.placed"), "201");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM public.second"), "100");

    client.batch_execute("CREATE ROLE app; GRANT INSERT ON public.placed TO app; SET ROLE app").expect("a role");
    client.batch_execute("INSERT INTO public.placed VALUES ('d', NULL, NULL, NULL)").expect("a row");
    let revoke = "RESET ROLE; REVOKE EXECUTE ON FUNCTION ids.snowflake_nextval_for_shard FROM PUBLIC; SET ROLE app";
    client.batch_execute(revoke).expect("a superuser");
    let refused = error(&mut client, "INSERT INTO public.placed VALUES ('e', NULL, NULL, NULL)");
    assert_eq!(refused.message(), "permission denied for function snowflake_nextval_for_shard");
}

/// Sequences of two shards give the same numbers.
#[test]
fn any_other_default_is_no_id_for_a_null_key() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "ALTER TABLE orders ALTER id ADD GENERATED BY DEFAULT AS IDENTITY; INSERT INTO orders VALUES ('a', NULL);
             ALTER TABLE orders ALTER id DROP IDENTITY, ALTER id SET DEFAULT 7; INSERT INTO orders VALUES ('b', NULL)",
        )
        .expect("rows");
    assert_eq!(value(&mut client, ISSUED_HERE), "2");
}

#[test]
fn partitions_get_ids_from_a_trigger_of_their_table() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE parts (id bigint NOT NULL, region text) PARTITION BY LIST (region);
             CREATE TABLE eu (region text, id bigint NOT NULL); ALTER TABLE parts ATTACH PARTITION eu FOR VALUES IN ('eu');
             CREATE TRIGGER fill_id BEFORE INSERT ON parts FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('id');
             CREATE TABLE us PARTITION OF parts FOR VALUES IN ('us');
             INSERT INTO parts (region) SELECT unnest(ARRAY['eu', 'us', 'eu', 'us'])",
        )
        .expect("rows");
    let issued = "SELECT count(DISTINCT id) FROM parts WHERE (ids.snowflake_decode(id)).worker_id = 7";
    assert_eq!(value(&mut client, issued), "4");
}

#[test]
fn a_trigger_that_cannot_fill_says_why() {
    let (_cluster, mut client) = server();
    let trigger = |when: &str, call: &str| {
        format!("DROP TRIGGER fill_id ON orders; CREATE TRIGGER fill_id {when} ON orders {call}")
    };
    let row = |arguments: &str| format!("FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill({arguments})");
    let hint = "Create the trigger with EXECUTE FUNCTION snowflake_fill('id'), where id is the column of the IDs.";
    for (when, call, code, message, detail, hint) in [
        ("AFTER INSERT", row("'id'"), "39P01", "function \"snowflake_fill\" must be fired BEFORE ROW", None, None),
        (
            "BEFORE INSERT",
            row("'id'").replace("ROW", "STATEMENT"),
            "39P01",
            "function \"snowflake_fill\" must be fired BEFORE ROW",
            None,
            None,
        ),
        (
            "BEFORE INSERT",
            row(""),
            "39P01",
            "function \"snowflake_fill\" must be given the name of one column",
            Some("Trigger \"fill_id\" gives it 0 arguments."),
            Some(hint),
        ),
        (
            "BEFORE INSERT",
            row("'id', 'item'"),
            "39P01",
            "function \"snowflake_fill\" must be given the name of one column",
            Some("Trigger \"fill_id\" gives it 2 arguments."),
            Some(hint),
        ),
        ("BEFORE INSERT", row("'ID'"), "42703", "column \"ID\" of relation \"orders\" does not exist", None, None),
        ("BEFORE INSERT", row("'xmin'"), "42703", "column \"xmin\" of relation \"orders\" does not exist", None, None),
        (
            "BEFORE INSERT",
            row("'item'"),
            "42804",
            "column \"item\" of relation \"orders\" must be of type bigint or snowflake",
            Some("Its type is text."),
            None,
        ),
    ] {
        client.batch_execute(&trigger(when, &call)).expect("a trigger");
        let refused = error(&mut client, "INSERT INTO orders VALUES ('a', 1)");
        let said = (refused.code().code(), refused.message(), refused.detail(), refused.hint());
        assert_eq!(said, (code, message, detail, hint), "{when} {call}");
    }
    client.batch_execute("ALTER TABLE orders DISABLE TRIGGER ALL; INSERT INTO orders VALUES ('a', 1)").expect("a row");
    client
        .batch_execute(&format!("ALTER TABLE orders ENABLE TRIGGER ALL; {}", trigger("BEFORE UPDATE", &row("'id'"))))
        .expect("a trigger");
    let update = error(&mut client, "UPDATE orders SET item = 'b'");
    assert_eq!(update.message(), "function \"snowflake_fill\" must be fired for INSERT");
    let called = error(&mut client, "SELECT ids.snowflake_fill()");
    assert_eq!(called.message(), "function \"snowflake_fill\" was not called by trigger manager");
}

/// It has a new row to return for an INSERT alone. Returning the old one would drop the update.
#[test]
fn a_trigger_that_is_fired_for_an_update_too_refuses_each_statement_that_updates() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "DROP TRIGGER fill_id ON orders;
             CREATE TRIGGER fill_id BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('id');
             INSERT INTO orders VALUES ('one', 1)",
        )
        .expect("a row");
    for update in [
        "UPDATE orders SET item = 'two'",
        "INSERT INTO orders VALUES ('two', 1) ON CONFLICT (id) DO UPDATE SET item = excluded.item",
        "MERGE INTO orders o USING (VALUES ('two', 2), ('two', 1)) n (item, id) ON o.id = n.id
             WHEN MATCHED THEN UPDATE SET item = n.item WHEN NOT MATCHED THEN INSERT VALUES (n.item, n.id)",
    ] {
        let refused = error(&mut client, update);
        assert_eq!(refused.message(), "function \"snowflake_fill\" must be fired for INSERT", "{update}");
    }
    assert_eq!(value(&mut client, "SELECT string_agg(item, ' ') FROM orders"), "one");
}

#[test]
fn a_role_without_execute_on_snowflake_nextval_gets_no_id_from_the_trigger() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE app; GRANT INSERT ON orders TO app; SET ROLE app; INSERT INTO orders (item) VALUES ('may');
             RESET ROLE; REVOKE EXECUTE ON FUNCTION ids.snowflake_nextval() FROM PUBLIC; SET ROLE app",
        )
        .expect("a role");
    let refused = error(&mut client, "INSERT INTO orders (item) VALUES ('must not')");
    assert_eq!(
        (refused.code().code(), refused.message()),
        ("42501", "permission denied for function snowflake_nextval")
    );
    client.batch_execute("INSERT INTO orders VALUES ('with a key', 1)").expect("a row that needs no ID");
}

#[test]
fn a_server_without_a_worker_refuses_a_null_key_as_it_refuses_an_id() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE TABLE orders (id bigint);
             CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
             INSERT INTO orders VALUES (1)",
        )
        .expect("a row with a key");
    let (filled, issued) = ("INSERT INTO orders VALUES (NULL)", "SELECT snowflake_nextval()");
    let [filled, issued] = [filled, issued].map(|query| error(&mut client, query).message().to_owned());
    assert_eq!(filled, issued);
}
