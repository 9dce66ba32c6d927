//! What is to be copied where: found before anything is changed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::devices::{disk_of, disks_of_mount, mount_of};
use engine::mounts::Medium;
use engine::source::HostRoot;
use engine::workload::LoadError;
use model::{Level, Problem, Problems, quantity};
use rustix::fs::Access;

use super::failure::failed;
use super::place::{self, Place};

use super::settings::{CopySettings, DESTINATION, OVERWRITE, SOURCE, Source};
use super::sizes::sizes;

/// Generated files in one folder.
const FILES_OF_FOLDER: usize = 100;

/// One file to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileCopy {
    /// None when its content is generated.
    pub(super) source: Option<PathBuf>,
    pub(super) destination: PathBuf,
    pub(super) bytes: u64,
    /// Permission bits.
    pub(super) mode: u32,
}

/// Everything to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Folders to make, outermost first, and their permission bits.
    pub(super) folders: Vec<(PathBuf, u32)>,
    pub(super) files: Vec<FileCopy>,
    pub(super) bytes: u64,
    /// Links, sockets, devices and the like, which are not copied.
    pub(super) left_out: u64,
}

impl Plan {
    /// Finds what there is to copy. Changes nothing.
    pub(super) fn make(settings: &CopySettings) -> Result<Plan, Problems> {
        let mut plan = Plan::default();
        let problem = |what: String, help: &str| Problems::from(Problem::new(what, help).about(&[&SOURCE]));
        match &settings.source {
            Source::Generated { bytes, files: 1, .. } => {
                let destination = inside_if_folder(&settings.destination, "generated");
                plan.files.push(FileCopy { source: None, destination, bytes: *bytes, mode: 0o644 });
            }
            Source::Generated { bytes, files, spread } => {
                plan.folders.push((settings.destination.clone(), 0o755));
                for (index, bytes) in sizes(*bytes, *files, *spread).into_iter().enumerate() {
                    let folder = settings.destination.join(format!("{:05}", index / FILES_OF_FOLDER));
                    if index % FILES_OF_FOLDER == 0 {
                        plan.folders.push((folder.clone(), 0o755));
                    }
                    let destination = folder.join(format!("{index:07}"));
                    plan.files.push(FileCopy { source: None, destination, bytes, mode: 0o644 });
                }
            }
            Source::Path(source) => {
                let found = settings.opener.check(source).and_then(|()| fs::metadata(source));
                let data = found.map_err(|error| {
                    problem(format!("`{}` cannot be copied: {error}", source.display()), "")
                })?;
                if data.is_dir() {
                    plan.add_folder(source, &settings.destination, data.mode())
                        .map_err(|error| problem(error.what, &error.help))?;
                } else if data.is_file() {
                    let name = source.file_name().unwrap_or_default().to_string_lossy();
                    let destination = inside_if_folder(&settings.destination, &name);
                    plan.add_file(source.clone(), destination, &data);
                } else {
                    return Err(problem(
                        format!("`{}` is neither a file nor a folder", source.display()),
                        "to read a device, use the `disk` workload",
                    ));
                }
            }
        }
        plan.keep_to(settings.bytes_max.unwrap_or(u64::MAX));
        Ok(plan)
    }

    fn add_file(&mut self, source: PathBuf, destination: PathBuf, data: &fs::Metadata) {
        let mode = data.permissions().mode() & 0o777;
        self.files.push(FileCopy { source: Some(source), destination, bytes: data.len(), mode });
    }

