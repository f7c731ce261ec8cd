//! Nothing is issued twice when the state directory, or a file in it, goes away, comes back or is exchanged. The fault
//! suite has the crashes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, PATIENCE, Signal, error, issued_at, real_time, record_in, test, value};

const NEXTVAL: &str = "SELECT snowflake_nextval()";

/// A server that has nothing but its state directory.
fn without_wal() -> Builder {
    Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "off")
}

/// A server with a state directory outside of its data directory, and a mark that is written often.
fn server_with_directory() -> (Cluster, PathBuf) {
    let mut cluster = without_wal().set("snowflake_pg.reserve_ahead", "200ms").create();
    let directory = cluster.make_directory("state");
    cluster.configure("snowflake_pg.state_directory", directory.display());
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, directory)
}

/// Draws IDs right after a crash, when they are as far ahead of the clock as they get.
fn draw_ahead(cluster: &mut Cluster, ids: &mut Vec<i64>) {
    cluster.connect().batch_execute(NEXTVAL).expect("a mark");
    cluster.restart(Signal::KILL);
    let rows = cluster.connect().query("SELECT snowflake_nextvals(20000)", &[]).expect("IDs");
    ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    cluster.stop(Signal::QUIT);
}

/// A volume that is not mounted is not a first start, and when it is back its mark counts.
#[test]
fn a_state_directory_that_is_away_is_refused_until_it_is_back() {
    let mut cluster = without_wal().set("snowflake_pg.reserve_ahead", "4s").create();
    let volume = cluster.host().join("volume");
    let away = cluster.host().join("away");
    cluster.configure("snowflake_pg.state_directory", volume.display());
    cluster.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let refused = error(&mut client, NEXTVAL);
    assert_eq!(refused.code().code(), "58P01");
    let message = format!("could not open directory \"{}\": No such file or directory", volume.display());
    assert_eq!(refused.message(), message, "an absolute directory is not made");
    drop(client);
    cluster.make_directory("volume");

    let mut ids = Vec::new();
    draw_ahead(&mut cluster, &mut ids);
    fs::rename(&volume, &away).expect("a volume that goes away");
    cluster.start();
    assert_eq!(error(&mut cluster.connect(), NEXTVAL).code().code(), "58P01");
    fs::rename(&away, &volume).expect("a volume that comes back");
    draw_ahead(&mut cluster, &mut ids);

    // In its place is an empty directory, as a mount point is: the mark is missed.
    fs::rename(&volume, &away).expect("a volume that goes away");
    cluster.make_directory("volume");
    cluster.start();
    for _ in 0..2 {
        let refused = error(&mut cluster.connect(), NEXTVAL);
        assert_eq!(refused.message(), "this server wrote its durable mark in another directory");
    }
    cluster.stop(Signal::QUIT);
    fs::remove_dir_all(&volume).expect("a mount point");
    fs::rename(&away, &volume).expect("a volume that comes back");
    cluster.start();
    draw_ahead(&mut cluster, &mut ids);

    // Somebody accepts that the volume is lost. When it comes back, its mark is an old one.
    fs::rename(&volume, &away).expect("a volume that is lost");
    cluster.make_directory("volume");
    cluster.start();
    cluster.connect().batch_execute("SELECT snowflake_accept_mark()").expect("an acceptance");
    draw_ahead(&mut cluster, &mut ids);
    fs::rename(&volume, volume.with_extension("new")).expect("the new volume");
    fs::rename(&away, &volume).expect("a volume that comes back");
    cluster.start();
    let refused = error(&mut cluster.connect(), NEXTVAL);
    assert_eq!(refused.message(), "the durable mark is not the one that this server wrote last");
    assert!(ids.is_sorted_by(|a, b| a < b), "an ID came twice, or out of order");
}

