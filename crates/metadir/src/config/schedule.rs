//! `[serve]` and `[[schedule]]`: which runs begin by themselves, and when.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use jiff::tz::TimeZone;
use toml::de::DeValue;

use super::part::{Part, Reader, span_in, span_of};
use super::suggestion::one_of;
use super::{AgentConfig, RunProfile};
use crate::agent::Changes;

/// The default of `quiet`.
const QUIET_S: u64 = 5;
/// Days as they are written, Monday first.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// What runs unattended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Serve {
    /// The loopback address that answers with metrics and health; none for no answers.
    pub listen: Option<SocketAddr>,
    /// The time zone of `at`; none for that of the system.
    pub time_zone: Option<String>,
    /// The schedules, each of another run.
    pub schedules: Vec<Schedule>,
}

/// When a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The index of the run.
    pub run: usize,
    /// The time from one begin to the next.
    pub every: Option<Duration>,
    /// Times of day: hour and minute, in ascending order.
    pub at: Vec<(i8, i8)>,
    /// The days of these times, 0 for Monday; empty for all.
    pub days: Vec<u8>,
    /// The indexes of agents: a change in one of their systems begins the run.
    pub on_change: Vec<usize>,
    /// How long such a system must be without a further change before.
    pub quiet: Duration,
    /// Its place in the file.
    pub span: Range<usize>,
}

impl Reader {
    /// The schedules, with the address and the time zone.
    pub(super) fn serve(&mut self, root: &Part<'_>, agents: &[AgentConfig], runs: &[RunProfile]) -> Serve {
        let mut serve = Serve::default();
        if let Some(part) = self.part(root, "serve") {
            self.keys(&part, &["listen", "time_zone"]);
            serve.listen = self.listen(&part);
            serve.time_zone = self.text(&part, "time_zone", false).filter(|name| {
                let is_known = TimeZone::get(name).is_ok();
                if !is_known {
                    let what = format!("there is no time zone {name:?} on this host");
                    let help = "write a name of the IANA database, such as \"Europe/Oslo\", or \"UTC\"; \
                        the names are below /usr/share/zoneinfo (Debian: apt install tzdata)";
                    self.wrong(span_of(&part, "time_zone"), what, help);
                }
                is_known
            });
        }
        for part in self.list(root, "schedule") {
            let Some(schedule) = self.schedule(&part, agents, runs) else { continue };
            if let Some(other) = serve.schedules.iter().find(|other| other.run == schedule.run) {
                let (name, line) = (&runs[schedule.run].name, self.line(&other.span));
                let what = format!("the run {name:?} has two schedules: the first is in line {line}");
                self.wrong(span_of(&part, "run"), what, "write all times and agents into one of them");
            }
            serve.schedules.push(schedule);
        }
        serve
    }

