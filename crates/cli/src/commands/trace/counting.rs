//! Where operations, system calls and requests are counted: in the kernel, or by counters.

use std::path::Path;

use counters::operation_io::{
    Function, LogLines, Process, ProcessCounters, TraceOptions, Tracer, known_functions,
};
use engine::source::{HostRoot, Unavailable};
use model::operation_io::{IoCounts, RowOrigin, TraceMethods, TraceRow};
use regex::Regex;

use super::server::{Access, ServerCounts};
use crate::carry_out::Failure;

/// What the user wants to count.
pub(super) struct Wanted<'a> {
    pub(super) pid: u32,
    pub(super) functions: Vec<Function>,
    pub(super) disks: Vec<String>,
    pub(super) log: Option<&'a str>,
    pub(super) lines: Vec<&'a str>,
    pub(super) server: Option<Access<'a>>,
    pub(super) is_traced: bool,
    pub(super) has_all_calls: bool,
}

/// Open counters.
pub(super) struct Counting {
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) disks: Vec<String>,
    io: Io,
    operations: Operations,
    /// Why the kernel is not traced.
    not_traced: String,
    problems: Vec<String>,
}

/// Where I/O is counted.
enum Io {
    Kernel(Box<Tracer>),
    Counters(Box<ProcessCounters>),
}

/// Where operations are counted.
enum Operations {
    /// With the I/O, in the kernel.
    Probes,
    Server(Box<ServerCounts>),
    Log(LogLines, Vec<(String, Regex)>),
    /// Nowhere.
    Unknown,
}

impl Counting {
    /// Opens what this user may read.
    pub(super) fn open(wanted: &Wanted<'_>) -> Result<Counting, Failure> {
        let root = HostRoot::live();
        let process = Process::find(&root, wanted.pid).map_err(Failure::failed)?;
        let program = process.program();
        let mut operations = match (wanted.log, &wanted.server) {
            (Some(path), _) => Operations::Log(
                LogLines::open(Path::new(path)).map_err(Failure::failed)?,
                patterns(&wanted.lines)?,
            ),
            _ => Operations::Probes,
        };
        let functions = match (&operations, wanted.functions.is_empty()) {
            (Operations::Probes, false) => wanted.functions.clone(),
            (Operations::Probes, true) => known_functions(&program).unwrap_or_default(),
            _ => Vec::new(),
        };
        let has_operations = !functions.is_empty() || wanted.log.is_some() || wanted.server.is_some();
        if !has_operations {
            return Err(Failure::usage(format!(
                "error: the operations of `{program}` are not known\n  name its functions with --function NAME=SYMBOL, or count \
                 lines of its log with --log FILE --line REGEX"
            )));
        }
        let disks = match wanted.disks.is_empty() {
            true => process.disks().map_err(Failure::failed)?,
            false => wanted.disks.clone(),
        };
        let (io, not_traced) = open_io(&root, wanted, functions, &disks)?;
        let are_probed = matches!(io, Io::Kernel(_))
            && !(wanted.functions.is_empty() && known_functions(&program).is_none());
        if matches!(operations, Operations::Probes) && !are_probed {
            operations = match &wanted.server {
                Some(access) => {
                    Operations::Server(Box::new(ServerCounts::open(access).map_err(Failure::failed)?))
                }
                None => Operations::Unknown,
            };
        }
        Ok(Counting { pid: wanted.pid, program, disks, io, operations, not_traced, problems: Vec::new() })
    }

    /// Whether less is counted than tracing would.
    pub(super) fn is_limited(&self) -> bool {
        !self.not_traced.is_empty()
    }

    /// What is counted instead.
    pub(super) fn notice(&self) -> String {
        let operations = match self.operations {
            Operations::Unknown => {
                "; operations are not counted\n  give the server's statistics with --server URL, or its log with --log FILE --line REGEX"
            }
            _ => "",
        };
        format!(
            "the kernel is not traced: {}\n  counters of the process and the disk are read instead{operations}",
            self.not_traced
        )
    }

    /// Whether the process still runs.
    pub(super) fn is_running(&self) -> bool {
        match &self.io {
            Io::Kernel(tracer) => tracer.is_running(),
            Io::Counters(counters) => counters.is_running(),
        }
    }

    /// The counts since the previous read.
    pub(super) fn read(&mut self) -> Result<Vec<TraceRow>, Failure> {
        let mut rows = self.read_operations();
        rows.extend(match &mut self.io {
            Io::Kernel(tracer) => tracer.read().map_err(Failure::failed)?,
            Io::Counters(counters) => counters.read(),
        });
        Ok(rows)
    }

