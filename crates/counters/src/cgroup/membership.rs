//! The groups a process is in, and how their limits hold it back.

use engine::source::HostRoot;

use super::hierarchy::{Files, Found, Hierarchies, Place};
use crate::mounts;
use crate::reader::{Buffer, KernelFile};

/// The groups of one process, followed when it is moved.
pub(crate) struct Membership {
    hierarchies: Hierarchies,
    of: Option<(u32, KernelFile)>,
    text: String,
    files: Option<Files>,
}

impl Membership {
    pub(crate) fn new(root: &HostRoot, buffer: &mut Buffer) -> Self {
        let text = KernelFile::new(root, "proc/mounts").read(buffer).unwrap_or_default();
        Membership {
            hierarchies: Hierarchies::find(root, &mounts::parse(text)),
            of: None,
            text: String::new(),
            files: None,
        }
    }

    /// The limits of the groups that process `pid` is in, of itself and not of what they lie in; nothing for one that
    /// is in no group but the root of each hierarchy.
    pub(crate) fn limits(&mut self, root: &HostRoot, pid: u32, buffer: &mut Buffer) -> Option<Found> {
        if self.of.as_ref().is_none_or(|(known, _)| *known != pid) {
            self.of = Some((pid, KernelFile::new(root, &format!("proc/{pid}/cgroup"))));
        }
        let (_, file) = self.of.as_mut()?;
        let text = std::str::from_utf8(file.read_once(buffer)?).ok()?;
        if text != self.text {
            self.text = text.to_string();
            let in_some = text.lines().any(|line| !line.ends_with(":/"));
            let place = Place::OfProcess(text);
            self.files = in_some.then(|| self.hierarchies.files(place).of_limits().but_for_the_root(place));
        }
        Some(self.files.as_mut()?.read(buffer))
    }
}
