//! What PostgreSQL's parser makes: lists, and nodes of a type that their tag names.

use pgrx::PgList;
use pgrx::pg_sys::{self, List, Node, NodeTag};
use std::ffi::CStr;

/// The nodes of a list.
///
/// # Safety
///
/// A list of nodes, or null.
pub unsafe fn nodes(list: *mut List) -> impl Iterator<Item = *mut Node> {
    // SAFETY: as the caller's.
    let nodes: Vec<_> = unsafe { PgList::<Node>::from_pg(list) }.iter_ptr().collect();
    nodes.into_iter()
}

/// The strings of a list.
///
/// # Safety
///
/// A list of strings, or null.
pub unsafe fn strings<'tree>(list: *mut List) -> impl Iterator<Item = &'tree CStr> {
    // SAFETY: as the caller's.
    unsafe { nodes(list).map(|node| CStr::from_ptr((*node.cast::<pg_sys::String>()).sval)) }
}

/// A node as the type that this tag names, if it is of that type.
///
/// # Safety
///
/// A node, or null.
pub unsafe fn cast<T>(node: *mut Node, tag: NodeTag) -> Option<*mut T> {
    // SAFETY: as the caller's.
    (!node.is_null() && unsafe { (*node).type_ } == tag).then(|| node.cast())
}
