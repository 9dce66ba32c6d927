//! A whole experiment: check, then trial after trial as the design decides, each undone and kept before the next.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use model::design::Next;
use model::{
    Decision, Design, Doubt, DoubtKind, Ending, EventKind, Experiment, Level, Load, PROOF_SHARE, Plan,
    Problem, Problems, Run, SECOND, SettingPath, Settings, Shape, Study, Treatment, Turnable, Variation,
    Vocabulary, WarmUp, load,
};
use record::{PLAN_FORMAT, RecordError, RunDirectory};

use crate::factor::{Factor, FactorKind, FactorTarget};
use crate::restore::{CarryOut, SharedJournal, Turned, end_made};
use crate::sampler::Sampler;
use crate::source::{HostRoot, SourceKind, Unavailable};
use crate::stream::{Happening, Stream, Subscriber};
use crate::target::{self, Absent, SystemUnderTest};
use crate::trial::{Measurement, measure};
use crate::workload::{Workload, WorkloadKind};
use model::random::mix;

/// Everything that plugs into the engine; composed by the program.
#[derive(Clone, Copy)]
pub struct Registry {
    /// What can be driven.
    pub workloads: &'static [&'static dyn WorkloadKind],
    /// What can be read.
    pub sources: &'static [SourceKind],
    /// What can be turned.
    pub factors: &'static [FactorKind],
    /// Puts a target into a control group of its own, so that what it uses can be read and limited apart.
    pub target_group: FactorKind,
    /// How a step back is carried out.
    pub carry_out: CarryOut,
}

impl Registry {
    /// What can be written in an experiment.
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            workloads: self.workloads.iter().map(|kind| kind.info()).collect(),
            factors: self.factors.iter().map(|kind| kind.info).collect(),
            selectors: self
                .sources
                .iter()
                .map(|kind| kind.selector)
                .filter(|word| !word.is_empty())
                .collect(),
            metrics: self
                .sources
                .iter()
                .flat_map(|kind| kind.metrics.iter().map(|metric| metric.name.as_ref()))
                .collect(),
        }
    }

    fn workload(&self, name: &str) -> Option<&'static dyn WorkloadKind> {
        self.workloads.iter().copied().find(|kind| kind.info().name == name)
    }

    pub(crate) fn factor(&self, path: &str) -> Option<&'static FactorKind> {
        self.factors.iter().find(|kind| kind.info.covers(path))
    }
}

/// The settings of one treatment.
pub(crate) struct Applied<'a> {
    workload: Settings,
    load: Settings,
    /// Factors to turn and their levels, in the order the experiment names them.
    pub(crate) factors: Vec<(Cow<'a, Variation>, Level)>,
}

/// What holds in a treatment: the experiment's settings, the factors' baselines, the treatment's changes.
fn apply<'a>(experiment: &'a Experiment, treatment: &Treatment) -> Applied<'a> {
    let mut applied = Applied {
        workload: experiment.workload.settings.clone(),
        load: experiment.load.clone(),
        factors: Vec::new(),
    };
    for variation in &experiment.vary {
        let changed = treatment.changes().iter().find(|change| change.factor == variation.factor);
        let Some(level) = changed.map(|change| &change.level).or(variation.baseline.as_ref()) else {
            continue;
        };
        match variation.factor.area() {
            "workload" => applied.workload.set(variation.factor.name(), level.clone()),
            "load" => applied.load.set(variation.factor.name(), level.clone()),
            _ => applied.factors.push((Cow::Borrowed(variation), level.clone())),
        }
    }
    // A proof may turn what the experiment does not vary.
    if let Treatment::Proof(change) = treatment
        && experiment.vary.iter().all(|variation| variation.factor != change.factor)
    {
        applied.factors.push((Cow::Owned(unvaried(&change.factor.0)), change.level.clone()));
    }
    applied
}

/// A factor that the experiment does not vary.
fn unvaried(path: &str) -> Variation {
    Variation {
        factor: SettingPath(path.into()),
        baseline: None,
        levels: Vec::new(),
        on: None,
        parameters: BTreeMap::new(),
    }
}

/// A treatment made ready: configured, its load known.
pub(crate) struct Ready<'a> {
    pub(crate) workload: Box<dyn Workload>,
    load: Load,
    shape: Shape,
    pub(crate) applied: Applied<'a>,
}

