//! Where a server's worker ID or data center comes from: the text of a configuration variable, which all servers of a
//! fleet can share.
//!
//! ```text
//! 5                         this number, which can also be hexadecimal: 0x1F
//! hostname                  the number at the end of the host's name: 3 on host pg-3
//! hostname+100              the same plus 100
//! env:POD_INDEX             the number at the end of a variable in the environment of the server
//! env:POD_INDEX+100         the same plus 100
//! file:/etc/worker          the number in a file
//! ipv4                      the number of the server's private IPv4 address in its block (RFC 1918, RFC 6598)
//! ipv4:10.20.0.0/22         the number of the server's address in this network
//! citus                     the group of this node in a Citus cluster; a worker ID only
//! registry                  leased from a registry; a worker ID only
//! ```
//!
//! What the host has is an argument here. A number never wraps: one that is too large is refused.

use std::fmt;
use std::net::Ipv4Addr;

mod network;

pub use network::Network;

/// The greatest number that is not refused at once. No layout has room for it.
const GREATEST: u64 = i64::MAX.cast_unsigned();

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberSource {
    /// Nowhere: it is not set.
    Unset,
    /// The configuration.
    Number(u64),
    /// The number at the end of the host's name, plus this one.
    HostName(u64),
    /// The number at the end of a variable in the environment, plus this one.
    Environment(String, u64),
    /// A file with this path.
    File(String),
    /// The server's address; in this network, if one is given.
    Ipv4(Option<Network>),
    /// The metadata of Citus, in a database: the group of the node is its worker.
    Citus,
    /// A registry, which leases workers.
    Registry,
}

/// Why a text is not a source of a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It begins with none of the words.
    #[error(
        "Valid values are a number, \"hostname\", \"hostname+100\", \"env:VARIABLE\", \"env:VARIABLE+100\", \
         \"file:/path\", \"ipv4\" or \"ipv4:network/bits\", and for a worker \"citus\" or \"registry\""
    )]
    Unknown,
    /// There is no number after the plus sign.
    #[error("\"+\" must be followed by a number, as in \"hostname+100\"")]
    Offset,
    /// The name of the variable is invalid.
    #[error("\"{0}\" is not the name of an environment variable")]
    Variable(String),
    /// The path is relative.
    #[error("\"{0}\" is not an absolute path")]
    RelativePath(String),
    /// The network is invalid.
    #[error("\"{0}\" is not an IPv4 network such as \"10.20.0.0/22\"")]
    Network(String),
    /// Bits are set behind the prefix.
    #[error("Network {given} has bits set to the right of its prefix; {} is the network", .given.masked())]
    HostBits {
        /// The network as it was given.
        given: Network,
    },
    /// No layout has room for it.
    #[error("A number must not be negative")]
    Negative,
    /// PostgreSQL would read it as an octal number, and people would not.
    #[error("A number must not begin with 0")]
    LeadingZero,
    /// The number is too large for any layout.
    #[error("The number is too large")]
    TooLarge,
}

/// Why the host's name, variable, file or address has no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNumber {
    /// There is no number at its end, or one that may be a part of something longer.
    #[error("does not end with a number after \"-\", \".\" or a word of letters")]
    NotAtEnd,
    /// There is nothing but a negative number.
    #[error("is a negative number")]
    Negative,
    /// It ends with an address.
    #[error("ends with four numbers, as an address does")]
    Address,
    /// It is something else than a number.
    #[error("is not a number")]
    NotANumber,
    /// The number is too large for any layout.
    #[error("has a number that is too large")]
    TooLarge,
    /// The server has no such address.
    #[error("No IPv4 address of this host is in network {0}")]
    NoAddressIn(Network),
    /// The server has several such addresses.
    #[error("This host has several IPv4 addresses in network {network}: {}", list(.addresses))]
    SeveralIn {
        /// The network.
        network: Network,
        /// The addresses.
        addresses: Vec<Ipv4Addr>,
    },
    /// No address is private.
    #[error("This host has no private IPv4 address, except on bridges")]
    NoPrivate,
    /// Several addresses are private.
    #[error("This host has several private IPv4 addresses: {}", list(.0))]
    SeveralPrivate(Vec<Ipv4Addr>),
}

fn list(addresses: &[Ipv4Addr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl NumberSource {
    /// The source that a text names. An empty text is [`Unset`](Self::Unset).
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Unset);
        }
        if text.strip_prefix('-').is_some_and(|number| configured(number).is_ok()) {
            return Err(SourceError::Negative);
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return configured(text).map(Self::Number);
        }
        let (word, argument) = match text.split_once(':') {
            Some((word, argument)) => (word, Some(argument)),
            None => (text, None),
        };
        match (word.to_ascii_lowercase().as_str(), argument) {
            ("env", Some(argument)) => {
                let (variable, offset) = split_offset(argument)?;
                if is_variable(variable) {
                    Ok(Self::Environment(variable.to_owned(), offset))
                } else {
                    Err(SourceError::Variable(variable.to_owned()))
                }
            }
            ("file", Some(path)) if path.starts_with('/') => Ok(Self::File(path.to_owned())),
            ("file", Some(path)) => Err(SourceError::RelativePath(path.to_owned())),
            ("ipv4", None) => Ok(Self::Ipv4(None)),
            ("citus", None) => Ok(Self::Citus),
            ("registry", None) => Ok(Self::Registry),
            ("ipv4", Some(argument)) => {
                let network: Network = argument.parse().map_err(|()| SourceError::Network(argument.to_owned()))?;
                let exact = network == network.masked();
                if exact { Ok(Self::Ipv4(Some(network))) } else { Err(SourceError::HostBits { given: network }) }
            }
            (word, None) => match split_offset(word)? {
                ("hostname", offset) => Ok(Self::HostName(offset)),
                _ => Err(SourceError::Unknown),
            },
            _ => Err(SourceError::Unknown),
        }
    }
}

