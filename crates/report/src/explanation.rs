//! `plimsoll explain RUN`: every claim with its evidence, every doubt with what to try.

use model::{Evidence, FindingKind, ResultDocument, Verdict};

use crate::sentences;
use crate::terminal::{Page, Terminal, all_doubts, heading, verdict};
use crate::text::{seconds, wrap};

/// Why the result says what it says.
pub fn explanation(document: &ResultDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    heading(&mut page, document);
    for (kind, title) in [
        (FindingKind::Limits, "what limits"),
        (FindingKind::RuledOut, "ruled out"),
        (FindingKind::Observation, "other observations"),
    ] {
        let findings = || document.findings.iter().filter(move |finding| finding.kind == kind);
        if findings().next().is_none() {
            continue;
        }
        page.title(title);
        for finding in findings() {
            page.gap();
            page.point(0, "•", &sentences::finding(finding));
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
                page.point(1, " ", "no evidence recorded");
            }
            page.point(1, " ", &format!("(detector {})", finding.detector.name()));
        }
    }
    if document.findings.is_empty() {
        page.sentence("No findings.");
    }

    crate::terminal::limits(&mut page, document, true);
    crate::terminal::cost_tables(&mut page, document);
    let doubts = all_doubts(document);
    page.title("warnings");
    if doubts.is_empty() {
        page.sentence("No warnings.");
    }
    for doubted in doubts {
        page.point(0, "•", &doubted.sentence(document));
        if !doubted.doubt.help.is_empty() {
            page.point(1, "try", &doubted.doubt.help);
        }
    }

    if let Some(table) = crate::tables::thresholds(document) {
        page.title(&table.title);
        page.table(&table);
    }

    let unseen = unseen(document);
    page.title("not measured");
    if unseen.is_empty() {
        page.sentence("Every requested counter was read.");
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
    verdict(&mut page, document, &sentences::headline(document));
    for line in wrap(why(document), page.width() - 12) {
        page.continued(&line);
    }
    page.finish()
}

/// `average device queue, vda: 31.4 [disk.queue_length{vda}, 2 to 60 s, 001-baseline.r1]`.
fn evidence_text(evidence: &Evidence) -> String {
    let mut place = evidence.metric.clone();
    if evidence.end_s > evidence.begin_s {
        place.push_str(&format!(", {} to {} s", seconds(evidence.begin_s), seconds(evidence.end_s)));
    }
    if !evidence.run.is_empty() {
        place.push_str(&format!(", {}", evidence.run));
    }
    format!("{} [{place}]", sentences::evidence(evidence))
}

/// What the verdict could not take into account.
pub(crate) fn unseen(document: &ResultDocument) -> Vec<String> {
    let mut lines: Vec<String> = match &document.verdict {
        Verdict::Inconclusive { lacks, .. } => {
            lacks.iter().map(|lack| sentences::missing(document, lack)).collect()
        }
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
    match &document.verdict {
        Verdict::Bottleneck { .. } => "A resource was saturated, and the load waited for it.",
        Verdict::NotSaturated { .. } => "No watched resource was saturated: the system can carry more load.",
        Verdict::GeneratorBound { .. } => {
            "The load generator was the limit, so the result says nothing about the system."
        }
        Verdict::Inconclusive { .. } => "The measurements do not show the limit.",
    }
}
