//! Executes the undo steps of a journal, in this process or in a later one.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::factor::{COMMAND_VARIABLE, TARGET_VARIABLE, Undo};
use engine::source::{HostRoot, Unavailable};
use model::{Nanos, Secret, SecretParts};
use rustix::process::Signal;

use crate::cgroup::{NAME_PREFIX, denied, is_ours, move_process};
use crate::config::file::{self, fingerprint};
use crate::cpus::{self, CpuList};
use crate::filesystem;
use crate::process::{ProcessHandle, Stat, all, with_descendants};

/// Timeout of the wait for an empty group.
const PATIENCE: Duration = Duration::from_secs(5);

/// Executes one step. Succeeds if the step is already done, so a journal can be executed any number of times.
///
/// # Errors
/// What could not be undone, and why.
pub fn carry_out(step: &Undo) -> Result<(), Unavailable> {
    match step {
        Undo::WriteControl { path, text } => write_control(path, text),
        Undo::RestoreValue { path, key, at, before, written, file_before, file_written } => {
            restore_value(path, key, *at, (before, written), (file_before, file_written))
        }
        Undo::RemoveCgroup { path, parent } => remove_cgroup(path, parent),
        Undo::Affinity { process, started_ticks, cpus } => {
            restore_affinity(&HostRoot::live(), *process, *started_ticks, cpus)
        }
        Undo::EndTarget { process, started_ticks, mark, group, within } => {
            end_target("target", &Members::of(*process, *started_ticks, mark, group), *within)
        }
        // Known by its mark only, which is in the journal before the process exists.
        Undo::EndNeighbour { mark } => end_target("neighbour", &Members::marked(mark), 0),
        Undo::EndCommand { mark, within } => end_command(mark, *within),
        Undo::Unmount { point, uuid } => filesystem::remove(point, uuid),
        Undo::EraseFileSystem { device, uuid } => filesystem::erase(device, uuid),
        Undo::RemoveFolder { path, made_as, modified_unix_s } => {
            filesystem::remove_folder(path, made_as, *modified_unix_s)
        }
        Undo::Command { command, folder, within } => engine::shell::run(
            &Secret::new(command, SecretParts::Command),
            folder,
            &[],
            Duration::from_nanos(*within),
        )
        .map(|_| ())
        .map_err(Unavailable),
    }
}

/// Why there is nothing left to undo by a step; none if there is. Changes nothing.
pub fn nothing_left(step: &Undo) -> Option<String> {
    let root = HostRoot::live();
    let (is_over, why) = match step {
        Undo::WriteControl { path, .. } => {
            (is_missing(path), format!("{} does not exist any more", path.display()))
        }
        Undo::RestoreValue { path, key, before, file_before, .. } => {
            if is_missing(path) {
                return Some(format!("{} does not exist any more", path.display()));
            }
            let is_as_before = file::read(path).is_ok_and(|text| fingerprint(&text) == *file_before);
            let key = if key.is_empty() { "the value" } else { key };
            (is_as_before, format!("{key} in {} is `{before}` already", path.display()))
        }
        Undo::RemoveCgroup { path, .. } => {
            (is_missing(path), format!("{} does not exist any more", path.display()))
        }
        Undo::Affinity { process, started_ticks, .. } => {
            let stat = Stat::of(&root, *process);
            let is_it = stat.is_some_and(|stat| stat.is_alive && stat.started_ticks == *started_ticks);
            (!is_it, format!("process {process} has ended"))
        }
        Undo::EndTarget { process, started_ticks, mark, group, .. } => (
            Members::of(*process, *started_ticks, mark, group).living(&root).is_empty(),
            format!("process {process} and its child processes have ended"),
        ),
        Undo::EndNeighbour { mark } => {
            (Members::marked(mark).living(&root).is_empty(), "the process of the neighbour has ended".into())
        }
        Undo::EndCommand { mark, .. } => {
            (commands(&root, mark).is_empty(), "the command that makes the change has ended".into())
        }
        Undo::Unmount { point, uuid } => (
            !filesystem::is_mounted(point, uuid),
            format!("the file system {uuid} is not mounted at {}", point.display()),
        ),
        Undo::EraseFileSystem { device, uuid } => (
            !filesystem::is_on(device, uuid),
            format!("{} does not have the file system {uuid}", device.display()),
        ),
        Undo::RemoveFolder { path, made_as, modified_unix_s } => (
            !filesystem::has_folder(path, made_as, *modified_unix_s),
            format!("the directory {} is gone, or was used", path.display()),
        ),
        Undo::Command { .. } => (false, String::new()),
    };
    is_over.then_some(why)
}

fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// If a control file does not exist any more, there is nothing to restore.
fn write_control(path: &Path, text: &str) -> Result<(), Unavailable> {
    let file = match fs::OpenOptions::new().write(true).truncate(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file,
    };
    file.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(|error| denied(path, &format!("writing `{text}`"), error))
}

/// Restores a value in a file whose content is exactly what was written. A missing file is not created.
fn restore_value(
    path: &Path,
    key: &str,
    at: u64,
    (before, written): (&str, &str),
    (file_before, file_written): (&str, &str),
) -> Result<(), Unavailable> {
    if is_missing(path) {
        return Ok(());
    }
    let text = file::read(path)?;
    let now = fingerprint(&text);
    if now == file_before {
        return Ok(());
    }
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let restored = match (text.get(..at), text.get(at..).and_then(|rest| rest.strip_prefix(written))) {
        (Some(front), Some(rest)) if now == file_written => format!("{front}{before}{rest}"),
        _ => {
            let key = if key.is_empty() { "the value" } else { key };
            return Err(Unavailable(format!(
                "{} was edited after Plimsoll changed it, so it was not restored: {key} was `{before}` \
                before, Plimsoll wrote `{written}`; correct the file, then run `plimsoll restore \
                --discard`",
                path.display()
            )));
        }
    };
    file::replace(path, &text, &restored)
}

/// Moves every process of the group to `parent`, including unexpected ones, and removes the group. Processes
/// may fork meanwhile, so this is repeated until the kernel removes the group.
fn remove_cgroup(path: &Path, parent: &Path) -> Result<(), Unavailable> {
    if !is_ours(path) {
        return Err(Unavailable(format!(
            "{} is not a group created by Plimsoll ({NAME_PREFIX}...) and was not removed",
            path.display()
        )));
    }
    let begin = Instant::now();
    let target = parent.join("cgroup.procs");
    loop {
        let members = match fs::read_to_string(path.join("cgroup.procs")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => return Ok(()),
            Err(error) => return Err(denied(path, "reading its processes", error)),
        };
        for process in members.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
            move_process(&target, process)?;
        }
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(denied(path, "removing the group", error)),
        }
    }
}

/// Descendants are restored too: those that started meanwhile inherited the restriction and are not in the
/// journal.
fn restore_affinity(
    root: &HostRoot,
    process: u32,
    started_ticks: u64,
    cpus: &str,
) -> Result<(), Unavailable> {
    if Stat::of(root, process).is_none_or(|stat| stat.started_ticks != started_ticks) {
        return Ok(());
    }
    let cpus = CpuList::parse(cpus)
        .ok_or_else(|| Unavailable(format!("process {process}: `{cpus}` is not a list of CPUs")))?;
    for process in with_descendants(root, &[process]) {
        cpus::confine(root, process, &cpus)?;
    }
    Ok(())
}

/// How long a process may exist after SIGKILL, while the kernel waits for a device.
const KILL_MAX: Duration = Duration::from_secs(30);

