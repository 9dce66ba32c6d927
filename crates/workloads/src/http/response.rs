//! Parses responses of HTTP/1.1 and 1.0 incrementally (RFC 9112), without socket or clock: bytes in,
//! responses out. Bodies are counted, not kept.

use std::mem::MaybeUninit;

use httparse::{Error, Header, ParserConfig, Response, Status};

/// The longest head, and the longest sum of trailers, that is read.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Most header fields of a response.
pub const FIELDS_MAX: usize = 128;

/// The longest response, as an operation's bytes are counted in 32 bits.
pub const RESPONSE_BYTES_MAX: u64 = u32::MAX as u64;

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status, 200 to 999.
    pub status: u16,
    /// Whether the server allows another request on the connection.
    pub persistent: bool,
    /// Bytes of heads, body, chunk framing and trailers.
    pub bytes: u32,
    /// Bytes of these after the head.
    pub body_bytes: u32,
}

/// The progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is incomplete.
    More,
    /// It is complete. The second value is the number of unexpected bytes after its end.
    Whole(Answer, usize),
}

/// Why a response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The status line or a header field is not HTTP.
    Head,
    /// The head has more than [`HEAD_BYTES_MAX`] bytes or [`FIELDS_MAX`] fields.
    HeadTooLong,
    /// `Content-Length` is not a number, or has several values.
    Length,
    /// The size or the end of a chunk is invalid.
    Chunk,
    /// More than [`RESPONSE_BYTES_MAX`] bytes.
    TooLong,
    /// `101 Switching Protocols`, which was not requested.
    Switch,
    /// The connection ended before the response did.
    ClosedEarly,
    /// Bytes follow the end of the response.
    Trailing,
}

impl Fault {
    /// All faults; the index is the code in a record.
    pub const ALL: [Fault; 8] = [
        Fault::Head,
        Fault::HeadTooLong,
        Fault::Length,
        Fault::Chunk,
        Fault::TooLong,
        Fault::Switch,
        Fault::ClosedEarly,
        Fault::Trailing,
    ];

    /// Its description, as a fragment.
    pub fn words(self) -> &'static str {
        match self {
            Fault::Head => "malformed: no HTTP status line and header fields",
            Fault::HeadTooLong => "malformed: more than 64 KiB or 128 header fields",
            Fault::Length => "malformed: Content-Length is not one number",
            Fault::Chunk => "malformed: a chunk's size or end",
            Fault::TooLong => "response of more than 4 GiB",
            Fault::Switch => "malformed: 101 Switching Protocols, which was not requested",
            Fault::ClosedEarly => "closed early, in the middle of a response",
            Fault::Trailing => "malformed: bytes follow the end of the response",
        }
    }
}

/// The parser state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// This many bytes of body remain.
    Length(u64),
    UntilClose,
    Chunked(Chunk),
    Whole,
}

/// The parser state in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// A digit of the size, after this many.
    Size(u64, u8),
    Extension,
    SizeEnd(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// The first byte of a trailer line, or of the empty line at the end.
    Line,
    Trailer,
    LastLf,
}

/// Reads one response after another.
#[derive(Debug)]
pub struct ResponseReader {
    state: State,
    /// The received part of an incomplete head.
    head: Vec<u8>,
    bytes: u64,
    /// Bytes up to the end of the last head.
    head_bytes: u64,
    /// Bytes of the present chunk's line, or of all trailers.
    line_bytes: usize,
    /// The size of the chunk whose extension is skipped.
    chunk_bytes: u64,
    status: u16,
    persistent: bool,
    of_head: bool,
    wants_server: bool,
    server: Option<String>,
    /// The first bytes of the body, if the server header is requested.
    beginning: Vec<u8>,
    keep: Keep,
    /// The last head, if it is kept.
    kept_head: Vec<u8>,
    /// The body without transfer coding, up to the limit.
    kept_body: Vec<u8>,
}

/// The last parsed head of any connection, and its meaning: a server often repeats it, byte for byte, until the second in its
/// Date changes.
#[derive(Debug, Default)]
pub struct KnownHead {
    /// Empty if there is none.
    bytes: Vec<u8>,
    of_head: bool,
    status: u16,
    state: State,
    persistent: bool,
}

