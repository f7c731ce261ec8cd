//! Checks that keep leased workers apart.

use super::Against::Servers;
use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a fleet without I3",
        edits: &[
            (
                "src/durable/mark.rs",
                "layout.time_of(layout.first_tick_from(mark)).min(lease::limit(layout))",
                "layout.time_of(layout.first_tick_from(mark))",
            ),
            ("src/durable/mark.rs", "mark.map(|mark| mark.min(lease::limit(layout)))", "mark"),
        ],
        against: Servers { binary: "faults", tests: "row_46" },
    },
    Mutant {
        name: "the mark passes what the registry has granted",
        edits: &[
            (
                "src/durable/mark.rs",
                "layout.time_of(layout.first_tick_from(mark)).min(lease::limit(layout))",
                "layout.time_of(layout.first_tick_from(mark))",
            ),
            ("src/durable/mark.rs", "mark.map(|mark| mark.min(lease::limit(layout)))", "mark"),
        ],
        against: Servers { binary: "registry", tests: "a_server_issues_to_the_end" },
    },
    Mutant {
        name: "the next holder of a worker begins at its clock",
        edits: &[("src/registry/client.rs", "LeaseStart::At(begins), until", "LeaseStart::At(begins - begins), until")],
        against: Servers { binary: "registry", tests: "the_next_holder" },
    },
    Mutant {
        name: "the registry forgets where the last lease ended",
        edits: &[(
            "sql/snowflake_registry.sql",
            "SELECT l.worker_id, greatest(l.granted_until, here.not_before) INTO worker, begins",
            "SELECT l.worker_id, 0 INTO worker, begins",
        )],
        against: Servers { binary: "registry", tests: "the_next_holder" },
    },
    Mutant {
        name: "the registry gives away a worker before its lease has ended",
        edits: &[(
            "sql/snowflake_registry.sql",
            "AND l.rule = 'free'\n                AND l.granted_until <= now_ms\n",
            "AND l.rule = 'free'\n",
        )],
        against: Servers { binary: "registry", tests: "where_all_workers" },
    },
    Mutant {
        name: "a lease is used on another machine",
        edits: &[(
            "src/registry/client.rs",
            "Some(lease) if Some(lease.place) == place && self.is_wanted(&lease) => {",
            "Some(lease) if self.is_wanted(&lease) => {",
        )],
        against: Servers { binary: "registry", tests: "a_machine_that_is_booted" },
    },
    Mutant {
        name: "a lease is renewed for any token",
        edits: &[(
            "sql/snowflake_registry.sql",
            "AND held_until >= found_lease.begins_at AND found_lease.token = ANY (presented);",
            "AND held_until >= found_lease.begins_at;",
        )],
        against: Servers { binary: "registry", tests: "put_back_to_before" },
    },
    Mutant {
        name: "a released lease is used again without the registry",
        edits: &[(
            "src/registry/client/farewell.rs",
            "lease_file::write(&directory, &lease).is_ok()",
            "lease_file::write(&directory, &self.lease.unwrap_or(lease)).is_ok()",
        )],
        against: Servers { binary: "registry", tests: "restarts_while_the_registry" },
    },
    Mutant {
        name: "a registry that was restored gives workers to new servers",
        edits: &[(
            "sql/snowflake_registry.sql",
            "IF worker IS NULL AND configured IS NULL AND here.not_before <= now_ms THEN\n        SELECT count(*)",
            "IF worker IS NULL AND configured IS NULL THEN\n        SELECT count(*)",
        )],
        against: Servers { binary: "registry", tests: "a_registry" },
    },
    Mutant {
        name: "a restored registry renews leases that had ended before",
        edits: &[(
            "sql/snowflake_registry.sql",
            "is_beyond := here.restored_at = 0 OR held_until > here.restored_at + least(60000, lease_ms / 10);",
            "is_beyond := true;",
        )],
        against: Servers { binary: "registry", tests: "a_lease_that_had_ended" },
    },
    Mutant {
        name: "a restored registry believes every server",
        edits: &[(
            "sql/snowflake_registry.sql",
            "\n            AND held_receipt = snowflake_registry.receipt_for(datacenter, worker, presented[1], held_until, seen_revision);",
            ";",
        )],
        against: Servers { binary: "registry", tests: "a_restored_registry_believes" },
    },
    Mutant {
        name: "nobody notices that the registry was put back in place",
        edits: &[(
            "sql/snowflake_registry.sql",
            "    IF here.system_identifier = own_system AND here.timeline = own_line\n        AND coalesce(seen_revision, 0) <= snowflake_registry.last_revision()\n    THEN\n        RETURN here;\n    END IF;\n    SELECT",
            "    IF here.system_identifier = own_system AND here.timeline = own_line\n    THEN\n        RETURN here;\n    END IF;\n    SELECT",
        )],
        against: Servers { binary: "registry", tests: "a_registry_whose_volume" },
    },
    Mutant {
        name: "a running server changes its worker",
        edits: &[(
            "src/registry/client.rs",
            "        if shared().lease.worker().is_some() {",
            "        if shared().lease.worker().is_none() {",
        )],
        against: Servers { binary: "registry", tests: "never_changes_its_worker" },
    },
    Mutant {
        name: "a clock that is off is not compared",
        edits: &[("src/registry/client.rs", "<= allowed {", "<= u64::MAX.max(allowed) {")],
        against: Servers { binary: "registry", tests: "with_clock_offset_error" },
    },
    Mutant {
        name: "every role learns what the registry has said",
        edits: &[("src/errors.rs", "            Self::Lease(error) => Self::Lease(error.without_failure()),\n", "")],
        against: Servers { binary: "registry", tests: "an_ordinary_role" },
    },
    Mutant {
        name: "every role can see the connection string of the registry",
        edits: &[("src/config/gucs/registry.rs", "GucFlags::SUPERUSER_ONLY", "GucFlags::default()")],
        against: Servers { binary: "registry", tests: "an_ordinary_role" },
    },
    Mutant {
        name: "a password can be in the connection string",
        edits: &[(
            "src/config/gucs/registry.rs",
            "parameters.iter().any(|(name, _)| name == \"password\" || name == \"sslpassword\")",
            "parameters.is_empty()",
        )],
        against: Servers { binary: "registry", tests: "a_password_in" },
    },
];
