//! Which host each counter is of, and which of them is that of the load.
//!
//! - Counters of one host only are recorded without its name, as those of the system under test.
//! - Of several hosts, each keeps its name, and is judged by its own counters. Only those of the host on which the load ran have
//!   none, if the file of the load names it, or the user does with `HOST=FILE`.

use std::collections::BTreeSet;
use std::path::Path;

use foreign::{Checked, CounterFamily, CounterLog, LoadRun, Sample};
use model::metric::instance_on;

use super::{NamedLog, Opener};
use crate::carry_out::Failure;

/// The hosts of all files.
pub(super) struct Hosts {
    /// The names of all hosts as they are shown.
    names: Vec<String>,
    /// The host of counters that name none, and the name that the user gave, for each log.
    logs: Vec<LogHost>,
    /// The host whose counters are recorded without its name.
    of_load: Option<String>,
    /// What is to be known about them.
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Default)]
struct LogHost {
    /// That which the user gave for all counters of the file.
    given: Option<String>,
    /// That of counters without a host.
    unnamed: String,
}

impl Hosts {
    /// Decides it.
    pub(super) fn of(
        loads: &[(String, Checked<LoadRun>)],
        logs: &[NamedLog],
        open: &Opener<'_>,
    ) -> Result<Hosts, Failure> {
        let mut hosts = Hosts {
            names: Vec::new(),
            logs: vec![LogHost::default(); logs.len()],
            of_load: None,
            notes: Vec::new(),
        };
        let mut files: Vec<BTreeSet<String>> = Vec::new();
        for (log, of) in logs.iter().zip(&mut hosts.logs) {
            let mut found = hosts_of(log, open)?;
            let named: Vec<&String> = found.iter().filter(|host| !host.is_empty()).collect();
            if let Some(given) = &log.host {
                if named.len() > 1 {
                    let list = named.iter().map(|name| name.as_str()).collect::<Vec<&str>>().join(", ");
                    return Err(Failure::usage(format!(
                        "error: {}: the file has counters of several hosts ({list}), so it cannot be given the name {given}\n  \
                         leave out {given}=",
                        log.name
                    )));
                }
                of.given = Some(given.clone());
                found = BTreeSet::from([given.clone()]);
            }
            files.push(found);
        }
        for host in files.iter().flatten().filter(|host| !host.is_empty()) {
            hosts.add(host);
        }
        hosts.name_the_unnamed(logs, &files);
        let of_load = host_of_load(loads)?;
        hosts.of_load = match (hosts.names.as_slice(), &of_load) {
            ([], _) => Some(String::new()),
            (_, Some(host)) => hosts.names.iter().find(|name| is_same(name, host)).cloned(),
            ([only], None) => Some(only.clone()),
            (_, None) => None,
        };
        hosts.say_which(loads, of_load.as_deref());
        Ok(hosts)
    }

    /// Adds a host, unless it has a column already under another spelling.
    fn add(&mut self, host: &str) {
        if !self.names.iter().any(|name| is_same(name, host)) {
            self.names.push(host.to_string());
        }
    }

    /// Counters that name no host are those of the only one. Where there are several, they have that of their file.
    fn name_the_unnamed(&mut self, logs: &[NamedLog], files: &[BTreeSet<String>]) {
        let named = self.names.clone();
        let unnamed = |at: usize| files[at].contains("");
        for at in (0..logs.len()).filter(|at| unnamed(*at)) {
            let name = &logs[at].name;
            let unnamed = match named.as_slice() {
                [] => continue,
                [only] => {
                    if logs.len() > 1 {
                        self.notes.push(format!(
                            "{name} does not name its host; its counters are taken as those of {only}. If they are not: HOST={name}"
                        ));
                    }
                    only.clone()
                }
                _ => {
                    let stem = stem(name);
                    self.notes.push(format!(
                        "{name} does not name its host; it is called {stem}. To name it: HOST={name}"
                    ));
                    self.add(&stem);
                    stem
                }
            };
            self.logs[at].unnamed = unnamed;
        }
    }

