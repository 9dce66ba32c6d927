//! The system under test: started and stopped by Plimsoll, or already running.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Experiment, Key, Level, Nanos, Problem, Problems, Secret, SecretParts, SettingInfo, Settings};

crate::settings! {
    /// The keys of `[target]`, except the table `environment`.
    pub static TARGET_SETTINGS;

    pub static START: Key<Option<Secret>> = Key::command(
        "start",
        "Command line that starts the system under test, which must stay in the foreground.",
    );

    pub static IN_SHELL: Key<bool> = Key::flag(
        "shell", "false",
        "Run `start` with /bin/sh, for pipes and variables.",
    );

    pub static PROCESS: Key<Option<String>> = Key::text(
        "process", "",
        "Instead of `start`: name of a process that is already running. It is never stopped.",
    );

    pub static PID: Key<Option<u32>> = Key::count(
        "pid", 1..=i32::MAX as u64, "",
        "Instead of `start`: id of a process that is already running. It is never stopped.",
    );

    pub static MACHINE: Key<Option<String>> = Key::text(
        "machine", "",
        "Name of the machine of `machines.watch` where it is already running: factors are set there. Default: this machine.",
    );

    pub static READY: Key<Option<Secret>> = Key::secret(
        "ready", SecretParts::Pairs,
        "Test of readiness: \"tcp://HOST:PORT\" accepts a connection, \"http://HOST:PORT/PATH\" is served, or \"line:REGEX\" matches a line of its output.",
    );

    pub static READY_WITHIN: Key<Nanos> = Key::time("ready_within", "30s", "Timeout of readiness.");

    pub static STOP: Key<Option<Secret>> = Key::command(
        "stop",
        "Shell command that stops it. Default: SIGTERM.",
    );

    pub static STOP_WITHIN: Key<Nanos> = Key::time(
        "stop_within", "10s",
        "Time that it has to exit, before it gets SIGKILL.",
    );

    pub static DIRECTORY: Key<Option<String>> = Key::text(
        "directory", "",
        "Its working directory. Default: the folder of the experiment file.",
    );

    pub static RESTART: Key<Restart> = Key::choice(
        "restart",
        "Start it once for all trials, or restart it for each trial.",
    );
}

crate::choice! {
    /// When the system under test is restarted.
    pub enum Restart {
        /// Never: it is started once for all trials.
        Never = "never",
        /// For each trial.
        EachTrial = "each-trial",
    }
}

/// The settings of a target that may be varied: it is started for each trial then.
pub(super) fn varied() -> impl Iterator<Item = &'static SettingInfo> {
    TARGET_SETTINGS.iter().filter(|info| [START.name, DIRECTORY.name].contains(&info.name))
}

/// The table of environment variables inside `[target]`.
pub(super) const ENVIRONMENT: &str = "environment";

/// The system under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The settings of [`TARGET_SETTINGS`], defaults filled in.
    pub settings: Settings,
    /// Additional environment variables, besides Plimsoll's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Secret>,
}

/// The origin of the system under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// Started by this command line.
    Start(Secret),
    /// Already running, with this name.
    Process(&'a str),
    /// Already running, with this process id.
    Pid(u32),
}

