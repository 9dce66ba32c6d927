//! pcapng: blocks of sections, interfaces and packets.

use std::io::Read;

use super::{CaptureError, Order, PACKET_BYTES_MAX, Packet, field};
use crate::capture::source::Source;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Options of an interface.
const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;
/// Options of statistics: dropped by the interface, and by the operating system.
const DROPPED: [u16; 2] = [5, 7];

/// Type, total length, and the length again at the end.
const BLOCK_MIN: usize = 12;

/// More interfaces than a section of a real capture has.
const INTERFACES_MAX: usize = 4096;

#[derive(Default)]
pub(super) struct Pcapng {
    order: Option<Order>,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    /// The most bytes that are captured of a packet; 0 for all.
    snap_length: usize,
    /// Units of time in a second.
    units_per_s: u64,
    offset_s: i64,
    /// The largest count of dropped packets so far.
    dropped: u64,
}

impl Interface {
    fn time_ns(&self, high: u32, low: u32) -> Option<u64> {
        let units = i128::from(u64::from(high) << 32 | u64::from(low));
        let ns =
            units * 1_000_000_000 / i128::from(self.units_per_s) + i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(ns).ok()
    }
}

/// A packet in the block that is read next.
struct Found {
    interface: usize,
    time: Option<(u32, u32)>,
    captured: usize,
    length: usize,
    /// Offset of its bytes in the block.
    begin: usize,
}

impl Pcapng {
    pub(super) fn packet<'a, R: Read>(
        &mut self,
        source: &'a mut Source<R>,
        dropped: &mut u64,
    ) -> Result<Option<Packet<'a>>, CaptureError> {
        let (found, total) = loop {
            if !source.fill(8)? {
                return match source.bytes().len() {
                    0 => Ok(None),
                    there => Err(source.error(format!(
                        "the file ends within the header of a block, after {there} of 8 bytes"
                    ))),
                };
            }
            if field(source.bytes(), 0) == SECTION.to_be_bytes() {
                self.section(source)?;
                continue;
            }
            let Some(order) = self.order else {
                return Err(source.error("the file does not begin with a section: it is damaged"));
            };
            let (kind, total) = (order.u32(source.bytes(), 0), order.u32(source.bytes(), 4) as usize);
            if total < BLOCK_MIN || !total.is_multiple_of(4) {
                return Err(
                    source.error(format!("a block has a length of {total} bytes: the file is damaged here"))
                );
            }
            let is_read = matches!(kind, INTERFACE | PACKET | SIMPLE_PACKET | STATISTICS | ENHANCED_PACKET);
            if !is_read {
                if !source.skip(total as u64)? {
                    return Err(source.error(format!("the file ends within a block of {total} bytes")));
                }
                continue;
            }
            if total > PACKET_BYTES_MAX {
                return Err(source.error(format!(
                    "a block of {total} bytes is announced, more than {PACKET_BYTES_MAX}: the file is damaged here"
                )));
            }
            if !source.fill(total)? {
                let there = source.bytes().len();
                return Err(
                    source.error(format!("the file ends within a block, after {there} of {total} bytes"))
                );
            }
            let block = &source.bytes()[..total - 4];
            match kind {
                INTERFACE => {
                    if self.interfaces.len() >= INTERFACES_MAX {
                        return Err(
                            source.error(format!("the section has more than {INTERFACES_MAX} interfaces"))
                        );
                    }
                    match interface(order, block) {
                        Ok(interface) => self.interfaces.push(interface),
                        Err(what) => return Err(source.error(what)),
                    }
                    source.taken(total);
                }
                STATISTICS => {
                    self.statistics(order, block, dropped);
                    source.taken(total);
                }
                _ => match self.found(kind, order, block) {
                    Ok(found) => break (found, total),
                    Err(what) => return Err(source.error(what)),
                },
            }
        };
        let interface = &self.interfaces[found.interface];
        let time_ns = found.time.and_then(|(high, low)| interface.time_ns(high, low));
        let bytes = &source.taken(total)[found.begin..][..found.captured];
        Ok(Some(Packet { time_ns, link: interface.link, length: found.length.max(found.captured), bytes }))
    }

    /// Reads the header of a section, which may have another byte order.
    fn section<R: Read>(&mut self, source: &mut Source<R>) -> Result<(), CaptureError> {
        if !source.fill(16)? {
            return Err(source.error("the header of a section is truncated"));
        }
        let order = match field(source.bytes(), 8) {
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            _ => return Err(source.error("the byte order of a section is unknown: the file is damaged here")),
        };
        let (total, version) = (order.u32(source.bytes(), 4), order.u16(source.bytes(), 12));
        if version != 1 {
            return Err(source.error(format!("version {version} of pcapng is not supported, only 1")));
        }
        if total < 28 || !total.is_multiple_of(4) {
            return Err(source
                .error(format!("a section header has a length of {total} bytes: the file is damaged here")));
        }
        if !source.skip(u64::from(total))? {
            return Err(source.error("the header of a section is truncated"));
        }
        self.order = Some(order);
        self.interfaces.clear();
        Ok(())
    }

    fn found(&self, kind: u32, order: Order, block: &[u8]) -> Result<Found, String> {
        let number = |at| order.u32(block, at);
        let found = match kind {
            ENHANCED_PACKET => Found {
                interface: number(8) as usize,
                time: Some((number(12), number(16))),
                captured: number(20) as usize,
                length: number(24) as usize,
                begin: 28,
            },
            PACKET => Found {
                interface: usize::from(order.u16(block, 8)),
                time: Some((number(12), number(16))),
                captured: number(20) as usize,
                length: number(24) as usize,
                begin: 28,
            },
            _ => {
                let length = number(8) as usize;
                let snap_length = self.interfaces.first().map_or(0, |interface| interface.snap_length);
                let captured = if snap_length == 0 { length } else { length.min(snap_length) };
                Found { interface: 0, time: None, captured, length, begin: 12 }
            }
        };
        if found.interface >= self.interfaces.len() {
            return Err(format!(
                "a packet is of interface {}, which the section does not have",
                found.interface
            ));
        }
        match found.begin.checked_add(found.captured) {
            Some(end) if end <= block.len() => Ok(found),
            _ => Err(format!(
                "a packet of {} bytes is announced in a block of {} bytes: the file is damaged here",
                found.captured,
                block.len() + 4
            )),
        }
    }

    fn statistics(&mut self, order: Order, block: &[u8], dropped: &mut u64) {
        let number = order.u32(block, 8) as usize;
        let Some(interface) = self.interfaces.get_mut(number) else { return };
        let mut sum: u64 = 0;
        for (code, value) in options(order, block.get(20..).unwrap_or_default()) {
            if DROPPED.contains(&code) && value.len() == 8 {
                sum = sum.saturating_add(order.u64(value, 0));
            }
        }
        let more = sum.saturating_sub(interface.dropped);
        interface.dropped += more;
        *dropped = dropped.saturating_add(more);
    }
}

