//! Reads parts of a document in tests.

use model::result::ResultDocument;
use model::verdict::InconclusiveReason;
use model::{Detector, Estimate, Evidence, Finding, FindingKind, Missing, Verdict};
use serde::Serialize;
use serde_json::Value;

/// The name of the one limiting resource; empty if there is none, or several.
pub(crate) fn limit(document: &ResultDocument) -> String {
    document.verdict.resource().map(ToString::to_string).unwrap_or_default()
}

/// The finding of the verdict.
pub(crate) fn rests_on(document: &ResultDocument) -> &Finding {
    let at = match &document.verdict {
        Verdict::Bottleneck { finding, .. } => *finding,
        Verdict::GeneratorBound { finding } => Some(*finding),
        _ => None,
    };
    at.and_then(|at| document.findings.get(at)).unwrap_or_else(|| panic!("{:?}", document.verdict))
}

/// Why the limit is unknown, and the missing data.
pub(crate) fn unclear(document: &ResultDocument) -> (&InconclusiveReason, &[Missing]) {
    match &document.verdict {
        Verdict::Inconclusive { reason, lacks } => (reason, lacks),
        other => panic!("{other:?}"),
    }
}

/// The first finding of a detector.
pub(crate) fn found(document: &ResultDocument, detector: Detector) -> Option<&Finding> {
    document.findings.iter().find(|finding| finding.detector == detector)
}

/// The first finding about a resource with this name.
pub(crate) fn about<'a>(document: &'a ResultDocument, resource: &str) -> Option<&'a Finding> {
    document.findings.iter().find(|one| one.about.as_ref().is_some_and(|about| about.to_string() == resource))
}

/// The names of the resources with a finding of this kind.
pub(crate) fn with(document: &ResultDocument, kind: FindingKind) -> Vec<String> {
    let findings = document.findings.iter().filter(|finding| finding.kind == kind);
    findings.filter_map(|finding| finding.about.as_ref()).map(ToString::to_string).collect()
}

/// A claim, or a part of one, in its serialized form on one line, with numbers of three digits.
pub(crate) fn shown(claim: &impl Serialize) -> String {
    rounded(serde_json::to_value(claim).unwrap()).to_string()
}

/// Evidence for a finding (`+`) and against it (`-`), one per line: the observed value and the reference
/// value.
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