impl fmt::Display for NumberSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plus = |offset: &u64| if *offset > 0 { format!("+{offset}") } else { String::new() };
        match self {
            Self::Unset => Ok(()),
            Self::Number(number) => write!(f, "{number}"),
            Self::HostName(offset) => write!(f, "hostname{}", plus(offset)),
            Self::Environment(variable, offset) => write!(f, "env:{variable}{}", plus(offset)),
            Self::File(path) => write!(f, "file:{path}"),
            Self::Ipv4(None) => f.write_str("ipv4"),
            Self::Ipv4(Some(network)) => write!(f, "ipv4:{network}"),
            Self::Citus => f.write_str("citus"),
            Self::Registry => f.write_str("registry"),
        }
    }
}

/// The text before a plus sign, and the number after it, or 0.
fn split_offset(text: &str) -> Result<(&str, u64), SourceError> {
    match text.split_once('+') {
        None => Ok((text, 0)),
        Some((text, offset)) => Ok((text, number(offset).ok_or(SourceError::Offset)?)),
    }
}

/// A number in the configuration: decimal, or hexadecimal as in PostgreSQL's own parameters.
fn configured(text: &str) -> Result<u64, SourceError> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(SourceError::Unknown);
    }
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err(SourceError::LeadingZero);
    }
    u64::from_str_radix(digits, radix).ok().filter(|&number| number <= GREATEST).ok_or(SourceError::TooLarge)
}

fn is_variable(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(allowed)
}

/// A text that consists of digits, as a number.
fn number(digits: &str) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&number| all_digits && number <= GREATEST)
}

/// The number of a host, plus `offset`: the number at the end of its name, up to the first dot.
pub fn number_of_host(name: &str, offset: u64) -> Result<u64, NoNumber> {
    number_at_end(name.split('.').next().unwrap_or_default(), offset)
}

/// The number of a variable in the environment, plus `offset`: its value, or the number at the end of its value.
pub fn number_of_variable(value: &str, offset: u64) -> Result<u64, NoNumber> {
    if value.is_empty() || value.contains(|c: char| !c.is_ascii_digit()) {
        return number_at_end(value, offset);
    }
    sum(value, offset)
}

/// The number at the end of a name, after `-`, `.` or a word of letters. After anything else it may be a part of
/// something longer, as in the random names `x2k49` of pods and `4be1f09a2c77` of containers, and two hosts can have
/// the same.
fn number_at_end(name: &str, offset: u64) -> Result<u64, NoNumber> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[prefix.len()..];
    let word = prefix.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let is_after_separator = prefix.ends_with(['-', '.']) && prefix.contains(char::is_alphanumeric);
    let is_after_word = is_after_separator || !word.is_empty() && word.chars().all(char::is_alphabetic);
    if prefix == "-" && !digits.is_empty() {
        return Err(NoNumber::Negative);
    } else if digits.is_empty() || !is_after_word {
        return Err(NoNumber::NotAtEnd);
    } else if ends_with_address(name) {
        return Err(NoNumber::Address);
    }
    sum(digits, offset)
}

/// Whether a name ends with an address, as `ip-10-0-3-7`, which is how AWS names hosts. `ip-10-0-4-7` ends with the
/// same number.
fn ends_with_address(name: &str) -> bool {
    let mut parts = name.rsplit(['-', '.']);
    (0..4).all(|_| parts.next().is_some_and(|part| number(part).is_some()))
}

fn sum(digits: &str, offset: u64) -> Result<u64, NoNumber> {
    let sum = number(digits).and_then(|number| number.checked_add(offset));
    sum.filter(|&sum| sum <= GREATEST).ok_or(NoNumber::TooLarge)
}

/// The only number in a text, with white space around it.
pub fn only_number(text: &str) -> Result<u64, NoNumber> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NoNumber::NotANumber);
    }
    number(text).ok_or(NoNumber::TooLarge)
}

/// The one address of a host in a network, if one is given, or else its one private address; with the network in which
/// it has a number.
pub fn address_in(network: Option<Network>, addresses: &[Ipv4Addr]) -> Result<(Ipv4Addr, Network), NoNumber> {
    let network_of = |address| match network {
        Some(network) => Some(network).filter(|network| network.contains(address)),
        None => Network::private_block_of(address),
    };
    let mut candidates: Vec<_> =
        addresses.iter().filter_map(|&address| Some((address, network_of(address)?))).collect();
    candidates.sort_unstable();
    candidates.dedup();
    match (candidates.as_slice(), network) {
        ([one], _) => Ok(*one),
        ([], Some(network)) => Err(NoNumber::NoAddressIn(network)),
        ([], None) => Err(NoNumber::NoPrivate),
        (several, network) => {
            let addresses = several.iter().map(|&(address, _)| address).collect();
            Err(match network {
                Some(network) => NoNumber::SeveralIn { network, addresses },
                None => NoNumber::SeveralPrivate(addresses),
            })
        }
    }
}

#[cfg(test)]
mod tests;
