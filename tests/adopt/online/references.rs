//! A role with REFERENCES on a table makes foreign keys of its own to it whenever it likes.

use super::{call, server};
use testbed::{error, test, value};

const TABLES: &str = "
    CREATE ROLE bob LOGIN; CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO bob, mallory; SET ROLE bob;
    CREATE TABLE sold (id serial PRIMARY KEY); INSERT INTO sold SELECT FROM generate_series(1, 5);
    CREATE TABLE lines (sold_id integer REFERENCES sold); INSERT INTO lines VALUES (3);
    GRANT REFERENCES ON sold TO mallory; RESET ROLE";

const SAYS: &str = "You do not have the rights of mallory, who owns public.hers.";

/// Whatever is wide has no second column, but needs another foreign key.
const HERS: [&str; 2] = ["integer", "bigint"];

fn hers(of_type: &str) -> String {
    format!("SET ROLE mallory; CREATE TABLE hers (sold {of_type} REFERENCES sold ON DELETE CASCADE); RESET ROLE")
}

const KEYS: &str = "SELECT string_agg(concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)), ', ' ORDER BY conrelid::regclass::text, conname)
    FROM pg_constraint WHERE contype IN ('p', 'u', 'f') AND conrelid IN ('sold'::regclass, 'lines'::regclass, to_regclass('hers'))";

#[test]
fn a_foreign_key_of_another_role_holds_up_a_migration_which_names_it_and_loses_nothing() {
    let (cluster, mut client) = server();
    client.batch_execute(TABLES).expect("tables");
    let mut bob = cluster.connect();
    bob.batch_execute("SET SESSION AUTHORIZATION bob").expect("a user");
    for of_type in HERS {
        client.batch_execute(&hers(of_type)).expect("a foreign key");
        let refused = error(&mut bob, "CALL snowflake_adopt.start('sold')");
        assert_eq!(refused.detail(), Some(SAYS), "{of_type}");
        client.batch_execute("DROP TABLE hers").expect("no foreign key");
    }
    for step in ["start", "run"] {
        call(&mut bob, &format!("{step}('sold')"));
    }
    for of_type in HERS {
        client.batch_execute(&hers(of_type)).expect("a foreign key");
        let refused = error(&mut bob, "CALL snowflake_adopt.finish('sold')");
        assert_eq!(refused.message(), "the migration of public.sold is paused", "{of_type}");
        assert_eq!(refused.detail(), Some(SAYS), "{of_type}");
        client.batch_execute("INSERT INTO sold DEFAULT VALUES; INSERT INTO hers VALUES (1); DELETE FROM sold WHERE id = 1; INSERT INTO sold VALUES (1)").expect("rows");
        assert_eq!(value(&mut client, "SELECT count(*) FROM hers"), "0", "{of_type}");
        client.batch_execute("DROP TABLE hers").expect("no foreign key");
    }
    // The owner has a way without her.
    client.batch_execute(&hers("bigint")).expect("a foreign key");
    error(&mut bob, "CALL snowflake_adopt.finish('sold')");
    bob.batch_execute(
        "REVOKE REFERENCES ON sold FROM mallory; ALTER TABLE sold DROP CONSTRAINT sold_pkey CASCADE, ADD PRIMARY KEY (id);
         ALTER TABLE lines ADD FOREIGN KEY (sold_id) REFERENCES sold",
    )
    .expect("another key");
    call(&mut bob, "finish('sold')");
    assert_eq!(
        value(&mut client, KEYS),
        "lines lines_sold_id_fkey FOREIGN KEY (sold_id) REFERENCES sold(id), sold sold_pkey PRIMARY KEY (id)"
    );
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM sold"), "bigint");
}

/// Its successor would come back with the swap.
#[test]
fn what_somebody_drops_during_a_migration_stays_dropped() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(TABLES)
        .and_then(|()| {
            client.batch_execute(
                "ALTER TABLE sold ADD n integer, ADD CONSTRAINT low CHECK (id < 900), ADD CONSTRAINT pair UNIQUE (id, n);
                 CREATE INDEX plain ON sold (n, id); CREATE UNIQUE INDEX again ON sold (id) WHERE id > 0",
            )
        })
        .expect("tables");
    for step in ["start('sold')", "run('sold')"] {
        call(&mut client, step);
    }
    // A view that cannot be made again ends it at the swap.
    client.batch_execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM sold").expect("an obstacle");
    error(&mut client, "CALL snowflake_adopt.finish('sold')");
    client
        .batch_execute(
            "DROP MATERIALIZED VIEW m; DROP INDEX plain, again; ALTER TABLE sold DROP CONSTRAINT low, DROP CONSTRAINT pair,
                DROP CONSTRAINT sold_pkey CASCADE",
        )
        .expect("less");
    call(&mut client, "finish('sold')");
    let left = "SELECT concat_ws(', ', (SELECT string_agg(conname, ', ') FROM pg_constraint WHERE contype <> 'n' AND conrelid IN ('sold'::regclass, 'lines'::regclass)),
        (SELECT string_agg(indexrelid::regclass::text, ', ') FROM pg_index WHERE indrelid IN ('sold'::regclass, 'lines'::regclass)))";
    assert_eq!(value(&mut client, left), "");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM sold"), "bigint");
}
