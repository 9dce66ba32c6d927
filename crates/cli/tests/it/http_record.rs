//! `plimsoll http record` and `convert`: a session is recorded through the proxy, and sent again from the file.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use crate::program::{Place, command, run};

/// What a server got: method and path, cookie, body.
type Log = Arc<Mutex<Vec<(String, String, String)>>>;

/// One request of a connection: its first line, its cookie, its body.
fn request(reader: &mut impl BufRead) -> Option<(String, String, String)> {
    let (mut first, mut cookie, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        let lower = line.to_ascii_lowercase();
        if line.is_empty() {
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            return Some((first, cookie, String::from_utf8(body).ok()?));
        } else if first.is_empty() {
            first = line.trim_end_matches(" HTTP/1.1").to_string();
        } else if lower.starts_with("cookie: ") {
            cookie = line["cookie: ".len()..].to_string();
        } else if let Some(size) = lower.strip_prefix("content-length: ") {
            length = size.parse().ok()?;
        }
    }
}

/// A shop: `/` redirects to `/start` and sets a cookie, `/start` has a new token each time, `/login` wants it.
fn shop() -> (String, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let log = Log::default();
    let (own, shared) = (address.clone(), log.clone());
    std::thread::spawn(move || {
        let mut visits = 10_000;
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut stream = stream;
            while let Some((first, cookie, body)) = request(&mut reader) {
                let (status, fields, content) = match first.as_str() {
                    "GET /" => (
                        "302 Found",
                        format!("Location: http://{own}/start\r\nSet-Cookie: sid=s3ss10n; Path=/\r\n"),
                        String::new(),
                    ),
                    "GET /start" => {
                        visits += 1;
                        ("200 OK", String::new(), format!("<input name=\"csrf\" value=\"tok-{visits}-abc\">"))
                    }
                    "POST /login" if body.starts_with(&format!("csrf=tok-{visits}-abc&")) => {
                        ("200 OK", String::new(), "welcome".into())
                    }
                    _ => ("403 Forbidden", String::new(), String::new()),
                };
                shared.lock().unwrap().push((first, cookie, body));
                let length = content.len();
                if write!(stream, "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\n\r\n{content}")
                    .is_err()
                {
                    break;
                }
            }
        }
    });
    (address, log)
}

