//! The traced process: its program, its libraries, its open files and the devices below them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use engine::devices::storage_of;
use engine::process_stat::ProcessStat;
use engine::source::{HostRoot, Unavailable};

use super::elf;
use super::servers::Function;
use crate::process::numbered_entries;
use crate::reader::{lines, number};

/// A process.
pub struct Process {
    pid: u32,
    folder: PathBuf,
    /// When it started, which distinguishes it from a later process with its number.
    started: Option<u64>,
}

/// Where the function of an operation is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

impl Process {
    /// Fails if there is no such process.
    pub fn find(root: &HostRoot, pid: u32) -> Result<Process, Unavailable> {
        let folder = root.join(format!("proc/{pid}"));
        match state(&folder) {
            Some((_, started)) => Ok(Process { pid, folder, started }),
            None => Err(Unavailable(format!(
                "there is no process {pid}\n  find it, for example with `pgrep -x slapd`"
            ))),
        }
    }

    /// The folder of all processes.
    pub(super) fn parent(&self) -> &Path {
        self.folder.parent().unwrap_or(Path::new("/proc"))
    }

    /// Whether it still runs: not even as an entry that its parent has yet to collect.
    pub fn is_running(&self) -> bool {
        state(&self.folder)
            .is_some_and(|(state, started)| !matches!(state, b'Z' | b'X') && started == self.started)
    }

    /// The file name of its program; its short name if the file cannot be read.
    pub fn program(&self) -> String {
        let path = fs::read_link(self.folder.join("exe")).ok();
        let name =
            path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        // The kernel adds this to a file that was replaced, as by an upgrade.
        let name = name.map(|name| name.trim_end_matches(" (deleted)").to_string());
        name.unwrap_or_else(|| {
            fs::read_to_string(self.folder.join("comm")).unwrap_or_default().trim_end().to_string()
        })
    }

    /// Fails if its program and libraries are those of another user.
    pub(super) fn check_readable(&self) -> Result<(), Unavailable> {
        let read = File::open(self.folder.join("exe")).and_then(|_| fs::read(self.folder.join("maps")));
        read.map(drop).map_err(|error| {
            Unavailable(format!(
                "the program of process {} cannot be read: {error}; run as root, or with CAP_SYS_PTRACE too",
                self.pid
            ))
        })
    }

    /// Whether its numbers are those of this process: a process in another namespace has others in the kernel.
    pub(super) fn is_numbered_as_here(root: &HostRoot) -> bool {
        // The first namespace of a host always has this number: `PROC_PID_INIT_INO`.
        let namespace = fs::read_link(root.join("proc/self/ns/pid")).unwrap_or_default();
        namespace.as_os_str() == "pid:[4026531836]"
    }

    /// The program and its mapped libraries, each as a path that leads there from here.
    fn images(&self) -> Vec<(String, PathBuf)> {
        let mut images = vec![(String::new(), self.folder.join("exe"))];
        let text = fs::read(self.folder.join("maps")).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for path in lines(&text).filter_map(executable_mapping) {
            let name = Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
            let Some(name) = name.filter(|_| seen.insert(path.clone())) else { continue };
            // Seen from the root of the process, which may be that of a container.
            images.push((name, self.folder.join("root").join(path.trim_start_matches('/'))));
        }
        images
    }

    /// Where these functions are: in the first file that has it, the program before its libraries; each none if nothing
    /// has it.
    pub(super) fn places(&self, functions: &[Function]) -> Vec<Option<Place>> {
        let mut places: Vec<Option<Place>> = functions.iter().map(|_| None).collect();
        for (name, path) in self.images() {
            let matching = |function: &Function| match &function.library {
                Some(library) => !name.is_empty() && name.starts_with(library.as_str()),
                None => true,
            };
            let wanted: Vec<usize> = (0..functions.len())
                .filter(|at| places[*at].is_none() && matching(&functions[*at]))
                .collect();
            let symbols: Vec<&str> = wanted.iter().map(|at| functions[*at].symbol.as_str()).collect();
            for (at, place) in wanted.into_iter().zip(places_in(&path, &symbols)) {
                places[at] = place;
            }
        }
        places
    }

