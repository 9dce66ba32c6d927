//! `doctor`: what this machine permits, and how noisy it is.

mod facts;
mod judge;
mod look;
mod noise;
mod page;
mod store;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::Ordering;

use clap::{Arg, ArgAction, ArgMatches, Command};
use engine::clock::Clock;
use engine::sampler::Sampler;
use engine::source::HostRoot;
use model::{MILLISECOND, Nanos, SECOND};

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;
use facts::Noise;
use judge::Mark;

/// The arguments.
pub(crate) fn arguments() -> Command {
    Command::new("doctor")
        .about(
            "Check what this machine permits, how noisy it is, and the smallest change it can show reliably; or the store of a metadirectory",
        )
        .arg(
            Arg::new("on")
                .long("on")
                .value_name("PATH")
                .default_value(".")
                .help("Folder, file or device that a load would use; nothing in it is changed"),
        )
        .arg(
            Arg::new("store")
                .long("store")
                .value_name("FILE")
                .num_args(0..=1)
                .default_missing_value("metadirectory.toml")
                .conflicts_with_all(["on", "seconds"])
                .help("Check the store of a metadirectory instead, by its configuration file: durability, cache, devices, free space, growth; nothing is changed"),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_name("N")
                .default_value("5")
                .value_parser(clap::value_parser!(u64).range(2..=3600))
                .help("Duration of the noise measurement"),
        )
        .arg(
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("Exit with code 1 if something is blocked, or if the data of a store is at risk"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document"))
}

/// `plimsoll doctor`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let seconds = matches.get_one::<u64>("seconds").copied().unwrap_or(5);
    let strict = matches.get_flag("strict");
    if let Some(file) = matches.get_one::<String>("store") {
        return store::run(file, strict, matches.get_flag("json"));
    }
    let interrupted = crate::interrupt::flag();
    let clock = Clock::get();
    let checkpoint = clock.checkpoint();
    let sampler_share = noise::sampler_share();
    let mut sampler = Sampler::open(counters::SOURCES, &HostRoot::live(), &["host".to_string()]);
    sampler.sample(clock);
    let show = std::io::stderr().is_terminal();
    let windows = noise::measure(seconds * SECOND, |done| {
        progress(show, &format!("measuring the noise of this machine: {} of {seconds} s", done / SECOND));
        !interrupted.load(Ordering::Relaxed)
    });
    sampler.sample(clock);
    progress(show, "");
    if interrupted.load(Ordering::Relaxed) {
        return Ok(Exit::Interrupted);
    }
    let noise = match windows {
        Ok(windows) => observed(&windows, sampler_share, sampler.readings().get("cpu.steal_share", "")),
        Err(error) => {
            output::say(&format!("warning: the noise could not be measured: {error}"));
            None
        }
    };
    let observed = look::Observed { sampler, noise, checkpoint };
    let facts = look::inspect(Path::new(super::text(matches, "on")), observed);
    let checks = judge::judge(&facts);
    match matches.get_flag("json") {
        true => {
            let document = page::json(&facts, &checks);
            output::json(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
        }
        false => output::result(&page::text(&facts, &checks, usize::from(output::width().min(100)), strict)),
    }
    Ok(match strict && page::count(&checks, Mark::Block) > 0 {
        true => Exit::Failed,
        false => Exit::Good,
    })
}

/// The noise in the form it is judged in.
fn observed(windows: &noise::Windows, sampler_share: Option<f64>, steal_share: Option<f64>) -> Option<Noise> {
    let spread = noise::spread(&windows.rates)?;
    let window: Nanos = noise::window_ms() * MILLISECOND;
    Some(Noise {
        seconds: windows.seconds,
        loop_ns: windows.loop_ns.unwrap_or(spread.loop_ns),
        median_loss: spread.median_loss,
        worst_loss: spread.worst_loss,
        window_ms: noise::window_ms(),
        steal_share,
        run_wait_share: windows.run_wait_share,
        smallest_change: spread.smallest_change[0],
        smallest_change_18: spread.smallest_change[1],
        round_s: spread.round_windows as f64 * window as f64 / 1e9,
        sampler_share,
    })
}

/// Shows progress on a terminal; an empty text removes the line.
fn progress(show: bool, text: &str) {
    if show {
        output::redraw(text);
    }
}
