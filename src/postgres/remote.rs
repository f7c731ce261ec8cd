//! Asks other PostgreSQL servers, and waits for them like a backend: interruptibly, and only so long.
//!
//! libpq does not keep to `connect_timeout` when the application waits itself, and would wait for the first of several
//! hosts for ever. So the hosts after a silent one are tried without it, and so are the other addresses of its name.
//! Nothing interrupts the system's resolver, as in postgres_fdw and dblink: interrupts count when it has answered or
//! given up.

use crate::postgres::failure::Failure;
use crate::postgres::libpq::{self, Answer, Connection, Parameter, Pending};
use crate::postgres::memory;
use crate::postgres::sleep::{self, WaitEvent};
use pgrx::pg_sys;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_long};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

/// How long to wait for a host to accept a connection, unless `connect_timeout` says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often interrupts are looked for at least.
const PAUSE: Duration = Duration::from_secs(1);

/// How much memory an answer may need. That of a registry with as many workers as it can have needs 20 MB.
const MOST_MEMORY_MB: usize = 64;

/// A connection to another server, whose calls end at a time.
pub struct Remote {
    connection: Connection,
    /// Called whenever the process wakes up; an error ends the wait.
    check_interrupts: fn() -> Result<(), Failure>,
    /// What the process had before it connected, or asked.
    memory: usize,
}

impl Remote {
    /// Connects to the first host of a connection string that accepts it, and empties the search_path of the session.
    /// `check_interrupts` is called whenever the process wakes up, and may end the wait.
    pub fn connect(
        conninfo: &str,
        until: Instant,
        check_interrupts: fn() -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let parameters = CString::new(conninfo).ok().and_then(|text| libpq::parse(&text));
        let parameters = parameters.ok_or_else(|| Failure::local("invalid connection string"))?;
        let mut remote = Self::connect_by(&parameters, until, check_interrupts)?;
        // A role that may create in a schema there must not change what a query means.
        remote.query(c"SELECT pg_catalog.set_config('search_path', '', false)", &[], until)?;
        Ok(remote)
    }

    /// Connects by the parameters of a connection string. Leaves the search_path as it is.
    pub fn connect_by(
        parameters: &[Parameter],
        until: Instant,
        check_interrupts: fn() -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let fixed = [("fallback_application_name", "snowflake_pg"), ("client_encoding", "UTF8")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let begin = |parameters: &[Parameter]| {
            let connection = sleep::with_wait_event(WaitEvent::Remote, || Connection::start(parameters));
            // mutant: look-up-cancelled
            check_interrupts()?;
            connection
        };
        let connection = begin(&[parameters, &fixed].concat())?;
        let parameters = connection.parameters();
        let timeout = timeout_of(&parameters);
        let memory = memory::own();
        let finish = |connection| {
            let mut remote = Self { connection, check_interrupts, memory };
            remote.finish_connecting(until.min(Instant::now() + timeout)).map(|in_time| in_time.then_some(remote))
        };
        // libpq itself tries the next host or address if one refuses.
        let mut outcome = finish(connection);
        let mut hosts = hosts(&parameters);
        // mutant: silent-host
        while let Ok(None) = outcome
            && Instant::now() < until
            && let Some(silent) = hosts.pop_front()
        {
            other_addresses(&silent).into_iter().rev().for_each(|address| hosts.push_front(address));
            if !hosts.is_empty() {
                outcome = begin(&with_hosts(&parameters, &hosts)).and_then(finish);
            }
        }
        outcome?.ok_or_else(|| Failure::of_connection("could not connect to server: timeout expired"))
    }

    /// Waits until the connection is made; false if time has run out.
    fn finish_connecting(&mut self, until: Instant) -> Result<bool, Failure> {
        // As the manual says, the first wait is for writing.
        let mut pending = Some(Pending::Write);
        while let Some(what) = pending {
            if !self.wait(what, until)? {
                return Ok(false);
            }
            pending = self.connection.poll()?;
        }
        Ok(true)
    }

    /// The rows that a query returns. Parameters are NULL or texts.
    pub fn query(&mut self, query: &CStr, parameters: &[Option<String>], until: Instant) -> Result<Answer, Failure> {
        self.memory = memory::own();
        self.connection.send(query, parameters)?;
        let first = self.answer(until)?.unwrap_or_else(|| Err(Failure::local("the server has sent no answer")));
        // Another one is not waited for to its end: there can be answers without end.
        // mutant: remote-answers
        let is_only = self.answer(until)?.is_none();
        if is_only || first.is_err() { first } else { Err(Failure::local("the server has sent more than one answer")) }
    }

    /// The next answer to a query; `None` after the last one.
    fn answer(&mut self, until: Instant) -> Result<Option<Result<Answer, Failure>>, Failure> {
        while let Some(what) = self.connection.advance()? {
            if !self.wait(what, until)? {
                return Err(Failure::of_connection("the server did not answer in time"));
            }
        }
        Ok(self.connection.answer())
    }

    /// Whether the server has asked for the password.
    pub fn has_used_password(&self) -> bool {
        self.connection.has_used_password()
    }

    /// Waits until the socket is ready; false if time has run out. Never for less: libpq would wait itself,
    /// uninterruptibly, to write to a socket that is not connected yet.
    fn wait(&self, what: Pending, until: Instant) -> Result<bool, Failure> {
        let event = match what {
            Pending::Read => pg_sys::WL_SOCKET_READABLE,
            Pending::Write => pg_sys::WL_SOCKET_WRITEABLE,
        };
        let events = event | pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        let socket = self.connection.socket()?;
        // libpq keeps what it has received, and prepares for as much as the server announces.
        // mutant: remote-memory
        if memory::own().saturating_sub(self.memory) > MOST_MEMORY_MB << 20 {
            return Err(Failure::local(format!("the server's answer needs more than {MOST_MEMORY_MB} MB of memory")));
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let timeout = c_long::try_from(left.min(PAUSE).as_millis()).unwrap_or(c_long::MAX).max(1);
            let (flags, event_number) = (events.cast_signed(), WaitEvent::Remote.number());
            // SAFETY: PostgreSQL gives each process its latch when it starts. The socket is open.
            let happened = unsafe {
                let happened = pg_sys::WaitLatchOrSocket(pg_sys::MyLatch, flags, socket, timeout, event_number);
                pg_sys::ResetLatch(pg_sys::MyLatch);
                happened
            };
            (self.check_interrupts)()?;
            // mutant: libpq-event
            if happened.cast_unsigned() & event > 0 {
                return Ok(true);
            }
        }
    }
}

fn value<'a>(parameters: &'a [Parameter], name: &str) -> Option<&'a str> {
    parameters.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

