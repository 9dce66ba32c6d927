//! Executes a whole experiment: checks it, then runs the trials that the design chooses; each is undone and
//! recorded before the next.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::design::Next;
use model::experiment::{CheckExporter, NameOfMachine, Proxies, WatchedFor};
use model::run::GeneratorUse;
use model::{
    Decision, Design, Ending, EventKind, Experiment, Level, Load, PROOF_SHARE, Plan, Problem, Problems, Run,
    SECOND, Settable, SettingPath, Settings, Shape, Study, Target, Treatment, Variation, Vocabulary, WarmUp,
    load,
};
use record::{PLAN_FORMAT, RecordError, RunDirectory};

use crate::answer_wait::AnswerWait;
use crate::dependencies::{start_proxies, steps, variation_of};
use crate::factor::{Factor, FactorKind, FactorTarget, Moment};
use crate::factor_changes::{FactorChanges, OtherMachines, as_machines, open};
use crate::inputs::{Inputs, KeptInputs};
use crate::machines::{LEFT, MachineTrial, Machines, combine_facts};
use crate::restore::{CarryOut, NothingLeft, SharedJournal, end_made};
use crate::sampler::Sampler;
use crate::shell;
use crate::source::{EXPORTER, HostRoot, SourceKind, Unavailable};
use crate::stream::{RunEvent, Stream, Subscriber};
use crate::target::{self, Absent, SystemUnderTest, add_target, watched_on};
use crate::trial::{Measurement, measure};
use crate::workload::{Workload, WorkloadKind};
use model::random::mix;

pub use crate::ended::Ended;

/// All plug-ins of the engine, composed by the program.
#[derive(Clone, Copy)]
pub struct Registry {
    /// Workloads.
    pub workloads: &'static [&'static dyn WorkloadKind],
    /// Sources of counters.
    pub sources: &'static [SourceKind],
    /// Factors.
    pub factors: &'static [FactorKind],
    /// Puts a target into a separate control group, so that its resource use can be read and limited
    /// separately.
    pub target_group: FactorKind,
    /// Executes an undo step.
    pub carry_out: CarryOut,
    /// Finds out that an undo step has nothing left to undo.
    pub nothing_left: NothingLeft,
    /// Finds what is watched for a counter of Performance Monitor.
    pub watched: WatchedFor,
    /// Checks an entry of `watch` that names an exporter of another host.
    pub exporter: CheckExporter,
    /// Reads what names a machine.
    pub machine: NameOfMachine,
}

