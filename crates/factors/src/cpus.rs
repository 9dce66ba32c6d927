//! `host.cpus`: the number of CPUs that the target may use; and the affinity of processes, which other factors choose by
//! cores and their siblings.

use std::collections::BTreeSet;
use std::fmt;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::{HostRoot, Unavailable};
use model::experiment::FactorInfo;
use model::{HostResource, Level, Nanos, SettingKind};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::process::{PF_NO_SETAFFINITY, Stat, threads, with_descendants};
use crate::topology::Topology;

/// The factor.
pub const CPUS: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.cpus",
        kind: SettingKind::Count { min: 1, max: 4096 },
        about: "Number of CPUs that the target, its threads and its child processes may use: the first ones of those it was allowed at the start.",
        resource: Some(HostResource::Cpu),
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

/// A set of CPUs, written in the kernel's list format, for example `0-3,7`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Parses the list format; none if it is invalid or empty, or contains a CPU beyond the limit of the
    /// system call.
    pub fn parse(text: &str) -> Option<CpuList> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
            if from > to || to >= CpuSet::MAX_CPU {
                return None;
            }
            cpus.extend(from..=to);
        }
        Some(CpuList(cpus))
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has this CPU.
    pub(crate) fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Whether another set has all of these CPUs.
    pub(crate) fn is_within(&self, other: &CpuList) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first `count` of them.
    fn first(&self, count: usize) -> CpuList {
        CpuList(self.0.iter().copied().take(count).collect())
    }

    pub(crate) fn from_set(set: &CpuSet) -> CpuList {
        CpuList((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
    }

    pub(crate) fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu);
        }
        set
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(from) = cpus.next() {
            let mut to = from;
            while cpus.next_if_eq(&(to + 1)).is_some() {
                to += 1;
            }
            write!(f, "{separator}{from}")?;
            if to > from {
                write!(f, "-{to}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// A process with its CPUs at the time when the factor was opened.
struct ProcessAffinity {
    process: u32,
    started_ticks: u64,
    allowed: CpuList,
}

/// What a level counts.
#[derive(Clone, Debug)]
pub(crate) enum Counted {
    /// CPUs as the kernel numbers them.
    Cpus,
    /// Cores, each with all of its CPUs.
    Cores(Topology),
    /// CPUs of each core: with 1, the siblings are not used.
    ThreadsPerCore(Topology),
}

impl Counted {
    /// The CPUs of a level out of the allowed ones; none if there are not so many.
    fn choose(&self, count: usize, allowed: &CpuList) -> Option<CpuList> {
        match self {
            _ if count == 0 || count > self.most(allowed) => None,
            Counted::Cpus => Some(allowed.first(count)),
            Counted::Cores(topology) => {
                Some(CpuList(topology.cores(&allowed.0).into_iter().take(count).flatten().collect()))
            }
            Counted::ThreadsPerCore(topology) => {
                let of_core = |core: Vec<usize>| core.into_iter().take(count);
                Some(CpuList(topology.cores(&allowed.0).into_iter().flat_map(of_core).collect()))
            }
        }
    }

    /// The level at which all of these CPUs are used.
    fn most(&self, cpus: &CpuList) -> usize {
        match self {
            Counted::Cpus => cpus.len(),
            Counted::Cores(topology) => topology.cores(&cpus.0).len(),
            Counted::ThreadsPerCore(topology) => {
                topology.cores(&cpus.0).iter().map(Vec::len).max().unwrap_or(0)
            }
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            Counted::Cpus => "CPUs",
            Counted::Cores(_) => "cores",
            Counted::ThreadsPerCore(_) => "threads per core",
        }
    }
}

struct Cpus {
    counted: Counted,
    root: HostRoot,
    targets: Vec<u32>,
    processes: Vec<ProcessAffinity>,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    open_counted(target, Counted::Cpus)
}

/// Opens the affinity of a target.
pub(crate) fn open_counted(target: &FactorTarget, counted: Counted) -> Result<Box<dyn Factor>, Unavailable> {
    if !target.root.is_live() {
        return Err(Unavailable("CPUs can be chosen for processes of this machine only".into()));
    }
    let mut processes = Vec::new();
    for process in with_descendants(&target.root, &target.processes) {
        let (Some(stat), Some(pid)) = (Stat::of(&target.root, process), pid(process)) else { continue };
        match sched_getaffinity(Some(pid)) {
            Ok(set) => processes.push(ProcessAffinity {
                process,
                started_ticks: stat.started_ticks,
                allowed: CpuList::from_set(&set),
            }),
            Err(Errno::SRCH) => {}
            Err(error) => {
                return Err(Unavailable(format!("the CPUs of {} cannot be read: {error}", named(process))));
            }
        }
    }
    if processes.is_empty() {
        return Err(Unavailable("there is no process whose CPUs can be set".into()));
    }
    Ok(Box::new(Cpus { counted, root: target.root.clone(), targets: target.processes.clone(), processes }))
}

impl Cpus {
    fn requested_cpus(&self, level: &Level) -> Result<usize, Unavailable> {
        let Level::Count(count) = level else {
            return Err(Unavailable(format!("{level} is not a number of {}", self.counted.noun())));
        };
        let count = usize::try_from(*count).unwrap_or(usize::MAX);
        for process in &self.processes {
            if self.counted.choose(count, &process.allowed).is_none() {
                return Err(Unavailable(format!(
                    "{count} {} are requested, but {} may use {}: CPUs {}",
                    self.counted.noun(),
                    named(process.process),
                    self.counted.most(&process.allowed),
                    process.allowed
                )));
            }
        }
        Ok(count)
    }
}

impl Factor for Cpus {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        self.requested_cpus(level)?;
        for confined in &self.processes {
            // Setting the present CPUs of a thread checks the permission without changing anything.
            let Some(pid) = pid(confined.process) else { continue };
            let same = sched_getaffinity(Some(pid)).and_then(|set| sched_setaffinity(Some(pid), &set));
            if let Err(error) = same
                && error != Errno::SRCH
            {
                return Err(refused(confined.process, error));
            }
        }
        Ok(())
    }

    /// All CPUs that any thread of the target may use, so that an unlimited thread is visible.
    fn read(&self) -> Result<Level, Unavailable> {
        let mut usable = BTreeSet::new();
        for process in with_descendants(&self.root, &self.targets) {
            for thread in threads(&self.root, process) {
                if is_kernels(&self.root, process, thread) {
                    continue;
                }
                if let Some(pid) = pid(thread)
                    && let Ok(set) = sched_getaffinity(Some(pid))
                {
                    usable.extend(CpuList::from_set(&set).0);
                }
            }
        }
        if usable.is_empty() {
            return Err(Unavailable("all processes of the target have exited".into()));
        }
        Ok(Level::Count(self.counted.most(&CpuList(usable)) as u64))
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(self
            .processes
            .iter()
            .map(|confined| Undo::Affinity {
                process: confined.process,
                started_ticks: confined.started_ticks,
                cpus: confined.allowed.to_string(),
            })
            .collect())
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let count = self.requested_cpus(level)?;
        for confined in &self.processes {
            let Some(cpus) = self.counted.choose(count, &confined.allowed) else { continue };
            if Stat::of(&self.root, confined.process)
                .is_some_and(|stat| stat.started_ticks == confined.started_ticks)
            {
                confine(&self.root, confined.process, &cpus)?;
            }
        }
        // A process that started after the factor was opened has the former CPUs of its parent.
        let known: BTreeSet<u32> = self.processes.iter().map(|confined| confined.process).collect();
        let first = self.processes.first();
        let first = first.and_then(|first| self.counted.choose(count, &first.allowed)).unwrap_or_default();
        for process in with_descendants(&self.root, &self.targets) {
            if !known.contains(&process) {
                confine(&self.root, process, &first)?;
            }
        }
        Ok(0)
    }

    fn scaled(&self, share: f64) -> Result<Level, Unavailable> {
        let Level::Count(now) = self.read()? else {
            return Err(Unavailable("the current number of CPUs is not known".into()));
        };
        let allowed = self.processes.iter().map(|process| self.counted.most(&process.allowed) as u64).min();
        scaled(now, allowed.unwrap_or(now), share)
    }
}

/// A share of whole CPUs: rounded down for a reduction, rounded up for an increase, and at most the allowed
/// number.
fn scaled(now: u64, allowed: u64, share: f64) -> Result<Level, Unavailable> {
    let cpus = now as f64 * share;
    let cpus = if share < 1.0 { cpus.floor() as u64 } else { (cpus.ceil() as u64).min(allowed) };
    match () {
        () if cpus == 0 => Err(Unavailable(format!("{now} CPUs cannot be reduced by a fraction"))),
        () if share > 1.0 && cpus <= now => {
            Err(Unavailable(format!("it may use all {allowed} allowed CPUs already")))
        }
        () => Ok(Level::Count(cpus)),
    }
}

/// Restricts all threads of a process to these CPUs. A thread may start another one meanwhile, so the threads
/// are listed again until there is no new one. Threads inherit the restriction of the thread that starts
/// them. A process that ended is ignored.
///
/// # Errors
/// When the kernel refuses, with the missing permission.
pub fn confine(root: &HostRoot, process: u32, cpus: &CpuList) -> Result<(), Unavailable> {
    let set = cpus.to_set();
    let mut seen = BTreeSet::new();
    loop {
        let new: Vec<u32> =
            threads(root, process).into_iter().filter(|thread| seen.insert(*thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for thread in new {
            let Some(pid) = pid(thread) else { continue };
            match sched_setaffinity(Some(pid), &set) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(Errno::INVAL) if is_kernels(root, process, thread) => {}
                Err(error) => return Err(refused(process, error)),
            }
        }
    }
}

/// Whether only the kernel can choose the CPUs of this thread.
fn is_kernels(root: &HostRoot, process: u32, thread: u32) -> bool {
    Stat::of_thread(root, process, thread).is_some_and(|stat| stat.flags & PF_NO_SETAFFINITY != 0)
}

fn pid(process: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(process).ok()?)
}

/// A process in messages: without its id if it is this process.
fn named(process: u32) -> String {
    match process == std::process::id() {
        true => "this process".into(),
        false => format!("process {process}"),
    }
}

fn refused(process: u32, error: Errno) -> Unavailable {
    Unavailable(match error {
        Errno::PERM => format!(
            "{} belongs to another user: choosing its CPUs needs the capability CAP_SYS_NICE",
            named(process)
        ),
        error => format!("the CPUs of {} cannot be chosen: {error}", named(process)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use crate::undo::carry_out;

    #[test]
    fn the_list_form_reads_and_writes() {
        for (text, count) in [("0", 1), ("0-3,7", 5), ("2,4-5", 3), ("0-1023", 1024)] {
            let cpus = CpuList::parse(text).unwrap();
            assert_eq!((cpus.len(), cpus.to_string().as_str()), (count, text));
        }
        for text in ["", "3-1", "a", "1,", "0-4096", "-1"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
        assert_eq!(CpuList::parse("1,3,5-9").unwrap().first(3).to_string(), "1,3,5");
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_back(cpus in proptest::collection::btree_set(0usize..1024, 1..60)) {
            let list = CpuList(cpus);
            proptest::prop_assert_eq!(CpuList::parse(&list.to_string()), Some(list.clone()));
            proptest::prop_assert_eq!(CpuList::from_set(&list.to_set()), list);
        }
        #[test]
        fn no_text_panics(text in ".{0,12}") {
            let _ = CpuList::parse(&text);
        }
    }

    fn open_for(process: u32) -> Box<dyn Factor> {
        open(&FactorTarget::of(HostRoot::live(), vec![process])).unwrap()
    }

    #[test]
    fn a_process_and_its_child_are_kept_to_one_cpu_and_set_free() {
        let sleeper = Tree::start("sleep 60 & wait", 2);
        let mut cpus = open_for(sleeper.process());
        let Level::Count(before) = cpus.read().unwrap() else { panic!("not a count") };
        if testkit::lacks(testkit::Need::Cpus(2)) {
            return;
        }
        cpus.check(&Level::Count(1)).unwrap();
        let undo = cpus.undo(&Level::Unlimited).unwrap();
        assert_eq!(undo.len(), 2);
        for (level, expected) in [(1, 1), (2, 2), (1, 1)] {
            cpus.set(&Level::Count(level)).unwrap();
            assert_eq!(cpus.read().unwrap(), Level::Count(expected));
        }
        assert!(cpus.scaled(0.7).is_err(), "of one CPU no part can be taken");
        assert_eq!(cpus.scaled(1.0 / 0.7).unwrap(), Level::Count(2));
        for _ in 0..2 {
            undo.iter().for_each(|step| carry_out(step).unwrap());
            assert_eq!(cpus.read().unwrap(), Level::Count(before));
        }
    }

    #[test]
    fn a_share_is_of_whole_cpus() {
        for (now, allowed, share, expected) in [
            (2, 2, 0.7, Some(1)),
            (4, 4, 0.7, Some(2)),
            (1, 2, 0.7, None),
            (1, 2, 1.0 / 0.7, Some(2)),
            (3, 8, 1.0 / 0.7, Some(5)),
            (3, 4, 1.0 / 0.7, Some(4)),
            (2, 2, 1.0 / 0.7, None),
        ] {
            let level = scaled(now, allowed, share).ok();
            assert_eq!(level, expected.map(Level::Count), "{share} of {now} of {allowed}");
        }
    }

    #[test]
    fn cores_and_siblings_are_chosen_by_the_topology() {
        // Four cores; the siblings of 0 to 3 are 4 to 7, and CPU 6 is not allowed.
        let topology = || Topology::of_siblings(&["0,4", "1,5", "2,6", "3,7"]);
        let allowed = CpuList::parse("0-5,7").unwrap();
        for (counted, level, expected) in [
            (Counted::Cpus, 3, Some("0-2")),
            (Counted::Cpus, 8, None),
            (Counted::Cores(topology()), 1, Some("0,4")),
            (Counted::Cores(topology()), 3, Some("0-2,4-5")),
            (Counted::Cores(topology()), 4, Some("0-5,7")),
            (Counted::Cores(topology()), 5, None),
            (Counted::ThreadsPerCore(topology()), 1, Some("0-3")),
            (Counted::ThreadsPerCore(topology()), 2, Some("0-5,7")),
            (Counted::ThreadsPerCore(topology()), 3, None),
            (Counted::ThreadsPerCore(topology()), 0, None),
        ] {
            let chosen = counted.choose(level, &allowed);
            assert_eq!(chosen.as_ref().map(ToString::to_string).as_deref(), expected, "{counted:?} {level}");
            if let Some(chosen) = chosen {
                assert_eq!(counted.most(&chosen), level);
            }
        }
    }

    #[test]
    fn more_cpus_than_there_are_is_refused() {
        let cpus = open_for(std::process::id());
        let error = cpus.check(&Level::Count(4096)).unwrap_err().0;
        assert!(error.starts_with("4096 CPUs are requested, but this process may use "), "{error}");
        assert!(cpus.check(&Level::Unlimited).is_err());
    }
}
