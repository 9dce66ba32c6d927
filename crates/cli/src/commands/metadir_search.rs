//! `plimsoll metadir search` and `show`: find objects, and show one whole.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use metadir::metadirectory::{
    AuditFilter, AuditedChange, Condition, Found, Metadirectory, SearchError, SearchScope, SearchSink,
    ShownCs, ShownExport, ShownMv, ShownObject,
};
use metadir::object::MvId;
use metadir::store::StoreError;
use serde_json::json;

use super::metadir::{document, open_to_read, place_of, read};
use super::metadir_trail::{audited_json, audited_text};
use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// How often progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Limit of the sent changes that `show` lists.
const CHANGES_SHOWN: usize = 10;

/// The arguments of `search`.
pub(crate) fn search_arguments(config: Arg, json: Arg) -> Command {
    Command::new("search")
        .about("Find objects by the values of their attributes, in the metaverse and the connector spaces")
        .arg(
            Arg::new("condition")
                .value_name("CONDITION")
                .num_args(1..)
                .required_unless_present("state")
                .help("mail=ada@x.org, mail=ada*, mail=*@x.org or mail=*ada*; all conditions must hold. dn is the name, anchor the anchor"),
        )
        .arg(
            Arg::new("agent")
                .long("agent")
                .value_name("AGENT")
                .conflicts_with("metaverse")
                .help("Search the connector space of this agent only"),
        )
        .arg(
            Arg::new("metaverse")
                .long("metaverse")
                .action(ArgAction::SetTrue)
                .help("Search the metaverse only"),
        )
        .arg(
            Arg::new("state")
                .long("state")
                .value_name("STATE")
                .conflicts_with("metaverse")
                .value_parser(["connector", "disconnector", "deprovisioned", "filtered"])
                .help("Search the connector spaces for objects in this state, as `status` counts them"),
        )
        .arg(
            Arg::new("most")
                .long("most")
                .value_name("N")
                .default_value("100")
                .value_parser(clap::value_parser!(u64).range(1..=10_000_000))
                .help("Number of objects that are shown"),
        )
        .arg(config)
        .arg(json)
}

/// The arguments of `show`.
pub(crate) fn show_arguments(config: Arg, json: Arg) -> Command {
    Command::new("show")
        .about(
            "Show one object whole: its metaverse object, the origin of each value, and all its connectors",
        )
        .arg(
            Arg::new("object")
                .value_name("AGENT KEY | mv:NUMBER")
                .num_args(1..=2)
                .required(true)
                .help("An agent with the name or anchor of an object, or the number of a metaverse object"),
        )
        .arg(config)
        .arg(json)
}

/// Prints what is found.
struct Printer {
    most: u64,
    found: u64,
    is_cut: bool,
    as_json: bool,
    all: Vec<serde_json::Value>,
    shown: Instant,
    is_terminal: bool,
    has_progress: bool,
}

impl Printer {
    fn clear(&mut self) {
        if std::mem::take(&mut self.has_progress) {
            output::redraw("");
        }
    }
}

impl SearchSink for Printer {
    fn found(&mut self, found: Found) -> bool {
        if self.found == self.most {
            self.is_cut = true;
            return false;
        }
        self.found += 1;
        if self.as_json {
            self.all.push(found_json(&found));
            return true;
        }
        self.clear();
        let place = match &found.agent {
            Some(agent) => format!("{agent} {}", found.object),
            None => {
                format!("mv:{} {} {}", found.number, found.kind.as_deref().unwrap_or_default(), found.object)
            }
        };
        let linked = found.mv.filter(|_| found.agent.is_some());
        let linked = linked.map(|mv| format!("\n    linked to mv:{}", mv.0)).unwrap_or_default();
        let values: String = found
            .values
            .iter()
            .map(|(name, values)| format!("\n    {name}: {}", values.join(", ")))
            .collect();
        output::result(&format!("{place}{values}{linked}"));
        output::is_open()
    }

    fn read(&mut self, count: u64) -> bool {
        if self.is_terminal && self.shown.elapsed() >= SHOWN_EVERY {
            self.shown = Instant::now();
            self.has_progress = true;
            let count = model::quantity::thousands(count as f64);
            output::redraw(&format!("{count} objects read, {} found", self.found));
        }
        true
    }
}

