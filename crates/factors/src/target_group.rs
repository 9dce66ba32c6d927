//! A control group for the target alone, to measure its resource use and waits separately. No limit is set.
//! Only hierarchies in which a separate group has no effect are used. This excludes the v1 CPU hierarchy,
//! where groups share the CPUs.

use std::path::PathBuf;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::{HostRoot, Unavailable};
use model::experiment::FactorInfo;
use model::{Level, Nanos, SettingKind};
use rustix::fs::Access;

use crate::cgroup::{Group, Version, check_that_leaving_lifts_no_limit, denied, move_process, own_name};

/// Not a factor of experiments: the engine uses it for every target that it starts.
pub const TARGET_GROUP: FactorKind = FactorKind {
    info: FactorInfo {
        path: "target.cgroup",
        kind: SettingKind::Flag,
        about: "A separate control group for the target.",
        resource: None,
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

struct TargetGroup {
    processes: Vec<u32>,
    /// Each group to create, with the present group of its processes.
    groups: Vec<(PathBuf, Group)>,
    /// Why there is no group in some hierarchies.
    refused: Vec<String>,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    Ok(Box::new(TargetGroup::plan(&target.root, &target.processes)?))
}

impl TargetGroup {
    fn plan(root: &HostRoot, processes: &[u32]) -> Result<TargetGroup, Unavailable> {
        let first = *processes.first().ok_or_else(|| Unavailable("there is no process".into()))?;
        let name = own_name("target");
        let (mut groups, mut refused) = (Vec::new(), Vec::new());
        for home in Group::neutral(root, first)? {
            match may_be_made(&home) {
                Ok(place) => groups.push((place.join(&name), home)),
                Err(why) => refused.push(why.0),
            }
        }
        // The hierarchy with pressure metrics comes first, because they are the purpose of the group.
        groups.sort_by_key(|(_, home)| home.version != Version::V2);
        match (groups.is_empty(), refused.is_empty()) {
            (true, true) => Err(Unavailable("no cgroup hierarchy is mounted".into())),
            (true, false) => Err(Unavailable(refused.join("; "))),
            _ => Ok(TargetGroup { processes: processes.to_vec(), groups, refused }),
        }
    }
}

/// The folder in which a group can be created for the processes of another one.
fn may_be_made(home: &Group) -> Result<PathBuf, Unavailable> {
    let place = home.place()?;
    if home.version == Version::V2 {
        check_that_leaving_lifts_no_limit(home, &place)?;
    }
    for path in [place.clone(), place.join("cgroup.procs"), home.path.join("cgroup.procs")] {
        rustix::fs::access(&path, Access::WRITE_OK)
            .map_err(|error| denied(&path, "writing", error.into()))?;
    }
    Ok(place)
}

impl Factor for TargetGroup {
    fn check(&self, _level: &Level) -> Result<(), Unavailable> {
        Ok(())
    }

    fn read(&self) -> Result<Level, Unavailable> {
        let first = self.groups.first().filter(|(path, _)| path.is_dir());
        first
            .map(|(path, _)| Level::Text(path.display().to_string()))
            .ok_or_else(|| Unavailable("the group is gone".into()))
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        let back = |(path, home): &(PathBuf, Group)| Undo::RemoveCgroup {
            path: path.clone(),
            parent: home.path.clone(),
        };
        Ok(self.groups.iter().map(back).collect())
    }

    fn set(&mut self, _level: &Level) -> Result<Nanos, Unavailable> {
        for (path, _) in &self.groups {
            std::fs::create_dir(path).map_err(|error| denied(path, "creating the group", error))?;
            for process in &self.processes {
                move_process(&path.join("cgroup.procs"), *process)?;
            }
        }
        Ok(0)
    }

    fn remark(&self) -> String {
        self.refused.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup;
    use crate::testing::{Tree, UndoSteps, controller};
    use model::IoLimits;
    use testkit::{Need, Scratch};

    #[test]
    fn hierarchies_that_share_processors_are_left_out() {
        let host = Scratch::new();
        host.file("proc/9/cgroup", "3:memory:/\n2:cpu,cpuacct:/\n1:pids:/\n0::/a/b\n");
        host.file(
            "proc/self/mountinfo",
            "30 25 0:26 / /cg/memory rw - cgroup cgroup rw,memory\n\
             31 25 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 25 0:28 / /cg/pids rw - cgroup cgroup rw,pids\n\
             33 25 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        );
        for folder in ["memory", "unified/a", "unified/a/b"] {
            host.file(&format!("cg/{folder}/cgroup.procs"), "");
        }
        let root = HostRoot::at(host.path());
        let group = TargetGroup::plan(&root, &[9]).unwrap();
        let places: Vec<PathBuf> =
            group.groups.iter().map(|(path, _)| path.parent().unwrap().to_path_buf()).collect();
        assert_eq!(places, [host.join("cg/unified/a"), host.join("cg/memory")]);
        // Leaving a limited group would lift its limit.
        host.file("cg/unified/a/b/memory.max", "1048576\n");
        let group = TargetGroup::plan(&root, &[9]).unwrap();
        assert_eq!(group.groups.len(), 1);
        assert!(group.remark().contains("moving the processes would remove a limit"), "{}", group.remark());
    }

    #[test]
    fn every_limit_at_once_holds_for_a_target_and_none_is_left() {
        let tree = Tree::start("sleep 60 & wait", 2);
        let on = FactorTarget {
            files: vec![PathBuf::from(env!("CARGO_MANIFEST_DIR"))],
            ..FactorTarget::of(HostRoot::live(), tree.processes())
        };
        let homes = || std::fs::read_to_string(format!("/proc/{}/cgroup", tree.process())).unwrap();
        let before = homes();
        let mut undo_steps = Vec::new();
        let mut applied = Vec::new();
        let io = IoLimits::parse("read 400/s and write 5MiB/s").unwrap().to_level();
        let levels = [
            (TARGET_GROUP, Level::Flag(true), vec![controller(cgroup::MEMORY)]),
            (crate::cpus::CPUS, Level::Count(1), vec![]),
            (crate::cpu_quota::CPU_QUOTA, Level::Number(0.5), vec![controller(cgroup::CPU)]),
            (crate::memory::MEMORY_LIMIT, Level::Bytes(64 << 20), vec![controller(cgroup::MEMORY)]),
            (crate::io_limit::IO_LIMIT, io, vec![Need::BlockDevice(&on.files[0]), controller(cgroup::IO)]),
        ];
        for (kind, level, needs) in levels {
            let opened = (kind.open)(&on).and_then(|factor| factor.check(&level).map(|()| factor));
            if opened.is_err() && needs.into_iter().any(testkit::partly_lacks) {
                continue;
            }
            let mut factor = opened.unwrap();
            undo_steps.push(UndoSteps(factor.undo(&Level::Unlimited).unwrap()));
            factor.set(&level).unwrap();
            applied.push((kind, factor, level));
        }
        // Read after all are set, to detect one that lifts another one.
        for (kind, factor, level) in &applied {
            if kind.info.path != TARGET_GROUP.info.path {
                assert_eq!(factor.read().unwrap(), *level, "{}", kind.info.path);
            }
        }
        // A process that starts now is limited too.
        let child = tree.processes()[1];
        let of_child = std::fs::read_to_string(format!("/proc/{child}/cgroup")).unwrap();
        assert_eq!(of_child, homes());
        for _ in 0..2 {
            undo_steps.iter().rev().for_each(UndoSteps::execute);
            assert_eq!(homes(), before);
        }
        undo_steps.clear();
    }

    #[test]
    fn a_target_has_a_group_of_its_own_and_leaves_none() {
        let tree = Tree::start("sleep 60 & wait", 2);
        let planned = TargetGroup::plan(&HostRoot::live(), &tree.processes());
        if planned.is_err() && testkit::lacks(controller(cgroup::MEMORY)) {
            return;
        }
        let mut group = planned.unwrap();
        let undo_steps = UndoSteps(group.undo(&Level::Unlimited).unwrap());
        group.set(&Level::Flag(true)).unwrap();
        for (path, _) in &group.groups {
            let members = std::fs::read_to_string(path.join("cgroup.procs")).unwrap();
            assert_eq!(members.lines().count(), 2, "{}", path.display());
        }
        for _ in 0..2 {
            undo_steps.execute();
            assert!(group.groups.iter().all(|(path, _)| !path.exists()));
        }
    }
}
