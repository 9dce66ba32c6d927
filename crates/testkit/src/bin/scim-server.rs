//! A service that speaks SCIM 2.0, with its users and groups in a database of SQLite: a target for experiments.
//!
//! `scim-server --listen 127.0.0.1:8080 --database scim.db --durability full --token-file token`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::process::ExitCode;

use plimsoll_testkit::scim::{Durability, Options, Server};

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("scim-server: {why}");
            return ExitCode::from(2);
        }
    };
    match Server::start(options) {
        Ok(server) => {
            println!("listening on {}", server.url());
            server.wait();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("scim-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { listen: String::new(), durability: Durability::Full, ..Options::new("") };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        match word.as_str() {
            "--listen" => options.listen = value,
            "--database" => options.database = value.into(),
            "--durability" => {
                options.durability = match value.as_str() {
                    "full" => Durability::Full,
                    "off" => Durability::Off,
                    _ => return Err(format!("--durability {value}: write full or off")),
                }
            }
            "--token-file" => {
                let text =
                    std::fs::read_to_string(&value).map_err(|error| format!("{word} {value}: {error}"))?;
                options.token = Some(text.trim().into());
            }
            _ => return Err(format!("unknown option {word}")),
        }
    }
    for (name, is_missing) in [
        ("--listen HOST:PORT", options.listen.is_empty()),
        ("--database FILE", options.database.as_os_str().is_empty()),
    ] {
        if is_missing {
            return Err(format!("{name} is missing"));
        }
    }
    Ok(options)
}
