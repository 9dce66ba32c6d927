//! Servers of which only an exporter is known: what a run, its verdict and its record have of them.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Place, command, run};

/// Answers each request of a connection with what `answer` makes of its head.
fn serve(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || connection(stream, &*answer));
        }
    });
    address
}

fn connection(mut stream: TcpStream, answer: &dyn Fn(&str) -> String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while matches!(reader.read_line(&mut head), Ok(1..)) {
        if head.ends_with("\r\n\r\n") {
            if stream.write_all(answer(&head).as_bytes()).is_err() {
                return;
            }
            head.clear();
        }
    }
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Two CPUs that are busy for this share of the time, with tasks that wait for one for the share `waited`, and an idle disk.
fn busy_host(begin: Instant, busy: f64, waited: f64) -> String {
    let seconds = begin.elapsed().as_secs_f64();
    let mut out = String::from("# TYPE node_cpu_seconds_total counter\n");
    for cpu in 0..2 {
        for (mode, share) in [("idle", 1.0 - busy), ("user", busy)] {
            out += &format!(
                "node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}} {}\n",
                1000.0 + seconds * share
            );
        }
    }
    out += &format!("node_pressure_cpu_waiting_seconds_total {}\n", seconds * waited);
    out += &format!("node_disk_io_time_seconds_total{{device=\"sda\"}} {}\n", seconds * 0.02);
    out += &format!("node_disk_io_time_weighted_seconds_total{{device=\"sda\"}} {}\n", seconds * 0.02);
    out + &format!("# TYPE app_jobs counter\napp_jobs_total{{queue=\"mail\"}} {}\n", (seconds * 50.0) as u64)
}

/// A web server whose answers take some time.
fn slow_server() -> String {
    serve(|_| {
        std::thread::sleep(Duration::from_millis(20));
        ok("hello\n")
    })
}

fn json(place: &Place, path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.path(path)).unwrap()).unwrap()
}

#[test]
fn a_server_that_is_seen_through_its_exporter_is_the_limit() {
    let place = Place::new("exporter-limit");
    let begin = Instant::now();
    let scrapes = Mutex::new(0);
    let exporter = serve(move |_| {
        let mut scrapes = scrapes.lock().unwrap();
        *scrapes += 1;
        // Now and then it has no answer, or only a part of it.
        match *scrapes % 7 {
            3 => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".into(),
            5 => ok(&busy_host(begin, 0.98, 0.6)[..150]),
            _ => ok(&busy_host(begin, 0.98, 0.6)),
        }
    });
    let url = format!("http://{}/", slow_server());
    let watch = format!("db1=http://{exporter}/metrics every=100ms");
    let goal = "cpu.busy_share{//db1} <= 99%";
    let done = run(
        &place,
        &[
            "http",
            &url,
            "--concurrency",
            "4",
            "--warm-up",
            "500ms",
            "--duration",
            "3s",
            "--sample-every",
            "100ms",
            "--watch",
            &watch,
            "--goal",
            goal,
            "--run-dir",
            "r",
        ],
    );
    assert!(done.measured(), "{}{}", done.out, done.err);
    let said = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("The CPUs of db1 were the limit: 98 % busy, and some task waited for a CPU 60 %"),
        "{said}"
    );
    assert!(said.contains("Plimsoll changes resources of another host only if"), "{said}");
    let result = json(&place, "r/result.json");
    let limit = &result["verdict"]["limit"]["one"]["resource"];
    assert_eq!((limit["class"].as_str(), limit["host"].as_str()), (Some("cpu"), Some("db1")), "{limit}");
    assert_eq!(result["goal"]["met"], true);
    // What failed is counted with the reason, and is a gap: never a zero, and never a rate of nothing.
    assert!(said.contains("scrape db1 could not be read in"), "{said}");
    let readings = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/readings.csv"));
    let readings = readings.unwrap_or_else(|_| {
        run(&place, &["export", "r", "--csv"]);
        String::new()
    });
    if let Some(titles) = readings.lines().rev().find(|line| line.starts_with("begin_s")) {
        let at = titles.split(',').position(|title| title == "cpu.busy_share{//db1}").unwrap();
        let values = readings.lines().filter(|line| !line.starts_with("begin_s"));
        let values: Vec<&str> = values.filter_map(|line| line.split(',').nth(at)).collect();
        assert!(values.contains(&"") && values.iter().any(|value| value.starts_with("0.98")), "{values:?}");
        assert!(values.iter().all(|value| value.is_empty() || value.starts_with("0.9")), "{values:?}");
    }
    let explained = run(&place, &["explain", "r"]);
    assert!(explained.out.contains("cpu.busy_share{//db1}"), "{}", explained.out);
    assert!(explained.out.contains("Disk sda of db1 was not the limit"), "{}", explained.out);
    let page = std::fs::read_to_string(place.path("r/report.html")).unwrap();
    assert!(page.contains("db1: CPU busy"));
    // The same from an experiment file, with a figure under the exporter's own name.
    let text = std::fs::read_to_string(place.path("r/experiment.toml")).unwrap();
    let text = text.replacen(
        "sample_every",
        "show = [\"app_jobs_total{//db1/queue=\\\"mail\\\"}\"]\nsample_every",
        1,
    );
    std::fs::write(place.path("e.toml"), &text).unwrap();
    assert_eq!(run(&place, &["check", "e.toml"]).code, 0);
    let again = run(&place, &["run", "e.toml", "--run-dir", "again"]);
    assert!(again.measured() && again.out.contains("app jobs total"), "{}{}", again.out, again.err);
}

