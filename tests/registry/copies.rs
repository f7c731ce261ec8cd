//! Copies of a server: each gets a worker of its own, whatever it has been copied with.

use super::fixture::{answer_of, member, start, take_a_thousand, worker_of};
use std::fs;
use testbed::{Cluster, Registry, Signal, Witness, test};

#[test]
fn a_base_backup_of_a_running_server_gets_a_worker_of_its_own() {
    let registry = Registry::start();
    let server = start(member(&registry));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    let mut copy = Cluster::builder().backup_of(&server);
    copy.start();
    assert_eq!([worker_of(&server), worker_of(&copy)], ["1023", "1022"], "{}", copy.log());
    take_a_thousand(&mut witness, &[&server, &copy, &server]);
    assert_eq!(witness.report().duplicates(), 0);
}

#[test]
fn a_copy_of_a_stopped_server_gets_a_worker_of_its_own_whichever_starts_first() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    server.stop(Signal::INT);
    let mut copy = Cluster::builder().copy_of(&server);
    copy.start();
    take_a_thousand(&mut witness, &[&copy]);
    server.start();
    take_a_thousand(&mut witness, &[&server, &copy]);
    let mut workers = [worker_of(&server), worker_of(&copy)];
    workers.sort();
    assert_ne!(workers[0], workers[1], "{}", server.log());
    assert_eq!(witness.report().duplicates(), 0);
}

#[test]
fn a_promoted_standby_gets_a_worker_of_its_own_while_the_old_primary_goes_on() {
    let registry = Registry::start();
    let primary = start(member(&registry));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&primary]);
    let standby = Cluster::builder().standby_of(&primary);
    assert_eq!(answer_of(&standby, "SELECT state FROM snowflake_status"), "standby");
    standby.promote();
    assert_eq!([worker_of(&primary), worker_of(&standby)], ["1023", "1022"], "{}", standby.log());
    take_a_thousand(&mut witness, &[&standby, &primary, &standby]);
    assert_eq!(witness.report().duplicates(), 0);
}

#[test]
fn a_server_that_is_rewound_and_promoted_again_repeats_no_id() {
    let registry = Registry::start();
    let mut first = start(member(&registry).set("wal_log_hints", "on").set("wal_keep_size", "1GB"));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&first]);
    let mut second = Cluster::builder().standby_of(&first);
    second.promote();
    take_a_thousand(&mut witness, &[&first, &second]);
    first.stop(Signal::INT);
    first.rewind(&second);
    first.follow(&second);
    first.wait_for_commits_of(&second);
    second.stop(Signal::INT);
    first.promote();
    worker_of(&first);
    take_a_thousand(&mut witness, &[&first]);
    second.start();
    worker_of(&second);
    take_a_thousand(&mut witness, &[&second, &first]);
    assert_ne!(worker_of(&first), worker_of(&second));
    assert_eq!(witness.report().duplicates(), 0);
}

/// The registry does not know of the original.
#[test]
fn a_copy_with_a_registry_gets_no_number_that_its_original_has_without_one() {
    let registry = Registry::start();
    let original = start(Cluster::builder().worker(5));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&original]);
    let mut copy = Cluster::builder().set("snowflake_pg.registry_conninfo", registry.conninfo()).backup_of(&original);
    copy.start();
    copy.wait_until("SELECT lease_until IS NOT NULL FROM snowflake_status");
    let refused = testbed::error(&mut copy.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), "this server is a copy of another one with the same worker ID", "{refused:?}");
}

