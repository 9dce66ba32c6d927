//! Links between Markdown files lead somewhere, heading and all.

use std::path::{Component, Path, PathBuf};

use crate::fault::Fault;
use crate::files::Repository;

/// Checks the links of one file.
pub(super) fn check(repository: &Repository, path: &Path, text: &str) -> Vec<Fault> {
    let name = repository.name(path);
    links(text)
        .into_iter()
        .filter_map(|(line, link)| {
            let (what, help) = resolve(path, text, &link).err()?;
            Some(Fault::new(format!("{name}:{line}"), format!("the link `{link}` {what}"), help))
        })
        .collect()
}

fn resolve(from: &Path, text: &str, link: &str) -> Result<(), (&'static str, &'static str)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() {
        None
    } else {
        let target = normal(&from.parent().unwrap_or(Path::new("")).join(file));
        if !target.exists() {
            return Err((
                "leads nowhere",
                "write the file, or correct the path; it is relative to this file",
            ));
        }
        Some(target)
    };
    let Some(anchor) = anchor else { return Ok(()) };
    let headings = match target {
        None => anchors(text),
        Some(target) => match std::fs::read_to_string(target) {
            Ok(text) => anchors(&text),
            Err(_) => return Err(("has an anchor, but leads to no text", "remove the part after #")),
        },
    };
    match headings.iter().any(|heading| heading == anchor) {
        true => Ok(()),
        false => Err(("names a heading that is not there", "correct the part after #")),
    }
}

/// Without `.` and `..`, so that a link out of a folder that does not exist is not followed.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Every link target with its line, `[text](target)` and `[name]: target`, outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        if let Some((name, target)) =
            content.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "))
            && !name.contains(']')
        {
            found.push((line, target.trim().to_string()));
            continue;
        }
        let mut rest = content.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split_whitespace().next().unwrap_or("");
            found.push((line, target.to_string()));
            rest = &rest[end..];
        }
    }
    found
}

/// Lines outside fenced code, with inline code blanked.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let parts: Vec<&str> = line.split('`').collect();
            // Inline code is every second part; an unpaired backtick starts none.
            let kept = parts.iter().enumerate().map(|(at, part)| match at % 2 == 1 && at + 1 < parts.len() {
                true => "`",
                false => part,
            });
            lines.push((at + 1, kept.collect()));
        }
    }
    lines
}

/// The anchors of a text's headings, as the usual renderers make them.
fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let plain: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let twins = found.iter().filter(|other| **other == plain).count();
        found.push(if twins == 0 { plain } else { format!("{plain}-{twins}") });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Sample;

    #[test]
    fn finds_links_outside_code() {
        let text =
            "a [b](c.md) and [d](e.md#f \"title\")\n`[not](one)`\n```\n[nor](this)\n```\n[ref]: g.md\n";
        assert_eq!(links(text), [(1, "c.md".into()), (1, "e.md#f".into()), (6, "g.md".into())]);
    }

    #[test]
    fn headings_become_anchors() {
        let text = "# One & two\n## `run.json`: a file\n```\n# not\n```\n## One & two\n#not\n";
        assert_eq!(anchors(text), ["one--two", "runjson-a-file", "one--two-1"]);
    }

    #[test]
    fn broken_links_are_reported() {
        let page = "[a](b.md) [c](../top.md) [d](gone.md) [e](b.md#there) [f](b.md#nowhere) [g](#here) [h](https://example.org/x)\n## Here\n";
        let sample = Sample::new("links", &[("docs/a.md", page), ("docs/b.md", "# There\n"), ("top.md", "")]);
        let path = sample.repository.join("docs/a.md");
        let what: Vec<String> =
            check(&sample.repository, &path, page).into_iter().map(|fault| fault.what).collect();
        assert_eq!(
            what,
            ["the link `gone.md` leads nowhere", "the link `b.md#nowhere` names a heading that is not there"]
        );
    }
}
