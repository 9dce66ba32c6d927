//! Compares the proxy with a direct connection and with toxiproxy, in turn, in one run:
//!
//!     cargo bench -p plimsoll-delay --bench proxy -- --rounds 5
//!
//! - `small`: one connection, 64 bytes each way; the added time at p50 and the CPU time of the proxy per exchange.
//! - `bulk`: four connections, bodies of 4 MiB; MB/s, and the CPU time of the proxy per MB.
//! - `exact`: a delay towards the client; how far the measured round trip is from the direct one plus the delay, and
//!   what the proxy itself reports.
//!
//! Words select parts: `-- small exact`. The proxies run on CPU 1, client and server on CPU 0. toxiproxy-server is
//! searched in PATH; without it, its columns are empty.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod peer;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use peer::Toxiproxy;
use plimsoll_delay::control::{ControlServer, Request, request};
use plimsoll_delay::{Change, Options, Proxy, RouteOptions};
use rustix::thread::{CpuSet, sched_setaffinity};

/// A request, and a reply to a small one.
const SMALL_BYTES: usize = 64;
const BODY_BYTES: usize = 4 << 20;
const CONNECTIONS: usize = 4;

struct Settings {
    rounds: usize,
    exchanges: usize,
    /// Round trips with each delay.
    samples: usize,
    seconds: f64,
    parts: Vec<String>,
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench").peekable();
    if words.peek().is_some_and(|word| word == "--proxy") {
        let words: Vec<String> = words.skip(1).collect();
        return serve_proxy(&words[0], PathBuf::from(&words[1]));
    }
    let mut settings =
        Settings { rounds: 5, exchanges: 10_000, samples: 200, seconds: 2.0, parts: Vec::new() };
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse::<f64>().ok()).expect("a number");
        match word.as_str() {
            "--rounds" => settings.rounds = number() as usize,
            "--exchanges" => settings.exchanges = number() as usize,
            "--samples" => settings.samples = number() as usize,
            "--seconds" => settings.seconds = number(),
            "small" | "bulk" | "exact" => settings.parts.push(word),
            other => {
                panic!("{other}: --rounds N, --exchanges N, --samples N, --seconds S, small, bulk, exact")
            }
        }
    }
    pin(0);
    let server = start_server();
    let ours = Ours::start(server);
    let peer = Toxiproxy::start(server);
    say(&format!(
        "plimsoll-delay {}, {}; proxies on CPU 1, client and server on CPU 0",
        env!("CARGO_PKG_VERSION"),
        peer.as_ref()
            .map_or("toxiproxy is not installed".into(), |peer| format!("toxiproxy {}", peer.version)),
    ));
    let has = |part: &str| settings.parts.is_empty() || settings.parts.iter().any(|word| word == part);
    if has("small") {
        small(&settings, server, &ours, peer.as_ref());
    }
    if has("bulk") {
        bulk(&settings, server, &ours, peer.as_ref());
    }
    if has("exact") {
        exact(&settings, server, &ours, peer.as_ref());
    }
}

/// Where a client connects, and whose CPU time counts.
struct Way {
    name: &'static str,
    address: SocketAddr,
    process: Option<u32>,
}

fn ways(server: SocketAddr, ours: &Ours, peer: Option<&Toxiproxy>) -> Vec<Way> {
    let mut ways = vec![
        Way { name: "direct", address: server, process: None },
        Way { name: "plimsoll", address: ours.address, process: Some(ours.child.id()) },
    ];
    ways.extend(peer.map(|peer| Way {
        name: "toxiproxy",
        address: peer.address,
        process: Some(peer.child.id()),
    }));
    ways
}

fn small(settings: &Settings, server: SocketAddr, ours: &Ours, peer: Option<&Toxiproxy>) {
    let ways = ways(server, ours, peer);
    say(&format!(
        "small: {} exchanges of {SMALL_BYTES} bytes each way on one connection",
        settings.exchanges
    ));
    say("round  way          p50 us   p99 us  added at p50  CPU us per exchange");
    let mut added = vec![Vec::new(); ways.len()];
    let mut cpu = vec![Vec::new(); ways.len()];
    for round in 0..settings.rounds {
        // The order changes, because the background load of the machine drifts.
        let mut found: Vec<Option<(f64, f64, f64)>> = vec![None; ways.len()];
        for at in 0..ways.len() {
            let index = (at + round) % ways.len();
            let way = &ways[index];
            let mut client = connect(way.address);
            ping(&mut client, 200);
            let before = way.process.map_or(0.0, cpu_us);
            let times = ping(&mut client, settings.exchanges);
            let used = way.process.map_or(0.0, cpu_us) - before;
            found[index] =
                Some((quantile(&times, 0.5), quantile(&times, 0.99), used / settings.exchanges as f64));
        }
        let direct = found[0].unwrap().0;
        for (index, way) in ways.iter().enumerate() {
            let (p50, p99, used) = found[index].unwrap();
            say(&format!(
                "{:>5}  {:<10} {p50:>8.1} {p99:>8.1} {:>13.1} {used:>20.1}",
                round + 1,
                way.name,
                p50 - direct
            ));
            added[index].push(p50 - direct);
            cpu[index].push(used);
        }
    }
    bounded("added at p50, us", median(&added[1]), 25.0, true);
    if ways.len() > 2 {
        let ratio = |values: &[Vec<f64>]| -> Vec<f64> {
            values[1].iter().zip(&values[2]).map(|(ours, peer)| ours / peer).collect()
        };
        summary("added at p50, plimsoll / toxiproxy", &ratio(&added));
        summary("CPU per small exchange, plimsoll / toxiproxy", &ratio(&cpu));
    }
}

