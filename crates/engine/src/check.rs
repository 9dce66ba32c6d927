//! Checks whether an experiment can be executed, before anything is changed.

use std::collections::BTreeSet;

use model::experiment::Proxies;
use model::goal::METRIC_WORDS;
use model::load::LIMIT;
use model::problem::near_word;
use model::{Change, Experiment, Problem, Problems, Search, Settings, Treatment};

use crate::factor::{FactorKind, FactorTarget, Moment};
use crate::factor_changes::open;
use crate::machines::{MachineTrial, Machines};
use crate::session::{HOST, Ready, Registry, factor_target, make_ready};
use crate::source::HostRoot;
use crate::target;

/// Operations that are listed beside an unknown one.
const LISTED_MAX: usize = 12;

/// Checks whether this experiment can be executed here: configures every treatment and checks every factor,
/// without any change. `notes` receives what the loads reach, each once.
pub fn check(
    experiment: &Experiment,
    registry: &Registry,
    root: &HostRoot,
    notes: &mut Vec<String>,
) -> Problems {
    let mut problems = ProblemCollector::of(experiment);
    problems.add(contradictions_of_design(experiment));
    // The proxies of dependencies do not run yet.
    let proxies = Proxies::absent(&experiment.dependencies);
    if let Some(target) = &experiment.target {
        problems.add(target::check(&proxies.target(target), &experiment.folder, root));
    }
    if !experiment.machines.load.is_empty() && !experiment.dependencies_of_load().is_empty() {
        let what = "the load would connect to the proxy of a dependency, which other machines cannot reach";
        let help = "remove the dependency, or `machines.load` (`--on`)";
        problems.add(Problem::new(what, help).into());
    }
    let mut operations = BTreeSet::new();
    let mut all_known = true;
    for treatment in &treatments(experiment) {
        let ready = match make_ready(experiment, registry, treatment, &proxies, None) {
            Ok(ready) => ready,
            Err(found) => {
                problems.add(found);
                all_known = false;
                continue;
            }
        };
        operations.extend(ready.workload.operations());
        if let Some(target) = &ready.applied.target {
            problems.add(target::check(&proxies.target(target), &experiment.folder, root));
        }
        // Machines that drive the load check it themselves: see `check_on_machines`.
        let drives = experiment.machines.load.is_empty();
        // Where a factor makes the place of the load's data, the trial checks this place.
        if drives && !has_own_place(experiment, registry, root, &ready) {
            problems.add(ready.workload.check());
        }
        if drives
            && !experiment.target.as_ref().is_some_and(target::is_started_by_us)
            && !may_use_a_proxy(experiment)
        {
            let mut reached = Vec::new();
            problems.add(ready.workload.reach(&mut reached));
            reached.retain(|note| !notes.contains(note));
            notes.append(&mut reached);
        }
        for (variation, level) in &ready.applied.factors {
            let path = &variation.factor.0;
            let Some(kind) = registry.factor(path) else {
                let what = format!("there is no factor `{path}`");
                let problem = Problem::new(what, "`plimsoll schema` lists them");
                problems.add(Problem { line: variation.line, ..problem }.into());
                continue;
            };
            let target = factor_target(root, experiment, &*ready.workload, variation, Vec::new());
            if let Some(machine) = machine_of(experiment, kind) {
                let moment = (kind.moment)(&target);
                if !matches!(moment, Moment::Prepared | Moment::Beside) {
                    let what = format!("{path} cannot be set on machine {machine}");
                    let help = "it needs the data of the load, or a target that Plimsoll starts: both are only on this machine";
                    let problem = Problem::new(what, help);
                    problems.add(Problem { line: variation.line, ..problem }.into());
                }
                // The machine checks the level: see `check_on_machines`.
                continue;
            }
            if !drives && is_of_load(&target, kind, experiment) {
                let what = format!("{path} would be set on this machine, but other machines drive the load");
                let help = "Plimsoll sets factors on its own machine only: run it on the machine of the factor, or remove `machines.load` (`--on`)";
                let problem = Problem::new(what, help);
                problems.add(Problem { line: variation.line, ..problem }.into());
                continue;
            }
            if (kind.moment)(&target) == Moment::BeforeData && variation.baseline.is_none() {
                let what = format!("{path} has no baseline: a trial without it would write to another place");
                let problem = Problem::new(what, "set `baseline` to the level to compare with");
                problems.add(Problem { line: variation.line, ..problem }.into());
                continue;
            }
            if let Err(why) = (kind.open)(&target).and_then(|factor| factor.check(level)) {
                let problem = Problem::new(format!("{path} cannot be set to {level}: {why}"), "");
                problems.add(Problem { line: variation.line, ..problem }.into());
            }
        }
    }
    if all_known {
        problems.add(unknown_operations(experiment, &operations));
    }
    problems.all
}

