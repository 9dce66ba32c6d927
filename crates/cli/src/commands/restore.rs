//! `restore`: undo the changes of a killed run, and list the files that it left.

use std::path::Path;

use clap::ArgMatches;
use engine::restore::{FileRemains, LeftFile, Outcome, Removing, Restored, Restoring, left_files, restore};
use engine::workload::Remains;
use model::quantity;
use record::{Journal, JournalState};

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;
use crate::registry::REGISTRY;

/// `plimsoll restore [DIR]`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let how = match (matches.get_flag("dry-run"), matches.get_flag("discard")) {
        (true, _) => Restoring::DryRun,
        (_, true) => Restoring::Discard,
        _ => Restoring::Undo,
    };
    let removing = match (how, matches.get_flag("remove-files")) {
        (Restoring::DryRun, _) => Removing::DryRun,
        (_, true) => Removing::Remove,
        (Restoring::Discard, false) => Removing::Discard,
        (Restoring::Undo, false) => Removing::Report,
    };
    let directory = matches.get_one::<String>("dir").map(Path::new);
    let journals = match directory {
        Some(directory) => Journal::of(directory).map_err(Failure::failed)?.into_iter().collect(),
        None => Journal::all().map_err(Failure::failed)?,
    };
    let (mut seen, mut failed) = (0, false);
    for found in journals {
        match found {
            JournalState::Left(mut journal) => {
                let run = name_of(&journal);
                let restored = restore(&mut journal, how, REGISTRY.carry_out).map_err(Failure::failed)?;
                seen += restored.len();
                failed |= show(&run, &restored);
                let left = left_files(&mut journal, REGISTRY.workloads, removing).map_err(Failure::failed)?;
                seen += left.len();
                failed |= show_files(&run, &left, removing);
            }
            JournalState::Running(run, process) => {
                seen += 1;
                output::result(&format!("{}: process {process} is still running it", run.display()));
            }
            JournalState::Damaged(why) => {
                seen += 1;
                failed = true;
                output::say(&format!("error: {why}"));
            }
        }
    }
    let foreign = directory.is_some_and(show_foreign);
    if seen == 0 && !foreign {
        output::result("nothing to restore");
    }
    Ok(if failed { Exit::Failed } else { Exit::Good })
}

fn name_of(journal: &Journal) -> String {
    journal.header().map(|header| header.run.display().to_string()).unwrap_or_default()
}

/// Shows each remaining change of a run with its steps; true if one could not be undone.
fn show(run: &str, restored: &[Restored]) -> bool {
    for Restored { factor, steps, outcome } in restored {
        let what = match outcome {
            Outcome::Undone if factor == "target" => format!("{factor} ended"),
            Outcome::Undone => format!("{factor} restored"),
            Outcome::Planned => format!("{factor} would be restored"),
            Outcome::EndedWithTheBoot => {
                format!("{factor}: the host was rebooted since; the change no longer exists")
            }
            Outcome::OtherHost(host) => {
                format!("{factor} was changed on the host {host}: run `plimsoll restore` there")
            }
            Outcome::Discarded(why) => format!("{factor}: journal entry dropped: {why}"),
            Outcome::Failed(why) => {
                output::say(&format!("error: {run}: {factor} could not be restored: {why}"));
                continue;
            }
        };
        output::result(&format!("{run}: {what}"));
        for step in steps {
            output::result(&format!("    {step}"));
        }
    }
    restored.iter().any(|restored| matches!(restored.outcome, Outcome::Failed(_)))
}

