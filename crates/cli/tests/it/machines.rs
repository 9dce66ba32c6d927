//! Loads that several machines drive: agents that a command or `ssh` starts.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Nginx, Scratch, Sshd};

use crate::program::{Place, command, run};

/// What names machines that are processes of this host.
fn agents(count: usize) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_plimsoll");
    (1..=count).map(|number| format!("gen{number}=exec:{program} agent")).collect()
}

fn on(count: usize) -> String {
    agents(count).join(",")
}

fn json(place: &Place, path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.path(path)).unwrap()).unwrap()
}

/// The operations of the measured phase of each machine, in a `run.json`.
fn completed_by_machine(ran: &Value) -> Vec<u64> {
    let machines = ran["machines"].as_array().unwrap();
    machines.iter().map(|machine| machine["completed"].as_u64().unwrap()).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The agents with this mark.
fn agents_with(mark: &str) -> Vec<u32> {
    // The command line of the coordinator has their command too, but not at its begin.
    let begin = format!("^{} agent --temporary {mark}$", env!("CARGO_BIN_EXE_plimsoll"));
    let listed = Command::new("pgrep").args(["-f", &begin]).output().unwrap();
    String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.parse().ok()).collect()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_machines_drive_what_one_server_counts() {
    let folder = Scratch::new();
    folder.file("hello.txt", "hello\n");
    let log = folder.path().join("access.log");
    let server = format!("access_log {} ;", log.display());
    let Some(nginx) = Nginx::start(folder, "", "", &server) else { return };
    let place = Place::new("machines-http");
    let url = format!("http://127.0.0.1:{}/hello.txt", nginx.port);
    let arguments = [
        "http",
        &url,
        "--on",
        &on(2),
        "--rate",
        "400/s",
        "--warm-up",
        "1s",
        "--duration",
        "3s",
        "--run-dir",
        "r",
    ];
    let done = run(&place, &arguments);
    assert!(done.measured(), "{}{}", done.out, done.err);
    let served = std::fs::read_to_string(&log).unwrap().lines().count() as u64;
    let ran = json(&place, "r/trials/001-baseline.r1/run.json");
    let of_machines = completed_by_machine(&ran);
    // Half of the arrivals each, of 3 s.
    assert!(
        of_machines.len() == 2 && of_machines.iter().all(|count| count.abs_diff(600) <= 5),
        "{of_machines:?}"
    );
    let intervals = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/intervals.csv")).unwrap();
    let titles: Vec<&str> = intervals.lines().next().unwrap().split(',').collect();
    let column = |name: &str| titles.iter().position(|title| *title == name).unwrap();
    let (phase, completed) = (column("phase"), column("completed"));
    let of = |row: &str, at: usize| row.split(',').nth(at).unwrap().to_string();
    let rows: Vec<&str> =
        intervals.lines().skip(1).filter(|row| of(row, column("operation")) == "get").collect();
    let sum = |only: Option<&str>| -> u64 {
        let rows = rows.iter().filter(|row| only.is_none_or(|word| of(row, phase) == word));
        rows.map(|row| of(row, completed).parse::<u64>().unwrap()).sum()
    };
    // The check of the load asks once from each machine.
    assert!(served.abs_diff(sum(None)) <= 2, "{served} served, {} counted", sum(None));
    assert_eq!(sum(Some("measure")), of_machines.iter().sum::<u64>());
    // What the load found is that of both machines.
    let found = |fact: &str| ran["facts"][fact]["count"].as_u64().unwrap_or_default();
    assert_eq!(found("responses.status.200"), sum(None), "{}", ran["facts"]);
    assert!(found("connections.opened") >= 2, "{}", ran["facts"]);
    let said = one_line(&done.err);
    assert!(said.contains("machine gen1: ") && said.contains("machine gen2: "), "{said}");
    // Counters have the name of their machine.
    let readings = run(&place, &["export", "r", "--csv"]);
    assert!(readings.code == 0 || readings.code == 2, "{}", readings.err);
    let result = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/metrics.json")).unwrap();
    assert!(result.contains("cpu.busy_share"), "{result}");
}

#[test]
fn a_closed_loop_has_its_users_once() {
    let place = Place::new("machines-users");
    let arguments = [
        "null",
        "--on",
        &on(3),
        "--concurrency",
        "7",
        "--think",
        "10ms",
        "--warm-up",
        "500ms",
        "--duration",
        "2s",
        "--run-dir",
        "r",
    ];
    let done = run(&place, &arguments);
    assert!(done.measured(), "{}{}", done.out, done.err);
    let ran = json(&place, "r/trials/001-baseline.r1/run.json");
    let completed = completed_by_machine(&ran);
    // 3, 2 and 2 users with an operation in some 10 ms each.
    let share = |at: usize| completed[at] as f64 / completed.iter().sum::<u64>() as f64;
    assert!((share(0) - 3.0 / 7.0).abs() < 0.1 && (share(2) - 2.0 / 7.0).abs() < 0.1, "{completed:?}");
}

#[test]
fn a_killed_machine_voids_the_trial_and_is_named() {
    let place = Place::new("machines-killed");
    let mark = place.path("mark").display().to_string();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    // The mark finds this agent among those of other tests.
    let marked = format!("gen2=exec:{program} agent --temporary {mark}");
    let both = format!("{},{marked}", agents(1)[0]);
    let arguments =
        ["null", "--on", &both, "--rate", "100/s", "--warm-up", "1s", "--duration", "60s", "--run-dir", "r"];
    let run = command(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the load has not begun", || place.path("r/trials/001-baseline.r1/intervals.csv").exists());
    std::thread::sleep(Duration::from_secs(2));
    let agents = agents_with(&mark);
    assert!(!agents.is_empty());
    let begin = Instant::now();
    for agent in agents {
        let _ = Command::new("kill").args(["-9", &agent.to_string()]).status();
    }
    let output = run.wait_with_output().unwrap();
    let took = begin.elapsed();
    let said = one_line(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)));
    assert!(said.contains("machine gen2:") && said.contains("closed"), "{said}");
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(took < Duration::from_secs(15), "{took:?}: {said}");
    let ran = json(&place, "r/trials/001-baseline.r1/run.json");
    assert!(ran["ending"]["failed"].as_str().unwrap().contains("gen2"), "{ran}");
}

