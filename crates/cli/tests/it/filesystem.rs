//! `host.filesystem`: a file system for each trial, gone after the run, after a failure and after a kill.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::Need;

use crate::program::{Place, command, run};

const EXPERIMENT: &str = r#"
name = "Allocation size"
[workload.copy]
source = "generate:4MiB"
file_count = 200
destination = "volume/package"
cache = "page-cache"
sync = "file-system"
drain = "none"
[load]
interval = "50ms"
[vary]
"host.filesystem" = { on = "volume", size = "64MiB", baseline = "ext4 block_size=1KiB", levels = ["ext4 cluster_size=64KiB"] }
"#;

/// Random reads and writes until it is killed. Not in a folder for temporary files, which may be a tmpfs.
const LOAD: &str = r#"
name = "Killed"
[workload.disk]
files = "volume/f.bin"
size = "8MiB"
read_percent = 50
[load]
warm_up = "100ms"
measure = "10s"
[vary]
"host.filesystem" = { on = "volume", size = "64MiB", baseline = "ext4 journal=none", levels = ["ext4"] }
"host.cpus" = { baseline = 1, levels = [2] }
"#;

fn lacks_any() -> bool {
    testkit::lacks(Need::LoopDevice)
        || testkit::lacks(Need::Mount)
        || testkit::lacks(Need::Program("mkfs.ext4"))
}

fn mounted(point: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == point.to_str())
}

/// The files without a name in a folder that a loop device is over.
fn loops(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/sys/block").unwrap().flatten();
    let files = all.filter_map(|entry| {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        Some(PathBuf::from(file.trim()))
    });
    files.filter(|file| file.starts_with(folder) && !file.ends_with("image")).collect()
}

/// Nothing of a file system is left. The kernel detaches a loop device in the background.
fn assert_gone(folder: &Path, why: &str) {
    let volume = folder.join("volume");
    assert!(!mounted(&volume), "still mounted: {why}");
    assert!(!volume.exists(), "the directory is left: {why}");
    let begin = Instant::now();
    while !loops(folder).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?} are left: {why}", loops(folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = std::fs::read_dir(folder).unwrap().flatten();
    let left: Vec<_> = left
        .map(|entry| entry.file_name())
        .filter(|name| name.to_str().unwrap().starts_with(".plimsoll"))
        .collect();
    assert!(left.is_empty(), "{left:?}: {why}");
}

/// Ends what a failed test leaves, so that its folder can be removed.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        if mounted(&self.0) {
            let _ = Command::new("umount").arg(&self.0).status();
        }
    }
}

/// A loop device over a named file of 64 MiB; detached when dropped.
struct Device(PathBuf);

