//! `plimsoll trace` against slapd, in the kernel where it is permitted, and by counters everywhere.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use ldap::message::{Attribute, Change, List, SearchRequest, Value as Bytes};
use ldap::session::{Options, Session};
use ldap::{Filter, ModifyOperation};
use serde_json::Value;
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, SlapdOptions, organization};
use testkit::{Need, Slapd, lacks};

use crate::program::{Place, command, run};

/// A server with its statistics.
fn server() -> Option<Slapd> {
    let database = "moduleload back_monitor\ndatabase monitor\n".to_string();
    Slapd::start(&SlapdOptions { ldif: organization(&["people"]), database, ..SlapdOptions::default() })
}

fn session(slapd: &Slapd) -> Session {
    let mut session = Session::connect(&slapd.url().parse().unwrap(), &Options::default()).unwrap();
    session.bind(ROOT_DN, ROOT_PASSWORD.as_bytes()).unwrap();
    session
}

fn modify(session: &mut Session, times: u32) {
    let dn = format!("ou=people,{SUFFIX}");
    for at in 0..times {
        let text = format!("change {at}");
        let values = [Bytes(text.as_bytes())];
        let attribute = Attribute { name: "description", values: List::from(&values) };
        session.modify(&dn, &[Change { operation: ModifyOperation::Replace, attribute }]).unwrap();
    }
}

fn search(session: &mut Session, times: u32) {
    let filter = Filter::Present("objectClass".into());
    for _ in 0..times {
        let mut search = session.search(SearchRequest::subtree(SUFFIX, &filter), None).unwrap();
        while search.next().unwrap().is_some() {}
    }
}

