//! The audit of a result, of anybody: figures that cannot all be right, and reasons why they do not say what they seem to.
//!
//! Figures are compared as the values that their digits allow, so that rounding is no contradiction.

mod laws;
mod runs;
mod series;
#[cfg(test)]
mod tests;
mod times;

use model::Study;
use model::audit::{AUDIT_FORMAT, Audit, AuditFinding, AuditKind, NamedFigure, Severity};
use model::figure::{Figure, Figures, Quantity, Span};
use model::result::ResultDocument;

/// The audit of figures that a report states.
pub fn of_figures(name: &str, results: &[Figures], limits: &[Figure]) -> Audit {
    finish(name, results, laws::findings(results, limits))
}

/// The audit of a run: its figures, its course, and the doubts that its result has.
pub fn of_study(name: &str, study: &Study, document: &ResultDocument, limits: &[Figure]) -> Audit {
    let results = runs::figures(study, document);
    let mut findings = laws::findings(&results, limits);
    findings.extend(runs::findings(study, document));
    finish(name, &results, findings)
}

/// Puts the findings in order: the contradictions first, then as they are in the file.
fn finish(name: &str, results: &[Figures], mut findings: Vec<AuditFinding>) -> Audit {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Audit {
        format: AUDIT_FORMAT.into(),
        of: name.to_string(),
        results: results.len(),
        figures: results.iter().map(|result| result.figures.len() + result.histogram.len()).sum(),
        findings,
    }
}

/// A finding about a result.
fn finding(of: &Figures, kind: AuditKind, severity: Severity, figures: &[&Figure]) -> AuditFinding {
    AuditFinding {
        kind,
        severity,
        of: of.name.clone(),
        line: of.line,
        figures: figures.iter().map(|figure| named(figure.quantity, &figure.text)).collect(),
        follows: None,
        follows_text: String::new(),
    }
}

fn named(quantity: Quantity, text: &str) -> NamedFigure {
    NamedFigure { name: quantity.to_string(), text: text.to_string() }
}

/// Adds what follows from the figures.
fn follows(finding: AuditFinding, quantity: Quantity, span: Span) -> AuditFinding {
    let text = match (span.low, span.high) {
        (low, high) if !high.is_finite() => format!("at least {}", quantity.show(low)),
        (low, high) => {
            let (low, high) = (quantity.show(low), quantity.show(high));
            if low == high { low } else { format!("{low} to {high}") }
        }
    };
    AuditFinding { follows: Some(span), follows_text: text, ..finding }
}
