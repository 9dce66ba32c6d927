//! A result for other programs: CSV, Markdown, JUnit.

use model::limit::{LimitAnswer, LimitResult};
use model::result::{OperationResult, TrialResult};
use model::steps::Times;
use model::{DoubtKind, Ending, LatencySummary, ResultDocument};

use crate::chart::escape;
use crate::table::Table;
use crate::terminal::all_doubts;
use crate::text::visible;
use crate::{launches, sentences, tables};

/// The columns of [`csv`] before the latencies.
const BEFORE: [&str; 23] = [
    "run",
    "experiment",
    "workload",
    "host",
    "trial",
    "treatment",
    "replicate",
    "started_unix_ns",
    "measured_s",
    "load",
    "ending",
    "doubts",
    "cpu_us_per_operation",
    "operation",
    "offered",
    "issued",
    "completed",
    "late",
    "failed",
    "rate_per_s",
    "bytes_per_s",
    "concurrency",
    "mebibytes_per_s",
];

/// One row per trial and operation with every number, RFC 4180. A trial without operations has one row.
pub fn csv(document: &ResultDocument) -> String {
    let mut out = BEFORE.join(",");
    for kind in ["response_ms", "service_ms", "lag_ms"] {
        for part in LatencySummary::PARTS {
            out.push_str(&format!(",{kind}_{part}"));
        }
    }
    out.push_str(",censored");
    for kind in ["response_ms", "service_ms", "lag_ms"] {
        out.push_str(&format!(",{kind}_at_least"));
    }
    out.push('\n');
    for trial in &document.trials {
        for operation in trial.operations.iter().chain(&trial.derived) {
            csv_row(&mut out, document, trial, Some(operation));
        }
        if trial.operations.is_empty() {
            csv_row(&mut out, document, trial, None);
        }
    }
    out
}

fn csv_row(
    out: &mut String,
    document: &ResultDocument,
    trial: &TrialResult,
    operation: Option<&OperationResult>,
) {
    let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
    let mut fields = vec![
        csv_text(&document.run),
        csv_text(&document.experiment),
        csv_text(&document.workload),
        csv_text(&document.host.name),
        csv_text(&trial.trial),
        csv_text(&trial.treatment.label),
        trial.replicate.to_string(),
        trial.started_unix_ns.to_string(),
        number(trial.measured_s),
        csv_text(&trial.load),
        csv_text(&trial.ending.to_string()),
        trial.doubts.len().to_string(),
        trial.cpu_us_per_operation.map_or(String::new(), number),
    ];
    match operation {
        Some(operation) => {
            fields.push(csv_text(operation.name.as_str()));
            let (completed, failed) = (Some(operation.completed), Some(operation.failed));
            let counts = [operation.offered, operation.issued, completed, operation.late, failed];
            // What another tool did not count is empty.
            fields.extend(counts.map(|count| count.map_or_else(String::new, |count| count.to_string())));
            fields.extend(
                [
                    operation.rate_per_s,
                    operation.bytes_per_s,
                    operation.concurrency,
                    operation.bytes_per_s / 1_048_576.0,
                ]
                .map(number),
            );
            for summary in [operation.response_ms, operation.service_ms, operation.lag_ms] {
                // Nothing completed without a time: 0 would be one.
                fields.extend(
                    LatencySummary::PARTS.map(|part| summary.part(part).map_or(String::new(), number)),
                );
            }
            fields.push(operation.censored.to_string());
            // The statistics of which only a lower bound is known.
            for summary in [operation.response_ms, operation.service_ms, operation.lag_ms] {
                fields.push(Vec::<String>::from(summary.at_least).join(" "));
            }
        }
        None => fields.extend(vec![String::new(); 14 + 3 * LatencySummary::PARTS.len()]),
    }
    out.push_str(&fields.join(","));
    out.push('\n');
}

