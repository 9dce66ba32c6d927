//! The experiment file: converts TOML to an [`Experiment`], or reports all errors.

mod dependencies;
mod published;

pub(super) use dependencies::{DEPENDENCIES, DEPENDENCY_KEYS};
pub(super) use published::{CHANGES, FIGURES, LIMITS, PUBLISHED_KEYS, TIMES};

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::machines::{self, MACHINE_SETTINGS, MachineList, OnLoss};
use super::target::{ENVIRONMENT, MACHINE, TARGET_SETTINGS};
use super::{
    Dependency, Experiment, FactorInfo, FigureName, ParameterInfo, Proxies, Target, Variation, Vocabulary,
    WorkloadInfo, WorkloadSpec, range,
};
use crate::gate::{GATE_SETTINGS, Gate};
use crate::load::{LIMIT, LOAD_SETTINGS};
use crate::problem::{Place, Problem, Problems, did_you_mean, near_word};
use crate::setting::Setting;
use crate::{
    DesignKind, Goal, Key, Level, Load, Nanos, SECOND, Secret, SecretParts, SettingInfo, SettingKind,
    SettingPath, Settings, quantity,
};

crate::settings! {
    /// The top-level keys of the file besides its tables.
    pub static TOP;

    static NAME: Key<Option<String>> = Key::text("name", "", "Title of the experiment.");

    static GOAL: Key<Vec<String>> = Key::texts(
        "goal",
        "Goals, such as \"response.p95 <= 20ms\" or \"failed < 0.1%\".",
    );

    static WATCH: Key<Vec<String>> = Key::texts(
        "watch",
        "Counters to read: \"host\", \"process:NAME\", \"cgroup:PATH\", \"operation_io:NAME\", the path of a Performance Monitor counter, or an exporter of Prometheus metrics on another host: \"[NAME=]http://HOST:PORT/metrics\". Default: the host and Plimsoll itself.",
    );

    static SHOW: Key<Vec<String>> = Key::texts(
        "show",
        "Figures to show in a table for each configuration: a counter such as \"disk.flush_s\" or \"process.busy_cpus{slapd}\", or OPERATION.rate_per_s, OPERATION.busy_s.",
    );

    static SAMPLE_EVERY: Key<Option<Nanos>> = Key::time(
        "sample_every", "",
        "Sampling interval of the counters, 10ms to 1m. Default: 1/20 of the measured time, at least 100ms and at most 1s; 200ms with measure = \"until-done\".",
    );

    static MAX_FAILURES: Key<f64> = Key::percent(
        "max_failures", "1%",
        "Maximum share of failed operations; more is a missed goal. A goal on `failed` replaces it.",
    );

    static REPLICATES: Key<u32> = Key::count(
        "replicates", 1..=1000, "1",
        "Number of trials of each configuration; 5 or more give narrow confidence intervals.",
    );

    static SEED: Key<u64> = Key::count(
        "seed", 0..=i64::MAX as u64, "1",
        "Seed of the random order of trials and of the generated data.",
    );

    static PROVE: Key<bool> = Key::flag(
        "prove", "false",
        "After the trials, reduce each resource by 30 %, one at a time, and increase it where possible, to prove which resource is the limit.",
    );

    static SMALLEST: Key<Option<String>> = Key::text(
        "smallest", "",
        "Search for the smallest level of this factor of [vary] that still meets the goals, such as \"host.cpus\". Its levels may be a range: \"1..16\".",
    );

    static DESIGN: Key<DesignKind> = Key::choice(
        "design",
        "Compare each level alone with the baseline, or measure every combination of levels.",
    );
}

/// The table of other machines.
pub(super) const MACHINES: &str = "machines";

/// The keys of one factor in `[vary]`.
pub(super) const VARIATION_KEYS: [&str; 3] = ["baseline", "levels", "on"];

/// The table of a gate.
pub(super) const GATE: &str = "gate";

const TABLES: [&str; 8] = ["target", MACHINES, DEPENDENCIES, "workload", "load", "vary", GATE, "published"];

impl Experiment {
    /// Parses an experiment file. `file` is its name in messages. All errors are reported together, each with
    /// its line.
    pub fn parse(text: &str, file: &str, vocabulary: &Vocabulary) -> Result<Experiment, Problems> {
        let (experiment, problems) = Experiment::read(text, file, vocabulary);
        match experiment {
            Some(experiment) => problems.or(experiment),
            None => Err(problems),
        }
    }

