//! Where were the threads of the service, and what waited for them? The host's counters are idle when a pool, a lock or
//! a slow service behind is the limit; what tells is what the service's own threads do while work waits.
//!
//! A thread is *at work* unless it waits for work to come. Operations spend their time with the threads at work, so what
//! most of these wait for is what limits, when nothing more of them would help.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, Study};

use super::pauses::{self, Pauses};
use super::{Claim, evidence, gather, note_gains};
use crate::measured::Measured;
use crate::words;

pub(crate) const NAME: &str = "service";

/// Share of the threads at work that must be in one state for it to be the limit.
const MOST: f64 = 0.5;
/// The same for files, when a limit on the service's I/O is reached: what it does beside may take longer than the wait.
const AT_LIMIT: f64 = 0.2;
/// Share of a service's threads that wait for work, from which on it has room.
const ROOM_SHARE: f64 = 0.1;
/// Connections that wait to be accepted, from which on work waits.
const QUEUED: f64 = 0.5;
/// Share of the quota's periods in which it was used up, from which it limits.
pub(super) const THROTTLED_SHARE: f64 = 0.5;
/// Seconds waited for a CPU per second, from which the CPU limits.
const RUN_WAIT: f64 = 0.5;
/// Share of a CPU from which a thread never rests.
const FULL_THREAD: f64 = 0.85;
/// Share of the memory limit from which it is reached.
pub(super) const FULL_MEMORY: f64 = 0.95;
/// Share of the answers in flight that wait in buffers of TCP, from which the way out limits. An answer on its way is half
/// sent on average.
const SENDING_SHARE: f64 = 0.25;
/// Bytes of an answer from which it shows in these buffers beside what every connection takes.
const ANSWER_BYTES: f64 = 16384.0;
/// Threads up to which it counts as one alone.
const ONE_HOLDER: f64 = 1.6;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let mut findings = gather(NAME, study, document, |measured, trial| {
        // While everything stands still, threads wait for the end of it, whatever that looks like.
        let pauses = Pauses::of(measured);
        let services = services(measured).into_iter().filter_map(|name| match &pauses {
            Some(pauses) => Service::of(measured, name, &pauses.clear(measured, name)),
            None => Service::of(measured, name, &whole(measured)),
        });
        let mut claims: Vec<Claim> = services.flat_map(|service| service.claims(measured, trial)).collect();
        if pauses.is_some() {
            let limit = pauses::limit(measured, trial);
            for claim in claims.iter_mut().filter(|claim| claim.kind == FindingKind::Limits) {
                claim.text = format!("Between the pauses: {}", claim.text);
                if limit {
                    claim.kind = FindingKind::Observation;
                }
            }
        }
        claims
    });
    // Threads that had room at a smaller load are no contradiction worth a line.
    let limits: Vec<String> = findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Limits)
        .map(|finding| finding.resource.clone())
        .collect();
    findings.retain(|finding| finding.kind == FindingKind::Limits || !limits.contains(&finding.resource));
    note_gains(&mut findings, document);
    findings
}

/// The watched processes but for Plimsoll itself.
pub(crate) fn services<'a>(measured: &Measured<'a>) -> Vec<&'a str> {
    measured
        .columns()
        .filter(|(_, column)| column.metric.name == "process.threads" && column.instance != "self")
        .map(|(_, column)| column.instance.as_str())
        .collect()
}

/// All of the measured phase.
fn whole(measured: &Measured) -> [(f64, f64); 1] {
    [(measured.begin_s, measured.end_s)]
}

/// Whether most of what a service has in hand, of so many operations in flight, waits for CPUs.
pub(crate) fn waits_for_cpus(measured: &Measured, in_flight: f64) -> bool {
    let whole = whole(measured);
    let mut services = services(measured).into_iter().filter_map(|name| Service::of(measured, name, &whole));
    services.any(|service| service.waits_for_cpus(in_flight))
}

