//! Reads a table by ID, and never misses a row.

use super::horizon;
use super::time::display_interval;
use crate::issue::{readers, writer};
use crate::postgres::catalog::{c_string, identifier, name_of_table, relation_kind, type_name};
use crate::postgres::command;
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, displayable, quoted};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::pg_sys::submodules::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;
use pgrx::{FromDatum, PgRelation, Spi};
use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

/// What one call is to read.
struct Poll {
    table: PgRelation,
    after: i64,
    max_rows: i32,
    /// The column of the IDs; `None` for the primary key.
    key: Option<CString>,
    /// How long to wait for rows.
    wait: Duration,
}

/// What errors name.
const NAME: &str = "snowflake_poll()";

/// The statement of a poll holds a snapshot, and so holds VACUUM back.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The rows of a table after an ID, in the order of their IDs, and below the horizon, which is read before them.
///
/// A plain C function, since the first argument is of any type, and the rows are of that type.
#[unsafe(no_mangle)]
#[pg_guard]
extern "C-unwind" fn snowflake_poll(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    let table = table(call);
    // SAFETY: a function that returns a set, whose rows are of the type of its first argument.
    unsafe { pg_sys::InitMaterializedSRF(call, 0) };
    let poll = Poll {
        table,
        // No rows would look like a reader that has read all: one that has lost its position would wait for ever.
        after: argument(call, 1).unwrap_or_else(|| raise(is_null("after").set_hint("Begin with 0."))),
        max_rows: argument(call, 2).unwrap_or_else(|| raise(is_null("max_rows"))),
        key: argument::<&CStr>(call, 3).map(CStr::to_owned),
        wait: argument(call, 4).map(wait).unwrap_or_default(),
    };
    if poll.max_rows < 1 {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "max_rows must be greater than 0")
                .set_detail(format!("The value is {}.", poll.max_rows)),
        );
    }
    let key = poll.key();
    // SAFETY: PostgreSQL calls a function with a valid fcinfo. The call above has checked that it is to return a set.
    let result = unsafe { &*(*call).resultinfo.cast() };
    if !poll.wait.is_zero() && writer::holds_horizon() {
        raise(would_wait_for_itself());
    }
    let mut read_below = None;
    let mut look = |horizon: Option<i64>| {
        // Without rows, the query still needs the privilege to read the table.
        let horizon = horizon.unwrap_or(poll.after);
        // Below the horizon of an earlier look, there is still nothing.
        read_below.is_none_or(|below| horizon > below) && {
            read_below = Some(horizon);
            read(&poll.query(&key, horizon), result) > 0
        }
    };
    if !look(horizon::read(NAME)) {
        // What holds the horizon back was said.
        readers::wait(poll.wait, || poll.is_in_the_way() || look(horizon::look(NAME).0));
    }
    pg_sys::Datum::null()
}

/// What PG_FUNCTION_INFO_V1() defines in C.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_poll() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

unsafe extern "C-unwind" {
    // Not among pgrx's bindings; in executor/tstoreReceiver.h of each version.
    fn SetTuplestoreDestReceiverParams(
        receiver: *mut pg_sys::DestReceiver,
        store: *mut pg_sys::Tuplestorestate,
        context: pg_sys::MemoryContext,
        detoast: bool,
        rows: pg_sys::TupleDesc,
        mismatch: *const c_char,
    );
}

/// An argument; `None` if it is NULL.
fn argument<T: FromDatum>(call: pg_sys::FunctionCallInfo, number: usize) -> Option<T> {
    // SAFETY: the function is declared with an argument of this type.
    unsafe { pgrx::fcinfo::pg_getarg(call, number) }
}

fn is_null(argument: &str) -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED, format!("{argument} must not be null"))
}

/// How long to wait for rows.
fn wait(at_most: Interval) -> Duration {
    // Those of PostgreSQL's, of 30 days.
    let days = i128::from(at_most.months()) * 30 + i128::from(at_most.days());
    let micros = days * 86_400_000_000 + i128::from(at_most.micros());
    let wait = u64::try_from(micros).ok().map(Duration::from_micros).filter(|&wait| wait <= LONGEST_WAIT);
    wait.unwrap_or_else(|| {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "wait must be between 0 and 1 minute")
                .set_detail(format!("The value is {}.", display_interval(at_most)))
                .set_hint("Call again if no row is returned."),
        )
    })
}

