//! `[[published]]`: published figures to compare with the measurements.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::{CHANGES, FIGURES, PUBLISHED_KEYS, Reader, Varied, span_of};
use crate::experiment::{FigureName, Published, Variation, WorkloadInfo};
use crate::{Level, SettingKind, SettingPath};

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
            let known =
                PUBLISHED_KEYS.into_iter().chain([FIGURES, CHANGES]).chain(operations.iter().copied());
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
                let rates_per_s = BTreeMap::new();
                all.push(Published { name, source, factor: None, rates_per_s, figures, changes });
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
            all.push(Published {
                name,
                source,
                factor: Some(SettingPath(factor)),
                rates_per_s,
                figures,
                changes,
            });
        }
        all
    }

    /// Figures without a factor, in the order of the file.
    fn figures_by_name(&mut self, parts: &DeTable<'_>, operations: &[&str]) -> Vec<(FigureName, f64)> {
        let Some(table) = self.table(parts, FIGURES) else { return Vec::new() };
        let mut listed: Vec<_> = table.iter().collect();
        listed.sort_by_key(|(key, _)| key.span().start);
        let mut all = Vec::new();
        for (key, value) in listed {
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
        let mut listed: Vec<_> = table.iter().collect();
        listed.sort_by_key(|(key, _)| key.span().start);
        let mut all = Vec::new();
        for (key, value) in listed {
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