impl Device {
    fn new(image: &Path) -> Device {
        std::fs::File::create(image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(image).output().unwrap();
        Device(PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

fn place(name: &str, experiment: &str) -> (Place, Unmounted) {
    let place = Place::new(name);
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let volume = Unmounted(place.path("volume"));
    (place, volume)
}

fn fact(place: &Place, trial: &str, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(place.path("r/trials").join(trial).join("run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&text).unwrap();
    run["facts"][format!("host.filesystem.{name}")].clone()
}

#[test]
fn a_package_on_two_allocation_sizes_consumes_different_space() {
    if lacks_any() {
        return;
    }
    let (place, _volume) = place("filesystem", EXPERIMENT);
    let checked = run(&place, &["check", "e.toml"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(!place.path("volume").exists(), "a check makes nothing");
    let done = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    assert_gone(&place.path(""), "after the run");
    let trials = std::fs::read_dir(place.path("r/trials")).unwrap().flatten();
    let mut consumed = Vec::new();
    for trial in trials.map(|entry| entry.file_name().into_string().unwrap()) {
        assert_eq!(fact(&place, &trial, "files"), serde_json::json!({ "count": 200 }), "{trial}");
        assert_eq!(fact(&place, &trial, "nominal_bytes"), serde_json::json!({ "bytes": 4 << 20 }));
        let bytes = fact(&place, &trial, "consumed_bytes")["bytes"].as_u64().unwrap();
        consumed.push((trial.contains("64KiB"), bytes));
    }
    let most = |large: bool| {
        consumed.iter().filter(|(is_large, _)| *is_large == large).map(|(_, bytes)| *bytes).max()
    };
    let (Some(small), Some(large)) = (most(false), most(true)) else { panic!("{consumed:?}") };
    assert!((4 << 20..5 << 20).contains(&small), "{small}");
    assert!((200 * (64 << 10)..20 << 20).contains(&large), "{large}");
    assert_eq!(run(&place, &["restore", "r"]).out, "nothing to restore\n");
}

#[test]
fn a_load_beside_the_file_system_and_a_missing_baseline_are_refused_before_anything_changes() {
    if lacks_any() {
        return;
    }
    let wrong = EXPERIMENT.replace("volume/package", "elsewhere");
    let (place, _volume) = place("filesystem-wrong", &wrong);
    let checked = run(&place, &["check", "e.toml"]);
    assert!(checked.err.contains("the load does not use the file system at"), "{}", checked.err);
    let wrong = EXPERIMENT.replace("baseline = \"ext4 block_size=1KiB\", ", "");
    std::fs::write(place.path("e.toml"), wrong).unwrap();
    let checked = run(&place, &["check", "e.toml"]);
    assert!(checked.err.contains("host.filesystem has no baseline"), "{}", checked.err);
    // Too small for the load: found by the trial, in the new file system.
    std::fs::write(place.path("e.toml"), EXPERIMENT.replace("generate:4MiB", "generate:400MiB")).unwrap();
    let done = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("are to be copied and") && done.err.contains("free"), "{}", done.err);
    assert_gone(&place.path(""), "after a failed trial");
    // A file in the directory would be hidden.
    std::fs::create_dir(place.path("volume")).unwrap();
    std::fs::write(place.path("volume/mine"), "mine").unwrap();
    let done = run(&place, &["run", "e.toml", "--quiet"]);
    assert!(done.err.contains("is not empty, and a mount hides its files"), "{}", done.err);
    assert_eq!(std::fs::read_to_string(place.path("volume/mine")).unwrap(), "mine");
}

#[test]
fn nothing_is_left_after_a_kill_at_any_moment_and_restore() {
    if lacks_any() {
        return;
    }
    let (place, _volume) = place("filesystem-killed", LOAD);
    let device = Device::new(&place.path("image"));
    let overwrite = format!("overwrite = \"{}\"", device.0.display());
    std::fs::write(place.path("device.toml"), LOAD.replace("size = \"64MiB\"", &overwrite)).unwrap();
    let mut random = 99_u64;
    let mut was_mounted = 0;
    for round in 0..20 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let directory = format!("r{round}");
        let experiment = if round % 4 < 2 { "e.toml" } else { "device.toml" };
        let mut command = command(&place, &["run", experiment, "--run-dir", &directory, "--quiet"]);
        let said = std::fs::File::create(place.path("said")).unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        // Half of the kills meet the load on any machine, the others the making of the file system.
        let begin = Instant::now();
        while round % 2 == 1 && !mounted(&place.path("volume")) {
            let said = || std::fs::read_to_string(place.path("said")).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "round {round} has ended: {}", said());
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is mounted after a minute");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis((random >> 33) % 400));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_mounted = mounted(&place.path("volume"));
        was_mounted += usize::from(is_mounted);
        if !place.path(&directory).join("trials").is_dir() {
            continue;
        }
        let restored = run(&place, &["restore", &directory]);
        assert_eq!(restored.code, 0, "round {round}: {}", restored.err);
        assert_gone(&place.path(""), &format!("round {round}: {}", restored.out));
        if is_mounted {
            let image = std::fs::read(place.path("image")).unwrap();
            assert!(image[..1 << 20].iter().all(|byte| *byte == 0), "round {round}: {}", restored.out);
        }
        assert_eq!(run(&place, &["restore", &directory]).out, "nothing to restore\n", "round {round}");
    }
    assert!(was_mounted >= 5, "only {was_mounted} of 20 kills met a mounted file system");
}

#[test]
fn a_killed_run_names_who_uses_the_file_system_and_resumes() {
    if lacks_any() {
        return;
    }
    let (place, _volume) = place("filesystem-in-use", &LOAD.replace("10s", "1s"));
    let mut command = command(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while !place.path("volume/f.bin").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the file is not made after a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut user = Command::new("sleep").arg("60").current_dir(place.path("volume")).spawn().unwrap();
    let planned = run(&place, &["restore", "r", "--dry-run"]);
    assert!(planned.out.contains("unmount the file system"), "{}", planned.out);
    let refused = run(&place, &["restore", "r"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains(&format!("in use by process {} (sleep)", user.id())), "{}", refused.err);
    user.kill().unwrap();
    user.wait().unwrap();
    let resumed = run(&place, &["run", "--resume", "r", "--quiet"]);
    assert!(resumed.measured(), "{}", resumed.err);
    assert_gone(&place.path(""), "after the resumed run");
}

/// A target that keeps a file on the file system open as long as it runs.
const TARGET: &str = r#"
name = "A target on the file system"
[target]
start = "sh -c 'exec 3> volume/open; echo up; exec sleep 600'"
ready = "line:^up"
[workload.command]
command = ["sh", "-c", "test -e volume/open"]
repeat = 2
[vary]
"host.filesystem" = { on = "volume", size = "32MiB", baseline = "ext4", levels = ["ext4 journal=none"] }
"#;

#[test]
fn a_target_starts_on_the_file_system_and_is_stopped_before_it_is_unmounted() {
    if lacks_any() {
        return;
    }
    let (place, _volume) = place("filesystem-target", TARGET);
    let done = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    assert_gone(&place.path(""), "after the run");
    for trial in std::fs::read_dir(place.path("r/trials")).unwrap().flatten() {
        let name = trial.file_name().into_string().unwrap();
        let run = std::fs::read_to_string(trial.path().join("run.json")).unwrap();
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        assert_eq!(run["ending"], "completed", "{name}: {}", done.err);
        assert_eq!(fact(&place, &name, "files"), serde_json::json!({ "count": 1 }), "{name}");
    }
}
