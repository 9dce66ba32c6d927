//! SQLIO's flags and report.
use crate::carry_out::{Failure, Options};
use crate::exit::Exit;

/// Carries out SQLIO's flags.
pub(crate) fn run(_flags: &[String], _options: &Options) -> Result<Exit, Failure> {
    Err(Failure::failed("not there yet"))
}
