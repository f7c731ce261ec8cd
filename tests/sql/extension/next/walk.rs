//! Every order of some moves, without a list of them.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;

/// Makes each move in each state that these moves lead to, and returns the last state. `leads_to` says where a move
/// leads, and `None` if it is not to be made there.
pub fn walk<S: Copy + Ord + Debug, M: Copy + Debug>(
    start: S,
    moves: &[M],
    leads_to: impl Fn(S, M) -> Option<S>,
    mut make: impl FnMut(S, M),
) -> S {
    let (mut here, mut made, mut trail) = (start, BTreeSet::new(), Trail::default());
    while let Some(path) = to_what_is_left(here, moves, &leads_to, &made) {
        for nth in path {
            made.insert((here, nth));
            trail.0.push(format!("{here:?}: {:?}", moves[nth]));
            make(here, moves[nth]);
            here = leads_to(here, moves[nth]).expect("a move that can be made");
        }
    }
    here
}

/// The moves so far, which a test that fails shows.
#[derive(Default)]
struct Trail(Vec<String>);

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {} moves: {}", self.0.len(), self.0.join("; "));
        }
    }
}

/// The shortest way from here to a move that has not been made, and that move.
fn to_what_is_left<S: Copy + Ord, M: Copy>(
    here: S,
    moves: &[M],
    leads_to: impl Fn(S, M) -> Option<S>,
    made: &BTreeSet<(S, usize)>,
) -> Option<Vec<usize>> {
    let (mut ways, mut seen) = (VecDeque::from([(here, Vec::new())]), BTreeSet::from([here]));
    while let Some((state, way)) = ways.pop_front() {
        for (nth, &this) in moves.iter().enumerate() {
            let Some(next) = leads_to(state, this) else { continue };
            let way = [way.clone(), vec![nth]].concat();
            if !made.contains(&(state, nth)) {
                return Some(way);
            }
            if seen.insert(next) {
                ways.push_back((next, way));
            }
        }
    }
    None
}
