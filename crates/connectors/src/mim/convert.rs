//! From the export to the configuration.

use std::collections::{BTreeMap, BTreeSet};

use super::export::{Agent, Connection, ServerExport};
use super::flows::references;
use super::systems::{self, Used};
use super::write::{key, list};
use super::{Counts, Kind, MimImport, Note, Place};
use metadir::schema::Type;

pub(super) fn convert(export: &ServerExport) -> MimImport {
    let mut converter = Converter {
        export,
        notes: Vec::new(),
        counts: Counts::default(),
        names: names(export),
        types: BTreeMap::new(),
        ranks: BTreeMap::new(),
    };
    let agents: Vec<AgentText> = export.agents.iter().map(|agent| converter.agent(agent)).collect();
    converter.deletions();
    let configuration = converter.configuration(&agents);
    // What the checks of a configuration find is for the administrator to correct.
    for mistake in crate::parse(&configuration).err().into_iter().flatten() {
        let line =
            configuration.get(..mistake.span.start).map_or(1, |before| before.matches('\n').count() + 1);
        let place = Place { file: "the configuration".into(), line: line as u32 };
        converter.note(&place, Kind::Review, mistake.what, mistake.help);
    }
    converter.notes.sort_by(|a, b| a.place.cmp(&b.place));
    MimImport { configuration, notes: converter.notes, counts: converter.counts }
}

/// A name without blanks and capitals.
pub(super) fn plain_name(name: &str) -> String {
    let letters = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' });
    let letters: String = letters.collect();
    letters.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The name of each agent, by its identifier: as a step of a run names it.
fn names(export: &ServerExport) -> BTreeMap<String, String> {
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for agent in &export.agents {
        let name =
            Some(plain_name(&agent.name)).filter(|name| !name.is_empty()).unwrap_or_else(|| "agent".into());
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let unique = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        let unique = unique.unwrap_or(name);
        taken.insert(unique.clone());
        names.insert(agent.id.clone(), unique);
    }
    names
}

/// An agent with its rules, as they are written.
struct AgentText {
    table: Vec<String>,
    rules: Vec<String>,
    runs: Vec<String>,
}

/// What the rules of one agent need to know.
pub(super) struct Rules<'a> {
    pub(super) agent: &'a Agent,
    /// Its name in the configuration.
    pub(super) name: &'a str,
    /// The types of its objects.
    pub(super) types: &'a BTreeSet<&'a str>,
    /// Its attributes that refer to other objects.
    pub(super) references: &'a BTreeSet<String>,
}

pub(super) struct Converter<'a> {
    pub(super) export: &'a ServerExport,
    notes: Vec<Note>,
    pub(super) counts: Counts,
    names: BTreeMap<String, String>,
    /// The attributes of each metaverse type that rules use.
    pub(super) types: BTreeMap<String, BTreeSet<String>>,
    /// The flows into each attribute of a metaverse type that were converted, by their position in the export.
    pub(super) ranks: BTreeMap<(String, String), Vec<usize>>,
}

