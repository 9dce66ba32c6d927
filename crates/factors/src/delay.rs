//! `network.delay`: the time that a round trip to a dependency of the target takes longer.
//!
//! A proxy inside this process listens where the target or the load connects to, and passes the bytes on to the
//! dependency, each later by half of the delay. It starts before the target, at every level the same, 0 included, so that
//! only the delay differs. It ends with this process, so there is nothing to undo.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use ::delay::{Change, Options, Proxy, RouteOptions, SeenExchange, Snapshot};
use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::{FactorInfo, LISTEN, ParameterInfo};
use model::sensitivity::facts::{
    ADDED_DOWN, ADDED_UP, ADDRESS, BYTES, LISTEN as LISTEN_FACT, MEASURED_CONNECTIONS, MEASURED_EXCHANGES,
};
use model::steps::Exchange;
use model::{ExchangeTrace, Level, MILLISECOND, Nanos, SettingKind};

/// The factor.
pub const DELAY: FactorKind = FactorKind {
    info: FactorInfo {
        path: "network.delay",
        kind: SettingKind::Time,
        about: "How much longer a round trip to a dependency takes, through a TCP proxy. Its address is in [dependencies], or in `on` with that of the proxy in `listen`.",
        resource: None,
        needs_on: true,
        parameters: &[ParameterInfo {
            name: LISTEN,
            needed: true,
            is_command: false,
            about: "The address where the proxy listens, such as listen = \"127.0.0.1:13389\": configure the target or the load to connect to it.",
        }],
        named: true,
        of_dependency: true,
    },
    moment: |_| Moment::Lasting,
    open,
};

struct Delay {
    route: RouteOptions,
    /// Running since a level was set.
    proxy: Option<(Proxy, Nanos)>,
    /// Exchanges that completed in the measured time, and connections that were opened.
    measured: Option<(u64, u64)>,
}

/// The exchanges of one trial that are kept in memory: 8 MiB.
const EXCHANGES_MAX: usize = 1 << 18;

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    let on = target.on.as_deref().unwrap_or_default();
    let listen = target.parameters.get(LISTEN).map(model::Secret::reveal).unwrap_or_default();
    let route = RouteOptions::new("route", listen, address(on));
    let route = route.map_err(|problem| Unavailable(format!("{}; {}", problem.what, problem.help)))?;
    if !route.listen.ip().is_loopback() {
        let text = "the proxy would be open to other hosts: let it listen on 127.0.0.1 or ::1, or start `plimsoll delay`";
        return Err(Unavailable(text.into()));
    }
    Ok(Box::new(Delay { route, proxy: None, measured: None }))
}

/// Host and port of an address or URL.
fn address(text: &str) -> &str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['/', '?']).next().unwrap_or(rest);
    rest.rsplit_once('@').map_or(rest, |(_, host)| host)
}

fn latency(level: &Level) -> Result<Nanos, Unavailable> {
    match level {
        Level::Time(delay) => Ok(*delay),
        other => Err(Unavailable(format!("`{other}` is not a duration"))),
    }
}

/// Half of the delay in each direction. A new connection takes a round trip too.
fn change(delay: Nanos) -> Result<Change, Unavailable> {
    let words = [format!("latency={}ns", delay / 2), format!("connect-delay={}ns", delay)];
    Change::parse(words.iter().map(String::as_str)).map_err(|problems| Unavailable(problems.to_string()))
}

fn not_free(listen: SocketAddr, why: &impl std::fmt::Display) -> Unavailable {
    Unavailable(format!("{listen} cannot be listened on: {why}; choose a free port"))
}

impl Factor for Delay {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        change(latency(level)?)?;
        if self.proxy.is_none() {
            TcpListener::bind(self.route.listen).map_err(|error| not_free(self.route.listen, &error))?;
        }
        Ok(())
    }

    fn read(&self) -> Result<Level, Unavailable> {
        match &self.proxy {
            Some((proxy, delay)) if proxy.is_running() => Ok(Level::Time(*delay)),
            Some(_) => Err(Unavailable("the proxy has ended".into())),
            None => Ok(Level::Time(0)),
        }
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(Vec::new())
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let delay = latency(level)?;
        let change = change(delay)?;
        match &mut self.proxy {
            Some((proxy, current)) => {
                proxy.handle().set(change).map_err(|problems| Unavailable(problems.to_string()))?;
                *current = delay;
                proxy.handle().snapshot(true);
            }
            None => {
                let settings = vec![change];
                let options = Options { settings, ..Options::new(vec![self.route.clone()]) };
                let proxy = Proxy::start(options).map_err(|error| Unavailable(error.to_string()))?;
                self.proxy = Some((proxy, delay));
            }
        }
        // Bytes that came before the change keep their delay.
        Ok(delay + 10 * MILLISECOND)
    }

    fn endpoint(&self) -> Option<SocketAddr> {
        let (proxy, _) = self.proxy.as_ref()?;
        proxy.routes().first().map(|route| route.listen)
    }

    fn begin_measured(&mut self) {
        if let Some((proxy, _)) = &self.proxy {
            proxy.handle().begin_recording(EXCHANGES_MAX);
        }
    }

    fn end_measured(&mut self) -> Option<ExchangeTrace> {
        let recording = self.proxy.as_ref()?.0.handle().end_recording();
        let (completed, connections) = recording.counts.first().copied()?;
        self.measured = Some((completed, connections));
        let exchanges = recording.exchanges.iter();
        let exchanges = exchanges.map(|&SeenExchange { begin_ns, first_byte_ns, end_ns, .. }| Exchange {
            begin_ns,
            first_byte_ns,
            end_ns,
        });
        let (from_ns, to_ns) = (recording.from_ns, recording.to_ns);
        Some(ExchangeTrace { from_ns, to_ns, exchanges: exchanges.collect(), completed, connections })
    }

    fn facts(&mut self) -> BTreeMap<String, Level> {
        let mut found =
            self.proxy.as_ref().map(|(proxy, _)| facts(&proxy.handle().snapshot(false))).unwrap_or_default();
        let text = |text: String| Level::Text(text);
        found.extend(self.endpoint().map(|listen| (LISTEN_FACT.into(), text(listen.to_string()))));
        found.insert(ADDRESS.into(), text(self.route.target.clone()));
        if let Some((exchanges, connections)) = self.measured.take() {
            found.insert(MEASURED_EXCHANGES.into(), Level::Count(exchanges));
            found.insert(MEASURED_CONNECTIONS.into(), Level::Count(connections));
        }
        found
    }

    fn remark(&self) -> String {
        let RouteOptions { listen, target, .. } = &self.route;
        format!("through a proxy at {} to {target}", self.endpoint().unwrap_or(*listen))
    }
}

