//! What a server asks of a registry, and what the registry answers: the functions `server_...` of `sql/registry`.

use crate::postgres::clock;
use crate::postgres::failure::Failure;
use crate::postgres::libpq::Answer;
use crate::postgres::remote::Remote;
use pgrx::pg_sys;
use snowflake_core::UnixMs;
use snowflake_core::registry_client::io::{Claim, Claimed, Grant, Renewal};
use snowflake_core::server::lease::{Lease, LeaseStart, Token};
use std::ffi::{CStr, CString};
use std::str::FromStr;
use std::time::Instant;

/// The version of the registry that this extension knows.
const VERSION: u64 = 1;

/// A connection to the registry, which has said hello.
pub struct Session {
    remote: Remote,
    until: Instant,
    /// How far the clock of this server is ahead of the registry's, in milliseconds.
    pub clock_offset_ms: i64,
    /// By how much the offset can be wrong.
    pub clock_error_ms: u64,
}

/// What the registry is told about a server, beside its lease.
pub struct About {
    /// The layout of its IDs.
    pub layout: String,
    /// `cluster_name`; `None` if it is empty.
    pub server: Option<String>,
    /// PostgreSQL's system identifier.
    pub system: u64,
    /// The host's name.
    pub host: String,
    /// The port of the server.
    pub port: i32,
    /// How long the lease is to be.
    pub lease_ms: u64,
    /// The latest of what the clock shows, of the last timestamp issued, and of the mark that was found.
    pub clock: UnixMs,
    /// Every timestamp issued is below this; 0 if none was.
    pub issued_until: UnixMs,
    /// Where the IDs of its lease began, if it has one.
    pub begins: Option<UnixMs>,
}

/// What the registry says beside its answer.
#[derive(Default)]
pub struct Notes {
    /// The server that now has the worker that this server had before, if there is one.
    pub holder: Option<String>,
    /// A server that has a lease and another layout.
    pub layout: Option<String>,
    /// A server that has had the same worker for the same time.
    pub conflict: Option<String>,
}

impl Notes {
    fn read(answer: &Answer) -> Self {
        let [holder, layout, conflict] =
            [c"holder_note", c"layout_note", c"conflict_note"].map(|column| answer.value(0, column));
        Self { holder, layout, conflict }
    }
}

