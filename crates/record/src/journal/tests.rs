use super::*;
use model::experiment::WorkloadSpec;
use model::{DesignKind, Settings};
use std::time::Duration;

fn experiment() -> Experiment {
    Experiment {
        machines: Default::default(),
        name: "any".into(),
        goals: Vec::new(),
        max_failures: model::experiment::MAX_FAILURES,
        watch: Vec::new(),
        sample_every: 1,
        replicates: 1,
        seed: 1,
        prove: false,
        folder: PathBuf::new(),
        target: None,
        workload: WorkloadSpec { kind: "null".into(), settings: Settings::default() },
        load: Settings::default(),
        vary: Vec::new(),
        design: DesignKind::OneFactorAtATime,
        gate: None,
        show: Vec::new(),
        published: Vec::new(),
        limit: Vec::new(),
        smallest: None,
        dependencies: Vec::new(),
    }
}

fn header() -> Header {
    Header {
        format: FORMAT.into(),
        host: host(),
        identity: None,
        execution: Execution {
            boot: boot(),
            run: "/nowhere".into(),
            device: 0,
            inode: 0,
            process: std::process::id(),
            started_ticks: None,
        },
        experiment: experiment(),
    }
}

fn journal(folder: &Path) -> Journal {
    let folder = Directory::open(folder).unwrap();
    let mut file = folder.create_new("a.jsonl", PRIVATE_FILE).unwrap();
    let text = line_of(&header()).unwrap();
    file.write_all(&text).unwrap();
    let end = text.len() as u64;
    let (name, header) = ("a.jsonl".into(), header());
    Journal(State::Open(Box::new(Open {
        folder,
        name,
        file,
        header,
        directory: None,
        next_id: 1,
        lines: Vec::new(),
        end,
    })))
}

fn reopened(folder: &Path) -> Journal {
    match Journal::reopen(Directory::open(folder).unwrap(), "a.jsonl".as_ref(), Duration::ZERO).unwrap() {
        JournalState::Left(journal) => journal,
        other => panic!("{other:?}"),
    }
}

fn seen(journal: &Journal) -> Vec<String> {
    journal.read_pending::<Vec<String>>().unwrap().into_iter().map(|line| line.undo[0].clone()).collect()
}

#[test]
fn what_was_not_undone_is_pending_latest_first_and_nothing_stays_of_what_was() {
    let folder = testkit::Scratch::new();
    let mut ours = journal(folder.path());
    let first = ours.pending("host.cpus", &vec!["a secret"]).unwrap();
    ours.pending("host.disk.io_limit", &vec!["b"]).unwrap();
    let third = ours.pending("host.cpus", &vec!["c"]).unwrap();
    ours.cross_off(first).unwrap();
    assert!(!folder.text("a.jsonl").contains("secret"));
    drop(ours);
    // A kill while a line is written.
    let mut file = std::fs::OpenOptions::new().append(true).open(folder.join("a.jsonl")).unwrap();
    file.write_all(b"{\"id\":9,\"fac").unwrap();
    // The next line is intact, and its number is new.
    let mut ours = reopened(folder.path());
    assert_eq!(seen(&ours), ["c", "b"]);
    ours.cross_off(third).unwrap();
    assert!(ours.pending("x", &vec!["d"]).unwrap() > third);
    assert_eq!(seen(&ours), ["d", "b"]);
    drop(ours);
    // A kill while a line is overwritten.
    let text = folder.text("a.jsonl");
    let at = text.find("{\"id\":2").unwrap();
    folder.file("a.jsonl", format!("{}    {}", &text[..at], &text[at + 4..]));
    assert_eq!(seen(&reopened(folder.path())), ["d"]);
}

