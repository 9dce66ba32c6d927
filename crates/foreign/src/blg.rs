//! Binary logs of Windows Performance Monitor (BLG): `docs/formats/blg.md` has the layout and where each fact is from.
//!
//! Such a log is a file of Event Tracing for Windows with a list of counters, then an event or more for each sample with raw
//! values. A counter is displayed as Performance Monitor shows it.

mod bytes;
mod events;
mod kinds;
mod objects;
mod zone;

use std::collections::HashMap;

use self::bytes::{i64_at, size_at, text, u32_at, wide};
use self::events::{Header, Kind as RecordKind, RELOG, Record, Records};
use self::kinds::{Kind, Raw, Type};
use self::objects::{Definition, Instance, Object};
use crate::counters::{self, COLUMNS_MAX, Columns, CounterColumn, CounterFamily, CounterLog, Notes, Sample};
use crate::{Content, DateOrder, Fault, Format, Options, Source, input, perfmon};

pub(crate) static FORMAT: Format = Format {
    name: "blg",
    about: "binary logs of Performance Monitor (logman, perfmon): all counters",
    recognize: |head| Header::parse(head.bytes).is_some(),
    open,
};

/// The most bytes of a list of counters.
const LIST_MAX: usize = 32 << 20;

/// The most names of objects and counters, and the bytes of them.
const NAMES_MAX: usize = 1 << 18;
const NAME_BYTES_MAX: usize = 16 << 20;

/// The kinds of values in a sample, as they are observed: `BL`, 3, and the kind.
const VALUE: u32 = 0x0103_4c42;
const INSTANCES: u32 = 0x0203_4c42;
const OBJECT: u32 = 0x0503_4c42;

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let (head, whole) = input::peek(from)?;
    let Some(header) = Header::parse(&head) else {
        return Err(Fault::at(0, "the header of the log is damaged", RELOG));
    };
    let log = BlgLog {
        records: Records::open(Box::new(whole), header)?,
        header,
        names: HashMap::new(),
        name_bytes: 0,
        list: Vec::new(),
        list_bytes: 0,
        is_list_new: true,
        columns: Columns::default(),
        states: Vec::new(),
        sample: 0,
        before_ns: None,
        offset_s: None,
        notes: Notes::default(),
    };
    counters::ahead(log, |log| {
        let system = format!("Windows {}.{}, {} bits", log.header.major, log.header.minor, log.header.bits);
        let what = match log.records.events() {
            0 => format!("a trace of {system} without counters of Performance Monitor"),
            _ => format!("a binary log of {system} without a sample that can be read"),
        };
        Fault::at(0, what, RELOG)
    })
}

/// An entry of the list of counters: a counter, a counter of all instances, or an object.
struct Entry {
    host: String,
    object: String,
    /// The instance with its parent; none for an object without instances.
    instance: Option<String>,
    counter: String,
    kind: Type,
    frequency: i64,
    /// The column of a single counter.
    place: Place,
    /// The columns of instances by the bytes of their names.
    instances: HashMap<Vec<u8>, Places>,
    /// What an object had when the columns were found.
    definitions: Vec<Definition>,
}

/// The column of a counter.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    New,
    At(usize),
    /// There are too many, or it has no name.
    Absent,
}

/// The columns of the instances of one name: Performance Monitor gives the second one the name `name#1`.
#[derive(Default)]
struct Places {
    /// The last sample with this name, and how many instances of it that has.
    sample: u64,
    count: usize,
    /// The columns of each counter of each of them.
    columns: Vec<Place>,
}

/// The last raw values of a column.
#[derive(Clone, Copy, Default)]
struct State {
    sample: u64,
    raw: Raw,
}

struct BlgLog {
    records: Records,
    header: Header,
    /// The names of objects and counters of each host.
    names: HashMap<(String, u32), String>,
    name_bytes: usize,
    list: Vec<Entry>,
    list_bytes: usize,
    /// Whether no sample came since the list began.
    is_list_new: bool,
    columns: Columns,
    /// Of each column.
    states: Vec<State>,
    /// The number of the sample that is read, from 1.
    sample: u64,
    before_ns: Option<i64>,
    offset_s: Option<i64>,
    notes: Notes,
}

