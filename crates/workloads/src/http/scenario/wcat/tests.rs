//! Files of WCAT as people and Fiddler write them.

use super::*;
use crate::http::scenario::Scenario;
use crate::http::scenario::tests::read as read_file;

/// The scenario and the notes of a file. The written file is valid, and is read back.
fn imported(text: &str, options: &WcatOptions) -> String {
    let scenario = read_scenario(text, options).unwrap_or_else(|problem| panic!("{problem}"));
    let written = scenario.import.file.write();
    assert_eq!(read_file(&written), scenario.import.file, "{written}");
    let folder = testkit::Scratch::new();
    folder.file("data/post.txt", "x");
    let mut find_secret = |_: model::Placeholder<'_>| Ok("secret".to_string());
    if let Err(problems) = Scenario::parse(&written, "s", folder.path(), &mut find_secret) {
        panic!("{problems}\n{written}");
    }
    let notes: Vec<String> = scenario
        .import
        .notes
        .iter()
        .map(|note| format!("{}: {}; {}", note.number, note.what, note.help))
        .collect();
    format!("{:?} {:?}\n{written}\n---\n{}", scenario.warm_up, scenario.duration, notes.join("\n"))
}

#[test]
fn a_scenario_file_is_read() {
    let options =
        WcatOptions { servers: vec!["web1".into()], virtual_clients: Some(10), ..WcatOptions::default() };
    insta::assert_snapshot!(imported(
        r#"// A scenario
Scenario
{
    name = "shop";
    warmup = 30;
    duration = 120;
    cooldown = 10;
    throttle = 1000;

    library { dll = "custom.dll"; function { name = "tick"; export = "Tick"; } }

    default
    {
        version = HTTP11;
        statuscode = 200;
        close = ka;
        setheader { name = "Accept"; value = "text/html"; }
        setheader { name = "Connection"; value = "Keep-Alive"; }
    }

    transaction
    {
        id = "browse the shop";
        weight = 70;
        request { id = "1"; url = "/"; }
        sleep { id = "s"; delay = 1500; }
        sleep { delay = 500; }
        request { id = "1"; url = "/item?id=" + rand("1", "100") + "&user=" + vclientindex() + "&price=$$" + add(1, "2"); statuscode = 0; redirect = true }
        sleep { delay = 10; }
    }
    transaction
    {
        id = "order";
        weight = 30;
        request
        {
            url = '/order\new';
            verb = POST;
            postdata = "<order note=\"50\% of ${x}\">" + server() + "</order>";
            setheader { name = "accept"; value = "text/xml"; }
            addheader { name = "X"; value = "1"; }
            addheader { name = "X"; value = "2"; }
            addheader { name = "Content-Length"; value = "99"; }
            secure = true
            protocol = SSL2;
            port = 8443;
            authentication = BASIC; username = "ann"; password = "S3CRET";
        }
        request { url = "/upload"; verb = POST; postdata = <data\post.txt>; cookies = false; server = "web2"; authentication = NTLM; }
        request { url = "/x" + tick(); }
        request { url = "/gone"; statuscode = 404; version = HTTP10; }
        close { method = reset; }
        cookies { clear = true; }
        branch { id = "b"; goto { id = "order"; weight = 1; } }
    }
    transaction { id = "never"; weight = 0; request { url = "/n"; } }
    transaction { id = "empty"; }
}
} // three of fifteen real files end with one brace too many
"#,
        &options,
    ));
}

#[test]
fn what_fiddler_exports_is_read() {
    insta::assert_snapshot!(imported(
        "scenario\n{\n  name = \"Fiddler\";\n  warmup = 30;\n  duration = 120;\n  cooldown = 10;\n\n  default\n  {\n    version = HTTP11;\n  }\n  transaction\n  {\n    id = \"1\";\n    weight = 1;\n    request\n    {\n      id = \"12\";\n      url = \"/a b?q=\\\"x\\\"\";\n      verb = POST;\n      secure = true\n      postdata = \"a=1\n&b=2\";\n      addheader\n      {\n        name=\"Host\";\n        value=\"shop.example\";\n      }\n      addheader\n      {\n        name=\"Cookie\";\n        value=\"sid=1\";\n      }\n      addheader\n      {\n        name=\"User-Agent\";\n        value=\"x (y)\";\n      }\n    }\n  }\n}\n",
        &WcatOptions::default(),
    ));
}

