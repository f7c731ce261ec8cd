//! The file that keeps the number of the last life in the data directory: `snowflake_pg.life`. See
//! [`snowflake_core::mark::life`] for its bytes, and what it is for.

use crate::config::gucs;
use crate::durable::regular_file;
use crate::durable::replace::{Target, inode};
use crate::durable::state_file::StateDirectory;
use crate::errors::{OrNewer, StateFileError, StatePath, While};
use pgrx::pg_sys;
use rustix::fs::{CWD, OFlags};
use snowflake_core::formats::MAX_LENGTH;
use snowflake_core::mark::life::{self, LastLife, Life};
use snowflake_core::server::identity::Inode;
use std::fs::File;
use std::io::{ErrorKind, Read};

const NAME: &str = "snowflake_pg.life";
const TEMPORARY_NAME: &str = "snowflake_pg.life.new";
const STAT: &str = "stat file";

/// A new number.
pub fn new_number() -> u64 {
    loop {
        let mut number = 0_u64;
        // SAFETY: writes eight bytes to where there are eight.
        let is_random = unsafe { pg_sys::pg_strong_random((&raw mut number).cast(), size_of::<u64>()) };
        assert!(is_random, "the system has no random numbers");
        if number > 0 {
            return number;
        }
    }
}

/// The life in which this data directory wrote a mark last; `None` if it has written none, or came from elsewhere.
pub fn read(state_directory: &StateDirectory) -> Result<Option<LastLife>, StateFileError> {
    let directory = gucs::data_directory();
    let path = StatePath::data_directory(&directory).file(NAME);
    let mut file = match regular_file::open(CWD, directory.join(NAME), OFlags::RDONLY) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.during("open file", &path)?,
    };
    let mut bytes = Vec::new();
    (&mut file).take(MAX_LENGTH as u64).read_to_end(&mut bytes).during("read file", &path)?;
    // mutant: life-read
    life::decode(&bytes, inode(&file, STAT, &path)?, state_directory.inode()?).or_newer(&path)
}

/// Makes a life durable beside the last one, with the state directory.
pub fn prepare(life: Life, state_directory: Inode) -> Result<(), StateFileError> {
    in_data_directory(|target| {
        target.prepare(|file| {
            let file = inode(file, STAT, &target.path.file(TEMPORARY_NAME))?;
            Ok(life::encode(life, file, state_directory))
        })
    })
}

/// Makes the prepared life the last one.
pub fn commit() -> Result<(), StateFileError> {
    in_data_directory(|target| target.commit())
}

fn in_data_directory(act: impl FnOnce(Target) -> Result<(), StateFileError>) -> Result<(), StateFileError> {
    let path = &StatePath::data_directory(&gucs::data_directory());
    let directory = &File::open(path.path()).during("open directory", path)?;
    // A record is known by the life before, too, or else by its revision.
    act(Target { directory, path, name: NAME, temporary_name: TEMPORARY_NAME, may_come_back: true })
}
