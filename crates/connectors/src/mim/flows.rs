//! The sources of flows.

use std::collections::BTreeSet;

use super::convert::{Converter, Rules};
use super::export::{Agent, Connection, Function, Mapping, Schema, ServerExport};
use super::function::Translator;
use super::write::string;
use super::{Kind, Place};
use metadir::schema::Type;

/// The direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From a connector space into the metaverse.
    In,
    /// From the metaverse into a connector space.
    Out,
}

/// A source as it is written.
pub(super) struct Source {
    pub(super) text: String,
    /// Differences that an administrator has to know.
    pub(super) cautions: Vec<String>,
}

impl From<String> for Source {
    fn from(text: String) -> Source {
        Source { text, cautions: Vec::new() }
    }
}

impl Converter<'_> {
    /// The source of a flow into an attribute of this type, as it is written.
    ///
    /// # Errors
    /// Why it has no equivalent.
    pub(super) fn source(
        &self,
        of: &Rules<'_>,
        mapping: &Mapping,
        direction: Direction,
        to: Type,
    ) -> Result<Source, String> {
        let plain = |text: &str| Source::from(string(text));
        match mapping {
            Mapping::Direct(from) => {
                // A reference flows only between references.
                let is_reference = match direction {
                    Direction::In => of.references.contains(from),
                    Direction::Out => self.metaverse_kind(from) == Type::Reference,
                };
                match (is_reference, to == Type::Reference) {
                    (true, false) => Err("a reference flows into an attribute that is none".into()),
                    (false, true) => Err("a value that is no reference flows into a reference".into()),
                    _ => Ok(plain(from)),
                }
            }
            Mapping::Intrinsic(from)
                if from == "dn" && direction == Direction::In && to != Type::Reference =>
            {
                own_name(of.agent)
                    .map(plain)
                    .ok_or_else(|| "the name of an object has several parts here".into())
            }
            Mapping::Intrinsic(from) => Err(format!("{from} is an identifier of the server itself")),
            Mapping::Script { .. } => Err("it is a program".into()),
            Mapping::Other(what) => Err(format!("{what} has no equivalent")),
            Mapping::Constant(_) | Mapping::Function(_) if to == Type::Reference => {
                Err("a reference flows from an attribute only".into())
            }
            Mapping::Constant(value) => Ok(format!("{{ constant = {} }}", string(value)).into()),
            Mapping::Function(function) => {
                let (root, schema) = match direction {
                    Direction::In => ("cs", &of.agent.attributes),
                    Direction::Out => ("mv", &self.export.metaverse.attributes),
                };
                let mut translator = Translator { root, schema, cautions: Vec::new() };
                let expression = translator.expression(function)?;
                let text = format!("{{ expression = {} }}", string(&expression));
                Ok(Source { text, cautions: translator.cautions })
            }
        }
    }

    /// Counts a flow, and notes one that is not converted.
    pub(super) fn count_flow(
        &mut self,
        (mapping, direction): (&Mapping, Direction),
        place: &Place,
        subject: &str,
        result: Result<Source, String>,
    ) -> Option<String> {
        let count = match (mapping, direction) {
            (Mapping::Script { .. }, _) => &mut self.counts.scripts,
            (_, Direction::In) => &mut self.counts.import_flows,
            (_, Direction::Out) => &mut self.counts.export_flows,
        };
        count.add(result.is_ok());
        let help = match mapping {
            Mapping::Script { attributes, .. } if attributes.is_empty() => "write it as an expression".into(),
            Mapping::Script { attributes, .. } => {
                format!("write it as an expression of {}", attributes.join(", "))
            }
            _ => String::new(),
        };
        match result {
            Ok(source) => {
                for caution in source.cautions {
                    self.note(place, Kind::Review, format!("{subject}: {caution}"), "");
                }
                Some(source.text)
            }
            Err(why) => {
                self.note(place, Kind::NotConverted, format!("{subject}: {why}"), help);
                None
            }
        }
    }
}

/// The attribute with the name of an object: that of a directory, or the only one that makes up the anchor.
pub(super) fn own_name(agent: &Agent) -> Option<&str> {
    match (&agent.connection, agent.anchor.as_slice()) {
        (Connection::Directory(_), _) => Some("dn"),
        (_, [only]) => Some(only),
        _ => None,
    }
}

/// The attributes of an agent that refer to other objects, and flow only from and to references.
pub(super) fn references(export: &ServerExport, agent: &Agent) -> BTreeSet<String> {
    let is_reference =
        |schema: &Schema, name: &str| schema.get(name).is_some_and(|of| of.kind == Type::Reference);
    let metaverse = &export.metaverse.attributes;
    let inward = export.metaverse.flows.iter().filter(|flow| flow.agent == agent.id);
    let inward = inward.map(|flow| (&flow.mapping, &flow.to, true));
    let outward = agent.flows.iter().map(|flow| (&flow.mapping, &flow.to, false));
    let [mut with, mut without] = [BTreeSet::new(), BTreeSet::new()];
    for (mapping, to, is_inward) in inward.chain(outward) {
        let Mapping::Direct(from) = mapping else { continue };
        let (here, there) = if is_inward { (from, to) } else { (to, from) };
        let list = if is_reference(metaverse, there) { &mut with } else { &mut without };
        list.insert(here.clone());
    }
    with.retain(|name| !without.contains(name) && is_reference(&agent.attributes, name));
    with
}

/// The attributes that a mapping reads, each once.
pub(super) fn attributes_of(mapping: &Mapping) -> Vec<String> {
    fn walk(function: &Function, found: &mut Vec<String>) {
        match function {
            Function::Attribute(name) if !found.contains(name) => found.push(name.clone()),
            Function::Call(_, inner) => inner.iter().for_each(|part| walk(part, found)),
            Function::Attribute(_) | Function::Text(_) | Function::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    match mapping {
        Mapping::Direct(from) => found.push(from.clone()),
        Mapping::Function(function) => walk(function, &mut found),
        _ => {}
    }
    found
}

/// The source of a mapping in a few words.
pub(super) fn shown(mapping: &Mapping) -> String {
    match mapping {
        Mapping::Direct(from) | Mapping::Intrinsic(from) => from.clone(),
        Mapping::Constant(_) => "a constant".into(),
        Mapping::Function(Function::Call(name, _)) => format!("the function {name}"),
        Mapping::Function(_) => "a value".into(),
        Mapping::Script { name, .. } => format!("the rules extension function {name}"),
        Mapping::Other(what) => what.clone(),
    }
}
