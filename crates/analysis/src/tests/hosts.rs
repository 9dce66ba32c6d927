//! Servers of which only the counters of an exporter are known: their host and its resource are named.

use model::run::{GeneratorUse, MachineRun};
use model::verdict::InconclusiveReason;
use model::{Claim, DoubtKind, FindingKind, Goal, Level, Shape, SourceState, SourceStatus, Verdict};

use super::read::{about, limit, rests_on, unclear, with};
use crate::result;
use crate::simulate::{Simulated, experiment, planned, single};

/// A load of 16 users, with the counters of two hosts and an idle host of the load.
fn served(counters: &[(&'static str, &'static str, f64)]) -> Simulated {
    let mut run = Simulated::of(Shape::closed(16), 800.0, 20.0).http();
    run.in_flight = 16.0;
    // Nothing but what is given, so that nothing is inherited from a host that is watched.
    run.counters.retain(|(metric, ..)| metric.starts_with("cpu."));
    let idle = [
        ("cpu.busy_share", "//web1", 0.2),
        ("pressure.cpu_some_share", "//web1", 0.01),
        ("disk.queue_length", "//web1/sda", 0.01),
        ("disk.utilization_share", "//web1/sda", 0.02),
        ("pressure.memory_some_share", "//web1", 0.0),
    ];
    let all = idle.iter().chain(counters);
    all.fold(run, |run, (metric, instance, value)| run.counter(metric, instance, &[*value]))
}

#[test]
fn the_host_and_its_resource_are_named() {
    type Case<'a> = (&'a str, &'a [(&'static str, &'static str, f64)], &'a str);
    let cases: [Case; 9] = [
        (
            "CPU",
            &[("cpu.busy_share", "//db1", 0.98), ("pressure.cpu_some_share", "//db1", 0.6)],
            "cpu of db1",
        ),
        ("CPU of Windows, without pressure", &[("cpu.busy_share", "//db1", 0.98)], "cpu of db1"),
        (
            "busy, but nothing waits",
            &[("cpu.busy_share", "//db1", 0.95), ("pressure.cpu_some_share", "//db1", 0.01)],
            "",
        ),
        (
            "disk",
            &[
                ("cpu.busy_share", "//db1", 0.3),
                ("pressure.io_some_share", "//db1", 0.9),
                ("disk.queue_length", "//db1/sda", 14.0),
                ("disk.utilization_share", "//db1/sda", 1.0),
                ("disk.queue_length", "//db1/sdb", 0.1),
                ("disk.utilization_share", "//db1/sdb", 0.1),
            ],
            "disk sda of db1",
        ),
        (
            "disk of Windows, without pressure",
            &[("disk.queue_length", "//db1/0", 14.0), ("disk.utilization_share", "//db1/0", 0.99)],
            "disk 0 of db1",
        ),
        (
            "flushes, one after another",
            &[
                ("pressure.io_some_share", "//db1", 0.95),
                ("disk.queue_length", "//db1/sda", 0.9),
                ("disk.utilization_share", "//db1/sda", 0.95),
            ],
            "disk sda of db1",
        ),
        (
            "writeback in the background",
            &[
                ("pressure.io_some_share", "//db1", 0.05),
                ("disk.queue_length", "//db1/sda", 60.0),
                ("disk.utilization_share", "//db1/sda", 1.0),
            ],
            "",
        ),
        ("memory", &[("pressure.memory_some_share", "//db1", 0.4)], "memory of db1"),
        ("nothing", &[("cpu.busy_share", "//db1", 0.3)], ""),
    ];
    for (name, counters, expected) in cases {
        assert_eq!(limit(&result(&single(&served(counters)))), expected, "{name}");
    }
}

#[test]
fn each_host_is_ruled_out_by_its_own_counters() {
    let document = result(&single(&served(&[
        ("cpu.busy_share", "//db1", 0.99),
        ("pressure.cpu_some_share", "//db1", 0.5),
        ("disk.queue_length", "//db1/sda", 0.1),
        ("disk.utilization_share", "//db1/sda", 0.3),
        ("network.tcp_retransmitted_segments_per_s", "//db1", 90.0),
        ("network.tcp_sent_segments_per_s", "//db1", 1000.0),
    ])));
    let ruled_out = with(&document, FindingKind::RuledOut);
    for name in ["cpu", "cpu of web1", "disk sda of web1", "disk sda of db1", "memory of web1"] {
        assert!(ruled_out.iter().any(|out| out == name), "{name}: {ruled_out:?}");
    }
    assert_eq!(with(&document, FindingKind::Observation), ["TCP of db1"]);
    let found = rests_on(&document);
    assert!(found.evidence.iter().any(|one| one.metric == "cpu.busy_share{//db1}"), "{:?}", found.evidence);
    // The next resource is named with its host, and is not the limit again.
    let next = document.configurations[0].next.as_ref().unwrap();
    assert_eq!(next.resource.as_ref().unwrap().to_string(), "disk sda of db1 (transfers)");
    assert_eq!(next.instance, "//db1/sda");
}

