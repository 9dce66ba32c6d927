//! A result on a terminal: 80 to 100 columns, readable without colour, the verdict last because that is where
//! eyes land.

mod density;
mod page;

use std::collections::BTreeSet;

use model::result::TrialResult;
use model::run::Origin;
use model::run::WorkloadTraits;
use model::{Ending, FindingKind, Level, Resource, ResultDocument, Verdict};

use crate::sentences::{self, Headline};
use crate::text::{Quantity, plural, rate_word};
use crate::{costs, labels, launches, patterns, tables};
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
    if let Some(launches) = launches::table(document) {
        page.table(&launches);
        page.gap();
    }
    match document.configurations.len() {
        _ if document.trials.is_empty() => page.sentence("Nothing was measured: the record holds no trial."),
        _ if document.limit.is_some() => search(&mut page, document),
        0 | 1 => one_configuration(&mut page, document, options),
        count if count <= tables::SIDE_BY_SIDE && !document.comparison.is_empty() => {
            side_by_side(&mut page, document, options);
        }
        _ => one_row_each(&mut page, document, options),
    }
    if let Some(table) = tables::derived_means(document) {
        page.title(&table.title);
        page.table(&table);
    }
    sweeps(&mut page, document);
    dependencies(&mut page, document, options.verbose);
    limits(&mut page, document, options.verbose);
    if options.verbose || document.limit.is_some() {
        cost_tables(&mut page, document);
    }
    if options.verbose && document.trials.len() > 1 {
        page.title("every trial");
        page.table(&tables::trials(document));
        if document.configurations.len() > 1 {
            for trial in &document.trials {
                page.title(&format!("trial {}", trial.trial));
                one_trial(&mut page, trial, &document.traits, true);
            }
        }
    }
    ending(&mut page, document, options.verbose);
    page.finish()
}

/// A search for the limit: every load of each configuration, then the bounds.
fn search(page: &mut Page, document: &ResultDocument) {
    let Some(found) = &document.limit else { return };
    for of in &found.configurations {
        let table = tables::loads(document, found, of);
        page.title(&table.title);
        page.table(&table);
        page.gap();
    }
    for table in tables::limit(document).into_iter().chain(tables::published_limits(document)) {
        page.title(&table.title);
        page.table(&table);
        page.gap();
    }
}

/// The sensitivity to each dependency, and the steps of a request in the first configuration; verbose in each.
fn dependencies(page: &mut Page, document: &ResultDocument, verbose: bool) {
    let shown = if verbose { usize::MAX } else { 1 };
    let steps = document.request_steps.iter().take(shown).map(|of| tables::steps(document, of, true));
    for table in tables::sensitivity(document).into_iter().chain(steps) {
        page.title(&table.title);
        page.table(&table);
    }
}

/// Rows of the table of limits on a page that is not verbose.
const LIMITS_SHOWN: usize = 16;

/// What limits each configuration and step.
pub(crate) fn limits(page: &mut Page, document: &ResultDocument, verbose: bool) {
    let Some(table) = tables::limits(document) else { return };
    if table.rows.len() > LIMITS_SHOWN && !verbose {
        page.gap();
        page.line(&format!(" --verbose shows what limits now in {}", plural(table.rows.len(), "row")));
        return;
    }
    page.title(&table.title);
    page.table(&table);
}

/// What one operation costs in each configuration, and where the differences come from.
pub(crate) fn cost_tables(page: &mut Page, document: &ResultDocument) {
    for table in costs::costs(document).into_iter().chain(costs::differences(document)) {
        page.title(&table.title);
        page.table(&table);
    }
}

/// What was run, where and when.
pub(crate) fn heading(page: &mut Page, document: &ResultDocument) {
    let mut parts = vec![document.workload.clone(), document.load.clone()];
    if document.configurations.len() > 1 {
        parts.push(plural(document.configurations.len(), "configuration"));
    }
    // The baseline may have run more often than the others: once more in the end, and in each round of a proof.
    let fewest = document.configurations.iter().map(|each| each.trials.len()).min().unwrap_or(0);
    let all_alike = fewest * document.configurations.len() == document.trials.len();
    match document.trials.len() {
        0 | 1 => {}
        _ if all_alike && fewest > 1 => parts.push(plural(fewest, "replicate")),
        trials if !all_alike => parts.push(plural(trials, "trial")),
        _ => {}
    }
    if let Some(trial) = document.trials.first() {
        if document.limit.is_none() {
            parts.push(format!("{} measured", Quantity::Seconds.show(trial.measured_s)));
        }
        parts.push(document.host.name.clone());
        parts.push(crate::text::date(trial.started_unix_ns));
    }
    parts.retain(|part| !part.is_empty());
    page.heading(&document.experiment, &parts);
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
        one_trial(page, trial, &document.traits, options.verbose);
    }
    phases_and_counts(page, document);
}

