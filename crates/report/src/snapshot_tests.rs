//! What people see of the stored runs; and that all views show the numbers of the one document.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use model::{ResultDocument, RunRecord, Study};
use proptest::prelude::*;

use crate::html::six_digits;
use crate::recorded::{self, Recorded};
use crate::{Terminal, csv, explanation, html, json, junit, markdown, terminal};

const WIDE: Terminal = Terminal { width: 100, color: false, verbose: false };
const NARROW: Terminal = Terminal { width: 80, color: false, verbose: false };

/// What has no numbers, or odd ones: made from stored runs, as a foreign record could be.
static ODD: LazyLock<Vec<(&'static str, Recorded)>> = LazyLock::new(|| {
    // The folders of the trials were removed.
    let mut empty = recorded::run("disk").study;
    empty.runs.clear();
    // A column of the counters was overwritten, and intervals have no length.
    let mut strange = recorded::run("disk").study;
    for record in &mut strange.runs {
        record.readings.values.iter_mut().step_by(2).for_each(|values| values.fill(f64::NAN));
        for interval in &mut record.intervals {
            interval.end_s = interval.begin_s;
            (interval.response.mean, interval.response.p50) = (f64::NAN, f64::INFINITY);
        }
    }
    // A page without the record, of which `html` says that it has everything else.
    let mut unmatched = recorded::run("disk");
    unmatched.study.runs.clear();
    unmatched.study.damage = vec!["trials/001-baseline.r1/intervals.csv: cut off in line 17".into()];
    vec![("empty", Recorded::of(empty)), ("strange", Recorded::of(strange)), ("unmatched", unmatched)]
});

/// Every stored run, and what was made of them.
fn all() -> impl Iterator<Item = &'static (&'static str, Recorded)> {
    recorded::all().iter().chain(ODD.iter())
}

#[test]
fn terminal_pages() {
    for (name, run) in all() {
        insta::assert_snapshot!(format!("terminal-{name}"), terminal(&run.document, WIDE));
    }
    for name in ["disk", "sync", "proof"] {
        let document = recorded::run(name).document;
        insta::assert_snapshot!(format!("terminal-{name}-80"), terminal(&document, NARROW));
        insta::assert_snapshot!(format!("explanation-{name}"), explanation(&document, NARROW));
    }
}

#[test]
fn two_runs_are_compared_as_configurations() {
    let [disk, depth] = ["disk", "queue-depth"].map(|name| recorded::run(name).study);
    let side = |label, study, select| analysis::Side { label, study, select };
    let sides = [side("disk", &disk, None), side("queue-depth", &depth, Some("outstanding=16"))];
    insta::assert_snapshot!("terminal-two-runs", terminal(&analysis::compare(&sides), WIDE));
}

#[test]
fn what_cannot_be_reported_says_what_would_tell_it() {
    let mut document = recorded::run("queue-depth").document;
    for (settle, show, expected) in [
        (Some(24), Some(9), "About 24 replicates would settle it; about 9 would show a difference of 5 %."),
        (Some(24), None, "About 24 replicates would settle it."),
        (None, Some(9), "About 9 replicates would show a difference of 5 %."),
    ] {
        // Set, as a run shows one of these at a time.
        let row = document.comparison.iter_mut().find(|row| row.metric == "rate_per_s").unwrap();
        row.answer = model::result::Answer::CantTell;
        (row.replicates_to_settle, row.replicates_to_show) = (settle, show);
        let said = crate::sentences::headline(&document).answer.unwrap();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn exchange_formats() {
    let document = |name| recorded::run(name).document;
    insta::assert_snapshot!("csv", csv(&document("disk")));
    for name in ["disk", "failing", "failed", "limit"] {
        insta::assert_snapshot!(format!("junit-{name}"), junit(&document(name)));
    }
    for name in ["queue-depth", "sync", "proof", "limit"] {
        insta::assert_snapshot!(format!("markdown-{name}"), markdown(&document(name)));
    }
    for (_, run) in recorded::all() {
        let read: ResultDocument = serde_json::from_str(&json(&run.document)).unwrap();
        assert_eq!((&read.findings, &read.verdict), (&run.document.findings, &run.document.verdict));
        let table = csv(&run.document);
        let columns: BTreeSet<usize> = table.lines().map(|line| line.split(',').count()).collect();
        assert!(columns.len() == 1 || table.contains('"'), "{columns:?}");
    }
}

/// Every text of a value, as it stands.
fn texts_of<'a>(value: &'a serde_json::Value, texts: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::String(text) => texts.push(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts_of(item, texts)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| texts_of(field, texts)),
        _ => {}
    }
}

