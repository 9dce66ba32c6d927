//! The service `planted` of the testkit with a known limit, under the load of `http`.
//!
//! Each case starts it with parameters drawn from a seed, so that nothing can be tuned
//! to one number, and runs an experiment on it as a user would: `plimsoll run` with a proof. What is planted is known here
//! and reported to nobody else. A neighbour uses CPU all the while, as on a shared machine.
//!
//! Scored beside it: what the rules of thumb over the host's counters would have said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::host::{Neighbour, Network, disk_of, free_ports, write_data};
use super::predict::{law_only, predict, what_if};
use super::score::{Outcome, Score, print_row};
use super::{Draw, Options, label};
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Ended, cargo, json, target};

/// What a case starts and asks.
#[derive(Default)]
pub(super) struct Setup {
    /// Arguments of the service under test, but for where it listens.
    pub(super) service: String,
    /// Those of the service behind it.
    pub(super) behind: Option<String>,
    /// Lines of `[load]`.
    pub(super) load: String,
    /// Users of the sweep, but for the baseline's.
    pub(super) levels: Vec<u64>,
    /// Lines of `[vary]` beside the sweep.
    pub(super) vary: String,
    /// Megabits per second of the loopback interface, in a network of its own.
    pub(super) network_mbit: Option<u64>,
    /// Requests per second it can carry; none where only a lower bound is known.
    pub(super) capacity: Option<f64>,
    /// What a request takes when it is alone, milliseconds.
    pub(super) delay_ms: f64,
    /// The resource of `plimsoll size` of which the variation beside the sweep gives twice.
    pub(super) what_if: Option<&'static str>,
    /// The case is there for what a request costs: no proof, and many looks at what the threads wait for.
    pub(super) is_for_costs: bool,
    /// How long a trial measures, where that is not 2.5 s.
    pub(super) measure: Option<&'static str>,
    /// What one request takes of the service: CPU time in milliseconds, reads of the disk, flushes of it, time that the
    /// service behind takes in milliseconds.
    pub(super) cpu_ms: Option<f64>,
    pub(super) reads: Option<f64>,
    pub(super) flushes: Option<f64>,
    pub(super) downstream_ms: Option<f64>,
    /// What was drawn, in words.
    pub(super) drawn: String,
}

/// A system with a planted limit.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The right verdict, as [`label`] names it.
    pub(super) planted: &'static str,
    /// What is right as well when nothing was proved: one of several limits that bind at once.
    pub(super) partly: &'static [&'static str],
    make: fn(&mut Draw, &Paths) -> Setup,
}

impl Case {
    pub(super) fn is_right(&self, label: &str) -> bool {
        label == self.planted
    }

    /// Without a proof one of several limits is right as far as it goes.
    pub(super) fn is_partly_right(&self, label: &str) -> bool {
        self.is_right(label) || self.partly.contains(&label)
    }
}

/// Where the case's service listens and its data is.
struct Paths {
    behind: String,
    file: PathBuf,
}

/// Users of the baseline and of the sweep below it.
pub(super) const USERS: u64 = 64;
/// How far what a request costs may be from what is planted, as a share of it.
const COST_ERROR: f64 = 0.05;
const SWEEP: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Where capacity is to be predicted from below the knee: enough loads below it, wherever it lies.
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
                // Two resources are varied in both directions: a short sweep leaves time for it.
                levels: vec![4, 16],
                // Much is begun and not done when a trial of 64 users ends, which blurs what a request costs.
                measure: Some("6s"),
                ..closed()
            }
        },
    },
    Case {
        name: "costs",
        planted: "downstream",
        partly: &[],
        make: |draw, paths| {
            let (cpu_ms, reads, flushes) = (draw.whole(3, 6), draw.whole(1, 4), draw.whole(1, 3));
            let downstream_ms = draw.whole(15, 40);
            Setup {
                service: format!(
                    "--workers 8 --cpu-ms {cpu_ms} --reads {reads} --flushes {flushes} --file {} --call {}",
                    paths.file.display(),
                    paths.behind
                ),
                // It answers after the same time always.
                behind: Some(format!("--workers 8 --lock-ms {downstream_ms}")),
                // Flushes of two at once may be one to the disk.
                load: "closed = 1".into(),
                measure: Some("15s"),
                // Never reached: it gives the service a control group, in which its reads are counted apart from all others.
                vary: format!(
                    "\"host.disk.io_limit\" = {{ baseline = \"read 20000/s\", levels = [\"read 40000/s\"], on = \"{}\" }}",
                    paths.file.display()
                ),
                is_for_costs: true,
                cpu_ms: Some(cpu_ms as f64),
                reads: Some(reads as f64),
                flushes: Some(flushes as f64),
                downstream_ms: Some(downstream_ms as f64),
                drawn: format!(
                    "{cpu_ms} ms CPU, {reads} reads, {flushes} flushes, {downstream_ms} ms behind, one user"
                ),
                ..Setup::default()
            }
        },
    },
];

