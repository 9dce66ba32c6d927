//! What `plimsoll exec` has beside the settings of its workload: several commands compared, and parameters of commands.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches};
use model::experiment::Variation;
use model::secret::HIDDEN;
use model::{Experiment, Level, Problem, Problems, Secret, SettingPath};

use crate::carry_out::{Failure, Options, Words, carry_out, exit_of, show};
use crate::exit::Exit;
use crate::one_off::texts;
use crate::registry::REGISTRY;

/// Trials of each command when nothing is said, so that the commands take turns.
const REPLICATES: u32 = 5;
/// Launches of each command when nothing is said.
const LAUNCHES: u64 = 10;
/// Most commands of one comparison.
const COMMANDS_MAX: usize = 1000;

/// `--parameter`.
pub(crate) fn parameter() -> Arg {
    Arg::new("parameter")
        .long("parameter")
        .short('L')
        .value_name("NAME=VALUE,...")
        .action(ArgAction::Append)
        .help("Compare the command with each of these values in place of {NAME}; 1..8 means each number from 1 to 8; several make every combination")
        .help_heading("Experiment")
}

/// `--export-json` and `--export-markdown`.
pub(crate) fn exports() -> [Arg; 2] {
    [("export-json", "JSON"), ("export-markdown", "Markdown")].map(|(name, form)| {
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .help(format!("Write the launches to this file too, in the {form} of hyperfine"))
            .help_heading("Output")
    })
}

/// Carries out the experiment, shows its result and writes the exports.
pub(crate) fn run(
    experiment: &Experiment,
    matches: &ArgMatches,
    options: &Options,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    let text = model::experiment::write(experiment, &REGISTRY.vocabulary());
    let (document, study, ended) = carry_out(experiment, &text, options, None, words)?;
    show(&document, &study, options.json, false);
    let written = [
        ("export-json", report::hyperfine_json(&document, &study)),
        ("export-markdown", report::hyperfine_markdown(&document)),
    ];
    for (name, content) in written {
        if let (Some(path), Some(content)) = (matches.get_one::<String>(name), content) {
            files::Output::write_file(Path::new(path), content.as_bytes())
                .map_err(|error| Failure::failed(format!("--{name}: {path} cannot be written: {error}")))?;
        }
    }
    Ok(exit_of(&document, &ended))
}

/// Whether a word is a quoted command line: a program with arguments.
fn is_line(word: &str) -> bool {
    word.trim().contains(char::is_whitespace)
}

/// Whether these words are command lines, each quoted as one word, as hyperfine takes them; otherwise they are one command and
/// its arguments. Behind `--` they always are one command. Flags may follow the command lines.
pub(crate) fn are_command_lines(words: &[String]) -> bool {
    let lines = words.split(|word| word.starts_with('-')).next().unwrap_or_default();
    let begins_with_program = |line: &String| {
        // The name of a file is an argument, even if it begins with the name of a program.
        !Path::new(line).exists() && line.split_whitespace().next().is_some_and(workloads::is_program)
    };
    let Some((first, others)) = lines.split_first() else { return false };
    (is_line(first) || (others.iter().any(|word| is_line(word)) && lines.iter().all(begins_with_program)))
        && !std::env::args_os().any(|word| word == "--")
}

