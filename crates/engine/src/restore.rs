//! Undoing what factors changed: at the end of a trial, when a trial fails or panics, and after a kill. And what workloads
//! made: what of it remains after a kill, and its removal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::{Journal, JournalPlace, Made, Pending, PendingMade, RecordError};

use crate::factor::{Factor, Undo};
use crate::source::Unavailable;
use crate::workload::{Announce, LoadError, Remains, WorkloadKind};

/// The journal of a run, for all that announces something in it.
#[derive(Clone, Debug)]
pub struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    /// Of a journal that this run holds.
    pub fn new(journal: Journal) -> Self {
        SharedJournal(Arc::new(Mutex::new(journal)))
    }

    /// Ends it: see [`Journal::complete`].
    ///
    /// # Errors
    /// As there.
    pub fn complete(&self) -> Result<(), RecordError> {
        self.lock().complete()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Journal> {
        // Between any two statements that could panic it says what is in the file.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where workloads of a kind announce what they make.
    pub(crate) fn announcements(&self, workload: &str) -> Arc<dyn Announce> {
        Arc::new(Announcements { journal: self.clone(), workload: workload.into() })
    }
}

struct Announcements {
    journal: SharedJournal,
    workload: String,
}

impl Announce for Announcements {
    fn announce(&self, made: &Made) -> Result<(), LoadError> {
        self.journal.lock().announce_made(&self.workload, made).map_err(|error| {
            let what = format!("`{}` was not written: {error}", made.path.display());
            LoadError::new(what, "a file is announced in the journal of the run before it is written")
        })
    }
}

/// Carries out one step back; what `factors` offers.
pub type CarryOut = fn(&Undo) -> Result<(), Unavailable>;

/// A change in force. Dropping it undoes it, whatever ended the trial.
pub(crate) struct Turned<'a> {
    journal: &'a SharedJournal,
    carry_out: CarryOut,
    /// Journal numbers and steps, in the order the changes were made.
    made: Vec<(u64, Vec<Undo>)>,
    /// What could not be undone.
    failures: Vec<String>,
}

impl<'a> Turned<'a> {
    pub(crate) fn new(journal: &'a SharedJournal, carry_out: CarryOut) -> Self {
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
        let pending = self.journal.lock().pending(what, &steps);
        self.made.push((pending.map_err(|error| error.to_string())?, steps));
        Ok(())
    }

    /// Undoes everything, the latest first; what could not be undone stays in the journal for `plimsoll restore`.
    pub(crate) fn undo(&mut self) -> Vec<String> {
        while let Some((id, steps)) = self.made.pop() {
            match undo_all(&steps, self.carry_out) {
                Ok(()) => {
                    if let Err(error) = self.journal.lock().cross_off(id) {
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
            journal.cross_off(id)?;
        }
        restored.push(Restored { factor, steps, outcome });
    }
    Ok(restored)
}

/// What to do with the files that a run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removing {
    /// Say what is there.
    Report,
    /// Say what would be removed.
    DryRun,
    /// Remove what is as it was made.
    Remove,
    /// Forget what is not removed, because a person saw to it.
    Discard,
}

/// A file or folder that a run made and that is in its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFile {
    /// The kind of workload that made it.
    pub workload: String,
    /// What was made.
    pub made: Made,
    /// What there is of it.
    pub remains: FileRemains,
}

/// What there is of a file that a run made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRemains {
    /// This, on this host.
    Here(Remains),
    /// It was made on this other host.
    OtherHost(String),
    /// It was not removed for this reason, and forgotten as requested.
    Discarded(String),
}

/// What is there of the files that a killed run made, the latest first, and removes it where that is requested. What is not
/// there any more is crossed off and not mentioned.
///
/// # Errors
/// When the journal cannot be read or written.
pub fn left_files(
    journal: &mut Journal,
    kinds: &[&dyn WorkloadKind],
    how: Removing,
) -> Result<Vec<LeftFile>, RecordError> {
    let place = journal.place();
    let mut left = Vec::new();
    for PendingMade { id, workload, made } in journal.read_made()?.into_iter().rev() {
        if let JournalPlace::OtherHost(host) = &place {
            let remains = FileRemains::OtherHost(host.clone());
            left.push(LeftFile { workload, made, remains });
            continue;
        }
        let remains = remains(kinds, &workload, &made, how == Removing::Remove);
        let is_over =
            matches!(remains, Remains::Nothing | Remains::Replaced | Remains::Kept | Remains::Removed(_));
        let remains = match remains {
            Remains::NotRemovable(why) if how == Removing::Discard => FileRemains::Discarded(why),
            remains => FileRemains::Here(remains),
        };
        if how != Removing::DryRun && (is_over || matches!(remains, FileRemains::Discarded(_))) {
            journal.cross_off(id)?;
        }
        if remains != FileRemains::Here(Remains::Nothing) {
            left.push(LeftFile { workload, made, remains });
        }
    }
    Ok(left)
}

/// Removes, at the end of a run, what it announced and was not to keep and its workloads have not removed: what an earlier
/// process of it had made. What is to be kept is the user's from now on. Returns why something is left.
pub(crate) fn end_made(
    journal: &SharedJournal,
    kinds: &[&dyn WorkloadKind],
) -> Result<Vec<String>, RecordError> {
    let mut journal = journal.lock();
    let mut left = Vec::new();
    for PendingMade { id, workload, made } in journal.read_made()?.into_iter().rev() {
        match if made.keep { Remains::Kept } else { remains(kinds, &workload, &made, true) } {
            Remains::NotRemovable(why) => {
                left.push(format!("`{}` is not removed: {why}", made.path.display()))
            }
            Remains::Removable(_) | Remains::InUse => {}
            Remains::Nothing | Remains::Replaced | Remains::Kept | Remains::Removed(_) => {
                journal.cross_off(id)?;
            }
        }
    }
    Ok(left)
}

fn remains(kinds: &[&dyn WorkloadKind], workload: &str, made: &Made, remove: bool) -> Remains {
    match kinds.iter().find(|kind| kind.info().name == workload) {
        Some(kind) => kind.remains(made, remove),
        None => Remains::NotRemovable(format!("this version has no workload `{workload}`")),
    }
}
