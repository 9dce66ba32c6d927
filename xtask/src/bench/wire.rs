//! The analysis of a capture against tshark, on a capture of slapd under a mixed load: against its table of service response
//! times, which has calls and mean times, and against the fields from which the same numbers can be computed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::ldap::{free_port, slapd};
use super::rounds::{middle, ratio};
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Ended, Folder, cpu_us, peak_mib, plimsoll};

/// Seconds of load in the capture.
const SECONDS: u32 = 8;

/// How often Plimsoll analyses the capture in one measurement: the clock of CPU times has ticks of 10 ms.
const REPEATS: u32 = 10;

/// How many times as long the capture is with which memory is measured.
const LONGER: usize = 8;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Plimsoll,
    TsharkTable,
    TsharkFields,
}

impl Reader {
    const ALL: [Reader; 3] = [Reader::Plimsoll, Reader::TsharkTable, Reader::TsharkFields];

    fn name(self) -> &'static str {
        match self {
            Reader::Plimsoll => "plimsoll wire",
            Reader::TsharkTable => "tshark -z ldap,srt",
            Reader::TsharkFields => "tshark -T fields",
        }
    }
}

/// What is needed of each message to compute what Plimsoll shows.
const FIELDS: [&str; 8] = [
    "frame.time_epoch",
    "tcp.stream",
    "ldap.messageID",
    "ldap.protocolOp",
    "ldap.resultCode",
    "ldap.time",
    "ldap.baseObject",
    "ldap.filter",
];

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Of user and system CPU time.
    mb_per_s: f64,
    memory_mib: f64,
}

