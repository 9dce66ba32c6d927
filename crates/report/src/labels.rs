//! Display names of counters, settings and configurations. The names of the record are shown next to them
//! where they help to look something up.

use model::metric::split_instance;
use model::result::{Configuration, Curve};
use model::run::WorkloadTraits;
use model::{Change, Level, ResultDocument, metrics as m, quantity};

use crate::tables::{SIDE_BY_SIDE, letter};
use crate::text::shortened;

/// The counters by name. `{}` is the instance: a disk, a CPU, a process, a network interface, a volume, a file system.
static COUNTERS: &[(&str, &str)] = &[
    (m::CGROUP_BUSY_CPUS, "CPUs used by group {}"),
    (m::CGROUP_CPU_FULL_SHARE, "time all tasks of group {} waited for a CPU"),
    (m::CGROUP_CPU_SOME_SHARE, "time some task of group {} waited for a CPU"),
    (m::CGROUP_IO_FULL_SHARE, "time all tasks of group {} waited for I/O"),
    (m::CGROUP_IO_SOME_SHARE, "time some task of group {} waited for I/O"),
    (m::CGROUP_MEMORY_FULL_SHARE, "time all tasks of group {} stalled for memory"),
    (m::CGROUP_MEMORY_LIMIT_BYTES, "memory limit of group {}"),
    (m::CGROUP_MEMORY_LIMIT_HITS_PER_S, "memory limit reached by group {}"),
    (m::CGROUP_MEMORY_SOME_SHARE, "time some task of group {} stalled for memory"),
    (m::CGROUP_MEMORY_USED_BYTES, "memory of group {}"),
    (m::CGROUP_OOM_KILLS_PER_S, "out-of-memory kills in group {}"),
    (m::CGROUP_PERIODS_PER_S, "quota periods of group {}"),
    (m::CGROUP_QUOTA_CPUS, "CPU quota of group {}"),
    (m::CGROUP_READ_BYTES_PER_S, "bytes read by group {}"),
    (m::CGROUP_READS_PER_S, "reads of group {}"),
    (m::CGROUP_SYSTEM_CPUS, "CPUs in the kernel, group {}"),
    (m::CGROUP_THROTTLED_CPUS, "CPUs withheld by the quota of group {}"),
    (m::CGROUP_THROTTLED_SHARE, "throttled quota periods of group {}"),
    (m::CGROUP_USER_CPUS, "CPUs in user mode, group {}"),
    (m::CGROUP_WRITE_BYTES_PER_S, "bytes written by group {}"),
    (m::CGROUP_WRITES_PER_S, "writes of group {}"),
    (m::CPU_BLOCKED_THREADS, "threads blocked on I/O"),
    (m::CPU_BUSY_SHARE, "CPU {} busy"),
    (m::CPU_CONTEXT_SWITCHES_PER_S, "context switches"),
    (m::CPU_INTERRUPTS_PER_S, "interrupts"),
    (m::CPU_IOWAIT_SHARE, "CPU {} idle, I/O under way"),
    (m::CPU_IRQ_SHARE, "CPU {} in interrupts"),
    (m::CPU_LOAD_AVERAGE, "load average"),
    (m::CPU_PROCESSES_CREATED_PER_S, "processes created"),
    (m::CPU_RUN_QUEUE_LENGTH, "run queue of CPU {}"),
    (m::CPU_RUNNABLE_THREADS, "runnable threads"),
    (m::CPU_STEAL_SHARE, "CPU {} stolen by the hypervisor"),
    (m::CPU_SYSTEM_SHARE, "CPU {} in the kernel"),
    (m::CPU_USER_SHARE, "CPU {} in user mode"),
    (m::DISK_FLUSH_S, "time per flush of {}"),
    (m::DISK_FLUSHES_PER_S, "flushes of {}"),
    (m::DISK_IN_FLIGHT_OPERATIONS, "requests in flight at {}"),
    (m::DISK_QUEUE_LENGTH, "queue of {}"),
    (m::DISK_READ_BYTES_PER_S, "bytes read from {}"),
    (m::DISK_READ_MERGES_PER_S, "merged reads of {}"),
    (m::DISK_READ_S, "time per read of {}"),
    (m::DISK_READS_PER_S, "reads of {}"),
    (m::DISK_TRANSFER_S, "time per transfer of {}"),
    (m::DISK_TRANSFERS_PER_S, "transfers of {}"),
    (m::DISK_UTILIZATION_SHARE, "utilization of {}"),
    (m::DISK_WRITE_BYTES_PER_S, "bytes written to {}"),
    (m::DISK_WRITE_MERGES_PER_S, "merged writes of {}"),
    (m::DISK_WRITE_S, "time per write of {}"),
    (m::DISK_WRITES_PER_S, "writes of {}"),
    (m::FILESYSTEM_FREE_BYTES, "free space of {}"),
    (m::FILESYSTEM_INODES_USED_SHARE, "inodes used of {}"),
    (m::FILESYSTEM_USED_BYTES, "used space of {}"),
    (m::FILESYSTEM_USED_SHARE, "space used of {}"),
    (m::MEMORY_ALLOCATION_STALLS_PER_S, "direct reclaims"),
    (m::MEMORY_AVAILABLE_BYTES, "memory available"),
    (m::MEMORY_BACKGROUND_SCANS_PER_S, "pages scanned in the background"),
    (m::MEMORY_CACHED_BYTES, "page cache"),
    (m::MEMORY_DIRECT_SCANS_PER_S, "pages scanned by direct reclaim"),
    (m::MEMORY_DIRTY_BYTES, "dirty pages"),
    (m::MEMORY_FREE_BYTES, "memory free"),
    (m::MEMORY_MAJOR_FAULTS_PER_S, "major page faults"),
    (m::MEMORY_OOM_KILLS_PER_S, "out-of-memory kills"),
    (m::MEMORY_PAGED_IN_BYTES_PER_S, "bytes paged in"),
    (m::MEMORY_PAGED_OUT_BYTES_PER_S, "bytes paged out"),
    (m::MEMORY_RECLAIMED_PAGES_PER_S, "pages reclaimed"),
    (m::MEMORY_REFAULTS_PER_S, "refaults"),
    (m::MEMORY_SLAB_BYTES, "memory of kernel objects"),
    (m::MEMORY_SWAP_INS_PER_S, "pages swapped in"),
    (m::MEMORY_SWAP_OUTS_PER_S, "pages swapped out"),
    (m::MEMORY_SWAP_USED_BYTES, "swap used"),
    (m::MEMORY_TOTAL_BYTES, "memory installed"),
    (m::MEMORY_WRITEBACK_BYTES, "pages under writeback"),
    (m::NETWORK_RECEIVE_DROPS_PER_S, "received packets dropped, {}"),
    (m::NETWORK_RECEIVE_ERRORS_PER_S, "receive errors of {}"),
    (m::NETWORK_RECEIVED_BYTES_PER_S, "bytes received on {}"),
    (m::NETWORK_RECEIVED_PACKETS_PER_S, "packets received on {}"),
    (m::NETWORK_SEND_DROPS_PER_S, "sent packets dropped, {}"),
    (m::NETWORK_SEND_ERRORS_PER_S, "send errors of {}"),
    (m::NETWORK_SENT_BYTES_PER_S, "bytes sent on {}"),
    (m::NETWORK_SENT_PACKETS_PER_S, "packets sent on {}"),
    (m::NETWORK_SOFTNET_DROPS_PER_S, "packets dropped by CPU queues"),
    (m::NETWORK_SOFTNET_SQUEEZES_PER_S, "network interrupts cut short"),
    (m::NETWORK_TCP_ACTIVE_OPENS_PER_S, "TCP connections opened"),
    (m::NETWORK_TCP_BUFFER_BYTES, "TCP buffers"),
    (m::NETWORK_TCP_ESTABLISHED_CONNECTIONS, "TCP connections established"),
    (m::NETWORK_TCP_FAILED_OPENS_PER_S, "TCP connections failed"),
    (m::NETWORK_TCP_LISTEN_DROPS_PER_S, "TCP connections dropped at accept queues"),
    (m::NETWORK_TCP_LISTEN_OVERFLOWS_PER_S, "accept queue overflows"),
    (m::NETWORK_TCP_ORPHANED_CONNECTIONS, "TCP connections without a process"),
    (m::NETWORK_TCP_PASSIVE_OPENS_PER_S, "TCP connections accepted"),
    (m::NETWORK_TCP_RECEIVED_SEGMENTS_PER_S, "TCP segments received"),
    (m::NETWORK_TCP_RESETS_PER_S, "TCP connections reset"),
    (m::NETWORK_TCP_RETRANSMITTED_SEGMENTS_PER_S, "TCP segments retransmitted"),
    (m::NETWORK_TCP_SENT_RESETS_PER_S, "TCP resets sent"),
    (m::NETWORK_TCP_SENT_SEGMENTS_PER_S, "TCP segments sent"),
    (m::OPERATION_IO_DEVICE_FLUSHES_PER_S, "flushes of the disk by {}"),
    (m::OPERATION_IO_DEVICE_READ_BYTES_PER_S, "bytes read from the disk by {}"),
    (m::OPERATION_IO_DEVICE_READS_PER_S, "reads of the disk by {}"),
    (m::OPERATION_IO_DEVICE_WRITE_BYTES_PER_S, "bytes written to the disk by {}"),
    (m::OPERATION_IO_DEVICE_WRITES_PER_S, "writes of the disk by {}"),
    (m::OPERATION_IO_OPERATIONS_PER_S, "operations {}"),
    (m::OPERATION_IO_READ_CALL_BYTES_PER_S, "bytes read by calls of {}"),
    (m::OPERATION_IO_READ_CALLS_PER_S, "read calls of {}"),
    (m::OPERATION_IO_SYNCS_PER_S, "syncs of {}"),
    (m::OPERATION_IO_WRITE_CALL_BYTES_PER_S, "bytes written by calls of {}"),
    (m::OPERATION_IO_WRITE_CALLS_PER_S, "write calls of {}"),
    (m::PRESSURE_CPU_FULL_SHARE, "time all tasks waited for a CPU"),
    (m::PRESSURE_CPU_SOME_SHARE, "time some task waited for a CPU"),
    (m::PRESSURE_IO_FULL_SHARE, "time all tasks waited for I/O"),
    (m::PRESSURE_IO_SOME_SHARE, "time some task waited for I/O"),
    (m::PRESSURE_MEMORY_FULL_SHARE, "time all tasks stalled for memory"),
    (m::PRESSURE_MEMORY_SOME_SHARE, "time some task stalled for memory"),
    (m::PROCESS_ACCEPT_QUEUE_CONNECTIONS, "accept queue of {}"),
    (m::PROCESS_ACCEPT_QUEUE_LIMIT, "accept queue limit of {}"),
    (m::PROCESS_ACCEPT_WAIT_THREADS, "threads of {} waiting for connections"),
    (m::PROCESS_BUSIEST_THREAD_CPUS, "CPU of the busiest thread of {}"),
    (m::PROCESS_BUSY_CPUS, "CPUs used by {}"),
    (m::PROCESS_CLIENT_WAIT_THREADS, "threads of {} waiting for clients"),
    (m::PROCESS_DISK_READS_PER_S, "disk reads of {}"),
    (m::PROCESS_DISK_WAIT_THREADS, "threads of {} waiting for files"),
    (m::PROCESS_DISK_WRITES_PER_S, "disk writes of {}"),
    (m::PROCESS_EVENT_WAIT_THREADS, "threads of {} waiting for events"),
    (m::PROCESS_FLUSH_WAIT_THREADS, "threads of {} waiting for flushes"),
    (m::PROCESS_INVOLUNTARY_SWITCHES_PER_S, "involuntary context switches of {}"),
    (m::PROCESS_LOCK_WAIT_THREADS, "threads of {} waiting for locks"),
    (m::PROCESS_MAJOR_FAULTS_PER_S, "major page faults of {}"),
    (m::PROCESS_MEMORY_CHARGED_BYTES, "memory charged to {}"),
    (m::PROCESS_MEMORY_LIMIT_BYTES, "memory limit of {}"),
    (m::PROCESS_MINOR_FAULTS_PER_S, "minor page faults of {}"),
    (m::PROCESS_OPEN_DESCRIPTORS, "open descriptors of {}"),
    (m::PROCESS_OTHER_THREADS, "other threads of {}"),
    (m::PROCESS_OTHER_WAIT_THREADS, "threads of {} waiting for something else"),
    (m::PROCESS_PEER_WAIT_THREADS, "threads of {} waiting for other services"),
    (m::PROCESS_PROCESSES, "processes of {}"),
    (m::PROCESS_QUOTA_CPUS, "CPU quota of {}"),
    (m::PROCESS_READ_BYTES_PER_S, "bytes read from disk by {}"),
    (m::PROCESS_READ_CALL_BYTES_PER_S, "bytes of read calls of {}"),
    (m::PROCESS_READ_CALLS_PER_S, "read calls of {}"),
    (m::PROCESS_READ_LIMIT_BYTES_PER_S, "limit on bytes read by {}"),
    (m::PROCESS_READ_LIMIT_PER_S, "limit on reads of {}"),
    (m::PROCESS_RESIDENT_BYTES, "resident memory of {}"),
    (m::PROCESS_RUN_QUEUE_LENGTH, "threads of {} ready to run"),
    (m::PROCESS_RUNNING_THREADS, "running threads of {}"),
    (m::PROCESS_SAME_LOCK_WAIT_THREADS, "threads of {} waiting for one lock"),
    (m::PROCESS_SLEEPING_THREADS, "sleeping threads of {}"),
    (m::PROCESS_SYSTEM_CPUS, "CPUs in the kernel, {}"),
    (m::PROCESS_THREAD_CPUS, "CPU of thread {}"),
    (m::PROCESS_THREAD_FLUSH_WAIT_SHARE, "time thread {} waited for flushes"),
    (m::PROCESS_THREAD_IDLE_SHARE, "time thread {} was idle"),
    (m::PROCESS_THREAD_LOCK_WAIT_SHARE, "time thread {} waited for a lock"),
    (m::PROCESS_THREAD_PEER_WAIT_SHARE, "time thread {} waited for another service"),
    (m::PROCESS_THREAD_READY_SHARE, "time thread {} was ready to run"),
    (m::PROCESS_THREAD_TIMER_WAIT_SHARE, "time thread {} slept"),
    (m::PROCESS_THREAD_TRANSFER_WAIT_SHARE, "time thread {} waited for files"),
    (m::PROCESS_THREADS, "threads of {}"),
    (m::PROCESS_THROTTLED_SHARE, "throttled quota periods of {}"),
    (m::PROCESS_TIMER_WAIT_THREADS, "threads of {} that slept"),
    (m::PROCESS_TRANSFER_WAIT_THREADS, "threads of {} waiting for transfers"),
    (m::PROCESS_USER_CPUS, "CPUs in user mode, {}"),
    (m::PROCESS_VOLUNTARY_SWITCHES_PER_S, "voluntary context switches of {}"),
    (m::PROCESS_WRITE_BYTES_PER_S, "bytes written to disk by {}"),
    (m::PROCESS_WRITE_CALL_BYTES_PER_S, "bytes of write calls of {}"),
    (m::PROCESS_WRITE_CALLS_PER_S, "write calls of {}"),
    (m::PROCESS_WRITE_LIMIT_BYTES_PER_S, "limit on bytes written by {}"),
    (m::PROCESS_WRITE_LIMIT_PER_S, "limit on writes of {}"),
    (m::SCRAPE_AGE_S, "age of the exporter's counters"),
    (m::SCRAPE_BODY_BYTES, "bytes per scrape"),
    (m::SCRAPE_BUSY_CPUS, "CPU of the scraping thread"),
    (m::SCRAPE_DURATION_S, "time of a scrape"),
    (m::SCRAPE_SERIES, "series per scrape"),
    (m::VOLUME_IN_FLIGHT_OPERATIONS, "requests in flight at volume {}"),
    (m::VOLUME_QUEUE_LENGTH, "queue of volume {}"),
    (m::VOLUME_READ_BYTES_PER_S, "bytes read from volume {}"),
    (m::VOLUME_READ_S, "time per read of volume {}"),
    (m::VOLUME_READS_PER_S, "reads of volume {}"),
    (m::VOLUME_TRANSFER_S, "time per transfer of volume {}"),
    (m::VOLUME_TRANSFERS_PER_S, "transfers of volume {}"),
    (m::VOLUME_UTILIZATION_SHARE, "utilization of volume {}"),
    (m::VOLUME_WRITE_BYTES_PER_S, "bytes written to volume {}"),
    (m::VOLUME_WRITE_S, "time per write of volume {}"),
    (m::VOLUME_WRITES_PER_S, "writes of volume {}"),
];

