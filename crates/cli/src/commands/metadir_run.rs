//! `plimsoll metadir run`: the steps of a run, and how they are shown while they run.

use std::io::{IsTerminal, Write as _};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use metadir::config::{Config, RunProfile, Step, StepKind};
use metadir::metadirectory::Metadirectory;
use metadir::observer::Observer;
use metadir::stage::StepError;
use metadir::store::StepRecord;
use serde_json::json;

use super::metadir::{document, not_opened, open_to_run, place_of, read_for_a_run, reported, run_json, what};
use super::metadir_trail::counted;
use super::metadir_watch::Watch;
use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// How often progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
/// How often it is written where it cannot be redrawn.
const WRITTEN_EVERY: Duration = Duration::from_secs(10);

/// Shows a run while it runs. Steps are numbered from 0.
pub(crate) trait RunDisplay {
    /// A step begins.
    fn begin(&mut self, at: usize, title: &str);

    /// The step has finished this number of objects.
    fn progress(&mut self, objects: u64);

    /// The step ended, with its record, or with the error that ends the run.
    fn end(&mut self, at: usize, title: &str, ended: &Result<StepRecord, StepError>);

    /// A step is skipped, or the run stops, for this reason.
    fn note(&mut self, at: usize, note: RunLine);
}

pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read_for_a_run(matches)?;
    let run = steps(&config, &what(matches))?;
    let titles = titles(&config, &run.steps);
    let agents: Vec<String> = config.agents.iter().map(|agent| agent.name.clone()).collect();
    let mut directory = open_to_run(config, text(matches, "config"))?;
    directory.begin_run().map_err(not_opened)?;
    let is_json = matches.get_flag("json");
    let (records, exit) = match matches.get_flag("watch").then(|| Watch::begin(&run.name, &titles)).flatten()
    {
        Some(mut watch) => {
            let observer = Observer::new();
            directory.observe(&observer);
            watch.observe(&observer);
            let done = carry_out(&mut directory, &run, &titles, &mut watch);
            // What was drawn is replaced by what a run without it prints.
            for line in watch.finish() {
                line.print(is_json);
            }
            done
        }
        None => {
            let mut lines = Lines::new(is_json, matches.get_flag("progress"));
            carry_out(&mut directory, &run, &titles, &mut lines)
        }
    };
    if !matches!(exit, Exit::Interrupted) {
        directory.end_run().map_err(not_opened)?;
    }
    let left = match records.len() == run.steps.len() {
        true => left_to_send(&mut directory, &run, &agents)?,
        false => Vec::new(),
    };
    if is_json {
        let left: serde_json::Map<_, _> =
            left.iter().map(|(agent, count)| (agent.to_string(), json!(count))).collect();
        let steps: Vec<_> = records.iter().map(run_json).collect();
        document(&json!({ "steps": steps, "left_to_send": left }))?;
        return Ok(exit);
    }
    for (agent, count) in left {
        let count = counted(count, "object");
        output::result(&format!(
            "{agent}: changes of {count} are left to be sent; next: plimsoll metadir pending {agent}"
        ));
    }
    Ok(exit)
}

/// What the confirmation of an export left to be sent: the agents, and the numbers of their objects. A new name
/// changes references to it, and a name that is free again can be given to another object.
fn left_to_send<'a>(
    directory: &mut Metadirectory,
    run: &RunProfile,
    agents: &'a [String],
) -> Result<Vec<(&'a str, u64)>, Failure> {
    let mut left = Vec::new();
    for (at, name) in agents.iter().enumerate() {
        let of_agent = run.steps.iter().filter(|step| step.agent == at).map(|step| step.kind);
        let after = of_agent.skip_while(|kind| *kind != StepKind::Export);
        let is_confirmed = after
            .skip(1)
            .any(|kind| matches!(kind, StepKind::DeltaSynchronization | StepKind::FullSynchronization));
        if is_confirmed {
            let count = directory.count_pending(at).map_err(not_opened)?;
            left.extend((count > 0).then_some((name.as_str(), count)));
        }
    }
    Ok(left)
}

/// What each step is called.
pub(crate) fn titles(config: &Config, steps: &[Step]) -> Vec<String> {
    let agent = |step: &Step| config.agents.get(step.agent).map_or("", |agent| agent.name.as_str());
    steps.iter().map(|step| format!("{} {}", agent(step), step.kind.name())).collect()
}

/// Executes steps in order, until one fails or has an outcome in `stop_after`.
pub(crate) fn carry_out(
    directory: &mut Metadirectory,
    run: &RunProfile,
    titles: &[String],
    display: &mut dyn RunDisplay,
) -> (Vec<StepRecord>, Exit) {
    let interrupted = crate::interrupt::flag();
    let (mut records, mut exit) = (Vec::new(), Exit::Good);
    for (at, (step, title)) in run.steps.iter().zip(titles).enumerate() {
        if directory.is_left_out(*step) {
            let note = format!("{title}: skipped, because nothing was exported that it could confirm");
            display.note(at, RunLine::Result(note));
            continue;
        }
        display.begin(at, title);
        let done = directory.run_recorded(&run.name, *step, &mut |done| {
            display.progress(done);
            !interrupted.load(Ordering::Relaxed)
        });
        display.end(at, title, &done);
        match done {
            Ok(record) => {
                if record.outcome.contains("error") {
                    exit = Exit::Failed;
                }
                let stops = run.stop_after.contains(&record.outcome.as_str());
                let left = run.steps.len() - at - 1;
                if stops && left > 0 {
                    let (name, outcome) = (&run.name, &record.outcome);
                    let note = format!(
                        "{name} stops after {title}: {outcome} is in its `stop_after`; {left} more steps were not executed"
                    );
                    display.note(at, RunLine::Message(note));
                }
                records.push(record);
                if stops {
                    exit = Exit::Failed;
                    break;
                }
            }
            Err(error) => {
                exit = if matches!(error, StepError::Interrupted) { Exit::Interrupted } else { Exit::Failed };
                break;
            }
        }
    }
    (records, exit)
}

