//! `simulation.log` of Gatling: text of 2.0 to 3.12, and the binary format of 3.13 to 3.15.
//!
//! The vendor calls the format private. In text, a record is a line of fields with tabs between them:
//!
//! | version | record of a request |
//! | --- | --- |
//! | 2.0, 2.1 | scenario, user, `REQUEST`, groups, name, begin and end of the request, of the response, status |
//! | 2.2, 2.3 | `REQUEST`, scenario, user, groups, name, begin, end, status |
//! | 3.0 to 3.3 | `REQUEST`, user, groups, name, begin, end, status |
//! | 3.4 to 3.12 | `REQUEST`, groups, name, begin, end, status |

mod binary;

use std::io::Read as _;

use model::Level;

use crate::input::Lines;
use crate::lines::{Unread, counted};
use crate::requests::{Request, Requests};
use crate::{Content, Fault, Format, LoadRun, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "gatling",
    about: "Gatling simulation.log (2.0 to 3.15): each request, by its groups and name",
    recognize: |head| {
        binary::recognize(head) || head.lines().take(HEAD_LINES).any(|line| run_record(line).is_some())
    },
    open,
};

/// Lines before the record of the run, such as assertions.
const HEAD_LINES: usize = 200;

/// What to do with a log that is not read.
const INSTEAD: &str = "run the simulation with Gatling 3.15 or older";

fn open(mut from: Source, _: &Options) -> Result<Content, Fault> {
    let mut first = [0];
    let count = from.read(&mut first).map_err(|error| Fault::of_file(&error))?;
    let whole: Source = Box::new(std::io::Cursor::new(first[..count].to_vec()).chain(from));
    let run = match first {
        [0] => binary::read(whole)?,
        _ => text(whole)?,
    };
    Content::load(vec![run])
}

/// The record of a run.
#[derive(Debug, PartialEq, Eq)]
struct RunRecord<'a> {
    version: &'a str,
    simulation: &'a str,
    description: &'a str,
}

/// The record of a run, if a line is one.
fn run_record(line: &str) -> Option<RunRecord<'_>> {
    let fields: Vec<&str> = line.split('\t').take(16).collect();
    let is_time = |text: &str| text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    let of = |simulation, description, version: &'static str| RunRecord { simulation, description, version };
    Some(match fields.as_slice() {
        ["RUN", time, _, _] | ["RUN", time, _] if is_time(time) => of("", "", "1"),
        ["RUN", simulation, _, _, time, description, "2.0"] if is_time(time) => {
            of(simulation, description, "2")
        }
        ["RUN", simulation, _, time, description, "2.0"] if is_time(time) => of(simulation, description, "2"),
        [simulation, _, "RUN", time, description, "2.0"] if is_time(time) => of(simulation, description, "2"),
        ["RUN", simulation, _, time, description, version] if is_time(time) => {
            RunRecord { simulation, description, version }
        }
        _ => return None,
    })
}

/// The fields of a request.
#[derive(Debug, PartialEq, Eq)]
struct RequestRecord<'a> {
    groups: &'a str,
    name: &'a str,
    begin_ms: i64,
    end_ms: i64,
    has_failed: bool,
}

/// The record of a request, by its shape.
fn request_record<'a>(fields: &[&'a str]) -> Option<RequestRecord<'a>> {
    let of = |groups: usize, begin: usize, end: usize| {
        let status = *fields.get(end + 1)?;
        let time = |at: usize| fields.get(at)?.parse::<i64>().ok();
        Some(RequestRecord {
            groups: fields.get(groups)?,
            name: fields.get(groups + 1)?,
            begin_ms: time(begin)?,
            end_ms: time(end)?,
            has_failed: match status {
                "OK" => false,
                "KO" => true,
                _ => return None,
            },
        })
    };
    match fields {
        ["REQUEST", ..] => {
            // 3.4, 3.0, 2.2, and milestones of 2.2 with four times.
            of(1, 3, 4).or_else(|| of(2, 4, 5)).or_else(|| of(3, 5, 6)).or_else(|| of(3, 5, 8))
        }
        [_, _, "REQUEST", ..] => of(3, 5, 8),
        _ => None,
    }
}

