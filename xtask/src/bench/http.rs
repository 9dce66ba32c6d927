//! The HTTP engine against wrk, and over HTTP/2 against h2load: the same nginx, the same page, interleaved rounds, medians
//! of the ratios of each round.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, cpu_us, json, median, plimsoll};

/// Seconds each time.
const SECONDS: u32 = 3;

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    rate_per_s: f64,
    /// CPU time of the threads that drive the load.
    load_cpu_us: f64,
    /// CPU time of the whole process.
    cpu_us: f64,
    /// CPU time of the server.
    server_cpu_us: f64,
}

/// Another load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Wrk,
    H2load,
}

impl Peer {
    /// Its program, and the Debian package of it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Peer::Wrk => ("wrk", "wrk"),
            Peer::H2load => ("h2load", "nghttp2-client"),
        }
    }
}

/// A load that is compared.
#[derive(Clone, Copy, Debug)]
struct Load {
    connections: u32,
    /// Requests at a time on each.
    streams: u32,
    is_tls: bool,
    /// Whether our CPU per request may not be more than that of the peer.
    is_bound: bool,
}

const fn load(connections: u32, streams: u32, is_tls: bool, is_bound: bool) -> Load {
    Load { connections, streams, is_tls, is_bound }
}

/// CPU per request at 32 and at 256 connections, the server on one CPU and the contender on another.
pub(super) fn against_wrk(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    compare(repository, count, Peer::Wrk, &[load(32, 1, false, true), load(256, 1, false, true)])
}

/// CPU per request of HTTP/2 at 32 connections with 8 streams each, over TLS and in clear text. In clear text the code of
/// h2 is most of ours, and costs more than that of nghttp2.
pub(super) fn against_h2load(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    compare(repository, count, Peer::H2load, &[load(32, 8, true, true), load(32, 8, false, false)])
}

/// Compares with a peer.
fn compare(repository: &Repository, count: usize, peer: Peer, loads: &[Load]) -> Result<Vec<Fault>, String> {
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "http")?;
    let server = Server::start(&folder.0, peer)?;
    let (name, package) = peer.names();
    println!(
        "64-byte page, keep-alive, one thread, {count} rounds of {SECONDS} s, {}, {}",
        first_line(Command::new(name).arg(if peer == Peer::Wrk { "-v" } else { "--version" }), package)?,
        first_line(nginx().arg("-v"), "nginx")?
    );
    let mut faults = Vec::new();
    for load in loads {
        let Load { connections, streams, .. } = *load;
        let mut rounds = Vec::new();
        for round in 0..count {
            let mut samples = [None; 2];
            // The order rotates, so that none is always first after a pause.
            for turn in 0..2 {
                let at = (round + turn) % 2;
                samples[at] = Some(match (at, peer) {
                    (0, _) => ours(&program, &server, &folder.0, peer, load)?,
                    (_, Peer::Wrk) => wrk(&server, &folder.0, connections)?,
                    (_, Peer::H2load) => h2load(&server, &folder.0, load)?,
                });
            }
            if let [Some(ours), Some(theirs)] = samples {
                println!(
                    "  {connections:>3} connections x {streams}: plimsoll {:>6.0}/s {:>5.2} us CPU ({:>5.2} whole, server {:>5.2}) | {name} {:>6.0}/s {:>5.2} us (server {:>5.2})",
                    ours.rate_per_s,
                    ours.load_cpu_us,
                    ours.cpu_us,
                    ours.server_cpu_us,
                    theirs.rate_per_s,
                    theirs.cpu_us,
                    theirs.server_cpu_us
                );
                rounds.push((ours, theirs));
            }
        }
        let ratio = |of: fn(&Sample) -> f64| {
            median(&rounds.iter().map(|(ours, theirs)| of(ours) / theirs.cpu_us).collect::<Vec<_>>())
        };
        let rate = median(&rounds.iter().map(|(a, b)| a.rate_per_s / b.rate_per_s).collect::<Vec<_>>());
        let tls = if load.is_tls { ", TLS" } else { "" };
        let words = format!("{connections} connections x {streams}{tls}");
        println!(
            "  {:<52} {rate:>6.3}   no bound promised",
            format!("requests a second of {name}'s, {words}")
        );
        println!(
            "  {:<52} {:>6.3}   no bound promised",
            "CPU per request, whole process",
            ratio(|s| s.cpu_us)
        );
        let value = ratio(|sample| sample.load_cpu_us);
        let what = format!("CPU per request of {name}'s, {words}");
        let bound = match (load.is_bound, value <= 1.0) {
            (false, _) => "no bound promised",
            (true, true) => "at most 1   met",
            (true, false) => "at most 1   MISSED",
        };
        println!("  {what:<52} {value:>6.3}   {bound}");
        if load.is_bound && value > 1.0 {
            faults.push(Fault::new("make bench", format!("{what}: {value:.3}"), "at most 1 was promised"));
        }
    }
    Ok(faults)
}

