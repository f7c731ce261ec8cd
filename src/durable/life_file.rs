//! The file that keeps the number of the last life in the data directory: `snowflake_pg.life`. See
//! [`snowflake_core::life`] for its bytes, and what it is for.

use crate::durable::replace::{Target, inode};
use crate::durable::state_file::{StateDirectory, data_directory};
use crate::errors::{StateFileError, StatePath, While};
use pgrx::pg_sys;
use snowflake_core::life::{self, LastLife};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

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
    let directory = data_directory();
    let path = StatePath::file(&directory, NAME);
    let mut file = match File::open(directory.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.during("open file", &path)?,
    };
    let mut bytes = Vec::with_capacity(life::LENGTH);
    (&mut file).take(life::LENGTH as u64 + 1).read_to_end(&mut bytes).during("read file", &path)?;
    Ok(life::decode(&bytes, inode(&file, STAT, &path)?, state_directory.inode()?))
}

/// Makes a number durable, with the state directory. To be called by one process at a time.
pub fn write(number: u64, state_directory: &StateDirectory) -> Result<(), StateFileError> {
    let path: &Path = &data_directory();
    let opened = File::open(path).during("open directory", &StatePath::directory(path))?;
    let target = Target { directory: &opened, path, name: NAME, temporary_name: TEMPORARY_NAME };
    let directory = state_directory.inode()?;
    target
        .replace(|file| Ok(life::encode(number, inode(file, STAT, &StatePath::file(path, NAME))?, directory).to_vec()))
}