#[test]
fn an_exporter_that_is_gone_is_no_reason_to_stop() {
    let place = Place::new("exporter-gone");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{}/", slow_server());
    let watch = format!("http://{free}/metrics");
    let load = ["http", &url, "--concurrency", "2", "--duration", "1s", "--sample-every", "100ms"];
    let done = run(&place, &[&load[..], &["--watch", &watch, "--run-dir", "r"]].concat());
    assert!(done.measured(), "{}{}", done.out, done.err);
    let said = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = format!("scrape {free} could not be read in");
    assert!(said.contains(&expected) && said.contains("the connection was refused"), "{said}");
    assert!(!said.contains("samples of the counters are lost"), "{said}");
}

#[test]
fn passwords_of_exporters_are_sent_and_kept_nowhere() {
    let place = Place::new("exporter-secrets");
    let heads = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&heads);
    let begin = Instant::now();
    let exporter = serve(move |head| {
        seen.lock().unwrap().push_str(&head.to_lowercase());
        ok(&busy_host(begin, 0.5, 0.0))
    });
    let url = format!("http://{}/", slow_server());
    std::fs::write(place.path("token"), "S3CRETfile\n").unwrap();
    std::fs::set_permissions(place.path("token"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let environment = format!("a=http://{exporter}/a user=me password=${{env:EXPORTER_PASSWORD}}");
    let file = format!("b=http://{exporter}/b token=${{file:token}}");
    let literal = format!("c=http://me:S3CRETurl@{exporter}/c");
    let mut load = vec!["http", &url, "--concurrency", "2", "--duration", "1s", "--run-dir", "r"];
    for entry in [&environment, &file, &literal] {
        load.extend(["--watch", entry]);
    }
    let output = command(&place, &load).env("EXPORTER_PASSWORD", "S3CRETenv").output().unwrap();
    assert!(place.path("r").exists(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let explained = run(&place, &["explain", "r"]);
    all += &(explained.out + &explained.err);
    let mut files = vec![place.path("r")];
    while let Some(path) = files.pop() {
        match path.is_dir() {
            true => files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path())),
            false => all += &String::from_utf8_lossy(&std::fs::read(&path).unwrap()),
        }
    }
    assert!(!all.contains("S3CRET"), "{}", &all[all.find("S3CRET").unwrap_or(0)..][..200]);
    for kept in ["password=${env:EXPORTER_PASSWORD}", "token=${file:token}", "c=http://***@"] {
        assert!(all.contains(kept), "{kept}");
    }
    // Base64 of `me:S3CRETenv` and `me:S3CRETurl`, in small letters as the rest of the head.
    let heads = heads.lock().unwrap();
    for (path, credentials) in
        [("/a", "basic bWU6UzNDUkVUZW52"), ("/b", "bearer s3cretfile"), ("/c", "basic bWU6UzNDUkVUdXJs")]
    {
        let requested =
            heads.split("\r\n\r\n").find(|head| head.starts_with(&format!("get {path} "))).unwrap();
        assert!(requested.contains(&format!("authorization: {}", credentials.to_lowercase())), "{requested}");
    }
    // A password that the record does not have has to be set again.
    let again = run(&place, &["run", "r/experiment.toml"]);
    assert_eq!(again.code, 2, "{}{}", again.out, again.err);
    assert!(
        again.err.contains("`watch`: the environment variable EXPORTER_PASSWORD is not set"),
        "{}",
        again.err
    );
}

#[test]
fn hosts_are_watched_side_by_side() {
    let place = Place::new("exporter-watch");
    let begin = Instant::now();
    let of = |busy: f64| serve(move |_| ok(&busy_host(begin, busy, 0.0)));
    let (one, other) = (of(0.25), of(0.75));
    let from = [format!("one=http://{one}/metrics every=100ms"), format!("other=http://{other} every=100ms")];
    let watch = ["watch", "--from", &from[0], "--from", &from[1], "--every", "500ms", "--duration", "3s"];
    let done = run(&place, &watch);
    assert_eq!(done.code, 0, "{}", done.err);
    for (host, busy) in [("one", "25.0"), ("other", "75.0")] {
        let row = |line: &&str| line.contains(&format!("  {host} ")) && line.contains(busy);
        assert!(done.out.lines().any(|line| row(&line)), "{host}: {}", done.out);
    }
    assert!(!done.out.contains("this host"), "{}", done.out);
    let done = run(&place, &[&watch[..], &["--json", "--record", "kept"]].concat());
    let last: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    assert!(last["readings"].get("cpu.busy_share{//one/1}").is_some(), "{last}");
    assert_eq!(run(&place, &["show", "kept"]).code, 0);

    for (arguments, expected) in [
        (
            &["watch", "--from", "db1:9100"][..],
            "write the URL of an exporter, such as http://HOST:9100/metrics",
        ),
        (&["watch", "--from", "http://a/m", "--from", "http://a/n"], "two exporters have the name a"),
        (
            &["watch", "--from", "http://me:S3CRET@a/m"],
            "the password or token of a would be sent without TLS",
        ),
        (
            &["exec", "--watch", "http://a/m tokn=S3CRET", "--", "true"],
            "an option of an exporter is not known: did you mean `token`?",
        ),
        (
            &["exec", "--watch", "a=http://a/m", "--watch", "a=http://b/m", "--", "true"],
            "two exporters have the name a",
        ),
    ] {
        let refused = run(&place, arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.out);
        assert!(refused.err.contains(expected) && !refused.err.contains("S3CRET"), "{}", refused.err);
    }
}