#[test]
fn the_trial_after_a_loss_has_all_machines_again() {
    let place = Place::new("machines-again");
    let mark = place.path("mark").display().to_string();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let both = format!("{},gen2=exec:{program} agent --temporary {mark}", agents(1)[0]);
    let arguments = [
        "null",
        "--on",
        &both,
        "--rate",
        "100/s",
        "--warm-up",
        "500ms",
        "--duration",
        "2s",
        "--replicates",
        "3",
        "--run-dir",
        "r",
    ];
    let run = command(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the second trial has not begun", || {
        place.path("r/trials/002-baseline.r2/intervals.csv").exists()
    });
    std::thread::sleep(Duration::from_millis(500));
    for agent in agents_with(&mark) {
        let _ = Command::new("kill").args(["-9", &agent.to_string()]).status();
    }
    let output = run.wait_with_output().unwrap();
    let said = one_line(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)));
    let mut endings = Vec::new();
    let mut trials: Vec<_> =
        std::fs::read_dir(place.path("r/trials")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    trials.sort();
    for trial in &trials {
        let ran = json(&place, &format!("r/trials/{}/run.json", trial.display()));
        let completed = completed_by_machine(&ran);
        assert_eq!(completed.len(), 2, "{ran}");
        match ran["ending"].as_str() {
            Some(ending) => {
                assert!(completed.iter().all(|count| count.abs_diff(100) <= 3), "{ran}");
                endings.push(ending.to_string());
            }
            None => endings.push(ran["ending"]["failed"].as_str().unwrap().to_string()),
        }
    }
    assert_eq!(endings[0], "completed", "{said}");
    assert!(endings[1].contains("gen2"), "{endings:?}");
    assert!(
        endings.len() >= 3 && endings[2..].iter().all(|ending| ending == "completed"),
        "{endings:?} {said}"
    );
}

#[test]
fn the_load_of_a_lost_machine_is_divided_where_that_is_wanted() {
    let place = Place::new("machines-divided");
    let mark = place.path("mark").display().to_string();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let text = format!(
        r#"
name = "A machine is lost"
replicates = 3
[workload.null]
[load]
open = "100/s"
warm_up = "500ms"
measure = "2s"
[machines]
load = ["{}", "gen2=exec:{program} agent --temporary {mark}"]
on_loss = "divide"
"#,
        agents(1)[0]
    );
    std::fs::write(place.path("lost.toml"), text).unwrap();
    let run = command(&place, &["run", "lost.toml", "--run-dir", "r"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the second trial has not begun", || {
        place.path("r/trials/002-baseline.r2/intervals.csv").exists()
    });
    std::thread::sleep(Duration::from_millis(500));
    for agent in agents_with(&mark) {
        let _ = Command::new("kill").args(["-9", &agent.to_string()]).status();
    }
    let output = run.wait_with_output().unwrap();
    let said = one_line(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)));
    let mut trials: Vec<_> =
        std::fs::read_dir(place.path("r/trials")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    trials.sort();
    assert!(trials.len() >= 3, "{trials:?}");
    assert!(said.contains("· 1 of 2 machines"), "{said}");
    for (at, trial) in trials.iter().enumerate() {
        let ran = json(&place, &format!("r/trials/{}/run.json", trial.display()));
        let completed = completed_by_machine(&ran);
        match at {
            0 => assert_eq!(completed.len(), 2, "{ran}"),
            1 => assert!(ran["ending"]["failed"].as_str().unwrap().contains("gen2"), "{ran}"),
            // The whole load, by one machine.
            _ => assert!(completed.len() == 1 && completed[0].abs_diff(200) <= 3, "{ran}"),
        }
        if at == 2 {
            let events = place.path(&format!("r/trials/{}/events.jsonl", trial.display()));
            let events = std::fs::read_to_string(events).unwrap();
            assert!(events.contains("machine gen2 is left out from here on"), "{events} {said}");
        }
    }
}

