//! The system under test during a session: started when it is first needed, waited for, watched, stopped.
//!
//! It is started through a shell that waits for a line of input before it executes the command. So the
//! process id is known, and the undo step journaled, before any code of the user runs. If Plimsoll dies
//! before it writes the line, the shell ends. The output goes directly to a file, so it continues after the
//! end of Plimsoll.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::experiment::target::{DIRECTORY, IN_SHELL, READY, START, STOP};
use model::experiment::{Origin, Readiness};
use model::{Level, MILLISECOND, Nanos, Problem, Problems, Secret, SettingInfo, Target, quantity};
use regex::bytes::Regex;

use crate::clock::Clock;
use crate::factor::{FactorKind, FactorTarget, TARGET_VARIABLE, Undo, new_mark};
use crate::process_stat::{ProcessStat, started_ticks};
use crate::readiness::{Page, Request, connect, resolve};
use crate::restore::{AppliedChanges, CarryOut, SharedJournal};
use crate::shell::{self, SHELL};
use crate::source::HostRoot;

/// Waits for a line, or for the end of its input if Plimsoll dies, before it executes the command.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// The polling interval of readiness.
const ASK: Duration = Duration::from_millis(10);

/// Limit of an output line for matching; the rest of a longer line is ignored.
const LINE_MAX: usize = 64 << 10;

/// The size of the output's end that is searched for its last lines.
const TAIL: u64 = 8 << 10;

/// Number of last lines that are reported.
const LAST_LINES: usize = 5;

/// Why the target is not available for a trial.
pub(crate) enum Absent {
    /// The user wants to stop.
    Interrupted,
    /// An error.
    Failed(String),
}

/// The system under test of a session.
pub(crate) struct SystemUnderTest<'a> {
    target: Target,
    /// The folder of the experiment.
    experiment: PathBuf,
    /// Its working directory.
    folder: PathBuf,
    /// The file of its output.
    log: PathBuf,
    root: &'a HostRoot,
    journal: &'a SharedJournal,
    carry_out: CarryOut,
    group: FactorKind,
    state: State,
}

enum State {
    /// Not running, or not searched for yet.
    Absent,
    /// Started by Plimsoll.
    Started(Started),
    /// Already running: process ids with their start times.
    Attached(Vec<(u32, u64)>),
    /// Already running on another machine, whose agent finds it.
    Elsewhere,
}

struct Started {
    child: RefCell<Child>,
    process: u32,
    /// The undo step that ends it.
    way_back: AppliedChanges,
    /// The offset in the log where the output of this start begins.
    log_from: u64,
    /// The time until it was ready.
    ready_after: Nanos,
    /// Its separate control group, or why it has none.
    group: Result<String, String>,
}

impl<'a> SystemUnderTest<'a> {
    pub(crate) fn new(
        target: Target,
        experiment: &Path,
        log: PathBuf,
        root: &'a HostRoot,
        journal: &'a SharedJournal,
        carry_out: CarryOut,
        group: FactorKind,
    ) -> Self {
        let folder = directory(&target, experiment);
        let experiment = experiment.to_path_buf();
        SystemUnderTest {
            target,
            experiment,
            folder,
            log,
            root,
            journal,
            carry_out,
            group,
            state: State::Absent,
        }
    }

    /// Changes what is started next; the target does not run.
    pub(crate) fn become_target(&mut self, target: Target) {
        self.folder = directory(&target, &self.experiment);
        self.target = target;
    }

    /// Ensures that the target runs and is ready. `say` receives progress.
    pub(crate) fn ensure_running(
        &mut self,
        say: &mut dyn FnMut(&str),
        interrupted: &AtomicBool,
    ) -> Result<(), Absent> {
        let target = self.target.clone();
        match target.origin() {
            Some(Origin::Start(line)) => {
                // A target that ended between two trials does not fail the next trial.
                if self.ended().is_some() {
                    self.stop();
                }
                if matches!(self.state, State::Started(_)) {
                    return Ok(());
                }
                self.start(&line, say, interrupted)
            }
            Some(origin) => {
                self.state = match self.target.machine() {
                    Some(_) => State::Elsewhere,
                    None => State::Attached(find(&origin).map_err(Absent::Failed)?),
                };
                let mut probe = Probe::open(&self.target, None).map_err(Absent::Failed)?;
                self.wait_until_ready(&mut probe, interrupted).map(|_| ())
            }
            None => Err(Absent::Failed("[target] has none of `start`, `process` and `pid`".into())),
        }
    }

