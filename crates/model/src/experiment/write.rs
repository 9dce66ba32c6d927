//! Writes an experiment as a file, so that the settings of a one-off command can be saved, changed and run
//! again.

use std::fmt::Write as _;

use toml_writer::ToTomlValue as _;

use super::read::{
    CHANGES, DEPENDENCIES, DEPENDENCY_KEYS, FIGURES, GATE, LIMITS, MACHINES, PUBLISHED_KEYS, TIMES,
};
use super::target::{ENVIRONMENT, TARGET_SETTINGS};
use super::{Dependency, Experiment, FigureName, OnLoss, Vocabulary};
use crate::gate::{METRIC, ROUNDS_MAX, SLOWDOWN};
use crate::load::LOAD_SETTINGS;
use crate::{Choice as _, DesignKind, Level, SettingInfo, Settings, quantity};

/// The TOML text of an experiment. Only differences from the defaults are written; parsing it gives the same
/// experiment.
pub fn write(experiment: &Experiment, vocabulary: &Vocabulary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "name = {}", quoted(&experiment.name));
    if !experiment.goals.is_empty() {
        let goals: Vec<String> = experiment.goals.iter().map(|goal| quoted(&goal.text)).collect();
        let _ = writeln!(out, "goal = [{}]", goals.join(", "));
    }
    if experiment.max_failures != super::MAX_FAILURES {
        let _ = writeln!(out, "max_failures = {}", quoted(&format!("{}%", experiment.max_failures * 100.0)));
    }
    let watch: Vec<String> = experiment.watch.iter().map(|entry| quoted(&entry.to_string())).collect();
    let _ = writeln!(out, "watch = [{}]", watch.join(", "));
    if !experiment.show.is_empty() {
        let show: Vec<String> = experiment.show.iter().map(|name| quoted(&name.to_string())).collect();
        let _ = writeln!(out, "show = [{}]", show.join(", "));
    }
    let _ = writeln!(out, "sample_every = {}", quoted(&quantity::duration(experiment.sample_every)));
    let _ = writeln!(out, "replicates = {}", experiment.replicates);
    let _ = writeln!(out, "seed = {}", experiment.seed);
    if experiment.prove {
        let _ = writeln!(out, "prove = true");
    }
    if let Some(factor) = &experiment.smallest {
        let _ = writeln!(out, "smallest = {}", quoted(&factor.0));
    }
    if experiment.design == DesignKind::Grid {
        let _ = writeln!(out, "design = \"grid\"");
    }
    if let Some(target) = &experiment.target {
        let _ = writeln!(out, "\n[target]");
        settings(&mut out, &target.settings, TARGET_SETTINGS);
        if !target.environment.is_empty() {
            let variables: Vec<String> = target
                .environment
                .iter()
                .map(|(name, value)| format!("{} = {}", quoted(name), quoted(&value.to_string())))
                .collect();
            let _ = writeln!(out, "{ENVIRONMENT} = {{ {} }}", variables.join(", "));
        }
    }
    if !experiment.machines.is_empty() {
        let _ = writeln!(out, "\n[{MACHINES}]");
        for (key, texts) in [("load", &experiment.machines.load), ("watch", &experiment.machines.watch)] {
            if !texts.is_empty() {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text.shown())).collect();
                let _ = writeln!(out, "{key} = [{}]", texts.join(", "));
            }
        }
        if experiment.machines.divides_on_loss {
            let _ = writeln!(out, "on_loss = {}", quoted(OnLoss::Divide.word()));
        }
    }
    if !experiment.dependencies.is_empty() {
        let _ = writeln!(out, "\n[{DEPENDENCIES}]");
    }
    for Dependency { name, address, listen, .. } in &experiment.dependencies {
        let [of_address, of_listen] = DEPENDENCY_KEYS;
        let _ = match listen {
            None => writeln!(out, "{} = {}", quoted(name), quoted(address)),
            Some(listen) => writeln!(
                out,
                "{} = {{ {of_address} = {}, {of_listen} = {} }}",
                quoted(name),
                quoted(address),
                quoted(listen)
            ),
        };
    }
    let kind = &experiment.workload.kind;
    let table =
        vocabulary.workloads.iter().find(|info| info.name == kind).map_or(&[][..], |info| info.settings);
    let _ = writeln!(out, "\n[workload.{kind}]");
    settings(&mut out, &experiment.workload.settings, table);
    let _ = writeln!(out, "\n[load]");
    settings(&mut out, &experiment.load, LOAD_SETTINGS);
    if !experiment.vary.is_empty() {
        let _ = writeln!(out, "\n[vary]");
        for variation in &experiment.vary {
            let mut parts = Vec::new();
            if let Some(baseline) = &variation.baseline {
                parts.push(format!("baseline = {}", value(baseline)));
            }
            let levels: Vec<String> = variation.levels.iter().map(value).collect();
            parts.push(format!("levels = [{}]", levels.join(", ")));
            if let Some(on) = &variation.on {
                parts.push(format!("on = {}", quoted(on)));
            }
            for (name, text) in &variation.parameters {
                parts.push(format!("{name} = {}", quoted(text.shown())));
            }
            let _ = writeln!(out, "{} = {{ {} }}", quoted(&variation.factor.0), parts.join(", "));
        }
    }
    if let Some(gate) = &experiment.gate {
        let metrics: Vec<String> = gate.metrics.iter().map(|metric| quoted(&metric.text)).collect();
        let _ = writeln!(out, "\n[{GATE}]\n{} = [{}]", METRIC.name, metrics.join(", "));
        let percent = Level::Percent((gate.slowdown * 1e6).round() / 1e4);
        let _ = writeln!(out, "{} = {}", SLOWDOWN.name, value(&percent));
        let _ = writeln!(out, "{} = {}", ROUNDS_MAX.name, gate.rounds_max);
    }
    for published in &experiment.published {
        let _ = writeln!(out, "\n[[published]]");
        let [name, source, factor] = PUBLISHED_KEYS;
        for (key, text) in [(name, &published.name), (source, &published.source)] {
            let _ = writeln!(out, "{key} = {}", quoted(text));
        }
        if let Some(path) = &published.factor {
            let _ = writeln!(out, "{factor} = {}", quoted(&path.0));
        }
        for (operation, figures) in &published.rates_per_s {
            let figures: Vec<String> = figures
                .iter()
                .map(|(level, rate)| format!("{} = {rate:?}", quoted(&level.to_string())))
                .collect();
            let _ = writeln!(out, "{operation} = {{ {} }}", figures.join(", "));
        }
        if !published.figures.is_empty() {
            let of = |(name, value): &(FigureName, f64)| {
                format!("{} = {}", quoted(&name.to_string()), quoted(&name.text(*value)))
            };
            let figures: Vec<String> = published.figures.iter().map(of).collect();
            let _ = writeln!(out, "{FIGURES} = {{ {} }}", figures.join(", "));
        }
        if !published.changes.is_empty() {
            // Without the rounding errors of the ratio.
            let percent = |ratio: f64| ((ratio - 1.0) * 1e8).round() / 1e6;
            let of = |(name, ratio): &(String, f64)| format!("{} = \"{:+}%\"", quoted(name), percent(*ratio));
            let changes: Vec<String> = published.changes.iter().map(of).collect();
            let _ = writeln!(out, "{CHANGES} = {{ {} }}", changes.join(", "));
        }
        for times in &published.times {
            let text = |ms: f64| quantity::duration((ms * 1e6).round() as u64);
            let range = |[low, high]: &[f64; 2]| {
                if low == high { text(*low) } else { format!("{}..{}", text(*low), text(*high)) }
            };
            let levels: Vec<String> = times
                .times_ms
                .iter()
                .map(|(level, time)| format!("{} = {}", quoted(&level.to_string()), quoted(&range(time))))
                .collect();
            let _ = writeln!(out, "{TIMES}.{} = {{ {} }}", quoted(&times.metric()), levels.join(", "));
        }
        for limits in &published.limits {
            let range = |[low, high]: &[Option<f64>; 2]| {
                let text = |load: &Option<f64>| load.map_or(String::new(), |load| load.to_string());
                if low == high { text(low) } else { format!("{}..{}", text(low), text(high)) }
            };
            let loads: Vec<String> = limits
                .loads
                .iter()
                .map(|(level, loads)| format!("{} = {}", quoted(&level.to_string()), quoted(&range(loads))))
                .collect();
            let _ = writeln!(out, "{LIMITS}.{} = {{ {} }}", quoted(&limits.goal), loads.join(", "));
        }
    }
    out
}

