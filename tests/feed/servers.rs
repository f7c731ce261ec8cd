//! Servers that are away, join, leave, or cannot be in one feed.

use super::fixture::{Fleet, OUTBOX, insert, read, read_all, start, wait_for_rows};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Installation, Signal, error, hosted_script, test, value};

#[test]
fn a_server_that_is_down_holds_the_feed_up_and_is_named() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.reader.connect();
    insert(&fleet.members[1], &["unread"]);
    fleet.members[1].stop(Signal::KILL);
    insert(&fleet.members[0], &["waits"]);
    for _ in 0..3 {
        assert_eq!(read(&mut client, ""), "");
    }
    assert_eq!(fleet.shows(0, "problem"), "");
    let problem = fleet.shows(1, "problem");
    assert!(problem.contains("could not establish connection"), "{problem}");
    assert_eq!(fleet.shows(1, "problem_since < now() AND behind > '0'"), "true");
    fleet.members[1].start();
    wait_for_rows(&mut client, "unread waits");
}

#[test]
fn rows_of_a_server_that_was_left_out_come_first_when_it_is_back() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.reader.connect();
    insert(&fleet.members[1], &["late1", "late2", "late3", "late4"]);
    fleet.members[1].stop(Signal::INT);
    insert(&fleet.members[0], &["one", "two", "three", "four"]);
    assert_eq!(read(&mut client, ", patience => '1 hour'"), "");
    let mut read_without = String::new();
    while read_without.is_empty() {
        read_without = read(&mut client, ", patience => '1 ms'");
    }
    assert_eq!(read_without, "one two three four");
    insert(&fleet.members[0], &["five"]);
    fleet.members[1].start();
    insert(&fleet.members[1], &["six"]);
    wait_for_rows(&mut client, "late1 late2 late3 late4 five six");
}

#[test]
fn a_server_joins_at_its_horizon_or_at_a_time() {
    let fleet = Fleet::of([1, 2, 3].map(|worker| Cluster::builder().worker(worker)));
    let mut client = fleet.reader.connect();
    for member in &fleet.members {
        insert(member, &["before"]);
    }
    client.batch_execute("SET datestyle = 'Postgres, DMY'; SET timezone = 'Asia/Kolkata'").expect("settings");
    let mut add = |nth, since: &str| {
        value(&mut client, &format!("SELECT snowflake_feed.add_server('all', 's{nth}'{since})::text"))
    };
    add(0, "");
    add(1, ", '-infinity'");
    // As this session writes times, another one would read them otherwise.
    add(2, ", now() - interval '1 hour'");
    for member in &fleet.members {
        insert(member, &["after"]);
    }
    assert_eq!(read_all(&mut client), "before before after after after");
}

#[test]
fn a_server_leaves_only_when_all_of_its_rows_are_read_or_by_force() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.reader.connect();
    let leave = "SELECT snowflake_feed.drop_server('all', 's1')";
    insert(&fleet.members[1], &["unread"]);
    let refused = error(&mut client, leave);
    assert_eq!((refused.message(), refused.code().code()), ("server \"s1\" may have rows that were not read", "55006"));
    assert_eq!(read_all(&mut client), "unread");
    let mut writer = fleet.members[1].connect();
    writer.batch_execute("BEGIN; INSERT INTO outbox (note) VALUES ('open')").expect("a row");
    assert_eq!(error(&mut client, leave).message(), refused.message());
    writer.batch_execute("ROLLBACK").expect("an end");
    client.batch_execute("BEGIN").expect("a transaction");
    value(&mut client, &format!("{leave}::text"));
    client.batch_execute("ROLLBACK").expect("an end");
    fleet.members[1].stop(Signal::INT);
    assert!(error(&mut client, leave).message().contains("could not establish connection"));
    value(&mut client, "SELECT snowflake_feed.drop_server('all', 's1', force => true)::text");
    insert(&fleet.members[0], &["alone"]);
    assert_eq!(read_all(&mut client), "alone");
}