/// An instance in words: `vda`, or `vda of db1` on another host.
pub(crate) fn instance(instance: &str) -> String {
    let (host, own) = split_instance(instance);
    let parts: Vec<&str> = [own, host].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" of ")
}

/// The label of a counter: `CPU 0 busy`, `queue of vda`, `time some task waited for I/O`. An unknown counter
/// keeps its own name, without the unit.
pub(crate) fn counter(metric: &str, instance: &str) -> String {
    match split_instance(instance) {
        ("", own) => own_counter(metric, own),
        (host, own) => format!("{host}: {}", own_counter(metric, own)),
    }
}

fn own_counter(metric: &str, instance: &str) -> String {
    let Some((_, label)) = COUNTERS.iter().find(|(name, _)| *name == metric) else {
        return unknown(metric, instance);
    };
    if !instance.is_empty() {
        return match label.contains("{}") {
            true => label.replace("{}", instance),
            false => format!("{label}, {instance}"),
        };
    }
    // A counter of the whole host has no instance.
    let without = label.replace(", {}", "").replace(" of {}", "").replace(" by {}", "").replace(" {}", "");
    without.replace("{} ", "")
}

/// `openmetrics.http_requests_per_s` as `openmetrics http requests`.
fn unknown(metric: &str, instance: &str) -> String {
    let units = ["_bytes_per_s", "_per_s", "_share", "_bytes", "_cpus", "_s"];
    let name = units.iter().find_map(|unit| metric.strip_suffix(unit)).unwrap_or(metric);
    let name = name.replace(['.', '_'], " ");
    if instance.is_empty() { name } else { format!("{name} of {instance}") }
}

