//! `--export-to`: figures sent while a run goes on, to endpoints that answer, and to those that do not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use testkit::certificates::{Authority, Bearer};

use crate::program::{Place, command, run};

/// What an endpoint does with a request.
#[derive(Clone, Copy)]
enum Answer {
    Status(&'static str),
    /// Answers after a second.
    Slow,
    /// Never answers.
    Nothing,
}

/// An endpoint, until the test's process ends: its address, and the heads and bodies of the requests.
fn endpoint(answer: Answer) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, receiver) = channel();
    let serve = move |stream: TcpStream, sender: std::sync::mpsc::Sender<(String, Value)>| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        let (mut head, mut line) = (String::new(), String::new());
        while matches!(reader.read_line(&mut line), Ok(1..)) {
            if line != "\r\n" {
                head += &std::mem::take(&mut line);
                continue;
            }
            line.clear();
            let field = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(str::to_string));
            let mut body = vec![0; field.unwrap().trim().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            sender.send((std::mem::take(&mut head), serde_json::from_slice(&body).unwrap())).unwrap();
            let status = match answer {
                Answer::Status(status) => status,
                Answer::Slow => {
                    std::thread::sleep(Duration::from_secs(1));
                    "200 OK"
                }
                Answer::Nothing => {
                    let _ = reader.read(&mut [0]);
                    return;
                }
            };
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || serve(stream, sender));
        }
    });
    (address, receiver)
}

/// The metrics of a request: the name, and the points.
fn metrics(body: &Value) -> impl Iterator<Item = (&str, &Vec<Value>)> {
    let resources = body["resourceMetrics"].as_array().unwrap().iter();
    let metrics = resources.flat_map(|of| of["scopeMetrics"][0]["metrics"].as_array().unwrap());
    metrics.map(|metric| {
        let points =
            ["sum", "gauge", "histogram"].iter().find_map(|kind| metric[kind]["dataPoints"].as_array());
        (metric["name"].as_str().unwrap(), points.unwrap())
    })
}

const LOAD: [&str; 8] =
    ["null", "--duration", "1s", "--warm-up", "200ms", "--interval", "100ms", "--run-dir"];

#[test]
fn each_interval_arrives_and_the_last_has_the_counts_of_the_record() {
    let place = Place::new("export-to");
    let (address, requests) = endpoint(Answer::Status("200 OK"));
    let url = format!("http://{address}/v1/metrics");
    let header = ["--export-header", "Authorization: Bearer ${env:EXPORT_TOKEN}"];
    let load = [&LOAD[..], &["r", "--replicates", "2", "--export-to", &url], &header].concat();
    let output = command(&place, &load).env("EXPORT_TOKEN", "sesame").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 97 | 98)), "{err}");
    assert!(!err.contains("export"), "{err}");
    let requests: Vec<(String, Value)> = requests.try_iter().collect();
    assert!(requests.len() > 5, "while the run goes on: {}", requests.len());
    assert!(
        requests
            .iter()
            .all(|(head, _)| head.starts_with("POST /v1/metrics ") && head.contains("Bearer sesame"))
    );
    let document: Value = serde_json::from_str(&run(&place, &["show", "r", "--json"]).out).unwrap();
    for trial in document["trials"].as_array().unwrap() {
        let attributes = |point: &Value| -> Vec<String> {
            let attributes = point["attributes"].as_array().unwrap().iter();
            attributes.map(|of| of["value"]["stringValue"].as_str().unwrap().to_string()).collect()
        };
        let wanted = [trial["trial"].as_str().unwrap(), "nothing", "measure"];
        let all = || requests.iter().flat_map(|(_, body)| metrics(body));
        let points_in = |name: &str, phase: &str| {
            let wanted = [wanted[0], wanted[1], phase];
            let points = all().filter(|(found, _)| *found == name).flat_map(|(_, points)| points);
            points.filter(|point| attributes(point) == wanted).collect::<Vec<&Value>>()
        };
        let points = |name: &str| points_in(name, "measure");
        let completed = points("plimsoll.operations.completed");
        assert!(completed.len() >= 8, "{}", completed.len());
        let expected = trial["operations"][0]["completed"].to_string();
        assert_eq!(completed.last().unwrap()["asInt"].as_str(), Some(expected.as_str()));
        // Those that were due in the measured time have their times in it or after it.
        let counts = ["measure", "cool_down"].map(|phase| {
            let last = points_in("plimsoll.response.time", phase).last().copied();
            last.map_or(0, |last| last["count"].as_str().unwrap().parse::<u64>().unwrap())
        });
        let due = trial["operations"][0]["due"]["ended"].as_u64();
        assert_eq!(Some(counts[0] + counts[1]), due, "{counts:?}");
        assert!(all().any(|(name, _)| name == "plimsoll.memory.available_bytes"));
    }
    // The secret is nowhere.
    let searched =
        std::process::Command::new("grep").args(["-rl", "sesame"]).arg(place.path("r")).output().unwrap();
    assert!(searched.stdout.is_empty() && !out.contains("sesame") && !err.contains("sesame"));
}