    /// Adds a folder and what is in it, by name. Links are not followed, so it ends.
    fn add_folder(&mut self, source: &Path, destination: &Path, mode: u32) -> Result<(), LoadError> {
        self.folders.push((destination.to_path_buf(), mode & 0o777));
        let reading = |error: std::io::Error| failed("reading", source, &error);
        let mut entries =
            fs::read_dir(source).map_err(reading)?.collect::<Result<Vec<_>, _>>().map_err(reading)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, destination) = (entry.path(), destination.join(entry.file_name()));
            let data = entry.metadata().map_err(|error| failed("reading", &path, &error))?;
            if data.is_dir() {
                self.add_folder(&path, &destination, data.mode())?;
            } else if data.is_file() {
                self.add_file(path, destination, &data);
            } else {
                self.left_out += 1;
            }
        }
        Ok(())
    }

    /// Cuts the plan to this many bytes and adds up.
    fn keep_to(&mut self, bytes_max: u64) {
        let mut room = bytes_max;
        self.files.retain_mut(|file| {
            let wanted = room > 0 || file.bytes == 0;
            file.bytes = file.bytes.min(room);
            room -= file.bytes;
            wanted
        });
        self.bytes = self.files.iter().map(|file| file.bytes).sum();
    }

    /// Is it readable, writable, and is there room? Changes nothing.
    pub(super) fn check(&self, settings: &CopySettings) -> Problems {
        let mut problems = Problems::new();
        let top = match self.folders.first() {
            Some((folder, _)) if folder.is_dir() => Some(folder.join("any")),
            Some((folder, _)) => Some(folder.clone()),
            None => self.files.first().map(|file| file.destination.clone()),
        };
        if let Some(top) = top
            && let Err(error) = settings.opener.locate(&top)
            && error.kind() == std::io::ErrorKind::InvalidInput
        {
            let what = format!("`{}` cannot be written: {error}", settings.destination.display());
            problems.add(&[&DESTINATION], what, "take another destination");
        }
        if let Err(error) = settings.opener.check(&settings.destination) {
            let what = format!("`{}` cannot be written: {error}", settings.destination.display());
            problems.add(&[&DESTINATION], what, "");
        }
        if self.files.is_empty() {
            problems.add(&[&SOURCE], "the source holds no file to copy", "");
        }
        let mut existing = Vec::new();
        let mut replaced_bytes = 0;
        for file in &self.files {
            if let Some(source) = &file.source
                && let Err(error) = rustix::fs::access(source, Access::READ_OK)
            {
                problems.add(&[&SOURCE], format!("`{}` cannot be read: {error}", source.display()), "");
            }
            let Ok(there) = fs::metadata(&file.destination) else { continue };
            replaced_bytes += there.len();
            let same = |source: &PathBuf| {
                fs::metadata(source)
                    .is_ok_and(|source| (source.dev(), source.ino()) == (there.dev(), there.ino()))
            };
            if file.source.as_ref().is_some_and(same) {
                problems.add(
                    &[&DESTINATION],
                    format!("`{}` is the source itself", file.destination.display()),
                    "take another destination",
                );
            } else if !there.is_file() {
                problems.add(
                    &[&DESTINATION],
                    format!("`{}` is not a file", file.destination.display()),
                    "to write a device, use the `disk` workload",
                );
            } else if !settings.overwrite {
                existing.push(file.destination.display().to_string());
            }
        }
        if let [first, rest @ ..] = existing.as_slice() {
            let more = match rest.len() {
                0 => " exists".to_string(),
                more => format!(" and {more} more exist"),
            };
            let help = "take another destination";
            problems.push(
                Problem::new(format!("`{first}`{more} already: a copy replaces it"), help)
                    .about(&[&DESTINATION])
                    .or_set(&OVERWRITE, Level::Flag(true)),
            );
        }
        if let Source::Path(source) = &settings.source
            && let (Ok(from), Some(to)) = (
                fs::canonicalize(source),
                nearest_existing(&settings.destination).and_then(|path| fs::canonicalize(path).ok()),
            )
            && from.is_dir()
            && to.starts_with(&from)
        {
            problems.add(
                &[&DESTINATION],
                format!("the destination is inside the source `{}`", source.display()),
                "take one outside of it",
            );
        }
        let parent = match self.folders.first() {
            // The folder of a single file must be there; the outermost folder of a tree is made.
            None => self.files.first().map(|file| parent(&file.destination).to_path_buf()),
            Some((folder, _)) if folder.is_dir() => Some(folder.clone()),
            Some((folder, _)) => Some(parent(folder).to_path_buf()),
        };
        if let Some(folder) = parent {
            match rustix::fs::access(&folder, Access::WRITE_OK | Access::EXEC_OK) {
                Err(error) => problems.add(
                    &[&DESTINATION],
                    format!("nothing can be written to `{}`: {error}", folder.display()),
                    "",
                ),
                Ok(()) => {
                    let free = rustix::fs::statvfs(&folder).map(|state| state.f_bavail * state.f_frsize);
                    if let Ok(free) = free
                        && free.saturating_add(replaced_bytes) < self.bytes
                    {
                        problems.add(
                            &[&DESTINATION],
                            format!(
                                "{} are to be copied and `{}` has {} free",
                                quantity::bytes(self.bytes),
                                folder.display(),
                                quantity::bytes(free)
                            ),
                            "free space, or copy less with `size`",
                        );
                    }
                }
            }
        }
        problems
    }

    /// Makes the folders of the copy, and finds the places of its files below them.
    pub(super) fn make_folders(&self, settings: &CopySettings) -> Result<Places, LoadError> {
        let mut places = Places::default();
        let opener = &settings.opener;
        let Some((top, mode)) = self.folders.first() else {
            let of_file = |path: &Path| {
                let (directory, name) = place::file(opener, path)?;
                Ok(Place::new(&Arc::new(directory), &name))
            };
            for file in &self.files {
                let to = of_file(&file.destination)
                    .map_err(|error| failed("writing", &file.destination, &error))?;
                let reading = |path: &PathBuf| of_file(path).map_err(|error| failed("opening", path, &error));
                places.files.push((file.source.as_ref().map(reading).transpose()?, to));
            }
            return Ok(places);
        };
        let making = |path: &Path| {
            let path = path.to_path_buf();
            move |error: std::io::Error| failed("making the folder", &path, &error)
        };
        // The copy itself must be able to write into its folders.
        let mut make = |place: Place, mode: u32| -> std::io::Result<()> {
            if place.make_folder(mode | 0o700)? {
                places.folders_made.push(place);
            }
            Ok(())
        };
        if !top.is_dir() {
            let (directory, name) = place::file(opener, top).map_err(making(top))?;
            make(Place::new(&Arc::new(directory), &name), *mode).map_err(making(top))?;
        }
        let to = Arc::new(place::folder(opener, top).map_err(making(top))?);
        for (folder, mode) in self.folders.iter().skip(1) {
            make(Place::new(&to, below(folder, top)), *mode).map_err(making(folder))?;
        }
        let from = match &settings.source {
            Source::Path(source) => {
                let folder = place::folder(opener, source);
                Some(Arc::new(folder.map_err(|error| failed("reading", source, &error))?))
            }
            Source::Generated { .. } => None,
        };
        for file in &self.files {
            let below = below(&file.destination, top);
            places.files.push((from.as_ref().map(|from| Place::new(from, below)), Place::new(&to, below)));
        }
        Ok(places)
    }
}

