//! IDs as texts and as UUIDs, on a server that preloads nothing and has no configuration.

use testbed::postgres::Client;
use testbed::{Cluster, Database, assert_refused, error, plan, test, value};

/// The shuffled alphabet of the issue that asked for any.
const SHUFFLED: &str = "ohrfjdgPzp3T2XkNulQBFas9eJDmW7VKSC51cbUL8tRiOqIwZn406YEMyGxHAv";

/// A database of a new user.
fn database() -> (Database, Client) {
    let database = Cluster::builder().database();
    let mut client = database.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (database, client)
}

/// Makes a table of a thousand IDs of all lengths, the ends of the range with them.
fn make_ids(client: &mut Client) {
    client
        .batch_execute(
            "CREATE TABLE ids AS
                 SELECT (('x' || substr(md5(n::text), 1, 16))::bit(64)::bigint & 9223372036854775807) >> n % 63 AS id
                 FROM generate_series(1, 998) n UNION ALL SELECT 0 UNION ALL SELECT 9223372036854775807",
        )
        .expect("a table");
}

#[test]
fn texts_and_uuids_are_what_the_documentation_says() {
    let (_database, mut client) = database();
    for (query, expected) in [
        ("SELECT snowflake_to_text(1541815603606036480, 'base62')", "1ptWyK4WgZU"),
        ("SELECT snowflake_to_text(1541815603606036480, 'base58')", "4aaW4SzAyQK"),
        ("SELECT snowflake_to_text(1541815603606036480, 'crockford32')", "1ASD13XH1F800"),
        ("SELECT snowflake_to_text(1541815603606036480, 'hex')", "1565a11f6217a000"),
        ("SELECT snowflake_from_text('1ptWyK4WgZU', 'base62')", "1541815603606036480"),
        ("SELECT snowflake_from_text('4aaW4SzAyQK', 'base58')", "1541815603606036480"),
        // The readme of ferroid has this one; then as people write it down, and with all that the encoding forgives.
        ("SELECT snowflake_to_text(517811994666, 'crockford32')", "00000F280001A"),
        ("SELECT snowflake_from_text('f280-001a', 'crockford32')", "517811994666"),
        ("SELECT snowflake_from_text('OOOoo-F28oOoIa', 'crockford32')", "517811994666"),
        ("SELECT snowflake_from_text('1565A11F6217A000', 'hex')", "1541815603606036480"),
        // The name of an encoding in any letter case.
        ("SELECT snowflake_to_text(62, 'BASE62')", "10"),
        ("SELECT snowflake_from_text('10', 'Base62')", "62"),
        // The ends of the range, and zeros in front.
        ("SELECT snowflake_to_text(0, 'base62')", "0"),
        ("SELECT snowflake_to_text(9223372036854775807, 'base62')", "AzL8n0Y58m7"),
        ("SELECT snowflake_from_text('00000000000000000000000000000000C', 'base62')", "12"),
        // UUIDs.
        ("SELECT snowflake_to_uuid(1541815603606036480)", "1565a11f-6217-8a00-8000-000000000000"),
        ("SELECT snowflake_from_uuid('1565a11f-6217-8a00-8000-000000000000')", "1541815603606036480"),
        ("SELECT snowflake_to_uuid(0)", "00000000-0000-8000-8000-000000000000"),
        ("SELECT snowflake_to_uuid(9223372036854775807)", "7fffffff-ffff-8fff-bc00-000000000000"),
        // NULL gives NULL.
        ("SELECT snowflake_to_text(NULL, 'base62')", "NULL"),
        ("SELECT snowflake_to_text(1, NULL)", "NULL"),
        ("SELECT snowflake_to_text(1, NULL, NULL)", "NULL"),
        ("SELECT snowflake_from_text(NULL, 'base62')", "NULL"),
        ("SELECT snowflake_from_text('1', NULL)", "NULL"),
        // But no alphabet means the usual one.
        ("SELECT snowflake_to_text(61, 'base62', NULL)", "z"),
        ("SELECT snowflake_from_text('z', 'base62', alphabet => NULL)", "61"),
        ("SELECT snowflake_to_uuid(NULL)", "NULL"),
        ("SELECT snowflake_from_uuid(NULL)", "NULL"),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
    for (query, expected) in [
        ("SELECT snowflake_to_text(1541815603606036480, 'base62', '{}')", "h0MSAFjSR1V"),
        ("SELECT snowflake_from_text('h0MSAFjSR1V', 'base62', '{}')", "1541815603606036480"),
    ] {
        assert_eq!(value(&mut client, &query.replace("{}", SHUFFLED)), expected, "{query}");
    }
}

#[test]
fn a_thousand_ids_of_all_lengths_come_back_from_every_form() {
    let (_database, mut client) = database();
    make_ids(&mut client);
    assert_eq!(value(&mut client, "SELECT count(DISTINCT length(id::text)) > 15 FROM ids"), "t");
    for encoding in ["'base62'".to_owned(), "'base58'".into(), "'crockford32'".into(), "'hex'".into()]
        .into_iter()
        .chain([format!("'base62', '{SHUFFLED}'"), format!("'base58', '{}'", &SHUFFLED[2..60])])
    {
        let query = format!(
            "SELECT count(*) FROM ids WHERE snowflake_from_text(snowflake_to_text(id, {encoding}), {encoding}) = id"
        );
        assert_eq!(value(&mut client, &query), "1000", "{encoding}");
    }
    let query = "SELECT count(*) FROM ids WHERE snowflake_from_uuid(snowflake_to_uuid(id)) = id";
    assert_eq!(value(&mut client, query), "1000");
}

/// How many rows follow one with a greater ID when they are sorted by an expression.
fn inversions(client: &mut Client, order: &str) -> String {
    let query = format!(
        "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY {order}) AS before FROM ids) s WHERE id < before"
    );
    value(client, &query)
}

#[test]
fn in_common_collations_texts_of_one_length_sort_as_ids_do_and_so_do_uuids() {
    let (_database, mut client) = database();
    make_ids(&mut client);
    assert_eq!(inversions(&mut client, "snowflake_to_uuid(id)"), "0");
    // Those of these collations that there are: a server need not have ICU.
    let rows = client
        .query(
            "SELECT DISTINCT collname::text FROM pg_collation
             WHERE collname IN ('C', 'POSIX', 'en_US', 'en_US.utf8', 'und-x-icu', 'en-x-icu', 'de-x-icu', 'fr-x-icu',
                                'es-x-icu', 'ja-x-icu', 'zh-x-icu', 'ar-x-icu', 'hi-x-icu')",
            &[],
        )
        .expect("collations");
    let collations: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(collations.iter().any(|name| name == "C"), "{collations:?}");
    for encoding in ["crockford32", "hex"] {
        for collation in &collations {
            let order = format!("snowflake_to_text(id, '{encoding}') COLLATE \"{collation}\"");
            assert_eq!(inversions(&mut client, &order), "0", "{order}");
        }
    }
}

/// In Danish, AA is sorted as Å, after Z. Other languages have letters or pairs of their own, too.
#[test]
fn under_the_rules_of_a_language_texts_sort_as_ids_do_only_with_collate_c() {
    let (_database, mut client) = database();
    if value(&mut client, "SELECT count(*) FROM pg_collation WHERE collname = 'da-x-icu'") == "0" {
        return; // A server without ICU.
    }
    client
        .batch_execute(
            "CREATE TABLE ids (id bigint, danish text COLLATE \"da-x-icu\"
                 GENERATED ALWAYS AS (snowflake_to_text(id, 'hex')) STORED);
             INSERT INTO ids SELECT generate_series(0, 1000)",
        )
        .expect("a table");
    assert_ne!(inversions(&mut client, "danish"), "0");
    assert_eq!(inversions(&mut client, "danish COLLATE \"C\""), "0");
}

