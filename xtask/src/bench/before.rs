//! This program beside an earlier one, in interleaved rounds: what the loop, the disk engine and a long record cost.

use std::path::Path;

use super::{disk, own};
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, median, plimsoll};

/// How much more than the earlier program this one may take, as a median over the rounds.
const MORE: f64 = 1.1;

/// What one program takes in one round: a name, and a value of which less is better.
type Figures = Vec<(&'static str, f64)>;

/// Measures both in turn, prints their ratios, and reports which grew.
pub(super) fn compare(repository: &Repository, before: &Path, rounds: usize) -> Result<Vec<Fault>, String> {
    let before = std::fs::canonicalize(before).map_err(|error| format!("{}: {error}", before.display()))?;
    let now = plimsoll(repository)?;
    let folder = Folder::new(repository, "before")?;
    let record = own::hour(repository, &folder.0)?;
    disk::make_file(&now, &folder.0)?;
    let mut all = Vec::new();
    for round in 0..rounds {
        let mut figures = [Figures::new(), Figures::new()];
        // The order rotates, so that neither is always first after a pause.
        for turn in 0..2 {
            let at = (round + turn) % 2;
            figures[at] = measure(if at == 0 { &before } else { &now }, &folder.0, &record)?;
        }
        println!("  round {}", round + 1);
        for ((name, then), (_, now)) in figures[0].iter().zip(&figures[1]) {
            println!("    {name:<40} before {then:>12.3}   now {now:>12.3}   ratio {:>6.3}", now / then);
        }
        all.push(figures);
    }
    let mut faults = Vec::new();
    for at in 0..all.first().map_or(0, |figures| figures[0].len()) {
        let ratios: Vec<f64> = all.iter().map(|[then, now]| now[at].1 / then[at].1).collect();
        let (name, ratio) = (all[0][0][at].0, median(&ratios));
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        println!("  {name:<40} {ratio:>6.3} of what it was ({low:.3} to {high:.3})   at most {MORE}");
        if ratio > MORE {
            let what = format!("{name}: {ratio:.3} of what {} took", before.display());
            faults.push(Fault::new("make bench", what, format!("at most {MORE} is noise")));
        }
    }
    Ok(faults)
}

fn measure(program: &Path, folder: &Path, record: &Path) -> Result<Figures, String> {
    let mut figures = vec![("null: CPU per operation, ns", own::null_cost_ns(program, folder)?)];
    for (direct, cpu, time) in [
        (false, "disk, page cache: CPU per operation, us", "disk, page cache: s for a million"),
        (true, "disk, direct: CPU per operation, us", "disk, direct: s for a million"),
    ] {
        let sample = disk::ours(program, folder, direct, disk::SECONDS)?;
        figures.extend([(cpu, sample.cpu_us), (time, 1e6 / sample.iops)]);
    }
    let [(report_s, memory_kib), (explain_s, _)] =
        [own::timed(program, "report", record)?, own::timed(program, "explain", record)?];
    figures.extend([
        ("an hour: report, s", report_s),
        ("an hour: explain, s", explain_s),
        ("an hour: memory to report, MB", memory_kib as f64 * 1024.0 / 1e6),
    ]);
    Ok(figures)
}
