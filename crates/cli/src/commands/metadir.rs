//! `plimsoll metadir`: the metadirectory.

use std::path::Path;
use std::sync::{Arc, Mutex};

use clap::{Arg, ArgAction, ArgMatches, Command};
use metadir::Interrupt;
use metadir::config::{Config, Mistake, StepKind, Threshold, without_secrets};
use metadir::metadirectory::{Link, Metadirectory};
use metadir::preview::Difference;
use metadir::stage::StepError;
use metadir::store::{Activity, StepRecord, StoreError};
use model::problem::{Problem, Problems, Warning};
use report::table::{Cell, Table};
use report::text::Quantity;
use serde_json::json;

use super::metadir_differences::{Changes, change_json, held};
use super::metadir_run::{Lines, carry_out, steps, titles};
use super::{
    metadir_changes, metadir_import_mim, metadir_init, metadir_run, metadir_search, metadir_serve,
    metadir_trail, scim_server, text,
};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// More than any configuration.
const CONFIGURATION_BYTES_MAX: u64 = 64 << 20;
/// Its arguments.
pub(crate) fn arguments(json: impl Fn() -> Arg) -> Command {
    let config = || {
        Arg::new("config")
            .long("config")
            .value_name("FILE")
            .default_value("metadirectory.toml")
            .help("The configuration file")
    };
    let what = || {
        let steps = StepKind::NAMES.map(|(name, _)| name).join(", ");
        Arg::new("what")
            .value_name("RUN | AGENT STEP")
            .num_args(1..=2)
            .required(true)
            .help(format!("Name of a run profile, or an agent and a step: {steps}"))
    };
    let agent = |id: &'static str, name: &'static str| {
        Arg::new(id).value_name(name).required(true).help("A management agent")
    };
    let key = |id: &'static str, name: &'static str| {
        Arg::new(id).value_name(name).required(true).help("The name or anchor of an object of this agent")
    };
    let allow_deletes = || {
        Arg::new("allow-deletes")
            .long("allow-deletes")
            .value_name("N")
            .value_parser(clap::value_parser!(u64))
            .help("Limit of deletions for this run only, instead of those of [safety]")
    };
    let allow_updates = || {
        Arg::new("allow-updates")
            .long("allow-updates")
            .value_name("N")
            .value_parser(clap::value_parser!(u64))
            .help("Limit of changed objects, and of changed and lost values of each attribute, for this run only")
    };
    Command::new("metadir")
        .about("The metadirectory: synchronize identities of several systems")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(metadir_init::arguments())
        .subcommand(metadir_import_mim::arguments(json()))
        .subcommand(
            Command::new("check")
                .about("Validate a configuration, without changing anything")
                .arg(Arg::new("file").value_name("FILE").conflicts_with("config").help("The same as --config FILE"))
                .arg(config()),
        )
        .subcommand(
            Command::new("run")
                .about("Execute a run profile of the configuration, or one step of an agent")
                .arg(what())
                .arg(allow_deletes())
                .arg(allow_updates())
                .arg(config())
                .arg(
                    Arg::new("progress")
                        .long("progress")
                        .action(ArgAction::SetTrue)
                        .help("For programs: print a line to standard error after each commit, `progress AGENT STEP OBJECTS`, with `done` at the end of the step"),
                )
                .arg(
                    Arg::new("watch")
                        .long("watch")
                        .action(ArgAction::SetTrue)
                        .conflicts_with("progress")
                        .help("Show all steps, rates, counters and errors on the terminal during the run; without a terminal it has no effect"),
                )
                .arg(json()),
        )
        .subcommand(
            Command::new("preview")
                .about("Show what a run or a step would change and export, without doing it")
                .arg(what())
                .arg(
                    Arg::new("output")
                        .long("output")
                        .short('o')
                        .value_name("FILE")
                        .help("Write all changes to this file; without it, only the first are printed"),
                )
                .arg(
                    Arg::new("object")
                        .long("object")
                        .value_name("KEY")
                        .help("Show how the synchronization of an agent would process the object with this name or anchor, and why"),
                )
                .arg(allow_deletes())
                .arg(allow_updates())
                .arg(config())
                .arg(json()),
        )
        .subcommand(metadir_serve::arguments(config()))
        .subcommand(Command::new("status").about("Show the state of each connector space").arg(config()).arg(json()))
        .subcommand(
            Command::new("history")
                .about("Show the results of the last steps, newest first")
                .arg(
                    Arg::new("most")
                        .long("most")
                        .value_name("N")
                        .default_value("20")
                        .value_parser(clap::value_parser!(u64).range(1..=100_000))
                        .help("Number of steps"),
                )
                .arg(config())
                .arg(json()),
        )
        .subcommand(
            Command::new("due")
                .about("List the deprovisioned objects that are deleted after their grace period, and when")
                .arg(config())
                .arg(json()),
        )
        .subcommand(
            Command::new("join")
                .about("Join an object to the metaverse object of another object, and keep it joined")
                .arg(agent("agent", "AGENT"))
                .arg(key("key", "KEY"))
                .arg(agent("to_agent", "TO_AGENT"))
                .arg(key("to_key", "TO_KEY"))
                .arg(config())
                .arg(json()),
        )
        .subcommand(
            Command::new("disconnect")
                .about("Disconnect an object, and keep every synchronization from connecting it again")
                .arg(agent("agent", "AGENT"))
                .arg(key("key", "KEY"))
                .arg(config())
                .arg(json()),
        )
        .subcommand(
            Command::new("release")
                .about("Let the rules apply again to an object that was joined or disconnected by a command")
                .arg(agent("agent", "AGENT"))
                .arg(key("key", "KEY"))
                .arg(config())
                .arg(json()),
        )
        .subcommand(metadir_trail::errors_arguments(config(), json()))
        .subcommand(metadir_trail::pending_arguments(config(), json()))
        .subcommand(metadir_trail::audit_arguments(config(), json()))
        .subcommand(metadir_trail::undo_arguments(config(), allow_deletes(), json()))
        .subcommand(metadir_trail::release_arguments(config(), json()))
        .subcommand(metadir_search::search_arguments(config(), json()))
        .subcommand(metadir_search::show_arguments(config(), json()))
        .subcommands(metadir_changes::arguments(config, json))
        .subcommand(scim_server::arguments())
}