#[test]
fn forms_can_be_indexed_generated_and_taken_as_keys() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE page (
                 id bigint PRIMARY KEY,
                 code text COLLATE \"C\" GENERATED ALWAYS AS (snowflake_to_text(id, 'crockford32')) STORED UNIQUE,
                 uid uuid GENERATED ALWAYS AS (snowflake_to_uuid(id)) STORED UNIQUE);
             CREATE INDEX page_slug ON page (snowflake_to_text(id, 'base62'));
             INSERT INTO page SELECT 1541815603606036480 + n * 4096 FROM generate_series(0, 9999) n;
             ANALYZE page",
        )
        .expect("a table");
    for (condition, index) in [
        ("snowflake_to_text(id, 'base62') = '1ptWyK4WgZU'", "page_slug"),
        ("id = snowflake_from_text('1ptWyK4WgZU', 'base62')", "page_pkey"),
        ("code = '1ASD13XH1F800'", "page_code_key"),
        ("uid = snowflake_to_uuid(1541815603606036480)", "page_uid_key"),
        ("uid < snowflake_to_uuid(1541815603606036481)", "page_uid_key"),
    ] {
        let plan = plan(&mut client, &format!("EXPLAIN SELECT id FROM page WHERE {condition}"));
        assert!(plan.contains(&format!("using {index}")), "{condition}: {plan}");
        let query = format!("SELECT id FROM page WHERE {condition}");
        assert_eq!(value(&mut client, &query), "1541815603606036480", "{query}");
    }
}

