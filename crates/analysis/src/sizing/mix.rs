//! What a mix of operations needs: from runs in which each of them was measured alone, or from the trace of a server that
//! had several of them.

use model::cost::{CostKind, CostOwner, OperationCost};
use model::mix_price::{MIX_PRICE_FORMAT, PricedNeed, PricedOperation, PricedResource};
use model::operation_io::{IoKind, MixGoal, OperationIoCost, ServerOperationIo};
use model::result::{Configuration, ResultDocument};
use model::{MixPrice, Operation};

use super::PLANNED_UTILIZATION;
use crate::words;

/// A rate beyond this multiple of the measured one is an extrapolation.
const EXTRAPOLATED: f64 = 1.25;

/// Prices a mix. Each of its operations must have been measured alone, or traced. What was measured alone comes first: it
/// has all resources, a trace has only the device.
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
    let alone = document.configurations.iter().filter_map(|of| only_operation(document, of));
    let alone: Vec<Known> = alone.map(|(name, cost)| known_alone(name, cost)).collect();
    // In another configuration an operation may cost something else.
    let traces = document.configurations.first().map_or(&[][..], |baseline| &baseline.operation_io);
    let traced = |trace: &ServerOperationIo| trace.io.costs.iter().map(known_traced).collect::<Vec<Known>>();
    let traced: Vec<Known> = traces.iter().flat_map(traced).collect();
    let mut from_trace: Vec<(String, f64)> = Vec::new();
    for (name, rate_per_s) in &goal.rates {
        let is_wanted = |known: &&Known| known.name == *name;
        let Some(known) = alone.iter().chain(&traced).find(is_wanted) else {
            let mut names: Vec<&str> = alone.iter().chain(&traced).map(|known| known.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            price.refusal = match names.is_empty() {
                true => "no configuration has one operation alone; measure each operation of the mix in its own, or \
                         trace the server with operation_io:NAME in `watch`"
                    .into(),
                false => {
                    format!("`{name}` was neither measured alone nor traced; the run has {}", names.join(", "))
                }
            };
            price.operations.clear();
            return price;
        };
        if !alone.iter().any(|known| known.name == *name) {
            from_trace.push((name.clone(), *rate_per_s));
        } else if *rate_per_s > EXTRAPOLATED * known.rate_per_s {
            price.warnings.push(format!(
                "{} of {name} is extrapolated: {} were measured",
                words::per_s(*rate_per_s),
                words::per_s(known.rate_per_s)
            ));
        }
        price.operations.push(PricedOperation {
            operation: name.clone(),
            rate_per_s: *rate_per_s,
            measured_per_s: known.rate_per_s,
            each: known.each.clone(),
        });
    }
    for trace in traces {
        let of_trace = |(name, _): &&(String, f64)| trace.io.costs.iter().any(|cost| cost.operation == *name);
        let rates: Vec<(String, f64)> = from_trace.iter().filter(of_trace).cloned().collect();
        if !rates.is_empty() {
            let goal = MixGoal { text: goal.text.clone(), rates };
            price.warnings.extend(crate::operation_io::doubts(&trace.io, &goal));
        }
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
        // The rest of the operations would be priced as if they needed nothing.
        if parts.len() < price.operations.len() {
            price.warnings.push(format!(
                "{} not known for every operation: measure each of them alone",
                match resource {
                    PricedResource::Cpus => "the CPU time of the server is",
                    PricedResource::NetworkBytes => "bytes on the network are",
                    PricedResource::DeviceRequests | PricedResource::DeviceBytes =>
                        "requests to the disk are",
                }
            ));
            continue;
        }
        let for_load: f64 = parts.iter().sum();
        price.needs.push(PricedNeed { resource, for_load, with_headroom: for_load / PLANNED_UTILIZATION });
    }
    let has_cpus =
        |operation: &PricedOperation| operation.each.iter().any(|(of, _)| *of == PricedResource::Cpus);
    if !price.operations.iter().any(has_cpus) {
        price.warnings.push(match from_trace.len() < price.operations.len() {
            true => "no process of the system under test was watched: add process:NAME to `watch`".into(),
            false => "the CPU time and the bytes on the network of one operation are not known: measure each operation \
                      alone"
                .to_string(),
        });
    }
    price
}

/// An operation whose cost is known.
struct Known {
    name: String,
    rate_per_s: f64,
    each: Vec<(PricedResource, f64)>,
}

fn known_alone(name: String, cost: &OperationCost) -> Known {
    let each = PricedResource::ALL.into_iter().filter_map(|of| Some((of, each(cost, of)?))).collect();
    Known { name, rate_per_s: cost.rate_per_s, each }
}

fn known_traced(cost: &OperationIoCost) -> Known {
    let sum = |kinds: &[IoKind]| {
        kinds.iter().filter_map(|kind| cost.with_share.get(kind)).copied().reduce(|sum, value| sum + value)
    };
    let requests = sum(&IoKind::REQUESTS).map(|value| (PricedResource::DeviceRequests, value));
    let bytes = sum(&IoKind::BYTES).map(|value| (PricedResource::DeviceBytes, value));
    let each = requests.into_iter().chain(bytes).collect();
    Known { name: cost.operation.clone(), rate_per_s: cost.rate_per_s, each }
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
