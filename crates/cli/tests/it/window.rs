//! Launches of desktop programs, until their window appears: real X clients on a display without a screen.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::Need;

use crate::program::{Finished, Place, command};

/// A child that is killed and reaped in the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A display of its own.
struct Display {
    _server: Running,
    name: String,
}

impl Display {
    /// None where a program is missing, which is recorded.
    fn new() -> Option<Display> {
        if ["Xvfb", "xterm", "xmessage", "xwininfo"].iter().any(|name| testkit::lacks(Need::Program(name))) {
            return None;
        }
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-nolisten", "tcp", "-screen", "0", "640x480x24", "-noreset"]);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = server.stdout.take().unwrap();
        let server = Running(server);
        let mut number = String::new();
        BufReader::new(output).read_line(&mut number).unwrap();
        Some(Display { _server: server, name: format!(":{}", number.trim()) })
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Running {
        let mut client = Command::new(program);
        client.args(arguments).env("DISPLAY", &self.name).stdout(Stdio::null()).stderr(Stdio::null());
        Running(client.spawn().unwrap())
    }

    /// What `xwininfo` prints of all windows.
    fn windows(&self) -> String {
        let listed = Command::new("xwininfo").args(["-root", "-tree"]).env("DISPLAY", &self.name).output();
        String::from_utf8_lossy(&listed.unwrap().stdout).into_owned()
    }

    /// Waits until a window can be found by this text.
    fn wait_for(&self, text: &str) {
        while !self.windows().contains(text) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Launches a command until a window with this title appears.
    fn exec(&self, place: &Place, title: &str, flags: &[&str], launched: &[&str]) -> Finished {
        let run_dir = place.path("r");
        let _ = std::fs::remove_dir_all(&run_dir);
        let before = ["exec", "--json", "--quiet", "--run-dir", "r", "--until-window", title];
        let arguments: Vec<&str> =
            before.iter().chain(flags).chain(&["--"]).chain(launched).copied().collect();
        on_display(place, &arguments, &[("DISPLAY", &self.name)])
    }
}

fn on_display(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut program = command(place, arguments);
    program.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").envs(variables.iter().copied());
    let output = program.output().unwrap();
    Finished {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Launches each client twice: xterm states its process, xmessage does not.
fn launch_both(display: &Display, place: &Place) {
    for (title, launched) in [
        ("Hello w", &["xterm", "-T", "Hello world", "-e", "sleep", "60"][..]),
        ("mess", &["xmessage", "hi"][..]),
    ] {
        let done = display.exec(place, title, &["--repeat", "2"], launched);
        assert!(done.measured(), "{title}: {}{}", done.out, done.err);
        let document: Value = serde_json::from_str(&done.out).unwrap();
        let operations = document["trials"][0]["operations"].as_array().unwrap();
        let completed: u64 = operations
            .iter()
            .filter(|operation| operation["name"] != "all")
            .filter_map(|operation| operation["completed"].as_u64())
            .sum();
        assert_eq!(completed, 2, "{title}: {}", done.out);
        // They would run on for a minute: they were ended.
        assert!(!display.windows().contains(launched[0]), "{title}: {}", display.windows());
    }
}

#[test]
fn a_launch_is_done_when_its_window_appears() {
    let Some(display) = Display::new() else { return };
    let place = Place::new("window");
    launch_both(&display, &place);
    // A window manager moves windows into frames of its own.
    if testkit::partly_lacks(Need::Program("openbox")) {
        return;
    }
    let _manager = display.client("openbox", &[]);
    display.wait_for("Openbox");
    launch_both(&display, &place);
}

#[test]
fn a_window_that_is_not_of_the_launch_does_not_count() {
    let Some(display) = Display::new() else { return };
    let place = Place::new("window-other");
    let _before = display.client("xmessage", &["-title", "Ready", "hi"]);
    display.wait_for("Ready");
    let failed = |title: &str, launched: &[&str]| {
        let done = display.exec(&place, title, &["--repeat", "1", "--timeout", "3s"], launched);
        assert_eq!(done.code, 1, "{}{}", done.out, done.err);
        done.err
    };
    // One that was there before.
    let error = failed("Ready", &["sleep", "60"]);
    assert!(error.contains("timed out; no other window with a title appeared"), "{error}");
    // One whose process is not in the process group of the launch.
    let apart = "setsid xterm -T Ready -e sleep 6 & sleep 60";
    let error = failed("Ready", &["sh", "-c", apart]);
    assert!(error.contains("timed out; other windows that appeared: `Ready` of process "), "{error}");
    // One with another title.
    let error = failed("ready", &["xmessage", "-title", "Not Ready yet", "hi"]);
    assert!(error.contains("other windows that appeared: `Not Ready yet`"), "{error}");
    let error = failed("Ready", &["false"]);
    assert!(error.contains("ended with exit status 1 before it was ready"), "{error}");
}

#[test]
fn without_a_display_it_says_what_to_do() {
    let place = Place::new("window-none");
    let arguments = ["exec", "--until-window", "x", "--", "true"];
    for (variables, what, help) in [
        (&[][..], "there is no X display: DISPLAY is not set", "xvfb-run"),
        (&[("WAYLAND_DISPLAY", "wayland-0")], "windows of Wayland are not supported", "use XWayland"),
        (&[("DISPLAY", "nonsense")], "DISPLAY is `nonsense`, which is no X display", "DISPLAY=:0"),
        (&[("DISPLAY", ":59999")], "DISPLAY is `:59999`, which is no X display", "DISPLAY=:0"),
        (&[("DISPLAY", ":59535")], "the X server of DISPLAY=:59535 cannot be used", "is it running?"),
        (&[("DISPLAY", "no-such-host.invalid:0")], "the X server of DISPLAY=no-such", "is it running?"),
    ] {
        let done = on_display(&place, &arguments, variables);
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains(what) && done.err.contains(help), "{}", done.err);
    }
}
