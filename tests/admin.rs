//! What a DBA can do, and what keeps a state directory to one server.

use snowflake_core::state_file;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Order, Signal, error, issued_at, mark_in, value};

const NEXTVAL: &str = "SELECT snowflake_nextval()";

fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
    (cluster, client)
}

/// A server with a state directory outside of its data directory, and a mark that is written often.
/// The keeper of this server soon writes no mark any more, so that a test can write to the state file.
fn server_with_directory() -> (Cluster, PathBuf) {
    let builder = Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", "200ms");
    let mut cluster = builder.set("snowflake_pg.keep_warm", 0).create();
    let directory = cluster.make_directory("state");
    cluster.configure("snowflake_pg.state_directory", directory.display());
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, directory)
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
    for call in ["advance(1)", "accept_identity()", "reset_state(now())", "accept_clock()"] {
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
    assert!(
        cluster.log().contains(&format!("snowflake_pg: user \"postgres\" advanced past {past}")),
        "{}",
        cluster.log()
    );
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
    assert_eq!(value(&mut client, "SELECT snowflake_accept_identity()"), "NULL");
    client.batch_execute("SELECT snowflake_accept_clock()").expect("a notice");
    let refused = error(&mut client, "SELECT snowflake_reset_state(now())");
    assert_eq!((refused.code().code(), refused.message()), ("55000", "the state file is not damaged"));
    for outside in ["'2001-01-01'", "'infinity'", "'-infinity'"] {
        assert_eq!(error(&mut client, &format!("SELECT snowflake_reset_state({outside})")).code().code(), "22008");
    }
    next(&mut client);
}

/// The keeper may do everything, and it works in a database whose owner may do little.
#[test]
fn the_owner_of_the_wal_mark_database_cannot_make_the_keeper_run_anything() {
    let mut cluster = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "require").start();
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
    cluster.configure("snowflake_pg.wal_mark_database", "app");
    cluster.restart(Signal::INT);
    let mut client = cluster.config().dbname("app").connect(NoTls).expect("a session");
    client.batch_execute("SELECT public.snowflake_nextval()").expect("an ID, in spite of the settings");
    // Not there, where this question would fall into the trap.
    assert_eq!(value(&mut cluster.connect(), "SELECT rolsuper FROM pg_roles WHERE rolname = 'app'"), "f");
}

/// A promoted standby relies on what the sequence says, also when nobody has drawn an ID since.
#[test]
fn the_mark_in_wal_survives_an_extension_that_is_created_anew() {
    let cluster = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "require").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let id = next(&mut client);
    client.batch_execute("DROP EXTENSION snowflake_pg; CREATE EXTENSION snowflake_pg").expect("the extension, anew");
    let mark: u64 = value(&mut client, "SELECT last_value FROM snowflake_wal_mark").parse().expect("a mark");
    assert!(mark > issued_at(id), "{mark}");
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
    sleep(Duration::from_secs(3));
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
    let refused = error(&mut client, "SELECT snowflake_reset_state(now() + interval '1 year')");
    assert_eq!((refused.code().code(), refused.message()), ("22008", "floor is too far ahead of the clock"));
    client.batch_execute("SELECT snowflake_reset_state(now())").expect("a state that is given up");
    assert!(next(&mut client) > ahead);
}

