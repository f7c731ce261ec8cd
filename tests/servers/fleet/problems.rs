//! What the check finds.

use super::fixture::{check, conninfo, member, named, problems, start};
use std::fs;
use testbed::{Cluster, Signal, error, test, value};

#[test]
fn a_fleet_without_problems_has_none_and_this_server_is_the_first() {
    let (one, two, three) = (start(member(1)), start(member(2)), start(member(3)));
    assert_eq!(check(&one, &[&two, &three]), ["", "", ""]);
    let mut client = one.connect();
    let query =
        "SELECT server || ' ' || address || ' ' || worker_id || ' ' || coalesce(datacenter_id, -1) || ' ' || layout
        FROM snowflake_check_fleet($1)";
    let rows = client.query(query, &[&[conninfo(&two), conninfo(&three)].as_slice()]).expect("a check");
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let layout = "t41 w10 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z";
    assert_eq!(
        rows,
        [
            format!("0 this server 1 -1 {layout}"),
            format!("1 {} 2 -1 {layout}", two.host().display()),
            format!("2 {} 3 -1 {layout}", three.host().display()),
        ]
    );
    let same = format!(
        "SELECT bool_and(clock_offset BETWEEN '-1 min' AND '1 min')
            AND count(DISTINCT system_identifier) = 3
            AND bool_or(server = 0 AND clock_offset = '0' AND (system_identifier, state) =
                (SELECT system_identifier, state FROM snowflake_identity()))
         FROM snowflake_check_fleet('{{{}, {}}}')",
        conninfo(&two),
        conninfo(&three)
    );
    assert_eq!(value(&mut client, &same), "t");
}

/// No row, and a row for this server alone, would look like a fleet in good order.
#[test]
fn a_check_that_asks_nobody_is_refused_and_shows_a_call() {
    let cluster = start(member(1));
    let mut client = cluster.connect();
    for nobody in ["NULL", "'{}'", "(SELECT array_agg(address) FROM (VALUES ('host=pg-2')) s(address) WHERE false)"] {
        let refused = error(&mut client, &format!("SELECT problem FROM snowflake_check_fleet({nobody})"));
        assert_eq!((refused.code().code(), refused.message()), ("22023", "servers must name the servers to ask"));
        let hint = "SELECT * FROM snowflake_check_fleet('{pg-2, host=pg-3 dbname=postgres}')";
        assert!(refused.hint().is_some_and(|text| text.contains(hint)), "{nobody}: {refused:?}");
    }
    let refused = error(&mut client, "SELECT problem FROM snowflake_check_fleet(ARRAY['host=pg-2', NULL])");
    assert_eq!((refused.code().code(), refused.message()), ("22004", "servers must not contain nulls"));
}

#[test]
fn two_servers_with_one_worker_are_both_reported() {
    let (one, two, other) = (start(member(1)), start(member(1)), start(member(2)));
    let elsewhere = start(member(1).set("snowflake_pg.layout", "twitter").set("snowflake_pg.datacenter_id", 1));
    let of_two = format!("same worker ID as {}", named(1, &two));
    assert_eq!(check(&one, &[&two, &other, &elsewhere]), [&of_two, "same worker ID as this server", "", ""]);
    let of_one = format!("same worker ID as {}", named(2, &one));
    assert_eq!(check(&other, &[&two, &one, &elsewhere]), ["", &of_one, &of_two, ""]);
}

#[test]
fn a_server_that_is_listed_twice_is_no_duplicate() {
    let (one, two) = (start(member(1)), start(member(2)));
    assert_eq!(check(&one, &[&one, &two, &two, &one]), [""; 5]);
    // By a session that has looked at pg_stat_activity in this transaction.
    let mut client = one.connect();
    client.batch_execute("BEGIN; SELECT count(*) FROM pg_stat_activity").expect("a query");
    assert_eq!(problems(&mut client, &[conninfo(&one)]), [""; 2]);
    assert_eq!(value(&mut client, "SELECT current_setting('application_name')"), "", "the session has its name again");
}

/// As a clone of a virtual machine does that runs beside its original.
#[test]
fn a_clone_that_says_the_same_of_itself_is_a_duplicate() {
    let mut original = start(member(1).own_clock());
    let asking = start(member(2));
    original.stop(Signal::INT);
    let mut clone = member(1).own_clock().copy_of(&original);
    let now = value(&mut asking.connect(), "SELECT to_char(now(), 'YYYY-MM-DD HH24:MI:SS')");
    for cluster in [&mut original, &mut clone] {
        fs::write(cluster.host().join("clock"), format!("{now}\n")).expect("a clock that stands still");
        cluster.start();
        cluster.set_clock(0.0);
    }
    original.wait_until("SELECT snowflake_nextval() > 0");
    let started = "SELECT pg_postmaster_start_time()::text";
    assert_eq!(value(&mut original.connect(), started), value(&mut clone.connect(), started));
    let same = |place, cluster| format!("same worker ID as {}", named(place, cluster));
    let found = check(&asking, &[&original, &clone, &original]);
    assert_eq!(found[0], "");
    assert_eq!(found[1], same(2, &clone));
    assert!(found[2].ends_with(&same(1, &original)), "{found:?}");
    assert_eq!(found[3], same(2, &clone));
    let found = check(&original, &[&original, &clone]);
    assert_eq!(found[..2], [same(2, &clone), same(2, &clone)]);
    assert!(found[2].ends_with("same worker ID as this server"), "{found:?}");
}