/// Otherwise one that cannot be reached would take minutes of each read.
#[test]
fn a_foreign_server_needs_a_limit_for_how_long_connecting_takes() {
    let fleet = Fleet::of([Cluster::builder().worker(1)]);
    let mut client = fleet.reader.connect();
    let is_15 = value(&mut client, "SELECT current_setting('server_version_num')::integer < 160000") == "t";
    let option = if is_15 { "connect_timeout" } else { "tcp_user_timeout" };
    for change in [format!("SET {option} '0'"), format!("DROP {option}")] {
        client.batch_execute(&format!("ALTER SERVER s0 OPTIONS ({change})")).expect("an option");
        let refused = error(&mut client, "SELECT snowflake_feed.add_server('all', 's0')");
        assert_eq!(refused.message(), format!("server \"s0\" has no {option}"));
        let hint = refused.hint().expect("a HINT").trim_start_matches("Use ").trim_end_matches('.');
        client.batch_execute(hint).expect("what the HINT says");
        client.batch_execute("BEGIN; SELECT snowflake_feed.add_server('all', 's0'); ROLLBACK").expect("a server");
    }
}

#[test]
fn servers_whose_ids_are_not_in_one_order_are_refused() {
    let layouts = ["flat", "t41 w10 s12 epoch=2010-11-04T01:42:54.657Z", "t41 w8 s14"];
    let fleet = Fleet::of(
        (0..3).zip(layouts).map(|(nth, layout)| Cluster::builder().worker(nth % 2).set("snowflake_pg.layout", layout)),
    );
    let standby = Cluster::builder().standby_of(&fleet.members[0]);
    fleet.name(3, &standby);
    let history = start(Cluster::builder().worker(9).set("snowflake_pg.clock_regression", "history"));
    fleet.name(4, &history);
    fleet.add(0);
    fleet.add(1);
    let mut client = fleet.reader.connect();
    for (nth, why) in
        [(2, "Their layouts are"), (3, "Both belong to one database cluster"), (4, "clock_regression is history")]
    {
        let refused = error(&mut client, &format!("SELECT snowflake_feed.add_server('all', 's{nth}')"));
        let said = format!("{} {}", refused.message(), refused.detail().unwrap_or_default());
        assert!(said.contains(why), "{said}");
        assert_eq!(refused.code().code(), "55000", "{said}");
    }
    // A worker that another one has now.
    let other = start(Cluster::builder().worker(0));
    fleet.name(5, &other);
    let refused = error(&mut client, "SELECT snowflake_feed.add_server('all', 's5')");
    assert_eq!(refused.detail(), Some("Both have worker 0."));
}

#[test]
fn a_server_that_is_another_one_now_holds_the_feed_up() {
    let fleet = Fleet::start(1);
    let mut client = fleet.reader.connect();
    let other = start(Cluster::builder().worker(1));
    insert(&other, &["of another"]);
    client
        .batch_execute(&format!("ALTER SERVER s0 OPTIONS (SET host '{}')", other.host().display()))
        .expect("another server");
    let mut client = fleet.reader.connect();
    assert_eq!(read(&mut client, ""), "");
    let problem = fleet.shows(0, "problem");
    assert!(problem.starts_with("server \"s0\" is another database than before"), "{problem}");
}

