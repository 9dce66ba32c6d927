//! The JSON Schema of experiment files, for completion and validation in editors. It is derived from the same
//! tables as the parser.

use serde_json::{Map, Value, json};

use super::machines::MACHINE_SETTINGS;
use super::read::{
    CHANGES, DEPENDENCIES, DEPENDENCY_KEYS, FIGURES, GATE, LIMITS, MACHINES, PUBLISHED_KEYS, TIMES, TOP,
};
use super::target::{ENVIRONMENT, TARGET_SETTINGS};
use super::{ParameterInfo, Vocabulary};
use crate::gate::GATE_SETTINGS;
use crate::load::LOAD_SETTINGS;
use crate::{SettingInfo, SettingKind};

/// The schema (draft 2020-12) of the experiments that this build supports.
pub fn schema(vocabulary: &Vocabulary) -> Value {
    let mut top = properties(TOP);
    let text = json!({ "type": "string" });
    let mut target = properties(TARGET_SETTINGS);
    let variable = json!({ "type": ["string", "number", "boolean"] });
    target.insert(
        ENVIRONMENT.into(),
        json!({ "description": "Environment variables of the target.", "type": "object", "additionalProperties": variable }),
    );
    top.insert(
        "target".into(),
        object("The system under test: started by Plimsoll, or already running.", target),
    );
    if vocabulary.machine.is_some() {
        top.insert(
            MACHINES.into(),
            object(
                "Other machines that take part, reached by ssh or a command.",
                properties(MACHINE_SETTINGS),
            ),
        );
    }
    if vocabulary.dependency_factor().is_some() {
        top.insert(DEPENDENCIES.into(), dependencies());
    }
    let workloads: Map<String, Value> = vocabulary
        .workloads
        .iter()
        .map(|info| (info.name.to_string(), object(info.about, properties(info.settings))))
        .collect();
    let mut workload = object("The workload: one table with the name of its kind.", workloads);
    workload["minProperties"] = json!(1);
    workload["maxProperties"] = json!(1);
    top.insert("workload".into(), workload);
    top.insert("load".into(), object("The load.", properties(LOAD_SETTINGS)));
    let mut vary = Map::new();
    let factor = |about: &str, kind: SettingKind, parameters: &[ParameterInfo], of_dependency: bool| {
        let level = kind_schema(kind);
        let levels = json!({ "anyOf": [
            { "type": "array", "items": level, "minItems": 1 },
            level,
            { "description": "A range of levels, such as \"1..16\".", "type": "string", "pattern": "^[^.].*\\.\\." },
        ] });
        let mut parts = json!({ "baseline": level, "levels": levels, "on": text });
        let mut required = vec!["levels"];
        for parameter in parameters {
            parts[parameter.name] = json!({ "description": parameter.about, "type": "string" });
            // What [dependencies] has is not repeated.
            required.extend((parameter.needed && !of_dependency).then_some(parameter.name));
        }
        json!({ "description": about, "type": "object", "properties": parts, "required": required, "additionalProperties": false })
    };
    let mut named = Map::new();
    for info in &vocabulary.factors {
        let described = factor(info.about, info.kind, info.parameters, info.of_dependency);
        if info.named {
            named.insert(format!("^{}\\..+$", info.path.replace('.', "\\.")), described.clone());
        }
        vary.insert(info.path.into(), described);
    }
    for info in LOAD_SETTINGS {
        vary.insert(format!("load.{}", info.name), factor(info.about, info.kind, &[], false));
    }
    for info in super::target::varied() {
        vary.insert(format!("target.{}", info.name), factor(info.about, info.kind, &[], false));
    }
    for workload in &vocabulary.workloads {
        for info in workload.settings {
            vary.insert(format!("workload.{}", info.name), factor(info.about, info.kind, &[], false));
        }
    }
    let mut varied = object("The varied settings: each path with its baseline and levels.", vary);
    if !named.is_empty() {
        varied["patternProperties"] = Value::Object(named);
    }
    top.insert("vary".into(), varied);
    top.insert(
        GATE.into(),
        object(
            "A gate: whether the one change in [vary] makes the system slower.",
            properties(GATE_SETTINGS),
        ),
    );
    let rates = json!({ "description": "Operations per second by the level of the factor.", "type": "object", "additionalProperties": { "type": "number" } });
    let mut published: Map<String, Value> = [
        ("name", "Title of the measurement."),
        ("source", "The source."),
        ("factor", "The varied setting of the rates."),
    ]
    .into_iter()
    .map(|(key, about)| (key.to_string(), json!({ "description": about, "type": "string" })))
    .collect();
    for workload in &vocabulary.workloads {
        published.extend(workload.operations.iter().map(|name| (name.to_string(), rates.clone())));
    }
    published.insert(
        FIGURES.into(),
        json!({ "description": "Figures without a factor, by name: OPERATION.rate_per_s, OPERATION.busy_s or a counter.", "type": "object", "additionalProperties": { "type": ["number", "string"] } }),
    );
    published.insert(
        CHANGES.into(),
        json!({ "description": "Changes against a baseline in percent, such as \"+44%\", by name: rate_per_s or OPERATION.rate_per_s.", "type": "object", "additionalProperties": { "type": "string" } }),
    );
    published.insert(
        LIMITS.into(),
        json!({ "description": "The largest loads that meet a goal, by the level of the factor, such as \"12..15\".", "type": "object", "additionalProperties": { "type": "object", "additionalProperties": { "type": ["string", "number"] } } }),
    );
    published.insert(
        TIMES.into(),
        json!({ "description": "Response times, such as \"response.p50\", by the level of the factor: \"420ms\" or \"1500ms..2200ms\".", "type": "object", "additionalProperties": { "type": "object", "additionalProperties": text } }),
    );
    let mut published = object("Published figures.", published);
    published["required"] = json!(PUBLISHED_KEYS[..2]);
    top.insert(
        "published".into(),
        json!({ "description": "Published figures to compare with the measurements.", "type": "array", "items": published }),
    );
    let mut schema = object("An experiment of Plimsoll.", top);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Plimsoll experiment");
    schema["required"] = json!(["workload"]);
    schema
}

