//! IPv4 networks, in which each server has a number.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 network: an address, and how many of its first bits all servers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: Ipv4Addr,
    bits: u32,
}

/// Blocks of private addresses: RFC 1918, section 3, and RFC 6598, section 7, which providers of virtual machines and
/// of Kubernetes use, too.
const PRIVATE: [Network; 4] = [
    Network { address: Ipv4Addr::new(10, 0, 0, 0), bits: 8 },
    Network { address: Ipv4Addr::new(172, 16, 0, 0), bits: 12 },
    Network { address: Ipv4Addr::new(192, 168, 0, 0), bits: 16 },
    Network { address: Ipv4Addr::new(100, 64, 0, 0), bits: 10 },
];

impl Network {
    /// The block of private addresses that has this one.
    pub fn private_block_of(address: Ipv4Addr) -> Option<Self> {
        PRIVATE.into_iter().find(|block| block.contains(address))
    }

    /// Whether an address is in this network.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & !self.host_mask() == self.masked().address.to_bits()
    }

    /// The number of an address in this network: its bits to the right of the prefix.
    pub fn number_of(&self, address: Ipv4Addr) -> u64 {
        (address.to_bits() & self.host_mask()).into()
    }

    /// The greatest number of an address.
    pub fn greatest(&self) -> u64 {
        self.host_mask().into()
    }

    /// The network without bits to the right of its prefix.
    pub fn masked(&self) -> Self {
        Self { address: Ipv4Addr::from_bits(self.address.to_bits() & !self.host_mask()), bits: self.bits }
    }

    fn host_mask(&self) -> u32 {
        u32::MAX.checked_shr(self.bits).unwrap_or(0)
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = text.split_once('/').ok_or(())?;
        let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|&bits| digits && bits <= 32).ok_or(())?;
        Ok(Self { address: address.parse().map_err(|_| ())?, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}
