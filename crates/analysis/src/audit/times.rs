//! Response times of one result: their order, and what their mean can be.

use model::audit::{AuditFinding, AuditKind, Severity};
use model::figure::{Figure, Figures, Quantity, Span};

use super::{finding, follows};
use crate::configuration::SAMPLES_BEYOND;

/// All findings about them.
pub(super) fn findings(of: &Figures, found: &mut Vec<AuditFinding>) {
    order(of, found);
    mean(of, found);
    deviation(of, found);
    histogram(of, found);
    few_samples(of, found);
}

/// A percentile has enough operations beyond it. The lowest that has not is named.
fn few_samples(of: &Figures, found: &mut Vec<AuditFinding>) {
    let Some(count) = of.get(Quantity::Count) else { return };
    for (share, figure) in ladder(of) {
        let beyond = 1.0 - share;
        if share > 0.0 && share < 1.0 && count.span.high * beyond < SAMPLES_BEYOND * (1.0 - 1e-6) {
            let needed = (SAMPLES_BEYOND / beyond).round();
            let finding = finding(of, AuditKind::FewSamples, Severity::Doubtful, &[figure, count]);
            found.push(follows(finding, Quantity::Count, Span::new(needed, needed)));
            return;
        }
    }
}

/// The share of the operations up to a time: the shortest, the percentiles in their order, the longest.
fn ladder(of: &Figures) -> Vec<(f64, &Figure)> {
    let mut steps: Vec<(f64, &Figure)> = of
        .figures
        .iter()
        .filter_map(|figure| match figure.quantity {
            Quantity::Min => Some((0.0, figure)),
            Quantity::Percentile(percent) => Some((percent / 100.0, figure)),
            Quantity::Max => Some((1.0, figure)),
            _ => None,
        })
        .collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    steps.dedup_by_key(|step| step.0);
    steps
}

/// Each step of the ladder is at least as long as the one before.
fn order(of: &Figures, found: &mut Vec<AuditFinding>) {
    let ladder = ladder(of);
    for pair in ladder.windows(2) {
        let (low, high) = (pair[0].1, pair[1].1);
        if low.span.low >= high.span.high {
            found.push(finding(of, AuditKind::Order, Severity::Contradiction, &[low, high]));
        }
    }
}

/// The mean lies between the sums over the ladder, each share with its lower and with its upper end.
fn mean(of: &Figures, found: &mut Vec<AuditFinding>) {
    let Some(mean) = of.get(Quantity::Mean) else { return };
    let ladder = ladder(of);
    if ladder.is_empty() {
        return;
    }
    let (mut low, mut high) = (0.0, 0.0);
    let mut before: (f64, Option<&Figure>) = (0.0, None);
    for (share, figure) in ladder.iter().map(|(share, figure)| (*share, *figure)) {
        let part = share - before.0;
        low += part * before.1.map_or(0.0, |figure| figure.span.low);
        high += part * figure.span.high;
        before = (share, Some(figure));
    }
    let rest = 1.0 - before.0;
    if rest > 0.0 {
        low += rest * before.1.map_or(0.0, |figure| figure.span.low);
        high = f64::INFINITY;
    }
    // Percentiles of histograms are those of buckets, which are up to a thousandth wide.
    let span = Span::new(low * (1.0 - 2e-3), high * (1.0 + 2e-3) + 1e-12);
    if !span.meets(mean.span) {
        let mut figures: Vec<&Figure> = ladder.iter().map(|(_, figure)| *figure).collect();
        figures.push(mean);
        let found_one = finding(of, AuditKind::Mean, Severity::Contradiction, &figures);
        found.push(follows(found_one, Quantity::Mean, span));
    }
}

/// The largest standard deviation of values from `low` to `high` with a mean is sqrt((mean - low)(high - mean)). Source:
/// Bhatia and Davis, "A Better Bound on the Variance", 2000. With the number after the sign of plus and minus being half of
/// the range, the mean is its middle.
fn deviation(of: &Figures, found: &mut Vec<AuditFinding>) {
    let (Some(deviation), Some(mean)) = (of.get(Quantity::Deviation), of.get(Quantity::Mean)) else { return };
    let (Some(min), Some(max)) = (of.get(Quantity::Min), of.get(Quantity::Max)) else { return };
    let figures = [mean, min, max, deviation];
    let half = Span::new((max.span.low - min.span.high) / 2.0, (max.span.high - min.span.low) / 2.0);
    let half_as_stated = (max.value - min.value) / 2.0;
    if deviation.span.low <= half_as_stated && half_as_stated < deviation.span.high && half.low > 0.0 {
        // It is half of the range, so that both ends are one deviation away from the mean.
        let low = Span::new(mean.span.low - deviation.span.high, mean.span.high - deviation.span.low);
        let high = mean.span.plus(deviation.span);
        let middle = Span::new((min.span.low + max.span.low) / 2.0, (min.span.high + max.span.high) / 2.0);
        if !low.meets(min.span) || !high.meets(max.span) || !middle.meets(mean.span) {
            let found_one = finding(of, AuditKind::HalfRange, Severity::Contradiction, &figures);
            found.push(follows(found_one, Quantity::Mean, middle));
        }
        return;
    }
    let (below, above) = (mean.span.high - min.span.low, max.span.high - mean.span.low);
    let largest = (below.max(0.0) * above.max(0.0)).sqrt();
    if deviation.span.low > largest * (1.0 + 2e-3) {
        let found_one = finding(of, AuditKind::Deviation, Severity::Contradiction, &figures);
        found.push(follows(found_one, Quantity::Deviation, Span::new(0.0, largest)));
    }
}

/// The shares of a histogram add up to 100 %, and its mean is that of the result. Tools round shares or cut them off.
fn histogram(of: &Figures, found: &mut Vec<AuditFinding>) {
    if of.histogram.is_empty() {
        return;
    }
    let (mut low, mut high) = (0.0, 0.0);
    for (_, share) in &of.histogram {
        let step = (share.span.high - share.value) * 2.0;
        low += share.span.low;
        high += share.value + step;
    }
    let shares: Vec<&Figure> = of.histogram.iter().map(|(_, share)| share).collect();
    let sum: f64 = of.histogram.iter().map(|(_, share)| share.value).sum();
    if low > 100.0 || high < 100.0 {
        let found_one = finding(of, AuditKind::Shares, Severity::Contradiction, &shares);
        found.push(follows(found_one, Quantity::RatePercent, Span::new(sum, sum)));
        return;
    }
    let Some(mean) = of.get(Quantity::Mean).filter(|_| sum > 0.0) else { return };
    let edges: Vec<f64> = of.histogram.iter().map(|(edge, _)| *edge).collect();
    let (mut lower, mut upper) = (0.0, 0.0);
    for (at, (edge, share)) in of.histogram.iter().enumerate() {
        let next = edges.get(at + 1).copied().or(of.get(Quantity::Max).map(|max| max.span.high));
        // The shares that were cut off may all be in one column.
        lower += share.value / sum * edge;
        upper += share.value / sum * next.unwrap_or(f64::INFINITY);
    }
    let missing = (100.0 - sum).abs() / 100.0;
    let last = edges.last().copied().unwrap_or(0.0);
    let span = Span::new(
        lower * (1.0 - missing),
        upper + missing * of.get(Quantity::Max).map_or(last, |max| max.span.high),
    );
    if !span.meets(mean.span) {
        let found_one = finding(of, AuditKind::HistogramMean, Severity::Contradiction, &[mean]);
        found.push(follows(found_one, Quantity::Mean, span));
    }
}
