//! Measures the requests per second that the service answers, over a few persistent connections.
//!
//! `cargo run --release -p plimsoll-scim --example rate [SECONDS]`

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "an example may stop at the first surprise")]

use plimsoll_scim as scim;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of concurrent connections, as in an export by default.
const CONNECTIONS: usize = 4;

fn main() {
    let seconds = std::env::args().nth(1).map_or(3.0, |text| text.parse().expect("seconds"));
    let folder = std::env::temp_dir().join(format!("plimsoll-scim-rate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let server = scim::Server::start(scim::Options::new(folder.join("scim.db"))).unwrap();
    let address = server.url().trim_start_matches("http://").split('/').next().unwrap().to_string();
    let create = |at: u64| {
        let body = format!(
            "{{\"userName\":\"u{at}\",\"externalId\":\"E{at}\",\"displayName\":\"Name {at}\",\"name\":{{\"givenName\":\"G{at}\",\"familyName\":\"F{at}\"}},\"emails\":[{{\"type\":\"work\",\"value\":\"u{at}@plim.example\"}}]}}"
        );
        format!(
            "POST /scim/v2/Users HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/scim+json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let get = |path: String| format!("GET /scim/v2{path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    print(&address, seconds, "POST /Users", &create);
    print(&address, seconds, "GET /Users?filter=userName+eq+...", &|at| {
        get(format!("/Users?filter=userName+eq+%22u{}%22", at % 1000))
    });
    print(&address, seconds, "GET /ServiceProviderConfig", &|_| get("/ServiceProviderConfig".into()));
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn print(address: &str, seconds: f64, name: &str, request: &(dyn Fn(u64) -> String + Sync)) {
    let (number, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut input = BufReader::new(&stream);
                while !is_over.load(Ordering::Relaxed) {
                    let text = request(number.fetch_add(1, Ordering::Relaxed));
                    (&stream).write_all(text.as_bytes()).unwrap();
                    answer(&mut input);
                }
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        is_over.store(true, Ordering::Relaxed);
    });
    let rate = number.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    println!("{name}: {rate:.0} requests/s");
}

fn answer(input: &mut BufReader<&TcpStream>) {
    let (mut line, mut length) = (String::new(), 0);
    let mut is_first = true;
    while line != "\r\n" {
        line.clear();
        assert!(input.read_line(&mut line).unwrap() > 0, "the service closed the connection");
        assert!(!is_first || line.starts_with("HTTP/1.1 20"), "{line}");
        is_first = false;
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).unwrap();
}
