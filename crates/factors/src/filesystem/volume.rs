//! A file system for one trial: the devices below it, its mount point, and what is known of it.
//!
//! A loop device is over a file without a name, in a directory of the user. So nothing of it is left when this process has
//! ended and the file system is unmounted. All of a file is written once, and later trials use it again: in each of them its
//! blocks are allocated, and none is freed between two trials.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::factor::{COMMAND_VARIABLE, FactorTarget, Undo, new_mark};
use engine::in_use::{self, Storage};
use engine::loop_device::{CONTROL, LoopDevice};
use engine::mounts::mounts;
use engine::shell;
use engine::signature;
use engine::source::{HostRoot, Unavailable};
use model::{Level, Secret, quantity};
use rustix::fs::{Access, Advice, FallocateFlags, Mode, OFlags, StatVfs, statvfs};
use rustix::io::Errno;

use super::level::MountOption;
use super::mount::{self, Context, NewFolder, PATIENCE};
use super::superblock::{self, Kind, Superblock};

/// The parameter with the size of a loop file.
pub(crate) const SIZE: &str = "size";
/// The parameter with the block devices that are overwritten instead.
pub(crate) const OVERWRITE: &str = "overwrite";
/// The parameter that permits to overwrite devices that hold something recognized.
pub(crate) const OVERWRITE_SIGNATURE: &str = "overwrite_signature";
/// The parameter with the directory whose file system holds the loop files.
pub(crate) const IMAGES: &str = "image_directory";

/// The size of a loop file.
const SIZE_DEFAULT: u64 = 4 << 30;

/// More than any device has.
const SIZE_MAX: u64 = 1 << 50;

/// Space that stays free where the loop files are.
const SPARE: u64 = 64 << 20;

/// Time limit of mkfs.
const MAKE_MAX: Duration = Duration::from_secs(600);

/// Limit of the entries that are counted.
const ENTRIES_MAX: u64 = 2_000_000;

/// Bytes at the start of a device that are cleared to erase a file system.
const ERASED: usize = 1 << 20;

/// What is below a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Below {
    /// Loop files of this size.
    Files { bytes: u64, directory: PathBuf },
    /// Block devices that the user named to be overwritten.
    Devices(Vec<PathBuf>),
}

/// A file system for one trial, not made yet.
#[derive(Debug)]
pub(crate) struct Volume {
    /// Where it is mounted.
    point: PathBuf,
    below: Below,
    is_signature_permitted: bool,
    uuid: String,
    /// Identifies the process of mkfs.
    mark: String,
    number: u64,
    /// Files of the load.
    files: Vec<PathBuf>,
    state: Option<Made>,
}

/// A file system that is mounted.
#[derive(Debug)]
struct Made {
    kind: Kind,
    /// The devices below it.
    devices: Vec<PathBuf>,
    bytes: u64,
    is_direct: Option<bool>,
    make: Duration,
    mount: Duration,
    used_when_empty: u64,
    images: Vec<Image>,
}

impl Drop for Made {
    fn drop(&mut self) {
        spare_images().append(&mut self.images);
    }
}

/// A file for a loop device.
#[derive(Debug)]
struct Image {
    directory: PathBuf,
    bytes: u64,
    file: File,
}

/// Files that an earlier trial of this process used.
static SPARE_IMAGES: Mutex<Vec<Image>> = Mutex::new(Vec::new());

fn spare_images() -> MutexGuard<'static, Vec<Image>> {
    SPARE_IMAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Image {
    /// One of an earlier trial, or a new one.
    fn take(directory: &Path, bytes: u64) -> Result<Image, Unavailable> {
        let spare = {
            let mut all = spare_images();
            let at = all.iter().position(|image| image.is(directory, bytes));
            at.map(|at| all.swap_remove(at))
        };
        match spare {
            Some(image) => Ok(image),
            None => Ok(Image { directory: directory.into(), bytes, file: new_image(directory, bytes)? }),
        }
    }

    fn is(&self, directory: &Path, bytes: u64) -> bool {
        self.directory == directory && self.bytes == bytes
    }
}

