//! The disk engine against fio: same file, same pattern, interleaved rounds, medians of the ratios of each round.

use std::path::Path;

use serde_json::Value;

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, json, median, plimsoll};

/// Seconds measured each time, after one of warm-up.
pub(super) const SECONDS: u32 = 3;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) iops: f64,
    pub(super) cpu_us: f64,
    mean_us: f64,
    p99_us: f64,
}

/// On a file in the page cache: the software ceiling.
pub(super) fn page_cache(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    compare(repository, false, rounds)
}

/// On the disk.
pub(super) fn direct(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    compare(repository, true, rounds)
}

fn compare(repository: &Repository, direct: bool, count: usize) -> Result<Vec<Fault>, String> {
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "disk")?;
    let version = std::process::Command::new("fio")
        .arg("--version")
        .output()
        .map_err(|error| format!("fio: {error}; apt-get install fio"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_string();
    println!(
        "4 KiB random reads, 32 in flight, one thread, 1 GiB file, {count} rounds of {SECONDS} s, {version}"
    );
    make_file(&program, &folder.0)?;
    let mut rounds = Vec::new();
    for round in 0..count {
        // The order rotates, so that none is always first after a pause.
        let mut samples = [None; 3];
        for turn in 0..3 {
            let at = (round + turn) % 3;
            samples[at] = Some(match at {
                0 => ours(&program, &folder.0, direct, SECONDS)?,
                1 => fio(&folder.0, direct, false)?,
                _ => fio(&folder.0, direct, true)?,
            });
        }
        if let [Some(ours), Some(plain), Some(tuned)] = samples {
            println!(
                "  round {}: plimsoll {:>7.0} IOPS {:>6.2} us CPU | fio {:>7.0} IOPS {:>6.2} us | fio tuned {:>7.0} IOPS {:>6.2} us",
                round + 1,
                ours.iops,
                ours.cpu_us,
                plain.iops,
                plain.cpu_us,
                tuned.iops,
                tuned.cpu_us
            );
            rounds.push([ours, plain, tuned]);
        }
    }
    let ratio = |of: fn(&Sample) -> f64, against: usize| {
        median(&rounds.iter().map(|round| of(&round[0]) / of(&round[against])).collect::<Vec<_>>())
    };
    let rows: [(&str, f64, f64, bool); 5] = [
        ("CPU per operation, of fio's defaults", ratio(|s| s.cpu_us, 1), 0.65, false),
        ("CPU per operation, of fio tuned", ratio(|s| s.cpu_us, 2), 1.0, false),
        ("IOPS, of fio tuned", ratio(|s| s.iops, 2), 1.0, true),
        ("mean latency, of fio tuned", ratio(|s| s.mean_us, 2), 1.05, false),
        ("p99 latency, of fio tuned", ratio(|s| s.p99_us, 2), 1.05, false),
    ];
    println!("  {:<38} {:>6.3}   no bound promised", "IOPS, of fio's defaults", ratio(|s| s.iops, 1));
    let mut faults = Vec::new();
    for (name, value, bound, at_least) in rows {
        let met = if at_least { value >= bound } else { value <= bound };
        let sign = if at_least { "at least" } else { "at most" };
        println!("  {name:<38} {value:>6.3}   {sign} {bound}   {}", if met { "met" } else { "MISSED" });
        if !met {
            faults.push(Fault::new(
                "make bench",
                format!("{name}: {value:.3}"),
                format!("{sign} {bound} was promised"),
            ));
        }
    }
    Ok(faults)
}

/// Makes the file once, which is kept: all read the same blocks of it. It is in the page cache then, as random reads for a
/// few seconds would leave holes, and the first contender would fill them.
pub(super) fn make_file(program: &Path, folder: &Path) -> Result<(), String> {
    ours(program, folder, true, 1)?;
    let path = folder.join("bench.bin");
    std::fs::File::open(&path)
        .and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

pub(super) fn ours(program: &Path, folder: &Path, direct: bool, seconds: u32) -> Result<Sample, String> {
    let runs = folder.join("run");
    let _ = std::fs::remove_dir_all(&runs);
    let arguments = [
        "disk",
        "bench.bin",
        "--size",
        "1GiB",
        "--keep",
        "--random",
        "--read",
        "--block-size",
        "4KiB",
        "--outstanding",
        "32",
        if direct { "--direct" } else { "--page-cache" },
        "--warm-up",
        "1s",
        "--duration",
        &format!("{seconds}s"),
        "--run-dir",
        "run",
        "--json",
        "--quiet",
    ]
    .map(str::to_string);
    let document = json(program, &arguments, folder)?;
    let trial = &document["trials"][0];
    let operation = &trial["operations"][0];
    let number = |value: &Value| value.as_f64().ok_or_else(|| format!("no number in the result: {value}"));
    Ok(Sample {
        iops: number(&operation["rate_per_s"])?,
        cpu_us: number(&trial["cpu_us_per_operation"])?,
        // fio's total latency starts when it prepares an operation, as our service time does.
        mean_us: number(&operation["service_ms"]["mean"])? * 1e3,
        p99_us: number(&operation["service_ms"]["p99"])? * 1e3,
    })
}

fn fio(folder: &Path, direct: bool, tuned: bool) -> Result<Sample, String> {
    let mut arguments: Vec<String> = [
        "--name=bench",
        "--filename=bench.bin",
        "--size=1G",
        "--ioengine=io_uring",
        "--iodepth=32",
        "--rw=randread",
        "--bs=4k",
        "--time_based",
        "--ramp_time=1",
        "--norandommap",
        "--randrepeat=0",
        "--thread",
        "--output-format=json",
        "--invalidate=0",
        "--lat_percentiles=1",
        "--clat_percentiles=0",
    ]
    .map(str::to_string)
    .to_vec();
    arguments.push(format!("--runtime={SECONDS}"));
    arguments.push(format!("--direct={}", u8::from(direct)));
    if tuned {
        arguments.extend(
            [
                "--registerfiles",
                "--fixedbufs",
                "--iodepth_batch_submit=32",
                "--iodepth_batch_complete_min=32",
            ]
            .map(str::to_string),
        );
    }
    let document = json(Path::new("fio"), &arguments, folder)?;
    let job = &document["jobs"][0];
    let number = |value: &Value| value.as_f64().ok_or_else(|| format!("no number in fio's result: {value}"));
    let iops = number(&job["read"]["iops"])?;
    let cpu_share = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0;
    Ok(Sample {
        iops,
        cpu_us: cpu_share / iops * 1e6,
        mean_us: number(&job["read"]["lat_ns"]["mean"])? / 1e3,
        p99_us: number(&job["read"]["lat_ns"]["percentile"]["99.000000"])? / 1e3,
    })
}