/// A directory in the data directory can be exchanged as well: by another name, or by a volume that is not mounted.
#[test]
fn a_mark_in_the_data_directory_is_missed_where_another_directory_has_taken_its_place() {
    let mut cluster = without_wal().start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    let (place, away) = (cluster.data().join("snowflake_pg"), cluster.data().join("away"));
    let configure = |cluster: &Cluster, to: &str| cluster.configure("snowflake_pg.state_directory", to);
    let is_missed_after = |cluster: &mut Cluster, exchange: &dyn Fn(&Cluster), put_back: &dyn Fn(&Cluster)| {
        cluster.stop(Signal::INT);
        exchange(cluster);
        cluster.start();
        let refused = error(&mut cluster.connect(), NEXTVAL);
        assert_eq!(refused.message(), "this server wrote its durable mark in another directory");
        cluster.stop(Signal::INT);
        put_back(cluster);
        cluster.start();
        cluster.connect().batch_execute(NEXTVAL).expect("the mark is back");
    };
    is_missed_after(&mut cluster, &|it| configure(it, "another"), &|it| configure(it, "snowflake_pg"));
    is_missed_after(&mut cluster, &|_| fs::rename(&place, &away).expect("a volume that goes away"), &|_| {
        fs::remove_dir(&place).expect("what the server has made in its place");
        fs::rename(&away, &place).expect("a volume that comes back");
    });
    // What leads out of the data directory is not created.
    cluster.configure("snowflake_pg.state_directory", "../outside");
    cluster.restart(Signal::INT);
    let refused = error(&mut cluster.connect(), NEXTVAL);
    assert!(refused.message().starts_with("could not open directory"), "{refused:?}");
}

/// The start margin protects from a mark that is only away; a crash in the middle of it changes nothing in that.
#[test]
fn a_crash_while_the_start_margin_passes_begins_it_anew() {
    let mut cluster = without_wal().with_defaults().start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    fs::remove_file(cluster.mark_file()).expect("the mark");
    for _ in 0..2 {
        cluster.start();
        let state = "SELECT state FROM snowflake_status";
        while value(&mut cluster.connect(), state) != "waiting" {
            sleep(Duration::from_millis(5));
        }
        assert!(!cluster.mark_file().exists(), "what is not needed yet is not written");
        cluster.stop(Signal::KILL);
    }
    let before = real_time();
    cluster.start();
    let id: i64 = value(&mut cluster.connect(), NEXTVAL).parse().expect("an ID");
    let issued_at = issued_at(id);
    assert!((before + 5000..=real_time() + 3000).contains(&issued_at), "{issued_at} after {before}");
}

#[test]
fn what_is_reloaded_while_a_server_waits_does_not_lower_where_its_ids_begin() {
    for (name, to) in [("max_borrow", "2s"), ("reserve_ahead", "5s"), ("clock_regression", "wait")] {
        let before = real_time();
        let cluster = without_wal().with_defaults().start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        cluster.wait_for_log("IDs begin at ");
        let name = format!("snowflake_pg.{name}");
        cluster.configure(&name, to);
        cluster.reload();
        while value(&mut client, &format!("SHOW {name}")) != to {
            sleep(Duration::from_millis(5));
        }
        let id: i64 = value(&mut client, NEXTVAL).parse().expect("an ID");
        assert!(issued_at(id) >= before + 5000, "{name}: {} after {before}", issued_at(id));
    }
}

