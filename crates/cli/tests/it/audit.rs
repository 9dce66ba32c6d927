//! `plimsoll audit`: planted flaws in outputs of real tools, which are right without them; and published figures.

use std::fs;

use serde_json::Value;

use crate::{Place, run};

const FIO: &str = include_str!("audit/fio.json");
const WRK: &str = include_str!("audit/wrk.txt");
const SQLIO: &str = include_str!("../../../../examples/import/sqlio.txt");
const PUBLISHED: &str = include_str!("../../../../examples/audit/published.toml");
const TABLE: &str = "Test,Block size,Threads,Queue depth,Duration,Requests,Errors,IOPS,MB/s,Avg latency (ms),p99 (ms),Max (ms)
first,8 KB,2,4,60 s,720180,0,12003.00,93.77,0.664,2.13,19.48
second,64 KB,1,8,60 s,192048,12,3200.80,200.05,2.497,6.02,31.25
";

/// A log of JMeter: each second, this many requests of one user that take this long, in milliseconds.
fn jtl(seconds: &[(u64, u64)]) -> String {
    let mut text = String::from(
        "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,grpThreads,allThreads,Latency\n",
    );
    for (second, (count, ms)) in (0_u64..).zip(seconds) {
        for at in 0..*count {
            let begin = 1_795_717_139_000 + 1000 * second + at * 1000 / count;
            text.push_str(&format!("{begin},{ms},home,200,OK,Users 1-1,true,512,1,1,{ms}\n"));
        }
    }
    text
}

/// The kinds of what was found in a file, each once, with its exit code.
fn kinds(place: &Place, name: &str, text: &str, more: &[&str]) -> (Vec<String>, i32, Value) {
    fs::write(place.path(name), text).unwrap();
    let mut arguments = vec!["audit", name, "--json"];
    arguments.extend(more);
    let ran = run(place, &arguments);
    let document: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{name}: {} {}", ran.out, ran.err));
    let kind = |found: &Value| match &found["kind"] {
        Value::String(kind) => kind.clone(),
        other => other.as_object().and_then(|kind| kind.keys().next().cloned()).unwrap_or_default(),
    };
    let mut kinds: Vec<String> = document["findings"].as_array().unwrap().iter().map(kind).collect();
    kinds.sort();
    kinds.dedup();
    (kinds, ran.code, document)
}

#[test]
fn results_that_are_right_have_no_finding() {
    let place = Place::new("audit-right");
    let steady = jtl(&[(50, 18); 60]);
    for (name, text) in [
        ("fio.json", FIO),
        ("wrk.txt", WRK),
        ("sqlio.txt", SQLIO),
        ("table.csv", TABLE),
        ("steady.jtl", &steady),
    ] {
        let (kinds, code, document) = kinds(&place, name, text, &[]);
        assert!(kinds.is_empty() && code == 0, "{name}: {document:#}");
        assert!(document["figures"].as_u64() > Some(8), "{name}: {document:#}");
    }
}

