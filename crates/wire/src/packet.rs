//! The headers of a packet: link, IP and TCP.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Types of links, as in <https://www.tcpdump.org/linktypes.html>.
pub(crate) mod link {
    pub(crate) const NULL: u32 = 0;
    pub(crate) const ETHERNET: u32 = 1;
    pub(crate) const RAW: [u32; 3] = [12, 14, 101];
    pub(crate) const LOOP: u32 = 108;
    pub(crate) const LINUX_SLL: u32 = 113;
    pub(crate) const IPV4: u32 = 228;
    pub(crate) const IPV6: u32 = 229;
    pub(crate) const LINUX_SLL2: u32 = 276;
}

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
/// VLAN tags: 802.1Q, 802.1ad and the older form of QinQ.
const TYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

const TCP: u8 = 6;

/// The address and port of one side of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    address: u128,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    fn v4(address: &[u8], port: u16) -> Self {
        let bytes: [u8; 4] = address.try_into().unwrap_or_default();
        Endpoint { address: 0xffff_0000_0000 | u128::from(u32::from_be_bytes(bytes)), port }
    }

    fn v6(address: &[u8], port: u16) -> Self {
        let bytes: [u8; 16] = address.try_into().unwrap_or_default();
        Endpoint { address: u128::from_be_bytes(bytes), port }
    }

    /// The address.
    pub fn address(&self) -> IpAddr {
        Ipv6Addr::from_bits(self.address).to_canonical()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::SocketAddr::new(self.address(), self.port).fmt(out)
    }
}

/// Flags of a segment.
pub(crate) mod flag {
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const ACK: u8 = 0x10;
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// Bytes of its payload on the link.
    pub(crate) length: usize,
    /// Those that were captured.
    pub(crate) payload: &'a [u8],
}

impl Segment<'_> {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Why a packet is not analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// The link has another type.
    Link(u32),
    /// Not IP.
    NotIp,
    /// IP, but not TCP.
    NotTcp,
    /// A fragment of a packet.
    Fragment,
    /// Too few bytes were captured for its headers.
    Truncated,
    /// Its headers contradict each other.
    Invalid,
}

/// The segment in a packet that had `length` bytes on the link.
pub(crate) fn segment(link: u32, bytes: &[u8], length: usize) -> Result<Segment<'_>, Skip> {
    let (begin, kind) = network(link, bytes)?;
    let bytes = bytes.get(begin..).ok_or(Skip::Truncated)?;
    let length = length.saturating_sub(begin);
    match kind {
        TYPE_IPV4 => ipv4(bytes, length),
        TYPE_IPV6 => ipv6(bytes, length),
        _ => Err(Skip::NotIp),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Skip> {
    bytes.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]])).ok_or(Skip::Truncated)
}

/// Where the header of the network begins, and its EtherType.
fn network(link: u32, bytes: &[u8]) -> Result<(usize, u16), Skip> {
    let by_version = || match bytes.first().map(|byte| byte >> 4) {
        Some(4) => Ok((0, TYPE_IPV4)),
        Some(6) => Ok((0, TYPE_IPV6)),
        Some(_) => Err(Skip::NotIp),
        None => Err(Skip::Truncated),
    };
    match link {
        link::ETHERNET => {
            let mut at = 12;
            let mut kind = u16_at(bytes, at)?;
            while TYPES_VLAN.contains(&kind) && at < 12 + 4 * 4 {
                at += 4;
                kind = u16_at(bytes, at)?;
            }
            Ok((at + 2, kind))
        }
        link::LINUX_SLL => Ok((16, u16_at(bytes, 14)?)),
        link::LINUX_SLL2 => Ok((20, u16_at(bytes, 0)?)),
        link::NULL | link::LOOP => {
            let family = bytes.get(..4).ok_or(Skip::Truncated)?;
            // In the byte order of the capturing host for NULL; the values of IPv6 differ between systems.
            match family.iter().copied().max() {
                Some(2) => Ok((4, TYPE_IPV4)),
                Some(10 | 23 | 24 | 26 | 28 | 30) => Ok((4, TYPE_IPV6)),
                _ => Err(Skip::NotIp),
            }
        }
        link::IPV4 => Ok((0, TYPE_IPV4)),
        link::IPV6 => Ok((0, TYPE_IPV6)),
        link if link::RAW.contains(&link) => by_version(),
        other => Err(Skip::Link(other)),
    }
}

