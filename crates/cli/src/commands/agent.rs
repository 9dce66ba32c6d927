//! `plimsoll agent`: takes part in the runs of another machine.

use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use engine::allowed::Allowed;
use engine::source::HostRoot;
use machines::address::{Address, Reach};
use machines::agent::{Setup, serve};
use machines::nats::{Claimed, Place, Waited, Waiter};
use model::quantity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::SIGTERM;

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;
use crate::registry::REGISTRY;

/// How long the agent waits at most between two looks at a signal.
const LOOK_UP: Duration = Duration::from_millis(100);

/// Files of NATS, each with the name that it has in an address.
const FILES: [(&str, &str, &str); 6] = [
    (
        "nats-token-file",
        "token-file",
        "A token, in a file that no other user can read [or the variable NATS_TOKEN]",
    ),
    ("nats-creds", "creds", "A user's JWT and seed, as `nsc` writes them [or NATS_CREDS]"),
    ("nats-nkey", "nkey", "The seed of an NKEY [or NATS_NKEY]"),
    (
        "nats-ca",
        "ca",
        "The authorities that signed the server's certificate [or NATS_CA; default: those of the system]",
    ),
    ("nats-cert", "cert", "A client certificate [or NATS_CERT]"),
    ("nats-key", "key", "Its key [or NATS_KEY]"),
];

