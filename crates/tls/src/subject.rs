//! The subject of a certificate (RFC 5280, section 4.1): the libraries verify only alternative names.

/// `2.5.4.3`
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The version, which is explicit.
const VERSION: u8 = 0xa0;

/// The last common name of the subject of a certificate in DER, if it is UTF-8 or ASCII.
pub(crate) fn common_name(certificate: &[u8]) -> Option<&str> {
    let (certificate, _) = value(certificate, SEQUENCE)?;
    let (mut rest, _) = value(certificate, SEQUENCE)?;
    if let Some((_, after)) = value(rest, VERSION) {
        rest = after;
    }
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        (_, _, rest) = element(rest)?;
    }
    let (mut names, _) = value(rest, SEQUENCE)?;
    let mut found = None;
    while !names.is_empty() {
        let (mut set, after) = value(names, SET)?;
        names = after;
        while !set.is_empty() {
            let (pair, after) = value(set, SEQUENCE)?;
            set = after;
            let (kind, text) = value(pair, OBJECT_IDENTIFIER)?;
            if kind == COMMON_NAME {
                found = Some(std::str::from_utf8(element(text)?.1).ok()?);
            }
        }
    }
    found
}

/// The content of the first element, which has this tag, and what follows it.
fn value(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The tag and the content of the first element, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk::<2>()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x83 => {
            let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = after;
            digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_name_of_the_subject_is_found_and_damage_is_not() {
        let folder = testkit::Scratch::new();
        let subject = testkit::SelfSigned { name: "dc1.example.com", ..testkit::SelfSigned::LOOPBACK };
        let (file, _) = subject.make(&folder, "subject");
        let der = crate::authorities::certificates(Some(&file)).unwrap().remove(0);
        assert_eq!(common_name(&der), Some("dc1.example.com"));
        for length in 0..der.len() {
            assert_eq!(common_name(&der[..length]), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = common_name(&bytes);
        }
    }
}
