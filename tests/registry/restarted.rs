//! Servers that are restarted while the registry recovers: it has failed over, with a loss or without.

use super::fixture::{about, answer_of, cut_off, member, row_of, start, take_a_thousand, worker_of};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use testbed::postgres::NoTls;
use testbed::{Cluster, Registry, Signal, Witness, test, value};

/// A registry with a standby.
struct Pair {
    registry: Registry,
    standby: Cluster,
}

impl Pair {
    fn start(longest_lease: &str) -> Self {
        let registry = Registry::start();
        answer_of(&registry, &format!("SELECT snowflake_registry.set_longest_lease('{longest_lease}')"));
        let standby = Cluster::builder().standby_of(&registry);
        standby.wait_for_commits_of(&registry);
        Self { registry, standby }
    }

    /// A server that reaches the one or the other, and has issued IDs.
    fn start_server(&self, witness: &mut Witness) -> Cluster {
        let hosts = format!("host={},{}", self.registry.host().display(), self.standby.host().display());
        let both = format!("{hosts} user=fleet dbname=postgres target_session_attrs=read-write");
        let server = start(member(&self.registry).set("snowflake_pg.registry_conninfo", &both));
        assert_eq!(worker_of(&server), "1023");
        take_a_thousand(witness, &[&server]);
        server
    }

    fn fail_over(mut self) -> Registry {
        self.registry.stop(Signal::INT);
        self.standby.promote();
        Registry::on(self.standby)
    }
}

