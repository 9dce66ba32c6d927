//! `kill -9` at random moments of commands that change the host, again and again with one run directory: the record
//! opens, `restore` undoes everything, and each of its statements is true. More by hand: `PLIMSOLL_KILLS=300`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use testkit::slapd::{SUFFIX, SlapdOptions, organization};
use testkit::{Need, Slapd};

use crate::http::serve;
use crate::kill::{load_began, unix_s};
use crate::killed::kills;
use crate::program::{Place, command, run};

const CONFIGURATION: &str = "threads = 8\n";

/// When the test began.
static BEGUN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// A load on a file, with changes of the process of the load.
const DISK: &str = r#"
name = "Killed"
seed = 7
[workload.disk]
files = "f.bin"
size = "8MiB"
read_percent = "70%"
verify = true
[load]
warm_up = "300ms"
measure = "2s"
interval = "100ms"
[vary]
"host.cpus" = { baseline = 1, levels = [2] }
IO_LIMIT
"#;

/// Changes of a target, of its file, and beside it.
const TARGET: &str = r#"
name = "Killed target"
[target]
start = "sh -c 'echo up; exec sleep 600'"
ready = "line:^up"
[workload.null]
[load]
closed = 1
warm_up = "100ms"
measure = "500ms"
interval = "100ms"
[vary]
"target.config" = { on = "server.ini:threads", levels = [16] }
"host.cpus" = { baseline = 1, levels = [2] }
"host.neighbour" = { baseline = "none", levels = ["cpu 0.2"] }
GROUPS
"#;

/// A file system that is made for each trial.
const VOLUME: &str = r#"
name = "Killed file system"
[workload.disk]
files = "volume/f.bin"
size = "8MiB"
read_percent = "50%"
[load]
warm_up = "100ms"
measure = "700ms"
interval = "100ms"
[vary]
"host.filesystem" = { on = "volume", size = "64MiB", baseline = "ext4 journal=none", levels = ["ext4"] }
"host.cpus" = { baseline = 1, levels = [2] }
"#;

/// What is on the host, as far as the killed runs can have changed it.
#[derive(Debug)]
struct Host {
    groups: BTreeSet<PathBuf>,
    /// Living processes with the mark of a run.
    marked: BTreeSet<u32>,
    /// Whether one of them is a neighbour.
    has_neighbour: bool,
    /// Whether a command that makes a change still runs.
    has_command: bool,
    configuration: String,
    unfinished: BTreeSet<PathBuf>,
    has_file: bool,
    /// The place of the file system.
    volume: PathBuf,
    has_volume: bool,
    is_mounted: bool,
}

pub(crate) fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Everything below a folder.
fn below(folder: &Path, found: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        found(&entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&entry.path(), found);
        }
    }
}

impl Host {
    /// What runs with these processes have left.
    fn look(place: &Place, killed: &BTreeSet<u32>) -> Host {
        let (mut groups, mut unfinished) = (BTreeSet::new(), BTreeSet::new());
        below(Path::new("/sys/fs/cgroup"), &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let of = name.strip_prefix("plimsoll-").and_then(|name| name.split('-').nth(1)?.parse().ok());
            // An older one may be of another process that had this number.
            let made = path.metadata().and_then(|metadata| metadata.modified());
            let is_new = made.is_ok_and(|made| made >= *BEGUN);
            if is_new && of.is_some_and(|process| killed.contains(&process)) {
                groups.insert(path.to_path_buf());
            }
        });
        below(&place.path(""), &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(".plimsoll-")
                && name.ends_with(".new")
                && !path.starts_with(place.path("state"))
            {
                unfinished.insert(std::fs::canonicalize(path).unwrap_or_default());
            }
        });
        let (mut marked, mut has_neighbour, mut has_command) = (BTreeSet::new(), false, false);
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            // The value of a variable begins with the process of the run.
            let mark_of = |name: &str| {
                environment.split(|byte| *byte == 0).find_map(|variable| {
                    let mark = variable.strip_prefix(name.as_bytes())?;
                    std::str::from_utf8(mark).ok()?.split('-').next()?.parse::<u32>().ok()
                })
            };
            has_command |=
                mark_of("PLIMSOLL_COMMAND=").is_some_and(|of| killed.contains(&of)) && is_alive(process);
            let mark = mark_of("PLIMSOLL_TARGET=");
            if mark.is_some_and(|of| killed.contains(&of)) && is_alive(process) {
                marked.insert(process);
                let arguments = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
                has_neighbour |= arguments.contains("plimsoll") && arguments.contains("neighbour");
            }
        }
        let volume = std::fs::canonicalize(place.path("")).unwrap().join("volume");
        Host {
            has_volume: volume.exists(),
            is_mounted: is_mounted(&volume),
            volume,
            groups,
            marked,
            has_neighbour,
            has_command,
            configuration: std::fs::read_to_string(place.path("server.ini")).unwrap_or_default(),
            unfinished,
            has_file: place.path("f.bin").exists(),
        }
    }

    fn is_restored(&self) -> bool {
        self.groups.is_empty()
            && self.marked.is_empty()
            && !self.has_command
            && self.unfinished.is_empty()
            && self.configuration == CONFIGURATION
            && !self.has_volume
    }
}

