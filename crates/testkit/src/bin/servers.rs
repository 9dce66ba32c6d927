//! A directory with the entries of a file, and a database server, on loopback, for external measurements. They run
//! until standard input ends.
//!
//! `servers --ldif people.ldif --setting shared_buffers=1GB` prints a line `NAME VALUE` for each property, and
//! `ready` as the last.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;

use plimsoll_testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, SlapdOptions};
use plimsoll_testkit::{Postgres, Slapd};

fn main() -> ExitCode {
    match serve(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("servers: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mut words: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut ldif, mut settings) = (String::new(), Vec::new());
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        match word.as_str() {
            "--ldif" => {
                ldif = std::fs::read_to_string(&value).map_err(|error| format!("{value}: {error}"))?;
            }
            "--setting" => settings.push(value),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    // Free a moment ago; when another took it meanwhile, the server says so and does not start.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    let port = listener.map_err(|error| format!("no free port: {error}"))?.port();
    settings.extend(["listen_addresses=127.0.0.1".into(), format!("port={port}")]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let database =
        Postgres::start(&settings).ok_or("PostgreSQL is not installed (apt-get install postgresql)")?;
    let file = database.folder().join("data/postmaster.pid");
    let process = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let directory = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() })
        .ok_or("slapd is not installed (apt-get install slapd)")?;
    let reported = [
        ("directory-url", directory.url()),
        ("directory-process", directory.process_id().to_string()),
        ("directory-base", SUFFIX.into()),
        ("directory-dn", ROOT_DN.into()),
        ("directory-password", ROOT_PASSWORD.into()),
        ("database-host", Ipv4Addr::LOCALHOST.to_string()),
        ("database-port", port.to_string()),
        ("database-user", "plimsoll".into()),
        ("database-process", process.lines().next().unwrap_or_default().into()),
        ("database-folder", database.folder().display().to_string()),
    ];
    reported.iter().for_each(|(name, value)| println!("{name} {value}"));
    println!("ready");
    let _ = std::io::stdout().flush();
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
    Ok(())
}
