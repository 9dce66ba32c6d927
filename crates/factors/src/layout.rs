//! `host.layout`: how several devices are one volume: striped, mirrored or with parity.
//!
//! Btrfs makes them, as a file system that is mounted for each trial like that of `host.filesystem`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use engine::factor::{Factor, FactorKind, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{Level, Nanos, SettingKind};

use crate::filesystem::{Kind, PARAMETERS, Recipe, Volume};

/// The factor.
pub const LAYOUT: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.layout",
        kind: SettingKind::Text,
        about: "Volume of several devices that is made for each trial and mounted at the directory `on`: single, stripe, mirror, raid10, parity or dual-parity with a number of devices, such as \"parity devices=4\". Btrfs makes it. Needs root.",
        resource: None,
        needs_on: true,
        parameters: PARAMETERS,
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::BeforeData,
    open: |target| Ok(Box::new(LayoutFactor { volume: Volume::open(target)?, set: None })),
};

/// The smallest device, in bytes.
const LEAST_BYTES: u64 = 256 << 20;

/// Most devices: each is a loop device with a file.
const DEVICES_MAX: usize = 32;

/// A layout that Btrfs has.
struct Layout {
    /// As it is written in a level.
    name: &'static str,
    /// The profile of Btrfs (mkfs.btrfs(8)).
    profile: &'static str,
    /// The smallest number of devices with which it is what its name says, and the default.
    devices: usize,
}

const LAYOUTS: &[Layout] = &[
    Layout { name: "single", profile: "single", devices: 1 },
    Layout { name: "stripe", profile: "raid0", devices: 2 },
    Layout { name: "mirror", profile: "raid1", devices: 2 },
    Layout { name: "raid10", profile: "raid10", devices: 4 },
    Layout { name: "parity", profile: "raid5", devices: 3 },
    Layout { name: "dual-parity", profile: "raid6", devices: 4 },
];

/// What else makes layouts, and where the kernel shows that it has it.
const OTHERS: &[(&str, &str, &str)] = &[
    ("md", "Linux software RAID (md)", "/proc/mdstat"),
    ("dm", "the device mapper", "/sys/class/misc/device-mapper"),
    ("lvm", "LVM, which uses the device mapper", "/sys/class/misc/device-mapper"),
    ("zfs", "ZFS", "/sys/module/zfs"),
];

/// A level.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spec {
    name: &'static str,
    profile: &'static str,
    devices: usize,
}

impl Spec {
    fn parse(text: &str) -> Result<Spec, String> {
        let names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
        let names = names.join(", ");
        let mut words = text.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        if name == "cached" {
            return Err(format!(
                "a cached layout needs dm-cache, bcache or ZFS, and Plimsoll makes layouts with Btrfs, which has no cache device; it makes {names}"
            ));
        }
        let Some(layout) = LAYOUTS.iter().find(|layout| layout.name == name) else {
            return Err(format!("`{name}` is not a layout; write one of {names}"));
        };
        let mut devices = layout.devices;
        for word in words {
            match word.split_once('=') {
                Some(("devices", count)) => {
                    devices = count.parse().map_err(|_| format!("`{word}`: write a whole number"))?;
                }
                Some(("by", "btrfs")) => {}
                Some(("by", other)) => return Err(unsupported(other, Path::new("/"))),
                _ => return Err(format!("`{word}` is unknown; a layout has the keys devices= and by=")),
            }
        }
        let is_single = layout.devices == 1;
        if devices < layout.devices || devices > DEVICES_MAX || (is_single && devices != 1) {
            let most = if is_single { 1 } else { DEVICES_MAX };
            return Err(format!("{name} needs {} to {most} devices, not {devices}", layout.devices));
        }
        Ok(Spec { name: layout.name, profile: layout.profile, devices })
    }

    fn recipe(&self) -> Recipe {
        Recipe {
            kind: Kind::Btrfs,
            devices: self.devices,
            least_bytes: LEAST_BYTES,
            options: Vec::new(),
            arguments: ["-d", self.profile, "-m", self.profile].map(Into::into).into(),
        }
    }
}

/// Why another way to make layouts is not used. `root` is that of the host's files.
fn unsupported(by: &str, root: &Path) -> String {
    let Some((_, words, place)) = OTHERS.iter().find(|(name, ..)| *name == by) else {
        return format!("`by={by}` is unknown; Plimsoll makes layouts with btrfs");
    };
    match root.join(place.trim_start_matches('/')).exists() {
        false => format!("this kernel has no {by}: there is no {place}; Plimsoll makes layouts with btrfs"),
        true => format!(
            "Plimsoll does not make layouts with {words}: make the array yourself, and name it with `overwrite` of host.filesystem"
        ),
    }
}

struct LayoutFactor {
    volume: Volume,
    /// What was set.
    set: Option<(Spec, Level)>,
}

fn spec(level: &Level) -> Result<Spec, Unavailable> {
    Spec::parse(&level.to_string()).map_err(Unavailable)
}

