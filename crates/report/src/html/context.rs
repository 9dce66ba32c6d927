//! Background of the result: findings, doubts, settings, host, sources.

use model::{EventKind, Evidence, Finding, ResultDocument, Run, SourceState, Study};

use crate::chart::escape;
use crate::sentences;
use crate::table::{Cell, Table};
use crate::terminal::{all_doubts, finding_word};
use crate::text::{Quantity, capitalized, date, seconds};

use super::markup::{Origin, sentence, table};

/// Findings with their evidence.
pub(super) fn findings(document: &ResultDocument) -> String {
    document.findings.iter().map(finding).collect()
}

fn finding(finding: &Finding) -> String {
    let mut out = format!(
        r#"<div class="finding"><p><span class="word">{}</span> {}</p>"#,
        escape(&capitalized(&finding_word(finding.kind).to_lowercase())),
        sentence(&sentences::finding(finding))
    );
    if !(finding.evidence.is_empty() && finding.against.is_empty()) {
        out.push_str("<details><summary>Evidence</summary>");
        let mut rows = Table::new("", &["", "", "metric", "window", ">observed", ">expected", "trial"]);
        let sides = [("for", &finding.evidence), ("against", &finding.against)];
        for (side, evidence) in
            sides.into_iter().flat_map(|(side, all)| all.iter().map(move |one| (side, one)))
        {
            rows.row(evidence_row(side, evidence));
        }
        out.push_str(&table(&rows, Origin::Result));
        out.push_str("</details>");
    }
    out.push_str("</div>");
    out
}

fn evidence_row(side: &str, evidence: &Evidence) -> Vec<Cell> {
    let number = |value: f64| Cell::shown(value, sentences::value(evidence, value));
    let second = |value: f64| Cell::shown(value, seconds(value));
    let estimate = |estimate: &model::Estimate| match estimate.low == estimate.high {
        true => number(estimate.value),
        false => number(estimate.value)
            .then(Cell::words(" ("))
            .then(number(estimate.low))
            .then(Cell::words(" to "))
            .then(number(estimate.high))
            .then(Cell::words(")")),
    };
    let window = match evidence.end_s > evidence.begin_s {
        true => second(evidence.begin_s)
            .then(Cell::words(" to "))
            .then(second(evidence.end_s))
            .then(Cell::words(" s")),
        false => Cell::default(),
    };
    vec![
        Cell::words(side),
        Cell::words(sentences::measure(evidence)),
        Cell::words(evidence.metric.clone()),
        window,
        estimate(&evidence.observed),
        evidence.expected.as_ref().map_or(Cell::default(), estimate),
        Cell::words(evidence.run.clone()),
    ]
}