/// What is made and how.
pub(crate) struct Recipe {
    pub(crate) kind: Kind,
    /// Number of devices.
    pub(crate) devices: usize,
    /// The smallest device, in bytes.
    pub(crate) least_bytes: u64,
    pub(crate) options: Vec<MountOption>,
    /// The arguments of mkfs for it, besides those of every one of its kind.
    pub(crate) arguments: Vec<String>,
}

impl Volume {
    /// Reads the parameters of a factor. Changes nothing.
    pub(crate) fn open(target: &FactorTarget) -> Result<Volume, Unavailable> {
        if !target.root.is_live() {
            return Err(Unavailable("only this machine can mount a file system".into()));
        }
        let on = target.on.as_deref().unwrap_or_default();
        // Relative to the current directory, as the files of the load.
        let point = std::path::absolute(on).and_then(|path| files::locate(&path)).map_err(|error| {
            Unavailable(format!(
                "on = \"{on}\" cannot be a mount point: {error}; name a directory whose parent exists"
            ))
        })?;
        let point = point.path();
        let given = |name: &str| target.parameters.get(name).map(Secret::reveal);
        let below = match (given(OVERWRITE), given(SIZE), given(IMAGES)) {
            (Some(devices), None, None) => {
                let devices = devices.split(',').map(|device| PathBuf::from(device.trim()));
                Below::Devices(devices.collect())
            }
            (Some(_), ..) => {
                return Err(Unavailable(format!(
                    "`{OVERWRITE}` names a device, and `{SIZE}` and `{IMAGES}` are for loop files: remove one of them"
                )));
            }
            (None, size, directory) => {
                let bytes = size.map_or(Ok(SIZE_DEFAULT), quantity::parse_bytes);
                let bytes = bytes.map_err(|error| Unavailable(format!("{SIZE}: {}", error.0)))?;
                if bytes > SIZE_MAX {
                    return Err(Unavailable(format!("{SIZE}: no device is that large")));
                }
                let parent = || point.parent().unwrap_or(Path::new("/")).to_path_buf();
                let directory = directory.map_or_else(parent, PathBuf::from);
                Below::Files { bytes: bytes.next_multiple_of(4096), directory }
            }
        };
        let is_signature_permitted = match given(OVERWRITE_SIGNATURE) {
            None | Some("no") => false,
            Some("yes") => true,
            Some(other) => {
                return Err(Unavailable(format!("{OVERWRITE_SIGNATURE}: `{other}` is neither yes nor no")));
            }
        };
        let mut random = [0; 24];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Unavailable(format!("there are no random numbers: {error}")))?;
        let [a, b, c, d, e, f, g, h, rest @ ..] = random;
        let mut uuid: [u8; 16] = rest;
        // A random UUID (RFC 9562).
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        Ok(Volume {
            point,
            below,
            is_signature_permitted,
            uuid: superblock::written(uuid),
            mark: new_mark(),
            number: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            files: target.files.clone(),
            state: None,
        })
    }

    /// Whether it can be made here. Changes nothing.
    pub(crate) fn check(&self, recipe: &Recipe) -> Result<(), Unavailable> {
        Context::open(recipe.kind, &recipe.options)?;
        program(recipe.kind)?;
        mount::check_point(&self.point)?;
        self.check_files()?;
        match &self.below {
            Below::Files { bytes, directory } => check_images(*bytes, directory, recipe),
            Below::Devices(devices) => {
                if devices.len() != recipe.devices {
                    return Err(Unavailable(format!(
                        "it needs {} devices, and `{OVERWRITE}` names {}",
                        recipe.devices,
                        devices.len()
                    )));
                }
                for (at, device) in devices.iter().enumerate() {
                    let bytes = check_device(device, self.is_signature_permitted)?;
                    let same = |other: &&PathBuf| number(other).ok() == number(device).ok();
                    if let Some(other) = devices[..at].iter().find(same) {
                        return Err(Unavailable(format!(
                            "{} and {} are the same device",
                            other.display(),
                            device.display()
                        )));
                    }
                    check_size(bytes, recipe)?;
                }
                Ok(())
            }
        }
    }

    /// The data of the load has to be on the file system, or it would be measured somewhere else.
    fn check_files(&self) -> Result<(), Unavailable> {
        let is_below = |file: &PathBuf| {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            let known = file
                .ancestors()
                .find_map(|part| Some(fs::canonicalize(part).ok()?.join(file.strip_prefix(part).ok()?)));
            known.is_some_and(|file| file.starts_with(&self.point))
        };
        match self.files.first() {
            Some(first) if !self.files.iter().any(is_below) => Err(Unavailable(format!(
                "the load does not use the file system at {}: its file `{}` is elsewhere; write a path below that directory",
                self.point.display(),
                first.display()
            ))),
            _ => Ok(()),
        }
    }

    /// The undo steps from now on, in their order.
    pub(crate) fn undo(&self) -> Vec<Undo> {
        let mut steps = vec![
            // What it makes is erased.
            Undo::EndCommand { mark: self.mark.clone(), within: 0 },
            Undo::Unmount { point: self.point.clone(), uuid: self.uuid.clone() },
        ];
        if let Below::Devices(devices) = &self.below {
            let erase =
                |device: &PathBuf| Undo::EraseFileSystem { device: device.clone(), uuid: self.uuid.clone() };
            steps.extend(devices.iter().map(erase));
        }
        if !self.point.exists() {
            steps.push(NewFolder::plan(&self.point, self.number).undo());
        }
        steps
    }

    /// Makes and mounts it.
    pub(crate) fn make(&mut self, recipe: &Recipe) -> Result<(), Unavailable> {
        if !self.point.exists() {
            NewFolder::plan(&self.point, self.number).make()?;
        }
        // They are detached when they go out of scope, unless they are mounted.
        let (mut loops, mut images) = (Vec::new(), Vec::new());
        let (devices, bytes) = match &self.below {
            Below::Files { bytes, directory } => {
                for _ in 0..recipe.devices {
                    let image = Image::take(directory, *bytes)?;
                    loops.push(LoopDevice::attach(&image.file).map_err(|error| {
                        Unavailable(format!("no loop device can be attached ({CONTROL}): {error}"))
                    })?);
                    images.push(image);
                }
                let devices = loops.iter().map(|device| device.path().to_path_buf()).collect();
                (devices, bytes * recipe.devices as u64)
            }
            Below::Devices(devices) => {
                let bytes: Result<Vec<u64>, Unavailable> =
                    devices.iter().map(|device| check_device(device, self.is_signature_permitted)).collect();
                (devices.clone(), bytes?.into_iter().sum())
            }
        };
        let begin = Instant::now();
        make_file_system(recipe, &self.uuid, &self.mark, &devices, loops.is_empty())?;
        let make = begin.elapsed();
        let found = superblock::read(&devices[0]).map_err(|error| wrong(&devices[0], &error))?;
        if found.is_none_or(|found| found.uuid != self.uuid) {
            return Err(Unavailable(format!(
                "{} has no file system {} after mkfs: another program writes to it",
                devices[0].display(),
                self.uuid
            )));
        }
        let begin = Instant::now();
        let paths: Vec<&Path> = devices.iter().map(PathBuf::as_path).collect();
        Context::open(recipe.kind, &recipe.options)?.mount(&paths, &self.point)?;
        let mount = begin.elapsed();
        let is_direct = (!loops.is_empty()).then(|| loops.iter().all(LoopDevice::is_direct));
        let used_when_empty = used(&self.flushed()?);
        let kind = recipe.kind;
        self.state = Some(Made { kind, devices, bytes, is_direct, make, mount, used_when_empty, images });
        Ok(())
    }

    /// The UUID of the file system.
    pub(crate) fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The file system in force, and what its first superblock says.
    pub(crate) fn read(&self) -> Result<Superblock, Unavailable> {
        let none = || Unavailable(format!("nothing is mounted at {} by Plimsoll", self.point.display()));
        let made = self.state.as_ref().ok_or_else(none)?;
        let all = mounts(&HostRoot::live())?;
        let mount = all.iter().rev().find(|mount| mount.point == self.point).ok_or_else(none)?;
        if mount.file_system != made.kind.name() {
            return Err(none());
        }
        let source = Path::new(&mount.source);
        let found = superblock::read(source).map_err(|error| wrong(source, &error))?;
        found.filter(|found| found.uuid == self.uuid).ok_or_else(none)
    }

    /// The option `data` of ext4 in force, if the kernel names it.
    pub(crate) fn journal_mode(&self) -> Option<String> {
        let device = self.state.as_ref()?.devices.first()?.file_name()?.to_str()?;
        let options = fs::read_to_string(format!("/proc/fs/ext4/{device}/options")).ok()?;
        options.lines().find_map(|line| line.strip_prefix("data=")).map(Into::into)
    }

    /// Sizes and space, after all is written to the devices.
    fn flushed(&self) -> Result<StatVfs, Unavailable> {
        let failed = |error: Errno| wrong(&self.point, &error.into());
        let root = File::open(&self.point).map_err(|error| wrong(&self.point, &error))?;
        rustix::fs::syncfs(&root).map_err(failed)?;
        statvfs(&self.point).map_err(failed)
    }

    /// Facts of the trial: how long it took, and how much space the files consume beside their size.
    pub(crate) fn facts(&self) -> BTreeMap<String, Level> {
        let mut facts = BTreeMap::new();
        let Some(made) = &self.state else { return facts };
        let time = |time: Duration| Level::Time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let names: Vec<String> = made.devices.iter().map(|device| device.display().to_string()).collect();
        facts.insert("devices".into(), Level::Text(names.join(", ")));
        facts.insert("device_bytes".into(), Level::Bytes(made.bytes));
        facts.insert("make_time".into(), time(made.make));
        facts.insert("mount_time".into(), time(made.mount));
        if let Some(is_direct) = made.is_direct {
            facts.insert("loop_direct_io".into(), Level::Flag(is_direct));
        }
        if let Ok(state) = self.flushed() {
            let consumed = used(&state).saturating_sub(made.used_when_empty);
            facts.insert("usable_bytes".into(), Level::Bytes(state.f_blocks * state.f_frsize));
            facts.insert("consumed_bytes".into(), Level::Bytes(consumed));
        }
        if let Some((files, bytes)) = count(&self.point) {
            facts.insert("files".into(), Level::Count(files));
            facts.insert("nominal_bytes".into(), Level::Bytes(bytes));
        }
        facts
    }

    /// Where it is and what is below it.
    pub(crate) fn remark(&self) -> String {
        let Some(made) = &self.state else { return String::new() };
        let bytes = quantity::bytes(made.bytes);
        let names: Vec<String> = made.devices.iter().map(|device| device.display().to_string()).collect();
        let names = names.join(", ");
        let kind = match &self.below {
            Below::Files { directory, .. } => {
                format!("{names} over files without a name in {}", directory.display())
            }
            Below::Devices(_) => names,
        };
        format!("{bytes} on {kind}, mounted at {}", self.point.display())
    }
}

