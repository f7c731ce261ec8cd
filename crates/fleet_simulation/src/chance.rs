//! Random numbers, the same for the same seed.

use crate::time::Micros;
use fastrand::Rng;

#[derive(Clone, Debug)]
pub struct Chance(Rng);

impl Chance {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// True with this probability, from 0 to 1.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }

    /// A number from `from` up to, not including, `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0.u64(from..to)
    }

    /// A number from `-most` to `most`.
    pub fn within(&mut self, most: i64) -> i64 {
        self.0.i64(-most..=most)
    }

    /// An index below `count`.
    pub fn index(&mut self, count: usize) -> usize {
        self.0.usize(..count)
    }

    /// A secret, which is not 0.
    pub fn token(&mut self) -> u128 {
        self.0.u128(1..)
    }

    /// A time between `from` and `to` whose logarithm is evenly spread: short times come as often as long ones.
    pub fn log_time(&mut self, from: Micros, to: Micros) -> Micros {
        round(as_f64(from) * (as_f64(to) / as_f64(from)).powf(self.0.f64()))
    }

    /// The time to the next of events that come at random, `mean` apart.
    pub fn until_next(&mut self, mean: Micros) -> Micros {
        round(-as_f64(mean) * (1.0 - self.0.f64()).ln()).max(1)
    }
}

/// A number, as a float. Exact below 2⁵³, which is 285 years in microseconds.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
pub fn as_f64(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times here are positive, and below 2^53")]
fn round(number: f64) -> u64 {
    number.round() as u64
}
