//! Published limits beside the measured ones.

use model::limit::{ConfigurationLimit, PublishedLimit};
use model::{Study, Treatment};

use crate::plan::{level_of, plan_of};

/// A row for each published limit, in the order of the experiment: also for levels that were not measured, because the
/// published series is a whole.
pub(super) fn limits(
    study: &Study,
    treatments: &[Treatment],
    found: &[ConfigurationLimit],
) -> Vec<PublishedLimit> {
    let Some(plan) = plan_of(study) else { return Vec::new() };
    let mut rows = Vec::new();
    for published in &plan.published {
        let variation =
            plan.vary.iter().find(|variation| Some(&variation.factor) == published.factor.as_ref());
        let Some(variation) = variation else { continue };
        for limits in &published.limits {
            for (level, [low, high]) in &limits.loads {
                let configuration = treatments.iter().zip(found).find(|(treatment, _)| {
                    level_of(plan, treatment.changes(), variation).is_some_and(|own| {
                        own == level || own.as_number().is_some_and(|own| level.as_number() == Some(own))
                    })
                });
                let goal =
                    configuration.and_then(|(_, of)| of.goals.iter().find(|goal| goal.goal == limits.goal));
                let bound = |bound: Option<&model::limit::LimitBound>| bound.map(|bound| bound.load);
                let Some(high) = high.filter(|high| high.is_finite()) else { continue };
                rows.push(PublishedLimit {
                    name: published.name.clone(),
                    source: published.source.clone(),
                    goal: limits.goal.clone(),
                    factor: variation.factor.0.clone(),
                    level: level.to_string(),
                    low: *low,
                    high,
                    meets: bound(goal.and_then(|goal| goal.meets.as_ref())),
                    misses: bound(goal.and_then(|goal| goal.misses.as_ref())),
                });
            }
        }
    }
    rows
}