/// A session keeps its connections, whatever they were made for.
#[test]
fn no_call_makes_a_feed_read_from_another_database_than_before() {
    let fleet = Fleet::start(2);
    let mut client = fleet.reader.connect();
    let member = &fleet.members[0];
    member.connect().batch_execute("CREATE DATABASE other").expect("a database");
    let mut other = member.config().dbname("other").connect(NoTls).expect("a session");
    other.batch_execute(&format!("CREATE EXTENSION snowflake_pg; {OUTBOX}")).expect("a table");
    let elsewhere = start(Cluster::builder().worker(3));
    client.batch_execute("SELECT snowflake_feed.create('second', 'public.outbox')").expect("another feed");
    let [host, there] = [member, &elsewhere].map(|server| server.host().display().to_string());
    for (host, dbname) in [(&there, "postgres"), (&host, "other")] {
        insert(member, &["mine"]);
        let alter = format!("ALTER SERVER s0 OPTIONS (SET host '{host}', SET dbname '{dbname}')");
        client.batch_execute(&alter).expect("another server");
        value(&mut client, "SELECT snowflake_feed.add_server('second', 's0')::text");
        insert(&elsewhere, &["of another"]);
        other.batch_execute("INSERT INTO outbox (note) VALUES ('of another')").expect("a row");
        let refused = error(&mut client, "SELECT snowflake_feed.drop_server('all', 's0')");
        assert_eq!(refused.message(), "server \"s0\" is another database than before");
        assert_eq!(read(&mut client, ""), "");
        assert!(fleet.shows(0, "problem").starts_with(refused.message()));
        value(&mut client, "SELECT snowflake_feed.drop_server('second', 's0', force => true)::text");
        let alter = format!("ALTER SERVER s0 OPTIONS (SET host '{}', SET dbname 'postgres')", member.host().display());
        client.batch_execute(&alter).expect("the server");
        wait_for_rows(&mut client, "mine");
        assert_eq!(value(&mut client, "SELECT cardinality(dblink_get_connections())"), "2");
    }
}

/// As pg_upgrade makes one, which keeps the rows.
#[test]
fn a_feed_goes_on_from_another_cluster_that_is_accepted_where_it_has_stopped() {
    let fleet = Fleet::start(1);
    let mut client = fleet.reader.connect();
    insert(&fleet.members[0], &["read"]);
    assert_eq!(read_all(&mut client), "read");
    insert(&fleet.members[0], &["unread"]);
    let next = Cluster::builder().worker(1).start();
    next.restore_dump_of(&fleet.members[0]);
    lead_to(&mut client, &next);
    assert_eq!(read(&mut client, ""), "");
    value(&mut client, "SELECT snowflake_feed.accept_server('all', 's0')::text");
    wait_for_rows(&mut client, "unread");
}

/// Rows below what was read would never come.
#[test]
fn a_cluster_whose_new_ids_can_be_below_what_was_read_is_not_accepted() {
    let fleet = Fleet::start(1);
    let mut client = fleet.reader.connect();
    insert(&fleet.members[0], &["read"]);
    assert_eq!(read_all(&mut client), "read");
    let mut next = Cluster::builder().worker(1).own_clock().create();
    next.set_clock(-60.0);
    next.start();
    next.restore_dump_of(&fleet.members[0]);
    lead_to(&mut client, &next);
    let accept = "SELECT snowflake_feed.accept_server('all', 's0')::text";
    let refused = error(&mut client, accept);
    assert_eq!(refused.message(), "server \"s0\" may issue IDs below those that were read");
    // As the HINT says.
    let read_to = fleet.shows(0, "read_to");
    next.connect().batch_execute(&format!("SELECT snowflake_advance({read_to})")).expect("an advance");
    value(&mut client, accept);
    next.set_clock(0.0);
    insert(&next, &["next"]);
    wait_for_rows(&mut client, "next");
}

fn lead_to(client: &mut Client, cluster: &Cluster) {
    let alter = format!("ALTER SERVER s0 OPTIONS (SET host '{}')", cluster.host().display());
    client.batch_execute(&alter).expect("another server");
}

/// Both have one identifier, and a list of hosts leads to the first that answers.
#[test]
fn a_primary_that_was_replaced_and_still_runs_holds_the_feed_up() {
    let fleet = Fleet::start(1);
    let old = &fleet.members[0];
    let new = Cluster::builder().worker(2).set("snowflake_pg.max_borrow", "10ms").standby_of(old);
    let mut client = fleet.reader.connect();
    insert(old, &["before"]);
    wait_for_rows(&mut client, "before");
    new.wait_until("SELECT EXISTS (SELECT FROM outbox)");
    new.promote();
    lead_to(&mut client, &new);
    insert(&new, &["after"]);
    wait_for_rows(&mut client, "after");
    lead_to(&mut client, old);
    insert(old, &["lost"]);
    assert_eq!(read(&mut client, ""), "");
    let problem = fleet.shows(0, "problem");
    assert!(problem.starts_with("server \"s0\" is on an older timeline than before"), "{problem}");
    lead_to(&mut client, &new);
    insert(&new, &["later"]);
    wait_for_rows(&mut client, "later");
}