#[test]
fn a_killed_coordinator_leaves_no_agent_and_no_file() {
    nothing_is_left_after("machines-alone", |run, _| run.kill().unwrap());
}

#[test]
fn agents_that_are_terminated_leave_no_file() {
    nothing_is_left_after("machines-terminated", |_, agents| {
        for agent in agents {
            let agent = rustix::process::Pid::from_raw(*agent as i32).unwrap();
            rustix::process::kill_process(agent, rustix::process::Signal::TERM).unwrap();
        }
    });
}

/// Two agents make files for a load, and something ends them or their coordinator.
fn nothing_is_left_after(name: &str, end: impl Fn(&mut std::process::Child, &[u32])) {
    let place = Place::new(name);
    let mark = place.path("mark").display().to_string();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    // Each machine has a file of its own under this name.
    let marked = |name: &str| {
        let folder = place.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        format!("{name}=exec:env -C {} {program} agent --temporary {mark}", folder.display())
    };
    let both = format!("{},{}", marked("gen1"), marked("gen2"));
    let arguments = [
        "disk",
        "load.bin",
        "--size",
        "8MiB",
        "--page-cache",
        "--on",
        &both,
        "--warm-up",
        "1s",
        "--duration",
        "60s",
        "--run-dir",
        "r",
    ];
    let mut run = command(&place, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the load has not begun", || place.path("r/trials/001-baseline.r1/intervals.csv").exists());
    let agents = agents_with(&mark);
    assert_eq!(agents.len(), 2);
    end(&mut run, &agents);
    run.wait().unwrap();
    wait_until("an agent still runs", || agents_with(&mark).is_empty());
    for name in ["gen1", "gen2"] {
        assert!(!place.path(name).join("load.bin").exists(), "the file of the load was left");
    }
}

#[test]
fn a_load_on_the_disks_of_machines_is_judged_on_each() {
    let place = Place::new("machines-disks");
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let on: Vec<String> = ["db1", "db2"]
        .iter()
        .map(|name| {
            let folder = place.path(name);
            std::fs::create_dir_all(&folder).unwrap();
            format!("{name}=exec:env -C {} {program} agent", folder.display())
        })
        .collect();
    let on = on.join(",");
    let done = run(
        &place,
        &[
            "disk",
            "load.bin",
            "--size",
            "8MiB",
            "--page-cache",
            "--concurrency",
            "4",
            "--on",
            &on,
            "--warm-up",
            "500ms",
            "--duration",
            "2s",
            "--json",
        ],
    );
    assert!(done.measured(), "{}{}", done.out, done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let trial = &document["trials"][0];
    let doubts: Vec<&str> = trial["doubts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|doubt| doubt["kind"] == "not_the_device")
        .map(|doubt| doubt["text"].as_str().unwrap())
        .collect();
    // A file of 8 MiB that was just written is in the page cache of its machine.
    for machine in ["db1", "db2"] {
        let of_machine = |doubt: &&str| doubt.split(':').next().is_some_and(|hosts| hosts.contains(machine));
        assert!(doubts.iter().any(of_machine), "{machine}: {trial}");
    }
    assert!(doubts.iter().all(|doubt| doubt.starts_with("on db")), "{doubts:?}");
}

#[test]
fn a_machine_that_cannot_be_reached_is_named_with_the_reason() {
    let place = Place::new("machines-unreachable");
    for (machine, why) in [
        ("gen1=exec:false", "gen1: the connection was closed"),
        ("gen1=exec:no-such-program-here", "no-such-program-here could not be started"),
        ("gen1=exec:echo hello", "gen1: a message could not be understood"),
        ("gen1=exec:sh -c 'echo no room >&2; exit 1'", "gen1: the connection was closed: no room"),
        ("http://gen1", "http is no way to reach one"),
        ("gen1,gen1", "two machines have the name gen1"),
    ] {
        let done = run(&place, &["null", "--on", machine, "--duration", "1s"]);
        assert!(done.code == 2 || done.code == 1, "{machine}: {} {}{}", done.code, done.out, done.err);
        let said = one_line(&done.err);
        assert!(said.contains(why), "{machine}: {said}");
    }
}

#[test]
fn ssh_copies_the_program_and_leaves_nothing() {
    let Some(sshd) = Sshd::start() else { return };
    let place = Place::new("machines-ssh");
    let temporary = place.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let host = format!("ssh://127.0.0.1:{}", sshd.port);
    let both = format!("gen1,b={host}");
    let arguments = [
        "null",
        "--on",
        &both,
        "--rate",
        "200/s",
        "--warm-up",
        "500ms",
        "--duration",
        "2s",
        "--run-dir",
        "r",
    ];
    let done = command(&place, &arguments).env("PATH", sshd.search_path()).output().unwrap();
    let said = one_line(&(String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr)));
    assert!(matches!(done.status.code(), Some(0 | 97 | 98)), "{said}");
    assert!(said.contains("copying the program"), "{said}");
    let ran = json(&place, "r/trials/001-baseline.r1/run.json");
    let completed = completed_by_machine(&ran);
    assert!(completed.iter().all(|count| count.abs_diff(200) <= 3), "{completed:?}");
    let left: Vec<_> = std::fs::read_dir(std::env::temp_dir())
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("plimsoll-agent."))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_check_reaches_the_machines_and_names_all_that_is_wrong() {
    let place = Place::new("machines-check");
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let file = |load: &[&str], more: &str| {
        let load: Vec<String> = load.iter().map(|machine| format!("{machine:?}")).collect();
        let text = format!(
            "name = \"Several machines\"\n{more}[load]\nclosed = 4\nmeasure = \"2s\"\n[machines]\nload = [{}]\n",
            load.join(", ")
        );
        std::fs::write(place.path("machines.toml"), text).unwrap();
    };
    let good = agents(2);
    let both: Vec<&str> = good.iter().map(String::as_str).collect();
    file(&both, "[workload.null]\n");
    let done = run(&place, &["check", "machines.toml"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let said = one_line(&done.out);
    for part in
        ["machine gen1: reached, host ", "machine gen2: reached, host ", "processors, clock ", "(known to "]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let document: Value =
        serde_json::from_str(&run(&place, &["check", "machines.toml", "--json"]).out).unwrap();
    assert_eq!(document["machines"][1]["name"], "gen2");
    assert!(document["machines"][1]["clock_uncertainty_s"].as_f64().unwrap() > 0.0, "{document}");

    // One that answers and refuses the load, one that ends, one that says nothing.
    let limited = format!("gen1=exec:{program} agent --allow 10.0.0.0/8");
    file(
        &[&limited, "gen2=exec:sh -c 'echo no room >&2; exit 1'", "gen3=exec:sleep 600"],
        "[workload.http]\nurl = \"http://127.0.0.1:9/\"\n",
    );
    let done = run(&place, &["check", "machines.toml"]);
    let said = one_line(&done.err);
    assert_eq!(done.code, 2, "{said}");
    for part in [
        "machine gen1: reached",
        "machine gen2: not reached",
        "machine gen1: this agent may load 10.0.0.0/8, and refuses 127.0.0.1",
        "machine gen2: the connection was closed: no room",
        "machine gen3: it was not reached within 20 s",
        "--offline",
        "3 mistakes",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    let done = run(&place, &["check", "machines.toml", "--offline"]);
    assert!(done.code == 0 && done.out.contains("not reached, because of --offline: gen1="), "{}", done.out);
}

#[test]
fn a_check_of_a_factor_asks_the_machine_of_the_target() {
    let place = Place::new("machines-check-factor");
    let text = format!(
        r#"
name = "A factor on a machine"
[workload.null]
[load]
closed = 1
measure = "1s"
[target]
process = "no-such-process-here"
machine = "gen1"
[machines]
watch = ["{}"]
[vary]
"host.cpus" = {{ baseline = 1, levels = [2] }}
"#,
        agents(1)[0]
    );
    std::fs::write(place.path("factor.toml"), text).unwrap();
    let done = run(&place, &["check", "factor.toml"]);
    let said = one_line(&done.err);
    assert!(done.code == 2 && said.contains("host.cpus cannot be set to 2: machine gen1: "), "{said}");
}
