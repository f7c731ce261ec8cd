//! What a DBA can do with a server that issues IDs, or refuses to.

use std::fs;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Order, Signal, error, issued_at, test, value};

const NEXTVAL: &str = "SELECT snowflake_nextval()";

fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
    (cluster, client)
}

fn next(client: &mut Client) -> i64 {
    value(client, NEXTVAL).parse().expect("an ID")
}

/// The lowest ID of a time that is this far from now.
fn id_in(client: &mut Client, interval: &str) -> i64 {
    value(client, &format!("SELECT snowflake_min_id(clock_timestamp() + '{interval}')")).parse().expect("an ID")
}

#[test]
fn only_those_who_are_allowed_can_do_what_a_dba_does() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    for call in ["advance(1)", "accept_mark()", "reset_mark(now())", "accept_clock()"] {
        assert_eq!(error(&mut client, &format!("SELECT snowflake_{call}")).code().code(), "42501", "{call}");
    }
    client
        .batch_execute("RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_advance TO app; SET ROLE app")
        .expect("a grant");
    client.batch_execute("SELECT snowflake_advance(1)").expect("a granted call");
}

#[test]
fn after_an_advance_every_id_is_greater_also_after_a_crash() {
    let (mut cluster, mut client) = server();
    let before = next(&mut client);
    let past = id_in(&mut client, "3 s");
    client.batch_execute(&format!("SELECT snowflake_advance({past})")).expect("an advance");
    cluster.wait_for_log(&format!("snowflake_pg: user \"postgres\" advanced past {past}"));
    assert!(cluster.mark() > issued_at(past), "the mark on disk covers it");
    let first = next(&mut client);
    assert!(first > past, "{first} after {past}");
    client.batch_execute(&format!("SELECT snowflake_advance({before})")).expect("an advance past an old ID");
    assert!(next(&mut client) > first, "never backwards");
    drop(client);
    cluster.restart(Signal::KILL);
    let mut client = cluster.connect();
    assert!(next(&mut client) > first);
}

#[test]
fn an_advance_survives_a_crash_and_a_shutdown_that_come_before_the_next_id() {
    let (mut cluster, mut client) = server();
    for signal in [Signal::KILL, Signal::INT] {
        let past = id_in(&mut client, "4 s");
        client.batch_execute(&format!("SELECT snowflake_advance({past})")).expect("an advance");
        drop(client);
        cluster.restart(signal);
        client = cluster.connect();
        assert!(next(&mut client) > past);
    }
}

#[test]
fn an_advance_that_would_stop_ids_for_long_has_to_be_forced() {
    let (_cluster, mut client) = server();
    let before = next(&mut client);
    let past = id_in(&mut client, "2 h");
    let refused = error(&mut client, &format!("SELECT snowflake_advance({past})"));
    assert_eq!((refused.code().code(), refused.message()), ("22003", "the ID is too far ahead of the clock"));
    assert!(refused.hint().is_some_and(|hint| hint.contains("force => true")), "{refused:?}");
    assert!(next(&mut client) > before, "nothing has changed");
    client.batch_execute("SELECT snowflake_advance(-1)").expect("what every ID is greater than");
    assert_eq!(error(&mut client, "SELECT snowflake_advance(9223372036854775807)").code().code(), "22003");
    client.batch_execute(&format!("SELECT snowflake_advance({past}, force => true)")).expect("an advance by force");
    assert_eq!(error(&mut client, NEXTVAL).code().code(), "53400", "IDs stop until the clock is there");
}

#[test]
fn a_server_in_good_order_has_nothing_to_accept_and_nothing_to_reset() {
    let (_cluster, mut client) = server();
    assert_eq!(value(&mut client, "SELECT snowflake_accept_mark()"), "NULL");
    client.batch_execute("SELECT snowflake_accept_clock()").expect("a notice");
    let refused = error(&mut client, "SELECT snowflake_reset_mark(now())");
    assert_eq!((refused.code().code(), refused.message()), ("55000", "the state file is not damaged"));
    for outside in ["'2001-01-01'", "'infinity'", "'-infinity'"] {
        assert_eq!(error(&mut client, &format!("SELECT snowflake_reset_mark({outside})")).code().code(), "22008");
    }
    next(&mut client);
}

