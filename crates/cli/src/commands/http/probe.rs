//! `plimsoll http --probe`: one request to each server of a list, again and again, with a CSV line for each.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use files::{Output, SHARED_FILE};
use model::experiment::WorkloadInfo;
use model::{Level, Nanos, Problem, Problems, Settings, quantity};
use workloads::http::probe::{Probe, Target, read_list};

use crate::carry_out::{Failure, with_secrets};
use crate::exit::Exit;
use crate::one_off::{level_of, plain_experiment};
use crate::output;
use crate::secrets::PromptPolicy;

/// The flags of the probe itself.
const FLAGS: [&str; 6] = ["probe", "path", "tls", "passes", "every", "output"];

/// The settings of the workload that apply to its requests.
const SETTINGS: [&str; 9] = [
    "method",
    "header",
    "body",
    "timeout",
    "expect_status",
    "ca",
    "client_certificate",
    "client_key",
    "yes_i_may_load",
];

/// The timeout of a request, as in the published probe.
const TIMEOUT: Nanos = 120 * model::SECOND;

/// The next server gets its request when this time is over, also if the one before has not answered.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval of checks for a stop request.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The first line of the output.
const HEADER: &str = "timestamp,broker,port,milliseconds,error";

/// The largest list.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// Its arguments.
pub(super) fn arguments(command: Command) -> Command {
    let arg = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("Probe")
    };
    command
        .arg(
            arg("probe", "LIST", "Send one request to each server of a CSV list (farm,broker,port) instead of a load, and print a line for each: timestamp, broker, port, milliseconds, error")
                .conflicts_with_all(["url", "from"]),
        )
        .arg(arg("path", "PATH", "Path of the requests [default: /]").requires("probe"))
        .arg(arg("tls", "", "Reach the servers over TLS").action(ArgAction::SetTrue).requires("probe"))
        .arg(
            arg("passes", "N", "Passes over the list; 0 repeats until Ctrl-C [default: 1]")
                .requires("probe")
                .value_parser(clap::value_parser!(u64)),
        )
        .arg(arg("every", "TIME", "Time from the begin of a pass to that of the next one [default: 1s]").requires("probe"))
        .arg(arg("output", "FILE", "Append the lines to this file too").requires("probe"))
}

/// What is to be done.
struct Plan {
    targets: Vec<Target>,
    settings: Settings,
    path: String,
    is_tls: bool,
    /// 0 for no end.
    passes: u64,
    every: Duration,
}

/// Carries out the probe.
pub(super) fn run(info: &WorkloadInfo, matches: &ArgMatches, list: &str) -> Result<Exit, Failure> {
    let interrupted = crate::interrupt::flag();
    let plan = plan(info, matches, list).map_err(Failure::usage)?;
    let mut lines = Lines::begin(matches.get_one::<String>("output"))?;
    let (sender, answers) = channel();
    let mut requests = Vec::new();
    for target in &plan.targets {
        let probe = Probe::new(&plan.settings, target, plan.is_tls, &plan.path)
            .map_err(|found| Problems(found.0.into_iter().map(super::in_flags).collect()))
            .map_err(Failure::usage)?;
        requests.push(start(probe, target, sender.clone()).map_err(Failure::failed)?);
    }
    drop(sender);
    let is_over = || interrupted.load(Ordering::Relaxed) || !output::is_open();
    let begin = Instant::now();
    let mut pending = 0;
    let mut counts = (0, 0);
    let mut pass = 0;
    while (plan.passes == 0 || pass < plan.passes) && !is_over() {
        for request in &requests {
            pending += u64::from(request.send(()).is_ok());
            // In turn; a server that does not answer does not hold up the others.
            let until = Instant::now() + PATIENCE;
            let before = pending;
            while pending >= before && Instant::now() < until && !is_over() {
                lines.take(&answers, LOOK_EVERY, &mut pending, &mut counts)?;
            }
        }
        pass += 1;
        let next = begin + plan.every * u32::try_from(pass).unwrap_or(u32::MAX);
        while (plan.passes == 0 || pass < plan.passes) && Instant::now() < next && !is_over() {
            let left = next.saturating_duration_since(Instant::now());
            lines.take(&answers, LOOK_EVERY.min(left), &mut pending, &mut counts)?;
        }
    }
    while pending > 0 && !is_over() {
        lines.take(&answers, LOOK_EVERY, &mut pending, &mut counts)?;
    }
    lines.end()?;
    let (answered, failed) = counts;
    if failed > 0 {
        output::say(&format!("{failed} of {} requests failed", answered + failed));
    }
    Ok(match (answered, failed) {
        _ if interrupted.load(Ordering::Relaxed) && plan.passes > 0 => Exit::Interrupted,
        (_, 0) => Exit::Good,
        (0, _) => Exit::Failed,
        _ => Exit::GoalMissed,
    })
}

/// Starts the thread of a server: it sends a request for each message.
fn start(mut probe: Probe, target: &Target, answers: Sender<Answer>) -> std::io::Result<Sender<()>> {
    let (sender, requests) = channel();
    let target = target.clone();
    Builder::new().name("probe".into()).spawn(move || {
        while let Ok(()) = requests.recv() {
            let time = jiff::Zoned::now();
            let taken = probe.request();
            if answers.send(Answer { time, target: target.clone(), taken }).is_err() {
                return;
            }
        }
    })?;
    Ok(sender)
}

