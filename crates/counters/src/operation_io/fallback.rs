//! Counters of the process and of the device, where the kernel may not be traced: they know no operations.

use std::fs;

use engine::source::{HostRoot, Unavailable};
use model::operation_io::{IoCounts, IoKind, RowOrigin, TraceRow};

use super::process::Process;
use crate::cgroup::GroupIo;
use crate::diskstats::statistics_of;
use crate::reader::{Buffer, KernelFile, named_numbers};

/// The counters of one process and of the disks below its files.
pub struct ProcessCounters {
    process: Process,
    buffer: Buffer,
    io: KernelFile,
    device: DeviceCounters,
    before: [IoCounts; 2],
}

/// Where requests to the device are counted.
enum DeviceCounters {
    /// The control group of the process: its own requests only.
    Group(Box<GroupIo>),
    /// The whole disks: requests of all processes.
    Disks(KernelFile, Vec<String>),
}

impl ProcessCounters {
    /// Opens them.
    pub fn open(root: &HostRoot, pid: u32, disks: &[String]) -> Result<ProcessCounters, Unavailable> {
        let process = Process::find(root, pid)?;
        let mut buffer = Buffer::new();
        let device = match GroupIo::of_process(root, pid, &mut buffer) {
            Some(group) => DeviceCounters::Group(Box::new(group)),
            None => DeviceCounters::Disks(KernelFile::new(root, "proc/diskstats"), disks.to_vec()),
        };
        let io = KernelFile::new(root, &format!("proc/{pid}/io"));
        let before = [IoCounts::new(), IoCounts::new()];
        let mut counters = ProcessCounters { process, buffer, io, device, before };
        counters.before = counters.totals();
        match counters.before.iter().all(IoCounts::is_empty) {
            true => Err(Unavailable(format!(
                "neither /proc/{pid}/io nor the counters of its disks can be read\n  run as the user of the process or as root"
            ))),
            false => Ok(counters),
        }
    }

    /// Whether the process still runs.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    fn totals(&mut self) -> [IoCounts; 2] {
        let process = self.io.read_once(&mut self.buffer).map(process_io).unwrap_or_default();
        let device = match &mut self.device {
            DeviceCounters::Group(group) => group_io(group.read(&mut self.buffer)),
            DeviceCounters::Disks(file, disks) => {
                file.read(&mut self.buffer).map(|text| disks_io(text, disks)).unwrap_or_default()
            }
        };
        [process, device]
    }

    /// The counts since the previous read: of the process, and of the device.
    pub fn read(&mut self) -> Vec<TraceRow> {
        let now = self.totals();
        let before = std::mem::replace(&mut self.before, now);
        let mut since = self.before.iter().zip(&before).map(|(now, before)| {
            // A counter that is new or went backwards has no increase.
            let increase =
                |(kind, value): (&IoKind, &u64)| Some((*kind, value.checked_sub(*before.get(kind)?)?));
            now.iter().filter_map(increase).collect::<IoCounts>()
        });
        let process = since.next().unwrap_or_default();
        let device = since.next().unwrap_or_default();
        vec![TraceRow::of_origin(RowOrigin::Process, process), TraceRow::of_origin(RowOrigin::Device, device)]
    }

    /// Where the columns come from: system calls, requests.
    pub fn methods(&self) -> [String; 2] {
        let calls = match self.before[0].is_empty() {
            true => "not counted: /proc/PID/io cannot be read".into(),
            false => "/proc/PID/io, sockets and pipes included".into(),
        };
        let device = match &self.device {
            DeviceCounters::Group(group) => format!("{} of the control group", group.file()),
            DeviceCounters::Disks(_, disks) => {
                format!("/proc/diskstats of {}, all processes", disks.join(" and "))
            }
        };
        [calls, device]
    }
}

/// `/proc/PID/io`. Its `read_bytes` and `write_bytes` are left out: they count whole folios of the page cache, which was
/// three times what reached the device.
fn process_io(text: &[u8]) -> IoCounts {
    let kind = |name: &[u8]| match name {
        b"rchar" => Some(IoKind::ReadCallBytes),
        b"wchar" => Some(IoKind::WriteCallBytes),
        b"syscr" => Some(IoKind::ReadCalls),
        b"syscw" => Some(IoKind::WriteCalls),
        _ => None,
    };
    named_numbers(text).filter_map(|(name, value)| Some((kind(name)?, value))).collect()
}

/// Bytes read and written, reads and writes of a control group. Its writes include flushes.
fn group_io([read_bytes, write_bytes, reads, writes]: [Option<u64>; 4]) -> IoCounts {
    let counts = [
        (IoKind::DeviceReadBytes, read_bytes),
        (IoKind::DeviceWriteBytes, write_bytes),
        (IoKind::DeviceReads, reads),
        (IoKind::DeviceWrites, writes),
    ];
    counts.into_iter().filter_map(|(kind, count)| Some((kind, count?))).collect()
}

