//! The functions in plain SQL.

use super::Against::Servers;
use super::Mutant;

const SCRIPT: &str = "sql/snowflake_hosted.sql";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sessions of a hosted database take positions without a lock",
        edits: &[(
            SCRIPT,
            "LOCK TABLE snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;",
            "LOCK TABLE snowflake_lock IN ACCESS SHARE MODE NOWAIT;",
        )],
        against: Servers { tests: "hosted:: two_hundred | faults::row_50" },
    },
    Mutant {
        name: "a call that succeeds keeps the lock of a hosted database until its transaction ends",
        edits: &[(
            SCRIPT,
            "            id := snowflake_id_at(taken);\n            RAISE SQLSTATE 'SN000';",
            "            id := snowflake_id_at(taken);",
        )],
        against: Servers { tests: "hosted::lock without_rights" },
    },
    Mutant {
        name: "a first call looks catalogs up while it has the lock of a hosted database",
        edits: &[(
            SCRIPT,
            "    is_checked pg_catalog.bool := snowflake_is_checked();",
            "    is_checked pg_catalog.bool := snowflake_begin_session() IS NULL;",
        )],
        against: Servers { tests: "hosted::lock" },
    },
    Mutant {
        name: "rows of a dump set a hosted database back",
        edits: &[(
            SCRIPT,
            "        PERFORM snowflake_register(NULL);\n        DELETE FROM snowflake_database;\n        NEW.database := 0;",
            "        RETURN NULL;",
        )],
        against: Servers { tests: "hosted::set_back" },
    },
    Mutant {
        name: "a transaction sets a hosted database back that is rolled back",
        edits: &[(SCRIPT, "AND now() <> statement_timestamp() THEN", "AND false THEN")],
        against: Servers { tests: "hosted::set_back" },
    },
    Mutant {
        name: "a stranger has code of his run by the owner of a hosted database",
        edits: &[
            (SCRIPT, "proname ~ '_(guard_database|", "proname ~ '_("),
            (SCRIPT, "    IF TG_RELID <> 'snowflake_database'::regclass THEN", "    IF false THEN"),
        ],
        against: Servers { tests: "hosted::rights" },
    },
    Mutant {
        name: "who sets a sequence sets a hosted database back",
        edits: &[(
            SCRIPT,
            "RETURN coalesce(CASE WHEN NOT pg_is_in_recovery() THEN",
            "RETURN coalesce(CASE WHEN pg_is_in_recovery() THEN",
        )],
        against: Servers { tests: "hosted::set_back" },
    },
    Mutant {
        name: "a running statement keeps the worker of a hosted database that was given away",
        edits: &[(
            SCRIPT,
            "    LOCK TABLE snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;\n    EXECUTE format('CREATE OR REPLACE FUNCTION snowflake_registration",
            "    EXECUTE format('CREATE OR REPLACE FUNCTION snowflake_registration",
        )],
        against: Servers { tests: "hosted::set_back | hosted::lock" },
    },
    Mutant {
        name: "a hosted database goes back with its clock",
        edits: &[(
            SCRIPT,
            "CASE WHEN snowflake_last() >= snowflake_tick(ms) THEN",
            "CASE WHEN snowflake_last() BETWEEN snowflake_tick(ms) AND snowflake_tick(ms) + 4095 THEN",
        )],
        against: Servers { tests: "faults::row_48 | hosted:: ascend" },
    },
    Mutant {
        name: "a hosted database gives IDs of any distance ahead of the clock",
        edits: &[(
            SCRIPT,
            "OR greatest(snowflake_last(), snowflake_tick(ms) + (",
            "OR greatest(0, snowflake_tick(ms) + (",
        )],
        against: Servers { tests: "hosted:: set_back" },
    },
    Mutant {
        name: "a copy of a hosted database issues its IDs",
        edits: &[(
            SCRIPT,
            "    IF problem.message IS NOT NULL THEN\n        RETURN problem;",
            "    IF false THEN\n        RETURN problem;",
        )],
        against: Servers { tests: "hosted:: restored_dump" },
    },
    Mutant {
        name: "a hosted database loses its worker in pg_upgrade",
        edits: &[(SCRIPT, "AND (owned.inserted_by::xid::text <> owned.xmin OR", "AND (true OR")],
        against: Servers { tests: "hosted:: pg_upgrade" },
    },
    Mutant {
        name: "a server of a hosted database begins where the clock is, whatever a crash has lost",
        edits: &[(
            SCRIPT,
            "PERFORM snowflake_raise(ms + 2000, NULL), setval",
            "PERFORM snowflake_raise(ms, NULL), setval",
        )],
        against: Servers { tests: "hosted:: two_seconds_ahead | hosted::ahead" },
    },
    Mutant {
        name: "a hosted database takes an ID with the names of whoever asks",
        edits: &[(
            SCRIPT,
            "ms := CASE WHEN is_checked THEN snowflake_unix_ms() END;",
            "ms := CASE WHEN is_checked THEN floor(snowflake_unix_ms()) END;",
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
        edits: &[(
            SCRIPT,
            "PERFORM snowflake_raise(snowflake_unix_ms() + 2000, NULL);",
            "PERFORM snowflake_unix_ms();",
        )],
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
];
