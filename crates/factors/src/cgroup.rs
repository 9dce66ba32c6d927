//! Control groups: the location of the controllers on this host, the group of a process, and a new group in
//! which processes are limited.
//!
//! A controller belongs either to its own v1 hierarchy or to the single v2 hierarchy; a host may have both.
//! In v1 the new group is created inside the group of the processes. In v2 a group with processes cannot
//! delegate controllers to its children, so the new group is its sibling. The root group is exempt from this
//! rule.
//!
//! Processes that are already in a group made by Plimsoll, such as those of a target, are limited there.
//! Several limits then apply to the same group, which v2 requires.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use engine::factor::Undo;
use engine::source::{HostRoot, Unavailable};
use rustix::fs::Access;

use crate::process;

/// The name prefix of every group made here; only such groups are ever removed.
pub const NAME_PREFIX: &str = "plimsoll-";

pub use engine::cgroup::{CPU, Controller, Group, IO, MEMORY, Version, read_list};

/// Whether this folder has the name of a group made here.
pub fn is_ours(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(NAME_PREFIX))
}

/// The folder name of a new group: its purpose and the id of this process.
pub fn own_name(purpose: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{NAME_PREFIX}{purpose}-{}-{number}", std::process::id())
}

/// The name of the target's group if it exists, so that the limits of all hierarchies are found under one
/// name; otherwise a new name.
fn name_for(root: &HostRoot, processes: &[u32], purpose: &str) -> String {
    let groups = processes.first().and_then(|process| Group::neutral(root, *process).ok());
    let ours = groups.unwrap_or_default().into_iter().find(|group| is_ours(&group.path));
    let name = ours.and_then(|group| Some(group.path.file_name()?.to_str()?.to_string()));
    name.unwrap_or_else(|| own_name(purpose))
}

/// A group made by Plimsoll, planned or existing, for processes that share one group now.
#[derive(Clone, Debug)]
pub struct OwnGroup {
    controller: Controller,
    /// The group the processes are in now, to which they return.
    home: Group,
    /// The folder of the new group.
    path: PathBuf,
    /// Whether the processes are already in a group made by Plimsoll, which is then limited.
    shared: bool,
    /// In v2, whether the controller must first be enabled for child groups.
    hands_down: bool,
    processes: Vec<u32>,
    root: HostRoot,
}

impl OwnGroup {
    /// Plans a group for these processes and their descendants. Changes nothing. Processes that ended are
    /// ignored if at least one is left.
    pub fn plan(root: &HostRoot, processes: &[u32], controller: Controller) -> Result<Self, Unavailable> {
        let mut home: Option<(u32, Group)> = None;
        for &process in processes {
            let group = match Group::of(root, process, controller) {
                // It may have ended since it was listed, which is common for the commands of a script.
                Err(_) if !root.join(format!("proc/{process}")).exists() => continue,
                group => group?,
            };
            match &home {
                Some((first, of_first)) if *of_first != group => {
                    return Err(Unavailable(format!(
                        "process {first} is in {} and process {process} in {}: one limit cannot apply to both",
                        of_first.path.display(),
                        group.path.display()
                    )));
                }
                Some(_) => {}
                None => home = Some((process, group)),
            }
        }
        let Some((_, home)) = home else {
            return Err(Unavailable("there is no process to limit".into()));
        };
        let shared = is_ours(&home.path);
        let (place, path) = match home.path.parent() {
            Some(parent) if shared => (parent.to_path_buf(), home.path.clone()),
            _ => {
                let place = home.place()?;
                let path = place.join(name_for(root, processes, controller.v2));
                (place, path)
            }
        };
        let hands_down = home.version == Version::V2
            && !read_list(&place.join("cgroup.subtree_control"))?.iter().any(|name| name == controller.v2);
        let (processes, root) = (processes.to_vec(), root.clone());
        Ok(OwnGroup { controller, home, path, shared, hands_down, processes, root })
    }

    /// Its folder, which exists after [`OwnGroup::enter`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder in which it will be created.
    fn place(&self) -> &Path {
        self.path.parent().unwrap_or(&self.home.path)
    }

    /// The group of the processes at the time of planning.
    pub fn home(&self) -> &Group {
        &self.home
    }

