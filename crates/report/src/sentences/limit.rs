//! The largest load that meets each goal, in sentences.

use model::ResultDocument;
use model::goal::GoalMetric;
use model::limit::{GoalLimit, LimitAnswer, LimitBound, LimitLaw, LimitResult, MissReason};

use super::listed;
use crate::labels;
use crate::text::{Quantity, bounded, percent, plural, rate_word, sentence_start, things, time_ms};

/// The answer of a search for the limit, and its details.
pub(super) struct LimitSentences {
    pub(super) answer: Option<String>,
    pub(super) details: Vec<String>,
}

/// The answers for all goals and configurations, the first goal of the baseline first.
pub(super) fn limit_sentences(document: &ResultDocument, found: &LimitResult) -> LimitSentences {
    let several = found.configurations.len() > 1;
    let mut sentences = Vec::new();
    for (at, of) in found.configurations.iter().enumerate() {
        for (goal_at, goal) in of.goals.iter().enumerate() {
            let text = goal_sentence(document, found, goal);
            let growth = found.configurations.first().filter(|_| at > 0).and_then(|baseline| {
                let goals = [goal, baseline.goals.get(goal_at)?];
                // The largest load of the search is no limit.
                let are_limits = found.is_resource() || goals.iter().all(|one| one.misses.is_some());
                let [own, other] = goals.map(|one| one.meets.as_ref().filter(|_| are_limits));
                let ratio = own?.load / other?.load;
                let what = if found.is_resource() { "level" } else { "limit" };
                ratio
                    .is_finite()
                    .then(|| format!(" That is {} times the {what} of the baseline.", things(ratio)))
            });
            sentences.push(match several {
                true => {
                    let name = sentence_start(&labels::labelled(document, &of.configuration));
                    format!("{name}: {text}{}", growth.unwrap_or_default())
                }
                false => sentence_start(&text),
            });
        }
    }
    let mut sentences = sentences.into_iter();
    let answer = sentences.next();
    let mut details: Vec<String> = sentences.collect();
    details.extend(found.laws.iter().map(|law| law_sentence(found, law)));
    details.extend(effort(found));
    LimitSentences { answer, details }
}

/// A load without its unit, or a level: users are whole numbers.
pub(crate) fn load_number(found: &LimitResult, load: f64) -> String {
    if let Some(level) = found.level_text(load) {
        return level;
    }
    if is_rate(found) { Quantity::Plain.show(load) } else { Quantity::Count.show(load) }
}

/// A load with its unit, or a level: `32 in flight`, `220 users`, `2,000/s`, `4GiB`.
pub(crate) fn load_words(found: &LimitResult, load: f64) -> String {
    let unit = match () {
        () if found.is_resource() => "",
        () if is_rate(found) => "/s",
        () if !found.has_think_time => " in flight",
        () if load == 1.0 => " user",
        () => " users",
    };
    format!("{}{unit}", load_number(found, load))
}

/// The unit of the loads of a search, in full.
pub(crate) fn load_unit(found: &LimitResult) -> &'static str {
    match () {
        () if is_rate(found) => "operations per second",
        () if found.has_think_time => "users",
        () => "operations in flight",
    }
}

pub(crate) fn is_rate(found: &LimitResult) -> bool {
    found.setting == "load.open"
}

/// The answer for a goal; the first letter is small.
pub(crate) fn goal_sentence(document: &ResultDocument, found: &LimitResult, of: &GoalLimit) -> String {
    let text = match found.is_resource() {
        true => smallest_sentence(found, of),
        false => largest_sentence(document, found, of),
    };
    let other = if found.is_resource() { "A lower level" } else { "A larger load" };
    let inversion = of.inversion.map(|at| {
        format!(" {other}, {}, meets the goal again: the result is not monotonic.", load_words(found, at))
    });
    let unclear = match of.answer {
        LimitAnswer::Found => too_close(found, of).map(|words| format!(" Between them, {words}.")),
        _ => None,
    };
    text + &unclear.unwrap_or_default() + &inversion.unwrap_or_default()
}

