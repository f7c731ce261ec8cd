//! Everything that servers, the registry and the network remember.

/// A time, of the registry's clock or in an ID.
pub type Time = u8;

/// A secret that servers choose. Only whether two are equal matters; 0 equals none.
pub type Token = u8;

/// A worker ID.
pub type Worker = u8;

/// The most servers that a world has room for.
pub const SERVERS: usize = 3;

/// The most workers.
pub const WORKERS: usize = 2;

/// The most requests that the network keeps for later.
pub const LATE: usize = 2;

/// What the registry knows of a worker that was leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// The token of the server that has the worker.
    pub token: Token,
    /// Where the IDs of this server began.
    pub begins: Time,
    /// The timestamps of its IDs are below this.
    pub granted: Time,
    /// Whether the row was written since the registry was restored last, or it never was. The SQL compares revisions.
    pub is_current: bool,
}

/// What the registry has committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registry {
    /// The rows, by worker.
    pub rows: [Option<Row>; WORKERS],
    /// When it was restored last.
    pub restored_at: Option<Time>,
    /// No worker is given to another server before this time.
    pub not_before: Time,
}

/// A lease, as its server has it on disk and in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    pub worker: Worker,
    /// The token of the grant, and the token of the renewal that is under way; 0 if none is.
    pub tokens: [Token; 2],
    /// Where its IDs began.
    pub begins: Time,
    /// The grant held: timestamps are below.
    pub grant: Time,
    /// Whether the receipt is of the first token with this grant.
    pub has_receipt: bool,
    /// Whether the registry has given that receipt since it was restored last. The SQL compares revisions.
    pub is_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseFile {
    pub lease: Lease,
    /// Whether the machine has not been booted since, and is the same.
    pub same_boot: bool,
    /// Whether this is the file that was written, not a copy with another inode.
    pub is_own: bool,
}

/// The durable mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    pub worker: Worker,
    /// Every timestamp issued is below.
    pub until: Time,
}

/// What a server keeps over a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    pub mark: Option<Mark>,
    pub file: Option<LeaseFile>,
}

impl Disk {
    /// The mark, if it is of this worker.
    pub fn mark_of(&self, worker: Worker) -> Option<Time> {
        self.mark.filter(|mark| mark.worker == worker).map(|mark| mark.until)
    }
}

/// What a server loses in a crash. The default is a server that is down, or has not done anything yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Memory {
    /// The lease in force; IDs are below its grant.
    pub lease: Option<Lease>,
    /// The next timestamp. All below it were issued, as far as this server may.
    pub next: Time,
    /// Whether the registry has refused to renew.
    pub is_refused: bool,
    /// Whether it has begun a planned stop.
    pub is_stopping: bool,
    /// The grant before that.
    pub uncapped: Time,
    /// The new token of a claim without an answer, or of a release.
    pub pending: Token,
}

/// A server, on its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    pub disk: Disk,
    pub memory: Memory,
    /// Whether the registry has told it that another server has its worker for the same time.
    pub is_told: bool,
}

/// An image of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    pub disk: Disk,
    /// The server whose disk it shows, where that matters.
    pub server: usize,
    /// Whether the lease on it was renewed since, by a token that is not on it.
    pub is_superseded: bool,
}

/// What a server asks of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// `server_claim`.
    Claim {
        /// The tokens of the lease that the server had.
        presented: [Token; 2],
        /// The token of the new lease.
        new: Token,
    },
    /// `server_renew`.
    Renew {
        held: Lease,
        /// The token from then on.
        new: Token,
    },
    /// `server_release`.
    Release {
        held: Lease,
        /// The grant from then on.
        lowered: Time,
        /// The token from then on.
        new: Token,
    },
}

/// What must never happen, if it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    /// A timestamp of a worker was issued twice.
    pub uniqueness: bool,
    /// One was issued at or above the durable mark.
    pub i1: bool,
    /// A server began below the mark that it read.
    pub i2: bool,
    /// One was issued at or above all grants, or the next holder began below what was issued or can be.
    pub i3: bool,
    /// One was issued by a server that knows that another one has its worker.
    pub i4: bool,
}

/// Who knows what. The tokens are numbered anew after each step, so that states that differ in them alone are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// What the registry's clock shows.
    pub now: Time,
    pub registry: Registry,
    /// Its state that can come back.
    pub backup: Option<Registry>,
    /// How often it still can.
    pub restores_left: u8,
    pub servers: [Server; SERVERS],
    /// The image of a disk that can be put somewhere.
    pub image: Option<Image>,
    /// How many images can still be made.
    pub images_left: u8,
    /// Requests that arrive later than their server knows.
    pub late: [Option<Request>; LATE],
    /// A bit for each timestamp that was issued, by worker.
    pub issued: [u16; WORKERS],
    /// The highest grant that the registry has ever committed, by worker.
    pub committed: [Time; WORKERS],
    /// What went wrong.
    pub broken: Broken,
}

impl State {
    /// How many requests the network keeps.
    pub fn late_count(&self) -> usize {
        self.late.iter().flatten().count()
    }
}