/// Carries out `search`.
pub(crate) fn search(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let words: Vec<&str> =
        matches.get_many::<String>("condition").into_iter().flatten().map(String::as_str).collect();
    let state = matches.get_one::<String>("state");
    let mut conditions = match words.is_empty() && state.is_some() {
        true => Vec::new(),
        false => Condition::parse(&words.join(" ")).map_err(|why| Failure::usage(format!("error: {why}")))?,
    };
    conditions.extend(state.map(|state| Condition::state(state)));
    let scope = match matches.get_one::<String>("agent") {
        Some(agent) => SearchScope::Agent(place_of(&config, agent)?),
        None if matches.get_flag("metaverse") => SearchScope::Metaverse,
        None => SearchScope::All,
    };
    let mut printer = Printer {
        most: matches.get_one::<u64>("most").copied().unwrap_or(100),
        found: 0,
        is_cut: false,
        as_json: matches.get_flag("json"),
        all: Vec::new(),
        shown: Instant::now(),
        is_terminal: std::io::stderr().is_terminal(),
        has_progress: false,
    };
    let mut directory = open_to_read(config)?;
    let end = directory.search(&conditions, &scope, &mut printer).map_err(|error| match error {
        SearchError::Refused(why) => Failure::usage(format!("error: {why}")),
        error => Failure::failed(error),
    })?;
    printer.clear();
    if printer.as_json {
        document(&json!({
            "found": printer.all,
            "more": printer.is_cut,
            "indexed": end.is_indexed,
            "connector_spaces_searched": !end.left_out && scope != SearchScope::Metaverse,
            "objects_read": end.read,
        }))?;
        return Ok(Exit::Good);
    }
    let found = model::quantity::thousands(printer.found as f64);
    let mut line = match (printer.found, printer.is_cut) {
        (0, _) => "no object found".to_string(),
        (_, true) => format!("the first {found} objects; --most N shows more"),
        (1, false) => "1 object".into(),
        (_, false) => format!("{found} objects"),
    };
    if end.left_out {
        line.push_str("\nthe index answered: --agent AGENT searches a connector space");
    } else if !end.is_indexed && !matches!(scope, SearchScope::Agent(_)) && state.is_none() {
        let read = model::quantity::thousands(end.read as f64);
        line.push_str(&format!(
            "\n{read} objects were read; `search` in [metaverse.TYPE] makes an index that answers at once"
        ));
    }
    output::result(&line);
    Ok(Exit::Good)
}