/// Sends SIGTERM to all processes of the target, and SIGKILL to the remaining ones after a while. Processes that the others
/// start to clean up get it only if they remain.
fn end_target(what: &str, target: &Members<'_>, within: Nanos) -> Result<(), Unavailable> {
    let root = HostRoot::live();
    let begin = Instant::now();
    let (grace, mut asked) = (Duration::from_nanos(within), Vec::new());
    loop {
        let members = target.living(&root);
        // One that is ending has no variables any more, but its memory may still be in use.
        let is_ending = |&(process, started_ticks): &(u32, u64)| {
            let stat = Stat::of(&root, process);
            stat.is_some_and(|stat| stat.is_alive && stat.started_ticks == started_ticks)
        };
        if members.is_empty() && !asked.iter().any(is_ending) {
            return Ok(());
        }
        let late = begin.elapsed() >= grace;
        // What begins while the others end is their clean-up, such as `rm` in the exit trap of a shell.
        let others_end = members.iter().any(|member| asked.contains(&member.started()));
        for member in &members {
            let signal = match late {
                true => Signal::KILL,
                false if others_end => continue,
                false => Signal::TERM,
            };
            asked.push(member.started());
            member.signal(signal).map_err(|error| {
                Unavailable(format!(
                    "process {} of the {what} cannot be stopped: {error}; run as the same user",
                    member.process
                ))
            })?;
        }
        if begin.elapsed() >= grace.saturating_add(KILL_MAX) {
            return Err(Unavailable(format!(
                "process {} of the {what} does not exit after SIGKILL: it waits for a device; see the \
                kernel's log (dmesg)",
                members.first().map_or(target.process, |member| member.process)
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What identifies the processes of a target or of a neighbour.
struct Members<'a> {
    /// The first process, which leads a process group; 0 if it is not known.
    process: u32,
    started_ticks: u64,
    /// The value of a variable of their environments.
    mark: &'a str,
    /// The control group that was made for them alone.
    group: &'a Path,
}

impl<'a> Members<'a> {
    fn of(process: u32, started_ticks: u64, mark: &'a str, group: &'a Path) -> Members<'a> {
        Members { process, started_ticks, mark, group }
    }

    fn marked(mark: &'a str) -> Members<'a> {
        Members::of(0, 0, mark, Path::new(""))
    }

    /// The living processes: the first one with its process group and descendants, unless another process has its id, and all
    /// that have the mark or are in the control group: a server may clear its environment. Zombies are not included.
    fn living(&self, root: &HostRoot) -> Vec<ProcessHandle> {
        let wanted = format!("{TARGET_VARIABLE}={}", self.mark);
        let first = Stat::of(root, self.process).filter(|stat| stat.started_ticks == self.started_ticks);
        let descendants = if first.is_some() { with_descendants(root, &[self.process]) } else { Vec::new() };
        let enclosed = match is_ours(self.group) {
            true => fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default(),
            false => String::new(),
        };
        let enclosed: Vec<u32> = enclosed.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect();
        let this = std::process::id();
        let belongs = |member: u32, stat: &Stat| {
            if (first.is_some() && stat.group == self.process)
                || descendants.contains(&member)
                || enclosed.contains(&member)
            {
                return true;
            }
            has_variable(root, member, &wanted)
        };
        let members = all(root).into_iter().filter(|member| *member != this);
        members
            .filter_map(|member| {
                ProcessHandle::if_it(root, member, |stat| stat.is_alive && belongs(member, stat))
            })
            .collect()
    }
}

/// Whether a process has a variable with this value: `NAME=value`.
fn has_variable(root: &HostRoot, process: u32, wanted: &str) -> bool {
    let environment = fs::read(root.join(format!("proc/{process}/environ"))).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// The commands with a mark that have not ended. Each leads the process group in which it was started; a daemon that it left has
/// a session of its own.
fn commands(root: &HostRoot, mark: &str) -> Vec<ProcessHandle> {
    let wanted = format!("{COMMAND_VARIABLE}={mark}");
    let found = all(root).into_iter().filter_map(|process| {
        ProcessHandle::if_it(root, process, |stat| {
            stat.is_alive
                && stat.group == process
                && stat.session != process
                && has_variable(root, process, &wanted)
        })
    });
    found.collect()
}

fn end_command(mark: &str, within: Nanos) -> Result<(), Unavailable> {
    let root = HostRoot::live();
    let begin = Instant::now();
    let grace = Duration::from_nanos(within);
    loop {
        let running = commands(&root, mark);
        let Some(first) = running.first() else { return Ok(()) };
        if begin.elapsed() >= grace {
            for command in &running {
                command.signal_group(Signal::KILL).map_err(|error| {
                    Unavailable(format!(
                        "process {}, which makes the change, cannot be stopped: {error}; run as the same user",
                        command.process
                    ))
                })?;
            }
        }
        if begin.elapsed() >= grace.saturating_add(KILL_MAX) {
            return Err(Unavailable(format!(
                "process {}, which makes the change, does not exit after SIGKILL: it waits for a device; see the kernel's log \
                (dmesg)",
                first.process
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use testkit::Scratch;

    #[test]
    fn a_control_file_is_written_and_a_missing_one_is_fine() {
        let folder = Scratch::new();
        let path = folder.file("governor", "performance, and more");
        let step = Undo::WriteControl { path: path.clone(), text: "powersave".into() };
        for _ in 0..2 {
            carry_out(&step).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "powersave");
        }
        fs::remove_file(&path).unwrap();
        carry_out(&step).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn only_a_group_of_ours_is_removed() {
        let folder = Scratch::new();
        folder.file("system.slice/cgroup.procs", "1\n");
        let step =
            |path: &str| Undo::RemoveCgroup { path: folder.join(path), parent: folder.path().to_path_buf() };
        assert!(carry_out(&step("system.slice")).unwrap_err().0.contains("was not removed"));
        assert!(folder.join("system.slice/cgroup.procs").exists());
        carry_out(&step("plimsoll-io-1-0")).unwrap();
    }

    #[test]
    fn the_processes_of_a_group_go_to_its_parent() {
        let folder = Scratch::new();
        folder.file("plimsoll-io-1-0/cgroup.procs", "4242\n");
        folder.file("cgroup.procs", "");
        let step =
            Undo::RemoveCgroup { path: folder.join("plimsoll-io-1-0"), parent: folder.path().to_path_buf() };
        // A folder with plain files cannot be removed like a cgroup; the processes are moved first.
        assert!(carry_out(&step).is_err());
        assert_eq!(folder.text("cgroup.procs"), "4242");
    }

    /// A target as the engine starts it, with a child that ignores SIGTERM.
    fn target(mark: &str, script: &str) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .env(TARGET_VARIABLE, mark)
            .process_group(0)
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_target_is_ended_with_what_left_its_group_and_no_other() {
        let root = HostRoot::live();
        let mark = format!("test-{}", std::process::id());
        let script = "setsid sh -c 'trap \"\" TERM; sleep 60 & wait; sleep 60' & sleep 60 & wait";
        let mut ours = target(&mark, script);
        let mut other = target("another", "sleep 60");
        let process = ours.id();
        let started_ticks = Stat::of(&root, process).unwrap().started_ticks;
        let members = || -> Vec<u32> {
            let members = Members::of(process, started_ticks, &mark, Path::new("")).living(&root);
            members.iter().map(|member| member.process).collect()
        };
        for _ in 0..500 {
            if members().len() >= 4 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // If another process has the id, only processes with the mark belong to the target.
        assert!(Members::of(other.id(), 1, "none", Path::new("")).living(&root).is_empty());
        let end = |process, started_ticks| Undo::EndTarget {
            process,
            started_ticks,
            mark: mark.clone(),
            group: PathBuf::new(),
            within: 200_000_000,
        };
        carry_out(&end(other.id(), 1)).unwrap();
        assert_eq!(members(), Vec::<u32>::new(), "known by its mark alone");
        assert!(other.try_wait().unwrap().is_none());
        carry_out(&end(process, started_ticks)).unwrap();
        let ended = ours.wait().unwrap();
        assert!(!ended.success());
        let (process, ticks) = (other.id(), Stat::of(&root, other.id()).unwrap().started_ticks);
        for _ in 0..2 {
            carry_out(&end(process, ticks)).unwrap();
        }
        assert!(!other.wait().unwrap().success());
    }

    #[test]
    fn what_a_target_starts_to_clean_up_comes_to_its_end() {
        let folder = Scratch::new();
        let done = folder.join("done");
        let mark = format!("clean-up-{}", std::process::id());
        // Each part of the clean-up is a process that begins after the signal.
        let parts = "for part in 1 2 3; do sleep 0.1 || exit; done; touch \"$DONE\"";
        let script =
            format!("trap '{parts}; exit' TERM; touch \"$DONE.ready\"; while :; do sleep 0.05; done");
        let mut ours = target(&mark, &format!("DONE={}; {script}", done.display()));
        let ready = folder.join("done.ready");
        while !ready.exists() {
            assert!(ours.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        let started_ticks = Stat::of(&HostRoot::live(), ours.id()).unwrap().started_ticks;
        let group = PathBuf::new();
        let end = Undo::EndTarget { process: ours.id(), started_ticks, mark, group, within: 60_000_000_000 };
        carry_out(&end).unwrap();
        ours.wait().unwrap();
        assert!(done.exists(), "its clean-up was ended");
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended_with_its_group() {
        use std::os::unix::process::CommandExt;
        let mark = format!("command-{}", std::process::id());
        let start = |mark: &str| {
            let mut command = std::process::Command::new("/bin/sh");
            command.args(["-c", "sleep 60 & sleep 60; true"]).env(COMMAND_VARIABLE, mark).process_group(0);
            command.spawn().unwrap()
        };
        let (mut ours, mut other) = (start(&mark), start("another"));
        let end = Undo::EndCommand { mark, within: 50_000_000 };
        for _ in 0..500 {
            if nothing_left(&end).is_none() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(nothing_left(&end), None);
        carry_out(&end).unwrap();
        assert!(nothing_left(&end).is_some());
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        carry_out(&Undo::EndCommand { mark: "another".into(), within: 0 }).unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_recycled_process_id_is_left_alone() {
        let this = std::process::id();
        let step =
            |process, started_ticks, cpus: &str| Undo::Affinity { process, started_ticks, cpus: cpus.into() };
        // If the invalid list had been used, this would fail.
        carry_out(&step(this, 1, "nonsense")).unwrap();
        carry_out(&step(u32::MAX, 1, "nonsense")).unwrap();
        let started = Stat::of(&HostRoot::live(), this).unwrap().started_ticks;
        assert!(carry_out(&step(this, started, "nonsense")).is_err());
    }
}
