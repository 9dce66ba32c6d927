//! Resource use of the engine's own threads: CPU time, time ready to run without a CPU, time blocked on I/O.

use std::fs;

use model::SECOND;

/// CPU time and waiting time of one thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ThreadUse {
    pub(crate) cpu_ns: u64,
    pub(crate) run_wait_ns: u64,
    /// Parts of the CPU time, with the resolution of a clock tick.
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    /// Waiting for block I/O; 0 without [`delays_are_counted`].
    pub(crate) blocked_io_ns: u64,
}

/// Whether the kernel measures how long threads wait for block I/O: `kernel.task_delayacct`, off by default
/// since Linux 5.14.
pub(crate) fn delays_are_counted() -> bool {
    fs::read_to_string("/proc/sys/kernel/task_delayacct").is_ok_and(|text| text.trim() == "1")
}

/// The calling thread's id.
pub(crate) fn current_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Reads `schedstat` and `stat` of a thread of this process; none if it has ended or the kernel does not
/// provide the values.
pub(crate) fn thread_use(thread: u32) -> Option<ThreadUse> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut fields = text.split_whitespace();
    let (cpu_ns, run_wait_ns) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    let tick_ns = SECOND / rustix::param::clock_ticks_per_second().max(1);
    let ticks = |field| Some(stat_field(&text, field)?.parse::<u64>().ok()?.saturating_mul(tick_ns));
    Some(ThreadUse {
        cpu_ns,
        run_wait_ns,
        user_ns: ticks(14)?,
        system_ns: ticks(15)?,
        blocked_io_ns: ticks(42).unwrap_or(0),
    })
}

/// A field of a `stat` file by its number in `proc(5)`, at least 3.
fn stat_field(text: &str, number: usize) -> Option<&str> {
    // The name in parentheses may contain blanks and parentheses: fields are counted after the last one.
    text[text.rfind(')')? + 1..].split_whitespace().nth(number - 3)
}

/// Gives the calling thread a table of descriptors of its own, with only the standard streams. As long as threads share a
/// table, the kernel counts the use of an open file in every call, which costs an HTTP/1.1 load 3 % of its CPU time.
///
/// Those of other threads are not kept, since a connection that is closed elsewhere would stay open here. Linux before 5.9
/// refuses, and the table stays shared.
pub(crate) fn leave_shared_descriptors() {
    const FIRST: libc::c_uint = libc::STDERR_FILENO as libc::c_uint + 1;
    // SAFETY: a thread that calls this uses no descriptor that was opened before, and those of other threads stay open.
    let _ =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
}

/// Asks the scheduler to run this thread soon after it wakes, even if other threads run. Its time slices
/// become short, and its share of the CPU does not change. Kernels before 6.12 ignore this.
pub(crate) fn ask_for_short_turns() {
    /// The shortest time slice that the kernel supports.
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
    // The nice value is unchanged.
    attributes = Attributes { size, nice: attributes.nice, runtime_ns: TURN_NS, ..Attributes::default() };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives across the call. A refusal changes
    // nothing.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_the_descriptors_of_others() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listed = || fs::read_dir("/proc/thread-self/fd").unwrap().count();
        let (before, after) = std::thread::spawn(move || {
            let before = listed();
            leave_shared_descriptors();
            (before, listed())
        })
        .join()
        .unwrap();
        // The standard streams and the folder itself.
        assert!(before > after && after <= 4, "{before} and {after}");
        // It is open here still.
        assert!(listener.local_addr().is_ok() && listener.set_nonblocking(true).is_ok());
    }

    #[test]
    fn this_thread_used_some_cpu() {
        let before = thread_use(current_thread()).unwrap();
        let mut sum = 0u64;
        for i in 0..100_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(i));
        }
        let after = thread_use(current_thread()).unwrap();
        assert!(after.cpu_ns > before.cpu_ns);
        // In whole ticks, and equal to the same CPU time.
        let parts = after.user_ns + after.system_ns;
        assert!(after.user_ns > before.user_ns && parts <= after.cpu_ns + 20_000_000, "{after:?}");
        assert_eq!(thread_use(u32::MAX), None);
    }
}
