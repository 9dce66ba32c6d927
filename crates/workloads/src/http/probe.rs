//! A probe: one request to each server of a list, again and again. Each request is timed on its own.

use engine::single::time_operation;
use engine::workload::{LoadError, Outcome, Share, Workload, WorkloadKind as _};
use model::{Level, Nanos, Problem, Problems, Settings};

use super::HttpKind;

/// Most servers of a list: each has a thread.
pub const TARGETS_MAX: usize = 1000;

/// A server of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The group that it belongs to; may be empty.
    pub farm: String,
    /// Its name or address.
    pub broker: String,
    /// Its port.
    pub port: u16,
}

/// Reads a list of servers: CSV with the columns `farm`, `broker` and `port`, in any order and case, in UTF-8 or in
/// UTF-16 as PowerShell writes it. `file` is its name in messages.
///
/// # Errors
/// All mistakes, each with its line.
pub fn read_list(bytes: &[u8], file: &str) -> Result<Vec<Target>, Problems> {
    let text = decode(bytes).ok_or_else(|| {
        Problems::from(Problem::new(format!("{file} is neither UTF-8 nor UTF-16"), "save it as UTF-8"))
    })?;
    let mut problems = Problems::new();
    let mut wrong = |line: u64, what: String, help: &str| {
        problems.push(Problem::at_line(file, &text, line as u32, what, help));
    };
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
    let columns = match reader.headers() {
        Ok(columns) => columns.clone(),
        Err(error) => {
            wrong(1, format!("the list is not CSV: {error}"), "");
            return Err(problems);
        }
    };
    let column = |name: &str| columns.iter().position(|column| column.eq_ignore_ascii_case(name));
    let (farm, broker, port) = (column("farm"), column("broker"), column("port"));
    for (name, place) in [("broker", broker), ("port", port)] {
        if place.is_none() {
            wrong(
                1,
                format!("the list has no column `{name}`"),
                "write `farm,broker,port` on the first line",
            );
        }
    }
    let mut targets = Vec::new();
    for row in reader.records() {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                wrong(line, format!("the line is not CSV: {error}"), "");
                continue;
            }
        };
        let line = row.position().map_or(0, csv::Position::line);
        let value = |place: Option<usize>| place.and_then(|place| row.get(place)).unwrap_or_default();
        let (Some(_), Some(_)) = (broker, port) else { break };
        let is_name = |text: &str| {
            let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            !text.is_empty()
                && (text.chars().all(is_host)
                    || address.is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok()))
        };
        if !is_name(value(broker)) {
            wrong(line, format!("`{}` is not the name of a host", value(broker).escape_debug()), "");
        }
        let number = value(port).parse::<u16>().ok().filter(|port| *port > 0);
        let Some(port) = number else {
            wrong(line, format!("`{}` is not a port", value(port).escape_debug()), "write 1 to 65535");
            continue;
        };
        targets.push(Target { farm: value(farm).into(), broker: value(broker).into(), port });
    }
    if targets.len() > TARGETS_MAX {
        wrong(0, format!("{} servers are too many", targets.len()), "write at most 1000");
    }
    if targets.is_empty() && problems.is_empty() {
        let help = "write `farm,broker,port` on the first line, and a server on each line below it";
        problems.push(Problem::new(format!("{file} has no servers"), help));
    }
    problems.or(targets)
}