/// Sends a request to the proxy, and returns the answer.
fn send(proxy: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(proxy).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request}\r\nHost: {proxy}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_recorded_session_is_sent_again() {
    let place = Place::new("http-record");
    let (shop, log) = shop();
    let target = format!("http://{shop}");
    let arguments = ["http", "record", "--listen", "127.0.0.1:0", "--target", &target, "-o", "shop.toml"];
    let mut recorder =
        command(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(recorder.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    let proxy = line.split("http://").last().unwrap().split(';').next().unwrap().to_string();

    let moved = send(&proxy, "GET / HTTP/1.1", "");
    assert!(moved.to_ascii_lowercase().contains(&format!("location: http://{proxy}/start\r\n")), "{moved}");
    let start = send(&proxy, "GET /start HTTP/1.1\r\nCookie: sid=s3ss10n", "");
    let token = start.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
    let login = format!("csrf={token}&password=S3CRET");
    let form = "Content-Type: application/x-www-form-urlencoded";
    let answer = send(&proxy, &format!("POST /login HTTP/1.1\r\nCookie: sid=s3ss10n\r\n{form}"), &login);
    assert!(answer.ends_with("welcome"), "{answer}");
    let signalled = std::process::Command::new("kill").arg(recorder.id().to_string()).status().unwrap();
    assert!(signalled.success());
    let (mut rest, mut progress) = (String::new(), String::new());
    printed.read_to_string(&mut rest).unwrap();
    recorder.stderr.take().unwrap().read_to_string(&mut progress).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0), "{rest}{progress}");
    assert!(rest.contains("1 transaction, 2 requests"), "{rest}");
    assert!(progress.contains("POST   /login  200"), "{progress}");
    let written = std::fs::read_to_string(place.path("shop.toml")).unwrap();
    assert!(!written.contains("S3CRET") && written.contains("${env:RECORDED_PASSWORD}"), "{written}");

    // The same requests arrive again, with the token of the new response and the cookie of the jar.
    let recorded = std::mem::take(&mut *log.lock().unwrap());
    let load =
        ["http", "--from", "shop.toml", "--concurrency", "1", "--warm-up", "0s", "--duration", "300ms"];
    let replay = command(&place, &[&load[..], &["--run-dir", "again", "--json", "--quiet"]].concat())
        .env("RECORDED_PASSWORD", "S3CRET")
        .output()
        .unwrap();
    let document: serde_json::Value = serde_json::from_slice(&replay.stdout).unwrap();
    let failed: u64 = document["trials"][0]["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| operation["failed"].as_u64().unwrap())
        .sum();
    assert_eq!(failed, 0, "{}", String::from_utf8_lossy(&replay.stderr));
    let without_token = |log: &[(String, String, String)]| -> Vec<(String, String, String)> {
        let cut = |body: &str| body.split_once('&').map_or(String::new(), |(_, rest)| rest.to_string());
        log.iter().map(|(first, cookie, body)| (first.clone(), cookie.clone(), cut(body))).collect()
    };
    let log = log.lock().unwrap();
    assert_eq!(without_token(&log[..recorded.len()]), without_token(&recorded));
    assert_ne!(log[2].2, recorded[2].2, "the token is that of the new response");

    // A file is replaced only if that was requested.
    let again = run(&place, &arguments);
    assert_eq!(again.code, 2, "{}", again.out);
    assert!(again.err.contains("shop.toml exists already"), "{}", again.err);
}

#[test]
fn files_of_other_programs_are_converted() {
    let place = Place::new("http-convert");
    let entry = |second: u32, url: &str| {
        serde_json::json!({
            "startedDateTime": format!("2026-03-01T12:00:{second:02}Z"), "time": 100,
            "request": { "method": "GET", "url": url, "headers": [{ "name": "X-Api-Key", "value": "S3CRET" }] },
            "response": { "status": 200, "headers": [], "content": {} }
        })
    };
    let entries = [
        entry(0, "http://shop/"),
        entry(1, "http://ads/"),
        entry(2, "http://ads/"),
        entry(10, "http://shop/b"),
    ];
    let har = serde_json::json!({ "log": { "version": "1.2", "entries": entries } });
    std::fs::write(place.path("session.har"), har.to_string()).unwrap();
    let scaled = ["--think-scale", "0.5", "--think-max", "4s"];
    let done = run(&place, &[&["http", "convert", "session.har", "-o", "shop.toml"][..], &scaled].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(
        done.out.contains("    2  left out: ads is another site than shop (entries 2, 3)"),
        "{}",
        done.out
    );
    let written = std::fs::read_to_string(place.path("shop.toml")).unwrap();
    assert!(written.contains("think = \"4s\"") && !written.contains("S3CRET"), "{written}");

    // The load of wcctl, with explicit flags first.
    std::fs::write(
        place.path("home.ubr"),
        "scenario { warmup = 2; duration = 9; transaction { id = \"home\"; request { url = \"/\"; } } }",
    )
    .unwrap();
    let shop = crate::http::serve();
    let settings = format!("settings {{ server = \"{shop}\"; clients = 2; virtualclients = 2; }}");
    std::fs::write(place.path("settings.ubr"), settings).unwrap();
    let load = [
        "http",
        "--from",
        "home.ubr",
        "--wcat-settings",
        "settings.ubr",
        "--warm-up",
        "0s",
        "--duration",
        "200ms",
    ];
    let run_of = run(&place, &[&load[..], &["--run-dir", "wcat", "--quiet"]].concat());
    assert!(run_of.measured() || run_of.code == 99, "{}", run_of.err);
    let experiment = std::fs::read_to_string(place.path("wcat/experiment.toml")).unwrap();
    for line in ["closed = 4", "warm_up = \"0s\"", "measure = \"200ms\"", "wcat_settings = \"settings.ubr\""]
    {
        assert!(experiment.contains(line), "{line}: {experiment}");
    }
    let wrong =
        run(&place, &["http", "--from", "shop.toml", "--third-party", "--wcat-settings", "settings.ubr"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("--third-party applies to a recorded session (.har)"), "{}", wrong.err);
    assert!(wrong.err.contains("--wcat-settings applies to a scenario of WCAT (.ubr)"), "{}", wrong.err);
}
