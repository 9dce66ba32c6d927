//! What a service that speaks SCIM answers: a list of users, errors, what became of changes.
//!
//! It listens on the loopback interface and answers whatever it is asked with one answer after the other, from the first again behind the
//! last. A byte says how changes are sent; of each answer the first byte says its status, and the rest is its body.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::scim_answers::run(bytes));
