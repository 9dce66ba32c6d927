//! `watch`: the counters of this host as they change, on a terminal, as rows, or as JSON lines.

mod board;
mod draw;
mod keep;
mod list;
mod live;
mod rows;
mod screen;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use counters::perfmon;
use engine::clock::Clock;
use engine::sampler::Sampler;
use engine::source::HostRoot;
use model::experiment::{watched_twice, watched_url};
use model::{Ending, MILLISECOND, Nanos, Readings, SECOND, Secret, SecretParts, quantity};

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::hang_up::{self, CLOSED, Terminal};
use crate::output;
use crate::registry::REGISTRY;
use crate::secrets;
use keep::Keeper;

/// The arguments.
pub(crate) fn arguments() -> Command {
    Command::new("watch")
        .about("Live counters of this machine and others, the most saturated first")
        .after_help(
            "On a terminal: arrows choose, enter plots, / filters, ? helps, q quits.\n\
             On a pipe: one row of the main counters per sample, or everything with --json.\n\n\
             A counter known from elsewhere:  plimsoll watch --list 'LogicalDisk(*)\\Avg. Disk sec/Read'\n\
             Other hosts side by side:        plimsoll watch --from db1=http://10.0.0.5:9100/metrics --from http://web1:9182/metrics\n\
             Keep what was seen:              plimsoll watch --record DIR, then plimsoll report DIR",
        )
        .arg(
            Arg::new("watch")
                .long("watch")
                .value_name("WHAT")
                .action(ArgAction::Append)
                .help("host, process:NAME, cgroup:PATH, operation_io:NAME, or a counter of Performance Monitor by its path; may be repeated [default: host]"),
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("URL")
                .action(ArgAction::Append)
                .help("Another host by the URL of its exporter (node_exporter, windows_exporter, any Prometheus or OpenMetrics text), with a name in front: NAME=URL; may be repeated. This host is then only watched with --watch host"),
        )
        .arg(
            Arg::new("every")
                .long("every")
                .value_name("TIME")
                .default_value("1s")
                .help("How often the counters are read, 10ms to 1m"),
        )
        .arg(
            Arg::new("duration")
                .long("duration")
                .value_name("TIME")
                .help("End by itself after this time [default: on Ctrl-C]"),
        )
        .arg(
            Arg::new("record")
                .long("record")
                .value_name("DIR")
                .help("Keep every sample in a run directory, for show, explain and report"),
        )
        .arg(
            Arg::new("list")
                .long("list")
                .value_name("FILTER")
                .num_args(0..=1)
                .default_missing_value("")
                .help("Print every counter with its Perfmon and sar names, or those with FILTER in a name; for a Perfmon path, the equivalent metric"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON document per sample and line"),
        )
}

/// `plimsoll watch`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    if let Some(filter) = matches.get_one::<String>("list") {
        return print_list(filter, matches.get_flag("json"));
    }
    let watch = watched_entries(matches)?;
    let every = time(matches, "every")?.unwrap_or(SECOND);
    if !(10 * MILLISECOND..=60 * SECOND).contains(&every) {
        let text = quantity::duration(every);
        return Err(Failure::usage(format!("error: --every {text}: write a time from 10ms to 1m")));
    }
    let duration = time(matches, "duration")?;
    let revealed: Vec<String> = watch.iter().map(|entry| entry.reveal().to_string()).collect();
    let mut sampler = Sampler::open(counters::SOURCES, &HostRoot::live(), &revealed);
    // The first read is where rates begin.
    let clock = Clock::get();
    let (_, zero, failures) = sampler.sample(clock);
    let keeper = matches
        .get_one::<String>("record")
        .map(|path| Keeper::begin(Path::new(path), &watch, every, duration));
    let mut feed = Feed {
        sampler,
        clock,
        zero,
        every,
        due: zero + every,
        end: duration.map(|duration| zero.saturating_add(duration)),
        keeper: keeper.transpose()?,
        interrupted: crate::interrupt::flag(),
        says_unread: false,
        terminal: Terminal::of_process(),
        unseen: None,
    };
    if feed.goes_on_unseen() {
        hang_up::outlive();
    }
    let json = matches.get_flag("json");
    let on_terminal = !json
        && output::is_terminal()
        && std::io::stdin().is_terminal()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    feed.says_unread = !on_terminal;
    for (source, why) in failures {
        feed.report_unread(0.0, &source, &why)?;
    }
    let outcome = match on_terminal {
        true => live::run(&mut feed),
        false => print_samples(&mut feed, json),
    };
    // The record is ended whatever happened to the screen.
    let kept = feed.finish();
    outcome?;
    kept
}

