//! A result on a terminal: 80 to 100 columns, readable without colour, the verdict last because that is where
//! eyes land.

mod density;
mod page;

use model::result::{Answer, ComparisonRow, TrialResult};
use model::{FindingKind, ResultDocument, Verdict};

use crate::tables;
use crate::text::{Quantity, RatioStyle, plural};
pub(crate) use page::Page;

/// How a terminal is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns. Less than 60 is taken as 60, more than 120 as 120.
    pub width: u16,
    /// Bold and dim by escape sequences; words carry the meaning either way.
    pub color: bool,
    /// Everything: each trial, each metric of each configuration.
    pub verbose: bool,
}

impl Default for Terminal {
    fn default() -> Self {
        Terminal { width: 100, color: false, verbose: false }
    }
}

/// A whole result.
pub fn terminal(document: &ResultDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    heading(&mut page, document);
    match document.configurations.len() {
        _ if document.trials.is_empty() => page.sentence("Nothing was measured: the record holds no trial."),
        0 | 1 => one_configuration(&mut page, document, options),
        count if count <= tables::SIDE_BY_SIDE => side_by_side(&mut page, document, options),
        _ => one_row_each(&mut page, document, options),
    }
    sweeps(&mut page, document);
    if options.verbose && document.trials.len() > 1 {
        page.title("every trial");
        page.table(&tables::trials(document));
        if document.configurations.len() > 1 {
            for trial in &document.trials {
                page.title(&format!("trial {}", trial.trial));
                one_trial(&mut page, trial, &document.workload, true);
            }
        }
    }
    ending(&mut page, document);
    page.finish()
}

/// What was run, where and when.
pub(crate) fn heading(page: &mut Page, document: &ResultDocument) {
    let mut parts = vec![document.workload.clone(), document.load.clone()];
    let replicates = document.trials.iter().map(|trial| trial.replicate).max().unwrap_or(0);
    if document.configurations.len() > 1 {
        parts.push(plural(document.configurations.len(), "configuration"));
    }
    if replicates > 1 {
        parts.push(plural(replicates as usize, "replicate"));
    }
    if let Some(trial) = document.trials.first() {
        parts.push(format!("{} measured", Quantity::Seconds.show(trial.measured_s)));
        parts.push(document.host.name.clone());
        parts.push(crate::text::date(trial.started_unix_ns));
    }
    parts.retain(|part| !part.is_empty());
    page.heading(&document.experiment, &parts.join(" · "));
}

fn one_configuration(page: &mut Page, document: &ResultDocument, options: Terminal) {
    let completed = document.trials.len();
    if completed > 1 {
        page.table(&tables::trials(document));
        page.gap();
    }
    let shown = if options.verbose { completed } else { 1 };
    for trial in document.trials.iter().take(shown) {
        if completed > 1 {
            page.title(&format!("trial {}", trial.trial));
        }
        one_trial(page, trial, &document.workload, options.verbose);
    }
}

fn one_trial(page: &mut Page, trial: &TrialResult, workload: &str, verbose: bool) {
    if trial.ending != "completed" {
        let why = trial.ending.strip_prefix("failed: ").unwrap_or(&trial.ending);
        page.sentence(&format!("This trial did not run to its end: {why}."));
        page.gap();
    }
    if trial.operations.is_empty() {
        page.sentence("No operation was recorded.");
        return;
    }
    page.table(&tables::amounts(trial, workload));
    page.gap();
    let latencies = tables::latencies(trial, workload, verbose);
    if latencies.rows.is_empty() {
        page.sentence("Nothing completed, so there are no response times.");
    } else {
        page.table(&latencies);
        page.gap();
        for line in density::lines(&tables::shown(trial, workload), page.width()) {
            page.line(&line);
        }
    }
    page.gap();
    if let Some(cpu) = trial.cpu_us_per_operation.filter(|cpu| cpu.is_finite()) {
        page.line(&format!(
            " CPU per operation  {} of the load generator's threads",
            Quantity::Microseconds.show(cpu)
        ));
        page.gap();
    }
    if !trial.resources.is_empty() {
        page.title("most saturated");
        page.table(&tables::resources(trial, if verbose { usize::MAX } else { 6 }));
    }
    if verbose && !trial.facts.is_empty() {
        page.title("facts");
        for (name, level) in &trial.facts {
            page.line(&format!("   {name}  {level}"));
        }
    }
}

fn side_by_side(page: &mut Page, document: &ResultDocument, options: Terminal) {
    let treatments = || document.configurations.iter().skip(1).map(|each| each.treatment.label.as_str());
    for line in tables::letters(document) {
        page.line(&format!(" {line}"));
    }
    page.gap();
    if document.configurations.len() == 2 {
        for label in treatments() {
            page.table(&tables::pair(document, label));
        }
    } else {
        page.table(&tables::medians(document));
        against_baseline(page, document, if options.verbose { usize::MAX } else { 2 });
    }
    page.gap();
    for label in treatments() {
        gain(page, document, label);
    }
}

