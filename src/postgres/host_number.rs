//! The number that this host gives a server, as [`NumberSource`] says.

use crate::postgres::os_error::reason;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{SockaddrIn, SockaddrStorage};
use rustix::system::uname;
use snowflake_core::server::number_source::{
    Network, NoNumber, NumberSource, SourceError, address_in, number_of_host, number_of_variable, only_number,
};
use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;

/// More bytes than a number with white space around it needs.
const LONGEST_FILE: u64 = 100;

/// A number that was found.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The number. The layout may have no room for it.
    pub number: u64,
    /// Where it comes from, for people: `hostname pg-3`.
    pub source: String,
}

impl Resolved {
    /// Whether the configuration itself has the number.
    pub fn is_configured(&self) -> bool {
        self.source == CONFIGURATION
    }
}

/// The source of a number that is itself in the configuration.
const CONFIGURATION: &str = "configuration";

/// Why no number was found, as a sentence.
#[derive(Debug, thiserror::Error)]
pub enum Unresolved {
    /// None is configured.
    #[error("It is not set")]
    Unset,
    /// A registry gives it, to a worker.
    #[error("A registry leases only workers")]
    Leased,
    /// The keeper finds it, for a worker.
    #[error("Only a worker can be the group of a Citus node")]
    InCitus,
    /// The text names no source.
    #[error("{0}")]
    Invalid(#[from] SourceError),
    /// The host has a name without a number.
    #[error("Host name \"{name}\" {reason}")]
    HostName { name: String, reason: NoNumber },
    /// The server was started without this variable.
    #[error("Environment variable \"{0}\" is not set for the server")]
    NoVariable(String),
    /// The variable has no number. Its value is not shown: it may be a secret.
    #[error("Environment variable \"{variable}\" {reason}")]
    Variable { variable: String, reason: NoNumber },
    /// The file cannot be read.
    #[error("Could not read file \"{path}\": {failure}")]
    File { path: String, failure: String },
    /// The file is in every base backup.
    #[error("File \"{0}\" is in the data directory, which base backups copy")]
    InDataDirectory(String),
    /// The content of the file is not a number, and is not shown.
    #[error("The content of file \"{path}\" {reason}")]
    FileContent { path: String, reason: NoNumber },
    /// No address, or more than one.
    #[error("{0}")]
    Address(NoNumber),
    /// The system does not tell its addresses.
    #[error("Could not list the network addresses of this host: {0}")]
    Addresses(String),
}

/// The number that this text means on this host now, for a server with this data directory.
pub fn resolve(text: &str, data_directory: &Path) -> Result<Resolved, Unresolved> {
    let source = NumberSource::parse(text)?;
    let plus = |offset: u64| if offset > 0 { format!(" + {offset}") } else { String::new() };
    let (number, source) = match source {
        NumberSource::Unset => return Err(Unresolved::Unset),
        NumberSource::Citus => return Err(Unresolved::InCitus),
        NumberSource::Registry => return Err(Unresolved::Leased),
        NumberSource::Number(number) => (number, CONFIGURATION.to_owned()),
        NumberSource::HostName(offset) => {
            let name = uname().nodename().to_string_lossy().into_owned();
            match number_of_host(&name, offset) {
                Ok(number) => (number, format!("hostname {name}{}", plus(offset))),
                Err(reason) => return Err(Unresolved::HostName { name, reason }),
            }
        }
        NumberSource::Environment(variable, offset) => {
            let Some(value) = env::var_os(&variable) else { return Err(Unresolved::NoVariable(variable)) };
            match number_of_variable(&value.to_string_lossy(), offset) {
                Ok(number) => (number, format!("env {variable}{}", plus(offset))),
                Err(reason) => return Err(Unresolved::Variable { variable, reason }),
            }
        }
        NumberSource::File(path) => match only_number(&read_outside(&path, data_directory)?) {
            Ok(number) => (number, format!("file {path}")),
            Err(reason) => return Err(Unresolved::FileContent { path, reason }),
        },
        NumberSource::Ipv4(network) => {
            let (address, network) = address(network)?;
            (network.number_of(address), format!("ipv4 {address} in {network}"))
        }
    };
    Ok(Resolved { number, source })
}

/// The content of a file, which must not be in the data directory.
fn read_outside(path: &str, data_directory: &Path) -> Result<String, Unresolved> {
    let failed = |failure: io::Error| Unresolved::File { path: path.to_owned(), failure: reason(&failure) };
    let real = fs::canonicalize(path).map_err(failed)?;
    if fs::canonicalize(data_directory).is_ok_and(|data| real.starts_with(data)) {
        return Err(Unresolved::InDataDirectory(path.to_owned()));
    }
    read_short(&real).map_err(failed)
}

/// The content of a short regular file. Any other could keep the server from starting.
fn read_short(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    if File::open(path)?.take(LONGEST_FILE + 1).read_to_end(&mut content)? as u64 > LONGEST_FILE {
        return Err(io::Error::other("it is longer than a number"));
    }
    Ok(String::from_utf8_lossy(&content).into_owned())
}

fn address(network: Option<Network>) -> Result<(Ipv4Addr, Network), Unresolved> {
    let interfaces = getifaddrs().map_err(|error| Unresolved::Addresses(reason(&error.into())))?;
    let ipv4 = |storage: SockaddrStorage| storage.as_sockaddr_in().map(SockaddrIn::ip);
    // The addresses of bridges, as docker0, are the same on every host.
    let counts = |name: &str| network.is_some() || !Path::new("/sys/class/net").join(name).join("bridge").exists();
    let counted = interfaces.filter(|interface| counts(&interface.interface_name));
    let addresses: Vec<_> = counted.filter_map(|interface| interface.address.and_then(ipv4)).collect();
    address_in(network, &addresses).map_err(Unresolved::Address)
}
