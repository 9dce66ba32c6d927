//! How a step ended.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::agent::DiscoveryError;
use crate::observer::{GroupKey, ObservedErrors, StepSoFar, group_of};
use crate::statistics::Statistics;
use crate::store::ObjectError;

/// Up to this many equal errors, each has a line of its own.
const LISTED_MAX: u64 = 3;
/// Limit of the lines with errors.
const LINES_MAX: usize = 100;

/// How a step ended.
#[derive(Debug, Default)]
pub struct StepResult {
    /// Counters.
    pub statistics: Statistics,
    /// The first discovery errors of the source.
    pub discovery_errors: Vec<DiscoveryError>,
    /// The first objects that could not be synchronized or exported, with the reasons.
    pub failures: Vec<ObjectError>,
    /// What an administrator should know, and what is no error.
    pub notes: Vec<String>,
    /// All errors in groups of equal ones, the largest group first.
    pub groups: Vec<ObservedErrors>,
    /// The number of errors in further groups.
    pub more_errors: u64,
}

impl StepResult {
    /// The outcome in the terms that operators know.
    pub fn outcome(&self) -> &'static str {
        match () {
            () if !self.discovery_errors.is_empty() => "completed-discovery-errors",
            () if self.statistics.of("export-failure") > 0 => "completed-export-errors",
            () if self.statistics.of("existing-object") > 0 => "completed-warnings",
            () if !self.failures.is_empty() => "completed-sync-errors",
            () if self.statistics.of("export-held") > 0 => "completed-warnings",
            () if self.statistics.of("exported-change-not-reimported") > 0 => "completed-warnings",
            () if self.statistics.iter().next().is_none() => "completed-no-objects",
            () => "success",
        }
    }

    /// The result with the errors that were observed during the step.
    pub(super) fn with_errors(self, observed: StepSoFar) -> StepResult {
        let StepSoFar { errors: mut groups, more_errors, .. } = observed;
        groups.sort_by_key(|group| Reverse(group.count));
        StepResult { groups, more_errors, ..self }
    }

    /// The errors, one line for each: a few equal ones each with its object, more of them together with an example.
    /// Then the notes. Empty if there are none.
    pub fn reported(&self) -> String {
        let kept = self.errors();
        let mut of_groups: HashMap<GroupKey, Vec<&ObjectError>> = HashMap::new();
        kept.iter().for_each(|error| of_groups.entry(group_of(error)).or_default().push(error));
        let mut lines = Vec::new();
        let mut more = self.more_errors;
        for group in &self.groups {
            // The text of an example is that of its group already.
            let ObjectError { kind, attribute, text, .. } = &group.example;
            let key = (kind.to_string(), attribute.clone(), text.clone());
            let of_group = of_groups.remove(&key).unwrap_or_default();
            let is_listed = group.count <= LISTED_MAX && of_group.len() as u64 == group.count;
            match is_listed {
                _ if lines.len() >= LINES_MAX => more += group.count,
                true => lines.extend(of_group.into_iter().map(|error| self.line(error))),
                false => {
                    let example = of_group.first().copied().unwrap_or(&group.example);
                    let of = example.attribute.as_ref().map_or(String::new(), |name| format!(" of {name}"));
                    let count = thousands(group.count);
                    lines.push(format!("{count} x {}{of}, such as {}", example.kind, self.line(example)));
                }
            }
        }
        if more > 0 {
            lines.push(format!("and {} more", thousands(more)));
        }
        lines.extend(self.notes.iter().cloned());
        if !self.discovery_errors.is_empty() {
            lines.push(
                "because of these errors, nothing counts as deleted, and a delta import reads the same changes again".into(),
            );
        }
        lines.iter().map(|line| line.replace(['\n', '\r'], " ")).collect::<Vec<_>>().join("\n")
    }

    /// An error with its object, and its kind if the source has it.
    fn line(&self, error: &ObjectError) -> String {
        match self.discovery_errors.is_empty() {
            true => format!("{}: {}", error.object, error.text),
            false => format!("{}: {}: {}", error.object, error.kind, error.text),
        }
    }

    /// All errors that were kept for display, in parts.
    pub fn errors(&self) -> Vec<ObjectError> {
        let of_source = self.discovery_errors.iter().map(ObjectError::from);
        of_source.chain(self.failures.iter().cloned()).collect()
    }
}

/// A count with its digits grouped: `61,200`.
fn thousands(count: u64) -> String {
    match count / 1000 {
        0 => count.to_string(),
        more => format!("{},{:03}", thousands(more), count % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Observer;

    fn failed(at: u64, text: &str) -> ObjectError {
        ObjectError {
            object: format!("person {at}"),
            kind: "flow-failure".into(),
            attribute: Some("age".into()),
            text: text.into(),
        }
    }

    #[test]
    fn many_equal_errors_are_one_line_and_a_few_are_listed() {
        let (observer, mut result) = (Observer::new(), StepResult::default());
        let one = |at| failed(at, &format!("`age` cannot be \"{at}y\": no whole number"));
        let errors = [failed(0, "busy"), failed(1, "busy")].into_iter().chain((2..1502).map(one));
        for (at, error) in errors.enumerate() {
            observer.failed(|| error.clone());
            if at < 100 {
                result.failures.push(error);
            }
        }
        let reported = result.with_errors(observer.so_far()).reported();
        assert_eq!(
            reported,
            "1,500 x flow-failure of age, such as person 2: `age` cannot be \"2y\": no whole number\n\
             person 0: busy\nperson 1: busy"
        );
    }
}
