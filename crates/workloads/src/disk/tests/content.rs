//! What lies behind a path, and what it holds: refused where it is no disk, recorded where it makes reading easy.

use std::fs;
use std::io::Write;

use engine::workload::Workload;
use model::Level;

use super::{Scratch, disk};

fn number(disk: &dyn Workload, name: &str) -> Option<f64> {
    disk.facts().get(name).and_then(Level::as_number)
}

#[test]
fn a_name_among_the_devices_that_is_none_is_refused_and_not_made() {
    let name = format!("/dev/plimsoll-none-{}", std::process::id());
    let folder = Scratch::new("no-device");
    // By its own name, and through a link to the folder.
    std::os::unix::fs::symlink("/dev", folder.path("link")).unwrap();
    let linked = folder.path("link").join(name.trim_start_matches("/dev/"));
    for path in [std::path::Path::new(&name), &linked] {
        let mut run = disk(path, &[]);
        let problems = run.check().to_string();
        assert!(problems.contains("on no disk") && problems.contains("lsblk"), "{problems}");
        assert!(run.prepare(1, &mut |_| true).is_err());
        run.clean_up().unwrap();
        assert!(!fs::exists(&name).unwrap(), "a file was made in /dev");
    }
    for path in ["/proc/self/maps", "/proc/self/none", "/sys/kernel/none"] {
        let problems = disk(std::path::Path::new(path), &[("size", "4KiB")]).check().to_string();
        assert!(problems.contains("made up by the kernel"), "{path}: {problems}");
    }
}

#[test]
fn what_is_read_is_sampled_without_warming_the_page_cache() {
    let folder = Scratch::new("sample");
    let path = folder.path("f");
    let mut content = vec![0_u8; 1 << 20];
    super::super::content::Filler::new(0.0).fill(&mut content[..1 << 19], 5);
    for (name, content, zero, repeated) in [
        ("zeros", vec![0; 1 << 20], 1.0..=1.0, 1.0..=1.0),
        ("half", content.clone(), 0.35..=0.65, 0.35..=0.65),
        ("text", b"uid=somebody,ou=people\n".repeat(50_000), 0.0..=0.0, 0.9..=1.0),
        ("random", content[..1 << 19].repeat(2), 0.0..=0.0, 0.0..=0.01),
    ] {
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let resident = || engine::page_cache::resident_bytes(&file, 0, content.len() as u64);
        let before = resident();
        let mut run = disk(&path, &[]);
        run.prepare(1, &mut |_| true).unwrap();
        assert_eq!(resident(), before, "{name}");
        let found = |fact| number(run.as_ref(), fact).unwrap();
        assert!(zero.contains(&found("content.zero_share")), "{name}: {:?}", run.facts());
        assert!(repeated.contains(&found("content.repeated_share")), "{name}: {:?}", run.facts());
    }
    // What is only written is not read.
    let mut run = disk(&folder.path("g"), &[("read_percent", "0%")]);
    run.prepare(1, &mut |_| true).unwrap();
    assert_eq!(number(run.as_ref(), "content.zero_share"), None);
}

#[test]
fn a_preparation_that_failed_is_recorded_with_the_device_it_was_for() {
    let folder = Scratch::new("unprepared");
    let path = folder.path("f");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let mut run = disk(&path, &[("read_percent", "0%")]);
    assert!(run.prepare(1, &mut |_| true).is_err());
    let facts = run.facts();
    assert_eq!(facts["preparation"], Level::Text("not completed".into()));
    assert_eq!(facts["cache"], Level::Text("page-cache".into()));
    let mut reading = disk(&path, &[]);
    reading.prepare(1, &mut |_| true).unwrap();
    for name in ["devices", "file_system"] {
        assert_eq!(facts.get(name), reading.facts().get(name), "{name}");
    }
    assert!(!reading.facts().contains_key("preparation"));
}

#[test]
fn a_file_is_preconditioned_once_and_in_full_and_a_foreign_one_never() {
    let folder = Scratch::new("precondition");
    let path = folder.path("f");
    let settings = [("size", "1MiB"), ("block_size", "512B"), ("precondition", "true")];
    let mut run = disk(&path, &settings);
    let mut content = Vec::new();
    for seed in 1..=2 {
        run.prepare(seed, &mut |_| true).unwrap();
        assert_eq!(run.facts()["precondition.written_bytes"], Level::Bytes(2 << 20));
        content.push(fs::read(&path).unwrap());
    }
    assert_eq!(content[0].len(), 1 << 20);
    assert!(content[0] == content[1], "the second trial wrote it again");
    run.clean_up().unwrap();
    // A load that reads writes here: what others made is left alone.
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let mut foreign = disk(&path, &settings);
    assert!(foreign.check().to_string().contains("was not created by Plimsoll"), "{}", foreign.check());
    assert!(foreign.prepare(1, &mut |_| true).is_err());
    assert!(fs::read(&path).unwrap() == vec![7; 1 << 20]);
    // Named, it is written in full.
    let name = path.display().to_string();
    let mut named = disk(&path, &[("precondition", "true"), ("overwrite", &name)]);
    named.prepare(1, &mut |_| true).unwrap();
    let content = fs::read(&path).unwrap();
    assert!(content.chunks(4096).all(|chunk| chunk != vec![7; 4096]));
}

#[test]
fn an_interrupted_preconditioning_leaves_nothing() {
    let folder = Scratch::new("precondition-interrupted");
    let path = folder.path("f");
    let mut run = disk(&path, &[("size", "1MiB"), ("precondition", "true")]);
    let mut said = Vec::new();
    let stopped = run.prepare(1, &mut |text| {
        said.push(text.to_string());
        !text.contains("pass 2")
    });
    assert!(stopped.is_err());
    assert!(said.last().unwrap().starts_with("preconditioning, pass 2 of 2"), "{said:?}");
    run.clean_up().unwrap();
    assert!(!path.exists());
}

#[test]
fn data_compresses_like_a_file_that_is_named() {
    let folder = Scratch::new("compressible-like");
    let mut half = vec![0_u8; 1 << 20];
    for piece in half.chunks_mut(4096) {
        super::super::content::Filler::new(50.0).fill(piece, 5);
    }
    for (name, content, percent) in [
        ("text", b"uid=somebody,ou=people\n".repeat(50_000), 95.0..=100.0),
        ("half", half.clone(), 45.0..=55.0),
        ("short", half[..3000].to_vec(), 30.0..=70.0),
    ] {
        let (like, path) = (folder.path("like"), folder.path(name));
        fs::write(&like, content).unwrap();
        let like = like.display().to_string();
        let mut run = disk(&path, &[("size", "1MiB"), ("compressible_like", &like)]);
        assert!(run.check().is_empty(), "{name}: {}", run.check());
        run.prepare(1, &mut |_| true).unwrap();
        let Level::Percent(planned) = run.facts()["compressible"] else { panic!("{:?}", run.facts()) };
        assert!(percent.contains(&planned), "{name}: {planned}");
        let written = super::super::sample::of_file(&Default::default(), &path).unwrap();
        assert!(percent.contains(&(written.repeated_share * 100.0)), "{name}: {written:?}");
    }
    let empty = folder.path("empty");
    fs::write(&empty, "").unwrap();
    for like in ["/proc/none", "/dev/null", empty.to_str().unwrap()] {
        let problems = disk(&folder.path("g"), &[("compressible_like", like)]).check().to_string();
        assert!(problems.contains("cannot be sampled"), "{like}: {problems}");
    }
}
