//! What did the threads of the service do while operations waited? The host's counters are idle when a pool,
//! a lock or another slow service is the limit; the evidence is the activity of the service's own threads.
//!
//! Operations are with the threads at work, so what most of these wait for is the limit, unless more of the
//! threads would help. [`RULES`] are applied in order; the first match names the limit.

use model::claim::{ServiceClaim, ServiceState, Stage, ThreadState};
use model::resource::Detail;
use model::result::{OperationResult, ResultDocument, TrialResult};
use model::{
    Claim, Detector, Estimate, Evidence, Finding, FindingKind, Operation, Owner, Resource, ResourceClass,
    Study, metrics,
};

use super::{Sign, gather_steps, note_gains, pauses};
use crate::facts::device::Device;
use crate::facts::io_limit::Reached;
use crate::facts::pauses::Pauses;
use crate::facts::service::{
    FULL_MEMORY, MOST, QUEUED, ROOM_SHARE, RUN_WAIT, Service, THROTTLED_SHARE, called, has_busy_cpu,
    is_a_whole, listening_at, name_at, services,
};
use crate::facts::threads::Thread;
use crate::measured::Measured;

/// The same for files, if an I/O limit of the service is reached: its other work may take longer than the
/// wait.
const AT_LIMIT: f64 = 0.2;
/// Share of a CPU from which a thread counts as always busy.
const FULL_THREAD: f64 = 0.85;
/// Share of the responses in flight that wait in TCP buffers, from which sending is the limit. A response on
/// its way is half sent on average.
const SENDING_SHARE: f64 = 0.25;
/// Size of a response from which it is visible in these buffers besides the usual contents of every
/// connection.
const ANSWER_BYTES: f64 = 16384.0;
/// Share of the time from which a stage of a pipeline is always busy.
const ALWAYS: f64 = 0.8;
/// The same for an engine: one of its stages sets the pace, and threads are only sampled.
const MOSTLY: f64 = 0.6;
/// How much longer than the next one the busiest stage is busy, as a share of the time.
const AHEAD: f64 = 0.15;
/// Flushes per operation from which each operation has its own.
const FLUSHES_EACH: f64 = 0.5;
/// Ratio of the time of flushes and the kernel to all other time, from which flushes are most of an
/// operation's time.
const FLUSHES_OVER_ELSE: f64 = 2.0;
/// Number of threads up to which a program may be a pipeline: more threads of the same kind are a pool.
const PIPELINE_THREADS: f64 = 8.0;
/// Number of threads up to which it counts as a single one.
const ONE_HOLDER: f64 = 1.6;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let mut findings = gather_steps(Detector::Service, study, document, |measured, trial| {
        // During a pause, threads wait for its end, which may look like any other wait.
        let pauses = Pauses::of(measured);
        let services = services(measured).into_iter().filter(|name| !is_a_whole(measured, name));
        let services = services.filter_map(|name| match &pauses {
            Some(pauses) => Service::of(measured, name, &pauses.clear(measured, name)),
            None => Service::of(measured, name, &measured.spans()),
        });
        let mut signs: Vec<Sign> =
            services.filter_map(|service| Scene::sign(&service, measured, trial, pauses.is_some())).collect();
        if pauses.is_some() && pauses::limit(measured, trial) {
            for sign in signs.iter_mut().filter(|sign| sign.kind == FindingKind::Limits) {
                sign.kind = FindingKind::Observation;
            }
        }
        signs
    });
    // Idle threads at a smaller load are not a contradiction that is worth reporting.
    let about = |finding: &Finding| (finding.about.clone(), finding.step.clone());
    let limits = findings.iter().filter(|finding| finding.kind == FindingKind::Limits);
    let limits: Vec<(Option<Resource>, Option<Operation>)> = limits.map(about).collect();
    findings.retain(|finding| finding.kind == FindingKind::Limits || !limits.contains(&about(finding)));
    note_gains(&mut findings, document);
    findings
}

