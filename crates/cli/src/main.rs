//! The `plimsoll` program: arguments in, one exit code out. Everything it decides is decided by other crates.
#![forbid(unsafe_code)]

mod arguments;
mod carry_out;
mod commands;
mod exit;
mod interrupt;
mod one_off;
mod output;
mod progress;
mod registry;

use std::process::ExitCode;

/// What one thread of the metadirectory allocates another gives back, which the allocator of the C library is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match arguments::dispatch() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::say(&failure.text);
            failure.exit.into()
        }
    }
}
