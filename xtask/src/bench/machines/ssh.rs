//! One agent over SSH beside the same load without it, in pairs. One CPU stands for the machine of the agent: the load and `sshd` are
//! there. The other has what is on other machines: nginx, the coordinator and its `ssh`.

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

/// Pairs of trials of 16 connections in a closed loop.
pub(super) fn ssh(
    repository: &Repository,
    program: &Path,
    folder: &Path,
    pairs: usize,
) -> Result<Vec<Fault>, String> {
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-testkit", "--bin", "sshd"])?;
    let folder = own(folder, "ssh")?;
    let server = Server::start(&folder, Protocol::Http, Log::Nothing)?;
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
    let measure = |name: String, cpu: &str, on: &[&str]| -> Result<(f64, f64), String> {
        let output = Command::new("taskset")
            .args(["-c", cpu])
            .arg(program)
            .args(["http", &server.url, "--concurrency", "16", "--threads", "1", "--warm-up", "1s"])
            .args([
                "--duration",
                "4s",
                "--interval",
                "1s",
                "--sample-every",
                "1s",
                "--json",
                "--run-dir",
                &name,
            ])
            .args(on)
            .env("PATH", path.trim())
            .env("PLIMSOLL_STATE_DIR", folder.join("state"))
            .current_dir(&folder)
            .output()
            .map_err(|error| format!("taskset: {error}"))?;
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
        let operation = &document["trials"][0]["operations"][0];
        let of = |value: &serde_json::Value| value.as_f64().ok_or_else(|| format!("no figure in {document}"));
        Ok((of(&operation["rate_per_s"])?, of(&operation["response_ms"]["p99"])?))
    };
    let (mut rates, mut tails) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let over_ssh = || measure(format!("ssh{pair}"), "0", &["--on", "gen1"]);
        let local = || measure(format!("local{pair}"), "1", &[]);
        let (over_ssh, local) = match pair % 2 {
            0 => {
                let first = over_ssh()?;
                (first, local()?)
            }
            _ => {
                let first = local()?;
                (over_ssh()?, first)
            }
        };
        rates.push((over_ssh.0 / local.0).ln());
        tails.push((over_ssh.1 / local.1).ln());
    }
    let (rate, rate_half) = change(&rates);
    let (tail, tail_half) = change(&tails);
    println!("one agent over SSH beside none, 16 connections, the coordinator on nginx's CPU, {pairs} pairs");
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
