//! Commands that a user wrote in an experiment: run to their end within a time, and what they printed.

use std::ffi::OsString;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The shell.
pub const SHELL: &str = "/bin/sh";

/// What is kept of a command's output.
const OUTPUT_MAX: usize = 64 << 10;

/// How often a command is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The program that runs, when it is `plimsoll`.
pub fn own_program() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?;
    (path.file_name()? == "plimsoll").then_some(path)
}

/// Where commands are looked for: first beside the program that runs as `plimsoll`, so that it finds itself. None when it is not that
/// program.
pub fn search_path() -> Option<OsString> {
    let folder = own_program()?.parent()?.to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path))).ok()
}

/// Runs a shell command to its end and returns what it printed. It has no input and is a process group of its own, which
/// is killed as a whole when the time is over; what it leaves running in the background goes on.
///
/// # Errors
/// When it cannot be started, ends with another status than 0, or takes longer than `within`; with what it printed last.
pub fn run(
    script: &str,
    folder: &Path,
    variables: &[(&str, &str)],
    within: Duration,
) -> Result<String, String> {
    let failed = |what: String| format!("`{script}` {what}");
    let cannot = |error: std::io::Error| failed(format!("cannot be started: {error}"));
    let (mut output, to_output) = pipe().map_err(cannot)?;
    let (mut complaint, to_complaint) = pipe().map_err(cannot)?;
    let mut command = Command::new(SHELL);
    command
        .args(["-c", script])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(to_output)
        .stderr(to_complaint)
        .process_group(0);
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    let mut child = spawn(&mut command).map_err(cannot)?;
    // Holds the writing ends of the pipes.
    drop(command);
    let (mut printed, mut complained) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    let status = loop {
        // Asked before the pipes are read, so that what was written before the end is not missed.
        let ended = child.try_wait().map_err(|error| failed(format!("cannot be waited for: {error}")))?;
        take(&mut output, &mut printed);
        take(&mut complaint, &mut complained);
        if let Some(status) = ended {
            break status;
        }
        if begin.elapsed() >= within {
            kill_group(&mut child);
            return Err(failed(format!("took longer than {} s and was killed", within.as_secs_f64())));
        }
        std::thread::sleep(LOOK);
    };
    if status.success() {
        return Ok(String::from_utf8_lossy(&printed).into_owned());
    }
    let said = if complained.is_empty() { &printed } else { &complained };
    let said = last_lines(&String::from_utf8_lossy(said), 3);
    Err(failed(format!(
        "ended with {}{}",
        in_words(status),
        said.map_or_else(String::new, |said| format!(": {said}"))
    )))
}

/// Starts a command that inherits no descriptor but its standard streams. Whoever started Plimsoll may have left others open, and
/// what goes on running, such as a daemon, would hold their files and locks.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    close_descriptors_on_exec();
    command.spawn()
}

/// Marks every descriptor but the standard streams to be closed in what is started. In this process rather than in the child,
/// which would have to be a copy of this process for that and would start more slowly.
fn close_descriptors_on_exec() {
    const FIRST: libc::c_uint = 3;
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: changes a flag of descriptors, which stay open.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) } == 0 {
        return;
    }
    // Before Linux 5.11, and in sandboxes that do not know the call.
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for number in names.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::c_int>().ok()) {
        if number >= FIRST as libc::c_int {
            // SAFETY: changes a flag of a descriptor; one that is closed by now is refused.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// How a process ended, in words: "exit status 3", "signal 9".
pub fn in_words(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}

/// The last lines that are not empty, in one; none when there are none.
pub fn last_lines(text: &str, count: usize) -> Option<String> {
    const LINE_MAX: usize = 300;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last: Vec<String> = lines
        .iter()
        .skip(lines.len().saturating_sub(count))
        .map(|line| line.chars().filter(|c| !c.is_control()).take(LINE_MAX).collect())
        .collect();
    (!last.is_empty()).then(|| last.join(" / "))
}

/// Divides a command line into words as a shell does, with its quotes, backslashes and comments. Nothing is replaced.
///
/// # Errors
/// A quote that does not end, and a backslash with nothing after it.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    shlex::split(line).ok_or_else(|| "has a quote that does not end, or ends with a backslash".into())
}

fn pipe() -> std::io::Result<(PipeReader, std::io::PipeWriter)> {
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// Takes what is there, and keeps the last of it.
fn take(pipe: &mut PipeReader, kept: &mut Vec<u8>) {
    let mut part = [0; 8192];
    // One that prints without end must not keep the time limit from being noticed.
    for _ in 0..64 {
        match pipe.read(&mut part) {
            Ok(0) => return,
            Ok(bytes) => {
                kept.extend_from_slice(&part[..bytes]);
                if kept.len() > OUTPUT_MAX {
                    kept.drain(..kept.len() - OUTPUT_MAX);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn kill_group(child: &mut Child) {
    let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, within_ms: u64) -> Result<String, String> {
        run(script, Path::new("/"), &[("LEVEL", "a b")], Duration::from_millis(within_ms))
    }

    #[test]
    fn what_is_printed_comes_back() {
        assert_eq!(shell("echo \"$LEVEL\"; pwd", 60_000).unwrap(), "a b\n/\n");
        // More than a pipe holds.
        assert_eq!(shell("head -c 300000 /dev/zero", 60_000).unwrap().len(), OUTPUT_MAX);
        // What stays in the background holds the pipe open, and is not waited for.
        assert_eq!(shell("sleep 5 & echo done", 60_000).unwrap(), "done\n");
    }

    #[test]
    fn a_command_inherits_its_standard_streams_only() {
        let scratch = testkit::Scratch::new();
        scratch.file("lock", "");
        let file = std::fs::File::open(scratch.join("lock")).unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let listed = shell("ls -l /proc/self/fd", 60_000).unwrap();
        // The three, and the folder that is listed.
        assert_eq!(listed.matches(" -> ").count(), 4, "{listed}");
        assert!(!listed.contains("lock"), "{listed}");
    }

    #[test]
    fn a_failure_says_what_was_said() {
        assert_eq!(
            shell("echo no such pool >&2; exit 3", 60_000).unwrap_err(),
            "`echo no such pool >&2; exit 3` ended with exit status 3: no such pool"
        );
        assert_eq!(shell("kill -9 $$", 60_000).unwrap_err(), "`kill -9 $$` ended with signal 9");
        assert!(shell("sleep 60 & sleep 60", 50).unwrap_err().contains("took longer than 0.05 s"));
    }

    #[test]
    fn a_line_is_divided_as_a_shell_does() {
        for (line, expected) in [
            ("slapd -f ./a.conf  -d 0", vec!["slapd", "-f", "./a.conf", "-d", "0"]),
            ("a 'b c' \"d \\\" e\" f\\ g ''", vec!["a", "b c", "d \" e", "f g", ""]),
            ("a\"b\\n\"'c\\d'", vec!["ab\\nc\\d"]),
            ("  ", vec![]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        for line in ["a 'b", "a \"b", "a\\"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_last_lines_are_one() {
        assert_eq!(last_lines("a\n\n b\t\nc\n", 2).unwrap(), "b / c");
        assert_eq!(last_lines("\n \n", 2), None);
    }
}
