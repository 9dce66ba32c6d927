//! The executable in a directory that has nothing else but a writable `/tmp`, without and with `/proc`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{NAME, Package, replace_folder, shown};
use crate::fault::Fault;

/// Exit codes of a run that was carried out; the two others judge this machine, which is busy.
const CARRIED_OUT: [i32; 3] = [0, 97, 98];

/// Runs it.
pub(super) fn check(package: &Package, executable: &Path) -> Result<Vec<Fault>, String> {
    let root = package.folder.join("bare-root");
    let server = Server::start()?;
    let mut faults = Vec::new();
    for has_proc in [false, true] {
        replace_folder(&root)?;
        fs::create_dir(root.join("tmp"))
            .and_then(|()| fs::create_dir(root.join("proc")))
            .map_err(|error| error.to_string())?;
        fs::copy(executable, root.join(NAME)).map_err(|error| format!("copy the executable: {error}"))?;
        for (arguments, expected) in cases(&server.address, has_proc) {
            let case = Case { root: &root, has_proc, arguments: &arguments };
            faults.extend(case.run(expected)?);
        }
    }
    fs::remove_dir_all(&root).map_err(|error| format!("remove {}: {error}", root.display()))?;
    Ok(faults)
}

/// What a command has to do.
#[derive(Clone, Copy)]
enum Expected {
    /// It succeeds, and the text that it prints is right: what that shows, or what is wrong.
    Success(fn(&str) -> Result<String, String>),
    /// It fails and says this.
    Failure(&'static str),
}

fn cases(server: &str, has_proc: bool) -> Vec<(Vec<String>, Expected)> {
    use Expected::{Failure, Success};
    let disk = if has_proc { Success(measured) } else { Failure("/proc is not mounted") };
    let list: [(&str, Expected); 7] = [
        (
            "--version",
            Success(|text| match text.starts_with("plimsoll ") {
                true => Ok(text.trim().into()),
                false => Err("no version is printed".into()),
            }),
        ),
        ("init disk --output disk.toml", Success(|_| Ok("the experiment is written".into()))),
        ("check disk.toml", Success(|_| Ok("the experiment is valid".into()))),
        ("disk test.bin --size 16MiB --duration 1s --json", disk),
        ("http http://SERVER/ --concurrency 4 --duration 1s --json", Success(measured)),
        ("metadir init --target ldif --people 100", Success(|_| Ok("the configuration is written".into()))),
        ("metadir run full", Success(|_| Ok("the run is complete".into()))),
    ];
    let words = |line: &str| line.replace("SERVER", server).split(' ').map(str::to_string).collect();
    list.into_iter().map(|(line, expected)| (words(line), expected)).collect()
}

/// Whether a result has operations that succeeded. Returns the throughput.
pub(super) fn measured(text: &str) -> Result<String, String> {
    let begin = text.find("{\n").ok_or("no JSON is printed")?;
    let document: Value = serde_json::from_str(&text[begin..]).map_err(|error| error.to_string())?;
    let trial = &document["trials"][0];
    let operations = trial["operations"].as_array().ok_or("the result has no operations")?;
    let sum = |key: &str| operations.iter().filter_map(|operation| operation[key].as_f64()).sum::<f64>();
    let (completed, failed) = (sum("completed"), sum("failed"));
    if completed == 0.0 || failed > 0.0 {
        return Err(format!("{completed} operations were completed and {failed} failed"));
    }
    let back_end =
        trial["facts"]["back_end"]["text"].as_str().map(|name| format!(" by {name}")).unwrap_or_default();
    Ok(format!("{completed} operations{back_end}, none failed"))
}

struct Case<'a> {
    root: &'a Path,
    has_proc: bool,
    arguments: &'a [String],
}

impl Case<'_> {
    fn run(&self, expected: Expected) -> Result<Option<Fault>, String> {
        let mut command = Command::new("unshare");
        if !is_root()? {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "--pid", "--fork"]);
        if self.has_proc {
            command.arg("--mount-proc");
        }
        command
            .arg("--root")
            .arg(self.root)
            .args(["--wd", "/tmp"])
            .arg(format!("/{NAME}"))
            .args(self.arguments);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let output = command.output().map_err(|error| format!("{}: {error}", shown(&command)))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = format!("{NAME} {}", self.arguments.join(" "));
        let place = format!("a bare root directory {} /proc", if self.has_proc { "with" } else { "without" });
        let errors = String::from_utf8_lossy(&output.stderr);
        let judged = match (output.status.code(), expected) {
            (Some(code), Expected::Success(judge)) if CARRIED_OUT.contains(&code) => judge(&text),
            (Some(1), Expected::Failure(words)) if errors.contains(words) => {
                Ok(format!("fails and says that {words}"))
            }
            _ => Err(output.status.to_string()),
        };
        Ok(match judged {
            Ok(what) => {
                println!("{place}: {line}: {what}");
                None
            }
            Err(why) => Some(Fault::new(
                format!("{place}: {line}"),
                format!("{why}\n{text}{errors}"),
                "repeat it with unshare --root, and trace it with strace -f",
            )),
        })
    }
}

fn is_root() -> Result<bool, String> {
    Ok(super::output(Command::new("id").arg("--user"))?.trim() == "0")
}

/// A web server that answers every request, until this program ends.
struct Server {
    address: String,
}

impl Server {
    fn start() -> Result<Server, String> {
        let wrong = |error| format!("a web server for the check: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?.to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || answer(stream));
            }
        });
        Ok(Server { address })
    }
}

/// Answers each request of a connection. A request of the load is in one packet and has no body.
fn answer(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(length) = stream.read(&mut buffer) {
        let is_whole = buffer[..length].ends_with(b"\r\n\r\n");
        let response = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n";
        if length == 0 || !is_whole || stream.write_all(response).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(operations: Value) -> Result<String, String> {
        let trial = json!({ "operations": operations, "facts": { "back_end": { "text": "io_uring" } } });
        measured(&format!("noise\n{:#}", json!({ "trials": [trial] })))
    }

    #[test]
    fn a_result_needs_operations_without_failures() {
        let operation = |completed: u32, failed: u32| json!({ "completed": completed, "failed": failed });
        assert_eq!(
            judged(json!([operation(2, 0), operation(3, 0)])).unwrap(),
            "5 operations by io_uring, none failed"
        );
        assert!(judged(json!([operation(0, 0)])).is_err());
        assert!(judged(json!([operation(2, 0), operation(2, 1)])).is_err());
        assert!(measured("").is_err());
        assert!(measured("{\n}").is_err());
    }

    #[test]
    fn the_server_answers_each_request_of_a_connection() {
        let server = Server::start().unwrap();
        let mut stream = TcpStream::connect(&server.address).unwrap();
        for _ in 0..2 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut buffer = [0; 256];
            let length = stream.read(&mut buffer).unwrap();
            assert!(buffer[..length].starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
    }
}
