//! Undoing what factors changed: at the end of a trial, when a trial fails or panics, and after a kill.

use std::cell::RefCell;

use record::{Journal, JournalPlace, Pending, RecordError};

use crate::factor::{Factor, Undo};
use crate::source::Unavailable;

/// Carries out one step back; what `factors` offers.
pub type CarryOut = fn(&Undo) -> Result<(), Unavailable>;

/// A change in force. Dropping it undoes it, whatever ended the trial.
pub(crate) struct Turned<'a> {
    journal: &'a RefCell<Journal>,
    carry_out: CarryOut,
    /// Journal numbers and steps, in the order the changes were made.
    made: Vec<(u64, Vec<Undo>)>,
    /// What could not be undone.
    failures: Vec<String>,
}

impl<'a> Turned<'a> {
    pub(crate) fn new(journal: &'a RefCell<Journal>, carry_out: CarryOut) -> Self {
        Turned { journal, carry_out, made: Vec::new(), failures: Vec::new() }
    }

    /// Journals how to undo, synced, so that the factor may be set to this level.
    pub(crate) fn announce(
        &mut self,
        path: &str,
        factor: &dyn Factor,
        level: &model::Level,
    ) -> Result<(), String> {
        self.announce_steps(path, factor.undo(level).map_err(|why| why.0)?)
    }

    /// Journals steps back, synced, so that what they undo may be done.
    pub(crate) fn announce_steps(&mut self, what: &str, steps: Vec<Undo>) -> Result<(), String> {
        if steps.is_empty() {
            return Ok(());
        }
        let pending = self.journal.borrow_mut().pending(what, &steps);
        self.made.push((pending.map_err(|error| error.to_string())?, steps));
        Ok(())
    }

    /// Undoes everything, the latest first; what could not be undone stays in the journal for `plimsoll restore`.
    pub(crate) fn undo(&mut self) -> Vec<String> {
        while let Some((id, steps)) = self.made.pop() {
            match undo_all(&steps, self.carry_out) {
                Ok(()) => {
                    if let Err(error) = self.journal.borrow_mut().undone(id) {
                        self.failures.push(error.to_string());
                    }
                }
                Err(why) => self.failures.push(why),
            }
        }
        std::mem::take(&mut self.failures)
    }
}

impl Drop for Turned<'_> {
    fn drop(&mut self) {
        self.undo();
    }
}

fn undo_all(steps: &[Undo], carry_out: CarryOut) -> Result<(), String> {
    let failures: Vec<String> =
        steps.iter().filter_map(|step| carry_out(step).err()).map(|why| why.0).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// What to do with the changes that a run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restoring {
    /// Undo them.
    Undo,
    /// Only say what would be done.
    DryRun,
    /// Forget those that cannot be undone, because a person saw to them.
    Discard,
}

/// What became of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was undone.
    Undone,
    /// It would be undone.
    Planned,
    /// The host was started again since: there is nothing left of it.
    EndedWithTheBoot,
    /// It was made on this other host.
    OtherHost(String),
    /// It could not be undone, and why.
    Failed(String),
    /// It could not be undone and was forgotten, as requested.
    Discarded(String),
}

/// One change that a run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The factor that made it.
    pub factor: String,
    /// The steps that undo it, in order.
    pub steps: Vec<Undo>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Undoes what a killed run left changed, the latest change first. Doing it twice does no harm.
///
/// # Errors
/// When the journal cannot be read or written.
pub fn restore(
    journal: &mut Journal,
    how: Restoring,
    carry_out: CarryOut,
) -> Result<Vec<Restored>, RecordError> {
    let pending: Vec<Pending<Vec<Undo>>> = journal.read_pending()?;
    let place = journal.place();
    let mut restored = Vec::new();
    for Pending { id, factor, undo: steps } in pending {
        let due: Vec<Undo> = match place {
            JournalPlace::EarlierBoot => {
                steps.iter().filter(|step| !step.ends_with_the_boot()).cloned().collect()
            }
            _ => steps.clone(),
        };
        let outcome = match (&place, how) {
            (JournalPlace::OtherHost(host), _) => Outcome::OtherHost(host.clone()),
            (_, Restoring::DryRun) if due.is_empty() => Outcome::EndedWithTheBoot,
            (_, Restoring::DryRun) => Outcome::Planned,
            (_, Restoring::Undo | Restoring::Discard) => match undo_all(&due, carry_out) {
                Ok(()) if due.is_empty() => Outcome::EndedWithTheBoot,
                Ok(()) => Outcome::Undone,
                Err(why) if how == Restoring::Discard => Outcome::Discarded(why),
                Err(why) => Outcome::Failed(why),
            },
        };
        if how != Restoring::DryRun && !matches!(outcome, Outcome::Failed(_) | Outcome::OtherHost(_)) {
            journal.undone(id)?;
        }
        restored.push(Restored { factor, steps, outcome });
    }
    Ok(restored)
}
