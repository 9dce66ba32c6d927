//! From facts to lines: what is correct, what weakens a measurement, what is not possible. Pure.

use model::SourceState;
use report::text::{Quantity, plural};

use super::facts::{Facts, Noise, Place};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// As it should be.
    Good,
    /// Good to know; nothing to do.
    Note,
    /// Measuring works, but the numbers are less reliable.
    Warning,
    /// A function of Plimsoll is not available on this host.
    Block,
    /// The data of a store is at risk.
    Fault,
}

impl Mark {
    /// Its word on screen and in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mark::Good => "ok",
            Mark::Note => "info",
            Mark::Warning => "warn",
            Mark::Block => "BLOCK",
            Mark::Fault => "FAULT",
        }
    }
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Its result.
    pub(crate) mark: Mark,
    /// The checked property.
    pub(crate) name: String,
    /// What was found.
    pub(crate) text: String,
    /// What to do; empty when nothing can be advised.
    pub(crate) fix: String,
    /// The consequence; may be empty.
    pub(crate) without: String,
}

/// A line without a problem.
pub(crate) fn good(name: &str, text: impl Into<String>) -> Check {
    Check {
        mark: Mark::Good,
        name: name.into(),
        text: text.into(),
        fix: String::new(),
        without: String::new(),
    }
}

impl Check {
    /// The line with a problem: what to do, and the consequence.
    pub(crate) fn but(mut self, mark: Mark, fix: impl Into<String>, without: impl Into<String>) -> Check {
        (self.mark, self.fix, self.without) = (mark, fix.into(), without.into());
        self
    }
}

/// Maximum overhead of the measuring loop per operation.
pub(crate) const LOOP_NS_MAX: f64 = 150.0;

/// A clock reading that costs more than this affects the times of fast operations.
const CLOCK_NS_MAX: f64 = 100.0;

/// A share in percent with two figures, without a space so that no line breaks inside: `37%`, `3.1%`, `0.07%`.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if !percent.is_finite() => "-".into(),
        0.0 => "0%".into(),
        percent if percent >= 9.95 => format!("{percent:.0}%"),
        percent if percent >= 0.995 => format!("{percent:.1}%"),
        percent if percent >= 0.005 => format!("{percent:.2}%"),
        _ => "under 0.01%".into(),
    }
}

/// All lines: CPUs, disk, factors, counters.
pub(crate) fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![frequency(facts), clock(facts)];
    checks.extend(facts.noise.as_ref().and_then(steal));
    checks.extend(facts.noise.as_ref().and_then(other_load));
    checks.extend(facts.noise.as_ref().map(|noise| own_cost(noise, facts.debug_build)));
    checks.extend([io_uring(facts), locked_memory(facts), open_files(facts)]);
    checks.extend(disk(facts));
    checks.push(record_space(facts));
    checks.extend(facts.factors.iter().map(|(path, answer)| factor(facts, path, answer)));
    checks.extend([cold_start(facts), pressure(facts), run_queue(facts)]);
    checks.extend(sources(facts));
    checks.extend([trace_events(facts), perf_events(facts)]);
    checks
}

fn frequency(facts: &Facts) -> Check {
    let name = "CPU frequency";
    let governors = facts.governors.join(", ");
    match facts.governors.iter().all(|governor| governor == "performance") {
        true if facts.governors.is_empty() && facts.host.hypervisor.is_empty() => good(
            name,
            "not controlled by this kernel",
        )
        .but(Mark::Note, "", "check the power-saving settings of the firmware"),
        true if facts.governors.is_empty() => good(name, "not visible inside a virtual machine").but(
            Mark::Warning,
            "",
            "it may change between two runs without a trace: interleave the configurations that you compare",
        ),
        true => good(name, format!("governor {governors}")),
        false => good(name, format!("governor {governors}: idle CPUs run at a lower frequency")).but(
            Mark::Warning,
            "sudo cpupower frequency-set --governor performance   (until reboot)",
            "a light load looks slower than it is",
        ),
    }
}

fn clock(facts: &Facts) -> Check {
    let clock = &facts.clock;
    let source = match clock.source.as_str() {
        "tsc" => "the CPU's own counter (tsc)".to_string(),
        _ => format!("the kernel's ({})", facts.kernel_clock),
    };
    let text = format!("{source}, {} a reading", Quantity::Seconds.show(clock.read_ns / 1e9));
    match clock.read_ns > CLOCK_NS_MAX {
        false => good("clock", text),
        true => good("clock", text).but(
            Mark::Warning,
            "boot with clocksource=tsc if the TSC is stable on this machine",
            "operations of a few microseconds appear longer than they are",
        ),
    }
}

