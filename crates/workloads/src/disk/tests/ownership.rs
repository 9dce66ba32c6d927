//! Which files are Plimsoll's: what a user does to a file that it left, and what the next run may then do with it.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use testkit::Scratch;

use super::{disk, drive};

const BYTES: usize = 1 << 20;

/// What a user cannot lose. Neither zeros nor what Plimsoll writes.
fn precious(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 3 + at % 251) as u8).collect()
}

/// A file as a run leaves it that is killed while it is measured.
fn killed(path: &Path, pairs: &[(&str, &str)]) {
    let mut run = disk(path, pairs);
    run.prepare(1, &mut |_| true).unwrap();
    drive(run.as_ref(), 0, 100, 1);
    // Dropped without its clean-up.
}

/// A file as a run leaves it that was to keep it.
fn kept(path: &Path, pairs: &[(&str, &str)]) {
    let mut run = disk(path, &[pairs, &[("keep", "on")]].concat());
    run.prepare(1, &mut |_| true).unwrap();
    drive(run.as_ref(), 0, 100, 1);
    run.clean_up().unwrap();
}

fn set_modified(path: &Path, modified: std::time::SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// Puts other content into the file itself, as `cp` onto it does.
fn copy_onto(path: &Path, content: &[u8]) {
    let inode = fs::metadata(path).unwrap().ino();
    fs::write(path, content).unwrap();
    assert_eq!(fs::metadata(path).unwrap().ino(), inode);
}

type Act = fn(&Path);

/// What a user does to the file, and whether it may be written afterwards without being named in `overwrite`.
const ACTS: &[(&str, Act, bool)] = &[
    ("nothing", |_| {}, true),
    ("cp onto it", |path| copy_onto(path, &precious(BYTES)), false),
    ("cp of a smaller file onto it", |path| copy_onto(path, &precious(BYTES / 2)), false),
    (
        "cp onto it, with the time restored",
        |path| {
            let modified = fs::metadata(path).unwrap().modified().unwrap();
            copy_onto(path, &precious(BYTES));
            set_modified(path, modified);
        },
        false,
    ),
    (
        "truncated and written again with the same size, and a head of its own content",
        |path| {
            let mut content = fs::read(path).unwrap();
            content[8192..].copy_from_slice(&precious(BYTES - 8192));
            copy_onto(path, &content);
        },
        false,
    ),
    (
        "something appended",
        |path| {
            use std::io::Write;
            fs::File::options().append(true).open(path).unwrap().write_all(&precious(100_000)).unwrap();
        },
        false,
    ),
    (
        "replaced by an editor",
        |path| {
            let new = path.with_extension("new");
            fs::write(&new, precious(BYTES)).unwrap();
            fs::rename(new, path).unwrap();
        },
        false,
    ),
    (
        "restored from a backup with its attributes",
        |path| {
            let backup = path.with_extension("backup");
            let mut text = [0; 512];
            let length = rustix::fs::getxattr(path, c"user.plimsoll", &mut text).unwrap();
            fs::copy(path, &backup).unwrap();
            let create = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&backup, c"user.plimsoll", &text[..length], create).unwrap();
            fs::rename(backup, path).unwrap();
        },
        false,
    ),
    ("given a second name", |path| fs::hard_link(path, path.with_extension("link")).unwrap(), false),
    (
        "made writable for others",
        |path| fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap(),
        false,
    ),
];

/// Tries a read-only run and then a writing one; whether the writing one was permitted.
fn next_runs(path: &Path, name: &str) -> bool {
    let before = fs::read(path).unwrap();
    let mut reading = disk(path, &[("size", "256KiB")]);
    assert!(reading.check().is_empty(), "{name}: {}", reading.check());
    reading.prepare(3, &mut |_| true).unwrap();
    drive(reading.as_ref(), 0, 50, 3);
    reading.clean_up().unwrap();
    assert!(path.exists(), "{name}: a run that only read removed the file");
    assert!(fs::read(path).unwrap() == before, "{name}: a run that only read changed the file");

    let mut writing = disk(path, &[("size", "256KiB"), ("read_percent", "0%")]);
    let problems = writing.check();
    match writing.prepare(4, &mut |_| true) {
        Ok(()) => {
            assert!(problems.is_empty(), "{name}: {problems}");
            drive(writing.as_ref(), 0, 50, 4);
            writing.clean_up().unwrap();
            true
        }
        Err(_) => {
            let words = ["was not created by Plimsoll", "was changed since Plimsoll wrote it"];
            assert!(words.iter().any(|words| problems.to_string().contains(words)), "{name}: {problems}");
            writing.clean_up().unwrap();
            assert!(fs::read(path).unwrap() == before, "{name}: what was refused was changed");
            false
        }
    }
}