pub(crate) fn make_ready<'a>(
    experiment: &'a Experiment,
    registry: &Registry,
    treatment: &Treatment,
) -> Result<Ready<'a>, Problems> {
    let applied = apply(experiment, treatment);
    let kind = registry.workload(&experiment.workload.kind).ok_or_else(|| {
        Problem::new(
            format!("there is no workload `{}`", experiment.workload.kind),
            "`plimsoll schema` lists them",
        )
    })?;
    let mut problems = Problems::new();
    let load = Load::read(&applied.load).map_err(|found| problems.extend(found)).ok();
    let workload = kind.configure(&applied.workload).map_err(|found| problems.extend(found)).ok();
    if let Some(shape) = load.as_ref().and_then(|load| load.shape.as_ref()) {
        problems.extend(kind.check_load(&applied.workload, shape));
    }
    match (load, workload) {
        (Some(mut load), Some(workload)) => {
            let shape = load.shape.clone().unwrap_or_else(|| workload.default_shape());
            if workload.ends_by_itself() {
                // Work that ends by itself has no warm-up to spare, and is measured to its end unless told otherwise.
                if load.warm_up == WarmUp::Auto {
                    load.warm_up = WarmUp::For(0);
                }
                if !applied.load.given(&load::MEASURE) {
                    load.measure = None;
                }
            } else if load.measure.is_none() {
                problems.push(
                    Problem::new(
                        format!(
                            "the {} workload does not end by itself: set how long to measure",
                            experiment.workload.kind
                        ),
                        "",
                    )
                    .about(&[&load::MEASURE])
                    .or_set(&load::MEASURE, Level::Time(30 * SECOND)),
                );
            }
            problems.or(Ready { workload, load, shape, applied })
        }
        _ => Err(problems),
    }
}

/// What a factor is to act on. Without a target, or before it is there, the load's own process stands in for it.
pub(crate) fn factor_target(
    root: &HostRoot,
    experiment: &Experiment,
    workload: &dyn Workload,
    variation: &Variation,
    processes: Vec<u32>,
) -> FactorTarget {
    let target = experiment.target.as_ref();
    FactorTarget {
        on: variation.on.clone(),
        parameters: variation.parameters.clone(),
        files: workload.files(),
        folder: target.map_or_else(
            || experiment.folder.clone(),
            |target| target::directory(target, &experiment.folder),
        ),
        restartable: target.is_some_and(target::is_started_by_us),
        ..FactorTarget::of(
            root.clone(),
            if processes.is_empty() { vec![std::process::id()] } else { processes },
        )
    }
}

/// How an experiment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The design had enough.
    Complete,
    /// The user stopped it; the record is kept.
    Interrupted,
    /// It could not go on; why.
    Failed(String),
}

/// A running experiment's surroundings.
pub struct Session<'a> {
    /// What is carried out.
    pub experiment: &'a Experiment,
    /// What plugs in.
    pub registry: Registry,
    /// Where the host's files are.
    pub root: HostRoot,
    /// Where it is recorded.
    pub directory: RunDirectory,
    /// Where each change of the host is announced before it is made.
    pub journal: &'a SharedJournal,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// Who listens.
    pub subscriber: &'a dyn Subscriber,
}

/// What outlives a trial.
struct Lasting<'a> {
    /// Until the end, so that a file made for one trial serves the next. Released: what only their trials needed is gone.
    workloads: Vec<Box<dyn Workload>>,
    target: Option<SystemUnderTest<'a>>,
    /// What could not be undone: the next trial would be measured with it.
    not_restored: Vec<String>,
}

