//! What a route does to its traffic: the settings, their keys, and changes of them.

use model::{MILLISECOND, Nanos, Problem, Problems, SECOND, quantity};

use crate::distribution::Distribution;

/// Bytes of a TCP segment on an Ethernet: 1,500 bytes without the headers and the time stamp option. Losses and resets
/// are drawn for each segment.
pub const SEGMENT_BYTES: usize = 1448;

/// The longest duration of a setting.
const DURATION_NS_MAX: Nanos = 3600 * SECOND;

/// Bounds of the burst that follows from a bandwidth, bytes.
const BURST_BYTES: (f64, f64) = (SEGMENT_BYTES as f64, 262_144.0);

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the target.
    Up,
    /// From the target to the client.
    Down,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The word for it in settings: `up` or `down`.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// What happens to the traffic of one direction. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSettings {
    /// Delay of every byte.
    pub latency_ns: Nanos,
    /// How much the delay varies; [`Distribution`] says how.
    pub jitter_ns: Nanos,
    /// Distribution of the delay.
    pub distribution: Distribution,
    /// Correlation of the delays of successive arrivals, 0 to 1.
    pub correlation: f64,
    /// Bandwidth cap, bytes per second.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Bytes that may pass at once after a pause; none for 10 ms of the bandwidth, 1,448 bytes to 256 KiB.
    pub burst_bytes: Option<u64>,
    /// Probability that a segment is lost.
    pub loss: f64,
    /// Probability that a segment resets its connection.
    pub reset: f64,
    /// The connection is reset after this number of bytes.
    pub reset_after_bytes: Option<u64>,
    /// The direction is closed (FIN) after this number of bytes; later bytes are discarded.
    pub close_after_bytes: Option<u64>,
    /// Duration of a stall; 0 for none.
    pub stall_ns: Nanos,
    /// Time from one stall to the next; 0 for a single one.
    pub stall_every_ns: Nanos,
    /// When the first stall begins, on the clock of the caller.
    pub stall_from_ns: Nanos,
    /// Nothing is read or passed on. Traffic continues when this ends.
    pub black_hole: bool,
}

impl PathSettings {
    /// Whether it changes nothing.
    pub fn is_transparent(&self) -> bool {
        *self
            == PathSettings {
                distribution: self.distribution,
                correlation: self.correlation,
                burst_bytes: self.burst_bytes,
                stall_every_ns: self.stall_every_ns,
                stall_from_ns: self.stall_from_ns,
                ..PathSettings::default()
            }
    }

    /// Bytes that may pass at once under the bandwidth cap.
    pub fn burst_bytes(&self) -> f64 {
        let usual = || {
            let rate = self.bandwidth_bytes_per_s.unwrap_or(f64::MAX);
            (rate / 100.0).clamp(BURST_BYTES.0, BURST_BYTES.1)
        };
        self.burst_bytes.map_or_else(usual, |bytes| bytes as f64)
    }

    /// The end of the stall at a time, which is the time itself outside of stalls.
    pub fn after_stall(&self, at_ns: Nanos) -> Nanos {
        if self.stall_ns == 0 || at_ns < self.stall_from_ns {
            return at_ns;
        }
        let since = at_ns - self.stall_from_ns;
        let begin = match self.stall_every_ns {
            0 => self.stall_from_ns,
            every => at_ns - since % every,
        };
        at_ns.max(begin.saturating_add(self.stall_ns))
    }
}

/// What happens to the traffic and the connections of a route. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteSettings {
    /// From the client to the target.
    pub up: PathSettings,
    /// From the target to the client.
    pub down: PathSettings,
    /// Delay before the proxy connects to the target.
    pub connect_delay_ns: Nanos,
    /// Share of new connections that are refused, 0 to 1.
    pub refuse: f64,
}

