//! The load generators: how each is called, and what it reports.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::server::{Server, nginx};
use crate::program::cpu_times_us;

/// A load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Plimsoll,
    /// A loop that only sends and receives: the floor.
    BareLoop,
    Wrk,
    Ab,
    Oha,
    K6,
    Vegeta,
    H2load,
}

/// The load of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Connections with one request at a time each.
    Closed { connections: u32 },
    /// HTTP/2 connections with several streams each.
    Streams { connections: u32, streams: u32 },
    /// Requests per second.
    Open { rate_per_s: u32 },
}

/// One measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) requests: f64,
    pub(super) rate_per_s: f64,
    /// CPU time of the generator per request. Of Plimsoll, that of the threads that drive the load.
    pub(super) cpu_us: f64,
    /// The part of it in user space; of Plimsoll, that of the whole process during the measurement.
    pub(super) user_us: f64,
    /// CPU time of the whole process, with start and report.
    pub(super) whole_cpu_us: f64,
    /// CPU time of the server per request.
    pub(super) server_cpu_us: f64,
    pub(super) peak_mb: f64,
    /// Response times as reported, milliseconds: p50, p99, maximum; NaN where a tool does not report one.
    pub(super) reported_ms: [f64; 3],
}

impl Sample {
    /// CPU time of the generator over that of the server: in one run, the speed of the machine cancels.
    pub(super) fn ratio(&self) -> f64 {
        self.cpu_us / self.server_cpu_us
    }
}

/// Where the programs are.
pub(super) struct Tools {
    pub(super) plimsoll: PathBuf,
    /// What `.ci/http-peers` built.
    pub(super) peers: PathBuf,
    /// For files and results; the working folder of every tool.
    pub(super) folder: PathBuf,
}

impl Tools {
    fn program(&self, tool: Tool) -> PathBuf {
        match tool {
            Tool::Plimsoll => self.plimsoll.clone(),
            Tool::BareLoop => self.plimsoll.with_file_name("bare_loop"),
            Tool::Wrk => "wrk".into(),
            Tool::Ab => "ab".into(),
            Tool::H2load => "h2load".into(),
            Tool::Oha => self.peers.join("oha"),
            Tool::K6 => self.peers.join("k6"),
            Tool::Vegeta => self.peers.join("vegeta"),
        }
    }

    /// Those of the tools that are here, with their versions printed.
    pub(super) fn present(&self, wanted: &[Tool]) -> Vec<Tool> {
        let server = first_line(nginx().arg("-v")).unwrap_or_default();
        let mut words = vec![server];
        let mut present = Vec::new();
        for tool in wanted {
            let flag = match tool {
                // It has none.
                Tool::BareLoop => {
                    present.push(*tool);
                    continue;
                }
                Tool::Plimsoll | Tool::Oha | Tool::H2load => "--version",
                Tool::Wrk => "-v",
                Tool::Ab => "-V",
                Tool::K6 => "version",
                Tool::Vegeta => "-version",
            };
            match first_line(Command::new(self.program(*tool)).arg(flag)) {
                Some(version) => {
                    present.push(*tool);
                    words.push(version.split(" Copyright").next().unwrap_or_default().trim().to_string());
                }
                None => words.push(format!("{} is missing: .ci/http-peers", tool.name())),
            }
        }
        println!("{}", words.join("; "));
        present
    }

    /// Runs a tool and returns what it reports and uses. `meanwhile` runs beside it.
    pub(super) fn run(
        &self,
        tool: Tool,
        load: Load,
        seconds: u32,
        server: &Server,
    ) -> Result<Sample, String> {
        let arguments = self.arguments(tool, load, seconds, server)?;
        let failed = |why: String| format!("{}: {why}", tool.name());
        let out = self.folder.join("out");
        let file = std::fs::File::create(&out).map_err(|error| failed(error.to_string()))?;
        let (before, server_before) = (cpu_times_us("self", 15)?, server.cpu_us()?);
        let mut child = Command::new("taskset")
            .args(["-c", generator_cpu()])
            .arg(self.program(tool))
            .args(&arguments)
            .current_dir(&self.folder)
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let peak_mb = wait(&mut child).map_err(failed)?;
        let (after, server_after) = (cpu_times_us("self", 15)?, server.cpu_us()?);
        let text = std::fs::read_to_string(&out).map_err(|error| failed(error.to_string()))?;
        let mut sample = self.parse(tool, &text).map_err(failed)?;
        let per_request = |us: f64| us / sample.requests;
        sample.whole_cpu_us = per_request(after.0 + after.1 - before.0 - before.1);
        sample.server_cpu_us = per_request(server_after - server_before);
        sample.peak_mb = peak_mb;
        if tool != Tool::Plimsoll {
            sample.cpu_us = sample.whole_cpu_us;
            sample.user_us = per_request(after.0 - before.0);
        }
        Ok(sample)
    }