/// Carries out a command of the family.
pub(crate) fn metadir(matches: &ArgMatches) -> Result<Exit, Failure> {
    // The name in ps, and for `process:metadir`, so that it differs from the measuring program.
    let _ = rustix::thread::set_name(c"metadir");
    match matches.subcommand() {
        Some(("init", matches)) => metadir_init::run(matches),
        Some(("import-mim", matches)) => metadir_import_mim::run(matches),
        Some(("check", matches)) => {
            let file = matches.get_one::<String>("file").map(String::as_str);
            check(file.unwrap_or_else(|| text(matches, "config")))
        }
        Some(("run", matches)) => metadir_run::run(matches),
        Some(("serve", matches)) => metadir_serve::serve(matches),
        Some(("preview", matches)) => preview(matches),
        Some(("status", matches)) => status(matches),
        Some(("history", matches)) => history(matches),
        Some(("due", matches)) => due(matches),
        Some(("search", matches)) => metadir_search::search(matches),
        Some(("show", matches)) => metadir_search::show(matches),
        Some((command @ ("join" | "disconnect" | "release"), matches)) => link(command, matches),
        Some(("remove-agent", matches)) => metadir_changes::remove_agent(matches),
        Some(("rename", matches)) => metadir_changes::rename(matches),
        Some(("errors", matches)) => metadir_trail::errors(matches),
        Some(("pending", matches)) => metadir_trail::pending(matches),
        Some(("audit", matches)) => metadir_trail::audit(matches),
        Some(("undo", matches)) => metadir_trail::undo(matches),
        Some(("release-undo", matches)) => metadir_trail::release_undo(matches),
        Some(("scim-server", matches)) => scim_server::run(matches),
        _ => Err(Failure::usage("error: the command is missing: plimsoll metadir --help lists the commands")),
    }
}

