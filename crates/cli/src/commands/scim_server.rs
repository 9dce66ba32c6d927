//! `plimsoll metadir scim-server`: a service to try an agent on, and the system under test of experiments.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use scim::{Durability, Options, Server};

use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// How often it looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Its arguments.
pub(crate) fn arguments() -> Command {
    Command::new("scim-server")
        .about("A service that speaks SCIM 2.0, with its users in a file of SQLite: to try an agent or an experiment on")
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("HOST:PORT")
                .default_value("127.0.0.1:8080")
                .help("Where it listens; port 0 takes one that is free"),
        )
        .arg(
            Arg::new("database")
                .long("database")
                .value_name("FILE")
                .default_value("scim.db")
                .help("Its users and groups; made when it is not there"),
        )
        .arg(
            Arg::new("durability")
                .long("durability")
                .value_name("WHEN")
                .default_value("full")
                .value_parser(["full", "off"])
                .help("full: a change waits for the disk before it is answered; off: the kernel writes it when it likes"),
        )
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .help("The bearer token that requests must show; without it, none"),
        )
}

/// Serves until it is told to end.
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
    if let Some(path) = matches.get_one::<String>("token-file") {
        let token = std::fs::read_to_string(path)
            .map_err(|error| Failure::failed(format!("{path} cannot be read: {error}")))?;
        options.token = Some(token.trim().into());
    }
    let (listen, database) = (options.listen.clone(), options.database.display().to_string());
    let server = Server::start(options).map_err(|error| {
        Failure::failed(format!("no service at {listen} with {database}: {error}\n  is the port free, and the file a database of its own?"))
    })?;
    output::result(&format!("listening on {}", server.url()));
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
    drop(server);
    Ok(Exit::Good)
}
