//! From an experiment to its result: check, execute, analyse, save, show. All measuring commands use it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use engine::documents::DocumentError;
use engine::machines::Machines;
use engine::restore::SharedJournal;
use engine::session::{self, Ended, Session};
use engine::source::HostRoot;
use export::push::Endpoint;
use machines::address::Address;
use machines::hub::survey::Surveyed;
use machines::hub::{Hub, Member};
use model::experiment::{Dependency, watched_url};
use model::problem::Warning;
use model::{
    Ending, Experiment, Level, Problem, Problems, ResultDocument, Secret, SettingKind, SettingPath, Study,
    quantity,
};
use record::{Journal, RecordError, RunDirectory};
use workloads::disk::{SIZE, adjusted_size};

use crate::commands;
use crate::early::Early;
use crate::exit::Exit;
use crate::export_to::ExportTo;
use crate::hang_up;
use crate::live::{Live, Subscribers};
use crate::output;
use crate::progress::Progress;
use crate::registry::REGISTRY;
use crate::secrets::{self, PromptPolicy};

/// The output options of a measuring command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The run directory; by default a dated folder in `runs`.
    pub(crate) run_dir: Option<PathBuf>,
    /// Print the result document instead of the tables.
    pub(crate) json: bool,
    /// No progress.
    pub(crate) quiet: bool,
    /// The file for `--live`.
    pub(crate) live: Option<PathBuf>,
    /// The endpoint of `--export-to`.
    pub(crate) export_to: Option<Endpoint>,
}

/// A printable error with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What, where, why and what to do; empty if it was said.
    pub(crate) text: String,
    /// The exit code.
    pub(crate) exit: Exit,
}

impl Failure {
    /// Wrong usage or file.
    pub(crate) fn usage(error: impl std::fmt::Display) -> Failure {
        Failure { text: error.to_string(), exit: Exit::Usage }
    }

    /// The command ends early, and has said why if there is more to say than what the end of the program says.
    pub(crate) fn ended(exit: Exit) -> Failure {
        Failure { text: String::new(), exit }
    }

    /// It could not be done.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
        Failure { text: format!("error: {error}"), exit: Exit::Failed }
    }
}

/// Phrases a problem in the terms of the experiment's source: keys of a file with their line, or flags.
pub(crate) type Words<'a> = &'a dyn Fn(Problem) -> Problem;

/// An unfinished run to resume.
pub(crate) struct Resume<'a> {
    /// The run directory.
    pub(crate) directory: &'a Path,
    /// Its journal.
    pub(crate) journal: Journal,
}

