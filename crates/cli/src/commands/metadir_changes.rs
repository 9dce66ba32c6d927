//! A configuration that changed while the store has objects: what the changes mean, `remove-agent` and `rename`.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use clap::{Arg, ArgAction, ArgMatches, Command};
use metadir::config::Database;
use metadir::metadirectory::{ConfigurationChange, Metadirectory};
use metadir::preview::Difference;
use metadir::stage::StepError;
use serde_json::{Value, json};

use super::metadir::{document, interruptible, not_opened, open, read, reported, step_json};
use super::metadir_differences::{Changes, held};
use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// The arguments of the commands.
pub(super) fn arguments(config: impl Fn() -> Arg, json: impl Fn() -> Arg) -> [Command; 2] {
    let name = |id: &'static str, value: &'static str, help: &'static str| {
        Arg::new(id).value_name(value).required(true).help(help)
    };
    [
        Command::new("remove-agent")
            .about("Remove the objects of an agent that is not in the configuration any more; nothing is sent to its system")
            .arg(name("agent", "AGENT", "The name that the agent had"))
            .arg(
                Arg::new("keep-values")
                    .long("keep-values")
                    .action(ArgAction::SetTrue)
                    .help("Keep the values that its objects gave to the metaverse until other flows give some"),
            )
            .arg(
                Arg::new("apply")
                    .long("apply")
                    .action(ArgAction::SetTrue)
                    .help("Do it; without this flag, only show what would change"),
            )
            .arg(config())
            .arg(json()),
        Command::new("rename")
            .about("Rename an agent or a type in the store, after it was renamed in the configuration")
            .arg(
                Arg::new("kind")
                    .value_name("KIND")
                    .required(true)
                    .value_parser(["agent", "type"])
                    .help("What is renamed"),
            )
            .arg(name("from", "OLD", "The name in the store"))
            .arg(name("to", "NEW", "The name in the configuration"))
            .arg(config()),
    ]
}

/// What the changes of the configuration mean for the store, one line each. Empty if the store is new.
pub(super) fn lines(changes: &[ConfigurationChange]) -> Vec<String> {
    let mut lines = Vec::new();
    for change in changes {
        match change {
            ConfigurationChange::AgentGone { agent, objects } => {
                let objects = model::quantity::thousands(*objects as f64);
                lines.push(format!("{agent} is not in the configuration; the store has {objects} objects of it"));
                lines.push(format!("  if it was renamed: plimsoll metadir rename agent {agent} NAME"));
                lines.push(format!("  if it is to go: plimsoll metadir remove-agent {agent}"));
            }
            ConfigurationChange::Anchor { agent, before, now } => lines.push(format!(
                "the anchor of {agent} is now `{now}` instead of `{before}`: the next step identifies its objects by it"
            )),
            ConfigurationChange::Rules { agent, what } => {
                lines.push(format!("the rules of {agent} changed since its last full synchronization:"));
                lines.extend(what.iter().map(|what| format!("  {what}")));
                lines.push(format!("  next: plimsoll metadir run {agent} full-synchronization"));
            }
        }
    }
    lines
}

/// The same for programs.
pub(super) fn as_json(changes: &[ConfigurationChange]) -> Value {
    let change = |change: &ConfigurationChange| match change {
        ConfigurationChange::AgentGone { agent, objects } => {
            json!({ "agent": agent, "change": "agent-gone", "objects": objects })
        }
        ConfigurationChange::Anchor { agent, before, now } => {
            json!({ "agent": agent, "change": "anchor", "before": before, "now": now })
        }
        ConfigurationChange::Rules { agent, what } => {
            json!({ "agent": agent, "change": "rules", "what": what, "needs": "full-synchronization" })
        }
    };
    changes.iter().map(change).collect()
}

/// What a configuration means for its store, without changing it: lines for a reader. None if there is no
/// store yet.
pub(super) fn of_store(path: &str) -> Result<Option<Vec<String>>, Failure> {
    let config = read(path)?;
    let Database::Sqlite { path, .. } = &config.store.database else {
        let hint = "plimsoll metadir status shows what the configuration means for the store on the server";
        return Ok(Some(vec![hint.into()]));
    };
    if !path.exists() {
        return Ok(None);
    }
    let changes = match Metadirectory::look(config) {
        Ok(None) => {
            let earlier = "the store is of an earlier version: status upgrades it, and says what the configuration means";
            return Ok(Some(vec![earlier.into()]));
        }
        Ok(Some(mut directory)) => directory.configuration_changes().map_err(StepError::from),
        Err(error) => Err(error),
    };
    Ok(Some(match changes {
        Ok(changes) => lines(&changes),
        Err(error) => vec![format!("what the configuration means for the store is not known: {error}")],
    }))
}

pub(super) fn remove_agent(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let (agent, keeps, is_json) =
        (text(matches, "agent"), matches.get_flag("keep-values"), matches.get_flag("json"));
    let interrupted = crate::interrupt::flag();
    let mut go_on = |_| !interrupted.load(Ordering::Relaxed);
    if matches.get_flag("apply") {
        let mut directory = open(interruptible(config))?;
        let record = directory.remove_agent(agent, keeps, &mut go_on).map_err(not_opened)?;
        match is_json {
            true => document(&step_json(&record))?,
            false => output::result(&reported(&record)),
        }
        return Ok(Exit::Good);
    }
    let changes = Arc::new(Mutex::new(Changes::default()));
    let into = Arc::clone(&changes);
    let collected = Box::new(move |change: Difference| held(&into).take_up(change, is_json));
    let mut directory = Metadirectory::preview(interruptible(config), collected).map_err(not_opened)?;
    let record = directory.remove_agent(agent, keeps, &mut go_on).map_err(not_opened)?;
    drop(directory);
    if is_json {
        document(&step_json(&record))?;
        return Ok(Exit::Good);
    }
    let shown = held(&changes).shown();
    if !shown.is_empty() {
        output::result(shown.trim_end());
    }
    output::result(&format!("{}\nnothing was changed; --apply does it", reported(&record)));
    Ok(Exit::Good)
}

pub(super) fn rename(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let (kind, from, to) = (text(matches, "kind"), text(matches, "from"), text(matches, "to"));
    let renamed = match kind {
        "agent" => Metadirectory::rename_agent(&config, from, to),
        _ => Metadirectory::rename_type(&config, from, to),
    };
    renamed.map_err(not_opened)?;
    output::result(&format!("{kind} {from} of the store is {to} now"));
    Ok(Exit::Good)
}
