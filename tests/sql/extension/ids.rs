//! What an ID means stays as it was with the first version that had it: stored IDs, texts and columns outlive versions.
//!
//! `released/snowflake_pg--VERSION.ids` has expressions and their answers, each line of a version that was the first to
//! know them. `make freeze` keeps their checksums, and that of the known answers for hash partitions and shards.

use super::released::kept_lines;
use super::surface::lines;
use std::fs;
use testbed::postgres::Client;
use testbed::{Cluster, plan, postgresql, project, test, value};

/// Classes for each field, and the functions of one as a dump of 1.0 has them.
const CLASSES: &str = r"
    CREATE EXTENSION snowflake_pg;
    DO $$ DECLARE field text;
    BEGIN
        FOREACH field IN ARRAY '{datacenter,worker,tag,sequence}'::text[] LOOP
            PERFORM snowflake_create_operator_class('by_' || field, field, 'public', 't40 d3 w5 h6 s9');
            EXECUTE format('CREATE TABLE by_%1$s (id bigint) PARTITION BY HASH (id by_%1$s)', field);
        END LOOP;
    END $$;
    CREATE FUNCTION restored_hash(bits_9_to_14 bigint) RETURNS integer LANGUAGE c IMMUTABLE STRICT
        AS '$libdir/snowflake_pg', 'snowflake_field_hash';
    CREATE FUNCTION restored_hash_extended(bits_9_to_14 bigint, seed bigint) RETURNS bigint LANGUAGE c IMMUTABLE STRICT
        AS '$libdir/snowflake_pg', 'snowflake_field_hash_extended';
    SET enable_seqscan = off; SET enable_bitmapscan = off";

/// Of an expression, its value; of a generated column, what a condition on it uses.
fn answer(client: &mut Client, asked: &str) -> String {
    if !asked.starts_with("created_at ") {
        return value(client, &format!("SELECT ({asked})::text"));
    }
    let kind = if postgresql() < 18 { "STORED" } else { "VIRTUAL" };
    let create = format!("DROP TABLE IF EXISTS made; CREATE TABLE made (id bigint PRIMARY KEY, {asked} {kind})");
    client.batch_execute(&create).unwrap_or_else(|error| panic!("{asked}: {error:?}"));
    let plan = plan(client, "EXPLAIN (COSTS OFF) SELECT FROM made WHERE created_at > '2024-02-29 12:00'");
    if plan.contains("Index Cond: (id > ") || plan.contains("Index Cond: (id >= ") {
        "primary key".to_owned()
    } else {
        plan
    }
}

#[test]
fn an_id_means_what_it_meant_in_each_release() {
    let database = Cluster::builder().worker(7).set("timezone", "UTC").database();
    let mut client = database.connect();
    client.batch_execute(CLASSES).expect("classes");
    let kept = kept_lines(".ids");
    let kept: Vec<_> = kept.iter().filter_map(|(_, line)| line.split_once('\t')).collect();
    let now: Vec<_> = kept.iter().map(|(asked, _)| answer(&mut client, asked)).collect();
    let text: String = kept.iter().zip(&now).map(|((asked, _), now)| format!("{asked}\t{now}\n")).collect();
    fs::write(project().join("target/ids"), text).expect("own file");
    let wrong: Vec<_> = kept.iter().zip(&now).filter(|((_, was), now)| was != now).collect();
    assert!(wrong.is_empty(), "asked, answered by a release, and now (also in target/ids): {wrong:#?}");

    let named = lines().filter_map(|(mark, line)| {
        let line = Some(line).filter(|_| mark == "frozen")?;
        let rest = ["layout ", "one of the encodings ", "one of the operators "].iter();
        rest.filter_map(|kind| line.strip_prefix(kind)?.split(' ').next()).next()
    });
    let missing: Vec<_> =
        named.filter(|name| !kept.iter().any(|(asked, _)| asked.contains(&format!("'{name}'")))).collect();
    assert!(missing.is_empty(), "write an expression for {missing:?} into released/snowflake_pg--VERSION.ids");
}
