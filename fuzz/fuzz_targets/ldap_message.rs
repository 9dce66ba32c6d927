//! What a directory server or a client sends.
#![no_main]

use ldap::controls::{PagedResults, SyncDone, SyncInfo, SyncRequest, SyncState};
use ldap::message::{Frame, Message, frame, request, scan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Frame::Whole(length)) = frame(bytes, 1 << 16) else { return };
    let bytes = &bytes[..length];
    let Ok(message) = Message::decode(bytes) else { return };
    let seen = scan(bytes, bytes.len()).expect("what can be decoded can be scanned").expect("the message is complete");
    let _ = request(bytes);
    let result = message.operation.result();
    assert_eq!((seen.id, seen.code), (message.id, result.map(|result| result.code)));
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
});
