//! A whole experiment: check, then trial after trial as the design decides, each put back and kept before the next.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use model::design::Next;
use model::{
    Decision, Design, Doubt, DoubtKind, Ending, EventKind, Experiment, Level, Load, Plan, Problem, Problems,
    Run, Settings, Shape, Study, Treatment, Vocabulary, WarmUp,
};
use record::{PLAN_FORMAT, RecordError, RunDirectory};

use crate::factor::{Factor, FactorKind, FactorTarget};
use crate::random::mix;
use crate::restore::{CarryOut, Turned};
use crate::sampler::Sampler;
use crate::source::{HostRoot, SourceKind};
use crate::stream::{Happening, Stream, Subscriber};
use crate::trial::{Measurement, measure};
use crate::workload::{Workload, WorkloadKind};

/// Everything that plugs into the engine; composed by the program.
#[derive(Clone, Copy)]
pub struct Registry {
    /// What can be driven.
    pub workloads: &'static [&'static dyn WorkloadKind],
    /// What can be read.
    pub sources: &'static [SourceKind],
    /// What can be turned.
    pub factors: &'static [FactorKind],
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
        }
    }

    fn workload(&self, name: &str) -> Option<&'static dyn WorkloadKind> {
        self.workloads.iter().copied().find(|kind| kind.info().name == name)
    }

    fn factor(&self, path: &str) -> Option<&'static FactorKind> {
        self.factors.iter().find(|kind| kind.info.path == path)
    }
}

/// The settings of one treatment.
struct Applied {
    workload: Settings,
    load: Settings,
    /// Levels for factors to put in force, in the order the experiment names them.
    factors: Vec<(String, Level, Option<String>)>,
}

/// What holds in a treatment: the experiment's settings, the factors' baselines, the treatment's changes.
fn apply(experiment: &Experiment, treatment: &Treatment) -> Applied {
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
            _ => applied.factors.push((variation.factor.0.clone(), level.clone(), variation.on.clone())),
        }
    }
    applied
}

/// A treatment made ready: configured, its load known.
struct Ready {
    workload: Box<dyn Workload>,
    load: Load,
    shape: Shape,
    applied: Applied,
}

fn make_ready(
    experiment: &Experiment,
    registry: &Registry,
    treatment: &Treatment,
) -> Result<Ready, Problems> {
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
    match (load, workload) {
        (Some(mut load), Some(workload)) => {
            let shape = load.shape.clone().unwrap_or_else(|| workload.default_shape());
            if workload.ends_by_itself() {
                // Work that ends by itself has no warm-up to spare, and is measured to its end unless told otherwise.
                if load.warm_up == WarmUp::Auto {
                    load.warm_up = WarmUp::For(0);
                }
                if !applied.load.given("measure") {
                    load.measure = None;
                }
            } else if load.measure.is_none() {
                problems.push(
                    Problem::new(
                        format!(
                            "the {} workload does not end by itself: it must be told how long to measure",
                            experiment.workload.kind
                        ),
                        "",
                    )
                    .about(&["measure"])
                    .or_set("measure", Level::Text("30s".into())),
                );
            }
            problems.or(Ready { workload, load, shape, applied })
        }
        _ => Err(problems),
    }
}

fn factor_target(root: &HostRoot, workload: &dyn Workload, on: Option<&String>) -> FactorTarget {
    FactorTarget {
        root: root.clone(),
        processes: vec![std::process::id()],
        on: on.cloned(),
        files: workload.files(),
    }
}

