use serde_json::json;

use super::*;

/// What fio 3.33 printed with `--output-format=json+`, shortened: two jobs of one group, and one with copies after them.
const PLUS: &str = r#"fio: a message
{
  "fio version" : "fio-3.33",
  "timestamp" : 1795708333,
  "timestamp_ms" : 1795708333478,
  "time" : "Thu Nov 26 15:52:13 2026",
  "global options" : {
    "size" : "4m",
    "bs" : "4k",
    "direct" : "0",
    "ioengine" : "psync",
    "filename" : "/data/f"
  },
  "jobs" : [
    {
      "jobname" : "one",
      "groupid" : 0,
      "error" : 0,
      "eta" : 2147483647,
      "elapsed" : 1,
      "job options" : {
        "name" : "one",
        "rw" : "randread",
        "number_ios" : "20"
      },
      "read" : {
        "io_bytes" : 81920,
        "io_kbytes" : 80,
        "bw_bytes" : 16384000,
        "bw" : 16000,
        "iops" : 4000.000000,
        "runtime" : 5,
        "total_ios" : 20,
        "short_ios" : 0,
        "drop_ios" : 0,
        "slat_ns" : { "min" : 0, "max" : 0, "mean" : 0.000000, "stddev" : 0.000000, "N" : 0 },
        "clat_ns" : {
          "min" : 42734, "max" : 2913173, "mean" : 235186.500000, "stddev" : 631961.658595, "N" : 20,
          "percentile" : {
            "1.000000" : 42752, "50.000000" : 73216, "90.000000" : 168960, "95.000000" : 201728,
            "99.000000" : 2899968, "99.900000" : 2899968, "99.990000" : 2899968
          },
          "bins" : { "42752" : 10, "73216" : 8, "201728" : 1, "2899968" : 1 }
        },
        "lat_ns" : { "min" : 42794, "max" : 2913263, "mean" : 235324.150000, "stddev" : 631951.462289, "N" : 20 },
        "bw_min" : 0
      },
      "write" : { "io_bytes" : 0, "io_kbytes" : 0, "runtime" : 0, "total_ios" : 0 },
      "trim" : { "io_bytes" : 0, "io_kbytes" : 0, "runtime" : 0, "total_ios" : 0 },
      "sync" : { "total_ios" : 0, "lat_ns" : { "min" : 0, "max" : 0, "mean" : 0.000000, "stddev" : 0.000000, "N" : 0 } },
      "job_runtime" : 4,
      "usr_cpu" : 10.000000,
      "sys_cpu" : 20.000000,
      "iodepth_level" : { "1" : 100.000000, "2" : 0.000000 }
    },
    {
      "jobname" : "two",
      "groupid" : 0,
      "error" : 5,
      "elapsed" : 1,
      "job options" : { "name" : "two", "rw" : "randrw", "rwmixread" : "70" },
      "read" : {
        "io_bytes" : 57344, "io_kbytes" : 56, "runtime" : 2, "total_ios" : 14,
        "clat_ns" : {
          "min" : 43605, "max" : 344281, "mean" : 105176.000000, "N" : 14,
          "percentile" : { "50.000000" : 75264 }, "bins" : { "43776" : 13, "346112" : 1 }
        },
        "lat_ns" : { "min" : 43685, "max" : 345062, "mean" : 105311.142857, "N" : 14 }
      },
      "write" : {
        "io_bytes" : 24576, "io_kbytes" : 24, "runtime" : 2, "total_ios" : 6,
        "clat_ns" : {
          "min" : 5208, "max" : 9214, "mean" : 6705.000000, "N" : 6,
          "percentile" : { "50.000000" : 6368, "99.000000" : 9152 }, "bins" : { "5216" : 5, "9152" : 1 }
        },
        "lat_ns" : { "min" : 5338, "max" : 9644, "mean" : 6908.666667, "N" : 6 }
      },
      "job_runtime" : 1,
      "usr_cpu" : 0.000000,
      "sys_cpu" : 0.000000
    },
    {
      "jobname" : "three",
      "groupid" : 1,
      "error" : 0,
      "elapsed" : 1,
      "job options" : {
        "name" : "three", "rw" : "write", "fsync" : "8", "numjobs" : "2", "group_reporting" : "1", "iodepth" : "8",
        "ioengine" : "libaio"
      },
      "write" : {
        "io_bytes" : 196608, "io_kbytes" : 192, "runtime" : 3, "total_ios" : 48,
        "clat_ns" : {
          "min" : 1352, "max" : 40590, "mean" : 6142.270833, "N" : 48, "percentile" : { "50.000000" : 4256, "99.000000" : 40704 }
        },
        "lat_ns" : { "min" : 1402, "max" : 41742, "mean" : 6261.562500, "N" : 48 }
      },
      "sync" : {
        "total_ios" : 4,
        "lat_ns" : { "min" : 234167, "max" : 1788184, "mean" : 690925.25, "N" : 4, "percentile" : { "99.000000" : 1794048 } }
      },
      "job_runtime" : 3,
      "usr_cpu" : -nan,
      "sys_cpu" : 0.000000
    }
  ],
  "disk_util" : [
    { "name" : "vda", "read_ios" : 34, "write_ios" : 4, "in_queue" : 12, "util" : 31.250000 }
  ]
}
"#;

