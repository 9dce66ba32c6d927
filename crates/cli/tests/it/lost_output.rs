//! Output that is lost is an error: of every command, in every way to lose it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::Need;

use crate::copy::Slow;
use crate::http::serve;
use crate::import::sqlio;
use crate::metadir::{staff, staff_and_phones};
use crate::program::{Finished, Place, command, run};

const FULL: &str = "error: standard output could not be written: No space left on device (os error 28)";

/// Commands that print, each with its manual page. They run in this order in one place, with the run `r`.
const PRINTING: &[(&str, &str)] = &[
    ("plimsoll", ""),
    ("plimsoll", "--help"),
    ("plimsoll", "--version"),
    ("plimsoll", "help"),
    ("plimsoll-metadir", "metadir --help"),
    ("plimsoll-null", "null --json --duration 50ms --warm-up 0s -q --run-dir n"),
    ("plimsoll-disk", "disk f.bin --size 1MiB --duration 50ms --warm-up 0s -q --run-dir d"),
    ("plimsoll-disk", "disk --sqlio -kR -s1 -Fparam.txt"),
    ("plimsoll-copy", "copy a.bin b.bin -q --run-dir c"),
    ("plimsoll-exec", "exec --repeat 1 -q --run-dir e -- true"),
    ("plimsoll-http", "http http://SERVER/ --duration 50ms --warm-up 0s -q --run-dir h"),
    ("plimsoll-http", "http --probe servers.csv"),
    ("plimsoll-run", "run e.toml -q --run-dir x"),
    ("plimsoll-check", "check e.toml"),
    ("plimsoll-check", "check e.toml --json"),
    ("plimsoll-init", "init disk -o new.toml"),
    ("plimsoll-schema", "schema"),
    ("plimsoll-runs", "runs ."),
    ("plimsoll-runs", "runs . --json"),
    ("plimsoll-show", "show r"),
    ("plimsoll-show", "show r --json"),
    ("plimsoll-explain", "explain r"),
    ("plimsoll-explain", "explain r --json"),
    ("plimsoll-compare", "compare r n"),
    ("plimsoll-compare", "compare r n --json"),
    ("plimsoll-report", "report r"),
    ("plimsoll-audit", "audit r"),
    ("plimsoll-audit", "audit r --json"),
    ("plimsoll-export", "export r"),
    ("plimsoll-export", "export r --format json"),
    ("plimsoll-export", "export r --format openmetrics"),
    ("plimsoll-export", "export r --format otlp"),
    ("plimsoll-export", "export r --format hdrhistogram"),
    ("plimsoll-export", "export r --format perfmon-csv"),
    ("plimsoll-export", "export r --format parquet -o tables"),
    ("plimsoll-import", "import sqlio.txt --run-dir i"),
    ("plimsoll-wire", "wire ldap.pcap"),
    ("plimsoll-wire", "wire ldap.pcap --json"),
    ("plimsoll-wire", "wire ldap.pcap --operations"),
    ("plimsoll-wire", "wire ldap.pcap --operations --format csv"),
    ("plimsoll-wire", "wire ldap.pcap --operations --format json"),
    ("plimsoll-watch", "watch --every 50ms --duration 1m"),
    ("plimsoll-watch", "watch --every 50ms --duration 1m --json"),
    ("plimsoll-watch", "watch --list"),
    ("plimsoll-delay", "delay --listen 127.0.0.1:0 --to 127.0.0.1:9"),
    ("plimsoll-doctor", "doctor --seconds 2"),
    ("plimsoll-doctor", "doctor --store metadirectory.toml"),
    ("plimsoll-generate-people", "generate people --count 10"),
    ("plimsoll-generate-people", "generate people --count 10 -o people.csv"),
    ("plimsoll-machines-kubernetes", "machines kubernetes --agents 2"),
    ("plimsoll-restore", "restore"),
    ("plimsoll-completions", "completions bash"),
    ("plimsoll-man", "man"),
    ("plimsoll-man", "man --output-dir ."),
    ("plimsoll-manual", "manual"),
    ("plimsoll-metadir-init", "metadir init --output new/metadirectory.toml"),
    ("plimsoll-metadir-check", "metadir check"),
    ("plimsoll-metadir-preview", "metadir preview full"),
    ("plimsoll-metadir-run", "metadir run full"),
    ("plimsoll-metadir-run", "metadir run full --json"),
    ("plimsoll-metadir-status", "metadir status"),
    ("plimsoll-metadir-history", "metadir history"),
    ("plimsoll-metadir-errors", "metadir errors"),
    ("plimsoll-metadir-errors", "metadir errors --csv"),
    ("plimsoll-metadir-pending", "metadir pending phones"),
    ("plimsoll-metadir-audit", "metadir audit"),
    ("plimsoll-metadir-search", "metadir search city=Oslo"),
    ("plimsoll-metadir-show", "metadir show staff E00001"),
    ("plimsoll-metadir-due", "metadir due"),
    ("plimsoll-metadir-scim-server", "metadir scim-server --listen 127.0.0.1:0"),
];

