//! A launched command and its child processes: a process group that is ended as a whole.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use engine::process_stat::started_ticks;
use engine::shell::{self, SHELL};
use engine::workload::LoadError;
use model::{MILLISECOND, Nanos, SECOND};
use rustix::fs::Access;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

/// How long after SIGKILL a process may still be there, while the kernel waits for a device.
const KILL_MAX: Nanos = 30 * SECOND;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With this status.
    Exited(u8),
    /// By this signal.
    Killed(u8),
}

impl std::fmt::Display for Ending {
    /// `exit status 3`, `signal 9`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exited(status) => write!(f, "exit status {status}"),
            Ending::Killed(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Lets shell commands find the program that runs as `plimsoll`.
pub(crate) fn set_search_path(command: &mut Command) {
    if let Some(path) = shell::search_path() {
        command.env("PATH", path);
    }
}

/// A process group. Its first process is not reaped before the group is empty, so that no other group can have its number
/// meanwhile.
pub(crate) struct Group {
    leader: Child,
    pid: Pid,
    /// Becomes readable when the first process has ended.
    pidfd: OwnedFd,
    reaped: bool,
    /// The guard that must stop watching the group before its number is released.
    watcher: OnceLock<Arc<Watch>>,
}

impl Group {
    /// Launches a command as a group of its own, without input.
    pub(crate) fn launch(command: &mut Command) -> io::Result<Group> {
        let mut leader = shell::spawn(command.stdin(Stdio::null()).process_group(0))?;
        let pid = Pid::from_child(&leader);
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Group { leader, pid, pidfd, reaped: false, watcher: OnceLock::new() }),
            Err(error) => {
                let _ = leader.kill();
                let _ = leader.wait();
                Err(error.into())
            }
        }
    }

    /// Number of the group.
    pub(crate) fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Becomes readable when the first process has ended.
    pub(crate) fn ended_source(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// How the first process has ended, if it has. It is not reaped by this.
    pub(crate) fn ending(&self) -> Option<Ending> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(Ending::Exited(code as u8)),
            (None, Some(signal)) => Some(Ending::Killed(signal as u8)),
            (None, None) => None,
        }
    }

    /// Sends a signal to all of the group. To one that is gone already is fine.
    fn signal(&self, signal: Signal) {
        if self.reaped {
            return;
        }
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Whether a process of the group is still running.
    fn is_running(&self) -> bool {
        !self.reaped && (self.ending().is_none() || has_other_members(self.number()))
    }

    /// From now on, another group can have this number.
    fn reap(&mut self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.end(self.number());
        }
        let _ = self.leader.wait();
        self.reaped = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            self.reap();
        }
    }
}

/// Whether this group has a living process besides its first.
fn has_other_members(group: i32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { return false };
        if process == group {
            return false;
        }
        is_member(process, group)
    })
}

/// Whether a living process belongs to this group.
pub(crate) fn is_member(process: i32, group: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name, in parentheses: state, parent, group.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let state = fields.next().unwrap_or("Z");
    state != "Z" && state != "X" && fields.nth(1).and_then(|text| text.parse().ok()) == Some(group)
}

/// A group that is being ended: SIGTERM, some time to comply, SIGKILL.
pub(crate) struct Stopping {
    group: Group,
    grace: Nanos,
    asked: Option<Nanos>,
    killed: bool,
    left_behind: bool,
}

impl Stopping {
    pub(crate) fn new(group: Group, grace: Nanos) -> Self {
        Stopping { group, grace, asked: None, killed: false, left_behind: false }
    }

    /// Continues with it, waiting at most a few milliseconds. True if the group has ended.
    ///
    /// # Errors
    /// If a process does not exit after SIGKILL.
    pub(crate) fn step(&mut self, now: Nanos) -> Result<bool, LoadError> {
        if !self.group.is_running() {
            if !self.group.reaped {
                self.group.reap();
            }
            return Ok(true);
        }
        match self.asked {
            None => {
                self.left_behind = self.group.ending().is_some();
                self.group.signal(Signal::TERM);
                self.asked = Some(now);
            }
            Some(asked) if !self.killed && now >= asked.saturating_add(self.grace) => {
                self.group.signal(Signal::KILL);
                self.killed = true;
            }
            Some(asked) if now >= asked.saturating_add(self.grace).saturating_add(KILL_MAX) => {
                return Err(LoadError::new(
                    format!("a process of group {} does not exit after SIGKILL", self.group.number()),
                    "it waits for a device: see the kernel's log (dmesg)",
                ));
            }
            Some(_) => std::thread::sleep(Duration::from_nanos(2 * MILLISECOND)),
        }
        Ok(false)
    }

    /// The group.
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// True when the first process had ended and others of the group had not.
    pub(crate) fn left_behind(&self) -> bool {
        self.left_behind
    }

