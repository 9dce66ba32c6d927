//! The growth of the limit with a varied number, such as the number of CPUs.

use model::limit::{ConfigurationLimit, LimitAnswer, LimitLaw};
use model::{Study, Treatment};

use crate::law::Point;
use crate::law::scalability::{Form, fit};
use crate::plan::{level_of, plan_of};

/// Levels that the fit of two parameters needs, so that it can be wrong.
const LEVELS_MIN: usize = 3;

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
                let answer = of.goals.get(at).filter(|one| one.answer == LimitAnswer::Found)?;
                Some([level?, answer.meets.as_ref()?.load])
            });
            let mut limits: Vec<[f64; 2]> = limits.collect();
            limits.sort_by(|a, b| a[0].total_cmp(&b[0]));
            laws.extend(law(&goal.text, factor, limits));
        }
    }
    laws
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
