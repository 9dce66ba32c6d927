//! The rules of a configuration with every name resolved, as the engine evaluates them for each object.

mod comparisons;
mod counts;
mod joins;
mod unique;

pub(crate) use comparisons::{known as known_comparisons, note as comparisons_note};
pub(crate) use counts::{CountRule, Placeholder};
pub(crate) use joins::{Identity, JoinRule, KeyRule};
use unique::unique_attributes;
pub(crate) use unique::{CandidateRule, UNIQUE};

use crate::agent::Names;
use crate::config::{
    AgentConfig, Config, Deprovision, Existing, Generator, HIDDEN, JoinPart, Projection, Secrets, Source,
    WriteOnlySource,
};
use crate::expression::{Expression, Failed, Read, boolean, value_of};
use crate::hologram::{Attribute, Hologram, Opened, ValueList, Values};
use crate::index_key::IndexKey;
use crate::naming::Naming;
use crate::object::{AgentId, CsObject, PendingAttributes, Phase};
use crate::password::Password;
use crate::schema::Type;
use crate::store::{LookupKey, NameKind, Store, StoreError};

/// All rules.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) types: Vec<TypeRules>,
    pub(crate) agents: Vec<AgentRules>,
    pub(crate) inbound: Vec<InboundRules>,
    pub(crate) outbound: Vec<OutboundRules>,
    /// How the systems compare the values of join rules.
    systems: comparisons::Comparisons,
    /// Whether an agent is [correlated](AgentRules::is_correlated).
    pub(crate) is_correlated: bool,
    /// The attributes whose values are hidden.
    pub(crate) secrets: Secrets,
}

impl Rules {
    pub(crate) fn agent(&self, id: AgentId) -> Option<&AgentRules> {
        self.agents.iter().find(|rules| rules.id == id)
    }

    /// The key of an object as users know it: its name, its anchor, or its number.
    pub(crate) fn called(&self, object: &CsObject) -> String {
        let anchor = || self.agent(object.agent).map(|rules| rules.anchor_text(object));
        let name = Some(object.dn.clone()).filter(|dn| !dn.is_empty()).or_else(anchor);
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("object {}", object.id.0))
    }

    /// The index of the first inbound rules of an agent that accept an object.
    ///
    /// # Errors
    /// When a condition fails.
    pub(crate) fn inbound_for(&self, agent: AgentId, image: &Hologram) -> Result<Option<usize>, Failed> {
        for at in self.agent(agent).into_iter().flat_map(|rules| &rules.inbound) {
            match &self.inbound[*at].objects {
                Some(objects) if !objects.holds(image)? => {}
                _ => return Ok(Some(*at)),
            }
        }
        Ok(None)
    }

    /// Whether references must be evaluated: outbound flows write them, or expressions read their number.
    pub(crate) fn have_references(&self) -> bool {
        self.agents.iter().any(|agent| agent.gets_references)
            || self.types.iter().any(|kind| !kind.counts.is_empty())
    }
}

/// A type of the metaverse.
#[derive(Debug)]
pub(crate) struct TypeRules {
    pub(crate) kind: u32,
    /// The attributes in ascending order.
    pub(crate) attributes: Vec<AttributeRules>,
    /// The join keys: values by which objects are found.
    pub(crate) keys: Vec<KeyRule>,
    /// Attributes whose values are in the search index, in ascending order.
    pub(crate) search: Vec<Attribute>,
    /// Those of them by which unique values are found.
    pub(crate) unique: Vec<u32>,
    /// The numbers of references that expressions read.
    pub(crate) counts: Vec<CountRule>,
    /// Whether its objects are evaluated even if they have no references.
    pub(crate) is_evaluated_without_references: bool,
    /// Agents whose disconnection deletes the object. If empty, the loss of the last connector deletes it.
    pub(crate) deleted_with: Vec<AgentId>,
}

