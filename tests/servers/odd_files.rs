//! Files of the server that are none: a FIFO, whose reader would wait for a writer, a symbolic link, a directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread::spawn;
use testbed::{Cluster, PATIENCE, Signal, error, test};

const NEXTVAL: &str = "SELECT snowflake_nextval()";

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    fs::set_permissions(path, Permissions::from_mode(0o666)).expect("permissions");
}

/// Makes something of this name.
type Make = fn(&Path);

/// What can be where a file should be, and the error of a server that opens it.
const KINDS: [(&str, Make, &str); 3] = [
    ("a FIFO", make_fifo, "it is not a regular file"),
    (
        "a symbolic link",
        |path| symlink(path.with_extension("kept"), path).expect("a link"),
        "Too many levels of symbolic links",
    ),
    ("a directory", |path| fs::create_dir(path).expect("a directory"), "it is not a regular file"),
];

fn remove(path: &Path) {
    let is_directory = path.is_dir() && !path.is_symlink();
    if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) }.expect("what a test has made");
}

/// The error of a call, which must come.
fn refusal(cluster: &Cluster) -> (String, String) {
    let mut client = cluster.connect();
    let (sender, receiver) = mpsc::channel();
    spawn(move || {
        let refused = error(&mut client, NEXTVAL);
        let _ = sender.send((refused.code().code().to_owned(), refused.message().to_owned()));
    });
    receiver.recv_timeout(PATIENCE).expect("an answer")
}

#[test]
fn a_fifo_a_link_or_a_directory_instead_of_a_file_of_the_mark_is_an_error_at_once() {
    let mut cluster = Cluster::builder().worker(1).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    for name in ["snowflake_pg/mark", "snowflake_pg.life"] {
        for (kind, make, reason) in KINDS {
            let path = cluster.data().join(name);
            cluster.stop(Signal::INT);
            fs::rename(&path, path.with_extension("kept")).expect("a file");
            make(&path);
            cluster.start();
            let (code, message) = refusal(&cluster);
            assert_eq!(code, "58030", "{name}: {kind}: {message}");
            assert!(message.starts_with("could not open ") && message.ends_with(reason), "{name}: {kind}: {message}");
            cluster.restart(Signal::INT);
            cluster.stop(Signal::INT);
            remove(&path);
            fs::rename(path.with_extension("kept"), &path).expect("the file");
            cluster.start();
            cluster.connect().batch_execute(NEXTVAL).expect("an ID");
        }
    }
}

/// IDs do not depend on it.
#[test]
fn a_server_starts_and_issues_ids_where_its_trace_or_the_name_of_the_holder_is_a_fifo_or_a_link() {
    for (kind, make, _) in KINDS {
        let mut cluster = Cluster::builder().worker(1).start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        cluster.stop(Signal::INT);
        for name in ["snowflake_pg.trace", "snowflake_pg/holder"] {
            let path = cluster.data().join(name);
            fs::remove_file(&path).expect("a file");
            make(&path);
        }
        cluster.start();
        cluster.connect().batch_execute(NEXTVAL).expect("an ID");
        assert_eq!(error(&mut cluster.connect(), "SELECT * FROM snowflake_lives()").code().code(), "58030", "{kind}");
        cluster.stop(Signal::INT);
    }
}

/// The postmaster opens it.
#[test]
fn a_state_directory_that_is_a_fifo_is_an_error_and_the_server_starts() {
    let mut cluster = Cluster::builder().worker(1).create();
    let fifo = cluster.host().join("state");
    make_fifo(&fifo);
    cluster.configure("snowflake_pg.state_directory", fifo.display());
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let (code, message) = refusal(&cluster);
    assert_eq!(code, "58030");
    assert_eq!(message, format!("could not open directory \"{}\": Not a directory", fifo.display()));
    cluster.stop(Signal::INT);
}