/// What the cases are called.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs the cases, or judges those of a folder of records once more.
pub(super) fn run(
    repository: &Repository,
    program: &Path,
    folder: &Path,
    options: &Options,
) -> Result<Vec<Fault>, String> {
    if !names().any(|case| options.wants(case)) {
        return Ok(Vec::new());
    }
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-testkit", "--bin", "planted"])?;
    let planted = target(repository).join("release/planted");
    let file = folder.join("data.bin");
    let neighbour = match options.from {
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
        "predicted",
        "90 %",
        "law only",
        "x2",
        "s"
    );
    for seed in options.seeds.clone() {
        for (at, case) in CASES.iter().enumerate() {
            if !options.wants(case.name) {
                continue;
            }
            let mut draw = Draw::new(seed, at);
            let ports = free_ports()?;
            let paths = Paths { behind: format!("127.0.0.1:{}", ports[1]), file: file.clone() };
            let setup = (case.make)(&mut draw, &paths);
            let name = format!("{}-{seed}", case.name);
            let outcome = match &options.from {
                Some(records) if !records.join(&name).exists() => continue,
                Some(records) => json(program, &["explain", &name, "--json"].map(str::to_string), records)
                    .and_then(|document| judge_case(program, records, &name, &setup, &document)),
                None => {
                    let begin = Instant::now();
                    run_case(program, &planted, folder, case, &setup, seed, ports).and_then(|document| {
                        // Until the verdict is there; what is predicted from parts of the record comes after it.
                        let seconds = begin.elapsed().as_secs_f64();
                        let outcome = judge_case(program, folder, &name, &setup, &document)?;
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
            for share in outcome.costs.iter().filter(|share| share.is_nan() || share.abs() > COST_ERROR) {
                let what = format!("{name}: the cost of a request is wrong by {:+.1} %", 100.0 * share);
                faults.push(Fault::new(
                    "make calibrate",
                    what,
                    format!("at most {:.0} % is right", 100.0 * COST_ERROR),
                ));
            }
            if !case.is_right(&outcome.proved) {
                let what = format!("{} with seed {seed}: {}", case.name, outcome.proved);
                faults.push(Fault::new("make calibrate", what, format!("{} is planted", case.planted)));
            }
        }
    }
    drop(neighbour);
    score.print();
    Ok(faults)
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
    let predicted = knee.map(|(capacity, knee)| predict(program, folder, name, capacity, knee));
    let law_only = knee.and_then(|(_, knee)| law_only(document, knee));
    let what_if = match setup.what_if {
        Some(resource) => what_if(program, folder, name, document, resource)?,
        None => None,
    };
    let disk = disk_of(folder)?;
    let costs = [
        ("CPU, ms", setup.cpu_ms, 1e3 * cost(document, "target", &["user_cpu", "system_cpu"])),
        // Of the target alone where it has a control group of its own, as the limit of a disk gives it one.
        (
            "reads",
            setup.reads,
            cost(document, if setup.vary.contains("io_limit") { "target" } else { &disk }, &["reads"]),
        ),
        ("flushes", setup.flushes, cost(document, &disk, &["flushes"])),
        ("service behind, ms", setup.downstream_ms, 1e3 * cost(document, "target", &["downstream"])),
    ];
    let costs = costs.into_iter().filter_map(|(what, planted, measured)| {
        let share = measured / planted? - 1.0;
        println!(
            "{name}: one request costs {:.3} {what} planted, {measured:.3} measured ({:+.1} %)",
            planted?,
            100.0 * share
        );
        Some(share)
    });
    let costs = costs.collect();
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
        predicted: predicted.transpose()?.flatten(),
        law_only,
        what_if,
        costs,
        seconds: 0.0,
        text: format!(
            "{} {}",
            document["verdict"]["text"].as_str().unwrap_or_default(),
            document["verdict"]["proof"].as_str().unwrap_or_default()
        ),
    })
}

/// What one request costs the target, or at a device, in the baseline, several kinds together.
fn cost(document: &Value, of: &str, kinds: &[&str]) -> f64 {
    let costs = document["configurations"][0]["costs"].as_array().into_iter().flatten();
    let parts = costs.flat_map(|cost| cost["parts"].as_array().into_iter().flatten());
    let ours = parts.filter(|part| part["of"]["process"] == of || part["of"]["device"] == of);
    let ours = ours.filter(|part| part["kind"].as_str().is_some_and(|kind| kinds.contains(&kind)));
    ours.filter_map(|part| part["each"]["value"].as_f64()).sum()
}

fn experiment(planted: &Path, case: &Case, setup: &Setup, seed: u64, port: u16) -> String {
    let mut text = format!(
        "name = \"{}\"\nseed = {}\nprove = {}\nsample_every = \"{}\"\n\n[target]\nstart = \"{} --listen 127.0.0.1:{port} {}\"\n\
         ready = \"tcp://127.0.0.1:{port}\"\n\n[workload.http]\nurl = \"http://127.0.0.1:{port}/\"\n\
         keep_alive = false\n\n[load]\n{}\nwarm_up = \"1s\"\nmeasure = \"{}\"\n\n[vary]\n",
        case.name,
        seed + 1,
        !setup.is_for_costs,
        if setup.is_for_costs { "20ms" } else { "100ms" },
        planted.display(),
        setup.service,
        setup.load,
        setup.measure.unwrap_or("2500ms"),
    );
    if !setup.levels.is_empty() {
        let _ = writeln!(text, "\"load.closed\" = {{ levels = {:?} }}", setup.levels);
    }
    text.push_str(&setup.vary);
    text.push('\n');
    text
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
