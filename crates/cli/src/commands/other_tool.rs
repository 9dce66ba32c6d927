//! What the command lines of other tools share: an experiment like any other, and the other tool's report of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::{Experiment, Level, Problem, Study};
use workloads::disk::pasted::Pauses;

use crate::carry_out::{Failure, Options, carry_out, exit_of, show};
use crate::exit::Exit;
use crate::output;
use crate::registry::REGISTRY;

/// The flags of another tool in place of the settings of the disk workload.
pub(super) struct Tool {
    /// Plimsoll's flag for it.
    pub(super) flag: &'static str,
    /// Settings, and the tool's flags that state them.
    pub(super) flags: &'static [(&'static str, &'static str)],
    /// The tool's flag for the page cache.
    pub(super) page_cache: &'static str,
}

impl Tool {
    /// A problem in words of the tool's flags.
    fn in_flags(&self, problem: Problem) -> Problem {
        let name = |setting: &str| {
            let flag = self.flags.iter().find(|(known, _)| *known == setting);
            flag.map_or_else(|| format!("--{}", setting.replace('_', "-")), |(_, flag)| (*flag).to_string())
        };
        let problem = problem.in_words(name, |setting, level| match (setting, level) {
            ("overwrite", level) => {
                let target = level.to_string();
                // Only NUL cannot be quoted, and an argument has none.
                let target = shlex::try_quote(&target).unwrap_or_default();
                Some(format!("--overwrite {target} in front of {}", self.flag))
            }
            ("overwrite_signature", _) => Some(format!("--overwrite-signature in front of {}", self.flag)),
            ("cache", Level::Text(word)) if word == "page-cache" => Some(self.page_cache.into()),
            _ => None,
        });
        // The tool knows nothing of jobs.
        let what = problem.what.strip_prefix("job [").and_then(|rest| rest.split_once("]: "));
        let what = what.map_or_else(|| problem.what.clone(), |(_, what)| what.to_string());
        Problem { what, ..problem }
    }
}

/// Carries out an experiment and prints the other tool's report, or Plimsoll's own as JSON where the options say so. What
/// weakens a number goes to standard error: the other tool has no word for it.
pub(super) fn run(
    experiment: &Experiment,
    options: &Options,
    (tool, pauses): (&Tool, Pauses),
    report: impl FnOnce(&Study) -> String,
) -> Result<Exit, Failure> {
    let experiment = &crate::overwriting::confirmed(experiment)?;
    let interrupted = crate::interrupt::flag();
    if !wait(pauses.before_s, interrupted) {
        return Ok(Exit::Interrupted);
    }
    let text = model::experiment::write(experiment, &REGISTRY.vocabulary());
    let (document, study, ended) =
        carry_out(experiment, &text, options, None, &|problem| tool.in_flags(problem))?;
    match options.json {
        true => show(&document, &study, true, false),
        false => {
            output::verbatim(&report(&study));
            for doubt in document.trials.iter().flat_map(|trial| &trial.doubts) {
                output::say(&format!("doubt: {}", doubt.text));
            }
            if Exit::of(&document) != Exit::Good {
                output::say(&format!("verdict: {}", report::sentences::verdict(&document)));
            }
            output::say(&format!("record: {}", document.run));
        }
    }
    wait(pauses.after_s, interrupted);
    Ok(exit_of(&document, &ended))
}

/// Waits for a pause that stands beside the run; false when it was interrupted.
pub(super) fn wait(seconds: u64, interrupted: &AtomicBool) -> bool {
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return false;
        }
        match until.checked_duration_since(Instant::now()) {
            None | Some(Duration::ZERO) => return true,
            Some(left) => std::thread::sleep(left.min(Duration::from_millis(100))),
        }
    }
}
