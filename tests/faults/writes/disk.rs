//! A disk, by a journal of what was done to it: what is certain to be there after a power failure, and everything that
//! can be there beside it.
//!
//! As POSIX has it, and no file system is known to keep less. A write is certain once its file was flushed, and the
//! name of a file once its directory was. Until then, each sector of a write and each name can be there or not,
//! whatever the order in which they were written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use testbed::{Event, Key};

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// Where the write of one sector can be cut off, by a disk that does not even write sectors as a whole.
const WORD: usize = 8;

pub const DIRECTORY: &str = "snowflake_pg";
pub const MARK: &str = "snowflake_pg/mark";
pub const NEW_MARK: &str = "snowflake_pg/mark.new";
pub const LIFE: &str = "snowflake_pg.life";
pub const NEW_LIFE: &str = "snowflake_pg.life.new";

/// A disk, before the power fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    files: HashMap<Key, Content>,
    names: BTreeMap<PathBuf, Name>,
    /// How much was done.
    done: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    certain: Vec<u8>,
    outstanding: Vec<Write>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Write {
    /// Which one it was of all that was done.
    number: usize,
    at: usize,
    bytes: Vec<u8>,
    /// Whether a flush of it has failed. Then no later one is sure to include it.
    has_failed: bool,
}

/// What a name leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Name {
    certain: Option<Key>,
    outstanding: Vec<(usize, Option<Key>)>,
}

/// What a start finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Found {
    /// The state directory.
    pub directory: Option<Key>,
    /// The state file, and its bytes.
    pub mark: Option<(Key, Vec<u8>)>,
    /// The life file, and its bytes.
    pub life: Option<(Key, Vec<u8>)>,
}

impl Disk {
    /// The disk under a data directory, all of it certain.
    pub fn read(data: &Path) -> Self {
        let key = |path| Some(Key::new(&fs::metadata(data.join(path)).ok()?).expect("a time of birth"));
        let file = |path| Some((key(path)?, fs::read(data.join(path)).expect("a file")));
        Self::with(&Found { directory: key(DIRECTORY), mark: file(MARK), life: file(LIFE) })
    }

    /// A disk on which a start finds this.
    pub fn with(found: &Found) -> Self {
        let mut disk = Self::default();
        let files = [(MARK, &found.mark), (LIFE, &found.life)];
        let files = files.into_iter().filter_map(|(path, file)| Some((path, file.as_ref()?)));
        let keys = files.clone().map(|(path, (key, _))| (path, key));
        for (path, key) in keys.chain(found.directory.iter().map(|key| (DIRECTORY, key))) {
            disk.names.insert(path.into(), Name { certain: Some(key.clone()), outstanding: Vec::new() });
        }
        for (_, (key, bytes)) in files {
            disk.files.insert(key.clone(), Content { certain: bytes.clone(), outstanding: Vec::new() });
        }
        disk
    }

    /// Gives the state file other bytes, and flushes them.
    pub fn exchange_mark(&mut self, bytes: &[u8]) {
        let key = self.names[Path::new(MARK)].last().expect("a state file");
        self.files.insert(key, Content { certain: bytes.to_vec(), outstanding: Vec::new() });
    }

    /// Does what was done. False if that was not to the state directory or the life file.
    pub fn apply(&mut self, event: &Event) -> bool {
        let number = self.done;
        match event {
            Event::Directory { path, key } if is_ours(path) => self.name(path, Some(key)),
            Event::Write { path, key, at, bytes } if is_ours(path) => {
                if !self.files.contains_key(key) {
                    // It was created right before.
                    self.name(path, Some(key));
                }
                let at = usize::try_from(*at).expect("a small file");
                let write = Write { number, at, bytes: bytes.clone(), has_failed: false };
                self.files.entry(key.clone()).or_default().outstanding.push(write);
            }
            Event::Flush { path, .. } if path == Path::new(DIRECTORY) || path == Path::new("") => {
                for (_, name) in self.names.iter_mut().filter(|(of, _)| of.parent() == Some(path)) {
                    name.settle(usize::MAX);
                }
            }
            Event::Flush { path, key } if is_ours(path) => {
                // Recovery flushes all files, also what is not of interest.
                self.files.get_mut(key).into_iter().for_each(Content::flush);
            }
            // A flush of the directory that fails leaves its names as they are.
            Event::FailedFlush { key } => {
                let Some(content) = self.files.get_mut(key) else { return true };
                content.outstanding.iter_mut().for_each(|write| write.has_failed = true);
            }
            Event::Rename { from, to } => {
                let key = self.names.get(from).and_then(Name::last).expect("a file");
                self.name(to, Some(&key));
                self.name(from, None);
            }
            Event::Remove { path } => self.name(path, None),
            _ => return false,
        }
        self.done += 1;
        true
    }

