//! `plimsoll metadir scim-server`: a test service for agents, and a system under test for experiments.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use scim::{Durability, Options, Server, StartError};

use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Interval of checks for a stop request.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Its arguments.
pub(crate) fn arguments() -> Command {
    Command::new("scim-server")
        .about("A SCIM 2.0 test server with an SQLite database, for agents and experiments")
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("HOST:PORT")
                .default_value("127.0.0.1:8080")
                .help("Address to listen on; port 0 selects a free port. A token is required if other hosts can connect"),
        )
        .arg(
            Arg::new("database")
                .long("database")
                .value_name("FILE")
                .default_value("scim.db")
                .help("Database of users and groups; created with mode 0600 if it does not exist"),
        )
        .arg(
            Arg::new("durability")
                .long("durability")
                .value_name("WHEN")
                .default_value("full")
                .value_parser(["full", "off"])
                .help("full: the server flushes each change to disk before it responds; off: the kernel decides when to write"),
        )
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .conflicts_with("token-env")
                .help("File with the bearer token that requests must send, readable only by this user. Default: no token"),
        )
        .arg(
            Arg::new("token-env")
                .long("token-env")
                .value_name("NAME")
                .help("Environment variable with the token, instead of a file"),
        )
        .arg(
            Arg::new("allow-host")
                .long("allow-host")
                .value_name("NAME")
                .action(ArgAction::Append)
                .help("Additional host name that clients may use, besides the address and localhost; may be repeated"),
        )
}

/// Serves until it is stopped.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    // Watched by its own name.
    let _ = rustix::thread::set_name(c"scim-server");
    let interrupted = crate::interrupt::flag();
    let mut options = Options::new(text(matches, "database"));
    options.listen = text(matches, "listen").into();
    options.durability = match text(matches, "durability") {
        "off" => Durability::Off,
        _ => Durability::Full,
    };
    options.hosts = matches.get_many("allow-host").into_iter().flatten().cloned().collect();
    options.token = token(matches)?;
    let server = Server::start(options).map_err(refused)?;
    output::result(&format!("listening on {}", server.url()));
    while !interrupted.load(Ordering::Relaxed) && !output::is_lost() {
        std::thread::sleep(LOOK_EVERY);
    }
    drop(server);
    Ok(Exit::Good)
}

/// The token, from a place that is not visible in the process list.
fn token(matches: &ArgMatches) -> Result<Option<String>, Failure> {
    let text = match (matches.get_one::<String>("token-file"), matches.get_one::<String>("token-env")) {
        (Some(path), _) => files::secret::read(Path::new(path))
            .map_err(|error| Failure::failed(format!("the token in {path} cannot be read: {error}")))?,
        (None, Some(name)) => std::env::var(name).map_err(|_| {
            Failure::failed(format!("the environment variable {name} is not set, or is not UTF-8"))
        })?,
        (None, None) => return Ok(None),
    };
    Ok(Some(text.trim().into()))
}

fn refused(error: StartError) -> Failure {
    let help = match &error {
        StartError::Listen(..) => "choose an address of this host and a free port with --listen",
        StartError::NoToken(_) => {
            "write a token to a file that only you can read, and name it with --token-file; or listen only on this host: --listen 127.0.0.1:8080"
        }
        StartError::UnusableToken => {
            "write a token to the file: `head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE`"
        }
        StartError::Database(..) => "name a file in a writable folder with --database",
        StartError::Thread(_) => "allow this user more processes: ulimit -u",
    };
    Failure::failed(format!("{error}\n  {help}"))
}