#[test]
fn a_state_directory_that_others_can_get_at_is_refused() {
    let (mut cluster, directory) = server_with_directory();
    // Before the keeper has a mark there, by which IDs go on for a moment.
    cluster.stop(Signal::INT);
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("own directory");
    cluster.start();
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

/// A volume that is swapped under a running server: marks in the new one would not count when the old one is back. Also
/// where the volume was not there when the server started, which then has no lock.
#[test]
fn a_state_directory_that_is_swapped_under_a_running_server_is_refused() {
    for is_late in [false, true] {
        let (mut cluster, directory) = server_with_directory();
        let away = directory.with_extension("away");
        if is_late {
            cluster.stop(Signal::INT);
            fs::rename(&directory, &away).expect("a volume that is late");
            cluster.start();
            fs::rename(&away, &directory).expect("a volume that comes");
        }
        let mut client = cluster.connect();
        client.batch_execute(NEXTVAL).expect("an ID");
        fs::rename(&directory, &away).expect("a volume that goes away");
        cluster.make_directory("state");
        // The mark in use lasts for reserve_ahead, or longer where the disk is slow.
        let deadline = Instant::now() + PATIENCE;
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
}

/// Without a keeper, so that it begins with the first call.
#[test]
fn a_state_directory_that_is_swapped_before_the_first_id_is_refused() {
    let (mut cluster, directory) = server_with_directory();
    cluster.configure("max_worker_processes", 0);
    cluster.restart(Signal::INT);
    fs::rename(&directory, directory.with_extension("away")).expect("a volume that goes away");
    cluster.make_directory("state");
    let refused = error(&mut cluster.connect(), NEXTVAL);
    assert!(refused.message().ends_with("is not the one that the server started with"), "{refused:?}");
}

/// The right volume is mounted after the server has started on an empty mount point.
#[test]
fn a_state_directory_that_is_mounted_late_is_used_after_a_restart() {
    let (mut cluster, directory) = server_with_directory();
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
    cluster.stop(Signal::INT);
    let away = directory.with_extension("away");
    fs::rename(&directory, &away).expect("a volume that is not mounted yet");
    cluster.make_directory("state");
    cluster.start();
    let missing = error(&mut cluster.connect(), NEXTVAL);
    assert_eq!(missing.message(), "this server wrote its durable mark in another directory");
    fs::remove_dir(&directory).expect("the mount point");
    fs::rename(&away, &directory).expect("the volume");
    let late = error(&mut cluster.connect(), NEXTVAL);
    assert!(late.message().ends_with("is not the one that the server started with"), "{late:?}");
    assert!(late.hint().is_some_and(|hint| hint.contains("restart the server")), "{late:?}");
    cluster.restart(Signal::INT);
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
}

/// The postmaster opens it for all processes of the server, once.
#[test]
fn a_server_that_could_not_open_its_state_directory_at_its_start_says_that_it_is_not_locked() {
    const WARNING: &str = "snowflake_pg: the state directory is not locked";
    let (mut cluster, directory) = server_with_directory();
    let allow = |mode| fs::set_permissions(&directory, Permissions::from_mode(mode)).expect("permissions");
    cluster.stop(Signal::INT);
    allow(0o755);
    cluster.start();
    assert_eq!(error(&mut cluster.connect(), NEXTVAL).code().code(), "55000");
    allow(0o700);
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
    cluster.wait_for_log(WARNING);
    let logged = cluster.log().len();
    cluster.restart(Signal::INT);
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
    assert!(!cluster.log()[logged..].contains(WARNING), "{}", cluster.log());
}

/// As a restore does under a running server.
#[test]
fn an_older_file_in_the_place_of_the_mark_is_refused() {
    let (cluster, directory) = server_with_directory();
    let mut client = cluster.connect();
    client.batch_execute(NEXTVAL).expect("an ID");
    let older = fs::read(directory.join("mark")).expect("the mark");
    let deadline = Instant::now() + PATIENCE;
    while record_in(&directory.join("mark")).revision < 10 {
        assert!(Instant::now() < deadline, "no mark is written");
        client.batch_execute(NEXTVAL).expect("an ID");
    }
    fs::write(directory.join("mark"), older).expect("a restore");
    let refused = loop {
        assert!(Instant::now() < deadline, "the server goes on above an older mark");
        if let Err(refused) = client.batch_execute(NEXTVAL) {
            break refused.as_db_error().expect("the server's").clone();
        }
    };
    assert!(refused.message().ends_with("has been replaced by another server"), "{refused:?}");
}

/// Revisions do not begin anew when a file is lost. Else the old one would pass for a newer one.
#[test]
fn an_old_file_that_comes_back_after_it_was_lost_is_refused() {
    let (mut cluster, directory) = server_with_directory();
    let (file, old) = (directory.join("mark"), directory.join("old"));
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
    let deadline = Instant::now() + PATIENCE;
    while record_in(&file).revision < 10 {
        assert!(Instant::now() < deadline, "no mark is written");
        cluster.connect().batch_execute(NEXTVAL).expect("an ID");
    }
    cluster.stop(Signal::INT);
    fs::rename(&file, &old).expect("a file that is lost");
    cluster.start();
    let advance = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '4 s'))";
    cluster.connect().batch_execute(&format!("{NEXTVAL}; {advance}; {NEXTVAL}")).expect("IDs ahead of the clock");
    cluster.stop(Signal::INT);
    fs::rename(&old, &file).expect("a file that comes back");
    cluster.start();
    let refused = error(&mut cluster.connect(), NEXTVAL);
    assert_eq!(refused.message(), "the durable mark is not the one that this server wrote last");
}

