//! Secrets of an experiment: placeholders are resolved once, before the experiment is checked or executed.

use std::io::{Read, Write};
use std::path::Path;

use model::experiment::TARGET_SETTINGS;
use model::{Experiment, Level, Placeholder, Problem, Problems, Secret, SecretParts, SettingInfo};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex};

use crate::registry::REGISTRY;

/// Whether the user may be asked for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptPolicy {
    /// The experiment will be executed.
    Allowed,
    /// It is only checked: a dummy text replaces the secret.
    NotNow,
}

/// A secret of an experiment, and where it is.
struct Place<'a> {
    /// The name of its setting.
    name: String,
    /// The line in the file; 0 if it is not known.
    line: u32,
    /// Whether a shell reads it, so that its placeholders are not replaced.
    is_command: bool,
    /// Whether it is a level of a factor.
    is_varied: bool,
    secret: &'a mut Secret,
}

/// The secrets of an experiment.
fn secrets(experiment: &mut Experiment) -> Vec<Place<'_>> {
    let vocabulary = REGISTRY.vocabulary();
    let workload = vocabulary.workloads.iter().find(|info| info.name == experiment.workload.kind);
    let of_workload = workload.map_or(&[][..], |info| info.settings);
    let is_command = |table: &[SettingInfo], name: &str| {
        table.iter().any(|info| info.name == name && info.kind.is_command())
    };
    let mut all = Vec::new();
    for (name, setting) in &mut experiment.workload.settings.0 {
        let is_command = is_command(of_workload, name);
        all.extend(setting.level.secrets_mut().into_iter().map(|secret| Place {
            name: name.clone(),
            line: setting.line,
            is_command,
            is_varied: false,
            secret,
        }));
    }
    for variation in &mut experiment.vary {
        let name = variation.factor.name().to_string();
        let is_command = match variation.factor.area() {
            "workload" => is_command(of_workload, &name),
            "target" => is_command(TARGET_SETTINGS, &name),
            _ => false,
        };
        let levels = variation.baseline.iter_mut().chain(&mut variation.levels);
        let of = |level| Level::secrets_mut(level).into_iter();
        all.extend(levels.flat_map(of).map(|secret| Place {
            name: name.clone(),
            line: variation.line,
            is_command,
            is_varied: true,
            secret,
        }));
        // Those that are no command lines have no placeholders either.
        all.extend(variation.parameters.iter_mut().map(|(parameter, secret)| Place {
            name: format!("{}.{parameter}", variation.factor),
            line: variation.line,
            is_command: true,
            is_varied: true,
            secret,
        }));
    }
    if let Some(target) = &mut experiment.target {
        for (name, setting) in &mut target.settings.0 {
            let is_command = is_command(TARGET_SETTINGS, name);
            all.extend(setting.level.secrets_mut().into_iter().map(|secret| Place {
                name: format!("target.{name}"),
                line: setting.line,
                is_command,
                is_varied: false,
                secret,
            }));
        }
        all.extend(target.environment.iter_mut().map(|(name, secret)| Place {
            name: format!("environment.{name}"),
            line: 0,
            is_command: false,
            is_varied: false,
            secret,
        }));
    }
    let machines = experiment.machines.load.iter_mut().chain(&mut experiment.machines.watch);
    all.extend(machines.map(|secret| Place {
        name: "machines".into(),
        line: 0,
        is_command: true,
        is_varied: true,
        secret,
    }));
    all.extend(experiment.watch.iter_mut().map(|secret| Place {
        name: "watch".into(),
        line: 0,
        is_command: false,
        is_varied: false,
        secret,
    }));
    all
}

/// Whether the experiment contains a secret in clear text, so that its text must not be recorded.
pub(crate) fn is_written_out(experiment: &mut Experiment) -> bool {
    secrets(experiment).iter().any(|place| place.secret.shown() != place.secret.reveal())
}

/// What of an experiment is hidden in records, reports and messages: the setting, what is shown, and why.
pub(crate) fn hidden(experiment: &Experiment) -> Vec<String> {
    let mut experiment = experiment.clone();
    let of = |Place { name, secret, .. }: Place<'_>| {
        let why = secret.why_hidden()?;
        Some(format!("{name}: {secret} ({why})"))
    };
    let mut all: Vec<String> = secrets(&mut experiment).into_iter().filter_map(of).collect();
    // The level of a setting is the baseline of its factor.
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|line| seen.insert(line.clone()));
    all
}

