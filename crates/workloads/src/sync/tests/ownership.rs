//! Which folders are used and removed, and which are not.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use engine::workload::{Workload, WorkloadKind};
use testkit::Scratch;

use super::super::{SYNC, settings};
use super::counted;
use crate::testing::settings_of;

const MARK: &str = ".plimsoll-sync";

/// A load in a folder; it makes its source there, and a configuration when `template` is set.
fn load(directory: &std::path::Path, template: bool, more: &[(&str, &str)]) -> Box<dyn Workload> {
    let place = directory.display().to_string();
    let mut pairs = vec![
        ("run", "x full-import"),
        ("command", "/bin/sh -c 'echo progress x full-import 12 done'"),
        ("prepare", "echo 12 > users.csv"),
        ("directory", place.as_str()),
    ];
    if template {
        pairs.push(("template", "twelve"));
    }
    pairs.extend_from_slice(more);
    SYNC.configure(&settings_of(settings::SETTINGS, &pairs)).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Prepares, measures and cleans up; what `prepare` said when it refused.
fn run(mut workload: Box<dyn Workload>) -> Option<String> {
    let refused = workload.prepare(7, &mut |_| true).err().map(|error| error.to_string());
    if refused.is_none() {
        assert_eq!(counted(&*workload), [("staging", 12)]);
    }
    workload.clean_up().unwrap();
    refused
}

#[test]
fn a_folder_of_the_users_is_not_removed_whatever_it_holds() {
    let folder = Scratch::new();
    for (name, template) in [("in-use", false), ("with-template", true)] {
        let work = folder.join(name);
        fs::create_dir(&work).unwrap();
        fs::write(work.join(MARK), "Made by plimsoll sync, which removes it.\n").unwrap();
        fs::write(work.join("precious"), "precious").unwrap();
        let refused = run(load(&work, template, &[]));
        assert_eq!(fs::read_to_string(work.join("precious")).unwrap(), "precious", "{name}");
        // With a template the folder must be Plimsoll's own; what is left by a killed run is reported.
        assert_eq!(refused.is_some(), template, "{refused:?}");
        if let Some(text) = refused {
            assert!(text.contains("was left by an earlier run"), "{text}");
            assert!(text.contains("plimsoll restore --remove-files"), "{text}");
            assert!(text.contains(&format!("rm -r {}", work.display())), "{text}");
            assert!(load(&work, true, &[]).check().to_string().contains("was left by an earlier run"));
        }
    }
}

#[test]
fn a_kept_folder_belongs_to_the_user_from_then_on() {
    let folder = Scratch::new();
    let work = folder.join("work");
    assert_eq!(run(load(&work, true, &[("keep", "true")])), None);
    assert!(work.join("users.csv").exists());
    fs::write(work.join("precious"), "precious").unwrap();
    assert!(run(load(&work, true, &[])).is_some());
    assert!(work.join("precious").exists());
    assert_eq!(run(load(&work, false, &[])), None);
    assert!(work.join("precious").exists());
}

#[test]
fn an_empty_folder_is_used_and_left() {
    let folder = Scratch::new();
    let work = folder.join("work");
    fs::create_dir(&work).unwrap();
    // Two trials of one experiment.
    let mut trials: Vec<_> = (0..2).map(|_| load(&work, true, &[])).collect();
    for trial in &mut trials {
        assert!(trial.check().is_empty(), "{}", trial.check());
        trial.prepare(1, &mut |_| true).unwrap();
    }
    for trial in trials.iter_mut().rev() {
        trial.clean_up().unwrap();
    }
    assert!(work.join("users.csv").exists());
}

#[test]
fn a_folder_is_made_for_this_user_alone_and_removed_after_the_last_trial() {
    let folder = Scratch::new();
    let work = folder.join("work");
    let mut trials: Vec<_> = (0..3).map(|_| load(&work, true, &[])).collect();
    for trial in &mut trials {
        assert!(trial.check().is_empty(), "{}", trial.check());
        trial.prepare(1, &mut |_| true).unwrap();
        assert_eq!(fs::metadata(&work).unwrap().permissions().mode() & 0o777, 0o700);
    }
    for trial in trials.iter_mut().rev() {
        assert!(work.exists());
        trial.clean_up().unwrap();
    }
    assert!(!work.exists());
}

#[test]
fn a_folder_that_took_the_place_of_the_made_one_is_left_alone() {
    let folder = Scratch::new();
    let work = folder.join("work");
    for template in [true, false] {
        let mut first = load(&work, template, &[]);
        first.prepare(1, &mut |_| true).unwrap();
        fs::rename(&work, folder.join("moved")).unwrap();
        fs::create_dir(&work).unwrap();
        fs::write(work.join(MARK), "").unwrap();
        fs::write(work.join("precious"), "precious").unwrap();
        let mut second = load(&work, template, &[]);
        assert_eq!(second.prepare(2, &mut |_| true).is_err(), template);
        second.clean_up().unwrap();
        first.clean_up().unwrap();
        assert!(work.join("precious").exists());
        fs::remove_dir_all(&work).unwrap();
        fs::remove_dir_all(folder.join("moved")).unwrap();
    }
}

#[test]
fn a_configuration_is_not_written_through_a_link() {
    let folder = Scratch::new();
    let (work, precious) = (folder.join("work"), folder.file("precious", "precious"));
    let link = format!("ln -sf {} engine.conf", precious.display());
    let pairs = [("config", "engine.conf"), ("prepare", link.as_str())];
    let mut first = load(&work, true, &pairs);
    first.prepare(1, &mut |_| true).unwrap();
    let mut second = load(&work, true, &[("config", "engine.conf")]);
    second.prepare(1, &mut |_| true).unwrap();
    assert_eq!(fs::read_to_string(work.join("engine.conf")).unwrap(), "twelve\n");
    assert_eq!(folder.text("precious"), "precious");
    second.clean_up().unwrap();
    first.clean_up().unwrap();
}

#[test]
fn a_folder_that_others_can_exchange_or_fill_is_refused() {
    if testkit::lacks(testkit::Need::Root) {
        return;
    }
    let folder = Scratch::new();
    let make = |name: &str| {
        fs::create_dir(folder.join(name)).unwrap();
        folder.join(name)
    };
    make("real");
    symlink("real", folder.join("link")).unwrap();
    std::os::unix::fs::lchown(folder.join("link"), Some(65534), None).unwrap();
    std::os::unix::fs::chown(make("theirs"), Some(65534), None).unwrap();
    fs::set_permissions(make("open"), PermissionsExt::from_mode(0o777)).unwrap();
    for name in ["link", "theirs", "open", "open/new"] {
        let workload = load(&folder.join(name), true, &[]);
        assert!(!workload.check().is_empty(), "{name}");
        assert!(run(workload).is_some(), "{name}");
        assert_eq!(fs::read_dir(folder.join(name)).map_or(0, Iterator::count), 0, "{name}");
    }
    // As in /tmp: what is in it cannot be exchanged by others.
    fs::set_permissions(folder.join("open"), PermissionsExt::from_mode(0o1777)).unwrap();
    assert_eq!(run(load(&folder.join("open/new"), true, &[])), None);
}

#[test]
fn output_is_not_written_through_another_users_link() {
    if testkit::lacks(testkit::Need::Root) {
        return;
    }
    let folder = Scratch::new();
    folder.file("precious", "precious");
    symlink("precious", folder.join("log")).unwrap();
    std::os::unix::fs::lchown(folder.join("log"), Some(65534), None).unwrap();
    symlink("not-there", folder.join("dangling")).unwrap();
    for name in ["log", "dangling"] {
        let log = folder.join(name).display().to_string();
        assert!(run(load(&folder.join("work"), true, &[("output", &log)])).is_some(), "{name}");
    }
    assert_eq!(folder.text("precious"), "precious");
    assert!(!folder.join("not-there").exists());
    assert_eq!(run(load(&folder.join("work"), true, &[("output", "/dev/null")])), None);
    assert!(fs::metadata("/dev/null").is_ok_and(|null| !null.is_file()));
}
