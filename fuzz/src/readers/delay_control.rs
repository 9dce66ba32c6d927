//! A request to a running delay proxy, and the settings of its command line.

use delay::control::Request;
use delay::{Change, RouteSettings, Scheduled};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let request = Request::parse(text);
    if let Ok(request) = &request {
        let again = Request::parse(&request.line()).expect("what was read can be read again");
        assert_eq!(again.line(), request.line());
    }
    let of_request = match request {
        Ok(Request::Set(change)) => Some(change),
        _ => None,
    };
    for change in of_request.into_iter().chain(Change::parse([text])) {
        let mut settings = RouteSettings::default();
        settings.change(&change, 0);
        let _ = settings.check();
        let words = settings.words();
        if !words.is_empty() {
            let mut again = RouteSettings::default();
            again.change(&Change::parse(words.iter().map(String::as_str)).expect("words can be read"), 0);
            assert_eq!(again.words(), words);
        }
    }
    if let Some((at, words)) = text.split_once(' ') {
        let _ = Scheduled::parse(at, &[words]);
    }
}