#[test]
fn what_was_made_is_known_until_it_is_crossed_off_and_once_for_each_path() {
    let folder = testkit::Scratch::new();
    let file = |name: &str| {
        let path = folder.file(name, "x");
        Made::new(&path, File::open(&path).unwrap(), 8, false).unwrap()
    };
    let mut ours = journal(folder.path());
    let first = file("f.bin");
    ours.announce_made("disk", &first).unwrap();
    ours.announce_made("disk", &file("g.bin")).unwrap();
    let change = ours.pending("host.cpus", &vec!["a"]).unwrap();
    std::fs::rename(&first.path, folder.join("moved")).unwrap();
    let second = file("f.bin");
    ours.announce_made("disk", &second).unwrap();
    drop(ours);
    let mut ours = reopened(folder.path());
    let made = ours.read_made().unwrap();
    let paths: Vec<_> = made.iter().map(|line| line.made.path.file_name().unwrap()).collect();
    assert_eq!(paths, ["g.bin", "f.bin"]);
    assert_eq!((&made[1].made, made[1].workload.as_str()), (&second, "disk"));
    let metadata = |path: &Path| std::fs::metadata(path).unwrap();
    assert!(second.is(&metadata(&second.path)) && !second.is(&metadata(&folder.join("moved"))));
    // Each kind of line is read only as itself.
    assert_eq!(seen(&ours), ["a"]);
    ours.cross_off(change).unwrap();
    made.iter().for_each(|line| ours.cross_off(line.id).unwrap());
    assert!(ours.read_made().unwrap().is_empty() && !folder.text("a.jsonl").contains("g.bin"));
    ours.complete().unwrap();
    assert!(!folder.join("a.jsonl").exists());
}

#[test]
fn a_file_that_has_the_inode_of_one_that_was_made_is_another_one() {
    let folder = testkit::Scratch::new();
    let path = folder.file("f", "x");
    let made = Made::new(&path, File::open(&path).unwrap(), 1, false).unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert!(made.is(&metadata));
    let Some(born) = made.born_unix_ns else { return };
    assert!(!Made { born_unix_ns: Some(born - 1), ..made.clone() }.is(&metadata));
    // Another mount may have another number; if no creation time is known, the number decides.
    assert!(Made { device: made.device + 1, ..made.clone() }.is(&metadata));
    assert!(!Made { device: made.device + 1, born_unix_ns: None, ..made }.is(&metadata));
}

#[test]
fn the_journal_of_an_older_program_is_read() {
    let folder = testkit::Scratch::new();
    let head = String::from_utf8(line_of(&header()).unwrap()).unwrap().replace("journal/1.4", "journal/1.0");
    folder.file("a.jsonl", format!("{head}{{\"id\":1,\"factor\":\"host.cpus\",\"undo\":[\"a\"]}}\n"));
    let ours = reopened(folder.path());
    assert_eq!((seen(&ours), ours.read_made().unwrap().len()), (vec!["a".to_string()], 0));
}

#[test]
fn a_journal_that_is_held_belongs_to_a_running_run() {
    let folder = testkit::Scratch::new();
    let ours = journal(folder.path());
    let State::Open(open) = &ours.0 else { panic!() };
    rustix::fs::flock(&open.file, FlockOperation::NonBlockingLockExclusive).unwrap();
    let found =
        Journal::reopen(Directory::open(folder.path()).unwrap(), "a.jsonl".as_ref(), Duration::ZERO).unwrap();
    assert!(matches!(found, JournalState::Running(_, process) if process == std::process::id()));
}

#[test]
fn an_unknown_step_and_a_foreign_header_are_errors_and_not_passed_over() {
    let head = String::from_utf8(line_of(&header()).unwrap()).unwrap();
    let pending = |text: &str| parse_pending::<Vec<u32>>(text.as_bytes());
    assert_eq!(pending(&format!("{head}{{\"id\":1,\"factor\":\"x\",\"undo\":[7]}}\n")).unwrap().len(), 1);
    assert!(pending(&format!("{head}{{\"id\":1,\"factor\":\"x\",\"undo\":[\"?\"]}}\n")).is_err());
    assert!(pending(&format!("{head}{{\"id\":1,\"factor\":\"x\"}}\n")).is_err());
    assert!(pending(&format!("{head}{{\"id\":1,\"unknown\":[7]}}\n")).is_err());
    assert!(pending(&head.replace("journal/1", "journal/2")).is_err());
    assert!(pending("").is_err() && pending("{}\n").is_err());
}

