//! Sentences about a capture.

use model::quantity::thousands;
use model::wire::{MissedKind, WireAgainst, WireAgainstKind, WireDocument, WireMissed};

use crate::text::{Quantity, date, per_s, percent, time_ms, time_s};

fn bytes(value: u64) -> String {
    Quantity::Bytes.show(value as f64)
}

/// `1 packet`, `1,234 packets`.
pub(super) fn count(number: u64, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{} {word}s", thousands(number as f64)),
    }
}

/// What was captured.
pub(super) fn facts(document: &WireDocument) -> Vec<String> {
    let capture = &document.capture;
    let mut facts =
        vec![format!("{}, {}", capture.format, bytes(capture.bytes)), count(capture.packets, "packet")];
    if capture.packets > 0 {
        facts.push(format!("{} from {}", time_s(capture.seconds), date(capture.begin_unix_ns)));
    }
    if !document.condition.is_empty() {
        facts.push(format!("operations with {}", document.condition));
    }
    facts
}

/// How many operations there are, how many failed, and how many are slow.
pub(super) fn summary(document: &WireDocument) -> Vec<String> {
    let sum = |of: fn(&model::wire::WireKind) -> u64| document.kinds.iter().map(of).sum::<u64>();
    let (operations, failed) = (sum(|kind| kind.operations), sum(|kind| kind.failed));
    let mut sentences = Vec::new();
    if operations == 0 {
        let why = match (document.not_selected, document.connections.count) {
            (1.., _) => format!("None of {} meets the condition.", count(document.not_selected, "operation")),
            (0, 0) => "The capture has no connection of LDAP or HTTP. Name the port of the server, such as --decode \
                       3389=ldap."
                .into(),
            (0, _) => "The capture has no complete operation of LDAP or HTTP.".into(),
        };
        sentences.push(why);
    } else {
        let rate = match document.capture.seconds > 0.0 {
            true => format!(", {}", per_s(operations as f64 / document.capture.seconds)),
            false => String::new(),
        };
        let failures = match failed {
            0 => "none failed".to_string(),
            failed => format!(
                "{} failed ({})",
                thousands(failed as f64),
                percent(failed as f64 / operations as f64)
            ),
        };
        sentences.push(format!("{}{rate}; {failures}.", count(operations, "operation")));
        if document.not_selected > 0 {
            sentences.push(format!(
                "{} do not meet the condition.",
                count(document.not_selected, "other operation")
            ));
        }
    }
    if let Some(slow_ms) = document.slow_ms {
        let timed: u64 =
            document.kinds.iter().filter_map(|kind| kind.response_ms).map(|times| times.count).sum();
        let slow = sum(|kind| kind.slow.unwrap_or(0));
        if timed > 0 {
            sentences.push(format!(
                "{} of {} with a response ({}) took longer than {}.",
                thousands(slow as f64),
                count(timed, "operation"),
                percent(slow as f64 / timed as f64),
                time_ms(slow_ms)
            ));
        }
    }
    sentences
}

/// The state of the connections.
pub(super) fn connections(document: &WireDocument) -> Vec<String> {
    let of = &document.connections;
    let mut first = count(of.count, "connection");
    if of.begun_before > 0 {
        first.push_str(&format!(", {} of them without their begin", thousands(of.begun_before as f64)));
    }
    let mut sentences = vec![first + "."];
    if let Some(handshake) = of.handshake_ms {
        let ack = of.handshake_ack_ms.map_or(String::new(), |ack| {
            format!("; SYN/ACK to ACK: median {}, largest {}", time_ms(ack.p50), time_ms(ack.max))
        });
        sentences.push(format!(
            "SYN to SYN/ACK: median {}, largest {}{ack}.",
            time_ms(handshake.p50),
            time_ms(handshake.max)
        ));
    }
    let counts = [
        (of.retransmissions, "retransmission"),
        (of.out_of_order, "segment out of order"),
        (of.resets, "reset"),
        (of.zero_windows, "zero window"),
    ];
    let trouble: Vec<String> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| match *word {
            "segment out of order" if *number != 1 => {
                format!("{} segments out of order", thousands(*number as f64))
            }
            word => count(*number, word),
        })
        .collect();
    sentences.push(match trouble.is_empty() {
        true => "No retransmission, reset or zero window.".into(),
        false => format!("{}.", trouble.join(", ")),
    });
    sentences
}

/// What was missed, with the gaps of connections and an error of the file.
pub(super) fn missed(document: &WireDocument) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(error) = &document.capture.error {
        sentences.push(format!("Everything after byte {}: {}.", thousands(error.offset as f64), error.what));
    }
    if document.connections.gaps > 0 {
        sentences.push(format!(
            "{} of TCP streams were not captured: {}. Capture on one host with a larger buffer (tcpdump -B 65536).",
            bytes(document.connections.gap_bytes),
            count(document.connections.gaps, "gap")
        ));
    }
    sentences.extend(missed_each(document));
    let dropped: Vec<&str> = document
        .rankings
        .iter()
        .filter(|ranking| ranking.dropped > 0)
        .map(|ranking| super::tables::property(ranking.by))
        .collect();
    if !dropped.is_empty() {
        sentences.push(format!(
            "There are too many different values ({}): those with the least total time were dropped, and their counts are \
             too low.",
            dropped.join(", ")
        ));
    }
    sentences
}

/// A sentence for each kind of what was missed.
pub(super) fn missed_each(document: &WireDocument) -> Vec<String> {
    document.missed.iter().map(|missed| sentence(*missed)).collect()
}

