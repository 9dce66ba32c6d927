//! The queue of a block device in the kernel (Documentation/ABI/stable/sysfs-block of Linux): its scheduler, how much it reads
//! ahead, and whether the kernel takes its write cache into account.

use std::fs;
use std::path::PathBuf;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{Level, Nanos, SettingKind};
use rustix::fs::Access;

use crate::device::Device;

/// The scheduler.
pub const SCHEDULER: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.disk.scheduler",
        kind: SettingKind::Text,
        about: "I/O scheduler of a device, such as none, mq-deadline, kyber or bfq (queue/scheduler). `on` names the device; default: the device of the workload's files, or the only disk. Needs root.",
        ..INFO
    },
    moment: |_| Moment::Prepared,
    open: |target| Ok(Box::new(Queue::open(target, File::Scheduler)?)),
};

/// The write cache.
pub const WRITE_CACHE: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.disk.write_cache",
        kind: SettingKind::Choice(&["write-back", "write-through"]),
        about: "Whether the kernel flushes the write cache of a device (queue/write_cache). With `write-through` it sends no flushes, so a power failure can lose data that was synced. `on` names the device. Needs root.",
        ..INFO
    },
    moment: |_| Moment::Prepared,
    open: |target| Ok(Box::new(Queue::open(target, File::WriteCache)?)),
};

/// What is read ahead. A file keeps what was in force when it was opened, so it is set before files are opened.
pub const READ_AHEAD: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.disk.read_ahead_kib",
        kind: SettingKind::Count { min: 0, max: 1 << 20 },
        about: "Most data in KiB that the kernel reads ahead of sequential reads through the page cache of a device (queue/read_ahead_kb). `on` names the device. The target is restarted with each level. Needs root.",
        ..INFO
    },
    moment: |_| Moment::Stopped,
    open: |target| Ok(Box::new(Queue::open(target, File::ReadAhead)?)),
};

const INFO: FactorInfo = FactorInfo {
    path: "",
    kind: SettingKind::Text,
    about: "",
    resource: None,
    needs_on: false,
    parameters: &[],
    named: false,
    of_dependency: false,
};

/// A file of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Scheduler,
    WriteCache,
    ReadAhead,
}

impl File {
    const fn name(self) -> &'static str {
        match self {
            File::Scheduler => "scheduler",
            File::WriteCache => "write_cache",
            File::ReadAhead => "read_ahead_kb",
        }
    }
}

struct Queue {
    file: File,
    path: PathBuf,
    device: String,
}

impl Queue {
    fn open(target: &FactorTarget, file: File) -> Result<Queue, Unavailable> {
        let device = Device::find(&target.root, target.on.as_deref(), &target.files)?.name;
        let path = target.root.join(format!("sys/class/block/{device}/queue/{}", file.name()));
        match path.is_file() {
            true => Ok(Queue { file, path, device }),
            false => Err(Unavailable(format!(
                "{device} has no {}: this kernel or this kind of device does not offer it",
                path.display()
            ))),
        }
    }

    fn text(&self) -> Result<String, Unavailable> {
        let text = fs::read_to_string(&self.path);
        let text = text.map_err(|error| Unavailable(format!("{}: {error}", self.path.display())))?;
        Ok(text.trim().to_string())
    }

    /// The value in force, as it is written to the file.
    fn value(&self) -> Result<String, Unavailable> {
        let text = self.text()?;
        if self.file != File::Scheduler {
            return Ok(text);
        }
        // `none [mq-deadline] kyber`; a device without a queue has `none`.
        let marked = text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        Ok(marked.unwrap_or(&text).to_string())
    }

    /// What is written for a level.
    fn requested(&self, level: &Level) -> Result<String, Unavailable> {
        let wanted = match self.file {
            File::WriteCache => level.to_string().replace('-', " "),
            _ => level.to_string(),
        };
        if self.file == File::Scheduler {
            let offered = self.text()?;
            let offered: Vec<&str> =
                offered.split_ascii_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
            if !offered.contains(&wanted.as_str()) {
                return Err(Unavailable(format!(
                    "{} does not offer the scheduler {wanted}; it offers {}",
                    self.device,
                    offered.join(", ")
                )));
            }
        }
        Ok(wanted)
    }
}