/// What the threads of a service did on average over the measured phase, but for its pauses.
struct Service<'a> {
    name: &'a str,
    threads: f64,
    busy_cpus: f64,
    run_wait: f64,
    running: f64,
    busiest_thread: Option<f64>,
    disk: f64,
    flush: f64,
    lock: f64,
    same_lock: f64,
    timer: f64,
    accept: f64,
    events: f64,
    client: f64,
    peer: f64,
    /// Connections that wait to be accepted; none for a service that does not listen, or of which it is not known.
    queued: Option<f64>,
    quota_cpus: Option<f64>,
    throttled: Option<f64>,
    memory_share: Option<f64>,
    read_bytes_per_s: Option<f64>,
    major_faults_per_s: Option<f64>,
    /// Threads that wait for a page to be read: asleep for a device, and in no call.
    faulting: f64,
}

impl<'a> Service<'a> {
    fn of(measured: &Measured, name: &'a str, spans: &[(f64, f64)]) -> Option<Self> {
        let mean = |metric: &str| measured.mean_over(&format!("process.{metric}"), name, spans);
        let threads = mean("threads").filter(|threads| *threads > 0.0)?;
        let waits = |metric: &str| mean(metric).unwrap_or(0.0);
        // Without the system calls of its threads nothing is said of what they wait for.
        mean("lock_wait_threads")?;
        let limit = mean("memory_limit_bytes").filter(|limit| *limit > 0.0);
        Some(Service {
            name,
            threads,
            busy_cpus: waits("busy_cpus"),
            run_wait: waits("run_queue_length"),
            running: waits("running_threads"),
            busiest_thread: mean("busiest_thread_cpus"),
            disk: waits("transfer_wait_threads"),
            flush: waits("flush_wait_threads"),
            lock: waits("lock_wait_threads"),
            same_lock: waits("same_lock_wait_threads"),
            timer: waits("timer_wait_threads"),
            accept: waits("accept_wait_threads"),
            events: waits("event_wait_threads"),
            client: waits("client_wait_threads"),
            peer: waits("peer_wait_threads"),
            queued: mean("accept_queue_connections"),
            quota_cpus: mean("quota_cpus"),
            throttled: mean("throttled_share"),
            memory_share: limit.and_then(|limit| Some(mean("memory_charged_bytes")? / limit)),
            read_bytes_per_s: mean("read_bytes_per_s"),
            major_faults_per_s: mean("major_faults_per_s").filter(|faults| *faults > 0.0),
            faulting: (waits("disk_wait_threads")
                - waits("transfer_wait_threads")
                - waits("flush_wait_threads"))
            .clamp(0.0, waits("other_wait_threads")),
        })
    }

    /// Threads that wait for work to come: a client's request, a connection, an event.
    fn idle(&self) -> f64 {
        self.accept + self.events + self.client
    }

    /// Threads that hold work.
    fn at_work(&self) -> f64 {
        (self.threads - self.idle()).max(0.0)
    }

    /// Whether work waits for the service: in the accept queue, or, where it is not known, with all threads at work.
    fn work_waits(&self) -> bool {
        self.queued.map_or(self.idle() < ROOM_SHARE * self.threads, |queued| queued >= QUEUED)
    }

    /// Operations the service's threads have in hand; the others wait before it, or are on the way.
    fn in_hand(&self, in_flight: f64) -> f64 {
        self.at_work().min(in_flight).max(1e-9)
    }

    fn waits_for_cpus(&self, in_flight: f64) -> bool {
        self.run_wait >= RUN_WAIT && self.running >= MOST * self.in_hand(in_flight)
    }

