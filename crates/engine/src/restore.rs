//! Undoes the changes of factors: at the end of a trial, when a trial fails or panics, and after a kill. Also
//! finds and removes files that workloads created and a kill left.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::{Journal, JournalPlace, Made, Pending, PendingMade, RecordError};

use crate::factor::{Factor, Undo};
use crate::source::Unavailable;
use crate::workload::{Announce, LoadError, Remains, WorkloadKind};

/// The journal of a run, shared by all code that records entries in it.
#[derive(Clone, Debug)]
pub struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    /// Shares a journal that this run has locked.
    pub fn new(journal: Journal) -> Self {
        SharedJournal(Arc::new(Mutex::new(journal)))
    }

    /// Ends the journal: see [`Journal::complete`].
    ///
    /// # Errors
    /// As in [`Journal::complete`].
    pub fn complete(&self) -> Result<(), RecordError> {
        self.lock().complete()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Journal> {
        // The journal equals its file between any two statements that could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where workloads of a kind record the files that they create.
    pub fn announcements(&self, workload: &str) -> Arc<dyn Announce> {
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
            LoadError::new(what, "Plimsoll enters a file in the journal of the run before it writes the file")
        })
    }
}

/// Executes one undo step; provided by `factors`.
pub type CarryOut = fn(&Undo) -> Result<(), Unavailable>;

/// Why an undo step has nothing left to undo, and none if it has; provided by `factors`. Changes nothing.
pub type NothingLeft = fn(&Undo) -> Option<String>;

/// Changes in effect. Dropping them undoes them, however the trial ended.
pub struct AppliedChanges {
    journal: SharedJournal,
    carry_out: CarryOut,
    /// Journal numbers and undo steps, in the order of the changes.
    made: Vec<(u64, Vec<Undo>)>,
    /// Changes that could not be undone.
    failures: Vec<String>,
}

impl AppliedChanges {
    /// None yet; they will be in this journal.
    pub fn new(journal: &SharedJournal, carry_out: CarryOut) -> Self {
        AppliedChanges { journal: journal.clone(), carry_out, made: Vec::new(), failures: Vec::new() }
    }

    /// Journals and syncs the undo steps of a factor, before it is set to this level.
    ///
    /// # Errors
    /// When the journal cannot be written: the factor must not be set then.
    pub fn announce(&mut self, path: &str, factor: &dyn Factor, level: &model::Level) -> Result<(), String> {
        self.announce_steps(path, factor.undo(level).map_err(|why| why.0)?)
    }

    /// Journals and syncs undo steps, before the change is made.
    pub(crate) fn announce_steps(&mut self, what: &str, steps: Vec<Undo>) -> Result<(), String> {
        if steps.is_empty() {
            return Ok(());
        }
        let pending = self.journal.lock().pending(what, &steps);
        self.made.push((pending.map_err(|error| error.to_string())?, steps));
        Ok(())
    }

    /// Undoes everything, latest change first. Failed steps remain in the journal for `plimsoll restore`. Returns what failed.
    pub fn undo(&mut self) -> Vec<String> {
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

impl Drop for AppliedChanges {
    fn drop(&mut self) {
        self.undo();
    }
}

fn undo_all(steps: &[Undo], carry_out: CarryOut) -> Result<(), String> {
    let failures: Vec<String> =
        steps.iter().filter_map(|step| carry_out(step).err()).map(|why| why.0).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// How to handle the changes that a run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restoring {
    /// Undo them.
    Undo,
    /// Only report what would be done.
    DryRun,
    /// Discard those that cannot be undone, because the user resolved them.
    Discard,
}

/// The outcome of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was undone.
    Undone,
    /// It would be undone.
    Planned,
    /// Nothing of it was left.
    NothingLeft,
    /// The host was rebooted since, which undid it.
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
    /// The factor.
    pub factor: String,
    /// The undo steps, in order.
    pub steps: Vec<StepOutcome>,
    /// The outcome.
    pub outcome: Outcome,
}

/// An undo step and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// It was executed, or would be, or failed: see the outcome of the change.
    Step(Undo),
    /// It had nothing to undo, for this reason.
    NothingLeft(String),
    /// The reboot undid it.
    EndedWithTheBoot(Undo),
}