#[test]
fn two_saturated_hosts_are_not_one_limit() {
    let both = [("cpu.busy_share", "//db1", 0.97), ("cpu.busy_share", "//app1", 0.99)];
    let document = result(&single(&served(&both)));
    assert!(matches!(unclear(&document).0, InconclusiveReason::SeveralSaturated { .. }));
}

#[test]
fn a_load_that_asks_for_less_than_a_busy_host_can_do_has_no_limit() {
    let mut run = served(&[("cpu.busy_share", "//db1", 0.93)]);
    run.shape =
        Shape::Open { rate_per_s: model::Profile::Constant(800.0), arrivals: model::Process::Poisson };
    let document = result(&single(&run));
    assert!(!matches!(document.verdict, Verdict::Bottleneck { .. }), "{:?}", document.verdict);
    assert_eq!(about(&document, "cpu of db1").unwrap().kind, FindingKind::Observation);
}

#[test]
fn memory_of_windows_is_judged_by_what_is_left() {
    for (available, reads, expected) in [
        (6e9, 0.0, Some(FindingKind::RuledOut)),
        (0.3e9, 40.0, Some(FindingKind::Observation)),
        (0.3e9, 0.0, None),
        (1.2e9, 40.0, None),
    ] {
        let document = result(&single(&served(&[
            ("memory.total_bytes", "//win1", 16e9),
            ("memory.available_bytes", "//win1", available),
            ("memory.major_faults_per_s", "//win1", reads),
        ])));
        let found = about(&document, "memory of win1");
        assert_eq!(found.map(|found| found.kind), expected, "{available} {reads}");
        if let Some(Claim::Memory(claim)) = found.map(|found| &found.claim) {
            assert!((claim.available_share.unwrap() - available / 16e9).abs() < 1e-9);
        }
    }
}

#[test]
fn a_host_is_no_other_host() {
    // What is saturated elsewhere says nothing about the disks and processes of the host of the load.
    let document = result(&single(&served(&[
        ("disk.queue_length", "//db1/vda", 14.0),
        ("disk.utilization_share", "//db1/vda", 1.0),
        ("pressure.io_some_share", "//db1", 0.9),
        ("process.threads", "//db1/w3wp", 40.0),
        ("process.busy_cpus", "//db1/w3wp", 3.9),
    ])));
    assert_eq!(limit(&document), "disk vda of db1");
    assert!(document.findings.iter().all(|finding| !matches!(finding.claim, Claim::Service(_))));
    assert!(document.trials[0].resources.iter().any(|used| used.instance == "//db1/vda"));
}

#[test]
fn what_an_exporter_did_not_answer_is_a_doubt() {
    let mut study = single(&served(&[("cpu.busy_share", "//db1", 0.2)]));
    let state = SourceState::Failing { samples: 3, why: "it did not answer in time: raise `timeout`".into() };
    study.runs[0].run.sources.push(SourceStatus { source: "scrape db1".into(), state });
    let document = result(&study);
    let doubt =
        document.trials[0].doubts.iter().find(|doubt| doubt.kind == DoubtKind::MissingSource).unwrap();
    assert_eq!(
        doubt.text,
        "scrape db1 could not be read in 3 samples: it did not answer in time: raise `timeout`"
    );
    assert!(doubt.help.contains("curl"), "{}", doubt.help);
}