/// Its original has the first number that the registry would lease.
#[test]
fn a_copy_that_joins_a_new_registry_gets_another_number_than_its_original_has_without_one() {
    let original = start(Cluster::builder().worker(1023));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&original]);
    let registry = Registry::start();
    let mut copy = member(&registry).backup_of(&original);
    copy.start();
    assert_eq!(worker_of(&copy), "1022", "{}", copy.log());
    copy.restart(Signal::INT);
    assert_eq!(worker_of(&copy), "1022", "{}", copy.log());
    take_a_thousand(&mut witness, &[&original, &copy]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// It has the number by its original, which goes on.
#[test]
fn a_promoted_standby_that_joins_a_new_registry_gets_another_number_than_its_original_has_without_one() {
    let original = start(Cluster::builder().worker(1023));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&original]);
    let registry = Registry::start();
    let standby = member(&registry).standby_of(&original);
    standby.promote();
    assert_eq!(worker_of(&standby), "1022", "{}", standby.log());
    take_a_thousand(&mut witness, &[&original, &standby]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// A server with number 5, which was restarted before it issued an ID: no standby acknowledges its mark.
fn blank_and_often_restarted(registry: &Registry) -> Cluster {
    let numbered = Cluster::builder().set("snowflake_pg.registry_conninfo", registry.conninfo()).worker(5);
    let mut blank =
        numbered.set("snowflake_pg.wal_mark", "require").set("synchronous_standby_names", "nobody").create();
    let is_leased = "SELECT EXISTS (SELECT FROM snowflake_registry.workers WHERE state = 'leased')";
    for _ in 0..3 {
        blank.start();
        registry.wait_until(is_leased);
        blank.stop(Signal::INT);
        assert_eq!(answer_of(registry, "SELECT state FROM snowflake_registry.workers"), "free", "{}", blank.log());
    }
    blank.start();
    registry.wait_until(is_leased);
    blank
}

#[test]
fn a_server_that_was_restarted_before_its_first_id_can_be_released_by_hand_after_that() {
    let registry = Registry::start();
    let mut server = blank_and_often_restarted(&registry);
    server.configure("synchronous_standby_names", "");
    server.reload();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    server.wait_until("SELECT state = 'idle' FROM snowflake_status");
    answer_of(&server, "SELECT snowflake_nextval()");
    server.kill_all();
    answer_of(&registry, "SELECT snowflake_registry.release_worker(5)");
}

/// Another server had leased the number, and was stopped as planned before it issued an ID.
#[test]
fn a_copy_is_refused_though_its_number_was_leased_to_servers_that_issued_nothing() {
    let registry = Registry::start();
    let original = start(Cluster::builder().worker(5));
    answer_of(&original, "SELECT snowflake_nextval()");
    let mut blank = blank_and_often_restarted(&registry);
    blank.stop(Signal::INT);
    let mut copy = Cluster::builder().set("snowflake_pg.registry_conninfo", registry.conninfo()).backup_of(&original);
    copy.start();
    copy.wait_until("SELECT lease_until IS NOT NULL FROM snowflake_status");
    let refused = testbed::error(&mut copy.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), "this server is a copy of another one with the same worker ID", "{refused:?}");
}

/// A planned stop makes no difference: nothing was issued.
#[test]
fn a_copy_that_was_refused_is_refused_again_after_a_restart() {
    let registry = Registry::start();
    let original = start(Cluster::builder().worker(5));
    answer_of(&original, "SELECT snowflake_nextval()");
    let mut copy = Cluster::builder().set("snowflake_pg.registry_conninfo", registry.conninfo()).backup_of(&original);
    copy.start();
    for how in [Signal::INT, Signal::KILL] {
        copy.wait_until("SELECT lease_until IS NOT NULL FROM snowflake_status");
        let refused = testbed::error(&mut copy.connect(), "SELECT snowflake_nextval()");
        assert_eq!(refused.message(), "this server is a copy of another one with the same worker ID", "{refused:?}");
        copy.restart(how);
    }
}

/// The whole directory, as a volume is put back: with the inodes of its files.
#[test]
fn a_state_directory_that_is_put_back_to_before_a_renewal_gets_another_worker() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    let (data, kept) = (server.data(), server.make_directory("kept"));
    server.kill_all();
    let mark = fs::read(server.mark_file()).expect("the mark");
    for (file, name) in [("snowflake_pg/lease", "lease"), ("snowflake_pg.life", "life")] {
        fs::hard_link(data.join(file), kept.join(name)).expect("the file itself");
    }
    server.start();
    assert_eq!(worker_of(&server), "1023");
    take_a_thousand(&mut witness, &[&server]);
    server.kill_all();
    fs::write(server.mark_file(), mark).expect("the mark");
    for (file, name) in [("snowflake_pg/lease", "lease"), ("snowflake_pg.life", "life")] {
        fs::rename(kept.join(name), data.join(file)).expect("the file itself");
    }
    server.start();
    assert_eq!(worker_of(&server), "1022", "{}", server.log());
    let warning = "WARNING:  snowflake_pg: the registry does not renew the lease of worker 1023";
    server.wait_for_log(warning);
    take_a_thousand(&mut witness, &[&server]);
    assert_eq!(witness.report().duplicates(), 0);
}