/// The sentences behind words in capitals, each as one line.
fn labelled(page: &str) -> Vec<(String, String)> {
    let mut sentences: Vec<(String, String)> = Vec::new();
    for line in page.lines() {
        let (label, rest) = line.split_at_checked(11).unwrap_or((line, ""));
        let is_label =
            label.starts_with(' ') && label.trim().len() > 2 && !label.contains(|c: char| c.is_lowercase());
        match sentences.last_mut() {
            _ if is_label => sentences.push((label.trim().into(), rest.into())),
            Some((_, text)) if label.trim().is_empty() && !rest.is_empty() => {
                *text = format!("{text} {rest}")
            }
            _ => {}
        }
    }
    sentences
}

#[test]
fn every_sentence_of_the_terminal_is_in_the_json() {
    for (name, run) in all() {
        let json: serde_json::Value = serde_json::from_str(&json(&run.document)).unwrap();
        let mut texts = Vec::new();
        texts_of(&json, &mut texts);
        let options = Terminal { verbose: true, ..WIDE };
        let mut checked = 0;
        for (label, text) in labelled(&terminal(&run.document, options)) {
            if !["LIMIT", "RULED OUT", "NOTE", "WARNING", "ANSWER", "WHY", "VERDICT", "PROOF", "TO DO"]
                .contains(&label.as_str())
                || text.starts_with("Not confirmed by experiment")
            {
                continue;
            }
            checked += 1;
            // What follows under one label is several sentences of the JSON: what limits each, what to try.
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let known = texts.iter().filter(|known| !known.is_empty() && rest.starts_with(**known));
                let longest = known.max_by_key(|known| known.len());
                rest = match (longest, rest.split_once(": ")) {
                    (Some(known), _) => rest[known.len()..].trim_start(),
                    (None, Some((before, after))) if label == "WARNING" && !before.contains(". ") => after,
                    _ => panic!("{name}: `{rest}` of {label} is not in the JSON"),
                };
            }
        }
        assert!(checked > 0, "{name}");
    }
}

#[test]
fn pages_fit_their_width() {
    for (name, run) in recorded::whole() {
        for verbose in [false, true] {
            let page = terminal(&run.document, Terminal { verbose, ..WIDE });
            for line in page.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
        }
    }
    for (name, run) in recorded::all() {
        for page in [terminal(&run.document, NARROW), explanation(&run.document, NARROW)] {
            for line in page.lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
        }
    }
}

#[test]
fn color_adds_nothing_but_color() {
    for (_, run) in recorded::whole() {
        let plain = terminal(&run.document, WIDE);
        let colored = terminal(&run.document, Terminal { color: true, ..WIDE });
        let mut stripped = colored.clone();
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m"] {
            stripped = stripped.replace(code, "");
        }
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&stripped), trimmed(&plain));
        assert!(colored.contains("\x1b[1m") && !plain.contains('\x1b'));
    }
}

#[test]
fn a_name_cannot_write_to_the_terminal() {
    let mut document = recorded::run("disk").document;
    document.experiment = "\x1b[31mred\x07".into();
    document.host.name = "h\x1b]0;x".into();
    document.trials[0].operations[0].name = "re\x1bad".to_string().into();
    assert!(!terminal(&document, WIDE).contains(['\x1b', '\x07']));
    assert!(!explanation(&document, WIDE).contains(['\x1b', '\x07']));
}

/// Every number of the JSON, which has one value on a line. Read as text, exactly: serde_json's own reading
/// may differ in the last bit.
fn json_numbers(document: &ResultDocument) -> BTreeSet<u64> {
    json(document)
        .lines()
        .map(|line| line.rsplit_once("\": ").map_or(line, |(_, value)| value).trim().trim_end_matches(','))
        .filter_map(|value| value.parse::<f64>().ok())
        .map(|value| six_digits(value).to_bits())
        .collect()
}

/// The numbers of a page's tables with their texts: (value, text), of the result or of the record. Values have six digits.
fn page_numbers(page: &str, record: bool) -> Vec<(f64, String)> {
    let mut numbers = Vec::new();
    for (at, table) in page.split("<table").enumerate() {
        // Before the first table, and behind a table up to the next, numbers are of the result.
        let (inside, behind) = table.split_once("</table>").unwrap_or(("", table));
        let is_record = at > 0 && inside.starts_with(" class=\"record\"");
        let parts = [(inside, is_record), (behind, false)];
        for part in parts.into_iter().filter(|(_, of_record)| *of_record == record).map(|(part, _)| part) {
            for rest in part.split("<data value=").skip(1) {
                let (value, rest) = rest.split_once('>').unwrap();
                let (text, _) = rest.split_once("</data>").unwrap();
                numbers.push((value.parse().unwrap(), text.to_string()));
            }
        }
    }
    numbers
}

