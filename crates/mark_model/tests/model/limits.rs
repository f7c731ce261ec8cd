//! What no rule protects against: docs/guarantees.md lists it under "Limits".

use crate::promise::{FAILOVERS, FAILOVERS_WRONG};
use crate::rules::goes_wrong;
use libtest_mimic::Trial;
use mark_model::world::Beyond;
use model_explorer::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("a_primary_with_a_wrong_clock_that_is_lost_with_its_last_mark_can_be_repeated", || {
            goes_wrong(&FAILOVERS_WRONG.with(Beyond::LostWithWrongClock))
        }),
        trial("a_primary_that_continues_beside_its_promoted_standby_can_be_repeated", || {
            goes_wrong(&FAILOVERS.with(Beyond::OldPrimary))
        }),
    ]
}
