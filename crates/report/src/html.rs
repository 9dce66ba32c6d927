//! A result as one HTML file: nothing is fetched, charts are inline SVG, no script is needed.
//!
//! The light look is in the charts' own attributes; the style sheet adds the dark one and print. Its one
//! script (crosshair, keys, legend) adds to what is already there. A content policy in the page names both by
//! their digests.

mod compare;
mod context;
mod dependencies;
mod digest;
mod limit;
pub(crate) mod markup;
mod trial;

use model::{ResultDocument, Study, Verdict};

use crate::chart::{escape, swatches};
use crate::sentences::Headline;
use crate::table::Table;
use crate::terminal::{all_doubts, cut_short, no_proof, verdict_kind};
use crate::text::{Quantity, capitalized, date, plural, rate_word};
use crate::{costs, launches, patterns, sentences, tables};
#[cfg(test)]
pub(crate) use markup::six_digits;
use markup::{Origin, section, sentence, table};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// The grounds charts stand on, light and dark, as in `style.css`; the hues are tested against them.
#[cfg(test)]
pub(crate) const GROUNDS: [&str; 2] = ["#ffffff", "#14171b"];

/// One self-contained page. `study` supplies the time series and settings the document does not hold; with an
/// empty one the page has everything else.
pub fn html(document: &ResultDocument, study: &Study) -> String {
    let name = if document.experiment.is_empty() { &document.run } else { &document.experiment };
    let headline = sentences::headline(document);
    let sections = [
        ("answer", "Answer", answer(document)),
        ("why", "Why", why(document)),
        ("limits", "What limits", limits(document)),
        ("dependencies", "Dependencies", dependencies::dependencies(document)),
        ("cost", "Cost of an operation", cost(document)),
        ("curves", "Curves", curves(document, study)),
        ("quality", "Data quality", context::doubts(document, study)),
        ("time", "Over time", trial::trials(document, study)),
        ("setting", "Settings, host and counters", context::setting(document, study)),
    ];
    let mut body = header(document, name, &headline);
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
    page(
        &format!("{name}: {}", verdict_kind(&document.verdict)),
        &body,
        &format!(
            "Written by Plimsoll {} from {}. Every number of the result is in result.json there; the time series are in its trials folder.",
            document.host.plimsoll, document.run
        ),
    )
}

/// A page around a body, with its style sheet and script.
pub(crate) fn page(title: &str, body: &str, footer: &str) -> String {
    let mut out = String::with_capacity(body.len() + 16 * 1024);
    out.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str(&format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'\">",
        digest::source(STYLE),
        digest::source(SCRIPT)
    ));
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">");
    out.push_str(&format!("<title>{}</title>", escape(title)));
    out.push_str(&format!("<style>{STYLE}</style></head>\n<body><main>"));
    out.push_str(&swatches(body));
    out.push_str(body);
    out.push_str(&format!("<footer><p>{}</p></footer>", escape(footer)));
    out.push_str(&format!("</main><script>{SCRIPT}</script></body></html>\n"));
    out
}

/// Maximum number of lines of one kind on the first screen; their section has all.
const FIRST_LINES: usize = 2;

