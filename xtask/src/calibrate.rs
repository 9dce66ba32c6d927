//! Calibration: systems with a planted limit, driven by real load, and how often the verdict about them is right.
//!
//! Each case starts the service `planted` of the testkit with parameters drawn from a seed, so that nothing can be tuned
//! to one number, and runs an experiment on it as a user would: `plimsoll run` with a proof. What is planted is known here
//! and told to nobody else. A neighbour uses CPU all the while, as on a shared machine.
//!
//! Scored beside it: what the rules of thumb over the host's counters would have said.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Ended, Folder, cargo, json, median, plimsoll};

/// Parameters of a case, drawn from a seed.
struct Draw(u64);

impl Draw {
    fn new(seed: u64, case: usize) -> Self {
        Draw(
            (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ (case as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9),
        )
    }

    /// A whole number from `low` to `high`, by splitmix64.
    fn whole(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (mixed ^ (mixed >> 31)) % (high - low + 1)
    }
}

/// What a case starts and asks.
#[derive(Default)]
struct Setup {
    /// Arguments of the service under test, but for where it listens.
    service: String,
    /// Those of the service behind it.
    behind: Option<String>,
    /// Lines of `[load]`.
    load: String,
    /// Users of the sweep, but for the baseline's.
    levels: Vec<u64>,
    /// Lines of `[vary]` beside the sweep.
    vary: String,
    /// Megabits per second of the loopback interface, in a network of its own.
    network_mbit: Option<u64>,
    /// Requests per second it can carry; none where only a lower bound is known.
    capacity: Option<f64>,
    /// What a request takes when it is alone, milliseconds.
    delay_ms: f64,
    /// The resource of `plimsoll size` of which the variation beside the sweep gives twice.
    what_if: Option<&'static str>,
    /// What one request takes of the service: CPU time in milliseconds, reads of the disk.
    cpu_ms: Option<f64>,
    reads: Option<f64>,
    /// What was drawn, in words.
    drawn: String,
}

/// A system with a planted limit.
struct Case {
    name: &'static str,
    /// The right verdict, as [`label`] names it.
    planted: &'static str,
    /// What is right as well when nothing was proved: one of several limits that bind at once.
    partly: &'static [&'static str],
    make: fn(&mut Draw, &Paths) -> Setup,
}

/// The label of a verdict that names nothing.
const REFUSED: &str = "-";

impl Case {
    fn is_right(&self, label: &str) -> bool {
        label == self.planted
    }

    /// Without a proof one of several limits is right as far as it goes.
    fn is_partly_right(&self, label: &str) -> bool {
        self.is_right(label) || self.partly.contains(&label)
    }
}

/// Where the case's service listens and its data is.
struct Paths {
    behind: String,
    file: PathBuf,
}

/// Users of the baseline and of the sweep below it.
const USERS: u64 = 64;
const SWEEP: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Where capacity is to be foretold from below the knee: enough loads below it, wherever it lies.
const DENSE_SWEEP: [u64; 11] = [1, 2, 3, 4, 5, 7, 9, 12, 16, 22, 32];

fn closed() -> Setup {
    Setup { load: format!("closed = {USERS}"), levels: SWEEP.to_vec(), ..Setup::default() }
}

fn closed_densely() -> Setup {
    Setup { levels: DENSE_SWEEP.to_vec(), ..closed() }
}

