//! What goes wrong with a server's processes: they are killed, frozen, or lose their power.

use crate::cluster::{Cluster, PATIENCE};
use crate::scratch::send;
use rustix::process::Signal;
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

impl Cluster {
    /// Kills every process of the server and then the postmaster, without a word to any.
    pub fn kill_all(&mut self) {
        self.kill_all_holding(());
    }

    /// Kills them while the caller holds something that they wait for, such as a turn to use the journal of the disk. A
    /// process that has just been started may outlive the others for a moment, so it is dropped before this waits.
    pub fn kill_all_holding<T>(&mut self, held: T) {
        let processes = self.processes();
        for &process in processes[1..].iter().chain(&processes[..1]) {
            send(process, Signal::KILL);
        }
        drop(held);
        self.stop(Signal::KILL);
    }

    /// Cuts the power of a server that has its own disk: every process ends at once, and the state directory has only
    /// what was flushed.
    pub fn cut_power(&mut self) {
        self.kill_all();
        self.disk().forget_what_was_not_flushed();
    }

    /// Kills one of the backends that serve clients, which makes PostgreSQL start all over, and waits until it has.
    pub fn kill_backend(&self) {
        let mut client = self.connect();
        let victim = "SELECT coalesce(min(pid) FILTER (WHERE pid <> pg_backend_pid()), pg_backend_pid())
            FROM pg_stat_activity WHERE backend_type = 'client backend'";
        let starts = || self.log().matches("ready to accept connections").count();
        let last_start = starts();
        let deadline = Instant::now() + PATIENCE;
        while starts() == last_start {
            // While this session is there, the one that was killed had ended by itself just before.
            match client.query_one(victim, &[]) {
                Ok(row) => send(row.get::<_, i32>(0).cast_unsigned(), Signal::KILL),
                Err(_) => self.knock(),
            }
            assert!(Instant::now() < deadline, "the server does not come back:\n{}", self.log());
            // Until the postmaster has noticed, it still accepts sessions, which it then ends.
            sleep(Duration::from_millis(5));
        }
    }

    /// Wakes the postmaster, as any client does. Up to PostgreSQL 15 it can miss the end of a process just before it
    /// sleeps, and then starts no checkpointer for a minute, which is too late for the startup process.
    fn knock(&self) {
        let _ = UnixStream::connect(self.host().join(".s.PGSQL.5432"));
    }

    /// Stops all processes of the server in the middle of what they do, until what is returned is dropped.
    pub fn freeze(&self) -> Frozen<'_> {
        let processes = self.processes();
        processes.iter().for_each(|&process| send(process, Signal::STOP));
        Frozen { _cluster: self, processes }
    }
}

/// A server whose processes stand still. They continue when this is dropped, so the server can be stopped.
pub struct Frozen<'a> {
    _cluster: &'a Cluster,
    processes: Vec<u32>,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.processes.iter().for_each(|&process| send(process, Signal::CONT));
    }
}
