//! The errors of [`snowflake_core::mark::start_table`].

use super::machine;
use crate::config::gucs;
use crate::postgres::report::error_report;
use crate::shared::machine::at_start;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReport;
use snowflake_core::display_time;
use snowflake_core::mark::record::Record;
use snowflake_core::mark::start_table::MarkConflict;
use snowflake_core::server::identity::{Identity, Inode};

/// The error for a record that may not be this server's.
pub(super) fn explain(conflict: MarkConflict, record: Option<&Record>, this_server: &Identity) -> ErrorReport {
    let revision = record.map_or(0, |record| record.revision);
    // Worker and data center as the configuration has them.
    let layout = gucs::layout().unwrap_or(this_server.layout);
    let worker_of = |identity: &Identity| match layout.unflatten(identity.worker) {
        (datacenter, worker) if *layout.datacenters().end() > 0 => format!("{worker} of data center {datacenter}"),
        (_, worker) => worker.to_string(),
    };
    let recorded = record.map_or(this_server, |record| &record.identity);
    let (message, detail, hint) = match conflict {
        MarkConflict::Copy => (
            "this server is a copy of another one with the same worker ID".to_owned(),
            format!(
                "A server with worker ID {} wrote the durable mark in another directory ({}), and the mark is now in \
                 this one ({}).",
                worker_of(recorded),
                inode_text(recorded.directory),
                inode_text(this_server.directory)
            ),
            "If the other server may still run, give this server its own snowflake_pg.worker_id and restart it. If the \
             other server will never run again, call snowflake_accept_mark().",
        ),
        MarkConflict::OtherGeneration => {
            let before = record.and_then(|record| record.machine).filter(|machine| !machine.is_cloned());
            let generations = before.zip(at_start().ok().flatten());
            let detail = generations.map(|(before, now)| machine::detail(before.generation, now.generation));
            (machine::CLONED.to_owned(), detail.unwrap_or_else(machine::noticed_before), machine::HINT)
        }
        MarkConflict::OtherCluster => (
            "the durable mark belongs to another database cluster".to_owned(),
            format!(
                "It was written by the cluster with system identifier {}, and this one has {}.",
                recorded.system_identifier, this_server.system_identifier
            ),
            "Two clusters must not share a snowflake_pg.state_directory. If this cluster replaces the other one, as \
             after pg_upgrade, call snowflake_accept_mark().",
        ),
        MarkConflict::NewerTimeline => (
            "the durable mark was written on a newer timeline".to_owned(),
            format!(
                "It was written on timeline {}, and this server is on {}.",
                recorded.timeline, this_server.timeline
            ),
            "Another server may continue from there with the same IDs. If none will, call snowflake_accept_mark().",
        ),
        MarkConflict::NotTheLast => (
            "the durable mark is not the one that this server wrote last".to_owned(),
            format!(
                "The mark in this directory is of timeline {}, worker ID {}, revision {revision}. Since this server wrote \
                 its last mark, the state directory or the file in it has been replaced, or restored to an earlier state.",
                recorded.timeline,
                worker_of(recorded)
            ),
            "Put back the state directory that this server used last, and restart the server. If it is lost, and every \
             ID that this server has issued is older than the clock, call snowflake_accept_mark().",
        ),
        MarkConflict::LeftBehind => (
            "this server wrote its durable mark in another directory".to_owned(),
            "The current state directory has no mark. The parameter was changed, a volume is not mounted, or the \
             directory was deleted."
                .to_owned(),
            "Set snowflake_pg.state_directory back, or mount the volume, or move the file \"mark\" to the new directory, and \
             restart the server. If the mark is lost, and every ID that this server has issued is older than the clock, \
             call snowflake_accept_mark().",
        ),
        MarkConflict::NotInWal => (
            "WAL does not contain the durable mark of the previous server".to_owned(),
            format!(
                "Another server may have issued IDs of worker {} before this one, which is on timeline {}. WAL does \
                 not show how far they reach.",
                worker_of(this_server),
                this_server.timeline
            ),
            "Give this server its own snowflake_pg.worker_id and restart it. If the other server will never run again, \
             and its clock was right, call snowflake_accept_mark(). With snowflake_pg.wal_mark = prefer on all servers, \
             WAL has the mark.",
        ),
        MarkConflict::OtherLayout => (
            "the layout has changed since this server issued IDs".to_owned(),
            format!("It was {}, and is now {layout}.", recorded.layout),
            // If only the layout differs, all IDs up to the mark are this server's own.
            if recorded.directory.same_inode(&this_server.directory)
                && *recorded == (Identity { directory: recorded.directory, layout: recorded.layout, ..*this_server })
            {
                "Set snowflake_pg.layout back and restart the server. Or call snowflake_accept_mark(), which ensures \
                 that no new ID equals an old one."
            } else {
                "Set snowflake_pg.layout back and restart the server. If no other server will ever continue from this \
                 mark, call snowflake_accept_mark()."
            },
        ),
        MarkConflict::OtherLayoutInWal(in_wal) => (
            "the layout has changed since a server of this database cluster issued IDs".to_owned(),
            format!("The mark in WAL was written with layout {in_wal}, but this server has {layout}."),
            "Set the same snowflake_pg.layout on the primary and its standbys, and restart the server. Or call \
             snowflake_accept_mark(), which ensures that no new ID equals an old one.",
        ),
    };
    let detail = match conflict {
        MarkConflict::OtherLayout => detail + &other_source(recorded, this_server),
        _ if recorded.layout == this_server.layout => detail,
        _ => format!("{detail} The layout has also changed: it was {}, and is now {layout}.", recorded.layout),
    };
    error_report(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message).set_detail(detail).set_hint(hint)
}

/// What differs, apart from the layout.
fn other_source(recorded: &Identity, this_server: &Identity) -> String {
    let mut text = String::new();
    if !recorded.directory.same_inode(&this_server.directory) {
        text += &format!(
            " The durable mark was written in another directory ({}), and is now in this one ({}).",
            inode_text(recorded.directory),
            inode_text(this_server.directory)
        );
    }
    if recorded.timeline != this_server.timeline {
        text +=
            &format!(" The mark is of timeline {}, and this server is on {}.", recorded.timeline, this_server.timeline);
    }
    text
}

fn inode_text(directory: Inode) -> String {
    let Inode { number, born_ns } = directory;
    match (number, born_ns / 1_000_000) {
        (_, 0) => format!("inode {number}"),
        (0, born) => format!("created {}", display_time(born)),
        (_, born) => format!("inode {number}, created {}", display_time(born)),
    }
}
