//! A copy as people size a write-back cache: the rate into the cache, the rate past it, its capacity, and its
//! drain.

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::drain::DrainEnd;

/// What a copy moved, and what it showed of a write-back cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyResult {
    /// Bytes copied.
    pub bytes: f64,
    /// Seconds until the last byte was accepted, without the final flush.
    pub accepted_s: f64,
    /// Mean rate until then, bytes per second, with the 95 % interval of the noise within the trial. Its ends are
    /// the value itself where a single interval of the record shows no noise.
    pub mean_bytes_per_s: Estimate,
    /// A write-back cache, or a rate that fell for good without a cache being shown; none if the rate did not
    /// fall and memory held nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<WriteCache>,
    /// Writes of the device after the last byte was accepted; none if they were not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainResult>,
}

/// A write-back cache, as a copy saw it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteCache {
    /// How it was seen.
    pub place: CachePlace,
    /// Bytes per second while it accepted data.
    pub into_bytes_per_s: f64,
    /// Bytes per second past it, with the 95 % interval of the noise within the trial; none if the copy ended
    /// before the cache was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past_bytes_per_s: Option<Estimate>,
    /// Bytes accepted at the first rate, and the interval of the moment at which the rate changed. All bytes
    /// of a copy that ended before the cache was full.
    pub accepted_bytes: Estimate,
    /// Bytes that it holds, if it is one. Of the page cache this is dirty and writeback memory. Otherwise
    /// it is between what was accepted faster than the rate past it, if it drained all the time, and all that
    /// was accepted, if it did not. A lower bound if the copy ended before the cache was full.
    pub capacity_bytes: Estimate,
    /// When it was full, seconds on the trial's clock; none if the copy ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_at_s: Option<f64>,
}

/// How a write-back cache was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePlace {
    /// In the page cache, by its dirty and writeback memory.
    PageCache,
    /// Below the operating system, as in a controller, a drive or a hypervisor: by the rate alone.
    BelowSystem,
    /// The rate fell for good, and the counters do not show a cache: another cause is as likely.
    NotShown,
}

/// The drain: what the device wrote after the last byte was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrainResult {
    /// When the last byte was accepted, seconds on the trial's clock.
    pub begin_s: f64,
    /// When the device rested; when watching ended, if it did not.
    pub end_s: f64,
    /// Seconds in which the device wrote: the kernel may wait before it writes.
    pub writing_s: f64,
    /// Bytes that the device wrote, without its rate before the copy.
    pub bytes: f64,
    /// Bytes per second while it wrote; none if it wrote nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// How watching ended.
    pub end: DrainEnd,
}

impl CopyResult {
    /// The cache, if one is shown.
    pub fn shown_cache(&self) -> Option<WriteCache> {
        self.cache.filter(|cache| cache.place != CachePlace::NotShown)
    }
}

impl DrainResult {
    /// Its length in seconds.
    pub fn length_s(&self) -> f64 {
        self.end_s - self.begin_s
    }
}

impl WriteCache {
    /// Seconds until `bytes` are accepted, for a rate past the cache; none if that rate is not known and the
    /// bytes are more than were accepted.
    pub fn seconds(&self, bytes: f64, past_bytes_per_s: Option<f64>) -> Option<f64> {
        let accepted = self.accepted_bytes.value;
        match past_bytes_per_s {
            _ if bytes <= accepted => Some(bytes / self.into_bytes_per_s),
            Some(past) => Some(accepted / self.into_bytes_per_s + (bytes - accepted) / past),
            None => None,
        }
    }

    /// The bytes from which on the copy takes longer than at a steady rate without the cache: where
    /// `accepted / into + (bytes - accepted) / past = bytes / without`. None if it never does.
    pub fn break_even_bytes(&self, without_bytes_per_s: f64) -> Option<f64> {
        let (accepted, into) = (self.accepted_bytes.value, self.into_bytes_per_s);
        let past = self.past_bytes_per_s?.value;
        if past >= without_bytes_per_s {
            return None;
        }
        if into <= without_bytes_per_s {
            return Some(0.0);
        }
        let bytes = accepted * (1.0 / past - 1.0 / into) / (1.0 / past - 1.0 / without_bytes_per_s);
        bytes.is_finite().then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(accepted: f64, into: f64, past: Option<f64>) -> WriteCache {
        WriteCache {
            place: CachePlace::BelowSystem,
            into_bytes_per_s: into,
            past_bytes_per_s: past.map(Estimate::exact),
            accepted_bytes: Estimate::exact(accepted),
            capacity_bytes: Estimate::exact(accepted),
            full_at_s: past.map(|_| accepted / into),
        }
    }

    #[test]
    fn time_is_that_of_both_rates() {
        let cache = cache(1e9, 500e6, Some(50e6));
        let seconds = |bytes| cache.seconds(bytes, Some(50e6)).unwrap();
        assert_eq!([seconds(0.5e9), seconds(1e9), seconds(2e9)], [1.0, 2.0, 22.0]);
        assert_eq!(cache.seconds(2e9, None), None);
    }

    #[test]
    fn a_cache_stops_paying_where_both_take_as_long() {
        // The published cache of 100 MB: filled at 225 MB/s, then 26.1 MB/s, against 43.5 MB/s without it.
        let small = cache(100e6, 225e6, Some(26.1e6));
        let bytes = small.break_even_bytes(43.5e6).unwrap();
        let with = small.seconds(bytes, Some(26.1e6)).unwrap();
        assert!((with - bytes / 43.5e6).abs() < 1e-9 * with, "{with}");
        assert!((bytes / 221e6 - 1.0).abs() < 0.005, "{bytes}");
        // One that is no slower past it always pays, one that is slower from the start never does.
        assert_eq!(cache(1e8, 2e8, Some(5e7)).break_even_bytes(4e7), None);
        assert_eq!(cache(1e8, 3e7, Some(2e7)).break_even_bytes(4e7), Some(0.0));
        assert_eq!(cache(1e8, 2e8, None).break_even_bytes(4e7), None);
    }
}