fn ours(program: &Path, server: &Server, folder: &Path, peer: Peer, load: &Load) -> Result<Sample, String> {
    let _ = std::fs::remove_dir_all(folder.join("run"));
    let mut arguments = pinned();
    arguments.push(program.display().to_string());
    arguments.extend(
        [
            "http",
            server.url(load),
            "--concurrency",
            &(load.connections * load.streams).to_string(),
            "--warm-up",
            "0s",
            "--duration",
            &format!("{SECONDS}s"),
            "--run-dir",
            "run",
            "--json",
            "--quiet",
        ]
        .map(str::to_string),
    );
    if peer == Peer::H2load {
        let flags = ["--http-version", "2", "--streams", &load.streams.to_string()];
        arguments.extend(flags.map(str::to_string));
        if load.is_tls {
            arguments.extend(["--ca", CERTIFICATE].map(str::to_string));
        }
    }
    let (before, server_before) = (children_cpu_us()?, server.cpu_us()?);
    let document = json(Path::new(&arguments[0]), &arguments[1..], folder)?;
    let (cpu, server_cpu) = (children_cpu_us()? - before, server.cpu_us()? - server_before);
    let trial = &document["trials"][0];
    let number =
        |value: &serde_json::Value| value.as_f64().ok_or_else(|| format!("no number in the result: {value}"));
    let operation = &trial["operations"][0];
    if number(&operation["failed"])? > 0.0 {
        return Err(format!("requests failed: {operation}"));
    }
    let completed = number(&operation["completed"])?;
    Ok(Sample {
        rate_per_s: number(&operation["rate_per_s"])?,
        load_cpu_us: number(&trial["cpu_us_per_operation"])?,
        cpu_us: cpu / completed,
        server_cpu_us: server_cpu / completed,
    })
}

fn wrk(server: &Server, folder: &Path, connections: u32) -> Result<Sample, String> {
    let program = ["wrk", "-t1", &format!("-c{connections}"), &format!("-d{SECONDS}s"), &server.url];
    theirs(&program, server, folder, |text| {
        // "  112233 requests in 3.00s, 32.11MB read" and "Requests/sec:  37411.00"
        let count = text.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok())?;
        let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())?;
        Some((count, rate))
    })
}

fn h2load(server: &Server, folder: &Path, load: &Load) -> Result<Sample, String> {
    let duration = format!("--duration={SECONDS}");
    let (connections, streams) = (format!("-c{}", load.connections), format!("-m{}", load.streams));
    theirs(&["h2load", "-t1", &connections, &streams, &duration, server.url(load)], server, folder, |text| {
        // "finished in 3.00s, 37411.00 req/s, 4.99MB/s" and "requests: 112233 total, ... 112233 succeeded, 0 failed, ..."
        let rate = text.lines().find_map(|line| {
            line.strip_prefix("finished in ")?.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()
        })?;
        let requests = text.lines().find_map(|line| line.strip_prefix("requests: "))?;
        let of = |word: &str| {
            requests.split(", ").find_map(|part| part.strip_suffix(word)?.trim().parse::<f64>().ok())
        };
        of("failed").filter(|failed| *failed == 0.0)?;
        Some((of("succeeded")?, rate))
    })
}

