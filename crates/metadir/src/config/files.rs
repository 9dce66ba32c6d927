//! What the files of agents lack. Only `check` looks: a run finds it when it reads them.

use std::ops::Range;
use std::path::Path;

use super::suggestion::near;
use super::{AgentConfig, Config, JoinPart, Mistake, Source};
use crate::naming::Naming;

impl Config {
    /// Warnings about files that are not there, or lack the attributes that rules read. Servers are not asked.
    pub fn file_warnings(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        for (at, agent) in self.agents.iter().enumerate() {
            let Some((_, path)) = agent.system.file() else { continue };
            match path.try_exists() {
                Ok(true) => self.lacking(at, agent, path, &mut mistakes),
                _ => mistakes.extend(self.missing(at, agent, path)),
            }
        }
        mistakes
    }

    /// A missing file, unless an export creates it.
    fn missing(&self, at: usize, agent: &AgentConfig, path: &Path) -> Option<Mistake> {
        let is_target = self.outbound.iter().any(|rules| rules.agent == at);
        let is_database = agent.system.naming() == Naming::Anchor && agent.system.file()?.0 == "sqlite";
        (!is_target || is_database).then(|| Mistake {
            span: agent.source_span.clone(),
            what: format!("there is no file {}", path.display()),
            help: "paths are relative to this file; an import needs the file".into(),
        })
    }

    fn lacking(&self, at: usize, agent: &AgentConfig, path: &Path, mistakes: &mut Vec<Mistake>) {
        // Other formats have no list of attributes, so that the whole file would be read.
        if !agent.system.has_columns() {
            return;
        }
        let columns = match agent.attributes() {
            Ok(columns) => columns,
            Err(error) => {
                let help = "correct the file, or name another one".into();
                mistakes.push(Mistake { span: agent.source_span.clone(), what: error.to_string(), help });
                return;
            }
        };
        let named = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let mut read: Vec<(&str, Range<usize>)> =
            agent.anchor.iter().map(|name| (name.as_str(), agent.anchor_span.clone())).collect();
        read.extend(self.only_read(at).into_iter().map(|name| (name, self.place_of(at, name))));
        let mut reported: Vec<&str> = Vec::new();
        for (name, span) in read {
            let is_there = columns.iter().any(|column| column == name);
            if is_there || columns.is_empty() || reported.contains(&name) {
                continue;
            }
            reported.push(name);
            let help = match near(name, columns.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its columns are {}", columns.join(", ")),
            };
            mistakes.push(Mistake { span, what: format!("{named} has no column `{name}`"), help });
        }
    }

    /// The first place in the inbound rules of an agent that reads an attribute.
    fn place_of(&self, agent: usize, name: &str) -> Range<usize> {
        let rules = || self.inbound.iter().filter(|rules| rules.agent == agent);
        let reads = |names: &[String]| names.iter().any(|known| known == name);
        let flows = rules().flat_map(|rules| &rules.flows).find(|flow| match &flow.from {
            Source::Direct(from) => from == name,
            Source::Expression(expression) => reads(expression.uses()),
            Source::Constant(_) => false,
        });
        let mut joins = rules().flat_map(|rules| &rules.joins);
        let join = joins.find(|join| join.cs.iter().any(|part| reads(JoinPart::uses(part))));
        let places = [flows.map(|flow| &flow.span), join.map(|join| &join.span)];
        let rules = rules().map(|rules| &rules.span).next();
        places.into_iter().flatten().chain(rules).min_by_key(|span| span.start).cloned().unwrap_or_default()
    }
}