static CASES: &[Case] = &[
    Case {
        name: "cpu-quota",
        planted: "cpu",
        partly: &[],
        make: |draw, _| {
            let (cpu_ms, percent, sleep_ms) = (draw.whole(3, 6), draw.whole(30, 50), draw.whole(90, 150));
            Setup {
                service: format!("--workers 128 --sleep-ms {sleep_ms} --cpu-ms {cpu_ms}"),
                vary: format!(
                    "\"host.cpu_quota\" = {{ baseline = \"{percent}%\", levels = [\"{}%\"] }}",
                    2 * percent
                ),
                cpu_ms: Some(cpu_ms as f64),
                capacity: Some(percent as f64 * 10.0 / cpu_ms as f64),
                delay_ms: (sleep_ms + cpu_ms) as f64,
                what_if: Some("CPU of target"),
                drawn: format!("{cpu_ms} ms CPU and {sleep_ms} ms each, quota {percent} %"),
                ..closed_densely()
            }
        },
    },
    Case {
        name: "disk-read",
        planted: "disk",
        partly: &[],
        make: |draw, paths| {
            let (reads, limit, sleep_ms) = (draw.whole(2, 4), draw.whole(300, 600), draw.whole(80, 140));
            Setup {
                service: format!(
                    "--workers 128 --sleep-ms {sleep_ms} --reads {reads} --file {}",
                    paths.file.display()
                ),
                vary: format!(
                    "\"host.disk.io_limit\" = {{ baseline = \"read {limit}/s\", levels = [\"read {}/s\"], on = \"{}\" }}",
                    2 * limit,
                    paths.file.display()
                ),
                reads: Some(reads as f64),
                capacity: Some(limit as f64 / reads as f64),
                delay_ms: sleep_ms as f64,
                what_if: Some("disk reads"),
                drawn: format!("{reads} reads and {sleep_ms} ms each, {limit} reads/s"),
                ..closed_densely()
            }
        },
    },
    Case {
        name: "lock",
        planted: "lock",
        partly: &[],
        make: |draw, _| {
            let (lock_ms, sleep_ms) = (draw.whole(6, 15), draw.whole(60, 120));
            Setup {
                service: format!("--workers 128 --sleep-ms {sleep_ms} --lock-ms {lock_ms}"),
                capacity: Some(1000.0 / lock_ms as f64),
                delay_ms: (sleep_ms + lock_ms) as f64,
                drawn: format!("{lock_ms} ms in one lock, {sleep_ms} ms outside"),
                ..closed()
            }
        },
    },
    Case {
        name: "worker-pool",
        planted: "worker-pool",
        partly: &[],
        make: |draw, _| {
            let (workers, sleep_ms) = (draw.whole(6, 14), draw.whole(20, 60));
            Setup {
                service: format!("--workers {workers} --sleep-ms {sleep_ms}"),
                capacity: Some(workers as f64 * 1000.0 / sleep_ms as f64),
                delay_ms: sleep_ms as f64,
                drawn: format!("{workers} workers, {sleep_ms} ms each"),
                ..closed_densely()
            }
        },
    },
    Case {
        name: "downstream",
        planted: "downstream",
        partly: &[],
        make: |draw, paths| {
            let (slots, sleep_ms, front_ms) = (draw.whole(3, 6), draw.whole(15, 30), draw.whole(30, 60));
            Setup {
                service: format!("--workers 128 --sleep-ms {front_ms} --call {}", paths.behind),
                behind: Some(format!("--workers {slots} --sleep-ms {sleep_ms}")),
                capacity: Some(slots as f64 * 1000.0 / sleep_ms as f64),
                delay_ms: (front_ms + sleep_ms) as f64,
                drawn: format!("{slots} slots behind, {sleep_ms} ms each, {front_ms} ms in front"),
                ..closed()
            }
        },
    },
    Case {
        name: "network",
        planted: "network",
        partly: &[],
        make: |draw, _| {
            let (kilobytes, mbit, sleep_ms) = (draw.whole(60, 140), draw.whole(50, 120), draw.whole(40, 80));
            Setup {
                service: format!("--workers 128 --sleep-ms {sleep_ms} --body-bytes {}", kilobytes * 1000),
                network_mbit: Some(mbit),
                // 4 % of framing: headers of TCP and IP with their options in packets of 1500 bytes.
                capacity: Some(mbit as f64 * 1e6 / 8.0 / (kilobytes as f64 * 1000.0 * 1.045)),
                delay_ms: sleep_ms as f64 + (kilobytes * 8) as f64 / mbit as f64,
                drawn: format!("{kilobytes} kB and {sleep_ms} ms each, {mbit} Mbit/s"),
                ..closed()
            }
        },
    },
    Case {
        name: "load",
        planted: "load-generator",
        partly: &[],
        make: |draw, _| {
            let (users, think_ms) = (draw.whole(3, 6), draw.whole(15, 30));
            Setup {
                service: "--workers 64 --sleep-ms 1".into(),
                load: format!("closed = {users}\nthink = \"{think_ms}ms\""),
                levels: vec![1, 2],
                drawn: format!("{users} users, {think_ms} ms of thinking"),
                ..Setup::default()
            }
        },
    },
    Case {
        name: "none",
        planted: "none",
        partly: &[],
        make: |draw, _| {
            let (workers, sleep_ms) = (draw.whole(6, 12), draw.whole(20, 50));
            let capacity = workers as f64 * 1000.0 / sleep_ms as f64;
            let rate = (capacity * 0.2).round().max(1.0);
            Setup {
                service: format!("--workers {workers} --sleep-ms {sleep_ms}"),
                load: format!("open = \"{rate}/s\"\narrivals = \"poisson\""),
                drawn: format!("{workers} workers, {sleep_ms} ms each, {rate}/s asked"),
                ..Setup::default()
            }
        },
    },
    Case {
        name: "connections",
        planted: "connection-pool",
        partly: &[],
        make: |draw, paths| {
            let (slots, sleep_ms) = (draw.whole(3, 6), draw.whole(15, 30));
            Setup {
                service: format!("--workers 48 --call {} --call-connections {slots}", paths.behind),
                behind: Some(format!("--workers 64 --sleep-ms {sleep_ms}")),
                capacity: Some(slots as f64 * 1000.0 / sleep_ms as f64),
                delay_ms: sleep_ms as f64,
                drawn: format!("{slots} connections, {sleep_ms} ms each"),
                ..closed()
            }
        },
    },
    Case {
        name: "single-thread",
        planted: "single-thread",
        partly: &[],
        make: |draw, _| {
            let cpu_ms = draw.whole(4, 9);
            Setup {
                service: format!("--workers 16 --single-thread-cpu-ms {cpu_ms}"),
                drawn: format!("{cpu_ms} ms CPU of one thread"),
                ..closed()
            }
        },
    },
    Case {
        name: "pause",
        planted: "pause",
        partly: &[],
        make: |draw, _| {
            let (sleep_ms, pause_ms) = (draw.whole(20, 40), draw.whole(260, 340));
            Setup {
                service: format!(
                    "--workers 128 --sleep-ms {sleep_ms} --pause-ms {pause_ms} --pause-every-ms 440"
                ),
                // Pauses are seen by intervals that are shorter than they.
                load: format!("closed = {USERS}\ninterval = \"50ms\""),
                drawn: format!("all stand still {pause_ms} ms of every 440 ms, {sleep_ms} ms each"),
                ..closed()
            }
        },
    },
    Case {
        name: "mixed",
        planted: "mixed",
        partly: &["cpu", "disk"],
        make: |draw, paths| {
            let (reads, limit, cpu_ms) = (draw.whole(3, 4), draw.whole(240, 350), draw.whole(4, 6));
            // Both give out at the same throughput.
            let percent = (limit as f64 / reads as f64 * cpu_ms as f64 / 10.0).round();
            Setup {
                service: format!(
                    "--workers 128 --cpu-ms {cpu_ms} --reads {reads} --file {}",
                    paths.file.display()
                ),
                vary: format!(
                    "\"host.cpu_quota\" = {{ baseline = \"{percent}%\", levels = [\"{}%\"] }}\n\
                     \"host.disk.io_limit\" = {{ baseline = \"read {limit}/s\", levels = [\"read {}/s\"], on = \"{}\" }}",
                    2.0 * percent,
                    2 * limit,
                    paths.file.display()
                ),
                cpu_ms: Some(cpu_ms as f64),
                reads: Some(reads as f64),
                capacity: Some(limit as f64 / reads as f64),
                drawn: format!("{cpu_ms} ms CPU of {percent} %, {reads} reads of {limit}/s"),
                // Two resources are turned both ways: a short sweep leaves time for it.
                levels: vec![4, 16],
                ..closed()
            }
        },
    },
];

