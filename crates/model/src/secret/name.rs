//! Names of secrets.

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sensitivity {
    /// It is a secret.
    Value,
    /// It is a secret of several words, as in a header field.
    Header,
    /// It is a secret unless it is the path of a file.
    Key,
    /// It is a secret in a form or in the query of a URL.
    Query,
}

/// Parts of names of secrets.
const PARTS: [&str; 43] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "accountkey",
    "sharedkey",
    "masterkey",
    "signingkey",
    "encryptionkey",
    "subscriptionkey",
    "credential",
    "signature",
    "authorization",
    "sessionid",
    "sessid",
    "samlresponse",
    "samlrequest",
    "assertion",
    "dpop",
    "kennwort",
    "csrf",
    "xsrf",
    "otpseed",
    "authkey",
    "contraseña",
    "contrasena",
    "motdepasse",
    "senha",
    "wachtwoord",
    "lösenord",
    "losenord",
    "hasło",
    "adgangskode",
    "salasana",
    "пароль",
    "密码",
    "パスワード",
];

/// Names of secrets.
const WHOLE: [&str; 14] = [
    "pwd", "pass", "key", "sig", "auth", "session", "sid", "jwt", "cookie", "pw", "pswd", "psw", "bearer",
    "creds",
];

/// Words that end with `pass` and are no password.
const NO_PASS: [&str; 5] = ["bypass", "compass", "encompass", "trespass", "surpass"];

/// Names that are secret in forms, queries, JSON, XML and filters only: elsewhere they are ordinary words.
const OF_QUERIES: [&str; 36] = [
    "code",
    "codeverifier",
    "pin",
    "otp",
    "totp",
    "mfa",
    "2fa",
    "cvv",
    "cvc",
    "ssn",
    "iban",
    "cardnumber",
    // OAuth, OpenID Connect, SAML, WS-Federation, CAS.
    "devicecode",
    "usercode",
    "authcode",
    "authreqid",
    "oauthverifier",
    "samlart",
    "wresult",
    "ticket",
    "pgt",
    "pgtid",
    "pgtiou",
    // A shared access signature of Azure.
    "sas",
    // Codes of one use.
    "accesscode",
    "activationcode",
    "backupcode",
    "confirmationcode",
    "logincode",
    "mfacode",
    "otpcode",
    "recoverycode",
    "securitycode",
    "smscode",
    "totpcode",
    "verificationcode",
];

/// Those of them that are ordinary words for a variable, or where a name is a value itself.
const ORDINARY_IN_PAIRS: [&str; 3] = ["code", "ticket", "accesscode"];

/// Last words of names of header fields that are secret.
const OF_HEADERS: [&str; 12] =
    ["pin", "otp", "totp", "mfa", "2fa", "session", "passcode", "jwt", "bearer", "ticket", "sas", "sig"];

/// Names of header fields whose values have several words.
const HEADERS: [&str; 6] =
    ["authorization", "proxyauthorization", "cookie", "setcookie", "setcookie2", "dpop"];

/// Names that contain one of the parts and name no secret.
const ORDINARY: [&str; 8] =
    ["secretary", "passport", "passenger", "passed", "authority", "author", "authors", "cookies"];

/// Last words of names that name something about a secret, and not the secret.
const ABOUT: [&str; 29] = [
    "stdin",
    "prompt",
    "fd",
    "file",
    "files",
    "path",
    "dir",
    "directory",
    "folder",
    "env",
    "name",
    "ttl",
    "expiry",
    "expires",
    "length",
    "count",
    "size",
    "type",
    "policy",
    "method",
    "mode",
    "min",
    "max",
    "url",
    "uri",
    "endpoint",
    "algorithm",
    "attribute",
    "attributes",
];

/// Words before "key" with which it is no secret.
const PUBLIC_KEYS: [&str; 19] = [
    "public",
    "primary",
    "foreign",
    "sort",
    "partition",
    "map",
    "cache",
    "group",
    "idempotency",
    "unique",
    "natural",
    "surrogate",
    "routing",
    "hot",
    "row",
    "registry",
    "unknown",
    "object",
    "index",
];

