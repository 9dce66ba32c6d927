//! `host.memory`: how much memory the target may use, including its page cache.

use std::fs;
use std::path::Path;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{HostResource, Level, Nanos, SettingKind, quantity};

use crate::cgroup::{MEMORY, OwnGroup, Version};

/// The factor.
pub const MEMORY_LIMIT: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.memory",
        kind: SettingKind::MemoryLimit,
        about: "Memory limit of the target, including the page cache of its files. Memory that a process allocated before the limit was set does not count, unless Plimsoll started it as the target.",
        resource: Some(HostResource::Memory),
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

/// Version 1 represents "no limit" by the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// The file names of one version.
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// In `memory.stat`: anonymous memory, which belongs to no file and can only be swapped out.
    anonymous: &'static str,
    unlimited: &'static str,
}

fn files(version: Version) -> Files {
    match version {
        Version::V1 => Files {
            limit: "memory.limit_in_bytes",
            usage: "memory.usage_in_bytes",
            anonymous: "total_rss ",
            unlimited: "-1",
        },
        Version::V2 => {
            Files { limit: "memory.max", usage: "memory.current", anonymous: "anon ", unlimited: "max" }
        }
    }
}

impl Files {
    /// The current limit of one group; none is unlimited. The root of v2 has no file.
    fn limit_of(&self, group: &Path) -> Option<u64> {
        number(group, self.limit).filter(|limit| *limit < NO_LIMIT)
    }

    fn anonymous_of(&self, group: &Path) -> Option<u64> {
        let text = fs::read_to_string(group.join("memory.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(self.anonymous)?.trim().parse().ok())
    }
}

fn number(group: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()
}

struct Memory {
    group: OwnGroup,
    files: Files,
    /// The last requested limit, and the kernel's value, which is rounded to whole pages.
    asked: Option<(u64, u64)>,
    remark: String,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    let group = OwnGroup::plan(&target.root, &target.processes, MEMORY)?;
    let files = files(group.home().version);
    Ok(Box::new(Memory { group, files, asked: None, remark: String::new() }))
}

fn requested_limit(level: &Level) -> Result<Option<u64>, Unavailable> {
    let page = rustix::param::page_size() as u64;
    match level {
        Level::Unlimited => Ok(None),
        Level::Bytes(bytes) if (page..NO_LIMIT).contains(bytes) => Ok(Some(*bytes)),
        other => {
            Err(Unavailable(format!("{other} is not a memory size of at least one page ({page} bytes)")))
        }
    }
}

impl Memory {
    /// The limit of the group itself.
    fn own(&self) -> Option<u64> {
        self.files.limit_of(self.group.path())
    }

    /// The least limit of its parent groups.
    fn of_others(&self) -> Option<u64> {
        let others = self.group.home().lineage().filter(|at| *at != self.group.path());
        others.filter_map(|at| self.files.limit_of(at)).min()
    }

    /// The effective limit: the least of the group's own limit and those of its parents.
    fn in_force(&self) -> Option<u64> {
        self.own().into_iter().chain(self.of_others()).min()
    }

    /// Checks that the kernel would not have to kill a process to enforce this limit.
    fn check_that_it_fits(&self, limit: u64) -> Result<(), Unavailable> {
        let anonymous = self.files.anonymous_of(self.group.path()).unwrap_or(0);
        if self.group.exists() && anonymous > limit && !has_swap() {
            return Err(Unavailable(format!(
                "its processes already use {} of anonymous memory, and there is no swap: with a limit of \
                {} the kernel would kill them",
                rounded(anonymous),
                quantity::bytes(limit)
            )));
        }
        Ok(())
    }
}

/// The value in whole MiB, for messages.
fn rounded(bytes: u64) -> String {
    quantity::bytes(bytes >> 20 << 20)
}

fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
}

impl Factor for Memory {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        if let Some(limit) = requested_limit(level)? {
            self.check_that_it_fits(limit)?;
        }
        self.group.check()
    }

