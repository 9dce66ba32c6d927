//! `generate`: synthetic people as data for directories and databases.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use metadir::sqlite_script::SqliteScript;
use model::quantity;
use people::{ATTRIBUTES, Base, COUNT_MAX, DAY_MAX, Dialect, Format, Population, Shares, Sink, Written};
use report::text::Quantity;

use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output::{self, Standard};

/// How often the line of progress is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// The arguments.
pub(crate) fn arguments() -> Command {
    Command::new("generate")
        .about("Synthetic people as CSV, LDIF, SQL or attribute-value pairs")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(people_arguments())
}

fn people_arguments() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("people")
        .about("People of an organization, and groups; the data of person i depends only on the seed and i")
        .after_help(
            "One day later:  plimsoll generate people --count 100000 --changes 2% --leavers 1% --joiners 1%\n\
             The attributes and their order: \"Attributes of people\" in docs/handbook/reference.md.",
        )
        .arg(
            option("count", "N", "People on day 0")
                .default_value("1000")
                .value_parser(value_parser!(u64).range(1..=COUNT_MAX)),
        )
        .arg(
            option("attributes", "K", "Number of attributes: the first K of the list")
                .default_value("25")
                .value_parser(value_parser!(u64).range(1..=ATTRIBUTES.len() as u64)),
        )
        .arg(option("seed", "S", "Seed of the random data").default_value("1").value_parser(value_parser!(u64)))
        .arg(
            option("format", "FORMAT", "csv, ldif, sql, sqlite (a new database file) or avp (attribute-value pairs)")
                .default_value("csv")
                .value_parser(["csv", "ldif", "sql", "sqlite", "avp"]),
        )
        .arg(option("output", "FILE", "The file to write [default: standard output]").short('o'))
        .arg(option("groups", "N", "Number of groups to write, with their members").default_value("0").value_parser(value_parser!(u64)))
        .arg(option("groups-output", "FILE", "The file for memberships; required with CSV, which has a separate table for them"))
        .arg(option("base", "DN", "Base DN of all entries in LDIF").default_value("dc=example,dc=com"))
        .arg(
            option("dialect", "DIALECT", "SQL dialect: postgres (COPY) or sqlite (INSERT)")
                .default_value("postgres")
                .value_parser(["postgres", "sqlite"]),
        )
        .arg(option("changes", "SHARE", "Share of people with a changed attribute each day, such as 2%"))
        .arg(option("leavers", "SHARE", "Share of people who leave each day, such as 1%"))
        .arg(option("joiners", "SHARE", "Share of people who join each day, such as 1% of those on day 0"))
        .arg(
            option(
                "day",
                "D",
                "The day to write [default: 0, or 1 with a share]; without shares 2% change, 1% leave, 1% join each day",
            )
            .value_parser(value_parser!(u32).range(0..=i64::from(DAY_MAX))),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .requires("output")
                .help("Print the summary as one JSON document; needs --output"),
        )
        .arg(Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("Print no progress and no summary"))
}

/// `plimsoll generate`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    match matches.subcommand() {
        Some(("people", matches)) => people(matches),
        _ => Err(Failure::usage("error: the data to generate is missing: plimsoll generate people")),
    }
}

/// `plimsoll generate people`.
fn people(matches: &ArgMatches) -> Result<Exit, Failure> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(0);
    let format = format(matches)?;
    let groups = number("groups");
    let groups_path = matches.get_one::<String>("groups-output");
    match (groups, &format, groups_path) {
        (1.., Format::Csv, None) => {
            return Err(Failure::usage("error: --groups with CSV needs a second file: --groups-output FILE"));
        }
        (0, _, Some(_)) => {
            return Err(Failure::usage("error: --groups-output needs --groups N"));
        }
        _ => {}
    }
    let path = matches.get_one::<String>("output");
    if path.is_some() && path == groups_path {
        return Err(Failure::usage(
            "error: --output and --groups-output are the same file: remove --groups-output, or name another file",
        ));
    }
    let is_database = text(matches, "format") == "sqlite";
    if is_database && (path.is_none() || groups_path.is_some()) {
        return Err(Failure::usage(
            "error: --format sqlite writes one database: name its file with --output FILE, and remove --groups-output",
        ));
    }
    let population = population(matches, Population::new(number("seed"), number("count")))?;
    let mut job = Job::begin(matches, &population, path);
    let mut files = Files {
        people: open_people(path, is_database)?,
        groups: groups_path.map(|path| open(Some(path))).transpose()?,
    };
    let outcome = job.write(&population, number("attributes") as usize, groups, &format, &mut files);
    let outcome = outcome.and_then(|done| files.finish(&done).map(|()| done));
    job.clear();
    match outcome {
        // The reader of the pipe has closed it, or the end of the program says why it was lost.
        Err((_, error)) if error.kind() == ErrorKind::BrokenPipe || !output::is_open() => Ok(Exit::Good),
        Err((what, error)) => {
            let what = match what {
                Part::Groups if groups_path.is_some() => groups_path,
                _ => path,
            };
            Err(Failure::failed(format!("{} could not be written: {error}", place(what))))
        }
        Ok(done) => job.report(&done, matches, path),
    }
}

