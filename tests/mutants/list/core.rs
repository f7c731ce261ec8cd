//! In the core: the generator, the start table, reservations, texts.

use super::Against::{Core, Loom, Servers};
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a clock that was set back lowers the mark",
        edits: &[(
            "crates/snowflake_core/src/mark/reservation.rs",
            ".max(needed.saturating_add(step_ms)).max(mark)",
            ".max(needed.saturating_add(step_ms)).max(mark & 1)",
        )],
        against: Core,
    },
    Mutant {
        name: "there is no floor after a crash",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "Ok(StartPoint { floor: record.mark, reason: StartReason::Restart })",
            "Ok(StartPoint { floor: record.mark & 1, reason: StartReason::Restart })",
        )],
        against: Servers { tests: "faults:: row_03" },
    },
    Mutant {
        name: "a mark that no server can have written is read",
        edits: &[(
            "crates/snowflake_core/src/mark/state_file.rs",
            "    if mark > end {",
            "    if mark > end && mark < end {",
        )],
        against: Servers { tests: "faults:: row_07_a_damaged" },
    },
    Mutant {
        name: "every jump of the clock is trusted at once",
        edits: &[(
            "crates/snowflake_core/src/issue/forward_jump.rs",
            ".saturating_add(max_jump)",
            ".saturating_add(max_jump.max(u64::MAX))",
        )],
        against: Servers { tests: "faults:: row_11" },
    },
    Mutant {
        name: "a copy of a data directory is not noticed",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "identity.timeline == own.timeline && !same_place {",
            "identity.timeline == own.timeline && !same_place && same_place {",
        )],
        against: Servers { tests: "faults:: row_20" },
    },
    Mutant {
        name: "a server recovered to a point in time begins at its mark",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "    } else if identity.timeline < own.timeline {",
            "    } else if identity.timeline < own.timeline && same_place && !same_place {",
        )],
        against: Core,
    },
    Mutant {
        name: "a changed layout is not noticed",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "} else if identity.layout != own.layout {",
            "} else if false {",
        )],
        against: Servers { tests: "faults:: row_30" },
    },
    Mutant {
        name: "the state is stored without looking whether another caller was faster",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "self.state.compare_exchange(seen, last, Ordering::AcqRel, Ordering::Relaxed).map(",
            "Ok(self.state.swap(last, Ordering::AcqRel)).map(|_| seen).map(",
        )],
        against: Servers { tests: "faults:: row_31" },
    },
    Mutant {
        name: "callers do not look at the limit",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "if opens && first >= self.soft_limit.load(Ordering::Acquire) {",
            "if opens && self.soft_limit.load(Ordering::Acquire) == 0 {",
        )],
        against: Core,
    },
    Mutant {
        name: "a block begins where the rest of its tick is too short for it",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "if next & self.sequence_mask <= last_start { next }",
            "if next > last_start { next }",
        )],
        against: Servers { tests: "issuing:: a_block_is_as_many" },
    },
    Mutant {
        name: "a block takes what the history has left over",
        edits: &[("crates/snowflake_core/src/issue/generator.rs", "                && least == 1\n", "")],
        against: Core,
    },
    Mutant {
        name: "the counter never says that a tick is over",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "if left.wrapping_sub(1) >= max_age {",
            "if left == u64::MAX {",
        )],
        against: Servers { tests: "clock:: an_id_says_when" },
    },
    Mutant {
        name: "steps of the mark grow past what may be borrowed",
        edits: &[(
            "crates/snowflake_core/src/mark/reservation.rs",
            ".min(reserve_ahead_ms).min(room) } else",
            ".min(reserve_ahead_ms) } else",
        )],
        against: Core,
    },
    Mutant {
        name: "what comes from the history opens the last tick",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "        if self.last_tick() == taken.last >> self.sequence_bits {\n            self.open_until",
            "        if taken.last > 0 {\n            self.open_until",
        )],
        against: Core,
    },
    Mutant {
        name: "a tick is entered in the history before it is closed",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "        let Ok(span) = self.try_claim(state, first, want) else { return Outcome::Contended };\n        if opens {\n            \
             self.close(state, first, policy);\n        }",
            "        if opens {\n            self.close(state, first, policy);\n        }\n        let Ok(span) = \
             self.try_claim(state, first, want) else { return Outcome::Contended };",
        )],
        against: Loom { tests: "nothing_is_issued_twice_from_the_history" },
    },
    Mutant {
        name: "the history takes what lies below the floor",
        edits: &[(
            "crates/snowflake_core/src/issue/history.rs",
            "if tick <= self.floor.fetch_max(0, Ordering::AcqRel) {",
            "if tick == 0 {",
        )],
        against: Core,
    },
    Mutant {
        name: "the history counts one position too few as used",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "let used = (last & self.sequence_mask) + 1;",
            "let used = last & self.sequence_mask;",
        )],
        against: Servers { tests: "faults:: row_14" },
    },
    Mutant {
        name: "a clock that has gone back is waited for where the policy is to refuse",
        edits: &[(
            "crates/snowflake_core/src/issue/generator/outlook.rs",
            "ClockRegression::Error if regressed => Outcome::Behind(highest),",
            "ClockRegression::Error if regressed => Outcome::Wait(highest),",
        )],
        against: Servers { tests: "status:: refusals" },
    },
    Mutant {
        name: "IDs go on from the last timestamp where the policy is to wait or to refuse",
        edits: &[(
            "crates/snowflake_core/src/issue/policy.rs",
            "        if regressed && !may_borrow {\n            0",
            "        if regressed && !may_borrow {\n            self.max_borrow",
        )],
        against: Servers { tests: "faults:: row_14" },
    },
    Mutant {
        name: "a tick begins anywhere, however many IDs the one before it had",
        edits: &[(
            "crates/snowflake_core/src/issue/policy.rs",
            "saturating_sub(issued.saturating_mul(2))",
            "saturating_sub(issued.min(0))",
        )],
        against: Core,
    },
    Mutant {
        name: "a mark between two ticks lets the tick come again in which it lies",
        edits: &[(
            "crates/snowflake_core/src/id/layout.rs",
            "at.saturating_sub(self.epoch).div_ceil(self.tick_ms as u64)",
            "at.saturating_sub(self.epoch) / self.tick_ms as u64",
        )],
        against: Core,
    },
    Mutant {
        name: "a server without a mark begins no further ahead than a short tick and full ticks that wait need",
        edits: &[(
            "crates/snowflake_core/src/mark/reservation.rs",
            "least_start_margin_ms.max(restarted_ms).max(allowed_ms)",
            "least_start_margin_ms.max(restarted_ms).max(allowed_ms & 0)",
        )],
        against: Core,
    },
    Mutant {
        name: "IDs of 64 bits are issued",
        edits: &[("crates/snowflake_core/src/id/layout/series.rs", "if self.bits() > 63 {", "if false {")],
        against: Core,
    },
    Mutant {
        name: "a layout that a HINT names has other times than the one that it replaces",
        edits: &[(
            "crates/snowflake_core/src/id/layout/instead.rs",
            "layout_of(&fields, self.tick_ms, self.epoch)",
            "layout_of(&fields, self.tick_ms, start_of_year(now)?)",
        )],
        against: Core,
    },
    Mutant {
        name: "IDs that do not sort by time are issued",
        edits: &[("crates/snowflake_core/src/id/layout/series.rs", "if !self.sorts_by_time() {", "if false {")],
        against: Core,
    },
    Mutant {
        name: "a slot in which all is 0 passes for one that was cut off",
        edits: &[(
            "crates/snowflake_core/src/mark/state_file.rs",
            "Self::Bad(is_written.then(|| u64_at(bytes, END_REVISION)), damage)",
            "Self::Bad((is_written || true).then(|| u64_at(bytes, END_REVISION)), damage)",
        )],
        against: Core,
    },
    Mutant {
        name: "any mark in WAL stands in for one that is lost",
        edits: &[("crates/snowflake_core/src/mark/start_table.rs", "(1..=mark).contains(&life.wal_mark)", "mark > 0")],
        against: Core,
    },
    Mutant {
        name: "a copy of the state directory is continued as if it had moved",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "} else if is_elsewhere {",
            "} else if is_elsewhere && false {",
        )],
        against: Core,
    },
    Mutant {
        name: "a newer record of another directory is continued",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "same_directory && context.last_life.is_some_and(|last| !last.elsewhere",
            "context.last_life.is_some_and(|last| !last.elsewhere",
        )],
        against: Core,
    },
    Mutant {
        name: "a directory that was made in the same instant is the same one",
        edits: &[("crates/snowflake_core/src/server/identity.rs", " && (same_number || !numbers_are_known)", "")],
        against: Servers { tests: "faults:: row_40_directories" },
    },
    Mutant {
        name: "a restart does not look at the mark in WAL",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "in_wal > record.mark.max(record.logged)",
            "in_wal > record.mark.max(record.logged) && false",
        )],
        against: Servers { tests: "faults:: row_44_servers" },
    },
    Mutant {
        name: "a mark in WAL that is lower than before passes for known",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "context.wal.is_some() && in_wal < record.logged",
            "false",
        )],
        against: Core,
    },
    Mutant {
        name: "a mark in WAL passes for known by the life of another worker",
        edits: &[("crates/snowflake_core/src/mark/start_table.rs", "life.worker == own.worker && ", "")],
        against: Core,
    },
    Mutant {
        name: "a data directory from elsewhere takes the record for its own",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "} else if context.last_life.is_none() {",
            "} else if false {",
        )],
        against: Core,
    },
    Mutant {
        name: "a lost record comes back as a newer one",
        edits: &[("crates/snowflake_core/src/mark/life.rs", "saturating_add(1 << 40)", "saturating_add(0)")],
        against: Core,
    },
    Mutant {
        name: "a mark in WAL that counts for all workers is not looked at",
        edits: &[(
            "crates/snowflake_core/src/mark/wal_page.rs",
            "self.mark.unwrap_or(0).max(self.rest)",
            "self.mark.unwrap_or(0)",
        )],
        against: Core,
    },
    Mutant {
        name: "a promoted server that has no mark in WAL begins by its clock",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "identity.timeline < own.timeline && is_after_another {",
            "identity.timeline < own.timeline && is_after_another && same_place && !same_place {",
        )],
        against: Servers { tests: "faults:: row_17_a_standby_that_has_no_mark" },
    },
    Mutant {
        name: "a server without a record does not ask whether its worker is without a mark in WAL",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "(is_unknown || is_unwritten) && !has_begun_here",
            "is_unwritten && !has_begun_here",
        )],
        against: Servers { tests: "faults:: row_17_a_standby_is_refused_after" },
    },
    Mutant {
        name: "the worker of another server is taken over without its mark",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            "!same_worker && is_disowned && !knows_worker",
            "false && is_disowned && !knows_worker",
        )],
        against: Core,
    },
    Mutant {
        name: "the page of marks forgets a worker without a mark",
        edits: &[(
            "crates/snowflake_core/src/mark/wal_page.rs",
            "        self.set(worker, UNKNOWN, layout, room);\n",
            "        self.set(worker, UNKNOWN, layout, room);\n        self.marks.remove(&worker);\n",
        )],
        against: Core,
    },
    Mutant {
        name: "workers that are left out of a full page are forgotten",
        edits: &[(
            "crates/snowflake_core/src/mark/wal_page.rs",
            "            self.rest = self.rest.max(mark);\n",
            "            let _ = mark;\n",
        )],
        against: Core,
    },
    Mutant {
        name: "hosts that are named by addresses share numbers",
        edits: &[(
            "crates/snowflake_core/src/server/number_source.rs",
            "} else if ends_with_address(name) {",
            "} else if false && ends_with_address(name) {",
        )],
        against: Core,
    },
    Mutant {
        name: "the digits at the end of a random name are a number",
        edits: &[(
            "crates/snowflake_core/src/server/number_source.rs",
            "word.chars().all(char::is_alphabetic)",
            "word.ends_with(char::is_alphabetic)",
        )],
        against: Core,
    },
];