/// What the proxy did since the level was set.
fn facts(snapshot: &Snapshot) -> BTreeMap<String, Level> {
    let Some(route) = snapshot.routes.first() else { return BTreeMap::new() };
    let time = |ms: f64| Level::Time((ms.max(0.0) * MILLISECOND as f64) as Nanos);
    let exchanges = &route.exchanges;
    BTreeMap::from([
        (ADDED_UP.into(), time(route.up.delay_ms.p50)),
        (ADDED_DOWN.into(), time(route.down.delay_ms.p50)),
        ("added_too_late.p99".into(), time(route.up.error_ms.p99.max(route.down.error_ms.p99))),
        ("connections".into(), Level::Count(route.connections.accepted)),
        ("exchanges".into(), Level::Count(exchanges.completed)),
        ("exchanges.first_byte.p50".into(), time(exchanges.first_byte_ms.p50)),
        ("exchanges.last_byte.p50".into(), time(exchanges.last_byte_ms.p50)),
        (BYTES.into(), Level::Bytes(route.up.bytes + route.down.bytes)),
    ])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::mem::discriminant;
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    use super::*;
    use engine::source::HostRoot;

    /// A server that returns each byte, and its port.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut byte = [0; 1];
                    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
                });
            }
        });
        address
    }

    fn factor(on: &str, listen: &str) -> Result<Box<dyn Factor>, Unavailable> {
        open(&FactorTarget {
            on: Some(on.into()),
            parameters: BTreeMap::from([("listen".into(), model::Secret::plain(listen))]),
            ..FactorTarget::of(HostRoot::live(), vec![1])
        })
    }

    #[test]
    fn a_round_trip_takes_longer_by_the_level_and_a_connection_outlives_its_changes() {
        let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut delay = factor(&format!("echo://{}/x", echo()), &listen.to_string()).unwrap();
        let levels = [0, 40 * MILLISECOND, 4 * MILLISECOND];
        delay.check(&Level::Time(levels[1])).unwrap();
        let mut connection = None;
        for level in levels {
            assert!(delay.undo(&Level::Time(level)).unwrap().is_empty());
            let settling = delay.set(&Level::Time(level)).unwrap();
            std::thread::sleep(Duration::from_nanos(settling));
            assert_eq!(delay.endpoint(), Some(listen));
            delay.begin_measured();
            assert_eq!(delay.read().unwrap(), Level::Time(level));
            let stream: &mut TcpStream =
                connection.get_or_insert_with(|| TcpStream::connect(listen).unwrap());
            let mut byte = [7];
            for _ in 0..3 {
                let begin = Instant::now();
                stream.write_all(&byte).unwrap();
                stream.read_exact(&mut byte).unwrap();
                assert!(begin.elapsed() >= Duration::from_nanos(level));
            }
            let trace = delay.end_measured().unwrap();
            let takes: Vec<Nanos> = trace.exchanges.iter().map(|one| one.end_ns - one.begin_ns).collect();
            // The client of the proxy sees the delay.
            assert!(takes.len() >= 3 && takes.iter().all(|takes| *takes >= level), "{takes:?}");
            let facts = delay.facts();
            for (name, of_its_kind) in model::sensitivity::facts::ALL {
                assert_eq!(facts.get(name).map(discriminant), Some(discriminant(&of_its_kind)), "{name}");
            }
            // An exchange ends with the next request.
            let exchanges = if level == 0 { 2 } else { 3 };
            assert_eq!(facts["exchanges"], Level::Count(exchanges));
            let Level::Time(up) = facts["added_up.p50"] else { panic!("{facts:?}") };
            assert!(up >= level / 2, "{facts:?}");
            assert!(delay.check(&Level::Time(level)).is_ok(), "the proxy itself listens there");
        }
    }

    #[test]
    fn what_cannot_be_is_said_before_the_run() {
        let text =
            |made: Result<Box<dyn Factor>, Unavailable>| made.err().map(|why| why.0).unwrap_or_default();
        assert!(text(factor("db1", "127.0.0.1:0")).starts_with("`db1` is not an address of a target"));
        assert!(text(factor("db1:1", "nowhere")).starts_with("`nowhere` is not an address to listen on"));
        assert!(text(factor("db1:1", "0.0.0.0:5")).starts_with("the proxy would be open to other hosts"));
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = taken.local_addr().unwrap().to_string();
        let why = factor("127.0.0.1:1", &taken).unwrap().check(&Level::Time(1)).unwrap_err().0;
        assert!(why.contains("cannot be listened on"), "{why}");
        let wrong = factor("127.0.0.1:1", "127.0.0.1:0").unwrap().check(&Level::Count(3)).unwrap_err().0;
        assert_eq!(wrong, "`3` is not a duration");
    }
}