impl BlgLog {
    /// Adds names: the host, then a number and a name in turns, each with a zero.
    fn add_names(&mut self, data: &[u8]) {
        let mut rest = data;
        let mut next = || {
            let word = wide(rest);
            rest = rest.get(word.len() + 2..).unwrap_or_default();
            (!word.is_empty()).then(|| text(word))
        };
        let Some(host) = next() else { return };
        while let Some((number, name)) = next().zip(next()) {
            let Ok(number) = number.parse() else { continue };
            self.name_bytes += host.len() + name.len();
            if self.names.len() == NAMES_MAX || self.name_bytes > NAME_BYTES_MAX {
                self.notes.add("the log has too many names: counters without a name are left out", 0, RELOG);
                return;
            }
            self.names.insert((host.clone(), number), name);
        }
    }

    /// Adds entries to the list, or begins a new one after a sample.
    fn add_list(&mut self, data: &[u8]) -> Result<(), Fault> {
        if !self.is_list_new {
            // A log that was appended. A window never spans both.
            self.list.clear();
            self.list_bytes = 0;
            self.sample += 1;
            self.before_ns = None;
            self.is_list_new = true;
        }
        self.list_bytes += data.len();
        if self.list_bytes > LIST_MAX {
            return Err(Fault::at(
                0,
                "the list of counters has more than 32 MiB",
                "split the log with relog -c",
            ));
        }
        // Two numbers, which are the same in all known logs.
        let mut rest = data.get(8..).unwrap_or_default();
        while !rest.is_empty() {
            let entry = size_at(rest, 0)
                .and_then(|size| rest.split_at_checked(size))
                .and_then(|(bytes, after)| Entry::parse(bytes).map(|entry| (entry, after)));
            let Some((entry, after)) = entry else {
                return Err(Fault::at(0, "the list of counters is damaged", RELOG));
            };
            self.list.push(entry);
            rest = after;
        }
        Ok(())
    }

    /// Reads the values of a sample.
    fn read(&mut self, data: &[u8], values: &mut Vec<f64>) {
        const DAMAGED: &str = "a sample is damaged: values of it are absent";
        let mut list = std::mem::take(&mut self.list);
        let mut rest = match size_at(data, 4) {
            Some(size) if size == data.len() => data.get(8..).unwrap_or_default(),
            _ => &[],
        };
        for entry in &mut list {
            let found = size_at(rest, 4)
                .filter(|size| *size >= 8)
                .and_then(|size| rest.split_at_checked(size))
                .and_then(|(value, after)| Some((u32_at(value, 0)?, value.get(8..)?, after)));
            let Some((kind, value, after)) = found else {
                self.notes.add(DAMAGED, 0, "");
                break;
            };
            rest = after;
            let is_read = match kind {
                VALUE => self.read_value(entry, value, values),
                INSTANCES => self.read_instances(entry, value, values),
                OBJECT => self.read_object(entry, value, values),
                _ => {
                    self.notes.add("values are of an unknown kind and were left out", 0, RELOG);
                    Some(())
                }
            };
            if is_read.is_none() {
                self.notes.add(DAMAGED, 0, "");
            }
        }
        if !rest.is_empty() {
            self.notes.add(
                "a sample has more values than counters are in the list: they were left out",
                0,
                RELOG,
            );
        }
        self.list = list;
    }

    /// A single counter: `PDH_RAW_COUNTER` of `pdh.h`.
    fn read_value(&mut self, entry: &mut Entry, value: &[u8], values: &mut Vec<f64>) -> Option<()> {
        let status = u32_at(value, 0)?;
        let raw = Raw {
            first: i64_at(value, 16)?,
            second: i64_at(value, 24)?,
            frequency: entry.frequency,
            items: u32_at(value, 32)?,
        };
        let Some(kind) = self.kind(entry.kind) else { return Some(()) };
        if let Place::New = entry.place {
            entry.place = match &entry.instance {
                Some(instance) => self.place(entry, instance, &entry.counter),
                None => self.place(entry, "", &entry.counter),
            };
        }
        if is_valid(status) {
            self.set(entry.place, kind, raw, values);
        }
        Some(())
    }

