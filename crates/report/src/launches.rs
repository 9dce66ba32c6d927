//! The launches of a command as a table, and in the JSON and Markdown that hyperfine writes.

use model::cost::CostKind;
use model::quantity::three_figures;
use model::result::{Configuration, LaunchSummary};
use model::{Level, ResultDocument, Study};
use serde_json::{Value, json};

use crate::json::escaped_json;
use crate::labels;
use crate::table::{Cell, Table};
use crate::text::{Quantity, Scale, visible};

/// The launches of a command: time, CPU time and memory of one, a row for each configuration. None of another workload.
pub(crate) fn table(document: &ResultDocument) -> Option<Table> {
    let known: Vec<(usize, &LaunchSummary)> = document
        .configurations
        .iter()
        .enumerate()
        .filter_map(|(at, each)| Some((at, each.launches.as_ref()?)))
        .collect();
    let shortest = known.iter().map(|(_, of)| of.mean_ms).reduce(f64::min)?;
    let times = known.iter().flat_map(|(_, of)| [of.mean_ms, of.max_ms]);
    let time = Quantity::Milliseconds.scale(times);
    let memory = Quantity::Bytes.scale(known.iter().filter_map(|(_, of)| Some(of.peak_bytes? as f64)));
    let is_compared = known.len() > 1;
    let [mean, min, max, user, system] = ["mean", "min", "max", "user", "system"].map(|name| {
        format!(">{name}{}", if name == "mean" { format!(", {}", time.unit) } else { String::new() })
    });
    let peak = format!(">peak memory, {}", memory.unit);
    let corner = match labels::corner(document) {
        "" => "configuration",
        corner => corner,
    };
    let mut heads = vec![if is_compared { corner } else { "" }, mean.as_str(), min.as_str(), max.as_str()];
    heads.extend([user.as_str(), system.as_str()]);
    let has_peak = known.iter().any(|(_, of)| of.peak_bytes.is_some());
    heads.extend(has_peak.then_some(peak.as_str()));
    heads.push(">launches");
    heads.extend(is_compared.then_some(">relative"));
    let mut table = Table::new("", &heads);
    for (at, of) in known {
        let number = |value: Option<f64>, scale: &Scale| {
            value.map_or_else(|| Cell::words("-"), |value| Cell::number(value, scale))
        };
        let mean = match of.deviation_ms {
            Some(deviation) => {
                let spread = time.spread_of(of.mean_ms, deviation);
                number(Some(of.mean_ms), &time).then(Cell::words(" ± ")).then(Cell::shown(deviation, spread))
            }
            None => number(Some(of.mean_ms), &time),
        };
        let name = match () {
            () if !is_compared => String::new(),
            () if labels::by_letter(document) => labels::configuration(document, at),
            () => labels::head(document, at),
        };
        let mut cells =
            vec![Cell::words(name), mean, number(Some(of.min_ms), &time), number(Some(of.max_ms), &time)];
        cells.extend([number(of.user_ms, &time), number(of.system_ms, &time)]);
        cells.extend(has_peak.then(|| number(of.peak_bytes.map(|bytes| bytes as f64), &memory)));
        cells.push(Cell::shown(of.launches as f64, of.launches.to_string()));
        if is_compared {
            cells.push(Cell::words(format!("x {}", three_figures(of.mean_ms / shortest))));
        }
        table.row(cells);
    }
    Some(table)
}

/// A configuration's command as it is typed.
fn command(document: &ResultDocument, configuration: &Configuration) -> String {
    let trial = document.trials.iter().find(|trial| configuration.trials.contains(&trial.trial));
    match trial.and_then(|trial| trial.facts.get("command")) {
        Some(Level::Text(command)) => command.clone(),
        _ => configuration.treatment.label.clone(),
    }
}

fn summaries(document: &ResultDocument) -> Vec<(String, &Configuration, &LaunchSummary)> {
    let known = document.configurations.iter();
    known.filter_map(|each| Some((command(document, each), each, each.launches.as_ref()?))).collect()
}