/// So its primary is left in peace.
#[test]
fn a_standby_can_be_a_member_whose_rows_come_when_it_has_replayed_them() {
    let fleet = Fleet::of([Cluster::builder().worker(1), Cluster::builder().worker(2)]);
    let standby = Cluster::builder().worker(11).standby_of(&fleet.members[1]);
    fleet.name(2, &standby);
    fleet.add(0);
    let mut client = fleet.reader.connect();
    insert(&fleet.members[1], &["one"]);
    // WAL has a horizon soon after the first transaction.
    while let Err(error) = client.batch_execute("SELECT snowflake_feed.add_server('all', 's2', '-infinity')") {
        let error = error.as_db_error().expect("an error of the server");
        assert_eq!(error.message(), "server \"s2\" has no horizon");
    }
    insert(&fleet.members[0], &["two"]);
    wait_for_rows(&mut client, "one");
    // WAL has the horizon of a primary that is idle when somebody asks that for it.
    value(&mut fleet.members[1].connect(), "SELECT snowflake_horizon()");
    wait_for_rows(&mut client, "two");
    assert_eq!(fleet.shows(2, "problem"), "");
    let refused = error(&mut client, "SELECT snowflake_feed.drop_server('all', 's2')");
    assert_eq!(refused.detail(), Some("It is a standby, which does not know the writers of its primary."));
    standby.promote();
    insert(&standby, &["three"]);
    wait_for_rows(&mut client, "three");
}

#[test]
fn a_dump_has_feeds_and_their_positions() {
    let fleet = Fleet::start(2);
    insert(&fleet.members[0], &["one"]);
    insert(&fleet.members[1], &["two"]);
    assert_eq!(read_all(&mut fleet.reader.connect()), "one two");
    insert(&fleet.members[0], &["three"]);
    let restored = Cluster::builder().set("shared_preload_libraries", "").start();
    restored.restore_dump_of(&fleet.reader);
    assert_eq!(read_all(&mut restored.connect()), "three");
    assert_eq!(read_all(&mut fleet.reader.connect()), "three");
}

/// By the same names, in the schema that the owner of the feed has named.
#[test]
fn a_hosted_database_and_a_server_with_the_library_are_in_one_feed() {
    let fleet = Fleet::start(1);
    let hosted = hosted_in("ids");
    let mut writer = hosted.connect();
    fleet.name(1, &hosted);
    let mut client = fleet.reader.connect();
    let unnamed = error(&mut client, "SELECT snowflake_feed.add_server('all', 's1')");
    assert!(unnamed.hint().is_some_and(|hint| hint.contains("home => 'ids'")), "{unnamed:?}");
    value(&mut client, "SELECT snowflake_feed.add_server('all', 's1', home => 'ids')::text");
    writer.batch_execute("BEGIN; INSERT INTO outbox (note) VALUES ('first')").expect("a row");
    insert(&fleet.members[0], &["second"]);
    // IDs of a hosted database begin two seconds ahead of the clock.
    hosted.wait_until("SELECT last_issued_at < clock_timestamp() FROM ids.snowflake_status");
    insert(&fleet.members[0], &["third"]);
    assert!(!read_all(&mut client).contains("third"));
    assert_eq!(fleet.shows(1, "problem"), "");
    let refused = error(&mut client, "SELECT snowflake_feed.drop_server('all', 's1')");
    assert_eq!(refused.detail(), Some("A transaction that has drawn an ID has not ended there."));
    writer.batch_execute("COMMIT").expect("its end");
    wait_for_rows(&mut client, "first third");
    // Its service is left for another one.
    let next = hosted_in("numbers");
    client
        .batch_execute(&format!("ALTER SERVER s1 OPTIONS (SET host '{}')", next.host().display()))
        .expect("another server");
    assert_eq!(read(&mut client, ""), "");
    assert!(fleet.shows(1, "problem").contains("schema \"ids\" does not exist"), "{}", fleet.shows(1, "problem"));
    value(&mut client, "SELECT snowflake_feed.accept_server('all', 's1', home => 'numbers')::text");
    insert(&next, &["moved"]);
    next.wait_until("SELECT last_issued_at < clock_timestamp() FROM numbers.snowflake_status");
    insert(&fleet.members[0], &["last"]);
    wait_for_rows(&mut client, "moved last");
}

