//! `restore`: undo the changes of a killed run, and list the files that it left.

use std::path::Path;

use clap::ArgMatches;
use engine::restore::{
    FileRemains, LeftFile, Outcome, Removing, Restored, Restoring, StepOutcome, left_files, restore,
    still_changed,
};
use engine::workload::Remains;
use files::unfinished::Unfinished;
use model::{Experiment, quantity};
use record::{Bound, Elsewhere, FoundJournal, Journal, JournalState};

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
        Some(directory) => Journal::of(directory).map_err(Failure::failed)?,
        None => {
            let all = Journal::all().map_err(Failure::failed)?.into_iter();
            all.map(|journal| FoundJournal { journal, bound: Bound::ByIdentity }).collect()
        }
    };
    // A run whose directory was replaced by a file can still be restored.
    if let Some(file) = directory.filter(|path| journals.is_empty() && path.exists() && !path.is_dir()) {
        return Err(Failure::usage(format!(
            "error: {} is not a run directory, but a file\n  name the directory of the run, or leave it out to restore all runs",
            file.display()
        )));
    }
    let (mut seen, mut failed) = show_unfinished(how == Restoring::DryRun, directory);
    let is_found = !journals.is_empty();
    for FoundJournal { journal, bound } in journals {
        let of = match bound {
            Bound::ByIdentity => "",
            Bound::ByPath => " (an earlier run, whose directory is not there any more)",
        };
        match journal {
            JournalState::Left(mut journal) => {
                let run = name_of(&journal) + of;
                let restored = restore(&mut journal, how, REGISTRY.carry_out, REGISTRY.nothing_left);
                let restored = restored.map_err(Failure::failed)?;
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
            JournalState::Held(run) => {
                seen += 1;
                failed = true;
                output::say(&format!("error: {}: {HELD}", run.display()));
            }
            JournalState::Damaged(why) => {
                seen += 1;
                failed = true;
                output::say(&format!("error: {why}"));
            }
        }
    }
    let foreign = directory.filter(|path| path.is_dir()).is_some_and(show_foreign);
    if seen == 0 && !foreign {
        let unknown = directory.filter(|_| !is_found).and_then(|run| Some((run, record::elsewhere(run)?)));
        match unknown {
            None => output::result("nothing to restore"),
            Some((run, Elsewhere::NoDirectory)) => output::result(&format!(
                "nothing to restore: {} does not exist, and no unfinished run of this user began there",
                run.display()
            )),
            Some((run, elsewhere)) => {
                failed = true;
                output::say(&format!("error: {}: {}", run.display(), where_it_is(&elsewhere)));
            }
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Good })
}

/// A journal that is locked, but not by its run.
const HELD: &str =
    "its journal is in use by another process, perhaps another `plimsoll restore`: repeat the command";

/// Why a run is not restored here, and what to do.
fn where_it_is(elsewhere: &Elsewhere) -> String {
    match elsewhere {
        Elsewhere::User(user) => {
            format!("it belongs to user {user}, who has its journal: run `plimsoll restore` as this user")
        }
        Elsewhere::Host(host) => {
            format!("the run is one of the host {host}, which has its journal: run `plimsoll restore` there")
        }
        Elsewhere::State(state) => format!(
            "its journal is in another state folder: set {}={}",
            record::STATE_VARIABLE,
            state.display()
        ),
        Elsewhere::NoDirectory => "it does not exist".into(),
        Elsewhere::NoJournal => {
            "it is an unfinished run without a journal: files that it made may be left, and are not known"
                .into()
        }
    }
}

fn name_of(journal: &Journal) -> String {
    journal.header().map(|header| header.execution.run.display().to_string()).unwrap_or_default()
}

/// Warns before a measurement if killed runs have left changes on this host, which would be measured too.
pub(crate) fn warn_of_changes() {
    // A folder that cannot be read is reported where a journal is needed.
    for mut journal in Journal::left().unwrap_or_default() {
        let run = name_of(&journal);
        match still_changed(&mut journal, REGISTRY.carry_out, REGISTRY.nothing_left) {
            Ok(changed) if changed.is_empty() => {}
            Ok(changed) => output::say(&format!(
                "warning: {run} was killed and has left changes on this host: {}\n  they can affect this \
                 measurement; `plimsoll restore` undoes them",
                changed.join(", ")
            )),
            Err(error) => output::say(&format!("warning: {error}")),
        }
    }
}