fn runs(text: &str) -> Result<Vec<LoadRun>, Fault> {
    crate::testing::runs("fio", text.as_bytes(), &Options::default())
}

fn has_note(run: &LoadRun, part: &str) -> bool {
    run.notes.iter().any(|note| note.contains(part))
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-3 * expected.abs()
}

#[test]
fn jobs_of_a_group_are_one_run() {
    let found = runs(PLUS).unwrap();
    assert_eq!(found.len(), 2);
    let first = &found[0];
    assert_eq!((first.version.as_str(), first.line, first.label.as_str()), ("3.33", 2, "one, two"));
    assert_eq!((first.seconds, first.shape.clone()), (0.005, Some(Shape::closed(2))));
    let [read, write] = &first.intervals[..] else { panic!("{:?}", first.intervals) };
    assert_eq!((read.operation.as_str(), read.completed, read.bytes), ("read", 34, 139_264));
    assert_eq!((write.operation.as_str(), write.completed, write.bytes), ("write", 6, 24_576));
    assert_eq!((read.response.min, read.response.max), (0.042794, 2.913263));
    assert!(
        near(read.response.mean, (0.23532415 * 20.0 + 0.105311142857 * 14.0) / 34.0),
        "{:?}",
        read.response
    );
    assert!(near(read.response.p50, 0.043776), "{:?}", read.response);
    assert!(read.concurrency.is_nan());
    assert_eq!(first.histograms["read"].len(), 34);
    // One job only has writes: its percentiles are those of fio.
    assert_eq!((write.response.p50, write.response.p99), (0.006368, 0.009152));
    assert!(near(write.response.p95, 0.009152), "computed from the bins");
    for note in [
        "job two ended with error 5",
        "read: percentiles are of completion latency",
        "read: p50, p90, p95, p99, p999 are computed from the bins",
        "write: p90, p95, p999 are computed from the bins",
        "jobs ran for 0.002 s to 0.005 s",
        "the 2 jobs differ in read_percent",
    ] {
        assert!(has_note(first, note), "{note}: {:?}", first.notes);
    }
    assert_eq!(first.settings["workload.block_size"], Level::Bytes(4096));
    assert_eq!(first.settings["workload.access"], Level::Text("random".into()));
    assert_eq!(first.settings["workload.cache"], Level::Text("page-cache".into()));
    assert_eq!(first.settings["workload.threads"], Level::Count(2));
    assert_eq!(first.settings["workload.outstanding"], Level::Count(1));
    assert_eq!(first.settings["workload.files"], Level::List(vec![Level::Text("/data/f".into())]));
    assert!(!first.settings.contains_key("workload.read_percent"));
    assert_eq!(first.facts["fio.usr_cpu"], Level::Percent(8.0));
    assert_eq!(first.facts["fio.disk.vda.util"], Level::Percent(31.25));
    assert_eq!(first.facts["fio.option.number_ios"], Level::Text("(differs)".into()));
    let second = &found[1];
    assert_eq!(second.shape, Some(Shape::closed(16)));
    assert_eq!(second.settings["workload.threads"], Level::Count(2));
    assert_eq!(second.settings["workload.outstanding"], Level::Count(8));
    assert_eq!(second.facts["fio.sync.completed"], Level::Count(4));
    assert_eq!(second.facts["fio.sync.p99"], Level::Time(1_794_048));
    assert_eq!(second.facts["fio.option.fsync"], Level::Text("8".into()));
    assert!(!second.facts.contains_key("fio.usr_cpu"));
    assert!(second.histograms.is_empty() && second.intervals[0].response.p95.is_nan());
    // The report, less 3 ms of the second group and 5 ms of the first.
    assert_eq!(second.began_unix_ns, Some(1_795_708_333_475_000_000));
    assert_eq!(first.began_unix_ns, Some(1_795_708_333_470_000_000));
}

