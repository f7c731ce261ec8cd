//! Checks that keep leased workers apart.

use super::Against::{Servers, ServersAndSimulation};
use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a server leaves a function to who may create in the database of the registry",
        edits: &[
            ("src/registry/protocol.rs", "pg_catalog.jsonb_build_object", "jsonb_build_object"),
            (
                "src/remote.rs",
                "        remote.query(c\"SELECT pg_catalog.set_config('search_path', '', false)\", &[], until)?;\n",
                "",
            ),
        ],
        against: Servers { tests: "hostile:: servers_and_people" },
    },
    Mutant {
        name: "a fleet without I3",
        edits: &[
            (
                "crates/snowflake_core/src/mark.rs",
                "layout.time_of(layout.first_tick_from(mark)).min(limit)",
                "layout.time_of(layout.first_tick_from(mark))",
            ),
            ("crates/snowflake_core/src/mark.rs", "Ok(mark.min(self.limit()?))", "Ok(mark)"),
        ],
        against: ServersAndSimulation { tests: "faults:: row_46" },
    },
    Mutant {
        name: "the next holder of a worker begins at its clock",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "        io.begin(&lease, start);\n        io.tell(Event::Leased(&lease));",
            "        io.begin(&lease, if start == LeaseStart::At(lease.begins) { LeaseStart::At(0) } else { start });\n        io.tell(Event::Leased(&lease));",
        )],
        against: Servers { tests: "registry:: the_next_holder" },
    },
    Mutant {
        name: "the registry forgets where the last lease ended",
        edits: &[(
            "sql/snowflake_registry.sql",
            "SELECT greatest(l.granted_until, here.not_before), NOT (l.is_used",
            "SELECT 0, NOT (l.is_used",
        )],
        against: Servers { tests: "registry:: the_next_holder" },
    },
    Mutant {
        name: "the registry gives away a worker before its lease has ended",
        edits: &[(
            "sql/snowflake_registry.sql",
            "            AND l.granted_until <= now_ms AND (l.is_used",
            "            AND (l.is_used",
        )],
        against: Servers { tests: "registry:: where_all_workers" },
    },
    Mutant {
        name: "a lease can be longer than the registry keeps workers back",
        edits: &[(
            "sql/snowflake_registry.sql",
            "RETURN least(greatest(now_ms, server_clock) + lease_ms, now_ms + longest);",
            "RETURN greatest(now_ms, server_clock) + lease_ms;",
        )],
        against: Servers { tests: "registry:: is_never_longer" },
    },
    Mutant {
        name: "the registry believes its own clock alone when leases had ended",
        edits: &[("sql/snowflake_registry.sql", " + greatest(0, this.clock_offset))", " + 0 * this.clock_offset)")],
        against: Servers { tests: "registry:: to_a_clock_that_is_behind" },
    },
    Mutant {
        name: "a worker that the registry does not know begins without a margin",
        edits: &[("src/registry/protocol.rs", "{ LeaseStart::First(begins) } else", "{ LeaseStart::At(begins) } else")],
        against: Servers { tests: "registry:: a_copy_with_a_registry" },
    },
    Mutant {
        name: "the token of a renewal is on disk only after the answer",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "    DurableLease::write(io, Lease { tokens, ..*lease })\n",
            "    Ok(DurableLease(Lease { tokens, ..*lease }))\n",
        )],
        against: Servers { tests: "registry:: before_it_has_the_answer" },
    },
    Mutant {
        name: "a server that was killed before its first mark leases another worker",
        edits: &[(
            "crates/snowflake_core/src/mark/found.rs",
            "            return Some(LeaseStart::First(lease.begins));",
            "            return None;",
        )],
        against: Servers { tests: "registry:: killed_again_and_again" },
    },
    Mutant {
        name: "a call without a token locks the worker",
        edits: &[("sql/snowflake_registry.sql", "        IF pass = 1 THEN\n", "        IF pass = 0 THEN\n")],
        against: Servers { tests: "registry:: holds_nobody_up" },
    },
    Mutant {
        name: "a server that was refused never asks again",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "        let renewed = self.renew_by(io, &mut session, lease)?;\n",
            "        if self.is_superseded {\n            return Err(io.lost_lease());\n        }\n        let renewed = self.renew_by(io, &mut session, lease)?;\n",
        )],
        against: Servers { tests: "registry:: forbidden_and_allowed" },
    },
    Mutant {
        name: "the registry's sequence says what a server can have seen",
        edits: &[(
            "sql/snowflake_registry.sql",
            "    RETURN greatest((SELECT max(l.revision) FROM snowflake_registry.lease l),",
            "    RETURN greatest((SELECT last_value FROM snowflake_registry.revision),",
        )],
        against: Servers { tests: "registry:: to_a_snapshot" },
    },
    Mutant {
        name: "a release leaves no receipt",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "let _ = io.write_lease(&Lease { tokens: [tokens[1]; 2], granted_until, receipt, revision, ..lowered });",
            "let _ = (granted_until, receipt, revision);",
        )],
        against: Servers { tests: "registry:: while_all_servers_were_stopped" },
    },
    Mutant {
        name: "a server that has lost its worker asks for it again",
        edits: &[("crates/snowflake_core/src/lease/client.rs", "if is_final || must_stop {", "if must_stop {")],
        against: Servers { tests: "registry:: never_gets_its_lease_back" },
    },
    Mutant {
        name: "a release is not above the mark on disk",
        edits: &[(
            "src/registry/client/io.rs",
            "mark::open().ok()?.reached().ok()?",
            "mark::open().ok()?.reached().ok()? / 2",
        )],
        against: Servers { tests: "registry:: releases_nothing_below" },
    },
    Mutant {
        name: "a copy gets the number of its original",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "if wish.worker.is_none() { mark.worker_of_original() }",
            "if wish.worker.is_some() { mark.worker_of_original() }",
        )],
        against: Servers { tests: "registry:: that_joins_a_new_registry" },
    },
    Mutant {
        name: "a release of a worker that was never used counts",
        edits: &[(
            "sql/snowflake_registry.sql",
            "is_used = greatest(lowered, this.issued) > l.begins_at, revision",
            "revision",
        )],
        against: Servers { tests: "registry:: that_was_refused_is_refused_again" },
    },
    Mutant {
        name: "the client waits in the middle of a shutdown",
        edits: &[(
            "src/registry/client.rs",
            "                if must_end() {\n                    break;\n                }\n",
            "",
        )],
        against: Servers { tests: "registry:: stops_while_it_asks_again" },
    },
    Mutant {
        name: "a lease is used on another machine",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "found.filter(|lease| Some(lease.place) == place)",
            "found.filter(|_| place.is_some())",
        )],
        against: Servers { tests: "registry:: a_machine_that_is_booted" },
    },
    Mutant {
        name: "a lease is renewed for any token",
        edits: &[(
            "sql/snowflake_registry.sql",
            "RETURN held_until >= row_of.begins_at AND row_of.token = ANY (presented);",
            "RETURN held_until >= row_of.begins_at;",
        )],
        against: Servers { tests: "registry:: put_back_to_before" },
    },
    Mutant {
        name: "a registry that was restored from a dump into its own cluster is not noticed",
        edits: &[(
            "sql/snowflake_registry.sql",
            "        = ((pg_control_system()).system_identifier, snowflake_registry.own_timeline(), snowflake_registry.own_storage(r.xmin))",
            "        = ((pg_control_system()).system_identifier, snowflake_registry.own_timeline(), r.storage)",
        )],
        against: Servers { tests: "registry:: from_a_dump" },
    },
    Mutant {
        name: "rows that are restored into the tables of the registry are not noticed",
        edits: &[(
            "sql/snowflake_registry.sql",
            "pg_relation_filenode('snowflake_registry.lease'), written)",
            "pg_relation_filenode('snowflake_registry.lease'), NULL)",
        )],
        against: Servers { tests: "registry:: from_a_dump" },
    },
    Mutant {
        name: "leases that were deleted are not missed",
        edits: &[("sql/snowflake_registry.sql", "    UPDATE snowflake_registry.registry SET storage = '';\n", "")],
        against: Servers { tests: "registry:: from_a_dump" },
    },
    Mutant {
        name: "a copy of the registry's database is taken for the original",
        edits: &[(
            "sql/snowflake_registry.sql",
            "concat_ws(' ', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),",
            "concat_ws(' ',",
        )],
        against: Servers { tests: "registry:: copy_of_its_database" },
    },
    Mutant {
        name: "a registry that has lost one lease gives other lost ones away",
        edits: &[(
            "sql/snowflake_registry.sql",
            "                    IF found_lease.system_identifier IS DISTINCT FROM this.system THEN\n",
            "                    IF found_lease.system_identifier IS NULL THEN\n",
        )],
        against: Servers { tests: "registry:: given_away" },
    },
    Mutant {
        name: "a registry that has caught up is taken for the one that it was",
        edits: &[(
            "sql/snowflake_registry.sql",
            "greatest(kept_revision, here.reached_revision) THEN",
            "snowflake_registry.last_revision() THEN",
        )],
        against: Servers { tests: "registry:: caught_up" },
    },
    Mutant {
        name: "a registry that has lost a lease believes its receipt, though it has given the worker away",
        edits: &[(
            "sql/snowflake_registry.sql",
            "            AND (row_of.granted_until > this.begins\n",
            "            AND (row_of.granted_until < 0\n",
        )],
        against: Servers { tests: "registry:: given_away" },
    },
    Mutant {
        name: "a server whose worker was given away goes on to the end of its lease",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "if must_stop && self.lease.is_some() {",
            "if must_stop && self.lease.is_none() {",
        )],
        against: Servers { tests: "registry:: given_away" },
    },
    Mutant {
        name: "a lease is lowered for a registry that does not answer",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "            return io.tell(Event::NotTold(&held));",
            "            let lowered = io.lower_grant(&held).unwrap_or(0);\n            let _ = io.write_lease(&Lease { granted_until: lowered, receipt: [0; 32], ..*held });\n            return io.tell(Event::NotTold(&held));",
        )],
        against: Servers { tests: "registry:: restarted_before_it_has_noticed" },
    },
    Mutant {
        name: "a released lease is used again without the registry",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "if io.write_lease(&lowered).is_err() {",
            "if io.write_lease(&held).is_err() {",
        )],
        against: Servers { tests: "registry:: does_not_hear_whether" },
    },
    Mutant {
        name: "the end of a recovery forgets what servers have seen",
        edits: &[
            (
                "sql/snowflake_registry.sql",
                "greatest(kept_revision, here.reached_revision) THEN",
                "greatest(kept_revision, here.restored_revision) THEN",
            ),
            (
                "sql/snowflake_registry.sql",
                "greatest(kept_revision, noted.reached_revision) THEN",
                "greatest(kept_revision, noted.restored_revision) THEN",
            ),
        ],
        against: Servers { tests: "registry:: put_back_while_all_servers" },
    },
    Mutant {
        name: "a registry that was restored gives workers to new servers",
        edits: &[(
            "sql/snowflake_registry.sql",
            "ELSIF worker IS NULL AND here.not_before <= now_ms THEN",
            "ELSIF worker IS NULL THEN",
        )],
        against: Servers { tests: "registry:: a_registry" },
    },
    Mutant {
        name: "a restored registry renews leases that had ended before",
        edits: &[(
            "sql/snowflake_registry.sql",
            "    IF here.restored_at > 0 AND",
            "    IF false AND here.restored_at > 0 AND",
        )],
        against: Servers { tests: "registry:: a_lease_that_had_ended" },
    },
    Mutant {
        name: "a server that was answered since a failover may not ask twice",
        edits: &[(
            "sql/snowflake_registry.sql",
            "seen_revision >= here.restored_revision) IS NOT TRUE",
            "seen_revision = row_of.revision) IS NOT TRUE",
        )],
        against: Servers { tests: "registry:: may_ask_twice" },
    },
    Mutant {
        name: "a row that a late request has written is any server's that knows its token",
        edits: &[(
            "sql/snowflake_registry.sql",
            "AND (is_current AND has_receipt AND seen_revision >= here.restored_revision) IS NOT TRUE",
            "AND is_current IS NOT TRUE",
        )],
        against: Servers { tests: "registry:: a_renewal_that_arrives_after" },
    },
    Mutant {
        name: "a server that was answered since a failover is not known",
        edits: &[(
            "sql/snowflake_registry.sql",
            "AND (is_current AND has_receipt AND seen_revision >= here.restored_revision) IS NOT TRUE",
            "AND true",
        )],
        against: Servers { tests: "registry:: a_server_that_is_restarted_after_a_failover" },
    },
    Mutant {
        name: "a release of one who has lost the worker decides",
        edits: &[
            (
                "sql/snowflake_registry.sql",
                "IS NOT TRUE\n    THEN\n        RETURN;\n    END IF;\n    IF found",
                "IS NULL\n    THEN\n        RETURN;\n    END IF;\n    IF found",
            ),
            (
                "sql/snowflake_registry.sql",
                "IS NOT TRUE\n    THEN\n        RETURN;\n    END IF;\n    ends",
                "IS NULL\n    THEN\n        RETURN;\n    END IF;\n    ends",
            ),
        ],
        against: Servers { tests: "registry:: the_role_of_a_server" },
    },
    Mutant {
        name: "a claim holds up others",
        edits: &[(
            "sql/snowflake_registry.sql",
            "    IF NOT pg_try_advisory_xact_lock(",
            "    IF false AND NOT pg_try_advisory_xact_lock(",
        )],
        against: Servers { tests: "registry:: holds_up_no_other" },
    },
    Mutant {
        name: "default privileges stay in the registry",
        edits: &[(
            "sql/snowflake_registry.sql",
            "current_setting('snowflake_registry.is_new')::boolean\n",
            "NOT current_setting('snowflake_registry.is_new')::boolean\n",
        )],
        against: Servers { tests: "registry:: default_privileges" },
    },
    Mutant {
        name: "a lease is claimed earlier than a restore reckons with",
        edits: &[(
            "sql/snowflake_registry.sql",
            "avoided, least(this.lease_ms, here.longest_lease), here.not_before,",
            "avoided, this.lease_ms, here.not_before,",
        )],
        against: Servers { tests: "registry:: not_claimed_earlier" },
    },
    Mutant {
        name: "a stop that the registry has not heard of costs the lease",
        edits: &[(
            "sql/snowflake_registry.sql",
            "held_until BETWEEN row_of.begins_at AND row_of.granted_until THEN",
            "held_until > row_of.granted_until THEN",
        )],
        against: Servers { tests: "registry:: could_not_tell_of_its_stop" },
    },
    Mutant {
        name: "a restored registry believes every server",
        edits: &[("sql/snowflake_registry.sql", "RETURN has_receipt AND", "RETURN")],
        against: Servers { tests: "registry:: a_restored_registry_believes" },
    },
    Mutant {
        name: "nobody notices that the registry was put back in place",
        edits: &[(
            "sql/snowflake_registry.sql",
            " AND coalesce(seen_revision, 0) <= greatest(kept_revision, here.reached_revision) THEN\n",
            " THEN\n",
        )],
        against: Servers { tests: "registry:: a_registry_whose_volume" },
    },
    Mutant {
        name: "a running server changes its worker",
        edits: &[(
            "crates/snowflake_core/src/lease/client.rs",
            "if let Some(numbers) = io.numbers() {",
            "if let Some(numbers) = io.numbers().filter(|_| false) {",
        )],
        against: Servers { tests: "registry:: never_changes_its_worker" },
    },
    Mutant {
        name: "a clock that is off is not compared",
        edits: &[(
            "src/registry/client/io.rs",
            "saturating_sub(error) > allowed;",
            "saturating_sub(error) > u64::MAX.max(allowed);",
        )],
        against: Servers { tests: "registry:: with_clock_offset_error" },
    },
    Mutant {
        name: "every role learns what the registry has said",
        edits: &[("src/errors.rs", "            Self::Lease(error) => Self::Lease(error.without_failure()),\n", "")],
        against: Servers { tests: "registry:: an_ordinary_role" },
    },
    Mutant {
        name: "every role can see the connection string of the registry",
        edits: &[("src/config/gucs/registry.rs", "GucFlags::SUPERUSER_ONLY", "GucFlags::default()")],
        against: Servers { tests: "registry:: an_ordinary_role" },
    },
    Mutant {
        name: "a password can be in the connection string",
        edits: &[(
            "src/config/gucs/registry.rs",
            "} else if libpq::has_secret(conninfo) {",
            "} else if false && libpq::has_secret(conninfo) {",
        )],
        against: Servers { tests: "registry:: a_password_in" },
    },
];
