//! The growth of the limit with a varied number, such as the number of CPUs.

use model::limit::{ConfigurationLimit, GoalLimit, LimitAnswer, LimitLaw};
use model::{Study, Treatment};

use crate::law::Point;
use crate::law::scalability::{Form, fit};
use crate::plan::{level_of, plan_of};

/// Levels that the fit of two parameters needs, so that it can be wrong.
const LEVELS_MIN: usize = 3;

/// The width of an answer that is not clear, as a share of the load that misses the goal, up to which it has a limit.
const WIDTH_MAX: f64 = 0.35;

/// The universal scalability law fitted to the limits of each goal, for each factor with numbers as levels.
pub(super) fn laws(study: &Study, treatments: &[Treatment], found: &[ConfigurationLimit]) -> Vec<LimitLaw> {
    let Some(plan) = plan_of(study) else { return Vec::new() };
    let mut laws = Vec::new();
    for variation in &plan.vary {
        let factor = &variation.factor.0;
        for (at, goal) in plan.limit.iter().enumerate() {
            let limits = treatments.iter().zip(found).filter_map(|(treatment, of)| {
                let level =
                    level_of(plan, treatment.changes(), variation).and_then(|level| level.as_number());
                let answer = of.goals.get(at).filter(|one| is_known(one))?;
                Some([level?, answer.meets.as_ref()?.load])
            });
            let mut limits: Vec<[f64; 2]> = limits.collect();
            limits.sort_by(|a, b| a[0].total_cmp(&b[0]));
            laws.extend(law(&goal.text, factor, limits));
        }
    }
    laws
}

/// Whether the largest load that meets the goal is known well enough: loads that are too close to tell, between the bounds,
/// change little.
fn is_known(one: &GoalLimit) -> bool {
    let bounds = one.meets.as_ref().zip(one.misses.as_ref());
    let is_close = bounds.is_some_and(|(meets, misses)| misses.load - meets.load <= WIDTH_MAX * misses.load);
    one.answer == LimitAnswer::Found || one.answer == LimitAnswer::Unclear && is_close
}

fn law(goal: &str, factor: &str, limits: Vec<[f64; 2]>) -> Option<LimitLaw> {
    if limits.len() < LEVELS_MIN {
        return None;
    }
    let points: Vec<Point> =
        limits.iter().map(|[level, limit]| Point { concurrency: *level, throughput_per_s: *limit }).collect();
    // The law with all three parameters would go through three points exactly.
    let form = if limits.len() > LEVELS_MIN { Form::Universal } else { Form::Amdahl };
    let fitted = fit(&points, form)?.law;
    let error = |[level, limit]: &[f64; 2]| (fitted.throughput_per_s(*level) / limit - 1.0).abs();
    let error_max = limits.iter().map(error).fold(0.0, f64::max);
    // The next level continues the last step of the levels: 1, 2, 4 by 8.
    let (last, before) = (limits[limits.len() - 1][0], limits[limits.len() - 2][0]);
    let next = last * (last / before);
    let predicted = fitted.throughput_per_s(next);
    let is_usable = next.is_finite() && predicted.is_finite() && before > 0.0 && next > last;
    Some(LimitLaw {
        goal: goal.into(),
        factor: factor.into(),
        limits,
        contention: fitted.contention,
        coherency: fitted.coherency,
        per_unit: fitted.rate_at_one_per_s,
        error_max,
        next: is_usable.then_some([next, predicted]),
    })
}

#[cfg(test)]
mod tests {
    use model::goal::GoalMetric;
    use model::limit::LimitBound;

    use super::*;

    #[test]
    fn a_limit_with_close_bounds_is_known() {
        let bound = |load| LimitBound {
            load,
            trials: 1,
            value: None,
            is_bound: false,
            rate_per_s: 1.0,
            reason: None,
        };
        for (answer, meets, misses, expected) in [
            (LimitAnswer::Found, Some(1.0), Some(2.0), true),
            // 5 is too close to tell.
            (LimitAnswer::Unclear, Some(4.0), Some(6.0), true),
            // The search was not finished.
            (LimitAnswer::Unclear, Some(4.0), Some(64.0), false),
            (LimitAnswer::Unclear, Some(4.0), None, false),
            (LimitAnswer::NotReached, Some(4.0), None, false),
        ] {
            let limit = GoalLimit {
                goal: String::new(),
                metric: GoalMetric::Failed,
                limit: 0.0,
                answer,
                meets: meets.map(bound),
                misses: misses.map(bound),
                width: None,
                unclear: Vec::new(),
                inversion: None,
            };
            assert_eq!(is_known(&limit), expected, "{meets:?} {misses:?}");
        }
    }
}
