//! What the threads of a service did, and its pauses.

use model::FindingKind;
use model::claim::{Meanwhile, PausesClaim, ServiceClaim, ServiceState, Stage, ThreadState};

use super::storage::{reached, serial_flushes};
use crate::text::{Quantity, cpus, per_s, percent, things, time_ms, time_s};

/// `at 10.0.0.1:80`, or `broker (10.0.0.1:80)` where it is known what is there.
pub(super) fn at_address(address: &str) -> String {
    if address.contains(" (") { address.to_string() } else { format!("at {address}") }
}

/// What limits a service, or that it had headroom.
pub(super) fn service(claim: &ServiceClaim) -> String {
    let ServiceClaim { process, threads, used_cpus, .. } = claim;
    let text = match &claim.state {
        ServiceState::Throttled { quota_cpus, throttled_share } => format!(
            "The CPU quota of {process} was the limit: it used {} of {} and was throttled in {} of the periods.",
            things(*used_cpus),
            cpus(*quota_cpus),
            percent(*throttled_share)
        ),
        ServiceState::SingleThread { busiest_thread_cpus, ready_threads, lock_threads } => {
            let lock = lock_threads.map_or(String::new(), |threads| {
                format!(" {} other threads waited for it at a lock.", things(threads))
            });
            format!(
                "One thread of {process} was the limit: it ran {} of the time and waited for a CPU {} of the time. \
                 All threads together used {}.{lock}",
                percent(*busiest_thread_cpus),
                percent(ready_threads.min(1.0)),
                cpus(*used_cpus)
            )
        }
        ServiceState::Pipeline { stage, busy_share, cpu_share } => {
            let doing = match stage {
                Stage::Cpu => "computed".to_string(),
                Stage::Flushes => "waited for flushes".into(),
                Stage::Transfers => "read and wrote files".into(),
                Stage::Downstream(peer) => format!("waited for responses of {peer}"),
            };
            format!(
                "The pipeline of {process} was the limit: its busiest stage {doing} {} of the time, and the others waited for it. \
                 The thread of that stage used {} of a CPU.",
                percent(*busy_share),
                percent(*cpu_share)
            )
        }
        ServiceState::WaitsForCpu { ready_threads } => format!(
            "The CPU limited {process}: its threads used {}, and {} more were ready to run and waited for a CPU.",
            cpus(*used_cpus),
            things(*ready_threads)
        ),
        ServiceState::MemoryLimitReached { used_share, read_bytes_per_s, threads } => format!(
            "The memory limit of {process} was reached: {} of it was in use, reclaimed pages were read again at {}, and {}.",
            percent(*used_share),
            Quantity::BytesPerSecond.show(*read_bytes_per_s),
            busy(claim, *threads, "waited for files or pages")
        ),
        ServiceState::PageFaults { threads, faults_per_s, refaults_per_s } => {
            let waited = busy(claim, *threads, "waited for pages to be read");
            let faults = format!("{} major page faults/s", things(*faults_per_s));
            match refaults_per_s {
                Some(refaults) => format!(
                    "Memory limited {process}: {waited}. There were {faults} and {} refaults/s: reclaimed pages were \
                     read again.",
                    things(*refaults)
                ),
                None => format!("The disk limited {process}: {waited}. There were {faults}."),
            }
        }
        ServiceState::Files { threads, flushes, limit, serial_flushes: serial } => {
            let doing = if *flushes { "waited for flushes" } else { "waited for reads and writes of files" };
            let limit = limit
                .as_ref()
                .map_or(String::new(), |limit| format!(" The I/O limit was reached: {}.", reached(limit)));
            let serial = serial.as_ref().map_or(String::new(), serial_flushes);
            format!("The disk limited {process}: {}.{limit}{serial}", busy(claim, *threads, doing))
        }
        ServiceState::Sending { buffered_bytes, in_flight, answer_bytes, bytes_per_s } => format!(
            "The network limited {process}: {} of response data waited in the TCP send buffers, with {} \
            requests of {} each in flight. The send rate was {}.",
            Quantity::Bytes.show(*buffered_bytes),
            things(*in_flight),
            Quantity::Bytes.show(*answer_bytes),
            Quantity::BytesPerSecond.show(*bytes_per_s)
        ),
        ServiceState::ConnectionPool { using, waiting } => format!(
            "The connection pool of {process} was the limit: {} threads used a connection to the service behind it, and {} \
             waited for one.",
            things(*using),
            things(*waiting)
        ),
        ServiceState::Lock { threads } => {
            format!(
                "A lock of {process} was the limit: {}.",
                busy(claim, *threads, "waited for the same lock")
            )
        }
        ServiceState::Downstream { peer, threads } => format!(
            "The service {} behind {process} was the limit: {}.",
            at_address(peer),
            busy(claim, *threads, "waited for its response")
        ),
        ServiceState::AllThreadsAtWork { most, threads: doing } => {
            let state = match most {
                ThreadState::Asleep => "slept (timer)",
                ThreadState::Lock => "waited for another thread",
                ThreadState::Downstream => "waited for another service",
                ThreadState::Files => "waited for files",
                ThreadState::Running => "ran or were ready to run",
            };
            match *threads < 1.5 {
                true => format!(
                    "The one thread of {process} was the limit: it was never idle. It {} {} of the time.",
                    state.replace("were", "was"),
                    percent(doing.min(1.0))
                ),
                false => format!(
                    "The worker pool of {process} was the limit: none of its {} threads was idle. {} of them {state}.",
                    things(*threads),
                    things(*doing)
                ),
            }
        }
        ServiceState::WaitsForItself { work_share, timer_threads, waiting_threads } => format!(
            "{process} waited for itself: at most {} of the time one of its threads ran, or waited for a CPU or a file. Otherwise \
             they waited, {} of them for a timer and {} for each other. Its own settings are the limit: vary its cache, \
             queues and threads.",
            percent(*work_share),
            things(*timer_threads),
            things(*waiting_threads)
        ),
        ServiceState::Headroom { idle_threads } => format!(
            "{process} was not the limit: {} of its {} threads waited for work.",
            things(*idle_threads),
            things(*threads)
        ),
    };
    let queue = claim.accept_queue.map_or(String::new(), |queue| match queue < 0.05 {
        true => " No connection waited to be accepted.".into(),
        false => format!(" {} connections waited to be accepted.", things(queue)),
    });
    let host = claim
        .host_cpu_share
        .map_or(String::new(), |share| format!(" The CPUs of the host were {} busy.", percent(share)));
    let text = match claim.between_pauses {
        true => format!("Between the pauses, the limit was the following. {text}"),
        false => text,
    };
    format!("{text}{queue}{host}")
}

