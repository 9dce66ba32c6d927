//! What a launch used up to the moment at which it was done.
//!
//! Of a launch that has ended the kernel keeps the account until it is reaped: that of its first process and of all below it
//! that were waited for. Of one that goes on, as a server that is ready, its processes are asked one by one; what processes
//! used that have ended and that none of them waited for is not known.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use engine::process_stat::ProcessStat;
use engine::source::HostRoot;
use model::cost::CostKind;
use model::{Nanos, SECOND};

use super::looks::{numbered, peak_bytes, tree};

/// What was used, of each kind that is known.
pub(super) type Used = BTreeMap<CostKind, u64>;

/// Share of the CPU time from which one thread did the work, and its time ready to run stands for that of the launch.
const MOST_OF_THE_WORK: f64 = 0.9;
/// The kernel counts what moved to and from devices in blocks of 512 bytes.
const BLOCK_BYTES: u64 = 512;

/// What a process that has ended and those below it used; empty when the kernel does not say.
pub(super) fn of_ended(process: i32, pidfd: BorrowedFd<'_>, peak_seen: Option<u64>) -> Used {
    let mut used = Used::new();
    let Some(account) = account(pidfd) else { return used };
    let user = nanos(account.ru_utime);
    let system = nanos(account.ru_stime);
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    used.extend([
        (CostKind::UserCpu, user),
        (CostKind::SystemCpu, system),
        (CostKind::ReadBytes, count(account.ru_inblock) * BLOCK_BYTES),
        (CostKind::WrittenBytes, count(account.ru_oublock) * BLOCK_BYTES),
        (CostKind::MinorFaults, count(account.ru_minflt)),
        (CostKind::MajorFaults, count(account.ru_majflt)),
        (CostKind::VoluntarySwitches, count(account.ru_nvcsw)),
        (CostKind::InvoluntarySwitches, count(account.ru_nivcsw)),
    ]);
    // A process begins with the peak of the one that started it, which is ours: a smaller one of its own does not show.
    let peak = count(account.ru_maxrss) << 10;
    let ours = own_peak_bytes();
    let peak = if ours.is_some_and(|ours| peak > ours) { Some(peak) } else { peak_seen };
    used.extend(peak.map(|peak| (CostKind::PeakBytes, peak)));
    if let Some([.., read_calls, write_calls]) = io(process) {
        used.extend([(CostKind::ReadCalls, read_calls), (CostKind::WriteCalls, write_calls)]);
    }
    // The time ready to run is kept for each thread, and gone with all but the first.
    if let Some((ran, waited)) = schedstat(&format!("/proc/{process}"))
        && ran as f64 >= MOST_OF_THE_WORK * (user + system) as f64
    {
        used.insert(CostKind::Ready, waited);
    }
    used
}