/// What came of one case.
struct Outcome {
    proved: String,
    observed: String,
    thumb: String,
    proof: bool,
    measured: f64,
    /// What was foretold from loads up to 0.7 of the knee, with its interval; none when that is refused.
    foretold: Option<(f64, f64, f64)>,
    /// What the universal scalability law says of the same loads, whatever it fits and however far that is.
    law_only: Option<f64>,
    /// What twice of the resource was foretold to give, and what it gave.
    what_if: Option<(f64, f64)>,
    seconds: f64,
    text: String,
}

/// Runs the cases. `--seeds N`, `--first-seed K` and names of cases choose; `--keep` leaves the records, and `--from FOLDER`
/// judges records that were left once more, as the program now does, without driving any load.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    let (mut seeds, mut first_seed) = (5, 0);
    let mut keep = false;
    let mut from: Option<PathBuf> = None;
    let mut chosen: Vec<&str> = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" | "--first-seed" => {
                let number = words.next().and_then(|n| n.parse().ok());
                let number: u64 = number.ok_or_else(|| format!("{word} wants a number"))?;
                *(if word == "--seeds" { &mut seeds } else { &mut first_seed }) = number;
            }
            "--keep" => keep = true,
            "--from" => from = Some(words.next().ok_or("--from wants a folder of records")?.into()),
            name => chosen.push(name),
        }
    }
    let program = plimsoll(repository)?;
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-testkit", "--bin", "planted"])?;
    let planted = program.with_file_name("planted");
    let folder = Folder::new(repository, "calibrate")?;
    let file = folder.0.join("data.bin");
    let neighbour = match from {
        Some(_) => None,
        None => {
            write_data(&file)?;
            Some(Neighbour::start())
        }
    };
    let mut faults = Vec::new();
    let mut score = Score::default();
    println!(
        "{:<14} {:>4}  {:<16} {:<16} {:<16} {:<16} {:>8} {:>8} {:>9} {:>15} {:>9} {:>9} {:>5}  drawn",
        "case",
        "seed",
        "planted",
        "with proof",
        "observed only",
        "rules of thumb",
        "true/s",
        "seen/s",
        "foretold",
        "90 %",
        "law only",
        "x2",
        "s"
    );
    for seed in first_seed..first_seed + seeds {
        for (at, case) in CASES.iter().enumerate() {
            if !chosen.is_empty() && !chosen.contains(&case.name) {
                continue;
            }
            let mut draw = Draw::new(seed, at);
            let ports = free_ports()?;
            let paths = Paths { behind: format!("127.0.0.1:{}", ports[1]), file: file.clone() };
            let setup = (case.make)(&mut draw, &paths);
            let name = format!("{}-{seed}", case.name);
            let outcome = match &from {
                Some(records) if !records.join(&name).exists() => continue,
                Some(records) => json(&program, &["explain", &name, "--json"].map(str::to_string), records)
                    .and_then(|document| judge_case(&program, records, &name, &setup, &document)),
                None => {
                    let begin = Instant::now();
                    run_case(&program, &planted, &folder.0, case, &setup, seed, ports).and_then(|document| {
                        // Until the verdict is there; what is foretold from parts of the record comes after it.
                        let seconds = begin.elapsed().as_secs_f64();
                        let outcome = judge_case(&program, &folder.0, &name, &setup, &document)?;
                        Ok(Outcome { seconds, ..outcome })
                    })
                }
            };
            let outcome = match outcome {
                Ok(outcome) => outcome,
                // One that could not be run must not cost the others.
                Err(why) => {
                    println!("{name}: {why}");
                    faults.push(Fault::new("make calibrate", name, why));
                    continue;
                }
            };
            print_row(case, seed, &setup, &outcome);
            score.count(case, &setup, &outcome);
            if !case.is_right(&outcome.proved) {
                let what = format!("{} with seed {seed}: {}", case.name, outcome.proved);
                faults.push(Fault::new("make calibrate", what, format!("{} is planted", case.planted)));
            }
        }
    }
    drop(neighbour);
    score.print();
    if keep {
        println!("the records are in {}", folder.0.display());
        std::mem::forget(folder);
    }
    Ok(faults)
}

