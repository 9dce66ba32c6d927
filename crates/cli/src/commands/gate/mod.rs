//! `plimsoll gate`: does a new version make the system slower? Two builds are measured in turns.

mod builds;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use model::experiment::{Variation, target};
use model::gate::{GATE_SETTINGS, Gate, GateMetric};
use model::{Experiment, Level, Problem, SecretParts, SettingKind, SettingPath, Settings, Vocabulary};

use self::builds::{Builds, Wanted};
use super::experiment::{Change, read_changed};
use super::text;
use crate::carry_out::{Failure, Words, carry_out, exit_of, show};
use crate::exit::Exit;
use crate::one_off::{options, run_flags, texts};

/// What `--base` and `--head` vary: the directory of the target, or that of a command.
const OF_TARGET: &str = "target.directory";
const OF_COMMAND: &str = "workload.directory";

/// Launches in each trial of a command.
const LAUNCHES: &str = "5";

/// The experiment of a command without a file. One launch before each trial is not counted.
const COMMAND: &str = "[workload.command]\ncommand = \"true\"\nwarmup = 1\n[gate]\n";

const EXAMPLES: &str = "\
Examples:
  plimsoll gate --base-commit origin/main --build 'cargo build --release' -- ./target/release/convert sample.xml
  plimsoll gate --base ../base --head . -- ./target/release/convert sample.xml
  plimsoll gate bench.toml --base ../base --head . --metric response.p95 --slowdown 5%
  plimsoll gate bench.toml --summary \"$GITHUB_STEP_SUMMARY\"";

/// Its command line.
pub(crate) fn arguments() -> Command {
    let directory = |name: &'static str, of: &str| {
        let help = format!(
            "Directory of the {of} version: the working directory of the target of FILE, or of COMMAND. Default: those in [vary] of FILE"
        );
        Arg::new(name).long(name).value_name("DIR").help(help)
    };
    let setting = |name: &'static str, shown: &'static str, value: &'static str| {
        let info = GATE_SETTINGS.iter().find(|info| info.name == name);
        let default = match info.map_or("", |info| info.default) {
            "" => String::new(),
            default => format!(" [default: {default}]"),
        };
        let about = info.map_or("", |info| info.about);
        Arg::new(name).long(shown).value_name(value).help(format!("{about}{default}"))
    };
    run_flags(Command::new("gate").about("Check whether a new version is slower: two builds measured in turns, until a slowdown would be found"))
        .after_help(EXAMPLES)
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required_unless_present("command")
                .conflicts_with("command")
                .help("An experiment file that starts the target or a command"),
        )
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .num_args(1..)
                .last(true)
                .requires("versions")
                .help("Instead of FILE: a program and its arguments, timed until it exits"),
        )
        .group(ArgGroup::new("versions").args(["base", "base-commit"]))
        .arg(
            Arg::new("base-commit")
                .long("base-commit")
                .value_name("COMMIT")
                .help("Instead of directories: the old version is what --head-commit and this branch or commit have in common; both are checked out"),
        )
        .arg(
            Arg::new("head-commit")
                .long("head-commit")
                .value_name("COMMIT")
                .default_value("HEAD")
                .help("The new version"),
        )
        .arg(
            Arg::new("build")
                .long("build")
                .value_name("COMMAND")
                .requires("base-commit")
                .help("Shell command that builds each of them, in its own directory"),
        )
        .arg(
            Arg::new("builds")
                .long("builds")
                .value_name("DIR")
                .requires("base-commit")
                .help("Folder of both builds, which stays, so that the next gate builds only what has changed [default: a temporary one]"),
        )
        .arg(directory("base", "old").requires("head"))
        .arg(directory("head", "new").requires("base"))
        .arg(setting("metric", "metric", "METRIC").action(ArgAction::Append))
        .arg(setting("slowdown", "slowdown", "PERCENT"))
        .arg(setting("rounds_max", "rounds-max", "N"))
        .arg(
            Arg::new("repeat")
                .long("repeat")
                .value_name("N")
                .requires("command")
                .help(format!("Launches of COMMAND in each trial [default: {LAUNCHES}]")),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("PATH=VALUE")
                .action(ArgAction::Append)
                .conflicts_with("command")
                .help("Override one setting of the file"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(clap::value_parser!(u64))
                .help("Seed of the random order of trials [default: that of FILE, or 1]"),
        )
        .arg(
            Arg::new("summary")
                .long("summary")
                .value_name("FILE")
                .help("Append the result as Markdown to this file, such as the summary of a CI job"),
        )
}