/// Doubts with advice, and missing evidence.
pub(super) fn doubts(document: &ResultDocument, study: &Study) -> String {
    let mut items = String::new();
    for doubted in all_doubts(document) {
        let doubt = doubted.doubt;
        let help = match doubt.help.is_empty() {
            true => String::new(),
            false => {
                format!(r#" <span class="help">Try: {}.</span>"#, sentence(doubt.help.trim_end_matches('.')))
            }
        };
        let text = doubted.sentence(document);
        items.push_str(&format!("<li>{}.{help}</li>", sentence(text.trim_end_matches('.'))));
    }
    for damage in &study.damage {
        items.push_str(&format!("<li>The record is damaged: {}</li>", escape(damage)));
    }
    match items.is_empty() {
        true => "<p>No warnings.</p>".into(),
        false => format!("<ul>{items}</ul>"),
    }
}

/// Settings requested and in force, host, sources, cost of measuring.
pub(super) fn setting(document: &ResultDocument, study: &Study) -> String {
    let mut out = String::new();
    if let Some(record) = study.runs.first() {
        out.push_str(&filled(&settings(&record.run), Origin::Record));
        if study.runs.len() > 1 {
            out.push_str(
                r#"<p class="note">These are the settings of the first trial; the names of the others show the differences.</p>"#,
            );
        }
    }
    out.push_str(&filled(&not_in_force(study), Origin::Record));
    out.push_str(&table(&host(document), Origin::Result));
    if let Some(record) = study.runs.first() {
        out.push_str(&filled(&sources(study), Origin::Record));
        out.push_str(&filled(&cost(&record.run), Origin::Record));
        if !record.run.facts.is_empty() {
            let mut facts = Table::new("Facts of the workload", &["fact", "value"]);
            for (name, level) in &record.run.facts {
                facts.row(vec![Cell::words(name.clone()), Cell::words(level.to_string())]);
            }
            out.push_str(&table(&facts, Origin::Record));
        }
        let reported = record.events.iter().filter(|event| event.kind != EventKind::Launch);
        let events: Vec<_> = reported.take(40).collect();
        if !events.is_empty() {
            let mut rows = Table::new("Events of the first trial", &[">second", "event"]);
            for event in events {
                rows.row(vec![Cell::shown(event.at_s, seconds(event.at_s)), Cell::words(event.text.clone())]);
            }
            out.push_str(&table(&rows, Origin::Record));
        }
    }
    out
}

/// A table, unless it has no rows.
fn filled(rows: &Table, origin: Origin) -> String {
    if rows.rows.is_empty() { String::new() } else { table(rows, origin) }
}

fn settings(run: &Run) -> Table {
    let mut out = Table::new("Settings", &["setting", "asked", "in force"]);
    for (path, level) in &run.asked {
        let in_force = match run.in_force.get(path) {
            Some(read) if read == level => "as asked".to_string(),
            Some(read) => read.to_string(),
            None => String::new(),
        };
        out.row(vec![Cell::words(path.clone()), Cell::words(level.to_string()), Cell::words(in_force)]);
    }
    for (path, level) in run.in_force.iter().filter(|(path, _)| !run.asked.contains_key(*path)) {
        out.row(vec![Cell::words(path.clone()), Cell::words("not asked"), Cell::words(level.to_string())]);
    }
    out
}

/// Settings whose level in force differs from the requested one, in any trial.
fn not_in_force(study: &Study) -> Table {
    let mut out =
        Table::new("Settings not in force as requested", &["trial", "setting", "asked", "in force"]);
    for record in &study.runs {
        let differing = record.run.asked.iter().filter_map(|(path, asked)| {
            record.run.in_force.get(path).filter(|read| *read != asked).map(|read| (path, asked, read))
        });
        for (path, asked, read) in differing {
            out.row(vec![
                Cell::words(record.run.trial.id()),
                Cell::words(path.clone()),
                Cell::words(asked.to_string()),
                Cell::words(read.to_string()),
            ]);
        }
    }
    out
}

fn host(document: &ResultDocument) -> Table {
    let host = &document.host;
    let mut out = Table::new("Host", &["", ""]);
    let mut row = |name: &str, value: Cell| out.row(vec![Cell::words(name), value]);
    // Of an imported result, the host is not known.
    let is_known = host.cpus > 0 || !host.name.is_empty();
    if !is_known {
        row("host", Cell::words("not recorded: another tool measured"));
    }
    let mut row = |name: &str, value: Cell| {
        if is_known {
            out.row(vec![Cell::words(name), value]);
        }
    };
    row("name", Cell::words(host.name.clone()));
    row("system", Cell::words(format!("{}, kernel {}", host.os, host.kernel)));
    row("processor", Cell::words(host.cpu_model.clone()));
    row("CPUs online", Cell::shown(f64::from(host.cpus), host.cpus.to_string()));
    let memory = host.memory_bytes as f64;
    row("memory", Cell::shown(memory, Quantity::Bytes.show(memory)));
    row(
        "hypervisor",
        Cell::words(if host.hypervisor.is_empty() { "none recognized" } else { host.hypervisor.as_str() }),
    );
    for (disk, facts) in &host.disks {
        let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        row(&format!("disk {disk}"), Cell::words(facts.join(", ")));
    }
    let mut row = |name: &str, value: Cell| out.row(vec![Cell::words(name), value]);
    row("Plimsoll", Cell::words(host.plimsoll.clone()));
    if let Some(trial) = document.trials.first().filter(|trial| trial.started_unix_ns > 0) {
        row("start of the first trial", Cell::words(date(trial.started_unix_ns)));
    }
    out
}

/// Every source and the number of trials in which it could be read.
fn sources(study: &Study) -> Table {
    let mut out = Table::new("Counters read", &["source", "state", "in trials"]);
    let mut seen: Vec<(String, String, Vec<String>)> = Vec::new();
    for record in &study.runs {
        for status in &record.run.sources {
            let state = match &status.state {
                SourceState::Active => "read at every sample".to_string(),
                SourceState::Unavailable(why) => format!("could not be read: {why}"),
                SourceState::Failing { samples, why } => format!("missing in {samples} samples: {why}"),
            };
            let id = record.run.trial.id();
            match seen.iter_mut().find(|known| known.0 == status.source && known.1 == state) {
                Some(known) => known.2.push(id),
                None => seen.push((status.source.clone(), state, vec![id])),
            }
        }
    }
    for (source, state, trials) in seen {
        let trials = match trials.len() == study.runs.len() {
            true => "all".to_string(),
            false => trials.join(", "),
        };
        out.row(vec![Cell::words(source), Cell::words(state), Cell::words(trials)]);
    }
    out
}

fn cost(run: &Run) -> Table {
    let mut out = Table::new("Cost of measuring, in the first trial", &["", ""]);
    let mut row = |name: &str, cell: Cell| out.row(vec![Cell::words(name), cell]);
    let time = |value: f64| Cell::shown(value, Quantity::Seconds.show(value));
    // A recording has no load generator, and a trial that failed early has no measurements.
    if run.generator.wall_s > 0.0 {
        row("CPU time of the load generator", time(run.generator.cpu_s));
        row("its threads waited for a CPU", time(run.generator.run_wait_s));
        row("over", time(run.generator.wall_s));
    }
    if run.sampler.samples > 0 {
        row("CPU time of reading counters", time(run.sampler.cpu_s));
        row("samples", Cell::shown(run.sampler.samples as f64, run.sampler.samples.to_string()));
    }
    if !run.clock.source.is_empty() {
        row("clock", Cell::words(run.clock.source.clone()));
        let read_ns = run.clock.read_ns;
        let text = format!("{} ns", model::quantity::three_figures(read_ns));
        row("one sample", Cell::shown(read_ns, text));
    }
    for error in &run.errors {
        row(
            &format!("failed: {}", error.operation),
            Cell::words(format!("{} x {}", error.count, error.text)),
        );
    }
    out
}
