//! What a directory server or a client sends.

use ldap::controls::{PagedResults, SyncDone, SyncInfo, SyncRequest, SyncState};
use ldap::message::{Frame, List, Message, frame, request, scan};
use ldap::template::{ID_MIN, RequestWriter, Template, slot};

/// Values that are the characters of their slots: a request with them is the operation itself.
fn slots(template: &Template) -> Vec<String> {
    let most = template.slots().iter().max().map_or(0, |slot| slot + 1);
    (0..most).map(|number| slot(number).to_string()).collect()
}

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    // What is scanned need not be whole, nor be a message.
    let scanned = scan(bytes, 1 << 16);
    let Ok(Frame::Whole(length)) = frame(bytes, 1 << 16) else { return };
    let bytes = &bytes[..length];
    let Ok(message) = Message::decode(bytes) else { return };
    let seen = scanned.expect("what can be decoded can be scanned").expect("it is whole");
    let _ = request(bytes);
    let result = message.operation.result();
    assert_eq!((seen.id, seen.code), (message.id, result.map(|result| result.code)));
    for cut in 0..length {
        if let Ok(Some(part)) = scan(&bytes[..cut], 1 << 16) {
            assert_eq!(part, seen);
        }
    }
    let controls: Vec<_> = message.controls.iter().collect();
    if let Ok(template) = Template::new(&message.operation, &controls) {
        let values = slots(&template);
        let mut written = Vec::new();
        RequestWriter::default().write(&template, ID_MIN, |slot| values[slot].as_bytes(), &mut written);
        let mut encoded = Vec::new();
        Message { id: ID_MIN, operation: message.operation, controls: List::from(&controls) }
            .encode(&mut encoded);
        assert_eq!(written, encoded);
    }
    assert!(!format!("{message:?}").is_empty());
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(Message::decode(&again), Ok(message));
    for value in message.controls.iter().filter_map(|control| control.value) {
        let _ = (
            PagedResults::decode(value),
            SyncRequest::decode(value),
            SyncState::decode(value),
            SyncDone::decode(value),
        );
        if let Ok(info) = SyncInfo::decode(value) {
            let mut again = Vec::new();
            info.encode(&mut again);
            assert_eq!(SyncInfo::decode(&again), Ok(info));
        }
    }
}