/// The longest head that is remembered.
const KNOWN_BYTES_MAX: usize = 1024;

/// What is kept of a response. Everything else is only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The header fields.
    pub fields: bool,
    /// Bytes of the body.
    pub body_bytes_max: usize,
}

/// Number of bytes at the beginning of a body that are inspected.
pub(super) const BEGINNING_BYTES: usize = 100;

impl Default for ResponseReader {
    fn default() -> Self {
        ResponseReader {
            state: State::Head,
            head: Vec::new(),
            bytes: 0,
            head_bytes: 0,
            line_bytes: 0,
            chunk_bytes: 0,
            status: 0,
            persistent: false,
            of_head: false,
            wants_server: false,
            server: None,
            beginning: Vec::new(),
            keep: Keep::default(),
            kept_head: Vec::new(),
            kept_body: Vec::new(),
        }
    }
}

impl ResponseReader {
    /// Resets the reader. `of_head`: the request was a HEAD, whose response has no body;
    /// `wants_server`: keep the field `Server`.
    pub fn begin(&mut self, of_head: bool, wants_server: bool) {
        self.state = State::Head;
        self.head.clear();
        self.bytes = 0;
        self.head_bytes = 0;
        self.of_head = of_head;
        self.wants_server = wants_server;
        self.beginning.clear();
        self.keep = Keep::default();
        self.kept_head.clear();
        self.kept_body.clear();
    }

    /// What to keep of the response that begins.
    pub fn keep(&mut self, keep: Keep) {
        self.keep = keep;
    }