/// Measures a peer. `read` finds the number of requests and their rate in what it prints.
fn theirs(
    program: &[&str],
    server: &Server,
    folder: &Path,
    read: impl Fn(&str) -> Option<(f64, f64)>,
) -> Result<Sample, String> {
    let mut arguments = pinned();
    arguments.extend(program.iter().map(ToString::to_string));
    let (before, server_before) = (children_cpu_us()?, server.cpu_us()?);
    let output = Command::new(&arguments[0])
        .args(&arguments[1..])
        .current_dir(folder)
        .output()
        .map_err(|error| format!("{}: {error}", arguments.join(" ")))?;
    let (cpu, server_cpu) = (children_cpu_us()? - before, server.cpu_us()? - server_before);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (requests, rate_per_s) = read(&text)
        .ok_or_else(|| format!("{} printed no number of requests without failures: {text}", program[0]))?;
    let cpu_us = cpu / requests;
    Ok(Sample { rate_per_s, load_cpu_us: cpu_us, cpu_us, server_cpu_us: server_cpu / requests })
}

/// The contender has the second CPU, where there is one, and the server the first.
fn pinned() -> Vec<String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = if cpus > 1 { "1" } else { "0" };
    ["taskset", "-c", cpu].map(str::to_string).to_vec()
}

/// User and system time of the children that ended, microseconds.
fn children_cpu_us() -> Result<f64, String> {
    cpu_us("self", 15)
}

fn nginx() -> Command {
    let mut command = Command::new("nginx");
    let path = std::env::var("PATH").unwrap_or_default();
    // Debian keeps it where only root looks.
    command.env("PATH", format!("{path}:/usr/sbin"));
    command
}

/// What a program says first of itself, whatever its exit status.
fn first_line(command: &mut Command, name: &str) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{name}: {error}; apt-get install {name}"))?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or(name).trim().to_string())
}

/// nginx with one page, on the first CPU; stopped in the end.
struct Server {
    child: Child,
    url: String,
    /// The same over TLS; empty for a peer without HTTP/2.
    url_over_tls: String,
}

/// The certificate of the server and its key, in the folder.
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// Makes a certificate of this host that signs itself.
fn certify(folder: &Path) -> Result<(), String> {
    let status = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-keyout", KEY, "-out", CERTIFICATE, "-subj", "/CN=bench"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("openssl: {error}; apt-get install openssl"))?;
    if status.success() { Ok(()) } else { Err(format!("openssl made no certificate: {status}")) }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    bound.map(|address| address.port()).map_err(|error| error.to_string())
}

impl Server {
    fn url(&self, load: &Load) -> &str {
        if load.is_tls { &self.url_over_tls } else { &self.url }
    }

    fn start(folder: &Path, peer: Peer) -> Result<Server, String> {
        let text = |error: std::io::Error| error.to_string();
        std::fs::write(folder.join("tiny"), [b'x'; 64]).map_err(text)?;
        let (port, tls_port) = (free_port()?, free_port()?);
        let place = folder.display();
        let (mut http2, mut over_tls, mut url_over_tls) = ("", String::new(), String::new());
        if peer == Peer::H2load {
            certify(folder)?;
            http2 = "http2";
            over_tls = format!(
                "server {{ listen 127.0.0.1:{tls_port} ssl http2 backlog=4096; root {place};
                   ssl_certificate {place}/{CERTIFICATE}; ssl_certificate_key {place}/{KEY}; }}"
            );
            url_over_tls = format!("https://127.0.0.1:{tls_port}/tiny");
        }
        let configuration = format!(
            "daemon off; master_process off; pid {place}/pid; error_log stderr crit;
             events {{ worker_connections 4096; }}
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {place}/b; proxy_temp_path {place}/p;
               fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
               server {{ listen 127.0.0.1:{port} {http2} backlog=4096; root {place}; }} {over_tls} }}"
        );
        let file = folder.join("nginx.conf");
        std::fs::write(&file, configuration).map_err(text)?;
        let child = nginx()
            .args(["-e", "stderr", "-c"])
            .arg(&file)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("nginx: {error}; apt-get install nginx"))?;
        let server = Server { child, url: format!("http://127.0.0.1:{port}/tiny"), url_over_tls };
        // A server without a master does not set its affinity itself.
        let pid = server.child.id().to_string();
        let _ = Command::new("taskset").args(["-pc", "0", &pid]).stdout(Stdio::null()).status();
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("nginx does not answer".into())
    }

    /// User and system time so far, microseconds.
    fn cpu_us(&self) -> Result<f64, String> {
        cpu_us(&self.child.id().to_string(), 13)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