impl Registry {
    /// The content that experiments may have.
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            workloads: self.workloads.iter().map(|kind| kind.info()).collect(),
            factors: self.factors.iter().map(|kind| kind.info).collect(),
            selectors: self
                .sources
                .iter()
                .map(|kind| kind.selector)
                .filter(|word| !word.is_empty() && *word != EXPORTER)
                .collect(),
            metrics: self
                .sources
                .iter()
                .flat_map(|kind| kind.metrics.iter().map(|metric| metric.name.as_ref()))
                .collect(),
            watched: Some(self.watched),
            exporter: Some(self.exporter),
            machine: Some(self.machine),
        }
    }

    /// The entry of a source for one of `watch`, which may be a counter of Performance Monitor.
    fn watch_entry(&self, entry: &str) -> String {
        match self.vocabulary().watch_entry(entry) {
            Ok(Some(watched)) => watched.entry,
            _ => entry.to_string(),
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
    /// As written: with the addresses of dependencies, not of their proxies.
    workload: Settings,
    load: Settings,
    /// The system under test; none without one.
    pub(crate) target: Option<Cow<'a, Target>>,
    /// Factors to set with their levels, in the order of the experiment.
    pub(crate) factors: Vec<(Cow<'a, Variation>, Level)>,
}

/// The effective settings of a treatment: the experiment's settings, the factors' baselines, the treatment's
/// changes.
fn apply<'a>(experiment: &'a Experiment, treatment: &Treatment, proxies: &Proxies) -> Applied<'a> {
    let mut applied = Applied {
        workload: experiment.workload.settings.clone(),
        load: experiment.load.clone(),
        target: experiment.target.as_ref().map(Cow::Borrowed),
        factors: Vec::new(),
    };
    let probed = match treatment {
        Treatment::Probe(probe) => Some(&probe.at),
        _ => None,
    };
    for dependency in &experiment.dependencies {
        if experiment.vary.iter().all(|variation| variation.factor.0 != dependency.factor) {
            applied.factors.push((Cow::Owned(variation_of(dependency)), Level::Time(0)));
        }
    }
    for variation in &experiment.vary {
        let mut changes = treatment.changes().iter().chain(probed);
        let changed = changes.find(|change| change.factor == variation.factor);
        let Some(level) = changed.map(|change| &change.level).or(variation.baseline.as_ref()) else {
            continue;
        };
        match variation.factor.area() {
            "workload" => applied.workload.set(variation.factor.name(), level.clone()),
            "load" => applied.load.set(variation.factor.name(), level.clone()),
            _ if variation.factor.is_of_target() => {
                let with = |target: Cow<'_, Target>| target.with(variation.factor.name(), level.clone());
                applied.target = applied.target.map(with).map(Cow::Owned);
            }
            _ => {
                let variation = match experiment.dependency(&variation.factor.0) {
                    Some(dependency) => Cow::Owned(variation_of(dependency)),
                    None if variation.parameters.is_empty() => Cow::Borrowed(variation),
                    None => {
                        let parameters = proxies.parameters(&variation.parameters);
                        Cow::Owned(Variation { parameters, ..variation.clone() })
                    }
                };
                applied.factors.push((variation, level.clone()));
            }
        }
    }
    if let Treatment::Probe(probe) = treatment {
        if probe.at.factor.area() == "load" {
            applied.load.set(probe.at.factor.name(), probe.at.level.clone());
        }
        applied.load.set(load::MEASURE.name, Level::Time(probe.measure));
        if let Some(warm_up) = probe.warm_up {
            applied.load.set(load::WARM_UP.name, Level::Time(warm_up));
            applied.load.0.remove(load::WARM_UP_ROUND.name);
        }
    }
    // A proof may change factors that the experiment does not vary.
    if let Treatment::Proof(change) = treatment
        && experiment.vary.iter().all(|variation| variation.factor != change.factor)
    {
        applied.factors.push((Cow::Owned(unvaried(&change.factor.0)), change.level.clone()));
    }
    applied
}

/// The varied settings of the target with their levels in a trial.
fn varied_of_target(experiment: &Experiment, target: &Target) -> Vec<(String, Level)> {
    let varied = experiment.vary.iter().filter(|variation| variation.factor.is_of_target());
    varied
        .filter_map(|variation| {
            let level = target.settings.level(variation.factor.name())?;
            Some((variation.factor.0.clone(), level.clone()))
        })
        .collect()
}

/// A factor that the experiment does not vary.
pub(crate) fn unvaried(path: &str) -> Variation {
    Variation {
        factor: SettingPath(path.into()),
        baseline: None,
        levels: Vec::new(),
        on: None,
        parameters: BTreeMap::new(),
        line: 0,
    }
}

/// A configured treatment with its load.
pub(crate) struct Ready<'a> {
    pub(crate) workload: Box<dyn Workload>,
    /// The settings that it was configured with.
    pub(crate) settings: Settings,
    pub(crate) load: Load,
    pub(crate) shape: Shape,
    pub(crate) applied: Applied<'a>,
    /// The files that it read.
    pub(crate) inputs: Inputs,
}

