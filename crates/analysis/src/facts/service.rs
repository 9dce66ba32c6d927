//! The mean activity of the watched services' threads over some time of a trial.
//!
//! A thread is *at work* unless it waits for requests. Operations spend their time with the threads at work.

use model::sensitivity::facts::{ADDRESS, LISTEN};
use model::{Level, Run, metrics};

use crate::measured::Measured;

/// Share of the threads at work that must be in one state if it is the limit.
pub(crate) const MOST: f64 = 0.5;
/// Share of a service's threads that wait for work from which it has headroom.
pub(crate) const ROOM_SHARE: f64 = 0.1;
/// Number of connections waiting to be accepted from which requests wait.
pub(crate) const QUEUED: f64 = 0.5;
/// Share of the quota's periods with throttling from which the quota is the limit.
pub(crate) const THROTTLED_SHARE: f64 = 0.5;
/// Seconds per second waiting for a CPU from which the CPU is the limit.
pub(crate) const RUN_WAIT: f64 = 0.5;
/// Share of the memory limit from which it counts as reached.
pub(crate) const FULL_MEMORY: f64 = 0.95;

/// The watched processes except Plimsoll itself.
pub(crate) fn services<'a>(measured: &Measured<'a>) -> Vec<&'a str> {
    measured.instances(metrics::PROCESS_THREADS).filter(|process| *process != "self").collect()
}

/// Whether most of a service's operations wait for CPUs, with this number of operations in flight.
pub(crate) fn waits_for_cpus(measured: &Measured, in_flight: f64) -> bool {
    let spans = measured.spans();
    let mut services = services(measured).into_iter().filter_map(|name| Service::of(measured, name, &spans));
    services.any(|service| service.waits_for_cpus(in_flight))
}

/// The used share of a service's memory limit, and the limit in bytes.
pub(crate) fn memory_limit(measured: &Measured, service: &str) -> Option<(f64, f64)> {
    let limit = measured.mean(metrics::PROCESS_MEMORY_LIMIT_BYTES, service).filter(|limit| *limit > 0.0)?;
    Some((measured.mean(metrics::PROCESS_MEMORY_CHARGED_BYTES, service)? / limit, limit))
}

/// The mean activity of a service's threads over the measured phase, without its pauses.
pub(crate) struct Service<'a> {
    pub(crate) name: &'a str,
    pub(crate) threads: f64,
    pub(crate) busy_cpus: f64,
    pub(crate) run_wait: f64,
    pub(crate) running: f64,
    pub(crate) busiest_thread: Option<f64>,
    pub(crate) disk: f64,
    pub(crate) flush: f64,
    pub(crate) lock: f64,
    pub(crate) same_lock: f64,
    pub(crate) timer: f64,
    pub(crate) accept: f64,
    pub(crate) events: f64,
    pub(crate) client: f64,
    pub(crate) peer: f64,
    /// Connections that wait to be accepted; none if the service does not listen, or if the number is
    /// unknown.
    pub(crate) queued: Option<f64>,
    pub(crate) quota_cpus: Option<f64>,
    pub(crate) throttled: Option<f64>,
    pub(crate) memory_share: Option<f64>,
    pub(crate) read_bytes_per_s: Option<f64>,
    pub(crate) major_faults_per_s: Option<f64>,
    /// Threads that wait for a page to be read: asleep for a device, and in no system call.
    pub(crate) faulting: f64,
}

