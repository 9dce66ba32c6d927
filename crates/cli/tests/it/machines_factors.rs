//! A system under test on another machine: its factors are set, journaled and undone there. The machine is an agent of this host
//! with a state folder of its own.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Need, Nginx, Scratch};

use crate::program::{Place, command, run};

/// A server, and an experiment that varies its CPUs where it runs.
struct Remote {
    nginx: Nginx,
    place: Place,
    /// What finds the agent among those of other tests.
    mark: String,
}

impl Remote {
    /// None where there is no nginx, or one CPU.
    fn new(name: &str, seconds: u32) -> Option<Remote> {
        if testkit::lacks(Need::Cpus(2)) {
            return None;
        }
        let folder = Scratch::new();
        folder.file("hello.txt", "hello\n");
        let nginx = Nginx::start(folder, "", "", "")?;
        let place = Place::new(name);
        let mark = place.path("mark").display().to_string();
        let program = env!("CARGO_BIN_EXE_plimsoll");
        let state = place.path("state-of-db1").display().to_string();
        std::fs::write(
            place.path("remote.toml"),
            format!(
                r#"
name = "CPUs of a server on another machine"
replicates = 1
[workload.http]
url = "http://127.0.0.1:{}/hello.txt"
[load]
closed = 2
warm_up = "500ms"
measure = "{seconds}s"
[target]
pid = {}
machine = "db1"
[machines]
watch = ["db1=exec:env PLIMSOLL_STATE_DIR={state} {program} agent --temporary {mark}"]
[vary]
"host.cpus" = {{ baseline = 1, levels = [2] }}
"#,
                nginx.port,
                nginx.process()
            ),
        )
        .unwrap();
        Some(Remote { nginx, place, mark })
    }

    /// The number of CPUs that the server may use.
    fn cpus(&self) -> u32 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.nginx.process())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap();
        let of = |group: &str| u32::from_str_radix(group, 16).unwrap().count_ones();
        line.trim().split(',').map(of).sum()
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Remote) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < Duration::from_secs(40), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The run, when the server has one CPU.
    fn started(&self) -> Child {
        let run = command(&self.place, &["run", "remote.toml", "--run-dir", "r"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.wait_until("the level was not set", |remote| remote.cpus() == 1);
        run
    }

    fn kill_agent(&self) {
        let begin = format!("^{} agent --temporary {}$", env!("CARGO_BIN_EXE_plimsoll"), self.mark);
        assert!(Command::new("pkill").args(["-9", "-f", &begin]).status().unwrap().success());
    }
}

#[test]
fn a_factor_is_set_and_undone_on_the_machine_of_the_target() {
    let Some(remote) = Remote::new("remote-factor", 2) else { return };
    let before = remote.cpus();
    let done = run(&remote.place, &["run", "remote.toml", "--run-dir", "r"]);
    assert!(done.measured(), "{}{}", done.out, done.err);
    assert_eq!(remote.cpus(), before);
    let events: String = std::fs::read_dir(remote.place.path("r/trials"))
        .unwrap()
        .map(|trial| std::fs::read_to_string(trial.unwrap().path().join("events.jsonl")).unwrap())
        .collect();
    assert!(events.contains("host.cpus = 1: on machine db1"), "{events}");
    // The server is watched there under the name of the target.
    let exported = run(&remote.place, &["export", "r", "--format", "openmetrics"]);
    assert!(exported.out.contains("db1") && exported.out.contains("target"), "{}", exported.out);
}

#[test]
fn a_killed_coordinator_leaves_no_changed_machine() {
    let Some(remote) = Remote::new("remote-killed", 60) else { return };
    let before = remote.cpus();
    let mut run = remote.started();
    run.kill().unwrap();
    run.wait().unwrap();
    remote.wait_until("the level is still in force", |remote| remote.cpus() == before);
}

#[test]
fn what_a_killed_agent_set_is_in_the_journal_of_its_machine() {
    let Some(remote) = Remote::new("remote-agent-killed", 60) else { return };
    let before = remote.cpus();
    let coordinator = remote.started();
    remote.kill_agent();
    let output = coordinator.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!output.status.success() && said.contains("`plimsoll restore` on that machine"), "{said}");
    assert_eq!(remote.cpus(), 1);
    let restored = command(&remote.place, &["restore"])
        .env("PLIMSOLL_STATE_DIR", remote.place.path("state-of-db1"))
        .output()
        .unwrap();
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(remote.cpus(), before);
}

#[test]
fn what_cannot_be_set_on_a_machine_is_said_before_the_run() {
    let Some(remote) = Remote::new("remote-check", 2) else { return };
    let written = std::fs::read_to_string(remote.place.path("remote.toml")).unwrap();
    let pid = format!("pid = {}", remote.nginx.process());
    for (from, to, why) in [
        ("levels = [2]", "levels = [999]", "host.cpus cannot be set to 999: machine db1:"),
        ("machine = \"db1\"", "machine = \"db2\"", "`machines.watch` has not"),
        (&pid, "process = \"no-such-server\"", "no process `no-such-server` is running"),
        (&pid, "start = \"sleep 9\"\nready = \"tcp://127.0.0.1:1\"", "`machine` and `start` exclude"),
        (
            "\"host.cpus\" = { baseline = 1, levels = [2] }",
            "\"host.filesystem\" = { on = \"volume\", size = \"1GiB\", baseline = \"ext4\", levels = [\"xfs\"] }",
            "cannot be set on machine db1",
        ),
    ] {
        assert!(written.contains(from), "{from}");
        std::fs::write(remote.place.path("remote.toml"), written.replace(from, to)).unwrap();
        let done = run(&remote.place, &["run", "remote.toml", "--run-dir", "r"]);
        let said = done.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(done.code != 0 && said.contains(why), "{to}: {said}");
        assert!(!remote.place.path("r").exists(), "{to}");
    }
}