/// Reads a configuration. Paths in it are relative to its folder.
pub(crate) fn read(path: &str) -> Result<Config, Failure> {
    Ok(read_with_text(path)?.0)
}

/// The text of a configuration file.
pub(crate) fn read_configuration(path: &str) -> Result<String, Failure> {
    let bytes = files::read(Path::new(path), CONFIGURATION_BYTES_MAX).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "\n  plimsoll metadir init writes an example; --config FILE names another file"
            }
            _ => "",
        };
        Failure::usage(format!("error: {path} cannot be read: {error}{hint}"))
    })?;
    String::from_utf8(bytes).map_err(|error| Failure::usage(not_utf8(path, error.as_bytes())))
}

/// The error of a configuration in another encoding.
fn not_utf8(path: &str, bytes: &[u8]) -> String {
    let is_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let valid = std::str::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
    let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
    match is_utf16 {
        true => {
            format!("error: {path} is in UTF-16, not in UTF-8\n  iconv -f UTF-16 -t UTF-8 {path} converts it")
        }
        false => format!(
            "error: {path}:{line} has a character that is not in UTF-8\n  save the file as UTF-8; \
             iconv -f ISO-8859-1 -t UTF-8 {path} converts a file in Latin-1"
        ),
    }
}

/// Reads a configuration, with its text.
fn read_with_text(path: &str) -> Result<(Config, String), Failure> {
    let text = read_configuration(path)?;
    Ok((parse(path, &text)?, text))
}

/// The configuration that is written in a text of a file.
pub(crate) fn parse(path: &str, text: &str) -> Result<Config, Failure> {
    let mut config = connectors::parse(text).map_err(|mistakes| {
        let shown = without_secrets(text);
        let problems = mistakes
            .into_iter()
            .map(|mistake| Problem::at_span(path, &shown, mistake.span, mistake.what, mistake.help));
        Failure::usage(Problems(problems.collect()))
    })?;
    let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        config.relative_to(folder);
    }
    Ok(config)
}

fn check(path: &str) -> Result<Exit, Failure> {
    let (config, text) = read_with_text(path)?;
    let text = without_secrets(&text);
    let mut warnings = [config.warnings.clone(), config.file_warnings()].concat();
    warnings.sort_by_key(|warning| (warning.span.start, warning.span.end));
    let count = warnings.len();
    for Mistake { span, what, help } in warnings {
        output::say(&format!("{}\n", Warning(&Problem::at_span(path, &text, span, what, help))));
    }
    let agents: Vec<&str> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
    let runs: Vec<&str> = config.runs.iter().map(|run| run.name.as_str()).collect();
    let validity = match count {
        0 => "valid".to_string(),
        1 => "valid, 1 warning".into(),
        count => format!("valid, {count} warnings"),
    };
    output::result(&format!(
        "{path} is {validity}: agents {}; runs {}",
        agents.join(", "),
        if runs.is_empty() { "none".into() } else { runs.join(", ") }
    ));
    for line in metadir_serve::described(&config) {
        output::result(&line);
    }
    for line in metadir_changes::of_store(path)?.unwrap_or_default() {
        output::result(&line);
    }
    Ok(Exit::Good)
}

pub(crate) fn open(config: Config) -> Result<Metadirectory, Failure> {
    Metadirectory::open(config).map_err(not_opened)
}

/// Opens a metadirectory for reading, also while another process runs steps.
pub(crate) fn open_to_read(config: Config) -> Result<Metadirectory, Failure> {
    Metadirectory::read(config).map_err(not_opened)
}

/// The failure of a metadirectory that was not opened.
pub(crate) fn not_opened(error: StepError) -> Failure {
    match error {
        StepError::Interrupted => Failure { text: format!("error: {error}"), exit: Exit::Interrupted },
        error => Failure::failed(error),
    }
}

/// A configuration in which signals interrupt waits for servers. Commands that only read do not need it: the signal ends them.
pub(crate) fn interruptible(mut config: Config) -> Config {
    config.interrupt_by(&Interrupt::by(crate::interrupt::flag()));
    config
}

