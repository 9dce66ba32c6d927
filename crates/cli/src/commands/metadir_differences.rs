//! The changes that a preview reports, collected for display.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use metadir::preview::{Difference, Place};
use serde_json::json;

/// Changes that a preview prints when no file is named.
const CHANGES_PRINTED: usize = 20;
/// How many of each sort it prints when there are more.
const PRINTED_OF_A_SORT: usize = 2;

/// The state shared with the thread that receives the changes of a preview.
pub(crate) fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The collected changes of a preview.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) count: u64,
    /// The first changes, if there is no output file.
    pub(crate) first: Vec<Difference>,
    /// The first changes of each kind, and their number.
    sorts: Vec<(Vec<Difference>, u64)>,
    pub(crate) file: Option<std::io::BufWriter<files::Output>>,
    error: Option<std::io::Error>,
}

impl Changes {
    pub(crate) fn take_up(&mut self, change: Difference, as_json: bool) {
        self.count += 1;
        match &mut self.file {
            Some(file) if self.error.is_none() => {
                let written = match as_json {
                    true => writeln!(file, "{}", change_json(&change)),
                    false => writeln!(file, "{change}"),
                };
                self.error = written.err();
            }
            Some(_) => {}
            None => {
                let known = self
                    .sorts
                    .iter_mut()
                    .find(|(first, _)| first.first().map(sort_of) == Some(sort_of(&change)));
                match known {
                    Some((first, count)) => {
                        *count += 1;
                        if first.len() < PRINTED_OF_A_SORT {
                            first.push(change.clone());
                        }
                    }
                    None => self.sorts.push((vec![change.clone()], 1)),
                }
                if self.first.len() < CHANGES_PRINTED {
                    self.first.push(change);
                }
            }
        }
    }

    pub(crate) fn are_all_kept(&self) -> bool {
        self.first.len() as u64 == self.count
    }

    /// All changes if they are few, otherwise the first of each sort.
    pub(crate) fn shown(&self) -> String {
        match self.are_all_kept() {
            true => self.first.iter().map(|change| format!("{change}\n")).collect(),
            false => self.of_each_sort(),
        }
    }

    /// The first of each sort, and how many more there are.
    fn of_each_sort(&self) -> String {
        let mut text = String::new();
        for (first, count) in &self.sorts {
            for change in first {
                text += &format!("{change}\n");
            }
            let more = count.saturating_sub(first.len() as u64);
            if let Some(change) = first.first().filter(|_| more > 0) {
                let (place, of, what) = sort_of(change);
                text += &format!("{place} {of}: {what}, {} more\n", model::quantity::thousands(more as f64));
            }
        }
        text
    }

    /// Writes what is left, and puts the file in its place.
    pub(crate) fn end(&mut self) -> std::io::Result<()> {
        match (self.error.take(), self.file.take()) {
            (Some(error), _) => Err(error),
            (None, Some(file)) => file.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish(),
            (None, None) => Ok(()),
        }
    }
}

/// The location, the object type and the kind of a change.
fn sort_of(change: &Difference) -> (&'static str, &str, &'static str) {
    let (place, of) = match &change.place {
        Place::Staged(agent) => ("import", agent),
        Place::Metaverse(kind) => ("metaverse", kind),
        Place::Exported(agent) => ("export", agent),
    };
    (place, of, change.change.name())
}

pub(crate) fn change_json(change: &Difference) -> serde_json::Value {
    let (place, of, what) = sort_of(change);
    let attributes: Vec<_> = change
        .attributes
        .iter()
        .map(|(name, old, new)| json!({ "attribute": name, "old": old, "new": new }))
        .collect();
    json!({ "place": place, "of": of, "change": what, "object": change.object, "attributes": attributes })
}
