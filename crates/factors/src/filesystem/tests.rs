//! Real file systems on loop devices, as root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use engine::mounts::mounts;
use engine::source::HostRoot;
use testkit::{Need, Scratch};

use super::*;
use crate::device;
use crate::testing::UndoSteps;

/// A folder on a file system with a block device, as loop files need it.
fn folder() -> Scratch {
    Scratch::inside(Path::new(env!("CARGO_MANIFEST_DIR")))
}

fn target(folder: &Scratch, parameters: &[(&str, &str)]) -> FactorTarget {
    let parameters =
        parameters.iter().map(|(name, text)| (name.to_string(), model::Secret::plain(text))).collect();
    FactorTarget {
        on: Some(folder.join("point").display().to_string()),
        parameters,
        files: vec![folder.join("point/data")],
        ..FactorTarget::of(HostRoot::live(), vec![1])
    }
}

fn text(text: &str) -> Level {
    Level::Text(text.into())
}

fn mounted(point: &Path) -> Vec<(String, String)> {
    let all = mounts(&HostRoot::live()).unwrap();
    let here = all.into_iter().filter(|mount| mount.point == point);
    here.map(|mount| (mount.file_system, mount.source)).collect()
}

fn lacks_any(program: &'static str) -> bool {
    testkit::lacks(Need::LoopDevice) || testkit::lacks(Need::Mount) || testkit::lacks(Need::Program(program))
}

/// Sets a level, and returns its undo.
fn set(factor: &mut dyn Factor, level: &Level) -> UndoSteps {
    factor.check(level).unwrap();
    let undo = UndoSteps(factor.undo(level).unwrap());
    factor.set(level).unwrap();
    undo
}

#[test]
fn a_file_system_is_made_used_counted_and_removed() {
    for (program, level) in [
        ("mkfs.ext4", "ext4 block_size=1KiB journal=writeback options=noatime"),
        ("mkfs.ext4", "ext4  cluster_size=64KiB journal=none"),
        ("mkfs.xfs", "xfs block_size=1KiB ag_count=2"),
        ("mkfs.btrfs", "btrfs node_size=32KiB options=compress=zstd"),
    ] {
        if lacks_any(program) {
            return;
        }
        let folder = folder();
        let point = folder.join("point");
        let mut factor = open(&target(&folder, &[("size", "400MiB")])).unwrap();
        let undo = set(&mut *factor, &text(level));
        assert_eq!(factor.read().unwrap(), text(level));
        let [(kind, device)] = &mounted(&point)[..] else { panic!("{:?}", mounted(&point)) };
        assert_eq!(kind, level.split(' ').next().unwrap());
        assert!(device.starts_with("/dev/loop"), "{device}");
        let found = device::Device::find(&HostRoot::live(), None, &[point.join("data")]).unwrap();
        assert_eq!(format!("/dev/{}", found.name), *device, "what other factors set");
        for file in 0..100 {
            fs::write(point.join(format!("f{file}")), [7; 100]).unwrap();
        }
        let facts = factor.facts();
        assert_eq!(facts["files"], Level::Count(100));
        assert_eq!(facts["nominal_bytes"], Level::Bytes(10_000));
        let Level::Bytes(consumed) = facts["consumed_bytes"] else { panic!("{facts:?}") };
        let expected = match level {
            _ if level.contains("cluster") => 100 * (64 << 10),
            _ if kind == "btrfs" => 0,
            _ => 100 << 10,
        };
        assert!((expected..expected + (2 << 20)).contains(&consumed), "{level}: {consumed} of {expected}");
        assert!(
            matches!(facts["mount_time"], Level::Time(1..)) && matches!(facts["make_time"], Level::Time(1..))
        );
        assert_eq!(facts["device_bytes"], Level::Bytes(400 << 20));
        // As after a kill: nothing of the factor is left but its undo.
        drop(factor);
        for _ in 0..2 {
            undo.execute();
            assert_eq!(mounted(&point), []);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{level}");
        }
    }
}

#[test]
fn what_is_mounted_by_others_and_what_is_in_use_stays() {
    if lacks_any("mkfs.ext4") {
        return;
    }
    let folder = folder();
    let point = folder.join("point");
    fs::create_dir(&point).unwrap();
    let mut factor = open(&target(&folder, &[("size", "32MiB")])).unwrap();
    let undo = set(&mut *factor, &text("ext4"));
    drop(factor);
    let [Undo::EndCommand { .. }, Undo::Unmount { uuid, .. }, ..] = &undo.0[..] else {
        panic!("{:?}", undo.0)
    };
    // Another one over it.
    let other = |arguments: &[&str]| {
        let done = std::process::Command::new(arguments[0]).args(&arguments[1..]).arg(&point).status();
        assert!(done.unwrap().success());
    };
    other(&["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs"]);
    let over = remove(&point, uuid).unwrap_err().0;
    assert!(over.contains("was mounted at") && over.contains("over the file system"), "{over}");
    assert_eq!(mounted(&point).len(), 2);
    other(&["umount"]);
    // An open file.
    let file = File::create(point.join("file")).unwrap();
    let why = remove(&point, uuid).unwrap_err().0;
    assert!(why.contains(&format!("in use by process {} (", std::process::id())), "{why}");
    drop(file);
    // The same directory with a file system of the same kind and another UUID.
    let another = "8f14e45f-ceea-467f-ab5f-0d4bd1e2f3a4";
    remove(&point, another).unwrap();
    assert_eq!(mounted(&point).len(), 1);
    undo.execute();
    assert_eq!(mounted(&point), []);
    assert!(point.exists(), "the directory of the user stays");
}