/// A service under the load of a trial.
struct Scene<'a> {
    service: &'a Service<'a>,
    measured: &'a Measured<'a>,
    trial: &'a TrialResult,
    whole: &'a OperationResult,
    /// Operations in flight at the service: those of the load, or calls of other watched services.
    in_flight: f64,
    /// Operations that its threads process.
    in_hand: f64,
    /// Idle threads of a pool that gets its work from another thread.
    parked: f64,
}

/// The result of a rule: the resource, the activity of the threads, and how clear it is.
struct Said {
    about: Resource,
    state: ServiceState,
    strength: f64,
    evidence: Vec<Evidence>,
}

type Rule = fn(&Scene) -> Option<Said>;

/// The rules for limits of a service; the first match applies. Rules for what prevents threads from working
/// at all (quota, one thread, CPUs, memory) precede rules for what they wait for themselves.
static RULES: &[Rule] = &[
    throttled,
    engine,
    single_thread,
    waits_for_cpus,
    memory_limit_reached,
    page_faults,
    files,
    sending,
    connection_pool,
    lock,
    downstream,
    pipeline,
    all_at_work,
];

impl<'a> Scene<'a> {
    fn sign(
        service: &'a Service<'a>,
        measured: &'a Measured<'a>,
        trial: &'a TrialResult,
        paused: bool,
    ) -> Option<Sign> {
        let whole = trial.whole().filter(|whole| whole.completed > 0)?;
        let called = called(measured, service.name, &measured.spans());
        let in_flight = called.map_or(whole.concurrency, |called| called.min(whole.concurrency));
        let in_hand = service.in_hand(in_flight);
        let parked = if measured.record.run.operations_in_turn { 0.0 } else { service.parked(in_flight) };
        let scene = Scene { service, measured, trial, whole, in_flight, in_hand, parked };
        let waits = || waits_for_itself(&scene).map(|said| (FindingKind::Observation, said));
        let limit = || RULES.iter().find_map(|rule| rule(&scene)).map(|said| (FindingKind::Limits, said));
        let room = || headroom(&scene).map(|said| (FindingKind::RuledOut, said));
        let (kind, said) = waits().or_else(limit).or_else(room)?;
        let claim = Claim::Service(ServiceClaim {
            process: service.name.into(),
            threads: service.threads,
            at_work: scene.at_work(),
            used_cpus: service.busy_cpus,
            accept_queue: service.queued,
            host_cpu_share: measured.host_mean(metrics::CPU_BUSY_SHARE),
            between_pauses: paused && kind == FindingKind::Limits,
            state: said.state,
        });
        let evidence = scene.evidence().into_iter().chain(said.evidence);
        Some(Sign::new(kind, Some(said.about), claim, said.strength).with(evidence))
    }

    /// Threads that wait for work.
    fn idle(&self) -> f64 {
        self.service.idle() + self.parked
    }

    /// Threads that have work.
    fn at_work(&self) -> f64 {
        (self.service.threads - self.idle()).max(0.0)
    }

    /// Whether all threads have work, and more of it waits for them.
    fn all_at_work(&self) -> bool {
        let waits = self.service.work_waits() || self.service.queues_inside(self.in_flight);
        waits && self.none_idle()
    }

    /// The same, if work has just begun to wait.
    fn begins_to_wait(&self) -> bool {
        self.service.begins_to_queue(self.in_flight) && self.none_idle()
    }

    fn none_idle(&self) -> bool {
        !self.is_engine() && self.idle() < ROOM_SHARE * self.service.threads
    }

    /// A number of threads as a share of the operations in hand.
    fn of_hand(&self, threads: f64) -> f64 {
        threads / self.in_hand
    }

    /// Whether the load is an engine that issues its own operations. The number of operations in hand is then
    /// unknown, because it takes as many as it can. Threads at one address cannot be distinguished from idle
    /// ones that wait there for work, either in the engine or in another service. Idle threads are not
    /// headroom, because more of them would get no more work.
    fn is_engine(&self) -> bool {
        self.measured.record.run.operations_in_turn
    }

