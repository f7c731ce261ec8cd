//! Whether two servers have issued the same IDs, by what they know of their lives.

mod accepted;
mod clones;
mod unseen;

use super::fixture::{conninfo, member, start};
use std::fs;
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
    let rows = by.connect().query("SELECT result, detail FROM snowflake_audit_fleet($1)", &[&fleet]).expect("an audit");
    let results = rows.iter().map(|row| row.get(0)).collect();
    let details: Vec<_> = rows.iter().filter_map(|row| row.get::<_, Option<String>>(1)).collect();
    (results, details.join("\n"))
}

/// Has a server tell other servers of these lives.
fn have_told(server: &Cluster, lives: &str) {
    let script = format!(
        "ALTER EXTENSION snowflake_pg DROP FUNCTION snowflake_lives_for_servers(integer);
         DROP FUNCTION snowflake_lives_for_servers(integer);
         CREATE FUNCTION snowflake_lives_for_servers(integer) RETURNS SETOF jsonb LANGUAGE sql AS $$ {lives} $$;
         ALTER EXTENSION snowflake_pg ADD FUNCTION snowflake_lives_for_servers(integer)"
    );
    server.connect().batch_execute(&script).expect("a function");
}

/// What a server tells others of its first life.
fn life_of(server: &Cluster) -> String {
    column(&mut server.connect(), "SELECT told::text FROM snowflake_lives_for_servers(1) AS told").swap_remove(0)
}

/// In how many lives of its server an explained ID can be.
fn lives_in(explained: &str) -> usize {
    let lives = explained.split(" of this server (").skip(1);
    lives.filter(|life| life.contains("), started 20") && life.contains("Z, IDs from 20")).count()
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
                AND told->'jumped_at' = '0'
                AND (state = 'crashed'
                     OR (told->'issued_until')::bigint = extract(epoch FROM snowflake_timestamp({highest})) * 1000 + 1)
             FROM snowflake_lives() JOIN snowflake_lives_for_servers(1) AS told ON (told->'number')::bigint = number
             WHERE number = {number} AND is_own AND worker_id = 7"
        );
        let explained = value(&mut client, &format!("SELECT snowflake_explain({lowest})"));
        assert_eq!(lives_in(&explained), 1, "{explained}");
        let lives = column(&mut client, "SELECT l::text FROM snowflake_lives() l");
        let issued = [lowest, highest].map(testbed::issued_at);
        assert_eq!(value(&mut client, &covered), "t", "life {number} has issued {issued:?} of {lives:#?}");
    }
}

