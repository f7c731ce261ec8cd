//! What stays as it was written.

use super::{CHANGED, Session, database, gets_ids};
use std::fs;
use std::process::Command;
use testbed::{Cluster, error, test};

#[test]
fn an_identity_whose_author_has_chosen_its_numbers_keeps_its_sequence() {
    let (_database, mut session) = database();
    for (options, reason) in [
        ("START WITH 1000", "START WITH"),
        ("INCREMENT BY 2", "INCREMENT BY"),
        ("INCREMENT BY -1", "INCREMENT BY"),
        ("MINVALUE 0 START WITH 1", "MINVALUE"),
        ("MAXVALUE 99", "MAXVALUE"),
        ("CYCLE", "CYCLE"),
        ("RESTART WITH 100", "RESTART"),
        // As for clients that read 32 bits.
        ("MAXVALUE 2147483647", "MAXVALUE"),
    ] {
        let told = session.run(&format!("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY ({options}))"));
        let notice = format!(
            "NOTICE: column \"id\" of table \"orders\" is numbered by a sequence (Its identity is declared with {reason}.)"
        );
        assert_eq!(told, [notice], "{options}");
        assert_eq!(session.columns("orders"), "id bigint NOT NULL a", "{options}");
        session.run("DROP TABLE orders");
    }
}

/// By default: an application that reads keys as 32 bits runs, and what refers to wider keys has room for them.
#[test]
fn keys_that_are_declared_narrower_than_bigint_keep_their_type_and_sequence_by_default() {
    let database = Cluster::builder().worker(7).database();
    let mut session = Session::of(database.config());
    session.run("CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; SET snowflake_pg.serial_schemas = '*'");
    session.run("CREATE TABLE wide (id bigserial PRIMARY KEY)");
    assert_eq!(session.columns("wide"), CHANGED);
    let narrow = "NOTICE: column \"id\" of table \"orders\" is numbered by a sequence \
        (It is narrower than bigint, and snowflake_pg.widen_serial is off.)";
    for column in ["smallserial", "serial", "integer GENERATED ALWAYS AS IDENTITY"] {
        let told = session.run(&format!("CREATE TABLE orders (id {column}, wide_id integer REFERENCES wide)"));
        let refers = "NOTICE: column \"wide_id\" of table \"orders\" becomes bigint (It references a bigint.)";
        assert_eq!(told, [narrow, refers], "{column}");
        let columns = session.columns("orders");
        assert!(columns.ends_with(", wide_id bigint") && !columns.contains("snowflake"), "{column}: {columns}");
        session.run("INSERT INTO wide DEFAULT VALUES; INSERT INTO orders (wide_id) SELECT max(id) FROM wide");
        session.run("DROP TABLE orders");
    }
}

#[test]
fn a_column_that_postgresql_merges_with_a_narrower_one_keeps_its_sequence() {
    let (_database, mut session) = database();
    session.run(
        "CREATE TABLE base (id integer); CREATE TABLE parent (); CREATE TABLE child (id integer) INHERITS (parent)",
    );
    for (statement, table, other) in [
        ("CREATE TABLE orders (id serial) INHERITS (base)", "orders", "public.base"),
        ("ALTER TABLE parent ADD COLUMN id serial", "parent", "public.child"),
    ] {
        let told = session.run(statement);
        let notice = format!(
            "NOTICE: column \"id\" of table \"{table}\" is numbered by a sequence (It is merged with the column of \"{other}\", which is not of type bigint.)"
        );
        assert!(told.contains(&notice), "{statement}: {told:?}");
        assert!(session.columns(table).contains("id integer NOT NULL nextval"), "{}", session.columns(table));
    }
}

#[test]
fn a_copy_that_is_to_be_as_the_original_keeps_its_sequence() {
    let (_database, mut session) = database();
    session.run(
        "SET snowflake_pg.serial_schemas = '';
         CREATE TABLE narrow (id integer GENERATED ALWAYS AS IDENTITY);
         CREATE TABLE chosen (id bigint GENERATED ALWAYS AS IDENTITY (START WITH 5));
         CREATE TABLE shared (id bigserial);
         RESET snowflake_pg.serial_schemas",
    );
    for (source, reason) in [
        ("narrow", "LIKE has copied its type, which is integer."),
        ("chosen", "LIKE has copied the options of its identity."),
    ] {
        let told = session.run(&format!("CREATE TABLE copy (LIKE {source} INCLUDING ALL)"));
        assert_eq!(
            told,
            [format!("NOTICE: column \"id\" of table \"copy\" is numbered by a sequence ({reason})")],
            "{source}"
        );
        assert!(session.columns("copy").ends_with("NOT NULL a"), "{}", session.columns("copy"));
        session.run("DROP TABLE copy");
    }
    // Without identities, and with the default of a serial column, which is the sequence of the original.
    assert_eq!(session.run("CREATE TABLE copy (LIKE narrow); CREATE TABLE other (LIKE shared INCLUDING ALL)"), [""; 0]);
    assert_eq!(session.columns("copy"), "id integer NOT NULL");
    assert_eq!(session.columns("other"), "id bigint NOT NULL nextval('shared_id_seq'::regclass)");
}

