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
                "RETURN CASE WHEN pg_try_advisory_lock(1936617329, 1) THEN LEAST(\n        CASE WHEN ms NOT",
                "RETURN CASE WHEN true THEN LEAST(\n        CASE WHEN ms NOT",
            ),
            (
                SCRIPT,
                "        CASE WHEN pg_advisory_unlock(1936617329, 1) THEN NULL::bigint END) END;\nCOMMENT",
                "        NULL) END;\nCOMMENT",
            ),
        ],
        against: Servers { tests: "hosted:: two_hundred | faults::row_50" },
    },
    Mutant {
        name: "a hosted database goes back with its clock",
        edits: &[(
            SCRIPT,
            "WHEN pg_sequence_last_value('snowflake_position'::regclass) >= snowflake_tick(ms)\n",
            "WHEN pg_sequence_last_value('snowflake_position'::regclass) BETWEEN snowflake_tick(ms) AND snowflake_tick(ms) + 4095\n",
        )],
        against: Servers { tests: "faults::row_48 | hosted:: ascend" },
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
        edits: &[(SCRIPT, "    PERFORM snowflake_must_own_database();\n    IF ms NOT", "    IF ms NOT")],
        against: Servers { tests: "hosted:: restored_dump" },
    },
    Mutant {
        name: "a hosted database loses its worker in pg_upgrade",
        edits: &[(SCRIPT, "AND (owned.inserted_by::xid::text <> owned.xmin OR", "AND (true OR")],
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
        edits: &[(SCRIPT, "::regclass), snowflake_tick(ms + 2000))),", "::regclass), snowflake_tick(ms))),")],
        against: Servers { tests: "hosted:: two_seconds_ahead | hosted::ahead" },
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
    Mutant {
        name: "anybody can take the position of a hosted database back",
        edits: &[(SCRIPT, "= 'off' AND count BETWEEN 1 AND 4294967295\n", "= 'off'\n")],
        against: Servers { tests: "hosted:: take_the_position_back" },
    },
    Mutant {
        name: "open sessions of a hosted database keep the worker that was given away",
        edits: &[
            (
                SCRIPT,
                "snowflake_worker_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN %s",
                "snowflake_worker_id() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %s",
            ),
            (
                SCRIPT,
                "snowflake_datacenter_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN %s",
                "snowflake_datacenter_id() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %s",
            ),
        ],
        against: Servers { tests: "hosted:: go_on_with_the_new_worker" },
    },
    Mutant {
        name: "default privileges give away the position of a hosted database",
        edits: &[(SCRIPT, "        EXECUTE object.command;\n", "        NULL;\n")],
        against: Servers { tests: "hosted:: default_privileges" },
    },
    Mutant {
        name: "a hosted database that gets a worker begins where it was, whatever another one has issued",
        edits: &[(SCRIPT, "PERFORM snowflake_raise(snowflake_tick(", "PERFORM (snowflake_tick(")],
        against: Servers { tests: "hosted::ahead" },
    },
    Mutant {
        name: "a hosted database is made in a schema of others",
        edits: &[(SCRIPT, "IF unsafe.reason IS NOT NULL THEN", "IF false THEN")],
        against: Servers { tests: "hosted::rights" },
    },
    Mutant {
        name: "an ID of a hosted database has a layout that was set before it was taken",
        edits: &[(
            SCRIPT,
            "    last := snowflake_take(count::bigint);\n    IF snowflake_layout() <> layout THEN",
            "    last := snowflake_take(count::bigint);\n    IF false THEN",
        )],
        against: Servers { tests: "hosted:: set_while" },
    },
    Mutant {
        name: "an error in a parallel query leaves the lock of a hosted database behind",
        edits: &[(
            SCRIPT,
            "THEN set_config('hosted_snowflake.call', '', true) IS NOT NULL AND pg_current_xact_id()",
            "THEN pg_current_xact_id()",
        )],
        against: Servers { tests: "hosted:: wrongly_safe" },
    },
];