/// Could this experiment be carried out here? Every treatment is configured and every factor asked; nothing is touched.
pub fn check(experiment: &Experiment, registry: &Registry, root: &HostRoot) -> Problems {
    let mut problems = Problems::new();
    let mut add = |found: Problems| {
        for problem in found.0 {
            // A variation keeps the line on which the setting itself is written.
            let problem = problem.on_line_of(&experiment.workload.settings).on_line_of(&experiment.load);
            if !problems.0.contains(&problem) {
                problems.push(problem);
            }
        }
    };
    if experiment.target.is_some() {
        let help = "start the system under test yourself, and leave [target] out";
        add(Problem::new("[target] is read but not carried out by this version", help).into());
    }
    let mut treatments = vec![Treatment::Baseline];
    for variation in &experiment.vary {
        for level in &variation.levels {
            treatments.push(Treatment::OneChange(model::Change {
                factor: variation.factor.clone(),
                level: level.clone(),
            }));
        }
    }
    for treatment in &treatments {
        let ready = match make_ready(experiment, registry, treatment) {
            Ok(ready) => ready,
            Err(found) => {
                add(found);
                continue;
            }
        };
        add(ready.workload.check());
        for (path, level, on) in &ready.applied.factors {
            let Some(kind) = registry.factor(path) else {
                add(Problem::new(format!("there is no factor `{path}`"), "`plimsoll schema` lists them")
                    .into());
                continue;
            };
            let target = factor_target(root, &*ready.workload, on.as_ref());
            if let Err(why) = (kind.open)(&target).and_then(|factor| factor.check(level)) {
                add(Problem::new(format!("{path} cannot be set to {level}: {why}"), "").into());
            }
        }
    }
    problems
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
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// Who listens.
    pub subscriber: &'a dyn Subscriber,
}

