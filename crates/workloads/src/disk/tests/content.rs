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
