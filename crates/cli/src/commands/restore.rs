//! `restore`: put back what a killed run left changed.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use engine::restore::{Restored, restore};

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;
use crate::registry::REGISTRY;

/// `plimsoll restore [DIR]`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let directories: Vec<PathBuf> = match matches.get_one::<String>("dir") {
        Some(directory) => vec![directory.into()],
        None => super::record::run_directories(Path::new("runs")),
    };
    let mut changed = 0;
    let mut failed = false;
    for directory in &directories {
        let restored = restore(directory, REGISTRY.carry_out).map_err(Failure::failed)?;
        changed += restored.undone.len() + restored.failed.len() + restored.still_running.len();
        failed |= tell(directory, &restored);
    }
    if changed == 0 {
        output::result("nothing to put back");
    }
    Ok(if failed { Exit::Failed } else { Exit::Good })
}

/// Says what was put back in one directory; true when something could not be.
fn tell(directory: &Path, restored: &Restored) -> bool {
    let at = directory.display();
    for factor in &restored.undone {
        // What was started is not put back but gone.
        let how = if factor == "target" { "ended" } else { "put back" };
        output::result(&format!("{at}: {factor} {how}"));
    }
    for (factor, process) in &restored.still_running {
        output::result(&format!(
            "{at}: {factor} left alone: process {process} is still running this experiment"
        ));
    }
    for (factor, why) in &restored.failed {
        output::say(&format!("error: {at}: {factor} could not be put back: {why}"));
    }
    !restored.failed.is_empty()
}

/// Before a run directory is gone on with: what its killed predecessor left.
pub(crate) fn restore_one(directory: &Path) -> Result<(), Failure> {
    let restored = restore(directory, REGISTRY.carry_out).map_err(Failure::failed)?;
    if let Some((factor, process)) = restored.still_running.first() {
        return Err(Failure::failed(format!(
            "process {process} is still running this experiment ({factor} is turned)"
        )));
    }
    match tell(directory, &restored) {
        true => Err(Failure::failed("the host is not as it was; see above")),
        false => Ok(()),
    }
}
