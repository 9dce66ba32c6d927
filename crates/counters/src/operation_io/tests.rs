//! Traces of this test program itself, whose functions are known and whose I/O is counted exactly.
#![expect(clippy::disallowed_methods, reason = "the traced process is this one, and it must write")]

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};

use engine::source::HostRoot;
use model::operation_io::{IoKind, RowOrigin, TraceRow};
use testkit::{Need, Scratch, lacks};

use super::process::Process;
use super::{Function, TraceOptions, Tracer};

/// An operation that may call itself and another one, between writes.
#[unsafe(no_mangle)]
#[inline(never)]
#[expect(unsafe_code, reason = "a probe needs a symbol of a known name")]
extern "C" fn plimsoll_outer(file: &File, depth: u32) {
    file.write_at(&[b'o'; 100], 0).unwrap();
    if depth > 0 {
        plimsoll_outer(file, depth - 1);
        plimsoll_inner(file);
        file.write_at(&[b'o'; 100], 0).unwrap();
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
#[expect(unsafe_code, reason = "a probe needs a symbol of a known name")]
extern "C" fn plimsoll_inner(file: &File) {
    file.write_at(&[b'i'; 10], 0).unwrap();
    file.sync_data().unwrap();
}

#[unsafe(no_mangle)]
#[inline(never)]
#[expect(unsafe_code, reason = "a probe needs a symbol of a known name")]
extern "C" fn plimsoll_stream(mut file: &File, mut from: &PipeReader, mut to: &PipeWriter) {
    file.write_all(b"12345678").unwrap();
    to.write_all(b"a pipe").unwrap();
    from.read_exact(&mut [0; 6]).unwrap();
}

/// What a thread of the traced process does.
type Task = Box<dyn FnOnce() + Send>;

/// A thread that was there before the trace began, as those of a server are.
fn worker() -> (Sender<Task>, Receiver<()>) {
    let (tasks, received) = channel::<Task>();
    let (done, finished) = channel();
    std::thread::spawn(move || {
        for task in received {
            task();
            let _ = done.send(());
        }
    });
    (tasks, finished)
}

fn options(functions: &[&str], has_all_calls: bool) -> TraceOptions {
    let functions = functions.iter().map(|text| Function::parse(text).unwrap()).collect();
    TraceOptions { pid: std::process::id(), functions, disks: Vec::new(), has_all_calls }
}

fn row<'a>(rows: &'a [TraceRow], name: &str) -> &'a TraceRow {
    rows.iter().find(|row| row.name == name).unwrap()
}

/// Operations, writes, their bytes and syncs of an operation.
fn counts(rows: &[TraceRow], name: &str) -> (Option<u64>, u64, u64, u64) {
    let row = row(rows, name);
    (row.operations, row.io[&IoKind::WriteCalls], row.io[&IoKind::WriteCallBytes], row.io[&IoKind::Syncs])
}

/// Counts are those of the whole process, so that tests must not write at the same time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn nested_operations_belong_to_the_outermost_one() {
    if lacks(Need::KernelTracing) {
        return;
    }
    let _alone = ALONE.lock();
    let folder = Scratch::new();
    let path = folder.file("data", "");
    let file = std::sync::Arc::new(OpenOptions::new().read(true).write(true).open(path).unwrap());
    // Also as a kernel before Linux 6.6 does it.
    for (has_all_calls, has_links) in [(false, true), (true, true), (false, false)] {
        let options = options(&["outer=plimsoll_outer", "inner=plimsoll_inner"], has_all_calls);
        let mut tracer = Tracer::attach_by(&HostRoot::live(), &options, has_links).unwrap();
        let (tasks, finished) = worker();
        let run = |task: Task| {
            tasks.send(task).unwrap();
            finished.recv().unwrap();
        };
        let data = file.clone();
        // The outer function runs at two depths in the stack, once with itself and the inner one in it.
        run(Box::new(move || plimsoll_outer(&data, 2)));
        let rows = tracer.read().unwrap();
        assert_eq!(counts(&rows, "outer"), (Some(1), 7, 520, 2), "{has_all_calls} {has_links}");
        assert_eq!(counts(&rows, "inner"), (Some(0), 0, 0, 0));
        let data = file.clone();
        run(Box::new(move || {
            plimsoll_inner(&data);
            data.write_at(b"outside", 0).unwrap();
            plimsoll_outer(&data, 0);
            plimsoll_inner(&data);
        }));
        let rows = tracer.read().unwrap();
        assert_eq!(counts(&rows, "outer"), (Some(1), 1, 100, 0));
        assert_eq!(counts(&rows, "inner"), (Some(2), 2, 20, 2));
        let outside = rows.iter().find(|row| row.origin == RowOrigin::NoOperation).unwrap();
        assert!(outside.io[&IoKind::WriteCallBytes] >= 7, "{outside:?}");
        assert!(tracer.limits().is_empty() && tracer.is_running());
        // No disk was named, and only all system calls include this one.
        assert!(!outside.io.contains_key(&IoKind::DeviceWrites));
        assert_eq!(outside.io.contains_key(&IoKind::RingRequests), has_all_calls);
    }
}

