//! What the keeper of a server is doing, and has done.

use crate::cluster::{Cluster, PATIENCE};
use crate::load::sleep_past;
use crate::query::value;
use crate::traces;
use snowflake_core::UnixMs;
use snowflake_core::mark::trace::{Entry, Event, file};
use std::fs;
use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROCESS: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_pg keeper'";

impl Cluster {
    /// Waits until the keeper has nothing to do.
    pub fn wait_until_keeper_rests(&self) {
        // A server answers before it has a keeper.
        self.wait_until(&format!("SELECT EXISTS ({PROCESS})"));
        let (mut client, deadline) = (self.connect(), Instant::now() + PATIENCE);
        let process = value(&mut client, PROCESS);
        while !sleeps_for_long(&process) {
            assert!(Instant::now() < deadline, "the keeper does not rest:\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the clock has passed the durable mark, so that the next ID needs another one.
    pub fn wait_until_mark_has_passed(&self) {
        sleep_past(self.mark());
    }

    /// The marks that a server has used, in their order, as its trace says.
    pub fn used_marks(&self) -> Vec<UnixMs> {
        let bytes = fs::read(self.data.join(traces::NAME)).expect("the trace");
        let used = |entry: Entry| if let Event::Used { mark } = entry.event { Some(mark) } else { None };
        file::entries(&bytes).into_iter().filter_map(used).collect()
    }

    /// Waits until a server has used that many marks, and returns them.
    pub fn wait_for_used_marks(&self, count: usize) -> Vec<UnixMs> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let marks = self.used_marks();
            if marks.len() >= count {
                return marks;
            }
            assert!(Instant::now() < deadline, "{} of {count} marks:\n{}", marks.len(), self.log());
            sleep(Duration::from_millis(20));
        }
    }
}

/// Whether a process waits for its latch for longer than a keeper that has something to do: in `epoll_wait()`, whose
/// fourth argument is a number of milliseconds.
fn sleeps_for_long(process: &str) -> bool {
    let path = format!("/proc/{process}/syscall");
    let call = fs::read_to_string(&path);
    let is_denied = call.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    assert!(!is_denied, "{path} cannot be read without CAP_SYS_PTRACE");
    let call = call.unwrap_or_default();
    let timeout = call.split(' ').nth(4).and_then(|hex| u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok());
    timeout.is_some_and(|timeout| timeout > 1000)
}
