//! The LDAP load against searchrate of UnboundID and the crate ldap3: on a stub that answers everything at once, on slapd and on
//! 389 Directory Server. The server has one CPU, the client another.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::rounds::{self, middle};
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Ended, Folder, Servers, cargo, cpu_times_us, cpu_us, plimsoll, target};

/// Seconds of one measurement.
const SECONDS: u32 = 3;

/// Entries `uid=user.0` and so on.
const ENTRIES: u32 = 20_000;

const SLAPD: &str = "/usr/sbin/slapd";
const NS_SLAPD: &str = "/usr/sbin/ns-slapd";

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Plimsoll,
    Ldap3,
    Searchrate,
}

impl Client {
    const ALL: [Client; 3] = [Client::Plimsoll, Client::Ldap3, Client::Searchrate];

    fn name(self) -> &'static str {
        match self {
            Client::Plimsoll => "plimsoll",
            Client::Ldap3 => "ldap3",
            Client::Searchrate => "searchrate",
        }
    }
}

/// One measurement: searches per second, and CPU time for each, microseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    rate_per_s: f64,
    /// Of the client: in user space, and of its whole process.
    user_us: f64,
    client_us: f64,
    server_us: f64,
}

struct Bench {
    folder: Folder,
    plimsoll: PathBuf,
    peers: PathBuf,
    present: Vec<Client>,
    faults: Vec<Fault>,
}

/// Searches for one entry each, with one and with several in flight on a connection.
pub(super) fn search(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    let stub = ["build", "--release", "--locked", "-p", "plimsoll-testkit", "--bin", "stub_directory"];
    cargo(repository, &stub)?;
    let plimsoll = plimsoll(repository)?;
    let peers = target(repository).join("ldap-peers");
    let has = |client: &Client| match client {
        Client::Plimsoll => true,
        Client::Ldap3 => peers.join("ldap3-peer").is_file(),
        Client::Searchrate => {
            let java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
            peers.join("unboundid-ldapsdk.jar").is_file() && java.is_ok_and(|status| status.success())
        }
    };
    let present: Vec<Client> = Client::ALL.into_iter().filter(has).collect();
    for client in Client::ALL.iter().filter(|client| !present.contains(client)) {
        println!("{} is missing: .ci/ldap-peers", client.name());
    }
    let folder = Folder::new(repository, "ldap")?;
    let mut bench = Bench { folder, plimsoll, peers, present, faults: Vec::new() };

    let port = free_port()?;
    let mut command = Command::new(bench.plimsoll.with_file_name("stub_directory"));
    let server = start(command.arg(format!("127.0.0.1:{port}")), port)?;
    for (connections, depth) in [(16, 1), (4, 16), (2, 256)] {
        let words = format!("a stub that answers at once, {connections} connections with {depth} in flight");
        let rounds = bench.rounds(&words, &id(&server), port, (connections, depth), count)?;
        let times = ratio(&rounds, Client::Ldap3, |sample| sample.rate_per_s);
        let bound = if depth == 1 { 2.0 } else { 15.0 };
        bench.judge(&format!("searches/s of ldap3's, {connections} x {depth}"), times, bound, false);
        let user = middle(&rounds, Client::Plimsoll, |sample| sample.user_us);
        bench.judge(&format!("user CPU per search, us, {connections} x {depth}"), user, 1.5, true);
    }
    drop(server);

    let port = free_port()?;
    let server = slapd(&bench.folder.0, port)?;
    for (connections, depth) in [(16, 1), (4, 16)] {
        let words = format!("slapd, {ENTRIES} entries, {connections} connections with {depth} in flight");
        let rounds = bench.rounds(&words, &id(&server), port, (connections, depth), count)?;
        let times = ratio(&rounds, Client::Searchrate, |sample| sample.client_us);
        bench.judge(&format!("client CPU of searchrate's, {connections} x {depth}"), times, 1.0 / 3.0, true);
    }
    drop(server);

    if !Path::new(NS_SLAPD).is_file() {
        println!("389 Directory Server is missing: .ci/packages 389-ds-base");
        return Ok(bench.faults);
    }
    let server = Servers::start(repository, "dirsrv_directory", &[])?;
    let port = server.get("url").rsplit(':').next().and_then(|port| port.parse().ok());
    let port = port.ok_or("389 Directory Server has no port")?;
    bench.add_people(&server)?;
    let process = server.get("process");
    on_first_cpu(process);
    for (connections, depth) in [(16, 1), (4, 16)] {
        let words = format!(
            "389 Directory Server, {ENTRIES} entries, {connections} connections with {depth} in flight"
        );
        bench.rounds(&words, process, port, (connections, depth), count)?;
    }
    Ok(bench.faults)
}

