//! The functions in plain SQL.

use super::Against::Servers;
use super::Mutant;

const SCRIPT: &str = "sql/snowflake_hosted.sql";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sessions of a hosted database take positions without a lock",
        edits: &[
            (SCRIPT, "CASE WHEN pg_advisory_lock(1936617329, 1) IS NULL OR ms < 0", "CASE WHEN ms < 0"),
            (
                SCRIPT,
                "ELSE setval('snowflake_position'::regclass, begins + count - 1) END,\n                    CASE WHEN pg_advisory_unlock(1936617329, 1) THEN NULL::bigint END);",
                "ELSE setval('snowflake_position'::regclass, begins + count - 1) END, NULL);",
            ),
        ],
        against: Servers { tests: "hosted:: two_hundred | hosted:: crashes" },
    },
    Mutant {
        name: "a hosted database goes back with its clock",
        edits: &[(
            SCRIPT,
            "WHEN pg_sequence_last_value('snowflake_position'::regclass) >= tick\n",
            "WHEN pg_sequence_last_value('snowflake_position'::regclass) BETWEEN tick AND tick + mask\n",
        )],
        against: Servers { tests: "hosted:: crashes | hosted:: ascend" },
    },
    Mutant {
        name: "a hosted database gives IDs of any distance ahead of the clock",
        edits: &[(
            SCRIPT,
            "WHEN pg_sequence_last_value('snowflake_position'::regclass) + count > ends THEN NULL",
            "WHEN false THEN NULL",
        )],
        against: Servers { tests: "hosted:: set_back" },
    },
    Mutant {
        name: "a copy of a hosted database issues its IDs",
        edits: &[(SCRIPT, "PERFORM snowflake_must_own_database();\n    x := LEAST(", "x := LEAST(")],
        against: Servers { tests: "hosted:: restored_dump" },
    },
    Mutant {
        name: "a hosted database loses its worker in pg_upgrade",
        edits: &[(SCRIPT, " AND owned.inserted_by::xid::text <> owned.xmin", "")],
        against: Servers { tests: "hosted:: pg_upgrade" },
    },
    Mutant {
        name: "an error leaves the lock of a hosted database behind",
        edits: &[(SCRIPT, "    IF holder = pg_backend_pid() THEN\n", "    IF false THEN\n")],
        against: Servers { tests: "hosted:: read" },
    },
    Mutant {
        name: "a hosted database takes an ID with the names of whoever asks",
        edits: &[(
            SCRIPT,
            "SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '10s' AS",
            "SECURITY DEFINER SET lock_timeout = '10s' AS",
        )],
        against: Servers { tests: "hosted:: no_function_calls" },
    },
];