fn print_row(case: &Case, seed: u64, setup: &Setup, outcome: &Outcome) {
    let mark = |said: &str, is_right: bool| if is_right { said.to_string() } else { format!("{said} !") };
    let rate = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let proof = if outcome.proof { "" } else { "(not proved)" };
    println!(
        "{:<14} {:>4}  {:<16} {:<16} {:<16} {:<16} {:>8} {:>8.1} {:>9} {:>15} {:>9} {:>9} {:>5.0}  {} {proof}",
        case.name,
        seed,
        case.planted,
        mark(&outcome.proved, case.is_right(&outcome.proved)),
        mark(&outcome.observed, case.is_partly_right(&outcome.observed)),
        mark(&outcome.thumb, case.is_partly_right(&outcome.thumb)),
        rate(setup.capacity),
        outcome.measured,
        rate(outcome.foretold.map(|(value, _, _)| value)),
        outcome.foretold.map_or_else(|| "-".into(), |(_, low, high)| format!("{low:.1}-{high:.1}")),
        rate(outcome.law_only),
        outcome.what_if.map_or_else(|| "-".into(), |(said, gave)| format!("{said:.2}/{gave:.2}")),
        outcome.seconds,
        setup.drawn
    );
    if !case.is_right(&outcome.proved) || !case.is_partly_right(&outcome.observed) {
        println!("               {}", outcome.text);
    }
}