fn steal(noise: &Noise) -> Option<Check> {
    let share = noise.steal_share?;
    let text = format!("{} over {:.0} s", percent(share), noise.seconds);
    Some(match share < 0.01 {
        true => good("stolen CPU", text),
        false => good("stolen CPU", format!("{text}: other virtual machines use the CPUs of this one")).but(
            Mark::Warning,
            "use dedicated CPUs, or measure when the other virtual machines are idle",
            "results of the same load vary by about as much between runs",
        ),
    })
}

fn other_load(noise: &Noise) -> Option<Check> {
    let name = "other load";
    let waited = noise.run_wait_share?;
    Some(match waited < 0.02 {
        true => good(name, "the measuring thread never waited for a CPU"),
        false => good(name, format!("the measuring thread waited for a CPU {} of the time", percent(waited)))
            .but(
                Mark::Warning,
                "stop other programs; `plimsoll watch` shows the busiest resources",
                "results include the effect of the other programs",
            ),
    })
}

fn own_cost(noise: &Noise, debug_build: bool) -> Check {
    let sampler = noise.sampler_share.map_or(String::new(), |share| {
        format!("; reading every counter once a second takes {} of one CPU", percent(share))
    });
    let loop_time = Quantity::Seconds.show(noise.loop_ns / 1e9);
    let text = format!("the measuring loop takes {loop_time} for each operation{sampler}");
    let check = good("own cost", text);
    match noise.loop_ns > LOOP_NS_MAX {
        false => check,
        true if debug_build => check.but(
            Mark::Warning,
            "cargo build --release",
            "this is a debug build: it is slower than a release build",
        ),
        true => check.but(
            Mark::Warning,
            "",
            format!("usual is at most {LOOP_NS_MAX:.0} ns: the load generator reaches its limit earlier on this machine"),
        ),
    }
}

fn io_uring(facts: &Facts) -> Check {
    let name = "io_uring";
    match &facts.io_uring {
        Ok(flags) if flags.is_empty() => good(name, "allowed, with the features of Linux 5.11"),
        Ok(flags) => good(name, format!("allowed ({})", flags.join(", "))),
        Err(why) => {
            let fix = match facts.io_uring_disabled {
                Some(0) | None => "permit io_uring_setup in the container's seccomp profile".to_string(),
                Some(_) => "sudo sysctl kernel.io_uring_disabled=0   (until reboot)".to_string(),
            };
            good(name, format!("refused by the kernel: {}", plain(why))).but(
                Mark::Block,
                fix,
                "each outstanding disk operation needs its own thread, which costs more CPU time",
            )
        }
    }
}

fn locked_memory(facts: &Facts) -> Check {
    let name = "locked memory";
    match facts.locked_bytes_max {
        None => good(name, "no limit"),
        Some(bytes) => {
            let text = format!("{} (ulimit -l)", Quantity::Bytes.show(bytes as f64));
            match bytes >= 8 << 20 {
                true => good(name, text),
                false => good(name, text).but(
                    Mark::Warning,
                    "ulimit -l 65536, or LimitMEMLOCK=64M in the service",
                    "large disk buffers cannot be registered with the kernel: each operation costs slightly more CPU time",
                ),
            }
        }
    }
}

fn open_files(facts: &Facts) -> Check {
    let name = "open files";
    match facts.files_max {
        None => good(name, "no limit"),
        Some(count) if count >= 4096 => good(name, format!("{count} (ulimit -n)")),
        Some(count) => good(name, format!("{count} (ulimit -n)")).but(
            Mark::Warning,
            "ulimit -n 65536",
            format!("a load can have at most about {} connections", count.saturating_sub(64)),
        ),
    }
}

