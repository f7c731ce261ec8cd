//! A machine that was restored from a snapshot, or cloned with its memory, and a server that notices.
//!
//! A file stands for the hypervisor's page. Clones of a machine are servers that find the same files in overlays; their
//! memory is not cloned.

mod noticed;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;
use testbed::postgres::Client;
use testbed::{
    Builder, Cluster, Load, Registry, Report, Signal, Vmclock, Witness, error, issued_at, real_time, skip, test, value,
};

const IDS: &str = "SELECT snowflake_nextval() FROM generate_series(1, 10)";
const CLONED: &str = "this machine was restored or cloned";
/// How far above its clock a copy of a server can be, in milliseconds.
const MAX_BORROW: u64 = 5000;
const DETECTION: &str = "SELECT concat_ws(': ', clones_detected_by, clones_undetected_because) FROM snowflake_status";

/// A server on a machine of this generation, with the extension.
fn server(builder: Builder, generation: u64) -> (Cluster, Vmclock) {
    let mut cluster = builder.create();
    let page = page_of(&cluster, generation);
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, page)
}

/// A page for a server that is not started yet.
fn page_of(cluster: &Cluster, generation: u64) -> Vmclock {
    let page = Vmclock::new(cluster.host().join("vmclock"), generation);
    cluster.configure("snowflake_pg.vmclock", page.path().display());
    page
}

fn worker() -> Builder {
    Cluster::builder().worker(7)
}

fn assert_refused(client: &mut Client) {
    let refusal = error(client, "SELECT snowflake_nextval()");
    assert_eq!((refusal.code().code(), refusal.message()), ("55000", CLONED), "{refusal:?}");
    assert!(refusal.hint().is_some_and(|hint| hint.contains("snowflake_accept_mark()")), "{refusal:?}");
}

fn accept(client: &mut Client) {
    assert_ne!(value(client, "SELECT snowflake_accept_mark()"), "NULL");
}

fn ids(cluster: &Cluster) -> Report {
    let load = Load::start(cluster, 2, IDS);
    load.wait_for_ids();
    load.finish()
}

/// The second answers are above the first.
fn assert_above(later: &Report, earlier: &Report) {
    let ((lowest, _), (_, highest)) = later.range().zip(earlier.range()).expect("IDs");
    assert!(lowest > highest, "{lowest} came after {highest}");
}

#[test]
fn a_server_whose_machine_is_cloned_under_load_refuses_until_it_is_told_to_go_on() {
    let (mut cluster, page) = server(worker(), 5);
    let mut sessions: Vec<_> = (0..3).map(|_| cluster.connect()).collect();
    assert_eq!(value(&mut sessions[0], DETECTION), "vmclock");
    let load = Load::start(&cluster, 8, IDS);
    load.wait_for_ids();
    page.tell(6);
    let told = real_time();
    cluster.wait_until("SELECT refusals > 50 FROM snowflake_status");
    let before = load.finish();
    let late = before.last_arrival().expect("IDs").saturating_sub(told);
    println!("8 clients, {} IDs: the last answer with an ID arrived {late} ms after the change", before.ids());
    before.assert_unique_and_ordered();
    assert_eq!(before.errors().into_keys().collect::<Vec<_>>(), [format!("55000 {CLONED}")]);

    for session in &mut sessions {
        assert_refused(session);
        error(session, "SELECT * FROM snowflake_nextvals(10)");
    }
    let refusal = error(&mut sessions[0], "SELECT snowflake_nextval()");
    let detail = refusal.detail().expect("a detail");
    assert!(detail.starts_with("Its generation was 5 and is now 6."), "{detail}");
    let state = "SELECT state || ' ' || problem_sqlstate FROM snowflake_status";
    assert_eq!(value(&mut sessions[0], state), "not started 55000");
    cluster.wait_for_log(CLONED);

    // Also across restarts.
    for how in [Signal::INT, Signal::KILL] {
        cluster.restart(how);
        assert_refused(&mut cluster.connect());
    }
    let accepted = real_time();
    accept(&mut cluster.connect());
    let after = ids(&cluster);
    assert_above(&after, &before);
    assert!(issued_at(after.range().expect("IDs").0) >= accepted + MAX_BORROW, "below what a copy can have issued");
    cluster.restart(Signal::KILL);
    assert_above(&ids(&cluster), &after);
}