/// The name of a counter in the record: `disk.queue_length{vda}`.
pub(crate) fn counter_name(metric: &str, instance: &str) -> String {
    if instance.is_empty() { metric.to_string() } else { format!("{metric}{{{instance}}}") }
}

/// The short name of a varied setting: `workload.block_size` is `block_size`, `workload.outstanding` is `queue depth`, `load.closed` is `concurrency`.
pub(crate) fn setting(path: &str) -> &str {
    match path {
        "workload.outstanding" => "queue depth",
        "workload.block_size" => "block size",
        "load.closed" => "concurrency",
        "load.open" => "rate",
        path => path.strip_prefix("workload.").unwrap_or(path),
    }
}

/// A level for display, with large counts in groups of three digits.
pub(crate) fn level(level: &Level) -> String {
    match level {
        Level::Count(count) => quantity::thousands(*count as f64),
        other => other.to_string(),
    }
}

/// The same for a level given as text: `10000` is `10,000`.
pub(crate) fn level_text(text: &str) -> String {
    match text.parse::<u64>() {
        Ok(count) => quantity::thousands(count as f64),
        Err(_) => text.to_string(),
    }
}

/// The other settings of a curve; empty if there is only one curve.
pub(crate) fn series(curve: &Curve) -> String {
    series_text(&curve.series)
}