#[test]
fn units_are_those_of_the_version() {
    let job = |read: Value| json!({ "fio version": "fio-2.2.10", "jobs": [{ "jobname": "a", "groupid": 0, "error": 0, "read": read }] });
    let clat = json!({ "min": 3, "max": 900, "mean": 50.5, "percentile": { "50.000000": 40, "99.000000": 90, "0.00": 0 } });
    let lat = json!({ "min": 4, "max": 901, "mean": 51.5, "stddev": 1.0 });
    let zero = json!({ "min": 0, "max": 0, "mean": 0.0 });
    // Completed, bytes, minimum, median.
    for (read, expected, notes) in [
        (
            json!({ "io_bytes": 40, "bw": 4, "iops": 1.0, "runtime": 10000, "total_ios": 10, "clat": clat, "lat": lat }),
            (10, 40_960, 0.004, 0.04),
            vec!["percentiles are of completion latency"],
        ),
        (
            json!({ "io_bytes": 40960, "io_kbytes": 40, "runtime": 10000, "total_ios": 10, "clat": clat, "lat": zero }),
            (10, 40_960, 0.003, 0.04),
            vec!["response times are completion latency"],
        ),
        // fio 2.1 has no number of operations.
        (
            json!({ "io_bytes": 40, "bw": 4, "iops": 3, "runtime": 10000, "clat": clat, "lat": lat }),
            (30, 40_960, 0.004, 0.04),
            vec!["operations are computed from their rate", "percentiles are of completion latency"],
        ),
        (
            json!({ "io_bytes": 40960, "io_kbytes": 40, "runtime": 10000, "total_ios": 10,
                    "clat_ns": { "min": 1, "max": 2, "mean": 1.5, "N": 10, "percentile": { "50.000000": 1 } },
                    "lat_ns": { "min": 4000, "max": 5000, "mean": 4500.0, "N": 10, "percentile": { "50.000000": 4100 } } }),
            (10, 40_960, 0.004, 0.0041),
            vec![],
        ),
    ] {
        let found = runs(&format!("{:#}", job(read))).unwrap();
        let interval = &found[0].intervals[0];
        let times = interval.response;
        assert_eq!((interval.completed, interval.bytes, times.min, times.p50), expected);
        assert!(times.p95.is_nan());
        assert_eq!((found[0].shape.clone(), found[0].began_unix_ns), (None, None));
        for note in &notes {
            assert!(has_note(&found[0], note), "{note}: {:?}", found[0].notes);
        }
        assert_eq!(found[0].notes.len(), notes.len(), "{:?}", found[0].notes);
    }
}

#[test]
fn jobs_without_times_or_bins_have_no_percentiles() {
    let job = |name: &str| {
        json!({ "jobname": name, "groupid": 0, "error": 0, "job_start": 1_700_000_000_000_u64,
                "job options": { "ramp_time": "2s", "iodepth": "4", "numjobs": "2" },
                "iodepth_level": { "1": 100.0 }, "total_err": 3, "first_error": 5,
                "write": { "io_bytes": 4096, "io_kbytes": 4, "runtime": 1000, "total_ios": 5,
                           "clat_ns": { "min": 1, "max": 2, "mean": 1.0, "N": 1, "percentile": { "50.000000": 1 } } } })
    };
    let found =
        runs(&json!({ "fio version": "fio-3.36", "jobs": [job("a"), job("a")] }).to_string()).unwrap();
    let run = &found[0];
    assert_eq!(run.shape, Some(Shape::closed(2)));
    assert_eq!(run.settings["workload.threads"], Level::Count(2));
    assert_eq!(run.began_unix_ns, Some(1_700_000_002_000_000_000));
    assert_eq!((run.intervals[0].completed, run.intervals[0].failed), (10, 6));
    assert!(run.intervals[0].response.p50.is_nan() && !run.intervals[0].response.mean.is_nan());
    assert!(has_note(run, "percentiles of 2 jobs cannot be combined"), "{:?}", run.notes);
    assert!(has_note(run, "iodepth 4 had no effect"), "{:?}", run.notes);
}

#[test]
fn clients_of_a_server_are_one_run() {
    let job = |name: &str, host: &str| {
        json!({ "jobname": name, "groupid": 0, "hostname": host, "port": 8765,
                "write": { "io_bytes": 4096, "io_kbytes": 4, "runtime": 1000, "total_ios": 5 } })
    };
    let root = json!({ "fio version": "fio-3.33",
        "global options": [{ "hostname": "a", "port": 8765, "bs": "8k" }, { "hostname": "b", "port": 8765, "bs": "8k" }],
        "client_stats": [job("j", "a"), job("j", "b"), job("All clients", "a")] });
    let found = runs(&root.to_string()).unwrap();
    assert_eq!((found.len(), found[0].intervals[0].completed), (1, 10));
    assert_eq!(found[0].settings["workload.block_size"], Level::Bytes(8192));
    assert_eq!(found[0].settings["workload.threads"], Level::Count(2));
}

