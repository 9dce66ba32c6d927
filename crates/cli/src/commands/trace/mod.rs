//! `plimsoll trace`: which reads, writes and flushes each operation of a process causes.

mod counting;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use counters::operation_io::Function;
use model::operation_io::{MixGoal, TRACE_FORMAT, TraceDocument, TraceInterval};
use model::quantity;
use report::TraceDetail;

use self::counting::{Counting, Wanted};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Lines between two lines of heads.
const LINES_PER_HEAD: usize = 20;

/// Its arguments.
pub(crate) fn arguments() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let repeated = |arg: Arg| arg.action(ArgAction::Append);
    Command::new("trace")
        .about("Reads, writes, flushes and bytes of each operation of a process, per second and per operation")
        .after_help(
            "The operations of slapd and ns-slapd are known. For any other program name its functions:\n  \
             plimsoll trace --pid 4711 --function commit=RecordTransactionCommit\n\
             What a load needs of the disk, with headroom:\n  \
             plimsoll trace --pid 4711 --count 30 --for \"2000 modify/s, 10000 search/s\"\n\
             Tracing needs root. Without it, give the server's statistics: --server ldap://127.0.0.1",
        )
        .arg(option("pid", "PID", "The process").required(true).value_parser(value_parser!(u32).range(1..)))
        .arg(option("interval", "TIME", "Time between two lines, 100ms to 1h").default_value("1s"))
        .arg(option("count", "N", "Number of intervals [default: until Ctrl-C]").value_parser(value_parser!(u64).range(1..)))
        .arg(flag("operations", "A column for each operation"))
        .arg(flag("reads", "Columns of reads; also counts the system calls `read` and `readv` on files, which slows every system call of the host while it runs"))
        .arg(flag("writes", "Columns of writes and flushes; also counts the system calls `write` and `writev` on files, which slows every system call of the host while it runs"))
        .arg(repeated(option("function", "[NAME=][LIBRARY:]SYMBOL", "A function that is an operation, instead of those of a known server; may be repeated")))
        .arg(option("log", "FILE", "A log whose new lines are operations").requires("line").conflicts_with("function"))
        .arg(repeated(option("line", "[NAME=]REGEX", "The lines of --log that are an operation; may be repeated").requires("log")))
        .arg(option("server", "URL", "LDAP URL of the server: operations are counted from its own statistics, if they cannot be traced"))
        .arg(option("bind-dn", "DN", "Bind as this entry to read the statistics").requires("server"))
        .arg(option("password", "TEXT", "Its password. Write it as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}").requires("bind-dn"))
        .arg(repeated(option("device", "DISK", "A disk whose requests are counted, such as vda; may be repeated [default: those below the files that the process has open for writing]")))
        .arg(flag("without-tracing", "Read counters only, as without the permission to trace"))
        .arg(option("for", "LOAD", "What a load needs of the disk, such as \"2000 modify/s, 10000 search/s\"").conflicts_with("csv"))
        .arg(flag("csv", "Print one CSV row for each operation of each interval").conflicts_with("json"))
        .arg(flag("json", "Print one JSON document at the end, which `plimsoll size` reads"))
}

/// `plimsoll trace`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let interrupted = crate::interrupt::flag();
    let interval = interval(matches)?;
    let goal = matches.get_one::<String>("for").map(|text| MixGoal::parse(text)).transpose();
    let goal = goal.map_err(|error| Failure::usage(format!("error: --for: {error}")))?;
    let detail = TraceDetail {
        operations: matches.get_flag("operations"),
        reads: matches.get_flag("reads"),
        writes: matches.get_flag("writes"),
    };
    let mut counting = Counting::open(&wanted(matches, detail)?)?;
    if counting.is_limited() {
        output::say(&counting.notice());
    }
    let printer = Printer { csv: matches.get_flag("csv"), json: matches.get_flag("json"), detail };
    let intervals =
        measure(&mut counting, interval, matches.get_one::<u64>("count").copied(), printer, interrupted)?;
    let is_incomplete = matches.contains_id("count") && interrupted.load(Ordering::Relaxed);
    let document = TraceDocument {
        format: TRACE_FORMAT.into(),
        pid: counting.pid,
        program: counting.program.clone(),
        devices: counting.disks.clone(),
        methods: counting.methods(),
        limits: counting.limits(),
        io: analysis::operation_io::judge(&intervals),
        intervals,
    };
    // Before the probes are removed, for which the kernel takes its time.
    let exit = show(&document, goal.as_ref(), printer)?;
    Ok(if is_incomplete { Exit::Interrupted } else { exit })
}

/// How the intervals are printed.
#[derive(Clone, Copy)]
struct Printer {
    csv: bool,
    json: bool,
    detail: TraceDetail,
}

