//! What the engine's own threads used: CPU time, and time ready to run without a CPU.

use std::fs;

/// CPU and waiting time of one thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ThreadUse {
    pub(crate) cpu_ns: u64,
    pub(crate) run_wait_ns: u64,
}

/// The calling thread's id.
pub(crate) fn current_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Reads `/proc/self/task/ID/schedstat`; none when the thread is gone or the kernel keeps no such figures.
pub(crate) fn thread_use(thread: u32) -> Option<ThreadUse> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut fields = text.split_whitespace();
    Some(ThreadUse { cpu_ns: fields.next()?.parse().ok()?, run_wait_ns: fields.next()?.parse().ok()? })
}

/// Asks the scheduler to let this thread run soon after it wakes, where other threads are running: its turns become short, and its
/// share of the CPU stays what it is. Kernels before 6.12 ignore that.
pub(crate) fn ask_for_short_turns() {
    /// The shortest the kernel knows.
    const TURN_NS: u64 = 100_000;
    /// `struct sched_attr` of `sched_setattr(2)`.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    let size = size_of::<Attributes>() as u32;
    let mut attributes = Attributes { size, ..Attributes::default() };
    // SAFETY: the kernel writes at most `size` bytes to the structure, which lives across the call.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if read != 0 || attributes.policy != libc::SCHED_OTHER as u32 {
        return;
    }
    // Written back with the nice value that it has.
    attributes = Attributes { size, nice: attributes.nice, runtime_ns: TURN_NS, ..Attributes::default() };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives across the call. A refusal changes nothing.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// The start of a process in clock ticks since boot: with its id, the name of one process and no later one.
pub fn process_started_ticks(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold spaces and brackets: count from the last one.
    text[text.rfind(')')? + 1..].split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_used_some_cpu() {
        let before = thread_use(current_thread()).unwrap();
        let mut sum = 0u64;
        for i in 0..20_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(i));
        }
        let after = thread_use(current_thread()).unwrap();
        assert!(after.cpu_ns > before.cpu_ns);
        assert!(process_started_ticks(std::process::id()).unwrap() > 0);
        assert_eq!(thread_use(u32::MAX), None);
    }
}
