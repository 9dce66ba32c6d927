//! `plimsoll audit`: whether the figures of a result fit each other, and what speaks against them.

use std::fs::File;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use files::private::OwnFolder;
use foreign::{Content, Options};
use model::audit::{Audit, Severity};
use model::figure::{Figure, Quantity};

use super::import;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Its arguments.
pub(crate) fn arguments(json: Arg) -> Command {
    Command::new("audit")
        .about("Check whether the figures of a result fit each other, and what speaks against them")
        .after_help(
            "A result is a run, the output of another tool, a table of results, or figures that you write down:\n  \
             plimsoll audit last\n  \
             plimsoll audit fio.json\n  \
             plimsoll audit results.csv --limit 118MB/s\n\
             Exit codes: 0 nothing was found, 98 there are reasons to doubt it, 99 figures contradict each other.",
        )
        .arg(
            Arg::new("result")
                .value_name("FILE|RUN")
                .num_args(1..)
                .required(true)
                .help("Run directories, `last`, or files: see `plimsoll import --formats`"),
        )
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("RATE")
                .action(ArgAction::Append)
                .help("What the device or the link can do at most: 140/s, 118MB/s, 1Gbit/s"),
        )
        .arg(json)
}

/// `plimsoll audit`.
pub(crate) fn audit(matches: &ArgMatches) -> Result<Exit, Failure> {
    let mut limits = Vec::new();
    for text in matches.get_many::<String>("limit").into_iter().flatten() {
        limits.push(limit(text)?);
    }
    let names: Vec<&String> = matches.get_many::<String>("result").into_iter().flatten().collect();
    let mut worst = None;
    for name in &names {
        let found = of(name, &limits)?;
        worst = worst.max(found.severity());
        if matches.get_flag("json") {
            let text = serde_json::to_string_pretty(&report::audit_json(&found)).map_err(Failure::failed)?;
            output::json(&text);
        } else {
            output::page(&report::audit(&found, output::terminal(false)));
        }
    }
    Ok(match worst {
        None => Exit::Good,
        Some(Severity::Doubtful) => Exit::Inconclusive,
        Some(Severity::Contradiction) => Exit::GoalMissed,
    })
}

fn limit(text: &str) -> Result<Figure, Failure> {
    let of = |quantity| Figure::parse(quantity, text);
    of(Quantity::Throughput).or_else(|_| of(Quantity::Rate)).map_err(|_| {
        Failure::usage(format!(
            "error: --limit {text}: write operations or bytes per second, such as 140/s or 118MB/s"
        ))
    })
}

fn of(name: &str, limits: &[Figure]) -> Result<Audit, Failure> {
    let path = Path::new(name);
    if path.is_dir() || !path.exists() {
        let (_, study, document) = super::record::load(name)?;
        return Ok(analysis::audit::of_study(name, &study, &document, limits));
    }
    let fault = |fault: foreign::Fault| Failure::usage(import::shown(name, &fault));
    let file = File::open(path).map_err(|error| Failure::usage(format!("error: {name}: {error}")))?;
    let (format, content) = foreign::open(Box::new(file), &Options::default()).map_err(fault)?;
    let content = match content {
        Content::FioLog(log) => {
            let mut runs = Vec::new();
            foreign::join_fio_logs(vec![(name.to_string(), *log)], &mut runs)
                .map_err(|(_, what)| fault(what))?;
            Content::Load(runs.into_iter().map(|(_, run)| run).collect())
        }
        other => other,
    };
    match content {
        Content::Figures(results) => Ok(analysis::audit::of_figures(name, &results, limits)),
        Content::Load(runs) => {
            // Read as an import is, in a folder that is removed.
            let parent = std::env::temp_dir();
            let folder = OwnFolder::new(&parent, "plimsoll-audit-").map_err(|error| {
                Failure::failed(format!("error: no temporary folder in {}: {error}", parent.display()))
            })?;
            let loads: Vec<_> = runs.into_iter().map(|run| (name.to_string(), run)).collect();
            let study = import::study_of_loads(&folder.path().join("run"), &loads)?;
            let document = analysis::result(&study);
            Ok(analysis::audit::of_study(name, &study, &document, limits))
        }
        Content::Counters(_) | Content::FioLog(_) => Err(Failure::usage(format!(
            "error: {name}: {} has counters and no load, so there is no result to audit\n  \
             name the result, or see the counters with: plimsoll import {name}",
            format.name
        ))),
    }
}
