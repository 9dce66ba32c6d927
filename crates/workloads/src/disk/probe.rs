//! What a disk load would find here, without driving one: for those who ask what a machine permits.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use engine::allowed::Opener;

use super::buffer::Buffers;
use super::ring;
use super::target::{Kind, Target, direct_alignment, probe_direct};

/// What io_uring gives this process: the setup flags the kernel accepts, in the words of `io_uring_setup(2)`.
pub fn probe_io_uring() -> io::Result<&'static [&'static str]> {
    ring::probe().map(ring::RingFlags::words)
}

/// What lies below a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Type of the file system, such as `ext4`; none for a block device.
    pub file_system: Option<String>,
    /// The block devices below, whole disks; empty when there is none (tmpfs, network).
    pub disks: Vec<String>,
    /// What direct I/O asks of memory and offsets, in bytes; none where the kernel does not say.
    pub direct_alignment: Option<u32>,
    /// Whether one block could be read with direct I/O; else why not, in the kernel's words.
    pub direct: Result<(), String>,
}

/// Looks below a folder, a file or a block device, and reads one block with direct I/O. In a folder the block is first
/// written to an unnamed file, which is gone when this returns; a file or device that is there is only read.
pub fn probe_storage(path: &Path) -> io::Result<Storage> {
    let target =
        if path.is_dir() { Target::in_folder(path)? } else { Target::inspect(&Opener::default(), path)? };
    let direct = probe_direct(&target);
    let alignment = direct.as_ref().ok().and_then(direct_alignment);
    let unnamed = target.kind == Kind::Missing;
    Ok(Storage {
        file_system: target.file_system(),
        disks: target.disks(),
        direct_alignment: alignment.map(|alignment| alignment.memory.max(alignment.offset)),
        direct: direct.and_then(|file| one_block(&file.into(), unnamed)).map_err(|error| error.to_string()),
    })
}

/// Reads the first block, after writing it when the file is our own.
fn one_block(file: &File, write: bool) -> io::Result<()> {
    const BLOCK: usize = 4096;
    let mut buffers = Buffers::new(1, BLOCK)?;
    let block = buffers.block(0, BLOCK);
    if write {
        file.write_all_at(block, 0)?;
    }
    file.read_at(block, 0).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scratch;
    use super::*;

    #[test]
    fn a_folder_and_a_file_in_it_lie_on_the_same_ground() {
        let folder = Scratch::new("probe");
        std::fs::write(folder.path("data"), vec![1u8; 8192]).unwrap();
        let of_folder = probe_storage(&folder.path("")).unwrap();
        let of_file = probe_storage(&folder.path("data")).unwrap();
        assert_eq!((&of_folder.file_system, &of_folder.disks), (&of_file.file_system, &of_file.disks));
        assert!(of_folder.file_system.is_some());
        let left: Vec<_> = std::fs::read_dir(folder.path("")).unwrap().collect();
        assert_eq!(left.len(), 1, "the probe leaves nothing behind");
        assert_eq!(std::fs::read(folder.path("data")).unwrap(), vec![1u8; 8192]);
    }

    /// Opening one would block until somebody writes to it.
    #[test]
    fn a_fifo_is_not_opened_whoever_put_it_there() {
        let folder = Scratch::new("fifo");
        let directory = File::open(folder.path("")).unwrap();
        for name in ["fifo", ".plimsoll-probe", "new"] {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
            rustix::fs::mknodat(&directory, name, kind, mode, 0).unwrap();
        }
        assert!(probe_storage(&folder.path("")).unwrap().file_system.is_some());
        assert!(probe_storage(&folder.path("fifo")).unwrap().direct.is_err());
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        assert!(probe_storage(Path::new("/nonexistent/folder")).is_err());
    }
}
