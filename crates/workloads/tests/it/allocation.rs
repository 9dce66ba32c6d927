//! Checks with a counting allocator that requests of a scenario are planned, and LDAP operations are driven, without
//! allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use engine::workload::{Admission, Outcome, Share, Then, WorkloadKind as _};
use model::{Level, Settings};
use plimsoll_workloads::http::scenario::{After, Response, Scenario, Session};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a counter of the calls of each thread.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer is from `alloc` or `realloc` above, and so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as for `dealloc`, and the caller fulfils the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations in `act`.
fn allocations(act: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    act();
    COUNT.get() - before
}

const SCENARIO: &str = r#"
base = "http://127.0.0.1:8080"

[[transaction]]
name = "t"

[[transaction.request]]
name = "static"
url = "/static"
check = [{ contains = "token" }]
extract.token = { header = "x-token" }

[[transaction.request]]
name = "template"
method = "POST"
url = "/users/${user}?n=${number}&id=${uuid}"
header = "X-Token: ${token}"
body = "token=${url(token)}&random=${random(1, 1000000)}"
think = "1s..2s"

[[transaction.request]]
name = "last"
url = "/last"
"#;

#[test]
fn a_request_is_planned_without_an_allocation() {
    assert!(allocations(|| drop(std::hint::black_box(vec![0_u8; 100]))) > 0, "nothing is counted");

    let mut no_secret = |_: model::Placeholder<'_>| Err((String::new(), String::new()));
    let scenario = Scenario::parse(SCENARIO, "s", Path::new("/"), &mut no_secret).unwrap();
    let mut session = Session::new(&scenario, 1, 0);
    let mut pass = |numbers: std::ops::Range<u64>, fields: &[(&str, &[u8])]| {
        for number in numbers {
            for step in 0..3 {
                let planned = session.next(&scenario, number, step, 0).unwrap();
                assert!(!planned.head.is_empty());
                let response = Response { status: 200, fields, body: b"x token=abc", ..Response::default() };
                let outcome = session.took(&scenario, &response);
                assert_eq!(outcome.failure, None);
                assert_eq!(step == 2, outcome.after == After::Then(Then::EndOf(3)));
            }
        }
    };
    let fields: &[(&str, &[u8])] = &[("X-Token", b"abc")];
    // The buffers grow.
    pass(0..100, fields);
    assert_eq!(allocations(|| pass(100..200, fields)), 0);
    // Cookies change the head; storing one allocates, sending it does not.
    pass(200..300, &[("X-Token", b"abc"), ("Set-Cookie", b"sid=0123456789; Path=/")]);
    assert_eq!(allocations(|| pass(300..400, fields)), 0);
}

#[test]
fn an_ldap_operation_is_driven_without_an_allocation() {
    let kind = &plimsoll_workloads::ldap::LDAP;
    let url = format!("ldap://{}", testkit::stub_directory::start().unwrap());
    let mut settings = Settings::defaults(kind.info().settings);
    for (name, text) in [
        ("url", url.as_str()),
        ("base", "ou=${uuid},dc=example,dc=com"),
        ("filter", "(&(uid=user.${random(0, 99999)})(l=${zipf(1, 1000)}))"),
    ] {
        settings.set(name, Level::Text(text.into()));
    }
    settings.set("depth", Level::Count(4));
    let mut workload = kind.configure(&settings).unwrap();
    workload.prepare(1, &mut |_| true).unwrap();
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 8, is_open: false, seed: 1 };
    let mut worker = workload.worker(&share).unwrap();
    let mut done = Vec::with_capacity(8);
    let mut free: Vec<u32> = (0..8).collect();
    let mut pass = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let ticket = free.pop().unwrap();
            assert_eq!(worker.submit(engine::workload::Operation::new(ticket, number)), Admission::Accepted);
            while free.is_empty() {
                worker.reap(u64::MAX, &mut done).unwrap();
                worker.parts().unwrap().clear();
                assert!(done.iter().all(|completion| completion.done.outcome == Outcome::Well));
                free.extend(done.drain(..).map(|completion| completion.ticket));
            }
        }
    };
    // The buffers grow.
    pass(0..2000);
    assert_eq!(allocations(|| pass(2000..4000)), 0);
}
