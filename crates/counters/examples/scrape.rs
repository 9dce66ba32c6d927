//! What scraping an exporter costs: 2,000 series that change, once a second for a minute, as in a run.
//!
//! `cargo run --release -p plimsoll-counters --example scrape [SERIES] [SECONDS]`
//!
//! The exporter is a thread of this program; its time is not counted. Printed are the CPU time of the thread that scrapes and of
//! the thread that takes the samples (user and system), each as a share of one CPU, and the time of a scrape.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::unwrap_used, reason = "an example may stop at the first surprise")]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{sleep, spawn};
use std::time::Duration;

use engine::clock::Clock;
use engine::source::HostRoot;
use model::Readings;
use rustix::time::{ClockId, clock_gettime};

fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// An exposition in the proportions of node_exporter: many CPUs and disks, each value other than in the one before.
fn exposition(series: usize, scrape: u64) -> String {
    let mut out = String::from(
        "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.\n# TYPE node_cpu_seconds_total counter\n",
    );
    let modes = ["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"];
    for at in 0..series / 2 {
        let (cpu, mode) = (at / modes.len(), modes[at % modes.len()]);
        let _ = writeln!(
            out,
            "node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}} {}.{}",
            1000 + scrape,
            at % 90 + 10
        );
    }
    for at in series / 2..series {
        let (disk, kind) = (at % 50, at / 50);
        let _ = writeln!(
            out,
            "node_disk_kind{kind}_total{{device=\"sd{disk}\"}} {}",
            1_234_567 + 100 * scrape + at as u64
        );
    }
    out
}

fn serve(mut stream: TcpStream, series: usize) {
    let mut head = [0; 4096];
    for scrape in 0.. {
        if !stream.read(&mut head).is_ok_and(|count| count > 0) {
            return;
        }
        let body = exposition(series, scrape);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().unwrap());
    let (series, seconds): (usize, usize) =
        (arguments.next().unwrap_or(2000), arguments.next().unwrap_or(60));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        for stream in listener.incoming().flatten() {
            spawn(move || serve(stream, series));
        }
    });
    let entry = format!("exporter=http://{address}/metrics");
    let mut source = (plimsoll_counters::scrape::KIND.open)(&HostRoot::live(), &[entry]).unwrap();
    let (clock, mut readings) = (Clock::get(), Readings::new());
    let mut text = String::new();
    let (mut scraping, mut duration, mut age, mut count) = (0.0, 0.0, 0.0, 0.0);
    let begin = thread_cpu_s();
    for _ in 0..=seconds {
        readings.clear();
        source.read(clock.now(), &mut readings).unwrap();
        // What a record writes of a sample.
        text.clear();
        for value in readings.values().iter().filter(|value| value.is_finite()) {
            let _ = write!(text, "{value},");
        }
        let of = |metric: &str| readings.get(metric, "//exporter");
        if let (Some(busy), Some(took), Some(old)) =
            (of("scrape.busy_cpus"), of("scrape.duration_s"), of("scrape.age_s"))
        {
            (scraping, duration, age, count) = (scraping + busy, duration + took, age + old, count + 1.0);
        }
        sleep(Duration::from_secs(1));
    }
    let sampling = (thread_cpu_s() - begin) / seconds as f64;
    println!("{series} series, {count} scrapes in {seconds} s, {} columns", readings.columns().len());
    println!("scraping thread  {:.3} % of one CPU", 100.0 * scraping / count);
    println!("sampling thread  {:.3} % of one CPU, with the text of a sample", 100.0 * sampling);
    println!(
        "a scrape takes   {:.2} ms, and is {:.0} ms old when it is sampled",
        1e3 * duration / count,
        1e3 * age / count
    );
}
