//! Real servers on loopback: what they answer, and what a sample has of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::Instant;

use model::SECOND;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use testkit::need::{Need, lacks, program};
use testkit::{Scratch, certificates};

use super::*;

/// The head of an answer with a body of this type.
fn head(kind: &str, bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n\r\n")
}

fn text(body: &str) -> Vec<u8> {
    format!("{}{body}", head("text/plain; version=0.0.4", body.len())).into_bytes()
}

/// A server that answers each request with the next text, the last one again and again, and closes. The heads of the requests
/// are handed out.
fn serving(answers: Vec<Vec<u8>>) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, requests) = channel();
    spawn(move || {
        for at in 0.. {
            let Ok((mut stream, _)) = listener.accept() else { return };
            if send.send(request(&mut stream)).is_err() {
                return;
            }
            let answer = &answers[at.min(answers.len() - 1)];
            // It may have gone.
            let _ = stream.write_all(answer);
        }
    });
    (address, requests)
}

fn request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// An exporter as the sampler reads it, every 20 ms.
struct Sampled {
    source: Box<dyn Source>,
    readings: Readings,
    clock: Clock,
    failures: Vec<String>,
    slowest: Duration,
}

impl Sampled {
    fn open(entry: &str) -> Sampled {
        let source = (KIND.open)(&HostRoot::live(), &[entry.to_string()]).map_err(|why| why.0).unwrap();
        let clock = Clock::get();
        Sampled { source, readings: Readings::new(), clock, failures: Vec::new(), slowest: Duration::ZERO }
    }

    fn sample(&mut self) {
        self.readings.clear();
        let begin = Instant::now();
        if let Err(why) = self.source.read(self.clock.now(), &mut self.readings) {
            self.failures.push(why.0);
        }
        self.slowest = self.slowest.max(begin.elapsed());
        sleep(Duration::from_millis(20));
    }

    /// Samples until one of them is as it should be.
    fn until(&mut self, is_done: impl Fn(&Sampled) -> bool) {
        let begin = Instant::now();
        while !is_done(self) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", self.failures);
            self.sample();
        }
    }

    fn get(&self, metric: &str, instance: &str) -> Option<f64> {
        self.readings.get(metric, instance)
    }

    /// The values of a sample that has any, by their titles.
    fn present(&self) -> Vec<String> {
        let all = self.readings.columns().iter().zip(self.readings.values());
        all.filter(|(_, value)| value.is_finite()).map(|(column, _)| column.title()).collect()
    }
}

#[test]
fn a_sample_takes_each_exposition_once_and_says_its_age() {
    let body = |count: u64| text(&format!("# TYPE a counter\na_total{{x=\"1\"}} {count}\nb 5\n"));
    let (address, requests) = serving(vec![body(1000), body(1500), body(1500), body(20)]);
    let mut sampled = Sampled::open(&format!("app=http://{address}/m every=100ms"));
    sampled.until(|of| of.get("b", "//app").is_some());
    let mut first = sampled.present();
    first.sort();
    let own = ["scrape.age_s", "scrape.body_bytes", "scrape.duration_s", "scrape.series"];
    let mut expected: Vec<String> = own.iter().map(|name| format!("{name}{{//app}}")).collect();
    expected.push("b{//app}".into());
    expected.sort();
    assert_eq!(first, expected, "the first exposition has no rate");
    assert_eq!((sampled.get("b", "//app"), sampled.get("scrape.series", "//app")), (Some(5.0), Some(2.0)));
    assert!(sampled.get("scrape.age_s", "//app").unwrap() < 10.0);
    sampled.sample();
    assert_eq!(sampled.present(), [""; 0], "nothing is taken twice");
    // 500 in the time between two scrapes, whatever the machine makes of it: 1 ms to a minute.
    sampled.until(|of| of.get("a_total", "//app/x=\"1\"").is_some_and(|rate| rate > 0.0));
    let rate = sampled.get("a_total", "//app/x=\"1\"").unwrap();
    assert!((8.0..=500_000.0).contains(&rate), "{rate}");
    sampled.until(|of| of.get("a_total", "//app/x=\"1\"") == Some(0.0));
    // The application began anew.
    sampled.until(|of| of.get("b", "//app").is_some() && of.get("a_total", "//app/x=\"1\"").is_none());
    sampled.until(|of| of.get("a_total", "//app/x=\"1\"") == Some(0.0));
    assert_eq!(sampled.failures, [""; 0]);
    let head = requests.recv().unwrap().to_lowercase();
    assert!(
        head.starts_with("get /m http/1.1\r\n") && head.contains("accept-encoding: identity\r\n"),
        "{head}"
    );
    assert!(!head.contains("authorization"), "{head}");
}

