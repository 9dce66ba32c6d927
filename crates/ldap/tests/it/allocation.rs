//! Checks with a counting allocator that messages are encoded and decoded without allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use plimsoll_ldap::message::{Attribute, Change, List, Message, Operation, SearchRequest, Value};
use plimsoll_ldap::{Filter, ModifyOperation};

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

#[test]
fn a_message_is_encoded_and_decoded_without_an_allocation() {
    assert!(allocations(|| drop(std::hint::black_box(vec![0_u8; 100]))) > 0, "nothing is counted");

    let filter = Filter::parse("(&(objectClass=person)(|(uid=a*b)(cn=Ann)))").unwrap();
    let long = [7; 1000];
    let values = [Value(b"Ann"), Value(&long)];
    let attributes = [Attribute { name: "cn", values: List::from(&values) }; 25];
    let changes = [Change { operation: ModifyOperation::Replace, attribute: attributes[0] }];
    let names = ["cn", "mail"];
    let search = SearchRequest { attributes: List::from(&names), ..SearchRequest::subtree("dc=a", &filter) };
    let operations = [
        Operation::SearchRequest(search),
        Operation::AddRequest { dn: "cn=a", attributes: List::from(&attributes) },
        Operation::ModifyRequest { dn: "cn=a", changes: List::from(&changes) },
        Operation::SearchResultEntry { dn: "cn=a", attributes: List::from(&attributes) },
        Operation::DelRequest { dn: "cn=a" },
    ];
    let mut out = Vec::with_capacity(1 << 20);
    for operation in operations {
        out.clear();
        assert_eq!(allocations(|| Message::new(1, operation).encode(&mut out)), 0, "{}", operation.name());
        // Decoding a filter allocates a tree, which only receivers of requests need.
        if matches!(operation, Operation::SearchRequest(_)) {
            continue;
        }
        let mut bytes = 0;
        let count = allocations(|| {
            if let Operation::SearchResultEntry { attributes, .. } = Message::decode(&out).unwrap().operation
            {
                bytes =
                    attributes.iter().flat_map(|attribute| attribute.values).map(|value| value.0.len()).sum();
            }
        });
        assert_eq!(count, 0, "{}", operation.name());
        if matches!(operation, Operation::SearchResultEntry { .. }) {
            assert_eq!(bytes, 25 * 1003);
        }
    }
}