#[test]
fn a_goal_can_be_a_counter_of_any_host() {
    let mut plan = experiment(Vec::new(), model::DesignKind::OneFactorAtATime, 1);
    let goals =
        ["cpu.busy_share{//db1} <= 80%", "cpu.busy_share{//web1} <= 80%", "cpu.busy_share{//none} <= 80%"];
    plan.goals = goals.map(|text| Goal::parse(text, &[]).unwrap()).to_vec();
    let mut study = planned(plan);
    study.runs = single(&served(&[("cpu.busy_share", "//db1", 0.9)])).runs;
    let goals = result(&study).goal.unwrap().goals;
    let met: Vec<(Option<f64>, bool)> = goals.iter().map(|line| (line.value, line.met)).collect();
    assert_eq!(met.len(), 3);
    assert!((met[0].0.unwrap() - 0.9).abs() < 1e-9 && !met[0].1);
    assert!((met[1].0.unwrap() - 0.2).abs() < 1e-9 && met[1].1);
    // What was not read is not met.
    assert_eq!(met[2], (None, false));
}

/// A machine that drove its part of the load, whose threads ran this share of 10 s.
fn machine(name: &str, busy: f64) -> MachineRun {
    let generator = GeneratorUse { threads: 2, cpu_s: 20.0 * busy, wall_s: 10.0, ..GeneratorUse::default() };
    let (name, host) = (name.to_string(), format!("{name}.example.com"));
    MachineRun {
        name,
        host,
        cpus: 2,
        drives: true,
        completed: 4000,
        generator: Some(generator),
        ..MachineRun::default()
    }
}

#[test]
fn machines_that_drive_the_load_are_generators_and_no_limits_of_the_system() {
    for (busy, expected) in [([0.3, 0.2], ""), ([0.3, 0.98], "load generator of gen2")] {
        // A busy machine that drives the load, and its disk, say nothing about the system.
        let mut study = single(&served(&[
            ("cpu.busy_share", "//gen1", 0.3),
            ("cpu.busy_share", "//gen2", busy[1]),
            ("pressure.cpu_some_share", "//gen2", 0.6),
            ("disk.queue_length", "//gen2/vda", 14.0),
            ("disk.utilization_share", "//gen2/vda", 1.0),
        ]));
        study.runs[0].run.machines = vec![machine("gen1", busy[0]), machine("gen2", busy[1])];
        let document = result(&study);
        assert_eq!(document.trials[0].machines.len(), 2);
        match expected {
            "" => {
                assert!(!matches!(document.verdict, Verdict::GeneratorBound { .. }), "{:?}", document.verdict)
            }
            _ => {
                let found = rests_on(&document);
                assert_eq!(found.about.as_ref().unwrap().to_string(), expected);
                assert!(matches!(found.claim, Claim::Generator { threads: 2, .. }), "{found:?}");
            }
        }
        let ruled_out = with(&document, FindingKind::RuledOut);
        assert!(ruled_out.iter().any(|name| name == "load generator of gen1"), "{ruled_out:?}");
        let of_gen2 = |class: &str| {
            document.findings.iter().any(|found| {
                found.about.as_ref().is_some_and(|about| {
                    about.to_string().starts_with(class) && about.host.as_deref() == Some("gen2")
                })
            })
        };
        assert!(!of_gen2("cpu") && !of_gen2("disk"), "{:?}", document.findings);
    }
}

/// A closed loop of 8 users on the disk of each of two machines, whose coordinator's disk of the same name is idle.
fn on_disks() -> Simulated {
    let one = Simulated::closed_disk(8, 0.1, 0.0);
    let mut run = Simulated::of(Shape::closed(16), 2.0 * one.rates[0], one.response_ms);
    run.in_flight = 16.0;
    for (metric, instance, values) in &one.counters {
        if *instance == "vda" {
            run = run.counter(metric, "//gen1/vda", values).counter(metric, "//gen2/vda", values);
        }
    }
    let idle = [("disk.queue_length", 0.0), ("disk.utilization_share", 0.0), ("disk.read_bytes_per_s", 0.0)];
    let busy = ["//gen1", "//gen2"].map(|host| ("cpu.busy_share", host));
    let run = idle.iter().fold(run, |run, (metric, value)| run.counter(metric, "vda", &[*value]));
    busy.iter().fold(run, |run, (metric, host)| run.counter(metric, host, &[0.3]))
}

