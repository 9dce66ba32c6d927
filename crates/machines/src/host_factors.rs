//! The factors of this host that a coordinator sets. They have a thread of their own, since a level may take long to be set.

use std::sync::mpsc::Receiver;

use engine::factor::{Factor, FactorTarget};
use engine::machines::MachineFactor;
use engine::restore::AppliedChanges;
use engine::target;
use model::{Secret, SecretParts};

use crate::agent::{HostJournal, Setup};
use crate::message::{FactorAnswer, FactorAsk};

/// What is to be done.
pub(crate) enum Job {
    /// A question with its number.
    Ask(u64, Box<MachineFactor>, FactorAsk),
    /// The experiment is over.
    End,
}

/// A factor whose level was set.
struct InForce {
    of: MachineFactor,
    factor: Box<dyn Factor>,
    changes: AppliedChanges,
}

impl InForce {
    /// Undoes it. Returns what could not be undone.
    fn undo(self) -> Vec<String> {
        let InForce { of, factor, mut changes } = self;
        drop(factor);
        changes.undo().into_iter().map(|why| format!("{}: {why}", of.path)).collect()
    }
}

/// Answers until the experiment is over, then undoes everything. Returns what could not be undone.
pub(crate) fn serve(
    setup: &Setup,
    journal: &HostJournal<'_>,
    jobs: &Receiver<Job>,
    answer: &dyn Fn(u64, Result<FactorAnswer, String>),
) -> Vec<String> {
    let mut factors = HostFactors { setup, journal, in_force: Vec::new() };
    while let Ok(Job::Ask(number, factor, ask)) = jobs.recv() {
        answer(number, factors.answer(*factor, ask));
    }
    factors.in_force.drain(..).rev().flat_map(InForce::undo).collect()
}

struct HostFactors<'a> {
    setup: &'a Setup,
    journal: &'a HostJournal<'a>,
    /// In the order in which they were set.
    in_force: Vec<InForce>,
}

impl HostFactors<'_> {
    fn answer(&mut self, of: MachineFactor, ask: FactorAsk) -> Result<FactorAnswer, String> {
        let known = self.in_force.iter().position(|in_force| in_force.of == of);
        match (ask, known) {
            (FactorAsk::Set(level), Some(at)) => self.in_force[at].set(&level),
            (FactorAsk::Set(level), None) => {
                let factor = self.open(&of)?;
                let changes = AppliedChanges::new(&self.journal.get()?, self.setup.registry.carry_out);
                let mut opened = InForce { of, factor, changes };
                let answer = opened.set(&level);
                // A level that was set in part is undone with the others.
                self.in_force.push(opened);
                answer
            }
            (FactorAsk::Restore, Some(at)) => {
                let left = self.in_force.remove(at).undo();
                if left.is_empty() { Ok(FactorAnswer::Done) } else { Err(left.join("; ")) }
            }
            (FactorAsk::Restore, None) => Ok(FactorAnswer::Done),
            (FactorAsk::Facts, Some(at)) => Ok(FactorAnswer::Facts(self.in_force[at].factor.facts())),
            (ask, Some(at)) => of_open(&*self.in_force[at].factor, ask),
            (ask, None) => of_open(&*self.open(&of)?, ask),
        }
    }

    fn open(&self, of: &MachineFactor) -> Result<Box<dyn Factor>, String> {
        let kind = self.setup.registry.factors.iter().find(|kind| kind.info.covers(&of.path));
        let kind = kind.ok_or_else(|| format!("there is no factor `{}` in this version", of.path))?;
        if let Some(limits) = &self.setup.limits {
            limits.factors().map_err(|refused| refused.in_line())?;
        }
        let processes = target::running(&of.target)?;
        let target = FactorTarget {
            on: of.on.clone(),
            parameters: of
                .parameters
                .iter()
                .map(|(name, text)| (name.clone(), Secret::new(text, SecretParts::Command)))
                .collect(),
            ..FactorTarget::of(self.setup.root.clone(), processes)
        };
        (kind.open)(&target).map_err(|why| why.0)
    }
}

impl InForce {
    fn set(&mut self, level: &model::Level) -> Result<FactorAnswer, String> {
        self.factor.check(level).map_err(|why| why.0)?;
        self.changes.announce(&self.of.path, &*self.factor, level)?;
        let settling = self.factor.set(level).map_err(|why| why.0)?;
        Ok(FactorAnswer::Set { settling, remark: self.factor.remark() })
    }
}

/// The answer to a question that changes nothing.
fn of_open(factor: &dyn Factor, ask: FactorAsk) -> Result<FactorAnswer, String> {
    let answer = match ask {
        FactorAsk::Check(level) => factor.check(&level).map(|()| FactorAnswer::Done),
        FactorAsk::Read => factor.read().map(FactorAnswer::Level),
        FactorAsk::Scaled(share) => factor.scaled(share).map(FactorAnswer::Level),
        FactorAsk::Set(_) | FactorAsk::Facts | FactorAsk::Restore => {
            return Err("no level was set".into());
        }
    };
    answer.map_err(|why| why.0)
}
