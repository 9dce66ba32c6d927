//! `[[published]]`: figures that measurements are compared with.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::{Reader, Varied, span_of};
use crate::experiment::{FigureName, Published, PublishedLimits, PublishedTimes, Variation, WorkloadInfo};
use crate::{LatencySummary, Level, SettingKind, SettingPath, quantity};

/// The keys of `[[published]]` besides the names of operations.
pub(in crate::experiment) const PUBLISHED_KEYS: [&str; 3] = ["name", "source", "factor"];
/// Its table of figures without a factor.
pub(in crate::experiment) const FIGURES: &str = "figures";
/// The key of published changes against a baseline.
pub(in crate::experiment) const CHANGES: &str = "changes";
/// The key of published limits: the largest loads that meet a goal, by level.
pub(in crate::experiment) const LIMITS: &str = "limits";

/// The key of published response times, by level.
pub(in crate::experiment) const TIMES: &str = "times";

/// A time as published, `420ms`, or a range, `1500ms..2200ms`, in milliseconds.
fn time_range(text: &str) -> Option<[f64; 2]> {
    let time = |text: &str| quantity::parse_duration(text).ok().map(|time| time as f64 / 1e6);
    match text.split_once("..") {
        None => time(text).map(|time| [time; 2]),
        Some((low, high)) => Some([time(low)?, time(high)?]).filter(|[low, high]| low <= high),
    }
}

/// `response.p50`, or `OPERATION.response.p50`.
fn response_time(key: &str) -> Option<(Option<String>, String)> {
    let (rest, part) = key.rsplit_once('.')?;
    let operation = match rest {
        "response" => None,
        rest => Some(rest.strip_suffix(".response")?.to_string()),
    };
    LatencySummary::PARTS.contains(&part).then(|| (operation, part.to_string()))
}

/// A load as published, `21` or `500/s`, or a range: `12..15`; without a lower end, an upper bound: `..120`.
fn load_range(text: &str) -> Option<[Option<f64>; 2]> {
    let load = |text: &str| {
        let number = text.trim().parse::<f64>().ok().or_else(|| quantity::parse_rate(text).ok())?;
        (number > 0.0 && number.is_finite()).then_some(number)
    };
    match text.split_once("..") {
        None => load(text).map(|load| [Some(load); 2]),
        Some((low, high)) => {
            let low = if low.trim().is_empty() { None } else { Some(load(low)?) };
            let high = load(high)?;
            low.is_none_or(|low| low <= high).then_some([low, Some(high)])
        }
    }
}

/// The entries of a table in the order of the file.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut listed: Vec<_> = table.iter().collect();
    listed.sort_by_key(|(key, _)| key.span().start);
    listed
}

