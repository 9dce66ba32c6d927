//! Paths of settings on an agent with limits: nothing is opened that it may not open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::allowed::Allowed;
use engine::inputs::Inputs;
use engine::workload::{Workload, WorkloadKind};
use model::{PathUse, SettingKind};
use rustix::fs::inotify;
use testkit::Scratch;

use super::{KINDS, settings_of};

/// Settings with a text about files that name none to open.
const NO_PATHS: &[&str] = &[
    // Its paths are those of the settings in it.
    "disk.jobs",
    "disk.sprandom",
    // The socket of a URL is asked for with the opener.
    "ldap.url",
    "ldap_import.url",
    "http.url",
    // A secret in a file is resolved where the run was started.
    "http.header",
    "http.body",
    "ldap.password",
    "ldap_import.password",
    "ldap_import.index",
    "command.until_http",
    // Command lines.
    "ldap_import.command",
    "ldap_import.prepare",
    "sync.command",
    "sync.prepare",
    "sync.run",
    "sync.durability",
];

/// A folder that an agent may use, and one beside it in which each opening of a file is seen.
struct Places {
    _scratch: Scratch,
    inside: PathBuf,
    outside: PathBuf,
    opened: std::os::fd::OwnedFd,
}

impl Places {
    fn new() -> Places {
        let scratch = Scratch::new();
        let [inside, outside] = ["inside", "outside"].map(|name| scratch.join(name));
        for folder in [&inside, &outside] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("file"), vec![7; 1 << 20]).unwrap();
        }
        let opened = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        let events = inotify::WatchFlags::OPEN | inotify::WatchFlags::CREATE;
        inotify::add_watch(&opened, &outside, events).unwrap();
        Places { _scratch: scratch, inside, outside, opened }
    }

    fn allowed(&self) -> std::sync::Arc<Allowed> {
        Allowed::new([self.inside.to_str().unwrap()], false).unwrap().into()
    }

    /// Fails if anything in the folder outside was opened or made.
    fn nothing_was_opened(&self, what: &str) {
        let seen = rustix::io::read(&self.opened, &mut [0_u8; 4096][..]);
        assert_eq!(seen, Err(rustix::io::Errno::AGAIN), "{what}: a file was opened");
    }
}

/// The settings of a load that needs no others, where one setting has this text.
fn with(kind: &dyn WorkloadKind, places: &Places, name: &str, text: &str) -> Box<dyn Workload> {
    let inside = places.inside.join("file").display().to_string();
    let inside_new = places.inside.join("new").display().to_string();
    let mut pairs: BTreeMap<&str, &str> = match kind.info().name {
        "disk" => [("files", inside.as_str()), ("size", "1MiB"), ("read_percent", "0%")].into(),
        "http" => [("url", "http://127.0.0.1:9/")].into(),
        "ldap" => [("url", "ldap://127.0.0.1:9")].into(),
        "ldap_import" => [("tool", "ldapadd"), ("url", "ldap://127.0.0.1:9")].into(),
        "copy" => [("source", inside.as_str()), ("destination", inside_new.as_str())].into(),
        "command" => [("command", "true")].into(),
        "sync" => [("run", "full")].into(),
        _ => BTreeMap::new(),
    };
    match name {
        "overwrite" => _ = pairs.insert("files", text),
        "compressible_like" => _ = pairs.insert("overwrite", &inside),
        _ => {}
    }
    pairs.insert(name, text);
    let pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    let settings = settings_of(kind.info().settings, &pairs);
    let configured = kind.configure_with(&settings, &Inputs::sent(BTreeMap::new()));
    configured.unwrap_or_else(|problems| panic!("{name} = {text}: {problems}"))
}

/// Everything that opens files, although the load was refused.
fn carry_on(workload: &mut dyn Workload) -> String {
    let mut said = workload.check().to_string();
    said += &workload.reach(&mut Vec::new()).to_string();
    if let Err(error) = workload.prepare(1, &mut |_| true) {
        said += &error.in_line();
    }
    let _ = workload.facts();
    let _ = workload.clean_up();
    said
}