/// Configures a treatment. Its files are read as the run keeps them, if it does.
pub(crate) fn make_ready<'a>(
    experiment: &'a Experiment,
    registry: &Registry,
    treatment: &Treatment,
    proxies: &Proxies,
    kept: Option<&Arc<KeptInputs>>,
) -> Result<Ready<'a>, Problems> {
    let applied = apply(experiment, treatment, proxies);
    let settings = proxies.load(&applied.workload);
    let kind = registry.workload(&experiment.workload.kind).ok_or_else(|| {
        Problem::new(
            format!("there is no workload `{}`", experiment.workload.kind),
            "`plimsoll schema` lists them",
        )
    })?;
    let mut problems = Problems::new();
    let load = Load::read(&applied.load).map_err(|found| problems.extend(found)).ok();
    let inputs = Inputs::of_run(kept);
    let workload = kind.configure_with(&settings, &inputs).map_err(|found| problems.extend(found)).ok();
    if let Some(shape) = load.as_ref().and_then(|load| load.shape.as_ref()) {
        problems.extend(kind.check_load(&settings, shape));
    }
    match (load, workload) {
        (Some(mut load), Some(workload)) => {
            let shape = load.shape.clone().unwrap_or_else(|| workload.default_shape());
            if workload.ends_by_itself() && !experiment.limit.is_empty() {
                problems.push(
                    Problem::new(
                        format!(
                            "the {} workload ends by itself: it has no load to search the limit of",
                            experiment.workload.kind
                        ),
                        "remove `limit`; `--vary` compares its settings",
                    )
                    .about(&[&load::LIMIT]),
                );
            }
            if load.end_early && (!experiment.vary.is_empty() || !experiment.limit.is_empty()) {
                problems.push(
                    Problem::new(
                        "`end_early` has no place in an experiment with comparisons: trials of different lengths would be compared",
                        "remove `end_early`",
                    )
                    .about(&[&load::END_EARLY]),
                );
            }
            if workload.ends_by_itself() {
                // Work that ends by itself has no warm-up by default, and is measured to its end.
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
                            "the {} workload does not end by itself: set `measure` to a duration",
                            experiment.workload.kind
                        ),
                        "",
                    )
                    .about(&[&load::MEASURE])
                    .or_set(&load::MEASURE, Level::Time(30 * SECOND)),
                );
            }
            problems.or(Ready { workload, settings, load, shape, applied, inputs })
        }
        _ => Err(problems),
    }
}

/// The target of a factor: without a system under test, or before it runs, the load's own process.
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

/// A running experiment with its environment.
pub struct Session<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The plug-ins.
    pub registry: Registry,
    /// The root of the host's files.
    pub root: HostRoot,
    /// The run directory.
    pub directory: RunDirectory,
    /// The journal, in which each host change is recorded before it is made.
    pub journal: &'a SharedJournal,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// The wait for operations in flight, which the user may end.
    pub answers: &'a AnswerWait,
    /// Receives all events.
    pub subscriber: &'a dyn Subscriber,
    /// Other machines that take part; none if there are none.
    pub machines: Option<&'a RefCell<dyn Machines>>,
}

/// The state that outlives a trial.
pub(crate) struct SessionState<'a> {
    /// Kept until the end, so that later trials can use the files of earlier ones. Their data for a single
    /// trial is released.
    workloads: Vec<Box<dyn Workload>>,
    target: Option<SystemUnderTest<'a>>,
    /// Factors that stay in force between the trials.
    factors: FactorChanges<'a>,
    /// Where to connect to instead of to the dependencies.
    proxies: &'a Proxies,
    /// Changes that could not be undone: they would affect the next trial.
    pub(crate) not_restored: Vec<String>,
}

