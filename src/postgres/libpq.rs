//! libpq, PostgreSQL's client library, as safe functions that never wait. See "Asynchronous Command Processing" in
//! PostgreSQL's manual.

use crate::postgres::failure::Failure;
use pgrx::pg_sys;
use pq_sys::{ConnStatusType, ExecStatusType, PGconn, PGresult, PQconninfoOption, PostgresPollingStatusType};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

/// A connection, or one that is being made.
pub struct Connection {
    libpq: NonNull<PGconn>,
    /// Dropped after the connection has ended.
    _socket: ExternalFd,
}

/// An open file that fd.c counts, although it has not opened it: see storage/fd.h.
struct ExternalFd(());

impl ExternalFd {
    /// An error if this process has too many. One more remains available, since PostgreSQL raises an ERROR if it has
    /// none to wait for a socket.
    fn acquire() -> Result<Self, Failure> {
        // SAFETY: counts, and may close files that PostgreSQL opens again when it needs them.
        let acquire = || unsafe { pg_sys::AcquireExternalFD() }.then(|| Self(()));
        // mutant: connection-files
        let both = acquire().and_then(|socket| acquire().map(|_wait| socket));
        both.ok_or_else(|| Failure {
            hint: "Raise the server's max_files_per_process and/or \"ulimit -n\" limits.".to_owned(),
            ..Failure::local("could not establish connection: too many open files on the local server")
        })
    }
}

impl Drop for ExternalFd {
    fn drop(&mut self) {
        // SAFETY: acquired, as this exists.
        // mutant: connection-closed
        unsafe { pg_sys::ReleaseExternalFD() };
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Waits to read from its socket.
    Read,
    /// Waits to write to its socket.
    Write,
}

/// A parameter of a connection: its name and its value.
pub type Parameter = (String, String);

/// The parameters that name what libpq reads: those of libpq 15 to 19.
const READ: [&str; 7] = ["sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "passfile", "oauth_ca_file"];

/// What libpq says about a parameter.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Whether it is a password, or another value that libpq calls secret.
    pub is_secret: bool,
    /// Whether libpq could write a file by it. Some of those that it has for debugging do, as does `sslkeylogfile` of
    /// libpq 18. A file that `servicefile` of libpq 19 names can have them, too.
    pub may_write: bool,
    /// Whether it names a file that libpq reads. Nothing interrupts that, and a FIFO or a terminal never ends.
    pub is_read: bool,
}

/// The parameters of a connection string that have a value; `None` if it is invalid. libpq's own message would quote a
/// part of it, which may be a password.
pub fn parse(conninfo: &CStr) -> Option<Vec<Parameter>> {
    assignments(conninfo).map(|all| all.into_iter().map(|assignment| assignment.parameter).collect())
}

/// Whether a connection string has a secret.
pub fn has_secret(conninfo: &CStr) -> bool {
    assignments(conninfo).is_some_and(|all| all.iter().any(|assignment| assignment.kind.is_secret))
}

/// The name of a parameter of this kind in a connection string.
pub fn find(conninfo: &CStr, is_meant: impl Fn(Kind) -> bool) -> Option<String> {
    let found = assignments(conninfo)?.into_iter().find(|assignment| is_meant(assignment.kind));
    found.map(|assignment| assignment.parameter.0)
}

/// What libpq says about the parameter with this name; `None` if it has none.
pub fn kind(name: &str) -> Option<Kind> {
    // SAFETY: as below.
    let all = unsafe { consume(pq_sys::PQconninfoParse(c"".as_ptr(), std::ptr::null_mut())) };
    all?.into_iter().find(|assignment| assignment.parameter.0 == name).map(|assignment| assignment.kind)
}

fn assignments(conninfo: &CStr) -> Option<Vec<Assignment>> {
    // SAFETY: takes a C string, asks for no message, and gives a list or null, which nothing else uses.
    unsafe { consume(pq_sys::PQconninfoParse(conninfo.as_ptr(), std::ptr::null_mut())) }.map(with_values)
}

/// A parameter, whose value can be empty.
struct Assignment {
    parameter: Parameter,
    kind: Kind,
}

/// Those that have a value.
fn with_values(mut all: Vec<Assignment>) -> Vec<Assignment> {
    all.retain(|assignment| !assignment.parameter.1.is_empty());
    all
}

/// Frees a list, and gives its parameters; `None` if it is null.
///
/// # Safety
///
/// Only for lists that libpq has made. They must not be used afterwards.
unsafe fn consume(options: *mut PQconninfoOption) -> Option<Vec<Assignment>> {
    if options.is_null() {
        return None;
    }
    let mut parameters = Vec::new();
    for nth in 0.. {
        // SAFETY: the list, which is freed below, ends with an entry without a keyword, and nothing after it is read.
        let option = unsafe { &*options.add(nth) };
        if option.keyword.is_null() {
            break;
        }
        let (name, shown) = (text(option.keyword), text(option.dispchar));
        let may_write = shown.starts_with('D') || name == "servicefile";
        let kind = Kind { is_secret: shown.starts_with('*'), may_write, is_read: READ.contains(&name.as_str()) };
        parameters.push(Assignment { parameter: (name, text(option.val)), kind });
    }
    // SAFETY: frees the whole list, of which nothing is used any more.
    unsafe { pq_sys::PQconninfoFree(options) };
    Some(parameters)
}

impl Connection {
    /// Begins to connect. The last one of two parameters with the same name counts. A database name that looks like a
    /// connection string is a name: it must not override what a caller has checked.
    pub fn start(parameters: &[Parameter]) -> Result<Self, Failure> {
        let text =
            |text: &String| CString::new(text.as_str()).map_err(|_| Failure::local("a parameter has a zero byte"));
        let names = parameters.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>, _>>()?;
        let values = parameters.iter().map(|(_, value)| text(value)).collect::<Result<Vec<_>, _>>()?;
        let list = |texts: &[CString]| -> Vec<*const c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (names, values) = (list(&names), list(&values));
        let socket = ExternalFd::acquire()?;
        // SAFETY: two lists of C strings, which end with a null pointer. `names` and `values` above own the strings.
        // mutant: database-name
        let connection = unsafe { pq_sys::PQconnectStartParams(names.as_ptr(), values.as_ptr(), 0) };
        let libpq = NonNull::new(connection).ok_or_else(|| Failure::local("out of memory"))?;
        let connection = Self { libpq, _socket: socket };
        // SAFETY: a function that takes what libpq gives it, and uses nothing.
        // mutant: remote-notices
        unsafe { pq_sys::PQsetNoticeProcessor(connection.raw(), Some(ignore), std::ptr::null_mut()) };
        // SAFETY: the connection ends only when it is dropped.
        if unsafe { pq_sys::PQstatus(connection.raw()) } == ConnStatusType::CONNECTION_BAD {
            return Err(connection.failure());
        }
        Ok(connection)
    }