    /// Whether there is a file of this name.
    pub fn has(&self, path: &str) -> bool {
        self.names.get(Path::new(path)).and_then(Name::last).is_some()
    }

    fn name(&mut self, path: &Path, key: Option<&Key>) {
        self.names.entry(path.to_owned()).or_default().outstanding.push((self.done, key.cloned()));
    }

    /// How much is outstanding that a start could miss.
    pub fn outstanding(&self) -> usize {
        self.numbers().len()
    }

    fn numbers(&self) -> BTreeSet<usize> {
        let names = [DIRECTORY, MARK, LIFE].iter().filter_map(|&path| self.names.get(Path::new(path)));
        let keys = names.clone().flat_map(|name| name.keys().into_iter().flatten());
        let writes = keys.filter_map(|key| self.files.get(&key)).flat_map(|content| &content.outstanding);
        let writes: Vec<_> = writes.map(|write| write.number).collect();
        names.flat_map(|name| &name.outstanding).map(|&(number, _)| number).chain(writes).collect()
    }

    /// Everything that a start can find after a power failure, of which each is different. Of what is outstanding, all
    /// but the last `limit` is there.
    pub fn outcomes(&self, limit: usize) -> BTreeSet<Found> {
        let mut disk = self.clone();
        if let Some(&from) = self.numbers().iter().nth_back(limit - 1) {
            disk.files.values_mut().for_each(|content| content.settle(from));
            disk.names.values_mut().for_each(|name| name.settle(from));
        }
        let mut outcomes = BTreeSet::new();
        let (marks, lives) = (disk.contents_of(MARK), disk.contents_of(LIFE));
        for directory in disk.keys_of(DIRECTORY) {
            // Without the directory, nothing in it can be found.
            let marks = if directory.is_some() { &marks[..] } else { &[None] };
            for (mark, life) in marks.iter().flat_map(|mark| lives.iter().map(move |life| (mark, life))) {
                outcomes.insert(Found { directory: directory.clone(), mark: mark.clone(), life: life.clone() });
            }
        }
        outcomes
    }

    /// What a start finds if the power does not fail.
    pub fn last(&self) -> Found {
        let key = |path| self.names.get(Path::new(path)).and_then(Name::last);
        let file = |path| key(path).map(|key| (key.clone(), self.files[&key].last()));
        Found { directory: key(DIRECTORY), mark: file(MARK), life: file(LIFE) }
    }

    fn keys_of(&self, path: &str) -> BTreeSet<Option<Key>> {
        self.names.get(Path::new(path)).map_or_else(|| BTreeSet::from([None]), Name::keys)
    }

    fn contents_of(&self, path: &str) -> Vec<Option<(Key, Vec<u8>)>> {
        let contents = |key: Option<Key>| match key {
            None => vec![None],
            Some(key) => self.files[&key].outcomes().into_iter().map(|bytes| Some((key.clone(), bytes))).collect(),
        };
        self.keys_of(path).into_iter().flat_map(contents).collect()
    }
}

impl Found {
    /// Which life file it is.
    pub fn life_file(&self) -> Option<&Key> {
        self.life.as_ref().map(|(key, _)| key)
    }

    /// Writes this into the files that a data directory has.
    pub fn write(&self, data: &Path) {
        for (path, content) in [(MARK, &self.mark), (LIFE, &self.life)] {
            let path = data.join(path);
            match content {
                Some((_, bytes)) if path.exists() => fs::write(path, bytes).expect("a file"),
                Some(_) => panic!("a file that is not there: {}", path.display()),
                None if path.exists() => fs::remove_file(path).expect("a file"),
                None => {}
            }
        }
    }
}

