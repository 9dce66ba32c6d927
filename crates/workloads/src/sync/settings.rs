//! The settings of a synchronization, and what they mean together.

use std::path::{Path, PathBuf};
use std::process::Command;

use engine::shell::words;
use model::{Key, Level, Nanos, Problems, SettingInfo, Settings};
use regex::bytes::Regex;
use rustix::fs::Access;

use super::kind::Kind;
use super::process;
use crate::group::is_program;

/// The lines that `plimsoll metadir run --progress` prints.
pub(super) const PROGRESS_LINES: &str = "^progress (?<step>.+) (?<objects>[0-9]+)(?<done> done)?$";

model::settings! {
    /// What can be chosen.
    pub(super) static SETTINGS;

    static RUN: Key<Vec<String>> = Key::texts(
        "run",
        "What is run, one after the other: a run profile, or an agent and a step, in the place of {run} in `command`. \"KIND: RUN\" states what its objects count as (staging, synchronization, export, confirmation) where the step's name does not tell.",
    );

    static COMMAND: Key<String> = Key::text(
        "command", "plimsoll metadir run {run} --config {config} --progress",
        "The command line of the engine, started in `directory` without a shell. `plimsoll` is the program that measures.",
    );

    static CONFIG: Key<String> = Key::text(
        "config", "metadirectory.toml",
        "The engine's configuration, from `directory`: the place of {config} in `command`.",
    );

    static TEMPLATE: Key<Option<String>> = Key::text(
        "template", "",
        "The text of the configuration, written to `config` before each trial with {users}, {commit_objects}, {durability} and {cache_bytes} filled in.",
    );

    static PROGRESS: Key<String> = Key::text(
        "progress", PROGRESS_LINES,
        "Regular expression for the lines that report progress. Its group `objects`, or its first, is how many objects the step has done so far; `step` names the step, `done` is there when it is over.",
    );

    static PREPARE: Key<Option<String>> = Key::text(
        "prepare", "",
        "Shell command to run before each trial, in `directory`: makes the sources, empties the store. Not timed.",
    );

    static REPEAT_FOR: Key<Nanos> = Key::time(
        "repeat_for", "0s",
        "Repeat `prepare` and all of `run` within the trial until the steps have been at work this long. 0s runs them once.",
    );

    pub(super) static DIRECTORY: Key<String> = Key::text(
        "directory", ".",
        "Folder in which everything runs. It is made when it is not there, and then removed in the end.",
    );

    static KEEP: Key<bool> = Key::flag(
        "keep", "false",
        "Leave the folder that was made, with what the last trial left in it.",
    );

    static USERS: Key<Option<u64>> = Key::count(
        "users", 1..=1_000_000_000, "",
        "The number of users, in the place of {users} in `prepare`, `template`, `command` and `run`.",
    );

    static COMMIT_OBJECTS: Key<Option<u64>> = Key::count(
        "commit_objects", 1..=1_000_000_000, "",
        "Objects that are committed together, in the place of {commit_objects}.",
    );

    static DURABILITY: Key<Option<String>> = Key::text(
        "durability", "",
        "When a commit is safe, in the place of {durability}: full, normal or off of the metadirectory.",
    );

    static CACHE_BYTES: Key<Option<u64>> = Key::count(
        "cache_bytes", 1..=1 << 50, "",
        "Memory of the store for its pages, in the place of {cache_bytes}.",
    );

    static CHANGE: Key<Option<String>> = Key::text(
        "change", "",
        "Instead of counting objects: shell command that makes a change at the source. What is timed is how long it takes to show at the target, `run` included. {number} in it differs from change to change.",
    );

    static SHOWS: Key<Option<String>> = Key::text(
        "shows", "",
        "Shell command that succeeds once the change shows at the target.",
    );

    static CHANGES: Key<u64> = Key::count(
        "changes", 1..=1_000_000, "20",
        "How many changes are made, one after the other.",
    );

    static LOOK_EVERY: Key<Nanos> = Key::time(
        "look_every", "10ms",
        "How long after one look at the target the next follows: the resolution of the time that is measured.",
    );

    static TIMEOUT: Key<Nanos> = Key::time(
        "timeout", "24h",
        "A run, the preparation, or a change that takes longer has failed and is ended.",
    );

    static STOP: Key<Nanos> = Key::time(
        "stop", "10s",
        "How long the engine may take to end after SIGTERM, before it gets SIGKILL.",
    );

    static OUTPUT: Key<Option<String>> = Key::text(
        "output", "",
        "File for what the engine prints; none throws it away.",
    );
}

/// Settings whose level takes the place of `{NAME}`.
static PLACES: [&SettingInfo; 4] = [&USERS.info, &COMMIT_OBJECTS.info, &DURABILITY.info, &CACHE_BYTES.info];

/// What is launched for one entry of `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunLine {
    /// As the user calls it.
    pub(super) name: String,
    /// What its objects count as, where that is stated.
    pub(super) kind: Option<Kind>,
    /// The program and its arguments.
    words: Vec<String>,
}

impl RunLine {
    /// The command as it would be typed.
    pub(super) fn command_line(&self) -> String {
        self.words.join(" ")
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
        process::search_path(&mut command);
        command
    }
}

/// How propagation is measured.
#[derive(Clone, Debug)]
pub(super) struct Propagation {
    pub(super) change: String,
    pub(super) shows: String,
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
    pub(super) prepare: Option<String>,
    pub(super) repeat_for: Nanos,
    pub(super) directory: PathBuf,
    pub(super) keep: bool,
    pub(super) propagation: Option<Propagation>,
    pub(super) timeout: Nanos,
    pub(super) stop: Nanos,
    pub(super) output: Option<PathBuf>,
}

