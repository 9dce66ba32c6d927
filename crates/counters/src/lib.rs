//! What Plimsoll reads: CPU, memory, pressure, disk, network, process, cgroup, file system.