    fn read(&self) -> Result<Level, Unavailable> {
        Ok(match (self.in_force(), self.asked) {
            (None, _) => Level::Unlimited,
            (Some(limit), Some((asked, made))) if limit == made => Level::Bytes(asked),
            (Some(limit), _) => Level::Bytes(limit),
        })
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(self.group.undo(self.group.contents(&[self.files.limit])))
    }

    /// The limit is set before the processes enter the group. A group that already has them must first
    /// reclaim page cache.
    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let wanted = requested_limit(level)?;
        self.group.make()?;
        let at = self.group.path().to_path_buf();
        let before = number(&at, self.files.usage);
        if let Some(limit) = wanted {
            self.check_that_it_fits(limit)?;
        }
        let file = at.join(self.files.limit);
        let text = wanted.map_or(self.files.unlimited.into(), |limit| limit.to_string());
        fs::write(&file, &text).map_err(|error| {
            // Version 1 refuses a limit if it cannot reclaim enough memory.
            let why = match before {
                Some(used) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    format!(": too little of the {} in use could be reclaimed", rounded(used))
                }
                _ => String::new(),
            };
            Unavailable(format!(
                "limiting memory to {level} is not possible: {}: {error}{why}",
                file.display()
            ))
        })?;
        self.asked = wanted.and_then(|asked| Some((asked, self.files.limit_of(&at)?)));
        self.group.enter()?;
        let after = number(&at, self.files.usage);
        self.remark = match (before, after) {
            (Some(before), Some(after)) if self.group.is_shared() => {
                format!("{} were in use before and {} after", rounded(before), rounded(after))
            }
            _ => "memory that its processes allocated before does not count".into(),
        };
        Ok(0)
    }

    fn scaled(&self, share: f64) -> Result<Level, Unavailable> {
        scaled(self.own(), self.of_others(), share)
    }

    fn remark(&self) -> String {
        self.remark.clone()
    }
}