    /// Parses the valid parts of an experiment file, so that they can be checked in addition to the errors.
    pub fn read(text: &str, file: &str, vocabulary: &Vocabulary) -> (Option<Experiment>, Problems) {
        let mut reader = Reader { text, file, vocabulary, problems: Problems::new() };
        let experiment = reader.experiment();
        reader.problems.sort();
        (experiment, reader.problems)
    }
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    vocabulary: &'a Vocabulary,
    problems: Problems,
}

type Value<'i> = Spanned<DeValue<'i>>;

/// What a path of `[vary]` accepts.
struct Varied {
    kind: SettingKind,
    needs_on: bool,
    parameters: &'static [ParameterInfo],
}

impl Reader<'_> {
    fn problem(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::at_span(self.file, self.text, span, what, help));
    }

    /// Sets the setting of the last problem.
    fn last_is_about(&mut self, setting: Option<&'static str>) {
        if let Some(problem) = self.problems.0.last_mut() {
            problem.settings.extend(setting);
        }
    }

    fn line(&self, span: &Range<usize>) -> u32 {
        self.text[..span.start.min(self.text.len())].matches('\n').count() as u32 + 1
    }

    fn experiment(&mut self) -> Option<Experiment> {
        let text = self.text;
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            self.problem(span, error.message().trim().replace('\n', ", "), "");
        }
        if !self.problems.is_empty() {
            // After a syntax error, further errors would be guesses.
            return None;
        }
        let table = document.get_ref();
        self.unknown_keys(table, "the experiment", TOP.iter().map(|info| info.name).chain(TABLES));
        let top = self.settings(table, TOP, "", false);
        let sample_every = top.get(&SAMPLE_EVERY);
        if sample_every.is_some_and(|every| !(10_000_000..=60 * SECOND).contains(&every)) {
            let at = span_of(table, "sample_every");
            self.problem(at, "this sampling interval is out of range", "write 10ms to 1m");
        }
        let workload = self.workload(table);
        let info = workload.as_ref().and_then(|spec| self.info(&spec.kind));
        let load = match self.table(table, "load") {
            Some(load_table) => {
                self.unknown_keys(load_table, "[load]", LOAD_SETTINGS.iter().map(|info| info.name));
                self.settings(load_table, LOAD_SETTINGS, "load.", true)
            }
            None => Settings::defaults(LOAD_SETTINGS),
        };
        if let Err(problems) = Load::read(&load) {
            let placed = |problem: Problem| problem.on_line_of(&load).in_file(self.file, text);
            self.problems.0.extend(problems.0.into_iter().map(placed));
        }
        let mut goals = Vec::new();
        let operations = info.map_or(&[][..], |info| info.operations);
        let has_further = info
            .zip(workload.as_ref())
            .is_some_and(|(info, spec)| info.has_further_operations(&spec.settings));
        for text in top.get(&GOAL) {
            let at = element_span(table, "goal", &text);
            match Goal::parse_among(&text, operations, has_further) {
                Ok(goal) => goals.push(Goal { place: Place::of_span(self.text, at), ..goal }),
                Err(what) => self.problem(at, what, ""),
            }
        }
        let in_limit = |text: &str| match table.get("load").map(Spanned::get_ref) {
            Some(DeValue::Table(load)) => element_span(load, LIMIT.name, text),
            _ => 0..0,
        };
        let (mut limit, wrong) = crate::limit::goals(&load, operations, has_further);
        for goal in &mut limit {
            goal.place = Place::of_span(self.text, in_limit(&goal.text));
        }
        for (text, what, help) in wrong {
            self.problem(in_limit(&text), what, help);
        }
        let mut watch = top.get(&WATCH);
        for entry in &watch {
            if let Err((what, help)) = self.vocabulary.watch_entry(entry) {
                let at = element_span(table, "watch", entry);
                self.problem(at, what, help);
            }
        }
        if let Some((entry, what, help)) = super::watched_twice(&watch) {
            self.problem(element_span(table, "watch", entry), what, help);
        }
        if watch.is_empty() {
            watch = vec!["host".into(), "process:self".into()];
        }
        let watch = watch.iter().map(|entry| super::watched(entry)).collect();
        let mut show = Vec::new();
        for text in top.get(&SHOW) {
            match FigureName::parse(&text, operations, &self.vocabulary.metrics) {
                Ok(name) => show.push(name),
                Err(what) => {
                    let at = element_span(table, "show", &text);
                    self.problem(at, what, "");
                }
            }
        }
        let dependencies = self.dependencies(table);
        let target = self.target(table, &dependencies);
        let machines = self.machines(table);
        self.machine_of_target(table, target.as_ref(), &machines);
        let vary = self.vary(table, info, &dependencies);
        let gate = self.gate(table, &load, info, has_further);
        let published = self.published(table, info, &vary);
        let experiment = Experiment {
            name: top.get(&NAME).unwrap_or_else(|| "experiment".into()),
            goals,
            watch,
            sample_every: sample_every.unwrap_or_else(|| crate::load::sample_every(&load)),
            max_failures: top.get(&MAX_FAILURES) / 100.0,
            replicates: top.get(&REPLICATES),
            seed: top.get(&SEED),
            prove: top.get(&PROVE),
            folder: PathBuf::new(),
            target,
            machines,
            dependencies,
            workload: workload?,
            load,
            limit,
            smallest: top.get(&SMALLEST).map(SettingPath),
            vary,
            design: top.get(&DESIGN),
            gate,
            show,
            published,
        };
        self.unknown_references(&experiment);
        Some(experiment)
    }

    fn info(&self, kind: &str) -> Option<WorkloadInfo> {
        self.vocabulary.workloads.iter().find(|info| info.name == kind).copied()
    }

    fn workload(&mut self, table: &DeTable<'_>) -> Option<WorkloadSpec> {
        let names: Vec<&str> = self.vocabulary.workloads.iter().map(|info| info.name).collect();
        let Some(workloads) = self.table(table, "workload") else {
            if !table.contains_key("workload") {
                let example = names.first().copied().unwrap_or("disk");
                self.problems.push(Problem {
                    file: self.file.into(),
                    ..Problem::new(
                        "no [workload.KIND] table",
                        format!("write one, such as [workload.{example}]"),
                    )
                });
            }
            return None;
        };
        let mut chosen = None;
        for (key, value) in workloads {
            let name = key.get_ref().as_ref();
            let Some(info) = self.info(name) else {
                let help = did_you_mean(name, names.iter().copied());
                self.problem(key.span(), format!("there is no workload `{name}`"), help);
                continue;
            };
            if chosen.is_some() {
                self.problem(
                    key.span(),
                    "a second workload",
                    "an experiment has one workload: remove the others",
                );
                continue;
            }
            let DeValue::Table(settings) = value.get_ref() else {
                self.problem(
                    value.span(),
                    format!("`workload.{name}` is not a table"),
                    format!("write [workload.{name}]"),
                );
                continue;
            };
            self.unknown_keys(
                settings,
                &format!("[workload.{name}]"),
                info.settings.iter().map(|info| info.name),
            );
            let settings = self.settings(settings, info.settings, "workload.", true);
            chosen = Some(WorkloadSpec { kind: name.to_string(), settings });
        }
        chosen
    }

    fn machines(&mut self, table: &DeTable<'_>) -> MachineList {
        let Some(machines) = self.table(table, MACHINES) else { return MachineList::default() };
        self.unknown_keys(machines, "[machines]", MACHINE_SETTINGS.iter().map(|info| info.name));
        let settings = self.settings(machines, MACHINE_SETTINGS, "machines.", true);
        let list = MachineList {
            load: settings.get(&machines::LOAD),
            watch: settings.get(&machines::WATCH),
            divides_on_loss: settings.get(&machines::ON_LOSS) == OnLoss::Divide,
        };
        let Some(name_of) = self.vocabulary.machine else {
            self.problem(span_of(table, MACHINES), "other machines are not supported", "");
            return list;
        };
        for (text, what, help) in list.problems(name_of) {
            let key = if list.load.iter().any(|known| known.reveal() == text) {
                machines::LOAD.name
            } else {
                machines::WATCH.name
            };
            self.problem(element_span(machines, key, &text), what, help);
        }
        list
    }

    fn gate(
        &mut self,
        table: &DeTable<'_>,
        load: &Settings,
        info: Option<WorkloadInfo>,
        has_further: bool,
    ) -> Option<Gate> {
        let gate = self.table(table, GATE)?;
        self.unknown_keys(gate, "[gate]", GATE_SETTINGS.iter().map(|info| info.name));
        let settings = self.settings(gate, GATE_SETTINGS, "gate.", true);
        let (read, problems) = Gate::read(&settings, load, info, has_further);
        for (key, text, what, help) in problems {
            self.problem(element_span(gate, key, &text), what, help);
        }
        Some(read)
    }

    /// A system under test on another machine needs one that is watched.
    fn machine_of_target(&mut self, table: &DeTable<'_>, target: Option<&Target>, machines: &MachineList) {
        let Some((name, name_of)) = target.and_then(Target::machine).zip(self.vocabulary.machine) else {
            return;
        };
        if machines.watched(name, name_of).is_none() {
            let at = self.table(table, "target").map_or(0..0, |table| span_of(table, MACHINE.name));
            let what = format!("[target] names the machine `{name}`, which `machines.watch` has not");
            self.problem(at, what, format!("add it: [machines] watch = [\"{name}\"]"));
        }
    }

    fn target(&mut self, table: &DeTable<'_>, dependencies: &[Dependency]) -> Option<Target> {
        let target = self.table(table, "target")?;
        let names = TARGET_SETTINGS.iter().map(|info| info.name);
        self.unknown_keys(target, "[target]", names.chain([ENVIRONMENT]));
        let settings = self.settings(target, TARGET_SETTINGS, "target.", true);
        let mut environment = BTreeMap::new();
        if let Some(variables) = self.table(target, ENVIRONMENT) {
            for (name, value) in variables {
                let text = match value.get_ref() {
                    // Unlike a setting, a variable may be empty, and its blanks count.
                    DeValue::String(text) => Some(text.to_string()),
                    _ => self
                        .level(value, &SettingKind::Value, &format!("environment.{}", name.get_ref()))
                        .map(|level| level.to_string()),
                };
                let name = name.get_ref();
                environment.extend(text.map(|text| (name.to_string(), Secret::of_variable(name, &text))));
            }
        }
        let target_read = Target { settings, environment };
        let at = span_of(table, "target");
        for problem in Proxies::absent(dependencies).target(&target_read).check().0 {
            match problem.line {
                0 => self.problem(at.clone(), problem.what, problem.help),
                _ => self.problems.push(problem.in_file(self.file, self.text)),
            }
        }
        Some(target_read)
    }

    fn vary(
        &mut self,
        table: &DeTable<'_>,
        info: Option<WorkloadInfo>,
        dependencies: &[Dependency],
    ) -> Vec<Variation> {
        let mut variations = Vec::new();
        let Some(vary) = self.table(table, "vary") else { return variations };
        let mut entries: Vec<(String, Range<usize>, &Value<'_>)> = Vec::new();
        flatten("", vary, &mut entries);
        // In the order of the file, which is the order in which factors are set.
        entries.sort_by_key(|(_, span, _)| span.start);
        for (path, span, value) in entries {
            let Some(Varied { kind, needs_on, parameters: known }) = self.varied(&path, &span, info) else {
                continue;
            };
            let dependency = dependencies.iter().find(|dependency| dependency.factor == path);
            let DeValue::Table(parts) = value.get_ref() else {
                self.problem(
                    value.span(),
                    format!("`{path}` needs levels"),
                    "write { baseline = ..., levels = [...] }",
                );
                continue;
            };
            let names = known.iter().map(|parameter| parameter.name);
            self.unknown_keys(parts, &format!("`{path}`"), VARIATION_KEYS.into_iter().chain(names));
            let mut baseline = parts.get("baseline").and_then(|value| self.level(value, &kind, &path));
            // Without a level, the proxy of a dependency adds nothing.
            baseline = baseline.or_else(|| dependency.map(|_| Level::Time(0)));
            let mut levels: Vec<Level> = match parts.get("levels").map(|value| (value, value.get_ref())) {
                Some((value, DeValue::Array(values))) if values.is_empty() => {
                    self.problem(value.span(), format!("`{path}` has no levels"), "write at least one");
                    Vec::new()
                }
                Some((_, DeValue::Array(values))) => {
                    values.iter().filter_map(|value| self.level(value, &kind, &path)).collect()
                }
                Some((value, _)) => self.levels(value, &kind, &path, baseline.as_ref()),
                None => {
                    self.problem(span.clone(), format!("`{path}` has no levels"), "write levels = [...]");
                    Vec::new()
                }
            };
            hide_levels(&path, baseline.iter_mut().chain(&mut levels).collect());
            let on = match parts.get("on").map(|value| value.get_ref()) {
                Some(DeValue::String(on)) => Some(on.to_string()),
                _ => None,
            };
            let of_dependency = self.vocabulary.factor(&path).filter(|info| info.of_dependency).copied();
            match of_dependency {
                _ if dependency.is_some() => self.no_address(parts, &path, known),
                Some(info) if on.is_none() => {
                    self.needs_address(span.clone(), &path, &info, dependencies);
                    continue;
                }
                _ if needs_on && on.is_none() => {
                    self.problem(span.clone(), format!("`{path}` needs `on`"), "add on = \"...\"");
                }
                _ => {}
            }
            let mut parameters = BTreeMap::new();
            for parameter in known.iter().filter(|_| dependency.is_none()) {
                match parts.get(parameter.name) {
                    Some(value) => {
                        let name = format!("{path}.{}", parameter.name);
                        let text = self.level(value, &SettingKind::Text, &name).map(|text| text.to_string());
                        let text = text.map(|text| match parameter.is_command {
                            true => Secret::new(&text, SecretParts::Command),
                            false => Secret::plain(&text),
                        });
                        parameters.extend(text.map(|text| (parameter.name.to_string(), text)));
                    }
                    None if parameter.needed => self.problem(
                        span.clone(),
                        format!("`{path}` has no `{}`", parameter.name),
                        parameter.about,
                    ),
                    None => {}
                }
            }
            let again = |level: &Level| {
                Some(level) == baseline.as_ref() || levels.iter().filter(|l| *l == level).count() > 1
            };
            if let Some(level) = levels.iter().find(|level| again(level)) {
                self.problem(
                    span.clone(),
                    format!("level {level} of `{path}` is listed twice"),
                    "replicates repeat a level",
                );
            }
            variations.push(Variation {
                factor: SettingPath(path),
                baseline,
                levels,
                on: on.filter(|_| dependency.is_none()),
                parameters,
                line: self.line(&span),
            });
        }
        variations
    }

    /// What a path accepts when it is varied.
    fn varied(&mut self, path: &str, span: &Range<usize>, info: Option<WorkloadInfo>) -> Option<Varied> {
        let mut known: Vec<String> =
            self.vocabulary.factors.iter().map(|factor| factor.path.to_string()).collect();
        if let Some(&FactorInfo { kind, needs_on, parameters, .. }) = self.vocabulary.factor(path) {
            return Some(Varied { kind, needs_on, parameters });
        }
        let tables = [
            ("workload", info.map_or(&[][..], |info| info.settings)),
            ("load", LOAD_SETTINGS),
            ("target", TARGET_SETTINGS),
        ];
        let is_fixed = |area: &str, setting: &SettingInfo| {
            area == "target" && !SettingPath(format!("{area}.{}", setting.name)).is_of_target()
        };
        for (area, table) in tables {
            for setting in table.iter().filter(|setting| !is_fixed(area, setting)) {
                let candidate = format!("{area}.{}", setting.name);
                if candidate == path {
                    return Some(Varied { kind: setting.kind, needs_on: false, parameters: &[] });
                }
                known.push(candidate);
            }
        }
        let help = match suggested_path(path, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let area = path.split_once('.').map_or("", |(area, _)| area);
                let in_area: Vec<&str> = known
                    .iter()
                    .filter_map(|known| known.strip_prefix(area)?.starts_with('.').then_some(known.as_str()))
                    .collect();
                match in_area.is_empty() {
                    true => "a setting of the workload (workload.NAME), of the load (load.NAME), or a factor of the host; `plimsoll schema` lists them".into(),
                    false => did_you_mean("", in_area),
                }
            }
        };
        self.problem(span.clone(), format!("`{path}` cannot be varied"), help);
        None
    }

    fn table<'t, 'i>(&mut self, table: &'t DeTable<'i>, name: &str) -> Option<&'t DeTable<'i>> {
        let value = table.get(name)?;
        match value.get_ref() {
            DeValue::Table(inner) => Some(inner),
            other => {
                let what = format!("`{name}` is a {}, not a table", other.type_str());
                self.problem(value.span(), what, format!("write [{name}]"));
                None
            }
        }
    }

    fn unknown_keys(
        &mut self,
        table: &DeTable<'_>,
        place: &str,
        known: impl IntoIterator<Item = &'static str>,
    ) {
        let known: Vec<&'static str> = known.into_iter().collect();
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let help = did_you_mean(name, known.iter().copied());
                self.problem(key.span(), format!("unknown key `{name}` in {place}"), help);
                self.last_is_about(near_word(name, known.iter().copied()));
            }
        }
    }

    /// Parses the settings of `infos` in a table; `prefix` precedes names in messages.
    fn settings(
        &mut self,
        table: &DeTable<'_>,
        infos: &[SettingInfo],
        prefix: &str,
        lines: bool,
    ) -> Settings {
        let mut settings = Settings::defaults(infos);
        for info in infos {
            let Some(value) = table.get(info.name) else { continue };
            match self.level(value, &info.kind, &format!("{prefix}{}", info.name)) {
                Some(level) => {
                    let line = if lines { self.line(&value.span()) } else { 0 };
                    settings.0.insert(info.name.into(), Setting { level, line, given: true });
                }
                None => self.last_is_about(Some(info.name)),
            }
        }
        settings
    }

    /// One level, or those of a range without the baseline.
    fn levels(
        &mut self,
        value: &Value<'_>,
        kind: &SettingKind,
        name: &str,
        baseline: Option<&Level>,
    ) -> Vec<Level> {
        let range = match value.get_ref() {
            DeValue::String(text) => range::levels(text, kind),
            _ => None,
        };
        match range {
            None => self.level(value, kind, name).into_iter().collect(),
            Some(Ok(levels)) => levels.into_iter().filter(|level| Some(level) != baseline).collect(),
            Some(Err(what)) => {
                self.problem(value.span(), what, "");
                Vec::new()
            }
        }
    }

    fn level(&mut self, value: &Value<'_>, kind: &SettingKind, name: &str) -> Option<Level> {
        let parsed = match (value.get_ref(), kind) {
            (DeValue::Array(items), kind) if kind.takes_several() => return self.texts(items, kind, name),
            (DeValue::String(text), _) => kind.parse(text),
            (
                DeValue::Integer(number),
                SettingKind::Percent
                | SettingKind::Count { .. }
                | SettingKind::Number { .. }
                | SettingKind::CpuLimit,
            ) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => kind.parse(&number.to_string()),
                Err(_) => Err(format!("`{}` is not {}", number.as_str(), kind.expectation())),
            },
            (
                DeValue::Integer(number),
                SettingKind::Text
                | SettingKind::Texts
                | SettingKind::Path(_)
                | SettingKind::Paths(_)
                | SettingKind::Value
                | SettingKind::Secret(_)
                | SettingKind::Secrets(_),
            ) => kind.parse(number.as_str()),
            (
                DeValue::Float(number),
                SettingKind::Percent
                | SettingKind::Number { .. }
                | SettingKind::CpuLimit
                | SettingKind::Value,
            ) => kind.parse(number.as_str()),
            (DeValue::Boolean(flag), SettingKind::Value) => kind.parse(&flag.to_string()),
            (DeValue::Boolean(flag), SettingKind::Flag) => Ok(Level::Flag(*flag)),
            (DeValue::Integer(number), _) => {
                Err(format!("`{}` has no unit: `{name}` takes {}", number.as_str(), kind.expectation()))
            }
            (other, _) => Err(format!("a {} where `{name}` takes {}", other.type_str(), kind.expectation())),
        };
        match parsed {
            Ok(level) => Some(level),
            Err(what) => {
                let help = if what.contains(&kind.expectation()) || what.contains("write ") {
                    String::new()
                } else {
                    format!("`{name}` takes {}", kind.expectation())
                };
                self.problem(value.span(), what, help);
                None
            }
        }
    }

    fn texts(&mut self, items: &DeArray<'_>, kind: &SettingKind, name: &str) -> Option<Level> {
        let mut texts: Vec<&str> = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => texts.push(text),
                DeValue::Integer(number) => texts.push(number.as_str()),
                other => {
                    let what = format!("a {} in `{name}`, which takes texts", other.type_str());
                    self.problem(item.span(), what, "");
                    return None;
                }
            }
        }
        Some(kind.list(&texts))
    }
}