impl RouteSettings {
    /// The settings of a direction.
    pub fn path(&self, direction: Direction) -> &PathSettings {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Changes them at a time. Stalls that change begin at this time.
    pub fn change(&mut self, change: &Change, now_ns: Nanos) {
        if change.reset {
            *self = RouteSettings::default();
        }
        for assignment in &change.assignments {
            assignment.apply(self, now_ns);
        }
    }

    /// Every contradiction, with what to write instead.
    pub fn check(&self) -> Problems {
        let mut problems = Problems::new();
        for direction in Direction::BOTH {
            let path = self.path(direction);
            let word = direction.word();
            if path.jitter_ns > 0 && path.distribution == Distribution::Constant {
                problems.0.push(Problem::new(
                    format!("`{word}.jitter` has no effect with the distribution `constant`"),
                    "write distribution=uniform, or jitter=off",
                ));
            }
            if path.stall_every_ns > 0 && path.stall_ns >= path.stall_every_ns {
                problems.0.push(Problem::new(
                    format!(
                        "`{word}.stall` of {} lasts until the next stall, which follows every {}",
                        quantity::duration(path.stall_ns),
                        quantity::duration(path.stall_every_ns)
                    ),
                    "write a stall-every that is longer than the stall, or black-hole=on",
                ));
            }
        }
        problems
    }

    /// The settings that differ from the default, as [`Change::parse`] reads them.
    pub fn words(&self) -> Vec<String> {
        let usual = RouteSettings::default();
        let mut words = Vec::new();
        for info in KEYS {
            let text = |direction| (info.key.text(self, direction), info.key.text(&usual, direction));
            let (up, down) = (text(Direction::Up), text(Direction::Down));
            if !info.has_directions() || up == down {
                words.extend((up.0 != up.1).then(|| format!("{}={}", info.name, up.0)));
                continue;
            }
            for (direction, (value, usual)) in [(Direction::Up, up), (Direction::Down, down)] {
                words.extend((value != usual).then(|| format!("{}.{}={value}", direction.word(), info.name)));
            }
        }
        words
    }
}

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "KEYS describes each")]
pub enum Key {
    Latency,
    Jitter,
    Distribution,
    Correlation,
    Bandwidth,
    Burst,
    Loss,
    Stall,
    StallEvery,
    Reset,
    ResetAfter,
    CloseAfter,
    BlackHole,
    ConnectDelay,
    Refuse,
}

/// The name of a setting, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct KeyInfo {
    /// The setting.
    pub key: Key,
    /// Its name.
    pub name: &'static str,
    /// The form of its value.
    pub value: &'static str,
    /// One sentence.
    pub about: &'static str,
}

impl KeyInfo {
    /// Whether it can differ between the two directions.
    pub fn has_directions(&self) -> bool {
        !matches!(self.key, Key::ConnectDelay | Key::Refuse)
    }
}

/// Every setting.
pub static KEYS: &[KeyInfo] = &[
    info(
        Key::Latency,
        "latency",
        "DURATION",
        "Delay of every byte; in both directions, a round trip takes twice as much longer",
    ),
    info(Key::Jitter, "jitter", "DURATION", "Variation of the delay, in the form of the distribution"),
    info(
        Key::Distribution,
        "distribution",
        "NAME",
        "Distribution of the delay: uniform (latency ± jitter), normal (standard deviation = jitter), exponential or pareto (latency + a mean of jitter), constant",
    ),
    info(Key::Correlation, "correlation", "PERCENT", "Correlation of successive delays"),
    info(Key::Bandwidth, "bandwidth", "BYTES/s", "Bandwidth of each connection, such as 1MB/s"),
    info(
        Key::Burst,
        "burst",
        "SIZE",
        "Bytes that may pass at once after a pause [default: 10 ms of the bandwidth, at most 256KiB]",
    ),
    info(
        Key::Loss,
        "loss",
        "PERCENT",
        "Share of segments (1,448 bytes) that are lost; TCP repeats them, which stalls the connection for 200 ms, doubled for each further loss",
    ),
    info(Key::Stall, "stall", "DURATION", "All traffic stops for this time, once or with stall-every"),
    info(Key::StallEvery, "stall-every", "DURATION", "Time from one stall to the next"),
    info(Key::Reset, "reset", "PERCENT", "Share of segments that reset their connection"),
    info(Key::ResetAfter, "reset-after", "SIZE", "Reset each connection after this number of bytes"),
    info(
        Key::CloseAfter,
        "close-after",
        "SIZE",
        "Close the direction after this number of bytes (FIN) and discard later ones; the other direction continues",
    ),
    info(Key::BlackHole, "black-hole", "on|off", "Pass nothing on, until it is off again"),
    info(Key::ConnectDelay, "connect-delay", "DURATION", "Delay before the proxy connects to the target"),
    info(Key::Refuse, "refuse", "PERCENT", "Share of new connections that are refused"),
];

