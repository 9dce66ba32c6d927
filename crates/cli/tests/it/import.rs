//! `plimsoll import`: files of other tools, as their users have them.

use std::fs;

use crate::program::{Finished, command};
use crate::{Place, run};

/// One run of SQLIO.
pub(crate) fn sqlio(block_kib: u64, rate_per_s: f64) -> String {
    format!(
        "sqlio v1.5.SG\r\nusing system counter for latency timings, 2143535 counts per second\r\n\
         parameter file used: param.txt\r\n\tfile d:\\test.dat with 1 thread (0) using mask 0x0 (0)\r\n\
         1 thread writing for 120 secs to file d:\\test.dat\r\n\tusing {block_kib}KB random IOs\r\n\
         \tbuffering set to use hardware disk cache (but not file cache)\r\n\
         using specified size: 20000 MB for file: d:\\test.dat\r\ninitialization done\r\nCUMULATIVE DATA:\r\n\
         throughput metrics:\r\nIOs/sec:   {rate_per_s:.2}\r\nMBs/sec:     1.76\r\nlatency metrics:\r\n\
         Min_Latency(ms): 0\r\nAvg_Latency(ms): 4\r\nMax_Latency(ms): 111\r\n"
    )
}

/// A log of the server, whose disk always has a write.
fn server() -> String {
    let mut text = String::from(
        "\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\DB1\\Processor(_Total)\\% Processor Time\",\
         \"\\\\DB1\\PhysicalDisk(0 C:)\\Disk Writes/sec\",\"\\\\DB1\\PhysicalDisk(0 C:)\\Avg. Disk sec/Write\",\
         \"\\\\DB1\\PhysicalDisk(0 C:)\\Avg. Disk Queue Length\",\"\\\\DB1\\Memory\\Available MBytes\"\r\n",
    );
    for at in 0..60 {
        let (minute, second) = (at * 5 / 60, at * 5 % 60);
        let values =
            if at == 0 { "\" \",\" \",\" \",\" \"" } else { "\"12.5\",\"225.8\",\"0.0044\",\"0.98\"" };
        text.push_str(&format!("\"11/26/2014 12:{minute:02}:{second:02}.000\",{values},\"3000\"\r\n"));
    }
    text
}

