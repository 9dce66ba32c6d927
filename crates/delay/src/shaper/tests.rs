//! The shaper with a simulated clock.

use model::{MILLISECOND, SECOND};
use proptest::prelude::*;

use super::*;
use crate::distribution::Distribution;
use crate::settings::{Change, RouteSettings};

fn settings(words: &str) -> PathSettings {
    let mut settings = RouteSettings::default();
    settings.change(&Change::parse([words]).unwrap(), 0);
    settings.up
}

/// The pieces of arrivals at these times.
fn pieces(settings: &PathSettings, seed: u64, arrivals: &[(Nanos, usize)]) -> Vec<(Nanos, Piece)> {
    let mut shaper = Shaper::new(seed, 0);
    let mut pieces = Vec::new();
    for (at_ns, bytes) in arrivals {
        shaper.arrive(settings, *at_ns);
        let mut left = *bytes;
        while left > 0 {
            let piece = shaper.next(settings, left);
            pieces.push((*at_ns, piece));
            if piece.end.is_some() {
                return pieces;
            }
            left -= piece.bytes;
        }
    }
    pieces
}

#[test]
fn each_impairment_gives_the_times_of_its_definition() {
    let ms = |ms: u64| ms * MILLISECOND;
    for (words, arrivals, expected) in [
        ("none", vec![(ms(5), 100_000)], vec![(100_000, ms(5))]),
        ("latency=20ms", vec![(ms(5), 10), (ms(6), 20)], vec![(10, ms(25)), (20, ms(26))]),
        // A burst of 2,000 bytes, then one byte per microsecond.
        ("bandwidth=1MB/s burst=2000B", vec![(0, 5000)], vec![(2000, 0), (2000, ms(2)), (1000, ms(3))]),
        // The bucket is full again after 2 ms, and holds no more than the burst.
        (
            "bandwidth=1MB/s burst=2000B",
            vec![(0, 2000), (ms(50), 4000)],
            vec![(2000, 0), (2000, ms(50)), (2000, ms(52))],
        ),
        (
            "stall=10ms",
            vec![(ms(3), 1), (ms(10), 1), (ms(15), 1)],
            vec![(1, ms(10)), (1, ms(10)), (1, ms(15))],
        ),
        (
            "stall=10ms stall-every=100ms",
            vec![(ms(50), 1), (ms(104), 1), (ms(205), 1)],
            vec![(1, ms(50)), (1, ms(110)), (1, ms(210))],
        ),
    ] {
        let found: Vec<(usize, Nanos)> = pieces(&settings(words), 1, &arrivals)
            .into_iter()
            .map(|(_, piece)| (piece.bytes, piece.due_ns))
            .collect();
        assert_eq!(found, expected, "{words}");
    }
}

#[test]
fn ends_come_after_their_bytes() {
    for (words, bytes, expected) in [
        ("reset-after=1000B", 5000, vec![(1000, Some(End::Reset))]),
        ("close-after=1000B", 1000, vec![(1000, Some(End::Close))]),
        ("close-after=1000B reset-after=1000B", 1001, vec![(1000, Some(End::Close))]),
        ("reset-after=0B", 1, vec![(0, Some(End::Reset))]),
        ("reset=100%", 1, vec![(0, Some(End::Reset))]),
        ("reset-after=1000B", 999, vec![(999, None)]),
    ] {
        let found: Vec<_> = pieces(&settings(words), 1, &[(0, bytes)])
            .into_iter()
            .map(|(_, piece)| (piece.bytes, piece.end))
            .collect();
        assert_eq!(found, expected, "{words}");
    }
}

#[test]
fn losses_are_as_frequent_and_as_long_as_stated() {
    let settings = settings("loss=2%");
    let arrivals: Vec<(Nanos, usize)> =
        (0..200).map(|at| (at * 1000 * SECOND, 500 * SEGMENT_BYTES)).collect();
    let pieces = pieces(&settings, 3, &arrivals);
    let lost: Vec<&(Nanos, Piece)> = pieces.iter().filter(|(_, piece)| piece.losses > 0).collect();
    // 100,000 segments: five standard deviations of a binomial with p = 0.02.
    assert!(lost.len().abs_diff(2000) < 222, "{} losses", lost.len());
    let twice = lost.iter().filter(|(_, piece)| piece.losses == 2).count();
    assert!((15..70).contains(&twice), "{twice} segments were lost twice");
    let first = lost.iter().find(|(_, piece)| piece.losses == 2).unwrap();
    let before = pieces.iter().take_while(|piece| *piece != *first).last().unwrap();
    assert_eq!(first.1.due_ns - before.1.due_ns.max(first.0), 3 * RETRANSMISSION_NS);
}