/// Every number of a record a page may show, worked out from the record's own types.
fn record_numbers(study: &Study) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let mut add = |value: f64| {
        numbers.insert(six_digits(value).to_bits());
    };
    for record in &study.runs {
        for interval in &record.intervals {
            let summary = interval.response;
            let rates = [interval.rate_per_s(), interval.bytes_per_s()];
            let times = [interval.begin_s, summary.p50, summary.p99, summary.max];
            for value in rates.into_iter().chain(times) {
                add(value);
            }
        }
        for row in 0..300u16 {
            let octave = record
                .histograms
                .values()
                .flat_map(|each| &each.heat)
                .flat_map(|column| &column.cells)
                .filter(|cell| cell.0 / 4 == row)
                .map(|cell| cell.1)
                .sum::<u64>();
            add(octave as f64);
        }
        let run = &record.run;
        let cost = [run.generator.cpu_s, run.generator.run_wait_s, run.generator.wall_s, run.sampler.cpu_s];
        cost.into_iter().chain([run.sampler.samples as f64, run.clock.read_ns]).for_each(&mut add);
        record.events.iter().for_each(|event| add(event.at_s));
    }
    // Percentile curves: of each configuration, of each operation, and service of all.
    let operations: BTreeSet<&str> =
        study.runs.iter().flat_map(|record| record.histograms.keys().map(String::as_str)).collect();
    let configurations: BTreeSet<String> =
        study.runs.iter().map(|record| record.run.trial.treatment.label()).collect();
    let mut quantiles = |records: &[&RunRecord], name: Option<&str>| {
        for service in [false, true] {
            let mut sum = model::study::new_histogram();
            for record in records {
                for (operation, histograms) in &record.histograms {
                    if name.is_none_or(|name| name == operation) {
                        sum.add(if service { &histograms.service } else { &histograms.response }).unwrap();
                    }
                }
            }
            for quantile in [0.5, 0.9, 0.99, 0.999, 0.9999] {
                add(sum.value_at_quantile(quantile) as f64 / 1e6);
            }
        }
    };
    for label in configurations {
        let records: Vec<&RunRecord> =
            study.runs.iter().filter(|record| record.run.trial.treatment.label() == label).collect();
        quantiles(&records, None);
        for name in &operations {
            quantiles(&records, Some(name));
        }
    }
    numbers
}

#[test]
fn every_number_of_the_page_is_in_the_json_or_the_record() {
    for (name, run) in all() {
        if run.document.trials.iter().any(|trial| trial.resources.iter().any(|use_| use_.mean.is_nan())) {
            // JSON has no word for what is not a number; the page shows a dash, which is no number either.
            continue;
        }
        let page = html(&run.document, &run.study);
        let known = json_numbers(&run.document);
        for (value, text) in page_numbers(&page, false) {
            assert!(known.contains(&value.to_bits()), "{name}: {value} shown as {text} is not in the JSON");
        }
        let known = record_numbers(&run.study);
        for (value, text) in page_numbers(&page, true) {
            assert!(known.contains(&value.to_bits()), "{name}: {value} shown as {text} is not in the record");
        }
    }
    // And the check can fail: a page of other numbers does not pass it.
    let mut other = recorded::run("disk");
    let known = json_numbers(&other.document);
    other.document.trials[0].operations[0].rate_per_s += 1.0;
    let page = html(&other.document, &other.study);
    assert!(page_numbers(&page, false).iter().any(|(value, _)| !known.contains(&value.to_bits())));
    assert!(page_numbers(&page, false).len() > 80);
}

