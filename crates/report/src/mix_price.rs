//! The answer of `plimsoll size` for a mix of operations.

use model::MixPrice;
use model::mix_price::PricedResource;
use serde_json::Value;

use crate::table::{Cell, Table};
use crate::terminal::{Page, Terminal};
use crate::text::Quantity;

/// The answer as a terminal page, after the price list.
pub fn mix_price(price: &MixPrice, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(&price.experiment, std::slice::from_ref(&price.goal.text));
    if !price.operations.is_empty() {
        page.title("cost of one operation");
        page.table(&list(price));
        page.title("needed for the load");
        page.table(&needs(price));
    }
    page.gap();
    for text in &price.warnings {
        page.labelled("WARNING", text);
    }
    page.strong_label("ANSWER", &answer(price));
    page.finish()
}

/// The document with its sentence.
pub fn mix_price_json(price: &MixPrice) -> Value {
    let mut value = serde_json::to_value(price).unwrap_or_default();
    value["text"] = answer(price).into();
    value
}

fn show_each(resource: PricedResource, value: f64) -> String {
    match resource {
        PricedResource::Cpus => Quantity::Seconds.show(value),
        PricedResource::DeviceRequests => Quantity::Plain.show(value),
        PricedResource::DeviceBytes | PricedResource::NetworkBytes => Quantity::Bytes.show(value),
    }
}

fn show_need(resource: PricedResource, value: f64) -> String {
    match resource {
        PricedResource::Cpus => Quantity::Plain.show(value),
        PricedResource::DeviceRequests => Quantity::Rate("/s").show(value),
        PricedResource::DeviceBytes | PricedResource::NetworkBytes => Quantity::BytesPerSecond.show(value),
    }
}

fn name(resource: PricedResource) -> &'static str {
    match resource {
        PricedResource::Cpus => "CPU",
        PricedResource::DeviceRequests => "disk IOs",
        PricedResource::DeviceBytes => "disk bytes",
        PricedResource::NetworkBytes => "network bytes",
    }
}

fn list(price: &MixPrice) -> Table {
    let shown =
        PricedResource::ALL.into_iter().filter(|of| price.needs.iter().any(|need| need.resource == *of));
    let shown: Vec<PricedResource> = shown.collect();
    let mut heads = vec!["operation".to_string()];
    heads.extend(shown.iter().map(|of| format!(">{}", name(*of))));
    heads.extend([">measured at".into(), ">needed".into()]);
    let mut table = Table::new("", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for operation in &price.operations {
        let mut cells = vec![Cell::words(operation.operation.clone())];
        for resource in &shown {
            let each = operation.each.iter().find(|(of, _)| of == resource);
            cells.push(
                each.map_or_else(
                    || Cell::words("-"),
                    |(of, value)| Cell::shown(*value, show_each(*of, *value)),
                ),
            );
        }
        for rate in [operation.measured_per_s, operation.rate_per_s] {
            cells.push(Cell::shown(rate, Quantity::Rate("/s").show(rate)));
        }
        table.row(cells);
    }
    table
}

fn needs(price: &MixPrice) -> Table {
    let planned = format!(">at {:.0} % utilization", 100.0 * price.planned_share);
    let mut table = Table::new("", &["resource", ">for the load", &planned]);
    for need in &price.needs {
        let name = match need.resource {
            PricedResource::Cpus => "CPUs",
            PricedResource::NetworkBytes => "network, in the direction with more",
            other => name(other),
        };
        table.row(vec![
            Cell::words(name),
            Cell::shown(need.for_load, show_need(need.resource, need.for_load)),
            Cell::shown(need.with_headroom, show_need(need.resource, need.with_headroom)),
        ]);
    }
    table
}

fn answer(price: &MixPrice) -> String {
    if !price.refusal.is_empty() {
        return format!("None: {}.", price.refusal);
    }
    let needs: Vec<String> = price
        .needs
        .iter()
        .map(|need| {
            let amount = show_need(need.resource, need.with_headroom);
            match need.resource {
                PricedResource::Cpus => format!("{amount} CPUs"),
                PricedResource::DeviceRequests => format!("{} IOPS", amount.trim_end_matches("/s")),
                PricedResource::DeviceBytes => format!("{amount} of the disk"),
                PricedResource::NetworkBytes => format!("{amount} of the network"),
            }
        })
        .collect();
    format!(
        "{} needs {}, with each at most {:.0} % utilized.",
        price.goal.text,
        needs.join(", "),
        100.0 * price.planned_share
    )
}
