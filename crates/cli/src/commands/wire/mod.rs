//! `plimsoll wire`: operations, response times and connections in captured packets.

mod against;
mod live;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use model::quantity::parse_duration;
use model::wire::WireDocument;
use wire::{Analysis, Condition, Operation, Ports, Settings};

use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Its arguments.
pub(crate) fn arguments(json: Arg) -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let properties: Vec<String> =
        wire::fields().map(|(name, about)| format!("  {name:<11} {about}")).collect();
    Command::new("wire")
        .about("Captured packets: operations of LDAP and HTTP/1 with response times, results and cost, and the state of the connections")
        .after_help(format!(
            "A condition of --where compares properties with =, !=, <, <=, >, >= or contains, and joins comparisons with and, or, \
             not and parentheses:\n\n{}\n\nExamples:\n  plimsoll wire ldap.pcap --slow 1s\n  plimsoll wire ldap.pcap --where \
             'filter contains \"(mail=\" and time > 1s' --operations\n  plimsoll wire --live eth0 --for 10s --html wire.html",
            properties.join("\n")
        ))
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required_unless_present("live")
                .help("The capture: pcap, pcapng or snoop; `-` reads it from standard input"),
        )
        .arg(
            option("live", "INTERFACE", "Capture on this interface with tcpdump or dumpcap, until Ctrl-C or for --for")
                .conflicts_with("file"),
        )
        .arg(option("for", "DURATION", "How long to capture").requires("live"))
        .arg(
            option("decode", "PORT=PROTOCOL", "The protocol of a port, such as 3389=ldap or 8081=http; may be repeated. By default \
                    389 is ldap, 80 and 8080 are http, and others are recognized by their first bytes")
                .action(ArgAction::Append),
        )
        .arg(option("where", "CONDITION", "Count only operations that meet a condition, which is described below"))
        .arg(option("slow", "DURATION", "Count operations that take longer, by kind"))
        .arg(
            option("top", "N", "Rows of each list")
                .default_value("10")
                .value_parser(value_parser!(u16).range(1..=1000)),
        )
        .arg(
            Arg::new("operations")
                .long("operations")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["json", "against"])
                .help("List each operation, with times to the microsecond, instead of the summary"),
        )
        .arg(
            option("format", "FORMAT", "The format of --operations; json prints one document per line")
                .value_parser(["text", "csv", "json"])
                .default_value("text")
                .requires("operations"),
        )
        .arg(option("html", "FILE", "Write the summary with charts over time to an HTML file as well"))
        .arg(option(
            "against",
            "RUN",
            "Compare with the record of an LDAP or HTTP load that was captured: its run directory, or RUN:TRIAL",
        ))
        .arg(json)
}

/// Analyses a capture.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let mut settings = settings(matches)?;
    let client = match matches.get_one::<String>("against") {
        Some(name) => Some(against::Client::load(name)?),
        None => None,
    };
    if let Some(client) = &client {
        settings.window = Some(client.window);
        if let Some(port) = client.window.port {
            settings.ports.set(port, client.protocol);
        }
    }
    let listed = matches.get_flag("operations").then(|| text(matches, "format"));
    let mut lines = listed.map(|format| {
        let mut lines = output::Lines::new();
        match format {
            "csv" => lines.add(report::wire_operation_csv_head()),
            "json" => {}
            _ => lines.add(&report::wire_operation_head()),
        }
        lines
    });
    // The page of --html has the whole capture.
    let ends_with_output = lines.is_some() && !matches.contains_id("html");
    let each = |operation: &Operation, begin_ns: u64| {
        let Some(lines) = &mut lines else { return };
        let document = operation.document(begin_ns);
        match listed {
            Some("csv") => lines.add(&report::wire_operation_csv(&document)),
            Some("json") => lines.add(&report::wire_operation_json(&document)),
            _ => lines.add(&report::wire_operation_text(&document)),
        }
        if matches.contains_id("live") {
            lines.flush();
        }
    };
    let mut document = match matches.get_one::<String>("live") {
        Some(interface) => live::analyse(interface, duration(matches, "for")?, settings, each)?,
        None => of_file(text(matches, "file"), ends_with_output, settings, each)?,
    };
    if let Some(lines) = &mut lines {
        lines.flush();
    }
    if ends_with_output && !output::is_open() {
        return Ok(Exit::Good);
    }
    if let Some(client) = &client {
        document.against = Some(client.compare(&document));
    }
    if let Some(path) = matches.get_one::<String>("html") {
        let page = report::wire_html(&document);
        files::Output::write_file(Path::new(path), page.as_bytes())
            .map_err(|error| Failure::failed(format!("{path} cannot be written: {error}")))?;
    }
    match (listed, matches.get_flag("json")) {
        (None, true) => output::json(&report::wire_json(&document)),
        (None, false) => output::page(&report::wire(&document, output::terminal(false))),
        // Standard output has operations only.
        (Some(_), _) => {
            let missed = report::wire_missed(&document);
            if !missed.is_empty() {
                output::say(&missed.join("\n"));
            }
        }
    }
    match &document.capture.error {
        None => Ok(Exit::Good),
        Some(error) => Err(Failure::failed(format!(
            "{}, byte {}: {}\n  what was read before it is shown",
            document.source, error.offset, error.what
        ))),
    }
}

