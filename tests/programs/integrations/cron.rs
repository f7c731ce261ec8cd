//! pg_cron, which calls functions at times.

use super::need_library;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, test, value};

/// pg_cron looks once a minute.
#[test]
fn pg_cron_creates_partitions() {
    need_library("pg_cron");
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
    let partitions = "SELECT count(*) FROM pg_class WHERE relispartition AND relkind = 'r'";
    wait_for(&cluster, partitions, "8", Duration::from_secs(150));
    client.batch_execute("INSERT INTO measurements DEFAULT VALUES").expect("a row");
    // pg_cron writes it after the job's commit. The job of the next minute may have begun by then.
    let ended =
        "SELECT string_agg(DISTINCT status, ' ') FROM cron.job_run_details WHERE status IN ('succeeded', 'failed')";
    wait_for(&cluster, ended, "succeeded", Duration::from_secs(30));
}

/// Waits until a query says something.
fn wait_for(cluster: &Cluster, query: &str, expected: &str, patience: Duration) {
    let mut client = cluster.connect();
    let deadline = Instant::now() + patience;
    loop {
        let found = value(&mut client, query);
        if found == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{query}: {found} instead of {expected}: {}", cluster.log());
        sleep(Duration::from_millis(200));
    }
}