/// Makes an experiment of several commands, or of several values of a parameter, a comparison of them: trials of all commands
/// take turns in random order, after a launch that is not counted.
pub(crate) fn compare(matches: &ArgMatches, experiment: &mut Experiment, problems: &mut Problems) {
    let words = texts(matches, "command");
    let parameters: Vec<(String, Vec<String>)> = texts(matches, "parameter")
        .iter()
        .filter_map(|text| read_parameter(text).map_err(|problem| problems.push(*problem)).ok())
        .collect();
    let is_several = words.len() > 1 && are_command_lines(&words);
    if !is_several && parameters.is_empty() {
        return;
    }
    let words: Vec<Secret> = words.iter().map(|word| Secret::plain(word)).collect();
    let mut commands: Vec<Vec<Secret>> = match is_several {
        true => words.into_iter().map(|line| vec![line]).collect(),
        false => vec![words],
    };
    for (name, values) in &parameters {
        let place = format!("{{{name}}}");
        let has_place = |command: &[Secret]| command.iter().any(|word| word.reveal().contains(&place));
        if !commands.iter().any(|command| has_place(command)) {
            problems.push(Problem::new(
                format!("--parameter {name}: no command has `{place}`"),
                format!("write {place} where the value belongs"),
            ));
            return;
        }
        let mut replaced = Vec::new();
        for command in commands {
            let with = |value: &String| {
                let shown = Secret::of_level(name, value).map_or(value.clone(), |_| HIDDEN.into());
                command.iter().map(|word| Secret::filled(word, &place, value, &shown)).collect()
            };
            match has_place(&command) {
                true => replaced.extend(values.iter().map(with)),
                false => replaced.push(command),
            }
        }
        commands = replaced;
        if commands.len() > COMMANDS_MAX {
            problems.push(Problem::new(
                format!("--parameter {name}: more than {COMMANDS_MAX} commands"),
                "give fewer values",
            ));
            return;
        }
    }
    let lines = commands.into_iter().map(|words| match words.as_slice() {
        [line] if is_line(line.reveal()) => Secret::command(line.reveal(), line.shown()),
        words => {
            // Only NUL cannot be quoted, and an argument has none.
            let text = shlex::try_join(words.iter().map(Secret::reveal)).unwrap_or_default();
            let shown = words.iter().map(|word| match word.shown() == HIDDEN {
                true => HIDDEN.into(),
                false => shlex::try_quote(word.shown()).unwrap_or_default(),
            });
            let shown: Vec<std::borrow::Cow<'_, str>> = shown.collect();
            Secret::command(&text, &shown.join(" "))
        }
    });
    let mut lines: Vec<Secret> = lines.collect();
    Secret::distinguish(&mut lines.iter_mut().collect::<Vec<_>>());
    let levels: Vec<Level> = lines.into_iter().map(|line| Level::List(vec![Level::Secret(line)])).collect();
    let settings = &mut experiment.workload.settings;
    let is_given = |id: &str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
    let Some((first, others)) = levels.split_first() else { return };
    settings.set("command", first.clone());
    if !is_given("warmup") {
        settings.set("warmup", Level::Count(1));
    }
    if others.is_empty() {
        return;
    }
    if !is_given("replicates") {
        // The requested launches are divided between the trials of a command.
        let launches = match settings.level("repeat") {
            Some(Level::Count(launches)) if is_given("repeat") => *launches,
            _ => LAUNCHES,
        };
        let replicates = launches.clamp(1, u64::from(REPLICATES));
        experiment.replicates = replicates as u32;
        settings.set("repeat", Level::Count(launches.div_ceil(replicates)));
    }
    experiment.vary.push(Variation {
        factor: SettingPath("workload.command".into()),
        baseline: Some(first.clone()),
        levels: others.to_vec(),
        on: None,
        parameters: Default::default(),
        line: 0,
    });
}

/// `NAME=a,b,c` or `NAME=1..8`.
fn read_parameter(text: &str) -> Result<(String, Vec<String>), Box<Problem>> {
    let wrong = |what: &str| {
        Box::new(Problem::new(
            format!("--parameter {text}: {what}"),
            "such as --parameter threads=1,2,4 or --parameter level=1..9",
        ))
    };
    let (name, values) = text.split_once('=').ok_or_else(|| wrong("no values"))?;
    let name = name.trim();
    if name.is_empty() {
        return Err(wrong("no name"));
    }
    let range = values
        .split_once("..")
        .and_then(|(begin, end)| Some((begin.trim().parse::<i64>().ok()?, end.trim().parse::<i64>().ok()?)));
    let values: Vec<String> = match range {
        Some((begin, end)) if begin > end => return Err(wrong("the range is empty")),
        Some((begin, end)) => (begin..=end).take(COMMANDS_MAX + 1).map(|number| number.to_string()).collect(),
        None => values.split(',').map(|value| value.trim().to_string()).collect(),
    };
    Ok((name.into(), values))
}
