//! The mean activity of the watched services' threads over some time of a trial.
//!
//! A thread is *at work* unless it waits for requests. Operations spend their time with the threads at work.

use core::net::SocketAddr;

use model::metric::split_instance;
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
/// Threads that wait for the connections of a service in which other threads do the work.
const DISPATCHERS: f64 = 2.0;
/// Threads at work besides those at one address, as a share of the operations in flight, from which these are idle.
const BESIDE_PARKED: f64 = 0.9;
/// How many more threads than operations in flight at one address show that most of them have none; one more is allowed, because
/// threads are only sampled.
const BEYOND: f64 = 1.25;
/// The queue inside a service as a share of the operations in flight, from which it has begun. Operations on their way are less.
const BEGUN_SHARE: f64 = 0.05;
/// Threads at work that wait for no other thread, below which no lock is held all the time.
const HOLDERS: f64 = 0.5;
/// Seconds per second waiting for a CPU from which the CPU is the limit.
pub(crate) const RUN_WAIT: f64 = 0.5;
/// Share of the time that a CPU must be busy if threads wait for it all the time.
const BUSY_CPU: f64 = 0.75;
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
    services.any(|service| service.waits_for_cpus(in_flight)) && has_busy_cpu(measured)
}

/// Whether a CPU was busy most of the time, as far as that is known: otherwise threads waited only when many woke at once.
pub(crate) fn has_busy_cpu(measured: &Measured) -> bool {
    let columns = measured.columns(metrics::CPU_BUSY_SHARE, "");
    let shares = columns.filter(|(_, column)| !column.instance.is_empty());
    let busiest = shares.filter_map(|(at, _)| measured.column(at)).max_by(f64::total_cmp);
    busiest.is_none_or(|share| share >= BUSY_CPU)
}

/// The watched services that listen at an address of this host.
pub(crate) fn listening_at<'m>(measured: &'m Measured, address: &str) -> impl Iterator<Item = &'m str> {
    let address = address.parse::<SocketAddr>().ok().filter(|address| address.ip().is_loopback());
    let ports = measured.instances(metrics::PROCESS_ACCEPT_QUEUE_CONNECTIONS).filter_map(at_port);
    ports
        .filter(move |(_, port)| address.is_some_and(|address| address.port() == *port))
        .map(|(name, _)| name)
}

/// The service and the port of an instance such as `broker port 8080`.
fn at_port(instance: &str) -> Option<(&str, u16)> {
    let (name, port) = instance.rsplit_once(" port ")?;
    Some((name, port.parse().ok()?))
}

/// Whether a service is several programs that are also watched by themselves, such as the whole target: the waits of its
/// threads are those of different programs.
pub(crate) fn is_a_whole(measured: &Measured, name: &str) -> bool {
    // Once for all services: a log of another system may have hundreds of processes.
    let ports: Vec<(&str, u16)> =
        measured.instances(metrics::PROCESS_ACCEPT_QUEUE_CONNECTIONS).filter_map(at_port).collect();
    let ports_of = |of: &str| -> Vec<u16> {
        ports.iter().filter(|(service, _)| *service == of).map(|(_, port)| *port).collect()
    };
    let own = ports_of(name);
    // Another one has fewer, but at least one.
    own.len() > 1
        && services(measured).into_iter().filter(|other| *other != name).map(ports_of).any(|other| {
            !other.is_empty() && other.len() < own.len() && other.iter().all(|port| own.contains(port))
        })
}

