//! Servers that go over to another layout, one by one, while IDs of both are issued; and to another major version.

use snowflake_core::id::layout::Layout;
use std::process::Command;
use testbed::postgres::Client;
use testbed::{Builder, Cluster, Load, Report, Signal, error, plan, real_time, test, value};

const OLD: &str = "js";
const NEW: &str = "t41 w10 s12 epoch=2024-01-01T00:00:00Z";
/// IDs of the old layout are below it, and those of the new one are not.
const BOUNDARY: i64 = 1 << 53;

const IDS: &str = "SELECT snowflake_nextvals(50)";

/// As docs/layouts.md has it.
const READ_BOTH: &str = "
    CREATE FUNCTION made_at(id bigint) RETURNS timestamptz IMMUTABLE STRICT PARALLEL SAFE
        RETURN CASE WHEN id < 9007199254740992 THEN snowflake_timestamp(id, 'js')
            ELSE snowflake_timestamp(id, 't41 w10 s12 epoch=2024-01-01T00:00:00Z') END";
const FIND_BOTH: &str = "id < 9007199254740992 AND snowflake_within(id, $1, $2, 'js')
    OR snowflake_within(id, $1, $2, 't41 w10 s12 epoch=2024-01-01T00:00:00Z')";

fn start(builder: Builder) -> Cluster {
    let server = builder.start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    server
}

/// Restarts a server with another layout, which it does not use before it is told to.
fn migrate(server: &mut Cluster, layout: &str) {
    server.configure("snowflake_pg.layout", layout);
    server.restart(Signal::INT);
    let mut client = server.connect();
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert!(refused.message().starts_with("the layout has changed since "), "{refused:?}");
    client.batch_execute("SELECT snowflake_accept_mark()").expect("IDs above all old ones");
}

#[test]
fn servers_go_over_to_a_wider_layout_one_by_one_and_issue_no_id_twice() {
    let mut servers = [0, 1, 2].map(|worker| start(Cluster::builder().worker(worker).set("snowflake_pg.layout", OLD)));
    let before = value(&mut servers[0].connect(), "SELECT clock_timestamp()");
    let loads = [0, 1, 2].map(|server| Load::start(&servers[server], 1, IDS));
    for server in &mut servers {
        loads.iter().for_each(Load::wait_for_ids);
        migrate(server, NEW);
    }
    loads.iter().for_each(Load::wait_for_ids);
    let mut report = Report::default();
    loads.into_iter().for_each(|load| report.merge(load.finish()));
    report.assert_unique_and_ordered();
    let old = report.received().filter(|&id| id < BOUNDARY).count();
    assert!(old >= 15_000 && report.ids() - old >= 15_000, "{old} of {} IDs are of the old layout", report.ids());
    read(&mut servers[0].connect(), &report, &before);
}

/// Both kinds of IDs in one table are decoded, and found by their time, by the key's index.
fn read(client: &mut Client, report: &Report, before: &str) {
    client.batch_execute(READ_BOTH).expect("a function");
    client.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)").expect("a table");
    let ids: Vec<_> = report.received().collect();
    client.execute("INSERT INTO orders SELECT unnest($1::bigint[])", &[&ids]).expect("orders");
    client.batch_execute("ANALYZE orders").expect("statistics");
    let all = format!(
        "SELECT count(*) FROM orders WHERE made_at(id) BETWEEN '{before}' AND clock_timestamp() + interval '5 s'"
    );
    assert_eq!(value(client, &all), ids.len().to_string(), "IDs of both layouts have their times");
    let middle = value(client, "SELECT made_at(max(id)) - interval '1 s' FROM orders");
    for (from, until) in [(before, middle.as_str()), (before, "infinity"), (middle.as_str(), "infinity")] {
        let condition = FIND_BOTH.replace("$1", &format!("'{from}'")).replace("$2", &format!("'{until}'"));
        let found = value(client, &format!("SELECT count(*) FROM orders WHERE {condition}"));
        let right = format!("SELECT count(*) FROM orders WHERE made_at(id) >= '{from}' AND made_at(id) < '{until}'");
        assert_eq!(found, value(client, &right), "from {from} until {until}");
    }
    client.batch_execute("SET enable_seqscan = off").expect("a setting");
    let condition = FIND_BOTH.replace("$1", &format!("'{middle}'")).replace("$2", "'infinity'");
    let plan = plan(client, &format!("EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE {condition}"));
    assert!(plan.contains("BitmapOr") && !plan.contains("Filter"), "{plan}");
}

#[test]
fn a_layout_of_62_bits_that_has_ended_is_followed_by_one_of_63_bits() {
    let ended: Layout = "t40 w10 s12 epoch=2026-01-01T00:00:00Z".parse().expect("a layout");
    let mut server = Cluster::builder().worker(1).own_clock().set("snowflake_pg.layout", ended).create();
    server.set_clock((ended.end() - 9000 - real_time()) as f64 / 1000.0);
    server.start();
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let load = Load::start(&server, 1, IDS);
    load.wait_for_ids();
    server.wait_until("SELECT state = 'outside the layout' FROM snowflake_status");
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!((refused.code().code(), refused.message()), ("2200H", "reached the last timestamp of the layout"));
    migrate(&mut server, "t41 w10 s12 epoch=2026-01-01T00:00:00Z");
    load.wait_for_ids();
    let report = load.finish();
    report.assert_unique_and_ordered();
    let (lowest, highest) = report.range().expect("IDs");
    assert!(lowest < 1 << 62 && highest >= 1 << 62, "from {lowest} to {highest}");
}