/// The configuration of a run, with the limits of deletions and updates that apply to this run only.
pub(crate) fn read_for_a_run(matches: &ArgMatches) -> Result<Config, Failure> {
    let mut config = read(text(matches, "config"))?;
    if let Some(count) = matches.get_one::<u64>("allow-deletes") {
        let once = Threshold { count: *count, share: 1.0 };
        (config.safety.synchronization_deletes, config.safety.export_deletes) = (once, once);
    }
    // An undo has no such flag.
    if let Ok(Some(count)) = matches.try_get_one::<u64>("allow-updates") {
        config.safety.allow_updates(*count);
    }
    Ok(config)
}

/// The run, or the agent and the step, that a command names.
pub(crate) fn what(matches: &ArgMatches) -> Vec<&str> {
    matches.get_many::<String>("what").into_iter().flatten().map(String::as_str).collect()
}

fn preview(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read_for_a_run(matches)?;
    if let Some(key) = matches.get_one::<String>("object") {
        return preview_object(config, &what(matches), key, matches.get_flag("json"));
    }
    let run = steps(&config, &what(matches))?;
    let titles = titles(&config, &run.steps);
    let agents: Vec<String> = config.agents.iter().map(|agent| agent.name.clone()).collect();
    let path = matches.get_one::<String>("output");
    let unwritable = |path: &str, error| Failure::failed(format!("{path} cannot be written: {error}"));
    let mut changes = Changes::default();
    if let Some(path) = path {
        let file = files::Output::create(Path::new(path), files::PRIVATE_FILE)
            .map_err(|error| unwritable(path, error))?;
        changes.file = Some(std::io::BufWriter::new(file));
    }
    // The metadirectory reports each change immediately; the totals are read at the end.
    let changes = Arc::new(Mutex::new(changes));
    let into = Arc::clone(&changes);
    let is_json = matches.get_flag("json");
    let reported = Box::new(move |change: Difference| held(&into).take_up(change, is_json));
    let mut directory = Metadirectory::preview(interruptible(config), reported).map_err(not_opened)?;
    let mut waiting = Vec::new();
    for step in run.steps.iter().filter(|step| step.kind == StepKind::Export) {
        let agent = agents[step.agent].as_str();
        if !waiting.iter().any(|(known, _)| *known == agent) {
            waiting.push((agent, directory.count_pending(step.agent).map_err(not_opened)?));
        }
    }
    let mut lines = Lines::new(is_json, false);
    let (records, exit) = carry_out(&mut directory, &run, &titles, &mut lines);
    drop(directory);
    let mut changes = std::mem::take(&mut *held(&changes));
    if let Some(path) = path {
        changes.end().map_err(|error| unwritable(path, error))?;
    }
    if is_json {
        let first: Vec<_> = changes.first.iter().map(change_json).collect();
        let steps: Vec<_> = records.iter().map(run_json).collect();
        let waiting: serde_json::Map<String, serde_json::Value> =
            waiting.iter().map(|(agent, count)| (agent.to_string(), json!(count))).collect();
        document(&json!({
            "steps": steps,
            "pending_exports": waiting,
            "changes": changes.count,
            "first_changes": first,
        }))?;
        return Ok(exit);
    }
    let are_all_shown = changes.are_all_kept();
    let shown = changes.shown();
    if !shown.is_empty() {
        output::result(shown.trim_end());
    }
    for (agent, count) in waiting.iter().filter(|(_, count)| *count > 0) {
        let count = metadir_trail::counted(*count, "object");
        output::result(&format!(
            "pending exports of {agent} from earlier runs: {count}; plimsoll metadir pending {agent} lists them"
        ));
    }
    let count = match changes.count {
        1 => "1 change".into(),
        count => format!("{} changes", model::quantity::thousands(count as f64)),
    };
    let where_all_are = match path {
        Some(path) => format!(", all in {path}"),
        None if are_all_shown => String::new(),
        None => "; --output FILE writes all of them".into(),
    };
    output::result(&format!("{count}{where_all_are}; nothing was changed or sent"));
    Ok(exit)
}