#[derive(Debug)]
pub(crate) struct AttributeRules {
    pub(crate) attribute: Attribute,
    pub(crate) kind: Type,
    pub(crate) several: bool,
    /// Whether its values are hidden.
    pub(crate) is_secret: bool,
    /// The contributors in order of precedence: indexes of `inbound` and of its flows.
    pub(crate) contributors: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(crate) struct AgentRules {
    pub(crate) id: AgentId,
    pub(crate) name: String,
    pub(crate) naming: Naming,
    pub(crate) anchor: Vec<Attribute>,
    /// Attributes that refer to other objects of the connector space, in ascending order.
    pub(crate) references: Vec<Attribute>,
    /// The indexes of its rules in `inbound`.
    pub(crate) inbound: Vec<usize>,
    /// Whether references of its objects flow into the metaverse.
    pub(crate) gives_references: bool,
    /// Whether references flow from the metaverse to its objects.
    pub(crate) gets_references: bool,
    /// The references that are sent while an object has none, with their attributes.
    pub(crate) placeholders: Vec<(Attribute, IndexKey)>,
    /// The attributes that flows write, in ascending order, without references.
    pub(crate) written: Vec<Attribute>,
    /// What an export does with an object that exists before it is added.
    pub(crate) existing: Existing,
    /// Whether the metaverse loses the values of an object that is disconnected.
    pub(crate) recall: bool,
    /// The attributes that are sent to it and never read, in ascending order.
    pub(crate) write_only: Vec<Attribute>,
    /// The attributes whose values are hidden.
    pub(crate) secrets: Secrets,
    /// The attributes of its join rules without conditions and expressions.
    pub(crate) identities: Vec<Identity>,
    /// Whether it has join rules.
    pub(crate) joins: bool,
    /// Whether its objects are provisioned, and found by join rules before that.
    pub(crate) is_correlated: bool,
    /// The attributes that get unique values of the metaverse, with the rule of their keys.
    pub(crate) unique: Vec<(Attribute, u32)>,
}

impl AgentRules {
    /// The key of an object as a reference target.
    pub(crate) fn target(&self, anchor: Option<IndexKey>, name: Option<IndexKey>) -> Option<IndexKey> {
        if self.naming.refers_by_name() { name } else { anchor }
    }

    /// The value that refers to an object; none while its system has not assigned the anchor.
    pub(crate) fn value_of(&self, object: &CsObject) -> Option<Vec<u8>> {
        if self.naming.refers_by_name() {
            let rename = object.pending_export.as_ref().and_then(|export| export.rename.as_ref());
            let sent = rename.filter(|rename| rename.phase == Phase::Unconfirmed);
            return Some(sent.map_or(&object.dn, |rename| &rename.dn).clone().into_bytes());
        }
        let anchor = *self.anchor.first()?;
        let of_image = object.image().and_then(|image| image.first(anchor)).map(<[u8]>::to_vec);
        of_image.or_else(|| {
            let pending = object.pending_export.as_ref()?;
            pending.attributes.get(anchor)?.values.iter().next().map(<[u8]>::to_vec)
        })
    }

    /// The key of the anchor that the values of a new object give.
    fn new_anchor(&self, object: &CsObject) -> Option<IndexKey> {
        let pending = &object.pending_export.as_ref()?.attributes;
        let part = |attribute: &Attribute| Some(pending.get(*attribute)?.values.iter().next()?.to_vec());
        let parts: Option<Vec<Vec<u8>>> = self.anchor.iter().map(part).collect();
        Some(IndexKey::of_parts(parts?.iter().map(Vec::as_slice)))
    }

    /// Whether the rules give new objects their anchors.
    fn gives_anchor(&self) -> bool {
        !self.anchor.is_empty()
            && self.anchor.iter().all(|attribute| self.written.binary_search(attribute).is_ok())
    }

    /// The name and the anchor that an object has, as far as other objects may be to get them.
    pub(crate) fn identifiers(
        &self,
        object: &CsObject,
    ) -> impl Iterator<Item = (LookupKey, IndexKey)> + use<> {
        let anchor = object.anchor.filter(|_| self.gives_anchor()).map(|key| (LookupKey::Anchor, key));
        anchor.into_iter().chain(object.name.map(|key| (LookupKey::Name, key)))
    }

    /// The name and the anchor that a new object lacks because another object has them.
    pub(crate) fn awaited(&self, object: &CsObject) -> impl Iterator<Item = (LookupKey, IndexKey)> + use<> {
        let lacks_anchor = object.anchor.is_none() && self.gives_anchor();
        let anchor = if lacks_anchor { self.new_anchor(object) } else { None };
        let name = if object.name.is_none() { self.naming.hash(&object.dn) } else { None };
        let anchor = anchor.map(|key| (LookupKey::Anchor, key));
        anchor.into_iter().chain(name.map(|key| (LookupKey::Name, key)))
    }

