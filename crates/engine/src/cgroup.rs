//! Reads control groups: the location of the controllers on this host, the group of a process, and its
//! throttled time.
//!
//! A controller belongs either to its own v1 hierarchy or to the single v2 hierarchy; a host may have both.

use std::fs;
use std::path::{Path, PathBuf};

use model::Nanos;

use crate::mounts::{Mount, mounts};
use crate::source::{HostRoot, Unavailable};

/// A controller with its names in both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The name in v1, for example `blkio`.
    pub v1: &'static str,
    /// The name in v2, for example `io`.
    pub v2: &'static str,
}

/// Input and output.
pub const IO: Controller = Controller { v1: "blkio", v2: "io" };

/// CPU time.
pub const CPU: Controller = Controller { v1: "cpu", v2: "cpu" };

/// Memory.
pub const MEMORY: Controller = Controller { v1: "memory", v2: "memory" };

/// The version of a group's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A separate hierarchy for each controller.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// The mounted part of the hierarchy; `/` for the whole hierarchy.
    part: String,
    /// The mount point.
    at: PathBuf,
    /// The v1 controllers bound to it.
    controllers: Vec<String>,
}

/// The group a process is in, for one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The version of its interface.
    pub version: Version,
    /// Its folder.
    pub path: PathBuf,
    /// The topmost visible folder of its hierarchy.
    top: PathBuf,
}

impl Group {
    /// The group of a process for a controller.
    ///
    /// # Errors
    /// When the controller is not available, or the group is not visible from here.
    pub fn of(root: &HostRoot, process: u32, controller: Controller) -> Result<Group, Unavailable> {
        let mounts = hierarchies(root)?;
        let bound = |mount: &&Hierarchy| mount.controllers.iter().any(|name| name == controller.v1);
        let mount = match mounts.iter().find(bound) {
            Some(mount) => mount,
            None => {
                let mount = mounts.iter().find(|mount| mount.version == Version::V2).ok_or_else(|| {
                    Unavailable(format!(
                        "this host has neither the cgroup v1 controller `{}` nor cgroup v2 mounted",
                        controller.v1
                    ))
                })?;
                let listed = read_list(&mount.at.join("cgroup.controllers"))?;
                if !listed.iter().any(|name| name == controller.v2) {
                    return Err(Unavailable(format!(
                        "the controller `{}` is not available: {} lists {}, and no v1 hierarchy has `{}`",
                        controller.v2,
                        mount.at.join("cgroup.controllers").display(),
                        if listed.is_empty() { "none".into() } else { listed.join(" ") },
                        controller.v1
                    )));
                }
                mount
            }
        };
        let name = match mount.version {
            Version::V1 => controller.v1,
            Version::V2 => "",
        };
        Group::inside(root, process, mount, name)
    }

    /// The groups of a process in hierarchies where a separate group would have no effect on it. These are
    /// v2, v1 hierarchies that only count, and v1 hierarchies without a limit. Hierarchies that divide CPU
    /// time between groups are excluded.
    ///
    /// # Errors
    /// When the mounted hierarchies cannot be read.
    pub fn neutral(root: &HostRoot, process: u32) -> Result<Vec<Group>, Unavailable> {
        const NEUTRAL: [&str; 2] = ["cpuacct", "memory"];
        let mounts = hierarchies(root)?;
        let groups = mounts.iter().filter_map(|mount| match mount.version {
            Version::V2 => Group::inside(root, process, mount, "").ok(),
            Version::V1 if mount.controllers.iter().any(|name| name == CPU.v1) => None,
            Version::V1 => {
                let name = mount.controllers.iter().find(|name| NEUTRAL.contains(&name.as_str()))?;
                Group::inside(root, process, mount, name).ok()
            }
        });
        Ok(groups.collect())
    }

    /// The group of a process in one hierarchy; `name` is the name of the hierarchy in `/proc/PID/cgroup`.
    fn inside(root: &HostRoot, process: u32, mount: &Hierarchy, name: &str) -> Result<Group, Unavailable> {
        let file = root.join(format!("proc/{process}/cgroup"));
        let text =
            fs::read_to_string(&file).map_err(|error| Unavailable(format!("{}: {error}", file.display())))?;
        let path = group_path(&text, name).ok_or_else(|| {
            Unavailable(format!("{} has no group of the process for `{name}`", file.display()))
        })?;
        let below = below(path, &mount.part).ok_or_else(|| {
            Unavailable(format!(
                "process {process} is in the group {path}, which is outside the hierarchy mounted at {}",
                mount.at.display()
            ))
        })?;
        let path = if below.is_empty() { mount.at.clone() } else { mount.at.join(below) };
        Ok(Group { version: mount.version, path, top: mount.at.clone() })
    }

    /// Whether it is the root of a whole v2 hierarchy: only this root has no `cgroup.type`.
    fn is_root(&self) -> bool {
        self.path == self.top && !self.path.join("cgroup.type").exists()
    }

    /// This group and its visible parents, whose limits also apply.
    pub fn lineage(&self) -> impl Iterator<Item = &Path> {
        let top = self.top.as_path();
        self.path.ancestors().take_while(move |path| path.starts_with(top))
    }

