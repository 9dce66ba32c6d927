//! A simulated LDAP directory in memory: hierarchical entries with assigned identifiers, and attributes that
//! refer to other entries. It refuses invalid requests like a server, and logs all requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use ldap::dn::Dn;
use plimsoll_metadir::agent::{
    Agent, AgentError, Capabilities, ExportedObject, Import, Imported, ImportedObject, Names, Objects,
    Refused, System,
};
use plimsoll_metadir::hologram::Hologram;
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::naming::Naming;
use plimsoll_metadir::object::Change;

/// The names of its attributes.
const ATTRIBUTES: [&str; 5] = ["uuid", "cn", "status", "boss", "members"];
/// The reference attributes.
const REFERENCES: [&str; 2] = ["boss", "members"];
/// The root entry.
const ROOT: &str = "dc=plim";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub(crate) uuid: String,
    pub(crate) dn: String,
    pub(crate) attributes: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) entries: Vec<Entry>,
    pub(crate) log: Vec<String>,
    /// After so many calls, it makes the changes and fails before it answers.
    pub(crate) dies_after: Option<usize>,
    /// Entries that the next import reads separately, in their state at that time.
    pub(crate) newer: Vec<Entry>,
    /// Whether it refuses references to missing entries.
    pub(crate) is_strict: bool,
    given: u32,
}

/// A directory; clones share its state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory(Arc<Mutex<State>>);

fn same(one: &str, other: &str) -> bool {
    Naming::Dn.hash(one) == Naming::Dn.hash(other)
}

impl State {
    fn at(&self, dn: &str) -> Option<usize> {
        self.entries.iter().position(|entry| same(&entry.dn, dn))
    }

    fn has(&self, dn: &str) -> bool {
        same(dn, ROOT) || self.at(dn).is_some()
    }

    pub(crate) fn add(&mut self, dn: &str) -> &mut Entry {
        self.given += 1;
        // Identifiers are not in the order of creation.
        let uuid = format!("{:08x}", self.given.wrapping_mul(0x9e37_79b1));
        self.entries.push(Entry { uuid, dn: dn.into(), ..Entry::default() });
        self.entries.last_mut().unwrap()
    }

    /// Renames an entry and all entries below it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let (from, to) = (Dn::parse(from).unwrap(), Dn::parse(to).unwrap());
        for entry in &mut self.entries {
            if let Some(moved) = Dn::parse(&entry.dn).unwrap().moved(&from, &to) {
                entry.dn = moved.to_string();
            }
        }
    }

    fn change(&mut self, change: &ExportedObject, names: &Names) -> Result<(), String> {
        let above = |dn: &str| Dn::parse(dn).unwrap().parent().unwrap_or_default().to_string();
        let by_anchor = change.anchor.and_then(|anchor| {
            self.entries
                .iter()
                .position(|entry| IndexKey::of_parts([entry.uuid.as_bytes()].into_iter()) == anchor)
        });
        let known = by_anchor.or_else(|| self.at(&change.dn));
        let at = match (change.change, known) {
            (Change::Delete, None) => return Ok(()),
            (Change::Delete, Some(at)) => {
                let dn = self.entries[at].dn.clone();
                if self.entries.iter().any(|entry| same(&above(&entry.dn), &dn)) {
                    return Err(format!("{dn}: not allowed on non-leaf"));
                }
                self.entries.remove(at);
                return Ok(());
            }
            (Change::Update, None) => return Err(format!("{}: no such object", change.dn)),
            (Change::Add, None) if !self.has(&above(&change.dn)) => {
                return Err(format!("{}: no such object above", change.dn));
            }
            (Change::Add, None) => {
                self.add(&change.dn);
                self.entries.len() - 1
            }
            (Change::Update, Some(at)) if by_anchor.is_none() || same(&self.entries[at].dn, &change.dn) => at,
            // A server finds an entry by its name; a repeated rename succeeds.
            (Change::Update, Some(at))
                if change.new_dn.as_ref().is_some_and(|new| same(new, &self.entries[at].dn)) =>
            {
                at
            }
            (Change::Update, Some(_)) => return Err(format!("{}: no such object", change.dn)),
            (Change::Add, Some(at)) => at,
        };
        let mut entry = self.entries[at].clone();
        for (attribute, values) in &change.attributes {
            let values = values.iter().map(|value| String::from_utf8(value.clone()).unwrap()).collect();
            entry.attributes.insert(names.name(*attribute).into(), values);
        }
        for changed in &change.changed_values {
            let values = entry.attributes.entry(names.name(changed.attribute).into()).or_default();
            for value in &changed.removed {
                let value = String::from_utf8(value.clone()).unwrap();
                values.retain(|known| !same(known, &value));
            }
            values.extend(changed.added.iter().map(|value| String::from_utf8(value.clone()).unwrap()));
        }
        entry.attributes.retain(|_, values| !values.is_empty());
        for name in REFERENCES {
            for value in entry.attributes.get(name).into_iter().flatten() {
                let is_new = !self.entries[at].attributes.get(name).is_some_and(|old| old.contains(value));
                if self.is_strict && is_new && !self.has(value) {
                    return Err(format!("{}: {value} is not there", change.dn));
                }
            }
        }
        self.entries[at] = entry;
        if let Some(new) = change.new_dn.as_ref().filter(|new| !same(new, &self.entries[at].dn)) {
            if !self.has(&above(new)) {
                return Err(format!("{new}: no such object above"));
            }
            if self.has(new) {
                return Err(format!("{new}: already exists"));
            }
            let old = self.entries[at].dn.clone();
            self.rename(&old, new);
        }
        Ok(())
    }
}