fn bulk(settings: &Settings, server: SocketAddr, ours: &Ours, peer: Option<&Toxiproxy>) {
    let ways = ways(server, ours, peer);
    say(&format!("bulk: bodies of 4 MiB on {CONNECTIONS} connections"));
    say("round  way            MB/s  CPU ms per MB  MB per CPU second");
    let mut per_cpu_s = vec![Vec::new(); ways.len()];
    let mut per_s = vec![Vec::new(); ways.len()];
    for round in 0..settings.rounds {
        for at in 0..ways.len() {
            let index = (at + round) % ways.len();
            let way = &ways[index];
            let before = way.process.map_or(0.0, cpu_us);
            let begin = Instant::now();
            let clients: Vec<_> = (0..CONNECTIONS)
                .map(|_| {
                    let mut client = connect(way.address);
                    let until = begin + Duration::from_secs_f64(settings.seconds);
                    std::thread::spawn(move || fetch(&mut client, until))
                })
                .collect();
            let bytes: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
            let mb = bytes as f64 / 1e6;
            let rate = mb / begin.elapsed().as_secs_f64();
            let used_s = (way.process.map_or(0.0, cpu_us) - before) / 1e6;
            say(&format!(
                "{:>5}  {:<10} {rate:>8.0} {:>14.2} {:>18.0}",
                round + 1,
                way.name,
                used_s * 1e3 / mb,
                mb / used_s,
            ));
            per_s[index].push(rate);
            per_cpu_s[index].push(mb / used_s);
        }
    }
    bounded("throughput, MB/s", median(&per_s[1]), 700.0, false);
    bounded("throughput of one busy core, MB per CPU second", median(&per_cpu_s[1]), 700.0, false);
    if ways.len() > 2 {
        let ratio = |values: &[Vec<f64>]| -> Vec<f64> {
            values[1].iter().zip(&values[2]).map(|(ours, peer)| ours / peer).collect()
        };
        summary("throughput, plimsoll / toxiproxy", &ratio(&per_s));
        summary("MB per CPU second, plimsoll / toxiproxy", &ratio(&per_cpu_s));
    }
}

fn exact(settings: &Settings, server: SocketAddr, ours: &Ours, peer: Option<&Toxiproxy>) {
    let ways = ways(server, ours, peer);
    say(&format!(
        "exact: {} round trips with a delay towards the client; direct ones begin after a pause of the same length",
        settings.samples
    ));
    say("delay ms  way         p50 ms   p99 ms  error p50 ms  error p99 ms  stated p50 ms  stated p99 ms");
    for delay_ms in [1.0, 5.0, 20.0, 100.0] {
        let mut client = connect(server);
        let pause = Duration::from_secs_f64(delay_ms / 1e3);
        let samples = settings.samples;
        let sleeper = std::thread::spawn(move || sleep_errors(pause, samples));
        let mut direct: Vec<f64> = (0..settings.samples)
            .flat_map(|_| {
                std::thread::sleep(pause);
                ping(&mut client, 1)
            })
            .collect();
        direct.sort_by(f64::total_cmp);
        let (p50, p99) = (quantile(&direct, 0.5) / 1e3, quantile(&direct, 0.99) / 1e3);
        let late = sleeper.join().unwrap();
        say(&format!(
            "{delay_ms:>8}  direct     {p50:>7.3} {p99:>8.3} {:>27} {:>14.3} {:>14.3}",
            "a sleep on CPU 1 is late by",
            quantile(&late, 0.5),
            quantile(&late, 0.99)
        ));
        for way in &ways[1..] {
            let is_ours = way.name == "plimsoll";
            match is_ours {
                true => ours.set(&format!("none down.latency={}us", delay_ms * 1e3)),
                false => peer.unwrap().set_latency(delay_ms as u64),
            }
            let mut client = connect(way.address);
            ping(&mut client, 3);
            if is_ours {
                ours.show(true);
            }
            let times = ping(&mut client, settings.samples);
            let error = |share: f64| (quantile(&times, share) - quantile(&direct, share)) / 1e3 - delay_ms;
            let stated = is_ours.then(|| ours.show(false));
            let stated = |share: &str| {
                let stated = stated.as_ref().map(|document| document["down"]["error_ms"][share].as_f64());
                stated.flatten().map_or("-".into(), |error| format!("{error:.3}"))
            };
            say(&format!(
                "{delay_ms:>8}  {:<10} {:>7.3} {:>8.3} {:>13.3} {:>13.3} {:>14} {:>14}",
                way.name,
                quantile(&times, 0.5) / 1e3,
                quantile(&times, 0.99) / 1e3,
                error(0.5),
                error(0.99),
                stated("p50"),
                stated("p99"),
            ));
            if is_ours {
                bounded(&format!("error at p50 with {delay_ms} ms, ms"), error(0.5).abs(), 0.1, true);
                bounded(&format!("error at p99 with {delay_ms} ms, ms"), error(0.99).abs(), 0.3, true);
                ours.set("none");
            } else {
                peer.unwrap().clear();
            }
        }
    }
}

