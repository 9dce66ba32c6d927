//! The settings of a synchronization.

use std::path::{Path, PathBuf};
use std::process::Command;

use engine::shell::words;
use model::{Key, Level, Nanos, PathUse, Problems, Secret, SettingInfo, Settings};
use regex::bytes::Regex;
use rustix::fs::Access;

use super::kind::Kind;
use crate::group::{is_program, set_search_path};

/// The lines that `plimsoll metadir run --progress` prints.
pub(super) const PROGRESS_LINES: &str = "^progress (?<step>.+) (?<objects>[0-9]+)(?<done> done)?$";

model::settings! {
    /// The settings.
    pub(super) static SETTINGS;

    static RUN: Key<Vec<String>> = Key::texts(
        "run",
        "Run profiles to execute in this order, or an agent and a step each; each replaces {run} in `command`. \"KIND: RUN\" sets what its objects count as (staging, synchronization, export, confirmation) if the name of the step does not show it.",
    );

    static COMMAND: Key<Secret> = Key::command_or(
        "command", "plimsoll metadir run {run} --config {config} --progress",
        "Command line of the engine, started in `directory` without a shell. `plimsoll` means the program that measures.",
    );

    static CONFIG: Key<String> = Key::path(
        "config", PathUse::Command, "metadirectory.toml",
        "Configuration file of the engine, relative to `directory`; replaces {config} in `command`.",
    );

    static TEMPLATE: Key<Option<String>> = Key::path(
        "template", PathUse::Command, "",
        "Template of the configuration. Before each trial it is written to `config`, with values for {users}, {commit_objects}, {durability}, {cache_bytes}, {data_path}, {log_path} and {temporary_path}.",
    );

    static PROGRESS: Key<String> = Key::text(
        "progress", PROGRESS_LINES,
        "Regular expression for the lines that report progress. The group `objects`, or else the first group, is the number of objects that the step has processed so far; `step` is the name of the step, `done` matches in its last line.",
    );

    static PREPARE: Key<Option<Secret>> = Key::command(
        "prepare",
        "Shell command to run in `directory` before each trial, for instance to create the sources and to empty the store. Not timed.",
    );

    static REPEAT_FOR: Key<Nanos> = Key::time(
        "repeat_for", "0s",
        "Repeat `prepare` and `run` within a trial until the steps have run for this time in total. With 0s they run once.",
    );

    pub(super) static DIRECTORY: Key<String> = Key::path(
        "directory", PathUse::Command, ".",
        "Working directory of all commands. If it does not exist, it is created, and removed at the end.",
    );

    static KEEP: Key<bool> = Key::flag(
        "keep", "false",
        "Keep the folder that was created, with the files of the last trial.",
    );

    static USERS: Key<Option<u64>> = Key::count(
        "users", 1..=1_000_000_000, "",
        "Number of users; replaces {users} in `prepare`, `template`, `command` and `run`.",
    );

    static COMMIT_OBJECTS: Key<Option<u64>> = Key::count(
        "commit_objects", 1..=1_000_000_000, "",
        "Objects per commit; replaces {commit_objects}.",
    );

    static DURABILITY: Key<Option<String>> = Key::text(
        "durability", "",
        "Durability of a commit; replaces {durability}. The metadirectory has full, normal and off.",
    );

    static CACHE_BYTES: Key<Option<u64>> = Key::count(
        "cache_bytes", 1..=1 << 50, "",
        "Size of the store's page cache in bytes; replaces {cache_bytes}.",
    );

    static DATA_PATH: Key<Option<String>> = Key::path(
        "data_path", PathUse::Command, "",
        "Folder for the data of the store; replaces {data_path}. The result shows the disk of each path, and warns if two different paths are on the same disk.",
    );

    static LOG_PATH: Key<Option<String>> = Key::path(
        "log_path", PathUse::Command, "",
        "Folder for the write-ahead log of the store; replaces {log_path}.",
    );

    static TEMPORARY_PATH: Key<Option<String>> = Key::path(
        "temporary_path", PathUse::Command, "",
        "Folder for temporary files of the store; replaces {temporary_path}.",
    );

    static CHANGE: Key<Option<Secret>> = Key::command(
        "change",
        "Measure propagation instead of counting objects: shell command that changes an object in the source. The time until the target shows the change is measured, including `run`. {number} is the number of the change.",
    );

    static SHOWS: Key<Option<Secret>> = Key::command(
        "shows",
        "Shell command that succeeds as soon as the target shows the change.",
    );

    static CHANGES: Key<u64> = Key::count(
        "changes", 1..=1_000_000, "20",
        "Number of changes, made one after the other.",
    );

    static LOOK_EVERY: Key<Nanos> = Key::time(
        "look_every", "10ms",
        "Interval between two checks of the target: the resolution of the measured time.",
    );

    static TIMEOUT: Key<Nanos> = Key::time(
        "timeout", "24h",
        "Timeout of a run, of `prepare` and of a change: if it takes longer, it is stopped and has failed.",
    );

    static STOP: Key<Nanos> = Key::time(
        "stop", "10s",
        "Time that the engine has to exit after SIGTERM, before it gets SIGKILL.",
    );

    static OUTPUT: Key<Option<String>> = Key::path(
        "output", PathUse::Command, "",
        "File for the output of the engine; without it, the output is discarded.",
    );
}