fn ipv4(bytes: &[u8], length: usize) -> Result<Segment<'_>, Skip> {
    let first = bytes.get(..20).ok_or(Skip::Truncated)?;
    let header = usize::from(first[0] & 0x0f) * 4;
    if first[0] >> 4 != 4 || header < 20 {
        return Err(Skip::Invalid);
    }
    // More fragments, or an offset.
    if u16_at(first, 6)? & 0x3fff != 0 {
        return Err(Skip::Fragment);
    }
    if first[9] != TCP {
        return Err(Skip::NotTcp);
    }
    // Segments that the network card will split are captured before, with a length of 0 where it does not fit.
    let total = match usize::from(u16_at(first, 2)?) {
        0 => length,
        total => total,
    };
    let addresses = (Endpoint::v4(&first[12..16], 0), Endpoint::v4(&first[16..20], 0));
    let rest = total.checked_sub(header).ok_or(Skip::Invalid)?;
    tcp(addresses, bytes.get(header..).ok_or(Skip::Truncated)?, rest)
}

fn ipv6(bytes: &[u8], length: usize) -> Result<Segment<'_>, Skip> {
    let first = bytes.get(..40).ok_or(Skip::Truncated)?;
    if first[0] >> 4 != 6 {
        return Err(Skip::Invalid);
    }
    let mut rest = match usize::from(u16_at(first, 4)?) {
        0 => length.saturating_sub(40),
        payload => payload,
    };
    let addresses = (Endpoint::v6(&first[8..24], 0), Endpoint::v6(&first[24..40], 0));
    let mut next = first[6];
    let mut at = 40;
    // More extension headers than any packet has.
    for _ in 0..16 {
        let size = match next {
            TCP => return tcp(addresses, bytes.get(at..).ok_or(Skip::Truncated)?, rest),
            // Hop-by-hop options, routing, destination options, mobility, host identity, shim6.
            0 | 43 | 60 | 135 | 139 | 140 => {
                (usize::from(*bytes.get(at + 1).ok_or(Skip::Truncated)?) + 1) * 8
            }
            // Authentication.
            51 => (usize::from(*bytes.get(at + 1).ok_or(Skip::Truncated)?) + 2) * 4,
            44 => {
                if u16_at(bytes, at + 2)? & 0xfff9 != 0 {
                    return Err(Skip::Fragment);
                }
                8
            }
            _ => return Err(Skip::NotTcp),
        };
        next = *bytes.get(at).ok_or(Skip::Truncated)?;
        at += size;
        rest = rest.checked_sub(size).ok_or(Skip::Invalid)?;
    }
    Err(Skip::Invalid)
}

/// `length` is that of header and payload on the link.
fn tcp(
    (mut source, mut destination): (Endpoint, Endpoint),
    bytes: &[u8],
    length: usize,
) -> Result<Segment<'_>, Skip> {
    let first = bytes.get(..20).ok_or(Skip::Truncated)?;
    let header = usize::from(first[12] >> 4) * 4;
    let payload_length = length.checked_sub(header).filter(|_| header >= 20).ok_or(Skip::Invalid)?;
    source.port = u16_at(first, 0)?;
    destination.port = u16_at(first, 2)?;
    // Short frames of Ethernet have padding after the packet.
    let payload = bytes.get(header..).unwrap_or_default();
    let payload = &payload[..payload.len().min(payload_length)];
    let number = |at: usize| u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
    Ok(Segment {
        source,
        destination,
        sequence: number(4),
        acknowledgment: number(8),
        flags: first[13],
        window: u16_at(first, 14)?,
        length: payload_length,
        payload,
    })
}
