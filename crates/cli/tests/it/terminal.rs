//! The program on a terminal of its own, by `script`.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::program::Place;

/// A terminal of 100 columns on which a line of the shell runs.
pub(crate) struct Terminal {
    script: Child,
    receiver: Receiver<String>,
}

impl Terminal {
    /// Runs a line of the shell, in which `$0` is the program. The process number is in the file `pid` of the place, if the
    /// line ends with `exec`.
    pub(crate) fn of(place: &Place, line: &str) -> Terminal {
        let line = line.replace("$0", env!("CARGO_BIN_EXE_plimsoll"));
        let inner = format!("stty cols 100 rows 30; echo $$ > pid; {line}");
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &inner, "/dev/null"])
            .current_dir(place.path(""))
            .env("TERM", "xterm")
            .env("PLIMSOLL_STATE_DIR", place.path("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = script.stdout.take().unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = out.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                if count == 0 || sender.send(text).is_err() {
                    break;
                }
            }
        });
        Terminal { script, receiver }
    }

    /// All output until it contains a text, or until it ends.
    pub(crate) fn until(&self, text: &str) -> String {
        let (mut out, begin) = (String::new(), Instant::now());
        while !out.contains(text) && begin.elapsed() < Duration::from_secs(60) {
            match self.receiver.recv_timeout(Duration::from_secs(60)) {
                Ok(more) => out += &more,
                Err(_) => break,
            }
        }
        out
    }

    /// Waits for the end of the program: its exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.script.wait().unwrap().code()
    }

    /// Closes the terminal, as a lost connection does.
    pub(crate) fn close(self) {
        drop(self);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The process number in the file `pid`.
pub(crate) fn process(place: &Place) -> i32 {
    std::fs::read_to_string(place.path("pid")).unwrap().trim().parse().unwrap()
}