#[test]
fn mixed_operations_are_used_where_they_are_alone() {
    let part = json!({ "io_bytes": 4096, "io_kbytes": 4, "runtime": 1000, "total_ios": 5 });
    for (job, expected) in [
        (json!({ "jobname": "a", "mixed": part }), vec!["mixed"]),
        (json!({ "jobname": "a", "mixed": part, "read": part, "trim": part }), vec!["read", "trim"]),
    ] {
        let found = runs(&json!({ "fio version": "fio-3.33", "jobs": [job] }).to_string()).unwrap();
        let names: Vec<&str> = found[0].intervals.iter().map(|of| of.operation.as_str()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn the_last_report_of_a_run_is_used() {
    let report = |end_ms: u64, elapsed: u64, count: u64, name: &str| {
        let job = json!({ "jobname": name, "groupid": 0, "elapsed": elapsed,
            "read": { "io_bytes": 4096 * count, "io_kbytes": 4 * count, "runtime": 1000, "total_ios": count } });
        json!({ "fio version": "fio-3.33", "timestamp_ms": end_ms, "jobs": [job] }).to_string()
    };
    let begin = 1_700_000_000_000;
    for (reports, expected) in [
        (
            vec![
                report(begin + 1000, 1, 5, "a"),
                report(begin + 2000, 2, 9, "a"),
                report(begin + 3000, 3, 9, "a"),
            ],
            vec![9],
        ),
        // Another run with the same jobs.
        (vec![report(begin + 1000, 1, 5, "a"), report(begin + 9000, 1, 6, "a")], vec![5, 6]),
        (vec![report(begin + 1000, 1, 5, "a"), report(begin + 1000, 1, 6, "b")], vec![5, 6]),
        (vec![report(begin + 1000, 1, 5, "a"), report(begin + 1000, 1, 4, "a")], vec![5, 4]),
    ] {
        let found = runs(&reports.join("\n")).unwrap();
        let counts: Vec<u64> = found.iter().map(|run| run.intervals[0].completed).collect();
        assert_eq!(counts, expected);
        assert_eq!(has_note(&found[0], "the last of 3 reports"), expected.len() == 1, "{:?}", found[0].notes);
    }
}

#[test]
fn what_is_whole_of_a_cut_file_is_used() {
    let at = PLUS.find("\"jobname\" : \"three\"").unwrap();
    let found = runs(&PLUS[..at]).unwrap();
    assert_eq!((found.len(), found[0].intervals[0].completed), (1, 34));
    assert!(has_note(&found[0], "the document of line 2 is cut"), "{:?}", found[0].notes);
    let cut = &PLUS[..PLUS.find("\"error\"").unwrap()];
    assert_eq!(runs(cut).unwrap_err().to_string(), "line 2: the document that begins here has no end");
    let found = runs(&format!("{PLUS}{}", cut.trim_start_matches("fio: a message\n"))).unwrap();
    assert_eq!(found.len(), 2);
    assert!(
        has_note(&found[0], "left out: line 111: the document that begins here has no end"),
        "{:?}",
        found[0].notes
    );
}

#[test]
fn jobs_without_operations_are_named() {
    let failed = json!({ "jobname": "a", "groupid": 0, "error": 2, "read": { "total_ios": 0 } });
    let fault = runs(&json!({ "fio version": "fio-3.33", "jobs": [failed] }).to_string()).unwrap_err();
    assert!(fault.what.ends_with("operation: job a ended with error 2 (errno)"), "{fault}");
    let fault = runs(&json!({ "fio version": "fio-3.33", "jobs": [] }).to_string()).unwrap_err();
    assert!(fault.what.contains("completed an operation"), "{fault}");
}

proptest::proptest! {
    #[test]
    fn no_cut_or_change_is_a_panic(at in 0..PLUS.len(), change in "[-{}\\[\\]\",:0-9a-z]{0,20}", cut in 0..200_usize) {
        let end = (at + cut).min(PLUS.len());
        if let (Some(begin), Some(rest)) = (PLUS.get(..at), PLUS.get(end..)) {
            let _ = runs(&format!("{begin}{change}{rest}"));
            let _ = open(Box::new(std::io::Cursor::new(begin.as_bytes().to_vec())), &Options::default());
        }
    }
}
