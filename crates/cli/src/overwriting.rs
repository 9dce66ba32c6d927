//! Asks on a terminal before a device is overwritten that holds something recognized. Without a terminal the flag
//! `--overwrite-signature` answers, and its absence is a problem that the check of the experiment reports.

use std::borrow::Cow;
use std::io::IsTerminal;

use model::{Experiment, Level};
use workloads::disk::{OVERWRITE_SIGNATURE, held_by_overwritten};

use crate::carry_out::Failure;
use crate::output;

/// The experiment, with the user's consent where that is needed and was given.
///
/// # Errors
/// The user does not consent.
pub(crate) fn confirmed(experiment: &Experiment) -> Result<Cow<'_, Experiment>, Failure> {
    let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_asked || experiment.workload.kind != "disk" || !experiment.machines.load.is_empty() {
        return Ok(Cow::Borrowed(experiment));
    }
    let held = held_by_overwritten(&experiment.workload.settings);
    if held.is_empty() {
        return Ok(Cow::Borrowed(experiment));
    }
    for (path, what) in &held {
        output::say(&format!("`{path}` holds {what}."));
    }
    output::say("Writing destroys that. Type `yes` to overwrite it:");
    let mut answer = String::new();
    let is_read = std::io::stdin().read_line(&mut answer).is_ok();
    if !is_read || !answer.trim().eq_ignore_ascii_case("yes") {
        return Err(Failure::usage("error: nothing was overwritten, and nothing ran"));
    }
    let mut confirmed = experiment.clone();
    confirmed.workload.settings.set(OVERWRITE_SIGNATURE.name, Level::Flag(true));
    Ok(Cow::Owned(confirmed))
}