/// What was read of a log, in either form.
#[derive(Default)]
struct Log {
    requests: Requests,
    count: u64,
    version: String,
    simulation: String,
    description: String,
    users: i64,
    users_max: i64,
    errors: u64,
    /// Requests without an end, such as messages that the server sent by itself.
    unmatched: u64,
    unread: Unread,
    notes: Vec<String>,
}

impl Log {
    fn add(&mut self, groups: &str, name: &str, (begin_ms, end_ms): (i64, i64), has_failed: bool) {
        let Ok(took_ms) = u64::try_from(end_ms.saturating_sub(begin_ms)) else {
            self.unmatched += 1;
            return;
        };
        let of_group = format!("{} / {name}", groups.replace(',', " / "));
        self.count += 1;
        self.requests.add(&Request {
            operation: if groups.is_empty() { name } else { &of_group },
            begin_unix_ns: begin_ms.saturating_mul(1_000_000),
            took_ns: took_ms.saturating_mul(1_000_000),
            has_failed,
            bytes: 0,
        });
    }

    fn user(&mut self, is_start: bool) {
        self.users += if is_start { 1 } else { -1 };
        self.users_max = self.users_max.max(self.users);
    }

    fn finish(self) -> Result<LoadRun, Fault> {
        let version = if self.version.is_empty() { "of unknown version" } else { &self.version };
        let Some(mut run) = self.requests.finish("gatling", "http")? else {
            return Err(match self.unread.count {
                0 => Fault::at(0, "the log has no requests", "was the simulation stopped too early?"),
                _ => Fault::at(
                    self.unread.first_line,
                    format!("the log of Gatling {version} is not understood"),
                    INSTEAD,
                ),
            });
        };
        run.version = self.version;
        run.label = self.description.trim().to_string();
        run.notes.extend(self.notes);
        self.unread.note(&mut run.notes);
        if self.unmatched > 0 {
            run.notes.push(format!("left out: {} without an end", counted(self.unmatched, "request")));
        }
        run.notes.push("the log has no bytes of responses, and does not say how users arrive".into());
        let mut fact = |name: &str, level: Level| run.facts.insert(format!("gatling.{name}"), level);
        fact("simulation", Level::Text(self.simulation));
        if let Ok(users @ 1..) = u64::try_from(self.users_max) {
            fact("users_max", Level::Count(users));
        }
        if self.errors > 0 {
            fact("errors", Level::Count(self.errors));
        }
        Ok(run)
    }
}

fn text(from: Source) -> Result<LoadRun, Fault> {
    let mut lines = Lines::new(from);
    let mut log = Log::default();
    let mut runs = 0;
    while let Some(line) = lines.next()? {
        if let Some(run) = run_record(line.text) {
            if run.version == "1" {
                return Err(Fault::at(line.number, "logs of Gatling 1 are not supported", INSTEAD));
            }
            runs += 1;
            if runs == 1 {
                log.version = run.version.to_string();
                log.simulation = run.simulation.to_string();
                log.description = run.description.to_string();
            }
            continue;
        }
        let fields: Vec<&str> = line.text.split('\t').take(64).collect();
        let kind = match fields.as_slice() {
            [first @ ("REQUEST" | "USER" | "GROUP" | "ERROR" | "ASSERTION"), ..] => first,
            [_, _, third @ ("REQUEST" | "USER" | "GROUP"), ..] => third,
            [] | [""] => continue,
            _ => "",
        };
        match (kind, request_record(&fields)) {
            (_, Some(request)) => {
                let times = (request.begin_ms, request.end_ms);
                log.add(request.groups, request.name, times, request.has_failed);
            }
            ("USER", None) => match fields.iter().find(|field| matches!(**field, "START" | "END")) {
                Some(event) => log.user(*event == "START"),
                None => log.unread.add(line.number),
            },
            ("ERROR", None) => log.errors += 1,
            ("GROUP" | "ASSERTION", None) => {}
            // Assertions of 2.1 have no kind.
            _ if runs == 0 => {}
            _ => log.unread.add(line.number),
        }
    }
    if runs > 1 {
        log.notes.push(format!("the file has the logs of {runs} runs; they are counted as one"));
    }
    log.finish()
}

#[cfg(test)]
mod tests;