/// What is watched, with the secrets of exporters.
fn watched_entries(matches: &ArgMatches) -> Result<Vec<Secret>, Failure> {
    let of = |id: &str| matches.get_many::<String>(id).into_iter().flatten();
    let mut entries: Vec<String> = Vec::new();
    for entry in of("watch") {
        entries.push(watch_entry(entry)?);
    }
    for url in of("from") {
        if watched_url(url).is_none() {
            return Err(Failure::usage(format!(
                "error: --from {}: write the URL of an exporter, such as http://HOST:9100/metrics",
                SecretParts::Url.hide(url)
            )));
        }
        entries.push(watch_entry(url)?);
    }
    if let Some((_, what, help)) = watched_twice(&entries) {
        return Err(Failure::usage(format!("error: {what}\n  {help}")));
    }
    if entries.is_empty() {
        entries.push("host".into());
    }
    let resolve = |entry: &String| {
        secrets::resolve_watched(entry).map_err(|what| Failure::usage(format!("error: {what}")))
    };
    entries.iter().map(resolve).collect()
}

fn time(matches: &ArgMatches, id: &str) -> Result<Option<Nanos>, Failure> {
    let parse = |text: &String| {
        quantity::parse_duration(text).map_err(|error| Failure::usage(format!("error: --{id}: {error}")))
    };
    matches.get_one::<String>(id).map(parse).transpose()
}

/// What the sources watch: an entry as it is, or the metric for a counter of Performance Monitor, which is printed.
fn watch_entry(entry: &str) -> Result<String, Failure> {
    match REGISTRY.vocabulary().watch_entry(entry) {
        Ok(None) => Ok(entry.to_string()),
        Ok(Some(watched)) => {
            output::say(&format!("watched for `{entry}`: {watched}"));
            Ok(watched.entry)
        }
        Err((what, help)) => Err(Failure::usage(format!("error: --watch: {what}\n  {help}"))),
    }
}

fn print_list(filter: &str, json: bool) -> Result<Exit, Failure> {
    let found = list::Found::by(filter);
    if found.is_empty() {
        return Err(Failure::failed(match perfmon::Path::parse(filter) {
            Some(path) => {
                format!("`{filter}` is no known counter of Performance Monitor\n  {}", perfmon::meant(&path))
            }
            None => format!(
                "no counter has `{filter}` in its name, its Perfmon or sar name or its sentence\n  \
                 `plimsoll watch --list` prints all of them"
            ),
        }));
    }
    match json {
        true => output::json(&serde_json::to_string_pretty(&list::json(&found)).map_err(Failure::failed)?),
        false => output::result(&list::text(&found, usize::from(output::width().min(100)))),
    }
    Ok(Exit::Good)
}

/// Samples at a steady beat, kept as they come.
struct Feed {
    sampler: Sampler,
    clock: Clock,
    /// When watching began, on the run's clock.
    zero: Nanos,
    every: Nanos,
    due: Nanos,
    end: Option<Nanos>,
    keeper: Option<Keeper>,
    interrupted: &'static AtomicBool,
    /// Whether a source that cannot be read is said where it happens, because no screen shows it.
    says_unread: bool,
    terminal: Terminal,
    /// From when on nobody sees the samples, seconds since watching began, and why.
    unseen: Option<(f64, &'static str)>,
}

impl Feed {
    /// Seconds since watching began.
    fn seconds(&self, at: Nanos) -> f64 {
        at.saturating_sub(self.zero) as f64 / 1e9
    }

    /// True when the time is over or the user wants to stop.
    fn is_over(&self) -> bool {
        // The last sample may be due right at the end: it is still taken.
        self.interrupted.load(Ordering::Relaxed)
            || self.end.is_some_and(|end| self.due > end + self.every / 2)
    }

    /// Whether watching goes on when nobody sees it any more: there is a record, and an end.
    fn goes_on_unseen(&self) -> bool {
        self.keeper.is_some() && self.end.is_some()
    }

    /// Nobody sees the samples any more. Takes those that are left if there is a record of them.
    fn end_unseen(&mut self, why: &'static str) -> Result<(), Failure> {
        self.unseen = Some((self.seconds(self.clock.now()), why));
        while self.goes_on_unseen() && !self.is_over() {
            if self.is_due() {
                self.sample()?;
            }
        }
        Ok(())
    }

    /// Whether a sample is due; waits for it in pieces, so that a signal is noticed soon.
    fn is_due(&self) -> bool {
        let wait = self.wait();
        std::thread::sleep(wait.min(Duration::from_millis(100)));
        wait.is_zero()
    }

    /// How long until the next sample.
    fn wait(&self) -> Duration {
        Duration::from_nanos(self.due.saturating_sub(self.clock.now()))
    }

    /// Takes the sample that is due and keeps it: start and end of its window in seconds.
    fn sample(&mut self) -> Result<(f64, f64), Failure> {
        let (begin, end, failures) = self.sampler.sample(self.clock);
        self.due += self.every;
        // After a long stall the sampling interval starts again: samples in a burst would describe nothing.
        if self.due < self.clock.now() {
            self.due = self.clock.now() + self.every;
        }
        let (begin_s, end_s) = (self.seconds(begin), self.seconds(end));
        for (source, why) in failures {
            self.report_unread(end_s, &source, &why)?;
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.sample(begin_s, end_s, self.sampler.readings())?;
        }
        Ok((begin_s, end_s))
    }

