//! An XML broker: which applications may a user start?
//!
//! `POST /scripts/wpnbr.dll` with credentials returns the applications of the user. `POST /cache/rebuild` fills the cache
//! from the database again. A request needs, one after the other: CPU time to check the credentials, four or more round
//! trips to the directory (find the user, bind, the groups, the groups of each level of groups), CPU time to search the
//! cache, or one query of the database without a cache, and CPU time to write the answer. `--wait-ms` makes it wait for
//! something else besides.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

mod catalogue;
mod directory;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_broker::cpu::use_cpu;
use plimsoll_broker::flags::Flags;
use plimsoll_broker::service::{Pools, Reply, Request, Worker, serve};
use plimsoll_broker::xml;

use catalogue::{Cache, Database};
use directory::{Directory, Place, Refusal};

const FLAGS: [&str; 15] = [
    "listen",
    "workers",
    "queue",
    "directory",
    "base",
    "bind-dn",
    "bind-password",
    "database",
    "cache",
    "rebuild-batch",
    "rebuild-every-s",
    "credentials-ms",
    "search-ms",
    "reply-ms",
    "wait-ms",
];

/// CPU time of the steps of a request.
#[derive(Clone, Copy, Debug)]
struct Steps {
    credentials: Duration,
    search: Duration,
    reply: Duration,
    /// Time in which the worker waits for something else and uses no CPU.
    wait: Duration,
}

/// The state of one worker.
struct Broker {
    steps: Steps,
    directory: Directory,
    database: Database,
    /// None where each request asks the database.
    cache: Option<Cache>,
    rebuild_batch: usize,
}

impl Broker {
    fn applications(&mut self, body: &[u8]) -> Reply {
        let credentials = match xml::read_request(body) {
            Ok(credentials) => credentials,
            Err(why) => return Reply::xml(400, xml::write_error(&why)),
        };
        use_cpu(self.steps.credentials);
        let groups = match self.directory.user(&credentials.user, &credentials.password) {
            Ok((_, groups)) => groups,
            Err(Refusal::Credentials) => {
                return Reply::xml(401, xml::write_error("the credentials are wrong"));
            }
            Err(Refusal::Directory(error)) => {
                return Reply::xml(502, xml::write_error(&format!("the directory: {error}")));
            }
        };
        let found = match &self.cache {
            Some(cache) => {
                use_cpu(self.steps.search);
                Ok(search(cache, &groups))
            }
            None => self.database.applications_of(&groups),
        };
        match found {
            Ok(names) => {
                use_cpu(self.steps.reply);
                std::thread::sleep(self.steps.wait);
                Reply::xml(200, xml::write_applications(names.iter().map(String::as_str)))
            }
            Err(why) => Reply::xml(502, xml::write_error(&why)),
        }
    }

    fn rebuild(&mut self) -> Reply {
        match (&self.cache, self.database.all(self.rebuild_batch)) {
            (Some(cache), Ok(all)) => {
                let text = format!("<cache applications=\"{}\"/>", all.len());
                cache.replace(all);
                Reply::xml(200, text)
            }
            (None, _) => Reply::xml(404, xml::write_error("there is no cache")),
            (_, Err(why)) => Reply::xml(502, xml::write_error(&why)),
        }
    }
}

/// The applications of these groups, by name.
fn search(cache: &Cache, groups: &BTreeSet<String>) -> Vec<String> {
    let all = cache.read();
    let allowed =
        all.iter().filter(|application| application.groups.iter().any(|group| groups.contains(group)));
    let mut names: Vec<String> = allowed.map(|application| application.name.clone()).collect();
    names.sort();
    names
}

impl Worker for Broker {
    fn reply(&mut self, request: &Request) -> Reply {
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/scripts/wpnbr.dll") => self.applications(&request.body),
            ("POST", "/cache/rebuild") => self.rebuild(),
            _ => Reply::xml(404, xml::write_error("POST to /scripts/wpnbr.dll or /cache/rebuild")),
        }
    }
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("broker: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(words: impl Iterator<Item = String>) -> Result<(), String> {
    let flags = Flags::read(words, &FLAGS)?;
    let place = Place {
        server: flags.text("directory")?.parse().map_err(|error| format!("--directory: {error}"))?,
        base: flags.text("base")?.into(),
        bind_dn: flags.text("bind-dn")?.into(),
        bind_password: flags.text("bind-password")?.into(),
    };
    let database = flags.text("database")?;
    let has_cache = flags.get("cache", true)?;
    let rebuild_batch = flags.get("rebuild-batch", 1)?;
    let steps = Steps {
        credentials: flags.milliseconds("credentials-ms", 1.0)?,
        search: flags.milliseconds("search-ms", 1.0)?,
        reply: flags.milliseconds("reply-ms", 1.0)?,
        wait: flags.milliseconds("wait-ms", 0.0)?,
    };
    let pools =
        Pools { count: 1, workers: flags.get("workers", 16)?, queue_max: flags.get("queue", 100_000)? };
    let text = |error: std::io::Error| error.to_string();
    let cache = Cache::default();
    if has_cache {
        cache.replace(Database::new(database).map_err(text)?.all(rebuild_batch)?);
        let every = Duration::from_secs(flags.get("rebuild-every-s", 0)?);
        if !every.is_zero() {
            rebuild_regularly(cache.clone(), database, rebuild_batch, every).map_err(text)?;
        }
    }
    let listener = TcpListener::bind(flags.text("listen")?).map_err(text)?;
    println!("listening on {}", listener.local_addr().map_err(text)?);
    let make = || {
        Ok(Broker {
            steps,
            directory: Directory::new(place.clone()),
            database: Database::new(database)?,
            cache: has_cache.then(|| cache.clone()),
            rebuild_batch,
        })
    };
    serve(&listener, &pools, make).map_err(text)
}

/// Fills the cache at intervals. A database that does not answer leaves it as it is.
fn rebuild_regularly(cache: Cache, database: &str, batch: usize, every: Duration) -> std::io::Result<()> {
    let mut database = Database::new(database)?;
    let rebuild = move || loop {
        std::thread::sleep(every);
        match database.all(batch) {
            Ok(all) => cache.replace(all),
            Err(why) => eprintln!("broker: the cache is not rebuilt: {why}"),
        }
    };
    std::thread::Builder::new().name("rebuild".into()).spawn(rebuild).map(drop)
}