/// Executes an experiment in a new run directory, or continues `resume`, and returns the outcome.
pub(crate) fn carry_out(
    experiment: &Experiment,
    text: &str,
    options: &Options,
    resume: Option<Resume<'_>>,
    words: Words<'_>,
) -> Result<(ResultDocument, Study, Ended), Failure> {
    let root = HostRoot::live();
    let experiment = &with_secrets(experiment, PromptPolicy::Allowed, words)?;
    check(experiment, &root, words)?;
    size_notes(experiment, words).iter().for_each(|note| output::say(note));
    if !options.quiet {
        notes(experiment).iter().for_each(|note| output::say(note));
    }
    if changes_the_host(experiment) {
        record::prepare_state_folder().map_err(|why| {
            Failure::failed(format!(
                "{why}\n  Plimsoll changes nothing on this host without a journal to undo it"
            ))
        })?;
    }
    commands::restore::remove_unfinished();
    commands::restore::warn_of_changes();
    let hub = connect(experiment, &root, options, words)?.map(RefCell::new);
    let live = Live::begin(options.live.as_deref())?;
    let host = counters::host(&root);
    let export_to = ExportTo::begin(options.export_to.clone(), experiment, &host.name)?;
    let interrupted = crate::interrupt::flag();
    let (directory, journal) = match resume {
        Some(resume) => (RunDirectory::open(resume.directory).map_err(Failure::failed)?, resume.journal),
        None => {
            let directory = begin(options, text, experiment, &host)?;
            let journal = Journal::begin(directory.path(), experiment).map_err(Failure::failed)?;
            if let Some(why) = journal.why_none() {
                crate::output::say(&format!(
                    "warning: {why}\n  the run has no journal: if it is killed, `--resume` cannot continue it, and `plimsoll restore` does not know the files that it made"
                ));
            }
            (directory, journal)
        }
    };
    hang_up::outlive();
    let path = directory.path().to_path_buf();
    let kept = hub.as_ref().and_then(|hub| hub.borrow().inputs());
    engine::documents::keep(&directory, experiment, &REGISTRY, kept.as_ref()).map_err(|error| match error {
        DocumentError::Record(error) => Failure::failed(error),
        DocumentError::Changed(file) => Failure::usage(format!(
            "error: the scenario has changed since this run began\n  make it again as it is in {}, or start a new run",
            path.join(file).display()
        )),
    })?;
    let journal = SharedJournal::new(journal);
    let progress = Progress::new(options.quiet);
    let early = Early::of(experiment);
    let subscriber = &Subscribers(&[&progress, &live, &export_to, &early]);
    let session = Session {
        experiment,
        registry: REGISTRY,
        root,
        directory,
        journal: &journal,
        interrupted,
        answers: &crate::interrupt::ANSWERS,
        subscriber,
        machines: hub.as_ref().map(|hub| hub as &RefCell<dyn Machines>),
    };
    let design = analysis::design(experiment);
    let ended = session.carry_out(&*design).map_err(Failure::failed);
    progress.clear();
    export_to.end(options.quiet);
    live.end();
    let ended = ended?;
    if ended == Ended::Complete {
        journal.complete().map_err(Failure::failed)?;
    }
    let study = record::read(&path).map_err(Failure::failed)?;
    let document = analysis::result(&study);
    keep(&RunDirectory::open(&path).map_err(Failure::failed)?, &document, &study)?;
    output::prints_record(&document.run);
    Ok((document, study, ended))
}

/// Creates the run directory.
fn begin(
    options: &Options,
    text: &str,
    experiment: &Experiment,
    host: &model::Host,
) -> Result<RunDirectory, Failure> {
    loop {
        let path = options.run_dir.clone().unwrap_or_else(|| new_run_path(&experiment.name));
        match session::begin(&path, text, experiment, host) {
            // Another run of the same second created it since; the next path is another one.
            Err(RecordError::Taken { .. }) if options.run_dir.is_none() => {}
            begun => return begun.map_err(Failure::failed),
        }
    }
}

/// Reaches the machines of an experiment, and lets them check it.
fn connect(
    experiment: &Experiment,
    root: &HostRoot,
    options: &Options,
    words: Words<'_>,
) -> Result<Option<Hub>, Failure> {
    if experiment.machines.is_empty() {
        return Ok(None);
    }
    let members = members(experiment)?;
    let mut say = |text: &str| {
        if !options.quiet {
            output::say(text);
        }
    };
    let divides = experiment.machines.divides_on_loss;
    let interrupted = crate::interrupt::flag();
    let hub = Hub::connect(members, divides, &experiment.name, REGISTRY.sources, &mut say, interrupted);
    let mut hub = hub.map_err(not_reached)?;
    hub.describe().iter().for_each(|text| say(text));
    let found = engine::check::check_on_machines(experiment, &REGISTRY, root, &mut hub);
    if interrupted.load(Ordering::Relaxed) {
        return Err(not_reached(Ending::Interrupted));
    }
    Problems(found.0.into_iter().map(words).collect()).or(()).map_err(Failure::usage)?;
    Ok(Some(hub))
}

fn not_reached(ending: Ending) -> Failure {
    match ending {
        Ending::Interrupted => Failure { text: "interrupted".into(), exit: Exit::Interrupted },
        Ending::Failed(why) => Failure::failed(why),
        other => Failure::failed(other),
    }
}

