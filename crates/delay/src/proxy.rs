//! The proxy: its options, its start, and its handle.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use model::{Nanos, Problem, Problems};

use crate::event_loop::{Command, EventLoop, RouteState, wake_descriptor};
use crate::log::{ExchangeLog, LogCounts};
use crate::recording::Recording;
use crate::route::Route;
use crate::settings::{Change, RouteSettings, Scheduled};
use crate::shared::Shared;
use crate::snapshot::{LogSnapshot, RouteSnapshot, Snapshot};
use crate::sockets::{listen, local_address};

/// A route as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Its name in settings and results.
    pub name: String,
    /// The address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Host and port of the target.
    pub target: String,
}

impl RouteOptions {
    /// Parses `LISTEN=TARGET` or `NAME=LISTEN=TARGET`, such as `127.0.0.1:3390=db1:389`. Without a name, the target is
    /// the name.
    ///
    /// # Errors
    /// When a part is missing or not valid; the problem says what to write.
    pub fn parse(text: &str) -> Result<RouteOptions, Problem> {
        let parts: Vec<&str> = text.split('=').collect();
        let (name, listen, target) = match parts[..] {
            [listen, target] => (target, listen, target),
            [name, listen, target] => (name, listen, target),
            _ => {
                return Err(Problem::new(
                    format!("`{text}` is not a route"),
                    "write LISTEN=TARGET, such as 127.0.0.1:3390=127.0.0.1:389, or NAME=LISTEN=TARGET",
                ));
            }
        };
        RouteOptions::new(name, listen, target)
    }

    /// A route between two addresses.
    ///
    /// # Errors
    /// When a part is not valid; the problem says what to write.
    pub fn new(name: &str, listen: &str, target: &str) -> Result<RouteOptions, Problem> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:[]".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(Problem::new(
                format!("`{name}` is not a name of a route"),
                "use letters, digits and . _ - : in it, such as ldap",
            ));
        }
        let listen = listen.parse().map_err(|_| {
            Problem::new(
                format!("`{listen}` is not an address to listen on"),
                "write an IP address and a port, such as 127.0.0.1:3390 or [::1]:3390; port 0 selects a free port",
            )
        })?;
        let port = target.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none_or(|port| port == 0) {
            return Err(Problem::new(
                format!("`{target}` is not an address of a target"),
                "write host and port, such as 127.0.0.1:389, db1:5432 or [::1]:389",
            ));
        }
        Ok(RouteOptions { name: name.into(), listen, target: target.into() })
    }
}

/// The options of a proxy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its routes, at least one.
    pub routes: Vec<RouteOptions>,
    /// Settings from the start on, in this order.
    pub settings: Vec<Change>,
    /// Later changes.
    pub schedule: Vec<Scheduled>,
    /// Whether it may listen on addresses that other hosts can connect to.
    pub allows_other_hosts: bool,
    /// Bytes of all connections that may wait in memory.
    pub memory_bytes_max: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// How long it polls before something is due. A processor that sleeps needs up to this time to wake.
    pub spin_ns: Nanos,
    /// A CSV file for the exchanges.
    pub exchanges: Option<PathBuf>,
}

impl Options {
    /// Default of [`Options::memory_bytes_max`].
    pub const MEMORY_BYTES_MAX: u64 = 512 << 20;

    /// Default of [`Options::spin_ns`].
    pub const SPIN_NS: Nanos = 100_000;

    /// A proxy with these routes that changes nothing.
    pub fn new(routes: Vec<RouteOptions>) -> Options {
        Options {
            routes,
            settings: Vec::new(),
            schedule: Vec::new(),
            allows_other_hosts: false,
            memory_bytes_max: Options::MEMORY_BYTES_MAX,
            seed: 1,
            spin_ns: Options::SPIN_NS,
            exchanges: None,
        }
    }

