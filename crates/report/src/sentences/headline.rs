//! What a result answers, first of all: which configuration is better, or where throughput peaks; then what limits.

use model::result::{Answer, ComparisonRow, Curve, CurvePoint};
use model::verdict::Unclear;
use model::{Claim, Finding, FindingKind, ResultDocument, Verdict};

use super::limits::{next_sentence, steps};
use super::{finding, findings_of, limits_on, of_series, verdict, verdict_of_configuration};
use crate::costs;
use crate::tables::{self, SIDE_BY_SIDE, factor_name, letter, short_label};
use crate::text::{Quantity, RatioStyle, capitalized, percent, plural, rate_word, time_ms};

/// The first sentences of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// What the experiment asked: which configuration is better, or where throughput peaks. None where one load was
    /// measured on one configuration.
    pub answer: Option<String>,
    /// Why configurations differ: what of the cost of one operation changed.
    pub why: Vec<String>,
    /// What limits: the verdict, of each configuration where they are compared.
    pub limits: Vec<String>,
    /// The findings that are said here, by their places in the result.
    pub said: Vec<usize>,
}

/// What a result answers, and what limits.
pub fn headline(document: &ResultDocument) -> Headline {
    let mut said = findings_of(&document.verdict);
    let answer = match is_swept(document) {
        true => swept(document, &mut said),
        false => compared(document),
    };
    let why = if is_swept(document) { Vec::new() } else { costs::whys(document) };
    let limits = limits(document, &mut said);
    Headline { answer, why, limits, said }
}

impl Headline {
    /// The findings to list after it: those that it does not say. Where the load generator was the limit nothing else is
    /// claimed to be, so what else looked like one is left to the explanation.
    pub fn others<'a>(&self, document: &'a ResultDocument) -> Vec<&'a Finding> {
        let is_generator = matches!(document.verdict, Verdict::GeneratorBound { .. });
        let findings = document.findings.iter().enumerate();
        let unsaid = findings.filter(|(at, _)| !self.said.contains(at)).map(|(_, finding)| finding);
        unsaid.filter(|finding| !is_generator || finding.kind != FindingKind::Limits).collect()
    }
}

/// Whether it is about a number that was varied: two levels of it are compared like any two configurations.
fn is_swept(document: &ResultDocument) -> bool {
    let inside_a_run = document.configurations.len() <= 1;
    document.curves.iter().any(|curve| curve.points.len() > if inside_a_run { 1 } else { 2 })
}

