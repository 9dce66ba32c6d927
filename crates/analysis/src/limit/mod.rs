//! The search for the largest load that still meets each goal: which load comes next, and the answer.

mod bounds;
#[cfg(test)]
mod bounds_tests;
pub(crate) mod classify;
mod law;
mod published;

use model::design::Next;
use model::goal::GoalMetric;
use model::limit::{
    Axis, ConfigurationLimit, GoalLimit, LimitAnswer, LimitBound, LimitResult, LoadClass, LoadPoint,
    MissReason,
};
use model::result::{ResultDocument, TrialResult};
use model::{
    Decision, Design, Ending, Experiment, Goal, Phase, RunRecord, SECOND, Search, Statistics, Study,
    Treatment, Trial, Verdict,
};

use crate::goal;
use crate::plan::{plan_of, treatments};
use crate::statistics::{mean, median};
use bounds::{Bracket, Confirmed, KnownLoad, Step, confirmed};
use classify::{Classified, classify};

/// Limit of the trials of one configuration, so that a search ends in any case.
pub const TRIALS_MAX: usize = 120;
/// Number of failed trials at a load after which it counts as too large.
const FAILURES_MAX: usize = 2;

/// A search in each configuration, one after the other.
pub(crate) struct LimitSearch {
    search: Search,
    configurations: Vec<Treatment>,
    /// The limit of failed operations; none if a goal states it.
    max_failures: Option<f64>,
}

/// All trials of a configuration at one load, as indexes of `study.runs`.
#[derive(Clone, Debug, Default)]
struct LoadTrials {
    load: f64,
    full: Vec<usize>,
    short: Vec<usize>,
    failed: Vec<usize>,
}

impl LoadTrials {
    fn completed(&self) -> &[usize] {
        if self.full.is_empty() { &self.short } else { &self.full }
    }
}

impl LimitSearch {
    /// The search that an experiment asks for; none if it states no limit.
    pub(crate) fn of(experiment: &Experiment) -> Option<LimitSearch> {
        let search = Search::of(experiment)?;
        let states_failures = search.goals.iter().any(|goal| goal.metric == GoalMetric::Failed);
        let configurations = std::iter::once(Treatment::Baseline).chain(treatments(experiment)).collect();
        Some(LimitSearch {
            search,
            configurations,
            max_failures: (!states_failures).then_some(experiment.max_failures),
        })
    }

    /// The search of a recorded study.
    pub(crate) fn of_study(study: &Study) -> Option<LimitSearch> {
        plan_of(study).and_then(LimitSearch::of)
    }

    /// The trials of a configuration by load, in ascending order.
    fn loads(&self, study: &Study, configuration: &Treatment) -> Vec<LoadTrials> {
        let mut loads: Vec<LoadTrials> = Vec::new();
        for (at, record) in study.runs.iter().enumerate() {
            let Treatment::Probe(probe) = &record.run.trial.treatment else { continue };
            if probe.configuration != configuration.changes() {
                continue;
            }
            let Some(load) = self.search.position(probe) else { continue };
            let place = loads.iter().position(|known| known.load == load).unwrap_or_else(|| {
                loads.push(LoadTrials { load, ..LoadTrials::default() });
                loads.len() - 1
            });
            let trials = &mut loads[place];
            match &record.run.ending {
                Ending::Completed if probe.measure >= self.search.full => trials.full.push(at),
                Ending::Completed => trials.short.push(at),
                Ending::Failed(_) => trials.failed.push(at),
                Ending::Running | Ending::Interrupted => {}
            }
        }
        loads.sort_by(|a, b| a.load.total_cmp(&b.load));
        loads
    }

    /// The class of a load for a goal; none if no trial completed and it did not fail twice.
    fn classified(&self, study: &Study, trials: &LoadTrials, goal: &Goal) -> Option<Classified> {
        if let Some(last) = trials.failed.last().filter(|_| trials.failed.len() >= FAILURES_MAX) {
            let why = match &study.runs[*last].run.ending {
                Ending::Failed(why) => why.clone(),
                _ => String::new(),
            };
            let reason = Some(MissReason::TrialFailed(why));
            return Some(Classified { class: LoadClass::Misses, reason, meets: false });
        }
        let records: Vec<&RunRecord> = trials.completed().iter().map(|at| &study.runs[*at]).collect();
        (!records.is_empty()).then(|| classify(&records, goal, self.max_failures))
    }

