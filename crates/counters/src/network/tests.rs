use super::{KIND, held, softnet, titled};
use crate::fixture::Host;

#[test]
fn what_tcp_holds_is_read_by_its_names() {
    let text = b"sockets: used 9\nTCP: inuse 5 orphan 32 tw 7 alloc 40 mem 171\nUDP: inuse 0 mem 3\n";
    assert_eq!(held(text), [Some(32), Some(171)]);
    assert_eq!(held(b"TCP: inuse 5 orphan x mem\n"), [None, None]);
    assert_eq!(held(b""), [None, None]);
}

#[test]
fn interfaces_and_tcp_come_out_as_planted() {
    let host = Host::copy_of("vm");
    let dev = "x\ny\n    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0\n  ifb0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n";
    host.write("proc/net/dev", dev);
    host.write("proc/net/snmp", "Ip: A\nIp: 1\nTcp: ActiveOpens PassiveOpens CurrEstab InSegs OutSegs RetransSegs OutRsts\nTcp: 10 20 5 1000 2000 30 4\n");
    host.write(
        "proc/net/netstat",
        "TcpExt: ListenOverflows ListenDrops\nTcpExt: 7 9\nIpExt: InOctets\nIpExt: 5\n",
    );
    let mut network = host.open(&KIND, &[]);
    network.read();
    host.write("proc/net/dev", dev.replacen("3193      29    0    0", "5193      49    1    2", 1));
    host.replace("proc/net/snmp", "10 20 5 1000 2000 30 4", "12 26 8 1400 2600 34 4");
    host.replace("proc/net/netstat", "7 9", "17 21");
    network.read_after(2 * model::SECOND);
    insta::assert_snapshot!(network.present(), @r"
    network.tcp_established_connections 8
    network.received_bytes_per_s{lo} 1000
    network.received_packets_per_s{lo} 10
    network.receive_errors_per_s{lo} 0.5
    network.receive_drops_per_s{lo} 1
    network.sent_bytes_per_s{lo} 0
    network.sent_packets_per_s{lo} 0
    network.send_errors_per_s{lo} 0
    network.send_drops_per_s{lo} 0
    network.tcp_active_opens_per_s 1
    network.tcp_passive_opens_per_s 3
    network.tcp_received_segments_per_s 200
    network.tcp_sent_segments_per_s 300
    network.tcp_retransmitted_segments_per_s 2
    network.tcp_sent_resets_per_s 0
    network.tcp_listen_overflows_per_s 5
    network.tcp_listen_drops_per_s 6
    network.softnet_drops_per_s 0
    network.softnet_squeezes_per_s 0
    ");
}

#[test]
fn a_long_count_may_touch_the_colon_and_an_interface_may_go() {
    let host = Host::copy_of("no-psi");
    let mut network = host.open(&KIND, &[]);
    network.read();
    host.replace("proc/net/dev", "eth0:4294967296", "eth0:4294968296");
    network.read();
    assert_eq!(network.get("network.received_bytes_per_s", "eth0"), Some(1000.0));
    assert_eq!(network.get("network.tcp_sent_segments_per_s", ""), None, "this host has no snmp file");
    let dev = host.text("proc/net/dev");
    host.write("proc/net/dev", dev.replace("eth0", "eth1"));
    network.read();
    assert_eq!(network.instances("network.received_bytes_per_s"), [""; 0]);
    network.read();
    assert_eq!(network.instances("network.received_bytes_per_s"), ["eth1"]);
}

#[test]
fn titled_pairs_and_hexadecimal_columns() {
    let text = b"TcpExt: A B\nTcpExt: 1 2\nTcp: C D\nTcp: -1 4\n";
    assert_eq!(titled(text, b"Tcp:", [b"D", b"C", b"E"]), [Some(4), None, None]);
    assert_eq!(titled(b"Tcp: D\n", b"Tcp:", [b"D"]), [None]);
    assert_eq!(
        softnet(b"00000006 0000000a 00000001 0\n00000006 00000001 00000010 0\n"),
        [Some(11), Some(17)]
    );
    assert_eq!(softnet(b"zz zz\n"), [None, None]);
}
