//! In the check of a fleet, and in what tells IDs of another server.

use super::Against::{Core, Servers};
use super::Mutant;

const CORE: &str = "crates/snowflake_core/src/server/fleet.rs";
const FLEET: &str = "src/functions/fleet.rs";
const ASK: &str = "src/functions/fleet/ask.rs";
const LIBPQ: &str = "src/postgres/libpq.rs";
const REMOTE: &str = "src/postgres/remote.rs";
const ELSEWHERE: &str = "src/functions/issued_elsewhere.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a server that is listed twice is a duplicate of itself",
        edits: &[(CORE, " || named.contains(&other.server)", " || std::ptr::eq(member, other)")],
        against: Core,
    },
    Mutant {
        name: "servers of two data centers with one worker are duplicates",
        edits: &[(CORE, "layout.flatten(datacenter.into(), worker.into())", "worker.into()")],
        against: Core,
    },
    Mutant {
        name: "a standby alone takes the mark through WAL",
        edits: &[(CORE, "!(member.has_wal_mark && other.has_wal_mark)", "!member.has_wal_mark")],
        against: Core,
    },
    Mutant {
        name: "a copy that was promoted may have the worker of its original",
        edits: &[(CORE, "is_copy && (member.is_standby || other.is_standby)", "is_copy")],
        against: Core,
    },
    Mutant {
        name: "a slow answer is a wrong clock",
        edits: &[(CORE, "max_ms.saturating_add(error_ms)", "max_ms.max(error_ms.min(0))")],
        against: Core,
    },
    Mutant {
        name: "two clocks that are near the first are not compared",
        edits: &[(CORE, "match agree.iter().find_map(", "match agree.iter().take(1).find_map(")],
        against: Core,
    },
    Mutant {
        name: "everybody may connect from the server",
        edits: &[(
            "sql/extension/10_fleet.sql",
            "REVOKE ALL ON FUNCTION snowflake_check_fleet(text[]) FROM PUBLIC;\n",
            "",
        )],
        against: Servers { tests: "fleet:: access" },
    },
    Mutant {
        name: "who is no superuser needs no password",
        edits: &[(FLEET, "    if needs_password && let Some(at)", "    if !needs_password && let Some(at)")],
        against: Servers { tests: "fleet:: must_give_a_password" },
    },
    Mutant {
        name: "one connection string with a password is enough",
        edits: &[(FLEET, "targets.iter().position(", "targets.iter().take(1).position(")],
        against: Servers { tests: "fleet:: must_give_a_password" },
    },
    Mutant {
        name: "a password that the server has not asked for is enough",
        edits: &[(ASK, "needs_password && !remote.has_used_password()", "needs_password && !self.has_password()")],
        against: Servers { tests: "fleet:: does_not_ask_for" },
    },
    Mutant {
        name: "a database name is read as a connection string",
        edits: &[(LIBPQ, "values.as_ptr(), 0) };", "values.as_ptr(), 1) };")],
        against: Servers { tests: "fleet:: a_database_name" },
    },
    Mutant {
        name: "an error of a check logs the connection strings",
        edits: &[(FLEET, "pg_sys::debug_query_string = std::ptr::null()", "pg_sys::debug_query_string = statement")],
        against: Servers { tests: "fleet:: no_password" },
    },
    Mutant {
        name: "a part of a password is shown as a host",
        edits: &[(ASK, ".skip(1).any(|c| c == '@')", ".skip(1).any(|c| c == '\\n')")],
        against: Servers { tests: "fleet:: no_password" },
    },
    Mutant {
        name: "a function that is not of the extension is called on another server",
        edits: &[(ASK, "\n         JOIN pg_catalog.pg_depend d", "\n         LEFT JOIN pg_catalog.pg_depend d")],
        against: Servers { tests: "fleet:: not_of_the_extension" },
    },
    Mutant {
        name: "who says the same of itself is the same server",
        edits: &[("src/functions/fleet/same_server.rs", "seen != Some(false)", "seen.is_none() || seen.is_some()")],
        against: Servers { tests: "fleet:: a_clone" },
    },
    Mutant {
        name: "a wait for another server cannot be cancelled",
        edits: &[(ASK, "    pgrx::check_for_interrupts!();\n", "")],
        against: Servers { tests: "fleet:: cancelled" },
    },
    Mutant {
        name: "a connection is made although no file is left",
        edits: &[(LIBPQ, "acquire().map(|_wait| socket));", "acquire().map(|_wait| socket)).or(Some(Self(())));")],
        against: Servers { tests: "fleet:: no_file_left" },
    },
    Mutant {
        name: "no file is left to wait for a socket",
        edits: &[(LIBPQ, "acquire().and_then(|socket| acquire().map(|_wait| socket))", "acquire()")],
        against: Servers { tests: "fleet:: no_file_left" },
    },
    Mutant {
        name: "a connection that has ended keeps its file",
        edits: &[(LIBPQ, "        unsafe { pg_sys::ReleaseExternalFD() };\n", "")],
        against: Servers { tests: "fleet:: gives_its_files_back" },
    },
    Mutant {
        name: "a look-up of a name that was cancelled is followed by the next one",
        edits: &[(REMOTE, "            check_interrupts()?;\n            connection\n", "            connection\n")],
        against: Servers { tests: "registry::names cancelled" },
    },
    Mutant {
        name: "a silent address hides the others behind its name",
        edits: &[(
            REMOTE,
            "            other_addresses(&silent).into_iter().rev().for_each(|address| hosts.push_front(address));\n",
            "            let _ = other_addresses(&silent);\n",
        )],
        against: Servers { tests: "registry::names each_address" },
    },
    Mutant {
        name: "a silent host hides the others",
        edits: &[(REMOTE, "        while let Ok(None) = outcome\n", "        while let Err(_) = outcome\n")],
        against: Servers { tests: "fleet:: each_host" },
    },
    Mutant {
        name: "libpq is told to go on whenever the process wakes up",
        edits: &[(REMOTE, "happened.cast_unsigned() & event > 0", "happened > 0")],
        against: Servers { tests: "fleet:: a_reload" },
    },
    Mutant {
        name: "IDs above the last one were not issued elsewhere",
        edits: &[(ELSEWHERE, "layout.position(id) > generator.last_position()", "layout.position(id) == u64::MAX")],
        against: Servers { tests: "fleet:: above_the_last" },
    },
    Mutant {
        name: "IDs were issued elsewhere only from the durable mark on",
        edits: &[(
            ELSEWHERE,
            "layout.position(id) > generator.last_position()",
            "layout.position(id) >> layout.sequence_bits() >= generator.covered_until()",
        )],
        against: Servers { tests: "fleet:: above_the_last" },
    },
    Mutant {
        name: "old IDs of a worker that is leased were issued elsewhere",
        edits: &[(ELSEWHERE, "!worker::needs_lease() && ", "")],
        against: Servers { tests: "fleet:: before_a_lease" },
    },
    Mutant {
        name: "initdb had the right clock",
        edits: &[(ELSEWHERE, "made_at().saturating_sub(INITDB_CLOCK)", "made_at()")],
        against: Servers { tests: "fleet:: before_the_cluster" },
    },
    Mutant {
        name: "a server that issues no IDs knows which were issued elsewhere",
        edits: &[(ELSEWHERE, "    generator.is_started().then(|| {", "    Some(()).map(|()| {")],
        against: Servers { tests: "fleet:: issues_no_ids" },
    },
    Mutant {
        name: "what is no ID of the layout is decoded",
        edits: &[(ELSEWHERE, ".filter(|&id| id <= layout.max_id())", "")],
        against: Servers { tests: "fleet:: what_is_no_id" },
    },
];