/// The machines of an experiment.
fn members(experiment: &Experiment) -> Result<Vec<Member>, Failure> {
    let mut members = Vec::new();
    for (text, drives) in experiment.machines.all() {
        let address = Address::parse(text)
            .map_err(|(what, help)| Failure::usage(Problems::from(Problem::new(what, help))))?;
        let is_of_host = |entry: &&Secret| watched_url(entry.reveal()).is_none();
        let entries = experiment.watch.iter().filter(is_of_host).map(|entry| entry.reveal().to_string());
        // What is named besides the host belongs to the system under test.
        let watch = match drives {
            true => vec!["host".into(), "process:self".into()],
            false => entries.collect(),
        };
        members.push(Member { address, drives, watch });
    }
    Ok(members)
}

/// Reaches the machines of an experiment and lets them check it, without a run. Returns what is there, and all problems.
pub(crate) fn survey(
    experiment: &Experiment,
    root: &HostRoot,
    words: Words<'_>,
) -> Result<(Vec<Surveyed>, Problems), Failure> {
    let members = members(experiment)?;
    let interrupted = crate::interrupt::flag();
    let name = &experiment.name;
    let reached = Hub::survey(members, name, REGISTRY.sources, &mut output::say, interrupted);
    let (mut hub, mut problems) = reached.map_err(not_reached)?;
    let surveyed = hub.surveyed();
    for machine in &surveyed {
        if let Err(why) = &machine.found {
            let help = "correct `[machines]`, or start the machine; --offline checks without the machines";
            problems.push(Problem::new(format!("machine {}: {why}", machine.name), help));
        }
    }
    let found = engine::check::check_on_machines(experiment, &REGISTRY, root, &mut hub);
    let left = hub.end().into_iter().map(|left| Problem::new(left, ""));
    if interrupted.load(Ordering::Relaxed) {
        return Err(not_reached(Ending::Interrupted));
    }
    let mut all = Problems::new();
    // A machine that is not reached cannot check or end anything either.
    for problem in problems.0.into_iter().chain(found.0).chain(left) {
        if all.0.iter().all(|known: &Problem| known.what != problem.what) {
            all.push(problem);
        }
    }
    Ok((surveyed, Problems(all.0.into_iter().map(words).collect())))
}

/// What the user should know before the run: what is watched for counters of Performance Monitor, and dependencies whose
/// proxies nothing connects to.
pub(crate) fn notes(experiment: &Experiment) -> Vec<String> {
    let vocabulary = REGISTRY.vocabulary();
    let notes = experiment.watch.iter().filter_map(|entry| {
        let watched = vocabulary.watch_entry(entry.reveal()).ok()??;
        Some(format!("watched for `{entry}`: {watched}"))
    });
    let unused = experiment.unused_dependencies().into_iter().map(|dependency| {
        let Dependency { name, .. } = dependency;
        let what = format!("nothing in this experiment connects to the proxy of `{name}`, so its delay has no effect");
        let help = format!(
            "write ${{dependency:{name}}} instead of {} in [target] or in the workload; a script that reads ${} needs nothing",
            dependency.authority(),
            dependency.variable()
        );
        Warning(&Problem::new(what, help)).to_string()
    });
    notes.chain(unused).collect()
}

/// Notes about sizes: those in decimal units ("64KB" is seldom meant as 64,000 bytes), and those that are not whole blocks.
pub(crate) fn size_notes(experiment: &Experiment, words: Words<'_>) -> Vec<String> {
    let mut notes = decimal_sizes(experiment, words);
    notes.extend(adjusted_sizes(experiment, words));
    notes.dedup();
    notes
}