/// What became of a request.
struct Answer {
    /// When it was sent.
    time: jiff::Zoned,
    target: Target,
    /// The response time, or why there is none.
    taken: Result<Nanos, String>,
}

impl Answer {
    fn line(&self) -> String {
        let (milliseconds, error) = match &self.taken {
            Ok(taken) => (format!("{:.3}", *taken as f64 / 1e6), String::new()),
            // A text of the system can contain anything.
            Err(why) => (String::new(), format!("\"{}\"", why.replace('"', "'"))),
        };
        let time = self.time.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z");
        format!("{time},{},{},{milliseconds},{error}", self.target.broker, self.target.port)
    }
}

/// Where the lines go.
struct Lines {
    file: Option<std::fs::File>,
}

impl Lines {
    /// Opens the file. The header is written to standard output, and to a new file.
    fn begin(file: Option<&String>) -> Result<Lines, Failure> {
        let file = match file {
            None => None,
            Some(name) => {
                let failed = |error| Failure::failed(format!("{name} cannot be written: {error}"));
                let mut file = Output::append(Path::new(name), SHARED_FILE).map_err(failed)?;
                if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                    writeln!(file, "{HEADER}").map_err(failed)?;
                }
                Some(file)
            }
        };
        output::verbatim(HEADER);
        Ok(Lines { file })
    }

    /// Completes the file.
    fn end(&self) -> Result<(), Failure> {
        let settled = self.file.as_ref().map_or(Ok(()), files::settle);
        settled.map_err(|error| Failure::failed(format!("the output cannot be written: {error}")))
    }

    /// Waits for an answer, and writes its line.
    fn take(
        &mut self,
        answers: &Receiver<Answer>,
        patience: Duration,
        pending: &mut u64,
        (answered, failed): &mut (u64, u64),
    ) -> Result<(), Failure> {
        let answer = match answers.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                *pending = 0;
                return Ok(());
            }
        };
        *pending = pending.saturating_sub(1);
        match answer.taken {
            Ok(_) => *answered += 1,
            Err(_) => *failed += 1,
        }
        let line = answer.line();
        output::verbatim(&line);
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}")
                .map_err(|error| Failure::failed(format!("the output cannot be written: {error}")))?;
        }
        Ok(())
    }
}

/// Reads the arguments; all mistakes at once.
fn plan(info: &WorkloadInfo, matches: &ArgMatches, list: &str) -> Result<Plan, Problems> {
    let mut problems = Problems::new();
    let is_given = |id: &str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
    for id in matches.ids().map(clap::Id::as_str).filter(|id| is_given(id)) {
        if !FLAGS.contains(&id) && !SETTINGS.contains(&id) {
            let flag = flag_of(id);
            problems
                .push(Problem::new(format!("{flag} does not apply to --probe"), format!("leave {flag} out")));
        }
    }
    let mut settings = Settings::defaults(info.settings);
    settings.set("timeout", Level::Time(TIMEOUT));
    for setting in info.settings.iter().filter(|setting| SETTINGS.contains(&setting.name)) {
        let flag = flag_of(setting.name);
        if let Some(level) = level_of(matches, setting.name, &flag, setting, &mut problems) {
            settings.set(setting.name, level);
        }
    }
    super::read_body(&mut settings, &mut problems);
    if settings.level("body").is_some() && !is_given("method") {
        settings.set("method", Level::Text("POST".into()));
    }
    let path = matches.get_one::<String>("path").map_or("/", String::as_str);
    if !path.starts_with('/') {
        let what = format!("--path: `{path}` does not begin with a slash");
        problems.push(Problem::new(what, format!("write --path /{path}")));
    }
    let every = matches.get_one::<String>("every").map_or("1s", String::as_str);
    let every = quantity::parse_duration(every).map_err(|error| {
        problems.push(Problem::new(format!("--every: {error}"), "such as --every 1s"));
    });
    let targets = match files::read(Path::new(list), LIST_BYTES_MAX) {
        Ok(bytes) => read_list(&bytes, list).map_err(|found| problems.extend(found)),
        Err(error) => {
            problems.push(Problem::new(format!("{list} cannot be read: {error}"), ""));
            Err(())
        }
    };
    problems.or(())?;
    let (Ok(targets), Ok(every)) = (targets, every) else { return Err(Problems::new()) };
    let experiment = plain_experiment("probe", info.name, settings, Settings::default());
    let experiment = with_secrets(&experiment, PromptPolicy::Allowed, &super::in_flags)
        .map_err(|failure| Problems::from(Problem::new(failure.text, "")))?;
    Ok(Plan {
        targets,
        settings: experiment.workload.settings,
        path: path.into(),
        is_tls: matches.get_flag("tls"),
        passes: matches.get_one::<u64>("passes").copied().unwrap_or(1),
        every: Duration::from_nanos(every),
    })
}

/// The flag of an argument: `load.closed` is `--concurrency`.
fn flag_of(id: &str) -> String {
    crate::one_off::load_flag(id.trim_start_matches("load."))
        .unwrap_or_else(|| format!("--{}", id.replace('_', "-")))
}
