//! The counters of Windows Performance Monitor that administrators know, and their equivalents.
//!
//! A counter that has exactly one metric of the same meaning stands at that metric (`MetricInfo::known_as`) and here only
//! where there is a difference to state. Paths are without host and instance. What each counter means is from its own
//! description in Performance Monitor ("Explain text") and Microsoft's reference pages of the object.

use super::Answer::{self, Nearest, Nothing, Same};

/// A counter, its answer, the metric, and the difference, the reason, or what to use.
pub(super) struct Row {
    pub(super) path: &'static str,
    pub(super) answer: Answer,
    pub(super) metric: &'static str,
    pub(super) about: &'static str,
}

/// Declares the table: a path and its metric, with the difference where there is one; or, for a path without one, what to use.
macro_rules! table {
    ($($answer:ident $path:literal => $metric:literal $(, $about:literal)?;)+) => {
        /// The table, object by object.
        pub(super) static TABLE: &[Row] = &[$(table!(row $answer $path $metric $($about)?)),+];
    };
    (row Nothing $path:literal $about:literal) => { Row { path: $path, answer: Nothing, metric: "", about: $about } };
    (row $answer:ident $path:literal $metric:literal) => {
        Row { path: $path, answer: $answer, metric: $metric, about: "" }
    };
    (row $answer:ident $path:literal $metric:literal $about:literal) => {
        Row { path: $path, answer: $answer, metric: $metric, about: $about }
    };
}

/// Objects that have the counters of another one.
pub(super) static ALIASES: &[(&str, &str)] = &[
    ("Network Adapter", "Network Interface"),
    ("TCPv6", "TCPv4"),
    ("UDPv6", "UDPv4"),
    ("Process V2", "Process"),
    ("DirectoryServices", "NTDS"),
    ("ASP.NET v4.0.30319", "ASP.NET"),
    ("ASP.NET v2.0.50727", "ASP.NET"),
    ("ASP.NET Apps v4.0.30319", "ASP.NET Applications"),
    ("ASP.NET Apps v2.0.50727", "ASP.NET Applications"),
];

/// What holds for all counters of an object.
pub(super) static OBJECTS: &[(&str, &str)] = &[
    (
        "Processor",
        "(_Total) is the metric without an instance, (3) that of CPU 3. Shares are 0 to 1, not percent.",
    ),
    (
        "Processor Information",
        "(_Total) is the metric without an instance, (0,3) that of CPU 3. Shares are 0 to 1, not percent.",
    ),
    ("PhysicalDisk", "Whole disks. Partitions and logical volumes: LogicalDisk."),
    (
        "LogicalDisk",
        "Partitions and logical volumes have rows of their own. A file system on a whole disk has none: use the row of the disk (PhysicalDisk).",
    ),
    (
        "Process",
        "Watch it with --watch process:NAME. Processes of one name, and what they start, are counted together.",
    ),
    ("Thread", "Watch its process with --watch process:NAME."),
    ("TCPv4", "IPv4 and IPv6 are counted together."),
];

