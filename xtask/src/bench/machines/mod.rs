//! Several machines, here processes of one: what they count beside what a server served, what the coordinator of many agents
//! costs, how soon a loss is noticed, and what SSH costs.

mod counts;
mod ssh;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Ended, Folder, cpu_us, median, peak_mib, plimsoll};

/// The agents of the coordinator that is measured, and for how long.
const AGENTS: usize = 200;
const MEASURED: Duration = Duration::from_secs(15);

/// A loss is noticed within this time.
const NOTICED: f64 = 2.0;

/// Pairs over SSH for each round: one differs from the next by some 4 %, and a difference of 1 % is to be seen.
const SSH_PAIRS: usize = 3;

const TASK: &str = "cargo xtask bench machines";

/// The counts, the cost of the coordinator, kills of agents and of coordinators at different moments, and pairs over SSH.
pub(super) fn machines(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "machines")?;
    let mut faults = counts::counts(&program, &folder.0)?;
    faults.extend(coordinator(&program, &folder.0)?);
    faults.extend(kills(&program, &folder.0, rounds)?);
    faults.extend(ssh::ssh(repository, &program, &folder.0, SSH_PAIRS * rounds)?);
    Ok(faults)
}

/// A run in `folder` with these machines; what it prints goes to a file.
fn start(program: &Path, folder: &Path, on: &str, rate: usize, seconds: u64) -> Result<Child, String> {
    let printed = std::fs::File::create(folder.join("printed")).map_err(|error| error.to_string())?;
    let also = printed.try_clone().map_err(|error| error.to_string())?;
    Command::new(program)
        .args(["null", "--on", on, "--rate", &format!("{rate}/s"), "--warm-up", "2s"])
        .args(["--duration", &format!("{seconds}s"), "--interval", "1s", "--sample-every", "1s"])
        .args(["--run-dir", "run"])
        .env("PLIMSOLL_STATE_DIR", folder.join("state"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(printed)
        .stderr(also)
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))
}

/// What names so many agents on this host.
fn agents_on(program: &Path, count: usize) -> String {
    let agent = |number| format!("a{number}=exec:{} agent", program.display());
    (1..=count).map(agent).collect::<Vec<_>>().join(",")
}

fn printed(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("printed")).unwrap_or_default()
}

/// The CPU time and the memory of a coordinator whose agents all run.
fn coordinator(program: &Path, folder: &Path) -> Result<Vec<Fault>, String> {
    let folder = own(folder, "many")?;
    let mut run = Ended(start(program, &folder, &agents_on(program, AGENTS), 10 * AGENTS, 25)?);
    let intervals = folder.join("run/trials/001-baseline.r1/intervals.csv");
    let begin = Instant::now();
    // Its head is shorter.
    while std::fs::metadata(&intervals).map_or(0, |data| data.len()) < 400 {
        let has_ended = run.0.try_wait().is_ok_and(|ended| ended.is_some());
        if has_ended || begin.elapsed() > Duration::from_secs(120) {
            return Err(format!("the run did not begin: {}", printed(&folder)));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let ready_s = begin.elapsed().as_secs_f64();
    let process = run.0.id().to_string();
    let (before, begin) = (cpu_us(&process, 13)?, Instant::now());
    std::thread::sleep(MEASURED);
    let share = 100.0 * (cpu_us(&process, 13)? - before) / begin.elapsed().as_micros() as f64;
    let memory = peak_mib(&process).ok_or_else(|| format!("the run ended early: {}", printed(&folder)))?
        * 1024.0
        * 1024.0
        / 1e6;
    println!("{AGENTS} agents, figures and counters once per second, ready after {ready_s:.1} s");
    println!("  {:<40} {share:.2} %    at most 5", "coordinator, of a core");
    println!("  {:<40} {memory:.1} MB  at most 100", "coordinator, memory");
    let mut faults = Vec::new();
    if share > 5.0 {
        faults.push(Fault::new(
            TASK,
            format!("the coordinator needs {share:.1} % of a core"),
            "at most 5 % was promised",
        ));
    }
    if memory > 100.0 {
        faults.push(Fault::new(
            TASK,
            format!("the coordinator needs {memory:.0} MB"),
            "at most 100 MB was promised",
        ));
    }
    Ok(faults)
}

/// Kills one of two agents, and the coordinator, in turn.
fn kills(program: &Path, folder: &Path, rounds: usize) -> Result<Vec<Fault>, String> {
    let mut faults = Vec::new();
    let (mut noticed, mut gone) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for of_agent in [true, false] {
            let folder = own(folder, &format!("{round}-{of_agent}"))?;
            let mark = |number: usize| folder.join(format!("mark{number}")).display().to_string();
            let machine =
                |number| format!("gen{number}=exec:{} agent --temporary {}", program.display(), mark(number));
            let mut run = Ended(start(program, &folder, &format!("{},{}", machine(1), machine(2)), 100, 30)?);
            // From before the machines are ready into the measured phase.
            std::thread::sleep(Duration::from_millis(300 + 5000 * round as u64 / rounds.max(1) as u64));
            let begin = Instant::now();
            if of_agent {
                kill(&agents(program, &mark(2)));
                let status = run.0.wait().map_err(|error| error.to_string())?;
                noticed.push(begin.elapsed().as_secs_f64());
                if status.success() || !printed(&folder).contains("gen2") {
                    faults.push(Fault::new(TASK, printed(&folder), "the lost machine is to be named"));
                }
            } else {
                run.0.kill().and_then(|()| run.0.wait()).map_err(|error| error.to_string())?;
                while !agents(program, &mark(1)).is_empty() || !agents(program, &mark(2)).is_empty() {
                    if begin.elapsed() > Duration::from_secs(10) {
                        faults.push(Fault::new(
                            TASK,
                            format!("round {round}: an agent was left"),
                            "none may be",
                        ));
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                gone.push(begin.elapsed().as_secs_f64());
            }
        }
    }
    for (what, seconds) in
        [("an agent, until the run has ended", &noticed), ("a coordinator, until no agent is left", &gone)]
    {
        let longest = seconds.iter().copied().fold(0.0, f64::max);
        println!("{rounds} kills of {what}: median {:.2} s, longest {longest:.2} s", median(seconds));
        if longest > NOTICED {
            faults.push(Fault::new(TASK, format!("{what}: {longest:.1} s"), "at most 2 s was promised"));
        }
    }
    Ok(faults)
}

fn own(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let own = folder.join(name);
    std::fs::create_dir_all(&own).map_err(|error| error.to_string())?;
    Ok(own)
}

/// The agents with this mark.
fn agents(program: &Path, mark: &str) -> Vec<String> {
    let begin = format!("^{} agent --temporary {mark}$", program.display());
    let listed = Command::new("pgrep").args(["-f", &begin]).output();
    let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

fn kill(processes: &[String]) {
    for process in processes {
        let _ = Command::new("kill").args(["-9", process]).status();
    }
}