/// A running trace that prints CSV.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts it and waits for its first interval, after which all is attached.
    fn start(place: &Place, arguments: &[&str]) -> Running {
        let mut child = command(place, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut heads = String::new();
        output.read_line(&mut heads).unwrap();
        assert!(heads.starts_with("end_s,seconds,row,"), "{heads}");
        Running { child, output }
    }

    /// Stops it by SIGINT: its exit code, and the sum of a column over all intervals, by row.
    fn stop(&mut self) -> (i32, impl Fn(&str, &str) -> u64) {
        interrupt(&self.child);
        let mut rows = String::new();
        self.output.read_to_string(&mut rows).unwrap();
        let heads = report::trace_csv_heads();
        let sum = move |name: &str, column: &str| {
            let at = heads.split(',').position(|head| head == column).unwrap();
            let cells = rows.lines().map(|row| row.split(',').collect::<Vec<&str>>());
            let own = cells.filter(|cells| cells[2] == name);
            own.map(|cells| cells[at].parse::<u64>().unwrap_or(0)).sum()
        };
        (self.child.wait().unwrap().code().unwrap(), sum)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn interrupt(child: &Child) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

#[test]
fn operations_are_counted_exactly() {
    if lacks(Need::KernelTracing) {
        return;
    }
    let Some(slapd) = server() else { return };
    let place = Place::new("trace");
    let pid = slapd.process_id().to_string();
    let mut session = session(&slapd);
    let mut trace = Running::start(&place, &["trace", "--pid", &pid, "--interval", "100ms", "--csv"]);
    modify(&mut session, 137);
    search(&mut session, 59);
    let dn = format!("ou=new,{SUFFIX}");
    let values = [Bytes(b"organizationalUnit")];
    session.add(&dn, &[Attribute { name: "objectClass", values: List::from(&values) }]).unwrap();
    assert!(session.compare(&dn, "ou", b"new").unwrap());
    session.delete(&dn).unwrap();
    session.bind(ROOT_DN, ROOT_PASSWORD.as_bytes()).unwrap();
    let (code, counted) = trace.stop();
    let names = ["bind", "search", "modify", "add", "delete", "modrdn", "compare"];
    let found = names.map(|name| counted(name, "operations"));
    assert_eq!((code, found), (0, [1, 59, 137, 1, 1, 0, 1]));
}

#[test]
fn bpftrace_counts_the_same() {
    if lacks(Need::KernelTracing) || lacks(Need::Program("bpftrace")) {
        return;
    }
    let Some(slapd) = server() else { return };
    let place = Place::new("trace-bpftrace");
    let pid = slapd.process_id().to_string();
    let script = format!(
        "uprobe:/usr/sbin/slapd:do_modify /pid == {pid}/ {{ @modify = count(); }}
         tracepoint:syscalls:sys_enter_pwrite64 /pid == {pid}/ {{ @writes = count(); @bytes = sum(args->count); }}
         BEGIN {{ printf(\"ready\\n\"); }}"
    );
    let mut other = Command::new("bpftrace")
        .args(["-e", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(other.stdout.take().unwrap());
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "bpftrace ended");
    }
    let mut session = session(&slapd);
    let mut trace = Running::start(&place, &["trace", "--pid", &pid, "--interval", "100ms", "--csv"]);
    modify(&mut session, 211);
    let (_, counted) = trace.stop();
    interrupt(&other);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    other.wait().unwrap();
    let own = |column: &str| counted("modify", column) + counted("no operation", column);
    let expected = [211, own("write_calls"), own("write_call_bytes")];
    let found = ["@modify: ", "@writes: ", "@bytes: "].map(|name| {
        let value = rest.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    });
    assert_eq!((found, counted("modify", "operations")), (expected, 211), "{rest}");
    assert!(expected[1] > 211, "{expected:?}");
}

#[test]
fn counters_and_the_statistics_of_the_server_need_no_tracing() {
    let Some(slapd) = server() else { return };
    let place = Place::new("trace-counters");
    let pid = slapd.process_id().to_string();
    let url = slapd.url();
    let mut session = session(&slapd);
    let counters = ["trace", "--pid", &pid, "--without-tracing", "--server", &url, "--interval", "100ms"];
    // Its files may be in memory, where there is no disk to count on.
    if lacks(Need::BlockDevice(&std::env::temp_dir())) {
        return;
    }
    let mut trace = Running::start(&place, &[&counters[..], &["--csv"]].concat());
    modify(&mut session, 41);
    search(&mut session, 7);
    // The next read of the statistics has them.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (code, counted) = trace.stop();
    let found = ["modify", "search", "bind"].map(|name| counted(name, "operations"));
    assert_eq!((code, found), (0, [41, 7, 0]));

    let done = run(&place, &[&counters[..], &["--count", "2", "--json"]].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("the kernel is not traced: --without-tracing"), "{}", done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["format"], "plimsoll.trace/1.0");
    assert_eq!(document["methods"]["operations"], "cn=Operations,cn=Monitor of OpenLDAP");
    assert!(
        document["methods"]["calls"].as_str().unwrap().starts_with("/proc/PID/io"),
        "{}",
        document["methods"]
    );
    assert_eq!(document["intervals"].as_array().unwrap().len(), 2);
}

#[test]
fn lines_of_a_log_are_operations() {
    let place = Place::new("trace-log");
    std::fs::write(place.path("log"), "").unwrap();
    let pid = std::process::id().to_string();
    let log = ["trace", "--pid", &pid, "--without-tracing", "--log", "log", "--line", "commit=COMMIT [0-9]+"];
    let rest = ["--device", "any", "--interval", "100ms", "--csv"];
    let mut trace = Running::start(&place, &[&log[..], &rest].concat());
    std::fs::write(place.path("log"), "COMMIT 1\nROLLBACK\nCOMMIT 2\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (code, counted) = trace.stop();
    assert_eq!((code, counted("commit", "operations")), (0, 2));
}

#[test]
fn mistakes_say_what_to_write() {
    let place = Place::new("trace-mistakes");
    let me = std::process::id().to_string();
    let trace = |arguments: &[&str]| {
        let done = run(&place, &[&["trace", "--pid"][..], arguments].concat());
        format!("{}: {}", done.code, done.err.trim_end().replace(&me, "PID"))
    };
    let found = [
        trace(&["4294967295"]),
        trace(&[&me, "--function", "a="]),
        trace(&[&me, "--for", "2000/s"]),
        trace(&[&me, "--interval", "1ms"]),
        trace(&[&me, "--log", "none", "--line", "x"]),
    ];
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn a_stored_trace_has_a_price() {
    let place = Place::new("trace-price");
    let trace = serde_json::json!({
        "format": "plimsoll.trace/1.0", "pid": 4711, "program": "slapd", "devices": ["vda"],
        "methods": {"operations": "probes", "calls": "functions", "requests": "tracepoint"},
        "seconds": 30.0, "rows": [], "intervals": [],
        "costs": [
            {"operation": "search", "operations": 200_000, "rate_per_s": 9000.0, "direct": {}, "with_share": {"device_reads": 0.01, "device_read_bytes": 40.96}},
            {"operation": "modify", "operations": 40_000, "rate_per_s": 1900.0,
             "with_share": {"device_writes": 9.2, "device_write_bytes": 40_000.0, "device_flushes": 2.0}}
        ]
    });
    std::fs::write(place.path("trace.json"), trace.to_string()).unwrap();
    let done = run(&place, &["size", "trace.json", "--for", "2000 modify/s, 10000 search/s"]);
    assert_eq!(done.code, 0, "{}", done.err);
    insta::assert_snapshot!(done.out);
    let json = run(&place, &["size", "trace.json", "--for", "100 modify/s", "--json"]);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(document["format"], "plimsoll.io-price/1.0");
    assert!((document["requests"]["for_load_per_s"].as_f64().unwrap() - 1120.0).abs() < 1e-6);
    assert_eq!(run(&place, &["size", "trace.json", "--for", "100 add/s"]).code, 98);
    for (content, said) in [("{}", "missing field"), ("no JSON", "expected ident")] {
        std::fs::write(place.path("trace.json"), content).unwrap();
        let done = run(&place, &["size", "trace.json", "--for", "1 modify/s"]);
        assert!(
            done.code == 2 && done.err.contains(said) && done.err.contains("plimsoll trace"),
            "{}",
            done.err
        );
    }
}

#[test]
fn an_experiment_records_the_operations_of_its_target() {
    if lacks(Need::KernelTracing) {
        return;
    }
    let Some(slapd) = server() else { return };
    let place = Place::new("trace-source");
    let watch = format!("operation_io:{}", slapd.process_id());
    let load =
        ["ldap", "search", &slapd.url(), "--base", SUFFIX, "--filter", "(ou=people)"].map(String::from);
    let load: Vec<&str> = load.iter().map(String::as_str).collect();
    let rest =
        ["--rate", "200/s", "--duration", "2s", "--warm-up", "0s", "--watch", &watch, "--run-dir", "r"];
    let done = run(&place, &[&load[..], &rest].concat());
    assert!(done.measured(), "{}", done.err);
    let trial = place.path("r/trials/001-baseline.r1");
    let metrics = std::fs::read_to_string(trial.join("metrics.json")).unwrap();
    assert!(metrics.contains("operation_io.operations_per_s"), "{metrics}");
    let record: Value =
        serde_json::from_str(&std::fs::read_to_string(trial.join("run.json")).unwrap()).unwrap();
    let sources = record["sources"].as_array().unwrap();
    let source = sources.iter().find(|source| source["source"] == "operation_io").unwrap();
    assert_eq!(source["state"], "active", "{source}");
    let result: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("r/result.json")).unwrap()).unwrap();
    let counts = &result["trials"][0]["counts"][0];
    assert_eq!(counts["kind"], "search", "{counts}");
    let [client, trace] = ["client", "trace"].map(|side| counts[side].as_u64().unwrap());
    assert!(client >= 400 && trace.abs_diff(client) <= 4, "{counts}");
}
