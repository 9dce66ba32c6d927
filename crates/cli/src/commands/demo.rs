//! `demo`: the initial load of a metadirectory on this machine's disk, with a flush for each object and with one for many
//! objects. Replicated and interleaved, with a comparison, a verdict and a report.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use files::{Directory, PRIVATE_FILE};
use model::Experiment;

use crate::carry_out::{Failure, carry_out_and_show};
use crate::exit::Exit;
use crate::one_off::options;
use crate::output;
use crate::registry::REGISTRY;

/// The experiment; `DIRECTORY` is replaced by the folder, `COMMIT` by the objects of a small commit.
static EXPERIMENT: &str = include_str!("../../templates/demo.toml");

/// Objects that are staged or synchronized with small commits: 10,000 and 50,000 users, two steps, three replicates.
const SMALL_COMMITS: u32 = 360_000;

/// Time of a small commit besides its flush, measured on two CPUs.
const COMMIT_WORK: Duration = Duration::from_micros(200);

/// Maximum time for these commits: with the large commits and the preparation the demo takes two minutes.
const WAIT_MAX: Duration = Duration::from_secs(80);

/// Flushes that are timed.
const FLUSHES: usize = 30;

/// `plimsoll demo`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let options = options(matches)?;
    let folder = matches.get_one::<String>("on").map_or_else(PathBuf::new, PathBuf::from);
    let cannot = |error: std::io::Error| {
        Failure::failed(format!("{} cannot be written: {error}", folder.join("plimsoll-demo").display()))
    };
    let flush = flush_time(&folder).map_err(cannot)?;
    let commit = small_commit(flush);
    // Nobody can have created a link there, because the name is not known before the folder is created.
    let directory = folder.join(format!("plimsoll-demo-{}", files::random_name().map_err(cannot)?));
    let quoted = directory.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    let text = EXPERIMENT.replace("DIRECTORY", &quoted).replace("COMMIT", &commit.to_string());
    let experiment = Experiment::parse(&text, "the demo", &REGISTRY.vocabulary()).map_err(Failure::usage)?;
    if !options.quiet {
        let objects = if commit == 1 { "each object".into() } else { format!("every {commit} objects") };
        output::say(&format!(
            "The first load of a metadirectory: 10,000 and 50,000 people of 25 attributes are staged and synchronized,\n\
             {objects} in a commit of their own, which waits for the disk, or 10,000 together. {} trials in shuffled rounds.\n\
             A flush of this disk takes {:.2} ms. All files are in {}, which is removed afterwards.\n",
            analysis::trial_count(&experiment),
            flush.as_secs_f64() * 1e3,
            directory.display()
        ));
    }
    carry_out_and_show(&experiment, &text, &options, None, &|problem| problem)
}

/// The smallest commit size with which this disk does not make the demo too long.
fn small_commit(flush: Duration) -> u32 {
    let fits = |commit: &u32| (flush + COMMIT_WORK).saturating_mul(SMALL_COMMITS) / *commit <= WAIT_MAX;
    [1, 10, 100].into_iter().find(fits).unwrap_or(1000)
}

/// The median time of a small durable write.
fn flush_time(folder: &Path) -> std::io::Result<Duration> {
    // It has no name and is removed when it is dropped.
    let mut replacement = Directory::open(folder)?.into_successor("plimsoll-demo.flush", PRIVATE_FILE)?;
    let mut times = timed_flushes(replacement.file())?;
    times.sort();
    Ok(times[times.len() / 2])
}

fn timed_flushes(file: &mut File) -> std::io::Result<Vec<Duration>> {
    (0..FLUSHES)
        .map(|_| {
            let begin = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            Ok(begin.elapsed())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_gets_larger_commits() {
        for (flush_us, expected) in
            [(0, 1), (20, 1), (25, 10), (500, 10), (1000, 10), (4000, 100), (20_000, 100), (10_000_000, 1000)]
        {
            assert_eq!(small_commit(Duration::from_micros(flush_us)), expected, "{flush_us} us");
        }
    }

    #[test]
    fn the_experiment_is_valid() {
        let text = EXPERIMENT.replace("DIRECTORY", "plimsoll-demo").replace("COMMIT", "1");
        let experiment = Experiment::parse(&text, "the demo", &REGISTRY.vocabulary()).unwrap();
        let found =
            engine::check::check(&experiment, &REGISTRY, &engine::source::HostRoot::live(), &mut Vec::new());
        // This is the program's test, not the program.
        let found: Vec<&str> = found.0.iter().map(|problem| problem.what.as_str()).collect();
        assert!(found.iter().all(|what| *what == "there is no program `plimsoll`"), "{found:?}");
        assert_eq!(experiment.published.len(), 2);
    }
}
