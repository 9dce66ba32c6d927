//! Join rules: how a connector space object and a metaverse object are recognized as the same identity.

use super::{AgentRules, FlowSource, Formula, Rules, TypeRules, UNIQUE};
use crate::agent::Names;
use crate::comparison::Comparison;
use crate::config::Secrets;
use crate::expression::Failed;
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::object::AgentId;
use crate::secret::HIDDEN;
use crate::store::{Key, SearchKey, search_value};

/// Values that identify metaverse objects.
#[derive(Debug)]
pub(crate) struct KeyRule {
    pub(crate) rule: u32,
    pub(crate) parts: Vec<FlowSource>,
    /// How the values of each part are compared.
    pub(crate) comparisons: Vec<Comparison>,
}

/// The values of a connector space object that are compared with those of a [`KeyRule`].
#[derive(Debug)]
pub(crate) struct JoinRule {
    pub(crate) cs: Vec<FlowSource>,
    pub(super) mv: Vec<FlowSource>,
    /// The name of the metaverse type.
    pub(super) type_name: String,
    /// What the configuration says; otherwise the systems decide.
    pub(super) ignore_case: Option<bool>,
    pub(crate) rule: u32,
    /// How the values of each part are compared.
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) when: Option<Formula>,
}

/// The attributes of a join rule that is always tried and compares attributes only.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) attributes: Vec<(Attribute, Comparison)>,
}

impl FlowSource {
    fn all(&self, image: &Hologram) -> Result<Vec<Vec<u8>>, Failed> {
        Ok(match self {
            FlowSource::Direct(attribute) => {
                image.get(*attribute).map(|values| values.to_vec()).unwrap_or_default()
            }
            FlowSource::Constant(values) => values.clone(),
            FlowSource::Formula(formula) => formula.evaluate(image)?,
        })
    }

    /// The attribute or expression.
    pub(crate) fn shown<'a>(&'a self, names: &'a Names) -> &'a str {
        match self {
            FlowSource::Direct(attribute) => names.name(*attribute),
            FlowSource::Constant(_) => "",
            FlowSource::Formula(formula) => formula.source(),
        }
    }
}

/// The key of several values.
fn key_of(values: &[Vec<u8>], comparisons: &[Comparison]) -> IndexKey {
    let normalized = values.iter().zip(comparisons).map(|(value, comparison)| comparison.normalized(value));
    let normalized: Vec<_> = normalized.collect();
    IndexKey::of_parts(normalized.iter().map(AsRef::as_ref))
}

/// The comparison of a rule with one part.
fn of_one(comparisons: &[Comparison]) -> Comparison {
    comparisons.first().copied().unwrap_or_default()
}

