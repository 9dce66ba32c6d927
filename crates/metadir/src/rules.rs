//! The rules of a configuration with every name resolved, as the engine evaluates them for each object.

mod comparisons;
mod counts;
mod joins;
mod resolve;
mod unique;

pub(crate) use comparisons::{known as known_comparisons, note as comparisons_note};
pub(crate) use counts::{CountRule, Placeholder};
pub(crate) use joins::{Identity, JoinRule, KeyRule};
pub(crate) use resolve::resolve;
pub(crate) use unique::{CandidateRule, UNIQUE};

use crate::config::{Existing, Generator, HIDDEN, Secrets};
use crate::expression::{Expression, Failed, boolean, value_of};
use crate::hologram::{Attribute, Hologram, Opened, ValueList, Values};
use crate::index_key::IndexKey;
use crate::naming::Naming;
use crate::object::{AgentId, CsObject, PendingAttributes, Phase};
use crate::password::Password;
use crate::schema::Type;
use crate::store::LookupKey;

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
    /// Set if the only contributor copies text, as most do.
    pub(crate) copied: Option<CopiedText>,
}

/// A text attribute that one flow copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopiedText {
    /// The index of the rules in `inbound`.
    pub(crate) inbound: usize,
    pub(crate) agent: AgentId,
    /// The attribute of the connector space.
    pub(crate) from: Attribute,
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
    fn value<'a>(&self, at: usize, get: impl Fn(Attribute) -> Option<Values<'a>>) -> Option<cel::Value> {
        let (attribute, of) = self.uses.get(at)?;
        let values = get(*attribute);
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
    fn text<'a>(&self, at: usize, get: impl Fn(Attribute) -> Option<Values<'a>>) -> Option<&'a str> {
        let (attribute, Use::Values(Type::Text | Type::Reference)) = self.uses.get(at)? else { return None };
        let values = get(*attribute).filter(|values| values.count() == 1)?;
        std::str::from_utf8(values.iter().next()?).ok()
    }

    /// The value with a counter; none unless it is one text.
    pub(crate) fn counted(&self, n: u64, image: &Hologram) -> Result<Option<String>, Failed> {
        let get = |attribute| image.get(attribute);
        if let Some(text) = self.expression.text(n, |at| self.text(at, get)) {
            return Ok(Some(text));
        }
        let values = self.expression.evaluate_counted(n, |at| self.value(at, get))?;
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
        self.evaluate_by(|attribute| image.get(attribute))
    }

    /// The same for an opened image, in which attributes are found faster.
    pub(crate) fn evaluate_opened(&self, image: &Opened<'_>) -> Result<Vec<Vec<u8>>, Failed> {
        self.evaluate_by(|attribute| image.get(attribute))
    }

    fn evaluate_by<'a>(
        &self,
        get: impl Fn(Attribute) -> Option<Values<'a>> + Copy,
    ) -> Result<Vec<Vec<u8>>, Failed> {
        if let Some(text) = self.expression.text(0, |at| self.text(at, get)) {
            return Ok(vec![text.into_bytes()]);
        }
        self.expression.evaluate(|at| self.value(at, get))
    }

    pub(crate) fn holds(&self, image: &Hologram) -> Result<bool, Failed> {
        self.expression.holds(|at| self.value(at, |attribute| image.get(attribute)))
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
            FlowSource::Formula(formula) => FlowValues::Made(ValueList::of(&formula.evaluate_opened(image)?)),
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
    pub(crate) fn values(&self, image: &Opened<'_>) -> Result<Vec<Vec<u8>>, Failed> {
        Ok(self.flowing(image)?.values().to_vec())
    }
}

impl AttributeRules {
    /// The rules with what follows from their contributors.
    fn completed(&mut self, inbound: &[InboundRules]) {
        self.copied = match self.contributors.as_slice() {
            [(place, number)] if self.kind == Type::Text => {
                let Some(rules) = inbound.get(*place) else { return };
                rules.flows.get(*number).and_then(|flow| match (&flow.from, &flow.candidates) {
                    (FlowSource::Direct(from), None) => {
                        Some(CopiedText { inbound: *place, agent: rules.agent, from: *from })
                    }
                    _ => None,
                })
            }
            _ => None,
        };
    }

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