    fn start(
        &mut self,
        line: &Secret,
        say: &mut dyn FnMut(&str),
        interrupted: &AtomicBool,
    ) -> Result<(), Absent> {
        let failed = |what: String| Absent::Failed(what);
        let words = command_words(&self.target, line).map_err(failed)?;
        let (log, log_from) = open_log(&self.log)
            .map_err(|error| Absent::Failed(format!("{} cannot be written: {error}", self.log.display())))?;
        let mut probe = Probe::open(&self.target, Some((&self.log, log_from))).map_err(failed)?;
        if probe.is_taken() {
            return Err(Absent::Failed(format!(
                "{} accepts connections before the target is started: stop the program that listens there, or use another port",
                self.target.ready_in_words()
            )));
        }
        say("starting the target");
        let mark = new_mark();
        let cannot = |error: std::io::Error| Absent::Failed(format!("the target cannot be started: {error}"));
        let output = log.try_clone().map_err(cannot)?;
        let mut command = Command::new(SHELL);
        command
            .args(["-c", GATE, "plimsoll-target"])
            .args(&words)
            .envs(shell::search_path().map(|path| ("PATH", path)))
            .envs(self.target.environment.iter().map(|(name, value)| (name, value.reveal())))
            .env(TARGET_VARIABLE, &mark)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(log)
            .process_group(0);
        if !self.folder.as_os_str().is_empty() {
            command.current_dir(&self.folder);
        }
        let mut child = shell::spawn(&mut command).map_err(|error| {
            Absent::Failed(format!("the target cannot be started in {}: {error}", self.folder.display()))
        })?;
        let word = child.stdin.take();
        let process = child.id();
        let started_ticks = started_ticks(process).unwrap_or(0);
        let mut way_back = AppliedChanges::new(self.journal, self.carry_out);
        let within = self.target.stop_within();
        // Before the undo step of the process is journaled, so that the process is ended before its group is
        // removed.
        let group = enclose(&self.group, self.root, process, &mut way_back);
        let own_group = group.as_ref().map(PathBuf::from).unwrap_or_default();
        let end = Undo::EndTarget { process, started_ticks, mark, group: own_group, within };
        let announced = way_back.announce_steps("target", vec![end]);
        let begin = Clock::get().now();
        self.state = State::Started(Started {
            child: RefCell::new(child),
            process,
            way_back,
            log_from,
            ready_after: 0,
            group,
        });
        // Without the line of input, the command was never executed, and the shell ends with this function.
        let going = announced.and_then(|()| match word {
            Some(mut word) => word.write_all(b"go\n").map_err(|error| error.to_string()),
            None => Err("its standard input is missing".into()),
        });
        if let Err(error) = going {
            self.stop();
            return Err(Absent::Failed(format!("the target cannot be started: {error}")));
        }
        say("waiting until the target is ready");
        match self.wait_until_ready(&mut probe, interrupted) {
            Ok(at) => {
                if let State::Started(started) = &mut self.state {
                    started.ready_after = at.saturating_sub(begin);
                }
                Ok(())
            }
            Err(absent) => {
                self.stop();
                Err(absent)
            }
        }
    }

    /// Returns the time at which it was ready.
    fn wait_until_ready(&self, probe: &mut Probe, interrupted: &AtomicBool) -> Result<Nanos, Absent> {
        let clock = Clock::get();
        let deadline = clock.now().saturating_add(self.target.ready_within());
        loop {
            let ended = self.ended();
            let now = clock.now();
            let ready = probe.is_ready(now);
            if let Some(why) = ended {
                return Err(Absent::Failed(format!("{why} before it was ready")));
            }
            if ready {
                return Ok(now);
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(Absent::Interrupted);
            }
            if now >= deadline {
                return Err(Absent::Failed(format!(
                    "the target was not ready ({}) within {}{}",
                    self.target.ready_in_words(),
                    quantity::duration(self.target.ready_within()),
                    self.last_lines()
                )));
            }
            std::thread::sleep(ASK);
        }
    }

