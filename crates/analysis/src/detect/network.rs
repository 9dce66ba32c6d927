//! Did the network or the accept queue lose something? Drops and retransmissions cost time that no other
//! counter shows. The counters are for the whole host, so this is an observation without a judgement.

use model::result::{ResultDocument, TrialResult};
use model::{Claim, Detector, Estimate, Finding, FindingKind, Resource, ResourceClass, Study, metrics};

use super::{Sign, gather};
use crate::measured::Measured;

/// Share of retransmitted segments from which it is reported: each costs at least a round trip.
const RESENT_SHARE: f64 = 0.005;
/// Lower rates of events per second are ignored.
const FEW_PER_S: f64 = 0.1;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(Detector::Network, study, document, |measured, trial| {
        let others = measured.hosts().into_iter().flat_map(|host| signs(&measured.on(host), trial));
        signs(measured, trial).into_iter().chain(others).collect()
    })
}

fn signs(measured: &Measured, trial: &TrialResult) -> Vec<Sign> {
    let observed = |metric: &str| measured.host_mean(metric).filter(|value| *value >= FEW_PER_S);
    let sign = |class, metric: &str, value: f64, most: f64, claim: Claim| {
        let found =
            measured.evidence(trial, metric, value).threshold(Estimate { value: 0.0, low: 0.0, high: most });
        Sign::new(FindingKind::Observation, Some(Resource::of_host(class).on(measured.host())), claim, value)
            .with([found])
    };
    let mut signs = Vec::new();
    let metric = metrics::NETWORK_TCP_LISTEN_OVERFLOWS_PER_S;
    if let Some(per_s) = observed(metric) {
        let claim = Claim::ListenOverflows { per_s };
        signs.push(sign(ResourceClass::AcceptQueue, metric, per_s, FEW_PER_S, claim));
    }
    let metric = metrics::NETWORK_TCP_RETRANSMITTED_SEGMENTS_PER_S;
    let sent = measured.host_mean(metrics::NETWORK_TCP_SENT_SEGMENTS_PER_S);
    if let (Some(per_s), Some(sent)) = (observed(metric), sent.filter(|sent| *sent > 0.0))
        && per_s >= RESENT_SHARE * sent
    {
        let claim = Claim::Retransmissions { per_s, share: per_s / sent };
        signs.push(sign(ResourceClass::Tcp, metric, per_s, RESENT_SHARE * sent, claim));
    }
    let metric = metrics::NETWORK_SOFTNET_DROPS_PER_S;
    if let Some(per_s) = observed(metric) {
        let claim = Claim::PacketsDropped { per_s };
        signs.push(sign(ResourceClass::PacketQueue, metric, per_s, FEW_PER_S, claim));
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result;
    use crate::simulate::{Simulated, single};
    use model::Shape;

    #[test]
    fn losses_are_observed_and_judge_nothing() {
        let quiet = Simulated::of(Shape::closed(8), 1000.0, 8.0)
            .counter("network.tcp_sent_segments_per_s", "", &[4000.0])
            .counter("network.tcp_retransmitted_segments_per_s", "", &[1.0])
            .counter("network.tcp_listen_overflows_per_s", "", &[0.0]);
        let losing = quiet
            .clone()
            .counter("network.tcp_retransmitted_segments_per_s", "", &[80.0])
            .counter("network.tcp_listen_overflows_per_s", "", &[12.0])
            .counter("network.softnet_drops_per_s", "", &[3.0]);
        let found = |run: &Simulated| -> Vec<Claim> {
            let document = result(&single(run));
            let ours = document.findings.into_iter().filter(|one| one.detector == Detector::Network);
            ours.map(|finding| finding.claim).collect()
        };
        assert_eq!(found(&quiet), []);
        assert_eq!(
            found(&losing),
            [
                Claim::ListenOverflows { per_s: 12.0 },
                Claim::Retransmissions { per_s: 80.0, share: 0.02 },
                Claim::PacketsDropped { per_s: 3.0 },
            ]
        );
    }
}
