//! From facts to lines: what is well, what weakens a measurement, what cannot be done. Pure.

use model::SourceState;
use report::text::{Quantity, plural};

use super::facts::{Facts, Noise, Place};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// As it should be.
    Good,
    /// Good to know; nothing to do.
    Note,
    /// Measuring works, and the numbers deserve less trust.
    Warning,
    /// Something Plimsoll does cannot be done here.
    Block,
}

impl Mark {
    /// Its word on screen and in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mark::Good => "ok",
            Mark::Note => "info",
            Mark::Warning => "warn",
            Mark::Block => "BLOCK",
        }
    }
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// How it came out.
    pub(crate) mark: Mark,
    /// What was looked at.
    pub(crate) name: String,
    /// What was found.
    pub(crate) text: String,
    /// What to do; empty when nothing can be advised.
    pub(crate) fix: String,
    /// What is lost as it is; empty when nothing is.
    pub(crate) without: String,
}

fn good(name: &str, text: impl Into<String>) -> Check {
    Check {
        mark: Mark::Good,
        name: name.into(),
        text: text.into(),
        fix: String::new(),
        without: String::new(),
    }
}

impl Check {
    fn but(mut self, mark: Mark, fix: impl Into<String>, without: impl Into<String>) -> Check {
        (self.mark, self.fix, self.without) = (mark, fix.into(), without.into());
        self
    }
}

/// Most that the measuring loop may cost for each operation.
pub(crate) const LOOP_NS_MAX: f64 = 150.0;

/// A reading of the clock that costs more than this shows in the times of fast operations.
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

/// Every line, in the order of the questions people have: processors, disk, what can be turned, what can be seen.
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
        .but(Mark::Note, "", "look in the firmware's settings whether it saves power"),
        true if facts.governors.is_empty() => good(name, "not visible inside a virtual machine").but(
            Mark::Warning,
            "",
            "it may change between two runs and nothing here would show it: interleave what you compare",
        ),
        true => good(name, format!("governor {governors}")),
        false => good(name, format!("governor {governors}: idle processors slow down")).but(
            Mark::Warning,
            "sudo cpupower frequency-set --governor performance   (until reboot)",
            "a light load looks slower than it is",
        ),
    }
}

fn clock(facts: &Facts) -> Check {
    let clock = &facts.clock;
    let source = match clock.source.as_str() {
        "tsc" => "the processor's own counter (tsc)".to_string(),
        _ => format!("the kernel's ({})", facts.kernel_clock),
    };
    let text = format!("{source}, {} a reading", Quantity::Seconds.show(clock.read_ns / 1e9));
    match clock.read_ns > CLOCK_NS_MAX {
        false => good("clock", text),
        true => good("clock", text).but(
            Mark::Warning,
            "boot with clocksource=tsc if the processor's counter runs evenly here",
            "an operation of a few microseconds is measured longer than it is",
        ),
    }
}

fn steal(noise: &Noise) -> Option<Check> {
    let share = noise.steal_share?;
    let text = format!("{} over {:.0} s", percent(share), noise.seconds);
    Some(match share < 0.01 {
        true => good("stolen CPU", text),
        false => good("stolen CPU", format!("{text}: other guests of this host use your processors")).but(
            Mark::Warning,
            "ask for dedicated processors, or measure when the neighbours are quiet",
            "the same load is faster or slower by about as much from one run to the next",
        ),
    })
}

fn other_load(noise: &Noise) -> Option<Check> {
    let name = "other load";
    let waited = noise.run_wait_share?;
    Some(match waited < 0.02 {
        true => good(name, "a processor was there whenever the measuring thread wanted one"),
        false => {
            good(name, format!("the measuring thread waited for a processor {} of the time", percent(waited)))
                .but(
                    Mark::Warning,
                    "stop what else runs here; `plimsoll watch` shows how busy it is",
                    "what you measure is the system together with whatever else runs",
                )
        }
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
            "this is a debug build: it is slower than it need be",
        ),
        true => check.but(
            Mark::Warning,
            "",
            format!("at most {LOOP_NS_MAX:.0} ns is usual: the generator reaches its limit sooner here"),
        ),
    }
}

