//! `doctor`.
use clap::ArgMatches;

use crate::carry_out::Failure;
use crate::exit::Exit;

/// The arguments.
pub(crate) fn arguments() -> clap::Command {
    clap::Command::new("doctor")
}

/// `plimsoll doctor`.
pub(crate) fn run(_matches: &ArgMatches) -> Result<Exit, Failure> {
    Err(Failure::failed("not there yet"))
}
