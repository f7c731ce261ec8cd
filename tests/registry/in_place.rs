//! A registry that is put back in place, so that its address and its system identifier do not show it.

use super::fixture::{answer_of, assert_refused, member, send_to, start, take_a_thousand, wait_for_renewal, worker_of};
use std::fs;
use std::process::Command;
use testbed::{Cluster, Registry, Signal, Witness, test};

/// What makes a registry, options of pg_dump, and what happens before the restore.
type Case = (fn() -> Registry, &'static [&'static str], &'static str);

const EMPTY: &str = "DELETE FROM snowflake_registry.lease; DELETE FROM snowflake_registry.registry";

#[test]
fn a_schema_of_a_registry_that_is_restored_from_a_dump_gives_no_lost_worker_to_a_new_server() {
    give_no_lost_worker(&[
        (Registry::start, &["--schema=snowflake_registry"], "DROP SCHEMA snowflake_registry CASCADE"),
        (Registry::start, &["--schema=snowflake_registry", "--clean", "--if-exists"], "SELECT 1"),
    ]);
}

#[test]
fn an_extension_of_a_registry_that_is_restored_from_a_dump_gives_no_lost_worker_to_a_new_server() {
    give_no_lost_worker(&[
        (Registry::as_extension, &[], "DROP EXTENSION snowflake_registry"),
        (Registry::as_extension, &["--clean", "--if-exists"], "SELECT 1"),
        // Over a new registry, as an operator creates it.
        (Registry::as_extension, &[], "DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry"),
    ]);
}

#[test]
fn rows_of_a_registry_that_are_restored_from_a_dump_give_no_lost_worker_to_a_new_server() {
    give_no_lost_worker(&[
        (Registry::start, &["--table=snowflake_registry.lease", "--data-only"], "TRUNCATE snowflake_registry.lease"),
        (Registry::start, &["--table=snowflake_registry.lease", "--data-only"], "DELETE FROM snowflake_registry.lease"),
        (Registry::start, &["--schema=snowflake_registry", "--data-only"], EMPTY),
        (Registry::as_extension, &["--data-only"], EMPTY),
    ]);
}

/// Restored into the cluster that it was dumped from: nothing but the tables themselves shows it.
fn give_no_lost_worker(cases: &[Case]) {
    for &(registry, options, before) in cases {
        let registry = registry();
        let dump = pg_dump(&registry, options);
        let old = start(member(&registry));
        assert_eq!(worker_of(&old), "1023");
        let mut witness = Witness::default();
        take_a_thousand(&mut witness, &[&old]);

        restore(&registry, before, &dump);

        // Before the first server asks again, and after.
        assert_refused(&registry);
        old.reload();
        wait_for_renewal(&registry, "1023");
        take_a_thousand(&mut witness, &[&old]);
        answer_of(&registry, "SELECT snowflake_registry.end_recovery()");
        let new = start(member(&registry));
        assert_eq!(worker_of(&new), "1022", "{options:?} after {before}");
        take_a_thousand(&mut witness, &[&new, &old]);
        assert_eq!(witness.report().duplicates(), 0);
    }
}

/// Nothing but the leases of the dump shows that later ones are lost.
#[test]
fn a_new_registry_into_which_leases_are_restored_gives_no_lost_worker_to_a_new_server() {
    let registry = Registry::as_extension();
    let servers = ["1023", "1022"].map(|worker| {
        let server = start(member(&registry));
        assert_eq!(worker_of(&server), worker);
        (server, pg_dump(&registry, &["--table=snowflake_registry.lease", "--data-only"]))
    });
    restore(&registry, "DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry", &servers[0].1);
    assert_refused(&registry);
}

/// A dump sets the sequence at its end, when servers can have asked. A copy of a server would be believed.
#[test]
fn a_lease_gets_a_higher_revision_with_each_renewal_even_if_a_restore_sets_the_sequence_later() {
    let registry = Registry::as_extension();
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "1023");
    let revision = || answer_of(&registry, "SELECT revision FROM snowflake_registry.lease");
    let renew = || {
        let before = revision();
        server.reload();
        registry.wait_until(&format!("SELECT revision <> {before} FROM snowflake_registry.lease"));
    };
    let dump = String::from_utf8(pg_dump(&registry, &[])).expect("a dump");
    (0..4).for_each(|_| renew());
    let (rows, sequence) = dump.split_at(dump.find("SELECT pg_catalog.setval").expect("the sequence"));
    restore(&registry, "DROP EXTENSION snowflake_registry", rows.as_bytes());
    renew();
    let restored = revision();
    answer_of(&registry, sequence.split(';').next().expect("a statement"));
    renew();
    assert_eq!(answer_of(&registry, &format!("SELECT revision > {restored} FROM snowflake_registry.lease")), "t");
}