/// Settings whose level takes the place of `{NAME}`.
static PLACES: [&SettingInfo; 7] = [
    &USERS.info,
    &COMMIT_OBJECTS.info,
    &DURABILITY.info,
    &CACHE_BYTES.info,
    &DATA_PATH.info,
    &LOG_PATH.info,
    &TEMPORARY_PATH.info,
];

/// The command line for one entry of `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunLine {
    /// Its name in the settings.
    pub(super) name: String,
    /// The kind of its objects, if it is set.
    pub(super) kind: Option<Kind>,
    /// The program and its arguments.
    words: Vec<String>,
    /// The command line without its secrets.
    shown: String,
}

impl RunLine {
    /// The command line for display.
    pub(super) fn command_line(&self) -> &str {
        &self.shown
    }

    /// The command, ready to be launched in a folder.
    pub(super) fn command(&self, folder: &Path) -> Command {
        let (program, arguments) =
            self.words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let mut command = match program {
            "plimsoll" => engine::shell::own_program().map_or_else(|| Command::new(program), Command::new),
            program => Command::new(program),
        };
        command.args(arguments).current_dir(folder);
        set_search_path(&mut command);
        command
    }
}

/// How propagation is measured.
#[derive(Clone, Debug)]
pub(super) struct Propagation {
    pub(super) change: Secret,
    pub(super) shows: Secret,
    pub(super) changes: u64,
    pub(super) look_every: Nanos,
}

/// The settings, read.
#[derive(Clone, Debug)]
pub(super) struct SyncSettings {
    pub(super) runs: Vec<RunLine>,
    pub(super) config: String,
    pub(super) template: Option<String>,
    pub(super) progress: Regex,
    pub(super) prepare: Option<Secret>,
    pub(super) repeat_for: Nanos,
    pub(super) directory: PathBuf,
    pub(super) keep: bool,
    pub(super) propagation: Option<Propagation>,
    pub(super) timeout: Nanos,
    pub(super) stop: Nanos,
    pub(super) output: Option<PathBuf>,
    /// The paths of the store: `data`, `log`, `temporary`.
    pub(super) paths: Vec<(&'static str, PathBuf)>,
}

impl SyncSettings {
    /// Reads the settings; reports all contradictions.
    pub(super) fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let mut places = Places::new(settings);
        let mut line = |key: &SettingInfo, text: &Secret| {
            places.fill(key, text.reveal(), &mut problems);
            text.map(|text| places.filled(text))
        };
        let command = line(&COMMAND, &settings.get(&COMMAND));
        let mut text = |key: &Key<Option<Secret>>| settings.get(key).map(|text| line(key, &text));
        let prepare = text(&PREPARE);
        let change = text(&CHANGE);
        let shows = text(&SHOWS);
        let template = settings.text(&TEMPLATE).map(|text| places.fill(&TEMPLATE, text, &mut problems));
        let config = settings.get(&CONFIG);
        let runs: Vec<String> =
            settings.get(&RUN).iter().map(|run| places.fill(&RUN, run, &mut problems)).collect();
        places.report_unused(&mut problems);

