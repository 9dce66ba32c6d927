//! CPUs: time by kind, run queue, context switches.
//!
//! Shares come from `/proc/stat` and are shares of the time the kernel accounted in the window, so they add up to
//! one whatever the length of the window. Utilization says little about saturation on a shared or virtual
//! machine; the run queue (here, in `pressure` and in `process`) does.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Mean, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::reader::{Buffer, KernelFile, fields, lines, number, numbers};
use crate::series::{Clock, Columns, Counters, Roster, Tick, metrics};

#[cfg(test)]
mod tests;

/// The kernel counts CPU time in hundredths of a second.
const TICK_SHARE: f64 = 0.01;

metrics! {
    Busy => MetricInfo::new("cpu.busy_share", Unit::Share, Mean,
        "Share of time in which the CPUs were not idle and not waiting for I/O; stolen time counts as busy.")
        .known_as(r"Processor\% Processor Time", "-u 100-%idle-%iowait").saturated_at(1.0).quantum(TICK_SHARE),
    User => MetricInfo::new("cpu.user_share", Unit::Share, Mean,
        "Share of CPU time in user mode, including niced processes and guests.")
        .known_as(r"Processor\% User Time", "-u %user+%nice").quantum(TICK_SHARE),
    System => MetricInfo::new("cpu.system_share", Unit::Share, Mean,
        "Share of CPU time in the kernel, without interrupts.")
        .known_as(r"Processor\% Privileged Time", "-u ALL %sys").quantum(TICK_SHARE),
    IoWait => MetricInfo::new("cpu.iowait_share", Unit::Share, Mean,
        "Share of time in which a CPU was idle while a thread that last ran on it waited for I/O: a hint, not a measure of I/O.")
        .known_as("", "-u %iowait").quantum(TICK_SHARE),
    Interrupt => MetricInfo::new("cpu.irq_share", Unit::Share, Mean,
        "Share of CPU time in hardware and soft interrupts.")
        .known_as(r"Processor\% Interrupt Time", "-u ALL %irq+%soft").quantum(TICK_SHARE),
    Steal => MetricInfo::new("cpu.steal_share", Unit::Share, Mean,
        "Share of time in which this virtual machine was ready to run, but the hypervisor ran something else.")
        .known_as("", "-u %steal").quantum(TICK_SHARE),
    QueueLength => MetricInfo::new("cpu.run_queue_length", Unit::Count, Mean,
        "Mean number of threads that are ready to run but wait for a CPU: seconds waited per second.")
        .known_as(r"System\Processor Queue Length", ""),
    Runnable => MetricInfo::new("cpu.runnable_threads", Unit::Count, Gauge,
        "Threads running or ready to run at this moment, including the thread that reads this counter.")
        .known_as("", "-q runq-sz"),
    Blocked => MetricInfo::new("cpu.blocked_threads", Unit::Count, Gauge,
        "Threads blocked on I/O at this moment.")
        .known_as("", "-q blocked"),
    LoadAverage => MetricInfo::new("cpu.load_average", Unit::Count, Gauge,
        "Threads running, ready to run or in uninterruptible sleep; the kernel's average over about one minute.")
        .known_as("", "-q ldavg-1"),
    Switches => MetricInfo::new("cpu.context_switches_per_s", Unit::PerSecond, Rate,
        "Context switches from one thread to another.")
        .known_as(r"System\Context Switches/sec", "-w cswch/s"),
    Interrupts => MetricInfo::new("cpu.interrupts_per_s", Unit::PerSecond, Rate,
        "Hardware interrupts handled.")
        .known_as(r"Processor\Interrupts/sec", "-I SUM intr/s"),
    Created => MetricInfo::new("cpu.processes_created_per_s", Unit::PerSecond, Rate,
        "Processes and threads created.")
        .known_as("", "-w proc/s"),
}

/// The source `cpu`.
pub const KIND: SourceKind = SourceKind {
    name: "cpu",
    about: "CPU time by kind, of the host and of each core, and the run queue.",
    metrics: METRICS,
    selector: "",
    open,
};

/// `/proc/schedstat` describes the scheduling domains of every core, which on a large machine takes the kernel
/// longer to generate than all other files of this module together.
const MOST_CORES_WITH_SCHEDSTAT: usize = 32;

/// The highest load average: a kernel has fewer tasks.
const LOAD_AVERAGE_MAX: f64 = 1e9;

fn open(root: &HostRoot, _selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    let mut cpu = Cpu {
        clock: Clock::default(),
        buffer: Buffer::new(),
        stat: KernelFile::new(root, "proc/stat"),
        load: KernelFile::new(root, "proc/loadavg"),
        schedstat: None,
        cores: Roster::new(),
        host: Columns::new(""),
        events: Counters::new(),
        queue: Counters::new(),
        too_many_cores: false,
    };
    let Some(text) = cpu.stat.read(&mut cpu.buffer) else {
        return Err(Unavailable("/proc/stat cannot be read; is /proc mounted?".into()));
    };
    cpu.too_many_cores =
        lines(text).filter(|line| line.starts_with(b"cpu")).count() > MOST_CORES_WITH_SCHEDSTAT + 1;
    if !cpu.too_many_cores {
        cpu.schedstat = Some(KernelFile::new(root, "proc/schedstat"));
    }
    Ok(Box::new(cpu))
}