/// The totals of the table.
#[derive(Default)]
struct Score {
    cases: usize,
    /// Right verdicts: with proof, observed only, by rules of thumb.
    right: [usize; 3],
    wrong_with_proof: usize,
    /// A bottleneck named where there is none.
    false_bottlenecks: usize,
    longest_s: f64,
    measured: Vec<f64>,
    foretold: Vec<f64>,
    covered: usize,
    refused: usize,
    law_only: Vec<f64>,
    what_ifs: Vec<f64>,
}

impl Score {
    fn count(&mut self, case: &Case, setup: &Setup, outcome: &Outcome) {
        self.cases += 1;
        let is_right = case.is_right(&outcome.proved);
        let verdicts =
            [is_right, case.is_partly_right(&outcome.observed), case.is_partly_right(&outcome.thumb)];
        for (total, is_right) in self.right.iter_mut().zip(verdicts) {
            *total += usize::from(is_right);
        }
        self.wrong_with_proof += usize::from(outcome.proof && !is_right && outcome.proved != REFUSED);
        let nothing = ["none", "load-generator"];
        self.false_bottlenecks += usize::from(
            nothing.contains(&case.planted)
                && outcome.proved != REFUSED
                && !nothing.contains(&outcome.proved.as_str()),
        );
        self.longest_s = self.longest_s.max(outcome.seconds);
        if let Some(capacity) = setup.capacity {
            let error = |value: f64| (value / capacity - 1.0).abs();
            self.measured.push(error(outcome.measured));
            match outcome.foretold {
                Some((value, low, high)) => {
                    self.foretold.push(error(value));
                    self.covered += usize::from((low..=high).contains(&capacity));
                }
                None => self.refused += 1,
            }
            self.law_only.extend(outcome.law_only.map(error));
        }
        self.what_ifs.extend(outcome.what_if.map(|(said, gave)| (said / gave - 1.0).abs()));
    }

    fn print(&self) {
        let share =
            |right: usize| format!("{right} ({:.0} %)", 100.0 * right as f64 / self.cases.max(1) as f64);
        let [proved, observed, thumb] = self.right.map(share);
        println!(
            "{} cases: right with proof {proved}, observed only {observed}, rules of thumb {thumb}; wrong with a proof {}, \
             a bottleneck where there is none {}; the longest case took {:.0} s",
            self.cases, self.wrong_with_proof, self.false_bottlenecks, self.longest_s
        );
        println!("measured against planted capacity: {}", spread(&self.measured));
        println!(
            "capacity foretold from loads up to 0.7 of the knee: {} refused; {}; in the 90 % interval {}",
            self.refused,
            spread(&self.foretold),
            self.covered
        );
        println!("the scalability law on the same loads, without refusal: {}", spread(&self.law_only));
        println!("twice of a resource: {}", spread(&self.what_ifs));
    }
}

/// Errors in a phrase.
fn spread(errors: &[f64]) -> String {
    let mut sorted = errors.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place.saturating_sub(1)).map_or(f64::NAN, |error| 100.0 * error);
    format!(
        "{} answered, median error {:.1} %, 90th percentile {:.1} %, largest {:.1} %",
        sorted.len(),
        100.0 * median(errors),
        at((sorted.len() * 9).div_ceil(10)),
        at(sorted.len())
    )
}

/// Random bytes to read.
fn write_data(file: &Path) -> Result<(), String> {
    let status = Command::new("dd")
        .args(["if=/dev/urandom", "bs=1M", "count=256", "conv=fsync", "status=none"])
        .arg(format!("of={}", file.display()))
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("dd: {status}")),
        Err(error) => Err(format!("dd: {error}")),
    }
}