fn wrong(path: &Path, error: &io::Error) -> Unavailable {
    Unavailable(format!("{}: {error}", path.display()))
}

fn used(state: &StatVfs) -> u64 {
    state.f_blocks.saturating_sub(state.f_bfree) * state.f_frsize
}

/// The files below a directory and the sum of their sizes; none if there are too many to count.
fn count(folder: &Path) -> Option<(u64, u64)> {
    let (mut files, mut bytes, mut seen) = (0, 0, 0);
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).ok()?.flatten() {
            seen += 1;
            if seen > ENTRIES_MAX {
                return None;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() {
                files += 1;
                bytes += metadata.len();
            }
        }
    }
    Some((files, bytes))
}

/// The program that makes a file system.
fn program(kind: Kind) -> Result<PathBuf, Unavailable> {
    let (name, package) = match kind {
        Kind::Ext4 => ("mkfs.ext4", "e2fsprogs"),
        Kind::Xfs => ("mkfs.xfs", "xfsprogs"),
        Kind::Btrfs => ("mkfs.btrfs", "btrfs-progs"),
    };
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&search_path).chain(others).map(|folder| folder.join(name));
    found
        .into_iter()
        .find(|path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok())
        .ok_or_else(|| Unavailable(format!("the program {name} is missing: install {package}")))
}