fn is_mounted(point: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == point.to_str())
}

/// Ends what a failed test leaves, so that its folder can be removed.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        if is_mounted(&self.0) {
            let _ = std::process::Command::new("umount").arg(&self.0).status();
        }
    }
}

/// The text between two others.
fn between<'a>(line: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    line.strip_prefix(begin)?.split_once(end).map(|(text, _)| text)
}

/// Whether a step that `restore` reported is true. `None` for a statement that is not known here.
fn step_is_true(step: &str, before: &Host, after: &Host) -> Option<bool> {
    let process = |text: &str| text.parse::<u32>().ok();
    if step == "end the command that makes the change" {
        return Some(before.has_command && !after.has_command);
    }
    if step == "the command that makes the change has ended" {
        return Some(!after.has_command);
    }
    if let Some(group) = between(step, "move the processes of ", " to ") {
        return Some(before.groups.contains(Path::new(group)) && !Path::new(group).exists());
    }
    // A group, or a control file in one.
    let had = |path: &str| Path::new(path).ancestors().any(|group| before.groups.contains(group));
    if let Some(path) = step.strip_suffix(" does not exist any more") {
        return Some(!had(path));
    }
    if step.starts_with("write `") {
        return Some(had(step.rsplit_once("` to ")?.1));
    }
    if let Some(of) = between(step, "let process ", " and its descendants use CPUs ") {
        // It was alive, and has ended since only because it was a target.
        return Some(before.marked.contains(&process(of)?));
    }
    if let Some(of) = between(step, "stop process ", " and its child processes") {
        return Some(before.marked.contains(&process(of)?) && !is_alive(process(of)?));
    }
    if let Some(of) =
        step.strip_suffix(" and its child processes have ended").or(step.strip_suffix(" has ended"))
    {
        return match of.strip_prefix("process ") {
            Some(of) => Some(!before.marked.contains(&process(of)?)),
            None => Some(of == "the process of the neighbour" && !before.has_neighbour),
        };
    }
    if step == "stop the process of the neighbour" {
        return Some(before.has_neighbour && !after.has_neighbour);
    }
    if step.starts_with("unmount the file system ") {
        let is_here = Path::new(step.rsplit_once(" from ")?.1) == before.volume;
        return Some(is_here && before.is_mounted && !after.is_mounted);
    }
    if step.starts_with("the file system ") {
        return Some(step.contains(" is not mounted at ") && !before.is_mounted);
    }
    if let Some(folder) = step.strip_prefix("remove the directory ") {
        return Some(Path::new(folder) == before.volume && before.has_volume && !after.has_volume);
    }
    if step.starts_with("the directory ") {
        return Some(step.ends_with(" is gone, or was used") && !before.has_volume);
    }
    if step.starts_with("set threads in ") {
        let value = |text: &str| step.contains(text);
        return Some(
            value("from `16` back to `8`")
                && before.configuration.contains("16")
                && after.configuration == CONFIGURATION,
        );
    }
    if step.starts_with("threads in ") {
        return Some(step.ends_with("is `8` already") && before.configuration == CONFIGURATION);
    }
    None
}

/// The statements of `restore` that are wrong, or not known here.
fn wrong_statements(out: &str, before: &Host, after: &Host) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is_done = None;
    for line in out.lines() {
        let is_true = if let Some(step) = line.strip_prefix("    ") {
            let over = [" ended", " any more", " already", " is gone, or was used"];
            let is_over = over.iter().any(|end| step.ends_with(end)) || step.contains(" is not mounted at ");
            (is_done != Some(false) || is_over) && step_is_true(step, before, after) == Some(true)
        } else if line == "nothing to restore" || line.starts_with("nothing to restore: ") {
            // The second where it was killed before it made its directory.
            before.is_restored()
        } else if let Some((path, size)) =
            line.split_once(" was removed: a process").and_then(|(file, _)| file.rsplit_once(", "))
        {
            // Those of the state folder are not looked for.
            let was_there = before.unfinished.contains(Path::new(path)) || path.contains("/state/");
            !size.is_empty() && was_there && !Path::new(path).exists()
        } else if line.contains(" was left by the disk load; the next run uses it again") {
            after.has_file
        } else {
            is_done = Some(!line.ends_with(": nothing is left to restore"));
            line.ends_with(" restored") || line.ends_with(": target ended") || is_done == Some(false)
        };
        if !is_true {
            wrong.push(line.to_string());
        }
    }
    wrong
}

