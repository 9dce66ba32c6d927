//! Secrets of an experiment: placeholders are resolved once, before the experiment is checked or executed.

use std::io::{Read, Write};
use std::path::Path;

use model::{Experiment, Placeholder, Problem, Problems, Secret, SecretParts};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex};

/// Whether the user may be asked for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptPolicy {
    /// The experiment will be executed.
    Allowed,
    /// It is only checked: a dummy text replaces the secret.
    NotNow,
}

/// The secrets of an experiment, each with its setting and line.
fn secrets(experiment: &mut Experiment) -> impl Iterator<Item = (String, u32, &mut Secret)> {
    let settings = experiment.workload.settings.0.iter_mut();
    let settings = settings.map(|(name, setting)| (name.clone(), setting.line, &mut setting.level));
    let varied = experiment.vary.iter_mut().flat_map(|variation| {
        let name = variation.factor.name().to_string();
        let levels = variation.baseline.iter_mut().chain(&mut variation.levels);
        levels.map(move |level| (name.clone(), 0, level))
    });
    let of_levels = settings.chain(varied).flat_map(|(name, line, level)| {
        level.secrets_mut().into_iter().map(move |secret| (name.clone(), line, secret))
    });
    let variables = experiment.target.iter_mut().flat_map(|target| &mut target.environment);
    let watched = experiment.watch.iter_mut().map(|entry| ("watch".to_string(), 0, entry));
    let variables = variables.map(|(name, secret)| (format!("environment.{name}"), 0, secret));
    of_levels.chain(variables).chain(watched)
}

/// Whether the experiment contains a secret in clear text, so that its text must not be recorded.
pub(crate) fn is_written_out(experiment: &mut Experiment) -> bool {
    secrets(experiment).any(|(_, _, secret)| secret.to_string() != secret.reveal())
}

/// What of an experiment is hidden in records, reports and messages: the setting, what is shown, and why.
pub(crate) fn hidden(experiment: &Experiment) -> Vec<String> {
    let mut experiment = experiment.clone();
    let of = |(name, _, secret): (String, u32, &mut Secret)| {
        let why = secret.why_hidden()?;
        Some(format!("{name}: {secret} ({why})"))
    };
    secrets(&mut experiment).filter_map(of).collect()
}

/// Replaces placeholders by secrets; reports all problems.
pub(crate) fn resolve(mut experiment: Experiment, asking: PromptPolicy) -> Result<Experiment, Problems> {
    let folder = experiment.folder.clone();
    let mut problems = Problems::new();
    let mut typed: Vec<(String, String)> = Vec::new();
    for (name, line, secret) in secrets(&mut experiment) {
        if let Err((what, help)) = resolve_one(secret, &folder, asking, &mut typed) {
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
