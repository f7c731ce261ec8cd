//! Asks another server which it is. What it answers is only data: it may be anything.

use crate::functions::lives::VERSION;
use crate::postgres::clock;
use crate::postgres::failure::Failure;
use crate::postgres::libpq::Answer;
use crate::postgres::remote::Remote;
use crate::postgres::server_encoding::shortened;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::audit::{Grant, Known, Life, State};
use snowflake_core::mark::lives;
use snowflake_core::server::fleet::{Clock, Member};
use std::ffi::{CStr, CString};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const ANSWERING: Duration = Duration::from_secs(5);

/// How many characters are shown of a text that the server has sent.
const LONGEST_TEXT: usize = 100;

/// Where the extension is. Every name and operator is qualified, and the function must belong to the extension: nobody
/// must be able to substitute another one.
// mutant: fleet-function
const EXTENSION: &CStr = c"SELECT pg_catalog.current_database() AS database, e.extversion AS version,
        (SELECT pg_catalog.quote_ident(n.nspname)
         FROM pg_catalog.pg_proc p
         JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
         JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
             AND d.objid OPERATOR(pg_catalog.=) p.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'
             AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
             AND d.refobjid OPERATOR(pg_catalog.=) e.oid
         WHERE p.proname OPERATOR(pg_catalog.=) $1::pg_catalog.text AND p.pronargs OPERATOR(pg_catalog.=) $2::pg_catalog.int2
        ) AS schema
    FROM (SELECT) AS this LEFT JOIN pg_catalog.pg_extension e ON e.extname OPERATOR(pg_catalog.=) 'snowflake_pg'";

/// A role that may create in a schema there must not change what a query means. A pooler may keep the name for itself.
/// And a query that is given up here must end there, too.
// mutant: fleet-given-up
const SETTINGS: &CStr = c"SELECT pg_catalog.set_config('search_path', '', true),
        pg_catalog.set_config('application_name', $1, true), pg_catalog.set_config('statement_timeout', $2, true)";

/// Whether a session with this name runs on the server that is asked. Everybody may see the names of sessions.
const SEES: &CStr = c"SELECT pg_catalog.count(*) AS sessions FROM pg_catalog.pg_stat_activity
    WHERE application_name OPERATOR(pg_catalog.=) $1";

/// What a server has said about itself.
pub struct Account {
    /// Its state, as in `snowflake_status`.
    pub state: String,
    /// When the postmaster started, in Unix microseconds.
    pub started_us: i64,
    /// What is compared with other servers.
    pub member: Member,
}

/// Begins a transaction in a session of this name.
pub fn begin(remote: &mut Remote, name: &str) -> Result<(), Failure> {
    query(remote, c"BEGIN READ ONLY", &[])?;
    // A little later than here, which is what is reported.
    let there = ANSWERING + Duration::from_secs(1);
    query(remote, SETTINGS, &[Some(name.to_owned()), Some(there.as_millis().to_string())]).map(drop)
}

/// Whether a session still runs.
pub fn is_there(remote: &mut Remote) -> bool {
    query(remote, c"SELECT", &[]).is_ok()
}

/// Whether a session with this name runs there; `None` if the server does not say.
pub fn sees(remote: &mut Remote, name: &str) -> Option<bool> {
    let answer = query(remote, SEES, &[Some(name.to_owned())]).ok()?;
    number::<u64>(&answer, c"sessions").map(|sessions| sessions > 0)
}

fn query(remote: &mut Remote, query: &CStr, parameters: &[Option<String>]) -> Result<Answer, Failure> {
    remote.query(query, parameters, Instant::now() + ANSWERING)
}

/// The schema of the extension, quoted. An error if this function does not belong to the extension there.
fn schema(remote: &mut Remote, function: &str, arguments: usize) -> Result<String, Failure> {
    let extension = query(remote, EXTENSION, &[Some(function.to_owned()), Some(arguments.to_string())])?;
    let [version, schema] = [c"version", c"schema"].map(|column| extension.value(0, column));
    let Some(version) = version else {
        let database = shortened(&extension.value(0, c"database").unwrap_or_default(), LONGEST_TEXT);
        return Err(Failure::local(format!("extension snowflake_pg does not exist in database \"{database}\"")));
    };
    let Some(schema) = schema else {
        let version = shortened(&version, LONGEST_TEXT);
        let message = format!("extension snowflake_pg {version} has no {function}()");
        return Err(Failure::local(message));
    };
    Ok(schema)
}

