//! Every mutant: which check it removes, and which tests should notice.

/// A check that is removed.
pub struct Mutant {
    /// What is wrong with it.
    pub name: &'static str,
    /// The file, the text in it, and what replaces that text.
    pub edits: &'static [(&'static str, &'static str, &'static str)],
    /// Which tests to run against it.
    pub against: Against,
}

/// Tests that should notice: those of the core, some of its interleavings, or some of a binary of tests on servers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Against {
    Core,
    Loom { tests: &'static str },
    Servers { binary: &'static str, tests: &'static str },
}
use Against::{Core, Loom, Servers};

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the mark is published before it is on disk",
        edits: &[(
            "src/durable/mark.rs",
            "        persist(&directory, &Record { mark, identity: own }, log_time(logged))?;\n        publish(layout, needed, now, mark);",
            "        publish(layout, needed, now, mark);\n        persist(&directory, &Record { mark, identity: own }, log_time(logged))?;",
        )],
        against: Servers { binary: "faults", tests: "row_05" },
    },
    Mutant {
        name: "a clock that was set back lowers the mark",
        edits: &[(
            "crates/snowflake_core/src/reservation.rs",
            ".max(needed.saturating_add(LEAST_STEP_MS)).max(mark)",
            ".max(needed.saturating_add(LEAST_STEP_MS)).max(mark & 1)",
        )],
        against: Core,
    },
    Mutant {
        name: "the mark is published although no standby has acknowledged it",
        edits: &[("src/durable/keeper.rs", "            end_if_told();\n            logged", "            logged")],
        against: Servers { binary: "faults", tests: "row_28" },
    },
    Mutant {
        name: "a want of the mark outlives the call that was cancelled",
        edits: &[(
            "src/durable/request.rs",
            "let _ = shared().wanted.compare_exchange(wanted, 0, Ordering::Relaxed, Ordering::Relaxed);",
            "let _ = wanted;",
        )],
        against: Servers { binary: "faults", tests: "row_28" },
    },
    Mutant {
        name: "the keeper does not look again at what is wanted when WAL has the mark",
        edits: &[(
            "src/durable/mark.rs",
            "(WalMark::Require, Some(logged)) => Some(wanted.min(logged.mark)),",
            "(WalMark::Require, Some(logged)) => Some(logged.mark),",
        )],
        against: Servers { binary: "faults", tests: "row_28" },
    },
    Mutant {
        name: "the file is not flushed",
        edits: &[("src/durable/state_file.rs", "file.sync_all().during(\"fsync file\", &temporary)?;", "")],
        against: Servers { binary: "faults", tests: "row_05" },
    },
    Mutant {
        name: "the directory is not flushed",
        edits: &[(
            "src/durable/state_file.rs",
            "self.opened.sync_all().during(\"fsync directory\", &StatePath::directory(&self.path))?;\n        Ok",
            "Ok",
        )],
        against: Servers { binary: "faults", tests: "row_05" },
    },
    Mutant {
        name: "there is no floor after a crash",
        edits: &[(
            "crates/snowflake_core/src/identity.rs",
            "Ok(StartPoint { floor: *mark, reason: StartReason::Restart })",
            "Ok(StartPoint { floor: *mark & 1, reason: StartReason::Restart })",
        )],
        against: Servers { binary: "faults", tests: "row_03" },
    },
    Mutant {
        name: "every process that ends lowers the mark",
        edits: &[
            (
                "src/durable/shutdown.rs",
                "    if me != postmaster {\n        return;\n    }\n    if code == 0 {",
                "    let _ = (me, postmaster);\n    if code >= 0 {",
            ),
            (
                "src/issue/issuer.rs",
                "let (layout, series) = worker::layout_and_series()?;\n        Ok(",
                "let (layout, series) = worker::layout_and_series()?;\n        crate::durable::shutdown::prepare();\n        Ok(",
            ),
        ],
        against: Servers { binary: "faults", tests: "row_03" },
    },
    Mutant {
        name: "the mark passes the end of the layout",
        edits: &[("src/durable/mark.rs", "reserve_ahead_ms).min(layout.end()))", "reserve_ahead_ms))")],
        against: Servers { binary: "layouts", tests: "the_mark_never_passes" },
    },
    Mutant {
        name: "a mark that no server can have written is read",
        edits: &[(
            "crates/snowflake_core/src/state_record.rs",
            "    if mark > end {",
            "    if mark > end && mark < end {",
        )],
        against: Servers { binary: "faults", tests: "row_07_a_damaged" },
    },
    Mutant {
        name: "a damaged state file counts as a missing one",
        edits: &[(
            "src/durable/state_file.rs",
            "Err(damage) => Err(StateFileError::Damaged { path, damage }),",
            "Err(_) => Ok(None),",
        )],
        against: Servers { binary: "faults", tests: "row_07" },
    },
    Mutant {
        name: "a start without a mark does not wait out its start margin",
        edits: &[("src/durable/start.rs", "    if plan.is_pending() {", "    if false {")],
        against: Servers { binary: "faults", tests: "row_07" },
    },
    Mutant {
        name: "the generator starts before its first mark is on disk",
        edits: &[(
            "src/durable/start.rs",
            "= mark::persist(&directory, &Record { mark, identity: own }, mark::log_time(logged))?;\n    shared.directory[0]",
            "= own.directory;\n    let _ = mark::log_time(logged);\n    shared.directory[0]",
        )],
        against: Servers { binary: "crashes", tests: "" },
    },
    Mutant {
        name: "a directory that the first write has copied up is another one",
        edits: &[(
            "src/durable/state_file.rs",
            "let directory = self.identity()?;",
            "let directory = record.identity.directory;",
        )],
        against: Servers { binary: "faults", tests: "row_41" },
    },
    Mutant {
        name: "every jump of the clock is trusted at once",
        edits: &[(
            "crates/snowflake_core/src/forward_jump.rs",
            ".saturating_add(max_jump)",
            ".saturating_add(max_jump.max(u64::MAX))",
        )],
        against: Servers { binary: "faults", tests: "row_11" },
    },
    Mutant {
        name: "whatever the clock shows after a crash of a backend is trusted",
        edits: &[(
            "src/trusted_clock.rs",
            "ForwardJumpGuard::new(offset().load(Ordering::Relaxed), 0)",
            "ForwardJumpGuard::new(clock::microseconds(clock::since_1970()), clock::microseconds(clock::since_boot()))",
        )],
        against: Servers { binary: "faults", tests: "row_11" },
    },
    Mutant {
        name: "a state directory that was swapped is not noticed",
        edits: &[(
            "src/durable/mark.rs",
            "if found.same_directory(&Directory { inode, born_ns }) {",
            "if found.same_directory(&Directory { inode, born_ns }) || true {",
        )],
        against: Servers { binary: "admin", tests: "a_state_directory_that_is_swapped" },
    },
    Mutant {
        name: "another server's mark is replaced",
        edits: &[(
            "src/durable/mark.rs",
            "Ok(Some(record)) if !record.identity.same_source(own) =>",
            "Ok(Some(record)) if !record.identity.same_source(own) && !record.identity.same_source(&record.identity) =>",
        )],
        against: Servers { binary: "admin", tests: "two_servers_that_share" },
    },
    Mutant {
        name: "a shutdown lowers another server's mark",
        edits: &[(
            "src/durable/shutdown.rs",
            "&& found.identity.same_source(&own)",
            "&& found.identity.same_source(&found.identity)",
        )],
        against: Servers { binary: "admin", tests: "a_server_that_stops" },
    },
    Mutant {
        name: "a standby may start the generator",
        edits: &[("src/durable/start.rs", "if unsafe { pg_sys::RecoveryInProgress() } {", "if false {")],
        against: Servers { binary: "faults", tests: "row_16" },
    },
    Mutant {
        name: "a promoted standby does not look for the mark in WAL",
        edits: &[(
            "src/durable/wal.rs",
            "shared().wal_mark.load(Ordering::Relaxed).checked_sub(1)",
            "shared().wal_mark.load(Ordering::Relaxed).checked_sub(1).map(|_| 0)",
        )],
        against: Servers { binary: "faults", tests: "row_17" },
    },
    Mutant {
        name: "a copy of a data directory is not noticed",
        edits: &[(
            "crates/snowflake_core/src/identity.rs",
            "identity.timeline == own.timeline && !same_directory {",
            "identity.timeline == own.timeline && !same_directory && same_directory {",
        )],
        against: Servers { binary: "faults", tests: "row_20" },
    },
    Mutant {
        name: "a server recovered to a point in time begins at its mark",
        edits: &[(
            "crates/snowflake_core/src/identity.rs",
            "    } else if identity.timeline < own.timeline {",
            "    } else if identity.timeline < own.timeline && same_directory && !same_directory {",
        )],
        against: Servers { binary: "faults", tests: "row_22" },
    },
    Mutant {
        name: "a session may set the worker ID",
        edits: &[(
            "src/config/gucs.rs",
            "            -1,\n            i32::MAX,\n            GucContext::Postmaster,",
            "            -1,\n            i32::MAX,\n            GucContext::Userset,",
        )],
        against: Servers { binary: "faults", tests: "row_29" },
    },
    Mutant {
        name: "a changed layout is not noticed",
        edits: &[("crates/snowflake_core/src/identity.rs", "identity.layout != own.layout;", "false;")],
        against: Servers { binary: "faults", tests: "row_30" },
    },
    Mutant {
        name: "a standby is never told that it has its primary's worker",
        edits: &[("src/durable/identity.rs", "&& !identity.directory.same_directory(&here)", "&& false")],
        against: Servers { binary: "startup_log", tests: "a_standby" },
    },
    Mutant {
        name: "a former primary is taken for a copy of itself",
        edits: &[("src/durable/identity.rs", "&& !identity.directory.same_directory(&here)", "")],
        against: Servers { binary: "startup_log", tests: "a_standby" },
    },
    Mutant {
        name: "nobody is warned of a worker that base backups copy",
        edits: &[(
            "src/startup_log.rs",
            "        warn_of_alter_system(variable, value);\n",
            "        let _ = (variable, value);\n",
        )],
        against: Servers { binary: "startup_log", tests: "a_worker" },
    },
    Mutant {
        name: "every role learns where the state directory is",
        edits: &[(
            "src/errors/state_file.rs",
            "unsafe { pg_sys::has_privs_of_role(user, ",
            "user != pg_sys::Oid::INVALID || unsafe { pg_sys::has_privs_of_role(user, ",
        )],
        against: Servers { binary: "refusals", tests: "only_roles" },
    },
    Mutant {
        name: "a client gets backtraces of Rust's",
        edits: &[("src/lib.rs", "    errors::forbid_backtraces();\n", "")],
        against: Servers { binary: "refusals", tests: "no_client" },
    },
    Mutant {
        name: "ALTER SYSTEM takes a worker outside the layout",
        edits: &[("src/config/gucs/checks.rs", "value == -1 || accept(", "value >= -1 || accept(")],
        against: Servers { binary: "refusals", tests: "refused_by_alter_system_and" },
    },
    Mutant {
        name: "snowflake_nextval() is STABLE",
        edits: &[(
            "sql/snowflake_pg.sql",
            "CREATE FUNCTION snowflake_nextval() RETURNS bigint\n    LANGUAGE c VOLATILE",
            "CREATE FUNCTION snowflake_nextval() RETURNS bigint\n    LANGUAGE c STABLE",
        )],
        against: Servers { binary: "sql_surface", tests: "an_id_that_a_query" },
    },
    Mutant {
        name: "a row takes a value of another type than its column's",
        edits: &[(
            "src/functions/row.rs",
            "!unsafe { pg_sys::IsBinaryCoercible(returned, expected) }",
            "returned == pg_sys::Oid::INVALID",
        )],
        against: Servers { binary: "library_and_script", tests: "a_column_of_another_type" },
    },
    Mutant {
        name: "functions that COPY calls get its default, too",
        edits: &[("src/functions/copy.rs", "name == COPY_CONTEXT &&", "!name.is_empty() &&")],
        against: Servers { binary: "copy", tests: "outside_copy" },
    },
    Mutant {
        name: "a COPY that writes rows gets the default of one that reads them",
        edits: &[(
            "src/functions/copy.rs",
            "name == COPY_CONTEXT && READS_ROWS.load(Ordering::Relaxed)",
            "name == COPY_CONTEXT",
        )],
        against: Servers { binary: "copy", tests: "outside_copy" },
    },
    Mutant {
        name: "the planner does not see the layout",
        edits: &[("src/lib.rs", "        functions::layout_constant::watch();\n", "")],
        against: Servers { binary: "planner", tests: "a_range" },
    },
    Mutant {
        name: "the planner gets the layout of a function that its user may not call",
        edits: &[("src/functions/layout_constant.rs", " && both.into_iter().all(everybody_may_call)", "")],
        against: Servers { binary: "planner", tests: "a_plan_calls_nothing" },
    },
    Mutant {
        name: "the planner keeps what it knows of functions that have changed",
        edits: &[("src/functions/layout_constant.rs", "    KNOWN.with_borrow_mut(HashMap::clear);\n", "")],
        against: Servers { binary: "planner", tests: "a_plan_calls_nothing" },
    },
    Mutant {
        name: "the planner gets the layout of a function of somebody else's",
        edits: &[("src/functions/layout_constant.rs", " && both.into_iter().all(is_ours)", "")],
        against: Servers { binary: "planner", tests: "a_plan_calls_nothing" },
    },
    Mutant {
        name: "COPY may call what its user may not",
        edits: &[(
            "src/functions/catalog.rs",
            "\"EXECUTE\".into_datum()]) };\n    may == Some(true)",
            "\"EXECUTE\".into_datum()]) };\n    may.is_some()",
        )],
        against: Servers { binary: "copy", tests: "copy" },
    },
    Mutant {
        name: "the state is stored without looking whether another caller was faster",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "self.state.compare_exchange(seen, last, Ordering::AcqRel, Ordering::Relaxed).map(",
            "Ok(self.state.swap(last, Ordering::AcqRel)).map(|_| seen).map(",
        )],
        against: Servers { binary: "faults", tests: "row_31" },
    },
    Mutant {
        name: "callers do not look at the limit",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "if opens && first >= self.soft_limit.load(Ordering::Acquire) {",
            "if opens && self.soft_limit.load(Ordering::Acquire) == 0 {",
        )],
        against: Core,
    },
    Mutant {
        name: "the counter never says that a tick is over",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "if left.wrapping_sub(1) >= max_age {",
            "if left == u64::MAX {",
        )],
        against: Servers { binary: "clock", tests: "an_id_says_when" },
    },
    Mutant {
        name: "a call that waits for the clock cannot be cancelled",
        edits: &[(
            "src/sleep.rs",
            "        on_latch(Some(time.min(LONG)), WaitEvent::Clock.number());\n    }\n    pgrx::check_for_interrupts!();",
            "        on_latch(Some(time.min(LONG)), WaitEvent::Clock.number());\n    }",
        )],
        against: Servers { binary: "faults", tests: "row_15_a_call_that_waits_until" },
    },
    Mutant {
        name: "a clock that is accepted is not looked at by the next ID",
        edits: &[("src/trusted_clock.rs", "    shared().generator.shut();\n", "")],
        against: Servers { binary: "faults", tests: "row_11_a_clock_that_is_accepted" },
    },
    Mutant {
        name: "a tick ahead of the clock is joined without it",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "        if self.last_tick() == now {\n            self.open_until",
            "        if now > 0 {\n            self.open_until",
        )],
        against: Core,
    },
    Mutant {
        name: "a tick is entered in the history before it is closed",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "        let Ok(span) = self.try_claim(state, first, want) else { return Outcome::Contended };\n        if opens {\n            \
             self.close(state, first, policy);\n        }",
            "        if opens {\n            self.close(state, first, policy);\n        }\n        let Ok(span) = \
             self.try_claim(state, first, want) else { return Outcome::Contended };",
        )],
        against: Loom { tests: "nothing_is_issued_twice_from_the_history" },
    },
    Mutant {
        name: "the history takes what lies below the floor",
        edits: &[("crates/snowflake_core/src/history.rs", "if tick <= self.floor() {", "if tick == 0 {")],
        against: Core,
    },
    Mutant {
        name: "the history counts one position too few as used",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "let used = (last & self.sequence_mask) + 1;",
            "let used = last & self.sequence_mask;",
        )],
        against: Servers { binary: "faults", tests: "row_14" },
    },
    Mutant {
        name: "a clock that has gone back is waited for where the policy is to refuse",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "ClockRegression::Error if regressed => Outcome::Behind(highest),",
            "ClockRegression::Error if regressed => Outcome::Wait(highest),",
        )],
        against: Servers { binary: "status", tests: "refusals" },
    },
    Mutant {
        name: "IDs go on from the last timestamp where the policy is to wait or to refuse",
        edits: &[(
            "crates/snowflake_core/src/policy.rs",
            "(ClockRegression::Wait | ClockRegression::Error, _) if regressed => 0,",
            "(ClockRegression::Wait | ClockRegression::Error, _) if regressed => self.max_borrow,",
        )],
        against: Servers { binary: "faults", tests: "row_14" },
    },
    Mutant {
        name: "a mark between two ticks lets the tick come again in which it lies",
        edits: &[(
            "crates/snowflake_core/src/layout.rs",
            "at.saturating_sub(self.epoch).div_ceil(self.tick_ms as u64)",
            "at.saturating_sub(self.epoch) / self.tick_ms as u64",
        )],
        against: Core,
    },
    Mutant {
        name: "a server without a mark begins no further ahead than a short tick and full ticks that wait need",
        edits: &[(
            "crates/snowflake_core/src/reservation.rs",
            "least_start_margin_ms.max(restarted_ms).max(allowed_ms)",
            "least_start_margin_ms.max(restarted_ms).max(allowed_ms & 0)",
        )],
        against: Core,
    },
    Mutant {
        name: "IDs of 64 bits are issued",
        edits: &[("crates/snowflake_core/src/layout/series.rs", "if self.bits() > 63 {", "if false {")],
        against: Core,
    },
    Mutant {
        name: "IDs that do not sort by time are issued",
        edits: &[("crates/snowflake_core/src/layout/series.rs", "if !self.sorts_by_time() {", "if false {")],
        against: Core,
    },
    Mutant {
        name: "an advance goes by a timestamp that was cut off",
        edits: &[("src/functions/admin.rs", "(id <= layout.max_id()).then(", "(id > 0).then(")],
        against: Servers { binary: "layouts", tests: "advance" },
    },
    Mutant {
        name: "every layout is taken for the one that was read first",
        edits: &[("src/config/layout_cache.rs", "**kept == *text", "!kept.is_empty()")],
        against: Servers { binary: "layouts", tests: "decode" },
    },
    Mutant {
        name: "two callers make partitions of a table at once",
        edits: &[(
            "src/functions/partitions/parent.rs",
            "open(table, pg_sys::ShareUpdateExclusiveLock)",
            "open(table, pg_sys::AccessShareLock)",
        )],
        against: Servers { binary: "partitions", tests: "callers_at_once" },
    },
    Mutant {
        name: "partitions are made with a lock against writers",
        edits: &[(
            "src/functions/partitions/parent.rs",
            "open(table, pg_sys::ShareUpdateExclusiveLock)",
            "open(table, pg_sys::ShareRowExclusiveLock)",
        )],
        against: Servers { binary: "partitions", tests: "neither_readers_nor_writers" },
    },
    Mutant {
        name: "anybody may lock a table by asking for partitions",
        edits: &[(
            "src/functions/partitions/parent.rs",
            "        must_be_owner(&open(table, pg_sys::AccessShareLock));\n",
            "",
        )],
        against: Servers { binary: "partitions", tests: "partitions_belong" },
    },
    Mutant {
        name: "partitions are made as who calls, with all the rights of a superuser",
        edits: &[("src/functions/partitions/parent.rs", "        let _owner = AsOwner::begin(self.owner);\n", "")],
        against: Servers { binary: "partitions", tests: "owner" },
    },
    Mutant {
        name: "the owner's code may have something run later as who had partitions made",
        edits: &[(
            "src/functions/partitions/parent.rs",
            "context | pg_sys::SECURITY_RESTRICTED_OPERATION.cast_signed()",
            "context",
        )],
        against: Servers { binary: "partitions", tests: "owner" },
    },
];