#[test]
fn wrong_input_is_refused_by_what_is_wrong_with_it_and_where() {
    let (_database, mut client) = database();
    for (call, code, words) in [
        ("from_text('1ptW-K4WgZU', 'base62')", "22P02", ["\"1ptW-K4WgZU\"", "Character 5 is \"-\""]),
        ("from_text('4aaW4SzAyOK', 'base58')", "22P02", ["\"4aaW4SzAyOK\"", "Character 10 is \"O\""]),
        ("from_text('1ptWyK4WgZé', 'base62')", "22P02", ["\"1ptWyK4WgZé\"", "Character 11 is \"é\""]),
        // What can't be seen is shown all the same: a zero width space, and a new line.
        (r"from_text(E'1ptWyK4WgZU\u200b', 'base62')", "22P02", [r#""1ptWyK4WgZU\u{200b}""#, r#"12 is "\u{200b}""#]),
        (r"from_text(E'1ptWyK4WgZU\n', 'base62')", "22P02", [r#""1ptWyK4WgZU\n""#, r#"12 is "\n""#]),
        ("from_text('', 'base62')", "22P02", ["\"\"", "no digits"]),
        ("from_text('-', 'crockford32')", "22P02", ["\"-\"", "no digits"]),
        ("from_text('8000000000000000', 'hex')", "22003", ["8000000000000000", "9223372036854775807"]),
        ("from_text(repeat('z', 1000000), 'base62')", "22023", ["at most 1000", "zzz...\""]),
        ("to_text(1, 'base62', '0123456789')", "22023", ["\"0123456789\"", "10 characters, and 62"]),
        ("from_text('1', 'base58', '01234567891')", "22023", ["\"01234567891\"", "Character 11 is \"1\""]),
        ("to_text(1, 'hex', '0123456789ABCDEF')", "22023", ["\"0123456789ABCDEF\"", "Only base62 and base58"]),
        ("to_text(-1, 'base62')", "22003", ["must not be negative", "-1"]),
        ("to_uuid(-9223372036854775808)", "22003", ["must not be negative", "-9223372036854775808"]),
        ("from_uuid('919108f7-52d1-4320-9bac-f847db4148a8')", "22023", ["\"919108f7-", "version is 4"]),
        ("from_uuid('ffffffff-ffff-8fff-bc00-000000000000')", "22003", ["\"ffffffff-", "18446744073709551615"]),
        // The hint says what is right.
        ("to_text(1, 'base64')", "22023", ["\"base64\"", "base62, base58, crockford32, hex"]),
        ("from_text('1', 'base64')", "22023", ["\"base64\"", "base62, base58, crockford32, hex"]),
        ("from_text('u', 'crockford32')", "22P02", ["7ZZZZZZZZZZZZ", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"]),
    ] {
        assert_refused(&error(&mut client, &format!("SELECT snowflake_{call}")), code, &words);
    }
}

/// What is not ASCII has other bytes in each of these, or is not known at all; it is never a digit.
#[test]
fn the_server_encoding_does_not_matter() {
    let (database, mut client) = database();
    for (encoding, strange, shown, first) in [
        ("UTF8", "U&'\\00e9'", "é", "é"),
        ("LATIN1", "U&'\\00e9'", r"\xE9", r"\xE9"),
        ("SQL_ASCII", "chr(233)", r"\xE9", r"\xE9"),
        ("EUC_JP", "U&'\\3042'", r"\xA4\xA2", r"\xA4"),
    ] {
        client
            .batch_execute(&format!("CREATE DATABASE db_{encoding} TEMPLATE template0 ENCODING {encoding} LOCALE 'C'"))
            .expect("a database");
        let mut config = database.config();
        let mut client = config.dbname(&format!("db_{}", encoding.to_lowercase())).connect(testbed::postgres::NoTls);
        let client = client.as_mut().expect("a session");
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        assert_eq!(value(client, "SELECT snowflake_from_text('1ptWyK4WgZU', 'base62')"), "1541815603606036480");
        assert_eq!(value(client, "SELECT snowflake_to_text(1541815603606036480, 'base62')"), "1ptWyK4WgZU");

        let refused = error(client, &format!("SELECT snowflake_from_text('1p' || {strange}, 'base62')"));
        assert_eq!(
            (refused.code().code(), refused.message(), refused.detail()),
            (
                "22P02",
                format!("invalid input syntax for a Snowflake ID: \"1p{shown}\"").as_str(),
                Some(format!("Character 3 is \"{first}\", which is not a digit of base62.").as_str())
            ),
            "{encoding}"
        );
        let refused = error(client, &format!("SELECT snowflake_to_text(1, 'base62', 'A' || {strange})"));
        assert_eq!(
            (refused.code().code(), refused.message()),
            ("22023", format!("invalid alphabet for base62: \"A{shown}\"").as_str()),
            "{encoding}"
        );
        let refused = error(client, &format!("SELECT snowflake_to_text(1, 'base62' || {strange})"));
        assert_eq!(
            (refused.code().code(), refused.message()),
            ("22023", format!("unrecognized encoding: \"base62{shown}\"").as_str()),
            "{encoding}"
        );
        let refused = error(client, &format!("SELECT snowflake_decode(1, 'flat' || {strange})"));
        assert_eq!(
            (refused.code().code(), refused.message()),
            ("22023", format!("invalid layout: \"flat{shown}\"").as_str()),
            "{encoding}"
        );
        // A space of Unicode's is none here.
        if encoding != "EUC_JP" {
            assert_eq!(error(client, "SELECT snowflake_decode(1, 'flat' || chr(160))").code().code(), "22023");
        }
    }
}
