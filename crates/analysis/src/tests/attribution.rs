//! Is the limit named that was planted, and none where it cannot be known?

use model::result::ResultDocument;
use model::{DesignKind, DoubtKind, Ending, FindingKind, Level, Phase, SourceState, SourceStatus, Verdict};

use crate::result;
use crate::simulate::{Simulated, carry_out, experiment, level, single, vary};

fn of(run: &Simulated) -> ResultDocument {
    result(&single(run))
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
    insta::assert_snapshot!(document.verdict.text(), @"The disk vda limited this run: 31.8 requests waited or were in service on average and a transfer took 0.519 ms; 32.0 operations were in flight; the CPU was 14 % busy.");
    assert!(
        matches!(&document.verdict, Verdict::Bottleneck { resource, proof: None, .. } if resource == "disk vda")
    );
    assert_eq!(document.trials[0].doubts, []);
}

#[test]
fn a_device_that_the_operations_do_not_wait_for_is_ruled_out() {
    // 8 users, 1 ms at the device, 50 ms elsewhere: most operations are elsewhere.
    let document = of(&Simulated::closed_disk(8, 1.0, 50.0));
    let Verdict::Inconclusive { text, missing } = &document.verdict else {
        panic!("{:?}", document.verdict);
    };
    assert_eq!(text, "No resource was seen to be full; ruled out: load generator, disk vda, cpu, memory.");
    assert_eq!(missing, &["a counter of where the operations waited"]);
}

#[test]
fn between_the_two_nothing_is_claimed_of_the_device() {
    // 2 users, half of each operation at the device.
    let document = of(&Simulated::closed_disk(2, 1.0, 1.0));
    assert!(matches!(document.verdict, Verdict::Inconclusive { .. }));
    assert!(!document.findings.iter().any(|finding| finding.resource == "disk vda"));
}

#[test]
fn a_busy_generator_comes_before_everything() {
    let mut run = Simulated::closed_disk(32, 0.0163, 0.003);
    run.generator = (0.7, 0.25);
    let document = of(&run);
    let Verdict::GeneratorBound { text } = &document.verdict else { panic!("{:?}", document.verdict) };
    assert!(
        text.contains("ran 70 % of the time, system calls included, and waited for a CPU 25 %"),
        "{text}"
    );
    assert!(document.trials[0].doubts.iter().any(|doubt| doubt.kind == DoubtKind::Generator));
}

#[test]
fn an_open_load_that_was_carried_is_not_saturated() {
    let document = of(&Simulated::open_disk(200.0, 1.0));
    insta::assert_snapshot!(document.verdict.text(), @"Nothing was saturated: the 200/s offered were carried, 99 % of them within 5.25 ms; closest to full was disk.utilization_share{vda} at 20 %.");
    assert!(matches!(document.verdict, Verdict::NotSaturated { .. }));
    assert!(document.findings.iter().any(|f| f.kind == FindingKind::RuledOut && f.resource == "disk vda"));
}

#[test]
fn an_open_load_that_was_not_carried_is_not_called_unsaturated() {
    let mut run = Simulated::open_disk(200.0, 1.0);
    run.offered_per_s = 400.0;
    let document = of(&run);
    assert!(matches!(document.verdict, Verdict::Inconclusive { .. } | Verdict::Bottleneck { .. }));
    assert!(doubts(&run).contains(&DoubtKind::NotIssued));
    // Late because its threads waited for a CPU: the generator's fault.
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
    let Verdict::Bottleneck { text, .. } = &document.verdict else { panic!("{:?}", document.verdict) };
    assert_eq!(text, "The limit of 500/s set on I/O (host.disk.io_limit) was reached: 500 reads/s.");
}