/// Asks a server which it is.
pub fn ask(remote: &mut Remote) -> Result<Account, Failure> {
    let schema = schema(remote, "snowflake_identity", 0)?;
    let identity = format!(
        "SELECT i.system_identifier, i.datacenter_id, i.worker_id, i.state, i.layout,
            i.in_recovery::pg_catalog.int4 AS in_recovery,
            (EXTRACT(epoch FROM i.clock) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 AS clock,
            (EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)
                ::pg_catalog.int8 AS started,
            pg_catalog.current_setting('snowflake_pg.wal_mark', true) AS wal_mark
         FROM {schema}.snowflake_identity() AS i"
    );
    let identity = CString::new(identity).map_err(|_| unexpected())?;
    let (asked_us, asked) = (clock::microseconds(clock::since_1970()), Instant::now());
    let answer = query(remote, &identity, &[])?;
    let half_trip_us = clock::microseconds(asked.elapsed()) / 2;
    read_answer(&answer, asked_us.saturating_add(half_trip_us), half_trip_us).ok_or_else(unexpected)
}

/// Whether the database has a registry, and whether it can be asked: whoever owns a view can have it do anything with
/// the rights of its readers.
// mutant: audit-registry-owner
const REGISTRY: &CStr =
    c"SELECT (o.rolsuper OR o.rolname OPERATOR(pg_catalog.=) CURRENT_USER)::pg_catalog.int4 AS is_safe
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) c.relowner
    WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_registry' AND c.relname OPERATOR(pg_catalog.=) 'workers'";

/// What is read of a life. Whoever is asked may tell more.
const FIELDS: [&str; 18] = [
    "version",
    "life",
    "server",
    "is_own",
    "number",
    "system_identifier",
    "timeline",
    "worker_id",
    "layout",
    "reason",
    "state",
    "begins_at",
    "issued_until",
    "reserved_until",
    "ended_at",
    "found",
    "logged",
    "follows",
];

/// The function that is asked for lives.
const LIVES: &str = "snowflake_lives_for_servers";

/// More leases than any layout has workers for are no answer.
const MOST_GRANTS: usize = 1 << 20;