/// The arguments of mkfs that every file system of a kind has. With `discard` it first discards the content of the device. All of
/// it is written at once, so that the kernel does not complete it during the measurement.
fn arguments(kind: Kind, uuid: &str, discard: bool) -> Vec<String> {
    let extended = match discard {
        true => "lazy_itable_init=0,lazy_journal_init=0,discard",
        false => "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
    };
    let of_xfs = format!("uuid={uuid}");
    let arguments: &[&str] = match kind {
        Kind::Ext4 => &["-q", "-F", "-U", uuid, "-E", extended],
        Kind::Xfs => &["-q", "-f", "-m", &of_xfs],
        Kind::Btrfs => &["-q", "-f", "-U", uuid],
    };
    let keeps = (kind != Kind::Ext4 && !discard).then_some("-K");
    arguments.iter().copied().chain(keeps).map(Into::into).collect()
}

fn make_file_system(
    recipe: &Recipe,
    uuid: &str,
    mark: &str,
    devices: &[PathBuf],
    discard: bool,
) -> Result<(), Unavailable> {
    let mut line = program(recipe.kind)?.display().to_string();
    for word in arguments(recipe.kind, uuid, discard).iter().chain(&recipe.arguments) {
        line.push_str(&format!(" '{word}'"));
    }
    for device in devices {
        line.push_str(&format!(" '{}'", device.display()));
    }
    let variables = [(COMMAND_VARIABLE, mark)];
    shell::run(&Secret::plain(&line), Path::new("/"), &variables, MAKE_MAX).map(|_| ()).map_err(Unavailable)
}

