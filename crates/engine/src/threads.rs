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
        assert_eq!(thread_use(u32::MAX), None);
    }
}