impl<'a> Service<'a> {
    pub(crate) fn of(measured: &Measured, name: &'a str, spans: &[(f64, f64)]) -> Option<Self> {
        let mean = |metric: &str| measured.mean_over(metric, name, spans);
        let threads = mean(metrics::PROCESS_THREADS).filter(|threads| *threads > 0.0)?;
        let waits = |metric: &str| mean(metric).unwrap_or(0.0);
        // Without the system calls of its threads, their waits are unknown.
        mean(metrics::PROCESS_LOCK_WAIT_THREADS)?;
        let limit = mean(metrics::PROCESS_MEMORY_LIMIT_BYTES).filter(|limit| *limit > 0.0);
        Some(Service {
            name,
            threads,
            busy_cpus: waits(metrics::PROCESS_BUSY_CPUS),
            run_wait: waits(metrics::PROCESS_RUN_QUEUE_LENGTH),
            running: waits(metrics::PROCESS_RUNNING_THREADS),
            busiest_thread: mean(metrics::PROCESS_BUSIEST_THREAD_CPUS),
            disk: waits(metrics::PROCESS_TRANSFER_WAIT_THREADS),
            flush: waits(metrics::PROCESS_FLUSH_WAIT_THREADS),
            lock: waits(metrics::PROCESS_LOCK_WAIT_THREADS),
            same_lock: waits(metrics::PROCESS_SAME_LOCK_WAIT_THREADS),
            timer: waits(metrics::PROCESS_TIMER_WAIT_THREADS),
            accept: waits(metrics::PROCESS_ACCEPT_WAIT_THREADS),
            events: waits(metrics::PROCESS_EVENT_WAIT_THREADS),
            client: waits(metrics::PROCESS_CLIENT_WAIT_THREADS),
            peer: waits(metrics::PROCESS_PEER_WAIT_THREADS),
            queued: mean(metrics::PROCESS_ACCEPT_QUEUE_CONNECTIONS),
            quota_cpus: mean(metrics::PROCESS_QUOTA_CPUS),
            throttled: mean(metrics::PROCESS_THROTTLED_SHARE),
            memory_share: limit.and_then(|limit| Some(mean(metrics::PROCESS_MEMORY_CHARGED_BYTES)? / limit)),
            read_bytes_per_s: mean(metrics::PROCESS_READ_BYTES_PER_S),
            major_faults_per_s: mean(metrics::PROCESS_MAJOR_FAULTS_PER_S).filter(|faults| *faults > 0.0),
            faulting: (waits(metrics::PROCESS_DISK_WAIT_THREADS)
                - waits(metrics::PROCESS_TRANSFER_WAIT_THREADS)
                - waits(metrics::PROCESS_FLUSH_WAIT_THREADS))
            .clamp(0.0, waits(metrics::PROCESS_OTHER_WAIT_THREADS)),
        })
    }

    /// Threads that wait for work: a client's request, a connection, an event.
    pub(crate) fn idle(&self) -> f64 {
        self.accept + self.events + self.client
    }

    /// Threads that have work.
    pub(crate) fn at_work(&self) -> f64 {
        (self.threads - self.idle()).max(0.0)
    }

    /// Whether requests wait for the service: in the accept queue, or, if its length is unknown, with all
    /// threads at work.
    pub(crate) fn work_waits(&self) -> bool {
        self.queued.map_or(self.idle() < ROOM_SHARE * self.threads, |queued| queued >= QUEUED)
    }

    /// Number of operations that the service's threads process; the others wait for it, or are on the way.
    pub(crate) fn in_hand(&self, in_flight: f64) -> f64 {
        self.at_work().min(in_flight).max(1e-9)
    }

    pub(crate) fn waits_for_cpus(&self, in_flight: f64) -> bool {
        self.run_wait >= RUN_WAIT && self.running >= MOST * self.in_hand(in_flight)
    }

    /// The address that most threads waited for.
    pub(crate) fn most_waited_for(&self, measured: &Measured) -> Option<String> {
        let prefix = format!("{} to ", self.name);
        measured
            .columns()
            .filter(|(_, column)| column.metric.name == metrics::PROCESS_PEER_WAIT_THREADS)
            .filter_map(|(at, column)| {
                let peer = column.instance.strip_prefix(&prefix)?;
                Some((measured.column(at)?, peer))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, peer)| dependency_at(&measured.record.run, peer).unwrap_or_else(|| peer.to_string()))
    }
}

/// The dependency whose proxy listens at an address, with its own address: a run that is resumed has other proxies.
fn dependency_at(run: &Run, peer: &str) -> Option<String> {
    let of_proxy = |(name, level): (&String, &Level)| match level {
        Level::Text(listen) if listen == peer => {
            Some(name.strip_suffix(LISTEN)?.strip_suffix('.')?.to_string())
        }
        _ => None,
    };
    let factor = run.facts.iter().find_map(of_proxy)?;
    let address = run.facts.get(&format!("{factor}.{ADDRESS}"))?;
    let name = factor.rsplit('.').next().unwrap_or(&factor);
    Some(format!("{name} ({address})"))
}