    /// Whether the load is work that a tool does by itself, as an import does: it takes as much as it can.
    fn is_tool(&self) -> bool {
        self.measured.record.run.traits.grouped
    }

    fn says(&self, class: ResourceClass, state: ServiceState, strength: f64) -> Option<Said> {
        let about = Resource::of_process(class, self.service.name);
        Some(Said { about, state, strength, evidence: Vec::new() })
    }

    fn evidence(&self) -> Vec<Evidence> {
        let Scene { service, measured, trial, .. } = self;
        let note = |metric: &str, value: f64| measured.evidence_of(trial, metric, service.name, value);
        let few = |most| Estimate { value: 0.0, low: 0.0, high: most };
        let mut found = vec![
            note(metrics::PROCESS_RUN_QUEUE_LENGTH, service.run_wait).threshold(few(RUN_WAIT)),
            note(metrics::PROCESS_BUSY_CPUS, service.busy_cpus),
        ];
        let kinds = [
            (metrics::PROCESS_TIMER_WAIT_THREADS, service.timer),
            (metrics::PROCESS_LOCK_WAIT_THREADS, service.lock),
            (metrics::PROCESS_PEER_WAIT_THREADS, service.peer),
            (metrics::PROCESS_TRANSFER_WAIT_THREADS, service.disk),
            (metrics::PROCESS_FLUSH_WAIT_THREADS, service.flush),
            (metrics::PROCESS_ACCEPT_WAIT_THREADS, service.accept),
            (metrics::PROCESS_CLIENT_WAIT_THREADS, service.client),
        ];
        found.extend(
            kinds
                .into_iter()
                .filter(|(_, threads)| *threads > 0.0)
                .map(|(metric, value)| note(metric, value)),
        );
        if let Some(queued) = service.queued {
            found.push(note(metrics::PROCESS_ACCEPT_QUEUE_CONNECTIONS, queued).threshold(few(QUEUED)));
        }
        found
    }
}

fn throttled(scene: &Scene) -> Option<Said> {
    let (quota_cpus, share) = scene.service.quota_cpus.zip(scene.service.throttled)?;
    let state = ServiceState::Throttled { quota_cpus, throttled_share: share };
    scene.says(ResourceClass::CpuQuota, state, share).filter(|_| share >= THROTTLED_SHARE)
}

/// An engine: the stage that is always busy sets its pace, however many threads wait for it.
fn engine(scene: &Scene) -> Option<Said> {
    scene.is_engine().then(|| stage(scene, MOSTLY)).flatten()
}

/// A program whose threads pass work to each other: none of them waits for requests, and one is always busy.
fn pipeline(scene: &Scene) -> Option<Said> {
    let service = scene.service;
    let few = service.threads <= PIPELINE_THREADS && service.idle() < ROOM_SHARE * service.threads;
    few.then(|| stage(scene, ALWAYS)).flatten()
}

/// The busiest stage, if it is busy for at least this share of the time and longer than the others.
fn stage(scene: &Scene, least: f64) -> Option<Said> {
    let threads = Thread::all(scene.measured, scene.service.name, &scene.measured.spans());
    let busiest = threads.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()))?;
    let others = threads.iter().filter(|thread| !std::ptr::eq(*thread, busiest));
    let next = others.map(Thread::busy).fold(0.0, f64::max);
    if busiest.busy() < least || busiest.busy() < next + AHEAD {
        return None;
    }
    let peer = || named(scene.measured, scene.service.most_waited_for(scene.measured));
    let (stage, busy_share) = match busiest.stage(peer) {
        // On a device that answers immediately, a flush is kernel time as well as waiting time.
        (Stage::Cpu, _) if flushes_each(scene, busiest.waited_elsewhere()) => {
            (Stage::Flushes, busiest.busy())
        }
        other => other,
    };
    let process = |class| Resource::of_process(class, scene.service.name);
    let about = match &stage {
        Stage::Cpu => process(ResourceClass::SingleThread),
        Stage::Flushes => process(ResourceClass::Disk).with(Detail::Flushes),
        Stage::Transfers => process(ResourceClass::Disk).with(Detail::Transfers),
        Stage::Downstream(peer) => Resource {
            class: ResourceClass::Downstream,
            of: Some(Owner::Address(peer.clone())),
            host: None,
            detail: None,
        },
    };
    let state = ServiceState::Pipeline { stage, busy_share, cpu_share: busiest.ran };
    Some(Said { about, state, strength: busy_share, evidence: Vec::new() })
}

