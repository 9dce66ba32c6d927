//! What `overwrite` does not reach: what a device holds without a further word, and what is in use.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Need, Scratch};

use super::device::{BYTES, Loop};
use super::{disk, drive, failed};

/// The problems of a run that overwrites the target, and whether it was prepared.
fn overwriting(target: &Path, more: &[(&str, &str)]) -> (String, bool) {
    let name = target.to_str().unwrap();
    let pairs = [&[("read_percent", "0%"), ("overwrite", name)], more].concat();
    let mut run = disk(target, &pairs);
    let problems = run.check().to_string();
    // A process that another test starts at this moment holds a claim of this one, until it runs its own program.
    let mut prepared = run.prepare(1, &mut |_| true);
    for _ in 0..100 {
        if !problems.starts_with('0') || prepared.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        prepared = run.prepare(1, &mut |_| true);
    }
    let is_prepared = prepared.is_ok();
    let problems = match prepared {
        Err(error) if problems.starts_with('0') => error.to_string(),
        _ if problems.starts_with('0') => String::new(),
        _ => problems,
    };
    if is_prepared {
        assert_eq!(failed(&drive(run.as_ref(), 0, 64, 1).0), 0);
    }
    run.clean_up().unwrap();
    (problems, is_prepared)
}

fn make_ext4(device: &Path) {
    let made = Command::new(testkit::need::program("mkfs.ext4").unwrap())
        .args(["-qF", "-L", "PAYROLL"])
        .arg(device)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn what_a_device_holds_is_said_and_not_overwritten_without_a_further_word() {
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    if testkit::lacks(Need::Program("mkfs.ext4")) {
        return;
    }
    make_ext4(&device.device);
    let before = device.content();
    for more in
        [&[][..], &[("overwrite_signature", "false")], &[("verify", "on")], &[("precondition", "true")]]
    {
        let (problems, is_prepared) = overwriting(&device.device, more);
        assert!(problems.contains("holds a file system (ext4) \"PAYROLL\""), "{more:?}: {problems}");
        assert!(problems.contains("overwrite_signature = true"), "{more:?}: {problems}");
        assert!(!is_prepared, "{more:?}");
        assert!(device.content() == before, "{more:?}");
    }
    // Reading takes nothing from it.
    assert!(disk(&device.device, &[]).check().is_empty());
    let (problems, is_prepared) = overwriting(&device.device, &[("overwrite_signature", "true")]);
    assert!(problems.is_empty() && is_prepared, "{problems}");
    assert!(device.content() != before);
}

#[test]
fn a_blank_device_and_one_that_plimsoll_wrote_need_no_further_word() {
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    let whole = [("size", "8MiB"), ("access", "sequential"), ("block_size", "128KiB")];
    for _ in 0..2 {
        let (problems, is_prepared) = overwriting(&device.device, &whole);
        assert!(problems.is_empty() && is_prepared, "{problems}");
    }
}

#[test]
fn the_file_below_a_loop_device_is_in_use_under_every_name() {
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    let image = device.image.clone();
    let (hard, soft) = (folder.join("hard"), folder.join("soft"));
    fs::hard_link(&image, &hard).unwrap();
    std::os::unix::fs::symlink(&image, &soft).unwrap();
    for name in [&image, &hard, &soft] {
        let (problems, is_prepared) = overwriting(name, &[("overwrite_signature", "true")]);
        assert!(problems.contains("is the backing file of loop"), "{}: {problems}", name.display());
        assert!(!is_prepared, "{}", name.display());
    }
    // Also without a name of its own.
    fs::remove_file(&image).unwrap();
    let (problems, is_prepared) = overwriting(&hard, &[]);
    assert!(problems.contains("is the backing file of loop") && !is_prepared, "{problems}");
    assert!(fs::read(&hard).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn the_file_below_a_mounted_device_is_said_to_be_mounted() {
    let folder = Scratch::new();
    let Some(device) = Loop::new(&folder) else { return };
    if testkit::lacks(Need::Mount) || testkit::lacks(Need::Program("mkfs.ext4")) {
        return;
    }
    make_ext4(&device.device);
    let point = folder.join("mounted");
    fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount").args([&device.device, &point]).output().unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
    let (problems, is_prepared) = overwriting(&device.image, &[("overwrite_signature", "true")]);
    let unmounted = Command::new("umount").arg(&point).output().unwrap();
    assert!(unmounted.status.success(), "{unmounted:?}");
    assert!(problems.contains(&format!("which is mounted on {}", point.display())), "{problems}");
    assert!(!is_prepared);
}

#[test]
fn a_device_below_another_loop_device_is_in_use() {
    let folder = Scratch::new();
    let Some(lower) = Loop::new(&folder) else { return };
    let upper = Loop::over(lower.device.clone());
    let (problems, is_prepared) = overwriting(&lower.device, &[]);
    assert!(problems.contains("is the backing device of loop"), "{problems}");
    assert!(!is_prepared);
    let (problems, is_prepared) = overwriting(&lower.image, &[]);
    assert!(problems.contains("is the backing device of loop") && !is_prepared, "{problems}");
    drop(upper);
    let (problems, is_prepared) = overwriting(&lower.device, &[]);
    assert!(problems.is_empty() && is_prepared, "{problems}");
}

/// As a virtual machine holds its image.
#[test]
fn a_file_or_device_that_another_process_may_write_is_in_use() {
    let folder = Scratch::new();
    let image = folder.file("vm.img", vec![0; BYTES]);
    let link = folder.join("link.img");
    fs::hard_link(&image, &link).unwrap();
    let device = Loop::new(&folder);
    let devices = device.iter().map(|of| (of.device.clone(), of.device.clone()));
    for (held, target) in [(image.clone(), image), (folder.join("vm.img"), link)].into_iter().chain(devices) {
        for (redirection, is_refused) in [("3<>", true), ("3<", false)] {
            let script = format!("exec {redirection}\"$0\" && echo open && read -r _");
            let mut holder = Command::new("sh")
                .args(["-c", &script])
                .arg(&held)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "open\n");
            let (problems, is_prepared) = overwriting(&target, &[]);
            drop(holder.stdin.take());
            holder.wait().unwrap();
            let name = target.display();
            assert_eq!(problems.contains("is open for writing by process"), is_refused, "{name}: {problems}");
            assert_eq!(is_prepared, !is_refused, "{name} {redirection}: {problems}");
        }
    }
}

/// A forged superblock in a file of one's own makes no difference: `overwrite` of a file says what it holds, too.
#[test]
fn a_file_that_is_an_image_is_said_to_be_one() {
    let folder = Scratch::new();
    let path = folder.file("image", vec![0; BYTES]);
    fs::File::options().write(true).open(&path).unwrap().write_all_at(b"QFI\xfb", 0).unwrap();
    let (problems, is_prepared) = overwriting(&path, &[]);
    assert!(problems.contains("an image of a virtual machine (qcow2)") && !is_prepared, "{problems}");
}