/// The packets of a file, while somebody reads the list of their operations.
struct Wanted<R> {
    packets: R,
    ends_with_output: bool,
}

impl<R: Read> Read for Wanted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self.ends_with_output && !output::is_open() {
            true => Ok(0),
            false => self.packets.read(bytes),
        }
    }
}

fn of_file(
    name: &str,
    ends_with_output: bool,
    settings: Settings,
    each: impl FnMut(&Operation, u64),
) -> Result<WireDocument, Failure> {
    let (from, source): (Box<dyn Read>, &str) = match name {
        "-" => (Box::new(std::io::stdin().lock()), "standard input"),
        path => {
            let file = File::open(path).map_err(|error| {
                Failure::usage(format!(
                    "error: {path} cannot be opened: {error}\n  write the path of a capture, or `-`"
                ))
            })?;
            (Box::new(file), path)
        }
    };
    Analysis::of(Wanted { packets: from, ends_with_output }, source, settings, each)
        .map_err(|error| Failure::usage(format!("error: {source}: {}", error.what)))
}

fn duration(matches: &ArgMatches, id: &str) -> Result<Option<u64>, Failure> {
    let parse = |text: &String| {
        parse_duration(text).map_err(|error| Failure::usage(format!("error: --{id}: {error}")))
    };
    matches.get_one::<String>(id).map(parse).transpose()
}

/// The settings; all mistakes are reported at once.
fn settings(matches: &ArgMatches) -> Result<Settings, Failure> {
    let mut mistakes = Vec::new();
    let mut ports = Ports::default();
    for word in matches.get_many::<String>("decode").into_iter().flatten() {
        if let Err(why) = ports.set_by_text(word) {
            mistakes.push(format!("error: --decode: {why}"));
        }
    }
    let condition = match matches.get_one::<String>("where").map(|text| (text, Condition::parse(text))) {
        None => None,
        Some((_, Ok(condition))) => Some(condition),
        Some((text, Err(all))) => {
            for mistake in all {
                let place = " ".repeat(mistake.column - 1);
                mistakes.push(format!(
                    "error: --where, column {}: {}\n  {text}\n  {place}^\n  {}",
                    mistake.column, mistake.what, mistake.help
                ));
            }
            None
        }
    };
    let mut durations = [None; 2];
    for (id, duration_ns) in ["slow", "for"].into_iter().zip(&mut durations) {
        match duration(matches, id) {
            Ok(found) => *duration_ns = found,
            Err(failure) => mistakes.push(failure.text),
        }
    }
    if !mistakes.is_empty() {
        return Err(Failure::usage(mistakes.join("\n")));
    }
    let top = matches.get_one::<u16>("top").map_or(10, |top| usize::from(*top));
    Ok(Settings { ports, condition, slow_ns: durations[0], window: None, top })
}