fn would_wait_for_itself() -> ErrorReport {
    error_report(
        PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("{NAME} cannot wait in a transaction that has drawn an ID"),
    )
    .set_detail("While it waits, the transaction holds the horizon back.")
    .set_hint("Poll before anything is inserted.")
}

/// The table whose row type the first argument has.
fn table(call: pg_sys::FunctionCallInfo) -> PgRelation {
    // SAFETY: PostgreSQL calls a function with a valid fcinfo and flinfo. The catalog is asked for any OID, and gives 0
    // if it is not that of a relation.
    let (row, table, kind) = unsafe {
        let row = pg_sys::get_fn_expr_argtype((*call).flinfo, 0);
        let table = pg_sys::get_typ_typrelid(row);
        (row, table, if table == pg_sys::InvalidOid { 0 } else { pg_sys::get_rel_relkind(table) })
    };
    if kind == 0 || relation_kind(kind) == pg_sys::RELKIND_COMPOSITE_TYPE {
        let name = type_name(row);
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("{} is not the row type of a table", displayable(&characters(name.to_bytes()))),
            )
            .set_hint("Name the table by its type, as in snowflake_poll(NULL::orders, 0)."),
        );
    }
    // SAFETY: waits for the lock that every reader takes; an ERROR if the table is gone.
    let table = unsafe { PgRelation::with_lock(table, pg_sys::AccessShareLock.cast_signed()) };
    let (what, why) = match relation_kind(kind) {
        pg_sys::RELKIND_FOREIGN_TABLE => {
            ("foreign table", "This server's horizon says nothing about the rows of another server.")
        }
        pg_sys::RELKIND_MATVIEW => ("materialized view", "Rows appear in it when it is refreshed."),
        _ => return table,
    };
    raise(
        error_report(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("{} is a {what}, and cannot be polled", display_name(&table)),
        )
        .set_detail(why)
        .set_hint("Poll the table where its rows are inserted."),
    )
}

fn display_name(table: &PgRelation) -> String {
    quoted(&characters(table.name().as_bytes()))
}

impl Poll {
    /// The column of the IDs. An ERROR if there is none, or if it is not of a type that is compared as a bigint.
    fn key(&self) -> CString {
        let number = match &self.key {
            // SAFETY: looks for a C string among the columns.
            Some(name) => unsafe { pg_sys::get_attnum(self.table.oid(), name.as_ptr()) },
            None => self.primary_key(),
        };
        if number <= 0 {
            let column = self.key.as_ref().map(|name| quoted(&characters(name.to_bytes())));
            let message = match column {
                Some(column) => format!("column {column} of relation {} does not exist", display_name(&self.table)),
                None => format!("relation {} has no primary key of one column", display_name(&self.table)),
            };
            raise(
                error_report(PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN, message)
                    .set_hint("Name the column of the IDs, as in column_name => 'id'."),
            );
        }
        // SAFETY: the table has a column of this number, which has a name and a type.
        let (name, kind, is_bigint) = unsafe {
            let name = c_string(pg_sys::get_attname(self.table.oid(), number, false));
            let kind = pg_sys::get_atttype(self.table.oid(), number);
            (name, kind, pg_sys::IsBinaryCoercible(kind, pg_sys::INT8OID))
        };
        if !is_bigint {
            let kind = type_name(kind);
            raise(
                error_report(
                    PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                    format!(
                        "column {} of relation {} is not a bigint",
                        quoted(&characters(name.to_bytes())),
                        display_name(&self.table)
                    ),
                )
                .set_detail(format!("It is of type {}.", displayable(&characters(kind.to_bytes())))),
            );
        }
        name
    }

    /// The number of the only column of the primary key; 0 if there is none.
    fn primary_key(&self) -> i16 {
        let indexes = self.table.indices(pg_sys::AccessShareLock.cast_signed());
        let mut columns = indexes.filter_map(|index| {
            // SAFETY: an open index has its row of pg_index, and at least one column.
            unsafe {
                let row = &*index.rd_index;
                (row.indisprimary && row.indnkeyatts == 1).then(|| row.indkey.values.as_slice(1)[0])
            }
        });
        columns.next().unwrap_or(0)
    }

