//! One module per command, or per family of commands that share a subject.

pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod delay;
pub(crate) mod demo;
pub(crate) mod diskspd;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod experiment;
pub(crate) mod export;
pub(crate) mod fio;
pub(crate) mod gate;
pub(crate) mod generate;
pub(crate) mod http;
pub(crate) mod import;
pub(crate) mod machines;
pub(crate) mod manual;
pub(crate) mod metadir;
mod metadir_changes;
mod metadir_differences;
pub(crate) mod metadir_import_mim;
pub(crate) mod metadir_init;
mod metadir_run;
pub(crate) mod metadir_search;
mod metadir_serve;
pub(crate) mod metadir_trail;
mod metadir_watch;
mod other_tool;
pub(crate) mod record;
pub(crate) mod restore;
pub(crate) mod scim_server;
pub(crate) mod size;
pub(crate) mod sqlio;
pub(crate) mod trace;
pub(crate) mod watch;
pub(crate) mod wire;

use clap::ArgMatches;

/// More than any experiment, job file or configuration of another tool.
pub(crate) const NAMED_TEXT_BYTES_MAX: u64 = 16 << 20;

/// A required argument. Clap has refused a command line without it.
pub(crate) fn text<'a>(matches: &'a ArgMatches, id: &str) -> &'a str {
    matches.get_one::<String>(id).map_or("", String::as_str)
}
