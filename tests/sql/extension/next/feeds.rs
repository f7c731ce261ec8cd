//! Servers of each pair beside each other: one feed of their rows, and what they ask each other.

use super::Version::{Next, This};
use super::pairs::{PAIRS, Pair};
use super::{install, restart, update};
use crate::feed::{Fleet, insert, read_all, start, wait_for_rows};
use testbed::{Cluster, Signal, need_extension, test, value, version_of};

/// A server of each pair, with workers from 1 on.
fn servers() -> Vec<Cluster> {
    (1..).zip(PAIRS).map(|(worker, pair)| of(worker, pair)).collect()
}

fn of(worker: u16, pair: Pair) -> Cluster {
    let mut server = start(Cluster::builder().worker(worker).own_installation());
    if pair.script == Next {
        restart(&mut server, Next, Signal::INT);
        update(&server, "snowflake_pg");
    }
    restart(&mut server, pair.library, Signal::INT);
    server
}

#[test(By("make suite NAME=next"))]
fn servers_of_all_pairs_audit_and_check_each_other() {
    let servers = servers();
    for server in &servers {
        insert(server, &["row"]);
    }
    for (server, pair) in servers.iter().zip(PAIRS) {
        let others = servers.iter().filter(|other| other.host() != server.host());
        let others: Vec<_> =
            others.map(|other| format!("host={} user=postgres dbname=postgres", other.host().display())).collect();
        let mut client = server.connect();
        let audit = client.query("SELECT * FROM snowflake_audit_fleet($1)", &[&others]).expect("an audit");
        let results: Vec<String> = audit.iter().map(|row| row.get("result")).collect();
        // One for the fleet, and one for each worker.
        assert_eq!(results, ["no overlap"; 5], "asked by {pair:?}: {audit:?}");
        let check = "SELECT server, problem FROM snowflake_check_fleet($1) WHERE problem IS NOT NULL";
        let problems = client.query(check, &[&others]).expect("a check");
        assert!(problems.is_empty(), "asked by {pair:?}: {problems:?}");
    }
}

/// The reader's script goes up in the middle, and its package down again; each server changes its library.
#[test(By("make suite NAME=next"))]
fn one_feed_of_servers_of_all_pairs_goes_on_while_its_reader_and_they_change_versions() {
    need_extension("dblink");
    let mut fleet = Fleet::read_by(Cluster::builder().own_installation(), servers());
    for nth in 0..PAIRS.len() {
        fleet.add(nth);
    }
    let mut client = fleet.reader.connect();
    for turn in ["both", "reader", "servers", "back"] {
        match turn {
            "reader" => {
                install(&fleet.reader, Next);
                update(&fleet.reader, "snowflake_feed");
                let updated = "SELECT extversion FROM pg_extension WHERE extname = 'snowflake_feed'";
                assert_ne!(value(&mut client, updated), version_of("snowflake_feed"));
            }
            "servers" => {
                for (server, pair) in fleet.members.iter_mut().zip(PAIRS) {
                    restart(server, pair.library.other(), Signal::KILL);
                }
            }
            "back" => install(&fleet.reader, This),
            _ => {}
        }
        let notes: Vec<_> = (0..PAIRS.len()).map(|nth| format!("{turn}{nth}")).collect();
        for (server, note) in fleet.members.iter().zip(&notes) {
            insert(server, &[note]);
        }
        wait_for_rows(&mut client, &notes.join(" "));
        assert_eq!(read_all(&mut client), "", "{turn}");
    }
}
