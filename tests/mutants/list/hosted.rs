//! The functions in plain SQL.

use super::Against::Servers;
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sessions of a hosted database take positions without a lock",
        edits: &[(
            "sql/hosted/issue.sql",
            "LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;",
            "LOCK TABLE ids.snowflake_lock IN ACCESS SHARE MODE NOWAIT;",
        )],
        against: Servers { tests: "hosted:: two_hundred | faults::row_50" },
    },
    Mutant {
        name: "a call that succeeds keeps the lock of a hosted database until its transaction ends",
        edits: &[(
            "sql/hosted/issue.sql",
            "            id := ids.snowflake_id_at(taken);\n            RAISE SQLSTATE 'SN000';",
            "            id := ids.snowflake_id_at(taken);",
        )],
        against: Servers { tests: "hosted::lock without_rights" },
    },
    Mutant {
        name: "a first call looks catalogs up while it has the lock of a hosted database",
        edits: &[(
            "sql/hosted/issue.sql",
            "    is_checked pg_catalog.bool := ids.snowflake_is_checked();",
            "    is_checked pg_catalog.bool := ids.snowflake_begin_session() IS NULL;",
        )],
        against: Servers { tests: "hosted::lock" },
    },
    Mutant {
        name: "rows of a dump set a hosted database back",
        edits: &[(
            "sql/hosted/position.sql",
            "        PERFORM ids.snowflake_register(NULL);\n        DELETE FROM ids.snowflake_database;\n        NEW.database := 0;",
            "        RETURN NULL;",
        )],
        against: Servers { tests: "hosted::set_back" },
    },
    Mutant {
        name: "a transaction sets a hosted database back that is rolled back",
        edits: &[("sql/hosted/position.sql", "AND now() <> statement_timestamp() THEN", "AND false THEN")],
        against: Servers { tests: "hosted::set_back" },
    },
    Mutant {
        name: "a stranger has code of his run by the owner of a hosted database",
        edits: &[
            ("sql/hosted/rights.sql", "proname ~ '_(guard_database|", "proname ~ '_("),
            (
                "sql/hosted/position.sql",
                "    IF TG_RELID <> 'ids.snowflake_database'::regclass THEN",
                "    IF false THEN",
            ),
        ],
        against: Servers { tests: "hosted::rights" },
    },
    Mutant {
        name: "who sets a sequence sets a hosted database back",
        edits: &[(
            "sql/hosted/position.sql",
            "RETURN coalesce(CASE WHEN NOT pg_is_in_recovery() THEN",
            "RETURN coalesce(CASE WHEN pg_is_in_recovery() THEN",
        )],
        against: Servers { tests: "hosted::set_back" },
    },
    Mutant {
        name: "a running statement keeps the worker of a hosted database that was given away",
        edits: &[(
            "sql/hosted/position.sql",
            "    LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;\n    EXECUTE format('CREATE OR REPLACE FUNCTION ids.snowflake_registration",
            "    EXECUTE format('CREATE OR REPLACE FUNCTION ids.snowflake_registration",
        )],
        against: Servers { tests: "hosted::set_back | hosted::lock" },
    },
    Mutant {
        name: "a hosted database goes back with its clock",
        edits: &[(
            "sql/hosted/issue.sql",
            "CASE WHEN ids.snowflake_last() >= ids.snowflake_tick(ms) THEN",
            "CASE WHEN ids.snowflake_last() BETWEEN ids.snowflake_tick(ms) AND ids.snowflake_tick(ms) + 4095 THEN",
        )],
        against: Servers { tests: "faults::row_48 | hosted:: ascend" },
    },
    Mutant {
        name: "a hosted database gives IDs of any distance ahead of the clock",
        edits: &[(
            "sql/hosted/issue.sql",
            "OR greatest(ids.snowflake_last(), ids.snowflake_tick(ms) + (",
            "OR greatest(0, ids.snowflake_tick(ms) + (",
        )],
        against: Servers { tests: "hosted:: set_back" },
    },
    Mutant {
        name: "a copy of a hosted database issues its IDs",
        edits: &[(
            "sql/hosted/issue.sql",
            "    IF problem.message IS NOT NULL THEN\n        RETURN problem;",
            "    IF false THEN\n        RETURN problem;",
        )],
        against: Servers { tests: "hosted:: restored_dump" },
    },
    Mutant {
        name: "a hosted database loses its worker in pg_upgrade",
        edits: &[("sql/hosted/problem.sql", "AND (owned.inserted_by::xid::text <> owned.xmin OR", "AND (true OR")],
        against: Servers { tests: "hosted:: pg_upgrade" },
    },
    Mutant {
        name: "a server of a hosted database begins where the clock is, whatever a crash has lost",
        edits: &[(
            "sql/hosted/issue.sql",
            "PERFORM ids.snowflake_raise(ms + ids.snowflake_max_ahead_ms(), NULL), setval",
            "PERFORM ids.snowflake_raise(ms, NULL), setval",
        )],
        against: Servers { tests: "hosted:: two_seconds_ahead | hosted::ahead" },
    },
    Mutant {
        name: "a hosted database takes an ID with the names of whoever asks",
        edits: &[(
            "sql/hosted/issue.sql",
            "ms := CASE WHEN is_checked THEN ids.snowflake_unix_ms() END;",
            "ms := CASE WHEN is_checked THEN floor(ids.snowflake_unix_ms()) END;",
        )],
        against: Servers { tests: "hosted:: no_function_calls" },
    },
    Mutant {
        name: "anybody can take the position of a hosted database back",
        edits: &[("sql/hosted/issue.sql", "= 'off' AND count BETWEEN 1 AND 4294967295\n", "= 'off'\n")],
        against: Servers { tests: "hosted:: take_the_position_back" },
    },
    Mutant {
        name: "open sessions of a hosted database keep the worker that was given away",
        edits: &[
            (
                "sql/hosted/admin.sql",
                "ids.snowflake_worker_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN %s",
                "ids.snowflake_worker_id() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %s",
            ),
            (
                "sql/hosted/admin.sql",
                "ids.snowflake_datacenter_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN %s",
                "ids.snowflake_datacenter_id() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %s",
            ),
        ],
        against: Servers { tests: "hosted:: go_on_with_the_new_worker" },
    },
    Mutant {
        name: "default privileges give away the position of a hosted database",
        edits: &[("sql/hosted/rights.sql", "        EXECUTE object.command;\n", "        NULL;\n")],
        against: Servers { tests: "hosted:: default_privileges" },
    },
    Mutant {
        name: "a hosted database that gets a worker begins where it was, whatever another one has issued",
        edits: &[(
            "sql/hosted/admin.sql",
            "PERFORM ids.snowflake_raise(ids.snowflake_unix_ms() + ids.snowflake_max_ahead_ms(), NULL);",
            "PERFORM ids.snowflake_unix_ms();",
        )],
        against: Servers { tests: "hosted::ahead" },
    },
    Mutant {
        name: "a hosted database is made in a schema of others",
        edits: &[("sql/hosted/install.sql", "IF unsafe.reason IS NOT NULL THEN", "IF false THEN")],
        against: Servers { tests: "hosted::rights" },
    },
    Mutant {
        name: "an ID of a hosted database has a layout that was set before it was taken",
        edits: &[(
            "sql/hosted/batches.sql",
            "    last := ids.snowflake_take(count::bigint);\n    IF ids.snowflake_layout() <> layout THEN",
            "    last := ids.snowflake_take(count::bigint);\n    IF false THEN",
        )],
        against: Servers { tests: "hosted:: set_while" },
    },
];
