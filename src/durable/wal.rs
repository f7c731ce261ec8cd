//! Takes the mark to standbys and backups: it is in WAL before it is in the state directory, and so before a timestamp
//! below it is issued. A server that begins to issue IDs reads there how far its worker may have come, on this server
//! before it was rewound, or on another one.
//!
//! The marks of all workers of a database cluster are on [one page](snowflake_core::mark::wal_page), in a file of
//! PostgreSQL's own format which no catalog knows: `global/16111`. Each write logs the page as a whole. So PostgreSQL
//! itself replays it, also on servers without this library, and base backups and pg_rewind bring it. No role can reach
//! it by SQL, and it belongs to no database, schema or transaction.

use crate::durable::horizon::ForPage;
use crate::errors::IssueError;
use crate::postgres::sleep::{self, WaitEvent};
use pgrx::pg_sys;
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::wal_page::{FILE, InWal, PageHorizon, WalPage};
use snowflake_core::server::identity::Worker;
use std::fs::File;
use std::io::Read;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::time::Instant;

const PAGE: usize = pg_sys::BLCKSZ as usize;

/// Where the content of a page begins, after its header (storage/bufpage.h: SizeOfPageHeaderData).
const CONTENT: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp);

const MAIN: pg_sys::ForkNumber::Type = pg_sys::ForkNumber::MAIN_FORKNUM;

/// What WAL says of a worker. To be called in a transaction. During recovery, WAL has not been replayed to its end.
pub fn read(worker: Worker) -> Result<InWal, IssueError> {
    let Some(buffer) = Buffer::find() else { return Ok(InWal::default()) };
    // mutant: mark-from-wal
    Ok(buffer.locked(pg_sys::BUFFER_LOCK_SHARE).page()?.look_up(worker))
}

/// How complete this server is, which has replayed WAL up to the page.
pub fn read_horizon() -> Result<PageHorizon, IssueError> {
    let Some(buffer) = Buffer::find() else { return Ok(PageHorizon::Unknown) };
    Ok(buffer.locked(pg_sys::BUFFER_LOCK_SHARE).page()?.horizon)
}

/// Under the lock: writes the mark of a worker, unless a higher one is there, and the horizon, and flushes both.
/// Returns the mark that counts afterwards, and where its record ends in WAL.
pub fn write(worker: Worker, layout: Layout, mark: UnixMs) -> Result<(UnixMs, pg_sys::XLogRecPtr), IssueError> {
    let mut counts = mark;
    let position = change_with_horizon(ForPage::read(), |page| {
        page.raise(worker, mark, layout, PAGE - CONTENT);
        counts = page.look_up(worker).highest();
    })?;
    Ok((counts, position))
}

/// Under the lock: writes the horizon, if the page says less, and flushes it.
pub fn write_horizon() -> Result<(), IssueError> {
    let horizon = ForPage::read().filter(ForPage::is_news);
    if horizon.is_some() {
        change_with_horizon(horizon, |_| ())?;
    }
    Ok(())
}

/// Changes the page, which then has this horizon. That was read before: PostgreSQL's locks must not be taken below a
/// buffer's.
fn change_with_horizon(
    horizon: Option<ForPage>,
    edit: impl FnOnce(&mut WalPage),
) -> Result<pg_sys::XLogRecPtr, IssueError> {
    let position = sleep::with_wait_event(WaitEvent::MarkWrite, || {
        change(|page| {
            edit(page);
            horizon.iter().for_each(|read| page.horizon = read.horizon);
        })
    })?;
    horizon.iter().for_each(ForPage::is_logged);
    Ok(position)
}

/// Under the lock: waits until synchronous standbys have this position. The wait ends early if the process must end.
/// Then nothing may be issued below the mark.
pub fn wait_for_standbys(position: pg_sys::XLogRecPtr) -> Result<(), IssueError> {
    let since = Instant::now();
    // SAFETY: the lock, which every caller has, holds interrupts back, as a commit does. The keeper alone comes here,
    // whose synchronous_commit is on.
    unsafe { pg_sys::SyncRepWaitForLSN(position, true) };
    // SAFETY: a flag of this process.
    // mutant: standbys-acknowledge
    if unsafe { pg_sys::ProcDiePending } != 0 {
        return Err(IssueError::MarkNotInWal(since.elapsed()));
    }
    Ok(())
}

/// Under the lock: records in WAL that IDs of a worker are issued without marks in WAL, and flushes the record.
pub fn disown(worker: Worker, layout: Layout) -> Result<(), IssueError> {
    sleep::with_wait_event(WaitEvent::MarkWrite, || change(|page| page.disown(worker, layout, PAGE - CONTENT)))?;
    Ok(())
}

/// Runs work that needs a transaction, in a process that may have none. Without a snapshot, which would hold VACUUM
/// back.
pub fn in_transaction<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: reads a variable of this process.
    if unsafe { pg_sys::IsTransactionState() } {
        return work();
    }
    // SAFETY: there is no transaction yet.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
    }
    let done = work();
    // SAFETY: there is the transaction that was started. After an ERROR, PostgreSQL aborts it.
    unsafe { pg_sys::CommitTransactionCommand() };
    done
}

/// Changes the page, and flushes the WAL record of the change. Returns where the record ends.
fn change(edit: impl FnOnce(&mut WalPage)) -> Result<pg_sys::XLogRecPtr, IssueError> {
    let mut locked = Buffer::find_or_create().locked(pg_sys::BUFFER_LOCK_EXCLUSIVE);
    let mut page = locked.page()?;
    edit(&mut page);
    let position = locked.write(&page.encode());
    drop(locked);
    // SAFETY: a position that was just written.
    unsafe { pg_sys::XLogFlush(position) };
    Ok(position)
}