/// The first screen: the answer with its figures, the reason, the limit, its proof, and the next step.
fn header(document: &ResultDocument, name: &str, headline: &Headline) -> String {
    let mut facts = vec![document.workload.clone(), document.load.clone()];
    if document.trials.len() > 1 {
        facts.push(plural(document.trials.len(), "trial"));
    }
    facts.push(document.host.name.clone());
    if let Some(trial) = document.trials.first() {
        facts.push(date(trial.started_unix_ns));
    }
    facts.retain(|fact| !fact.is_empty());
    let kind = capitalized(verdict_kind(&document.verdict));
    let (title, limits) = match (&headline.answer, headline.limits.as_slice()) {
        (Some(answer), limits) => (answer.as_str(), limits),
        (None, [first, rest @ ..]) => (first.as_str(), rest),
        (None, []) => (kind.as_str(), &[][..]),
    };
    let mut out = format!(
        "<header><p class=\"name\">{}</p><p class=\"facts\">{}</p><h1>{}</h1><dl>",
        escape(name),
        escape(&facts.join(" · ")),
        sentence(title)
    );
    let mut row = |label: &str, content: String| {
        if !content.is_empty() {
            out.push_str(&format!("<dt>{label}</dt><dd>{content}</dd>"));
        }
    };
    let lines = |texts: &[String], section: &str| -> String {
        let mut shown: String =
            texts.iter().take(FIRST_LINES).map(|text| format!("<p>{}</p>", sentence(text))).collect();
        if texts.len() > FIRST_LINES {
            let more = texts.len() - FIRST_LINES;
            shown.push_str(&format!("<p><a href=\"#{section}\">{more} more</a></p>"));
        }
        shown
    };
    row("Figures", lines(&headline.details, "answer"));
    row("Why", lines(&headline.why, "why"));
    row(&kind, lines(limits, "limits"));
    if let Verdict::Bottleneck { .. } = &document.verdict {
        let proof = sentences::proof_in_short(document).unwrap_or_else(|| no_proof(document));
        row("Proof", sentence(&proof));
    }
    if let Verdict::Inconclusive { lacks, .. } = &document.verdict {
        let to_do: Vec<_> = lacks.iter().map(|lack| sentences::missing(document, lack)).collect();
        row("To do", lines(&to_do, "limits"));
    }
    if let Some(goal) = &document.goal {
        let missed: Vec<String> = goal
            .goals
            .iter()
            .filter(|line| !line.met)
            .map(|line| {
                let word = if line.undecided && !goal.is_undecided() { " (undecided)" } else { "" };
                format!("{} in {}{word}", line.goal, line.trial)
            })
            .collect();
        let text = match (goal.met, missed.len()) {
            (true, _) => "Met in every trial.".to_string(),
            _ if goal.is_undecided() => {
                let why = tables::why_undecided(document, goal);
                match missed.len() {
                    0 => format!("Undecided, because {why}."),
                    1..=3 => format!("Undecided, because {why}: {}.", missed.join("; ")),
                    _ => format!("Undecided, because {why}: {}.", tables::not_met(goal)),
                }
            }
            (false, 0..=3) => format!("Missed: {}.", missed.join("; ")),
            (false, _) => format!("Missed: {}.", tables::not_met(goal)),
        };
        row("Goal", sentence(&text));
    }
    let doubts = all_doubts(document);
    row(
        "Data quality",
        match doubts.first() {
            None => "No warnings.".into(),
            Some(first) => format!(
                "<a href=\"#quality\">{}</a>: {}.",
                plural(doubts.len(), "warning"),
                sentence(first.sentence(document).trim_end_matches('.'))
            ),
        },
    );
    if let Some(next) = sentences::next_command(document) {
        row("Next", format!("<code>{}</code> {}", escape(&next.command), escape(next.purpose)));
    }
    out.push_str("</dl></header>");
    out
}

/// The figures next to the answer: the numbers of one configuration, or of each compared with the baseline; the goals.
fn answer(document: &ResultDocument) -> String {
    let details = &sentences::headline(document).details;
    let mut out = match details.len() > FIRST_LINES {
        true => paragraphs(&details[FIRST_LINES..]),
        false => String::new(),
    };
    if let Some(gate) = tables::gate(document) {
        out.push_str(&table(&gate, Origin::Result));
    }
    if let Some(launches) = launches::table(document) {
        out.push_str(&table(&launches, Origin::Result));
    }
    out.push_str(&limit::limit(document));
    if document.limit.is_none() {
        out.push_str(&result(document));
    }
    let is_list = document.configurations.len() > tables::SIDE_BY_SIDE || document.comparison.is_empty();
    if document.configurations.len() > 1 && is_list && document.curves.is_empty() {
        if let Some(pairs) = patterns::reads_and_writes(document) {
            out.push_str(&table(&pairs, Origin::Result));
        }
        out.push_str(&table(&tables::configurations(document), Origin::Result));
    }
    // For a sweep, the curves are the answer.
    out.push_str(&match sentences::is_swept(document) {
        true => compare::sweeps(document),
        false => compare::comparison(document),
    });
    if let Some(goals) = tables::goals(document) {
        out.push_str(&table(&Table { title: "Goals".into(), ..goals }, Origin::Result));
    }
    for shown in tables::of_the_system(document) {
        out.push_str(&table(&shown, Origin::Result));
    }
    if let Some(statuses) = tables::statuses(document) {
        // If many trials have only one status code, no table is needed.
        out.push_str(&match statuses.columns.as_slice() {
            [_, only] if statuses.rows.len() > 1 => {
                format!("<p>Every response had status code {}.</p>", escape(&only.head))
            }
            _ => table(&statuses, Origin::Result),
        });
    }
    out
}

