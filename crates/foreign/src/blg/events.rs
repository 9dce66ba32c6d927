//! The file of Event Tracing for Windows: a header, then buffers of one size with events.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};

use super::bytes::{i64_at, size_at, u16_at, u32_at};
use super::zone::{self, Zone};
use crate::counters::Notes;
use crate::{Fault, Source};

/// Bytes of the header of a buffer: `WMI_BUFFER_HEADER`.
pub(super) const BUFFER_HEADER: usize = 72;
/// Bytes of the header of the first event: `SYSTEM_TRACE_HEADER`.
pub(super) const SYSTEM_HEADER: usize = 32;
/// Bytes of the header of an event of counters: `EVENT_TRACE_HEADER`.
const EVENT_HEADER: usize = 48;
/// Bytes before the data of an event: its header, the identifier of the log, the number of the part and how many there are.
const DATA: usize = EVENT_HEADER + 24;

/// The class of the events of counters, 933f3bb3-943e-490d-9ced-3cbb14c14479, as both known logs have it.
pub(super) const CLASS: [u8; 16] =
    [0xb3, 0x3b, 0x3f, 0x93, 0x3e, 0x94, 0x0d, 0x49, 0x9c, 0xed, 0x3c, 0xbb, 0x14, 0xc1, 0x44, 0x79];
/// Their version, as both known logs have it.
const VERSION: u16 = 60;

/// What relog makes of logs that are not read here.
pub(super) const RELOG: &str =
    "convert a log of Performance Monitor with relog FILE.blg -f CSV -o FILE.csv, and import FILE.csv";

/// 1601 to 1970 in units of 100 ns.
const EPOCH: i64 = 116_444_736_000_000_000;

/// Flags of `LogFileMode`, from `evntrace.h`.
const CIRCULAR: u32 = 0x2;
const COMPRESSED: u32 = 0x0400_0000;
const ONE_BUFFER: u32 = 0x1000_0000;

/// The most bytes of events that wait for earlier ones of other processors.
const WAITING_MAX: usize = 8 << 20;

/// The most bytes of a record of several events.
const RECORD_MAX: usize = 32 << 20;

/// The first event: `TRACE_LOGFILE_HEADER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of each buffer.
    pub(super) size: usize,
    /// Bits of a pointer.
    pub(super) bits: u8,
    /// The version of Windows.
    pub(super) major: u8,
    pub(super) minor: u8,
    processors: u32,
    mode: u32,
    /// Events and buffers that were lost, as the log says.
    lost: (u32, u32),
    is_closed: bool,
    pub(super) zone: Zone,
}

impl Header {
    /// The header in the first bytes of a file; none if it is no such file.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        let header = bytes.get(BUFFER_HEADER..)?;
        // Version, type, marker, size of the event, and its type: that of the first event of each file.
        let &[0..=2, 0, kind @ (1 | 2), 0xc0, _, _, 0, 0, ..] = header else { return None };
        let file = header.get(SYSTEM_HEADER..)?;
        let size = size_at(file, 0)?;
        let is_size = size.is_multiple_of(512) && (512..=64 << 20).contains(&size);
        if !is_size || size_at(bytes, 0)? != size {
            return None;
        }
        let pointers = if kind == 1 { 8 } else { 16 };
        let after = (56 + pointers + zone::BYTES).next_multiple_of(8);
        Some(Header {
            size,
            bits: 32 * kind,
            major: *file.get(4)?,
            minor: *file.get(5)?,
            processors: u32_at(file, 12)?,
            is_closed: i64_at(file, 16)? != 0,
            mode: u32_at(file, 32)?,
            lost: (u32_at(file, 48)?, u32_at(file, after + 28)?),
            zone: Zone::parse(file.get(56 + pointers..)?)?,
        })
    }

    /// Events of several processors come in buffers of each one.
    fn is_mixed(&self) -> bool {
        self.processors != 1 && self.mode & ONE_BUFFER == 0
    }
}

/// What a record of counters is, by the type of its events. The types are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The list of counters.
    List,
    /// A sample.
    Sample,
    /// The objects, instances and counters of all samples: at the end.
    Summary,
    /// Names of objects and counters with their numbers.
    Names,
}