fn disk(facts: &Facts) -> Vec<Check> {
    let place = &facts.place;
    let at = place.path.display();
    if let Some(why) = &place.unreadable {
        return vec![good("disk", format!("{at} cannot be checked: {why}")).but(
            Mark::Block,
            "name an existing folder with --on",
            "the disk was not checked",
        )];
    }
    let not_yet = if place.exists { "" } else { ", which does not exist yet," };
    let disks = place.disks.join(" and ");
    let roomy = place.free_bytes.is_none_or(|bytes| bytes >= 2 << 30);
    let mut checks = vec![match (&place.file_system, place.disks.is_empty()) {
        (kind, true) => {
            let kind = kind.as_deref().unwrap_or("something");
            let text = format!("{at}{not_yet} is on {kind}, which is not on a disk of this machine");
            good("disk", text).but(
                Mark::Warning,
                "name a folder on a disk with --on",
                "a load there measures memory or a network, not a disk",
            )
        }
        (None, false) => good("disk", format!("{at} is a block device of {disks}")),
        (Some(kind), false) => {
            let check = good("disk", format!("{at}{not_yet} is on {kind} on {disks}{}", free(place)));
            match roomy {
                true => check,
                false => check.but(
                    Mark::Warning,
                    "name a folder with more space with --on",
                    "a small test file fits into caches, so a load would measure the caches",
                ),
            }
        }
    }];
    checks.push(match (&place.direct, place.direct_alignment) {
        (Ok(()), Some(bytes)) => good("direct I/O", format!("works, in multiples of {bytes} bytes")),
        (Ok(()), None) => good("direct I/O", "works; the kernel does not report the required alignment"),
        (Err(why), _) => good("direct I/O", format!("refused: {}", plain(why))).but(
            Mark::Block,
            match why.to_lowercase().contains("permi") {
                true => "run Plimsoll as root, or name a folder of your own with --on",
                false => "name a folder on ext4, xfs or another file system that supports it with --on",
            },
            "reads are served from memory: use --page-cache; the result is not the speed of the disk",
        ),
    });
    checks.extend(place.disks.iter().filter_map(|disk| device(facts, disk)));
    if !facts.host.hypervisor.is_empty() && !place.disks.is_empty() {
        checks.push(
            good(
                "cache below",
                format!("{}: the host may cache this disk in its memory", facts.host.hypervisor),
            )
            .but(
                Mark::Warning,
                "use a test file larger than the host's memory, or compare several runs",
                "a second run over the same file may be several times as fast as the first",
            ),
        );
    }
    checks
}

fn free(place: &Place) -> String {
    place.free_bytes.map_or(String::new(), |bytes| format!(", {} free", Quantity::Bytes.show(bytes as f64)))
}

fn device(facts: &Facts, disk: &str) -> Option<Check> {
    let settings = facts.host.disks.get(disk)?;
    let setting = |name: &str| settings.get(name).map(String::as_str).unwrap_or("");
    // `[none] mq-deadline`: the one in brackets is in force.
    let scheduler = setting("scheduler");
    let scheduler = scheduler
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(scheduler, |(name, _)| name);
    let mut words = Vec::new();
    if let Ok(bytes) = setting("size_bytes").parse::<f64>() {
        words.push(Quantity::Bytes.show(bytes));
    }
    match (setting("rotational"), facts.host.hypervisor.is_empty()) {
        ("0", _) => words.push("solid state".into()),
        ("1", true) => words.push("rotating".into()),
        ("1", false) => words.push("reported as rotating, like many virtual disks".into()),
        _ => {}
    }
    if !scheduler.is_empty() {
        words.push(format!("scheduler {scheduler}"));
    }
    let cache = setting("write_cache");
    if !cache.is_empty() {
        words.push(format!("write cache: {cache}"));
    }
    let check = good(disk, words.join(", "));
    Some(match cache {
        "write back" => check.but(
            Mark::Note,
            "",
            "a write completes in the device's cache; set fsync_every to measure writes that survive a power failure",
        ),
        _ => check,
    })
}

fn record_space(facts: &Facts) -> Check {
    let name = "record";
    match &facts.record_free_bytes {
        Err(why) => good(name, format!("runs cannot be written here: {}", plain(why))).but(
            Mark::Block,
            "change to a writable folder, or name one with --run-dir",
            "nothing can be measured: every run is recorded",
        ),
        Ok(bytes) => {
            let text = format!("{} free in the folder of runs", Quantity::Bytes.show(*bytes as f64));
            match *bytes >= 256 << 20 {
                true => good(name, text),
                false => good(name, text).but(
                    Mark::Warning,
                    "name another folder with --run-dir",
                    "the disk may fill up in a long run with many counters",
                ),
            }
        }
    }
}

fn factor(facts: &Facts, path: &str, answer: &Result<(), String>) -> Check {
    match answer {
        Ok(()) => {
            let how = match path {
                "host.cpu_quota" | "host.memory" | "host.disk.io_limit" if !facts.cgroups.is_empty() => {
                    format!(" ({})", facts.cgroups)
                }
                _ => String::new(),
            };
            good(path, format!("can be varied{how}"))
        }
        Err(why) => good(path, format!("cannot be varied: {why}")).but(
            Mark::Block,
            if why.to_lowercase().contains("permi") { "run Plimsoll as root" } else { "" },
            "experiments that vary it are rejected, and a bottleneck of this resource cannot be proved",
        ),
    }
}

