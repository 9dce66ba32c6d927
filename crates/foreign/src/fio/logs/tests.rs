use super::*;

fn log(text: &str) -> FioLog {
    match open(Box::new(std::io::Cursor::new(text.as_bytes().to_vec())), &Options::default()) {
        Ok(Content::FioLog(log)) => *log,
        Ok(_) => panic!("no log"),
        Err(fault) => panic!("{fault}"),
    }
}

/// The runs of logs with their names.
fn runs(logs: &[(&str, &str)], runs: Vec<(String, LoadRun)>) -> Result<Vec<(String, LoadRun)>, String> {
    let logs = logs.iter().map(|(name, text)| (name.to_string(), log(text))).collect();
    let mut runs = runs.into_iter().map(|(name, run)| (name, Checked::of(run).unwrap())).collect();
    join_fio_logs(logs, &mut runs).map_err(|(name, fault)| format!("{name}: {fault}"))?;
    Ok(runs.into_iter().map(|(name, run)| (name, (*run).clone())).collect())
}

/// The operation, the span, the count, the bytes and the mean of each interval.
fn shown(run: &LoadRun) -> Vec<String> {
    let of = |of: &Interval| {
        format!(
            "{} {}..{} {} {} {:.3}",
            of.operation, of.begin_s, of.end_s, of.completed, of.bytes, of.response.mean
        )
    };
    run.intervals.iter().map(of).collect()
}

#[test]
fn lines_are_those_of_all_versions() {
    let of = |ms, value, direction, bytes| Some(Row { ms, value, direction, bytes });
    for (line, has_max, expected) in [
        ("500, 32940, 0, 0", false, of(500, 32940, 0, 0)),
        ("0, 124344, 1, 4096, 0, 0", false, of(0, 124_344, 1, 4096)),
        ("500, 32940, 0, 4096, 0, 0x2001", false, of(500, 32940, 0, 4096)),
        ("500, 32940, 0, 4096, 0, 0x2001, 17", false, of(500, 32940, 0, 4096)),
        ("500, 32940, 40000, 1, 0, 0, 0", true, of(500, 32940, 1, 0)),
        ("500, 32940, 3, 0", false, None),
        ("500, -1, 0, 0", false, None),
        ("500, 1, 0", false, None),
        ("500, 1, 0, 0, x", false, None),
        ("500, 1, 0, 0, 1, 1, 1, 1, 1", false, None),
    ] {
        assert_eq!(has_two(line), has_max, "{line}");
        assert_eq!(row(line, has_max), expected, "{line}");
    }
    for (text, expected) in [("1,2,0,4\n1,2,0,4\n", false), ("", false), ("500, 1, 0, 0\n", true)] {
        assert_eq!(recognize(text), expected, "{text}");
    }
}

#[test]
fn names_say_what_the_values_are() {
    for (name, expected) in [
        ("a_bw.1.log", Some(("a", Kind::Bandwidth, Some(1)))),
        ("x/my.run_clat.12.log", Some(("my.run", Kind::Completion, Some(12)))),
        ("a_b_iops.log", Some(("a_b", Kind::Iops, None))),
        ("a_lat.log.1", None),
        ("a.log", None),
        ("a_other.1.log", None),
    ] {
        assert_eq!(parts(name), expected, "{name}");
    }
    let error = runs(&[("other.txt", "500, 1, 0, 0\n")], Vec::new()).unwrap_err();
    assert!(error.starts_with("other.txt: the values of a log of fio have no name"), "{error}");
}

