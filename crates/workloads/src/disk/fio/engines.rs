//! The engines of fio, and what each is here.

/// What an engine of fio is to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Keeps operations in flight.
    Asynchronous,
    /// One operation at a time.
    Synchronous,
    /// The same files by another way; what differs.
    Files {
        /// Whether it keeps operations in flight.
        asynchronous: bool,
        /// What is different here.
        differs: &'static str,
    },
    /// Storage that is a file or a block device only by another name: how to get that.
    Elsewhere {
        /// Whether it keeps operations in flight.
        asynchronous: bool,
        /// What to do.
        how: &'static str,
    },
    /// Changes the space of a file in place of writing data: the level of `writes`.
    Space(Writes),
    /// Issues no I/O.
    Nothing,
    /// Reads and writes no file or device: what to use instead.
    Other(&'static str),
}

use Engine::{Asynchronous, Elsewhere, Files, Nothing, Other, Space, Synchronous};

use super::super::settings::Writes;

impl Engine {
    /// Whether `iodepth` has an effect.
    pub(super) fn is_asynchronous(self) -> bool {
        match self {
            Asynchronous | Nothing => true,
            Synchronous | Space(_) | Other(_) => false,
            Files { asynchronous, .. } | Elsewhere { asynchronous, .. } => asynchronous,
        }
    }

    /// Whether it never uses the host's page cache.
    pub(super) fn is_past_page_cache(self) -> bool {
        matches!(self, Elsewhere { .. })
    }
}

const MAPPED: &str = "loads and stores of mapped memory are system calls here";
const GPU: &str = "blocks go through the memory of the host, not of a GPU";
const BESIDE: &str = "run that program beside Plimsoll; `plimsoll exec` measures a command";
const METADATA: &str =
    "file operations are no reads and writes of blocks: write a loop and measure it with `plimsoll exec`";
const NETWORK: &str =
    "it loads a network, not storage: time a network tool with `plimsoll exec`, such as iperf3";
const RDMA: &str =
    "it loads a network, not storage: time a tool for it with `plimsoll exec`, such as ib_write_bw";
const CPU: &str = "it loads the CPU, not storage: time a program that does with `plimsoll exec`";
const HTTP: &str = "use `plimsoll http URL`";
const EXTENTS: &str = "it exchanges the extents of two files of ext4: time `e4defrag` with `plimsoll exec`";
const MOUNT: &str = "mount it and name a file there: `plimsoll disk --fio JOBS FILE`";