fn cold_start(facts: &Facts) -> Check {
    let name = "cold start";
    match &facts.drop_caches {
        Ok(()) => good(name, "the page cache can be dropped, so cold launches can be measured"),
        Err(why) => good(name, format!("the page cache cannot be dropped: {}", plain(why))).but(
            Mark::Warning,
            "run Plimsoll as root",
            "`plimsoll exec --cold` cannot measure cold launches",
        ),
    }
}

/// What the system said, without its number.
fn plain(why: &str) -> String {
    why.split(" (os error").next().unwrap_or(why).to_lowercase()
}

fn pressure(facts: &Facts) -> Check {
    match facts.pressure {
        true => good("pressure", "the kernel reports pressure stall information (PSI)"),
        false => good("pressure", "the kernel does not report pressure stall information (PSI)").but(
            Mark::Block,
            "boot with psi=1",
            "saturation of memory and I/O is judged only from queues and times",
        ),
    }
}

fn run_queue(facts: &Facts) -> Check {
    let name = "run queue";
    match (facts.schedstat, facts.host_schedstat) {
        (true, true) => good(name, "the kernel reports how long threads wait for a CPU"),
        (true, false) => {
            good(name, "the kernel reports how long each thread waits, but not the sum of the host").but(
                Mark::Note,
                "",
                "cpu.run_queue_length is absent (`-`); use pressure.cpu_some_share instead",
            )
        }
        (false, _) => good(name, "the kernel does not report how long threads wait for a CPU").but(
            Mark::Block,
            "use a kernel built with CONFIG_SCHED_INFO, as most distributions have",
            "a load generator that waits for a CPU may not be detected",
        ),
    }
}

fn sources(facts: &Facts) -> Vec<Check> {
    let active = facts.sources.iter().filter(|status| status.state == SourceState::Active);
    let names: Vec<&str> = active.map(|status| status.source.as_str()).collect();
    let mut checks = Vec::new();
    if !names.is_empty() {
        checks
            .push(good("counters", format!("{} read: {}", plural(names.len(), "source"), names.join(", "))));
    }
    for status in &facts.sources {
        let why = match &status.state {
            SourceState::Active => continue,
            SourceState::Unavailable(why) | SourceState::Failing { why, .. } => why,
        };
        checks.push(good("counters", format!("{} cannot be read: {why}", status.source)).but(
            Mark::Warning,
            "",
            "its counters are absent, and verdicts report the missing evidence",
        ));
    }
    checks.extend(
        facts.source_limits.iter().map(|limit| good("counters", limit.clone()).but(Mark::Note, "", "")),
    );
    checks
}

fn trace_events(facts: &Facts) -> Check {
    let name = "kernel tracing";
    let tracing = &facts.tracing;
    let mut missing = Vec::new();
    if let Err(why) = &tracing.tracefs {
        missing.push(plain(why));
    }
    if !tracing.btf {
        missing.push("the kernel does not describe its types (BTF)".into());
    }
    if !tracing.privileged {
        missing.push("this user may not load programs into the kernel".into());
    }
    match missing.is_empty() {
        true => good(name, "allowed: trace events, the kernel's types, programs in the kernel"),
        false => good(name, format!("not allowed: {}", missing.join("; "))).but(
            Mark::Note,
            match (tracing.privileged, missing.iter().any(|what| what.contains("not mounted"))) {
                (false, _) => "",
                (true, true) => "sudo mount -t tracefs tracefs /sys/kernel/tracing   (until reboot)",
                (true, false) => "",
            },
            "this version does not use tracing",
        ),
    }
}

fn perf_events(facts: &Facts) -> Check {
    let name = "perf counters";
    match facts.tracing.perf_event_paranoid {
        None => good(name, "not in this kernel").but(
            Mark::Note,
            "",
            "Plimsoll can show that a core is saturated, but not by which code",
        ),
        Some(level) if level <= 1 || facts.tracing.privileged => {
            good(name, format!("allowed (perf_event_paranoid = {level})"))
        }
        Some(level) => good(name, format!("not for this user (perf_event_paranoid = {level})")).but(
            Mark::Note,
            "sudo sysctl kernel.perf_event_paranoid=1   (until reboot)",
            "Plimsoll can show that a core is saturated, but not by which code",
        ),
    }
}
