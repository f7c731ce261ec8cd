//! A private copy of the PostgreSQL installation, with the extension in it.

use crate::scratch::Scratch;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

/// A copy of PostgreSQL's programs, and links to everything else but the extension, which is put in from this project.
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
        let our_libdir = inside(&libdir);
        link_entries(&libdir, &our_libdir, "snowflake_pg.so");
        fs::copy(library(), our_libdir.join("snowflake_pg.so"))
            .unwrap_or_else(|error| panic!("{} can't be copied, is it built? {error}", library().display()));

        let sharedir = pg_config("--sharedir");
        let our_sharedir = inside(&sharedir);
        link_entries(&sharedir, &our_sharedir, "extension");
        link_entries(&sharedir.join("extension"), &our_sharedir.join("extension"), "snowflake_pg");
        let source = project();
        let script = format!("snowflake_pg--{}.sql", env!("CARGO_PKG_VERSION"));
        for (from, to) in [("snowflake_pg.control", "snowflake_pg.control"), ("sql/snowflake_pg.sql", &script)] {
            fs::copy(source.join(from), our_sharedir.join("extension").join(to)).expect("a copy of the extension");
        }
        Self { bindir: our_bindir, root }
    }

    /// A program of this installation.
    pub fn program(&self, name: &str) -> PathBuf {
        debug_assert!(self.bindir.starts_with(self.root.path()));
        self.bindir.join(name)
    }
}

/// The directory of the project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The built extension: `SNOWFLAKE_PG_LIBRARY`, or the release build.
fn library() -> PathBuf {
    std::env::var_os("SNOWFLAKE_PG_LIBRARY")
        .map_or_else(|| project().join("target/release/libsnowflake_pg.so"), PathBuf::from)
}

/// What pg_config says, by `PG_CONFIG` or from the PATH.
fn pg_config(question: &str) -> PathBuf {
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
