//! Messages of agents and of coordinators: a byte with the side and the machine, then frames. What agents say reaches machines that
//! drive load.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::machine_messages::run(bytes));
