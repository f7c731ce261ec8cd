//! Nothing is issued twice through crashes and restarts, with every ID counted that a client has received.

use snowflake_core::layout::Layout;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, Signal, error, give_away, mark_in, real_time, value};

/// How far the durable mark runs ahead, and so how far a server may be ahead of its clock after a crash.
const RESERVE_AHEAD_MS: i64 = 2000;

fn server() -> Cluster {
    let cluster = Cluster::builder().worker(1).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

fn twitter() -> Layout {
    "twitter".parse().expect("a preset")
}

#[test]
fn ids_stay_unique_when_the_whole_server_is_killed() {
    let mut cluster = server();
    let load = Load::start(&cluster, 4, "SELECT snowflake_nextval() FROM generate_series(1, 500)");
    for round in 0..6 {
        sleep(Duration::from_millis(150));
        if round % 2 == 0 {
            cluster.kill_all()
        } else {
            cluster.stop(Signal::KILL)
        }
        cluster.start();
    }
    sleep(Duration::from_millis(150));
    let report = load.finish();
    report.assert_unique_and_ordered();
    assert!(report.errors().is_empty(), "{:?}", report.errors());
    assert!(report.outages() > 0, "the crashes were noticed");
}

#[test]
fn ids_stay_unique_when_the_clock_goes_back_at_every_restart() {
    let mut cluster = Cluster::builder().worker(1).own_clock().start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let load = Load::start(&cluster, 4, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    for round in 0..10 {
        sleep(Duration::from_millis(100));
        cluster.stop(Signal::QUIT);
        cluster.set_clock(if round % 2 == 0 { -1.0 } else { 0.0 });
        cluster.start();
    }
    sleep(Duration::from_millis(100));
    let report = load.finish();
    report.assert_unique_and_ordered();
    assert!(report.errors().is_empty(), "{:?}", report.errors());
}

#[test]
fn quick_crashes_do_not_drive_the_server_away_from_its_clock() {
    let cluster = server();
    for _ in 0..8 {
        cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
        cluster.kill_backend();
    }
    let mark = cluster.mark();
    let ahead = i64::try_from(mark).expect("this age") - i64::try_from(real_time()).expect("this age");
    assert!(ahead <= RESERVE_AHEAD_MS, "{ahead} ms ahead");
}

/// I1, as seen from outside: a client that has received an ID finds a mark above it on disk, however soon it looks.
#[test]
fn the_mark_on_disk_is_above_every_id_as_soon_as_it_is_received() {
    let cluster = Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", "100ms").start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let (path, layout) = (cluster.mark_file(), twitter());
    let until = Instant::now() + Duration::from_secs(4);
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (path, mut client) = (path.clone(), cluster.connect());
            thread::spawn(move || {
                let next = client.prepare("SELECT snowflake_nextval()").expect("a statement");
                let mut marks = HashSet::new();
                while Instant::now() < until {
                    let id: i64 = client.query_one(&next, &[]).expect("an ID").get(0);
                    let mark = mark_in(&path);
                    assert!(layout.issued_at(id.cast_unsigned()) < mark, "{id} is above the mark {mark} on disk");
                    marks.insert(mark);
                }
                marks.len()
            })
        })
        .collect();
    for client in clients {
        let marks = client.join().expect("no ID above the mark");
        assert!(marks > 5, "the test means something only if the mark was extended meanwhile: {marks} marks");
    }
}

