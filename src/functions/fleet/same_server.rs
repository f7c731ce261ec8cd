//! Finds out which entries of a fleet lead to the same running server.
//!
//! Two servers that began to run in the same microsecond are one that is listed twice, or a clone of a virtual machine
//! that runs beside its original. A session with a random name tells: only the server that has it shows it.

use super::Server;
use super::ask::{self, Account};
use super::target::{IsIt, Target};
use crate::durable::life_file;
use crate::postgres::remote::Remote;
use pgrx::pg_sys;
use std::ffi::CString;

/// Gives each running server a number. Targets do not include this server, which is the first of the fleet.
pub fn find(fleet: &mut [Server], targets: &[Target]) {
    for at in 0..fleet.len() {
        let is_same = |earlier: &usize| {
            let Some(said) = said(&fleet[*earlier]).filter(|earlier| said(&fleet[at]) == Some(*earlier)) else {
                return false;
            };
            let is_it = |remote: &mut Remote| ask::ask(remote).is_ok_and(|account| key(&account) == Some(said));
            // mutant: fleet-clone
            is_same(*earlier, at, targets, &is_it) != Some(false)
        };
        let server = (0..at).find(is_same).map_or(at, |earlier| number(&fleet[earlier]));
        if let Ok(account) = &mut fleet[at].account {
            account.member.server = server;
        }
    }
}

/// Whether two entries of a fleet, which both lead to the server that is meant, lead to one that runs once; `None` if
/// it does not tell. Targets do not include this server, which is entry 0.
pub fn is_same(earlier: usize, at: usize, targets: &[Target], is_it: &IsIt) -> Option<bool> {
    let name = format!("snowflake_check_fleet {:016x}", life_file::new_number());
    let is_seen = || targets[at - 1].sees(&name, is_it);
    match earlier.checked_sub(1) {
        None => as_session(&name, is_seen),
        Some(earlier) => targets[earlier].while_session(&name, is_it, is_seen),
    }
}

fn number(server: &Server) -> usize {
    server.account.as_ref().map_or(0, |account| account.member.server)
}

/// What a server says about itself that no other server says, except its clones. `None` if it has no worker: then it
/// does not matter.
fn key(account: &Account) -> Option<(i64, i64, (u32, u32))> {
    Some((account.started_us, account.member.system_identifier, account.member.numbers?))
}

fn said(server: &Server) -> Option<(i64, i64, (u32, u32))> {
    server.account.as_ref().ok().and_then(key)
}

/// Does something while this session has a name.
fn as_session<T>(name: &str, act: impl FnOnce() -> T) -> T {
    let name = CString::new(name).expect("a name without zeros");
    let (context, source) = (pg_sys::GucContext::PGC_USERSET, pg_sys::GucSource::PGC_S_SESSION);
    let (action, level) = (pg_sys::GucAction::GUC_ACTION_SAVE, pg_sys::WARNING.cast_signed());
    let variable = c"application_name".as_ptr();
    // SAFETY: a function is called in a transaction, and an ERROR ends the level of settings, too. The name and the
    // value are C strings, which are copied.
    let settings = unsafe {
        let settings = pg_sys::NewGUCNestLevel();
        pg_sys::set_config_option(variable, name.as_ptr(), context, source, action, true, level, false);
        settings
    };
    let outcome = act();
    // SAFETY: the level begun above; inner ones have ended.
    unsafe { pg_sys::AtEOXact_GUC(false, settings) };
    outcome
}
