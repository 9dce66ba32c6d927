//! The network: interfaces, TCP, and the kernel's queues with their drops.
//!
//! The counters are those of Plimsoll's network namespace.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::reader::{Buffer, KernelFile, fields, lines, number, numbers};
use crate::series::{Clock, Columns, Counters, Roster, metrics};

#[cfg(test)]
mod tests;

metrics! {
    ReceivedBytes => MetricInfo::new("network.received_bytes_per_s", Unit::BytesPerSecond, Rate, "Bytes received.")
        .known_as(r"Network Interface\Bytes Received/sec", "-n DEV rxkB/s"),
    SentBytes => MetricInfo::new("network.sent_bytes_per_s", Unit::BytesPerSecond, Rate, "Bytes sent.")
        .known_as(r"Network Interface\Bytes Sent/sec", "-n DEV txkB/s"),
    ReceivedPackets => MetricInfo::new("network.received_packets_per_s", Unit::PerSecond, Rate, "Packets received.")
        .known_as(r"Network Interface\Packets Received/sec", "-n DEV rxpck/s"),
    SentPackets => MetricInfo::new("network.sent_packets_per_s", Unit::PerSecond, Rate, "Packets sent.")
        .known_as(r"Network Interface\Packets Sent/sec", "-n DEV txpck/s"),
    ReceiveErrors => MetricInfo::new("network.receive_errors_per_s", Unit::PerSecond, Rate,
        "Packets received with errors.")
        .known_as(r"Network Interface\Packets Received Errors", "-n EDEV rxerr/s"),
    SendErrors => MetricInfo::new("network.send_errors_per_s", Unit::PerSecond, Rate,
        "Packets that failed to be sent.")
        .known_as(r"Network Interface\Packets Outbound Errors", "-n EDEV txerr/s"),
    ReceiveDrops => MetricInfo::new("network.receive_drops_per_s", Unit::PerSecond, Rate,
        "Received packets that were dropped, usually because no buffer was free.")
        .known_as(r"Network Interface\Packets Received Discarded", "-n EDEV rxdrop/s"),
    SendDrops => MetricInfo::new("network.send_drops_per_s", Unit::PerSecond, Rate,
        "Packets dropped before they were sent, usually because the queue was full.")
        .known_as(r"Network Interface\Packets Outbound Discarded", "-n EDEV txdrop/s"),
    SegmentsIn => MetricInfo::new("network.tcp_received_segments_per_s", Unit::PerSecond, Rate,
        "TCP segments received.")
        .known_as(r"TCPv4\Segments Received/sec", "-n TCP iseg/s"),
    SegmentsOut => MetricInfo::new("network.tcp_sent_segments_per_s", Unit::PerSecond, Rate,
        "TCP segments sent, without retransmissions.")
        .known_as(r"TCPv4\Segments Sent/sec", "-n TCP oseg/s"),
    Retransmitted => MetricInfo::new("network.tcp_retransmitted_segments_per_s", Unit::PerSecond, Rate,
        "TCP segments retransmitted because no acknowledgement arrived.")
        .known_as(r"TCPv4\Segments Retransmitted/sec", "-n ETCP retrans/s"),
    ActiveOpens => MetricInfo::new("network.tcp_active_opens_per_s", Unit::PerSecond, Rate,
        "TCP connections that this host started to open.")
        .known_as(r"TCPv4\Connections Active", "-n TCP active/s"),
    PassiveOpens => MetricInfo::new("network.tcp_passive_opens_per_s", Unit::PerSecond, Rate,
        "TCP connections that other hosts opened to this host.")
        .known_as(r"TCPv4\Connections Passive", "-n TCP passive/s"),
    FailedOpens => MetricInfo::new("network.tcp_failed_opens_per_s", Unit::PerSecond, Rate,
        "TCP connections that could not be opened.")
        .known_as(r"TCPv4\Connection Failures", "-n ETCP atmptf/s"),
    Resets => MetricInfo::new("network.tcp_resets_per_s", Unit::PerSecond, Rate,
        "Established TCP connections that either side reset.")
        .known_as(r"TCPv4\Connections Reset", "-n ETCP estres/s"),
    ResetsSent => MetricInfo::new("network.tcp_sent_resets_per_s", Unit::PerSecond, Rate,
        "TCP segments sent with the RST flag.")
        .known_as("", "-n ETCP orsts/s"),
    Established => MetricInfo::new("network.tcp_established_connections", Unit::Count, Gauge,
        "TCP connections in the states ESTABLISHED and CLOSE_WAIT at this moment.")
        .known_as(r"TCPv4\Connections Established", ""),
    Buffered => MetricInfo::new("network.tcp_buffer_bytes", Unit::Bytes, Gauge,
        "Memory of the TCP buffers of all connections: data sent and not yet acknowledged, or received and not yet read."),
    Orphans => MetricInfo::new("network.tcp_orphaned_connections", Unit::Count, Gauge,
        "TCP connections that their process has closed although data still waits to be sent."),
    ListenOverflows => MetricInfo::new("network.tcp_listen_overflows_per_s", Unit::PerSecond, Rate,
        "Connections dropped because the accept queue of a listening service was full: the service accepts too slowly."),
    ListenDrops => MetricInfo::new("network.tcp_listen_drops_per_s", Unit::PerSecond, Rate,
        "Connection requests to listening services dropped for any reason, including a full accept queue."),
    SoftnetDrops => MetricInfo::new("network.softnet_drops_per_s", Unit::PerSecond, Rate,
        "Packets dropped because the input queue of a CPU was full.")
        .known_as("", "-n SOFT dropd/s"),
    SoftnetSqueezes => MetricInfo::new("network.softnet_squeezes_per_s", Unit::PerSecond, Rate,
        "Times a CPU reached its limit of packets or time per poll while more packets waited.")
        .known_as("", "-n SOFT squeezd/s"),
}

