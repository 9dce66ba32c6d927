//! Work that needs a stated CPU time.

use std::time::Duration;

/// Uses this much CPU time of the calling thread: with less of a CPU it takes longer.
pub fn use_cpu(time: Duration) {
    let end = thread_time() + time;
    while !time.is_zero() && thread_time() < end {
        for number in 0..200_u64 {
            std::hint::black_box(number.wrapping_mul(number));
        }
    }
}

/// CPU time that the calling thread has used.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