fn one_row_each(page: &mut Page, document: &ResultDocument, options: Terminal) {
    let known = document.comparison.iter().any(|row| row.low.is_some());
    if !known && !document.curves.is_empty() && !options.verbose {
        page.sentence("One replicate of each configuration: nothing to compare with an interval. --verbose lists the ratios.");
        return;
    }
    let shown = match () {
        () if options.verbose => usize::MAX,
        () if document.configurations.len() > 12 => 1,
        () => 2,
    };
    against_baseline(page, document, shown);
}

/// Every configuration against the baseline, in as many metrics as are shown, throughput and the tail first: they are
/// what most people decide by.
fn against_baseline(page: &mut Page, document: &ResultDocument, shown: usize) {
    let names = tables::compared_metrics(document);
    // Steps that follow one another each have a rate, and those are what is decided by.
    let steps: Vec<&str> = names.iter().copied().filter(|name| name.ends_with(".rate_per_s")).collect();
    let shown = if steps.is_empty() { shown } else { shown.max(steps.len()) };
    let first = if steps.is_empty() { vec!["rate_per_s", "response_ms.p99"] } else { steps };
    let mut order: Vec<&str> = first.iter().copied().filter(|name| names.contains(name)).collect();
    order.extend(names.iter().copied().filter(|name| !first.contains(name)));
    for name in order.iter().take(shown) {
        page.title(&format!("{} against the baseline", tables::metric(name, &document.workload).name));
        page.table(&tables::against_baseline(document, name));
    }
    if order.len() > shown {
        page.gap();
        page.line(&format!(" --verbose compares {}", plural(order.len(), "metric")));
    }
}

/// What a change to a configuration gains in throughput, as a sentence.
pub(crate) fn gain_sentence(document: &ResultDocument, label: &str) -> Option<String> {
    let at = document.configurations.iter().position(|each| each.treatment.label == label)?;
    let letter = tables::letter(at);
    let row: &ComparisonRow =
        document.comparison.iter().find(|row| row.configuration == label && row.metric == "rate_per_s")?;
    let style = RatioStyle::Factor;
    let factor = style.show(row.ratio, None).trim_start_matches("x ").to_string();
    let interval = match (row.low, row.high) {
        (Some(low), Some(high)) => {
            let (low, high) = style.ends(low, high);
            format!(" (95 % interval {low} to {high}, {})", plural(row.pairs as usize, "pair"))
        }
        _ => " (one pair: no interval)".into(),
    };
    Some(match row.answer {
        Answer::Better | Answer::Worse => {
            format!("{letter} does {factor} times the work of A{interval}: {}.", row.answer.word())
        }
        Answer::Same => {
            format!("{letter} and A do the same work: {factor} times{interval}, no change that matters.")
        }
        Answer::CantTell if row.low.is_none() => {
            format!(
                "{letter} did {factor} times the work of A in one pair of runs: whether that is chance is not known."
            )
        }
        Answer::CantTell => {
            let settle = match (row.replicates_to_settle, row.replicates_to_show) {
                (Some(settle), Some(show)) => format!(
                    " About {settle} replicates would settle it; about {show} would show a difference of 5 %."
                ),
                (Some(settle), None) => format!(" About {settle} replicates would settle it."),
                (None, Some(show)) => format!(" About {show} replicates would show a difference of 5 %."),
                (None, None) => String::new(),
            };
            format!(
                "{letter} against A: no difference shown in throughput, {factor} times{interval}.{settle}"
            )
        }
    })
}

fn gain(page: &mut Page, document: &ResultDocument, label: &str) {
    if let Some(sentence) = gain_sentence(document, label) {
        page.labelled("GAIN", &sentence);
    }
}

fn sweeps(page: &mut Page, document: &ResultDocument) {
    for curves in tables::curves_by_factor(document) {
        page.title(&format!("against {}", tables::factor_name(&curves[0].factor)));
        page.table(&tables::sweep(&curves, &document.workload, true));
    }
    for table in tables::published(document).into_iter().chain(tables::beside(document)) {
        page.title(&table.title);
        page.table(&table);
    }
}

/// The word before a finding.
pub(crate) fn finding_word(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Limits => "LIMIT",
        FindingKind::RuledOut => "NOT IT",
        FindingKind::Observation => "NOTE",
    }
}

/// A doubt with the trials it stands with.
pub(crate) struct Doubted<'a> {
    pub(crate) doubt: &'a model::Doubt,
    /// Trials with this very doubt; none for one of the whole experiment.
    trials: Vec<&'a str>,
    /// Trials with one that differs in its numbers only.
    likewise: Vec<&'a str>,
}

impl Doubted<'_> {
    /// The doubt with the trials it is about, in a sentence.
    pub(crate) fn sentence(&self, document: &ResultDocument) -> String {
        let more = self.trials.len().saturating_sub(1) + self.likewise.len();
        let about = match (self.trials.as_slice(), self.likewise.is_empty()) {
            ([], _) => String::new(),
            _ if document.trials.len() <= 1 => String::new(),
            (trials, true) if trials.len() == document.trials.len() => "every trial: ".into(),
            ([one], true) => format!("{one}: "),
            ([first, ..], true) => format!("{first} and {more} more: "),
            ([first, ..], false) => format!("{first}, and likewise {more} more: "),
        };
        format!("{about}{}", self.doubt.text)
    }
}