/// How readiness of the system under test is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness<'a> {
    /// This `HOST:PORT` accepts a connection.
    Tcp(&'a str),
    /// This page is available.
    Http(&'a str),
    /// A line of its output matches this regular expression.
    Line(&'a str),
}

impl Target {
    /// Its origin; none if not exactly one of `start`, `process` and `pid` is given, which [`Target::check`]
    /// reports.
    pub fn origin(&self) -> Option<Origin<'_>> {
        let settings = &self.settings;
        match (settings.get(&START), settings.text(&PROCESS), settings.get(&PID)) {
            (Some(start), None, None) => Some(Origin::Start(start)),
            (None, Some(process), None) => Some(Origin::Process(process)),
            (None, None, Some(pid)) => Some(Origin::Pid(pid)),
            _ => None,
        }
    }

    /// The name of the machine that it runs on; none for this one.
    pub fn machine(&self) -> Option<&str> {
        self.settings.text(&MACHINE)
    }

    /// How readiness is detected; none if it is not checked, or if the text is invalid.
    pub fn readiness(&self) -> Option<Readiness<'_>> {
        let text = self.settings.revealed(&READY)?;
        if let Some(host) = text.strip_prefix("tcp://") {
            let port = host.rsplit_once(':').filter(|(name, _)| !name.is_empty())?.1;
            return port.parse::<u16>().is_ok_and(|port| port > 0).then_some(Readiness::Tcp(host));
        }
        if text.starts_with("http://") {
            return Some(Readiness::Http(text));
        }
        text.strip_prefix("line:").map(str::trim).filter(|text| !text.is_empty()).map(Readiness::Line)
    }

    /// The test of readiness as it is shown.
    pub fn ready_in_words(&self) -> String {
        self.settings.get(&READY).map(|ready| ready.to_string()).unwrap_or_default()
    }

    /// Timeout of readiness.
    pub fn ready_within(&self) -> Nanos {
        self.settings.get(&READY_WITHIN)
    }

    /// Timeout of stopping.
    pub fn stop_within(&self) -> Nanos {
        self.settings.get(&STOP_WITHIN)
    }

    /// Whether it is restarted for each trial.
    pub fn restarts_each_trial(&self) -> bool {
        self.settings.get(&RESTART) == Restart::EachTrial
    }

    /// The target with one setting changed.
    pub fn with(&self, setting: &str, level: Level) -> Target {
        let mut target = self.clone();
        target.settings.set(setting, level);
        target
    }

    /// Reports all contradictions.
    pub fn check(&self) -> Problems {
        let mut problems = Problems::new();
        let settings = &self.settings;
        let mut problem = |setting: Option<&SettingInfo>, what: String, help: &str| {
            let line = setting.map_or(0, |setting| settings.line(setting.name));
            problems.push(Problem { line, ..Problem::new(what, help) });
        };
        let origins: [&SettingInfo; 3] = [&START, &PROCESS, &PID];
        let origins: Vec<&SettingInfo> =
            origins.into_iter().filter(|origin| settings.given(origin)).collect();
        let is_started = matches!(origins.as_slice(), [only] if only.name == START.name);
        match origins.as_slice() {
            [] => problem(
                None,
                "[target] has none of `start`, `process` and `pid`".into(),
                "write start = \"COMMAND\", or process = \"NAME\" for a process that is already running",
            ),
            [_] => {}
            [first, second, ..] => problem(
                Some(second),
                format!("`{}` and `{}` exclude each other", first.name, second.name),
                "keep one of them",
            ),
        }
        if is_started && settings.given(&MACHINE) {
            problem(
                Some(&MACHINE),
                "`machine` and `start` exclude each other".into(),
                "start the system on that machine yourself, and name it with process = \"NAME\" or pid",
            );
        }
        if is_started {
            if !settings.given(&READY) {
                problem(
                    Some(&START),
                    "[target] has no `ready`".into(),
                    "write ready = \"tcp://HOST:PORT\", such as \"tcp://127.0.0.1:3389\"",
                );
            }
        } else if !origins.is_empty() {
            let of_start: [&SettingInfo; 5] = [&IN_SHELL, &STOP, &STOP_WITHIN, &DIRECTORY, &RESTART];
            for setting in of_start {
                if settings.given(setting) {
                    let help = "remove it: Plimsoll does not start or stop a process that is already running";
                    problem(Some(setting), format!("`{}` needs `start`", setting.name), help);
                }
            }
            if !self.environment.is_empty() {
                problem(
                    None,
                    "`environment` needs `start`".into(),
                    "remove it: a process that is already running has its own environment",
                );
            }
        }
        match (settings.get(&READY), self.readiness()) {
            (Some(text), None) => problem(
                Some(&READY),
                format!("`{text}` is not a test of readiness"),
                "write \"tcp://HOST:PORT\", \"http://HOST:PORT/PATH\" or \"line:REGEX\"",
            ),
            (_, Some(Readiness::Line(_))) if !origins.is_empty() && !is_started => problem(
                Some(&READY),
                "the output of a process that is already running cannot be read".into(),
                "use \"tcp://HOST:PORT\" or \"http://HOST:PORT/PATH\"",
            ),
            _ => {}
        }
        problems
    }
}

/// The contradictions between the target and what is varied: settings of the target need one that Plimsoll starts.
pub fn contradictions(experiment: &Experiment) -> Problems {
    let mut problems = Problems::new();
    let is_started = experiment.target.as_ref().and_then(|target| target.settings.get(&START)).is_some();
    for variation in experiment.vary.iter().filter(|of| of.factor.is_of_target() && !is_started) {
        let what = format!("`{}` is varied, but Plimsoll starts no target", variation.factor);
        let help = "add [target] with `start` and `ready`";
        problems.push(Problem { line: variation.line, ..Problem::new(what, help) });
    }
    problems
}