/// How late sleeps end on the CPU of the proxies, ms in order of size: what other programs there do to any program.
fn sleep_errors(pause: Duration, count: usize) -> Vec<f64> {
    pin(1);
    let mut late: Vec<f64> = (0..count)
        .map(|_| {
            let begin = Instant::now();
            std::thread::sleep(pause);
            (begin.elapsed() - pause).as_secs_f64() * 1e3
        })
        .collect();
    late.sort_by(f64::total_cmp);
    late
}

/// The proxy as a process of its own, which this program also is.
struct Ours {
    child: Child,
    address: SocketAddr,
    control: PathBuf,
}

impl Ours {
    fn start(target: SocketAddr) -> Ours {
        let folder = std::fs::canonicalize(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let control = folder.join(format!("bench-{}", std::process::id())).join("control");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--proxy")
            .arg(target.to_string())
            .arg(&control)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        Ours { child, address: line.trim().parse().expect("the address of the proxy"), control }
    }

    fn set(&self, words: &str) {
        request(&self.control, &Request::Set(Change::parse([words]).unwrap())).unwrap();
    }

    /// The statistics of the route.
    fn show(&self, restarts: bool) -> serde_json::Value {
        request(&self.control, &Request::Show(restarts)).unwrap()["snapshot"]["routes"][0].clone()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // Its standard input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(self.control.parent().unwrap());
    }
}

fn serve_proxy(target: &str, control: PathBuf) {
    pin(1);
    let route = RouteOptions::new("bench", "127.0.0.1:0", target).unwrap();
    let proxy = Proxy::start(Options::new(vec![route])).unwrap();
    let _server = ControlServer::start(&control, proxy.handle()).unwrap();
    say(&proxy.routes()[0].listen.to_string());
    // Until the parent ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A server that answers a small request with as many bytes, and a request that begins with `B` with a body.
fn start_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            client.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let mut request = [0; SMALL_BYTES];
                let body = vec![7; BODY_BYTES];
                while client.read_exact(&mut request).is_ok() {
                    let reply = if request[0] == b'B' { &body[..] } else { &request[..] };
                    if client.write_all(reply).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_nodelay(true).unwrap();
    client
}

/// The times of small exchanges, microseconds, in order of size.
fn ping(client: &mut TcpStream, count: usize) -> Vec<f64> {
    let mut reply = [0; SMALL_BYTES];
    let mut times: Vec<f64> = (0..count)
        .map(|_| {
            let begin = Instant::now();
            client.write_all(&[b'S'; SMALL_BYTES]).unwrap();
            client.read_exact(&mut reply).unwrap();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Fetches bodies until a time; the bytes.
fn fetch(client: &mut TcpStream, until: Instant) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    while Instant::now() < until {
        client.write_all(&[b'B'; SMALL_BYTES]).unwrap();
        let mut left = BODY_BYTES;
        while left > 0 {
            let found = client.read(&mut buffer).unwrap();
            assert!(found > 0, "the body is incomplete");
            left -= found;
        }
        total += BODY_BYTES as u64;
    }
    total
}

/// CPU time of all threads of a process, microseconds.
fn cpu_us(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        .filter_map(|thread| {
            let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        })
        .sum::<f64>()
        / 1e3
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu % std::thread::available_parallelism().map_or(1, |count| count.get()));
    sched_setaffinity(None, &set).unwrap();
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

fn bounded(name: &str, value: f64, bound: f64, is_upper: bool) {
    let (word, is_met) = if is_upper { ("most", value <= bound) } else { ("least", value >= bound) };
    say(&format!(
        "  {name:<46} {value:>8.3}   at {word} {bound}   {}",
        if is_met { "met" } else { "MISSED" }
    ));
}

fn summary(name: &str, values: &[f64]) {
    let (low, high) = (
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(f64::MIN, f64::max),
    );
    say(&format!("{name}: {:.2} (lowest {low:.2}, highest {high:.2})", median(values)));
}

#[allow(clippy::print_stdout)]
fn say(line: &str) {
    println!("{line}");
}
