//! A launched command and everything it started: a process group that is ended as a whole.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use engine::shell::SHELL;
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

/// A process group. Its first process is not reaped before the group is empty, so that no other group can have its number
/// meanwhile.
pub(crate) struct Group {
    leader: Child,
    pid: Pid,
    /// Becomes readable when the first process has ended.
    pidfd: OwnedFd,
    reaped: bool,
}

impl Group {
    /// Launches a command as a group of its own, without input.
    pub(crate) fn launch(command: &mut Command) -> io::Result<Group> {
        let mut leader = command.stdin(Stdio::null()).process_group(0).spawn()?;
        let pid = Pid::from_child(&leader);
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Group { leader, pid, pidfd, reaped: false }),
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
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Is anything of the group still running?
    fn is_running(&self) -> bool {
        self.ending().is_none() || has_other_members(self.number())
    }

    fn reap(&mut self) {
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

/// Is there a living process in this group besides its first?
fn has_other_members(group: i32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { return false };
        if process == group {
            return false;
        }
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, in parentheses: state, parent, group.
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
        let state = fields.next().unwrap_or("Z");
        state != "Z" && state != "X" && fields.nth(1).and_then(|text| text.parse().ok()) == Some(group)
    })
}

/// A group that is being ended: SIGTERM, some time to comply, SIGKILL.
pub(crate) struct Stopping {
    group: Group,
    grace: Nanos,
    asked: Option<Nanos>,
    killed: bool,
}

impl Stopping {
    pub(crate) fn new(group: Group, grace: Nanos) -> Self {
        Stopping { group, grace, asked: None, killed: false }
    }

    /// Goes on with it, waiting a few milliseconds at most. True when nothing of the group is left.
    ///
    /// # Errors
    /// When a process withstands SIGKILL.
    pub(crate) fn step(&mut self, now: Nanos) -> Result<bool, LoadError> {
        if !self.group.is_running() {
            self.group.reap();
            return Ok(true);
        }
        match self.asked {
            None => {
                self.group.signal(Signal::TERM);
                self.asked = Some(now);
            }
            Some(asked) if !self.killed && now >= asked.saturating_add(self.grace) => {
                self.group.signal(Signal::KILL);
                self.killed = true;
            }
            Some(asked) if now >= asked.saturating_add(self.grace).saturating_add(KILL_MAX) => {
                return Err(LoadError::new(
                    format!(
                        "a process of group {} cannot be ended, not even by SIGKILL",
                        self.group.number()
                    ),
                    "it waits for a device: see the kernel's log (dmesg)",
                ));
            }
            Some(_) => std::thread::sleep(Duration::from_nanos(2 * MILLISECOND)),
        }
        Ok(false)
    }

    /// True when SIGTERM was not enough.
    pub(crate) fn was_killed(&self) -> bool {
        self.killed
    }
}

/// Ends the present group when Plimsoll itself is killed: a shell that waits for the end of its input, which comes
/// however we go. The kernel's own death signal reaches only one process, goes out with the thread that asked for it, and
/// asking for it makes a launch slower.
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// Starts the shell. It stands in a group of its own, so that Ctrl-C at the terminal does not end it too early.
    pub(crate) fn start() -> io::Result<Guard> {
        const SCRIPT: &str = "trap '' INT TERM HUP; group=; while read -r line; do group=$line; done; \
                              [ -z \"$group\" ] || kill -s KILL -- \"-$group\"";
        let shell = Command::new(SHELL)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Guard { shell })
    }

    /// Watches this group, and no other any more.
    pub(crate) fn watch(&mut self, group: &Group) {
        self.tell(&format!("{}\n", group.number()));
    }

    /// Watches none.
    pub(crate) fn rest(&mut self) {
        self.tell("\n");
    }

    /// A guard that was killed guards no more; the launch goes on without.
    fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.shell.stdin {
            let _ = input.write_all(line.as_bytes());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Can this be launched: a path, or a name to be found in `PATH`?
pub(crate) fn is_program(program: &str) -> bool {
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

    fn shell(script: &str) -> Group {
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
    fn how_it_ended_is_known_before_it_is_reaped() {
        for (script, expected) in
            [("exit 3", Ending::Exited(3)), ("true", Ending::Exited(0)), ("kill -9 $$", Ending::Killed(9))]
        {
            let group = shell(script);
            wait_for("it does not end", || group.ending().is_some());
            assert_eq!((group.ending(), group.ending()), (Some(expected), Some(expected)));
            assert!(!stop(group, SECOND));
        }
    }

    #[test]
    fn children_end_with_it() {
        let group = shell("sleep 60 & sleep 60 & wait");
        let number = group.number();
        wait_for("no child", || has_other_members(number));
        assert!(!stop(group, 10 * SECOND));
    }

    #[test]
    fn children_left_behind_are_ended() {
        let group = shell("sleep 60 & exit 0");
        wait_for("it does not end", || group.ending().is_some());
        assert!(has_other_members(group.number()));
        assert!(!stop(group, 10 * SECOND));
    }

    #[test]
    fn one_that_does_not_listen_is_killed() {
        let folder = testkit::Scratch::new();
        let mark = folder.join("deaf");
        let group = shell(&format!("trap '' TERM; : > '{}'; sleep 60 & wait; sleep 60", mark.display()));
        wait_for("it does not start", || mark.exists());
        assert!(stop(group, 50 * MILLISECOND));
    }

    #[test]
    fn dropping_it_ends_it() {
        let group = shell("sleep 60 & wait");
        let number = group.number();
        wait_for("no child", || has_other_members(number));
        drop(group);
        wait_for("a child is left", || !has_other_members(number));
    }

    #[test]
    fn a_guard_whose_input_ends_kills_the_group_it_watches_and_no_other() {
        let (watched, other) = (shell("sleep 60 & wait"), shell("sleep 60 & wait"));
        let mut guard = Guard::start().unwrap();
        guard.watch(&other);
        guard.rest();
        guard.watch(&watched);
        drop(guard);
        wait_for("the guard does nothing", || watched.ending().is_some());
        assert_eq!(watched.ending(), Some(Ending::Killed(9)));
        assert_eq!(other.ending(), None);

        let mut guard = Guard::start().unwrap();
        guard.watch(&other);
        guard.rest();
        drop(guard);
        assert_eq!(other.ending(), None);
    }
}
