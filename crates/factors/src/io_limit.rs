//! `host.disk.io_limit`: the read and write rates of the target on a device.

use std::fs;
use std::path::Path;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{HostResource, IoLimits, Level, MILLISECOND, Nanos, SettingKind};

use crate::cgroup::{IO, OwnGroup, Version, write};
use crate::device::Device;

/// The factor.
pub const IO_LIMIT: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.disk.io_limit",
        kind: SettingKind::IoLimit,
        about: "Limit of the target's reads and of its writes on a device, in operations or bytes per second each. `on` names the device; default: the device of the workload's files, or the only disk. With cgroup v1, writes through the page cache are not throttled.",
        resource: Some(HostResource::Disk),
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

/// The kernel grants I/O in slices of up to 100 ms; after two slices the previous limit has no effect any
/// more.
const UNTIL_IT_COUNTS: Nanos = 200 * MILLISECOND;

/// The four limits of a device; none is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Throttle {
    read_iops: Option<u64>,
    write_iops: Option<u64>,
    read_bytes_per_s: Option<u64>,
    write_bytes_per_s: Option<u64>,
}

/// The files of v1, in the order of [`Throttle::values`].
const V1_FILES: [&str; 4] = [
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
];

/// The keys of `io.max` in v2, in the same order.
const V2_KEYS: [&str; 4] = ["riops", "wiops", "rbps", "wbps"];

impl Throttle {
    fn from_level(level: &Level) -> Result<Throttle, Unavailable> {
        let limits = IoLimits::from_level(level).ok_or_else(|| {
            Unavailable(format!("{level} is not a limit of operations or bytes per second"))
        })?;
        // The kernel accepts integers from 1: operations in 32 bits, bytes in 64.
        let whole = |value: Option<f64>, max: f64, unit: &str| match value {
            None => Ok(None),
            Some(value) if (1.0..max).contains(&value) => Ok(Some(value.round() as u64)),
            Some(_) => Err(Unavailable(format!(
                "{level} cannot be a limit: the kernel takes whole {unit} per second, at least 1"
            ))),
        };
        let operations = |value| whole(value, f64::from(u32::MAX), "operations");
        let bytes = |value| whole(value, 9e18, "bytes");
        Ok(Throttle {
            read_iops: operations(limits.reads_per_s)?,
            write_iops: operations(limits.writes_per_s)?,
            read_bytes_per_s: bytes(limits.read_bytes_per_s)?,
            write_bytes_per_s: bytes(limits.write_bytes_per_s)?,
        })
    }

    fn to_limits(self) -> IoLimits {
        let [reads_per_s, writes_per_s, read_bytes_per_s, write_bytes_per_s] =
            self.values().map(|value| value.map(|value| value as f64));
        IoLimits { reads_per_s, writes_per_s, read_bytes_per_s, write_bytes_per_s }
    }

    fn values(self) -> [Option<u64>; 4] {
        [self.read_iops, self.write_iops, self.read_bytes_per_s, self.write_bytes_per_s]
    }

    fn from_values(values: [Option<u64>; 4]) -> Throttle {
        let [read_iops, write_iops, read_bytes_per_s, write_bytes_per_s] = values;
        Throttle { read_iops, write_iops, read_bytes_per_s, write_bytes_per_s }
    }

    /// The files of a group and the text to write into each, to set the limits of a device.
    fn texts(self, version: Version, device: &Device) -> Vec<(String, String)> {
        match version {
            Version::V1 => V1_FILES
                .iter()
                .zip(self.values())
                .map(|(file, value)| (file.to_string(), format!("{device} {}", value.unwrap_or(0))))
                .collect(),
            Version::V2 => {
                let mut line = device.to_string();
                for (key, value) in V2_KEYS.iter().zip(self.values()) {
                    let value = value.map_or("max".to_string(), |value| value.to_string());
                    line.push_str(&format!(" {key}={value}"));
                }
                vec![("io.max".into(), line)]
            }
        }
    }

    /// Sets the limits of a device for a group.
    fn write(self, version: Version, group: &Path, device: &Device) -> Result<(), Unavailable> {
        let texts = self.texts(version, device);
        texts.iter().try_for_each(|(file, text)| write(&group.join(file), text))
    }

