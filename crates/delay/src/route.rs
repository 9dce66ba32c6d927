//! A route: where it listens, where it leads, what it does to the traffic, and what happened on it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::settings::{Direction, PathSettings, RouteSettings};
use crate::statistics::RouteStatistics;

/// Bytes of one direction of a connection that may wait to be due: 100 ms at 1.3 GB/s.
pub const BUFFER_BYTES_MAX: usize = 128 << 20;

/// The same where no byte waits long, so that TCP slows the sender.
const BUFFER_BYTES: usize = 256 << 10;

/// A route at work.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) target: String,
    /// Addresses of the target, in the order in which they are tried.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) listener: OwnedFd,
    pub(crate) is_listening: bool,
    pub(crate) settings: RouteSettings,
    pub(crate) statistics: RouteStatistics,
    /// Whether the last connection reached the target; a change is reported.
    pub(crate) is_reachable: bool,
    buffer_bytes_max: [usize; 2],
}

impl Route {
    pub(crate) fn new(
        name: String,
        target: String,
        addresses: Vec<SocketAddr>,
        listener: OwnedFd,
        settings: RouteSettings,
    ) -> Route {
        let mut route = Route {
            name,
            target,
            addresses,
            listener,
            is_listening: true,
            settings: RouteSettings::default(),
            statistics: RouteStatistics::default(),
            is_reachable: true,
            buffer_bytes_max: [0; 2],
        };
        route.set(settings);
        route
    }

    /// Puts settings in force for what arrives from now on.
    pub(crate) fn set(&mut self, settings: RouteSettings) {
        self.buffer_bytes_max = [buffer_bytes_max(&settings.up), buffer_bytes_max(&settings.down)];
        self.settings = settings;
    }

    /// Bytes that may wait in one direction of a connection.
    pub(crate) fn buffer_bytes_max(&self, direction: Direction) -> usize {
        match direction {
            Direction::Up => self.buffer_bytes_max[0],
            Direction::Down => self.buffer_bytes_max[1],
        }
    }
}

/// The bytes that are on their way in a link of this bandwidth and delay.
fn buffer_bytes_max(settings: &PathSettings) -> usize {
    let delay_s = (settings.latency_ns + 4 * settings.jitter_ns) as f64 / 1e9;
    match settings.bandwidth_bytes_per_s {
        Some(rate) => {
            // A cast saturates.
            let bytes = (rate * delay_s + settings.burst_bytes()) as usize;
            bytes.saturating_add(64 << 10).min(BUFFER_BYTES_MAX)
        }
        None if delay_s > 0.0 => BUFFER_BYTES_MAX,
        None => BUFFER_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Change;

    #[test]
    fn a_cap_bounds_what_waits() {
        for (words, bytes) in [
            ("none", 256 << 10),
            ("latency=100ms", 128 << 20),
            ("loss=1%", 256 << 10),
            ("bandwidth=1MB/s burst=64KiB", 128 << 10),
            ("bandwidth=1MB/s burst=64KiB latency=100ms", (128 << 10) + 100_000),
            ("bandwidth=100GB/s latency=1h", 128 << 20),
        ] {
            let mut settings = RouteSettings::default();
            settings.change(&Change::parse([words]).unwrap(), 0);
            assert_eq!(buffer_bytes_max(&settings.up), bytes, "{words}");
        }
    }
}