const fn info(key: Key, name: &'static str, value: &'static str, about: &'static str) -> KeyInfo {
    KeyInfo { key, name, value, about }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Duration(Nanos),
    Size(Option<u64>),
    BytesPerS(Option<f64>),
    Share(f64),
    Distribution(Distribution),
    Switch(bool),
}

impl Key {
    fn parse(self, text: &str) -> Result<Value, Problem> {
        let is_off = text == "off";
        match self {
            Key::Latency | Key::Jitter | Key::Stall | Key::StallEvery | Key::ConnectDelay => match text {
                "off" => Ok(Value::Duration(0)),
                _ => duration(text).map(Value::Duration),
            },
            Key::Correlation | Key::Loss | Key::Reset | Key::Refuse => match text {
                "off" => Ok(Value::Share(0.0)),
                _ => share(self, text).map(Value::Share),
            },
            Key::Bandwidth if is_off => Ok(Value::BytesPerS(None)),
            Key::Bandwidth => match quantity::parse_bytes_per_s(text) {
                Ok(rate) if rate >= 1.0 => Ok(Value::BytesPerS(Some(rate))),
                Ok(_) => Err(Problem::new(
                    format!("a bandwidth of `{text}` is below 1B/s"),
                    "write at least 1B/s, or black-hole=on",
                )),
                Err(error) => Err(Problem::new(error.0, "or write off")),
            },
            Key::Burst | Key::ResetAfter | Key::CloseAfter if is_off => Ok(Value::Size(None)),
            Key::Burst => match size(text)? {
                bytes if bytes < SEGMENT_BYTES as u64 => Err(Problem::new(
                    format!("a burst of `{text}` is smaller than a segment"),
                    format!("write at least {SEGMENT_BYTES}B, or off"),
                )),
                bytes => Ok(Value::Size(Some(bytes))),
            },
            Key::ResetAfter | Key::CloseAfter => Ok(Value::Size(Some(size(text)?))),
            Key::Distribution if is_off => Ok(Value::Distribution(Distribution::default())),
            Key::Distribution => Distribution::parse(text).map(Value::Distribution).ok_or_else(|| {
                Problem::new(
                    format!("`{text}` is not a distribution"),
                    format!("write one of: {}", Distribution::names().join(", ")),
                )
            }),
            Key::BlackHole => match text {
                "on" => Ok(Value::Switch(true)),
                "off" => Ok(Value::Switch(false)),
                _ => Err(Problem::new(format!("`{text}` is not a state of black-hole"), "write on or off")),
            },
        }
    }

    /// The value in force, in the notation that is parsed.
    fn text(self, settings: &RouteSettings, direction: Direction) -> String {
        let path = settings.path(direction);
        let time = |ns: Nanos| if ns == 0 { "off".into() } else { quantity::duration(ns) };
        let percent = |share: f64| if share == 0.0 { "off".into() } else { percent(share) };
        let size = |bytes: Option<u64>| bytes.map_or("off".into(), quantity::bytes);
        match self {
            Key::Latency => time(path.latency_ns),
            Key::Jitter => time(path.jitter_ns),
            Key::Distribution => path.distribution.name().into(),
            Key::Correlation => percent(path.correlation),
            Key::Bandwidth => path.bandwidth_bytes_per_s.map_or("off".into(), quantity::bytes_per_s),
            Key::Burst => size(path.burst_bytes),
            Key::Loss => percent(path.loss),
            Key::Stall => time(path.stall_ns),
            Key::StallEvery => time(path.stall_every_ns),
            Key::Reset => percent(path.reset),
            Key::ResetAfter => size(path.reset_after_bytes),
            Key::CloseAfter => size(path.close_after_bytes),
            Key::BlackHole => (if path.black_hole { "on" } else { "off" }).into(),
            Key::ConnectDelay => time(settings.connect_delay_ns),
            Key::Refuse => percent(settings.refuse),
        }
    }
}

