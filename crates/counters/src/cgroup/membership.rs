//! The groups of a process, and how their limits throttle it.

use engine::source::HostRoot;
use model::Nanos;

use super::hierarchy::{CgroupValues, Files, Hierarchies, Place};
use super::io_limit::{IoLimits, IoRates};
use crate::mounts;
use crate::reader::{Buffer, KernelFile};

/// The groups of one process, followed when it is moved.
pub(crate) struct Membership {
    hierarchies: Hierarchies,
    of: Option<(u32, KernelFile)>,
    text: String,
    groups: Option<(Files, IoLimits)>,
}

impl Membership {
    pub(crate) fn new(root: &HostRoot, buffer: &mut Buffer) -> Self {
        let text = KernelFile::new(root, "proc/mounts").read(buffer).unwrap_or_default();
        Membership {
            hierarchies: Hierarchies::find(root, &mounts::parse(text)),
            of: None,
            text: String::new(),
            groups: None,
        }
    }

    /// The limits of the groups of process `pid`. Those on CPU time and memory are of these groups only,
    /// not of their parents; those on I/O include all that apply.
    pub(crate) fn limits(
        &mut self,
        root: &HostRoot,
        pid: u32,
        now: Nanos,
        buffer: &mut Buffer,
    ) -> Option<(CgroupValues, IoRates)> {
        if self.of.as_ref().is_none_or(|(known, _)| *known != pid) {
            self.of = Some((pid, KernelFile::new(root, &format!("proc/{pid}/cgroup"))));
        }
        let (_, file) = self.of.as_mut()?;
        let text = std::str::from_utf8(file.read_once(buffer)?).ok()?;
        if text != self.text {
            self.text = text.to_string();
            let place = Place::OfProcess(text);
            let io_limits = IoLimits::new(&self.hierarchies, place);
            self.groups = Some((self.hierarchies.limit_files(place), io_limits));
        }
        let (files, io_limits) = self.groups.as_mut()?;
        Some((files.read(buffer), io_limits.read(now, buffer)))
    }
}