    /// The header fields, if they are kept.
    pub fn kept_fields(&self) -> Vec<(&str, &[u8])> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = Response::new(&mut fields);
        // It was parsed before.
        if self.keep.fields {
            let _ = head.parse(&self.kept_head);
        }
        let fields = head.headers.iter().map(|field| (field.name, field.value));
        fields.filter(|(name, _)| !name.is_empty()).collect()
    }

    /// The kept bytes of the body.
    pub fn kept_body(&self) -> &[u8] {
        &self.kept_body
    }

    fn keep_body(&mut self, bytes: &[u8]) {
        let room = self.keep.body_bytes_max.saturating_sub(self.kept_body.len());
        self.kept_body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Whether any byte was received.
    pub fn has_begun(&self) -> bool {
        self.bytes > 0
    }

    /// The field `Server`, if it was requested and present.
    pub fn take_server(&mut self) -> Option<String> {
        self.server.take()
    }

    /// The word for a failure at the beginning of the body, if it was kept.
    pub fn failure_word(&self) -> Option<&'static str> {
        failure_word(&self.beginning)
    }

    /// Parses the next bytes of the connection. A head that is `known` is not parsed again.
    pub fn feed(&mut self, piece: &[u8], known: &mut KnownHead) -> Result<Progress, Fault> {
        let mut rest = piece;
        while !rest.is_empty() && self.state != State::Whole {
            let in_head = self.state == State::Head;
            if !in_head && self.wants_server {
                let room = BEGINNING_BYTES.saturating_sub(self.beginning.len());
                self.beginning.extend(rest.iter().take(room));
            }
            let taken = match self.state {
                State::Head => self.take_head(rest, known)?,
                State::Length(left) => {
                    let taken = left.min(rest.len() as u64);
                    self.keep_body(&rest[..taken as usize]);
                    self.state = State::of_length(left - taken);
                    taken as usize
                }
                State::Chunked(chunk) => self.take_chunks(chunk, rest)?,
                State::UntilClose | State::Whole => {
                    self.keep_body(rest);
                    rest.len()
                }
            };
            self.bytes += taken as u64;
            if in_head {
                self.head_bytes = self.bytes;
            }
            if self.bytes > RESPONSE_BYTES_MAX {
                return Err(Fault::TooLong);
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(match self.state {
            State::Whole => Progress::Whole(self.answer(), rest.len()),
            _ => Progress::More,
        })
    }

    /// The connection has ended: without another length, this is the end of the body.
    pub fn end(&mut self) -> Result<Answer, Fault> {
        match self.state {
            State::UntilClose | State::Whole => {
                self.state = State::Whole;
                Ok(self.answer())
            }
            State::Head | State::Length(_) | State::Chunked(_) => Err(Fault::ClosedEarly),
        }
    }

    fn answer(&self) -> Answer {
        Answer {
            status: self.status,
            persistent: self.persistent,
            bytes: self.bytes as u32,
            body_bytes: (self.bytes - self.head_bytes) as u32,
        }
    }

    /// Parses bytes of a head: all of them while it is incomplete.
    fn take_head(&mut self, piece: &[u8], known: &mut KnownHead) -> Result<usize, Fault> {
        let before = self.head.len();
        if before == 0 {
            let piece = &piece[..piece.len().min(HEAD_BYTES_MAX)];
            return match self.read_head(piece, known)? {
                Some(bytes) => Ok(bytes),
                None => {
                    self.head.extend_from_slice(piece);
                    Ok(piece.len())
                }
            };
        }
        let piece = &piece[..piece.len().min(HEAD_BYTES_MAX - before)];
        let mut head = std::mem::take(&mut self.head);
        head.extend_from_slice(piece);
        let read = self.read_head(&head, known);
        if let Ok(Some(_)) = read {
            head.clear();
        }
        self.head = head;
        Ok(read?.map_or(piece.len(), |bytes| bytes.saturating_sub(before)))
    }

    /// Parses a head, if it is complete, and sets the next state. Returns its length.
    fn read_head(&mut self, bytes: &[u8], known: &mut KnownHead) -> Result<Option<usize>, Fault> {
        let is_known = !known.bytes.is_empty() && bytes.starts_with(&known.bytes);
        if is_known && known.of_head == self.of_head && !self.wants_server {
            (self.status, self.state, self.persistent) = (known.status, known.state, known.persistent);
            self.line_bytes = 0;
            if self.keep.fields {
                self.kept_head.clone_from(&known.bytes);
            }
            return Ok(Some(known.bytes.len()));
        }
        let length = self.parse_head(bytes)?;
        known.bytes.clear();
        if let Some(length) = length.filter(|length| *length <= KNOWN_BYTES_MAX && self.state != State::Head)
        {
            known.bytes.extend_from_slice(bytes.get(..length).unwrap_or_default());
            (known.of_head, known.status) = (self.of_head, self.status);
            (known.state, known.persistent) = (self.state, self.persistent);
        }
        Ok(length)
    }

    /// The same of a head that is not known.
    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
        let mut response = Response::new(&mut []);
        let parsed =
            ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
        let length = match parsed {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(Status::Partial) | Err(Error::TooManyHeaders) => return Err(Fault::HeadTooLong),
            Err(_) => return Err(Fault::Head),
        };
        let status = response.code.unwrap_or(0);
        if status < 200 {
            // Interim responses may precede the final one.
            return if status >= 100 && status != 101 {
                Ok(Some(length))
            } else if status == 101 {
                Err(Fault::Switch)
            } else {
                Err(Fault::Head)
            };
        }
        self.status = status;
        if self.keep.fields {
            self.kept_head.clear();
            self.kept_head.extend_from_slice(bytes.get(..length).unwrap_or_default());
        }
        let mut content_length = None;
        // Whether the last transfer coding is `chunked`; none without any.
        let mut chunked = None;
        let (mut close, mut keep_alive) = (false, false);
        for field in response.headers.iter() {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                14 if is("content-length") => {
                    for part in parts(field.value) {
                        let value = number(part).ok_or(Fault::Length)?;
                        if content_length.replace(value).is_some_and(|before| before != value) {
                            return Err(Fault::Length);
                        }
                    }
                }
                17 if is("transfer-encoding") => {
                    chunked = parts(field.value).last().map(|coding| coding.eq_ignore_ascii_case(b"chunked"));
                }
                10 if is("connection") => {
                    for option in parts(field.value) {
                        close |= option.eq_ignore_ascii_case(b"close");
                        keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                6 if self.wants_server && is("server") => {
                    self.server = Some(String::from_utf8_lossy(field.value).into_owned());
                }
                _ => {}
            }
        }
        // RFC 9112 section 6.3, in its order.
        self.state = if self.of_head || matches!(status, 204 | 304) {
            State::Whole
        } else {
            match (chunked, content_length) {
                (Some(true), _) => State::Chunked(Chunk::Size(0, 0)),
                (Some(false), _) | (None, None) => State::UntilClose,
                (None, Some(length)) => State::of_length(length),
            }
        };
        self.line_bytes = 0;
        // Section 9.3; a length beside a coding is an attempt at smuggling, or a server that is out of step.
        let says_on = if response.version == Some(1) { !close } else { keep_alive && !close };
        self.persistent =
            says_on && self.state != State::UntilClose && !(chunked.is_some() && content_length.is_some());
        Ok(Some(length))
    }

    /// Parses bytes of a chunked body (section 7.1) up to its end.
    fn take_chunks(&mut self, mut chunk: Chunk, piece: &[u8]) -> Result<usize, Fault> {
        let mut at = 0;
        while let Some(&byte) = piece.get(at) {
            if let Chunk::Data(left) = chunk {
                let taken = left.min((piece.len() - at) as u64);
                self.keep_body(&piece[at..at + taken as usize]);
                at += taken as usize;
                chunk = if left == taken { Chunk::DataCr } else { Chunk::Data(left - taken) };
                continue;
            }
            at += 1;
            self.line_bytes += 1;
            if self.line_bytes > HEAD_BYTES_MAX {
                return Err(Fault::Chunk);
            }
            chunk = match (chunk, byte) {
                (Chunk::Size(size, digits @ 0..16), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                    let digit = char::from(byte).to_digit(16).unwrap_or(0);
                    Chunk::Size(size << 4 | u64::from(digit), digits + 1)
                }
                (Chunk::Size(size, 1..), b'\r') => Chunk::SizeEnd(size),
                (Chunk::Size(size, 1..), b';' | b' ' | b'\t') => {
                    self.chunk_bytes = size;
                    Chunk::Extension
                }
                (Chunk::Extension, b'\r') => Chunk::SizeEnd(self.chunk_bytes),
                (Chunk::Extension, byte) if byte != b'\n' => Chunk::Extension,
                (Chunk::SizeEnd(0), b'\n') => {
                    self.line_bytes = 0;
                    Chunk::Line
                }
                (Chunk::SizeEnd(size), b'\n') => Chunk::Data(size),
                (Chunk::DataCr, b'\r') => Chunk::DataLf,
                (Chunk::DataLf, b'\n') => {
                    self.line_bytes = 0;
                    Chunk::Size(0, 0)
                }
                (Chunk::Line, b'\r') => Chunk::LastLf,
                (Chunk::Trailer, b'\n') => Chunk::Line,
                (Chunk::Line | Chunk::Trailer, byte) if byte != b'\n' => Chunk::Trailer,
                (Chunk::LastLf, b'\n') => {
                    self.state = State::Whole;
                    return Ok(at);
                }
                _ => return Err(Fault::Chunk),
            };
        }
        self.state = State::Chunked(chunk);
        Ok(at)
    }
}

/// The status of a response that begins with these bytes; 0 if they are no response.
pub(super) fn status_of(bytes: &[u8]) -> u16 {
    let mut response = Response::new(&mut []);
    match response.parse(bytes) {
        Ok(_) | Err(Error::TooManyHeaders) => response.code.unwrap_or(0),
        Err(_) => 0,
    }
}

/// Whether these bytes are a response with which a server ends an idle connection: it says that it closes it, and that no
/// request came in time (408), or none that it understood (400).
pub(super) fn ends_idle(bytes: &[u8]) -> Option<u16> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = Response::new(&mut fields);
    let is_whole = matches!(response.parse(bytes), Ok(Status::Complete(_)));
    let status = response.code.filter(|status| is_whole && matches!(status, 400 | 408))?;
    let mut options = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
    let closes = options.any(|field| parts(field.value).any(|option| option.eq_ignore_ascii_case(b"close")));
    (closes || response.version == Some(0)).then_some(status)
}

