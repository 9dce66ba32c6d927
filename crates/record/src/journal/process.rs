//! The process that executes a run, known by its start as well: numbers of processes are used again.

/// The start of a process in clock ticks since boot; none if it is gone, or is being ended by a signal.
///
/// Fields are those of proc_pid_stat(5).
pub(super) fn started_ticks(process: u32) -> Option<u64> {
    const STATE: usize = 3;
    const FLAGS: usize = 9;
    const STARTED: usize = 22;
    /// The process is exiting.
    const PF_EXITING: u64 = 4;
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name may contain blanks and parentheses.
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(stat.get(after..)?).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - STATE);
    let is_ending = matches!(field(STATE), Some(&("Z" | "X")))
        || field(FLAGS)?.parse::<u64>().ok()? & PF_EXITING != 0
        || is_killed(process);
    field(STARTED)?.parse().ok().filter(|_| !is_ending)
}

/// Whether SIGKILL is pending, which a process in a system call may not have noticed yet.
fn is_killed(process: u32) -> bool {
    const KILL: u64 = 1 << (9 - 1);
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let pending = |line: &str| {
        let bits = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(bits.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|bits| bits & KILL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = started_ticks(child.id());
        assert!(started.is_some());
        child.kill().unwrap();
        // Not waited for: it is a zombie soon, and stays one.
        while started_ticks(child.id()).is_some() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert_eq!(started_ticks(child.id()), None);
        assert!(started_ticks(std::process::id()) <= started);
    }
}