/// Shows each remaining file of a run; true if one could not be removed as requested.
fn show_files(run: &str, left: &[LeftFile], removing: Removing) -> bool {
    let mut failed = false;
    for LeftFile { workload, made, remains } in left {
        let size = |bytes: &Option<u64>| {
            bytes.map_or(String::new(), |bytes| format!(", {}", quantity::bytes(bytes)))
        };
        let path = made.path.display();
        let what = match remains {
            FileRemains::Here(Remains::Nothing) => continue,
            FileRemains::Here(Remains::Removed(bytes)) => format!("{path}{} was removed", size(bytes)),
            FileRemains::Here(Remains::Removable(bytes)) => {
                let size = size(bytes);
                match removing {
                    Removing::DryRun => {
                        format!("{path}{size} would be removed by `plimsoll restore --remove-files`")
                    }
                    _ => {
                        let reuse = if bytes.is_some() { "; the next run uses it again" } else { "" };
                        format!(
                            "{path}{size} was left by the {workload} load{reuse}; `plimsoll restore --remove-files` \
                             removes it"
                        )
                    }
                }
            }
            FileRemains::Here(Remains::InUse) => format!("{path} is kept: another run uses it"),
            FileRemains::Here(Remains::Kept) => format!("{path} is kept, as `--keep` requested"),
            FileRemains::Here(Remains::Replaced) => {
                format!("{path} is kept: it is not the file that the run created")
            }
            FileRemains::Here(Remains::NotRemovable(why)) if removing == Removing::Remove => {
                failed = true;
                output::say(&format!("error: {run}: {path} is not removed: {why}"));
                continue;
            }
            FileRemains::Here(Remains::NotRemovable(why)) => {
                format!("{path} was left by the {workload} load and is not removed: {why}")
            }
            FileRemains::OtherHost(host) => {
                format!("{path} was created on the host {host}: run `plimsoll restore` there")
            }
            FileRemains::Discarded(why) => format!("{path}: journal entry dropped: {why}"),
        };
        output::result(&format!("{run}: {what}"));
    }
    failed
}

/// The file for undo steps of old run directories, which a run directory of unknown origin may contain.
const FOREIGN: &str = "restore.jsonl";

/// Maximum number of bytes that are read.
const FOREIGN_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of steps that are shown.
const FOREIGN_STEPS_MAX: usize = 50;

/// Maximum number of characters per step.
const FOREIGN_LINE_MAX: usize = 300;

/// Shows a journal in the run directory, which is never executed, because the directory is untrusted.
/// True when there is one.
fn show_foreign(directory: &Path) -> bool {
    let path = directory.join(FOREIGN);
    let bytes = match files::read(&path, FOREIGN_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return false,
        Err(error) => {
            output::say(&format!("warning: {}: {error}", path.display()));
            return true;
        }
    };
    output::result(&format!(
        "{} is not executed: Plimsoll restores only changes in the journal of this host, never from a run directory. It contains:",
        path.display()
    ));
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in lines.iter().take(FOREIGN_STEPS_MAX) {
        let shown: String = line.chars().take(FOREIGN_LINE_MAX).collect();
        output::result(&format!("    {shown}"));
    }
    if lines.len() > FOREIGN_STEPS_MAX {
        output::result(&format!("    and {} lines more", lines.len() - FOREIGN_STEPS_MAX));
    }
    true
}

/// Before a run is resumed: undoes what its killed predecessor left, and returns its journal.
pub(crate) fn before_resuming(directory: &Path) -> Result<Journal, Failure> {
    let found = Journal::of(directory).map_err(Failure::failed)?;
    let mut journal = match found {
        Some(JournalState::Left(journal)) => journal,
        Some(JournalState::Running(_, process)) => {
            return Err(Failure::failed(format!("process {process} is still running this experiment")));
        }
        Some(JournalState::Damaged(why)) => return Err(Failure::failed(why)),
        None => return Err(not_ours(directory, "it is not an unfinished run of this user on this host")),
    };
    let restored = restore(&mut journal, Restoring::Undo, REGISTRY.carry_out).map_err(Failure::failed)?;
    match show(&name_of(&journal), &restored) {
        true => Err(Failure::failed("the host was not restored completely; see above")),
        false => Ok(journal),
    }
}

/// Why a run directory is not resumed: its author would choose the programs that are started.
pub(crate) fn not_ours(directory: &Path, why: &str) -> Failure {
    let directory = directory.display();
    Failure::usage(format!(
        "error: {directory} cannot be resumed: {why}\n  an experiment can start programs: read \
        {directory}/experiment.toml, then start a new run with `plimsoll run {directory}/experiment.toml`"
    ))
}
