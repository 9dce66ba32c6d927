//! What a mix of operations needs, from runs in which each of them was measured alone.

use model::cost::{CostKind, CostOwner, OperationCost};
use model::mix_price::{MIX_PRICE_FORMAT, PricedNeed, PricedOperation, PricedResource};
use model::operation_io::MixGoal;
use model::result::{Configuration, ResultDocument};
use model::{MixPrice, Operation};

use super::PLANNED_UTILIZATION;
use crate::words;

/// A rate beyond this multiple of the measured one is an extrapolation.
const EXTRAPOLATED: f64 = 1.25;

/// Prices a mix. Each of its operations must be that of a configuration.
pub fn mix_price(document: &ResultDocument, goal: &MixGoal) -> MixPrice {
    let mut price = MixPrice {
        format: MIX_PRICE_FORMAT.into(),
        run: document.run.clone(),
        experiment: document.experiment.clone(),
        goal: goal.clone(),
        planned_share: PLANNED_UTILIZATION,
        operations: Vec::new(),
        needs: Vec::new(),
        refusal: String::new(),
        warnings: Vec::new(),
    };
    let known: Vec<(String, &OperationCost)> =
        document.configurations.iter().filter_map(|of| only_operation(document, of)).collect();
    for (name, rate_per_s) in &goal.rates {
        let Some((_, cost)) = known.iter().find(|(known, _)| known == name) else {
            let names: Vec<&str> = known.iter().map(|(known, _)| known.as_str()).collect();
            price.refusal = match names.is_empty() {
                true => {
                    "no configuration has one operation alone; measure each operation of the mix in its own"
                        .into()
                }
                false => format!("`{name}` was not measured alone; the run has {}", names.join(", ")),
            };
            price.operations.clear();
            return price;
        };
        if *rate_per_s > EXTRAPOLATED * cost.rate_per_s {
            price.warnings.push(format!(
                "{} of {name} is extrapolated: {} were measured",
                words::per_s(*rate_per_s),
                words::per_s(cost.rate_per_s)
            ));
        }
        price.operations.push(PricedOperation {
            operation: name.clone(),
            rate_per_s: *rate_per_s,
            measured_per_s: cost.rate_per_s,
            each: PricedResource::ALL.into_iter().filter_map(|of| Some((of, each(cost, of)?))).collect(),
        });
    }
    for resource in PricedResource::ALL {
        let of = |operation: &PricedOperation| {
            let (_, each) = operation.each.iter().find(|(of, _)| *of == resource)?;
            Some(each * operation.rate_per_s)
        };
        let parts: Vec<f64> = price.operations.iter().filter_map(of).collect();
        if parts.is_empty() {
            continue;
        }
        if resource == PricedResource::Cpus && parts.len() < price.operations.len() {
            price.warnings.push(
                "the CPU time of the server is not known for every operation: watch its process with process:NAME".into(),
            );
        }
        let for_load: f64 = parts.iter().sum();
        price.needs.push(PricedNeed { resource, for_load, with_headroom: for_load / PLANNED_UTILIZATION });
    }
    if !price.needs.iter().any(|need| need.resource == PricedResource::Cpus) {
        price
            .warnings
            .push("no process of the system under test was watched: add process:NAME to `watch`".into());
    }
    price
}

/// The only operation of a configuration, and what it costs.
fn only_operation<'a>(
    document: &ResultDocument,
    of: &'a Configuration,
) -> Option<(String, &'a OperationCost)> {
    let trial = document.trials.iter().find(|trial| of.trials.contains(&trial.trial))?;
    let mut names =
        trial.operations.iter().map(|operation| &operation.name).filter(|name| **name != Operation::All);
    let (name, None) = (names.next()?, names.next()) else { return None };
    let cost = of.costs.iter().find(|cost| cost.operation == *name || cost.operation == Operation::All)?;
    Some((name.to_string(), cost))
}

/// What one operation costs of a resource; none if that was not measured.
fn each(cost: &OperationCost, resource: PricedResource) -> Option<f64> {
    let sum = |kinds: &[CostKind], is_owner: fn(&CostOwner) -> bool| {
        let parts = cost.parts.iter().filter(|part| kinds.contains(&part.kind) && is_owner(&part.of));
        parts.map(|part| part.each.value).reduce(|sum, value| sum + value)
    };
    match resource {
        PricedResource::Cpus => {
            sum(&[CostKind::UserCpu, CostKind::SystemCpu], |owner| matches!(owner, CostOwner::Process(_)))
        }
        PricedResource::DeviceRequests => {
            sum(&[CostKind::Reads, CostKind::Writes, CostKind::Flushes], |owner| {
                matches!(owner, CostOwner::Device(_))
            })
        }
        PricedResource::DeviceBytes => {
            sum(&[CostKind::ReadBytes, CostKind::WrittenBytes], |owner| matches!(owner, CostOwner::Device(_)))
        }
        PricedResource::NetworkBytes => {
            let of = |kind| sum(&[kind], |owner| matches!(owner, CostOwner::Host));
            let (received, sent) = (of(CostKind::ReceivedBytes), of(CostKind::SentBytes));
            received.into_iter().chain(sent).reduce(f64::max)
        }
    }
}
