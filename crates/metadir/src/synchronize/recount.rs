//! Numbers of references that expressions read, see [`CountRule`].
//!
//! They are computed when references are evaluated, after all objects of a step. If a number changed, the outbound
//! rules are applied to the metaverse object again. A group that lost its last member is deprovisioned in this way,
//! and is provisioned when it has one again.

use std::collections::BTreeMap;

use super::failed::Failed;
use super::work::Work;
use crate::hologram::{Attribute, Builder, Hologram, Opened};
use crate::object::{CsId, MvId};
use crate::rules::{CountRule, TypeRules};

/// Metaverse objects with changed numbers of references.
pub(crate) type Recounts = BTreeMap<MvId, Recount>;

/// The changed numbers of references of a metaverse object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recount {
    /// A connector, which a failure is reported for.
    pub(super) connector: CsId,
    pub(super) counted: Vec<(Attribute, u64)>,
}

impl Recount {
    /// Computes the numbers of an object; none if all are as before.
    pub(super) fn of(
        kind: &TypeRules,
        image: &Hologram,
        connector: CsId,
        count: impl Fn(&CountRule) -> u64,
    ) -> Option<Recount> {
        let counted: Vec<(Attribute, u64)> =
            kind.counts.iter().map(|rule| (rule.attribute, count(rule))).collect();
        let is_same = |(attribute, count): &(Attribute, u64)| {
            image.first(*attribute) == Some(count.to_string().as_bytes())
        };
        (!counted.iter().all(is_same)).then_some(Recount { connector, counted })
    }

    /// The image of the object with the numbers.
    fn applied_to(&self, image: &Hologram) -> Hologram {
        let texts: BTreeMap<Attribute, String> =
            self.counted.iter().map(|(attribute, count)| (*attribute, count.to_string())).collect();
        let mut attributes: Vec<Attribute> = image.iter().map(|(attribute, _)| attribute).collect();
        attributes.extend(texts.keys());
        attributes.sort_unstable();
        attributes.dedup();
        let (mut builder, opened) = (Builder::default(), Opened::of(image));
        for attribute in attributes {
            match (texts.get(&attribute), opened.get(attribute)) {
                (Some(text), _) => builder.push(attribute, text.as_bytes()),
                (None, Some(values)) => builder.push_values(attribute, values),
                (None, None) => {}
            }
        }
        builder.finish()
    }
}

impl Work<'_> {
    /// Applies the outbound rules to the metaverse object of a connector with new numbers of references. Returns false
    /// if something would be deleted and deletions are deferred.
    pub(super) fn recount(&mut self, id: CsId, counted: &Recounts, may_leave: bool) -> Result<bool, Failed> {
        let mv = self.css.get(&id).and_then(|cs| cs.object.as_ref()?.connected_to());
        let Some((mv, recount)) = mv.and_then(|mv| Some((mv, counted.get(&mv)?))) else { return Ok(true) };
        let Some(held) = self.mv_mut(mv) else { return Ok(true) };
        let Some(object) = &mut held.object else { return Ok(true) };
        object.image = recount.applied_to(&object.image);
        held.is_changed = true;
        self.provision(mv, may_leave)
    }
}
