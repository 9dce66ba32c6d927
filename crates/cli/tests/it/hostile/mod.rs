//! Run directories made by somebody who means harm: whatever is in them, every command that reads them ends in time and
//! with little memory, changes nothing outside, and obeys nothing.

mod reading;
mod writing;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::damage::copy;
use crate::program::{Place, run};

/// Memory that a command may reserve.
const MEMORY_KIB: u64 = 1 << 20;
/// Far more than any of these commands takes, and less than a reader who waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);

const SWEEP: &str = r#"
name = "A sweep"
sample_every = "50ms"
[workload.null]
service = "2ms"
[load]
closed = 8
warm_up = "0s"
measure = "200ms"
interval = "50ms"
[vary]
"load.closed" = { levels = [1, 2] }
"#;

/// The same without the sweep, where each trial has hundreds of megabytes.
fn one_trial() -> &'static str {
    SWEEP.split("[vary]").next().unwrap_or(SWEEP)
}

/// Files of a run and of a trial.
const OF_RUN: [&str; 11] = [
    "README.txt",
    "experiment.toml",
    "host.json",
    "plan.json",
    "restore.jsonl",
    "result.json",
    "report.html",
    "target.log",
    "plan.json.new",
    "result.json.new",
    "report.html.new",
];
const OF_TRIAL: [&str; 10] = [
    "run.json",
    "intervals.csv",
    "readings.csv",
    "readings.csv.gz",
    "metrics.json",
    "events.jsonl",
    "response.hlog",
    "service.hlog",
    "lag.hlog",
    "run.json.new",
];

/// What a command said under limits of memory and time.
struct Answer {
    code: Option<i32>,
    text: String,
}

/// Runs the program with [`MEMORY_KIB`] of address space, and ends it after [`PATIENCE`].
fn limited(place: &Place, arguments: &[&str]) -> Answer {
    let (out, err) = (place.path("out"), place.path("err"));
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_plimsoll")])
        .args(arguments)
        .current_dir(place.path(""))
        .env("CLICOLOR_FORCE", "1")
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    let code = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if Instant::now() > deadline => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let read = |path| String::from_utf8(std::fs::read(path).unwrap()).unwrap();
    Answer { code, text: read(&out) + &read(&err) }
}

/// Content, mode and inode of every file below a folder.
fn listing(folder: &Path) -> Vec<(PathBuf, Vec<u8>, u32, u64)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            all.push((path.clone(), content, metadata.mode(), metadata.ino()));
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    all.sort();
    all
}

fn trials(run: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(run.join("trials")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Replaces a file of every trial; its other form goes.
fn in_trials(run: &Path, name: &str, make: impl Fn(&Path)) {
    for trial in trials(run) {
        for other in [name.to_string(), format!("{name}.gz"), name.trim_end_matches(".gz").to_string()] {
            let _ = std::fs::remove_file(trial.join(other));
        }
        make(&trial.join(name));
    }
}

fn text(text: impl AsRef<[u8]>) -> impl Fn(&Path) {
    move |path| std::fs::write(path, text.as_ref()).unwrap()
}

/// A file of this size that takes no space.
fn sparse(bytes: u64) -> impl Fn(&Path) {
    move |path| std::fs::File::create(path).unwrap().set_len(bytes).unwrap()
}

/// The output of a shell command.
fn made_by(command: &str) -> impl Fn(&Path) {
    move |path| {
        let file = std::fs::File::create(path).unwrap();
        assert!(Command::new("sh").args(["-c", command]).stdout(file).status().unwrap().success());
    }
}

fn special(kind: rustix::fs::FileType, major: u32, minor: u32) -> impl Fn(&Path) {
    move |path| {
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::from_raw_mode(0o600), device)
            .unwrap();
    }
}

fn fifo(path: &Path) {
    special(rustix::fs::FileType::Fifo, 0, 0)(path);
}

/// A JSON file with something else in place of a piece of its text.
fn edit(path: &Path, change: impl Fn(String) -> String) {
    let text = std::fs::read_to_string(path).unwrap();
    let changed = change(text.clone());
    assert!(changed != text, "{}", path.display());
    std::fs::write(path, changed).unwrap();
}

/// Operations whose histograms claim five digits over all of 63 bits: 38 MB each.
fn large_histograms(operations: u32) -> String {
    let line = |at| format!("Tag=o{at},0.0,1.0,1.0,HISTFAAAAB942pNpmSzMwMDAyAABrFCasf4/BNh/gAgwAQCf/wn3\n");
    (0..operations).map(line).collect()
}

/// A histogram whose header claims 4 GiB of counts.
const CLAIMS_COUNTS: &str = "Tag=a,0.0,1.0,1.0,HISTFAAAAB142pNpmSz8////DwwQwAylGcEICOyhMkwAyBgGag==\n";

const INTERVAL: &str = "0.0,1.0,measure,1,read,1,1,1,0,0,0,1.000,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1";

/// A target in `plan.json`, before what follows it.
fn target(command: &str) -> String {
    format!(
        "\"target\": {{\"settings\": {{\"start\": {{\"level\": {{\"text\": \"{command}\"}}, \"given\": true}}}}, \"environment\": {{}}}},"
    )
}

fn deep() -> String {
    "[".repeat(1_000_000)
}

/// Titles of so many columns.
fn titles(from: usize, count: usize) -> String {
    let names: Vec<String> = (from..from + count).map(|at| format!("a{at}")).collect();
    format!("begin_s,end_s,{}\n", names.join(","))
}

/// What a hostile directory is made of, from a sound one. The second path is a folder outside with the file `precious`.
type Hostile = (&'static str, Box<dyn Fn(&Path, &Path)>, &'static str);

fn hostile(name: &'static str, make: impl Fn(&Path, &Path) + 'static, said: &'static str) -> Hostile {
    (name, Box::new(make), said)
}

/// How much of each command is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forms {
    /// Each command once.
    One,
    /// And in its other forms.
    All,
}