fn settings(out: &mut String, settings: &Settings, table: &[SettingInfo]) {
    for info in table {
        let Some(setting) = settings.0.get(info.name).filter(|setting| setting.given) else { continue };
        let text = match (&setting.level, info.kind) {
            // A list with one element is written as its text.
            (Level::List(items), kind) if kind.takes_several() && items.len() == 1 => value(&items[0]),
            (level, _) => value(level),
        };
        let _ = writeln!(out, "{} = {text}", info.name);
    }
}

/// A level as a TOML value.
pub(crate) fn value(level: &Level) -> String {
    match level {
        Level::Flag(_) | Level::Count(_) => level.to_string(),
        Level::Number(number) => format!("{number:?}"),
        Level::List(items) => format!("[{}]", items.iter().map(value).collect::<Vec<_>>().join(", ")),
        other => quoted(&other.to_string()),
    }
}

/// A TOML string on one line, which is also valid as a key.
fn quoted(text: &str) -> String {
    toml_writer::TomlStringBuilder::new(text).as_basic().to_toml_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_quoted_text_is_read_back_as_value_and_as_key(text in "([\\x00-\\x1f\"'\\\\\\x7f\u{85}ö]|[a-z]){0,12}") {
            let line = format!("list = [{0}]\n{0} = {{ {0} = 1 }}\n", quoted(&text));
            proptest::prop_assume!(text != "list");
            let read: toml::Table = line.parse().unwrap();
            proptest::prop_assert_eq!(read["list"][0].as_str(), Some(text.as_str()));
            proptest::prop_assert_eq!(read[&text][&text].as_integer(), Some(1));
        }
    }
}