fn values_json(values: &[(String, Vec<String>)]) -> serde_json::Value {
    values
        .iter()
        .map(|(name, values)| (name.clone(), json!(values)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn found_json(found: &Found) -> serde_json::Value {
    json!({
        "place": if found.agent.is_some() { "connector space" } else { "metaverse" },
        "agent": found.agent,
        "type": found.kind,
        "number": found.number,
        "object": found.object,
        "metaverse_number": found.mv.map(|mv| mv.0),
        "values": values_json(&found.values),
    })
}

/// Finds the object that is to be shown.
type Find = Box<dyn Fn(&mut Metadirectory) -> Result<Option<ShownObject>, StoreError>>;

/// Carries out `show`.
pub(crate) fn show(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let words: Vec<&str> =
        matches.get_many::<String>("object").into_iter().flatten().map(String::as_str).collect();
    let find: Find = match words.as_slice() {
        [number] => {
            let number = number.strip_prefix("mv:").and_then(|number| number.parse().ok());
            let number: i64 = number.ok_or_else(|| {
                Failure::usage("error: name an agent and an object, or mv:NUMBER as search shows it")
            })?;
            Box::new(move |directory| directory.show_mv(MvId(number)))
        }
        [agent, key] => {
            let (agent, key) = (place_of(&config, agent)?, key.to_string());
            Box::new(move |directory| directory.show(agent, &key))
        }
        _ => return Err(Failure::usage("error: name an agent and an object, or mv:NUMBER")),
    };
    let agents: Vec<String> = config.agents.iter().map(|agent| agent.name.clone()).collect();
    let mut directory = open_to_read(config)?;
    let object = find(&mut directory).map_err(Failure::failed)?.ok_or_else(|| {
        Failure::usage(format!(
            "error: there is no object {:?}\n  plimsoll metadir search finds objects by their values",
            words.join(" ")
        ))
    })?;
    let changes = last_changes(&mut directory, &agents, &object)?;
    if matches.get_flag("json") {
        let mut value = shown_json(&object);
        if let Some(value) = value.as_object_mut() {
            value.insert("changes".into(), changes.iter().map(audited_json).collect());
        }
        document(&value)?;
        return Ok(Exit::Good);
    }
    let mut lines = Vec::new();
    if let Some(mv) = &object.metaverse {
        metaverse_lines(mv, &mut lines);
    }
    object.connectors.iter().for_each(|cs| connector_lines(cs, &mut lines));
    output::result(&lines.join("\n"));
    if !changes.is_empty() {
        output::result("the last changes that were sent:");
    }
    changes.iter().for_each(|change| output::result(&audited_text(change)));
    Ok(Exit::Good)
}

/// The last changes that were sent to the connectors of an object, the oldest first.
fn last_changes(
    directory: &mut Metadirectory,
    agents: &[String],
    object: &ShownObject,
) -> Result<Vec<AuditedChange>, Failure> {
    let mut changes = VecDeque::new();
    for cs in &object.connectors {
        let Some(agent) = agents.iter().position(|agent| *agent == cs.agent) else { continue };
        let filter = AuditFilter { agent: Some(agent), object: Some(&cs.object), ..AuditFilter::default() };
        let mut of_object = VecDeque::new();
        let mut each = |change| {
            of_object.push_back(change);
            if of_object.len() > CHANGES_SHOWN {
                of_object.pop_front();
            }
            true
        };
        directory.audit(filter, &mut each).map_err(Failure::failed)?;
        changes.extend(of_object);
    }
    let mut changes = Vec::from(changes);
    changes.sort_by_key(|change: &AuditedChange| change.run);
    Ok(changes.split_off(changes.len().saturating_sub(CHANGES_SHOWN)))
}

fn date(unix_s: u64) -> String {
    report::text::date(unix_s.saturating_mul(1_000_000_000))
}

fn metaverse_lines(mv: &ShownMv, lines: &mut Vec<String>) {
    lines.push(format!("mv:{} {}", mv.number, mv.kind));
    for of in &mv.attributes {
        lines.push(format!("    {}: {}", of.name, of.values.join(", ")));
        let from = [of.agent.as_deref(), of.from.as_deref()];
        let from: Vec<&str> = from.into_iter().flatten().collect();
        let since = of.since_unix_s.map(|since| format!(" since {}", date(since))).unwrap_or_default();
        lines.push(format!("        from {}{since}", from.join(" ")));
    }
}

fn values_lines(values: &[(String, Vec<String>)], lines: &mut Vec<String>) {
    for (name, values) in values {
        let values = if values.is_empty() { "nothing".into() } else { values.join(", ") };
        lines.push(format!("        {name}: {values}"));
    }
}

fn connector_lines(cs: &ShownCs, lines: &mut Vec<String>) {
    lines.push(format!("{} {}: {}", cs.agent, cs.object, cs.state.name()));
    for (name, values) in &cs.values {
        lines.push(format!("    {name}: {}", values.join(", ")));
    }
    if let Some((change, values)) = &cs.pending_import {
        lines.push(format!("    pending import: {}", change.name()));
        values_lines(values, lines);
    }
    if let Some(export) = &cs.pending_export {
        let sent = if export.is_sent { ", sent, to be confirmed by an import" } else { "" };
        lines.push(format!("    pending export: {}{sent}", export.change.name()));
        if let Some(rename) = &export.rename {
            lines.push(format!("        (name): {rename}"));
        }
        for (name, values, is_sent) in &export.attributes {
            let values = if values.is_empty() { "nothing".into() } else { values.join(", ") };
            let sent = if *is_sent && !export.is_sent { " (sent)" } else { "" };
            lines.push(format!("        {name}: {values}{sent}"));
        }
        for (name, value, is_added) in &export.references {
            let sign = if *is_added { "add" } else { "remove" };
            lines.push(format!("        {name}: {sign} {value}"));
        }
    }
    if let Some(failure) = &cs.failure {
        lines.push(format!("    failed: {failure}"));
    }
    if let Some(at) = cs.delete_at_unix_s {
        lines.push(format!("    is deleted at {}", date(at)));
    }
}

fn shown_json(object: &ShownObject) -> serde_json::Value {
    let metaverse = object.metaverse.as_ref().map(|mv| {
        let attributes = mv.attributes.iter().map(|of| {
            json!({
                "attribute": of.name,
                "values": of.values,
                "agent": of.agent,
                "object": of.from,
                "since_unix_s": of.since_unix_s,
            })
        });
        json!({ "number": mv.number, "type": mv.kind, "attributes": attributes.collect::<Vec<_>>() })
    });
    let export = |export: &ShownExport| {
        let attributes = export.attributes.iter();
        let attributes = attributes
            .map(|(name, values, is_sent)| json!({ "attribute": name, "values": values, "sent": is_sent }));
        let references = export.references.iter().map(|(name, value, is_added)| {
            json!({ "attribute": name, "value": value, "change": if *is_added { "add" } else { "remove" } })
        });
        json!({
            "change": export.change.name(),
            "sent": export.is_sent,
            "rename": export.rename,
            "attributes": attributes.collect::<Vec<_>>(),
            "references": references.collect::<Vec<_>>(),
        })
    };
    let connectors = object.connectors.iter().map(|cs| {
        let import = cs.pending_import.as_ref();
        let import =
            import.map(|(change, values)| json!({ "change": change.name(), "values": values_json(values) }));
        json!({
            "agent": cs.agent,
            "object": cs.object,
            "number": cs.number,
            "state": cs.state.name(),
            "values": values_json(&cs.values),
            "pending_import": import,
            "pending_export": cs.pending_export.as_ref().map(export),
            "failure": cs.failure,
            "delete_at_unix_s": cs.delete_at_unix_s,
        })
    });
    json!({ "metaverse": metaverse, "connectors": connectors.collect::<Vec<_>>() })
}