/// Pages of commands that are not in the table: they have subcommands only, need a server or much time, change what others
/// need, or print nothing. All print with the same functions.
const OTHERS: &[&str] = &[
    "plimsoll-agent",
    "plimsoll-delay-set",
    "plimsoll-delay-show",
    "plimsoll-demo",
    "plimsoll-gate",
    "plimsoll-generate",
    "plimsoll-http-convert",
    "plimsoll-http-record",
    "plimsoll-ldap",
    "plimsoll-ldap-import",
    "plimsoll-machines",
    "plimsoll-metadir-disconnect",
    "plimsoll-metadir-import-mim",
    "plimsoll-metadir-join",
    "plimsoll-metadir-release",
    "plimsoll-metadir-release-undo",
    "plimsoll-metadir-remove-agent",
    "plimsoll-metadir-rename",
    "plimsoll-metadir-serve",
    "plimsoll-metadir-undo",
    "plimsoll-size",
    "plimsoll-sync",
    "plimsoll-trace",
];

const LOAD: [&str; 9] =
    ["null", "--duration", "300ms", "--interval", "50ms", "--warm-up", "0s", "-q", "--run-dir"];

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A list of `http --probe`.
fn probed(address: &str) -> String {
    format!("farm,broker,port\nA,{}\n", address.replace(':', ","))
}

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn every_command_that_prints_fails_on_a_full_disk() {
    let place = Place::new("lost-output");
    assert!(run(&place, &[&LOAD[..], &["r"]].concat()).measured());
    staff_and_phones(&place);
    let address = serve();
    fs::create_dir(place.path("new")).unwrap();
    for (name, text) in [
        ("staff.csv", staff(3, |_| "Oslo")),
        ("a.bin", "a".repeat(100_000)),
        ("param.txt", "sqlio.dat 1 0x0 1\n".into()),
        ("servers.csv", probed(&address)),
        ("e.toml", "[workload.null]\n[load]\nmeasure = \"50ms\"\nwarm_up = \"0s\"\n".into()),
        ("sqlio.txt", sqlio(8, 225.0)),
    ] {
        fs::write(place.path(name), text).unwrap();
    }
    let capture = include_bytes!("../../../wire/fixtures/ldap.pcap");
    fs::write(place.path("ldap.pcap"), capture).unwrap();
    let mut wrong = String::new();
    for (_, line) in PRINTING {
        let line = line.replace("SERVER", &address);
        let output = command(&place, &words(&line)).stdout(full()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        let is_last = err.lines().last().is_some_and(|last| last.starts_with(FULL));
        if output.status.code() != Some(1) || !is_last || err.matches("standard output").count() != 1 {
            wrong += &format!("plimsoll {line}: {}\n{err}\n", output.status);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    // The next command is in one of the lists.
    fs::create_dir(place.path("pages")).unwrap();
    assert_eq!(run(&place, &["man", "--output-dir", "pages"]).code, 0);
    for entry in fs::read_dir(place.path("pages")).unwrap() {
        let page = entry.unwrap().file_name().into_string().unwrap();
        let page = page.trim_end_matches(".1");
        let is_known = PRINTING.iter().any(|(known, _)| *known == page) || OTHERS.contains(&page);
        assert!(is_known, "add {page} to PRINTING, with arguments that print something");
    }
}

#[test]
fn a_measurement_whose_result_is_not_printed_is_recorded() {
    let place = Place::new("lost-result");
    for (name, flags) in [("tables", &[][..]), ("json", &["--json"])] {
        let load = [&LOAD[..], &[name], flags].concat();
        let mut command = command(&place, &load);
        command.stdout(full());
        let done = Finished::of(command);
        let next = format!("; the record is complete: plimsoll show {name}\n");
        assert_eq!((done.code, done.err), (1, FULL.to_string() + &next));
        let shown = run(&place, &["show", name]);
        assert!(shown.code == 0 && shown.out.contains("nothing"), "{}{}", shown.out, shown.err);
    }
}

/// Runs a line of the shell, in which `$0` is the program; its exit code, and what it printed to standard error.
fn shell(place: &Place, line: &str) -> Finished {
    let mut command = Command::new("sh");
    command.args(["-c", line, env!("CARGO_BIN_EXE_plimsoll")]).current_dir(place.path(""));
    Finished::of(command)
}

#[test]
fn output_can_be_lost_in_many_ways() {
    let place = Place::new("lost-ways");
    for (line, code, err) in [
        ("\"$0\" manual > /dev/full", 1, FULL),
        (
            "\"$0\" manual >&-",
            1,
            "error: standard output could not be written: Bad file descriptor (os error 9)",
        ),
        (
            "\"$0\" manual 1< /dev/null",
            1,
            "error: standard output could not be written: Bad file descriptor (os error 9)",
        ),
        (
            "ulimit -f 8; \"$0\" manual > file",
            1,
            "error: standard output could not be written: File too large (os error 27)",
        ),
        ("\"$0\" manual > /dev/full 2> /dev/full", 1, ""),
        ("\"$0\" manual > /dev/full 2>&-", 1, ""),
        // Where nothing is printed, nothing is lost.
        ("\"$0\" generate people --count 1 --quiet -o people.csv >&-", 0, ""),
        ("\"$0\" manual > /dev/null", 0, ""),
        // Its reader has read enough.
        ("{ \"$0\" manual; echo $? > code; } | head -n 1 > head; exit $(cat code)", 0, ""),
        (
            "{ \"$0\" generate people --count 5000; echo $? > code; } | head -n 1 > head; exit $(cat code)",
            0,
            "",
        ),
        ("{ \"$0\" watch --every 20ms; echo $? > code; } | head -n 1 > head; exit $(cat code)", 0, ""),
    ] {
        let done = shell(&place, line);
        assert_eq!((done.code, done.err.trim_end()), (code, err), "{line}");
    }
}

#[test]
fn a_pipe_that_another_process_made_non_blocking_gets_everything() {
    let place = Place::new("lost-slow");
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    let arguments = ["manual"];
    let mut child = command(&place, &arguments).stdout(writer).spawn().unwrap();
    // More than a pipe holds waits now.
    std::thread::sleep(Duration::from_millis(300));
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(read == run(&place, &arguments).out, "{} bytes", read.len());
}

#[test]
fn a_file_of_an_option_that_is_not_complete_is_an_error() {
    let place = Place::new("lost-file");
    assert!(run(&place, &[&LOAD[..], &["r"]].concat()).measured());
    fs::write(place.path("ldap.pcap"), include_bytes!("../../../wire/fixtures/ldap.pcap")).unwrap();
    fs::write(place.path("servers.csv"), probed(&serve())).unwrap();
    staff_and_phones(&place);
    fs::write(place.path("staff.csv"), staff(3, |_| "Oslo")).unwrap();
    for line in [
        "report r -o /dev/full",
        "export r -o /dev/full",
        "export r --format otlp -o /dev/full",
        "wire ldap.pcap --html /dev/full",
        "generate people --count 10 -o /dev/full",
        "exec --repeat 1 -q --run-dir e --export-json /dev/full -- true",
        "http --probe servers.csv --output /dev/full",
        "metadir preview full --output /dev/full",
    ] {
        let done = run(&place, &words(line));
        assert!(done.code == 1 && done.err.contains("/dev/full"), "{line}: {} {}", done.code, done.err);
        assert!(done.err.contains("No space left on device"), "{line}: {}", done.err);
    }
}

#[test]
fn a_disk_that_gets_full_loses_no_output_in_silence() {
    if testkit::lacks(Need::Mount) {
        return;
    }
    let place = Place::new("lost-disk");
    fs::create_dir(place.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=4k tmpfs small || exit 77
        \"$0\" manual > small/manual; echo $?; rm small/manual
        \"$0\" null --duration 3s --interval 50ms --warm-up 0s -q --run-dir r --live small/live.csv > shown; echo $?";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_plimsoll")]);
    command.current_dir(place.path("")).env("PLIMSOLL_STATE_DIR", place.path("state"));
    let done = Finished::of(command);
    assert_eq!(done.out, "1\n1\n", "{}", done.err);
    assert!(done.err.starts_with(FULL), "{}", done.err);
    let live = "error: --live: small/live.csv is not complete: No space left on device";
    assert!(done.err.contains(live), "{}", done.err);
    // The record and the result are.
    let shown = fs::read_to_string(place.path("shown")).unwrap();
    assert_eq!(run(&place, &["show", "r"]).out, shown);
}

#[test]
fn a_reader_of_messages_that_has_stopped_does_not_hold_up_a_run() {
    let place = Place::new("stuck-messages");
    let (_reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'x'; 1 << 16]).unwrap();
    let load =
        ["null", "--duration", "300ms", "--warm-up", "0s", "--watch", r"Processor(*)\% Processor Time"];
    let mut child = command(&place, &[&load[..], &["--run-dir", "r"]].concat())
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("the run waits for the reader of its messages");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(run(&place, &["show", "r"]).code, 0);
}

#[test]
fn a_file_system_that_reports_errors_late_is_asked_for_them() {
    let place = Place::new("lost-late");
    let Some(_share) = Slow::start(&place, &["--rate-mb", "100", "--full", "at-sync"]) else { return };
    let mut command = command(&place, &["manual"]);
    command.stdout(File::create(place.path("share/manual")).unwrap());
    let done = Finished::of(command);
    assert_eq!((done.code, done.err.trim_end()), (1, FULL));
    let done = run(&place, &["generate", "people", "--count", "10", "-q", "-o", "share/people.csv"]);
    let full = "error: share/people.csv could not be written: No space left on device (os error 28)";
    assert_eq!((done.code, done.err.trim_end()), (1, full));
}
