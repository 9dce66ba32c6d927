//! Laws that the figures of a result must meet, each over the values that the figures allow.

use std::collections::BTreeMap;

use model::audit::{AuditFinding, AuditKind, Severity};
use model::figure::{Figure, Figures, Quantity, Span};

use super::{finding, follows, times};

/// The share of what is in flight that must be found in the times: what is missing was spent outside.
const IN_FLIGHT_SHARE: f64 = 0.8;
/// How far a product may be off besides: the clocks of rate and time were read a moment apart.
const CLOCK_SHARE: f64 = 1e-3;
/// Figures and digits that two results must share to be called the same.
const SAME_FIGURES: usize = 3;
const SAME_DIGITS: usize = 7;
/// The most results with the same first figure that another one is compared with.
const COMPARED_MAX: usize = 20;

/// All findings about results.
pub(super) fn findings(results: &[Figures], limits: &[Figure]) -> Vec<AuditFinding> {
    let mut found = Vec::new();
    for result in results {
        products(result, &mut found);
        in_flight(result, &mut found);
        differs(result, &mut found);
        failed(result, &mut found);
        ceiling(result, limits, &mut found);
        times::findings(result, &mut found);
        if let Some(name) = &result.base {
            let nothing = Figures::default();
            let base = results.iter().find(|other| other.name == *name);
            compared(base.unwrap_or(&nothing), result, &mut found);
        }
    }
    identical(results, &mut found);
    found
}

/// Rate x time = count, rate x size = throughput, throughput x time = data. Source: the definitions.
fn products(of: &Figures, found: &mut Vec<AuditFinding>) {
    let laws = [
        (Quantity::Rate, Quantity::Elapsed, Quantity::Count, AuditKind::Count),
        (Quantity::Rate, Quantity::BlockSize, Quantity::Throughput, AuditKind::Throughput),
        (Quantity::Throughput, Quantity::Elapsed, Quantity::Data, AuditKind::Data),
    ];
    for (one, other, product, kind) in laws {
        let (Some(one), Some(other), Some(product)) = (of.get(one), of.get(other), of.get(product)) else {
            continue;
        };
        let span = one.span.times(other.span);
        let allowed = Span::new(span.low * (1.0 - CLOCK_SHARE), span.high * (1.0 + CLOCK_SHARE));
        if !allowed.meets(product.span) {
            let found_one = finding(of, kind, Severity::Contradiction, &[one, other, product]);
            found.push(follows(found_one, product.quantity, span));
        }
    }
}

/// Little's law (Little, "A Proof for the Queuing Formula L = lambda W", 1961): what is in flight is the rate times the time.
/// A load cannot have more in flight than its users. It may have less, if it has to do other things between operations.
fn in_flight(of: &Figures, found: &mut Vec<AuditFinding>) {
    let (Some(users), Some(mean)) = (of.get(Quantity::InFlight), of.get(Quantity::Mean)) else { return };
    let counted = of.get(Quantity::Count).zip(of.get(Quantity::Elapsed));
    let rate = match (of.get(Quantity::Rate), counted) {
        (Some(rate), _) => rate.clone(),
        (None, Some((count, elapsed))) => {
            let span = count.span.over(elapsed.span);
            let text = format!("{} in {}", count.text, elapsed.text);
            Figure::within(Quantity::Rate, span.low, span).with_text(text)
        }
        (None, None) => return,
    };
    let think = of.get(Quantity::ThinkTime);
    let time = think.map_or(mean.span, |think| mean.span.plus(think.span));
    let span = rate.span.times(time);
    let mut figures = vec![&rate, mean];
    figures.extend(think);
    figures.push(users);
    if span.low > users.span.high * (1.0 + 1e-6) {
        let found_one = finding(of, AuditKind::MoreInFlight, Severity::Contradiction, &figures);
        found.push(follows(found_one, Quantity::InFlight, span));
    } else if span.high < users.span.low * IN_FLIGHT_SHARE {
        let found_one = finding(of, AuditKind::LessInFlight, Severity::Doubtful, &figures);
        found.push(follows(found_one, Quantity::InFlight, span));
    }
}

/// One quantity has one value.
fn differs(of: &Figures, found: &mut Vec<AuditFinding>) {
    for (at, first) in of.figures.iter().enumerate() {
        let is_new = of.figures[..at].iter().all(|before| before.quantity != first.quantity);
        let same = of.figures[at + 1..].iter().filter(|other| other.quantity == first.quantity);
        let differs = |other: &&Figure| {
            let (one, other) = first.beside(other);
            !one.meets(other)
        };
        let others: Vec<&Figure> = same.filter(differs).collect();
        if is_new && !others.is_empty() {
            let mut figures = vec![first];
            figures.extend(others);
            found.push(finding(of, AuditKind::Differs, Severity::Contradiction, &figures));
        }
    }
}

fn failed(of: &Figures, found: &mut Vec<AuditFinding>) {
    if let (Some(failed), Some(count)) = (of.get(Quantity::Failed), of.get(Quantity::Count))
        && failed.span.low > count.span.high
    {
        found.push(finding(of, AuditKind::Failed, Severity::Contradiction, &[failed, count]));
    }
}

