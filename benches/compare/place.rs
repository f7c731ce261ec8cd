//! What it costs that an ID decides where its row is: to route a row by an operator class, beside PostgreSQL's own
//! hash, and to find an ID for one of n hash partitions.
//!
//! Routing: rows of nothing but an ID go into unlogged tables without an index, so that little else is measured. The
//! hash by itself is that of `decoding`: many calls, less the same without the function.
//!
//! Finding: without a tag in the layout, a call looks at position after position, n of them on average, and spends
//! them. With a tag it looks at tags, and spends one. CPU time is that of calls that never wait for the clock: without
//! a tag, in a layout with a million IDs a tick. IDs a second are those that all clients get, and n is what limits
//! them.

use crate::contenders::calls;
use crate::effort::Effort;
use crate::measure::{Backend, number, rounds};
use crate::pgbench::{Clients, Until};
use crate::servers::Servers;
use crate::settings::Setting;
use bench_report::{Better, Question, Report};

const ROUTING: Question = Question {
    part: "place",
    case: "CPU time of one row of an ID, INSERT ... SELECT, 8 partitions",
    unit: "ns",
    better: Better::Lower,
    reference: "PARTITION BY HASH (id)",
};
const HASH: Question = Question { case: "CPU time of one hash", reference: "hashint8extended(i, 0)", ..ROUTING };
const FINDING: Question =
    Question { case: "CPU time of one ID of snowflake_nextval_for_shard(n, 0)", reference: FLAT, ..ROUTING };
const SPENT: Question = Question { case: "Positions that one of these IDs spends", unit: "positions", ..FINDING };
const RATE: Question = Question {
    case: "These IDs of all clients a second",
    unit: "IDs/s",
    better: Better::Higher,
    reference: "flat, 1 client",
    ..ROUTING
};

const FLAT: &str = "flat";
const TAGGED: &str = "t41 w5 s9 h8";
/// n.
const MODULI: [u64; 5] = [1, 2, 8, 32, 128];

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    hash(servers, effort, report);
    route(servers, effort, report);
    for (name, setting) in [(FLAT, Setting::Wide), (TAGGED, Setting::Tagged)] {
        find(servers, effort, report, name, setting);
    }
    for (name, setting) in [(FLAT, Setting::Default), (TAGGED, Setting::Tagged)] {
        spend(servers, effort, report, name, setting);
    }
    saturate(servers, effort, report);
}

fn hash(servers: &Servers, effort: Effort, report: &mut Report) {
    const CALLS: u32 = 100_000;
    const HASHES: [&str; 3] = [HASH.reference, "snowflake_flat_worker_hash_extended(i, 0)", "snowflake_shard_of(i, 8)"];
    let mut backend = Backend::of_setting(servers, Setting::Default);
    let series = format!("generate_series(1541815603606036480, 1541815603606036480 + {CALLS} - 1) i");
    let prepare = |counted| backend.client.prepare(&format!("SELECT count({counted}) FROM {series}")).expect("a query");
    let mut statements = ["i", HASHES[0], HASHES[1], HASHES[2]].map(prepare);
    let costs = rounds(effort.pick(25, 5), &mut statements, |statement| backend.cost(statement, 4, CALLS));
    for (hash, values) in HASHES.into_iter().zip(&costs[1..]) {
        report.add(&HASH, hash, values.iter().zip(&costs[0]).map(|(cost, the_loop)| cost - the_loop).collect());
    }
}

