//! The mounted file systems, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::{HostRoot, Unavailable};

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number of its device, `MAJOR:MINOR`.
    pub device: String,
    /// The mounted part of the file system; `/` for the whole file system.
    pub part: String,
    /// The mount point, as this process sees it.
    pub point: PathBuf,
    /// The type, for example `ext4`.
    pub file_system: String,
    /// The device, or the text given instead.
    pub source: String,
    /// Options of the file system, separated by commas.
    pub options: String,
}

/// All mounts in the order of mounting; invalid lines are skipped.
///
/// # Errors
/// When the mount table cannot be read.
pub fn mounts(root: &HostRoot) -> Result<Vec<Mount>, Unavailable> {
    let file = root.join("proc/self/mountinfo");
    let text =
        fs::read_to_string(&file).map_err(|error| Unavailable(format!("{}: {error}", file.display())))?;
    Ok(text.lines().filter_map(parse).collect())
}

/// The mount of a path without links: the one with the longest mount point, and the last of several at the
/// same place.
pub fn mount_of(mounts: Vec<Mount>, path: &Path) -> Option<Mount> {
    let around = mounts.into_iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.as_os_str().len())
}

/// What keeps the files of a mount that has no block device on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Another host, over the network, or the host of this virtual machine.
    Network,
    /// A program (FUSE): whatever it does with the data, the kernel has no counters of it.
    Program,
    /// Memory.
    Memory,
}

/// Types of file systems whose files another host keeps (filesystems(5) and the kernel's `fs` folder).
const NETWORK: &[&str] = &[
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs",
    "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
];

/// Types of file systems that are memory.
pub const MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

impl Mount {
    /// What keeps its files, by its type; none for a file system on a block device, and for unknown types.
    pub fn medium(&self) -> Option<Medium> {
        let file_system = self.file_system.as_str();
        match () {
            () if NETWORK.contains(&file_system) => Some(Medium::Network),
            // `fuseblk` has a block device.
            () if file_system == "fuse" || file_system.starts_with("fuse.") => Some(Medium::Program),
            () if MEMORY.contains(&file_system) => Some(Medium::Memory),
            () => None,
        }
    }
}

/// The fields between the mount point and the dash are not needed.
fn parse(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2).map(|field| unescape(field.as_bytes()));
    let mut file_system = file_system.split(' ').map(|field| unescape(field.as_bytes()));
    Some(Mount {
        device: mount.next()?,
        part: mount.next()?,
        point: mount.next()?.into(),
        file_system: file_system.next()?,
        source: file_system.next()?,
        options: file_system.next()?,
    })
}

/// Decodes a field of a mount table: blanks, tabs, newlines and backslashes are written as a backslash and
/// three octal digits.
pub fn unescape(field: &[u8]) -> String {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if first == b'\\' => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::Scratch;

    use super::*;

    #[test]
    fn optional_fields_are_passed_over_and_names_with_blanks_unescaped() {
        let host = Scratch::new();
        assert!(mounts(&HostRoot::at(host.path())).is_err());
        host.file(
            "proc/self/mountinfo",
            "36 35 98:0 /sub /my\\040disk rw,noatime master:1 shared:7 - ext4 /dev/sda1 rw,errors=continue\n\
             broken line\n\
             30 25 0:26 / /cg rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        let mount =
            |device: &str, part: &str, point: &str, file_system: &str, source: &str, options: &str| Mount {
                device: device.into(),
                part: part.into(),
                point: point.into(),
                file_system: file_system.into(),
                source: source.into(),
                options: options.into(),
            };
        assert_eq!(
            mounts(&HostRoot::at(host.path())).unwrap(),
            [
                mount("98:0", "/sub", "/my disk", "ext4", "/dev/sda1", "rw,errors=continue"),
                mount("0:26", "/", "/cg", "cgroup", "cgroup", "rw,cpu,cpuacct"),
            ]
        );
    }

    /// Lines as kernels print them: an NFS and an SMB share, a folder of a hypervisor's host, FUSE, and disks.
    const SHARES: &str = "\
        22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard\n\
        301 22 0:48 / /mnt/nfs rw,relatime shared:157 - nfs4 nas1:/export/data rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.5,local_lock=none,addr=10.0.0.9\n\
        305 22 0:50 / /mnt/old rw,relatime shared:160 - nfs nas1:/old rw,vers=3,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,mountaddr=10.0.0.9,mountvers=3,local_lock=none,addr=10.0.0.9\n\
        309 22 0:52 / /mnt/smb rw,relatime shared:165 - cifs //files/team\\040share rw,vers=3.1.1,cache=strict,username=u,uid=0,gid=0,addr=10.0.0.7\n\
        312 22 0:53 / /mnt/host rw,relatime shared:170 - 9p hostshare rw,access=client,trans=virtio\n\
        315 22 0:54 / /mnt/ssh rw,nosuid,nodev,relatime shared:175 - fuse.sshfs u@h:/data rw,user_id=0,group_id=0\n\
        318 22 8:17 / /mnt/ntfs rw,relatime shared:180 - fuseblk /dev/sdb1 rw,user_id=0,group_id=0,allow_other,blksize=4096\n\
        320 22 0:55 /@data /mnt/btrfs rw,relatime shared:185 - btrfs /dev/sdc1 rw,space_cache=v2,subvolid=258,subvol=/@data\n\
        322 22 0:56 / /mnt/ram rw,relatime shared:190 - tmpfs tmpfs rw,size=1048576k\n\
        330 322 0:57 / /mnt/ram/nfs rw,relatime shared:191 - nfs4 nas1:/b rw,vers=4.2\n";

    #[test]
    fn shares_programs_and_memory_are_distinguished_from_disks_by_their_type() {
        let host = Scratch::new();
        host.file("proc/self/mountinfo", SHARES);
        let on = |path: &str| {
            let mount = mount_of(mounts(&HostRoot::at(host.path())).unwrap(), Path::new(path)).unwrap();
            (mount.medium(), mount.source)
        };
        use Medium::{Memory, Network, Program};
        for (path, medium, source) in [
            ("/data/a.bin", None, "/dev/vda1"),
            ("/mnt/nfs/a.bin", Some(Network), "nas1:/export/data"),
            ("/mnt/nfsx/a.bin", None, "/dev/vda1"),
            ("/mnt/old", Some(Network), "nas1:/old"),
            ("/mnt/smb/a/b.bin", Some(Network), "//files/team share"),
            ("/mnt/host/a.bin", Some(Network), "hostshare"),
            ("/mnt/ssh/a.bin", Some(Program), "u@h:/data"),
            ("/mnt/ntfs/a.bin", None, "/dev/sdb1"),
            ("/mnt/btrfs/a.bin", None, "/dev/sdc1"),
            ("/mnt/ram/a.bin", Some(Memory), "tmpfs"),
            ("/mnt/ram/nfs/a.bin", Some(Network), "nas1:/b"),
        ] {
            assert_eq!(on(path), (medium, source.to_string()), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }
    }
}
