//! Plans that adopt tables.

use super::Against::Servers;
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a plan makes again what then calls the function of somebody else",
        edits: &[("sql/adopt/1_remake.sql", "    IF found IS DISTINCT FROM dependencies THEN", "    IF false THEN")],
        against: Servers { tests: "adopt:: what_is_made_again" },
    },
    Mutant {
        name: "a plan gives back privileges that were revoked since it was made",
        edits: &[("sql/adopt/1_remake.sql", "    IF found IS DISTINCT FROM fingerprint THEN", "    IF false THEN")],
        against: Servers { tests: "adopt:: a_plan_that_is_older" },
    },
    Mutant {
        name: "a plan for a schema puts back a policy that was changed since it was made",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "widen.cols, remade;",
            "widen.cols, (SELECT array_agg(oid) FROM pg_policy);",
        )],
        against: Servers { tests: "adopt:: a_plan_that_is_older" },
    },
    Mutant {
        name: "a plan puts back what another session is changing",
        edits: &[(
            "sql/adopt/1_remake.sql",
            "        GROUP BY c.oid) locked;",
            "        WHERE false GROUP BY c.oid) locked;",
        )],
        against: Servers { tests: "adopt:: a_plan_that_waits_for_a_change" },
    },
    Mutant {
        name: "a plan makes views and policies of another owner with the caller's rights",
        edits: &[(
            "sql/adopt/1_remake.sql",
            "CASE WHEN of_tables = quote_ident(current_user)::regrole THEN '%s'",
            "CASE WHEN true THEN '%s'",
        )],
        against: Servers { tests: "adopt:: runs_code" },
    },
    Mutant {
        name: "a client with savepoints commits the part of a plan that has not failed",
        edits: &[(
            "src/functions/plan.rs",
            "    pgrx::register_xact_callback(pgrx::PgXactCallbackEvent::PreCommit, || refuse_savepoint());\n",
            "",
        )],
        against: Servers { tests: "adopt:: savepoints" },
    },
    Mutant {
        name: "a plan makes again what belongs to others",
        edits: &[(
            "sql/adopt/1_remake.sql",
            "(coalesce(c.relowner, p.proowner, t.relowner) <> of_tables) IS NOT FALSE",
            "false",
        )],
        against: Servers { tests: "adopt:: what_cannot_be_made_again" },
    },
    Mutant {
        name: "a plan to adopt a table gives what it makes again the default privileges",
        edits: &[("sql/adopt/1_remake.sql", " OR EXISTS (SELECT FROM pg_default_acl))", ")")],
        against: Servers { tests: "adopt:: whatever_reads" },
    },
    Mutant {
        name: "a plan for a schema gives a key Snowflake IDs while a column that refers is too narrow",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "    IF narrow IS NOT NULL THEN\n        RAISE EXCEPTION",
            "    IF false THEN\n        RAISE EXCEPTION",
        )],
        against: Servers { tests: "adopt:: a_plan_of_which" },
    },
    Mutant {
        name: "a plan for a schema makes keys wider that an application reads as 32 bits",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "        IF narrow IS NULL OR coalesce(current_setting('snowflake_pg.widen_serial', true), 'off')::boolean THEN",
            "        IF true THEN",
        )],
        against: Servers { tests: "adopt:: leaves_narrow_keys" },
    },
    Mutant {
        name: "a plan to revert a table changes it with the caller's rights",
        edits: &[("sql/adopt/3_revert.sql", "            narrow := format(run_as, owner, narrow);\n", "")],
        against: Servers { tests: "adopt:: runs_code" },
    },
    Mutant {
        name: "a plan to revert a table does not see a view that stands in the way",
        edits: &[(
            "sql/adopt/3_revert.sql",
            "'pg_publication_rel'::regclass, 'pg_rewrite'::regclass, ",
            "'pg_publication_rel'::regclass, ",
        )],
        against: Servers { tests: "adopt:: a_column_that_cannot" },
    },
    Mutant {
        name: "a plan to adopt a table rewrites it with the caller's rights",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "        IF widen.rel_owner <> me THEN\n",
            "        IF widen.rel_owner <> me AND false THEN\n",
        )],
        against: Servers { tests: "adopt:: runs_code" },
    },
    Mutant {
        name: "a plan to adopt a table reads it with the caller's rights",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "        IF owner <> me AND pg_has_role(owner, 'MEMBER') THEN\n            command := 'SELECT '",
            "        IF owner <> me AND NOT pg_has_role(owner, 'MEMBER') THEN\n            command := 'SELECT '",
        )],
        against: Servers { tests: "adopt:: runs_code" },
    },
    Mutant {
        name: "a plan to adopt a table leaves the types of its calls to who may create in the schema",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "|| '.snowflake_run_as(%L::pg_catalog.regrole, %L::pg_catalog.text)';",
            "|| '.snowflake_run_as(%L, %L)';",
        )],
        against: Servers { tests: "hostile:: a_plan_for_adopting" },
    },
    Mutant {
        name: "a plan to adopt a table reads the numbers of its owner with the caller's rights",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "CASE WHEN owner <> me THEN 'SELECT ' || format(run_as, owner, numbers)\n                        ELSE numbers END END",
            "numbers END",
        )],
        against: Servers { tests: "adopt:: swaps" },
    },
    Mutant {
        name: "anybody can run a command as anybody",
        edits: &[(
            "src/postgres/command.rs",
            "pg_sys::check_is_member_of_role(user, role)",
            "pg_sys::check_is_member_of_role(user, user)",
        )],
        against: Servers { tests: "adopt:: runs_code" },
    },
    Mutant {
        name: "a plan to adopt a table takes the rows that a policy shows for all",
        edits: &[("sql/adopt/2_plan.sql", "SET row_security = off AS $$", "AS $$")],
        against: Servers { tests: "adopt:: policy" },
    },
    Mutant {
        name: "a plan to adopt a table takes its locks as it comes to each table",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', concat_ws(', ', array_to_string(relations, ', '), CASE WHEN at_once THEN others END)),",
            "CASE WHEN others = '' THEN '' END,",
        )],
        against: Servers { tests: "adopt:: a_plan_that_waits" },
    },
    Mutant {
        name: "a plan means something else by the settings of who makes it",
        edits: &[(
            "sql/adopt/1_remake.sql",
            "    SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 AS $$",
            "    AS $$",
        )],
        against: Servers { tests: "adopt:: means_the_same" },
    },
    Mutant {
        name: "a plan goes on without the call that only superusers may make",
        edits: &[("sql/adopt/2_plan.sql", "(5.2, CASE WHEN greatest_id", "(4.5, CASE WHEN greatest_id")],
        against: Servers { tests: "adopt:: must_not_skip" },
    },
    Mutant {
        name: "a plan for a bigint key leaves a new foreign key too narrow",
        edits: &[(
            "sql/adopt/2_plan.sql",
            "                (13, format('SELECT %s.snowflake_must_be_bigint",
            "                (13, CASE WHEN narrow_relations <> '{}' THEN '' END || format('SELECT %s.snowflake_must_be_bigint",
        )],
        against: Servers { tests: "adopt:: a_plan_that_is_older" },
    },
];
