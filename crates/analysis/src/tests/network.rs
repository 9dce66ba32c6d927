//! Doubts about what a load reached over the network.

use model::{DoubtKind, Level};

use crate::result;
use crate::simulate::{Simulated, single};

#[test]
fn what_a_load_reached_is_a_reason_for_doubt() {
    let (count, text) = (Level::Count, |text: &str| Level::Text(text.into()));
    let cases = [
        (vec![("tls.insecure", Level::Flag(true))], Some((DoubtKind::Unverified, "was not verified"))),
        (
            vec![("machine.b.tls.insecure", Level::Flag(true))],
            Some((DoubtKind::Unverified, "was not verified")),
        ),
        (
            vec![("responses.unsolicited", count(3))],
            Some((DoubtKind::Unsolicited, "sent 3 responses without a request")),
        ),
        (
            vec![("responses.unexpected", count(1))],
            Some((DoubtKind::Unsolicited, "sent 1 response without a request")),
        ),
        (
            vec![("responses.without_close_notify", count(2))],
            Some((DoubtKind::Incomplete, "2 responses had no length")),
        ),
        (
            vec![("search.succeeded", count(40)), ("search.without_entries", count(40))],
            Some((DoubtKind::NothingFound, "no search found an entry")),
        ),
        (
            vec![("search.succeeded", count(4000)), ("search.without_entries", count(80))],
            Some((DoubtKind::NothingFound, "80 of 4,000 searches found no entry")),
        ),
        (vec![("search.succeeded", count(4000)), ("search.without_entries", count(30))], None),
        (vec![("search.succeeded", count(4000)), ("search.without_entries", count(0))], None),
        (
            vec![("address.left_out", text("10.0.0.3:80 (connection refused)"))],
            Some((DoubtKind::LeftOut, "got no load: 10.0.0.3:80 (connection refused)")),
        ),
        (
            vec![
                ("address.connections.10.0.0.1:80", count(1)),
                ("address.connections.10.0.0.2:80", count(0)),
            ],
            Some((DoubtKind::LeftOut, "no load went to 10.0.0.2:80")),
        ),
        (vec![("address.connections.10.0.0.1:80", count(1)), ("connections.lost_idle.408", count(9))], None),
    ];
    for (facts, expected) in cases {
        let mut study = single(&Simulated::closed_disk(32, 0.0163, 0.003));
        for (name, level) in &facts {
            study.runs[0].run.facts.insert((*name).into(), level.clone());
        }
        let document = result(&study);
        let kinds = [
            DoubtKind::Unverified,
            DoubtKind::Unsolicited,
            DoubtKind::Incomplete,
            DoubtKind::NothingFound,
            DoubtKind::LeftOut,
        ];
        let mut found = document.trials[0].doubts.iter().filter(|doubt| kinds.contains(&doubt.kind));
        match (found.next(), expected) {
            (None, None) => {}
            (Some(doubt), Some((kind, words))) => {
                assert!(doubt.kind == kind && doubt.text.contains(words), "{doubt:?}");
            }
            other => panic!("{facts:?}: {other:?}"),
        }
        assert!(found.next().is_none(), "{facts:?}");
    }
}