    fn arguments(
        &self,
        tool: Tool,
        load: Load,
        seconds: u32,
        server: &Server,
    ) -> Result<Vec<String>, String> {
        let time = format!("{seconds}s");
        let url = server.url.clone();
        let words = match (tool, load) {
            (Tool::Plimsoll, load) => {
                let _ = std::fs::remove_dir_all(self.folder.join("run"));
                let shape = match load {
                    Load::Closed { connections } => format!("--concurrency {connections}"),
                    Load::Streams { connections, streams } => {
                        format!(
                            "--http-version 2 --streams {streams} --concurrency {}",
                            connections * streams
                        )
                    }
                    // As many connections as the backlog of a stall needs.
                    Load::Open { rate_per_s } => format!("--rate {rate_per_s}/s --connections {rate_per_s}"),
                };
                let ca = server.authority.as_ref().map(|file| format!("--ca {}", file.display()));
                // Thousands of connections take seconds to open.
                let warm_up = match load {
                    Load::Closed { connections } if connections > 1000 => "5s",
                    _ => "0s",
                };
                format!(
                    "http {url} {shape} {} --warm-up {warm_up} --duration {time} --run-dir run --json --quiet",
                    ca.unwrap_or_default()
                )
            }
            (Tool::BareLoop, Load::Closed { connections }) => {
                let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap_or_default();
                format!("{address} /{path} {connections} {seconds}")
            }
            (Tool::Wrk, Load::Closed { connections }) => {
                format!("-t1 -c{connections} -d{time} --latency {url}")
            }
            (Tool::Ab, Load::Closed { connections }) => {
                format!("-k -q -t {seconds} -n 100000000 -c {connections} {url}")
            }
            (Tool::Oha, Load::Closed { connections }) => {
                format!("-z {time} -c {connections} --no-tui --output-format json --insecure {url}")
            }
            // As its documentation recommends for a rate.
            (Tool::Oha, Load::Open { rate_per_s }) => format!(
                "-z {time} -q {rate_per_s} --latency-correction -c 64 -w --no-tui --output-format json {url}"
            ),
            (Tool::Vegeta, Load::Closed { connections }) => format!(
                "attack -rate 0 -max-workers {connections} -workers {connections} -duration {time} -max-body 0 -output attack -targets targets"
            ),
            (Tool::Vegeta, Load::Open { rate_per_s }) => {
                format!(
                    "attack -rate {rate_per_s} -duration {time} -max-body 0 -output attack -targets targets"
                )
            }
            (Tool::K6, load) => {
                let script = match load {
                    Load::Closed { connections } => format!("vus: {connections}, duration: '{time}'"),
                    Load::Open { rate_per_s } => format!(
                        "scenarios: {{ open: {{ executor: 'constant-arrival-rate', rate: {rate_per_s}, timeUnit: '1s', duration: '{time}', preAllocatedVUs: 2500 }} }}"
                    ),
                    Load::Streams { .. } => return Err("k6 is not measured with streams".into()),
                };
                let script = format!(
                    "import http from 'k6/http';\nexport const options = {{ discardResponseBodies: true, summaryTrendStats: ['med', 'p(99)', 'max'], {script} }};\nexport default function () {{ http.get('{url}'); }}\n"
                );
                std::fs::write(self.folder.join("load.js"), script).map_err(|error| error.to_string())?;
                "run -q --summary-export=summary.json load.js".into()
            }
            (Tool::H2load, Load::Streams { connections, streams }) => {
                format!("-c{connections} -m{streams} -t1 -D{seconds} {url}")
            }
            (tool, load) => return Err(format!("{} has no load {load:?}", tool.name())),
        };
        if tool == Tool::Vegeta {
            std::fs::write(self.folder.join("targets"), format!("GET {url}\n"))
                .map_err(|error| error.to_string())?;
        }
        Ok(words.split_whitespace().map(str::to_string).collect())
    }