    /// The anchor of an object as users know it, with ` + ` between its parts; empty if it is not known.
    pub(crate) fn anchor_text(&self, object: &CsObject) -> String {
        let image = object.image().or(object.synchronized.as_ref());
        let pending = object.pending_export.as_ref().map(|export| &export.attributes);
        let part = |attribute: &Attribute| {
            let of_image = image.and_then(|image| image.first(*attribute)).map(<[u8]>::to_vec);
            let part = of_image.or_else(|| Some(pending?.get(*attribute)?.values.iter().next()?.to_vec()))?;
            Some(String::from_utf8_lossy(&part).into_owned())
        };
        self.anchor.iter().filter_map(part).collect::<Vec<_>>().join(" + ")
    }

    /// Whether an attribute is sent to the system and never read.
    pub(crate) fn is_write_only(&self, attribute: Attribute) -> bool {
        self.write_only.binary_search(&attribute).is_ok()
    }

    /// Whether an object with this image has references.
    pub(crate) fn refers(&self, image: &Hologram) -> bool {
        self.references.iter().any(|attribute| image.get(*attribute).is_some())
    }
}

#[derive(Debug)]
pub(crate) struct InboundRules {
    pub(crate) agent: AgentId,
    /// The index of the metaverse type.
    pub(crate) to: usize,
    /// The objects that the rules accept; without a condition, all.
    pub(crate) objects: Option<Formula>,
    pub(crate) filter: Option<Formula>,
    pub(crate) joins: Vec<JoinRule>,
    /// Whether several objects of the agent may be connected to one metaverse object.
    pub(crate) multiple_connectors: bool,
    pub(crate) project: ProjectionRule,
    pub(crate) flows: Vec<Flow>,
}

#[derive(Debug)]
pub(crate) enum ProjectionRule {
    No,
    Always,
    When(Box<Formula>),
}

#[derive(Debug)]
pub(crate) struct OutboundRules {
    pub(crate) agent: AgentId,
    /// The index of the metaverse type.
    pub(crate) from: usize,
    pub(crate) when: Option<Formula>,
    pub(crate) dn: Formula,
    /// The candidates for the name, of which `dn` is the first.
    pub(crate) names: Option<CandidateRule>,
    pub(crate) deprovision: DeprovisionRule,
    /// After how many seconds a deprovisioned object is deleted.
    pub(crate) delete_after_s: Option<u64>,
    /// The flows in ascending order of attribute.
    pub(crate) flows: Vec<Flow>,
    pub(crate) initial: Vec<Flow>,
    /// Values that are sent once and never read, in ascending order of attribute.
    pub(crate) write_only: Vec<WriteOnlyRule>,
    /// Flows of references, which are evaluated separately.
    pub(crate) references: Vec<ReferenceFlow>,
    /// The attributes with the numbers of references that the rules read.
    pub(crate) counts: Vec<Attribute>,
    /// The anchor of the agent.
    pub(crate) anchor: Vec<Attribute>,
    pub(crate) naming: Naming,
}

/// A value that is sent once and never read. In a pending export, the attribute without a value is a mark that it
/// is to be sent.
#[derive(Debug)]
pub(crate) struct WriteOnlyRule {
    /// The attribute of the connector space.
    pub(crate) to: Attribute,
    /// Whether it is sent again when a deprovisioned object is connected again.
    pub(crate) on_return: bool,
    pub(crate) from: WriteOnlyValue,
}

/// The source of a value that is never read.
#[derive(Debug)]
pub(crate) enum WriteOnlyValue {
    Flow(FlowSource),
    Secret(Password),
    Generated(Generator),
}

/// What happens to an object that is deprovisioned.
#[derive(Debug)]
pub(crate) enum DeprovisionRule {
    Disconnect,
    Delete,
    /// The object is kept and receives these values.
    Disable(PendingAttributes),
}

/// An outbound flow of references.
#[derive(Debug)]
pub(crate) struct ReferenceFlow {
    /// The attribute of the connector space.
    pub(crate) to: Attribute,
    /// The attribute of the metaverse.
    pub(crate) from: Attribute,
    /// What is sent while there is no reference.
    pub(crate) empty: Option<Placeholder>,
}

/// The origin of the values of an attribute.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) to: Attribute,
    pub(crate) from: FlowSource,
    /// The candidates, if the value is unique in the metaverse; then `from` is the first one.
    pub(crate) candidates: Option<Box<CandidateRule>>,
}

