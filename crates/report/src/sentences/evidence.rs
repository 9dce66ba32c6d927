//! Evidence in words: an observed value and its threshold.

use model::{Comparison, Estimate, Evidence};

use super::{of_series, ratio};
use crate::labels;
use crate::text::{Quantity, percent, plain, things};

/// The names of metrics within sentences. Other metrics keep their own name.
const PHRASES: &[(&str, &str)] = &[
    ("bytes_per_s", "throughput"),
    ("concurrency", "operations in flight"),
    ("cpu.busy_share", "time that the CPUs were busy"),
    ("cpu.steal_share", "CPU time that other virtual machines took (steal)"),
    ("cpu.system_share", "CPU time used by the kernel"),
    ("disk bytes over load bytes", "bytes moved by the device for each byte of the load"),
    ("disk bytes over transfers", "mean size of a transfer"),
    ("disk.flush_s", "time of a flush"),
    ("disk.flushes_per_s", "flushes"),
    ("disk.queue_length", "average device queue"),
    ("disk.read_bytes_per_s", "bytes read from the device"),
    ("disk.reads_per_s", "reads of the device"),
    ("disk.transfer_s", "time of a transfer"),
    ("disk.utilization_share", "device utilization"),
    ("disk.write_bytes_per_s", "bytes written to the device"),
    ("disk.writes_per_s", "writes of the device"),
    ("drained_bytes", "bytes drained after the copy"),
    ("elasticity of bytes per second to block size", "elasticity of bandwidth to the block size"),
    ("elasticity of throughput to load", "elasticity of throughput to the load"),
    ("generator.busy_share", "time that the threads of the load generator ran"),
    ("generator.run_wait_share", "time that the threads of the load generator waited for a CPU"),
    ("into_cache_bytes_per_s", "rate into the cache"),
    ("lag_ms.p99", "p99 of the delay before an operation was issued"),
    ("launch.asleep_share", "time that a launch was asleep (timer)"),
    ("launch.cpu_share", "CPU time of a launch over its time"),
    ("launch.flushes_share", "time that a launch waited for flushes"),
    ("launch.lock_share", "time that all threads of a launch waited for another thread"),
    ("launch.network_share", "time that a launch waited for the other end of a connection"),
    ("launch.other_share", "time that a launch waited for something else"),
    ("launch.page_faults_share", "time that a launch waited for pages to be read"),
    ("launch.ready_share", "time that a launch was ready to run and waited for a CPU"),
    ("launch.transfers_share", "time that a launch waited for reads and writes of files"),
    ("memory.allocation_stalls_per_s", "allocations that waited for direct reclaim"),
    ("memory.available_bytes", "available memory"),
    ("memory.background_scans_per_s", "pages scanned in background reclaim"),
    ("memory.direct_scans_per_s", "pages scanned in direct reclaim"),
    ("memory.dirty_bytes", "written data that waits in memory"),
    ("memory.major_faults_per_s", "major page faults"),
    ("memory.oom_kills_per_s", "processes killed because memory ran out (OOM)"),
    ("memory.reclaimed_pages_per_s", "pages reclaimed"),
    ("memory.refaults_per_s", "refaults: reclaimed pages read again"),
    ("memory.swap_ins_per_s", "pages read from swap"),
    ("network.softnet_drops_per_s", "packets dropped at the input queue of a CPU"),
    ("network.tcp_buffer_bytes", "data in the buffers of TCP"),
    ("network.tcp_listen_overflows_per_s", "connections refused because the accept queue overflowed"),
    ("network.tcp_retransmitted_segments_per_s", "TCP segments retransmitted"),
    ("past_cache_bytes_per_s", "rate past the cache"),
    ("pressure.cpu_some_share", "time that some task waited for a CPU"),
    ("pressure.io_some_share", "time that some task was blocked on I/O"),
    ("pressure.memory_some_share", "time that some task stalled for memory"),
    ("process.accept_queue_connections", "connections waiting to be accepted"),
    ("process.accept_wait_threads", "threads waiting for a connection"),
    ("process.busiest_thread_cpus", "CPU use of the busiest thread"),
    ("process.busy_cpus", "CPUs used"),
    ("process.client_wait_threads", "threads waiting for a client"),
    ("process.flush_wait_threads", "threads waiting for flushes"),
    ("process.lock_wait_threads", "threads waiting for another thread"),
    ("process.major_faults_per_s", "major page faults"),
    ("process.memory_charged_bytes", "memory in use, of the limit"),
    ("process.peer_wait_threads", "threads waiting for another service"),
    ("process.run_queue_length", "threads ready to run that waited for a CPU"),
    ("process.timer_wait_threads", "threads asleep (timer)"),
    ("process.transfer_wait_threads", "threads waiting for reads or writes of files"),
    ("rate_per_s", "operations completed"),
    ("response_ms.max", "longest response time"),
    ("response_ms.mean", "mean response time"),
    ("response_ms.p50", "median response time"),
    ("sync.service.mean", "time of the final flush"),
];