    /// Where a function is in every file that has it: an older C library has some of its functions twice.
    pub(super) fn all_places(&self, symbols: &[&str]) -> Vec<(usize, Place)> {
        let images = self.images();
        let found = images.iter().flat_map(|(_, path)| places_in(path, symbols).into_iter().enumerate());
        found.filter_map(|(at, place)| Some((at, place?))).collect()
    }

    /// The descriptors of regular files. None if the process belongs to another user.
    pub(super) fn file_descriptors(&self, found: &mut BTreeSet<u32>) -> Option<()> {
        let mut descriptors = Vec::new();
        found.clear();
        let folder = self.folder.join("fd");
        if !numbered_entries(&folder, &mut descriptors) {
            return None;
        }
        // Most descriptors of a server are sockets, whose link says so: that is cheaper than their metadata.
        let is_file = |descriptor: &u32| {
            let path = folder.join(descriptor.to_string());
            fs::read_link(&path).is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"/"))
                && fs::metadata(&path).is_ok_and(|data| data.is_file())
        };
        found.extend(descriptors.into_iter().filter(is_file));
        Some(())
    }

    /// The whole disks below the files that it has open for writing; below all its open files if there are none.
    pub fn disks(&self) -> Result<Vec<String>, Unavailable> {
        let mut descriptors = Vec::new();
        if !numbered_entries(&self.folder.join("fd"), &mut descriptors) {
            return Err(Unavailable(format!(
                "the open files of process {} cannot be read\n  run as its user or as root, or name the disk with --device",
                self.pid
            )));
        }
        let (mut written, mut open) = (BTreeSet::new(), BTreeSet::new());
        let mut devices = BTreeSet::new();
        for descriptor in descriptors {
            let path = self.folder.join("fd").join(descriptor.to_string());
            let Ok(data) = fs::metadata(&path) else { continue };
            let is_written = self.is_open_for_writing(descriptor);
            let kind = data.file_type();
            let device = (data.dev(), data.rdev(), is_written);
            if !(kind.is_file() || kind.is_block_device()) || devices.contains(&device) {
                continue;
            }
            let disks: Vec<String> = match kind.is_block_device() {
                true => engine::devices::disk_of(data.rdev()).into_iter().collect(),
                false => storage_of(&path).map(|storage| storage.disks).unwrap_or_default(),
            };
            // A file that was deleted since has no place; another one on the same device may have one.
            if !disks.is_empty() {
                devices.insert(device);
            }
            if is_written { written.extend(disks) } else { open.extend(disks) }
        }
        let disks = if written.is_empty() { open } else { written };
        match disks.is_empty() {
            true => Err(Unavailable(format!(
                "no open file of process {} is on a disk of this host\n  name the disk with --device, such as --device vda",
                self.pid
            ))),
            false => Ok(disks.into_iter().collect()),
        }
    }

    fn is_open_for_writing(&self, descriptor: u32) -> bool {
        let text = fs::read(self.folder.join("fdinfo").join(descriptor.to_string())).unwrap_or_default();
        is_for_writing(&text)
    }
}

/// The state of a process, and when it started.
fn state(folder: &Path) -> Option<(u8, Option<u64>)> {
    let text = fs::read(folder.join("stat")).ok()?;
    let stat = ProcessStat::parse(&text)?;
    Some((stat.state, stat.started_ticks()))
}

/// Where these functions are in one file.
fn places_in(path: &Path, symbols: &[&str]) -> Vec<Option<Place>> {
    let Ok(file) = File::open(path) else { return symbols.iter().map(|_| None).collect() };
    let place = |function| Place { path: path.into(), offset: elf::probe_offset(&file, function) };
    elf::function_offsets(&file, symbols).into_iter().map(|offset| offset.map(place)).collect()
}

