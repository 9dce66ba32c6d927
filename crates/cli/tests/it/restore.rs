//! What `restore` and `run --resume` carry out, and what they never do: a run directory may come from anybody.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Place, command, run};

/// A target whose file is changed, and a password in it that is nobody's business.
const CONFIGURATION: &str = "password = s3cret\nthreads = 8\n";

/// The command of the baseline ends at once; that with the other value waits to be killed.
const EXPERIMENT: &str = r#"
name = "Change a value"
[target]
start = "sh -c 'echo up; exec sleep 600'"
ready = "line:^up"
[workload.command]
command = ["sh", "-c", "grep -q 16 server.ini && echo changed > mark; grep -q 16 server.ini && sleep WAIT; true"]
repeat = 1
[vary]
"target.config" = { on = "server.ini:threads", levels = [16] }
"#;

fn place(name: &str, wait: &str) -> Place {
    let place = Place::new(name);
    std::fs::write(place.path("e.toml"), EXPERIMENT.replace("WAIT", wait)).unwrap();
    std::fs::write(place.path("server.ini"), CONFIGURATION).unwrap();
    place
}

fn start(place: &Place) -> Child {
    let mut command = command(place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn text(place: &Place, file: &str) -> String {
    std::fs::read_to_string(place.path(file)).unwrap_or_default()
}

/// All that lies below a folder, as text.
fn everything(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => all += &everything(&entry.path()),
            false => all += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()),
        }
    }
    all
}

/// A run that was killed while the value was another one. What was started is ended by `restore` in each test.
fn killed(name: &str) -> Place {
    let place = place(name, "600");
    let mut child = start(&place);
    wait_for("the value was not changed", || !text(&place, "mark").is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(text(&place, "server.ini"), CONFIGURATION.replace('8', "16"));
    place
}

#[test]
fn a_killed_change_is_restored_step_by_step_and_no_password_is_copied() {
    let place = killed("restore-killed");
    assert!(!everything(&place.path("r")).contains("s3cret"), "the record has it");
    assert!(!everything(&place.path("state")).contains("s3cret"), "the journal has it");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place.path("state")), mode(&place.path("state/runs"))), (0o700, 0o700));
    for journal in std::fs::read_dir(place.path("state/runs")).unwrap() {
        assert_eq!(mode(&journal.unwrap().path()), 0o600);
    }
    let planned = run(&place, &["restore", "--dry-run"]);
    assert!(planned.out.contains("target.config would be restored"), "{}", planned.out);
    assert!(
        planned.out.contains("set threads in") && planned.out.contains("from `16` back to `8`"),
        "{}",
        planned.out
    );
    assert_eq!(text(&place, "server.ini"), CONFIGURATION.replace('8', "16"), "a dry run changed it");
    let done = run(&place, &["restore"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("target.config restored") && done.out.contains("target ended"), "{}", done.out);
    assert_eq!(text(&place, "server.ini"), CONFIGURATION);
    assert!(
        !everything(&place.path("state")).contains("restore_value"),
        "what was undone stays in the journal"
    );
    assert_eq!(run(&place, &["restore"]).out, "nothing to restore\n");
}

#[test]
fn an_edit_after_a_kill_is_kept_and_both_values_are_reported() {
    let place = killed("restore-edited");
    std::fs::write(place.path("server.ini"), "threads = 12\n").unwrap();
    for _ in 0..2 {
        let done = run(&place, &["restore", "r"]);
        assert_eq!(done.code, 1);
        assert!(done.err.contains("was edited after Plimsoll changed it"), "{}", done.err);
        assert!(done.err.contains("`8`") && done.err.contains("`16`"), "{}", done.err);
        assert_eq!(text(&place, "server.ini"), "threads = 12\n");
    }
    // It is not gone on with either.
    assert_eq!(run(&place, &["run", "--resume", "r", "--quiet"]).code, 1);
    let discarded = run(&place, &["restore", "r", "--discard"]);
    assert_eq!(discarded.code, 0, "{}", discarded.err);
    assert_eq!(run(&place, &["restore", "r"]).out, "nothing to restore\n");
    assert_eq!(text(&place, "server.ini"), "threads = 12\n");
}

