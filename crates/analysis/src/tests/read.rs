//! What tests read in a document.

use model::result::ResultDocument;
use model::verdict::Unclear;
use model::{Detector, Estimate, Evidence, Finding, FindingKind, Missing, Verdict};
use serde::Serialize;
use serde_json::Value;

/// The one resource that limits, as readers see it; empty when there is none, or several.
pub(crate) fn limit(document: &ResultDocument) -> String {
    document.verdict.resource().map(ToString::to_string).unwrap_or_default()
}

/// What the verdict rests on.
pub(crate) fn rests_on(document: &ResultDocument) -> &Finding {
    let at = match &document.verdict {
        Verdict::Bottleneck { finding, .. } => *finding,
        Verdict::GeneratorBound { finding } => Some(*finding),
        _ => None,
    };
    at.and_then(|at| document.findings.get(at)).unwrap_or_else(|| panic!("{:?}", document.verdict))
}

/// Why it cannot be said what limits, and what was missing.
pub(crate) fn unclear(document: &ResultDocument) -> (&Unclear, &[Missing]) {
    match &document.verdict {
        Verdict::Inconclusive { reason, lacks } => (reason, lacks),
        other => panic!("{other:?}"),
    }
}

/// The first finding of a detector.
pub(crate) fn found(document: &ResultDocument, detector: Detector) -> Option<&Finding> {
    document.findings.iter().find(|finding| finding.detector == detector)
}

/// The first finding about a resource, by its name as readers see it.
pub(crate) fn about<'a>(document: &'a ResultDocument, resource: &str) -> Option<&'a Finding> {
    document.findings.iter().find(|one| one.about.as_ref().is_some_and(|about| about.to_string() == resource))
}

/// Resources with a finding of this kind, as readers see them.
pub(crate) fn with(document: &ResultDocument, kind: FindingKind) -> Vec<String> {
    let findings = document.findings.iter().filter(|finding| finding.kind == kind);
    findings.filter_map(|finding| finding.about.as_ref()).map(ToString::to_string).collect()
}

/// A claim, or a part of one, on one line as it is written to files, its numbers with three digits.
pub(crate) fn shown(claim: &impl Serialize) -> String {
    rounded(serde_json::to_value(claim).unwrap()).to_string()
}

/// Evidence for a finding (`+`) and against it (`-`), one a line: what was seen, and what it is compared with.
pub(crate) fn evidence(finding: &Finding) -> String {
    let line = |sign: &str, evidence: &Evidence| {
        let digits = |value: f64| digits(value).to_string();
        let range = |Estimate { value, low, high }: Estimate| {
            format!("{:?} {} ({} to {})", evidence.comparison, digits(value), digits(low), digits(high))
        };
        let compared = evidence.expected.map(range).unwrap_or_default();
        format!("{sign} {}: {} {compared}", evidence.metric, digits(evidence.observed.value))
    };
    let found = finding.evidence.iter().map(|evidence| line("+", evidence));
    found.chain(finding.against.iter().map(|evidence| line("-", evidence))).collect::<Vec<_>>().join("\n")
}

fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => digits(number.as_f64().unwrap()).into(),
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        other => other,
    }
}

/// A number with three digits.
fn digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap()
}