/// Words before "key" without a border, with which it is a secret: `APPKEY`. Most words that end with "key" are others.
const KEYS: [&str; 30] = [
    "access",
    "account",
    "admin",
    "aes",
    "api",
    "app",
    "application",
    "auth",
    "cipher",
    "client",
    "consumer",
    "crypt",
    "crypto",
    "db",
    "deploy",
    "hmac",
    "jwt",
    "license",
    "rsa",
    "root",
    "server",
    "service",
    "session",
    "sign",
    "ssh",
    "ssl",
    "storage",
    "tls",
    "user",
    "write",
];

/// Last words of names of variables that are secret.
const OF_VARIABLES: [&str; 14] = [
    "PWD", "AUTH", "PAT", "WEBHOOK", "PASS", "CREDS", "PW", "DSN", "OTP", "TOTP", "MFA", "SAS", "JWT",
    "BEARER",
];

/// Names that are recognized with a spelling mistake.
const MISSPELT: [&str; 8] =
    ["password", "passphrase", "passwd", "secret", "token", "authorization", "credentials", "cookie"];

/// The words of a name: `db_pwd`, `X-Api-Key` and `unicodePwd` have several.
fn words(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut begin = 0;
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        let is_border = !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if is_border && begin < at {
            words.push(&name[begin..at]);
        }
        if is_border {
            begin = if c.is_ascii_alphanumeric() { at } else { at + c.len_utf8() };
        }
        before = c;
    }
    if begin < name.len() {
        words.push(&name[begin..]);
    }
    words
}

/// What a name says about its value; none if it is no secret.
pub(super) fn sensitivity(name: &str) -> Option<Sensitivity> {
    let flat: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if flat.len() < 2 || ORDINARY.contains(&flat.as_str()) {
        return None;
    }
    let words = words(name);
    let last = words.last().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    let is_webhook = ["webhookurl", "webhookuri"].iter().any(|end| flat.ends_with(end));
    if words.len() > 1 && ABOUT.contains(&last.as_str()) && !is_webhook {
        return None;
    }
    if HEADERS.contains(&flat.as_str()) {
        return Some(Sensitivity::Header);
    }
    if flat == "key" || flat.ends_with("key") && words.len() > 1 && last == "key" {
        let before =
            words.len().checked_sub(2).and_then(|at| words.get(at)).map(|word| word.to_ascii_lowercase());
        let is_public = before.is_some_and(|before| PUBLIC_KEYS.contains(&before.as_str()));
        return (!is_public).then_some(Sensitivity::Key);
    }
    if last.strip_suffix("key").is_some_and(|before| KEYS.contains(&before)) {
        return Some(Sensitivity::Key);
    }
    let is_pass = flat.ends_with("pass") && !NO_PASS.iter().any(|word| flat.ends_with(word))
        || flat.ends_with("pw") && flat.len() > 3;
    if is_webhook
        || WHOLE.contains(&flat.as_str())
        || PARTS.iter().any(|part| has_part(&flat, part))
        || is_pass
    {
        return Some(Sensitivity::Value);
    }
    let is_pin = words.len() > 1 && words.last() == Some(&"PIN") && !name.contains("GPIO");
    if OF_QUERIES.contains(&flat.as_str()) || is_pin {
        return Some(Sensitivity::Query);
    }
    // The fields of a header begin with `X-` or a capital letter; flags of programs do not.
    let is_field = words.len() > 1 && name.starts_with(|c: char| c.is_ascii_uppercase() || c == 'x');
    let is_header = name.contains('-')
        && (is_about_auth(&flat)
            || flat.contains("cookie")
            || is_field && OF_HEADERS.contains(&last.as_str()));
    if is_header {
        return Some(Sensitivity::Header);
    }
    let is_variable = words.len() > 1 && OF_VARIABLES.iter().any(|known| words.last() == Some(known));
    let is_old_word = words.len() > 1 && ["pwd", "pass", "passwd", "pw"].contains(&last.as_str());
    if is_variable || is_old_word {
        return Some(Sensitivity::Value);
    }
    words.iter().copied().chain([flat.as_str()]).find_map(misspelt)
}

