//! Where the row of an ID is: the answers that a router and an application compute themselves.

use std::collections::BTreeSet;
use std::fs;
use testbed::{Cluster, project, test, value};

const ANSWERS: &str = "crates/snowflake_core/tests/shards.tsv";

/// As docs/sharding.md shows it for a server without the extension.
const FORMULA: &str = "(hashint8extended(id, 8816678312871386365) + 23752253665144318179) % 18446744073709551616 % ";

/// The core, the hosted edition and programs in other languages are compared with the same file.
#[test]
fn the_known_answers_for_other_languages_are_what_postgresql_says() {
    let database = Cluster::builder().database();
    let mut client = database.connect();
    client
        .batch_execute("CREATE EXTENSION snowflake_pg; CREATE TABLE t (id bigint) PARTITION BY HASH (id)")
        .expect("a table");
    let file = fs::read_to_string(project().join(ANSWERS)).expect("a file");
    let (heading, lines) = file.split_once('\n').expect("a heading");
    let column = |nth| {
        let numbers: BTreeSet<_> = lines.lines().filter_map(|line| line.split('\t').nth(nth)).collect();
        numbers.into_iter().collect::<Vec<_>>().join(",")
    };
    let tried = format!(
        "FROM unnest('{{{}}}'::bigint[]) id CROSS JOIN unnest('{{{}}}'::integer[]) modulus",
        column(0),
        column(1)
    );
    let answers = format!(
        "SELECT string_agg(concat_ws(E'\\t', id, modulus, snowflake_shard_of(id, modulus), hashint8(id),
                least((hashint8(id) + 2147483648) / (4294967296 / modulus), modulus - 1), (id >> 12 & 1023) % modulus),
            E'\\n' ORDER BY id, modulus) {tried}"
    );
    let answers = format!("{heading}\n{}\n", value(&mut client, &answers));
    fs::write(project().join("target/shards.tsv"), &answers).expect("a file");
    assert!(answers == file, "the server's answers are in target/shards.tsv, and {ANSWERS} has others");
    assert!(file.lines().count() > 150, "{file}");
    let wrong = format!(
        "SELECT count(*) {tried}
         WHERE NOT satisfies_hash_partition('t'::regclass, modulus, snowflake_shard_of(id, modulus), id)
            OR snowflake_shard_of(id, modulus) <> {FORMULA} modulus"
    );
    assert_eq!(value(&mut client, &wrong), "0");
}
