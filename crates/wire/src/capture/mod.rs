//! Files of captured packets: pcap, pcapng and snoop, read as a stream in constant memory.

mod pcap;
mod pcapng;
mod snoop;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Read;

use source::Source;

/// The largest packet that is read. Larger ones are a sign of a damaged file.
const PACKET_BYTES_MAX: usize = 16 << 20;

/// A capture that cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureError {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for CaptureError {}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// libpcap's.
    Pcap,
    /// The newer one, with blocks.
    Pcapng,
    /// That of snoop (RFC 1761).
    Snoop,
}

impl Format {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Pcap => "pcap",
            Format::Pcapng => "pcapng",
            Format::Snoop => "snoop",
        }
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 UTC; none if the file does not say.
    pub time_ns: Option<u64>,
    /// The type of its link, as in <https://www.tcpdump.org/linktypes.html>.
    pub link: u32,
    /// Its length on the link, bytes.
    pub length: usize,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
}

/// A byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes: [u8; 2] = field(bytes, at);
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes: [u8; 4] = field(bytes, at);
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let bytes: [u8; 8] = field(bytes, at);
        match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Some bytes at a place; zeros where there are none.
#[inline(always)]
fn field<const LENGTH: usize>(bytes: &[u8], at: usize) -> [u8; LENGTH] {
    bytes.get(at..at + LENGTH).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; LENGTH])
}

/// Reads the packets of a capture.
pub struct Capture<R> {
    source: Source<R>,
    reader: Reader,
    dropped: u64,
}

enum Reader {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Snoop(snoop::Snoop),
}

impl<R: Read> Capture<R> {
    /// Recognizes the format by the first bytes.
    pub fn open(from: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(from);
        source.fill(8)?;
        let first: [u8; 4] = field(source.bytes(), 0);
        let reader = match first {
            _ if source.bytes().is_empty() => {
                return Err(
                    source.error("the capture is empty: write it again, for example with tcpdump -w FILE")
                );
            }
            [0x1f, 0x8b, ..] => {
                return Err(source.error(
                    "the capture is compressed with gzip: decompress it, for example with zcat FILE | plimsoll wire -",
                ));
            }
            [0x28, 0xb5, 0x2f, 0xfd] => {
                return Err(source.error(
                    "the capture is compressed with zstd: decompress it, for example with zstdcat FILE | plimsoll wire -",
                ));
            }
            [0x0a, 0x0d, 0x0d, 0x0a] => Reader::Pcapng(pcapng::Pcapng::default()),
            _ if source.bytes().starts_with(b"snoop\0\0\0") => {
                Reader::Snoop(snoop::Snoop::open(&mut source)?)
            }
            _ => Reader::Pcap(pcap::Pcap::open(&mut source)?),
        };
        Ok(Capture { source, reader, dropped: 0 })
    }

    /// Its format.
    pub fn format(&self) -> Format {
        match self.reader {
            Reader::Pcap(_) => Format::Pcap,
            Reader::Pcapng(_) => Format::Pcapng,
            Reader::Snoop(_) => Format::Snoop,
        }
    }

    /// The next packet; none at the end.
    pub fn packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        match &mut self.reader {
            Reader::Pcap(pcap) => pcap.packet(&mut self.source),
            Reader::Pcapng(pcapng) => pcapng.packet(&mut self.source, &mut self.dropped),
            Reader::Snoop(snoop) => snoop.packet(&mut self.source, &mut self.dropped),
        }
    }

    /// Bytes of the file that were read.
    pub fn bytes(&self) -> u64 {
        self.source.offset()
    }

    /// Packets that the capturing program dropped, as far as the file says it.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Nanoseconds from seconds and a fraction, which is below a second in intact files.
fn time_ns(seconds: u32, fraction_ns: u64) -> Option<u64> {
    Some(u64::from(seconds) * 1_000_000_000 + fraction_ns)
}