/// A superuser can set the sequence to anything.
#[test]
fn a_wal_mark_after_the_end_of_the_layout_is_reported_and_never_reaches_the_state_file() {
    let mut original = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "prefer").start();
    let set_mark = |cluster: &Cluster, mark: i64| {
        cluster.connect().batch_execute(&format!("SELECT setval('snowflake_wal_mark_0_1', {mark})")).expect("a mark");
    };
    original.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    original.wait_for_mark_in_wal();
    set_mark(&original, 1 << 62);
    next(&mut original.connect());
    original.stop(Signal::INT);
    let mut copy = Cluster::builder().copy_of(&original);
    let good = fs::read(copy.mark_file()).expect("a mark");
    for (file, call) in [(&good[..], "accept_identity()"), (b"", "reset_state(now())")] {
        fs::write(copy.mark_file(), file).expect("the mark");
        copy.start();
        let refused = error(&mut copy.connect(), &format!("SELECT snowflake_{call}"));
        assert_eq!((refused.code().code(), refused.message()), ("55000", "the layout ends before IDs would begin"));
        assert!(refused.hint().is_some_and(|hint| hint.contains("snowflake_wal_mark")), "{refused:?}");
        assert_eq!(fs::read(copy.mark_file()).expect("a mark"), file, "left as it was");
        copy.stop(Signal::INT);
    }
    fs::write(copy.mark_file(), &good).expect("the mark");
    copy.start();
    set_mark(&copy, 1);
    copy.restart(Signal::INT);
    copy.connect().batch_execute("SELECT snowflake_accept_identity()").expect("an acceptance");
    next(&mut copy.connect());
}

#[test]
fn a_state_directory_that_others_can_get_at_is_refused() {
    let (cluster, directory) = server_with_directory();
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("own directory");
    let refused = error(&mut cluster.connect(), NEXTVAL);
    assert_eq!(refused.code().code(), "55000");
    assert!(refused.message().ends_with("has invalid permissions"), "{refused:?}");
    assert_eq!(refused.detail(), Some("Permissions are 0755, and should be u=rwx (0700) or u=rwx,g=rx (0750)."));
    for mode in [0o700, 0o750] {
        fs::set_permissions(&directory, Permissions::from_mode(mode)).expect("own directory");
        cluster.connect().batch_execute(NEXTVAL).expect("a directory of its own");
    }
    let mode = fs::metadata(directory.join("mark")).expect("a mark").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // What is planted in the way of the temporary file is not followed. Without a mark, the server writes a new file.
    let victim = cluster.host().join("victim");
    fs::write(&victim, "precious").expect("a file");
    let planted = directory.join("mark.new");
    while symlink(&victim, &planted).is_err() {}
    fs::remove_file(directory.join("mark")).expect("the mark");
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        cluster.connect().batch_execute(NEXTVAL).expect("an ID");
        sleep(Duration::from_millis(100));
    }
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
    assert!(!planted.is_symlink());
}