    fn report_unread(&mut self, at_s: f64, source: &str, why: &str) -> Result<(), Failure> {
        if self.says_unread {
            output::say(&format!("not read: {source}: {why}"));
        }
        self.keeper.as_mut().map_or(Ok(()), |keeper| keeper.unread(at_s, source, why))
    }

    /// Ends the record.
    fn finish(self) -> Result<Exit, Failure> {
        let now_s = self.seconds(self.clock.now());
        let unseen = self.unseen.or(self.terminal.is_closed().then_some((now_s, CLOSED)));
        let went_on = self.goes_on_unseen();
        let is_interrupted = self.interrupted.load(Ordering::Relaxed) || unseen.is_some() && !went_on;
        let cut_short = self.end.is_some() && is_interrupted;
        if let Some(mut keeper) = self.keeper {
            if let Some((at_s, why)) = unseen {
                let then = if went_on { "watching went on" } else { "watching ended" };
                keeper.remark(at_s, format!("{why}; {then}"))?;
            }
            let ending = if cut_short { Ending::Interrupted } else { Ending::Completed };
            let path = keeper.finish(&self.sampler, ending)?;
            output::say(&format!("kept in {}\nnext: plimsoll report {}", path.display(), path.display()));
        }
        Ok(if cut_short { Exit::Interrupted } else { Exit::Good })
    }
}

/// Rows or JSON lines until the time is over, the user stops it or nobody reads them any more.
fn print_samples(feed: &mut Feed, json: bool) -> Result<(), Failure> {
    for status in feed.sampler.status() {
        if let model::SourceState::Unavailable(why) = status.state {
            output::say(&format!("not read: {}: {why}", status.source));
        }
    }
    feed.sampler.limits().iter().for_each(|limit| output::say(&format!("left out: {limit}")));
    let mut rows = rows::Rows::default();
    while !feed.is_over() {
        if !feed.is_due() {
            continue;
        }
        let (begin_s, end_s) = feed.sample()?;
        print_sample(&mut rows, json, begin_s, end_s, feed.sampler.readings());
        if output::is_lost() {
            return feed.end_unseen("standard output could not be written");
        }
        // `| head` has read enough.
        if !output::is_open() {
            return Ok(());
        }
    }
    Ok(())
}

fn print_sample(rows: &mut rows::Rows, json: bool, begin_s: f64, end_s: f64, readings: &Readings) {
    let now = jiff::Timestamp::now();
    match json {
        true => output::json(&rows::json(
            &now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            begin_s,
            end_s,
            readings,
        )),
        false => output::verbatim(&rows.row(&now.strftime("%H:%M:%S").to_string(), readings)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_source_answers_to_is_watched() {
        for entry in ["host", "process:slapd", "cgroup:/shop"] {
            assert_eq!(watch_entry(entry).ok().as_deref(), Some(entry));
        }
        let path = r"LogicalDisk(*)\Avg. Disk sec/Read";
        assert_eq!(watch_entry(path).ok().as_deref(), Some("host"));
        let failures =
            ["", "hosts", "process", "process:", "disk:vda", r"ASP.NET\Requests Queued"].map(|entry| {
                let failure = watch_entry(entry).unwrap_err();
                assert_eq!(failure.exit, Exit::Usage);
                failure.text
            });
        insta::assert_snapshot!(failures.join("\n"), @r"
        error: --watch: `` cannot be watched
          write one of host, process:..., cgroup:..., operation_io:..., http://HOST:PORT/metrics
        error: --watch: `hosts` cannot be watched
          did you mean `host`?
        error: --watch: `process` cannot be watched
          write one of host, process:..., cgroup:..., operation_io:..., http://HOST:PORT/metrics
        error: --watch: `process:` cannot be watched
          write one of host, process:..., cgroup:..., operation_io:..., http://HOST:PORT/metrics
        error: --watch: `disk:vda` cannot be watched
          write one of host, process:..., cgroup:..., operation_io:..., http://HOST:PORT/metrics
        error: --watch: `ASP.NET\Requests Queued` has no metric of the same meaning; the nearest is process.accept_queue_connections
          write process:NAME to watch it. Connections of a watched server that wait to be accepted.
        ");
    }

    #[test]
    fn a_filter_is_optional() {
        let list = |arguments: &[&str]| {
            let matches = arguments_of(arguments);
            matches.get_one::<String>("list").cloned()
        };
        assert_eq!(list(&["watch"]), None);
        assert_eq!(list(&["watch", "--list"]).as_deref(), Some(""));
        assert_eq!(list(&["watch", "--list", "Avg. Disk sec"]).as_deref(), Some("Avg. Disk sec"));
    }

    fn arguments_of(arguments: &[&str]) -> ArgMatches {
        super::arguments().try_get_matches_from(arguments).unwrap()
    }
}
