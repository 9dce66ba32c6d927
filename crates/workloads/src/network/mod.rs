//! What the loads over a network share: the addresses of a host, sockets, and TLS.

pub(crate) mod addresses;
pub(crate) mod host;
pub(crate) mod socket;
pub(crate) mod tls;

/// The system's words without its number: "connection refused".
pub(crate) fn errno_words(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_lowercase(), letters.as_str()))
}
