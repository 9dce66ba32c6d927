//! The system under test: one that Plimsoll starts and stops, or one that runs already.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Key, Nanos, Problem, Problems, Secret, SettingInfo, Settings};

crate::settings! {
    /// What `[target]` takes, besides the table `environment`.
    pub static TARGET_SETTINGS;

    pub static START: Key<Option<String>> = Key::text(
        "start", "",
        "The command line that starts the system under test. It must stay in the foreground.",
    );

    pub static IN_SHELL: Key<bool> = Key::flag(
        "shell", "false",
        "Give `start` to /bin/sh, for pipes and variables.",
    );

    pub static PROCESS: Key<Option<String>> = Key::text(
        "process", "",
        "Instead of `start`: the name of what runs already. It is never stopped.",
    );

    pub static PID: Key<Option<u32>> = Key::count(
        "pid", 1..=i32::MAX as u64, "",
        "Instead of `start`: the process id of what runs already. It is never stopped.",
    );

    pub static READY: Key<Option<String>> = Key::text(
        "ready", "",
        "When it is ready: \"tcp://HOST:PORT\" accepts, \"http://HOST:PORT/PATH\" is served, or \"line:REGEX\" matches a line it prints.",
    );

    pub static READY_WITHIN: Key<Nanos> = Key::time("ready_within", "30s", "How long that may take.");

    pub static STOP: Key<Option<String>> = Key::text(
        "stop", "",
        "Shell command that asks it to end; without it SIGTERM does.",
    );

    pub static STOP_WITHIN: Key<Nanos> = Key::time(
        "stop_within", "10s",
        "How long it may take to end, before it gets SIGKILL.",
    );

    pub static DIRECTORY: Key<Option<String>> = Key::text(
        "directory", "",
        "Its working directory; without it the folder of the experiment file.",
    );

    pub static RESTART: Key<Restart> = Key::choice(
        "restart",
        "Started once for all trials, or anew for each.",
    );
}

crate::choice! {
    /// How often the system under test is started.
    pub enum Restart {
        /// Once for all trials.
        Never = "never",
        /// Anew for each trial.
        EachTrial = "each-trial",
    }
}

/// The table of environment variables inside `[target]`.
pub(super) const ENVIRONMENT: &str = "environment";

/// The system under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What [`TARGET_SETTINGS`] describes, defaults filled in.
    pub settings: Settings,
    /// Environment variables it is started with, besides Plimsoll's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Secret>,
}

/// What is to become of the system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// Started by this command line.
    Start(&'a str),
    /// Running already, under this name.
    Process(&'a str),
    /// Running already, with this process id.
    Pid(u32),
}

/// How it is known that the system under test is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness<'a> {
    /// This `HOST:PORT` accepts a connection.
    Tcp(&'a str),
    /// This page is served.
    Http(&'a str),
    /// A line of its output matches this regular expression.
    Line(&'a str),
}

impl Target {
    /// Where it comes from; none when none or several of `start`, `process` and `pid` are given, which
    /// [`Target::check`] tells.
    pub fn origin(&self) -> Option<Origin<'_>> {
        let settings = &self.settings;
        match (settings.text(&START), settings.text(&PROCESS), settings.get(&PID)) {
            (Some(start), None, None) => Some(Origin::Start(start)),
            (None, Some(process), None) => Some(Origin::Process(process)),
            (None, None, Some(pid)) => Some(Origin::Pid(pid)),
            _ => None,
        }
    }

    /// How it is known that it is ready; none when it need not be asked, or when the text is none of the forms.
    pub fn readiness(&self) -> Option<Readiness<'_>> {
        let text = self.settings.text(&READY)?;
        if let Some(host) = text.strip_prefix("tcp://") {
            let port = host.rsplit_once(':').filter(|(name, _)| !name.is_empty())?.1;
            return port.parse::<u16>().is_ok_and(|port| port > 0).then_some(Readiness::Tcp(host));
        }
        if text.starts_with("http://") {
            return Some(Readiness::Http(text));
        }
        text.strip_prefix("line:").map(str::trim).filter(|text| !text.is_empty()).map(Readiness::Line)
    }

    /// How long it may take to be ready.
    pub fn ready_within(&self) -> Nanos {
        self.settings.get(&READY_WITHIN)
    }

    /// How long it may take to end.
    pub fn stop_within(&self) -> Nanos {
        self.settings.get(&STOP_WITHIN)
    }

    /// Whether it is started anew for each trial.
    pub fn restarts_each_trial(&self) -> bool {
        self.settings.get(&RESTART) == Restart::EachTrial
    }

    /// Every contradiction.
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
                "[target] does not say what the system under test is".into(),
                "write start = \"COMMAND\", or process = \"NAME\" for one that runs already",
            ),
            [_] => {}
            [first, second, ..] => problem(
                Some(second),
                format!("`{}` and `{}` both say what the system under test is", first.name, second.name),
                "keep one of them",
            ),
        }
        if is_started {
            if !settings.given(&READY) {
                problem(
                    Some(&START),
                    "[target] does not say when it is ready".into(),
                    "such as ready = \"tcp://127.0.0.1:3389\"",
                );
            }
        } else if !origins.is_empty() {
            let of_start: [&SettingInfo; 5] = [&IN_SHELL, &STOP, &STOP_WITHIN, &DIRECTORY, &RESTART];
            for setting in of_start {
                if settings.given(setting) {
                    let help = "leave it out: what runs already is neither started nor stopped";
                    problem(Some(setting), format!("`{}` belongs to `start`", setting.name), help);
                }
            }
            if !self.environment.is_empty() {
                problem(
                    None,
                    "`environment` belongs to `start`".into(),
                    "leave it out: what runs already has its own",
                );
            }
        }
        match (settings.text(&READY), self.readiness()) {
            (Some(text), None) => problem(
                Some(&READY),
                format!("`{text}` does not say when the target is ready"),
                "write \"tcp://HOST:PORT\", \"http://HOST:PORT/PATH\" or \"line:REGEX\"",
            ),
            (_, Some(Readiness::Line(_))) if !origins.is_empty() && !is_started => problem(
                Some(&READY),
                "the output of what runs already cannot be read".into(),
                "use \"tcp://HOST:PORT\" or \"http://HOST:PORT/PATH\"",
            ),
            _ => {}
        }
        problems
    }
}
