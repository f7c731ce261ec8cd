//! From this version to a next one, which `tools/next_version` makes of this tree: both libraries, and all scripts.

mod feeds;
mod formats;
mod pairs;
mod registries;
mod standbys;
mod walk;

use super::objects;
use Version::{Next, This};
use std::fs;
use std::path::PathBuf;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Signal, error, has_extension, project, test, value, version_of};

const THIS: &str = env!("CARGO_PKG_VERSION");

/// Of a package, of the library that a server runs, or of the script of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    This,
    Next,
}

impl Version {
    fn other(self) -> Self {
        if self == This { Next } else { This }
    }

    /// As the extension and its library say it.
    fn number(self) -> String {
        if self == This { THIS.to_owned() } else { next().1 }
    }
}

/// The copy of the tree, and its version.
fn next() -> (PathBuf, String) {
    let tree = project().join("target/next/tree");
    let control = fs::read_to_string(tree.join("snowflake_pg.control")).expect("a next version");
    let version = control.lines().find_map(|line| line.strip_prefix("default_version = ")).expect("a version");
    (tree, version.trim_matches('\'').to_owned())
}

/// The library of the next version.
fn library() -> PathBuf {
    project().join("target/next/build/release/libsnowflake_pg.so")
}

/// Puts the package of a version in the place of the other one, under a server that may run.
fn install(cluster: &Cluster, version: Version) {
    match version {
        This => cluster.install(&project(), &testbed::library()),
        Next => cluster.install(&next().0, &library()),
    }
}

/// The same, and restarts the server.
fn restart(cluster: &mut Cluster, version: Version, how: Signal) {
    install(cluster, version);
    cluster.restart(how);
}

fn update(cluster: &Cluster, extension: &str) {
    let update = format!("ALTER EXTENSION {extension} UPDATE");
    cluster.connect().batch_execute(&update).unwrap_or_else(|error| panic!("{update}: {error:?}\n{}", cluster.log()));
}

fn connect(cluster: &Cluster, database: &str) -> Client {
    cluster.config().dbname(database).connect(NoTls).expect("a session")
}

/// A database with all extensions; without the feed, where there is no dblink.
fn with_all_extensions(cluster: &Cluster, database: &str) -> Client {
    cluster.connect().batch_execute(&format!("CREATE DATABASE {database}")).expect("a database");
    let mut client = connect(cluster, database);
    let create = "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; CREATE EXTENSION snowflake_registry";
    client.batch_execute(create).expect("the extensions");
    if has_extension("dblink") {
        client.batch_execute("CREATE EXTENSION snowflake_feed CASCADE").expect("the extensions");
    }
    client
}

/// Those of the extensions that a database has.
fn ours(client: &mut Client) -> Vec<String> {
    let query = "SELECT extname::text FROM pg_extension WHERE extname LIKE 'snowflake%' ORDER BY oid";
    client.query(query, &[]).expect("extensions").iter().map(|row| row.get(0)).collect()
}

/// What an application and its DBA have made, and refer to the extension by.
const APPLICATION: &str = "
    CREATE EXTENSION snowflake_pg;
    CREATE EXTENSION snowflake_adopt;
    CREATE ROLE app;
    CREATE ROLE monitor;
    CREATE TABLE days (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE first_days PARTITION OF days FOR VALUES FROM (0) TO (2006515713439040712);
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), exact snowflake DEFAULT snowflake_id(), item text,
        created_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'flat')) STORED);
    GRANT SELECT, INSERT ON orders TO app;
    CREATE INDEX ON orders (snowflake_timestamp(id, 'flat'));
    CREATE INDEX ON orders (exact);
    CREATE VIEW health AS SELECT state, worker_id, library_version, extension_version FROM snowflake_status;
    CREATE VIEW recent AS SELECT * FROM orders WHERE snowflake_within(id, now() - interval '1 hour');
    CREATE FUNCTION last_time() RETURNS timestamptz RETURN (SELECT snowflake_timestamp(max(id)) FROM orders);
    GRANT EXECUTE ON FUNCTION snowflake_reset_stats() TO app;
    REVOKE SELECT ON snowflake_status, snowflake_metrics FROM PUBLIC;
    GRANT SELECT ON snowflake_status, snowflake_metrics TO monitor;
    REVOKE EXECUTE ON FUNCTION snowflake_time_expression(name, regtype) FROM PUBLIC;
    INSERT INTO orders (item) SELECT 'tea' FROM generate_series(1, 1000)";

