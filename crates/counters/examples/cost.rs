//! What reading every counter costs, beside a process of 500 sleeping threads (this one), and what watching another
//! process costs, by the number of its threads.
//!
//! `cargo run --release -p plimsoll-counters --example cost`
//!
//! First each source alone, many samples back to back; then all of them at 10 Hz and at 1 Hz for twenty seconds each, as
//! in a run. Processor time is that of the reading thread, the kernel's part included.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::unwrap_used, reason = "an example may stop at the first surprise")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use engine::source::{HostRoot, Source};
use model::{Nanos, Readings, SECOND};
use plimsoll_counters::SOURCES;
use rustix::time::{ClockId, clock_gettime};

const THREADS: usize = 500;
/// Threads of the other processes that are watched.
const WATCHED: [usize; 2] = [4, 500];
const SAMPLES: u32 = 600;

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap();
}

fn park() {
    loop {
        thread::park();
    }
}

/// Starts this program again as a process with so many threads.
#[expect(
    clippy::disallowed_methods,
    reason = "a process to watch must be started; the sources start nothing"
)]
fn start(threads: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let child = command.arg(threads.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

/// What the started process does until its standard input ends: some threads wait for a peer, the others for a lock.
fn sleep_in(threads: usize) {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    for number in 1..threads {
        match number <= threads.div_ceil(2).min(8) {
            true => {
                let mut stream = TcpStream::connect(peer.local_addr().unwrap()).unwrap();
                let accepted = peer.accept().unwrap();
                spawn(move || {
                    let _ = (stream.read(&mut [0]), accepted);
                });
            }
            false => spawn(park),
        }
    }
    drop(peer);
    thread::sleep(Duration::from_millis(100));
    std::io::stdout().write_all(b".").unwrap();
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

fn main() {
    if let Some(threads) = std::env::args().nth(1) {
        return sleep_in(threads.parse().unwrap());
    }
    for _ in 0..THREADS {
        spawn(park);
    }

    let mut readings = Readings::new();
    let mut sources: Vec<(String, Box<dyn Source>)> = Vec::new();
    let mut watched: Vec<Child> = Vec::new();
    let mut selections: Vec<(String, Vec<String>)> = Vec::new();
    for kind in SOURCES.iter().filter(|kind| kind.selector != engine::source::EXPORTER) {
        let selected: Vec<String> = match kind.selector {
            "process" => vec!["self".into()],
            "cgroup" => vec!["/".into()],
            _ => Vec::new(),
        };
        selections.push((kind.name.into(), selected));
    }
    for threads in WATCHED {
        let child = start(threads);
        selections.push((format!("process {threads}"), vec![child.id().to_string()]));
        watched.push(child);
    }
    for (name, selected) in selections {
        let kind = SOURCES.iter().find(|kind| name.starts_with(kind.name)).unwrap();
        match (kind.open)(&HostRoot::live(), &selected) {
            Ok(source) => sources.push((name, source)),
            Err(why) => println!("{name:<12} {why}"),
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
    for mut child in watched {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// Takes samples at a fixed rate for twenty seconds and prints what each source cost.
fn run(sources: &mut [(String, Box<dyn Source>)], readings: &mut Readings, per_second: u32, begin: Nanos) {
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
