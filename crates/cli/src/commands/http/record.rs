//! `plimsoll http record`: a recording reverse proxy that writes a scenario file.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use model::experiment::WorkloadInfo;
use model::{Problems, SecretParts, Settings, quantity};
use recorder::{Exchange, Limits, Options, Origin, Recorder, StartError};
use workloads::http::from;
use workloads::http::scenario::recording::{self, RecordingOptions};

use super::super::text;
use super::scenario_file::{overwrite, refuse_existing, summary, write};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::one_off::{level_of, setting_flag};
use crate::output;

/// Interval of checks for a stop request.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The settings of the workload that apply to a recording.
const SETTINGS: [&str; 3] = ["think_scale", "think_max", "ca"];

/// The largest `--body-limit`: a scenario file can have 64 MiB.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// Its arguments.
pub(super) fn arguments(info: &WorkloadInfo) -> Command {
    let mut command = Command::new("record")
        .about("A reverse proxy before a web server, which records a session as a scenario file")
        .after_help(
            "Examples:\n  \
             plimsoll http record --target http://127.0.0.1:8080 -o shop.toml\n  \
             plimsoll http record --listen 127.0.0.1:8888 --target https://shop.example -o shop.toml\n\n\
             Open the address of --listen in a browser, and end with Ctrl-C or SIGTERM. The pauses become think\n\
             times. Credentials are replaced by placeholders such as ${env:RECORDED_PASSWORD} and never written.",
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("HOST:PORT")
                .default_value("127.0.0.1:8888")
                .help("Address to listen on; port 0 selects a free port"),
        )
        .arg(
            Arg::new("target")
                .long("target")
                .value_name("URL")
                .required(true)
                .help("The web server: http://HOST[:PORT] or https://HOST[:PORT]"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .required(true)
                .help("The scenario file to write"),
        )
        .arg(overwrite())
        .arg(
            Arg::new("allow-other-hosts")
                .long("allow-other-hosts")
                .action(ArgAction::SetTrue)
                .help("Allow addresses that other hosts can connect to: all of them can then use the target"),
        )
        .arg(
            Arg::new("body-limit")
                .long("body-limit")
                .value_name("SIZE")
                .default_value("1MiB")
                .help("Largest body of a request to record, at most 16MiB; a larger one is passed on, and noted"),
        );
    for setting in info.settings.iter().filter(|setting| SETTINGS.contains(&setting.name)) {
        command = command.arg(setting_flag(setting));
    }
    command
}

/// Records until it is stopped.
pub(super) fn run(info: &WorkloadInfo, matches: &ArgMatches) -> Result<Exit, Failure> {
    let interrupted = crate::interrupt::flag();
    let file = Path::new(text(matches, "output"));
    refuse_existing(file, matches.get_flag("overwrite"))?;
    let (options, of_recording) = options(info, matches).map_err(Failure::usage)?;
    let target = options.target.clone();
    let exchanges = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let exchanges = Arc::clone(&exchanges);
        move |exchange: Exchange| {
            let mut all = exchanges.lock().unwrap_or_else(PoisonError::into_inner);
            // Standard output can be closed before the session ends.
            output::say(&line(&exchange));
            if exchange.status != 0 {
                all.push(exchange);
            }
        }
    };
    let recorder = Recorder::start(options, Box::new(sink)).map_err(|error| refused(&error))?;
    output::result(&format!("recording {target} at http://{}; end with Ctrl-C", recorder.address()));
    while !interrupted.load(Ordering::Relaxed) && !output::is_lost() {
        std::thread::sleep(LOOK_EVERY);
    }
    drop(recorder);
    let mut exchanges = std::mem::take(&mut *exchanges.lock().unwrap_or_else(PoisonError::into_inner));
    exchanges.sort_by_key(|exchange| exchange.started_unix_ms);
    let exchanges = exchanges.into_iter().map(|exchange| recorded(exchange, &target)).collect();
    let import = recording::of_exchanges(exchanges, &of_recording).map_err(|problem| {
        Failure::failed(format!("{}; nothing was written\n  {}", problem.what, problem.help))
    })?;
    write(file, &import)?;
    output::result(&format!("\n{}", summary(file, &import, "request")));
    Ok(Exit::Good)
}

