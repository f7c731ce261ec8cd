//! In settings, errors and the startup log.

use super::Against::Servers;
use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a session may set the worker ID",
        edits: &[(
            "src/config/gucs/server.rs",
            "no ID is issued.\",\n    context: PGC_POSTMASTER,",
            "no ID is issued.\",\n    context: pgrx::pg_sys::GucContext::PGC_USERSET,",
        )],
        against: Servers { tests: "faults:: row_29" },
    },
    Mutant {
        name: "nobody is warned of a worker that base backups copy",
        edits: &[(
            "src/startup_log.rs",
            "        warn_of_alter_system(variable, &value);\n",
            "        let _ = (variable, value);\n",
        )],
        against: Servers { tests: "startup_log:: a_worker" },
    },
    Mutant {
        name: "the log quotes a registry that was refused",
        edits: &[(
            "src/config/gucs/set.rs",
            "registry::objection(&value).is_some()",
            "registry::objection(&value).is_some() && value.is_empty()",
        )],
        against: Servers { tests: "startup_log:: refused" },
    },
    Mutant {
        name: "every role learns where the state directory is",
        edits: &[(
            "src/postgres/report.rs",
            "unsafe { pg_sys::has_privs_of_role(user, ",
            "user != pg_sys::Oid::INVALID || unsafe { pg_sys::has_privs_of_role(user, ",
        )],
        against: Servers { tests: "refusals:: only_roles" },
    },
    Mutant {
        name: "ALTER SYSTEM takes a worker outside the layout",
        edits: &[(
            "src/config/gucs/checks.rs",
            "found => check_number(found, Layout::workers).map_err",
            "found => check_number(found, Layout::workers).or(Ok::<(), String>(())).map_err",
        )],
        against: Servers { tests: "refusals:: refused_by_alter_system_and" },
    },
    Mutant {
        name: "every layout is taken for the one that was read first",
        edits: &[("src/config/layout_cache.rs", "**kept == *text", "!kept.is_empty()")],
        against: Servers { tests: "layouts:: decode" },
    },
];