#[test]
fn a_damaged_mark_is_refused_until_it_is_restored() {
    let mut cluster = server();
    let before: i64 = value(&mut cluster.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    cluster.stop(Signal::INT);
    let good = fs::read(cluster.mark_file()).expect("a mark");
    let mut flipped = good.clone();
    flipped[17] ^= 4;
    for damaged in [&flipped[..], &good[..20], b"", &[good.clone(), good.clone()].concat()] {
        fs::write(cluster.mark_file(), damaged).expect("a damaged mark");
        cluster.start();
        let mut client = cluster.connect();
        for _ in 0..2 {
            let refused = error(&mut client, "SELECT snowflake_nextval()");
            assert_eq!(refused.code().code(), "XX001");
            assert!(refused.message().ends_with("snowflake_pg/mark\" is damaged"), "{refused:?}");
            assert!(refused.detail().is_some() && refused.hint().is_some(), "{refused:?}");
        }
        assert_eq!(fs::read(cluster.mark_file()).expect("a mark"), damaged, "left as it was");
        drop(client);
        cluster.stop(Signal::INT);
    }
    fs::write(cluster.mark_file(), &good).expect("the mark");
    cluster.start();
    let after: i64 = value(&mut cluster.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    assert!(after > before);
}

#[test]
fn a_missing_mark_starts_above_what_a_right_clock_can_have_issued_and_is_logged() {
    let mut cluster = server();
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    fs::remove_file(cluster.mark_file()).expect("the mark");
    let before = real_time();
    cluster.start();
    let id: i64 = value(&mut cluster.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    let issued_at = twitter().issued_at(id.cast_unsigned());
    assert!(issued_at >= before + 2000, "{issued_at} at {before}");
    assert!(issued_at <= real_time(), "the clock has passed the guard by then");
    assert!(cluster.log().contains("LOG:  snowflake_pg: no durable mark found"), "{}", cluster.log());
}

#[test]
fn a_mark_that_cannot_be_written_stops_ids_at_the_old_one_until_it_can() {
    let cluster = server();
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    // Not even root can make a file where a directory stands, or remove one that is not empty.
    let obstacle = cluster.mark_file().with_extension("new");
    while fs::create_dir_all(obstacle.join("full")).is_err() {
        assert!(obstacle.is_file(), "somebody is writing the mark");
    }
    let mark = cluster.mark();
    let mut last = 0;
    let deadline = Instant::now() + Duration::from_secs(30);
    let refused = loop {
        assert!(Instant::now() < deadline, "IDs without a mark");
        match client.query_one("SELECT snowflake_nextval()", &[]) {
            Ok(row) => last = row.get::<_, i64>(0),
            Err(error) => break error.as_db_error().expect("the server's error").clone(),
        }
    };
    assert_eq!(refused.code().code(), "58030");
    assert!(refused.message().starts_with("could not remove file"), "{refused:?}");
    assert!(twitter().issued_at(last.cast_unsigned()) < mark, "an ID at or above the mark on disk");
    assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), "58030", "and again");
    fs::remove_dir_all(&obstacle).expect("the obstacle");
    client.batch_execute("SELECT snowflake_nextval()").expect("IDs again, in the same session");
}

#[test]
fn a_write_that_fails_leaves_the_old_mark() {
    let mut cluster = server();
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    let mark = fs::read(cluster.mark_file()).expect("a mark");
    // Files can be renamed in it, but it can't be opened, and so not be flushed.
    let directory = cluster.data().join("snowflake_pg");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o300)).expect("own directory");
    cluster.start();
    for _ in 0..3 {
        assert_eq!(error(&mut cluster.connect(), "SELECT snowflake_nextval()").code().code(), "58030");
    }
    assert_eq!(fs::read(cluster.mark_file()).expect("a mark"), mark);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("own directory");
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("IDs again");
}

/// Draws IDs right after a crash, when they are as far ahead of the clock as they get.
fn draw_ahead(cluster: &mut Cluster, ids: &mut Vec<i64>) {
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("a mark");
    cluster.restart(Signal::QUIT);
    let rows = cluster.connect().query("SELECT snowflake_nextvals(20000)", &[]).expect("IDs");
    ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    cluster.stop(Signal::QUIT);
}

#[test]
fn a_deleted_mark_does_no_harm_while_the_clock_is_right() {
    let mut cluster = server();
    let mut ids = Vec::new();
    for _ in 0..2 {
        draw_ahead(&mut cluster, &mut ids);
        fs::remove_file(cluster.mark_file()).expect("the mark");
        cluster.start();
    }
    draw_ahead(&mut cluster, &mut ids);
    assert!(ids.is_sorted_by(|a, b| a < b), "an ID came twice, or out of order");
}

/// A volume that is not mounted is not a first start, and when it is back its mark counts.
#[test]
fn a_state_directory_that_is_away_is_refused_until_it_is_back() {
    let mut cluster = Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", "4s").create();
    let volume = cluster.host().join("volume");
    let away = cluster.host().join("away");
    cluster.configure("snowflake_pg.state_directory", volume.display());
    cluster.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "58030");
    let message = format!("could not open directory \"{}\": No such file or directory", volume.display());
    assert_eq!(refused.message(), message, "an absolute directory is not made");
    drop(client);
    make_writable(&volume);

    let mut ids = Vec::new();
    draw_ahead(&mut cluster, &mut ids);
    fs::rename(&volume, &away).expect("a volume that goes away");
    cluster.start();
    assert_eq!(error(&mut cluster.connect(), "SELECT snowflake_nextval()").code().code(), "58030");
    fs::rename(&away, &volume).expect("a volume that comes back");
    draw_ahead(&mut cluster, &mut ids);

    // In its place stands a directory without a mark, in which none can be written.
    fs::rename(&volume, &away).expect("a volume that goes away");
    make_writable(&volume);
    fs::create_dir_all(volume.join("mark.new/full")).expect("an obstacle");
    cluster.start();
    for _ in 0..2 {
        assert_eq!(error(&mut cluster.connect(), "SELECT snowflake_nextval()").code().code(), "58030");
    }
    fs::remove_dir_all(&volume).expect("the obstacle");
    fs::rename(&away, &volume).expect("a volume that comes back");
    draw_ahead(&mut cluster, &mut ids);

    // Or an empty one, as a mount point is: IDs are issued by the clock, and above them when the volume is back.
    fs::rename(&volume, &away).expect("a volume that goes away");
    make_writable(&volume);
    cluster.start();
    let rows = cluster.connect().query("SELECT snowflake_nextvals(20000)", &[]).expect("IDs");
    ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    cluster.stop(Signal::QUIT);
    fs::rename(&volume, volume.with_extension("mount-point")).expect("a mount point");
    fs::rename(&away, &volume).expect("a volume that comes back");
    cluster.start();
    draw_ahead(&mut cluster, &mut ids);
    assert!(ids.is_sorted_by(|a, b| a < b), "an ID came twice, or out of order");
}

/// An empty directory that the servers' user can write.
fn make_writable(directory: &Path) {
    fs::create_dir(directory).expect("a directory");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).expect("own directory");
    give_away(directory);
}
