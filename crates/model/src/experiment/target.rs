//! The system under test: one that Plimsoll starts and stops, or one that runs already.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Nanos, Problem, Problems, SECOND, Secret, SettingInfo, SettingKind, Settings};

/// What `[target]` takes, besides the table `environment`.
pub static TARGET_SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        name: "start",
        kind: SettingKind::Text,
        default: "",
        about: "The command line that starts the system under test. It must stay in the foreground.",
    },
    SettingInfo {
        name: "shell",
        kind: SettingKind::Flag,
        default: "false",
        about: "Give `start` to /bin/sh, for pipes and variables.",
    },
    SettingInfo {
        name: "process",
        kind: SettingKind::Text,
        default: "",
        about: "Instead of `start`: the name of what runs already. It is never stopped.",
    },
    SettingInfo {
        name: "pid",
        kind: SettingKind::Count { min: 1, max: i32::MAX as u64 },
        default: "",
        about: "Instead of `start`: the process id of what runs already. It is never stopped.",
    },
    SettingInfo {
        name: "ready",
        kind: SettingKind::Text,
        default: "",
        about: "When it is ready: \"tcp://HOST:PORT\" accepts, \"http://HOST:PORT/PATH\" is served, or \"line:REGEX\" matches a line it prints.",
    },
    SettingInfo {
        name: "ready_within",
        kind: SettingKind::Time,
        default: "30s",
        about: "How long that may take.",
    },
    SettingInfo {
        name: "stop",
        kind: SettingKind::Text,
        default: "",
        about: "Shell command that asks it to end; without it SIGTERM does.",
    },
    SettingInfo {
        name: "stop_within",
        kind: SettingKind::Time,
        default: "10s",
        about: "How long it may take to end, before it gets SIGKILL.",
    },
    SettingInfo {
        name: "directory",
        kind: SettingKind::Text,
        default: "",
        about: "Its working directory; without it the folder of the experiment file.",
    },
    SettingInfo {
        name: "restart",
        kind: SettingKind::Choice(&["never", "each-trial"]),
        default: "never",
        about: "Started once for all trials, or anew for each.",
    },
];

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
        let pid = self.settings.count("pid").and_then(|pid| u32::try_from(pid).ok());
        match (self.settings.text("start"), self.settings.text("process"), pid) {
            (Some(start), None, None) => Some(Origin::Start(start)),
            (None, Some(process), None) => Some(Origin::Process(process)),
            (None, None, Some(pid)) => Some(Origin::Pid(pid)),
            _ => None,
        }
    }

    /// How it is known that it is ready; none when it need not be asked, or when the text is none of the forms.
    pub fn readiness(&self) -> Option<Readiness<'_>> {
        let text = self.settings.text("ready")?;
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
        self.settings.time("ready_within").unwrap_or(30 * SECOND)
    }

    /// How long it may take to end.
    pub fn stop_within(&self) -> Nanos {
        self.settings.time("stop_within").unwrap_or(10 * SECOND)
    }

    /// Whether it is started anew for each trial.
    pub fn restarts_each_trial(&self) -> bool {
        self.settings.text("restart") == Some("each-trial")
    }

    /// Every contradiction.
    pub fn check(&self) -> Problems {
        let mut problems = Problems::new();
        let settings = &self.settings;
        let mut problem = |name: &str, what: String, help: &str| {
            problems.push(Problem { line: settings.line(name), ..Problem::new(what, help) });
        };
        let origins: Vec<&str> =
            ["start", "process", "pid"].into_iter().filter(|name| settings.given(name)).collect();
        match origins.as_slice() {
            [] => problem(
                "",
                "[target] does not say what the system under test is".into(),
                "write start = \"COMMAND\", or process = \"NAME\" for one that runs already",
            ),
            [_] => {}
            [first, second, ..] => problem(
                second,
                format!("`{first}` and `{second}` both say what the system under test is"),
                "keep one of them",
            ),
        }
        if origins == ["start"] {
            if !settings.given("ready") {
                problem(
                    "start",
                    "[target] does not say when it is ready".into(),
                    "such as ready = \"tcp://127.0.0.1:3389\"",
                );
            }
        } else if !origins.is_empty() {
            for name in ["shell", "stop", "stop_within", "directory", "restart"] {
                if settings.given(name) {
                    let help = "leave it out: what runs already is neither started nor stopped";
                    problem(name, format!("`{name}` belongs to `start`"), help);
                }
            }
            if !self.environment.is_empty() {
                problem(
                    "",
                    "`environment` belongs to `start`".into(),
                    "leave it out: what runs already has its own",
                );
            }
        }
        match (settings.text("ready"), self.readiness()) {
            (Some(text), None) => problem(
                "ready",
                format!("`{text}` does not say when the target is ready"),
                "write \"tcp://HOST:PORT\", \"http://HOST:PORT/PATH\" or \"line:REGEX\"",
            ),
            (_, Some(Readiness::Line(_))) if !origins.is_empty() && origins != ["start"] => problem(
                "ready",
                "the output of what runs already cannot be read".into(),
                "use \"tcp://HOST:PORT\" or \"http://HOST:PORT/PATH\"",
            ),
            _ => {}
        }
        problems
    }
}