#[test]
fn every_number_of_the_terminal_is_on_the_page() {
    for (name, run) in recorded::whole() {
        let page = html(&run.document, &run.study);
        // The levels of a sweep and of a proof are names.
        let levels = run.document.curves.iter().flat_map(|curve| curve.points.iter());
        let turned = run.document.proof.iter().flat_map(|proof| &proof.rows);
        let levels = levels
            .map(|point| crate::labels::level_text(&point.label))
            .chain(turned.flat_map(|row| [row.in_force.clone(), row.level.clone()]))
            .map(|text| (0.0, text));
        let words: BTreeSet<String> = page_numbers(&page, false)
            .into_iter()
            .chain(levels)
            .flat_map(|(_, text)| text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
            .collect();
        let shown = terminal(&run.document, WIDE);
        let mut checked = 0;
        // Tables only: no heads (they hold "95 % interval"), and no sentences, which end with an empty line.
        let mut in_sentence = false;
        let tables =
            shown.lines().skip(2).take_while(|line| !line.contains("ANSWER") && !line.contains("VERDICT"));
        for line in tables {
            let begins = [
                "Published in",
                "RULED OUT",
                "GOAL",
                "LIMIT",
                "NOTE",
                "WARNING",
                "CPU of the load generator",
                "One replicate",
                "can be separated",
            ];
            in_sentence = !line.is_empty() && (in_sentence || begins.iter().any(|word| line.contains(word)));
            let others = [
                "against",
                "interval",
                "elasticity",
                " more",
                "--verbose",
                " trial",
                "replicate",
                "┴",
                "could not be changed",
                "would",
            ];
            if in_sentence || others.iter().any(|word| line.contains(word)) {
                continue;
            }
            // A number in the name of a configuration is no value.
            let configurations = run.document.configurations.iter().enumerate();
            let mut names: Vec<String> = configurations
                .flat_map(|(at, configuration)| {
                    let label = configuration.treatment.label.clone();
                    [
                        label,
                        crate::labels::configuration(&run.document, at),
                        crate::labels::head(&run.document, at),
                    ]
                })
                .collect();
            let resources = run.document.trials.iter().flat_map(|trial| &trial.resources);
            names.extend(resources.map(|one| crate::labels::counter(&one.metric, &one.instance)));
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
            let line = names
                .iter()
                .filter(|name| name.len() > 2)
                .fold(line.to_string(), |line, name| line.replace(name, ""));
            for word in line.split_whitespace() {
                let digits = word.trim_start_matches(['±', '+', '-']).trim_end_matches('%').replace(',', "");
                if digits.parse::<f64>().is_err() {
                    continue;
                }
                checked += 1;
                let in_parentheses = word.trim_start_matches('(');
                assert!(words.contains(in_parentheses), "{name}: `{word}` is not on the page: {line}");
            }
        }
        assert!(checked >= 10, "{name}: {checked}");
    }
}

#[test]
fn the_page_stands_alone() {
    for (name, run) in all() {
        let page = html(&run.document, &run.study);
        assert_eq!(html(&run.document, &run.study), page, "{name}: the same input gives the same bytes");
        balanced(name, &page);
        for wrong in ["NaN", "\"inf", "Infinity", " src=", " style=", "@import", "url("] {
            assert!(!page.replace("\"use strict\"", "").contains(wrong), "{name}: {wrong}");
        }
        for link in page.split("href=\"").skip(1) {
            assert!(link.starts_with('#'), "{name}: a link leaves the page");
        }
        // The settings of a load may name an address; no attribute but the name space of a chart does.
        assert_eq!(page.matches("=\"http").count(), page.matches("=\"http://www.w3.org/2000/svg\"").count());
        assert!(page.contains("default-src 'none'; style-src 'sha256-"));
        for chart in page.split("<svg ").skip(1).filter(|chart| !chart.starts_with("class=\"swatch\"")) {
            assert!(chart.contains("role=\"img\" aria-label=\""), "{name}");
        }
    }
    assert!(include_str!("html/script.js").len() < 10_000);
}

#[test]
fn names_are_text() {
    let mut study = recorded::part("queue-depth", 2, 1).study;
    study.host.name = "\"><img src=x onerror=alert(3)>".into();
    study.plan.as_mut().unwrap().experiment.name = "</title><script>alert(2)</script>\"'&".into();
    for record in &mut study.runs {
        record.run.facts.insert("<b>".into(), model::Level::Text("</style>".into()));
        if let model::Treatment::OneChange(change) = &mut record.run.trial.treatment {
            change.level = model::Level::Text("<script>alert(1)</script>".into());
        }
    }
    let Recorded { document, study } = Recorded::of(study);
    let page = html(&document, &study);
    balanced("names", &page);
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("&lt;script&gt;alert(2)"));
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img") && !page.contains("<b>"));
}

