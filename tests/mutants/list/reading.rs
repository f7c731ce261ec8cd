//! In the horizon, and in what reads by ID.

use super::Against::{Core, Loom, Servers};
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the horizon reads the entries before the state",
        edits: &[(
            "crates/snowflake_core/src/horizon.rs",
            "        let end = generator.last_position() + 1;\n        let found = least_entered()?",
            "        let least = least_entered()?;\n        let end = generator.last_position() + 1;\n        let found = least",
        )],
        against: Loom { tests: "horizon::" },
    },
    Mutant {
        name: "a reader of the state does not see what happened before",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "        self.state.load(Ordering::Acquire)\n",
            "        self.state.load(Ordering::Relaxed)\n",
        )],
        against: Loom { tests: "horizon::" },
    },
    Mutant {
        name: "a reader of a cleared entry does not see the rows",
        edits: &[(
            "crates/snowflake_core/src/horizon.rs",
            "self.0.store(NONE, Ordering::Release);",
            "self.0.store(NONE, Ordering::Relaxed);",
        )],
        against: Loom { tests: "horizon::" },
    },
    Mutant {
        name: "a transaction enters after it has drawn its first ID",
        edits: &[(
            "src/issue/issuer.rs",
            "        let entering = writer::enter(self.generator);\n        let span = take()?;\n",
            "        let span = take()?;\n        let entering = writer::enter(self.generator);\n",
        )],
        against: Servers { binary: "reading", tests: "holders" },
    },
    Mutant {
        name: "a transaction leaves before its rows are visible",
        edits: &[(
            "src/issue/writer.rs",
            "XACT_EVENT_COMMIT | XACT_EVENT_ABORT => leave(),",
            "XACT_EVENT_PRE_COMMIT | XACT_EVENT_ABORT => leave(),",
        )],
        against: Servers { binary: "reading", tests: "traffic" },
    },
    Mutant {
        name: "a prepared transaction holds nothing back",
        edits: &[("src/issue/writer.rs", "        prepared.first.copy(&own.first);\n", "")],
        against: Servers { binary: "reading", tests: "a_prepared_transaction" },
    },
    Mutant {
        name: "a transaction that was prepared before the start holds nothing back",
        edits: &[("src/issue/horizon.rs", "if prepared_before.is_empty() {", "if prepared_before.len() < 99 {")],
        against: Servers { binary: "reading", tests: "there_is_no_horizon" },
    },
    Mutant {
        name: "a parallel worker enters a transaction of its own",
        edits: &[("src/issue/writer.rs", "leader().unwrap_or_else(own)", "leader().map_or_else(own, |_| own())")],
        against: Servers { binary: "reading", tests: "ids_of_parallel" },
    },
    Mutant {
        name: "a poll reads in the snapshot of its caller",
        edits: &[("src/functions/poll.rs", "must_return_tuples: true,", "must_return_tuples: true, read_only: true,")],
        against: Servers { binary: "reading", tests: "a_poll_sees" },
    },
    Mutant {
        name: "the horizon stays in a tick that has passed",
        edits: &[(
            "src/issue/horizon.rs",
            "        issuer::close_past_tick()?;\n",
            "        let _ = issuer::close_past_tick;\n",
        )],
        against: Servers { binary: "tags", tests: "a_reader_by_id" },
    },
    Mutant {
        name: "a tag is put where the sequence is",
        edits: &[(
            "crates/snowflake_core/src/layout/parts.rs",
            "self.place(FieldKind::Tag, tag)",
            "self.place(FieldKind::Sequence, tag)",
        )],
        against: Core,
    },
    Mutant {
        name: "a query may read a table beside the horizon",
        edits: &[(
            "src/functions/horizon.rs",
            "        if reads_a_table(planned) {",
            "        if false && reads_a_table(planned) {",
        )],
        against: Servers { binary: "reading", tests: "a_query_that_reads" },
    },
];