        let progress = regex(&settings.get(&PROGRESS), &mut problems);
        let propagation = match (change, shows) {
            (None, None) => None,
            (Some(change), Some(shows)) => Some(Propagation {
                change,
                shows,
                changes: settings.get(&CHANGES),
                look_every: settings.get(&LOOK_EVERY),
            }),
            (Some(_), None) => {
                problems.add(
                    &[&CHANGE],
                    "`change` needs a command that detects the change at the target",
                    "add `shows`, a shell command that succeeds as soon as the target shows the change",
                );
                None
            }
            (None, Some(_)) => {
                problems.add(
                    &[&SHOWS],
                    "`shows` needs a change to wait for",
                    "add `change`, a shell command that changes an object in the source",
                );
                None
            }
        };
        // A continuously running engine may also propagate the change.
        if runs.is_empty() && !settings.given(&CHANGE) && !settings.given(&SHOWS) {
            problems.add(&[&RUN], "`run` is missing", "name a run profile, or an agent and a step");
        }
        let mut lines = Vec::new();
        for run in &runs {
            lines.extend(run_line(run, &command, &config, &mut problems));
        }
        let names_steps =
            progress.as_ref().is_none_or(|regex| regex.capture_names().flatten().any(|name| name == "step"));
        if !names_steps && propagation.is_none() {
            for line in lines.iter().filter(|line| line.kind.is_none()) {
                if Kind::of_name(&line.name, &Default::default()).is_none() {
                    problems.add(
                        &[&RUN],
                        format!("the kind of the objects of `{}` is not known", line.name),
                        format!(
                            "write \"staging: {0}\", \"synchronization: {0}\" or \"export: {0}\"",
                            line.name
                        ),
                    );
                }
            }
        }
        if template.is_some() && (Path::new(&config).is_absolute() || config.contains("..")) {
            problems.add(
                &[&CONFIG],
                "with `template`, `config` must be a file inside `directory`",
                "write only the file name",
            );
        }
        if settings.get(&TIMEOUT) == 0 {
            problems.add(&[&TIMEOUT], "the timeout must be greater than 0", "such as \"1h\"");
        }
        let repeat_for = settings.get(&REPEAT_FOR);
        if repeat_for > 0 && (prepare.is_none() || propagation.is_some()) {
            problems.add(
                &[&REPEAT_FOR],
                "`repeat_for` needs `prepare`: otherwise the second round starts from the result of the first",
                "let `prepare` restore the initial state of every round, such as an empty store",
            );
        }
        let Some(progress) = progress else { return Err(problems) };
        let directory: PathBuf = settings.get(&DIRECTORY).into();
        let path = |(name, key)| Some((name, directory.join(settings.text(key)?)));
        let paths = [("data", &DATA_PATH), ("log", &LOG_PATH), ("temporary", &TEMPORARY_PATH)];
        problems.or(SyncSettings {
            paths: paths.into_iter().filter_map(path).collect(),
            runs: lines,
            config,
            template,
            progress,
            prepare,
            repeat_for,
            directory,
            keep: settings.get(&KEEP),
            propagation,
            timeout: settings.get(&TIMEOUT),
            stop: settings.get(&STOP),
            output: settings.get(&OUTPUT).map(PathBuf::from),
        })
    }