/// How long the phases of imports took, and the counts of operations.
fn phases_and_counts(page: &mut Page, document: &ResultDocument) {
    for table in tables::of_the_system(document) {
        page.title(&table.title);
        page.table(&table);
        page.gap();
    }
}

/// Why a trial has no or not all of its numbers; none for one that completed.
pub(crate) fn cut_short(trial: &TrialResult) -> Option<String> {
    Some(match &trial.ending {
        Ending::Completed => return None,
        Ending::Failed(why) => format!("This trial failed: {why}."),
        Ending::Interrupted => "This trial was interrupted.".into(),
        Ending::Running => "This trial is incomplete: Plimsoll was killed.".into(),
    })
}

fn one_trial(page: &mut Page, trial: &TrialResult, traits: &WorkloadTraits, verbose: bool) {
    if let Some(why) = cut_short(trial) {
        page.sentence(&why);
        page.gap();
    }
    match trial.operations.is_empty() {
        true => page.sentence("No operation was recorded."),
        false => operations(page, trial, traits, verbose),
    }
    page.gap();
    if let Some(cpu) = trial.cpu_us_per_operation.filter(|cpu| cpu.is_finite()) {
        let most = trial.generator_max_per_s.map_or(String::new(), |most| {
            format!(", enough for {}", Quantity::Rate(rate_word(traits)).show(most))
        });
        let cpu = Quantity::Microseconds.show(cpu);
        page.line(&format!(" CPU of the load generator per operation: {cpu}{most}"));
        page.gap();
    }
    if !trial.resources.is_empty() {
        page.title("most saturated");
        page.table(&tables::resources(trial, if verbose { usize::MAX } else { 6 }, verbose));
    }
    if verbose && !trial.facts.is_empty() {
        page.title("facts");
        for (name, level) in &trial.facts {
            // A list without blanks has no place to begin a new line.
            let text = level.to_string();
            page.point(1, name, &if text.contains(' ') { text } else { text.replace(',', ", ") });
        }
    }
}

/// How much was done, and how long it took.
fn operations(page: &mut Page, trial: &TrialResult, traits: &WorkloadTraits, verbose: bool) {
    page.table(&tables::amounts(trial, traits));
    page.gap();
    if traits.grouped {
        return;
    }
    let latencies = tables::latencies(trial, traits, verbose);
    if latencies.rows.is_empty() {
        page.sentence("No operation completed, so there are no response times.");
        return;
    }
    page.table(&latencies);
    page.gap();
    if let Some(derived) = tables::derived(trial) {
        page.table(&derived);
        page.gap();
    }
    for line in density::lines(&tables::shown(trial, traits), page.width()) {
        page.line(&line);
    }
}

fn side_by_side(page: &mut Page, document: &ResultDocument, options: Terminal) {
    let treatments = || document.configurations.iter().skip(1).map(|each| each.treatment.label.as_str());
    for line in labels::letters(document) {
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
}

fn one_row_each(page: &mut Page, document: &ResultDocument, options: Terminal) {
    let known = document.comparison.iter().any(|row| row.low.is_some());
    if document.curves.is_empty() {
        if let Some(pairs) = patterns::reads_and_writes(document) {
            page.table(&pairs);
            page.gap();
        }
        page.table(&tables::configurations(document));
        page.gap();
    }
    if document.comparison.is_empty() {
        return;
    }
    if !known && !options.verbose {
        page.sentence("One replicate of each configuration: ratios have no interval. --verbose lists them.");
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
    let first = if steps.is_empty() {
        vec![tables::main_metric(document), "elapsed_s", "response_ms.p99"]
    } else {
        steps
    };
    let mut order: Vec<&str> = first.iter().copied().filter(|name| names.contains(name)).collect();
    order.extend(names.iter().copied().filter(|name| !first.contains(name)));
    for name in order.iter().take(shown) {
        page.title(&format!("{} compared with the baseline", tables::metric(name, &document.traits).name));
        page.table(&tables::against_baseline(document, name));
    }
    if order.len() > shown {
        page.gap();
        page.line(&format!(" --verbose compares {}", plural(order.len(), "metric")));
    }
}

fn sweeps(page: &mut Page, document: &ResultDocument) {
    if document.configurations.len() > 1 {
        phases_and_counts(page, document);
    }
    for curves in tables::curves_by_factor(document) {
        page.title(&format!("by {}", labels::setting(&curves[0].factor)));
        page.table(&tables::sweep(&curves, &document.traits, true));
    }
    for table in tables::published(document)
        .into_iter()
        .chain(tables::published_changes(document))
        .chain(tables::published_times(document))
        .chain(tables::beside(document))
    {
        page.title(&table.title);
        page.table(&table);
    }
}

/// The word before a finding.
pub(crate) fn finding_word(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Limits => "LIMIT",
        FindingKind::RuledOut => "RULED OUT",
        FindingKind::Observation => "NOTE",
    }
}

/// A doubt with its trials.
pub(crate) struct DoubtGroup<'a> {
    pub(crate) doubt: &'a model::Doubt,
    /// Trials with exactly this doubt; empty for a doubt about the experiment.
    trials: Vec<&'a str>,
    /// Trials with a different doubt of this kind.
    similar: Vec<&'a str>,
}

