//! The words of settings.

use proptest::prelude::*;

use super::*;

fn settings(words: &str) -> RouteSettings {
    let mut settings = RouteSettings::default();
    settings.change(&Change::parse([words]).unwrap(), 0);
    settings
}

#[test]
fn settings_are_written_as_they_are_read() {
    for (words, expected) in [
        ("none", ""),
        ("latency=20ms", "latency=20ms"),
        ("up.latency=20ms,down.latency=0.02s", "latency=20ms"),
        ("up.latency=1ms latency=2ms", "up.latency=1ms down.latency=2ms"),
        ("latency=5ms latency=off", ""),
        ("loss=7% refuse=12.5%", "loss=7% refuse=12.5%"),
        ("down.bandwidth=1.5MB/s burst=64KiB", "down.bandwidth=1500kB/s burst=64KiB"),
        ("distribution=pareto correlation=30%", "distribution=pareto correlation=30%"),
        ("black-hole=on stall=1s stall-every=1m", "stall=1s stall-every=1m black-hole=on"),
        ("reset-after=0B close-after=1MiB reset=0.01%", "reset=0.01% reset-after=0B close-after=1MiB"),
    ] {
        assert_eq!(settings(words).words().join(" "), expected, "{words}");
    }
}

#[test]
fn a_change_keeps_other_settings_unless_it_resets_them() {
    let mut settings = settings("latency=20ms connect-delay=1s");
    settings.change(&Change::parse(["up.loss=1%"]).unwrap(), 0);
    assert_eq!(settings.words().join(" "), "latency=20ms up.loss=1% connect-delay=1s");
    settings.change(&Change::parse(["none", "down.jitter=1ms"]).unwrap(), 0);
    assert_eq!(settings.words().join(" "), "down.jitter=1ms");
    assert!(!settings.down.is_transparent() && settings.up.is_transparent());
}

#[test]
fn each_mistake_says_what_to_write() {
    for (words, what, help) in [
        ("", "no setting is given", "latency=20ms"),
        ("latency", "`latency` is not a setting with a value", "NAME=VALUE"),
        ("latenc=1ms", "there is no setting `latenc`", "did you mean `latency`?"),
        ("left.latency=1ms", "there is no setting `left.latency`", "up.latency"),
        ("up.refuse=1%", "`refuse` has no direction", "refuse=1%"),
        ("latency=2h", "latency: `2h` is longer than one hour", "1h"),
        ("latency=-5ms", "latency: `-5ms` is not a duration", "off"),
        ("bandwidth=0.5B/s", "bandwidth: a bandwidth of `0.5B/s` is below 1B/s", "black-hole=on"),
        ("burst=1B", "burst: a burst of `1B` is smaller than a segment", "1448B"),
        ("loss=100%", "loss: a loss of `100%` passes almost nothing", "90%"),
        ("correlation=100%", "correlation: a correlation of `100%`", "99%"),
        ("distribution=gauss", "distribution: `gauss` is not a distribution", "normal"),
        ("black-hole=yes", "black-hole: `yes` is not a state", "on or off"),
    ] {
        let problems = Change::parse([words]).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{words}: {problems}");
        assert!(problems.0[0].what.starts_with(what), "{words}: {problems}");
        assert!(problems.0[0].help.contains(help), "{words}: {problems}");
    }
    let problems = Scheduled::parse("soon", &["latency=1", "x"]).unwrap_err();
    assert_eq!(problems.0.len(), 3, "{problems}");
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_is_written(
        words in "((up|down|left)\\.)?(latency|jitter|loss|bandwidth|burst|stall|reset|refuse|black-hole)=[0-9.]{1,9}(ms|s|%|B/s|kB/s|KiB|B|)|.{0,30}",
        at in ".{0,8}",
    ) {
        if let Ok(change) = Change::parse([words.as_str()]) {
            let mut settings = RouteSettings::default();
            settings.change(&change, 0);
            let _ = settings.check();
            let mut again = RouteSettings::default();
            let written = settings.words();
            if !written.is_empty() {
                again.change(&Change::parse(written.iter().map(String::as_str)).unwrap(), 0);
            }
            prop_assert_eq!(again.words(), written);
        }
        let _ = Scheduled::parse(&at, &[&words]);
    }
}