#[test]
fn what_is_no_exposition_is_a_gap_and_is_counted() {
    let good = "a 1\n";
    let chunked =
        |chunks: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").into_bytes();
    let status = |line: &str| format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n").into_bytes();
    let metrics = "application/openmetrics-text; version=1.0.0";
    let huge = head("text/plain", 1 << 40).into_bytes();
    let html = "<html><body>Node Exporter</body></html>\n";
    let many = "x".repeat(3 << 20) + "\n";
    let gzip = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08".to_vec();
    for (name, answer, why) in [
        ("cut in the middle", [head("text/plain", 100).as_bytes(), good.as_bytes()].concat(), "truncated"),
        ("cut between chunks", chunked("4\r\na 1\n\r\n"), ""),
        ("no end mark", [head(metrics, 4).as_bytes(), good.as_bytes()].concat(), "truncated"),
        ("no line end", text("a 1\nb 2"), "truncated"),
        ("nothing", Vec::new(), ""),
        ("no HTTP", b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(), ""),
        ("garbage", [head("text/plain", 64).into_bytes(), vec![0xff; 63], b"\n".to_vec()].concat(), "line 1"),
        ("one wrong line", text("a 1\nb\n"), "line 2: a line has no series"),
        ("one long line", text(&many), "line 1"),
        ("a page", [head("text/html", html.len()).as_bytes(), html.as_bytes()].concat(), "web page"),
        ("compressed", gzip, "encoding gzip"),
        ("unauthorized", status("401 Unauthorized"), "it needs a user and password, or a token"),
        ("wrong path", status("404 Not Found"), "is the path of the URL that of its metrics?"),
        ("broken", status("503 Service Unavailable"), "HTTP status 503"),
        ("longer than any memory", huge, ""),
    ] {
        // One that is good, then that, then good ones.
        let (address, _requests) = serving(vec![text(good), answer, text(good)]);
        let mut sampled = Sampled::open(&format!("http://{address}/metrics every=100ms timeout=2s"));
        let host = format!("//{address}");
        sampled.until(|of| of.get("a", &host) == Some(1.0));
        sampled.until(|of| !of.failures.is_empty());
        assert_eq!(sampled.present(), [""; 0], "{name}: a gap");
        assert!(sampled.failures[0].contains(why), "{name}: {}", sampled.failures[0]);
        assert!(sampled.failures[0].len() > 10, "{name}: {}", sampled.failures[0]);
        sampled.until(|of| of.get("a", &host) == Some(1.0));
        assert_eq!(sampled.failures.len(), 1, "{name}: {:?}", sampled.failures);
    }
}

#[test]
fn an_endless_answer_ends_at_its_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        request(&mut stream);
        let lines = "a{b=\"c\"} 1\n".repeat(8192);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
        while stream.write_all(lines.as_bytes()).is_ok() {}
    });
    let mut sampled = Sampled::open(&format!("http://{address} timeout=1m"));
    sampled.until(|of| of.failures.iter().any(|why| why.contains("larger")));
    assert_eq!(sampled.failures.last().unwrap(), "its answer is larger than 64 MiB");
}

