//! A locale that machines do not have.

use crate::needed;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A directory for the variable `LOCPATH` of a server, which then knows the locale es_CL, in which 1.50 is `$ 1,50`:
/// elsewhere, that is 150.
pub fn chilean() -> TempDir {
    needed(PathBuf::from("/usr/share/i18n/locales/es_CL"));
    let locales = TempDir::new().expect("a directory");
    fs::set_permissions(locales.path(), fs::Permissions::from_mode(0o755)).expect("a directory for the server's user");
    let made = Command::new("localedef")
        .args(["--inputfile=es_CL", "--charmap=UTF-8"])
        .arg(locales.path().join("es_CL"))
        .status()
        .expect("localedef");
    assert!(made.success());
    locales
}
