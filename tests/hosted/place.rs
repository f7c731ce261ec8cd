//! IDs for a given place, as behind a router.

use super::{refusal, server};
use testbed::postgres::Client;
use testbed::{Cluster, hosted_script, test, value};

/// A table with eight hash partitions.
fn partitioned(client: &mut Client) {
    client.batch_execute("CREATE TABLE t (id bigint PRIMARY KEY, n integer) PARTITION BY HASH (id)").expect("a table");
    for n in 0..8 {
        let partition = format!("CREATE TABLE t_{n} PARTITION OF t FOR VALUES WITH (MODULUS 8, REMAINDER {n})");
        client.batch_execute(&partition).expect("a partition");
    }
}

#[test]
fn ids_for_a_partition_fall_into_it_ascend_and_none_comes_twice() {
    let cluster = server(7);
    let mut client = cluster.connect();
    partitioned(&mut client);
    client
        .batch_execute(
            "ALTER TABLE t_5 ALTER id SET DEFAULT snowflake_nextval_for('t_5');
             CREATE TABLE others (id bigint PRIMARY KEY DEFAULT snowflake_nextval())",
        )
        .expect("defaults");
    let sessions = [(); 4].map(|()| {
        let mut client = cluster.connect();
        std::thread::spawn(move || {
            for _ in 0..5 {
                client.batch_execute("INSERT INTO t_5 (n) SELECT generate_series(1, 200)").expect("rows");
                client.batch_execute("COPY t_5 (n) FROM PROGRAM 'seq 100'").expect("rows");
                client.batch_execute("INSERT INTO others SELECT FROM generate_series(1, 100)").expect("rows");
                client.batch_execute("INSERT INTO t_5 VALUES (snowflake_nextval_for_shard(8, 5))").expect("a row");
            }
            let inserted = "INSERT INTO t SELECT id FROM (SELECT snowflake_nextval_for_shard(8, n % 8) AS id, n FROM generate_series(1, 500) n) made
                RETURNING id";
            let ids: Vec<i64> = client.query(inserted, &[]).expect("rows").iter().map(|row| row.get(0)).collect();
            assert!(ids.is_sorted(), "{ids:?}");
            assert_eq!(value(&mut client, "SELECT snowflake_nextval_for('t_5') = snowflake_lastval()"), "t");
        })
    });
    for session in sessions {
        session.join().expect("no error");
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM t_5 WHERE n IS NOT NULL"), "6000");
    let wrong =
        "SELECT count(*) FROM (SELECT id FROM t UNION ALL SELECT id FROM others) ids GROUP BY id HAVING count(*) > 1";
    assert!(client.query(wrong, &[]).expect("IDs").is_empty());
}

#[test]
fn with_a_tag_in_the_layout_no_number_is_skipped_for_a_place() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.batch_execute(&hosted_script()).expect("the script");
    client.batch_execute("SELECT snowflake_set_layout('t41 w5 s9 h8'), snowflake_set_worker_id(7)").expect("a layout");
    partitioned(&mut client);
    let fitting =
        "WITH ids AS MATERIALIZED (SELECT snowflake_nextval_for_shard(8, 3) AS id FROM generate_series(1, 100))
        SELECT bool_and(snowflake_shard_of(id, 8) = 3) FROM ids";
    assert_eq!(value(&mut client, fitting), "t");
    let position = "SELECT ((id >> 22) << 9) | ((id >> 8) & 511) FROM (SELECT snowflake_nextval_for_shard(8, 3) AS id OFFSET 0) made";
    // Unless the clock has gone on to another tick.
    let adjacent = (0..200).any(|_| {
        let [first, second] = [(); 2].map(|()| value(&mut client, position).parse::<i64>().expect("a number"));
        second == first + 1
    });
    assert!(adjacent);
    let near = "SELECT count(*) FROM generate_series(1, 100) n WHERE snowflake_shard_of(snowflake_nextval_for('t', n), 8) = snowflake_shard_of(n, 8)";
    assert_eq!(value(&mut client, near), "100");
}

#[test]
fn a_call_for_a_place_into_which_no_id_falls_is_refused_in_the_end() {
    let cluster = server(7);
    let mut client = cluster.connect();
    let refused = refusal(&mut client, "SELECT snowflake_nextval_for_shard(2147483647, 13)");
    assert_eq!(refused, ("53400".to_owned(), "none of the next IDs falls into this place".to_owned()));
    client
        .batch_execute(
            "CREATE TABLE twice (id bigint) PARTITION BY HASH (id);
             CREATE TABLE twice_0 PARTITION OF twice FOR VALUES WITH (MODULUS 2, REMAINDER 0) PARTITION BY HASH (id);
             CREATE TABLE twice_0_0 PARTITION OF twice_0 FOR VALUES WITH (MODULUS 3, REMAINDER 0)",
        )
        .expect("partitions of a partition");
    let refused = refusal(&mut client, "SELECT snowflake_nextval_for('twice_0_0')");
    assert_eq!(refused, ("42809".to_owned(), "which IDs fall into public.twice_0_0 is not known".to_owned()));
    assert_eq!(value(&mut client, "SELECT snowflake_nextval() > 0"), "t");
}