/// The sum over these disks.
fn disks_io(text: &[u8], disks: &[String]) -> IoCounts {
    const SECTOR_BYTES: u64 = 512;
    let mut sum = IoCounts::new();
    for statistics in disks.iter().filter_map(|disk| statistics_of(text, disk)) {
        let [reads, _, read_sectors, _, writes, _, write_sectors, ..] = statistics;
        let [discards, flushes] = [statistics[11], statistics[15]];
        let bytes = |sectors: Option<u64>| sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
        for (kind, count) in [
            (IoKind::DeviceReads, reads),
            (IoKind::DeviceReadBytes, bytes(read_sectors)),
            (IoKind::DeviceWrites, writes),
            (IoKind::DeviceWriteBytes, bytes(write_sectors)),
            (IoKind::DeviceFlushes, flushes),
            (IoKind::DeviceOthers, discards),
        ] {
            if let Some(count) = count {
                let sum = sum.entry(kind).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }
    sum
}

/// New lines of a log that match, for operations that nothing else counts.
pub struct LogLines {
    path: std::path::PathBuf,
    offset: u64,
    rest: Vec<u8>,
}

/// A line is read up to this length; what follows is skipped.
const LINE_BYTES_MAX: usize = 64 << 10;
/// A read of a log takes at most this much, so that a log that grows faster is read on at the next interval.
const READ_BYTES_MAX: u64 = 64 << 20;

impl LogLines {
    /// From the present end of the file.
    pub fn open(path: &std::path::Path) -> Result<LogLines, Unavailable> {
        let length = fs::metadata(path).map(|data| data.len());
        let offset = length.map_err(|error| {
            Unavailable(format!(
                "the log {} cannot be read: {error}\n  name an existing file with --log",
                path.display()
            ))
        })?;
        Ok(LogLines { path: path.into(), offset, rest: Vec::new() })
    }

    /// Gives each new complete line to `each`. A file that became shorter, as after a rotation, is read from its start.
    pub fn read(&mut self, mut each: impl FnMut(&str)) -> Result<(), Unavailable> {
        use std::io::{Read, Seek, SeekFrom};
        let failed = |error: std::io::Error| Unavailable(format!("{}: {error}", self.path.display()));
        let mut file = fs::File::open(&self.path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() < self.offset {
            self.offset = 0;
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut left = READ_BYTES_MAX;
        let mut piece = vec![0; LINE_BYTES_MAX];
        while left > 0 {
            let read = match file.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            left = left.saturating_sub(read as u64);
            self.offset += read as u64;
            let mut lines = piece[..read].split(|byte| *byte == b'\n').peekable();
            while let Some(line) = lines.next() {
                let room = LINE_BYTES_MAX.saturating_sub(self.rest.len());
                self.rest.extend_from_slice(&line[..line.len().min(room)]);
                if lines.peek().is_some() {
                    each(&String::from_utf8_lossy(&self.rest));
                    self.rest.clear();
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Host;

    #[test]
    fn the_overstated_bytes_of_a_process_are_not_used() {
        let text = b"rchar: 10\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 50\nwrite_bytes: 60\ncancelled_write_bytes: 0\n";
        let found = process_io(text);
        let expected = [
            (IoKind::ReadCalls, 3),
            (IoKind::ReadCallBytes, 10),
            (IoKind::WriteCalls, 4),
            (IoKind::WriteCallBytes, 20),
        ];
        assert_eq!(found, IoCounts::from(expected));
        assert!(process_io(b"syscr: x\n\n\xff").is_empty());
    }

    #[test]
    fn disks_are_added_up() {
        let text =
            b" 254 0 vda 10 0 80 5 20 0 160 7 0 9 12 1 0 8 1 6 2\n 254 16 vdb 1 0 8 1 2 0 16 1 0 1 1\n";
        let disks = ["vda".to_string(), "vdb".to_string()];
        let found = disks_io(text, &disks);
        assert_eq!(found[&IoKind::DeviceReads], 11);
        assert_eq!(found[&IoKind::DeviceWriteBytes], 176 * 512);
        // The second is from a kernel that does not count flushes.
        assert_eq!((found[&IoKind::DeviceFlushes], found[&IoKind::DeviceOthers]), (6, 1));
        assert!(disks_io(b"garbage\n 254 0 vda x\n", &disks).is_empty());
    }

    #[test]
    fn increases_are_between_reads() {
        let host = Host::copy_of("vm");
        host.write("proc/77/stat", "77 (slapd) S 1 77");
        host.write("proc/77/io", "rchar: 10\nsyscr: 3\n");
        host.write("proc/diskstats", " 254 0 vda 10 0 80 5 20 0 160 7 0 9 12 1 0 8 1 6 2\n");
        let mut counters = ProcessCounters::open(&host.root(), 77, &["vda".into()]).unwrap();
        host.write("proc/77/io", "rchar: 30\nsyscr: 2\n");
        host.write("proc/diskstats", " 254 0 vda 12 0 96 5 20 0 160 7 0 9 12 1 0 8 1 9 2\n");
        let rows = counters.read();
        // A counter that went backwards is absent.
        assert_eq!(rows[0].io, IoCounts::from([(IoKind::ReadCallBytes, 20)]));
        assert_eq!((rows[1].io[&IoKind::DeviceReads], rows[1].io[&IoKind::DeviceFlushes]), (2, 3));
        assert!(counters.methods()[1].contains("/proc/diskstats of vda"));
        assert!(counters.is_running());
        host.remove("proc/77");
        assert!(!counters.is_running() && counters.read()[0].io.is_empty());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test writes a log")]
    fn new_lines_of_a_log_are_read_once() {
        let folder = testkit::Scratch::new();
        let path = folder.file("log", "old\n");
        let mut log = LogLines::open(&path).unwrap();
        let read = |log: &mut LogLines| {
            let mut lines = Vec::new();
            log.read(|line| lines.push(line.to_string())).unwrap();
            lines
        };
        fs::write(&path, "old\none\ntwo\nhal").unwrap();
        assert_eq!(read(&mut log), ["one", "two"]);
        fs::write(&path, "old\none\ntwo\nhalf\n").unwrap();
        assert_eq!(read(&mut log), ["half"]);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(read(&mut log), ["new"]);
        assert!(read(&mut log).is_empty());
        assert!(LogLines::open(&folder.join("none")).is_err());
    }
}
