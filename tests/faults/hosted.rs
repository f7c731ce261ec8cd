//! The functions in plain SQL, without the extension: what happens to the server, its clock, its standby and its
//! clients.

use super::fixture::{assert_kept, assert_kept_without_errors, at_once};
use super::suite::{Evidence, Fault};
use crate::hosted;
use std::thread::sleep;
use std::time::Duration;
use testbed::postgres::config::TargetSessionAttrs::ReadWrite;
use testbed::{Cluster, Load, Report, Signal, Witness};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 48,
        promise: "a_hosted_database_repeats_no_id_after_crashes_and_clocks_that_are_set",
        short: 7,
        full: 70,
        run: crashes_and_clocks,
    },
    Fault {
        row: 49,
        promise: "a_hosted_database_goes_on_above_what_its_failover_has_lost",
        short: 2,
        full: 20,
        run: failovers,
    },
    Fault { row: 50, promise: "all_sessions_of_a_hosted_database_get_their_own_ids", short: 3, full: 30, run: at_work },
];

/// What clients ask for.
const QUERIES: [&str; 3] = [
    "SELECT snowflake_nextval() FROM generate_series(1, 20)",
    "SELECT snowflake_nextvals(3000)",
    "SELECT generate_series(first, last) FROM snowflake_nextblock(77)",
];

/// Where the clock of the server is in a round, in seconds from the real time.
const CLOCKS: [f64; 7] = [0.0, 3.0, -8.0, -1.0, 0.5, 0.0, -3.0];

fn crashes_and_clocks(rounds: usize) -> Evidence {
    let mut cluster = hosted::server_with_clock(7);
    let loads = QUERIES.map(|query| Load::start(&cluster, 4, query));
    for round in 0..rounds {
        loads[round % 3].wait_for_some(100);
        cluster.set_clock(CLOCKS[round % CLOCKS.len()]);
        cluster.kill_backend();
        loads[(round + 1) % 3].wait_for_some(100);
        cluster.restart(if round % 2 == 0 { Signal::QUIT } else { Signal::KILL });
    }
    loads[0].wait_for_some(100);
    let mut all = Report::default();
    loads.into_iter().for_each(|load| all.merge(load.finish()));
    for error in all.errors().keys() {
        assert!(error.starts_with("53400 the server's clock is too far behind"), "{:?}", all.errors());
    }
    assert_kept(rounds, &all, 3000).crashes(2 * rounds)
}

/// The standby is behind by up to three seconds when its primary is killed, and is followed by a new one.
fn failovers(rounds: usize) -> Evidence {
    let mut primary = Cluster::builder().start();
    hosted::install(&mut primary.connect(), 7);
    let mut standby = Cluster::builder().standby_of(&primary);
    let mut both = primary.config();
    both.host_path(standby.host()).target_session_attrs(ReadWrite);
    let load = Load::start_at(&both, 8, QUERIES[0]);
    let batches = Load::start_at(&both, 2, QUERIES[1]);
    for round in 0..rounds {
        load.wait_for_ids();
        standby.configure("primary_conninfo", "host=/nowhere");
        standby.reload();
        primary.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_replication)");
        load.wait_for_ids();
        batches.wait_for_ids();
        sleep(Duration::from_millis([0, 500, 3000][round % 3]));
        primary.kill_all();
        standby.promote();
        load.wait_for_ids();
        primary.clone_anew(&standby);
        primary.follow(&standby);
        (primary, standby) = (standby, primary);
    }
    let mut all = load.finish();
    all.merge(batches.finish());
    assert_kept_without_errors(rounds, &all, 0).crashes(rounds)
}

/// In each round, 64 sessions take IDs in each way, of which some are rolled back, and forget what they know.
fn at_work(rounds: usize) -> Evidence {
    let cluster = Cluster::builder().set("max_prepared_transactions", 64).start();
    hosted::install(&mut cluster.connect(), 7);
    let client = |number: usize| {
        let mut witness = Witness::of(&cluster);
        for round in 0..rounds {
            for query in QUERIES {
                witness.session().batch_execute("BEGIN").expect("a transaction");
                witness.ask(query).expect("IDs");
                let gid = format!("{number} {round}");
                for end in match (number + round) % 4 {
                    0 => vec!["COMMIT".to_owned()],
                    1 => vec!["ROLLBACK".to_owned(), "DISCARD ALL".to_owned()],
                    2 => vec![format!("PREPARE TRANSACTION '{gid}'"), format!("COMMIT PREPARED '{gid}'")],
                    _ => vec!["COMMIT".to_owned(), "DISCARD SEQUENCES; RESET ALL".to_owned()],
                } {
                    witness.session().batch_execute(&end).expect("the end of a transaction");
                }
            }
        }
        witness.report()
    };
    assert_kept_without_errors(rounds, &at_once(64, client), 0)
}