/// `flags: 0100002`, whose last two bits are the access mode.
fn is_for_writing(fdinfo: &[u8]) -> bool {
    let flags = lines(fdinfo).find_map(|line| line.strip_prefix(b"flags:"));
    let flags = flags.and_then(|flags| std::str::from_utf8(flags.trim_ascii()).ok());
    flags.and_then(|flags| u32::from_str_radix(flags, 8).ok()).is_some_and(|flags| flags & 0b11 != 0)
}

/// The file of an executable mapping: `7f4c1000-7f4c2000 r-xp 00026000 fe:00 131 /usr/lib/libc.so.6`.
fn executable_mapping(line: &[u8]) -> Option<String> {
    let mut rest = line;
    let mut fields = [&[] as &[u8]; 5];
    for field in &mut fields {
        let end = rest.iter().position(|byte| *byte == b' ')?;
        (*field, rest) = (&rest[..end], rest[end..].trim_ascii_start());
    }
    let path = std::str::from_utf8(rest).ok()?;
    (fields[1].get(2) == Some(&b'x') && path.starts_with('/')).then(|| path.to_string())
}

/// The number of a disk as the kernel's tracepoints have it, from `254:0`.
pub(super) fn device_number(root: &HostRoot, disk: &str) -> Result<u64, Unavailable> {
    let text = match disk.contains('/') {
        true => None,
        false => fs::read(root.join(format!("sys/class/block/{disk}/dev"))).ok(),
    };
    let parse = |text: &[u8]| {
        let mut numbers = text.trim_ascii().split(|byte| *byte == b':').map(number);
        Some(numbers.next()?? << 20 | numbers.next()??)
    };
    text.as_deref().and_then(parse).ok_or_else(|| {
        Unavailable(format!("there is no disk `{disk}`\n  `lsblk` lists them; write the name without /dev/"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_mapped_code_of_files_is_searched() {
        for (line, expected) in [
            ("7f4c1000-7f4c2000 r-xp 00026000 fe:00 131      /usr/lib/libc.so.6", Some("/usr/lib/libc.so.6")),
            (
                "7f4c1000-7f4c2000 r-xp 00026000 fe:00 131      /opt/my server/slapd",
                Some("/opt/my server/slapd"),
            ),
            ("7f4c1000-7f4c2000 r--p 00026000 fe:00 131      /usr/lib/libc.so.6", None),
            ("7ffd1000-7ffd2000 r-xp 00000000 00:00 0        [vdso]", None),
            ("7f4c1000-7f4c2000 r-xp 00000000 00:00 0 ", None),
            ("", None),
        ] {
            assert_eq!(executable_mapping(line.as_bytes()).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_descriptor_shows_whether_its_file_is_written() {
        for (text, expected) in [
            ("pos:\t0\nflags:\t0100002\n", true),
            ("flags:\t01\n", true),
            ("flags:\t0100000\n", false),
            ("", false),
        ] {
            assert_eq!(is_for_writing(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn numbers_of_disks_are_those_of_the_kernel() {
        let host = crate::fixture::Host::copy_of("vm");
        host.write("sys/class/block/nvme0n1/dev", "259:3\n");
        host.write("sys/class/block/broken/dev", "x\n");
        assert_eq!(device_number(&host.root(), "nvme0n1"), Ok(259 << 20 | 3));
        for disk in ["broken", "none", "../sda"] {
            assert!(device_number(&host.root(), disk).is_err(), "{disk}");
        }
    }

    #[test]
    fn this_process_has_its_program_and_functions() {
        let process = Process::find(&HostRoot::live(), std::process::id()).unwrap();
        assert!(process.is_running() && process.program().starts_with("plimsoll_counters"));
        let functions = ["main", "libc:read", "no_such_function"].map(|text| Function::parse(text).unwrap());
        let places = process.places(&functions);
        assert!(places[0].is_some() && places[1].is_some() && places[2].is_none(), "{places:?}");
        let found = Process::find(&HostRoot::live(), u32::MAX).err().unwrap();
        assert!(found.0.contains("no process 4294967295"));
    }

    proptest! {
        #[test]
        fn damage_causes_no_panic(text: Vec<u8>) {
            let _ = executable_mapping(&text);
            let _ = is_for_writing(&text);
        }
    }
}
