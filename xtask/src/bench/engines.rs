//! The disk workload with its own choice of a back end against each engine of fio that could carry the same load: reads
//! and writes, through the page cache and past it, on the file system of the repository and in memory.
//!
//! fio's buffers are those of its default: filled once, and a few bytes changed before each write (`scramble_buffers`).
//! Plimsoll writes other data each time, as `--refill_buffers` of fio does, which costs both of them throughput with large
//! blocks. On a machine that does other work, fio's io_uring gains in buffered writes from the kernel's threads, which get a
//! share of the CPU of their own: the CPU time of an operation is then the better comparison. What the page cache holds is made the same before each load: blocks of 4 KiB, each
//! in a folio of its own, as random writes leave them. Large folios, as reading ahead leaves them, make a small buffered
//! write 20 times slower on ext4, whichever program writes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, json, median, plimsoll};

/// fio's engines that drive files.
const ENGINES: [&str; 3] = ["psync", "io_uring", "libaio"];

/// Throughput as a share of that of fio's best engine, at the median.
const SHARE_MIN: f64 = 0.9;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// The file all drive.
const FILE: &str = "bench.bin";

/// One load.
#[derive(Clone, Copy)]
struct Load {
    direct: bool,
    write: bool,
    block_kib: u32,
    outstanding: u32,
    threads: u32,
}

impl Load {
    fn all(direct: bool) -> impl Iterator<Item = Load> {
        [false, true].into_iter().flat_map(move |write| {
            [4, 64].into_iter().flat_map(move |block_kib| {
                [(1, 1), (16, 1), (1, 2), (16, 2)].into_iter().map(move |(outstanding, threads)| Load {
                    direct,
                    write,
                    block_kib,
                    outstanding,
                    threads,
                })
            })
        })
    }

    fn words(self) -> String {
        format!(
            "{} {:<5} {:>2} KiB, {} x {:>2}",
            if self.direct { "direct    " } else { "page cache" },
            if self.write { "write" } else { "read" },
            self.block_kib,
            self.threads,
            self.outstanding
        )
    }
}

/// One measurement.
#[derive(Clone, Copy, Default)]
struct Sample {
    rate: f64,
    /// Of the program's own threads: what the kernel's threads do for io_uring is not in fio's.
    cpu_us: f64,
}

/// Through the page cache, on the file system of the repository.
pub(super) fn page_cache(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    let folder = Folder::new(repository, "engines")?;
    compare(repository, &folder, false, rounds)
}

/// Past the page cache.
pub(super) fn direct(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    let folder = Folder::new(repository, "engines")?;
    compare(repository, &folder, true, rounds)
}

/// In memory, through the page cache that it is.
pub(super) fn memory(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    let path = PathBuf::from(MEMORY).join(format!("plimsoll-bench-{}", std::process::id()));
    std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    compare(repository, &Folder(path), false, rounds)
}

fn compare(
    repository: &Repository,
    folder: &Folder,
    direct: bool,
    rounds: usize,
) -> Result<Vec<Fault>, String> {
    let program = plimsoll(repository)?;
    let version = Command::new("fio").arg("--version").output();
    let version = version.map_err(|error| format!("fio: {error}; apt-get install fio"))?;
    println!(
        "random access, 256 MiB file, {rounds} rounds of 0.5 s, {}; ours as a share of fio's best engine",
        String::from_utf8_lossy(&version.stdout).trim()
    );
    println!(
        "load, threads x outstanding        best     its IOPS   IOPS: median (range)   CPU per op   ours"
    );
    let mut faults = Vec::new();
    for load in Load::all(direct) {
        faults.extend(one(&program, &folder.0, load, rounds)?);
    }
    Ok(faults)
}