impl Session {
    /// Connects, and compares clocks.
    pub fn begin(
        conninfo: &str,
        known: Option<&Lease>,
        until: Instant,
        check_interrupts: fn() -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut remote = Remote::connect(conninfo, until, check_interrupts).map_err(that_passes)?;
        let parameters = [
            known.map(|lease| uuid(lease.tokens[0])),
            known.map(|lease| lease.granted_until.to_string()),
            known.map(|lease| hexadecimal(&lease.receipt)),
            known.map(|lease| lease.worker.to_string()),
            known.map(|lease| lease.revision.to_string()),
        ];
        let query = c"SELECT registry_version, clock FROM snowflake_registry.server_hello(
            held_token => $1, held_until => $2, held_receipt => $3, worker_id => $4, seen_revision => $5)";
        let (sent, at) = (Instant::now(), clock::unix_ms());
        let answer = remote.query(query, &parameters, until).map_err(with_hint)?;
        let error_ms = u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX) / 2;
        let version: u64 = required(&answer, c"registry_version")?;
        // mutant: registry-version
        if version < VERSION {
            return Err(Failure {
                hint: "Run ALTER EXTENSION snowflake_registry UPDATE in the registry, or this version's snowflake_registry.sql.".to_owned(),
                ..Failure::local(format!("the registry has version {version}, and this server needs {VERSION}"))
            });
        }
        let theirs: UnixMs = required(&answer, c"clock")?;
        let ours = at.saturating_add(error_ms);
        let clock_offset_ms = i64::try_from(i128::from(ours) - i128::from(theirs)).unwrap_or(i64::MAX);
        Ok(Self { remote, until, clock_offset_ms, clock_error_ms: error_ms + 1 })
    }

    /// Makes the calls of this session end at another time.
    pub fn until(self, until: Instant) -> Self {
        Self { until, ..self }
    }

    /// Leases a worker. Where the server had a lease, its worker if that is free.
    pub fn claim(&mut self, had: Option<&Lease>, claim: &Claim, about: &About) -> Result<(Claimed, Notes), Failure> {
        let parameters = [
            ("held_tokens", tokens(had)),
            ("new_token", Some(uuid(claim.token))),
            ("configured_worker_id", claim.wish.worker.map(|worker| worker.to_string())),
            ("least_worker_id", Some(claim.wish.least.to_string())),
            ("greatest_worker_id", Some(claim.wish.greatest.to_string())),
            ("avoided_worker_id", claim.avoided.map(|worker| worker.to_string())),
        ];
        let answer = self.ask_about("server_claim", &parameters, about)?;
        let begins = required(&answer, c"begins_at")?;
        // mutant: first-lease-margin
        let start = if is_true(&answer, c"is_first") { LeaseStart::First(begins) } else { LeaseStart::At(begins) };
        let claimed = Claimed { worker: required(&answer, c"worker_id")?, start, grant: grant(&answer)? };
        Ok((claimed, Notes::read(&answer)))
    }

    /// Extends a lease, which has the other one of its tokens from then on.
    pub fn renew(&mut self, lease: &Lease, about: &About) -> Result<(Renewal<Failure>, Notes), Failure> {
        let answer = self.ask_about("server_renew", &renewal(lease, lease), about)?;
        let renewal = if answer.value(0, c"granted_until").is_some() {
            Renewal::Granted(grant(&answer)?)
        } else {
            let text = |column| answer.value(0, column).unwrap_or_default();
            Renewal::Refused {
                failure: Failure { detail: text(c"refusal"), hint: text(c"hint"), ..Failure::local("") },
                is_final: is_true(&answer, c"is_final"),
                must_stop: is_true(&answer, c"must_stop"),
            }
        };
        Ok((renewal, Notes::read(&answer)))
    }

    /// Ends a lease early: from then on, it is the lowered one, beyond which the server issues nothing. Its new token
    /// is not presented, so that a release that arrives late does not end the next renewal's grant.
    pub fn release(&mut self, held: &Lease, lowered: &Lease, about: &About) -> Result<Grant, Failure> {
        let mut parameters = Vec::from(renewal(held, lowered));
        parameters.push(("lowered_until", Some(lowered.granted_until.to_string())));
        grant(&self.ask_about("server_release", &parameters, about)?)
    }

    /// Calls a function with these arguments, and with what the server says about itself. By names, so that a later
    /// registry can have more of them.
    fn ask_about(&mut self, function: &str, arguments: &[Argument], about: &About) -> Result<Answer, Failure> {
        let about = about.values(self.clock_offset_ms);
        let given = (1..).zip(arguments).map(|(nth, (name, _))| format!("{name} => ${nth}, ")).collect::<String>();
        let said =
            about.iter().zip(arguments.len() + 1..).map(|((name, kind, _), nth)| format!("'{name}', ${nth}::{kind}"));
        let said = said.collect::<Vec<_>>().join(", ");
        let query = format!(
            "SELECT * FROM snowflake_registry.{function}({given}about => pg_catalog.jsonb_build_object({said}))"
        );
        let query = CString::new(query).expect("no zero byte");
        let given = arguments.iter().map(|(_, value)| value.clone());
        let values: Vec<_> = given.chain(about.into_iter().map(|(_, _, value)| value)).collect();
        self.remote.query(&query, &values, self.until)
    }
}

impl About {
    /// Each value with its name and type.
    fn values(&self, clock_offset_ms: i64) -> [(&'static str, &'static str, Option<String>); 10] {
        [
            ("lease_ms", "bigint", Some(self.lease_ms.to_string())),
            ("clock", "bigint", Some(self.clock.to_string())),
            ("clock_offset_ms", "bigint", Some(clock_offset_ms.to_string())),
            ("issued_until", "bigint", Some(self.issued_until.to_string())),
            ("begins_at", "bigint", self.begins.map(|begins| begins.to_string())),
            ("layout", "text", Some(self.layout.clone())),
            ("server", "text", self.server.clone()),
            ("system_identifier", "bigint", Some(self.system.cast_signed().to_string())),
            ("host", "text", Some(self.host.clone())),
            ("port", "integer", Some(self.port.to_string())),
        ]
    }
}

