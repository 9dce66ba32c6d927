//! Why a directory refused a change of an export, and what to do.

use ldap::ResultCode;
use ldap::session::Outcome;

/// Error numbers of Windows with which Active Directory begins its messages, and what to do.
const WINDOWS_ERRORS: [(&str, &str); 3] = [
    ("00000524", "another account has this `sAMAccountName`: change it in one of them"),
    (
        "0000052D",
        "the password breaks the policy of the domain: send one that is longer, has more classes of characters, or was not \
        used before",
    ),
    ("000021C8", "another account has this `userPrincipalName`: change it in one of them"),
];

/// A result of the server, with what to do about it. `is_modify`: whether an existing entry was to be modified.
pub(super) fn of_server(outcome: &Outcome, is_modify: bool) -> String {
    let number = outcome.diagnostic.split(':').next().unwrap_or_default();
    let known = WINDOWS_ERRORS.iter().find(|(known, _)| *known == number);
    let help = match known {
        Some((_, help)) => help,
        None if is_modify && outcome.code == ResultCode::EntryAlreadyExists => {
            "another entry has a value that must be unique: change it in one of them"
        }
        None => return outcome.to_string(),
    };
    let Outcome { operation, dn, code, diagnostic, .. } = outcome;
    format!("{operation} of {dn}: {code}, {diagnostic}: {help}")
}

/// An entry cannot be added: the server says that it exists, and does not show it.
pub(super) fn exists_unseen(dn: &str) -> String {
    format!(
        "{dn} exists already and this account cannot read it, or another entry has a value that must be unique, such as \
        `sAMAccountName`: give the account read access, or change the value"
    )
}

/// An entry cannot be renamed.
pub(super) fn is_taken(new: &str) -> String {
    format!("another entry has the name {new}: rename or delete that entry, or give this object another name")
}

/// An entry that is to be changed does not exist.
pub(super) fn is_missing(dn: &str) -> String {
    format!("{dn} is not in the directory: the next import shows its new state")
}

/// The entry to which a new value refers does not exist.
pub(super) fn has_no_target(attribute: &str, target: &str) -> String {
    format!(
        "`{attribute}` refers to {target}, which is not in the directory: the next import shows its new state"
    )
}

/// The server does not remove a value, such as the member of a primary group.
pub(super) fn keeps(attribute: &str, value: &str) -> String {
    format!(
        "the server refuses to remove {value} from `{attribute}` (unwillingToPerform): change what requires it there"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_active_directory_say_what_to_do() {
        let of = |code, diagnostic: &str, is_modify| {
            let outcome = Outcome {
                operation: "addRequest",
                dn: "CN=Ada".into(),
                code,
                matched_dn: String::new(),
                diagnostic: diagnostic.into(),
                referrals: Vec::new(),
            };
            of_server(&outcome, is_modify)
        };
        // As Windows Server writes them, without a word about the password or the login.
        let policy = "0000052D: SvcErr: DSID-031A12D2, problem 5003 (WILL_NOT_PERFORM), data 0";
        let text = of(ResultCode::UnwillingToPerform, policy, false);
        assert!(
            text.starts_with("addRequest of CN=Ada: unwillingToPerform (53), 0000052D: SvcErr"),
            "{text}"
        );
        assert!(text.contains(": the password breaks the policy of the domain: send one"), "{text}");
        let login = "00000524: UpdErr: DSID-031A11E2, problem 6005 (ENTRY_EXISTS), data 0";
        assert!(of(ResultCode::EntryAlreadyExists, login, true).contains("has this `sAMAccountName`"));
        let other = of(ResultCode::EntryAlreadyExists, "00002071: in use", true);
        assert!(other.ends_with("a value that must be unique: change it in one of them"), "{other}");
        let text = of(ResultCode::ObjectClassViolation, "", false);
        assert!(
            text.starts_with("addRequest of CN=Ada: objectClassViolation (65): the entry lacks"),
            "{text}"
        );
    }
}
