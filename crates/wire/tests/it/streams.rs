//! Segments of any size, in any order, sent again or lost: the operations stay the same, or fewer.

use ldap::ResultCode;
use model::wire::MissedKind;
use plimsoll_wire::{Analysis, Capture, Operation, Protocol, Settings};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::build::{ACK, CLIENT_PORT, Client, Connection, Server, Side, analyse, decode, missed, pcap};
use crate::protocols::{bind, bound, done, entry, search};

/// What one side sends before the other one answers.
type Turn = (Side, Vec<u8>);

/// Searches and binds with their responses, several at a time.
fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let exchange = (vec((any::<bool>(), 0_usize..4, 0_usize..3), 1..5), any::<bool>());
    vec(exchange, 1..5).prop_map(|exchanges| {
        let mut id = 0;
        let mut turns = Vec::new();
        for (requests, is_reversed) in exchanges {
            let (mut sent, mut answers) = (Vec::new(), Vec::new());
            for (is_bind, entries, code) in requests {
                id += 1;
                let code = [ResultCode::Success, ResultCode::NoSuchObject, ResultCode::Busy][code];
                match is_bind {
                    true => {
                        sent.extend(bind(id, "cn=admin"));
                        answers.push(bound(id, code));
                    }
                    false => {
                        sent.extend(search(id, "(&(uid=x)(cn=y))"));
                        answers.push([entry(id).repeat(entries), done(id, code)].concat());
                    }
                }
            }
            if is_reversed {
                answers.reverse();
            }
            turns.push((Client, sent));
            turns.push((Server, answers.concat()));
        }
        turns
    })
}

/// How the bytes of a turn become segments: where they are split, in which order, and which are sent again.
type Cuts = (Vec<prop::sample::Index>, Vec<u32>, Vec<bool>);

fn cuts() -> impl Strategy<Value = Vec<Cuts>> {
    vec((vec(any::<prop::sample::Index>(), 0..12), vec(any::<u32>(), 16), vec(any::<bool>(), 16)), 10)
}

fn captured(turns: &[Turn], cuts: &[Cuts]) -> Vec<(u64, Vec<u8>)> {
    let mut c = Connection::open(CLIENT_PORT, 3389);
    for (at, (side, bytes)) in turns.iter().enumerate() {
        c.at_us += 1000;
        let (splits, order, again) = &cuts[at % cuts.len()];
        let mut borders: Vec<usize> = splits.iter().map(|split| split.index(bytes.len())).collect();
        borders.extend([0, bytes.len()]);
        borders.sort_unstable();
        borders.dedup();
        let mut segments = Vec::new();
        for (part, border) in borders.windows(2).enumerate() {
            let sequence = c.next[*side as usize].wrapping_add(border[0] as u32);
            let packet = c.segment(*side, sequence, ACK, &bytes[border[0]..border[1]]);
            segments.push((order[part % order.len()], packet.clone()));
            if again[part % again.len()] {
                segments.push((order[(part + 5) % order.len()], packet));
            }
        }
        segments.sort_by_key(|(order, _)| *order);
        c.packets.extend(segments.into_iter().map(|(_, packet)| packet));
        c.skip(*side, bytes.len());
    }
    c.packets
}

/// What must not depend on the segments.
fn content(of: &Operation) -> String {
    let result = (of.id, of.kind.name(), of.outcome, of.entries, of.time_ns());
    format!("{result:?} {} {} {} {}", of.request_bytes, of.response_bytes, of.filter_text(), of.name)
}

proptest! {
    // Each case analyses several captures.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn segments_in_any_order_give_the_same_operations(turns in turns(), cuts in cuts()) {
        let settings = decode(3389, Protocol::Ldap);
        let whole = captured(&turns, &[(Vec::new(), vec![0], vec![false])]);
        let (_, expected) = analyse(&pcap(&whole, 65_535), settings.clone());
        let (document, found) = analyse(&pcap(&captured(&turns, &cuts), 65_535), settings);
        let contents = |operations: &[Operation]| operations.iter().map(content).collect::<Vec<_>>();
        prop_assert_eq!(contents(&found), contents(&expected));
        prop_assert_eq!(missed(&document, MissedKind::SkippedBytes), (0, 0));
        prop_assert_eq!(document.connections.gaps, 0);
    }

    #[test]
    fn lost_packets_invent_no_operation(
        turns in turns(),
        cuts in cuts(),
        lost in vec(any::<bool>(), 64),
        snap_length in 40_usize..200,
    ) {
        let settings = decode(3389, Protocol::Ldap);
        let packets = captured(&turns, &cuts);
        let (_, all) = analyse(&pcap(&packets, 65_535), settings.clone());
        let known: Vec<_> = all.iter().map(|of| (of.id, of.kind, of.outcome)).collect();
        let kept: Vec<_> =
            packets.into_iter().enumerate().filter(|(at, _)| !lost[at % lost.len()]).map(|(_, packet)| packet).collect();
        for snap_length in [65_535, snap_length] {
            let (_, found) = analyse(&pcap(&kept, snap_length), settings.clone());
            for operation in &found {
                let content = (operation.id, operation.kind, operation.outcome);
                prop_assert!(known.contains(&content), "{content:?} in {known:?}");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..600), place in any::<prop::sample::Index>()) {
        let _ = Analysis::of(&bytes[..], "", Settings::default(), |_, _| {});
        // Within a real capture, too.
        let mut damaged = include_bytes!("../../fixtures/ldap.pcap").to_vec();
        let at = place.index(damaged.len());
        let length = bytes.len().min(damaged.len() - at).min(30);
        damaged[at..at + length].copy_from_slice(&bytes[..length]);
        if let Ok(mut capture) = Capture::open(&damaged[..]) {
            while let Ok(Some(_)) = capture.packet() {}
        }
        let _ = Analysis::of(&damaged[..], "", decode(18600, Protocol::Ldap), |_, _| {});
    }
}
