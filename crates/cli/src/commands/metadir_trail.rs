//! `plimsoll metadir errors`, `pending`, `audit`, `undo` and `release-undo`: what went wrong, what waits, what was
//! sent, and how to take it back.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use clap::{Arg, ArgAction, ArgMatches, Command};
use metadir::metadirectory::{
    AuditFilter, AuditedAttribute, AuditedChange, Conflict, ErrorGroup, KnownError, Metadirectory,
    PendingChange, UndoError, UndoOptions, Undone,
};
use metadir::preview::{Difference, Place};
use metadir::store::StepRecord;
use serde_json::json;

use super::metadir::{
    document, interruptible, not_opened, open, open_to_read, place_of, read, read_for_a_run, reported,
    run_json, step_json,
};
use super::metadir_differences::{Changes, change_json, held};
use super::metadir_run::Progress;
use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// The arguments of `errors`.
pub(crate) fn errors_arguments(config: Arg, json: Arg) -> Command {
    Command::new("errors")
        .about("List the errors of objects, equal ones together")
        .arg(Arg::new("agent").value_name("AGENT").help("Only the errors of this management agent"))
        .arg(Arg::new("all").long("all").action(ArgAction::SetTrue).help("List each object with its error"))
        .arg(
            Arg::new("csv")
                .long("csv")
                .action(ArgAction::SetTrue)
                .conflicts_with("json")
                .help("List each object with its error as CSV"),
        )
        .arg(most("Number of lines"))
        .arg(config)
        .arg(json)
}

/// The arguments of `pending`.
pub(crate) fn pending_arguments(config: Arg, json: Arg) -> Command {
    Command::new("pending")
        .about("List the changes that wait to be sent to an agent")
        .arg(Arg::new("agent").value_name("AGENT").required(true).help("A management agent"))
        .arg(
            Arg::new("object")
                .long("object")
                .value_name("KEY")
                .help("Only the changes of the object with this name or anchor"),
        )
        .arg(most("Number of objects"))
        .arg(config)
        .arg(json)
}

fn most(help: &'static str) -> Arg {
    Arg::new("most")
        .long("most")
        .value_name("N")
        .default_value("100")
        .value_parser(clap::value_parser!(u64).range(1..=10_000_000))
        .help(help)
}

fn limit(matches: &ArgMatches) -> u64 {
    matches.get_one::<u64>("most").copied().unwrap_or(100)
}

fn moment(unix_s: u64) -> String {
    match unix_s {
        0 => "unknown".into(),
        known => report::text::date(known.saturating_mul(1_000_000_000)),
    }
}

fn thousands(count: u64) -> String {
    model::quantity::thousands(count as f64)
}

/// How many more there are, if any.
fn say_more(all: u64, shown: u64, what: &str) {
    let more = all.saturating_sub(shown);
    if more > 0 {
        output::result(&format!("and {} more {what}; --most N lists more", thousands(more)));
    }
}

pub(crate) fn errors(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let agent = matches.get_one::<String>("agent").map(|name| place_of(&config, name)).transpose()?;
    let mut directory = open_to_read(config)?;
    let (most, is_json, is_csv) = (limit(matches), matches.get_flag("json"), matches.get_flag("csv"));
    let count = directory.count_errors(agent).map_err(Failure::failed)?;
    if !is_csv && !matches.get_flag("all") {
        let groups = directory.error_groups(agent).map_err(Failure::failed)?;
        let first = groups.iter().take(most as usize);
        if is_json {
            document(&json!({ "errors": count, "groups": first.map(group_json).collect::<Vec<_>>() }))?;
            return Ok(Exit::Good);
        }
        first.for_each(|group| output::result(&group_text(group)));
        say_more(groups.len() as u64, most, "kinds of errors");
        output::result(&match count {
            0 => "no errors".to_string(),
            1 => "1 object with an error; --all lists it".into(),
            count => format!("{} objects with errors; --all lists each", thousands(count)),
        });
        return Ok(Exit::Good);
    }
    if is_csv {
        output::verbatim("agent,object,kind,attribute,text,first,last,count");
    }
    let (mut shown, mut all) = (0, Vec::new());
    let mut each = |known: KnownError| {
        if shown == most {
            return false;
        }
        shown += 1;
        match (is_json, is_csv) {
            (true, _) => all.push(error_json(&known)),
            (false, true) => output::verbatim(&csv_line(&known)),
            (false, false) => output::result(&error_text(&known)),
        }
        output::is_open()
    };
    directory.errors(agent, &mut each).map_err(Failure::failed)?;
    match (is_json, is_csv) {
        (true, _) => document(&json!({ "errors": all, "more": count.saturating_sub(shown) }))?,
        (false, true) if count > shown => {
            output::say(&format!("{} more errors are not listed: --most N", thousands(count - shown)));
        }
        (false, true) => {}
        (false, false) if count == 0 => output::result("no errors"),
        (false, false) => say_more(count, shown, "errors"),
    }
    Ok(Exit::Good)
}

