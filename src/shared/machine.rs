//! The machine on which the server runs: notices when it was restored from a snapshot, or cloned with its memory, if
//! the hypervisor and the kernel tell. See [`snowflake_core::server::vmclock`].
//!
//! The postmaster maps the device, and all processes of the server inherit the mapping. A call compares the generation
//! whenever it opens a tick, so no system call is needed. The generation of the server's start is in shared memory and
//! in the record of the mark, and changes only when somebody accepts another one.

use crate::config::gucs;
use crate::postgres::sleep;
use crate::shared::shared;
use once_cell::sync::OnceCell;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use snowflake_core::server::vmclock::{self, LENGTH, Machine, Page, Unusable};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the hypervisor may take to write the page, in milliseconds.
const PATIENCE: u32 = 100;

/// The generation in shared memory while nobody could read it since that was set up, so nothing is issued.
const UNKNOWN: u64 = u64::MAX;

/// What tells that the machine was cloned, or why nothing does. Found in the postmaster, and inherited by all
/// processes.
static DETECTION: OnceCell<Result<Detection, String>> = OnceCell::new();

struct Detection {
    page: &'static Page,
    boot_id: u128,
}

/// The generation of the machine; [`UNKNOWN`] if nothing tells it yet. To be called in the postmaster, whenever shared
/// memory is set up.
pub fn first_generation() -> u64 {
    let detection = DETECTION.get_or_init(Detection::find).as_ref().ok();
    // mutant: generation-unknown
    detection.and_then(Detection::wait_for_generation).unwrap_or(UNKNOWN)
}

/// The kernel's random number for its boot.
pub fn boot_id() -> Option<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

/// How the server would notice that its machine was cloned, in a word; and why it would not, which has a path.
pub fn detection() -> (&'static str, Option<String>) {
    match DETECTION.get() {
        Some(Ok(_)) => ("vmclock", None),
        Some(Err(why)) => ("none", Some(why.to_string())),
        None => ("none", None),
    }
}

/// Whether the server would notice that its machine was cloned.
pub fn is_watched() -> bool {
    found().is_some()
}

/// This boot of the machine, if only a device that the server cannot read keeps it from noticing a clone.
pub fn unwatched_boot() -> Option<u64> {
    let is_unwatched = matches!(DETECTION.get(), Some(Err(_))) && gucs::detects_clones();
    boot_id().filter(|_| is_unwatched).map(|boot_id| Machine::new(boot_id, 0).boot)
}

/// The machine on which the server has begun; `None` if it cannot tell.
pub fn at_start() -> Result<Option<Machine>, Change> {
    found().map(|detection| detection.at_start().map(|generation| detection.machine(generation))).transpose()
}

/// How a machine is not the one on which the server has begun.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// It was restored from a snapshot, or cloned with its memory.
    Cloned {
        /// Its generation when the server began.
        before: u64,
        /// The present one.
        now: u64,
    },
    /// It may have been: the hypervisor does not finish writing the page.
    Unknown,
}

/// An error if the machine was restored or cloned since the server has begun. A handful of loads.
#[inline]
pub fn check() -> Result<(), Change> {
    let Some(detection) = found() else { return Ok(()) };
    // Acquire: who sees that a generation was accepted also sees that IDs continue above the others'.
    let known = shared().generation.load(Ordering::Acquire);
    if detection.generation() == Some(known) { Ok(()) } else { detection.compare() }
}

/// The machine, if it was restored or cloned since the server has begun; to be [accepted](accept).
pub fn clone() -> Result<Option<Machine>, Change> {
    match check() {
        Err(Change::Cloned { now, .. }) => Ok(found().map(|detection| detection.machine(now))),
        outcome => outcome.map(|()| None),
    }
}

/// Lets the server issue IDs on this machine, above all that its copies can have issued.
pub fn accept(machine: Machine) {
    shared().generation.store(machine.generation, Ordering::Release);
}

fn found() -> Option<&'static Detection> {
    DETECTION.get()?.as_ref().ok()
}

impl Detection {
    fn find() -> Result<Self, String> {
        if !gucs::detects_clones() {
            return Err("snowflake_pg.clone_detection is off".to_owned());
        }
        let path = gucs::vmclock();
        let page = map(&path)?;
        let found = Self { page, boot_id: boot_id().ok_or("the kernel does not tell its boot ID")? };
        let _ = found.wait_for_generation();
        vmclock::first_generation(page)
            .map(|_| found)
            .map_err(|unusable: Unusable| format!("{} {unusable}", path.display()))
    }

    fn machine(&self, generation: u64) -> Machine {
        Machine::new(self.boot_id, generation)
    }

    /// The generation; `None` while it is written.
    #[inline]
    fn generation(&self) -> Option<u64> {
        vmclock::generation(self.page).map(|generation| generation.min(UNKNOWN - 1))
    }

    /// The generation, once it is written.
    fn wait_for_generation(&self) -> Option<u64> {
        for _ in 0..PATIENCE {
            if let Some(generation) = self.generation() {
                return Some(generation);
            }
            sleep::pause(Duration::from_millis(1));
        }
        None
    }

    /// The generation with which the server has begun. If nobody could read it then, it begins with this one: nothing
    /// was issued since, and the start compares it with the record's.
    fn at_start(&self) -> Result<u64, Change> {
        let known = shared().generation.load(Ordering::Acquire);
        if known != UNKNOWN {
            return Ok(known);
        }
        let now = self.wait_for_generation().ok_or(Change::Unknown)?;
        let begun = shared().generation.compare_exchange(UNKNOWN, now, Ordering::AcqRel, Ordering::Acquire);
        // Another process has read it first.
        Ok(begun.err().unwrap_or(now))
    }

    #[cold]
    fn compare(&self) -> Result<(), Change> {
        let before = self.at_start()?;
        match self.wait_for_generation() {
            Some(now) if now == before => Ok(()),
            Some(now) => Err(Change::Cloned { before, now }),
            None => Err(Change::Unknown),
        }
    }
}

/// Maps the page of a device, or of a file in the form of one. Never unmapped: processes inherit it.
fn map(path: &Path) -> Result<&'static Page, String> {
    let name = path.display();
    // A pipe must not hold the postmaster up.
    let device = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let device = device.map_err(|error| format!("{name} cannot be opened: {error}"))?;
    let stat = fstat(&device).map_err(|error| format!("{name} cannot be opened: {error}"))?;
    // Reading behind the end of a file would end the process.
    // mutant: page-is-whole
    let is_whole = match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => true,
        FileType::RegularFile => usize::try_from(stat.st_size).is_ok_and(|size| size >= LENGTH),
        _ => false,
    };
    if !is_whole {
        return Err(format!("{name} {}", Unusable::OtherPage));
    }
    map_page(&device).ok_or_else(|| format!("{name} cannot be mapped: {}", std::io::Error::last_os_error()))
}

fn map_page(device: &OwnedFd) -> Option<&'static Page> {
    // SAFETY: asks for a number.
    let length = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    // The driver maps one page, and no other length.
    // SAFETY: a new mapping, which changes no other one.
    let page = unsafe { libc::mmap(null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, device.as_raw_fd(), 0) };
    // SAFETY: a page that is mapped for as long as the process lives, aligned, and longer than what is read of it.
    // Others write it, so it is read as atomics, by relaxed loads alone, which are defined for memory that can only be
    // read.
    (page != libc::MAP_FAILED).then(|| unsafe { &*page.cast::<Page>() })
}