fn one(program: &Path, folder: &Path, load: Load, rounds: usize) -> Result<Option<Fault>, String> {
    reset(folder, load.direct)?;
    let mut samples: Vec<[Sample; 4]> = Vec::new();
    let mut chosen = String::new();
    for round in 0..rounds {
        let mut sample = [Sample::default(); 4];
        for turn in 0..4 {
            let at = (round + turn) % 4;
            // What the one before wrote is on the disk before the next begins.
            quietly("sync", &[FILE], folder)?;
            sample[at] = match at.checked_sub(1) {
                None => {
                    let (sample, back_end) = ours(program, folder, load)?;
                    chosen = back_end;
                    sample
                }
                Some(engine) => fio(folder, load, ENGINES[engine])?,
            };
        }
        samples.push(sample);
    }
    let rates = |at: usize| median(&samples.iter().map(|sample| sample[at].rate).collect::<Vec<_>>());
    let best = (1..4).max_by(|a, b| rates(*a).total_cmp(&rates(*b))).unwrap_or(1);
    let shares = |of: fn(&Sample) -> f64| {
        let mut shares: Vec<f64> = samples.iter().map(|sample| of(&sample[0]) / of(&sample[best])).collect();
        shares.sort_by(f64::total_cmp);
        shares
    };
    let (rate, cpu) = (shares(|sample| sample.rate), median(&shares(|sample| sample.cpu_us)));
    let middle = median(&rate);
    let is_met = middle >= SHARE_MIN;
    println!(
        "{}   {:<8} {:>8.0}   {middle:.2} ({:.2} to {:.2})   {cpu:>9.2}      {chosen}{}",
        load.words(),
        ENGINES[best - 1],
        rates(best),
        rate.first().copied().unwrap_or(f64::NAN),
        rate.last().copied().unwrap_or(f64::NAN),
        if is_met { "" } else { "   MISSED" }
    );
    Ok((!is_met).then(|| {
        let what = format!("{}: {middle:.2} of fio's {}", load.words(), ENGINES[best - 1]);
        Fault::new("make bench", what, format!("at least {SHARE_MIN} was promised"))
    }))
}

/// Makes the file the same for all: on the disk, and in the page cache in small folios or not at all.
fn reset(folder: &Path, direct: bool) -> Result<(), String> {
    let of = format!("of={FILE}");
    if !folder.join(FILE).exists() {
        let zeros = ["if=/dev/urandom", &of, "bs=1M", "count=256"];
        quietly("dd", &zeros, folder)?;
    }
    quietly("dd", &["if=/dev/null", &of, "conv=notrunc,fdatasync", "oflag=nocache", "count=0"], folder)?;
    if direct {
        return Ok(());
    }
    let fill =
        ["--name=fill", "--filename=bench.bin", "--size=256M", "--rw=randwrite", "--bs=4k", "--invalidate=0"];
    quietly("fio", &fill, folder)
}

fn quietly(program: &str, arguments: &[&str], folder: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {}: {status}", arguments.join(" "))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("no number in the result: {value}"))
}

/// What Plimsoll measures, and the back end that it chose.
fn ours(program: &Path, folder: &Path, load: Load) -> Result<(Sample, String), String> {
    let runs = folder.join("run");
    let _ = std::fs::remove_dir_all(&runs);
    let arguments = [
        "disk",
        FILE,
        "--overwrite",
        FILE,
        "--random",
        if load.write { "--write" } else { "--read" },
        "--block-size",
        &format!("{}KiB", load.block_kib),
        "--outstanding",
        &load.outstanding.to_string(),
        "--threads",
        &load.threads.to_string(),
        if load.direct { "--direct" } else { "--page-cache" },
        "--warm-up",
        "0s",
        "--duration",
        "500ms",
        "--run-dir",
        "run",
        "--json",
        "--quiet",
    ];
    let document = json(program, &arguments.map(str::to_string), folder)?;
    let trial = &document["trials"][0];
    let sample = Sample {
        rate: number(&trial["operations"][0]["rate_per_s"])?,
        cpu_us: number(&trial["cpu_us_per_operation"])?,
    };
    let run = runs.join("trials").join("001-baseline.r1").join("run.json");
    let text = std::fs::read_to_string(&run).unwrap_or_default();
    let facts = serde_json::from_str::<Value>(&text).unwrap_or_default();
    let fact = |name: &str| facts["facts"][name]["text"].as_str().unwrap_or("?").to_string();
    Ok((sample, format!("{} ({})", fact("back_end"), fact("back_end.basis"))))
}

fn fio(folder: &Path, load: Load, engine: &str) -> Result<Sample, String> {
    let operation = if load.write { "write" } else { "read" };
    let arguments = [
        "--name=bench".to_string(),
        format!("--filename={FILE}"),
        "--size=256M".into(),
        "--time_based".into(),
        "--runtime=500ms".into(),
        "--norandommap".into(),
        "--randrepeat=0".into(),
        "--thread".into(),
        "--group_reporting".into(),
        "--invalidate=0".into(),
        "--output-format=json".into(),
        format!("--rw=rand{operation}"),
        format!("--bs={}k", load.block_kib),
        format!("--iodepth={}", load.outstanding),
        format!("--numjobs={}", load.threads),
        format!("--direct={}", u8::from(load.direct)),
        format!("--ioengine={engine}"),
    ];
    let document = json(Path::new("fio"), &arguments, folder)?;
    let job = &document["jobs"][0];
    let rate = number(&job[operation]["iops"])?;
    // With group_reporting the shares are the mean over the jobs.
    let cpu_share = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0 * f64::from(load.threads);
    Ok(Sample { rate, cpu_us: cpu_share / rate * 1e6 })
}