impl DoubtGroup<'_> {
    /// The doubt with the trials it is about, in a sentence.
    pub(crate) fn sentence(&self, document: &ResultDocument) -> String {
        let about = match self.trials.as_slice() {
            [] => String::new(),
            _ if document.trials.len() <= 1 => String::new(),
            trials if trials.len() == document.trials.len() => "every trial: ".into(),
            [first, others @ ..] => {
                let more =
                    if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
                let similar = match self.similar.len() {
                    0 => String::new(),
                    count => format!(", similar in {count} more"),
                };
                format!("{first}{more}{similar}: ")
            }
        };
        format!("{about}{}", self.doubt.text)
    }
}

/// All doubts: those of the experiment first, then those of trials. A kind of doubt is shown as the first trial has it; the
/// other trials with one of this kind are counted.
pub(crate) fn all_doubts(document: &ResultDocument) -> Vec<DoubtGroup<'_>> {
    let of = |doubt, trials| DoubtGroup { doubt, trials, similar: Vec::new() };
    let mut doubts: Vec<DoubtGroup<'_>> = document.doubts.iter().map(|doubt| of(doubt, Vec::new())).collect();
    for trial in &document.trials {
        let id = trial.trial.as_str();
        for doubt in &trial.doubts {
            let same = doubts.iter_mut().find(|known| known.doubt == doubt && !known.trials.is_empty());
            if let Some(known) = same {
                known.trials.push(id);
                continue;
            }
            let mut of_kind =
                doubts.iter_mut().filter(|known| known.doubt.kind == doubt.kind && !known.trials.is_empty());
            match of_kind.next() {
                // Two of a kind in the first trial that has it are two things.
                Some(known) if known.trials[0] != id => {
                    if !known.trials.contains(&id) && !known.similar.contains(&id) {
                        known.similar.push(id);
                    }
                }
                _ => doubts.push(of(doubt, vec![id])),
            }
        }
    }
    doubts
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

