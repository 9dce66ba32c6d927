//! `host.neighbour`: a second load beside the system under test, at a stated rate.
//!
//! The load has a process of its own, so that its CPU time is not counted as that of the load generator or of the target.
//! It runs before other factors are set, so it is not subject to the limits of the target. It ends with Plimsoll, however
//! that ends, and its scratch file has no name, so nothing is left of either.

mod level;
mod load;
mod process;
mod schedule;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo, new_mark};
use engine::source::{HostRoot, Unavailable};
use model::experiment::{FactorInfo, ParameterInfo};
use model::neighbour::{NONE, NeighbourRate, facts};
use model::{Level, MILLISECOND, Nanos, SettingKind, quantity};
use rustix::fs::statvfs;

use crate::cpus::CpuList;
use crate::device::Device;
use level::{Kind, LoadSpec, parse};
pub use load::{ARGUMENT, run};
use load::{LARGE_BLOCK, Options, block, connect, open_scratch};
use process::Neighbour;

const SIZE: &str = "size";
const CPUS: &str = "cpus";
const ADDRESS: &str = "address";

/// The factor.
pub const NEIGHBOUR: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.neighbour",
        kind: SettingKind::Text,
        about: "A second load beside the system: \"none\", or loads with their rates, such as \"cpu 0.5\", \"disk 50MB/s\", \"disk write 200/s\", \"memory 2GB/s\", \"network 100MB/s\", joined by \"and\". `on` is the directory of the scratch file of a disk load; default: that of the workload's files.",
        resource: None,
        needs_on: false,
        parameters: &[
            ParameterInfo {
                name: SIZE,
                needed: false,
                is_command: false,
                about: "Size of the scratch file of a disk load. Default: \"256MiB\".",
            },
            ParameterInfo {
                name: CPUS,
                needed: false,
                is_command: false,
                about: "CPUs that the neighbour runs on, such as cpus = \"0\" or \"2-3\". Default: all that Plimsoll may use.",
            },
            ParameterInfo {
                name: ADDRESS,
                needed: false,
                is_command: false,
                about: "Where a network load sends its bytes, such as address = \"10.0.0.2:9000\", to a service that only reads. Default: over the loopback interface to itself.",
            },
        ],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Beside,
    open,
};

const SIZE_DEFAULT: u64 = 256 << 20;
/// Space that a scratch file leaves free.
const SPARE: u64 = 64 << 20;
/// The memory for copies is this many times the largest cache of the CPUs.
const CACHES: u64 = 4;
const MEMORY_MIN: u64 = 64 << 20;
const MEMORY_MAX: u64 = 1 << 30;
/// Timeout of the start without a scratch file, and the least rate at which that is written.
const START_MAX: Duration = Duration::from_secs(30);
const FILL_MIN_BYTES_PER_S: u64 = 5_000_000;
/// Until every thread of the neighbour runs at its rate.
const UNTIL_IT_RUNS: Nanos = 200 * MILLISECOND;

struct HostNeighbour {
    /// The directory of a scratch file, or why there is none.
    directory: Result<PathBuf, Unavailable>,
    options: Options,
    mark: String,
    level: Level,
    running: Option<Neighbour>,
    remark: String,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    if !target.root.is_live() {
        return Err(Unavailable("a neighbour runs on this machine only".into()));
    }
    let parameter = |name: &str| target.parameters.get(name).map(model::Secret::reveal);
    let size = match parameter(SIZE) {
        None => SIZE_DEFAULT,
        Some(text) => {
            let size = quantity::parse_bytes(text).map_err(|why| Unavailable(format!("`{SIZE}`: {why}")))?;
            if size < LARGE_BLOCK || !size.is_multiple_of(LARGE_BLOCK) {
                let least = quantity::bytes(LARGE_BLOCK);
                return Err(Unavailable(format!(
                    "`{SIZE}` is {text}: use a multiple of {least}, such as \"1GiB\""
                )));
            }
            size
        }
    };
    let cpus = match parameter(CPUS) {
        None => None,
        Some(text) => {
            let cpus = CpuList::parse(text);
            Some(cpus.ok_or_else(|| {
                Unavailable(format!(
                    "`{CPUS}` is `{text}`, which is not a list of CPUs: write one such as \"0\" or \"2-3\""
                ))
            })?)
        }
    };
    let memory = (CACHES * largest_cache()).clamp(MEMORY_MIN, MEMORY_MAX);
    let options = Options { size, cpus, address: parameter(ADDRESS).map(String::from), memory };
    Ok(Box::new(HostNeighbour {
        directory: directory(target),
        options,
        mark: new_mark(),
        level: Level::Text(NONE.into()),
        running: None,
        remark: String::new(),
    }))
}