/// The operations of the load.
const OPERATIONS: &str = "\
[[operation]]
weight = 70
base = \"dc=example,dc=com\"
filter = \"(uid=user.${random(0, 19999)})\"
attributes = [\"cn\", \"mail\"]
[[operation]]
weight = 15
operation = \"bind\"
dn = \"uid=user.${random(0, 19999)},ou=people,dc=example,dc=com\"
dn_password = \"none\"
[[operation]]
weight = 15
operation = \"compare\"
dn = \"uid=user.${random(0, 19999)},ou=people,dc=example,dc=com\"
attribute = [\"sn: 1\"]
";

/// Both programs in turn.
pub(super) fn analysis(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "wire")?;
    let port = free_port()?;
    let capture = captured(&folder, &program, port)?;
    let bytes = std::fs::metadata(&capture).map_err(|error| error.to_string())?.len();
    let mb = bytes as f64 / 1e6;
    println!("{mb:.1} MB of slapd under a mixed load, {count} rounds; {}", version()?);

    let decode = format!("{port}=ldap");
    let run = |reader: Reader, path: &Path| -> Command {
        let mut command;
        match reader {
            Reader::Plimsoll => {
                command = Command::new(&program);
                command.arg("wire").arg(path).args(["--decode", &decode]);
            }
            _ => {
                command = Command::new("tshark");
                command.args(["-n", "-d", &format!("tcp.port=={port},ldap"), "-r"]).arg(path);
                match reader {
                    Reader::TsharkFields => {
                        command.args(["-Y", "ldap", "-T", "fields"]);
                        FIELDS.iter().for_each(|field| _ = command.args(["-e", field]));
                    }
                    _ => _ = command.args(["-q", "-z", "ldap,srt"]),
                }
            }
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut rounds = Vec::new();
    for round in 0..count {
        let mut order = Reader::ALL;
        order.rotate_left(round % Reader::ALL.len());
        let mut samples = Vec::new();
        for reader in order {
            let repeats = if reader == Reader::Plimsoll { REPEATS } else { 1 };
            let before = cpu_us("self", 15)?;
            let mut memory_mib = 0.0_f64;
            for _ in 0..repeats {
                memory_mib = memory_mib.max(memory_mib_of(run(reader, &capture))?);
            }
            let seconds = (cpu_us("self", 15)? - before) / 1e6 / f64::from(repeats);
            samples.push((reader, Sample { mb_per_s: mb / seconds, memory_mib }));
        }
        rounds.push(samples);
    }
    println!("  {:<20} {:>18} {:>12}", "", "MB per CPU second", "memory, MiB");
    for reader in Reader::ALL {
        let of = |value: fn(&Sample) -> f64| middle(&rounds, reader, value);
        let (speed, memory) = (of(|sample| sample.mb_per_s), of(|sample| sample.memory_mib));
        println!("  {:<20} {speed:>18.1} {memory:>12.1}", reader.name());
    }
    let times = |other: Reader| ratio(&rounds, Reader::Plimsoll, other, |sample| sample.mb_per_s);
    let memory = middle(&rounds, Reader::Plimsoll, |sample| sample.memory_mib);
    let longer = memory_mib_of(run(Reader::Plimsoll, &repeated(&capture)?))?;
    let mut faults = Vec::new();
    for (name, value, bound, is_most) in [
        ("MB per CPU second of tshark -T fields", times(Reader::TsharkFields), 100.0, false),
        ("MB per CPU second of tshark -z ldap,srt", times(Reader::TsharkTable), 100.0, false),
        ("memory of a capture 8 times as long", longer / memory, 1.25, true),
    ] {
        let is_met = if is_most { value <= bound } else { value >= bound };
        let word = if is_most { "at most" } else { "at least" };
        println!("  {name:<48} {value:>8.2}   {word} {bound:.2}   {}", if is_met { "met" } else { "MISSED" });
        if !is_met {
            faults.push(Fault::new(
                "make bench-wire",
                format!("{name}: {value:.2}"),
                format!("{word} {bound:.2} was promised"),
            ));
        }
    }
    Ok(faults)
}

/// A capture of slapd under load.
fn captured(folder: &Folder, program: &Path, port: u16) -> Result<PathBuf, String> {
    let server = slapd(&folder.0, port)?;
    let path = folder.0.join("capture.pcap");
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-i", "lo", "-U", "-s", "0", "-B", "65536", "-Z", "root", "-w"]).arg(&path);
    tcpdump.arg(format!("tcp port {port}")).stdin(Stdio::null()).stderr(Stdio::null());
    let tcpdump =
        Ended(tcpdump.spawn().map_err(|error| format!("tcpdump: {error}; apt-get install tcpdump"))?);
    std::thread::sleep(Duration::from_secs(1));
    std::fs::write(folder.0.join("operations.toml"), OPERATIONS).map_err(|error| error.to_string())?;
    let (url, duration) = (format!("ldap://127.0.0.1:{port}"), format!("{SECONDS}s"));
    let load = ["ldap", "mixed", &url, "--from", "operations.toml", "--concurrency", "8", "--warm-up", "0s"];
    let rest =
        ["--duration", &duration, "--quiet", "--run-dir", "run", "--expect-result", "invalidCredentials"];
    let status = Command::new(program)
        .args(load)
        .args(rest)
        .current_dir(&folder.0)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| error.to_string())?;
    if !matches!(status.code(), Some(0 | 97 | 98)) {
        return Err(format!("the load ended with {status}"));
    }
    // The kernel hands over the last packets within a second.
    std::thread::sleep(Duration::from_millis(1500));
    drop(tcpdump);
    drop(server);
    Ok(path)
}

/// The same packets several times.
fn repeated(capture: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", capture.display());
    let bytes = std::fs::read(capture).map_err(failed)?;
    let (header, packets) = bytes.split_at(24.min(bytes.len()));
    let path = capture.with_file_name("longer.pcap");
    std::fs::write(&path, [header, &packets.repeat(LONGER)].concat()).map_err(failed)?;
    Ok(path)
}

/// Runs a program and returns the most memory that it used.
fn memory_mib_of(mut command: Command) -> Result<f64, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let process = child.id().to_string();
    let mut most_mib = 0.0_f64;
    loop {
        most_mib = most_mib.max(peak_mib(&process).unwrap_or(0.0));
        if let Some(status) = child.try_wait().map_err(|error| format!("{name}: {error}"))? {
            return match status.success() {
                true => Ok(most_mib),
                false => Err(format!("{name}: {status}")),
            };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn version() -> Result<String, String> {
    let output = Command::new("tshark").arg("--version").output();
    let output = output.map_err(|error| format!("tshark: {error}; apt-get install tshark"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_string())
}