/// The attribute of an error in text: `kind attribute`.
fn kind_text(known: &KnownError) -> String {
    let error = &known.error;
    match &error.attribute {
        Some(attribute) => format!("{} of {attribute}", error.kind),
        None => error.kind.to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn group_text(group: &ErrorGroup) -> String {
    let known = &group.example;
    format!(
        "{} x {} {}: {}\n    e.g. {}; first {}, last {}",
        thousands(group.objects),
        known.agent,
        kind_text(known),
        one_line(&known.error.text),
        known.error.object,
        moment(known.times.first_unix_s),
        moment(known.times.last_unix_s),
    )
}

fn error_text(known: &KnownError) -> String {
    let times = &known.times;
    format!(
        "{} {}\n    {}: {}\n    first {}, last {}, {}",
        known.agent,
        known.error.object,
        kind_text(known),
        one_line(&known.error.text),
        moment(times.first_unix_s),
        moment(times.last_unix_s),
        counted(times.count, "time"),
    )
}

fn group_json(group: &ErrorGroup) -> serde_json::Value {
    let known = &group.example;
    json!({
        "objects": group.objects,
        "agent": known.agent,
        "kind": known.error.kind,
        "attribute": known.error.attribute,
        "text": known.error.text,
        "example": known.error.object,
        "first_unix_s": known.times.first_unix_s,
        "last_unix_s": known.times.last_unix_s,
    })
}

fn error_json(known: &KnownError) -> serde_json::Value {
    let times = &known.times;
    json!({
        "agent": known.agent,
        "object": known.error.object,
        "kind": known.error.kind,
        "attribute": known.error.attribute,
        "text": known.error.text,
        "first_unix_s": times.first_unix_s,
        "last_unix_s": times.last_unix_s,
        "count": times.count,
        "run": times.run,
        "step": times.step,
    })
}

/// A line of CSV (RFC 4180).
fn csv_line(known: &KnownError) -> String {
    let quoted = |text: &str| match text.contains(['"', ',']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    };
    let (error, times) = (&known.error, &known.times);
    let (first, last) = (moment(times.first_unix_s), moment(times.last_unix_s));
    let count = times.count.to_string();
    let attribute = error.attribute.as_deref().unwrap_or_default();
    let cells = [&known.agent, &error.object, &*error.kind, attribute, &error.text, &first, &last, &count];
    cells.map(|cell| quoted(&one_line(cell))).join(",")
}

pub(crate) fn pending(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let name = text(matches, "agent");
    let agent = place_of(&config, name)?;
    let key = matches.get_one::<String>("object").map(String::as_str);
    let mut directory = open_to_read(config)?;
    let (most, is_json) = (limit(matches), matches.get_flag("json"));
    let count = match key {
        Some(_) => None,
        None => Some(directory.count_pending(agent).map_err(Failure::failed)?),
    };
    let (mut shown, mut all, mut is_held) = (0, Vec::new(), false);
    let mut each = |change: PendingChange| {
        if shown == most {
            return false;
        }
        is_held |= !change.held.is_empty();
        shown += 1;
        match is_json {
            true => all.push(pending_json(&change)),
            false => output::result(&pending_text(&change)),
        }
        output::is_open()
    };
    let is_known = directory.pending(agent, key, &mut each).map_err(Failure::failed)?;
    if let (false, Some(key)) = (is_known, key) {
        return Err(Failure::usage(format!(
            "error: the connector space of {name} has no object {key:?}\n  give its name or its anchor"
        )));
    }
    let count = count.unwrap_or(shown);
    if is_json {
        document(&json!({ "pending": all, "more": count.saturating_sub(shown) }))?;
        return Ok(Exit::Good);
    }
    say_more(count, shown, "objects");
    let what = match (count, is_held) {
        (_, true) => "what is not held",
        (1, false) => "its changes",
        (_, false) => "them",
    };
    output::result(&match count {
        0 => "nothing waits to be sent".to_string(),
        1 => format!("1 object waits; plimsoll metadir run {name} export sends {what}"),
        count => {
            format!("{} objects wait; plimsoll metadir run {name} export sends {what}", thousands(count))
        }
    });
    Ok(Exit::Good)
}

fn pending_text(change: &PendingChange) -> String {
    let mut text = change.difference.to_string();
    if let Some(since) = change.since_unix_s {
        text += &format!("\n    since {}", moment(since));
    }
    for (part, run) in &change.held {
        text += &format!(
            "\n    held: undo of run {run} took {part} back; correct the source or the rules, or plimsoll metadir \
             release-undo {run}"
        );
    }
    if let Some((why, times)) = &change.failed {
        let count = counted(times.count, "time");
        text += &format!("\n    failed {count}, last {}: {}", moment(times.last_unix_s), one_line(why));
    }
    text
}

fn pending_json(change: &PendingChange) -> serde_json::Value {
    let mut value = change_json(&change.difference);
    if let Some(object) = value.as_object_mut() {
        let (why, times) = change.failed.clone().unzip();
        let times = times.unwrap_or_default();
        object.insert("since_unix_s".into(), json!(change.since_unix_s));
        let held = change.held.iter().map(|(part, run)| json!({ "part": part, "undone_run": run }));
        object.insert("held".into(), json!(held.collect::<Vec<_>>()));
        object.insert("failed".into(), json!(times.count));
        object.insert("error".into(), json!(why));
    }
    value
}

/// The arguments of `audit`.
pub(crate) fn audit_arguments(config: Arg, json: Arg) -> Command {
    Command::new("audit")
        .about("List every change that a connected system accepted, the oldest first")
        .arg(number("run", "Only the changes of this run, as history numbers it").long("run").value_name("N"))
        .arg(Arg::new("agent").long("agent").value_name("AGENT").help("Only the changes of this agent"))
        .arg(
            Arg::new("object")
                .long("object")
                .value_name("KEY")
                .help("Only the changes of the object with this name or anchor"),
        )
        .arg(
            Arg::new("since")
                .long("since")
                .value_name("DATE")
                .help("Only the changes since this day or time (UTC): 2026-11-25, 2026-11-25T08:30:00Z"),
        )
        .arg(config)
        .arg(json.help("Print a line of JSON for each change"))
}

/// `1 change`, `2,000 changes`.
pub(crate) fn counted(count: u64, word: &str) -> String {
    format!("{} {word}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// The arguments of `undo`.
pub(crate) fn undo_arguments(config: Arg, allow_deletes: Arg, json: Arg) -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("undo")
        .about("Take back what a run exported: show the inverse, and send it with --apply")
        .arg(number("run", "The number of the run, as history shows it").value_name("RUN").required(true))
        .arg(Arg::new("agent").value_name("AGENT").help("Only what was exported to this agent"))
        .arg(flag("apply", "Send the inverse"))
        .arg(flag("skip-conflicts", "Leave what changed since as it is, and undo the rest"))
        .arg(flag("no-import", "Compare with the last import instead of a new one"))
        .arg(allow_deletes)
        .arg(config)
        .arg(json)
}

/// The arguments of `release-undo`.
pub(crate) fn release_arguments(config: Arg, json: Arg) -> Command {
    Command::new("release-undo")
        .about("Let exports send again what the undo of a run took back")
        .arg(number("run", "The number of the run that was undone").value_name("RUN").required(true))
        .arg(config)
        .arg(json)
}

fn number(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).value_parser(clap::value_parser!(u64).range(1..)).help(help)
}

/// A day or a moment in UTC, in seconds since 1970.
fn seconds_of(text: &str) -> Option<u64> {
    let day = || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let moment = text.parse::<jiff::Timestamp>().ok().or_else(|| Some(day()?.timestamp()))?;
    u64::try_from(moment.as_second()).ok()
}

pub(crate) fn audit(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read(text(matches, "config"))?;
    let agent = matches.get_one::<String>("agent").map(|name| place_of(&config, name)).transpose()?;
    let since = matches.get_one::<String>("since").map(|text| {
        let help = "write a day or a time in UTC: 2026-11-25, 2026-11-25T08:30:00Z";
        seconds_of(text).ok_or_else(|| Failure::usage(format!("error: {text:?} is not a date\n  {help}")))
    });
    let filter = AuditFilter {
        run: matches.get_one::<u64>("run").copied(),
        agent,
        object: matches.get_one::<String>("object").map(String::as_str),
        since_unix_s: since.transpose()?.unwrap_or(0),
    };
    let is_json = matches.get_flag("json");
    let mut directory = open_to_read(config)?;
    let mut count = 0_u64;
    let mut each = |change: AuditedChange| {
        count += 1;
        match is_json {
            true => output::json(&audited_json(&change).to_string()),
            false => output::result(&audited_text(&change)),
        }
        output::is_open()
    };
    directory.audit(filter, &mut each).map_err(Failure::failed)?;
    if count == 0 && !is_json {
        output::result("no accepted change is in the trail");
    }
    Ok(Exit::Good)
}

pub(super) fn audited_text(change: &AuditedChange) -> String {
    let shown = |values: &[Vec<u8>]| -> Vec<String> {
        values.iter().map(|value| metadir::preview::shown(value)).collect()
    };
    let values = |of: &AuditedAttribute| {
        let hidden = || vec!["(hidden)".to_string()];
        match (&of.old, of.is_secret) {
            (_, true) => (of.name.clone(), hidden(), hidden()),
            (None, false) => (of.name.clone(), vec!["(unknown)".to_string()], shown(&of.new)),
            (Some(old), false) => (of.name.clone(), shown(old), shown(&of.new)),
        }
    };
    let renamed = change
        .renamed_to
        .iter()
        .map(|new| ("(name)".to_string(), vec![change.object.clone()], vec![new.clone()]));
    let difference = Difference {
        place: Place::Exported(change.agent.clone()),
        change: change.change,
        object: change.object.clone(),
        attributes: renamed.chain(change.attributes.iter().map(values)).collect(),
    };
    format!("{}  run {}  {difference}", moment(change.at_unix_s), change.run)
}

/// A value: text, or bytes in hexadecimal.
fn value_json(value: &[u8]) -> serde_json::Value {
    match std::str::from_utf8(value) {
        Ok(text) => json!(text),
        Err(_) => {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "hex": hex })
        }
    }
}

