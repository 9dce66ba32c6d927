//! What is replaced and removed, and what is not.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use testkit::Scratch;

use super::{BACK_ENDS, can, configure, content};
use crate::testing::drive;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Copies without asking `check` first; what failed, if anything did.
fn copy_unchecked(source: &Path, destination: &Path, pairs: &[(&str, &str)]) -> Option<String> {
    let mut all = vec![("source", text(source)), ("destination", text(destination)), ("cache", "page-cache")];
    all.extend_from_slice(pairs);
    let mut workload = configure(&all);
    let done = workload
        .prepare(5, &mut |_| true)
        .and_then(|()| drive(&*workload, 4, usize::MAX).map(|_| ()))
        .err()
        .map(|error| error.to_string());
    workload.clean_up().unwrap();
    done
}

#[test]
fn a_device_is_neither_written_nor_removed() {
    if testkit::lacks(testkit::Need::Root) {
        return;
    }
    let folder = Scratch::new();
    let source = folder.file("source", content(5000));
    let directory = fs::File::open(folder.path()).unwrap();
    // The device that is always full.
    let (kind, device) = (rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 7));
    rustix::fs::mknodat(&directory, "device", kind, rustix::fs::Mode::RWXU, device).unwrap();
    symlink("device", folder.join("link")).unwrap();
    for back_end in BACK_ENDS.into_iter().filter(|back_end| can(back_end)) {
        for destination in ["device", "link"] {
            let pairs = [("overwrite", "true"), ("back_end", back_end)];
            let error = copy_unchecked(&source, &folder.join(destination), &pairs);
            assert!(error.as_ref().is_some_and(|error| error.contains("is not a file")), "{error:?}");
        }
    }
    assert!(folder.join("device").exists() && folder.join("link").is_symlink());
}

#[test]
fn nothing_is_created_through_a_link_that_points_nowhere() {
    let folder = Scratch::new();
    let source = folder.file("source", content(5000));
    symlink("not-there", folder.join("link")).unwrap();
    for overwrite in ["true", "false"] {
        let error = copy_unchecked(&source, &folder.join("link"), &[("overwrite", overwrite)]);
        assert!(error.as_ref().is_some_and(|error| error.contains("points at not-there")), "{error:?}");
    }
    let link = folder.join("link");
    let pairs = [("source", text(&source)), ("destination", text(&link))];
    assert!(configure(&pairs).check().to_string().contains("points at not-there"));
    assert!(!folder.join("not-there").exists());
}

#[test]
fn a_link_of_the_users_own_names_the_file_it_points_at() {
    let folder = Scratch::new();
    let source = folder.file("source", content(5000));
    let real = folder.file("real", content(9000));
    symlink("real", folder.join("link")).unwrap();
    assert_eq!(copy_unchecked(&source, &folder.join("link"), &[("overwrite", "true")]), None);
    assert!(folder.join("link").is_symlink());
    assert!(fs::read(real).unwrap() == content(5000));
}

#[test]
fn a_link_of_another_user_is_refused() {
    if testkit::lacks(testkit::Need::Root) {
        return;
    }
    let folder = Scratch::new();
    let source = folder.file("source", content(5000));
    let precious = folder.file("precious/file", "precious");
    fs::create_dir(folder.join("shared")).unwrap();
    fs::set_permissions(folder.join("shared"), PermissionsExt::from_mode(0o1777)).unwrap();
    for (link, to) in [("file", "../precious/file"), ("folder", "../precious")] {
        symlink(to, folder.join("shared").join(link)).unwrap();
        std::os::unix::fs::lchown(folder.join("shared").join(link), Some(65534), None).unwrap();
    }
    for destination in ["shared/file", "shared/folder", "shared/folder/new"] {
        let error = copy_unchecked(&source, &folder.join(destination), &[("overwrite", "true")]);
        assert!(error.as_ref().is_some_and(|error| error.contains("belongs to user 65534")), "{error:?}");
    }
    assert_eq!(fs::read_to_string(precious).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.join("precious")).unwrap().count(), 1);
}

#[test]
fn a_folder_is_not_copied_through_links_below_its_destination() {
    let folder = Scratch::new();
    folder.file("source/inner/a", content(5000));
    folder.file("elsewhere/a", "precious");
    fs::create_dir(folder.join("destination")).unwrap();
    symlink("../elsewhere", folder.join("destination/inner")).unwrap();
    let error = copy_unchecked(&folder.join("source"), &folder.join("destination"), &[("overwrite", "true")]);
    assert!(error.is_some());
    assert_eq!(folder.text("elsewhere/a"), "precious");
}

#[test]
fn another_name_of_a_replaced_file_keeps_its_content() {
    let folder = Scratch::new();
    let source = folder.file("source", content(5000));
    let destination = folder.file("destination", "precious");
    fs::hard_link(&destination, folder.join("second")).unwrap();
    assert_eq!(copy_unchecked(&source, &destination, &[("overwrite", "true")]), None);
    assert_eq!(folder.text("second"), "precious");
    assert!(fs::read(destination).unwrap() == content(5000));
}

#[test]
fn a_file_that_took_the_place_of_a_copy_is_not_removed() {
    let folder = Scratch::new();
    let source = folder.file("source", content(5000));
    let destination = folder.join("destination");
    let pairs = [
        ("source", text(&source)),
        ("destination", text(&destination)),
        ("cache", "page-cache"),
        ("discard", "true"),
    ];
    let exchange = || fs::rename(folder.file("mine", "precious"), &destination).unwrap();
    let mut first = configure(&pairs);
    first.prepare(0, &mut |_| true).unwrap();
    drive(&*first, 1, usize::MAX).unwrap();
    exchange();
    // Neither by the next trial, which copies to the same place, nor in the end.
    let mut second = configure(&pairs);
    assert!(second.prepare(0, &mut |_| true).is_err());
    assert_eq!(fs::read_to_string(&destination).unwrap(), "precious");
    second.clean_up().unwrap();
    first.clean_up().unwrap();
    assert_eq!(fs::read_to_string(&destination).unwrap(), "precious");
    // Put there while the copy runs.
    fs::remove_file(&destination).unwrap();
    let mut third = configure(&pairs);
    third.prepare(0, &mut |_| true).unwrap();
    drive(&*third, 1, usize::MAX).unwrap();
    exchange();
    third.clean_up().unwrap();
    assert_eq!(fs::read_to_string(&destination).unwrap(), "precious");
}

#[test]
fn a_source_that_becomes_a_link_is_not_followed() {
    let folder = Scratch::new();
    folder.file("secret", [b's'; 9000]);
    folder.file("source/a", content(5000));
    let destination = folder.join("destination");
    let mut workload = configure(&[
        ("source", text(&folder.join("source"))),
        ("destination", text(&destination)),
        ("cache", "page-cache"),
    ]);
    workload.prepare(0, &mut |_| true).unwrap();
    fs::remove_file(folder.join("source/a")).unwrap();
    symlink("../secret", folder.join("source/a")).unwrap();
    assert!(drive(&*workload, 1, usize::MAX).is_err());
    workload.clean_up().unwrap();
    assert!(!destination.join("a").exists());
}
