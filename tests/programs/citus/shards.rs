//! Which shard of Citus has the row of an ID: the known answers for programs in other languages.

use super::nodes::Citus;
use super::servers::execute;
use libtest_mimic::Failed;
use testbed::value;

const ANSWERS: &str = include_str!("../../../crates/snowflake_core/tests/shards.tsv");

/// Numbers of shards, some of which do not divide the range of the hash.
const COUNTS: [&str; 4] = ["2", "3", "7", "32"];

pub fn run(citus: &Citus) -> Result<(), Failed> {
    let mut client = citus.nodes[0].connect();
    for count in COUNTS {
        execute(&mut client, "CREATE TABLE placed (id bigint)");
        let distribute =
            format!("SELECT create_distributed_table('placed', 'id', shard_count => {count}, colocate_with => 'none')");
        execute(&mut client, &distribute);
        let mut found = 0;
        for line in ANSWERS.lines() {
            let answer: Vec<&str> = line.split('\t').collect();
            if answer[1] != count {
                continue;
            }
            let shard = format!(
                "SELECT nth FROM (SELECT shardid, rank() OVER (ORDER BY shardminvalue::integer) - 1 AS nth
                     FROM pg_dist_shard WHERE logicalrelid = 'placed'::regclass) shards
                 WHERE shardid = get_shard_id_for_distribution_column('placed', '{}'::bigint)",
                answer[0]
            );
            let shard = value(&mut client, &shard);
            if shard != answer[4] {
                return Err(format!("ID {} is on shard {shard} of {count}, and not {}", answer[0], answer[4]).into());
            }
            found += 1;
        }
        assert!(found > 20, "{found} of {count}");
        execute(&mut client, "DROP TABLE placed");
    }
    Ok(())
}
