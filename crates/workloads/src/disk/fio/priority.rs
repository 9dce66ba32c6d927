//! I/O priorities: `prio` and `prioclass` of a job, `cmdprio` of some of its operations.

use model::{Level, quantity};

use super::super::grammar::{BlockShare, read_blocks};
use super::super::settings;
use super::sections::{Options, Reader};
use super::translate::{Draft, Order};
use super::value;

/// A part of the operations of one size, percent, and their priority.
type Part = (u64, f64, String);

/// A class with its level and hint, as [`read_blocks`] reads it; empty for class 0.
fn priority(class: u64, level: u64, hint: u64) -> Option<String> {
    let name = ["", "rt", "be", "idle"].get(class as usize)?;
    (level < 8 && hint < 1024).then(|| match (class, hint) {
        (0, _) => String::new(),
        (_, 0) => format!("{name}:{level}"),
        _ => format!("{name}:{level}:{hint}"),
    })
}

/// `64k/25/1/1:64k/75/3/2`; parts without class have the usual priority.
fn parts(text: &str, usual: &str) -> Option<Vec<Part>> {
    let part = |part: &str| {
        let fields: Vec<&str> = part.split('/').collect();
        let number = |at: usize| fields.get(at).map_or(Some(0), |field| field.parse::<u64>().ok());
        let (bytes, share) = (value::block(fields.first()?)?, number(1).filter(|share| *share <= 100)?);
        let own = match fields.len() {
            2 => usual.to_string(),
            4 | 5 => priority(number(2)?, number(3)?, number(4)?)?,
            _ => return None,
        };
        Some((bytes, share as f64, own))
    };
    text.split(':').filter(|part| !part.is_empty()).map(part).collect()
}

/// A mix of sizes where some operations have a priority of their own, and the others that of the job.
fn with_priorities(mix: &[BlockShare], parts: &[Part], of_job: &str) -> String {
    let mut out = Vec::new();
    let mut add = |bytes: u64, share: f64, priority: &str| {
        if share > 1e-9 {
            let share = (share * 1e6).round() / 1e6;
            out.push(format!("{} {share}% {priority}", quantity::bytes(bytes)).trim_end().to_string());
        }
    };
    for block in mix {
        let whole = block.share * 100.0;
        let own: Vec<&Part> = parts.iter().filter(|(bytes, ..)| *bytes == block.bytes).collect();
        for (_, share, priority) in &own {
            add(block.bytes, whole * share / 100.0, priority);
        }
        let rest = 100.0 - own.iter().map(|(_, share, _)| share).sum::<f64>();
        add(block.bytes, whole * rest / 100.0, of_job);
    }
    out.join(", ")
}