    fn listen(&mut self, part: &Part<'_>) -> Option<SocketAddr> {
        let text = self.text(part, "listen", false)?;
        let help = "write an address of this host and a port: \"127.0.0.1:9464\"";
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Some(address),
            Ok(_) => {
                let what = format!("other hosts can connect to {text}: metrics and health have no password");
                let help = "listen on \"127.0.0.1:9464\", and put a proxy with authentication in front of it";
                self.wrong(span_of(part, "listen"), what, help);
                None
            }
            Err(_) => {
                self.wrong(span_of(part, "listen"), format!("{text:?} is not an address with a port"), help);
                None
            }
        }
    }

    fn schedule(&mut self, part: &Part<'_>, agents: &[AgentConfig], runs: &[RunProfile]) -> Option<Schedule> {
        self.keys(part, &["run", "every", "at", "days", "on_change", "quiet"]);
        let run = self.text(part, "run", true).and_then(|name| {
            let found = runs.iter().position(|run| run.name == name);
            if found.is_none() {
                let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
                let help = match names.as_slice() {
                    [] => "the configuration has no [runs]: add the run there".into(),
                    _ => one_of(&name, &names),
                };
                self.wrong(span_of(part, "run"), format!("there is no run {name:?} in [runs]"), help);
            }
            found
        });
        let every = self.time(part, "every", 1..=366 * 86_400);
        let at = self.times_of_day(part);
        let days = self.days(part);
        if !days.is_empty() && part.lacks("at") {
            self.wrong(span_of(part, "days"), "`days` without `at`", "write the time of day: at = \"02:00\"");
        }
        let on_change = self.on_change(part, agents);
        let quiet = self.time(part, "quiet", 1..=86_400);
        if quiet.is_some() && part.lacks("on_change") {
            self.wrong(span_of(part, "quiet"), "`quiet` without `on_change`", "remove it");
        }
        if !["every", "at", "on_change"].iter().any(|key| part.has(key)) {
            let what = format!("{} has neither `every` nor `at` nor `on_change`", part.what);
            let help = "write every = \"5 min\", at = \"02:00\", or on_change = [\"AGENT\"]";
            self.wrong(part.span.clone(), what, help);
        }
        if !on_change.is_empty() && every.is_none() && at.is_empty() {
            let what =
                "a run that begins only after changes is not repeated when it fails, until the next change";
            self.warn(span_of(part, "on_change"), what, "write `every` too, such as every = \"1 h\"");
        }
        let quiet = quiet.unwrap_or(Duration::from_secs(QUIET_S));
        Some(Schedule { run: run?, every, at, days, on_change, quiet, span: part.span.clone() })
    }

    /// A time such as `"30 s"`, `"5 min"`, `"2 h"` or `"1 d"`, within limits in seconds.
    fn time(
        &mut self,
        part: &Part<'_>,
        key: &str,
        limits: std::ops::RangeInclusive<u64>,
    ) -> Option<Duration> {
        let text = self.text(part, key, false)?;
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).trim();
        let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim();
        let units = [("s", 1), ("min", 60), ("m", 60), ("h", 3600), ("d", 86_400)];
        let seconds = units.iter().find(|(name, _)| *name == unit).and_then(|(_, seconds)| {
            digits.parse::<u64>().ok()?.checked_mul(*seconds).filter(|seconds| limits.contains(seconds))
        });
        if seconds.is_none() {
            let help = "write a number with a unit: \"30 s\", \"5 min\", \"2 h\" or \"1 d\"";
            self.wrong(span_of(part, key), format!("`{key}` cannot be {text:?}"), help);
        }
        seconds.map(Duration::from_secs)
    }

    fn times_of_day(&mut self, part: &Part<'_>) -> Vec<(i8, i8)> {
        let digits = |text: &'_ str| -> Option<String> {
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.into())
        };
        let mut times = Vec::new();
        for text in self.texts(part, "at") {
            let time = text.split_once(':').filter(|_| text.len() == 5).and_then(|(hour, minute)| {
                let hour = digits(hour)?.parse::<u8>().ok().filter(|hour| *hour < 24)?;
                Some((hour as i8, digits(minute)?.parse::<u8>().ok().filter(|minute| *minute < 60)? as i8))
            });
            match time {
                Some(time) => times.push(time),
                None => {
                    let what = format!("{text:?} in `at` is not a time of day");
                    self.wrong(
                        span_in(part, "at", &text),
                        what,
                        "write hours and minutes: \"02:00\" or \"14:30\"",
                    );
                }
            }
        }
        if let Some(DeValue::Array(listed)) = part.get("at").map(|value| value.get_ref())
            && listed.is_empty()
        {
            self.wrong(span_of(part, "at"), "`at` is empty", "write at = \"02:00\", or remove it");
        }
        times.sort_unstable();
        times.dedup();
        times
    }

    fn days(&mut self, part: &Part<'_>) -> Vec<u8> {
        let mut days = Vec::new();
        for text in self.texts(part, "days") {
            match DAYS.iter().position(|day| *day == text) {
                Some(day) => days.push(day as u8),
                None => {
                    let what = format!("there is no day {text:?}");
                    let begin = text.to_lowercase();
                    let help = match DAYS.iter().find(|day| begin.starts_with(**day)) {
                        Some(day) => format!("write {day:?}"),
                        None => one_of(&text, &DAYS),
                    };
                    self.wrong(span_in(part, "days", &text), what, help);
                }
            }
        }
        days.sort_unstable();
        days.dedup();
        days
    }

    fn on_change(&mut self, part: &Part<'_>, agents: &[AgentConfig]) -> Vec<usize> {
        let mut watched = Vec::new();
        for name in self.texts(part, "on_change") {
            let span = span_in(part, "on_change", &name);
            let Some(agent) = self.agent_named(&name, &span, agents) else { continue };
            match agents[agent].system.changes() {
                Changes::Unknown(what, help) => self.wrong(span.clone(), format!("{name} {what}"), help),
                _ if watched.contains(&agent) => {
                    self.wrong(span.clone(), format!("{name:?} is in `on_change` twice"), "remove one");
                }
                _ => watched.push(agent),
            }
        }
        watched
    }
}