/// The processing of one object of a connector space, with reasons.
fn preview_object(config: Config, what: &[&str], key: &str, is_json: bool) -> Result<Exit, Failure> {
    let [agent] = what else {
        return Err(Failure::usage("error: --object needs the name of one agent and no step"));
    };
    let at = place_of(&config, agent)?;
    let changes = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&changes);
    let reported = Box::new(move |change: Difference| held(&into).push(change));
    let mut directory = Metadirectory::preview(config, reported).map_err(Failure::failed)?;
    let why = directory.explain(at, key).map_err(Failure::failed)?.ok_or_else(|| {
        Failure::usage(format!(
            "error: the connector space of {agent} has no object {key:?}\n  write its name or its anchor, as \
             plimsoll metadir search shows it; plimsoll metadir run {agent} full-import imports new objects"
        ))
    })?;
    drop(directory);
    let changes = std::mem::take(&mut *held(&changes));
    if is_json {
        let changes: Vec<_> = changes.iter().map(change_json).collect();
        let lines: Vec<_> = why.text.lines().collect();
        document(&json!({ "why": lines, "failure": why.failure, "changes": changes }))?;
        return Ok(Exit::Good);
    }
    output::result(why.text.trim_end());
    output::result(&match (&why.failure, changes.is_empty()) {
        (Some(failure), true) => format!("A synchronization of the object fails: {failure}"),
        (Some(failure), false) => {
            format!("A synchronization of the object fails: {failure}\nIt would change other objects:")
        }
        (None, true) => "A synchronization would change nothing.".into(),
        (None, false) => "A synchronization would change:".into(),
    });
    changes.iter().for_each(|change| output::result(&change.to_string()));
    Ok(Exit::Good)
}

/// The place of an agent in the configuration.
pub(crate) fn place_of(config: &Config, agent: &str) -> Result<usize, Failure> {
    let found = config.agents.iter().position(|config| config.name == agent);
    found.ok_or_else(|| {
        let names = config.agents.iter().map(|agent| agent.name.as_str());
        let known = model::problem::did_you_mean(agent, names);
        Failure::usage(format!("error: there is no agent {agent:?}\n  {known}"))
    })
}

pub(crate) fn reported(record: &StepRecord) -> String {
    let counters: Vec<String> = record
        .counters
        .iter()
        .map(|(name, count)| format!("{} {name}", model::quantity::thousands(*count as f64)))
        .collect();
    let counters = match (
        counters.is_empty(),
        ["stopped", "no-start"].iter().any(|early| record.outcome.starts_with(early)),
    ) {
        (true, true) => String::new(),
        (true, false) => ": nothing to do".into(),
        (false, _) => format!(": {}", counters.join(", ")),
    };
    let error: String = record.text.lines().map(|line| format!("\n  {line}")).collect();
    let took = Quantity::Seconds.show(record.seconds);
    format!("{} {}: {} in {took}{counters}{error}", record.agent, record.step, record.outcome)
}

/// The same, with the errors of the step.
pub(crate) fn run_json(record: &StepRecord) -> serde_json::Value {
    let errors = record.errors.iter().map(|error| {
        json!({ "object": error.object, "kind": error.kind, "attribute": error.attribute, "text": error.text })
    });
    let errors: Vec<_> = errors.collect();
    let mut value = step_json(record);
    if let Some(object) = value.as_object_mut() {
        object.insert("errors".into(), json!(errors));
    }
    value
}

pub(crate) fn step_json(record: &StepRecord) -> serde_json::Value {
    let counters: serde_json::Map<String, serde_json::Value> =
        record.counters.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
    json!({
        "number": record.number,
        "run": record.run,
        "user": record.user,
        "agent": record.agent,
        "step": record.step,
        "started_unix_s": record.started_unix_s,
        "seconds": record.seconds,
        "outcome": record.outcome,
        "text": record.text,
        "counters": counters,
    })
}