/// Each setting is a path in its table, or listed as none: a new one cannot be forgotten.
#[test]
fn an_agent_opens_no_path_of_a_setting_that_it_may_not_open() {
    let places = Places::new();
    let outside = places.outside.join("file").display().to_string();
    let mut unknown = Vec::new();
    let mut seen = Vec::new();
    for kind in KINDS {
        for setting in kind.info().settings {
            let name = format!("{}.{}", kind.info().name, setting.name);
            match setting.kind.path_use() {
                None => {
                    let about = setting.about.to_lowercase();
                    let is_text = matches!(
                        setting.kind,
                        SettingKind::Text
                            | SettingKind::Texts
                            | SettingKind::Secret(_)
                            | SettingKind::Secrets(_)
                    );
                    let words = ["file", "folder", "path", "socket", "director", "device"];
                    if is_text && words.iter().any(|word| about.contains(word)) && !NO_PATHS.contains(&&*name)
                    {
                        unknown.push(name);
                    }
                }
                // Only what was sent is read: see `a_load_is_configured_from_what_was_sent`.
                Some(PathUse::Input) => seen.push(name),
                // A load of commands is refused as a whole.
                Some(PathUse::Command) => {
                    let mut workload = kind_without_inputs(*kind, &places);
                    let problems = workload.limit_to(&places.allowed());
                    assert!(problems.to_string().contains("commands"), "{name}: {problems}");
                    seen.push(name);
                }
                Some(PathUse::Host) => {
                    for text in [&outside, &format!("{}/../outside/file", places.inside.display())] {
                        let mut workload = with(*kind, &places, setting.name, text);
                        let problems = workload.limit_to(&places.allowed());
                        assert!(problems.to_string().contains("refuses"), "{name}: {problems}");
                        let said = carry_on(&mut *workload);
                        assert!(said.contains("refuses"), "{name}: {said}");
                        places.nothing_was_opened(&name);
                    }
                    seen.push(name);
                }
            }
        }
    }
    assert_eq!(unknown, [""; 0], "define them with Key::path, or list them");
    assert!(seen.len() > 20, "{seen:?}");
}

fn kind_without_inputs(kind: &dyn WorkloadKind, places: &Places) -> Box<dyn Workload> {
    let name = kind.info().settings[0].name;
    match kind.info().name {
        "ldap_import" => with(kind, places, "entries", "5"),
        "command" => with(kind, places, "command", "true"),
        "sync" => with(kind, places, "run", "full"),
        other => panic!("{other}.{name}"),
    }
}

#[test]
fn a_path_that_leads_out_of_the_folder_is_not_opened() {
    let places = Places::new();
    let secret = std::fs::File::open(places.outside.join("file")).unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&secret);
    let link = |name: &str, to: &Path| {
        let link = places.inside.join(name);
        std::os::unix::fs::symlink(to, &link).unwrap();
        link.display().to_string()
    };
    let paths = [
        link("link", &places.outside.join("file")),
        link("relative", Path::new("../outside/file")),
        format!("{}/file", link("folder", &places.outside)),
        link("of-link", &places.inside.join("link")),
        link("of-descriptor", Path::new(&format!("/proc/self/fd/{descriptor}"))),
        format!("/proc/self/fd/{descriptor}"),
        format!("/dev/fd/{descriptor}"),
        format!("/proc/self/root{}", places.outside.join("file").display()),
        format!("/proc/{}/fd/{descriptor}", std::process::id()),
    ];
    // What was opened here.
    let _ = rustix::io::read(&places.opened, &mut [0_u8; 4096][..]);
    let disk = KINDS.iter().find(|kind| kind.info().name == "disk").unwrap();
    for path in &paths {
        for (name, text) in [
            ("files", path.clone()),
            ("compressible_like", path.clone()),
            ("jobs", format!("a: files={path}")),
            ("jobs", format!("a: compressible_like={path}")),
        ] {
            let mut workload = with(*disk, &places, name, &text);
            let problems = workload.limit_to(&places.allowed());
            assert!(problems.to_string().contains("refuses"), "{name} = {text}: {problems}");
            carry_on(&mut *workload);
            places.nothing_was_opened(&format!("{name} = {text}"));
        }
    }
}

#[test]
fn a_link_that_is_changed_after_the_check_is_not_followed() {
    for name in ["files", "compressible_like"] {
        let places = Places::new();
        let link = places.inside.join("link");
        std::os::unix::fs::symlink(places.inside.join("file"), &link).unwrap();
        let disk = KINDS.iter().find(|kind| kind.info().name == "disk").unwrap();
        let mut workload = with(*disk, &places, name, link.to_str().unwrap());
        let problems = workload.limit_to(&places.allowed());
        assert!(problems.is_empty(), "{problems}");
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(places.outside.join("file"), &link).unwrap();
        let error = workload.prepare(1, &mut |_| true).unwrap_err().in_line();
        assert!(error.contains("refuses"), "{name}: {error}");
        places.nothing_was_opened(name);
    }
}