/// An argument of a function of the registry: its name and its value.
type Argument = (&'static str, Option<String>);

/// What proves a lease, with the token of the next one.
fn renewal(lease: &Lease, next: &Lease) -> [Argument; 6] {
    [
        ("held_tokens", tokens(Some(lease))),
        ("new_token", Some(uuid(next.tokens[1]))),
        ("held_until", Some(lease.granted_until.to_string())),
        ("held_receipt", Some(hexadecimal(&lease.receipt))),
        ("worker_id", Some(lease.worker.to_string())),
        ("seen_revision", Some(lease.revision.to_string())),
    ]
}

/// A new token.
pub fn new_token() -> Token {
    let mut token: Token = 0;
    // SAFETY: writes sixteen bytes to where there are sixteen.
    let is_random = unsafe { pg_sys::pg_strong_random((&raw mut token).cast(), size_of::<Token>()) };
    assert!(is_random, "the system has no random numbers");
    token
}

fn tokens(lease: Option<&Lease>) -> Option<String> {
    Some(lease.map_or("{}".to_owned(), |lease| format!("{{{},{}}}", uuid(lease.tokens[0]), uuid(lease.tokens[1]))))
}

/// As PostgreSQL reads a UUID.
fn uuid(token: Token) -> String {
    format!("{token:032x}")
}

fn grant(answer: &Answer) -> Result<Grant, Failure> {
    let receipt = answer.value(0, c"receipt").unwrap_or_default();
    let nth = |nth: usize| u8::from_str_radix(receipt.get(2 * nth..2 * nth + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(nth).collect();
    Ok(Grant {
        until: required(answer, c"granted_until")?,
        receipt: bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| unexpected(c"receipt"))?,
        revision: required(answer, c"revision")?,
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_true(answer: &Answer, column: &CStr) -> bool {
    answer.value(0, column).is_some_and(|value| value == "t")
}

fn required<T: FromStr>(answer: &Answer, column: &CStr) -> Result<T, Failure> {
    answer.value(0, column).and_then(|text| text.parse().ok()).ok_or_else(|| unexpected(column))
}

fn unexpected(column: &CStr) -> Failure {
    Failure::local(format!("the registry has sent an unexpected value of {}", column.to_string_lossy()))
}

/// Adds that nothing needs to be done at this server.
fn that_passes(failure: Failure) -> Failure {
    let hint = "This server tries again by itself; no restart is needed.";
    if failure.hint.is_empty() { Failure { hint: hint.to_owned(), ..failure } } else { failure }
}

/// Adds what to do if the functions of the registry cannot be called.
fn with_hint(failure: Failure) -> Failure {
    const INVALID_SCHEMA: &str = "3F000";
    const UNDEFINED_FUNCTION: &str = "42883";
    const INSUFFICIENT_PRIVILEGE: &str = "42501";
    const READ_ONLY: &str = "25006";
    let is_standby = failure.message == "recovery is in progress";
    let hint = match failure.sqlstate.as_deref() {
        Some(READ_ONLY) => {
            "The registry is a standby or read-only. Name the primary, or add target_session_attrs=read-write."
        }
        _ if is_standby => "The registry is a standby. Name the primary, or add target_session_attrs=read-write.",
        Some(INVALID_SCHEMA | UNDEFINED_FUNCTION) => {
            "Run CREATE EXTENSION snowflake_registry, or snowflake_registry.sql, in the database of the registry."
        }
        Some(INSUFFICIENT_PRIVILEGE) => "Grant snowflake_registry_server to the role of this server in the registry.",
        _ => return failure,
    };
    Failure { hint: hint.to_owned(), ..failure }
}