/// The steps of a request in each configuration, one row each, RFC 4180: `step,what,ms` and more. The values of `ms` of a
/// configuration add up to the time of a request. None if no order of steps is known.
pub fn steps_csv(document: &ResultDocument) -> Option<String> {
    if !document.request_steps.iter().any(|of| of.is_ordered) {
        return None;
    }
    let mut out =
        "configuration,step,what,ms,share,begin_ms,takes_ms,first_byte_ms,p50_ms,p95_ms,max_ms\n".to_string();
    for of in document.request_steps.iter().filter(|of| of.is_ordered) {
        let request = &of.request;
        let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let mut step = 0;
        let mut row = |what: &str, ms: f64, begin_ms: f64, takes: &Times, first_byte_ms: Option<f64>| {
            step += 1;
            let numbers = [ms, ms / request.total_ms.mean, begin_ms.max(0.0), takes.mean];
            let mut fields = vec![csv_text(&of.configuration), step.to_string(), csv_text(what)];
            fields.extend(numbers.map(number));
            fields.push(first_byte_ms.map_or(String::new(), number));
            fields.extend([takes.p50, takes.p95, takes.max].map(number));
            out.push_str(&fields.join(","));
            out.push('\n');
        };
        for step in &request.steps {
            let (name, own) = (sentences::step_name(step), &step.own_before_ms);
            row(&format!("own time before {name}"), own.mean, step.begin_ms - own.mean, own, None);
            row(&name, step.adds_ms, step.begin_ms, &step.takes_ms, Some(step.first_byte_ms));
        }
        let own = &request.own_after_ms;
        row("own time before the reply", own.mean, request.total_ms.mean - own.mean, own, None);
    }
    Some(out)
}

/// A text as a cell. A spreadsheet would compute one that begins as a formula does: a single quotation mark before it makes
/// it a text.
pub fn csv_text(text: &str) -> String {
    let mut text = visible(text).into_owned();
    // The first of a text in full width is a formula too where such characters are typed.
    if text.starts_with(['=', '+', '-', '@', '\t', '\n', '␍', '＝', '＋', '－', '＠']) {
        text.insert(0, '\'');
    }
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// The comparison for a pull request or a wiki: GitHub's tables. Without a comparison, the trials.
pub fn markdown(document: &ResultDocument) -> String {
    let mut out = format!("### {}\n\n", markdown_text(&document.experiment));
    let headline = sentences::headline(document);
    for text in headline.answer.iter().chain(&headline.details).chain(&headline.why).chain(&headline.limits) {
        out.push_str(&format!("**{}**\n\n", markdown_text(text)));
    }
    if (2..=tables::SIDE_BY_SIDE).contains(&document.configurations.len()) {
        for line in crate::labels::letters(document) {
            out.push_str(&format!("- {}\n", markdown_text(&line)));
        }
        out.push('\n');
    }
    if let Some(gate) = tables::gate(document) {
        out.push_str(&markdown_gate(&gate));
    }
    if let Some(launches) = launches::table(document) {
        out.push_str(&markdown_table(&launches));
    }
    if let Some(found) = &document.limit {
        let tables = tables::limit(document).into_iter().chain(tables::published_limits(document));
        out.extend(tables.map(|table| markdown_table(&table)));
        out.extend(found.configurations.iter().map(|of| markdown_table(&tables::loads(document, found, of))));
    } else if document.configurations.len() == 2 && !document.comparison.is_empty() {
        out.push_str(&markdown_table(&tables::pair(document, &document.configurations[1].treatment.label)));
    } else if !document.comparison.is_empty() {
        for name in tables::compared_metrics(document) {
            out.push_str(&markdown_table(&tables::against_baseline(document, name)));
        }
    } else {
        out.push_str(&markdown_table(&tables::trials(document)));
    }
    let steps = document.request_steps.iter().map(|of| tables::steps(document, of, false));
    for table in tables::sensitivity(document).into_iter().chain(steps) {
        out.push_str(&format!("{}\n\n", markdown_text(&table.title)));
        out.push_str(&markdown_table(&table));
    }
    if let Some(limits) = tables::limits(document) {
        out.push_str(&markdown_table(&limits));
    }
    if let Some(proof) = tables::proof(document) {
        out.push_str(&markdown_table(&proof));
    }
    if let Some(goals) = tables::goals(document) {
        out.push_str(&markdown_table(&goals));
    }
    for finding in headline.others(document) {
        out.push_str(&format!("- {}\n", markdown_text(&sentences::finding(finding))));
    }
    for doubted in all_doubts(document) {
        out.push_str(&format!("- doubt: {}\n", markdown_text(&doubted.sentence(document))));
    }
    out
}

fn markdown_gate(gate: &Table) -> String {
    format!("{}{}\n\n", markdown_table(gate), markdown_text(&gate.note))
}

/// The result of a gate for the summary of a CI job or a pull request: the answer and its table; everything else can be
/// unfolded. Without a gate, as [`markdown`].
pub fn gate_summary(document: &ResultDocument) -> String {
    let (Some(gate), Some(table)) = (&document.gate, tables::gate(document)) else {
        return markdown(document);
    };
    let headline = sentences::headline(document);
    let mut out =
        format!("### {}: {}\n\n", markdown_text(&document.experiment), sentences::gate_word(gate.answer));
    for text in headline.answer.iter().chain(&headline.details) {
        out.push_str(&format!("{}\n\n", markdown_text(text)));
    }
    out.push_str(&markdown_gate(&table));
    out.push_str(&format!(
        "<details><summary>All figures</summary>\n\n{}\n</details>\n\n",
        markdown(document)
    ));
    out
}

/// A text that is only text in Markdown: no link or image, no HTML, no table cell more, no address that becomes a link.
fn markdown_text(text: &str) -> String {
    let text = visible(text).replace(['\n', '\t'], " ");
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '[' | ']' | '!' | '|' | '`' | '*' | '_' | '~' => out.extend(['\\', c]),
            ':' if text[at..].starts_with("://") => out.push_str("\\:"),
            '.' if ends_with_www(&text.as_bytes()[..at]) => out.push_str("\\."),
            c => out.push(c),
        }
    }
    out
}

