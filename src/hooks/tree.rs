//! PostgreSQL's nodes: lists and types, walks through queries and expressions, and what it asks of support functions.

pub use crate::postgres::expression::{expression_tree_walker, query_tree_walker};
use pgrx::Internal;
use pgrx::pg_sys::{self, FuncExpr, List, Node, NodeTag, PlannerInfo, SupportRequestSimplify};
use std::ffi::CStr;

/// The nodes of a list, which must not become shorter meanwhile.
///
/// # Safety
///
/// A list of nodes, or null.
pub unsafe fn nodes(list: *mut List) -> impl Iterator<Item = *mut Node> {
    // SAFETY: as the caller's.
    unsafe { cells(list).map(|cell| *cell) }
}

/// The places of the nodes of a list, in which others can be put.
///
/// # Safety
///
/// As above.
pub unsafe fn cells(list: *mut List) -> impl Iterator<Item = *mut *mut Node> {
    // SAFETY: as the caller's: a list has as many cells as it says, each a pointer.
    unsafe {
        let length = if list.is_null() { 0 } else { usize::try_from((*list).length).unwrap_or(0) };
        (0..length).map(move |n| (&raw mut (*(*list).elements.add(n)).ptr_value).cast())
    }
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

/// The call that a support function is to simplify, and what the planner knows of its query, if it plans one; `None`
/// for other requests.
pub fn call_to_simplify<'call>(request: Internal) -> Option<(&'call FuncExpr, Option<&'call PlannerInfo>)> {
    let request = request.unwrap().map_or(std::ptr::null(), |request| request.cast_mut_ptr::<Node>().cast_const());
    // SAFETY: PostgreSQL passes a node, of the type that its tag names. This one has a call, and its root can be null.
    unsafe {
        if (*request).type_ != NodeTag::T_SupportRequestSimplify {
            return None;
        }
        let request = &*request.cast::<SupportRequestSimplify>();
        Some((&*request.fcall, request.root.as_ref()))
    }
}