    /// How it ended; none if it runs, or was never started.
    pub(crate) fn ended(&self) -> Option<String> {
        match &self.state {
            State::Absent | State::Elsewhere => None,
            State::Started(started) => {
                let status = started.child.borrow_mut().try_wait().ok()??;
                let hint = if status.success() { ", where it must stay in the foreground," } else { "" };
                Some(format!("the target ended with {}{hint}{}", shell::in_words(status), self.last_lines()))
            }
            State::Attached(processes) => {
                let gone = |&&(process, ticks): &&(u32, u64)| started_ticks(process) != Some(ticks);
                let (process, _) = processes.first()?;
                let all_gone = processes.iter().filter(gone).count() == processes.len();
                all_gone.then(|| format!("the target, process {process}, has exited"))
            }
        }
    }

    fn last_lines(&self) -> String {
        let State::Started(started) = &self.state else { return String::new() };
        let text = tail(&self.log, started.log_from).unwrap_or_default();
        match shell::last_lines(&text, LAST_LINES) {
            Some(lines) => format!(" (target.log: {lines})"),
            None => " (it printed nothing)".into(),
        }
    }

    /// The processes of the target; their descendants belong to it too.
    pub(crate) fn processes(&self) -> Vec<u32> {
        match &self.state {
            State::Absent | State::Elsewhere => Vec::new(),
            State::Started(started) => group_members(self.root, started.process),
            State::Attached(processes) => processes.iter().map(|(process, _)| *process).collect(),
        }
    }

    /// The `watch` entries of the target, with the name `target`.
    pub(crate) fn watch(&self) -> Vec<String> {
        let mut watch = Vec::new();
        let group = match (&self.state, self.target.origin()) {
            (State::Started(started), _) => {
                watch.push(format!("process:target={}", started.process));
                started.group.clone().ok()
            }
            (State::Attached(_), Some(Origin::Process(name))) => {
                watch.push(format!("process:target={name}"));
                None
            }
            (State::Attached(processes), _) => {
                watch.extend(processes.iter().map(|(process, _)| format!("process:target={process}")));
                None
            }
            (State::Absent, _) => None,
            (State::Elsewhere, _) => return watch,
        };
        let group = group.or_else(|| {
            let first = self.processes().first().copied()?;
            // A group that it shares with Plimsoll, for example the root, is not specific to it.
            let its = unified_group(self.root, first)?;
            (its != "/" && Some(&its) != unified_group(self.root, std::process::id()).as_ref()).then_some(its)
        });
        watch.extend(group.map(|group| format!("cgroup:target={group}")));
        watch
    }

    /// The facts about it for the record.
    pub(crate) fn facts(&self) -> Vec<(String, Level)> {
        let fact = |name: &str, level: Level| (format!("target.{name}"), level);
        match &self.state {
            State::Absent => Vec::new(),
            State::Elsewhere => {
                let machine = self.target.machine().unwrap_or_default();
                vec![fact("machine", Level::Text(machine.into()))]
            }
            State::Started(started) => {
                let line = self.target.settings.get(&START).unwrap_or_default();
                let group = match &started.group {
                    Ok(path) => path.clone(),
                    Err(why) => format!("none: {why}"),
                };
                let ready_after = started.ready_after / MILLISECOND * MILLISECOND;
                vec![
                    fact("command", Level::Text(line.to_string())),
                    fact("process", Level::Count(u64::from(started.process))),
                    fact("ready_after", Level::Time(ready_after)),
                    fact("cgroup", Level::Text(group)),
                ]
            }
            State::Attached(processes) => {
                let ids = processes.iter().map(|(process, _)| Level::Count(u64::from(*process))).collect();
                vec![fact("processes", Level::List(ids))]
            }
        }
    }