    fn claims(&self, measured: &Measured, trial: &TrialResult) -> Vec<Claim> {
        let Some(whole) = trial.whole().filter(|whole| whole.completed > 0) else { return Vec::new() };
        let in_flight = whole.concurrency;
        let mut claims = Vec::new();
        let mut claim = |kind, resource: String, text: String, strength: f64| {
            claims.push(Claim {
                kind,
                resource,
                text,
                strength,
                evidence: self.evidence(measured, trial),
                against: Vec::new(),
            });
        };
        let name = self.name;
        let in_hand = self.in_hand(in_flight);
        let of = |threads: f64| threads / in_hand;
        let says = |threads: f64, what: &str| match words::things(self.at_work()).as_str() {
            "1" => format!("its one thread at work {what} {} of the time", words::percent(threads.min(1.0))),
            at_work => format!("of {at_work} threads at work {} {what}", words::things(threads)),
        };
        let queue = match self.queued {
            Some(queued) => format!("; {} connections waited to be accepted", words::things(queued)),
            None => String::new(),
        };
        if let (Some(quota), Some(throttled)) = (self.quota_cpus, self.throttled)
            && throttled >= THROTTLED_SHARE
        {
            let text = format!(
                "The CPU quota limited {name}: it used {} of the {} CPUs it may use and was held back in {} of the periods{queue}.",
                words::number(self.busy_cpus),
                words::number(quota),
                words::percent(throttled)
            );
            claim(FindingKind::Limits, format!("cpu quota of {name}"), text, throttled);
            return claims;
        }
        if let Some(busiest) = self.busiest_thread
            // It never rests: what it did not run it waited for a CPU, as neighbours make it.
            && busiest + self.run_wait >= FULL_THREAD
            && busiest >= 0.7 * self.busy_cpus
            && self.run_wait <= ONE_HOLDER
            && (of(self.lock) >= MOST || self.at_work() <= ONE_HOLDER)
            // One user at a time is served by one thread, whatever there is; an engine takes as much in hand as it can.
            && (in_flight > ONE_HOLDER || measured.record.run.operations_in_turn)
        {
            let text = format!(
                "One thread limited {name}: it used {} of a CPU and waited for one {} of the time, all threads together \
                 used {}{}{queue}.",
                words::number(busiest),
                words::percent(self.run_wait.min(1.0)),
                words::number(self.busy_cpus),
                match self.at_work() <= ONE_HOLDER {
                    true => String::new(),
                    false => format!("; {}", says(self.lock, "waited for it")),
                }
            );
            claim(FindingKind::Limits, format!("single thread of {name}"), text, busiest);
            return claims;
        }
        if self.waits_for_cpus(in_flight) {
            let text = format!(
                "The CPU limited {name}: its threads ran on {} CPUs and {} more were ready and waited for one{queue}.",
                words::number(self.busy_cpus),
                words::things(self.run_wait)
            );
            claim(FindingKind::Limits, format!("cpu of {name}"), text, of(self.running));
            return claims;
        }
        let waits_for_pages = of(self.disk + self.faulting) >= MOST;
        if let Some(share) = self.memory_share
            && share >= FULL_MEMORY
            && waits_for_pages
            && let Some(read) = self.read_bytes_per_s.filter(|read| *read > 0.0)
        {
            let text = format!(
                "The memory limit of {name} was reached, {} of it, and {} were read from storage again: {}.",
                words::percent(share),
                words::bytes_per_s(read),
                says(self.disk + self.faulting, "waited for files or pages")
            );
            claim(FindingKind::Limits, format!("memory of {name}"), text, share);
            return claims;
        }
        if of(self.faulting) >= MOST
            && let Some(faults) = self.major_faults_per_s
        {
            // Pages that were there before and were given up; of a file read for the first time there are none.
            let read_back = ["memory.refaults_per_s", "memory.swap_ins_per_s"];
            let read_back = read_back.iter().filter_map(|metric| measured.host_mean(metric)).sum::<f64>();
            let waited = says(self.faulting, "waited for a page to be read");
            let faults_of = format!("{} major page faults a second", words::number(faults));
            let (resource, text) = if read_back >= 0.5 * faults {
                let text = format!(
                    "Memory limited {name}: {waited}; {faults_of}, and {} pages a second that had been given up were read again{queue}.",
                    words::number(read_back)
                );
                (format!("memory of {name}"), text)
            } else {
                let text = format!(
                    "The disk limited {name}: {waited}; {faults_of}{queue}{}.",
                    super::cpu_clause(measured)
                );
                (format!("disk of {name} (page faults)"), text)
            };
            claim(FindingKind::Limits, resource, text, of(self.faulting));
            return claims;
        }
        let waits = of(self.disk + self.flush);
        if waits >= MOST || (waits >= AT_LIMIT && super::disk::is_at_limit(measured, name)) {
            let (what, kind) =
                if self.flush > self.disk { (self.flush, "flushes") } else { (self.disk, "transfers") };
            let doing = if kind == "flushes" {
                "waited until data was safe on the disk"
            } else {
                "waited for data from or to files"
            };
            let mut text = format!(
                "The disk limited {name}: {}{queue}{}.",
                says(what, doing),
                super::cpu_clause(measured)
            );
            let (more, found) = super::disk::behind_service(measured, trial, name, kind == "flushes");
            text.push_str(&more);
            claim(FindingKind::Limits, format!("disk of {name} ({kind})"), text, of(what));
            claims.iter_mut().for_each(|claim| claim.evidence.extend_from_slice(&found));
            return claims;
        }
        let answer_bytes = whole.bytes_per_s / whole.rate_per_s;
        let buffered = measured.host_mean("network.tcp_buffer_bytes");
        if let Some(buffered) = buffered.filter(|_| answer_bytes >= ANSWER_BYTES)
            && buffered >= SENDING_SHARE * in_flight * answer_bytes
            // They are on their way, not with threads that work on them.
            && in_flight - self.at_work() >= MOST * in_flight
            && self.queued.is_none_or(|queued| queued < QUEUED)
        {
            let text = format!(
                "The network limited {name}: {} of answers waited in the buffers of TCP, where {} requests of {} each were \
                 in flight; they went out at {} and its threads had room.",
                words::bytes(buffered),
                words::things(in_flight),
                words::bytes(answer_bytes),
                words::bytes_per_s(whole.bytes_per_s)
            );
            claim(FindingKind::Limits, "network".into(), text, buffered / (in_flight * answer_bytes));
            return claims;
        }
        // Threads that wait at one lock hold operations when too few others are there to hold them; idle threads of a
        // pool wait at one address too, but beside as many at work as there are operations.
        let beside = (self.at_work() - self.same_lock).max(0.0);
        let in_threads = (in_flight - self.queued.unwrap_or(0.0)).max(0.0);
        let hold_operations = beside < MOST * in_threads;
        if self.same_lock >= 0.3 * in_hand
            && self.same_lock >= 1.0
            && self.peer > ONE_HOLDER
            && beside < in_threads
        {
            let text = format!(
                "The connections from {name} to the service behind it were the limit: {} threads used one and {} waited for one of them{queue}.",
                words::things(self.peer),
                words::things(self.same_lock)
            );
            claim(FindingKind::Limits, format!("connection pool of {name}"), text, of(self.same_lock));
            return claims;
        }
        if of(self.same_lock) >= MOST && self.same_lock >= 1.0 && hold_operations {
            let text = format!(
                "A lock limited {name}: {} at one and the same lock{queue}{}.",
                says(self.same_lock, "waited"),
                super::cpu_clause(measured)
            );
            claim(FindingKind::Limits, format!("lock of {name}"), text, of(self.same_lock));
            return claims;
        }
        if of(self.peer) >= MOST {
            let peer = self.most_waited_for(measured);
            let text = format!(
                "The service at {peer} behind {name} was the limit: {}{queue}{}.",
                says(self.peer, "waited for its answer"),
                super::cpu_clause(measured)
            );
            claim(FindingKind::Limits, format!("downstream {peer}"), text, of(self.peer));
            return claims;
        }
        if self.work_waits() && self.idle() < ROOM_SHARE * self.threads {
            let waits = [
                (self.timer, "asleep until a time came"),
                (self.lock, "waiting for another thread"),
                (self.peer, "waiting for another service"),
                (self.disk + self.flush, "waiting for files"),
                (self.running, "running or ready to run"),
            ];
            let most = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
            let text = if self.threads < 1.5 {
                format!(
                    "The one thread of {name} was the limit: it was at work all the time, {} of it {}{queue}{}.",
                    words::percent(most.0.min(1.0)),
                    most.1,
                    super::cpu_clause(measured)
                )
            } else {
                format!(
                    "The {} threads of {name} were the limit: all were at work, {} of them {}, and none was free{queue}{}.",
                    words::things(self.threads),
                    words::things(most.0),
                    most.1,
                    super::cpu_clause(measured)
                )
            };
            claim(FindingKind::Limits, format!("worker pool of {name}"), text, 1.0);
            return claims;
        }
        if self.idle() >= ROOM_SHARE * self.threads && self.queued.is_none_or(|queued| queued < QUEUED) {
            let text = format!(
                "The threads of {name} were not the limit: {} of {} waited for work to come{queue}.",
                words::things(self.idle()),
                words::things(self.threads)
            );
            claim(FindingKind::RuledOut, format!("worker pool of {name}"), text, self.idle() / self.threads);
        }
        claims
    }