#[test]
fn a_standby_with_the_worker_of_its_primary_needs_the_mark_in_wal_on_both() {
    let off = |worker| member(worker).set("snowflake_pg.wal_mark", "off");
    let primary = start(off(1));
    let asking = start(member(2));
    primary.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID, and so a mark to copy");
    let shared = off(1).standby_of(&primary);
    let own = member(3).standby_of(&primary);
    let problem = |of: &str| format!("standby with the worker ID of {of}, and wal_mark is off");
    let of_primary = problem(&named(1, &primary));
    assert_eq!(check(&asking, &[&primary, &shared, &own]), ["", "", &of_primary, ""]);
    assert_eq!(check(&primary, &[&own, &shared]), ["", "", &problem("this server")]);
    // Its state says so alone, too.
    assert_eq!(check(&asking, &[&shared])[1], problem("the server it was copied from"));
    drop(shared);
    let prefers = member(1).standby_of(&primary);
    assert_eq!(check(&primary, &[&prefers]), ["", &problem("this server")], "the primary writes none");

    let primary = start(member(1));
    primary.wait_until("SELECT snowflake_nextval() > 0");
    let standby = member(1).standby_of(&primary);
    assert_eq!(check(&asking, &[&primary, &standby]), [""; 3]);
    standby.promote();
    standby.wait_until("SELECT snowflake_nextval() > 0");
    let same = |place, cluster| format!("same worker ID as {}", named(place, cluster));
    let found = check(&asking, &[&primary, &standby]);
    assert_eq!(found, ["", &same(2, &standby), &same(1, &primary)], "two primaries");
}

#[test]
fn another_layout_or_epoch_is_reported() {
    let one = start(member(1));
    let layout = start(member(2).set("snowflake_pg.layout", "flat epoch=2024-01-01T00:00:00Z"));
    let epoch = start(member(3).set("snowflake_pg.layout", "twitter epoch=2024-01-01T00:00:00Z"));
    let spelled_out = start(member(4).set("snowflake_pg.layout", "t41 d5 w5 s12 epoch=2010-11-04T01:42:54.657Z"));
    let found = check(&one, &[&layout, &epoch, &spelled_out]);
    assert_eq!(found, ["", "other layout than this server", "other layout than this server", ""]);
}

#[test]
fn clocks_that_are_apart_by_more_than_max_clock_offset_are_reported() {
    let one = start(member(1).set("snowflake_pg.max_clock_offset", "20s"));
    let (ahead, behind, near) =
        (start(member(2).own_clock()), start(member(3).own_clock()), start(member(4).own_clock()));
    let asked = [&ahead, &behind, &near];
    assert_eq!(check(&one, &asked), [""; 4]);
    ahead.set_clock(15.0);
    behind.set_clock(-15.0);
    let found = check(&one, &asked);
    assert_eq!([&found[0], &found[1], &found[3]], [""; 3]);
    let check_text = |text: &str, expected: f64, rest: &str| {
        // So far behind, it may issue no IDs either.
        let text = text.strip_prefix("state is \"clock behind\"; ").unwrap_or(text);
        let (seconds, which) =
            text.strip_prefix("clock is ").and_then(|text| text.split_once(" s ")).unwrap_or_else(|| panic!("{text}"));
        // An answer takes five seconds at most, and half of the round trip is not known.
        assert!((seconds.parse::<f64>().expect("seconds") - expected).abs() < 10.0, "{text}");
        assert_eq!(which, rest);
    };
    check_text(&found[2], 30.0, &format!("behind the clock of {}", named(1, &ahead)));
    ahead.set_clock(3600.5);
    behind.set_clock(0.0);
    let found = check(&one, &asked);
    assert_eq!([&found[0], &found[2], &found[3]], [""; 3], "one wrong clock is one problem");
    check_text(&found[1], 3600.5, "ahead of the clock of this server");
    let offset =
        "SELECT clock_offset BETWEEN '00:59:50' AND '01:00:10' FROM snowflake_check_fleet($1) WHERE server = 1";
    let row = one.connect().query_one(offset, &[&[conninfo(&ahead)].as_slice()]).expect("a check");
    assert!(row.get::<_, bool>(0));
}

#[test]
fn a_server_that_can_issue_no_ids_is_reported_with_its_reason() {
    let one = start(member(1));
    let not_preloaded = start(Cluster::builder());
    let unset = start(Cluster::builder().set("shared_preload_libraries", "snowflake_pg"));
    let misconfigured = start(member(5000));
    let without = Cluster::builder().start();
    assert_eq!(
        check(&one, &[&not_preloaded, &unset, &misconfigured, &without]),
        [
            "",
            "snowflake_pg is not loaded via shared_preload_libraries",
            "snowflake_pg.worker_id is not set",
            "state is \"misconfigured\"",
            "extension snowflake_pg does not exist in database \"postgres\"",
        ]
    );
    let itself = check(&not_preloaded, &[&one, &unset]);
    let not_preloaded = "snowflake_pg is not loaded via shared_preload_libraries";
    assert_eq!(itself, [not_preloaded, "", "snowflake_pg.worker_id is not set"]);
}

#[test]
fn of_many_servers_with_one_worker_three_are_named() {
    let image = start(member(1));
    image.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    let clones: Vec<_> = (0..4)
        .map(|_| {
            let mut clone = member(1).backup_of(&image);
            clone.start();
            clone
        })
        .collect();
    let found = check(&image, &clones.iter().collect::<Vec<_>>());
    let names: Vec<_> = (0..3).map(|nth| named(nth + 1, &clones[nth])).collect();
    assert_eq!(found[0], format!("same worker ID as {}, 1 more", names.join(", ")));
    assert!(found[1..].iter().all(|problem| problem.contains("same worker ID as this server, server ")), "{found:?}");
}
