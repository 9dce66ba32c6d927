//! How much the response time depends on the delay of each dependency.

use serde::{Deserialize, Serialize};

use crate::Operation;

/// The facts of a proxy, each after the path of its factor and a dot.
pub mod facts {
    use crate::Level;

    /// Where the proxy listens.
    pub const LISTEN: &str = "listen";
    /// The address of the dependency.
    pub const ADDRESS: &str = "address";
    /// The median delay that was really added on the way to the dependency.
    pub const ADDED_UP: &str = "added_up.p50";
    /// The same on the way back.
    pub const ADDED_DOWN: &str = "added_down.p50";
    /// Bytes in both directions since the delay was set.
    pub const BYTES: &str = "bytes";
    /// Exchanges that completed in the measured time.
    pub const MEASURED_EXCHANGES: &str = "measured.exchanges";
    /// Connections that were opened in the measured time.
    pub const MEASURED_CONNECTIONS: &str = "measured.connections";

    /// All of these, each with a level of its kind.
    pub const ALL: [(&str, Level); 7] = [
        (LISTEN, Level::Text(String::new())),
        (ADDRESS, Level::Text(String::new())),
        (ADDED_UP, Level::Time(0)),
        (ADDED_DOWN, Level::Time(0)),
        (BYTES, Level::Bytes(0)),
        (MEASURED_EXCHANGES, Level::Count(0)),
        (MEASURED_CONNECTIONS, Level::Count(0)),
    ];
}

/// How the time of an operation depends on the delay of a dependency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The operation.
    pub operation: Operation,
    /// The time that was measured.
    pub measure: TimeMeasure,
    /// The dependency.
    pub dependency: String,
    /// The factor that delays it.
    pub factor: String,
    /// Whether it depends on it.
    pub answer: SensitivityAnswer,
    /// Milliseconds of time per millisecond of added round trip: the number of round trips that an operation waits for,
    /// one after the other. None if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<f64>,
    /// The lower end of its 95 % confidence interval; none with too few trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Time of an operation without an added delay, on the fitted line, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelayed_ms: Option<f64>,
    /// Exchanges with the dependency per operation, as its proxy counted them without an added delay: all round trips, also
    /// those at the same time. Only for all operations together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<f64>,
    /// Connections that were opened per operation. Opening one is a round trip too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<f64>,
    /// The mean at each level, in the order of the delays.
    pub levels: Vec<LevelTime>,
}

/// The trials at one level of delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelTime {
    /// The round trip that was really added, milliseconds: mean of the trials.
    pub added_ms: f64,
    /// Mean time of an operation, milliseconds.
    pub time_ms: f64,
    /// The time in each trial, milliseconds.
    pub trials_ms: Vec<f64>,
}

/// The time that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeMeasure {
    /// The mean response time.
    Response,
    /// The elapsed time divided by the number of operations, for operations that follow one another.
    Elapsed,
}

/// Whether the time of an operation depends on a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SensitivityAnswer {
    /// It does: the whole interval is above zero.
    Depends,
    /// It does not: the interval includes zero, and at most [`NEGLIGIBLE`] round trips.
    None,
    /// The interval includes zero and more round trips, or there is no interval.
    Unclear,
    /// The times are not on a straight line, so one number does not describe them.
    NotLinear,
    /// No traffic went through the proxy.
    NoTraffic,
}

/// At most this many round trips per operation are none.
pub const NEGLIGIBLE: f64 = 0.25;