fn pg_dump(registry: &Registry, options: &[&str]) -> Vec<u8> {
    let mut dump = Command::new(registry.bindir().join("pg_dump"));
    let output = dump.args(options).envs(registry.environment()).output().expect("pg_dump");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Runs a dump after these statements.
fn restore(registry: &Registry, before: &str, dump: &[u8]) {
    let script = registry.make_directory("dump").join("dump.sql");
    fs::write(&script, dump).expect("a script");
    let mut psql = registry.psql();
    psql.args(["--set=ON_ERROR_STOP=1", "--command", before, "--file"]).arg(&script);
    let output = psql.output().expect("psql");
    assert!(output.status.success(), "{before}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A copy of the database has the same tables, in the same files.
#[test]
fn a_registry_that_is_put_back_as_a_copy_of_its_database_gives_no_lost_worker_to_a_new_server() {
    let registry = Registry::start();
    let kept = start(member(&registry));
    assert_eq!(worker_of(&kept), "1023");
    let mut dba = registry.config().dbname("template1").connect(testbed::postgres::NoTls).expect("a session");
    let mut run =
        |statement: &str| dba.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    registry.configure("max_connections", 100);
    run("CREATE DATABASE before TEMPLATE postgres");
    let lost = start(member(&registry));
    assert_eq!(worker_of(&lost), "1022");
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&lost]);
    run("DROP DATABASE postgres WITH (FORCE)");
    run("ALTER DATABASE before RENAME TO postgres");
    assert_refused(&registry);
    lost.reload();
    wait_for_renewal(&registry, "1022");
    take_a_thousand(&mut witness, &[&lost]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// Its storage is put back in place, so that neither its system identifier nor its timeline shows it.
#[test]
fn a_registry_whose_volume_is_put_back_is_noticed_by_what_servers_have_seen() {
    let mut registry = Registry::start();
    registry.stop(Signal::INT);
    let mut older = Registry::on(Cluster::builder().copy_of(&registry));
    registry.start();
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "1023");
    registry.stop(Signal::INT);
    older.start();
    let mut witness = Witness::default();
    send_to(&server, &older);
    wait_for_renewal(&older, "1023");
    take_a_thousand(&mut witness, &[&server]);
    assert_refused(&older);
    assert_eq!(answer_of(&older, "SELECT not_before > 0 FROM snowflake_registry.registry"), "t");
    assert_eq!(witness.report().duplicates(), 0);
}

/// Others have renewed their leases meanwhile, so that its last change has a higher number than the server has seen.
#[test]
fn a_registry_whose_volume_is_put_back_is_noticed_by_the_row_of_a_server_though_it_has_caught_up() {
    let mut registry = Registry::start();
    let other = start(member(&registry));
    let server = start(member(&registry));
    assert_eq!((&*worker_of(&other), &*worker_of(&server)), ("1023", "1022"));
    registry.stop(Signal::INT);
    let mut older = Registry::on(Cluster::builder().copy_of(&registry));
    registry.start();
    let until = answer_of(&server, "SELECT lease_until FROM snowflake_status");
    server.reload();
    server.wait_until(&format!("SELECT lease_until > '{until}' FROM snowflake_status"));
    registry.stop(Signal::INT);
    older.start();
    let seen = "SELECT max(revision) FROM snowflake_registry.lease";
    let before: i64 = answer_of(&older, seen).parse().expect("a revision");
    send_to(&other, &older);
    older.wait_until(&format!("SELECT ({seen}) > {before}"));
    for _ in 0..3 {
        let before = answer_of(&older, seen);
        other.reload();
        older.wait_until(&format!("SELECT ({seen}) > {before}"));
    }
    assert_eq!(answer_of(&older, "SELECT restored_at IS NULL FROM snowflake_registry.status"), "t", "nobody knows");
    let mut witness = Witness::default();
    send_to(&server, &older);
    wait_for_renewal(&older, "1022");
    take_a_thousand(&mut witness, &[&server, &other]);
    assert_refused(&older);
    assert_eq!(witness.report().duplicates(), 0);
}

/// A snapshot of a running registry, whose sequences are ahead after the recovery.
#[test]
fn a_registry_that_is_put_back_to_a_snapshot_is_noticed_though_its_sequence_is_ahead() {
    let mut registry = Registry::start();
    registry.connect().batch_execute("CHECKPOINT").expect("a checkpoint");
    let first = start(member(&registry));
    assert_eq!(worker_of(&first), "1023");
    let older = Cluster::builder().copy_of(&registry);
    std::fs::remove_file(older.data().join("postmaster.pid")).expect("of the original");
    let mut older = Registry::on(older);
    let second = start(member(&registry));
    assert_eq!(worker_of(&second), "1022");
    let before = answer_of(&registry, "SELECT renewed_at FROM snowflake_registry.workers WHERE worker_id = 1023");
    first.reload();
    let renewed = format!("SELECT renewed_at > '{before}' FROM snowflake_registry.workers WHERE worker_id = 1023");
    registry.wait_until(&renewed);
    registry.stop(Signal::INT);
    older.start();
    send_to(&first, &older);
    wait_for_renewal(&older, "1023");
    assert_refused(&older);
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&first, &second]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// Its receipt of the release proves it.
#[test]
fn a_registry_that_was_put_back_while_all_servers_were_stopped_is_noticed() {
    let mut registry = Registry::start();
    registry.stop(Signal::INT);
    let mut older = Registry::on(Cluster::builder().copy_of(&registry));
    registry.start();
    let mut server = start(member(&registry));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    server.stop(Signal::INT);
    registry.stop(Signal::INT);
    older.start();
    server.configure("snowflake_pg.registry_conninfo", older.conninfo());
    server.start();
    older.wait_until("SELECT recovering_until IS NOT NULL FROM snowflake_registry.status");
    assert_refused(&older);
    answer_of(&older, "SELECT snowflake_registry.end_recovery()");
    server.reload();
    worker_of(&server);
    take_a_thousand(&mut witness, &[&server]);
    assert_eq!(witness.report().duplicates(), 0);
}
