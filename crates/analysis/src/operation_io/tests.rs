use model::operation_io::{TRACE_FORMAT, TraceMethods};

use super::*;

fn io(counts: &[(IoKind, u64)]) -> IoCounts {
    counts.iter().copied().collect()
}

fn document(intervals: Vec<Vec<TraceRow>>) -> TraceDocument {
    let interval =
        |(at, rows): (usize, Vec<TraceRow>)| TraceInterval { end_s: (at + 1) as f64, seconds: 1.0, rows };
    let intervals: Vec<TraceInterval> = intervals.into_iter().enumerate().map(interval).collect();
    TraceDocument {
        format: TRACE_FORMAT.into(),
        pid: 7,
        program: "slapd".into(),
        devices: vec!["vda".into()],
        methods: TraceMethods::default(),
        limits: Vec::new(),
        io: judge(&intervals),
        intervals,
    }
}

/// An interval of a server as measured: 9 writes and 1 sync for a modification, of which a thread of the kernel makes 2
/// flushes; searches do no I/O.
fn slapd(modifications: u64, searches: u64, syncs: u64) -> Vec<TraceRow> {
    use IoKind::{DeviceFlushes, DeviceWriteBytes, DeviceWrites, Syncs, WriteCalls};
    let operation = |name: &str, count: u64, each: u64, syncs: u64| {
        let counts = [
            (WriteCalls, each * count),
            (Syncs, syncs),
            (DeviceWrites, each * count),
            (DeviceWriteBytes, 4096 * each * count),
        ];
        TraceRow::new(name, RowOrigin::Operation, Some(count), io(&counts))
    };
    vec![
        operation("bind", 0, 0, 0),
        operation("search", searches, 0, 0),
        operation("modify", modifications, 9, syncs),
        TraceRow::of_origin(RowOrigin::NoOperation, io(&[(Syncs, 0)])),
        TraceRow::of_origin(RowOrigin::KernelThreads, io(&[(DeviceFlushes, 2 * syncs)])),
        TraceRow::of_origin(RowOrigin::OtherProcesses, io(&[(IoKind::DeviceReads, 3)])),
    ]
}

#[test]
fn flushes_of_the_kernel_belong_to_what_syncs() {
    let rates = [(100, 5000), (140, 4000), (90, 6000), (120, 5500), (60, 7000), (150, 3000)];
    let document =
        document(rates.into_iter().map(|(modifies, searches)| slapd(modifies, searches, modifies)).collect());
    assert_eq!((document.io.share_rule, document.io.seconds), (Some(ShareRule::Syncs), 6.0));
    let names: Vec<&str> = document.io.costs.iter().map(|cost| cost.operation.as_str()).collect();
    assert_eq!(names, ["search", "modify"]);
    let (search, modify) = (&document.io.costs[0], &document.io.costs[1]);
    assert_eq!((modify.operations, modify.rate_per_s), (660, 110.0));
    assert_eq!(modify.direct[&IoKind::DeviceWrites], 9.0);
    assert_eq!(
        (modify.with_share[&IoKind::DeviceFlushes], search.with_share[&IoKind::DeviceFlushes]),
        (2.0, 0.0)
    );
    // The check without any attribution: 11 requests for a modification.
    let fitted = modify.requests_by_regression.unwrap();
    assert!((fitted.value - 11.0).abs() < 1e-6, "{fitted:?}");
    assert_eq!(document.io.commits, Some(CommitFinding { writers: 660, syncs: 660, outside: 0 }));
    assert!(!document.io.commits.unwrap().are_grouped());

    let goal = MixGoal::parse("100 modify/s, 5000 search/s").unwrap();
    let price = price(&document, &goal).unwrap();
    assert!((price.requests.for_load_per_s - 1100.0).abs() < 1e-9);
    assert!((price.requests.with_headroom_per_s - 1100.0 / 0.7).abs() < 1e-9);
    assert_eq!(price.bytes.for_load_per_s, 100.0 * 9.0 * 4096.0);
    assert!(price.warnings.is_empty(), "{:?}", price.warnings);
}