table! {
    Same r"Processor\% Processor Time" => "cpu.busy_share",
        "Both count what is not idle. Waiting for I/O is idle; time stolen by the hypervisor is busy here.";
    Same r"Processor\% Privileged Time" => "cpu.system_share",
        "Without interrupts, which Windows includes: they are cpu.irq_share.";
    Nearest r"Processor\% Idle Time" => "cpu.busy_share", "Idle is 1 less busy, cpu.iowait_share included.";
    Same r"Processor\% Interrupt Time" => "cpu.irq_share", "With soft interrupts, which Windows shows as % DPC Time.";
    Nearest r"Processor\% DPC Time" => "cpu.irq_share",
        "Hardware and soft interrupts together. Apart: mpstat, columns %irq and %soft.";
    Nothing r"Processor\DPCs Queued/sec" => "Use mpstat -I SCPU, or /proc/softirqs.";
    Nothing r"Processor\% C1 Time" => "Power states are not read. Use turbostat.";
    Nothing r"Processor\% C2 Time" => "Power states are not read. Use turbostat.";
    Nothing r"Processor\% C3 Time" => "Power states are not read. Use turbostat.";
    Same r"Processor Information\% Processor Time" => "cpu.busy_share",
        "Waiting for I/O is idle; time stolen by the hypervisor is busy here.";
    Nearest r"Processor Information\% Processor Utility" => "cpu.busy_share",
        "Utility weighs time by the clock frequency and can pass 100 %. This is time only.";
    Nearest r"Processor Information\% Privileged Utility" => "cpu.system_share",
        "Utility weighs time by the clock frequency. This is time only, without interrupts.";
    Same r"Processor Information\% User Time" => "cpu.user_share";
    Same r"Processor Information\% Privileged Time" => "cpu.system_share",
        "Without interrupts, which Windows includes: they are cpu.irq_share.";
    Same r"Processor Information\% Interrupt Time" => "cpu.irq_share",
        "With soft interrupts, which Windows shows as % DPC Time.";
    Nearest r"Processor Information\% DPC Time" => "cpu.irq_share", "Hardware and soft interrupts together.";
    Nearest r"Processor Information\% Idle Time" => "cpu.busy_share", "Idle is 1 less busy, cpu.iowait_share included.";
    Same r"Processor Information\Interrupts/sec" => "cpu.interrupts_per_s";
    Nothing r"Processor Information\Processor Frequency" =>
        "Frequencies are not read. Use turbostat, or cpupower frequency-info.";
    Nothing r"Processor Information\% of Maximum Frequency" =>
        "Frequencies are not read. Use turbostat, or cpupower frequency-info.";
    Nothing r"Processor Information\% Processor Performance" =>
        "Frequencies are not read. Use turbostat, or cpupower frequency-info.";
    Nothing r"Processor Information\Parking Status" => "Power states are not read. Use turbostat.";
    Same r"System\Processor Queue Length" => "cpu.run_queue_length",
        "The mean over the window; Windows shows the queue at one moment.";
    Nearest r"System\Processes" => "process.processes",
        "Of a watched process and what it starts. Of the whole host: ps -e | wc -l.";
    Nearest r"System\Threads" => "process.threads",
        "Of a watched process and what it starts. Of the whole host: /proc/loadavg.";
    Nothing r"System\System Calls/sec" =>
        "Linux does not count system calls. Use perf stat -a -e raw_syscalls:sys_enter.";
    Nothing r"System\System Up Time" => "Use uptime.";
    Nearest r"System\File Read Operations/sec" => "process.read_calls_per_s", "Of a watched process only.";
    Nearest r"System\File Write Operations/sec" => "process.write_calls_per_s", "Of a watched process only.";
    Nearest r"System\File Read Bytes/sec" => "process.read_call_bytes_per_s", "Of a watched process only.";
    Nearest r"System\File Write Bytes/sec" => "process.write_call_bytes_per_s", "Of a watched process only.";
    Same r"Memory\Available Bytes" => "memory.available_bytes",
        "An estimate of the kernel: free memory, and page cache that can be given up at once.";
    Same r"Memory\Available KBytes" => "memory.available_bytes", "In bytes.";
    Same r"Memory\Available MBytes" => "memory.available_bytes",
        "In bytes. An estimate of the kernel: free memory, and page cache that can be given up at once.";
    Nearest r"Memory\Pages/sec" => "memory.major_faults_per_s",
        "Windows adds pages read and written for hard faults. Here faults; pages of swap are memory.swap_ins_per_s and memory.swap_outs_per_s.";
    Same r"Memory\Page Reads/sec" => "memory.major_faults_per_s", "One fault may read several pages in both.";
    Nearest r"Memory\Pages Input/sec" => "memory.swap_ins_per_s",
        "Pages of swap only; Windows counts mapped files too, which are in memory.paged_in_bytes_per_s.";
    Nearest r"Memory\Pages Output/sec" => "memory.swap_outs_per_s",
        "Pages of swap only; Windows counts mapped files too, which are in memory.paged_out_bytes_per_s.";
    Nearest r"Memory\Page Writes/sec" => "memory.swap_outs_per_s", "Pages, where Windows counts write operations.";
    Nearest r"Memory\Page Faults/sec" => "process.minor_faults_per_s",
        "Of a watched process; add process.major_faults_per_s. Of the whole host: sar -B, column fault/s.";
    Nearest r"Memory\Demand Zero Faults/sec" => "process.minor_faults_per_s",
        "All faults served from memory, of a watched process.";
    Nearest r"Memory\Transition Faults/sec" => "process.minor_faults_per_s",
        "All faults served from memory, of a watched process.";
    Nearest r"Memory\Transition Pages RePurposed/sec" => "memory.refaults_per_s",
        "Counts only pages that were read again soon after. Pages given up: memory.reclaimed_pages_per_s.";
    Nearest r"Memory\Cache Faults/sec" => "memory.paged_in_bytes_per_s",
        "Bytes read into the page cache, read-ahead included.";
    Nearest r"Memory\Cache Bytes" => "memory.cached_bytes",
        "The whole page cache; Windows shows the working set of the system.";
    Nearest r"Memory\System Cache Resident Bytes" => "memory.cached_bytes", "The whole page cache.";
    Nearest r"Memory\Standby Cache Normal Priority Bytes" => "memory.cached_bytes",
        "The whole page cache, mapped and shared pages included.";
    Nearest r"Memory\Standby Cache Reserve Bytes" => "memory.cached_bytes",
        "The whole page cache; Linux has no priorities in it.";
    Nearest r"Memory\Standby Cache Core Bytes" => "memory.cached_bytes",
        "The whole page cache; Linux has no priorities in it.";
    Nearest r"Memory\Long-Term Average Standby Cache Lifetime (s)" => "memory.refaults_per_s",
        "Linux keeps no age of the page cache. Refaults show that it is too small.";
    Same r"Memory\Modified Page List Bytes" => "memory.dirty_bytes",
        "Changed pages of files only: swap is not counted.";
    Nearest r"Memory\Pool Nonpaged Bytes" => "memory.slab_bytes", "All kernel objects: Linux has no paged pool.";
    Nearest r"Memory\Pool Paged Bytes" => "memory.slab_bytes", "All kernel objects: Linux has no paged pool.";
    Nearest r"Memory\% Committed Bytes In Use" => "memory.available_bytes",
        "Linux promises more memory than it has (overcommit), so commit is no limit. Look at what is available.";
    Nearest r"Memory\Committed Bytes" => "memory.available_bytes",
        "Linux promises more memory than it has (overcommit). Committed_AS in /proc/meminfo is the sum.";
    Nothing r"Memory\Commit Limit" =>
        "Linux promises more memory than it has. With vm.overcommit_memory=2: CommitLimit in /proc/meminfo.";
    Nothing r"Memory\Free System Page Table Entries" => "Only 32-bit systems run out of them.";
    Nearest r"Paging File\% Usage" => "memory.swap_used_bytes",
        "In bytes, not as a share. The size of each swap area: swapon --show.";
    Nearest r"Paging File\% Usage Peak" => "memory.swap_used_bytes", "Its largest value in the record, in bytes.";
    Same r"PhysicalDisk\% Disk Time" => "disk.utilization_share",
        "The share of time with an operation under way, 1 at most; Windows shows the queue length times 100. Neither says that a disk is saturated.";
    Nearest r"PhysicalDisk\% Disk Read Time" => "disk.utilization_share",
        "Reads and writes together. The queue of reads: disk.reads_per_s times disk.read_s.";
    Nearest r"PhysicalDisk\% Disk Write Time" => "disk.utilization_share",
        "Reads and writes together. The queue of writes: disk.writes_per_s times disk.write_s.";
    Nearest r"PhysicalDisk\% Idle Time" => "disk.utilization_share", "Idle is 1 less this.";
    Nearest r"PhysicalDisk\Avg. Disk Read Queue Length" => "disk.queue_length",
        "Reads and writes together. Reads alone: disk.reads_per_s times disk.read_s.";
    Nearest r"PhysicalDisk\Avg. Disk Write Queue Length" => "disk.queue_length",
        "Reads and writes together. Writes alone: disk.writes_per_s times disk.write_s.";
    Nearest r"PhysicalDisk\Disk Bytes/sec" => "disk.read_bytes_per_s", "Bytes read; add disk.write_bytes_per_s.";
    Nearest r"PhysicalDisk\Avg. Disk Bytes/Read" => "disk.read_bytes_per_s", "Divide it by disk.reads_per_s.";
    Nearest r"PhysicalDisk\Avg. Disk Bytes/Write" => "disk.write_bytes_per_s", "Divide it by disk.writes_per_s.";
    Nearest r"PhysicalDisk\Avg. Disk Bytes/Transfer" => "disk.transfers_per_s",
        "Divide disk.read_bytes_per_s and disk.write_bytes_per_s by it.";
    Nothing r"PhysicalDisk\Split IO/Sec" =>
        "Linux does not count splits. Merges are disk.read_merges_per_s and disk.write_merges_per_s.";
    Same r"LogicalDisk\% Disk Time" => "volume.utilization_share",
        "The share of time with an operation under way, 1 at most; Windows shows the queue length times 100.";
    Nearest r"LogicalDisk\% Disk Read Time" => "volume.utilization_share",
        "Reads and writes together. The queue of reads: volume.reads_per_s times volume.read_s.";
    Nearest r"LogicalDisk\% Disk Write Time" => "volume.utilization_share",
        "Reads and writes together. The queue of writes: volume.writes_per_s times volume.write_s.";
    Nearest r"LogicalDisk\% Idle Time" => "volume.utilization_share", "Idle is 1 less this.";
    Nearest r"LogicalDisk\Avg. Disk Read Queue Length" => "volume.queue_length",
        "Reads and writes together. Reads alone: volume.reads_per_s times volume.read_s.";
    Nearest r"LogicalDisk\Avg. Disk Write Queue Length" => "volume.queue_length",
        "Reads and writes together. Writes alone: volume.writes_per_s times volume.write_s.";
    Nearest r"LogicalDisk\Disk Bytes/sec" => "volume.read_bytes_per_s", "Bytes read; add volume.write_bytes_per_s.";
    Nearest r"LogicalDisk\Avg. Disk Bytes/Read" => "volume.read_bytes_per_s", "Divide it by volume.reads_per_s.";
    Nearest r"LogicalDisk\Avg. Disk Bytes/Write" => "volume.write_bytes_per_s", "Divide it by volume.writes_per_s.";
    Nearest r"LogicalDisk\Avg. Disk Bytes/Transfer" => "volume.transfers_per_s",
        "Divide volume.read_bytes_per_s and volume.write_bytes_per_s by it.";
    Nothing r"LogicalDisk\Split IO/Sec" => "Linux does not count splits.";
    Same r"LogicalDisk\% Free Space" => "filesystem.used_share",
        "The share in use: 1 less the free share. By mount point.";
    Same r"LogicalDisk\Free Megabytes" => "filesystem.free_bytes",
        "In bytes, by mount point: what users other than root may still use.";
    Nearest r"Network Interface\Bytes Total/sec" => "network.received_bytes_per_s",
        "Bytes received; add network.sent_bytes_per_s.";
    Nearest r"Network Interface\Packets/sec" => "network.received_packets_per_s",
        "Packets received; add network.sent_packets_per_s.";
    Nearest r"Network Interface\Packets Received Unicast/sec" => "network.received_packets_per_s",
        "Multicast and broadcast included.";
    Nearest r"Network Interface\Packets Sent Unicast/sec" => "network.sent_packets_per_s",
        "Multicast and broadcast included.";
    Same r"Network Interface\Packets Received Errors" => "network.receive_errors_per_s",
        "Per second; Windows counts since the start.";
    Same r"Network Interface\Packets Outbound Errors" => "network.send_errors_per_s",
        "Per second; Windows counts since the start.";
    Same r"Network Interface\Packets Received Discarded" => "network.receive_drops_per_s",
        "Per second; Windows counts since the start.";
    Same r"Network Interface\Packets Outbound Discarded" => "network.send_drops_per_s",
        "Per second; Windows counts since the start.";
    Nothing r"Network Interface\Current Bandwidth" => "Use ethtool DEVICE, or /sys/class/net/DEVICE/speed.";
    Nearest r"Network Interface\Output Queue Length" => "network.send_drops_per_s",
        "The length is not read: tc -s qdisc show. Drops show that the queue was full.";
    Nearest r"TCPv4\Segments/sec" => "network.tcp_received_segments_per_s",
        "Segments received; add network.tcp_sent_segments_per_s.";
    Same r"TCPv4\Connections Active" => "network.tcp_active_opens_per_s", "Per second; Windows counts since the start.";
    Same r"TCPv4\Connections Passive" => "network.tcp_passive_opens_per_s",
        "Per second; Windows counts since the start.";
    Same r"TCPv4\Connection Failures" => "network.tcp_failed_opens_per_s",
        "Per second; Windows counts since the start.";
    Same r"TCPv4\Connections Reset" => "network.tcp_resets_per_s", "Per second; Windows counts since the start.";
    Nothing r"UDPv4\Datagrams/sec" => "UDP is not read. Use nstat, or sar -n UDP.";
    Nothing r"UDPv4\Datagrams Received Errors" => "UDP is not read. Use nstat -az UdpInErrors.";
    Same r"Process\% Processor Time" => "process.busy_cpus", "In CPUs: 1.5 is 150 %.";
    Same r"Process\% User Time" => "process.user_cpus", "In CPUs: 1.5 is 150 %.";
    Same r"Process\% Privileged Time" => "process.system_cpus", "In CPUs: 1.5 is 150 %.";
    Nearest r"Process\Working Set - Private" => "process.resident_bytes",
        "Shared pages are counted too. Private ones: Private_Clean and Private_Dirty in /proc/PID/smaps_rollup.";
    Nearest r"Process\Working Set Peak" => "process.resident_bytes", "Its largest value in the record.";
    Nearest r"Process\Private Bytes" => "process.resident_bytes",
        "Memory that was allocated and never touched is not counted, shared memory is.";
    Nearest r"Process\Page File Bytes" => "memory.swap_used_bytes",
        "Of the whole host. Of one process: VmSwap in /proc/PID/status.";
    Nothing r"Process\Virtual Bytes" => "Address space costs nothing. It is VmSize in /proc/PID/status.";
    Nearest r"Process\Page Faults/sec" => "process.minor_faults_per_s",
        "Faults served from memory; add process.major_faults_per_s.";
    Nearest r"Process\IO Data Operations/sec" => "process.read_calls_per_s", "Reads; add process.write_calls_per_s.";
    Nearest r"Process\IO Data Bytes/sec" => "process.read_call_bytes_per_s",
        "Reads; add process.write_call_bytes_per_s.";
    Same r"Process\IO Read Operations/sec" => "process.read_calls_per_s",
        "Files and pipes. What reached a device: process.disk_reads_per_s.";
    Same r"Process\IO Write Operations/sec" => "process.write_calls_per_s",
        "Files and pipes. What reached a device: process.disk_writes_per_s.";
    Nothing r"Process\IO Other Operations/sec" => "Linux does not count them. Use strace -c -p PID.";
    Same r"Process\Handle Count" => "process.open_descriptors",
        "Files, sockets and pipes; threads and locks need no descriptor.";
    Nothing r"Process\Elapsed Time" => "Use ps -o etimes -p PID.";
    Nothing r"Process\ID Process" => "Use pgrep NAME.";
    Nothing r"Process\Priority Base" => "Use ps -o ni,pri -p PID.";
    Same r"Thread\% Processor Time" => "process.thread_cpus",
        "In CPUs, of at most 8 threads that are not idle, by name. The busiest of all: process.busiest_thread_cpus.";
    Nearest r"Thread\Context Switches/sec" => "process.voluntary_switches_per_s",
        "Of all threads of the process, when they wait; add process.involuntary_switches_per_s.";
    Nearest r"Thread\Thread State" => "process.running_threads",
        "Threads of the process in each state, such as process.sleeping_threads.";
    Nearest r"Thread\Thread Wait Reason" => "process.lock_wait_threads",
        "Threads of the process by what they wait for: process.lock_wait_threads, process.peer_wait_threads, process.flush_wait_threads and others.";
    Nearest r"Cache\Copy Read Hits %" => "memory.paged_in_bytes_per_s",
        "Linux does not count hits of the page cache. This is what was missing in it; cachestat of bcc counts hits.";
    Nearest r"Cache\Data Map Hits %" => "memory.paged_in_bytes_per_s",
        "Linux does not count hits of the page cache. This is what was missing in it.";
    Nothing r"Cache\Copy Reads/sec" =>
        "Linux does not count reads of the page cache. Of a watched process: process.read_calls_per_s.";
    Nothing r"Cache\Read Aheads/sec" => "Linux does not count them.";
    Nearest r"Cache\Lazy Write Pages/sec" => "memory.paged_out_bytes_per_s",
        "In bytes, direct writes of programs included.";
    Nearest r"Cache\Lazy Write Flushes/sec" => "memory.writeback_bytes", "What is being written at this moment.";
    Nearest r"Cache\Data Flushes/sec" => "disk.flushes_per_s", "Flushes that reached a device.";
    Nearest r"Cache\Dirty Pages" => "memory.dirty_bytes", "In bytes.";
    Nearest r"Objects\Processes" => "process.processes", "Of a watched process and what it starts.";
    Nearest r"Objects\Threads" => "process.threads", "Of a watched process and what it starts.";
    Nearest r"Objects\Mutexes" => "process.lock_wait_threads", "Linux does not count locks. This is who waits for one.";
    Nearest r"Objects\Semaphores" => "process.lock_wait_threads",
        "Linux does not count locks. This is who waits for one.";
    Nothing r"Objects\Events" => "Linux does not count them.";
    Nothing r"Objects\Sections" => "Use ipcs -m, or /proc/PID/maps.";
    Nearest r"Server Work Queues\Queue Length" => "process.run_queue_length",
        "With --watch process:smbd: Samba has a process for each client and no queue of its own.";
    Nearest r"Server Work Queues\Active Threads" => "process.running_threads", "With --watch process:smbd.";
    Nearest r"Server Work Queues\Available Threads" => "process.accept_wait_threads",
        "Threads of a watched process that wait for a connection.";
    Nearest r"Server\Bytes Total/sec" => "network.sent_bytes_per_s",
        "Of the whole host; add network.received_bytes_per_s.";
    Nothing r"Server\Server Sessions" => "Use smbstatus.";
    Nothing r"Server\Files Open" => "Use smbstatus --locks.";
    Nearest r"Server\Work Item Shortages" => "network.tcp_listen_overflows_per_s", "A server that accepts too slowly.";
    Nearest r"ASP.NET\Requests In Application Queue" => "process.accept_queue_connections",
        "Connections of a watched server that wait to be accepted. What its program queues inside is known to it alone: see its status page.";
    Nearest r"ASP.NET\Requests Queued" => "process.accept_queue_connections",
        "Connections of a watched server that wait to be accepted.";
    Nearest r"ASP.NET\Requests In Native Queue" => "process.accept_queue_connections",
        "Connections of a watched server that wait to be accepted.";
    Nearest r"ASP.NET\Request Wait Time" => "process.accept_queue_connections",
        "Their number, not their time. Response less service time of a load at a rate is time in queues.";
    Nothing r"ASP.NET\Request Execution Time" =>
        "Known to the server. From outside: the service time of plimsoll http.";
    Nothing r"ASP.NET\Requests Current" => "Known to the server. Of a load: its concurrency, in plimsoll show.";
    Nearest r"ASP.NET\Requests Rejected" => "network.tcp_listen_overflows_per_s",
        "Connections refused because the accept queue was full. Answers with status 503 are failed operations of plimsoll http.";
    Nearest r"ASP.NET\Requests Disconnected" => "network.tcp_resets_per_s",
        "Connections ended by a reset, of the whole host.";
    Nearest r"ASP.NET\Worker Processes Running" => "process.processes", "Of a watched server.";
    Nothing r"ASP.NET\Worker Process Restarts" => "Use systemctl show -p NRestarts SERVICE, or journalctl -u SERVICE.";
    Nothing r"ASP.NET\Application Restarts" => "Use systemctl show -p NRestarts SERVICE, or journalctl -u SERVICE.";
    Nothing r"ASP.NET Applications\Requests/Sec" => "Known to the server. Of a load: the throughput of plimsoll http.";
    Nearest r"ASP.NET Applications\Requests In Application Queue" => "process.accept_queue_connections",
        "Connections of a watched server that wait to be accepted.";
    Nearest r"ASP.NET Applications\Requests Executing" => "process.running_threads",
        "Threads of a watched server that run; those that wait are in process.peer_wait_threads and others.";
    Nothing r"ASP.NET Applications\Request Execution Time" =>
        "Known to the server. From outside: the service time of plimsoll http.";
    Nothing r"ASP.NET Applications\Errors Total/Sec" => "Of a load: the failed operations of plimsoll http.";
    Nothing r"ASP.NET Applications\Sessions Active" => "Known to the server.";
    Nothing r"ASP.NET Applications\Cache Total Hit Ratio" => "Known to the server.";
    Nearest r"ASP.NET Applications\Pipeline Instance Count" => "process.threads", "Of a watched server.";
    Nearest r"Web Service\Current Connections" => "network.tcp_established_connections",
        "Of the whole host. Of one port: ss -tn state established '( sport = :443 )'.";
    Nearest r"Web Service\Maximum Connections" => "network.tcp_established_connections",
        "Its largest value in the record, of the whole host.";
    Nearest r"Web Service\Connection Attempts/sec" => "network.tcp_passive_opens_per_s",
        "Connections opened to the whole host.";
    Nearest r"Web Service\Bytes Total/sec" => "network.sent_bytes_per_s",
        "Of the whole host; add network.received_bytes_per_s.";
    Nearest r"Web Service\Bytes Sent/sec" => "network.sent_bytes_per_s", "Of the whole host.";
    Nearest r"Web Service\Bytes Received/sec" => "network.received_bytes_per_s", "Of the whole host.";
    Nothing r"Web Service\Total Method Requests/sec" =>
        "Known to the server: stub_status of nginx, mod_status of Apache. Of a load: the throughput of plimsoll http.";
    Nothing r"Web Service\Get Requests/sec" => "Known to the server. Of a load: the throughput of plimsoll http.";
    Nothing r"Web Service\Post Requests/sec" => "Known to the server. Of a load: the throughput of plimsoll http.";
    Nothing r"Web Service\ISAPI Extension Requests/sec" => "Known to the server.";
    Nothing r"Web Service\Not Found Errors/sec" =>
        "Use the log of the server. Of a load: the failed operations of plimsoll http.";
    Nearest r"HTTP Service Request Queues\CurrentQueueSize" => "process.accept_queue_connections",
        "Connections, not requests, of a watched server. The limit is process.accept_queue_limit.";
    Nearest r"HTTP Service Request Queues\ArrivalRate" => "network.tcp_passive_opens_per_s",
        "Connections, not requests, of the whole host.";
    Nearest r"HTTP Service Request Queues\RejectionRate" => "network.tcp_listen_overflows_per_s",
        "Connections refused because an accept queue was full, of the whole host.";
    Nearest r"HTTP Service Request Queues\RejectedRequests" => "network.tcp_listen_overflows_per_s",
        "Per second, of the whole host.";
    Nothing r"HTTP Service Request Queues\MaxQueueItemAge" => "Linux keeps no age of waiting connections.";
    Nothing r"W3SVC_W3WP\Requests / Sec" => "Known to the server. Of a load: the throughput of plimsoll http.";
    Nearest r"W3SVC_W3WP\Active Requests" => "process.running_threads", "Threads of a watched server that run.";
    Nothing r".NET CLR Memory\% Time in GC" =>
        "Known to the runtime: dotnet-counters monitor -p PID, or jstat -gcutil PID for Java. Pauses of a server under load are in plimsoll explain.";
    Nearest r".NET CLR Memory\# Bytes in all Heaps" => "process.resident_bytes",
        "All memory of the process. Heaps: dotnet-counters monitor -p PID.";
    Nearest r".NET CLR Memory\# Total committed Bytes" => "process.resident_bytes", "All memory of the process.";
    Nearest r".NET CLR Memory\Large Object Heap size" => "process.resident_bytes",
        "All memory of the process. Heaps: dotnet-counters monitor -p PID.";
    Nothing r".NET CLR Memory\# Gen 0 Collections" => "Known to the runtime: dotnet-counters monitor -p PID.";
    Nothing r".NET CLR Memory\# Gen 1 Collections" => "Known to the runtime: dotnet-counters monitor -p PID.";
    Nothing r".NET CLR Memory\# Gen 2 Collections" => "Known to the runtime: dotnet-counters monitor -p PID.";
    Nothing r".NET CLR Memory\Allocated Bytes/sec" => "Known to the runtime: dotnet-counters monitor -p PID.";
    Nothing r".NET CLR Exceptions\# of Exceps Thrown / sec" => "Known to the runtime: dotnet-counters monitor -p PID.";
    Nearest r".NET CLR LocksAndThreads\Contention Rate / sec" => "process.lock_wait_threads",
        "Threads that wait, not how often they begin to.";
    Nearest r".NET CLR LocksAndThreads\Current Queue Length" => "process.same_lock_wait_threads",
        "Threads that wait at the most crowded lock or pool.";
    Nearest r".NET CLR LocksAndThreads\# of current logical Threads" => "process.threads",
        "Threads of the kernel, of the whole process.";
    Nearest r".NET CLR LocksAndThreads\# of current physical Threads" => "process.threads", "Of the whole process.";
    Nothing r".NET CLR Jit\% Time in Jit" => "Known to the runtime: dotnet-counters monitor -p PID.";
    Nothing r".NET CLR Loading\Current Assemblies" => "Known to the runtime: dotnet-counters monitor -p PID.";
    Nearest r".NET Data Provider for SqlServer\NumberOfPooledConnections" => "process.peer_wait_threads",
        "Threads that wait for the database, by its address. Connections: ss -tnp.";
    Nothing r"SQLServer:Buffer Manager\Buffer cache hit ratio" =>
        "Known to the database. PostgreSQL: blks_hit and blks_read in pg_stat_database.";
    Nearest r"SQLServer:Buffer Manager\Page life expectancy" => "memory.refaults_per_s",
        "Of the page cache, which most databases on Linux use. PostgreSQL's own: pg_buffercache.";
    Nearest r"SQLServer:Buffer Manager\Page reads/sec" => "process.disk_reads_per_s",
        "Reads of the control group of a watched database that reached a disk.";
    Nearest r"SQLServer:Buffer Manager\Page writes/sec" => "process.disk_writes_per_s",
        "Writes of the control group of a watched database that reached a disk.";
    Nearest r"SQLServer:Buffer Manager\Lazy writes/sec" => "memory.paged_out_bytes_per_s",
        "Of the whole host, in bytes. PostgreSQL: buffers_clean in pg_stat_bgwriter.";
    Nothing r"SQLServer:Buffer Manager\Checkpoint pages/sec" =>
        "Known to the database. PostgreSQL: log_checkpoints, or pg_stat_checkpointer.";
    Nearest r"SQLServer:Memory Manager\Total Server Memory (KB)" => "process.resident_bytes",
        "In bytes, of a watched database.";
    Nothing r"SQLServer:Memory Manager\Target Server Memory (KB)" =>
        "A setting of the database. PostgreSQL: shared_buffers.";
    Nothing r"SQLServer:Memory Manager\Memory Grants Pending" =>
        "Known to the database. PostgreSQL does not queue for memory.";
    Nearest r"SQLServer:General Statistics\User Connections" => "network.tcp_established_connections",
        "Of the whole host. PostgreSQL: pg_stat_activity.";
    Nearest r"SQLServer:General Statistics\Processes blocked" => "process.lock_wait_threads",
        "Threads of a watched database that wait for another thread. PostgreSQL: wait_event_type = 'Lock' in pg_stat_activity.";
    Nothing r"SQLServer:SQL Statistics\Batch Requests/sec" =>
        "Known to the database. PostgreSQL: calls in pg_stat_statements.";
    Nothing r"SQLServer:SQL Statistics\SQL Compilations/sec" =>
        "Known to the database. PostgreSQL: plans in pg_stat_statements.";
    Nothing r"SQLServer:SQL Statistics\SQL Re-Compilations/sec" =>
        "Known to the database. PostgreSQL: plans in pg_stat_statements.";
    Nearest r"SQLServer:Locks\Lock Waits/sec" => "process.lock_wait_threads",
        "Threads of a watched database that wait, not how often they begin to. PostgreSQL: pg_locks, log_lock_waits.";
    Nothing r"SQLServer:Locks\Average Wait Time (ms)" => "Known to the database. PostgreSQL: log_lock_waits.";
    Nothing r"SQLServer:Locks\Number of Deadlocks/sec" =>
        "Known to the database. PostgreSQL: deadlocks in pg_stat_database.";
    Nearest r"SQLServer:Latches\Latch Waits/sec" => "process.same_lock_wait_threads",
        "Threads that wait at the most crowded lock, not how often they begin to.";
    Nothing r"SQLServer:Databases\Transactions/sec" =>
        "Known to the database. PostgreSQL: xact_commit in pg_stat_database.";
    Nearest r"SQLServer:Databases\Log Flushes/sec" => "disk.flushes_per_s",
        "All flushes of the disk that holds the log.";
    Nearest r"SQLServer:Databases\Log Flush Wait Time" => "process.flush_wait_threads",
        "Threads of a watched database that wait for a flush. Each takes disk.flush_s.";
    Nearest r"SQLServer:Databases\Log Flush Waits/sec" => "process.flush_wait_threads",
        "Threads that wait for a flush, not how often they begin to.";
    Nearest r"SQLServer:Databases\Log Bytes Flushed/sec" => "process.write_bytes_per_s",
        "All that a watched database writes to disks.";
    Nothing r"SQLServer:Access Methods\Full Scans/sec" =>
        "Known to the database. PostgreSQL: seq_scan in pg_stat_user_tables.";
    Nothing r"SQLServer:Access Methods\Page Splits/sec" => "Known to the database.";
    Nothing r"NTDS\LDAP Searches/sec" => "Known to the server. OpenLDAP: cn=Search,cn=Operations,cn=Monitor.";
    Nothing r"NTDS\LDAP Successful Binds/sec" => "Known to the server. OpenLDAP: cn=Bind,cn=Operations,cn=Monitor.";
    Nothing r"NTDS\LDAP Writes/sec" => "Known to the server. OpenLDAP: cn=Operations,cn=Monitor.";
    Nothing r"NTDS\LDAP Bind Time" => "Known to the server: etime in the log of 389 Directory Server.";
    Nearest r"NTDS\LDAP Client Sessions" => "network.tcp_established_connections",
        "Of the whole host. OpenLDAP: cn=Current,cn=Connections,cn=Monitor.";
    Nearest r"NTDS\LDAP Active Threads" => "process.running_threads",
        "With --watch process:slapd. OpenLDAP: cn=Active,cn=Threads,cn=Monitor.";
    Nearest r"NTDS\DS Threads in Use" => "process.running_threads", "With --watch process:slapd.";
    Nearest r"NTDS\ATQ Threads Total" => "process.threads", "With --watch process:slapd.";
    Nearest r"NTDS\ATQ Outstanding Queued Requests" => "process.accept_queue_connections",
        "Connections, not requests, with --watch process:slapd. OpenLDAP: cn=Pending,cn=Threads,cn=Monitor.";
    Nothing r"NTDS\ATQ Estimated Queue Delay" =>
        "Known to the server. Response less service time of a load at a rate is time in queues.";
    Nothing r"NTDS\DRA Pending Replication Synchronizations" =>
        "Known to the server. OpenLDAP: compare contextCSN of both servers.";
    Nearest r"Hyper-V Hypervisor Virtual Processor\CPU Wait Time Per Dispatch" => "cpu.steal_share",
        "As seen by the guest: the share of time in which it was ready and did not run.";
    Nearest r"Hyper-V Hypervisor Logical Processor\% Total Run Time" => "cpu.busy_share", "On the host.";
}
