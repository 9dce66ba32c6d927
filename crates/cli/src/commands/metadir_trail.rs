//! `plimsoll metadir errors`, `pending`, `audit`, `undo` and `release-undo`: what went wrong, what waits, what was
//! sent, and how to take it back.

use clap::{Arg, ArgAction, ArgMatches, Command};
use metadir::metadirectory::{ErrorGroup, KnownError, PendingChange};
use serde_json::json;

use super::metadir::{change_json, document, open, place_of, read};
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
    let mut directory = open(config)?;
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
        true
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
        "{} {}\n    {}: {}\n    first {}, last {}, {} times",
        known.agent,
        known.error.object,
        kind_text(known),
        one_line(&known.error.text),
        moment(times.first_unix_s),
        moment(times.last_unix_s),
        thousands(times.count),
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
    let mut directory = open(config)?;
    let (most, is_json) = (limit(matches), matches.get_flag("json"));
    let count = match key {
        Some(_) => None,
        None => Some(directory.count_pending(agent).map_err(Failure::failed)?),
    };
    let (mut shown, mut all) = (0, Vec::new());
    let mut each = |change: PendingChange| {
        if shown == most {
            return false;
        }
        shown += 1;
        match is_json {
            true => all.push(pending_json(&change)),
            false => output::result(&pending_text(&change)),
        }
        true
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
    output::result(&match count {
        0 => "nothing waits to be sent".to_string(),
        1 => format!("1 object waits; plimsoll metadir run {name} export sends its changes"),
        count => format!("{} objects wait; plimsoll metadir run {name} export sends them", thousands(count)),
    });
    Ok(Exit::Good)
}

fn pending_text(change: &PendingChange) -> String {
    let mut text = change.difference.to_string();
    if let Some(since) = change.since_unix_s {
        text += &format!("\n    since {}", moment(since));
    }
    if let Some((why, times)) = &change.failed {
        let count = thousands(times.count);
        text += &format!("\n    failed {count} times, last {}: {}", moment(times.last_unix_s), one_line(why));
    }
    text
}

fn pending_json(change: &PendingChange) -> serde_json::Value {
    let mut value = change_json(&change.difference);
    if let Some(object) = value.as_object_mut() {
        let (why, times) = change.failed.clone().unzip();
        let times = times.unwrap_or_default();
        object.insert("since_unix_s".into(), json!(change.since_unix_s));
        object.insert("failed".into(), json!(times.count));
        object.insert("error".into(), json!(why));
    }
    value
}