    /// A counter of all instances.
    fn read_instances(&mut self, entry: &mut Entry, value: &[u8], values: &mut Vec<f64>) -> Option<()> {
        let block = value.get(..size_at(value, 0)?)?;
        let count = size_at(block, 4)?;
        // Which of the two is the state is not known: both are 0 in all known logs.
        if !is_valid(u32_at(block, 8)?) || !is_valid(u32_at(block, 12)?) {
            return Some(());
        }
        let Some(kind) = self.kind(entry.kind) else { return Some(()) };
        let items = block.get(24..)?.get(..count.checked_mul(24)?)?;
        for item in items.chunks_exact(24) {
            let name = wide(block.get(size_at(item, 0)?..)?);
            let raw = Raw {
                first: i64_at(item, 8)?,
                second: i64_at(item, 16)?,
                frequency: entry.frequency,
                items: u32_at(item, 4)?,
            };
            let mut places = entry.instances.remove(name).unwrap_or_default();
            let nth = places.next(self.sample);
            if places.columns.len() == nth {
                places.columns.push(self.place(entry, &numbered(&text(name), nth), &entry.counter));
            }
            self.set(places.columns[nth], kind, raw, values);
            self.keep(entry, name.to_vec(), places);
        }
        Some(())
    }

    /// An object with all counters of all instances.
    fn read_object(&mut self, entry: &mut Entry, value: &[u8], values: &mut Vec<f64>) -> Option<()> {
        let objects = objects::objects(value)?;
        let Some(object) = objects.first() else { return Some(()) };
        if object.has_unknown {
            self.notes.add(UNKNOWN_TYPE, 0, RELOG);
        }
        if entry.definitions != object.definitions {
            entry.definitions.clone_from(&object.definitions);
            entry.instances.clear();
        }
        let mut found = 0;
        for instance in object.instances() {
            found += 1;
            let Some(name) = self.path_of(entry, &instance, &objects) else {
                self.notes.add("the parent of an instance is absent: the instance was left out", 0, RELOG);
                continue;
            };
            let mut places = entry.instances.remove(name.as_bytes()).unwrap_or_default();
            let nth = places.next(self.sample);
            let begin = nth * object.definitions.len();
            if places.columns.len() == begin {
                let numbered = numbered(&name, nth);
                for definition in &object.definitions {
                    let place = match self.names.get(&(entry.host.clone(), definition.name)).cloned() {
                        Some(counter) => self.place(entry, &numbered, &counter),
                        None => {
                            self.notes.add("a counter has no name in the log and was left out", 0, RELOG);
                            Place::Absent
                        }
                    };
                    places.columns.push(place);
                }
            }
            for (definition, place) in object.definitions.iter().zip(&places.columns[begin..]) {
                if let Some(raw) = object.raw(definition, &instance) {
                    self.set(*place, definition.kind, raw, values);
                }
            }
            self.keep(entry, name.into_bytes(), places);
        }
        (found == object.count()).then_some(())
    }

    /// The name of an instance with that of its parent.
    fn path_of(&self, entry: &Entry, instance: &Instance<'_>, objects: &[Object<'_>]) -> Option<String> {
        let Some((object, nth)) = instance.parent else { return Some(instance.name.clone()) };
        // An object is its own parent where it has no other.
        let name = self.names.get(&(entry.host.clone(), object));
        if name == Some(&entry.object) {
            return Some(instance.name.clone());
        }
        let parent = objects.iter().find(|other| other.name == object)?.instances().nth(nth)?;
        Some(format!("{}/{}", parent.name, instance.name))
    }

    fn kind(&mut self, kind: Type) -> Option<Kind> {
        match kind {
            Type::Value(kind) => Some(kind),
            Type::Hidden => None,
            Type::Unknown => {
                self.notes.add(UNKNOWN_TYPE, 0, RELOG);
                None
            }
        }
    }

    /// The column of a counter of an instance.
    fn place(&mut self, entry: &Entry, instance: &str, counter: &str) -> Place {
        let host = &entry.host;
        let path = match instance {
            "" => format!("{host}\\{}\\{counter}", entry.object),
            instance => format!("{host}\\{}({instance})\\{counter}", entry.object),
        };
        let CounterColumn { host, path, written } = perfmon::column(&path);
        match self.columns.place(&host, path, written) {
            Some(place) => {
                self.states.resize(self.states.len().max(place + 1), State::default());
                Place::At(place)
            }
            None => {
                let what = format!("the log has more than {COLUMNS_MAX} counters: the others were left out");
                self.notes.add(&what, 0, "split it with relog -c");
                Place::Absent
            }
        }
    }

    /// Keeps the columns of a name, unless it has none.
    fn keep(&self, entry: &mut Entry, name: Vec<u8>, places: Places) {
        if places.columns.iter().any(|place| matches!(place, Place::At(_))) {
            entry.instances.insert(name, places);
        }
    }

    /// Sets the value of a column, and keeps the raw ones for the next sample.
    fn set(&mut self, place: Place, kind: Kind, raw: Raw, values: &mut Vec<f64>) {
        let Place::At(place) = place else { return };
        let Some(state) = self.states.get_mut(place) else { return };
        let before =
            (kind.is_of_two() && state.sample > 0 && state.sample + 1 == self.sample).then_some(&state.raw);
        if let Some(value) = kind.value(&raw, before) {
            if values.len() <= place {
                values.resize(place + 1, f64::NAN);
            }
            values[place] = value;
        }
        *state = State { sample: self.sample, raw };
    }

    /// The time of a sample in UTC.
    fn unix_ns(&mut self, local_ns: i64) -> i64 {
        let (offset_s, other_s) = self.header.zone.offset_s(local_ns);
        let at = |offset_s: i64| local_ns.saturating_add(1_000_000_000 * offset_s);
        let is_later = |at: i64| self.before_ns.is_none_or(|before_ns| at > before_ns);
        let offset_s = match other_s {
            // The hour that is there twice, when daylight saving time ends.
            Some(other_s) if !is_later(at(offset_s)) && is_later(at(other_s)) => other_s,
            _ => offset_s,
        };
        self.offset_s.get_or_insert(offset_s);
        at(offset_s)
    }
}

