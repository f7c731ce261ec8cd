//! The addresses of hosts. libpq would ask the system's resolver itself, and nothing could interrupt that.

use super::{LISTS, each_host, value};
use crate::failure::Failure;
use crate::libpq::Parameter;
use nix::sys::signal::SigSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

/// How often interrupts are looked for.
const PAUSE: Duration = Duration::from_millis(10);

/// The same parameters, with the addresses of hosts that have names. A name that has several comes as often.
pub fn with_addresses(
    parameters: &[Parameter],
    until: Instant,
    timeout: Duration,
    check_interrupts: fn() -> Result<(), Failure>,
) -> Result<Vec<Parameter>, Failure> {
    if !parameters.iter().any(|(name, value)| name == "host" && value.split(',').any(is_name)) {
        return Ok(parameters.to_vec());
    }
    let mut found: Vec<[String; 3]> = Vec::new();
    let mut failures = Vec::new();
    for host in each_host(parameters) {
        let given = LISTS.map(|name| value(&host, name).unwrap_or_default().to_owned());
        if !given[1].is_empty() || !is_name(&given[0]) {
            found.push(given);
            continue;
        }
        match addresses(&given[0], until.min(Instant::now() + timeout), check_interrupts)? {
            Ok(addresses) => {
                let with = |address: IpAddr| [given[0].clone(), address.to_string(), given[2].clone()];
                found.extend(addresses.into_iter().map(with));
            }
            Err(error) => {
                let reason = error.to_string();
                // What Rust puts in front of the resolver's reason.
                let reason = reason.trim_start_matches("failed to lookup address information: ");
                failures.push(format!("could not translate host name \"{}\" to address: {reason}", given[0]));
            }
        }
    }
    if found.is_empty() {
        return Err(Failure::local(failures.join("\n")));
    }
    let list = |nth: usize| found.iter().map(|host| host[nth].as_str()).collect::<Vec<_>>().join(",");
    let others = parameters.iter().filter(|(name, _)| !LISTS.contains(&name.as_str())).cloned();
    Ok(others.chain(LISTS.iter().enumerate().map(|(nth, name)| ((*name).to_owned(), list(nth)))).collect())
}

/// Whether this is a host that the resolver must find: neither a directory of a socket nor an address.
fn is_name(host: &str) -> bool {
    !host.is_empty() && !host.starts_with(['/', '@']) && host.parse::<IpAddr>().is_err()
}

/// The addresses of a host, asked for by a thread. An interrupt ends the wait, and leaves the thread to itself.
fn addresses(
    host: &str,
    until: Instant,
    check_interrupts: fn() -> Result<(), Failure>,
) -> Result<io::Result<Vec<IpAddr>>, Failure> {
    let (sender, receiver) = channel();
    let host = host.to_owned();
    // PostgreSQL's signal handlers belong to the process's own thread. The new one inherits the mask.
    let mask = SigSet::thread_get_mask().and_then(|mask| SigSet::all().thread_block().map(|()| mask));
    let mask = mask.map_err(|error| Failure::local(error.to_string()))?;
    let spawned = thread::Builder::new().spawn(move || {
        let found = (host.as_str(), 0).to_socket_addrs();
        // Nobody listens any more if the wait has ended.
        let _ = sender.send(found.map(|found| found.map(|address: SocketAddr| address.ip()).collect()));
    });
    mask.thread_set_mask().map_err(|error| Failure::local(error.to_string()))?;
    spawned.map_err(|error| Failure::local(error.to_string()))?;
    while Instant::now() < until {
        match receiver.recv_timeout(PAUSE) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => check_interrupts()?,
        }
    }
    Ok(Err(io::Error::new(io::ErrorKind::TimedOut, "timeout expired")))
}
