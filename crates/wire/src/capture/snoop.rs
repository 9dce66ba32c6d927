//! The format of snoop (RFC 1761).

use std::io::Read;

use super::{CaptureError, Order, PACKET_BYTES_MAX, Packet, time_ns};
use crate::capture::source::Source;

const FILE_HEADER: usize = 16;
const RECORD_HEADER: usize = 24;

/// The data link type of Ethernet in these files.
const ETHERNET: u32 = 4;

pub(super) struct Snoop {
    link: u32,
}

impl Snoop {
    pub(super) fn open<R: Read>(source: &mut Source<R>) -> Result<Self, CaptureError> {
        if !source.fill(FILE_HEADER)? {
            return Err(source.error("the file header of the snoop file is truncated"));
        }
        let header = source.bytes();
        let (version, link) = (Order::Big.u32(header, 8), Order::Big.u32(header, 12));
        if version != 2 {
            return Err(
                source.error(format!("version {version} of the snoop format is not supported, only 2"))
            );
        }
        if link != ETHERNET {
            return Err(source.error(format!(
                "data link type {link} of the snoop file is not supported, only Ethernet ({ETHERNET})"
            )));
        }
        source.taken(FILE_HEADER);
        Ok(Snoop { link: crate::packet::link::ETHERNET })
    }

    pub(super) fn packet<'a, R: Read>(
        &self,
        source: &'a mut Source<R>,
        dropped: &mut u64,
    ) -> Result<Option<Packet<'a>>, CaptureError> {
        if !source.fill(RECORD_HEADER)? {
            return match source.bytes().len() {
                0 => Ok(None),
                there => Err(source.error(format!(
                    "the file ends within the header of a packet, after {there} of {RECORD_HEADER} bytes"
                ))),
            };
        }
        let header = source.bytes();
        let number = |at| Order::Big.u32(header, at);
        let (length, captured, record) = (number(0) as usize, number(4) as usize, number(8) as usize);
        let (drops, seconds, fraction_us) = (number(12), number(16), u64::from(number(20)));
        if record < RECORD_HEADER || captured > record - RECORD_HEADER || record > PACKET_BYTES_MAX {
            return Err(source.error(format!(
                "a packet of {captured} bytes in a record of {record} bytes is announced: the file is damaged here"
            )));
        }
        if !source.fill(record)? {
            let there = source.bytes().len();
            return Err(
                source.error(format!("the file ends within a packet, after {there} of {record} bytes"))
            );
        }
        // A sum since the beginning.
        *dropped = (*dropped).max(u64::from(drops));
        let bytes = &source.taken(record)[RECORD_HEADER..][..captured];
        Ok(Some(Packet {
            time_ns: time_ns(seconds, fraction_us * 1000),
            link: self.link,
            length: length.max(captured),
            bytes,
        }))
    }
}