/// Notes about sizes of which a part is not used.
fn adjusted_sizes(experiment: &Experiment, words: Words<'_>) -> Vec<String> {
    let workload = &experiment.workload;
    if workload.kind != "disk" {
        return Vec::new();
    }
    let mut configurations = vec![workload.settings.clone()];
    for variation in experiment.vary.iter().filter(|variation| variation.factor.area() == "workload") {
        configurations.extend(variation.levels.iter().map(|level| {
            let mut settings = workload.settings.clone();
            settings.set(variation.factor.name(), level.clone());
            settings
        }));
    }
    let note = |settings: &model::Settings| {
        let (size, (used, block)) = (settings.get(&SIZE)?, adjusted_size(settings)?);
        let what = format!(
            "`{}` of {} is not a multiple of the block of {}: {} bytes of each file are used",
            SIZE.name,
            quantity::bytes(size),
            quantity::bytes(block),
            quantity::thousands(used as f64)
        );
        let problem = words(Problem::new(what, "").about(&[&SIZE]));
        Some(format!("note: {}", problem.what))
    };
    let mut notes: Vec<String> = configurations.iter().filter_map(note).collect();
    notes.dedup();
    notes
}

/// Notes about sizes in decimal units: "64KB" is seldom meant as 64,000 bytes.
fn decimal_sizes(experiment: &Experiment, words: Words<'_>) -> Vec<String> {
    let workload = &experiment.workload;
    let kinds = REGISTRY.workloads.iter().map(|kind| kind.info());
    let Some(info) = kinds.into_iter().find(|info| info.name == workload.kind) else { return Vec::new() };
    let mut notes = Vec::new();
    for setting in info.settings {
        let of_path = |path: &SettingPath| path.area() == "workload" && path.name() == setting.name;
        let varied = experiment.vary.iter().filter(|variation| of_path(&variation.factor));
        let levels = varied.flat_map(|variation| &variation.levels);
        let given = workload.settings.level(setting.name).filter(|_| workload.settings.given(setting));
        for (written, bytes, binary) in given.into_iter().chain(levels).flat_map(|level| match level {
            Level::Bytes(bytes) => quantity::decimal_size(*bytes).into_iter().collect(),
            Level::Text(text) if setting.kind == SettingKind::Sizes => {
                let sizes = text.split(',').filter_map(|part| part.split_whitespace().next());
                sizes
                    .filter_map(|size| quantity::decimal_size(quantity::parse_bytes(size).ok()?))
                    .collect::<Vec<_>>()
            }
            _ => Vec::new(),
        }) {
            let unit = written.trim_start_matches(|letter: char| letter.is_ascii_digit());
            let what = format!("`{}` of {written} counts 1 {unit} as a power of 1000", setting.name);
            let help = format!("write {binary} for {} bytes", quantity::thousands(bytes as f64));
            let problem = words(Problem::new(what, help).about(&[setting]));
            notes.push(format!("note: {}\n  {}", problem.what, problem.help));
        }
    }
    notes
}

/// Whether a factor of the host is set, or a target started or limited.
fn changes_the_host(experiment: &Experiment) -> bool {
    let is_of_host =
        |path: &model::SettingPath| !matches!(path.area(), "workload" | "load") && !path.is_of_target();
    experiment.prove
        || experiment.target.is_some()
        || experiment.vary.iter().any(|variation| is_of_host(&variation.factor))
}

/// The experiment with the secrets that its placeholders stand for.
pub(crate) fn with_secrets(
    experiment: &Experiment,
    asking: PromptPolicy,
    words: Words<'_>,
) -> Result<Experiment, Failure> {
    secrets::resolve(experiment.clone(), asking)
        .map_err(|problems| Failure::usage(Problems(problems.0.into_iter().map(words).collect())))
}

/// Maximum number of trials of an experiment.
const TRIALS_MAX: u64 = 10_000;

/// Checks whether it can run on this host, without changing anything.
pub(crate) fn check(experiment: &Experiment, root: &HostRoot, words: Words<'_>) -> Result<(), Failure> {
    problems(experiment, root, words, &mut Vec::new())?.or(()).map_err(Failure::usage)
}

