//! Finds objects by the values of their attributes, in the metaverse and in the connector spaces.

use std::collections::{BTreeMap, HashMap};

use super::Metadirectory;
use crate::hologram::{Attribute, Hologram};
use crate::object::{CsId, CsObject, MvId, MvObject};
use crate::rules::{FlowSource, KeyRule, TypeRules};
use crate::schema::Type;
use crate::secret::readable;
use crate::store::{Key, LookupKey, Population, SEARCH_BYTES, StoreError, fold, of_each};
use crate::synchronize::{are_keys_built, called, given_by, is_indexed};

/// Number of objects that a search reads at a time.
const PIECE: usize = 1000;
/// Number of objects that an index gives at a time.
const INDEX_PIECE: usize = 100;

/// The name of the state of an object among its attributes. No attribute has it.
const STATE: &str = "(state)";

/// A condition of a search. Comparisons ignore case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The attribute; `dn` is the name of an object, `anchor` its anchor with ` + ` between parts.
    pub attribute: String,
    /// The text, without case.
    text: String,
    /// Whether other text may come before it, and after it.
    is_open: (bool, bool),
}

impl Condition {
    /// Parses conditions: `mail=ada@plim.example`, `mail=ada*`, `mail=*plim*`, several with spaces between
    /// them. A word without `=` continues the value before it.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Vec<Condition>, String> {
        let mut parts: Vec<(&str, String)> = Vec::new();
        for word in text.split(' ') {
            match (word.split_once('='), parts.last_mut()) {
                (Some((name, value)), _) if is_name(name) => {
                    parts.push((name, value.into()));
                }
                (_, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(word);
                }
                (_, None) if word.is_empty() => {}
                _ => {
                    return Err(format!(
                        "{word:?} is no condition: write ATTRIBUTE=VALUE, such as 'mail=ada*'"
                    ));
                }
            }
        }
        let condition = |(name, value): (&str, String)| {
            let value = value.trim();
            let (is_open_before, text) = value.strip_prefix('*').map_or((false, value), |text| (true, text));
            let (is_open_after, text) = text.strip_suffix('*').map_or((false, text), |text| (true, text));
            if value.is_empty() {
                return Err(format!("{name}= has no value: {name}=* finds all objects with this attribute"));
            }
            let is_open = (is_open_before, is_open_after || value == "*");
            Ok(Condition { attribute: name.into(), text: fold(text.as_bytes()), is_open })
        };
        match parts.is_empty() {
            true => Err("a search needs a condition, such as 'mail=ada*'".into()),
            false => parts.into_iter().map(condition).collect(),
        }
    }

    /// A condition on the state of connector space objects, by its [column](crate::object::State::column) in `status`.
    pub fn state(column: &str) -> Condition {
        Condition { attribute: STATE.into(), text: fold(column.as_bytes()), is_open: (false, false) }
    }

    fn matches(&self, value: &[u8]) -> bool {
        let value = fold(value);
        match self.is_open {
            (false, false) => value == self.text,
            (false, true) => value.starts_with(&self.text),
            (true, false) => value.ends_with(&self.text),
            (true, true) => value.contains(&self.text),
        }
    }

    fn is_exact(&self) -> bool {
        self.is_open == (false, false)
    }
}

/// Whether a text before `=` is the name of an attribute, and not a part of a value such as a name.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_alphanumeric() || "_-.:;".contains(char))
}

/// Where a search looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SearchScope {
    /// In the metaverse and in the connector spaces. Connector spaces are left out if an index or a join key
    /// answers.
    #[default]
    All,
    /// In the metaverse.
    Metaverse,
    /// In the connector space of an agent, by its index.
    Agent(usize),
}