/// Restores by the first of these forms, `restore DIR` or a bare `restore`, and compares what it says with the host. The others
/// find nothing that is left, nor does it itself.
fn restored(place: &Place, forms: &[Option<&str>], killed: &BTreeSet<u32>, round: u32) {
    let words = |form: &Option<&'_ str>| -> Vec<String> {
        ["restore"].into_iter().chain(*form).map(String::from).collect()
    };
    let forms: Vec<Vec<String>> = forms.iter().map(words).collect();
    let arguments: Vec<&str> = forms[0].iter().map(String::as_str).collect();
    let before = Host::look(place, killed);
    let done = run(place, &arguments);
    let after = Host::look(place, killed);
    let said = format!("round {round}, {arguments:?}: {}{}", done.out, done.err);
    assert_eq!(done.code, 0, "{said}");
    assert!(after.is_restored(), "{said}{before:?}{after:?}");
    assert_eq!(wrong_statements(&done.out, &before, &after), Vec::<String>::new(), "{said}{before:?}");
    for form in forms.iter().rev() {
        let arguments: Vec<&str> = form.iter().map(String::as_str).collect();
        let again = run(place, &arguments);
        // The file of a load stays for the next run, and is reported again.
        let lines: Vec<&str> =
            again.out.lines().filter(|line| !line.contains(" was left by the disk load")).collect();
        let is_nothing = |line: &&str| line.starts_with("nothing to restore");
        let is_true = again.code == 0 && lines.iter().all(is_nothing) && lines.len() <= 1;
        assert!(is_true, "{said}then {form:?}: {}{}", again.out, again.err);
    }
}

/// A command that changes the host, and how it is killed.
struct Killed {
    arguments: Vec<String>,
}

/// Experiments, and each command that has factors.
fn commands(place: &Place, url: &str, slapd: Option<&Slapd>) -> Vec<Killed> {
    let has = |need: Need<'_>| !testkit::partly_lacks(need);
    let is_limited = has(Need::Cgroup("blkio", "io")) && has(Need::BlockDevice(&place.path("")));
    let io_limit = match is_limited {
        true => r#""host.disk.io_limit" = { baseline = "2000/s", levels = ["1000/s"] }"#,
        false => "",
    };
    let mut groups = String::new();
    if has(Need::Cgroup("cpu", "cpu")) {
        groups += "\"host.cpu_quota\" = { baseline = \"unlimited\", levels = [\"50%\"] }\n";
    }
    if has(Need::Cgroup("memory", "memory")) {
        groups += "\"host.memory\" = { baseline = \"512MiB\", levels = [\"256MiB\"] }\n";
    }
    std::fs::write(place.path("disk.toml"), DISK.replace("IO_LIMIT", io_limit)).unwrap();
    std::fs::write(place.path("target.toml"), TARGET.replace("GROUPS", &groups)).unwrap();
    std::fs::write(place.path("server.ini"), CONFIGURATION).unwrap();
    std::fs::write(place.path("volume.toml"), VOLUME).unwrap();
    let has_volume = has(Need::LoopDevice) && has(Need::Mount) && has(Need::Program("mkfs.ext4"));
    let words = |text: String| text.split(' ').map(String::from).collect::<Vec<_>>();
    let short = "--vary host.cpus=1,2 --warm-up 0s --interval 100ms";
    crate::metadir::staff_and_phones(place);
    let generate = "generate people --count 3000 --attributes 8 --quiet --output staff.csv";
    assert_eq!(run(place, &generate.split(' ').collect::<Vec<_>>()).code, 0);
    let sync = "sync full --vary host.cpus=1,2 --repeat-for 700ms --interval 100ms --prepare";
    let sync = words(sync.to_string()).into_iter().chain(["rm -f metadirectory.db*".to_string()]).collect();
    let ldap = slapd.map(|slapd| {
        format!("ldap search {} --base {SUFFIX} --scope base --duration 700ms {short}", slapd.url())
    });
    let all = [
        if has_volume { "run volume.toml" } else { "run disk.toml" }.to_string(),
        "run disk.toml".to_string(),
        "run target.toml".to_string(),
        "run target.toml".to_string(),
        format!("disk f.bin --size 8MiB --write --duration 700ms {short}"),
        format!("http {url} --duration 700ms {short}"),
        format!("null --duration 700ms {short}"),
        "exec --repeat 30 --vary host.cpus=1,2 -- sleep 0.03".to_string(),
        "gate --base base --head head --rounds-max 20 --repeat 2 -- sleep 0.05".to_string(),
        "copy generate:200MB copied/x --vary host.cpus=1,2 --replicates 5 --interval 100ms".to_string(),
    ];
    let all = all.into_iter().chain(ldap).map(words).chain([sync]);
    all.map(|arguments| Killed { arguments }).collect()
}