/// The parts of the time in each configuration, and the differences in the cost of one operation between them.
fn why(document: &ResultDocument) -> String {
    let parts = tables::derived_means(document);
    let parts: String = parts.iter().map(|parts| table(parts, Origin::Result)).collect();
    paragraphs(&costs::whys(document)) + &parts
}

/// The limits of each configuration, the proof, and the findings.
fn limits(document: &ResultDocument) -> String {
    let mut out = paragraphs(sentences::headline(document).limits.get(FIRST_LINES..).unwrap_or_default());
    if let Some(limits) = tables::limits(document) {
        out.push_str(&table(&Table { title: String::new(), ..limits }, Origin::Result));
    }
    out.push_str(&compare::proof(document));
    out.push_str(&context::findings(document));
    if let Some(thresholds) = tables::thresholds(document) {
        let summary = escape(&sentence(&thresholds.title)).trim_end_matches('.').to_string();
        let thresholds = table(&Table { title: String::new(), ..thresholds }, Origin::Result);
        out.push_str(&format!("<details><summary>{summary}</summary>{thresholds}</details>"));
    }
    out
}

/// Throughput and response time against the varied setting, published figures, and percentiles.
fn curves(document: &ResultDocument, study: &Study) -> String {
    let mut out = match sentences::is_swept(document) {
        true => compare::comparison(document),
        false => compare::sweeps(document),
    };
    let published = tables::published(document)
        .into_iter()
        .chain(tables::published_changes(document))
        .chain(tables::published_times(document))
        .chain(tables::beside(document));
    out.extend(published.map(|each| table(&each, Origin::Result)));
    out.push_str(&compare::tails(document, study));
    out
}

fn paragraphs(texts: &[String]) -> String {
    texts.iter().map(|text| format!("<p>{}</p>", sentence(text))).collect()
}

/// The numbers of a result with one configuration; of several, each configuration and what differs in it.
fn result(document: &ResultDocument) -> String {
    if document.trials.is_empty() {
        return "<p>Nothing was measured: the record holds no trial.</p>".into();
    }
    if document.configurations.len() > 1 {
        return String::new();
    }
    let mut out = String::new();
    let Some(trial) = document.trials.first() else { return out };
    if document.trials.len() > 1 {
        out.push_str(&format!(
            "<p class=\"note\">Of the first of {}.</p>",
            plural(document.trials.len(), "trial")
        ));
    }
    if let Some(why) = cut_short(trial) {
        out.push_str(&format!("<p>{}</p>", sentence(&why)));
    }
    if trial.operations.is_empty() {
        return out + "<p>No operation was recorded.</p>";
    }
    out.push_str(&table(&tables::amounts(trial, &document.traits), Origin::Result));
    let latencies = tables::latencies(trial, &document.traits, false);
    match latencies.rows.is_empty() {
        _ if document.traits.grouped => {}
        true => out.push_str("<p>No operation completed, so there are no response times.</p>"),
        false => out.push_str(&table(&latencies, Origin::Result)),
    }
    if let Some(derived) = tables::derived(trial) {
        out.push_str(&table(&derived, Origin::Result));
    }
    if let Some(cpu) = trial.cpu_us_per_operation.filter(|cpu| cpu.is_finite()) {
        out.push_str(&format!(
            "<p>CPU of the load generator per operation: <data value={}>{}</data>{}.</p>",
            markup::six_digits(cpu),
            escape(&Quantity::Microseconds.show(cpu)),
            trial.generator_max_per_s.map_or(String::new(), |most| format!(
                ", enough for <data value={}>{}</data>",
                markup::six_digits(most),
                escape(&Quantity::Rate(rate_word(&document.traits)).show(most))
            ))
        ));
    }
    out
}

fn cost(document: &ResultDocument) -> String {
    let shown =
        |tables: Vec<Table>| -> String { tables.iter().map(|each| table(each, Origin::Result)).collect() };
    let (costs, differences) = (shown(costs::costs(document)), shown(costs::differences(document)));
    match differences.is_empty() {
        true => costs,
        false => format!(
            "{costs}<details><summary>Differences from the baseline, part by part</summary>{differences}</details>"
        ),
    }
}