fn interface(order: Order, block: &[u8]) -> Result<Interface, String> {
    if block.len() < 16 {
        return Err("the description of an interface is truncated".into());
    }
    let mut interface = Interface {
        link: u32::from(order.u16(block, 8)),
        snap_length: order.u32(block, 12) as usize,
        units_per_s: 1_000_000,
        offset_s: 0,
        dropped: 0,
    };
    for (code, value) in options(order, &block[16..]) {
        match (code, value) {
            (TIME_RESOLUTION, [exponent, ..]) => {
                let (base, exponent) = match exponent & 0x80 {
                    0 => (10_u64, u32::from(*exponent)),
                    _ => (2, u32::from(exponent & 0x7f)),
                };
                interface.units_per_s = base.checked_pow(exponent).ok_or(format!(
                    "the time resolution {base}^-{exponent} s of an interface is not supported"
                ))?;
            }
            (TIME_OFFSET, value) if value.len() == 8 => {
                interface.offset_s = order.u64(value, 0) as i64;
            }
            _ => {}
        }
    }
    Ok(interface)
}

/// Options: a code, a length, a value, and bytes up to a multiple of four.
fn options(order: Order, mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        if rest.len() < 4 {
            return None;
        }
        let (code, length) = (order.u16(rest, 0), usize::from(order.u16(rest, 2)));
        let value = rest.get(4..4 + length)?;
        rest = rest.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, value))
    })
}