/// Two ports nobody listens on.
fn free_ports() -> Result<[u16; 2], String> {
    let bind = || TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string());
    let (first, second) = (bind()?, bind()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port()).map_err(|e| e.to_string());
    Ok([port(&first)?, port(&second)?])
}

/// Runs the experiment of a case: the document that the program prints of it.
fn run_case(
    program: &Path,
    planted: &Path,
    folder: &Path,
    case: &Case,
    setup: &Setup,
    seed: u64,
    ports: [u16; 2],
) -> Result<Value, String> {
    let text = experiment(planted, case, setup, seed, ports[0]);
    let name = format!("{}-{seed}", case.name);
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    let network = setup.network_mbit.map(|mbit| Network::new(&name, mbit)).transpose()?;
    let mut behind = None;
    if let Some(arguments) = &setup.behind {
        let mut command = Command::new(planted);
        command.args(["--listen", &format!("127.0.0.1:{}", ports[1])]).args(arguments.split(' '));
        command.stdout(std::process::Stdio::null());
        behind = Some(Ended(command.spawn().map_err(|error| format!("planted: {error}"))?));
    }
    let mut arguments: Vec<String> =
        ["run", &format!("{name}.toml"), "--json", "--quiet", "--run-dir", &name]
            .map(str::to_string)
            .to_vec();
    let mut runner = program.to_path_buf();
    if let Some(network) = &network {
        // Not `ip netns exec`, which also hides the control groups behind a new /sys.
        let mut inside = vec![format!("--net=/run/netns/{}", network.0), program.display().to_string()];
        inside.append(&mut arguments);
        (runner, arguments) = ("nsenter".into(), inside);
    }
    let document = json(&runner, &arguments, folder)?;
    drop(behind);
    drop(network);
    Ok(document)
}

/// What the program says of the record of a case, beside what was planted.
fn judge_case(
    program: &Path,
    folder: &Path,
    name: &str,
    setup: &Setup,
    document: &Value,
) -> Result<Outcome, String> {
    let knee = setup.capacity.map(|capacity| (capacity, capacity * setup.delay_ms / 1e3));
    let foretold = knee.map(|(capacity, knee)| foretell(program, folder, name, capacity, knee));
    let law_only = knee.and_then(|(_, knee)| law_only(document, knee));
    let what_if = match setup.what_if {
        Some(resource) => what_if(program, folder, name, document, resource)?,
        None => None,
    };
    for (what, planted, measured) in [
        ("CPU, ms", setup.cpu_ms, 1e3 * cost(document, &["user_cpu", "system_cpu"])),
        ("reads", setup.reads, cost(document, &["reads"])),
    ] {
        if let Some(planted) = planted {
            let miss = 100.0 * (measured / planted - 1.0);
            println!(
                "{name}: one request costs {planted:.3} {what} planted, {measured:.3} measured ({miss:+.1} %)"
            );
        }
    }
    let baseline = document["trials"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|trial| trial["treatment"]["label"] == "baseline" && trial["ending"] == "completed");
    let baseline =
        baseline.ok_or_else(|| format!("{name}: no baseline was measured: {}", document["trials"]))?;
    let operations = baseline["operations"].as_array();
    let measured = operations.and_then(|all| all.last()).and_then(|all| all["rate_per_s"].as_f64());
    Ok(Outcome {
        proved: label(&document["verdict"]),
        observed: label(match &document["proof"]["observed"] {
            Value::Null => &document["verdict"],
            observed => observed,
        }),
        thumb: rule_of_thumb(&baseline["resources"]),
        proof: document["verdict"]["proved"] == true,
        measured: measured.unwrap_or(f64::NAN),
        foretold: foretold.transpose()?.flatten(),
        law_only,
        what_if,
        seconds: 0.0,
        text: format!(
            "{} {}",
            document["verdict"]["text"].as_str().unwrap_or_default(),
            document["verdict"]["proof"].as_str().unwrap_or_default()
        ),
    })
}

/// What one request costs the target in the baseline, several kinds together.
fn cost(document: &Value, kinds: &[&str]) -> f64 {
    let costs = document["configurations"][0]["costs"].as_array().into_iter().flatten();
    let parts = costs.flat_map(|cost| cost["parts"].as_array().into_iter().flatten());
    let ours = parts.filter(|part| part["of"]["process"] == "target");
    let ours = ours.filter(|part| part["kind"].as_str().is_some_and(|kind| kinds.contains(&kind)));
    ours.filter_map(|part| part["each"]["value"].as_f64()).sum()
}

