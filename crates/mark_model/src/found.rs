//! What a start finds, as the core's start table takes it.

use crate::rules::Rule;
use crate::state::{InPage, Life, Record, Server, State, Time};
use crate::world::World;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::life::{self, LastLife};
use snowflake_core::mark::record::{self, LaterFields, OtherMarks};
use snowflake_core::mark::start_table::{MarkConflict, StartContext, StartPoint, decide};
use snowflake_core::mark::wal_page::InWal;
use snowflake_core::server::identity::{Identity, Inode};
use snowflake_core::server::lease::LeaseStart;
use std::sync::LazyLock;

/// Two layouts with ticks of a millisecond, from 1970 on.
static LAYOUTS: LazyLock<[Layout; 2]> =
    LazyLock::new(|| ["t50 w1 s12 epoch=0", "t49 w1 s13 epoch=0"].map(|layout| layout.parse().expect("a layout")));

/// What decides where a server begins.
pub struct Found {
    pub record: Option<record::Record>,
    pub identity: Identity,
    pub context: StartContext,
}

impl Found {
    /// What a server finds whose clock shows `now`.
    pub fn new(state: &State, server: usize, now: Time, world: &World) -> Self {
        let at = &state.servers[server];
        let directory = &state.directories[at.directory];
        let record = directory.record.map(|record| as_core(&record, world));
        let mut identity = Identity {
            system_identifier: at.cluster.into(),
            timeline: at.timeline,
            directory: inode(directory.inode),
            worker: at.worker.into(),
            layout: LAYOUTS[usize::from(at.layout)],
        };
        if let Some(record) = &record {
            if !world.keeps(Rule::SameLayout) {
                identity.layout = record.identity.layout;
            }
            if !world.keeps(Rule::RecordNamesDirectory) {
                identity.directory = record.identity.directory;
            }
            if !world.keeps(Rule::RecordNamesTimeline) {
                identity.timeline = record.identity.timeline;
            }
        }
        let own = |life: &Life| life.is_own || !world.keeps(Rule::CopiedLifeSaysNothing);
        let at_directory = if world.keeps(Rule::RecordNamesDirectory) { directory.inode } else { 0 };
        let last_life = at.life.filter(own).map(|life| as_last(life, at_directory));
        // Without the life, whatever is there is taken for the last record.
        let believed = |record: &record::Record| LastLife {
            life: life::Life {
                number: record.life,
                revision: record.revision - 1,
                worker: record.identity.worker,
                wal_mark: 1,
            },
            elsewhere: false,
        };
        let last_life = if world.keeps(Rule::LifeInDataDirectory) { last_life } else { record.as_ref().map(believed) };
        let context = StartContext {
            now,
            start_margin_ms: if world.keeps(Rule::StartMargin) { world.margin() } else { 0 },
            wal: Some(in_wal(at, world)),
            was_standby: at.is_promoted && (!world.is_leased || world.keeps(Rule::LeasedAboveMargin)),
            machine: None,
            last_life,
            lease: world.lease.or_else(|| world.is_leased.then(|| leased(state, server))),
        };
        Self { record, identity, context }
    }

    /// What the core's start table says.
    pub fn decide(&self) -> Result<StartPoint, MarkConflict> {
        decide(self.record.as_ref(), &self.identity, &self.context)
    }
}

/// The lease is beside the record, and a copy of it is none. The registry has granted at least what was issued.
fn leased(state: &State, server: usize) -> LeaseStart {
    let at = &state.servers[server];
    let directory = &state.directories[at.directory];
    let has_lease = |record: &Record| record.worker == at.worker && record.directory == directory.inode;
    match directory.record.filter(has_lease) {
        Some(_) => LeaseStart::Continued(0),
        None => LeaseStart::At(state.issued[usize::from(at.worker)].end()),
    }
}

fn inode(number: u64) -> Inode {
    Inode { number, born_ns: number }
}

/// A record as the core has it.
pub fn as_core(record: &Record, world: &World) -> record::Record {
    let other = 1 - u64::from(record.worker);
    let others = [(other, record.other)].into_iter().filter(|&(_, mark)| mark > 0 && world.keeps(Rule::MarksOfOthers));
    let layout = LAYOUTS[usize::from(record.layout)];
    record::Record {
        revision: record.revision,
        life: record.life,
        previous_life: if world.keeps(Rule::RecordNamesLifeBefore) { record.previous_life } else { 0 },
        mark: record.mark,
        logged: if world.keeps(Rule::RecordNamesWal) { record.logged } else { 0 },
        identity: Identity {
            system_identifier: record.cluster.into(),
            timeline: record.timeline,
            directory: inode(record.directory),
            worker: record.worker.into(),
            layout,
        },
        machine: None,
        others: OtherMarks::new(others, 0),
        later: LaterFields::default(),
    }
}

/// A life as a start reads it, beside the directory with this inode; 0 is any.
pub fn as_last(life: Life, directory: u64) -> LastLife {
    let Life { number, revision, worker, wal_mark, .. } = life;
    let known = life::Life { number, revision, worker: worker.into(), wal_mark };
    LastLife { life: known, elsewhere: directory != 0 && life.directory != directory }
}

fn in_wal(at: &Server, world: &World) -> InWal {
    let page = &at.page;
    let layout = page.layout.map(|layout| LAYOUTS[usize::from(layout)]);
    let layout = layout.filter(|_| world.keeps(Rule::SameLayout));
    let others = world.others.unwrap_or_else(|| page.highest(1 - at.worker));
    let others = if world.keeps(Rule::BeginsAboveOthers) { others } else { 0 };
    let says = |mark, is_unknown| InWal { mark, is_unknown, others, layout, ..InWal::default() };
    // Without what a start of this process has written, which then failed.
    match page.workers[usize::from(at.worker)] {
        InPage::Mark(mark) if at.unfinished.is_some_and(|(_, written)| mark == written) => {
            says(at.unfinished.map(|(before, _)| before).filter(|&before| before > 0), false)
        }
        InPage::Unwritten => says(None, false),
        InPage::Unknown => says(None, true),
        InPage::Mark(mark) if world.keeps(Rule::WalCounts) => says(Some(mark), false),
        InPage::Mark(_) => says(Some(1), false),
    }
}