impl SyncSettings {
    /// Reads the settings; every contradiction at once.
    pub(super) fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let mut places = Places::new(settings);
        let command = places.fill(&COMMAND, &settings.get(&COMMAND), &mut problems);
        let mut text =
            |key: &Key<Option<String>>| settings.text(key).map(|text| places.fill(key, text, &mut problems));
        let template = text(&TEMPLATE);
        let prepare = text(&PREPARE);
        let change = text(&CHANGE);
        let shows = text(&SHOWS);
        let config = settings.get(&CONFIG);
        let runs: Vec<String> =
            settings.get(&RUN).iter().map(|run| places.fill(&RUN, run, &mut problems)).collect();
        places.tell_unused(&mut problems);

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
                    "when a change has arrived is not said",
                    "add `shows`, a shell command that succeeds once it shows at the target",
                );
                None
            }
            (None, Some(_)) => {
                problems.add(
                    &[&SHOWS],
                    "there is no change to wait for",
                    "add `change`, a shell command that makes one at the source",
                );
                None
            }
        };
        // A change may also be carried over by an engine that runs all the time.
        if runs.is_empty() && !settings.given(&CHANGE) && !settings.given(&SHOWS) {
            problems.add(&[&RUN], "there is nothing to run", "name a run profile, or an agent and a step");
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
                        format!("what the objects of `{}` count as is not said", line.name),
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
                "a configuration that is filled in is written inside `directory`",
                "write its name alone",
            );
        }
        if settings.get(&TIMEOUT) == 0 {
            problems.add(&[&TIMEOUT], "the timeout must be greater than 0", "such as \"1h\"");
        }
        let repeat_for = settings.get(&REPEAT_FOR);
        if repeat_for > 0 && (prepare.is_none() || propagation.is_some()) {
            problems.add(
                &[&REPEAT_FOR],
                "the runs cannot be repeated without `prepare`: the second round would find what the first has done",
                "let `prepare` make what every round begins with, such as an empty store",
            );
        }
        let Some(progress) = progress else { return Err(problems) };
        problems.or(SyncSettings {
            runs: lines,
            config,
            template,
            progress,
            prepare,
            repeat_for,
            directory: settings.get(&DIRECTORY).into(),
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
        let mut told: Vec<&str> = Vec::new();
        for program in self.runs.iter().filter_map(|run| run.words.first()) {
            // What `prepare` makes in the folder is not there yet.
            let is_made =
                self.prepare.is_some() && program.contains('/') && !Path::new(program).is_absolute();
            let is_ours = program == "plimsoll" && engine::shell::own_program().is_some();
            if !is_ours && !is_made && !told.contains(&program.as_str()) && !is_program(program) {
                told.push(program);
                problems.add(
                    &[&COMMAND],
                    format!("there is no program `{program}`"),
                    "is it installed, executable and in PATH?",
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
                    format!("the folder `{}` cannot be made: {error}", self.directory.display()),
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
        let mut filled = text.to_string();
        for known in PLACES {
            let name = known.name;
            let place = format!("{{{name}}}");
            if !filled.contains(&place) {
                continue;
            }
            self.used.push(name);
            match self.levels.iter().find(|(place, _)| place.name == name) {
                Some((_, level)) => filled = filled.replace(&place, level),
                None => problems.add(
                    &[setting, known],
                    format!("`{}` holds {place}, and `{name}` is not set", setting.name),
                    format!("set `{name}`"),
                ),
            }
        }
        filled
    }

    /// A setting that changes nothing would be varied in vain.
    fn tell_unused(&self, problems: &mut Problems) {
        for (setting, _) in self.levels.iter().filter(|(setting, _)| !self.used.contains(&setting.name)) {
            let name = setting.name;
            problems.add(
                &[setting],
                format!("`{name}` is set, and nothing holds {{{name}}}"),
                "write it in `prepare`, `template`, `command` or `run`, or leave the setting out",
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
fn run_line(run: &str, command: &str, config: &str, problems: &mut Problems) -> Option<RunLine> {
    let (kind, name) = match run.split_once(':') {
        Some((word, name)) if Kind::of_word(word.trim()).is_some() => {
            (Kind::of_word(word.trim()), name.trim())
        }
        _ => (None, run.trim()),
    };
    let mut divide = |setting: &SettingInfo, text: &str| {
        words(text).map_err(|why| problems.add(&[setting], format!("`{text}` {why}"), "close it")).ok()
    };
    let (of_run, of_command) = (divide(&RUN, name)?, divide(&COMMAND, command)?);
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
    Some(RunLine { name: name.into(), kind, words: line })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings_of;

    fn read(pairs: &[(&str, &str)]) -> Result<SyncSettings, Problems> {
        SyncSettings::read(&settings_of(SETTINGS, pairs))
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
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
                "`prepare` holds {users}, and `users` is not set",
                "`durability` is set, and nothing holds {durability}",
                "`users` has no group for the number of objects",
                "there is no change to wait for",
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
                "what the objects of `nightly` count as is not said",
                "a configuration that is filled in is written inside `directory`",
            ]
        );
        let whats = |pairs: &[(&str, &str)]| read(pairs).unwrap_err().to_string();
        assert!(whats(&[]).contains("there is nothing to run"));
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
                "the folder `/proc/none/x` cannot be made: No such file or directory (os error 2)",
            ]
        );
    }
}