/// A server goes on after a restart.
fn assert_restarts(server: &mut Cluster, how: Signal, mut witness: Witness) {
    server.restart(how);
    assert_eq!(worker_of(server), "1023", "{}", server.log());
    take_a_thousand(&mut witness, &[server]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// At once, or after it has renewed its lease.
#[test]
fn a_server_that_is_restarted_after_a_failover_without_a_loss_goes_on() {
    for renews_first in [false, true] {
        let (pair, mut witness) = (Pair::start("1h"), Witness::default());
        let mut server = pair.start_server(&mut witness);
        pair.standby.wait_for_commits_of(&pair.registry);
        let promoted = pair.fail_over();
        if renews_first {
            let before = row_of(&promoted, "renewed_at", 1023);
            server.reload();
            promoted.wait_until(&format!("SELECT renewed_at > '{before}' FROM snowflake_registry.workers"));
        }
        assert_restarts(&mut server, Signal::INT, witness);
        server.wait_for_log("released worker 1023");
    }
}

/// The new primary knows nothing of the lease.
#[test]
fn a_server_that_is_restarted_after_a_failover_with_a_loss_goes_on() {
    for how in [Signal::INT, Signal::KILL] {
        let (pair, mut witness) = (Pair::start("1h"), Witness::default());
        cut_off(&pair.standby, &pair.registry);
        let mut server = pair.start_server(&mut witness);
        let _promoted = pair.fail_over();
        assert_restarts(&mut server, how, witness);
    }
}

/// The host of the old primary answers nothing, as one that is switched off: there is no time for the other one.
#[test]
fn a_server_that_could_not_tell_of_its_stop_after_a_failover_without_a_loss_goes_on() {
    let (pair, mut witness) = (Pair::start("50s"), Witness::default());
    let mut server = pair.start_server(&mut witness);
    pair.standby.wait_for_commits_of(&pair.registry);
    let Pair { mut registry, standby } = pair;
    registry.stop(Signal::INT);
    standby.promote();
    let promoted = Registry::on(standby);
    let socket = registry.host().join(".s.PGSQL.5432");
    let _dark = UnixListener::bind(&socket).expect("a socket");
    fs::set_permissions(&socket, Permissions::from_mode(0o777)).expect("a socket that all may use");
    // Another server notices the failover, longer ago than the margin of a restore.
    answer_of(&promoted, "SELECT snowflake_registry.server_hello(NULL, NULL, NULL, NULL, NULL)");
    promoted.wait_until("SELECT restored_at < now() - interval '8 s' FROM snowflake_registry.status");
    assert_restarts(&mut server, Signal::INT, witness);
    server.wait_for_log("could not tell the registry that worker 1023");
}

/// It asks for more than it gets.
#[test]
fn a_server_whose_leases_are_shorter_than_it_asks_for_goes_on_after_a_failover() {
    let pair = Pair::start("30s");
    let server = pair.start_server(&mut Witness::default());
    pair.standby.wait_for_commits_of(&pair.registry);
    let promoted = pair.fail_over();
    server.reload();
    promoted.wait_until(
        "SELECT renewed_at > (SELECT restored_at FROM snowflake_registry.status) FROM snowflake_registry.workers",
    );
}

/// As a hook of a promotion does.
#[test]
fn a_recovery_that_is_ended_before_a_server_has_asked_does_not_begin_then() {
    let promoted = Pair::start("1h").fail_over();
    answer_of(&promoted, "SELECT snowflake_registry.end_recovery()");
    assert_eq!(worker_of(&start(member(&promoted))), "1023");
}

/// A proxy keeps a renewal of a server. The server stops, and another one gets the worker. Then the registry fails
/// over, loses that, and gets the renewal.
#[test]
fn a_renewal_that_arrives_after_a_failover_gives_no_worker_to_a_server_that_has_lost_it() {
    let Pair { registry, standby } = Pair::start("1h");
    let [first, second, third, other] = [1, 2, 3, 4].map(|nth| format!("{nth:08}-0000-4000-8000-000000000000"));
    let ask = |registry: &Registry, call: &str| {
        let mut client = registry.config().user("fleet").connect(NoTls).expect("a session");
        value(&mut client, &format!("SELECT granted_until FROM snowflake_registry.server_{call}"))
    };
    let about = about(60_000);
    let claim = |new: &str| format!("claim('{{}}', '{new}', NULL, 0, 0, NULL, {about})");
    let renew =
        |old: &str, held: &str, new: &str| format!("renew('{{{old}, {new}}}', '{new}', {held}, '', 0, 0, {about})");
    let held = ask(&registry, &claim(&first));
    standby.wait_for_commits_of(&registry);
    cut_off(&standby, &registry);
    let lowered = answer_of(&registry, "SELECT snowflake_registry.unix_ms(now())");
    let release = format!("release('{{{first}}}', '{third}', {held}, '', 0, 0, {lowered}, {about})");
    assert_eq!(ask(&registry, &release), lowered);
    assert_ne!(ask(&registry, &claim(&other)), "NULL", "another server has the worker");
    let promoted = Pair { registry, standby }.fail_over();
    assert_ne!(ask(&promoted, &renew(&first, &held, &second)), "NULL", "it was the holder, as far as is known");
    for known in [&first, &second] {
        assert_eq!(ask(&promoted, &renew(known, &lowered, &third)), "NULL", "the server has stopped there");
    }
}

/// Nobody heard of its planned stop, for which it gave up a part of the lease. So it has no receipt.
#[test]
fn a_server_that_presents_less_than_its_lease_without_a_receipt_goes_on_after_a_failover() {
    let Pair { registry, standby } = Pair::start("1h");
    let [first, second] = [1, 2].map(|nth| format!("{nth:08}-0000-4000-8000-000000000000"));
    let ask = |registry: &Registry, call: &str| {
        let mut client = registry.config().user("fleet").connect(NoTls).expect("a session");
        value(&mut client, &format!("SELECT granted_until FROM snowflake_registry.server_{call}"))
    };
    let about = about(60_000);
    let granted = ask(&registry, &format!("claim('{{}}', '{first}', NULL, 0, 0, NULL, {about})"));
    standby.wait_for_commits_of(&registry);
    let promoted = Pair { registry, standby }.fail_over();
    let renew = |held: &str| format!("renew('{{{first}, {second}}}', '{second}', {held}, '', 0, 0, {about})");
    assert_eq!(ask(&promoted, &renew(&format!("{granted} + 1"))), "NULL", "more than it was granted");
    assert_ne!(ask(&promoted, &renew(&format!("{granted} - 1"))), "NULL", "less");
}

/// The first renewal after the restart is done, and its answer is lost.
#[test]
fn a_server_that_was_restarted_after_a_failover_may_ask_twice() {
    let pair = Pair::start("1h");
    let [first, second, third, fourth] = [1, 2, 3, 4].map(|nth| format!("{nth:08}-0000-4000-8000-000000000000"));
    let about = about(60_000);
    let ask = |registry: &Registry, call: &str| {
        let mut client = registry.config().user("fleet").connect(NoTls).expect("a session");
        value(
            &mut client,
            &format!(
                "SELECT concat_ws(', ', granted_until, quote_literal(receipt), 0, revision) FROM snowflake_registry.server_{call}"
            ),
        )
    };
    let renew = |old: &str, new: &str, held: &str| format!("renew('{{{old}, {new}}}', '{new}', {held}, {about})");
    let claimed = ask(&pair.registry, &format!("claim('{{}}', '{first}', NULL, 0, 0, NULL, {about})"));
    pair.standby.wait_for_commits_of(&pair.registry);
    let promoted = pair.fail_over();
    let renewed = ask(&promoted, &renew(&first, &second, &claimed));
    let lowered = answer_of(&promoted, "SELECT snowflake_registry.unix_ms(now())");
    let released =
        ask(&promoted, &format!("release('{{{second}, {third}}}', '{third}', {renewed}, {lowered}, {about})"));
    assert!(released.starts_with(&lowered), "{released}");
    for _ in 0..2 {
        assert_ne!(ask(&promoted, &renew(&third, &fourth, &released)), "0", "the registry has answered since");
    }
}
