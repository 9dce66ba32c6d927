use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use engine::workload::{Done, Outcome};
use testkit::Scratch;

use super::*;
use crate::testing::{drive, settings_of};

mod ownership;

const BACK_ENDS: [&str; 2] = ["io_uring", "system-calls"];

fn configure(pairs: &[(&str, &str)]) -> Box<dyn Workload> {
    COPY.configure(&settings_of(settings::SETTINGS, pairs)).unwrap()
}

/// Whether this host can run a back end.
fn can(back_end: &str) -> bool {
    back_end != "io_uring" || ring::permitted().is_ok() || !testkit::partly_lacks(testkit::Need::IoUring)
}

/// Whether files in the folder can be opened past the page cache.
fn cache_for(folder: &Path) -> &'static str {
    use std::os::unix::fs::OpenOptionsExt;
    let probe = folder.join("probe");
    fs::write(&probe, "x").unwrap();
    let direct = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&probe).is_ok();
    fs::remove_file(probe).unwrap();
    if direct { "direct" } else { "page-cache" }
}

fn copy(pairs: &[(&str, &str)]) -> (Box<dyn Workload>, Vec<Done>) {
    let mut workload = configure(pairs);
    let problems = workload.check();
    assert!(problems.is_empty(), "{problems}");
    workload.prepare(5, &mut |_| true).unwrap();
    let done = drive(&*workload, 4, usize::MAX).unwrap();
    (workload, done)
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn a_file_is_copied_whatever_its_length() {
    let folder = Scratch::new();
    for back_end in BACK_ENDS {
        for cache in [cache_for(folder.path()), "page-cache"] {
            for bytes in [0, 1, 4096, 65536, 65537, 300_001] {
                if !can(back_end) {
                    continue;
                }
                let source = folder.file("source", content(bytes));
                fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
                let destination = folder.join("destination");
                let (mut workload, done) = copy(&[
                    ("source", source.to_str().unwrap()),
                    ("destination", destination.to_str().unwrap()),
                    ("block_size", "64KiB"),
                    ("cache", cache),
                    ("back_end", back_end),
                ]);
                let copies: Vec<&Done> = done.iter().filter(|done| done.kind == KIND_COPY).collect();
                assert_eq!(copies.len(), bytes.div_ceil(65536).max(1));
                assert_eq!(copies.iter().map(|done| done.bytes as usize).sum::<usize>(), bytes);
                assert_eq!(done.last().map(|done| done.kind), Some(KIND_SYNC));
                assert!(done.iter().all(|done| done.outcome == Outcome::Well));
                workload.clean_up().unwrap();
                assert!(fs::read(&destination).unwrap() == content(bytes), "{back_end} {cache} {bytes}");
                assert_eq!(fs::metadata(&destination).unwrap().permissions().mode() & 0o777, 0o640);
                fs::remove_file(&destination).unwrap();
            }
        }
    }
}

#[test]
fn a_folder_is_copied_with_all_its_files_and_can_be_discarded() {
    let folder = Scratch::new();
    for index in 0..20 {
        folder.file(&format!("source/{}/file{index}", index % 3), content(index * 1000));
    }
    folder.link("source/link", "0");
    let source = folder.join("source");
    for back_end in BACK_ENDS.into_iter().filter(|back_end| can(back_end)) {
        let destination = folder.join("destination");
        let (mut workload, done) = copy(&[
            ("source", source.to_str().unwrap()),
            ("destination", destination.to_str().unwrap()),
            ("block_size", "4KiB"),
            ("cache", cache_for(folder.path())),
            ("discard", "true"),
            ("back_end", back_end),
        ]);
        assert_eq!(done.iter().filter(|done| done.kind == KIND_SYNC).count(), 20);
        for index in 0..20 {
            let copy = fs::read(destination.join(format!("{}/file{index}", index % 3))).unwrap();
            assert!(copy == content(index * 1000));
        }
        let facts = workload.facts();
        assert_eq!(facts["destination.state"], Level::Text("complete".into()));
        assert_eq!((&facts["files.copied"], &facts["files.left_out"]), (&Level::Count(20), &Level::Count(1)));
        assert_eq!(facts["back_end"], Level::Text(back_end.into()));
        workload.clean_up().unwrap();
        assert!(!destination.exists());
    }
}

#[test]
fn generated_data_fills_the_destination_and_does_not_repeat() {
    let folder = Scratch::new();
    for back_end in BACK_ENDS.into_iter().filter(|back_end| can(back_end)) {
        let destination = folder.join(back_end);
        let (_, done) = copy(&[
            ("source", "generate:1MiB"),
            ("destination", destination.to_str().unwrap()),
            ("block_size", "64KiB"),
            ("sync", "never"),
            ("cache", "page-cache"),
            ("back_end", back_end),
        ]);
        assert!(done.iter().all(|done| done.kind == KIND_COPY));
        let data = fs::read(&destination).unwrap();
        assert_eq!(data.len(), 1 << 20);
        let pieces: std::collections::HashSet<&[u8]> = data.chunks(512).collect();
        assert_eq!(pieces.len(), 2048);
    }
}

#[test]
fn generated_data_is_divided_into_files_and_flushed_as_a_whole() {
    let folder = Scratch::new();
    for back_end in BACK_ENDS.into_iter().filter(|back_end| can(back_end)) {
        let destination = folder.join(back_end);
        let (mut workload, done) = copy(&[
            ("source", "generate:3MiB"),
            ("file_count", "250"),
            ("destination", destination.to_str().unwrap()),
            ("block_size", "64KiB"),
            ("sync", "file-system"),
            ("cache", cache_for(folder.path())),
            ("discard", "true"),
            ("back_end", back_end),
        ]);
        assert_eq!(done.iter().filter(|done| done.kind == KIND_SYNC).count(), 1);
        let (mut files, mut bytes) = (0, 0);
        for below in ["00000", "00001", "00002"] {
            for entry in fs::read_dir(destination.join(below)).unwrap() {
                let length = entry.unwrap().metadata().unwrap().len();
                assert!(length > 0);
                (files, bytes) = (files + 1, bytes + length);
            }
        }
        assert_eq!((files, bytes), (250, 3 << 20));
        assert_eq!(done.iter().map(|done| u64::from(done.bytes)).sum::<u64>(), 3 << 20);
        workload.clean_up().unwrap();
        assert!(!destination.exists());
    }
}

#[test]
fn a_copy_that_was_stopped_leaves_no_partial_file() {
    let folder = Scratch::new();
    folder.file("source/a", content(8192));
    folder.file("source/b", content(1 << 20));
    for back_end in BACK_ENDS.into_iter().filter(|back_end| can(back_end)) {
        let destination = folder.join("destination");
        let mut workload = configure(&[
            ("source", folder.join("source").to_str().unwrap()),
            ("destination", destination.to_str().unwrap()),
            ("block_size", "4KiB"),
            ("cache", "page-cache"),
            ("back_end", back_end),
        ]);
        workload.prepare(0, &mut |_| true).unwrap();
        drive(&*workload, 2, 10).unwrap();
        assert!(destination.join("b").exists());
        let state = &workload.facts()["destination.state"];
        assert_eq!(*state, Level::Text("partial: files that are not complete are removed".into()));
        workload.clean_up().unwrap();
        assert!(destination.join("a").exists() && !destination.join("b").exists());
        fs::remove_dir_all(destination).unwrap();
    }
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_changed() {
    let folder = Scratch::new();
    folder.file("source/a", "a");
    let there = folder.file("there", "precious");
    let source = folder.join("source/a");
    let text = |path: &Path| path.to_str().unwrap().to_string();
    let whats = |source: &Path, destination: &Path, more: &[(&str, &str)]| {
        let (source, destination) = (text(source), text(destination));
        let mut pairs = vec![("source", source.as_str()), ("destination", destination.as_str())];
        pairs.extend(more);
        let problems = configure(&pairs).check();
        let all: Vec<String> = problems.0.into_iter().map(|problem| problem.what).collect();
        all.join("; ").replace(&format!("{}/", folder.path().display()), "")
    };
    assert_eq!(whats(&source, &there, &[]), "`there` exists already: a copy replaces it");
    assert_eq!(whats(&source, &there, &[("overwrite", "true")]), "");
    assert_eq!(whats(&there, &there, &[("overwrite", "true")]), "`there` is the source itself");
    assert_eq!(
        whats(&folder.join("source"), &folder.join("source/inner"), &[]),
        "the destination is inside the source `source`"
    );
    assert!(whats(&folder.join("none"), &there, &[]).starts_with("`none` cannot be copied: No such file"));
    assert!(whats(&source, &folder.join("no/where"), &[]).starts_with("nothing can be written to `no`"));
    assert!(whats(&source, Path::new("/dev/null"), &[]).contains("is not a file"));
    assert_eq!(fs::read_to_string(there).unwrap(), "precious");
    // A generated source larger than any disk.
    let problems =
        configure(&[("source", "generate:8000000TiB"), ("destination", &text(&folder.join("big")))]);
    assert!(problems.check().0[0].what.contains(" are to be copied and "));
}

#[test]
fn overwriting_leaves_nothing_of_the_former_content() {
    let folder = Scratch::new();
    let source = folder.file("source", content(5000));
    let destination = folder.file("destination", content(90_000));
    copy(&[
        ("source", source.to_str().unwrap()),
        ("destination", destination.to_str().unwrap()),
        ("overwrite", "true"),
        ("cache", cache_for(folder.path())),
    ]);
    assert!(fs::read(destination).unwrap() == content(5000));
}

#[test]
fn a_file_that_vanished_or_shrank_ends_the_copy_with_words() {
    let folder = Scratch::new();
    for back_end in BACK_ENDS.into_iter().filter(|back_end| can(back_end)) {
        for (damage, expected) in [("vanish", "opening `"), ("shrink", "became shorter")] {
            let source = folder.file("source", content(100_000));
            let mut workload = configure(&[
                ("source", source.to_str().unwrap()),
                ("destination", folder.join("destination").to_str().unwrap()),
                ("block_size", "16KiB"),
                ("cache", "page-cache"),
                ("back_end", back_end),
            ]);
            workload.prepare(0, &mut |_| true).unwrap();
            if damage == "vanish" {
                fs::remove_file(&source).unwrap();
            } else {
                fs::File::options().write(true).open(&source).unwrap().set_len(20_000).unwrap();
            }
            let error = drive(&*workload, 4, usize::MAX).unwrap_err();
            assert!(error.what.contains(expected), "{error}");
            workload.clean_up().unwrap();
            assert!(!folder.join("destination").exists());
        }
    }
}

#[test]
fn a_full_disk_ends_the_copy_with_advice() {
    if testkit::lacks(testkit::Need::Mount) {
        return;
    }
    let folder = Scratch::new();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=32k", "tmpfs"])
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(mounted.success());
    let errors: Vec<_> = BACK_ENDS
        .into_iter()
        .filter(|back_end| can(back_end))
        .map(|back_end| {
            let mut workload = configure(&[
                ("source", "generate:64KiB"),
                ("destination", folder.join("copy").to_str().unwrap()),
                ("block_size", "4KiB"),
                ("cache", "page-cache"),
                ("back_end", back_end),
            ]);
            assert!(!workload.check().is_empty());
            workload.prepare(0, &mut |_| true).unwrap();
            let error = drive(&*workload, 2, usize::MAX).unwrap_err();
            workload.clean_up().unwrap();
            error
        })
        .collect();
    assert!(std::process::Command::new("umount").arg(folder.path()).status().unwrap().success());
    for error in errors {
        assert!(error.what.starts_with("writing `") && error.what.contains("No space left"), "{error}");
        assert!(error.help.contains("free space"), "{error}");
    }
}

#[test]
fn one_trial_after_the_other_copies_to_the_same_place() {
    let folder = Scratch::new();
    let source = folder.file("source", content(20_000));
    let destination = folder.join("destination");
    for discard in ["false", "true"] {
        let pairs = [
            ("source", source.to_str().unwrap()),
            ("destination", destination.to_str().unwrap()),
            ("block_size", "4KiB"),
            ("cache", "page-cache"),
            ("discard", discard),
        ];
        // Of the first trial only a part is copied; the two after it are whole.
        let mut trials: Vec<_> = (0..3).map(|_| configure(&pairs)).collect();
        for (workload, operations) in trials.iter_mut().zip([2, usize::MAX, usize::MAX]) {
            workload.prepare(0, &mut |_| true).unwrap();
            drive(&**workload, 1, operations).unwrap();
        }
        for workload in trials.iter_mut().rev() {
            workload.clean_up().unwrap();
        }
        assert_eq!(destination.exists(), discard == "false");
        if destination.exists() {
            assert!(fs::read(&destination).unwrap() == content(20_000));
            fs::remove_file(&destination).unwrap();
        }
    }
    // What is left by someone else is not touched.
    fs::write(&destination, "precious").unwrap();
    let mut workload = configure(&[
        ("source", source.to_str().unwrap()),
        ("destination", destination.to_str().unwrap()),
        ("cache", "page-cache"),
    ]);
    let error = workload.prepare(0, &mut |_| true).unwrap_err();
    assert!(error.help.contains("`overwrite` replaces it"), "{error}");
    workload.clean_up().unwrap();
    assert_eq!(fs::read_to_string(&destination).unwrap(), "precious");
}

#[test]
fn several_threads_share_one_copy() {
    let folder = Scratch::new();
    let source = folder.file("source", content(1_000_003));
    let destination = folder.join("destination");
    let mut workload = configure(&[
        ("source", source.to_str().unwrap()),
        ("destination", destination.to_str().unwrap()),
        ("block_size", "4KiB"),
        ("cache", cache_for(folder.path())),
        ("back_end", "system-calls"),
    ]);
    assert_eq!(workload.workers(&workload.default_shape()), 4);
    workload.prepare(0, &mut |_| true).unwrap();
    let done: Vec<Done> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| drive(&*workload, 1, usize::MAX).unwrap())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(done.iter().map(|done| u64::from(done.bytes)).sum::<u64>(), 1_000_003);
    assert_eq!(done.iter().filter(|done| done.kind == KIND_SYNC).count(), 1);
    assert!(fs::read(destination).unwrap() == content(1_000_003));
}
