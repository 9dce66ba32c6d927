//! The lines of `doctor` on a terminal and as JSON. Pure.

use report::text::{Quantity, capitalized, plural, wrap};

use super::facts::{Facts, Noise};
use super::judge::{Check, Mark, percent};

/// Where the text of a line begins.
const INDENT: usize = 26;

/// Number of checks with this result.
pub(crate) fn count(checks: &[Check], mark: Mark) -> usize {
    checks.iter().filter(|check| check.mark == mark).count()
}

/// The page.
pub(crate) fn text(facts: &Facts, checks: &[Check], width: usize, strict: bool) -> String {
    let mut out = String::new();
    let host = &facts.host;
    let mut words = vec![
        host.name.clone(),
        host.os.clone(),
        format!("Linux {}", host.kernel),
        plural(host.cpus as usize, "CPU"),
        host.cpu_model.clone(),
        Quantity::Bytes.show(host.memory_bytes as f64),
        capitalized(&host.hypervisor),
    ];
    words.retain(|word| !word.is_empty());
    block(&mut out, " host  ", &words.join(" · "), width);
    out.push('\n');
    for check in checks {
        // After a name longer than its column, such as host.disk.io_limit, the text begins later in the first line.
        block(&mut out, &format!(" {:<5} {:<18} ", check.mark.word(), check.name), &check.text, width);
        for (word, text) in [("fix", &check.fix), ("without it", &check.without)] {
            if !text.is_empty() {
                let word = if word == "without it" && check.mark == Mark::Note { "mind" } else { word };
                block(&mut out, &format!("       {word:<18} "), text, width);
            }
        }
    }
    out.push('\n');
    out += &noise(facts.noise.as_ref(), width);
    out.push('\n');
    let (blocks, warnings) = (count(checks, Mark::Block), count(checks, Mark::Warning));
    let found = match (blocks, warnings) {
        (0, 0) => "ready, no problems".to_string(),
        (0, warnings) => format!("ready, with {}", plural(warnings, "warning")),
        (blocks, 0) => format!("ready, but for {}", plural(blocks, "block")),
        (blocks, warnings) => {
            format!("ready, but for {}, and with {}", plural(blocks, "block"), plural(warnings, "warning"))
        }
    };
    let exit = match (blocks > 0, strict) {
        (true, true) => "   exit code 1 because of --strict",
        (true, false) => "   exit 0   (--strict: 1)",
        _ => "",
    };
    block(&mut out, " ", &format!("{found}{exit}"), width);
    out
}

/// A text after its head, wrapped with a hanging indent.
pub(crate) fn block(out: &mut String, head: &str, text: &str, width: usize) {
    let first = head.chars().count();
    let indent = first.min(INDENT);
    let room = width.saturating_sub(first).max(20);
    for (number, line) in wrap_keeping_gaps(text, room).into_iter().enumerate() {
        match number {
            0 => *out += head,
            _ => *out += &" ".repeat(indent),
        }
        *out += &line;
        out.push('\n');
    }
}

/// Wraps, unless it fits as it is: a command keeps its spaces.
fn wrap_keeping_gaps(text: &str, room: usize) -> Vec<String> {
    match text.chars().count() <= room {
        true => vec![text.to_string()],
        false => wrap(text, room),
    }
}

fn noise(noise: Option<&Noise>, width: usize) -> String {
    let mut out = String::new();
    let Some(noise) = noise else {
        block(&mut out, " noise  ", "could not be measured", width);
        return out;
    };
    let text = format!(
        "A loop with constant work ran for {:.0} s. In windows of {} ms it lost {} of its speed in the \
        median and {} in the worst window.",
        noise.seconds,
        noise.window_ms,
        percent(noise.median_loss),
        percent(noise.worst_loss)
    );
    block(&mut out, " noise  ", &text, width);
    let round = Quantity::Seconds.show(noise.round_s);
    let text = match noise.smallest_change < 0.5 {
        true => format!(
            "SMALLEST DETECTABLE CHANGE: about {} with 6 interleaved rounds of each configuration, {} \
            with 18 (rounds of {round}). This covers only the CPUs; a disk or a network adds its own \
            noise.",
            percent(noise.smallest_change),
            percent(noise.smallest_change_18),
        ),
        false => "NO CHANGE IS DETECTABLE NOW: even half or twice the speed may be noise. Repeat it when \
        other programs are idle."
            .to_string(),
    };
    block(&mut out, "        ", &text, width);
    out
}

/// `plimsoll.doctor/1`.
pub(crate) fn json(facts: &Facts, checks: &[Check]) -> serde_json::Value {
    let list: Vec<serde_json::Value> = checks
        .iter()
        .map(|check| {
            serde_json::json!({ "result": check.mark.word().to_lowercase(), "name": check.name, "text": check.text,
                "fix": check.fix, "without": check.without })
        })
        .collect();
    let noise = facts.noise.as_ref().map(|noise| {
        serde_json::json!({ "seconds": noise.seconds, "window_ms": noise.window_ms, "loop_ns": noise.loop_ns,
            "median_loss": noise.median_loss, "worst_loss": noise.worst_loss, "steal_share": noise.steal_share,
            "run_wait_share": noise.run_wait_share, "round_s": noise.round_s,
            "smallest_change": { "rounds_6": noise.smallest_change, "rounds_18": noise.smallest_change_18 },
            "sampler_share": noise.sampler_share })
    });
    let place = &facts.place;
    serde_json::json!({
        "format": "plimsoll.doctor/1",
        "host": facts.host,
        "clock": facts.clock,
        "place": { "path": place.path, "file_system": place.file_system, "disks": place.disks,
            "direct": place.direct.is_ok(), "direct_alignment_bytes": place.direct_alignment,
            "free_bytes": place.free_bytes },
        "checks": list,
        "noise": noise,
        "blocks": count(checks, Mark::Block),
        "warnings": count(checks, Mark::Warning),
    })
}
