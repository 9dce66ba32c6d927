//! Writes logs as Windows does, for tests. Its list and its samples are, byte for byte, those of a buffer of a log of Windows 8.

use super::super::zone::BYTES;

/// What identifies the counter of an entry.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) host: &'a str,
    pub(super) object: &'a str,
    pub(super) instance: Option<&'a str>,
    pub(super) counter: &'a str,
}

/// The parent of an instance, and its number.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) parent: Option<&'a str>,
    pub(super) nth: u32,
}

/// An instance of an object with the values of its counters.
pub(super) struct Count<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<i64>,
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn long(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// A file that is written.
pub(super) struct File {
    bits: u8,
    size: usize,
    bytes: Vec<u8>,
    buffer: Vec<u8>,
    sequence: u8,
}

impl File {
    /// A log of Windows 6.2 with a time zone of the Pacific coast.
    pub(super) fn new(bits: u8, size: usize) -> File {
        let mut zone = vec![0; BYTES];
        zone[..4].copy_from_slice(&480_u32.to_le_bytes());
        zone[4..30].copy_from_slice(&wide("@tzres.dll,-212")[..26]);
        zone[168..172].copy_from_slice(&(-60_i32).to_le_bytes());
        for (at, month, day) in [(68, 11, 1), (152, 3, 2)] {
            zone[at + 2] = month;
            zone[at + 6] = day;
            zone[at + 8] = 2;
        }
        let pointer = usize::from(bits / 8);
        let mut event = vec![0; 32];
        event[..4].copy_from_slice(&[0, 0, bits / 32, 0xc0]);
        event.extend(words(&[u32::try_from(size).unwrap(), 0x0501_0206, 9200, 1]));
        event.extend(1_i64.to_le_bytes());
        event.extend(words(&[156_250, 0, 0x3002_0801, 6, 1, u32::from(bits / 8), 0, 2791]));
        event.resize(event.len() + 2 * pointer, 0);
        event.extend(zone);
        let mut event = padded(event);
        event.extend([0; 32]);
        let length = u16::try_from(event.len()).unwrap();
        event[4..6].copy_from_slice(&length.to_le_bytes());
        let mut file = File { bits, size, bytes: Vec::new(), buffer: vec![0; 72], sequence: 0 };
        file.buffer.extend(event);
        file.next_buffer();
        file
    }

    /// Ends the buffer.
    pub(super) fn next_buffer(&mut self) {
        let mut buffer = std::mem::replace(&mut self.buffer, vec![0; 72]);
        let filled = buffer.len();
        buffer.resize(self.size, 0xff);
        buffer[..4].copy_from_slice(&u32::try_from(self.size).unwrap().to_le_bytes());
        for at in [4, 48] {
            buffer[at..at + 4].copy_from_slice(&u32::try_from(filled).unwrap().to_le_bytes());
        }
        buffer[24] = self.sequence;
        self.sequence += 1;
        self.bytes.extend(buffer);
    }

    /// Writes an event.
    pub(super) fn event(&mut self, kind: u8, time: i64, part: (u32, u32), data: &[u8]) {
        let mut event = vec![0; 48];
        event[..2].copy_from_slice(&u16::try_from(72 + data.len()).unwrap().to_le_bytes());
        event[2..8].copy_from_slice(&[if self.bits == 64 { 20 } else { 10 }, 0xc0, kind, 0, 60, 0]);
        event[16..24].copy_from_slice(&time.to_le_bytes());
        event[24..40].copy_from_slice(&super::super::events::CLASS);
        event.resize(64, 0);
        event.extend(words(&[part.0, part.1]));
        event.extend(data);
        let event = padded(event);
        if self.buffer.len() + event.len() > self.size {
            self.next_buffer();
        }
        self.buffer.extend(event);
    }

    /// The whole file.
    pub(super) fn end(mut self) -> Vec<u8> {
        if self.buffer.len() > 72 {
            self.next_buffer();
        }
        self.bytes
    }

    fn set(&mut self, at: usize, value: u32) {
        self.bytes[104 + at..108 + at].copy_from_slice(&value.to_le_bytes());
    }

    /// A log of several processors, with a buffer for each.
    pub(super) fn set_processors(&mut self, count: u32) {
        self.set(12, count);
        self.set_mode(1);
    }

    pub(super) fn set_mode(&mut self, mode: u32) {
        self.set(32, mode);
    }

    /// Events and buffers that were lost.
    pub(super) fn set_lost(&mut self, events: u32, buffers: u32) {
        self.set(48, events);
        self.set(248 + 28, buffers);
    }
}

/// A list of counters: flags, type and names of each.
pub(super) fn list(entries: &[(u32, u32, Names<'_>)]) -> Vec<u8> {
    let mut bytes = words(&[0x6ff, 0x2_0008]);
    for (flags, kind, names) in entries {
        let mut text = wide(names.host);
        let object = long(&text);
        text.extend(wide(names.object));
        let instance = names.instance.map_or(u32::MAX, |_| long(&text));
        text.extend(names.instance.map(wide).unwrap_or_default());
        let counter = long(&text);
        text.extend(wide(names.counter));
        let frequency = if kind & 0x0030_0000 == 0x0010_0000 { 10_000_000 } else { 1000 };
        let mut entry =
            words(&[0, *flags, 0, *kind, frequency, 0, 0, 0, object, instance, u32::MAX, 0, counter]);
        entry.extend(text);
        // At least a zero, as observed.
        let entry = padded(entry);
        bytes.extend(long(&entry).to_le_bytes());
        bytes.extend(&entry[4..]);
    }
    bytes
}

/// The only entry of a list with a parent and a number.
pub(super) fn with(list: &[u8], part: Part<'_>) -> Vec<u8> {
    let mut bytes = list.to_vec();
    let entry = &mut bytes[8..];
    if let Some(parent) = part.parent {
        let at = long(&entry[52..]);
        entry[40..44].copy_from_slice(&at.to_le_bytes());
        entry[44..48].copy_from_slice(&part.nth.to_le_bytes());
        bytes.extend(wide(parent));
        let mut bytes = padded(bytes);
        let size = long(&bytes[8..]);
        bytes[8..12].copy_from_slice(&size.to_le_bytes());
        return bytes;
    }
    bytes
}

/// Names with their numbers.
pub(super) fn names(host: &str, names: &[(u32, &str)]) -> Vec<u8> {
    let mut bytes = wide(host);
    for (number, name) in names {
        bytes.extend(wide(&number.to_string()));
        bytes.extend(wide(name));
    }
    bytes.extend([0; 2]);
    bytes
}

/// A sample of these values.
pub(super) fn record(values: &[Vec<u8>]) -> Vec<u8> {
    tagged(0, values.concat())
}

fn tagged(kind: u8, data: Vec<u8>) -> Vec<u8> {
    let data = padded(data);
    let mut bytes = vec![b'B', b'L', 3, kind];
    bytes.extend((long(&data) + 8).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// The value of a single counter.
pub(super) fn value(status: u32, time: i64, raw: (i64, i64)) -> Vec<u8> {
    let mut data = words(&[status]);
    data.extend(time.to_le_bytes());
    data.extend([0; 4]);
    data.extend(raw.0.to_le_bytes());
    data.extend(raw.1.to_le_bytes());
    data.extend(words(&[1, 0]));
    tagged(1, data)
}

/// The values of a counter of all instances.
pub(super) fn item(time: i64, instances: &[(&str, (i64, i64))]) -> Vec<u8> {
    let count = u32::try_from(instances.len()).unwrap();
    let mut items = Vec::new();
    let mut text = Vec::new();
    for (name, (first, second)) in instances {
        items.extend(words(&[24 + 24 * count + long(&text), 0]));
        items.extend(first.to_le_bytes());
        items.extend(second.to_le_bytes());
        text.extend(wide(name));
    }
    let mut data = words(&[0, count, 0, 0]);
    data.extend(time.to_le_bytes());
    data.extend(items);
    data.extend(text);
    let mut data = padded(data);
    // As observed.
    data.extend([0; 16]);
    let size = long(&data);
    data[..4].copy_from_slice(&size.to_le_bytes());
    tagged(2, data)
}

/// An object with its counters: the number of the name and the type of each.
pub(super) fn object(
    time: i64,
    name: u32,
    counters: &[(u32, u32)],
    instances: Option<&[Count<'_>]>,
) -> Vec<u8> {
    let size_of = |kind: u32| if kind & 0x300 == 0x100 { 8 } else { 4 };
    let mut definitions = Vec::new();
    let mut at = 8;
    for (name, kind) in counters {
        let size = size_of(*kind);
        definitions.extend(words(&[40, *name, 0, *name + 1, 0, 0, 100, *kind, size, at]));
        at += size;
    }
    let block = |values: &[i64]| {
        let mut block = vec![0; 8];
        for ((_, kind), value) in counters.iter().zip(values) {
            block.extend(&value.to_le_bytes()[..size_of(*kind) as usize]);
        }
        let mut block = padded(block);
        let size = long(&block);
        block[..4].copy_from_slice(&size.to_le_bytes());
        block
    };
    let mut blocks = Vec::new();
    for instance in instances.unwrap_or_default() {
        let text = wide(instance.name);
        let mut definition = words(&[0, 0, 0, u32::MAX, 24, long(&text)]);
        definition.extend(text);
        let mut definition = padded(definition);
        let size = long(&definition);
        definition[..4].copy_from_slice(&size.to_le_bytes());
        blocks.extend(definition);
        blocks.extend(block(&instance.values));
    }
    if instances.is_none() {
        blocks.extend(block(&vec![77; counters.len()]));
    }
    let head = 64 + long(&definitions);
    let count = instances.map_or(u32::MAX, |instances| u32::try_from(instances.len()).unwrap());
    let length = u32::try_from(counters.len()).unwrap();
    let mut found = words(&[head + long(&blocks), head, 64, name, 0, name + 1, 0, 100, length, 0, count, 0]);
    found.extend(time.to_le_bytes());
    found.extend(10_000_000_i64.to_le_bytes());
    found.extend(definitions);
    found.extend(blocks);
    let system = wide("DB1");
    let begin = (88 + long(&system)).next_multiple_of(8);
    let mut data = wide("PERF");
    data.truncate(8);
    data.extend(words(&[1, 1, 1, begin + long(&found), begin, 1, name]));
    data.extend([0; 20]);
    for ticks in [time, 10_000_000, time] {
        data.extend(ticks.to_le_bytes());
    }
    data.extend(words(&[long(&system), 88]));
    data.extend(system);
    let mut data = padded(data);
    data.extend(found);
    tagged(5, data)
}