pub(super) fn audited_json(change: &AuditedChange) -> serde_json::Value {
    let all = |values: &[Vec<u8>]| values.iter().map(|value| value_json(value)).collect::<Vec<_>>();
    let attributes = change.attributes.iter().map(|of| match of.is_secret {
        true => json!({ "attribute": of.name, "secret": true }),
        false => {
            json!({ "attribute": of.name, "old": of.old.as_deref().map(all), "new": all(&of.new) })
        }
    });
    json!({
        "run": change.run,
        "at_unix_s": change.at_unix_s,
        "agent": change.agent,
        "change": change.change.name(),
        "object": change.object,
        "renamed_to": change.renamed_to,
        "attributes": attributes.collect::<Vec<_>>(),
    })
}

pub(crate) fn undo(matches: &ArgMatches) -> Result<Exit, Failure> {
    let config = read_for_a_run(matches)?;
    let run = matches.get_one::<u64>("run").copied().unwrap_or_default();
    let agent = matches.get_one::<String>("agent").map(|name| place_of(&config, name)).transpose()?;
    let imports = !matches.get_flag("no-import");
    if !matches.get_flag("apply") {
        return preview_undo(config, run, agent, imports, matches.get_flag("json"));
    }
    let options = UndoOptions { imports, skips_conflicts: matches.get_flag("skip-conflicts") };
    let mut directory = open(interruptible(config))?;
    directory.begin_run().map_err(not_opened)?;
    let done = with_progress(run, |progress| directory.undo(run, agent, options, progress));
    let undone = match done {
        Ok(undone) => {
            directory.end_run().map_err(not_opened)?;
            undone
        }
        Err(UndoError::Conflicts(conflicts)) => {
            let count = conflicts.len() as u64;
            match matches.get_flag("json") {
                true => document(
                    &json!({ "conflicts": conflicts.iter().map(conflict_json).collect::<Vec<_>>() }),
                )?,
                false => show_conflicts(&conflicts),
            }
            return Err(Failure::failed(format!(
                "run {run} was not undone, because {} cannot be undone: --skip-conflicts undoes the others",
                counted(count, "change")
            )));
        }
        Err(error) => return Err(undo_failure(error)),
    };
    if matches.get_flag("json") {
        document(&undone_json(&undone, run_json))?;
    } else {
        undone.steps.iter().for_each(|step| output::result(&reported(step)));
        show_conflicts(&undone.conflicts);
        output::say(
            "next: run a full-import and a delta-synchronization of the agent, and then its export; what the rules would \
             send again is held\n",
        );
    }
    let has_failed = undone.steps.iter().any(|step| step.outcome.contains("error"));
    Ok(if has_failed { Exit::Failed } else { Exit::Good })
}