    /// Whether the processes were already in a group made by Plimsoll.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether it exists.
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Checks whether the group can be created and the processes can be moved. Changes nothing.
    pub fn check(&self) -> Result<(), Unavailable> {
        let place = self.place();
        let mut needed = vec![place.to_path_buf(), self.home.path.join("cgroup.procs")];
        if self.home.version == Version::V2 {
            let listed = read_list(&place.join("cgroup.controllers"))?;
            if !listed.iter().any(|name| name == self.controller.v2) {
                return Err(Unavailable(format!(
                    "the controller `{}` is not delegated to {}: its cgroup.controllers does not list it",
                    self.controller.v2,
                    place.display()
                )));
            }
            if self.hands_down {
                needed.push(place.join("cgroup.subtree_control"));
            }
            if !self.shared {
                needed.push(place.join("cgroup.procs"));
                check_that_leaving_lifts_no_limit(&self.home, place)?;
            }
        }
        for path in needed {
            rustix::fs::access(&path, Access::WRITE_OK)
                .map_err(|error| denied(&path, "writing", error.into()))?;
        }
        Ok(())
    }

    /// The current contents of these files of the group.
    pub fn contents(&self, files: &[&str]) -> Vec<(String, String)> {
        let read = |file: &&str| {
            let text = fs::read_to_string(self.path.join(file)).ok()?;
            Some((file.to_string(), text.trim_end().to_string()))
        };
        files.iter().filter_map(read).collect()
    }

    /// The undo steps of [`OwnGroup::enter`]. A group that existed before is kept, and `limits` are restored:
    /// each is a file name and the text to write.
    pub fn undo(&self, limits: Vec<(String, String)>) -> Vec<Undo> {
        let mut steps = Vec::new();
        if self.shared {
            let back = |(file, text)| Undo::WriteControl { path: self.path.join::<String>(file), text };
            steps.extend(limits.into_iter().map(back));
        } else {
            steps.push(Undo::RemoveCgroup { path: self.path.clone(), parent: self.home.path.clone() });
        }
        if self.hands_down {
            steps.push(Undo::WriteControl {
                path: self.place().join("cgroup.subtree_control"),
                text: format!("-{}", self.controller.v2),
            });
        }
        steps
    }

    /// Creates the group. The processes are not moved yet, so that limits can be set before they enter it.
    pub fn make(&self) -> Result<(), Unavailable> {
        if self.hands_down {
            write(&self.place().join("cgroup.subtree_control"), &format!("+{}", self.controller.v2))?;
        }
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(denied(&self.path, "creating the group", error))
            }
            _ => Ok(()),
        }
    }

    /// Moves the processes and their descendants into the group. A descendant in another group, such as a
    /// container, is not moved, because it could not be moved back. Processes that ended are ignored if at
    /// least one is left.
    pub fn enter(&self) -> Result<(), Unavailable> {
        if self.shared {
            return Ok(());
        }
        let mut members = process::with_descendants(&self.root, &self.processes);
        members.retain(|process| {
            Group::of(&self.root, *process, self.controller)
                .is_ok_and(|group| group.path == self.home.path || group.path == self.path)
        });
        if members.is_empty() {
            return Err(Unavailable("all processes to limit have exited".into()));
        }
        let file = self.path.join("cgroup.procs");
        for process in members {
            move_process(&file, process)?;
        }
        Ok(())
    }
}

/// Checks that leaving a group lifts no limit. In v2 all controllers share the hierarchy, so processes that
/// move to a group in `place` leave all limits of their group. The factor would then change more than one
/// thing.
pub fn check_that_leaving_lifts_no_limit(home: &Group, place: &Path) -> Result<(), Unavailable> {
    if home.path == place {
        return Ok(());
    }
    // A limit on the number of processes is ignored: nearly every service has one, and it does not affect
    // performance.
    for file in ["cpu.max", "memory.max", "memory.high", "io.max"] {
        let Ok(text) = fs::read_to_string(home.path.join(file)) else { continue };
        let text = text.trim();
        if text.is_empty() || text.split(' ').next() == Some("max") {
            continue;
        }
        return Err(Unavailable(format!(
            "moving the processes would remove a limit of their present group: {} is `{text}`",
            home.path.join(file).display()
        )));
    }
    Ok(())
}

/// Moves one process into the group with this `cgroup.procs`. A process that ended is ignored.
pub fn move_process(file: &Path, process: u32) -> Result<(), Unavailable> {
    match fs::write(file, process.to_string()) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
        Err(error) => Err(denied(file, &format!("moving process {process}"), error)),
        Ok(()) => Ok(()),
    }
}

/// Writes a kernel file.
pub fn write(path: &Path, text: &str) -> Result<(), Unavailable> {
    fs::write(path, text).map_err(|error| denied(path, &format!("writing `{text}`"), error))
}