impl Session<'_> {
    /// Carries out trial after trial until the design has enough. What the directory already holds counts: this is
    /// also how an interrupted experiment is resumed.
    pub fn carry_out(&self, design: &dyn Design) -> Result<Ended, RecordError> {
        let target = self.experiment.target.as_ref().map(|target| {
            let log = self.directory.path().join("target.log");
            let carry_out = self.registry.carry_out;
            let group = self.registry.target_group;
            let folder = &self.experiment.folder;
            SystemUnderTest::new(target, folder, log, &self.root, self.journal, carry_out, group)
        });
        let mut lasting = Lasting { workloads: Vec::new(), target, not_restored: Vec::new() };
        let ended = self.trials(design, &mut lasting);
        // What was made is removed however it ended, also when the record could not be written.
        let mut cleaned = Ok(());
        for workload in lasting.workloads.iter_mut().rev() {
            cleaned = cleaned.and(workload.clean_up());
        }
        drop(lasting.workloads);
        // After the clean-up, which may need it.
        let left = lasting.target.as_mut().map(SystemUnderTest::stop).unwrap_or_default();
        let not_removed = end_made(self.journal, self.registry.workloads)?;
        match (ended?, cleaned) {
            (Ended::Complete, Err(error)) => Ok(Ended::Failed(error.to_string())),
            (Ended::Complete, Ok(())) if !not_removed.is_empty() => Ok(Ended::Failed(not_removed.join("; "))),
            (Ended::Complete, Ok(())) if !left.is_empty() => {
                Ok(Ended::Failed(format!("the target could not be ended: {}", left.join("; "))))
            }
            (ended, _) => Ok(ended),
        }
    }

    fn trials(&self, design: &dyn Design, lasting: &mut Lasting<'_>) -> Result<Ended, RecordError> {
        let mut study: Study = record::read(self.directory.path())?;
        let mut plan = study.plan.take().unwrap_or_else(|| Plan {
            format: PLAN_FORMAT.into(),
            experiment: self.experiment.clone(),
            decisions: Vec::new(),
            enough: None,
        });
        plan.enough = None;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(Ended::Interrupted);
            }
            study.plan = Some(plan.clone());
            let decision = match design.next(&study) {
                Next::Trial(decision) => decision,
                Next::Enough(why) => {
                    plan.enough = Some(why);
                    self.directory.write_plan(&plan)?;
                    return Ok(Ended::Complete);
                }
            };
            plan.decisions.push(decision.clone());
            self.directory.write_plan(&plan)?;
            let planned = design.planned().map(|trials| trials_in_all(&trials, &study, &decision));
            self.subscriber.happens(&Happening::Trial { decision: &decision, planned });
            let ending = self.trial(&decision, lasting)?;
            let (record, damage) = record::read_trial(&self.directory.trial_path(&decision.trial.id()))?;
            study.runs.push(record);
            study.damage.extend(damage);
            if !lasting.not_restored.is_empty() {
                let left = std::mem::take(&mut lasting.not_restored).join("; ");
                return Ok(Ended::Failed(format!("the next trial would not be a fair one: {left}")));
            }
            match ending {
                Ending::Interrupted => return Ok(Ended::Interrupted),
                // Nothing has been measured yet: the next trial would fail in the same way.
                Ending::Failed(why) if !study.runs.iter().any(|of| of.run.ending == Ending::Completed) => {
                    return Ok(Ended::Failed(why));
                }
                _ => {}
            }
        }
    }

    fn trial(&self, decision: &Decision, lasting: &mut Lasting<'_>) -> Result<Ending, RecordError> {
        let trial = &decision.trial;
        let stream = Stream::new(self.directory.trial(&trial.id())?, self.subscriber);
        // Filled in once the treatment is made ready.
        let load =
            Load { shape: None, warm_up: WarmUp::Auto, measure: None, interval: model::SECOND, spin: None };
        let kind = &self.experiment.workload.kind;
        let mut run = Run::begun(trial.clone(), kind, load, crate::clock::unix_ns());
        let ending = match make_ready(self.experiment, &self.registry, &trial.treatment) {
            Ok(ready) => self.ready_trial(ready, &stream, lasting, &mut run),
            Err(problems) => Some(Ending::Failed(problems.to_string())),
        };
        if let Some(ending) = ending {
            stream.event(0.0, EventKind::Ended, words(&ending));
            run.ending = ending;
        } else if run.ending != Ending::Completed {
            let at_s = run.phases.last().map_or(0.0, |span| span.end_s);
            stream.event(at_s, EventKind::Ended, words(&run.ending));
        }
        let ending = run.ending.clone();
        stream.finish(&run)?;
        Ok(ending)
    }

    /// Sees to the target, prepares, turns the factors, measures and puts back. Returns how the trial ended when it did
    /// before its clock began.
    fn ready_trial(
        &self,
        ready: Ready<'_>,
        stream: &Stream<'_>,
        lasting: &mut Lasting<'_>,
        run: &mut Run,
    ) -> Option<Ending> {
        let Ready { mut workload, load, shape, applied } = ready;
        run.load = Load { shape: Some(shape.clone()), ..load.clone() };
        run.operations = workload.operations();
        run.operations_in_turn = workload.operations_in_turn();
        if let Some(kind) = self.registry.workload(&run.workload) {
            run.traits = kind.info().traits.clone();
            workload.describe_operations(&mut run.traits);
        }
        for (name, setting) in &applied.workload.0 {
            run.asked.insert(format!("workload.{name}"), setting.level.clone());
        }
        for (name, setting) in &applied.load.0 {
            run.asked.insert(format!("load.{name}"), setting.level.clone());
        }
        stream.run(run);
        let on = |variation, workload: &dyn Workload| {
            factor_target(&self.root, self.experiment, workload, variation, Vec::new())
        };
        let (early, late): (Vec<_>, Vec<_>) = applied.factors.iter().partition(|(variation, _)| {
            let kind = self.registry.factor(&variation.factor.0);
            kind.is_some_and(|kind| (kind.needs_restart)(&on(variation, &*workload)))
        });
        let restarts = !early.is_empty();
        if let Some(target) = &mut lasting.target
            && restarts
        {
            let left = target.stop();
            if !left.is_empty() {
                return Some(Ending::Failed(format!("the target was not ended: {}", left.join("; "))));
            }
        }
        let mut before_start = Turning {
            session: self,
            stream,
            turned: Turned::new(self.journal, self.registry.carry_out),
            factors: Vec::new(),
        };
        for (variation, level) in early {
            let on = on(variation, &*workload);
            if let Err(why) = before_start.turn(variation, level, &on, run) {
                return Some(before_start.give_up(why, lasting));
            }
        }
        // Once the trial is over, what was started with its levels is not what the next one needs.
        let ends_with_trial =
            restarts || self.experiment.target.as_ref().is_some_and(model::Target::restarts_each_trial);
        let ending = self.measured_trial(&mut workload, (&load, &shape), late, stream, lasting, run);
        workload.release();
        lasting.workloads.push(workload);
        if let Some(target) = &mut lasting.target
            && ends_with_trial
        {
            for left in target.stop() {
                stream.event(end_of(run), EventKind::Setting, format!("the target was not ended: {left}"));
            }
        }
        before_start.undo(run, lasting);
        ending
    }

    /// What of a trial happens while the target runs.
    fn measured_trial(
        &self,
        workload: &mut Box<dyn Workload>,
        (load, shape): (&Load, &Shape),
        factors: Vec<&(Cow<'_, Variation>, Level)>,
        stream: &Stream<'_>,
        lasting: &mut Lasting<'_>,
        run: &mut Run,
    ) -> Option<Ending> {
        let mut watch = self.experiment.watch.clone();
        if let Some(target) = lasting.target.as_mut() {
            let mut say = |text: &str| self.subscriber.happens(&Happening::Preparing(text));
            match target.ensure_running(&mut say, self.interrupted) {
                Ok(()) => {}
                Err(Absent::Interrupted) => return Some(Ending::Interrupted),
                Err(Absent::Failed(why)) => return Some(Ending::Failed(why)),
            }
            watch.extend(target.watch());
        }
        let target = &lasting.target;
        let mut say = |text: &str| {
            self.subscriber.happens(&Happening::Preparing(text));
            !self.interrupted.load(Ordering::Relaxed)
        };
        // Other places than the trial before: repeating them would be answered by a cache below.
        let seed = self.experiment.seed ^ mix(u64::from(run.trial.number));
        workload.announce_to(&self.journal.announcements(&self.experiment.workload.kind));
        let prepared = workload.prepare(seed, &mut say);
        run.facts = workload.facts();
        run.facts.extend(target.as_ref().map(SystemUnderTest::facts).unwrap_or_default());
        // Asked first: whoever stops the preparation makes it fail.
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(Ending::Interrupted);
        }
        let target_ended = || target.as_ref().and_then(SystemUnderTest::ended);
        if let Err(error) = prepared {
            return Some(Ending::Failed(target_ended().unwrap_or_else(|| error.in_line())));
        }
        // Turned after preparing, so that a limit under test does not also slow the making of its data.
        let mut turning = Turning {
            session: self,
            stream,
            turned: Turned::new(self.journal, self.registry.carry_out),
            factors: Vec::new(),
        };
        for (variation, level) in factors {
            let processes = target.as_ref().map(SystemUnderTest::processes).unwrap_or_default();
            let on = factor_target(&self.root, self.experiment, &**workload, variation, processes);
            if let Err(why) = turning.turn(variation, level, &on, run) {
                let why = target_ended().unwrap_or(why);
                return Some(turning.give_up(why, lasting));
            }
        }
        if self.experiment.prove && run.trial.treatment == Treatment::Baseline {
            let processes = target.as_ref().map(SystemUnderTest::processes).unwrap_or_default();
            run.turnable = self.turnable(&**workload, &processes, &turning.factors);
            let of_host = |path: &String| {
                let kind = self.registry.factors.iter().find(|kind| kind.info.path == path)?;
                Some((path.clone(), kind.info.resource?))
            };
            run.turned_resources = run.turnable.keys().filter_map(of_host).collect();
        }
        let sampler = Sampler::open(self.registry.sources, &self.root, &watch);
        measure(
            Measurement {
                workload: &**workload,
                load,
                shape,
                seed,
                sampler,
                sample_every: self.experiment.sample_every,
                stream,
                interrupted: self.interrupted,
                target_ended: &target_ended,
            },
            run,
        );
        // A load that lost its server says so in its own words; this is why.
        if run.ending != Ending::Interrupted
            && let Some(why) = target_ended()
        {
            run.ending = Ending::Failed(why);
        }
        turning.undo(run, lasting);
        None
    }
}

