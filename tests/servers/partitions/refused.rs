//! What it refuses.

use super::{create, server};
use testbed::{error, test, value};

#[test]
fn tables_and_arguments_that_do_not_fit_are_refused_with_what_they_are() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE plain (id bigint); CREATE VIEW view AS SELECT 1;
             CREATE TABLE list (id bigint) PARTITION BY LIST (id);
             CREATE TABLE hash (id bigint) PARTITION BY HASH (id);
             CREATE TABLE two (id bigint, n bigint) PARTITION BY RANGE (id, n);
             CREATE TABLE expression (id bigint) PARTITION BY RANGE (abs(id));
             CREATE TABLE number (\"Id\" integer) PARTITION BY RANGE (\"Id\");
             CREATE TABLE time (at timestamptz) PARTITION BY RANGE (at);
             CREATE TABLE good (id bigint) PARTITION BY RANGE (id)",
        )
        .expect("tables");
    let key = "42P17";
    for (table, code, detail) in [
        ("plain", "42809", None),
        ("view", "42809", None),
        ("list", key, Some("Its partition key is LIST (id).")),
        ("hash", key, Some("Its partition key is HASH (id).")),
        ("two", key, Some("Its partition key is RANGE (id, n).")),
        ("expression", key, Some("Its partition key is RANGE (abs(id)).")),
        ("number", key, Some("Its partition key is RANGE (\"Id\"), of type integer.")),
        ("time", key, Some("Its partition key is RANGE (at), of type timestamp with time zone.")),
    ] {
        let error = error(&mut client, &format!("SELECT snowflake_create_partitions('{table}', '1 day', 1)"));
        assert_eq!((error.code().code(), error.detail()), (code, detail), "{table}");
        assert!(error.message().starts_with(&format!("\"{table}\" is not ")), "{}", error.message());
        assert!(error.hint().is_some_and(|hint| hint.contains("PARTITION BY RANGE (id)")));
    }
    let every = "every must be a number of months, or a whole number of seconds";
    for (arguments, code, message, detail) in [
        ("'good', '1 mon 1 day', 1", "22023", every, Some("The value is 1 mon 1 day.")),
        ("'good', '1.5 s', 1", "22023", every, Some("The value is 00:00:01.5.")),
        ("'good', '0', 1", "22023", every, Some("The value is 00:00:00.")),
        ("'good', '-1 day', 1", "22023", every, Some("The value is -1 days.")),
        ("'good', '1 day', -1", "22023", "ahead must be between 0 and 1000", Some("The value is -1.")),
        ("'good', '1 day', 1001", "22023", "ahead must be between 0 and 1000", Some("The value is 1001.")),
        (
            "'good', '1 day', 1, 'w10 t41'",
            "22023",
            "IDs of this layout do not sort by time",
            Some("The timestamp is not the highest field of \"w10 t41\", so IDs would not sort by time."),
        ),
        ("99999, '1 day', 1", "42P01", "relation with OID 99999 does not exist", None),
    ] {
        let error = error(&mut client, &format!("SELECT snowflake_create_partitions({arguments})"));
        assert_eq!((error.code().code(), error.message(), error.detail()), (code, message, detail), "{arguments}");
    }
    assert_eq!(
        error(&mut client, "SELECT snowflake_create_partitions('good', '1 day', 1, 'none')").code().code(),
        "22023"
    );
    client.batch_execute("BEGIN READ ONLY").expect("a transaction");
    assert_eq!(error(&mut client, "SELECT snowflake_create_partitions('good', '1 day', 1)").code().code(), "25006");
    client.batch_execute("ROLLBACK").expect("its end");
    for null in ["NULL, '1 day', 1", "'good', NULL, 1", "'good', '1 day', NULL", "'good', '1 day', 1, NULL"] {
        assert!(create(&mut client, null).is_empty(), "{null}");
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_partitions(NULL)"), "0");
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'good'::regclass"), "0");
}

#[test]
fn rows_of_a_default_partition_that_belong_elsewhere_are_an_error_and_no_others() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE event (id bigint) PARTITION BY RANGE (id);
             CREATE TABLE rest PARTITION OF event DEFAULT;
             INSERT INTO event VALUES (1), (snowflake_min_id('2024-02-28Z'))",
        )
        .expect("a default partition");
    let error = error(&mut client, "SELECT snowflake_create_partitions('event', '1 day', 0)");
    assert_eq!(error.code().code(), "23514");
    assert!(error.message().contains("default partition \"rest\" would be violated"), "{}", error.message());
    client.batch_execute("DELETE FROM rest WHERE id > 1").expect("a row less");
    assert_eq!(create(&mut client, "'event', '1 day', 0").len(), 1);
}

#[test]
fn names_are_quoted_shortened_by_whole_characters_and_never_taken_from_another_table() {
    let (_cluster, mut client) = server();
    let long = "ü".repeat(31);
    client
        .batch_execute(&format!(
            r#"CREATE SCHEMA "Odd ""schema"; CREATE TABLE "Odd ""schema"."Odd ""name"" ü" (id bigint) PARTITION BY RANGE (id);
               CREATE TABLE "{long}" (id bigint) PARTITION BY RANGE (id);
               CREATE TABLE plain (id bigint) PARTITION BY RANGE (id);
               CREATE TABLE plain_20240229 (id bigint)"#
        ))
        .expect("tables");
    let odd = r#"'"Odd ""schema"."Odd ""name"" ü"', '1 second', 0"#;
    let made = create(&mut client, odd).concat();
    assert!(made.starts_with(r#""Odd ""schema"."Odd ""name"" ü_20240228_120"#), "{made}");
    // 62 bytes and then some: what is left of the name is whole characters, and 63 bytes at most with the time.
    let made = create(&mut client, &format!("'\"{long}\"', '1 day', 0")).concat();
    assert!(made.starts_with(&format!("\"{}_20240228\"", "ü".repeat(27))), "{made}");
    let taken = error(&mut client, "SELECT snowflake_create_partitions('plain', '1 day', 1)");
    assert_eq!((taken.code().code(), taken.message()), ("42P07", "relation \"plain_20240229\" already exists"));
    assert_eq!(
        taken.detail(),
        Some("A partition from 2024-02-29T00:00:00Z until 2024-03-01T00:00:00Z is missing, and would have this name.")
    );
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'plain'::regclass"), "0");
}
