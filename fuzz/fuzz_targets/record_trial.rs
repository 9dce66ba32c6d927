//! A trial's folder: its files are the parts of the input between zero bytes, in the order of [`FILES`]. What is read is
//! judged and shown in every form, alone and beside itself under another treatment.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::record_trial::run(bytes));