/// Deletions that are listed.
const DUE_SHOWN: usize = 100_000;

fn due(matches: &ArgMatches) -> Result<Exit, Failure> {
    let mut directory = open_to_read(read(text(matches, "config"))?)?;
    let due = directory.due(DUE_SHOWN).map_err(Failure::failed)?;
    if matches.get_flag("json") {
        let all = due.iter().map(
            |due| json!({ "agent": due.agent, "object": due.object, "delete_at_unix_s": due.at_unix_s }),
        );
        document(&json!({ "due": all.collect::<Vec<_>>() }))?;
        return Ok(Exit::Good);
    }
    for due in &due {
        let at = report::text::date(due.at_unix_s.saturating_mul(1_000_000_000));
        output::result(&format!("{at}  {} {}", due.agent, due.object));
    }
    if due.is_empty() {
        output::result("no deprovisioned object is to be deleted");
    }
    Ok(Exit::Good)
}

/// Sets or removes a link by hand.
fn link(command: &str, matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let agent = place_of(&config, text(matches, "agent"))?;
    let link = match command {
        "join" => {
            Link::Join { agent: place_of(&config, text(matches, "to_agent"))?, key: text(matches, "to_key") }
        }
        "disconnect" => Link::Disconnect,
        _ => Link::Release,
    };
    let mut directory = open(interruptible(config))?;
    let record = directory.link(agent, text(matches, "key"), link).map_err(Failure::failed)?;
    match matches.get_flag("json") {
        true => document(&step_json(&record))?,
        false => output::result(&reported(&record)),
    }
    Ok(Exit::Good)
}

pub(crate) fn document(value: &serde_json::Value) -> Result<(), Failure> {
    output::json(&serde_json::to_string_pretty(value).map_err(Failure::failed)?);
    Ok(())
}

fn status(matches: &ArgMatches) -> Result<Exit, Failure> {
    let path = text(matches, "config");
    let config = read(path)?;
    let served = metadir_serve::published::look(&config, path);
    let mut directory = open_to_read(config)?;
    let (spaces, objects) = directory.status().map_err(Failure::failed)?;
    let changes = directory.configuration_changes().map_err(Failure::failed)?;
    let activity = directory.activity().map_err(Failure::failed)?;
    if matches.get_flag("json") {
        let spaces: Vec<serde_json::Value> = spaces
            .iter()
            .map(|(agent, gauges)| {
                json!({
                    "agent": agent,
                    "objects": gauges.objects,
                    "connectors": gauges.connectors,
                    "explicit_connectors": gauges.explicit_connectors,
                    "disconnectors": gauges.disconnectors,
                    "explicit_disconnectors": gauges.explicit_disconnectors,
                    "deprovisioned": gauges.deprovisioned,
                    "filtered": gauges.filtered,
                    "pending_imports": {
                        "add": gauges.pending_imports[0],
                        "update": gauges.pending_imports[1],
                        "delete": gauges.pending_imports[2],
                    },
                    "pending_exports": gauges.pending_exports,
                    "failures": gauges.failures,
                })
            })
            .collect();
        let running = activity.map(|activity| {
            json!({
                "process": activity.process,
                "run": activity.run,
                "agent": activity.agent,
                "step": activity.step,
                "objects": activity.objects,
                "since_unix_s": activity.since_unix_s,
            })
        });
        document(&json!({
            "metaverse_objects": objects,
            "connector_spaces": spaces,
            "configuration_changes": metadir_changes::as_json(&changes),
            "running": running,
            "serve": served,
        }))?;
        return Ok(Exit::Good);
    }
    let heads = [
        "agent",
        ">objects",
        ">connectors",
        ">disconnectors",
        ">deprovisioned",
        ">filtered",
        ">to synchronize",
        ">pending exports",
        ">failures",
    ];
    let mut table = Table::new("", &heads);
    for (agent, gauges) in &spaces {
        let number = |count: u64| Cell::shown(count as f64, model::quantity::thousands(count as f64));
        table.row(vec![
            Cell::words(agent),
            number(gauges.objects),
            number(gauges.connectors),
            number(gauges.disconnectors + gauges.explicit_disconnectors),
            number(gauges.deprovisioned),
            number(gauges.filtered),
            number(gauges.pending_imports.iter().sum()),
            number(gauges.pending_exports),
            number(gauges.failures),
        ]);
    }
    let mut lines = table.lines(usize::from(output::width()));
    for (agent, gauges) in &spaces {
        let (joined, disconnected) = (gauges.explicit_connectors, gauges.explicit_disconnectors);
        if joined + disconnected > 0 {
            lines.push(format!(
                "{agent}: joined by an administrator: {joined}; disconnected by an administrator: {disconnected}"
            ));
        }
    }
    if let Some(activity) = activity {
        lines.push(running(&activity));
    }
    if let Some(served) = served {
        lines.extend(metadir_serve::published::lines(&served));
    }
    output::result(&format!(
        "{}\n{} in the metaverse",
        lines.join("\n"),
        model::quantity::thousands(objects as f64)
    ));
    for line in metadir_changes::lines(&changes) {
        output::result(&line);
    }
    Ok(Exit::Good)
}

