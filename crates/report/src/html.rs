//! A result as one HTML file: nothing is fetched, charts are inline SVG, no script is needed.
//!
//! The light look stands in the charts' own attributes; the style sheet adds the dark one and print. Its one
//! script (crosshair, keys, legend) adds to what is already there. A content policy in the page names both by
//! their digests.

mod compare;
mod context;
mod digest;
mod markup;
mod trial;

use model::{ResultDocument, Study, Verdict};

use crate::chart::escape;
use crate::table::Table;
use crate::terminal::{cut_short, no_proof, verdict_kind};
use crate::text::{capitalized, date, plural};
use crate::{costs, sentences, tables};
use markup::{Origin, section, table};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// The grounds charts stand on, light and dark, as in `style.css`; the hues are tested against them.
#[cfg(test)]
pub(crate) const GROUNDS: [&str; 2] = ["#ffffff", "#14171b"];

/// One self-contained page. `study` supplies the time series and settings the document does not hold; with an
/// empty one the page has everything else.
pub fn html(document: &ResultDocument, study: &Study) -> String {
    let name = if document.experiment.is_empty() { &document.run } else { &document.experiment };
    let sections = [
        ("sweep", "Sweeps", compare::sweeps(document)),
        ("published", "Beside published figures", published(document)),
        ("compare", "Configurations", compare::comparison(document)),
        ("result", "Result", result(document)),
        ("limits", "What limits now", limits(document)),
        ("cost", "Cost of an operation", cost(document)),
        ("findings", "Findings", context::findings(document)),
        ("proof", "Proof", proof(document)),
        ("doubts", "How far to trust it", context::doubts(document, study)),
        ("goals", "Goals", goals(document)),
        ("tail", "Response times", compare::tails(document, study)),
        ("time", "Over time", trial::trials(document, study)),
        ("setting", "Settings, host and sources", context::setting(document, study)),
    ];
    let mut out = String::with_capacity(256 * 1024);
    out.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str(&format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'\">",
        digest::source(STYLE),
        digest::source(SCRIPT)
    ));
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">");
    out.push_str(&format!("<title>{}: {}</title>", escape(name), escape(verdict_kind(&document.verdict))));
    out.push_str(&format!("<style>{STYLE}</style></head>\n<body><main>"));
    out.push_str(&header(document, name));
    out.push_str("<nav aria-label=\"sections\"><ul>");
    for (id, title, content) in &sections {
        if !content.is_empty() {
            out.push_str(&format!("<li><a href=\"#{id}\">{title}</a></li>"));
        }
    }
    out.push_str("</ul></nav>\n");
    for (id, title, content) in &sections {
        out.push_str(&section(id, title, content));
        out.push('\n');
    }
    out.push_str(&format!(
        "<footer><p>Written by Plimsoll {} from {}. Every number of the result is in result.json there; the time series are in its trials folder.</p></footer>",
        escape(&document.host.plimsoll),
        escape(&document.run)
    ));
    out.push_str(&format!("</main><script>{SCRIPT}</script></body></html>\n"));
    out
}