    /// Stops it if Plimsoll started it, first with SIGTERM. If it cannot be ended, the undo step remains in
    /// the journal.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        let State::Started(mut started) = std::mem::replace(&mut self.state, State::Absent) else {
            return Vec::new();
        };
        let mut remarks = Vec::new();
        let within = Duration::from_nanos(self.target.stop_within());
        let child = started.child.get_mut();
        let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if let Some(command) = self.target.settings.get(&STOP)
            && is_running(child)
        {
            let process = started.process.to_string();
            match shell::run(&command, &self.folder, &[("PLIMSOLL_TARGET_PID", &process)], within) {
                Ok(_) => {
                    let begin = std::time::Instant::now();
                    while is_running(child) && begin.elapsed() < within {
                        std::thread::sleep(ASK);
                    }
                }
                Err(why) => remarks.push(format!("stop: {why}")),
            }
        }
        remarks.extend(started.way_back.undo());
        // Ended, or blocked in such a way that waiting would never end.
        let _ = child.try_wait();
        remarks
    }
}

impl Drop for SystemUnderTest<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Checks whether the target can be started or found here. Changes nothing.
pub(crate) fn check(target: &Target, folder: &Path, root: &HostRoot) -> Problems {
    let mut problems = Problems::new();
    let mut problem = |setting: Option<&SettingInfo>, what: String, help: &str| {
        let line = setting.map_or(0, |setting| target.settings.line(setting.name));
        problems.push(Problem { line, ..Problem::new(what, help) });
    };
    match target.origin() {
        Some(Origin::Start(line)) => {
            let folder = directory(target, folder);
            if !folder.as_os_str().is_empty() && !folder.is_dir() {
                let what =
                    format!("the working directory of the target, {}, is not a folder", folder.display());
                problem(Some(&DIRECTORY), what, "name an existing folder");
            }
            match command_words(target, &line) {
                Err(what) => problem(Some(&START), what, ""),
                Ok(words) => {
                    let program = words.first().map_or("", String::as_str);
                    if !is_found(program, &folder, target) {
                        let what = format!("there is no program `{program}` to start the target with");
                        problem(Some(&START), what, "check that it is installed and in PATH");
                    }
                }
            }
        }
        Some(origin) if root.is_live() && target.machine().is_none() => {
            if let Err(what) = find(&origin) {
                problem(None, what, "start it first, or let [target] start it");
            }
        }
        _ => {}
    }
    // The log does not exist yet and is not read.
    if let Err(what) = Probe::open(target, Some((Path::new("/dev/null"), 0))) {
        problem(Some(&READY), what, "");
    }
    problems
}

/// Whether Plimsoll starts this target, and therefore can restart it.
pub(crate) fn is_started_by_us(target: &Target) -> bool {
    matches!(target.origin(), Some(Origin::Start(_)))
}

/// The working directory of the target and base of its relative paths.
pub(crate) fn directory(target: &Target, folder: &Path) -> PathBuf {
    match target.settings.text(&DIRECTORY) {
        Some(directory) => folder.join(directory),
        None => folder.to_path_buf(),
    }
}

fn command_words(target: &Target, line: &Secret) -> Result<Vec<String>, String> {
    if target.settings.get(&IN_SHELL) {
        return Ok(vec![SHELL.into(), "-c".into(), line.reveal().into()]);
    }
    let words = shell::words(line.reveal()).map_err(|why| format!("start = `{line}` {why}"))?;
    if words.is_empty() { Err("start = \"\" is not a command".into()) } else { Ok(words) }
}