    /// True when SIGTERM was not enough.
    pub(crate) fn was_killed(&self) -> bool {
        self.killed
    }
}

/// Ends the present group when Plimsoll itself is killed: a shell that waits for the end of its input, which comes
/// however we go. The kernel's own death signal reaches only one process, is lost with the thread that set it, and
/// asking for it makes a launch slower.
///
/// It must not kill another group that has the number later. While Plimsoll lives, the group ends the watch before its
/// first process is reaped. Once Plimsoll is dead, init reaps it: the guard then compares when the process of that number
/// was started, and leaves a younger one alone. Without such a process the number is that of our group's other members, or
/// nobody's.
pub(crate) struct Guard {
    shell: Child,
    watch: Arc<Watch>,
}

/// The group that a guard watches.
#[derive(Debug)]
struct Watch(Mutex<(Option<ChildStdin>, Option<i32>)>);

impl Watch {
    /// Watches a group, given by its number and when its first process was started, and no other any more.
    fn begin(&self, number: i32, start: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(number);
        send(&mut state.0, &format!("{number} {start}\n"));
    }

    /// Stops watching this group.
    fn end(&self, number: i32) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.1 == Some(number) {
            state.1 = None;
            send(&mut state.0, "\n");
        }
    }
}

/// If the guard was killed, the launch continues without it.
fn send(input: &mut Option<ChildStdin>, line: &str) {
    if let Some(input) = input {
        let _ = input.write_all(line.as_bytes());
    }
}

impl Guard {
    /// Starts the shell. It has a group of its own, so that Ctrl-C at the terminal does not end it too early.
    ///
    /// # Errors
    /// When it cannot be started; and when SIGCHLD is ignored, because the kernel then gives up the numbers of processes
    /// before anybody has asked how they ended.
    pub(crate) fn start() -> io::Result<Guard> {
        // Field 22 of the file, which is the 20th after the name: when the process was started.
        const SCRIPT: &str = "set -f; trap '' INT TERM HUP; group=; start=; \
                              while read -r number when; do group=$number start=$when; done; \
                              [ -n \"$group\" ] || exit 0; \
                              if read -r stat < \"/proc/$group/stat\"; then \
                              set -- ${stat##*) }; [ \"${20}\" = \"$start\" ] || exit 0; fi; \
                              kill -s KILL -- \"-$group\"";
        if ignores_ended_children() {
            return Err(io::Error::other(
                "the program that started plimsoll ignores SIGCHLD: start plimsoll from a shell",
            ));
        }
        let mut command = Command::new(SHELL);
        command.args(["-c", SCRIPT]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = shell::spawn(&mut command)?;
        let input = shell.stdin.take();
        Ok(Guard { shell, watch: Arc::new(Watch(Mutex::new((input, None)))) })
    }

    /// Watches this group until it is over, and no other any more.
    pub(crate) fn watch(&mut self, group: &Group) {
        let number = group.number();
        let start = u32::try_from(number)
            .ok()
            .and_then(started_ticks)
            .map_or_else(String::new, |start| start.to_string());
        self.watch.begin(number, &start);
        let _ = group.watcher.set(Arc::clone(&self.watch));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.watch.0.lock().unwrap_or_else(PoisonError::into_inner).0.take());
        let _ = self.shell.wait();
    }
}

/// Whether this process was started with SIGCHLD ignored.
fn ignores_ended_children() -> bool {
    const SIGCHLD_BIT: u64 = 1 << 16;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    ignored.is_some_and(|signals| signals & SIGCHLD_BIT != 0)
}