/// What is wrong with it on this host. `notes` receives what its loads reach.
pub(crate) fn problems(
    experiment: &Experiment,
    root: &HostRoot,
    words: Words<'_>,
    notes: &mut Vec<String>,
) -> Result<Problems, Failure> {
    let trials = analysis::trial_count(experiment);
    if trials > TRIALS_MAX {
        let help = "vary fewer levels, or use one factor at a time instead of a grid";
        return Err(Failure::usage(format!(
            "error: this experiment has {trials} trials; at most {TRIALS_MAX}\n  {help}"
        )));
    }
    let found = engine::check::check(experiment, &REGISTRY, root, notes);
    let mut problems = Problems::new();
    for problem in found.0.into_iter().map(words) {
        // Several jobs may have the same one.
        if !problems.0.contains(&problem) {
            problems.push(problem);
        }
    }
    Ok(problems)
}

/// The problems of an incomplete experiment, and the contradictions in the rest of it.
pub(crate) fn with_contradictions(
    experiment: &Experiment,
    mut known: Problems,
    words: Words<'_>,
) -> Problems {
    let found = match secrets::resolve(experiment.clone(), PromptPolicy::NotNow) {
        Ok(complete) => engine::check::contradictions(&complete, &REGISTRY, &known),
        Err(found) => found,
    };
    known.0.extend(found.0.into_iter().map(words));
    known
}

/// Writes `result.json` and `report.html` into a run directory.
pub(crate) fn keep(
    directory: &RunDirectory,
    document: &ResultDocument,
    study: &Study,
) -> Result<(), Failure> {
    directory.write_result(&report::json(document)).map_err(Failure::failed)?;
    directory.write_text("report.html", &report::html(document, study)).map_err(Failure::failed)
}

/// Carries out an experiment and shows its result.
pub(crate) fn carry_out_and_show(
    experiment: &Experiment,
    text: &str,
    options: &Options,
    resume: Option<Resume<'_>>,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    let (document, study, ended) = carry_out(experiment, text, options, resume, words)?;
    show(&document, &study, options.json, false);
    Ok(exit_of(&document, &ended))
}

/// The exit code of an experiment by its ending.
pub(crate) fn exit_of(document: &ResultDocument, ended: &Ended) -> Exit {
    match ended {
        Ended::Complete => Exit::of(document),
        Ended::Interrupted(left) => {
            for text in left {
                output::say(&format!("warning: {text}"));
            }
            output::say(&format!("interrupted; continue with: plimsoll run --resume {}", document.run));
            Exit::Interrupted
        }
        Ended::Failed(why) => {
            output::say(&format!("error: {why}"));
            Exit::Failed
        }
    }
}

/// Prints the result of a run as tables or as JSON.
pub(crate) fn show(document: &ResultDocument, study: &Study, json: bool, verbose: bool) {
    print(document, json, verbose);
    for of in study.runs.iter().filter(|_| !json) {
        for event in of.events.iter().filter(|event| event.text.starts_with(hang_up::CLOSED)) {
            let text = report::text::visible_line(&event.text);
            output::result(&format!("\nnote: {}: {text}", of.run.trial.id()));
        }
    }
}

/// Prints a result as tables or as JSON.
pub(crate) fn print(document: &ResultDocument, json: bool, verbose: bool) {
    match json {
        true => output::json(&report::json(document)),
        false => output::page(&report::terminal(document, output::terminal(verbose))),
    }
}

/// `runs/2026-11-21T193005Z-name`: sorts by time and contains the name.
pub(crate) fn new_run_path(name: &str) -> PathBuf {
    let slug: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect::<String>()
        .split('-')
        .filter(|part| !part.is_empty())
        .take(6)
        .collect::<Vec<_>>()
        .join("-");
    let stamp = jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ").to_string();
    let base = PathBuf::from("runs").join(format!("{stamp}-{slug}"));
    // Two runs started in the same second.
    let mut path = base.clone();
    let mut again = 2;
    while path.exists() {
        path = PathBuf::from(format!("{}-{again}", base.display()));
        again += 1;
    }
    path
}
