//! Tests that the right part of a service is named from the activity of its threads. The numbers were
//! measured on services with a known limit.

use model::claim::{ReachedLimit, SerialFlushes, ServiceClaim, ServiceState};
use model::cost::CostKind;
use model::result::ResultDocument;
use model::verdict::{InconclusiveReason, UnsaturatedReason};
use model::{Claim, DesignKind, FindingKind, Shape, Verdict};

use super::read::{limit, rests_on, shown, unclear, with};
use crate::result;
use crate::simulate::{Simulated, carry_out, experiment, level, single, vary};

/// A service with `threads` threads and 32 users that answers `rate` requests per second; counters that are
/// not given are zero.
pub(super) fn service(threads: f64, rate: f64, counters: &[(&'static str, f64)]) -> Simulated {
    let mut run = Simulated::of(Shape::closed(32), rate, 32.0 / rate * 1e3).http();
    run.in_flight = 32.0;
    run.bytes = 200;
    let all = [
        "process.busy_cpus",
        "process.run_queue_length",
        "process.running_threads",
        "process.busiest_thread_cpus",
        "process.lock_wait_threads",
        "process.same_lock_wait_threads",
        "process.timer_wait_threads",
        "process.event_wait_threads",
        "process.accept_wait_threads",
        "process.client_wait_threads",
        "process.peer_wait_threads",
        "process.transfer_wait_threads",
        "process.flush_wait_threads",
        "process.accept_queue_connections",
    ];
    let of =
        |metric: &str| counters.iter().find(|(name, _)| *name == metric).map_or(0.0, |(_, value)| *value);
    run.counters.push(("process.threads", "svc", vec![threads]));
    run.counters.extend(all.map(|metric| (metric, "svc", vec![of(metric)])));
    let others = counters.iter().filter(|(metric, _)| !all.contains(metric));
    run.counters.extend(others.map(|(metric, value)| {
        let instance = if metric.starts_with("network.") { "" } else { "svc" };
        (*metric, instance, vec![*value])
    }));
    run
}

/// The verdict's claim about the service.
fn of_service(document: &ResultDocument) -> &ServiceClaim {
    match &rests_on(document).claim {
        Claim::Service(claim) => claim,
        other => panic!("{other:?}"),
    }
}

/// A portal of 48 threads that wait for a broker of 100 threads behind it, with 220 users. `asleep` threads of the broker
/// execute requests, the others wait for work from its dispatcher.
fn portal(threads: f64, calling: f64, asleep: f64) -> Simulated {
    portal_of(220.0, threads, calling, asleep)
}

/// The same with so many requests in flight.
fn portal_of(in_flight: f64, threads: f64, calling: f64, asleep: f64) -> Simulated {
    let mut run = Simulated::of(Shape::closed(220), 120.0, in_flight / 120.0 * 1e3).http();
    run.in_flight = in_flight;
    let parked = threads - calling;
    let counters =
        [("portal", threads + 1.0, calling, parked, 0.0), ("broker", 101.0, 0.0, 100.0 - asleep, asleep)];
    for (name, threads, peer, same_lock, timer) in counters {
        run = run
            .counter("process.threads", name, &[threads])
            .counter("process.busy_cpus", name, &[0.1])
            .counter("process.running_threads", name, &[0.1])
            .counter("process.event_wait_threads", name, &[1.0])
            .counter("process.peer_wait_threads", name, &[peer])
            .counter("process.lock_wait_threads", name, &[same_lock])
            .counter("process.same_lock_wait_threads", name, &[same_lock])
            .counter("process.timer_wait_threads", name, &[timer])
            .counter("process.accept_queue_connections", name, &[0.0]);
    }
    run.counter("process.accept_queue_connections", "portal port 80", &[0.0])
        .counter("process.accept_queue_connections", "broker port 8080", &[0.0])
        .counter("process.peer_wait_threads", "portal to 127.0.0.1:8080", &[calling])
}

/// The pools hand requests to their threads themselves, so nothing waits in an accept queue, and idle threads look like
/// threads that wait for a lock.
#[test]
fn the_limit_moves_from_the_pool_in_front_to_the_one_behind() {
    for (run, expected) in [
        // All threads of the portal wait for the broker, which has idle ones.
        (portal(48.0, 47.6, 47.6), "worker pool of portal"),
        // 51 requests for 48 threads: the queue has just begun.
        (portal_of(51.2, 48.0, 47.9, 47.9), "worker pool of portal"),
        // With 1,000 threads, 220 wait for the broker, whose 100 threads are all busy.
        (portal(1000.0, 220.0, 100.0), "worker pool of broker"),
    ] {
        let document = result(&single(&run));
        assert_eq!(limit(&document), expected, "{:#?}", document.findings);
    }
}

/// A broker on one CPU asks a directory, too briefly to be seen waiting for it. The idle threads of the directory are as many
/// as the requests in flight.
#[test]
fn idle_threads_do_not_wait_for_a_lock_that_nobody_holds() {
    let mut run = Simulated::of(Shape::closed(5), 45.1, 5.0 / 45.1 * 1e3).http();
    run.in_flight = 5.0;
    for (name, threads, busy_cpus, run_queue, running, lock, same_lock) in
        [("broker", 17.0, 0.971, 4.0, 4.9, 11.5, 11.3), ("slapd", 10.0, 0.0285, 0.186, 0.261, 8.791, 6.777)]
    {
        run = run
            .counter("process.threads", name, &[threads])
            .counter("process.busy_cpus", name, &[busy_cpus])
            .counter("process.run_queue_length", name, &[run_queue])
            .counter("process.running_threads", name, &[running])
            .counter("process.event_wait_threads", name, &[0.948])
            .counter("process.lock_wait_threads", name, &[lock])
            .counter("process.same_lock_wait_threads", name, &[same_lock])
            .counter("process.accept_queue_connections", name, &[0.0]);
    }
    let document = result(&single(&run));
    assert_eq!(limit(&document), "cpu of broker", "{:#?}", document.findings);
}

#[test]
fn what_the_threads_do_names_the_limit() {
    let cases: [(&str, Simulated); 12] = [
        (
            "worker pool of svc",
            service(
                8.0,
                391.0,
                &[("process.timer_wait_threads", 8.0), ("process.accept_queue_connections", 24.0)],
            ),
        ),
        (
            "lock of svc",
            service(
                16.0,
                98.0,
                &[
                    ("process.lock_wait_threads", 15.0),
                    ("process.same_lock_wait_threads", 15.0),
                    ("process.timer_wait_threads", 1.0),
                    ("process.accept_queue_connections", 15.7),
                ],
            ),
        ),
        (
            // 7 asleep elsewhere, 24 waiting for the lock, one holds it; most threads are idle.
            "lock of svc",
            service(
                128.0,
                100.0,
                &[
                    ("process.lock_wait_threads", 24.0),
                    ("process.same_lock_wait_threads", 24.0),
                    ("process.timer_wait_threads", 8.0),
                    ("process.accept_wait_threads", 96.0),
                ],
            ),
        ),
        (
            "downstream 127.0.0.1:9001",
            service(
                64.0,
                197.0,
                &[("process.peer_wait_threads", 32.0), ("process.accept_wait_threads", 32.0)],
            )
            .counter("process.peer_wait_threads", "svc to 127.0.0.1:9001", &[32.0]),
        ),
        (
            "connection pool of svc",
            service(
                48.0,
                218.0,
                &[
                    ("process.peer_wait_threads", 6.0),
                    ("process.lock_wait_threads", 26.0),
                    ("process.same_lock_wait_threads", 26.0),
                    ("process.accept_wait_threads", 16.0),
                ],
            ),
        ),
        (
            "cpu quota of svc",
            service(
                16.0,
                97.0,
                &[
                    ("process.busy_cpus", 0.5),
                    ("process.run_queue_length", 15.5),
                    ("process.running_threads", 16.0),
                    ("process.quota_cpus", 0.5),
                    ("process.throttled_share", 0.95),
                    ("process.accept_queue_connections", 16.0),
                ],
            ),
        ),
        (
            "cpu of svc",
            service(
                16.0,
                159.0,
                &[
                    ("process.busy_cpus", 0.82),
                    ("process.run_queue_length", 15.3),
                    ("process.running_threads", 16.0),
                    ("process.accept_queue_connections", 15.6),
                ],
            ),
        ),
        (
            // An event loop: one thread, always running.
            "single thread of svc",
            service(
                4.0,
                5000.0,
                &[
                    ("process.busy_cpus", 0.97),
                    ("process.busiest_thread_cpus", 0.96),
                    ("process.running_threads", 1.0),
                    ("process.event_wait_threads", 3.0),
                ],
            ),
        ),
        (
            "disk of svc (transfers)",
            service(
                16.0,
                1113.0,
                &[
                    ("process.busy_cpus", 0.23),
                    ("process.run_queue_length", 2.5),
                    ("process.running_threads", 1.8),
                    ("process.transfer_wait_threads", 14.2),
                    ("process.accept_queue_connections", 15.7),
                ],
            ),
        ),
        (
            "disk of svc (flushes)",
            service(
                16.0,
                4777.0,
                &[
                    ("process.busy_cpus", 0.7),
                    ("process.running_threads", 6.0),
                    ("process.flush_wait_threads", 9.5),
                    ("process.accept_queue_connections", 14.0),
                ],
            ),
        ),
        (
            // Large responses: some threads still write them, and those on their way are half sent.
            "network",
            Simulated {
                bytes: 131_000,
                ..service(
                    128.0,
                    102.0,
                    &[
                        ("process.timer_wait_threads", 5.0),
                        ("process.client_wait_threads", 12.0),
                        ("process.accept_wait_threads", 111.0),
                        ("network.tcp_buffer_bytes", 1.6e6),
                    ],
                )
            },
        ),
        (
            "network",
            Simulated {
                bytes: 100_000,
                ..service(
                    64.0,
                    98.0,
                    &[("process.accept_wait_threads", 63.5), ("network.tcp_buffer_bytes", 3.1e6)],
                )
            },
        ),
    ];
    let mut states = Vec::new();
    for (expected, run) in cases {
        let document = result(&single(&run));
        assert_eq!(limit(&document), expected, "{:?}", document.verdict);
        states.push(shown(&rests_on(&document).claim));
    }
    insta::assert_snapshot!(states.join("\n"), @r#"
    {"accept_queue":24.0,"at_work":8.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"all_threads_at_work":{"most":"asleep","threads":8.0}},"threads":8.0,"used_cpus":0.0}
    {"accept_queue":15.7,"at_work":16.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"lock":{"threads":15.0}},"threads":16.0,"used_cpus":0.0}
    {"accept_queue":0.0,"at_work":32.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"lock":{"threads":24.0}},"threads":128.0,"used_cpus":0.0}
    {"accept_queue":0.0,"at_work":32.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"downstream":{"peer":"127.0.0.1:9001","threads":32.0}},"threads":64.0,"used_cpus":0.0}
    {"accept_queue":0.0,"at_work":32.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"connection_pool":{"using":6.0,"waiting":26.0}},"threads":48.0,"used_cpus":0.0}
    {"accept_queue":16.0,"at_work":16.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"throttled":{"quota_cpus":0.5,"throttled_share":0.95}},"threads":16.0,"used_cpus":0.5}
    {"accept_queue":15.6,"at_work":16.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"waits_for_cpu":{"ready_threads":15.3}},"threads":16.0,"used_cpus":0.82}
    {"accept_queue":0.0,"at_work":1.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"single_thread":{"busiest_thread_cpus":0.96,"ready_threads":0.0}},"threads":4.0,"used_cpus":0.97}
    {"accept_queue":15.7,"at_work":16.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"files":{"flushes":false,"threads":14.2}},"threads":16.0,"used_cpus":0.23}
    {"accept_queue":14.0,"at_work":16.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"files":{"flushes":true,"threads":9.5}},"threads":16.0,"used_cpus":0.7}
    {"accept_queue":0.0,"at_work":5.0,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"sending":{"answer_bytes":131000.0,"buffered_bytes":1600000.0,"bytes_per_s":13400000.0,"in_flight":32.0}},"threads":128.0,"used_cpus":0.0}
    {"accept_queue":0.0,"at_work":0.5,"host_cpu_share":0.14,"process":"svc","sign":"service","state":{"sending":{"answer_bytes":100000.0,"buffered_bytes":3100000.0,"bytes_per_s":9800000.0,"in_flight":32.0}},"threads":64.0,"used_cpus":0.0}
    "#);
}

