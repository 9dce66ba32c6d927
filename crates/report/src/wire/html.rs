//! The page of a capture.

use model::wire::{WireDocument, WireSeries};

use super::{sentences, tables};
use crate::chart::{SeriesStyle, Timeline, TimelineSeries, escape, timeline};
use crate::html::markup::{Figure, Origin, figure, section, sentence, table};
use crate::html::page;
use crate::table::Table;
use crate::text::{Quantity, per_s};

/// The document as one HTML page without a need for other files.
pub fn wire_html(document: &WireDocument) -> String {
    let shown =
        |tables: Vec<Table>| -> String { tables.iter().map(|each| table(each, Origin::Result)).collect() };
    let untitled = |tables: Vec<Table>| -> String {
        tables
            .into_iter()
            .map(|each| table(&Table { title: String::new(), ..each }, Origin::Result))
            .collect()
    };
    let mut connections = paragraphs(&sentences::connections(document));
    connections.push_str(&shown(tables::connections(document).into_iter().collect()));
    let against = document.against.as_ref().map_or(String::new(), |against| {
        shown(tables::against(against)) + &paragraphs(&sentences::against(against))
    });
    let missed = match sentences::missed(document) {
        none if none.is_empty() => "<p>Nothing: every packet was analysed.</p>".to_string(),
        missed => format!(
            "<ul>{}</ul>",
            missed.iter().map(|text| format!("<li>{}</li>", sentence(text))).collect::<String>()
        ),
    };
    let sections = [
        ("operations", "Operations", shown(tables::of_operations(document))),
        ("time", "Over time", over_time(document)),
        ("cost", "Cost", shown(tables::rankings(document, true))),
        ("slowest", "Slowest operations", untitled(tables::slowest(document).into_iter().collect())),
        ("connections", "Connections", connections),
        ("client", "Compared with the client", against),
        ("missed", "Missed", missed),
    ];
    let summary = sentences::summary(document);
    let (first, rest) = match summary.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", &[][..]),
    };
    let mut body = format!(
        "<header><p class=\"name\">{}</p><p class=\"facts\">{}</p><h1>{}</h1>{}</header>",
        escape(&document.source),
        escape(&sentences::facts(document).join(" · ")),
        sentence(first),
        paragraphs(rest)
    );
    body.push_str("<nav aria-label=\"sections\"><ul>");
    for (id, title, content) in &sections {
        if !content.is_empty() {
            body.push_str(&format!("<li><a href=\"#{id}\">{title}</a></li>"));
        }
    }
    body.push_str("</ul></nav>\n");
    for (id, title, content) in &sections {
        body.push_str(&section(id, title, content));
        body.push('\n');
    }
    let title = format!("{}: operations on the wire", document.source);
    page(&title, &body, &format!("Written by plimsoll wire from {}.", document.source))
}

fn paragraphs(texts: &[String]) -> String {
    texts.iter().map(|text| format!("<p>{}</p>", sentence(text))).collect()
}

/// Operations, bytes and response times of each kind over time.
fn over_time(document: &WireDocument) -> String {
    let of = &document.timeline;
    let length = of.series.first().map_or(0, |series| series.operations.len());
    if length < 2 {
        return String::new();
    }
    let span_s = (0.0, length as f64 * of.interval_s);
    let lines = |value: &dyn Fn(&WireSeries, usize) -> f64| -> Vec<TimelineSeries> {
        let series = of.series.iter().enumerate().map(|(at, series)| TimelineSeries {
            name: tables::kind_name(document, &series.protocol, &series.kind),
            look: SeriesStyle::of(at),
            points: (0..length)
                .map(|place| ((place as f64 + 0.5) * of.interval_s, value(series, place)))
                .collect(),
        });
        series.collect()
    };
    let chart = |title: &str,
                 question: &str,
                 label: &str,
                 series: &[TimelineSeries],
                 quantity: Quantity,
                 log: bool| {
        let legend: Vec<(String, SeriesStyle)> =
            series.iter().map(|line| (line.name.clone(), line.look)).collect();
        figure(&Figure {
            title,
            question,
            charts: &timeline(&Timeline {
                label,
                span_s,
                series,
                quantity,
                log,
                shades: &[],
                marks: &[],
                height: 170.0,
                columns: 600,
            }),
            legend: &legend,
            numbers: String::new(),
            note: &format!(
                "Intervals of {}; an operation counts when it ends.",
                crate::text::time_s(of.interval_s)
            ),
        })
    };
    let at = |values: &[u64], place: usize| values.get(place).copied().unwrap_or(0) as f64;
    let sums: Vec<f64> = (0..length)
        .map(|place| {
            of.series.iter().map(|series| at(&series.operations, place)).sum::<f64>() / of.interval_s
        })
        .collect();
    let largest = sums.iter().copied().fold(0.0, f64::max);
    // The last interval may be one in part.
    let seconds = if document.capture.seconds > 0.0 { document.capture.seconds } else { span_s.1 };
    let mean = sums.iter().sum::<f64>() * of.interval_s / seconds;
    let mut out = chart(
        &format!(
            "On average {} operations/s, up to {} in one interval.",
            per_s(mean).trim_end_matches("/s"),
            per_s(largest)
        ),
        "How many operations ended in each second, by kind?",
        "Operations per second over time",
        &lines(&|series, place| at(&series.operations, place) / of.interval_s),
        Quantity::Rate("ops/s"),
        false,
    );
    let bytes: f64 = of.series.iter().flat_map(|series| &series.bytes).map(|bytes| *bytes as f64).sum();
    out.push_str(&chart(
        &format!("On average {} of messages.", Quantity::BytesPerSecond.show(bytes / seconds)),
        "How many bytes of requests and responses, by kind?",
        "Bytes per second over time",
        &lines(&|series, place| at(&series.bytes, place) / of.interval_s),
        Quantity::BytesPerSecond,
        false,
    ));
    let times = |series: &WireSeries, place: usize| match series.operations.get(place) {
        Some(1..) if series.mean_ms.get(place).is_some_and(|ms| *ms > 0.0) => series.mean_ms[place],
        _ => f64::NAN,
    };
    let mut series = lines(&times);
    series.retain(|line| line.points.iter().any(|(_, value)| value.is_finite()));
    if !series.is_empty() {
        out.push_str(&chart(
            "Mean response time on the wire.",
            "How long did operations take, by kind?",
            "Mean response time over time",
            &series,
            Quantity::Milliseconds,
            true,
        ));
    }
    out
}
