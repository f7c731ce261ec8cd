//! Checks by which the registry gives a worker to one server at a time.

use super::Against::Servers;
use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the registry forgets where the last lease ended",
        edits: &[(
            "sql/registry/3_claim.sql",
            "SELECT greatest(l.granted_until, here.not_before), NOT (l.is_used",
            "SELECT 0, NOT (l.is_used",
        )],
        against: Servers { tests: "registry:: the_next_holder" },
    },
    Mutant {
        name: "the registry gives away a worker before its lease has ended",
        edits: &[(
            "sql/registry/3_claim.sql",
            "            AND l.granted_until <= now_ms AND (l.is_used",
            "            AND (l.is_used",
        )],
        against: Servers { tests: "registry:: where_all_workers" },
    },
    Mutant {
        name: "a lease can be longer than the registry keeps workers back",
        edits: &[(
            "sql/registry/3_claim.sql",
            "RETURN least(greatest(now_ms, server_clock) + lease_ms, now_ms + longest);",
            "RETURN greatest(now_ms, server_clock) + lease_ms;",
        )],
        against: Servers { tests: "registry:: is_never_longer" },
    },
    Mutant {
        name: "the registry believes its own clock alone when leases had ended",
        edits: &[("sql/registry/4_renew.sql", " + greatest(0, this.clock_offset))", " + 0 * this.clock_offset)")],
        against: Servers { tests: "registry:: to_a_clock_that_is_behind" },
    },
    Mutant {
        name: "a call without a token locks the worker",
        edits: &[("sql/registry/4_renew.sql", "        IF pass = 1 THEN\n", "        IF pass = 0 THEN\n")],
        against: Servers { tests: "registry:: holds_nobody_up" },
    },
    Mutant {
        name: "the registry's sequence says what a server can have seen",
        edits: &[(
            "sql/registry/2_origin.sql",
            "    RETURN greatest((SELECT max(l.revision) FROM snowflake_registry.lease l),",
            "    RETURN greatest((SELECT last_value FROM snowflake_registry.revision),",
        )],
        against: Servers { tests: "registry:: to_a_snapshot" },
    },
    Mutant {
        name: "a release of a worker that was never used counts",
        edits: &[(
            "sql/registry/4_renew.sql",
            "is_used = greatest(lowered, this.issued) > l.begins_at, revision",
            "revision",
        )],
        against: Servers { tests: "registry:: that_was_refused_is_refused_again" },
    },
    Mutant {
        name: "a lease is renewed for any token",
        edits: &[(
            "sql/registry/4_renew.sql",
            "RETURN held_until >= row_of.begins_at AND row_of.token = ANY (presented);",
            "RETURN held_until >= row_of.begins_at;",
        )],
        against: Servers { tests: "registry:: put_back_to_before" },
    },
    Mutant {
        name: "a registry that was restored from a dump into its own cluster is not noticed",
        edits: &[(
            "sql/registry/2_origin.sql",
            "        = ((pg_control_system()).system_identifier, snowflake_registry.own_timeline(), snowflake_registry.own_storage(r.xmin))",
            "        = ((pg_control_system()).system_identifier, snowflake_registry.own_timeline(), r.storage)",
        )],
        against: Servers { tests: "registry:: from_a_dump" },
    },
    Mutant {
        name: "rows that are restored into the tables of the registry are not noticed",
        edits: &[(
            "sql/registry/2_origin.sql",
            "pg_relation_filenode('snowflake_registry.lease'), written)",
            "pg_relation_filenode('snowflake_registry.lease'), NULL)",
        )],
        against: Servers { tests: "registry:: from_a_dump" },
    },
    Mutant {
        name: "leases that were deleted are not missed",
        edits: &[("sql/registry/1_tables.sql", "    UPDATE snowflake_registry.registry SET storage = '';\n", "")],
        against: Servers { tests: "registry:: from_a_dump" },
    },
    Mutant {
        name: "a copy of the registry's database is taken for the original",
        edits: &[(
            "sql/registry/2_origin.sql",
            "concat_ws(' ', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),",
            "concat_ws(' ',",
        )],
        against: Servers { tests: "registry:: copy_of_its_database" },
    },
    Mutant {
        name: "a registry that has lost one lease gives other lost ones away",
        edits: &[(
            "sql/registry/4_renew.sql",
            "                    IF found_lease.system_identifier IS DISTINCT FROM this.system THEN\n",
            "                    IF found_lease.system_identifier IS NULL THEN\n",
        )],
        against: Servers { tests: "registry:: given_away" },
    },
    Mutant {
        name: "a registry that has caught up is taken for the one that it was",
        edits: &[(
            "sql/registry/2_origin.sql",
            "greatest(kept_revision, here.reached_revision) THEN",
            "snowflake_registry.last_revision() THEN",
        )],
        against: Servers { tests: "registry:: caught_up" },
    },
    Mutant {
        name: "a registry that has lost a lease believes its receipt, though it has given the worker away",
        edits: &[(
            "sql/registry/4_renew.sql",
            "            AND (row_of.granted_until > this.begins\n",
            "            AND (row_of.granted_until < 0\n",
        )],
        against: Servers { tests: "registry:: given_away" },
    },
    Mutant {
        name: "the end of a recovery forgets what servers have seen",
        edits: &[
            (
                "sql/registry/2_origin.sql",
                "greatest(kept_revision, here.reached_revision) THEN",
                "greatest(kept_revision, here.restored_revision) THEN",
            ),
            (
                "sql/registry/2_origin.sql",
                "greatest(kept_revision, noted.reached_revision) THEN",
                "greatest(kept_revision, noted.restored_revision) THEN",
            ),
        ],
        against: Servers { tests: "registry:: put_back_while_all_servers" },
    },
    Mutant {
        name: "a registry that was restored gives workers to new servers",
        edits: &[(
            "sql/registry/3_claim.sql",
            "ELSIF worker IS NULL AND here.not_before <= now_ms THEN",
            "ELSIF worker IS NULL THEN",
        )],
        against: Servers { tests: "registry:: a_registry" },
    },
    Mutant {
        name: "a restored registry renews leases that had ended before",
        edits: &[(
            "sql/registry/4_renew.sql",
            "    IF here.restored_at > 0 AND",
            "    IF false AND here.restored_at > 0 AND",
        )],
        against: Servers { tests: "registry:: a_lease_that_had_ended" },
    },
    Mutant {
        name: "a server that was answered since a failover may not ask twice",
        edits: &[(
            "sql/registry/4_renew.sql",
            "seen_revision >= here.restored_revision) IS NOT TRUE",
            "seen_revision = row_of.revision) IS NOT TRUE",
        )],
        against: Servers { tests: "registry:: may_ask_twice" },
    },
    Mutant {
        name: "a row that a late request has written is any server's that knows its token",
        edits: &[(
            "sql/registry/4_renew.sql",
            "AND (is_current AND has_receipt AND seen_revision >= here.restored_revision) IS NOT TRUE",
            "AND is_current IS NOT TRUE",
        )],
        against: Servers { tests: "registry:: a_renewal_that_arrives_after" },
    },
    Mutant {
        name: "a server that was answered since a failover is not known",
        edits: &[(
            "sql/registry/4_renew.sql",
            "AND (is_current AND has_receipt AND seen_revision >= here.restored_revision) IS NOT TRUE",
            "AND true",
        )],
        against: Servers { tests: "registry:: a_server_that_is_restarted_after_a_failover" },
    },
    Mutant {
        name: "a release of one who has lost the worker decides",
        edits: &[
            (
                "sql/registry/4_renew.sql",
                "IS NOT TRUE\n    THEN\n        RETURN;\n    END IF;\n    IF found",
                "IS NULL\n    THEN\n        RETURN;\n    END IF;\n    IF found",
            ),
            (
                "sql/registry/4_renew.sql",
                "IS NOT TRUE\n    THEN\n        RETURN;\n    END IF;\n    ends",
                "IS NULL\n    THEN\n        RETURN;\n    END IF;\n    ends",
            ),
        ],
        against: Servers { tests: "registry:: the_role_of_a_server" },
    },
    Mutant {
        name: "a claim holds up others",
        edits: &[(
            "sql/registry/3_claim.sql",
            "    IF NOT pg_try_advisory_xact_lock(",
            "    IF false AND NOT pg_try_advisory_xact_lock(",
        )],
        against: Servers { tests: "registry:: holds_up_no_other" },
    },
    Mutant {
        name: "default privileges stay in the registry",
        edits: &[(
            "sql/registry/6_rights.sql",
            "current_setting('snowflake_registry.is_new')::boolean\n",
            "NOT current_setting('snowflake_registry.is_new')::boolean\n",
        )],
        against: Servers { tests: "registry:: default_privileges" },
    },
    Mutant {
        name: "a lease is claimed earlier than a restore reckons with",
        edits: &[(
            "sql/registry/3_claim.sql",
            "avoided, least(this.lease_ms, here.longest_lease), here.not_before,",
            "avoided, this.lease_ms, here.not_before,",
        )],
        against: Servers { tests: "registry:: not_claimed_earlier" },
    },
    Mutant {
        name: "a stop that the registry has not heard of costs the lease",
        edits: &[(
            "sql/registry/4_renew.sql",
            "held_until BETWEEN row_of.begins_at AND row_of.granted_until THEN",
            "held_until > row_of.granted_until THEN",
        )],
        against: Servers { tests: "registry:: could_not_tell_of_its_stop" },
    },
    Mutant {
        name: "a restored registry believes every server",
        edits: &[("sql/registry/4_renew.sql", "RETURN has_receipt AND", "RETURN")],
        against: Servers { tests: "registry:: a_restored_registry_believes" },
    },
    Mutant {
        name: "nobody notices that the registry was put back in place",
        edits: &[(
            "sql/registry/2_origin.sql",
            " AND coalesce(seen_revision, 0) <= greatest(kept_revision, here.reached_revision) THEN\n",
            " THEN\n",
        )],
        against: Servers { tests: "registry:: a_registry_whose_volume" },
    },
];