/// Shows each remaining change of a run with its steps; true if one could not be undone.
fn show(run: &str, restored: &[Restored]) -> bool {
    for Restored { factor, steps, outcome } in restored {
        let what = match outcome {
            Outcome::Undone if factor == "target" => format!("{factor} ended"),
            Outcome::Undone => format!("{factor} restored"),
            Outcome::Planned => format!("{factor} would be restored"),
            Outcome::NothingLeft => format!("{factor}: nothing is left to restore"),
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
            output::result(&match step {
                StepOutcome::Step(step) => format!("    {step}"),
                StepOutcome::NothingLeft(why) => format!("    {why}"),
                StepOutcome::EndedWithTheBoot(step) => format!("    the reboot did it: {step}"),
            });
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

/// Removes the unfinished files of killed processes, or with `dry_run` only reports them. Returns how many there
/// were, and whether one could not be removed.
fn show_unfinished(dry_run: bool, directory: Option<&Path>) -> (usize, bool) {
    let (mut seen, mut failed) = (0, false);
    for Unfinished { path, bytes, outcome } in files::unfinished::remove_left(dry_run, directory) {
        seen += 1;
        let file = format!("{}, {}", path.display(), quantity::bytes(bytes));
        match outcome {
            Ok(()) if dry_run => output::result(&format!("{file} would be removed: {UNFINISHED}")),
            Ok(()) => output::result(&format!("{file} was removed: {UNFINISHED}")),
            Err(error) => {
                failed = true;
                output::say(&format!("error: {file} is not removed: {error}; {UNFINISHED}"));
            }
        }
    }
    (seen, failed)
}

const UNFINISHED: &str = "a process that was killed had not completed it";

/// Removes the unfinished files of killed processes before a run, and says so.
pub(crate) fn remove_unfinished() {
    for Unfinished { path, bytes, outcome } in files::unfinished::remove_left(false, None) {
        let file = format!("{}, {}", path.display(), quantity::bytes(bytes));
        output::say(&match outcome {
            Ok(()) => format!("{file} was removed: {UNFINISHED}"),
            Err(error) => format!("warning: {file} is not removed: {error}; {UNFINISHED}"),
        });
    }
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

/// Before a run is resumed: undoes what its killed predecessor left. Returns its journal and its experiment.
pub(crate) fn before_resuming(directory: &Path) -> Result<(Journal, Experiment), Failure> {
    let found = Journal::of(directory).map_err(Failure::failed)?;
    let mut found = found.into_iter().filter(|found| found.bound == Bound::ByIdentity);
    let mut journal = match (found.next().map(|found| found.journal), found.next()) {
        (Some(_), Some(_)) => {
            let why = "several journals of an earlier version of Plimsoll may be of this run";
            return Err(not_ours(directory, why));
        }
        (Some(JournalState::Left(journal)), None) => journal,
        (Some(JournalState::Running(_, process)), None) => {
            return Err(Failure::failed(format!("process {process} is still running this experiment")));
        }
        (Some(JournalState::Held(_)), None) => return Err(Failure::failed(HELD)),
        (Some(JournalState::Damaged(why)), None) => return Err(Failure::failed(why)),
        (None, _) => {
            let why = match record::elsewhere(directory) {
                Some(Elsewhere::NoDirectory) | None => {
                    "it is not an unfinished run of this user on this host".into()
                }
                Some(elsewhere) => where_it_is(&elsewhere),
            };
            return Err(not_ours(directory, &why));
        }
    };
    // From the journal, not from the run directory: only commands that this user wrote are started.
    let experiment = journal.experiment(directory).map_err(|why| not_ours(directory, &why))?;
    let restored = restore(&mut journal, Restoring::Undo, REGISTRY.carry_out, REGISTRY.nothing_left);
    let restored = restored.map_err(Failure::failed)?;
    if show(&name_of(&journal), &restored) {
        return Err(Failure::failed("the host was not restored completely; see above"));
    }
    journal.resume(directory).map_err(Failure::failed)?;
    Ok((journal, experiment))
}

/// Why a run directory is not resumed: its author would choose the programs that are started.
pub(crate) fn not_ours(directory: &Path, why: &str) -> Failure {
    let directory = directory.display();
    Failure::usage(format!(
        "error: {directory} cannot be resumed: {why}\n  an experiment can start programs: read \
        {directory}/experiment.toml, then start a new run with `plimsoll run {directory}/experiment.toml`"
    ))
}
