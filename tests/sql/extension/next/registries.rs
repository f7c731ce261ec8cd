//! Servers and their registry, of two versions, in every order of restarts: before, while and after the registry is
//! updated.

use super::Version::{self, Next, This};
use super::formats::ONLY_NEXT;
use super::walk::walk;
use super::{install, restart, update};
use testbed::{Builder, Cluster, Load, Registry, Report, Signal, Witness, error, test, value};

/// Which libraries two servers run.
type Libraries = [Version; 2];

#[derive(Clone, Copy, Debug)]
enum Move {
    /// A server goes to the other version.
    Server(usize),
    /// The registry's server is restarted, by a crash.
    Registry,
}

fn leads_to(mut here: Libraries, this: Move) -> Option<Libraries> {
    if let Move::Server(nth) = this {
        here[nth] = here[nth].other();
    }
    Some(here)
}

fn member(registry: &Registry) -> Builder {
    let member = Cluster::builder().worker("registry").own_installation();
    member.set("snowflake_pg.registry_conninfo", registry.conninfo())
}

fn registry() -> Registry {
    Registry::extension_on(Cluster::builder().own_installation())
}

/// A server renews its lease when it is asked to, and issues IDs.
fn leases(server: &Cluster, registry: &Registry, witness: &mut Witness) {
    let now = value(&mut registry.connect(), "SELECT now()");
    server.reload();
    server.wait_until("SELECT worker_id IS NOT NULL AND lease_until > now() FROM snowflake_status");
    let worker = value(&mut server.connect(), "SELECT worker_id FROM snowflake_status");
    let renewed = format!("SELECT renewed_at > '{now}' FROM snowflake_registry.lease WHERE worker_id = {worker}");
    registry.wait_until(&renewed);
    server.wait_until("SELECT registry_error IS NULL AND problem IS NULL FROM snowflake_status");
    witness.connect(server);
    witness.ask("SELECT snowflake_nextvals(1000)").unwrap_or_else(|error| panic!("{error:?}: {}", server.log()));
}

#[test(By("make suite NAME=next"))]
fn servers_of_two_versions_lease_and_renew_at_registries_of_both_in_every_order_of_restarts() {
    let mut registry = registry();
    let mut servers = [0, 1].map(|_| member(&registry).start());
    for server in &servers {
        server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    }
    // A server that is restarted may get another worker, whose IDs are in an order of their own.
    let mut witnesses = [Witness::default(), Witness::default()];
    let mut here = [This; 2];
    for script in [This, Next] {
        if script == Next {
            registry = updated(registry, &servers);
        }
        let version = u8::from(script == Next) + 1;
        assert_eq!(value(&mut registry.connect(), "SELECT snowflake_registry.version()"), version.to_string());
        let moves = [Move::Registry, Move::Server(0), Move::Server(1)];
        here = walk(here, &moves, leads_to, |here, this| {
            match this {
                Move::Registry => registry.restart(Signal::KILL),
                Move::Server(nth) => {
                    let how = if here[nth] == This { Signal::INT } else { Signal::KILL };
                    restart(&mut servers[nth], here[nth].other(), how);
                }
            }
            for (server, witness) in servers.iter().zip(&mut witnesses) {
                leases(server, &registry, witness);
            }
        });
    }
    let mut report = Report::default();
    witnesses.into_iter().for_each(|witness| report.merge(witness.report()));
    assert_eq!(report.duplicates(), 0, "of {} IDs", report.ids());
}

/// Updates the registry while servers issue IDs, and wait for it with a renewal.
fn updated(registry: Registry, servers: &[Cluster; 2]) -> Registry {
    let loads = servers.each_ref().map(|server| Load::start(server, 1, "SELECT snowflake_nextval()"));
    install(&registry, Next);
    let mut dba = registry.connect();
    dba.batch_execute("BEGIN; ALTER EXTENSION snowflake_registry UPDATE").expect("an update");
    servers.iter().for_each(Cluster::reload);
    registry.wait_until("SELECT count(DISTINCT pid) >= 2 FROM pg_locks WHERE NOT granted");
    dba.batch_execute("COMMIT").expect("an update");
    for (server, load) in servers.iter().zip(loads) {
        leases(server, &registry, &mut Witness::default());
        load.wait_for_ids();
        let report = load.finish();
        assert_eq!(
            (report.errors().len(), report.duplicates(), report.inversions()),
            (0, 0, 0),
            "{:?}",
            report.errors()
        );
    }
    // It was not taken for a restore, after which no other server gets a worker for an hour.
    assert_eq!(value(&mut registry.connect(), "SELECT restored_at FROM snowflake_registry.registry"), "0");
    registry
}

#[test(By("make suite NAME=next"))]
fn a_server_that_needs_the_next_registry_says_so_to_this_one_and_goes_on_when_it_is_updated() {
    let registry = registry();
    let mut server = member(&registry).environment(ONLY_NEXT, "REGISTRY").start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let mut witness = Witness::default();
    leases(&server, &registry, &mut witness);
    // What is left of its lease when it stops, it may use.
    restart(&mut server, Next, Signal::INT);
    let ended = "registry_error <> '' AND coalesce(lease_until, 'epoch') < clock_timestamp()";
    server.wait_until(&format!("SELECT {ended} FROM snowflake_status"));
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "55000", "{refused:?}");
    let told = format!("{:?} {:?}", refused.detail(), refused.hint());
    for words in ["The registry has version 1, and this server needs 2", "ALTER EXTENSION snowflake_registry UPDATE"] {
        assert!(told.contains(words), "{refused:?}");
    }
    install(&registry, Next);
    update(&registry, "snowflake_registry");
    leases(&server, &registry, &mut witness);
    let report = witness.report();
    assert_eq!(report.duplicates(), 0, "of {} IDs", report.ids());
}

/// Without the extension, up and down again.
#[test(By("make suite NAME=next"))]
fn the_script_of_the_next_registry_upgrades_this_one_and_this_ones_is_refused_from_then_on() {
    let registry = Registry::start_as(Cluster::builder().own_installation());
    let server = member(&registry).start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let mut witness = Witness::default();
    leases(&server, &registry, &mut witness);
    for package in [Next, This, Next] {
        install(&registry, package);
        let refusal = "registry has version 2, which is newer than this script";
        let said = registry.run_script();
        assert_eq!((said.is_empty(), said.contains(refusal)), (package == Next, package == This), "{said}");
        assert_eq!(value(&mut registry.connect(), "SELECT snowflake_registry.version()"), "2");
        leases(&server, &registry, &mut witness);
    }
    registry.connect().batch_execute("CREATE EXTENSION snowflake_registry").expect("the extension");
    leases(&server, &registry, &mut witness);
    let report = witness.report();
    assert_eq!((report.duplicates(), report.inversions()), (0, 0), "of {} IDs", report.ids());
}
