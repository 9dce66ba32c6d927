//! Adds that meet an existing object in the connected system.
//!
//! An agent does not change an object that exists before it is added: it reports it. Here is decided what
//! happens. An object that already has all values of the add is taken as added: the answer to an earlier
//! request was lost. Another one is changed only if the configuration says so, and only if a join rule says
//! that it is the same identity.

use crate::agent::{Agent, AgentError, ExportedObject, Names, Refused};
use crate::config::Existing;
use crate::hologram::{Attribute, Hologram};
use crate::object::{Change, PendingAttributes};
use crate::rules::{AgentRules, Identity};
use crate::secret;

/// The answers to changes, and which of them are only reported.
#[derive(Default)]
pub(crate) struct Answered {
    pub(crate) answers: Vec<Result<(), Refused>>,
    pub(crate) reported: Vec<usize>,
    /// Refused changes whose unique values other objects have.
    pub(crate) conflicts: Vec<usize>,
    /// The existing objects that were adopted, as they were before.
    pub(crate) adopted: Vec<(usize, Hologram)>,
    /// Accepted changes of objects that existed before, whose write-only values were not set.
    pub(crate) kept: Vec<usize>,
    /// Accepted changes whose generated passwords were not delivered, and why.
    pub(crate) undelivered: Vec<(usize, String)>,
}

/// Whether two values are the same for most attributes of a directory.
fn is_like(one: &[u8], other: &[u8]) -> bool {
    match (std::str::from_utf8(one), std::str::from_utf8(other)) {
        (Ok(one), Ok(other)) => one.to_lowercase() == other.to_lowercase(),
        _ => one == other,
    }
}

fn are_same(wanted: &[Vec<u8>], there: &[Vec<u8>]) -> bool {
    wanted.len() == there.len() && wanted.iter().all(|value| there.iter().any(|other| is_like(value, other)))
}

/// The values of an existing object.
fn there(image: &Hologram, attribute: Attribute) -> Vec<Vec<u8>> {
    image.get(attribute).map(|values| values.to_vec()).unwrap_or_default()
}

impl Identity {
    /// Whether an existing object has the values that an add would set in the attributes of a join rule.
    fn is_it(&self, wanted: impl Fn(Attribute) -> Vec<Vec<u8>>, image: &Hologram) -> bool {
        self.attributes.iter().all(|(attribute, comparison)| {
            match (wanted(*attribute).as_slice(), there(image, *attribute).as_slice()) {
                ([one], [other]) => comparison.is_same(one, other),
                _ => false,
            }
        })
    }
}

/// Whether an imported object is the one that is pending to be added: a join rule says so, or it has all its
/// values.
pub(crate) fn is_pending(
    space: &AgentRules,
    names: &Names,
    pending: &PendingAttributes,
    image: &Hologram,
) -> bool {
    let wanted = |attribute| pending.get(attribute).map(|of| of.values.to_vec()).unwrap_or_default();
    let of_object = |attribute: &Attribute| {
        !space.references.contains(attribute) && !space.secrets.is_never_shown(names.name(*attribute))
    };
    space.identities.iter().any(|identity| identity.is_it(wanted, image))
        || pending
            .iter()
            .filter(|of| of_object(&of.attribute))
            .all(|of| are_same(&of.values.to_vec(), &there(image, of.attribute)))
}

/// Decides about the adds of a call that met existing objects. Those that are adopted are sent again, without
/// write-only values. `due` has the changes, in ascending order, whose write-only values are to be set if an earlier
/// request added the object: it may have set others, which nobody knows.
///
/// # Errors
/// When the system cannot be reached any more.
pub(crate) fn settle(
    agent: &mut dyn Agent,
    space: &AgentRules,
    names: &Names,
    changes: &[ExportedObject],
    due: &[usize],
    mut answers: Vec<Result<(), Refused>>,
) -> Result<Answered, AgentError> {
    let conflicts = agent.conflicts();
    let mut reported = Vec::new();
    let (mut adopted, mut changed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let of_write_only = |change: &ExportedObject| {
        change.attributes.iter().any(|(attribute, _)| space.is_write_only(*attribute))
    };
    for (at, image) in agent.existing() {
        let (Some(change), Some(answer)) = (changes.get(at), answers.get_mut(at)) else { continue };
        let wanted = |attribute: Attribute| {
            let found = change.attributes.iter().find(|(of, _)| *of == attribute);
            found.map(|(_, values)| values.clone()).unwrap_or_default()
        };
        let differs = |(attribute, values): &&(Attribute, Vec<Vec<u8>>)| {
            !space.secrets.is_never_shown(names.name(*attribute))
                && !are_same(values, &there(&image, *attribute))
        };
        let Some((attribute, _)) = change.attributes.iter().find(differs) else {
            *answer = Ok(());
            if due.binary_search(&at).is_ok() && of_write_only(change) {
                let mut attributes = change.attributes.clone();
                attributes.retain(|(attribute, _)| space.is_write_only(*attribute));
                let change = ExportedObject { change: Change::Update, attributes, image, ..change.clone() };
                adopted.push((at, change.image.clone()));
                changed.push(ExportedObject { changed_values: Vec::new(), ..change });
            } else {
                kept.push(at);
            }
            continue;
        };
        let is_same_identity = space.identities.iter().any(|identity| identity.is_it(wanted, &image));
        if is_same_identity && space.existing == Existing::Adopt {
            let mut change = ExportedObject { adopts: true, ..change.clone() };
            change.attributes.retain(|(attribute, _)| !space.is_write_only(*attribute));
            adopted.push((at, image));
            changed.push(change);
            kept.push(at);
            continue;
        }
        if space.existing == Existing::Report {
            reported.push(at);
        }
        let name = &space.name;
        let help = match (is_same_identity, space.existing) {
            (true, _) => format!(
                "a join rule says that it is the same: run {name} full-import and {name} delta-synchronization, \
                 or set existing = \"adopt\" in [agents.{name}]"
            ),
            (false, Existing::Adopt) => {
                format!("no join rule of {name} says that it is the same: it is not adopted")
            }
            (false, _) => format!("no join rule of {name} says that it is the same"),
        };
        let is_secret = space.secrets.hides(names.name(*attribute));
        let shown = |values: &[Vec<u8>]| -> String {
            let all: Vec<String> = values.iter().map(|value| secret::shown(is_secret, value)).collect();
            all.join(", ")
        };
        *answer = Err(Refused(format!(
            "{:?} exists already and is not changed: its `{}` is {:?}, not {:?}; {help}",
            change.dn,
            names.name(*attribute),
            shown(&there(&image, *attribute)),
            shown(&wanted(*attribute)),
        )));
    }
    if !changed.is_empty() {
        for ((at, _), answer) in adopted.iter().zip(agent.export(&changed)?) {
            answers[*at] = answer;
        }
    }
    Ok(Answered { answers, reported, conflicts, adopted, kept, undelivered: Vec::new() })
}