/// Makes each directory, has every command read it, and checks what must always hold; `explain` must say what the case
/// says.
fn check(place_name: &str, experiment: &str, forms: Forms, cases: Vec<Hostile>) {
    let place = Place::new(place_name);
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let done = run(&place, &["run", "e.toml", "--run-dir", "sound", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    std::fs::create_dir_all(place.path("outside/trial")).unwrap();
    std::fs::write(place.path("outside/precious"), "ssh-ed25519 AAAA me\n").unwrap();
    let failures: Vec<String> = cases
        .into_iter()
        .filter_map(|(name, make, said)| {
            copy(&place.path("sound"), &place.path(name).join("run"));
            make(&place.path(name).join("run"), &place.path("outside"));
            let failure = examine(&place, name, said, forms).err().map(|why| format!("{name}: {why}"));
            // Some have a gigabyte.
            let _ = std::fs::remove_dir_all(place.path(name));
            failure
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Has every command read one directory; the first thing that must not be.
fn examine(place: &Place, name: &str, said: &str, forms: Forms) -> Result<(), String> {
    let outside = place.path("outside");
    let before = listing(&outside);
    let path = format!("{name}/run");
    let each: [&[&str]; 7] = [
        &["explain", &path],
        &["show", &path],
        &["size", &path, "--for", "100/s"],
        &["compare", "sound", &path],
        &["export", &path],
        &["report", &path],
        &["runs", name],
    ];
    let other_forms: [&[&str]; 12] = [
        &["show", &path, "--verbose"],
        &["show", &path, "--json"],
        &["compare", &path, "sound"],
        &["export", &path, "--format", "markdown"],
        &["export", &path, "--format", "junit"],
        &["export", &path, "--format", "openmetrics"],
        &["export", &path, "--format", "otlp"],
        &["export", &path, "--format", "hdrhistogram"],
        &["export", &path, "--format", "perfmon-csv"],
        &["export", &path, "--format", "k6"],
        &["export", &path, "--format", "parquet", "--output", "tables"],
        &["report", &path, "--output", "page.html"],
    ];
    let more = if forms == Forms::All { &other_forms[..] } else { &[] };
    for arguments in each.iter().chain(more) {
        let Answer { code, text } = limited(place, arguments);
        let shown: String = text.chars().take(1000).collect();
        let wrong = |what: &str| Err(format!("{arguments:?} {what}: {shown}"));
        let Some(code) = code else { return wrong("crashed, or did not end") };
        if text.contains("panicked") {
            return wrong("panicked");
        }
        let allowed: &[i32] = if arguments[0] == "size" { &[0, 1, 2, 98, 99] } else { &[0, 1, 2] };
        if !allowed.contains(&code) {
            return wrong(&format!("ended with {code}"));
        }
        // Our own colours are the only thing that a terminal obeys.
        let own = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m"];
        // Lines of Windows end with a carriage return.
        let bare = own.iter().fold(text.replace("\r\n", "\n"), |text, colour| text.replace(colour, ""));
        if let Some(hidden) = bare.chars().find(|c| report::text::is_hidden(*c)) {
            return wrong(&format!("printed {hidden:?}"));
        }
        let words = bare.split_whitespace().collect::<Vec<_>>().join(" ");
        if arguments[0] == "explain" && !words.contains(said) {
            return wrong(&format!("does not say {said:?}"));
        }
        if listing(&outside) != before {
            return wrong("changed something outside");
        }
    }
    match place.path("executed").exists() {
        true => Err("a command of the record was executed".into()),
        false => Ok(()),
    }
}