/// A standby with a state directory of its own finds no mark there, and what is in WAL names no server.
#[test]
fn a_promoted_standby_with_another_layout_issues_nothing_until_that_is_accepted() {
    let node = |layout: &str| Cluster::builder().worker(1).set("snowflake_pg.layout", layout);
    let own_state = |server: &Cluster| {
        server.configure("snowflake_pg.state_directory", server.make_directory("state").display());
    };
    let mut primary = node("twitter").create();
    own_state(&primary);
    primary.start();
    primary.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let of_primary = Load::start(&primary, 1, IDS);
    of_primary.wait_for_ids();
    primary.wait_until("SELECT snowflake_nextval() > 0");
    // Half a minute later, so that it would come to the same IDs soon.
    let mut standby = node("twitter epoch=2010-11-04T01:43:24.657Z").backup_of(&primary);
    own_state(&standby);
    standby.follow(&primary);
    primary.stop(Signal::KILL);
    standby.promote();
    let mut client = standby.connect();
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), "the layout has changed since a server of this database cluster issued IDs");
    let refused = error(&mut client, "SELECT snowflake_accept_mark()");
    assert_eq!(refused.message(), "new IDs could equal old ones because the layout has changed");
    migrate(&mut standby, "twitter epoch=2009-01-01T00:00:00Z");
    let after = Load::start(&standby, 1, IDS);
    after.wait_for_ids();
    let mut report = of_primary.finish();
    let highest_before = report.range().expect("IDs").1;
    let after = after.finish();
    assert!(after.range().expect("IDs").0 > highest_before, "IDs of the new layout are above all old ones");
    report.merge(after);
    assert_eq!(report.duplicates(), 0);
    // It is the layout of the cluster now, also after a crash.
    standby.restart(Signal::KILL);
    value(&mut standby.connect(), "SELECT snowflake_nextval()");
}

/// Twitter's data center 11 and worker 26 are the bits of worker 378 of `flat`.
#[test]
fn a_fleet_goes_from_data_centers_to_one_number_and_back_without_a_person() {
    let twitter =
        || Cluster::builder().worker(26).set("snowflake_pg.layout", "twitter").set("snowflake_pg.datacenter_id", 11);
    let flat =
        || Cluster::builder().worker(378).set("snowflake_pg.layout", "flat").set("snowflake_pg.datacenter_id", 0);
    let mut report = Report::default();
    let mut servers = vec![start(twitter())];
    // A standby with the other name takes over each time.
    for node in [flat(), twitter(), flat()] {
        let primary = servers.last_mut().expect("a server");
        primary.wait_until("SELECT snowflake_nextval() > 0");
        let load = Load::start(primary, 2, IDS);
        load.wait_for_ids();
        let standby = node.standby_of(primary);
        primary.stop(Signal::KILL);
        standby.promote();
        let highest_before = report.range().map_or(0, |(_, last)| last);
        let ids = load.finish();
        ids.assert_unique_and_ordered();
        assert!(ids.range().expect("IDs").0 > highest_before, "above those of the server before");
        report.merge(ids);
        servers.push(standby);
    }
    let mut last = servers.last().expect("a server").connect();
    let highest = report.range().expect("IDs").1;
    assert_eq!(value(&mut last, &format!("SELECT snowflake_nextval() > {highest}")), "t");
    assert_eq!(value(&mut last, "SELECT worker_id FROM snowflake_decode(snowflake_nextval())"), "378");
    assert_eq!(report.duplicates(), 0);
}

/// pg_upgrade brings neither the state file nor the mark in WAL. docs/deployment.md says what to do.
#[test]
fn a_server_that_is_ahead_of_its_clock_goes_through_pg_upgrade_with_its_state_directory() {
    let builder = Cluster::builder().worker(1).set("snowflake_pg.max_borrow", "2min");
    let mut old = start(builder.clone().old());
    let ahead = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + interval '1 min'))";
    old.connect().batch_execute(ahead).expect("a later ID");
    let mut report = take(&old);
    let highest_before = report.range().expect("IDs").1;
    old.stop(Signal::INT);
    let mut new = builder.upgrade_of(&old);
    let copied = Command::new("cp").arg("-a").args([old.data().join("snowflake_pg"), new.data()]).status();
    assert!(copied.expect("cp").success());
    new.start();
    let refused = error(&mut new.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), "the durable mark belongs to another database cluster");
    value(&mut new.connect(), "SELECT snowflake_accept_mark()");
    let after = take(&new);
    assert!(after.range().expect("IDs").0 > highest_before, "IDs go on above those of the old server");
    report.merge(after);
    report.assert_unique_and_ordered();
}

/// What a client has received for a while.
fn take(server: &Cluster) -> Report {
    let load = Load::start(server, 1, IDS);
    load.wait_for_ids();
    load.finish()
}