    /// Operations that are not counted in the kernel. Without them the I/O is still counted.
    fn read_operations(&mut self) -> Vec<TraceRow> {
        let counted = match &mut self.operations {
            Operations::Probes | Operations::Unknown => Ok(Vec::new()),
            Operations::Server(server) => server.read(),
            Operations::Log(log, patterns) => count_lines(log, patterns).map_err(|error| error.to_string()),
        };
        let counted = counted.unwrap_or_else(|error| {
            if !self.problems.contains(&error) {
                self.problems.push(error);
            }
            Vec::new()
        });
        let row = |(name, count): (String, u64)| {
            TraceRow::new(&name, RowOrigin::Operation, Some(count), IoCounts::new())
        };
        counted.into_iter().map(row).collect()
    }

    /// Where each column comes from.
    pub(super) fn methods(&self) -> TraceMethods {
        let (probes, calls, requests) = match &self.io {
            Io::Kernel(tracer) => {
                let [operations, calls, requests] = tracer.methods();
                (operations, calls, requests)
            }
            Io::Counters(counters) => {
                let [calls, requests] = counters.methods();
                (String::new(), calls, requests)
            }
        };
        let operations = match &self.operations {
            Operations::Probes => probes,
            Operations::Server(server) => server.method(),
            Operations::Log(..) => "new lines of the log".into(),
            Operations::Unknown => "not counted".into(),
        };
        TraceMethods { operations, calls, requests, not_traced: self.not_traced.clone() }
    }

    /// What is missing.
    pub(super) fn limits(&self) -> Vec<String> {
        let mut limits = self.problems.clone();
        if let Io::Kernel(tracer) = &self.io {
            limits.extend(tracer.limits());
        }
        if !self.is_running() {
            limits.push("the process ended".into());
        }
        limits
    }
}

/// Traces the kernel if that is possible and wanted; otherwise the counters, and the reason.
fn open_io(
    root: &HostRoot,
    wanted: &Wanted<'_>,
    functions: Vec<Function>,
    disks: &[String],
) -> Result<(Io, String), Failure> {
    let options = TraceOptions {
        pid: wanted.pid,
        functions,
        disks: disks.to_vec(),
        has_all_calls: wanted.has_all_calls,
    };
    let traced = match wanted.is_traced {
        true => Tracer::attach(root, &options),
        false => Err(Unavailable("--without-tracing".into())),
    };
    let why = match traced {
        Ok(tracer) => return Ok((Io::Kernel(Box::new(tracer)), String::new())),
        // A mistake in what the user named is not a reason to read something else.
        Err(why) if !wanted.functions.is_empty() => return Err(Failure::failed(why)),
        // One line of a summary.
        Err(why) => why.0.lines().map(str::trim).collect::<Vec<&str>>().join("; "),
    };
    let counters = ProcessCounters::open(root, wanted.pid, disks);
    let counters = counters.map_err(|error| Failure::failed(format!("{why}\n  {error}")))?;
    Ok((Io::Counters(Box::new(counters)), why))
}

/// `[NAME=]REGEX`. A name has no character of a pattern.
fn patterns(lines: &[&str]) -> Result<Vec<(String, Regex)>, Failure> {
    let is_name =
        |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    lines
        .iter()
        .map(|line| {
            let named = line.split_once('=').filter(|(name, _)| is_name(name));
            let (name, pattern) = named.unwrap_or(("line", line));
            let pattern = Regex::new(pattern).map_err(|error| {
                Failure::usage(format!("error: --line: `{pattern}` is not a pattern: {error}"))
            })?;
            Ok((name.to_string(), pattern))
        })
        .collect()
}

/// New lines that match; a line counts for the first pattern that it matches.
fn count_lines(log: &mut LogLines, patterns: &[(String, Regex)]) -> Result<Vec<(String, u64)>, Unavailable> {
    let mut counts: Vec<(String, u64)> = Vec::new();
    for (name, _) in patterns {
        if counts.iter().all(|(known, _)| known != name) {
            counts.push((name.clone(), 0));
        }
    }
    log.read(|line| {
        let matching = patterns.iter().find(|(_, pattern)| pattern.is_match(line));
        let counted = matching.and_then(|(name, _)| counts.iter_mut().find(|(known, _)| known == name));
        if let Some((_, count)) = counted {
            *count += 1;
        }
    })?;
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log_are_counted_by_the_first_pattern() {
        let folder = testkit::Scratch::new();
        let path = folder.file("log", "conn=1 op=0 SRCH\n");
        let mut log = LogLines::open(&path).unwrap();
        let patterns = patterns(&["search=SRCH", "modify=op=[0-9]+ MOD", "SRCH"]).unwrap();
        assert_eq!(patterns[2].0, "line");
        std::fs::write(&path, "conn=1 op=0 SRCH\nconn=1 op=1 SRCH\nconn=1 op=2 MOD\nconn=1 op=3 BIND\n")
            .unwrap();
        let counted = count_lines(&mut log, &patterns).unwrap();
        assert_eq!(counted, [("search".to_string(), 1), ("modify".to_string(), 1), ("line".to_string(), 0)]);
        assert!(super::patterns(&["a=("]).unwrap_err().text.contains("`(` is not a pattern"));
    }
}
