//! What reading every counter costs, beside a process of 500 sleeping threads (this one).
//!
//! `cargo run --release -p plimsoll-counters --example cost`
//!
//! First each source alone, many samples back to back; then all of them at 10 Hz and at 1 Hz for twenty seconds each, as
//! in a run. Processor time is that of the reading thread, the kernel's part included.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::unwrap_used, reason = "an example may stop at the first surprise")]

use std::thread;
use std::time::{Duration, Instant};

use engine::source::{HostRoot, Source};
use model::{Nanos, Readings, SECOND};
use plimsoll_counters::SOURCES;
use rustix::time::{ClockId, clock_gettime};

const THREADS: usize = 500;
const SAMPLES: u32 = 600;

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    for _ in 0..THREADS {
        thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(|| {
                loop {
                    thread::park();
                }
            })
            .unwrap();
    }

    let mut readings = Readings::new();
    let mut sources: Vec<(&str, Box<dyn Source>)> = Vec::new();
    for kind in SOURCES {
        let selected: Vec<String> = match kind.selector {
            "process" => vec!["self".into()],
            "cgroup" => vec!["/".into()],
            _ => Vec::new(),
        };
        match (kind.open)(&HostRoot::live(), &selected) {
            Ok(source) => sources.push((kind.name, source)),
            Err(why) => println!("{:<12} {why}", kind.name),
        }
    }

    println!("{SAMPLES} samples back to back, each taken as one at 1 Hz and at 10 Hz:");
    println!(
        "{:<12} {:>8} {:>10} {:>10} {:>10}",
        "source", "first us", "us/sample", "% at 1 Hz", "% at 10 Hz"
    );
    let mut totals = [0.0; 2];
    for (name, source) in &mut sources {
        let mut now: Nanos = 0;
        let mut sample = |step: Nanos| {
            now += step;
            let begin = processor_time();
            readings.clear();
            source.read(now, &mut readings).unwrap();
            (processor_time() - begin).as_secs_f64() * 1e6
        };
        let first = sample(SECOND);
        // The clock the source is given passes as it would at that frequency: what is done once a second is done so here.
        let [slow, fast] = [SECOND, SECOND / 10]
            .map(|step| (0..SAMPLES).map(|_| sample(step)).sum::<f64>() / f64::from(SAMPLES));
        println!("{name:<12} {first:>8.0} {slow:>10.1} {:>10.4} {:>10.4}", slow / 1e4, fast / 1e3);
        totals[0] += slow / 1e4;
        totals[1] += fast / 1e3;
    }
    println!("{:<12} {:>8} {:>10} {:>10.4} {:>10.4}", "all", "", "", totals[0], totals[1]);

    // A thread that sleeps between its samples finds colder caches than one that never does. The clock the sources are
    // given goes on from where it is by now.
    for (per_second, begin) in [(10, 10_000 * SECOND), (1, 20_000 * SECOND)] {
        run(&mut sources, &mut readings, per_second, begin);
    }
    for (name, source) in &sources {
        let limits = source.limits();
        if !limits.is_empty() {
            println!("{name}: {limits}");
        }
    }
}

/// Takes samples at a fixed rate for twenty seconds and prints what each source cost.
fn run(sources: &mut [(&str, Box<dyn Source>)], readings: &mut Readings, per_second: u32, begin: Nanos) {
    const SECONDS: u32 = 20;
    let mut spent = vec![Duration::ZERO; sources.len()];
    let (began, before) = (Instant::now(), processor_time());
    for sample in 1..=SECONDS * per_second {
        let due = Duration::from_secs(1) / per_second * sample;
        thread::sleep(due.saturating_sub(began.elapsed()));
        readings.clear();
        let now = begin + began.elapsed().as_nanos() as Nanos;
        for ((_, source), spent) in sources.iter_mut().zip(&mut spent) {
            let begin = processor_time();
            source.read(now, readings).unwrap();
            *spent += processor_time() - begin;
        }
    }
    let percent = |time: Duration| time.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    println!("at {per_second} Hz for {SECONDS} s, % of one CPU:");
    for ((name, _), spent) in sources.iter().zip(&spent) {
        println!("{name:<12} {:>10.4}", percent(*spent));
    }
    let all = percent(processor_time() - before);
    println!("{:<12} {all:>10.4}   with waking up; {} columns", "all", readings.columns().len());
}
