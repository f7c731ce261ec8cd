//! In the horizon, and in what reads by ID.

use super::Against::{Core, Loom, Servers};
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the horizon reads the entries before the state",
        edits: &[(
            "crates/snowflake_core/src/issue/horizon.rs",
            "        let last = generator.last_position();\n        generator.close_history(last);\n        let found = least_entered()?",
            "        let least = least_entered()?;\n        let last = generator.last_position();\n        generator.close_history(last);\n        let found = least",
        )],
        against: Loom { tests: "horizon::" },
    },
    Mutant {
        name: "a reader of the state does not see what happened before",
        edits: &[(
            "crates/snowflake_core/src/issue/generator.rs",
            "        self.state.load(Ordering::Acquire)\n",
            "        self.state.load(Ordering::Relaxed)\n",
        )],
        against: Loom { tests: "horizon::" },
    },
    Mutant {
        name: "a reader of a cleared entry does not see the rows",
        edits: &[(
            "crates/snowflake_core/src/issue/horizon.rs",
            "self.0.store(NONE, Ordering::Release);",
            "self.0.store(NONE, Ordering::Relaxed);",
        )],
        against: Loom { tests: "horizon::" },
    },
    Mutant {
        name: "a reader of the horizon leaves the history below it open",
        edits: &[("crates/snowflake_core/src/issue/horizon.rs", "        generator.close_history(last);\n", "")],
        against: Loom { tests: "horizon::no_row_of_the_history" },
    },
    Mutant {
        name: "a reader that closes the history does not see who has drawn from it",
        edits: &[(
            "crates/snowflake_core/src/issue/history.rs",
            "self.floor.fetch_max(0, Ordering::AcqRel)",
            "self.floor()",
        )],
        against: Loom { tests: "horizon::no_row_of_the_history" },
    },
    Mutant {
        name: "a transaction does not enter what it may draw from the history",
        edits: &[(
            "src/issue/issuer.rs",
            "                writer::lower(least);\n",
            "                let _ = least;\n",
        )],
        against: Servers { tests: "reading:: a_transaction_that_has_drawn" },
    },
    Mutant {
        name: "a transaction enters after it has drawn its first ID",
        edits: &[(
            "src/issue/issuer.rs",
            "        let entering = writer::enter(self.generator);\n        let span = take()?;\n",
            "        let span = take()?;\n        let entering = writer::enter(self.generator);\n",
        )],
        against: Servers { tests: "reading:: holders" },
    },
    Mutant {
        name: "a transaction leaves before its rows are visible",
        edits: &[(
            "src/issue/writer.rs",
            "XACT_EVENT_COMMIT | XACT_EVENT_ABORT => leave(),",
            "XACT_EVENT_PRE_COMMIT | XACT_EVENT_ABORT => leave(),",
        )],
        against: Servers { tests: "faults:: row_47" },
    },
    Mutant {
        name: "a prepared transaction holds nothing back",
        edits: &[("src/issue/writer.rs", "        prepared.first.copy(&own.first);\n", "")],
        against: Servers { tests: "reading:: a_prepared_transaction" },
    },
    Mutant {
        name: "a transaction that was prepared before the start holds nothing back",
        edits: &[("src/issue/horizon.rs", "if prepared_before.is_empty() {", "if prepared_before.len() < 99 {")],
        against: Servers { tests: "reading:: there_is_no_horizon" },
    },
    Mutant {
        name: "a parallel worker enters a transaction of its own",
        edits: &[(
            "src/issue/writer.rs",
            "leader().unwrap_or_else(this_process)",
            "leader().map_or_else(this_process, |_| this_process())",
        )],
        against: Servers { tests: "reading:: ids_of_parallel" },
    },
    Mutant {
        name: "a poll reads in the snapshot of its caller",
        edits: &[("src/functions/poll.rs", "must_return_tuples: true,", "must_return_tuples: true, read_only: true,")],
        against: Servers { tests: "reading:: a_poll_sees" },
    },
    Mutant {
        name: "the horizon stays in a tick that has passed",
        edits: &[(
            "src/issue/horizon.rs",
            "        issuer::close_past_tick()?;\n",
            "        let _ = issuer::close_past_tick;\n",
        )],
        against: Servers { tests: "tags:: a_reader_by_id" },
    },
    Mutant {
        name: "a tag is put where the sequence is",
        edits: &[(
            "crates/snowflake_core/src/id/layout/parts.rs",
            "self.place(FieldKind::Tag, tag)",
            "self.place(FieldKind::Sequence, tag)",
        )],
        against: Core,
    },
    Mutant {
        name: "a query may read a table beside the horizon",
        edits: &[(
            "src/hooks/horizon_support.rs",
            "&& reads_a_table(planned, call.funcid)",
            "&& false && reads_a_table(planned, call.funcid)",
        )],
        against: Servers { tests: "reading:: a_query_that_reads" },
    },
    Mutant {
        name: "a table in another part of the query than the horizon is not seen",
        edits: &[(
            "src/hooks/horizon_support.rs",
            "        level = outer;\n",
            "        let _ = outer;\n        break;\n",
        )],
        against: Servers { tests: "reading:: a_query_that_reads" },
    },
    Mutant {
        name: "a table in a subquery that was planned before is not seen",
        edits: &[("src/hooks/horizon_support.rs", "planned.iter_ptr().map", "planned.iter_ptr().take(0).map")],
        against: Servers { tests: "reading:: a_query_that_reads" },
    },
    Mutant {
        name: "a transaction enters before the generator has started",
        edits: &[("src/issue/issuer.rs", "        self.start()?;\n        let entering", "        let entering")],
        against: Servers { tests: "reading:: a_transaction_from_before" },
    },
    Mutant {
        name: "a poll cuts the rows of its last ID",
        edits: &[("src/functions/poll.rs", "ROWS WITH TIES", "ROWS ONLY")],
        against: Servers { tests: "reading:: a_poll_returns_all" },
    },
    Mutant {
        name: "a poll compares by the operators of search_path",
        edits: &[("src/functions/poll.rs", "OPERATOR(pg_catalog.>) '{}'::pg_catalog.int8", "> '{}'")],
        against: Servers { tests: "reading:: a_poll_compares" },
    },
    Mutant {
        name: "a key is cut to 16 bytes",
        edits: &[(
            "crates/snowflake_core/src/id/encrypt.rs",
            "FF1::new(bytes, RADIX).expect(VALID))),\n            24",
            "FF1::new(bytes, RADIX).expect(VALID))),\n            32 => return Self::new(&bytes[..16]),\n            24",
        )],
        against: Core,
    },
    Mutant {
        name: "a prepared transaction says that it has drawn no ID, whether it has or not",
        edits: &[("src/issue/writer.rs", "    if own.first.get().is_none() {\n", "    {\n")],
        against: Servers { tests: "reading:: there_is_no_horizon_while" },
    },
    Mutant {
        name: "a prepared transaction without an ID holds readers back after a restart",
        edits: &[(
            "src/issue/horizon.rs",
            "        unknown.retain(|id| !without.contains(id));\n",
            "        drop(without);\n",
        )],
        against: Servers { tests: "reading:: there_is_no_horizon_while" },
    },
];
