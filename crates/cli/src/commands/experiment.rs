//! `init`, `check`, `schema`, `run`: experiments that have a file.

use std::path::Path;

use clap::ArgMatches;
use engine::source::HostRoot;
use machines::hub::survey::{Found, Surveyed};
use model::experiment::Dependency;
use model::limit::Axis;
use model::{Experiment, Load, Problem, Search, WarmUp, quantity};

use super::text;
use crate::carry_out::{self, Failure, Resume, carry_out_and_show};
use crate::exit::Exit;
use crate::one_off::{ONE_OFFS, options, texts};
use crate::output;
use crate::registry::REGISTRY;
use crate::secrets::{self, PromptPolicy};

/// What `init` writes, by workload.
static TEMPLATES: &[(&str, &str)] = &[
    ("disk", include_str!("../../templates/disk.toml")),
    ("http", include_str!("../../templates/http.toml")),
    ("ldap", include_str!("../../templates/ldap.toml")),
    ("ldap_import", include_str!("../../templates/ldap_import.toml")),
    ("copy", include_str!("../../templates/copy.toml")),
    ("command", include_str!("../../templates/command.toml")),
    ("sync", include_str!("../../templates/sync.toml")),
];

/// `plimsoll init`.
pub(crate) fn init(matches: &ArgMatches) -> Result<Exit, Failure> {
    // A command is as good a name as its workload.
    let kind = match ONE_OFFS.iter().find(|one_off| one_off.command == text(matches, "kind")) {
        Some(one_off) => one_off.workload,
        None => text(matches, "kind"),
    };
    let output = text(matches, "output");
    let names: Vec<&str> = TEMPLATES.iter().map(|(name, _)| *name).collect();
    let template =
        TEMPLATES.iter().find(|(name, _)| *name == kind).map(|(_, text)| text).ok_or_else(|| {
            Failure::usage(format!(
                "error: no example experiment for `{kind}`\n  {}",
                model::problem::did_you_mean(kind, names)
            ))
        })?;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).open(output);
    file.and_then(|mut file| std::io::Write::write_all(&mut file, template.as_bytes())).map_err(|error| {
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => Failure::usage(format!(
                "error: {output} exists already and is not overwritten\n  name another file with --output"
            )),
            _ => Failure::failed(format!("{output} cannot be written: {error}")),
        }
    })?;
    output::result(&format!("wrote {output}\nnext: plimsoll check {output}"));
    Ok(Exit::Good)
}

/// An experiment file, with the flags applied.
pub(super) struct Written {
    pub(super) experiment: Experiment,
    file: String,
    /// As it was read.
    source: String,
    /// As it is kept.
    pub(super) text: String,
}

impl Written {
    /// A problem with its line in the file.
    pub(super) fn place(&self, problem: Problem) -> Problem {
        problem.in_file(&self.file, &self.source)
    }
}

/// What the flags of a command change in an experiment file.
pub(super) type Change<'a> = &'a dyn Fn(&mut Experiment, &model::Vocabulary) -> Result<(), Box<Problem>>;

fn read(file: &str, matches: &ArgMatches) -> Result<Written, Failure> {
    let smallest = matches.get_one::<String>("smallest");
    let prove = matches.get_flag("prove");
    let change: Change<'_> = &|experiment, vocabulary| {
        experiment.prove |= prove;
        smallest.map_or(Ok(()), |text| set_smallest(experiment, text, vocabulary))
    };
    read_changed(file, matches, (prove || smallest.is_some()).then_some(change))
}

