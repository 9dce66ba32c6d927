//! Did the network or the way in lose something? What is dropped or sent again costs time that no other counter shows. Seen
//! over the whole host, so it is told, and judges nothing.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Finding, FindingKind, Study};

use super::{Claim, evidence, gather};
use crate::measured::Measured;
use crate::words;

pub(super) const NAME: &str = "network";

/// Share of the segments sent again from which it is worth a line: each costs at least a round trip.
const RESENT_SHARE: f64 = 0.005;
/// Events a second below which they are of no account.
const FEW_PER_S: f64 = 0.1;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(NAME, study, document, claims)
}

fn claims(measured: &Measured, trial: &TrialResult) -> Vec<Claim> {
    let observed = |metric: &str| measured.host_mean(metric).filter(|value| *value >= FEW_PER_S);
    let claim = |resource: &str, metric: &str, value: f64, line: f64, text: String| {
        let expected = Some(Estimate { value: 0.0, low: 0.0, high: line });
        Claim {
            kind: FindingKind::Observation,
            resource: resource.into(),
            strength: value,
            evidence: vec![evidence(measured, trial, metric, value, expected, text.clone())],
            text,
            against: Vec::new(),
        }
    };
    let mut claims = Vec::new();
    let metric = "network.tcp_listen_overflows_per_s";
    if let Some(refused) = observed(metric) {
        let text = format!(
            "{} connections a second found the accept queue of a service full: it accepts too slowly for this load, or its \
             backlog is too short.",
            words::number(refused)
        );
        claims.push(claim("accept queue", metric, refused, FEW_PER_S, text));
    }
    let metric = "network.tcp_retransmitted_segments_per_s";
    let sent = measured.host_mean("network.tcp_sent_segments_per_s");
    if let (Some(resent), Some(sent)) = (observed(metric), sent.filter(|sent| *sent > 0.0))
        && resent >= RESENT_SHARE * sent
    {
        let text = format!(
            "{} of the TCP segments were sent again ({}): the network lost them, or something on the way was full.",
            words::percent(resent / sent),
            words::per_s(resent)
        );
        claims.push(claim("TCP", metric, resent, RESENT_SHARE * sent, text));
    }
    let metric = "network.softnet_drops_per_s";
    if let Some(dropped) = observed(metric) {
        let text = format!(
            "{} packets a second were thrown away because a processor's input queue was full.",
            words::number(dropped)
        );
        claims.push(claim("packet queue", metric, dropped, FEW_PER_S, text));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result;
    use crate::simulate::{Simulated, single};
    use model::Shape;

    #[test]
    fn losses_are_told_and_judge_nothing() {
        let quiet = Simulated::of(Shape::closed(8), 1000.0, 8.0)
            .counter("network.tcp_sent_segments_per_s", "", &[4000.0])
            .counter("network.tcp_retransmitted_segments_per_s", "", &[1.0])
            .counter("network.tcp_listen_overflows_per_s", "", &[0.0]);
        let losing = quiet
            .clone()
            .counter("network.tcp_retransmitted_segments_per_s", "", &[80.0])
            .counter("network.tcp_listen_overflows_per_s", "", &[12.0])
            .counter("network.softnet_drops_per_s", "", &[3.0]);
        let told = |run: &Simulated| -> Vec<String> {
            let document = result(&single(run));
            let ours = document.findings.into_iter().filter(|finding| finding.detector == NAME);
            ours.map(|finding| finding.text).collect()
        };
        assert_eq!(told(&quiet), Vec::<String>::new());
        assert_eq!(
            told(&losing),
            [
                "12.0 connections a second found the accept queue of a service full: it accepts too slowly for this load, or its \
                 backlog is too short.",
                "2.0 % of the TCP segments were sent again (80.0/s): the network lost them, or something on the way was \
                 full.",
                "3.00 packets a second were thrown away because a processor's input queue was full.",
            ]
        );
    }
}
