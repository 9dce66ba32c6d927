//! Factors that a trial sets: where they are opened, set, recorded, and undone together.

use std::cell::RefMut;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::{Doubt, DoubtKind, Ending, EventKind, Experiment, Level, Run, Variation};

use crate::check::machine_of;
use crate::crew::LOOK_UP;
use crate::factor::{Factor, FactorKind, FactorTarget};
use crate::machines::{MachineFactor, Machines};
use crate::restore::AppliedChanges;
use crate::session::{Session, SessionState, end_of};
use crate::source::Unavailable;
use crate::stream::Stream;

/// Factors that are set together and undone together.
pub(crate) struct FactorChanges<'a> {
    session: &'a Session<'a>,
    pub(crate) applied: AppliedChanges,
    /// The factors by path.
    pub(crate) factors: Vec<(String, Box<dyn Factor>)>,
}

impl<'a> FactorChanges<'a> {
    pub(crate) fn new(session: &'a Session<'a>) -> FactorChanges<'a> {
        let applied = AppliedChanges::new(session.journal, session.registry.carry_out);
        FactorChanges { session, applied, factors: Vec::new() }
    }

    /// Sets a level and records the effective one. A factor that is in force already gets the new level.
    pub(crate) fn set_level(
        &mut self,
        variation: &Variation,
        level: &Level,
        on: &FactorTarget,
        machines: OtherMachines<'_>,
        stream: &Stream<'_>,
        run: &mut Run,
    ) -> Result<(), String> {
        let path = &variation.factor.0;
        run.asked.insert(path.clone(), level.clone());
        let set = |why: String| format!("{path}={level}: {why}");
        let kind = self.session.registry.factor(path).ok_or_else(|| set("there is no such factor".into()))?;
        let known = self.factors.iter().position(|(known, _)| known == path);
        let mut factor = match known {
            Some(at) => self.factors.swap_remove(at).1,
            None => open(self.session.experiment, kind, on, machines).map_err(|why| set(why.0))?,
        };
        factor.check(level).map_err(|why| set(why.0))?;
        self.applied.announce(path, &*factor, level).map_err(set)?;
        let settling = factor.set(level).map_err(|why| set(why.0))?;
        self.wait_for_effect(Duration::from_nanos(settling));
        let in_force = factor.read().map_err(|why| set(why.0))?;
        let remark = factor.remark();
        let remark = if remark.is_empty() { remark } else { format!(": {remark}") };
        stream.event(0.0, EventKind::Setting, format!("{path} = {in_force}{remark}"));
        if in_force != *level {
            run.doubts.push(Doubt::new(
                DoubtKind::NotInForce,
                format!("{path} was set to {level}, but {in_force} is in force"),
                "another program controls this setting: find and stop it",
            ));
        }
        run.in_force.insert(path.clone(), in_force);
        self.factors.push((path.clone(), factor));
        Ok(())
    }

    /// Waits until a level has its effect, or the user stops the run.
    fn wait_for_effect(&self, settling: Duration) {
        let begun = Instant::now();
        while let Some(rest) = settling.checked_sub(begun.elapsed()).filter(|rest| !rest.is_zero())
            && !self.session.interrupted.load(Ordering::Relaxed)
        {
            std::thread::sleep(rest.min(Duration::from_nanos(LOOK_UP)));
        }
    }

    /// Adds what the factors observed to the facts of a trial.
    pub(crate) fn facts(&mut self, run: &mut Run) {
        for (path, factor) in &mut self.factors {
            let facts = factor.facts().into_iter();
            run.facts.extend(facts.map(|(name, level)| (format!("{path}.{name}"), level)));
        }
    }

    /// Undoes everything after a factor could not be set, and returns the reason with the remaining changes.
    pub(crate) fn give_up(mut self, why: String, lasting: &mut SessionState<'_>) -> Ending {
        let left = self.undo();
        lasting.not_restored.extend(left.iter().cloned());
        Ending::Failed([vec![why], left].concat().join("; "))
    }

    /// Undoes everything. Returns what could not be undone.
    pub(crate) fn undo(&mut self) -> Vec<String> {
        let restored = self.factors.drain(..).rev().map(|(_, mut factor)| factor.restore());
        let mut left: Vec<String> = restored.filter_map(|restored| Some(restored.err()?.0)).collect();
        left.extend(self.applied.undo());
        left
    }

    /// Undoes everything at the end of a trial.
    pub(crate) fn end(mut self, stream: &Stream<'_>, run: &Run, lasting: &mut SessionState<'_>) {
        for left in self.undo() {
            stream.event(end_of(run), EventKind::Setting, format!("could not be restored: {left}"));
            lasting.not_restored.push(left);
        }
    }
}

/// Other machines that take part, while they are borrowed.
pub(crate) type OtherMachines<'a> = Option<&'a mut (dyn Machines + 'a)>;

pub(crate) fn as_machines<'a>(machines: &'a mut Option<RefMut<'_, dyn Machines + '_>>) -> OtherMachines<'a> {
    machines.as_mut().map(|machines| &mut **machines as _)
}

/// Opens a factor where its target runs.
pub(crate) fn open(
    experiment: &Experiment,
    kind: &FactorKind,
    on: &FactorTarget,
    machines: OtherMachines<'_>,
) -> Result<Box<dyn Factor>, Unavailable> {
    let Some((target, machine)) = experiment.target.as_ref().zip(machine_of(experiment, kind)) else {
        return (kind.open)(on);
    };
    let no_machine = || Unavailable(format!("machine {machine} is not connected"));
    machines.ok_or_else(no_machine)?.factor(
        machine,
        MachineFactor {
            path: kind.info.path.into(),
            on: on.on.clone(),
            parameters: on
                .parameters
                .iter()
                .map(|(name, text)| (name.clone(), text.reveal().into()))
                .collect(),
            target: target.clone(),
        },
    )
}
