//! A string in JSON, and what is still of the type where JSON is made of it.

use super::{database, expect};
use testbed::{test, value};

#[test]
fn json_shows_the_type_as_a_string_of_all_digits_and_a_bigint_as_the_number_it_was() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE t (id snowflake, plain bigint);
             INSERT INTO t VALUES ('9007199254740993', 9007199254740993)",
        )
        .expect("a table");
    expect(
        &mut client,
        &[
            ("SELECT row_to_json(t) FROM t", r#"{"id":"9007199254740993","plain":9007199254740993}"#),
            ("SELECT to_jsonb(t) FROM t", r#"{"id": "9007199254740993", "plain": 9007199254740993}"#),
            ("SELECT to_json(id) FROM t", r#""9007199254740993""#),
            ("SELECT json_agg(id) FROM t", r#"["9007199254740993"]"#),
            ("SELECT jsonb_agg(t.*) FROM t", r#"[{"id": "9007199254740993", "plain": 9007199254740993}]"#),
            ("SELECT json_build_object('id', id) FROM t", r#"{"id" : "9007199254740993"}"#),
            ("SELECT jsonb_object_agg(id, id) FROM t", r#"{"9007199254740993": "9007199254740993"}"#),
            ("SELECT to_json(array_agg(id)) FROM t", r#"["9007199254740993"]"#),
            // An aggregate of the type is of the type.
            ("SELECT json_build_array(min(id), max(id)) FROM t", r#"["9007199254740993", "9007199254740993"]"#),
            // What PostgREST sends for a table.
            (
                "WITH pgrst_source AS (SELECT t.* FROM t LIMIT 1)
                 SELECT coalesce(json_agg(_postgrest_t), '[]') FROM (SELECT * FROM pgrst_source) _postgrest_t",
                r#"[{"id":"9007199254740993","plain":9007199254740993}]"#,
            ),
            ("SELECT row_to_json(r) FROM (SELECT NULL::snowflake AS id) r", r#"{"id":null}"#),
        ],
    );
}

#[test]
fn an_id_is_read_back_from_its_json() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE TABLE t (id snowflake, n integer)").expect("a table");
    expect(
        &mut client,
        &[
            (r#"SELECT id FROM json_populate_record(NULL::t, '{"id": "9007199254740993"}')"#, "9007199254740993"),
            (r#"SELECT id FROM jsonb_populate_record(NULL::t, '{"id": "9007199254740993"}')"#, "9007199254740993"),
            (r#"SELECT id FROM jsonb_to_record('{"id": 9007199254740993}') AS r(id snowflake)"#, "9007199254740993"),
            (r#"SELECT ('{"id": "9007199254740993"}'::jsonb ->> 'id')::snowflake"#, "9007199254740993"),
            ("SELECT id FROM json_populate_record(NULL::t, '{}')", "NULL"),
        ],
    );
    // A whole row, there and back, for thousands of the greatest.
    client
        .batch_execute("INSERT INTO t SELECT id, 0 FROM generate_series(9223372036854770000, 9223372036854775807) id")
        .expect("rows");
    let query = "SELECT count(*) FROM t, json_populate_record(NULL::t, row_to_json(t)) r WHERE r.id = t.id";
    assert_eq!(value(&mut client, query), "5808");
}

/// PostgreSQL's own rules decide what an expression gives; these are what a user of JSON has to know.
#[test]
fn the_type_stays_where_it_is_chosen_from_and_is_a_bigint_where_it_is_computed_with() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE TABLE t (id snowflake, plain bigint); INSERT INTO t VALUES (1, 1)").expect("a table");
    for (expression, of_type) in [
        ("coalesce(id, 0)", "snowflake"),
        ("coalesce(max(id), 0)", "snowflake"),
        ("coalesce(0::smallint, id)", "snowflake"),
        ("CASE WHEN true THEN 0 ELSE id END", "snowflake"),
        ("greatest(id, 0, '5')", "snowflake"),
        ("lag(id, 1, 0) OVER ()", "snowflake"),
        ("array_agg(DISTINCT id ORDER BY id)", "snowflake[]"),
        ("mode() WITHIN GROUP (ORDER BY id)", "snowflake"),
        ("min(id)", "snowflake"),
        ("max(id)", "snowflake"),
        ("coalesce(id, plain)", "bigint"),
        ("coalesce(plain, id)", "bigint"),
        ("(SELECT x FROM (SELECT id AS x FROM t UNION SELECT plain FROM t) u)", "bigint"),
        ("nullif(id, 0)", "bigint"),
        ("id + 1", "bigint"),
        ("id >> 22", "bigint"),
        ("id % 16", "bigint"),
        ("abs(id)", "bigint"),
        ("sum(id)", "numeric"),
        ("avg(id)", "numeric"),
    ] {
        let query = format!("SELECT pg_typeof({expression}) FROM t GROUP BY id, plain");
        assert_eq!(value(&mut client, &query), of_type, "{expression}");
    }
}