/// Bytes of the largest cache of a CPU; 0 if the kernel does not say.
fn largest_cache() -> u64 {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten().flatten();
    let sizes = caches.filter_map(|cache| fs::read_to_string(cache.path().join("size")).ok());
    sizes.filter_map(|size| quantity::parse_bytes(&size).ok()).max().unwrap_or(0)
}

/// The directory of a scratch file: the one in `on`, or of the first file of the workload, whose directory may be made
/// later.
fn directory(target: &FactorTarget) -> Result<PathBuf, Unavailable> {
    let name_one = "name the directory of its scratch file with `on`, such as { on = \"/data\", ... }";
    if let Some(on) = &target.on {
        let on = target.folder.join(on);
        return match on.is_dir() {
            true => Ok(on),
            false => {
                Err(Unavailable(format!("`on` is {}, which is not a directory: {name_one}", on.display())))
            }
        };
    }
    let Some(file) = target.files.first() else {
        return Err(Unavailable(format!("the workload has no files: {name_one}")));
    };
    let kind = fs::metadata(file).map(|metadata| metadata.file_type());
    if kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device()) {
        return Err(Unavailable(format!("{} is a device: {name_one}", file.display())));
    }
    let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    let found = file.ancestors().find(|path| path.is_dir());
    found
        .map(Path::to_path_buf)
        .ok_or_else(|| Unavailable(format!("{} has no directory: {name_one}", file.display())))
}

fn specs(level: &Level) -> Result<Vec<LoadSpec>, Unavailable> {
    parse(&level.to_string()).map_err(Unavailable)
}

impl HostNeighbour {
    fn check_load(&self, load: &LoadSpec) -> Result<(), Unavailable> {
        match load.kind {
            Kind::Cpu => self.check_cpus(load.rate.as_number().unwrap_or_default()),
            Kind::DiskRead | Kind::DiskWrite => self.check_directory(),
            Kind::Memory => self.check_memory(),
            Kind::Network => match &self.options.address {
                Some(address) => connect(address).map(|_| ()).map_err(Unavailable),
                None => Ok(()),
            },
        }
    }