struct Cpu {
    clock: Clock,
    buffer: Buffer,
    stat: KernelFile,
    load: KernelFile,
    schedstat: Option<KernelFile>,
    cores: Roster<Core>,
    host: Columns<Metric>,
    events: Counters<3>,
    queue: Counters<1>,
    too_many_cores: bool,
}

/// One processor, or all of them together (instance "").
struct Core {
    columns: Columns<Metric>,
    times: Counters<8>,
    queue: Counters<1>,
}

impl Core {
    fn new(name: &str) -> Self {
        let number = name.strip_prefix("cpu").unwrap_or(name);
        Core { columns: Columns::new(number), times: Counters::new(), queue: Counters::new() }
    }

    /// `times` are user, nice, system, idle, iowait, irq, softirq, steal. The time of guests is within user.
    fn read(&mut self, tick: &Tick, times: [Option<u64>; 8], out: &mut Readings) {
        // Kernels before 2.6.11 and some containers leave the last columns out.
        let times = times.map(|time| Some(time.unwrap_or(0)));
        let [user, nice, system, idle, iowait, irq, softirq, steal] = self.times.advance(tick, times);
        let total = user + nice + system + idle + iowait + irq + softirq + steal;
        for (metric, part) in [
            (Metric::Busy, total - idle - iowait),
            (Metric::User, user + nice),
            (Metric::System, system),
            (Metric::IoWait, iowait),
            (Metric::Interrupt, irq + softirq),
            (Metric::Steal, steal),
        ] {
            self.columns.set(out, metric, part / total);
        }
    }
}

impl Source for Cpu {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        let Some(text) = self.stat.read(&mut self.buffer) else {
            return Err(Unavailable("/proc/stat can no longer be read".into()));
        };
        let mut events = [None; 3];
        self.cores.rewind();
        for line in lines(text) {
            let mut fields = fields(line);
            let Some(name) = fields.next() else { continue };
            match name {
                b"intr" => events[1] = fields.next().and_then(number),
                b"ctxt" => events[0] = fields.next().and_then(number),
                b"processes" => events[2] = fields.next().and_then(number),
                b"procs_running" => {
                    self.host.set_count(out, Metric::Runnable, fields.next().and_then(number));
                }
                b"procs_blocked" => {
                    self.host.set_count(out, Metric::Blocked, fields.next().and_then(number));
                }
                _ if name.starts_with(b"cpu") => {
                    if let Some(core) = self.cores.entry(name, Core::new) {
                        core.read(&tick, numbers(fields), out);
                    }
                }
                _ => {}
            }
        }
        let [switches, interrupts, created] = self.events.advance(&tick, events);
        self.host.set(out, Metric::Switches, switches / tick.seconds);
        self.host.set(out, Metric::Interrupts, interrupts / tick.seconds);
        self.host.set(out, Metric::Created, created / tick.seconds);
        if let Some(text) = self.load.read(&mut self.buffer) {
            let average = fields(text).next().and_then(|field| std::str::from_utf8(field).ok()?.parse().ok());
            let average = average.filter(|average: &f64| (0.0..=LOAD_AVERAGE_MAX).contains(average));
            self.host.set(out, Metric::LoadAverage, average.unwrap_or(f64::NAN));
        }
        self.read_queue(&tick, out);
        Ok(())
    }

    fn limits(&self) -> String {
        match self.too_many_cores {
            true => format!(
                "the run queue of the whole host is not read on more than {MOST_CORES_WITH_SCHEDSTAT} cores"
            ),
            false => self.cores.limits("cores"),
        }
    }
}

impl Cpu {
    /// The nanoseconds threads waited in the run queue of each core: the eighth number of its line.
    fn read_queue(&mut self, tick: &Tick, out: &mut Readings) {
        let Some(text) = self.schedstat.as_mut().and_then(|file| file.read(&mut self.buffer)) else { return };
        let mut total = None;
        // /proc/stat begins with a line for all CPUs, which has no counterpart here.
        self.cores.rewind();
        for line in lines(text) {
            let mut fields = fields(line);
            let Some(name) = fields.next().filter(|name| name.starts_with(b"cpu")) else { continue };
            let waited = fields.nth(7).and_then(number);
            if let Some(core) = self.cores.entry(name, Core::new) {
                let [increase] = core.queue.advance(tick, [waited]);
                core.columns.set(out, Metric::QueueLength, increase / 1e9 / tick.seconds);
            }
            total = waited.map(|waited| total.unwrap_or(0_u64).wrapping_add(waited)).or(total);
        }
        let [increase] = self.queue.advance(tick, [total]);
        self.host.set(out, Metric::QueueLength, increase / 1e9 / tick.seconds);
    }
}