    fn known(&self, study: &Study, loads: &[LoadTrials], goal: &Goal) -> Vec<KnownLoad> {
        let known = loads.iter().filter_map(|trials| {
            let classified = self.classified(study, trials, goal)?;
            let is_confirmed = !trials.full.is_empty() || trials.failed.len() >= FAILURES_MAX;
            Some(KnownLoad {
                load: trials.load,
                full_trials: trials.full.len() as u32,
                class: is_confirmed.then_some(classified.class),
                hint: (!is_confirmed).then_some(classified.meets),
            })
        });
        known.collect()
    }

    /// Every goal of a configuration with its next step.
    fn steps(&self, study: &Study, configuration: &Treatment) -> Vec<(&Goal, Confirmed, Step)> {
        let loads = self.loads(study, configuration);
        let step = |goal| {
            let known = self.known(study, &loads, goal);
            let step = Bracket { search: &self.search, goal: &goal.text, known: &known }.next();
            (goal, confirmed(&known), step)
        };
        self.search.goals.iter().map(step).collect()
    }

    fn trial(&self, study: &Study, configuration: &Treatment, load: f64, is_full: bool) -> Trial {
        let treatment = Treatment::Probe(self.search.probe(configuration.changes(), load, is_full));
        let is_before = |record: &&RunRecord| {
            record.run.trial.treatment == treatment && record.run.ending == Ending::Completed
        };
        let replicate = study.runs.iter().filter(is_before).count() as u32 + 1;
        let highest = study.runs.iter().map(|record| record.run.trial.number).max().unwrap_or(0);
        let number = highest.max(study.runs.len() as u32).saturating_add(1);
        Trial { number, treatment, replicate }
    }

    /// The answer for a goal in words, for the plan.
    fn words(&self, goal: &Goal, found: &Confirmed, answer: &LimitAnswer) -> String {
        let text = |load: Option<f64>| load.map_or("no load".into(), |load| self.search.text(load));
        let (lower, upper) = (text(found.lower), text(found.upper));
        match answer {
            LimitAnswer::Found => format!("{} is met at {lower} and missed at {upper}", goal.text),
            LimitAnswer::NotReached => {
                format!("{} is still met at {lower}, the last of the search", goal.text)
            }
            LimitAnswer::AlwaysMissed => {
                format!("{} is missed at {upper}, the first of the search", goal.text)
            }
            LimitAnswer::Unclear | LimitAnswer::GeneratorBound => format!(
                "{} is met at {lower} and missed at {upper}; what is between them is not clear",
                goal.text
            ),
        }
    }
}

impl Design for LimitSearch {
    fn next(&self, study: &Study) -> Next {
        let mut answers = Vec::new();
        for configuration in &self.configurations {
            let place = match self.configurations.len() {
                1 => String::new(),
                _ => format!("{}: ", configuration.label()),
            };
            let steps = self.steps(study, configuration);
            let tried =
                study.runs.iter().filter(|of| of.run.trial.treatment.configuration() == *configuration);
            let is_exhausted = tried.count() >= TRIALS_MAX;
            for (goal, found, step) in steps {
                match step {
                    Step::Measure { load, is_full, reason } if !is_exhausted => {
                        let trial = self.trial(study, configuration, load, is_full);
                        return Next::Trial(Decision { trial, reason: format!("{place}{reason}") });
                    }
                    Step::Measure { .. } => {
                        let answer = self.words(goal, &found, &LimitAnswer::Unclear);
                        answers.push(format!("{place}{answer}, after {TRIALS_MAX} trials"));
                    }
                    Step::Done(answer) => {
                        answers.push(format!("{place}{}", self.words(goal, &found, &answer)));
                    }
                }
            }
        }
        Next::Enough(answers.join("; "))
    }

    fn planned(&self) -> Option<Vec<Trial>> {
        None
    }
}

impl LimitSearch {
    /// What is searched, in words.
    pub(crate) fn load(&self) -> String {
        let Search { axis, min, max, .. } = &self.search;
        let (min, max) = (axis.text(*min), axis.text(*max));
        match axis {
            Axis::Users if self.search.has_think_time => format!("search from {min} to {max} users"),
            Axis::Users => format!("search from {min} to {max} in flight"),
            Axis::Rate => format!("search from {min} to {max}"),
            Axis::Levels { factor, .. } => {
                format!("search for the smallest {} from {max} to {min}", factor.0)
            }
        }
    }

    /// The trials at the limit of each configuration, as indexes of `study.runs`: the full-length trials at the
    /// smallest load that misses a goal. Without one, those at the largest load.
    pub(crate) fn at_limit(&self, study: &Study) -> Vec<usize> {
        self.configurations
            .iter()
            .flat_map(|configuration| self.trials_at_limit(study, configuration))
            .collect()
    }