/// Opens a metadirectory to run steps. If another process uses it, the failure says what that process does.
pub(crate) fn open_to_run(config: Config, path: &str) -> Result<Metadirectory, Failure> {
    super::restore::remove_unfinished();
    match Metadirectory::open(interruptible(config)) {
        Err(StepError::Store(StoreError::Busy)) => {
            let config = read(path)?;
            let served = metadir_serve::published::look(&config, path).is_some();
            let activity = Metadirectory::look(config).ok().flatten();
            let activity = activity.and_then(|mut directory| directory.activity().ok().flatten());
            let what = activity.map_or_else(|| "it ended just now".into(), |activity| running(&activity));
            let help = match served {
                true => "plimsoll metadir serve executes it: wait for its end, and repeat the command",
                false => "wait for its end, and repeat the command",
            };
            Err(Failure::failed(format!("another process uses this metadirectory: {what}\n  {help}")))
        }
        opened => opened.map_err(not_opened),
    }
}

/// What the process that holds the store is doing.
fn running(activity: &Activity) -> String {
    let Activity { process, run, agent, step, objects, since_unix_s } = activity;
    if step.is_empty() {
        return format!("process {process} uses the metadirectory");
    }
    let since = report::text::date(since_unix_s.saturating_mul(1_000_000_000));
    let objects = model::quantity::thousands(*objects as f64);
    let title = format!("{agent} {step}");
    let run = if *run == title { String::new() } else { format!("{run}: ") };
    format!("running: {run}{title}, {objects} objects, since {since}, process {process}")
}

fn history(matches: &ArgMatches) -> Result<Exit, Failure> {
    let mut directory = open_to_read(read(text(matches, "config"))?)?;
    let most = matches.get_one::<u64>("most").copied().unwrap_or(20);
    let records = directory.history(most as usize).map_err(Failure::failed)?;
    if matches.get_flag("json") {
        document(&json!({ "steps": records.iter().map(step_json).collect::<Vec<_>>() }))?;
        return Ok(Exit::Good);
    }
    if records.is_empty() {
        output::result("no step was executed yet\nnext: plimsoll metadir run RUN");
        return Ok(Exit::Good);
    }
    for record in &records {
        let began = report::text::date(record.started_unix_s.saturating_mul(1_000_000_000));
        let step = format!("{} {}", record.agent, record.step);
        // A step that was run by itself is a run of its name.
        let run = if record.run == step { String::new() } else { format!("{}: ", record.run) };
        let by = match record.step.as_str() {
            "join" | "disconnect" | "release" | "undo" | "release-undo" => format!(" by {}", record.user),
            _ => String::new(),
        };
        // Steps of an earlier version have no number.
        let number = if record.number > 0 { format!("run {}", record.number) } else { String::new() };
        output::result(&format!("{began}  {number}{by}  {run}{}", reported(record)));
    }
    Ok(Exit::Good)
}
