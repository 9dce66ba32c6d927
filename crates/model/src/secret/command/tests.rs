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
        // Arguments.
        ("htpasswd -b f u S3a", "htpasswd -b f u ***"),
        ("htpasswd -cbB f u S3a", "htpasswd -cbB f u ***"),
        ("htpasswd -nb u S3a > f; ls", "htpasswd -nb u *** > f; ls"),
        ("htpasswd -n -b u 'S3 a'", "htpasswd -n -b u '***'"),
        ("redis-cli -h h AUTH S3a", "redis-cli -h h AUTH ***"),
        ("redis-cli auth S3u S3a | cat", "redis-cli auth *** *** | cat"),
        ("redis-cli CONFIG SET requirepass S3a", "redis-cli CONFIG SET requirepass ***"),
        ("mc alias set a http://h S3k S3a", "mc alias set a http://h *** ***"),
        ("mc --quiet alias set a http://h S3k S3a", "mc --quiet alias set a http://h *** ***"),
        ("openssl passwd -6 S3a", "openssl passwd -6 ***"),
        ("openssl passwd S3a", "openssl passwd ***"),
        ("openssl dgst -sha256 -hmac S3a f", "openssl dgst -sha256 -hmac *** f"),
        ("openssl s_client -psk S3a -connect h:1", "openssl s_client -psk *** -connect h:1"),
        ("openssl dgst -mac HMAC -macopt hexkey:S3a f", "openssl dgst -mac HMAC -macopt *** f"),
        ("vault login S3a", "vault login ***"),
        ("vault login -no-print S3a", "vault login -no-print ***"),
        ("vault kv put secret/a x=S3a y=S3b z=@f", "vault kv put secret/a x=*** y=*** z=@f"),
        ("vault operator unseal S3a", "vault operator unseal ***"),
        ("net user bob S3a /add", "net user bob *** /add"),
        ("net.exe user /domain bob S3a", "net.exe user /domain bob ***"),
        ("ansible-vault encrypt_string --name n S3a", "ansible-vault encrypt_string --name *** ***"),
        ("rabbitmqctl add_user u S3a", "rabbitmqctl add_user u ***"),
        ("wpa_passphrase ssid S3a", "wpa_passphrase ssid ***"),
        ("mkpasswd -m sha-512 S3a", "mkpasswd -m *** ***"),
        (
            "$p = ConvertTo-SecureString 'S3a' -AsPlainText -Force",
            "$p = ConvertTo-SecureString '***' -AsPlainText -Force",
        ),
        ("ConvertTo-SecureString -String S3a -Force", "ConvertTo-SecureString -String *** -Force"),
        // Names that a command sets to the next word.
        ("aws configure set aws_secret_access_key S3a", "aws configure set aws_secret_access_key ***"),
        (
            "aws configure set profile.p.aws_session_token S3a",
            "aws configure set profile.p.aws_session_token ***",
        ),
        ("npm config set //registry/:_authToken S3a", "npm config set //registry/:_authToken ***"),
        ("npm config set //registry/:_authToken=S3a", "npm config set //registry/:_authToken=***"),
        ("git config --global x.token S3a", "git config --global x.token ***"),
        ("setx API_TOKEN S3a", "setx API_TOKEN ***"),
        // Flags.
        (
            "kubectl create secret generic x --from-literal=password2=S3a --from-literal=a=S3b --from-literal 'b=S3c'",
            "kubectl create secret generic x --from-literal=password2=*** --from-literal=a=*** --from-literal 'b=***'",
        ),
        ("etcdctl --user a:S3a get x", "etcdctl --user *** get x"),
        ("etcdctl --user=a:S3a get x", "etcdctl --user=*** get x"),
        ("xfreerdp /u:a /p:S3a /v:h", "xfreerdp /u:a /p:*** /v:h"),
        ("wfreerdp.exe /P:'S3 a' /gp:S3b", "wfreerdp.exe /P:'***' /gp:***"),
        ("java -Dpw=S3a -Dpin=S3b -Dx=y X", "java -Dpw=*** -Dpin=*** -Dx=y X"),
        ("java -Djavax.net.ssl.keyStorePassword=S3a X", "java -Djavax.net.ssl.keyStorePassword=*** X"),
        ("gradle -PsigningPassword=S3a -Ppw=S3b", "gradle -PsigningPassword=*** -Ppw=***"),
        ("mount -t cifs //h/s /x -o user=a%S3a", "mount -t cifs //h/s /x -o user=a%***"),
        ("mount -o ro,username=a,password=S3a //h/s /x", "mount -o ro,username=a,password=*** //h/s /x"),
        ("psql postgresql://u:S3a@h", "psql postgresql://***@h"),
        ("git clone https://u:S3a@h/r", "git clone https://***@h/r"),
        ("docker run -e ROOTPW=S3a -e PIN=S3b -e A=b i", "docker run -e ROOTPW=*** -e PIN=*** -e A=b i"),
        ("docker run -eROOTPW=S3a i", "docker run -eROOTPW=*** i"),
        ("wget --password=S3a --http-password S3b x", "wget --password=*** --http-password *** x"),
        (
            "wget --header='X-Pin: S3a' --header \"X-Jwt: S3b\" x",
            "wget --header='X-Pin: ***' --header \"X-Jwt: ***\" x",
        ),
        ("curl -H'X-Ticket: S3a' -sH 'X-Pin: S3b' x", "curl -H'X-Ticket: ***' -sH 'X-Pin: ***' x"),
        ("curl -d pin=S3a --data-raw otp=S3b x", "curl -d pin=*** --data-raw otp=*** x"),
        ("curl -d '{\"pin\": \"S3a\"}' x", "curl -d '{\"pin\": \"***\"}' x"),
        ("http POST h pin=S3a a=b X-Jwt:S3b", "http POST h pin=*** a=b X-Jwt:***"),
        ("ssh-keygen -t rsa -N S3a -f f -P S3b", "ssh-keygen -t rsa -N *** -f f -P ***"),
        ("gpg --batch --passphrase S3a -c f", "gpg --batch --passphrase *** -c f"),
        ("Invoke-Sqlcmd -Username a -Password S3a", "Invoke-Sqlcmd -Username a -Password ***"),
        ("New-SmbMapping -Password 'S3a' -LocalPath Z:", "New-SmbMapping -Password '***' -LocalPath Z:"),
        ("cmdkey /add:h /user:u /pass:S3a", "cmdkey /add:h /user:u /pass:***"),
        ("schtasks /create /ru u /RP S3a /tn t", "schtasks /create /ru u /RP *** /tn t"),
        ("sc config s obj= u password= S3a", "sc config s obj= u password= ***"),
        ("useradd -m -p S3a u", "useradd -m -p *** u"),
        ("kadmin.local -q 'addprinc -pw S3a u'", "kadmin.local -q 'addprinc -pw *** u'"),
        ("az keyvault secret set -n a --value S3a", "az keyvault secret set -n a --value ***"),
        ("gh secret set A --body S3a", "gh secret set A --body ***"),
        ("aws ssm put-parameter --name a --value S3a", "aws ssm put-parameter --name a --value ***"),
        ("db2 connect to d user u using S3a", "db2 connect to d user u using ***"),
        ("ftp ftp://u:S3a@h/f", "ftp ftp://***@h/f"),
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
        "htpasswd -n u",
        "htpasswd -c f u",
        "htpasswd -vi f u < p",
        "redis-cli SET key value",
        "redis-cli -h h -p 6379 GET author",
        "mc alias list a",
        "mc cp a b c d",
        "openssl passwd -6 -stdin",
        "openssl rand -hex 16",
        "openssl s_client -psk_identity i -connect h:443",
        "openssl x509 -in a.pem -noout -text",
        "vault kv get secret/a",
        "vault login",
        "aws configure set region eu-west-1",
        "aws configure set output json",
        "npm config set registry http://h/",
        "git config user.name ann",
        "you must set NATS_TOKEN, or NATS_USER",
        "UPDATE accounts SET cn = 'a' WHERE login = 'b'",
        "kubectl create configmap x --from-file=a=b",
        "kubectl get secret x -o yaml",
        "etcdctl --user a get x",
        "xfreerdp /u:a /v:h:3389 /port:3389",
        "java -Xmx1g -Dfile.encoding=UTF-8 -Dpin=3 -jar a.jar",
        "mount -t tmpfs -o size=50%,mode=1777 tmpfs /x",
        "mount -o ro,user=a //h/s /x",
        "net user bob /add",
        "net user bob *",
        "net start s",
        "gh auth login --with-token < f",
        "docker run -e A=b -e KEYBOARD=de -p 80:80 i",
        "docker login --password-stdin registry",
        "curl -d a=b -d @f -H 'Accept: a' -F f=@x http://h/",
        "curl -d '{\"code\": 200}' http://h/",
        "http GET h a=b Accept:text/html",
        "ssh-keygen -t rsa -N '' -f f",
        "gpg --passphrase-fd 0 -d f",
        "ansible-vault view f",
        "cmdkey /list",
        "runas /user:u cmd",
        "schtasks /query /tn t",
        "sc config s start= auto",
        "useradd -m -s /bin/sh u",
        "mkdir -p secret/set",
        "ls -lH a",
        "sudo ipmitool -H h sensor",
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

