//! The `plimsoll` program: it parses arguments and returns an exit code. All decisions are in other crates.
#![forbid(unsafe_code)]

mod arguments;
mod carry_out;
mod commands;
mod early;
mod exit;
mod export_to;
mod foreign_flags;
mod hang_up;
mod interrupt;
mod live;
mod one_off;
mod output;
mod overwriting;
mod progress;
mod registry;
mod secrets;

use std::process::ExitCode;

/// Threads of the metadirectory free memory that other threads allocated, which is slow with the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == factors::neighbour::ARGUMENT) {
        // The process of a neighbour, which the factor starts.
        let arguments: Vec<String> = arguments.filter_map(|argument| argument.into_string().ok()).collect();
        return factors::neighbour::run(&arguments);
    }
    if let Ok(state) = record::state_folder() {
        files::unfinished::record_in(state);
    }
    output::begin();
    let exit = arguments::dispatch().unwrap_or_else(|failure| {
        if !failure.text.is_empty() {
            output::say(&failure.text);
        }
        failure.exit
    });
    output::end(exit).into()
}
