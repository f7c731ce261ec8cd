//! How IDs continue after a restart, a crash or a step of the clock.

use super::{server, server_with_clock};
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Signal, Witness, test, value};

/// As if the extension had a durable mark: positions that are committed are in WAL.
#[test]
fn a_clock_that_is_set_back_over_a_restart_is_noticed_and_ids_go_on_when_it_has_caught_up() {
    let mut cluster = server_with_clock(7);
    let mut witness = Witness::of(&cluster);
    let before = witness.next_id().expect("an ID");
    cluster.stop(Signal::QUIT);
    cluster.set_clock(-60.0);
    cluster.start();
    witness.connect(&cluster);
    let refused = witness.refusal();
    assert_eq!(refused.code().code(), "53400", "{refused:?}");
    assert_eq!(refused.message(), "the server's clock is too far behind the last ID issued");
    assert_eq!(value(witness.session(), "SELECT state FROM snowflake_status"), "clock behind");
    cluster.set_clock(0.0);
    assert!(witness.next_id().expect("an ID") > before);
}

#[test]
fn crash_after_crash_does_not_drive_ids_away_from_the_clock() {
    let cluster = server(7);
    for _ in 0..8 {
        value(&mut cluster.connect(), "SELECT snowflake_nextval()");
        cluster.kill_backend();
    }
    let lead = "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())";
    let lead: f64 = value(&mut cluster.connect(), lead).parse().expect("seconds");
    assert!(lead <= 2.0, "{lead}");
}

#[test]
fn ids_of_the_first_seconds_after_a_start_are_at_most_two_seconds_ahead_and_then_of_their_time() {
    let cluster = server(7);
    let mut client = cluster.connect();
    let lead = "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())";
    let first: f64 = value(&mut client, lead).parse().expect("seconds");
    // Above what a crash or a failover could have lost.
    assert!(first > 1.0 && first <= 2.0, "{first}");
    let deadline = Instant::now() + Duration::from_secs(30);
    while value(&mut client, lead).parse::<f64>().expect("seconds") > 0.0 {
        assert!(Instant::now() < deadline, "still ahead");
        thread::sleep(Duration::from_millis(50));
    }
}