    fn trials_at_limit(&self, study: &Study, configuration: &Treatment) -> Vec<usize> {
        let loads = self.loads(study, configuration);
        let bounds = self.search.goals.iter().map(|goal| confirmed(&self.known(study, &loads, goal)));
        let upper = bounds.filter_map(|found| found.upper).min_by(f64::total_cmp);
        let at_upper = loads.iter().find(|trials| Some(trials.load) == upper && !trials.full.is_empty());
        let largest = |is_full: bool| {
            let has =
                |trials: &&LoadTrials| !if is_full { &trials.full } else { trials.completed() }.is_empty();
            let is_below = |trials: &&LoadTrials| upper.is_none_or(|upper| trials.load <= upper);
            loads.iter().rfind(|trials| is_below(trials) && has(trials))
        };
        let found = at_upper.or_else(|| largest(true)).or_else(|| largest(false));
        found.map(|trials| trials.completed().to_vec()).unwrap_or_default()
    }

    /// The answer for each goal in each configuration. `document` has the numbers of all trials, and the verdict of
    /// each configuration at its limit.
    pub(crate) fn result(&self, study: &Study, document: &ResultDocument) -> LimitResult {
        let trials = &document.trials;
        let began = |configuration: &&Treatment| {
            study.runs.iter().any(|record| record.run.trial.treatment.configuration() == **configuration)
        };
        let configurations: Vec<ConfigurationLimit> = self
            .configurations
            .iter()
            .filter(began)
            .map(|configuration| {
                let mut found = self.configuration(study, trials, configuration);
                let mut judged = document.configurations.iter();
                let judged = judged.find(|of| of.treatment.label == found.configuration);
                if matches!(judged.and_then(|of| of.verdict.as_ref()), Some(Verdict::GeneratorBound { .. })) {
                    refuse(&mut found);
                }
                found
            })
            .collect();
        let seconds = |length: model::Nanos| length as f64 / SECOND as f64;
        LimitResult {
            setting: self.search.axis.setting().into(),
            width: self.search.width,
            range: self.range(),
            levels: self.search.axis.levels(),
            has_think_time: self.search.has_think_time,
            short_s: seconds(self.search.short),
            full_s: seconds(self.search.full),
            laws: match self.search.axis.is_resource() {
                true => Vec::new(),
                false => law::laws(study, &self.configurations, &configurations),
            },
            published: published::limits(study, &self.configurations, &configurations),
            configurations,
        }
    }

    /// The smallest and the largest load or level.
    fn range(&self) -> [f64; 2] {
        let ends = [self.search.min, self.search.max].map(|position| self.search.axis.value(position));
        [ends[0].min(ends[1]), ends[0].max(ends[1])]
    }

    fn configuration(
        &self,
        study: &Study,
        trials: &[TrialResult],
        configuration: &Treatment,
    ) -> ConfigurationLimit {
        let loads = self.loads(study, configuration);
        let goals = self.steps(study, configuration).into_iter().map(|(goal, found, step)| {
            let answer = match step {
                Step::Done(answer) => answer,
                Step::Measure { .. } => LimitAnswer::Unclear,
            };
            self.goal(study, trials, &loads, (goal, found, answer))
        });
        let goals: Vec<GoalLimit> = goals.collect();
        let all = loads.iter().flat_map(|one| one.full.iter().chain(&one.short).chain(&one.failed));
        let spent: Vec<f64> = all.map(|at| under_load_s(&study.runs[*at])).collect();
        let full = loads.iter().flat_map(|one| &one.full).map(|at| under_load_s(&study.runs[*at]));
        let at_limit = self.trials_at_limit(study, configuration);
        ConfigurationLimit {
            configuration: configuration.label(),
            goals,
            at_limit: at_limit.iter().filter_map(|at| Some(trials.get(*at)?.trial.clone())).collect(),
            points: self.points(study, trials, &loads),
            trials: spent.len() as u32,
            search_s: spent.iter().sum(),
            full_trial_s: median(&full.collect::<Vec<f64>>()),
        }
    }

