//! What the analysis of captured packets found: operations on the wire, their response times, the connections they used,
//! and what was missed.

use serde::{Deserialize, Serialize};

use crate::result::KindCounts;

/// The format of the document: major.minor.
pub const WIRE_FORMAT: &str = "plimsoll.wire/1";

/// The result of one capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireDocument {
    /// [`WIRE_FORMAT`].
    pub format: String,
    /// The file or the interface.
    pub source: String,
    /// The capture.
    pub capture: WireCapture,
    /// The condition that the operations meet; empty if all are counted.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub condition: String,
    /// Operations that do not meet it.
    pub not_selected: u64,
    /// The limit of a slow operation, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slow_ms: Option<f64>,
    /// Operations by kind; those without any are left out.
    pub kinds: Vec<WireKind>,
    /// What the time was spent on: filters, bases, names, paths.
    pub rankings: Vec<WireRanking>,
    /// The slowest operations, the slowest first.
    pub slowest: Vec<WireOperation>,
    /// Operations and bytes over time.
    pub timeline: WireTimeline,
    /// The connections.
    pub connections: WireConnections,
    /// What was missed.
    pub missed: Vec<WireMissed>,
    /// The comparison with the client's own record.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub against: Option<WireAgainst>,
}

/// What was captured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireCapture {
    /// `pcap`, `pcapng` or `snoop`.
    pub format: String,
    /// Time of the first packet, nanoseconds since 1970-01-01 UTC.
    pub begin_unix_ns: u64,
    /// From the first packet to the last, seconds.
    pub seconds: f64,
    /// Packets.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// TCP segments.
    pub segments: u64,
    /// Where and why reading ended before the end of the file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<WireError>,
}

/// A capture that could not be read to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireError {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// Times of some operations, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireTimes {
    /// Number of them.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireKind {
    /// `ldap` or `http`.
    pub protocol: String,
    /// `search`, `bind`, `get` and so on.
    pub kind: String,
    /// Operations whose request and last response were captured; of a kind without a response, the requests.
    pub operations: u64,
    /// Those that failed.
    pub failed: u64,
    /// Requests without a response in the capture. They are not selected by a condition.
    pub unanswered: u64,
    /// From the last byte of the request to the last byte of the last response; none for a kind without a response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_ms: Option<WireTimes>,
    /// From the last byte of the request to the first entry of a search, or to the header of a response of HTTP.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_ms: Option<WireTimes>,
    /// Operations slower than the limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slow: Option<u64>,
    /// Entries of searches.
    pub entries: u64,
    /// Bytes of the requests.
    pub request_bytes: u64,
    /// Bytes of the responses.
    pub response_bytes: u64,
    /// Results, the most frequent first.
    pub results: Vec<WireResult>,
}

/// How often there was one result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireResult {
    /// The name of a result code of LDAP, the number of a status code of HTTP.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// How often.
    pub count: u64,
}

/// What operations are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireRankedBy {
    /// The filter of a search, without values.
    Filter,
    /// The base of a search.
    Base,
    /// The name that the connection is bound as.
    Name,
    /// The path of a request of HTTP.
    Path,
}

/// The costliest values of one property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireRanking {
    /// The property.
    pub by: WireRankedBy,
    /// The rows with the largest total time, and those with the slowest operation, the largest total time first.
    pub rows: Vec<WireRankingRow>,
    /// All operations that have the property.
    pub operations: u64,
    /// Their total time, seconds.
    pub total_s: f64,
    /// Number of different values; at least this many if some were dropped.
    pub values: u64,
    /// Values that were dropped because there were too many, with the least total time at that moment.
    pub dropped: u64,
}

/// One value of a property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireRankingRow {
    /// The value; of a filter, its shape.
    pub value: String,
    /// The filter of its slowest operation; empty for other properties.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub example: String,
    /// Operations.
    pub operations: u64,
    /// Those that failed.
    pub failed: u64,
    /// Sum of their response times, seconds.
    pub total_s: f64,
    /// Mean response time, milliseconds.
    pub mean_ms: f64,
    /// The largest response time, milliseconds.
    pub max_ms: f64,
    /// Operations slower than the limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slow: Option<u64>,
    /// Entries.
    pub entries: u64,
    /// Bytes of the responses.
    pub response_bytes: u64,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireOperation {
    /// Time of the request after the first packet, seconds, to the nanosecond.
    pub at_s: f64,
    /// `ldap` or `http`.
    pub protocol: String,
    /// `search`, `bind`, `get` and so on.
    pub kind: String,
    /// Response time, milliseconds; none without a response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_ms: Option<f64>,
    /// Time to the first entry, or to the header of the response, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_ms: Option<f64>,
    /// The name of a result code, or a status code.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub result: String,
    /// Entries of a search.
    pub entries: u64,
    /// Bytes of the responses.
    pub response_bytes: u64,
    /// The number of the connection.
    pub connection: u64,
    /// Address and port of the client.
    pub client: String,
    /// Address and port of the server.
    pub server: String,
    /// The base of a search, the entry of another operation, the object identifier of an extended one.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub base: String,
    /// The filter of a search.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub filter: String,
    /// The name that the connection is bound as; of a bind, the name in it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub name: String,
    /// The method of a request of HTTP.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub method: String,
    /// Its path, without a query.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub path: String,
}

/// Operations over time. An operation counts when it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireTimeline {
    /// Length of an interval, seconds.
    pub interval_s: f64,
    /// Each kind that has operations.
    pub series: Vec<WireSeries>,
}

