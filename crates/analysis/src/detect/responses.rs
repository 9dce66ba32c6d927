//! The responses of a server: a fast response that is a redirect, empty, or an error with a success status is
//! not what was to be measured.

use model::claim::StatusShare;
use model::result::ResultDocument;
use model::{Claim, Detector, Finding, FindingKind, Study};

use super::{Sign, gather};
use crate::measured::Measured;

/// The prefix of the names of the facts that count statuses.
const STATUS: &str = "responses.status.";
/// Limit of the ratio of the largest to the smallest body.
const SIZES_ALIKE: f64 = 2.0;
/// Bytes by which bodies may differ at any size: a date, a number.
const SIZES_DIFFER_BYTES: f64 = 64.0;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(Detector::Responses, study, document, |measured, _| {
        let claims = [statuses(measured), sizes(measured), error_text(measured)];
        let sign = |claim| Sign::new(FindingKind::Observation, None, claim, 1.0);
        claims.into_iter().flatten().map(sign).collect()
    })
}

/// Several statuses, or redirects: then the page itself was not measured.
fn statuses(measured: &Measured) -> Option<Claim> {
    let counts = measured.record.run.facts.iter().filter_map(|(name, level)| {
        let status: u16 = name.strip_prefix(STATUS)?.parse().ok()?;
        Some((status, level.as_number()?))
    });
    let counts: Vec<(u16, f64)> = counts.filter(|(_, count)| *count > 0.0).collect();
    let all: f64 = counts.iter().map(|(_, count)| count).sum();
    let mut shares: Vec<StatusShare> =
        counts.iter().map(|(status, count)| StatusShare { status: *status, share: count / all }).collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    let redirected = shares.first().is_some_and(|most| (300..400).contains(&most.status));
    (shares.len() > 1 || redirected).then_some(Claim::Statuses { shares })
}

fn sizes(measured: &Measured) -> Option<Claim> {
    let min_bytes = measured.fact_number("responses.body_bytes_min")?;
    let max_bytes = measured.fact_number("responses.body_bytes_max")?;
    let differ = max_bytes > SIZES_ALIKE * min_bytes && max_bytes - min_bytes > SIZES_DIFFER_BYTES;
    (differ || max_bytes == 0.0).then_some(Claim::AnswerSizes { min_bytes, max_bytes })
}

fn error_text(measured: &Measured) -> Option<Claim> {
    let word = measured.fact_text("responses.failure_word")?;
    Some(Claim::ErrorText { word: word.into() })
}