#[derive(Clone, Debug)]
pub(crate) enum FlowSource {
    Direct(Attribute),
    Constant(Vec<Vec<u8>>),
    Formula(Formula),
}

/// An expression with the attributes it names.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    expression: Expression,
    uses: Vec<(Attribute, Use)>,
}

/// How a formula reads an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The values, of a type.
    Values(Type),
    /// The number of values.
    Count,
    /// The number of references, from their digest.
    CountOfDigest,
}

impl Formula {
    fn value(&self, at: usize, image: &Hologram) -> Option<cel::Value> {
        let (attribute, of) = self.uses.get(at)?;
        let values = image.get(*attribute);
        let kind = match of {
            Use::Values(kind) => *kind,
            Use::Count => return Some(cel::Value::Int(values.map_or(0, |values| values.count()) as i64)),
            Use::CountOfDigest => {
                return Some(cel::Value::Int(values.map_or(0, |values| values.count_of_digest()) as i64));
            }
        };
        let values = values?;
        match values.count() {
            1 if !self.expression.is_list(at) => value_of(values.iter().next()?, kind),
            _ => Some(cel::Value::from(
                values.iter().filter_map(|value| value_of(value, kind)).collect::<Vec<_>>(),
            )),
        }
    }

    /// The one text value of an attribute; none otherwise.
    fn text<'a>(&self, at: usize, image: &'a Hologram) -> Option<&'a str> {
        let (attribute, Use::Values(Type::Text | Type::Reference)) = self.uses.get(at)? else { return None };
        let values = image.get(*attribute).filter(|values| values.count() == 1)?;
        std::str::from_utf8(values.iter().next()?).ok()
    }

    /// The value with a counter; none unless it is one text.
    pub(crate) fn counted(&self, n: u64, image: &Hologram) -> Result<Option<String>, Failed> {
        if let Some(text) = self.expression.text(n, |at| self.text(at, image)) {
            return Ok(Some(text));
        }
        let values = self.expression.evaluate_counted(n, |at| self.value(at, image))?;
        Ok(match <[Vec<u8>; 1]>::try_from(values) {
            Ok([value]) => String::from_utf8(value).ok(),
            Err(_) => None,
        })
    }

    /// The source text.
    pub(crate) fn source(&self) -> &str {
        self.expression.source()
    }

    pub(crate) fn evaluate(&self, image: &Hologram) -> Result<Vec<Vec<u8>>, Failed> {
        if let Some(text) = self.expression.text(0, |at| self.text(at, image)) {
            return Ok(vec![text.into_bytes()]);
        }
        self.expression.evaluate(|at| self.value(at, image))
    }

    pub(crate) fn holds(&self, image: &Hologram) -> Result<bool, Failed> {
        self.expression.holds(|at| self.value(at, image))
    }
}

/// The values of a flow.
pub(crate) enum FlowValues<'a> {
    /// Values from an image.
    Copied(Values<'a>),
    /// Computed values.
    Made(ValueList),
}

impl FlowValues<'_> {
    pub(crate) fn values(&self) -> Values<'_> {
        match self {
            FlowValues::Copied(values) => *values,
            FlowValues::Made(values) => values.values(),
        }
    }
}

impl FlowSource {
    /// The values for an image, encoded as in a hologram.
    pub(crate) fn flowing<'a>(&self, image: &Opened<'a>) -> Result<FlowValues<'a>, Failed> {
        Ok(match self {
            FlowSource::Direct(attribute) => {
                FlowValues::Copied(image.get(*attribute).unwrap_or(Values::NONE))
            }
            FlowSource::Constant(values) => FlowValues::Made(ValueList::of(values)),
            FlowSource::Formula(formula) => FlowValues::Made(ValueList::of(&formula.evaluate(image.image)?)),
        })
    }
}

impl Flow {
    /// The attributes that the flow reads.
    pub(crate) fn reads(&self) -> Vec<Attribute> {
        let of_formula =
            |formula: &Formula| formula.uses.iter().map(|(attribute, _)| *attribute).collect::<Vec<_>>();
        let mut reads = match &self.from {
            FlowSource::Direct(attribute) => vec![*attribute],
            FlowSource::Constant(_) => Vec::new(),
            FlowSource::Formula(formula) => of_formula(formula),
        };
        if let Some(candidates) = &self.candidates {
            reads.extend(candidates.fixed.iter().chain(&candidates.counted).flat_map(of_formula));
        }
        reads
    }