/// Undoes the changes that a killed run left, latest first. It is idempotent.
///
/// # Errors
/// When the journal cannot be read or written.
pub fn restore(
    journal: &mut Journal,
    how: Restoring,
    carry_out: CarryOut,
    nothing_left: NothingLeft,
) -> Result<Vec<Restored>, RecordError> {
    let pending: Vec<Pending<Vec<Undo>>> = journal.read_pending()?;
    let place = journal.place();
    let mut restored = Vec::new();
    for Pending { id, factor, undo } in pending {
        if let JournalPlace::OtherHost(host) = &place {
            let steps = undo.into_iter().map(StepOutcome::Step).collect();
            restored.push(Restored { factor, steps, outcome: Outcome::OtherHost(host.clone()) });
            continue;
        }
        let (mut steps, mut failures) = (Vec::new(), Vec::new());
        for step in undo {
            steps.push(if place == JournalPlace::EarlierBoot && step.ends_with_the_boot() {
                StepOutcome::EndedWithTheBoot(step)
            } else if let Some(why) = nothing_left(&step) {
                StepOutcome::NothingLeft(why)
            } else {
                if how != Restoring::DryRun
                    && let Err(why) = carry_out(&step)
                {
                    failures.push(why.0);
                }
                StepOutcome::Step(step)
            });
        }
        let has_steps = steps.iter().any(|step| matches!(step, StepOutcome::Step(_)));
        let is_of_boot = |step: &StepOutcome| matches!(step, StepOutcome::EndedWithTheBoot(_));
        let outcome = match how {
            _ if !has_steps && steps.iter().any(is_of_boot) => Outcome::EndedWithTheBoot,
            _ if !has_steps => Outcome::NothingLeft,
            Restoring::DryRun => Outcome::Planned,
            _ if failures.is_empty() => Outcome::Undone,
            Restoring::Discard => Outcome::Discarded(failures.join("; ")),
            Restoring::Undo => Outcome::Failed(failures.join("; ")),
        };
        if how != Restoring::DryRun && !matches!(outcome, Outcome::Failed(_)) {
            journal.cross_off(id)?;
        }
        restored.push(Restored { factor, steps, outcome });
    }
    Ok(restored)
}

/// The changes of a killed run that are still there, by their factors. Changes nothing.
///
/// # Errors
/// When the journal cannot be read.
pub fn still_changed(
    journal: &mut Journal,
    carry_out: CarryOut,
    nothing_left: NothingLeft,
) -> Result<Vec<String>, RecordError> {
    let planned = restore(journal, Restoring::DryRun, carry_out, nothing_left)?;
    let is_there = |restored: &Restored| restored.outcome == Outcome::Planned;
    Ok(planned.into_iter().filter(is_there).map(|restored| restored.factor).collect())
}

/// How to handle the files that a run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removing {
    /// Report the existing files.
    Report,
    /// Report the files that would be removed.
    DryRun,
    /// Remove the files that are still the recorded ones.
    Remove,
    /// Discard the records of files that are not removed, because the user resolved them.
    Discard,
}

/// A file or folder of a run that is recorded in its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFile {
    /// The kind of workload that created it.
    pub workload: String,
    /// The file.
    pub made: Made,
    /// Its present state.
    pub remains: FileRemains,
}

/// The present state of a file that a run created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRemains {
    /// The state on this host.
    Here(Remains),
    /// It was created on this other host.
    OtherHost(String),
    /// It was not removed for this reason; its record was discarded as requested.
    Discarded(String),
}

/// Finds the files that a killed run created, latest first, and removes them if requested. Records of missing
/// files are crossed off silently.
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

/// Removes, at the end of a run, recorded files that were not to be kept and that no workload removed, for
/// example from an earlier process of the run. Files to be kept belong to the user from now on. Returns the
/// reasons for remaining files.
pub fn end_made(journal: &SharedJournal, kinds: &[&dyn WorkloadKind]) -> Result<Vec<String>, RecordError> {
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
