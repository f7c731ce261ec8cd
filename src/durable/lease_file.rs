//! The file that keeps the lease of this server in the state directory: `lease`. See [`snowflake_core::server::lease`]
//! for its bytes.

use crate::durable::regular_file;
use crate::durable::replace::{Target, inode};
use crate::durable::state_file::StateDirectory;
use crate::errors::{OrNewer, StateFileError, While};
use crate::shared::machine;
use rustix::fs::{OFlags, fstat};
use snowflake_core::formats::MAX_LENGTH;
use snowflake_core::server::lease::{self, Lease, Location};
use std::io::{ErrorKind, Read};

const NAME: &str = "lease";
const TEMPORARY_NAME: &str = "lease.new";
const STAT: &str = "stat file";

/// The lease; `None` if there is none, or if the file is a copy or damaged.
pub fn read(directory: &StateDirectory) -> Result<Option<Lease>, StateFileError> {
    let path = directory.path().file(NAME);
    let mut file = match regular_file::open(directory.handle(), NAME, OFlags::RDONLY) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.during("open file", &path)?,
    };
    let mut bytes = Vec::new();
    (&mut file).take(MAX_LENGTH as u64).read_to_end(&mut bytes).during("read file", &path)?;
    lease::decode(&bytes, inode(&file, STAT, &path)?).or_newer(&path)
}

/// Makes a lease durable. One process at a time.
pub fn write(directory: &StateDirectory, lease: &Lease) -> Result<(), StateFileError> {
    let target = Target {
        directory: directory.handle(),
        path: directory.path(),
        name: NAME,
        temporary_name: TEMPORARY_NAME,
        // An old lease has an old token, or one that was not released.
        may_come_back: false,
    };
    target.prepare(|file| Ok(lease::encode(lease, inode(file, STAT, &directory.path().file(TEMPORARY_NAME))?)))?;
    target.commit()
}

/// Where this server runs now; `None` if the system does not tell.
pub fn location(directory: &StateDirectory) -> Option<Location> {
    let boot = machine::boot_id()?;
    let stat = fstat(directory.handle()).ok()?;
    Some(Location { boot, device: stat.st_dev, directory: stat.st_ino })
}
