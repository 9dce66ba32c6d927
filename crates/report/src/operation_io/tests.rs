use model::Estimate;
use model::operation_io::{IoAmount, IoCounts, MixGoal, PRICE_FORMAT, TRACE_FORMAT, TraceMethods};

use super::*;

fn row(name: &str, origin: RowOrigin, operations: Option<u64>, io: &[(IoKind, u64)]) -> TraceRow {
    TraceRow::new(name, origin, operations, io.iter().copied().collect::<IoCounts>())
}

fn document() -> TraceDocument {
    use IoKind::{
        DeviceFlushes, DeviceReads, DeviceWriteBytes, DeviceWrites, Syncs, WriteCallBytes, WriteCalls,
    };
    let rows = vec![
        row("search", RowOrigin::Operation, Some(5000), &[(WriteCalls, 0), (Syncs, 0)]),
        row(
            "modify",
            RowOrigin::Operation,
            Some(200),
            &[
                (WriteCalls, 1820),
                (WriteCallBytes, 7_454_720),
                (Syncs, 200),
                (DeviceWrites, 1900),
                (DeviceWriteBytes, 8_000_000),
            ],
        ),
        row("add", RowOrigin::Operation, Some(0), &[(WriteCalls, 0)]),
        row("no operation", RowOrigin::NoOperation, None, &[(DeviceReads, 1)]),
        row("kernel threads", RowOrigin::KernelThreads, None, &[(DeviceFlushes, 400)]),
        row("other processes", RowOrigin::OtherProcesses, None, &[(DeviceReads, 700)]),
    ];
    let cost =
        |operation: &str, operations: u64, direct: &[(IoKind, f64)], with: &[(IoKind, f64)], regression| {
            OperationIoCost {
                operation: operation.into(),
                operations,
                rate_per_s: operations as f64 / 2.0,
                direct: direct.iter().copied().collect(),
                with_share: with.iter().copied().collect(),
                requests_by_regression: regression,
            }
        };
    let direct = [(WriteCalls, 9.1), (Syncs, 1.0), (DeviceWrites, 9.5), (DeviceWriteBytes, 40_000.0)];
    let with = [(DeviceWrites, 9.5), (DeviceFlushes, 2.0), (DeviceWriteBytes, 40_000.0)];
    TraceDocument {
        format: TRACE_FORMAT.into(),
        pid: 4711,
        program: "slapd".into(),
        devices: vec!["vda".into()],
        methods: TraceMethods {
            operations: "probes at functions".into(),
            calls: "functions of the C library".into(),
            requests: "tracepoint block_rq_issue".into(),
            not_traced: String::new(),
        },
        limits: vec!["the process has no function do_compare".into()],
        intervals: vec![TraceInterval { end_s: 2.0, seconds: 2.0, rows: rows.clone() }],
        io: OperationIo {
            seconds: 2.0,
            rows,
            costs: vec![
                cost("search", 5000, &[(WriteCalls, 0.0), (Syncs, 0.0)], &[(DeviceWrites, 0.0)], None),
                cost("modify", 200, &direct, &with, Some(Estimate { value: 11.4, low: 11.1, high: 11.7 })),
            ],
            share_rule: Some(ShareRule::Syncs),
            commits: Some(CommitFinding { writers: 200, syncs: 200, outside: 0 }),
        },
    }
}

fn options() -> Terminal {
    Terminal { width: 120, color: false, verbose: false }
}

#[test]
fn an_interval_is_a_line_below_its_heads() {
    let document = document();
    let detail = |operations, reads, writes| TraceDetail { operations, reads, writes };
    let text: Vec<String> =
        [detail(false, false, false), detail(true, false, false), detail(false, true, true)]
            .into_iter()
            .flat_map(|detail| {
                let interval = &document.intervals[0];
                [trace_heads(interval, detail), trace_line(interval, detail)]
            })
            .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn a_summary_has_costs_totals_methods_and_findings() {
    insta::assert_snapshot!(trace_summary(&document(), options()));
}

#[test]
fn rows_are_csv_and_what_was_not_counted_is_empty() {
    let document = document();
    insta::assert_snapshot!(format!("{}\n{}", trace_csv_heads(), trace_csv(&document.intervals[0])));
}

#[test]
fn commits_are_described() {
    let text = |writers, syncs, outside| commit_sentence(&CommitFinding { writers, syncs, outside });
    let texts = [text(1000, 0, 0), text(1000, 310, 0), text(1000, 1000, 0), text(1000, 1000, 1000)];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn a_price_is_an_answer_with_headroom() {
    let amount =
        |kind, value: f64| IoAmount { kind, for_load_per_s: value, with_headroom_per_s: value / 0.7 };
    let price = IoPrice {
        format: PRICE_FORMAT.into(),
        goal: MixGoal::parse("2000 modify/s").unwrap(),
        devices: vec!["vda".into()],
        planned_share: 0.7,
        amounts: vec![
            amount(Some(IoKind::DeviceWrites), 19_000.0),
            amount(Some(IoKind::DeviceWriteBytes), 8e7),
            amount(Some(IoKind::DeviceFlushes), 4000.0),
        ],
        requests: amount(None, 23_000.0),
        bytes: amount(None, 8e7),
        warnings: vec!["2000 modify/s is extrapolated: 100/s were measured".into()],
    };
    insta::assert_snapshot!(io_price(&price, options()));
}