fn format(matches: &ArgMatches) -> Result<Format, Failure> {
    let name = text(matches, "format");
    for (flag, of) in [("base", "ldif"), ("dialect", "sql")] {
        if matches.value_source(flag) == Some(ValueSource::CommandLine) && name != of {
            return Err(Failure::usage(format!(
                "error: --{flag} needs --format {of}, but the format is {name}"
            )));
        }
    }
    Ok(match name {
        "ldif" => {
            let base = Base::parse(text(matches, "base"));
            Format::Ldif(base.map_err(|why| Failure::usage(format!("error: --base: {why}")))?)
        }
        "sqlite" => Format::Sql(Dialect::Sqlite),
        "sql" if text(matches, "dialect") == "sqlite" => Format::Sql(Dialect::Sqlite),
        "sql" => Format::Sql(Dialect::Postgres),
        "avp" => Format::Avp,
        _ => Format::Csv,
    })
}

/// The people on the requested day.
fn population(matches: &ArgMatches, people: Population) -> Result<Population, Failure> {
    let share = |name: &str| -> Result<Option<f64>, Failure> {
        let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
        let percent =
            quantity::parse_percent(text).map_err(|why| Failure::usage(format!("error: --{name}: {why}")))?;
        Ok(Some(percent / 100.0))
    };
    let (changes, leavers, joiners) = (share("changes")?, share("leavers")?, share("joiners")?);
    let none = changes.is_none() && leavers.is_none() && joiners.is_none();
    let shares = match none {
        true => Shares::default(),
        // If some of the three shares are given, the others are 0.
        false => Shares {
            changes: changes.unwrap_or(0.0),
            leavers: leavers.unwrap_or(0.0),
            joiners: joiners.unwrap_or(0.0),
        },
    };
    let day = matches.get_one::<u32>("day").copied().unwrap_or(u32::from(!none));
    people.on_day(day, shares).map_err(|why| Failure::usage(format!("error: {why}")))
}

/// Where people go.
enum People {
    Text(Destination),
    Database(SqliteScript),
}

/// Where text goes.
enum Destination {
    /// The file that the user named.
    Named(files::Output),
    Standard(Standard),
}

impl Destination {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Destination::Named(output) => output.file(),
            Destination::Standard(standard) => standard,
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Destination::Named(output) => output.finish(),
            Destination::Standard(_) => Ok(()),
        }
    }
}

impl People {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            People::Text(destination) => destination.writer(),
            People::Database(script) => script,
        }
    }
}

fn open_people(path: Option<&String>, is_database: bool) -> Result<People, Failure> {
    let Some(database) = path.filter(|_| is_database) else { return open(path).map(People::Text) };
    SqliteScript::create(Path::new(database)).map(People::Database).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!(
            "error: {database} exists already and is not overwritten\n  name a new file"
        )),
        _ => Failure::failed(format!("{database} could not be created: {error}")),
    })
}

/// A file, or standard output.
fn open(path: Option<&String>) -> Result<Destination, Failure> {
    match path {
        Some(path) => files::Output::create(Path::new(path), files::SHARED_FILE).map(Destination::Named),
        None => Ok(Destination::Standard(Standard)),
    }
    .map_err(|error| Failure::failed(format!("{} could not be opened for writing: {error}", place(path))))
}

fn place(path: Option<&String>) -> &str {
    path.map_or("standard output", String::as_str)
}

/// Where text goes. Groups go behind people when they have no file of their own.
struct Files {
    people: People,
    groups: Option<Destination>,
}