    /// Whether somebody waits for a lock of the table, which the queries keep to the end of the transaction. All others
    /// who need the table wait behind.
    fn is_in_the_way(&self) -> bool {
        // SAFETY: an open relation has its OID and that of its database.
        let id = unsafe { (*self.table.as_ptr()).rd_lockInfo.lockRelId };
        // As SET_LOCKTAG_RELATION() of storage/lock.h does.
        let tag = pg_sys::LOCKTAG {
            locktag_field1: id.dbId.to_u32(),
            locktag_field2: id.relId.to_u32(),
            locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION.try_into().expect("a small number"),
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD.try_into().expect("a small number"),
            ..Default::default()
        };
        // Of all who have the lock or wait for it, in spite of the name; but not of weak locks that nobody waits for.
        // SAFETY: looks for the tag in shared memory, under PostgreSQL's lock.
        let is_asked_for = unsafe { pg_sys::LockWaiterCount(&raw const tag) > 0 };
        // mutant: poll-makes-way
        is_asked_for
            && {
                let waiting = format!(
                "SELECT 1 FROM pg_catalog.pg_locks WHERE NOT granted AND relation OPERATOR(pg_catalog.=) {}::pg_catalog.oid
                    AND database OPERATOR(pg_catalog.=) {}::pg_catalog.oid",
                id.relId.to_u32(),
                id.dbId.to_u32()
            );
                !command::rows::<1>(&CString::new(waiting).expect("numbers")).is_empty()
            }
    }

    /// A query for the rows.
    fn query(&self, key: &CStr, horizon: i64) -> CString {
        let table = name_of_table(self.table.oid()).expect("a table that is locked");
        let key = identifier(key);
        // Not the operators of search_path, which others may have made.
        // mutant: poll-operators
        let after = format!(" OPERATOR(pg_catalog.>) '{}'::pg_catalog.int8 AND ", self.after);
        let below = format!(" OPERATOR(pg_catalog.<) '{horizon}'::pg_catalog.int8 ORDER BY ");
        // All rows with the last ID, so that the next call may begin after it.
        // mutant: poll-whole-id
        let limit = format!(" FETCH FIRST {} ROWS WITH TIES", self.max_rows);
        let parts: [&[u8]; 9] = [
            b"SELECT * FROM ",
            &table,
            b" WHERE ",
            &key,
            after.as_bytes(),
            &key,
            below.as_bytes(),
            &key,
            limit.as_bytes(),
        ];
        CString::new(parts.concat()).expect("names of PostgreSQL's, which have no zero byte")
    }
}

/// Runs a query in a new snapshot, keeps its rows as the result, and returns how many there are.
fn read(query: &CStr, result: &pg_sys::ReturnSetInfo) -> u64 {
    let mismatch = c"the rows of the table do not have its type";
    let (store, rows) = (result.setResult, result.setDesc);
    // SAFETY: the store, the description and the memory context of the result live as long as the query. Nothing in
    // this function is dropped when an ERROR jumps over it.
    let receiver = unsafe {
        let receiver = pg_sys::CreateDestReceiver(pg_sys::CommandDest::DestTuplestore);
        let context = (*result.econtext).ecxt_per_query_memory;
        pg_guard_ffi_boundary(|| {
            SetTuplestoreDestReceiverParams(receiver, store, context, false, rows, mismatch.as_ptr());
        });
        receiver
    };
    // mutant: poll-snapshot
    // mutant: poll-snapshot-on-standby
    let options = pg_sys::SPIExecuteOptions { must_return_tuples: true, dest: receiver, ..Default::default() };
    Spi::connect_mut(|_| {
        // Not read-only, so that it takes a new snapshot.
        // SAFETY: SPI is connected, and takes a C string.
        let code = unsafe { pg_sys::SPI_execute_extended(query.as_ptr(), &options) };
        Spi::check_status(code).expect("a query that SPI allows");
        // SAFETY: a variable of this process, which the query has set.
        unsafe { pg_sys::SPI_processed }
    })
}