fn undo_failure(error: UndoError) -> Failure {
    match error {
        UndoError::Step(error) => not_opened(error),
        error => Failure::failed(error),
    }
}

/// Carries out an undo with its progress on standard error.
fn with_progress<T>(run: u64, carry_out: impl FnOnce(&mut dyn FnMut(u64) -> bool) -> T) -> T {
    let interrupted = crate::interrupt::flag();
    let mut progress = Progress::new(&format!("undo {run}"), false);
    let done = carry_out(&mut |done| {
        progress.show(done);
        !interrupted.load(Ordering::Relaxed)
    });
    progress.clear();
    done
}

fn preview_undo(
    config: metadir::config::Config,
    run: u64,
    agent: Option<usize>,
    imports: bool,
    is_json: bool,
) -> Result<Exit, Failure> {
    let changes = Arc::new(Mutex::new(Changes::default()));
    let into = Arc::clone(&changes);
    // The imports before it change only what is compared.
    let sink = Box::new(move |change: Difference| {
        if matches!(change.place, Place::Exported(_)) {
            held(&into).take_up(change, false);
        }
    });
    let mut directory = Metadirectory::preview(interruptible(config), sink).map_err(not_opened)?;
    let undone = with_progress(run, |progress| directory.preview_undo(run, agent, imports, progress));
    drop(directory);
    let undone = undone.map_err(undo_failure)?;
    let changes = std::mem::take(&mut *held(&changes));
    if is_json {
        let mut value = undone_json(&undone, step_json);
        if let Some(object) = value.as_object_mut() {
            object.insert("changes".into(), json!(changes.count));
            let first: Vec<_> = changes.first.iter().map(change_json).collect();
            object.insert("first_changes".into(), json!(first));
        }
        document(&value)?;
        return Ok(Exit::Good);
    }
    output::result(changes.shown().trim_end());
    show_conflicts(&undone.conflicts);
    output::result(&format!(
        "undo of run {run}: {}, {}; nothing was sent, --apply sends it",
        counted(changes.count, "change"),
        counted(undone.conflicts.len() as u64, "conflict")
    ));
    Ok(Exit::Good)
}