#[test]
fn an_endpoint_in_trouble_is_confessed_and_the_run_ends() {
    for (name, answer, expected) in [
        ("nothing", Answer::Nothing, "it has not answered"),
        ("refuses", Answer::Status("500 Internal Server Error"), "status 500"),
        ("rejects", Answer::Status("400 Bad Request"), "status 400"),
    ] {
        let place = Place::new(&format!("export-to-{name}"));
        let (address, _requests) = endpoint(answer);
        let url = format!("http://{address}/v1/metrics");
        let done = run(&place, &[&LOAD[..], &["r", "--quiet", "--export-to", &url]].concat());
        assert!(done.measured(), "{name}: {}", done.err);
        let not_delivered = format!("not delivered to {url}: {expected}");
        assert!(
            done.err.contains(&not_delivered) && done.err.contains("the record has them"),
            "{name}: {}",
            done.err
        );
        let events = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/events.jsonl")).unwrap();
        assert!(events.contains(&not_delivered), "{name}: {events}");
        // The record has everything all the same.
        let shown = run(&place, &["show", "r"]);
        assert!(shown.out.contains("nothing"), "{}", shown.out);
    }
}

#[test]
fn nobody_listens_and_a_slow_endpoint_gets_several_intervals_at_once() {
    let place = Place::new("export-to-slow");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/v1/metrics");
    let done = run(&place, &[&LOAD[..], &["dead", "-q", "--export-to", &url]].concat());
    assert!(done.measured() && done.err.contains("Connection refused"), "{}", done.err);
    let (address, requests) = endpoint(Answer::Slow);
    let url = format!("http://{address}/v1/metrics");
    let done = run(&place, &[&LOAD[..], &["slow", "-q", "--export-to", &url]].concat());
    assert!(done.measured(), "{}", done.err);
    let parts: Vec<usize> =
        requests.try_iter().map(|(_, body)| body["resourceMetrics"].as_array().unwrap().len()).collect();
    assert!(parts.iter().any(|parts| *parts > 1), "{parts:?}");
}

#[test]
fn a_record_is_sent_over_tls_to_an_endpoint_that_the_host_trusts() {
    let folder = testkit::Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let (address, requests) = endpoint(Answer::Status("200 OK"));
    let server = format!(
        "ssl_certificate {}; ssl_certificate_key {}; client_max_body_size 100m; \
         location / {{ proxy_pass http://{address}; proxy_http_version 1.1; }}",
        certificate.display(),
        key.display()
    );
    let Some(nginx) = testkit::Nginx::start(folder, "ssl", "", &server) else { return };
    let place = Place::new("export-to-tls");
    let done = run(&place, &[&LOAD[..], &["r", "-q"]].concat());
    assert!(done.measured(), "{}", done.err);
    let url = format!("https://127.0.0.1:{}/v1/metrics", nginx.port);
    let arguments = ["export", "r", "--format", "otlp", "--export-to", &url];
    let refused = run(&place, &arguments);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("certificate"), "{}", refused.err);
    assert!(requests.try_recv().is_err());
    let output = command(&place, &arguments).env("SSL_CERT_FILE", &authority.file).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.contains("intervals and samples to https://"), "{err}");
    let parts: usize =
        requests.try_iter().map(|(_, body)| body["resourceMetrics"].as_array().unwrap().len()).sum();
    let text = run(&place, &["export", "r", "--format", "otlp"]).out;
    assert_eq!(parts, text.lines().count());
}
