//! The files that a killed run left: `restore` says which, and removes them on request and only while they are what was made.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Finished, Place, command, run};

/// When a run is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// While its file is made.
    Preparing,
    /// While it is measured.
    Measuring,
}

const WRITES: &[&str] = &["disk", "f.bin", "--size", "8MiB", "--write", "--duration", "3s"];
const READS: &[&str] = &["disk", "f.bin", "--size", "8MiB", "--duration", "3s"];
/// Large enough to be met while it is made.
const MAKES: &[&str] = &["disk", "f.bin", "--size", "1GiB", "--duration", "3s"];

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn start(place: &Place, arguments: &[&str], directory: &str) -> Child {
    let common = ["--warm-up", "0s", "--interval", "50ms", "--quiet", "--run-dir", directory];
    let arguments = [arguments, &common[..]].concat();
    command(place, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn is_measuring(place: &Place, directory: &str) -> bool {
    let intervals = place.path(directory).join("trials/001-baseline.r1/intervals.csv");
    std::fs::read_to_string(intervals).unwrap_or_default().lines().count() >= 3
}

fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Starts a load and kills it.
fn kill(place: &Place, arguments: &[&str], moment: Moment) {
    let mut child = start(place, arguments, "killed");
    wait_for("the moment did not come", || match moment {
        Moment::Preparing => bytes(&place.path("f.bin")) > 0,
        Moment::Measuring => is_measuring(place, "killed"),
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // A copy makes its file while it is measured.
    if moment == Moment::Preparing && arguments[0] == "disk" {
        assert!(!is_measuring(place, "killed"), "it was measured already");
    }
}

fn killed(name: &str, arguments: &[&str], moment: Moment) -> Place {
    let place = Place::new(name);
    kill(&place, arguments, moment);
    assert!(place.path("f.bin").exists());
    place
}

fn restore(place: &Place, arguments: &[&str]) -> Finished {
    run(place, &[&["restore"], arguments].concat())
}

const NOTHING: &str = "nothing to restore\n";

#[test]
fn restore_says_what_a_killed_run_left_and_removes_exactly_that() {
    for (name, arguments, moment) in [
        ("left-preparing", MAKES, Moment::Preparing),
        ("left-reading", READS, Moment::Measuring),
        ("left-writing", WRITES, Moment::Measuring),
    ] {
        let place = killed(name, arguments, moment);
        std::fs::write(place.path("f.bin.mine"), "precious").unwrap();
        let file = place.path("f.bin");
        let named = std::fs::canonicalize(&file).unwrap().display().to_string();
        let planned = restore(&place, &["--dry-run"]);
        assert!(planned.out.contains(&named) && planned.out.contains("would be removed"), "{}", planned.out);
        // It says so until the file is gone, and leaves it to the next run.
        for directory in [&[][..], &["killed"][..]] {
            let said = restore(&place, directory);
            assert_eq!(said.code, 0, "{name}: {}", said.err);
            assert!(
                said.out.contains(&named)
                    && said.out.contains("the next run uses it again")
                    && said.out.contains("`plimsoll restore --remove-files` removes it"),
                "{name}: {}",
                said.out
            );
            if moment == Moment::Measuring {
                assert!(said.out.contains("8MiB"), "{name}: {}", said.out);
            }
        }
        assert!(file.exists());
        let removed = restore(&place, &["--remove-files"]);
        assert_eq!(removed.code, 0, "{name}: {}", removed.err);
        assert!(removed.out.contains("was removed"), "{name}: {}", removed.out);
        let mut names: Vec<_> = std::fs::read_dir(place.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["f.bin.mine", "killed", "state"], "{name}");
        assert_eq!(restore(&place, &[]).out, NOTHING, "{name}");
    }
}

#[test]
fn a_file_that_was_edited_replaced_or_linked_to_stays_and_is_reported() {
    let place = killed("left-edited", WRITES, Moment::Measuring);
    let file = place.path("f.bin");
    let content = std::fs::read(&file).unwrap();
    let foreign = vec![7; content.len()];
    std::fs::write(&file, &foreign).unwrap();
    let said = restore(&place, &[]);
    assert!(said.code == 0 && said.out.contains("is not removed: it holds data that"), "{}", said.out);
    let refused = restore(&place, &["--remove-files"]);
    assert!(refused.code == 1 && refused.err.contains("it holds data that"), "{}", refused.err);
    assert!(std::fs::read(&file).unwrap() == foreign);
    // Under another name, with a link in its place.
    std::fs::write(&file, &content).unwrap();
    std::fs::rename(&file, place.path("mine")).unwrap();
    std::os::unix::fs::symlink("mine", &file).unwrap();
    let refused = restore(&place, &["--remove-files"]);
    assert!(refused.code == 1 && refused.err.contains("is a symbolic link"), "{}", refused.err);
    assert!(file.is_symlink() && place.path("mine").exists());
    // A copy with all its attributes is another file.
    std::fs::remove_file(&file).unwrap();
    let copied =
        std::process::Command::new("cp").args(["-a", "mine", "f.bin"]).current_dir(place.path("")).status();
    assert!(copied.unwrap().success());
    let said = restore(&place, &["--remove-files"]);
    assert!(
        said.code == 0 && said.out.contains("is not the file that the run created"),
        "{}{}",
        said.out,
        said.err
    );
    assert!(file.exists() && place.path("mine").exists());
    assert_eq!(restore(&place, &[]).out, NOTHING);
}

#[test]
fn what_was_corrected_by_hand_is_forgotten_on_request() {
    let place = killed("left-discard", WRITES, Moment::Measuring);
    std::fs::write(place.path("f.bin"), vec![7; 8 << 20]).unwrap();
    let forgotten = restore(&place, &["--discard"]);
    assert!(
        forgotten.code == 0 && forgotten.out.contains("f.bin: journal entry dropped: "),
        "{}",
        forgotten.out
    );
    assert!(place.path("f.bin").exists());
    assert_eq!(restore(&place, &[]).out, NOTHING);
}

#[test]
fn the_next_run_takes_the_file_over_and_nothing_is_left_of_it() {
    let place = killed("left-next", WRITES, Moment::Measuring);
    let short = "disk f.bin --size 8MiB --write --duration 200ms --warm-up 0s --quiet --run-dir";
    let short: Vec<&str> = short.split(' ').collect();
    let next = run(&place, &[&short[..], &["next"]].concat());
    assert!(next.measured(), "{}", next.err);
    assert!(!place.path("f.bin").exists());
    assert_eq!(restore(&place, &[]).out, NOTHING);
    // One that is to be kept is kept from then on.
    std::fs::remove_dir_all(place.path("killed")).unwrap();
    kill(&place, WRITES, Moment::Measuring);
    let next = run(&place, &[&short[..], &["keeps", "--keep"]].concat());
    assert!(next.measured(), "{}", next.err);
    let said = restore(&place, &["--remove-files"]);
    assert!(
        said.code == 0 && said.out.contains("is kept, as `--keep` requested"),
        "{}{}",
        said.out,
        said.err
    );
    assert!(place.path("f.bin").exists());
    assert_eq!(restore(&place, &[]).out, NOTHING);
}

#[test]
fn a_resumed_run_removes_what_its_killed_part_has_made() {
    let place = killed("left-resumed", READS, Moment::Measuring);
    let resumed = run(&place, &["run", "--resume", "killed", "--quiet"]);
    assert!(resumed.measured(), "{}", resumed.err);
    assert!(!place.path("f.bin").exists());
    assert_eq!(std::fs::read_dir(place.path("state/runs")).unwrap().count(), 0, "its journal is done");
}

#[test]
fn a_file_that_a_run_uses_is_not_removed() {
    let place = killed("left-used", WRITES, Moment::Measuring);
    let long = ["disk", "f.bin", "--size", "8MiB", "--write", "--duration", "60s"];
    let mut other = start(&place, &long, "other");
    wait_for("the other run did not begin", || is_measuring(&place, "other"));
    let said = restore(&place, &["killed", "--remove-files"]);
    assert!(said.code == 0 && said.out.contains("is kept: another run uses it"), "{}{}", said.out, said.err);
    assert!(place.path("f.bin").exists());
    let process = rustix::process::Pid::from_child(&other);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(other.wait().unwrap().code(), Some(130));
    assert!(!place.path("f.bin").exists());
    assert_eq!(restore(&place, &[]).out, NOTHING);
}

#[test]
fn a_file_that_was_there_before_is_never_one_that_a_run_left() {
    let place = Place::new("left-named");
    std::fs::write(place.path("f.bin"), vec![7; 8 << 20]).unwrap();
    kill(&place, &[WRITES, &["--overwrite", "f.bin"]].concat(), Moment::Measuring);
    assert_eq!(restore(&place, &["--remove-files"]).out, NOTHING);
    assert!(place.path("f.bin").exists());
    // One that an earlier run has kept neither.
    std::fs::remove_file(place.path("f.bin")).unwrap();
    std::fs::remove_dir_all(place.path("killed")).unwrap();
    let keeps = "disk f.bin --size 8MiB --keep --duration 100ms --warm-up 0s --quiet";
    assert!(run(&place, &keeps.split(' ').collect::<Vec<_>>()).measured());
    kill(&place, WRITES, Moment::Measuring);
    assert_eq!(restore(&place, &["--remove-files"]).out, NOTHING);
    assert!(place.path("f.bin").exists());
}

#[test]
fn a_copy_that_was_cut_short_is_reported_and_never_removed() {
    let place = killed("left-copy", &["copy", "generate:2GiB", "f.bin"], Moment::Preparing);
    let said = restore(&place, &[]);
    assert!(said.code == 0 && said.out.contains("a copy was not completed"), "{}", said.out);
    assert!(said.out.contains("of 2GiB"), "{}", said.out);
    let refused = restore(&place, &["--remove-files"]);
    assert!(refused.code == 1 && refused.err.contains("remove it by hand"), "{}", refused.err);
    assert!(place.path("f.bin").exists());
    assert_eq!(restore(&place, &["--discard"]).code, 0);
    assert_eq!(restore(&place, &[]).out, NOTHING);
}

#[test]
fn a_folder_of_a_synchronization_that_was_killed_goes_with_its_mark_only() {
    let place = Place::new("left-folder");
    std::fs::write(
        place.path("e.toml"),
        "[workload.sync]\nrun = [\"x full-import\"]\ndirectory = \"work\"\ntemplate = \"any\"\nstop = \"1s\"\n\
         command = \"/bin/sh -c 'touch ready; sleep 3; echo progress x full-import 1 done'\"\n",
    )
    .unwrap();
    let kill = || {
        let arguments = ["run", "e.toml", "--quiet", "--run-dir", "killed"];
        let mut command = command(&place, &arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the engine was not started", || place.path("work/ready").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(place.path("killed")).unwrap();
    };
    kill();
    let said = restore(&place, &[]);
    assert!(said.code == 0 && said.out.contains("was left by the sync load"), "{}{}", said.out, said.err);
    assert!(!said.out.contains("uses it again"), "{}", said.out);
    let removed = restore(&place, &["--remove-files"]);
    assert!(removed.code == 0 && removed.out.contains("was removed"), "{}{}", removed.out, removed.err);
    assert!(!place.path("work").exists());
    assert_eq!(restore(&place, &[]).out, NOTHING);
    kill();
    std::fs::remove_file(place.path("work/.plimsoll-sync")).unwrap();
    let refused = restore(&place, &["--remove-files"]);
    assert!(refused.code == 1 && refused.err.contains("marker file is missing"), "{}", refused.err);
    assert!(place.path("work/ready").exists());
}

#[test]
fn the_next_run_of_several_trials_uses_the_file_and_removes_it() {
    // Also one that writes what is not recognized as Plimsoll's.
    for (name, writes) in
        [("left-trials", "--read-percent 50 --verify"), ("left-content", "--write --content 0xab")]
    {
        let place = killed(name, WRITES, Moment::Measuring);
        let short = format!(
            "disk f.bin --size 8MiB {writes} --vary host.cpus=1,2 --duration 200ms --warm-up 0s --quiet --run-dir next"
        );
        let next = run(&place, &short.split_whitespace().collect::<Vec<_>>());
        assert!(next.measured(), "{}", next.err);
        assert!(!next.err.contains("error"), "{}", next.err);
        assert!(!place.path("f.bin").exists());
        assert_eq!(restore(&place, &[]).out, NOTHING);
    }
}

/// The unfinished files in a folder.
fn unfinished(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_new = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(".plimsoll-") && name.ends_with(".new")
    };
    entries.filter(is_new).collect()
}

/// A metadirectory whose export, to a file in another folder, was stopped in the middle.
fn stopped_export(name: &str) -> (Place, Child, std::path::PathBuf) {
    let place = Place::new(name);
    crate::metadir::staff_and_phones(&place);
    std::fs::create_dir(place.path("outside")).unwrap();
    std::os::unix::fs::symlink("outside", place.path("books")).unwrap();
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let text = text.replace("\"phones.csv\"", "\"books/phones.csv\"").replace("\"full\" ", "\"off\" ");
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    std::fs::write(place.path("staff.csv"), crate::metadir::staff(4000, |_| "Oslo")).unwrap();
    for _ in 0..20 {
        let mut command = command(&place, &["metadir", "run", "full"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let process = rustix::process::Pid::from_child(&child);
        while child.try_wait().unwrap().is_none() {
            if let Some(path) = unfinished(&place.path("outside")).pop() {
                rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
                // It may have completed the file before it stopped.
                std::thread::sleep(Duration::from_millis(50));
                if path.exists() {
                    return (place, child, std::fs::canonicalize(path).unwrap());
                }
                rustix::process::kill_process(process, rustix::process::Signal::CONT).unwrap();
            }
        }
        std::fs::remove_file(place.path("metadirectory.db")).unwrap();
        let _ = std::fs::remove_file(place.path("outside/phones.csv"));
    }
    panic!("no export was met");
}

#[test]
fn an_unfinished_export_of_a_killed_run_is_named_and_removed_and_one_of_a_living_run_is_not() {
    let (place, mut child, path) = stopped_export("left-export");
    assert_eq!(restore(&place, &[]).out, NOTHING);
    assert!(path.exists(), "its process is alive");
    child.kill().unwrap();
    child.wait().unwrap();
    let named = path.display().to_string();
    let planned = restore(&place, &["--dry-run"]);
    assert!(planned.out.contains(&named) && planned.out.contains("would be removed"), "{}", planned.out);
    assert!(path.exists());
    let removed = restore(&place, &[]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    assert!(removed.out.contains(&named) && removed.out.contains(" was removed"), "{}", removed.out);
    assert!(!path.exists());
    assert_eq!(restore(&place, &[]).out, NOTHING);
    let (place, mut child, path) = stopped_export("left-export-next");
    child.kill().unwrap();
    child.wait().unwrap();
    // The target of the next run is in another folder.
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    std::fs::write(place.path("metadirectory.toml"), text.replace("books/phones.csv", "phones.csv")).unwrap();
    let next = run(&place, &["metadir", "run", "staff", "full-import"]);
    assert_eq!(next.code, 0, "{}", next.err);
    assert!(next.err.contains(&path.display().to_string()), "{}", next.err);
    assert!(!path.exists());
}

#[test]
fn a_run_that_can_have_no_journal_says_so_and_restore_does_not_know_what_it_made() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("no-journal");
    std::fs::create_dir_all(place.path("state")).unwrap();
    let set = |mode| {
        std::fs::set_permissions(place.path("state"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o755);
    let done = run(&place, &[&WRITES[..6], &["200ms", "--run-dir", "whole"]].concat());
    assert!(done.err.contains("chmod 700") && done.err.contains("the run has no journal"), "{}", done.err);
    kill(&place, WRITES, Moment::Measuring);
    set(0o700);
    let restored = restore(&place, &["killed"]);
    assert_eq!(restored.code, 1, "{} {}", restored.out, restored.err);
    assert!(restored.err.contains("an unfinished run without a journal"), "{}", restored.err);
    // One that ended has nothing left.
    let restored = restore(&place, &["whole"]);
    assert_eq!((restored.code, restored.out.as_str()), (0, NOTHING), "{}", restored.err);
}
