//! A private copy of the PostgreSQL installation, with the extension in it.

use crate::scratch::Scratch;
use crate::test_run::{skip, skip_before};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

/// A copy of PostgreSQL's programs, and links to everything else except the extension, which `make install` adds.
///
/// PostgreSQL finds its files relative to its programs, so a tree of the same shape anywhere works as an installation.
/// Removed when the last user drops it.
pub struct Installation {
    root: Scratch,
    bindir: PathBuf,
    scripts: PathBuf,
    version: String,
    copied_from: PathBuf,
    pg_config: PathBuf,
}

/// Which PostgreSQL, and the extension that was built for it.
struct Source {
    pg_config: PathBuf,
    extension: PathBuf,
    /// The directory of a build that brings its own libraries, which its programs find beside them.
    whole: Option<PathBuf>,
}

impl Source {
    fn chosen() -> Self {
        let whole = std::env::var_os("SNOWFLAKE_PG_WHOLE").map(PathBuf::from);
        Self { pg_config: chosen_pg_config(), extension: library(), whole }
    }
}

impl Installation {
    /// The installation that the servers of this process share.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Installation>> = Mutex::new(Weak::new());
        Self::once(&SHARED, Source::chosen)
    }

    /// An installation for one server alone, whose extension can be replaced: see [`install`](Self::install).
    pub(crate) fn own() -> Arc<Self> {
        Arc::new(Self::new(&Source::chosen()))
    }

    /// The installation of servers that are to be upgraded: the PostgreSQL that `SNOWFLAKE_PG_OLD_CONFIG` names, with
    /// the extension of `SNOWFLAKE_PG_OLD_LIBRARY`; without these, the shared one.
    pub fn old() -> Arc<Self> {
        static OLD: Mutex<Weak<Installation>> = Mutex::new(Weak::new());
        let [pg_config, extension] = ["SNOWFLAKE_PG_OLD_CONFIG", "SNOWFLAKE_PG_OLD_LIBRARY"].map(std::env::var_os);
        let old = pg_config.zip(extension).map(|(pg_config, extension)| [pg_config, extension].map(PathBuf::from));
        old.map_or_else(Self::shared, |[pg_config, extension]| {
            Self::once(&OLD, || Source { pg_config, extension, whole: None })
        })
    }

    fn once(made: &Mutex<Weak<Self>>, source: impl FnOnce() -> Source) -> Arc<Self> {
        // A test that failed while it had the lock has done no harm to others.
        let mut made = made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        made.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Self::new(&source()));
            *made = Arc::downgrade(&new);
            new
        })
    }

    fn new(source: &Source) -> Self {
        let root = Scratch::new("pg-");
        // The servers' user must get through.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        let inside = |path: &Path| {
            root.path().join(path.components().skip_while(|c| *c == Component::RootDir).collect::<PathBuf>())
        };

        let [bindir, libdir, sharedir] =
            ["--bindir", "--pkglibdir", "--sharedir"].map(|question| answer(&source.pg_config, question));
        let [our_bindir, our_sharedir] = [&bindir, &sharedir].map(|path| inside(path));
        if let Some(whole) = &source.whole {
            copy_whole(whole, &inside(whole));
        } else {
            fs::create_dir_all(&our_bindir).expect("own directory");
            for program in entries(&bindir) {
                fs::copy(&program, our_bindir.join(name(&program))).expect("a copy of a program");
            }
            link_entries(&libdir, &inside(&libdir), "snowflake_pg.so");
            link_entries(&sharedir, &our_sharedir, "extension");
            link_entries(&sharedir.join("extension"), &our_sharedir.join("extension"), "snowflake_pg");
        }
        let version = answer(&source.pg_config, "--version").display().to_string();
        let scripts = our_sharedir.join("extension");
        let pg_config = source.pg_config.clone();
        let new = Self { bindir: our_bindir, scripts, version, copied_from: bindir, pg_config, root };
        new.install(&sources(), &source.extension);
        new
    }

    /// Replaces the extension's files by those of these sources and this library, by `make install`.
    pub(crate) fn install(&self, sources: &Path, library: &Path) {
        let mut make = make_install(sources, self.root.path());
        make.env("PG_CONFIG", &self.pg_config).arg(format!("library={}", library.display()));
        make.arg("pack/scripts").arg(format!("scripts_into={}", self.root.path().display()));
        let output = make.output().expect("make");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }

    /// Which PostgreSQL it is, as pg_config says.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where its programs were copied from.
    pub fn copied_from(&self) -> &Path {
        &self.copied_from
    }

    /// The directory of the scripts of extensions.
    pub fn scripts(&self) -> &Path {
        &self.scripts
    }

    /// A directory for data directories that are copied.
    pub(crate) fn templates(&self) -> PathBuf {
        self.root.path().join("templates")
    }

    /// A script for databases that cannot have the extensions.
    pub fn script(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
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

pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The version of an extension, by its control file.
pub fn version_of(extension: &str) -> String {
    let control = control_of(extension);
    let text = std::fs::read_to_string(&control).unwrap_or_else(|error| panic!("{}: {error}", control.display()));
    let version = text.lines().find_map(|line| line.strip_prefix("default_version = ")).expect("a version");
    version.trim_matches('\'').to_owned()
}

/// The control file of an extension: at the root, where cargo-pgrx looks for it, or beside the SQL.
pub fn control_of(extension: &str) -> PathBuf {
    let folder = if extension == "snowflake_pg" { "" } else { &extension.replace("snowflake_", "sql/") };
    project().join(folder).join(format!("{extension}.control"))
}

/// The directory of the scripts that are installed: `SNOWFLAKE_PG_SOURCES`, or the project.
pub fn sources() -> PathBuf {
    std::env::var_os("SNOWFLAKE_PG_SOURCES").map_or_else(project, PathBuf::from)
}

/// The script for databases without the extension, as `make pack NAME=scripts` puts its parts together.
pub fn hosted_script() -> String {
    fs::read_to_string(Installation::shared().script("snowflake_hosted.sql")).expect("an installed script")
}

/// The built extension: `SNOWFLAKE_PG_LIBRARY`, or the release build.
pub fn library() -> PathBuf {
    std::env::var_os("SNOWFLAKE_PG_LIBRARY")
        .map_or_else(|| project().join("target/release/libsnowflake_pg.so"), PathBuf::from)
}

/// The path that pg_config prints: `PG_CONFIG`'s, or the one in the PATH.
pub fn pg_config(question: &str) -> PathBuf {
    answer(&chosen_pg_config(), question)
}

/// A file of this machine; a test that needs it is skipped if it is missing.
pub fn needed(file: PathBuf) -> PathBuf {
    if file.exists() { file } else { skip(format_args!("there is no {}", file.display())) }
}

/// Skips a test of one of PostgreSQL's extensions if that is missing.
pub fn need_extension(name: &str) {
    needed(control_file(name));
}

/// Whether the PostgreSQL of the servers has one of its extensions.
pub fn has_extension(name: &str) -> bool {
    control_file(name).exists()
}

fn control_file(name: &str) -> PathBuf {
    pg_config("--sharedir").join("extension").join(format!("{name}.control"))
}

/// The major version of the PostgreSQL of the servers.
pub fn postgresql() -> u32 {
    let version = pg_config("--version").display().to_string();
    let digits = version.trim_start_matches("PostgreSQL ").split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{version}"))
}

/// Skips a test on major versions before this one.
pub fn need_postgresql(major: u32) {
    if postgresql() < major {
        skip_before(major);
    }
}

fn chosen_pg_config() -> PathBuf {
    std::env::var_os("PG_CONFIG").map_or_else(|| "pg_config".into(), PathBuf::from)
}

fn answer(pg_config: &Path, question: &str) -> PathBuf {
    let output = Command::new(pg_config).arg(question).output().expect("pg_config");
    assert!(output.status.success(), "{pg_config:?} {question} failed");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

fn copy_whole(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().expect("a directory around it")).expect("own directory");
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(copied.success(), "no copy of {}", from.display());
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
