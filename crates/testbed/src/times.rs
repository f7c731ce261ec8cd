//! How long tests take, beside what a run has recorded.

use crate::installation::project;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How many tests are named as the slowest.
const SLOWEST: usize = 10;

/// Which tests are recorded, by their seconds.
const WORTH_A_LINE: f64 = 15.0;

/// The seconds of parts and of tests, by their names. Those of a part are the sum of its tests', of which many run at a
/// time.
pub(crate) struct Times(BTreeMap<String, f64>);

/// What is recorded: a number of seconds and a name in each line.
fn file() -> PathBuf {
    project().join("tests/times")
}

fn part(name: &str) -> &str {
    name.split("::").next().unwrap_or_default()
}

impl Times {
    pub(crate) fn recorded() -> Self {
        let text = fs::read_to_string(file()).unwrap_or_default();
        let line = |line: &str| {
            let (seconds, name) = line.trim().split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// How long a test is known to take.
    pub(crate) fn of(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.0.get(name).copied().unwrap_or_default())
    }

    fn column(&self, name: &str, is_known: bool) -> String {
        self.0.get(name).filter(|_| is_known).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}"))
    }

    /// Prints the parts and the slowest tests. What is recorded of a part is of all its tests.
    pub(crate) fn show(&self, times: &mut [(String, Duration)], took: Duration, is_whole: bool) {
        if times.len() < 2 {
            return;
        }
        let mut parts: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for (name, time) in &*times {
            let (tests, sum) = parts.entry(part(name)).or_default();
            (*tests, *sum) = (*tests + 1, *sum + *time);
        }
        let mut parts: Vec<_> = parts.into_iter().collect();
        parts.sort_by_key(|(_, (_, sum))| std::cmp::Reverse(*sum));
        println!("\n{:<20} {:>5} {:>8} {:>9}", "part", "tests", "seconds", "recorded");
        for (part, (tests, sum)) in &parts {
            println!("{part:<20} {tests:>5} {:>8.1} {:>9}", sum.as_secs_f64(), self.column(part, is_whole));
        }
        let sum: Duration = times.iter().map(|(_, time)| *time).sum();
        println!("{:<20} {:>5} {:>8.1}, in {:.1} s", "in all", times.len(), sum.as_secs_f64(), took.as_secs_f64());
        times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        println!("\n{:>8} {:>9}  the slowest", "seconds", "recorded");
        for (name, time) in times.iter().take(SLOWEST) {
            println!("{:>8.1} {:>9}  {name}", time.as_secs_f64(), self.column(name, true));
        }
    }

    /// Records the times of a whole run. What is recorded of other parts stays.
    pub(crate) fn record(mut self, times: &[(String, Duration)]) {
        let parts: BTreeSet<_> = times.iter().map(|(name, _)| part(name)).collect();
        self.0.retain(|name, _| !parts.contains(part(name)));
        for (name, time) in times {
            let seconds = time.as_secs_f64();
            *self.0.entry(part(name).to_owned()).or_default() += seconds;
            if seconds >= WORTH_A_LINE {
                self.0.insert(name.clone(), seconds);
            }
        }
        let text: String = self.0.iter().map(|(name, seconds)| format!("{seconds:>8.1} {name}\n")).collect();
        fs::write(file(), text).expect("own file");
    }
}