#[test]
fn means_of_windows_of_all_jobs_are_added_up() {
    let iops =
        ("a_iops.1.log", "500, 100, 0, 0, 0\n500, 40, 1, 0, 0\n1000, 200, 0, 0, 0\n1000, 40, 1, 0, 0\n");
    let bw = ("a_bw.1.log", "500, 400, 0, 0, 0\n500, 160, 1, 0, 0\n1000, 800, 0, 0, 0\n1000, 160, 1, 0, 0\n");
    let second = ("a_iops.2.log", "505, 300, 0, 0, 0\n1000, 300, 0, 0, 0\n");
    let lat = ("a_lat.1.log", "500, 2000000, 0, 0, 0\n1000, 4000000, 0, 0, 0\n");
    let all = runs(&[iops, bw, second, lat], Vec::new()).unwrap();
    assert_eq!(all.len(), 1);
    let run = &all[0].1;
    assert_eq!((run.seconds, run.label.as_str(), run.workload), (1.0, "a", "disk"));
    assert_eq!(
        shown(run),
        [
            "read 0..0.5 200 204800 2.000",
            "write 0..0.5 20 81920 NaN",
            "read 0.5..1 250 409600 4.000",
            "write 0.5..1 20 81920 NaN",
        ]
    );
    let alone = runs(&[bw], Vec::new()).unwrap_err();
    assert!(alone.contains("its block size is not known"), "{alone}");
    let alone = runs(&[lat], Vec::new()).unwrap_err();
    assert!(alone.contains("without rates"), "{alone}");
}

#[test]
fn a_late_window_is_as_long_as_it_was_and_an_idle_one_is_none() {
    // 250 ms, 385 ms as fio was late, then nothing for a second.
    let text = "250, 400, 0, 0, 0\n500, 400, 0, 0, 0\n885, 400, 0, 0, 0\n1000, 400, 0, 0, 0\n2250, 400, 0, 0, 0\n2500, 400, 0, 0, 0\n";
    let all = runs(&[("a_iops.1.log", text)], Vec::new()).unwrap();
    let run = &all[0].1;
    let counts: Vec<(f64, u64)> = run.intervals.iter().map(|of| (of.begin_s, of.completed)).collect();
    let expected = [100, 100, 100, 100, 0, 0, 0, 0, 100, 100].into_iter().zip(0..);
    assert_eq!(counts, expected.map(|(count, at)| (0.25 * f64::from(at), count)).collect::<Vec<_>>());
    assert_eq!(run.seconds, 2.5);
}

#[test]
fn single_operations_have_a_histogram_for_each_window() {
    let lines: Vec<String> =
        (0..40).map(|at| format!("{}, {}, {}, 4096, 0\n", at * 20, 190_000 + 1000 * at, at % 2)).collect();
    let iops: Vec<String> = (0..40).map(|at| format!("{}, 1, {}, 4096, 0\n", at * 20, at % 2)).collect();
    let all =
        runs(&[("a_lat.1.log", &lines.concat()), ("a_iops.1.log", &iops.concat())], Vec::new()).unwrap();
    let run = &all[0].1;
    assert_eq!(run.intervals.iter().map(|of| of.completed).sum::<u64>(), 40);
    assert_eq!(run.interval_times.len(), run.intervals.len());
    assert_eq!(run.intervals.len(), 8);
    let first = &run.interval_times[&0];
    // Three significant digits.
    assert_eq!((first.len(), first.min() / 1000, first.max() / 1000), (5, 189, 198));
    assert!((run.intervals[0].response.mean - 0.194).abs() < 2e-4, "{:?}", run.intervals[0].response);
    assert_eq!(run.intervals[0].bytes, 5 * 4096);
}

/// A run of fio of 2 s with a read and a write each millisecond.
fn fio(version: &str) -> LoadRun {
    let mut run = LoadRun {
        tool: "fio",
        version: version.into(),
        workload: "disk",
        seconds: 2.0,
        fio_logs: vec![("a".into(), 1)],
        ..LoadRun::default()
    };
    for operation in ["read", "write"] {
        let times = LatencySummary { mean: 0.5, p99: 1.0, ..LatencySummary::ABSENT };
        let whole =
            crate::load::Whole { completed: 2000, failed: 0, bytes: 8_192_000, times, concurrency: f64::NAN };
        run.add_whole(operation, whole);
    }
    run.set("block_size", model::Level::Bytes(4096));
    run
}