/// The buffer of the page, pinned. Dropped without an ERROR; after one, PostgreSQL releases it.
struct Buffer(pg_sys::Buffer);

/// The buffer of the page, pinned and locked.
struct Locked(pg_sys::Buffer);

impl Buffer {
    /// `None` if nobody has written the page.
    fn find() -> Option<Self> {
        let file = open();
        // SAFETY: the file is open, and is asked for its length only if it exists.
        let has_page = unsafe { pg_sys::smgrexists(file, MAIN) && pg_sys::smgrnblocks(file, MAIN) > 0 };
        has_page.then(Self::pin)
    }

    /// Creates the page if there is none. Not logged: replaying the first write creates it, too. Only under the lock.
    fn find_or_create() -> Self {
        Self::find().unwrap_or_else(|| {
            #[repr(C, align(4096))]
            struct Zeros([u8; PAGE]);
            static ZEROS: Zeros = Zeros([0; PAGE]);
            let file = open();
            // SAFETY: the file is open, and has no block; there are as many bytes as a block has.
            unsafe {
                // Not an error if it exists.
                pg_sys::smgrcreate(file, MAIN, true);
                pg_sys::smgrextend(file, MAIN, 0, ZEROS.0.as_ptr().cast_mut().cast(), false);
            }
            Self::pin()
        })
    }

    fn pin() -> Self {
        let (mode, no_strategy) = (pg_sys::ReadBufferMode::RBM_ZERO_ON_ERROR, std::ptr::null_mut());
        // SAFETY: in a transaction, whose resource owner has the pin; the file has this block. No ERROR for a damaged
        // page, which would leave the buffer to the end of the transaction.
        Self(unsafe { pg_sys::ReadBufferWithoutRelcache(locator(), MAIN, 0, mode, no_strategy, true) })
    }

    // Unsigned from PostgreSQL 19 on.
    #[cfg_attr(feature = "pg19", expect(clippy::useless_conversion, reason = "the same type"))]
    fn locked(self, mode: u32) -> Locked {
        let mode = mode.try_into().expect("a small number");
        // SAFETY: the buffer is pinned.
        unsafe { pg_sys::LockBuffer(self.0, mode) };
        Locked(self.0)
    }
}

impl Locked {
    /// The marks on the page. An error if it is damaged, a later library's, or has something else on it.
    fn page(&self) -> Result<WalPage, IssueError> {
        // SAFETY: the buffer is pinned, so it has a page, and locked: a page changes under the exclusive lock only.
        let bytes = unsafe { from_raw_parts(pg_sys::BufferGetPage(self.0).cast::<u8>(), PAGE) };
        if is_empty(bytes) {
            // PostgreSQL shows a page with a wrong checksum as zeros.
            // mutant: page-damaged
            return if is_empty_on_disk() { Ok(WalPage::default()) } else { Err(IssueError::OtherWalPage) };
        }
        let page = WalPage::decode(&bytes[CONTENT..]).map_err(IssueError::NewerWalPage)?;
        // mutant: page-is-ours
        page.ok_or(IssueError::OtherWalPage)
    }

    /// Writes the content of the page, and logs the page. Returns where the record ends in WAL.
    fn write(&mut self, content: &[u8]) -> pg_sys::XLogRecPtr {
        let end = u16::try_from(CONTENT + content.len()).expect("within a page");
        // SAFETY: the buffer is pinned, and locked exclusively: nobody else sees the bytes of its page. A page begins
        // with its header. It is logged with one, and in a critical section.
        unsafe {
            let page = pg_sys::BufferGetPage(self.0);
            // From here on, an ERROR is a PANIC: the page and WAL must not differ.
            pg_sys::CritSectionCount += 1;
            pg_sys::PageInit(page, PAGE, 0);
            from_raw_parts_mut(page.cast::<u8>(), PAGE)[CONTENT..usize::from(end)].copy_from_slice(content);
            // WAL leaves out what is between this and the end.
            (*page.cast::<pg_sys::PageHeaderData>()).pd_lower = end;
            pg_sys::MarkBufferDirty(self.0);
            let position = pg_sys::log_newpage_buffer(self.0, true);
            pg_sys::CritSectionCount -= 1;
            position
        }
    }
}

fn is_empty(page: &[u8]) -> bool {
    page.iter().all(|&byte| byte == 0)
}

fn is_empty_on_disk() -> bool {
    // Every process of a server is in the data directory.
    let mut page = [0; PAGE];
    let read = File::open(format!("global/{FILE}")).and_then(|mut file| file.read(&mut page));
    read.is_ok() && is_empty(&page)
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: the buffer is pinned and locked, unless an ERROR has set the counter to 0: then PostgreSQL releases
        // it.
        unsafe {
            if pg_sys::InterruptHoldoffCount > 0 {
                pg_sys::UnlockReleaseBuffer(self.0);
            }
        }
    }
}

fn open() -> pg_sys::SMgrRelation {
    // -1 is no process: the file is not of a temporary table.
    // SAFETY: any file may be named.
    unsafe { pg_sys::smgropen(locator(), -1) }
}

#[cfg(feature = "pg15")]
fn locator() -> pg_sys::RelFileNode {
    pg_sys::RelFileNode {
        spcNode: pg_sys::GLOBALTABLESPACE_OID,
        dbNode: pg_sys::InvalidOid,
        relNode: pg_sys::Oid::from(FILE),
    }
}

#[cfg(not(feature = "pg15"))]
fn locator() -> pg_sys::RelFileLocator {
    pg_sys::RelFileLocator {
        spcOid: pg_sys::GLOBALTABLESPACE_OID,
        dbOid: pg_sys::InvalidOid,
        relNumber: pg_sys::Oid::from(FILE),
    }
}
