//! COPY writes many rows at once only where it knows that no default looks at the table. It knows that of
//! `snowflake_nextval()`, which is volatile for everything else.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use testbed::postgres::{self, Client, NoTls};
use testbed::{Cluster, error, need_postgresql, pg_config, postgresql, test, value};

#[test]
fn copy_costs_no_more_wal_than_with_a_sequence() {
    let cluster = Cluster::builder().worker(7).set("snowflake_pg.layout", "t41 w5 s9 h8").start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE tagged (id bigint PRIMARY KEY DEFAULT snowflake_nextval_tagged(3), n integer);
             CREATE TABLE hashed (id bigint PRIMARY KEY DEFAULT snowflake_nextval_for_shard(8, 5), n integer);
             CREATE TABLE parted (id bigint PRIMARY KEY, n integer) PARTITION BY HASH (id);
             CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 8, REMAINDER 5);
             ALTER TABLE part ALTER id SET DEFAULT snowflake_nextval_for('part');
             CREATE TABLE ours (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
             CREATE TABLE theirs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);
             CREATE ROLE app LOGIN; GRANT INSERT ON ours TO app",
        )
        .expect("tables");
    let [ours, tagged, hashed, part, theirs] = ["ours", "tagged", "hashed", "part", "theirs"].map(|table| {
        let position = |client: &mut Client| value(client, "SELECT pg_current_wal_insert_lsn() - '0/0'");
        let before: i64 = position(&mut client).parse().expect("a number");
        copy(&mut client, table).expect("rows");
        position(&mut client).parse::<i64>().expect("a number") - before
    });
    assert!(ours <= theirs, "{ours} bytes, and {theirs} with a sequence");
    assert!(tagged <= theirs, "{tagged} bytes with a tag, and {theirs} with a sequence");
    assert!(hashed <= theirs, "{hashed} bytes for a hash, and {theirs} with a sequence");
    assert!(part <= theirs, "{part} bytes for a partition, and {theirs} with a sequence");
    let fall = "SELECT count(DISTINCT id) FROM (SELECT * FROM hashed UNION ALL SELECT * FROM part) s WHERE snowflake_shard_of(id, 8) = 5";
    assert_eq!(value(&mut client, fall), "20000");
    assert_eq!(
        value(&mut client, "SELECT count(DISTINCT id) FROM tagged WHERE (snowflake_decode(id)).tag = 3"),
        "10000"
    );
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM ours"), "10000");
    assert_eq!(
        value(&mut client, "SELECT min(id) > (SELECT snowflake_min_id(now() - interval '1 min')) FROM ours"),
        "t"
    );

    // Everywhere else the function is volatile: each row of a table gets an ID of its own.
    client.batch_execute("ALTER TABLE ours ADD COLUMN other bigint DEFAULT snowflake_nextval()").expect("a column");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT other) FROM ours"), "10000");

    // Who may not call the function may not have COPY call it, and nobody can call what COPY calls.
    client.batch_execute("REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC").expect("a privilege");
    let mut app = cluster.config().user("app").connect(NoTls).expect("a session");
    let refusal = copy(&mut app, "ours").expect_err("a refusal");
    assert_eq!(refusal.code().map(postgres::error::SqlState::code), Some("42501"), "{refusal:?}");
    for argument in ["NULL", "'1'", "1::bigint"] {
        for others in ["", ", 3::bigint", ", 'ours'::regclass", ", 8, 5"] {
            let call = format!("snowflake_nextval_in_copy({argument}{others})");
            let refusal = error(&mut client, &format!("SELECT {call}"));
            assert!(["42883", "0A000", "42725"].contains(&refusal.code().code()), "{call}: {refusal}");
        }
    }
}

/// The defaults of such rows are computed or not; no other row gets their IDs.
#[test]
fn rows_that_copy_skips_leave_each_other_row_an_id_of_its_own() {
    need_postgresql(17);
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE ours (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)",
        )
        .expect("a table");
    let mut copy = |options: &str| {
        let mut rows = client.copy_in(&format!("COPY ours (n) FROM STDIN ({options})"))?;
        (0..10_000)
            .try_for_each(|n| if n % 10 == 3 { writeln!(rows, "x") } else { writeln!(rows, "{n}") })
            .expect("rows");
        rows.finish()
    };
    assert_eq!(copy("ON_ERROR ignore").expect("rows"), 9_000);
    if postgresql() >= 18 {
        let refused = copy("ON_ERROR ignore, REJECT_LIMIT 999").expect_err("one more than 999");
        assert_eq!(refused.code().map(postgres::error::SqlState::code), Some("22P02"), "{refused:?}");
        assert_eq!(copy("ON_ERROR ignore, REJECT_LIMIT 1000, LOG_VERBOSITY silent").expect("rows"), 9_000);
    }
    let in_order = "SELECT count(*) = count(DISTINCT id) AND bool_and(ascends) IS NOT FALSE
        FROM (SELECT id, id > lag(id) OVER (ORDER BY ctid) AS ascends FROM ours) s";
    assert_eq!(value(&mut client, in_order), "t");
}