#[test]
fn only_files_are_counted_in_all_calls() {
    if lacks(Need::KernelTracing) {
        return;
    }
    let _alone = ALONE.lock();
    let folder = Scratch::new();
    let file = File::create(folder.join("data")).unwrap();
    let (from, to) = std::io::pipe().unwrap();
    let mut tracer = Tracer::attach(&HostRoot::live(), &options(&["stream=plimsoll_stream"], true)).unwrap();
    for _ in 0..5 {
        plimsoll_stream(&file, &from, &to);
    }
    let rows = tracer.read().unwrap();
    assert_eq!(counts(&rows, "stream"), (Some(5), 5, 40, 0));
    assert_eq!(row(&rows, "stream").io[&IoKind::ReadCalls], 0);
}

#[test]
fn requests_are_those_of_the_device() {
    if lacks(Need::KernelTracing) || lacks(Need::BlockDevice(&std::env::temp_dir())) {
        return;
    }
    let _alone = ALONE.lock();
    let folder = Scratch::new();
    // Its path is nowhere any more, and its device is that of the next one.
    let _gone = File::create(folder.join("gone")).unwrap();
    std::fs::remove_file(folder.join("gone")).unwrap();
    let file = File::create(folder.join("data")).unwrap();
    let process = Process::find(&HostRoot::live(), std::process::id()).unwrap();
    let disks = process.disks().unwrap();
    let options = TraceOptions { disks, ..options(&["inner=plimsoll_inner"], false) };
    let mut tracer = Tracer::attach(&HostRoot::live(), &options).unwrap();
    for _ in 0..20 {
        plimsoll_inner(&file);
    }
    let rows = tracer.read().unwrap();
    let inner = row(&rows, "inner");
    assert_eq!(counts(&rows, "inner"), (Some(20), 20, 200, 20));
    // Each sync writes the one page of the file; the kernel may do so in the thread, and flushes elsewhere.
    assert!(inner.io[&IoKind::DeviceWrites] >= 20, "{inner:?}");
    assert!(inner.io[&IoKind::DeviceWriteBytes] >= 20 * 4096, "{inner:?}");
}

#[test]
fn what_cannot_be_traced_says_why() {
    let attach = |options: TraceOptions| Tracer::attach(&HostRoot::live(), &options).err().unwrap().0;
    let nobody = TraceOptions { pid: u32::MAX, ..options(&[], false) };
    assert!(attach(nobody).contains("there is no process"));
    let many: Vec<String> = (0..17).map(|at| format!("operation{at}=main")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    if Process::is_numbered_as_here(&HostRoot::live()) {
        assert!(attach(options(&many, false)).contains("at most 16 operations"));
    }
    if lacks(Need::KernelTracing) {
        return;
    }
    let text = attach(options(&["a=no_such_function"], false));
    assert!(text.contains("no function no_such_function") && text.contains("nm -D"), "{text}");
    let disks = TraceOptions { disks: vec!["no-such-disk".into()], ..options(&["main"], false) };
    assert!(attach(disks).contains("there is no disk"));
    let partly =
        Tracer::attach(&HostRoot::live(), &options(&["main", "b=libc:no_such_function"], false)).unwrap();
    insta::assert_snapshot!(partly.limits().join("\n"), @"the process has no function libc:no_such_function: b operations are not counted");
}