/// The source `network`.
pub const KIND: SourceKind = SourceKind {
    name: "network",
    about: "Bytes, packets, errors and drops of every interface; connections, retransmissions and overflows of TCP.",
    metrics: METRICS,
    selector: "",
    open,
};

fn open(root: &HostRoot, _selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    let mut network = Network {
        clock: Clock::default(),
        buffer: Buffer::new(),
        devices: KernelFile::new(root, "proc/net/dev"),
        snmp: KernelFile::new(root, "proc/net/snmp"),
        netstat: KernelFile::new(root, "proc/net/netstat"),
        softnet: KernelFile::new(root, "proc/net/softnet_stat"),
        sockets: KernelFile::new(root, "proc/net/sockstat"),
        interfaces: Roster::new(),
        host: Columns::new(""),
        tcp: Counters::new(),
        listen: Counters::new(),
        backlog: Counters::new(),
    };
    match network.devices.read(&mut network.buffer) {
        Some(_) => Ok(Box::new(network)),
        None => Err(Unavailable("/proc/net/dev cannot be read; is /proc mounted?".into())),
    }
}

struct Network {
    clock: Clock,
    buffer: Buffer,
    devices: KernelFile,
    snmp: KernelFile,
    netstat: KernelFile,
    softnet: KernelFile,
    sockets: KernelFile,
    interfaces: Roster<Interface>,
    host: Columns<Metric>,
    tcp: Counters<8>,
    listen: Counters<2>,
    backlog: Counters<2>,
}

struct Interface {
    columns: Columns<Metric>,
    counters: Counters<8>,
}

const INTERFACE_METRICS: [Metric; 8] = [
    Metric::ReceivedBytes,
    Metric::ReceivedPackets,
    Metric::ReceiveErrors,
    Metric::ReceiveDrops,
    Metric::SentBytes,
    Metric::SentPackets,
    Metric::SendErrors,
    Metric::SendDrops,
];

/// The counters of TCP and their names in `/proc/net/snmp`.
const TCP_METRICS: [(&[u8], Metric); 8] = [
    (b"ActiveOpens", Metric::ActiveOpens),
    (b"PassiveOpens", Metric::PassiveOpens),
    (b"AttemptFails", Metric::FailedOpens),
    (b"EstabResets", Metric::Resets),
    (b"InSegs", Metric::SegmentsIn),
    (b"OutSegs", Metric::SegmentsOut),
    (b"RetransSegs", Metric::Retransmitted),
    (b"OutRsts", Metric::ResetsSent),
];

