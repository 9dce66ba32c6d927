//! Run profiles as runs.

use super::Kind;
use super::convert::{Converter, plain_name};
use super::export::Profile;
use super::write::{key, list};

impl Converter<'_> {
    /// A run profile of an agent with its steps; none if it has a step without an equivalent.
    pub(super) fn profile(&mut self, agent: &str, profile: &Profile, has_delta: bool) -> Option<String> {
        let mut steps: Vec<String> = Vec::new();
        let mut why = None;
        let mut is_full_instead = false;
        for step in &profile.steps {
            let rules = match step.rules.as_deref() {
                Some("reevaluate-flow-connectors") => "full-synchronization",
                _ => "delta-synchronization",
            };
            let import = match step.kind.starts_with("delta") && has_delta {
                true => "delta-import",
                false => "full-import",
            };
            is_full_instead |= step.kind.starts_with("delta") && !has_delta;
            let kinds: &[&str] = match step.kind.as_str() {
                _ if step.with_file => {
                    why = Some("a step reads or writes a file of its own".to_string());
                    &[]
                }
                "apply-rules" => &[rules],
                "export" => &["export"],
                "full-import" | "delta-import" if step.only_stages => &[import],
                "full-import" | "delta-import" => &[import, "delta-synchronization"],
                "full-import-reevaluate-rules" => &["full-import", "full-synchronization"],
                other => {
                    why = Some(format!("there is no step like {other}"));
                    &[]
                }
            };
            steps.extend(kinds.iter().map(|kind| format!("{agent} {kind}")));
        }
        if steps.is_empty() {
            why.get_or_insert_with(|| "it has no steps".into());
        }
        self.counts.profiles.add(why.is_none());
        if let Some(why) = why {
            let what = format!("the run profile \"{}\" of {agent}: {why}", profile.name);
            self.note(&profile.place, Kind::NotConverted, what, "");
            return None;
        }
        if is_full_instead {
            let what = format!(
                "the run profile \"{}\" of {agent} has delta imports, which need `delta` in its agent",
                profile.name
            );
            self.note(&profile.place, Kind::Review, what, "a full import replaces them");
        }
        Some(format!("{} = {}", key(&format!("{agent}-{}", plain_name(&profile.name))), list(&steps)))
    }
}