/// The name of the measurement: `average device queue, vda`.
pub fn measure(evidence: &Evidence) -> String {
    let (metric, instance) = match evidence.metric.split_once('{') {
        Some((metric, rest)) => (metric, rest.trim_end_matches('}')),
        None => (evidence.metric.as_str(), ""),
    };
    match PHRASES.binary_search_by_key(&metric, |(name, _)| *name) {
        Ok(at) if instance.is_empty() => PHRASES[at].1.to_string(),
        Ok(at) => format!("{}, {}", PHRASES[at].1, labels::instance(instance)),
        Err(_) => evidence.metric.clone(),
    }
}

/// A value of this evidence with its unit.
pub(crate) fn value(evidence: &Evidence, value: f64) -> String {
    // Times of operations have their unit in their name.
    match Quantity::of(evidence.unit) {
        Quantity::Seconds => Quantity::Seconds.show(value),
        _ if evidence.metric.split('.').any(|part| part.ends_with("_ms")) => {
            Quantity::Milliseconds.show(value)
        }
        Quantity::Share => percent(value),
        Quantity::Plain if evidence.metric.starts_with("elasticity") => plain(value),
        Quantity::Plain => things(value),
        quantity => quantity.show(value),
    }
}

/// The observed value and its threshold: `average device queue, vda: 31.4 (rule of thumb:
/// at most 1)`.
pub fn evidence(evidence: &Evidence) -> String {
    let Estimate { value, low, high } = evidence.observed;
    let observed = match low == high {
        true => self::value(evidence, value),
        false => {
            let [value, low, high] = [value, low, high].map(|number| self::value(evidence, number));
            format!("{value} ({low} to {high})")
        }
    };
    let compared = evidence.expected.as_ref().map_or(String::new(), |expected| {
        format!(" ({})", compared(evidence, expected, evidence.comparison.unwrap_or(Comparison::Threshold)))
    });
    let between = evidence.between.as_ref().map_or(String::new(), |levels| {
        format!(
            "from {} {} to {}{} throughput {}; ",
            labels::setting(&levels.factor),
            levels.from,
            levels.to,
            of_series(&levels.series),
            ratio(levels.throughput_ratio)
        )
    });
    format!("{between}{}: {observed}{compared}", measure(evidence))
}

fn compared(evidence: &Evidence, expected: &Estimate, comparison: Comparison) -> String {
    let show = |number| self::value(evidence, number);
    let Estimate { value, low, high } = *expected;
    match comparison {
        Comparison::OtherTimes => format!("{} at other times", show(value)),
        Comparison::Threshold if low <= 0.0 => format!("threshold: {}", show(high)),
        Comparison::Threshold => format!("threshold: {}", show(low)),
        Comparison::RuleOfThumb if low <= 0.0 && value > 0.0 && value < high => {
            format!("rule of thumb: {} is good, at most {}", show(value), show(high))
        }
        Comparison::RuleOfThumb if low <= 0.0 => format!("rule of thumb: at most {}", show(high)),
        Comparison::RuleOfThumb => format!("rule of thumb: at least {}", show(low)),
    }
}

#[cfg(test)]
mod tests {
    use super::PHRASES;

    #[test]
    fn phrases_are_in_order() {
        assert!(PHRASES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
