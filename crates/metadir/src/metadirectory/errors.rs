//! The stored errors of objects: failures, and objects that an import could not read.

use std::collections::HashMap;

use super::Metadirectory;
use crate::object::{AgentId, CsId};
use crate::observer::{GroupKey, common};
use crate::store::trail::{KeptFailure, Times};
use crate::store::{ObjectError, StoreError};

/// Number of errors that are read together.
const PAGE: usize = 1000;

/// A stored error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownError {
    /// The agent.
    pub agent: String,
    /// The object, the kind, the attribute and the text.
    pub error: ObjectError,
    /// When it happened.
    pub times: Times,
}

/// Equal errors of several objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorGroup {
    /// The number of objects.
    pub objects: u64,
    /// The error of one of the objects. Its text lacks what differs between objects.
    pub example: KnownError,
}

/// The group of an error, while its example has no name yet.
struct Group {
    objects: u64,
    times: Times,
    /// The object of the example, or its place in the source.
    example: Result<CsId, String>,
}

impl Metadirectory {
    /// Calls `each` with the stored errors of an agent, or of all agents, until it returns false.
    ///
    /// # Errors
    /// When the store fails.
    pub fn errors(
        &mut self,
        agent: Option<usize>,
        each: &mut dyn FnMut(KnownError) -> bool,
    ) -> Result<(), StoreError> {
        for at in self.chosen(agent) {
            let (id, name) = (self.rules.agents[at].id, self.rules.agents[at].name.clone());
            let mut after = 0;
            loop {
                let errors = self.store.trail().discovery_errors(id, after, PAGE)?;
                let Some(last) = errors.last() else { break };
                after = last.number;
                for of_source in errors {
                    let error = ObjectError {
                        object: of_source.place,
                        kind: of_source.kind.into(),
                        attribute: None,
                        text: of_source.text,
                    };
                    if !each(KnownError { agent: name.clone(), error, times: of_source.times }) {
                        return Ok(());
                    }
                }
            }
            let mut after = CsId(0);
            loop {
                let failures = self.store.trail().failures_after(id, after, PAGE)?;
                let Some(last) = failures.last() else { break };
                after = last.cs;
                for known in self.called(failures)? {
                    if !each(known) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The number of stored errors of an agent, or of all agents.
    ///
    /// # Errors
    /// When the store fails.
    pub fn count_errors(&mut self, agent: Option<usize>) -> Result<u64, StoreError> {
        let mut count = 0;
        for at in self.chosen(agent) {
            count += self.store.trail().count_failures(self.rules.agents[at].id)?;
        }
        Ok(count)
    }

    /// The stored errors of an agent, or of all agents, in groups of equal ones, the largest group first.
    ///
    /// # Errors
    /// When the store fails.
    pub fn error_groups(&mut self, agent: Option<usize>) -> Result<Vec<ErrorGroup>, StoreError> {
        let mut all = Vec::new();
        for at in self.chosen(agent) {
            let (id, name) = (self.rules.agents[at].id, self.rules.agents[at].name.clone());
            let mut groups: HashMap<GroupKey, Group> = HashMap::new();
            self.group(id, &mut groups)?;
            for ((kind, attribute, text), group) in groups {
                let object = match group.example {
                    Err(place) => place,
                    Ok(cs) => {
                        let object = self.store.cs(&[cs])?.pop();
                        object.map_or_else(|| format!("object {}", cs.0), |object| self.called_by(&object))
                    }
                };
                let error = ObjectError { object, kind: kind.into(), attribute, text };
                let example = KnownError { agent: name.clone(), error, times: group.times };
                all.push(ErrorGroup { objects: group.objects, example });
            }
        }
        all.sort_by(|one, other| {
            let key = |group: &ErrorGroup| {
                let KnownError { agent, error, .. } = &group.example;
                (std::cmp::Reverse(group.objects), agent.clone(), error.kind.clone(), error.text.clone())
            };
            key(one).cmp(&key(other))
        });
        Ok(all)
    }

    /// Adds the errors of an agent to groups.
    fn group(&mut self, agent: AgentId, groups: &mut HashMap<GroupKey, Group>) -> Result<(), StoreError> {
        let mut add = |key: GroupKey, times: Times, example: Result<CsId, String>| {
            let new = || Group { objects: 0, times: Times { count: 0, ..times.clone() }, example };
            let group = groups.entry(key).or_insert_with(new);
            group.objects += 1;
            group.times.count += times.count;
            group.times.first_unix_s = group.times.first_unix_s.min(times.first_unix_s);
            if times.last_unix_s > group.times.last_unix_s {
                group.times =
                    Times { first_unix_s: group.times.first_unix_s, count: group.times.count, ..times };
            }
        };
        let mut after = 0;
        loop {
            let errors = self.store.trail().discovery_errors(agent, after, 10 * PAGE)?;
            let Some(last) = errors.last() else { break };
            after = last.number;
            for error in errors {
                add((error.kind, None, common(&error.text)), error.times, Err(error.place));
            }
        }
        let mut after = CsId(0);
        loop {
            let failures = self.store.trail().failures_after(agent, after, 10 * PAGE)?;
            let Some(last) = failures.last() else { break };
            after = last.cs;
            for KeptFailure { cs, failure, times } in failures {
                let attribute = failure.attribute.map(|attribute| self.names.name(attribute).to_string());
                add((failure.kind.name().into(), attribute, common(&failure.text)), times, Ok(cs));
            }
        }
        Ok(())
    }

    pub(super) fn chosen(&self, agent: Option<usize>) -> Vec<usize> {
        agent.map_or_else(|| (0..self.rules.agents.len()).collect(), |at| vec![at])
    }

    /// Failures with the names of their objects.
    fn called(&mut self, failures: Vec<KeptFailure>) -> Result<Vec<KnownError>, StoreError> {
        let ids: Vec<CsId> = failures.iter().map(|failure| failure.cs).collect();
        let objects: HashMap<CsId, _> =
            self.store.cs(&ids)?.into_iter().map(|object| (object.id, object)).collect();
        let known = failures.into_iter().filter_map(|KeptFailure { cs, failure, times }| {
            let object = objects.get(&cs)?;
            let agent = self.rules.agent(object.agent)?.name.clone();
            let error = ObjectError {
                object: self.called_by(object),
                kind: failure.kind.name().into(),
                attribute: failure.attribute.map(|attribute| self.names.name(attribute).to_string()),
                text: failure.text,
            };
            Some(KnownError { agent, error, times })
        });
        Ok(known.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::common;

    #[test]
    fn names_are_left_out() {
        for (text, short) in [
            (
                "add of cn=A: x,ou=b: objectClassViolation (65), no",
                "add: x,ou=b: objectClassViolation (65), no",
            ),
            ("modify of cn=Ada,dc=x: busy (51)", "modify: busy (51)"),
            ("\"cn=x\" exists; its `mail` is \"a\"", "\"...\" exists; its `mail` is \"...\""),
            ("one of the values: no", "one of the values: no"),
            ("an \"open", "an \"...\""),
        ] {
            assert_eq!(common(text), short);
        }
    }
}