    /// The values that the flow gives for an image, encoded as in a hologram.
    pub(crate) fn flowing<'a>(&self, image: &Opened<'a>) -> Result<FlowValues<'a>, Failed> {
        self.from.flowing(image)
    }

    /// The values that the flow gives for an image, in ascending order without duplicates.
    pub(crate) fn values(&self, image: &Hologram) -> Result<Vec<Vec<u8>>, Failed> {
        Ok(self.flowing(&Opened::of(image))?.values().to_vec())
    }
}

impl AttributeRules {
    /// The values as the metaverse stores them, or why they do not fit the type.
    pub(crate) fn fitted(&self, mut values: Vec<Vec<u8>>, name: &str) -> Result<Vec<Vec<u8>>, String> {
        if values.len() > 1 && !self.several {
            return Err(format!("`{name}` takes one value, not {}", values.len()));
        }
        for value in &mut values {
            let shown = || match self.is_secret {
                true => format!("`{name}` cannot be {HIDDEN}"),
                false => format!("`{name}` cannot be {:?}", String::from_utf8_lossy(value)),
            };
            match self.kind {
                Type::Text | Type::Reference => {
                    std::str::from_utf8(value).map_err(|_| format!("{}: not UTF-8", shown()))?;
                }
                Type::Binary => {}
                Type::Integer => {
                    let text =
                        std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<i64>().ok());
                    let number = text.ok_or_else(|| format!("{}: no whole number", shown()))?;
                    *value = number.to_string().into_bytes();
                }
                Type::Boolean => {
                    let truth = std::str::from_utf8(value).ok().and_then(boolean);
                    let truth = truth.ok_or_else(|| format!("{}: neither true nor false", shown()))?;
                    *value = truth.to_string().into_bytes();
                }
            }
        }
        Ok(values)
    }
}

/// Assigns numbers to names.
struct Resolver<'a> {
    store: &'a mut dyn Store,
    names: &'a mut Names,
    /// The agent of the outbound rules that are resolved.
    counted_for: Option<(AgentId, String)>,
    /// The numbers of references that they read.
    counts: Vec<CountRule>,
}

impl Resolver<'_> {
    fn attribute(&mut self, name: &str) -> Result<Attribute, StoreError> {
        if let Some(known) = self.names.attribute(name) {
            return Ok(known);
        }
        let attribute = Attribute(self.store.name(NameKind::Attribute, name)?);
        self.names.insert(name, attribute);
        Ok(attribute)
    }

    fn formula(
        &mut self,
        expression: Expression,
        kind: impl Fn(&str) -> Type,
    ) -> Result<Formula, StoreError> {
        let mut uses = Vec::with_capacity(expression.uses().len());
        for (at, name) in expression.uses().iter().enumerate() {
            let (read, kind) = (expression.read(at), kind(name));
            uses.push(match (read, kind, self.counted_for.clone()) {
                (Read::Values, kind, _) => (self.attribute(name)?, Use::Values(kind)),
                // The number is an attribute of the metaverse object.
                (_, Type::Reference, Some((agent, agent_name))) => {
                    let connected_to = (read == Read::Connectors).then_some(agent);
                    let attribute = self.attribute(&CountRule::name(read, name, &agent_name))?;
                    let of = self.attribute(name)?;
                    self.counts.push(CountRule { attribute, of, connected_to });
                    (attribute, Use::Values(Type::Integer))
                }
                (_, Type::Reference, None) => (self.attribute(name)?, Use::CountOfDigest),
                (_, _, _) => (self.attribute(name)?, Use::Count),
            });
        }
        Ok(Formula { uses, expression })
    }

    fn parts(
        &mut self,
        parts: Vec<JoinPart>,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<Vec<FlowSource>, StoreError> {
        let part = |part| match part {
            JoinPart::Attribute(name) => Ok(FlowSource::Direct(self.attribute(&name)?)),
            JoinPart::Expression(made) => Ok(FlowSource::Formula(self.formula(made, kind)?)),
        };
        parts.into_iter().map(part).collect()
    }

    fn from(&mut self, source: Source, kind: impl Fn(&str) -> Type) -> Result<FlowSource, StoreError> {
        Ok(match source {
            Source::Direct(name) => FlowSource::Direct(self.attribute(&name)?),
            Source::Constant(texts) => {
                FlowSource::Constant(texts.into_iter().map(String::into_bytes).collect())
            }
            Source::Expression(expression) => FlowSource::Formula(self.formula(expression, kind)?),
        })
    }
}

