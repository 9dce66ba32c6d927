//! `completions`, `man` and `manual`: generated from the program's arguments and tables.

use std::fmt::Write as _;
use std::path::Path;

use clap::{ArgMatches, Command};

use crate::arguments::command;
use crate::carry_out::Failure;
use crate::exit::{Exit, TABLE};
use crate::output;

/// `plimsoll completions SHELL`.
pub(crate) fn completions(matches: &ArgMatches) -> Result<Exit, Failure> {
    let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") else {
        return Err(Failure::usage("error: name a shell"));
    };
    let mut script = Vec::new();
    clap_complete::generate(*shell, &mut command(), "plimsoll", &mut script);
    output::verbatim(&String::from_utf8_lossy(&script));
    Ok(Exit::Good)
}

/// `plimsoll man [COMMAND]...`.
pub(crate) fn man(matches: &ArgMatches) -> Result<Exit, Failure> {
    let mut program = command();
    program.build();
    if let Some(folder) = matches.get_one::<String>("output-dir") {
        return write_pages(program, Path::new(folder));
    }
    let mut found = &program;
    for name in matches.get_many::<String>("command").into_iter().flatten() {
        found = found.find_subcommand(name).ok_or_else(|| {
            let names: Vec<&str> = found.get_subcommands().map(Command::get_name).collect();
            let help = model::problem::did_you_mean(name, names);
            Failure::usage(format!("error: there is no command `{name}`\n  {help}"))
        })?;
    }
    output::verbatim(&String::from_utf8_lossy(&page(found.clone())?));
    Ok(Exit::Good)
}

/// Writes the page of the program and of every command into an existing folder.
fn write_pages(program: Command, folder: &Path) -> Result<Exit, Failure> {
    let mut commands = vec![program];
    let mut written = 0;
    while let Some(command) = commands.pop() {
        let has_page = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
        commands.extend(command.get_subcommands().filter(has_page).cloned());
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        let path = folder.join(format!("{name}.1"));
        let text = page(command)?;
        files::Output::write_file(&path, &text)
            .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))?;
        written += 1;
    }
    output::result(&format!("{written} pages in {}\n", folder.display()));
    Ok(Exit::Good)
}

/// The page of a command; that of the program has the exit codes.
fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let is_program = command.get_display_name().is_none_or(|name| name == command.get_name());
    let command = if is_program {
        let codes: Vec<String> =
            TABLE.iter().map(|(exit, about)| format!("  {:>3}  {about}", *exit as u8)).collect();
        command.after_help(format!("Exit codes:\n{}", codes.join("\n")))
    } else {
        command
    };
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command)
        .source(concat!("plimsoll ", env!("CARGO_PKG_VERSION")))
        .manual("Plimsoll");
    page.render(&mut text).map_err(Failure::failed)?;
    Ok(text)
}

/// `plimsoll manual`: the whole reference as one Markdown page.
pub(crate) fn manual() -> Result<Exit, Failure> {
    output::verbatim(&reference());
    Ok(Exit::Good)
}

/// Every command, setting, factor, metric, attribute and exit code, from the program's own tables.
fn reference() -> String {
    let mut out = String::from(
        "# Reference\n\n`plimsoll manual` prints this page from the program's own tables. For explanations see \
         [the handbook](index.md).\n\n## Commands\n\n",
    );
    // Writing to a String cannot fail.
    for command in command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(out, "- `plimsoll {}`: {about}", command.get_name());
    }
    let vocabulary = crate::registry::REGISTRY.vocabulary();
    out += "\n## Experiment file\n\n### Top level\n\n";
    settings(&mut out, model::experiment::TOP_SETTINGS);
    out += "\n### `[target]`\n\nThe table `environment` is allowed in addition.\n\n";
    settings(&mut out, model::experiment::TARGET_SETTINGS);
    out += "\n### `[load]`\n\n";
    settings(&mut out, model::load::LOAD_SETTINGS);
    for workload in &vocabulary.workloads {
        let _ = writeln!(out, "\n### `[workload.{}]`\n\n{}\n", workload.name, workload.about);
        settings(&mut out, workload.settings);
        let operations: Vec<String> = workload.operations.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(out, "\nOperations: {}.", operations.join(", "));
    }
    out += "\n### Factors for `[vary]`\n\nIn addition to every `workload.` and `load.` setting above.\n\n\
            | factor | levels | what it sets |\n| --- | --- | --- |\n";
    for factor in &vocabulary.factors {
        let path = if factor.named { format!("{}`, `{0}.NAME", factor.path) } else { factor.path.into() };
        let parameters: String = factor
            .parameters
            .iter()
            .map(|of| {
                let needed = if of.needed { "" } else { ", optional" };
                format!(" `{}`{needed}: {}", of.name, of.about)
            })
            .collect();
        let _ = writeln!(
            out,
            "| `{path}` | {} | {}{} |",
            cell(&factor.kind.expectation()),
            cell(factor.about),
            cell(&parameters)
        );
    }
    out += "\n## Metrics\n\n| metric | meaning | Perfmon | sar |\n| --- | --- | --- | --- |\n";
    for (_, metric) in counters::all_metrics() {
        let known = |name: &str| if name.is_empty() { String::new() } else { format!("`{}`", cell(name)) };
        let (perfmon, sar) = (known(&metric.perfmon), known(&metric.sar));
        let _ = writeln!(out, "| `{}` | {} | {perfmon} | {sar} |", metric.name, cell(&metric.about));
    }
    out += "\n## Attributes of people\n\n`plimsoll generate people --attributes K` writes the first K of them.\n\n\
            | | attribute | in LDIF | content |\n| ---: | --- | --- | --- |\n";
    for (at, attribute) in people::ATTRIBUTES.iter().enumerate() {
        let ldap = attribute.ldap.map(|name| format!("`{name}`")).unwrap_or_default();
        let _ = writeln!(out, "| {} | `{}` | {ldap} | {} |", at + 1, attribute.name, cell(attribute.about));
    }
    out += "\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n";
    for (exit, about) in TABLE {
        let _ = writeln!(out, "| {} | {about} |", exit as u8);
    }
    out
}

fn settings(out: &mut String, table: &[model::SettingInfo]) {
    *out += "| setting | value | default | description |\n| --- | --- | --- | --- |\n";
    for info in table {
        let default =
            if info.default.is_empty() { String::new() } else { format!("`{}`", cell(info.default)) };
        let _ = writeln!(
            out,
            "| `{}` | {} | {default} | {} |",
            info.name,
            cell(&info.kind.expectation()),
            cell(info.about)
        );
    }
}

/// Escapes `|`, which would end a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_is_what_the_program_prints() {
        let page = include_str!("../../../../docs/handbook/reference.md");
        assert!(page == reference(), "run `cargo xtask manual` and commit docs/handbook/reference.md");
    }
}