impl Session<'_> {
    /// Carries out trial after trial until the design has enough. What the directory already holds counts: this is
    /// also how an interrupted experiment is resumed.
    pub fn carry_out(&self, design: &dyn Design) -> Result<Ended, RecordError> {
        // Workloads stay until the end, so that a file made for one trial serves the next.
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        let ended = self.trials(design, &mut workloads);
        // What was made is removed however it ended, also when the record could not be written.
        let mut cleaned = Ok(());
        for workload in workloads.iter_mut().rev() {
            cleaned = cleaned.and(workload.clean_up());
        }
        match (ended?, cleaned) {
            (Ended::Complete, Err(error)) => Ok(Ended::Failed(error.to_string())),
            (ended, _) => Ok(ended),
        }
    }

    fn trials(
        &self,
        design: &dyn Design,
        workloads: &mut Vec<Box<dyn Workload>>,
    ) -> Result<Ended, RecordError> {
        let mut study: Study = record::read(self.directory.path())?;
        let mut plan = study.plan.take().unwrap_or_else(|| Plan {
            format: PLAN_FORMAT.into(),
            experiment: self.experiment.clone(),
            decisions: Vec::new(),
            enough: None,
        });
        plan.enough = None;
        let mut journal = self.directory.journal()?;
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
            let planned = design.planned().map(|trials| trials.len());
            self.subscriber.happens(&Happening::Trial { decision: &decision, planned });
            let ending = self.trial(&decision, &mut journal, workloads)?;
            let (record, damage) = record::read_trial(&self.directory.trial_path(&decision.trial.id()))?;
            study.runs.push(record);
            study.damage.extend(damage);
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

    fn trial(
        &self,
        decision: &Decision,
        journal: &mut record::Journal,
        workloads: &mut Vec<Box<dyn Workload>>,
    ) -> Result<Ending, RecordError> {
        let trial = &decision.trial;
        let stream = Stream::new(self.directory.trial(&trial.id())?, self.subscriber);
        // Filled in once the treatment is made ready.
        let load = Load { shape: None, warm_up: WarmUp::Auto, measure: None, interval: model::SECOND };
        let kind = &self.experiment.workload.kind;
        let mut run = Run::begun(trial.clone(), kind, load, crate::clock::unix_ns());
        let ending = match make_ready(self.experiment, &self.registry, &trial.treatment) {
            Ok(ready) => self.ready_trial(ready, &stream, journal, workloads, &mut run),
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

    /// Turns the factors, prepares, measures and puts back. Returns how the trial ended when it did before its clock began.
    fn ready_trial(
        &self,
        ready: Ready,
        stream: &Stream<'_>,
        journal: &mut record::Journal,
        workloads: &mut Vec<Box<dyn Workload>>,
        run: &mut Run,
    ) -> Option<Ending> {
        let Ready { mut workload, load, shape, applied } = ready;
        run.load = Load { shape: Some(shape.clone()), ..load.clone() };
        run.operations = workload.operations();
        for (name, setting) in &applied.workload.0 {
            run.asked.insert(format!("workload.{name}"), setting.level.clone());
        }
        for (name, setting) in &applied.load.0 {
            run.asked.insert(format!("load.{name}"), setting.level.clone());
        }
        stream.run(run);
        let mut say = |text: &str| {
            self.subscriber.happens(&Happening::Preparing(text));
            !self.interrupted.load(Ordering::Relaxed)
        };
        // Other places than the trial before: repeating them would be answered by a cache below.
        let seed = self.experiment.seed ^ mix(u64::from(run.trial.number));
        let prepared = workload.prepare(seed, &mut say);
        workloads.push(workload);
        let Some(workload) = workloads.last() else { return Some(Ending::Interrupted) };
        run.facts = workload.facts();
        // Asked first: whoever stops the preparation makes it fail.
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(Ending::Interrupted);
        }
        if let Err(error) = prepared {
            return Some(Ending::Failed(error.in_line()));
        }
        // Turned after preparing, so that a limit under test does not also slow the making of its data.
        let mut turned = Turned::new(journal, self.registry.carry_out);
        let mut factors: Vec<Box<dyn Factor>> = Vec::new();
        for (path, level, on) in &applied.factors {
            run.asked.insert(path.clone(), level.clone());
            let target = factor_target(&self.root, &**workload, on.as_ref());
            match self.turn(path, level, &target, &mut turned, stream) {
                Ok((factor, in_force)) => {
                    if in_force != *level {
                        run.doubts.push(Doubt::new(
                            DoubtKind::NotInForce,
                            format!("{path} was set to {level}, but {in_force} is in force"),
                            "something else holds this setting: look for another manager of it",
                        ));
                    }
                    run.in_force.insert(path.clone(), in_force);
                    factors.push(factor);
                }
                Err(why) => {
                    let left = turned.put_back();
                    return Some(Ending::Failed(
                        [vec![format!("{path}={level}: {why}")], left].concat().join("; "),
                    ));
                }
            }
        }
        let sampler = Sampler::open(self.registry.sources, &self.root, &self.experiment.watch);
        measure(
            Measurement {
                workload: &**workload,
                load: &load,
                shape: &shape,
                seed,
                sampler,
                sample_every: self.experiment.sample_every,
                stream,
                interrupted: self.interrupted,
            },
            run,
        );
        drop(factors);
        for left in turned.put_back() {
            let at_s = run.phases.last().map_or(0.0, |span| span.end_s);
            stream.event(at_s, EventKind::Setting, format!("could not be put back: {left}"));
        }
        None
    }

    fn turn(
        &self,
        path: &str,
        level: &Level,
        target: &FactorTarget,
        turned: &mut Turned<'_>,
        stream: &Stream<'_>,
    ) -> Result<(Box<dyn Factor>, Level), String> {
        let kind = self.registry.factor(path).ok_or_else(|| format!("there is no factor `{path}`"))?;
        let mut factor = (kind.open)(target).map_err(|why| why.0)?;
        factor.check(level).map_err(|why| why.0)?;
        turned.announce(path, &*factor)?;
        let settling = factor.set(level).map_err(|why| why.0)?;
        std::thread::sleep(std::time::Duration::from_nanos(settling));
        let in_force = factor.read().map_err(|why| why.0)?;
        stream.event(0.0, EventKind::Setting, format!("{path} = {in_force}"));
        Ok((factor, in_force))
    }
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
