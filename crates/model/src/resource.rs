//! Resources that can be a limit: their class and their owner.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A class of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceClass {
    /// CPUs.
    Cpu,
    /// The CPU quota of a control group.
    CpuQuota,
    /// One thread that is always running, even if other CPUs are idle.
    SingleThread,
    /// Memory.
    Memory,
    /// A block device.
    Disk,
    /// A limit set on reading and writing.
    IoLimit,
    /// The network.
    Network,
    /// A lock inside a process.
    Lock,
    /// The worker pool: all threads of a process.
    WorkerPool,
    /// The connection pool of a process to another service.
    ConnectionPool,
    /// Another service that the measured one uses.
    Downstream,
    /// Pauses in which no request is answered.
    Pause,
    /// The load generator.
    LoadGenerator,
    /// The accept queue: connections waiting to be accepted.
    AcceptQueue,
    /// TCP: lost segments.
    Tcp,
    /// The packet queue of a CPU.
    PacketQueue,
}

impl ResourceClass {
    /// Its name in a sentence, such as `worker pool`.
    pub fn words(self) -> &'static str {
        match self {
            ResourceClass::Cpu => "cpu",
            ResourceClass::CpuQuota => "cpu quota",
            ResourceClass::SingleThread => "single thread",
            ResourceClass::Memory => "memory",
            ResourceClass::Disk => "disk",
            ResourceClass::IoLimit => "I/O limit",
            ResourceClass::Network => "network",
            ResourceClass::Lock => "lock",
            ResourceClass::WorkerPool => "worker pool",
            ResourceClass::ConnectionPool => "connection pool",
            ResourceClass::Downstream => "downstream",
            ResourceClass::Pause => "pause",
            ResourceClass::LoadGenerator => "load generator",
            ResourceClass::AcceptQueue => "accept queue",
            ResourceClass::Tcp => "TCP",
            ResourceClass::PacketQueue => "packet queue",
        }
    }

    /// The host resource that a factor can reduce or increase; none if no factor changes it.
    pub fn of_host(self) -> Option<HostResource> {
        match self {
            ResourceClass::Cpu | ResourceClass::CpuQuota | ResourceClass::SingleThread => {
                Some(HostResource::Cpu)
            }
            ResourceClass::Memory => Some(HostResource::Memory),
            ResourceClass::Disk | ResourceClass::IoLimit => Some(HostResource::Disk),
            ResourceClass::Network => Some(HostResource::Network),
            _ => None,
        }
    }
}

/// A host resource that a factor can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostResource {
    /// CPUs and CPU time.
    Cpu,
    /// Memory.
    Memory,
    /// Reading and writing.
    Disk,
    /// The network.
    Network,
}

impl HostResource {
    /// Its name.
    pub fn words(self) -> &'static str {
        match self {
            HostResource::Cpu => "cpu",
            HostResource::Memory => "memory",
            HostResource::Disk => "disk",
            HostResource::Network => "network",
        }
    }
}

impl fmt::Display for HostResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// The owner of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// A block device by its kernel name; several devices of a load are joined by `, `.
    Device(String),
    /// A watched process, with its name in the experiment.
    Process(String),
    /// A network address.
    Address(String),
    /// A setting of the experiment, by its path.
    Setting(String),
}

/// The use of a resource, if it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Making written data durable.
    Flushes,
    /// Reads and writes.
    Transfers,
    /// Reads, if they are more than the writes.
    Reads,
    /// Writes, if they are more than the reads.
    Writes,
    /// Reading pages of programs and mapped files.
    PageFaults,
}

impl Detail {
    fn words(self) -> &'static str {
        match self {
            Detail::Flushes => "flushes",
            Detail::Transfers => "transfers",
            Detail::Reads => "reads",
            Detail::Writes => "writes",
            Detail::PageFaults => "page faults",
        }
    }
}

/// A resource of the system under test, of its host, or of the load generator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resource {
    /// The class.
    pub class: ResourceClass,
    /// The owner; none for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Owner>,
    /// The host, if it is another one than that of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The use of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

impl Resource {
    /// A resource of the host.
    pub fn of_host(class: ResourceClass) -> Self {
        Resource { class, of: None, host: None, detail: None }
    }

    /// A resource of a watched process.
    pub fn of_process(class: ResourceClass, process: &str) -> Self {
        Resource { class, of: Some(Owner::Process(process.into())), host: None, detail: None }
    }

    /// A block device.
    pub fn disk(device: &str) -> Self {
        let of = Some(Owner::Device(device.into()));
        Resource { class: ResourceClass::Disk, of, host: None, detail: None }
    }

    /// The same of this host; empty for the host of the load.
    pub fn on(self, host: &str) -> Self {
        Resource { host: (!host.is_empty()).then(|| host.into()), ..self }
    }

    /// The resource that a factor on this host can change, empty for the host of the load; none for one of another host.
    pub fn of_factor(&self, host: &str) -> Option<HostResource> {
        self.class.of_host().filter(|_| self.host.as_deref().unwrap_or_default() == host)
    }

    /// Adds the use.
    pub fn with(self, detail: Detail) -> Self {
        Resource { detail: Some(detail), ..self }
    }
}

impl fmt::Display for Resource {
    /// `disk vda`, `cpu quota of slapd`, `disk of slapd (flushes)`, `downstream 127.0.0.1:3306`, `disk sda of db1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.words())?;
        match &self.of {
            None => {}
            Some(Owner::Process(name)) => write!(f, " of {name}")?,
            Some(Owner::Device(name) | Owner::Address(name) | Owner::Setting(name)) => write!(f, " {name}")?,
        }
        if let Some(host) = &self.host {
            write!(f, " of {host}")?;
        }
        match self.detail {
            Some(detail) => write!(f, " ({})", detail.words()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_one_name() {
        use ResourceClass::{Cpu, CpuQuota, Disk, Downstream, IoLimit, Memory};
        let of = |class, of| Resource { class, of: Some(of), host: None, detail: None };
        for (resource, name) in [
            (Resource::of_host(Cpu), "cpu"),
            (Resource::of_process(CpuQuota, "slapd"), "cpu quota of slapd"),
            (Resource::disk("vda"), "disk vda"),
            (Resource::disk("sda").on("db1"), "disk sda of db1"),
            (Resource::of_host(Cpu).on("db1"), "cpu of db1"),
            (Resource::of_host(Cpu).on(""), "cpu"),
            (Resource::of_process(Disk, "slapd").with(Detail::Flushes), "disk of slapd (flushes)"),
            (of(Downstream, Owner::Address("127.0.0.1:3306".into())), "downstream 127.0.0.1:3306"),
            (of(IoLimit, Owner::Setting("host.disk.io_limit".into())), "I/O limit host.disk.io_limit"),
        ] {
            assert_eq!(resource.to_string(), name);
            let json = serde_json::to_string(&resource).unwrap();
            assert_eq!(serde_json::from_str::<Resource>(&json).unwrap(), resource);
        }
        assert_eq!(IoLimit.of_host(), Some(HostResource::Disk));
        assert_eq!(Memory.of_host(), Some(HostResource::Memory));
        assert_eq!(Downstream.of_host(), None);
        for (host, of, expected) in [
            ("", "", Some(HostResource::Disk)),
            ("db1", "", None),
            ("db1", "db1", Some(HostResource::Disk)),
            ("", "db1", None),
        ] {
            assert_eq!(Resource::disk("sda").on(host).of_factor(of), expected, "{host} {of}");
        }
    }
}