/// As with a sequence, a role needs rights to the table and to what it calls, and to nothing else.
#[test]
fn a_default_or_a_check_needs_no_right_to_the_extensions_schema_and_to_no_other_function() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE SCHEMA hidden; CREATE EXTENSION snowflake_pg SCHEMA hidden;
             CREATE TABLE filled (id bigint PRIMARY KEY DEFAULT hidden.snowflake_nextval(), n integer);
             CREATE TABLE checked (n integer CHECK (hidden.snowflake_nextval() > n));
             CREATE ROLE app LOGIN; GRANT INSERT ON filled, checked TO app",
        )
        .expect("tables");
    let works = |what: &str| {
        let mut app = cluster.config().user("app").connect(NoTls).expect("a session");
        copy(&mut app, "filled").unwrap_or_else(|error| panic!("{what}: {error:?}"));
        app.batch_execute("INSERT INTO filled (n) VALUES (1); INSERT INTO checked VALUES (1)")
            .unwrap_or_else(|error| panic!("{what}: {error:?}"));
    };
    works("no right to the schema");
    client
        .batch_execute(
            "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA hidden FROM PUBLIC;
             GRANT EXECUTE ON FUNCTION hidden.snowflake_nextval() TO app",
        )
        .expect("privileges");
    works("a right to one function only");
    assert_eq!(value(&mut client, "SELECT count(*) = count(DISTINCT id) FROM filled"), "t");
}

/// Other extensions simplify defaults, too, and do with the result what they like.
#[test]
fn outside_copy_a_default_stays_a_plain_call_for_everybody_who_simplifies_it() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    let library = simplifier(&cluster).display().to_string();
    client
        .batch_execute(&format!(
            "CREATE EXTENSION snowflake_pg;
             CREATE FUNCTION simplified_default(regclass) RETURNS text STRICT LANGUAGE c AS '{library}';
             CREATE FUNCTION simplified_default_support(internal) RETURNS internal STRICT LANGUAGE c AS '{library}';
             CREATE FUNCTION planned_default(regclass) RETURNS text STRICT SUPPORT simplified_default_support
                 LANGUAGE c AS '{library}', 'simplified_default';
             CREATE TABLE ours (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
             CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN NEW.by_trigger := simplified_default(''ours''); RETURN NEW; END';
             CREATE TABLE seen (id bigint DEFAULT snowflake_nextval(), n integer,
                 by_default text DEFAULT simplified_default('ours'), by_trigger text);
             CREATE TRIGGER see BEFORE INSERT ON seen FOR EACH ROW EXECUTE FUNCTION see()"
        ))
        .expect("tables");
    let function = value(&mut client, "SELECT 'snowflake_nextval()'::regprocedure::oid");
    let plain = format!(
        "{{FUNCEXPR :funcid {function} :funcresulttype 20 :funcretset false :funcvariadic false :funcformat 0 :funccollid 0 :inputcollid 0"
    );
    let assert_call = |text: &str| assert_eq!(text.split(" :args").next(), Some(&*plain), "{text}");
    let outside_copy = |client: &mut Client| {
        assert_call(&value(client, "SELECT simplified_default('ours')"));
        assert_call(&value(client, "SELECT planned_default('ours')"));
    };
    outside_copy(&mut client);

    // In functions that COPY calls, the first time and any other.
    for _ in 0..2 {
        copy(&mut client, "seen").expect("rows");
        assert_call(&value(&mut client, "SELECT DISTINCT by_default FROM seen"));
        assert_call(&value(&mut client, "SELECT DISTINCT by_trigger FROM seen"));
    }
    outside_copy(&mut client);

    // After a COPY that failed.
    client.batch_execute("ALTER TABLE ours ADD CHECK (n < 10000)").expect("a constraint");
    copy(&mut client, "ours").expect_err("a row that violates the constraint");
    outside_copy(&mut client);

    // Where COPY plans a statement whose rows it writes.
    let file = cluster.host().join("rows");
    let to_file = format!("COPY (SELECT planned_default('ours')) TO '{}'", file.display());
    client.batch_execute(&to_file).expect("a file");
    assert_call(&std::fs::read_to_string(file).expect("a file"));
}

/// Compiles the C function of this directory.
fn simplifier(cluster: &Cluster) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers/copy/simplified_default.c");
    let library = cluster.make_directory("lib").join("simplified_default.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-I"]).arg(pg_config("--includedir-server"));
    let status = compiler.arg("-o").arg(&library).arg(source).status().expect("a C compiler");
    assert!(status.success(), "{compiler:?}");
    library
}

/// Copies 10,000 rows without an ID into a table.
fn copy(client: &mut Client, table: &str) -> Result<u64, postgres::Error> {
    let mut rows = client.copy_in(&format!("COPY {table} (n) FROM STDIN"))?;
    (1..=10_000).try_for_each(|n| writeln!(rows, "{n}")).expect("rows");
    rows.finish()
}