#[test]
fn several_servers_get_the_same_load() {
    let options =
        WcatOptions { servers: vec!["web1".into(), "10.0.0.2:8080".into()], ..WcatOptions::default() };
    let text = r#"scenario { transaction { id = "home"; weight = 3; request { url = "/"; version = HTTP11; }
        request { url = "/x"; version = HTTP11; server = "other"; } } }"#;
    insta::assert_snapshot!(imported(text, &options));
}

#[test]
fn a_settings_file_is_read() {
    let settings = read_settings(
        r#"settings
{
    clientfile = "s.ubr";
    server = "web1, web2";
    clients = 4;
    virtualclients = 100;
    speed = 9;
    counters
    {
        interval = 10;
        counter = "Processor(_Total)\% Processor Time";
        counter = "Web Service(_Total)\Current Connections";
    }
    counters { host = "sql1"; counter = "Memory\Available MBytes"; }
    registry { path = "HKLM\Software"; name = "x"; type = REG_SZ; }
}"#,
    )
    .unwrap();
    assert_eq!((settings.clients, settings.virtual_clients), (Some(4), Some(100)));
    assert_eq!(settings.servers, ["web1", "web2"]);
    let counters: Vec<(Option<&str>, &str)> =
        settings.counters.iter().map(|(host, path)| (host.as_deref(), path.as_str())).collect();
    assert_eq!(
        counters,
        [
            (None, "Processor(_Total)\\% Processor Time"),
            (None, "Web Service(_Total)\\Current Connections"),
            (Some("sql1"), "Memory\\Available MBytes"),
        ]
    );
    let notes: Vec<(u32, &str)> =
        settings.notes.iter().map(|note| (note.number, note.what.as_str())).collect();
    assert_eq!(
        notes,
        [
            (7, "`speed` is not known, and is left out"),
            (15, "`registry` is left out: values of a registry are not read"),
        ]
    );
}

#[test]
fn requests_of_the_default_version_are_noted() {
    let text = "scenario { transaction {\n request { url = \"/\"; }\n request { url = \"/\"; } } }";
    let scenario =
        read_scenario(text, &WcatOptions { servers: vec!["a".into()], ..WcatOptions::default() }).unwrap();
    let notes: Vec<(u32, &str)> =
        scenario.import.notes.iter().map(|note| (note.number, note.what.as_str())).collect();
    assert_eq!(notes, [(2, HTTP_10)]);
}

#[test]
fn other_files_are_refused() {
    for (text, line, what) in [
        ("settings { }", 1, "the file begins with `settings` and not with `scenario`"),
        ("\nscenario { }", 2, "the file has no transaction with a request that can be carried over"),
        ("scenario {\n  name = \"x;\n}", 2, "the text has no closing `\"`"),
    ] {
        let problem = read_scenario(text, &WcatOptions::default()).unwrap_err();
        assert_eq!((problem.line, problem.what.as_str()), (line, what), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn what_is_read_is_a_valid_scenario(
        url in "(/|\\$|\\{|\\}|[a-z ?&=%#:]|\\PC){0,8}",
        name in "([A-Za-z-]{1,12}|\\PC{0,3})",
        value in "(\\$|\\{|[a-z ;]|\\PC|\t){0,8}",
        extra in "(secure = true;|port = 81;|server = 'b';|redirect = true;|statuscode = 304;|verb = 'put';| ){0,4}",
    ) {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!(
            "scenario {{ transaction {{ request {{ url = \"{}\"; {extra} postdata = \"{}\"; addheader {{ name = \"{}\"; value = \"{}\"; }} }} }} }}",
            quoted(&url), quoted(&value), quoted(&name), quoted(&value),
        );
        imported(&text, &WcatOptions::default());
    }
}