/// What a process that goes on and those below it have used so far.
pub(super) fn of_running(process: i32) -> Used {
    let mut sum = Used::new();
    let mut add = |kind: CostKind, amount: u64| *sum.entry(kind).or_insert(0) += amount;
    let tick_ns = SECOND / rustix::param::clock_ticks_per_second().max(1);
    let mut peak: Option<u64> = None;
    let mut io_is_known = true;
    // Of the thread that ran most: how long it ran, and was ready to run.
    let mut busiest = (0, 0);
    for process in tree(process) {
        let Some(stat) = u32::try_from(process).ok().and_then(|id| ProcessStat::of(&HostRoot::live(), id))
        else {
            continue;
        };
        let number = |field| stat.number(field).unwrap_or(0);
        // Its own CPU time is known exactly, that in the kernel and that of its ended children in ticks.
        let [user, system, of_children, system_of_children] =
            [14, 15, 16, 17].map(|field| number(field) * tick_ns);
        let own = cpu_time(process).unwrap_or(user + system);
        let system = system.min(own);
        add(CostKind::UserCpu, own - system + of_children);
        add(CostKind::SystemCpu, system + system_of_children);
        add(CostKind::MinorFaults, number(10) + number(11));
        add(CostKind::MajorFaults, number(12) + number(13));
        match io(process) {
            Some([read_bytes, written_bytes, read_calls, write_calls]) => {
                add(CostKind::ReadBytes, read_bytes);
                add(CostKind::WrittenBytes, written_bytes);
                add(CostKind::ReadCalls, read_calls);
                add(CostKind::WriteCalls, write_calls);
            }
            None => io_is_known = false,
        }
        let folder = format!("/proc/{process}");
        peak = peak.max(peak_bytes(Path::new(&folder)));
        for thread in numbered(Path::new(&format!("{folder}/task"))) {
            busiest = busiest.max(schedstat(&format!("{folder}/task/{thread}")).unwrap_or_default());
        }
    }
    let cpu: Nanos = [CostKind::UserCpu, CostKind::SystemCpu].iter().filter_map(|kind| sum.get(kind)).sum();
    if cpu > 0 && busiest.0 as f64 >= MOST_OF_THE_WORK * cpu as f64 {
        sum.insert(CostKind::Ready, busiest.1);
    }
    sum.extend(peak.map(|peak| (CostKind::PeakBytes, peak)));
    if !io_is_known {
        let of_io = [CostKind::ReadBytes, CostKind::WrittenBytes, CostKind::ReadCalls, CostKind::WriteCalls];
        sum.retain(|kind, _| !of_io.contains(kind));
    }
    sum
}

/// The account of a process that has ended, which is not reaped by this.
fn account(pidfd: BorrowedFd<'_>) -> Option<libc::rusage> {
    let mut status = MaybeUninit::<libc::siginfo_t>::zeroed();
    let mut account = MaybeUninit::<libc::rusage>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // The C library's `waitid` has no place for the account, the kernel's has.
    // SAFETY: both structures are as large as the kernel writes them, and live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PIDFD,
            pidfd.as_raw_fd(),
            status.as_mut_ptr(),
            options,
            account.as_mut_ptr(),
        )
    };
    if done != 0 {
        return None;
    }
    // SAFETY: zeros are a valid value of both, as is what the kernel has written over them.
    let (status, account) = unsafe { (status.assume_init(), account.assume_init()) };
    // Without a process that has ended nothing is written.
    (status.si_signo == libc::SIGCHLD).then_some(account)
}

fn nanos(time: libc::timeval) -> Nanos {
    let (seconds, micros) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
    seconds.unwrap_or(0) * SECOND + micros.unwrap_or(0) * 1000
}

/// The most memory that Plimsoll itself has had in use.
fn own_peak_bytes() -> Option<u64> {
    let mut account = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is as large as the kernel writes it; zeros are a valid value of it.
    let account = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, account.as_mut_ptr()) != 0 {
            return None;
        }
        account.assume_init()
    };
    Some(u64::try_from(account.ru_maxrss).ok()? << 10)
}

/// The CPU time of all threads that a process has and had.
fn cpu_time(process: i32) -> Option<Nanos> {
    let mut clock: libc::clockid_t = 0;
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the clock and the time live until the calls return; zeros are a valid time.
    let time = unsafe {
        if libc::clock_getcpuclockid(process, &raw mut clock) != 0
            || libc::clock_gettime(clock, time.as_mut_ptr()) != 0
        {
            return None;
        }
        time.assume_init()
    };
    Some(u64::try_from(time.tv_sec).ok()? * SECOND + u64::try_from(time.tv_nsec).ok()?)
}

/// Bytes read from and written to devices, and system calls that read and write; none where they may not be read.
fn io(process: i32) -> Option<[u64; 4]> {
    let text = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    Some([value("read_bytes")?, value("write_bytes")?, value("syscr")?, value("syscw")?])
}

/// Nanoseconds that a thread ran, and was ready to run; of a process its first.
fn schedstat(folder: &str) -> Option<(Nanos, Nanos)> {
    let text = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    Some((fields.next()?, fields.next()?))
}