    fn raw(&self) -> *mut PGconn {
        self.libpq.as_ptr()
    }

    /// Continues to connect, when it has what it waited for; `None` once it is connected.
    pub fn poll(&mut self) -> Result<Option<Pending>, Failure> {
        // SAFETY: the connection ends only when it is dropped.
        let status = unsafe {
            let status = pq_sys::PQconnectPoll(self.raw());
            if status == PostgresPollingStatusType::PGRES_POLLING_OK {
                pq_sys::PQsetnonblocking(self.raw(), 1);
            }
            status
        };
        match status {
            PostgresPollingStatusType::PGRES_POLLING_OK => Ok(None),
            PostgresPollingStatusType::PGRES_POLLING_READING => Ok(Some(Pending::Read)),
            PostgresPollingStatusType::PGRES_POLLING_WRITING => Ok(Some(Pending::Write)),
            _ => Err(self.failure()),
        }
    }

    /// The socket, which can be another one after each [`poll`](Self::poll).
    pub fn socket(&self) -> Result<c_int, Failure> {
        // SAFETY: the connection ends only when it is dropped.
        let socket = unsafe { pq_sys::PQsocket(self.raw()) };
        if socket >= 0 { Ok(socket) } else { Err(self.failure()) }
    }

    /// All parameters in force that have a value, also those from a service file or the environment.
    pub fn parameters(&self) -> Vec<Parameter> {
        // SAFETY: the connection ends only when it is dropped. Nothing else uses the list, which can be null.
        let assignments = unsafe { consume(pq_sys::PQconninfo(self.raw())) }.unwrap_or_default();
        with_values(assignments).into_iter().map(|assignment| assignment.parameter).collect()
    }

    /// Whether the server has asked for a password.
    pub fn has_used_password(&self) -> bool {
        // SAFETY: the connection ends only when it is dropped.
        unsafe { pq_sys::PQconnectionUsedPassword(self.raw()) != 0 }
    }