/// Reads an experiment file, with `--set` and a change applied.
pub(super) fn read_changed(
    file: &str,
    matches: &ArgMatches,
    change: Option<Change<'_>>,
) -> Result<Written, Failure> {
    let source = files::read_named_text(file.as_ref(), super::NAMED_TEXT_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("error: {file} cannot be read: {error}")))?;
    let vocabulary = REGISTRY.vocabulary();
    let (experiment, mut problems) = Experiment::read(&source, file, &vocabulary);
    let Some(mut experiment) = experiment else { return Err(Failure::usage(problems)) };
    experiment.folder = std::path::absolute(file)
        .ok()
        .and_then(|path| path.parent().map(Path::to_path_buf))
        .unwrap_or_default();
    let assignments = texts(matches, "set");
    for assignment in &assignments {
        if let Err(problem) = model::experiment::set(&mut experiment, assignment, &vocabulary) {
            problems.push(*problem);
        }
    }
    if let Some(change) = change
        && let Err(problem) = change(&mut experiment, &vocabulary)
    {
        problems.push(*problem);
    }
    if !problems.is_empty() {
        let place = |problem: Problem| problem.in_file(file, &source);
        let mut problems = carry_out::with_contradictions(&experiment, problems, &place);
        problems.sort();
        return Err(Failure::usage(problems));
    }
    // The record contains the executed experiment: with flags it differs from the file.
    // Secrets that are written in the file are not recorded.
    let written_out = secrets::is_written_out(&mut experiment);
    let text = match assignments.is_empty() && change.is_none() && !written_out {
        true => source.clone(),
        false => model::experiment::write(&experiment, &vocabulary),
    };
    Ok(Written { experiment, file: file.into(), source, text })
}

/// Applies `--smallest FACTOR`, or `FACTOR=FROM..TO`, which also varies the factor.
fn set_smallest(
    experiment: &mut Experiment,
    text: &str,
    vocabulary: &model::Vocabulary,
) -> Result<(), Box<Problem>> {
    if text.contains('=') {
        let variation = model::experiment::variation(text, experiment, vocabulary)?;
        experiment.vary.retain(|other| other.factor != variation.factor);
        experiment.smallest = Some(variation.factor.clone());
        experiment.vary.push(variation);
    } else {
        experiment.smallest = Some(model::SettingPath(text.trim().into()));
    }
    Ok(())
}

