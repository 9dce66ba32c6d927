use super::*;

/// Command lines. What is hidden begins with `S3`, and nothing else does.
#[test]
fn credentials_of_programs_are_hidden() {
    for (line, shown) in [
        ("curl -u bob:S3a http://h/", "curl -u *** http://h/"),
        ("curl -ubob:S3a http://h/", "curl -u*** http://h/"),
        ("curl -sSku bob:S3a http://h/", "curl -sSku *** http://h/"),
        ("curl -sSubob:S3a http://h/", "curl -sSu*** http://h/"),
        ("/usr/bin/curl --user 'bob:S3 a' http://h/", "/usr/bin/curl --user '***' http://h/"),
        ("curl --user=bob:S3a --proxy-user p:S3b x", "curl --user=*** --proxy-user *** x"),
        ("curl -U p:S3a -b id=S3b -b jar.txt x", "curl -U *** -b *** -b jar.txt x"),
        ("curl -u S3key: https://h/", "curl -u *** https://h/"),
        ("curl -H 'X-Api-Key: S3a' -H 'Accept: a' x", "curl -H 'X-Api-Key: ***' -H 'Accept: a' x"),
        ("mysql -pS3a -u root db", "mysql -p*** -u root db"),
        ("mysqldump -u root -p'S3 a' db > f", "mysqldump -u root -p'***' db > f"),
        ("mysqladmin -pS3a ping; mariadb -pS3b", "mysqladmin -p*** ping; mariadb -p***"),
        ("mysqladmin -u root password S3a", "mysqladmin -u root password ***"),
        ("sudo docker exec db mysql -pS3a", "sudo docker exec db mysql -p***"),
        ("sh -c 'mysql -pS3a -e \"select 1\"'", "sh -c 'mysql -p*** -e \"select 1\"'"),
        ("ssh h \"sudo sh -c 'mysql -pS3a x'\"", "ssh h \"sudo sh -c 'mysql -p*** x'\""),
        ("echo $(mysql -pS3a) `mysql -pS3b`", "echo $(mysql -p***) `mysql -p***`"),
        ("sshpass -p S3a ssh -p 22 h", "sshpass -p *** ssh -p 22 h"),
        ("sshpass -pS3a ssh h", "sshpass -p*** ssh h"),
        ("ldapsearch -x -D cn=a -w S3a -b dc=x", "ldapsearch -x -D cn=a -w *** -b dc=x"),
        ("ldapmodify -xZZwS3a -f x", "ldapmodify -xZZw*** -f x"),
        ("ldapadd -xw S3a && ldapwhoami -w S3b", "ldapadd -xw *** && ldapwhoami -w ***"),
        ("sqlcmd -S h -U sa -P S3a -Q x", "sqlcmd -S h -U sa -P *** -Q x"),
        ("docker login -u u -p S3a r", "docker login -u u -p *** r"),
        ("redis-cli -a S3a ping", "redis-cli -a *** ping"),
        ("redis-cli --pass S3a ping", "redis-cli --pass *** ping"),
        ("smbclient //h/s -U u%S3a -c ls", "smbclient //h/s -U u%*** -c ls"),
        ("sqlplus -s u/S3a@//h/db @x.sql", "sqlplus -s ***@//h/db @x.sql"),
        ("sqlplus u/S3a", "sqlplus ***"),
        ("rman target u/S3a@db", "rman target ***@db"),
        ("expdp userid=u/S3a@db tables=t", "expdp userid=***@db tables=t"),
        ("ab -A u:S3a -P p:S3b -n 1 http://h/", "ab -A *** -P *** -n 1 http://h/"),
        ("keytool -list -storepass S3a -keypass S3b", "keytool -list -storepass *** -keypass ***"),
        (r"net use Z: \\h\share S3a /user:u", r"net use Z: \\h\share *** /user:u"),
        ("net.exe use Z: \"\\\\h\\share\" S3a", "net.exe use Z: \"\\\\h\\share\" ***"),
        ("psql postgres://u:S3a@h/db", "psql postgres://***@h/db"),
        ("psql 'host=h password=S3a'", "psql 'host=h password=***'"),
        ("PGPASSWORD=S3a psql -h h", "PGPASSWORD=*** psql -h h"),
        ("env MYSQL_PWD='S3 a' mysql", "env MYSQL_PWD='***' mysql"),
        ("foo 'Server=a;Uid=sa;Pwd=S3a'", "foo 'Server=a;Uid=sa;Pwd=***'"),
        ("java -Dx.password=S3a -jar a.jar", "java -Dx.password=*** -jar a.jar"),
        ("foo --password S3a --token=S3b -password S3c", "foo --password *** --token=*** -password ***"),
        ("openssl enc -k S3a -pass pass:S3b", "openssl enc -k *** -pass ***"),
        ("hey -a u:S3a http://h/", "hey -a *** http://h/"),
        ("foo --password '$S3a'", "foo --password '***'"),
    ] {
        assert_eq!(hide(line).0, shown, "{line}");
        assert_eq!(hide(shown).0, shown, "what is hidden stays as it is");
    }
}