fn ending(page: &mut Page, document: &ResultDocument, verbose: bool) {
    page.gap();
    let headline = sentences::headline(document);
    let others = headline.others(document);
    for finding in others.into_iter().filter(|finding| verbose || finding.kind != FindingKind::RuledOut) {
        page.labelled(finding_word(finding.kind), &sentences::finding(finding));
    }
    if let Some(names) = ruled_out(document).filter(|_| !verbose) {
        page.labelled(finding_word(FindingKind::RuledOut), &names);
    }
    let doubts = all_doubts(document);
    for doubted in &doubts {
        page.labelled("WARNING", &doubted.sentence(document));
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
    if let Some(table) = tables::gate(document) {
        page.title(&table.title);
        page.table(&table);
    }
    page.gap();
    verdict(page, document, &headline);
    // Runs compared with each other have no directory of their own to go on with.
    if tables::of_several_runs(document) {
        return;
    }
    if let Some(next) = sentences::next_command(document) {
        page.labelled("NEXT", &format!("{} ({})", next.command, next.purpose));
    }
    page.gap();
    page.line(&format!(" report   {}/report.html", document.run));
    page.line(&format!(" evidence plimsoll explain {}", document.run));
}

/// The resources that were ruled out in most of the trials of the baseline, in one line; none without any.
pub(crate) fn ruled_out(document: &ResultDocument) -> Option<String> {
    let ruled_out = || document.findings.iter().filter(|finding| finding.kind == FindingKind::RuledOut);
    // What is no limit of another configuration may be that of the baseline.
    let baseline: Vec<&String> = match document.configurations.first() {
        Some(baseline) => baseline.trials.iter().collect(),
        None => document.trials.iter().map(|trial| &trial.trial).collect(),
    };
    let is_of_most = |about: &Resource| {
        let same = ruled_out().filter(|finding| finding.about.as_ref() == Some(about));
        let trials: BTreeSet<&String> = same.flat_map(|finding| &finding.trials).collect();
        2 * baseline.iter().filter(|trial| trials.contains(*trial)).count() > baseline.len()
    };
    let about = ruled_out().filter_map(|finding| finding.about.as_ref()).filter(|about| is_of_most(about));
    let mut names: Vec<String> = about.map(sentences::resource_words).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    (!names.is_empty()).then(|| format!("{}.", names.join(", ")))
}

/// Why there is no proof of a bottleneck, and what would give one.
pub(crate) fn no_proof(document: &ResultDocument) -> String {
    if document.origin == Origin::Imported {
        return "Not confirmed by experiment: another tool measured. Measure it with Plimsoll and --prove."
            .into();
    }
    let host = document.verdict.resource().and_then(|resource| resource.host.as_deref());
    let is_of_target = |host: &str| {
        let machine = document.trials.first().and_then(|trial| trial.facts.get("target.machine"));
        matches!(machine, Some(Level::Text(name)) if name == host)
    };
    if host.is_some_and(|host| !is_of_target(host)) {
        return "Not confirmed by experiment: Plimsoll changes resources of another host only if `machine` in [target] names it.".into();
    }
    if document.limit.is_some() || document.gate.is_some() {
        return format!("Not confirmed by experiment. {}.", sentences::run_with_proof(document));
    }
    match tables::why_no_proof(document) {
        Some(why) => format!("Not confirmed by experiment. {why}"),
        None => "Not confirmed by experiment: --prove changes each resource and measures whether throughput follows."
            .into(),
    }
}

/// Goal, answer and verdict.
pub(crate) fn verdict(page: &mut Page, document: &ResultDocument, headline: &Headline) {
    if let Some(goal) = &document.goal {
        let not_met = tables::not_met(goal);
        let text = match goal.met {
            true if document.verdict.lacks_answers() => {
                "met by the operations that ended, and not decided: the system did not answer all the time."
                    .into()
            }
            true => "met in every trial.".to_string(),
            false if goal.is_undecided() => {
                let comma = if not_met.is_empty() { "" } else { ", " };
                format!("undecided: {not_met}{comma}because {}.", tables::why_undecided(document, goal))
            }
            false => format!("missed: {not_met}."),
        };
        page.labelled("GOAL", &text);
    }
    if let Some(answer) = &headline.answer {
        page.strong_label("ANSWER", answer);
    }
    for text in &headline.details {
        page.labelled("", text);
    }
    for (at, text) in headline.why.iter().enumerate() {
        page.labelled(if at == 0 { "WHY" } else { "" }, text);
    }
    for (at, text) in headline.limits.iter().enumerate() {
        page.strong_label(if at == 0 { "VERDICT" } else { "" }, text);
    }
    match &document.verdict {
        Verdict::Bottleneck { .. } => {
            page.labelled("PROOF", &sentences::proof(document).unwrap_or_else(|| no_proof(document)));
        }
        Verdict::Inconclusive { lacks, .. } => {
            for missing in lacks {
                page.labelled("TO DO", &sentences::missing(document, missing));
            }
        }
        Verdict::NotSaturated { .. } | Verdict::GeneratorBound { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use model::{Doubt, DoubtKind};

    #[test]
    fn doubts_of_a_kind_are_shown_once() {
        let mut document = crate::recorded::part("distributions", 3, 2).document;
        document.doubts.clear();
        document.trials.iter_mut().for_each(|trial| trial.doubts.clear());
        let few = |count: u32| {
            Doubt::new(DoubtKind::FewSamples, format!("{count} operations: fewer than 10 lie beyond p99"), "")
        };
        let unread =
            |source: &str| Doubt::new(DoubtKind::MissingSource, format!("{source} could not be read"), "");
        let steal = || Doubt::new(DoubtKind::Neighbour, "steal of 11 %", "");
        document.trials[0].doubts = vec![few(205), unread("pressure"), unread("disk")];
        document.trials[1].doubts = vec![few(213), few(214), steal()];
        document.trials[2].doubts = vec![few(205), steal()];
        let shown: Vec<String> =
            super::all_doubts(&document).iter().map(|doubted| doubted.sentence(&document)).collect();
        let [first, second] = [0, 1].map(|at| document.trials[at].trial.as_str());
        assert_eq!(
            shown,
            [
                format!(
                    "{first} and 1 more, similar in 1 more: 205 operations: fewer than 10 lie beyond p99"
                ),
                format!("{first}: pressure could not be read"),
                format!("{first}: disk could not be read"),
                format!("{second} and 1 more: steal of 11 %"),
            ]
        );
    }
}