/// The verdict, what was run, and whether it was good enough.
fn header(document: &ResultDocument, name: &str) -> String {
    let mut facts = vec![document.workload.clone(), document.load.clone()];
    if document.trials.len() > 1 {
        facts.push(plural(document.trials.len(), "trial"));
    }
    facts.push(document.host.name.clone());
    if let Some(trial) = document.trials.first() {
        facts.push(date(trial.started_unix_ns));
    }
    facts.retain(|fact| !fact.is_empty());
    let headline = sentences::headline(document);
    let kind =
        format!("<span class=\"word\">{}</span> ", escape(&capitalized(verdict_kind(&document.verdict))));
    // The first sentence is the heading; a verdict alone goes by its kind.
    let (word, answer, limits) = match (&headline.answer, headline.limits.as_slice()) {
        (Some(answer), limits) => (String::new(), answer.as_str(), limits),
        (None, [first, rest @ ..]) => (kind, first.as_str(), rest),
        (None, []) => (kind, "", &[][..]),
    };
    let (first, more) = match answer.split_once(". ") {
        Some((first, more)) => (format!("{first}."), more),
        None => (answer.to_string(), ""),
    };
    let mut out = format!(
        "<header><p class=\"name\">{}</p><p class=\"facts\">{}</p><h1>{}{}</h1>",
        escape(name),
        escape(&facts.join(" · ")),
        word,
        escape(&first)
    );
    if !more.is_empty() {
        out.push_str(&format!("<p>{}</p>", escape(more)));
    }
    for text in headline.why.iter().chain(limits) {
        out.push_str(&format!("<p>{}</p>", escape(text)));
    }
    match &document.verdict {
        Verdict::Bottleneck { .. } => {
            let proof = sentences::proof(document).unwrap_or_else(|| no_proof(document));
            out.push_str(&format!(
                "<p><span class=\"word\">Proof</span> {}</p>",
                escape(&capitalized(&proof))
            ));
        }
        Verdict::Inconclusive { lacks, .. } if !lacks.is_empty() => {
            let items: String =
                lacks.iter().map(|lack| format!("<li>{}</li>", escape(&sentences::missing(lack)))).collect();
            out.push_str(&format!("<p><span class=\"word\">Missing</span></p><ul>{items}</ul>"));
        }
        _ => {}
    }
    if let Some(goal) = &document.goal {
        let missed: Vec<String> = goal
            .goals
            .iter()
            .filter(|line| !line.met)
            .map(|line| format!("{} in {}", line.goal, line.trial))
            .collect();
        let text = match (goal.met, missed.len()) {
            (true, _) => "Met by every trial.".to_string(),
            (false, 0..=3) => format!("Missed: {}.", missed.join("; ")),
            (false, count) => format!("Missed: {count} of {}.", plural(goal.goals.len(), "condition")),
        };
        out.push_str(&format!("<p><span class=\"word\">Goal</span> {}</p>", escape(&text)));
    }
    out.push_str("</header>");
    out
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
        out.push_str(&format!("<p>{}</p>", escape(&why)));
    }
    if trial.operations.is_empty() {
        return out + "<p>No operation was recorded.</p>";
    }
    out.push_str(&table(&tables::amounts(trial, &document.traits), Origin::Result));
    let latencies = tables::latencies(trial, &document.traits, false);
    match latencies.rows.is_empty() {
        true => out.push_str("<p>Nothing completed, so there are no response times.</p>"),
        false => out.push_str(&table(&latencies, Origin::Result)),
    }
    if let Some(cpu) = trial.cpu_us_per_operation.filter(|cpu| cpu.is_finite()) {
        out.push_str(&format!(
            "<p>CPU per operation: <data value=\"{cpu}\">{}</data> of the load generator's threads.</p>",
            escape(&crate::text::Quantity::Microseconds.show(cpu))
        ));
    }
    out
}

fn published(document: &ResultDocument) -> String {
    let tables = tables::published(document).into_iter().chain(tables::beside(document));
    tables.map(|each| table(&each, Origin::Result)).collect()
}

fn limits(document: &ResultDocument) -> String {
    let limits = tables::limits(document).map(|limits| Table { title: String::new(), ..limits });
    limits.map_or(String::new(), |limits| table(&limits, Origin::Result))
}

fn cost(document: &ResultDocument) -> String {
    let tables = costs::costs(document).into_iter().chain(costs::differences(document));
    tables.map(|each| table(&each, Origin::Result)).collect()
}

fn proof(document: &ResultDocument) -> String {
    tables::proof(document).map_or(String::new(), |proof| table(&proof, Origin::Result))
}

fn goals(document: &ResultDocument) -> String {
    tables::goals(document).map_or(String::new(), |goals| table(&goals, Origin::Result))
}