    /// Says which host is which, where there is more than one to say it of.
    fn say_which(&mut self, loads: &[(String, Checked<LoadRun>)], of_load: Option<&str>) {
        let list = self.names.join(", ");
        let file = loads.first().map_or("", |(name, _)| name.as_str());
        let note = match (self.names.len(), loads.is_empty(), of_load) {
            (0 | 1, true, _) | (0, ..) | (1, _, None) => return,
            (1, _, Some(host)) if self.of_load.is_some() => {
                format!("{host} ran the load, and the counters are those of this host")
            }
            (1, _, Some(host)) => {
                format!("{host} ran the load; {list} is another host, judged by its counters")
            }
            (_, true, _) => format!("counters of {list}: each host has its own"),
            (_, _, Some(host)) if self.of_load.is_some() => {
                format!("counters of {list}, each judged on its own; {host} ran the load")
            }
            (_, _, Some(host)) => {
                format!(
                    "counters of {list}, each judged on its own; {host} ran the load, and has no counters"
                )
            }
            (_, _, None) => format!(
                "counters of {list}, each judged on its own. {file} does not say which of them ran the load; if one did: HOST={file}"
            ),
        };
        self.notes.push(note);
    }

    /// The instance of a counter of a host in the record.
    pub(super) fn instance(&self, log: usize, host: &str, instance: &str) -> String {
        let host = self.name(log, host);
        match self.of_load.as_deref() == Some(host) {
            true => instance.to_string(),
            // The record has the instance in braces, and the host before a slash.
            false => instance_on(&host.replace(['/', '{', '}'], "_"), instance),
        }
    }

    /// Whether nothing says whose the counters of a log are that name no host.
    pub(super) fn is_unnamed(&self, log: usize) -> bool {
        self.logs.get(log).is_none_or(|of| of.given.is_none())
    }

    /// The name of a host that a log has.
    fn name<'a>(&'a self, log: usize, host: &'a str) -> &'a str {
        let of = self.logs.get(log);
        let given = of.and_then(|of| of.given.as_deref());
        let host = match (given, host.is_empty()) {
            (Some(given), _) => given,
            (None, true) => of.map_or("", |of| of.unnamed.as_str()),
            (None, false) => host,
        };
        self.names.iter().find(|name| is_same(name, host)).map_or(host, String::as_str)
    }
}

/// The host on which the load ran, as far as it is known.
fn host_of_load(loads: &[(String, Checked<LoadRun>)]) -> Result<Option<String>, Failure> {
    let mut found: Option<(&str, &str)> = None;
    for (name, run) in loads {
        let host = run.host.trim();
        match found {
            _ if host.is_empty() => {}
            Some((first, of)) if !is_same(first, host) => {
                return Err(Failure::usage(format!(
                    "error: {name} ran on {host}, and {of} on {first}\n  import the loads of each host on their own"
                )));
            }
            Some(_) => {}
            None => found = Some((host, name)),
        }
    }
    Ok(found.map(|(host, _)| host.to_string()))
}

/// The hosts of a log, empty for counters that name none. Files of some formats are read to the end for this.
fn hosts_of(log: &NamedLog, open: &Opener<'_>) -> Result<BTreeSet<String>, Failure> {
    let of = |log: &dyn CounterLog| -> BTreeSet<String> {
        log.columns().0.iter().map(|column| column.host.clone()).collect()
    };
    let may_have_more = matches!(log.log.family(), CounterFamily::OpenMetrics | CounterFamily::Sar);
    if !may_have_more || log.host.is_some() {
        return Ok(of(&log.log));
    }
    let Some(mut again) = open(&log.name) else { return Ok(of(&log.log)) };
    let mut sample = Sample::default();
    while let Ok(true) = again.next(&mut sample) {}
    Ok(of(&again))
}

/// Whether two names are of one host: the same without regard to case, or one of them without its domain.
fn is_same(one: &str, other: &str) -> bool {
    let is_address =
        |name: &str| name.contains(':') || name.split('.').all(|part| part.parse::<u8>().is_ok());
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_lowercase();
    one.eq_ignore_ascii_case(other)
        || (one.contains('.') != other.contains('.')
            && !is_address(one)
            && !is_address(other)
            && short(one) == short(other))
}

fn stem(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_be_written_with_its_domain() {
        for (one, other, expected) in [
            ("DB1", "db1", true),
            ("db1", "db1.example.org", true),
            ("db1.example.org", "db1.example.com", false),
            ("10.0.0.5", "10", false),
            ("10.0.0.5:9100", "10", false),
            ("db1", "db2", false),
            ("", "db1", false),
        ] {
            assert_eq!(is_same(one, other), expected, "{one} {other}");
        }
    }
}