#[test]
fn a_running_server_goes_on_above_its_copies_once_the_clone_is_accepted() {
    for wal_mark in ["prefer", "require", "off"] {
        let (mut cluster, page) = server(worker().set("snowflake_pg.wal_mark", wal_mark), 5);
        let before = ids(&cluster);
        page.tell(6);
        let mut client = cluster.connect();
        assert_refused(&mut client);
        let accepted = real_time();
        accept(&mut client);
        let after = ids(&cluster);
        assert_above(&after, &before);
        assert!(issued_at(after.range().expect("IDs").0) >= accepted + MAX_BORROW, "{wal_mark}: too low");
        assert_eq!(value(&mut client, "SELECT snowflake_accept_mark()"), "NULL", "nothing is left to accept");
        assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "ready");
        // The record has the generation that was accepted.
        cluster.restart(Signal::KILL);
        let restarted = ids(&cluster);
        assert_above(&restarted, &after);
        page.tell(7);
        assert_refused(&mut cluster.connect());
        cluster.stop(Signal::INT);
    }
}

#[test]
fn a_server_whose_machine_was_cloned_while_it_was_stopped_is_refused() {
    let (mut cluster, page) = server(worker(), 5);
    let before = ids(&cluster);
    cluster.restart(Signal::INT);
    assert_above(&ids(&cluster), &before);
    cluster.stop(Signal::INT);
    page.tell(6);
    cluster.start();
    assert_refused(&mut cluster.connect());
    // Another worker is another way to go on.
    cluster.configure("snowflake_pg.worker_id", 8);
    cluster.restart(Signal::INT);
    ids(&cluster);
    cluster.restart(Signal::INT);
    ids(&cluster);
}

/// The crash restart finds another generation than the record has.
#[test]
fn a_clone_is_noticed_although_a_crash_has_ended_shared_memory() {
    let (cluster, page) = server(worker(), 5);
    ids(&cluster);
    page.tell(6);
    cluster.kill_backend();
    assert_refused(&mut cluster.connect());
}

/// Two servers that find the same files, with what they write from then on in layers of their own. The generations are
/// those of their machines.
fn clones(original: &Cluster, name: &str, generations: [u64; 2]) -> [(Cluster, Vmclock); 2] {
    let mut nth = 0;
    generations.map(|generation| {
        nth += 1;
        let page = Vmclock::new(original.host().join(format!("{name}{nth}")), generation);
        let builder = Cluster::builder().set("snowflake_pg.vmclock", page.path().display());
        let Some(mut clone) = builder.clone_of(original) else {
            skip("this user can mount no overlay file system");
        };
        clone.start();
        (clone, page)
    })
}

fn both(clones: &[(Cluster, Vmclock); 2]) -> Report {
    let loads = clones.each_ref().map(|(clone, _)| Load::start(clone, 4, IDS));
    loads.iter().for_each(Load::wait_for_ids);
    let mut all = Report::default();
    loads.into_iter().for_each(|load| all.merge(load.finish()));
    all
}

#[test]
fn two_clones_of_a_stopped_server_issue_the_same_ids_unless_each_sees_another_generation() {
    let (mut original, _page) = server(worker(), 5);
    let before = ids(&original);
    // The recovery after a crash would change the directory of the mark, so that each server took itself for a copy.
    original.stop(Signal::INT);

    // What the hypervisor does not tell, nobody can notice.
    let unnoticed = clones(&original, "unnoticed", [5, 5]);
    let all = both(&unnoticed);
    println!("two clones that do not see that they are: {} IDs, {} of them twice", all.ids(), all.duplicates());
    assert!(all.duplicates() > 0);

    // As soon as both are told, neither issues any.
    let loads = unnoticed.each_ref().map(|(clone, _)| Load::start(clone, 4, IDS));
    loads.iter().for_each(Load::wait_for_ids);
    unnoticed.iter().zip([6, 7]).for_each(|((_, page), generation)| page.tell(generation));
    let told = real_time();
    for (clone, _) in &unnoticed {
        clone.wait_until("SELECT refusals > 50 FROM snowflake_status");
    }
    let reports = loads.map(Load::finish);
    for (nth, report) in reports.iter().enumerate() {
        let late = report.last_arrival().expect("IDs").saturating_sub(told);
        println!("clone {nth}: the last answer with an ID arrived {late} ms after the change");
    }
    unnoticed.iter().for_each(|(clone, _)| assert_refused(&mut clone.connect()));
    drop(unnoticed);

    let noticed = clones(&original, "noticed", [6, 7]);
    noticed.iter().for_each(|(clone, _)| assert_refused(&mut clone.connect()));
    accept(&mut noticed[0].0.connect());
    let after = ids(&noticed[0].0);
    assert_above(&after, &before);
    assert_refused(&mut noticed[1].0.connect());
}