fn is_ours(path: &Path) -> bool {
    path.starts_with(DIRECTORY) || path.to_string_lossy().starts_with(LIFE)
}

impl Name {
    fn last(&self) -> Option<Key> {
        self.outstanding.last().map_or(&self.certain, |(_, key)| key).clone()
    }

    fn keys(&self) -> BTreeSet<Option<Key>> {
        [&self.certain].into_iter().chain(self.outstanding.iter().map(|(_, key)| key)).cloned().collect()
    }

    /// What was done before this number is there.
    fn settle(&mut self, before: usize) {
        let (settled, outstanding) = self.outstanding.drain(..).partition(|&(number, _)| number < before);
        self.outstanding = outstanding;
        if let Some((_, key)) = Vec::pop(&mut { settled }) {
            self.certain = key;
        }
    }
}

impl Content {
    /// What was written before this number is there.
    fn settle(&mut self, before: usize) {
        let (settled, outstanding): (Vec<_>, _) = self.outstanding.drain(..).partition(|write| write.number < before);
        settled.iter().for_each(|write| write.to(&mut self.certain));
        self.outstanding = outstanding;
    }

    /// With all that was written.
    fn last(&self) -> Vec<u8> {
        let mut last = self.certain.clone();
        self.outstanding.iter().for_each(|write| write.to(&mut last));
        last
    }

    /// What was written is there, unless a flush of it has failed, and nothing has been written over it since.
    fn flush(&mut self) {
        let (failed, flushed): (Vec<_>, Vec<_>) = self.outstanding.drain(..).partition(|write| write.has_failed);
        flushed.iter().for_each(|write| write.to(&mut self.certain));
        let is_over = |write: &Write| flushed.iter().any(|by| by.number > write.number && by.at == write.at);
        self.outstanding = failed.into_iter().filter(|write| !is_over(write)).collect();
    }

    /// Each sector as it was at some time since the flush, one of them cut off, at each length that the file can have.
    fn outcomes(&self) -> BTreeSet<Vec<u8>> {
        let mut now = self.certain.clone();
        now.resize(self.last().len(), 0);
        let mut sectors: Vec<_> = now.chunks(SECTOR).map(|sector| Sector(vec![sector.to_vec()])).collect();
        for write in &self.outstanding {
            write.to(&mut now);
            sectors.iter_mut().zip(now.chunks(SECTOR)).for_each(|(sector, bytes)| sector.write(bytes));
        }
        let mut wholes = vec![Vec::new()];
        let mut cut_off: Vec<Vec<u8>> = Vec::new();
        for sector in &sectors {
            cut_off = [with(&cut_off, &sector.0), with(&wholes, &sector.cut_off())].concat();
            wholes = with(&wholes, &sector.0);
        }
        let lengths = (self.certain.len()..now.len()).step_by(SECTOR).chain([now.len()]);
        let all = [wholes, cut_off].concat();
        lengths.flat_map(|length| all.iter().map(move |bytes| bytes[..length].to_vec())).collect()
    }
}

/// Each beginning with each next sector.
fn with(beginnings: &[Vec<u8>], sectors: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let pairs = beginnings.iter().flat_map(|beginning| sectors.iter().map(move |sector| (beginning, sector)));
    pairs.map(|(beginning, sector)| [&beginning[..], sector].concat()).collect()
}

/// What was in a sector, one after the other, since the flush.
struct Sector(Vec<Vec<u8>>);

impl Sector {
    fn write(&mut self, bytes: &[u8]) {
        if self.0.iter().all(|before| before != bytes) {
            self.0.push(bytes.to_vec());
        }
    }

    /// The beginning of each, and the end of the one before.
    fn cut_off(&self) -> Vec<Vec<u8>> {
        let cut_off = |pair: &[Vec<u8>]| -> Vec<Vec<u8>> {
            let [before, after] = pair else { return Vec::new() };
            (WORD..after.len()).step_by(WORD).map(|cut| [&after[..cut], &before[cut..]].concat()).collect()
        };
        self.0.windows(2).flat_map(cut_off).collect()
    }
}

impl Write {
    fn to(&self, bytes: &mut Vec<u8>) {
        let end = self.at + self.bytes.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[self.at..end].copy_from_slice(&self.bytes);
    }
}