#[test]
fn only_tables_in_schemas_of_the_list_get_snowflake_ids() {
    let cluster = Cluster::builder().worker(7).database();
    let mut session = Session::of(cluster.config());
    session.run(
        "CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; CREATE SCHEMA app; CREATE SCHEMA \"Odd, one\"",
    );
    let mut changed = |setting: &str| {
        session.run(&format!("SET snowflake_pg.serial_schemas = {setting}"));
        ["public", "app", "\"Odd, one\"", "pg_temp"].map(|schema| {
            session.run(&format!("CREATE TABLE {schema}.orders (id bigserial)"));
            let is_changed = session.columns(&format!("{schema}.orders")) == CHANGED;
            session.run(&format!("DROP TABLE {schema}.orders"));
            is_changed
        })
    };
    for (setting, expected) in [
        ("DEFAULT", [false; 4]),
        ("''", [false; 4]),
        ("'*'", [true; 4]),
        ("app", [false, true, false, false]),
        ("'missing, App'", [false, true, false, false]),
        ("public, pg_temp", [true, false, false, true]),
        ("'\"Odd, one\"'", [false, false, true, false]),
    ] {
        assert_eq!(changed(setting), expected, "{setting}");
    }
    for setting in ["'a b'", "'a,,b'", "'\"a'"] {
        let error = error(&mut session.client, &format!("SET snowflake_pg.serial_schemas = {setting}"));
        assert_eq!(error.detail(), Some("List syntax is invalid."), "{setting}");
    }
}

#[test]
fn a_dump_restores_what_it_says() {
    let (database, mut session) = database();
    session.run(
        "SET snowflake_pg.serial_schemas = ''; CREATE SCHEMA shop; SET search_path = shop;
         CREATE TABLE old (id serial PRIMARY KEY, other integer GENERATED ALWAYS AS IDENTITY);
         CREATE TABLE wide (id bigint PRIMARY KEY); CREATE TABLE narrow (id integer REFERENCES wide);
         SET snowflake_pg.serial_schemas = '*'; CREATE TABLE new (id serial PRIMARY KEY);
         CREATE TABLE parts (id serial) PARTITION BY RANGE (id); CREATE TABLE part (id bigint NOT NULL);
         SET snowflake_pg.serial_schemas = ''; ALTER TABLE parts ATTACH PARTITION part DEFAULT",
    );
    let columns = |session: &mut Session| {
        ["old", "wide", "narrow", "new", "parts", "part"].map(|table| session.columns(&format!("shop.{table}")))
    };
    let before = columns(&mut session);
    let file = database.server().make_directory("dump").join("shop.dump");
    for options in [&["--format=custom"][..], &["--format=custom", "--schema-only"]] {
        let command = |program: &str| {
            let mut command = Command::new(database.server().program(program));
            command.envs(database.server().environment());
            command
        };
        let dumped =
            command("pg_dump").args(options).args(["--schema=shop", "--file"]).arg(&file).arg(database.name()).output();
        assert!(dumped.as_ref().is_ok_and(|output| output.status.success()), "{dumped:?}");
        session.run("DROP SCHEMA shop CASCADE");
        let restored = command("pg_restore")
            .args(["--exit-on-error", "--dbname", database.name()])
            .arg(&file)
            .output()
            .expect("pg_restore");
        let said = String::from_utf8_lossy(&restored.stderr);
        assert!(restored.status.success() && said.is_empty(), "{options:?}: {said}");
        assert_eq!(columns(&mut session), before, "{options:?}");
    }
}