/// The same for settings given as text: `outstanding=8` is `queue depth 8`.
pub(crate) fn series_text(series: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in series.split(' ').filter(|word| !word.is_empty()) {
        let word = word.trim_end_matches(',');
        match (word.split_once('='), parts.last_mut()) {
            (Some((name, level)), _) => {
                // The name of a series omits `workload.`.
                let path = if name.contains('.') { name.to_string() } else { format!("workload.{name}") };
                parts.push(format!("{} {}", setting(&path), level_text(level)));
            }
            // A level of more than one word.
            (None, Some(last)) => last.push_str(&format!(" {word}")),
            (None, None) => parts.push(word.to_string()),
        }
    }
    parts.join(", ")
}

/// `commit_objects 10,000`; a pattern of a load is its own name.
fn change(change: &Change) -> String {
    if change.factor.0 == "workload.pattern" {
        return level(&change.level);
    }
    format!("{} {}", setting(&change.factor.0), shortened(&level(&change.level), 32))
}

/// The name of a version that a gate compares: two builds differ in nothing but their directory.
fn version(document: &ResultDocument, at: usize) -> Option<&'static str> {
    let is_version = |each: &Configuration| matches!(each.treatment.levels.as_slice(), [only] if only.factor.name() == "directory");
    let are_versions = document.gate.is_some() && document.configurations.iter().all(is_version);
    ["base", "head"].get(at).copied().filter(|_| are_versions)
}