#[test]
fn beside_the_json_the_totals_are_those_of_the_run() {
    for (version, unit) in [("3.33", 1_000_000), ("2.21", 1000)] {
        let lat = format!("500, {unit}, 0, 0\n1000, {}, 0, 0\n1500, {unit}, 0, 0\n", 2 * unit);
        let iops = "500, 1000, 0, 0\n500, 990, 1, 0\n1000, 1000, 0, 0\n1000, 990, 1, 0\n1500, 1000, 0, 0\n1500, 990, 1, 0\n";
        let all =
            runs(&[("d/a_iops.1.log", iops), ("d/a_lat.1.log", &lat)], vec![("a.json".into(), fio(version))])
                .unwrap();
        assert_eq!(all.len(), 1);
        let run = &all[0].1;
        assert_eq!(
            shown(run),
            [
                "read 0..0.5 500 2048000 1.000",
                "write 0..0.5 495 2027520 NaN",
                "read 0.5..1 500 2048000 2.000",
                "write 0.5..1 495 2027520 NaN",
                "read 1..1.5 500 2048000 1.000",
                "write 1..1.5 495 2027520 NaN",
                // The last window is not in the logs.
                "read 1.5..2 500 2048000 0.500",
                "write 1.5..2 515 2109440 0.500",
            ]
        );
        // Without bins, the percentiles of the whole run are those of the JSON.
        let percentiles = run.facts.keys().filter(|name| name.starts_with("imported.ms.")).count();
        assert!(percentiles > 0 && run.histograms.is_empty(), "{:?}", run.facts);
    }
    // The log of a job that this run does not have is a run of its own.
    let other = runs(&[("b_iops.1.log", "500, 1000, 0, 0\n")], vec![("a.json".into(), fio("3.33"))]).unwrap();
    assert_eq!((other.len(), other[0].1.intervals.len()), (2, 2));
}

#[test]
fn times_since_1970_are_the_begin_of_the_run() {
    let text = "1700000000500, 10, 0, 0\n1700000001000, 10, 0, 0\n";
    let all = runs(&[("a_iops.log", text)], Vec::new()).unwrap();
    assert_eq!(all[0].1.began_unix_ns, Some(1_700_000_000_000_000_000));
    assert_eq!(all[0].1.seconds, 1.0);
}

#[test]
fn long_logs_have_a_bounded_number_of_windows() {
    let lines: String = (0..20_000).map(|at| format!("{}, {at}, 0, 4096\n", at * 1000)).collect();
    let found = log(&lines);
    assert!(found.singles.len() <= WINDOWS_MAX && found.width_ms >= 1000);
    assert_eq!(found.singles.values().map(|of| of.count).sum::<u64>(), 20_000);
    let means: String = (1..20_000).map(|at| format!("{}, 100, 0, 0\n", at * 10)).collect();
    let all = runs(&[("a_iops.1.log", &means)], Vec::new()).unwrap();
    assert!(all[0].1.intervals.len() <= WINDOWS_MAX + 1);
    assert_eq!(all[0].1.intervals.iter().map(|of| of.completed).sum::<u64>(), 19_999);
}

proptest::proptest! {
    #[test]
    fn no_log_is_a_panic(
        rows in proptest::collection::vec("[0-9]{1,20}, [0-9]{1,20}, [0-2], (0|4096|[0-9]{1,20})(, [0-9]{1,4})?|\\PC{0,10}", 1..20),
        kind in "(bw|iops|lat|clat|slat)",
        has_run in proptest::bool::ANY,
    ) {
        let text = rows.join("\n");
        let Ok(Content::FioLog(log)) = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default()) else {
            return Ok(());
        };
        let fio = Checked::of(fio("3.33")).unwrap();
        let mut runs = if has_run { vec![("a.json".to_string(), fio)] } else { Vec::new() };
        let _ = join_fio_logs(vec![(format!("a_{kind}.1.log"), *log)], &mut runs);
        for of in runs.iter().flat_map(|(_, run)| &run.intervals) {
            proptest::prop_assert!(of.begin_s <= of.end_s && of.failed <= of.completed);
        }
    }
}