    /// The settings of each route at the start.
    ///
    /// # Errors
    /// Every contradiction in the routes, the settings and the schedule.
    pub fn check(&self) -> Result<Vec<RouteSettings>, Problems> {
        let mut problems = Problems::new();
        let names: Vec<&str> = self.routes.iter().map(|route| route.name.as_str()).collect();
        if names.is_empty() {
            problems.push(Problem::new("no route is given", "write --listen and --to, or --route"));
        }
        for (at, route) in self.routes.iter().enumerate() {
            if names[..at].contains(&route.name.as_str()) {
                problems.push(Problem::new(
                    format!("two routes have the name `{}`", route.name),
                    "give them different names: --route NAME=LISTEN=TARGET",
                ));
            }
            let other = self.routes[..at].iter().find(|other| other.listen == route.listen);
            if route.listen.port() != 0 && other.is_some() {
                problems.push(Problem::new(
                    format!("two routes listen on {}", route.listen),
                    "write another port for one of them",
                ));
            }
            if !self.allows_other_hosts && !route.listen.ip().to_canonical().is_loopback() {
                problems.push(Problem::new(
                    format!(
                        "other hosts can connect to {}, and through it to {}",
                        route.listen, route.target
                    ),
                    "listen on 127.0.0.1 or [::1], or allow it with --allow-other-hosts",
                ));
            }
        }
        let mut settings = vec![RouteSettings::default(); self.routes.len()];
        let later = self.schedule.iter().map(|scheduled| &scheduled.change);
        for change in self.settings.iter().chain(later.clone()) {
            if let Some(name) = change.route.as_deref().filter(|name| !names.contains(name)) {
                problems.push(unknown_route(name, names.iter().copied()));
            }
        }
        let mut contradictions: Vec<Problem> = Vec::new();
        let mut ordered: Vec<&Scheduled> = self.schedule.iter().collect();
        ordered.sort_by_key(|scheduled| scheduled.at_ns);
        for (settings, name) in settings.iter_mut().zip(&names) {
            let is_for = |change: &&Change| change.route.as_deref().is_none_or(|route| route == *name);
            self.settings.iter().filter(is_for).for_each(|change| settings.change(change, 0));
            let mut future = settings.clone();
            contradictions.extend(future.check().0);
            for change in ordered.iter().map(|scheduled| &scheduled.change).filter(is_for) {
                future.change(change, 0);
                contradictions.extend(future.check().0);
            }
        }
        for problem in contradictions {
            if !problems.0.contains(&problem) {
                problems.push(problem);
            }
        }
        problems.or(settings)
    }
}

/// The problem of a name that no route has.
pub(crate) fn unknown_route<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Problem {
    let names: Vec<&str> = names.collect();
    let help = match model::problem::near_word(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the routes are: {}", names.join(", ")),
    };
    Problem::new(format!("there is no route `{name}`"), help)
}

/// Why a proxy cannot start. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Mistakes in the options.
    #[error("{0}")]
    Options(Problems),
    /// An address cannot be listened on.
    #[error(
        "{0} cannot be listened on: {1}\n  choose an address of this host and a free port; port 0 selects one"
    )]
    Listen(SocketAddr, std::io::Error),
    /// The name of a target cannot be resolved.
    #[error("the target {0} cannot be resolved: {1}\n  write the address of a host, such as 127.0.0.1:389")]
    Target(String, std::io::Error),
    /// A target is the proxy itself.
    #[error("the target {0} is an address that this proxy listens on\n  write the address of the dependency")]
    Loop(String),
    /// The log of exchanges cannot be created.
    #[error("the exchanges cannot be written to {}: {}\n  name a file in a folder that exists and that this user can write to", .0.display(), .1)]
    Exchanges(PathBuf, std::io::Error),
    /// The kernel refused a descriptor or a thread.
    #[error("the proxy cannot start: {0}\n  allow this user more processes and files: ulimit -u, ulimit -n")]
    System(std::io::Error),
}

/// A running proxy. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    handle: Handle,
    messages: Receiver<String>,
    thread: Option<JoinHandle<Vec<RouteState>>>,
}

/// Talks to a running proxy from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    routes: Arc<Vec<RouteOptions>>,
    seed: u64,
    log: Option<Arc<LogCounts>>,
    /// The final state, after the proxy ended.
    last: Arc<Mutex<Option<Vec<RouteState>>>>,
}

impl Proxy {
    /// Listens, and passes traffic on until it is stopped.
    ///
    /// # Errors
    /// When an option is not valid, an address is in use, a target has no address, or a file cannot be created.
    pub fn start(options: Options) -> Result<Proxy, StartError> {
        let mut settings = options.check().map_err(StartError::Options)?;
        let mut routes = options.routes;
        let mut at_work = Vec::new();
        let mut listeners = Vec::new();
        for route in &mut routes {
            let listener =
                listen(route.listen).map_err(|error| StartError::Listen(route.listen, error.into()))?;
            route.listen = local_address(&listener).map_err(|error| StartError::System(error.into()))?;
            listeners.push(listener);
        }
        let now_ns = crate::shared::clock_ns();
        for ((route, settings), listener) in routes.iter().zip(&mut settings).zip(listeners) {
            // Stalls from the start on begin now.
            (settings.up.stall_from_ns, settings.down.stall_from_ns) = (now_ns, now_ns);
            let addresses = resolve(&route.target, &routes)?;
            let (name, target) = (route.name.clone(), route.target.clone());
            at_work.push(Route::new(name, target, addresses, listener, settings.clone()));
        }
        let log = match &options.exchanges {
            None => None,
            Some(path) => {
                let names = routes.iter().map(|route| route.name.clone()).collect();
                let log = ExchangeLog::create(path, names);
                Some(log.map_err(|error| StartError::Exchanges(path.clone(), error))?)
            }
        };
        let counts = log.as_ref().map(ExchangeLog::counts);
        let shared = Shared::new(at_work, options.memory_bytes_max, options.seed, log);
        let system = |error: rustix::io::Errno| StartError::System(error.into());
        let wake = Arc::new(wake_descriptor().map_err(system)?);
        let ((commands, of_loop), (to_user, messages)) = (channel(), channel());
        let event_loop =
            EventLoop::new(shared, options.schedule, options.spin_ns, Arc::clone(&wake), of_loop, to_user)
                .map_err(system)?;
        let thread = std::thread::Builder::new()
            .name("delay".into())
            .spawn(move || event_loop.run())
            .map_err(StartError::System)?;
        let handle = Handle {
            commands,
            wake,
            routes: Arc::new(routes),
            seed: options.seed,
            log: counts,
            last: Arc::default(),
        };
        Ok(Proxy { handle, messages, thread: Some(thread) })
    }

