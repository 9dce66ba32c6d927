//! `[runs]`: named lists of steps.

use std::ops::Range;

use toml::de::DeValue;

use super::part::{Part, Reader, span_in};
use super::suggestion::one_of;
use super::{AgentConfig, RunProfile, Step, StepKind};
use crate::statistics::COMPLAINTS;

impl Reader {
    pub(super) fn runs(&mut self, root: &Part<'_>, agents: &[AgentConfig]) -> Vec<RunProfile> {
        let Some(part) = self.part(root, "runs") else { return Vec::new() };
        let mut runs = Vec::new();
        for (name, value) in part.entries() {
            // A run with mistakes is known too, so that a schedule may name it.
            let mut run = RunProfile {
                name: name.get_ref().to_string(),
                steps: Vec::new(),
                stop_after: Vec::new(),
                span: name.span(),
            };
            let mut steps = Some(value);
            if let DeValue::Table(table) = value.get_ref() {
                let whole = Part::new(table, format!("the run `{}`", run.name), name.span());
                self.keys(&whole, &["steps", "stop_after"]);
                run.stop_after = self.outcomes(&whole);
                if whole.lacks("steps") {
                    let help = "write steps = [\"AGENT full-import\", \"AGENT delta-synchronization\"]";
                    self.wrong(name.span(), format!("{} has no `steps`", whole.what), help);
                }
                steps = whole.get("steps");
            }
            match steps.map(|steps| (steps, steps.get_ref())) {
                None => {}
                Some((_, DeValue::Array(listed))) => {
                    let texts =
                        listed.iter().filter_map(|step| Some((self.as_text(step, "step")?, step.span())));
                    let texts: Vec<(String, Range<usize>)> = texts.collect();
                    run.steps =
                        texts.iter().filter_map(|(text, span)| self.step(text, span, agents)).collect();
                }
                Some((steps, _)) => {
                    let help = "write [\"AGENT full-import\", \"AGENT delta-synchronization\"]";
                    self.wrong(steps.span(), format!("the run `{}` is not a list of steps", run.name), help);
                }
            }
            runs.push(run);
        }
        runs
    }

    /// `"AGENT STEP"`.
    fn step(&mut self, text: &str, span: &Range<usize>, agents: &[AgentConfig]) -> Option<Step> {
        let kind_of =
            |name: &str| StepKind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let (first, second) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let second = second.trim();
        if kind_of(first).is_some() && kind_of(second).is_none() {
            let agent = if second.is_empty() { "AGENT" } else { second };
            self.wrong(
                span.clone(),
                format!("the step {text:?} has no agent in front"),
                format!("write \"{agent} {first}\""),
            );
            return None;
        }
        let agent = self.agent_named(first, span, agents);
        let Some(kind) = kind_of(second) else {
            let all = StepKind::NAMES.map(|(name, _)| name);
            let what = match second {
                "" => format!("the step {text:?} does not say what to do"),
                _ => format!("there is no step {second:?}"),
            };
            let help = match second {
                "import" => "write full-import, or delta-import".into(),
                "sync" | "synchronize" | "synchronization" | "synchronisation" => {
                    "write delta-synchronization, or full-synchronization".into()
                }
                _ => one_of(second, &all),
            };
            self.wrong(span.clone(), what, help);
            return None;
        };
        let agent = agent?;
        if let (StepKind::DeltaImport, Err(help)) = (kind, agents[agent].system.has_delta_import()) {
            self.wrong(span.clone(), format!("[agents.{first}] cannot import only what changed"), help);
        }
        Some(Step { agent, kind })
    }

    /// The outcomes that end a run.
    fn outcomes(&mut self, run: &Part<'_>) -> Vec<&'static str> {
        let mut all = Vec::new();
        for text in self.texts(run, "stop_after") {
            match COMPLAINTS.iter().find(|outcome| **outcome == text) {
                Some(outcome) => all.push(*outcome),
                None => {
                    let what = format!("there is no outcome {text:?} after which a run could go on");
                    self.wrong(span_in(run, "stop_after", &text), what, one_of(&text, &COMPLAINTS));
                }
            }
        }
        all
    }
}