/// A share as a percentage that is parsed to the same share again.
fn percent(share: f64) -> String {
    // Multiplied by 100, 0.07 becomes 7.000000000000001.
    let rounded = (share * 1e12).round() / 1e10;
    format!("{rounded}%")
}

fn duration(text: &str) -> Result<Nanos, Problem> {
    match quantity::parse_duration(text) {
        Ok(ns) if ns <= DURATION_NS_MAX => Ok(ns),
        Ok(_) => Err(Problem::new(format!("`{text}` is longer than one hour"), "write at most 1h")),
        Err(error) => Err(Problem::new(error.0, "or write off")),
    }
}

fn size(text: &str) -> Result<u64, Problem> {
    quantity::parse_bytes(text).map_err(|error| Problem::new(error.0, "or write off"))
}

fn share(key: Key, text: &str) -> Result<f64, Problem> {
    let percent = quantity::parse_percent(text).map_err(|error| Problem::new(error.0, "or write off"))?;
    match key {
        Key::Loss if percent > 90.0 => Err(Problem::new(
            format!("a loss of `{text}` passes almost nothing"),
            "write at most 90%; to pass nothing at all, write black-hole=on",
        )),
        Key::Correlation if percent > 99.0 => Err(Problem::new(
            format!("a correlation of `{text}` leaves the delay at its first value"),
            "write at most 99%",
        )),
        _ => Ok(percent / 100.0),
    }
}

/// One setting with its new value.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    direction: Option<Direction>,
    key: Key,
    value: Value,
}

impl Assignment {
    /// Parses a name such as `latency` or `up.latency`, and its value.
    ///
    /// # Errors
    /// When there is no such setting, or the value is not valid; the problem says what to write.
    pub fn parse(name: &str, value: &str) -> Result<Assignment, Problem> {
        let (direction, key) = match name.split_once('.') {
            Some(("up", key)) => (Some(Direction::Up), key),
            Some(("down", key)) => (Some(Direction::Down), key),
            _ => (None, name),
        };
        let Some(info) = KEYS.iter().find(|info| info.name == key) else {
            return Err(unknown(name, key));
        };
        if direction.is_some() && !info.has_directions() {
            return Err(Problem::new(
                format!("`{key}` has no direction: it is about new connections"),
                format!("write {key}={value}"),
            ));
        }
        let value = info.key.parse(value.trim()).map_err(|mut problem| {
            problem.what = format!("{name}: {}", problem.what);
            problem
        })?;
        Ok(Assignment { direction, key: info.key, value })
    }

    /// Its name and its value, as [`Assignment::parse`] reads them.
    pub fn words(&self) -> (String, String) {
        let mut settings = RouteSettings::default();
        self.apply(&mut settings, 0);
        let value = self.key.text(&settings, self.direction.unwrap_or(Direction::Up));
        let name = KEYS.iter().find(|info| info.key == self.key).map_or("", |info| info.name);
        match self.direction {
            Some(direction) => (format!("{}.{name}", direction.word()), value),
            None => (name.into(), value),
        }
    }

    fn apply(&self, settings: &mut RouteSettings, now_ns: Nanos) {
        match (self.key, self.value) {
            (Key::ConnectDelay, Value::Duration(ns)) => settings.connect_delay_ns = ns,
            (Key::Refuse, Value::Share(share)) => settings.refuse = share,
            _ => {}
        }
        if self.direction != Some(Direction::Down) {
            self.apply_to(&mut settings.up, now_ns);
        }
        if self.direction != Some(Direction::Up) {
            self.apply_to(&mut settings.down, now_ns);
        }
    }

