//! Runs a program under a seccomp profile of a container engine, as the engine would: a real filter of the kernel.
//!
//! `seccomp PROFILE.json [--without NAME,... --errno N] PROGRAM [ARGUMENT...]`. The calls of `--without` fail with this error. The
//! format of the profile is that of Docker, Podman and Kubernetes.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a program for tests")]

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use seccompiler::{TargetArch, apply_filter, compile_from_json};
use serde_json::{Value, json};

/// System calls that only x86-64 has. An engine ignores them elsewhere.
const ONLY_X86_64: &[&str] = &[
    "access",
    "arch_prctl",
    "chmod",
    "dup2",
    "epoll_create",
    "epoll_wait",
    "fork",
    "link",
    "lstat",
    "mkdir",
    "open",
    "pipe",
    "poll",
    "readlink",
    "rename",
    "rmdir",
    "select",
    "stat",
    "symlink",
    "unlink",
    "vfork",
];

/// The names of the filters in a document of the compiler.
const PROFILE: &str = "profile";
const WITHOUT: &str = "without";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(never) => match never {},
        Err(why) => {
            eprintln!("seccomp: {why}");
            ExitCode::from(125)
        }
    }
}

fn run(arguments: &[String]) -> Result<std::convert::Infallible, String> {
    let usage = "usage: seccomp PROFILE.json [--without NAME,... --errno N] PROGRAM [ARGUMENT...]";
    let (path, mut rest) = arguments.split_first().ok_or(usage)?;
    let (mut without, mut errno): (Vec<&str>, u32) = (Vec::new(), 1);
    while let [flag, value, others @ ..] = rest {
        match flag.as_str() {
            "--without" => without = value.split(',').collect(),
            "--errno" => errno = value.parse().map_err(|error| format!("--errno {value}: {error}"))?,
            _ => break,
        }
        rest = others;
    }
    let (program, rest) = rest.split_first().ok_or(usage)?;
    let text = std::fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))?;
    let profile: Value = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    let (arch, name) = match std::env::consts::ARCH {
        "x86_64" => (TargetArch::x86_64, "x86_64"),
        "aarch64" => (TargetArch::aarch64, "aarch64"),
        other => return Err(format!("no filter can be compiled for {other}")),
    };
    let mut document = convert(&profile, name).map_err(|why| format!("{path}: {why}"))?;
    if !without.is_empty() {
        document[WITHOUT] = refusal(&without, errno);
    }
    let filters = compile_from_json(document.to_string().as_bytes(), arch)
        .map_err(|error| format!("{path}: {error}"))?;
    // The profile comes last, because it does not allow a further filter.
    for filter in [WITHOUT, PROFILE].into_iter().filter_map(|name| filters.get(name)) {
        apply_filter(filter).map_err(|error| format!("the kernel refuses the filter: {error}"))?;
    }
    Err(format!("{program}: {}", Command::new(program).args(rest).exec()))
}

/// The profile in the form of the compiler.
fn convert(profile: &Value, arch: &str) -> Result<Value, String> {
    if profile["defaultAction"] != "SCMP_ACT_ERRNO" {
        return Err(
            "only profiles that list what is allowed (`defaultAction`: SCMP_ACT_ERRNO) are read".into()
        );
    }
    // An engine takes EPERM where the profile names no error.
    let default = profile["defaultErrnoRet"].as_u64().unwrap_or(1);
    let mut rules = Vec::new();
    for group in profile["syscalls"].as_array().ok_or("it has no list `syscalls`")? {
        if group["action"] != "SCMP_ACT_ALLOW" {
            return Err(format!("only the action SCMP_ACT_ALLOW is read, not {}", group["action"]));
        }
        let conditions = conditions(&group["args"])?;
        for name in group["names"].as_array().ok_or("a group has no list `names`")? {
            let name = name.as_str().ok_or("a name is not a text")?;
            let is_absent = arch != "x86_64" && ONLY_X86_64.contains(&name);
            if is_absent {
                continue;
            }
            rules.push(match conditions.is_empty() {
                true => json!({ "syscall": name }),
                false => json!({ "syscall": name, "args": conditions }),
            });
        }
    }
    let mismatch = json!({ "errno": default });
    Ok(json!({ PROFILE: { "mismatch_action": mismatch, "match_action": "allow", "filter": rules } }))
}

/// A filter under which some system calls fail.
fn refusal(names: &[&str], errno: u32) -> Value {
    let rules: Vec<Value> = names.iter().map(|name| json!({ "syscall": name })).collect();
    json!({ "mismatch_action": "allow", "match_action": { "errno": errno }, "filter": rules })
}

fn conditions(args: &Value) -> Result<Vec<Value>, String> {
    let convert = |arg: &Value| {
        let (first, second) = (&arg["value"], arg["valueTwo"].as_u64().unwrap_or(0));
        let (op, value) = match arg["op"].as_str() {
            Some("SCMP_CMP_EQ") => (json!("eq"), first.clone()),
            Some("SCMP_CMP_MASKED_EQ") => (json!({ "masked_eq": first }), json!(second)),
            _ => return Err(format!("the comparison {} is not read", arg["op"])),
        };
        Ok(json!({ "index": arg["index"], "type": "qword", "op": op, "val": value }))
    };
    args.as_array().into_iter().flatten().map(convert).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Value {
        json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 38,
            "syscalls": [
                { "names": ["read", "open"], "action": "SCMP_ACT_ALLOW" },
                { "names": ["clone"], "action": "SCMP_ACT_ALLOW",
                  "args": [{ "index": 0, "value": 255, "valueTwo": 1, "op": "SCMP_CMP_MASKED_EQ" }] },
            ],
        })
    }

    #[test]
    fn a_profile_is_converted() {
        let whole = convert(&profile(), "x86_64").unwrap();
        assert_eq!(whole[PROFILE]["mismatch_action"], json!({ "errno": 38 }));
        assert_eq!(
            whole[PROFILE]["filter"],
            json!([
                { "syscall": "read" },
                { "syscall": "open" },
                { "syscall": "clone", "args": [{ "index": 0, "type": "qword", "op": { "masked_eq": 255 }, "val": 1 }] },
            ])
        );
        let other = convert(&profile(), "aarch64").unwrap();
        assert_eq!(other[PROFILE]["filter"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn what_is_not_read_is_refused() {
        for (place, value) in [
            ("/defaultAction", json!("SCMP_ACT_ALLOW")),
            ("/syscalls", json!(null)),
            ("/syscalls/0/action", json!("SCMP_ACT_KILL")),
            ("/syscalls/0/names/0", json!(1)),
            ("/syscalls/1/args/0/op", json!("SCMP_CMP_GT")),
        ] {
            let mut changed = profile();
            *changed.pointer_mut(place).unwrap() = value;
            assert!(convert(&changed, "x86_64").is_err(), "{place}");
        }
    }
}
