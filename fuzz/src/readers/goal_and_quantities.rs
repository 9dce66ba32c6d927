//! Goals, sizes, durations, rates, shares: read, and written so that they read as the same.

use model::{BytesGoal, Goal, quantity};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(goal) = Goal::parse(text, &["read", "write"]) {
        assert!(goal.limit.is_finite(), "{goal:?}");
        assert_eq!(Goal::parse(&goal.text, &["read", "write"]).as_ref(), Ok(&goal));
        assert_eq!(goal.met_by(goal.limit), goal.inclusive, "{goal:?}");
    }
    if let Ok(bytes) = quantity::parse_bytes(text) {
        assert_eq!(quantity::parse_bytes(&quantity::bytes(bytes)).map(|read| read as f64), Ok(bytes as f64));
    }
    if let Some(goal) = BytesGoal::parse(text) {
        assert!(goal.bytes > 0.0 && goal.bytes.is_finite(), "{goal:?}");
    }
    if let Ok(nanos) = quantity::parse_duration(text) {
        let written = quantity::duration(nanos);
        assert_eq!(quantity::parse_duration(&written).map(|read| read as f64), Ok(nanos as f64));
    }
    if let Ok(rate) = quantity::parse_rate(text) {
        assert!(rate > 0.0 && rate.is_finite(), "{rate}");
        assert_eq!(quantity::parse_rate(&quantity::rate(rate)), Ok(rate));
    }
    if let Ok(rate) = quantity::parse_bytes_per_s(text) {
        assert!(rate > 0.0 && rate.is_finite(), "{rate}");
        let read = quantity::parse_bytes_per_s(&quantity::bytes_per_s(rate)).unwrap_or(f64::NAN);
        assert!((read / rate - 1.0).abs() < 1e-12, "{rate} was read as {read}");
        quantity::three_figures(rate);
        quantity::thousands(rate);
    }
    if let Ok(percent) = quantity::parse_percent(text) {
        assert!((0.0..=100.0).contains(&percent), "{percent}");
    }
}