#[test]
fn an_edit_during_a_trial_is_kept_and_ends_the_run() {
    let place = place("restore-during", "2");
    let child = start(&place);
    wait_for("the value was not changed", || !text(&place, "mark").is_empty());
    std::fs::write(place.path("server.ini"), "threads = 12\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("was edited after Plimsoll changed it"), "{error}");
    assert_eq!(text(&place, "server.ini"), "threads = 12\n");
    assert_eq!(run(&place, &["restore", "--discard"]).code, 0);
}

/// A run directory as somebody else could hand it over: steps back that run a command and overwrite a file, and a plan
/// whose target is a program.
fn handed_over(place: &Place) {
    std::fs::write(place.path("precious"), "mine").unwrap();
    std::fs::write(place.path("h.toml"), "[workload.null]\n[load]\nmeasure = \"100ms\"\nwarm_up = \"0s\"\n")
        .unwrap();
    let made = run(place, &["run", "h.toml", "--run-dir", "runs/handed", "--quiet"]);
    assert!(made.measured(), "{}", made.err);
    let journal = format!(
        "{{\"pending\":{{\"id\":1,\"factor\":\"target.command\",\"process\":1,\"started_ticks\":1,\"undo\":[\
         {{\"command\":{{\"command\":\"touch executed\",\"folder\":\"{0}\",\"within\":1000000000}}}},\
         {{\"write_file\":{{\"path\":\"{0}/precious\",\"text\":\"overwritten\"}}}}]}}}}\n",
        place.path(".").display()
    );
    std::fs::write(place.path("runs/handed/restore.jsonl"), journal).unwrap();
    let plan = text(place, "runs/handed/plan.json");
    let mut plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    plan["experiment"]["replicates"] = 3.into();
    plan["experiment"]["target"] = serde_json::json!({ "settings": {
        "start": { "level": { "text": "sh -c 'touch executed; sleep 1'" }, "given": true } } });
    plan["experiment"]["folder"] = place.path(".").display().to_string().into();
    plan["enough"] = serde_json::Value::Null;
    std::fs::write(place.path("runs/handed/plan.json"), plan.to_string()).unwrap();
}

#[test]
fn nothing_of_a_handed_over_run_directory_is_carried_out() {
    let place = Place::new("restore-foreign");
    handed_over(&place);
    let untouched = || !place.path("executed").exists() && text(&place, "precious") == "mine";
    let named = run(&place, &["restore", "runs/handed"]);
    assert!(named.out.contains("is not executed") && named.out.contains("touch executed"), "{}", named.out);
    assert!(untouched());
    assert_eq!(run(&place, &["restore"]).out, "nothing to restore\n");
    assert!(untouched());
    let resumed = run(&place, &["run", "--resume", "runs/handed", "--quiet"]);
    assert_eq!(resumed.code, 2, "{}", resumed.out);
    assert!(resumed.err.contains("plimsoll run runs/handed/experiment.toml"), "{}", resumed.err);
    assert!(untouched());
}

#[test]
fn an_unfinished_run_is_resumed_as_it_was_begun_and_not_as_its_directory_says() {
    let place = killed("restore-resume");
    // Whoever may write into the directory changes what would be started.
    let plan = text(&place, "r/plan.json").replace("exec sleep 600", "touch executed; exec sleep 600");
    assert!(plan.contains("touch executed"));
    std::fs::write(place.path("r/plan.json"), plan).unwrap();
    let short = text(&place, "e.toml").replace("sleep 600; true", "true");
    std::fs::write(place.path("e.toml"), short).unwrap();
    // A copy is not the directory that the run began in.
    let copied =
        std::process::Command::new("cp").args(["-a", "r", "copy"]).current_dir(place.path(".")).status();
    assert!(copied.unwrap().success());
    let refused = run(&place, &["run", "--resume", "copy", "--quiet"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("cannot be resumed"), "{}", refused.err);
    assert_eq!(text(&place, "server.ini"), CONFIGURATION.replace('8', "16"));
    // Nor is one that others may write into.
    std::fs::set_permissions(place.path("r"), PermissionsExt::from_mode(0o777)).unwrap();
    let refused = run(&place, &["run", "--resume", "r", "--quiet"]);
    assert!(refused.err.contains("other users may have written to it"), "{}", refused.err);
    std::fs::set_permissions(place.path("r"), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::remove_file(place.path("mark")).unwrap();
    let mut command = command(&place, &["run", "--resume", "r", "--quiet"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the run did not go on", || !text(&place, "mark").is_empty());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.path("executed").exists());
    assert_eq!(text(&place, "server.ini"), CONFIGURATION);
}

#[test]
fn a_state_folder_that_others_may_enter_is_refused_before_anything_is_changed() {
    let place = place("restore-open", "0");
    std::fs::create_dir(place.path("state")).unwrap();
    std::fs::set_permissions(place.path("state"), PermissionsExt::from_mode(0o755)).unwrap();
    let finished = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    assert_eq!(finished.code, 1);
    assert!(finished.err.contains("chmod 700"), "{}", finished.err);
    assert!(!place.path("r").exists() && text(&place, "server.ini") == CONFIGURATION);
    // What changes nothing on the host needs no journal.
    std::fs::write(place.path("n.toml"), "[workload.null]\n[load]\nmeasure = \"100ms\"\nwarm_up = \"0s\"\n")
        .unwrap();
    let finished = run(&place, &["run", "n.toml", "--run-dir", "n", "--quiet"]);
    assert!(finished.measured(), "{}", finished.err);
}

/// Changes the text of the only journal, as if it had been written elsewhere or earlier.
fn edit_journal(place: &Place, change: impl Fn(&str) -> String) {
    let mut journals = std::fs::read_dir(place.path("state/runs")).unwrap();
    let path = journals.next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, change(&text)).unwrap();
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_string()
}

#[test]
fn what_was_changed_on_another_host_is_left_to_it() {
    let place = killed("restore-host");
    edit_journal(&place, |text| {
        let (first, rest) = text.split_once('\n').unwrap();
        let mut there: serde_json::Value = serde_json::from_str(first).unwrap();
        there["host"] = "db7".into();
        there["boot"] = "another".into();
        format!("{there}\n{rest}")
    });
    let done = run(&place, &["restore"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("was changed on the host db7: run `plimsoll restore` there"), "{}", done.out);
    assert_eq!(text(&place, "server.ini"), CONFIGURATION.replace('8', "16"));
    edit_journal(&place, |text| text.replacen("another", &boot(), 1));
    assert_eq!(run(&place, &["restore"]).code, 0);
    assert_eq!(text(&place, "server.ini"), CONFIGURATION);
}

#[test]
fn after_a_reboot_values_are_restored_and_processes_are_left_alone() {
    let place = killed("restore-reboot");
    let (mut process, mut groups) = (0, Vec::new());
    let journals = std::fs::read_dir(place.path("state/runs")).unwrap();
    for journal in journals {
        let text = std::fs::read_to_string(journal.unwrap().path()).unwrap();
        let (_, after) = text.split_once("\"end_target\":{\"process\":").unwrap();
        process = after.split(',').next().unwrap().parse().unwrap();
        let paths = text.split("\"remove_cgroup\":{\"path\":\"").skip(1);
        groups.extend(paths.map(|rest| rest.split('"').next().unwrap().to_string()));
    }
    edit_journal(&place, |text| text.replace(&boot(), "0b00-7ed"));
    let done = run(&place, &["restore"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("target.config restored"), "{}", done.out);
    assert!(done.out.contains("target: the host was rebooted since"), "{}", done.out);
    assert_eq!(text(&place, "server.ini"), CONFIGURATION);
    // It has the number of a process that is another one after a reboot, and must not be ended.
    let pid = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(run(&place, &["restore"]).out, "nothing to restore\n");
    // A reboot would have removed them.
    for group in groups {
        wait_for("a group is not removed", || {
            std::fs::remove_dir(&group).is_ok() || !Path::new(&group).exists()
        });
    }
}

#[test]
fn a_run_is_restored_wherever_its_directory_is_and_from_its_path_when_it_is_gone() {
    let restored = |place: &Place, directory: &str| {
        let done = run(place, &["restore", directory]);
        assert_eq!(done.code, 0, "{directory}: {}{}", done.out, done.err);
        assert!(done.out.contains("target.config restored"), "{directory}: {}", done.out);
        assert_eq!(text(place, "server.ini"), CONFIGURATION);
        assert_eq!(run(place, &["restore"]).out, "nothing to restore\n");
    };
    let place = killed("restore-moved");
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    std::fs::rename(place.path("r"), place.path("elsewhere/kept")).unwrap();
    // A directory in its place is not this run, and restores what began there all the same.
    std::fs::create_dir(place.path("r")).unwrap();
    let planned = run(&place, &["restore", "r", "--dry-run"]);
    assert!(planned.out.contains("an earlier run, whose directory is not there any more"), "{}", planned.out);
    restored(&place, "elsewhere/kept");
    let place = killed("restore-gone");
    std::fs::remove_dir_all(place.path("r")).unwrap();
    let other = run(&place, &["restore", "other"]);
    assert!(other.out.starts_with("nothing to restore: other does not exist"), "{}", other.out);
    std::fs::create_dir(place.path("below")).unwrap();
    restored(&place, "below/../r");
}

#[test]
fn runs_that_were_killed_in_one_place_are_restored_together_the_latest_first() {
    let place = killed("restore-twice");
    std::fs::remove_dir_all(place.path("r")).unwrap();
    std::fs::remove_file(place.path("mark")).unwrap();
    // The second run takes the changed value for the original one, and changes it again.
    let other = text(&place, "e.toml").replace("levels = [16]", "levels = [160]");
    std::fs::write(place.path("e.toml"), other).unwrap();
    let mut command = command(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the value was not changed", || {
        text(&place, "server.ini").contains("160") || !text(&place, "mark").is_empty()
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::KILL)
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("was killed and has left changes on this host: target"), "{said}");
    let done = run(&place, &["restore", "r"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_eq!(text(&place, "server.ini"), CONFIGURATION, "{}", done.out);
    assert_eq!(run(&place, &["restore"]).out, "nothing to restore\n");
}

#[test]
fn what_cannot_be_known_here_is_not_called_restored() {
    let place = killed("restore-elsewhere");
    // Another state folder, as of another user or another service.
    let mut other = command(&place, &["restore", "r"]);
    other.env("PLIMSOLL_STATE_DIR", place.path("other"));
    let done = crate::program::Finished::of(other);
    assert_eq!((done.code, done.out.as_str()), (1, ""), "{}", done.err);
    assert!(
        done.err.contains(&format!("PLIMSOLL_STATE_DIR={}", place.path("state").display())),
        "{}",
        done.err
    );
    if !testkit::partly_lacks(testkit::Need::Root) {
        let mut other = command(&place, &["restore", "r"]);
        other.env("PLIMSOLL_STATE_DIR", place.path("other"));
        std::os::unix::fs::chown(place.path("r"), Some(65534), None).unwrap();
        let done = crate::program::Finished::of(other);
        std::os::unix::fs::chown(place.path("r"), Some(0), None).unwrap();
        assert_eq!(done.code, 1, "{}", done.out);
        assert!(done.err.contains("it belongs to user 65534"), "{}", done.err);
    }
    let unfinished = text(&place, "r/unfinished.json");
    let mut of_another: serde_json::Value = serde_json::from_str(&unfinished).unwrap();
    of_another["host"] = "db7".into();
    of_another["identity"] = "0".into();
    std::fs::create_dir(place.path("copied")).unwrap();
    std::fs::write(place.path("copied/unfinished.json"), of_another.to_string()).unwrap();
    let done = run(&place, &["restore", "copied"]);
    assert!(
        done.code == 1 && done.err.contains("the run is one of the host db7"),
        "{}{}",
        done.out,
        done.err
    );
    // A journal that cannot be read may be that of any run.
    let journal = std::fs::read_dir(place.path("state/runs")).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &whole[..20]).unwrap();
    let done = run(&place, &["restore", "r"]);
    assert!(done.code == 1 && done.err.contains(".jsonl"), "{}{}", done.out, done.err);
    std::fs::write(&journal, whole).unwrap();
    assert_eq!(run(&place, &["restore", "r"]).code, 0);
    assert_eq!(text(&place, "server.ini"), CONFIGURATION);
}

#[test]
fn what_is_gone_is_not_called_restored_or_ended() {
    let place = killed("restore-over");
    let journal = std::fs::read_dir(place.path("state/runs")).unwrap().next().unwrap().unwrap().path();
    let lines = std::fs::read_to_string(journal).unwrap();
    let (_, after) = lines.split_once("\"end_target\":{\"process\":").unwrap();
    let process: i32 = after.split(',').next().unwrap().parse().unwrap();
    let target = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(target, rustix::process::Signal::KILL).unwrap();
    let is_alive = || crate::kill_statements::is_alive(process.unsigned_abs());
    wait_for("the target did not end", || !is_alive());
    std::fs::write(place.path("server.ini"), CONFIGURATION).unwrap();
    for arguments in [&["restore", "r", "--dry-run"][..], &["restore", "r"][..]] {
        let done = run(&place, arguments);
        assert_eq!(done.code, 0, "{}", done.err);
        // The target may have had a control group, which is still there.
        let wrong = ["target.config restored", "target.config would be restored", "target ended"];
        assert!(!wrong.iter().any(|wrong| done.out.contains(wrong)), "{}", done.out);
        assert!(done.out.contains("target: nothing is left to restore"), "{}", done.out);
        assert!(
            done.out.contains(&format!("process {process} and its child processes have ended"))
                && done.out.contains("is `8` already"),
            "{}",
            done.out
        );
    }
    assert_eq!(run(&place, &["restore", "r"]).out, "nothing to restore\n");
}

#[test]
fn a_child_without_a_variable_or_a_parent_is_ended_as_it_is_said() {
    if testkit::lacks(testkit::Need::Cgroup("memory", "memory")) {
        return;
    }
    let place = Place::new("restore-orphan");
    // As a server does that clears its environment, with a worker that leaves its process group.
    std::fs::write(
        place.path("o.toml"),
        "[target]\nstart = \"sh -c 'env -i setsid sleep 600 & echo $! > worker; echo up; wait'\"\n\
         ready = \"line:^up\"\n[workload.null]\n\
         [load]\nmeasure = \"600s\"\nwarm_up = \"0s\"\n",
    )
    .unwrap();
    let mut child = command(&place, &["run", "o.toml", "--run-dir", "r", "--quiet"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = |name: &str| {
        let text = std::fs::read_to_string(place.path(name)).unwrap_or_default();
        text.trim().parse::<i32>().ok()
    };
    wait_for("the load did not begin", || {
        process("worker").is_some() && crate::kill::load_began(&place.path("r"))
    });
    let worker = process("worker").unwrap();
    let journal = std::fs::read_dir(place.path("state/runs")).unwrap().next().unwrap().unwrap().path();
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = std::fs::read_to_string(journal).unwrap();
    let (_, after) = lines.split_once("\"end_target\":{\"process\":").unwrap();
    let first: i32 = after.split(',').next().unwrap().parse().unwrap();
    let kill = |process: i32| {
        let process = rustix::process::Pid::from_raw(process).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL)
    };
    kill(first).unwrap();
    let is_alive = |process: i32| crate::kill_statements::is_alive(process.unsigned_abs());
    wait_for("the target did not end", || !is_alive(first));
    assert!(is_alive(worker));
    let done = run(&place, &["restore", "r"]);
    let is_left = is_alive(worker);
    if is_left {
        let _ = kill(worker);
    }
    assert!(done.code == 0 && !is_left && done.out.contains("target ended"), "{}{}", done.out, done.err);
    assert_eq!(run(&place, &["restore", "r"]).out, "nothing to restore\n");
}

#[test]
fn a_command_that_still_makes_its_change_is_waited_for_before_the_change_is_undone() {
    let place = Place::new("restore-command");
    std::fs::write(place.path("state.txt"), "before").unwrap();
    // It leaves a daemon, which is no part of the change any more.
    std::fs::write(
        place.path("c.toml"),
        "[workload.null]\n[load]\nmeasure = \"100ms\"\nwarm_up = \"0s\"\n\
         [vary]\n\"target.command.pool\" = { levels = [7], \
         set = \"setsid sleep 60 & echo $! > daemon; touch begun; sleep 2; echo {level} > state.txt; sleep 1\", \
         undo = \"echo restored > state.txt\" }\n",
    )
    .unwrap();
    for arguments in [&["restore"][..], &["restore", "r"]] {
        let mut child = command(&place, &["run", "c.toml", "--run-dir", "r", "--quiet"]).spawn().unwrap();
        wait_for("the command did not begin", || place.path("begun").exists());
        let daemon: u32 = text(&place, "daemon").trim().parse().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let planned = run(&place, &[arguments, &["--dry-run"]].concat());
        assert!(planned.out.contains("end the command that makes the change"), "{}", planned.out);
        let done = run(&place, arguments);
        assert!(
            done.code == 0 && done.out.contains("target.command.pool restored"),
            "{}{}",
            done.out,
            done.err
        );
        assert_eq!(text(&place, "state.txt"), "restored\n");
        let is_left = crate::kill_statements::is_alive(daemon);
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(daemon.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        );
        assert!(is_left, "what the command left in the background was ended");
        assert_eq!(run(&place, &["restore", "r"]).out, "nothing to restore\n");
        std::fs::remove_file(place.path("begun")).unwrap();
        std::fs::remove_dir_all(place.path("r")).unwrap();
    }
}

#[test]
fn of_runs_that_begin_at_once_in_one_directory_one_runs() {
    let place = Place::new("restore-at-once");
    std::fs::write(place.path("n.toml"), "[workload.null]\n[load]\nmeasure = \"300ms\"\nwarm_up = \"0s\"\n")
        .unwrap();
    for exists in [false, true] {
        if exists {
            std::fs::create_dir(place.path("r")).unwrap();
        }
        let children: Vec<Child> = (0..3)
            .map(|_| {
                let mut command = command(&place, &["run", "n.toml", "--run-dir", "r", "--quiet"]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let ended: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let refused = ended.iter().filter(|ended| {
            let error = String::from_utf8_lossy(&ended.stderr);
            ended.status.code() == Some(1) && error.contains("another run may be using it")
        });
        assert_eq!(refused.count(), 2, "{ended:?}");
        assert_eq!(std::fs::read_dir(place.path("r/trials")).unwrap().count(), 1);
        let shown = run(&place, &["show", "r"]);
        assert!(shown.measured(), "{}", shown.err);
        assert!(!place.path("r/unfinished.json").exists(), "it is complete");
        std::fs::remove_dir_all(place.path("r")).unwrap();
    }
    assert_eq!(std::fs::read_dir(place.path("state/runs")).unwrap().count(), 0);
}

#[test]
fn a_file_is_no_run_directory() {
    let place = Place::new("restore-file");
    std::fs::write(place.path("notes.txt"), "x").unwrap();
    for arguments in [&["restore", "notes.txt"][..], &["restore", "notes.txt", "--dry-run"]] {
        let done = run(&place, arguments);
        assert_eq!(done.code, 2, "{}{}", done.out, done.err);
        assert!(done.err.contains("error: notes.txt is not a run directory, but a file"), "{}", done.err);
    }
    assert_eq!(run(&place, &["restore", "gone"]).code, 0);
}
