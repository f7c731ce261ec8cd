//! Copies of data directories that initdb has made: initdb takes a second of a processor, and a copy a tenth.
//!
//! The templates stay in `target/templates`, or in `SNOWFLAKE_PG_TEMPLATES`, for the next run. PostgreSQL's own tests
//! do the same (`INITDB_TEMPLATE` in its `Cluster.pm`), but their servers all have one system identifier. Here each
//! server gets an identifier of its own, as initdb would give it: by it, the extension tells servers from their copies.

use crate::host::give_away;
use crate::installation::{Installation, project};
use crate::scratch::Scratch;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Where the system identifier is in the first page of a WAL file: `XLogLongPageHeaderData` in `xlog_internal.h`.
const IN_WAL: u64 = 24;

/// The first WAL file of a new server.
const FIRST_WAL: &str = "pg_wal/000000010000000000000001";

/// Makes a data directory that initdb could have made with these options. `initdb` is the command for it, as the
/// servers' user.
pub(crate) fn copy(installation: &Installation, options: &[&str], initdb: Command, data: &Path) {
    // The directory around it was given to the servers' user.
    let user = fs::metadata(data.parent().expect("a directory")).expect("own directory").uid();
    let template = near(installation, &template(installation, options, initdb, user));
    copy_files(&template, data, None);
    give_identifier(data);
}

/// A copy beside the programs, which is in memory during tests: from there, and without the zeros of WAL, a copy takes
/// a third less.
fn near(installation: &Installation, template: &Path) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let near = installation.templates().join(template.file_name().expect("a name"));
    if !near.exists() {
        fs::create_dir_all(installation.templates()).expect("own directory");
        let unfinished = installation.templates().join("unfinished");
        copy_files(template, &unfinished, Some("--sparse=always"));
        fs::rename(&unfinished, &near).expect("a template");
    }
    near
}

fn copy_files(from: &Path, to: &Path, option: Option<&str>) {
    let copied = Command::new("cp").arg("-a").args(option).arg(from).arg(to).status().expect("cp");
    assert!(copied.success(), "no copy of {}", from.display());
}

/// The template for these options, made if it is not there, or if servers of this user cannot start from it: a checkout
/// may have been copied.
fn template(installation: &Installation, options: &[&str], mut initdb: Command, user: u32) -> PathBuf {
    // A template is made by the same programs for the same user.
    let programs = installation.copied_from().display().to_string();
    let key = [&[installation.version(), &user.to_string(), &programs], options].concat().join(" ");
    let key: String = key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    let templates =
        std::env::var_os("SNOWFLAKE_PG_TEMPLATES").map_or_else(|| project().join("target/templates"), PathBuf::from);
    let template = templates.join(key);
    let is_usable =
        || fs::metadata(&template).is_ok_and(|made| made.uid() == user && made.permissions().mode() & 0o777 == 0o700);
    if is_usable() {
        return template;
    }
    fs::create_dir_all(&templates).expect("own directory");
    let lock = File::create(templates.join("lock")).expect("own file");
    lock.lock().expect("a lock");
    if !is_usable() {
        if let Err(error) = fs::remove_dir_all(&template)
            && error.kind() != ErrorKind::NotFound
        {
            panic!("{error}: remove {} as its owner", templates.display());
        }
        // Made in a directory where the servers' user may write.
        let scratch = Scratch::new("initdb-");
        give_away(scratch.path());
        let data = scratch.path().join("data");
        let output = initdb.args(options).arg("-D").arg(&data).output().expect("initdb");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let unfinished = templates.join("unfinished");
        let _ = fs::remove_dir_all(&unfinished); // Of a run that was killed.
        copy_files(&data, &unfinished, None);
        fs::rename(&unfinished, &template).expect("a template");
    }
    template
}

/// Gives a new data directory a system identifier of its own: in the control file, whose checksum changes with it, and
/// in WAL.
fn give_identifier(data: &Path) {
    // As BootStrapXLOG() in xlog.c makes it, except the process.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    let identifier = (since.as_secs() << 32 | u64::from(fastrand::u32(..))).to_ne_bytes();

    let path = data.join("global/pg_control");
    let mut control = fs::read(&path).expect("the control file");
    let checksum_at = |control: &[u8], at: usize| control[at..at + 4] == crc32c::crc32c(&control[..at]).to_ne_bytes();
    // The checksum comes last, at an offset that differs between versions.
    let end = (8..512).step_by(4).find(|&at| checksum_at(&control, at)).expect("a checksum in the control file");
    let original = control[..8].to_vec();
    control[..8].copy_from_slice(&identifier);
    let checksum = crc32c::crc32c(&control[..end]).to_ne_bytes();
    control[end..end + 4].copy_from_slice(&checksum);
    fs::write(path, control).expect("the control file");

    let wal = File::options().read(true).write(true).open(data.join(FIRST_WAL)).expect("WAL");
    let mut in_wal = [0; 8];
    wal.read_exact_at(&mut in_wal, IN_WAL).expect("WAL");
    assert_eq!(in_wal[..], original, "the system identifier in WAL");
    wal.write_all_at(&identifier, IN_WAL).expect("WAL");
}