impl Resolver<'_> {
    /// The candidates for a unique value; `first` is the expression of the first one.
    fn candidates(
        &mut self,
        name: &str,
        first: &Source,
        written: crate::config::Candidates,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<CandidateRule, StoreError> {
        let rule = self.store.name(NameKind::Key, name)?;
        let mut fixed = Vec::new();
        if let Source::Expression(first) = first {
            fixed.push(self.formula(first.clone(), kind)?);
        }
        let mut counted = None;
        for other in written.others {
            let is_counted = other.is_counted();
            let formula = self.formula(other, kind)?;
            match is_counted {
                true => counted = Some(formula),
                false => fixed.push(formula),
            }
        }
        Ok(CandidateRule { rule, fixed, counted, most: written.most })
    }

    fn write_only(
        &mut self,
        rules: Vec<crate::config::WriteOnly>,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<Vec<WriteOnlyRule>, StoreError> {
        let mut all = Vec::with_capacity(rules.len());
        for rule in rules {
            let to = self.attribute(&rule.to)?;
            let from = match rule.from {
                WriteOnlySource::Flow(source) => WriteOnlyValue::Flow(self.from(source, kind)?),
                WriteOnlySource::Secret(place) => WriteOnlyValue::Secret(place),
                WriteOnlySource::Generated(generator) => WriteOnlyValue::Generated(generator),
            };
            all.push(WriteOnlyRule { to, on_return: rule.on_return, from });
        }
        all.sort_by_key(|rule| rule.to);
        Ok(all)
    }
}

/// Resolves a configuration: assigns a number to every name.
pub(crate) fn resolve(
    config: Config,
    of_agents: &[AgentConfig],
    store: &mut dyn Store,
    names: &mut Names,
) -> Result<Rules, StoreError> {
    let mut resolver =
        Resolver { store: &mut *store, names: &mut *names, counted_for: None, counts: Vec::new() };
    let mut agents = Vec::new();
    for agent in of_agents {
        let mut attributes = |names: &[String]| -> Result<Vec<Attribute>, StoreError> {
            names.iter().map(|name| resolver.attribute(name)).collect()
        };
        let (anchor, mut references) = (attributes(&agent.anchor)?, attributes(&agent.references)?);
        references.sort_unstable();
        references.dedup();
        agents.push(AgentRules {
            id: AgentId(resolver.store.name(NameKind::Agent, &agent.name)?),
            name: agent.name.clone(),
            naming: agent.system.naming(),
            anchor,
            references,
            inbound: Vec::new(),
            gives_references: false,
            gets_references: false,
            placeholders: Vec::new(),
            written: Vec::new(),
            existing: agent.existing,
            recall: agent.recall,
            write_only: Vec::new(),
            secrets: config.secrets.clone(),
            identities: Vec::new(),
            joins: false,
            is_correlated: false,
            unique: Vec::new(),
        });
    }
    let mut types = Vec::new();
    // The attributes of each type by their index in the configuration.
    let mut places: Vec<Vec<Attribute>> = Vec::new();
    for kind in &config.types {
        let mut attributes = Vec::new();
        for attribute in &kind.attributes {
            attributes.push(AttributeRules {
                attribute: resolver.attribute(&attribute.name)?,
                kind: attribute.kind,
                several: attribute.several,
                is_secret: config.secrets.hides(&attribute.name),
                contributors: Vec::new(),
            });
        }
        places.push(attributes.iter().map(|rules| rules.attribute).collect());
        let place = |at: &usize| attributes.get(*at).map(|rules: &AttributeRules| rules.attribute);
        let mut search: Vec<Attribute> = kind.search.iter().filter_map(place).collect();
        search.sort_unstable();
        attributes.sort_by_key(|rules| rules.attribute);
        types.push(TypeRules {
            search,
            kind: resolver.store.name(NameKind::Type, &kind.name)?,
            attributes,
            keys: Vec::new(),
            unique: Vec::new(),
            counts: Vec::new(),
            is_evaluated_without_references: false,
            deleted_with: kind.deleted_with.iter().map(|agent| agents[*agent].id).collect(),
        });
    }
    let mut inbound = Vec::new();
    for (at, rules) in config.inbound.into_iter().enumerate() {
        // References have no value here, but a number.
        let references = &of_agents[rules.agent].references;
        let text = |name: &str| match references.iter().any(|reference| reference == name) {
            true => Type::Reference,
            false => Type::Text,
        };
        let mut joins = Vec::new();
        for join in rules.joins {
            let of_type = &config.types[rules.to];
            let of_attribute = |name: &str| {
                let found = of_type.attributes.iter().find(|attribute| attribute.name == name);
                found.map_or(Type::Text, |found| found.kind)
            };
            joins.push(JoinRule {
                cs: resolver.parts(join.cs, text)?,
                mv: resolver.parts(join.mv, of_attribute)?,
                type_name: of_type.name.clone(),
                ignore_case: join.ignore_case,
                rule: 0,
                comparisons: Vec::new(),
                when: join.when.map(|when| resolver.formula(when, text)).transpose()?,
            });
        }
        let mut flows = Vec::new();
        for (place, flow) in rules.flows.into_iter().enumerate() {
            let to = places[rules.to][flow.to];
            let attributes = &mut types[rules.to].attributes;
            if let Some(attribute) = attributes.iter_mut().find(|attribute| attribute.attribute == to) {
                attribute.contributors.push((at, place));
                agents[rules.agent].gives_references |= attribute.kind == Type::Reference;
            }
            let mut candidates = None;
            if let Some(written) = flow.candidates {
                let of_type = &config.types[rules.to];
                let name = format!("unique {}.{}", of_type.name, of_type.attributes[flow.to].name);
                let made = resolver.candidates(&name, &flow.from, written, text)?;
                if !types[rules.to].unique.contains(&made.rule) {
                    types[rules.to].unique.push(made.rule);
                    let parts = vec![FlowSource::Direct(to)];
                    types[rules.to].keys.push(KeyRule { rule: made.rule, parts, comparisons: vec![UNIQUE] });
                }
                candidates = Some(Box::new(made));
            }
            let flow = (flow.precedence, Flow { to, from: resolver.from(flow.from, text)?, candidates });
            flows.push(flow);
        }
        agents[rules.agent].inbound.push(at);
        inbound.push((
            flows.iter().map(|(precedence, _)| *precedence).collect::<Vec<u32>>(),
            InboundRules {
                agent: agents[rules.agent].id,
                to: rules.to,
                objects: rules.objects.map(|objects| resolver.formula(objects, text)).transpose()?,
                filter: rules.filter.map(|filter| resolver.formula(filter, text)).transpose()?,
                joins,
                multiple_connectors: rules.multiple_connectors,
                project: match rules.project {
                    Projection::No => ProjectionRule::No,
                    Projection::Always => ProjectionRule::Always,
                    Projection::When(when) => ProjectionRule::When(Box::new(resolver.formula(when, text)?)),
                },
                flows: flows.into_iter().map(|(_, flow)| flow).collect(),
            },
        ));
    }
    for attribute in types.iter_mut().flat_map(|kind| &mut kind.attributes) {
        attribute.contributors.sort_by_key(|(rules, flow)| inbound[*rules].0[*flow]);
    }
    let mut outbound: Vec<OutboundRules> = Vec::new();
    for rules in config.outbound {
        let kind = |name: &str| {
            let attributes = &config.types[rules.from].attributes;
            attributes.iter().find(|attribute| attribute.name == name).map_or(Type::Text, |found| found.kind)
        };
        let of_agent = &agents[rules.agent];
        (resolver.counted_for, resolver.counts) = (Some((of_agent.id, of_agent.name.clone())), Vec::new());
        let flows = |listed: Vec<crate::config::ExportFlow>, resolver: &mut Resolver<'_>| {
            let flows = listed.into_iter().map(|flow| {
                let (to, from) = (resolver.attribute(&flow.to)?, resolver.from(flow.from, kind)?);
                Ok(Flow { to, from, candidates: None })
            });
            let mut flows: Vec<Flow> = flows.collect::<Result<_, StoreError>>()?;
            flows.sort_by_key(|flow| flow.to);
            Ok::<_, StoreError>(flows)
        };
        let (references, plain) = rules.flows.into_iter().partition::<Vec<_>, _>(
            |flow| matches!(&flow.from, Source::Direct(name) if kind(name) == Type::Reference),
        );
        let references = references.into_iter().filter_map(|flow| match flow.from {
            Source::Direct(from) => Some((flow.to, from, flow.empty)),
            Source::Constant(_) | Source::Expression(_) => None,
        });
        let naming = agents[rules.agent].naming;
        let references = references.map(|(to, from, empty)| {
            let empty = empty.map(|value| Placeholder {
                target: naming.target(value.as_bytes()),
                value: value.into_bytes(),
            });
            Ok(ReferenceFlow { to: resolver.attribute(&to)?, from: resolver.attribute(&from)?, empty })
        });
        let mut references: Vec<ReferenceFlow> = references.collect::<Result<_, StoreError>>()?;
        references.sort_by_key(|flow| flow.to);
        agents[rules.agent].gets_references |= !references.is_empty();
        let placeholders = references.iter().filter_map(|flow| Some((flow.to, flow.empty.as_ref()?.target)));
        agents[rules.agent].placeholders.extend(placeholders);
        types[rules.from].is_evaluated_without_references |=
            references.iter().any(|flow| flow.empty.is_some());
        let mut rule = OutboundRules {
            agent: agents[rules.agent].id,
            from: rules.from,
            when: rules.when.map(|when| resolver.formula(when, kind)).transpose()?,
            names: match rules.dn_candidates {
                None => None,
                Some(written) => {
                    let name = format!("name in {}", agents[rules.agent].name);
                    let first = Source::Expression(rules.dn.clone());
                    Some(resolver.candidates(&name, &first, written, kind)?)
                }
            },
            dn: resolver.formula(rules.dn, kind)?,
            delete_after_s: rules.delete_after_s,
            deprovision: match rules.deprovision {
                Deprovision::Disconnect => DeprovisionRule::Disconnect,
                Deprovision::Delete => DeprovisionRule::Delete,
                Deprovision::Disable(values) => {
                    let values = values.into_iter().map(|(name, value)| {
                        let values = if value.is_empty() { Vec::new() } else { vec![value.into_bytes()] };
                        let attribute = resolver.attribute(&name)?;
                        Ok((attribute, Phase::Unapplied, values))
                    });
                    DeprovisionRule::Disable(values.collect::<Result<_, StoreError>>()?)
                }
            },
            flows: flows(plain, &mut resolver)?,
            initial: flows(rules.initial, &mut resolver)?,
            write_only: resolver.write_only(rules.write_only, kind)?,
            references,
            counts: Vec::new(),
            anchor: agents[rules.agent].anchor.clone(),
            naming,
        };
        rule.counts = resolver.counts.iter().map(|count| count.attribute).collect();
        types[rules.from].add_counts(&resolver.counts);
        outbound.push(rule);
    }
    let inbound: Vec<InboundRules> = inbound.into_iter().map(|(_, rules)| rules).collect();
    for agent in &mut agents {
        let of_agent = outbound.iter().filter(|rules| rules.agent == agent.id);
        let flows = of_agent.flat_map(|rules| rules.flows.iter().chain(&rules.initial));
        agent.written = flows.map(|flow| flow.to).collect();
        agent.written.sort_unstable();
        agent.written.dedup();
        let of_agent = outbound.iter().filter(|rules| rules.agent == agent.id);
        agent.write_only = of_agent.flat_map(|rules| &rules.write_only).map(|rule| rule.to).collect();
        agent.write_only.sort_unstable();
        agent.write_only.dedup();
        agent.joins = agent.inbound.iter().any(|at| !inbound[*at].joins.is_empty());
        agent.unique = unique_attributes(agent.id, &outbound, &inbound, &types);
        agent.is_correlated = agent.joins && outbound.iter().any(|rules| rules.agent == agent.id);
    }
    let is_correlated = agents.iter().any(|agent| agent.is_correlated);
    let systems = comparisons::Comparisons::new();
    let mut rules =
        Rules { systems, types, agents, inbound, outbound, is_correlated, secrets: config.secrets };
    let known = comparisons::known(store, &rules, names, of_agents)?;
    rules.compare_as(known, store, names)?;
    Ok(rules)
}