    /// Is everything there that a trial needs? Changes nothing.
    pub(super) fn check(&self) -> Problems {
        let mut problems = Problems::new();
        let mut reported: Vec<&str> = Vec::new();
        for program in self.runs.iter().filter_map(|run| run.words.first()) {
            // What `prepare` makes in the folder is not there yet.
            let is_made =
                self.prepare.is_some() && program.contains('/') && !Path::new(program).is_absolute();
            let is_ours = program == "plimsoll" && engine::shell::own_program().is_some();
            if !is_ours && !is_made && !reported.contains(&program.as_str()) && !is_program(program) {
                reported.push(program);
                problems.add(
                    &[&COMMAND],
                    format!("there is no program `{program}`"),
                    "check that it is installed, executable and in PATH",
                );
            }
        }
        if !self.directory.exists() {
            let parent = match self.directory.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            if let Err(error) = rustix::fs::access(parent, Access::WRITE_OK) {
                problems.add(
                    &[&DIRECTORY],
                    format!("the folder `{}` cannot be created: {error}", self.directory.display()),
                    "",
                );
            }
        }
        problems
    }
}

/// The levels that take the place of `{NAME}`.
struct Places {
    levels: Vec<(&'static SettingInfo, String)>,
    used: Vec<&'static str>,
}

impl Places {
    fn new(settings: &Settings) -> Places {
        let level =
            |place: &'static SettingInfo| Some((place, settings.level(place.name).map(Level::to_string)?));
        Places { levels: PLACES.into_iter().filter_map(level).collect(), used: Vec::new() }
    }

    /// A text with every place filled in. Other braces stay as they are.
    fn fill(&mut self, setting: &SettingInfo, text: &str, problems: &mut Problems) -> String {
        for known in PLACES {
            let name = known.name;
            let place = format!("{{{name}}}");
            if !text.contains(&place) {
                continue;
            }
            self.used.push(name);
            if !self.levels.iter().any(|(place, _)| place.name == name) {
                problems.add(
                    &[setting, known],
                    format!("`{}` contains {place}, but `{name}` is not set", setting.name),
                    format!("set `{name}`"),
                );
            }
        }
        self.filled(text)
    }

    fn filled(&self, text: &str) -> String {
        let fill = |text: String, (place, level): &(&SettingInfo, String)| {
            text.replace(&format!("{{{}}}", place.name), level)
        };
        self.levels.iter().fold(text.to_string(), fill)
    }

