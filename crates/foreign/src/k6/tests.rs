use super::*;

fn read(text: &str) -> Result<LoadRun, Fault> {
    crate::testing::run("k6", text.as_bytes(), &Options::default())
}

const TREND: &str = r#""avg":5.5,"min":1.25,"med":5,"max":20.5,"p(90)":9,"p(95)":12,"p(99.9)":20"#;

fn flat() -> String {
    format!(
        r#"{{"metrics":{{"data_received":{{"count":150000,"rate":15000}},
        "http_req_duration":{{{TREND},"thresholds":{{"p(95)<500":false}}}},
        "http_req_duration{{expected_response:true}}":{{"avg":1}},
        "http_req_failed":{{"passes":30,"fails":970,"value":0.03}},
        "http_reqs":{{"count":1000,"rate":99.5}},"iterations":{{"count":500,"rate":50}},
        "vus":{{"value":3,"min":1,"max":9}},"vus_max":{{"value":10,"min":10,"max":10}}}},
        "root_group":{{"name":"","path":"","groups":{{}},"checks":{{}}}}}}"#
    )
}

fn of_handler() -> String {
    format!(
        r#"{{"root_group":{{"groups":[],"checks":[],"name":""}},"options":{{"summaryTrendStats":["avg"],"noColor":false}},
        "state":{{"isStdOutTTY":true,"testRunDurationMs":10050.25}},
        "metrics":{{"http_reqs":{{"type":"counter","contains":"default","values":{{"count":1000,"rate":99.5}}}},
        "http_req_failed":{{"type":"rate","contains":"default","values":{{"rate":0.03,"passes":30,"fails":970}}}},
        "http_req_duration":{{"type":"trend","contains":"time","values":{{{TREND}}},"thresholds":{{"p(95)<500":{{"ok":true}}}}}},
        "data_received":{{"type":"counter","contains":"data","values":{{"count":150000,"rate":15000}}}},
        "iterations":{{"type":"counter","values":{{"count":500,"rate":50}}}},
        "vus_max":{{"type":"gauge","values":{{"value":10,"min":10,"max":10}}}}}}}}"#
    )
}

fn listed() -> String {
    format!(
        r#"{{"version":"1.0.0","metadata":{{"generatedAt":"2026-01-01T00:00:00Z","k6Version":"1.6.0"}},
        "config":{{"duration":10.05,"execution":"local"}},"results":{{"checks":{{}},"metrics":[
        {{"name":"http_reqs","type":"counter","contains":"default","values":{{"count":1000}}}},
        {{"name":"http_req_failed","type":"rate","values":{{"rate":0.03,"matches":30,"total":1000}}}},
        {{"name":"http_req_duration","type":"trend","contains":"time","values":{{{TREND}}}}},
        {{"name":"data_received","type":"counter","values":{{"count":150000}}}},
        {{"name":"iterations","type":"counter","values":{{"count":500}}}},
        {{"name":"vus_max","type":"gauge","values":{{"value":10,"min":10,"max":10}}}}]}}}}"#
    )
}

#[test]
fn all_layouts_of_the_summary_have_the_same_figures() {
    for (text, version, seconds) in
        [(flat(), "", 1000.0 / 99.5), (of_handler(), "", 10.05025), (listed(), "1.6.0", 10.05)]
    {
        let run = read(&text).unwrap();
        assert_eq!((run.tool, run.version.as_str(), run.workload), ("k6", version, "http"));
        assert!((run.seconds - seconds).abs() < 1e-9, "{}", run.seconds);
        let of = &run.intervals[0];
        assert_eq!((of.completed, of.failed, of.bytes), (1000, 30, 150_000));
        let times = of.response;
        assert_eq!((times.min, times.mean, times.p50, times.p90, times.p95), (1.25, 5.5, 5.0, 9.0, 12.0));
        assert_eq!((times.p999, times.max), (20.0, 20.5));
        assert!(times.p99.is_nan());
        assert_eq!(run.shape, Some(Shape::closed(10)));
        assert_eq!(run.facts["k6.iterations"], Level::Count(500));
        assert!(run.notes.iter().any(|note| note.contains("executor")), "{:?}", run.notes);
    }
}

#[test]
fn dropped_iterations_mean_an_open_loop() {
    let text =
        flat().replace("\"iterations\":", "\"dropped_iterations\":{\"count\":7,\"rate\":1},\"iterations\":");
    let run = read(&text).unwrap();
    assert_eq!(run.shape, None);
    assert_eq!(run.facts["k6.dropped_iterations"], Level::Count(7));
}

