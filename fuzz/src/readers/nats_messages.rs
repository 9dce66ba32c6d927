//! What others send on a NATS server: a byte with the kind of message, then an offer, a claim, an answer, the rest of an address, or pieces
//! of a session, each with its length in two bytes before it.

use machines::nats::Place;
use machines::nats::piece::{Inbound, decode, encode};
use machines::nats::talk::{Answer, Claim, Offer, read, write};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((kind, mut rest)) = bytes.split_first() else { return };
    match kind {
        b'o' => {
            if let Some(offer) = read::<Offer>(rest).filter(Offer::is_usable) {
                // What is longer when it is written was shortened by nobody.
                assert!(!offer.id.contains(['.', '*', '>', ' ']));
                assert_eq!(read::<Offer>(&write(&offer)), Some(offer));
            }
        }
        b'c' => {
            if let Some(claim) = read::<Claim>(rest).filter(|claim| claim.check().is_ok()) {
                assert!(
                    !claim.session.contains(['.', '*', '>', ' ']) && !claim.coordinator.contains('\u{1b}')
                );
            }
        }
        b'a' => {
            let _ = read::<Answer>(rest);
        }
        b'n' => {
            if let Ok(place) = std::str::from_utf8(rest)
                .map_err(|_| String::new())
                .and_then(|text| Place::parse(text, false))
            {
                assert!(!place.host.contains('@') && !place.fleet.contains(['.', '*', '>', ' ']));
            }
        }
        _ => {
            let mut inbound = Inbound::default();
            let mut taken = 0;
            while let Some((length, after)) = rest.split_first_chunk::<2>() {
                let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
                let (message, after) = after.split_at(length);
                rest = after;
                if let Ok((number, piece)) = decode(message) {
                    // A text that is not UTF-8 is replaced.
                    let again = decode(&encode(number, &piece)).unwrap();
                    assert_eq!(again, (number, piece));
                }
                let Ok(pieces) = inbound.take(message) else { return };
                taken += pieces.len();
            }
            assert!(taken <= bytes.len());
        }
    }
}