/// Converts `"host.cpus" = {...}` and `[vary.host] cpus = {...}` to the same paths. A table with `levels` is
/// a factor.
fn flatten<'t, 'i>(
    prefix: &str,
    table: &'t DeTable<'i>,
    out: &mut Vec<(String, Range<usize>, &'t Value<'i>)>,
) {
    for (key, value) in table {
        let path = match prefix {
            "" => key.get_ref().to_string(),
            prefix => format!("{prefix}.{}", key.get_ref()),
        };
        match value.get_ref() {
            DeValue::Table(inner)
                if !VARIATION_KEYS.iter().any(|name| inner.contains_key(*name))
                    && inner.iter().any(|(_, value)| matches!(value.get_ref(), DeValue::Table(_))) =>
            {
                flatten(&path, inner, out);
            }
            _ => out.push((path, key.span(), value)),
        }
    }
}

fn span_of(table: &DeTable<'_>, name: &str) -> Range<usize> {
    table.get(name).map_or(0..0, Spanned::span)
}

/// The byte range of one text in a list, or of the single text.
fn element_span(table: &DeTable<'_>, name: &str, text: &str) -> Range<usize> {
    let Some(value) = table.get(name) else { return 0..0 };
    match value.get_ref() {
        DeValue::Array(items) => items
            .iter()
            .find(|item| matches!(item.get_ref(), DeValue::String(found) if found.trim() == text.trim()))
            .map_or_else(|| value.span(), Spanned::span),
        _ => value.span(),
    }
}

