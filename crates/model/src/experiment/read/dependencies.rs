//! `[dependencies]`, and the placeholders that name them.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{Reader, span_of};
use crate::experiment::dependency::references;
use crate::experiment::{Dependency, Experiment, FactorInfo, ParameterInfo, Variation};
use crate::problem::{did_you_mean, near_word};
use crate::{Level, Problem, SettingKind};

/// The keys of a dependency that is written as a table.
pub(in crate::experiment) const DEPENDENCY_KEYS: [&str; 2] = ["address", "listen"];
/// The table.
pub(in crate::experiment) const DEPENDENCIES: &str = "dependencies";

impl Reader<'_> {
    pub(super) fn dependencies(&mut self, table: &DeTable<'_>) -> Vec<Dependency> {
        let mut found: Vec<Dependency> = Vec::new();
        let Some(dependencies) = self.table(table, DEPENDENCIES) else { return found };
        let Some(factor) = self.vocabulary.dependency_factor().map(|info| info.path) else {
            self.problem(span_of(table, DEPENDENCIES), "dependencies are not supported", "");
            return found;
        };
        let mut entries: Vec<_> = dependencies.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = key.get_ref().to_string();
            let place = format!("{DEPENDENCIES}.{name}");
            let (address, listen) = match value.get_ref() {
                DeValue::Table(parts) => {
                    self.unknown_keys(parts, &format!("`{place}`"), DEPENDENCY_KEYS);
                    let [address, listen] = DEPENDENCY_KEYS.map(|key| {
                        let level =
                            self.level(parts.get(key)?, &SettingKind::Text, &format!("{place}.{key}"));
                        level.map(|level| level.to_string())
                    });
                    if !parts.contains_key("address") {
                        let help = "write address = \"HOST:PORT\"";
                        self.problem(value.span(), format!("`{place}` has no `address`"), help);
                    }
                    (address, listen)
                }
                _ => (self.level(value, &SettingKind::Text, &place).map(|level| level.to_string()), None),
            };
            if !Dependency::is_name(&name) {
                let help = "use letters, digits, - and _ in it, such as directory";
                self.problem(key.span(), format!("`{name}` is not a name of a dependency"), help);
                continue;
            }
            let Some(address) = address else { continue };
            let line = self.line(&key.span());
            let dependency = Dependency { factor: format!("{factor}.{name}"), name, address, listen, line };
            if let Err((what, help)) = dependency.host_and_port() {
                self.problem(value.span(), what, help);
                // Known by its name, so that placeholders of it are not reported as well.
                let address = format!("{}.invalid:1", dependency.name);
                found.push(Dependency { address, ..dependency });
                continue;
            }
            if let Some(other) = found.iter().find(|other| other.variable() == dependency.variable()) {
                let what =
                    format!("`{}` and `{}` have the same environment variable", other.name, dependency.name);
                self.problem(key.span(), what, "rename one of them");
            }
            if let Some(other) =
                found.iter().find(|other| other.host_and_port() == dependency.host_and_port())
            {
                let what = format!("`{}` and `{}` have the same address", other.name, dependency.name);
                self.problem(value.span(), what, "one dependency has one proxy: remove one of them");
            }
            found.push(dependency);
        }
        found
    }

    /// Reports that a delay has no address: the dependency is missing, or its name is misspelled.
    pub(super) fn needs_address(
        &mut self,
        span: Range<usize>,
        path: &str,
        factor: &FactorInfo,
        dependencies: &[Dependency],
    ) {
        let name = path.strip_prefix(factor.path).and_then(|name| name.strip_prefix('.')).unwrap_or("NAME");
        let near = near_word(name, dependencies.iter().map(|one| one.name.as_str()));
        let help = match near {
            Some(near) => format!("did you mean `{}.{near}`?", factor.path),
            None if path == factor.path => {
                format!(
                    "write `{path}.NAME` with NAME = \"HOST:PORT\" in [dependencies], or `on` and `listen` here"
                )
            }
            None => format!("write {name} = \"HOST:PORT\" in [dependencies], or `on` and `listen` here"),
        };
        self.problem(span, format!("`{path}` has no dependency"), help);
    }

    /// Reports an address of a dependency beside its levels.
    pub(super) fn no_address(&mut self, parts: &DeTable<'_>, path: &str, known: &[ParameterInfo]) {
        for name in ["on"].into_iter().chain(known.iter().map(|parameter| parameter.name)) {
            if parts.contains_key(name) {
                let what = format!("`{name}` of `{path}` is in [dependencies]");
                self.problem(span_of(parts, name), what, "remove it here");
            }
        }
    }

    /// Reports placeholders of dependencies that do not exist, each with its line.
    pub(super) fn unknown_references(&mut self, experiment: &Experiment) {
        let mut wrong: Vec<(u32, String)> = Vec::new();
        let mut look = |line: u32, text: &str| {
            for reference in references(text) {
                let (name, part) = reference.split_once('.').unwrap_or((&reference, "host"));
                let is_known = experiment.dependencies.iter().any(|one| one.name == name);
                if !is_known || !["host", "port"].contains(&part) {
                    wrong.push((line, reference));
                }
            }
        };
        let settings = &experiment.workload.settings.0;
        let of_target = experiment.target.iter().flat_map(|target| target.settings.0.values());
        for setting in settings.values().chain(of_target) {
            texts_of(&setting.level, &mut |text| look(setting.line, text));
        }
        for value in experiment.target.iter().flat_map(|target| target.environment.values()) {
            look(0, value.reveal());
        }
        for Variation { parameters, baseline, levels, line, .. } in &experiment.vary {
            parameters.values().for_each(|text| look(*line, text.reveal()));
            baseline.iter().chain(levels).for_each(|level| texts_of(level, &mut |text| look(*line, text)));
        }
        for (line, reference) in wrong {
            let name = reference.split('.').next().unwrap_or_default();
            let names: Vec<&str> = experiment.dependencies.iter().map(|one| one.name.as_str()).collect();
            let help = match names.as_slice() {
                [] => format!("write [dependencies] with {name} = \"HOST:PORT\""),
                names if names.contains(&name) => {
                    format!(
                        "write ${{dependency:{name}}}, ${{dependency:{name}.host}} or ${{dependency:{name}.port}}"
                    )
                }
                names => did_you_mean(name, names.iter().copied()),
            };
            let what = format!("`${{dependency:{reference}}}` names no dependency");
            self.problems.push(Problem { line, ..Problem::new(what, help) }.in_file(self.file, self.text));
        }
    }
}

fn texts_of(level: &Level, look: &mut dyn FnMut(&str)) {
    match level {
        Level::Text(text) => look(text),
        Level::Secret(secret) => look(secret.reveal()),
        Level::List(levels) => levels.iter().for_each(|level| texts_of(level, look)),
        _ => {}
    }
}