/// Asks the machines of an experiment whether they can take part in every trial of it. Changes nothing.
pub fn check_on_machines(
    experiment: &Experiment,
    registry: &Registry,
    root: &HostRoot,
    machines: &mut dyn Machines,
) -> Problems {
    let mut problems = ProblemCollector::of(experiment);
    let proxies = Proxies::absent(&experiment.dependencies);
    let kept = machines.inputs();
    let mut checked: Vec<Settings> = Vec::new();
    for treatment in &treatments(experiment) {
        let ready = match make_ready(experiment, registry, treatment, &proxies, kept.as_ref()) {
            Ok(ready) => ready,
            // What is wrong without machines is reported by `check`; files may be too large to be sent.
            Err(found) => {
                problems.add(found);
                continue;
            }
        };
        for (variation, level) in &ready.applied.factors {
            let path = &variation.factor.0;
            let Some(kind) = registry.factor(path) else { continue };
            if machine_of(experiment, kind).is_none() {
                continue;
            }
            let target = factor_target(root, experiment, &*ready.workload, variation, Vec::new());
            let opened = open(experiment, kind, &target, Some(machines));
            if let Err(why) = opened.and_then(|factor| factor.check(level)) {
                let problem = Problem::new(format!("{path} cannot be set to {level}: {why}"), "");
                problems.add(Problem { line: variation.line, ..problem }.into());
            }
        }
        if checked.contains(&ready.settings) {
            continue;
        }
        problems.add(machines.check(MachineTrial {
            workload: &experiment.workload.kind,
            settings: &ready.settings,
            load: &ready.load,
            shape: Some(&ready.shape),
            seed: experiment.seed,
            sample_every: experiment.sample_every,
            target: experiment.target.as_ref(),
            inputs: &ready.inputs,
        }));
        checked.push(ready.settings);
    }
    problems.all
}

/// The machine where a factor is set; none for this one.
pub(crate) fn machine_of<'a>(experiment: &'a Experiment, kind: &FactorKind) -> Option<&'a str> {
    experiment.target.as_ref()?.machine().filter(|_| !kind.info.of_dependency)
}

/// Whether a factor acts on the load of this machine, and not on a system under test or a dependency.
fn is_of_load(target: &FactorTarget, kind: &FactorKind, experiment: &Experiment) -> bool {
    (kind.moment)(target) == Moment::BeforeData
        || experiment.target.is_none() && kind.info.path.starts_with(HOST) && !kind.info.of_dependency
}

/// Whether a factor makes the place of the load's data for each trial.
fn has_own_place(experiment: &Experiment, registry: &Registry, root: &HostRoot, ready: &Ready<'_>) -> bool {
    ready.applied.factors.iter().any(|(variation, _)| {
        let target = factor_target(root, experiment, &*ready.workload, variation, Vec::new());
        let kind = registry.factor(&variation.factor.0);
        kind.is_some_and(|kind| (kind.moment)(&target) == Moment::BeforeData)
    })
}

