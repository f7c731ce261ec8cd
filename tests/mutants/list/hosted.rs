//! The functions in plain SQL.

use super::Against::Servers;
use super::Mutant;

const SCRIPT: &str = "sql/snowflake_hosted.sql";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sessions of a hosted database take positions without a lock",
        edits: &[
            (
                SCRIPT,
                "RETURN CASE WHEN pg_try_advisory_lock(1936617329, 1) THEN LEAST(\n        CASE WHEN ms <",
                "RETURN CASE WHEN true THEN LEAST(\n        CASE WHEN ms <",
            ),
            (
                SCRIPT,
                "        CASE WHEN pg_advisory_unlock(1936617329, 1) THEN NULL::bigint END) END;\nCOMMENT",
                "        NULL) END;\nCOMMENT",
            ),
        ],
        against: Servers { tests: "hosted:: two_hundred | hosted:: crashes" },
    },
    Mutant {
        name: "a hosted database goes back with its clock",
        edits: &[(
            SCRIPT,
            "WHEN pg_sequence_last_value('snowflake_position'::regclass) >= snowflake_tick(ms)\n",
            "WHEN pg_sequence_last_value('snowflake_position'::regclass) BETWEEN snowflake_tick(ms) AND snowflake_tick(ms) + 4095\n",
        )],
        against: Servers { tests: "hosted:: crashes | hosted:: ascend" },
    },
    Mutant {
        name: "a hosted database gives IDs of any distance ahead of the clock",
        edits: &[(
            SCRIPT,
            "greatest(pg_sequence_last_value('snowflake_position'::regclass), snowflake_tick(ms) + (",
            "greatest(0, snowflake_tick(ms) + (",
        )],
        against: Servers { tests: "hosted:: set_back" },
    },
    Mutant {
        name: "a copy of a hosted database issues its IDs",
        edits: &[(SCRIPT, "    PERFORM snowflake_must_own_database();\n    -- What can fail", "    -- What can fail")],
        against: Servers { tests: "hosted:: restored_dump" },
    },
    Mutant {
        name: "a hosted database loses its worker in pg_upgrade",
        edits: &[(SCRIPT, " AND owned.inserted_by::xid::text <> owned.xmin", "")],
        against: Servers { tests: "hosted:: pg_upgrade" },
    },
    Mutant {
        name: "an error leaves the lock of a hosted database behind",
        edits: &[(
            SCRIPT,
            "RETURN CASE WHEN current_setting('transaction_read_only') = 'off'",
            "RETURN CASE WHEN true",
        )],
        against: Servers { tests: "hosted:: read" },
    },
    Mutant {
        name: "a server of a hosted database begins where the clock is, whatever a crash has lost",
        edits: &[(SCRIPT, "+ (margin << f.sequence_bits)) * 0", ") * 0")],
        against: Servers { tests: "hosted:: two_seconds_ahead" },
    },
    Mutant {
        name: "a hosted database takes an ID with the names of whoever asks",
        edits: &[(
            SCRIPT,
            "        ms := snowflake_unix_ms();\n        taken := snowflake_try(count, ms, pg_catalog.random());",
            "        ms := floor(snowflake_unix_ms());\n        taken := snowflake_try(count, ms, pg_catalog.random());",
        )],
        against: Servers { tests: "hosted:: no_function_calls" },
    },
];
