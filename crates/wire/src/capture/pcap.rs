//! libpcap's format: a header, then a record for each packet.

use std::io::Read;

use super::{CaptureError, Order, PACKET_BYTES_MAX, Packet, field, time_ns};
use crate::capture::source::Source;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

pub(super) struct Pcap {
    order: Order,
    /// Nanoseconds of a unit of the fraction.
    fraction_ns: u64,
    link: u32,
}

impl Pcap {
    pub(super) fn open<R: Read>(source: &mut Source<R>) -> Result<Self, CaptureError> {
        let magic: [u8; 4] = field(source.bytes(), 0);
        let (order, fraction_ns) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 1000),
            [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 1000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 1),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 1),
            _ => {
                return Err(source.error(format!(
                    "the capture begins with {:02x} {:02x} {:02x} {:02x}, which is not pcap, pcapng or snoop: write it with \
                     tcpdump -w FILE, or convert it with editcap",
                    magic[0], magic[1], magic[2], magic[3]
                )));
            }
        };
        if !source.fill(FILE_HEADER)? {
            return Err(source.error("the file header of the pcap file is truncated"));
        }
        // The upper bits say whether a checksum follows each packet, which the lengths of IP leave out.
        let link = order.u32(source.taken(FILE_HEADER), 20) & 0xffff;
        Ok(Pcap { order, fraction_ns, link })
    }

    pub(super) fn packet<'a, R: Read>(
        &self,
        source: &'a mut Source<R>,
    ) -> Result<Option<Packet<'a>>, CaptureError> {
        if !source.fill(RECORD_HEADER)? {
            return match source.bytes().len() {
                0 => Ok(None),
                there => Err(source.error(format!(
                    "the file ends within the header of a packet, after {there} of {RECORD_HEADER} bytes"
                ))),
            };
        }
        let header: [u8; RECORD_HEADER] = field(source.bytes(), 0);
        let number = |at| self.order.u32(&header, at);
        let (seconds, fraction) = (number(0), u64::from(number(4)));
        let (captured, length) = (number(8) as usize, number(12) as usize);
        if captured > PACKET_BYTES_MAX {
            return Err(source.error(format!(
                "a packet of {captured} bytes is announced, more than {PACKET_BYTES_MAX}: the file is damaged here"
            )));
        }
        if !source.fill(RECORD_HEADER + captured)? {
            let there = source.bytes().len() - RECORD_HEADER;
            return Err(
                source.error(format!("the file ends within a packet, after {there} of {captured} bytes"))
            );
        }
        let bytes = &source.taken(RECORD_HEADER + captured)[RECORD_HEADER..];
        Ok(Some(Packet {
            time_ns: time_ns(seconds, fraction * self.fraction_ns),
            link: self.link,
            length: length.max(captured),
            bytes,
        }))
    }
}
