//! Agents that answer pings and keep one message to themselves, or repeat one for ever: the coordinator ends when it is stopped.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Need, lacks};

use crate::program::{Finished, Place, command, run};

/// Passes on what a coordinator and an agent say, but for one message. It writes a file when that message is due.
const RELAY: &str = r#"
import json, os, struct, subprocess, sys, threading
what, message, program, mark = sys.argv[1:5]
agent = subprocess.Popen([program, "agent", *sys.argv[5:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def read(length):
    data = b""
    while len(data) < length:
        piece = agent.stdout.read(length - len(data))
        if not piece:
            sys.exit()
        data += piece
    return data

def up():
    while True:
        piece = os.read(0, 65536)
        if not piece:
            break
        agent.stdin.write(piece)
        agent.stdin.flush()
    agent.stdin.close()

threading.Thread(target=up, daemon=True).start()
while True:
    length = read(4)
    frame = read(struct.unpack("<I", length)[0])
    head = struct.unpack("<I", frame[:4])[0]
    if json.loads(frame[4:4 + head])["message"] == message:
        open(mark, "w").close()
        if what == "drop":
            continue
        while what == "repeat":
            sys.stdout.buffer.write(length + frame)
            sys.stdout.buffer.flush()
    sys.stdout.buffer.write(length + frame)
    sys.stdout.buffer.flush()
"#;

/// A run with such an agent, which is stopped when the message is due. Returns how it ended.
fn stopped(what: &str, message: &str) -> Finished {
    let place = Place::new(&format!("waits-{what}-{message}"));
    std::fs::write(place.path("relay.py"), RELAY).unwrap();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let paths = ["relay.py", "due"].map(|name| place.path(name).display().to_string());
    let on = format!("a=exec:python3 {} {what} {message} {program} {}", paths[0], paths[1]);
    let arguments = ["null", "--duration", "1s", "--warm-up", "0s", "--on", &on, "--run-dir", "r"];
    let child = command(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !place.path("due").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} {message}: it is never due");
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    // The bound of a test, not of the program: before, it waited for minutes or without end.
    let ends = std::thread::spawn(move || child.wait_with_output().unwrap());
    let begun = Instant::now();
    while !ends.is_finished() {
        if begun.elapsed() > Duration::from_secs(80) {
            let _ = Command::new("kill").args(["-KILL", &process]).status();
            panic!("{what} {message}: the coordinator did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = ends.join().unwrap();
    Finished {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn every_wait_for_a_machine_ends_when_the_user_stops_the_run() {
    if lacks(Need::Program("python3")) {
        return;
    }
    let cases = [
        ("drop", "hello", "interrupted"),
        ("drop", "checked", "interrupted"),
        ("drop", "ready", ""),
        ("drop", "interval", ""),
        ("drop", "finished", ""),
        ("drop", "ended", "`plimsoll restore` on that machine removes what it left"),
        ("repeat", "hello", ""),
        ("repeat", "checked", ""),
    ];
    std::thread::scope(|scope| {
        for (what, message, expected) in cases {
            scope.spawn(move || {
                let ended = stopped(what, message);
                assert_ne!(ended.code, 0, "{what} {message}: {}", ended.out);
                let said = format!("{}{}", ended.out, ended.err);
                assert!(said.contains(expected), "{what} {message}: {said}");
            });
        }
    });
}

/// The limits of an agent apply also to files that a load names besides its own. Its answer does not say whether a file exists.
#[test]
fn an_agent_samples_no_file_that_it_may_not_open() {
    let place = Place::new("allow");
    std::fs::create_dir(place.path("allowed")).unwrap();
    std::fs::write(place.path("secret.txt"), "secret\n").unwrap();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let on = format!("a=exec:{program} agent --allow {}", place.path("allowed").display());
    let file = place.path("allowed/g.bin").display().to_string();
    for other in ["secret.txt", "nothing", "allowed/../secret.txt"] {
        let like = place.path(other).display().to_string();
        let arguments = ["disk", &file, "--size", "1MiB", "--write", "--compressible-like", &like];
        let more = ["--on", &on, "--duration", "200ms", "--warm-up", "0s", "--quiet"];
        let refused = run(&place, &[&arguments[..], &more].concat());
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains("refuses") && !refused.err.contains("No such file"), "{}", refused.err);
    }
}
