//! `completions` and `man`: made from the arguments themselves.

use clap::ArgMatches;

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
    output::result(&String::from_utf8_lossy(&script));
    Ok(Exit::Good)
}

/// `plimsoll man [COMMAND]`.
pub(crate) fn man(matches: &ArgMatches) -> Result<Exit, Failure> {
    let mut program = command();
    program.build();
    let page = match matches.get_one::<String>("command") {
        None => {
            let codes: Vec<String> =
                TABLE.iter().map(|(exit, about)| format!("  {:>3}  {about}", *exit as u8)).collect();
            clap_mangen::Man::new(program.after_help(format!("Exit codes:\n{}", codes.join("\n"))))
        }
        Some(name) => {
            let names: Vec<&str> = program.get_subcommands().map(|command| command.get_name()).collect();
            let found = program.find_subcommand(name).cloned().ok_or_else(|| {
                let help = model::problem::did_you_mean(name, names);
                Failure::usage(format!("error: there is no command `{name}`\n  {help}"))
            })?;
            clap_mangen::Man::new(found)
        }
    };
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::failed)?;
    output::result(&String::from_utf8_lossy(&text));
    Ok(Exit::Good)
}