/// The word for a failure at the beginning of a body, if any: some servers report failures with a status of success.
pub(super) fn failure_word(beginning: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(beginning).to_ascii_lowercase();
    ["error", "exception", "failure", "unavailable"].into_iter().find(|word| text.contains(word))
}

impl State {
    fn of_length(bytes: u64) -> State {
        if bytes == 0 { State::Whole } else { State::Length(bytes) }
    }
}

/// The parts of a list with commas, without the empty ones.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// A number that consists only of decimal digits.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, whether the connection goes on, and bytes of the response; or why not.
    type Outcome = Result<(u16, bool, usize), Fault>;

    /// Feeds pieces until the response is whole; then the connection ends.
    fn read<'a>(of_head: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        read_next(&mut (ResponseReader::default(), KnownHead::default()), of_head, pieces)
    }

    /// The same with a reader that may have read others.
    fn read_next<'a>(
        (reader, known): &mut (ResponseReader, KnownHead),
        of_head: bool,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Outcome {
        reader.begin(of_head, false);
        let mut fed = 0;
        for piece in pieces {
            fed += piece.len();
            if let Progress::Whole(whole, unread) = reader.feed(piece, known)? {
                assert_eq!(whole.bytes as usize, fed - unread);
                return Ok((whole.status, whole.persistent, fed - unread));
            }
        }
        reader.end().map(|whole| (whole.status, whole.persistent, whole.bytes as usize))
    }

    /// Responses, and what they are; instead of the length, how many bytes come after the end.
    const CASES: &[(&str, Outcome)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Ok((200, true, 0))),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhiHTTP/1.1", Ok((200, true, 8))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Ok((200, true, 0))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n", Ok((200, false, 0))),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", Ok((200, false, 0))),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", Ok((200, true, 0))),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Ok((200, true, 0))),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", Ok((200, false, 0))),
        ("HTTP/1.1 204 None\r\nContent-Length: 9\r\n\r\n", Ok((204, true, 0))),
        ("HTTP/1.1 304 Same\r\n\r\n", Ok((304, true, 0))),
        ("HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 1\r\n\r\nx", Ok((503, true, 0))),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Ok((200, true, 0))),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\nA;a=\"b\"\r\n0123456789\r\n00\r\nT: 1\r\n\r\n",
            Ok((200, true, 0)),
        ),
        // A length beside chunks: read as chunks, and the connection is not used again.
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            Ok((200, false, 0)),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxyz", Ok((200, false, 0))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", Ok((200, true, 0))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Err(Fault::ClosedEarly)),
        ("HTTP/1.1 200 OK\r\nContent-Le", Err(Fault::ClosedEarly)),
        ("", Err(Fault::ClosedEarly)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", Err(Fault::ClosedEarly)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Err(Fault::Length)),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Err(Fault::Length)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n", Err(Fault::Length)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", Err(Fault::Chunk)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", Err(Fault::Chunk)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", Err(Fault::Chunk)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nab", Err(Fault::Chunk)),
        ("HTTP/1.1 101 Other\r\n\r\n", Err(Fault::Switch)),
        ("HTTP/1.1 099 Odd\r\n\r\n", Err(Fault::Head)),
        ("HTTP/1.1 2x0 OK\r\n\r\n", Err(Fault::Head)),
        ("HTTP/2 200\r\n\r\n", Err(Fault::Head)),
        ("SSH-2.0-server\r\n", Err(Fault::Head)),
        ("\0\0\0\0", Err(Fault::Head)),
    ];

    fn case(at: usize) -> (&'static str, Outcome) {
        let (text, outcome) = CASES[at];
        (text, outcome.map(|(status, persistent, unread)| (status, persistent, text.len() - unread)))
    }

    #[test]
    fn responses_are_read_as_they_are_framed_wherever_they_are_cut() {
        for (text, expected) in (0..CASES.len()).map(case) {
            assert_eq!(read(false, [text.as_bytes()]), expected, "{text:?}");
            for cut in 0..=text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                assert_eq!(read(false, [first, second]), expected, "{text:?} cut at {cut}");
            }
            assert_eq!(read(false, text.as_bytes().chunks(1)), expected, "{text:?} byte by byte");
        }
    }

    #[test]
    fn a_head_that_is_known_means_the_same() {
        let mut both = (ResponseReader::default(), KnownHead::default());
        for (text, _) in CASES {
            // After another, again, after one to the other method, and in two pieces.
            for (of_head, pieces) in [(false, 1), (false, 1), (true, 1), (true, 1), (false, 1), (false, 2)] {
                let (first, second) = text.as_bytes().split_at(text.len() / pieces);
                let expected = read(of_head, [text.as_bytes()]);
                assert_eq!(read_next(&mut both, of_head, [first, second]), expected, "{text:?}");
            }
        }
        let (reader, known) = &mut both;
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        for _ in 0..2 {
            reader.begin(false, false);
            reader.keep(Keep { fields: true, body_bytes_max: 1 });
            assert_eq!(reader.feed(text, known), Ok(Progress::More));
            assert_eq!(reader.kept_fields(), [("Content-Length", &b"2"[..])]);
        }
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert_eq!(read(true, [text.as_bytes()]), Ok((200, true, text.len())), "{text:?}");
        }
    }

    #[test]
    fn heads_and_lines_without_end_are_given_up() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        let many = format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(FIELDS_MAX + 1));
        for text in [long, many] {
            for step in [text.len(), 1000, 7] {
                assert_eq!(read(false, text.as_bytes().chunks(step)), Err(Fault::HeadTooLong));
            }
        }
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let long = "x".repeat(HEAD_BYTES_MAX);
        for (line, endless) in
            [("1;", &long), ("0\r\nT: ", &long), ("0\r\n", &"T:\r\n".repeat(HEAD_BYTES_MAX / 4))]
        {
            let text = format!("{head}{line}{endless}x");
            assert_eq!(read(false, [text.as_bytes()]), Err(Fault::Chunk), "{line:?}");
        }
    }

    #[test]
    fn more_than_can_be_counted_is_a_fault() {
        let (mut reader, mut known) = (ResponseReader::default(), KnownHead::default());
        reader.begin(false, false);
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\n", &mut known), Ok(Progress::More));
        reader.bytes = RESPONSE_BYTES_MAX - 1;
        assert_eq!(reader.feed(b"x", &mut known), Ok(Progress::More));
        assert_eq!(reader.feed(b"x", &mut known), Err(Fault::TooLong));
    }

    #[test]
    fn a_reader_is_used_again_and_keeps_the_server_only_when_asked() {
        let (mut reader, mut known) = (ResponseReader::default(), KnownHead::default());
        for wanted in [true, false, true] {
            reader.begin(false, wanted);
            let text = b"HTTP/1.1 200 OK\r\nServer: a/1\r\nContent-Length: 1\r\n\r\nx";
            assert_eq!(reader.feed(&text[..20], &mut known), Ok(Progress::More));
            assert!(matches!(
                reader.feed(&text[20..], &mut known),
                Ok(Progress::Whole(Answer { bytes: 52, .. }, 0))
            ));
            assert_eq!(reader.take_server(), wanted.then(|| "a/1".to_string()));
        }
    }

    #[test]
    fn a_fault_has_its_own_words() {
        for fault in Fault::ALL {
            assert_eq!(Fault::ALL.iter().filter(|other| other.words() == fault.words()).count(), 1);
        }
    }

    proptest::proptest! {
        #[test]
        fn pieces_do_not_matter(
            case in 0..CASES.len(),
            (at, byte) in (0usize..200, proptest::prelude::any::<u8>()),
            of_head: bool,
            cuts in proptest::collection::vec(1usize..20, 1..60),
        ) {
            let mut bytes = CASES[case].0.as_bytes().to_vec();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            proptest::prop_assert_eq!(read(of_head, pieces), read(of_head, [&bytes[..]]));
        }
    }
}