/// Whether this can be launched: a path, or a name in `PATH`.
pub fn is_program(program: &str) -> bool {
    let executable = |path: &Path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return executable(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    !program.is_empty() && std::env::split_paths(&path).any(|folder| executable(&folder.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::clock::Clock;

    fn launch(script: &str) -> Group {
        Group::launch(Command::new(SHELL).args(["-c", script]).stdout(Stdio::null())).unwrap()
    }

    fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
        for _ in 0..2000 {
            if is_true() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{what}");
    }

    fn stop(group: Group, grace: Nanos) -> bool {
        let number = group.number();
        let mut stopping = Stopping::new(group, grace);
        wait_for("it does not end", || stopping.step(Clock::get().now()).unwrap());
        assert!(!has_other_members(number));
        assert!(!fs::exists(format!("/proc/{number}")).unwrap());
        stopping.was_killed()
    }

    #[test]
    fn a_group_inherits_its_standard_streams_only() {
        let scratch = testkit::Scratch::new();
        scratch.file("lock", "");
        let file = fs::File::open(scratch.join("lock")).unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let list = scratch.join("list");
        let group = launch(&format!("ls -l /proc/self/fd > '{}'", list.display()));
        wait_for("it does not end", || group.ending().is_some());
        let listed = fs::read_to_string(list).unwrap();
        // The three, and the folder that is listed.
        assert_eq!(listed.matches(" -> ").count(), 4, "{listed}");
        assert!(!listed.contains("/lock"), "{listed}");
    }

    #[test]
    fn how_it_ended_is_known_before_it_is_reaped() {
        for (script, expected) in
            [("exit 3", Ending::Exited(3)), ("true", Ending::Exited(0)), ("kill -9 $$", Ending::Killed(9))]
        {
            let group = launch(script);
            wait_for("it does not end", || group.ending().is_some());
            assert_eq!((group.ending(), group.ending()), (Some(expected), Some(expected)));
            assert!(!stop(group, SECOND));
        }
    }

    #[test]
    fn children_end_with_it() {
        let group = launch("sleep 60 & sleep 60 & wait");
        let number = group.number();
        wait_for("no child", || has_other_members(number));
        assert!(!stop(group, 10 * SECOND));
    }

    #[test]
    fn children_left_behind_are_ended() {
        let group = launch("sleep 60 & exit 0");
        wait_for("it does not end", || group.ending().is_some());
        assert!(has_other_members(group.number()));
        assert!(!stop(group, 10 * SECOND));
    }

    #[test]
    fn one_that_does_not_listen_is_killed() {
        let folder = testkit::Scratch::new();
        let mark = folder.join("deaf");
        let group = launch(&format!("trap '' TERM; : > '{}'; sleep 60 & wait; sleep 60", mark.display()));
        wait_for("it does not start", || mark.exists());
        assert!(stop(group, 50 * MILLISECOND));
    }

    #[test]
    fn dropping_it_ends_it() {
        let group = launch("sleep 60 & wait");
        let number = group.number();
        wait_for("no child", || has_other_members(number));
        drop(group);
        wait_for("a child is left", || !has_other_members(number));
    }

    #[test]
    fn a_guard_whose_input_ends_kills_the_group_it_watches_and_no_other() {
        let (watched, other) = (launch("sleep 60 & wait"), launch("sleep 60 & wait"));
        let mut guard = Guard::start().unwrap();
        guard.watch(&other);
        guard.watch(&watched);
        drop(guard);
        wait_for("the guard does nothing", || watched.ending().is_some());
        assert_eq!(watched.ending(), Some(Ending::Killed(9)));
        assert_eq!(other.ending(), None);
    }

    /// A group with this number, which was another one's before; none where the number of a process cannot be chosen.
    fn shell_with_number(number: i32, script: &str) -> Option<Group> {
        if testkit::lacks(testkit::Need::ProcessNumber) {
            return None;
        }
        let mut found = None;
        // Another process may take the number first, and keep it for a while.
        wait_for("other processes keep the number", || {
            fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
            let group = launch(script);
            if group.number() == number {
                found = Some(group);
            }
            found.is_some()
        });
        found
    }

    /// Whether no signal was sent to it, or none that has come yet.
    fn is_left_alone(group: &Group) -> bool {
        std::thread::sleep(Duration::from_millis(50));
        group.ending().is_none()
    }

    #[test]
    fn a_number_that_was_given_to_another_group_is_not_killed() {
        // Its group is gone, as after a preparation.
        let group = launch("true");
        let number = group.number();
        let mut guard = Guard::start().unwrap();
        guard.watch(&group);
        drop(group);
        let Some(other) = shell_with_number(number, "sleep 60 & wait") else { return };
        drop(guard);
        assert!(is_left_alone(&other));
    }

    #[test]
    fn a_number_that_is_another_groups_when_the_guard_is_alone_is_not_killed() {
        // Plimsoll was killed and init has reaped the group; the guard still watches.
        let mut group = launch("true");
        let number = group.number();
        let mut guard = Guard::start().unwrap();
        guard.watch(&group);
        let _ = group.leader.wait();
        std::mem::forget(group);
        // The kernel says in hundredths of a second when a process was started. No number comes round as quickly.
        std::thread::sleep(Duration::from_millis(30));
        let Some(other) = shell_with_number(number, "sleep 60 & wait") else { return };
        drop(guard);
        assert!(is_left_alone(&other));
    }

    #[test]
    fn what_was_reaped_is_sent_no_signal() {
        let group = launch("true");
        let number = group.number();
        let mut stopping = Stopping::new(group, SECOND);
        wait_for("it does not end", || stopping.step(Clock::get().now()).unwrap());
        let Some(other) = shell_with_number(number, "sleep 60 & wait") else { return };
        assert!(stopping.step(Clock::get().now()).unwrap());
        assert!(is_left_alone(&other));
    }
}
