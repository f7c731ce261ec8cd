//! What Citus can't do, with no volatile default whatever. Everything else must work.

use super::nodes::{COLUMNAR, COORDINATOR, PLAIN, REFERENCE};

/// What Citus says of a statement, for a kind of table, that it can't do.
pub fn refusal(statement: &str, kind: &str, sent_to: usize) -> Option<&'static str> {
    match (statement, kind, sent_to) {
        ("INSERT ON CONFLICT DO NOTHING" | "INSERT ON CONFLICT DO UPDATE", COLUMNAR, _) => {
            Some("columnar_tuple_insert_speculative not implemented")
        }
        ("MERGE", COLUMNAR, _) => Some("Columnar table as target is not allowed in MERGE command"),
        ("MERGE", REFERENCE, _) => Some("Reference table as target is not allowed in MERGE command"),
        // Of a plain table, too: the source is distributed.
        ("MERGE", ..) => Some("non-IMMUTABLE functions are not yet supported in MERGE sql with distributed tables"),
        ("ALTER TABLE ADD COLUMN", PLAIN, _) => None,
        ("ALTER TABLE ADD COLUMN", REFERENCE, COORDINATOR) => Some("the nodes' copies have different values"),
        ("ALTER TABLE ADD COLUMN", _, 1..) => Some("operation is not allowed on this node"),
        _ => None,
    }
}
