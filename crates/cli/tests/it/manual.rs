//! Manual pages: of the program, of a command, of all commands.

use std::fs;

use crate::program::{Place, run};

#[test]
fn the_page_of_a_command_is_printed() {
    let place = Place::new("man");
    for (arguments, title, words) in [
        (&["man"][..], ".TH plimsoll 1", "Exit codes:"),
        (&["man", "disk"], ".TH plimsoll-disk 1", "\\-\\-size"),
        (&["man", "metadir", "run"], ".TH plimsoll-metadir-run 1", "\\-\\-config"),
    ] {
        let page = run(&place, arguments);
        assert_eq!(page.code, 0, "{}", page.err);
        assert!(page.out.contains(title) && page.out.contains(words), "{arguments:?}: {}", page.out);
    }
    let unknown = run(&place, &["man", "metadir", "rum"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.contains("there is no command `rum`") && unknown.err.contains("`run`"),
        "{}",
        unknown.err
    );
}

#[test]
fn the_pages_of_all_commands_are_written() {
    let place = Place::new("man-all");
    fs::create_dir(place.path("pages")).unwrap();
    let done = run(&place, &["man", "--output-dir", "pages"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let pages: Vec<String> = fs::read_dir(place.path("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for expected in [
        "plimsoll.1",
        "plimsoll-disk.1",
        "plimsoll-metadir.1",
        "plimsoll-metadir-run.1",
        "plimsoll-ldap-import.1",
    ] {
        assert!(pages.iter().any(|page| page == expected), "{expected}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    // Every command of the first list of the program has its page.
    let help = run(&place, &["--help"]).out;
    let commands = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.strip_prefix("  "));
    // Descriptions that need a second line are further to the right.
    let commands = commands.filter(|line| !line.starts_with(' '));
    let commands: Vec<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(commands.len() > 20, "{help}");
    for command in commands {
        assert!(pages.contains(&format!("plimsoll-{command}.1")), "{command}");
    }
    let missing = run(&place, &["man", "--output-dir", "nowhere"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("nowhere/plimsoll"), "{}", missing.err);
}