#[test]
fn a_file_is_plimsolls_only_while_its_content_is() {
    let leavers: &[(&str, Act, bool)] = &[
        ("kept", |path| kept(path, &[]), true),
        ("kept, written", |path| kept(path, &[("read_percent", "0%")]), true),
        ("kept, verified", |path| kept(path, &[("read_percent", "50%"), ("verify", "on")]), true),
        ("kept, compressible", |path| kept(path, &[("read_percent", "0%"), ("compressible", "90%")]), true),
        ("killed, reading", |path| killed(path, &[]), false),
        ("killed, writing", |path| killed(path, &[("read_percent", "0%")]), false),
        (
            "killed, writing mixed sizes with headers",
            |path| killed(path, &[("read_percent", "30%"), ("verify", "on"), ("block_size", "4KiB,12KiB")]),
            false,
        ),
    ];
    for (left, leave, is_kept) in leavers {
        for (done, act, is_permitted) in ACTS {
            let folder = Scratch::new();
            let path = folder.join("data.bin");
            leave(&path);
            act(&path);
            let name = format!("{left}, then {done}");
            assert_eq!(next_runs(&path, &name), *is_permitted, "{name}");
            // Of a killed run it is removed once it was used again; everything else stays.
            assert_eq!(path.exists(), *is_kept || !*is_permitted, "{name}");
        }
    }
}

#[test]
fn a_run_that_overwrites_a_named_file_does_not_make_it_plimsolls() {
    let folder = Scratch::new();
    let path = folder.file("data.bin", precious(BYTES));
    let name = path.to_str().unwrap();
    let mut run = disk(&path, &[("read_percent", "0%"), ("overwrite", name)]);
    assert!(run.check().is_empty(), "{}", run.check());
    run.prepare(1, &mut |_| true).unwrap();
    drive(run.as_ref(), 0, 50, 1);
    run.clean_up().unwrap();
    assert!(!next_runs(&path, "overwritten"));
}

#[test]
fn a_file_that_took_the_place_of_a_made_one_is_not_removed() {
    let folder = Scratch::new();
    let path = folder.join("data.bin");
    let mut run = disk(&path, &[]);
    run.prepare(1, &mut |_| true).unwrap();
    fs::rename(folder.file("precious", precious(BYTES)), &path).unwrap();
    run.clean_up().unwrap();
    assert!(fs::read(&path).unwrap() == precious(BYTES));
}

#[test]
fn a_forged_mark_beside_a_file_is_not_believed() {
    let folder = Scratch::new();
    let path = folder.file("data.bin", precious(BYTES));
    let inode = fs::metadata(&path).unwrap().ino();
    folder.file(".data.bin.plimsoll", format!("plimsoll.file/1 inode={inode} unit=0 temporary"));
    assert!(!next_runs(&path, "a mark beside the file"));
    assert!(path.exists());
}

#[test]
fn nothing_is_created_through_a_link_that_points_nowhere() {
    for pairs in [&[][..], &[("read_percent", "0%")], &[("verify", "on")]] {
        let folder = Scratch::new();
        symlink("not-there", folder.join("data.bin")).unwrap();
        let mut run = disk(&folder.join("data.bin"), pairs);
        let problems = run.check().to_string();
        assert!(problems.contains("points at"), "{problems}");
        assert!(run.prepare(1, &mut |_| true).is_err());
        run.clean_up().unwrap();
        assert!(!folder.join("not-there").exists());
        assert!(fs::symlink_metadata(folder.join("data.bin")).unwrap().is_symlink());
    }
}

