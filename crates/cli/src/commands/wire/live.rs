//! A capture on an interface, by tcpdump or dumpcap.

use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::wire::{MissedKind, WireDocument, WireMissed};
use rustix::process::{Pid, Signal, kill_process};
use wire::{Analysis, Operation, Settings};

use crate::carry_out::Failure;
use crate::interrupt;
use crate::output;

/// How often the end of a capture is checked.
const POLL: Duration = Duration::from_millis(50);

/// The kernel hands packets over in blocks, a block that is not full after a second. What is still in one when the program
/// ends is lost.
const GRACE: Duration = Duration::from_millis(1100);

/// The most bytes of messages of the capturing program that are read.
const MESSAGES_MAX: u64 = 64 << 10;

/// The programs that capture, each with its arguments.
fn commands(interface: &str, filter: &str) -> [Command; 2] {
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-i", interface, "-n", "-U", "-s", "0", "-B", "16384", "-w", "-", filter]);
    let mut dumpcap = Command::new("dumpcap");
    dumpcap.args(["-i", interface, "-q", "-P", "-w", "-", "-f", filter]);
    [tcpdump, dumpcap]
}

/// Captures until the duration ends, the user interrupts, or the program ends.
pub(super) fn analyse(
    interface: &str,
    duration_ns: Option<u64>,
    settings: Settings,
    each: impl FnMut(&Operation, u64),
) -> Result<WireDocument, Failure> {
    let ports: Vec<String> = settings.ports.all().map(|port| format!("tcp port {port}")).collect();
    let filter = ports.join(" or ");
    let (mut child, packets) = start(interface, &filter)?;
    let program = child.id();
    let messages = child.stderr.take();
    let has_ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        // The program must not wait for a reader of its messages.
        let reader = scope.spawn(move || {
            let mut text = String::new();
            if let Some(messages) = messages {
                let _ = messages.take(MESSAGES_MAX).read_to_string(&mut text);
            }
            text
        });
        scope.spawn(|| {
            let begin = Instant::now();
            let is_over = || duration_ns.is_some_and(|ns| begin.elapsed() >= Duration::from_nanos(ns));
            while !has_ended.load(Ordering::Relaxed)
                && !is_over()
                && !interrupt::flag().load(Ordering::Relaxed)
                && output::is_open()
            {
                std::thread::sleep(POLL);
            }
            if !has_ended.load(Ordering::Relaxed) {
                std::thread::sleep(GRACE);
            }
            if !has_ended.load(Ordering::Relaxed)
                && let Some(id) = i32::try_from(program).ok().and_then(Pid::from_raw)
            {
                // It writes the packets that it still has, and ends.
                let _ = kill_process(id, Signal::INT);
            }
        });
        let result = Analysis::of(packets, interface, settings, each);
        has_ended.store(true, Ordering::Relaxed);
        (result, reader.join().unwrap_or_default())
    });
    let status = child.wait();
    let (result, messages) = result;
    match result {
        Ok(mut document) => {
            let dropped = dropped(&messages);
            if dropped > 0 {
                document.missed.insert(0, WireMissed { kind: MissedKind::Dropped, count: dropped, bytes: 0 });
            }
            Ok(document)
        }
        Err(error) => {
            let failed = status.is_ok_and(|status| !status.success());
            let why =
                messages.lines().filter(|line| !line.contains("listening on")).collect::<Vec<_>>().join("; ");
            Err(Failure::failed(match failed || !why.is_empty() {
                true => format!(
                    "the capture on {interface} failed: {why}\n  list the interfaces with tcpdump -D; capturing needs root, or the \
                     capability CAP_NET_RAW"
                ),
                false => format!("the capture on {interface} has no packets: {}", error.what),
            }))
        }
    }
}

fn start(interface: &str, filter: &str) -> Result<(Child, ChildStdout), Failure> {
    if interface.is_empty() || interface.starts_with('-') {
        return Err(Failure::usage(format!(
            "error: `{interface}` is not an interface\n  list the interfaces with tcpdump -D"
        )));
    }
    for mut command in commands(interface, filter) {
        let name = command.get_program().to_string_lossy().into_owned();
        // In a group of its own, Ctrl-C does not end it before it has written everything.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn();
        match child {
            Ok(mut child) => {
                let Some(packets) = child.stdout.take() else { continue };
                output::say(&format!("capturing on {interface} with {name}: {filter}"));
                return Ok((child, packets));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::failed(format!("{name} cannot be started: {error}"))),
        }
    }
    Err(Failure::failed(
        "neither tcpdump nor dumpcap is installed\n  install one: apt-get install tcpdump; or capture elsewhere and name the file",
    ))
}

/// Packets that the program dropped, as it says at its end: `12 packets dropped by kernel` (tcpdump),
/// `Packets received/dropped on interface 'lo': 100/12` (dumpcap).
fn dropped(messages: &str) -> u64 {
    let of_line = |line: &str| -> Option<u64> {
        let line = line.trim();
        if let Some(number) =
            line.strip_suffix("packets dropped by kernel").or(line.strip_suffix("packet dropped by kernel"))
        {
            return number.trim().parse().ok();
        }
        let (_, counts) = line.split_once("received/dropped on interface")?.1.rsplit_once(": ")?;
        counts.split(['/', ' ']).nth(1)?.parse().ok()
    };
    messages.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_read_from_the_messages() {
        for (messages, expected) in [
            ("10 packets captured\n12 packets received by filter\n2 packets dropped by kernel\n", 2),
            ("0 packets dropped by kernel\n", 0),
            (
                "Packets received/dropped on interface 'lo': 100/12 (pcap:12/dumpcap:0/flushed:0/ps_ifdrop:0) (89.3%)\n",
                12,
            ),
            ("tcpdump: listening on lo\n", 0),
        ] {
            assert_eq!(dropped(messages), expected, "{messages}");
        }
    }
}