/// As where a database was moved from plain SQL to the library: only the horizon of the one that issues the IDs counts.
#[test]
fn a_session_that_reads_by_two_sets_of_functions_of_one_server_asks_each_for_its_own_feed() {
    let fleet = Fleet::start(1);
    let member = &fleet.members[0];
    let script = format!(
        "DROP EXTENSION snowflake_pg CASCADE; CREATE SCHEMA ids; SET search_path = ids; {}
         SELECT snowflake_set_worker_id(1); SELECT snowflake_nextval(); SET search_path = public;
         CREATE EXTENSION snowflake_pg; ALTER TABLE outbox ALTER id SET DEFAULT snowflake_nextval()",
        hosted_script()
    );
    member.connect().batch_execute(&script).expect("the script");
    let mut client = fleet.reader.connect();
    client
        .batch_execute(
            "SELECT snowflake_feed.create('second', 'public.outbox');
             SELECT snowflake_feed.add_server('second', 's0', home => 'ids')",
        )
        .expect("a feed");
    let mut writer = member.connect();
    writer.batch_execute("BEGIN; SELECT snowflake_nextval()").expect("an ID");
    insert(member, &["later"]);
    client.batch_execute("SELECT snowflake_feed.read(NULL::outbox, 'second')").expect("rows");
    assert_eq!(read(&mut client, ""), "", "an ID below was drawn");
    writer.batch_execute("COMMIT").expect("an end");
    wait_for_rows(&mut client, "later");
}

/// A hosted database whose functions are in this schema.
fn hosted_in(schema: &str) -> Cluster {
    let hosted = Cluster::builder().set("shared_preload_libraries", "").start();
    let script = format!(
        "CREATE SCHEMA {schema}; SET search_path = {schema}; {} SELECT snowflake_set_worker_id(2); RESET search_path;
         CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT {schema}.snowflake_nextval(), note text);
         SELECT {schema}.snowflake_nextval()",
        hosted_script()
    );
    hosted.connect().batch_execute(&script).expect("the script");
    hosted
}

/// A server without the files of the extension, and without the library.
#[test]
fn a_database_that_has_the_script_instead_of_the_extension_reads_the_same() {
    let fleet = Fleet::start(2);
    let mut client = fleet.reader.connect();
    client.batch_execute("DROP EXTENSION snowflake_feed").expect("no extension");
    let script = Installation::shared().script("snowflake_feed.sql");
    let run = || fleet.reader.psql().args(["--set=QUIET=off", "--file"]).arg(&script).output().expect("psql");
    let output = run();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    value(&mut client, "SELECT snowflake_feed.create('all', 'public.outbox')::text");
    fleet.add(0);
    fleet.add(1);
    insert(&fleet.members[0], &["one"]);
    insert(&fleet.members[1], &["two"]);
    assert_eq!(read_all(&mut client), "one two");
    assert_eq!(value(&mut client, "SHOW shared_preload_libraries"), "");
    assert!(!run().status.success(), "twice");
    insert(&fleet.members[1], &["three"]);
    assert_eq!(read_all(&mut client), "three");
}
