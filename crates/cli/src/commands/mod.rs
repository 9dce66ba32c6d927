//! One module per command, or per family of commands that share a subject.

pub mod demo;
pub mod doctor;
pub mod experiment;
pub mod fio;
pub mod manual;
pub mod record;
pub mod restore;
pub mod sqlio;
pub mod watch;

use clap::ArgMatches;

/// A required argument. Clap has refused a command line without it.
pub fn text<'a>(matches: &'a ArgMatches, id: &str) -> &'a str {
    matches.get_one::<String>(id).map_or("", String::as_str)
}
