//! The clock of the CPUs, as the kernel lets it be limited (cpufreq).

use std::fs;
use std::path::{Path, PathBuf};

use engine::factor::Undo;
use engine::source::{HostRoot, Unavailable};
use rustix::fs::Access;

use crate::topology::CPUS;

/// The policies of the CPUs: each is for CPUs that share a clock.
#[derive(Debug)]
pub(crate) struct Policies(Vec<PathBuf>);

impl Policies {
    /// Finds them.
    pub(crate) fn find(root: &HostRoot) -> Result<Policies, Unavailable> {
        let folder = root.join(format!("{CPUS}/cpufreq"));
        let mut policies: Vec<PathBuf> = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.join("scaling_governor").is_file())
            .collect();
        policies.sort();
        match policies.is_empty() {
            false => Ok(Policies(policies)),
            true => Err(Unavailable(format!(
                "this machine does not show the clock of its CPUs: there is no policy in /{CPUS}/cpufreq; in a virtual machine, \
                 set it on the host"
            ))),
        }
    }

    /// The content of a file of each policy.
    pub(crate) fn read(&self, file: &str) -> Result<Vec<String>, Unavailable> {
        let read = |policy: &PathBuf| {
            let path = policy.join(file);
            let text = fs::read_to_string(&path);
            text.map(|text| text.trim().to_string()).map_err(|error| cannot("read", &path, error))
        };
        self.0.iter().map(read).collect()
    }

    /// The number in a file of each policy.
    pub(crate) fn numbers(&self, file: &str) -> Result<Vec<u64>, Unavailable> {
        let number = |text: &String| {
            text.parse().map_err(|_| Unavailable(format!("{file} of a CPU is `{text}`, not a number")))
        };
        self.read(file)?.iter().map(number).collect()
    }

    /// Whether this process may write a file of each policy. Changes nothing.
    pub(crate) fn check_writable(&self, file: &str) -> Result<(), Unavailable> {
        for policy in &self.0 {
            let path = policy.join(file);
            rustix::fs::access(&path, Access::WRITE_OK)
                .map_err(|error| cannot("be changed", &path, error.into()))?;
        }
        Ok(())
    }

    /// Writes a file of each policy.
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<(), Unavailable> {
        for policy in &self.0 {
            let path = policy.join(file);
            fs::write(&path, text).map_err(|error| cannot("be changed", &path, error))?;
        }
        Ok(())
    }

    /// The steps that restore a file of each policy.
    pub(crate) fn undo(&self, file: &str) -> Result<Vec<Undo>, Unavailable> {
        let texts = self.read(file)?;
        let step = |(policy, text): (&PathBuf, String)| Undo::WriteControl { path: policy.join(file), text };
        Ok(self.0.iter().zip(texts).map(step).collect())
    }
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> Unavailable {
    let advice = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "; run as root",
        std::io::ErrorKind::ReadOnlyFilesystem => "; /sys is mounted read-only here, as in a container",
        _ => "",
    };
    Unavailable(format!("{} cannot {what}: {error}{advice}", path.display()))
}

/// A machine with two policies, for tests.
#[cfg(test)]
pub(crate) fn example() -> testkit::Scratch {
    let folder = testkit::Scratch::new();
    for policy in ["policy0", "policy4"] {
        fs::create_dir_all(folder.join(format!("{CPUS}/cpufreq/{policy}"))).unwrap();
        for (file, text) in [
            ("scaling_governor", "powersave\n"),
            ("scaling_available_governors", "performance powersave \n"),
            ("scaling_max_freq", "3600000\n"),
            ("cpuinfo_min_freq", "800000\n"),
            ("cpuinfo_max_freq", "3600000\n"),
        ] {
            folder.file(&format!("{CPUS}/cpufreq/{policy}/{file}"), text);
        }
    }
    folder
}
