//! `/proc/PID/stat`.

use std::fs;

use crate::source::HostRoot;

/// The numeric fields, numbered as in proc_pid_stat(5).
const FIRST: usize = 4;
const LAST: usize = 24;

/// The kernel's status line of a process or thread.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    /// The name, at most 15 bytes.
    pub name: &'a [u8],
    /// The letter of the state, for example `S`; `Z` and `X` after its end.
    pub state: u8,
    numbers: [Option<u64>; LAST - FIRST + 1],
}

impl<'a> ProcessStat<'a> {
    /// Parses the text; `None` if it is empty or malformed. The name is in parentheses and may itself contain
    /// blanks, line breaks and parentheses.
    pub fn parse(text: &'a [u8]) -> Option<ProcessStat<'a>> {
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let name = text.get(open + 1..close)?;
        let mut fields = text[close + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let state = *fields.next()?.first()?;
        let mut numbers = [None; LAST - FIRST + 1];
        for (number, field) in numbers.iter_mut().zip(fields) {
            *number = whole(field);
        }
        Some(ProcessStat { name, state, numbers })
    }

    /// The status of a process, without its name; `None` if it has ended.
    pub fn of(root: &HostRoot, process: u32) -> Option<ProcessStat<'static>> {
        ProcessStat::read(root, &format!("proc/{process}/stat"))
    }

    /// The status of one thread, without its name; `None` if it has ended.
    pub fn of_thread(root: &HostRoot, process: u32, thread: u32) -> Option<ProcessStat<'static>> {
        ProcessStat::read(root, &format!("proc/{process}/task/{thread}/stat"))
    }

    fn read(root: &HostRoot, path: &str) -> Option<ProcessStat<'static>> {
        let text = fs::read(root.join(path)).ok()?;
        let ProcessStat { state, numbers, .. } = ProcessStat::parse(&text)?;
        Some(ProcessStat { name: b"", state, numbers })
    }

    /// The field with this number in proc_pid_stat(5), from 4 to 24; `None` if it is missing, negative or not
    /// a number.
    #[inline]
    pub fn number(&self, field: usize) -> Option<u64> {
        *self.numbers.get(field.checked_sub(FIRST)?)?
    }

    /// The process id of the parent.
    pub fn parent(&self) -> Option<u32> {
        self.number(4)?.try_into().ok()
    }

    /// The process group.
    pub fn group(&self) -> Option<u32> {
        self.number(5)?.try_into().ok()
    }

    /// The start time in clock ticks since boot, which together with the id identifies a process.
    pub fn started_ticks(&self) -> Option<u64> {
        self.number(22)
    }
}

/// The start time of a process in clock ticks since boot; `None` if it has ended.
pub fn started_ticks(process: u32) -> Option<u64> {
    ProcessStat::of(&HostRoot::live(), process)?.started_ticks()
}

fn whole(field: &[u8]) -> Option<u64> {
    field.iter().try_fold(0_u64, |value, &byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_blanks_and_line_breaks() {
        let rest =
            "S 7 8 9 34816 -1 4194304 10 11 12 13 14 15 16 17 20 0 3 0 4711 1000 99 18446744073709551615 1";
        for name in ["cat", "a b", ") R 1 1", "((x)", "two\nlines", ""] {
            let text = format!("42 ({name}) {rest}\n");
            let stat = ProcessStat::parse(text.as_bytes()).unwrap();
            assert_eq!((stat.name, stat.state), (name.as_bytes(), b'S'), "{name:?}");
            assert_eq!((stat.parent(), stat.group(), stat.started_ticks()), (Some(7), Some(8), Some(4711)));
            // The terminal's process group is -1, and field 24 is the last one that is read.
            assert_eq!((stat.number(8), stat.number(9), stat.number(24)), (None, Some(4_194_304), Some(99)));
            assert_eq!((stat.number(3), stat.number(25)), (None, None));
        }
        for broken in ["", "42", "42 (cat", "42 cat) S", "42 (cat)", ")("] {
            assert_eq!(ProcessStat::parse(broken.as_bytes()), None, "{broken:?}");
        }
        let cut = ProcessStat::parse(b"42 (cat) S 7 8").unwrap();
        assert_eq!((cut.group(), cut.started_ticks()), (Some(8), None));
    }

    #[test]
    fn a_name_that_is_no_text_does_not_hide_a_thread() {
        let stat = std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", b"\xff) Z 1").unwrap();
            let thread = crate::threads::current_thread();
            ProcessStat::of_thread(&HostRoot::live(), std::process::id(), thread).map(|stat| stat.state)
        });
        assert_eq!(stat.join().unwrap(), Some(b'R'));
    }

    #[test]
    fn this_process_has_a_start_and_no_other_has_its_number() {
        assert!(started_ticks(std::process::id()).unwrap() > 0);
        assert_eq!(started_ticks(u32::MAX), None);
    }
}