impl Killed {
    fn start(&self, place: &Place, directory: &str) -> Child {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let at = arguments.iter().position(|argument| *argument == "--").unwrap_or(arguments.len());
        arguments.splice(at..at, ["--run-dir", directory, "--quiet"]);
        let mut command = command(place, &arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// The record opens, and a killed trial is recorded up to the last second before the kill. Whether there was a load.
fn record_opens(place: &Place, directory: &str, killed_unix_s: f64, round: u32) -> bool {
    if !place.path(directory).join("trials").is_dir() {
        return false;
    }
    let shown = run(place, &["show", directory]);
    assert!(matches!(shown.code, 0 | 97 | 98), "round {round}: {}", shown.err);
    let mut is_measured = false;
    for trial in std::fs::read_dir(place.path(directory).join("trials")).unwrap() {
        let trial = trial.unwrap().path();
        let read = |name: &str| std::fs::read_to_string(trial.join(name)).ok();
        let (Some(run), Some(intervals)) = (read("run.json"), read("intervals.csv")) else { continue };
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        let is_paced = run["workload"] != "command";
        if run["ending"] != "running" || run["phases"].as_array().unwrap().is_empty() || !is_paced {
            continue;
        }
        let ends = intervals.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse::<f64>().ok());
        let recorded_s = ends.fold(0.0, f64::max);
        let ran_s = killed_unix_s - run["started_unix_ns"].as_f64().unwrap() / 1e9;
        assert!(ran_s - recorded_s <= 1.0, "round {round}: ran {ran_s} s, recorded {recorded_s} s");
        is_measured |= recorded_s > 0.0;
    }
    is_measured
}

#[test]
fn killed_at_a_random_moment_every_host_is_restored_and_every_statement_is_true() {
    let _ = *BEGUN;
    let place = Place::new("kill");
    for folder in ["base", "head"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    let _unmount = Unmount(place.path("volume"));
    let slapd = Slapd::start(&SlapdOptions { ldif: organization(&[]), ..SlapdOptions::default() });
    let commands = commands(&place, &format!("http://{}/", serve()), slapd.as_ref());
    // A fixed sequence, so that a failure can be met again.
    let seed = std::env::var("PLIMSOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut random = seed.unwrap_or(12_345_u64);
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    let (mut round, mut measured, mut unrestored) = (0, 0, 0);
    let mut killed = BTreeSet::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let kills = kills(50);
    while killed.len() < kills as usize {
        round += 1;
        let command = &commands[below(commands.len() as u64) as usize];
        let directory = if below(4) == 0 { format!("r{round}") } else { "r".to_string() };
        let mut child = command.start(&place, &directory);
        // Half of the kills meet the load on any machine, the others anything from the start on.
        if below(2) == 0 {
            let begin = Instant::now();
            while !load_began(&place.path(&directory)) && child.try_wait().unwrap().is_none() {
                assert!(begin.elapsed() < Duration::from_secs(60), "the load has not begun after a minute");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        std::thread::sleep(Duration::from_millis(20 + below(1500)));
        let was_running = child.try_wait().unwrap().is_none();
        let killed_unix_s = unix_s();
        child.kill().unwrap();
        child.wait().unwrap();
        if was_running {
            killed.insert(child.id());
            let name = command.arguments.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
            *counts.entry(name).or_default() += 1;
            measured += u32::from(record_opens(&place, &directory, killed_unix_s, round));
        }
        let is_there = place.path(&directory).exists();
        match below(5) {
            // The next run finds the host as it is.
            0 if directory == "r" && killed.len() < kills as usize => unrestored += 1,
            1 if is_there && unrestored == 0 => {
                std::fs::rename(place.path(&directory), place.path("moved")).unwrap();
                restored(&place, &[Some("moved"), None], &killed, round);
                std::fs::remove_dir_all(place.path("moved")).unwrap();
            }
            // What runs in another directory have left is not of this one.
            2 | 3 if unrestored == 0 || directory == "r" => {
                restored(&place, &[Some(&directory), None], &killed, round);
                unrestored = 0;
            }
            _ => {
                restored(&place, &[None, Some(&directory)], &killed, round);
                unrestored = 0;
            }
        }
        let _ = std::fs::remove_dir_all(place.path(&directory));
    }
    restored(&place, &[None], &killed, round);
    println!("{} kills in {round} runs, {measured} of a running load: {counts:?}", killed.len());
    assert!(measured * 10 >= kills, "only {measured} of {kills} kills met a running load");
}