/// Where the factors of the host's own resources are: these are turned to prove which one limits.
const HOST: &str = "host.";

impl Session<'_> {
    /// How each resource could be turned here and now, some of them turned already. Changes nothing.
    fn turnable(
        &self,
        workload: &dyn Workload,
        processes: &[u32],
        turned: &[(String, Box<dyn Factor>)],
    ) -> BTreeMap<String, Turnable> {
        let mut found = BTreeMap::new();
        for kind in self.registry.factors {
            let path = kind.info.path;
            let varied = self.experiment.vary.iter().find(|variation| variation.factor.0 == path);
            let variation = varied.cloned().unwrap_or_else(|| unvaried(path));
            let on = factor_target(&self.root, self.experiment, workload, &variation, processes.to_vec());
            if !path.starts_with(HOST) || kind.info.needs_on || (kind.needs_restart)(&on) {
                continue;
            }
            // The one that is turned knows how it was before, and so how much more there is.
            let of_turned = turned.iter().find(|(turned, _)| turned == path);
            let turnable = match of_turned {
                Some((_, factor)) => turnable(&**factor),
                None => (kind.open)(&on).and_then(|factor| turnable(&*factor)),
            };
            found.insert(path.to_string(), turnable.unwrap_or_else(|why| Turnable::No(why.0)));
        }
        found
    }
}