impl JoinRule {
    /// The attributes that identify an object; none if the rule has a condition or an expression.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let attribute = |(part, comparison): (&FlowSource, &Comparison)| match part {
            FlowSource::Direct(attribute) => Some((*attribute, *comparison)),
            FlowSource::Constant(_) | FlowSource::Formula(_) => None,
        };
        let attributes = self.cs.iter().zip(&self.comparisons).map(attribute).collect::<Option<_>>()?;
        self.when.is_none().then_some(Identity { attributes })
    }

    /// The compared values of the metaverse, in the name of the rule.
    pub(super) fn mv_text(&self, names: &Names) -> String {
        match self.mv.as_slice() {
            [FlowSource::Direct(attribute)] => names.name(*attribute).into(),
            several => {
                let parts: Vec<&str> = several.iter().map(|part| part.shown(names)).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    /// The rule for the keys of metaverse objects.
    pub(super) fn key_rule(&self) -> KeyRule {
        KeyRule { rule: self.rule, parts: self.mv.clone(), comparisons: self.comparisons.clone() }
    }

    /// Whether the rule is used for an object.
    ///
    /// # Errors
    /// When the condition fails.
    pub(crate) fn is_tried(&self, image: &Hologram) -> Result<bool, Failed> {
        self.when.as_ref().map_or(Ok(true), |when| when.holds(image))
    }

    /// The values of an object; none unless each part has exactly one.
    ///
    /// # Errors
    /// When an expression fails.
    pub(crate) fn values(&self, image: &Hologram) -> Result<Option<Vec<Vec<u8>>>, Failed> {
        let mut values = Vec::with_capacity(self.cs.len());
        for part in &self.cs {
            match <[Vec<u8>; 1]>::try_from(part.all(image)?) {
                Ok([value]) => values.push(value),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(values))
    }

    /// The key of an object; none unless each part has exactly one value.
    ///
    /// # Errors
    /// When an expression fails.
    pub(crate) fn key(&self, image: &Hologram) -> Result<Option<Key>, Failed> {
        // Most rules compare one attribute, whose value need not be copied.
        if let [FlowSource::Direct(attribute)] = self.cs.as_slice() {
            let values = image.get(*attribute).filter(|values| values.count() == 1);
            let value = values.and_then(|values| values.iter().next());
            let comparison = of_one(&self.comparisons);
            return Ok(value.map(|value| (self.rule, comparison.key(value))));
        }
        Ok(self.values(image)?.map(|values| (self.rule, key_of(&values, &self.comparisons))))
    }

    /// The values of an object, for messages. Secret values are hidden.
    pub(crate) fn shown_values(&self, names: &Names, secrets: &Secrets, values: &[Vec<u8>]) -> String {
        let shown = self.cs.iter().zip(values).map(|(part, value)| match part {
            FlowSource::Direct(of) if secrets.hides(names.name(*of)) => HIDDEN.into(),
            _ => format!("{:?}", String::from_utf8_lossy(value)),
        });
        shown.collect::<Vec<String>>().join(" and ")
    }

    /// The compared attributes and expressions, for messages.
    pub(crate) fn shown(&self, names: &Names) -> String {
        let parts: Vec<String> = self.cs.iter().map(|part| format!("`{}`", part.shown(names))).collect();
        parts.join(" and ")
    }
}

impl KeyRule {
    /// Adds the keys of an image. A rule of one part has a key for each value; a rule of several parts has
    /// one key, if each part has exactly one value. An expression that fails gives none.
    fn add(&self, image: &Hologram, keys: &mut Vec<Key>) {
        let comparison = of_one(&self.comparisons);
        let key = |value: &[u8]| (self.rule, comparison.key(value));
        match self.parts.as_slice() {
            // Most rules have one attribute, whose values need not be copied.
            [FlowSource::Direct(attribute)] => {
                return keys.extend(image.get(*attribute).iter().flat_map(|values| values.iter()).map(key));
            }
            [part] => {
                return keys.extend(part.all(image).unwrap_or_default().iter().map(|value| key(value)));
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            match part.all(image).map(<[Vec<u8>; 1]>::try_from) {
                Ok(Ok([value])) => values.push(value),
                _ => return,
            }
        }
        keys.push((self.rule, key_of(&values, &self.comparisons)));
    }
}

impl TypeRules {
    /// The join keys of an image.
    pub(crate) fn keys(&self, image: &Hologram) -> Vec<Key> {
        let mut keys = Vec::new();
        self.keys.iter().for_each(|rule| rule.add(image, &mut keys));
        keys
    }
}

impl TypeRules {
    /// The search keys of an image.
    pub(crate) fn search_keys(&self, image: &Hologram) -> Vec<SearchKey> {
        let mut keys: Vec<SearchKey> = Vec::new();
        for attribute in &self.search {
            for value in image.get(*attribute).iter().flat_map(|values| values.iter()) {
                let key = (*attribute, search_value(value));
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }
}

impl AgentRules {
    /// Whether objects that are not connected are found by keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.joins || !self.unique.is_empty()
    }

    /// Whether they are found before their first synchronization.
    pub(crate) fn has_keys_when_new(&self) -> bool {
        self.is_correlated || !self.unique.is_empty()
    }
}

impl Rules {
    /// A text that differs if objects have other search keys; empty if there are none.
    pub(crate) fn search_text(&self, names: &Names) -> String {
        let of_type = |kind: &TypeRules| {
            let attributes: Vec<&str> = kind.search.iter().map(|of| names.name(*of)).collect();
            (!attributes.is_empty()).then(|| format!("{} {}\n", kind.kind, attributes.join(" ")))
        };
        self.types.iter().filter_map(of_type).collect()
    }

    /// The index of the inbound rules with join rules by which metaverse objects find an object of a connector space. None
    /// if the filter excludes it, no rules accept it, or an expression fails.
    pub(crate) fn correlation(&self, agent: AgentId, image: &Hologram) -> Option<usize> {
        let at = self.inbound_for(agent, image).ok()??;
        let inbound = &self.inbound[at];
        let is_filtered =
            inbound.filter.as_ref().is_some_and(|filter| !matches!(filter.holds(image), Ok(false)));
        (!is_filtered && !inbound.joins.is_empty()).then_some(at)
    }

    /// The keys by which metaverse objects find an object of a connector space with an image: the join keys, and
    /// its values that must be unique.
    pub(crate) fn join_keys(&self, agent: AgentId, image: Option<&Hologram>) -> Vec<Key> {
        let Some(image) = image else { return Vec::new() };
        let joins = self.correlation(agent, image).map_or(&[][..], |inbound| &self.inbound[inbound].joins);
        let tried = joins.iter().filter(|join| join.is_tried(image) == Ok(true));
        let mut keys: Vec<Key> = tried.filter_map(|join| join.key(image).ok()?).collect();
        keys.extend(self.unique_keys(agent, image));
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The keys of the values of an object that must be unique.
    pub(crate) fn unique_keys<'a>(
        &'a self,
        agent: AgentId,
        image: &'a Hologram,
    ) -> impl Iterator<Item = Key> + 'a {
        let unique = self.agent(agent).into_iter().flat_map(|agent| &agent.unique);
        unique.flat_map(|(attribute, rule)| {
            let values = image.get(*attribute).into_iter().flat_map(|values| values.iter());
            values.map(|value| (*rule, UNIQUE.key(value)))
        })
    }

    /// The number of a type of the metaverse in these rules.
    pub(crate) fn type_of(&self, kind: u32) -> Option<usize> {
        self.types.iter().position(|rules| rules.kind == kind)
    }

    /// A text that differs if objects have other join keys.
    pub(crate) fn join_text(&self, names: &Names) -> String {
        let mut text = String::new();
        for inbound in &self.inbound {
            let formula = |formula: &Option<Formula>| {
                formula.as_ref().map_or_else(String::new, |formula| formula.source().to_string())
            };
            text.push_str(&format!(
                "{} {} {:?} {:?}\n",
                inbound.agent.0,
                self.types[inbound.to].kind,
                formula(&inbound.objects),
                formula(&inbound.filter)
            ));
            for join in &inbound.joins {
                let when = formula(&join.when);
                text.push_str(&format!("  {} {} {when:?}\n", join.rule, join.shown(names)));
            }
        }
        for agent in &self.agents {
            for (attribute, rule) in &agent.unique {
                text.push_str(&format!("{} unique {rule} {}\n", agent.id.0, attribute.0));
            }
        }
        text
    }
}