/// A file without a name, all of which is written.
fn new_image(directory: &Path, bytes: u64) -> Result<File, Unavailable> {
    const CHUNK: usize = 4 << 20;
    let failed = |error: io::Error| {
        let (bytes, directory) = (quantity::bytes(bytes), directory.display());
        Unavailable(format!("a loop file of {bytes} cannot be written in {directory}: {error}"))
    };
    let image = unnamed(directory)?;
    // In one piece, if the file system can reserve it.
    match rustix::fs::fallocate(&image, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let zeros = vec![0; CHUNK];
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(CHUNK as u64);
        image.write_all_at(&zeros[..length as usize], at).map_err(failed)?;
        image.sync_data().map_err(failed)?;
        // Advice: the page cache is of more use to others.
        let _ = rustix::fs::fadvise(&image, at, NonZeroU64::new(length), Advice::DontNeed);
        at += length;
    }
    Ok(image)
}

fn unnamed(directory: &Path) -> Result<File, Unavailable> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    opened.map(File::from).map_err(|error| {
        let advice = match error {
            Errno::OPNOTSUPP | Errno::ISDIR => ": its file system has no files without a name (O_TMPFILE)",
            _ => "",
        };
        Unavailable(format!(
            "a loop file cannot be made in {}: {error}{advice}; name another directory with `{IMAGES}`",
            directory.display()
        ))
    })
}

fn check_size(bytes: u64, recipe: &Recipe) -> Result<(), Unavailable> {
    if bytes >= recipe.least_bytes {
        return Ok(());
    }
    let [least, bytes] = [recipe.least_bytes, bytes].map(quantity::bytes);
    Err(Unavailable(format!("{} needs at least {least}, and there are {bytes}", recipe.kind.name())))
}