/// A configuration by its varied settings and their levels: `block_size 64KiB`, `users 10,000, commit_objects 10`. Other
/// configurations have the name of their run, or are the baseline.
pub(crate) fn configuration(document: &ResultDocument, at: usize) -> String {
    let Some(configuration) = document.configurations.get(at) else { return letter(at) };
    if let Some(name) = version(document, at) {
        return name.into();
    }
    let treatment = &configuration.treatment;
    let is_named = treatment.is_side || treatment.label.starts_with("confirmation");
    // If one of several settings changes at a time, the others have their baseline level.
    let alone = |each: &Configuration| each.treatment.changes.len() <= 1 && each.treatment.levels.len() != 1;
    let changes = match document.configurations.iter().all(alone) {
        true => &treatment.changes,
        false => &treatment.levels,
    };
    let changes = if changes.is_empty() { &treatment.changes } else { changes };
    match changes.as_slice() {
        [] => treatment.label.clone(),
        _ if is_named => treatment.label.clone(),
        changes => changes.iter().map(change).collect::<Vec<_>>().join(", "),
    }
}

/// The same for the label of a comparison row.
pub(crate) fn labelled(document: &ResultDocument, label: &str) -> String {
    match document.configurations.iter().position(|each| each.treatment.label == label) {
        Some(at) => configuration(document, at),
        None => label.to_string(),
    }
}