/// Loads from which capacity is foretold: up to this share of the knee.
const BELOW_KNEE: f64 = 0.7;

/// What `plimsoll size` foretells from the levels up to 0.7 of the knee: value, low, high.
fn foretell(
    program: &Path,
    folder: &Path,
    name: &str,
    capacity: f64,
    knee: f64,
) -> Result<Option<(f64, f64, f64)>, String> {
    let question = format!("{:.1}/s", capacity * 0.8);
    let arguments =
        ["size", name, "--for", &question, "--up-to", &format!("{:.2}", BELOW_KNEE * knee), "--json"];
    let answer = json(program, &arguments.map(str::to_string), folder)?;
    let carries = &answer["answer"]["carries_per_s"];
    let at_least = answer["answer"]["at_least"].as_bool().unwrap_or(true);
    let number = |key: &str| carries[key].as_f64();
    Ok(number("value")
        .zip(number("low"))
        .zip(number("high"))
        .map(|((value, low), high)| (value, low, high))
        .filter(|_| !at_least))
}

/// The highest throughput of the universal scalability law drawn through the levels up to 0.7 of the knee, as a spreadsheet
/// does it: `N / X` is a parabola in `N - 1`, by least squares. What somebody gets who never refuses.
fn law_only(document: &Value, knee: f64) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for trial in document["trials"].as_array()? {
        let all = trial["operations"].as_array().and_then(|operations| operations.last());
        let number = |key: &str| all.and_then(|all| all[key].as_f64());
        let of_load = trial["treatment"]["label"].as_str().is_some_and(|label| label.contains("load.closed"));
        if let (Some(users), Some(rate), true) = (number("concurrency"), number("rate_per_s"), of_load)
            && users <= BELOW_KNEE * knee * 1.02
            && rate > 0.0
        {
            points.push((users - 1.0, users / rate));
        }
    }
    let [constant, linear, square] = parabola(&points)?;
    // g = 1 / constant, a - b = linear g, b = square g; negative costs are none.
    let coherency = (square / constant).max(0.0);
    let contention = (linear / constant - coherency).max(0.0);
    let throughput = |n: f64| n / (constant * (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0)));
    match () {
        () if coherency > 0.0 => Some(throughput(((1.0 - contention).max(0.0) / coherency).sqrt().max(1.0))),
        () if contention > 0.0 => Some(1.0 / (constant * contention)),
        () => Some(throughput(USERS as f64)),
    }
}

