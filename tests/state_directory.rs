//! Nothing is issued twice when the state directory goes away and comes back. The fault suite has the crashes.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, Signal, error, issued_at, real_time, value};

/// Draws IDs right after a crash, when they are as far ahead of the clock as they get.
fn draw_ahead(cluster: &mut Cluster, ids: &mut Vec<i64>) {
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("a mark");
    cluster.restart(Signal::KILL);
    let rows = cluster.connect().query("SELECT snowflake_nextvals(20000)", &[]).expect("IDs");
    ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    cluster.stop(Signal::QUIT);
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
    cluster.make_directory("volume");

    let mut ids = Vec::new();
    draw_ahead(&mut cluster, &mut ids);
    fs::rename(&volume, &away).expect("a volume that goes away");
    cluster.start();
    assert_eq!(error(&mut cluster.connect(), "SELECT snowflake_nextval()").code().code(), "58030");
    fs::rename(&away, &volume).expect("a volume that comes back");
    draw_ahead(&mut cluster, &mut ids);

    // In its place is an empty directory, as a mount point is: the mark is missed.
    fs::rename(&volume, &away).expect("a volume that goes away");
    cluster.make_directory("volume");
    cluster.start();
    for _ in 0..2 {
        let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
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
    cluster.connect().batch_execute("SELECT snowflake_accept_identity()").expect("an acceptance");
    draw_ahead(&mut cluster, &mut ids);
    fs::rename(&volume, volume.with_extension("new")).expect("the new volume");
    fs::rename(&away, &volume).expect("a volume that comes back");
    cluster.start();
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), "the durable mark is not the one that this server wrote last");
    assert!(ids.is_sorted_by(|a, b| a < b), "an ID came twice, or out of order");
}

/// A directory in the data directory can be exchanged as well: by another name, or by a volume that is not mounted.
#[test]
fn a_mark_in_the_data_directory_is_missed_where_another_directory_has_taken_its_place() {
    let mut cluster = Cluster::builder().worker(1).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    let (place, away) = (cluster.data().join("snowflake_pg"), cluster.data().join("away"));
    let exchanges: [(fn(&Cluster, &Path, &Path), fn(&Cluster, &Path, &Path)); 2] = [
        (
            |cluster, _, _| cluster.configure("snowflake_pg.state_directory", "another"),
            |cluster, _, _| cluster.configure("snowflake_pg.state_directory", "snowflake_pg"),
        ),
        (
            |_, place, away| fs::rename(place, away).expect("a volume that goes away"),
            |_, place, away| {
                fs::remove_dir(place).expect("what the server has made in its place");
                fs::rename(away, place).expect("a volume that comes back");
            },
        ),
    ];
    for (exchange, put_back) in exchanges {
        cluster.stop(Signal::INT);
        exchange(&cluster, &place, &away);
        cluster.start();
        let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
        assert_eq!(refused.message(), "this server wrote its durable mark in another directory");
        cluster.stop(Signal::INT);
        put_back(&cluster, &place, &away);
        cluster.start();
        cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("the mark is back");
    }
    // What leads out of the data directory is not created.
    cluster.configure("snowflake_pg.state_directory", "../outside");
    cluster.restart(Signal::INT);
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert!(refused.message().starts_with("could not open directory"), "{refused:?}");
}

/// The start margin protects from a mark that is only away; a crash in the middle of it changes nothing in that.
#[test]
fn a_crash_while_the_start_margin_passes_begins_it_anew() {
    let mut cluster = Cluster::builder().worker(1).start();
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
    let id: i64 = value(&mut cluster.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    let issued_at = issued_at(id);
    assert!((before + 2000..=real_time()).contains(&issued_at), "{issued_at} after {before}");
}