#[test]
fn the_script_of_an_extension_makes_the_tables_that_its_author_wrote() {
    let cluster = Cluster::builder().worker(7).set("snowflake_pg.serial_schemas", "*").start();
    let scripts = cluster.extension_scripts();
    fs::write(scripts.join("other.control"), "default_version = '1'\n").expect("own file");
    fs::write(scripts.join("other--1.sql"), "CREATE TABLE others (id bigserial);").expect("own file");
    fs::write(scripts.join("other--1--2.sql"), "ALTER TABLE others ADD more bigserial;").expect("own file");
    let mut session = Session::of(cluster.config());
    session.run("CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids");
    assert_eq!(session.run("CREATE EXTENSION other; ALTER EXTENSION other UPDATE TO '2'"), [""; 0]);
    let columns = session.columns("others");
    assert_eq!(columns.matches("bigint NOT NULL nextval(").count(), 2, "{columns}");
    assert_eq!(session.run("CREATE TABLE orders (id bigserial)"), [gets_ids("orders")]);
}

#[test]
fn a_database_without_the_extension_warns_and_numbers_by_a_sequence() {
    let database = Cluster::builder().worker(7).database();
    let mut session = Session::of(database.config());
    session.run("SET snowflake_pg.serial_schemas = '*'");
    let warning = |detail: &str| format!("WARNING: column \"id\" of table \"orders\" gets no Snowflake IDs ({detail})");
    let missing = "This database does not have extension snowflake_pg, or has another snowflake_id() beside the \
                   extension's.";
    let told = session.run("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY, n integer)");
    assert_eq!(told, [warning(missing)]);
    assert_eq!(session.columns("orders"), "id bigint NOT NULL a, n integer");
    assert_eq!(session.run("CREATE TABLE items (of integer, n bigint)"), [""; 0]);
}

#[test]
fn a_column_that_is_dropped_and_added_again_and_one_beside_a_copied_identity_are_new() {
    let (_database, mut session) = database();
    session.run("CREATE TABLE orders (id integer)");
    assert_eq!(session.run("ALTER TABLE orders DROP COLUMN id, ADD COLUMN id serial"), [gets_ids("orders")]);
    assert_eq!(session.columns("orders"), CHANGED);
    session.run("SET snowflake_pg.serial_schemas = ''; CREATE TABLE source (id bigint GENERATED ALWAYS AS IDENTITY)");
    session.run("SET snowflake_pg.serial_schemas = '*'");
    let told = session
        .run("CREATE TABLE copy (LIKE source INCLUDING ALL, own bigint GENERATED ALWAYS AS IDENTITY (START WITH 5))");
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(session.columns("copy"), format!("{CHANGED}, own bigint NOT NULL a"));
}

/// A name in another encoding is no text of UTF-8.
#[test]
fn names_in_every_server_encoding_can_be_spoken_of() {
    let cluster = Cluster::builder().worker(7).start();
    for encoding in ["LATIN1", "EUC_JP", "SQL_ASCII", "UTF8"] {
        let make = format!(
            "CREATE DATABASE \"{encoding}\" ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        );
        cluster.connect().batch_execute(&make).expect("a database");
        let mut config = cluster.config();
        let mut session = Session::of(config.dbname(encoding).clone());
        let name = if encoding == "EUC_JP" { "\u{ff71}\u{ff72}" } else { "\u{e4}\u{f6}" };
        session
            .run("SET client_encoding = 'UTF8'; CREATE EXTENSION snowflake_pg; SET snowflake_pg.serial_schemas = '*'");
        session.run(&format!("CREATE TABLE \"{name}\" (\"{name}\" integer); CREATE TABLE parent (); ALTER TABLE \"{name}\" INHERIT parent"));
        let told = session.run(&format!("ALTER TABLE parent ADD \"{name}\" serial"));
        assert!(told.iter().any(|line| line.contains("is numbered by a sequence (It is ")), "{encoding}: {told:?}");
        session.run(&format!("CREATE TABLE made (\"{name}\" bigserial PRIMARY KEY); CREATE TABLE \"of {name}\" (\"{name}\" integer REFERENCES made)"));
        assert_eq!(session.columns("made").matches("snowflake_id()").count(), 1, "{encoding}");
        // An error that says why a column does not become wider.
        session.run(&format!(
            "CREATE FUNCTION refuse() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE EXCEPTION '{name}'; END$$;
             CREATE TABLE narrow (x integer CHECK (refuse() OR x > 0))"
        ));
        let told = session.run(&format!("ALTER TABLE narrow ADD FOREIGN KEY (x) REFERENCES made (\"{name}\")"));
        let reason = match encoding {
            "LATIN1" => r"\xE4\xF6",
            "EUC_JP" => r"\x8E\xB1\x8E\xB2",
            "SQL_ASCII" => r"\xC3\xA4\xC3\xB6",
            _ => name,
        };
        assert!(told.iter().any(|line| line.contains(&format!("(It is unchanged: {reason}.)"))), "{told:?}");
    }
}