#[test]
fn each_planted_flaw_is_found() {
    let place = Place::new("audit-planted");
    // What is replaced, by what, and what must be found.
    type Planted<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str);
    let planted: &[Planted] = &[
        (FIO, "rate ten times as high", &[("\"iops\" : 13285.892842", "\"iops\" : 132858.92842")], "count"),
        (FIO, "half of the run time", &[("\"runtime\" : 12001", "\"runtime\" : 6001")], "count"),
        (
            FIO,
            "one operation in ten left out",
            &[("\"total_ios\" : 159444", "\"total_ios\" : 143500")],
            "count",
        ),
        (FIO, "bytes of another block size", &[("\"bw\" : 106287", "\"bw\" : 425148")], "throughput"),
        (FIO, "another block size", &[("\"bs\" : \"8k\"", "\"bs\" : \"4k\"")], "throughput"),
        (
            FIO,
            "three times as long on the mean",
            &[("\"mean\" : 74767.631695", "\"mean\" : 224302.895085")],
            "more_in_flight",
        ),
        (
            FIO,
            "a depth that was never reached",
            &[("\"iodepth\" : \"1\"", "\"iodepth\" : \"8\""), ("\"1\" : 100.0", "\"8\" : 100.0")],
            "less_in_flight",
        ),
        (FIO, "p90 above p99", &[("\"90.000000\" : 47360", "\"90.000000\" : 347360")], "order"),
        (FIO, "a mean without the slow ones", &[("\"mean\" : 74767.631695", "\"mean\" : 36000.0")], "mean"),
        (SQLIO, "another rate", &[("IOs/sec:   225.80", "IOs/sec:   451.60")], "throughput"),
        (SQLIO, "kB for MB", &[("MBs/sec:     1.76", "MBs/sec:     1800.00")], "throughput"),
        (
            SQLIO,
            "latencies of four in flight",
            &[("Avg_Latency(ms): 3", "Avg_Latency(ms): 17")],
            "more_in_flight",
        ),
        (SQLIO, "a column left out", &[(" 31 23", "  0 23")], "shares"),
        (SQLIO, "the mean of another run", &[("Avg_Latency(ms): 3", "Avg_Latency(ms): 1")], "histogram_mean"),
        (
            SQLIO,
            "a run that was copied",
            &[
                ("220.39", "225.80"),
                ("3.44", "3.53"),
                ("Avg_Latency(ms): 4", "Avg_Latency(ms): 3"),
                ("Max_Latency(ms): 120", "Max_Latency(ms): 111"),
            ],
            "identical",
        ),
        (WRK, "another number of requests", &[("598141 requests", "1196282 requests")], "count"),
        (WRK, "p99 below p90", &[("99%    9.83ms", "99%    1.83ms")], "order"),
        (WRK, "a mean below the median's share", &[("Latency     0.95ms", "Latency     0.04ms")], "mean"),
        (TABLE, "throughput of another row", &[("93.77", "200.05")], "throughput"),
        (TABLE, "a time for more in flight", &[("0.664", "1.664")], "more_in_flight"),
        (TABLE, "idle users", &[("8 KB,2,4", "8 KB,2,32")], "less_in_flight"),
        (TABLE, "more errors than requests", &[(",12,3200", ",512000,3200")], "failed"),
        (TABLE, "p99 above the maximum", &[("6.02", "36.02")], "order"),
        (
            TABLE,
            "a row that was copied",
            &[(
                "64 KB,1,8,60 s,192048,12,3200.80,200.05,2.497,6.02,31.25",
                "16 KB,2,4,60 s,720180,0,12003.00,187.55,0.664,2.13,19.48",
            )],
            "identical",
        ),
        (TABLE, "a percentile of few", &[("60 s,720180", "60 ms,720"), (",2.13,", ",2.13,")], "few_samples"),
    ];
    assert!(planted.len() >= 20);
    for (text, what, replaced, expected) in planted {
        let mut flawed = text.to_string();
        for (from, to) in *replaced {
            assert!(flawed.contains(from), "{what}: {from}");
            flawed = flawed.replace(from, to);
        }
        let (kinds, code, document) = kinds(&place, "flawed", &flawed, &[]);
        assert!(kinds.iter().any(|kind| kind == expected), "{what}: {kinds:?} {document:#}");
        let severity = if matches!(*expected, "less_in_flight" | "few_samples") { 98 } else { 99 };
        assert!(code >= severity, "{what}: {code}");
    }
}

#[test]
fn what_a_course_shows_is_found() {
    let place = Place::new("audit-course");
    let mut cold = vec![(10, 80); 12];
    cold.extend([(50, 18); 60]);
    let mut stalled = vec![(50, 18); 30];
    stalled.extend([(0, 0); 3]);
    stalled.extend([(50, 18); 30]);
    // In its third second, the one request takes two.
    let mut waited = vec![(50, 18); 60];
    waited[30] = (1, 2000);
    waited[31] = (0, 0);
    for (name, seconds, expected) in [
        ("a warm-up", cold, "warm_up"),
        ("a stall", stalled, "stall"),
        ("hidden waiting", waited, "hidden_waiting"),
        ("a short run", vec![(50, 18); 5], "short"),
    ] {
        let (kinds, code, document) = kinds(&place, "course.jtl", &jtl(&seconds), &[]);
        assert!(kinds.iter().any(|kind| kind == expected), "{name}: {kinds:?} {document:#}");
        assert_eq!(code, 98, "{name}");
    }
}