#[test]
fn a_price_says_what_it_does_not_know() {
    let document = document(vec![slapd(40, 0, 10)]);
    assert!(document.io.commits.unwrap().are_grouped());
    assert_eq!(document.io.share_rule, Some(ShareRule::OneOperation));
    let of = |text: &str| price(&document, &MixGoal::parse(text).unwrap());
    insta::assert_snapshot!(of("2000 modify/s").unwrap().warnings.join("\n"), @r"
    only 40 modify operations were counted: trace longer
    2000 modify/s is extrapolated: 40/s were measured
    operations share syncs: with another load the cost of an operation differs
    ");
    assert_eq!(of("10 add/s").unwrap_err(), "no operation `add` was counted: write one of modify");
}

#[test]
fn writes_of_other_processes_by_kernel_threads_are_noticed() {
    let mut rows = slapd(200, 0, 200);
    rows[2].io.insert(IoKind::WriteCallBytes, 200 * 9 * 4000);
    rows[4].io.extend([(IoKind::DeviceWrites, 10), (IoKind::DeviceWriteBytes, 100_000)]);
    let goal = MixGoal::parse("100 modify/s").unwrap();
    assert!(price(&document(vec![rows.clone()]), &goal).unwrap().warnings.is_empty());
    rows[4].io.insert(IoKind::DeviceWriteBytes, 10_000_000);
    let found = price(&document(vec![rows]), &goal).unwrap();
    assert!(found.warnings[0].starts_with("kernel threads wrote more"), "{:?}", found.warnings);
}

#[test]
fn a_rare_operation_has_no_part_of_what_belongs_to_none() {
    let rates = [(100, 1), (140, 0), (90, 0), (120, 0)];
    let interval = |(modifies, binds): (u64, u64)| {
        let mut rows = slapd(modifies, 0, modifies);
        rows[0].operations = Some(binds);
        rows
    };
    let document = document(rates.into_iter().map(interval).collect());
    assert_eq!(document.io.share_rule, Some(ShareRule::OneOperation));
    let (bind, modify) = (&document.io.costs[0], &document.io.costs[1]);
    assert_eq!((bind.operations, bind.requests_by_regression), (1, None));
    assert_eq!(
        (bind.with_share[&IoKind::DeviceFlushes], modify.with_share[&IoKind::DeviceFlushes]),
        (0.0, 2.0)
    );
    assert!(modify.requests_by_regression.is_some());
}

#[test]
fn without_attribution_one_operation_has_all_requests_and_several_those_of_a_regression() {
    let rows = |modifies: u64, searches: u64| {
        let operation =
            |name: &str, count| TraceRow::new(name, RowOrigin::Operation, Some(count), IoCounts::new());
        let counts = [(IoKind::DeviceReads, searches / 10), (IoKind::DeviceWrites, 12 * modifies + 5)];
        vec![
            operation("search", searches),
            operation("modify", modifies),
            TraceRow::of_origin(RowOrigin::Process, io(&[(IoKind::WriteCalls, 99)])),
            TraceRow::of_origin(RowOrigin::Device, io(&counts)),
        ]
    };
    let mixed = [(10, 1000), (50, 800), (30, 400), (20, 2000), (60, 100)];
    let found = document(mixed.into_iter().map(|(modifies, searches)| rows(modifies, searches)).collect());
    assert_eq!(found.io.share_rule, Some(ShareRule::Regression));
    let (search, modify) = (&found.io.costs[0], &found.io.costs[1]);
    assert!(search.direct.is_empty());
    assert!((modify.with_share[&IoKind::DeviceWrites] - 12.0).abs() < 1e-6, "{modify:?}");
    assert!((search.with_share[&IoKind::DeviceReads] - 0.1).abs() < 1e-6, "{search:?}");
    let alone = document(vec![rows(10, 0), rows(10, 0)]);
    assert_eq!(alone.io.share_rule, Some(ShareRule::OneOperation));
    assert_eq!(alone.io.costs[0].with_share[&IoKind::DeviceWrites], 12.5);
    // A constant load does not show which operation causes what.
    let constant = document(vec![rows(10, 100); 5]);
    assert!(price(&constant, &MixGoal::parse("1 modify/s").unwrap()).unwrap_err().contains("are not known"));
}

#[test]
fn a_trace_without_operations_has_no_costs() {
    for document in [document(Vec::new()), document(vec![Vec::new()]), document(vec![slapd(0, 0, 0)])] {
        assert!(
            document.io.costs.is_empty() && document.io.commits.is_none() && document.io.share_rule.is_none()
        );
        let found = price(&document, &MixGoal::parse("1 modify/s").unwrap());
        assert_eq!(found.unwrap_err(), "no operation was counted: trace the process under load");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_was_counted_nothing_fails_and_nothing_is_nan(
        intervals in proptest::collection::vec(
            proptest::collection::vec((0_usize..6, proptest::option::of(0_u64..u64::MAX), 0_usize..12, proptest::num::u64::ANY), 0..6),
            0..6,
        ),
        seconds in proptest::num::f64::ANY,
    ) {
        let origins = [
            RowOrigin::Operation, RowOrigin::NoOperation, RowOrigin::KernelThreads,
            RowOrigin::OtherProcesses, RowOrigin::Process, RowOrigin::Device,
        ];
        let rows = |rows: Vec<(usize, Option<u64>, usize, u64)>| rows
            .into_iter()
            .map(|(origin, count, kind, value)| {
                let name = ["modify", "search", "other"][kind % 3];
                TraceRow::new(name, origins[origin], count, io(&[(IoKind::ALL[kind], value)]))
            })
            .collect();
        let mut document = document(intervals.into_iter().map(rows).collect());
        document.intervals.iter_mut().for_each(|interval| interval.seconds = seconds);
        document.io = judge(&document.intervals);
        for cost in &document.io.costs {
            proptest::prop_assert!(cost.with_share.values().all(|each| each.is_finite()));
        }
        let _ = price(&document, &MixGoal::parse("3 modify/s, 4 search/s").unwrap());
    }
}
