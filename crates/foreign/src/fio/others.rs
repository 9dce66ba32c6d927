//! Results of fio that cannot be read, recognized to say which can: terse output, and text for people.

use crate::{Content, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "fio (other)",
    about: "fio terse and normal output: recognized, not read; the JSON has the same",
    recognize: |head| kind(head).is_some(),
    open,
};

const TERSE: &str = "this is terse output of fio, whose fields have no names";
const NORMAL: &str = "this is normal output of fio, whose figures are rounded";
const HELP: &str = "run fio with --output-format=json+ --output=FILE, and read that file";

/// What is wrong with it; none if it is not of fio.
fn kind(head: &str) -> Option<&'static str> {
    let lines = || head.lines().map(str::trim_end).filter(|line| !line.is_empty());
    if lines().any(is_terse) {
        return Some(TERSE);
    }
    let is_job =
        |line: &str| line.contains(": (g=") && line.contains("ioengine=") && line.contains("iodepth=");
    lines().any(is_job).then_some(NORMAL)
}

/// `3;fio-3.33;job;0;0;...`
fn is_terse(line: &str) -> bool {
    let mut fields = line.split(';');
    matches!(fields.next(), Some("3" | "4" | "5"))
        && fields.next().is_some_and(|field| field.starts_with("fio-"))
}

fn open(mut from: Source, _: &Options) -> Result<Content, Fault> {
    let mut head = vec![0; 4096];
    let mut length = 0;
    while let Some(rest) = head.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::of_file(&error)),
        }
    }
    head.truncate(length);
    Err(Fault::at(1, kind(&crate::input::decoded(&head)).unwrap_or(NORMAL), HELP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_cannot_be_read_are_named() {
        for (text, expected) in [
            ("3;fio-3.33;n;0;0;64;16000;4000\n", Some(TERSE)),
            ("n: (g=0): rw=read, bs=(R) 4096B-4096B, ioengine=psync, iodepth=1\nfio-3.33\n", Some(NORMAL)),
            ("1,2,0,4\n1,2,0,4\n", None),
            ("1, 2, 7, 9\n", None),
            ("1, 2, 0\n", None),
            ("time, value, 0, 4096\n", None),
            ("", None),
        ] {
            assert_eq!(kind(text), expected, "{text}");
            let open = open(Box::new(std::io::Cursor::new(text.as_bytes().to_vec())), &Options::default());
            let fault = open.err().unwrap();
            assert_eq!((fault.what.as_str(), fault.help.as_str()), (expected.unwrap_or(NORMAL), HELP));
        }
    }
}
