//! Servers that have their numbers by hand, beside a registry: the registry's own server first of all.

use super::fixture::{OF_NEXT_ID, answer_of, assert_refused, member, numbered, row_of, start, worker_of};
use std::fs;
use std::process::Command;
use testbed::{Builder, Cluster, Installation, Registry, Signal, error, test, value};

/// How a registry is installed.
const WAYS: [&str; 2] = ["the extension", "the script"];

/// Installs a registry on a server, and returns what psql says.
fn install(cluster: &Cluster, way: &str) -> String {
    let mut psql = cluster.psql();
    match way {
        "the extension" => psql.arg("--command=CREATE EXTENSION snowflake_registry"),
        _ => psql.arg("--file").arg(Installation::shared().script("snowflake_registry.sql")),
    };
    let output = psql.output().expect("psql");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn let_servers_in(cluster: Cluster) -> Registry {
    let role = "CREATE ROLE fleet LOGIN IN ROLE snowflake_registry_server";
    cluster.connect().batch_execute(role).expect("a role");
    Registry::on(cluster)
}

/// A server that has a number without the registry, which its own database has.
fn by_hand(worker: u16) -> Builder {
    Cluster::builder().worker(worker)
}

#[test]
fn a_new_registry_leases_its_own_servers_number_to_nobody_and_says_so() {
    for way in WAYS {
        let cluster = start(by_hand(1023));
        let said = install(&cluster, way);
        for line in [
            "NOTICE:  registry leases worker 1023 to no server",
            "DETAIL:  This server has it by snowflake_pg.worker_id = '1023'.",
            "HINT:  Call snowflake_registry.forbid_workers() for all servers that do not use the registry.",
        ] {
            assert!(said.contains(line), "{way}: {said}");
        }
        let registry = let_servers_in(cluster);
        assert_eq!(row_of(&registry, "state", 1023), "forbidden", "{way}");
        assert_eq!(worker_of(&start(member(&registry))), "1022", "{way}");
        let refused = error(&mut start(numbered(&registry, 1023)).connect(), "SELECT snowflake_nextval()");
        let detail = "Registry: Worker 1023 is forbidden. Its comment is \"the worker_id of the registry's server\".";
        assert_eq!(refused.detail(), Some(detail), "{way}");
        assert_eq!(answer_of(&registry, OF_NEXT_ID), "1023", "its own server issues");
    }
}

#[test]
fn a_range_that_is_reserved_leaves_forbidden_workers_and_their_comments() {
    let cluster = start(by_hand(7));
    install(&cluster, "the script");
    let registry = let_servers_in(cluster);
    for rule in ["reserve_workers(0, 15, 'ours')", "forbid_workers(6, 7)"] {
        answer_of(&registry, &format!("SELECT snowflake_registry.{rule}"));
    }
    let of = |worker| ["state", "comment"].map(|column| row_of(&registry, column, worker));
    assert_eq!(of(5), ["reserved", "ours"]);
    assert_eq!(of(6)[0], "forbidden");
    assert_eq!(of(7), ["forbidden", "the worker_id of the registry's server"]);
    answer_of(&registry, "SELECT snowflake_registry.reserve_workers(7)");
    assert_eq!(of(7)[0], "reserved", "by its own number");
}

#[test]
fn an_upgrade_forbids_no_worker_that_was_allowed() {
    let registry = let_servers_in({
        let cluster = by_hand(1023).start();
        install(&cluster, "the script");
        cluster
    });
    answer_of(&registry, "SELECT snowflake_registry.allow_workers(1023)");
    assert_eq!(install(&registry, "the script").matches("NOTICE").count(), 0);
    assert_eq!(row_of(&registry, "state", 1023), "free");
    install(&registry, "the extension");
    assert_eq!(row_of(&registry, "state", 1023), "free");
}

/// It asks for its number.
#[test]
fn a_server_with_a_number_and_its_own_registry_leases_that_number() {
    let mut cluster = start(by_hand(5));
    cluster.configure(
        "snowflake_pg.registry_conninfo",
        format!("host={} user=fleet dbname=postgres", cluster.host().display()),
    );
    cluster.restart(Signal::INT);
    assert_eq!(install(&cluster, "the extension").matches("NOTICE").count(), 0);
    let registry = let_servers_in(cluster);
    assert_eq!(worker_of(&registry), "5");
    assert_eq!(row_of(&registry, "state", 5), "leased");
}

#[test]
fn a_new_registry_leases_the_worker_that_its_own_server_has_from_elsewhere_to_nobody() {
    let twitter = |worker| by_hand(worker).set("snowflake_pg.layout", "twitter").set("snowflake_pg.datacenter_id", "1");
    for (server, worker, sources) in [
        (by_hand(0).set("snowflake_pg.worker_id", "env:POD").environment("POD", "7"), 7, "worker_id = 'env:POD'."),
        (twitter(2), 34, "worker_id = '2' and snowflake_pg.datacenter_id = '1'."),
    ] {
        for way in WAYS {
            let cluster = server.clone().start();
            let said = install(&cluster, way);
            assert!(said.contains(&format!("NOTICE:  registry leases worker {worker} to no server")), "{way}: {said}");
            assert!(said.contains(&format!("by snowflake_pg.{sources}")), "{way}: {said}");
            assert_eq!(row_of(&let_servers_in(cluster), "state", worker), "forbidden", "{way}");
        }
    }
}

/// By a role that owns the database alone, which may not see the connection string.
#[test]
fn a_new_registry_says_nothing_if_its_own_server_has_no_worker_or_leases_it() {
    for (source, conninfo) in [("", ""), ("registry", ""), ("5", "host=/nowhere")] {
        let builder = Cluster::builder().worker(source).set("snowflake_pg.registry_conninfo", conninfo);
        let cluster = builder.start();
        let role = "CREATE ROLE dba LOGIN CREATEROLE; CREATE DATABASE registry OWNER dba";
        role.split("; ").for_each(|statement| cluster.connect().batch_execute(statement).expect("a role"));
        let mut psql = cluster.psql();
        psql.args(["--username=dba", "--dbname=registry", "--command=CREATE EXTENSION snowflake_registry"]);
        let output = psql.output().expect("psql");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && !said.contains("NOTICE"), "{source}: {said}");
    }
}