#[test]
fn correlated_delays_follow_each_other() {
    let correlation = |words: &str| {
        let settings = settings(words);
        let mut shaper = Shaper::new(5, 0);
        let delays: Vec<f64> = (0..50_000).map(|_| shaper.delay_ns(&settings) as f64).collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let product = |shift: usize| {
            delays.iter().zip(&delays[shift..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
        };
        product(1) / product(0)
    };
    assert!(correlation("latency=50ms jitter=5ms distribution=normal").abs() < 0.03);
    let correlated = correlation("latency=50ms jitter=5ms distribution=normal correlation=80%");
    assert!((correlated - 0.8).abs() < 0.03, "{correlated}");
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let settings = settings("latency=5ms jitter=3ms loss=1% bandwidth=10MB/s");
    let arrivals: Vec<(Nanos, usize)> = (0..50).map(|at| (at * MILLISECOND, 20_000)).collect();
    let first = pieces(&settings, 9, &arrivals);
    assert_eq!(first, pieces(&settings, 9, &arrivals));
    assert_ne!(first, pieces(&settings, 10, &arrivals));
}

fn any_settings() -> impl Strategy<Value = PathSettings> {
    let distribution = prop::sample::select(vec![
        Distribution::Constant,
        Distribution::Uniform,
        Distribution::Normal,
        Distribution::Exponential,
        Distribution::Pareto,
    ]);
    let link = (0..50 * MILLISECOND, 0..20 * MILLISECOND, distribution, 0.0..0.99);
    let limits = (prop::option::of(1e4..1e9), prop::option::of(1448u64..500_000), 0.0..0.3);
    let stalls = (0..30 * MILLISECOND, prop::option::of(30 * MILLISECOND..200 * MILLISECOND));
    (link, limits, stalls).prop_map(|((latency_ns, jitter_ns, distribution, correlation), limits, stalls)| {
        PathSettings {
            latency_ns,
            jitter_ns,
            distribution,
            correlation,
            bandwidth_bytes_per_s: limits.0,
            burst_bytes: limits.1,
            loss: if limits.2 < 0.1 { 0.0 } else { limits.2 },
            stall_ns: stalls.0,
            stall_every_ns: stalls.1.unwrap_or(0),
            ..PathSettings::default()
        }
    })
}

fn any_arrivals() -> impl Strategy<Value = Vec<(Nanos, usize)>> {
    prop::collection::vec((0..20 * MILLISECOND, 1usize..100_000), 1..40).prop_map(|gaps| {
        let mut at_ns = 0;
        gaps.into_iter()
            .map(|(gap_ns, bytes)| {
                at_ns += gap_ns;
                (at_ns, bytes)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn all_bytes_leave_in_order_and_none_before_it_arrived(
        settings in any_settings(), arrivals in any_arrivals(), seed: u64,
    ) {
        let pieces = pieces(&settings, seed, &arrivals);
        let total: usize = arrivals.iter().map(|(_, bytes)| bytes).sum();
        prop_assert_eq!(pieces.iter().map(|(_, piece)| piece.bytes).sum::<usize>(), total);
        prop_assert!(pieces.iter().all(|(_, piece)| piece.bytes > 0));
        prop_assert!(pieces.iter().all(|(arrival, piece)| piece.due_ns >= *arrival));
        prop_assert!(pieces.is_sorted_by_key(|(_, piece)| piece.due_ns));
    }

    #[test]
    fn the_bandwidth_is_exceeded_over_no_window(
        settings in any_settings(), arrivals in any_arrivals(), seed: u64, rate in 1e4..1e8,
    ) {
        let settings = PathSettings { bandwidth_bytes_per_s: Some(rate), ..settings };
        let pieces = pieces(&settings, seed, &arrivals);
        for (at, (_, first)) in pieces.iter().enumerate() {
            let mut bytes = 0;
            for (_, piece) in &pieces[at..] {
                bytes += piece.bytes;
                let window_s = (piece.due_ns - first.due_ns) as f64 / 1e9;
                let allowed = settings.burst_bytes() + rate * window_s;
                prop_assert!(bytes as f64 <= allowed + 1.0, "{bytes} bytes in {window_s} s of {allowed}");
            }
        }
    }

    #[test]
    fn nothing_leaves_during_a_stall(settings in any_settings(), arrivals in any_arrivals(), seed: u64) {
        for (_, piece) in pieces(&settings, seed, &arrivals) {
            prop_assert_eq!(settings.after_stall(piece.due_ns), piece.due_ns);
        }
    }
}