const UNKNOWN_TYPE: &str = "a counter is of an unknown type and was left out";

/// Whether a counter has data: PDH_CSTATUS_VALID_DATA and PDH_CSTATUS_NEW_DATA.
fn is_valid(status: u32) -> bool {
    status <= 1
}

/// The name of the nth instance of a name.
fn numbered(name: &str, nth: usize) -> String {
    match nth {
        0 => name.to_string(),
        nth => format!("{name}#{nth}"),
    }
}

impl Places {
    /// The number of the next instance of this name in a sample.
    fn next(&mut self, sample: u64) -> usize {
        if self.sample != sample {
            (self.sample, self.count) = (sample, 0);
        }
        self.count += 1;
        self.count - 1
    }
}

impl Entry {
    fn parse(bytes: &[u8]) -> Option<Entry> {
        /// Where the names begin.
        const NAMES: usize = 52;
        let name = |at: usize| match u32_at(bytes, at)? {
            u32::MAX => Some(None),
            offset => {
                let begin = usize::try_from(offset).ok()?.checked_add(NAMES)?;
                Some(Some(text(wide(bytes.get(begin..)?))))
            }
        };
        let instance = match (name(40)?, name(36)?) {
            (Some(parent), Some(instance)) => Some(format!("{parent}/{instance}")),
            (_, instance) => instance,
        };
        // The number of several instances of one name.
        let nth = size_at(bytes, 44)?;
        Some(Entry {
            host: name(28)?.unwrap_or_default(),
            object: name(32)??,
            instance: instance.map(|instance| numbered(&instance, nth)),
            counter: name(48)??,
            kind: Type::of(u32_at(bytes, 12)?),
            frequency: i64_at(bytes, 16)?,
            place: Place::New,
            instances: HashMap::new(),
            definitions: Vec::new(),
        })
    }
}

impl CounterLog for BlgLog {
    fn family(&self) -> CounterFamily {
        CounterFamily::PerformanceMonitor
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        while let Some(Record { kind, local_unix_ns, data }) = self.records.next()? {
            match kind {
                RecordKind::Names => self.add_names(&data),
                RecordKind::List => match self.add_list(&data) {
                    // What was read before stays.
                    Err(fault) if self.sample > 0 => {
                        self.notes.add(&format!("{}: the rest was left out", fault.what), 0, RELOG);
                        self.records.end();
                    }
                    done => done?,
                },
                RecordKind::Summary => {}
                RecordKind::Sample => {
                    let end_ns = self.unix_ns(local_unix_ns);
                    if self.before_ns.is_some_and(|before_ns| end_ns <= before_ns) {
                        self.notes.add("a sample is not later than the one before and was left out", 0, "");
                        continue;
                    }
                    self.sample += 1;
                    self.is_list_new = false;
                    sample.values.clear();
                    self.read(&data, &mut sample.values);
                    sample.values.resize(self.columns.len(), f64::NAN);
                    let begin_ns = self.before_ns.replace(end_ns).unwrap_or(end_ns);
                    (sample.begin_unix_ns, sample.end_unix_ns) = (begin_ns, end_ns);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        self.columns.list()
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        (None, self.offset_s)
    }

    fn notes(&self) -> Vec<Fault> {
        [self.records.notes.list(), self.notes.list()].concat()
    }
}

#[cfg(test)]
mod tests;
