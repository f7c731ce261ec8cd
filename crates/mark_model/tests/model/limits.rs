//! What no rule helps against: docs/guarantees.md says so under "Limits".

use crate::promise::FAILOVERS;
use crate::rules::goes_wrong;
use libtest_mimic::Trial;
use mark_model::world::Beyond;
use model_explorer::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("a_primary_that_is_lost_ahead_of_its_clock_with_marks_that_it_had_not_sent_can_be_repeated", || {
            goes_wrong(&FAILOVERS.with(Beyond::LostWhileAhead))
        }),
        trial("a_primary_that_continues_beside_its_promoted_standby_can_be_repeated", || {
            goes_wrong(&FAILOVERS.with(Beyond::OldPrimary))
        }),
    ]
}
