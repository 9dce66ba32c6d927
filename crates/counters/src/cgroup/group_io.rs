//! The requests of the control group of a process to block devices.

use engine::source::HostRoot;

use super::hierarchy::{Files, Hierarchies, Place};
use crate::mounts;
use crate::reader::{Buffer, KernelFile};

/// The counters of one group.
pub(crate) struct GroupIo {
    files: Files,
    file: &'static str,
}

impl GroupIo {
    /// Those of the group of a process: of version 2, else of version 1. None if it is in the root group, which counts all
    /// processes, or if the kernel does not count.
    pub(crate) fn of_process(root: &HostRoot, pid: u32, buffer: &mut Buffer) -> Option<GroupIo> {
        let text = KernelFile::new(root, "proc/mounts").read(buffer)?;
        let hierarchies = Hierarchies::find(root, &mounts::parse(text));
        let text = KernelFile::new(root, &format!("proc/{pid}/cgroup")).read_once(buffer)?;
        let text = std::str::from_utf8(text).ok()?.to_string();
        let files = hierarchies.io_files(Place::OfProcess(&text));
        files.into_iter().find_map(|(file, files)| {
            let mut group = GroupIo { files, file };
            group.read(buffer).iter().any(Option::is_some).then_some(group)
        })
    }

    /// The name of its file.
    pub(crate) fn file(&self) -> &'static str {
        self.file
    }

    /// Bytes read, bytes written, reads, writes, since the group was made.
    pub(crate) fn read(&mut self, buffer: &mut Buffer) -> [Option<u64>; 4] {
        self.files.read(buffer).io
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Host;

    #[test]
    fn the_group_of_a_process_is_found_in_either_version() {
        let host = Host::copy_of("vm");
        let mounts = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n";
        host.write("proc/mounts", mounts);
        host.write("proc/77/cgroup", "4:blkio:/ldap\n0::/system.slice/slapd.service\n");
        let mut buffer = Buffer::new();
        assert!(GroupIo::of_process(&host.root(), 77, &mut buffer).is_none());
        let v1 = "sys/fs/cgroup/blkio/ldap/blkio.throttle";
        host.write(
            &format!("{v1}.io_service_bytes_recursive"),
            "254:0 Read 4096\n254:0 Write 8192\nTotal 12288\n",
        );
        host.write(&format!("{v1}.io_serviced_recursive"), "254:0 Read 1\n254:0 Write 2\nTotal 3\n");
        let mut group = GroupIo::of_process(&host.root(), 77, &mut buffer).unwrap();
        assert_eq!(group.read(&mut buffer), [Some(4096), Some(8192), Some(1), Some(2)]);
        assert_eq!(group.file(), "blkio.throttle");
        host.write(
            "sys/fs/cgroup/unified/system.slice/slapd.service/io.stat",
            "254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
        );
        let mut group = GroupIo::of_process(&host.root(), 77, &mut buffer).unwrap();
        assert_eq!(
            (group.read(&mut buffer), group.file()),
            ([Some(1), Some(2), Some(3), Some(4)], "io.stat")
        );
        // The root group counts all processes.
        host.write("proc/77/cgroup", "4:blkio:/\n0::/\n");
        assert!(GroupIo::of_process(&host.root(), 77, &mut buffer).is_none());
    }
}