/// Where and how to record.
fn options(info: &WorkloadInfo, matches: &ArgMatches) -> Result<(Options, RecordingOptions), Problems> {
    let mut problems = Problems::new();
    let mut settings = Settings::defaults(info.settings);
    for setting in info.settings.iter().filter(|setting| SETTINGS.contains(&setting.name)) {
        let flag = format!("--{}", setting.name.replace('_', "-"));
        if let Some(level) = level_of(matches, setting.name, &flag, setting, &mut problems) {
            settings.set(setting.name, level);
        }
    }
    let mut wrong = |what: String, help: &str| problems.push(model::Problem::new(what, help));
    let target = Origin::parse(text(matches, "target")).map_err(|what| {
        wrong(format!("--target: {what}"), "such as --target http://127.0.0.1:8080");
    });
    let limit = text(matches, "body-limit");
    let request_bytes = match quantity::parse_bytes(limit) {
        Ok(bytes) if bytes <= BODY_BYTES_MAX => bytes as usize,
        Ok(_) => {
            wrong(
                format!("--body-limit: {limit} is more than 16MiB"),
                "write a larger body to a file by hand",
            );
            0
        }
        Err(error) => {
            wrong(format!("--body-limit: {error}"), "");
            0
        }
    };
    let authorities = settings.level("ca").map(|level| level.to_string().into());
    if authorities.is_some() && target.as_ref().is_ok_and(|target| !target.is_tls) {
        wrong("--ca: the target is reached without TLS".into(), "write an https URL, or leave --ca out");
    }
    problems.or(())?;
    let Ok(target) = target else { return Err(Problems::new()) };
    let options = Options {
        listen: text(matches, "listen").into(),
        allows_other_hosts: matches.get_flag("allow-other-hosts"),
        target,
        authorities,
        limits: Limits { request_bytes, ..Limits::default() },
    };
    // Whoever opened another site did not open it through this proxy.
    Ok((options, RecordingOptions { third_party: true, ..from::recording_options(&settings) }))
}

/// An exchange in a line.
fn line(exchange: &Exchange) -> String {
    let path = SecretParts::Pairs.hide(&exchange.path);
    let failure = match exchange.failure.as_str() {
        "" => String::new(),
        why => format!("  ({why})"),
    };
    let status = match exchange.status {
        0 => "failed".to_string(),
        status => status.to_string(),
    };
    format!(
        "{:<6} {path}  {status}  {} in, {} out, {} ms{failure}",
        exchange.method,
        quantity::bytes(exchange.body_bytes),
        quantity::bytes(exchange.response_bytes),
        exchange.time_ms
    )
}

fn recorded(exchange: Exchange, target: &Origin) -> recording::Exchange {
    recording::Exchange {
        started_unix_ms: exchange.started_unix_ms,
        time_ms: exchange.time_ms,
        method: exchange.method,
        url: format!("{target}{}", exchange.path),
        fields: exchange.fields,
        body: exchange.body,
        status: exchange.status,
        response_fields: exchange.response_fields,
        response_body: exchange.response_body,
        has_whole_response: exchange.has_whole_response,
    }
}

fn refused(error: &StartError) -> Failure {
    let help = match error {
        StartError::Listen(..) => "choose an address of this host and a free port with --listen",
        StartError::OtherHosts(_) => "listen on 127.0.0.1, or add --allow-other-hosts",
        StartError::Tls(_) => "name the PEM file of the target's authority with --ca",
        StartError::Thread(_) => "allow this user more processes: ulimit -u",
    };
    Failure::usage(format!("error: {error}\n  {help}"))
}
