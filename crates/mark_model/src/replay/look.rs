//! What a start has found: what its server has left, or what somebody has put there.

use super::numbers::{Outside, page};
use super::server::Replay;
use super::steps::{Traced, UNTRACED};
use crate::found::Found;
use crate::state::{InPage, State};
use snowflake_core::mark::trace::Event;

impl Replay<'_> {
    /// The states in which a start can have found this. `adopts` if somebody may have put it there.
    pub(super) fn with_found(&mut self, states: &[State], start: &Traced, adopts: bool) -> Result<Vec<State>, Outside> {
        let mut found = Vec::new();
        for state in states {
            let mut state = *state;
            if self.takes_over(&mut state, start, adopts)?
                && self.has_record(&mut state, start, adopts)?
                && self.has_life(&mut state, start, adopts)
                && self.has_page(&mut state, start, adopts)?
            {
                found.push(state);
            }
        }
        Ok(found)
    }

    /// The configuration of the server, which can be another one at each start.
    fn takes_over(&mut self, state: &mut State, start: &Traced, adopts: bool) -> Result<bool, Outside> {
        let Event::Begins { timeline, system_identifier, directory, worker, layout, .. } = start.begins else {
            return Ok(false);
        };
        let Event::Decided { was_standby, .. } = start.decided else { return Ok(false) };
        let at = &mut state.servers[0];
        (at.worker, at.layout) = (self.numbers.worker(worker)?, self.numbers.layout(layout)?);
        let (cluster, timeline) = (self.numbers.cluster(system_identifier)?, u32::try_from(timeline).unwrap_or(0));
        let is_first = state.directories[0].inode == 0;
        let is_same = (at.cluster, at.timeline, state.directories[0].inode) == (cluster, timeline, directory);
        (at.cluster, at.timeline, at.is_promoted) = (cluster, timeline, was_standby > 0);
        if is_first {
            state.directories[0].inode = directory;
        }
        Ok(is_same || is_first || adopts)
    }

    fn has_record(&mut self, state: &mut State, start: &Traced, adopts: bool) -> Result<bool, Outside> {
        let Event::Begins { directory, .. } = start.begins else { return Ok(false) };
        let Event::FoundRecord { revision, life, mark, logged, previous_life, of_worker } = start.record else {
            return Ok(false);
        };
        let worker = state.servers[0].worker;
        let present = &mut state.directories[0];
        if let Some(record) = &mut present.record
            && record.life == UNTRACED
        {
            record.life = life;
        }
        let has = present.record.map_or((0, 0, 0, 0, 0, 0), |record| {
            let of_worker = record.mark_of(worker);
            (record.revision, record.life, record.previous_life, record.mark, record.logged, of_worker)
        });
        if present.inode == directory && has == (revision, life, previous_life, mark, logged, of_worker) {
            return Ok(true);
        }
        if adopts {
            let record = self.record(life, revision)?;
            (state.directories[0].inode, state.directories[0].record) = (directory, record);
            self.explain("starts considered another record");
            return Ok(life == 0 || record.is_some());
        }
        Ok(false)
    }

    fn has_life(&mut self, state: &mut State, start: &Traced, adopts: bool) -> bool {
        let Event::Begins { directory, .. } = start.begins else { return false };
        let Event::FoundLife { number, revision, wal_mark, is_elsewhere, .. } = start.life else { return false };
        let own = state.servers[0].life.filter(|life| life.is_own);
        let has = own.map_or((0, 0, 0, 0), |life| {
            (life.number, life.revision, life.wal_mark, u64::from(life.directory != directory))
        });
        if has == (number, revision, wal_mark, is_elsewhere) {
            return true;
        }
        if adopts {
            state.servers[0].life = self.life(number);
            self.explain("starts considered another life");
            return number == 0 || state.servers[0].life.is_some();
        }
        false
    }

    fn has_page(&mut self, state: &mut State, start: &Traced, adopts: bool) -> Result<bool, Outside> {
        let Event::Begins { worker, .. } = start.begins else { return Ok(false) };
        let Event::FoundInWal { mark, is_unknown, common, layout, is_complete, .. } = start.in_wal else {
            return Ok(false);
        };
        if common > 0 {
            return Err(Outside("servers found a mark of all workers in WAL"));
        }
        state.servers[0].page.is_complete = is_complete > 0;
        let layout = if layout == 0 { None } else { Some(self.numbers.layout(layout)?) };
        let seen = Found::new(state, 0, 0, &self.steps.world).context.wal.unwrap_or_default();
        if (seen.mark.unwrap_or(0), seen.is_unknown, state.servers[0].page.layout) == (mark, is_unknown > 0, layout) {
            return Ok(true);
        }
        if adopts {
            let says = match mark {
                0 if is_unknown > 0 => InPage::Unknown,
                0 => InPage::Unwritten,
                mark => InPage::Mark(mark),
            };
            let is_unreadable = says == InPage::Unknown && layout.is_none();
            state.servers[0].page = page(state.servers[0].worker, says, layout);
            self.explain("starts considered another mark in WAL");
            return Ok(is_unreadable || self.is_planted || self.written.was_in_wal(worker, says));
        }
        Ok(false)
    }
}
