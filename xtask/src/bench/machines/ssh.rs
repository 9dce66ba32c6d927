//! One agent over SSH beside a local run on the same machine, in pairs. One CPU stands for that machine: `sshd` and the load are there,
//! and the load is the limit, since it reads the responses. The other has what is on other machines: the server, which has time left, and
//! the coordinator with its `ssh`, which get only that time. With the server as the limit, the coordinator's share of its CPU would
//! count as a loss of the agent.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{TASK, own};
use crate::bench::http::server::{Log, Protocol, Server};
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{cargo, target};

/// Throughput and p99 may differ by this.
const RATE_LOSS_MAX: f64 = 0.01;
const P99_MORE_MAX: f64 = 0.02;

/// The load of each trial, seconds.
const WARM_UP_S: u32 = 1;
const MEASURED_S: u32 = 2;

/// Pairs of trials of 16 users in a closed loop.
pub(super) fn ssh(
    repository: &Repository,
    program: &Path,
    folder: &Path,
    pairs: usize,
) -> Result<Vec<Fault>, String> {
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-testkit", "--bin", "sshd"])?;
    let folder = own(folder, "ssh")?;
    let server = Server::start(&folder, Protocol::Http, Log::Nothing)?;
    scenario(&folder, &server.url).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut sshd = Sshd(
        Command::new("taskset")
            .args(["-c", "1"])
            .arg(target(repository).join("release/sshd"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("taskset: {error}"))?,
    );
    let mut path = String::new();
    if let Some(printed) = sshd.0.stdout.take() {
        BufReader::new(printed).read_line(&mut path).map_err(|error| error.to_string())?;
    }
    let mut busy_s = 0.0;
    let mut measure = |pair: usize, is_local: bool| -> Result<(f64, f64), String> {
        let name = if is_local { "local" } else { "ssh" };
        let load = format!(
            "http --from users.toml --concurrency 16 --threads 1 --warm-up {WARM_UP_S}s --duration {MEASURED_S}s \
             --interval 1s --sample-every 1s --json --run-dir {name}{pair}"
        );
        let mut command = Command::new("chrt");
        command.args(["-i", "0", "taskset", "-c", "0"]);
        if is_local {
            // As someone does who has logged in there.
            let (place, program) = (folder.display(), program.display());
            let enter = format!("cd '{place}' && export PLIMSOLL_STATE_DIR='{place}/state'");
            command.args(["ssh", "--", "gen1", &format!("{enter} && exec '{program}' {load}")]);
        } else {
            command.arg(program).args(load.split(' ')).args(["--on", "gen1"]);
        }
        command.env("PATH", path.trim()).env("PLIMSOLL_STATE_DIR", folder.join("state"));
        let before = server.cpu_us()?;
        let output = command.current_dir(&folder).output().map_err(|error| format!("chrt: {error}"))?;
        busy_s += (server.cpu_us()? - before) / 1e6;
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
        let operation = &document["trials"][0]["operations"][0];
        let of = |value: &serde_json::Value| value.as_f64().ok_or_else(|| format!("no figure in {document}"));
        Ok((of(&operation["rate_per_s"])?, of(&operation["response_ms"]["p99"])?))
    };
    let (mut rates, mut tails) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let is_local_first = pair % 2 == 1;
        let first = measure(pair, is_local_first)?;
        let second = measure(pair, !is_local_first)?;
        let (over_ssh, local) = if is_local_first { (second, first) } else { (first, second) };
        rates.push((over_ssh.0 / local.0).ln());
        tails.push((over_ssh.1 / local.1).ln());
    }
    let (rate, rate_half) = change(&rates);
    let (tail, tail_half) = change(&tails);
    let busy = busy_s / (2 * pairs) as f64 / f64::from(WARM_UP_S + MEASURED_S);
    println!("one agent over SSH beside a local run, 16 users of an XML page, {pairs} pairs");
    println!("  the server used {:.0} % of its CPU", 100.0 * busy);
    println!("  throughput {:+.2} % (+-{:.2}), at most -1", 100.0 * rate, 100.0 * rate_half);
    println!("  p99        {:+.2} % (+-{:.2}), at most +2", 100.0 * tail, 100.0 * tail_half);
    let mut faults = Vec::new();
    if -rate > RATE_LOSS_MAX {
        let what = format!("over SSH, throughput is {:.2} % lower", -100.0 * rate);
        faults.push(Fault::new(TASK, what, "at most 1 % was promised"));
    }
    if tail > P99_MORE_MAX {
        let what = format!("over SSH, p99 is {:.2} % higher", 100.0 * tail);
        faults.push(Fault::new(TASK, what, "at most 2 % was promised"));
    }
    Ok(faults)
}

/// An XML page in the folder of the server, and a scenario that takes a value out of it and checks the rest.
fn scenario(folder: &Path, url: &str) -> std::io::Result<()> {
    let user =
        |id| format!("<user id=\"{id}\"><name>user{id}</name><mail>user{id}@example.com</mail></user>");
    let users: String = (0..10).map(user).collect();
    std::fs::write(folder.join("users.xml"), format!("<?xml version=\"1.0\"?>\n<users>{users}</users>"))?;
    let base = url.trim_end_matches("/tiny");
    let text = format!(
        "base = \"{base}\"

[[transaction]]
name = \"read\"

[[transaction.request]]
name = \"list\"
url = \"/users.xml\"
extract.name = {{ xpath = \"//user[@id='9']/name\" }}
check = [{{ contains = \"user9@example.com\" }}]
"
    );
    std::fs::write(folder.join("users.toml"), text)
}

/// Ends its server when its standard input ends.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The mean change that logarithms of ratios show, and half of its 95 % interval for many pairs.
fn change(logarithms: &[f64]) -> (f64, f64) {
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
    (mean.exp_m1(), 2.0 * (squares / (count - 1.0) / count).sqrt())
}
