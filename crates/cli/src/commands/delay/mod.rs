//! `plimsoll delay`: a TCP proxy between a system and a dependency, and its control.

mod text;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use delay::control::{ControlServer, Request, RequestError, request};
use delay::settings::{Assignment, KEYS};
use delay::{Change, Options, Proxy, RouteOptions, Scheduled, StartError};
use model::{Problem, Problems, quantity};
use serde_json::Value;

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Interval of checks for a stop request and for messages.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Its arguments.
pub(crate) fn arguments() -> Command {
    let mut command = Command::new("delay")
        .about("A TCP proxy that adds latency, jitter, bandwidth caps, stalls, losses and resets")
        .after_help(
            "Settings hold for both directions. For one of them: --set up.latency=20ms (towards the target),\n\
             --set down.bandwidth=1MB/s (towards the client). For one route: --set \"route=ldap latency=20ms\".\n\
             The proxy runs until Ctrl-C or SIGTERM, then prints what it did.",
        )
        .args_conflicts_with_subcommands(true)
        .subcommand(set_arguments())
        .subcommand(show_arguments())
        .arg(
            option("listen", "IP:PORT", "Address to listen on; port 0 selects a free port")
                .requires("to")
                .conflicts_with("route"),
        )
        .arg(option("to", "HOST:PORT", "The target").requires("listen"))
        .arg(
            option("route", "[NAME=]LISTEN=TARGET", "Another way to name a route; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(
            Arg::new("allow-other-hosts")
                .long("allow-other-hosts")
                .action(ArgAction::SetTrue)
                .help("Allow addresses that other hosts can connect to"),
        );
    for info in KEYS {
        let flag = Arg::new(info.name).long(info.name).value_name(info.value).help(info.about);
        command = command.arg(flag.help_heading("Settings"));
    }
    command
        .arg(
            option("set", "NAME=VALUE", "Settings of one direction or one route; may be repeated")
                .action(ArgAction::Append)
                .help_heading("Settings"),
        )
        .arg(
            Arg::new("at")
                .long("at")
                .value_names(["TIME", "NAME=VALUE"])
                .num_args(2..)
                .action(ArgAction::Append)
                .help("Change settings at a time after the start, such as --at 10s latency=100ms; may be repeated")
                .help_heading("Settings"),
        )
        .arg(option("control", "PATH", "Socket for `delay set` and `delay show`, in a directory of its own, which is created"))
        .arg(option("exchanges", "FILE", "Write each exchange of request and reply to a CSV file"))
        .arg(option("memory", "SIZE", "Bytes of all connections that may wait in memory; senders wait beyond it").default_value("512MiB"))
        .arg(option("spin", "DURATION", "How long the proxy polls before bytes are due, to be exact; 0s saves CPU").default_value("100us"))
        .arg(option("seed", "N", "Seed of the random numbers").default_value("1").value_parser(value_parser!(u64)))
        .arg(json("Print one JSON document per line: the addresses at the start, and what the proxy did at the end"))
}

fn set_arguments() -> Command {
    Command::new("set")
        .about("Change the settings of a running proxy")
        .arg(control())
        .arg(Arg::new("settings").value_name("NAME=VALUE").num_args(1..).required(true).help(
        "Settings such as latency=50ms or up.loss=1%; route=NAME for one route; none to end all impairments",
    ))
}

fn show_arguments() -> Command {
    Command::new("show")
        .about("Show the settings, delays, connections and exchanges of a running proxy")
        .arg(control())
        .arg(
            Arg::new("restart")
                .long("restart")
                .action(ArgAction::SetTrue)
                .help("Start the statistics again after they are shown"),
        )
        .arg(json("Print one JSON document"))
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn json(help: &'static str) -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help(help)
}

fn control() -> Arg {
    option("control", "PATH", "Socket of the running proxy").required(true)
}

/// Runs a proxy, or talks to one.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    match matches.subcommand() {
        Some(("set", matches)) => set(matches),
        Some(("show", matches)) => show(matches),
        _ => serve(matches),
    }
}

fn set(matches: &ArgMatches) -> Result<Exit, Failure> {
    let change = Change::parse(words(matches, "settings")).map_err(Failure::usage)?;
    ask(matches, &Request::Set(change))?;
    Ok(Exit::Good)
}

fn show(matches: &ArgMatches) -> Result<Exit, Failure> {
    let answer = ask(matches, &Request::Show(matches.get_flag("restart")))?;
    let snapshot = &answer["snapshot"];
    match matches.get_flag("json") {
        true => output::json(&snapshot.to_string()),
        false => output::result(&text::snapshot(snapshot)),
    }
    Ok(Exit::Good)
}

fn ask(matches: &ArgMatches, wanted: &Request) -> Result<Value, Failure> {
    let path = PathBuf::from(super::text(matches, "control"));
    request(&path, wanted).map_err(|error| match error {
        RequestError::Rejected(problems) => Failure::usage(problems),
        error => Failure::failed(error),
    })
}

fn words<'a>(matches: &'a ArgMatches, id: &str) -> Vec<&'a str> {
    matches.get_many::<String>(id).into_iter().flatten().map(String::as_str).collect()
}