/// Whether each operation has its own flush that takes most of its time: waits for flushes and kernel time,
/// in which a flush begins and ends, compared with all other work of the threads. Kernel time is an upper
/// bound for flushes, because it includes other calls; so both together must be two thirds.
fn flushes_each(scene: &Scene, else_at_work: f64) -> bool {
    let Scene { service, measured, whole, .. } = scene;
    let flushes = Device::busiest(measured).and_then(|device| device.flushes);
    let system = measured.mean(metrics::PROCESS_SYSTEM_CPUS, service.name).unwrap_or(0.0);
    let beside = (service.busy_cpus - system).max(0.0) + else_at_work;
    flushes.is_some_and(|flushes| flushes.per_s >= FLUSHES_EACH * whole.rate_per_s)
        && service.flush > 0.0
        && system + service.flush >= FLUSHES_OVER_ELSE * beside
}

fn single_thread(scene: &Scene) -> Option<Said> {
    let service = scene.service;
    let busiest = service.busiest_thread?;
    // It is always busy: when it did not run, it waited for a CPU because of neighbours.
    let never_rests = busiest + service.run_wait >= FULL_THREAD && service.run_wait <= ONE_HOLDER;
    let is_alone = service.at_work() <= ONE_HOLDER;
    let others_wait = scene.of_hand(service.lock) >= MOST;
    // With one user, a single thread is sufficient in any case; an engine takes as many operations as it can.
    let is_pressed = scene.in_flight > ONE_HOLDER || scene.is_engine() || scene.is_tool();
    let applies =
        never_rests && busiest >= 0.7 * service.busy_cpus && (others_wait || is_alone) && is_pressed;
    let state = ServiceState::SingleThread {
        busiest_thread_cpus: busiest,
        ready_threads: service.run_wait,
        lock_threads: (!is_alone).then_some(service.lock),
    };
    scene.says(ResourceClass::SingleThread, state, busiest).filter(|_| applies)
}

fn waits_for_cpus(scene: &Scene) -> Option<Said> {
    let service = scene.service;
    let state = ServiceState::WaitsForCpu { ready_threads: service.run_wait };
    scene
        .says(ResourceClass::Cpu, state, scene.of_hand(service.ready()))
        .filter(|_| service.waits_for_cpus(scene.in_flight) && has_busy_cpu(scene.measured))
}

fn memory_limit_reached(scene: &Scene) -> Option<Said> {
    let service = scene.service;
    let threads = service.disk + service.faulting;
    let used_share = service.memory_share.filter(|share| *share >= FULL_MEMORY)?;
    let read_bytes_per_s = service.read_bytes_per_s.filter(|read| *read > 0.0)?;
    let state = ServiceState::MemoryLimitReached { used_share, read_bytes_per_s, threads };
    scene.says(ResourceClass::Memory, state, used_share).filter(|_| scene.of_hand(threads) >= MOST)
}