/// Conflicts that are listed as text.
const CONFLICTS_SHOWN: usize = 100;

fn show_conflicts(conflicts: &[Conflict]) {
    for Conflict { agent, object, attribute, why } in conflicts.iter().take(CONFLICTS_SHOWN) {
        let attribute = attribute.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        output::result(&format!("conflict: {agent} {object}{attribute}: {why}"));
    }
    let more = conflicts.len().saturating_sub(CONFLICTS_SHOWN) as u64;
    if more > 0 {
        output::result(&format!("and {} more conflicts; --json lists all", thousands(more)));
    }
}

fn conflict_json(conflict: &Conflict) -> serde_json::Value {
    let Conflict { agent, object, attribute, why } = conflict;
    json!({ "agent": agent, "object": object, "attribute": attribute, "why": why })
}

fn undone_json(undone: &Undone, step: impl Fn(&StepRecord) -> serde_json::Value) -> serde_json::Value {
    json!({
        "steps": undone.steps.iter().map(step).collect::<Vec<_>>(),
        "conflicts": undone.conflicts.iter().map(conflict_json).collect::<Vec<_>>(),
    })
}

pub(crate) fn release_undo(matches: &ArgMatches) -> Result<Exit, Failure> {
    let run = matches.get_one::<u64>("run").copied().unwrap_or_default();
    let mut directory = open(read(text(matches, "config"))?)?;
    let released = directory.release_undo(run).map_err(not_opened)?;
    match (matches.get_flag("json"), released) {
        (true, _) => document(&json!({ "released": released }))?,
        (false, 0) => output::result(&format!("nothing is held because of an undo of run {run}")),
        (false, _) => output::result(&format!(
            "{} no longer held; the next export sends what is pending",
            match released {
                1 => "1 change is".to_string(),
                _ => format!("{} are", counted(released, "change")),
            }
        )),
    }
    Ok(Exit::Good)
}