    /// The routes, with the ports that were selected.
    pub fn routes(&self) -> &[RouteOptions] {
        &self.handle.routes
    }

    /// A handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Messages for the user since the last call: a target that cannot be reached, a change of the schedule.
    pub fn messages(&self) -> Vec<String> {
        self.messages.try_iter().collect()
    }

    /// Whether it still works. It ends by itself only after an error of the kernel.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops it: closes all connections. Returns what it did.
    pub fn stop(mut self) -> Snapshot {
        self.end();
        self.handle.snapshot(false)
    }

    fn end(&mut self) {
        self.handle.send(Command::Stop);
        if let Some(Ok(states)) = self.thread.take().map(JoinHandle::join) {
            *self.handle.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(states);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

impl Handle {
    /// The routes, with the ports that were selected.
    pub fn routes(&self) -> &[RouteOptions] {
        &self.routes
    }

    /// Changes settings for the bytes and connections that arrive from now on: of all routes that the change names, or
    /// of none.
    ///
    /// # Errors
    /// Every contradiction, and a name that no route has.
    pub fn set(&self, change: Change) -> Result<(), Problems> {
        let (answer, answered) = channel();
        self.send(Command::Set(change, answer));
        answered.recv().unwrap_or_else(|_| Err(Problem::new("the proxy has ended", "start it again").into()))
    }

    /// What the proxy did since its start, or since the last restart of the statistics. `restarts` starts them again.
    pub fn snapshot(&self, restarts: bool) -> Snapshot {
        let (answer, answered) = channel();
        self.send(Command::Show(restarts, answer));
        let states = answered.recv().ok();
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let states = states.or_else(last).unwrap_or_default();
        let routes = self.routes.iter().zip(&states);
        Snapshot {
            format: Snapshot::FORMAT,
            seed: self.seed,
            routes: routes.map(|(route, state)| RouteSnapshot::new(route, state)).collect(),
            exchange_log: self.log.as_ref().map(|counts| LogSnapshot {
                written: counts.written.load(Ordering::Relaxed),
                lost: counts.lost.load(Ordering::Relaxed),
            }),
        }
    }

    /// Keeps the exchanges from now on in memory, at most this many.
    pub fn begin_recording(&self, exchanges_max: usize) {
        self.send(Command::Record(exchanges_max));
    }

    /// What happened since [`Handle::begin_recording`]; empty if that was not called, or the proxy has ended.
    pub fn end_recording(&self) -> Recording {
        let (answer, answered) = channel();
        self.send(Command::EndRecording(answer));
        answered.recv().unwrap_or_default()
    }

    fn send(&self, command: Command) {
        // A loop that has ended drops the sender of the answer.
        if self.commands.send(command).is_ok() {
            let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        }
    }
}

/// The addresses of a target, which is not one of our own.
fn resolve(target: &str, routes: &[RouteOptions]) -> Result<Vec<SocketAddr>, StartError> {
    let failed = |error| StartError::Target(target.into(), error);
    let addresses: Vec<SocketAddr> = target.to_socket_addrs().map_err(failed)?.collect();
    if addresses.is_empty() {
        return Err(failed(std::io::Error::other("it has no address")));
    }
    let is_own = |address: &SocketAddr| {
        let is_same = |listen: &SocketAddr| {
            listen.port() == address.port()
                && (listen.ip() == address.ip()
                    || (listen.ip().is_unspecified() && address.ip().is_loopback())
                    || (address.ip().is_unspecified() && listen.ip().is_loopback()))
        };
        routes.iter().any(|route| is_same(&route.listen))
    };
    match addresses.iter().any(is_own) {
        true => Err(StartError::Loop(target.into())),
        false => Ok(addresses),
    }
}
