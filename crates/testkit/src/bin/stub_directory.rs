//! A directory that does nothing, for benchmarks: `stub_directory 127.0.0.1:3890`.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a program's own output")]

use std::net::TcpListener;
use std::process::ExitCode;

fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3890".into());
    match TcpListener::bind(&address).and_then(|listener| plimsoll_testkit::stub_directory::serve(&listener))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stub_directory: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}