impl LayoutFactor {
    /// The folder in which the kernel describes the file system.
    fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/sys/fs/btrfs/{}", self.volume.uuid()))
    }

    /// The layout of the data and the number of devices, from the kernel.
    fn in_force(&self) -> Option<String> {
        let profiles = self.folder().join("allocation/data");
        let is_used = |layout: &&Layout| {
            let used = fs::read_to_string(profiles.join(layout.profile).join("total_bytes"));
            used.is_ok_and(|text| text.trim() != "0")
        };
        let layout = LAYOUTS.iter().find(is_used)?;
        let devices = fs::read_dir(self.folder().join("devices")).ok()?.count();
        Some(format!("{} devices={devices}", layout.name))
    }

    /// Bytes of the devices that hold data, metadata and their copies or parity. The kernel counts copies, but not parity.
    fn device_bytes_used(&self) -> Option<u64> {
        let (spec, _) = self.set.as_ref()?;
        let used = |what: &str| -> Option<u64> {
            let text = fs::read_to_string(self.folder().join(format!("allocation/{what}/disk_used"))).ok()?;
            text.trim().parse().ok()
        };
        let all = used("data")? + used("metadata")? + used("system")?;
        let devices = spec.devices as u64;
        let parity = match spec.profile {
            "raid5" => 1,
            "raid6" => 2,
            _ => 0,
        };
        Some(all.saturating_mul(devices) / devices.saturating_sub(parity).max(1))
    }
}

impl Factor for LayoutFactor {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        self.volume.check(&spec(level)?.recipe())
    }

    fn read(&self) -> Result<Level, Unavailable> {
        self.volume.read()?;
        let unknown = || Unavailable(format!("{} does not name the layout", self.folder().display()));
        let in_force = self.in_force().ok_or_else(unknown)?;
        Ok(match &self.set {
            Some((spec, level)) if in_force == format!("{} devices={}", spec.name, spec.devices) => {
                level.clone()
            }
            _ => Level::Text(in_force),
        })
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(self.volume.undo())
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let spec = spec(level)?;
        self.volume.make(&spec.recipe())?;
        self.set = Some((spec, level.clone()));
        Ok(0)
    }

    fn facts(&mut self) -> BTreeMap<String, Level> {
        // After the flush of the others.
        let mut facts = self.volume.facts();
        facts.extend(self.device_bytes_used().map(|bytes| ("device_bytes_used".into(), Level::Bytes(bytes))));
        facts
    }

    fn remark(&self) -> String {
        self.volume.remark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::UndoSteps;
    use engine::factor::FactorTarget;
    use engine::source::HostRoot;
    use testkit::{Need, Scratch};

    #[test]
    fn a_level_names_a_layout_and_its_devices() {
        for (text, expected) in [
            ("single", Ok(("single", 1))),
            ("stripe devices=6", Ok(("raid0", 6))),
            ("mirror", Ok(("raid1", 2))),
            ("raid10 by=btrfs", Ok(("raid10", 4))),
            ("parity", Ok(("raid5", 3))),
            ("dual-parity devices=7", Ok(("raid6", 7))),
            ("cached", Err("a cached layout needs dm-cache, bcache or ZFS")),
            ("raid5", Err("`raid5` is not a layout; write one of single, stripe, mirror")),
            ("parity devices=2", Err("parity needs 3 to 32 devices, not 2")),
            ("single devices=2", Err("single needs 1 to 1 devices, not 2")),
            ("parity devices=99", Err("parity needs 3 to 32 devices, not 99")),
            ("parity devices=x", Err("`devices=x`: write a whole number")),
            ("parity disks=3", Err("`disks=3` is unknown; a layout has the keys devices= and by=")),
            ("parity by=hope", Err("`by=hope` is unknown; Plimsoll makes layouts with btrfs")),
        ] {
            match (Spec::parse(text), expected) {
                (Ok(spec), Ok(expected)) => assert_eq!((spec.profile, spec.devices), expected, "{text}"),
                (Err(why), Err(expected)) => assert!(why.starts_with(expected), "{why}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_a_kernel_lacks_is_named() {
        let host = Scratch::new();
        for (by, _, place) in OTHERS {
            let why = unsupported(by, host.path());
            assert_eq!(
                why,
                format!("this kernel has no {by}: there is no {place}; Plimsoll makes layouts with btrfs")
            );
        }
        host.file("proc/mdstat", "Personalities :\n");
        assert!(unsupported("md", host.path()).contains("make the array yourself"));
    }

    #[test]
    fn each_layout_is_made_on_real_devices_and_consumes_what_it_says() {
        if testkit::lacks(Need::LoopDevice)
            || testkit::lacks(Need::Mount)
            || testkit::lacks(Need::Program("mkfs.btrfs"))
        {
            return;
        }
        const DATA: u64 = 48 << 20;
        for (level, copies) in [
            ("single", 1.0),
            ("stripe devices=3", 1.0),
            ("mirror", 2.0),
            ("raid10", 2.0),
            ("parity", 1.5),
            ("dual-parity devices=4", 2.0),
        ] {
            let folder = Scratch::inside(Path::new(env!("CARGO_MANIFEST_DIR")));
            let point = folder.join("point");
            let target = FactorTarget {
                on: Some(point.display().to_string()),
                parameters: BTreeMap::from([("size".into(), model::Secret::plain("256MiB"))]),
                ..FactorTarget::of(HostRoot::live(), vec![1])
            };
            let mut factor = (LAYOUT.open)(&target).unwrap();
            let level = Level::Text(level.into());
            factor.check(&level).unwrap();
            let undo = UndoSteps(factor.undo(&level).unwrap());
            factor.set(&level).unwrap();
            fs::write(point.join("data"), vec![7; DATA as usize]).unwrap();
            assert_eq!(factor.read().unwrap(), level);
            let facts = factor.facts();
            assert_eq!(facts["nominal_bytes"], Level::Bytes(DATA));
            let Level::Bytes(used) = facts["device_bytes_used"] else { panic!("{facts:?}") };
            let expected = (DATA as f64 * copies) as u64;
            assert!((expected..expected + (4 << 20)).contains(&used), "{level}: {used} of {expected}");
            drop(factor);
            undo.execute();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{level}");
        }
    }
}