impl Source for Network {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        let Some(text) = self.devices.read(&mut self.buffer) else {
            return Err(Unavailable("/proc/net/dev can no longer be read".into()));
        };
        self.interfaces.rewind();
        for line in lines(text) {
            // Two lines of headings have no colon. A long count may follow the colon without a blank, and the name
            // of an alias has a colon of its own.
            let Some(colon) = line.iter().rposition(|&byte| byte == b':') else { continue };
            let Some(name) = fields(&line[..colon]).next() else { continue };
            let values: [Option<u64>; 12] = numbers(fields(&line[colon + 1..]));
            let counters = [0, 1, 2, 3, 8, 9, 10, 11].map(|index| values[index]);
            let Some(interface) = self.interfaces.entry(name, |instance| Interface {
                columns: Columns::new(instance),
                counters: Counters::new(),
            }) else {
                continue;
            };
            let increases = interface.counters.advance(&tick, counters);
            // An interface that never carried a packet is configured, not used.
            if counters.iter().all(|counter| *counter == Some(0)) {
                continue;
            }
            for (metric, increase) in INTERFACE_METRICS.into_iter().zip(increases) {
                interface.columns.set(out, metric, increase / tick.seconds);
            }
        }

        if let Some(text) = self.snmp.read(&mut self.buffer) {
            let names = TCP_METRICS.map(|(name, _)| name);
            let increases = self.tcp.advance(&tick, titled(text, b"Tcp:", names));
            for ((_, metric), increase) in TCP_METRICS.into_iter().zip(increases) {
                self.host.set(out, metric, increase / tick.seconds);
            }
            let [established] = titled(text, b"Tcp:", [b"CurrEstab"]);
            self.host.set_count(out, Metric::Established, established);
        }
        if let Some(text) = self.netstat.read(&mut self.buffer) {
            let counters = titled(text, b"TcpExt:", [b"ListenOverflows", b"ListenDrops"]);
            let [overflows, drops] = self.listen.advance(&tick, counters);
            self.host.set(out, Metric::ListenOverflows, overflows / tick.seconds);
            self.host.set(out, Metric::ListenDrops, drops / tick.seconds);
        }
        if let Some(text) = self.sockets.read(&mut self.buffer) {
            let [orphans, pages] = held(text);
            self.host.set_count(out, Metric::Orphans, orphans);
            let page_bytes = rustix::param::page_size() as f64;
            self.host.set(out, Metric::Buffered, pages.map_or(f64::NAN, |pages| pages as f64 * page_bytes));
        }
        if let Some(text) = self.softnet.read(&mut self.buffer) {
            let [drops, squeezes] = self.backlog.advance(&tick, softnet(text));
            self.host.set(out, Metric::SoftnetDrops, drops / tick.seconds);
            self.host.set(out, Metric::SoftnetSqueezes, squeezes / tick.seconds);
        }
        Ok(())
    }

    fn limits(&self) -> String {
        self.interfaces.limits("network interfaces")
    }
}

/// Numbers by name from a pair of lines with the same title, the first with names, the second with values.
fn titled<const N: usize>(text: &[u8], title: &[u8], names: [&[u8]; N]) -> [Option<u64>; N] {
    let mut pair = lines(text).filter(|line| fields(line).next() == Some(title));
    let (Some(headings), Some(values)) = (pair.next(), pair.next()) else { return [None; N] };
    let mut found = [None; N];
    for (heading, value) in fields(headings).zip(fields(values)) {
        if let Some(index) = names.iter().position(|name| *name == heading) {
            found[index] = number(value);
        }
    }
    found
}

/// Orphans and pages of memory of TCP: `TCP: inuse 5 orphan 0 tw 7 alloc 8 mem 171`.
fn held(text: &[u8]) -> [Option<u64>; 2] {
    let Some(line) = lines(text).find_map(|line| line.strip_prefix(b"TCP:")) else { return [None; 2] };
    let mut words = fields(line);
    let mut found = [None; 2];
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name {
            b"orphan" => found[0] = number(value),
            b"mem" => found[1] = number(value),
            _ => {}
        }
    }
    found
}

/// Dropped and squeezed, added up over processors: the second and third column, in hexadecimal.
fn softnet(text: &[u8]) -> [Option<u64>; 2] {
    let mut totals = [None::<u64>; 2];
    for line in lines(text) {
        for (total, field) in totals.iter_mut().zip(fields(line).skip(1)) {
            if let Some(value) = hexadecimal(field) {
                *total = Some(total.unwrap_or(0).saturating_add(value));
            }
        }
    }
    totals
}

fn hexadecimal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(field).ok()?, 16).ok()
}
