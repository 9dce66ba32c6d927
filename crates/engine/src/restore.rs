//! Putting back what factors changed: at the end of a trial, when a trial fails or panics, and after a kill.

use std::cell::RefCell;
use std::path::Path;

use record::{Journal, Pending, RecordError};

use crate::factor::{Factor, Undo};
use crate::source::Unavailable;
use crate::threads::process_started_ticks;

/// Carries out one step back; what `factors` offers.
pub type CarryOut = fn(&Undo) -> Result<(), Unavailable>;

/// A change in force. Dropping it puts the host back, whatever ended the trial.
pub(crate) struct Turned<'a> {
    journal: &'a RefCell<Journal>,
    carry_out: CarryOut,
    /// Journal numbers and steps, in the order the changes were made.
    made: Vec<(u64, Vec<Undo>)>,
    /// What could not be put back.
    failures: Vec<String>,
}

impl<'a> Turned<'a> {
    pub(crate) fn new(journal: &'a RefCell<Journal>, carry_out: CarryOut) -> Self {
        Turned { journal, carry_out, made: Vec::new(), failures: Vec::new() }
    }

    /// Journals how to undo, synced, so that the factor may be set.
    pub(crate) fn announce(&mut self, path: &str, factor: &dyn Factor) -> Result<(), String> {
        self.announce_steps(path, factor.undo().map_err(|why| why.0)?)
    }

    /// Journals steps back, synced, so that what they undo may be done.
    pub(crate) fn announce_steps(&mut self, what: &str, steps: Vec<Undo>) -> Result<(), String> {
        let process = std::process::id();
        let started = process_started_ticks(process).unwrap_or(0);
        let pending = self.journal.borrow_mut().pending(what, process, started, &steps);
        self.made.push((pending.map_err(|error| error.to_string())?, steps));
        Ok(())
    }

    /// Undoes everything, the latest first; what could not be undone stays in the journal for `plimsoll restore`.
    pub(crate) fn put_back(&mut self) -> Vec<String> {
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
        self.put_back();
    }
}

fn undo_all(steps: &[Undo], carry_out: CarryOut) -> Result<(), String> {
    let failures: Vec<String> =
        steps.iter().filter_map(|step| carry_out(step).err()).map(|why| why.0).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// What `plimsoll restore` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Factors whose changes were put back.
    pub undone: Vec<String>,
    /// Factors left alone because the run that changed them still goes on, with its process id.
    pub still_running: Vec<(String, u32)>,
    /// What could not be put back, and why.
    pub failed: Vec<(String, String)>,
}

/// Puts back what a killed run left changed, from its journal alone. Doing it twice does no harm.
pub fn restore(directory: &Path, carry_out: CarryOut) -> Result<Restored, RecordError> {
    let pending: Vec<Pending<Vec<Undo>>> = Journal::read_pending(directory)?;
    let mut restored = Restored::default();
    if pending.is_empty() {
        return Ok(restored);
    }
    let mut journal = record::RunDirectory::open(directory)?.journal()?;
    for line in pending {
        if process_started_ticks(line.process) == Some(line.started_ticks)
            && line.process != std::process::id()
        {
            restored.still_running.push((line.factor, line.process));
            continue;
        }
        match undo_all(&line.undo, carry_out) {
            Ok(()) => {
                journal.undone(line.id)?;
                restored.undone.push(line.factor);
            }
            Err(why) => restored.failed.push((line.factor, why)),
        }
    }
    Ok(restored)
}
