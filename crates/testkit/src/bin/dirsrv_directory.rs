//! A 389 Directory Server with an empty database, on loopback, for benchmarks. It runs until standard input ends.
//!
//! It prints a line `NAME VALUE` for each property, and `ready` as the last.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};

use plimsoll_testkit::Dirsrv;
use plimsoll_testkit::dirsrv::{ROOT_DN, ROOT_PASSWORD};

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dirsrv_directory: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), String> {
    let directory = Dirsrv::start().ok_or("ns-slapd is not installed (apt-get install 389-ds-base)")?;
    let url = directory.url();
    let failed = |error: std::io::Error| format!("ldapadd: {error} (apt-get install ldap-utils)");
    let mut adding = Command::new("ldapadd")
        .args(["-x", "-H", &url, "-D", ROOT_DN, "-w", ROOT_PASSWORD])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = adding.stdin.take() {
        input.write_all(Dirsrv::database().as_bytes()).map_err(failed)?;
    }
    if !adding.wait().map_err(failed)?.success() {
        return Err("the database cannot be created".into());
    }
    println!("url {url}");
    println!("process {}", directory.process_id());
    println!("dn {ROOT_DN}");
    println!("password {ROOT_PASSWORD}");
    println!("ready");
    let _ = std::io::stdout().flush();
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
    Ok(())
}
