//! The search for the limit: the load curve of each configuration, the bounds, every load.

use model::ResultDocument;
use model::goal::GoalMetric;
use model::limit::{ConfigurationLimit, GoalLimit, LimitResult, LoadClass, LoadPoint};

use super::markup::{Figure, Origin, figure, table};
use crate::chart::{LimitCurvePoint, LimitLines, SeriesStyle, limit_curve};
use crate::sentences::{goal_sentence, is_rate, load_number, load_unit};
use crate::table::Table;
use crate::text::{Quantity, rate_word, sentence_start};
use crate::{labels, tables};

/// Configurations whose load curves are drawn.
const DRAWN_MAX: usize = 8;

/// The load curves and tables of a search; empty without one.
pub(super) fn limit(document: &ResultDocument) -> String {
    let Some(found) = &document.limit else { return String::new() };
    let bounds = tables::limit(document).into_iter().chain(tables::published_limits(document));
    let mut out: String = bounds.map(|bounds| table(&bounds, Origin::Result)).collect();
    for (at, of) in found.configurations.iter().enumerate() {
        let loads = tables::loads(document, found, of);
        match at < DRAWN_MAX && !of.points.is_empty() {
            true => out.push_str(&load_curves(document, found, of, &loads)),
            false => out.push_str(&table(&loads, Origin::Result)),
        }
    }
    if found.configurations.len() > DRAWN_MAX {
        out.push_str(&format!(
            "<p class=\"note\">Load curves are drawn for {DRAWN_MAX} of {} configurations.</p>",
            found.configurations.len()
        ));
    }
    out
}

/// The style of a class: circle, square and triangle.
fn look(class: Option<LoadClass>) -> SeriesStyle {
    match class {
        Some(LoadClass::Meets) => SeriesStyle::pair(0, 0),
        Some(LoadClass::Misses) => SeriesStyle::pair(1, 1),
        Some(LoadClass::Unclear) | None => SeriesStyle::pair(3, 2),
    }
}

fn load_curves(
    document: &ResultDocument,
    found: &LimitResult,
    of: &ConfigurationLimit,
    loads: &Table,
) -> String {
    let factor = match found.is_resource() {
        true => labels::setting(&found.setting),
        false if is_rate(found) => "offered load per second",
        false => load_unit(found),
    };
    let rate = Quantity::Rate(rate_word(&document.traits));
    let mut out = String::new();
    for (at, goal) in of.goals.iter().enumerate() {
        let times = Times::of(goal, at);
        let points = |value: &dyn Fn(&LoadPoint) -> Option<f64>| -> Vec<LimitCurvePoint> {
            let point = |point: &LoadPoint| {
                Some(LimitCurvePoint {
                    load: point.load,
                    label: load_number(found, point.load),
                    value: value(point)?,
                    look: look(point.classes.get(at).copied()),
                    is_full: point.is_full,
                })
            };
            of.points.iter().filter_map(point).collect()
        };
        let bounds = goal.meets.as_ref().zip(goal.misses.as_ref());
        let bounds = bounds.map(|(meets, misses)| (meets.load.min(misses.load), meets.load.max(misses.load)));
        let sentence = sentence_start(&goal_sentence(document, found, goal));
        let legend = [LoadClass::Meets, LoadClass::Misses, LoadClass::Unclear]
            .map(|class| (class.word().to_string(), look(Some(class))));
        let draw = |title: &str, quantity, value: &dyn Fn(&LoadPoint) -> Option<f64>, line| {
            let label = format!("{title} against {factor}. {sentence}");
            let limit = LimitLines { goal: line, bounds };
            limit_curve(&label, title, factor, (&points(value), quantity), &legend, limit)
        };
        let charts = [
            draw("Throughput", rate, &|point| Some(point.rate_per_s), None),
            draw(
                &times.title(),
                Quantity::Milliseconds,
                &|point| times.at(point),
                times.is_of_goal().then_some(goal.limit),
            ),
        ]
        .concat();
        let charts = format!(r#"<div class="four">{charts}</div>"#);
        let name = match found.configurations.len() {
            1 => String::new(),
            _ => format!("{}: ", sentence_start(&labels::labelled(document, &of.configuration))),
        };
        // The table of loads belongs to all goals.
        let numbers = if at == 0 {
            table(&Table { title: String::new(), ..loads.clone() }, Origin::Result)
        } else {
            String::new()
        };
        out.push_str(&figure(&Figure {
            title: &format!("{name}{sentence}"),
            question: match found.is_resource() {
                true => "Which level meets the goal? Throughput and response time at every level that was tried.",
                false => "How much load meets the goal? Throughput and response time of every load that was tried.",
            },
            charts: &charts,
            legend: &legend,
            numbers,
            note: "Filled marks: full-length trials. Outlines: short trials, whose class is provisional. Shaded: between the bounds.",
        }));
    }
    out
}

/// The times to draw for a goal.
#[derive(Clone, Copy)]
enum Times<'a> {
    /// A part of the response times of all operations, and whether it is the metric of the goal.
    Part(&'a str, bool),
    /// The metric of the goal at this place: of one operation, or a part that is not recorded for all.
    Goal(&'a str, usize),
}

impl<'a> Times<'a> {
    fn of(goal: &'a GoalLimit, at: usize) -> Times<'a> {
        let metric = goal.goal.split(['<', '>']).next().unwrap_or_default().trim();
        let is_time =
            matches!(&goal.metric, GoalMetric::Response(_) | GoalMetric::Service(_) | GoalMetric::Lag(_));
        match metric.strip_prefix("response.").unwrap_or(metric) {
            part @ ("mean" | "p50" | "p90" | "p95" | "p99") => Times::Part(part, true),
            _ if is_time => Times::Goal(metric, at),
            _ => Times::Part("p95", false),
        }
    }

    fn title(self) -> String {
        match self {
            Times::Part("mean", _) => "Mean response time".into(),
            Times::Part(part, _) => format!("Response time, {part}"),
            Times::Goal(metric, _) => metric.into(),
        }
    }

    fn is_of_goal(self) -> bool {
        !matches!(self, Times::Part(_, false))
    }

    fn at(self, point: &LoadPoint) -> Option<f64> {
        match self {
            Times::Part("mean", _) => Some(point.mean_ms),
            Times::Part("p50", _) => Some(point.p50_ms),
            Times::Part("p90", _) => Some(point.p90_ms),
            Times::Part("p99", _) => Some(point.p99_ms),
            Times::Part(..) => Some(point.p95_ms),
            Times::Goal(_, at) => point.values.get(at).copied().flatten(),
        }
    }
}