impl Factor for Queue {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        self.requested(level)?;
        rustix::fs::access(&self.path, Access::WRITE_OK).map_err(|error| {
            Unavailable(format!("{} cannot be changed: {error}; run as root", self.path.display()))
        })
    }

    fn read(&self) -> Result<Level, Unavailable> {
        let value = self.value()?;
        Ok(match self.file {
            File::Scheduler => Level::Text(value),
            File::WriteCache => Level::Text(value.replace(' ', "-")),
            File::ReadAhead => {
                Level::Count(value.parse().map_err(|_| {
                    Unavailable(format!("{}: `{value}` is not a number", self.path.display()))
                })?)
            }
        })
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(vec![Undo::WriteControl { path: self.path.clone(), text: self.value()? }])
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let wanted = self.requested(level)?;
        // The kernel completes the operations in flight before it returns.
        fs::write(&self.path, &wanted).map_err(|error| {
            let advice = match (error.kind(), self.file) {
                (std::io::ErrorKind::InvalidInput, File::WriteCache) => ": the device has no write cache",
                (std::io::ErrorKind::PermissionDenied, _) => "; run as root",
                _ => "",
            };
            Unavailable(format!("`{wanted}` cannot be written to {}: {error}{advice}", self.path.display()))
        })?;
        Ok(0)
    }

    fn remark(&self) -> String {
        format!("of {}", self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::UndoSteps;
    use crate::undo::carry_out;
    use engine::loop_device::LoopDevice;
    use engine::source::HostRoot;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use testkit::{Need, Scratch};

    fn host() -> Scratch {
        let host = Scratch::new();
        host.file("sys/devices/vda/dev", "254:0\n");
        host.link("sys/dev/block/254:0", "../../devices/vda");
        host.link("sys/class/block/vda", "../../devices/vda");
        host.file("sys/devices/vda/queue/scheduler", "none [mq-deadline] kyber bfq \n");
        host.file("sys/devices/vda/queue/write_cache", "write back\n");
        host.file("sys/devices/vda/queue/read_ahead_kb", "128\n");
        host
    }

    fn factor(host: &Scratch, kind: FactorKind) -> Box<dyn Factor> {
        let target = FactorTarget {
            on: Some("vda".into()),
            ..FactorTarget::of(HostRoot::at(host.path()), Vec::new())
        };
        (kind.open)(&target).unwrap()
    }

    #[test]
    fn each_file_is_read_set_and_restored() {
        let host = host();
        let text = |text: &str| Level::Text(text.into());
        for (kind, file, before, level, written, restored) in [
            (SCHEDULER, "scheduler", text("mq-deadline"), text("kyber"), "kyber", "mq-deadline"),
            (
                WRITE_CACHE,
                "write_cache",
                text("write-back"),
                text("write-through"),
                "write through",
                "write back",
            ),
            (READ_AHEAD, "read_ahead_kb", Level::Count(128), Level::Count(4096), "4096", "128"),
        ] {
            let mut factor = factor(&host, kind);
            assert_eq!(factor.read().unwrap(), before);
            factor.check(&level).unwrap();
            let undo = factor.undo(&level).unwrap();
            factor.set(&level).unwrap();
            let path = format!("sys/devices/vda/queue/{file}");
            assert_eq!(host.text(&path), written);
            undo.iter().for_each(|step| carry_out(step).unwrap());
            assert_eq!(host.text(&path), restored);
        }
    }

    #[test]
    fn what_is_not_offered_is_named_with_what_is() {
        let host = host();
        let why = factor(&host, SCHEDULER).check(&Level::Text("cfq".into())).unwrap_err().0;
        assert_eq!(why, "vda does not offer the scheduler cfq; it offers none, mq-deadline, kyber, bfq");
        fs::remove_file(host.join("sys/devices/vda/queue/write_cache")).unwrap();
        let target = FactorTarget {
            on: Some("vda".into()),
            ..FactorTarget::of(HostRoot::at(host.path()), Vec::new())
        };
        let why = (WRITE_CACHE.open)(&target).err().unwrap().0;
        assert!(why.starts_with("vda has no ") && why.contains("queue/write_cache"), "{why}");
    }

    /// A real device, on which the kernel reads ahead as much as is set.
    #[test]
    fn a_real_device_takes_the_levels_and_gets_its_own_back() {
        if testkit::lacks(Need::LoopDevice) {
            return;
        }
        let folder = Scratch::inside(Path::new(env!("CARGO_MANIFEST_DIR")));
        let path = folder.file("image", vec![7; 32 << 20]);
        let image = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let device = LoopDevice::attach(&image).unwrap();
        let name = device.path().display().to_string();
        let target = FactorTarget { on: Some(name.clone()), ..FactorTarget::of(HostRoot::live(), vec![1]) };
        let offered = (SCHEDULER.open)(&target).unwrap();
        let schedulers = |level: &str| offered.check(&Level::Text(level.into())).is_ok();
        assert!(schedulers("none") && !schedulers("no-such-scheduler"));
        for (kind, levels) in [
            (SCHEDULER, ["none", "mq-deadline"].map(|name| Level::Text(name.into()))),
            (READ_AHEAD, [16, 2048].map(Level::Count)),
            (WRITE_CACHE, ["write-through", "write-back"].map(|name| Level::Text(name.into()))),
        ] {
            let mut factor = (kind.open)(&target).unwrap();
            let before = factor.read().unwrap();
            for level in levels {
                if factor.check(&level).is_err() {
                    continue;
                }
                let undo = UndoSteps(factor.undo(&level).unwrap());
                factor.set(&level).unwrap();
                assert_eq!(factor.read().unwrap(), level);
                if let Level::Count(kib) = level
                    && !testkit::partly_lacks(Need::Linux(6, 5))
                {
                    assert_eq!(read_ahead_bytes(&name), kib << 10, "{kib} KiB");
                }
                undo.execute();
                assert_eq!(factor.read().unwrap(), before);
            }
        }
    }

    /// The read-ahead window that explains what is in the page cache ahead of sequential reads.
    fn read_ahead_bytes(device: &str) -> u64 {
        let file = fs::File::open(device).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut page = [0; 4096];
        let mut at = 0;
        // The window doubles up to its maximum.
        while at < 16 << 20 {
            file.read_exact_at(&mut page, at).unwrap();
            at += 4096;
        }
        // Not to the end of the device, where others look for partition tables.
        let ahead = engine::page_cache::resident_bytes(&file, at, 8 << 20).unwrap();
        // At least half of a window is ahead, at most one and the next.
        [16_u64 << 10, 2048 << 10]
            .into_iter()
            .find(|window| (window / 2..=2 * window).contains(&ahead))
            .unwrap_or(ahead)
    }
}