#[test]
fn a_load_on_the_disks_of_machines_is_judged_by_their_own_counters() {
    let text = |text: &str| Level::Text(text.into());
    let judged = |run: &Simulated| {
        let mut study = single(run);
        study.runs[0].run.machines = vec![machine("gen1", 0.3), machine("gen2", 0.3)];
        result(&study)
    };
    let document = judged(&on_disks());
    let limits = with(&document, FindingKind::Limits);
    assert_eq!(limits, ["disk vda of gen1", "disk vda of gen2"], "{:?}", document.findings);
    let found = document.findings.iter().find(|finding| finding.kind == FindingKind::Limits);
    let Some(Claim::Device(claim)) = found.map(|found| &found.claim) else {
        panic!("{:?}", document.findings)
    };
    assert!((claim.in_flight - 8.0).abs() < 1e-9, "{claim:?}");
    let ruled_out = with(&document, FindingKind::RuledOut);
    assert!(ruled_out.contains(&"cpu of gen1".into()), "{ruled_out:?}");
    assert!(!ruled_out.iter().any(|about| about.starts_with("disk")), "{ruled_out:?}");
    assert_eq!(document.trials[0].doubts, []);
    // One machine has the whole load.
    let one = Simulated::closed_disk(8, 0.1, 0.0);
    let mut study = single(&one.counters.iter().fold(one.clone(), |run, (metric, instance, values)| {
        if *instance == "vda" {
            run.counter(metric, "//gen1/vda", values).counter(metric, "vda", &[0.0])
        } else {
            run
        }
    }));
    study.runs[0].run.machines = vec![machine("gen1", 0.3)];
    let document = result(&study);
    assert_eq!(limit(&document), "disk vda of gen1");
    assert_eq!(document.trials[0].doubts, []);
    // The second machine has no user, and what its disk does is of others.
    let idle =
        one.counters.iter().fold(Simulated::closed_disk(1, 0.1, 0.0), |run, (metric, _, _)| match *metric {
            disk if disk.starts_with("disk.") => {
                let of_one =
                    run.counters.iter().find(|(name, of, _)| *name == disk && *of == "vda").map(|of| of.2[0]);
                run.counter(disk, "//gen1/vda", &[of_one.unwrap()]).counter(disk, "//gen2/vda", &[1.0])
            }
            _ => run,
        });
    let mut study = single(&idle);
    study.runs[0].run.machines =
        vec![machine("gen1", 0.3), MachineRun { completed: 0, ..machine("gen2", 0.0) }];
    assert_eq!(limit(&result(&study)), "disk vda of gen1");

    let different = |run: Simulated, fact: &str, of: [Level; 2]| {
        let mut run = run;
        run.facts.remove(fact);
        let [first, second] = of;
        run.fact(&format!("machine.gen1.{fact}"), first).fact(&format!("machine.gen2.{fact}"), second)
    };
    let cached = different(on_disks(), "cache", [text("direct"), text("page-cache")])
        .counter("disk.read_bytes_per_s", "//gen2/vda", &[1e5])
        .counter("disk.queue_length", "//gen2/vda", &[0.01])
        .counter("disk.utilization_share", "//gen2/vda", &[0.01]);
    let refused = different(on_disks(), "back_end", [text("io_uring"), text("system-calls")]);
    let refused = different(refused, "back_end.basis", [text("rule"), text("refused")]);
    // Where system calls were chosen because they are faster, there is nothing to doubt.
    let chosen = different(on_disks(), "back_end", [text("io_uring"), text("system-calls")]);
    let chosen = different(chosen, "back_end.basis", [text("rule"), text("compared")]);
    assert_eq!(judged(&chosen).trials[0].doubts, []);
    let memory = Level::List(Vec::new());
    let tmpfs = different(on_disks(), "devices", [Level::List(vec![text("vda")]), memory]);
    let holes = on_disks().fact("extents.hole_bytes", Level::Bytes(4096));
    for (run, kind, expected, limits) in [
        (cached, DoubtKind::NotTheDevice, "on gen2: vda transferred 0.2 %", &["disk vda of gen1"][..]),
        (
            refused,
            DoubtKind::BackEnd,
            "on gen2: the load used system calls, not io_uring",
            &["disk vda of gen1", "disk vda of gen2"],
        ),
        (tmpfs, DoubtKind::NotTheDevice, "on gen2: no block device was found", &["disk vda of gen1"]),
        (holes, DoubtKind::Holes, "on gen1, gen2: 4.00 KiB", &["disk vda of gen1", "disk vda of gen2"]),
    ] {
        let document = judged(&run);
        let doubts = &document.trials[0].doubts;
        assert!(doubts.iter().all(|doubt| doubt.kind == kind), "{doubts:?}");
        assert!(doubts.iter().any(|doubt| doubt.text.starts_with(expected)), "{expected}: {doubts:?}");
        assert_eq!(with(&document, FindingKind::Limits), limits, "{expected}: {:?}", document.findings);
    }
}