/// The launches as `hyperfine --export-json` writes them, times in seconds; none where no command was launched. Source:
/// hyperfine 1.19, its manual and the files it writes.
pub fn hyperfine_json(document: &ResultDocument, study: &Study) -> Option<String> {
    let results: Vec<Value> = summaries(document)
        .into_iter()
        .map(|(command, configuration, of)| {
            let trials =
                study.runs.iter().filter(|record| configuration.trials.contains(&record.run.trial.id()));
            let launches = model::launch::measured(trials);
            let memory: Vec<Option<u64>> =
                launches.iter().map(|launch| launch.usage.used.get(&CostKind::PeakBytes).copied()).collect();
            let mut result = json!({
                "command": command,
                "mean": of.mean_ms / 1e3,
                "stddev": of.deviation_ms.map(|deviation| deviation / 1e3),
                "median": of.median_ms / 1e3,
                "user": of.user_ms.map(|user| user / 1e3),
                "system": of.system_ms.map(|system| system / 1e3),
                "min": of.min_ms / 1e3,
                "max": of.max_ms / 1e3,
                "times": launches.iter().map(|launch| launch.time as f64 / 1e9).collect::<Vec<f64>>(),
                "exit_codes": vec![0; launches.len()],
            });
            if memory.iter().all(Option::is_some) {
                result["memory_usage_byte"] = json!(memory);
            }
            result
        })
        .collect();
    let text = serde_json::to_string_pretty(&json!({ "results": results })).unwrap_or_default();
    (!results.is_empty()).then(|| escaped_json(&text) + "\n")
}

/// The launches as `hyperfine --export-markdown` writes them; none where no command was launched.
pub fn hyperfine_markdown(document: &ResultDocument) -> Option<String> {
    let known = summaries(document);
    let fastest = known.iter().map(|(.., of)| *of).min_by(|a, b| a.mean_ms.total_cmp(&b.mean_ms))?;
    let time = Quantity::Milliseconds.scale(known.iter().map(|(.., of)| of.max_ms));
    let unit = time.unit;
    let mut out = format!(
        "| Command | Mean [{unit}] | Min [{unit}] | Max [{unit}] | Relative |\n|:---|---:|---:|---:|---:|\n"
    );
    let spread = |of: &LaunchSummary| of.deviation_ms.unwrap_or(0.0) / of.mean_ms;
    for (command, _, of) in &known {
        let deviation = of
            .deviation_ms
            .map_or(String::new(), |value| format!(" ± {}", time.spread_of(of.mean_ms, value)));
        let ratio = of.mean_ms / fastest.mean_ms;
        let relative = match std::ptr::eq(*of, fastest) {
            true => "1.00".into(),
            // Both means scatter.
            false => format!("{ratio:.2} ± {:.2}", ratio * spread(of).hypot(spread(fastest))),
        };
        out.push_str(&format!(
            "| `{}` | {}{deviation} | {} | {} | {relative} |\n",
            visible(command).replace('|', "\\|"),
            time.number(of.mean_ms),
            time.number(of.min_ms),
            time.number(of.max_ms),
        ));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn launches_are_exported_as_hyperfine_writes_them() {
        let recorded = recorded::run("exec");
        let text = hyperfine_json(&recorded.document, &recorded.study).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let result = &json["results"][0];
        let times: Vec<f64> = result["times"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        let summary = recorded.document.configurations[0].launches.clone().unwrap();
        assert_eq!(times.len() as u64, summary.launches);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((result["mean"].as_f64().unwrap() - mean).abs() < 1e-9, "{result}");
        assert!((summary.mean_ms / 1e3 - mean).abs() < 1e-9);
        let least = times.iter().copied().fold(f64::MAX, f64::min);
        assert!((result["min"].as_f64().unwrap() - least).abs() < 1e-9);
        let markdown = hyperfine_markdown(&recorded.document).unwrap();
        let lines: Vec<&str> = markdown.lines().collect();
        assert_eq!(lines.len(), 3, "{markdown}");
        assert_eq!(lines[0], "| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |");
        assert!(lines[2].starts_with("| `") && lines[2].ends_with(" | 1.00 |"), "{markdown}");
        // Another workload launches nothing.
        let other = recorded::run("users");
        assert_eq!(hyperfine_json(&other.document, &other.study), None);
        assert_eq!(hyperfine_markdown(&other.document), None);
    }
}