fn page_faults(scene: &Scene) -> Option<Said> {
    let threads = scene.service.faulting;
    let faults_per_s = scene.service.major_faults_per_s.filter(|_| scene.of_hand(threads) >= MOST)?;
    // Pages that were reclaimed and are needed again; a file that is read for the first time has none.
    let read_back = [metrics::MEMORY_REFAULTS_PER_S, metrics::MEMORY_SWAP_INS_PER_S];
    let read_back = read_back.iter().filter_map(|metric| scene.measured.host_mean(metric)).sum::<f64>();
    let of_memory = read_back >= 0.5 * faults_per_s;
    let refaults_per_s = of_memory.then_some(read_back);
    let state = ServiceState::PageFaults { threads, faults_per_s, refaults_per_s };
    let class = if of_memory { ResourceClass::Memory } else { ResourceClass::Disk };
    let said = scene.says(class, state, scene.of_hand(threads))?;
    Some(if of_memory { said } else { Said { about: said.about.with(Detail::PageFaults), ..said } })
}

fn files(scene: &Scene) -> Option<Said> {
    let Scene { service, measured, trial, .. } = scene;
    // If a lock lets one thread after the other flush, no single thread is the stage that is always busy;
    // together they are.
    let kernel_too = scene.is_engine() && service.flush >= AT_LIMIT && flushes_each(scene, service.peer);
    let waits = if kernel_too { 1.0 } else { scene.of_hand(service.disk + service.flush) };
    let at_limit = || waits >= AT_LIMIT && Reached::by_service(measured, service.name).is_some();
    if !(waits >= MOST || at_limit()) {
        return None;
    }
    let flushes = service.flush > service.disk;
    let threads = if flushes { service.flush } else { service.disk };
    let limit = Reached::behind_service(measured, service.name);
    let device = Device::busiest(measured);
    let mut evidence: Vec<Evidence> = limit.iter().map(|limit| limit.evidence(measured, trial)).collect();
    evidence.extend(device.iter().flat_map(|device| device.evidence(measured, trial)));
    let state = ServiceState::Files {
        threads,
        flushes,
        limit: limit.map(|limit| limit.claim()),
        serial_flushes: device.and_then(|device| device.serial_flushes()).filter(|_| flushes),
    };
    let said = scene.says(ResourceClass::Disk, state, scene.of_hand(threads))?;
    let detail = if flushes { Detail::Flushes } else { Detail::Transfers };
    Some(Said { about: said.about.with(detail), evidence, ..said })
}

fn sending(scene: &Scene) -> Option<Said> {
    let Scene { service, whole, in_flight, .. } = *scene;
    let answer_bytes = whole.bytes_per_s / whole.rate_per_s;
    let buffered_bytes = scene.measured.host_mean(metrics::NETWORK_TCP_BUFFER_BYTES)?;
    let applies = answer_bytes >= ANSWER_BYTES
        && buffered_bytes >= SENDING_SHARE * in_flight * answer_bytes
        // They are on their way, not with threads that process them.
        && in_flight - service.at_work() >= MOST * in_flight
        && service.queued.is_none_or(|queued| queued < QUEUED);
    let bytes_per_s = whole.bytes_per_s;
    applies.then(|| Said {
        about: Resource::of_host(ResourceClass::Network),
        state: ServiceState::Sending { buffered_bytes, in_flight, answer_bytes, bytes_per_s },
        strength: buffered_bytes / (in_flight * answer_bytes),
        evidence: vec![scene.measured.evidence(
            scene.trial,
            metrics::NETWORK_TCP_BUFFER_BYTES,
            buffered_bytes,
        )],
    })
}

fn connection_pool(scene: &Scene) -> Option<Said> {
    if scene.is_engine() || scene.in_flight <= ONE_HOLDER {
        return None;
    }
    let Service { same_lock, peer, .. } = *scene.service;
    let applies =
        same_lock >= 0.3 * scene.in_hand && same_lock >= 1.0 && peer > ONE_HOLDER && scene.parked == 0.0;
    let state = ServiceState::ConnectionPool { using: peer, waiting: same_lock };
    scene.says(ResourceClass::ConnectionPool, state, scene.of_hand(same_lock)).filter(|_| applies)
}