#[test]
fn an_exporter_that_does_not_answer_delays_nothing_and_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut sampled = Sampled::open(&format!("http://{address}/metrics every=100ms timeout=700ms"));
    // It accepts, and says nothing.
    sampled.until(|of| of.failures.iter().any(|why| why == "it did not answer in time: raise `timeout`"));
    let waiting = sampled.failures.iter().filter(|why| why.starts_with("it did not answer for 0."));
    assert!(waiting.count() >= 2, "{:?}", sampled.failures);
    assert!(sampled.slowest < Duration::from_millis(600), "{:?}", sampled.slowest);
    assert_eq!(sampled.present(), [""; 0]);
    // A source ends although its scrape is under way.
    let begin = Instant::now();
    drop(sampled);
    assert!(begin.elapsed() < Duration::from_millis(600));
    drop(listener);
    let mut sampled = Sampled::open(&format!("http://{address}/metrics"));
    sampled.until(|of| !of.failures.is_empty());
    assert!(sampled.failures[0].starts_with("the connection was refused"), "{:?}", sampled.failures);
}

#[test]
fn a_redirect_is_refused_and_nothing_is_sent_to_its_host() {
    let (other, requests) = serving(vec![text("a 1\n")]);
    let to = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://me:S3CRET@{other}/x?token=S3CRET\r\nContent-Length: 0\r\n\r\n"
    );
    let (address, _requests) = serving(vec![to.into_bytes()]);
    let mut sampled = Sampled::open(&format!("http://{address}/metrics token=S3CRET"));
    sampled.until(|of| !of.failures.is_empty());
    let why = &sampled.failures[0];
    assert!(why.starts_with("it answers with HTTP status 302: it redirects to http://***@"), "{why}");
    assert!(!why.contains("S3CRET"), "{why}");
    assert!(requests.try_recv().is_err());
}

#[test]
fn credentials_are_sent_and_rejected_ones_are_said() {
    for (options, expected) in [
        (" user=me password=pw x", "authorization: basic bwu6chcgea=="),
        (" token=T0ken", "authorization: bearer t0ken"),
    ] {
        let denied = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec();
        let (address, requests) = serving(vec![denied, text("a 1\n")]);
        let mut sampled = Sampled::open(&format!("app=http://{address}/metrics every=100ms{options}"));
        sampled.until(|of| of.get("a", "//app") == Some(1.0));
        assert_eq!(
            sampled.failures,
            ["it answers with HTTP status 401: it rejects the user, password or token"]
        );
        let head = requests.recv().unwrap().to_lowercase();
        assert!(head.contains(&format!("{expected}\r\n")), "{head}");
    }
}

/// A server with this certificate and key.
fn serving_tls(certificate: &str, key: &str) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            let mut head = [0; 4096];
            if stream.read(&mut head).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(&text("a 1\n"));
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    address
}

#[test]
fn an_exporter_is_trusted_by_its_authority() {
    let made = certificates::made("127.0.0.1");
    let folder = Scratch::new();
    let ca = folder.file("ca.pem", &made.authority);
    let other = folder.file("other.pem", &certificates::made("127.0.0.1").authority);
    let address = serving_tls(&made.certificate, &made.key);
    for (options, is_trusted) in [
        (format!("ca={}", ca.display()), true),
        ("insecure".to_string(), true),
        (format!("ca={}", other.display()), false),
    ] {
        let mut sampled =
            Sampled::open(&format!("app=https://{address}/metrics every=100ms token=T {options}"));
        sampled.until(|of| of.get("a", "//app") == Some(1.0) || !of.failures.is_empty());
        match is_trusted {
            true => assert_eq!(sampled.failures, [""; 0], "{options}"),
            false => {
                assert!(sampled.failures[0].to_lowercase().contains("certificate"), "{:?}", sampled.failures)
            }
        }
    }
    let missing = (KIND.open)(&HostRoot::live(), &[format!("https://{address} ca=/none.pem")]).err().unwrap();
    assert!(missing.0.contains("/none.pem"), "{missing}");
}

