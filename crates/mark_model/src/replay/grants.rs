//! What the registry has granted: IDs of a leased worker begin where the lease begins, and no mark passes the grant
//! (I3).

use snowflake_core::mark::trace::Event;

/// What a server knows of its lease.
#[derive(Debug, Default)]
pub struct Grants {
    /// Whether the server was seen to boot: all that was granted since is known.
    is_known: bool,
    /// Whether the worker with which the server has started is leased.
    is_leased: bool,
    lease: Option<Lease>,
    /// How many marks were held to a grant.
    pub marks: u64,
}

#[derive(Debug)]
struct Lease {
    worker: u64,
    begins: u64,
    /// The grant that was recorded last.
    until: u64,
    /// The highest grant that the next mark can go by: the registry client lowers a grant while another process
    /// decides.
    most: u64,
}

impl Grants {
    /// False if the server passes what it was granted.
    pub fn follow(&mut self, event: Event) -> bool {
        match event {
            Event::Boot { .. } => *self = Self { is_known: true, marks: self.marks, ..Self::default() },
            Event::Granted { worker, begins, until } => {
                let most = self.lease.as_ref().map_or(until, |lease| lease.most.max(until));
                self.lease = Some(Lease { worker, begins, until, most });
            }
            Event::GrantEnds { until } => {
                if let Some(lease) = &mut self.lease {
                    (lease.until, lease.most) = (until, lease.most.max(until));
                }
            }
            Event::Extends { limit, .. } if self.is_leased => return self.covers(limit),
            _ => {}
        }
        true
    }

    /// Whether a start of this worker may begin here; `lease` is where the start says that its lease begins.
    pub fn start(&mut self, worker: u64, lease: Option<u64>, first: u64, limit: u64) -> bool {
        self.is_leased = lease.is_some();
        let Some(said) = lease else { return true };
        let is_of = |lease: &Lease| (lease.worker, lease.begins) == (worker, said) && first >= lease.begins;
        !self.is_known || self.lease.as_ref().is_some_and(is_of) && self.covers(limit)
    }

    fn covers(&mut self, limit: u64) -> bool {
        let Some(lease) = &mut self.lease else { return !self.is_known };
        let is_covered = limit <= lease.most || !self.is_known;
        lease.most = lease.until;
        self.marks += u64::from(self.is_known);
        is_covered
    }
}