/// It has no number when the script runs.
#[test]
fn a_new_registry_says_that_it_does_not_know_the_worker_that_its_own_server_will_have_from_citus() {
    let said = install(&Cluster::builder().worker("citus").start(), "the extension");
    assert!(said.contains("NOTICE:  registry does not know the worker of this server"), "{said}");
    assert!(said.contains("snowflake_pg.worker_id = 'citus'"), "{said}");
}

#[test]
fn a_range_that_is_allowed_leaves_the_worker_of_the_registrys_own_server_forbidden() {
    let cluster = start(by_hand(5));
    install(&cluster, "the script");
    let registry = let_servers_in(cluster);
    let call = |call: &str| {
        let output = registry.psql().arg(format!("--command=SELECT snowflake_registry.{call}")).output().expect("psql");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    call("forbid_workers(0, 15)");
    let said = call("allow_workers(0, 15)");
    assert!(said.contains("NOTICE:  worker 5 stays forbidden"), "{said}");
    assert_eq!([4, 5, 6].map(|worker| row_of(&registry, "state", worker)), ["free", "forbidden", "free"]);
    assert_eq!(row_of(&registry, "comment", 5), "the worker_id of the registry's server");
    assert_eq!(call("allow_workers(6, 15)"), "", "a range without it");
    assert_eq!(call("allow_workers(5)"), "", "by its own number");
    assert_eq!(row_of(&registry, "state", 5), "free");
    assert_eq!(call("allow_workers(0, 15)"), "", "it is allowed");
}

/// The dump has a row for the worker that its server had.
#[test]
fn a_dump_of_a_registry_whose_server_has_a_number_is_restored_on_another_server_with_that_number() {
    let [old, new] = [0, 1].map(|_| by_hand(1023).start());
    install(&old, "the extension");
    answer_of(&old, "SELECT snowflake_registry.forbid_workers(0, 15, 'by hand')");
    let mut dump = Command::new(old.bindir().join("pg_dump"));
    let dump = dump.envs(old.environment()).output().expect("pg_dump").stdout;
    let file = new.make_directory("dump").join("dump.sql");
    fs::write(&file, dump).expect("a dump");
    let restored = new.psql().args(["--set=ON_ERROR_STOP=1", "--file"]).arg(&file).output().expect("psql");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let forbidden = "SELECT count(*) FROM snowflake_registry.workers WHERE state = 'forbidden'";
    assert_eq!(answer_of(&new, forbidden), "17");
}

/// Its own server's worker has a row already.
#[test]
fn leases_alone_are_restored_into_a_new_registry_whose_server_has_a_number_once_its_own_row_is_gone() {
    let cluster = by_hand(1023).start();
    install(&cluster, "the extension");
    let registry = let_servers_in(cluster);
    assert_eq!(worker_of(&start(member(&registry))), "1022");
    let mut dump = Command::new(registry.bindir().join("pg_dump"));
    dump.args(["--table=snowflake_registry.lease", "--data-only"]).envs(registry.environment());
    let file = registry.make_directory("dump").join("dump.sql");
    fs::write(&file, dump.output().expect("pg_dump").stdout).expect("a dump");
    let mut psql = registry.psql();
    psql.args(["--set=ON_ERROR_STOP=1", "--command=DROP EXTENSION snowflake_registry"]);
    psql.args(["--command=CREATE EXTENSION snowflake_registry", "--command=TRUNCATE snowflake_registry.lease"]);
    let restored = psql.arg("--file").arg(&file).output().expect("psql");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert_refused(&registry);
}

#[test]
fn workers_are_forbidden_reserved_and_allowed_by_their_first_and_their_last() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    let mut call = |call: &str| value(&mut dba, &format!("SELECT snowflake_registry.{call}::text"));
    let states = "SELECT string_agg(state || ' ' || count || ' ' || comment, ', ' ORDER BY state) FROM (
        SELECT state, count(*), coalesce(min(comment), '-') AS comment FROM snowflake_registry.workers GROUP BY state) AS states";
    call("forbid_workers(0, 15, 'by hand')");
    call("reserve_workers(14, 17)");
    call("forbid_workers(1023)");
    assert_eq!(answer_of(&registry, states), "forbidden 17 by hand, reserved 2 -");
    call("allow_workers(3, 1000)");
    assert_eq!(answer_of(&registry, states), "forbidden 4 by hand, free 15 -");
    assert_eq!(worker_of(&start(member(&registry))), "1022");
    let mut dba = registry.connect();
    let backwards = error(&mut dba, "SELECT snowflake_registry.forbid_workers(5, 4)");
    assert_eq!(
        (backwards.code().code(), backwards.message()),
        ("22023", "last worker must not be less than the first")
    );
    for (first, last) in [(0, 100_000), (18, 100_000), (0, 2_147_483_647)] {
        let many = error(&mut dba, &format!("SELECT snowflake_registry.forbid_workers({first}, {last})"));
        let message = format!("registry has no room for the workers {first} to {last}");
        assert_eq!((many.code().code(), many.message()), ("54000", message.as_str()));
    }
    dba.batch_execute("SELECT snowflake_registry.forbid_workers(0, 99999)").expect("as many as there can be");
}

/// As a program of somebody else's can ask.
#[test]
fn a_message_names_the_holder_of_a_lease_as_far_as_it_has_said_who_it_is() {
    let registry = Registry::start();
    let about = "jsonb_build_object('lease_ms', 60000, 'clock', 0)";
    let claim = format!(
        "SELECT worker_id FROM snowflake_registry.server_claim('{{}}', '11111111-0000-4000-8000-000000000000', 5, 0, 9, NULL, {about})"
    );
    assert_eq!(answer_of(&registry, &claim), "5");
    let refused = error(&mut start(numbered(&registry, 5)).connect(), "SELECT snowflake_nextval()");
    let detail = "Registry: Worker 5 is leased to another server. It is an unknown server. The lease ends at ";
    assert!(refused.detail().is_some_and(|text| text.starts_with(detail)), "{refused:?}");
}