#[test]
fn a_host_of_windows_has_our_metrics() {
    // `{100|140}` is the value of the first, and of the second exposition.
    let of = |second: bool| {
        let mut out = String::new();
        for line in include_str!("windows.txt").lines() {
            match line.rsplit_once(" {") {
                Some((series, values)) if !line.starts_with('#') => {
                    let (a, b) = values.trim_end_matches('}').split_once('|').unwrap();
                    out += &format!("{series} {}\n", if second { b } else { a });
                }
                _ => out += &format!("{line}\n"),
            }
        }
        out
    };
    let mut expositions = Expositions::default();
    expositions.take(of(false).as_bytes(), http::End::Line, 0).unwrap();
    expositions.take(of(true).as_bytes(), http::End::Line, 2 * SECOND as i64).unwrap();
    let mut values = Vec::new();
    expositions.values(&mut values);
    let columns = expositions.mapping.columns().iter().zip(&values).filter(|(_, value)| value.is_finite());
    let mut shown: Vec<String> = columns
        .map(|(of, value)| {
            let column = model::Column { metric: of.metric.clone(), instance: of.instance.clone() };
            let perfmon = match of.metric.perfmon.is_empty() {
                true => String::new(),
                false => format!(" ({})", of.metric.perfmon),
            };
            format!("{} {}{perfmon}", column.title(), (value * 1e6).round() / 1e6)
        })
        .collect();
    shown.sort();
    insta::assert_snapshot!(shown.join("\n"));
}

/// A program that is ended with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What node_exporter says of this machine, beside what the other sources read of it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts the exporter")]
fn node_exporter_says_the_same_as_the_kernel() {
    if lacks(Need::Program("prometheus-node-exporter")) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut command = std::process::Command::new(program("prometheus-node-exporter").unwrap());
    command.arg(format!("--web.listen-address={address}")).stderr(std::process::Stdio::null());
    let _running = Running(command.spawn().unwrap());
    let mut sampled = Sampled::open(&format!("node=http://{address}/metrics every=200ms"));
    sampled.until(|of| of.get("cpu.busy_share", "//node").is_some());
    let mut own = Readings::new();
    for kind in crate::SOURCES.iter().filter(|kind| ["cpu", "memory", "disk"].contains(&kind.name)) {
        let mut source = (kind.open)(&HostRoot::live(), &[]).map_err(|why| why.0).unwrap();
        source.read(1, &mut own).unwrap();
        sleep(Duration::from_millis(50));
        source.read(50_000_001, &mut own).unwrap();
    }
    let there = |metric: &str| sampled.get(metric, "//node");
    assert_eq!(there("memory.total_bytes"), own.get("memory.total_bytes", ""));
    let (available, here) =
        (there("memory.available_bytes").unwrap(), own.get("memory.available_bytes", "").unwrap());
    assert!((available / here - 1.0).abs() < 0.5, "{available} {here}");
    let share = there("cpu.busy_share").unwrap();
    assert!((0.0..=1.0).contains(&share), "{share}");
    let shares = ["user", "system", "irq", "steal"].map(|kind| there(&format!("cpu.{kind}_share")).unwrap());
    assert!((shares.iter().sum::<f64>() - share).abs() < 1e-6, "{shares:?} {share}");
    for metric in [
        "cpu.load_average",
        "cpu.context_switches_per_s",
        "pressure.cpu_some_share",
        "network.tcp_established_connections",
    ] {
        let is_read = metric.starts_with("pressure") && !std::path::Path::new("/proc/pressure/cpu").exists();
        assert!(is_read || there(metric).is_some(), "{metric}");
    }
    // Each CPU and each whole disk is an instance on both sides.
    for metric in ["cpu.busy_share", "disk.reads_per_s"] {
        let instances = |of: &Readings| -> Vec<String> {
            let all = of.columns().iter().filter(|column| column.metric.name == metric);
            let mut names: Vec<String> =
                all.map(|column| model::metric::split_instance(&column.instance).1.to_string()).collect();
            names.retain(|name| {
                !["dm-", "md", "loop", "zram", "ram", "sr"].iter().any(|of| name.starts_with(of))
            });
            names.sort();
            names
        };
        assert_eq!(instances(&sampled.readings), instances(&own), "{metric}");
    }
    assert_eq!(
        sampled.failures.iter().filter(|why| !why.contains("refused")).count(),
        0,
        "{:?}",
        sampled.failures
    );
}