/// Each direction against its own limit, and by what meets it: the load past the page cache, else the devices.
#[test]
fn limits_of_reads_and_writes_are_told_apart() {
    let cases = [
        ("read 500/s", "direct", "read", 500.0, Some("500 reads/s")),
        ("write 500/s", "direct", "write", 490.0, Some("490 writes/s")),
        ("write 500/s", "direct", "read", 500.0, None),
        ("read 500/s and write 200/s", "direct", "write", 199.0, Some("199 writes/s")),
        ("read 200/s and write 500/s", "direct", "write", 199.0, None),
        ("read 900/s and read 2MB/s", "direct", "read", 488.0, Some("2.00 MB/s read")),
        ("5MB/s", "direct", "write", 500.0, None),
        ("2MB/s", "direct", "write", 488.0, Some("2.00 MB/s written")),
        ("unlimited", "direct", "read", 500.0, None),
        // What the page cache answers never meets the limit.
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
        let found = document.findings.iter().find(|finding| finding.resource.starts_with("I/O limit"));
        let told = found.map(|finding| finding.text.rsplit(": ").next().unwrap().trim_end_matches('.'));
        assert_eq!(told, expected, "{limit} {cache} {operation}");
    }
    // Through the page cache the devices tell.
    let mut run = Simulated::closed_disk(8, 0.4, 0.0)
        .counter("disk.writes_per_s", "vda", &[498.0])
        .fact("cache", text("page-cache"));
    run.asked.insert("host.disk.io_limit".into(), Level::Rate(500.0));
    let document = of(&run);
    let found = document.findings.iter().find(|finding| finding.resource.starts_with("I/O limit")).unwrap();
    assert!(found.text.ends_with("was reached: 498 writes/s."), "{}", found.text);
}