/// `1,430/s is too close to tell`.
fn too_close(found: &LimitResult, of: &GoalLimit) -> Option<String> {
    let unclear: Vec<String> = of.unclear.iter().map(|one| load_words(found, *one)).collect();
    let verb = if unclear.len() == 1 { "is" } else { "are" };
    (!unclear.is_empty()).then(|| format!("{} {verb} too close to tell", listed(&unclear)))
}

/// The smallest level of a resource that meets a goal.
fn smallest_sentence(found: &LimitResult, of: &GoalLimit) -> String {
    let (goal, setting) = (&of.goal, labels::setting(&found.setting));
    let at = |bound: &LimitBound| {
        let shown = |value| bounded(bound.is_bound, goal_value(&of.metric, value));
        let value = bound.value.map(|value| format!(" ({})", shown(value)));
        format!("{}{}", load_number(found, bound.load), value.unwrap_or_default())
    };
    match (&of.answer, &of.meets, &of.misses) {
        (LimitAnswer::Found, Some(meets), Some(misses)) => format!(
            "the smallest {setting} that meets {goal} is {}; {} {}.",
            at(meets),
            at(misses),
            missing(misses)
        ),
        (LimitAnswer::NotReached, Some(meets), _) => {
            format!(
                "{setting} {} still meets {goal}. It is the lowest level of the search: add lower ones to find the smallest.",
                at(meets)
            )
        }
        (LimitAnswer::AlwaysMissed, _, Some(misses)) => {
            let text = missing_goal(misses, goal);
            format!(
                "{setting} {} {text}. It is the highest level of the search: no level is enough.",
                at(misses)
            )
        }
        (LimitAnswer::GeneratorBound, meets, Some(misses)) => {
            let known = meets.as_ref().map_or(String::new(), |meets| format!(" {} meets it.", at(meets)));
            format!(
                "the smallest {setting} that meets {goal} is not known: the load generator was the limit at {}.{known}",
                load_number(found, misses.load)
            )
        }
        (_, meets, misses) => {
            let known = [
                meets.as_ref().map(|meets| format!("{} meets it", at(meets))),
                misses.as_ref().map(|misses| format!("{} {}", at(misses), missing(misses))),
            ];
            format!(
                "the smallest {setting} that meets {goal} is not clear: {}.",
                known_words(found, of, known.into_iter().flatten().collect(), "level")
            )
        }
    }
}

/// What is known without an answer, and what is unclear.
fn known_words(found: &LimitResult, of: &GoalLimit, mut known: Vec<String>, what: &str) -> String {
    known.extend(too_close(found, of));
    if known.is_empty() { format!("no {what} was confirmed") } else { known.join("; ") }
}

/// The largest load that meets a goal.
fn largest_sentence(document: &ResultDocument, found: &LimitResult, of: &GoalLimit) -> String {
    let goal = &of.goal;
    let load = |bound: &LimitBound| load_words(found, bound.load);
    let at = |bound: &LimitBound| match is_rate(found) {
        true => load(bound),
        false => {
            let rate = Quantity::Rate(rate_word(&document.traits)).show(bound.rate_per_s);
            format!("{} ({rate})", load(bound))
        }
    };
    match (&of.answer, &of.meets, &of.misses) {
        (LimitAnswer::Found, Some(meets), Some(misses)) => format!(
            "the largest load that meets {goal} is {}; {} {}, {} more.",
            at(meets),
            load(misses),
            missing(misses),
            percent(misses.load / meets.load - 1.0),
        ),
        (LimitAnswer::NotReached, Some(meets), _) => format!(
            "{goal} is still met at {}, the largest load of the search: the limit was not found.",
            at(meets)
        ),
        (LimitAnswer::AlwaysMissed, _, Some(misses)) => {
            format!(
                "{} {} already, the smallest load of the search.",
                load(misses),
                missing_goal(misses, goal)
            )
        }
        (LimitAnswer::GeneratorBound, meets, Some(misses)) => {
            let known = meets.as_ref().map_or(String::new(), |meets| format!(" {} meets it.", at(meets)));
            format!(
                "the largest load that meets {goal} is not known: the load generator was the limit at {}.{known}",
                load(misses)
            )
        }
        (_, meets, misses) => {
            let known = [
                meets.as_ref().map(|meets| format!("{} meets it", at(meets))),
                misses.as_ref().map(|misses| format!("{} {}", load(misses), missing(misses))),
            ];
            let known = known_words(found, of, known.into_iter().flatten().collect(), "load");
            format!("the largest load that meets {goal} is not clear: {known}.")
        }
    }
}