/// A worker that comes back must find what the server knows of it, also if the file was lost meanwhile.
#[test]
fn the_marks_of_other_workers_are_kept_also_when_the_file_is_lost() {
    let (mut cluster, directory) = server_with_directory();
    let file = directory.join("mark");
    let mut client = cluster.connect();
    client
        .batch_execute("SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '1 min'))")
        .expect("an advance");
    drop(client);
    cluster.stop(Signal::INT);
    let of_the_first = record_in(&file).mark;
    assert!(of_the_first > real_time() + 30_000, "the first worker is far ahead");
    cluster.configure("snowflake_pg.worker_id", 2);
    cluster.start();
    let deadline = Instant::now() + PATIENCE;
    let write_more = |revisions: u64| {
        let before = record_in(&file).revision;
        while record_in(&file).revision < before + revisions {
            assert!(Instant::now() < deadline, "no mark is written");
            // It waits for its start margin first.
            let _ = cluster.connect().batch_execute(NEXTVAL);
        }
    };
    write_more(5);
    assert_eq!(record_in(&file).others.mark_of(1), of_the_first);
    fs::remove_file(&file).expect("the mark");
    while !file.exists() {
        assert!(Instant::now() < deadline, "no mark is written");
        cluster.connect().batch_execute(NEXTVAL).expect("a mark that is lost is written again");
    }
    write_more(2);
    assert!(record_in(&file).others.mark_of(1) >= of_the_first);
}

#[test]
fn a_server_that_cannot_write_to_its_data_directory_issues_nothing_and_raises_no_mark() {
    let (mut cluster, directory) = server_with_directory();
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
    cluster.stop(Signal::INT);
    let before = record_in(&directory.join("mark"));
    // Not even root can remove that as a file.
    let obstacle = cluster.data().join("snowflake_pg.life.new");
    fs::create_dir(&obstacle).expect("an obstacle");
    for _ in 0..3 {
        cluster.start();
        let refused = error(&mut cluster.connect(), NEXTVAL);
        assert_eq!(refused.code().code(), "58030");
        assert_eq!(refused.message(), format!("could not remove file \"{}\": Is a directory", obstacle.display()));
        assert_eq!(refused.hint(), Some("Check the data directory, its disk and its permissions."));
        cluster.stop(Signal::INT);
        assert_eq!(record_in(&directory.join("mark")), before);
    }
    fs::remove_dir(&obstacle).expect("the obstacle");
    cluster.start();
    cluster.connect().batch_execute(NEXTVAL).expect("an ID");
}

/// It was written in a life before the last one.
#[test]
fn an_old_mark_in_wal_does_not_stand_in_for_one_that_was_left_behind() {
    let mut cluster = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "prefer").start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster.wait_until("SELECT snowflake_nextval() > 0");
    let mut restart_with = |wal_mark, directory| {
        cluster.stop(Signal::INT);
        cluster.configure("snowflake_pg.wal_mark", wal_mark);
        cluster.configure("snowflake_pg.state_directory", directory);
        cluster.start();
        cluster.connect()
    };
    restart_with("prefer", "second").batch_execute(NEXTVAL).expect("the mark in WAL");
    restart_with("off", "second").batch_execute(NEXTVAL).expect("an ID, of which WAL knows nothing");
    let refused = error(&mut restart_with("prefer", "third"), NEXTVAL);
    assert_eq!(refused.message(), "this server wrote its durable mark in another directory");
}

/// Its timeline is the one before the promotion, so it knows nothing of what the promoted server has issued.
#[test]
fn a_backup_from_before_a_promotion_is_refused_by_the_mark_of_the_promoted_server() {
    let mut primary = Cluster::builder().worker(1).create();
    let directory = primary.make_directory("state");
    primary.configure("snowflake_pg.state_directory", directory.display());
    primary.start();
    primary.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let mut backup = Cluster::builder().backup_of(&primary);
    let mut standby = Cluster::builder().standby_of(&primary);
    primary.connect().batch_execute(NEXTVAL).expect("an ID");
    standby.wait_for_commits_of(&primary);
    primary.stop(Signal::INT);
    standby.promote();
    standby.connect().batch_execute(NEXTVAL).expect("an ID");
    standby.stop(Signal::INT);
    backup.start();
    let refused = error(&mut backup.connect(), NEXTVAL);
    assert_eq!(refused.message(), "the durable mark was written on a newer timeline");
}
