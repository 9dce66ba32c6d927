//! `plimsoll agent`: takes part in the runs of another machine.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use engine::source::HostRoot;
use machines::agent::{Setup, serve};

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;
use crate::registry::REGISTRY;

pub(crate) fn arguments() -> Command {
    Command::new("agent")
        .about("Take part in a run of another machine: drive a part of its load, and read the counters of this host")
        .after_help(
            "\
An agent is started by the machine that coordinates a run, and ends with it. It speaks over its standard
input and output.
Examples:
  plimsoll disk /data/test.bin --on gen1,gen2 --duration 30s
  plimsoll http http://web1/ --on 'a=exec:docker exec -i gen1 plimsoll agent' --watch-on web1",
        )
        .arg(
            Arg::new("temporary")
                .long("temporary")
                .value_name("DIR")
                .hide(true)
                .help("The folder of this program, which is removed at once"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    if let Some(folder) = matches.get_one::<String>("temporary") {
        remove_own_folder(Path::new(folder));
    }
    record::prepare_state_folder().map_err(|why| {
        Failure::failed(format!("{why}\n  an agent makes no files without a journal to remove them"))
    })?;
    let folder = folder_of_agents().map_err(Failure::failed)?;
    let root = HostRoot::live();
    let host = counters::host(&root);
    let setup = Setup { registry: REGISTRY, root, host, folder };
    let left = serve(&setup, std::io::stdin(), std::io::stdout()).map_err(Failure::failed)?;
    for text in &left {
        output::say(&format!("error: {text}"));
    }
    Ok(if left.is_empty() { Exit::Good } else { Exit::Failed })
}

/// Removes the folder into which this program was copied, if it is that of the running program.
fn remove_own_folder(folder: &Path) {
    let is_own = std::env::current_exe().is_ok_and(|program| program.parent() == Some(folder));
    if is_own {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The folder that stands for the run directory in the journals of agents. It is empty, and there is one for all of them, so that a
/// killed agent leaves none.
fn folder_of_agents() -> Result<PathBuf, String> {
    let folder = record::state_folder()?.join("agents");
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("{} could not be made: {error}", folder.display()))
        }
        _ => Ok(folder),
    }
}