/// Hides the levels of a factor with the name of a secret, such as `target.config.password`, and numbers what is hidden in the
/// same way.
fn hide_levels(path: &str, mut levels: Vec<&mut Level>) {
    let name = path.rsplit('.').next().unwrap_or_default();
    for level in &mut levels {
        if let Level::Text(text) = &**level {
            let secret = Secret::of_level(name, text);
            **level = secret.map_or_else(|| level.clone(), Level::Secret);
        }
    }
    Secret::distinguish(
        &mut levels.into_iter().filter_map(|level| level.secrets_mut().pop()).collect::<Vec<_>>(),
    );
}

/// Parses a `PATH=LEVEL,LEVEL` of `--vary`. A bare name is a setting of the workload; the level in the
/// experiment becomes the baseline.
pub fn variation(
    text: &str,
    experiment: &Experiment,
    vocabulary: &Vocabulary,
) -> Result<Variation, Box<Problem>> {
    let shown = SecretParts::Command.hide(text);
    let wrong = |what: String, help: &str| Box::new(Problem::new(format!("--vary {shown}: {what}"), help));
    let (path, levels) = text.split_once('=').ok_or_else(|| {
        wrong("no `=`".into(), "write --vary SETTING=LEVEL,LEVEL, such as block_size=4KiB,64KiB")
    })?;
    let path = match path.trim().replace('-', "_") {
        path if path.contains('.') => path,
        name => format!("workload.{name}"),
    };
    let mut reader = Reader { text: "", file: "", vocabulary, problems: Problems::new() };
    let info = reader.info(&experiment.workload.kind);
    let Some(Varied { kind, needs_on, parameters }) = reader.varied(&path, &(0..0), info) else {
        let found = reader.problems.0.into_iter().next().unwrap_or_default();
        return Err(wrong(found.what, &found.help));
    };
    let dependency = experiment.dependency(&path);
    if dependency.is_none() && (needs_on || parameters.iter().any(|parameter| parameter.needed)) {
        return Err(wrong(format!("`{path}` needs `on`"), "write it in an experiment file"));
    }
    let factor = SettingPath(path);
    let baseline = match dependency.is_some() {
        true => Some(Level::Time(0)),
        false => experiment.level(&factor).cloned(),
    };
    let mut baseline = baseline;
    let mut parsed = Vec::new();
    let listed = match range::levels(levels, &kind) {
        Some(levels) => levels,
        None => levels.split(',').map(|level| kind.parse(level)).collect(),
    };
    for level in listed.map_err(|what| wrong(what, ""))? {
        if Some(&level) != baseline.as_ref() && !parsed.contains(&level) {
            parsed.push(level);
        }
    }
    hide_levels(&factor.0, baseline.iter_mut().chain(&mut parsed).collect());
    match parsed.is_empty() {
        true => Err(wrong("no level differs from the baseline".into(), "")),
        false => {
            Ok(Variation { factor, baseline, levels: parsed, on: None, parameters: BTreeMap::new(), line: 0 })
        }
    }
}