/// Replaces placeholders by secrets; reports all problems.
pub(crate) fn resolve(mut experiment: Experiment, asking: PromptPolicy) -> Result<Experiment, Problems> {
    let folder = experiment.folder.clone();
    let mut problems = Problems::new();
    let mut typed: Vec<(String, String)> = Vec::new();
    for Place { name, line, is_command, is_varied, secret } in secrets(&mut experiment) {
        let resolved = match is_command {
            true if secret.is_missing() => Err((
                format!("what is hidden in `{secret}` is not recorded"),
                match is_varied {
                    true => "write it again in a file, preferably as \"$NAME\", which the shell of a command reads from the environment",
                    false => "set it again, preferably with \"$NAME\", which the shell of a command reads from the environment",
                }
                .into(),
            )),
            true => Ok(()),
            false => resolve_one(secret, &folder, asking, &mut typed),
        };
        // The words of one command are one problem.
        let last = problems.0.last().map(|problem| (problem.line, problem.what.as_str()));
        let about = format!("`{name}`: what is hidden");
        if is_command && last.is_some_and(|(last, what)| last == line && what.starts_with(&about)) {
            continue;
        }
        if let Err((what, help)) = resolved {
            problems.push(Problem { line, ..Problem::new(format!("`{name}`: {what}"), help) });
        }
    }
    problems.or(experiment)
}

/// A secret of a command line, with its placeholders replaced.
pub(crate) fn resolve_text(text: &str) -> Result<Secret, String> {
    let mut secret = Secret::new(text, SecretParts::Whole);
    let resolved = resolve_one(&mut secret, Path::new("."), PromptPolicy::Allowed, &mut Vec::new());
    resolved.map(|()| secret).map_err(|(what, help)| match help.is_empty() {
        true => what,
        false => format!("{what}\n  {help}"),
    })
}

/// An entry of `watch` of a command line, with its placeholders replaced.
pub(crate) fn resolve_watched(entry: &str) -> Result<Secret, String> {
    let mut secret = model::experiment::watched(entry);
    let resolved = resolve_one(&mut secret, Path::new("."), PromptPolicy::Allowed, &mut Vec::new());
    resolved.map(|()| secret).map_err(|(what, help)| format!("{what}\n  {help}").trim_end().to_string())
}

fn resolve_one(
    secret: &mut Secret,
    folder: &Path,
    asking: PromptPolicy,
    typed: &mut Vec<(String, String)>,
) -> Result<(), (String, String)> {
    if secret.is_missing() {
        return Err((
            format!("the secret `{secret}` is not recorded"),
            "set it again, preferably as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}".into(),
        ));
    }
    secret.resolve(|placeholder| match placeholder {
        Placeholder::Environment(name) => std::env::var(name).map_err(|_| {
            (format!("the environment variable {name} is not set"), format!("export {name} before the run"))
        }),
        Placeholder::File(path) => {
            files::secret::read_line(&folder.join(path)).map_err(|error| (error.to_string(), String::new()))
        }
        // Not a secret: it is replaced when its proxy runs.
        Placeholder::Dependency(name) => Ok(format!("${{dependency:{name}}}")),
        Placeholder::Prompt(_) if asking == PromptPolicy::NotNow => Ok("typed".into()),
        Placeholder::Prompt(words) => {
            if let Some((_, text)) = typed.iter().find(|(known, _)| known == words) {
                return Ok(text.clone());
            }
            let text = prompt(words).map_err(|error| {
                (
                    format!("`{words}` cannot be read from the terminal: {error}"),
                    "use ${env:NAME} or ${file:PATH}".to_string(),
                )
            })?;
            typed.push((words.to_string(), text.clone()));
            Ok(text)
        }
    })
}

/// The character of Ctrl-C in raw input.
const CTRL_C: u8 = 3;

/// Maximum length of a terminal line.
const LINE_MAX: usize = 4096;

/// Prompts on the terminal without echo, even if standard input and output are redirected.
fn prompt(words: &str) -> std::io::Result<String> {
    let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let before = rustix::termios::tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    silent.local_modes.insert(LocalModes::ECHONL);
    // Ctrl-C ends the line instead of the program, which would leave echo disabled.
    silent.local_modes.remove(LocalModes::ISIG);
    silent.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    write!(terminal, "{words}: ")?;
    rustix::termios::tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let mut line = [0; LINE_MAX];
    // A terminal delivers one line per read.
    let read = terminal.read(&mut line);
    rustix::termios::tcsetattr(&terminal, OptionalActions::Flush, &before)?;
    let line = &line[..read?];
    if line.is_empty() {
        return Err(std::io::Error::other("the input has ended"));
    }
    if line.contains(&CTRL_C) {
        return Err(std::io::Error::other("interrupted"));
    }
    let line = std::str::from_utf8(line).map_err(std::io::Error::other)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_string())
}
