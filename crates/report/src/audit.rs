//! The audit of a result, on the terminal and as JSON.

use model::audit::{Audit, AuditFinding, Severity};
use serde_json::Value;

use crate::sentences::{audit_finding, audit_question};
use crate::terminal::{Page, Terminal};
use crate::text::plural;

/// The findings with what to ask, and how many there are.
pub fn audit(audit: &Audit, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(
        &audit.of,
        &[format!("{} of {}", plural(audit.figures, "figure"), plural(audit.results, "result"))],
    );
    for found in &audit.findings {
        let label = match found.severity {
            Severity::Contradiction => "WRONG",
            Severity::Doubtful => "DOUBTFUL",
        };
        page.gap();
        page.labelled(label, &format!("{}: {}", place(found), audit_finding(found)));
        let question = audit_question(found);
        if !question.is_empty() {
            page.continued(&question);
        }
    }
    page.gap();
    page.strong_label("ANSWER", &answer(audit));
    page.finish()
}

/// The document with its sentences.
pub fn audit_json(audit: &Audit) -> Value {
    let mut value = serde_json::to_value(audit).unwrap_or_default();
    let shown = value.get_mut("findings").and_then(Value::as_array_mut).into_iter().flatten();
    for (found, shown) in audit.findings.iter().zip(shown) {
        shown["text"] = audit_finding(found).into();
        shown["question"] = audit_question(found).into();
    }
    value["answer"] = answer(audit).into();
    value
}

/// The result of a finding, with its line.
fn place(found: &AuditFinding) -> String {
    match found.line {
        0 => found.of.clone(),
        line => format!("{} (line {line})", found.of),
    }
}

fn answer(audit: &Audit) -> String {
    let count = |severity: Severity| audit.findings.iter().filter(|found| found.severity == severity).count();
    let (wrong, doubtful) = (count(Severity::Contradiction), count(Severity::Doubtful));
    match (wrong, doubtful) {
        (0, 0) => {
            "Nothing was found. The figures fit each other; whether they were measured right, they do not show.".into()
        }
        (0, doubtful) => format!("No figure contradicts another. {} to doubt them.", plural(doubtful, "reason")),
        (wrong, 0) => format!("{}: not all of these figures can be right.", plural(wrong, "contradiction")),
        (wrong, doubtful) => format!(
            "{}: not all of these figures can be right. {} to doubt the others.",
            plural(wrong, "contradiction"),
            plural(doubtful, "reason")
        ),
    }
}
