//! The results of a batch: refusals, and the trail of accepted changes.

use std::collections::HashSet;

use super::{REFUSALS_KEPT, Sender, changes_of};
use crate::agent::{ExportedObject, Refused};
use crate::hologram::{Attribute, Hologram, Values};
use crate::index_key::IndexKey;
use crate::object::{Change, CsId, CsObject, Phase, Reference};
use crate::store::{Failure, FailureKind, ObjectError, Write};
use crate::trail::{LoggedReferences, Recorder, Subject};

/// A change that the system refused.
pub(super) struct Refusal {
    pub(super) id: CsId,
    object: String,
    counter: &'static str,
    attribute: Option<Attribute>,
    text: String,
}

impl Sender<'_> {
    /// Records that the system refused a change.
    pub(super) fn refuse(
        &mut self,
        object: &CsObject,
        refused: Refused,
        counter: &'static str,
        change: Option<&ExportedObject>,
        writes: &mut Vec<Write>,
    ) {
        let refusal = self.refusal(object, refused, counter, change);
        self.record_refusal(refusal, writes);
    }

    pub(super) fn refusal(
        &self,
        object: &CsObject,
        refused: Refused,
        counter: &'static str,
        change: Option<&ExportedObject>,
    ) -> Refusal {
        let attribute = change.and_then(|change| self.named(&refused.0, change));
        Refusal { id: object.id, object: object.dn.clone(), counter, attribute, text: refused.0 }
    }

    pub(super) fn record_refusal(&mut self, refusal: Refusal, writes: &mut Vec<Write>) {
        let Refusal { id, object, counter, attribute, text } = refusal;
        self.done.statistics.count(counter);
        let error = || ObjectError {
            object: object.clone(),
            kind: counter.into(),
            attribute: attribute.map(|attribute| self.names.name(attribute).into()),
            text: text.clone(),
        };
        self.done.observer.failed(error);
        if self.done.refused.len() < REFUSALS_KEPT {
            self.done.refused.push(error());
        }
        let why = Failure { kind: FailureKind::Export, attribute, text };
        writes.push(Write::Failure { id, why: Some(why) });
    }

    /// The changed attribute that a refusal names: at its beginning or in quotation marks.
    fn named(&self, text: &str, change: &ExportedObject) -> Option<Attribute> {
        let changed = change.attributes.iter().map(|(attribute, _)| *attribute);
        let mut changed = changed.chain(change.changed_values.iter().map(|of| of.attribute));
        changed.find(|attribute| {
            let name = self.names.name(*attribute);
            !name.is_empty()
                && text.match_indices(name).any(|(at, _)| {
                    let before = text[..at].chars().next_back();
                    let after = text[at + name.len()..].chars().next();
                    let is_quoted = |mark: Option<char>| matches!(mark, Some('\'' | '"' | '`'));
                    is_quoted(before) && is_quoted(after)
                        || before.is_none_or(char::is_whitespace) && after == Some(':')
                })
        })
    }

    /// Adds an accepted change to the trail.
    pub(super) fn record(
        &self,
        recorder: &mut Recorder,
        object: &CsObject,
        of: &[Reference],
        change: &ExportedObject,
        adopted: Option<&Hologram>,
        missing: &HashSet<IndexKey>,
    ) {
        // A temporary name is no name to return to.
        let dn = if object.is_temporarily_named() { &object.dn } else { &change.dn };
        let called = match dn.is_empty() {
            true => self.space.anchor_text(object),
            false => dn.clone(),
        };
        let subject = Subject {
            id: object.id,
            change: if adopted.is_some() { Change::Update } else { change.change },
            anchor: object.anchor,
            dn,
            called: &called,
            new_dn: change.new_dn.as_deref(),
        };
        let references = |is_deleted: bool| {
            of.chunk_by(|one, other| one.attribute == other.attribute).filter_map(move |of| {
                let attribute = of.first()?.attribute;
                let there = of.iter().filter(|of| of.is_imported).map(|of| of.value.clone());
                let (added, removed) = match is_deleted {
                    true => (Vec::new(), there.collect()),
                    false => changes_of(of, missing).map(|of| (of.added, of.removed))?,
                };
                Some(LoggedReferences { attribute, added, removed })
            })
        };
        let secret = &self.secret;
        if change.change == Change::Delete {
            let image = object.image().or(object.synchronized.as_ref());
            let is_value =
                |(attribute, _): &(Attribute, Values<'_>)| !self.space.references.contains(attribute);
            let old = image.into_iter().flat_map(Hologram::iter).filter(is_value);
            let old = old.map(|(attribute, _)| (attribute, Values::NONE));
            recorder.add(&subject, old, image, &references(true).collect::<Vec<_>>(), secret);
            return;
        }
        let none = Hologram::default();
        let old = match (adopted, change.change) {
            (Some(image), _) => Some(image),
            (None, Change::Add) => Some(&none),
            (None, _) => object.image(),
        };
        let pending = object.pending_export.iter().flat_map(|export| export.attributes.iter());
        let sent = pending.filter(|of| of.phase == Phase::Unapplied).map(|of| (of.attribute, of.values));
        recorder.add(&subject, sent, old, &references(false).collect::<Vec<_>>(), secret);
    }
}