#[test]
fn other_words_of_commands_stay_as_they_are() {
    for line in [
        "mysql -P 3306 -u root -p db",
        "mysql -p",
        "ssh -p 22 u@h",
        "curl -u http://h/",
        "curl -u",
        "sort -u file",
        "sort -t: -k 2 -u a:b",
        "docker run -p 80:80 -u 1000:1000 mysql:8",
        "docker login -u u --password-stdin",
        "podman run -v /a:/b -p 127.0.0.1:80:80 x",
        "ab -A",
        "ab -n 100 -c 2 http://h:80/",
        "cp -p a b",
        "mkdir -p a:b",
        "chown -R u:g /a/b",
        "sqlplus /nolog @x/y.sql",
        "cp exp a/b",
        "net use Z: \\\\h\\share /user:u",
        "net use Z: \\\\h\\share *",
        "plimsoll http http://h/ --header 'Accept: a'",
        "git checkout 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "docker run r@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "gzip -9 -k -f data.csv",
        "tar -C /a -cf x.tar b | wc -c",
        // A shell puts the secret there.
        "mysql -p$PW -h h",
        "mysql -p\"$PW\" -h h",
        "curl -u \"$USER:$PASSWORD\" http://h/",
        "curl -u bob:${SECRET_WORD} http://h/",
        "curl -H \"Authorization: Bearer $TOKEN\" http://h/",
        "foo --password \"$(cat /run/secret)\" --token $TOKEN",
        "sh -c 'mysql -p$PW'",
        "PGPASSWORD=$X psql postgres://u:$PW@h/db",
        // And this program.
        "pool --password {level}",
        "import --password-file x --ldif {ldif}",
    ] {
        assert_eq!(hide(line).0, line);
    }
}

#[test]
fn words_of_a_command_are_looked_at_together() {
    for (words, shown) in [
        (&["foo", "--password", "S3a b", "x"][..], &["foo", "--password", "***", "x"][..]),
        (&["curl", "-u", "bob:S3 a", "http://h/"], &["curl", "-u", "***", "http://h/"]),
        (&["mysql", "-pS3a;b", "db"], &["mysql", "-p***", "db"]),
        (&["sh", "-c", "mysql -pS3a; x"], &["sh", "-c", "mysql -p***; x"]),
        (&["sh", "-c", "mysql -p$PW; x"], &["sh", "-c", "mysql -p$PW; x"]),
        // No shell reads it.
        (&["foo", "--password", "$S3a"], &["foo", "--password", "***"]),
        (&["foo", "Server=a;Uid=sa;Pwd=S3a", "u"], &["foo", "Server=a;Uid=sa;Pwd=***", "u"]),
        (
            &["foo", "postgres://u:S3a@h", "-Dx.password=S3b"],
            &["foo", "postgres://***@h", "-Dx.password=***"],
        ),
        (&["docker", "run", "-p", "80:80", ""], &["docker", "run", "-p", "80:80", ""]),
    ] {
        let hidden: Vec<String> = hide_words(words).into_iter().map(|(word, _)| word).collect();
        assert_eq!(hidden, shown);
    }
}

/// No text makes it fail, and a long one takes no time that grows with its square.
#[test]
fn any_command_line_is_masked() {
    let pieces = [
        "\"",
        "'",
        "`",
        "$(",
        ")",
        "=",
        ":",
        "@",
        "/",
        " ",
        "-p",
        "-u ",
        "mysql ",
        "curl ",
        "sqlplus ",
        "é",
        "\n",
        "\\",
        "%",
        ";",
        "${",
        "}",
        "--password ",
    ];
    let mut random = crate::random::Random::stream(2, 0);
    for _ in 0..3000 {
        let texts: Vec<String> =
            (0..12).map(|_| pieces[random.below_u64(pieces.len() as u64) as usize].into()).collect();
        let line: String = texts.concat();
        assert!(!hide(&line).0.is_empty());
        let words: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(hide_words(&words).len(), words.len());
    }
    let long = "curl -u a:S3 -H 'X: y' ".repeat(20_000);
    assert!(!hide(&long).0.contains("S3"));
}

#[test]
fn levels_with_hidden_parts_can_be_told_apart() {
    let mut secrets = ["foo --password a", "foo --password b", "foo x", "foo --password a"]
        .map(|line| super::super::Secret::new(line, SecretParts::Command));
    super::super::Secret::distinguish(&mut secrets.iter_mut().collect::<Vec<_>>());
    let shown = secrets.map(|secret| secret.to_string());
    assert_eq!(shown, ["foo --password ***", "foo --password ***2", "foo x", "foo --password ***"]);
}