/// One kind over time. The values of an interval are at the same place in each list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireSeries {
    /// `ldap` or `http`.
    pub protocol: String,
    /// The kind.
    pub kind: String,
    /// Operations that ended.
    pub operations: Vec<u64>,
    /// Bytes of their requests and responses.
    pub bytes: Vec<u64>,
    /// Their mean response time, milliseconds; 0 without any.
    pub mean_ms: Vec<f64>,
}

/// The connections of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireConnections {
    /// Connections with LDAP or HTTP, also encrypted.
    pub count: u64,
    /// Those of which the begin was not captured.
    pub begun_before: u64,
    /// From SYN to SYN/ACK.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handshake_ms: Option<WireTimes>,
    /// From SYN/ACK to the next segment of the client, which acknowledges it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handshake_ack_ms: Option<WireTimes>,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Segments that came after a later one.
    pub out_of_order: u64,
    /// Resets.
    pub resets: u64,
    /// Segments that announced a window of 0: the receiver did not read.
    pub zero_windows: u64,
    /// Segments or rows of segments that were not captured.
    pub gaps: u64,
    /// Their bytes.
    pub gap_bytes: u64,
    /// The connections with the largest total response time, the largest first.
    pub top: Vec<WireConnection>,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireConnection {
    /// Its number, from 1 in the order of the first packet.
    pub number: u64,
    /// Address and port of the client.
    pub client: String,
    /// Address and port of the server.
    pub server: String,
    /// `ldap`, `http`, or `tls` if it is encrypted from the begin.
    pub protocol: String,
    /// Time of its first packet after the first one of the capture, seconds.
    pub begin_s: f64,
    /// From its first packet to its last one, seconds.
    pub seconds: f64,
    /// Operations.
    pub operations: u64,
    /// Sum of their response times, seconds.
    pub total_s: f64,
    /// From SYN to SYN/ACK, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handshake_ms: Option<f64>,
    /// Bytes from the client.
    pub client_bytes: u64,
    /// Bytes from the server.
    pub server_bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Segments that came after a later one.
    pub out_of_order: u64,
    /// Segments that announced a window of 0.
    pub zero_windows: u64,
    /// Segments or rows of segments that were not captured.
    pub gaps: u64,
    /// Whether it was reset.
    pub is_reset: bool,
}

macro_rules! missed_kinds {
    ($($(#[doc = $about:literal])* $variant:ident,)*) => {
        /// What an analysis can miss, and limits that it can reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum MissedKind {
            $($(#[doc = $about])* $variant,)*
        }

        impl MissedKind {
            /// Every kind, in the order in which they are shown.
            pub const ALL: &'static [MissedKind] = &[$(MissedKind::$variant),*];
        }
    };
}

missed_kinds! {
    /// Packets that the capturing program dropped.
    Dropped,
    /// Packets of which only the first bytes were captured.
    TruncatedPackets,
    /// Bytes of a stream that were passed over until the next message.
    SkippedBytes,
    /// Requests without a response in the capture.
    UnansweredRequests,
    /// Responses whose request was not captured.
    ResponsesWithoutRequest,
    /// Connections encrypted from the begin.
    Tls,
    /// Connections encrypted after StartTLS.
    StartTls,
    /// Connections encrypted after a SASL bind.
    SaslLayer,
    /// Connections of HTTP/2.
    Http2,
    /// Connections that became a tunnel or changed their protocol.
    Tunnel,
    /// Connections that carry neither LDAP nor HTTP, or not recognizably.
    OtherConnections,
    /// Messages of LDAP of an unknown type.
    UnknownMessages,
    /// Messages that a server of LDAP sent without a request.
    Unsolicited,
    /// Requests that their client abandoned.
    Abandoned,
    /// Fragments of IP.
    Fragments,
    /// Packets of other protocols than TCP.
    OtherPackets,
    /// Packets of links of another type.
    OtherLinks,
    /// Packets whose headers are invalid or were not captured.
    InvalidPackets,
    /// Packets without a time.
    WithoutTime,
    /// Packets that are earlier than the one before.
    BackInTime,
    /// Connections that were forgotten, because there were too many.
    ConnectionLimit,
    /// Requests that were forgotten, because too many waited.
    OutstandingLimit,
    /// Parts of requests or messages that were not kept, because they were too large together.
    MemoryLimit,
    /// Operations outside the time or the server of the compared run.
    OutsideRun,
}

/// How often something was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireMissed {
    /// What.
    pub kind: MissedKind,
    /// How often: packets, connections, messages or places, as the kind says.
    pub count: u64,
    /// Bytes of it; 0 where they are not counted.
    pub bytes: u64,
}

/// A run, compared with what was captured of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireAgainst {
    /// The directory of the run.
    pub run: String,
    /// Its trial.
    pub trial: String,
    /// The server that it loaded.
    pub server: String,
    /// Begin of the measured phase, nanoseconds since 1970-01-01 UTC.
    pub begin_unix_ns: u64,
    /// Length of the measured phase, seconds.
    pub seconds: f64,
    /// The part of it that the capture covers, 0 to 1.
    pub covered: f64,
    /// Each kind; all of them together if the operations of the run have other names than those on the wire.
    pub kinds: Vec<WireAgainstKind>,
    /// What the run recorded of the counts of others, warm-up included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<KindCounts>,
}

/// One kind of operation, as the client and the wire see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireAgainstKind {
    /// The kind, or `all`.
    pub kind: String,
    /// Completed operations that the client counted.
    pub client_count: u64,
    /// Operations that ended on the wire in the same time.
    pub wire_count: u64,
    /// Whether these agree within 1 %, or but for an operation at each end of the time.
    pub counts_agree: bool,
    /// Response times at the client, from the intended start, milliseconds.
    pub client_ms: WireTimes,
    /// Response times on the wire, milliseconds.
    pub wire_ms: WireTimes,
}