/// `[dependencies]`: addresses by name.
fn dependencies() -> Value {
    let [address, listen] = DEPENDENCY_KEYS;
    let text = json!({ "type": "string", "examples": ["ldap://127.0.0.1:3389", "db1:5432"] });
    let parts = [
        (address, "Its address: a URL, or host and port."),
        (
            listen,
            "Where its proxy listens, for a system that cannot be configured. Default: a free port of 127.0.0.1.",
        ),
    ];
    let parts: Map<String, Value> = parts
        .into_iter()
        .map(|(key, about)| (key.into(), json!({ "description": about, "type": "string" })))
        .collect();
    let mut table = object("A dependency.", parts);
    table["required"] = json!([address]);
    json!({
        "description": "Systems that the system under test depends on. A proxy stands before each.",
        "type": "object",
        "additionalProperties": { "anyOf": [text, table] },
    })
}

fn object(about: &str, properties: Map<String, Value>) -> Value {
    json!({ "description": about, "type": "object", "properties": properties, "additionalProperties": false })
}

fn properties(table: &[SettingInfo]) -> Map<String, Value> {
    table
        .iter()
        .map(|info| {
            let mut schema = kind_schema(info.kind);
            schema["description"] = json!(info.about);
            if !info.default.is_empty() {
                schema["default"] = json!(info.default);
            }
            (info.name.to_string(), schema)
        })
        .collect()
}

fn kind_schema(kind: SettingKind) -> Value {
    match kind {
        SettingKind::Flag => json!({ "type": "boolean" }),
        SettingKind::Count { min, max } => match max {
            u64::MAX => json!({ "type": "integer", "minimum": min }),
            max => json!({ "type": "integer", "minimum": min, "maximum": max }),
        },
        SettingKind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        SettingKind::Choice(words) => json!({ "enum": words }),
        SettingKind::Percent => json!({ "type": ["string", "number"], "examples": ["70%"] }),
        SettingKind::Bytes => json!({ "type": "string", "examples": ["64KiB"] }),
        SettingKind::Sizes => json!({ "type": "string", "examples": ["64KiB", "4KiB 70%, 64KiB 30%"] }),
        SettingKind::Time => json!({ "type": "string", "examples": ["30s"] }),
        SettingKind::TimeOr(word) => json!({ "type": "string", "examples": ["30s", word] }),
        SettingKind::Rate => json!({ "type": "string", "examples": ["2000/s"] }),
        SettingKind::IoLimit => {
            json!({ "type": "string", "examples": ["500/s", "20MB/s", "read 400/s and write 5MiB/s", "unlimited"] })
        }
        SettingKind::CpuLimit => {
            json!({ "type": ["number", "string"], "examples": [0.5, "50%", "unlimited"] })
        }
        SettingKind::MemoryLimit => json!({ "type": "string", "examples": ["512MiB", "unlimited"] }),
        SettingKind::Value => json!({ "type": ["string", "number", "boolean"] }),
        SettingKind::Text | SettingKind::Path(_) | SettingKind::Secret(_) => {
            json!({ "type": ["string", "integer"] })
        }
        SettingKind::Texts | SettingKind::Paths(_) | SettingKind::Secrets(_) => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }, { "type": "array", "items": { "type": ["string", "integer"] } }] })
        }
    }
}