#[test]
fn a_limit_that_the_user_names_holds() {
    let place = Place::new("audit-limit");
    let (kinds_found, code, document) =
        kinds(&place, "table.csv", TABLE, &["--limit", "1Gbit/s", "--limit", "140/s"]);
    assert_eq!((kinds_found, code), (vec!["limit".to_string()], 99));
    let text = document["findings"][0]["text"].as_str().unwrap();
    assert_eq!(text, "12003.00/s is above the limit of 140/s.");
    // 200 MB/s do not fit on a link of 1 Gbit/s, 93.77 MB/s do.
    let on_link = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| found["text"].as_str().unwrap().contains("1Gbit/s"));
    assert_eq!(on_link.count(), 1, "{document:#}");
    let refused = run(&place, &["audit", "table.csv", "--limit", "fast"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("such as 140/s or 118MB/s"), "{}", refused.err);
}

#[test]
fn contradictions_of_published_figures_are_found_and_rounding_is_none() {
    let place = Place::new("audit-published");
    let (_, code, document) = kinds(&place, "published.toml", PUBLISHED, &[]);
    assert_eq!(code, 99);
    let found: Vec<(&str, &str)> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["of"].as_str().unwrap(), found["kind"].as_str().unwrap()))
        .collect();
    let expected = [
        ("initial load, configuration 1", "count"),
        ("initial load, configuration 2", "count"),
        ("initial load, configuration 2", "ceiling"),
        ("initial load, configuration 2", "times_faster"),
        ("internal disks", "differs"),
        ("shared content store, first launch", "half_range"),
        ("shared content store, cached", "half_range"),
        ("local disk, cached", "half_range"),
        ("share, 64 KB", "equal_in_flight"),
        ("10 TB to single parity", "data"),
        ("10 TB to single parity", "differs"),
        ("single parity", "differs"),
        ("1 GB to single parity", "differs"),
        ("single parity, cache full", "percent_slower"),
        ("volumes on the RAID 10", "differs"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn files_without_a_result_say_what_they_are() {
    let place = Place::new("audit-refused");
    for (name, text, expected) in [
        (
            "counters.txt",
            "Linux 6.1 (db1) \t11/26/26 \t_x86_64_\t(2 CPU)\n\n12:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n12:00:02 AM     all      1.00      0.00      1.00      0.00      0.00     98.00\n",
            "has counters and no load",
        ),
        ("text.txt", "nothing\n", "the format is not known"),
        (
            "bad.toml",
            "[[figures]]\nname = \"a\"\nrate = \"fast\"\nmeans = \"3 ms\"\nmax = \"3\"\n",
            "bad.toml:3: `fast` is not a rate",
        ),
    ] {
        fs::write(place.path(name), text).unwrap();
        let ran = run(&place, &["audit", name]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.out);
        assert!(ran.err.contains(expected), "{name}: {}", ran.err);
        if name == "bad.toml" {
            assert!(
                ran.err.contains("line 4: `means` is not known") && ran.err.contains("line 5: "),
                "{}",
                ran.err
            );
        }
    }
    let missing = run(&place, &["audit", "nowhere"]);
    assert_eq!(missing.code, 2, "{}", missing.err);
    // What has figures alone is nothing to record.
    fs::write(place.path("table.csv"), TABLE).unwrap();
    let import = run(&place, &["import", "table.csv"]);
    assert_eq!(import.code, 2, "{}", import.out);
    assert!(import.err.contains("plimsoll audit table.csv"), "{}", import.err);
}