/// The operations in flight at a service, if other watched services call it: their threads that wait for it. None for a
/// service that only the load calls.
pub(crate) fn called(measured: &Measured, name: &str, spans: &[(f64, f64)]) -> Option<f64> {
    let calls = measured.instances(metrics::PROCESS_PEER_WAIT_THREADS).filter(|instance| {
        let call = instance.split_once(" to ");
        call.is_some_and(|(caller, to)| {
            let mut listening = listening_at(measured, to);
            listening.any(|service| service == name) && listening_at(measured, to).all(|of| of != caller)
        })
    });
    let waiting =
        calls.filter_map(|call| measured.mean_over(metrics::PROCESS_PEER_WAIT_THREADS, call, spans));
    Some(waiting.sum::<f64>()).filter(|sum| *sum > 0.0)
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

    /// Threads that do not wait for a request, a connection or an event. Idle threads of a pool that wait for each other
    /// are among them: see [`Service::parked`].
    pub(crate) fn at_work(&self) -> f64 {
        (self.threads - self.idle()).max(0.0)
    }

    /// Threads at work besides those that wait for the same lock, and operations that are with threads at all.
    ///
    /// Threads that wait for a lock have operations, if the other threads are too few to have them. Idle threads
    /// of a pool wait at one address too, but as many threads as operations are at work besides them.
    pub(crate) fn beside_the_lock(&self, in_flight: f64) -> (f64, f64) {
        let beside = (self.at_work() - self.same_lock).max(0.0);
        (beside, (in_flight - self.queued.unwrap_or(0.0)).max(0.0))
    }

    /// Idle threads of a pool that gets its work from another thread: they wait at one address, like threads that wait for
    /// a lock, but as many threads as operations are at work besides them, or they are more than the operations, or hardly any
    /// thread can hold a lock.
    pub(crate) fn parked(&self, in_flight: f64) -> f64 {
        let (beside, in_threads) = self.beside_the_lock(in_flight);
        let is_beyond = |threads: f64| threads > BEYOND * in_threads + 1.0;
        // A lock for which threads wait is held: by one that runs, or that waits for something else.
        let holders = self.at_work() - self.lock;
        let is_unheld = holders < HOLDERS;
        let is_idle = beside >= BESIDE_PARKED * in_threads || is_beyond(self.same_lock) || is_unheld;
        match self.same_lock > 0.0 && is_idle {
            // Several pools, each with its own address.
            true if is_unheld || is_beyond(self.lock - self.same_lock) => self.lock,
            true => self.same_lock,
            false => 0.0,
        }
    }

    /// Threads that have work while this many operations are in flight.
    fn engaged(&self, in_flight: f64) -> f64 {
        self.at_work() - self.parked(in_flight)
    }

    /// Whether threads of this service wait for work while this many operations are in flight at it.
    pub(crate) fn has_room(&self, in_flight: f64) -> bool {
        self.idle() + self.parked(in_flight) >= ROOM_SHARE * self.threads
            && self.queued.is_none_or(|queued| queued < QUEUED)
    }

    /// Whether requests wait for the service: in the accept queue, or, if its length is unknown, with all
    /// threads at work.
    pub(crate) fn work_waits(&self) -> bool {
        self.queued.map_or(self.idle() < ROOM_SHARE * self.threads, |queued| queued >= QUEUED)
    }

    /// Number of operations that the service's threads process; the others wait for it, or are on the way.
    pub(crate) fn in_hand(&self, in_flight: f64) -> f64 {
        self.engaged(in_flight).min(in_flight).max(1e-9)
    }

    /// Whether operations wait inside the service for one of its worker threads, whose work comes from another thread:
    /// more are in flight than threads are at work, by a share of the threads.
    pub(crate) fn queues_inside(&self, in_flight: f64) -> bool {
        self.queues(in_flight, ROOM_SHARE * self.threads)
    }

    /// The same of a queue that has just begun: enough to name these threads, where what they wait for has room.
    pub(crate) fn begins_to_queue(&self, in_flight: f64) -> bool {
        self.queues(in_flight, BEGUN_SHARE * in_flight)
    }

    /// Whether at least this many operations wait inside the service.
    fn queues(&self, in_flight: f64, least: f64) -> bool {
        let at_work = self.engaged(in_flight);
        let dispatches = self.events > 0.0 && self.events <= (ROOM_SHARE * self.threads).max(DISPATCHERS);
        // Threads that wait for each other for other reasons have no operations.
        let have_operations = at_work - self.lock.min(at_work) >= MOST * at_work;
        let beyond = in_flight - at_work;
        dispatches && at_work > DISPATCHERS && have_operations && beyond >= least.max(1.0)
    }

    /// Threads that run or wait for a CPU: as their states were sampled, or as the kernel counted their times, which is exact
    /// where operations take much less time than there is between two samples.
    pub(crate) fn ready(&self) -> f64 {
        self.running.max(self.run_wait + self.busy_cpus)
    }

    pub(crate) fn waits_for_cpus(&self, in_flight: f64) -> bool {
        self.run_wait >= RUN_WAIT && self.ready() >= MOST * self.in_hand(in_flight)
    }

    /// The address that most threads waited for.
    pub(crate) fn most_waited_for(&self, measured: &Measured) -> Option<String> {
        let prefix = format!("{} to ", self.name);
        measured
            .columns(metrics::PROCESS_PEER_WAIT_THREADS, &prefix)
            .filter_map(|(at, column)| {
                let peer = split_instance(&column.instance).1.strip_prefix(&prefix)?;
                Some((measured.column(at)?, peer))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, peer)| peer.to_string())
    }
}

/// What is at an address: the dependency whose proxy listens there, or the watched service, with the address.
pub(crate) fn name_at(measured: &Measured, address: &str) -> String {
    let watched = || {
        let mut services: Vec<&str> =
            listening_at(measured, address).filter(|name| !is_a_whole(measured, name)).collect();
        services.dedup();
        match services.as_slice() {
            [service] => Some(format!("{service} ({address})")),
            _ => None,
        }
    };
    dependency_at(&measured.record.run, address).or_else(watched).unwrap_or_else(|| address.to_string())
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
