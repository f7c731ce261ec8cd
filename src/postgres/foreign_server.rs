//! Foreign servers, and how a user reaches them, as the catalogs have it.

use crate::postgres::server_encoding::to_utf8;
use pgrx::PgList;
use pgrx::prelude::*;
use std::ffi::CStr;

/// A foreign server, of any wrapper.
pub struct ForeignServer {
    /// Whether a superuser has chosen its options.
    pub is_of_superuser: bool,
    /// Its options, by names and values.
    pub options: Vec<(String, String)>,
    /// The options of the user's mapping, or of PUBLIC's.
    pub of_user: Vec<(String, String)>,
}

impl ForeignServer {
    /// The foreign server with this name; `None` if there is none. An ERROR if the user may not use it, or has no
    /// mapping.
    pub fn find(name: &CStr) -> Option<Self> {
        // SAFETY: looks for a C string in the catalog. What is found is in the current memory context.
        let server = unsafe { pg_sys::GetForeignServerByName(name.as_ptr(), true).as_ref()? };
        // SAFETY: every call has a user.
        let user = unsafe { pg_sys::GetUserId() };
        // Before the mapping, about which PostgreSQL asks for no right: PUBLIC's can have a password.
        // mutant: foreign-server-usage
        must_have_usage(server, user);
        // SAFETY: a user and a server that exist. Never null: an ERROR if there is no mapping.
        let (mapping, is_of_superuser) =
            unsafe { (&*pg_sys::GetUserMapping(user, server.serverid), pg_sys::superuser_arg(server.owner)) };
        // SAFETY: lists of the catalog's.
        let (options, of_user) = unsafe { (texts(server.options), texts(mapping.options)) };
        Some(Self { is_of_superuser, options, of_user })
    }
}

fn must_have_usage(server: &pg_sys::ForeignServer, user: pg_sys::Oid) {
    // Wider from PostgreSQL 16 on.
    #[cfg_attr(feature = "pg15", expect(clippy::useless_conversion, reason = "the same type"))]
    let usage: pg_sys::AclMode = pg_sys::ACL_USAGE.into();
    // SAFETY: a server and a user that exist. The ERROR has the name, a C string.
    unsafe {
        #[cfg(feature = "pg15")]
        let outcome = pg_sys::pg_foreign_server_aclcheck(server.serverid, user, usage);
        #[cfg(not(feature = "pg15"))]
        let outcome = pg_sys::object_aclcheck(pg_sys::ForeignServerRelationId, server.serverid, user, usage);
        if outcome != pg_sys::AclResult::ACLCHECK_OK {
            pg_sys::aclcheck_error(outcome, pg_sys::ObjectType::OBJECT_FOREIGN_SERVER, server.servername);
        }
    }
}

/// Options in UTF-8.
///
/// # Safety
///
/// Only for lists of `DefElem` whose values are texts.
unsafe fn texts(options: *mut pg_sys::List) -> Vec<(String, String)> {
    // SAFETY: the list is the caller's, and its texts are C strings.
    unsafe {
        let text = |text| to_utf8(CStr::from_ptr(text).to_bytes());
        let options = PgList::<pg_sys::DefElem>::from_pg(options);
        options.iter_ptr().map(|option| (text((*option).defname), text(pg_sys::defGetString(option)))).collect()
    }
}