/// The error that names the missing permission.
pub fn denied(path: &Path, doing: &str, error: io::Error) -> Unavailable {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root, or have the group delegated to this user",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; cgroups are mounted read-only here, as in an unprivileged container"
        }
        _ => "",
    };
    Unavailable(format!("{doing} is not possible: {}: {error}{advice}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    const V1: &str = "30 25 0:26 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio\n\
                      31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";
    const V2: &str = "32 25 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn host(mountinfo: &str, groups: &str) -> (Scratch, HostRoot) {
        let host = Scratch::new();
        host.file("proc/self/mountinfo", mountinfo);
        host.file("proc/9/cgroup", groups);
        let root = HostRoot::at(host.path());
        (host, root)
    }

    #[test]
    fn v1_and_a_hybrid_use_the_hierarchy_of_the_controller() {
        for mountinfo in [V1.to_string(), format!("{V2}{V1}")] {
            let (host, root) = host(&mountinfo, "7:blkio:/app\n1:cpu,cpuacct:/other\n0::/x\n");
            let group = Group::of(&root, 9, IO).unwrap();
            assert_eq!(group.version, Version::V1);
            assert_eq!(group.path, host.join("sys/fs/cgroup/blkio/app"));
            let own = OwnGroup::plan(&root, &[9], IO).unwrap();
            assert_eq!(own.place(), group.path);
            assert_eq!(
                own.undo(vec![("blkio.throttle.read_iops_device".into(), "254:0 0".into())]),
                [Undo::RemoveCgroup { path: own.path().to_path_buf(), parent: group.path.clone() }]
            );
        }
    }

    #[test]
    fn a_process_that_has_ended_is_left_out() {
        let (host, root) = host(V1, "7:blkio:/app\n");
        let own = OwnGroup::plan(&root, &[8, 9, 10], IO).unwrap();
        assert_eq!(own.home().path, host.join("sys/fs/cgroup/blkio/app"));
        assert_eq!(OwnGroup::plan(&root, &[8], IO).unwrap_err().0, "there is no process to limit");
    }

    #[test]
    fn a_target_has_one_name_in_all_hierarchies() {
        let (host, root) = host(&format!("{V2}{V1}"), "7:blkio:/app\n0::/plimsoll-target-1-0\n");
        let own = OwnGroup::plan(&root, &[9], IO).unwrap();
        assert_eq!(own.path(), host.join("sys/fs/cgroup/blkio/app/plimsoll-target-1-0"));
        assert!(!own.is_shared());
    }

    #[test]
    fn v2_makes_the_group_beside_and_hands_the_controller_down() {
        let (host, root) = host(V2, "0::/system.slice/app.service\n");
        let at = "sys/fs/cgroup/unified";
        host.file(&format!("{at}/cgroup.controllers"), "cpu io memory\n");
        host.file(&format!("{at}/system.slice/cgroup.controllers"), "cpu io\n");
        host.file(&format!("{at}/system.slice/cgroup.subtree_control"), "cpu\n");
        host.file(&format!("{at}/system.slice/cgroup.procs"), "");
        host.file(&format!("{at}/system.slice/app.service/cgroup.type"), "domain\n");
        host.file(&format!("{at}/system.slice/app.service/cgroup.procs"), "9\n");
        let own = OwnGroup::plan(&root, &[9], IO).unwrap();
        let slice = host.join(format!("{at}/system.slice"));
        assert_eq!(own.place(), slice);
        own.check().unwrap();
        assert_eq!(
            own.undo(Vec::new()),
            [
                Undo::RemoveCgroup { path: own.path().to_path_buf(), parent: slice.join("app.service") },
                Undo::WriteControl { path: slice.join("cgroup.subtree_control"), text: "-io".into() },
            ]
        );
        own.make().unwrap();
        assert_eq!(host.text(&format!("{at}/system.slice/cgroup.subtree_control")), "+io");
        // A child in another group is not moved; a plain file has only the last moved process.
        for (process, parent, group) in [(9, 1, "app.service"), (10, 9, "app.service"), (11, 9, "container")]
        {
            let stat = format!("{process} (app) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0");
            host.file(&format!("proc/{process}/stat"), stat);
            host.file(&format!("proc/{process}/cgroup"), format!("0::/system.slice/{group}\n"));
        }
        own.enter().unwrap();
        assert_eq!(fs::read_to_string(own.path().join("cgroup.procs")).unwrap(), "10");

        host.file(&format!("{at}/system.slice/app.service/memory.max"), "1073741824\n");
        let error = own.check().unwrap_err().0;
        assert!(
            error.contains("moving the processes would remove")
                && error.ends_with("memory.max is `1073741824`"),
            "{error}"
        );
    }

    #[test]
    fn several_limits_on_v2_share_a_group_of_ours() {
        let (host, root) = host(V2, "0::/slice/plimsoll-target-1-0\n");
        let at = "sys/fs/cgroup/unified";
        host.file(&format!("{at}/cgroup.controllers"), "cpu io memory\n");
        host.file(&format!("{at}/slice/cgroup.controllers"), "cpu io memory\n");
        host.file(&format!("{at}/slice/cgroup.subtree_control"), "cpu\n");
        host.file(&format!("{at}/slice/plimsoll-target-1-0/cgroup.procs"), "9\n");
        host.file(&format!("{at}/slice/plimsoll-target-1-0/cpu.max"), "max 100000\n");
        let ours = host.join(format!("{at}/slice/plimsoll-target-1-0"));
        let subtree = host.join(format!("{at}/slice/cgroup.subtree_control"));
        for (controller, file, expected) in [
            (CPU, "cpu.max", Undo::WriteControl { path: ours.join("cpu.max"), text: "max 100000".into() }),
            (MEMORY, "memory.max", Undo::WriteControl { path: subtree.clone(), text: "-memory".into() }),
        ] {
            let own = OwnGroup::plan(&root, &[9], controller).unwrap();
            assert_eq!(own.path(), ours);
            own.check().unwrap();
            assert_eq!(own.undo(own.contents(&[file])), [expected]);
            own.make().unwrap();
            own.enter().unwrap();
            assert_eq!(host.text(&format!("{at}/slice/plimsoll-target-1-0/cgroup.procs")), "9\n");
        }
        assert_eq!(fs::read_to_string(subtree).unwrap(), "+memory");
        let lineage = Group::of(&root, 9, CPU).unwrap();
        assert_eq!(lineage.lineage().count(), 3);
    }

    #[test]
    fn the_root_of_v2_may_have_processes_and_groups() {
        let (host, root) = host(V2, "0::/\n");
        let at = "sys/fs/cgroup/unified";
        for (file, text) in
            [("cgroup.controllers", "io\n"), ("cgroup.subtree_control", "io\n"), ("cgroup.procs", "9\n")]
        {
            host.file(&format!("{at}/{file}"), text);
        }
        let own = OwnGroup::plan(&root, &[9], IO).unwrap();
        assert_eq!(own.place(), host.join(at));
        assert_eq!(own.undo(Vec::new()).len(), 1);
        // The same from inside a container, whose topmost group is not the root.
        host.file(&format!("{at}/cgroup.type"), "domain\n");
        let error = OwnGroup::plan(&root, &[9], IO).unwrap_err().0;
        assert!(error.contains("the topmost group visible in this container"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let plan = |mountinfo: &str, groups: &str, controllers: Option<&str>| {
            let (host, root) = host(mountinfo, groups);
            if let Some(text) = controllers {
                host.file("sys/fs/cgroup/unified/cgroup.controllers", text);
            }
            let error = OwnGroup::plan(&root, &[9], IO).unwrap_err().0;
            error.replace(&format!("{}", host.path().display()), "")
        };
        for (error, expected) in [
            (
                plan("", "", None),
                "this host has neither the cgroup v1 controller `blkio` nor cgroup v2 mounted",
            ),
            (
                plan(V2, "0::/\n", Some("hugetlb\n")),
                "the controller `io` is not available: /sys/fs/cgroup/unified/cgroup.controllers lists hugetlb, \
                 and no v1 hierarchy has `blkio`",
            ),
            (plan(V1, "0::/\n", None), "/proc/9/cgroup has no group of the process for `blkio`"),
            (
                plan(&V1.replace("0:26 /", "0:26 /docker/1"), "7:blkio:/user\n", None),
                "process 9 is in the group /user, which is outside the hierarchy mounted at /sys/fs/cgroup/blkio",
            ),
        ] {
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn processes_of_different_groups_are_refused() {
        let (host, root) = host(V1, "7:blkio:/a\n");
        host.file("proc/10/cgroup", "7:blkio:/b\n");
        let error = OwnGroup::plan(&root, &[9, 10], IO).unwrap_err().0;
        assert!(error.ends_with("one limit cannot apply to both"), "{error}");
    }
}