fn io_uring(facts: &Facts) -> Check {
    let name = "io_uring";
    match &facts.io_uring {
        Ok(flags) if flags.is_empty() => good(name, "allowed, in its oldest form (Linux 5.11)"),
        Ok(flags) => good(name, format!("allowed ({})", flags.join(", "))),
        Err(why) => {
            let fix = match facts.io_uring_disabled {
                Some(0) | None => "permit io_uring_setup in the container's seccomp profile".to_string(),
                Some(_) => "sudo sysctl kernel.io_uring_disabled=0   (until reboot)".to_string(),
            };
            good(name, format!("refused by the kernel: {}", plain(why))).but(
                Mark::Block,
                fix,
                "each outstanding disk operation needs a thread of its own, which costs more CPU",
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
                    "large disk buffers cannot be registered with the kernel: a little more CPU for each operation",
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
            format!("no load with more than about {} connections", count.saturating_sub(64)),
        ),
    }
}

fn disk(facts: &Facts) -> Vec<Check> {
    let place = &facts.place;
    let at = place.path.display();
    if let Some(why) = &place.unreadable {
        return vec![good("disk", format!("{at} cannot be looked at: {why}")).but(
            Mark::Block,
            "name a folder that is there with --on",
            "nothing is known about the disk",
        )];
    }
    let not_yet = if place.exists { "" } else { ", which is not there yet," };
    let disks = place.disks.join(" and ");
    let roomy = place.free_bytes.is_none_or(|bytes| bytes >= 2 << 30);
    let mut checks = vec![match (&place.file_system, place.disks.is_empty()) {
        (kind, true) => {
            let kind = kind.as_deref().unwrap_or("something");
            let text = format!("{at}{not_yet} is on {kind}, below which there is no disk of this machine");
            good("disk", text).but(
                Mark::Warning,
                "name a folder on a disk with --on",
                "what is measured there is memory or a network, not a disk",
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
                    "a test file that small fits into caches, and caches are then what is measured",
                ),
            }
        }
    }];
    checks.push(match (&place.direct, place.direct_alignment) {
        (Ok(()), Some(bytes)) => good("direct I/O", format!("works, in multiples of {bytes} bytes")),
        (Ok(()), None) => good("direct I/O", "works; the kernel does not say which alignment it asks for"),
        (Err(why), _) => good("direct I/O", format!("refused: {}", plain(why))).but(
            Mark::Block,
            match why.to_lowercase().contains("permi") {
                true => "run Plimsoll as root, or name a folder of your own with --on",
                false => "name a folder on ext4, xfs or another file system that takes it with --on",
            },
            "reads are answered from this machine's memory: use --page-cache, and do not call it a disk",
        ),
    });
    checks.extend(place.disks.iter().filter_map(|disk| device(facts, disk)));
    if !facts.host.hypervisor.is_empty() && !place.disks.is_empty() {
        checks.push(
            good(
                "cache below",
                format!("{}: the host may keep this disk in its memory", facts.host.hypervisor),
            )
            .but(
                Mark::Warning,
                "use a test file larger than the host's memory, or let several runs show that they agree",
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
        ("1", false) => words.push("said to be rotating, as many virtual disks are".into()),
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
            "a write is done when it is in the device's cache; ask for fsync to measure what would survive a power cut",
        ),
        _ => check,
    })
}

fn record_space(facts: &Facts) -> Check {
    let name = "record";
    match &facts.record_free_bytes {
        Err(why) => good(name, format!("runs cannot be written here: {}", plain(why))).but(
            Mark::Block,
            "change to a folder of your own, or name one with --run-dir",
            "nothing can be measured: every run is kept",
        ),
        Ok(bytes) => {
            let text = format!("{} free where runs are kept", Quantity::Bytes.show(*bytes as f64));
            match *bytes >= 256 << 20 {
                true => good(name, text),
                false => good(name, text).but(
                    Mark::Warning,
                    "name another folder with --run-dir",
                    "a long run with many counters may end early",
                ),
            }
        }
    }
}

fn factor(facts: &Facts, path: &str, answer: &Result<(), String>) -> Check {
    match answer {
        Ok(()) => {
            let how = match path {
                "host.cpus" | "host.page_cache" => String::new(),
                _ if facts.cgroups.is_empty() => String::new(),
                _ => format!(" ({})", facts.cgroups),
            };
            good(path, format!("can be varied{how}"))
        }
        Err(why) => good(path, format!("cannot be varied: {why}")).but(
            Mark::Block,
            if why.to_lowercase().contains("permi") { "run Plimsoll as root" } else { "" },
            "an experiment that varies it is refused, and a bottleneck it would prove stays a suspicion",
        ),
    }
}

fn cold_start(facts: &Facts) -> Check {
    let name = "cold start";
    match &facts.drop_caches {
        Ok(()) => good(name, "the page cache may be dropped, so a first launch can be timed again"),
        Err(why) => good(name, format!("the page cache cannot be dropped: {}", plain(why))).but(
            Mark::Warning,
            "run Plimsoll as root",
            "`plimsoll exec --cold` cannot make a launch the first one",
        ),
    }
}

/// What the system said, without its number.
fn plain(why: &str) -> String {
    why.split(" (os error").next().unwrap_or(why).to_lowercase()
}

fn pressure(facts: &Facts) -> Check {
    match facts.pressure {
        true => good("pressure", "the kernel counts time lost waiting for CPU, memory and I/O (PSI)"),
        false => good("pressure", "the kernel does not count time lost waiting (PSI)").but(
            Mark::Block,
            "boot with psi=1",
            "a shortage of memory or I/O is judged from queues and times alone",
        ),
    }
}

fn run_queue(facts: &Facts) -> Check {
    let name = "run queue";
    match (facts.schedstat, facts.host_schedstat) {
        (true, true) => good(name, "the kernel counts how long threads wait for a processor"),
        (true, false) => {
            good(name, "the kernel counts how long each thread waits, but not the host as a whole").but(
                Mark::Note,
                "",
                "cpu.run_queue_length stays absent (`-`); the pressure on the CPU says much the same",
            )
        }
        (false, _) => good(name, "the kernel does not count how long threads wait for a processor").but(
            Mark::Block,
            "a kernel built with CONFIG_SCHED_INFO (most distributions' are)",
            "a generator that is short of CPU may go unnoticed",
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
            "it is shown as absent, and a verdict says that it could not see it",
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
            "this version does not trace: everything it does works without",
        ),
    }
}

fn perf_events(facts: &Facts) -> Check {
    let name = "perf counters";
    match facts.tracing.perf_event_paranoid {
        None => good(name, "not in this kernel").but(
            Mark::Note,
            "",
            "Plimsoll can say that a core is full, not which code fills it",
        ),
        Some(level) if level <= 1 || facts.tracing.privileged => {
            good(name, format!("allowed (perf_event_paranoid = {level})"))
        }
        Some(level) => good(name, format!("not for this user (perf_event_paranoid = {level})")).but(
            Mark::Note,
            "sudo sysctl kernel.perf_event_paranoid=1   (until reboot)",
            "Plimsoll can say that a core is full, not which code fills it",
        ),
    }
}