/// A line that a run prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunLine {
    /// A result, which a JSON document replaces.
    Result(String),
    /// A message to standard error.
    Message(String),
}

impl RunLine {
    /// What a run prints when a step ended.
    pub(crate) fn of_step(title: &str, ended: &Result<StepRecord, StepError>) -> RunLine {
        match ended {
            Ok(record) => RunLine::Result(reported(record)),
            Err(error) => RunLine::Message(format!("error: {title}: {error}")),
        }
    }

    pub(crate) fn print(&self, is_json: bool) {
        match self {
            RunLine::Result(_) if is_json => {}
            RunLine::Result(text) => output::result(text),
            RunLine::Message(text) => output::say(text),
        }
    }
}

/// Shows each result as a line, and the progress of the current step in one line of a terminal.
pub(crate) struct Lines {
    is_json: bool,
    /// For a program that reads along.
    tells: bool,
    progress: Option<Progress>,
}

impl Lines {
    /// `tells` is whether progress lines for programs are written.
    pub(crate) fn new(is_json: bool, tells: bool) -> Lines {
        Lines { is_json, tells, progress: None }
    }
}

impl RunDisplay for Lines {
    fn begin(&mut self, _at: usize, title: &str) {
        self.progress = Some(Progress::new(title, self.tells));
    }

    fn progress(&mut self, objects: u64) {
        if let Some(progress) = &mut self.progress {
            progress.show(objects);
        }
    }

    fn end(&mut self, _at: usize, title: &str, ended: &Result<StepRecord, StepError>) {
        if let Some(progress) = self.progress.take() {
            progress.clear();
            if ended.is_ok() {
                progress.report(" done");
            }
        }
        RunLine::of_step(title, ended).print(self.is_json);
    }

    fn note(&mut self, _at: usize, note: RunLine) {
        note.print(self.is_json);
    }
}

/// The requested run; a single step is a run of one step.
pub(crate) fn steps(config: &Config, what: &[&str]) -> Result<RunProfile, Failure> {
    // A step may be written as in [runs]: the agent and the step in one text.
    let step = match what {
        [name] if !config.runs.iter().any(|run| run.name == *name) => name.split_once(' '),
        _ => None,
    };
    if let Some((agent, kind)) = step {
        return steps(config, &[agent.trim(), kind.trim()]);
    }
    match what {
        [name] => {
            let run = config.runs.iter().find(|run| run.name == *name).ok_or_else(|| {
                let all: Vec<&str> = config.runs.iter().map(|run| run.name.as_str()).collect();
                let known = match config.agents.iter().any(|agent| agent.name == *name) {
                    true => format!("it is an agent: add one of its steps, such as {name} full-import"),
                    false if all.is_empty() => {
                        "the configuration has no [runs]: name an agent and a step, or add a run".into()
                    }
                    false => model::problem::did_you_mean(name, all),
                };
                Failure::usage(format!("error: there is no run {name:?} in [runs]\n  {known}"))
            })?;
            Ok(run.clone())
        }
        [agent, kind] => {
            let at = place_of(config, agent)?;
            let kinds = StepKind::NAMES.iter().map(|(name, _)| *name);
            let (_, found) = StepKind::NAMES.iter().find(|(name, _)| name == kind).ok_or_else(|| {
                let known = model::problem::did_you_mean(kind, kinds);
                Failure::usage(format!("error: there is no step {kind:?}\n  {known}"))
            })?;
            let steps = vec![Step { agent: at, kind: *found }];
            Ok(RunProfile { name: what.join(" "), steps, stop_after: Vec::new(), span: 0..0 })
        }
        _ => Err(Failure::usage("error: name a run, or an agent and a step")),
    }
}

/// Progress of a step, on standard error.
pub(crate) struct Progress {
    title: String,
    redraw: bool,
    /// For a program that reads along.
    lines: bool,
    objects: u64,
    begin: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(title: &str, lines: bool) -> Progress {
        let progress = Progress {
            title: report::text::visible_line(title).into_owned(),
            redraw: std::io::stderr().is_terminal() && !lines,
            lines,
            objects: 0,
            begin: Instant::now(),
            shown: None,
        };
        progress.report("");
        progress
    }

    /// A line for a program, in one piece.
    fn report(&self, done: &str) {
        if self.lines {
            let line = format!("progress {} {}{done}\n", self.title, self.objects);
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }

    pub(crate) fn show(&mut self, done: u64) {
        self.objects = done;
        if self.lines {
            return self.report("");
        }
        let every = if self.redraw { SHOWN_EVERY } else { WRITTEN_EVERY };
        if self.shown.unwrap_or(self.begin).elapsed() < every {
            return;
        }
        self.shown = Some(Instant::now());
        let rate = done as f64 / self.begin.elapsed().as_secs_f64();
        let thousands = model::quantity::thousands;
        let line = format!("{}: {} objects, {}/s", self.title, thousands(done as f64), thousands(rate));
        match self.redraw {
            true => output::redraw(&line),
            // A reader that has stopped gets the next line.
            false => drop(output::draw(&format!("{line}\n"))),
        }
    }

    pub(crate) fn clear(&self) {
        if self.redraw && self.shown.is_some() {
            output::redraw("");
        }
    }
}