#[test]
fn the_owner_of_the_directory_may_write_and_a_link_of_another_user_is_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
    if lacks_any("mkfs.ext4") {
        return;
    }
    let folder = folder();
    let point = folder.join("point");
    fs::create_dir(&point).unwrap();
    chown(&point, Some(4711), Some(4712)).unwrap();
    fs::set_permissions(&point, fs::Permissions::from_mode(0o750)).unwrap();
    let mut factor = open(&target(&folder, &[("size", "32MiB")])).unwrap();
    let undo = set(&mut *factor, &text("ext4"));
    let root = fs::metadata(&point).unwrap();
    assert_eq!((root.uid(), root.gid(), root.mode() & 0o777), (4711, 4712, 0o750));
    assert_eq!(mounted(&point).len(), 1);
    drop(factor);
    undo.execute();
    fs::remove_dir(&point).unwrap();
    symlink("/etc", &point).unwrap();
    lchown(&point, Some(4711), Some(4712)).unwrap();
    let why = open(&target(&folder, &[])).err().unwrap().0;
    assert!(why.contains("belongs to user 4711"), "{why}");
}

/// A loop device over a named file; detached when dropped.
struct Device(PathBuf);

impl Device {
    fn new(folder: &Scratch) -> Device {
        let image = folder.file("image", "");
        File::options().write(true).open(&image).unwrap().set_len(64 << 20).unwrap();
        let made = std::process::Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        Device(PathBuf::from(String::from_utf8_lossy(&made.unwrap().stdout).trim()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_device_is_overwritten_only_when_named_and_unused_and_is_erased() {
    if lacks_any("mkfs.ext4") {
        return;
    }
    let folder = folder();
    let device = Device::new(&folder);
    let name = device.0.to_str().unwrap();
    let image = || fs::read(folder.join("image")).unwrap();
    let mut factor = open(&target(&folder, &[("overwrite", name)])).unwrap();
    let undo = set(&mut *factor, &text("ext4 block_size=4KiB"));
    assert_eq!(mounted(&folder.join("point")), [("ext4".to_string(), name.to_string())]);
    // Mounted: a second trial on it is refused.
    let second = FactorTarget {
        on: Some(folder.join("second").display().to_string()),
        files: Vec::new(),
        ..target(&folder, &[("overwrite", name)])
    };
    let why = open(&second).unwrap().check(&text("ext4")).unwrap_err().0;
    assert!(why.contains(&format!("{name} is in use: it is mounted on")), "{why}");
    assert_ne!(image()[1024..2048], [0; 1024]);
    drop(factor);
    undo.execute();
    assert_eq!(image()[..1 << 20], vec![0; 1 << 20], "erased");
    // What somebody made there since is kept.
    File::options().write(true).open(folder.join("image")).unwrap();
    let made =
        std::process::Command::new(testkit::need::program("mkfs.ext4").unwrap()).arg("-q").arg(name).status();
    assert!(made.unwrap().success());
    let before = image();
    undo.execute();
    assert!(image() == before, "a file system of somebody else was changed");
    // Claimed by another program.
    let claim = rustix::fs::open(
        &device.0,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let why = open(&second).unwrap().check(&text("ext4")).unwrap_err().0;
    assert!(why.contains("another program or mount namespace has it"), "{why}");
    drop(claim);
    // A process that another test starts has it until it executes its program.
    let is_claimed = || {
        let checked = open(&second).unwrap().check(&text("ext4"));
        checked.is_err_and(|why| why.0.contains("another program or mount namespace has it"))
    };
    for _ in 0..100 {
        if !is_claimed() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let check = |parameters: &[(&str, &str)], level: &str| {
        open(&target(&folder, parameters)).and_then(|factor| factor.check(&text(level))).unwrap_err().0
    };
    let regular = folder.join("image").display().to_string();
    for (parameters, level, error) in [
        (&[("overwrite", name), ("size", "1GiB")][..], "ext4", "remove one of them"),
        (&[("overwrite", regular.as_str())], "ext4", "is not a block device"),
        (&[("overwrite", "vdb")], "ext4", "`vdb` is not the path of a device"),
        (&[("overwrite", "/dev/a' b")], "ext4", "is not the path of a device"),
        (&[("overwrite", &format!("{name},{name}"))], "ext4", "it needs 1 devices"),
        (
            &[("overwrite", name)],
            "ext4",
            "holds a file system (ext4), and making a file system destroys that",
        ),
        (
            &[("overwrite", name), ("overwrite_signature", "yes")],
            "xfs",
            "xfs needs at least 300MiB, and there are 64MiB",
        ),
        (&[("overwrite", name), ("overwrite_signature", "on")], "ext4", "`on` is neither yes nor no"),
        (&[("size", "8MiB")], "ext4", "ext4 needs at least 16MiB"),
        (&[("size", "17000000TiB")], "ext4", "size"),
        (&[("size", "900TiB")], "ext4", "are needed: lower `size`"),
        (&[("image_directory", "/proc")], "ext4", "a loop file cannot be made in /proc"),
        (&[], "ext4 options=no_such_option", "does not accept the mount option `no_such_option`"),
        (&[], "ext4 options=ro", "remove `ro`"),
    ] {
        let why = check(parameters, level);
        assert!(why.contains(error), "{parameters:?} {level}: {why}");
    }
    let elsewhere = FactorTarget { files: vec!["/etc/data".into()], ..target(&folder, &[]) };
    let why = open(&elsewhere).unwrap().check(&text("ext4")).unwrap_err().0;
    assert!(why.contains("its file `/etc/data` is elsewhere"), "{why}");
}
