//! The processes of a trial: the preparation, and where programs are found.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use engine::clock::Clock;
use engine::shell::SHELL;
use engine::workload::LoadError;
use model::{Secret, quantity};

use super::lines::Lines;
use super::settings::SyncSettings;
use crate::group::{Ending, Group, Guard, set_search_path};

/// How often the preparation is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How often progress is reported.
const TELL_EVERY: model::Nanos = 200 * model::MILLISECOND;

/// A shell command in the folder of the trial.
pub(super) fn shell(script: &str, settings: &SyncSettings) -> Command {
    let mut command = Command::new(SHELL);
    command.args(["-c", script]).current_dir(&settings.directory);
    set_search_path(&mut command);
    command
}

/// Launches a command as a group of its own, its output as lines.
pub(super) fn launch<'a>(
    command: &mut Command,
    copy: Option<&'a File>,
) -> std::io::Result<(Group, Lines<'a>)> {
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let lines = Lines::new(reader, copy)?;
    let group = Group::launch(command)?;
    Ok((group, lines))
}

/// `what ended with exit status 3: its last words`.
pub(super) fn failure(what: &str, ending: Ending, lines: &Lines<'_>) -> LoadError {
    let words = lines.last_words().map_or_else(String::new, |words| format!(": {words}"));
    LoadError::new(format!("{what} ended with {ending}{words}"), "")
}

/// The preparation could not be started.
pub(super) fn not_prepared(error: std::io::Error) -> LoadError {
    LoadError::new(format!("the preparation cannot be started: {error}"), "")
}

/// The preparation did not end in time.
pub(super) fn prepared_too_long(settings: &SyncSettings) -> LoadError {
    let timeout = quantity::duration(settings.timeout);
    LoadError::new(format!("the preparation took longer than {timeout}"), "raise `timeout`")
}

/// Whether the preparation ended well. What it printed is taken, so that it can go on.
pub(super) fn prepared(group: &Group, lines: &mut Lines<'_>) -> Result<bool, LoadError> {
    // Asked before the pipe is read, so that what was written before the end is not missed.
    let ending = group.ending();
    let read = lines.read(&mut |_| false);
    read.map_err(|error| {
        LoadError::new(format!("the output of the preparation cannot be read: {error}"), "")
    })?;
    match ending {
        Some(Ending::Exited(0)) => Ok(true),
        Some(ending) => Err(failure("the preparation", ending, lines)),
        None => Ok(false),
    }
}

/// Runs the preparation to its end. It is killed when the user wants to stop.
pub(super) fn prepare(
    script: &Secret,
    settings: &SyncSettings,
    say: &mut dyn FnMut(&str) -> bool,
) -> Result<(), LoadError> {
    let clock = Clock::get();
    let mut guard = Guard::start().map_err(not_prepared)?;
    let mut command = shell(script.reveal(), settings);
    let (group, mut lines) = launch(&mut command, None).map_err(not_prepared)?;
    // Holds the writing end of the pipe.
    drop(command);
    guard.watch(&group);
    let begin = clock.now();
    let mut reported = 0;
    loop {
        if prepared(&group, &mut lines)? {
            return Ok(());
        }
        let taken = clock.now().saturating_sub(begin);
        if taken >= settings.timeout {
            return Err(prepared_too_long(settings));
        }
        if taken >= reported {
            reported = taken + TELL_EVERY;
            if !say(&format!("preparing, {} s", taken / model::SECOND)) {
                return Err(LoadError::new("the preparation was stopped", ""));
            }
        }
        std::thread::sleep(LOOK);
    }
}
