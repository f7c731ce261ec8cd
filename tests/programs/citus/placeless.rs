//! IDs for tables that Citus distributes in other ways, and for roles that may do nothing.

use super::nodes::Citus;
use super::servers::execute;
use libtest_mimic::Failed;
use testbed::postgres::Client;
use testbed::{error, value};

/// Citus wants them in transactions of their own.
const SET_UP: [&str; 14] = [
    "CREATE SCHEMA placed",
    "CREATE DOMAIN placed.key AS bigint CHECK (VALUE > 0)",
    "CREATE TABLE placed.by_bigint (id bigint PRIMARY KEY, note text)",
    "CREATE TABLE placed.by_domain (id placed.key PRIMARY KEY)",
    "CREATE TABLE placed.by_snowflake (id snowflake PRIMARY KEY)",
    "CREATE TABLE placed.by_integer (tenant integer, id bigint, PRIMARY KEY (tenant, id))",
    "CREATE TABLE placed.reference (id bigint PRIMARY KEY)",
    "CREATE TABLE placed.plain (id bigint PRIMARY KEY)",
    "SELECT create_distributed_table('placed.by_bigint', 'id')",
    "SELECT create_distributed_table('placed.by_domain', 'id')",
    "SELECT create_distributed_table('placed.by_snowflake', 'id')",
    "SELECT create_distributed_table('placed.by_integer', 'tenant')",
    "SELECT create_reference_table('placed.reference')",
    "CREATE ROLE passer_by",
];

/// Names that a role's own objects have, too.
const OWN: &str = "
    CREATE TEMP TABLE pg_dist_partition AS SELECT * FROM pg_catalog.pg_dist_partition LIMIT 0;
    CREATE TEMP TABLE pg_dist_shard AS SELECT * FROM pg_catalog.pg_dist_shard LIMIT 0;
    CREATE TEMP TABLE pg_dist_placement AS SELECT * FROM pg_catalog.pg_dist_placement LIMIT 0;
    SET search_path = pg_temp, pg_catalog, placed, public";

const CATALOGS: &str = "pg_dist_partition, pg_dist_shard, pg_dist_placement, pg_dist_local_group";

pub fn run(citus: &Citus) -> Result<(), Failed> {
    let mut client = citus.nodes[0].connect();
    SET_UP.iter().for_each(|statement| execute(&mut client, statement));
    let mut node = citus.nodes[1].connect();
    let plain = reason(&mut client, "plain");
    assert_eq!(reason(&mut node, "reference"), plain, "it has no key, as a table of one server");
    let by_integer = reason(&mut node, "by_integer");
    assert!(by_integer != plain && by_integer.contains("Citus"), "{by_integer}");
    execute(&mut node, &format!("REVOKE SELECT ON {CATALOGS} FROM PUBLIC; {OWN}; SET ROLE passer_by"));
    for table in ["by_bigint", "by_domain", "by_snowflake"] {
        // A role can't name a table in a schema without USAGE.
        let oid = value(&mut citus.nodes[1].connect(), &format!("SELECT 'placed.{table}'::regclass::oid"));
        let here = format!(
            "SELECT count(DISTINCT groupid) || ' ' || min(groupid)
             FROM (SELECT get_shard_id_for_distribution_column('placed.{table}', id::bigint) AS shardid FROM unnest($1::bigint[]) id) ids
                 JOIN pg_dist_placement USING (shardid)"
        );
        let query = format!(
            "SELECT snowflake_nextval_for({oid}) FROM generate_series(1, 100)
             UNION ALL SELECT snowflake_nextval_for({oid}, snowflake_nextval_for({oid})) FROM generate_series(1, 100)"
        );
        let ids: Vec<i64> = node.query(&query, &[])?.iter().map(|row| row.get(0)).collect();
        let groups: String = client.query_one(&here, &[&ids])?.get(0);
        assert_eq!(groups, "1 1", "{table}");
    }
    execute(&mut node, &format!("RESET ROLE; RESET search_path; GRANT SELECT ON {CATALOGS} TO PUBLIC"));
    // Citus needs the domain to drop the table.
    execute(&mut client, "DROP TABLE placed.by_domain; DROP SCHEMA placed CASCADE; DROP ROLE passer_by");
    Ok(())
}

/// Why a table is refused.
fn reason(client: &mut Client, table: &str) -> String {
    let refused = error(client, &format!("SELECT snowflake_nextval_for('placed.{table}')"));
    let expected = format!("which IDs fall into placed.{table} is not known");
    assert_eq!((refused.code().code(), refused.message()), ("42809", &*expected));
    refused.detail().expect("a reason").to_owned()
}