    /// The address that most threads waited for.
    fn most_waited_for(&self, measured: &Measured) -> String {
        let prefix = format!("{} to ", self.name);
        measured
            .columns()
            .filter(|(_, column)| column.metric.name == "process.peer_wait_threads")
            .filter_map(|(at, column)| {
                let peer = column.instance.strip_prefix(&prefix)?;
                Some((measured.column_mean(at, measured.begin_s, measured.end_s)?, peer))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map_or_else(|| "another address".into(), |(_, peer)| peer.to_string())
    }

    fn evidence(&self, measured: &Measured, trial: &TrialResult) -> Vec<Evidence> {
        let title = |metric: &str| format!("process.{metric}{{{}}}", self.name);
        let mut found = Vec::new();
        let mut add = |metric: &str, value: f64, expected: Option<Estimate>, text: String| {
            found.push(evidence(measured, trial, title(metric), value, expected, text));
        };
        let none = Some(Estimate { value: 0.0, low: 0.0, high: RUN_WAIT });
        add(
            "run_queue_length",
            self.run_wait,
            none,
            format!("{} threads were ready and waited for a CPU", words::things(self.run_wait)),
        );
        add("busy_cpus", self.busy_cpus, None, format!("{} CPUs were used", words::number(self.busy_cpus)));
        let kinds = [
            ("timer_wait_threads", self.timer, "slept until a time came"),
            ("lock_wait_threads", self.lock, "waited for another thread"),
            ("peer_wait_threads", self.peer, "waited for another service"),
            ("transfer_wait_threads", self.disk, "waited for data from or to files"),
            ("flush_wait_threads", self.flush, "waited until data was safe"),
            ("accept_wait_threads", self.accept, "waited for a connection"),
            ("client_wait_threads", self.client, "waited for a client"),
        ];
        for (metric, threads, what) in kinds {
            if threads > 0.0 {
                let of = words::things(self.threads);
                add(metric, threads, None, format!("{} of {of} threads {what}", words::things(threads)));
            }
        }
        if let Some(queued) = self.queued {
            let text = format!("{} connections waited to be accepted", words::things(queued));
            let line = Some(Estimate { value: 0.0, low: 0.0, high: QUEUED });
            add("accept_queue_connections", queued, line, text);
        }
        found
    }
}
