//! The executable: one file that needs nothing but a kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{NAME, Package, elf, has, output, read_bytes};
use crate::fault::Fault;
use crate::program;

/// The most that the executable should have.
const BYTES_GOAL: usize = 15_000_000;

/// The most that it may have, until it reaches the goal: nobody makes it larger unnoticed.
const BYTES_MAX: usize = 28_000_000;

/// Builds it.
pub(super) fn executable(package: &Package) -> Result<PathBuf, String> {
    prepare(package)?;
    let target = &package.target;
    let variable = target.replace('-', "_");
    let cfg = |name: &str, flag: &str| (format!("{name}_{variable}"), flag.to_string());
    let places = places(package)?;
    let renamed = |flag: &str| -> Vec<String> {
        places.iter().map(|(place, name)| format!("{flag}{}={name}", place.display())).collect()
    };
    let mut rust = renamed("--remap-path-prefix=");
    rust.extend(FLAGS.iter().map(ToString::to_string));
    let environment = [
        ("CARGO_ENCODED_RUSTFLAGS".to_string(), rust.join("\x1f")),
        // The headers are to be those of musl too.
        cfg("CC", "musl-gcc"),
        cfg("CFLAGS", &renamed("-ffile-prefix-map=").join(" ")),
    ];
    let arguments =
        ["build", "--locked", "--profile", "dist", "--target", target, "--package", "plimsoll-cli"];
    program::cargo_with(package.repository, &arguments, &environment)?;
    Ok(program::target(package.repository).join(target).join("dist").join(NAME))
}

/// The linker that comes with rustc merges functions with the same code, of which generic code has many. Addresses that the
/// start of the program adds to its own are stored in a bitmap, not in 24 bytes each.
const FLAGS: &[&str] =
    &["-Clinker=rust-lld", "-Clink-arg=--icf=all", "-Clink-arg=-z", "-Clink-arg=pack-relative-relocs"];

/// Copies it without its symbols. Cargo ignores `strip` in a profile that has a table for the package of the program.
pub(super) fn strip(built: &Path, executable: &Path) -> Result<(), String> {
    output(Command::new("strip").args(["--strip-all", "-o"]).arg(executable).arg(built)).map(drop)
}

/// Folders of this machine, and their names in the executable: the same sources give the same file everywhere.
fn places(package: &Package) -> Result<Vec<(PathBuf, &'static str)>, String> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cargo"))
    });
    let cargo = cargo.ok_or("neither CARGO_HOME nor HOME is set: cargo's folder is not known")?;
    let mut sysroot = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let sysroot = output(sysroot.args(["--print", "sysroot"]))?;
    // The last one that fits is taken.
    let mut places = vec![(PathBuf::from(sysroot.trim()), "/rust"), (cargo.clone(), "/cargo")];
    for entry in std::fs::read_dir(cargo.join("registry/src")).into_iter().flatten().flatten() {
        places.push((entry.path(), "/crates"));
    }
    places.push((package.repository.root().to_path_buf(), "/plimsoll"));
    places.push((program::target(package.repository), "/target"));
    Ok(places)
}

/// Whether the toolchain can build for the platform; its standard library is installed where it is missing.
fn prepare(package: &Package) -> Result<(), String> {
    let target = &package.target;
    let mut library = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let library = output(library.args(["--print", "target-libdir", "--target", target]))?;
    if !Path::new(library.trim()).is_dir() {
        let help = format!(
            "rustc has no standard library for {target}: install it, with rustup: rustup target add {target}"
        );
        if !has("rustup") {
            return Err(help);
        }
        let mut rustup = Command::new("rustup");
        output(rustup.args(["target", "add", target]).current_dir(package.repository.root()))
            .map_err(|error| format!("{help}\n{error}"))?;
    }
    match has("musl-gcc") {
        true => Ok(()),
        false => Err("there is no C compiler for musl: .ci/packages musl-tools".into()),
    }
}

/// Whether the executable is one that runs everywhere.
pub(super) fn check(package: &Package, path: &Path) -> Result<Vec<Fault>, String> {
    let bytes = read_bytes(path)?;
    if bytes.len() > BYTES_GOAL {
        println!("{}: larger than the goal of {BYTES_GOAL} bytes", package.shown(path));
    }
    let places = places(package)?.into_iter().map(|(place, _)| place.display().to_string());
    Ok(examine(&package.shown(path), &bytes, &places.collect::<Vec<_>>()))
}

fn examine(name: &str, bytes: &[u8], places: &[String]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |what: String, help: &str| faults.push(Fault::new(name, what, help));
    match elf::read(bytes) {
        Err(why) => fault(why, "build for x86_64 or aarch64 Linux"),
        Ok(needs) => {
            if needs.interpreter || needs.libraries > 0 {
                let libraries = needs.libraries;
                fault(
                    format!("needs a dynamic linker and {libraries} libraries"),
                    "link statically: use a musl target",
                );
            }
            if !needs.relocatable {
                fault(
                    "is always loaded at the same address".into(),
                    "link as a static position-independent executable",
                );
            }
            if needs.symbols {
                fault("has a symbol table".into(), "remove it with strip");
            }
        }
    }
    if bytes.len() > BYTES_MAX {
        fault(
            format!("has {} bytes, more than {BYTES_MAX}", bytes.len()),
            "find what grew with `cargo bloat`, or set opt-level = \"s\" for packages without loops that are measured",
        );
    }
    for place in places.iter().map(String::as_str).chain(["GLIBC_2."]) {
        if bytes.windows(place.len()).any(|window| window == place.as_bytes()) {
            fault(
                format!("contains the text `{place}`"),
                "add the folder to `places` in xtask/src/package/build.rs",
            );
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_executable_with_symbols_and_paths_is_refused() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let place = env!("CARGO_MANIFEST_DIR").to_string();
        let faults = examine("it", &bytes, &[place]);
        let whats: Vec<&str> = faults.iter().map(|fault| fault.what.as_str()).collect();
        assert!(whats.contains(&"has a symbol table"), "{whats:?}");
        assert!(whats.iter().any(|what| what.starts_with("contains the text")), "{whats:?}");
        if cfg!(target_env = "gnu") {
            assert!(whats.iter().any(|what| what.starts_with("needs a dynamic linker")), "{whats:?}");
        }
    }
}