    fn check_cpus(&self, stated: f64) -> Result<(), Unavailable> {
        let there_are = match &self.options.cpus {
            Some(cpus) => cpus.len(),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        if stated > there_are as f64 {
            return Err(Unavailable(format!(
                "the neighbour may use {there_are} CPUs, and {stated} are stated: state at most {there_are}"
            )));
        }
        Ok(())
    }

    fn check_directory(&self) -> Result<(), Unavailable> {
        let directory = self.directory.as_ref().map_err(Clone::clone)?;
        let wrong = |why: &dyn std::fmt::Display| {
            Unavailable(format!("{} cannot hold a scratch file: {why}", directory.display()))
        };
        open_scratch(directory)
            .map_err(|why| wrong(&format!("{why}; name a directory on another disk with `on`")))?;
        let state = statvfs(directory).map_err(|error| wrong(&error))?;
        let (free, needed) = (state.f_bavail * state.f_frsize, self.options.size.saturating_add(SPARE));
        if free < needed {
            let [free, needed] = [free >> 20, needed >> 20];
            return Err(wrong(&format!(
                "{free} MiB are free, and {needed} MiB are needed; lower `{SIZE}`, or name another directory with `on`"
            )));
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), Unavailable> {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let available = available.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let needed = self.options.memory;
        match available {
            Some(kib) if kib << 10 < 2 * needed => Err(Unavailable(format!(
                "copies past the caches of the CPUs use {} of memory, and only {} MiB are available: free memory",
                quantity::bytes(needed),
                kib >> 10
            ))),
            _ => Ok(()),
        }
    }

    fn check_cpu_list(&self) -> Result<(), Unavailable> {
        let Some(cpus) = &self.options.cpus else { return Ok(()) };
        let wrong = |error: std::io::Error| Unavailable(error.to_string());
        let allowed = rustix::thread::sched_getaffinity(None).map_err(|error| wrong(error.into()))?;
        let allowed = CpuList::from_set(&allowed);
        match cpus.is_within(&allowed) {
            true => Ok(()),
            false => Err(Unavailable(format!(
                "`{CPUS}` is {cpus}, and Plimsoll may use {allowed}: choose from these"
            ))),
        }
    }

    /// What the process does, for the record.
    fn describe(&self, specs: &[LoadSpec], directory: &Path, process: u32) -> String {
        let mut parts = vec![format!("process {process}")];
        parts.extend(self.options.cpus.iter().map(|cpus| format!("on CPUs {cpus}")));
        for LoadSpec { kind, rate } in specs {
            parts.push(match kind {
                Kind::Cpu => continue,
                Kind::DiskRead | Kind::DiskWrite => format!(
                    "random direct {}s of {} in a scratch file of {} in {}",
                    kind.to_string().trim_start_matches("disk "),
                    quantity::bytes(block(rate).0),
                    quantity::bytes(self.options.size),
                    directory.display()
                ),
                Kind::Memory => format!("copies within {} of memory", quantity::bytes(self.options.memory)),
                Kind::Network => match &self.options.address {
                    Some(address) => format!("sends to {address}"),
                    None => "sends over the loopback interface".into(),
                },
            });
        }
        parts.join(", ")
    }
}

impl Factor for HostNeighbour {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        let specs = specs(level)?;
        if !specs.is_empty() {
            self.check_cpu_list()?;
        }
        specs.iter().try_for_each(|load| self.check_load(load))
    }

    fn read(&self) -> Result<Level, Unavailable> {
        match &self.running {
            Some(neighbour) if !neighbour.is_running() => {
                Err(Unavailable("the process of the neighbour has ended".into()))
            }
            _ => Ok(self.level.clone()),
        }
    }

    fn undo(&self, level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(match specs(level)?.is_empty() {
            true => Vec::new(),
            false => vec![Undo::EndNeighbour { mark: self.mark.clone() }],
        })
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let specs = specs(level)?;
        self.running = None;
        self.level = level.clone();
        self.remark = String::new();
        if specs.is_empty() {
            return Ok(0);
        }
        let has_disk = specs.iter().any(|load| load.kind.is_disk());
        let directory = match has_disk {
            true => self.directory.clone()?,
            false => PathBuf::from("/"),
        };
        let fill = if has_disk { self.options.size / FILL_MIN_BYTES_PER_S } else { 0 };
        let within = START_MAX + Duration::from_secs(fill);
        let neighbour = Neighbour::start(&level.to_string(), &self.options, &directory, &self.mark, within);
        let neighbour = neighbour.map_err(Unavailable)?;
        self.remark = self.describe(&specs, &directory, neighbour.process());
        self.running = Some(neighbour);
        Ok(UNTIL_IT_RUNS)
    }

    fn facts(&mut self) -> BTreeMap<String, Level> {
        let Some(neighbour) = &mut self.running else { return BTreeMap::new() };
        let mut found =
            BTreeMap::from([(facts::PROCESS.into(), Level::Count(u64::from(neighbour.process())))]);
        let report = neighbour.report();
        let amounts = report.as_ref().ok().and_then(Option::as_ref).map(|report| {
            found.insert(facts::CPUS.into(), Level::Number(report.cpu_s / report.seconds));
            report.amounts.iter().map(|amount| amount / report.seconds).collect::<Vec<f64>>()
        });
        for (at, LoadSpec { kind, rate }) in specs(&self.level).unwrap_or_default().into_iter().enumerate() {
            let achieved = amounts.as_ref().and_then(|amounts| amounts.get(at));
            let achieved = achieved.map(|achieved| match rate {
                Level::BytesPerSecond(_) => Level::BytesPerSecond(*achieved),
                Level::Rate(_) => Level::Rate(*achieved),
                _ => Level::Number(*achieved),
            });
            found.extend(NeighbourRate { load: kind.to_string(), stated: rate, achieved }.to_facts());
        }
        if found.keys().any(|name| name.starts_with("disk"))
            && let Ok(directory) = &self.directory
            && let Ok(device) = Device::of_path(&HostRoot::live(), directory)
        {
            found.insert(facts::DEVICE.into(), Level::Text(device.name));
        }
        if let Err(why) = report {
            found.insert(facts::ERROR.into(), Level::Text(why));
        }
        found
    }

    fn begin_measured(&mut self) {
        self.running.iter_mut().for_each(Neighbour::begin);
    }

    fn end_measured(&mut self) -> Option<model::ExchangeTrace> {
        self.running.iter_mut().for_each(Neighbour::end);
        None
    }

    fn remark(&self) -> String {
        self.remark.clone()
    }
}

#[cfg(test)]
mod tests;
