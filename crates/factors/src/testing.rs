//! Shared code of the tests of several factors.

use std::process::{Child, Command, Stdio};

use engine::factor::Undo;
use engine::source::HostRoot;
use rustix::process::{Pid, Signal};

use testkit::Need;

use crate::cgroup::Controller;
use crate::process::with_descendants;
use crate::undo::carry_out;

/// The requirements of a test of a limit.
pub(crate) fn controller(controller: Controller) -> Need<'static> {
    Need::Cgroup(controller.v1, controller.v2)
}

/// The requirements of a test of a limit in cgroup v2.
pub(crate) fn controller_v2(controller: Controller) -> Need<'static> {
    Need::CgroupV2(controller.v2)
}

/// Executes the undo steps even if the test fails, so that this host is restored.
pub(crate) struct UndoSteps(pub(crate) Vec<Undo>);

impl UndoSteps {
    pub(crate) fn execute(&self) {
        self.0.iter().for_each(|step| carry_out(step).unwrap());
    }
}

impl Drop for UndoSteps {
    fn drop(&mut self) {
        for step in &self.0 {
            let _ = carry_out(step);
        }
    }
}

/// A shell with child processes; all are ended when it is dropped.
pub(crate) struct Tree(Child);

impl Tree {
    /// Runs a script and waits until there are `count` processes, including the shell.
    pub(crate) fn start(script: &str, count: usize) -> Self {
        let child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let tree = Tree(child);
        for _ in 0..500 {
            if tree.processes().len() == count {
                return tree;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the shell started no child");
    }

    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        with_descendants(&HostRoot::live(), &[self.0.id()])
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for process in self.processes() {
            let pid = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Processes that use all CPU time they get.
pub(crate) struct Spinner(Tree);

impl Spinner {
    pub(crate) fn start(spinners: usize) -> Self {
        let script = format!("{}wait", "(while :; do :; done) & ".repeat(spinners));
        Spinner(Tree::start(&script, spinners + 1))
    }

    pub(crate) fn process(&self) -> u32 {
        self.0.process()
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        self.0.processes()
    }
}

/// CPU time of these processes, in seconds.
pub(crate) fn cpu_s_of(processes: &[u32]) -> f64 {
    let used_s = |process: &u32| -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
        Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
    };
    processes.iter().filter_map(used_s).sum()
}