impl Session<'_> {
    /// Executes trials until the design is complete. Existing records in the directory count, so this also
    /// resumes an interrupted experiment.
    pub fn carry_out(&self, design: &dyn Design) -> Result<Ended, RecordError> {
        let mut factors = FactorChanges::new(self);
        let proxies = match start_proxies(self, &mut factors) {
            Ok(proxies) => proxies,
            Err(why) => return Ok(Ended::Failed(why)),
        };
        shell::set_variables(proxies.variables());
        let target = self.experiment.target.as_ref().map(|target| {
            let target = proxies.target(target);
            let log = self.directory.path().join("target.log");
            let carry_out = self.registry.carry_out;
            let group = self.registry.target_group;
            let folder = &self.experiment.folder;
            SystemUnderTest::new(target, folder, log, &self.root, self.journal, carry_out, group)
        });
        let mut lasting = SessionState {
            workloads: Vec::new(),
            target,
            factors,
            proxies: &proxies,
            not_restored: Vec::new(),
        };
        let ended = self.trials(design, &mut lasting);
        // Created files are removed in any case, even if the record could not be written.
        let mut cleaned = Ok(());
        for workload in lasting.workloads.iter_mut().rev() {
            cleaned = cleaned.and(workload.clean_up());
        }
        drop(lasting.workloads);
        // After the clean-up, which may need the target.
        let mut left = lasting.target.as_mut().map(SystemUnderTest::stop).unwrap_or_default();
        left.extend(lasting.factors.undo());
        let lost = self.machines.iter().flat_map(|machines| machines.borrow_mut().end());
        left.extend(lost.map(|why| format!("{why}; {LEFT}")));
        let mut remains: Vec<String> = cleaned.err().map(|error| error.to_string()).into_iter().collect();
        remains.extend(end_made(self.journal, self.registry.workloads)?);
        if !left.is_empty() {
            remains.push(format!("what was started could not be stopped: {}", left.join("; ")));
        }
        Ok(ended?.leaving(remains))
    }

    fn trials(&self, design: &dyn Design, lasting: &mut SessionState<'_>) -> Result<Ended, RecordError> {
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
                return Ok(Ended::Interrupted(Vec::new()));
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
            self.subscriber.happens(&RunEvent::Trial { decision: &decision, planned });
            let ending = self.trial(&decision, lasting)?;
            let (record, damage) = record::read_trial(&self.directory.trial_path(&decision.trial.id()))?;
            study.runs.push(record);
            study.damage.extend(damage);
            if !lasting.not_restored.is_empty() {
                let left = std::mem::take(&mut lasting.not_restored).join("; ");
                return Ok(Ended::Failed(format!("the next trial would start from another state: {left}")));
            }
            match ending {
                Ending::Interrupted => return Ok(Ended::Interrupted(Vec::new())),
                // No trial has completed yet: the next one would fail in the same way.
                Ending::Failed(why) if !study.runs.iter().any(|of| of.run.ending == Ending::Completed) => {
                    return Ok(Ended::Failed(why));
                }
                _ => {}
            }
        }
    }

    fn trial(&self, decision: &Decision, lasting: &mut SessionState<'_>) -> Result<Ending, RecordError> {
        let trial = &decision.trial;
        let stream = Stream::new(self.directory.trial(&trial.id())?, self.subscriber);
        // Completed when the treatment is configured.
        let load = Load::of_workload(None);
        let kind = &self.experiment.workload.kind;
        let mut run = Run::begun(trial.clone(), kind, load, crate::clock::unix_ns());
        let kept = self.machines.and_then(|machines| machines.borrow().inputs());
        if let Some(kept) = &kept {
            for name in kept.changed() {
                let text = format!("{name} has changed: the run uses what it read at its start");
                self.subscriber.happens(&RunEvent::Note(&text));
                stream.event(0.0, EventKind::Setting, text);
            }
        }
        let Session { experiment, registry, .. } = self;
        let ending = match make_ready(experiment, registry, &trial.treatment, lasting.proxies, kept.as_ref())
        {
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

    /// Starts the target, prepares, sets the factors, measures and undoes. Returns the ending if the trial
    /// ended before its clock began.
    fn ready_trial(
        &self,
        ready: Ready<'_>,
        stream: &Stream<'_>,
        lasting: &mut SessionState<'_>,
        run: &mut Run,
    ) -> Option<Ending> {
        let Ready { mut workload, settings, load, shape, applied, inputs } = ready;
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
        if self.experiment.varies_target()
            && let Some(target) = &applied.target
        {
            run.asked.extend(varied_of_target(self.experiment, target));
        }
        stream.run(run);
        for (setting, name, written, address) in lasting.proxies.replaced(&applied.workload) {
            let text =
                format!("workload.{setting}: {written} is replaced by {address}, the proxy of `{name}`");
            stream.event(0.0, EventKind::Setting, text);
        }
        let on = |variation: &Variation, workload: &dyn Workload| {
            factor_target(&self.root, self.experiment, workload, variation, Vec::new())
        };
        let at = |moment: Moment| {
            let is_then = |(variation, _): &&(Cow<'_, Variation>, Level)| {
                let kind = self.registry.factor(&variation.factor.0);
                kind.map_or(Moment::Prepared, |kind| (kind.moment)(&on(variation, &*workload))) == moment
            };
            applied.factors.iter().filter(is_then).collect::<Vec<_>>()
        };
        let (below, stopped) = (at(Moment::BeforeData), at(Moment::Stopped));
        let late = [at(Moment::Beside), at(Moment::Prepared)].concat();
        let has_own_place = !below.is_empty();
        for (variation, level) in at(Moment::Lasting) {
            let on = on(variation, &*workload);
            if let Err(why) = lasting.factors.set_level(variation, level, &on, None, stream, run) {
                return Some(Ending::Failed(why));
            }
        }
        let restarts = has_own_place || !stopped.is_empty() || self.experiment.varies_target();
        if let Some(target) = &mut lasting.target
            && restarts
        {
            let left = target.stop();
            if !left.is_empty() {
                return Some(Ending::Failed(format!("the target was not stopped: {}", left.join("; "))));
            }
            if let Some(wanted) = &applied.target {
                target.become_target(lasting.proxies.target(wanted));
            }
        }
        let mut before_start = FactorChanges::new(self);
        for (variation, level) in below.into_iter().chain(stopped) {
            let on = on(variation, &*workload);
            if let Err(why) = before_start.set_level(variation, level, &on, None, stream, run) {
                return Some(before_start.give_up(why, lasting));
            }
        }
        // What will hold the data of the load exists only now.
        if has_own_place {
            let problems = workload.check();
            if !problems.0.is_empty() {
                return Some(before_start.give_up(problems.to_string(), lasting));
            }
        }
        // A target that was started with the levels of this trial cannot be used for the next one.
        let ends_with_trial =
            restarts || self.experiment.target.as_ref().is_some_and(model::Target::restarts_each_trial);
        let machine_trial = MachineTrial {
            workload: &self.experiment.workload.kind,
            settings: &settings,
            load: &load,
            shape: Some(&shape),
            seed: self.seed_of(run),
            sample_every: self.experiment.sample_every,
            target: self.experiment.target.as_ref(),
            inputs: &inputs,
        };
        let ending = self.measured_trial(&mut workload, machine_trial, late, stream, lasting, run);
        before_start.facts(run);
        workload.release();
        if has_own_place {
            // Its data ends with this trial, so nothing may keep it open.
            if let Err(error) = workload.clean_up() {
                stream.event(end_of(run), EventKind::Setting, error.in_line());
            }
            drop(workload);
        } else {
            lasting.workloads.push(workload);
        }
        if let Some(target) = &mut lasting.target
            && ends_with_trial
        {
            for left in target.stop() {
                stream.event(end_of(run), EventKind::Setting, format!("the target was not stopped: {left}"));
            }
        }
        before_start.end(stream, run, lasting);
        ending
    }

    /// The part of a trial during which the target runs.
    fn measured_trial(
        &self,
        workload: &mut Box<dyn Workload>,
        trial: MachineTrial<'_>,
        factors: Vec<&(Cow<'_, Variation>, Level)>,
        stream: &Stream<'_>,
        lasting: &mut SessionState<'_>,
        run: &mut Run,
    ) -> Option<Ending> {
        let mut watch: Vec<String> =
            self.experiment.watch.iter().map(|entry| self.registry.watch_entry(entry.reveal())).collect();
        if let Some(target) = lasting.target.as_mut() {
            let mut say = |text: &str| self.subscriber.happens(&RunEvent::Preparing(text));
            match target.ensure_running(&mut say, self.interrupted) {
                Ok(()) => {}
                Err(Absent::Interrupted) => return Some(Ending::Interrupted),
                Err(Absent::Failed(why)) => return Some(Ending::Failed(why)),
            }
            add_target(&mut watch, target.watch());
        }
        if self.experiment.target.as_ref().is_some_and(|target| target.machine().is_some()) {
            watched_on("", None, &mut watch);
        }
        let target = &lasting.target;
        let mut say = |text: &str| {
            self.subscriber.happens(&RunEvent::Preparing(text));
            !self.interrupted.load(Ordering::Relaxed)
        };
        let mut machines = self.machines.map(RefCell::borrow_mut);
        let others_drive = machines.as_ref().is_some_and(|machines| machines.drive());
        let mut prepared = Ok(());
        if !others_drive {
            workload.announce_to(&self.journal.announcements(&self.experiment.workload.kind));
            prepared = workload.prepare(trial.seed, &mut say);
            run.facts = workload.facts();
        }
        if let (Some(machines), Ok(())) = (&mut machines, &prepared) {
            let mut say = |text: &str| self.subscriber.happens(&RunEvent::Preparing(text));
            let counts = |name: &String| !run.traits.derived.iter().any(|derived| derived == name);
            let operations: Vec<_> = run.operations.iter().map(|name| (name.clone(), counts(name))).collect();
            match machines.prepare(trial, &operations, &mut say) {
                Ok(facts) => {
                    run.facts.extend(facts);
                    let (part, all) = machines.taking_part();
                    if part < all {
                        self.subscriber.happens(&RunEvent::Machines(part, all));
                    }
                }
                Err(ending) => {
                    run.machines = machines.finish();
                    return Some(ending);
                }
            }
        }
        run.facts.extend(target.as_ref().map(SystemUnderTest::facts).unwrap_or_default());
        // Checked first, because an interrupt makes the preparation fail.
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(Ending::Interrupted);
        }
        let target_ended = || target.as_ref().and_then(SystemUnderTest::ended);
        if let Err(error) = prepared {
            return Some(Ending::Failed(target_ended().unwrap_or_else(|| error.in_line())));
        }
        // Factors are set after the preparation, so that a limit does not slow the creation of data.
        let mut turning = FactorChanges::new(self);
        for (variation, level) in factors {
            let processes = target.as_ref().map(SystemUnderTest::processes).unwrap_or_default();
            let on = factor_target(&self.root, self.experiment, &**workload, variation, processes);
            let others = as_machines(&mut machines);
            if let Err(why) = turning.set_level(variation, level, &on, others, stream, run) {
                let why = target_ended().unwrap_or(why);
                return Some(turning.give_up(why, lasting));
            }
        }
        if self.experiment.prove && run.trial.treatment == Treatment::Baseline {
            let processes = target.as_ref().map(SystemUnderTest::processes).unwrap_or_default();
            let others = as_machines(&mut machines);
            run.settable = self.settable(&**workload, &processes, &turning.factors, others);
            let of_host = |path: &String| {
                let kind = self.registry.factors.iter().find(|kind| kind.info.path == path)?;
                Some((path.clone(), kind.info.resource?))
            };
            run.factor_resources = run.settable.keys().filter_map(of_host).collect();
        }
        let mut sampler = Sampler::open(self.registry.sources, &self.root, &watch);
        let mut crew = None;
        if let Some(machines) = &mut machines {
            for (name, source) in machines.sources() {
                sampler.add(name, Ok(source));
            }
            if others_drive {
                crew = Some(machines.crew());
            } else {
                machines.crew().start();
            }
        }
        let observed = RefCell::new((&mut lasting.factors, &mut turning, Vec::new()));
        let on_measured = |begins: bool| {
            let (lasting, turning, traces) = &mut *observed.borrow_mut();
            for (path, factor) in lasting.factors.iter_mut().chain(&mut turning.factors) {
                match begins {
                    true => factor.begin_measured(),
                    false => traces.extend(factor.end_measured().map(|trace| (path.clone(), trace))),
                }
            }
        };
        measure(
            Measurement {
                workload: &**workload,
                machines: crew,
                load: trial.load,
                shape: &run.load.shape.clone().unwrap_or_else(|| workload.default_shape()),
                seed: trial.seed,
                sampler,
                sample_every: self.experiment.sample_every,
                stream,
                interrupted: self.interrupted,
                answers: self.answers,
                target_ended: &target_ended,
                on_measured: &on_measured,
            },
            run,
        );
        let (_, _, traces) = observed.into_inner();
        if let Some(machines) = &mut machines {
            run.machines = machines.finish();
            if others_drive {
                let ended = machines.facts();
                // What was known before the load may have changed.
                for name in ended.iter().flat_map(|(_, facts)| facts.keys()) {
                    run.facts.remove(name);
                }
                run.facts.extend(combine_facts(&ended, &|fact| workload.combined(fact)));
                run.generator = GeneratorUse::of_machines(&run.machines, run.generator.wall_s);
            }
        }
        // A load that lost its server reports its own error; this is the cause.
        if run.ending != Ending::Interrupted
            && let Some(why) = target_ended()
        {
            run.ending = Ending::Failed(why);
        }
        lasting.factors.facts(run);
        turning.facts(run);
        if let Some(steps) = steps(self.experiment, &traces, &run.facts) {
            stream.steps(&steps);
        }
        turning.end(stream, run, lasting);
        None
    }
}

/// Prefix of the factors of host resources, which are changed to prove which one is the limit.
pub(crate) const HOST: &str = "host.";

impl Session<'_> {
    /// Other offsets than in the previous trial: the same ones would be answered by a cache below.
    fn seed_of(&self, run: &Run) -> u64 {
        self.experiment.seed ^ mix(u64::from(run.trial.number))
    }

    /// How each resource can be changed now, although some factors may already be set. Changes nothing.
    fn settable(
        &self,
        workload: &dyn Workload,
        processes: &[u32],
        applied: &[(String, Box<dyn Factor>)],
        mut machines: OtherMachines<'_>,
    ) -> BTreeMap<String, Settable> {
        let mut found = BTreeMap::new();
        for kind in self.registry.factors {
            let path = kind.info.path;
            let varied = self.experiment.vary.iter().find(|variation| variation.factor.0 == path);
            let variation = varied.cloned().unwrap_or_else(|| unvaried(path));
            let on = factor_target(&self.root, self.experiment, workload, &variation, processes.to_vec());
            if !path.starts_with(HOST) || kind.info.needs_on || (kind.moment)(&on) != Moment::Prepared {
                continue;
            }
            // An active factor knows the previous state, and so the maximum.
            let of_applied = applied.iter().find(|(applied, _)| applied == path);
            let settable = match of_applied {
                Some((_, factor)) => settable(&**factor),
                None => {
                    let machines = machines.as_mut().map(|machines| &mut **machines as _);
                    open(self.experiment, kind, &on, machines).and_then(|factor| settable(&*factor))
                }
            };
            found.insert(path.to_string(), settable.unwrap_or_else(|why| Settable::No(why.0)));
        }
        found
    }
}

