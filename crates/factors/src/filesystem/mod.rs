//! `host.filesystem`: a file system that is made for each trial, mounted at a directory that the load uses.

mod level;
mod mount;
mod superblock;
mod volume;

use std::collections::BTreeMap;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::{FactorInfo, ParameterInfo};
use model::{Level, Nanos, SettingKind};

use level::Spec;
pub(crate) use mount::{has_folder, is_mounted, remove, remove_folder};
pub(crate) use superblock::Kind;
use volume::{IMAGES, OVERWRITE, OVERWRITE_SIGNATURE, SIZE};
pub(crate) use volume::{Recipe, Volume, erase, is_on};

/// The parameters with what is below a file system.
pub(crate) const PARAMETERS: &[ParameterInfo] = &[
    ParameterInfo {
        name: SIZE,
        needed: false,
        is_command: false,
        about: "Size of each loop file. Default: \"4GiB\".",
    },
    ParameterInfo {
        name: IMAGES,
        needed: false,
        is_command: false,
        about: "Directory whose file system holds the loop files. Default: the parent of the mount point.",
    },
    ParameterInfo {
        name: OVERWRITE,
        needed: false,
        is_command: false,
        about: "Block devices to use instead of loop files, separated by commas. What they hold is lost.",
    },
    ParameterInfo {
        name: OVERWRITE_SIGNATURE,
        needed: false,
        is_command: false,
        about: "\"yes\": overwrite also devices that hold something recognized, such as a file system or a partition table. Default: \"no\".",
    },
];

/// The factor.
pub const FILE_SYSTEM: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.filesystem",
        kind: SettingKind::Text,
        about: "File system that is made for each trial and mounted at the directory `on`: ext4, xfs or btrfs, with its block size, cluster size, journal and mount options, such as \"ext4 block_size=1KiB options=noatime\". Needs root.",
        resource: None,
        needs_on: true,
        parameters: PARAMETERS,
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::BeforeData,
    open,
};

struct FileSystem {
    volume: Volume,
    /// The level that was set.
    set: Option<(Spec, Level)>,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    Ok(Box::new(FileSystem { volume: Volume::open(target)?, set: None }))
}

fn spec(level: &Level) -> Result<Spec, Unavailable> {
    Spec::parse(&level.to_string()).map_err(Unavailable)
}

fn recipe(spec: &Spec) -> Recipe {
    Recipe {
        kind: spec.kind,
        devices: 1,
        least_bytes: spec.least_bytes(),
        options: spec.options(),
        arguments: spec.arguments(),
    }
}

impl Factor for FileSystem {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        self.volume.check(&recipe(&spec(level)?))
    }

    fn read(&self) -> Result<Level, Unavailable> {
        let found = self.volume.read()?;
        let Some((spec, level)) = &self.set else { return Ok(Level::Text(found.kind.name().into())) };
        let in_force = spec.in_force(&found, self.volume.journal_mode().as_deref());
        let is_as_set = in_force.split_ascii_whitespace().eq(level.to_string().split_ascii_whitespace());
        Ok(if is_as_set { level.clone() } else { Level::Text(in_force) })
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(self.volume.undo())
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let spec = spec(level)?;
        self.volume.make(&recipe(&spec))?;
        self.set = Some((spec, level.clone()));
        Ok(0)
    }

    fn facts(&mut self) -> BTreeMap<String, Level> {
        self.volume.facts()
    }

    fn remark(&self) -> String {
        self.volume.remark()
    }
}

#[cfg(test)]
mod tests;
