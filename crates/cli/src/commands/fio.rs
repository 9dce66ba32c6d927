//! fio job files.
use crate::carry_out::{Failure, Options};
use crate::exit::Exit;

/// Carries out a fio job file.
pub(crate) fn run(_file: &str, _options: &Options) -> Result<Exit, Failure> {
    Err(Failure::failed("not there yet"))
}