/// Whether the shell would find this program.
fn is_found(program: &str, folder: &Path, target: &Target) -> bool {
    let is_file = |path: PathBuf| {
        fs::metadata(&path).is_ok_and(|data| data.is_file())
            && rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if program.contains('/') {
        return is_file(folder.join(program));
    }
    let path = match target.environment.get("PATH").map(model::Secret::reveal) {
        Some(path) => Some(path.into()),
        None => shell::search_path().or_else(|| std::env::var_os("PATH")),
    };
    path.is_some_and(|path| {
        std::env::split_paths(&path).any(|place| is_file(folder.join(place).join(program)))
    })
}

/// Opens the log for appending, and returns its length.
///
/// The run directory may come from an untrusted source: a link with this name is refused.
fn open_log(path: &Path) -> std::io::Result<(File, u64)> {
    let (folder, name) = files::Directory::of_file(path)?;
    let mut log = folder.open_append(name, files::PRIVATE_FILE)?;
    let end = log.seek(SeekFrom::End(0))?;
    Ok((log, end))
}

/// The end of the log, beginning at `from` or later.
fn tail(path: &Path, from: u64) -> std::io::Result<String> {
    let mut log = File::open(path)?;
    let end = log.metadata()?.len();
    log.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL))))?;
    let mut bytes = Vec::new();
    log.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Puts the shell, before it executes the command, into a separate control group, which all processes of the
/// target then inherit. Without a group, only some metrics are missing.
fn enclose(
    group: &FactorKind,
    root: &HostRoot,
    process: u32,
    way_back: &mut AppliedChanges,
) -> Result<String, String> {
    let wanted = Level::Flag(true);
    let mut factor = (group.open)(&FactorTarget::of(root.clone(), vec![process])).map_err(|why| why.0)?;
    factor.check(&wanted).map_err(|why| why.0)?;
    way_back.announce("target's cgroup", &*factor, &wanted)?;
    factor.set(&wanted).map_err(|why| why.0)?;
    factor.read().map(|path| path.to_string()).map_err(|why| why.0)
}

/// The processes of a system under test that is already running on this host, whose agent is asked by another one.
///
/// # Errors
/// When there is none.
pub fn running(target: &Target) -> Result<Vec<u32>, String> {
    let origin = target.origin().ok_or("[target] has neither `process` nor `pid`")?;
    Ok(find(&origin)?.into_iter().map(|(process, _)| process).collect())
}

/// What is watched on another machine. The entries of the target, such as `operation_io:target`, are only for that on which it runs.
pub fn watched_on(machine: &str, target: Option<&Target>, watch: &mut Vec<String>) {
    let here = target.filter(|target| target.machine() == Some(machine));
    let entry = match here.and_then(Target::origin) {
        Some(Origin::Process(name)) => Some(format!("process:target={name}")),
        Some(Origin::Pid(process)) => Some(format!("process:target={process}")),
        Some(Origin::Start(_)) | None => None,
    };
    match entry {
        Some(entry) => add_target(watch, vec![entry]),
        None => watch.retain(|entry| !entry.ends_with(":target")),
    }
}

/// The topmost processes of a running target, with their start times.
fn find(origin: &Origin<'_>) -> Result<Vec<(u32, u64)>, String> {
    let with_start = |process: u32| Some((process, started_ticks(process)?));
    match origin {
        Origin::Pid(process) => with_start(*process)
            .map(|found| vec![found])
            .ok_or_else(|| format!("there is no process {process}")),
        Origin::Process(name) => {
            let named: BTreeSet<u32> = processes(&HostRoot::live())
                .into_iter()
                .filter(|process| *process != std::process::id() && has_name(*process, name))
                .collect();
            let parent = |process: u32| ProcessStat::of(&HostRoot::live(), process)?.parent();
            let roots =
                named.iter().filter(|process| parent(**process).is_none_or(|of| !named.contains(&of)));
            let found: Vec<(u32, u64)> = roots.filter_map(|process| with_start(*process)).collect();
            if found.is_empty() { Err(format!("no process `{name}` is running")) } else { Ok(found) }
        }
        Origin::Start(_) => Err("Plimsoll starts it".into()),
    }
}

/// Whether this is the kernel's name of the process, or the name of its executable file.
fn has_name(process: u32, name: &str) -> bool {
    let called = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    // The kernel truncates the name to 15 bytes.
    if called.trim_end() == name {
        return true;
    }
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
    program.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes())
}

