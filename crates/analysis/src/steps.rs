//! The steps of a request in each configuration: those of its trials together.

use std::collections::BTreeMap;

use model::Study;
use model::result::{ConfigurationSteps, TrialResult};
use model::steps::{DependencyUse, RequestSteps, Step, Times};

use crate::configuration::Group;

/// Fewer requests with the same order of exchanges than this show no order.
const ORDERED_MIN: u64 = 10;

/// The range of exchanges of the load per operation in which an exchange is an operation.
const ONE_EXCHANGE: std::ops::Range<f64> = 0.8..1.25;

/// The steps of a request in each configuration whose trials have them.
pub(crate) fn steps(study: &Study, groups: &[Group], trials: &[TrialResult]) -> Vec<ConfigurationSteps> {
    let of_group = |group: &Group| {
        let found: Vec<&RequestSteps> =
            group.trials.iter().filter_map(|at| study.runs.get(*at)?.steps.as_ref()).collect();
        let request = together(&found)?;
        let completed: u64 =
            group.trials.iter().filter_map(|at| Some(trials.get(*at)?.whole()?.completed)).sum();
        let per_operation = request.requests as f64 / completed as f64;
        let is_ordered = request.same_order >= ORDERED_MIN && ONE_EXCHANGE.contains(&per_operation);
        Some(ConfigurationSteps {
            configuration: group.treatment.label(),
            is_ordered,
            per_operation: Some(per_operation).filter(|each| each.is_finite()),
            request,
        })
    };
    groups.iter().filter_map(of_group).collect()
}

/// The steps of all trials: those with the order that most requests have.
fn together(all: &[&RequestSteps]) -> Option<RequestSteps> {
    let mut orders: BTreeMap<Vec<(&str, u32)>, Vec<&RequestSteps>> = BTreeMap::new();
    for one in all {
        let order = one.steps.iter().map(|step| (step.dependency.as_str(), step.exchanges)).collect();
        orders.entry(order).or_default().push(one);
    }
    let alike = orders.into_values().max_by_key(|of| sum(of, |one| one.same_order))?;
    let first = alike.first()?;
    let weights: Vec<f64> = alike.iter().map(|one| one.same_order as f64).collect();
    let total: f64 = weights.iter().sum();
    // Without a request nothing is weighed.
    let mean = |value: &dyn Fn(&RequestSteps) -> f64| -> f64 {
        let sum: f64 = alike.iter().zip(&weights).map(|(one, weight)| value(one) * weight).sum();
        if total > 0.0 { sum / total } else { 0.0 }
    };
    let times = |of: &dyn Fn(&RequestSteps) -> Times| Times {
        mean: mean(&|one| of(one).mean),
        p50: mean(&|one| of(one).p50),
        p95: mean(&|one| of(one).p95),
        max: alike.iter().map(|one| of(one).max).fold(0.0, f64::max),
    };
    let step = |at: usize| {
        let of = |one: &RequestSteps| one.steps.get(at).cloned().unwrap_or_default();
        let Step { dependency, number, exchanges, .. } = of(first);
        Step {
            dependency,
            number,
            exchanges,
            own_before_ms: times(&|one| of(one).own_before_ms),
            begin_ms: mean(&|one| of(one).begin_ms),
            takes_ms: times(&|one| of(one).takes_ms),
            first_byte_ms: mean(&|one| of(one).first_byte_ms),
            adds_ms: mean(&|one| of(one).adds_ms),
        }
    };
    Some(RequestSteps {
        front: first.front.clone(),
        observed_s: all.iter().map(|one| one.observed_s).sum(),
        requests: sum(all, |one| one.requests),
        usable: sum(all, |one| one.usable),
        same_order: sum(&alike, |one| one.same_order),
        total_ms: times(&|one| one.total_ms),
        steps: (0..first.steps.len()).map(step).collect(),
        own_after_ms: times(&|one| one.own_after_ms),
        dependencies: dependencies(all),
    })
}

fn sum(all: &[&RequestSteps], of: fn(&RequestSteps) -> u64) -> u64 {
    all.iter().fold(0, |sum, one| sum.saturating_add(of(one)))
}

/// The exchanges with each dependency over all trials.
fn dependencies(all: &[&RequestSteps]) -> Vec<DependencyUse> {
    let requests = sum(all, |one| one.requests) as f64;
    let mut uses: Vec<DependencyUse> = Vec::new();
    for one in all.iter().flat_map(|one| &one.dependencies) {
        let position = uses.iter().position(|known| known.name == one.name).unwrap_or_else(|| {
            uses.push(DependencyUse { name: one.name.clone(), ..DependencyUse::default() });
            uses.len() - 1
        });
        let known = &mut uses[position];
        let (before, added) = (known.exchanges as f64, one.exchanges as f64);
        if before + added > 0.0 {
            known.mean_ms = (known.mean_ms * before + one.mean_ms * added) / (before + added);
        }
        known.exchanges = known.exchanges.saturating_add(one.exchanges);
        known.outside = known.outside.saturating_add(one.outside);
        known.per_request = if requests > 0.0 { known.exchanges as f64 / requests } else { 0.0 };
    }
    uses
}