/// A server of another cluster in the same state directory.
fn second_server(worker: i32, directory: &Path) -> Cluster {
    let builder = Cluster::builder().worker(worker).set("snowflake_pg.state_directory", directory.display());
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// Each would take the other's mark for its own.
#[test]
fn a_state_directory_is_for_one_server_at_a_time() {
    let (mut first, directory) = server_with_directory();
    first.connect().batch_execute(NEXTVAL).expect("an ID");
    let holder = first.data().display().to_string();
    let second = second_server(2, &directory);
    let in_use = format!("state directory \"{}\" is in use by another server", directory.display());
    for call in [NEXTVAL, "SELECT snowflake_accept_identity()"] {
        let refused = error(&mut second.connect(), call);
        assert_eq!((refused.code().code(), refused.message()), ("55000", &*in_use), "{refused:?}");
        assert!(refused.detail().is_some_and(|detail| detail.contains(&holder)), "{refused:?}");
    }
    assert!(second.log().contains(&in_use), "{}", second.log());
    let mut guest = second.connect();
    guest.batch_execute("CREATE ROLE guest; SET ROLE guest").expect("a role");
    let refused = error(&mut guest, NEXTVAL);
    let hidden = "state directory \"snowflake_pg.state_directory\" is in use by another server";
    assert_eq!(refused.message(), hidden);
    assert!(refused.detail().is_some_and(|detail| !detail.contains(&holder)), "{refused:?}");
    first.connect().batch_execute(NEXTVAL).expect("the first one goes on");

    first.kill_all();
    let refused = error(&mut second.connect(), NEXTVAL);
    assert_eq!(refused.message(), "the durable mark belongs to another database cluster");
    // A server that is refused does not keep others away.
    first.start();
    first.connect().batch_execute(NEXTVAL).expect("it is back");
    first.stop(Signal::INT);
    let accept = "SELECT snowflake_accept_identity(); SELECT snowflake_nextval()";
    second.connect().batch_execute(accept).expect("an acceptance");
    first.start();
    let refused = error(&mut first.connect(), NEXTVAL);
    assert_eq!(refused.message(), in_use);
    drop(second);
    let refused = error(&mut first.connect(), NEXTVAL);
    assert_eq!(refused.message(), "the durable mark belongs to another database cluster");
}

/// As on a file system that does not lock: the second server starts while the directory is away, and so has nothing to
/// lock.
#[test]
fn of_two_servers_without_a_lock_the_first_to_notice_stops() {
    let (first, directory) = server_with_directory();
    let away = directory.with_extension("away");
    first.connect().batch_execute(NEXTVAL).expect("an ID");
    fs::rename(&directory, &away).expect("a volume that goes away");
    let second = second_server(2, &directory);
    fs::rename(&away, &directory).expect("a volume that comes back");
    let message = "the durable mark belongs to another database cluster";
    assert_eq!(error(&mut second.connect(), NEXTVAL).message(), message);
    // Somebody accepts it all the same. Both may write at the same moment, and one of them fail by that for once.
    let deadline = Instant::now() + Duration::from_secs(60);
    let accept = "SELECT snowflake_accept_identity(); SELECT snowflake_nextval()";
    while let Err(failure) = second.connect().batch_execute(accept) {
        assert!(Instant::now() < deadline, "the second one can't take it over: {failure:?}");
    }
    let refused = loop {
        assert!(Instant::now() < deadline, "the first one goes on beside the second");
        if let Err(refused) = first.connect().batch_execute(NEXTVAL)
            && let Some(refused) = refused.as_db_error().filter(|refused| refused.code().code() != "58030")
        {
            break refused.clone();
        }
    };
    assert_eq!(refused.code().code(), "55000");
    assert!(refused.message().ends_with("has been replaced by another server"), "{refused:?}");
    drop(second);
    fs::remove_file(directory.join("mark")).expect("the mark");
    first.connect().batch_execute(NEXTVAL).expect("a mark that is lost is written again");
}

/// By then it may be another server's, which has issued IDs up to it.
#[test]
fn a_server_that_stops_lowers_no_mark_but_its_own() {
    let (mut cluster, directory) = server_with_directory();
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
    // The keeper must not write between the two steps of this test.
    sleep(Duration::from_secs(1));
    let file = directory.join("mark");
    let mut record = state_file::decode(&fs::read(&file).expect("a mark")).expect("a whole record");
    record.identity.numbers.1 += 1;
    record.life += 1;
    record.mark += 60_000;
    fs::write(&file, state_file::encode(&record)).expect("another server's mark");
    cluster.stop(Signal::INT);
    assert_eq!(mark_in(&file), record.mark);
}

/// A volume that is swapped under a running server: marks in the new one would not count when the old one is back.
#[test]
fn a_state_directory_that_is_swapped_under_a_running_server_is_refused() {
    let (cluster, directory) = server_with_directory();
    let away = directory.with_extension("away");
    let mut client = cluster.connect();
    client.batch_execute(NEXTVAL).expect("an ID");
    fs::rename(&directory, &away).expect("a volume that goes away");
    cluster.make_directory("state");
    // The mark in use lasts for reserve_ahead, or longer where the disk is slow.
    let deadline = Instant::now() + Duration::from_secs(60);
    while client.batch_execute(NEXTVAL).is_ok() {
        assert!(Instant::now() < deadline, "IDs above a mark that nobody extends");
        sleep(Duration::from_millis(50));
    }
    let refused = error(&mut client, NEXTVAL);
    assert!(refused.message().ends_with("has been replaced by another server"), "{refused:?}");
    assert!(!directory.join("mark").exists(), "nothing is written there");
    fs::remove_dir(&directory).expect("the mount point");
    fs::rename(&away, &directory).expect("a volume that comes back");
    client.batch_execute(NEXTVAL).expect("an ID");
}
