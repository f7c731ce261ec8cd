//! A disk under the state directory that obeys orders, and that forgets what was not flushed when its power is cut.

use crate::host::give_away;
use crate::record::mark_in;
use disk_faults_protocol::{DIRECTORY, HOME, Journal, Key, Order, Store};
use snowflake_core::UnixMs;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The library of crates/disk_faults, in the directory of a server that needs it.
pub(crate) const LIBRARY: &str = "faults.so";

/// The disk under a server's state directory.
#[derive(Debug)]
pub struct Disk {
    home: PathBuf,
    directory: PathBuf,
    store: Store,
}

impl Disk {
    /// The disk of a server with this data directory. The disk has a directory beside it.
    pub(crate) fn new(data: &Path) -> Self {
        // The names by which the system calls them: processes are asked what their open files are.
        let server = data.parent().and_then(|parent| parent.canonicalize().ok()).expect("the server's directory");
        let home = server.join("disk");
        let directory = server.join(data.file_name().expect("a data directory")).join("snowflake_pg");
        fs::create_dir(&home).expect("the disk's directory");
        give_away(&home);
        let disk = Self { store: Store::new(home.clone()), home, directory };
        disk.obey(Order::Work);
        disk
    }

    /// What the library has to know.
    pub(crate) fn environment(&self) -> [String; 2] {
        [format!("{DIRECTORY}={}", self.directory.display()), format!("{HOME}={}", self.home.display())]
    }

    /// Orders the disk to do this from now on.
    pub fn obey(&self, order: Order) {
        self.store.give(order).expect("the disk's order");
    }

    /// What the disk does now.
    pub fn order(&self) -> Order {
        self.store.order()
    }

    /// What is done to the files of the mark, if the test has begun this journal.
    pub fn journal(&self) -> Journal {
        self.store.journal()
    }

    /// The durable mark that would be left if the power were cut now.
    pub fn flushed_mark(&self) -> Option<UnixMs> {
        let mark = self.flushed_entries()?.remove("mark")?;
        Some(mark_in(&self.store.path(&mark)))
    }

    /// Leaves in the state directory what a power cut would leave: what was flushed. To be called when no process is
    /// left that could write.
    pub(crate) fn forget_what_was_not_flushed(&self) {
        let Some(flushed) = self.flushed_entries() else {
            let _ = fs::remove_dir_all(&self.directory); // It may never have been there.
            return;
        };
        for entry in fs::read_dir(&self.directory).expect("the state directory") {
            fs::remove_file(entry.expect("an entry").path()).expect("a file of the state directory");
        }
        for (name, key) in flushed {
            let path = self.directory.join(name);
            fs::write(&path, self.store.file(&key)).expect("a file of the state directory");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file of the state directory");
            give_away(&path);
        }
    }

    /// The entries of the state directory, as they were flushed; `None` if the directory itself was not.
    fn flushed_entries(&self) -> Option<BTreeMap<String, Key>> {
        let key = |path: &Path| Key::new(&fs::metadata(path).ok()?).ok();
        let data = key(self.directory.parent()?).expect("the data directory");
        let key = key(&self.directory)?;
        let known = self.store.directory(&data).get("snowflake_pg") == Some(&key);
        known.then(|| self.store.directory(&key))
    }
}

/// Puts the library where the servers' user can read it.
pub(crate) fn install_library(to: &Path) {
    let library = library();
    fs::copy(&library, to)
        .unwrap_or_else(|error| panic!("{}: {error}; cargo build -p disk_faults makes it", library.display()));
}

/// The built library. This program is beside it, or in a directory beside it, as a test is.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    let [beside, above] =
        [1, 2].map(|nth| program.ancestors().nth(nth).expect("a directory").join("libdisk_faults.so"));
    if beside.exists() { beside } else { above }
}