/// `misses it`, with the reason if it is not the goal itself.
fn missing(bound: &LimitBound) -> String {
    missing_goal(bound, "it")
}

fn missing_goal(bound: &LimitBound, goal: &str) -> String {
    match &bound.reason {
        None | Some(MissReason::Goal) => format!("misses {goal}"),
        Some(MissReason::Failures) => format!("misses {goal}, because too many operations failed"),
        Some(MissReason::NotCarried(share)) => {
            format!("misses {goal}, because only {} of the offered operations completed", percent(*share))
        }
        Some(MissReason::TrialFailed(why)) => format!("misses {goal}, because its trials failed ({why})"),
    }
}

/// How much the searches took.
fn effort(found: &LimitResult) -> Option<String> {
    let full = found.configurations.iter().find_map(|of| of.full_trial_s).filter(|full| *full > 0.0)?;
    let trials: u32 = found.configurations.iter().map(|of| of.trials).sum();
    let search_s: f64 = found.configurations.iter().map(|of| of.search_s).sum();
    Some(format!(
        "Search: {} under load for {}, {} times as long as one full-length trial.",
        plural(trials as usize, "trial"),
        Quantity::Seconds.show(search_s),
        things(search_s / full)
    ))
}

fn law_sentence(found: &LimitResult, law: &LimitLaw) -> String {
    let factor = labels::setting(&law.factor);
    let next = law.next.map(|[level, limit]| {
        format!(
            " Extrapolated, not measured: {factor} {} would carry {}.",
            Quantity::Plain.show(level),
            load_words(found, limit.round())
        )
    });
    format!(
        "The limit for {} grows with {factor} by {} per unit, with {} contention (universal scalability law; error at most {}).{}",
        law.goal,
        load_words(found, law.per_unit),
        percent(law.contention),
        percent(law.error_max),
        next.unwrap_or_default()
    )
}

/// A value of the metric of a goal or a gate.
pub(crate) fn goal_value(metric: &GoalMetric, value: f64) -> String {
    match metric {
        GoalMetric::Failed => percent(value),
        GoalMetric::Throughput => Quantity::Rate("/s").show(value),
        GoalMetric::BytesPerSecond => Quantity::BytesPerSecond.show(value),
        GoalMetric::Response(_)
        | GoalMetric::Service(_)
        | GoalMetric::Lag(_)
        | GoalMetric::CpuPerOperation => time_ms(value),
        GoalMetric::Counter(name) => Quantity::of(name.unit()).show(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn what_is_unclear_between_the_bounds_is_said() {
        let document = recorded::run("limit").document;
        let found = document.limit.as_ref().unwrap();
        let mut of = found.configurations[0].goals[0].clone();
        assert!(of.answer == LimitAnswer::Found && of.unclear.is_empty());
        let clear = goal_sentence(&document, found, &of);
        let (meets, misses) = (of.meets.as_ref().unwrap().load, of.misses.as_ref().unwrap().load);
        of.unclear = vec![(meets * misses).sqrt().round()];
        let unclear = load_words(found, of.unclear[0]);
        assert_eq!(
            goal_sentence(&document, found, &of),
            format!("{clear} Between them, {unclear} is too close to tell.")
        );
    }
}