/// The keeper may do everything, and it works in a database whose owner may do little.
#[test]
fn the_owner_of_the_database_of_citus_cannot_make_the_keeper_run_anything() {
    let mut cluster = Cluster::builder().worker("citus").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE ROLE app LOGIN").expect("a role");
    client.batch_execute("CREATE DATABASE app OWNER app").expect("a database");
    drop(client);
    let app = |user: &str| cluster.config().dbname("app").user(user).connect(NoTls).expect("a session");
    app("postgres").batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let trap = "CREATE SCHEMA evil;
        CREATE FUNCTION evil.trap() RETURNS boolean LANGUAGE plpgsql AS
            $$ BEGIN ALTER ROLE app SUPERUSER; RETURN true; EXCEPTION WHEN OTHERS THEN RETURN true; END $$;";
    app("app").batch_execute(trap).expect("a trap");
    for types in ["oid,oid", "name,name", "\"char\",\"char\"", "name,text"] {
        let (left, right) = types.split_once(',').expect("two types");
        let operator = format!(
            "CREATE FUNCTION evil.eq({left}, {right}) RETURNS boolean LANGUAGE sql AS 'SELECT evil.trap()';
             CREATE OPERATOR evil.= (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = evil.eq)"
        );
        app("app").batch_execute(&operator).expect("an operator");
    }
    app("app")
        .batch_execute(
            "ALTER DATABASE app SET search_path = evil, pg_catalog;
             ALTER DATABASE app SET default_transaction_read_only = on",
        )
        .expect("settings");
    cluster.configure("snowflake_pg.citus_database", "app");
    cluster.restart(Signal::INT);
    let mut client = cluster.config().dbname("app").connect(NoTls).expect("a session");
    let refused = error(&mut client, "SELECT public.snowflake_nextval()");
    assert!(refused.detail().is_some_and(|why| why.contains("has no Citus metadata")), "{refused:?}");
    // Not there, where this question would fall into the trap.
    assert_eq!(value(&mut cluster.connect(), "SELECT rolsuper FROM pg_roles WHERE rolname = 'app'"), "f");
}

/// A promoted standby relies on it.
#[test]
fn nothing_that_happens_to_the_extension_its_schema_or_its_database_touches_the_mark_in_wal() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE ROLE app LOGIN; CREATE SEQUENCE s;
             GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO app; GRANT ALL ON SCHEMA public TO app",
        )
        .expect("a role with all privileges");
    let id = next(&mut client);
    let mark = cluster.mark_in_wal().expect("a mark");
    assert!(mark > issued_at(id), "{mark}");
    let seen = "SELECT count(*) FROM pg_class WHERE pg_relation_filenode(oid) = 16111 OR relname LIKE '%wal_mark%'";
    assert_eq!(value(&mut client, seen), "0", "no catalog knows it");
    client
        .batch_execute("DROP EXTENSION snowflake_pg; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        .expect("nothing");
    drop(client);
    let mut other = cluster.config().dbname("template1").connect(NoTls).expect("another database");
    other.batch_execute("DROP DATABASE postgres WITH (FORCE); CREATE DATABASE postgres").unwrap_or_else(|_| {
        other.batch_execute("DROP DATABASE postgres WITH (FORCE)").expect("nothing more");
        other.batch_execute("CREATE DATABASE postgres").expect("a database");
    });
    assert!(cluster.mark_in_wal().expect("a mark") >= mark);
}

/// A client that waits for the keeper gets to know what keeps it.
#[test]
fn a_required_mark_that_cannot_be_written_is_refused_with_the_reason() {
    let cluster = Cluster::builder().worker(1).faulty_disk().set("snowflake_pg.wal_mark", "require").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    next(&mut client);
    cluster.disk().obey(Order::Full);
    let transactions = |client: &mut Client| -> i64 {
        value(client, "SELECT txid_snapshot_xmax(txid_current_snapshot())").parse().expect("a number")
    };
    cluster.wait_until_mark_has_passed();
    let before = transactions(&mut client);
    let refused = error(&mut client, NEXTVAL);
    assert_eq!(refused.code().code(), "53100", "{refused:?}");
    let burnt = transactions(&mut client) - before;
    assert!(burnt < 20, "{burnt} transactions for one call that waited");
    cluster.disk().obey(Order::Work);
    client.batch_execute(NEXTVAL).expect("IDs again");
}

#[test]
fn a_damaged_mark_is_not_reset_to_below_what_a_missing_one_would_begin_at() {
    let (mut cluster, mut client) = server();
    drop(client);
    cluster.restart(Signal::KILL);
    client = cluster.connect();
    let ahead = next(&mut client);
    drop(client);
    cluster.stop(Signal::KILL);
    fs::write(cluster.mark_file(), b"").expect("a damaged mark");
    cluster.start();
    client = cluster.connect();
    let refused = error(&mut client, "SELECT snowflake_reset_mark(now() + interval '1 year')");
    assert_eq!((refused.code().code(), refused.message()), ("22008", "floor is too far ahead of the clock"));
    client.batch_execute("SELECT snowflake_reset_mark(now())").expect("a state that is given up");
    assert!(next(&mut client) > ahead);
}

