//! Protection against eavesdropping: one rule for all servers, and its one exception, `insecure = true`.

use std::ops::Range;

use super::part::{Part, Reader, span_of};

/// Data that would be sent to another host without TLS.
pub struct Exposure {
    /// The data and the destination: "the password would go to ldap://x:389".
    pub what: String,
    /// How to protect it: "write ldaps://".
    pub help: &'static str,
    /// The place in the configuration.
    pub span: Range<usize>,
}

impl Reader {
    /// Reports exposed data as an error; with `insecure = true` as a warning.
    pub fn exposed(&mut self, part: &Part<'_>, exposed: Option<Exposure>) {
        let is_wanted = self.truth(part, "insecure").unwrap_or(false);
        let Some(Exposure { what, help, span }) = exposed else { return };
        let what = format!("{what} without TLS, where others can read it");
        if is_wanted {
            self.warn(span_of(part, "insecure"), what, help);
        } else {
            self.wrong(
                span,
                what,
                format!("{help}; or insecure = true if the network is protected otherwise"),
            );
        }
    }
}