/// `plimsoll check`.
pub(crate) fn check(matches: &ArgMatches) -> Result<Exit, Failure> {
    let written = read(text(matches, "file"), matches)?;
    let experiment = &written.experiment;
    let words = |problem| written.place(problem);
    let complete = carry_out::with_secrets(experiment, PromptPolicy::NotNow, &words)?;
    let root = HostRoot::live();
    let mut reached = Vec::new();
    let mut problems = carry_out::problems(&complete, &root, &words, &mut reached)?;
    let mut machines = Vec::new();
    if !experiment.machines.is_empty() && !matches.get_flag("offline") {
        let (surveyed, found) = carry_out::survey(&complete, &root, &words)?;
        for problem in found.0 {
            if !problems.0.contains(&problem) {
                problems.push(problem);
            }
        }
        machines = surveyed;
    }
    if !problems.is_empty() {
        machines.iter().for_each(|machine| output::say(&of_machine(machine)));
        return Err(Failure::usage(problems));
    }
    // The rounds of a proof depend on what is measured.
    let planned = Experiment { prove: false, ..experiment.clone() };
    let trials = analysis::design(&planned).planned().unwrap_or_default();
    if matches.get_flag("json") {
        let machines: Vec<_> = machines.iter().filter_map(machine_as_json).collect();
        let document = serde_json::json!({
            "format": "plimsoll.check/1", "experiment": experiment, "trials": trials, "machines": machines,
            "reached": reached,
        });
        output::verbatim(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
        return Ok(Exit::Good);
    }
    carry_out::size_notes(experiment, &words).iter().for_each(|note| output::say(note));
    let mut out = match (Search::of(experiment), &experiment.gate) {
        (Some(search), _) => format!("{}: {}\n", experiment.name, of_search(experiment, &search)),
        (None, Some(gate)) => format!("{}: {}\n", experiment.name, of_gate(gate)),
        (None, None) => format!("{}: {} trials\n\n", experiment.name, trials.len()),
    };
    for trial in &trials {
        out +=
            &format!("  {:>3}  {}  replicate {}\n", trial.number, trial.treatment.label(), trial.replicate);
    }
    if experiment.prove {
        out += "\n  then the proof: 4 to 8 rounds with the baseline and with each resource reduced by 30 %,\
                \n  and 4 to 8 rounds with more of each resource that throughput followed, if there is more\n";
    }
    if !experiment.dependencies.is_empty() {
        out += "\n  proxies, each at 0ms unless its delay is varied:\n";
    }
    for dependency in &experiment.dependencies {
        out += &format!("  {}\n", of_dependency(experiment, dependency));
    }
    for (at, note) in reached.iter().enumerate() {
        out += &format!("{}  {note}\n", if at == 0 { "\n" } else { "" });
    }
    for note in carry_out::notes(experiment) {
        out += &format!("\n{note}\n");
    }
    if Search::of(experiment).is_none() {
        out += &format!("\n{}", duration(experiment, trials.len()));
    }
    let hidden = crate::secrets::hidden(experiment);
    if matches.get_flag("verbose") && !hidden.is_empty() {
        out += &format!("\nhidden in records, reports and messages:\n  {}\n", hidden.join("\n  "));
    }
    if !experiment.machines.is_empty() && matches.get_flag("offline") {
        let machines = experiment.machines.load.iter().chain(&experiment.machines.watch);
        let machines: Vec<&str> = machines.map(model::Secret::shown).collect();
        out += &format!("\nnot reached, because of --offline: {}\n", machines.join(", "));
    }
    for (at, machine) in machines.iter().enumerate() {
        out += &format!("{}{}\n", if at == 0 { "\n" } else { "" }, of_machine(machine));
    }
    out += match machines.is_empty() {
        true => "\nall settings are valid on this host; nothing was changed",
        false => "\nall settings are valid on this host and on the machines; nothing was changed",
    };
    output::result(&out);
    Ok(Exit::Good)
}

/// "machine gen1: reached, plimsoll 1.2.0, 8 processors, clock +0.8 ms (known to 0.040 ms)".
fn of_machine(machine: &Surveyed) -> String {
    let Surveyed { name, found } = machine;
    match found {
        Ok(Found { host, version, cpus, clock_s: (offset, uncertainty) }) => {
            let own = env!("CARGO_PKG_VERSION");
            let differs = if version == own { String::new() } else { format!(" (this program is {own})") };
            format!(
                "machine {name}: reached, host {host}, plimsoll {version}{differs}, {cpus} processors, clock {:+.1} ms (known to {:.3} ms)",
                offset * 1e3,
                uncertainty * 1e3
            )
        }
        Err(_) => format!("machine {name}: not reached"),
    }
}

fn machine_as_json(machine: &Surveyed) -> Option<serde_json::Value> {
    let Found { host, version, cpus, clock_s: (offset, uncertainty) } = machine.found.as_ref().ok()?;
    Some(serde_json::json!({
        "name": machine.name, "host": host, "plimsoll": version, "cpus": cpus,
        "clock_offset_s": offset, "clock_uncertainty_s": uncertainty,
    }))
}

/// A dependency, its proxy, and what connects to it.
fn of_dependency(experiment: &Experiment, dependency: &Dependency) -> String {
    let listen = dependency.listen.as_deref().unwrap_or("a free port of 127.0.0.1");
    let is_of_load = experiment.dependencies_of_load().contains(dependency.name.as_str());
    let used = if is_of_load { ", used by the load" } else { "" };
    format!("{} -> {} for `{}`{used}", listen, dependency.authority(), dependency.name)
}

/// The search that would be carried out.
fn of_search(experiment: &Experiment, search: &Search) -> String {
    let configurations = analysis::configuration_count(experiment);
    let each = match configurations {
        1 => String::new(),
        count => format!(", for each of {count} configurations"),
    };
    let what = match &search.axis {
        Axis::Levels { factor, levels } => format!(
            "search for the smallest {}{each}\n\n  from {} to {}, {} levels",
            factor.0,
            search.text(search.min),
            search.text(search.max),
            levels.len()
        ),
        Axis::Users | Axis::Rate => format!(
            "search for the limit{each}\n\n  from {} to {}, first {}",
            search.text(search.min),
            search.text(search.max),
            search.text(search.first)
        ),
    };
    format!(
        "{what}; short trials of {}, full-length trials of {}\n  \
         which ones depends on the measurements: usually 5 to 20 trials, at most {}",
        quantity::duration(search.short),
        quantity::duration(search.full),
        analysis::SEARCH_TRIALS_MAX,
    )
}

/// What a gate compares, in how many rounds.
fn of_gate(gate: &model::Gate) -> String {
    let metrics: Vec<&str> = gate.metrics.iter().map(|metric| metric.text.as_str()).collect();
    let slowdown = report::text::percent(gate.slowdown);
    format!(
        "gate on {}\n\n  {} to {} rounds, each with one trial of both configurations in random order:\n  \
         until a slowdown of {slowdown} would be found four times in five",
        metrics.join(", "),
        model::gate::ROUNDS_MIN,
        gate.rounds_max
    )
}

/// How long the trials take, as far as that is known beforehand.
fn duration(experiment: &Experiment, trials: usize) -> String {
    let Ok(load) = Load::read(&experiment.load) else { return String::new() };
    let (warm_up, about) = match load.warm_up {
        WarmUp::For(length) => (length, ""),
        WarmUp::Auto => (model::steady::STEADY_WINDOWS as u64 * load.warm_up_round, "at least "),
    };
    match load.measure {
        Some(measure) => {
            let total = (warm_up + measure) * trials as u64 / model::SECOND * model::SECOND;
            format!("{about}{} of load, plus the creation of the data", quantity::duration(total))
        }
        None => "each trial ends when its work is complete".into(),
    }
}

/// `plimsoll schema`.
pub(crate) fn schema() -> Result<Exit, Failure> {
    let schema = model::experiment::schema(&REGISTRY.vocabulary());
    output::verbatim(&serde_json::to_string_pretty(&schema).map_err(Failure::failed)?);
    Ok(Exit::Good)
}

/// `plimsoll run`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    if let Some(directory) = matches.get_one::<String>("resume") {
        let path = Path::new(directory);
        let (journal, mut experiment) = super::restore::before_resuming(path)?;
        set_secrets(&mut experiment, &texts(matches, "set"))?;
        let resume = Resume { directory: path, journal };
        return carry_out_and_show(&experiment, "", &options(matches)?, Some(resume), &|problem| problem);
    }
    let written = read(text(matches, "file"), matches)?;
    let words = |problem| written.place(problem);
    carry_out_and_show(&written.experiment, &written.text, &options(matches)?, None, &words)
}

/// Applies `--set` to a resumed experiment: only secrets, which its journal does not contain. Anything else
/// would change the experiment.
fn set_secrets(experiment: &mut Experiment, assignments: &[String]) -> Result<(), Failure> {
    let vocabulary = REGISTRY.vocabulary();
    let table = vocabulary.workloads.iter().find(|info| info.name == experiment.workload.kind);
    let is_secret = |path: &str| {
        let (table, name) = match path.trim().split_once('.') {
            Some(("workload", name)) => (table.map_or(&[][..], |info| info.settings), name),
            Some(("target", name)) => (model::experiment::TARGET_SETTINGS, name),
            _ => return false,
        };
        table.iter().any(|setting| setting.name == name && setting.kind.is_secret())
    };
    let mut problems = model::Problems::new();
    for assignment in assignments {
        let path = assignment.split('=').next().unwrap_or_default();
        if !is_secret(path) {
            problems.push(Problem::new(
                format!("--set {path}: a resumed run keeps its settings"),
                "set only secrets, which are not recorded; start a new run for other settings",
            ));
        } else if let Err(problem) = model::experiment::set(experiment, assignment, &vocabulary) {
            problems.push(*problem);
        }
    }
    problems.or(()).map_err(Failure::usage)
}