    /// A setting that changes nothing would be varied in vain.
    fn report_unused(&self, problems: &mut Problems) {
        for (setting, _) in self.levels.iter().filter(|(setting, _)| !self.used.contains(&setting.name)) {
            let name = setting.name;
            problems.add(
                &[setting],
                format!("`{name}` is set, but no setting contains {{{name}}}"),
                "write it in `prepare`, `template`, `command` or `run`, or remove the setting",
            );
        }
    }
}

fn regex(text: &str, problems: &mut Problems) -> Option<Regex> {
    match Regex::new(text) {
        Ok(regex) if regex.captures_len() > 1 => Some(regex),
        Ok(_) => {
            problems.add(
                &[&PROGRESS],
                format!("`{text}` has no group for the number of objects"),
                "put it in parentheses, such as \"([0-9]+) users done\"",
            );
            None
        }
        // The message of the expression's parser draws the place below it, on lines of its own.
        Err(error) => {
            let words = error.to_string();
            let last = words.lines().last().unwrap_or("").trim_start_matches("error: ").to_string();
            problems.add(&[&PROGRESS], format!("`{text}` is not a regular expression: {last}"), "");
            None
        }
    }
}

/// The command of one entry of `run`.
fn run_line(run: &str, command: &Secret, config: &str, problems: &mut Problems) -> Option<RunLine> {
    let (kind, name) = match run.split_once(':') {
        Some((word, name)) if Kind::of_word(word.trim()).is_some() => {
            (Kind::of_word(word.trim()), name.trim())
        }
        _ => (None, run.trim()),
    };
    let mut divide = |setting: &SettingInfo, text: &str, shown: &str| {
        words(text).map_err(|why| problems.add(&[setting], format!("`{shown}` {why}"), "close it")).ok()
    };
    let (of_run, of_command) =
        (divide(&RUN, name, name)?, divide(&COMMAND, command.reveal(), command.shown())?);
    let mut line = Vec::new();
    for word in of_command {
        match word.as_str() {
            "{run}" => line.extend(of_run.iter().cloned()),
            _ => line.push(word.replace("{run}", name).replace("{config}", config)),
        }
    }
    if line.first().is_none_or(|program| program.is_empty()) {
        problems.add(&[&COMMAND], "there is no command to run", "name the engine's program");
        return None;
    }
    let shown = command.shown().replace("{run}", name).replace("{config}", config);
    Some(RunLine { name: name.into(), kind, words: line, shown })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings_of;

    fn read(pairs: &[(&str, &str)]) -> Result<SyncSettings, Problems> {
        SyncSettings::read(&settings_of(SETTINGS, pairs))
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        let problems = read(&[
            ("progress", "users"),
            ("prepare", "generate {users} {cache_bytes}"),
            ("cache_bytes", "1048576"),
            ("durability", "full"),
            ("shows", "true"),
            ("timeout", "0s"),
        ])
        .unwrap_err();
        let whats: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(
            whats,
            [
                "`prepare` contains {users}, but `users` is not set",
                "`durability` is set, but no setting contains {durability}",
                "`users` has no group for the number of objects",
                "`shows` needs a change to wait for",
                "the timeout must be greater than 0",
            ]
        );
        let problems = read(&[
            ("progress", "([0-9]+) users"),
            ("run", "nightly"),
            ("template", "x"),
            ("config", "/etc/x"),
        ]);
        let whats: Vec<String> = problems.unwrap_err().0.into_iter().map(|problem| problem.what).collect();
        assert_eq!(
            whats,
            [
                "the kind of the objects of `nightly` is not known",
                "with `template`, `config` must be a file inside `directory`",
            ]
        );
        let whats = |pairs: &[(&str, &str)]| read(pairs).unwrap_err().to_string();
        assert!(whats(&[]).contains("`run` is missing"));
        assert!(
            whats(&[("run", "x"), ("command", "engine '{run}")]).contains("has a quote that does not end")
        );
        assert!(whats(&[("run", "x"), ("progress", "(")]).contains("unclosed group"));
    }

    #[test]
    fn a_run_takes_its_place_in_the_command() {
        let lines = |pairs: &[(&str, &str)]| -> Vec<(String, Option<Kind>)> {
            read(pairs).unwrap().runs.into_iter().map(|run| (run.words.join("|"), run.kind)).collect()
        };
        assert_eq!(
            lines(&[("run", "staff full-import")]),
            [("plimsoll|metadir|run|staff|full-import|--config|metadirectory.toml|--progress".into(), None)]
        );
        assert_eq!(
            lines(&[
                ("run", "staging: load {users}"),
                ("users", "100"),
                ("command", "engine --job='{run}' {{x}}"),
                ("progress", "([0-9]+) users"),
            ]),
            [("engine|--job=load 100|{{x}}".into(), Some(Kind::Staging))]
        );
    }

    #[test]
    fn what_a_trial_lacks_is_found_before_it() {
        let whats = |pairs: &[(&str, &str)]| {
            let problems = read(pairs).unwrap().check();
            problems.0.into_iter().map(|problem| problem.what).collect::<Vec<_>>()
        };
        assert_eq!(whats(&[("run", "full-import"), ("command", "true {run}")]), [""; 0]);
        assert_eq!(
            whats(&[
                ("run", "full-import"),
                ("command", "no-such-engine {run}"),
                ("directory", "/proc/none/x")
            ]),
            [
                "there is no program `no-such-engine`",
                "the folder `/proc/none/x` cannot be created: No such file or directory (os error 2)",
            ]
        );
    }
}