    /// The current limits of a device for a group. The root of v2 has no limits and no file.
    fn read(version: Version, group: &Path, device: &Device) -> Result<Throttle, Unavailable> {
        let text = |file: &str| match fs::read_to_string(group.join(file)) {
            Err(error) if version == Version::V2 && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(String::new())
            }
            text => text.map_err(|error| Unavailable(format!("{}: {error}", group.join(file).display()))),
        };
        let mut values = [None; 4];
        match version {
            Version::V1 => {
                for (file, value) in V1_FILES.iter().zip(&mut values) {
                    *value = device_line(&text(file)?, device).and_then(|rest| rest.trim().parse().ok());
                }
            }
            Version::V2 => {
                let io_max = text("io.max")?;
                for word in device_line(&io_max, device).unwrap_or("").split_ascii_whitespace() {
                    if let Some((key, limit)) = word.split_once('=')
                        && let Some(place) = V2_KEYS.iter().position(|known| *known == key)
                    {
                        values[place] = limit.parse().ok();
                    }
                }
            }
        }
        Ok(Throttle::from_values(values))
    }
}

/// The text after a device's number on its line.
fn device_line<'a>(text: &'a str, device: &Device) -> Option<&'a str> {
    let number = device.to_string();
    text.lines().find_map(|line| line.strip_prefix(&number)?.strip_prefix(' '))
}

struct IoLimit {
    device: Device,
    group: OwnGroup,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    Ok(Box::new(IoLimit::open(target)?))
}

impl IoLimit {
    fn open(target: &FactorTarget) -> Result<IoLimit, Unavailable> {
        let device = Device::find(&target.root, target.on.as_deref(), &target.files)?;
        let group = OwnGroup::plan(&target.root, &target.processes, IO)?;
        Ok(IoLimit { device, group })
    }

    fn version(&self) -> Version {
        self.group.home().version
    }
}

impl Factor for IoLimit {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        Throttle::from_level(level)?;
        // The root group of v1 has the same files as its children.
        let file = self.group.home().path.join(V1_FILES[0]);
        if self.version() == Version::V1 && !file.exists() {
            return Err(Unavailable(format!(
                "the kernel was built without I/O throttling (CONFIG_BLK_DEV_THROTTLING): there is no {}",
                file.display()
            )));
        }
        self.group.check()
    }

    fn read(&self) -> Result<Level, Unavailable> {
        let group = if self.group.exists() { self.group.path() } else { &self.group.home().path };
        Ok(Throttle::read(self.version(), group, &self.device)?.to_limits().to_level())
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        let now = Throttle::read(self.version(), self.group.path(), &self.device).unwrap_or_default();
        Ok(self.group.undo(now.texts(self.version(), &self.device)))
    }

    /// The limits are set before the processes enter the group, so they are never in it without a limit.
    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let throttle = Throttle::from_level(level)?;
        if throttle == Throttle::default() && !self.group.exists() {
            return Ok(0);
        }
        self.group.make()?;
        throttle.write(self.version(), self.group.path(), &self.device)?;
        self.group.enter()?;
        Ok(UNTIL_IT_COUNTS)
    }

    fn scaled(&self, share: f64) -> Result<Level, Unavailable> {
        // The limits of parent groups would still apply, so only a limit that was set here can be increased.
        let own = self.group.exists();
        let group = if own { self.group.path() } else { &self.group.home().path };
        if share > 1.0 && !own {
            return Err(Unavailable("Plimsoll did not set the current limit".into()));
        }
        scaled(Throttle::read(self.version(), group, &self.device)?.to_limits(), share, &self.device.name)
    }
}