/// Runs a proxy until it is stopped.
fn serve(matches: &ArgMatches) -> Result<Exit, Failure> {
    let interrupted = crate::interrupt::flag();
    let options = options(matches).map_err(Failure::usage)?;
    raise_descriptor_limit();
    let proxy = Proxy::start(options).map_err(|error| match error {
        StartError::Options(problems) => Failure::usage(problems),
        error => Failure::failed(error),
    })?;
    let control = matches.get_one::<String>("control").map(Path::new);
    let server = control.map(|path| ControlServer::start(path, proxy.handle())).transpose();
    let server = server.map_err(|error| {
        let help = "name a socket in a directory of its own: --control ./delay/control";
        Failure::failed(format!("the control socket cannot be created: {error}\n  {help}"))
    })?;
    let is_json = matches.get_flag("json");
    announce(&proxy, control, is_json);
    while !interrupted.load(Ordering::Relaxed) && !output::is_lost() {
        proxy.messages().iter().for_each(|message| output::say(message));
        if !proxy.is_running() {
            return Err(Failure::failed(
                "the proxy ended by itself\n  start it again; if it repeats, report it",
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    drop(server);
    proxy.messages().iter().for_each(|message| output::say(message));
    let snapshot = serde_json::to_value(proxy.stop()).unwrap_or_default();
    match is_json {
        true => output::json(&serde_json::json!({"event": "ended", "snapshot": snapshot}).to_string()),
        false => output::result(&text::snapshot(&snapshot)),
    }
    match snapshot["exchange_log"]["lost"].as_u64() {
        Some(lost) if lost > 0 => Err(Failure::failed(format!(
            "--exchanges: {lost} exchanges are not in the file, because the disk was too slow or full"
        ))),
        _ => Ok(Exit::Good),
    }
}

fn announce(proxy: &Proxy, control: Option<&Path>, is_json: bool) {
    if is_json {
        let route = |route: &RouteOptions| serde_json::json!({"name": route.name, "listen": route.listen.to_string(), "target": route.target});
        let routes: Vec<Value> = proxy.routes().iter().map(route).collect();
        let control = control.map(|path| path.display().to_string());
        let document = serde_json::json!({"event": "listening", "routes": routes, "control": control});
        return output::json(&document.to_string());
    }
    for route in proxy.routes() {
        let name = if route.name == route.target { String::new() } else { format!(" ({})", route.name) };
        output::result(&format!("listening on {}, target {}{name}", route.listen, route.target));
    }
}

/// The options, or every mistake in the arguments.
fn options(matches: &ArgMatches) -> Result<Options, Problems> {
    let mut problems = Problems::new();
    let mut routes = Vec::new();
    let mut keep = |route: Result<RouteOptions, Problem>| match route {
        Ok(route) => routes.push(route),
        Err(problem) => problems.push(problem),
    };
    if let (Some(listen), Some(to)) = (matches.get_one::<String>("listen"), matches.get_one::<String>("to")) {
        keep(RouteOptions::new(to, listen, to));
    }
    words(matches, "route").into_iter().for_each(|text| keep(RouteOptions::parse(text)));
    let has_mistakes = !problems.is_empty();
    let mut both = Change::default();
    for info in KEYS {
        if let Some(value) = matches.get_one::<String>(info.name) {
            match Assignment::parse(info.name, value) {
                Ok(assignment) => both.assignments.push(assignment),
                Err(problem) => problems.push(problem),
            }
        }
    }
    let mut settings = vec![both];
    for text in words(matches, "set") {
        match Change::parse([text]) {
            Ok(change) => settings.push(change),
            Err(mistakes) => problems.extend(mistakes),
        }
    }
    let mut schedule = Vec::new();
    for occurrence in matches.get_occurrences::<String>("at").into_iter().flatten() {
        let words: Vec<&str> = occurrence.map(String::as_str).collect();
        let Some((at, words)) = words.split_first() else { continue };
        match Scheduled::parse(at, words) {
            Ok(scheduled) => schedule.push(scheduled),
            Err(mistakes) => problems.extend(mistakes),
        }
    }
    let memory = quantity::parse_bytes(super::text(matches, "memory"));
    let memory = memory.map_err(|error| problems.push(Problem::new(error.0, "write --memory 512MiB")));
    let spin = quantity::parse_duration(super::text(matches, "spin"));
    let spin = spin.map_err(|error| problems.push(Problem::new(error.0, "write --spin 100us, or 0s")));
    let options = Options {
        settings,
        schedule,
        allows_other_hosts: matches.get_flag("allow-other-hosts"),
        memory_bytes_max: memory.unwrap_or(Options::MEMORY_BYTES_MAX),
        seed: *matches.get_one("seed").unwrap_or(&1),
        spin_ns: spin.unwrap_or(Options::SPIN_NS),
        exchanges: matches.get_one::<String>("exchanges").map(PathBuf::from),
        ..Options::new(routes)
    };
    // A route with a mistake would be missed a second time.
    if !has_mistakes && let Err(mistakes) = options.check() {
        problems.extend(mistakes);
    }
    problems.or(options)
}

/// Each connection needs two descriptors, and shells allow 1,024.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, fewer connections can be open; that is counted and reported.
    let _ = setrlimit(Resource::Nofile, limit);
}
