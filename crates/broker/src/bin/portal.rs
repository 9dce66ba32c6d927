//! A portal before brokers: the applications of a user in all farms.
//!
//! `POST /applications` with the credentials as XML asks the broker of each farm, one after another or all at once, and
//! returns one list. `GET /` is a light page. Requests beyond the worker threads wait in an application queue. A second
//! pool doubles both.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use plimsoll_broker::client::Client;
use plimsoll_broker::cpu::use_cpu;
use plimsoll_broker::flags::Flags;
use plimsoll_broker::service::{Pools, Reply, Request, Worker, serve};
use plimsoll_broker::xml;

const FLAGS: [&str; 8] =
    ["listen", "pools", "workers", "queue", "farms", "parallel", "page-ms", "broker-timeout-ms"];

/// The broker's path.
const BROKER_PATH: &str = "/scripts/wpnbr.dll";

/// How long a farm may take to start.
const FARM_TIME_MAX: Duration = Duration::from_secs(60);

/// The state of one worker: a connection to each farm.
struct Portal {
    farms: Vec<Client>,
    is_parallel: bool,
    /// CPU time of a page.
    page: Duration,
}

impl Portal {
    fn applications(&mut self, body: &[u8]) -> Reply {
        use_cpu(self.page);
        let answers: Vec<Result<Vec<String>, String>> = match self.is_parallel {
            false => self.farms.iter_mut().map(|farm| ask(farm, body)).collect(),
            true => std::thread::scope(|scope| {
                let asked: Vec<_> =
                    self.farms.iter_mut().map(|farm| scope.spawn(|| ask(farm, body))).collect();
                let failed = |_| Err("the request to a farm failed".to_string());
                asked.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
            }),
        };
        let mut names = Vec::new();
        for answer in answers {
            match answer {
                Ok(of_farm) => names.extend(of_farm),
                Err(why) => return Reply::xml(502, xml::write_error(&why)),
            }
        }
        names.sort();
        Reply::xml(200, xml::write_applications(names.iter().map(String::as_str)))
    }
}

/// The applications of one farm.
fn ask(farm: &mut Client, body: &[u8]) -> Result<Vec<String>, String> {
    match farm.post(BROKER_PATH, body) {
        Ok((200, answer)) => xml::read_applications(&answer),
        Ok((status, answer)) => {
            Err(format!("a broker answered with status {status}: {}", String::from_utf8_lossy(&answer)))
        }
        Err(error) => Err(format!("a broker does not answer: {error}")),
    }
}

impl Worker for Portal {
    fn reply(&mut self, request: &Request) -> Reply {
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/applications") => self.applications(&request.body),
            ("GET", "/") => {
                use_cpu(self.page);
                Reply::xml(200, "<html><body>portal</body></html>".into())
            }
            _ => Reply::xml(404, xml::write_error("GET / or POST /applications")),
        }
    }
}

/// Waits until a farm accepts connections, so that the portal can answer as soon as it listens itself.
fn wait_for(farm: &str) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(farm) {
            Ok(_) => return Ok(()),
            Err(error) if begin.elapsed() > FARM_TIME_MAX => return Err(format!("farm {farm}: {error}")),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("portal: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(words: impl Iterator<Item = String>) -> Result<(), String> {
    let flags = Flags::read(words, &FLAGS)?;
    let farms: Vec<&str> = flags.text("farms")?.split(',').filter(|farm| !farm.is_empty()).collect();
    let (is_parallel, page) = (flags.get("parallel", false)?, flags.milliseconds("page-ms", 0.5)?);
    let timeout = flags.milliseconds("broker-timeout-ms", 120e3)?;
    let pools = Pools {
        count: flags.get("pools", 1)?,
        workers: flags.get("workers", 48)?,
        queue_max: flags.get("queue", 100_000)?,
    };
    let text = |error: std::io::Error| error.to_string();
    for farm in &farms {
        wait_for(farm)?;
    }
    let listener = TcpListener::bind(flags.text("listen")?).map_err(text)?;
    println!("listening on {}", listener.local_addr().map_err(text)?);
    let make = || {
        let farms = farms.iter().map(|address| Client::new(address, timeout)).collect();
        Ok(Portal { farms, is_parallel, page })
    };
    serve(&listener, &pools, make).map_err(text)
}