/// The current level of a factor, and a lower and a higher level that can be set.
fn settable(factor: &dyn Factor) -> Result<Settable, Unavailable> {
    let in_force = factor.read()?;
    let scaled = |share| factor.scaled(share).and_then(|level| factor.check(&level).map(|()| level));
    match (scaled(PROOF_SHARE), scaled(1.0 / PROOF_SHARE)) {
        (Err(why), Err(_)) => Err(why),
        (reduced, raised) => Ok(Settable::Yes { in_force, reduced: reduced.ok(), raised: raised.ok() }),
    }
}

/// The end of the last phase of a run.
pub(crate) fn end_of(run: &Run) -> f64 {
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

/// Creates a new run directory and its plan.
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

/// The number of trials including repetitions of interrupted or failed ones: those before the next one, and
/// the planned ones that are not complete.
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

    /// A resource with the current level 100 and this maximum.
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
        let yes = |reduced: Option<f64>, raised: Option<f64>| Settable::Yes {
            in_force: Level::Number(100.0),
            reduced: reduced.map(Level::Number),
            raised: raised.map(Level::Number),
        };
        assert_eq!(settable(&Limit(1000.0)).unwrap(), yes(Some(70.0), Some(142.0)));
        assert_eq!(settable(&Limit(100.0)).unwrap(), yes(Some(70.0), None));
        assert_eq!(settable(&Limit(10.0)).unwrap_err().0, "70 is too much");
    }
}