pub(crate) fn arguments() -> Command {
    let file = |(id, _, help): (&'static str, &str, &'static str)| {
        Arg::new(id).long(id).value_name("FILE").help(help).help_heading("NATS").requires("nats")
    };
    Command::new("agent")
        .about("Take part in a run of another machine: drive a part of its load, and read the counters of this host")
        .after_help(
            "\
An agent is started by the machine that coordinates a run, and ends with it. It speaks over its standard
input and output. With --nats it waits for coordinators on a NATS server, one after another. A user and a
password are set by the variables NATS_USER and NATS_PASSWORD.
Examples:
  plimsoll disk /data/test.bin --on gen1,gen2 --duration 30s
  plimsoll http http://web1/ --on 'a=exec:docker exec -i gen1 plimsoll agent' --watch-on web1
  plimsoll agent --nats nats://broker1/load --nats-creds load.creds --allow web1 --allow 10.1.0.0/16
  plimsoll http http://web1/ --on 'nats://broker1/load?agents=40&creds=me.creds'",
        )
        .arg(
            Arg::new("allow")
                .long("allow")
                .value_name("HOST|CIDR|/FOLDER")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .help("Refuse loads on anything else: a host, an address, a network, `*` for every host, or a folder whose files may be used [default: everything; with --nats hosts in private networks]"),
        )
        .arg(
            Arg::new("allow-commands")
                .long("allow-commands")
                .action(ArgAction::SetTrue)
                .help("Also accept loads that start commands, which can do anything: exec, sync, import"),
        )
        .arg(
            Arg::new("nats")
                .long("nats")
                .value_name("nats://HOST:PORT/FLEET")
                .env("PLIMSOLL_NATS")
                .help("Wait for coordinators on this NATS server; tls:// for TLS")
                .help_heading("NATS"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .help("The name of this agent [default: that of the host]")
                .help_heading("NATS")
                .requires("nats"),
        )
        .arg(
            Arg::new("idle")
                .long("idle")
                .value_name("TIME")
                .help("End when no coordinator has come for this long [default: never]")
                .help_heading("NATS")
                .requires("nats"),
        )
        .args(FILES.map(file))
        .arg(
            Arg::new("temporary")
                .long("temporary")
                .value_name("DIR")
                .hide(true)
                .help("The folder of this program, which is removed at once"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    if let Some(folder) = matches.get_one::<String>("temporary") {
        remove_own_folder(Path::new(folder));
    }
    let place = place(matches)?;
    let limits = limits(matches, place.is_some())?;
    record::prepare_state_folder().map_err(|why| {
        Failure::failed(format!("{why}\n  an agent makes no files without a journal to remove them"))
    })?;
    let folder = folder_of_agents().map_err(Failure::failed)?;
    let root = HostRoot::live();
    let host = counters::host(&root);
    let setup = Setup { registry: REGISTRY, root, host, folder, limits };
    if let Some(place) = place {
        return wait(matches, &setup, &place);
    }
    let left = serve(&setup, Input::begin()?, output::Standard).map_err(Failure::failed)?;
    for text in &left {
        output::say(&format!("error: {text}"));
    }
    Ok(if left.is_empty() { Exit::Good } else { Exit::Failed })
}

/// What a coordinator sends on standard input. SIGTERM ends it as the end of the coordinator does, so that the agent removes what
/// it made and undoes what it changed; a second one ends the program.
struct Input(Arc<AtomicBool>);

impl Input {
    fn begin() -> Result<Input, Failure> {
        let ends = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(SIGTERM, 128 + SIGTERM, Arc::clone(&ends))
            .and_then(|_| signal_hook::flag::register(SIGTERM, Arc::clone(&ends)))
            .map_err(|error| Failure::failed(format!("SIGTERM cannot be handled: {error}")))?;
        Ok(Input(ends))
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let stdin = rustix::stdio::stdin();
        let at_most = Timespec::try_from(LOOK_UP).ok();
        loop {
            if self.0.load(Ordering::Relaxed) {
                return Ok(0);
            }
            let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
            match rustix::event::poll(&mut wanted, at_most.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(stdin, into)?),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Where to wait for coordinators; none for one that is connected already.
fn place(matches: &ArgMatches) -> Result<Option<Place>, Failure> {
    let Some(text) = matches.get_one::<String>("nats") else { return Ok(None) };
    let address = Address::parse(text)
        .map_err(|(what, help)| Failure::usage(format!("error: --nats: {what}\n  {help}")))?;
    let Reach::Fleet(mut place) = address.reach else {
        return Err(Failure::usage(format!("error: --nats: `{text}` does not begin with nats:// or tls://")));
    };
    for (id, name, _) in FILES {
        if let (Some(path), Some(file)) = (matches.get_one::<String>(id), place.files.file(name)) {
            *file = Some(path.into());
        }
    }
    Ok(Some(place))
}

fn limits(matches: &ArgMatches, is_nats: bool) -> Result<Option<Arc<Allowed>>, Failure> {
    let entries: Vec<&str> =
        matches.get_many::<String>("allow").into_iter().flatten().map(String::as_str).collect();
    let commands = matches.get_flag("allow-commands");
    let limits = match entries.is_empty() {
        true if is_nats => Some(Allowed::private().with_commands(commands)),
        true => None,
        false => {
            let limits = Allowed::new(entries, commands);
            Some(limits.map_err(|why| Failure::usage(format!("error: --allow: {why}")))?)
        }
    };
    Ok(limits.map(Arc::new))
}

/// Waits for coordinators on a NATS server, and serves one after another.
fn wait(matches: &ArgMatches, setup: &Setup, place: &Place) -> Result<Exit, Failure> {
    let name = matches.get_one::<String>("name").unwrap_or(&setup.host.name);
    let idle = match matches.get_one::<String>("idle") {
        Some(text) => {
            let parsed = quantity::parse_duration(text);
            let parsed = parsed.map_err(|error| Failure::usage(format!("error: --idle: {error}")))?;
            Some(Duration::from_nanos(parsed))
        }
        None => None,
    };
    let stops = crate::interrupt::flag();
    let waiter = Waiter::connect(place, name, &setup.host, stops).map_err(Failure::failed)?;
    let limits = setup.limits.as_ref().map_or(String::new(), |limits| format!("; may load {limits}"));
    output::say(&format!("agent {name} waits in fleet {} on {}{limits}", place.fleet, place.server()));
    let mut exit = Exit::Good;
    let mut free_since = Instant::now();
    while !stops.load(Ordering::Relaxed) {
        match waiter.next(LOOK_UP).map_err(Failure::failed)? {
            Waited::Claimed(Claimed { input, output: to, coordinator }) => {
                output::say(&format!("works for {coordinator}"));
                match serve(setup, input, to) {
                    Ok(left) => {
                        for text in &left {
                            output::say(&format!("error: {text}"));
                            exit = Exit::Failed;
                        }
                    }
                    Err(why) => output::say(&format!("warning: {coordinator}: {why}")),
                }
                waiter.free();
                free_since = Instant::now();
                output::say("waits again");
            }
            Waited::Note(text) => output::say(&text),
            Waited::Nothing => {
                if idle.is_some_and(|idle| free_since.elapsed() >= idle) {
                    output::say("no coordinator came");
                    break;
                }
            }
        }
    }
    Ok(exit)
}

/// Removes the folder into which this program was copied, if it is that of the running program.
fn remove_own_folder(folder: &Path) {
    let is_own = std::env::current_exe().is_ok_and(|program| program.parent() == Some(folder));
    if is_own {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The folder that stands for the run directory in the journals of agents. It is empty, and there is one for all of them, so that a
/// killed agent leaves none.
fn folder_of_agents() -> Result<PathBuf, String> {
    let folder = record::state_folder()?.join("agents");
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("{} could not be made: {error}", folder.display()))
        }
        _ => Ok(folder),
    }
}
