use std::io::Read;
use std::net::TcpListener;
use std::process::Command;

use super::*;
use crate::process::{Stat, with_descendants};
use crate::testing::UndoSteps;
use engine::source::HostRoot;
use testkit::Scratch;

/// The arguments of the test binary before those of the process.
const ARGUMENTS: [&str; 6] = [
    "--exact",
    "--ignored",
    "--nocapture",
    "--test-threads=2",
    "neighbour::tests::the_process_of_a_neighbour",
    "--",
];

/// The process is the test below.
pub(super) fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(&ARGUMENTS[..5]);
    command
}

#[test]
#[ignore = "is the process of a neighbour of the other tests"]
fn the_process_of_a_neighbour() {
    let arguments: Vec<String> = std::env::args().skip(ARGUMENTS.len()).collect();
    // Started by hand without a level.
    if !arguments.is_empty() {
        run(&arguments);
        std::process::exit(1);
    }
}

fn level(text: &str) -> Level {
    Level::Text(text.into())
}

fn target(on: Option<&Path>, parameters: &[(&str, &str)]) -> FactorTarget {
    FactorTarget {
        on: on.map(|path| path.display().to_string()),
        parameters: parameters
            .iter()
            .map(|(name, value)| (name.to_string(), model::Secret::plain(value)))
            .collect(),
        ..FactorTarget::of(HostRoot::live(), vec![std::process::id()])
    }
}

