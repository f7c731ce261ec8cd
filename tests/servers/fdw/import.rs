//! Foreign tables that IMPORT FOREIGN SCHEMA makes.

use super::shards::Shards;
use testbed::{error, test, value};

const INSERT: &str = "INSERT INTO orders (item) VALUES ('a') RETURNING (snowflake_decode(id)).worker_id";

/// A fleet whose first shard has a table with the default and the trigger.
fn fleet() -> Shards {
    let fleet = Shards::start();
    fleet.shards[0]
        .connect()
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
             CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id')",
        )
        .expect("a table");
    fleet
}

fn import(options: &str) -> String {
    format!("IMPORT FOREIGN SCHEMA public LIMIT TO (orders) FROM SERVER eu INTO public {options}")
}

#[test]
fn a_table_that_is_imported_without_defaults_gets_ids_of_the_shard() {
    let fleet = fleet();
    let mut router = fleet.router.connect();
    router.batch_execute(&import("")).expect("a foreign table");
    assert_eq!(value(&mut router, INSERT), "1");
}

#[test]
fn a_table_that_is_imported_with_defaults_gets_ids_of_the_router() {
    let fleet = fleet();
    let mut router = fleet.router.connect();
    router.batch_execute(&import("OPTIONS (import_default 'true')")).expect("a foreign table");
    assert_eq!(value(&mut router, INSERT), "0");
}

#[test]
fn a_router_without_the_extension_imports_no_defaults() {
    let fleet = fleet();
    let mut router = fleet.router.connect();
    router.batch_execute("DROP EXTENSION snowflake_pg").expect("no extension");
    let refused = error(&mut router, &import("OPTIONS (import_default 'true')"));
    assert_eq!(refused.message(), "function public.snowflake_nextval() does not exist");
    router.batch_execute(&import("")).expect("a foreign table");
    router.batch_execute("INSERT INTO orders (item) VALUES ('a')").expect("a row");
    let issued = "SELECT (snowflake_decode(id)).worker_id FROM orders";
    assert_eq!(value(&mut fleet.shards[0].connect(), issued), "1");
}
