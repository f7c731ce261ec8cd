//! A file in the form of `/dev/vmclock0`, in which a test tells a server that its machine was cloned.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where Linux's vmclock-abi.h has the sequence count and the generation.
const SEQUENCE: u64 = 12;
const GENERATION: u64 = 104;

/// The file. Servers map it, so it is written in place.
pub struct Vmclock {
    path: PathBuf,
    file: File,
}

impl Vmclock {
    /// A new file that tells this generation, and which servers can read.
    pub fn new(path: PathBuf, generation: u64) -> Self {
        let mut page = vec![0; 4096];
        page[..4].copy_from_slice(b"VCLK");
        page[4..8].copy_from_slice(&4096_u32.to_le_bytes());
        page[8..12].copy_from_slice(&[1, 0, 1, 0]);
        page[24..32].copy_from_slice(&(1_u64 << 8).to_le_bytes());
        page[104..112].copy_from_slice(&generation.to_le_bytes());
        fs::write(&path, page).expect("a page");
        let file = File::options().read(true).write(true).open(&path).expect("the page");
        Self { path, file }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells another generation, as a hypervisor does before the machine goes on.
    pub fn tell(&self, generation: u64) {
        self.begin_to_write();
        self.put(GENERATION, &generation.to_le_bytes());
        self.count();
    }

    /// Begins to write, so that nothing may be read until the [other end](Self::end_to_write).
    pub fn begin_to_write(&self) {
        self.count();
    }

    pub fn end_to_write(&self) {
        self.count();
    }

    fn count(&self) {
        let mut count = [0; 4];
        self.file.read_exact_at(&mut count, SEQUENCE).expect("the page");
        self.put(SEQUENCE, &(u32::from_le_bytes(count) + 1).to_le_bytes());
    }

    /// Puts bytes anywhere.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("the page");
    }
}
