//! Whether an experiment can be carried out, found out before anything is touched.

use model::{Change, Experiment, Problem, Problems, Treatment};

use crate::session::{Registry, factor_target, make_ready};
use crate::source::HostRoot;
use crate::target;

/// Could this experiment be carried out here? Every treatment is configured and every factor asked; nothing is touched.
pub fn check(experiment: &Experiment, registry: &Registry, root: &HostRoot) -> Problems {
    let mut problems = Found::of(experiment);
    if let Some(target) = &experiment.target {
        problems.add(target::check(target, &experiment.folder, root));
    }
    for treatment in &treatments(experiment) {
        let ready = match make_ready(experiment, registry, treatment) {
            Ok(ready) => ready,
            Err(found) => {
                problems.add(found);
                continue;
            }
        };
        problems.add(ready.workload.check());
        if !experiment.target.as_ref().is_some_and(target::is_started_by_us) {
            problems.add(ready.workload.reach());
        }
        for (variation, level) in &ready.applied.factors {
            let path = &variation.factor.0;
            let Some(kind) = registry.factor(path) else {
                let what = format!("there is no factor `{path}`");
                problems.add(Problem::new(what, "`plimsoll schema` lists them").into());
                continue;
            };
            let target = factor_target(root, experiment, &*ready.workload, variation, Vec::new());
            if let Err(why) = (kind.open)(&target).and_then(|factor| factor.check(level)) {
                problems.add(Problem::new(format!("{path} cannot be set to {level}: {why}"), "").into());
            }
        }
    }
    problems.all
}

/// The contradictions among the settings of an experiment that is not whole because of `known` problems: those of
/// settings that are not among them. Neither the host nor the system under test is asked.
pub fn contradictions(experiment: &Experiment, registry: &Registry, known: &Problems) -> Problems {
    let is_known = |problem: &Problem| {
        known.0.iter().any(|other| {
            other.what == problem.what || other.settings.iter().any(|name| problem.settings.contains(name))
        })
    };
    let mut problems = Found::of(experiment);
    for treatment in &treatments(experiment) {
        if let Err(mut found) = make_ready(experiment, registry, treatment) {
            found.0.retain(|problem| !is_known(problem));
            problems.add(found);
        }
    }
    problems.all
}

/// The baseline, and each level alone.
fn treatments(experiment: &Experiment) -> Vec<Treatment> {
    let changes = experiment.vary.iter().flat_map(|variation| {
        let change = |level: &model::Level| Change { factor: variation.factor.clone(), level: level.clone() };
        variation.levels.iter().map(change)
    });
    [Treatment::Baseline].into_iter().chain(changes.map(Treatment::OneChange)).collect()
}

/// Problems, each once and with its line.
struct Found<'a> {
    experiment: &'a Experiment,
    all: Problems,
}

impl Found<'_> {
    fn of(experiment: &Experiment) -> Found<'_> {
        Found { experiment, all: Problems::new() }
    }

    fn add(&mut self, found: Problems) {
        let Experiment { workload, load, .. } = self.experiment;
        for problem in found.0 {
            // A variation keeps the line on which the setting itself is written.
            let problem = problem.on_line_of(&workload.settings).on_line_of(load);
            if !self.all.0.contains(&problem) {
                self.all.push(problem);
            }
        }
    }
}