/// Every engine of fio.
static ENGINES: &[(&str, Engine)] = &[
    ("cpp_null", Nothing),
    ("cpuio", Other(CPU)),
    ("cuse", Other("name a file or block device and ioengine=io_uring")),
    (
        "dev-dax",
        Elsewhere {
            asynchronous: false,
            how: "name a file on a file system with DAX: `plimsoll disk --fio JOBS FILE`",
        },
    ),
    (
        "dfs",
        Elsewhere {
            asynchronous: true,
            how: "mount the container with dfuse and name a file there: `plimsoll disk --fio JOBS FILE`",
        },
    ),
    ("dircreate", Other(METADATA)),
    ("dirdelete", Other(METADATA)),
    ("dirstat", Other(METADATA)),
    ("e4defrag", Other(EXTENTS)),
    ("exec", Other(BESIDE)),
    ("external", Other("name an engine of fio itself, such as io_uring")),
    ("falloc", Space(Writes::Allocate)),
    ("filecreate", Other(METADATA)),
    ("filedelete", Other(METADATA)),
    ("fileoperations", Other(METADATA)),
    ("filestat", Other(METADATA)),
    ("ftruncate", Space(Writes::Truncate)),
    ("gfapi", Elsewhere { asynchronous: false, how: MOUNT }),
    ("gfapi_async", Elsewhere { asynchronous: true, how: MOUNT }),
    ("guasi", Asynchronous),
    ("http", Other(HTTP)),
    ("ime_aio", Elsewhere { asynchronous: true, how: MOUNT }),
    ("ime_psync", Elsewhere { asynchronous: false, how: MOUNT }),
    ("ime_psyncv", Elsewhere { asynchronous: false, how: MOUNT }),
    ("io_uring", Asynchronous),
    (
        "io_uring_cmd",
        Elsewhere {
            asynchronous: true,
            how: "name the block device of the same namespace: `plimsoll disk --fio JOBS /dev/nvme0n1`",
        },
    ),
    ("libaio", Asynchronous),
    (
        "libblkio",
        Elsewhere {
            asynchronous: true,
            how: "name the block device: `plimsoll disk --fio JOBS /dev/nvme0n1`",
        },
    ),
    ("libcufile", Files { asynchronous: false, differs: GPU }),
    ("libhdfs", Elsewhere { asynchronous: false, how: MOUNT }),
    ("libhipfile", Files { asynchronous: false, differs: GPU }),
    (
        "libiscsi",
        Elsewhere {
            asynchronous: true,
            how: "log in with iscsiadm and name the block device: `plimsoll disk --fio JOBS /dev/sdb`",
        },
    ),
    ("libpmem", Files { asynchronous: false, differs: MAPPED }),
    ("librpma_apm_client", Other(RDMA)),
    ("librpma_apm_server", Other(RDMA)),
    ("librpma_gpspm_client", Other(RDMA)),
    ("librpma_gpspm_server", Other(RDMA)),
    (
        "libzbc",
        Elsewhere { asynchronous: false, how: "name the block device: `plimsoll disk --fio JOBS /dev/sdb`" },
    ),
    ("mmap", Files { asynchronous: false, differs: MAPPED }),
    (
        "mtd",
        Elsewhere {
            asynchronous: false,
            how: "name the block device of the partition: `plimsoll disk --fio JOBS /dev/mtdblock0`",
        },
    ),
    (
        "nbd",
        Elsewhere {
            asynchronous: true,
            how: "connect it with nbd-client and name the block device: `plimsoll disk --fio JOBS /dev/nbd0`",
        },
    ),
    ("net", Other(NETWORK)),
    ("netsplice", Other(NETWORK)),
    ("nfs", Elsewhere { asynchronous: true, how: MOUNT }),
    ("null", Nothing),
    ("page_fault", Other("it touches memory, not storage: time a program that does with `plimsoll exec`")),
    ("pmemblk", Other("name a file on a file system with DAX and ioengine=mmap")),
    ("posixaio", Asynchronous),
    ("psync", Synchronous),
    ("pvsync", Synchronous),
    ("pvsync2", Synchronous),
    (
        "rados",
        Elsewhere {
            asynchronous: true,
            how: "map an RBD image of the pool with `rbd map` and name its block device: `plimsoll disk --fio JOBS /dev/rbd0`",
        },
    ),
    (
        "rbd",
        Elsewhere {
            asynchronous: true,
            how: "map the image with `rbd map` and name its block device: `plimsoll disk --fio JOBS /dev/rbd0`",
        },
    ),
    ("rdma", Other(RDMA)),
    (
        "sg",
        Elsewhere { asynchronous: false, how: "name the block device: `plimsoll disk --fio JOBS /dev/sdb`" },
    ),
    ("solarisaio", Asynchronous),
    ("splice", Files { asynchronous: false, differs: "blocks are read and written with system calls" }),
    ("sync", Synchronous),
    ("vsync", Synchronous),
    ("windowsaio", Asynchronous),
    (
        "xnvme",
        Elsewhere {
            asynchronous: true,
            how: "name the block device of the namespace: `plimsoll disk --fio JOBS /dev/nvme0n1`",
        },
    ),
];

/// What an engine is; none when fio has none of this name.
pub(super) fn engine(name: &str) -> Option<Engine> {
    let (name, _) = name.split_once(':').unwrap_or((name, ""));
    ENGINES.iter().find(|(known, _)| *known == name).map(|(_, engine)| *engine)
}

/// Every engine, for near words.
pub(super) fn engine_names() -> impl Iterator<Item = &'static str> + Clone {
    ENGINES.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_listed_once_in_order() {
        let names: Vec<&str> = engine_names().collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
        assert!(engine("libaio").is_some_and(Engine::is_asynchronous));
        assert!(engine("rbd").is_some_and(Engine::is_asynchronous));
        assert!(!engine("mmap").is_some_and(Engine::is_asynchronous));
        assert_eq!(engine("external:/tmp/engine.o"), engine("external"));
        assert_eq!(engine("libiao"), None);
    }
}