impl Converter<'_> {
    pub(super) fn note(
        &mut self,
        place: &Place,
        kind: Kind,
        what: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.notes.push(Note { place: place.clone(), kind, what: what.into(), help: help.into() });
    }

    pub(super) fn use_attribute(&mut self, of_type: &str, name: &str) {
        self.types.entry(of_type.into()).or_default().insert(name.into());
    }

    pub(super) fn metaverse_kind(&self, name: &str) -> Type {
        self.export.metaverse.attributes.get(name).map_or(Type::Text, |of| of.kind)
    }

    fn agent(&mut self, agent: &Agent) -> AgentText {
        let name = self.names[&agent.id].clone();
        let types = object_types(self.export, agent);
        let references = references(self.export, agent);
        let of = Rules { agent, name: &name, types: &types, references: &references };
        let mut used = BTreeSet::new();
        let mut rules = Vec::new();
        for object_type in &types {
            rules.extend(self.inbound(&of, object_type, &mut used));
        }
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for flow in &agent.flows {
            let pair = (flow.object_type.as_str(), flow.from_type.as_str());
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        for pair in pairs {
            rules.extend(self.outbound(&of, pair, &mut used));
        }
        let system =
            systems::system(agent, &Used { name: &name, attributes: &used, references: &references });
        self.counts.agents.add(system.is_same);
        let what = match system.is_same {
            true => format!("\"{}\": the export has no passwords", agent.name),
            false => format!("\"{}\": {} is not supported", agent.name, systems::category(agent)),
        };
        self.note(&agent.place, Kind::Review, what, &system.help);
        // A comment ends with its line.
        let comment =
            format!("# {} ({})", agent.name, agent.category).replace(|letter: char| letter.is_control(), " ");
        let mut table = vec![comment, format!("[agents.{}]", key(&name))];
        table.extend(system.lines);
        let has_delta = matches!(agent.connection, Connection::Directory(_));
        let runs =
            agent.profiles.iter().filter_map(|profile| self.profile(&name, profile, has_delta)).collect();
        AgentText { table, rules, runs }
    }

    /// What deletes objects of the metaverse, as far as it differs.
    fn deletions(&mut self) {
        for rule in &self.export.metaverse.deletions {
            if rule.kind == "scripted" {
                self.counts.scripts.add(false);
                let what = format!("the deletion of {} is a rules extension", rule.of_type);
                self.note(&rule.place, Kind::NotConverted, what, "write `deleted_with`");
            } else if rule.kind == "declared-any" && rule.agents.len() > 1 {
                let what = format!(
                    "in MIM, {} is deleted when any of {} agents disconnects it; here, when the last of them does",
                    rule.of_type,
                    rule.agents.len()
                );
                self.note(
                    &rule.place,
                    Kind::Review,
                    what,
                    "name one agent in `deleted_with` if it has to suffice",
                );
            }
        }
    }

    /// The whole file.
    fn configuration(&self, agents: &[AgentText]) -> String {
        let mut out = String::from(
            "# Converted from a server configuration export. Read the list of what was not converted before the first run,\n\
             # and compare `plimsoll metadir preview` with the present state of every target.\n\n\
             [store]\nsqlite = \"metadirectory.db\"\n",
        );
        for (name, attributes) in &self.types {
            out += &format!("\n[metaverse.{}]\n", key(name));
            let rule = self.export.metaverse.deletions.iter().find(|rule| rule.of_type == *name);
            let agents = rule.map_or(&[][..], |rule| &rule.agents);
            let agents: Vec<&String> = agents.iter().filter_map(|id| self.names.get(id)).collect();
            if !agents.is_empty() {
                out += &format!("deleted_with = {}\n", list(agents));
            }
            out += &format!("[metaverse.{}.attributes]\n", key(name));
            for attribute in attributes {
                let of = self.export.metaverse.attributes.get(attribute);
                let kind = self.metaverse_kind(attribute);
                let word =
                    Type::NAMES.iter().find(|(_, known)| *known == kind).map_or("text", |(word, _)| word);
                let several = if of.is_some_and(|of| of.several) { "[]" } else { "" };
                out += &format!("{} = \"{word}{several}\"\n", key(attribute));
            }
        }
        for agent in agents {
            out += &format!("\n{}\n", agent.table.join("\n"));
        }
        for rules in agents.iter().flat_map(|agent| &agent.rules) {
            out += &format!("\n{}\n", self.ranked(rules));
        }
        let mut named = BTreeSet::new();
        let runs = agents.iter().flat_map(|agent| &agent.runs);
        let runs: Vec<&String> = runs.filter(|run| named.insert(run.split(" = ").next())).collect();
        if !runs.is_empty() {
            out.push_str("\n[runs]\n");
            runs.iter().for_each(|run| out += &format!("{run}\n"));
        }
        out
    }

    /// The rules with the precedence of each flow: its place among the flows into its attribute that were converted, which are
    /// known only after all agents.
    fn ranked(&self, rules: &str) -> String {
        let line = |line: &str| -> Option<String> {
            let (to, rest) = line.split_once(" = PRECEDENCE ")?;
            let (at, source) = rest.split_once(' ')?;
            let at: usize = at.parse().ok()?;
            let all = self.ranks.values().find(|all| all.contains(&at))?;
            let rank = all.iter().filter(|other| **other < at).count() + 1;
            Some(match (all.len(), source.strip_prefix("{ ")) {
                (1, _) => format!("{to} = {source}"),
                (_, Some(table)) => format!("{to} = {{ precedence = {rank}, {table}"),
                (_, None) => format!("{to} = {{ precedence = {rank}, from = {source} }}"),
            })
        };
        rules
            .lines()
            .map(|text| line(text).unwrap_or_else(|| text.to_string()))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// The types of the objects of an agent for which there are rules.
fn object_types<'a>(export: &'a ServerExport, agent: &'a Agent) -> BTreeSet<&'a str> {
    let flowing = export.metaverse.flows.iter().filter(|flow| flow.agent == agent.id);
    let flowing = flowing.map(|flow| &flow.object_type);
    let joined = agent.joins.iter().map(|join| &join.object_type);
    let projected = agent.projections.iter().map(|projection| &projection.object_type);
    let exported = agent.flows.iter().map(|flow| &flow.object_type);
    flowing.chain(joined).chain(projected).chain(exported).map(String::as_str).collect()
}