/// Carries it out.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let options = options(matches)?;
    let summary = matches.get_one::<String>("summary").map(Path::new);
    let one = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let builds = match one("base-commit") {
        Some(base) => Some(Builds::make(&Wanted {
            base,
            head: one("head-commit").unwrap_or("HEAD"),
            build: one("build"),
            folder: one("builds").map(Path::new),
            quiet: options.quiet,
        })?),
        None => None,
    };
    let directories = match (&builds, one("base").zip(one("head"))) {
        (Some(builds), _) => Some(builds.directories()),
        (None, Some((base, head))) => Some([base.to_string(), head.to_string()]),
        (None, None) => None,
    };
    let title = builds.as_ref().map(|builds| format!("gate {}", builds.commits[1]));
    if matches.contains_id("command") {
        let vocabulary = crate::registry::REGISTRY.vocabulary();
        let mut experiment = Experiment::parse(COMMAND, "", &vocabulary).map_err(Failure::usage)?;
        of_command(&mut experiment, matches, directories.unwrap_or_default(), &vocabulary)
            .map_err(|problem| Failure::usage(*problem))?;
        experiment.name = title.unwrap_or(experiment.name);
        let written = model::experiment::write(&experiment, &vocabulary);
        return measure(&experiment, &written, &options, summary, &|problem| problem);
    }
    let file = text(matches, "file");
    let change: Change<'_> =
        &|experiment, vocabulary| of_file(experiment, matches, directories.as_ref(), vocabulary);
    let written = read_changed(file, matches, Some(change))?;
    measure(&written.experiment, &written.text, &options, summary, &|problem| written.place(problem))
}

fn measure(
    experiment: &Experiment,
    text: &str,
    options: &crate::carry_out::Options,
    summary: Option<&Path>,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    // Before minutes of measurement, not after them.
    let mut summary = summary.map(|path| Ok((path, open(path)?))).transpose()?;
    let (document, study, ended) = carry_out(experiment, text, options, None, words)?;
    show(&document, &study, options.json, false);
    if let Some((path, file)) = &mut summary {
        file.write_all(report::gate_summary(&document).as_bytes())
            .and_then(|()| files::settle(&*file))
            .map_err(|error| cannot_write(path, &error))?;
    }
    Ok(exit_of(&document, &ended))
}

fn open(path: &Path) -> Result<std::fs::File, Failure> {
    files::Output::append(path, 0o666).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("--summary: {} cannot be written: {error}", path.display()))
}

/// The experiment that times a command in two directories.
fn of_command(
    experiment: &mut Experiment,
    matches: &ArgMatches,
    [base, head]: [String; 2],
    vocabulary: &Vocabulary,
) -> Result<(), Box<Problem>> {
    let words = texts(matches, "command");
    experiment.name = format!("gate {}", SecretParts::Command.hide(words.first().map_or("", String::as_str)));
    let settings = &mut experiment.workload.settings;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    settings.set("command", SettingKind::Secrets(SecretParts::Command).list(&words));
    let repeat = matches.get_one::<String>("repeat").map_or(LAUNCHES, String::as_str);
    let count = SettingKind::Count { min: 1, max: 1_000_000 }.parse(repeat);
    settings.set("repeat", count.map_err(|what| wrong("--repeat", &what, ""))?);
    vary(experiment, OF_COMMAND, base, head)?;
    gate_flags(experiment, matches, vocabulary)
}