fn swept(document: &ResultDocument, said: &mut Vec<usize>) -> Option<String> {
    // Of several curves the one with the highest throughput is reported.
    let most = |carried: fn(&Claim) -> Option<f64>| {
        let claims = document.findings.iter().enumerate();
        let claims = claims.filter_map(|(at, finding)| Some((at, carried(&finding.claim)?)));
        claims.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    };
    let sweep = most(|claim| match claim {
        Claim::LoadSweep(sweep) => Some(sweep.peak.rate_per_s),
        _ => None,
    });
    let sizes = most(|claim| match claim {
        Claim::BlockSizes { to, .. } => Some(to.bytes_per_s),
        _ => None,
    });
    let mut texts: Vec<String> = Vec::new();
    if sweep.is_none() || document.curves.len() > 1 {
        texts.extend(peaks(document));
    }
    for at in sweep.into_iter().chain(sizes) {
        texts.push(finding(&document.findings[at]));
        said.push(at);
    }
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// The highest throughput over all curves, and the highest bandwidth where that is another point; of steps that follow one
/// another the throughput of each.
fn peaks(document: &ResultDocument) -> Option<String> {
    let mut steps: Vec<Option<&str>> = Vec::new();
    for curve in &document.curves {
        if !steps.contains(&curve.operation.as_deref()) {
            steps.push(curve.operation.as_deref());
        }
    }
    let in_turn = steps.iter().any(Option::is_some);
    let highest = |step: Option<&str>, value: fn(&CurvePoint) -> f64| {
        let curves = document.curves.iter().filter(|curve| curve.operation.as_deref() == step);
        let points = curves.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let points = points.filter(|(_, point)| value(point).is_finite() && value(point) > 0.0);
        points.max_by(|a, b| value(a.1).total_cmp(&value(b.1)))
    };
    let rates: Vec<(&Curve, &CurvePoint)> =
        steps.iter().filter_map(|step| highest(*step, |point| point.rate_per_s[0])).collect();
    let bandwidth = highest(None, |point| point.bytes_per_s[0]).filter(|_| document.traits.storage);
    let texts: Vec<String> =
        rates.iter().map(|(curve, point)| peak(document, curve, point, Peak::Throughput, in_turn)).collect();
    let mut text = format!("Highest throughput: {}.", texts.join("; "));
    if let Some((curve, point)) = bandwidth.filter(|found| !rates.contains(found)) {
        text.push_str(&format!(
            " Highest bandwidth: {}.",
            peak(document, curve, point, Peak::Bandwidth, in_turn)
        ));
    }
    (!texts.is_empty()).then_some(text)
}

/// What is highest.
#[derive(Clone, Copy)]
enum Peak {
    Throughput,
    Bandwidth,
}

/// `71.2 k IOPS (292 MB/s) at block_size 4KiB (outstanding=32), mean 440 µs, p99 1.10 ms`.
fn peak(document: &ResultDocument, curve: &Curve, point: &CurvePoint, kind: Peak, in_turn: bool) -> String {
    let rate = Quantity::Rate(rate_word(&document.traits)).show(point.rate_per_s[0]);
    let moved = Quantity::BytesPerSecond.show(point.bytes_per_s[0]);
    let carried = match (point.bytes_per_s[0] > 0.0, kind) {
        (false, _) => rate,
        (true, Peak::Throughput) => format!("{rate} ({moved})"),
        (true, Peak::Bandwidth) => format!("{moved} ({rate})"),
    };
    let latency = match in_turn {
        true => String::new(),
        false => format!(", mean {}, p99 {}", time_ms(point.mean_ms[0]), time_ms(point.p99_ms[0])),
    };
    let (factor, series) = (factor_name(&curve.factor), of_series(&curve.series));
    format!("{carried} at {factor} {}{series}{latency}", point.label)
}

/// How the configurations compare with the baseline.
fn compared(document: &ResultDocument) -> Option<String> {
    if document.configurations.len() < 2 {
        return None;
    }
    let names = tables::compared_metrics(document);
    let steps: Vec<&str> = names.iter().copied().filter(|name| name.ends_with(".rate_per_s")).collect();
    let metrics = match () {
        () if !steps.is_empty() => steps,
        () if document.traits.operations_apart => vec!["response_ms.mean"],
        // Larger blocks have fewer operations and more bytes per second: one alone would mislead.
        () if disagree(document, "rate_per_s", "bytes_per_s") => {
            vec!["rate_per_s", "bytes_per_s", "response_ms.p99"]
        }
        () => vec!["rate_per_s", "response_ms.p99"],
    };
    let mut texts = Vec::new();
    for (at, name) in metrics.iter().enumerate() {
        let rows: Vec<&ComparisonRow> =
            document.comparison.iter().filter(|row| row.metric == *name).collect();
        let noun = tables::metric(name, &document.traits).name;
        match rows.as_slice() {
            [] => {}
            [row] if at == 0 && metrics.get(1) != Some(&"bytes_per_s") => {
                texts.push(of_pair(document, row, &noun));
            }
            rows if document.configurations.len() <= SIDE_BY_SIDE => {
                let shown: Vec<String> = rows
                    .iter()
                    // What the second metric cannot tell is in the table.
                    .filter(|row| at == 0 || row.answer != Answer::CantTell)
                    .map(|row| format!("{} {}, {}", label(document, row), change(row), row.answer.word()))
                    .collect();
                if at == 0 && rows.len() > 1 {
                    texts.push(best(document, rows, &noun));
                }
                if !shown.is_empty() {
                    let baseline = short_label(document, 0);
                    // A percentile keeps its small letter.
                    let noun = if noun.starts_with("p9") { noun } else { capitalized(&noun) };
                    texts.push(format!("{noun} against {baseline}: {}.", shown.join("; ")));
                }
            }
            rows if at == 0 => texts.push(of_many(document, rows, &noun)),
            _ => {}
        }
    }
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// Whether a configuration is better in one metric and worse in another.
fn disagree(document: &ResultDocument, one: &str, other: &str) -> bool {
    let answers = |metric: &str| -> Vec<Answer> {
        document.comparison.iter().filter(|row| row.metric == metric).map(|row| row.answer).collect()
    };
    let opposite = |pair: (&Answer, &Answer)| {
        matches!(pair, (Answer::Better, Answer::Worse) | (Answer::Worse, Answer::Better))
    };
    answers(one).iter().zip(&answers(other)).any(opposite)
}

fn label(document: &ResultDocument, row: &ComparisonRow) -> String {
    let at = document.configurations.iter().position(|each| each.treatment.label == row.configuration);
    match at {
        Some(at) if document.configurations.len() <= SIDE_BY_SIDE => short_label(document, at),
        _ => row.configuration.clone(),
    }
}

/// `-26.6 % (95 % interval -28.2 to -26.1 %, 5 pairs)`.
fn change(row: &ComparisonRow) -> String {
    let style = RatioStyle::for_ratios([row.ratio]);
    let unit = if style == RatioStyle::Percent { " %" } else { "" };
    let ends = row.low.zip(row.high);
    let interval = ends.map_or("one pair, no interval".to_string(), |(low, high)| {
        let (low, high) = style.ends(low, high);
        format!("95 % interval {low} to {high}{unit}, {}", plural(row.pairs as usize, "pair"))
    });
    format!("{} ({interval})", style.show(row.ratio, ends))
}

/// Two configurations in one metric.
fn of_pair(document: &ResultDocument, row: &ComparisonRow, noun: &str) -> String {
    let (this, baseline) = (label(document, row), short_label(document, 0));
    let more = if row.ratio > 1.0 { "a higher" } else { "a lower" };
    match row.answer {
        Answer::Better | Answer::Worse => {
            format!("{this} is {} than {baseline}: it has {more} {noun}, {}.", row.answer.word(), change(row))
        }
        Answer::Same => {
            let within = row.smallest_change.map_or(String::new(), |share| {
                format!(" A difference of less than {} does not matter.", percent(share))
            });
            format!("{this} and {baseline} have the same {noun}: {}.{within}", change(row))
        }
        Answer::CantTell if row.low.is_none() => format!(
            "{this} was compared with {baseline} once: {noun} {}. One pair does not show whether that is chance: set \
             --replicates 5.",
            RatioStyle::for_ratios([row.ratio]).show(row.ratio, None)
        ),
        Answer::CantTell => format!(
            "No difference in {noun} is shown between {this} and {baseline}: {}.{}",
            change(row),
            settle(row)
        ),
    }
}

/// How many replicates would show a difference.
fn settle(row: &ComparisonRow) -> String {
    match (row.replicates_to_settle, row.replicates_to_show) {
        (Some(settle), Some(show)) => format!(
            " About {settle} replicates would settle it; about {show} would show a difference of 5 %."
        ),
        (Some(settle), None) => format!(" About {settle} replicates would settle it."),
        (None, Some(show)) => format!(" About {show} replicates would show a difference of 5 %."),
        (None, None) => String::new(),
    }
}

/// The best configuration in one metric.
fn best(document: &ResultDocument, rows: &[&ComparisonRow], noun: &str) -> String {
    let gain = |row: &ComparisonRow| if row.higher_is_better { row.ratio } else { 1.0 / row.ratio };
    let better = rows.iter().filter(|row| row.answer == Answer::Better);
    let best = better.max_by(|a, b| gain(a).total_cmp(&gain(b)));
    let baseline = short_label(document, 0);
    match best {
        Some(row) => format!("Best {noun}: {}, {} against {baseline}.", label(document, row), change(row)),
        None => format!("No configuration is shown to be better than {baseline} in {noun}."),
    }
}

/// Many configurations in one metric: the best, and how many are better.
fn of_many(document: &ResultDocument, rows: &[&ComparisonRow], noun: &str) -> String {
    let count = |answer| rows.iter().filter(|row| row.answer == answer).count();
    let [better, worse, same, unclear] =
        [Answer::Better, Answer::Worse, Answer::Same, Answer::CantTell].map(count);
    format!(
        "{} Of {}, {better} are better, {worse} worse, {same} the same, and {unclear} unclear.",
        best(document, rows, noun),
        plural(rows.len(), "configuration")
    )
}

/// What limits: in each configuration where several are compared, else the verdict.
fn limits(document: &ResultDocument, said: &mut Vec<usize>) -> Vec<String> {
    let configurations = &document.configurations;
    let judged = configurations.iter().filter(|each| each.verdict.is_some()).count();
    let own_next = |verdict: &Verdict| {
        let next = configurations.first().and_then(|baseline| baseline.next.as_ref());
        next_sentence(verdict, next)
    };
    let first = || format!("{}{}", verdict(document), own_next(&document.verdict));
    let of_steps = steps(document);
    if judged < 2 && of_steps.is_empty() {
        return vec![first()];
    }
    // Step by step in short; the table has the rest.
    if !of_steps.is_empty() {
        let is_of_sides =
            matches!(&document.verdict, Verdict::Inconclusive { reason: Unclear::Sides { .. }, .. });
        let whose = match configurations.len() {
            _ if judged < 2 || is_of_sides => String::new(),
            ..=SIDE_BY_SIDE => format!("{}: ", short_label(document, 0)),
            _ => "Baseline: ".into(),
        };
        return std::iter::once(format!("{whose}{}", first())).chain(of_steps).collect();
    }
    if configurations.len() > SIDE_BY_SIDE {
        return std::iter::once(first()).chain(shared_limits(document)).collect();
    }
    let of_sides = matches!(&document.verdict, Verdict::Inconclusive { reason: Unclear::Sides { .. }, .. });
    let mut known: Vec<(String, usize)> = Vec::new();
    let mut texts = Vec::new();
    for (at, configuration) in configurations.iter().enumerate() {
        let Some(own) = &configuration.verdict else { continue };
        let name = short_label(document, at);
        let limit = limits_on(configuration).unwrap_or_default();
        // What is not clear is not clear in each for its own reason.
        let is_clear = !matches!(own, Verdict::Inconclusive { .. });
        if let Some((_, first)) = known.iter().find(|(other, _)| *other == limit && is_clear) {
            texts.push(format!("{name}: as {}, {limit}.", letter(*first)));
            continue;
        }
        // That of the result has been weighed against the proof.
        let is_baseline = at == 0 && !of_sides;
        let (own, text) = match is_baseline {
            true => (&document.verdict, Some(verdict(document))),
            false => (own, verdict_of_configuration(configuration, document)),
        };
        said.extend(findings_of(own));
        let next = next_sentence(own, configuration.next.as_ref());
        texts.push(format!("{name}: {}{next}", text.unwrap_or_default()));
        known.push((limit, at));
    }
    texts
}

/// In how many of many configurations each limit binds.
fn shared_limits(document: &ResultDocument) -> Option<String> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for limit in document.configurations.iter().filter_map(limits_on) {
        match counts.iter_mut().find(|known| known.0 == limit) {
            Some(known) => known.1 += 1,
            None => counts.push((limit, 1)),
        }
    }
    counts.sort_by_key(|known| std::cmp::Reverse(known.1));
    let texts: Vec<String> = counts.iter().map(|(limit, count)| format!("{limit} in {count}")).collect();
    (!texts.is_empty()).then(|| {
        format!("Limits of the {} configurations: {}.", document.configurations.len(), texts.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    /// Answer, ratio and its interval.
    type Row = (Answer, f64, Option<(f64, f64)>);

    /// The baseline of a stored run and so many configurations that were compared with it, in throughput alone. The numbers of
    /// the comparison are set, so that each answer is read with round ones.
    fn compared(configurations: usize, rows: &[Row]) -> ResultDocument {
        let mut document = recorded::part("distributions", 1 + configurations, 2).document;
        document.comparison.retain(|row| row.metric == "rate_per_s");
        for (row, (answer, ratio, interval)) in document.comparison.iter_mut().zip(rows) {
            (row.answer, row.ratio) = (*answer, *ratio);
            (row.low, row.high) = (interval.map(|(low, _)| low), interval.map(|(_, high)| high));
            (row.pairs, row.replicates_to_settle, row.replicates_to_show) = (5, Some(24), None);
        }
        document
    }

    #[test]
    fn the_answer_says_which_configuration_is_better() {
        use Answer::{Better, CantTell, Same, Worse};
        for (answer, ratio, interval, expected) in [
            (
                Better,
                1.34,
                Some((1.31, 1.37)),
                "B zipf 1.2 is better than A baseline: it has a higher throughput, +34.0 % (95 % interval +31.0 to +37.0 %, 5 pairs).",
            ),
            (
                Worse,
                0.356,
                Some((0.316, 0.4)),
                "B zipf 1.2 is worse than A baseline: it has a lower throughput, x 0.356 (95 % interval 0.316 to 0.400, 5 pairs).",
            ),
            (
                Same,
                1.002,
                Some((0.99, 1.01)),
                "B zipf 1.2 and A baseline have the same throughput: +0.2 % (95 % interval -1.0 to +1.0 %, 5 pairs). A difference of \
                 less than 3.0 % does not matter.",
            ),
            (
                CantTell,
                1.04,
                Some((0.94, 1.15)),
                "No difference in throughput is shown between B zipf 1.2 and A baseline: +4 % (95 % interval -6 to +15 %, 5 pairs). \
                 About 24 replicates would settle it.",
            ),
            (
                CantTell,
                1.04,
                None,
                "B zipf 1.2 was compared with A baseline once: throughput +4.0 %. One pair does not show whether that is chance: set \
                 --replicates 5.",
            ),
        ] {
            let document = compared(1, &[(answer, ratio, interval)]);
            assert_eq!(headline(&document).answer.as_deref(), Some(expected));
        }
    }

    #[test]
    fn of_several_the_best_comes_first() {
        let rows = [
            (Answer::Better, 1.1, Some((1.05, 1.15))),
            (Answer::Better, 2.5, Some((2.4, 2.6))),
            (Answer::Worse, 0.8, Some((0.75, 0.85))),
        ];
        let answer = headline(&compared(3, &rows)).answer.unwrap();
        assert!(
            answer.starts_with(
                "Best throughput: C hot 90% in 10%, x 2.50 (95 % interval 2.40 to 2.60, 5 pairs) against A baseline. "
            ),
            "{answer}"
        );
        assert!(
            answer.contains("D sequential -20.0 % (95 % interval -25.0 to -15.0 %, 5 pairs), worse"),
            "{answer}"
        );
        let many = headline(&compared(4, &rows)).answer.unwrap();
        assert!(many.starts_with("Best throughput: distribution=hot 90% in 10%, x 2.50"), "{many}");
        assert!(many.contains("Of 4 configurations, 2 are better, "), "{many}");
    }

    #[test]
    fn bandwidth_that_contradicts_throughput_is_said() {
        let mut document = compared(1, &[(Answer::Worse, 0.356, Some((0.316, 0.4)))]);
        let row = ComparisonRow {
            metric: "bytes_per_s".into(),
            answer: Answer::Better,
            ratio: 5.69,
            ..document.comparison[0].clone()
        };
        document.comparison.push(ComparisonRow { low: Some(5.06), high: Some(6.4), ..row });
        assert_eq!(
            headline(&document).answer.unwrap(),
            "Throughput against A baseline: B zipf 1.2 x 0.356 (95 % interval 0.316 to 0.400, 5 pairs), worse. Bandwidth against A \
             baseline: B zipf 1.2 x 5.69 (95 % interval 5.06 to 6.40, 5 pairs), better."
        );
    }

    #[test]
    fn what_limits_is_said_of_each_configuration_once() {
        let document = compared(2, &[]);
        let first = headline(&document);
        assert_eq!(first.limits.len(), 3);
        assert!(first.limits[0].starts_with("A baseline: Disk vda was saturated"), "{:?}", first.limits);
        assert_eq!(first.limits[1], "B zipf 1.2: as A, disk vda.");
        let own = findings_of(&document.verdict);
        assert!(!own.is_empty() && first.said.iter().all(|at| own.contains(at)), "{:?}", first.said);
        let limits = headline(&compared(4, &[])).limits;
        assert!(limits[1].starts_with("Limits of the 5 configurations: disk vda in "), "{limits:?}");
        // Of one configuration there is nothing to compare.
        let document = recorded::run("disk").document;
        let single = headline(&document);
        assert_eq!((single.answer, single.limits.len()), (None, 1));
        assert_eq!(single.said, findings_of(&document.verdict));
    }

    #[test]
    fn where_the_generator_was_the_limit_nothing_else_is_listed_as_one() {
        let limits = |document: &ResultDocument| {
            let others = headline(document).others(document);
            others.iter().filter(|finding| finding.kind == FindingKind::Limits).count()
        };
        let mut document = recorded::run("disk").document;
        let limit = document.findings.iter().position(|finding| finding.kind == FindingKind::Limits).unwrap();
        document.findings.push(document.findings[limit].clone());
        assert_eq!(limits(&document), 1);
        let claim =
            Claim::Generator { threads: 1, ran_share: 0.99, wait_share: 0.0, late: None, starved_by: None };
        let generator = Finding { claim, about: None, ..document.findings[limit].clone() };
        document.findings.push(generator);
        document.verdict = Verdict::GeneratorBound { finding: document.findings.len() - 1 };
        assert_eq!(limits(&document), 0);
    }

    #[test]
    fn a_sweep_says_where_it_peaks() {
        let document = recorded::run("grid").document;
        let answer = headline(&document).answer.unwrap();
        let highest = |value: fn(&CurvePoint) -> f64| {
            let points = document.curves.iter().flat_map(|curve| &curve.points);
            points.max_by(|a, b| value(a).total_cmp(&value(b))).unwrap()
        };
        let rate = Quantity::Rate("IOPS").show(highest(|point| point.rate_per_s[0]).rate_per_s[0]);
        let bandwidth = Quantity::BytesPerSecond.show(highest(|point| point.bytes_per_s[0]).bytes_per_s[0]);
        assert!(answer.starts_with(&format!("Highest throughput: {rate} (")), "{answer}");
        assert!(answer.contains(&format!(" Highest bandwidth: {bandwidth} (")), "{answer}");
        // Two levels of one setting are two configurations.
        let pair = recorded::run("queue-depth").document;
        assert_eq!(pair.curves[0].points.len(), 2);
        assert!(is_swept(&document) && !is_swept(&pair));
    }
}
