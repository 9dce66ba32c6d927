//! Tests that the simulated limit is named, and none if it cannot be known.

use model::claim::{ChangeCause, DeviceBound, DeviceClaim, ReachedLimit};
use model::mix_price::PricedResource;
use model::operation_io::{MixGoal, RowOrigin};
use model::result::ResultDocument;
use model::verdict::{InconclusiveReason, UnsaturatedReason};
use model::{
    Claim, DesignKind, Detector, DoubtKind, Ending, Finding, FindingKind, Level, Missing, Phase, SourceState,
    SourceStatus, Verdict,
};

use super::read::{about, found, limit, rests_on, shown, unclear, with};
use crate::simulate::{Simulated, block_size, carry_out, experiment, level, single, vary};
use crate::{result, sizing};

fn of(run: &Simulated) -> ResultDocument {
    result(&single(run))
}

/// The verdict's claim about the limiting disk.
fn device(document: &ResultDocument) -> &DeviceClaim {
    match &rests_on(document).claim {
        Claim::Device(claim) => claim,
        other => panic!("{other:?}"),
    }
}

/// The I/O limit that was reached.
fn reached(document: &ResultDocument) -> Option<&ReachedLimit> {
    document.findings.iter().find_map(|finding| match &finding.claim {
        Claim::IoLimitReached(limit) => Some(limit),
        _ => None,
    })
}

fn doubts(run: &Simulated) -> Vec<DoubtKind> {
    of(run).trials[0].doubts.iter().map(|doubt| doubt.kind).collect()
}

fn text(level: &str) -> Level {
    Level::Text(level.into())
}