#[test]
fn runs_of_sqlio_with_the_counters_of_their_server_have_a_curve_and_a_limit() {
    let place = Place::new("import");
    fs::write(place.path("sqlio.txt"), format!("{}pause\r\n{}", sqlio(8, 225.8), sqlio(64, 192.85))).unwrap();
    fs::write(place.path("server.csv"), server()).unwrap();
    let alone = run(&place, &["import", "sqlio.txt", "--run-dir", "alone"]);
    assert_eq!(alone.code, 0, "{} {}", alone.out, alone.err);
    for expected in
        ["by block size", "226", "Another tool measured, and no counters", "plimsoll import RESULT COUNTERS"]
    {
        assert!(alone.out.contains(expected), "{expected}: {}", alone.out);
    }
    // What no other tool counts is not there, rather than zero.
    assert!(!alone.out.contains("1970") && !alone.out.contains("--prove"), "{}", alone.out);
    let json = run(&place, &["show", "alone", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let operation = &document["trials"][0]["operations"][0];
    assert_eq!(document["origin"], "imported");
    assert!(operation["offered"].is_null() && operation["response_ms"]["p99"].is_null(), "{operation}");
    assert_eq!(operation["response_ms"]["mean"], 4.0);

    let both = ["import", "sqlio.txt", "server.csv", "--run-dir", "both"];
    let refused = run(&place, &both);
    assert_eq!(refused.code, 2, "{}", refused.out);
    assert!(refused.err.contains("add --begin TIME"), "{}", refused.err);
    assert!(!place.path("both").exists());
    let joined = run(&place, &[&both[..], &["--begin", "2014-11-26T11:00:00Z"]].concat());
    assert_eq!(joined.code, 0, "{} {}", joined.out, joined.err);
    for expected in ["latency of 0 C:", "Latency-bound", "Not confirmed by experiment: another tool"] {
        assert!(joined.out.contains(expected), "{expected}: {}", joined.out);
    }
    for command in [
        &["explain", "both"][..],
        &["report", "both"],
        &["export", "both", "--format", "csv"],
        &["compare", "alone:baseline", "both:baseline"],
    ] {
        let done = run(&place, command);
        assert_eq!(done.code, 0, "{command:?} {} {}", done.out, done.err);
    }
}

#[test]
fn a_log_of_counters_is_a_record_and_what_is_wrong_has_its_line() {
    let place = Place::new("import-log");
    let log = format!("{}\"11/26/2014 12:30:00.000\",\"x\",\"1\",\"1\",\"1\",\"1\"\r\n", server());
    fs::write(place.path("server.csv"), log).unwrap();
    let done = run(&place, &["import", "server.csv", "--run-dir", "r"]);
    assert_eq!(done.code, 0, "{} {}", done.out, done.err);
    assert!(done.out.contains("CPU busy") && done.out.contains("2014-11-26 11:00 UTC"), "{}", done.out);
    assert!(done.err.contains("server.csv: line 62: a value is no number"), "{}", done.err);
    for (name, text, expected) in [
        ("none.txt", "hello\n", "error: none.txt: the format is not known"),
        ("empty.txt", "", "error: empty.txt: the file is empty"),
        ("cut.txt", "sqlio v1.5.SG\r\n", "error: cut.txt:1: the run that begins here has no IOs/sec"),
    ] {
        fs::write(place.path(name), text).unwrap();
        let done = run(&place, &["import", name, "--run-dir", "x"]);
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains(expected), "{}", done.err);
        assert!(!place.path("x").exists());
    }
    let all = run(&place, &["import", "none.txt", "absent.txt"]);
    assert!(all.err.contains("2 mistakes, nothing was imported"), "{}", all.err);
    assert!(run(&place, &["import", "--formats"]).out.contains("perfmon-csv"));
}

/// A log of two servers, of which DB1 has busy CPUs.
fn two_servers() -> String {
    let counters = [r"Processor(_Total)\% Processor Time", r"PhysicalDisk(0 C:)\Avg. Disk Queue Length"];
    let columns =
        ["DB1", "WEB1"].into_iter().flat_map(|host| counters.map(|of| format!(r#","\\{host}\{of}""#)));
    let mut text = format!("\"(PDH-CSV 4.0) (UTC)(0)\"{}\r\n", columns.collect::<String>());
    for second in 0..30 {
        text += &format!("\"11/26/2014 11:00:{second:02}.000\",\"97.5\",\"0.3\",\"12.0\",\"0.1\"\r\n");
    }
    text
}

/// Requests of six users from 11:00 UTC on.
fn requests() -> String {
    let line = |at: u64| {
        format!(
            "{},{},A,200,OK,T 1-{},true,1000,6,6,200\n",
            1_416_999_600_000 + at * 50,
            290 + at % 20,
            at % 6
        )
    };
    let head = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,grpThreads,allThreads,Latency\n";
    (0..560).map(line).fold(head.to_string(), |text, line| text + &line)
}

#[test]
fn counters_of_several_hosts_are_judged_each_on_its_own() {
    let place = Place::new("import-hosts");
    fs::write(place.path("servers.csv"), two_servers()).unwrap();
    fs::write(place.path("load.jtl"), requests()).unwrap();
    let both = run(&place, &["import", "load.jtl", "servers.csv", "--run-dir", "both"]);
    assert_eq!(both.code, 0, "{} {}", both.out, both.err);
    assert!(both.err.contains("load.jtl does not say which of them ran the load"), "{}", both.err);
    for expected in ["The CPUs of DB1 were the limit: 98 % busy.", "WEB1: CPU busy"] {
        assert!(both.out.contains(expected), "{expected}: {}", both.out);
    }
    let named = run(&place, &["import", "web1.example.org=load.jtl", "servers.csv", "--run-dir", "named"]);
    assert!(named.err.contains("web1.example.org ran the load"), "{}", named.err);
    assert!(named.out.contains(" CPU busy") && !named.out.contains("WEB1: "), "{}", named.out);
    assert!(named.out.contains("The CPUs of DB1 were the limit"), "{}", named.out);
    // One name for counters of two hosts.
    let wrong = run(&place, &["import", "db2=servers.csv", "--run-dir", "wrong"]);
    assert_eq!(wrong.code, 2, "{}", wrong.out);
    assert!(wrong.err.contains("counters of several hosts (DB1, WEB1)"), "{}", wrong.err);
    // A single host is that of the load, as no other is known.
    let one = two_servers().replace("WEB1", "DB1").replace("Processor(_Total)", "Processor(0)");
    fs::write(place.path("one.csv"), one).unwrap();
    let one = run(&place, &["import", "load.jtl", "one.csv", "--run-dir", "one"]);
    assert!(!one.out.contains("DB1") && one.out.contains("CPU 0 busy"), "{}", one.out);
}

/// Snapshots of node_exporter, one each second from 11:00 UTC on.
fn snapshots(nodename: &str, busy_share: f64) -> String {
    let one = |at: u32| {
        let (time, busy) = (f64::from(at), f64::from(at) * busy_share);
        let uname = match nodename {
            "" => String::new(),
            name => format!("node_uname_info{{nodename=\"{name}\"}} 1\n"),
        };
        format!(
            "# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total{{cpu=\"0\",mode=\"user\"}} {busy}\n\
             node_cpu_seconds_total{{cpu=\"0\",mode=\"idle\"}} {}\n# TYPE app_jobs counter\n\
             app_jobs_total{{queue=\"a\"}} {}\n{uname}node_time_seconds {}\n",
            time - busy,
            40 * at,
            1_416_999_600 + at,
        )
    };
    (0..30).map(one).collect()
}

#[test]
fn text_of_exporters_has_our_metrics_and_rates() {
    let place = Place::new("import-exporters");
    fs::write(place.path("load.jtl"), requests()).unwrap();
    fs::write(place.path("a.prom"), snapshots("db1", 0.98)).unwrap();
    fs::write(place.path("b.prom"), snapshots("", 0.1)).unwrap();
    let done = run(&place, &["import", "load.jtl", "a.prom", "web1=b.prom", "--run-dir", "r"]);
    assert_eq!(done.code, 0, "{} {}", done.out, done.err);
    assert!(done.out.contains("The CPUs of db1 were the limit: 98 % busy."), "{}", done.out);
    // Counters are rates, also those under their own names.
    let log = run(&place, &["export", "r", "--format", "openmetrics"]);
    let last = |name: &str| {
        let line = log.out.lines().rev().find(|line| line.starts_with(name) && line.contains("//db1"));
        line.unwrap_or_else(|| panic!("{name}: {}", log.out)).to_string()
    };
    let value = |line: &str| line.rsplit(' ').nth(1).and_then(|text| text.parse::<f64>().ok()).unwrap();
    assert!(
        (value(&last("plimsoll_app_jobs_total_per_second")) - 40.0).abs() < 1e-6,
        "{}",
        last("plimsoll_app_jobs_total_per_second")
    );
    // Without a name, it is that of the only host that has one; two files without are not one host.
    let adopted = run(&place, &["import", "load.jtl", "a.prom", "b.prom", "--run-dir", "adopted"]);
    assert!(adopted.err.contains("b.prom does not name its host"), "{}", adopted.err);
    fs::write(place.path("c.prom"), snapshots("", 0.2)).unwrap();
    let mixed = run(&place, &["import", "load.jtl", "b.prom", "c.prom", "--run-dir", "mixed"]);
    assert_eq!(mixed.code, 2, "{} {}", mixed.out, mixed.err);
    assert!(mixed.err.contains("b.prom and c.prom have the same counters at the same time"), "{}", mixed.err);
    assert!(!place.path("mixed").exists());
}

/// Requests with a rate that changes each second, from 11:00 UTC on; and the log of a server that follows them on a clock that is
/// `ahead_s` ahead.
fn followed(ahead_s: i64) -> (String, String) {
    let rate = |second: i64| match second {
        0..120 => 5 + (second * second * 7 + second * 13) % 37,
        _ => 0,
    };
    let mut requests = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,grpThreads,allThreads,Latency\n".to_string();
    let mut log =
        "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\DB1\\PhysicalDisk(0 C:)\\Disk Transfers/sec\"\r\n".to_string();
    for second in -60..180 {
        let begin_ms = 1_416_999_600_000 + second * 1000;
        for at in 0..rate(second) {
            requests += &format!("{},5,A,200,OK,T 1-1,true,1000,6,6,2\n", begin_ms + at * 20);
        }
        // A sample has the second before it.
        let of_day = 11 * 3600 + second + 1 + ahead_s;
        let (hour, minute, second_of) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        log += &format!(
            "\"11/26/2014 {hour:02}:{minute:02}:{second_of:02}.000\",\"{}\"\r\n",
            3 * rate(second) + 2
        );
    }
    (requests, log)
}

#[test]
fn a_clock_that_is_wrong_is_reported_and_is_corrected_only_as_given() {
    let place = Place::new("import-clock");
    let (requests, log) = followed(3612);
    fs::write(place.path("load.jtl"), requests).unwrap();
    fs::write(place.path("server.csv"), log).unwrap();
    let import = ["import", "load.jtl", "server.csv", "--run-dir"];
    let wrong = run(&place, &[&import[..], &["wrong"]].concat());
    assert_eq!(wrong.code, 2, "{} {}", wrong.out, wrong.err);
    let said = wrong.err.split_whitespace().collect::<Vec<&str>>().join(" ");
    for expected in [
        "probably 3612 s ahead of that of the load",
        "--clock-offset server.csv=-3612",
        "no counter was logged while the load ran",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!place.path("wrong").exists());
    let right = run(&place, &[&import[..], &["right", "--clock-offset", "server.csv=-3612"]].concat());
    assert_eq!(right.code, 0, "{} {}", right.out, right.err);
    assert!(
        right.err.contains("-3612 s were added to its times") && !right.err.contains("probably"),
        "{}",
        right.err
    );
    for (given, expected) in [
        ("x.csv=1", "no file of this name"),
        ("server.csv", "write FILE=SECONDS"),
        ("server.csv=x", "write FILE=SECONDS"),
    ] {
        let done = run(&place, &[&import[..], &["x", "--clock-offset", given]].concat());
        assert_eq!(done.code, 2, "{given}: {}", done.out);
        assert!(done.err.contains(expected), "{given}: {}", done.err);
    }
    // The same clock: nothing is to be said.
    let (_, log) = followed(0);
    fs::write(place.path("server.csv"), log).unwrap();
    let same = run(&place, &[&import[..], &["same"]].concat());
    assert!(same.code == 0 && !same.err.contains("clock"), "{} {}", same.out, same.err);
}

#[test]
fn logs_of_fio_are_the_course_of_its_run() {
    let place = Place::new("import-fio-logs");
    let lacks = testkit::lacks(testkit::Need::Program("fio"));
    if lacks {
        return;
    }
    let fio = std::process::Command::new("fio")
        .args([
            "--name=a",
            "--filename=data",
            "--size=4m",
            "--rw=randrw",
            "--bs=4k",
            "--ioengine=psync",
            "--numjobs=2",
        ])
        .args([
            "--time_based",
            "--runtime=3",
            "--log_avg_msec=250",
            "--write_bw_log=a",
            "--write_iops_log=a",
            "--write_lat_log=a",
        ])
        .args(["--output-format=json+", "--output=a.json"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(fio.status.success(), "{}", String::from_utf8_lossy(&fio.stderr));
    let logs = ["a_bw.1.log", "a_bw.2.log", "a_iops.1.log", "a_iops.2.log", "a_lat.1.log", "a_lat.2.log"];
    let alone = run(&place, &["import", "a.json", "--run-dir", "alone", "--json"]);
    let beside = run(&place, &[&["import", "a.json", "--run-dir", "beside", "--json"], &logs[..]].concat());
    assert_eq!((alone.code, beside.code), (0, 0), "{} {}", alone.err, beside.err);
    let total = |text: &str| {
        let document: serde_json::Value = serde_json::from_str(text).unwrap();
        let of = &document["trials"][0]["operations"];
        let names =
            of.as_array().unwrap().iter().map(|of| (of["name"].clone(), of["completed"].as_u64().unwrap()));
        names.collect::<Vec<_>>()
    };
    let (one, other) = (total(&alone.out), total(&beside.out));
    assert_eq!(one.len(), other.len());
    for ((name, whole), (_, course)) in one.iter().zip(&other) {
        // Means of windows are rounded.
        assert!((*course as f64 / *whole as f64 - 1.0).abs() < 0.05, "{name}: {whole} {course}");
    }
    let intervals = fs::read_dir(place.path("beside/trials")).unwrap().next().unwrap().unwrap().path();
    let rows = fs::read_to_string(intervals.join("intervals.csv")).unwrap().lines().count();
    assert!(rows > 15, "{rows}");
    let renamed = place.path("other.log");
    fs::rename(place.path("a_bw.1.log"), renamed).unwrap();
    let refused = run(&place, &["import", "other.log", "--run-dir", "x"]);
    assert!(refused.code == 2 && refused.err.contains("PREFIX_bw.1.log"), "{}", refused.err);
}

/// The files of one run are open at a time, however many runs a file has, or however many files there are.
#[test]
fn many_runs_need_no_more_open_files_than_one() {
    let run_of = |connections: usize| {
        format!(
            "Running 30s test @ http://127.0.0.1:8080/\n  2 threads and {connections} connections\n  \
             Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   635.91us    0.89ms  12.92ms   93.69%\n    \
             Req/Sec    56.20k     8.07k   62.00k    86.54%\n  22464657 requests in 30.00s, 17.76GB read\n\
             Requests/sec: 748868.53\nTransfer/sec:    606.33MB\n\n"
        )
    };
    let place = Place::new("import-many");
    let names: Vec<String> = (1..=120).map(|number| format!("{number}.txt")).collect();
    for (name, connections) in names.iter().zip(1..) {
        std::fs::write(place.path(name), run_of(connections)).unwrap();
    }
    std::fs::write(place.path("wrk.txt"), (1..=200).map(run_of).collect::<String>()).unwrap();
    for (files, runs) in [(&["wrk.txt".to_string()][..], 200), (&names, 120)] {
        let folder = format!("r{runs}");
        let import = command(&place, &["import", "--run-dir", &folder]);
        let mut limited = std::process::Command::new("sh");
        limited
            .args(["-c", "ulimit -n 40 && exec \"$0\" \"$@\""])
            .arg(import.get_program())
            .args(import.get_args())
            .args(files)
            .current_dir(place.path(""))
            .env("PLIMSOLL_STATE_DIR", place.path("state"));
        let done = Finished::of(limited);
        assert!(done.measured(), "{}", done.err);
        assert_eq!(std::fs::read_dir(place.path(&folder).join("trials")).unwrap().count(), runs);
    }
}

#[test]
fn of_several_imports_into_one_directory_one_is_kept_whole() {
    let place = Place::new("import-at-once");
    std::fs::write(place.path("sqlio.txt"), sqlio(8, 1000.0)).unwrap();
    for round in 0..10 {
        let folder = format!("r{round}");
        let start = || command(&place, &["import", "sqlio.txt", "--run-dir", &folder, "--json"]);
        let children: Vec<_> = (0..4)
            .map(|_| {
                let mut command = start();
                command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
                command.spawn().unwrap()
            })
            .collect();
        let ended: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let good =
            ended.iter().filter(|output| output.status.code() != Some(1) && output.status.code() != Some(2));
        assert_eq!(good.count(), 1, "{ended:?}");
        let shown = run(&place, &["show", &folder, "--json"]);
        assert_eq!(shown.code, 0, "{}", shown.err);
        let document: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(document["doubts"].as_array().map(Vec::len), Some(0), "{}", document["doubts"]);
    }
}