/// A share of the current limit, in whole pages and within the limits of the parent groups.
fn scaled(own: Option<u64>, of_others: Option<u64>, share: f64) -> Result<Level, Unavailable> {
    let in_force = own.into_iter().chain(of_others).min().ok_or_else(|| {
        Unavailable(
            "there is no limit, and its share of the memory is not known, so it cannot be reduced by a \
            share; set the intended limit as the baseline: \"host.memory\" = { baseline = \"2GiB\", levels = \
             [\"4GiB\"] }"
                .into(),
        )
    })?;
    let page = rustix::param::page_size() as u64;
    let bytes = ((in_force as f64 * share) as u64).min(of_others.unwrap_or(NO_LIMIT)) / page * page;
    match () {
        () if bytes < page => Err(Unavailable(format!("the limit would be less than a page ({page} bytes)"))),
        () if share > 1.0 && bytes <= in_force => Err(Unavailable(format!(
            "a limit of {} on a parent group allows no more",
            quantity::bytes(in_force)
        ))),
        () => Ok(Level::Bytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Tree, UndoSteps, controller, controller_v2};
    use engine::source::HostRoot;
    use testkit::Scratch;

    #[test]
    fn a_share_is_in_whole_pages() {
        for (own, of_others, share, expected) in [
            (Some(1 << 30), None, 0.5, Some(1 << 29)),
            (None, Some(1 << 30), 0.5, Some(1 << 29)),
            (Some(10_000_000), None, 0.7, Some(10_000_000 * 7 / 10 / 4096 * 4096)),
            (Some(4096), None, 0.5, None),
            (None, None, 0.5, None),
            (Some(1 << 29), None, 2.0, Some(1 << 30)),
            (Some(1 << 29), Some(3 << 28), 2.0, Some(3 << 28)),
            (Some(1 << 29), Some(1 << 29), 2.0, None),
            (None, Some(1 << 29), 2.0, None),
        ] {
            let level = scaled(own, of_others, share).ok();
            assert_eq!(level, expected.map(Level::Bytes), "{share} of {own:?} of {of_others:?}");
        }
    }

    #[test]
    fn v2_has_other_files() {
        let host = Scratch::new();
        host.file("proc/9/cgroup", "0::/plimsoll-target-1-0\n");
        host.file("proc/self/mountinfo", "30 25 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
        host.file("cg/cgroup.controllers", "memory\n");
        host.file("cg/cgroup.subtree_control", "memory\n");
        host.file("cg/plimsoll-target-1-0/cgroup.procs", "9\n");
        host.file("cg/plimsoll-target-1-0/memory.current", "8388608\n");
        host.file("cg/plimsoll-target-1-0/memory.stat", "anon 2097152\nfile 6291456\n");
        let own = host.file("cg/plimsoll-target-1-0/memory.max", "max\n");
        let mut factor = open(&FactorTarget::of(HostRoot::at(host.path()), vec![9])).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Unlimited);
        let error = factor.scaled(0.5).unwrap_err().0;
        assert!(error.starts_with("there is no limit"), "{error}");
        if !has_swap() {
            let error = factor.check(&Level::Bytes(1 << 20)).unwrap_err().0;
            assert!(error.contains("use 2MiB of anonymous memory"), "{error}");
        }
        let undo = factor.undo(&Level::Unlimited).unwrap();
        factor.set(&Level::Bytes(4 << 20)).unwrap();
        assert_eq!(factor.remark(), "8MiB were in use before and 8MiB after");
        assert_eq!(factor.scaled(2.0).unwrap(), Level::Bytes(8 << 20));
        assert_eq!(factor.read().unwrap(), Level::Bytes(4 << 20));
        undo.iter().for_each(|step| crate::undo::carry_out(step).unwrap());
        assert_eq!(fs::read_to_string(own).unwrap(), "max");
        for level in [Level::Bytes(1), Level::Count(1)] {
            assert!(factor.check(&level).is_err());
        }
    }

    /// Reads a file of 64 MiB repeatedly.
    const READER: &str = "while :; do cat \"$FILE\" > /dev/null; sleep 0.05; done";

    #[test]
    fn a_limit_holds_the_page_cache_too() {
        let folder = Scratch::inside(Path::new(env!("CARGO_MANIFEST_DIR")));
        let file = folder.file("data", vec![7; 64 << 20]);
        let waiting = Tree::start(
            &format!("until [ -e '{0}.go' ]; do sleep 0.02; done; FILE='{0}'; {READER}", file.display()),
            2,
        );
        let target = FactorTarget::of(HostRoot::live(), vec![waiting.process()]);
        // Not a whole number of pages.
        let limit = (24 << 20) + 100;
        let opened = open(&target).and_then(|factor| factor.check(&Level::Bytes(limit)).map(|()| factor));
        if opened.is_err() && testkit::lacks(controller(MEMORY)) {
            return;
        }
        testkit::partly_lacks(controller_v2(MEMORY));
        let mut factor = opened.unwrap();
        let undo_steps = UndoSteps(factor.undo(&Level::Unlimited).unwrap());
        let before = factor.read().unwrap();
        factor.set(&Level::Bytes(limit)).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Bytes(limit));
        let Undo::RemoveCgroup { path: group, .. } = &undo_steps.0[0] else { panic!("{:?}", undo_steps.0) };
        // The file was cached for another group when it was written; only pages that are read again are
        // charged to this one.
        let _ = rustix::fs::fadvise(
            fs::File::open(&file).inspect(|file| file.sync_all().unwrap()).unwrap(),
            0,
            None,
            rustix::fs::Advice::DontNeed,
        );
        folder.file("data.go", "");
        let of = files(if group.join("memory.max").exists() { Version::V2 } else { Version::V1 });
        let mut most = 0;
        for _ in 0..200 {
            most = most.max(number(group, of.usage).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // The kernel first adds a charge and then reverts it if it exceeds the limit, 64 pages at a time on
        // each CPU (mm/page_counter.c and MEMCG_CHARGE_BATCH). A reading may include such a charge.
        let charging = 64 * rustix::param::page_size() * std::thread::available_parallelism().unwrap().get();
        assert!(most <= limit + charging as u64, "{most} bytes under a limit of {limit}");
        for _ in 0..2 {
            undo_steps.execute();
            assert!(!group.exists());
        }
        assert_eq!(factor.read().unwrap(), before);
    }
}