impl Bench {
    /// Compares a figure with its bound.
    fn judge(&mut self, name: &str, value: f64, bound: f64, is_most: bool) {
        if value.is_nan() {
            return println!("  {name:<48} not measured");
        }
        let met = if is_most { value <= bound } else { value >= bound };
        let word = if is_most { "at most" } else { "at least" };
        println!("  {name:<48} {value:>8.3}   {word} {bound:.3}   {}", if met { "met" } else { "MISSED" });
        if !met {
            let promised = format!("{word} {bound:.3} was promised");
            self.faults.push(Fault::new("make bench-ldap", format!("{name}: {value:.3}"), promised));
        }
    }

    /// Adds the people to an empty directory.
    fn add_people(&self, server: &Servers) -> Result<(), String> {
        let ldif = self.folder.0.join("people.ldif");
        let text = people();
        // The entry above all others is there already.
        let below = text.split_once("\n\n").map_or("", |(_, below)| below);
        std::fs::write(&ldif, below).map_err(|error| format!("{}: {error}", ldif.display()))?;
        let output = Command::new("ldapadd")
            .args(["-x", "-H", server.get("url"), "-D", server.get("dn"), "-w", server.get("password"), "-f"])
            .arg(&ldif)
            .output()
            .map_err(|error| format!("ldapadd: {error}; apt-get install ldap-utils"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("ldapadd: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Every client in turn, and a table of the medians.
    fn rounds(
        &self,
        words: &str,
        server: &str,
        port: u16,
        shape: (u32, u32),
        count: usize,
    ) -> Result<Vec<Vec<(Client, Sample)>>, String> {
        println!("{words}, {count} rounds of {SECONDS} s");
        let mut rounds = Vec::new();
        for round in 0..count {
            let mut samples = Vec::new();
            for turn in 0..self.present.len() {
                let client = self.present[(round + turn) % self.present.len()];
                samples.push((client, self.run(client, server, port, shape)?));
            }
            rounds.push(samples);
        }
        println!(
            "  {:<12} {:>11} {:>9} {:>11} {:>11}",
            "", "searches/s", "user, us", "client, us", "server, us"
        );
        for client in &self.present {
            let of = |value: fn(&Sample) -> f64| middle(&rounds, *client, value);
            println!(
                "  {:<12} {:>11.0} {:>9.2} {:>11.2} {:>11.2}",
                client.name(),
                of(|sample| sample.rate_per_s),
                of(|sample| sample.user_us),
                of(|sample| sample.client_us),
                of(|sample| sample.server_us),
            );
        }
        Ok(rounds)
    }

    fn run(
        &self,
        client: Client,
        server: &str,
        port: u16,
        (connections, depth): (u32, u32),
    ) -> Result<Sample, String> {
        let seconds = SECONDS.to_string();
        let (threads, in_flight) = (connections.to_string(), (connections * depth).to_string());
        let (connections, depth_text) = (connections.to_string(), depth.to_string());
        let mut command = Command::new("taskset");
        command.args(["-c", super::http::generator_cpu()]).current_dir(&self.folder.0);
        let time = format!("{SECONDS}s");
        match client {
            Client::Plimsoll => {
                let run = self.folder.0.join("run");
                let _ = std::fs::remove_dir_all(&run);
                let url = format!("ldap://127.0.0.1:{port}");
                command.arg(&self.plimsoll).args(["ldap", "search", &url, "--base", "dc=example,dc=com"]);
                let filter = format!("(uid=user.${{random(0, {})}})", ENTRIES - 1);
                command.args(["--filter", &filter, "--attributes", "cn,mail", "--concurrency", &in_flight]);
                command.args(["--connections", &connections, "--depth", &depth_text, "--warm-up", "0s"]);
                command.args(["--duration", &time, "--json", "--quiet", "--run-dir", "run"]);
            }
            Client::Ldap3 => {
                let url = format!("ldap://127.0.0.1:{port}");
                command.arg(self.peers.join("ldap3-peer")).args([&url, &connections, &depth_text, &seconds]);
            }
            Client::Searchrate => {
                let jar = self.peers.join("unboundid-ldapsdk.jar");
                command.args(["java", "-jar"]).arg(jar).args(["searchrate", "-h", "127.0.0.1", "-p"]);
                command.arg(port.to_string()).args(["-b", "dc=example,dc=com", "-s", "sub", "-f"]);
                command.arg(format!("(uid=user.[0-{}])", ENTRIES - 1)).args(["-A", "cn", "-A", "mail"]);
                command.args(["-i", &seconds, "-I", "1", "-c", "-t", &threads]);
                if depth > 1 {
                    // Asynchronous, with so many outstanding in all.
                    command.args(["-a", "-O", &in_flight]);
                }
            }
        }
        let failed = |why: String| format!("{}: {why}", client.name());
        let (before, server_before) = (cpu_times_us("self", 15)?, cpu_us(server, 13)?);
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        let (after, server_after) = (cpu_times_us("self", 15)?, cpu_us(server, 13)?);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let missing = || failed(format!("no numbers in what it printed: {text}"));
        // Of Plimsoll, that of the process during the measurement, without its start and report.
        let mut measured_user_us = None;
        let (searches, rate_per_s) = match client {
            Client::Plimsoll => {
                let document: Value = serde_json::from_str(
                    text.get(text.find("{\n").ok_or_else(missing)?..).unwrap_or_default(),
                )
                .map_err(|error| failed(error.to_string()))?;
                let operation = &document["trials"][0]["operations"][0];
                let number = |name: &str| operation[name].as_f64().unwrap_or(f64::NAN);
                if number("failed") > 0.0 {
                    return Err(failed(format!("searches failed: {operation}")));
                }
                let parts = document["configurations"][0]["costs"][0]["parts"].as_array().cloned();
                let is_user = |part: &&Value| part["of"] == "generator" && part["kind"] == "user_cpu";
                let user = parts.iter().flatten().find(is_user);
                measured_user_us = user.and_then(|part| part["each"]["value"].as_f64()).map(|s| s * 1e6);
                (number("completed"), number("rate_per_s"))
            }
            Client::Ldap3 => {
                let (searches, time) = text.split_once(" searches in ").ok_or_else(missing)?;
                let time: f64 = time.trim().trim_end_matches(" s").parse().map_err(|_| missing())?;
                let searches: f64 = searches.parse().map_err(|_| missing())?;
                (searches, searches / time)
            }
            Client::Searchrate => {
                let row = text.lines().last().ok_or_else(missing)?;
                let rate: f64 =
                    row.split(',').next().and_then(|rate| rate.parse().ok()).ok_or_else(missing)?;
                (rate * f64::from(SECONDS), rate)
            }
        };
        let user_us = (after.0 - before.0) / searches;
        Ok(Sample {
            rate_per_s,
            user_us: measured_user_us.unwrap_or(user_us),
            client_us: user_us + (after.1 - before.1) / searches,
            server_us: (server_after - server_before) / searches,
        })
    }
}

/// The name of the entry that may read and write all of slapd, and its password.
pub(super) const ROOT: &str = "cn=admin,dc=example,dc=com";
pub(super) const PASSWORD: &str = "benchmark";

/// slapd with people, on the first CPU.
pub(super) fn slapd(folder: &Path, port: u16) -> Result<Ended, String> {
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    std::fs::create_dir_all(folder.join("db")).map_err(|error| error.to_string())?;
    let place = folder.display();
    write(
        "slapd.conf",
        &format!(
            "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n\
             include /etc/ldap/schema/inetorgperson.schema\npidfile {place}/slapd.pid\nmodulepath /usr/lib/ldap\n\
             moduleload back_mdb\nmoduleload back_monitor\ndatabase monitor\nrootdn {ROOT}\n\
             database mdb\nsuffix dc=example,dc=com\nrootdn {ROOT}\nrootpw {PASSWORD}\ndirectory {place}/db\n\
             maxsize 1073741824\nindex objectClass,uid eq\n"
        ),
    )?;
    write("people.ldif", &people())?;
    let config = folder.join("slapd.conf");
    let added = Command::new(SLAPD)
        .args(["-T", "add", "-q", "-f"])
        .arg(&config)
        .arg("-l")
        .arg(folder.join("people.ldif"))
        .output()
        .map_err(|error| format!("{SLAPD}: {error}; apt-get install slapd"))?;
    if !added.status.success() {
        return Err(format!("slapadd: {}", String::from_utf8_lossy(&added.stderr)));
    }
    let url = format!("ldap://127.0.0.1:{port}");
    start(Command::new(SLAPD).args(["-d", "0", "-h", &url, "-f"]).arg(&config), port)
}

/// The entries, as LDIF.
fn people() -> String {
    let mut ldif = String::from(
        "dn: dc=example,dc=com\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: e\n\n\
         dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n",
    );
    for number in 0..ENTRIES {
        ldif += &format!(
            "dn: uid=user.{number},ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: user.{number}\n\
             cn: User {number}\nsn: {number}\nmail: user.{number}@example.com\n\n"
        );
    }
    ldif
}

pub(super) fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| error.to_string())
}

/// Starts a server on the first CPU, and waits until it accepts connections.
fn start(command: &mut Command, port: u16) -> Result<Ended, String> {
    let name = Path::new(command.get_program()).display().to_string();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = Ended(child.map_err(|error| format!("{name}: {error}"))?);
    let id = id(&child);
    on_first_cpu(&id);
    for _ in 0..500 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            // Threads that were started since.
            on_first_cpu(&id);
            return Ok(child);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{name} does not answer"))
}

fn id(process: &Ended) -> String {
    process.0.id().to_string()
}

/// Moves all threads of a process to the first CPU.
fn on_first_cpu(process: &str) {
    let _ = Command::new("taskset").args(["-apc", "0", process]).stdout(Stdio::null()).status();
}

/// The median over the rounds of the ratio of our figure to that of another client.
fn ratio(rounds: &[Vec<(Client, Sample)>], other: Client, value: fn(&Sample) -> f64) -> f64 {
    rounds::ratio(rounds, Client::Plimsoll, other, value)
}