/// Parses a `PATH=VALUE` of `plimsoll run FILE --set` and applies it to the experiment.
pub fn set(
    experiment: &mut Experiment,
    assignment: &str,
    vocabulary: &Vocabulary,
) -> Result<(), Box<Problem>> {
    let shown = crate::secret::mask_written(assignment);
    let wrong = |what: String, help: &str| Box::new(Problem::new(format!("--set {shown}: {what}"), help));
    let (path, value) =
        assignment.split_once('=').ok_or_else(|| wrong("no `=`".into(), "write --set PATH=VALUE"))?;
    let (path, value) = (path.trim(), value.trim());
    let table = match path.split_once('.') {
        Some(("workload", _)) => vocabulary
            .workloads
            .iter()
            .find(|info| info.name == experiment.workload.kind)
            .map_or(&[][..], |info| info.settings),
        Some(("load", _)) => LOAD_SETTINGS,
        Some(("target", _)) if experiment.target.is_some() => TARGET_SETTINGS,
        _ => TOP,
    };
    let name = path.rsplit_once('.').map_or(path, |(_, name)| name);
    let info = table.iter().find(|info| info.name == name).ok_or_else(|| {
        wrong(
            format!("unknown setting `{path}`"),
            &did_you_mean(name, table.iter().map(|info| info.name).collect::<Vec<_>>()),
        )
    })?;
    let level = info.kind.parse(value).map_err(|what| wrong(what, ""))?;
    match (path.split_once('.').map(|(area, _)| area), name, level) {
        (Some("workload"), _, level) => experiment.workload.settings.set(name, level),
        (Some("target"), _, level) => {
            experiment.target.iter_mut().for_each(|target| target.settings.set(name, level.clone()));
        }
        (Some("load"), _, level) => {
            experiment.load.set(name, level);
            let info = vocabulary.workloads.iter().find(|info| info.name == experiment.workload.kind);
            let operations = info.map_or(&[][..], |info| info.operations);
            let has_further =
                info.is_some_and(|info| info.has_further_operations(&experiment.workload.settings));
            let (goals, problems) = crate::limit::goals(&experiment.load, operations, has_further);
            if let Some((_, what, help)) = problems.into_iter().next() {
                return Err(wrong(what, &help));
            }
            experiment.limit = goals;
        }
        (_, "max_failures", Level::Percent(percent)) => experiment.max_failures = percent / 100.0,
        (_, "replicates", Level::Count(count)) => experiment.replicates = count as u32,
        (_, "seed", Level::Count(seed)) => experiment.seed = seed,
        (_, "sample_every", Level::Time(every)) if (10_000_000..=60 * SECOND).contains(&every) => {
            experiment.sample_every = every;
        }
        (_, "sample_every", Level::Time(every)) => {
            return Err(wrong(format!("{} is out of range", quantity::duration(every)), "write 10ms to 1m"));
        }
        (_, "prove", Level::Flag(prove)) => experiment.prove = prove,
        (_, "smallest", level) => experiment.smallest = Some(SettingPath(level.to_string())),
        (_, "name", level) => experiment.name = level.to_string(),
        _ => return Err(wrong(format!("`{path}` cannot be set here"), "edit the file")),
    }
    Ok(())
}