/// The text of UTF-8, or of UTF-16 with or without a byte order mark.
fn decode(bytes: &[u8]) -> Option<String> {
    let wide = |bytes: &[u8], of: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        rest.is_empty()
            .then(|| String::from_utf16(&pairs.iter().map(|pair| of(*pair)).collect::<Vec<_>>()).ok())?
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        // The header is ASCII.
        [_, 0, ..] => wide(bytes, u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// The request to one server.
pub struct Probe {
    workload: Box<dyn Workload>,
    is_prepared: bool,
    number: u64,
}

impl Probe {
    /// Prepares the request of `settings` to a server.
    ///
    /// # Errors
    /// Every mistake of the settings.
    pub fn new(settings: &Settings, target: &Target, is_tls: bool, path: &str) -> Result<Probe, Problems> {
        let scheme = if is_tls { "https" } else { "http" };
        let mut settings = settings.clone();
        let url = format!("{scheme}://{}:{}{path}", target.broker, target.port);
        settings.set("url", Level::Secret(model::Secret::new(&url, model::SecretParts::Url)));
        // Each request finds out whether the server accepts a connection.
        settings.set("keep_alive", Level::Flag(false));
        // One server of the list has one address.
        settings.set("addresses", Level::Text("first".into()));
        Ok(Probe { workload: HttpKind.configure(&settings)?, is_prepared: false, number: 0 })
    }

    /// Sends one request. Returns its response time, or why it failed.
    ///
    /// # Errors
    /// Why there is no response that counts as success, in one line.
    pub fn request(&mut self) -> Result<Nanos, String> {
        let in_line = |error: LoadError| error.what;
        if !self.is_prepared {
            self.workload.prepare(0, &mut |_| true).map_err(in_line)?;
            self.is_prepared = true;
        }
        let number = self.number;
        self.number += 1;
        let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 0 };
        let mut worker = self.workload.worker(&share).map_err(in_line)?;
        let (taken, done) = time_operation(&mut *worker, number).map_err(in_line)?;
        drop(worker);
        match done.outcome {
            Outcome::Well => Ok(taken),
            Outcome::Failed(code) => {
                // The name can have another address by the next request.
                self.is_prepared = false;
                Err(self.workload.describe_failure(code))
            }
        }
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf_16(text: &str, of: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(of).collect()
    }

    #[test]
    fn lists_are_read_as_tools_write_them() {
        let text = "Farm,Broker,Port\r\nold,xml1,80\r\n\r\nnew, 10.0.0.2 , 8080\r\n";
        let target =
            |farm: &str, broker: &str, port| Target { farm: farm.into(), broker: broker.into(), port };
        let expected = vec![target("old", "xml1", 80), target("new", "10.0.0.2", 8080)];
        let marked = [&[0xff, 0xfe][..], &utf_16(text, u16::to_le_bytes)].concat();
        let other = [&[0xfe, 0xff][..], &utf_16(text, u16::to_be_bytes)].concat();
        let with_mark = [&[0xef, 0xbb, 0xbf][..], text.as_bytes()].concat();
        for bytes in [text.as_bytes().to_vec(), with_mark, marked, other, utf_16(text, u16::to_le_bytes)] {
            assert_eq!(read_list(&bytes, "list.csv"), Ok(expected.clone()));
        }
        let reordered = read_list(b"PORT,broker\n443,[::1]\n", "list.csv");
        assert_eq!(reordered, Ok(vec![target("", "[::1]", 443)]));
    }

    #[test]
    fn all_mistakes_of_a_list_are_reported() {
        let found = |bytes: &[u8]| -> Vec<(u32, String)> {
            let problems = read_list(bytes, "list.csv").unwrap_err();
            problems.0.into_iter().map(|problem| (problem.line, problem.what)).collect()
        };
        let text = "farm,broker,port\na,x y,80\nb,xml1,99999\nc,,0\nd,xml2,80\n";
        assert_eq!(
            found(text.as_bytes()),
            [
                (2, "`x y` is not the name of a host".to_string()),
                (3, "`99999` is not a port".into()),
                (4, "`` is not the name of a host".into()),
                (4, "`0` is not a port".into()),
            ]
        );
        assert_eq!(
            found(b"name\nx\n"),
            [(1, "the list has no column `broker`".to_string()), (1, "the list has no column `port`".into())]
        );
        assert_eq!(found(b"broker,port\n"), [(0, "list.csv has no servers".to_string())]);
        assert_eq!(found(b"\xff\xfe\0"), [(0, "list.csv is neither UTF-8 nor UTF-16".to_string())]);
    }

    proptest::proptest! {
        #[test]
        fn no_list_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let _ = read_list(&bytes, "l");
        }
    }
}
