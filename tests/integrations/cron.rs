//! pg_cron, which calls functions at times.

use crate::has_library;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, value};

/// pg_cron looks once a minute.
#[test]
fn pg_cron_creates_partitions() {
    if !has_library("pg_cron") {
        return;
    }
    let cluster = Cluster::builder()
        .worker(0)
        .set("shared_preload_libraries", "snowflake_pg, pg_cron")
        .set("cron.use_background_workers", "on")
        .start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE EXTENSION pg_cron;
             CREATE TABLE measurements (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
             SELECT cron.schedule('partitions', '* * * * *', $$SELECT snowflake_create_partitions('measurements', '1 day', 7)$$)",
        )
        .expect("a job");
    let deadline = Instant::now() + Duration::from_secs(150);
    while value(&mut client, "SELECT count(*) FROM pg_class WHERE relispartition AND relkind = 'r'") != "8" {
        assert!(Instant::now() < deadline, "no partitions: {}", cluster.log());
        sleep(Duration::from_millis(200));
    }
    client.batch_execute("INSERT INTO measurements DEFAULT VALUES").expect("a row");
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT status, ' ') FROM cron.job_run_details"), "succeeded");
}