#[test]
fn without_a_folder_nothing_may_be_changed() {
    let mut journal = Journal(State::Unavailable("no home".into(), None));
    let error = journal.pending("host.cpus", &1).unwrap_err().to_string();
    assert!(error.contains("no home") && error.contains("changes nothing"), "{error}");
    let made = Made { path: "/f".into(), device: 1, inode: 1, born_unix_ns: None, bytes: 1, keep: false };
    journal.announce_made("disk", &made).unwrap();
    journal.complete().unwrap();
}

#[test]
fn it_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = testkit::Scratch::new();
    let _ours = journal(folder.path());
    let mode = std::fs::metadata(folder.join("a.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A run directory with its journal in a folder, as after a kill.
fn begun(journals: &Path, run: &Path) -> String {
    std::fs::create_dir_all(run).unwrap();
    let directory = Directory::open(&std::fs::canonicalize(run).unwrap()).unwrap();
    let bond = Bond::new(host(), "/state".into()).unwrap();
    let folder = Directory::open(journals).unwrap();
    let begun = Journal::write_new(folder, &directory, Some(bond.identity.clone()), &experiment()).unwrap();
    bond.write(&directory).unwrap();
    let State::Open(open) = &begun.0 else { panic!() };
    open.name.to_string_lossy().into_owned()
}

fn header_in(journals: &Path, name: &str) -> Journal {
    let folder = Directory::open(journals).unwrap();
    match Journal::reopen(folder, name.as_ref(), Duration::ZERO).unwrap() {
        JournalState::Left(journal) => journal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_journal_is_bound_to_its_directory_wherever_it_is_and_to_no_other_one() {
    let scratch = testkit::Scratch::new();
    let (journals, run) = (scratch.join("journals"), scratch.join("run"));
    std::fs::create_dir(&journals).unwrap();
    let first = begun(&journals, &run);
    let bound = |directory: &Path, name: &str| {
        let journal = header_in(&journals, name);
        find::Wanted::new(directory).bound(journal.header().unwrap())
    };
    let resumable = |directory: &Path, name: &str| header_in(&journals, name).experiment(directory);
    assert_eq!(bound(&run, &first), Some(Bound::ByIdentity));
    assert_eq!(bound(&scratch.join("journals/../run/."), &first), Some(Bound::ByIdentity));
    resumable(&run, &first).unwrap();
    // A copy is the same run, and is not resumed beside it.
    let copied = std::process::Command::new("cp").arg("-a").args([&run, &scratch.join("copy")]).status();
    assert!(copied.unwrap().success());
    assert_eq!(bound(&scratch.join("copy"), &first), Some(Bound::ByIdentity));
    assert!(resumable(&scratch.join("copy"), &first).unwrap_err().contains("is a copy of"));
    // Moved: its place is then that of another run, which may have its inode.
    std::fs::rename(&run, scratch.join("moved")).unwrap();
    assert_eq!(bound(&scratch.join("moved"), &first), Some(Bound::ByIdentity));
    resumable(&scratch.join("moved"), &first).unwrap();
    assert_eq!(bound(&run, &first), Some(Bound::ByPath), "nothing is there");
    let second = begun(&journals, &run);
    assert_eq!(bound(&run, &first), Some(Bound::ByPath));
    assert_eq!(bound(&run, &second), Some(Bound::ByIdentity));
    assert!(resumable(&run, &first).unwrap_err().contains("not the folder that the run began in"));
    assert_eq!(bound(&scratch.join("moved"), &second), None);
    // Gone, with the directory above it.
    let deep = scratch.join("a/b/run");
    let third = begun(&journals, &deep);
    std::fs::remove_dir_all(scratch.join("a")).unwrap();
    assert_eq!(bound(&deep, &third), Some(Bound::ByPath));
    assert_eq!(bound(&scratch.join("a/b"), &third), None);
    // What is moved to another disk has another inode.
    std::fs::remove_dir_all(scratch.join("moved")).unwrap();
    resumable(&scratch.join("copy"), &first).unwrap();
}

#[test]
fn a_journal_without_an_identity_is_found_by_its_inode_where_no_identity_is() {
    let scratch = testkit::Scratch::new();
    let run = std::fs::canonicalize(scratch.file("run/x", "").parent().unwrap()).unwrap();
    let inode = Directory::open(&run).unwrap().identity().unwrap();
    let old = |inode: Identity| Header { execution: Execution::here("/gone/run".into(), inode), ..header() };
    let other = Identity { inode: inode.inode + 1, ..inode };
    let bound = |header: &Header| find::Wanted::new(&run).bound(header);
    assert_eq!((bound(&old(inode)), bound(&old(other))), (Some(Bound::ByIdentity), None));
    // A run of this version has the inode now.
    Bond::new(host(), "/state".into()).unwrap().write(&Directory::open(&run).unwrap()).unwrap();
    assert_eq!(bound(&old(inode)), None);
}

#[test]
fn what_is_forsaken_is_removed_late_and_never_with_entries() {
    let scratch = testkit::Scratch::new();
    let journals = scratch.join("journals");
    std::fs::create_dir(&journals).unwrap();
    let names = ["there", "gone", "changed", "new"].map(|name| begun(&journals, &scratch.join(name)));
    header_in(&journals, &names[2]).pending("host.cpus", &["undo"]).unwrap();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
    for name in &names[..3] {
        File::options().append(true).open(journals.join(name)).unwrap().set_modified(long_ago).unwrap();
    }
    for name in ["gone", "changed", "new"] {
        std::fs::remove_dir_all(scratch.join(name)).unwrap();
    }
    // The place of a run that is gone is that of another one.
    std::fs::create_dir(scratch.join("gone")).unwrap();
    find::remove_forsaken(&Directory::open(&journals).unwrap());
    assert_eq!(names.map(|name| journals.join(name).exists()), [true, false, true, true]);
}

#[test]
fn a_resumed_run_is_that_of_the_process_that_resumed_it() {
    let folder = testkit::Scratch::new();
    let mut ours = journal(folder.path());
    let State::Open(open) = &mut ours.0 else { panic!() };
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let earlier = Execution {
        process: gone.id(),
        boot: "an earlier one".into(),
        started_ticks: Some(1),
        ..open.header.execution.clone()
    };
    open.header.execution = earlier.clone();
    let text = String::from_utf8(line_of(&open.header).unwrap()).unwrap();
    folder.file("a.jsonl", text);
    // Locked by another process than that of the run.
    let held = File::open(folder.join("a.jsonl")).unwrap();
    rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let look = || {
        Journal::reopen(Directory::open(folder.path()).unwrap(), "a.jsonl".as_ref(), Duration::ZERO).unwrap()
    };
    assert!(matches!(look(), JournalState::Held(_)));
    drop(held);
    let mut resumed = reopened(folder.path());
    assert_eq!(resumed.place(), JournalPlace::EarlierBoot);
    resumed.resume(folder.path()).unwrap();
    assert!(matches!(look(), JournalState::Running(_, process) if process == std::process::id()));
    drop(resumed);
    let mut again = reopened(folder.path());
    assert_eq!(again.place(), JournalPlace::ThisBoot);
    assert!(again.header().unwrap().execution != earlier);
    let id = again.pending("host.cpus", &["undo"]).unwrap();
    assert!(id > 1, "the number of the line of the resumption is not used again");
    again.cross_off(id).unwrap();
    again.complete().unwrap();
    assert!(!folder.join("a.jsonl").exists(), "a resumption is nothing pending");
}
