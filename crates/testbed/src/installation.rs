//! A private copy of the PostgreSQL installation, with the extension in it.

use crate::scratch::Scratch;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

/// A copy of PostgreSQL's programs, and links to everything else but the extension, which `make install` puts in.
///
/// PostgreSQL finds its files relative to its programs, so a tree of the same shape anywhere works as an installation.
/// Removed when the last user drops it.
pub struct Installation {
    root: Scratch,
    bindir: PathBuf,
}

impl Installation {
    /// The installation that the servers of this process share.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Installation>> = Mutex::new(Weak::new());
        // A test that failed while it held the lock has done no harm to the rest.
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Self::new());
            *shared = Arc::downgrade(&new);
            new
        })
    }

    fn new() -> Self {
        let root = Scratch::new("pg-");
        // The servers' user must get through.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        let inside = |path: &Path| {
            root.path().join(path.components().skip_while(|c| *c == Component::RootDir).collect::<PathBuf>())
        };

        let bindir = pg_config("--bindir");
        let our_bindir = inside(&bindir);
        fs::create_dir_all(&our_bindir).expect("own directory");
        for program in entries(&bindir) {
            fs::copy(&program, our_bindir.join(name(&program))).expect("a copy of a program");
        }

        let libdir = pg_config("--pkglibdir");
        link_entries(&libdir, &inside(&libdir), "snowflake_pg.so");
        let sharedir = pg_config("--sharedir");
        let our_sharedir = inside(&sharedir);
        link_entries(&sharedir, &our_sharedir, "extension");
        link_entries(&sharedir.join("extension"), &our_sharedir.join("extension"), "snowflake_pg");
        let output = make_install(&project(), root.path()).arg(format!("library={}", library().display())).output();
        let output = output.expect("make");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        Self { bindir: our_bindir, root }
    }

    /// A program of this installation.
    pub fn program(&self, name: &str) -> PathBuf {
        debug_assert!(self.bindir.starts_with(self.root.path()));
        self.bindir.join(name)
    }
}

/// `make install` out of a directory, with what it writes below a root directory.
pub fn make_install(directory: &Path, root: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("--directory").arg(directory).arg("install").arg(format!("DESTDIR={}", root.display()));
    // They belong to a make that runs this process.
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    make
}

/// The directory of the project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The built extension: `SNOWFLAKE_PG_LIBRARY`, or the release build.
pub fn library() -> PathBuf {
    std::env::var_os("SNOWFLAKE_PG_LIBRARY")
        .map_or_else(|| project().join("target/release/libsnowflake_pg.so"), PathBuf::from)
}

/// The path with which pg_config answers, that of `PG_CONFIG` or in the PATH.
pub fn pg_config(question: &str) -> PathBuf {
    let program = std::env::var_os("PG_CONFIG").unwrap_or_else(|| "pg_config".into());
    let output = Command::new(&program).arg(question).output().expect("pg_config");
    assert!(output.status.success(), "{program:?} {question} failed");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

/// Links everything in a directory into another one, except names that begin with `except`.
fn link_entries(from: &Path, to: &Path, except: &str) {
    fs::create_dir_all(to).expect("own directory");
    for entry in entries(from) {
        if !name(&entry).to_string_lossy().starts_with(except) {
            symlink(&entry, to.join(name(&entry))).expect("a link");
        }
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("a directory entry").path())
}

fn name(path: &Path) -> &OsStr {
    path.file_name().expect("a directory entry has a name")
}