/// A statement reads the lives once.
#[test]
fn an_id_that_a_statement_issues_is_of_the_life_that_the_same_statement_has_read() {
    let mut server = start(member(7));
    for _ in 0..2 {
        let ids = "SELECT snowflake_explain(snowflake_nextval()) || pg_sleep(0.01) FROM generate_series(1, 3)";
        let explained = column(&mut server.connect(), ids);
        assert!(explained.iter().all(|text| lives_in(text) == 1), "{explained:?}");
        server.restart(Signal::INT);
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
    let lives = details.strip_prefix("since 20").and_then(|rest| rest.split_once("Z: "));
    let Some((_, "workers 7 and 8, 3 lives of 2 servers, no two overlap")) = lives else { panic!("{details}") };
}

/// As operations.md allows: each begins when the other has been stopped for more than `max_borrow`.
#[test]
fn a_worker_that_moves_to_another_server_and_back_is_no_overlap() {
    let mut servers = [(), ()].map(|()| member(7).set("snowflake_pg.max_borrow", "1s").create());
    for turn in 0..4 {
        let server = &mut servers[turn % 2];
        server.start();
        server.connect().batch_execute("CREATE EXTENSION IF NOT EXISTS snowflake_pg").expect("the extension");
        let (_, highest) = ids(server).range().expect("IDs");
        server.stop(Signal::INT);
        sleep_past(testbed::issued_at(highest) + 1000);
    }
    servers[1].configure("snowflake_pg.worker_id", 8);
    servers.iter_mut().for_each(Cluster::start);
    let (results, details) = audit(&servers[0], &[&servers[1]]);
    assert!(results.iter().all(|result| result == "no overlap"), "{results:?} {details}");
}

/// Accepts the mark of a copy, and has both issue IDs, some of which are the same.
fn issue_beside_each_other(original: &Cluster, copy: &Cluster) {
    issue_until(original, copy, || {});
}

/// The same until both are busy and something has happened. Returns the IDs that both have issued.
fn issue_until(original: &Cluster, copy: &Cluster, happens: impl FnOnce()) -> Vec<i64> {
    copy.connect().batch_execute("SELECT snowflake_accept_mark()").expect("a mark");
    let mut all = ids(copy);
    let (_, highest) = all.range().expect("IDs");
    sleep_past(testbed::issued_at(highest) + 1000);
    let loads = [original, copy].map(|server| Load::start(server, 2, IDS));
    loads.iter().for_each(Load::wait_for_ids);
    // An audit knows what was issued from the marks.
    [original, copy].iter().for_each(|server| drop(server.wait_for_used_marks(server.used_marks().len() + 2)));
    happens();
    loads.into_iter().for_each(|load| all.merge(load.finish()));
    assert!(all.duplicates() > 0, "the test shows nothing");
    expect_duplicates();
    let mut ids: Vec<_> = all.received().collect();
    ids.sort_unstable();
    ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}

/// A copy with the worker of its original, which somebody has accepted.
#[test]
fn the_audit_finds_a_copy_that_has_issued_the_same_ids_as_its_original() {
    let original = start(member(7));
    let mut copy = Cluster::builder().backup_of(&original);
    copy.start();
    issue_beside_each_other(&original, &copy);
    let (results, details) = audit(&original, &[&copy]);
    assert_eq!(results[..2], ["overlap", "overlap"], "{details}");
    assert!(details.contains("life"), "{details}");
}

/// Also if one of the two has crashed, and does not know what it has issued last.
#[test]
fn the_ids_that_an_overlap_names_are_all_that_are_there_twice() {
    let original = start(member(7));
    let mut copy = Cluster::builder().backup_of(&original);
    copy.start();
    let twice = issue_until(&original, &copy, || copy.kill_backend());
    let (results, details) = audit(&original, &[&copy]);
    assert_eq!(results[0], "overlap", "{details}");
    let named = details.lines().filter_map(|detail| {
        let (lowest, highest) = detail.rsplit_once(": IDs of this worker from ")?.1.split_once(" to ")?;
        Some(lowest.parse::<i64>().expect(detail)..=highest.parse::<i64>().expect(detail))
    });
    let named: Vec<_> = named.collect();
    let missed = twice.iter().filter(|&id| !named.iter().any(|ids| ids.contains(id))).count();
    assert_eq!(missed, 0, "of {} IDs: {details}", twice.len());
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
    assert!(
        details.contains("), most likely the old primary, was not asked: this server is a copy of it"),
        "{details}"
    );

    primary.start();
    let (results, details) = audit(&standby, &[&other, &primary]);
    assert_eq!(results[0], "no overlap", "{details}");

    let nobody = "SELECT result FROM snowflake_audit_fleet(ARRAY['host=/nowhere dbname=postgres'])";
    assert_eq!(column(&mut other.connect(), nobody)[0], "not seen");
    let none = error(&mut other.connect(), "SELECT snowflake_audit_fleet('{}')");
    assert_eq!(none.code().code(), "22023", "{none:?}");
    let mut client = other.connect();
    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    assert_eq!(error(&mut client, nobody).code().code(), "42501");
    client
        .batch_execute("RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_audit_fleet TO app; SET ROLE app")
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

    // As if a clone of a server had the lease now, with its system identifier.
    let later = "UPDATE snowflake_registry.lease SET issued_until = granted_until WHERE is_used";
    registry.connect().batch_execute(later).expect("a superuser");
    let (results, details) = audit(&one, &[&registry, &two]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("; IDs were issued until "), "{details}");

    // Whoever owns the view could do anything as the superuser who reads it.
    let steal = "CREATE ROLE mallory CREATEROLE; ALTER VIEW snowflake_registry.workers OWNER TO mallory";
    registry.connect().batch_execute(steal).expect("an owner");
    let (results, details) = audit(&one, &[&registry, &two]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("belongs neither to a superuser"), "{details}");
}

/// By the life that it runs, and the session that only it sees.
#[test]
fn a_server_that_is_listed_twice_is_no_clone_of_itself() {
    let server = start(member(7));
    ids(&server);
    let (results, details) = audit(&server, &[&server, &server]);
    assert_eq!(results, ["no overlap"; 2], "{details}");
}

/// Whoever may create functions beside an extension that lacks this one must not be asked in its place.
#[test]
fn an_audit_calls_no_function_that_does_not_belong_to_the_extension() {
    let [one, two] = [7, 8].map(|worker| start(member(worker)));
    [&one, &two].into_iter().for_each(|server| drop(ids(server)));
    let impostor = "ALTER EXTENSION snowflake_pg DROP FUNCTION snowflake_lives_for_servers(integer);
        DROP FUNCTION snowflake_lives_for_servers(integer);
        CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; SET ROLE mallory;
        CREATE FUNCTION snowflake_lives_for_servers(integer) RETURNS SETOF jsonb LANGUAGE sql AS
            'SELECT NULL::jsonb WHERE false'";
    two.connect().batch_execute(impostor).expect("a function");
    let (results, details) = audit(&one, &[&two]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("has no snowflake_lives_for_servers()"), "{details}");
}

/// Nobody can tell what the lives were that were in it.
#[test]
fn a_server_whose_lives_were_removed_or_put_back_has_not_been_seen() {
    let mut server = start(member(7));
    ids(&server);
    server.stop(Signal::INT);
    let trace = server.data().join("snowflake_pg.trace");
    let old = fs::read(&trace).expect("a trace");
    for put_back in [true, false] {
        server.start();
        ids(&server);
        server.stop(Signal::INT);
        if put_back { fs::write(&trace, &old) } else { fs::remove_file(&trace) }.expect("own file");
        server.start();
        ids(&server);
        let (results, details) = audit(&server, &[&server]);
        assert_eq!(results[0], "not seen", "{details}");
        assert!(details.contains("may be of a life that this server no longer has"), "{details}");
        server.stop(Signal::INT);
    }
}

/// Without marks in WAL, only its word that accepts the mark says what the lost primary has issued.
#[test]
fn a_standby_that_was_accepted_without_marks_in_wal_has_not_seen_its_primary() {
    let mut primary = start(member(7).with_defaults().set("snowflake_pg.wal_mark", "off"));
    let mut standby = Cluster::builder().standby_of(&primary);
    ids(&primary);
    primary.kill_all();
    standby.promote();
    standby.connect().batch_execute("SELECT snowflake_accept_mark()").expect("a mark");
    ids(&standby);
    for _ in 0..2 {
        let (results, details) = audit(&standby, &[&standby]);
        assert_eq!(results[0], "not seen", "{details}");
        standby.restart(Signal::INT);
        ids(&standby);
    }
}