/// Whether a name contains the part of the name of a secret. A tokenizer has no token.
fn has_part(flat: &str, part: &str) -> bool {
    let is_tokenizer = |at: usize| {
        part == "token" && ["iz", "is"].iter().any(|end| flat[at + part.len()..].starts_with(end))
    };
    flat.match_indices(part).any(|(at, _)| !is_tokenizer(at))
}

/// Whether a name is about authentication, and not about an author or an authority.
fn is_about_auth(flat: &str) -> bool {
    flat.match_indices("auth").any(|(at, _)| {
        let word = &flat[at..];
        !word.starts_with("author") || word.starts_with("authori") && !word.starts_with("authority")
    })
}

/// Whether a value is a number of tokens: `max_tokens=100`.
pub(super) fn is_count(name: &str, value: &str) -> bool {
    name.to_ascii_lowercase().ends_with("tokens") && value.trim().bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is the misspelt name of a secret.
fn misspelt(word: &str) -> Option<Sensitivity> {
    let word = word.to_ascii_lowercase();
    if word.len() < 5 || ORDINARY.contains(&word.as_str()) {
        return None;
    }
    let is_near = |known: &&&str| {
        let mistakes = if known.len() >= 8 { 2 } else { 1 };
        known.len().abs_diff(word.len()) <= mistakes
            && known.as_bytes().first() == word.as_bytes().first()
            && strsim::damerau_levenshtein(known, &word) <= mistakes
    };
    let known = MISSPELT.iter().find(is_near)?;
    let is_header = HEADERS.contains(known);
    Some(if is_header { Sensitivity::Header } else { Sensitivity::Value })
}

/// Whether the value of a variable is a secret.
pub(super) fn is_secret_variable(name: &str, value: &str) -> bool {
    match sensitivity(name) {
        // The working directories of a shell.
        _ if name == "PWD" || name == "OLDPWD" => false,
        Some(Sensitivity::Value | Sensitivity::Header) => true,
        Some(Sensitivity::Key) => !super::mask::is_path(value),
        Some(Sensitivity::Query) => is_query_variable(name),
        None => false,
    }
}

/// Whether a name that is secret in queries is that of a variable, such as `PIN`.
pub(super) fn is_query_variable(name: &str) -> bool {
    !name.contains(|c: char| c.is_lowercase()) && !is_ordinary_in_pairs(name)
}

/// Whether a name that is secret in queries is an ordinary word for a variable, or where a name is a value itself.
pub(super) fn is_ordinary_in_pairs(name: &str) -> bool {
    ORDINARY_IN_PAIRS.iter().any(|word| name.replace(['_', '-'], "").eq_ignore_ascii_case(word))
}

/// Whether the name of a header field is one of credentials.
pub(super) fn is_sensitive_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let flat: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    let of_name = sensitivity(name.trim());
    let words = words(name.trim());
    matches!(of_name, Some(of) if of != Sensitivity::Query)
        || is_about_auth(&flat)
        || flat.contains("cookie")
        || words.last().is_some_and(|last| OF_HEADERS.contains(&last.to_ascii_lowercase().as_str()))
}

/// Whether the last word of a text is an attribute of a directory whose values are secrets, with or without options.
pub(super) fn is_secret_attribute(text: &str) -> bool {
    let name = text.split_whitespace().next_back().unwrap_or_default();
    let name = name.split(';').next().unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    // Attributes of a policy begin with it: `pwdMaxAge`.
    let is_of_windows = lower.contains("pwd") && !lower.starts_with("pwd");
    sensitivity(name).is_some() || is_of_windows
}

/// Whether a long number is something that everybody may know: a digest, an identifier.
pub(super) fn is_of_something_public(name: &str) -> bool {
    const PUBLIC: [&str; 16] = [
        "sha",
        "md5",
        "digest",
        "hash",
        "checksum",
        "etag",
        "match",
        "commit",
        "uuid",
        "guid",
        "id",
        "fingerprint",
        "traceparent",
        "integrity",
        "revision",
        "boundary",
    ];
    let words = words(name);
    words.iter().any(|word| {
        let word = word.to_ascii_lowercase();
        PUBLIC.iter().any(|public| word == *public || word.starts_with("sha"))
    })
}
