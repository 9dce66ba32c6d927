//! What a step has done so far, for a thread that shows it while the step runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::statistics::Statistics;
use crate::store::ObjectError;

/// Limit of the error groups that are kept: errors of further groups are only counted.
const GROUPS_MAX: usize = 1000;

/// Equal errors of the objects of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedErrors {
    /// The number of errors.
    pub count: u64,
    /// The first of them. Its text lacks what differs between objects.
    pub example: ObjectError,
}

/// What a step has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepSoFar {
    /// The counters, by name, after the last batch.
    pub counters: Vec<(&'static str, u64)>,
    /// The errors in groups of equal ones, in the order of their first occurrence.
    pub errors: Vec<ObservedErrors>,
    /// Errors of further groups.
    pub more_errors: u64,
}

#[derive(Debug, Default)]
struct Observed {
    so_far: StepSoFar,
    /// The places of the groups by kind, attribute and common text.
    places: HashMap<GroupKey, usize>,
}

/// Receives what a step does, batch by batch. Clones share it. The default receives nothing.
#[derive(Clone, Debug, Default)]
pub struct Observer(Option<Arc<Mutex<Observed>>>);

impl Observer {
    /// An observer that receives what steps do.
    pub fn new() -> Observer {
        Observer(Some(Arc::default()))
    }

    /// What the step has done so far.
    pub fn so_far(&self) -> StepSoFar {
        self.observed().map(|observed| observed.so_far.clone()).unwrap_or_default()
    }

    /// Forgets what the step before did.
    pub(crate) fn begin(&self) {
        if let Some(mut observed) = self.observed() {
            *observed = Observed::default();
        }
    }

    pub(crate) fn counted(&self, statistics: &Statistics) {
        if let Some(mut observed) = self.observed() {
            observed.so_far.counters = statistics.iter().collect();
        }
    }

    /// An object failed. The error is made only if someone observes.
    pub(crate) fn failed(&self, error: impl FnOnce() -> ObjectError) {
        let Some(mut observed) = self.observed() else { return };
        let error = error();
        let Observed { so_far, places } = &mut *observed;
        let key = group_of(&error);
        let known = places.get(&key).copied();
        if let Some(group) = known.and_then(|place| so_far.errors.get_mut(place)) {
            group.count += 1;
        } else if so_far.errors.len() >= GROUPS_MAX {
            so_far.more_errors += 1;
        } else {
            let example = ObjectError { text: key.2.clone(), ..error };
            places.insert(key, so_far.errors.len());
            so_far.errors.push(ObservedErrors { count: 1, example });
        }
    }

    fn observed(&self) -> Option<MutexGuard<'_, Observed>> {
        self.0.as_ref().map(|observed| observed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is equal in the errors of a group: the kind, the attribute, and the text without names.
pub(crate) type GroupKey = (String, Option<String>, String);

/// The group that an error belongs to.
pub(crate) fn group_of(error: &ObjectError) -> GroupKey {
    (error.kind.to_string(), error.attribute.clone(), common(&error.text))
}

/// A text without what differs between objects: quoted values, and the name after `of`.
pub(crate) fn common(text: &str) -> String {
    let mut parts = text.split('"');
    let mut short = parts.next().unwrap_or_default().to_string();
    while let Some(_quoted) = parts.next() {
        short.push_str("\"...\"");
        short.push_str(parts.next().unwrap_or_default());
    }
    match short.split_once(" of ").and_then(|(operation, rest)| Some((operation, rest.split_once(": ")?))) {
        Some((operation, (name, rest))) if name.contains('=') => format!("{operation}: {rest}"),
        _ => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_errors_are_counted_together_and_groups_have_a_limit() {
        let observer = Observer::new();
        let error = |object: &str, text: &str| ObjectError {
            object: object.into(),
            kind: "export-failure".into(),
            attribute: None,
            text: text.into(),
        };
        observer.failed(|| error("cn=a", "modify of cn=a,dc=x: busy (51)"));
        observer.failed(|| error("cn=b", "modify of cn=b,dc=x: busy (51)"));
        for at in 0..GROUPS_MAX + 4 {
            observer.failed(|| error("cn=c", &format!("error {at}")));
        }
        let so_far = observer.so_far();
        assert_eq!((so_far.errors.len(), so_far.more_errors), (GROUPS_MAX, 5));
        let first = &so_far.errors[0];
        let example = error("cn=a", "modify: busy (51)");
        assert_eq!((first.count, &first.example), (2, &example));
        observer.begin();
        assert_eq!(observer.so_far(), StepSoFar::default());
        Observer::default().failed(|| error("cn=a", "nobody sees it"));
    }
}