/// `y = c0 + c1 x + c2 x^2` by least squares; none with fewer than three different x.
fn parabola(points: &[(f64, f64)]) -> Option<[f64; 3]> {
    let sum = |value: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| value(*x, *y)).sum::<f64>();
    let power = |exponent: i32| sum(&|x, _| x.powi(exponent));
    let matrix =
        [[power(0), power(1), power(2)], [power(1), power(2), power(3)], [power(2), power(3), power(4)]];
    let right = [sum(&|_, y| y), sum(&|x, y| x * y), sum(&|x, y| x * x * y)];
    let determinant = |m: &[[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let whole = determinant(&matrix);
    let mut solution = [0.0; 3];
    for (at, value) in solution.iter_mut().enumerate() {
        let mut replaced = matrix;
        for (row, right) in replaced.iter_mut().zip(right) {
            row[at] = right;
        }
        *value = determinant(&replaced) / whole;
    }
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

/// What twice of a resource is foretold to give, and what it gave, as ratios of throughput.
fn what_if(
    program: &Path,
    folder: &Path,
    name: &str,
    document: &Value,
    resource: &str,
) -> Result<Option<(f64, f64)>, String> {
    let arguments = ["size", name, "--for", "1/s", "--json"].map(str::to_string);
    let answer = json(program, &arguments, folder)?;
    let rows = answer["answer"]["resources"].as_array();
    let row = rows.into_iter().flatten().find(|row| row["resource"] == resource);
    let gave = document["comparison"].as_array().into_iter().flatten().find(|row| {
        row["metric"] == "rate_per_s"
            && row["configuration"].as_str().is_some_and(|label| label.starts_with("host."))
    });
    Ok(row.and_then(|row| row["twice_gives"].as_f64()).zip(gave.and_then(|row| row["ratio"].as_f64())))
}

fn experiment(planted: &Path, case: &Case, setup: &Setup, seed: u64, port: u16) -> String {
    let mut text = format!(
        "name = \"{}\"\nseed = {}\nprove = true\nsample_every = \"100ms\"\n\n[target]\nstart = \"{} --listen 127.0.0.1:{port} {}\"\n\
         ready = \"tcp://127.0.0.1:{port}\"\n\n[workload.http]\nurl = \"http://127.0.0.1:{port}/\"\n\
         keep_alive = false\n\n[load]\n{}\nwarm_up = \"1s\"\nmeasure = \"2500ms\"\n\n[vary]\n",
        case.name,
        seed + 1,
        planted.display(),
        setup.service,
        setup.load,
    );
    if !setup.levels.is_empty() {
        let _ = writeln!(text, "\"load.closed\" = {{ levels = {:?} }}", setup.levels);
    }
    text.push_str(&setup.vary);
    text.push('\n');
    text
}

/// The verdict in the words of the cases, by its typed form; `-` when none is given.
pub(crate) fn label(verdict: &Value) -> String {
    let limit = &verdict["limit"];
    let class = limit["one"]["resource"]["class"].as_str();
    let of_class = match class {
        Some("cpu" | "cpu_quota") => "cpu",
        Some("disk" | "io_limit") => "disk",
        Some("single_thread") => "single-thread",
        Some("memory") => "memory",
        Some("lock") => "lock",
        Some("worker_pool") => "worker-pool",
        Some("connection_pool") => "connection-pool",
        Some("downstream") => "downstream",
        Some("network") => "network",
        Some("pause") => "pause",
        Some(_) => "?",
        None => "mixed",
    };
    match verdict["kind"].as_str() {
        Some("generator_bound") => "load-generator",
        Some("not_saturated") if !verdict["carried"]["all_that_users_asked"].is_null() => "load-generator",
        Some("not_saturated") => "none",
        Some("bottleneck") => of_class,
        _ => REFUSED,
    }
    .to_string()
}

/// What administrators' thresholds over the host's counters say: processors over 90 %, a disk over 95 % busy or with
/// transfers over 20 ms, memory nearly gone.
fn rule_of_thumb(resources: &Value) -> String {
    let over = |metric: &str, line: f64| {
        let found = resources.as_array().into_iter().flatten().filter(|used| used["metric"] == metric);
        found.filter_map(|used| used["mean"].as_f64()).any(|mean| mean > line)
    };
    match () {
        () if over("cpu.busy_share", 0.9) => "cpu",
        () if over("disk.utilization_share", 0.95) || over("disk.transfer_s", 0.020) => "disk",
        () if over("pressure.memory_some_share", 0.2) => "memory",
        () => "none",
    }
    .to_string()
}

/// Somebody else's program on the same machine: it uses a CPU in bursts.
struct Neighbour(std::sync::Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Neighbour {
    fn start() -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut draw = Draw::new(7, 7);
            while !told.load(Ordering::Relaxed) {
                let busy = Instant::now() + Duration::from_millis(draw.whole(20, 400));
                while Instant::now() < busy {
                    std::hint::spin_loop();
                }
                std::thread::sleep(Duration::from_millis(draw.whole(5, 200)));
            }
        });
        Neighbour(stop, Some(thread))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

/// A network of its own whose loopback interface carries so many bits per second.
struct Network(String);

impl Network {
    fn new(name: &str, mbit: u64) -> Result<Self, String> {
        let name = format!("plimsoll-{name}");
        // One that was killed left it behind.
        drop(Network(name.clone()));
        let network = Network(name.clone());
        for line in [
            format!("ip netns add {name}"),
            format!("ip -n {name} link set lo mtu 1500 up"),
            format!(
                "ip netns exec {name} tc qdisc add dev lo root tbf rate {mbit}mbit burst 64kb latency 400ms"
            ),
        ] {
            let mut words = line.split(' ');
            let status = Command::new(words.next().unwrap_or_default()).args(words).status();
            match status {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("{line}: {status}")),
                Err(error) => return Err(format!("{line}: {error}")),
            }
        }
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ =
            Command::new("ip").args(["netns", "del", &self.0]).stderr(std::process::Stdio::null()).status();
    }
}