/// A found object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The agent of its connector space; none in the metaverse.
    pub agent: Option<String>,
    /// The type of a metaverse object.
    pub kind: Option<String>,
    /// Its number.
    pub number: i64,
    /// Its name or anchor; of a metaverse object, that of a connector.
    pub object: String,
    /// The metaverse object that a connector space object is linked to.
    pub mv: Option<MvId>,
    /// The attributes of the conditions with all their values.
    pub values: Vec<(String, Vec<String>)>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchEnd {
    /// Whether an index or a join key answered for the metaverse.
    pub is_indexed: bool,
    /// Whether connector spaces were left out.
    pub left_out: bool,
    /// Number of objects that were read.
    pub read: u64,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The search cannot be made.
    #[error("{0}")]
    Refused(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Receives what a search finds, and how many objects it read.
pub trait SearchSink {
    /// An object was found. Returns whether to continue.
    fn found(&mut self, found: Found) -> bool;
    /// Objects were read. Returns whether to continue.
    fn read(&mut self, count: u64) -> bool;
}

/// What a condition compares.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Name,
    Anchor,
    State,
    /// Attributes with this name, in any case.
    Attributes(Vec<Attribute>),
}

/// A condition with its attributes.
type Resolved = (Condition, Subject);

/// The values of the reference attributes of an object: for each value, the names of the object that it leads to.
type ReferenceNames = HashMap<Attribute, Vec<Vec<String>>>;

impl Metadirectory {
    /// Finds the objects that meet all conditions. The attributes of `search` in the configuration and those of
    /// join rules are answered by an index; everything else is read.
    ///
    /// # Errors
    /// When an attribute is unknown or secret, or the store fails.
    pub fn search(
        &mut self,
        conditions: &[Condition],
        scope: &SearchScope,
        sink: &mut dyn SearchSink,
    ) -> Result<SearchEnd, SearchError> {
        let conditions = self.resolved(conditions)?;
        let mut end = SearchEnd::default();
        let mut goes_on = true;
        let of_spaces = conditions.iter().any(|(_, subject)| *subject == Subject::State);
        if !matches!(scope, SearchScope::Agent(_)) && !of_spaces {
            match self.candidates(&conditions)? {
                Some(by_key) => {
                    end.is_indexed = true;
                    goes_on = self.among(&conditions, by_key, &mut end, sink)?;
                }
                None => goes_on = self.metaverse(&conditions, &mut end, sink)?,
            }
        }
        let agents = match scope {
            SearchScope::Metaverse => 0..0,
            SearchScope::Agent(at) => *at..at + 1,
            SearchScope::All if end.is_indexed => {
                end.left_out = true;
                0..0
            }
            SearchScope::All => 0..self.agents.len(),
        };
        for agent in agents {
            goes_on = goes_on && self.connector_space(agent, &conditions, &mut end, sink)?;
        }
        Ok(end)
    }

    /// Finds the attributes of conditions.
    fn resolved(&mut self, conditions: &[Condition]) -> Result<Vec<Resolved>, SearchError> {
        let mut resolved = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let name = condition.attribute.as_str();
            let known = self.names.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            let known: Vec<Attribute> = known.map(|(_, attribute)| attribute).collect();
            let refused = |why: String| Err(SearchError::Refused(why));
            if self.secrets.hides(name) {
                return refused(format!("the values of `{name}` are secret: they are not searched"));
            }
            let subject = match name {
                STATE => Subject::State,
                "dn" => Subject::Name,
                "anchor" => Subject::Anchor,
                _ if known.is_empty() => {
                    return refused(format!(
                        "no object has an attribute `{name}`; dn is the name, anchor the anchor"
                    ));
                }
                _ => Subject::Attributes(known),
            };
            resolved.push((condition.clone(), subject));
        }
        Ok(resolved)
    }

    /// The metaverse objects that an index or a join key gives for one of the conditions. None if none answers.
    fn candidates(&mut self, conditions: &[Resolved]) -> Result<Option<Candidates>, StoreError> {
        let store = self.store.as_mut();
        let is_indexed = is_indexed(store, &self.rules, &self.names)?;
        for (condition, subject) in conditions {
            let Subject::Attributes(attributes) = subject else { continue };
            let pairs = || {
                attributes
                    .iter()
                    .flat_map(|attribute| self.rules.types.iter().map(move |kind| (kind, attribute)))
            };
            let has = |(kind, attribute): &(&TypeRules, &Attribute)| {
                kind.attributes.iter().any(|of| of.attribute == **attribute)
            };
            let is_complete = pairs().any(|pair| has(&pair))
                && pairs().filter(has).all(|(kind, attribute)| kind.search.contains(attribute));
            if is_indexed && is_complete && !condition.is_open.0 && !condition.text.is_empty() {
                let mut value = condition.text.clone().into_bytes();
                value.truncate(SEARCH_BYTES);
                let end: &[u8] =
                    if condition.is_open.1 || value.len() == SEARCH_BYTES { &[0xff] } else { &[0] };
                let before = [value.as_slice(), end].concat();
                let attributes = attributes.iter().rev().copied().collect();
                return Ok(Some(Candidates::Index { attributes, from: (value, MvId(i64::MIN)), before }));
            }
        }
        if !are_keys_built(store, &self.rules)? {
            return Ok(None);
        }
        for (condition, subject) in conditions.iter().filter(|(condition, _)| condition.is_exact()) {
            let Subject::Attributes(attributes) = subject else { continue };
            let Some(rules) = self.rules_without_case(attributes, &condition.text) else { continue };
            let of_rule = |rule: &KeyRule| {
                let comparison = rule.comparisons.first().copied().unwrap_or_default();
                (rule.rule, comparison.key(condition.text.as_bytes()))
            };
            let keys: Vec<Key> = rules.into_iter().map(of_rule).collect();
            let mut found: Vec<MvId> = self.store.mv_with(&keys)?.into_iter().flatten().collect();
            found.sort_unstable();
            found.dedup();
            return Ok(Some(Candidates::Keys(found)));
        }
        Ok(None)
    }

    /// Rules of join keys by which all objects with a value of these attributes are found, whatever its case. None
    /// if there are no such rules for one of the types.
    fn rules_without_case(&self, attributes: &[Attribute], value: &str) -> Option<Vec<&KeyRule>> {
        let mut rules = Vec::new();
        // A number is the same in upper case.
        let has_case = value.to_uppercase() != value;
        for kind in &self.rules.types {
            let of_kind = kind.attributes.iter().map(|of| of.attribute);
            for attribute in of_kind.filter(|attribute| attributes.contains(attribute)) {
                let is_it = |rule: &&KeyRule| {
                    matches!(rule.parts.as_slice(), [FlowSource::Direct(of)] if *of == attribute)
                        && (!has_case || rule.comparisons.iter().all(|comparison| comparison.ignores_case()))
                };
                rules.push(kind.keys.iter().find(is_it)?);
            }
        }
        (!rules.is_empty()).then_some(rules)
    }

    /// Reports those of the candidates that meet all conditions. Returns whether to continue.
    fn among(
        &mut self,
        conditions: &[Resolved],
        candidates: Candidates,
        end: &mut SearchEnd,
        sink: &mut dyn SearchSink,
    ) -> Result<bool, SearchError> {
        let (mut attributes, from, before) = match candidates {
            Candidates::Keys(ids) => {
                let objects = self.store.mv(&ids)?;
                return self.report_mvs(conditions, objects, end, sink);
            }
            Candidates::Index { attributes, from, before } => (attributes, from, before),
        };
        while let Some(attribute) = attributes.pop() {
            let mut after = from.clone();
            let mut last = None;
            loop {
                let found = self.store.search(attribute, (&after.0, after.1), &before, INDEX_PIECE)?;
                let Some(end_of_piece) = found.last().cloned() else { break };
                after = end_of_piece;
                // An object with several values that match is reported once, if they are neighbors.
                let mut ids: Vec<MvId> = found.into_iter().map(|(_, id)| id).collect();
                ids.sort_unstable();
                ids.dedup();
                ids.retain(|id| Some(*id) != last);
                last = ids.last().copied();
                let objects = self.store.mv(&ids)?;
                if !self.report_mvs(conditions, objects, end, sink)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn metaverse(
        &mut self,
        conditions: &[Resolved],
        end: &mut SearchEnd,
        sink: &mut dyn SearchSink,
    ) -> Result<bool, SearchError> {
        let (mut after, piece) = (MvId(0), self.piece(conditions));
        loop {
            let objects = self.store.mv_after(after, piece)?;
            let Some(last) = objects.last() else { return Ok(true) };
            after = last.id;
            if !self.report_mvs(conditions, objects, end, sink)? {
                return Ok(false);
            }
        }
    }

    fn report_mvs(
        &mut self,
        conditions: &[Resolved],
        objects: Vec<MvObject>,
        end: &mut SearchEnd,
        sink: &mut dyn SearchSink,
    ) -> Result<bool, SearchError> {
        end.read += objects.len() as u64;
        let references = self.references_of_mvs(conditions, &objects)?;
        for object in objects {
            let references = references.get(&object.id);
            let Some(values) = self.met(conditions, &object.image, references, None) else { continue };
            let names = self.mv_names(&[object.id])?;
            let kind = self.rules.type_of(object.kind).and_then(|at| self.types.get(at)).cloned();
            let found = Found {
                agent: None,
                kind: Some(kind.unwrap_or_default()),
                number: object.id.0,
                object: names.into_values().next().unwrap_or_default(),
                mv: Some(object.id),
                values,
            };
            if !sink.found(found) {
                return Ok(false);
            }
        }
        Ok(sink.read(end.read))
    }

    fn connector_space(
        &mut self,
        agent: usize,
        conditions: &[Resolved],
        end: &mut SearchEnd,
        sink: &mut dyn SearchSink,
    ) -> Result<bool, SearchError> {
        let space = &self.rules.agents[agent];
        let id = space.id;
        // A name that is complete is found by its key.
        let name =
            conditions.iter().find(|(condition, subject)| *subject == Subject::Name && condition.is_exact());
        if let Some(hash) = name.and_then(|(condition, _)| space.naming.hash(&condition.text))
            && let Some(found) = self.store.find(id, LookupKey::Name, &[hash])?.pop().flatten()
        {
            let objects = self.store.cs(&[found.id])?;
            return self.report_css(agent, conditions, objects, end, sink);
        }
        let (mut after, piece) = (CsId(0), self.piece(conditions));
        loop {
            let objects = self.store.cs_after(id, after, piece, Population::All)?;
            let Some(last) = objects.last() else { return Ok(true) };
            after = last.id;
            if !self.report_css(agent, conditions, objects, end, sink)? {
                return Ok(false);
            }
        }
    }

    fn report_css(
        &mut self,
        agent: usize,
        conditions: &[Resolved],
        objects: Vec<CsObject>,
        end: &mut SearchEnd,
        sink: &mut dyn SearchSink,
    ) -> Result<bool, SearchError> {
        end.read += objects.len() as u64;
        let references = self.references_of_css(conditions, &objects)?;
        let nothing = Hologram::default();
        for object in objects {
            let image = object.image().unwrap_or(&nothing);
            let references = references.get(&object.id);
            let Some(values) = self.met(conditions, image, references, Some(&object)) else { continue };
            let found = Found {
                agent: self.agents.get(agent).map(|agent| agent.name.clone()),
                kind: None,
                number: object.id.0,
                object: called(self.rules.agent(object.agent), &object).trim_matches('"').into(),
                mv: object.mv,
                values,
            };
            if !sink.found(found) {
                return Ok(false);
            }
        }
        Ok(sink.read(end.read))
    }

    /// The values of the attributes of the conditions, if an object meets all.
    fn met(
        &self,
        conditions: &[Resolved],
        image: &Hologram,
        references: Option<&ReferenceNames>,
        object: Option<&CsObject>,
    ) -> Option<Vec<(String, Vec<String>)>> {
        let mut shown = BTreeMap::new();
        let of_agent = object.and_then(|object| self.rules.agent(object.agent));
        let is_row = |attribute: &Attribute| of_agent.is_some_and(|of| of.references.contains(attribute));
        for (condition, subject) in conditions {
            let mut is_met = false;
            let values: Vec<(String, Vec<u8>)> = match subject {
                Subject::Name => {
                    let dn = object.filter(|object| !object.dn.is_empty())?.dn.clone();
                    vec![("dn".into(), dn.into_bytes())]
                }
                Subject::State => vec![(STATE.into(), object?.state.column().into())],
                Subject::Anchor => {
                    let parts = &self.rules.agent(object?.agent)?.anchor;
                    let parts = parts.iter().map(|part| image.first(*part).map(readable));
                    let parts: Vec<String> = parts.collect::<Option<_>>()?;
                    vec![("anchor".into(), parts.join(" + ").into_bytes())]
                }
                Subject::Attributes(attributes) => {
                    let mut all = Vec::new();
                    for attribute in attributes {
                        let name = self.names.name(*attribute);
                        let led = references.and_then(|references| references.get(attribute));
                        for names in led.into_iter().flatten() {
                            is_met |= names.iter().any(|name| condition.matches(name.as_bytes()));
                            all.extend(
                                names.first().map(|first| (name.to_string(), first.clone().into_bytes())),
                            );
                        }
                        // The image has a digest of references.
                        let values = image.get(*attribute).filter(|_| !is_row(attribute));
                        let values = values.map(|values| values.to_vec()).unwrap_or_default();
                        all.extend(values.into_iter().map(|value| (name.to_string(), value)));
                    }
                    all
                }
            };
            if !is_met && !values.iter().any(|(_, value)| condition.matches(value)) {
                return None;
            }
            for (name, value) in values {
                let known: &mut Vec<String> = shown.entry(name).or_default();
                let value = readable(&value);
                if !known.contains(&value) {
                    known.push(value);
                }
            }
        }
        Some(shown.into_iter().collect())
    }
}

impl Metadirectory {
    /// The reference attributes of the metaverse and of the connector spaces that conditions name.
    fn reference_attributes(&self, conditions: &[Resolved]) -> Vec<Attribute> {
        let of_metaverse = self.rules.types.iter().flat_map(|kind| &kind.attributes);
        let of_metaverse = of_metaverse.filter(|of| of.kind == Type::Reference).map(|of| of.attribute);
        let of_spaces = self.rules.agents.iter().flat_map(|agent| agent.references.iter().copied());
        let is_named = |attribute: &Attribute| {
            let mut subjects = conditions.iter().map(|(_, subject)| subject);
            subjects.any(|subject| matches!(subject, Subject::Attributes(all) if all.contains(attribute)))
        };
        of_metaverse.chain(of_spaces).filter(is_named).collect()
    }

    /// The number of objects that are read at a time. Groups may have many references.
    fn piece(&self, conditions: &[Resolved]) -> usize {
        if self.reference_attributes(conditions).is_empty() { PIECE } else { INDEX_PIECE }
    }

    /// The references of connector space objects, by their values.
    fn references_of_css(
        &mut self,
        conditions: &[Resolved],
        objects: &[CsObject],
    ) -> Result<HashMap<CsId, ReferenceNames>, StoreError> {
        let wanted = self.reference_attributes(conditions);
        let mut all = HashMap::<CsId, ReferenceNames>::new();
        if wanted.is_empty() {
            return Ok(all);
        }
        let ids: Vec<CsId> = objects.iter().map(|object| object.id).collect();
        for reference in of_each(self.store.as_mut(), &ids, true)?.into_values().flatten() {
            if wanted.contains(&reference.attribute) && (reference.is_imported || reference.will_be_there()) {
                let of_object = all.entry(reference.cs).or_default();
                of_object.entry(reference.attribute).or_default().push(vec![readable(&reference.value)]);
            }
        }
        Ok(all)
    }

    /// The references of metaverse objects, by the names and anchors of the objects that they lead to.
    fn references_of_mvs(
        &mut self,
        conditions: &[Resolved],
        objects: &[MvObject],
    ) -> Result<HashMap<MvId, ReferenceNames>, StoreError> {
        let wanted = self.reference_attributes(conditions);
        let mut all = HashMap::<MvId, ReferenceNames>::new();
        if wanted.is_empty() {
            return Ok(all);
        }
        let given = given_by(self.store.as_mut(), &self.rules, objects)?;
        let targets = given.iter().flat_map(|(_, values)| values);
        let mut targets: Vec<MvId> =
            targets.filter(|value| wanted.contains(&value.attribute)).map(|value| value.to).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut names: HashMap<MvId, Vec<String>> =
            self.mv_names(&targets)?.into_iter().map(|(id, name)| (id, vec![name])).collect();
        let linked: Vec<CsId> =
            self.store.mv(&targets)?.into_iter().flat_map(|object| object.connectors).collect();
        for object in self.store.cs(&linked)?.iter().filter(|object| object.state.is_connected()) {
            let Some(names) = object.mv.and_then(|mv| names.get_mut(&mv)) else { continue };
            let anchor = self.rules.agent(object.agent).map(|agent| agent.anchor_text(object));
            names.extend(
                [object.dn.clone(), anchor.unwrap_or_default()].into_iter().filter(|of| !of.is_empty()),
            );
        }
        for (id, values) in given {
            let values = values.into_iter().filter(|value| wanted.contains(&value.attribute));
            for value in values {
                let names = names.get(&value.to).cloned().unwrap_or_default();
                all.entry(id).or_default().entry(value.attribute).or_default().push(names);
            }
        }
        Ok(all)
    }
}

/// The metaverse objects among which those that meet all conditions are.
enum Candidates {
    Keys(Vec<MvId>),
    Index { attributes: Vec<Attribute>, from: (Vec<u8>, MvId), before: Vec<u8> },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed_and_compared_without_case() {
        let all = Condition::parse("cn=Ada  Lovelace mail=*PLIM* sn=lov*").unwrap_or_default();
        let [cn, mail, sn] = all.as_slice() else { panic!("{all:?}") };
        assert!(cn.matches(b"ADA  lovelace") && !cn.matches(b"Ada Lovelace"));
        assert!(mail.matches("ada@plim.example".as_bytes()) && !mail.matches(b"ada"));
        assert!(sn.matches("LOVELACE".as_bytes()) && !sn.matches(b"a love"));
        for wrong in ["", "ada", "=x", "mail="] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
        let any = Condition::parse("x=*").unwrap_or_default();
        assert!(any[0].matches(b"") && any[0].matches(b"y"));
        assert!(Condition::parse("x=*y").unwrap_or_default()[0].matches(b"zY"));
    }
}
