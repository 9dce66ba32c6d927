//! A latency histogram in one line of text for each operation.
//!
//! A result document holds quantiles, not buckets. Between two neighbouring quantiles the share of operations
//! is known exactly (40 % between p50 and p90); it is spread evenly over the logarithm of the time between.

use model::LatencySummary;
use model::result::OperationResult;

use crate::text::Quantity;

/// (quantile at the end of the stretch, its part of the summary)
const STRETCHES: [(f64, &str, &str); 6] = [
    (0.5, "min", "p50"),
    (0.4, "p50", "p90"),
    (0.05, "p90", "p95"),
    (0.04, "p95", "p99"),
    (0.009, "p99", "p999"),
    (0.001, "p999", "max"),
];

/// Fewer operations have no distribution: spreading them between quantiles would show times that never were.
const COMPLETED_MIN: u64 = 10;

/// The share of operations in each of `width` equal steps of the logarithm between two times.
fn shares(summary: &LatencySummary, from: f64, to: f64, width: usize) -> Vec<f64> {
    let mut shares = vec![0.0; width];
    let place = |ms: f64| (ms / from).ln() / (to / from).ln() * width as f64;
    for (share, begin, end) in STRETCHES {
        let (Some(begin), Some(end)) = (summary.part(begin), summary.part(end)) else { continue };
        // Another tool may not have computed it.
        if !(begin.is_finite() && end.is_finite()) {
            continue;
        }
        let (begin, end) = (place(begin.max(from)), place(end.max(from)));
        if !(begin.is_finite() && end.is_finite()) {
            continue;
        }
        if end - begin < 1e-6 {
            shares[(begin as usize).min(width - 1)] += share;
            continue;
        }
        for (at, sum) in shares.iter_mut().enumerate() {
            let overlap = end.min((at + 1) as f64) - begin.max(at as f64);
            *sum += share * (overlap / (end - begin)).max(0.0);
        }
    }
    shares
}

/// A block whose height is the logarithm of a share: from one in ten thousand to all.
fn block(share: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match share {
        share if share < 1e-9 => ' ',
        share => BLOCKS[((share.log10() + 4.0) / 4.0 * 8.0).clamp(0.0, 7.0) as usize],
    }
}

/// One line per operation over a common axis of response times.
pub(super) fn lines(operations: &[&OperationResult], width: usize) -> Vec<String> {
    let shown: Vec<&OperationResult> = operations
        .iter()
        .copied()
        .filter(|operation| {
            let has_median = operation.response_ms.p50.is_finite();
            // A hundred days is more than any operation takes, and keeps the axis in bounds.
            has_median
                && operation.completed >= COMPLETED_MIN
                && (1e-9..1e10).contains(&operation.response_ms.max)
        })
        .collect();
    let from = shown
        .iter()
        .map(|operation| operation.response_ms.min)
        .filter(|ms| (1e-9..1e10).contains(ms))
        .fold(f64::INFINITY, f64::min);
    let to = shown.iter().map(|operation| operation.response_ms.max).fold(0.0, f64::max) * 1.0001;
    if !(from.is_finite() && to > from) {
        return Vec::new();
    }
    let name_width =
        shown.iter().map(|operation| operation.name.as_str().chars().count()).max().unwrap_or(0).clamp(8, 20);
    let width = width.saturating_sub(name_width + 6).clamp(20, 72);
    let mut lines = vec![" distribution of response times (time and height are logarithmic)".to_string()];
    for operation in shown {
        let blocks: String = shares(&operation.response_ms, from, to, width).into_iter().map(block).collect();
        let name: String = operation.name.as_str().chars().take(name_width).collect();
        lines.push(format!(" {name:<name_width$}  {}", blocks.trim_end()));
    }
    lines.push(format!(" {:name_width$}  {}", "", axis(from, to, width)));
    lines
}

/// First digits of the labels of an axis, coarse to fine.
const DIGITS: [&[f64]; 3] =
    [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]];

/// Labels below the blocks, each beginning at its place: powers of ten, or finer where fewer than two of these are in sight.
fn axis(from: f64, to: f64, width: usize) -> String {
    let mut out = String::new();
    for digits in DIGITS {
        let mut labels = 0;
        out.clear();
        for decade in from.log10().floor() as i32..=to.log10().floor() as i32 {
            for digit in digits {
                let ms = digit * 10f64.powi(decade);
                let place = (ms / from).ln() / (to / from).ln() * width as f64;
                let text =
                    format!("┴{}", Quantity::Milliseconds.show(ms).replace(".00 ", " ").replace(".0 ", " "));
                let used = if out.is_empty() { 0 } else { out.chars().count() + 1 };
                let fits = place as usize >= used && place as usize + text.chars().count() <= width + 3;
                if place >= 0.0 && ms <= to && fits {
                    out.push_str(&" ".repeat(place as usize - out.chars().count()));
                    out.push_str(&text);
                    labels += 1;
                }
            }
        }
        if labels >= 2 {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn shares_add_up_to_all(steps in proptest::collection::vec(0.0f64..3.0, 6), min in 0.001f64..10.0, width in 1usize..80) {
            let mut at = min;
            let mut next = |step: f64| { at *= 1.0 + step; at };
            let summary = LatencySummary {
                min, mean: min,
                p50: next(steps[0]), p90: next(steps[1]), p95: next(steps[2]),
                p99: next(steps[3]), p999: next(steps[4]), max: next(steps[5]),
                at_least: model::Statistics::NONE,
            };
            let to = summary.max * 1.0001;
            let sum: f64 = shares(&summary, min, to, width).iter().sum();
            proptest::prop_assert!((sum - 1.0).abs() < 1e-6, "{}", sum);
        }
    }

    #[test]
    fn what_a_tool_did_not_compute_is_not_drawn() {
        let absent = LatencySummary { min: 1.0, mean: 2.0, max: 8.0, ..LatencySummary::ABSENT };
        assert_eq!(shares(&absent, 1.0, 8.0, 3), [0.0; 3]);
        let median = LatencySummary { p50: 2.0, ..absent };
        assert_eq!(shares(&median, 1.0, 8.0, 3), [0.5, 0.0, 0.0]);
        let of = |name: &str, response_ms| OperationResult {
            name: name.to_string().into(),
            completed: 100,
            response_ms,
            ..OperationResult::default()
        };
        let lines = lines(&[&of("read", median), &of("all", absent)], 80);
        assert!(lines.len() == 3 && lines[1].starts_with(" read"), "{lines:?}");
    }

    #[test]
    fn an_axis_has_two_labels_or_more() {
        for (from, to, expected) in [
            (0.05, 20.0, "        ┴100 µs                     ┴1 ms                      ┴10 ms"),
            (1.13, 5.38, "                          ┴2 ms                                     ┴5 ms"),
            (0.806, 1.066, "                            ┴900 µs                    ┴1 ms"),
        ] {
            assert_eq!(axis(from, to, 72), expected, "{from} to {to}");
        }
    }

    #[test]
    fn heights_are_logarithmic() {
        assert_eq!([1.0, 0.5, 0.1, 0.01, 0.001, 0.0001, 0.0].map(block), ['█', '█', '▇', '▅', '▃', '▁', ' ']);
    }
}