const GRANTS: &CStr = c"SELECT w.worker_id, w.system_identifier, w.server,
        (EXTRACT(epoch FROM w.granted_until) OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8 AS until,
        (EXTRACT(epoch FROM w.issued_until) OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8 AS issued
    FROM snowflake_registry.workers AS w WHERE w.system_identifier IS NOT NULL";

/// Asks a server for the lives that it knows, and for the leases of its registry.
pub fn ask_lives(remote: &mut Remote) -> Result<Known, Failure> {
    let registry = query(remote, REGISTRY, &[])?;
    if registry.rows() == 0 {
        return Ok(Known { lives: lives_of(remote)?, ..Known::default() });
    }
    if number::<u8>(&registry, c"is_safe") != Some(1) {
        let message = "the registry belongs neither to a superuser nor to the user of this connection";
        return Err(Failure::local(message));
    }
    let answer = query(remote, GRANTS, &[])?;
    if answer.rows() > MOST_GRANTS {
        return Err(unexpected());
    }
    let grant = |row| {
        Some(Grant {
            worker: answer.value(row, c"worker_id")?.parse().ok()?,
            system_identifier: identifier(&answer.value(row, c"system_identifier")?)?,
            server: shortened(&answer.value(row, c"server").unwrap_or_default(), LONGEST_TEXT),
            until: answer.value(row, c"until")?.parse().ok()?,
            issued: answer.value(row, c"issued").map_or(Some(0), |issued| issued.parse().ok())?,
        })
    };
    let grants = (0..answer.rows()).map(grant).collect::<Option<_>>().ok_or_else(unexpected)?;
    // A registry needs no extension.
    let lives = if schema(remote, LIVES, 1).is_ok() { lives_of(remote)? } else { Vec::new() };
    Ok(Known { lives, grants, clone_of: None })
}

/// PostgreSQL's system identifier, which is negative in SQL from 2038 on.
fn identifier(text: &str) -> Option<u64> {
    text.parse().ok().map(i64::cast_unsigned)
}

fn lives_of(remote: &mut Remote) -> Result<Vec<Life>, Failure> {
    let schema = schema(remote, LIVES, 1)?;
    let fields = FIELDS.map(|field| format!("t.told OPERATOR(pg_catalog.->>) '{field}'::pg_catalog.text AS {field}"));
    let lives = format!(
        "SELECT {} FROM {schema}.{LIVES}({VERSION}::pg_catalog.int4) AS t (told) LIMIT {}",
        fields.join(", "),
        lives::ROOM
    );
    let lives = CString::new(lives).map_err(|_| unexpected())?;
    let answer = query(remote, &lives, &[])?;
    if answer.rows() > lives::ROOM {
        return Err(unexpected());
    }
    (0..answer.rows()).map(|row| read_life(&answer, row)).collect::<Option<_>>().ok_or_else(unexpected)
}

fn read_life(answer: &Answer, row: usize) -> Option<Life> {
    let text = |column| answer.value(row, column);
    let number = |column| text(column)?.parse::<u64>().ok();
    let random = |column| u64::from_str_radix(&text(column)?, 16).ok();
    let (layout, worker): (Layout, u64) = (text(c"layout")?.parse().ok()?, number(c"worker_id")?);
    let version = number(c"version")?;
    let life = Life {
        number: random(c"life")?,
        server: random(c"server")?,
        system_identifier: identifier(&text(c"system_identifier")?)?,
        is_own: text(c"is_own")?.parse().ok()?,
        nth: number(c"number")?,
        timeline: number(c"timeline")?,
        worker,
        layout,
        reason: shortened(&text(c"reason")?, LONGEST_TEXT),
        begins: number(c"begins_at")?,
        issued: number(c"issued_until")?,
        reserved: number(c"reserved_until")?,
        state: State::of(&text(c"state")?),
        ended: number(c"ended_at")?,
        found: number(c"found")?,
        logged: number(c"logged")?,
        follows: random(c"follows")?,
    };
    // In an answer of any other kind there could be anything.
    let is_known = (1..=VERSION.unsigned_abs().into()).contains(&version);
    let is_ordered = life.begins <= life.issued && life.issued <= life.reserved;
    let is_within = life.begins >= layout.time_of(0) && life.reserved <= layout.end();
    let is_worker = layout == layout.flat() && layout.workers().contains(&worker);
    (is_known && is_ordered && is_within && is_worker).then_some(life)
}

fn unexpected() -> Failure {
    Failure::local("the server has sent an unexpected answer")
}

/// Reads the answer of a server that looked at its clock when the one here showed `at_us`, give or take half of the
/// round trip.
fn read_answer(answer: &Answer, at_us: u64, half_trip_us: u64) -> Option<Account> {
    let at_us = i64::try_from(at_us).ok()?;
    let ahead_us = number::<i64>(answer, c"clock")?.checked_sub(at_us)?;
    let state = shortened(&answer.value(0, c"state")?, LONGEST_TEXT);
    let layout = answer.value(0, c"layout").map(|layout| shortened(&layout, LONGEST_TEXT));
    let known: Option<Layout> = layout.as_ref().and_then(|layout| layout.parse().ok());
    let has_none = known.is_none_or(|layout| !layout.has_datacenter());
    let datacenter = number(answer, c"datacenter_id").or(has_none.then_some(0));
    let member = Member {
        server: 0,
        system_identifier: number(answer, c"system_identifier")?,
        numbers: datacenter.zip(number(answer, c"worker_id")),
        // A server that does not preload the library has only a default.
        layout: layout.filter(|_| state != super::NOT_PRELOADED),
        is_standby: number::<u8>(answer, c"in_recovery")? != 0,
        has_wal_mark: answer.value(0, c"wal_mark").is_some_and(|mark| mark == "prefer" || mark == "require"),
        clock: Clock { ahead_ms: ahead_us / 1000, error_ms: half_trip_us / 1000 + 1 },
    };
    Some(Account { state, started_us: number(answer, c"started")?, member })
}

fn number<T: FromStr>(answer: &Answer, column: &CStr) -> Option<T> {
    answer.value(0, column)?.parse().ok()
}
