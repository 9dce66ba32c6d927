//! What a client sends to the service of `plimsoll metadir scim-server`, over a socket.
//!
//! After `=` the bytes are sent as they are. After any other byte come requests with zero bytes between them: a method and a
//! target on the first line, the body below; their other headers are right.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::scim_request::run(bytes));