/// A device that is full, at each block size: `operations` a second at most, and `bytes` a second at most.
fn sized(operations: f64, bytes: f64, sizes: &[u64]) -> ResultDocument {
    let mut sweep = vary("workload.block_size", None, &[]);
    sweep.baseline = Some(Level::Bytes(sizes[0]));
    sweep.levels = sizes[1..].iter().copied().map(Level::Bytes).collect();
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
fn a_full_disk_is_told_by_what_it_has_no_more_of() {
    let sizes = [4096, 16384, 65536, 262_144];
    let told = |document: &ResultDocument| {
        let text = document.verdict.text();
        text.split_once("Over block sizes, ").map(|(_, told)| told.to_string())
    };
    insta::assert_snapshot!(told(&sized(5000.0, 1e12, &sizes)).unwrap());
    insta::assert_snapshot!(told(&sized(1e9, 1.2e8, &sizes)).unwrap());
    insta::assert_snapshot!(told(&sized(5000.0, 3e8, &sizes)).unwrap());
    assert_eq!(told(&sized(5000.0, 1e12, &sizes[..1])), None);

    // One at a time, the time of each is the limit, and nothing of either.
    let text = of(&Simulated::closed_disk(1, 1.0, 0.0)).verdict.text().to_string();
    assert!(text.contains("limited this run by its response time") && !text.contains("per second"), "{text}");
}

/// Without a sweep over sizes: more in flight gives no more, and the transfers are small or large.
#[test]
fn the_size_of_transfers_hints_at_what_a_full_disk_lacks() {
    for (bytes, expected) in [
        (4096.0, Some("for want of operations per second rather than bytes")),
        (65536.0, None),
        (1_048_576.0, Some("for want of bytes per second rather than operations")),
    ] {
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
        let limits = document.findings.iter().find(|finding| finding.kind == FindingKind::Limits);
        let text = &limits.unwrap_or_else(|| panic!("{bytes}: {}", document.verdict.text())).text;
        match expected {
            Some(expected) => assert!(text.contains(expected), "{text}"),
            None => assert!(!text.contains("for want of"), "{text}"),
        }
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
    let told = of(&run).verdict.text().to_string();
    insta::assert_snapshot!(told);
    // Flushes beside reads that take the time are not.
    run.operation = "read";
    run.bytes = 4096;
    assert!(!of(&run).verdict.text().contains("lushes"), "{}", of(&run).verdict.text());
}

#[test]
fn more_load_that_still_gives_more_speaks_against_a_full_device() {
    let axes = vec![vary("workload.outstanding", Some(1), &[2, 4])];
    let plan = experiment(axes, DesignKind::OneFactorAtATime, 2);
    // A device with many channels: twice the load, twice the throughput, all of the time at the device.
    let study = carry_out(plan, |treatment| {
        let depth = level(treatment, "workload.outstanding", 1.0);
        let mut run = Simulated::closed_disk(1, 0.1, 0.0).times(depth);
        run.in_flight = depth;
        run.counter("disk.queue_length", "vda", &[depth])
    });
    let document = result(&study);
    let Verdict::Bottleneck { text, .. } = &document.verdict else { panic!("{:?}", document.verdict) };
    assert!(
        text.contains(
            "But workload.outstanding from 2 to 4: throughput x2.00, so more load still gives more."
        ),
        "{text}"
    );
    assert!(text.contains("So in all 6 trials."), "{text}");
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
    let Verdict::Inconclusive { missing, .. } = &document.verdict else { panic!("{:?}", document.verdict) };
    assert_eq!(missing.len(), 4, "{missing:?}");
    let kinds: Vec<DoubtKind> = document.trials[0].doubts.iter().map(|doubt| doubt.kind).collect();
    assert_eq!(kinds, [DoubtKind::NotTheDevice, DoubtKind::MissingSource]);
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
fn the_page_cache_is_called_by_its_name() {
    let run = Simulated::closed_disk(8, 0.1, 0.0)
        .fact("cache", text("page-cache"))
        .fact("resident_share.before", Level::Percent(98.0))
        .counter("disk.read_bytes_per_s", "vda", &[0.0]);
    let document = of(&run);
    let doubt = &document.trials[0].doubts[0];
    assert_eq!(
        doubt.text,
        "vda moved 0 % of the bytes read: this is the speed of the page cache (98 % of the file was in memory before)"
    );
}

#[test]
fn an_unsteady_run_is_doubted_and_its_change_found() {
    let mut run = Simulated::closed_disk(8, 0.1, 0.0);
    run.rates = [vec![9000.0; 12], vec![3000.0; 8]].concat();
    let document = of(&run);
    assert!(document.trials[0].doubts.iter().any(|doubt| doubt.kind == DoubtKind::Unsteady));
    let change = document.findings.iter().find(|finding| finding.detector == "steadiness").unwrap();
    assert_eq!(
        change.text,
        "Throughput changed after 12.0 s and 422 MiB: 36.9 MB/s before, 12.3 MB/s after. The counters do not show why."
    );
}

/// A copy through the page cache: 8 s at 1,530 MB/s into memory, then 205 MB/s.
fn copy() -> Simulated {
    let mut run = Simulated::closed_disk(1, 1.0, 0.0).fact("cache", text("page-cache"));
    run.workload = "copy";
    run.operation = "write";
    run.bytes = 1 << 20;
    let fast = 1.53e9 / run.bytes as f64;
    let slow = 2.05e8 / run.bytes as f64;
    run.rates = [vec![fast; 8], vec![slow; 20]].concat();
    run
}

#[test]
fn an_exhausted_write_back_cache_is_told_from_a_busy_kernel() {
    let rising: Vec<f64> = (0..28).map(|s| 2e9 * f64::from(s.min(8)) / 8.0).collect();
    let exhausted =
        copy().counter("memory.dirty_bytes", "", &rising).counter("disk.write_bytes_per_s", "vda", &[2.05e8]);
    let finding = |run: &Simulated| {
        let document = of(run);
        document.findings.iter().find(|f| f.detector == "steadiness").unwrap().text.clone()
    };
    assert_eq!(
        finding(&exhausted),
        "The write-back cache was exhausted after 8.00 s and 11.4 GiB: 1,530 MB/s before, 205 MB/s after."
    );
    let mut copying = copy()
        .counter("memory.dirty_bytes", "", &[1e8])
        .counter("disk.write_bytes_per_s", "vda", &[5e7])
        .counter("cpu.busy_share", "", &[0.5])
        .counter("cpu.system_share", "", &[0.48]);
    copying.generator = (0.93, 0.02);
    let text = finding(&copying);
    assert!(text.ends_with("The kernel's copying in memory took the CPU, not the disk."), "{text}");
    let Verdict::Bottleneck { resource, .. } = of(&copying).verdict else { panic!() };
    assert_eq!(resource, "cpu");
    // No counters: the change is told, its cause is not.
    assert!(finding(&copy()).ends_with("The counters do not show why."));
}

#[test]
fn the_first_launch_is_set_against_the_later_ones() {
    let mut run = Simulated::closed_disk(1, 1.0, 0.0);
    run.workload = "command";
    run.operation = "later";
    run.rates = vec![1.0; 20];
    (run.offered_per_s, run.in_flight) = (1.0, 0.0);
    run.facts = [("cache".to_string(), text("as it was"))].into();
    let mut study = single(&run);
    let record = &mut study.runs[0];
    record.intervals.iter_mut().for_each(|interval| interval.response.mean = 95.0);
    let first = &mut record.intervals[0];
    (first.operation, first.phase) = ("first".into(), Phase::WarmUp);
    first.response.mean = 812.0;
    let document = result(&study);
    let finding = document.findings.iter().find(|finding| finding.detector == "launches").unwrap();
    assert_eq!(finding.text, "The first launch took 812 ms, the 19 later ones 95.0 ms (median): x8.5.");
    let kinds: Vec<DoubtKind> = document.trials[0].doubts.iter().map(|doubt| doubt.kind).collect();
    assert_eq!(kinds, [DoubtKind::FewSamples]);
}

#[test]
fn a_process_that_uses_its_cpus_is_limited_by_them() {
    let mut run = Simulated::open_disk(200.0, 1.0).counter("process.busy_cpus", "slapd", &[0.98]);
    run.workload = "http";
    run.facts.clear();
    run.in_force.insert("host.cpus".into(), Level::Count(1));
    let document = of(&run);
    let Verdict::Bottleneck { text, .. } = &document.verdict else { panic!("{:?}", document.verdict) };
    assert_eq!(text, "The CPUs limited slapd: it used 0.980 of the 1.00 it may use.");
}

#[test]
fn one_busy_thread_limits_a_process_that_has_cpus_to_spare() {
    let mut run = Simulated::open_disk(200.0, 1.0).counter("process.busy_cpus", "slapd", &[1.05]).counter(
        "process.busiest_thread_cpus",
        "slapd",
        &[0.97],
    );
    run.workload = "ldap";
    run.facts.clear();
    run.in_force.insert("host.cpus".into(), Level::Count(4));
    let text = of(&run).verdict.text().to_string();
    assert_eq!(text, "One thread limited slapd: it used 0.970 of a CPU, the whole process 1.05.");
    // Four threads that share the work are not one.
    let shared = run.counter("process.busy_cpus", "slapd", &[3.0]);
    assert!(matches!(of(&shared).verdict, Verdict::NotSaturated { .. }));
}

#[test]
fn a_partition_is_counted_on_its_disk() {
    let mut run = copy();
    run.facts.remove("devices");
    let share = |run: &Simulated| {
        let document = of(run);
        document.trials[0].doubts.iter().find(|d| d.kind == DoubtKind::NotTheDevice).map(|d| d.text.clone())
    };
    let on = |device: &str| run.clone().fact("destination.device", text(device));
    assert!(share(&on("vda1")).unwrap().starts_with("vda moved"));
    assert!(share(&on("none (0:45)")).unwrap().starts_with("no block device was found"));
    assert!(share(&on("sdb")).unwrap().contains("sdb were not recorded"));
}

#[test]
fn a_run_in_which_much_fails_says_nothing_about_limits() {
    let run = Simulated { failed_share: 0.2, ..Simulated::closed_disk(32, 0.0163, 0.003) };
    let Verdict::Inconclusive { missing, .. } = of(&run).verdict else { panic!() };
    assert_eq!(missing, ["a run in which at most 1.0 % of the operations fail"]);
}

#[test]
fn a_generator_short_of_cpu_is_not_ruled_out() {
    // Seen on a machine whose CPUs were all busy with something else.
    let run = Simulated { generator: (0.094, 0.37), ..Simulated::closed_disk(8, 1.0, 50.0) };
    let document = of(&run);
    let finding = document.findings.iter().find(|finding| finding.detector == "generator").unwrap();
    assert_eq!(finding.kind, FindingKind::Observation, "{}", finding.text);
    let Verdict::Inconclusive { text, missing } = document.verdict else { panic!() };
    assert!(!text.contains("load generator"), "{text}");
    assert_eq!(missing, ["a run in which the load generator does not wait for a CPU"]);
}

#[test]
fn what_was_only_watched_is_said_to_be_so() {
    let mut study = single(&Simulated::closed_disk(32, 0.0163, 0.003));
    study.plan.as_mut().unwrap().experiment.workload.kind = model::Run::WATCHED.into();
    let record = &mut study.runs[0];
    record.run.workload = model::Run::WATCHED.into();
    record.run.ending = Ending::Interrupted;
    record.intervals.clear();
    record.histograms.clear();
    let document = result(&study);
    assert_eq!(document.verdict.text(), "Nothing was driven, only watched: there is no load to judge.");
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
    assert!(document.verdict.text().starts_with("The data read back is not what was written"));
    // Without a place told it is as bad; another kind of failure is not.
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
                "120 parts per million fast against the kernel's: of each millisecond of a latency 120 ns are too many",
            ),
        ),
        (
            -120.0,
            Some(
                "120 parts per million slow against the kernel's: of each millisecond of a latency 120 ns are missing",
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