/// Goals on operations that no treatment has: they would never be measured.
fn unknown_operations(experiment: &Experiment, operations: &BTreeSet<String>) -> Problems {
    let mut problems = Problems::new();
    let limits = experiment.limit.iter().map(|goal| (goal, Some(&*LIMIT)));
    for (goal, setting) in experiment.goals.iter().map(|goal| (goal, None)).chain(limits) {
        let Some(name) = goal.operation.as_ref().filter(|name| !operations.contains(*name)) else { continue };
        let known = operations.iter().map(String::as_str);
        let help = match near_word(name, known.clone().chain(METRIC_WORDS)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let listed: Vec<String> = known.take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
                let more = operations.len().saturating_sub(LISTED_MAX);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("one of {}{more}", listed.join(", "))
            }
        };
        let problem = Problem::new(format!("`{}`: there is no operation `{name}`", goal.text), help);
        problems.push(problem.about(setting.as_slice()).at(goal.place));
    }
    problems
}

/// The contradictions among the settings of an experiment with `known` problems, except those of the settings
/// in these problems. Neither the host nor the system under test is queried.
pub fn contradictions(experiment: &Experiment, registry: &Registry, known: &Problems) -> Problems {
    let is_known = |problem: &Problem| {
        known.0.iter().any(|other| {
            other.what == problem.what || other.settings.iter().any(|name| problem.settings.contains(name))
        })
    };
    let mut problems = ProblemCollector::of(experiment);
    let mut of_design = contradictions_of_design(experiment);
    of_design.0.retain(|problem| !is_known(problem));
    problems.add(of_design);
    let proxies = Proxies::absent(&experiment.dependencies);
    for treatment in &treatments(experiment) {
        if let Err(mut found) = make_ready(experiment, registry, treatment, &proxies, None) {
            found.0.retain(|problem| !is_known(problem));
            problems.add(found);
        }
    }
    problems.all
}

/// The contradictions between what is asked and what is varied.
fn contradictions_of_design(experiment: &Experiment) -> Problems {
    let mut problems = model::limit::contradictions(experiment);
    problems.extend(model::gate::contradictions(experiment));
    problems.extend(model::experiment::target::contradictions(experiment));
    problems
}

/// The baseline, and each level separately. Of a search, also its smallest and its largest load.
pub(crate) fn treatments(experiment: &Experiment) -> Vec<Treatment> {
    let ends = Search::of(experiment).into_iter().flat_map(|search| {
        [search.min, search.max].map(|load| Treatment::Probe(search.probe(&[], load, true)))
    });
    let changes = experiment.vary.iter().flat_map(|variation| {
        let change = |level: &model::Level| Change { factor: variation.factor.clone(), level: level.clone() };
        variation.levels.iter().map(change)
    });
    [Treatment::Baseline].into_iter().chain(changes.map(Treatment::OneChange)).chain(ends).collect()
}

/// Collects problems, each once and with its line.
struct ProblemCollector<'a> {
    experiment: &'a Experiment,
    all: Problems,
}

impl ProblemCollector<'_> {
    fn of(experiment: &Experiment) -> ProblemCollector<'_> {
        ProblemCollector { experiment, all: Problems::new() }
    }

    fn add(&mut self, found: Problems) {
        let Experiment { workload, load, .. } = self.experiment;
        for problem in found.0 {
            // A variation keeps the line of the setting itself.
            let problem = problem.on_line_of(&workload.settings).on_line_of(load);
            if !self.all.0.contains(&problem) {
                self.all.push(problem);
            }
        }
    }
}

/// Whether the load may connect to the proxy of a dependency by its own address, for example in a scenario: nothing listens
/// there before the run.
fn may_use_a_proxy(experiment: &Experiment) -> bool {
    experiment.dependencies_of_load().is_empty()
        && experiment.dependencies.iter().any(|dependency| dependency.listen.is_some())
}
