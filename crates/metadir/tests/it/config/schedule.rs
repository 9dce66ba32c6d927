//! Schedules: what a configuration may say.

use plimsoll_metadir::config::{Mistake, Serve};

const BEFORE: &str = "[store]\nsqlite = \"s\"\n[metaverse.person]\nattributes = { id = \"text\" }\n\
    [agents.file]\ntype = \"delimited\"\npath = \"f\"\nanchor = \"id\"\n\
    [agents.table]\ntype = \"sql\"\npostgres = \"host=::1\"\ntable = \"t\"\nanchor = \"id\"\n\
    [agents.notified]\ntype = \"sql\"\npostgres = \"host=::1\"\ntable = \"t\"\nanchor = \"id\"\nnotify = \"people\"\n\
    [agents.stamps]\ntype = \"ldap\"\nurl = \"ldap://localhost\"\nbase = \"dc=x\"\nanchor = \"uid\"\n\
    [agents.cloud]\ntype = \"scim\"\nurl = \"http://localhost/\"\nattributes = [\"active\"]\n\
    [runs]\ndelta = [\"file full-import\"]\nnightly = [\"file full-import\"]\n";

fn read(keys: &str) -> Result<Serve, Vec<String>> {
    let config = connectors::parse(&format!("{BEFORE}{keys}"));
    config
        .map(|config| config.serve)
        .map_err(|mistakes| mistakes.into_iter().map(|mistake| mistake.what).collect())
}

#[test]
fn schedules_are_read() {
    let serve = read(
        "[serve]\nlisten = \"[::1]:9464\"\ntime_zone = \"UTC\"\n\
         [[schedule]]\nrun = \"nightly\"\nat = [\"14:30\", \"02:00\"]\ndays = [\"sun\", \"mon\"]\n\
         [[schedule]]\nrun = \"delta\"\nevery = \"5 min\"\non_change = [\"file\", \"notified\"]\nquiet = \"2s\"\n",
    )
    .unwrap();
    assert_eq!(serve.listen.unwrap().port(), 9464);
    let [nightly, delta] = serve.schedules.as_slice() else { panic!("{serve:?}") };
    assert_eq!((&nightly.at, &nightly.days, nightly.run), (&vec![(2, 0), (14, 30)], &vec![0, 6], 1));
    assert_eq!((delta.every.unwrap().as_secs(), delta.quiet.as_secs()), (300, 2));
    assert_eq!(delta.on_change.len(), 2);
    assert_eq!(read("").unwrap(), Serve::default());
}

#[test]
fn a_schedule_without_a_next_time_has_a_warning() {
    let delta = "[[schedule]]\nrun = \"delta\"\non_change = \"file\"\n";
    for (keys, count) in [(delta.to_string(), 1), (format!("{delta}every = \"1 h\"\n"), 0)] {
        let config = connectors::parse(&format!("{BEFORE}{keys}")).unwrap();
        let is_of_schedule = |warning: &&Mistake| warning.what.contains("begins only after changes");
        assert_eq!(config.warnings.iter().filter(is_of_schedule).count(), count);
    }
}

#[test]
fn every_mistake_in_a_schedule_is_reported() {
    let delta = "[[schedule]]\nrun = \"delta\"\n";
    for (keys, reported) in [
        (
            "[[schedule]]\nrun = \"dleta\"\nevery = \"1 h\"\n".into(),
            vec!["there is no run \"dleta\" in [runs]"],
        ),
        (
            format!("{delta}every = \"1 h\"\n{delta}every = \"2 h\"\n"),
            vec!["the run \"delta\" has two schedules: the first is in line 32"],
        ),
        (delta.into(), vec!["this [[schedule]] has neither `every` nor `at` nor `on_change`"]),
        (
            format!(
                "{delta}every = \"5\"\nat = [\"2:00\", \"24:00\", \"+1:00\"]\ndays = \"monday\"\nquiet = \"1 s\"\n"
            ),
            vec![
                "`every` cannot be \"5\"",
                "\"2:00\" in `at` is not a time of day",
                "\"24:00\" in `at` is not a time of day",
                "\"+1:00\" in `at` is not a time of day",
                "there is no day \"monday\"",
                "`quiet` without `on_change`",
            ],
        ),
        (
            format!("{delta}every = \"0 s\"\ndays = \"mon\"\n"),
            vec!["`every` cannot be \"0 s\"", "`days` without `at`"],
        ),
        (
            format!("{delta}on_change = [\"fil\", \"file\", \"file\", \"table\", \"stamps\", \"cloud\"]\n"),
            vec![
                "there is no agent \"fil\"",
                "\"file\" is in `on_change` twice",
                "table has no `notify`, so its changes are not known at once",
                "stamps does not report changes at once",
                "cloud is a SCIM service, which does not report changes",
            ],
        ),
        (
            "[serve]\nlisten = \"0.0.0.0:9464\"\ntime_zone = \"Atlantis/Nowhere\"\n".into(),
            vec![
                "other hosts can connect to 0.0.0.0:9464: metrics and health have no password",
                "there is no time zone \"Atlantis/Nowhere\" on this host",
            ],
        ),
        ("[serve]\nlisten = \"localhost\"\n".into(), vec!["\"localhost\" is not an address with a port"]),
    ] {
        let mut mistakes = read(&keys).unwrap_err();
        let mut reported: Vec<String> = reported.into_iter().map(String::from).collect();
        mistakes.sort();
        reported.sort();
        assert_eq!(mistakes, reported, "{keys}");
    }
}