/// All of that, as the catalogs have it: definitions, and rights also on the extension's objects.
fn made(client: &mut Client) -> String {
    value(
        client,
        "SELECT concat_ws(E'\\n',
            (SELECT string_agg(pg_get_expr(adbin, adrelid), ', ' ORDER BY adnum) FROM pg_attrdef WHERE adrelid = 'orders'::regclass),
            (SELECT string_agg(pg_get_indexdef(indexrelid), E'\\n' ORDER BY indexrelid::regclass::text COLLATE \"C\")
                FROM pg_index WHERE indrelid = 'orders'::regclass),
            (SELECT string_agg(pg_get_viewdef(view), E'\\n') FROM unnest('{health,recent}'::regclass[]) view),
            pg_get_functiondef('last_time'::regproc),
            (SELECT string_agg(relname || ' ' || (SELECT array_agg(acl::text ORDER BY acl::text COLLATE \"C\") FROM unnest(relacl) acl)::text,
                E'\\n' ORDER BY relname) FROM pg_class WHERE relname IN ('orders', 'snowflake_status', 'snowflake_metrics')),
            (SELECT string_agg(proname || ' ' || (SELECT array_agg(acl::text ORDER BY acl::text COLLATE \"C\") FROM unnest(proacl) acl)::text,
                E'\\n' ORDER BY proname, pronargs) FROM pg_proc
                WHERE proname IN ('snowflake_reset_stats', 'snowflake_time_expression', 'snowflake_accept_mark')))",
    )
}

/// What the extensions own, with definitions, rights and comments.
fn owned(client: &mut Client) -> Vec<String> {
    let mut owned: Vec<_> = objects(client).into_iter().map(|(object, _)| object).collect();
    let query = "
        SELECT concat_ws(' | ', pg_describe_object(classid, objid, objsubid), obj_description(objid, classid::regclass::name),
            CASE classid WHEN 'pg_proc'::regclass THEN (SELECT CASE prokind WHEN 'a' THEN '' ELSE pg_get_functiondef(p.oid) END
                    || coalesce(proacl::text, '') FROM pg_proc p WHERE p.oid = objid)
                WHEN 'pg_class'::regclass THEN (SELECT coalesce(pg_get_viewdef(c.oid), '') || coalesce(relacl::text, '')
                    FROM pg_class c WHERE c.oid = objid) END,
            (SELECT string_agg(col_description(attrelid, attnum), '; ' ORDER BY attnum) FROM pg_attribute
                WHERE attrelid = coalesce((SELECT nullif(typrelid, 0) FROM pg_type t WHERE t.oid = objid), objid)),
            (SELECT initprivs::text FROM pg_init_privs i WHERE i.objoid = objid AND i.classoid = classid))
        FROM pg_depend WHERE deptype = 'e' AND refobjid IN (SELECT oid FROM pg_extension WHERE extname LIKE 'snowflake%')
        ORDER BY 1";
    owned.extend(client.query(query, &[]).expect("the catalogs").iter().map(|row| row.get::<_, String>(0)));
    owned
}

/// The application goes on: an ID above all before, and everything that it has made works.
fn goes_on(cluster: &Cluster, versions: (&str, &str)) {
    let mut client = cluster.connect();
    let next = "INSERT INTO orders (item) VALUES ('cake')
        RETURNING id > (SELECT max(id) FROM orders) AND exact::bigint > id AND created_at = snowflake_timestamp(id)";
    assert_eq!(value(&mut client, next), "t");
    assert_eq!(value(&mut client, "SELECT count(*) - count(DISTINCT id) FROM orders"), "0");
    assert_eq!(value(&mut client, "SELECT count(*) = (SELECT count(*) FROM recent) FROM orders"), "t");
    assert_eq!(value(&mut client, "SELECT health FROM health"), format!("(ready,7,{},{})", versions.0, versions.1));
    let differ = u8::from(versions.0 != versions.1).to_string();
    assert_eq!(value(&mut client, "SELECT versions_differ FROM snowflake_metrics"), differ);
    assert_eq!(value(&mut client, "SELECT last_time() = max(created_at) FROM orders"), "t");
    client.batch_execute("SET ROLE app").expect("a role");
    client.batch_execute("INSERT INTO orders (item) VALUES ('bread'); SELECT snowflake_reset_stats()").expect("rights");
    for refused in ["SELECT FROM snowflake_metrics", "SELECT snowflake_time_expression('id')"] {
        assert_eq!(error(&mut client, refused).code().code(), "42501", "{refused}");
    }
    client.batch_execute("SET ROLE monitor; SELECT FROM snowflake_status, snowflake_metrics").expect("rights");
}

#[test(By("make suite NAME=next"))]
fn a_server_with_data_is_upgraded_to_the_next_version_and_ids_go_on_rising() {
    let (tree, next) = next();
    let next = next.as_str();
    let library = library();
    let mut cluster = Cluster::builder().worker(7).own_installation().start();
    cluster.connect().batch_execute(APPLICATION).expect("an application");
    let before = made(&mut cluster.connect());
    with_all_extensions(&cluster, "bare");
    goes_on(&cluster, (THIS, THIS));
    let early = "CREATE TABLE early (id serial PRIMARY KEY); INSERT INTO early SELECT generate_series(1, 100)";
    cluster.connect().batch_execute(early).expect("a table");
    cluster.connect().batch_execute("CALL snowflake_adopt.start('early')").expect("a migration");

    // The package is upgraded, and the server still runs the old library.
    cluster.install(&tree, &library);
    goes_on(&cluster, (THIS, THIS));
    let update = "ALTER EXTENSION snowflake_pg UPDATE";
    let refused = error(&mut cluster.connect(), update);
    assert_eq!(refused.message(), format!("snowflake_pg {next} needs the library of that version"));
    assert_eq!((refused.code().code(), refused.hint().is_some()), ("55000", true));
    goes_on(&cluster, (THIS, THIS));

    // Then it is restarted: by a crash, which is the worse case.
    cluster.restart(Signal::KILL);
    goes_on(&cluster, (next, THIS));
    assert_eq!(made(&mut cluster.connect()), before);
    assert_eq!(error(&mut cluster.connect(), "SELECT of_next_version FROM snowflake_status").code().code(), "42703");

    cluster.connect().batch_execute(update).expect("an upgrade");
    goes_on(&cluster, (next, next));
    assert_eq!(made(&mut cluster.connect()), before);
    let mut client = cluster.connect();
    assert_eq!(value(&mut client, "SELECT of_next_version + snowflake_of_next_version() FROM snowflake_status"), "2");
    let cost = "SELECT procost FROM pg_proc WHERE oid = 'snowflake_time_expression(name, regtype)'::regprocedure";
    assert_eq!(value(&mut client, cost), "2", "the changed function");
    // With a migration that has begun.
    for command in ["ALTER EXTENSION snowflake_adopt UPDATE", "CALL snowflake_adopt.finish('early')"] {
        client.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
    assert_eq!(
        value(&mut client, "INSERT INTO early DEFAULT VALUES RETURNING id > 100 AND pg_typeof(id) = 'bigint'::regtype"),
        "t"
    );
    let updated = "SELECT extversion FROM pg_extension WHERE extname = 'snowflake_adopt'";
    assert_ne!(value(&mut client, updated), version_of("snowflake_adopt"));

    // What is updated is what is new.
    let mut bare = connect(&cluster, "bare");
    for extension in ours(&mut bare) {
        bare.batch_execute(&format!("ALTER EXTENSION {extension} UPDATE")).expect("an upgrade");
    }
    let (upgraded, new) = (owned(&mut bare), owned(&mut with_all_extensions(&cluster, "fresh")));
    assert!(new.len() > 300, "{}", new.len());
    let only = |one: &[String], other: &[String]| {
        one.iter().filter(|object| !other.contains(object)).cloned().collect::<Vec<_>>()
    };
    assert_eq!((only(&upgraded, &new), only(&new, &upgraded)), (vec![], vec![]));

    // A dump has the name of the extension, and no version.
    let mut restored = Cluster::builder().worker(7).own_installation().create();
    restored.install(&tree, &library);
    restored.start();
    restored.connect().batch_execute("CREATE ROLE app; CREATE ROLE monitor").expect("roles");
    restored.restore_dump_of(&cluster);
    cluster.stop(Signal::INT);
    goes_on(&restored, (next, next));
    assert_eq!(made(&mut restored.connect()), before);
}
