//! An SSH server on loopback for a benchmark, until the end of its standard input.
//!
//! Prints a search path in which `ssh` reaches it as `gen1`.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::io::Read;
use std::process::ExitCode;

use plimsoll_testkit::Sshd;

fn main() -> ExitCode {
    let Some(server) = Sshd::start() else {
        eprintln!("sshd: there is no sshd or no ssh: apt-get install openssh-server openssh-client");
        return ExitCode::FAILURE;
    };
    println!("{}", server.search_path());
    // How it ends does not matter.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