fn lock(scene: &Scene) -> Option<Said> {
    // One operation waits for no other one: threads at one address are idle.
    if scene.is_engine() || scene.in_flight <= ONE_HOLDER {
        return None;
    }
    let threads = scene.service.same_lock;
    let (beside, in_threads) = scene.service.beside_the_lock(scene.in_flight);
    let applies =
        scene.of_hand(threads) >= MOST && threads >= 1.0 && beside < MOST * in_threads && scene.parked == 0.0;
    let state = ServiceState::Lock { threads };
    scene.says(ResourceClass::Lock, state, scene.of_hand(threads)).filter(|_| applies)
}

fn downstream(scene: &Scene) -> Option<Said> {
    let threads = scene.service.peer;
    if scene.of_hand(threads) < MOST {
        return None;
    }
    let peer = scene.service.most_waited_for(scene.measured);
    if (scene.all_at_work() || scene.begins_to_wait())
        && peer.as_deref().is_some_and(|peer| has_room(scene, peer))
    {
        // More of these threads would be served.
        let state = ServiceState::AllThreadsAtWork { most: ThreadState::Downstream, threads };
        return scene.says(ResourceClass::WorkerPool, state, 1.0);
    }
    let peer = named(scene.measured, peer);
    Some(Said {
        about: Resource {
            class: ResourceClass::Downstream,
            of: Some(Owner::Address(peer.clone())),
            host: None,
            detail: None,
        },
        state: ServiceState::Downstream { peer, threads },
        strength: scene.of_hand(threads),
        evidence: Vec::new(),
    })
}

/// What threads wait for, with its name where it is known.
fn named(measured: &Measured, address: Option<String>) -> String {
    address.map_or_else(|| "another address".into(), |address| name_at(measured, &address))
}

/// Whether a watched service at this address has threads that wait for work.
fn has_room(scene: &Scene, address: &str) -> bool {
    let measured = scene.measured;
    let spans = measured.spans();
    let mut listening = listening_at(measured, address).filter(|name| !is_a_whole(measured, name));
    listening.any(|name| {
        let in_flight = called(measured, name, &spans).unwrap_or(scene.in_flight);
        Service::of(measured, name, &spans).is_some_and(|service| service.has_room(in_flight))
    })
}

fn all_at_work(scene: &Scene) -> Option<Said> {
    let service = scene.service;
    if !scene.all_at_work() {
        return None;
    }
    let waits = [
        (service.timer, ThreadState::Asleep),
        ((service.lock - scene.parked).max(0.0), ThreadState::Lock),
        (service.peer, ThreadState::Downstream),
        (service.disk + service.flush, ThreadState::Files),
        (service.running, ThreadState::Running),
    ];
    let (threads, most) = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    scene.says(ResourceClass::WorkerPool, ServiceState::AllThreadsAtWork { most, threads }, 1.0)
}

/// A tool with work whose threads do nothing most of the time: they wait for each other, or look at times whether there is
/// something to do.
fn waits_for_itself(scene: &Scene) -> Option<Said> {
    let service = scene.service;
    let waits = service.disk + service.flush + service.faulting + service.peer;
    let work_share = service.busy_cpus + service.run_wait + waits;
    let state = ServiceState::WaitsForItself {
        work_share,
        timer_threads: service.timer,
        waiting_threads: service.lock + service.idle(),
    };
    let is_throttled = throttled(scene).is_some();
    let applies = scene.is_tool() && work_share < MOST && !is_throttled;
    scene.says(ResourceClass::WorkerPool, state, 1.0 - work_share).filter(|_| applies)
}

/// Shows that the threads were not the limit.
fn headroom(scene: &Scene) -> Option<Said> {
    let service = scene.service;
    let idle_threads = scene.idle();
    let applies = !scene.is_engine() && !scene.is_tool() && service.has_room(scene.in_flight);
    let state = ServiceState::Headroom { idle_threads };
    scene.says(ResourceClass::WorkerPool, state, idle_threads / service.threads).filter(|_| applies)
}