    fn apply_to(&self, path: &mut PathSettings, now_ns: Nanos) {
        match (self.key, self.value) {
            (Key::Latency, Value::Duration(ns)) => path.latency_ns = ns,
            (Key::Jitter, Value::Duration(ns)) => path.jitter_ns = ns,
            (Key::Stall, Value::Duration(ns)) => (path.stall_ns, path.stall_from_ns) = (ns, now_ns),
            (Key::StallEvery, Value::Duration(ns)) => path.stall_every_ns = ns,
            (Key::Correlation, Value::Share(share)) => path.correlation = share,
            (Key::Loss, Value::Share(share)) => path.loss = share,
            (Key::Reset, Value::Share(share)) => path.reset = share,
            (Key::Bandwidth, Value::BytesPerS(rate)) => path.bandwidth_bytes_per_s = rate,
            (Key::Burst, Value::Size(bytes)) => path.burst_bytes = bytes,
            (Key::ResetAfter, Value::Size(bytes)) => path.reset_after_bytes = bytes,
            (Key::CloseAfter, Value::Size(bytes)) => path.close_after_bytes = bytes,
            (Key::Distribution, Value::Distribution(distribution)) => path.distribution = distribution,
            (Key::BlackHole, Value::Switch(on)) => path.black_hole = on,
            _ => {}
        }
    }
}

fn unknown(name: &str, key: &str) -> Problem {
    let names: Vec<&str> = KEYS.iter().map(|info| info.name).collect();
    let help = match model::problem::near_word(key, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write one of: {}; for one direction, up.latency or down.latency", names.join(", ")),
    };
    Problem::new(format!("there is no setting `{name}`"), help)
}

/// A change of the settings of one route or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The name of the route; none for all routes.
    pub route: Option<String>,
    /// All other settings return to their defaults.
    pub reset: bool,
    /// The new values.
    pub assignments: Vec<Assignment>,
}

impl Change {
    /// Parses words such as `latency=50ms`, `up.loss=1%`, `route=ldap` (only this route) and `none` (all settings return
    /// to their defaults first). Several may be in one text, separated by spaces or commas. A setting of one direction
    /// prevails over the same setting of both.
    ///
    /// # Errors
    /// Every mistake, with what to write instead.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Change, Problems> {
        let mut change = Change::default();
        let mut problems = Problems::new();
        let words = texts.into_iter().flat_map(|text| text.split([' ', ',', '\t', '\n']));
        for word in words.filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None if word == "none" => change.reset = true,
                None => problems.0.push(Problem::new(
                    format!("`{word}` is not a setting with a value"),
                    "write NAME=VALUE, such as latency=20ms, or none to end all impairments",
                )),
                Some(("route", name)) => change.route = Some(name.into()),
                Some((name, value)) => match Assignment::parse(name, value) {
                    Ok(assignment) => change.assignments.push(assignment),
                    Err(problem) => problems.0.push(problem),
                },
            }
        }
        if problems.0.is_empty() && !change.reset && change.assignments.is_empty() {
            problems.0.push(Problem::new("no setting is given", "write NAME=VALUE, such as latency=20ms"));
        }
        change.sort();
        problems.or(change)
    }

    /// Settings of one direction come after those of both, so that they prevail in any order of the words.
    pub(crate) fn sort(&mut self) {
        self.assignments.sort_by_key(|assignment| assignment.direction.is_some());
    }
}

/// A change at a time after the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled {
    /// Time after the start.
    pub at_ns: Nanos,
    /// What changes.
    pub change: Change,
}

impl Scheduled {
    /// Parses a time, such as `10s`, and the words of a change.
    ///
    /// # Errors
    /// Every mistake, with what to write instead.
    pub fn parse(at: &str, words: &[&str]) -> Result<Scheduled, Problems> {
        let change = Change::parse(words.iter().copied());
        let at_ns = match quantity::parse_duration(at) {
            Ok(at_ns) if at_ns <= 366 * 24 * 3600 * SECOND => Ok(at_ns),
            Ok(_) => Err(Problem::new(format!("`{at}` is more than a year away"), "write a shorter time")),
            Err(error) => {
                Err(Problem::new(error.0, "write the time after the start first: --at 10s latency=100ms"))
            }
        };
        match (at_ns, change) {
            (Ok(at_ns), Ok(change)) => Ok(Scheduled { at_ns, change }),
            (Ok(_), Err(problems)) => Err(problems),
            (Err(problem), change) => {
                let mut problems = change.err().unwrap_or_default();
                problems.0.insert(0, problem);
                Err(problems)
            }
        }
    }
}

/// The time of one stall of a lost segment: the retransmission timeout of Linux.
pub(crate) const RETRANSMISSION_NS: Nanos = 200 * MILLISECOND;

#[cfg(test)]
mod tests;