/// Maximum length of a configuration's name in a column heading.
const HEAD_MAX: usize = 24;

/// The only varied setting; none if there are several, or if separate runs are compared.
fn only_setting(document: &ResultDocument) -> Option<&str> {
    if version(document, 0).is_some() {
        return None;
    }
    let mut paths = document.configurations.iter().map(|each| match each.treatment.levels.as_slice() {
        [only] if !each.treatment.is_side => Some(only.factor.0.as_str()),
        _ => None,
    });
    let first = paths.next()??;
    paths.all(|path| path == Some(first)).then_some(first)
}

/// The top left cell of a table whose columns are configurations: the setting of the column headings; empty if the headings are
/// names.
pub(crate) fn corner(document: &ResultDocument) -> &str {
    only_setting(document).map_or("", setting)
}

/// Whether column headings are letters because the names are too long.
pub(crate) fn by_letter(document: &ResultDocument) -> bool {
    let is_long = |at| configuration(document, at).chars().count() > HEAD_MAX;
    only_setting(document).is_none() && (0..document.configurations.len()).any(is_long)
}

/// The column heading of a configuration: the level of the only varied setting, its name, or its letter if names
/// are too long.
pub(crate) fn head(document: &ResultDocument, at: usize) -> String {
    if by_letter(document) {
        return letter(at);
    }
    let levels = document.configurations.get(at).map(|each| each.treatment.levels.as_slice());
    match (only_setting(document), levels) {
        (Some(_), Some([only])) => shortened(&level(&only.level), HEAD_MAX),
        _ => configuration(document, at),
    }
}

