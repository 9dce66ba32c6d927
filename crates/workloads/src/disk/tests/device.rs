//! Real block devices: loop devices, as root.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{Need, Scratch};

use super::{disk, drive, failed};

pub(super) const BYTES: usize = 8 << 20;

/// A loop device over a file; detached when dropped.
pub(super) struct Loop {
    pub(super) device: PathBuf,
    pub(super) image: PathBuf,
}

impl Loop {
    /// `None` where it cannot be made, which is recorded as a skip.
    pub(super) fn new(folder: &Scratch) -> Option<Loop> {
        if testkit::lacks(Need::LoopDevice) {
            return None;
        }
        Some(Loop::over(folder.file("image", vec![0; BYTES])))
    }

    pub(super) fn over(image: PathBuf) -> Loop {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let device = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim());
        Loop { device, image }
    }

    /// What the device holds.
    pub(super) fn content(&self) -> Vec<u8> {
        fs::read(&self.image).unwrap()
    }

    fn name(&self) -> &str {
        self.device.to_str().unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

/// The device, mounted in a mount namespace of another process; unmounted when dropped.
struct Elsewhere(Child);

impl Elsewhere {
    fn mount(device: &Path, folder: &Path) -> Option<Elsewhere> {
        if testkit::lacks(Need::Mount) || testkit::lacks(Need::Program("mkfs.ext4")) {
            return None;
        }
        let made = Command::new("mkfs.ext4").arg("-q").arg(device).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        // Read-only, so that the mount itself changes nothing.
        let script = "mount -o ro,noload \"$0\" \"$1\" && echo mounted && read -r _";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .args([device, folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "mounted");
        Some(Elsewhere(child))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(input) = &mut self.0.stdin {
            let _ = input.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

#[test]
fn a_device_that_is_mounted_in_another_namespace_is_refused_and_not_written() {
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    fs::create_dir(folder.join("mounted")).unwrap();
    let Some(_mounted) = Elsewhere::mount(&device.device, &folder.join("mounted")) else { return };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(device.name()), "it is mounted here too");
    let before = device.content();
    for pairs in
        [&[("verify", "on")][..], &[("read_percent", "0%")], &[("verify", "on"), ("cache", "direct")]]
    {
        let pairs = [pairs, &[("overwrite", device.name())]].concat();
        let mut run = disk(&device.device, &pairs);
        let problems = run.check().to_string();
        let error = run.prepare(1, &mut |_| true).err();
        run.clean_up().unwrap();
        assert!(device.content() == before, "{pairs:?}: a mounted device was written");
        assert!(problems.contains("would destroy data in use"), "{pairs:?}: {problems}");
        assert!(error.is_some(), "{pairs:?}");
    }
    // Reading harms nobody.
    let mut reading = disk(&device.device, &[]);
    assert!(reading.check().is_empty(), "{}", reading.check());
    reading.prepare(1, &mut |_| true).unwrap();
    drive(reading.as_ref(), 0, 10, 1);
}

#[test]
fn a_device_is_claimed_from_the_first_written_byte_to_the_end_of_the_experiment() {
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    let overwrite = [("overwrite", device.name()), ("read_percent", "50%"), ("verify", "on")];
    let is_claimed = || {
        use std::os::unix::fs::OpenOptionsExt;
        fs::File::options().read(true).custom_flags(libc::O_EXCL).open(&device.device).is_err()
    };
    let mut first = disk(&device.device, &[&overwrite[..], &[("cache", "direct")]].concat());
    assert!(first.check().is_empty(), "{}", first.check());
    first.prepare(1, &mut |_| true).unwrap();
    assert_eq!(failed(&drive(first.as_ref(), 0, 50, 1).0), 0);
    assert!(is_claimed());
    // A later trial of the same process, with other flags, uses the claim of the first.
    let mut second = disk(&device.device, &overwrite);
    assert!(second.check().is_empty(), "{}", second.check());
    second.prepare(2, &mut |_| true).unwrap();
    assert_eq!(failed(&drive(second.as_ref(), 0, 50, 2).0), 0);
    first.clean_up().unwrap();
    assert!(is_claimed());
    second.clean_up().unwrap();
    drop((first, second));
    let is_released = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !is_claimed()
    });
    assert!(is_released);
}

#[test]
fn a_device_that_another_program_claims_is_refused() {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    let claim = fs::File::options().read(true).custom_flags(libc::O_EXCL).open(&device.device).unwrap();
    let pairs = [("overwrite", device.name()), ("verify", "on")];
    let mut run = disk(&device.device, &pairs);
    assert!(run.prepare(1, &mut |_| true).is_err());
    assert!(device.content().iter().all(|byte| *byte == 0));
    drop(claim);
    // A process that another test starts at this moment holds it too, until it runs its own program.
    let is_prepared = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        run.prepare(1, &mut |_| true).is_ok()
    });
    assert!(is_prepared);
    assert!(device.content().iter().any(|byte| *byte != 0));
}

#[test]
fn one_device_under_two_names_is_refused() {
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    let link = folder.join("link");
    std::os::unix::fs::symlink(&device.device, &link).unwrap();
    let names = [device.name(), link.to_str().unwrap()];
    let list = |names: &[&str]| {
        model::Level::List(names.iter().map(|name| model::Level::Text((*name).into())).collect())
    };
    let mut settings = super::settings(&[("cache", "page-cache"), ("read_percent", "0%"), ("size", "1MiB")]);
    settings.set("files", list(&names));
    settings.set("overwrite", list(&names));
    let mut run = engine::workload::WorkloadKind::configure(&super::super::KIND, &settings).unwrap();
    let error = run.prepare(1, &mut |_| true).unwrap_err();
    assert!(error.what.contains("the same"), "{error}");
}

#[test]
fn a_device_whose_data_is_in_memory_is_known_as_such() {
    let folder = Scratch::new();
    let Some(on_disk) = Loop::new(&folder) else { return };
    let memory = Path::new("/dev/shm");
    assert!(!super::super::backing::memory(memory, &[]).is_empty(), "/dev/shm is in memory on every Linux");
    let image = memory.join(format!("plimsoll-test-image-{}", std::process::id()));
    fs::write(&image, vec![7; BYTES]).unwrap();
    let in_memory = Loop::over(image.clone());
    let facts = |path: &Path| {
        let mut run = disk(path, &[]);
        run.prepare(1, &mut |_| true).unwrap();
        run.facts()
    };
    let of_file = facts(&image);
    let of_device = facts(&in_memory.device);
    let of_disk = facts(&on_disk.device);
    drop(in_memory);
    fs::remove_file(&image).unwrap();
    let text = |facts: &std::collections::BTreeMap<String, model::Level>| {
        facts.get("devices.memory").map(ToString::to_string).unwrap_or_default()
    };
    assert!(text(&of_file).contains("is in memory (tmpfs)"), "{of_file:?}");
    assert!(text(&of_device).contains("is a file in memory"), "{of_device:?}");
    assert!(of_device.contains_key("devices"));
    // The scratch folder may be in memory itself.
    if super::super::backing::memory(&on_disk.image, &[]).is_empty() {
        assert_eq!(text(&of_disk), "");
    }
}