#[test]
fn a_link_of_the_users_own_names_the_file_it_points_at() {
    let folder = Scratch::new();
    kept(&folder.join("kept.bin"), &[]);
    folder.file("precious", precious(BYTES));
    symlink("kept.bin", folder.join("to-kept")).unwrap();
    symlink(folder.join("precious"), folder.join("to-precious")).unwrap();
    assert!(next_runs(&folder.join("to-kept"), "a link to a kept file"));
    assert!(!next_runs(&folder.join("to-precious"), "a link to a foreign file"));
    assert!(folder.join("kept.bin").exists() && folder.join("to-kept").is_symlink());
}

#[test]
fn a_link_of_another_user_is_refused() {
    if testkit::lacks(testkit::Need::Root) {
        return;
    }
    let folder = Scratch::new();
    folder.file("precious", precious(BYTES));
    let shared = folder.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
    for (link, to) in [("data.bin", "../precious"), ("folder", "..")] {
        symlink(to, shared.join(link)).unwrap();
        std::os::unix::fs::lchown(shared.join(link), Some(65534), Some(65534)).unwrap();
    }
    for path in [shared.join("data.bin"), shared.join("folder/precious"), shared.join("folder/new.bin")] {
        let name = path.to_str().unwrap();
        let overwrite: &[(&str, &str)] = if path.exists() { &[("overwrite", name)] } else { &[] };
        let mut run = disk(&path, &[overwrite, &[("read_percent", "0%")]].concat());
        let problems = run.check().to_string();
        assert!(problems.contains("belongs to user 65534"), "{problems}");
        assert!(run.prepare(1, &mut |_| true).is_err(), "{name}");
        run.clean_up().unwrap();
    }
    assert!(fs::read(folder.join("precious")).unwrap() == precious(BYTES));
    assert!(!folder.join("new.bin").exists());
}

#[test]
fn a_file_under_two_names_is_refused() {
    let folder = Scratch::new();
    fs::create_dir(folder.join("real")).unwrap();
    symlink("real", folder.join("link")).unwrap();
    let names = ["real/new.bin", "link/new.bin"].map(|name| folder.join(name).display().to_string());
    for _ in 0..2 {
        // At first it does not exist, and then it does.
        let mut settings = super::settings(&[("cache", "page-cache"), ("size", "1MiB"), ("keep", "on")]);
        let list = names.iter().map(|name| model::Level::Text(name.clone())).collect();
        settings.set("files", model::Level::List(list));
        let mut run = engine::workload::WorkloadKind::configure(&super::super::KIND, &settings).unwrap();
        let error = run.prepare(1, &mut |_| true).unwrap_err();
        assert!(error.what.contains("the same"), "{error}");
        run.clean_up().unwrap();
        assert!(folder.join("real/new.bin").exists());
    }
}

/// Between the look at a file and its use another one takes its name: the one that was looked at is used.
#[test]
fn what_was_looked_at_is_what_is_opened() {
    let folder = Scratch::new();
    let path = folder.join("data.bin");
    let precious_file = folder.file("precious", precious(BYTES));
    let mut run = disk(&path, &[("size", "16MiB"), ("read_percent", "0%"), ("access", "sequential")]);
    let mut is_exchanged = false;
    run.prepare(1, &mut |_| {
        if !is_exchanged {
            is_exchanged = true;
            fs::rename(&path, folder.join("moved.bin")).unwrap();
            symlink(&precious_file, &path).unwrap();
        }
        true
    })
    .unwrap();
    assert!(is_exchanged);
    drive(run.as_ref(), 0, 200, 1);
    run.clean_up().unwrap();
    assert!(fs::read(&precious_file).unwrap() == precious(BYTES));
}

#[test]
fn a_verified_file_that_was_damaged_may_be_read_and_not_written() {
    let folder = Scratch::new();
    let path = folder.join("data.bin");
    kept(&path, &[("verify", "on")]);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0x5a; 300], 5000).unwrap();
    let mut reading = disk(&path, &[("verify", "on"), ("access", "sequential")]);
    assert!(reading.check().is_empty(), "{}", reading.check());
    reading.prepare(1, &mut |_| true).unwrap();
    assert!(!drive(reading.as_ref(), 0, 16, 1).1.is_empty());
    reading.clean_up().unwrap();
    let writing = disk(&path, &[("verify", "on"), ("read_percent", "0%")]);
    assert!(!writing.check().is_empty());
    assert!(path.exists());
}