impl Files {
    /// Moves the output to its final path. An incomplete database is discarded; incomplete text is kept.
    fn finish(self, done: &Done) -> Result<(), (Part, std::io::Error)> {
        match self.people {
            People::Text(destination) => destination.finish().map_err(|error| (Part::People, error))?,
            People::Database(script) if done.people.whole && done.groups.whole => {
                script.finish().map_err(|error| (Part::People, error))?;
            }
            People::Database(_) => {}
        }
        self.groups.map_or(Ok(()), Destination::finish).map_err(|error| (Part::Groups, error))
    }
}

#[derive(Clone, Copy)]
enum Part {
    People,
    Groups,
}

/// What was written.
struct Done {
    people: Written,
    groups: Written,
    bytes: u64,
}

/// One writing, with its clock and its line of progress.
struct Job {
    begun: Instant,
    drawn: Option<Instant>,
    show: bool,
    count: u64,
}

impl Job {
    fn begin(matches: &ArgMatches, population: &Population, path: Option<&String>) -> Job {
        // The progress line would appear within the output.
        let among = path.is_none() && output::is_terminal();
        let show = std::io::stderr().is_terminal() && !among && !matches.get_flag("quiet");
        Job { begun: Instant::now(), drawn: None, show, count: population.numbers_end() }
    }

    fn write(
        &mut self,
        population: &Population,
        attributes: usize,
        groups: u64,
        format: &Format,
        files: &mut Files,
    ) -> Result<Done, (Part, std::io::Error)> {
        let interrupted = crate::interrupt::flag();
        let count = self.count;
        let mut go_on = |records: u64, bytes: u64| {
            self.draw(records, count, "people", bytes);
            !interrupted.load(Ordering::Relaxed)
        };
        let mut sink = Sink::new(files.people.writer(), &mut go_on);
        let people = people::write_people(population, attributes, format, &mut sink)
            .map_err(|error| (Part::People, error))?;
        let mut done = Done { people, groups: Written { records: 0, whole: true }, bytes: sink.bytes() };
        let bytes_before = done.bytes;
        if groups > 0 && people.whole {
            let mut go_on = |records: u64, bytes: u64| {
                self.draw(records, groups, "groups", bytes_before + bytes);
                !interrupted.load(Ordering::Relaxed)
            };
            let writer = match &mut files.groups {
                Some(destination) => destination.writer(),
                None => files.people.writer(),
            };
            let mut sink = Sink::new(writer, &mut go_on);
            done.groups = people::write_groups(population, groups, format, &mut sink)
                .map_err(|error| (Part::Groups, error))?;
            done.bytes += sink.bytes();
        }
        Ok(done)
    }

    fn draw(&mut self, records: u64, of: u64, what: &str, bytes: u64) {
        if self.show && self.drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_EVERY) {
            self.drawn = Some(Instant::now());
            let rate = bytes as f64 / self.begun.elapsed().as_secs_f64().max(1e-9);
            let count = |value: u64| quantity::thousands(value as f64);
            output::redraw(&format!(
                "{} of {} {what} · {} · {}",
                count(records),
                count(of),
                Quantity::Bytes.show(bytes as f64),
                Quantity::BytesPerSecond.show(rate)
            ));
        }
    }

    fn clear(&self) {
        if self.drawn.is_some() {
            output::redraw("");
        }
    }

    /// Prints a summary if the output is a file.
    fn report(&self, done: &Done, matches: &ArgMatches, path: Option<&String>) -> Result<Exit, Failure> {
        let whole = done.people.whole && done.groups.whole;
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = done.bytes as f64 / seconds.max(1e-9);
        if matches.get_flag("json") {
            let document = serde_json::json!({
                "format": "plimsoll.generate/1",
                "records": done.people.records,
                "groups": done.groups.records,
                "bytes": done.bytes,
                "seconds": seconds,
                "bytes_per_s": rate,
                "whole": whole,
            });
            output::json(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
        } else if let Some(path) = path
            && !matches.get_flag("quiet")
        {
            let count = |value: u64| quantity::thousands(value as f64);
            let groups = match done.groups.records {
                0 => String::new(),
                groups => format!(", {} groups", count(groups)),
            };
            output::result(&format!(
                "{path}: {} people{groups}, {} in {} ({})",
                count(done.people.records),
                Quantity::Bytes.show(done.bytes as f64),
                Quantity::Seconds.show(seconds),
                Quantity::BytesPerSecond.show(rate)
            ));
        }
        if whole {
            return Ok(Exit::Good);
        }
        output::say(&format!("interrupted: {} is incomplete", place(path)));
        Ok(Exit::Interrupted)
    }
}
