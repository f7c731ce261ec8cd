//! One server at a time writes marks to a state directory; or the first to notice stops.

use snowflake_core::mark::state_file;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, PATIENCE, Signal, StopOnDrop, error, mark_in, test};

const NEXTVAL: &str = "SELECT snowflake_nextval()";

const IN_USE: &str = "is in use by another server";

/// A server with a state directory outside of its data directory, and a mark that is written often.
/// The keeper of this server soon writes no mark any more, so that a test can write to the state file.
fn server_with_directory() -> (Cluster, PathBuf) {
    server_with(Cluster::builder())
}

fn server_with(builder: Builder) -> (Cluster, PathBuf) {
    let builder = builder.worker(1).set("snowflake_pg.reserve_ahead", "200ms");
    let mut cluster = builder.set("snowflake_pg.keep_warm", 0).create();
    let directory = cluster.make_directory("state");
    cluster.configure("snowflake_pg.state_directory", directory.display());
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, directory)
}

/// A server of another cluster in the same state directory.
fn second_server(worker: i32, directory: &Path) -> Cluster {
    let builder = Cluster::builder().worker(worker).set("snowflake_pg.state_directory", directory.display());
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// A copy that cannot begin would keep its original from beginning, and the error would name the original itself.
#[test]
fn a_server_that_may_not_begin_keeps_no_other_one_from_its_directory() {
    let (mut original, directory) = server_with(Cluster::builder());
    original.connect().batch_execute(NEXTVAL).expect("an ID");
    // Without a keeper, which has to write the mark.
    let copy = Cluster::builder().set("max_worker_processes", 0).set("snowflake_pg.wal_mark", "require");
    let mut copy = copy.set("snowflake_pg.worker_id", 2).backup_of(&original);
    original.stop(Signal::INT);
    copy.start();
    let refused = error(&mut copy.connect(), NEXTVAL);
    assert_eq!(refused.message(), "could not write the durable mark to WAL in time");
    original.start();
    original.connect().batch_execute(NEXTVAL).expect("an ID");
    original.stop(Signal::INT);
    copy.stop(Signal::INT);

    let (mark, kept) = (directory.join("mark"), directory.join("kept"));
    fs::rename(&mark, &kept).expect("the mark");
    fs::write(&mark, "damaged").expect("another one");
    copy.configure("snowflake_pg.worker_id", 1);
    copy.configure("snowflake_pg.wal_mark", "prefer");
    copy.start();
    let refused = error(&mut copy.connect(), NEXTVAL);
    assert!(refused.message().ends_with("is damaged"), "{refused:?}");
    fs::rename(&kept, &mark).expect("the mark");
    original.start();
    original.connect().batch_execute(NEXTVAL).expect("an ID");
}

/// Each would take the other's mark for its own.
#[test]
fn a_state_directory_is_for_one_server_at_a_time() {
    let (mut first, directory) = server_with_directory();
    first.connect().batch_execute(NEXTVAL).expect("an ID");
    let holder = first.data().display().to_string();
    let second = second_server(2, &directory);
    let in_use = format!("state directory \"{}\" is in use by another server", directory.display());
    for call in [NEXTVAL, "SELECT snowflake_accept_mark()"] {
        let refused = error(&mut second.connect(), call);
        assert_eq!((refused.code().code(), refused.message()), ("55000", &*in_use), "{refused:?}");
        assert!(refused.detail().is_some_and(|detail| detail.contains(&holder)), "{refused:?}");
    }
    second.wait_for_log(&in_use);
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
    let accept = "SELECT snowflake_accept_mark(); SELECT snowflake_nextval()";
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
    let deadline = Instant::now() + PATIENCE;
    let accept = "SELECT snowflake_accept_mark(); SELECT snowflake_nextval()";
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
    cluster.wait_until_keeper_rests();
    let file = directory.join("mark");
    let mut record = state_file::decode(&fs::read(&file).expect("a mark")).expect("a whole record");
    record.identity.worker += 1;
    record.life += 1;
    record.mark += 60_000;
    fs::write(&file, state_file::encode(&record)).expect("another server's mark");
    cluster.stop(Signal::INT);
    assert_eq!(mark_in(&file), record.mark);
}

/// A server with a logging collector, which outlives it as long as a command that the server has started can write to
/// the server log. The collector has inherited the lock.
fn server_with_a_command_that_goes_on() -> (Cluster, PathBuf) {
    let (cluster, directory) = server_with(Cluster::builder().set("logging_collector", "on"));
    // Its standard error is the server log. Not in the process group of the backend, which a shutdown would end with
    // it.
    let command = "COPY (SELECT 1) TO PROGRAM 'setsid sleep 15 > /dev/null & cat > /dev/null'";
    cluster.connect().batch_execute(&format!("{NEXTVAL}; {command}")).expect("a command");
    (cluster, directory)
}

#[test]
fn a_server_is_told_which_process_of_a_killed_one_has_its_directory() {
    let (mut cluster, directory) = server_with_a_command_that_goes_on();
    cluster.stop(Signal::KILL);
    cluster.start();
    let refused = error(&mut cluster.connect(), NEXTVAL);
    assert_eq!(refused.code().code(), "55000");
    assert_eq!(refused.message(), format!("state directory \"{}\" is still in use", directory.display()));
    let detail = refused.detail().expect("a detail");
    let process = detail.split_whitespace().nth(2).expect("a process ID");
    assert_eq!(detail, format!("Process ID {process} has outlived a server in this data directory."));
    let second = second_server(2, &directory);
    let in_use = error(&mut second.connect(), NEXTVAL);
    assert!(in_use.message().ends_with(IN_USE), "{in_use:?}");
    let killed = Command::new("kill").args(["-KILL", process]).status();
    assert!(killed.expect("kill").success());
    let deadline = Instant::now() + PATIENCE;
    while cluster.connect().batch_execute(NEXTVAL).is_err() {
        assert!(Instant::now() < deadline, "the lock has not ended with the process");
    }
}

#[test]
fn a_server_that_has_stopped_leaves_the_lock_to_others_whatever_its_logging_collector_does() {
    let (mut cluster, directory) = server_with_a_command_that_goes_on();
    cluster.stop(Signal::INT);
    let second = second_server(2, &directory);
    let refused = error(&mut second.connect(), NEXTVAL);
    assert_eq!(refused.message(), "the durable mark belongs to another database cluster");
}

/// A server that is refused has it for a moment, whenever it is asked for an ID.
#[test]
fn a_lock_that_another_server_has_for_a_moment_is_waited_for() {
    const MOMENT: Duration = Duration::from_millis(20);
    let (mut cluster, directory) = server_with_directory();
    // So that a call takes the lock, and a client sees what comes of that.
    cluster.configure("max_worker_processes", 0);
    let (is_over, was_longer, moments) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = File::open(&directory).expect("the state directory");
            while !is_over.load(Ordering::Relaxed) {
                if other.try_lock().is_ok() {
                    let since = Instant::now();
                    sleep(Duration::from_millis(4));
                    // On a busy machine, this thread can sleep on.
                    was_longer.fetch_or(since.elapsed() > MOMENT, Ordering::Relaxed);
                    other.unlock().expect("the lock");
                    moments.fetch_add(1, Ordering::Relaxed);
                }
                sleep(Duration::from_millis(2));
            }
        });
        let _ending = StopOnDrop(&is_over);
        let (mut calls, deadline) = (0, Instant::now() + PATIENCE);
        while calls < 8 {
            was_longer.store(false, Ordering::Relaxed);
            cluster.restart(Signal::INT);
            let Err(refused) = cluster.connect().batch_execute(NEXTVAL) else {
                calls += 1;
                continue;
            };
            // Until this moment is over, too.
            let before = moments.load(Ordering::Relaxed);
            while moments.load(Ordering::Relaxed) == before {
                sleep(Duration::from_millis(1));
            }
            assert!(was_longer.load(Ordering::Relaxed) && Instant::now() < deadline, "{refused:?}");
        }
    });
}