/// A record: the data of one event, or of several that follow each other.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Local time: nanoseconds since 1970 as if it were UTC.
    pub(super) local_unix_ns: i64,
    pub(super) data: Vec<u8>,
}

/// An event of counters.
struct Event {
    kind: u8,
    time: i64,
    part: (u32, u32),
    data: Vec<u8>,
}

/// The records of a file, in the order of time.
pub(super) struct Records {
    from: Source,
    header: Header,
    /// The buffer, and what of it has events that were not read.
    buffer: Vec<u8>,
    unread: std::ops::Range<usize>,
    /// Buffers so far.
    count: u64,
    sequence: Option<i64>,
    /// Events that wait for earlier ones, by their time and order.
    waiting: BTreeMap<(i64, u64), Event>,
    waiting_bytes: usize,
    events: u64,
    /// Parts of a record so far, and the number of the next one.
    parts: Option<(Record, u32)>,
    is_at_end: bool,
    /// Whether the file ends within the buffer.
    is_cut: bool,
    pub(super) notes: Notes,
}

impl Records {
    pub(super) fn open(from: Source, header: Header) -> Result<Records, Fault> {
        if header.mode & COMPRESSED != 0 {
            return Err(Fault::at(0, "a binary log with compressed buffers, which are not read", RELOG));
        }
        let mut notes = Notes::default();
        if let (events, buffers) = header.lost
            && (events > 0 || buffers > 0)
        {
            notes.add(
                &format!("the log says what was lost (events: {events}, buffers: {buffers}): these samples are absent"),
                0,
                "",
            );
        }
        if !header.is_closed {
            notes.add("the log was not closed: its last samples may be absent", 0, "");
        }
        Ok(Records {
            from,
            header,
            buffer: Vec::new(),
            unread: 0..0,
            count: 0,
            sequence: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            events: 0,
            parts: None,
            is_at_end: false,
            is_cut: false,
            notes,
        })
    }

    /// How many events of counters there were.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Leaves the rest out.
    pub(super) fn end(&mut self) {
        self.is_at_end = true;
        self.unread = 0..0;
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// The next record; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Fault> {
        while let Some(event) = self.event()? {
            if let Some(record) = self.joined(event) {
                return Ok(Some(record));
            }
        }
        if self.parts.take().is_some() {
            self.notes.add("the file ends within a sample, which was left out", 0, "");
        }
        Ok(None)
    }

    /// A record that this event completes.
    fn joined(&mut self, event: Event) -> Option<Record> {
        const LOST: &str = "a part of a sample is absent: the sample was left out";
        let kind = match event.kind {
            0x20 => Kind::List,
            0x22 => Kind::Sample,
            0x23 => Kind::Summary,
            0x24 => Kind::Names,
            _ => {
                self.notes.add("an event is of an unknown kind and was left out", 0, "");
                return None;
            }
        };
        let local_unix_ns = event.time.checked_sub(EPOCH).and_then(|time| time.checked_mul(100))?;
        let (part, parts) = event.part;
        let (mut record, expected) = match self.parts.take() {
            Some((record, expected))
                if record.kind == kind && record.local_unix_ns == local_unix_ns && part > 1 =>
            {
                (record, expected)
            }
            unfinished => {
                if unfinished.is_some() {
                    self.notes.add(LOST, 0, "");
                }
                (Record { kind, local_unix_ns, data: Vec::new() }, 1)
            }
        };
        if part != expected || part > parts || record.data.len() + event.data.len() > RECORD_MAX {
            self.notes.add(LOST, 0, "");
            return None;
        }
        match record.data.is_empty() {
            true => record.data = event.data,
            false => record.data.extend_from_slice(&event.data),
        }
        if part == parts {
            return Some(record);
        }
        self.parts = Some((record, part + 1));
        None
    }

    /// The next event in the order of time.
    fn event(&mut self) -> Result<Option<Event>, Fault> {
        if !self.header.is_mixed() {
            return self.event_of_file();
        }
        while self.waiting_bytes < WAITING_MAX {
            let Some(event) = self.event_of_file()? else { break };
            self.waiting_bytes += event.data.len() + DATA;
            self.waiting.insert((event.time, self.events), event);
        }
        let next = self.waiting.pop_first().map(|(_, event)| event);
        self.waiting_bytes -= next.as_ref().map_or(0, |event| event.data.len() + DATA);
        Ok(next)
    }

