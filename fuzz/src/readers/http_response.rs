//! What a web server sends: the first byte says how large the pieces are and whether a HEAD was asked, the rest is what comes.

use workloads::http::response::{Answer, Fault, KnownHead, Progress, ResponseReader};

/// What the bytes are when they come in pieces of this size and the connection ends after them.
fn read(bytes: &[u8], size: usize, of_head: bool) -> Result<Answer, Fault> {
    let mut reader = ResponseReader::default();
    reader.begin(of_head, true);
    let mut fed = 0;
    for piece in bytes.chunks(size) {
        fed += piece.len();
        if let Progress::Whole(answer, unread) = reader.feed(piece, &mut KnownHead::default())? {
            assert_eq!(answer.bytes as usize, fed - unread, "every byte is counted once");
            assert!((200..=999).contains(&answer.status), "{answer:?}");
            return Ok(answer);
        }
    }
    reader.end()
}

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let (size, of_head) = (usize::from(how >> 1) + 1, how & 1 == 1);
    let whole = read(bytes, bytes.len().max(1), of_head);
    assert_eq!(read(bytes, size, of_head), whole, "in pieces of {size}");
}
