//! The dependencies of the system under test: a proxy before each, for the whole experiment.

use std::collections::BTreeMap;

use model::experiment::{Dependency, LISTEN, LISTEN_ANYWHERE, Proxies};
use model::sensitivity::facts::LISTEN as LISTENS;
use model::steps::{RequestSteps, STEPS_FORMAT};
use model::{ExchangeTrace, Experiment, Level, TrialSteps, Variation};

use crate::factor::FactorTarget;
use crate::factor_changes::FactorChanges;
use crate::session::{Session, unvaried};

/// The fact of a workload that says which address it connects to.
const OF_LOAD: &str = "address";

/// The factor that sets the delay of the proxy of a dependency.
pub(crate) fn variation_of(dependency: &Dependency) -> Variation {
    let listen = dependency.listen.as_deref().unwrap_or(LISTEN_ANYWHERE);
    Variation {
        on: Some(dependency.authority()),
        parameters: BTreeMap::from([(LISTEN.into(), model::Secret::plain(listen))]),
        line: dependency.line,
        ..unvaried(&dependency.factor)
    }
}

/// Starts the proxy of each dependency, before anything connects to it. The delay of each is set for each trial.
pub(crate) fn start_proxies(
    session: &Session<'_>,
    factors: &mut FactorChanges<'_>,
) -> Result<Proxies, String> {
    let mut proxies = Proxies::default();
    for dependency in &session.experiment.dependencies {
        let path = &dependency.factor;
        let failed = |why: String| format!("the proxy of `{}` cannot start: {why}", dependency.name);
        let kind = session.registry.factor(path).ok_or_else(|| failed("there is no such factor".into()))?;
        let Variation { on, parameters, .. } = variation_of(dependency);
        let process = FactorTarget::of(session.root.clone(), vec![std::process::id()]);
        let mut factor =
            (kind.open)(&FactorTarget { on, parameters, ..process }).map_err(|why| failed(why.0))?;
        let nothing = Level::Time(0);
        factors.applied.announce(path, &*factor, &nothing).map_err(failed)?;
        factor.set(&nothing).map_err(|why| failed(why.0))?;
        let address = factor.endpoint().ok_or_else(|| failed("it listens nowhere".into()))?;
        proxies.add(dependency, address.to_string());
        factors.factors.push((path.clone(), factor));
    }
    Ok(proxies)
}

/// The steps of a request, if the load connects to exactly one dependency and the system to others. Which one, its settings
/// say, or the facts of the trial, if it found its address elsewhere, for example in a scenario.
pub(crate) fn steps(
    experiment: &Experiment,
    traces: &[(String, ExchangeTrace)],
    facts: &BTreeMap<String, Level>,
) -> Option<TrialSteps> {
    let of_load = experiment.dependencies_of_load();
    let name = |path: &str| experiment.dependency(path).map(|dependency| dependency.name.as_str());
    let found = || {
        let address = facts.get(OF_LOAD)?;
        let mut dependencies = experiment.dependencies.iter();
        let is_at = |of: &&Dependency| facts.get(&format!("{}.{LISTENS}", of.factor)) == Some(address);
        dependencies.find(is_at).map(|dependency| dependency.name.as_str())
    };
    let front = match of_load.len() {
        0 => found()?,
        1 => of_load.first().copied()?,
        _ => return None,
    };
    let (_, requests) = traces.iter().find(|(path, _)| name(path) == Some(front))?;
    let others = traces.iter().filter_map(|(path, trace)| Some((name(path)?.to_string(), trace)));
    let others: Vec<(String, &ExchangeTrace)> = others.filter(|(name, _)| name != front).collect();
    (!others.is_empty()).then(|| TrialSteps {
        format: STEPS_FORMAT.into(),
        request: RequestSteps::find(front, requests, &others),
    })
}