fn interval(matches: &ArgMatches) -> Result<Duration, Failure> {
    let text = super::text(matches, "interval");
    let parsed = quantity::parse_duration(text)
        .map_err(|error| Failure::usage(format!("error: --interval: {error}")))?;
    let interval = Duration::from_nanos(parsed);
    match (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        true => Ok(interval),
        false => Err(Failure::usage(format!("error: --interval {text}: write a time from 100ms to 1h"))),
    }
}

fn wanted(matches: &ArgMatches, detail: TraceDetail) -> Result<Wanted<'_>, Failure> {
    let texts = |id: &str| matches.get_many::<String>(id).into_iter().flatten();
    let functions: Vec<Function> = texts("function")
        .map(|text| Function::parse(text))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::usage(format!("error: --function: {error}")))?;
    let password =
        matches.get_one::<String>("password").map(|text| crate::secrets::resolve_text(text)).transpose();
    let password = password.map_err(|error| Failure::usage(format!("error: --password: {error}")))?;
    let server = matches.get_one::<String>("server").map(|url| server::Access {
        url,
        bind_dn: matches.get_one::<String>("bind-dn").map(String::as_str),
        password,
    });
    Ok(Wanted {
        pid: matches.get_one("pid").copied().unwrap_or_default(),
        functions,
        disks: texts("device").map(|disk| disk.trim_start_matches("/dev/").to_string()).collect(),
        log: matches.get_one::<String>("log").map(String::as_str),
        lines: texts("line").map(String::as_str).collect(),
        server,
        is_traced: !matches.get_flag("without-tracing"),
        has_all_calls: detail.reads || detail.writes,
    })
}

/// Counts until the number of intervals is reached, the user stops it, or the process ends.
fn measure(
    counting: &mut Counting,
    interval: Duration,
    count: Option<u64>,
    printer: Printer,
    interrupted: &AtomicBool,
) -> Result<Vec<TraceInterval>, Failure> {
    let begin = Instant::now();
    let mut intervals: Vec<TraceInterval> = Vec::new();
    let mut last = begin;
    counting.read()?;
    while count.is_none_or(|count| (intervals.len() as u64) < count) {
        let due = begin + interval * (intervals.len() as u32 + 1);
        let is_over = wait(due, counting, interrupted);
        let now = Instant::now();
        let rows = counting.read()?;
        let found =
            TraceInterval { end_s: (now - begin).as_secs_f64(), seconds: (now - last).as_secs_f64(), rows };
        last = now;
        print(&found, intervals.len(), printer);
        intervals.push(found);
        if is_over || !output::is_open() {
            break;
        }
    }
    Ok(intervals)
}

/// Waits in pieces, so that a signal and the end of the process are noticed soon. Whether one of them came.
fn wait(due: Instant, counting: &Counting, interrupted: &AtomicBool) -> bool {
    loop {
        if interrupted.load(Ordering::Relaxed) || !counting.is_running() {
            return true;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// Prints an interval.
fn print(interval: &TraceInterval, number: usize, printer: Printer) {
    let mut lines = Vec::new();
    match (printer.csv, printer.json) {
        (true, _) => {
            lines.extend((number == 0).then(report::trace_csv_heads));
            lines.push(report::trace_csv(interval));
        }
        (_, true) => return,
        _ => {
            lines.extend(
                number.is_multiple_of(LINES_PER_HEAD).then(|| report::trace_heads(interval, printer.detail)),
            );
            lines.push(report::trace_line(interval, printer.detail));
        }
    }
    output::page(&lines.join("\n"));
}

/// Prints the summary and the price.
fn show(document: &TraceDocument, goal: Option<&MixGoal>, printer: Printer) -> Result<Exit, Failure> {
    let price = goal.map(|goal| analysis::operation_io::price(document, goal));
    if printer.json {
        let mut value = serde_json::to_value(document).map_err(Failure::failed)?;
        value["findings"] = report::trace_findings(&document.io).into();
        if let Some(Ok(price)) = &price {
            value["price"] = serde_json::to_value(price).map_err(Failure::failed)?;
            value["price"]["answer"] = report::price_answer(price).into();
        }
        output::json(&serde_json::to_string_pretty(&value).map_err(Failure::failed)?);
    } else if printer.csv {
        // Rows of one form only.
    } else {
        output::page(&format!("\n{}", report::trace_summary(document, output::terminal(false)).trim_end()));
    }
    match price {
        Some(Err(error)) => {
            output::say(&format!("no price: {error}"));
            Ok(Exit::Inconclusive)
        }
        Some(Ok(price)) if !printer.json => {
            output::page(&format!("\n{}", report::io_price(&price, output::terminal(false)).trim_end()));
            Ok(Exit::Good)
        }
        _ => Ok(Exit::Good),
    }
}
