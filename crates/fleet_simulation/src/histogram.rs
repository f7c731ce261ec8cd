//! How a length of time is spread.

/// Buckets for each power of two, above as many milliseconds.
const FINE: u64 = 64;

/// Counts of lengths in milliseconds, exact below 64 ms and to 2 % above.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; 4096], max: 0 }
    }
}

impl Histogram {
    /// Counts a length `times` times.
    pub fn add(&mut self, ms: u64, times: u64) {
        self.counts[bucket(ms)] += times;
        self.max = self.max.max(ms);
    }

    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.max = self.max.max(other.max);
    }

    /// The greatest length.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The length that so many in a thousand do not exceed.
    pub fn per_mille(&self, per_mille: u64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let mut left = total * per_mille / 1000;
        for (bucket, &count) in self.counts.iter().enumerate() {
            if left < count {
                return least(bucket).min(self.max);
            }
            left -= count;
        }
        self.max
    }
}

fn bucket(ms: u64) -> usize {
    let octave = (ms / FINE + 1).ilog2();
    let within = if octave == 0 { ms } else { ((ms + FINE) >> octave) + u64::from(octave - 1) * FINE };
    usize::try_from(within).expect("less than 64 octaves")
}

/// The least length of a bucket.
fn least(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = bucket / FINE;
    if octave == 0 { bucket } else { ((FINE + bucket % FINE) << octave) - FINE }
}
