//! Leaves out of a state what can't matter any more, so that there are fewer states. Only where every rule is on: each
//! reason relies on the rules.

use crate::state::{Disk, Image, Lease, LeaseFile, Memory, Registry, Request, Server, State, Time, Worker};
use crate::world::World;

impl State {
    /// Forgets what can't matter any more. Tokens that nothing can be compared with are 0 already.
    pub fn forget(&mut self, world: &World) {
        let by_receipt = self.restores_left > 0 || self.registry.takes_receipts(world);
        for server in &mut self.servers {
            server.forget(by_receipt, world);
        }
        for late in 0..self.late.len() {
            if self.late[late].is_some_and(|request| self.is_void(&request)) {
                self.late[late] = None;
            }
        }
        // No start continues with its lease, in whatever way it is put on a machine.
        if let Some(image) = &mut self.image {
            let file = image.disk.file.and_then(|file| file.forget_but_tokens(world));
            *image = Image { disk: Disk { file, ..image.disk }, server: 0, is_superseded: false };
        }
        self.registry.forget_unknown_rows();
        if let Some(backup) = &mut self.backup {
            backup.forget();
        }
        for worker in 0..world.workers {
            self.forget_times(worker, world);
        }
        self.forget_restore(world);
    }

    /// Whether a request will be refused whenever it arrives.
    fn is_void(&self, request: &Request) -> bool {
        match request {
            Request::Claim { .. } => false,
            Request::Renew { held, new } | Request::Release { held, new, .. } => {
                let row = self.registry.rows[usize::from(held.worker)];
                let stays = self.restores_left == 0 && row.is_some_and(|row| row.is_current);
                // The new token of a release is in the row only where it has done its work.
                let is_done = matches!(request, Request::Release { .. })
                    && held.tokens.iter().all(|&token| token == 0 || token == *new);
                (held.is_unknown() || is_done) && (stays || !held.has_receipt)
            }
        }
    }

    /// The leases that servers may continue with, and where each would.
    fn leases<'a>(&'a self, world: &'a World) -> impl Iterator<Item = (Lease, Time)> + 'a {
        let of = move |at: &'a Server| {
            let leases = [at.memory.lease, at.usable_lease(world)].into_iter().flatten();
            leases.map(|lease| (lease, at.first(&lease)))
        };
        self.servers.iter().flat_map(of)
    }

    /// Forgets which timestamps were issued below all that can still be issued, and grants above all that are known.
    fn forget_times(&mut self, index: usize, world: &World) {
        let worker = Worker::try_from(index).expect("few workers");
        let mut floor = self.registry.not_before.max(self.registry.rows[index].map_or(0, |row| row.begins));
        let known = [Some(self.registry), self.backup].into_iter().flatten().filter_map(|at| at.rows[index]);
        let mut limit = known.map(|row| row.granted).max().unwrap_or(0);
        for (lease, first) in self.leases(world).filter(|(lease, _)| lease.worker == worker) {
            floor = floor.min(first);
            limit = limit.max(lease.grant);
        }
        self.issued[index] &= u16::MAX.checked_shl(u32::from(floor)).unwrap_or(0);
        self.committed[index] = self.committed[index].min(limit);
    }

    /// Forgets the last restore once everything is renewed and granted beyond it.
    fn forget_restore(&mut self, world: &World) {
        let rows = &self.registry.rows[..world.workers];
        let not_before = self.registry.not_before;
        if not_before <= self.now && rows.iter().all(|row| row.is_some_and(|row| row.begins >= not_before)) {
            self.registry.not_before = 0;
        }
        if self.registry.restored_at.is_some_and(|at| self.is_past(at + world.early, world)) {
            self.registry.restored_at = None;
            self.forget_answers();
        }
        if self.restores_left == 0 && self.registry.restored_at.is_none() && !self.registry.takes_receipts(world) {
            self.forget_receipts();
        }
    }

    /// Whether all that a server holds, or can lower its grant to, is beyond a restore.
    fn is_past(&self, at: Time, world: &World) -> bool {
        let mut late = self.late.iter().flatten().filter_map(Request::held);
        !self.registry.takes_receipts(world)
            && self.leases(world).all(|(held, first)| held.grant > at && first > at)
            && late.all(|held| held.grant > at)
    }

    /// Forgets that the registry has answered since a restore: there is another one since, or none that matters.
    pub fn forget_answers(&mut self) {
        let image = self.image.as_mut().and_then(|image| image.disk.file.as_mut());
        for at in &mut self.servers {
            let file = at.disk.file.as_mut().map(|file| &mut file.lease);
            file.into_iter().chain(at.memory.lease.as_mut()).for_each(|lease| lease.is_answered = false);
        }
        image.into_iter().for_each(|file| file.lease.is_answered = false);
        for request in self.late.iter_mut().flatten() {
            if let Request::Renew { held, .. } | Request::Release { held, .. } = request {
                held.is_answered = false;
            }
        }
    }

    fn forget_receipts(&mut self) {
        let missing = self.registry.rows.iter().any(Option::is_none);
        if missing && self.registry != (Registry { rows: self.registry.rows, ..Registry::default() }) {
            return;
        }
        for at in &mut self.servers {
            let file = at.disk.file.as_mut().map(|file| &mut file.lease);
            for lease in file.into_iter().chain(at.memory.lease.as_mut()) {
                lease.has_receipt = true;
            }
        }
        for request in self.late.iter_mut().flatten() {
            if let Request::Renew { held, .. } | Request::Release { held, .. } = request {
                held.has_receipt = true;
            }
        }
    }
}