fn processes(root: &HostRoot) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(root.join("proc")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The leader of a process group and its other members.
fn group_members(root: &HostRoot, group: u32) -> Vec<u32> {
    let others = processes(root).into_iter().filter(|process| {
        *process != group && ProcessStat::of(root, *process).is_some_and(|stat| stat.group() == Some(group))
    });
    std::iter::once(group).chain(others).collect()
}

/// The cgroup v2 group of a process.
fn unified_group(root: &HostRoot, process: u32) -> Option<String> {
    let text = fs::read_to_string(root.join(format!("proc/{process}/cgroup"))).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(ToString::to_string)
}

/// Checks whether the target is ready.
enum Probe {
    /// No check is configured.
    Always,
    Tcp(Vec<SocketAddr>),
    Http(Vec<SocketAddr>, Request),
    Line {
        pattern: Regex,
        log: File,
        line: Vec<u8>,
        found: bool,
    },
}

impl Probe {
    /// `log` is the file of its output, and the offset from which it counts.
    fn open(target: &Target, log: Option<(&Path, u64)>) -> Result<Probe, String> {
        match target.readiness() {
            None => Ok(Probe::Always),
            Some(Readiness::Tcp(host)) => Ok(Probe::Tcp(resolve(host)?)),
            Some(Readiness::Http(url)) => {
                let page = Page::parse(url).map_err(|(what, help)| format!("{what}: {help}"))?;
                let addresses = resolve(&page.host)?;
                let request = Request::new(&addresses, &page);
                Ok(Probe::Http(addresses, request))
            }
            Some(Readiness::Line(pattern)) => {
                let (path, from) =
                    log.ok_or("the output of a process that is already running cannot be read")?;
                // The parser's message marks the position on separate lines.
                let pattern = Regex::new(pattern).map_err(|error| {
                    let words = error.to_string();
                    let last = words.lines().last().unwrap_or("").trim_start_matches("error: ").to_string();
                    format!("`{pattern}` is not a regular expression: {last}")
                })?;
                let open = || {
                    let mut log = File::open(path)?;
                    log.seek(SeekFrom::Start(from))?;
                    Ok(log)
                };
                let log = open().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))?;
                Ok(Probe::Line { pattern, log, line: Vec::new(), found: false })
            }
        }
    }

    /// Whether another process answers at the target's address. A process that was ended just now gets some
    /// time to disappear.
    fn is_taken(&self) -> bool {
        let (Probe::Tcp(addresses) | Probe::Http(addresses, _)) = self else { return false };
        (0..50).all(|_| {
            let answers = connect(addresses).is_some();
            if answers {
                std::thread::sleep(ASK);
            }
            answers
        })
    }

    /// Never waits for long.
    fn is_ready(&mut self, now: Nanos) -> bool {
        match self {
            Probe::Always => true,
            Probe::Tcp(addresses) => connect(addresses).is_some(),
            Probe::Http(_, request) => request.is_answered(now),
            Probe::Line { pattern, log, line, found } => {
                let mut part = [0; 8192];
                while let Ok(bytes @ 1..) = log.read(&mut part) {
                    for byte in &part[..bytes] {
                        if *byte == b'\n' {
                            let end = if line.last() == Some(&b'\r') { line.len() - 1 } else { line.len() };
                            *found |= pattern.is_match(&line[..end]);
                            line.clear();
                        } else if line.len() < LINE_MAX {
                            line.push(*byte);
                        }
                    }
                    if *found {
                        break;
                    }
                }
                *found
            }
        }
    }
}