/// Where the files of a plan are.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Folders that were not there before, outermost first.
    pub(super) folders_made: Vec<Place>,
    /// Source and destination of each file. A single file is read where the user named it.
    pub(super) files: Vec<(Option<Place>, Place)>,
}

fn below<'a>(path: &'a Path, top: &Path) -> &'a Path {
    path.strip_prefix(top).unwrap_or(path)
}

/// As `cp` does: a destination that is a folder gets the file under its own name.
fn inside_if_folder(destination: &Path, name: &str) -> PathBuf {
    if destination.is_dir() { destination.join(name) } else { destination.to_path_buf() }
}

/// The folder a path is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn nearest_existing(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute.ancestors().find(|path| path.exists()).map(Path::to_path_buf)
}

/// Where a path is or will be: its block device, or what takes the place of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// The kernel names of the whole devices: several for a file system over several.
    Devices(Vec<String>),
    /// A file system without a block device on this host.
    Mount {
        medium: Option<Medium>,
        text: String,
    },
    Unknown,
}

impl Storage {
    pub(super) fn of(path: &Path) -> Storage {
        let Some(path) = nearest_existing(path) else { return Storage::Unknown };
        let Ok(data) = fs::metadata(&path) else { return Storage::Unknown };
        let mount = mount_of(&path);
        // Btrfs and others number their files by a device of their own; the mount table names the real one.
        let behind_mount = || match &mount {
            Some(mount) => disks_of_mount(&HostRoot::live(), mount),
            None => Vec::new(),
        };
        let disks = disk_of(data.dev()).map_or_else(behind_mount, |disk| vec![disk]);
        match &mount {
            _ if !disks.is_empty() => Storage::Devices(disks),
            Some(mount) => Storage::Mount {
                medium: mount.medium(),
                text: format!("{} ({} at {})", mount.file_system, mount.source, mount.point.display()),
            },
            None => Storage::Unknown,
        }
    }

    /// Facts named after `side`: `destination.device`, and the mount without one.
    pub(super) fn facts(&self, side: &str) -> Vec<(String, Level)> {
        let fact = |name: &str, text: &str| (format!("{side}.{name}"), Level::Text(text.into()));
        match self {
            Storage::Devices(names) => match names.as_slice() {
                [name] => vec![fact("device", name)],
                names => {
                    let names = names.iter().cloned().map(Level::Text).collect();
                    vec![(format!("{side}.device"), Level::List(names))]
                }
            },
            Storage::Unknown => vec![fact("device", "unknown")],
            Storage::Mount { medium, text } => {
                let medium = match medium {
                    Some(Medium::Network) => "network",
                    Some(Medium::Program) => "program",
                    Some(Medium::Memory) => "memory",
                    None => "other",
                };
                vec![fact("device", "none"), fact("mount", text), fact("medium", medium)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sizes: &[u64]) -> Plan {
        let file =
            |bytes: &u64| FileCopy { source: None, destination: PathBuf::new(), bytes: *bytes, mode: 0o600 };
        Plan { files: sizes.iter().map(file).collect(), ..Plan::default() }
    }

    #[test]
    fn a_plan_is_cut_in_the_middle_of_a_file() {
        for (sizes, max, expected) in [
            (vec![5, 0, 7, 9], 100, vec![5, 0, 7, 9]),
            (vec![5, 0, 7, 9], 8, vec![5, 0, 3]),
            (vec![5, 7], 5, vec![5]),
            (vec![0, 7], 5, vec![0, 5]),
        ] {
            let mut plan = plan(&sizes);
            plan.keep_to(max);
            assert_eq!(plan.files.iter().map(|file| file.bytes).collect::<Vec<_>>(), expected);
            assert_eq!(plan.bytes, expected.iter().sum::<u64>());
        }
    }
}