#[test]
fn the_cpu_time_of_a_copy_is_that_of_its_blocks() {
    let Recorded { document, study } = recorded::run("copy");
    let blocks = document.trials[0].whole().unwrap();
    assert_eq!(blocks.name, "copy".to_string().into());
    let each_us = document.trials[0].cpu_us_per_operation.unwrap();
    let all_us = study.runs[0].run.generator.cpu_s * 1e6;
    assert!((each_us * blocks.completed as f64 - all_us).abs() < 1.0, "{each_us} of {all_us}");
}

/// Every element that is opened is closed, in order.
fn balanced(name: &str, page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap_or_else(|| panic!("{name}: a tag without end"));
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let word = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match tag {
            _ if ["!doctype", "meta"].contains(&word) || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(word), "{name}"),
            _ => {
                open.push(word);
                if ["style", "script"].contains(&word) {
                    rest = &rest[rest.find(&format!("</{word}")).unwrap()..];
                }
            }
        }
    }
    assert!(open.is_empty(), "{name}: {open:?}");
}

/// A stored run whose every number is one of `values`: a view may receive them from a foreign document.
fn poisoned(values: &[f64]) -> Recorded {
    let mut poisoned = recorded::run("block-size");
    let mut at = 0;
    let mut next = || {
        at += 1;
        values[at % values.len()]
    };
    let document = &mut poisoned.document;
    for trial in &mut document.trials {
        trial.measured_s = next();
        trial.cpu_us_per_operation = Some(next());
        for operation in &mut trial.operations {
            operation.rate_per_s = next();
            operation.bytes_per_s = next();
            operation.concurrency = next();
            for summary in [&mut operation.response_ms, &mut operation.service_ms, &mut operation.lag_ms] {
                (summary.min, summary.mean, summary.p50, summary.p90) = (next(), next(), next(), next());
                (summary.p95, summary.p99, summary.p999, summary.max) = (next(), next(), next(), next());
            }
        }
        for resource in &mut trial.resources {
            (resource.mean, resource.max, resource.saturated_at) = (next(), next(), next());
        }
    }
    for row in &mut document.comparison {
        (row.baseline, row.treatment, row.ratio) = (next(), next(), next());
        (row.low, row.high, row.smallest_change) = (Some(next()), Some(next()), Some(next()));
    }
    for configuration in &mut document.configurations {
        configuration
            .medians
            .values_mut()
            .chain(configuration.spreads.values_mut())
            .chain(configuration.derived_ms.values_mut())
            .for_each(|value| *value = next());
    }
    for point in document.curves.iter_mut().flat_map(|curve| &mut curve.points) {
        point.level = next();
        for values in [&mut point.rate_per_s, &mut point.bytes_per_s, &mut point.mean_ms, &mut point.p99_ms] {
            *values = [next(), next(), next()];
        }
    }
    for part in document
        .configurations
        .iter_mut()
        .flat_map(|configuration| &mut configuration.costs)
        .flat_map(|cost| &mut cost.parts)
    {
        (part.each.value, part.each.low, part.each.high) = (next(), next(), next());
    }
    for run in &mut poisoned.study.runs {
        for interval in &mut run.intervals {
            (interval.begin_s, interval.end_s) = (next(), next());
            (interval.response.p50, interval.response.p99, interval.response.max) = (next(), next(), next());
        }
        for values in &mut run.readings.values {
            values.iter_mut().for_each(|value| *value = next());
        }
        for column in run.histograms.values_mut().flat_map(|each| &mut each.heat) {
            (column.begin_s, column.end_s) = (next(), next());
        }
        for phase in &mut run.run.phases {
            (phase.begin_s, phase.end_s) = (next(), next());
        }
    }
    poisoned
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 30, ..ProptestConfig::default() })]
    #[test]
    fn no_number_breaks_a_view(values in proptest::collection::vec(proptest::num::f64::ANY, 1..40), width: u16) {
        let run = poisoned(&values);
        let options = Terminal { width, color: false, verbose: true };
        let text = terminal(&run.document, options);
        prop_assert!(!text.contains("NaN") && !text.contains("inf "), "{}", text);
        let page = html(&run.document, &run.study);
        balanced("poisoned", &page);
        let wrong = page.find("NaN").map(|at| page[..at].chars().rev().take(200).collect::<Vec<_>>());
        prop_assert!(wrong.is_none(), "{}", wrong.unwrap_or_default().into_iter().rev().collect::<String>());
        prop_assert!(page.len() < 2_000_000, "{}", page.len());
        let _ = (explanation(&run.document, options), csv(&run.document), json(&run.document));
        let _ = (markdown(&run.document), junit(&run.document));
    }
}
