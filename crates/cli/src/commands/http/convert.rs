//! `plimsoll http convert`: a recorded session or a scenario of WCAT as a scenario file.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use model::experiment::WorkloadInfo;
use model::{Level, Problem, Problems, Settings};
use workloads::http::from::{self, Format};
use workloads::http::scenario::{BodyFile, Note};

use super::super::text;
use super::scenario_file::{notes, overwrite, refuse_existing, summary, write};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::one_off::setting_flag;
use crate::output;

/// The settings that say how a file is read.
pub(super) const SETTINGS: [&str; 4] = ["third_party", "think_scale", "think_max", "wcat_settings"];

/// Its arguments.
pub(super) fn arguments(info: &WorkloadInfo) -> Command {
    let mut command = Command::new("convert")
        .about("Write a scenario file from a recorded session (.har) or a scenario of WCAT (.ubr)")
        .after_help(
            "Examples:\n  \
             plimsoll http convert session.har -o shop.toml\n  \
             plimsoll http convert session.har --think-scale 0.5 --think-max 10s -o shop.toml\n  \
             plimsoll http convert home.ubr --wcat-settings settings.ubr -o home.toml\n\n\
             Credentials are replaced by placeholders such as ${env:HAR_PASSWORD} and never written.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("The recorded session or scenario of WCAT"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .help("The scenario file to write [default: print it]"),
        )
        .arg(overwrite())
        .arg(
            Arg::new("url")
                .long("url")
                .value_name("URL")
                .help("The server of a scenario of WCAT [default: that of its settings file, or localhost]"),
        );
    for setting in info.settings.iter().filter(|setting| SETTINGS.contains(&setting.name)) {
        command = command.arg(setting_flag(setting));
    }
    command
}

/// Converts.
pub(super) fn run(info: &WorkloadInfo, matches: &ArgMatches) -> Result<Exit, Failure> {
    let file = Path::new(text(matches, "file"));
    let settings = settings(info, matches).map_err(Failure::usage)?;
    let mut import = from::import(&settings)
        .map_err(|found| Problems(found.0.into_iter().map(super::in_flags).collect()))
        .map_err(Failure::usage)?
        .import;
    let is_wcat = Format::of(file) == Format::Wcat;
    if is_wcat {
        import = import.without_credentials("WCAT_");
    }
    let place = if is_wcat { "line" } else { "entry" };
    let Some(target) = matches.get_one::<String>("output").map(Path::new) else {
        output::verbatim(&import.file.write());
        if !import.notes.is_empty() {
            output::say(&format!(
                "{} notes:\n{}",
                import.notes.len(),
                notes(&import.notes, place).trim_end()
            ));
        }
        return Ok(Exit::Good);
    };
    refuse_existing(target, matches.get_flag("overwrite"))?;
    let requests = import.file.transactions.iter().flat_map(|transaction| &transaction.requests);
    let mut bodies = requests.map(|request| &request.body);
    if file.parent() != target.parent() && bodies.any(|body| matches!(body, BodyFile::File { .. })) {
        let what = format!("the paths of `body_file` are relative to the folder of {}", file.display());
        import.notes.push(Note { number: 0, what, help: "write the scenario file to that folder".into() });
    }
    write(target, &import)?;
    output::result(&summary(target, &import, place));
    Ok(Exit::Good)
}

/// The settings of the workload that these arguments give.
fn settings(info: &WorkloadInfo, matches: &ArgMatches) -> Result<Settings, Problems> {
    let mut problems = Problems::new();
    let mut settings = Settings::defaults(info.settings);
    settings.set("from", Level::Text(text(matches, "file").into()));
    for setting in
        info.settings.iter().filter(|setting| SETTINGS.contains(&setting.name) || setting.name == "url")
    {
        let flag = format!("--{}", setting.name.replace('_', "-"));
        let level = crate::one_off::level_of(matches, setting.name, &flag, setting, &mut problems);
        if let Some(level) = level {
            settings.set(setting.name, level);
        }
    }
    if let Some(url) = matches.get_one::<String>("url")
        && Format::of(Path::new(text(matches, "file"))) != Format::Wcat
    {
        let what = format!("--url {url} applies to a scenario of WCAT (.ubr)");
        problems.push(Problem::new(what, "leave --url out"));
    }
    problems.or(settings)
}