#[test]
fn what_an_old_summary_lacks_is_noted() {
    let text = r#"{"metrics":{"http_reqs":{"count":10,"rate":5},"http_req_duration":{"avg":1}}}"#;
    let run = read(text).unwrap();
    assert_eq!(run.seconds, 2.0);
    assert!(run.intervals[0].response.p90.is_nan());
    for part in ["failed requests", "no received bytes", "divided by their rate"] {
        assert!(run.notes.iter().any(|note| note.contains(part)), "{:?}", run.notes);
    }
    for (text, expected) in [
        (r#"{"metrics":{"iteration_duration":{"avg":1}}}"#.to_string(), "no HTTP requests"),
        (r#"{"metrics":{"http_reqs":{"count":0}}}"#.to_string(), "neither a duration"),
        (flat()[..400].to_string(), "not complete"),
    ] {
        let fault = read(&text).unwrap_err();
        assert!(fault.what.contains(expected), "{fault}");
    }
}

const HEADER: &str = "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,status,subproto,tls_version,url,extra_tags\n";

#[test]
fn rows_of_csv_are_requests() {
    let text = format!(
        "{HEADER}http_reqs,1600000001,1.000000,,,,true,,GET,http://a/,HTTP/1.1,default,,200,,,http://a/,\n\
         http_req_duration,1600000001,250.5,,,,true,,GET,http://a/,HTTP/1.1,default,,200,,,http://a/,\n\
         http_req_duration,1600000002,10,,,1500,false,,GET,home,HTTP/1.1,default,,500,,,http://a/,\n\
         http_req_duration,1600000003,10,,,,,,GET,home,HTTP/1.1,default,,404,,,http://a/,\n\
         http_req_waiting,1600000002,9,,,,true,,GET,home,HTTP/1.1,default,,200,,,http://a/,\n\
         vus,1600000002,5,,,,,,,,,,,,,,,\niterations,1600000002,1,,,,,,,,,,,,,,,\n\
         http_req_duration,160000"
    );
    let run = read(&text).unwrap();
    let names: Vec<(&str, u64)> = run.histograms.iter().map(|(name, of)| (name.as_str(), of.len())).collect();
    assert_eq!(names, [("home", 2), ("http://a/", 1)]);
    assert_eq!(run.intervals.iter().map(|of| of.failed).sum::<u64>(), 2);
    assert_eq!(run.began_unix_ns, Some(1_600_000_000_749_500_000));
    assert_eq!(run.shape, Some(Shape::closed(5)));
    for part in ["whole seconds", "line 9 cannot be read"] {
        assert!(run.notes.iter().any(|note| note.contains(part)), "{:?}", run.notes);
    }
    let fault = read(&format!("{HEADER}vus,1600000002,5,,,,,,,,,,,,,,,\n")).unwrap_err();
    assert!(fault.what.contains("no HTTP requests"), "{fault}");
}

#[test]
fn json_lines_are_requests() {
    let point = |value: f64, status: &str, more: &str| {
        format!(
            "{{\"metric\":\"http_req_duration\",\"type\":\"Point\",\"data\":{{\"time\":\"2020-09-13T14:26:41.5+02:00\",\
             \"value\":{value},\"tags\":{{\"name\":\"home\",\"status\":\"{status}\"{more}}}}}}}\n"
        )
    };
    let text = format!(
        "{{\"type\":\"Metric\",\"data\":{{\"name\":\"http_req_duration\",\"type\":\"trend\"}},\"metric\":\"http_req_duration\"}}\n{}{}{}{{\"type\":\"Point\",\"da",
        point(1.5, "200", ",\"expected_response\":\"true\""),
        point(1.5, "200", ",\"error_code\":\"1050\""),
        point(1.5, "0", ""),
    );
    let run = read(&text).unwrap();
    assert_eq!(run.began_unix_ns, Some(1_600_000_001_498_500_000));
    assert_eq!(run.histograms["home"].len(), 3);
    assert_eq!(run.intervals.iter().map(|of| of.failed).sum::<u64>(), 2);
    assert!(run.notes.iter().any(|note| note.contains("line 5 cannot be read")), "{:?}", run.notes);
}

#[test]
fn times_have_the_precision_of_their_digits() {
    for (text, expected) in [
        ("1600000001", Some(1_600_000_001_000_000_000)),
        ("1600000001500", Some(1_600_000_001_500_000_000)),
        ("1600000001500000", Some(1_600_000_001_500_000_000)),
        ("1600000001500000000", Some(1_600_000_001_500_000_000)),
        ("2020-09-13T12:26:41Z", Some(1_600_000_001_000_000_000)),
        ("99999999999999999999", None),
        ("", None),
        ("noon", None),
    ] {
        assert_eq!(points::unix_ns(text), expected, "{text}");
    }
}

#[test]
fn files_of_others_are_not_taken() {
    for text in [
        "{\"metrics\":{\"latency\":1}}",
        "{\"type\":\"Point\",\"coordinates\":[1,2]}",
        "{\"results\":[],\"metadata\":{}}",
        "[]",
        "metric_name,value\n",
        "",
    ] {
        assert!(!recognize(text), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_panic(text in "(metric_name,timestamp,metric_value,status\n|\\{\"type\":\"Point\",\"metric\":\"a\",\"data\":1\\}\n)?((http_req_duration,)?[0-9a-z\",{}:. -]{0,30}\n){0,8}") {
        let _ = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default());
    }

    #[test]
    fn no_summary_is_a_panic(count in proptest::num::f64::ANY, rate in proptest::num::f64::ANY) {
        let value = serde_json::json!({"metrics": {"http_reqs": {"count": count, "rate": rate},
            "http_req_failed": {"value": rate, "passes": count, "fails": rate}, "vus": {"max": count}}});
        let _ = summary::run(&value);
    }
}