fn check_images(bytes: u64, directory: &Path, recipe: &Recipe) -> Result<(), Unavailable> {
    check_size(bytes, recipe)?;
    rustix::fs::access(CONTROL, Access::WRITE_OK).map_err(|error| {
        Unavailable(format!("there are no loop devices: {CONTROL}: {error}; run as root"))
    })?;
    unnamed(directory)?;
    let state = statvfs(directory).map_err(|error| wrong(directory, &error.into()))?;
    let spare = spare_images().iter().filter(|image| image.is(directory, bytes)).count();
    let new = recipe.devices.saturating_sub(spare) as u64;
    let (free, needed) = (state.f_bavail * state.f_frsize, bytes * new + SPARE);
    if free < needed {
        return Err(Unavailable(format!(
            "{} has {} free, and {} are needed: lower `{SIZE}`, or name another directory with `{IMAGES}`",
            directory.display(),
            quantity::bytes(free >> 20 << 20),
            quantity::bytes(needed)
        )));
    }
    Ok(())
}

/// The number of a block device.
fn number(device: &Path) -> Result<u64, Unavailable> {
    let metadata = fs::metadata(device).map_err(|error| wrong(device, &error))?;
    match metadata.file_type().is_block_device() {
        true => Ok(metadata.rdev()),
        false => Err(Unavailable(format!("{} is not a block device", device.display()))),
    }
}

/// Whether a device may be overwritten: nothing uses it, and it holds nothing recognized, unless that is permitted. Returns its
/// size.
fn check_device(device: &Path, is_signature_permitted: bool) -> Result<u64, Unavailable> {
    let text = device.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:@+".contains(c);
    if !text.starts_with('/') || !text.chars().all(is_plain) {
        return Err(Unavailable(format!("`{text}` is not the path of a device, such as /dev/vdb")));
    }
    let number = number(device)?;
    let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let folder = fs::canonicalize(format!("/sys/dev/block/{name}")).map_err(|error| wrong(device, &error))?;
    let used = |why: String| Err(Unavailable(format!("{text} is in use: {why}; it is not overwritten")));
    if let Some(why) = in_use::by_kernel(&HostRoot::live(), Storage::Device(number)) {
        return used(format!("it {why}"));
    }
    // The kernel knows all users: swap space, other mount namespaces, other programs.
    match rustix::fs::open(device, OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => {}
        Err(Errno::BUSY) => return used("another program or mount namespace has it".into()),
        Err(error) => return Err(wrong(device, &error.into())),
    }
    let sectors = fs::read_to_string(folder.join("size")).unwrap_or_default();
    let bytes = sectors.trim().parse::<u64>().unwrap_or(0) * 512;
    let file = File::open(device).map_err(|error| wrong(device, &error))?;
    let held = signature::find(&file, bytes).map_err(|error| wrong(device, &error))?;
    if !held.is_empty() && !is_signature_permitted {
        return Err(Unavailable(format!(
            "{text} holds {}, and making a file system destroys that: take another device, or write {OVERWRITE_SIGNATURE} = \"yes\"",
            signature::in_words(&held)
        )));
    }
    Ok(bytes)
}

/// Whether a block device has the file system with this UUID, as far as that is known.
pub(crate) fn is_on(device: &Path, uuid: &str) -> bool {
    match superblock::read(device) {
        Ok(found) => found.is_some_and(|found| found.uuid == uuid),
        Err(_) => device.exists(),
    }
}

/// Erases the file system with this UUID from a device. Any other content stays.
pub(crate) fn erase(device: &Path, uuid: &str) -> Result<(), Unavailable> {
    let begin = Instant::now();
    let file = loop {
        let opened = rustix::fs::open(device, OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
        match opened {
            Ok(file) => break File::from(file),
            Err(Errno::NOENT | Errno::NXIO) => return Ok(()),
            // The kernel ends the use of a device after the process.
            Err(Errno::BUSY) if begin.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => {
                return Err(Unavailable(format!(
                    "the file system {uuid} cannot be erased from {}: {error}; end its use, then run `plimsoll restore`",
                    device.display()
                )));
            }
        }
    };
    let is_device = file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
    let found = superblock::read_from(&file).map_err(|error| wrong(device, &error))?;
    if !is_device || found.is_none_or(|found| found.uuid != uuid) {
        return Ok(());
    }
    file.write_all_at(&vec![0; ERASED], 0)
        .and_then(|()| file.sync_all())
        .map_err(|error| wrong(device, &error))
}