/// What is in force of a factor, and the levels with less and with more of it that can be set.
fn turnable(factor: &dyn Factor) -> Result<Turnable, Unavailable> {
    let in_force = factor.read()?;
    let scaled = |share| factor.scaled(share).and_then(|level| factor.check(&level).map(|()| level));
    match (scaled(PROOF_SHARE), scaled(1.0 / PROOF_SHARE)) {
        (Err(why), Err(_)) => Err(why),
        (reduced, raised) => Ok(Turnable::Yes { in_force, reduced: reduced.ok(), raised: raised.ok() }),
    }
}

/// Factors that are set together and undone together.
struct Turning<'a> {
    session: &'a Session<'a>,
    stream: &'a Stream<'a>,
    turned: Turned<'a>,
    /// By their paths.
    factors: Vec<(String, Box<dyn Factor>)>,
}

impl Turning<'_> {
    /// Puts a level in force and notes what is.
    fn turn(
        &mut self,
        variation: &Variation,
        level: &Level,
        on: &FactorTarget,
        run: &mut Run,
    ) -> Result<(), String> {
        let path = &variation.factor.0;
        run.asked.insert(path.clone(), level.clone());
        let set = |why: String| format!("{path}={level}: {why}");
        let kind = self.session.registry.factor(path).ok_or_else(|| set("there is no such factor".into()))?;
        let mut factor = (kind.open)(on).map_err(|why| set(why.0))?;
        factor.check(level).map_err(|why| set(why.0))?;
        self.turned.announce(path, &*factor, level).map_err(set)?;
        let settling = factor.set(level).map_err(|why| set(why.0))?;
        std::thread::sleep(std::time::Duration::from_nanos(settling));
        let in_force = factor.read().map_err(|why| set(why.0))?;
        let remark = factor.remark();
        let remark = if remark.is_empty() { remark } else { format!(": {remark}") };
        self.stream.event(0.0, EventKind::Setting, format!("{path} = {in_force}{remark}"));
        if in_force != *level {
            run.doubts.push(Doubt::new(
                DoubtKind::NotInForce,
                format!("{path} was set to {level}, but {in_force} is in force"),
                "something else holds this setting: look for another manager of it",
            ));
        }
        run.in_force.insert(path.clone(), in_force);
        self.factors.push((path.clone(), factor));
        Ok(())
    }

    /// Undoes everything after a factor could not be set, and says what is left.
    fn give_up(mut self, why: String, lasting: &mut Lasting<'_>) -> Ending {
        let left = self.turned.undo();
        lasting.not_restored.extend(left.iter().cloned());
        Ending::Failed([vec![why], left].concat().join("; "))
    }

    fn undo(mut self, run: &Run, lasting: &mut Lasting<'_>) {
        self.factors.clear();
        for left in self.turned.undo() {
            self.stream.event(end_of(run), EventKind::Setting, format!("could not be restored: {left}"));
            lasting.not_restored.push(left);
        }
    }
}