/// The row heading of a configuration: the same as its column heading if letters are explained, otherwise its name.
pub(crate) fn row(document: &ResultDocument, label: &str) -> String {
    let at = document.configurations.iter().position(|each| each.treatment.label == label);
    match at {
        Some(at) if by_letter(document) && document.configurations.len() <= SIDE_BY_SIDE => letter(at),
        Some(at) => configuration(document, at),
        None => label.to_string(),
    }
}

/// The meaning of the letters; empty if column headings are names.
pub(crate) fn letters(document: &ResultDocument) -> Vec<String> {
    if !by_letter(document) {
        return Vec::new();
    }
    let each = document.configurations.iter().enumerate();
    each.map(|(at, configuration)| {
        let treatment = &configuration.treatment;
        let differs: Vec<String> =
            treatment.changes.iter().filter(|_| treatment.is_side).map(change).collect();
        let differs =
            if differs.is_empty() { String::new() } else { format!("  with {}", differs.join(", ")) };
        let is_baseline = at == 0 && !treatment.is_side && !treatment.levels.is_empty();
        let baseline = if is_baseline { " (baseline)" } else { "" };
        format!("{}  {}{baseline}{differs}", letter(at), self::configuration(document, at))
    })
    .collect()
}

/// Whether a factor is the load: its curve shows response time against throughput.
pub(crate) fn is_load(factor: &str, traits: &WorkloadTraits) -> bool {
    let setting = factor.strip_prefix("workload.").unwrap_or(factor);
    factor.starts_with("load") || traits.load_settings.iter().any(|load| load == setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn every_counter_has_a_plain_label() {
        for metric in m::ALL {
            assert!(COUNTERS.iter().any(|(name, _)| name == metric), "{metric} has no label");
            for label in [counter(metric, ""), counter(metric, "vda")] {
                assert!(
                    !label.contains(['_', '.', '{', '}']) && !label.ends_with(' '),
                    "{metric}: `{label}`"
                );
            }
        }
        for (metric, instance, expected) in [
            (m::CPU_BUSY_SHARE, "", "CPU busy"),
            (m::CPU_BUSY_SHARE, "0", "CPU 0 busy"),
            (m::DISK_QUEUE_LENGTH, "vda", "queue of vda"),
            (m::CPU_RUNNABLE_THREADS, "x", "runnable threads, x"),
            (m::PROCESS_USER_CPUS, "slapd", "CPUs in user mode, slapd"),
            ("openmetrics.requests_per_s", "", "openmetrics requests"),
            ("openmetrics.queue", "db", "openmetrics queue of db"),
        ] {
            assert_eq!(counter(metric, instance), expected);
        }
    }

    #[test]
    fn configurations_go_by_what_was_varied() {
        for (run, expected) in [
            ("block-size", vec!["block size 4KiB", "block size 16KiB"]),
            ("users", vec!["concurrency 1", "concurrency 2"]),
            ("sync", vec!["commit_objects 10, users 10,000", "commit_objects 10,000, users 10,000"]),
            ("distributions", vec!["baseline", "distribution zipf 1.2"]),
            ("disk", vec!["baseline"]),
        ] {
            let document = recorded::run(run).document;
            let names: Vec<String> = (0..expected.len()).map(|at| configuration(&document, at)).collect();
            assert_eq!(names, expected, "{run}");
            assert_eq!(by_letter(&document), ["sync", "distributions"].contains(&run), "{run}");
        }
    }
}
