//! What one disk operation costs the generator: a closed loop over the worker alone, with a clock reading at submit and
//! reap and a histogram record per operation, as the engine's own loop does.
//!
//! ```text
//! cargo run --release -p plimsoll-workloads --example disk_loop -- SECONDS NAME=VALUE...
//! disk_loop 3 files=/data/t size=1GiB outstanding=32 cache=page-cache keep=true
//! ```
//!
//! Prints operations per second, CPU time per operation (user and system, of the whole process while the loop ran) and
//! response times. Compare with `fio` on the same file, interleaved.

use std::process::ExitCode;

use engine::clock::Clock;
use engine::workload::{Admission, Completion, Operation, Share, Worker, WorkloadKind};
use hdrhistogram::Histogram;
use model::{SECOND, Settings};
use plimsoll_workloads::disk::{KIND, OUTSTANDING};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(line) => {
            #[allow(clippy::print_stdout, reason = "it is what the program is for")]
            {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            #[allow(clippy::print_stderr, reason = "so that it is seen")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().ok_or("usage: disk_loop SECONDS NAME=VALUE...")?.parse()?;
    let table = KIND.info().settings;
    let mut settings = Settings::defaults(table);
    for argument in arguments {
        let (name, value) = argument.split_once('=').ok_or("write NAME=VALUE")?;
        let info = table.iter().find(|info| info.name == name).ok_or_else(|| format!("no setting {name}"))?;
        settings.set(name, info.kind.parse(value)?);
    }
    let mut workload = KIND.configure(&settings)?;
    let problems = workload.check();
    if !problems.is_empty() {
        return Err(problems.into());
    }
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
    workload.prepare(seed, &mut |_| true)?;
    let outstanding = settings.get(&OUTSTANDING);
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: outstanding, is_open: false, seed };
    let mut worker = workload.worker(&share)?;
    let measured = closed_loop(worker.as_mut(), outstanding, seconds)?;
    drop(worker);
    workload.clean_up()?;
    Ok(measured)
}

fn closed_loop(worker: &mut dyn Worker, outstanding: u32, seconds: u64) -> Result<String, Failure> {
    let clock = Clock::get();
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60 * SECOND, 3)?;
    let mut free: Vec<u32> = (0..outstanding).collect();
    let mut issued_at = vec![0_u64; outstanding as usize];
    let mut done: Vec<Completion> = Vec::with_capacity(outstanding as usize);
    let (mut number, mut completed) = (0, 0_u64);
    let cpu_before = cpu_us();
    let begun = clock.now();
    let end = begun + seconds * SECOND;
    let mut now = begun;
    while now < end {
        while let Some(ticket) = free.pop() {
            let at = clock.now();
            issued_at[ticket as usize] = at;
            match worker.submit(Operation::new(ticket, number)) {
                Admission::Accepted => number += 1,
                Admission::Completed(_) => {
                    number += 1;
                    completed += 1;
                    now = clock.now();
                    histogram.saturating_record(now - at);
                    free.push(ticket);
                    if now >= end {
                        break;
                    }
                }
                Admission::Busy | Admission::Preparing => {
                    free.push(ticket);
                    break;
                }
                refused => return Err(format!("{refused:?}").into()),
            }
        }
        worker.reap(end, &mut done)?;
        now = clock.now();
        for completion in done.drain(..) {
            histogram.saturating_record(now - issued_at[completion.ticket as usize]);
            free.push(completion.ticket);
            completed += 1;
        }
    }
    let elapsed_s = (now - begun) as f64 / SECOND as f64;
    let cpu_us = cpu_us() - cpu_before;
    Ok(format!(
        "iops {:.0}  cpu_us/op {:.3}  mean_us {:.1}  p50_us {:.1}  p99_us {:.1}",
        completed as f64 / elapsed_s,
        cpu_us / completed.max(1) as f64,
        histogram.mean() / 1e3,
        histogram.value_at_quantile(0.5) as f64 / 1e3,
        histogram.value_at_quantile(0.99) as f64 / 1e3,
    ))
}

/// User and system CPU time of the process so far, microseconds.
fn cpu_us() -> f64 {
    // SAFETY: an all-zero `rusage` is valid, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}
