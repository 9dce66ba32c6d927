//! `--record`: what is watched, kept as a run directory with one trial and no operations, so that `show`, `explain` and
//! `report` read it like any other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::clock::{Checkpoint, Clock, unix_ns};
use engine::sampler::Sampler;
use engine::session;
use engine::source::HostRoot;
use model::{
    Decision, Ending, Event, EventKind, Experiment, Load, Nanos, Phase, PhaseSpan, Plan, Readings, Run,
    Secret, Treatment, Trial, WarmUp,
};
use record::{PLAN_FORMAT, RunDirectory, TrialWriter};

use crate::carry_out::{self, Failure};

/// A record that is being written.
pub(crate) struct Keeper {
    directory: RunDirectory,
    writer: TrialWriter,
    run: Run,
    plan: Plan,
    checkpoint: Checkpoint,
}

impl Keeper {
    /// Starts a run directory; its clock starts now.
    pub(crate) fn begin(
        path: &Path,
        watch: &[Secret],
        every: Nanos,
        duration: Option<Nanos>,
    ) -> Result<Keeper, Failure> {
        if std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            let at = path.display();
            return Err(Failure::failed(format!(
                "{at}: the folder is not empty; name another one with --record"
            )));
        }
        let experiment = Experiment {
            watch: watch.to_vec(),
            sample_every: every,
            ..Experiment::recorded("Watched", Run::WATCHED)
        };
        let text = format!(
            "# Watched with `plimsoll watch`; nothing was driven, so this cannot be run.\n{}",
            model::experiment::write(&experiment, &crate::registry::REGISTRY.vocabulary())
        );
        let host = counters::host(&HostRoot::live());
        let directory = session::begin(path, &text, &experiment, &host).map_err(Failure::failed)?;
        let trial = Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 };
        let plan = Plan {
            format: PLAN_FORMAT.into(),
            experiment,
            decisions: vec![Decision {
                trial: trial.clone(),
                reason: "only watched: the load is not Plimsoll's".into(),
            }],
            enough: None,
        };
        directory.write_plan(&plan).map_err(Failure::failed)?;
        let started_unix_ns = unix_ns();
        let mut writer = directory.trial(&trial.id()).map_err(Failure::failed)?;
        writer.start(started_unix_ns).map_err(Failure::failed)?;
        let load = Load { warm_up: WarmUp::For(0), interval: every, ..Load::of_workload(duration) };
        let run = Run::begun(trial, Run::WATCHED, load, started_unix_ns);
        writer.run(&run).map_err(Failure::failed)?;
        Ok(Keeper { directory, writer, run, plan, checkpoint: Clock::get().checkpoint() })
    }

    /// Keeps one sample: it has reached its file when this returns.
    pub(crate) fn sample(&mut self, begin_s: f64, end_s: f64, readings: &Readings) -> Result<(), Failure> {
        let span = match self.run.phases.first() {
            Some(first) => PhaseSpan { end_s, ..first.clone() },
            None => PhaseSpan { phase: Phase::Measure, begin_s, end_s },
        };
        self.run.phases = vec![span];
        self.writer.readings(begin_s, end_s, readings).map_err(Failure::failed)
    }

    /// Keeps that a source could not be read.
    pub(crate) fn unread(&mut self, at_s: f64, source: &str, why: &str) -> Result<(), Failure> {
        self.remark(at_s, format!("source {source} could not be read: {why}"))
    }

    /// Keeps an event of watching itself.
    pub(crate) fn remark(&mut self, at_s: f64, text: String) -> Result<(), Failure> {
        let event = Event { at_s, kind: EventKind::Source, text, data: BTreeMap::new() };
        self.writer.event(&event).map_err(Failure::failed)
    }

    /// Ends the record, judges it and writes its report; the directory.
    pub(crate) fn finish(mut self, sampler: &Sampler, ending: Ending) -> Result<PathBuf, Failure> {
        self.run.sources = sampler.status();
        self.run.sampler = sampler.cost();
        self.run.clock = Clock::get().info(self.checkpoint);
        self.run.ending = ending;
        self.writer.finish(&self.run).map_err(Failure::failed)?;
        self.plan.enough = Some("watching ended".into());
        self.directory.write_plan(&self.plan).map_err(Failure::failed)?;
        let study = record::read(self.directory.path()).map_err(Failure::failed)?;
        carry_out::keep(&self.directory, &analysis::result(&study), &study)?;
        Ok(self.directory.path().to_path_buf())
    }
}