impl Reader<'_> {
    /// Puts the priorities into the mixes of sizes.
    pub(super) fn priorities(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        let of_job = self.priority_of_job(options);
        let names = ["cmdprio_percentage", "cmdprio_bssplit"];
        let asked = names.iter().any(|name| options.contains_key(name));
        if !asked {
            for name in ["cmdprio", "cmdprio_class", "cmdprio_hint"] {
                self.has_no_effect(options, name, "without cmdprio_percentage or cmdprio_bssplit");
            }
            if of_job.is_empty() {
                return;
            }
        }
        if let (Some(written), true) =
            (options.get("cmdprio_bssplit"), options.contains_key("cmdprio_percentage"))
        {
            self.problem(
                written.at,
                "`cmdprio_bssplit` and `cmdprio_percentage` contradict each other",
                "keep one of them",
            );
            return;
        }
        let writes = draft.level(settings::WRITE_BLOCK_SIZE.name).map(Level::to_string);
        let Some(reads) = draft.level(settings::BLOCK_SIZE.name).map(Level::to_string) else { return };
        let Ok(mix) = read_blocks(&reads) else { return };
        let Ok(of_writes) = writes.as_deref().map_or(Ok(mix.clone()), read_blocks) else { return };
        let (first, second) = order.directions();
        let mut texts = Vec::new();
        for (direction, mix) in [(Some(first), &mix), (second, &of_writes)] {
            let Some(direction) = direction else { continue };
            let Some(parts) = self.parts(options, direction, mix) else { return };
            texts.push(with_priorities(mix, &parts, &of_job));
        }
        if let [reads, writes] = texts.as_slice()
            && reads != writes
        {
            draft.set(settings::WRITE_BLOCK_SIZE.name, Level::Text(writes.clone()));
        }
        if let Some(text) = texts.first() {
            draft.set(settings::BLOCK_SIZE.name, Level::Text(text.clone()));
        }
    }

    /// `prioclass` and `prio`, which hold for the whole job.
    fn priority_of_job(&mut self, options: &Options) -> String {
        let of = |reader: &mut Self, name: &str, most: u64| {
            let read = |text: &str| value::number(text).filter(|number| *number <= most);
            reader.value(options, name, read, &format!("write a number from 0 to {most}"))
        };
        let (class, level) = (of(self, "prioclass", 3), of(self, "prio", 7));
        match (class, level) {
            (None, None) => String::new(),
            // Best effort is the class where none is given.
            (class, level) => priority(class.unwrap_or(2), level.unwrap_or(0), 0).unwrap_or_default(),
        }
    }

    /// The operations with a priority of their own, of reads (0) or writes (1).
    fn parts(&mut self, options: &Options, direction: usize, mix: &[BlockShare]) -> Option<Vec<Part>> {
        let of = |reader: &mut Self, name: &str, usual: u64, most: u64| {
            let read = |text: &str| value::number(value::directions(text)?[direction]).filter(|n| *n <= most);
            reader
                .value(options, name, read, &format!("write numbers from 0 to {most}, for reads and writes"))
                .unwrap_or(usual)
        };
        // Real time is the highest class.
        let (class, level) = (of(self, "cmdprio_class", 1, 3), of(self, "cmdprio", 0, 7));
        let usual = priority(class, level, of(self, "cmdprio_hint", 0, 1023)).unwrap_or_default();
        if options.contains_key("cmdprio_percentage") {
            let share = of(self, "cmdprio_percentage", 0, 100) as f64;
            return Some(mix.iter().map(|block| (block.bytes, share, usual.clone())).collect());
        }
        if !options.contains_key("cmdprio_bssplit") {
            return Some(Vec::new());
        }
        let read = |text: &str| {
            let parts = parts(value::directions(text)?[direction], &usual)?;
            let shares =
                |bytes: u64| parts.iter().filter(|part| part.0 == bytes).map(|part| part.1).sum::<f64>();
            parts.iter().all(|part| shares(part.0) <= 100.0).then_some(parts)
        };
        self.value(options, "cmdprio_bssplit", read, "such as 64k/25/1/1:64k/75/3/2, up to 100 for each size")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_operations_of_a_size_have_a_priority() {
        let mix = read_blocks("64KiB 40%, 1MiB 60%").unwrap();
        for (split, of_job, expected) in [
            ("64k/100:1024k/0", "", "64KiB 40% rt:0, 1MiB 60%"),
            ("64k/25/1/1:64k/75/3/2:1024k/0", "be:7", "64KiB 10% rt:1, 64KiB 30% idle:2, 1MiB 60% be:7"),
            ("1m/10/2/0/1:1m/30/2/0/2", "", "64KiB 40%, 1MiB 6% be:0:1, 1MiB 18% be:0:2, 1MiB 36%"),
        ] {
            let text = with_priorities(&mix, &parts(split, "rt:0").unwrap(), of_job);
            assert_eq!(text, expected, "{split}");
            assert!(read_blocks(&text).is_ok(), "{text}");
        }
        for wrong in ["64k", "64k/101", "64k/5/1", "64k/5/4/0", "64k/5/1/8", "x/5"] {
            assert_eq!(parts(wrong, ""), None, "{wrong}");
        }
    }
}
