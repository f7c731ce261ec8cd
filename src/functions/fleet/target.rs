//! A server to ask: by a connection string, or by the name of a foreign server.
//!
//! Whoever calls may connect as the operating system's user of this server only if a superuser has chosen every
//! parameter.

use super::ask::{self, Account};
use crate::postgres::failure::Failure;
use crate::postgres::foreign_server::ForeignServer;
use crate::postgres::libpq::{self, Kind, Parameter};
use crate::postgres::remote::Remote;
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, shortened, to_utf8};
use pgrx::prelude::*;
use snowflake_core::mark::audit::Known;
use std::ffi::CString;
use std::time::{Duration, Instant};

/// How long one server may keep the check waiting, with all hosts of its connection string.
const CONNECTING: Duration = Duration::from_secs(60);

/// How many characters of an address are shown.
const LONGEST_ADDRESS: usize = 100;

/// How many characters are shown of an error.
const LONGEST_ERROR: usize = 500;

/// A server to ask.
pub struct Target {
    /// `None` if the connection string is invalid.
    parameters: Option<Vec<Parameter>>,
    /// The name of the foreign server, if it is one.
    name: Option<String>,
    /// Whether it must ask for a password, and get one that was given.
    needs_password: bool,
}

impl Target {
    /// The server that an element of an array names. An ERROR if the user may not ask it so.
    pub fn new(nth: usize, element: &[u8]) -> Self {
        let (target, forbidden) =
            if is_connection_string(element) { by_connection_string(element) } else { by_name(nth, element) };
        // mutant: fleet-password
        if target.needs_password && target.value("password").is_none() {
            raise(password_required(nth, target.name.is_some()));
        }
        // mutant: fleet-debugging
        if target.needs_password
            && let Some(parameter) = forbidden
        {
            raise(for_superusers(nth, &parameter));
        }
        target
    }

    fn value(&self, name: &str) -> Option<&str> {
        let parameter = self.parameters.as_ref()?.iter().find(|(given, _)| given == name);
        parameter.map(|(_, value)| value.as_str())
    }

    /// The name of the foreign server; or the host and the port, or the service, as the connection string has them;
    /// `None` if it has none of them. Never anything else, which may be secret.
    pub fn address(&self) -> Option<String> {
        let host = self.value("host").or_else(|| self.value("hostaddr"));
        let address = match (host, self.value("port"), self.value("service")) {
            _ if self.name.is_some() => self.name.clone()?,
            (Some(host), Some(port), _) if host.contains(':') => format!("[{host}]:{port}"),
            (Some(host), Some(port), _) => format!("{host}:{port}"),
            (Some(host), None, _) => host.to_owned(),
            (None, _, Some(service)) => service.to_owned(),
            (None, Some(port), None) => format!("port {port}"),
            (None, None, None) => return None,
        };
        Some(shortened(&address, LONGEST_ADDRESS))
    }

    /// Connects by this name, and begins a transaction. A pooler that gives each transaction a session would give two
    /// of them different ones, and what is set there would stay for others. An error if a password was needed and the
    /// server has not asked for it.
    fn connect(&self, name: &str) -> Result<Remote, Failure> {
        let parameters = self.parameters.as_ref().ok_or_else(|| Failure::local("invalid connection string"))?;
        let given = [parameters.as_slice(), &[("application_name".to_owned(), name.to_owned())]].concat();
        let mut remote = Remote::connect_by(&given, Instant::now() + CONNECTING, check_interrupts)?;
        // mutant: fleet-password-used
        if self.needs_password && !remote.has_used_password() {
            return Err(Failure::local("password is required, and the server has not requested one"));
        }
        ask::begin(&mut remote, name)?;
        Ok(remote)
    }

    /// Asks the server which it is; an error is what has gone wrong.
    pub fn ask(&self) -> Result<Account, String> {
        let ask = || ask::ask(&mut self.connect("snowflake_check_fleet")?);
        ask().map_err(in_a_line)
    }

    /// Asks the server for the lives that it knows; an error is what has gone wrong.
    pub fn ask_lives(&self) -> Result<Known, String> {
        let ask = || ask::ask_lives(&mut self.connect("snowflake_audit_fleet")?);
        ask().map_err(in_a_line)
    }

    /// Does something while a session with this name runs there; `None` if it does not, or not to the end. `is_it` says
    /// whether the server is still the one that is meant: a load balancer can choose another one each time.
    pub fn while_session<T>(&self, name: &str, is_it: &IsIt, act: impl FnOnce() -> Option<T>) -> Option<T> {
        let mut session = self.connect(name).ok()?;
        let outcome = is_it(&mut session).then(act).flatten()?;
        // A server can have a limit for sessions that do nothing.
        ask::is_there(&mut session).then_some(outcome)
    }

    /// Whether a session with this name runs there; `None` if the server does not say, or is not the one that is meant.
    pub fn sees(&self, name: &str, is_it: &IsIt) -> Option<bool> {
        let mut remote = self.connect("snowflake_check_fleet").ok()?;
        if !is_it(&mut remote) {
            return None;
        }
        ask::sees(&mut remote, name)
    }
}

