//! What the servers of a test have recorded of their marks, for a check after the test.

use snowflake_core::mark::trace::file;
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The name of the file in a data directory, where it is always the same inode.
pub(crate) const NAME: &str = "snowflake_pg.trace";

/// The directory beside it of files that others may remove from there.
pub(crate) const HELD: &str = "held";

/// The files of the servers of a test, and whether it may have changed files of its servers.
#[derive(Debug, Default)]
pub struct Traces {
    files: Mutex<Vec<Vec<u8>>>,
    is_touched: AtomicBool,
    is_planted: AtomicBool,
    has_duplicates: AtomicBool,
    may_repeat: AtomicBool,
}

thread_local! {
    /// Those of the test that runs in this thread.
    static CURRENT: RefCell<Option<Arc<Traces>>> = const { RefCell::new(None) };
}

/// Those of servers that belong to no test alone.
static OTHERS: LazyLock<Arc<Traces>> = LazyLock::new(Arc::default);

impl Traces {
    /// Of the test that runs in this thread.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT.with_borrow(Clone::clone).unwrap_or_else(|| Arc::clone(&OTHERS))
    }

    /// Runs a test, and returns what its servers have recorded.
    #[cfg(feature = "runner")]
    pub(crate) fn of<T>(run: impl FnOnce() -> T) -> (T, Arc<Self>) {
        let traces = Arc::<Self>::default();
        CURRENT.set(Some(Arc::clone(&traces)));
        let outcome = run();
        CURRENT.set(None);
        (outcome, traces)
    }

    /// Of servers that belong to no test alone.
    #[cfg(feature = "runner")]
    pub(crate) fn others() -> Arc<Self> {
        Arc::clone(&OTHERS)
    }

    /// Keeps what the stopped server in this data directory has recorded.
    pub(crate) fn keep(&self, data: &Path) {
        self.keep_file(&data.join(NAME));
    }

    /// Keeps what the running server in this data directory has recorded, if its file has gone a quarter of its way
    /// round since it was kept last.
    pub(crate) fn keep_on_the_way(&self, data: &Path) {
        let Ok(bytes) = fs::read(data.join(NAME)) else { return };
        let Ok((server, _)) = file::read_header(&bytes) else { return };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let of_server = files.iter().filter(|kept| file::read_header(kept).is_ok_and(|(number, _)| number == server));
        let kept = of_server.map(|kept| file::last_number(kept)).max().unwrap_or(0);
        if file::last_number(&bytes) >= kept + file::ROOM as u64 / 4 {
            files.push(bytes);
        }
    }

    fn keep_file(&self, path: &Path) {
        // A test can have made something else of it.
        if path.is_file()
            && let Ok(file) = fs::read(path)
        {
            self.files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        }
    }

    /// Keeps what was held of a server.
    pub(crate) fn keep_held(&self, directory: &Path) {
        let held = fs::read_dir(directory.join(HELD)).into_iter().flatten().flatten();
        held.for_each(|file| self.keep_file(&file.path()));
    }

    /// From now on, files of the servers can be other ones than they have written.
    pub(crate) fn touch(&self) {
        self.is_touched.store(true, Ordering::Relaxed);
    }

    /// WAL can have a mark that no server has written.
    pub(crate) fn plant(&self) {
        self.is_planted.store(true, Ordering::Relaxed);
    }

    /// Servers of the test issue IDs twice, which the audit of their lives must find.
    pub(crate) fn expect_duplicates(&self) {
        self.has_duplicates.store(true, Ordering::Relaxed);
    }

    /// Whether servers of the test issue IDs twice.
    pub fn has_duplicates(&self) -> bool {
        self.has_duplicates.load(Ordering::Relaxed)
    }

    /// Servers of the test can issue IDs twice.
    pub(crate) fn allow_duplicates(&self) {
        self.may_repeat.store(true, Ordering::Relaxed);
    }

    /// Whether servers of the test can issue IDs twice.
    pub fn may_repeat(&self) -> bool {
        self.may_repeat.load(Ordering::Relaxed)
    }

    /// The files.
    pub fn files(&self) -> Vec<Vec<u8>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether files of the servers can be other ones than they have written.
    pub fn is_touched(&self) -> bool {
        self.is_touched.load(Ordering::Relaxed)
    }

    /// Whether WAL can have a mark that no server has written.
    pub fn is_planted(&self) -> bool {
        self.is_planted.load(Ordering::Relaxed)
    }
}
