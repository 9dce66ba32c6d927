//! Numbers of references in expressions. References are rows and not a part of a metaverse object. So their number is
//! kept as an attribute of the object, if an expression reads it, and is computed whenever its references are
//! evaluated. A rule that reads a number that was not computed yet is not applied until then.

use super::{AttributeRules, OutboundRules, Rules, TypeRules};
use crate::expression::{Failed, Read};
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::object::AgentId;
use crate::schema::Type;

/// A number of references of a metaverse object that expressions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountRule {
    /// The attribute of the metaverse that has the number.
    pub(crate) attribute: Attribute,
    /// The counted references.
    pub(crate) of: Attribute,
    /// If only references to objects with a connector of an agent count: the agent.
    pub(crate) connected_to: Option<AgentId>,
}

impl CountRule {
    /// The name of the attribute that has the number.
    pub(super) fn name(read: Read, of: &str, agent: &str) -> String {
        let function = read.function();
        match read {
            Read::Connectors => format!("{function}({of}) in {agent}"),
            Read::Values | Read::Count => format!("{function}({of})"),
        }
    }
}

/// A reference that is sent while an object has none.
#[derive(Clone, Debug)]
pub(crate) struct Placeholder {
    pub(crate) value: Vec<u8>,
    pub(crate) target: IndexKey,
}

impl OutboundRules {
    /// Whether a metaverse object is provisioned. None if a number of references is not known yet.
    ///
    /// # Errors
    /// When the condition fails.
    pub(crate) fn is_wanted(&self, image: &Hologram) -> Result<Option<bool>, Failed> {
        if self.counts.iter().any(|count| image.get(*count).is_none()) {
            return Ok(None);
        }
        self.when.as_ref().map_or(Ok(true), |when| when.holds(image)).map(Some)
    }
}

impl TypeRules {
    /// Adds the numbers that outbound rules read. Each is an attribute that no flow gives.
    pub(super) fn add_counts(&mut self, counts: &[CountRule]) {
        for count in counts {
            if self.counts.contains(count) {
                continue;
            }
            self.counts.push(*count);
            self.is_evaluated_without_references = true;
            self.attributes.push(AttributeRules {
                attribute: count.attribute,
                kind: Type::Integer,
                several: false,
                is_secret: false,
                contributors: Vec::new(),
                copied: None,
            });
        }
        self.attributes.sort_by_key(|rules| rules.attribute);
    }
}

impl Rules {
    /// The placeholders that an attribute of an agent has for objects without references.
    pub(crate) fn placeholders(&self, agent: AgentId, attribute: Attribute) -> Vec<IndexKey> {
        let all = self.agent(agent).into_iter().flat_map(|agent| &agent.placeholders);
        all.filter(|(of, _)| *of == attribute).map(|(_, target)| *target).collect()
    }
}
