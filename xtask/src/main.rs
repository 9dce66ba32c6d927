//! Project chores. `cargo xtask` lists them.
//!
//! Each chore is a function from the repository to a list of [`fault::Fault`]s, so that the ones that guard a promise
//! of ARCHITECTURE.md run as tests too.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod arrows;
mod bench;
mod calibrate;
mod fault;
mod files;
mod fio_examples;
mod licences;
mod lies;
mod manual;
mod metadata;
mod modules;
mod package;
mod program;
mod tidy;

use std::process::ExitCode;

use fault::Fault;
use files::Repository;

/// One chore.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&Repository, &[String]) -> Result<Vec<Fault>, String>,
}

static CHORES: &[Task] = &[
    Task {
        name: "arrows",
        about: "which crate, and which module of analysis, may use which",
        run: |repository, _| Ok([arrows::check(repository)?, modules::check(repository)?].concat()),
    },
    Task {
        name: "licences",
        about: "the licence of every dependency, compared with the list in deny.toml",
        run: |repository, _| licences::check(repository),
    },
    Task {
        name: "tidy",
        about: "registration, handbook, links, file lengths, purity",
        run: |repository, _| tidy::check(repository),
    },
    Task {
        name: "manual",
        about: "regenerate docs/handbook/reference.md; --check only compares",
        run: manual::run,
    },
    Task {
        name: "calibrate",
        about: "how often the verdict is right, on systems whose limit is planted or shown by taking its cause away",
        run: calibrate::run,
    },
    Task {
        name: "lies",
        about: "whether starved, throttled, failing, short and unsteady runs are noticed, and honest ones left alone",
        run: lies::run,
    },
    Task {
        name: "fio-examples",
        about: "which of fio's example jobs in a folder run, and why the others are refused; --run drives a scratch file",
        run: fio_examples::run,
    },
    Task {
        name: "package",
        about: "the static executable, the Debian package, the container, the bill of materials and checksums",
        run: package::run,
    },
    Task { name: "bench", about: "measure against the peers; arguments select by name", run: bench::run },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(chore) = arguments.first().and_then(|name| CHORES.iter().find(|chore| chore.name == name))
    else {
        eprintln!("cargo xtask CHORE, where CHORE is one of");
        for chore in CHORES {
            eprintln!("  {:12} {}", chore.name, chore.about);
        }
        return ExitCode::from(2);
    };
    match Repository::find().and_then(|repository| (chore.run)(&repository, &arguments[1..])) {
        Ok(faults) if faults.is_empty() => {
            println!("{}: no faults", chore.name);
            ExitCode::SUCCESS
        }
        Ok(faults) => {
            for fault in &faults {
                eprintln!("{fault}");
            }
            eprintln!("{}: {} found", chore.name, faults.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("error: {}: {why}", chore.name);
            ExitCode::FAILURE
        }
    }
}