/// The name of a program that is a whole command line: the message about it shows no credential.
#[test]
fn a_message_about_a_program_shows_no_credential() {
    for (name, shown) in [
        ("mysql -pS3a", "mysql -p***"),
        ("/usr/bin/mysql -pS3a --version", "/usr/bin/mysql -p*** --version"),
        ("redis-cli AUTH S3a", "redis-cli AUTH ***"),
        ("xfreerdp /p:S3a", "xfreerdp /p:***"),
        ("sh -c 'vault login S3a'", "sh -c 'vault login ***'"),
        ("htpasswd -nb u 'S3 a'", "htpasswd -nb u '***'"),
        ("mysqld --port 3306", "mysqld --port 3306"),
    ] {
        let message = |name: &str| format!("there is no program `{name}` in the PATH");
        assert_eq!(super::super::mask(&message(name)), message(shown));
        assert_eq!(hide_words(&[name, "--version"])[0].0, shown);
        assert_eq!(hide(name).0, shown);
    }
}

/// A file with a mistake in each line: the time for its messages does not grow with its square.
#[test]
fn a_file_with_many_mistakes_is_masked() {
    let line = "strt = \"docker exec c mysql -pS3CRET\"; redis-cli auth S3CRET; { \"pin\": \"S3CRET\" }\n";
    let text = line.repeat(100_000 / line.len());
    for number in 0..text.lines().count() {
        assert!(!super::super::mask_line(&text, number, 0, 4).text.contains("S3CRET"));
    }
    let long = "redis-cli auth auth -x htpasswd -nb mc alias set docker login -p S3CRET ".repeat(1_500);
    assert!(!hide(&long).0.contains("S3CRET"));
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
        (&["htpasswd", "-b", "f", "u", "S3 a"], &["htpasswd", "-b", "f", "u", "***"]),
        (&["redis-cli", "AUTH", "S3a"], &["redis-cli", "AUTH", "***"]),
        (
            &["aws", "configure", "set", "aws_session_token", "S3a"],
            &["aws", "configure", "set", "aws_session_token", "***"],
        ),
        (&["xfreerdp", "/u:a", "/p:S3 a"], &["xfreerdp", "/u:a", "/p:***"]),
        (&["java", "-Dpw=S3a", "X"], &["java", "-Dpw=***", "X"]),
        (&["curl", "-HX-Pin: S3a", "-d", "pin=S3b"], &["curl", "-HX-Pin: ***", "-d", "pin=***"]),
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
