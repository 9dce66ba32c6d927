//! A sample of a whole object: `PERF_DATA_BLOCK` of `winperf.h` with its objects, counters and instances.

use super::bytes::{i64_at, size_at, text, u32_at};
use super::kinds::{Kind, Raw, Second, Type, is_base};

/// The times of a block.
#[derive(Clone, Copy, Debug)]
struct Times {
    ticks: i64,
    frequency: i64,
    system: i64,
}

/// A counter that is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    /// The number of its name.
    pub(super) name: u32,
    pub(super) kind: Kind,
    second: Second,
    /// The place of its value in a block of counters, and its bytes.
    place: (usize, usize),
    /// Those of the second value.
    base: Option<(usize, usize)>,
}

/// An object of a block.
pub(super) struct Object<'a> {
    /// The number of its name.
    pub(super) name: u32,
    pub(super) definitions: Vec<Definition>,
    /// Whether a counter is of an unknown type.
    pub(super) has_unknown: bool,
    times: Times,
    /// Its own time and ticks per second.
    own: (i64, i64),
    /// How many instances it has; none if it has no instances but one block of counters.
    instances: Option<usize>,
    code_page: u32,
    blocks: &'a [u8],
}

/// An instance with its counters.
pub(super) struct Instance<'a> {
    /// Its name; empty for an object without instances.
    pub(super) name: String,
    /// The number of the name of the object of its parent, and the place of that.
    pub(super) parent: Option<(u32, usize)>,
    counters: &'a [u8],
}

/// The objects of a block; none if it is damaged.
pub(super) fn objects(block: &[u8]) -> Option<Vec<Object<'_>>> {
    if block.get(..8)? != b"P\0E\0R\0F\0" || u32_at(block, 8)? != 1 {
        return None;
    }
    let times =
        Times { ticks: i64_at(block, 56)?, frequency: i64_at(block, 64)?, system: i64_at(block, 72)? };
    let count = size_at(block, 28)?;
    let mut rest = block.get(size_at(block, 24)?..)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let (object, after) = rest.split_at_checked(size_at(rest, 0)?.max(8))?;
        found.push(Object::parse(object, times)?);
        rest = after;
    }
    Some(found)
}

impl<'a> Object<'a> {
    fn parse(bytes: &'a [u8], times: Times) -> Option<Object<'a>> {
        let mut rest = bytes.get(size_at(bytes, 8)?..)?;
        let mut counters = Vec::new();
        for _ in 0..size_at(bytes, 32)? {
            let (counter, after) = rest.split_at_checked(size_at(rest, 0)?.max(40))?;
            let number = |at| u32_at(counter, at);
            counters.push((number(4)?, number(28)?, (size_at(counter, 36)?, size_at(counter, 32)?)));
            rest = after;
        }
        let mut has_unknown = false;
        let mut definitions = Vec::new();
        for (index, (name, number, place)) in counters.iter().enumerate() {
            let kind = match Type::of(*number) {
                Type::Value(kind) => kind,
                Type::Hidden => continue,
                Type::Unknown => {
                    has_unknown = true;
                    continue;
                }
            };
            let base = counters.get(index + 1).filter(|(_, number, _)| is_base(*number));
            let base = base.map(|(_, _, place)| *place);
            let second = Second::of(kind, *number);
            definitions.push(Definition { name: *name, kind, second, place: *place, base });
        }
        Some(Object {
            name: u32_at(bytes, 12)?,
            definitions,
            has_unknown,
            times,
            own: (i64_at(bytes, 48)?, i64_at(bytes, 56)?),
            // PERF_NO_INSTANCES is -1.
            instances: usize::try_from(u32_at(bytes, 40)?.cast_signed()).ok(),
            code_page: u32_at(bytes, 44)?,
            blocks: bytes.get(size_at(bytes, 4)?..)?,
        })
    }

    /// How many instances it says it has.
    pub(super) fn count(&self) -> usize {
        self.instances.unwrap_or(1)
    }

    /// Its instances; the damaged rest is none.
    pub(super) fn instances(&self) -> impl Iterator<Item = Instance<'a>> {
        let mut rest = self.blocks;
        let has_names = self.instances.is_some();
        let code_page = self.code_page;
        (0..self.count()).map_while(move |_| {
            let mut instance = Instance { name: String::new(), parent: None, counters: &[] };
            if has_names {
                let (definition, after) = rest.split_at_checked(size_at(rest, 0)?.max(24))?;
                let parent = u32_at(definition, 4)?;
                instance.parent = (parent != 0).then_some((parent, size_at(definition, 8)?));
                instance.name = match u32_at(definition, 12)?.cast_signed() {
                    -1 => {
                        let name = definition.get(size_at(definition, 16)?..)?;
                        let name = name.get(..size_at(definition, 20)?)?;
                        match code_page {
                            0 => text(name),
                            // The letters of ASCII are the same in all code pages.
                            _ => String::from_utf8_lossy(name).into_owned(),
                        }
                    }
                    number => number.to_string(),
                };
                let end = instance.name.find('\0').unwrap_or(instance.name.len());
                instance.name.truncate(end);
                rest = after;
            }
            let (counters, after) = rest.split_at_checked(size_at(rest, 0)?.max(4))?;
            rest = after;
            instance.counters = counters;
            Some(instance)
        })
    }

    /// The raw values of a counter of an instance.
    pub(super) fn raw(&self, definition: &Definition, instance: &Instance<'_>) -> Option<Raw> {
        let value = |(at, size): (usize, usize)| match size {
            4 => u32_at(instance.counters, at).map(i64::from),
            8 => i64_at(instance.counters, at),
            _ => None,
        };
        let first = value(definition.place)?;
        let base = definition.base.and_then(value);
        let (second, frequency) = match definition.second {
            Second::Base => (base?, self.times.frequency),
            Second::Ticks => (self.times.ticks, self.times.frequency),
            Second::System => (self.times.system, 10_000_000),
            Second::Object => self.own,
        };
        let items = u32::try_from(base.unwrap_or(0)).unwrap_or(0);
        Some(Raw { first, second, frequency, items })
    }
}