impl System for Directory {
    fn naming(&self) -> Naming {
        Naming::Dn
    }

    fn attributes(&self, _: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        Ok(ATTRIBUTES.map(String::from).into())
    }

    fn open(&self, _: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(Session { directory: self.clone(), names: names.clone() }))
    }
}

impl Directory {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The directory as a connected system.
    pub(crate) fn system(&self) -> Box<dyn System> {
        Box::new(self.clone())
    }

    /// Every entry as a line: its name, and its attributes without the identifier.
    pub(crate) fn lines(&self) -> Vec<String> {
        let state = self.state();
        let mut lines: Vec<String> = state
            .entries
            .iter()
            .map(|entry| {
                let mut line = entry.dn.clone();
                for (name, values) in entry.attributes.iter().filter(|(name, _)| *name != "uuid") {
                    let values: Vec<&str> = values.iter().map(String::as_str).collect();
                    line += &format!(" {name}={}", values.join("|"));
                }
                line
            })
            .collect();
        lines.sort();
        lines
    }

    /// The requests since the last query.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }
}

struct Session {
    directory: Directory,
    names: Names,
}

impl Agent for Session {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: false, rename: true, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        let attribute = |name: &str| self.names.attribute(name).unwrap();
        let mut state = self.directory.state();
        let newer = std::mem::take(&mut state.newer);
        let object = |entry: &Entry| {
            let uuid = (attribute("uuid"), vec![entry.uuid.clone().into_bytes()]);
            let others = entry.attributes.iter().filter(|(name, _)| *name != "uuid");
            let others = others.map(|(name, values)| {
                (attribute(name), values.iter().map(|value| value.clone().into_bytes()).collect())
            });
            ImportedObject {
                anchor: IndexKey::of_parts([entry.uuid.as_bytes()].into_iter()),
                dn: entry.dn.clone(),
                image: [uuid].into_iter().chain(others).collect::<Hologram>(),
                line: None,
            }
        };
        let entries = state.entries.iter().map(object).map(Imported::Object);
        let all = entries.chain(newer.iter().map(object).map(Imported::Newer));
        Ok(Box::new(Read(all.collect::<Vec<_>>().into_iter())))
    }

    fn takes_changed_values(&self) -> bool {
        true
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let mut state = self.directory.state();
        let mut answers = Vec::new();
        for change in changes {
            let answer = state.change(change, &self.names);
            let line = logged(change, &self.names);
            state.log.push(match &answer {
                Ok(()) => line,
                Err(why) => format!("{line} REFUSED {why}"),
            });
            answers.push(answer.map_err(Refused));
        }
        if let Some(left) = &mut state.dies_after {
            if *left == 0 {
                state.dies_after = None;
                return Err(AgentError::NotSupported("the line is dead".into()));
            }
            *left -= 1;
        }
        Ok(answers)
    }
}

fn logged(change: &ExportedObject, names: &Names) -> String {
    let text = |values: &[Vec<u8>]| -> String {
        let values: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(value)).collect();
        values.join("|")
    };
    let mut line = match change.change {
        Change::Add => format!("add {}", change.dn),
        Change::Update => format!("change {}", change.dn),
        Change::Delete => format!("delete {}", change.dn),
    };
    if let Some(new) = &change.new_dn {
        line += &format!(" to {new}");
    }
    let mut named: Vec<(&str, &Vec<Vec<u8>>)> =
        change.attributes.iter().map(|(attribute, values)| (names.name(*attribute), values)).collect();
    named.sort_unstable();
    for (name, values) in named {
        line += &format!(" {name}={}", text(values));
    }
    for changed in &change.changed_values {
        let name = names.name(changed.attribute);
        line += &format!(" {name}+{} {name}-{}", text(&changed.added), text(&changed.removed));
    }
    line
}

struct Read(std::vec::IntoIter<Imported>);

impl Import for Read {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        batch.extend(self.0.by_ref().take(most));
        Ok(())
    }
}
