//! In what tells IDs of another server.

use super::Against::Servers;
use super::Mutant;

const FOREIGN: &str = "src/functions/foreign.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "IDs above the last one are not foreign",
        edits: &[(FOREIGN, "layout.position(id) > generator.last_position()", "layout.position(id) == u64::MAX")],
        against: Servers { binary: "fleet", tests: "foreign" },
    },
    Mutant {
        name: "IDs are foreign from the durable mark on",
        edits: &[(
            FOREIGN,
            "layout.position(id) > generator.last_position()",
            "layout.position(id) >> layout.sequence_bits() >= generator.covered_until()",
        )],
        against: Servers { binary: "fleet", tests: "above_the_last" },
    },
    Mutant {
        name: "old IDs of a worker that is leased are foreign",
        edits: &[(FOREIGN, "!worker::needs_lease() && parts", "parts")],
        against: Servers { binary: "fleet", tests: "before_a_lease" },
    },
    Mutant {
        name: "initdb had the right clock",
        edits: &[(FOREIGN, "made_at().saturating_sub(INITDB_CLOCK)", "made_at()")],
        against: Servers { binary: "fleet", tests: "before_the_cluster" },
    },
    Mutant {
        name: "a server that issues no IDs knows which are foreign",
        edits: &[(FOREIGN, "    generator.is_started().then(|| {", "    Some(()).map(|()| {")],
        against: Servers { binary: "fleet", tests: "issues_no_ids" },
    },
    Mutant {
        name: "what is no ID of the layout is decoded",
        edits: &[(FOREIGN, ".filter(|&id| id <= layout.max_id())", "")],
        against: Servers { binary: "fleet", tests: "what_is_no_id" },
    },
];