/// Who reads "later than every ID" may choose a time that is much too late.
#[test]
fn a_mark_that_was_reset_to_far_ahead_is_warned_of_and_taken_back_while_the_server_runs() {
    for wal_mark in ["off", "prefer", "require"] {
        let mut cluster = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", wal_mark).start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        cluster.wait_until("SELECT state = 'idle' FROM snowflake_status");
        let before = next(&mut client);
        drop(client);
        cluster.stop(Signal::INT);
        fs::write(cluster.mark_file(), b"").expect("a damaged mark");
        cluster.start();
        let mut client = cluster.connect();
        let damaged = error(&mut client, "SELECT snowflake_nextval()");
        let hint = "If the clock has always been right, call snowflake_reset_mark(now()).";
        assert!(damaged.hint().is_some_and(|found| found.starts_with(hint)), "{damaged:?}");

        let far = "SELECT snowflake_reset_mark(now() + interval '30 min') > now() + interval '29 min'";
        assert_eq!(value(&mut client, far), "t");
        cluster.wait_for_log("IDs begin far ahead of the clock");
        let refused = error(&mut client, "SELECT snowflake_nextval()");
        assert_eq!(refused.message(), "the server's clock is behind the time at which IDs begin");
        assert!(refused.hint().is_some_and(|hint| hint.contains("call snowflake_reset_mark() again")), "{refused:?}");
        let status = "SELECT concat_ws(' ', state, problem_sqlstate) FROM snowflake_status";
        assert_eq!(value(&mut client, status), "clock behind 53400");

        let near = "SELECT snowflake_reset_mark(now()) < now() + interval '6 s'";
        assert_eq!(value(&mut client, near), "t", "{wal_mark}");
        assert!(next(&mut client) > before);
        let soon = "SELECT snowflake_timestamp(snowflake_nextval()) < clock_timestamp() + interval '6 s'";
        assert_eq!(value(&mut client, soon), "t", "{wal_mark}");
        let good = error(&mut client, "SELECT snowflake_reset_mark(now())");
        assert_eq!(good.message(), "the state file is not damaged");
    }
}

/// Whoever can write to the files of the server can put anything there.
#[test]
fn a_mark_in_wal_after_the_end_of_the_layout_never_reaches_the_state_file() {
    let mut original = Cluster::builder().worker(1).start();
    original.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    original.stop(Signal::INT);
    let mut copy = Cluster::builder().copy_of(&original);
    copy.set_mark_in_wal(1 << 62);
    let good = fs::read(copy.mark_file()).expect("a mark");
    for (file, call) in [(&good[..], "accept_mark()"), (b"", "reset_mark(now())")] {
        fs::write(copy.mark_file(), file).expect("the mark");
        copy.start();
        let refused = error(&mut copy.connect(), &format!("SELECT snowflake_{call}"));
        assert_eq!((refused.code().code(), refused.message()), ("55000", "the layout ends before IDs would begin"));
        assert!(refused.hint().is_some_and(|hint| hint.contains("global/16111")), "{refused:?}");
        assert_eq!(fs::read(copy.mark_file()).expect("a mark"), file, "left as it was");
        copy.stop(Signal::INT);
    }
    fs::write(copy.mark_file(), &good).expect("the mark");
    fs::remove_file(copy.wal_page_file()).expect("the page");
    copy.start();
    copy.connect().batch_execute("SELECT snowflake_accept_mark()").expect("an acceptance");
    next(&mut copy.connect());
}

/// As docs/operations.md says, where nothing uses the IDs that were issued meanwhile.
#[test]
fn a_dba_takes_back_a_mark_that_was_written_by_a_clock_that_was_ahead() {
    for wal_mark in ["off", "prefer", "require"] {
        let mut cluster = Cluster::builder().worker(1).own_clock().set("snowflake_pg.wal_mark", wal_mark).start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        cluster.set_clock(600.0);
        cluster.restart(Signal::INT);
        let ids = "SELECT count(snowflake_nextval()) FROM generate_series(1, 1000)";
        cluster.wait_until("SELECT snowflake_nextval() > 0");
        value(&mut cluster.connect(), ids);
        cluster.set_clock(0.0);
        assert_eq!(error(&mut cluster.connect(), "SELECT snowflake_nextval()").code().code(), "53400");
        cluster.stop(Signal::INT);
        if wal_mark != "off" {
            fs::remove_file(cluster.wal_page_file()).expect("the page");
        }
        fs::remove_file(cluster.mark_file()).expect("the mark");
        cluster.start();
        cluster.wait_until("SELECT snowflake_nextval() > 0");
        let lead = value(&mut cluster.connect(), "SELECT lead < '5 s' FROM snowflake_status");
        assert_eq!(lead, "t", "{wal_mark}");
    }
}