/// The experiment of a file, with the flags applied.
fn of_file(
    experiment: &mut Experiment,
    matches: &ArgMatches,
    directories: Option<&[String; 2]>,
    vocabulary: &Vocabulary,
) -> Result<(), Box<Problem>> {
    if let Some(directories) = directories {
        let setting = match &experiment.target {
            Some(target) if target.settings.has(&target::START) => OF_TARGET,
            None if experiment.workload.settings.0.contains_key("command")
                && experiment.workload.kind == "command" =>
            {
                OF_COMMAND
            }
            _ => {
                return Err(wrong(
                    "--base and --head",
                    "the file starts neither a target nor a command, whose directory they could be",
                    "add [target] with `start` and `ready`, or state the two versions in [vary]",
                ));
            }
        };
        if !experiment.vary.is_empty() {
            let help = "remove [vary], or leave out --base and --head";
            return Err(wrong("--base and --head", "the file varies something already", help));
        }
        // Relative to the folder of the file, as its other paths, and by the command that has no such folder.
        let inside = match experiment.level(&SettingPath(setting.into())) {
            Some(Level::Text(inside)) => PathBuf::from(inside),
            _ => PathBuf::new(),
        };
        let [base, head] = directories.each_ref().map(|directory| {
            let path = std::path::absolute(Path::new(directory)).unwrap_or_default();
            let path = if inside.as_os_str().is_empty() { path } else { path.join(&inside) };
            path.display().to_string()
        });
        vary(experiment, setting, base, head)?;
    }
    gate_flags(experiment, matches, vocabulary)
}

fn vary(experiment: &mut Experiment, setting: &str, base: String, head: String) -> Result<(), Box<Problem>> {
    if base == head {
        let help = "build both versions in directories of their own, such as with `git worktree add`";
        return Err(wrong("--base and --head", &format!("both are {base}"), help));
    }
    experiment.vary.push(Variation {
        factor: SettingPath(setting.into()),
        baseline: Some(Level::Text(base)),
        levels: vec![Level::Text(head)],
        on: None,
        parameters: Default::default(),
        line: 0,
    });
    Ok(())
}

/// The gate of the file, or the default one, with the flags applied.
fn gate_flags(
    experiment: &mut Experiment,
    matches: &ArgMatches,
    vocabulary: &Vocabulary,
) -> Result<(), Box<Problem>> {
    experiment.seed = matches.get_one("seed").copied().unwrap_or(experiment.seed);
    let info = vocabulary.workloads.iter().find(|info| info.name == experiment.workload.kind);
    let has_further = info.is_some_and(|info| info.has_further_operations(&experiment.workload.settings));
    let mut gate = experiment.gate.take().unwrap_or_else(|| {
        Gate::read(&Settings::defaults(GATE_SETTINGS), &experiment.load, info.copied(), has_further).0
    });
    let metrics = texts(matches, "metric");
    if !metrics.is_empty() {
        let operations = info.map_or(&[][..], |info| info.operations);
        let read = metrics.iter().map(|text| {
            GateMetric::parse(text, operations, has_further).map_err(|what| wrong("--metric", &what, ""))
        });
        gate.metrics = read.collect::<Result<_, _>>()?;
    }
    let level = |name: &str, flag: &str| -> Result<Option<Level>, Box<Problem>> {
        let info = GATE_SETTINGS.iter().find(|info| info.name == name);
        let text = matches.get_one::<String>(name);
        let parsed = info.zip(text).map(|(info, text)| info.kind.parse(text));
        parsed.transpose().map_err(|what| wrong(flag, &what, ""))
    };
    if let Some(Level::Percent(percent)) = level("slowdown", "--slowdown")? {
        gate.slowdown = percent / 100.0;
    }
    if let Some(Level::Count(rounds)) = level("rounds_max", "--rounds-max")? {
        gate.rounds_max = rounds as u32;
    }
    if let Some((what, help)) = gate.problems().into_iter().next() {
        return Err(Box::new(Problem::new(what, help)));
    }
    experiment.gate = Some(gate);
    Ok(())
}

fn wrong(flag: &str, what: &str, help: &str) -> Box<Problem> {
    Box::new(Problem::new(format!("{flag}: {what}"), help))
}
