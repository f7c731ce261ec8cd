//! In the durable mark, the trusted clock, shared memory and what issues IDs.

use super::Against::{Core, Servers};
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a server keeps its mark in the words of its own layout",
        edits: &[("src/worker.rs", "Ok(layout_in_force()?.flat())", "layout_in_force()")],
        against: Servers { tests: "migration:: without_a_person" },
    },
    Mutant {
        name: "the layout does not go to WAL",
        edits: &[(
            "crates/snowflake_core/src/mark/wal_page.rs",
            "        self.layout = Some(layout);\n",
            "        let _ = layout;\n",
        )],
        against: Servers { tests: "migration:: a_promoted_standby" },
    },
    Mutant {
        name: "the layout in WAL is not looked at",
        edits: &[(
            "crates/snowflake_core/src/mark/start_table.rs",
            ".filter(|&layout| layout != own.layout)",
            ".filter(|&layout| layout != own.layout && layout == own.layout)",
        )],
        against: Servers { tests: "migration:: a_promoted_standby" },
    },
    Mutant {
        name: "the mark is published before it is on disk",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "        self.persist(found.as_ref(), record)?;\n        self.publish(needed(), now, mark);\n",
            "        self.publish(needed(), now, mark);\n        self.persist(found.as_ref(), record)?;\n",
        )],
        against: Servers { tests: "faults:: row_05" },
    },
    Mutant {
        name: "the mark is published although no standby has acknowledged it",
        edits: &[("src/durable/wal.rs", "if unsafe { pg_sys::ProcDiePending } != 0 {", "if false {")],
        against: Servers { tests: "faults:: row_28" },
    },
    Mutant {
        name: "a want of the mark outlives the call that was cancelled",
        edits: &[("src/durable/request.rs", "shared().wanted.clear(wanted);", "let _ = wanted;")],
        against: Servers { tests: "faults:: row_28" },
    },
    Mutant {
        name: "the keeper does not look again at what is wanted when WAL has the mark",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "        let mark = mark.min(self.mark_for(needed(), now)?);\n",
            "",
        )],
        against: Servers { tests: "faults:: row_28" },
    },
    Mutant {
        name: "the file is not flushed",
        edits: &[("src/durable/state_file.rs", "file.sync_data().during(\"fsync file\", &path)?;", "")],
        against: Servers { tests: "faults:: row_05" },
    },
    Mutant {
        name: "a new file is not flushed",
        edits: &[("src/durable/replace.rs", "file.sync_all().during(\"fsync file\", &temporary)", "Ok(())")],
        against: Servers { tests: "faults:: row_05" },
    },
    Mutant {
        name: "a mark is written over the one before it",
        edits: &[(
            "crates/snowflake_core/src/mark/state_file.rs",
            "if revision.is_multiple_of(2) { 0 } else { 4096 }",
            "if revision == 0 { 4096 } else { 0 }",
        )],
        against: Servers { tests: "faults:: row_42" },
    },
    Mutant {
        name: "the directory is not flushed",
        edits: &[(
            "src/durable/replace.rs",
            "match rustix::fs::fsync(self.directory) {",
            "match Ok::<(), Errno>(()) {",
        )],
        against: Servers { tests: "faults:: row_05" },
    },
    Mutant {
        name: "every process that ends lowers the mark",
        edits: &[
            (
                "src/durable/shutdown.rs",
                "!= pg_sys::PostmasterPid } {\n        return;\n    }\n    if code == 0 {",
                "< 0 } {\n        return;\n    }\n    if code >= 0 {",
            ),
            (
                "src/issue/issuer.rs",
                "            found => found?,\n        };\n",
                "            found => found?,\n        };\n        crate::durable::shutdown::prepare();\n",
            ),
        ],
        against: Servers { tests: "faults:: row_03" },
    },
    Mutant {
        name: "the mark passes the end of the layout",
        edits: &[
            (
                "crates/snowflake_core/src/mark.rs",
                "let mark = layout.time_of(layout.first_tick_from(mark)).min",
                "let mark = mark.min",
            ),
            (
                "crates/snowflake_core/src/server/lease.rs",
                "Err(TimeError::AfterEnd { .. }) => layout.end(),",
                "Err(TimeError::AfterEnd { .. }) => usable_until,",
            ),
        ],
        against: Servers { tests: "layouts:: the_mark_never_passes" },
    },
    Mutant {
        name: "a damaged state file counts as a missing one",
        edits: &[(
            "src/durable/state_file.rs",
            "Err(damage) => Err(StateFileError::Damaged { path, damage }),",
            "Err(_) => Ok(None),",
        )],
        against: Servers { tests: "faults:: row_07" },
    },
    Mutant {
        name: "a start without a mark does not wait out its start margin",
        edits: &[(
            "crates/snowflake_core/src/mark/start.rs",
            "        if self.is_pending(&plan) {",
            "        if false {",
        )],
        against: Servers { tests: "faults:: row_07" },
    },
    Mutant {
        name: "the generator starts before its first mark is on disk",
        edits: &[(
            "crates/snowflake_core/src/mark/start.rs",
            "let written = self.persist_first(found.as_ref(), mark, own, others, last_life)?;",
            "let _ = (found, others, last_life);\n        let written = own.directory;",
        )],
        against: Servers { tests: "state_directory::" },
    },
    Mutant {
        name: "a directory that the first write has copied up is another one",
        edits: &[(
            "src/durable/state_file.rs",
            "let directory = self.inode()?;",
            "let directory = record.identity.directory;",
        )],
        against: Servers { tests: "faults:: row_41" },
    },
    Mutant {
        name: "whatever the clock shows after a crash of a backend is trusted",
        edits: &[(
            "src/trusted_clock.rs",
            "ForwardJumpGuard::new(offset().load(Ordering::Relaxed), 0)",
            "ForwardJumpGuard::new(clock::microseconds(clock::since_1970()), clock::microseconds(clock::since_boot()))",
        )],
        against: Servers { tests: "faults:: row_11" },
    },
    Mutant {
        name: "a state directory that was swapped is not noticed",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "if directory.same_inode(&self.state.directory()) {",
            "if directory.same_inode(&self.state.directory()) || true {",
        )],
        against: Servers { tests: "state_directory:: a_state_directory_that_is_swapped_under" },
    },
    Mutant {
        name: "another server's mark is replaced",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "if is_the_last { Ok(Some(record)) } else",
            "if is_the_last || true { Ok(Some(record)) } else",
        )],
        against: Servers { tests: "one_writer:: of_two_servers_without_a_lock" },
    },
    Mutant {
        name: "who does not get the lock of the mark releases it",
        edits: &[("src/shared/mark_lock.rs", ".then(|| MarkLock(()))", ".then_some(MarkLock(()))")],
        against: Servers { tests: "keeper:: sleeps" },
    },
    Mutant {
        name: "a state directory is not locked",
        edits: &[(
            "src/durable/directory_lock.rs",
            "flock(opened.handle(), FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)",
            "true",
        )],
        against: Servers { tests: "one_writer:: a_state_directory_is_for_one_server" },
    },
    Mutant {
        name: "a server that is refused keeps the lock",
        edits: &[("src/durable/start.rs", ".inspect_err(|_| let_others_lock())", "")],
        against: Servers { tests: "one_writer:: a_server_that_may_not_begin" },
    },
    Mutant {
        name: "a data directory does not remember its last life",
        edits: &[("src/durable/life_file.rs", "Ok(life::decode(&bytes, ", "Ok(life::decode(&bytes[1..], ")],
        against: Servers { tests: "state_directory:: a_state_directory_that_is_away" },
    },
    Mutant {
        name: "a state directory that was exchanged is not noticed",
        edits: &[(
            "crates/snowflake_core/src/mark/life.rs",
            "let elsewhere = !last_directory.same_inode(&state_directory);",
            "let elsewhere = !last_directory.same_inode(&last_directory);",
        )],
        against: Servers { tests: "state_directory:: a_mark_in_the_data_directory" },
    },
    Mutant {
        name: "all workers have one mark in WAL",
        edits: &[(
            "crates/snowflake_core/src/mark/wal_page.rs",
            "mark: entry.filter(|&mark| mark != UNKNOWN)",
            "mark: self.marks.values().copied().max().filter(|_| worker < 1 << 40)",
        )],
        against: Core,
    },
    Mutant {
        name: "a shutdown lowers another server's mark",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "if let Some(found) = self.own_record()?",
            "if let Some(found) = self.storage.read_record()?",
        )],
        against: Servers { tests: "one_writer:: a_server_that_stops" },
    },
    Mutant {
        name: "a standby may start the generator",
        edits: &[("src/durable/start.rs", "if unsafe { pg_sys::RecoveryInProgress() } {", "if false {")],
        against: Servers { tests: "faults:: row_16" },
    },
    Mutant {
        name: "a promoted standby does not look for the mark in WAL",
        edits: &[("src/durable/wal.rs", "page()?.of(worker))", "page()?.of(worker + 1))")],
        against: Servers { tests: "faults:: row_17" },
    },
    Mutant {
        name: "a standby is never told that it has its primary's worker",
        edits: &[("src/durable/identity.rs", "&& !identity.directory.same_inode(&here)", "&& false")],
        against: Servers { tests: "startup_log:: a_standby" },
    },
    Mutant {
        name: "a former primary is taken for a copy of itself",
        edits: &[("src/durable/identity.rs", "&& !identity.directory.same_inode(&here)", "")],
        against: Servers { tests: "startup_log:: a_standby" },
    },
    Mutant {
        name: "a client gets backtraces of Rust's",
        edits: &[("src/lib.rs", "    errors::forbid_backtraces();\n", "")],
        against: Servers { tests: "refusals:: no_client" },
    },
    Mutant {
        name: "the planner does not see the layout",
        edits: &[("src/lib.rs", "        planner::layout_constant::watch();\n", "")],
        against: Servers { tests: "planner:: a_range" },
    },
    Mutant {
        name: "a call that waits for the clock cannot be cancelled",
        edits: &[(
            "src/postgres/sleep.rs",
            "        on_latch(Some(time.min(LONG)), WaitEvent::Clock);\n    }\n    pgrx::check_for_interrupts!();",
            "        on_latch(Some(time.min(LONG)), WaitEvent::Clock);\n    }",
        )],
        against: Servers { tests: "faults:: row_15_a_call_that_waits_until" },
    },
    Mutant {
        name: "a clock that is accepted is not looked at by the next ID",
        edits: &[("src/trusted_clock.rs", "    shared().generator.shut();\n", "")],
        against: Servers { tests: "faults:: row_11_a_clock_that_is_accepted" },
    },
    Mutant {
        name: "the record is written before the data directory can keep its life",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "        self.storage.prepare_life(life, record.identity.directory)?;\n",
            "",
        )],
        against: Servers { tests: "state_directory:: a_server_that_cannot_write" },
    },
    Mutant {
        name: "marks of other workers are lost with the file",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "OtherMarks::all_at(self.state.others.load(Relaxed))",
            "OtherMarks::default()",
        )],
        against: Servers { tests: "state_directory:: the_marks_of_other_workers" },
    },
    Mutant {
        name: "an extension drops the marks of other workers",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "found.map_or_else(lost, |found| found.others)",
            "found.map_or_else(lost, |_| OtherMarks::default())",
        )],
        against: Servers { tests: "state_directory:: the_marks_of_other_workers" },
    },
    Mutant {
        name: "a server that has stopped leaves the lock to its logging collector",
        edits: &[("src/durable/shutdown.rs", "        directory_lock::release();\n", "")],
        against: Servers { tests: "one_writer:: a_server_that_has_stopped" },
    },
    Mutant {
        name: "an older file in the place of the mark is continued",
        edits: &[("crates/snowflake_core/src/mark.rs", " && record.revision >= self.state.revision.load(Relaxed)", "")],
        against: Servers { tests: "state_directory:: an_older_file" },
    },
    Mutant {
        name: "a directory is used that the server has not locked",
        edits: &[(
            "src/durable/directory_lock.rs",
            "if !same_directory(Some(opened), Some(directory)) {",
            "if false {",
        )],
        against: Servers { tests: "state_directory:: a_state_directory_that_is_swapped_before" },
    },
    Mutant {
        name: "the data directory keeps the inode that the state directory had before it was copied up",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "if !written.same_inode(&record.identity.directory) {",
            "if false {",
        )],
        against: Servers { tests: "faults:: row_41" },
    },
    Mutant {
        name: "a lock of a process in any data directory passes for one in this",
        edits: &[(
            "src/durable/left_over.rs",
            "is_same(&process.join(\"cwd\"), &here)\n            && entries",
            "entries",
        )],
        against: Servers { tests: "one_writer:: a_state_directory_is_for_one" },
    },
    Mutant {
        name: "a process that has outlived a server is not looked for",
        edits: &[("src/durable/left_over.rs", "text.contains(\"FLOCK\")", "text.contains(\"OFDLCK\")")],
        against: Servers { tests: "one_writer:: a_server_is_told_which" },
    },
    Mutant {
        name: "a lock that is taken for a moment is not waited for",
        edits: &[("src/durable/directory_lock.rs", "const PATIENCE: u32 = 100;", "const PATIENCE: u32 = 1;")],
        against: Servers { tests: "one_writer:: a_lock_that_another" },
    },
    Mutant {
        name: "a planned stop forgets what is in WAL",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "if self.goes_through_wal() { state.in_wal.load(Relaxed) } else { 0 }",
            "0",
        )],
        against: Servers { tests: "keeper:: planned" },
    },
    Mutant {
        name: "the mark in WAL stays where it is while lower ones are written",
        edits: &[("crates/snowflake_core/src/mark/wal_page.rs", "highest().saturating_add(1)", "highest()")],
        against: Servers { tests: "faults:: row_44_a_data_directory_that_is_restored_to_when_it" },
    },
    Mutant {
        name: "a server that may not begin keeps the lock on its state directory",
        edits: &[("src/durable/start.rs", ".inspect_err(|_| directory_lock::release())", "")],
        against: Servers { tests: "one_writer:: a_server_that_may_not_begin" },
    },
    Mutant {
        name: "a call that asks the keeper keeps the lock on the state directory",
        edits: &[("src/durable/request.rs", "        start::let_others_lock();\n", "")],
        against: Servers { tests: "one_writer:: a_server_that_may_not_begin" },
    },
    Mutant {
        name: "a mark that is not kept in WAL any more is still believed",
        edits: &[(
            "crates/snowflake_core/src/mark/start.rs",
            "if !self.goes_through_wal() && !self.is_disowned_in_wal(own.worker) {",
            "if !self.goes_through_wal() && !self.is_disowned_in_wal(own.worker) && false {",
        )],
        against: Servers { tests: "faults:: row_17_a_standby_that_has_no_mark" },
    },
    Mutant {
        name: "a refused standby forgets in a restart that it was promoted",
        edits: &[("src/durable/start.rs", "        server.remember_refusal()?;\n", "")],
        against: Servers { tests: "faults:: row_17_a_standby_whose_primary_has_lost" },
    },
    Mutant {
        name: "a file that is not ours is written over",
        edits: &[(
            "src/durable/wal.rs",
            "ok_or(IssueError::OtherWalPage)",
            "or(Some(WalPage::default())).ok_or(IssueError::OtherWalPage)",
        )],
        against: Servers { tests: "health:: a_mark_that_does_not_reach_wal" },
    },
    Mutant {
        name: "a damaged page of marks is one without marks",
        edits: &[("src/durable/wal.rs", "return if is_empty_on_disk() {", "return if true {")],
        against: Servers { tests: "health:: a_damaged_page" },
    },
    Mutant {
        name: "the mark does not go to WAL",
        edits: &[(
            "crates/snowflake_core/src/mark.rs",
            "                let failure = self.write_wal(worker, mark).err();\n                self.storage.tell_of_wal(failure);\n",
            "                let _ = worker;\n",
        )],
        against: Servers { tests: "faults:: row_17" },
    },
    Mutant {
        name: "a start that fails drives the mark in WAL ahead",
        edits: &[(
            "crates/snowflake_core/src/mark/start.rs",
            "if logged > 0 && wal.mark == Some(logged) {",
            "if logged > 0 && wal.mark == Some(found) {",
        )],
        against: Servers { tests: "keeper:: does_not_drive_the_one_in_wal" },
    },
];