/// How long to wait for a host.
fn timeout_of(parameters: &[Parameter]) -> Duration {
    let seconds = value(parameters, "connect_timeout").and_then(|seconds| seconds.parse().ok()).filter(|&s| s > 0);
    seconds.map_or(CONNECT_TIMEOUT, Duration::from_secs)
}

/// The parameters that list something for each host.
const LISTS: [&str; 3] = ["host", "hostaddr", "port"];

/// A host, by the values of [`LISTS`]. They are empty where none is given.
type Host = [String; 3];

/// The hosts of a connection, as libpq matches the lists.
fn hosts(parameters: &[Parameter]) -> VecDeque<Host> {
    let lists = LISTS.map(|name| value(parameters, name).map_or_else(Vec::new, |list| list.split(',').collect()));
    let count = lists[0].len().max(lists[1].len()).max(1);
    let host = |nth: usize| {
        lists.each_ref().map(|list: &Vec<&str>| {
            let value = if list.len() == 1 { list.first() } else { list.get(nth) };
            value.copied().unwrap_or_default().to_owned()
        })
    };
    (0..count).map(host).collect()
}

/// The parameters, but with these hosts.
fn with_hosts(parameters: &[Parameter], hosts: &VecDeque<Host>) -> Vec<Parameter> {
    let list = |nth: usize| hosts.iter().map(|host| host[nth].as_str()).collect::<Vec<_>>().join(",");
    let others = parameters.iter().filter(|(name, _)| !LISTS.contains(&name.as_str())).cloned();
    others.chain(LISTS.iter().enumerate().map(|(nth, name)| ((*name).to_owned(), list(nth)))).collect()
}

/// The addresses behind the name of a host, except the first, which libpq has tried.
fn other_addresses([name, address, port]: &Host) -> Vec<Host> {
    if !address.is_empty() || name.is_empty() || name.starts_with(['/', '@']) {
        return Vec::new();
    }
    let addresses = (name.as_str(), 0).to_socket_addrs().into_iter().flatten().skip(1);
    addresses.map(|address| [name.clone(), address.ip().to_string(), port.clone()]).collect()
}
