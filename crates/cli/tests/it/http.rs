//! `plimsoll http` against a server of ours.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use crate::program::{Place, run};

/// A server that answers `/` with 200 and everything else with 503, until the test's process ends. Returns its address.
pub(crate) fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = |stream: TcpStream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        let mut line = String::new();
        let mut status = "";
        while matches!(reader.read_line(&mut line), Ok(1..)) {
            if line.starts_with("GET ") {
                status = if line.starts_with("GET / ") { "200 OK" } else { "503 Busy" };
            } else if line == "\r\n" {
                let _ = write!(stream, "HTTP/1.1 {status}\r\nServer: ours\r\nContent-Length: 2\r\n\r\nhi");
            }
            line.clear();
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

#[test]
fn a_web_server_is_measured() {
    let place = Place::new("http");
    let url = format!("http://{}/", serve());
    let load = ["--rate", "200/s", "--duration", "1s", "--warm-up", "0s", "--json", "--quiet", "--run-dir"];
    let goals =
        ["--goal", "get.response.p95 <= 10s", "--goal", "response.p95 <= 10s", "--goal", "failed < 1%"];
    let good = run(&place, &[&["http", &url][..], &load, &["good"], &goals].concat());
    let document: serde_json::Value = serde_json::from_str(&good.out).unwrap();
    // Where other work leaves the generator no CPU, that is the answer.
    let is_starved = document["verdict"]["kind"] == "generator_bound";
    assert_eq!(good.code, if is_starved { 97 } else { 0 }, "{}", good.err);
    let get = &document["trials"][0]["operations"][0];
    assert_eq!((get["name"].as_str(), get["failed"].as_u64()), (Some("get"), Some(0)), "{get}");
    assert!(get["completed"].as_u64().unwrap() > 0);
    let kept = std::fs::read_to_string(place.path("good/trials/001-baseline.r1/run.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["facts"]["server"]["text"], "ours", "{}", kept["facts"]);

    // The same server refuses: the goal is missed, and the kind of failure is named.
    let busy = run(
        &place,
        &[&["http", &format!("{url}busy"), "--no-keep-alive"][..], &load, &["busy"], &goals].concat(),
    );
    assert_eq!(busy.code, 99, "{}", busy.err);
    let shown = run(&place, &["show", "busy"]);
    assert!(shown.out.contains("most often: http 503"), "{}", shown.out);
}

#[test]
fn an_address_that_cannot_be_is_a_mistake_of_use() {
    let place = Place::new("http-wrong");
    for (url, words) in [
        ("ftp://localhost/", "the scheme of the URL is not http or https"),
        ("https://127.0.0.1:1/", "nothing accepts a connection at 127.0.0.1:1"),
        ("localhost:80", "write \"http://localhost:80\""),
        ("http://127.0.0.1:1/", "nothing accepts a connection at 127.0.0.1:1"),
    ] {
        let refused = run(&place, &["http", url, "--run-dir", "r"]);
        assert_eq!(refused.code, 2, "{url}: {}", refused.err);
        assert!(refused.err.contains(words), "{}", refused.err);
        assert!(!place.path("r").exists(), "nothing was changed");
    }
}

#[test]
fn a_probe_reports_each_request_of_each_server() {
    let place = Place::new("http-probe");
    let answering = serve();
    // One that never answers, and one that nothing listens on.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = |address: &str| address.rsplit(':').next().unwrap().to_string();
    let ports = [port(&answering), silent.local_addr().unwrap().port().to_string(), free.port().to_string()];
    let list = format!(
        "Farm,Broker,Port\na,127.0.0.1,{}\nb,127.0.0.1,{}\nc,127.0.0.1,{}\n",
        ports[0], ports[1], ports[2]
    );
    std::fs::write(place.path("list.csv"), list).unwrap();
    let probe =
        ["http", "--probe", "list.csv", "--timeout", "300ms", "--every", "10ms", "--output", "out.csv"];
    let done = run(&place, &[&probe[..], &["--passes", "2"]].concat());
    assert_eq!(done.code, 99, "{}", done.err);
    assert!(done.err.contains("4 of 6 requests failed"), "{}", done.err);
    let lines: Vec<Vec<&str>> = done.out.lines().map(|line| line.splitn(5, ',').collect()).collect();
    assert_eq!(lines[0], ["timestamp", "broker", "port", "milliseconds", "error"]);
    for (port, error) in
        ports.iter().zip(["", "\"timeout, before the first byte", "\"nothing accepts a connection"])
    {
        let of: Vec<_> = lines.iter().filter(|line| line[2] == port).collect();
        assert_eq!(of.len(), 2, "{}", done.out);
        for line in of {
            // A failure has no time, which could be taken for that of a response.
            assert_eq!(line[3].parse::<f64>().is_ok(), error.is_empty(), "{line:?}");
            assert!(line[4].starts_with(error), "{line:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(place.path("out.csv")).unwrap(), done.out);
    // A later probe continues the file, without its header.
    run(&place, &probe);
    assert_eq!(std::fs::read_to_string(place.path("out.csv")).unwrap().lines().count(), 7 + 3);
    let wrong = run(&place, &["http", "--probe", "list.csv", "--concurrency", "3", "--path", "x"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("--concurrency does not apply to --probe") && wrong.err.contains("2 mistakes"),
        "{}",
        wrong.err
    );
}

#[test]
fn a_run_keeps_its_scenario_and_is_resumed_with_no_other() {
    let place = Place::new("http-scenario");
    let scenario = |url: &str| {
        format!(
            "base = \"http://{url}\"\nheader = [\"Authorization: Bearer S3CRET\"] # a comment\n\
             [[transaction]]\nname = \"buy\"\n[[transaction.request]]\nname = \"home\"\nurl = \"/\"\n\
             [[transaction.request]]\nname = \"again\"\nurl = \"/\"\n"
        )
    };
    let (shop, other) = (serve(), serve());
    std::fs::write(place.path("shop.toml"), scenario(&shop)).unwrap();
    let load = ["http", "--from", "shop.toml", "--concurrency", "1", "--warm-up", "0s", "--duration", "1s"];
    let goals = ["--goal", "buy:again.response.p95 <= 1m", "--goal", "buy.p99 <= 1m"];
    let measuring = [&load[..], &goals, &["--replicates", "2", "--quiet", "--run-dir", "r"]].concat();
    let mut running = crate::program::command(&place, &measuring).spawn().unwrap();
    let second = place.path("r/trials/002-baseline.r2");
    while !second.exists() && running.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::process::Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let kept = std::fs::read_to_string(place.path("r/scenario.toml")).unwrap();
    assert!(kept.contains("url = \"/\"") && kept.contains("Authorization: ***"), "{kept}");
    assert!(!kept.contains("S3CRET"), "{kept}");

    std::fs::write(place.path("shop.toml"), scenario(&other)).unwrap();
    let refused = run(&place, &["run", "--resume", "r"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("the scenario has changed since this run began"), "{}", refused.err);
    std::fs::write(place.path("shop.toml"), scenario(&shop).replace("# a comment", "")).unwrap();
    let resumed = run(&place, &["run", "--resume", "r"]);
    assert!(resumed.measured(), "{}{}", resumed.out, resumed.err);
    assert!(resumed.out.contains("met in every trial"), "{}", resumed.out);

    // A goal on an operation that the scenario does not have.
    let wrong = run(&place, &[&load[..], &["--goal", "buy:agian.p95 <= 1s"]].concat());
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(
        wrong.err.contains("there is no operation `buy:agian`\n  did you mean `buy:again`?"),
        "{}",
        wrong.err
    );

    // A part that the server's own times are.
    let of_server = ["http", "http://127.0.0.1:1/", "--server-timing", "queue", "--limit"];
    let wrong = run(&place, &[&of_server[..], &["get:server:queeu.p95 <= 1s"]].concat());
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains("did you mean `get:server:queue`?"), "{}", wrong.err);

    // In an experiment file, with its place.
    let goals = "goal = [\n  \"buy:home.p95 <= 1s\",\n  \"buy:agian.p95 <= 1s\",\n]\n";
    let scenario = "[workload.http]\nfrom = \"shop.toml\"\n[load]\nclosed = 1\n";
    for (experiment, place_of_goal) in [
        (
            format!("{goals}{scenario}"),
            "e.toml:3\n 3 |   \"buy:agian.p95 <= 1s\",\n   |   ^^^^^^^^^^^^^^^^^^^^^ did you mean",
        ),
        (
            format!("{scenario}limit = \"buy:agian.p95 <= 1s\"\n"),
            "e.toml:5\n 5 | limit = \"buy:agian.p95 <= 1s\"\n   |         ^^^^^^^^^^^^^^^^^^^^^ did you mean",
        ),
    ] {
        std::fs::write(place.path("e.toml"), experiment).unwrap();
        let wrong = run(&place, &["check", "e.toml"]);
        assert!(wrong.code == 2 && wrong.err.contains(place_of_goal), "{}", wrong.err);
    }
}

#[test]
fn a_load_without_verification_says_so_in_its_result() {
    let folder = testkit::Scratch::new();
    let (certificate, key) = testkit::SelfSigned::LOOPBACK.make(&folder, "own");
    let http = format!("ssl_certificate {}; ssl_certificate_key {};", certificate.display(), key.display());
    let page = "location = /page { return 200 hi; }";
    let Some(nginx) = testkit::Nginx::start(folder, "ssl", &http, page) else { return };
    let place = Place::new("insecure");
    let url = format!("https://localhost:{}/page", nginx.port);
    let load = ["--duration", "300ms", "--warm-up", "0s", "--run-dir"];
    let warning = "the certificate of the server was not verified";
    let ca = certificate.display().to_string();
    let trusted = run(&place, &[&["http", &url, "--ca", &ca][..], &load, &["trusted"]].concat());
    assert!(!trusted.out.contains(warning) && trusted.measured(), "{}{}", trusted.out, trusted.err);
    let open = run(&place, &[&["http", &url, "--insecure"][..], &load, &["open"]].concat());
    assert!(open.out.contains(warning) && open.measured(), "{}{}", open.out, open.err);
    assert!(run(&place, &["show", "open"]).out.contains(warning));
    let kept = std::fs::read_to_string(place.path("open/trials/001-baseline.r1/run.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["facts"]["tls.insecure"]["flag"], true, "{}", kept["facts"]);
    let refused = run(&place, &[&["http", &url][..], &load, &["refused"]].concat());
    assert!(
        refused.code == 2 && refused.err.contains("signed by no authority that is trusted"),
        "{}",
        refused.err
    );
}

#[test]
fn responses_that_no_request_asked_for_are_a_warning() {
    // The second response of each request comes while its connection is idle.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while matches!(reader.read_line(&mut line), Ok(1..)) {
                    for _ in 0..if line == "\r\n" { 2 } else { 0 } {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                    line.clear();
                }
            });
        }
    });
    let place = Place::new("unsolicited");
    let load = ["--rate", "20/s", "--duration", "1s", "--warm-up", "0s", "--run-dir", "r"];
    let done = run(&place, &[&["http", &url][..], &load].concat());
    let is_said = ["without a request", "bytes follow the end of the response"]
        .iter()
        .any(|words| done.out.contains(words));
    assert!(is_said, "{}{}", done.out, done.err);
}
