//! Whether two servers have issued the same IDs, by what they know of their lives.

use super::fixture::{conninfo, member, start};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;
use testbed::postgres::Client;
use testbed::{Cluster, Load, Registry, Report, Signal, error, expect_duplicates, sleep_past, test, value};

const IDS: &str = "SELECT snowflake_nextval() FROM generate_series(1, 100)";

fn ids(server: &Cluster) -> Report {
    let load = Load::start(server, 2, IDS);
    load.wait_for_ids();
    load.finish()
}

/// The first column of each row of a query.
fn column(client: &mut Client, query: &str) -> Vec<String> {
    let rows = client.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    rows.iter().map(|row| row.get::<_, Option<String>>(0).unwrap_or_default()).collect()
}

/// What a server says of a fleet: the results, and the details where there are any.
fn audit(by: &Cluster, fleet: &[&Cluster]) -> (Vec<String>, String) {
    let fleet: Vec<_> = fleet.iter().map(|server| conninfo(server)).collect();
    let rows = by.connect().query("SELECT result, detail FROM snowflake_audit($1)", &[&fleet]).expect("an audit");
    let results = rows.iter().map(|row| row.get(0)).collect();
    let details: Vec<_> = rows.iter().filter_map(|row| row.get::<_, Option<String>>(1)).collect();
    (results, details.join("\n"))
}

#[test]
fn each_life_says_from_when_to_when_it_has_issued_ids() {
    let mut server = start(member(7));
    let mut reports = vec![ids(&server)];
    for how in [Signal::INT, Signal::QUIT, Signal::KILL] {
        server.restart(how);
        reports.push(ids(&server));
    }
    let mut client = server.connect();
    assert_eq!(
        column(&mut client, "SELECT state FROM snowflake_lives() ORDER BY number"),
        ["stopped", "stopped", "crashed", "running"]
    );
    assert_eq!(
        column(&mut client, "SELECT reason FROM snowflake_lives() ORDER BY number"),
        ["no mark", "restart", "restart", "restart"]
    );
    for (number, report) in (1..).zip(&reports) {
        let (lowest, highest) = report.range().expect("IDs");
        let covered = format!(
            "SELECT begins_at <= snowflake_timestamp({lowest}) AND reserved_until > snowflake_timestamp({highest})
                AND (state = 'crashed' OR issued_until = snowflake_timestamp({highest}) + interval '1 ms')
             FROM snowflake_lives() WHERE number = {number} AND is_own AND worker_id = 7"
        );
        let explained = value(&mut client, &format!("SELECT snowflake_explain({lowest})"));
        assert_eq!(explained.matches("of this server, began").count(), 1, "{explained}");
        assert_eq!(
            value(&mut client, &covered),
            "t",
            "{:?}",
            column(&mut client, "SELECT l::text FROM snowflake_lives() l")
        );
    }
}

#[test]
fn a_fleet_in_which_nothing_has_repeated_is_told_so() {
    let [mut one, two] = [7, 8].map(|worker| start(member(worker)));
    for server in [&one, &two] {
        ids(server);
    }
    one.restart(Signal::KILL);
    ids(&one);
    let (results, details) = audit(&one, &[&two]);
    assert_eq!(results, ["no overlap"; 3], "{details}");
    assert_eq!(details, "3 lives of 2 servers, no overlaps");
}

/// A copy with the worker of its original, which somebody has accepted.
#[test]
fn the_audit_finds_a_copy_that_has_issued_the_same_ids_as_its_original() {
    let original = start(member(7));
    let copy = Cluster::builder().backup_of(&original);
    let mut copy = copy;
    copy.start();
    copy.connect().batch_execute("SELECT snowflake_accept_mark()").expect("a mark");
    let mut all = ids(&copy);
    let (_, highest) = all.range().expect("IDs");
    sleep_past(testbed::issued_at(highest) + 1000);
    let loads = [&original, &copy].map(|server| Load::start(server, 2, IDS));
    loads.iter().for_each(Load::wait_for_ids);
    std::thread::sleep(std::time::Duration::from_millis(500));
    loads.into_iter().for_each(|load| all.merge(load.finish()));
    assert!(all.duplicates() > 0, "the test shows nothing");
    expect_duplicates();

    let (results, details) = audit(&original, &[&copy]);
    assert_eq!(results[..2], ["overlap", "overlap"], "{details}");
    assert!(details.contains("life"), "{details}");
}

#[test]
fn what_an_audit_could_not_see_is_no_silent_yes() {
    let mut primary = start(member(7).with_defaults());
    ids(&primary);
    let standby = Cluster::builder().standby_of(&primary);
    ids(&primary);
    primary.stop(Signal::KILL);
    standby.promote();
    ids(&standby);
    let other = start(member(8));
    let (results, details) = audit(&standby, &[&other]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("was not asked"), "{details}");

    primary.start();
    let (results, details) = audit(&standby, &[&other, &primary]);
    assert_eq!(results[0], "no overlap", "{details}");

    let nobody = "SELECT result FROM snowflake_audit(ARRAY['host=/nowhere dbname=postgres'])";
    assert_eq!(column(&mut other.connect(), nobody)[0], "not seen");
    let none = error(&mut other.connect(), "SELECT snowflake_audit()");
    assert_eq!(none.code().code(), "22023", "{none:?}");
    let mut client = other.connect();
    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    assert_eq!(error(&mut client, nobody).code().code(), "42501");
    client
        .batch_execute("RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_audit TO app; SET ROLE app")
        .expect("a grant");
    assert_eq!(error(&mut client, nobody).message(), "password is required");
}

#[test]
fn the_registry_of_a_fleet_says_which_servers_were_not_asked() {
    let registry = Registry::start();
    let leased = || member(0).worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    let [one, two] = [(), ()].map(|()| start(leased()));
    for server in [&one, &two] {
        ids(server);
    }
    let (results, details) = audit(&one, &[&registry]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("has leased worker"), "{details}");
    let (results, details) = audit(&one, &[&registry, &two]);
    assert_eq!(results[0], "no overlap", "{details}");

    // Whoever owns the view could do anything as the superuser who reads it.
    let steal = "CREATE ROLE mallory CREATEROLE; ALTER VIEW snowflake_registry.workers OWNER TO mallory";
    registry.connect().batch_execute(steal).expect("an owner");
    let (results, details) = audit(&one, &[&registry, &two]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("belongs neither to a superuser"), "{details}");
}

/// A clone of a machine has the files of its original, and so the inodes by which a server knows its own.
#[test]
fn the_audit_finds_a_clone_that_takes_itself_for_its_original() {
    let original = start(member(7));
    ids(&original);
    let mut clone = Cluster::builder().backup_of(&original);
    let path = clone.data().join("snowflake_pg.trace");
    let mut bytes = fs::read(&path).expect("a trace");
    let about = fs::metadata(&path).expect("a file");
    let born = about.created().expect("a birth").duration_since(UNIX_EPOCH).expect("a time");
    bytes[24..32].copy_from_slice(&about.ino().to_le_bytes());
    bytes[32..40].copy_from_slice(&u64::try_from(born.as_nanos()).expect("a time").to_le_bytes());
    fs::write(&path, bytes).expect("own file");
    clone.start();
    clone.connect().batch_execute("SELECT snowflake_accept_mark()").expect("a mark");
    ids(&clone);
    let (results, details) = audit(&original, &[&clone]);
    assert_eq!(results[0], "overlap", "{details}");
    assert!(details.contains("takes itself for the same server"), "{details}");
    let (results, details) = audit(&original, &[&original, &original]);
    assert_eq!(results[0], "no overlap", "a server that is listed twice: {details}");
}