/// Threads that sleep outside of system calls for a device read pages: refaults because of insufficient
/// memory, or first reads.
#[test]
fn page_faults_are_memory_where_pages_are_read_again() {
    let faulting = |counters: &[(&'static str, f64)]| {
        let waits = [
            ("process.accept_queue_connections", 15.7),
            ("process.disk_wait_threads", 14.0),
            ("process.other_wait_threads", 14.0),
            ("process.major_faults_per_s", 900.0),
            ("process.read_bytes_per_s", 3.7e6),
        ];
        let run = service(16.0, 100.0, &waits);
        counters.iter().fold(run, |run, (metric, value)| {
            run.counter(metric, if metric.starts_with("process.") { "svc" } else { "" }, &[*value])
        })
    };
    for (counters, resource) in [
        (vec![("memory.refaults_per_s", 2.0)], "disk of svc (page faults)"),
        (vec![("memory.refaults_per_s", 1800.0)], "memory of svc"),
        (vec![("memory.swap_ins_per_s", 850.0), ("memory.refaults_per_s", 0.0)], "memory of svc"),
        // Its own limit, which also stalls it: two detectors, one resource.
        (
            vec![
                ("process.memory_limit_bytes", 1e8),
                ("process.memory_charged_bytes", 9.9e7),
                ("pressure.memory_some_share", 0.7),
            ],
            "memory of svc",
        ),
        (vec![("process.major_faults_per_s", 0.0)], "worker pool of svc"),
    ] {
        let document = result(&single(&faulting(&counters)));
        assert_eq!(limit(&document), resource, "{:?}", document.verdict);
    }
}

/// A service that waits for files: the I/O limit that was set and reached, and consecutive flushes.
#[test]
fn the_disk_behind_a_service_is_reported_with_its_kind() {
    let waiting = |metric| {
        let waits = [(metric, 14.2), ("process.accept_queue_connections", 15.7)];
        service(16.0, 100.0, &waits).counter("disk.queue_length", "vda", &[0.9])
    };
    let mut limited = waiting("process.transfer_wait_threads")
        .counter("disk.reads_per_s", "vda", &[398.0])
        .counter("disk.reads_per_s", "vdb", &[3.0]);
    limited.in_force.insert(
        "host.disk.io_limit".into(),
        model::IoLimits { reads_per_s: Some(400.0), ..Default::default() }.to_level(),
    );
    let flushing = waiting("process.flush_wait_threads")
        .counter("disk.flushes_per_s", "vda", &[118.0])
        .counter("disk.flush_s", "vda", &[0.0081]);
    let setting = "host.disk.io_limit";
    let reached = ReachedLimit {
        setting: setting.into(),
        level: limited.in_force[setting].clone(),
        metric: "disk.reads_per_s".into(),
        limit: 400.0,
        observed: 398.0,
    };
    let serial = SerialFlushes { device: "vda".into(), each_ms: 8.1, under_way: 118.0 * 0.0081 };
    let with_others = |reads: f64| limited.clone().counter("disk.reads_per_s", "vda", &[reads]);
    for (run, resource, limit, serial_flushes) in [
        (with_others(250.0), "disk of svc (transfers)", None, None),
        // Others use the disk.
        (with_others(1038.0), "disk of svc (transfers)", None, None),
        (limited.clone(), "disk of svc (transfers)", Some(reached), None),
        (flushing, "disk of svc (flushes)", None, Some(serial)),
    ] {
        let document = result(&single(&run));
        assert_eq!(super::read::limit(&document), resource);
        let flushes = resource.ends_with("(flushes)");
        let state = ServiceState::Files { threads: 14.2, flushes, limit, serial_flushes };
        assert_eq!(shown(&of_service(&document).state), shown(&state));
    }
}

/// A similar pattern that is not a lock: the threads of an idle pool also wait at one address.
#[test]
fn idle_threads_are_no_limit() {
    let idle_pool = service(
        64.0,
        800.0,
        &[
            ("process.lock_wait_threads", 33.0),
            ("process.same_lock_wait_threads", 32.0),
            ("process.timer_wait_threads", 31.0),
        ],
    );
    let document = result(&single(&idle_pool.counter("process.accept_queue_connections", "svc", &[0.0])));
    assert!(with(&document, FindingKind::Limits).is_empty(), "{:?}", document.verdict);

    // Two users of a broker with 16 threads, on a host whose CPUs other programs use.
    let mut broker = service(
        17.0,
        33.1,
        &[
            ("process.lock_wait_threads", 14.3),
            ("process.same_lock_wait_threads", 14.3),
            ("process.event_wait_threads", 2.7),
            ("process.busy_cpus", 0.694),
        ],
    );
    broker.in_flight = 2.0;
    let document = result(&single(&broker));
    assert!(with(&document, FindingKind::Limits).is_empty(), "{:?}", document.verdict);
    // Idle threads are no part of the time of an operation.
    let parts = document.configurations.iter().flat_map(|each| &each.costs).flat_map(|cost| &cost.parts);
    assert!(parts.clone().any(|part| part.kind == CostKind::UserCpu));
    assert!(parts.clone().all(|part| part.kind != CostKind::Lock), "{:?}", parts.collect::<Vec<_>>());

    let users = service(64.0, 185.0, &[("process.accept_wait_threads", 63.8)]);
    let document = result(&single(&users));
    let Verdict::NotSaturated {
        carried: UnsaturatedReason::AllThatUsersAsked { load, rate_per_s, finding, .. },
    } = &document.verdict
    else {
        panic!("{:?}", document.verdict)
    };
    assert_eq!((load.as_str(), *rate_per_s), ("32 in flight", 185.0));
    let Claim::Service(headroom) = &document.findings[*finding].claim else { panic!() };
    assert_eq!(shown(&headroom.state), shown(&ServiceState::Headroom { idle_threads: 63.8 }));
}

/// What was measured of ns-slapd while it imported 5,000 entries into a database that had just been created, and of slapadd.
#[test]
fn a_tool_that_waits_for_itself_is_limited_by_no_resource_of_the_host() {
    let tool = |threads: f64, counters: &[(&'static str, f64)]| {
        let mut run = service(threads, 163.0, counters);
        (run.workload, run.operation, run.in_flight) = ("ldap_import", "entry", 1.0);
        run.facts.clear();
        result(&single(&run))
    };
    let busy = ("process.busy_cpus", 0.0659);
    for waits in ["process.timer_wait_threads", "process.event_wait_threads", "process.lock_wait_threads"] {
        let document = tool(29.4, &[busy, ("process.run_queue_length", 0.0168), (waits, 29.3)]);
        let Verdict::NotSaturated { carried: UnsaturatedReason::Waited { finding } } = document.verdict
        else {
            panic!("{waits}: {:?}", document.verdict)
        };
        let Claim::Service(claim) = &document.findings[finding].claim else { panic!() };
        let ServiceState::WaitsForItself { work_share, .. } = claim.state else {
            panic!("{:?}", claim.state)
        };
        assert!((work_share - 0.0827).abs() < 1e-9, "{work_share}");
    }
    // Flushes are the limit of a tool that waits for them, and a thread of one that computes.
    let flushes = tool(
        2.0,
        &[
            ("process.busy_cpus", 0.1),
            ("process.flush_wait_threads", 0.85),
            ("process.lock_wait_threads", 1.0),
        ],
    );
    assert_eq!(limit(&flushes), "disk of svc (flushes)");
    let one = [
        ("process.busy_cpus", 0.99),
        ("process.busiest_thread_cpus", 0.99),
        ("process.lock_wait_threads", 1.0),
    ];
    assert_eq!(limit(&tool(2.0, &one)), "single thread of svc");
}

/// If more users have no effect, the users are not the limit, although threads are idle: an unknown resource
/// is.
#[test]
fn a_load_that_gives_no_more_is_no_limit() {
    let swept = experiment(vec![vary("load.closed", Some(64), &[16, 32])], DesignKind::OneFactorAtATime, 1);
    let study = carry_out(swept, |treatment| {
        let users = level(treatment, "load.closed", 64.0);
        let mut run = service(128.0, 298.0, &[("process.accept_wait_threads", 68.0)]);
        run.shape = Shape::closed(users as u64);
        run.in_flight = users;
        run
    });
    let document = result(&study);
    assert!(
        matches!(unclear(&document).0, InconclusiveReason::NothingSaturated { .. }),
        "{:?}",
        document.verdict
    );
}

/// Without the permission to see what threads wait for, nothing is claimed about it.
#[test]
fn what_cannot_be_seen_names_nothing() {
    let mut run = service(8.0, 391.0, &[("process.accept_queue_connections", 24.0)]);
    run.counters.retain(|(metric, _, _)| !metric.ends_with("_wait_threads"));
    let document = result(&single(&run));
    assert!(
        matches!(unclear(&document).0, InconclusiveReason::NothingSaturated { .. }),
        "{:?}",
        document.verdict
    );
}

/// Other work of a request may take longer than its wait for the disk; that the service's own reads reached
/// their limit is still conclusive.
#[test]
fn a_limit_on_files_is_named_though_most_threads_do_something_else() {
    let run = |reads: f64| {
        let waits = [
            ("process.transfer_wait_threads", 12.0),
            ("process.timer_wait_threads", 19.0),
            ("process.accept_wait_threads", 97.0),
            ("process.disk_reads_per_s", reads),
        ];
        let mut run = service(128.0, 231.0, &waits);
        let limits = model::IoLimits { reads_per_s: Some(463.0), ..Default::default() };
        run.in_force.insert("host.disk.io_limit".into(), limits.to_level());
        result(&single(&run))
    };
    let document = run(461.0);
    assert_eq!(limit(&document), "disk of svc (transfers)");
    let ServiceState::Files { threads, limit: Some(reached), .. } = &of_service(&document).state else {
        panic!("{document:?}")
    };
    assert_eq!((reached.limit, shown(&(threads, reached.observed))), (463.0, "[12.0,461.0]".into()));
    assert!(!matches!(run(300.0).verdict, Verdict::Bottleneck { .. }));
}
