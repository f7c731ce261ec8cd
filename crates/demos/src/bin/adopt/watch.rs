//! What the server shows about a migration while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::Cluster;
use testbed::postgres::SimpleQueryMessage;

/// A session that looks every millisecond.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Watched>,
}

/// What it saw.
pub struct Watched {
    /// The phases of the migration, and when they began; an empty one if there is no migration.
    phases: Vec<(Instant, String)>,
    /// For how long at most one of the tables was locked against all others, and in which phase: from the last look
    /// before the lock to the first one after it.
    pub locked: (Duration, String),
}

impl Watch {
    pub fn start(cluster: &Cluster) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut session, told) = (cluster.connect(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let look = "SELECT coalesce((SELECT phase FROM snowflake_adopt.migration), ''), EXISTS (SELECT FROM pg_locks l
                JOIN pg_class c ON c.oid = relation JOIN pg_stat_activity a ON a.pid = l.pid
                WHERE granted AND locktype = 'relation' AND mode = 'AccessExclusiveLock' AND relkind = 'r' AND relnamespace = 'public'::regnamespace
                    AND backend_type <> 'autovacuum worker')";
            let mut seen =
                Watched { phases: vec![(Instant::now(), String::new())], locked: (Duration::ZERO, String::new()) };
            let (mut last_without, mut locked_in) = (Instant::now(), None);
            while !told.load(Ordering::Relaxed) {
                let before = Instant::now();
                let found = session.simple_query(look).expect("a look");
                let Some(SimpleQueryMessage::Row(row)) =
                    found.iter().find(|message| matches!(message, SimpleQueryMessage::Row(_)))
                else {
                    continue;
                };
                let phase = row.get(0).unwrap_or_default();
                if seen.phases.last().is_some_and(|(_, last)| last != phase) {
                    seen.phases.push((Instant::now(), phase.to_owned()));
                }
                let is_locked = row.get(1) == Some("t");
                let locked = last_without.elapsed();
                if let Some(phase) = locked_in.take().filter(|_| !is_locked && locked > seen.locked.0) {
                    seen.locked = (locked, phase);
                }
                if !is_locked {
                    last_without = before;
                }
                locked_in = is_locked.then(|| phase.to_owned());
                sleep(Duration::from_millis(1));
            }
            seen
        });
        Self { stop, thread }
    }

    pub fn finish(self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a session")
    }
}

impl Watched {
    /// The phase at this time.
    pub fn phase_at(&self, time: Instant) -> &str {
        let begun = self.phases.iter().rev().find(|(begun, _)| *begun <= time);
        begun.map_or("", |(_, phase)| phase)
    }

    /// Each phase, and how long it took.
    pub fn times(&self) -> String {
        let ends = self.phases.iter().skip(1).map(|(end, _)| *end);
        let times = self.phases.iter().zip(ends).filter(|((_, phase), _)| !phase.is_empty());
        let times = times.map(|((begun, phase), end)| format!("{phase} {:.1} s", (end - *begun).as_secs_f64()));
        times.collect::<Vec<_>>().join(", ")
    }
}