    /// The next event of counters in the file.
    fn event_of_file(&mut self) -> Result<Option<Event>, Fault> {
        loop {
            while self.unread.is_empty() {
                if !self.fill()? {
                    return Ok(None);
                }
            }
            let bytes = &self.buffer[self.unread.clone()];
            // The header says its size at one of two places.
            let size = match bytes.get(2) {
                Some(1..=4 | 16 | 17) => u16_at(bytes, 4),
                _ => u16_at(bytes, 0),
            };
            let Some(event) =
                size.map(usize::from).filter(|size| *size >= 8).and_then(|size| bytes.get(..size))
            else {
                if !self.is_cut {
                    self.notes.add("an event is damaged: the rest of its buffer was left out", 0, "");
                }
                self.unread = 0..0;
                continue;
            };
            let found = parse(event);
            let size = event.len().next_multiple_of(8).min(self.unread.len());
            self.unread.start += size;
            match found {
                Some(Ok(event)) => {
                    self.events += 1;
                    return Ok(Some(event));
                }
                Some(Err(version)) => {
                    return Err(Fault::at(
                        0,
                        format!("a binary log whose counters have the version {version}, which is not known"),
                        RELOG,
                    ));
                }
                // The header, or an event of another provider.
                None => {}
            }
        }
    }

    /// Reads the next buffer; false at the end.
    fn fill(&mut self) -> Result<bool, Fault> {
        if self.is_at_end {
            return Ok(false);
        }
        self.buffer.resize(self.header.size, 0);
        let mut length = 0;
        while length < self.buffer.len() {
            match self.from.read(&mut self.buffer[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_at_end = true;
                    return Err(Fault::of_file(&error));
                }
            }
        }
        self.is_at_end = length < self.buffer.len();
        if length == 0 {
            return Ok(false);
        }
        self.count += 1;
        let bytes = &self.buffer[..length];
        self.unread = 0..0;
        if bytes.iter().take(BUFFER_HEADER).all(|byte| *byte == 0) {
            // A part of the file that was reserved and not written.
            return Ok(true);
        }
        let (size, filled) = (size_at(bytes, 0), size_at(bytes, 48));
        let Some(filled) = filled.filter(|filled| {
            size == Some(self.header.size) && (BUFFER_HEADER..=self.header.size).contains(filled)
        }) else {
            self.notes.add("a buffer is damaged and was left out", 0, "");
            self.sequence = None;
            return Ok(true);
        };
        self.is_cut = length < filled;
        if self.is_cut {
            self.notes.add("the file ends within a buffer: what it has was read", 0, "");
        }
        self.unread = BUFFER_HEADER.min(length)..filled.min(length);
        if let Some(sequence) = i64_at(bytes, 24) {
            let before = self.sequence.replace(sequence);
            if before.is_some_and(|before| sequence < before) && self.header.mode & CIRCULAR != 0 {
                self.is_at_end = true;
                self.unread = 0..0;
                let what = format!(
                    "a circular log: buffer {} is earlier than the one before it, and the rest was left out",
                    self.count
                );
                self.notes.add(&what, 0, RELOG);
                return Ok(false);
            }
            if before.is_some_and(|before| sequence > before.saturating_add(1)) && !self.header.is_mixed() {
                self.notes.add("buffers are missing: their samples are absent", 0, "");
            }
        }
        Ok(true)
    }
}

/// An event of counters, or its version if that is not known; none for another event.
fn parse(bytes: &[u8]) -> Option<Result<Event, u16>> {
    // EVENT_TRACE_HEADER of 32 and of 64 bits.
    if !matches!(bytes.get(2), Some(10 | 20)) || bytes.get(24..40)? != CLASS {
        return None;
    }
    let version = u16_at(bytes, 6)?;
    if version != VERSION {
        return Some(Err(version));
    }
    Some(Ok(Event {
        kind: *bytes.get(4)?,
        time: i64_at(bytes, 16)?,
        part: (u32_at(bytes, 64)?, u32_at(bytes, 68)?),
        data: bytes.get(DATA..)?.to_vec(),
    }))
}
