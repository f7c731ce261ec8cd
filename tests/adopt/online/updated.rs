//! ALTER EXTENSION snowflake_adopt UPDATE: the tables stay, and all else is created again.

use super::{TABLES, builder, call, launch};
use std::fs;
use std::process::Command;
use testbed::postgres::Client;
use testbed::{Cluster, project, sources, test, value, version_of};

/// The script that `make install` writes for an update from each older version.
fn update() -> String {
    let mut make = Command::new("make");
    make.args(["--silent", "print-adopt-update", "OLD=none", "--directory"]).arg(sources());
    let output = make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().expect("make");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a script")
}

/// Lets the extension have a script.
fn write(cluster: &Cluster, versions: &str, script: &str) {
    let name = format!("snowflake_adopt--{versions}.sql");
    fs::write(cluster.extension_scripts().join(name), script).expect("own installation");
}

/// All that belongs to the extension: definitions, rights, also the first ones, and comments.
fn owned(client: &mut Client) -> Vec<String> {
    let query = "SELECT concat_ws(' | ', pg_describe_object(d.classid, d.objid, d.objsubid), obj_description(d.objid, d.classid::regclass::name),
            CASE d.classid WHEN 'pg_proc'::regclass THEN (SELECT pg_get_functiondef(p.oid) || coalesce(proacl::text, '') FROM pg_proc p WHERE p.oid = d.objid)
                WHEN 'pg_class'::regclass THEN (SELECT coalesce(pg_get_viewdef(c.oid), '') || coalesce(relacl::text, '')
                    || (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, col_description(attrelid, attnum)), ', ' ORDER BY attnum)
                        FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0) FROM pg_class c WHERE c.oid = d.objid)
                WHEN 'pg_namespace'::regclass THEN (SELECT nspacl::text FROM pg_namespace n WHERE n.oid = d.objid) END,
            (SELECT initprivs::text FROM pg_init_privs i WHERE i.objoid = d.objid AND i.classoid = d.classid))
        FROM pg_depend d WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_adopt') ORDER BY 1";
    client.query(query, &[]).expect("the catalogs").iter().map(|row| row.get(0)).collect()
}

/// What only one of two extensions has.
fn differences(one: &[String], other: &[String]) -> Vec<String> {
    let only =
        |one: &[String], other: &[String]| one.iter().filter(|o| !other.contains(o)).cloned().collect::<Vec<_>>();
    [only(one, other), only(other, one)].concat()
}

#[test]
fn an_update_makes_all_that_a_new_extension_has_of_its_tables_alone() {
    let cluster = builder().own_installation().start();
    let mut client = cluster.connect();
    let version = version_of("snowflake_adopt");
    client.batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt").expect("the extensions");
    let new = owned(&mut client);
    assert!(new.len() > 120, "{}", new.len());
    let part = |name: &str| fs::read_to_string(project().join("sql/adopt").join(name)).expect("a part");
    write(&cluster, "kept", &["00_kept.sql", "17_rights.sql"].map(part).concat());
    write(&cluster, &format!("kept--{version}"), &update());
    write(&cluster, &format!("{version}--again"), &update());
    client
        .batch_execute(
            "DROP EXTENSION snowflake_adopt; CREATE EXTENSION snowflake_adopt VERSION 'kept';
             ALTER EXTENSION snowflake_adopt UPDATE",
        )
        .expect("an update");
    assert_eq!(differences(&owned(&mut client), &new), [""; 0]);
    // What a DBA has granted or revoked since stays so.
    client
        .batch_execute(
            "CREATE ROLE monitor; GRANT SELECT ON snowflake_adopt.migration TO monitor; GRANT USAGE ON SCHEMA snowflake_adopt TO monitor;
             REVOKE EXECUTE ON FUNCTION snowflake_adopt.plan FROM PUBLIC; GRANT EXECUTE ON FUNCTION snowflake_adopt.phases TO monitor",
        )
        .expect("other rights");
    let before = owned(&mut client);
    assert_eq!(differences(&before, &new).len(), 8, "four objects");
    client.batch_execute("ALTER EXTENSION snowflake_adopt UPDATE TO 'again'").expect("an update");
    assert_eq!(differences(&owned(&mut client), &before), [""; 0]);
}

#[test]
fn a_migration_survives_an_update_and_its_worker_goes_on_with_the_new_functions() {
    let cluster = builder().own_installation().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt").expect("the extensions");
    client.batch_execute(TABLES).expect("tables");
    // A next version that counts batches, in a new column of a table.
    let script = update();
    let (head, functions) = script.split_once("-- Who calls").expect("the first part");
    let planted = functions.replace(
        "format('SELECT snowflake_adopt.copy(%s, %s)'",
        "format('SELECT snowflake_adopt.copy_counted(%s, %s)'",
    );
    assert_ne!(functions, planted);
    let of_next = "ALTER TABLE snowflake_adopt.migration ADD COLUMN batches integer NOT NULL DEFAULT 0;
        CREATE OR REPLACE FUNCTION snowflake_adopt.copy_counted(root oid, leaf oid) RETURNS void
            LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            PERFORM snowflake_adopt.copy(root, leaf);
            UPDATE snowflake_adopt.migration SET batches = batches + 1;
        END
        $$;";
    write(
        &cluster,
        &format!("{}--next", version_of("snowflake_adopt")),
        &format!("{head}{of_next}\n-- Who calls{planted}"),
    );

    // In 1 % of the time, after a part of the rows.
    client
        .batch_execute("ALTER TABLE orders ADD filler text; UPDATE orders SET filler = repeat('x', 2000)")
        .expect("many blocks");
    call(&mut client, "start('orders')");
    launch(&mut client, "orders", "copied", "1");
    cluster.wait_until("SELECT EXISTS (SELECT FROM snowflake_adopt.copying WHERE rows > 0)");
    let carrier = "SELECT snowflake_adopt.carrier('orders'::regclass)";
    let worker = value(&mut client, carrier);
    client.batch_execute("ALTER EXTENSION snowflake_adopt UPDATE TO 'next'").expect("an update");
    let is_left = "SELECT EXISTS (SELECT FROM snowflake_adopt.copying WHERE NOT isempty(todo))";
    assert_eq!(value(&mut client, is_left), "t");
    cluster.wait_until("SELECT batches > 0 FROM snowflake_adopt.migration");
    // On a busy machine it may have reached its aim by now. Nobody else has carried the migration on.
    let others = format!("SELECT coalesce(({carrier}) <> {worker}, false)");
    assert_eq!(value(&mut client, &others), "f");
    call(&mut client, "run('orders', share => 100)");
    call(&mut client, "finish('orders')");
    let rows = "SELECT count(*) = count(o.id) AND pg_typeof(max(order_id)) = 'bigint'::regtype FROM items LEFT JOIN orders o ON o.id = order_id";
    assert_eq!(value(&mut client, rows), "t");
    let numbered = "SELECT (count(*), min(id), max(id)) FROM orders WHERE id < 100000";
    assert_eq!(value(&mut client, numbered), "(5000,1,5000)");
    assert_eq!(value(&mut client, "INSERT INTO orders DEFAULT VALUES RETURNING id > 100000"), "t");
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_adopt.progress"), "0");
}
