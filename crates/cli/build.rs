//! Links the program with packed relative relocations, where the C library of this machine can read them. They take 16 KB
//! instead of 1.4 MB, which are read whenever the program starts, and so count in the memory of each process, such as a
//! trace on a server.

use std::env;
use std::process::Command;

/// The first version of the GNU C library that reads them.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Another machine may have an older library, and so may the target of a cross build.
    let is_native = env::var("HOST").ok() == env::var("TARGET").ok();
    if is_native && is("CARGO_CFG_TARGET_ENV", "gnu") && libc_version().is_some_and(|found| found >= FIRST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library: `getconf` prints `glibc 2.36`.
fn libc_version() -> Option<(u32, u32)> {
    let printed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let printed = String::from_utf8(printed).ok()?;
    let (major, minor) = printed.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