/// Whether a connection leads to the server that is meant.
pub type IsIt<'a> = dyn Fn(&mut Remote) -> bool + 'a;

/// As libpq tells a connection string from the name of a database.
fn is_connection_string(text: &[u8]) -> bool {
    text.contains(&b'=') || [&b"postgresql://"[..], b"postgres://"].iter().any(|prefix| text.starts_with(prefix))
}

fn is_superuser() -> bool {
    // SAFETY: asks about the current user.
    unsafe { pg_sys::superuser() }
}

/// The target, and the name of a parameter by which libpq could write a file as this server's user, or would read one
/// that no superuser has chosen.
fn by_connection_string(text: &[u8]) -> (Target, Option<String>) {
    let text = CString::new(to_utf8(text)).ok();
    let parameters = text.as_deref().and_then(libpq::parse).filter(|parameters| has_address(parameters));
    let target = Target { parameters, name: None, needs_password: !is_superuser() };
    (target, text.as_deref().and_then(|text| libpq::find(text, |kind| kind.may_write || kind.is_read)))
}

/// The same of a foreign server. As for dblink, a mapping, which a user may make, says no more than the user and what
/// is secret.
fn by_name(nth: usize, name: &[u8]) -> (Target, Option<String>) {
    let found = CString::new(name).ok().filter(|_| name.len() < pg_sys::NAMEDATALEN as usize);
    let server = found.and_then(|name| ForeignServer::find(&name)).unwrap_or_else(|| raise(unknown(nth)));
    let is_of_user = |name: &str| libpq::kind(name).is_some_and(|kind| kind.is_secret || name == "user");
    let is_of_server = |name: &str| libpq::kind(name).is_some() && !is_of_user(name);
    let of_server = server.options.into_iter().filter(|(name, value)| is_of_server(name) && !value.is_empty());
    // mutant: foreign-server-mapping
    let of_user = server.of_user.into_iter().filter(|(name, value)| is_of_user(name) && !value.is_empty());
    let parameters: Vec<_> = of_server.chain(of_user).collect();
    // mutant: fleet-files
    let is_forbidden = |kind: Kind| kind.may_write || kind.is_read && !server.is_of_superuser;
    let mut names = parameters.iter().map(|(name, _)| name);
    let forbidden = names.find(|name| libpq::kind(name).is_some_and(is_forbidden)).cloned();
    // mutant: foreign-server-owner
    let needs_password = !is_superuser() || !server.is_of_superuser;
    let target = Target { parameters: Some(parameters), name: Some(characters(name).into_owned()), needs_password };
    (target, forbidden)
}

/// Whether the host and the port look like an address. In a URL with an unescaped @ or / in its password, libpq finds a
/// part of the password there.
fn has_address(parameters: &[Parameter]) -> bool {
    parameters.iter().all(|(name, value)| match name.as_str() {
        // An abstract socket begins with @.
        // mutant: fleet-host
        "host" | "hostaddr" => !value.split(',').any(|host| host.chars().skip(1).any(|c| c == '@')),
        "port" => value.chars().all(|c| c.is_ascii_digit() || c == ','),
        _ => true,
    })
}

/// Messages of libpq have several lines.
fn in_a_line(failure: Failure) -> String {
    let words: Vec<_> = failure.message.split_whitespace().collect();
    shortened(&words.join(" "), LONGEST_ERROR)
}

fn check_interrupts() -> Result<(), Failure> {
    // mutant: fleet-cancelled
    pgrx::check_for_interrupts!();
    Ok(())
}

/// The error for a name that nothing has. Without the text: it may be a connection string with a typing error, and have
/// a password.
fn unknown(nth: usize) -> pg_sys::panic::ErrorReport {
    let message = format!("server {nth} is neither a connection string nor the name of a foreign server");
    error_report(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, message)
        .set_hint("Use a name of pg_foreign_server, or a connection string, such as 'host=pg-2 dbname=postgres'.")
}

/// The error for a target without a password: the user could connect as the operating system's user of this server, or
/// by a password or a key of that user.
fn password_required(nth: usize, is_foreign: bool) -> pg_sys::panic::ErrorReport {
    let code = PgSqlErrorCode::ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED;
    let (detail, hint) = if is_foreign {
        (
            "Only superusers need none, on foreign servers of superusers.",
            format!("Use ALTER USER MAPPING to add a password for server {nth}."),
        )
    } else {
        (
            "Non-superusers must provide a password in the connection string.",
            format!("Use the name of a foreign server, or add a password to connection string {nth}."),
        )
    };
    error_report(code, "password is required").set_detail(detail).set_hint(hint)
}

fn for_superusers(nth: usize, parameter: &str) -> pg_sys::panic::ErrorReport {
    let code = PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE;
    error_report(code, format!("connection parameter \"{parameter}\" is for superusers"))
        .set_hint(format!("Remove it from server {nth}, or let a superuser give it and call the function."))
}