    fn goal(
        &self,
        study: &Study,
        trials: &[TrialResult],
        loads: &[LoadTrials],
        (goal, found, answer): (&Goal, Confirmed, LimitAnswer),
    ) -> GoalLimit {
        let bound = |load: Option<f64>| {
            let at = loads.iter().find(|trials| Some(trials.load) == load)?;
            let results: Vec<&TrialResult> = at.full.iter().filter_map(|at| trials.get(*at)).collect();
            let rates: Vec<f64> = results.iter().filter_map(|one| Some(one.whole()?.rate_per_s)).collect();
            Some(LimitBound {
                load: self.search.axis.value(at.load),
                trials: at.full.len() as u32,
                value: goal_value(goal, &results),
                is_bound: results.iter().any(|trial| goal::is_bound(goal, trial)),
                rate_per_s: mean(&rates).unwrap_or(0.0),
                reason: self.classified(study, at, goal)?.reason,
            })
        };
        let known = self.known(study, loads, goal);
        let inverted = known.iter().filter(|one| {
            one.class == Some(LoadClass::Meets) && found.upper.is_some_and(|upper| one.load > upper)
        });
        let width = found.lower.zip(found.upper).map(|(lower, upper)| (upper - lower) / upper);
        GoalLimit {
            goal: goal.text.clone(),
            metric: goal.metric.clone(),
            limit: goal.limit,
            answer,
            meets: bound(found.lower),
            misses: bound(found.upper),
            width,
            inversion: inverted.map(|one| self.search.axis.value(one.load)).next_back(),
            unclear: found.unclear.into_iter().map(|load| self.search.axis.value(load)).collect(),
        }
    }

    fn points(&self, study: &Study, trials: &[TrialResult], loads: &[LoadTrials]) -> Vec<LoadPoint> {
        let mut points: Vec<LoadPoint> =
            loads.iter().filter_map(|one| self.point(study, trials, one)).collect();
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        points
    }

    fn point(&self, study: &Study, trials: &[TrialResult], at: &LoadTrials) -> Option<LoadPoint> {
        let results: Vec<&TrialResult> = at.completed().iter().filter_map(|at| trials.get(*at)).collect();
        if results.is_empty() {
            return None;
        }
        let of = |value: fn(&model::result::OperationResult) -> f64| {
            results.iter().filter_map(|trial| trial.whole().map(value)).collect::<Vec<f64>>()
        };
        let time = |value| {
            let known: Vec<f64> = of(value).into_iter().filter(|ms| ms.is_finite()).collect();
            median(&known).unwrap_or(f64::NAN)
        };
        let at_least = results.iter().filter_map(|trial| trial.whole());
        let at_least = at_least.fold(Statistics::NONE, |sum, whole| sum.or(whole.response_ms.at_least));
        let classes = self.search.goals.iter().filter_map(|goal| {
            let classified = self.classified(study, at, goal)?;
            Some(match (at.full.is_empty(), classified.meets) {
                (true, true) => LoadClass::Meets,
                (true, false) => LoadClass::Misses,
                (false, _) => classified.class,
            })
        });
        let failed_of = |whole: &model::result::OperationResult| {
            whole.failed_share().map_or(0.0, |(least, _)| least) * whole.judged() as f64
        };
        let [judged, failed] =
            [of(|whole| whole.judged() as f64), of(failed_of)].map(|counts| counts.iter().sum::<f64>());
        Some(LoadPoint {
            load: self.search.axis.value(at.load),
            trials: results.iter().map(|trial| trial.trial.clone()).collect(),
            is_full: !at.full.is_empty(),
            measured_s: results.iter().map(|trial| trial.measured_s).sum(),
            rate_per_s: mean(&of(|whole| whole.rate_per_s)).unwrap_or(0.0),
            mean_ms: time(|whole| whole.response_ms.mean),
            p50_ms: time(|whole| whole.response_ms.p50),
            p90_ms: time(|whole| whole.response_ms.p90),
            p95_ms: time(|whole| whole.response_ms.p95),
            p99_ms: time(|whole| whole.response_ms.p99),
            at_least,
            failed: if judged > 0.0 { failed / judged } else { 0.0 },
            classes: classes.collect(),
            values: self.search.goals.iter().map(|goal| goal_value(goal, &results)).collect(),
        })
    }
}

/// The metric of a goal over trials at the same load: the median.
fn goal_value(goal: &Goal, trials: &[&TrialResult]) -> Option<f64> {
    let values: Vec<f64> = trials.iter().filter_map(|trial| goal::value(goal, trial)).collect();
    median(&values).filter(|value| value.is_finite())
}

/// Where the generator was the limit at the load that misses a goal, the limit of the system is not known.
fn refuse(found: &mut ConfigurationLimit) {
    for goal in found.goals.iter_mut().filter(|goal| goal.misses.is_some()) {
        goal.answer = LimitAnswer::GeneratorBound;
    }
}

/// The time of a trial under load: warm-up and measured phase, seconds.
fn under_load_s(record: &RunRecord) -> f64 {
    let spans = record.run.phases.iter().filter(|span| matches!(span.phase, Phase::WarmUp | Phase::Measure));
    spans.map(|span| (span.end_s - span.begin_s).max(0.0)).filter(|length_s| length_s.is_finite()).sum()
}