fn sentence(missed: WireMissed) -> String {
    let WireMissed { kind, count: number, bytes: size } = missed;
    let things = |word: &str| count(number, word);
    let size = bytes(size);
    match kind {
        MissedKind::Dropped => format!(
            "{} dropped while capturing: counts and times are incomplete. Use a larger buffer (tcpdump -B 65536) or a \
             shorter snap length.",
            things("packet")
        ),
        MissedKind::TruncatedPackets => format!(
            "{} captured only in part, without {size}: requests may lack their filter. Capture whole packets with \
             tcpdump -s 0.",
            things("packet")
        ),
        MissedKind::SkippedBytes => format!("{size} skipped until the next message, at {}.", things("place")),
        MissedKind::UnansweredRequests => format!("{} without a response in the capture.", things("request")),
        MissedKind::ResponsesWithoutRequest => {
            format!("{} whose request was not captured.", things("response"))
        }
        MissedKind::Tls => format!("{} encrypted by TLS, {size}: not analysed.", things("connection")),
        MissedKind::StartTls => format!(
            "{} encrypted by TLS after StartTLS, {size}: only analysed before it.",
            things("connection")
        ),
        MissedKind::SaslLayer => {
            format!("{} encrypted after a SASL bind, {size}: only analysed before it.", things("connection"))
        }
        MissedKind::Http2 => format!("{} of HTTP/2: not analysed.", things("connection")),
        MissedKind::Tunnel => {
            format!("{} that changed the protocol, {size}: only analysed before it.", things("connection"))
        }
        MissedKind::OtherConnections => format!(
            "{} without LDAP or HTTP, {size}. If one has LDAP, name its port: --decode 3389=ldap.",
            things("connection")
        ),
        MissedKind::UnknownMessages => format!("{} of an unknown type, {size}.", things("LDAP message")),
        MissedKind::Unsolicited => format!("{} of servers without a request.", things("notification")),
        MissedKind::Abandoned => format!("{} abandoned by the client.", things("request")),
        MissedKind::Fragments => format!("{} of IP packets, {size}: not analysed.", things("fragment")),
        MissedKind::OtherPackets => format!("{} of other protocols than TCP, {size}.", things("packet")),
        MissedKind::OtherLinks => format!(
            "{} of a link type that is not supported, {size}: capture on an Ethernet, loopback or `any` interface.",
            things("packet")
        ),
        MissedKind::InvalidPackets => {
            format!("{} with incomplete or invalid headers, {size}.", things("packet"))
        }
        MissedKind::WithoutTime => {
            format!("{} without a time: they count at the time of the packet before.", things("packet"))
        }
        MissedKind::BackInTime => format!(
            "{} earlier than the packet before: response times may be too short. Sort the file with reordercap.",
            things("packet")
        ),
        MissedKind::ConnectionLimit => format!(
            "{} forgotten, because more than 65,536 were open: the longest idle ones.",
            things("connection")
        ),
        MissedKind::OutstandingLimit => format!(
            "{} forgotten, because too many waited for a response at the same time.",
            things("request")
        ),
        MissedKind::MemoryLimit => format!(
            "{} of messages or requests not stored, {size}: the limit of 64 MiB for all connections was reached.",
            things("part")
        ),
        MissedKind::OutsideRun => format!(
            "{} outside the measured phase of the run, or of another server: not counted.",
            things("operation")
        ),
    }
}

/// What the comparison with a run shows.
pub(super) fn against(against: &WireAgainst) -> Vec<String> {
    let mut sentences = Vec::new();
    if against.covered < 0.999 {
        sentences.push(format!(
            "The capture covers {} of the measured phase: begin the capture before the load and end it afterwards.",
            percent(against.covered)
        ));
    }
    for kind in &against.kinds {
        let (client, wire) = (kind.client_count, kind.wire_count);
        let both = format!(
            "{}: {} at the client, {} on the wire",
            kind.kind,
            count(client, "operation"),
            thousands(wire as f64)
        );
        let difference = client.abs_diff(wire) as f64 / client.max(1) as f64;
        sentences.push(match kind.counts_agree {
            true if difference <= 0.01 => format!("{both}: the counts agree within 1 %."),
            true => format!("{both}: the counts agree but for operations at the ends of the phase."),
            false => {
                let difference = percent(difference);
                let why = match wire < client {
                    true => "The capture is incomplete, or the load used other connections.",
                    false => "Other clients used the server, or the client did not count all operations.",
                };
                format!("{both}: the counts differ by {difference}. {why}")
            }
        });
        sentences.extend(time_difference(kind));
    }
    sentences
}

/// The time of an operation that is not on the wire.
fn time_difference(kind: &WireAgainstKind) -> Option<String> {
    if kind.client_count == 0 || kind.wire_count == 0 {
        return None;
    }
    let part = |name: &str, client: f64, wire: f64| match client >= wire {
        true => format!(
            "{name} {} at the client, {} on the wire: {} in the client and its kernel",
            time_ms(client),
            time_ms(wire),
            time_ms(client - wire)
        ),
        false => format!(
            "{name} {} at the client, {} on the wire: the wire is slower by {}, so these are not the same operations",
            time_ms(client),
            time_ms(wire),
            time_ms(wire - client)
        ),
    };
    Some(format!(
        "{}: {}; {}.",
        kind.kind,
        part("p50", kind.client_ms.p50, kind.wire_ms.p50),
        part("p99", kind.client_ms.p99, kind.wire_ms.p99)
    ))
}