#[test]
fn a_full_device_is_the_bottleneck() {
    let document = of(&Simulated::closed_disk(32, 0.0163, 0.003));
    insta::assert_snapshot!(shown(&rests_on(&document).claim), @r#"{"host_cpu_share":0.14,"in_flight":32.0,"one_at_a_time":false,"queue":31.8,"sign":"device","transfer_ms":0.519}"#);
    assert_eq!(limit(&document), "disk vda");
    assert!(matches!(document.verdict, Verdict::Bottleneck { proved: false, .. }));
    assert_eq!(document.trials[0].doubts, []);
}

#[test]
fn a_device_that_the_operations_do_not_wait_for_is_ruled_out() {
    // 8 users, 1 ms at the device, 50 ms elsewhere: most operations are elsewhere.
    let document = of(&Simulated::closed_disk(8, 1.0, 50.0));
    let (reason, lacks) = unclear(&document);
    let InconclusiveReason::NothingSaturated { ruled_out } = reason else { panic!("{reason:?}") };
    let ruled_out: Vec<String> = ruled_out.iter().map(ToString::to_string).collect();
    assert_eq!(ruled_out, ["load generator", "disk vda", "cpu", "memory"]);
    assert!(matches!(lacks, [Missing::OtherLoads(_)]), "{lacks:?}");
}

#[test]
fn a_device_that_is_let_one_request_at_a_time_limits_by_its_time() {
    // 4 users of one file whose writes the file system serializes: one is at the device all the time.
    let at_device = |queue: f64, utilization: f64| {
        let run = Simulated::closed_disk(4, 0.45, 0.0).counter("disk.queue_length", "vda", &[queue]);
        of(&run.counter("disk.utilization_share", "vda", &[utilization]))
    };
    let document = at_device(0.94, 0.9);
    let claim = device(&document);
    assert!(claim.one_at_a_time && claim.bound.is_none(), "{claim:?}");
    assert_eq!(limit(&document), "disk vda");

    // They do not wait for a device that is idle half of the time.
    assert!(matches!(at_device(0.5, 0.5).verdict, Verdict::Inconclusive { .. }));
}

#[test]
fn between_the_two_nothing_is_claimed_of_the_device() {
    // 2 users, half of each operation at the device.
    let document = of(&Simulated::closed_disk(2, 1.0, 1.0));
    assert!(matches!(document.verdict, Verdict::Inconclusive { .. }));
    assert_eq!(about(&document, "disk vda"), None);
}

#[test]
fn a_busy_generator_comes_before_everything() {
    let mut run = Simulated::closed_disk(32, 0.0163, 0.003);
    run.generator = (0.7, 0.25);
    let document = of(&run);
    assert!(matches!(document.verdict, Verdict::GeneratorBound { .. }), "{:?}", document.verdict);
    let (late, starved_by) = (None, None);
    let claim = Claim::Generator { threads: 1, ran_share: 0.7, wait_share: 0.25, late, starved_by };
    assert_eq!(rests_on(&document).claim, claim);
    assert!(document.trials[0].doubts.iter().any(|doubt| doubt.kind == DoubtKind::Generator));
}

#[test]
fn an_open_load_that_was_carried_is_not_saturated() {
    let document = of(&Simulated::open_disk(200.0, 1.0));
    let Verdict::NotSaturated { carried: UnsaturatedReason::Offered { rate_per_s, p99_ms, closest, .. } } =
        &document.verdict
    else {
        panic!("{:?}", document.verdict)
    };
    assert_eq!(*rate_per_s, 200.0);
    assert!((p99_ms - 5.25).abs() < 0.01, "{p99_ms}");
    let closest = closest.as_ref().unwrap();
    assert_eq!((closest.metric.as_str(), closest.instance.as_str()), ("disk.utilization_share", "vda"));
    assert!((closest.share - 0.2).abs() < 1e-9, "{closest:?}");
    assert!(with(&document, FindingKind::RuledOut).contains(&"disk vda".into()));
}

#[test]
fn an_open_load_that_was_not_carried_is_not_called_unsaturated() {
    let mut run = Simulated::open_disk(200.0, 1.0);
    run.offered_per_s = 400.0;
    let document = of(&run);
    assert!(matches!(document.verdict, Verdict::Inconclusive { .. } | Verdict::Bottleneck { .. }));
    assert!(doubts(&run).contains(&DoubtKind::NotIssued));
    // Late because its threads waited for a CPU: the generator is the limit.
    run.generator = (0.3, 0.3);
    assert!(matches!(of(&run).verdict, Verdict::GeneratorBound { .. }));
}

#[test]
fn a_limit_set_on_io_is_named_though_the_device_looks_idle() {
    let mut run = Simulated::closed_disk(8, 0.4, 0.0).counter("disk.queue_length", "vda", &[0.09]);
    run.rates = vec![500.0; 20];
    run.response_ms = 16.0;
    run.in_force.insert("host.disk.io_limit".into(), Level::Rate(500.0));
    let document = of(&run);
    assert_eq!(limit(&document), "I/O limit host.disk.io_limit");
    let expected = ReachedLimit {
        setting: "host.disk.io_limit".into(),
        level: Level::Rate(500.0),
        metric: "disk.reads_per_s".into(),
        limit: 500.0,
        observed: 500.0,
    };
    assert_eq!(rests_on(&document).claim, Claim::IoLimitReached(expected));
}

/// Each direction is compared with its own limit, by what the limit applies to: the load without the page
/// cache, otherwise the devices.
#[test]
fn limits_of_reads_and_writes_are_distinguished() {
    let cases = [
        ("read 500/s", "direct", "read", 500.0, Some(("disk.reads_per_s", 500.0, 500.0))),
        ("write 500/s", "direct", "write", 490.0, Some(("disk.writes_per_s", 490.0, 500.0))),
        ("write 500/s", "direct", "read", 500.0, None),
        ("read 500/s and write 200/s", "direct", "write", 199.0, Some(("disk.writes_per_s", 199.0, 200.0))),
        ("read 200/s and write 500/s", "direct", "write", 199.0, None),
        (
            "read 900/s and read 2MB/s",
            "direct",
            "read",
            488.0,
            Some(("disk.read_bytes_per_s", 488.0 * 4096.0, 2e6)),
        ),
        ("5MB/s", "direct", "write", 500.0, None),
        ("2MB/s", "direct", "write", 488.0, Some(("disk.write_bytes_per_s", 488.0 * 4096.0, 2e6))),
        ("unlimited", "direct", "read", 500.0, None),
        // The limit does not apply to what the page cache answers.
        ("read 500/s", "page-cache", "read", 90_000.0, None),
    ];
    for (limit, cache, operation, rate, expected) in cases {
        let limits = model::IoLimits::parse(limit).unwrap_or_else(|| panic!("{limit}"));
        let mut run = Simulated::closed_disk(8, 0.4, 0.0)
            .counter("disk.queue_length", "vda", &[0.09])
            .counter("disk.read_bytes_per_s", "vda", &[0.0])
            .fact("cache", text(cache));
        run.operation = operation;
        run.rates = vec![rate; 20];
        run.in_force.insert("host.disk.io_limit".into(), limits.to_level());
        let document = of(&run);
        let reached = reached(&document).map(|limit| (limit.metric.as_str(), limit.observed, limit.limit));
        assert_eq!(reached, expected, "{limit} {cache} {operation}");
    }
    // With the page cache, the devices are compared.
    let mut run = Simulated::closed_disk(8, 0.4, 0.0)
        .counter("disk.writes_per_s", "vda", &[498.0])
        .fact("cache", text("page-cache"));
    run.asked.insert("host.disk.io_limit".into(), Level::Rate(500.0));
    let document = of(&run);
    let reached = reached(&document).unwrap();
    assert_eq!((reached.metric.as_str(), reached.observed), ("disk.writes_per_s", 498.0));
}

/// A saturated device at several block sizes: at most `operations` per second and `bytes` per second.
fn sized(operations: f64, bytes: f64, sizes: &[u64]) -> ResultDocument {
    let mut sweep = vary("workload.block_size", None, &[]);
    sweep.baseline = Some(block_size(sizes[0]));
    sweep.levels = sizes[1..].iter().copied().map(block_size).collect();
    let study = carry_out(experiment(vec![sweep], DesignKind::OneFactorAtATime, 1), |treatment| {
        let size = level(treatment, "workload.block_size", sizes[0] as f64);
        let rate = operations.min(bytes / size);
        let mut run = Simulated::closed_disk(32, 1e3 / rate, 0.0);
        run.bytes = size as u64;
        run.counter("disk.read_bytes_per_s", "vda", &[rate * size])
    });
    result(&study)
}

#[test]
fn a_full_disk_is_reported_by_what_it_has_no_more_of() {
    let sizes = [4096, 16384, 65536, 262_144];
    let bound = |operations: f64, bytes: f64| shown(&rests_on(&sized(operations, bytes, &sizes)).claim);
    insta::assert_snapshot!(bound(5000.0, 1e12), @r#"{"bound":{"over_sizes":{"operations":[{"bytes_per_s":20500000.0,"label":"4KiB","mean_ms":6.38,"rate_per_s":5000.0},{"bytes_per_s":1310000000.0,"label":"256KiB","mean_ms":6.38,"rate_per_s":5000.0}]}},"host_cpu_share":0.14,"in_flight":32.0,"one_at_a_time":false,"queue":32.0,"sign":"device","transfer_ms":6.4}"#);
    insta::assert_snapshot!(bound(1e9, 1.2e8), @r#"{"bound":{"over_sizes":{"bytes":[{"bytes_per_s":120000000.0,"label":"4KiB","mean_ms":1.09,"rate_per_s":29300.0},{"bytes_per_s":120000000.0,"label":"256KiB","mean_ms":69.7,"rate_per_s":458.0}]}},"host_cpu_share":0.14,"in_flight":32.0,"one_at_a_time":false,"queue":32.0,"sign":"device","transfer_ms":1.09}"#);
    insta::assert_snapshot!(bound(5000.0, 3e8), @r#"{"bound":{"over_sizes":{"bytes":[{"bytes_per_s":300000000.0,"label":"64KiB","mean_ms":6.97,"rate_per_s":4580.0},{"bytes_per_s":300000000.0,"label":"256KiB","mean_ms":27.9,"rate_per_s":1140.0}],"operations":[{"bytes_per_s":20500000.0,"label":"4KiB","mean_ms":6.38,"rate_per_s":5000.0},{"bytes_per_s":300000000.0,"label":"64KiB","mean_ms":6.97,"rate_per_s":4580.0}]}},"host_cpu_share":0.14,"in_flight":32.0,"one_at_a_time":false,"queue":32.0,"sign":"device","transfer_ms":6.4}"#);
    assert_eq!(device(&sized(5000.0, 1e12, &sizes[..1])).bound, None);

    // With serialized operations, their duration is the limit, and neither rate.
    let document = of(&Simulated::closed_disk(1, 1.0, 0.0));
    assert!(device(&document).one_at_a_time && device(&document).bound.is_none(), "{document:?}");
}

/// Without a sweep over sizes: more operations in flight do not increase throughput, and the transfers are
/// small or large.
#[test]
fn the_size_of_transfers_hints_at_what_a_full_disk_lacks() {
    for (bytes, operations) in [(4096.0, Some(true)), (65536.0, None), (1_048_576.0, Some(false))] {
        let vary = vec![vary("workload.outstanding", Some(32), &[16, 64])];
        let study = carry_out(experiment(vary, DesignKind::OneFactorAtATime, 1), |treatment| {
            let depth = level(treatment, "workload.outstanding", 32.0);
            let mut run = Simulated::closed_disk(depth as u32, 1.0, 0.0);
            run.bytes = bytes as u64;
            let rate = run.rates[0];
            run.counter("disk.transfers_per_s", "vda", &[rate]).counter(
                "disk.read_bytes_per_s",
                "vda",
                &[rate * bytes],
            )
        });
        let document = result(&study);
        let expected = operations.map(|operations| DeviceBound::BySize { transfer_bytes: bytes, operations });
        assert_eq!(device(&document).bound, expected);
    }
}

#[test]
fn flushes_that_take_the_time_are_named() {
    let mut run = Simulated::closed_disk(8, 1.0, 0.0).counter("disk.flushes_per_s", "vda", &[120.0]).counter(
        "disk.flush_s",
        "vda",
        &[0.0081],
    );
    run.operation = "fsync";
    run.bytes = 0;
    insta::assert_snapshot!(shown(&rests_on(&of(&run)).claim), @r#"{"flush_share":1.0,"host_cpu_share":0.14,"in_flight":8.0,"one_at_a_time":false,"queue":8.0,"serial_flushes":{"device":"vda","each_ms":8.1,"under_way":0.972},"sign":"device","transfer_ms":8.0}"#);
    // Flushes next to reads that take the time are not the limit.
    run.operation = "read";
    run.bytes = 4096;
    let document = of(&run);
    assert_eq!((device(&document).flush_share, &device(&document).serial_flushes), (None, &None));
}

#[test]
fn more_load_that_still_gives_more_speaks_against_a_full_device() {
    let axes = vec![vary("workload.outstanding", Some(1), &[2, 4])];
    let plan = experiment(axes, DesignKind::OneFactorAtATime, 2);
    // A device with many channels: twice the load gives twice the throughput, with all operations at the
    // device.
    let study = carry_out(plan, |treatment| {
        let depth = level(treatment, "workload.outstanding", 1.0);
        let mut run = Simulated::closed_disk(1, 0.1, 0.0).times(depth);
        run.in_flight = depth;
        run.counter("disk.queue_length", "vda", &[depth])
    });
    let document = result(&study);
    let limit = rests_on(&document);
    // One operation at a time is limited by the latency of the device, several by the device: two findings.
    assert_eq!((limit.trials.len(), limit.of_trials), (2, 6));
    let of_several: Vec<&Finding> = document
        .findings
        .iter()
        .filter(|one| one.kind == FindingKind::Limits && one.about == limit.about && one.claim != limit.claim)
        .collect();
    assert_eq!(of_several.iter().map(|one| one.trials.len()).collect::<Vec<_>>(), [4]);
    for configuration in &document.configurations[1..] {
        let Some(Verdict::Bottleneck { finding: Some(at), .. }) = configuration.verdict else { panic!() };
        assert_eq!(&document.findings[at], of_several[0]);
    }
    assert_eq!(
        (limit.against.len(), of_several[0].evidence.iter().filter(|one| one.between.is_some()).count()),
        (0, 0)
    );
    let [gain] = of_several[0].against.as_slice() else { panic!("{of_several:?}") };
    assert!((gain.observed.value - 1.0).abs() < 1e-9, "elasticity {gain:?}");
    let between = gain.between.as_ref().unwrap();
    let levels = (between.factor.as_str(), between.from.as_str(), between.to.as_str());
    assert_eq!(levels, ("workload.outstanding", "2", "4"));
    assert!((between.throughput_ratio - 2.0).abs() < 1e-9, "{between:?}");
}

#[test]
fn without_counters_the_verdict_says_what_is_missing() {
    let mut run = Simulated::closed_disk(32, 0.0163, 0.003);
    run.counters.clear();
    run.threads = 0;
    let mut study = single(&run);
    let why = "permission denied".to_string();
    study.runs[0].run.sources =
        vec![SourceStatus { source: "disk".into(), state: SourceState::Unavailable(why) }];
    let document = result(&study);
    let source = Missing::Source("disk".into());
    assert_eq!(unclear(&document).1, [source, Missing::GeneratorCpu, Missing::CpuUse, Missing::DeviceQueue]);
    let kinds: Vec<DoubtKind> = document.trials[0].doubts.iter().map(|doubt| doubt.kind).collect();
    assert_eq!(kinds, [DoubtKind::NotTheDevice, DoubtKind::MissingSource]);
}

#[test]
fn a_trial_that_is_shorter_than_the_cpu_counters_asks_for_a_longer_one() {
    for (interval_s, expected) in [(0.001, Missing::LongerTrial), (1.0, Missing::CpuUse)] {
        let mut run = Simulated::closed_disk(32, 0.0163, 0.003);
        run.counters.clear();
        run.interval_s = interval_s;
        let document = result(&single(&run));
        let lacks = unclear(&document).1;
        assert!(lacks.contains(&expected), "{interval_s} s: {lacks:?}");
    }
}

#[test]
fn separate_paths_on_one_device_are_a_doubt() {
    let run = Simulated::of(model::Shape::closed(1), 100.0, 10.0);
    let run = Simulated { workload: "sync", operation: "staging", facts: Default::default(), ..run };
    let run = run.fact("path.data", text("/data")).fact("path.log", text("/log"));
    assert!(!doubts(&run).contains(&DoubtKind::SharedDevice));
    let shared = run.fact("path.shared.data.log", text("disk vda"));
    let document = result(&single(&shared));
    let found = document.trials[0].doubts.iter().find(|doubt| doubt.kind == DoubtKind::SharedDevice).unwrap();
    assert!(found.text.contains("data (/data) and log (/log) are both on disk vda"), "{found:?}");
    assert!(found.help.contains("`log_path`"), "{found:?}");
}

#[test]
fn each_fact_that_speaks_against_the_disk_is_a_doubt() {
    let clean = Simulated::closed_disk(8, 0.1, 0.0);
    assert_eq!(doubts(&clean), []);
    let write = |mut run: Simulated| {
        run.operation = "write";
        let bytes = run.rates[0] * run.bytes as f64;
        run.counter("disk.write_bytes_per_s", "vda", &[bytes]).fact("write_cache", text("write back"))
    };
    for (run, expected) in [
        (clean.clone().fact("extents.hole_bytes", Level::Bytes(4096)), vec![DoubtKind::Holes]),
        (clean.clone().fact("extents.unwritten_bytes", Level::Bytes(0)), vec![]),
        (clean.clone().counter("disk.read_bytes_per_s", "vda", &[1e5]), vec![DoubtKind::NotTheDevice]),
        (clean.clone().fact("devices", Level::List(Vec::new())), vec![DoubtKind::NotTheDevice]),
        (
            clean
                .clone()
                .fact("first_touch.mean_ms", Level::Number(1.444))
                .fact("second_touch.mean_ms", Level::Number(0.256)),
            vec![DoubtKind::HiddenCache],
        ),
        (
            clean
                .clone()
                .fact("first_touch.mean_ms", Level::Number(0.3))
                .fact("second_touch.mean_ms", Level::Number(0.256)),
            vec![],
        ),
        (write(clean.clone()), vec![DoubtKind::VolatileCache]),
        (clean.clone().fact("write_cache", text("write back")), vec![]),
        (clean.clone().fact("compressible", Level::Percent(50.0)), vec![DoubtKind::Compressible]),
        (clean.clone().fact("back_end", text("system-calls")), vec![DoubtKind::BackEnd]),
        (
            clean.clone().fact("back_end", text("system-calls")).fact("back_end.basis", text("compared")),
            vec![],
        ),
        (clean.clone().fact("back_end", text("none")), vec![DoubtKind::NotTheDevice]),
        (clean.clone().counter("cpu.steal_share", "", &[0.06]), vec![DoubtKind::Neighbour]),
        (Simulated { in_flight: 10.0, ..clean.clone() }, vec![DoubtKind::LittlesLaw]),
        (Simulated { generator: (0.2, 0.06), ..clean.clone() }, vec![DoubtKind::Generator]),
        (Simulated { failed_share: 0.01, ..clean.clone() }, vec![DoubtKind::Failures]),
        (Simulated { ending: Ending::Running, ..clean.clone() }, vec![DoubtKind::CutShort]),
    ] {
        assert_eq!(doubts(&run), expected, "{:?} {:?}", run.facts, run.counters);
    }
    let mut through = write(clean.clone());
    through.asked.insert("workload.write_through".into(), Level::Flag(true));
    assert_eq!(doubts(&through), []);
    let mut not_set = clean.clone();
    not_set.asked.insert("host.cpus".into(), Level::Count(4));
    not_set.in_force.insert("host.cpus".into(), Level::Count(2));
    assert_eq!(doubts(&not_set), [DoubtKind::NotInForce]);
}

#[test]
fn a_stated_neighbour_is_no_other_process_and_its_missed_rate_is_a_doubt() {
    let cpus = f64::from(single(&Simulated::closed_disk(8, 0.1, 0.0)).host.cpus);
    // The CPUs are busy, and the neighbour used all but this part of them.
    let run = |unknown: f64, achieved: f64| {
        let neighbour = cpus - unknown;
        Simulated::closed_disk(8, 0.1, 0.0)
            .counter("cpu.busy_share", "", &[1.0])
            .counter("pressure.cpu_some_share", "", &[0.9])
            .fact("host.neighbour.cpus", Level::Number(neighbour))
            .fact("host.neighbour.cpu.stated", Level::Number(neighbour))
            .fact("host.neighbour.cpu.achieved", Level::Number(achieved * neighbour))
    };
    assert_eq!(doubts(&run(0.2 * cpus, 1.0)), []);
    assert_eq!(doubts(&run(0.6 * cpus, 1.0)), [DoubtKind::Neighbour], "an unintended process is found");
    let missed = run(0.2 * cpus, 0.5);
    assert_eq!(doubts(&missed), [DoubtKind::NotInForce]);
    let document = of(&missed);
    assert!(document.trials[0].doubts[0].text.contains("cpu achieved "), "{:?}", document.trials[0].doubts);
    let rates = &document.configurations[0].neighbour;
    assert_eq!((rates[0].load.as_str(), rates[0].share()), ("cpu", Some(0.5)));
    let ended = run(0.2 * cpus, 1.0).fact("host.neighbour.error", text("its process ended with signal 9"));
    assert_eq!(doubts(&ended), [DoubtKind::NotInForce]);
    assert!(
        of(&ended).trials[0].doubts[0]
            .text
            .contains("ended before the trial did: its process ended with signal 9")
    );
}

#[test]
fn what_a_neighbour_reads_is_not_what_the_load_read() {
    let run = Simulated::closed_disk(8, 0.1, 0.0);
    let load = run.rates[0] * run.bytes as f64;
    // The page cache served half of the load, and a neighbour read as much on this disk, or on another one.
    let beside = |device: &str| {
        run.clone()
            .counter("disk.read_bytes_per_s", "vda", &[load])
            .fact("host.neighbour.device", text(device))
            .fact("host.neighbour.disk read.stated", Level::BytesPerSecond(0.5 * load))
            .fact("host.neighbour.disk read.achieved", Level::BytesPerSecond(0.5 * load))
    };
    assert_eq!(doubts(&beside("vda")), [DoubtKind::NotTheDevice]);
    assert_eq!(doubts(&beside("vdb")), []);
}

/// 500 operations of 1.28 us per second are 0.00064 in flight, which is recorded as 0.001.
#[test]
fn a_concurrency_that_the_record_rounds_is_no_gap() {
    let brief = Simulated { lag_ms: 0.0, in_flight: 0.001, ..Simulated::open_disk(500.0, 0.00128) };
    assert!(!doubts(&brief).contains(&DoubtKind::LittlesLaw), "{:?}", of(&brief).trials[0].doubts);
    let gap = Simulated { in_flight: 0.01, ..brief };
    assert!(doubts(&gap).contains(&DoubtKind::LittlesLaw));
}

#[test]
fn the_page_cache_is_called_by_its_name() {
    let run = Simulated::closed_disk(8, 0.1, 0.0)
        .fact("cache", text("page-cache"))
        .fact("resident_share.before", Level::Number(0.98))
        .counter("disk.read_bytes_per_s", "vda", &[0.0]);
    let document = of(&run);
    let doubt = &document.trials[0].doubts[0];
    assert_eq!(
        doubt.text,
        "vda transferred 0 % of the bytes read: this is the speed of the page cache (98 % of the file was in the page cache before)"
    );
}

#[test]
fn an_unsteady_run_is_doubted_and_its_change_found() {
    let mut run = Simulated::closed_disk(8, 0.1, 0.0);
    run.rates = [vec![9000.0; 12], vec![3000.0; 8]].concat();
    let document = of(&run);
    assert!(document.trials[0].doubts.iter().any(|doubt| doubt.kind == DoubtKind::Unsteady));
    insta::assert_snapshot!(shown(&found(&document, Detector::Steadiness).unwrap().claim), @r#"{"after":12300000.0,"at_s":12.0,"before":36900000.0,"cause":"not_shown","moved_bytes":442000000.0,"sign":"rate_changed","unit":"bytes_per_second"}"#);
}

/// A copy with the page cache: 8 s at 1,530 MB/s into memory, then 205 MB/s.
pub(super) fn copy() -> Simulated {
    let mut run = Simulated::closed_disk(1, 1.0, 0.0);
    (run.workload, run.operation) = ("copy", "copy");
    run.facts.clear();
    let cache = text("page-cache, without what was cached of the source before");
    let mut run = run.fact("cache", cache).fact("destination.device", text("vda"));
    run.bytes = 1 << 20;
    let fast = 1.53e9 / run.bytes as f64;
    let slow = 2.05e8 / run.bytes as f64;
    run.rates = [vec![fast; 8], vec![slow; 20]].concat();
    run
}

#[test]
fn an_exhausted_write_back_cache_is_reported_from_a_busy_kernel() {
    let rising: Vec<f64> = (0..28).map(|s| 2e9 * f64::from(s.min(8)) / 8.0).collect();
    let exhausted =
        copy().counter("memory.dirty_bytes", "", &rising).counter("disk.write_bytes_per_s", "vda", &[2.05e8]);
    let change = |run: &Simulated| found(&of(run), Detector::Steadiness).unwrap().claim.clone();
    insta::assert_snapshot!(shown(&change(&exhausted)), @r#"{"cache":{"accepted_bytes":{"high":12400000000.0,"low":12000000000.0,"value":12200000000.0},"capacity_bytes":{"high":2000000000.0,"low":2000000000.0,"value":2000000000.0},"full_at_s":9.0,"into_bytes_per_s":1530000000.0,"past_bytes_per_s":{"high":205000000.0,"low":205000000.0,"value":205000000.0},"place":"page_cache"},"sign":"write_cache"}"#);
    let cause = |run: &Simulated| match change(run) {
        Claim::RateChanged { cause, .. } => cause,
        other => panic!("{other:?}"),
    };
    let mut copying = copy()
        .counter("memory.dirty_bytes", "", &[1e8])
        .counter("disk.write_bytes_per_s", "vda", &[5e7])
        .counter("cpu.busy_share", "", &[0.5])
        .counter("cpu.system_share", "", &[0.48]);
    copying.generator = (0.93, 0.02);
    assert_eq!(cause(&copying), ChangeCause::Copying);
    assert_eq!(limit(&of(&copying)), "cpu");
    // Without counters, the change is reported without its cause.
    assert_eq!(cause(&copy()), ChangeCause::NotShown);
}

#[test]
fn the_first_launch_is_set_against_the_later_ones() {
    let mut run = Simulated::closed_disk(1, 1.0, 0.0);
    (run.workload, run.operation) = ("command", "later");
    (run.rates, run.response_ms) = (vec![1.0; 20], 95.0);
    (run.offered_per_s, run.in_flight) = (1.0, 0.0);
    run.facts.clear();
    let mut study = single(&run);
    let record = &mut study.runs[0];
    let first = &mut record.intervals[0];
    (first.operation, first.phase) = ("first".into(), Phase::WarmUp);
    first.response.mean = 812.0;
    let document = result(&study);
    let launches = &found(&document, Detector::Launches).unwrap().claim;
    insta::assert_snapshot!(shown(launches), @r#"{"first_ms":812.0,"later":19,"later_ms":64.9,"sign":"first_launch"}"#);
    let kinds: Vec<DoubtKind> = document.trials[0].doubts.iter().map(|doubt| doubt.kind).collect();
    assert_eq!(kinds, [DoubtKind::FewSamples]);
}

#[test]
fn a_process_that_uses_its_cpus_is_limited_by_them() {
    let mut run = Simulated::open_disk(200.0, 1.0).http().counter("process.busy_cpus", "slapd", &[0.98]);
    run.in_force.insert("host.cpus".into(), Level::Count(1));
    let document = of(&run);
    let claim = Claim::CpusUsed { process: "slapd".into(), used_cpus: 0.98, allowed_cpus: 1.0 };
    assert_eq!((limit(&document), shown(&rests_on(&document).claim)), ("cpu".into(), shown(&claim)));
}

#[test]
fn one_busy_thread_limits_a_process_that_has_cpus_to_spare() {
    let mut run = Simulated::open_disk(200.0, 1.0)
        .http()
        .counter("process.busy_cpus", "slapd", &[1.05])
        .counter("process.busiest_thread_cpus", "slapd", &[0.97]);
    run.in_force.insert("host.cpus".into(), Level::Count(4));
    let claim = Claim::OneThreadBusy { process: "slapd".into(), busiest_thread_cpus: 0.97, used_cpus: 1.05 };
    assert_eq!(shown(&rests_on(&of(&run)).claim), shown(&claim));
    // Four threads that share the work are not a single one.
    let shared = run.counter("process.busy_cpus", "slapd", &[3.0]);
    assert!(matches!(of(&shared).verdict, Verdict::NotSaturated { .. }));
}

#[test]
fn a_partition_is_counted_on_its_disk() {
    let run = copy();
    let share = |run: &Simulated| {
        let document = of(run);
        document.trials[0].doubts.iter().find(|d| d.kind == DoubtKind::NotTheDevice).map(|d| d.text.clone())
    };
    let on = |device: &str| run.clone().fact("destination.device", text(device));
    assert!(share(&on("vda1")).unwrap().starts_with("vda transferred"));
    assert!(share(&on("none (0:45)")).unwrap().starts_with("no block device was found"));
    assert!(share(&on("sdb")).unwrap().contains("sdb were not recorded"));
}

#[test]
fn a_run_in_which_much_fails_says_nothing_about_limits() {
    let run = Simulated { failed_share: 0.2, ..Simulated::closed_disk(32, 0.0163, 0.003) };
    assert_eq!(unclear(&of(&run)), (&InconclusiveReason::TooManyFailed, &[Missing::FewerFailures][..]));
}

#[test]
fn a_generator_short_of_cpu_is_not_ruled_out() {
    // Too little for starvation, too much to be ruled out.
    let run = Simulated { generator: (0.094, 0.2), ..Simulated::closed_disk(8, 1.0, 50.0) };
    let document = of(&run);
    let finding = found(&document, Detector::Generator).unwrap();
    assert_eq!(finding.kind, FindingKind::Observation, "{finding:?}");
    assert!(!with(&document, FindingKind::RuledOut).contains(&"load generator".into()));
    let (reason, lacks) = unclear(&document);
    assert!(matches!(reason, InconclusiveReason::NothingSaturated { .. }), "{reason:?}");
    assert_eq!(lacks, [Missing::GeneratorUndisturbed]);
}

#[test]
fn what_was_only_watched_is_said_to_be_so() {
    let mut study = single(&Simulated::closed_disk(32, 0.0163, 0.003));
    study.plan.as_mut().unwrap().experiment.workload.kind = model::Run::WATCHED.into();
    let record = &mut study.runs[0];
    record.run.workload = model::Run::WATCHED.into();
    record.run.origin = model::run::Origin::Watched;
    record.run.ending = Ending::Interrupted;
    record.intervals.clear();
    record.histograms.clear();
    let document = result(&study);
    assert_eq!(unclear(&document), (&InconclusiveReason::OnlyWatched, &[][..]));
    let cut_short = document.trials[0].doubts.iter().find(|doubt| doubt.kind == DoubtKind::CutShort);
    assert_eq!(cut_short.unwrap().help, "", "there is no experiment to resume");
}

#[test]
fn data_that_was_not_what_was_written_comes_before_every_number() {
    let run = Simulated { failed_share: 0.001, ..Simulated::closed_disk(32, 0.0163, 0.003) };
    let mut study = single(&run);
    let text = "the block read back does not match its checksum: damaged or torn";
    let record = &mut study.runs[0];
    record.run.errors = vec![model::ErrorCount {
        operation: "read".into(),
        text: text.into(),
        count: 20,
        kind: DoubtKind::Corrupted,
    }];
    record.events.push(model::Event {
        at_s: 2.0,
        kind: model::EventKind::Workload,
        text: format!("/data/f at offset 8192: {text}"),
        data: Default::default(),
    });
    let document = result(&study);
    let doubt = document.trials[0].doubts.iter().find(|doubt| doubt.kind == DoubtKind::Corrupted).unwrap();
    assert!(doubt.text.contains("the first: /data/f at offset 8192"), "{}", doubt.text);
    assert_eq!(unclear(&document), (&InconclusiveReason::Corrupted, &[][..]));
    // Without a reported place it counts equally; another kind of failure does not.
    for (kind, corrupted) in [(DoubtKind::Corrupted, true), (DoubtKind::Failures, false)] {
        let record = &mut study.runs[0];
        record.run.errors[0].kind = kind;
        if corrupted {
            record.events.retain(|event| event.kind != model::EventKind::Workload);
        }
        let document = result(&study);
        let found = document.trials[0].doubts.iter().any(|doubt| doubt.kind == DoubtKind::Corrupted);
        assert_eq!(found, corrupted, "{kind:?}");
    }
}

#[test]
fn a_clock_that_drifts_is_a_doubt_about_every_latency() {
    let mut study = single(&Simulated::closed_disk(32, 0.0163, 0.003));
    for (drift_ppm, words) in [
        (49.0, None),
        (-49.0, None),
        (
            120.0,
            Some(
                "120 ppm fast compared with the kernel's clock: each millisecond of latency has an error of 120 ns",
            ),
        ),
        (
            -120.0,
            Some(
                "120 ppm slow compared with the kernel's clock: each millisecond of latency has an error of 120 ns",
            ),
        ),
    ] {
        study.runs[0].run.clock.drift_ppm = drift_ppm;
        let document = result(&study);
        let doubt = document.trials[0].doubts.iter().find(|doubt| doubt.kind == DoubtKind::Clock);
        assert_eq!(doubt.is_some(), words.is_some(), "{drift_ppm}");
        if let (Some(doubt), Some(words)) = (doubt, words) {
            assert!(doubt.text.ends_with(words), "{}", doubt.text);
        }
    }
}

#[test]
fn without_equal_counts_there_is_no_verdict() {
    // The load, the statistics of the server, and its trace, of which only the rate is recorded.
    for (client, server, trace, differs) in [
        (20_000, Some(20_000), None, false),
        (20_000, Some(20_150), Some(19_990_u32), false),
        (20_000, Some(20_400), None, true),
        (20_000, Some(12_000), None, true),
        (20_000, None, None, false),
        (20_000, None, Some(20_000), false),
        (20_000, Some(20_000), Some(21_000), true),
        // Operations that were in flight at the end.
        (1_000, Some(1_200), None, false),
    ] {
        let mut run = Simulated::closed_disk(32, 0.0163, 0.003);
        if let Some(trace) = trace {
            // The simulated counters are read over this time.
            let readings = &single(&run).runs[0].readings;
            let seconds: f64 =
                readings.begin_s.iter().zip(&readings.end_s).map(|(begin, end)| end - begin).sum();
            run = run.counter("operation_io.operations_per_s", "slapd search", &[f64::from(trace) / seconds]);
        }
        let mut study = single(&run);
        let facts = &mut study.runs[0].run.facts;
        facts.insert("client.search".into(), model::Level::Count(client));
        if let Some(server) = server {
            facts.insert("server.search".into(), model::Level::Count(server));
        }
        let document = result(&study);
        let counts = &document.trials[0].counts;
        assert_eq!(counts.is_empty(), server.is_none() && trace.is_none());
        let counted = counts.first().and_then(|of| of.trace);
        assert!(
            trace.is_none_or(|trace| counted.is_some_and(|of| of.abs_diff(u64::from(trace)) <= 1)),
            "{counts:?}"
        );
        let doubts = &document.trials[0].doubts;
        let words = format!("{client}, {server:?}, {trace:?}");
        assert_eq!(doubts.iter().any(|doubt| doubt.kind == DoubtKind::CountsDiffer), differs, "{words}");
        let is_unclear = matches!(
            document.verdict,
            model::Verdict::Inconclusive { reason: InconclusiveReason::CountsDiffer, .. }
        );
        assert_eq!(is_unclear, differs, "{words}");
    }
}

#[test]
fn a_traced_server_has_the_price_of_operations_that_ran_together() {
    let run = Simulated::closed_disk(32, 0.0163, 0.003)
        .counter("operation_io.operations_per_s", "slapd search", &[900.0, 1100.0])
        .counter("operation_io.operations_per_s", "slapd modify", &[100.0, 200.0])
        .counter("operation_io.syncs_per_s", "slapd search", &[0.0])
        .counter("operation_io.syncs_per_s", "slapd modify", &[100.0, 200.0])
        .counter("operation_io.device_writes_per_s", "slapd search", &[0.0])
        .counter("operation_io.device_write_bytes_per_s", "slapd search", &[0.0])
        .counter("operation_io.device_writes_per_s", "slapd modify", &[500.0, 1000.0])
        .counter("operation_io.device_write_bytes_per_s", "slapd modify", &[5000.0, 10_000.0])
        .counter("operation_io.device_flushes_per_s", "slapd kernel threads", &[200.0, 400.0])
        .counter("operation_io.device_writes_per_s", "slapd other processes", &[7.0]);
    let document = result(&single(&run));
    let [traced] = &document.configurations[0].operation_io[..] else { panic!("{document:?}") };
    assert_eq!(traced.server, "slapd");
    let names: Vec<(&str, RowOrigin)> =
        traced.io.rows.iter().map(|row| (row.name.as_str(), row.origin)).collect();
    assert!(names.contains(&("kernel threads", RowOrigin::KernelThreads)), "{names:?}");
    assert!(traced.io.commits.is_some_and(|commits| !commits.are_grouped()), "{:?}", traced.io.commits);

    let price = |goal: &str| sizing::mix_price(&document, &MixGoal::parse(goal).unwrap());
    let found = price("10 modify/s, 1000 search/s");
    assert_eq!(found.refusal, "");
    let need =
        |of: PricedResource| found.needs.iter().find(|need| need.resource == of).map(|need| need.for_load);
    // Five writes and two flushes of the kernel for each modification, none for a search.
    assert!((need(PricedResource::DeviceRequests).unwrap() - 70.0).abs() < 1.0, "{found:?}");
    assert!((need(PricedResource::DeviceBytes).unwrap() - 500.0).abs() < 5.0, "{found:?}");
    assert_eq!(need(PricedResource::Cpus), None);
    assert!(found.warnings.iter().any(|text| text.contains("CPU time")), "{:?}", found.warnings);
    let refused = price("10 add/s").refusal;
    assert!(refused.contains("neither measured alone nor traced") && refused.contains("modify"), "{refused}");
}