impl Reader<'_> {
    /// Published figures: a table for each system, with the rates of each operation by the level of a factor.
    pub(super) fn published(
        &mut self,
        table: &DeTable<'_>,
        info: Option<WorkloadInfo>,
        vary: &[Variation],
    ) -> Vec<Published> {
        let mut all = Vec::new();
        let Some(value) = table.get("published") else { return all };
        let DeValue::Array(entries) = value.get_ref() else {
            self.problem(value.span(), "`published` is not a list of tables", "write [[published]]");
            return all;
        };
        let operations = info.map_or(&[][..], |info| info.operations);
        for entry in entries.iter() {
            let DeValue::Table(parts) = entry.get_ref() else {
                self.problem(entry.span(), "`published` is not a list of tables", "write [[published]]");
                continue;
            };
            let known = PUBLISHED_KEYS
                .into_iter()
                .chain([FIGURES, CHANGES, LIMITS, TIMES])
                .chain(operations.iter().copied());
            self.unknown_keys(parts, "[[published]]", known);
            let [name, source, factor] = PUBLISHED_KEYS.map(|key| match parts.get(key) {
                Some(value) => self
                    .level(value, &SettingKind::Text, &format!("published.{key}"))
                    .map(|level| level.to_string()),
                // Figures without a factor require none.
                None if key == "factor" && [FIGURES, CHANGES].iter().any(|key| parts.contains_key(*key)) => {
                    None
                }
                None => {
                    self.problem(entry.span(), format!("published figures without `{key}`"), "");
                    None
                }
            });
            let (Some(name), Some(source)) = (name, source) else { continue };
            let figures = self.figures_by_name(parts, operations);
            let changes = self.changes(parts, operations);
            let Some(factor) = factor else {
                for operation in operations.iter().filter(|operation| parts.contains_key(**operation)) {
                    let at = span_of(parts, operation);
                    let help = "name the `factor` of the levels, or write figures = { \"OPERATION.rate_per_s\" = 1.5 }";
                    self.problem(at, "rates by level need a `factor`", help);
                }
                for key in [LIMITS, TIMES].into_iter().filter(|key| parts.contains_key(*key)) {
                    let help = "name the `factor` of the levels";
                    self.problem(span_of(parts, key), format!("{key} by level need a `factor`"), help);
                }
                all.push(Published { name, source, figures, changes, ..Published::default() });
                continue;
            };
            if vary.iter().all(|variation| variation.factor.0 != factor) {
                let at = span_of(parts, "factor");
                self.problem(at, format!("`{factor}` is not varied"), "name a factor of [vary]");
                continue;
            }
            let Some(Varied { kind, .. }) = self.varied(&factor, &span_of(parts, "factor"), info) else {
                continue;
            };
            let mut rates_per_s = BTreeMap::new();
            for operation in operations {
                if let Some(figures) = self.table(parts, operation) {
                    rates_per_s.insert(operation.to_string(), self.figures(figures, &kind));
                }
            }
            let (limits, times) = (self.limits(parts, &kind), self.times(parts, &kind));
            let factor = Some(SettingPath(factor));
            all.push(Published { name, source, factor, rates_per_s, figures, changes, limits, times });
        }
        all
    }

    /// Figures without a factor, in the order of the file.
    fn figures_by_name(&mut self, parts: &DeTable<'_>, operations: &[&str]) -> Vec<(FigureName, f64)> {
        let Some(table) = self.table(parts, FIGURES) else { return Vec::new() };
        let mut all = Vec::new();
        for (key, value) in in_order(table) {
            let name = match FigureName::parse(key.get_ref(), operations, &self.vocabulary.metrics) {
                Ok(name) => name,
                Err(what) => {
                    self.problem(key.span(), what, "");
                    continue;
                }
            };
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.as_str().to_string(),
                DeValue::Float(number) => number.as_str().to_string(),
                _ => String::new(),
            };
            match name.value(&text) {
                Ok(value) => all.push((name, value)),
                Err(what) => self.problem(value.span(), what, "write the value with its unit"),
            }
        }
        all
    }

    /// Changes against a baseline, in the order of the file.
    fn changes(&mut self, parts: &DeTable<'_>, operations: &[&str]) -> Vec<(String, f64)> {
        let Some(table) = self.table(parts, CHANGES) else { return Vec::new() };
        let mut all = Vec::new();
        for (key, value) in in_order(table) {
            let name = key.get_ref().to_string();
            let operation = name.strip_suffix(".rate_per_s");
            if name != "rate_per_s" && operation.is_none_or(|of| !operations.contains(&of)) {
                let help = format!(
                    "write rate_per_s, or OPERATION.rate_per_s; operations are {}",
                    operations.join(", ")
                );
                self.problem(key.span(), format!("`{name}` is not a rate that is compared"), help);
                continue;
            }
            let text = value.get_ref().as_str().unwrap_or_default();
            let percent =
                text.trim().strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
            match percent.filter(|percent| percent.is_finite() && *percent > -100.0) {
                Some(percent) => all.push((name, 1.0 + percent / 100.0)),
                None => self.problem(
                    value.span(),
                    "not a change",
                    "write it in percent, such as \"+44%\" or \"-10%\"",
                ),
            }
        }
        all
    }

    /// The largest loads that meet a goal, by the level of the factor, for each goal.
    fn limits(&mut self, parts: &DeTable<'_>, kind: &SettingKind) -> Vec<PublishedLimits> {
        let Some(table) = self.table(parts, LIMITS) else { return Vec::new() };
        let mut all = Vec::new();
        for (goal, levels) in in_order(table) {
            let DeValue::Table(levels) = levels.get_ref() else {
                self.problem(levels.span(), "not a table of levels", "write { LEVEL = \"LOAD\", ... }");
                continue;
            };
            let mut loads = Vec::new();
            for (key, value) in in_order(levels) {
                let level = kind.parse(key.get_ref()).map_err(|what| self.problem(key.span(), what, ""));
                let text = match value.get_ref() {
                    DeValue::String(text) => text.to_string(),
                    DeValue::Integer(number) => number.as_str().replace('_', ""),
                    DeValue::Float(number) => number.as_str().replace('_', ""),
                    _ => String::new(),
                };
                match (level, load_range(&text)) {
                    (Ok(level), Some(range)) => loads.push((level, range)),
                    (Ok(_), None) => {
                        let help = "write a number of users or a rate, or two: 21, \"12..15\" or \"..120\"";
                        self.problem(value.span(), "not a load", help);
                    }
                    (Err(()), _) => {}
                }
            }
            all.push(PublishedLimits { goal: goal.get_ref().trim().to_string(), loads });
        }
        all
    }

    /// Response times by the level of the factor.
    fn times(&mut self, parts: &DeTable<'_>, kind: &SettingKind) -> Vec<PublishedTimes> {
        let Some(table) = self.table(parts, TIMES) else { return Vec::new() };
        let mut all = Vec::new();
        for (key, levels) in in_order(table) {
            let (Some((operation, part)), DeValue::Table(levels)) =
                (response_time(key.get_ref()), levels.get_ref())
            else {
                let what = format!("`{}` is not a table of response times", key.get_ref());
                self.problem(key.span(), what, "write \"response.p50\" = { LEVEL = \"420ms\", ... }");
                continue;
            };
            let mut times_ms = Vec::new();
            for (key, value) in in_order(levels) {
                let level = kind.parse(key.get_ref()).map_err(|what| self.problem(key.span(), what, ""));
                match (level, value.get_ref().as_str().and_then(time_range)) {
                    (Ok(level), Some(range)) => times_ms.push((level, range)),
                    (Ok(_), None) => {
                        self.problem(value.span(), "not a time", "write \"420ms\" or \"1500ms..2200ms\"");
                    }
                    (Err(()), _) => {}
                }
            }
            all.push(PublishedTimes { operation, part, times_ms });
        }
        all
    }

    /// Levels with their rates.
    fn figures(&mut self, figures: &DeTable<'_>, kind: &SettingKind) -> Vec<(Level, f64)> {
        let mut all = Vec::new();
        for (key, value) in figures {
            let level = kind.parse(key.get_ref()).map_err(|what| self.problem(key.span(), what, ""));
            let rate = match value.get_ref() {
                DeValue::Integer(number) => number.as_str().replace('_', "").parse::<f64>().ok(),
                DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
                _ => None,
            };
            match (level, rate.filter(|rate| rate.is_finite() && *rate > 0.0)) {
                (Ok(level), Some(rate)) => all.push((level, rate)),
                (Ok(_), None) => {
                    self.problem(value.span(), "not a rate", "write operations per second, such as 278");
                }
                (Err(()), _) => {}
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_load_is_a_number_or_a_range() {
        for (text, expected) in [
            ("21", Some([Some(21.0), Some(21.0)])),
            ("12..15", Some([Some(12.0), Some(15.0)])),
            ("..120", Some([None, Some(120.0)])),
            ("500/s..1k/s", Some([Some(500.0), Some(1000.0)])),
            ("15..12", None),
            ("12..", None),
            ("-1", None),
            ("many", None),
        ] {
            assert_eq!(load_range(text), expected, "{text}");
        }
    }

    #[test]
    fn a_published_time_has_a_unit_and_a_part() {
        for (text, expected) in [
            ("420ms", Some([420.0, 420.0])),
            ("1500ms..2.2s", Some([1500.0, 2200.0])),
            ("3m", Some([180e3, 180e3])),
            ("2s..1s", None),
            ("420", None),
        ] {
            assert_eq!(time_range(text), expected, "{text}");
        }
        assert_eq!(response_time("response.p50"), Some((None, "p50".into())));
        assert_eq!(response_time("a:b.response.mean"), Some((Some("a:b".into()), "mean".into())));
        assert_eq!(
            (response_time("response"), response_time("p50"), response_time("lag.p50")),
            (None, None, None)
        );
    }
}
