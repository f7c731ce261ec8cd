//! A table that a router partitions by the hash of the ID alone, and whose IDs anybody may issue.

use testbed::postgres::Client;
use testbed::{Cluster, error, need_extension, test, value};

/// A router, worker 0, and shards whose workers begin with 1.
pub struct ByHash {
    pub router: Cluster,
    pub shards: Vec<Cluster>,
}

impl ByHash {
    /// Two shards.
    pub fn start() -> Self {
        need_extension("postgres_fdw");
        let router = Cluster::builder().worker(0).start();
        router
            .connect()
            .batch_execute(
                "CREATE EXTENSION snowflake_pg; CREATE EXTENSION postgres_fdw;
                 CREATE TABLE t (id bigint DEFAULT snowflake_nextval(), n integer) PARTITION BY HASH (id)",
            )
            .expect("a table");
        let mut fleet = Self { router, shards: Vec::new() };
        for remainder in [0, 1] {
            fleet.add_shard(2, remainder);
            fleet.router.connect().batch_execute(&partition(2, remainder)).expect("a partition");
        }
        fleet
    }

    /// Adds a shard with this part of the rows, which the router knows as a server, not yet as a partition.
    pub fn add_shard(&mut self, modulus: u32, remainder: u32) {
        let shard = Cluster::builder().worker(self.shards.len() + 1).set("log_statement", "all").start();
        shard
            .connect()
            .batch_execute(&format!(
                "CREATE EXTENSION snowflake_pg;
                 CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval_for_shard({modulus}, {remainder}), n integer,
                     CONSTRAINT here CHECK (snowflake_shard_of(id, {modulus}) = {remainder}))"
            ))
            .expect("a table");
        self.router
            .connect()
            .batch_execute(&format!(
                "CREATE SERVER s{remainder} FOREIGN DATA WRAPPER postgres_fdw
                     OPTIONS (host '{}', dbname 'postgres', batch_size '100');
                 CREATE USER MAPPING FOR PUBLIC SERVER s{remainder} OPTIONS (user 'postgres')",
                shard.host().display()
            ))
            .expect("a server");
        self.shards.push(shard);
    }

    /// In how many transactions of the router shards have taken part, each shard of its own.
    pub fn asked(&self) -> usize {
        self.shards.iter().map(|shard| shard.log().matches("START TRANSACTION ISOLATION LEVEL").count()).sum()
    }
}

/// Makes a partition on the server that has its remainder in its name.
pub fn partition(modulus: u32, remainder: u32) -> String {
    format!(
        "CREATE FOREIGN TABLE t_{remainder} PARTITION OF t FOR VALUES WITH (MODULUS {modulus}, REMAINDER {remainder})
             SERVER s{remainder} OPTIONS (table_name 't')"
    )
}

pub fn ids(client: &mut Client) -> Vec<i64> {
    client.query("SELECT id FROM t", &[]).expect("IDs").iter().map(|row| row.get(0)).collect()
}

#[test]
fn a_router_asks_one_shard_for_an_id_that_it_or_a_shard_has_issued() {
    let fleet = ByHash::start();
    for shard in &fleet.shards {
        let rows = "INSERT INTO t (n) SELECT generate_series(1, 100); COPY t (n) FROM PROGRAM 'seq 100'";
        shard.connect().batch_execute(rows).expect("rows");
    }
    let mut router = fleet.router.connect();
    router
        .batch_execute(
            "INSERT INTO t (n) SELECT generate_series(1, 100); COPY t (n) FROM PROGRAM 'seq 100';
             INSERT INTO t_0 SELECT snowflake_nextval_for('t_0'), n FROM generate_series(1, 100) n;
             INSERT INTO t_1 SELECT snowflake_nextval_for('t', id), n FROM t_1 WHERE n > 50",
        )
        .expect("rows");
    let ids = ids(&mut router);
    assert!(ids.len() > 700, "{}", ids.len());
    for statement in [
        "SELECT n FROM t WHERE id = $1",
        "UPDATE t SET n = 0 WHERE id = $1 RETURNING n",
        "DELETE FROM t WHERE id = $1 RETURNING n",
    ] {
        let query = router.prepare(statement).expect(statement);
        let before = fleet.asked();
        for id in &ids {
            assert_eq!(router.query(&query, &[id]).expect(statement).len(), 1, "{statement}: {id}");
        }
        assert_eq!(fleet.asked() - before, ids.len(), "{statement}");
    }
    assert_eq!(value(&mut router, "SELECT count(*) FROM t"), "0");
}

/// PostgreSQL does not check the bounds of partitions that are foreign tables.
#[test]
fn a_row_in_the_wrong_partition_is_refused_by_the_check_of_its_shard_and_without_it_not_found() {
    let fleet = ByHash::start();
    let mut router = fleet.router.connect();
    let id = value(&mut router, "SELECT snowflake_nextval_for('t_1')");
    let insert = format!("INSERT INTO t_0 VALUES ({id}, 1)");
    let refused = error(&mut router, &insert);
    assert_eq!(refused.message(), "new row for relation \"t\" violates check constraint \"here\"");
    fleet.shards[0].connect().batch_execute("ALTER TABLE t DROP CONSTRAINT here").expect("no check");
    router.batch_execute(&insert).expect("a row");
    assert_eq!(value(&mut router, "SELECT count(*) FROM t"), "1");
    assert_eq!(value(&mut router, &format!("SELECT count(*) FROM t WHERE id = {id}")), "0");
}