/// When the last phase of a run ended.
fn end_of(run: &Run) -> f64 {
    run.phases.last().map_or(0.0, |span| span.end_s)
}

fn words(ending: &Ending) -> String {
    match ending {
        Ending::Running => "still running".into(),
        Ending::Completed => "completed".into(),
        Ending::Interrupted => "interrupted by the user".into(),
        Ending::Failed(why) => why.clone(),
    }
}

/// Starts a new run directory and its plan.
pub fn begin(
    path: &Path,
    experiment_text: &str,
    experiment: &Experiment,
    host: &model::Host,
) -> Result<RunDirectory, RecordError> {
    let directory = RunDirectory::create(path, experiment_text, host)?;
    directory.write_plan(&Plan {
        format: PLAN_FORMAT.into(),
        experiment: experiment.clone(),
        decisions: Vec::new(),
        enough: None,
    })?;
    Ok(directory)
}

/// How many trials there will be with those that are repeated because they were interrupted or failed: those before the next
/// one, and those planned that are not complete.
fn trials_in_all(planned: &[model::Trial], study: &Study, next: &Decision) -> usize {
    let is_complete = |trial: &model::Trial| {
        study.runs.iter().map(|record| &record.run).any(|run| {
            run.ending == Ending::Completed
                && run.trial.replicate == trial.replicate
                && run.trial.treatment == trial.treatment
        })
    };
    let missing = planned.iter().filter(|trial| !is_complete(trial)).count();
    next.trial.number.saturating_sub(1) as usize + missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::Undo;
    use model::Nanos;

    /// 100 of something in force, of which at most so much can be set.
    struct Limit(f64);

    impl Factor for Limit {
        fn check(&self, level: &Level) -> Result<(), Unavailable> {
            match level.as_number() {
                Some(number) if number <= self.0 => Ok(()),
                _ => Err(Unavailable(format!("{level} is too much"))),
            }
        }

        fn read(&self) -> Result<Level, Unavailable> {
            Ok(Level::Number(100.0))
        }

        fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
            Ok(Vec::new())
        }

        fn set(&mut self, _level: &Level) -> Result<Nanos, Unavailable> {
            Ok(0)
        }

        fn scaled(&self, share: f64) -> Result<Level, Unavailable> {
            Ok(Level::Number((100.0 * share).floor()))
        }
    }

    #[test]
    fn what_can_be_taken_and_given_is_what_can_be_set() {
        let yes = |reduced: Option<f64>, raised: Option<f64>| Turnable::Yes {
            in_force: Level::Number(100.0),
            reduced: reduced.map(Level::Number),
            raised: raised.map(Level::Number),
        };
        assert_eq!(turnable(&Limit(1000.0)).unwrap(), yes(Some(70.0), Some(142.0)));
        assert_eq!(turnable(&Limit(100.0)).unwrap(), yes(Some(70.0), None));
        assert_eq!(turnable(&Limit(10.0)).unwrap_err().0, "70 is too much");
    }
}