/// Nothing is faster than a ceiling of the report, or than a limit that the user knows.
fn ceiling(of: &Figures, limits: &[Figure], found: &mut Vec<AuditFinding>) {
    let counted = of.get(Quantity::Count).zip(of.get(Quantity::Elapsed));
    let computed = counted.map(|(count, elapsed)| count.span.over(elapsed.span));
    for (ceiling, kind) in of
        .get(Quantity::Ceiling)
        .map(|ceiling| (ceiling, AuditKind::Ceiling))
        .into_iter()
        .chain(limits.iter().map(|limit| (limit, AuditKind::Limit)))
    {
        let quantity =
            if ceiling.quantity == Quantity::Throughput { Quantity::Throughput } else { Quantity::Rate };
        let stated = of.get(quantity).filter(|stated| stated.span.low > ceiling.span.high);
        if let Some(stated) = stated {
            found.push(finding(of, kind, Severity::Contradiction, &[stated, ceiling]));
        } else if let (Quantity::Rate, Some((count, elapsed)), Some(span)) = (quantity, counted, computed)
            && span.low > ceiling.span.high
        {
            let found_one = finding(of, kind, Severity::Contradiction, &[count, elapsed, ceiling]);
            found.push(follows(found_one, Quantity::Rate, span));
        }
    }
}

/// What is said of a result beside its base.
fn compared(base: &Figures, of: &Figures, found: &mut Vec<AuditFinding>) {
    let ratio = |quantity: Quantity| Some((base.get(quantity)?, of.get(quantity)?));
    let rates = ratio(Quantity::Rate);
    let counts_agree = match ratio(Quantity::Count) {
        Some((one, other)) => one.span.meets(other.span),
        None => false,
    };
    let elapsed = ratio(Quantity::Elapsed).filter(|_| counts_agree);
    // How many times faster: rates directly, and times for the same count.
    let by_rates = rates.map(|(one, other)| quotient(other, one));
    let by_times = elapsed.map(|(one, other)| quotient(one, other));
    let is_off = |stated: &Figure, span: &Option<Span>| span.is_some_and(|span| !span.meets(stated.span));
    if let Some(stated) = of.get(Quantity::TimesFaster) {
        for (span, pair) in [(by_rates, rates), (by_times, elapsed)] {
            if let (Some(span), Some((one, other)), true) = (span, pair, is_off(stated, &span)) {
                let found_one =
                    finding(of, AuditKind::TimesFaster, Severity::Contradiction, &[one, other, stated]);
                found.push(follows(found_one, Quantity::TimesFaster, span));
            }
        }
    } else if let (Some(rate), Some(time), Some((one, other)), Some((first, second))) =
        (by_rates, by_times, rates, elapsed)
        && !rate.meets(time)
    {
        let found_one =
            finding(of, AuditKind::RatioOfTimes, Severity::Contradiction, &[one, other, first, second]);
        found.push(follows(found_one, Quantity::TimesFaster, time));
    }
    let throughputs = ratio(Quantity::Throughput);
    if let (Some(stated), Some((one, other))) = (of.get(Quantity::PercentSlower), rates.or(throughputs)) {
        let share = quotient(other, one);
        let span = Span::new(100.0 * (1.0 - share.high), 100.0 * (1.0 - share.low));
        if !span.meets(stated.span) {
            let found_one =
                finding(of, AuditKind::PercentSlower, Severity::Contradiction, &[one, other, stated]);
            found.push(follows(found_one, Quantity::PercentSlower, span));
        }
    }
    if let (Some(rate), Some(time)) = (of.get(Quantity::RatePercent), of.get(Quantity::TimePercent))
        && ratio(Quantity::InFlight).is_none_or(|(one, other)| one.span.meets(other.span))
    {
        // At as many in flight, Little's law makes the time the inverse of the rate.
        let span = Span::new(1e4, 1e4).over(rate.span);
        if !span.meets(time.span) {
            let found_one = finding(of, AuditKind::EqualInFlight, Severity::Contradiction, &[rate, time]);
            found.push(follows(found_one, Quantity::TimePercent, span));
        }
    }
}

/// One figure divided by another of the same quantity.
fn quotient(one: &Figure, by: &Figure) -> Span {
    let (one, by) = one.beside(by);
    one.over(by)
}

/// Two results with the same measured figures, to all their digits, were copied. What only one of them states is left out.
fn identical(results: &[Figures], found: &mut Vec<AuditFinding>) {
    // A count says little: loads of a number of operations have the same.
    let is_measured = |figure: &&Figure| {
        matches!(
            figure.quantity,
            Quantity::Rate
                | Quantity::Mean
                | Quantity::Min
                | Quantity::Max
                | Quantity::Percentile(_)
                | Quantity::Deviation
        )
    };
    let digits = |value: f64| {
        let text = format!("{value:.9e}");
        text.split('e').next().unwrap_or("").replace('.', "").trim_end_matches('0').len()
    };
    let mut by_first: BTreeMap<u64, Vec<&Figures>> = BTreeMap::new();
    for result in results {
        let Some(first) = result.figures.iter().find(is_measured) else { continue };
        let before = by_first.entry(first.value.to_bits()).or_default();
        let copied = before.iter().find_map(|other| {
            let both = result.figures.iter().filter(is_measured);
            let both: Vec<(&Figure, &Figure)> =
                both.filter_map(|figure| Some((figure, other.get(figure.quantity)?))).collect();
            let is_same = both.iter().all(|(one, other)| one.value == other.value);
            let all_digits: usize = both.iter().map(|(one, _)| digits(one.value)).sum();
            let is_long = both.len() >= SAME_FIGURES && all_digits >= SAME_DIGITS;
            (is_same && is_long).then(|| (*other, both.iter().map(|(one, _)| *one).collect::<Vec<&Figure>>()))
        });
        match copied {
            Some((other, figures)) => {
                let mut found_one = finding(result, AuditKind::Identical, Severity::Contradiction, &figures);
                found_one.follows_text = other.name.clone();
                found.push(found_one);
            }
            None if before.len() < COMPARED_MAX => before.push(result),
            None => {}
        }
    }
}