/// A share of the current limits, each in whole operations or bytes.
fn scaled(in_force: IoLimits, share: f64, device: &str) -> Result<Level, Unavailable> {
    if in_force == IoLimits::default() {
        return Err(Unavailable(format!(
            "there is no limit, and the maximum of {device} is not known, so it cannot be reduced by a \
            share; measure {device} with `plimsoll disk` and set the result as the baseline: \"host.disk.io_limit\" = {{ baseline = \
             \"read 5000/s\", levels = [\"unlimited\"] }}"
        )));
    }
    let scale = |rate: Option<f64>| rate.map(|rate| (rate * share).floor());
    let scaled = IoLimits {
        reads_per_s: scale(in_force.reads_per_s),
        writes_per_s: scale(in_force.writes_per_s),
        read_bytes_per_s: scale(in_force.read_bytes_per_s),
        write_bytes_per_s: scale(in_force.write_bytes_per_s),
    };
    // The kernel accepts no limit below one operation or byte.
    Throttle::from_level(&scaled.to_level()).map(|_| scaled.to_level())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{UndoSteps, controller, controller_v2};
    use engine::source::HostRoot;
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};
    use testkit::{Need, Scratch};

    fn vda() -> Device {
        Device { major: 254, minor: 0, name: "vda".into() }
    }

    #[test]
    fn a_level_goes_to_the_kernel_and_comes_back() {
        let folder = Scratch::new();
        for version in [Version::V1, Version::V2] {
            let apart = IoLimits::parse("read 400/s and write 5MiB/s").unwrap().to_level();
            for level in [Level::Rate(500.0), Level::BytesPerSecond(20e6), apart, Level::Unlimited] {
                Throttle::from_level(&level).unwrap().write(version, folder.path(), &vda()).unwrap();
                let mut back = Throttle::read(version, folder.path(), &vda()).unwrap();
                if version == Version::V1 {
                    // The kernel removes the line of a device without a limit; a plain file keeps a 0.
                    back = Throttle::from_values(back.values().map(|value| value.filter(|value| *value > 0)));
                }
                assert_eq!(back.to_limits().to_level(), level, "{version:?}");
            }
        }
        assert_eq!(folder.text("io.max"), "254:0 riops=max wiops=max rbps=max wbps=max");
        assert_eq!(folder.text(V1_FILES[0]), "254:0 0");
    }

    #[test]
    fn what_others_have_set_is_reported_in_words() {
        let folder = Scratch::new();
        folder.file(
            "io.max",
            "8:0 rbps=1 wbps=1 riops=1 wiops=1\n254:0 rbps=max wbps=1048576 riops=max wiops=max\n",
        );
        let throttle = Throttle::read(Version::V2, folder.path(), &vda()).unwrap();
        assert_eq!(throttle.to_limits().to_level().to_string(), "write 1MiB/s");
        let none = Throttle::read(Version::V2, &folder.join("absent"), &vda()).unwrap();
        assert_eq!(none.to_limits().to_level(), Level::Unlimited);
        assert!(Throttle::read(Version::V1, &folder.join("absent"), &vda()).is_err());
    }

    #[test]
    fn a_share_is_of_every_limit_in_force() {
        for (in_force, share, expected) in [
            ("500/s and 1MB/s", 0.7, Some("350/s and 700kB/s")),
            ("read 400/s", 0.7, Some("read 280/s")),
            ("read 400/s", 1.0 / 0.7, Some("read 571/s")),
            ("read 400/s and write 1/s", 0.7, None),
            ("unlimited", 0.7, None),
        ] {
            let level = scaled(IoLimits::parse(in_force).unwrap(), share, "vda").ok();
            assert_eq!(level.map(|level| level.to_string()).as_deref(), expected, "{share} of {in_force}");
        }
    }

    #[test]
    fn a_limit_the_kernel_cannot_keep_is_refused() {
        for level in [Level::Rate(0.4), Level::Rate(1e12), Level::BytesPerSecond(0.1), Level::Count(3)] {
            assert!(Throttle::from_level(&level).is_err(), "{level}");
        }
        assert!(Throttle::from_level(&Level::BytesPerSecond(1e12)).is_ok());
    }

    #[test]
    fn a_missing_throttle_or_controller_is_named() {
        let host = Scratch::new();
        host.file("proc/9/cgroup", "7:blkio:/\n");
        host.file("proc/self/mountinfo", "30 25 0:26 / /cg/blkio rw - cgroup cgroup rw,blkio\n");
        host.file("cg/blkio/cgroup.procs", "9\n");
        host.file("sys/devices/vda/dev", "254:0\n");
        host.link("sys/dev/block/254:0", "../../devices/vda");
        host.link("sys/class/block/vda", "../../devices/vda");
        let target =
            FactorTarget { on: Some("vda".into()), ..FactorTarget::of(HostRoot::at(host.path()), vec![9]) };
        let factor = IoLimit::open(&target).unwrap();
        let error = factor.check(&Level::Rate(100.0)).unwrap_err().0;
        assert!(error.starts_with("the kernel was built without I/O throttling"), "{error}");
        host.file(&format!("cg/blkio/{}", V1_FILES[0]), "");
        factor.check(&Level::Rate(100.0)).unwrap();
    }

    /// A shell that waits for a line, and then reads a file with direct I/O until it is ended.
    struct Reader(Child);

    impl Reader {
        fn start(file: &Path) -> Self {
            let script = format!(
                "read go; exec dd if='{}' of=/dev/null bs=4k iflag=direct status=none count=100000",
                file.display()
            );
            let child = Command::new("/bin/sh")
                .args(["-c", &script])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            Reader(child)
        }

        /// Bytes that the process has read from the device.
        fn bytes_read(&self) -> u64 {
            let text = fs::read_to_string(format!("/proc/{}/io", self.0.id())).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
            line.and_then(|value| value.parse().ok()).unwrap_or(0)
        }
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn file_of(folder: &Scratch, mebibytes: usize) -> PathBuf {
        let path = folder.join("data");
        let mut file = fs::File::create(&path).unwrap();
        for _ in 0..mebibytes {
            file.write_all(&[7; 1 << 20]).unwrap();
        }
        file.sync_all().unwrap();
        path
    }

    /// A factor that can set this level; `None` if this host does not support it, which is recorded as
    /// skipped.
    fn opened(target: &FactorTarget, folder: &Path, level: &Level) -> Option<IoLimit> {
        let opened = IoLimit::open(target).and_then(|factor| factor.check(level).map(|()| factor));
        if opened.is_err() && (testkit::lacks(Need::BlockDevice(folder)) || testkit::lacks(controller(IO))) {
            return None;
        }
        testkit::partly_lacks(controller_v2(IO));
        Some(opened.unwrap())
    }

    #[test]
    fn a_process_is_held_to_the_limit_and_set_free() {
        let folder = Scratch::new();
        let file = file_of(&folder, 16);
        let mut reader = Reader::start(&file);
        let target =
            FactorTarget { files: vec![file], ..FactorTarget::of(HostRoot::live(), vec![reader.0.id()]) };
        let Some(mut factor) = opened(&target, folder.path(), &Level::Rate(200.0)) else { return };
        assert_eq!(factor.read().unwrap(), Level::Unlimited);
        let error = factor.scaled(0.7).unwrap_err().0;
        assert!(error.starts_with("there is no limit"), "{error}");
        let undo_steps = UndoSteps(factor.undo(&Level::Unlimited).unwrap());
        factor.set(&Level::Rate(200.0)).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Rate(200.0));
        assert_eq!(factor.scaled(0.7).unwrap(), Level::Rate(140.0));
        assert_eq!(factor.scaled(1.0 / 0.7).unwrap(), Level::Rate(285.0));
        let group = factor.group.path().to_path_buf();
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert_eq!(members.trim(), reader.0.id().to_string());

        let mut input = reader.0.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        drop(input);
        // Measured from the first read on, without the start of the program.
        let begin = Instant::now();
        while reader.bytes_read() < 80 << 10 {
            assert!(begin.elapsed() < Duration::from_secs(20), "nothing is read");
            std::thread::sleep(Duration::from_millis(10));
        }
        let (before, begin) = (reader.bytes_read(), Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let reads = (reader.bytes_read() - before) as f64 / 4096.0 / begin.elapsed().as_secs_f64();
        println!("{reads:.0} reads a second under a limit of 200");
        // A limit, not a timing: unlimited reads are ten times faster even on the slowest device.
        assert!((100.0..400.0).contains(&reads), "{reads} reads a second under a limit of 200");

        factor.set(&Level::Unlimited).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Unlimited);
        for _ in 0..2 {
            undo_steps.execute();
            assert!(!group.exists());
        }
        assert_eq!(factor.read().unwrap(), Level::Unlimited);
    }

    #[test]
    fn a_group_someone_else_joined_is_emptied_and_removed() {
        let folder = Scratch::new();
        let file = file_of(&folder, 1);
        let (ours, other) = (Reader::start(&file), Reader::start(&file));
        let target =
            FactorTarget { files: vec![file], ..FactorTarget::of(HostRoot::live(), vec![ours.0.id()]) };
        let Some(mut factor) = opened(&target, folder.path(), &Level::BytesPerSecond(1e6)) else { return };
        let undo_steps = UndoSteps(factor.undo(&Level::Unlimited).unwrap());
        factor.set(&Level::BytesPerSecond(1e6)).unwrap();
        crate::cgroup::move_process(&factor.group.path().join("cgroup.procs"), other.0.id()).unwrap();
        undo_steps.execute();
        assert!(!factor.group.path().exists());
        let home = fs::read_to_string(factor.group.home().path.join("cgroup.procs")).unwrap();
        for process in [ours.0.id(), other.0.id()] {
            assert!(home.lines().any(|line| line == process.to_string()));
        }
    }
}
