//! Which CPUs are siblings: threads of the same core.

use std::collections::BTreeSet;
use std::fs;

use engine::source::{HostRoot, Unavailable};

use crate::cpus::CpuList;

/// Where the kernel shows the CPUs.
pub(crate) const CPUS: &str = "sys/devices/system/cpu";

/// The siblings of each core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology(Vec<CpuList>);

impl Topology {
    /// Reads the siblings of all CPUs that are online.
    pub(crate) fn read(root: &HostRoot) -> Result<Topology, Unavailable> {
        let folder = root.join(CPUS);
        let unknown = || {
            Unavailable(format!(
                "the cores are not known: this machine does not show {CPUS}/cpu0/topology/thread_siblings_list"
            ))
        };
        let mut cores: Vec<CpuList> = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|_| unknown())?.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
            if number.is_none() {
                continue;
            }
            // A CPU that is offline has none.
            let text = fs::read_to_string(entry.path().join("topology/thread_siblings_list"));
            let Some(siblings) = text.ok().and_then(|text| CpuList::parse(&text)) else { continue };
            if !cores.contains(&siblings) {
                cores.push(siblings);
            }
        }
        if cores.is_empty() { Err(unknown()) } else { Ok(Topology(cores)) }
    }

    /// These CPUs by their cores: in the order of the first CPU of each.
    pub(crate) fn cores(&self, cpus: &BTreeSet<usize>) -> Vec<Vec<usize>> {
        let of_core = |core: &CpuList| -> Vec<usize> {
            cpus.iter().copied().filter(|cpu| core.contains(*cpu)).collect()
        };
        let mut cores: Vec<Vec<usize>> = self.0.iter().map(of_core).filter(|core| !core.is_empty()).collect();
        cores.sort();
        cores
    }

    #[cfg(test)]
    pub(crate) fn of_siblings(lists: &[&str]) -> Topology {
        Topology(lists.iter().filter_map(|list| CpuList::parse(list)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_read_and_cpus_that_are_offline_are_left_out() {
        let folder = testkit::Scratch::new();
        for (cpu, siblings) in [("cpu0", "0,2"), ("cpu1", "1"), ("cpu2", "0,2"), ("cpuidle", "9")] {
            fs::create_dir_all(folder.join(format!("{CPUS}/{cpu}/topology"))).unwrap();
            folder.file(&format!("{CPUS}/{cpu}/topology/thread_siblings_list"), format!("{siblings}\n"));
        }
        fs::create_dir_all(folder.join(format!("{CPUS}/cpu3"))).unwrap();
        let topology = Topology::read(&HostRoot::at(folder.path())).unwrap();
        assert_eq!(topology.cores(&BTreeSet::from([0, 1, 2, 3])), [vec![0, 2], vec![1]]);
        assert_eq!(topology.cores(&BTreeSet::from([2])), [vec![2]]);
        let nothing = Topology::read(&HostRoot::at("/nowhere")).unwrap_err();
        assert!(nothing.0.contains("thread_siblings_list"), "{}", nothing.0);
    }
}
