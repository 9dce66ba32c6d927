//! `demo`.
use clap::ArgMatches;

use crate::carry_out::Failure;
use crate::exit::Exit;

/// `plimsoll demo`.
pub(crate) fn run(_matches: &ArgMatches) -> Result<Exit, Failure> {
    Err(Failure::failed("not there yet"))
}
