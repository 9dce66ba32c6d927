//! What others send on a NATS server: a byte with the kind of message, then an offer, a claim, an answer, the rest of an address, or pieces
//! of a session, each with its length in two bytes before it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::nats_messages::run(bytes));
