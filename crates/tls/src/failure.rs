//! What a failed handshake says to a person.

use std::io;

use rustls::{CertificateError, Error};

/// What went wrong with TLS, in words: also of an error of a stream that carries it.
pub fn failure(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(error) => words(error),
        None => error.to_string(),
    }
}

fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(certificate) => of_certificate(certificate),
        Error::InvalidMessage(_) => "the answer is not TLS".into(),
        Error::NoCertificatesPresented => "the server has no certificate".into(),
        Error::AlertReceived(alert) => format!("the server refused it: {alert:?}"),
        other => other.to_string(),
    }
}

const DAY_S: u64 = 24 * 60 * 60;

fn of_certificate(error: &CertificateError) -> String {
    let days = |from: u64, to: u64| match to.saturating_sub(from).div_ceil(DAY_S) {
        1 => "a day".to_string(),
        days => format!("{days} days"),
    };
    match error {
        CertificateError::UnknownIssuer => {
            "the certificate of the server is signed by no authority that is trusted".into()
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let days = days(not_after.as_secs(), time.as_secs());
            format!("the certificate of the server expired {days} ago")
        }
        CertificateError::Expired => "the certificate of the server has expired".into(),
        CertificateError::NotValidYetContext { time, not_before } => {
            let days = days(time.as_secs(), not_before.as_secs());
            format!("the certificate of the server is valid only in {days}: is the clock right?")
        }
        CertificateError::NotValidYet => "the certificate of the server is not valid yet".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<String> = presented.iter().map(|name| plain(name)).collect();
            let names = if names.is_empty() { "no name".into() } else { names.join(", ") };
            format!("the certificate of the server is for {names}, and not for {}", expected.to_str())
        }
        CertificateError::NotValidForName => "the certificate of the server is for another name".into(),
        CertificateError::BadSignature => {
            "the signature of the server's certificate is wrong, or its key is too short".into()
        }
        CertificateError::Revoked => "the certificate of the server is revoked".into(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate of the server is not one for servers".into()
        }
        CertificateError::BadEncoding => "the certificate of the server cannot be read".into(),
        CertificateError::Other(other) => {
            let text = other.to_string();
            match text.as_str() {
                "UnsupportedCertVersion" => {
                    "the certificate of the server is of X.509 version 1, without names: make one of version 3".into()
                }
                _ => format!("the certificate of the server is not accepted: {text}"),
            }
        }
        other => format!("the certificate of the server is not accepted: {other}"),
    }
}

/// `DnsName("a.example")` without its kind.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{ServerName, UnixTime};
    use std::time::Duration;

    #[test]
    fn what_a_certificate_is_refused_for_is_said_in_words() {
        let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * DAY_S));
        let expected = ServerName::try_from("db.example").unwrap();
        for (error, words) in [
            (CertificateError::UnknownIssuer, "no authority that is trusted"),
            (CertificateError::ExpiredContext { time: at(20), not_after: at(8) }, "expired 12 days ago"),
            (CertificateError::NotValidYetContext { time: at(8), not_before: at(9) }, "valid only in a day"),
            (
                CertificateError::NotValidForNameContext {
                    expected,
                    presented: vec!["DnsName(\"other.example\")".into()],
                },
                "is for other.example, and not for db.example",
            ),
        ] {
            let error = io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(error));
            assert!(failure(&error).contains(words), "{}", failure(&error));
        }
        let broken = io::Error::new(io::ErrorKind::ConnectionReset, "reset by peer");
        assert_eq!(failure(&broken), "reset by peer");
    }
}
