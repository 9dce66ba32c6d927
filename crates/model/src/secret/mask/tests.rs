use super::super::SecretParts;
use super::*;

const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N";

/// Texts of users: what is hidden in each. `S3` begins each secret, and nothing else.
#[test]
fn secrets_in_texts_of_users_are_hidden() {
    for (text, shown) in [
        // Settings of an experiment, also with mistakes.
        (
            r#"url = "http://u:S3a@host:1/?token=S3b&page=2""#,
            r#"url = "http://***@host:1/?token=***&page=2""#,
        ),
        (r#"headers = ["Authorization: Bearer S3a"]"#, r#"headers = ["Authorization: ***"]"#),
        (
            r#"header = ["Autorization: Bearer S3a", "Accept: */*"]"#,
            r#"header = ["Autorization: ***", "Accept: */*"]"#,
        ),
        (r#"header = ["Authorization Bearer S3a"]"#, r#"header = ["Authorization ***"]"#),
        (r#"header = ["Cookie S3a=b: c"]"#, r#"header = ["Cookie ***"]"#),
        (r#"header = ["X-Api-Key: S3a b"]"#, r#"header = ["X-Api-Key: ***"]"#),
        (r#"password = "S3a"#, r#"password = "***"#),
        (r"password = S3a b,c#d", "password = ***"),
        (r#"pasword = "S3a""#, r#"pasword = "***""#),
        (r#"passwrod = 'S3a'"#, r#"passwrod = '***'"#),
        ("bind.password = \"\"\"\nS3a\n\"\"\"\nx = 1", "bind.password = \"\"\"***\"\"\"\nx = 1"),
        (
            r#"environment = { DB_PWD = "S3a", LEVEL = "3" }"#,
            r#"environment = { DB_PWD = "***", LEVEL = "3" }"#,
        ),
        (r#"tokens = ["S3a", "S3b"]"#, "tokens = ***"),
        (r#"body = "{\"password\": \"S3a\", \"n\": 1}""#, r#"body = "{\"password\": \"***\", \"n\": 1}""#),
        ("workload.http.heade=Authorization: Bearer S3a", "workload.http.heade=Authorization: ***"),
        // Names.
        ("Ocp-Apim-Subscription-Key: S3a", "Ocp-Apim-Subscription-Key: ***"),
        ("X-Functions-Key: S3a", "X-Functions-Key: ***"),
        ("DPoP: S3a.b.c", "DPoP: ***"),
        ("http://h/cb?code=S3a&x=1", "http://h/cb?code=***&x=1"),
        ("pin=1234&otp=567890&user=u", "pin=***&otp=***&user=u"),
        ("MYSQL_PWD=S3a", "MYSQL_PWD=***"),
        ("export AZURE_KEY=S3a", "export AZURE_KEY=***"),
        ("PROXY_AUTH=S3a GITHUB_PAT=S3b", "PROXY_AUTH=*** GITHUB_PAT=***"),
        ("SLACK_WEBHOOK=https://h/S3a", "SLACK_WEBHOOK=***"),
        // XML, JSON, HAR, WCAT.
        (
            r#"<wsse:Password Type="http://x#PasswordText">S3a</wsse:Password><a>b</a>"#,
            r#"<wsse:Password Type="http://x#PasswordText">***</wsse:Password><a>b</a>"#,
        ),
        ("<password><![CDATA[S3a]]></password>", "<password><![CDATA[***]]></password>"),
        (r#"<add key="password" value="S3a"/>"#, r#"<add key="password" value="***"/>"#),
        (
            r#"{"name": "Authorization", "value": "Basic S3a"}"#,
            r#"{"name": "Authorization", "value": "***"}"#,
        ),
        (r#"{"value":"S3a","name":"x-session-token"}"#, r#"{"value":"***","name":"x-session-token"}"#),
        (
            "setheader { name=\"Authorization\";\n value=\"S3a\"; }",
            "setheader { name=\"Authorization\";\n value=\"***\"; }",
        ),
        (r#""credentials": {"user": "S3a"}"#, r#""credentials": ***"#),
        ("%22password%22%3A%22S3a%22", "%22password%22%3A***"),
        (
            r#"{"password":
  "S3a", "n": 1}"#,
            r#"{"password":
  "***", "n": 1}"#,
        ),
        (
            r#"{"contraseña": "S3a", "mot_de_passe": "S3b", "пароль": "S3c"}"#,
            r#"{"contraseña": "***", "mot_de_passe": "***", "пароль": "***"}"#,
        ),
        (
            r#"{"pass\u0077ord": "S3a", "\u0070assword": "S3b"}"#,
            r#"{"pass\u0077ord": "***", "\u0070assword": "***"}"#,
        ),
        ("http://h/?pass%77ord=S3a&%70assword=S3b&x=1", "http://h/?pass%77ord=***&%70assword=***&x=1"),
        ("a=1&code_verifier=S3a&ssn=S3b&iban=S3c", "a=1&code_verifier=***&ssn=***&iban=***"),
        ("<credential>\n  <value>S3a</value>\n</credential><a>b</a>", "<credential>***</credential><a>b</a>"),
        ("<name>password</name><value>S3a</value>", "<name>password</name><value>***</value>"),
        (
            "<param-name>password</param-name>\n <param-value>S3a</param-value>",
            "<param-name>password</param-name>\n <param-value>***</param-value>",
        ),
        ("<a:Password\n  Type=\"x\"\n>S3a</a:Password\n>", "<a:Password\n  Type=\"x\"\n>***</a:Password\n>"),
        // Lines without an equals sign.
        ("url = \"a\"\npassword \"S3a\"\nx = 1", "url = \"a\"\npassword \"***\"\nx = 1"),
        ("password S3a", "password ***"),
        // Addresses with mistakes.
        ("http:/bob:S3a@h/", "http:/***@h/"),
        ("//bob:S3a@h/", "//***@h/"),
        ("http//bob:S3a@h/", "http//***@h/"),
        ("http://http//bob:S3a@h/", "http://http//***@h/"),
        ("http:///bob:S3a@h", "http:///***@h"),
        ("http;//bob:S3a@h/", "http;//***@h/"),
        ("x=http:/bob:S3a@h/m", "x=http:/***@h/m"),
        ("htp:bob:S3a@h", "***@h"),
        ("jdbc:oracle:thin:u/S3a@h:1521/db", "jdbc:oracle:thin:***@h:1521/db"),
        ("jdbc:oracle:oci:u/S3a@//h/db", "jdbc:oracle:oci:***@//h/db"),
        // Job files, LDIF, connection strings, command lines.
        ("http_pass=S3a", "http_pass=***"),
        ("userPassword: S3a b", "userPassword: ***"),
        ("userPassword:: UzNh", "userPassword:: ***"),
        ("dn: cn=a\nunicodePwd:: UzNh\nsn: b", "dn: cn=a\nunicodePwd:: ***\nsn: b"),
        (
            "Server=db;Uid=u;Pwd=S3a;AccountKey=S3b==;SharedAccessKeyName=root",
            "Server=db;Uid=u;Pwd=***;AccountKey=***;SharedAccessKeyName=root",
        ),
        ("Password=S3a,b#c;Server=db", "Password=***;Server=db"),
        ("postgres://u:S3/a@db/x", "postgres://***@db/x"),
        ("u:S3a@host", "***@host"),
        ("curl --token S3a --password='S3b c' http://h", "curl --token *** --password='***' http://h"),
        (r#"command = ["--token", "S3a", "x"]"#, r#"command = ["--token", "***", "x"]"#),
        ("redis://:S3a@h:6379/0", "redis://***@h:6379/0"),
        // Forms.
        (
            "url = \"https://hooks.slack.com/services/T0/B0/S3a\"",
            "url = \"https://hooks.slack.com/services/***\"",
        ),
        (JWT, "***"),
        ("-H 'X: Bearer S3a'", "-H 'X: Bearer ***'"),
        ("x: Basic UzNhOmI=", "x: Basic ***"),
        ("id = AKIAS3AAAAAAAAAAAAAA1", "id = ***"),
        ("a ghp_S3aaaaaaaaaaaaaaaaaaaa b", "a *** b"),
        ("xoxb-1234-S3aaaaaaa", "***"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nS3a\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
        ("X-Thing: S3k9Qz81LmWp04TtYv7BbXn2", "X-Thing: ***"),
        ("http://h/?x=9f86d081884c7d659a2feaa0c55ad015", "http://h/?x=***"),
    ] {
        assert_eq!(mask_written(text), shown, "{text}");
        assert_eq!(mask_written(shown), shown, "what is hidden stays as it is");
    }
}

/// Names that are ordinary words elsewhere. The same name is hidden in each syntax.
#[test]
fn names_of_queries_are_hidden_in_each_syntax() {
    const NAMES: [&str; 12] = [
        "pin",
        "otp",
        "code",
        "totp",
        "mfa",
        "cvv",
        "ticket",
        "device_code",
        "user_code",
        "sas",
        "SAMLart",
        "iban",
    ];
    for name in NAMES {
        for (begin, end) in [
            ("http://h/?NAME=", "&page=2"),
            ("a=1&NAME=", ""),
            ("{\"NAME\":\"", "\",\"n\":1}"),
            ("{\"NAME\" : \"", "\"}"),
            ("{\n  \"NAME\":\n \"", "\"}"),
            ("{'NAME': '", "'}"),
            ("body = \"{\\\"NAME\\\":\\\"", "\\\", \\\"n\\\": 1}\""),
            ("a = \"{\\\\\\\"NAME\\\\\\\": \\\\\\\"", "\\\\\\\"}\""),
            ("<NAME>", "</NAME>"),
            ("http://h/?u=http%3A%2F%2Fh%2F%3Fa%3D1%26NAME%3D", ""),
            ("filter = \"(&(uid=a)(NAME=", ")(sn=b))\""),
            ("(NAME>=", ")"),
        ] {
            let (begin, end) = (begin.replace("NAME", name), end.replace("NAME", name));
            let (text, shown) = (format!("{begin}S3CRET{end}"), format!("{begin}***{end}"));
            assert_eq!(mask_written(&text), shown, "{text}");
            assert_eq!(SecretParts::Pairs.hide(&text), shown, "{text}");
            assert_eq!(mask(&format!("`{text}` is not valid")), format!("`{shown}` is not valid"));
        }
    }
    for (text, shown) in [
        (r#"{"pin":123456,"n":1}"#, r#"{"pin":***,"n":1}"#),
        (r#"a = "{\"pin\": 1234, \"n\": 1}""#, r#"a = "{\"pin\": ***, \"n\": 1}""#),
        (r#"{"name": "pin", "value": "1234"}"#, r#"{"name": "pin", "value": "***"}"#),
        ("- name: OTP\n  value: S3", "- name: OTP\n  value: ***"),
        (r#"{"cvv": 123}"#, r#"{"cvv": ***}"#),
        ("%7B%22pin%22%3A%22S3%22%7D&x=1", "%7B%22pin%22%3A***&x=1"),
        ("environment = { PIN = \"S3\", OTP = \"S3\" }", "environment = { PIN = \"***\", OTP = \"***\" }"),
        ("enviroment = { HSM_PIN=\"S3\", MFA=\"S3\" }", "enviroment = { HSM_PIN=\"***\", MFA=\"***\" }"),
        ("(userPassword=S3)", "(userPassword=***)"),
        ("(&(userPassword=S3)(uid=a))", "(&(userPassword=***)(uid=a))"),
    ] {
        assert_eq!(mask_written(text), shown, "{text}");
    }
    for text in [
        r#"{"code": 200, "message": "done"}"#,
        r#"{"code":404}"#,
        r#"{\"code\": 503}"#,
        r#"{"ticket": {"subject": "a"}, "code": ["a"]}"#,
        r#"{"pin": null, "mfa": true, "otp": ""}"#,
        r#"{"pin": "${env:PIN}"}"#,
        r#"{"status_code": 40401, "country_code": "DE", "zip_code": "12345", "pinned": "a", "codec": "b"}"#,
        "(code=200)",
        r#"{"name": "code", "value": "ABC"}"#,
        r#"{"name": "pin", "value": "3"}"#,
        "(ticket)",
        "exit code=ENOENT, pin=cores",
        "code: a, ticket: 17, pin: 3",
        "LED_PIN=13 GPIO_PIN=1700",
        "env CODE=ENOENT TICKET=ABC-1",
    ] {
        assert_eq!(mask_written(text), text);
    }
}

/// Parameters and header fields of well-known protocols and services.
#[test]
fn names_of_protocols_are_hidden() {
    for name in [
        "X-Amz-Signature",
        "X-Amz-Credential",
        "X-Amz-Security-Token",
        "X-Goog-Signature",
        "X-Goog-Credential",
        "Signature",
        "AWSAccessKeyId",
        "sig",
        "sas",
        "ticket",
        "device_code",
        "user_code",
        "client_secret",
        "code",
        "code_verifier",
        "refresh_token",
        "id_token_hint",
        "client_assertion",
        "oauth_verifier",
        "oauth_signature",
        "auth_req_id",
        "SAMLResponse",
        "SAMLart",
        "wresult",
        "pgtIou",
        "verification_code",
        "AuthToken",
        "card_number",
    ] {
        let text = format!("http://h/?a=1&{name}=S3CRET&page=2");
        assert_eq!(mask_written(&text), format!("http://h/?a=1&{name}=***&page=2"));
    }
    for name in
        ["X-Jwt", "X-Bearer", "X-Ticket", "X-Sas", "X-Sig", "X-User-Pin", "Stripe-Signature", "X-Sms-Otp"]
    {
        for (begin, end) in [
            ("header = [\"NAME: ", "\", \"Accept: a\"]"),
            ("headers = { NAME = \"", "\", Accept = \"a\" }"),
            ("{\"name\": \"NAME\", \"value\": \"", "\"}"),
        ] {
            let begin = begin.replace("NAME", name);
            let (text, shown) = (format!("{begin}S3CRET{end}"), format!("{begin}***{end}"));
            assert_eq!(mask_written(&text), shown, "{text}");
            assert_eq!(SecretParts::Pairs.hide(&text), shown, "{text}");
        }
        assert_eq!(SecretParts::Header.hide(&format!("{name}: S3CRET")), format!("{name}: ***"));
    }
    for text in [
        "http://h/?X-Amz-Date=20260101T000000Z&X-Amz-Expires=600&X-Amz-Algorithm=a&X-Amz-SignedHeaders=host",
        "http://h/?sv=2024-01-01&se=2026-01-01&sp=r&sr=b&state=open&nonce=5&response_type=code&scope=openid",
        "headers = [\"X-Ticket-Count: 5\", \"X-Pinned: a\", \"X-Country-Code: DE\", \"X-Request-Id: 17\"]",
        "sasl_mechanism = \"PLAIN\"",
        "disk = \"sas\"",
    ] {
        assert_eq!(mask_written(text), text);
    }
    assert_eq!(SecretParts::Header.hide("X-Error-Code: 40"), "X-Error-Code: 40");
}

/// What a reader needs: names of settings, files, hosts, numbers.
#[test]
fn all_other_texts_stay_as_they_are() {
    for text in [
        r#"url = "http://host:8080/path?page=2&state=open""#,
        r#"concurency = 4"#,
        r#"pasword"#,
        r#"header = ["Accept: */*", "User-Agent: Mozilla/5.0 AppleWebKit/537.36 HeadlessChrome/120.0.6099.109"]"#,
        r#"header = ["Authorization: Bearer ${env:TOKEN}"]"#,
        r#"password = "${file:/run/secret}""#,
        r#"client_key = "/etc/ssl/private/client.pem""#,
        r#"client_key = "client.key""#,
        r#"password_file = "/run/password""#,
        r#"token_url = "https://login/oauth/token""#,
        r#"files = ["/data/a.bin", "/dev/nvme0n1"]"#,
        r#"name = "Basic load test of the token service""#,
        r#"secret = false"#,
        r#"primary_key = "id""#,
        "[vary]\n\"workload.block_size\" = { levels = [\"4KiB\"] }",
        "filter = \"(uid=user.${random(0, 99999)})\"",
        "ssh://admin@gen1:2222",
        "a=exec:plimsoll agent --allow /data",
        "mail = ann@example.com, bob@example.com",
        "dn: uid=user.1,ou=people,dc=example,dc=com",
        "objectGUID: 550e8400-e29b-41d4-a716-446655440000",
        "sha256 = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
        "exit code=1, status code: 404",
        "secretary: cn=eve, passport=12",
        "rw=randread bs=4k iodepth=32 filename=/data/fio.bin",
        "12:30:45@host1",
        "MyVeryLongTestScenarioNameOfTheYear2024",
        "/usr/share/plimsoll/examples/identity-initial-load.toml",
        "ip-10-0-0-1.eu-west-1.compute.internal:9092",
        "arn:aws:s3:::bucket/key-1",
        "registry/folder/image:tag@sha256:abc",
        "jdbc:oracle:thin:@h:1521/db",
        r#"{"tokenizer": "bpe", "max_tokens": 100, "n": 1}"#,
        "http://h/?tokens=5&max_tokens=100&tokenizer=bpe",
        "Surrogate-Key: a b",
        "X-Author: jane",
        "password policy",
        "<author>jane</author>",
    ] {
        assert_eq!(mask_written(text), text);
    }
}

#[test]
fn messages_stay_readable() {
    for text in [
        "unknown key `concurency` in [load]",
        "unknown setting `workload.http.heade`",
        "`password` of `bind_dn` is missing: write it as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}",
        "the server refuses the token: set NATS_TOKEN, or NATS_USER and NATS_PASSWORD, or name a file with ?creds=, ?nkey= or ?token-file=",
        "unexpected token: expected a value",
        "secrets travel only inside SSH or TLS: write tls:// instead of nats://",
        "machine gen1: it did not answer for 1.3 s; its key: see ssh-keygen",
        "Bearer token is missing, Basic authentication is not supported",
        "password: the user has none",
        "error: the following required arguments were not provided:\n  <URL>\n\nUsage: plimsoll http --header <TEXT> <URL>",
        "error: unexpected argument '--heade' found\n\n  tip: a similar argument exists: '--header'",
        "OpenLDAP's own and the server's password are different",
        "did you mean `token`?",
        "`${env:TEST_TOKEN}`: the environment variable TEST_TOKEN is not set",
        "line 3 of users.csv has 2 fields, and the first line 3",
    ] {
        assert_eq!(mask(text), text);
    }
}

#[test]
fn what_a_message_quotes_is_hidden() {
    for (text, shown) in [
        ("`Authorization Bearer S3` is not a header", "`Authorization ***` is not a header"),
        (
            "invalid value 'Cookie: S3a' for '--header <TEXT>'",
            "invalid value 'Cookie: ***' for '--header <TEXT>'",
        ),
        ("--set workload.password=S3a: no such setting", "--set workload.password=***: no such setting"),
        ("`http://u:S3@h/` is not a URL", "`http://***@h/` is not a URL"),
        ("cannot be \"password=S3\"", "cannot be \"password=***\""),
        (" 3 | pasword = S3 x", " 3 | pasword = ***"),
        ("failed: connect to postgres://u:S3@db/x", "failed: connect to postgres://***@db/x"),
        ("the field X-Api-Key: S3 is not valid", "the field X-Api-Key: *** is not valid"),
        ("unclosed `token = S3", "unclosed `token = ***"),
    ] {
        assert_eq!(mask(text), shown, "{text}");
        assert_eq!(mask(shown), shown);
    }
}

#[test]
fn a_token_of_a_line_stays_underlined() {
    for (text, line, token, shown, marked) in [
        ("a = 1\nheader = \"Cookie: S3\" x", 1, "x", "header = \"Cookie: ***\" x", "x"),
        ("x = 1 # token=S3aaaaaaaa", 0, "x", "x = 1 # token=***", "x"),
        ("password = \"S3aaaaa", 0, "\"S3aaaaa", "password = \"***", "\"***"),
        ("a = \"\"\"\n-----BEGIN PRIVATE KEY-----\nS3abc\n", 2, "S3abc", "***", "***"),
        ("é = \"é\", pwd = \"S3éé\", z = 1", 0, "z", "é = \"é\", pwd = \"***\", z = 1", "z"),
    ] {
        let whole = text.lines().nth(line).unwrap();
        let column = whole[..whole.rfind(token).unwrap()].chars().count();
        let masked = mask_line(text, line, column, token.chars().count());
        let at: String = masked.text.chars().skip(masked.column).take(masked.width).collect();
        assert_eq!((masked.text.as_str(), masked.before, at.as_str()), (shown, 0, marked), "{text}");
    }
}

#[test]
fn of_a_long_line_the_part_around_the_token_is_kept() {
    let parts = "é = 1, pwd = \"S3éé\", ".repeat(2_000);
    let text = format!("a\n{parts}here{parts}");
    let column = parts.chars().count();
    let masked = mask_line(&text, 1, column, 4);
    let at: String = masked.text.chars().skip(masked.column - masked.before).take(masked.width).collect();
    let kept = masked.text.chars().count();
    assert_eq!((at.as_str(), kept, masked.column - masked.before), ("here", 2 * KEPT, KEPT));
    assert!(!masked.text.contains("S3"), "{}", masked.text);
    // The ends of the line.
    for (column, before) in [(0, 0), (2 * column + 4, 2 * column + 4 - 2_000 * 2 - KEPT)] {
        let masked = mask_line(&text, 1, column, 1);
        assert_eq!(masked.before, before, "{column}");
        assert!(masked.text.chars().count() <= 2 * KEPT);
    }
}

/// No text makes it fail, and a long one takes no time that grows with its square.
#[test]
fn any_text_is_masked() {
    let pieces = [
        "\"", "'", "`", "=", ":", "://", "@", "password", "Bearer ", "<", ">", "{", "}", "é", "\n", "\\",
        "${env:", " | ",
    ];
    let mut random = crate::random::Random::stream(1, 0);
    for _ in 0..2000 {
        let text: String = (0..12).map(|_| pieces[random.below_u64(pieces.len() as u64) as usize]).collect();
        for masked in [mask(&text), mask_written(&text)] {
            assert!(!masked.is_empty() || text.is_empty());
        }
        mask_line(&text, 1, 3, 2);
    }
    let long = "&token=S3x".repeat(20_000) + &"{\"name\":\"a\",\"value\":\"b\"}".repeat(5_000);
    assert!(!mask_written(&long).contains("S3x"));
}