#[test]
fn a_server_says_why_it_would_not_notice_a_clone() {
    let (mut cluster, page) = server(worker(), 5);
    let path = page.path().to_owned();
    let name = path.display();
    let none_of = |cluster: &mut Cluster| {
        cluster.restart(Signal::INT);
        let mut client = cluster.connect();
        let detection = value(&mut client, DETECTION);
        ids(cluster);
        detection
    };
    assert_eq!(value(&mut cluster.connect(), DETECTION), "vmclock");
    for (at, bytes, why) in [
        (0, b"VCLX".as_slice(), "is not a page of vmclock"),
        (8, &[2], "is not a page of vmclock"),
        (25, &[0], "has no generation counter, which the hypervisor would have to provide"),
        (12, &[1], "was being written when the server started"),
    ] {
        let whole = fs::read(&path).expect("the page");
        page.put(at, bytes);
        assert_eq!(none_of(&mut cluster), format!("none: {name} {why}"));
        page.put(0, &whole);
    }
    for (length, is_there) in [(0, false), (111, false), (112, true)] {
        let short = path.with_extension("short");
        fs::write(&short, &fs::read(&path).expect("the page")[..length]).expect("a file");
        cluster.configure("snowflake_pg.vmclock", short.display());
        let expected = format!("none: {} is not a page of vmclock", short.display());
        assert_eq!(none_of(&mut cluster), if is_there { "vmclock".to_owned() } else { expected }, "{length} bytes");
    }
    let secret = path.with_extension("secret");
    fs::write(&secret, "secret").expect("a file");
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o000)).expect("a file");
    let nowhere = path.with_extension("nowhere");
    let pipe = path.with_extension("pipe");
    symlink("/dev/stdin", &pipe).expect("a link");
    for (path, why) in [
        (
            nowhere.display().to_string(),
            format!("{} cannot be opened: No such file or directory (os error 2)", nowhere.display()),
        ),
        (
            secret.display().to_string(),
            format!("{} cannot be opened: Permission denied (os error 13)", secret.display()),
        ),
        (cluster.host().display().to_string(), format!("{} is not a page of vmclock", cluster.host().display())),
        ("/dev/null".to_owned(), "/dev/null cannot be mapped: No such device (os error 19)".to_owned()),
    ] {
        cluster.configure("snowflake_pg.vmclock", path);
        assert_eq!(none_of(&mut cluster), format!("none: {why}"));
    }
    cluster.configure("snowflake_pg.vmclock", path.display());
    cluster.configure("snowflake_pg.clone_detection", "off");
    assert_eq!(none_of(&mut cluster), "none: snowflake_pg.clone_detection is off");
    cluster.configure("snowflake_pg.clone_detection", "auto");
    assert_eq!(none_of(&mut cluster), "vmclock");
}

#[test]
fn a_call_waits_for_a_page_that_is_being_written_and_fails_if_that_takes_too_long() {
    let (cluster, page) = server(worker(), 5);
    let mut witness = Witness::of(&cluster);
    let before = witness.next_id().expect("an ID");
    page.begin_to_write();
    // A call looks when it opens a tick, which has 4,096 IDs at most.
    let refusal = (0..4096).find_map(|_| witness.next_id().err()).expect("a refusal");
    assert_eq!(refusal.message(), "cannot tell whether this machine was restored or cloned");
    assert_eq!(refusal.code().code(), "55000");
    page.end_to_write();
    assert!(witness.next_id().expect("an ID") > before, "nothing has changed");
    page.begin_to_write();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            page.end_to_write();
        });
        let _ = witness.ask("SELECT snowflake_nextval()");
    });
    witness.next_id().expect("an ID");
}

#[test]
fn a_cloned_server_with_a_lease_gets_another_worker_when_it_is_restarted() {
    let registry = Registry::start();
    let builder = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    let (mut cluster, page) = server(builder, 5);
    let worker = |cluster: &Cluster| value(&mut cluster.connect(), "SELECT worker_id FROM snowflake_status");
    let (before, had) = (ids(&cluster), worker(&cluster));
    let lease = format!("SELECT token || ' ' || granted_until FROM snowflake_registry.lease WHERE worker_id = {had}");
    let granted = value(&mut registry.connect(), &lease);
    page.tell(6);
    assert_refused(&mut cluster.connect());
    // The registry is asked at once after that, unless it must not be.
    cluster.reload();
    cluster.stop(Signal::INT);
    assert_eq!(value(&mut registry.connect(), &lease), granted, "the lease is left to the other clone");
    cluster.start();
    cluster.wait_until("SELECT state IN ('idle', 'ready') FROM snowflake_status");
    assert_ne!(worker(&cluster), had, "the clone may have it");
    let mut all = ids(&cluster);
    all.merge(before);
    assert_eq!(all.duplicates(), 0);
}