fn ends_with_www(text: &[u8]) -> bool {
    text.last_chunk::<3>().is_some_and(|last| last.eq_ignore_ascii_case(b"www"))
}

fn markdown_table(table: &Table) -> String {
    let mut out = String::new();
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&row(table.columns.iter().map(|column| markdown_text(&column.head)).collect()));
    out.push_str(&row(table
        .columns
        .iter()
        .map(|column| if column.right { "--:" } else { "---" }.to_string())
        .collect()));
    for cells in &table.rows {
        out.push_str(&row(cells.iter().map(|cell| markdown_text(cell.text().trim_end())).collect()));
    }
    out.push('\n');
    out
}

fn nothing_completed(trial: &TrialResult) -> bool {
    trial.whole().is_none_or(|whole| whole.completed == 0)
}

/// A JUnit file: one test case for each planned trial, that it ran to its end, and one for each goal and trial. A trial that did
/// not is an error with its reason; one whose data came back damaged, or in which nothing completed or everything failed, is a
/// failure.
pub fn junit(document: &ResultDocument) -> String {
    let mut cases = String::new();
    let (mut count, mut failures, mut errors) = (0, 0, 0);
    let mut case = |class: &str, name: &str, wrong: Option<(&str, String)>| {
        count += 1;
        let (class, name) = (escape(class), escape(name));
        match wrong {
            None => cases.push_str(&format!("  <testcase classname=\"{class}\" name=\"{name}\"/>\n")),
            Some((element, message)) => {
                if element == "error" {
                    errors += 1
                } else {
                    failures += 1
                }
                cases.push_str(&format!(
                    "  <testcase classname=\"{class}\" name=\"{name}\"><{element} message=\"{}\"/></testcase>\n",
                    escape(&message)
                ));
            }
        }
    };
    // A trial of a search may fail because its load is too large: what counts is the answer.
    for of in document.limit.iter().flat_map(|found| &found.configurations) {
        for goal in &of.goals {
            let wrong = match goal.answer {
                LimitAnswer::Found => None,
                LimitAnswer::NotReached if document.limit.as_ref().is_some_and(LimitResult::is_resource) => {
                    None
                }
                LimitAnswer::AlwaysMissed => Some("failure"),
                LimitAnswer::NotReached | LimitAnswer::Unclear | LimitAnswer::GeneratorBound => Some("error"),
            };
            let said = document.limit.as_ref().map(|found| sentences::goal_sentence(document, found, goal));
            let name = format!("limit for {}", goal.goal);
            case(&of.configuration, &name, wrong.zip(said));
        }
    }
    for trial in document.trials.iter().filter(|_| document.limit.is_none()) {
        let worst = |kind: DoubtKind| trial.doubts.iter().find(|doubt| doubt.kind == kind);
        let failed = worst(DoubtKind::Corrupted)
            .or(worst(DoubtKind::Failures).filter(|_| trial.failed_wholly()))
            .map(|doubt| doubt.text.clone())
            .or_else(|| nothing_completed(trial).then(|| "nothing completed".into()))
            .map(|why| ("failure", why));
        let why = || worst(DoubtKind::CutShort).map_or(trial.ending.to_string(), |doubt| doubt.text.clone());
        let broken = (trial.ending != Ending::Completed).then(|| ("error", why()));
        case(&trial.trial, "completed", broken.or(failed));
    }
    if let Some(unfinished) = &document.unfinished {
        let error = |what: &str| Some(("error", what.to_string()));
        for id in &unfinished.not_run {
            case(id, "completed", error("the trial did not run"));
        }
        for id in &unfinished.lost {
            case(id, "completed", error("the record of the trial is gone"));
        }
        if unfinished.planned.is_none() && unfinished.lost.is_empty() {
            case("experiment", "completed", error("the experiment is not finished"));
        }
    }
    for goal in document.goal.iter().flat_map(|goal| &goal.goals) {
        let value = goal.value.filter(|value| value.is_finite());
        let of = goal.operation.as_ref().map_or(String::new(), |operation| format!(" of {operation}"));
        let value = value.map_or("nothing completed".to_string(), |value| format!("value {value}{of}"));
        let is_complete = document
            .trials
            .iter()
            .any(|trial| trial.trial == goal.trial && trial.ending == Ending::Completed);
        let at_least = if goal.is_bound { " at least" } else { "" };
        let missed = (!goal.met).then(|| match goal.undecided {
            true if !is_complete => {
                ("error", format!("{}: undecided, the trial did not complete, {value}{at_least}", goal.goal))
            }
            true => ("error", format!("{}: undecided, {value}{at_least}", goal.goal)),
            false => ("failure", format!("{}: missed, {value}", goal.goal)),
        });
        case(&goal.trial, &goal.goal, missed);
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"{}\" tests=\"{count}\" failures=\"{failures}\" errors=\"{errors}\">\n{cases} </testsuite>\n</testsuites>\n",
        escape(&document.experiment)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::text::is_hidden;
    use model::{Doubt, Owner, Resource, ResourceClass};

    #[test]
    fn a_cell_of_a_spreadsheet_is_no_formula() {
        for (text, expected) in [
            ("=HYPERLINK(\"http://x\",1)", "\"'=HYPERLINK(\"\"http://x\"\",1)\""),
            ("+1", "'+1"),
            ("-2+3", "'-2+3"),
            ("@SUM(1)", "'@SUM(1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'␍=1"),
            ("\n=1", "\"'\n=1\""),
            ("＝1", "'＝1"),
            ("read=1", "read=1"),
            ("\u{1b}[2J", "␛[2J"),
        ] {
            assert_eq!(csv_text(text), expected);
        }
    }

    #[test]
    fn a_text_is_only_text_in_markdown() {
        for (text, expected) in [
            ("![x](http://a/b.png)", "\\!\\[x\\](http\\://a/b.png)"),
            ("<img src=x onerror=y>", "&lt;img src=x onerror=y&gt;"),
            ("a|b\nc", "a\\|b c"),
            ("`code` *b* _i_ ~s~ \\", "\\`code\\` \\*b\\* \\_i\\_ \\~s\\~ \\\\"),
            ("WWW.example.com", "WWW\\.example.com"),
            ("&#60;b&#62;", "&amp;#60;b&amp;#62;"),
        ] {
            assert_eq!(markdown_text(text), expected);
        }
    }

    /// A stored run whose every text is hostile.
    fn hostile() -> crate::recorded::Recorded {
        const TEXT: &str =
            "=1\u{1b}[2J\u{9b}31m\u{202e}\u{0}\u{fffe}]]><script>alert(1)</script>\"' onload='x";
        let mut hostile = crate::recorded::run("proof");
        let document = &mut hostile.document;
        document.experiment = TEXT.into();
        document.host.name = TEXT.into();
        for trial in &mut document.trials {
            trial.trial = TEXT.into();
            trial.treatment.label = TEXT.into();
            trial.doubts.push(Doubt::new(DoubtKind::CutShort, TEXT, TEXT));
            trial.ending = Ending::Failed(TEXT.into());
            trial.operations.iter_mut().for_each(|operation| operation.name = TEXT.to_string().into());
            trial.resources.iter_mut().for_each(|resource| resource.instance = TEXT.into());
        }
        for finding in &mut document.findings {
            let of = Some(Owner::Device(TEXT.into()));
            finding.about = Some(Resource { class: ResourceClass::Disk, of, host: None, detail: None });
            finding.side = Some(TEXT.into());
        }
        hostile.study.damage.push(TEXT.into());
        for record in &mut hostile.study.runs {
            let run = &mut record.run;
            run.asked.insert(TEXT.into(), model::Level::Text(TEXT.into()));
            run.in_force.insert(TEXT.into(), model::Level::Text(TEXT.into()));
            run.facts.insert(TEXT.into(), model::Level::Text(TEXT.into()));
            run.clock.source = TEXT.into();
            for source in &mut run.sources {
                source.source = TEXT.into();
                source.state = model::SourceState::Unavailable(TEXT.into());
            }
            record.events.iter_mut().for_each(|event| event.text = TEXT.into());
            record.intervals.iter_mut().for_each(|row| row.operation = TEXT.into());
            record.readings.columns.iter_mut().for_each(|column| column.instance = TEXT.into());
            record.histograms =
                std::mem::take(&mut record.histograms).into_values().map(|of| (TEXT.into(), of)).collect();
        }
        hostile
    }

    #[test]
    fn no_form_has_a_hidden_character_of_others_or_their_markup() {
        let crate::recorded::Recorded { document, study } = hostile();
        let options = crate::Terminal { verbose: true, ..crate::Terminal::default() };
        for (name, text) in [
            ("terminal", crate::terminal(&document, options)),
            ("explanation", crate::explanation(&document, options)),
            ("json", json(&document)),
            ("csv", csv(&document)),
            ("markdown", markdown(&document)),
            ("junit", junit(&document)),
            ("html", crate::html(&document, &study)),
        ] {
            assert!(!text.contains(is_hidden), "{name}");
            let is_markup = ["markdown", "junit", "html"].contains(&name);
            assert!(!is_markup || !text.contains("<script>alert"), "{name}");
            let is_xml = ["junit", "html"].contains(&name);
            assert!(!is_xml || !text.contains(['\u{fffe}', '\u{ffff}']), "{name}");
            assert!(!is_xml || !text.contains("' onload='"), "{name}");
        }
        let read: ResultDocument = serde_json::from_str(&json(&document)).unwrap();
        assert_eq!(read.experiment, document.experiment);
    }

    #[test]
    fn a_table_reader_gets_every_name_from_the_csv() {
        let mut document = crate::recorded::run("disk").document;
        let name = "GET \"/a,b\"\nthen c";
        document.trials.iter_mut().for_each(|trial| trial.operations[0].name = name.to_string().into());
        let text = csv(&document);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let at = reader.headers().unwrap().iter().position(|title| title == "operation").unwrap();
        let names: Vec<String> = reader.records().map(|row| row.unwrap()[at].to_string()).collect();
        assert_eq!(names.iter().filter(|of| of.replace('␊', "\n") == name).count(), document.trials.len());
    }

    #[test]
    fn where_nothing_completed_there_is_no_time_and_the_trial_is_a_failure() {
        let mut document = crate::recorded::run("disk").document;
        for operation in document.trials.iter_mut().flat_map(|trial| &mut trial.operations) {
            operation.completed = 0;
            let times = [&mut operation.response_ms, &mut operation.service_ms, &mut operation.lag_ms];
            times.into_iter().for_each(|times| *times = LatencySummary::default());
        }
        let text = csv(&document);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let titles = reader.headers().unwrap().clone();
        for row in reader.records() {
            for (title, cell) in titles.iter().zip(&row.unwrap()) {
                let is_time = ["response_ms", "service_ms", "lag_ms"].iter().any(|of| title.starts_with(of));
                assert!(!is_time || cell.is_empty(), "{title}: {cell}");
            }
        }
        let table = markdown(&document);
        assert!(table.lines().any(|line| line.contains(" | - | - | ")), "{table}");
        assert!(
            junit(&document).contains("<failure message=\"nothing completed\"/>"),
            "{}",
            junit(&document)
        );
        assert!(!junit(&crate::recorded::run("disk").document).contains("nothing completed\"/>"));
    }

    #[test]
    fn our_colours_are_the_only_escape_sequences_of_a_page() {
        let options = crate::Terminal { color: true, verbose: true, ..crate::Terminal::default() };
        let page = crate::terminal(&hostile().document, options);
        let sequences: Vec<&str> = page.split('\u{1b}').skip(1).collect();
        assert!(!sequences.is_empty());
        for sequence in sequences {
            assert!(["[0m", "[1m", "[2m"].iter().any(|known| sequence.starts_with(known)), "{sequence:?}");
        }
    }
}
