//! The file that shows what has happened to the mark: `snowflake_pg.trace` in the data directory. See
//! [`snowflake_core::mark::trace`] for its bytes.
//!
//! Each event is written at once, so a server that is killed loses none. Nothing is flushed: after a power cut, the
//! last ones can be missing. A write that fails is left out, and nobody is told: IDs do not depend on it. Not mapped: a
//! page of a mapped file for which the disk has no room ends the process.

use crate::config::gucs;
use crate::durable::life_file;
use crate::durable::regular_file;
use crate::durable::replace::inode;
use crate::errors::{StateFileError, StatePath, While};
use crate::postgres::clock;
use crate::postgres::report::warning;
use crate::shared::shared;
use crate::worker;
use pgrx::PgLogLevel;
use rustix::fs::{CWD, OFlags};
use snowflake_core::UnixMs;
use snowflake_core::formats::{Newer, Release, Unreadable};
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::lives::{self, LifeSpan, Lives, Recorder};
use snowflake_core::mark::trace::{Entry, Event, file};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

const NAME: &str = "snowflake_pg.trace";

/// The file that the postmaster has opened, which all other processes inherit.
static FILE: Mutex<Option<Opened>> = Mutex::new(None);

struct Opened {
    file: File,
    /// Its number.
    server: u64,
    /// The place of its last life when it was opened; 0 if there was none.
    last_life: u64,
    /// What this process has recorded of a life that is to begin.
    lives: Lives,
}

/// Opens the file, and creates it if there is none. Returns the number of the next event. To be called in the
/// postmaster, whenever shared memory is set up.
pub fn open() -> u64 {
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    *file = None;
    let (opened, boot, next) = match open_file() {
        Ok(opened) => opened,
        Err(StateFileError::Newer(path, newer)) => {
            warn_of_newer(&path, newer);
            return 1;
        }
        Err(_) => return 1,
    };
    write(&opened.file, next, &[boot]);
    *file = Some(opened);
    next + 1
}

/// The lives in the file are of use to the later library, so the file stays as it is.
fn warn_of_newer(path: &StatePath, newer: Newer) {
    warning("what this server issues is not recorded in its trace")
        .set_detail(format!("File \"{path}\" was {newer}. This server has snowflake_pg {}.", Release::THIS))
        .set_hint(format!("Install snowflake_pg {} or later, and restart the server.", newer.readable_by))
        .report(PgLogLevel::WARNING);
}

/// Records events, one right after the other.
pub fn record(events: &[Event]) {
    let file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Opened { file, .. }) = file.as_ref() {
        let first = shared().next_event.fetch_add(events.len() as u64, Ordering::Relaxed);
        write(file, first, events);
    }
}

/// Records events of the mark, and writes what they say of lives of this server, whose IDs have this layout. Under the
/// lock of the mark.
pub fn record_of_mark(events: &[Event], layout: Layout) {
    record(events);
    if let Some(opened) = FILE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        let at = clock::unix_ms();
        events.iter().for_each(|&event| opened.follow(event, at, layout));
    }
}

impl Opened {
    fn follow(&mut self, event: Event, at: UnixMs, layout: Layout) {
        let begun = shared().last_life.load(Ordering::Relaxed);
        let last = if begun > 0 { begun } else { self.last_life };
        let recorder = Recorder { server: self.server, layout, last, has_begun: begun > 0 };
        let read = || read_life(&self.file, last).ok().flatten();
        for life in self.lives.after(event, at, &recorder, read).into_iter().flatten() {
            let _ = self.file.write_all_at(&life.encode(), lives::offset(life.nth));
            if life.nth > last {
                shared().last_life.store(life.nth, Ordering::Relaxed);
            }
        }
    }
}

fn read_life(file: &File, nth: u64) -> std::io::Result<Option<LifeSpan>> {
    let mut bytes = [0; lives::LENGTH];
    file.read_exact_at(&mut bytes, lives::offset(nth))?;
    Ok(LifeSpan::decode(&bytes).filter(|life| life.nth == nth))
}

/// The lives in the file of this server, and the number of that file; `None` if it cannot be read.
pub fn lives() -> Option<(u64, Vec<LifeSpan>)> {
    let opened = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let Opened { file, server, .. } = opened.as_ref()?;
    let length = usize::try_from(file.metadata().ok()?.len()).ok()?.min(lives::FILE_LENGTH);
    let mut bytes = vec![0; length.saturating_sub(lives::BEGIN)];
    file.read_exact_at(&mut bytes, lives::BEGIN as u64).ok()?;
    Some((*server, lives::read(&bytes)))
}

fn write(file: &File, first: u64, events: &[Event]) {
    let at = clock::unix_ms();
    for (number, &event) in (first..).zip(events) {
        // The file says nothing then.
        let _ = file.write_all_at(&Entry { number, at, event }.encode(), file::offset(number));
    }
}

/// The file, the event of its opening, and the number of that event.
fn open_file() -> Result<(Opened, Event, u64), StateFileError> {
    let path = StatePath::data_directory(&gucs::data_directory()).file(NAME);
    let flags = OFlags::RDWR | OFlags::CREATE;
    let opened = regular_file::open(CWD, gucs::data_directory().join(NAME), flags).during("open file", &path)?;
    let own = inode(&opened, "stat file", &path)?;
    let mut bytes = Vec::new();
    // Of a file that cannot be read, a new one is made.
    let _ = (&opened).take(lives::FILE_LENGTH as u64).read_to_end(&mut bytes);
    let (server, copy_of) = match file::read_header(&bytes) {
        Err(Unreadable::Newer(newer)) => return Err(StateFileError::Newer(path, newer)),
        Ok((number, inode)) if inode == own => (number, 0),
        known => {
            let (new, copy_of) = (life_file::new_number(), known.map_or(0, |(number, _)| number));
            if known.is_err() {
                bytes.clear();
                opened.set_len(0).during("write file", &path)?;
            }
            opened.write_all_at(&file::header(new, own), 0).during("write file", &path)?;
            (new, copy_of)
        }
    };
    let boot = Event::Boot { server, copy_of, is_standby: worker::starts_as_standby().into() };
    let last_life = lives::read(bytes.get(lives::BEGIN..).unwrap_or_default()).last().map_or(0, |life| life.nth);
    Ok((Opened { file: opened, server, last_life, lives: Lives::default() }, boot, file::last_number(&bytes) + 1))
}