/// A directory on a disk: one for temporary files may be in memory.
fn folder() -> Scratch {
    Scratch::inside(Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// Sets a level, and returns what it achieved within some time.
fn measured(factor: &mut dyn Factor, text: &str, time: Duration) -> BTreeMap<String, Level> {
    factor.check(&level(text)).unwrap();
    let undo = UndoSteps(factor.undo(&level(text)).unwrap());
    let settling = factor.set(&level(text)).unwrap();
    std::thread::sleep(Duration::from_nanos(settling));
    assert_eq!(factor.read().unwrap(), level(text));
    factor.begin_measured();
    std::thread::sleep(time);
    assert!(factor.end_measured().is_none());
    let facts = factor.facts();
    for _ in 0..2 {
        undo.execute();
    }
    assert!(factor.read().unwrap_err().0.contains("has ended"));
    facts
}

fn number(facts: &BTreeMap<String, Level>, name: &str) -> f64 {
    facts.get(name).and_then(Level::as_number).unwrap_or_else(|| panic!("no {name} in {facts:?}"))
}

#[test]
fn each_load_is_made_at_no_more_than_its_rate_and_is_gone_after_the_undo() {
    let folder = folder();
    let mut factor = open(&target(Some(folder.path()), &[("size", "8MiB")])).unwrap();
    for (text, load, unit) in [
        ("cpu 0.2", "cpu", 1.0),
        ("disk 2MB/s", "disk read", 1e6),
        ("disk write 50/s", "disk write", 1.0),
        ("memory 100MB/s", "memory", 1e6),
        ("network 10MB/s", "network", 1e6),
    ] {
        let facts = measured(&mut *factor, text, Duration::from_millis(1500));
        let [stated, achieved] = ["stated", "achieved"].map(|of| number(&facts, &format!("{load}.{of}")));
        // At most: one operation of each worker may be early. A busy machine achieves less.
        let most = stated + (2.0 * stated).max(if load == "memory" { 4e6 } else { 64e3 });
        assert!(achieved > 0.0 && achieved <= most, "{text}: {achieved} in {unit}");
        assert!(!facts.contains_key("error"), "{facts:?}");
        assert!(number(&facts, "cpus") > 0.0);
        let process = number(&facts, "process") as u32;
        let state = Stat::of(&HostRoot::live(), process);
        assert!(state.is_none_or(|stat| !stat.is_alive), "{text}: the process is still there");
        // A scratch file has no name.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn several_loads_have_a_rate_each_and_one_process() {
    let folder = folder();
    let mut factor = open(&target(Some(folder.path()), &[("size", "1MiB"), ("cpus", "0")])).unwrap();
    if factor.check(&level("cpu 0.1")).is_err() {
        // CPU 0 may be forbidden to this process.
        factor = open(&target(Some(folder.path()), &[("size", "1MiB")])).unwrap();
    }
    let text = "cpu 0.1 and disk write 20/s and network 1MB/s";
    let facts = measured(&mut *factor, text, Duration::from_millis(800));
    for load in ["cpu", "disk write", "network"] {
        assert!(number(&facts, &format!("{load}.achieved")) > 0.0, "{facts:?}");
    }
    assert!(factor.remark().contains("random direct writes of 8KiB in a scratch file of 1MiB"));
}

#[test]
fn a_neighbour_is_no_descendant_so_limits_of_the_load_are_not_its_own() {
    let mut factor = open(&target(None, &[])).unwrap();
    let undo = UndoSteps(factor.undo(&level("cpu 0.05")).unwrap());
    factor.set(&level("cpu 0.05")).unwrap();
    let process = number(&factor.facts(), "process") as u32;
    let root = HostRoot::live();
    assert_eq!(Stat::of(&root, process).unwrap().parent, std::process::id());
    assert!(!with_descendants(&root, &[std::process::id()]).contains(&process));
    // Ended by the journal of another process, while this one still holds it.
    undo.execute();
    assert!(Stat::of(&root, process).is_none_or(|stat| !stat.is_alive));
    drop(factor);
    assert!(Stat::of(&root, process).is_none());
}

#[test]
fn a_neighbour_that_ends_is_an_error_of_the_trial() {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = sink.local_addr().unwrap().to_string();
    let mut factor = open(&target(None, &[("address", &address)])).unwrap();
    factor.check(&level("network 1MB/s")).unwrap();
    let _undo = UndoSteps(factor.undo(&level("network 1MB/s")).unwrap());
    factor.set(&level("network 1MB/s")).unwrap();
    factor.begin_measured();
    // The first connection is that of the check.
    let (_, _) = sink.accept().unwrap();
    let (mut stream, _) = sink.accept().unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    let process = number(&factor.facts(), "process") as u32;
    for _ in 0..1000 {
        if Stat::of(&HostRoot::live(), process).is_none_or(|stat| !stat.is_alive) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    factor.end_measured();
    let facts = factor.facts();
    assert_eq!(facts["network.stated"], Level::BytesPerSecond(1e6));
    assert!(!facts.contains_key("network.achieved"));
    assert!(facts["error"].to_string().starts_with("network: the connection: "), "{facts:?}");
    assert!(factor.read().is_err());
}

#[test]
fn the_process_ends_with_the_input_of_its_starter() {
    // As after a kill of Plimsoll: nothing but the pipe says so.
    let mut command = command();
    command.arg("cpu 0.05").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = engine::shell::spawn(&mut command).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_is_said_before_the_run() {
    let folder = folder();
    let why = |target: &FactorTarget, text: &str| match open(target)
        .and_then(|factor| factor.check(&level(text)))
    {
        Ok(()) => String::new(),
        Err(why) => why.0,
    };
    let plain = target(None, &[]);
    let file = FactorTarget { files: vec![folder.join("later/made/file")], ..target(None, &[]) };
    let device = FactorTarget { files: vec!["/dev/null".into()], ..target(None, &[]) };
    let on = |path: &Path, size: &str| target(Some(path), &[("size", size)]);
    for (target, text, expected) in [
        (&plain, "none", ""),
        (&plain, "cpu 0.5", ""),
        (&plain, "cpu 100000", "are stated: state at most"),
        (&plain, "cpu x", "`x` is not a rate of cpu"),
        (&plain, "disk 1MB/s", "the workload has no files: name the directory of its scratch file with `on`"),
        (&file, "disk 1MB/s", ""),
        (&device, "disk 1MB/s", "/dev/null is a device: name the directory"),
        (&on(folder.path(), "8MiB"), "disk 1MB/s", ""),
        (&on(&folder.join("absent"), "8MiB"), "disk 1MB/s", "which is not a directory"),
        (&on(&folder.join("absent"), "8MiB"), "cpu 0.5", ""),
        (&on(Path::new("/proc"), "8MiB"), "disk 1MB/s", "/proc cannot hold a scratch file"),
        (
            &on(folder.path(), "8000TiB"),
            "disk 1MB/s",
            "MiB are needed; lower `size`, or name another directory with `on`",
        ),
        (&on(folder.path(), "8"), "disk 1MB/s", "`size`: `8` is not a size"),
        (&on(folder.path(), "100KB"), "disk 1MB/s", "use a multiple of 64KiB"),
        (&target(None, &[("cpus", "x")]), "cpu 1", "`cpus` is `x`, which is not a list of CPUs"),
        (&target(None, &[("cpus", "1000")]), "cpu 1", "`cpus` is 1000, and Plimsoll may use"),
        (&target(None, &[("address", "127.0.0.1:1")]), "network 1MB/s", "start a service there that reads"),
        (&target(None, &[("address", "nowhere")]), "network 1MB/s", "nowhere: "),
        (&target(None, &[("address", "nowhere")]), "cpu 0.5", ""),
    ] {
        let why = why(target, text);
        match expected {
            "" => assert_eq!(why, "", "{text}"),
            expected => assert!(why.contains(expected), "{text}: {why}"),
        }
    }
}