    fn parse(&self, tool: Tool, text: &str) -> Result<Sample, String> {
        let number_after = |begin: &str| {
            let rest = text.lines().find_map(|line| line.trim().strip_prefix(begin))?;
            rest.split_whitespace().next()?.trim_end_matches(',').parse::<f64>().ok()
        };
        let missing = || format!("no numbers in what it printed: {text}");
        let nan = [f64::NAN; 3];
        let read_json = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let mut sample = Sample { reported_ms: nan, ..Sample::default() };
        match tool {
            Tool::Plimsoll => {
                let begin = text.find("{\n").ok_or_else(missing)?;
                let document = read_json(&text[begin..])?;
                let trial = &document["trials"][0];
                let operation = &trial["operations"][0];
                if number(&operation["failed"]) > 0.0 {
                    return Err(format!("requests failed: {operation}"));
                }
                sample.requests = number(&operation["completed"]);
                sample.rate_per_s = number(&operation["rate_per_s"]);
                sample.cpu_us = number(&trial["cpu_us_per_operation"]);
                let parts = document["configurations"][0]["costs"][0]["parts"].as_array().cloned();
                let is_user = |part: &&Value| part["of"] == "generator" && part["kind"] == "user_cpu";
                let user = parts.iter().flatten().find(is_user).map(|part| number(&part["each"]["value"]));
                sample.user_us = user.map_or(f64::NAN, |seconds| seconds * 1e6);
                let response = &operation["response_ms"];
                sample.reported_ms = ["p50", "p99", "max"].map(|part| number(&response[part]));
            }
            Tool::BareLoop => {
                let (responses, rate) = text.split_once(" responses, ").ok_or_else(missing)?;
                let parsed = |text: &str| text.trim().parse::<f64>().map_err(|_| missing());
                sample.requests = parsed(responses)?;
                sample.rate_per_s = parsed(rate.trim_end().trim_end_matches(" per second"))?;
            }
            Tool::Wrk => {
                let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "));
                sample.requests = requests.and_then(|(count, _)| count.parse().ok()).ok_or_else(missing)?;
                sample.rate_per_s = number_after("Requests/sec:").ok_or_else(missing)?;
            }
            Tool::Ab => {
                sample.requests = number_after("Complete requests:").ok_or_else(missing)?;
                sample.rate_per_s = number_after("Requests per second:").ok_or_else(missing)?;
            }
            Tool::H2load => {
                sample.requests = number_after("requests:").ok_or_else(missing)?;
                let rate = text.lines().find_map(|line| line.trim().strip_prefix("finished in "));
                let rate = rate.and_then(|line| line.split(", ").nth(1)?.split(' ').next()?.parse().ok());
                sample.rate_per_s = rate.ok_or_else(missing)?;
            }
            Tool::Oha => {
                let document = read_json(text)?;
                let statuses = document["statusCodeDistribution"].as_object().ok_or_else(missing)?;
                sample.requests = statuses.values().map(number).sum();
                sample.rate_per_s = number(&document["summary"]["requestsPerSec"]);
                let times = &document["latencyPercentiles"];
                let slowest = &document["summary"]["slowest"];
                sample.reported_ms = [&times["p50"], &times["p99"], slowest].map(|value| number(value) * 1e3);
            }
            Tool::K6 => {
                let file = self.folder.join("summary.json");
                let document = read_json(&std::fs::read_to_string(file).map_err(|error| error.to_string())?)?;
                let metrics = &document["metrics"];
                sample.requests = number(&metrics["http_reqs"]["count"]);
                sample.rate_per_s = number(&metrics["http_reqs"]["rate"]);
                sample.reported_ms =
                    ["med", "p(99)", "max"].map(|part| number(&metrics["http_req_duration"][part]));
            }
            Tool::Vegeta => {
                let report = Command::new(self.program(tool))
                    .args(["report", "-type=json", "attack"])
                    .current_dir(&self.folder)
                    .output()
                    .map_err(|error| error.to_string())?;
                let document = read_json(&String::from_utf8_lossy(&report.stdout))?;
                sample.requests = number(&document["requests"]);
                sample.rate_per_s = number(&document["throughput"]);
                sample.reported_ms =
                    ["50th", "99th", "max"].map(|part| number(&document["latencies"][part]) / 1e6);
            }
        }
        match sample.requests > 0.0 {
            true => Ok(sample),
            false => Err(missing()),
        }
    }
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Plimsoll => "plimsoll",
            Tool::BareLoop => "bare loop",
            Tool::Wrk => "wrk",
            Tool::Ab => "ab",
            Tool::Oha => "oha",
            Tool::K6 => "k6",
            Tool::Vegeta => "vegeta",
            Tool::H2load => "h2load",
        }
    }
}

/// The contender has the second CPU, where there is one, and the server the first.
pub(in crate::bench) fn generator_cpu() -> &'static str {
    if std::thread::available_parallelism().map_or(1, usize::from) > 1 { "1" } else { "0" }
}

/// Waits for the end of a process. Returns its largest resident memory, MB.
fn wait(child: &mut Child) -> Result<f64, String> {
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0.0_f64;
    loop {
        let status = std::fs::read_to_string(&status_file).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak_kb = peak.and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(0.0).max(peak_kb);
        if child.try_wait().map_err(|error| error.to_string())?.is_some() {
            return Ok(peak_kb * 1024.0 / 1e6);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a program says first of itself, whatever its exit status; none where it cannot be started.
fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let line =
        String::from_utf8_lossy(&text).lines().find(|line| !line.trim().is_empty())?.trim().to_string();
    Some(line)
}

/// The folder of what `.ci/http-peers` built.
pub(super) fn peers(target: &Path) -> PathBuf {
    target.join("http-peers")
}
