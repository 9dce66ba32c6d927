//! `plimsoll explain RUN`: every claim with its evidence, every doubt with what to try.

use model::{Evidence, FindingKind, ResultDocument, Verdict};

use crate::terminal::{Page, Terminal, all_doubts, heading, verdict, verdict_kind};
use crate::text::{plain, seconds, wrap};

/// Why the result says what it says.
pub fn explanation(document: &ResultDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    heading(&mut page, document);
    for (kind, title) in [
        (FindingKind::Limits, "what limits"),
        (FindingKind::RuledOut, "what was ruled out"),
        (FindingKind::Observation, "what else was seen"),
    ] {
        let findings = || document.findings.iter().filter(move |finding| finding.kind == kind);
        if findings().next().is_none() {
            continue;
        }
        page.title(title);
        for finding in findings() {
            page.gap();
            let name = match finding.resource.is_empty() {
                true => String::new(),
                false => format!("{}: ", finding.resource),
            };
            page.point(0, "•", &format!("{name}{}", finding.text));
            if !finding.trials.is_empty() {
                page.point(1, " ", &format!("in {}", finding.trials.join(", ")));
            }
            for evidence in &finding.evidence {
                page.point(1, "for    ", &evidence_text(evidence));
            }
            for evidence in &finding.against {
                page.point(1, "against", &evidence_text(evidence));
            }
            if finding.evidence.is_empty() && finding.against.is_empty() {
                page.point(1, " ", "no evidence was recorded with it");
            }
            page.point(1, " ", &format!("(detector {})", finding.detector));
        }
    }
    if document.findings.is_empty() {
        page.sentence("Nothing was found out.");
    }

    let doubts = all_doubts(document);
    page.title("reasons to trust these numbers less");
    if doubts.is_empty() {
        page.sentence("None was found.");
    }
    for doubted in doubts {
        page.point(0, "•", &doubted.sentence(document));
        if !doubted.doubt.help.is_empty() {
            page.point(1, "try", &doubted.doubt.help);
        }
    }

    let unseen = unseen(document);
    page.title("what could not be seen");
    if unseen.is_empty() {
        page.sentence("Nothing that was asked for was missing.");
    }
    for line in unseen {
        page.point(0, "•", &line);
    }

    if let Some(table) = crate::tables::proof(document) {
        page.title("proof");
        page.table(&table);
    }
    if let Some(table) = crate::tables::goals(document) {
        page.title("goals");
        page.table(&table);
    }
    page.gap();
    verdict(&mut page, document);
    for line in wrap(why(document), page.width() - 12) {
        page.continued(&line);
    }
    page.finish()
}

/// `disk.utilization{vda} 2 to 60 s of 001-baseline.r1: ... (observed 0.98, 0.97 to 0.99; expected 0.9)`.
fn evidence_text(evidence: &Evidence) -> String {
    let mut place = evidence.metric.clone();
    if evidence.end_s > evidence.begin_s {
        place.push_str(&format!(", {} to {} s", seconds(evidence.begin_s), seconds(evidence.end_s)));
    }
    if !evidence.run.is_empty() {
        place.push_str(&format!(", {}", evidence.run));
    }
    let expected = match &evidence.expected {
        Some(expected) => format!("; expected {}", estimate(expected)),
        None => String::new(),
    };
    format!("{} [{place}; observed {}{expected}]", evidence.text, estimate(&evidence.observed))
}

fn estimate(estimate: &model::Estimate) -> String {
    let number = plain;
    match estimate.low == estimate.high {
        true => number(estimate.value),
        false => format!("{}, {} to {}", number(estimate.value), number(estimate.low), number(estimate.high)),
    }
}

/// What the verdict could not take into account.
pub(crate) fn unseen(document: &ResultDocument) -> Vec<String> {
    let mut lines: Vec<String> = match &document.verdict {
        Verdict::Inconclusive { missing, .. } => missing.clone(),
        _ => Vec::new(),
    };
    for doubt in all_doubts(document).into_iter().map(|doubted| doubted.doubt) {
        if doubt.kind == model::DoubtKind::MissingSource && !lines.contains(&doubt.text) {
            lines.push(doubt.text.clone());
        }
    }
    lines
}

/// How the kind of verdict comes about.
fn why(document: &ResultDocument) -> &'static str {
    match verdict_kind(&document.verdict) {
        "bottleneck" => "A resource was full while others had room, and the load waited for it.",
        "not saturated" => {
            "No resource that was watched came near to full: more load would have been carried."
        }
        "generator bound" => "The load generator was the limit, so nothing is claimed about the system.",
        _ => "What was recorded does not carry a verdict.",
    }
}