/// Adds what watches the target. An entry such as `operation_io:target` gets the process id of the target.
pub(crate) fn add_target(watch: &mut Vec<String>, of_target: Vec<String>) {
    let process = of_target.iter().find_map(|entry| entry.strip_prefix("process:target="));
    if let Some(process) = process {
        for entry in watch.iter_mut().filter(|entry| entry.ends_with(":target")) {
            entry.push('=');
            entry.push_str(process);
        }
    }
    watch.extend(of_target);
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Settings;
    use model::experiment::TARGET_SETTINGS;
    use testkit::Scratch;

    #[test]
    fn an_entry_for_the_target_gets_its_process() {
        let mut watch = vec!["host".to_string(), "operation_io:target".into(), "process:slapd".into()];
        add_target(&mut watch, vec!["process:target=4711".into(), "cgroup:target=/a".into()]);
        assert_eq!(
            watch,
            ["host", "operation_io:target=4711", "process:slapd", "process:target=4711", "cgroup:target=/a"]
        );
        let mut absent = vec!["operation_io:target".to_string()];
        add_target(&mut absent, Vec::new());
        assert_eq!(absent, ["operation_io:target"]);
    }

    fn target(settings: &[(&str, Level)]) -> Target {
        let mut target = Target { settings: Settings::defaults(TARGET_SETTINGS), ..Target::default() };
        for (name, level) in settings {
            target.settings.set(name, level.clone());
        }
        target
    }

    fn text(text: &str) -> Level {
        Level::Text(text.into())
    }

    #[test]
    fn a_line_counts_from_where_this_start_begins() {
        let folder = Scratch::new();
        let log = folder.file("target.log", "up\nstarting\r\n");
        let target = target(&[("ready", text("line:^up$"))]);
        let mut probe = Probe::open(&target, Some((&log, 3))).unwrap();
        assert!(!probe.is_ready(0));
        let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
        for (part, expected) in [("u", false), ("p", false), ("\r\n", true), ("later\n", true)] {
            file.write_all(part.as_bytes()).unwrap();
            assert_eq!(probe.is_ready(0), expected, "{part:?}");
        }
        assert_eq!(tail(&log, 3).unwrap(), "starting\r\nup\r\nlater\n");
        assert!(!probe.is_taken());
    }

    #[test]
    fn a_port_that_answers_is_taken_and_ready() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ready = format!("tcp://{}", listener.local_addr().unwrap());
        let target = target(&[("ready", text(&ready))]);
        let mut probe = Probe::open(&target, None).unwrap();
        assert!(probe.is_taken() && probe.is_ready(0));
        drop(listener);
        assert!(!probe.is_taken() && !probe.is_ready(0));
    }

    #[test]
    fn what_cannot_be_started_or_found_is_reported() {
        let folder = Scratch::new();
        folder.file("no-program", "");
        for (settings, expected) in [
            (vec![("start", text("no-such-program-here -x"))], "no program `no-such-program-here`"),
            (vec![("start", text("./no-program"))], "no program `./no-program`"),
            (vec![("start", text("sh -c 'x"))], "does not end"),
            (vec![("start", text("sh")), ("directory", text("absent"))], "is not a folder"),
            (vec![("start", text("sh")), ("ready", text("line:("))], "is not a regular expression"),
            (vec![("start", text("sh")), ("ready", text("http://a b/"))], "is not the address of a page"),
            (vec![("process", text("no such process"))], "no process `no such process` is running"),
            (vec![("pid", Level::Count(i32::MAX as u64))], "there is no process 2147483647"),
        ] {
            let problems = check(&target(&settings), folder.path(), &HostRoot::live());
            let reported = problems.0.iter().any(|problem| problem.what.contains(expected));
            assert!(reported, "{settings:?}: {problems:?}");
        }
        let fine = target(&[("start", text("sh -c 'exit 0'")), ("ready", text("line:x"))]);
        assert!(check(&fine, folder.path(), &HostRoot::live()).is_empty());
    }

    #[test]
    fn the_topmost_processes_of_a_name_are_found() {
        let mut child =
            Command::new("/bin/sh").args(["-c", "sleep 60 & wait"]).process_group(0).spawn().unwrap();
        let found = find(&Origin::Pid(child.id())).unwrap();
        assert_eq!(found, [(child.id(), started_ticks(child.id()).unwrap())]);
        let all = find(&Origin::Process("sh")).unwrap();
        assert!(all.iter().any(|(process, _)| *process == child.id()));
        assert!(has_name(child.id(), "sh") && !has_name(child.id(), "bash"));
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::KILL,
        );
        child.wait().unwrap();
        assert!(find(&Origin::Pid(child.id())).is_err());
    }

    #[test]
    fn a_mark_is_new_each_time() {
        assert_ne!(new_mark(), new_mark());
    }
}