/// All doubts: those of the experiment first, those of several trials once.
pub(crate) fn all_doubts(document: &ResultDocument) -> Vec<Doubted<'_>> {
    let of = |doubt, trials| Doubted { doubt, trials, likewise: Vec::new() };
    let mut doubts: Vec<Doubted<'_>> = document.doubts.iter().map(|doubt| of(doubt, Vec::new())).collect();
    for trial in &document.trials {
        for doubt in &trial.doubts {
            if let Some(known) = doubts.iter_mut().find(|known| known.doubt == doubt) {
                known.trials.push(&trial.trial);
                continue;
            }
            let is_like = |known: &&mut Doubted<'_>| {
                known.doubt.kind == doubt.kind
                    && !known.trials.is_empty()
                    && shape(&known.doubt.text).eq(shape(&doubt.text))
            };
            match doubts.iter_mut().find(is_like) {
                Some(known) if known.trials.contains(&trial.trial.as_str()) => {}
                Some(known) if known.likewise.contains(&trial.trial.as_str()) => {}
                Some(known) => known.likewise.push(&trial.trial),
                None => doubts.push(of(doubt, vec![&trial.trial])),
            }
        }
    }
    doubts
}

/// A text without its numbers.
fn shape(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.')
}

/// The verdict as a heading: what it is called.
pub(crate) fn verdict_kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Bottleneck { .. } => "bottleneck",
        Verdict::NotSaturated { .. } => "not saturated",
        Verdict::GeneratorBound { .. } => "generator bound",
        Verdict::Inconclusive { .. } => "inconclusive",
    }
}

fn ending(page: &mut Page, document: &ResultDocument) {
    page.gap();
    for finding in &document.findings {
        page.labelled(finding_word(finding.kind), &finding.text);
    }
    let doubts = all_doubts(document);
    for doubted in &doubts {
        page.labelled("DOUBT", &doubted.sentence(document));
        if !doubted.doubt.help.is_empty() {
            page.continued(&format!("try: {}", doubted.doubt.help));
        }
    }
    if let Some(table) = tables::proof(document) {
        page.gap();
        page.table(&table);
    }
    if let Some(table) = tables::goals(document) {
        page.gap();
        page.table(&table);
    }
    page.gap();
    verdict(page, document);
    // Runs compared with each other have no directory of their own to go on with.
    if tables::of_several_runs(document) {
        return;
    }
    page.gap();
    page.line(&format!(" report {}/report.html", document.run));
    page.line(&format!(" next   plimsoll explain {0}   ·   plimsoll report {0}", document.run));
}

/// Goal and verdict.
pub(crate) fn verdict(page: &mut Page, document: &ResultDocument) {
    if let Some(goal) = &document.goal {
        let missed = goal.goals.iter().filter(|line| !line.met).count();
        let text = match goal.met {
            true => "met by every trial.".to_string(),
            false => format!("missed: {} of {} not met.", missed, plural(goal.goals.len(), "condition")),
        };
        page.labelled("GOAL", &text);
    }
    page.strong_label("VERDICT", document.verdict.text());
    match &document.verdict {
        Verdict::Bottleneck { proof: Some(proof), .. } => page.labelled("PROOF", proof),
        Verdict::Bottleneck { proof: None, .. } => page.labelled(
            "PROOF",
            &match tables::why_no_proof(document) {
                Some(why) => format!("none: it rests on observation. {why}"),
                None => {
                    "none: it rests on observation. Run the experiment with --prove to turn each resource."
                        .into()
                }
            },
        ),
        Verdict::Inconclusive { missing, .. } => {
            for missing in missing {
                page.labelled("MISSING", missing);
            }
        }
        Verdict::NotSaturated { .. } | Verdict::GeneratorBound { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use model::{Doubt, DoubtKind};

    #[test]
    fn doubts_that_differ_in_their_numbers_are_told_once() {
        let mut document = crate::sample::compared(&["1", "2"], 2).document;
        document.doubts.clear();
        document.trials.iter_mut().for_each(|trial| trial.doubts.clear());
        let few = |count: u32| {
            Doubt::new(DoubtKind::FewSamples, format!("{count} operations: fewer than 10 lie beyond p99"), "")
        };
        document.trials[0].doubts = vec![few(205), Doubt::new(DoubtKind::Neighbour, "steal of 11 %", "")];
        document.trials[1].doubts = vec![few(213), few(214)];
        document.trials[2].doubts = vec![few(205)];
        let told: Vec<String> =
            super::all_doubts(&document).iter().map(|doubted| doubted.sentence(&document)).collect();
        let first = &document.trials[0].trial;
        assert_eq!(
            told,
            [
                format!("{first}, and likewise 2 more: 205 operations: fewer than 10 lie beyond p99"),
                format!("{first}: steal of 11 %"),
            ]
        );
    }
}