    /// Begins to send a query with parameters, which are NULL or texts.
    pub fn send(&mut self, query: &CStr, parameters: &[Option<String>]) -> Result<(), Failure> {
        let text =
            |value: &String| CString::new(value.as_str()).map_err(|_| Failure::local("a parameter has a zero byte"));
        let texts: Vec<_> =
            parameters.iter().map(|value| value.as_ref().map(text).transpose()).collect::<Result<_, _>>()?;
        let values: Vec<_> =
            texts.iter().map(|value| value.as_ref().map_or(std::ptr::null(), |value| value.as_ptr())).collect();
        let count = c_int::try_from(values.len()).expect("a short list");
        let (none, no_lengths) = (std::ptr::null(), std::ptr::null());
        // SAFETY: as many C strings or null pointers as `count` says. The types are the server's choice.
        let is_sent = unsafe {
            pq_sys::PQsendQueryParams(
                self.raw(),
                query.as_ptr(),
                count,
                none,
                values.as_ptr(),
                no_lengths,
                no_lengths,
                0,
            )
        };
        if is_sent == 1 { Ok(()) } else { Err(self.failure()) }
    }

    /// Continues to send and to receive; `None` once there is a whole answer.
    pub fn advance(&mut self) -> Result<Option<Pending>, Failure> {
        // SAFETY: the connection ends only when it is dropped.
        let (unsent, is_busy) = unsafe {
            let unsent = pq_sys::PQflush(self.raw());
            if unsent < 0 || pq_sys::PQconsumeInput(self.raw()) == 0 {
                return Err(self.failure());
            }
            (unsent, pq_sys::PQisBusy(self.raw()) != 0)
        };
        Ok(is_busy.then_some(if unsent > 0 { Pending::Write } else { Pending::Read }))
    }

    /// The next answer; `None` if there is no other one. To be called when there is a whole answer.
    pub fn answer(&mut self) -> Option<Result<Answer, Failure>> {
        // SAFETY: the connection ends only when it is dropped, and so does an answer.
        let (answer, status) = unsafe {
            let answer = Answer(NonNull::new(pq_sys::PQgetResult(self.raw()))?);
            let status = pq_sys::PQresultStatus(answer.0.as_ptr());
            (answer, status)
        };
        Some(match status {
            ExecStatusType::PGRES_TUPLES_OK | ExecStatusType::PGRES_COMMAND_OK => Ok(answer),
            ExecStatusType::PGRES_FATAL_ERROR => Err(answer.failure().unwrap_or_else(|| self.failure())),
            // COPY, for one: libpq gives that answer again and again.
            _ => Err(Failure::local("the server has sent an unexpected answer")),
        })
    }

    /// What went wrong last.
    fn failure(&self) -> Failure {
        // SAFETY: the connection ends only when it is dropped.
        let message = text(unsafe { pq_sys::PQerrorMessage(self.raw()) });
        Failure::of_connection(message.trim_end())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: nothing uses the connection any more.
        unsafe { pq_sys::PQfinish(self.raw()) };
    }
}

/// The rows that a query has returned.
pub struct Answer(NonNull<PGresult>);

impl Answer {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        // SAFETY: an answer is freed only when it is dropped.
        usize::try_from(unsafe { pq_sys::PQntuples(self.0.as_ptr()) }).unwrap_or(0)
    }

    /// The value of a column of a row, from 0 on; `None` if it is NULL, or if there is no such row or column.
    pub fn value(&self, row: usize, column: &CStr) -> Option<String> {
        let (answer, row) = (self.0.as_ptr(), c_int::try_from(row).ok().filter(|_| row < self.rows())?);
        // SAFETY: the answer has this row, and the column if its number is not negative.
        let value = unsafe {
            let column = pq_sys::PQfnumber(answer, column.as_ptr());
            if column < 0 || pq_sys::PQgetisnull(answer, row, column) != 0 {
                return None;
            }
            pq_sys::PQgetvalue(answer, row, column)
        };
        Some(text(value))
    }

    /// The error that the server has reported.
    fn failure(&self) -> Option<Failure> {
        let field = |code: u8| {
            // SAFETY: an answer is freed only when it is dropped.
            text(unsafe { pq_sys::PQresultErrorField(self.0.as_ptr(), c_int::from(code)) })
        };
        let [sqlstate, message, detail, hint] = [b'C', b'M', b'D', b'H'].map(field);
        (!sqlstate.is_empty()).then_some(Failure { sqlstate: Some(sqlstate), message, detail, hint })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: nothing uses the answer any more.
        unsafe { pq_sys::PQclear(self.0.as_ptr()) };
    }
}

/// Takes notices of the server, which libpq would write to the log of this one.
extern "C" fn ignore(_nothing: *mut c_void, _notice: *const c_char) {}

/// A copy of a C string of libpq's; an empty one if there is none.
fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: a C string that nothing changes until it is copied.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
