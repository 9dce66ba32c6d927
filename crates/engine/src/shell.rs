//! Runs commands from an experiment to their end with a timeout, and returns their output.

use std::ffi::OsString;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Secret;
use rustix::process::{Pid, Signal};

/// The shell.
pub const SHELL: &str = "/bin/sh";

/// Limit of the stored output of a command.
const OUTPUT_MAX: usize = 64 << 10;

/// The polling interval of a running command.
const LOOK: Duration = Duration::from_millis(5);

/// The path of the running program, if it is `plimsoll`.
pub fn own_program() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?;
    (path.file_name()? == "plimsoll").then_some(path)
}

/// The search path of commands: first the folder of the running `plimsoll`, so that commands find the same
/// program. None if the program is not `plimsoll`.
pub fn search_path() -> Option<OsString> {
    let folder = own_program()?.parent()?.to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path))).ok()
}

/// Runs a shell command to its end and returns its output. It has no input. It runs in a separate process
/// group, which is killed as a whole after the timeout; background processes continue.
///
/// # Errors
/// When it cannot be started, its exit status is not 0, or it takes longer than `within`; with its last
/// output. Messages show the command without its secrets.
pub fn run(
    script: &Secret,
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
        .args(["-c", script.reveal()])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(to_output)
        .stderr(to_complaint)
        .process_group(0);
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    let mut child = spawn(&mut command).map_err(cannot)?;
    // The command has the write ends of the pipes.
    drop(command);
    let (mut printed, mut complained) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    let status = loop {
        // Checked before the pipes are read, so that output before the end is not missed.
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

/// Environment variables of every command.
static VARIABLES: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Sets environment variables of all commands that are started from now on, besides those that a command has itself.
pub fn set_variables(variables: Vec<(String, String)>) {
    *VARIABLES.lock().unwrap_or_else(PoisonError::into_inner) = variables;
}

/// Starts a command that inherits only the standard streams, with the variables of [`set_variables`]. The parent of
/// Plimsoll may have left other descriptors open, and a daemon would keep their files and locks.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    close_descriptors_on_exec();
    for (name, value) in VARIABLES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if command.get_envs().all(|(own, _)| own != name.as_str()) {
            command.env(name, value);
        }
    }
    command.spawn()
}

/// Marks all descriptors except the standard streams as close-on-exec. It does this in this process, because
/// code in the child would require a fork, which starts more slowly.
fn close_descriptors_on_exec() {
    const FIRST: libc::c_uint = 3;
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: changes a flag of descriptors, which stay open.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) } == 0 {
        return;
    }
    // Before Linux 5.11, and in sandboxes without this system call.
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for number in names.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::c_int>().ok()) {
        if number >= FIRST as libc::c_int {
            // SAFETY: changes a flag of a descriptor; if it was closed meanwhile, the call fails.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// A description of an exit status: "exit status 3", "signal 9".
pub fn in_words(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}

/// The last nonempty lines, joined; none if there are none.
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

/// Splits a command line into words like a shell, with quotes, backslashes and comments, but without
/// expansions.
///
/// # Errors
/// An unterminated quote, or a backslash at the end.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    shlex::split(line).ok_or_else(|| "has a quote that does not end, or ends with a backslash".into())
}

fn pipe() -> std::io::Result<(PipeReader, std::io::PipeWriter)> {
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// Reads available output and keeps the end of it.
fn take(pipe: &mut PipeReader, kept: &mut Vec<u8>) {
    let mut part = [0; 8192];
    // Endless output must not prevent the check of the timeout.
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
        run(&Secret::plain(script), Path::new("/"), &[("LEVEL", "a b")], Duration::from_millis(within_ms))
    }

    #[test]
    fn what_is_printed_comes_back() {
        assert_eq!(shell("echo \"$LEVEL\"; pwd", 60_000).unwrap(), "a b\n/\n");
        // More than a pipe buffers.
        assert_eq!(shell("head -c 300000 /dev/zero", 60_000).unwrap().len(), OUTPUT_MAX);
        // A background process keeps the pipe open, but is not waited for.
        assert_eq!(shell("sleep 5 & echo done", 60_000).unwrap(), "done\n");
    }

    #[test]
    fn a_command_inherits_its_standard_streams_only() {
        let scratch = testkit::Scratch::new();
        scratch.file("lock", "");
        let file = std::fs::File::open(scratch.join("lock")).unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let listed = shell("ls -l /proc/self/fd", 60_000).unwrap();
        // The three standard streams, and the folder that is listed.
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