    /// The folder in which a group for the processes of this group can be created.
    ///
    /// # Errors
    /// When that folder is not visible.
    pub fn place(&self) -> Result<PathBuf, Unavailable> {
        if self.version == Version::V1 || self.is_root() {
            return Ok(self.path.clone());
        }
        match self.path.parent() {
            Some(parent) if self.path != self.top => Ok(parent.to_path_buf()),
            _ => Err(Unavailable(format!(
                "a group cannot be created next to {}, the topmost group visible in this container; run \
                on the host itself, or with the host's cgroup namespace",
                self.path.display()
            ))),
        }
    }
}

/// The throttled time of a process's group and of each parent, because the CPU quota was used up. It is
/// summed over CPUs; the innermost group comes first. Empty without the controller.
pub(crate) fn throttled(root: &HostRoot, process: u32) -> Vec<(PathBuf, Nanos)> {
    let Ok(group) = Group::of(root, process, CPU) else { return Vec::new() };
    let read = |path: &Path| {
        let text = fs::read_to_string(path.join("cpu.stat")).ok()?;
        let throttled = text.lines().find_map(|line| match line.split_once(' ')? {
            ("throttled_usec", value) => Some(value.trim().parse::<Nanos>().ok()?.saturating_mul(1000)),
            ("throttled_time", value) => value.trim().parse().ok(),
            _ => None,
        })?;
        Some((path.to_path_buf(), throttled))
    };
    group.lineage().filter_map(read).collect()
}

/// The words in a file such as `cgroup.controllers`.
///
/// # Errors
/// When it cannot be read.
pub fn read_list(path: &Path) -> Result<Vec<String>, Unavailable> {
    let text =
        fs::read_to_string(path).map_err(|error| Unavailable(format!("{}: {error}", path.display())))?;
    Ok(text.split_ascii_whitespace().map(ToString::to_string).collect())
}

/// The mounted hierarchies.
fn hierarchies(root: &HostRoot) -> Result<Vec<Hierarchy>, Unavailable> {
    Ok(mounts(root)?.into_iter().filter_map(|mount| hierarchy(root, mount)).collect())
}

fn hierarchy(root: &HostRoot, mount: Mount) -> Option<Hierarchy> {
    let (version, controllers) = match mount.file_system.as_str() {
        "cgroup" => (Version::V1, mount.options.split(',').map(ToString::to_string).collect()),
        "cgroup2" => (Version::V2, Vec::new()),
        _ => return None,
    };
    let at = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    Some(Hierarchy { version, part: mount.part, at, controllers })
}

/// The path of a process's group from the text of `/proc/PID/cgroup`; an empty name means the v2 hierarchy.
fn group_path<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let found = if name.is_empty() {
            number == "0" && controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == name)
        };
        found.then_some(path)
    })
}

/// The path of a group relative to the mounted part of its hierarchy, without a leading slash.
fn below<'a>(path: &'a str, part: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(part.trim_end_matches('/'))?;
    if rest.split('/').any(|step| step == "..") {
        return None;
    }
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    #[test]
    fn throttling_is_read_from_both_versions() {
        const V1: &str =
            "31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";
        const V2: &str = "32 25 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        for (mounts, at, inner, outer) in [
            (V1, "sys/fs/cgroup/cpu,cpuacct", "throttled_time 7000000", "throttled_time 9000000"),
            (V2, "sys/fs/cgroup", "throttled_usec 7000", "throttled_usec 9000"),
        ] {
            let host = Scratch::new();
            host.file("proc/self/mountinfo", mounts);
            host.file("proc/9/cgroup", "1:cpu,cpuacct:/a/b\n0::/a/b\n");
            host.file(&format!("{at}/cgroup.controllers"), "cpu\n");
            host.file(&format!("{at}/a/b/cpu.stat"), format!("nr_periods 4\nnr_throttled 2\n{inner}\n"));
            host.file(&format!("{at}/a/cpu.stat"), format!("nr_periods 4\nnr_throttled 3\n{outer}\n"));
            // The root has no such file.
            host.file(&format!("{at}/cpu.stat"), "usage_usec 5\n");
            let expected = [(format!("{at}/a/b"), 7_000_000), (format!("{at}/a"), 9_000_000)];
            let expected = expected.map(|(path, throttled)| (host.join(path), throttled));
            assert_eq!(throttled(&HostRoot::at(host.path()), 9), expected);
        }
        assert!(throttled(&HostRoot::at(Scratch::new().path()), 9).is_empty());
    }

    #[test]
    fn a_path_below_the_mounted_part() {
        for (path, part, expected) in [
            ("/", "/", Some("")),
            ("/a/b", "/", Some("a/b")),
            ("/docker/1/x", "/docker/1", Some("x")),
            ("/docker/1", "/docker/1", Some("")),
            ("/docker/12", "/docker/1", None),
            ("/../x", "/", None),
        ] {
            assert_eq!(below(path, part), expected, "{path} in {part}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_table_panics(text in "\\PC{0,80}") {
            let _ = (group_path(&text, "io"), below(&text, "/"));
        }
    }
}
