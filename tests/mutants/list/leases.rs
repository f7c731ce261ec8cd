//! Checks by which a server keeps within its lease.

use super::Against::{Servers, ServersAndSimulation};
use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a server asks the registry for the worker of its data center without the data center",
        edits: &[(
            "src/registry/client/io.rs",
            "let of = |worker| self.layout.flatten(datacenter, worker);",
            "let of = |worker| self.layout.flatten(datacenter & 0, worker);",
        )],
        against: Servers { tests: "registry:: servers_of_a_data_center" },
    },
    Mutant {
        name: "a server leaves a function to who may create in the database of the registry",
        edits: &[
            ("src/registry/protocol.rs", "pg_catalog.jsonb_build_object", "jsonb_build_object"),
            (
                "src/postgres/remote.rs",
                "        remote.query(c\"SELECT pg_catalog.set_config('search_path', '', false)\", &[], until)?;\n",
                "",
            ),
        ],
        against: Servers { tests: "hostile:: servers_and_people" },
    },
    Mutant {
        name: "the mark passes what the registry has granted",
        edits: &[
            (
                "crates/snowflake_core/src/mark.rs",
                "layout.time_of(layout.first_tick_from(mark)).min(limit)",
                "layout.time_of(layout.first_tick_from(mark))",
            ),
            ("crates/snowflake_core/src/mark/start.rs", "let mark = wanted.min(self.limit()?);", "let mark = wanted;"),
        ],
        against: ServersAndSimulation { tests: "faults:: row_46|registry:: a_server_issues_to_the_end" },
    },
    Mutant {
        name: "the next holder of a worker begins at its clock",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "        io.begin(&lease, start);\n        io.tell(Event::Leased(&lease));",
            "        io.begin(&lease, if start == LeaseStart::At(lease.begins) { LeaseStart::At(0) } else { start });\n        io.tell(Event::Leased(&lease));",
        )],
        against: Servers { tests: "registry:: the_next_holder" },
    },
    Mutant {
        name: "a worker that the registry does not know begins without a margin",
        edits: &[("src/registry/protocol.rs", "{ LeaseStart::First(begins) } else", "{ LeaseStart::At(begins) } else")],
        against: Servers { tests: "registry:: a_copy_with_a_registry" },
    },
    Mutant {
        name: "the token of a renewal is on disk only after the answer",
        edits: &[(
            "crates/snowflake_core/src/registry_client/io.rs",
            "        io.write_lease(&lease)?;\n        Ok(Self(lease))",
            "        if lease.tokens[0] == lease.tokens[1] {\n            io.write_lease(&lease)?;\n        }\n        Ok(Self(lease))",
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
        name: "a server that was refused never asks again",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "        let renewed = self.renew_by(io, &mut session, lease)?;\n",
            "        if self.is_superseded {\n            return Err(io.lost_lease());\n        }\n        let renewed = self.renew_by(io, &mut session, lease)?;\n",
        )],
        against: Servers { tests: "registry:: forbidden_and_allowed" },
    },
    Mutant {
        name: "a release leaves no receipt",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "let _ = io.write_lease(&Lease { tokens: [tokens[1]; 2], granted_until, receipt, revision, ..lowered });",
            "let _ = (granted_until, receipt, revision);",
        )],
        against: Servers { tests: "registry:: while_all_servers_were_stopped" },
    },
    Mutant {
        name: "a server that has lost its worker asks for it again",
        edits: &[("crates/snowflake_core/src/registry_client.rs", "if is_final || must_stop {", "if must_stop {")],
        against: Servers { tests: "registry:: never_gets_its_lease_back" },
    },
    Mutant {
        name: "a release is not above the mark on disk",
        edits: &[(
            "crates/snowflake_core/src/mark/found.rs",
            "own.map(|record| record.mark).or_else",
            "own.map(|record| record.mark / 2).or_else",
        )],
        against: Servers { tests: "registry:: a_registry_client_releases_nothing" },
    },
    Mutant {
        name: "a server whose mark is lost releases all of its lease",
        edits: &[(
            "crates/snowflake_core/src/mark/found.rs",
            "(!has_written).then_some(0)",
            "Some(0).filter(|_| has_written || true)",
        )],
        against: Servers { tests: "registry:: lost_or_damaged_since" },
    },
    Mutant {
        name: "a copy gets the number of its original",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "if wish.worker.is_none() { mark.worker_of_original() }",
            "if wish.worker.is_some() { mark.worker_of_original() }",
        )],
        against: Servers { tests: "registry:: that_joins_a_new_registry" },
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
            "crates/snowflake_core/src/registry_client.rs",
            "found.filter(|lease| Some(lease.place) == place)",
            "found.filter(|_| place.is_some())",
        )],
        against: Servers { tests: "registry:: a_machine_that_is_booted" },
    },
    Mutant {
        name: "a server whose worker was given away goes on to the end of its lease",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "if must_stop && self.lease.is_some() {",
            "if must_stop && self.lease.is_none() {",
        )],
        against: Servers { tests: "registry:: given_away" },
    },
    Mutant {
        name: "a lease is lowered for a registry that does not answer",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "            return io.tell(Event::NotTold(&held));",
            "            let lowered = io.lower_grant(&held).unwrap_or(0);\n            let _ = io.write_lease(&Lease { granted_until: lowered, receipt: [0; 32], ..*held });\n            return io.tell(Event::NotTold(&held));",
        )],
        against: Servers { tests: "registry:: restarted_before_it_has_noticed" },
    },
    Mutant {
        name: "a released lease is used again without the registry",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "if io.write_lease(&lowered).is_err() {",
            "if io.write_lease(&held).is_err() {",
        )],
        against: Servers { tests: "registry:: does_not_hear_whether" },
    },
    Mutant {
        name: "a running server changes its worker",
        edits: &[(
            "crates/snowflake_core/src/registry_client.rs",
            "if let Some(worker) = io.worker() {",
            "if let Some(worker) = io.worker().filter(|_| false) {",
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
        against: Servers { tests: "registry:: with_clock_offset_action_error" },
    },
    Mutant {
        name: "every role learns what the registry has said",
        edits: &[("src/errors.rs", "            Self::Lease(error) => Self::Lease(error.without_failure()),\n", "")],
        against: Servers { tests: "registry:: an_ordinary_role" },
    },
    Mutant {
        name: "every role can see the connection string of the registry",
        edits: &[("src/config/gucs/registry.rs", "flags: GUC_SUPERUSER_ONLY", "flags: GUC_SUPERUSER_ONLY * 0")],
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
