//! In what SQL sees.

use super::Against::Servers;
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an ID of unknown origin is shown with times that are yet to come",
        edits: &[(
            "src/functions/decode.rs",
            "        .filter(|(_, layout)| layout.issued_at(id.cast_unsigned()) <= latest)\n",
            "        .filter(|_| latest > 0)\n",
        )],
        against: Servers { tests: "sql_surface:: an_id_of_unknown_origin" },
    },
    Mutant {
        name: "a server begins at a mark that was reset to far ahead at once",
        edits: &[(
            "crates/snowflake_core/src/mark/start.rs",
            "plan.now < self.state.reset_not_before.load(Relaxed) || ",
            "",
        )],
        against: Servers { tests: "admin:: a_mark_that_was_reset_to_far" },
    },
    Mutant {
        name: "a clock that keeps calls from IDs is no state of the server",
        edits: &[(
            "src/functions/state.rs",
            "} else if let Some(error) = issuer::clock_error(&layout) {",
            "} else if let Some(error) = issuer::clock_error(&layout).filter(|_| false) {",
        )],
        against: Servers { tests: "health:: a_clock_that" },
    },
    Mutant {
        name: "any role can hold a lock on a table by looking at its partitions",
        edits: &[("src/functions/partitions/parent.rs", "        must_be_readable(table);\n", "")],
        against: Servers { tests: "partitions:: only_who_may_read" },
    },
    Mutant {
        name: "a view leaves an operator to who may create in its schema",
        edits: &[(
            "sql/extension/09_status.sql",
            "busiest_second::double precision / max_ids_per_second",
            "busiest_second / max_ids_per_second",
        )],
        against: Servers { tests: "hostile:: no_" },
    },
    Mutant {
        name: "the script of the extension leaves a function to who may create in its schema",
        edits: &[(
            "sql/extension/09_status.sql",
            "pg_catalog.current_setting('snowflake_pg.track_writers'::text, true)::boolean",
            "pg_has_role('pg_monitor', 'USAGE')",
        )],
        against: Servers { tests: "hostile:: no_" },
    },
    Mutant {
        name: "snowflake_nextval() is STABLE",
        edits: &[(
            "sql/extension/01_issue.sql",
            "CREATE FUNCTION snowflake_nextval() RETURNS bigint\n    LANGUAGE c VOLATILE",
            "CREATE FUNCTION snowflake_nextval() RETURNS bigint\n    LANGUAGE c STABLE",
        )],
        against: Servers { tests: "sql_surface:: an_id_that_a_query" },
    },
    Mutant {
        name: "a function loses its STRICT",
        edits: &[(
            "sql/extension/03_decode.sql",
            "LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_wrapper'",
            "LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_wrapper'",
        )],
        against: Servers { tests: "extension:: the_extension_owns" },
    },
    Mutant {
        name: "the next client of a pool sees the last ID of the one before",
        edits: &[("src/hooks/utility.rs", "        last_id::forget();\n", "        let _ = last_id::forget;\n")],
        against: Servers { tests: "issuing:: the_next_client" },
    },
    Mutant {
        name: "tables of other owners are rewritten for a foreign key",
        edits: &[("src/hooks/serial/widen.rs", "pg_catalog.bool_or(c.relowner <> asked.relowner)", "false")],
        against: Servers { tests: "serial:: rights" },
    },
    Mutant {
        name: "code that a command of another role calls finds a way back",
        edits: &[(
            "src/postgres/command.rs",
            "context | pg_sys::SECURITY_RESTRICTED_OPERATION.cast_signed()",
            "context",
        )],
        against: Servers { tests: "adopt:: runs_code | partitions:: owner" },
    },
    Mutant {
        name: "the search_path of the caller chooses what the code of another role calls",
        edits: &[(
            "src/postgres/command.rs",
            "GUC_ACTION_SAVE,\n                true,",
            "GUC_ACTION_SAVE,\n                false,",
        )],
        against: Servers { tests: "partitions:: owner" },
    },
    Mutant {
        name: "a column that refers to Snowflake IDs is widened with the caller's rights",
        edits: &[(
            "src/postgres/command.rs",
            "        if user == role && authenticated == role {",
            "        if user == authenticated {",
        )],
        against: Servers { tests: "serial:: rights" },
    },
    Mutant {
        name: "the tables of an extension get Snowflake IDs, whatever its author wrote",
        edits: &[(
            "src/hooks/serial.rs",
            "unsafe { pg_sys::creating_extension }",
            "unsafe { pg_sys::creating_extension && false }",
        )],
        against: Servers { tests: "serial:: left" },
    },
    Mutant {
        name: "a dump restores columns that it does not have",
        edits: &[(
            "src/hooks/serial.rs",
            "unsafe { !pg_sys::check_function_bodies }",
            "unsafe { false && pg_sys::check_function_bodies }",
        )],
        against: Servers { tests: "serial:: left" },
    },
    Mutant {
        name: "the statement of a function remains changed",
        edits: &[(
            "src/hooks/serial.rs",
            "unsafe { pg_sys::copyObjectImpl(statement.cast()) }.cast::<PlannedStmt>()",
            "statement",
        )],
        against: Servers { tests: "serial:: columns" },
    },
    Mutant {
        name: "an identity gets Snowflake IDs, although its author has chosen its numbers",
        edits: &[(
            "src/hooks/serial.rs",
            "column.option_of_sequence().map(",
            "column.option_of_sequence().filter(|_| false).map(",
        )],
        against: Servers { tests: "serial:: left" },
    },
    Mutant {
        name: "keys of 32 bits become wider, although nobody has asked for it",
        edits: &[("src/config/gucs/serial.rs", "Switch::new(false)", "Switch::new(true)")],
        against: Servers { tests: "serial:: by_default" },
    },
    Mutant {
        name: "a table that is dropped meanwhile is opened as if it were there",
        edits: &[("src/hooks/serial/family.rs", "pg_sys::try_relation_open(", "pg_sys::relation_open(")],
        against: Servers { tests: "serial:: dropped_meanwhile" },
    },
    Mutant {
        name: "a partition is dropped of which a part is not old enough",
        edits: &[("src/functions/partitions/old.rs", "partition.ids.end <= end", "partition.ids.start < end")],
        against: Servers { tests: "partitions:: the_plan_detaches" },
    },
    Mutant {
        name: "a typing error drops partitions in use",
        edits: &[("src/functions/partitions/old.rs", "    if is_future {", "    if is_future && now == 0 {")],
        against: Servers { tests: "partitions:: nothing_is_dropped" },
    },
    Mutant {
        name: "a row takes a value of another type than its column's",
        edits: &[(
            "src/functions/row.rs",
            "!unsafe { pg_sys::IsBinaryCoercible(type_oid, expected) }",
            "type_oid == pg_sys::Oid::INVALID",
        )],
        against: Servers { tests: "extension:: a_column_of_another_type" },
    },
    Mutant {
        name: "a column of the status has another name than in its script",
        edits: &[("src/functions/status.rs", "(\"mark_left\", ", "(\"mark\", ")],
        against: Servers { tests: "extension:: fills_each_column" },
    },
    Mutant {
        name: "functions that COPY calls get its default, too",
        edits: &[("src/hooks/copy.rs", "name == COPY_CONTEXT &&", "!name.is_empty() &&")],
        against: Servers { tests: "copy:: outside_copy" },
    },
    Mutant {
        name: "a COPY that writes rows gets the default of one that reads them",
        edits: &[(
            "src/hooks/copy.rs",
            "name == COPY_CONTEXT && READS_ROWS.load(Ordering::Relaxed)",
            "name == COPY_CONTEXT",
        )],
        against: Servers { tests: "copy:: outside_copy" },
    },
    Mutant {
        name: "a trigger gives IDs to a role that may not issue any",
        edits: &[("src/functions/fill.rs", "        must_issue(function.fn_oid);\n", "        let _ = must_issue;\n")],
        against: Servers { tests: "fdw:: a_role_without_execute" },
    },
    Mutant {
        name: "a trigger keeps the old row where a statement also updates",
        edits: &[(
            "src/functions/fill.rs",
            "    must_be_fired_for_new_row(data);\n",
            "    if function.fn_extra.is_null() {\n        must_be_fired_for_new_row(data);\n    }\n",
        )],
        against: Servers { tests: "fdw:: a_trigger_that_is_fired" },
    },
    Mutant {
        name: "a trigger breaks the conditions of a domain",
        edits: &[("src/functions/fill.rs", "of_type != pg_sys::INT8OID &&", "false && of_type != pg_sys::INT8OID &&")],
        against: Servers { tests: "fdw:: a_key_can_be" },
    },
    Mutant {
        name: "the planner gets the layout of a function that its user may not call",
        edits: &[("src/hooks/layout_constant.rs", " && both.into_iter().all(everybody_may_call)", "")],
        against: Servers { tests: "planner:: a_plan_calls_nothing" },
    },
    Mutant {
        name: "the planner adds the layout to arguments without those that have defaults",
        edits: &[(
            "src/hooks/layout_constant.rs",
            "let mut arguments = expanded_arguments(call);",
            "let _ = expanded_arguments;\n    let mut arguments = unsafe { PgList::<Node>::from_pg(call.args) };",
        )],
        against: Servers { tests: "planner:: every_function" },
    },
    Mutant {
        name: "the planner keeps what it knows of functions that have changed",
        edits: &[("src/hooks/layout_constant.rs", "    KNOWN.with_borrow_mut(HashMap::clear);\n", "")],
        against: Servers { tests: "planner:: a_plan_calls_nothing" },
    },
    Mutant {
        name: "the planner gets the layout of a function of somebody else's",
        edits: &[("src/hooks/layout_constant.rs", " && both.into_iter().all(is_ours)", "")],
        against: Servers { tests: "planner:: a_plan_calls_nothing" },
    },
    Mutant {
        name: "COPY may call what its user may not",
        edits: &[(
            "src/postgres/catalog.rs",
            "\"EXECUTE\".into_datum()]) };\n    may == Some(true)",
            "\"EXECUTE\".into_datum()]) };\n    may.is_some()",
        )],
        against: Servers { tests: "copy:: copy" },
    },
    Mutant {
        name: "an advance goes by a timestamp that was cut off",
        edits: &[("src/functions/admin.rs", "(id <= layout.max_id()).then(", "(id > 0).then(")],
        against: Servers { tests: "layouts:: advance" },
    },
    Mutant {
        name: "two callers make partitions of a table at once",
        edits: &[(
            "src/functions/partitions/parent.rs",
            "open(table, pg_sys::ShareUpdateExclusiveLock)",
            "open(table, pg_sys::AccessShareLock)",
        )],
        against: Servers { tests: "partitions:: callers_at_once" },
    },
    Mutant {
        name: "partitions are made with a lock against writers",
        edits: &[(
            "src/functions/partitions/parent.rs",
            "open(table, pg_sys::ShareUpdateExclusiveLock)",
            "open(table, pg_sys::ShareRowExclusiveLock)",
        )],
        against: Servers { tests: "partitions:: neither_readers_nor_writers" },
    },
    Mutant {
        name: "anybody may lock a table by asking for partitions",
        edits: &[(
            "src/functions/partitions/parent.rs",
            "        must_be_owner(&open(table, pg_sys::AccessShareLock));\n",
            "",
        )],
        against: Servers { tests: "partitions:: partitions_belong" },
    },
    Mutant {
        name: "partitions are made as who calls, with all the rights of a superuser",
        edits: &[("src/functions/partitions/parent.rs", "        let _owner = As::begin(self.owner);\n", "")],
        against: Servers { tests: "partitions:: owner" },
    },
];