/// What other tools and people call what is varied most.
const TERMS: [(&str, &str); 22] = [
    ("bs", "workload.block_size"),
    ("blocksize", "workload.block_size"),
    ("depth", "workload.outstanding"),
    ("iodepth", "workload.outstanding"),
    ("qd", "workload.outstanding"),
    ("queue_depth", "workload.outstanding"),
    ("numjobs", "workload.threads"),
    ("pattern", "workload.access"),
    ("rw", "workload.access"),
    ("rwmixread", "workload.read_percent"),
    ("clients", "load.closed"),
    ("concurrency", "load.closed"),
    ("users", "load.closed"),
    ("vus", "load.closed"),
    ("iops", "load.open"),
    ("qps", "load.open"),
    ("rate", "load.open"),
    ("rps", "load.open"),
    ("cores", "host.cpus"),
    ("cpu", "host.cpus"),
    ("memory", "host.memory"),
    ("ram", "host.memory"),
];

/// The path that was probably meant: by another word for it, else the nearest spelling within its area.
fn suggested_path<'k>(path: &str, known: &'k [String]) -> Option<&'k str> {
    let (area, name) = path.split_once('.').unwrap_or(("", path));
    let name_of = |known: &'k str| known.split_once('.').map_or(known, |(_, name)| name);
    let term = TERMS.iter().find(|(term, _)| *term == name).map(|(_, path)| *path);
    if let Some(found) = known.iter().find(|known| Some(known.as_str()) == term) {
        return Some(found);
    }
    let in_area =
        |known: &&'k String| area.is_empty() || known.split_once('.').is_some_and(|(of, _)| of == area);
    let names = known.iter().filter(in_area).map(|known| name_of(known));
    let near = near_word(name, names)?;
    known.iter().filter(in_area).map(String::as_str).find(|known| name_of(known) == near)
}