fn route(servers: &Servers, effort: Effort, report: &mut Report) {
    const WAYS: [(&str, &str, &str); 3] = [
        (ROUTING.reference, "by_hash", "PARTITION BY HASH (id)"),
        ("PARTITION BY HASH (id by_sequence)", "by_field", "PARTITION BY HASH (id by_sequence)"),
        ("not partitioned", "whole", ""),
    ];
    let rows = effort.pick(500_000, 50_000);
    let mut backend = Backend::of_setting(servers, Setting::Default);
    let fill = format!("CREATE TABLE ids AS SELECT snowflake_nextval() AS id FROM generate_series(1, {rows})");
    backend.client.batch_execute(&fill).expect("IDs");
    let mut statements = WAYS.map(|(_, table, clause)| {
        let unlogged = if clause.is_empty() { "UNLOGGED" } else { "" };
        let mut create = format!("CREATE {unlogged} TABLE {table} (id bigint NOT NULL) {clause}");
        for nth in (0..8).filter(|_| !clause.is_empty()) {
            let values = format!("FOR VALUES WITH (MODULUS 8, REMAINDER {nth})");
            create += &format!("; CREATE UNLOGGED TABLE {table}_{nth} PARTITION OF {table} {values}");
        }
        backend.client.batch_execute(&create).expect("a table");
        (table, backend.client.prepare(&format!("INSERT INTO {table} SELECT id FROM ids")).expect("a statement"))
    });
    let costs = rounds(effort.pick(15, 3), &mut statements, |(table, statement)| {
        let cost = backend.cost(statement, 1, rows);
        backend.client.batch_execute(&format!("TRUNCATE {table}")).expect("no rows");
        cost
    });
    for ((way, ..), values) in WAYS.into_iter().zip(costs) {
        report.add(&ROUTING, way, values);
    }
    backend.client.batch_execute("DROP TABLE ids, by_hash, by_field, whole").expect("no tables");
}

fn find(servers: &Servers, effort: Effort, report: &mut Report, name: &'static str, setting: Setting) {
    // A tick of the layout with a tag has 512.
    const CALLS: u32 = 500;
    let mut backend = Backend::of_setting(servers, setting);
    let mut statements = vec![backend.client.prepare(&calls("i", CALLS)).expect("a statement")];
    for modulus in MODULI {
        let expression = format!("snowflake_nextval_for_shard({modulus}, 0)");
        statements.push(backend.client.prepare(&calls(&expression, CALLS)).expect("a statement"));
    }
    let times = effort.pick(80, 20);
    let costs = rounds(effort.pick(15, 3), &mut statements, |statement| backend.cost(statement, times, CALLS));
    for (modulus, values) in MODULI.into_iter().zip(&costs[1..]) {
        let values = values.iter().zip(&costs[0]).map(|(cost, the_loop)| cost - the_loop).collect();
        report.add_at(&FINDING, name, modulus, values);
    }
}

/// From the first ID of a tick to its last.
fn spend(servers: &Servers, effort: Effort, report: &mut Report, name: &'static str, setting: Setting) {
    let mut client = servers.connect(setting);
    for modulus in MODULI {
        let count = effort.pick(100_000, 10_000);
        let spent = number(
            &mut client,
            &format!(
                "SELECT sum(highest - lowest)::float8 / sum(others)
                 FROM (SELECT count(*) - 1 AS others, min(sequence) AS lowest, max(sequence) AS highest
                       FROM (SELECT snowflake_nextval_for_shard({modulus}, 0) AS id FROM generate_series(1, {count})) ids,
                            snowflake_decode(id)
                       GROUP BY issued_at) ticks"
            ),
        );
        report.add_at(&SPENT, name, modulus, vec![spent]);
    }
}

fn saturate(servers: &Servers, effort: Effort, report: &mut Report) {
    let mut cases = Vec::new();
    for (name, setting, count) in [
        (RATE.reference, Setting::Default, 1),
        ("flat, 4 clients", Setting::Default, 4),
        ("t41 w5 s9 h8, 1 client", Setting::Tagged, 1),
        ("t41 w5 s9 h8, 4 clients", Setting::Tagged, 4),
    ] {
        cases.extend(effort.pick(MODULI.to_vec(), vec![8]).into_iter().map(|modulus| (name, setting, count, modulus)));
    }
    let rates = rounds(effort.pick(3, 1), &mut cases, |&mut (_, setting, count, modulus)| {
        let statement = calls(&format!("snowflake_nextval_for_shard({modulus}, 0)"), 1000);
        let cluster = servers.cluster(setting);
        Clients { cluster, count, statement: &statement, until: Until::Seconds(1) }.rate() * 1000.0
    });
    for ((name, _, _, modulus), values) in cases.into_iter().zip(rates) {
        report.add_at(&RATE, name, modulus, values);
    }
}