/// How many of the threads that were not idle did something; of a single one how long it did.
fn busy(claim: &ServiceClaim, threads: f64, what: &str) -> String {
    match things(claim.at_work).as_str() {
        "1" => format!("its one busy thread {what} {} of the time", percent(threads.min(1.0))),
        at_work => format!("{} of {at_work} busy threads {what}", things(threads)),
    }
}

/// How often and how long a service paused, what that did to its numbers, and what the counters show of it.
pub(super) fn pauses(kind: FindingKind, claim: &PausesClaim) -> String {
    let subject = match (kind, &claim.process) {
        (FindingKind::Limits, Some(process)) => format!("Pauses of {process} were the limit: it"),
        (FindingKind::Limits, None) => "Pauses of the system were the limit: it".into(),
        (_, Some(process)) => process.clone(),
        (_, None) => "The system".into(),
    };
    let period = super::spread(&claim.period_s, time_s);
    let when = if claim.regular { format!("every {period}") } else { format!("{period} apart") };
    let percentiles = claim.percentiles.map_or(String::new(), |of| {
        format!(
            " {} of the operations took longer than the shortest pause, up to {}: the p99 is {}, and {} without them.",
            percent(of.caught_share),
            time_ms(of.max_ms),
            time_ms(of.p99_ms),
            time_ms(of.p99_others_ms)
        )
    });
    format!(
        "{subject} paused {} times for {}, {when}, {} of the time; no operation completed in a pause, with {} in flight. \
         Throughput was {} between the pauses and {} in all.{percentiles} {}",
        claim.count,
        super::spread(&claim.length_s, time_s),
        percent(claim.lost_share),
        things(claim.in_flight),
        per_s(claim.between_per_s),
        per_s(claim.all_per_s),
        meanwhile(&claim.meanwhile)
    )
}

fn meanwhile(meanwhile: &Meanwhile) -> String {
    let between =
        |value: Option<String>| value.map_or(String::new(), |value| format!(" ({value} between the pauses)"));
    match meanwhile {
        Meanwhile::GeneratorWaited(share) => format!(
            "The load generator waited for a CPU {} of the time, so it may have caused the pauses itself.",
            percent(*share)
        ),
        Meanwhile::MachineStopped => {
            "Plimsoll's own counters were not read during the pauses either: the whole machine stopped.".into()
        }
        Meanwhile::Steal(share) => format!(
            "Other virtual machines took {} of the CPU time during the pauses (steal).",
            percent(*share)
        ),
        Meanwhile::Downstream { process, threads } => format!(
            "During the pauses {} threads of {process} waited for the response of another service: that service paused.",
            things(*threads)
        ),
        Meanwhile::NoCpu { process, threads } => format!(
            "During the pauses {} threads of {process} were ready to run and waited for a CPU: other processes used the CPUs.",
            things(*threads)
        ),
        Meanwhile::OwnWork { process, cpus, cpus_between } => format!(
            "During the pauses {process} used {} CPUs{}: it did work of its own, such as garbage collection or a checkpoint.",
            things(*cpus),
            between(cpus_between.map(things))
        ),
        Meanwhile::Disk { device, busy_share, busy_share_between } => format!(
            "During the pauses {device} was {} busy{}: the service waited for the disk, as for a flush or a checkpoint.",
            percent(*busy_share),
            between(busy_share_between.map(percent))
        ),
        Meanwhile::NothingBusy => {
            "During the pauses neither the service nor a disk was busy: the service waited for a lock, a \
            timer or a resource that is not watched."
                .into()
        }
        Meanwhile::NotWatched => {
            "No service was watched, so the cause is not known: set `watch = [\"process:NAME\"]`.".into()
        }
        Meanwhile::NotShown => "The counters do not show the cause.".into(),
        Meanwhile::SampledTooSeldom => {
            "The sampling interval of the counters is too long to show the cause: set `sample_every` to a third of a pause or less.".into()
        }
    }
}
