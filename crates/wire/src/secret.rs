//! Values that are never shown.

use ldap::Filter;

/// Attributes with passwords or keys. A search for one of their values contains it.
const PASSWORDS: &[&str] = &[
    "userpassword",
    "2.5.4.35",
    "unicodepwd",
    "userpkcs12",
    "authpassword",
    "dbcspwd",
    "krbprincipalkey",
    "lmpwdhistory",
    "ntpwdhistory",
    "olcrootpw",
    "nsslapd-rootpw",
    "passwordhistory",
    "pwdhistory",
    "sambalmpassword",
    "sambantpassword",
    "supplementalcredentials",
];

/// What stands for such a value.
const MASK: &[u8] = b"[hidden]";

fn is_password(attribute: &str) -> bool {
    let name = attribute.split(';').next().unwrap_or_default();
    PASSWORDS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The filter with `[hidden]` for the values of passwords.
pub(crate) fn masked(filter: Filter) -> Filter {
    let mask = |value: Vec<u8>, attribute: &str| if is_password(attribute) { MASK.to_vec() } else { value };
    match filter {
        Filter::And(all) => Filter::And(all.into_iter().map(masked).collect()),
        Filter::Or(all) => Filter::Or(all.into_iter().map(masked).collect()),
        Filter::Not(one) => Filter::Not(Box::new(masked(*one))),
        Filter::Equal(mut of) => {
            of.value = mask(of.value, &of.attribute);
            Filter::Equal(of)
        }
        Filter::GreaterOrEqual(mut of) => {
            of.value = mask(of.value, &of.attribute);
            Filter::GreaterOrEqual(of)
        }
        Filter::LessOrEqual(mut of) => {
            of.value = mask(of.value, &of.attribute);
            Filter::LessOrEqual(of)
        }
        Filter::Approximate(mut of) => {
            of.value = mask(of.value, &of.attribute);
            Filter::Approximate(of)
        }
        Filter::Present(attribute) => Filter::Present(attribute),
        Filter::Substrings(mut of) if is_password(&of.attribute) => {
            of.initial = of.initial.map(|_| MASK.to_vec());
            of.any.iter_mut().for_each(|part| *part = MASK.to_vec());
            of.last = of.last.map(|_| MASK.to_vec());
            Filter::Substrings(of)
        }
        Filter::Substrings(of) => Filter::Substrings(of),
        Filter::Extensible(mut of) => {
            // Without an attribute, it may be compared with any.
            if of.attribute.as_deref().is_none_or(is_password) {
                of.value = MASK.to_vec();
            }
            Filter::Extensible(of)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_passwords_are_masked() {
        for (filter, expected) in [
            ("(uid=a)", "(uid=a)"),
            ("(&(uid=a)(userPassword=hidden))", "(&(uid=a)(userPassword=[hidden]))"),
            (
                "(!(|(userpassword;x-a>=hidden)(unicodePwd~=hidden)))",
                "(!(|(userpassword;x-a>=[hidden])(unicodePwd~=[hidden])))",
            ),
            ("(userPassword=hidden*hidden*hidden)", "(userPassword=[hidden]*[hidden]*[hidden])"),
            ("(userPassword<=hidden)", "(userPassword<=[hidden])"),
            ("(:2.5.13.18:=hidden)", "(:2.5.13.18:=[hidden])"),
            ("(userPassword=*)", "(userPassword=*)"),
        ] {
            let shown = masked(Filter::parse(filter).unwrap()).to_string();
            assert_eq!(shown, expected);
            assert!(!shown.contains("=hidden"));
        }
    }
}