impl Server {
    /// Forgets a lease that the registry refuses for good, once all its timestamps were issued, and a lease file that
    /// says no more than that.
    fn forget(&mut self, by_receipt: bool, world: &World) {
        if self.memory.is_stopping && self.memory.uncapped == 0 {
            // All that it can still do is to come to an end.
            self.memory = Memory::default();
        }
        let Memory { lease, is_refused, pending, .. } = self.memory;
        let is_spent = |lease: &Lease| lease.is_unknown() && lease.grant <= self.first(lease);
        let is_lost = |lease: &Lease| is_spent(lease) && !(by_receipt && lease.has_receipt);
        let usable = self.disk.file.filter(|_| lease.is_some() || self.usable_lease(world).is_some());
        let of_use = usable.filter(|file| !is_lost(&file.lease));
        let tokens = self.disk.file.and_then(|file| file.forget_but_tokens(world));
        if lease.is_some_and(|lease| is_lost(&lease)) {
            self.memory = Memory::default();
        } else if lease.is_none() && (is_refused || pending == 0) {
            self.disk.file = of_use.or(tokens);
            self.memory.is_refused &= of_use.is_some();
        } else {
            self.disk.file = usable.or(tokens);
        }
        self.forget_beginning();
    }

    /// The mark is not below.
    fn forget_beginning(&mut self) {
        let mark = self.disk.mark;
        let file = self.disk.file.as_mut().map(|file| &mut file.lease);
        for lease in file.into_iter().chain(self.memory.lease.as_mut()) {
            if mark.is_some_and(|mark| mark.worker == lease.worker && mark.until >= lease.begins) {
                lease.begins = 0;
            }
        }
    }
}

impl LeaseFile {
    /// Forgets all but the tokens, if a claim can still make use of them.
    fn forget_but_tokens(self, world: &World) -> Option<Self> {
        let Self { lease: Lease { tokens, .. }, is_own, .. } = self;
        let lease = Lease { worker: 0, tokens, begins: 0, grant: 0, has_receipt: false, is_answered: false };
        let is_of_use = world.early > 0 && is_own && !lease.is_unknown();
        is_of_use.then_some(Self { lease, same_boot: false, is_own })
    }
}

impl Lease {
    /// Whether its tokens are in no row, and never will be.
    fn is_unknown(&self) -> bool {
        self.tokens == [0, 0]
    }
}

impl Request {
    fn held(&self) -> Option<&Lease> {
        match self {
            Request::Claim { .. } => None,
            Request::Renew { held, .. } | Request::Release { held, .. } => Some(held),
        }
    }
}

impl Registry {
    /// Whether a server can have its worker by a receipt: after a restore, where the row is missing or older.
    pub fn takes_receipts(&self, world: &World) -> bool {
        let is_restored = self.restored_at.is_some();
        self.rows[..world.workers].iter().any(|row| row.map_or(is_restored, |row| !row.is_current))
    }

    /// What is overwritten when it comes back.
    fn forget(&mut self) {
        *self = Self { rows: self.rows, ..Self::default() };
        for row in self.rows.iter_mut().flatten() {
            row.is_current = false;
        }
        self.forget_unknown_rows();
    }

    /// Nobody can renew by the token of such a row. What it says of times is below the end of the restore, or the next
    /// holder begins at its grant.
    fn forget_unknown_rows(&mut self) {
        for row_slot in &mut self.rows {
            if let Some(row) = row_slot
                && row.token == 0
            {
                row.begins = row.granted;
                *row_slot = Some(*row).filter(|row| row.is_current);
            }
        }
    }
}
