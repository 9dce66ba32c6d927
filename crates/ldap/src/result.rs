//! Result codes: their names in RFC 4511 and its extensions, and what to do about each.

use std::fmt;

macro_rules! result_codes {
    ($($code:literal $variant:ident $name:literal $help:literal),* $(,)?) => {
        /// A result code of a server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ResultCode {
            $(#[doc = concat!("`", $name, "` (", $code, ").")] $variant,)*
            /// A code without a name here.
            Other(u32),
        }

        impl ResultCode {
            /// Every code that has a name here.
            pub const NAMED: &'static [ResultCode] = &[$(ResultCode::$variant),*];

            /// The code of this number.
            pub const fn from_number(number: u32) -> Self {
                match number {
                    $($code => ResultCode::$variant,)*
                    other => ResultCode::Other(other),
                }
            }

            /// The number of the code.
            pub const fn number(self) -> u32 {
                match self {
                    $(ResultCode::$variant => $code,)*
                    ResultCode::Other(other) => other,
                }
            }

            /// Its name in the RFC.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ResultCode::$variant => $name,)*
                    ResultCode::Other(_) => "other",
                }
            }

            /// What to do about the error; empty for a success.
            pub const fn help(self) -> &'static str {
                match self {
                    $(ResultCode::$variant => $help,)*
                    ResultCode::Other(_) => "look the number up in the server's documentation",
                }
            }
        }
    };
}

result_codes! {
    0 Success "success" "",
    1 OperationsError "operationsError" "bind first if the server asks for it, and look into the server's log",
    2 ProtocolError "protocolError" "the server does not understand the request: see which version or extension it lacks",
    3 TimeLimitExceeded "timeLimitExceeded" "raise the time limit, or index what is searched for",
    4 SizeLimitExceeded "sizeLimitExceeded" "search in pages, or raise the size limit of the request and of the server",
    5 CompareFalse "compareFalse" "",
    6 CompareTrue "compareTrue" "",
    7 AuthMethodNotSupported "authMethodNotSupported" "bind in another way",
    8 StrongerAuthRequired "strongerAuthRequired" "use LDAPS or StartTLS before binding",
    10 Referral "referral" "ask the server that the referral names",
    11 AdminLimitExceeded "adminLimitExceeded" "narrow the search, or raise the server's limit for this account",
    12 UnavailableCriticalExtension "unavailableCriticalExtension" "the server lacks a control of the request, or this account may not use it",
    13 ConfidentialityRequired "confidentialityRequired" "use LDAPS or StartTLS",
    14 SaslBindInProgress "saslBindInProgress" "the server asks for another step of the bind",
    16 NoSuchAttribute "noSuchAttribute" "the entry has no such attribute or value: read the entry again",
    17 UndefinedAttributeType "undefinedAttributeType" "add the attribute to the server's schema, or correct its name",
    18 InappropriateMatching "inappropriateMatching" "the attribute has no such matching rule: use another filter",
    19 ConstraintViolation "constraintViolation" "the value breaks a rule of the schema or of a password policy",
    20 AttributeOrValueExists "attributeOrValueExists" "the value is there already: replace instead of adding",
    21 InvalidAttributeSyntax "invalidAttributeSyntax" "write the value in the syntax of the attribute",
    32 NoSuchObject "noSuchObject" "make the entry above first, or correct the name",
    33 AliasProblem "aliasProblem" "correct the alias",
    34 InvalidDnSyntax "invalidDNSyntax" "correct the distinguished name; escape commas in values",
    36 AliasDereferencingProblem "aliasDereferencingProblem" "correct the alias, or do not dereference",
    48 InappropriateAuthentication "inappropriateAuthentication" "the entry has no password, or this bind is not allowed for it",
    49 InvalidCredentials "invalidCredentials" "correct the name or the password",
    50 InsufficientAccessRights "insufficientAccessRights" "give the account this right, or bind as another",
    51 Busy "busy" "try again later, with fewer requests at once",
    52 Unavailable "unavailable" "the server is starting, stopping or has lost its store: try again later",
    53 UnwillingToPerform "unwillingToPerform" "see the server's message: a rule, a quota or a read-only store",
    54 LoopDetect "loopDetect" "correct aliases or references that lead in a circle",
    64 NamingViolation "namingViolation" "this class of entry may not stand here, or its name lacks an attribute",
    65 ObjectClassViolation "objectClassViolation" "the entry lacks an attribute its classes require, or has one they do not allow",
    66 NotAllowedOnNonLeaf "notAllowedOnNonLeaf" "delete or move the entries below first",
    67 NotAllowedOnRdn "notAllowedOnRDN" "rename the entry to change what its name is made of",
    68 EntryAlreadyExists "entryAlreadyExists" "modify the entry instead of adding it",
    69 ObjectClassModsProhibited "objectClassModsProhibited" "delete the entry and add it with the other class",
    71 AffectsMultipleDsas "affectsMultipleDSAs" "delete the entry and add it where it should go",
    80 OtherError "other" "see the server's message and its log",
    118 Canceled "canceled" "",
    119 NoSuchOperation "noSuchOperation" "the operation had ended before",
    120 TooLate "tooLate" "the operation can no longer be canceled",
    121 CannotCancel "cannotCancel" "such an operation cannot be canceled",
    122 AssertionFailed "assertionFailed" "the entry is no longer as assumed: read it again",
    4096 SyncRefreshRequired "e-syncRefreshRequired" "the cookie is too old: synchronize from the beginning",
}

impl ResultCode {
    /// Whether the operation succeeded: a comparison succeeds with either answer.
    pub const fn is_success(self) -> bool {
        matches!(self, ResultCode::Success | ResultCode::CompareFalse | ResultCode::CompareTrue)
    }
}

impl fmt::Display for ResultCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.name(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codes_are_one_to_one() {
        for code in ResultCode::NAMED {
            assert_eq!(ResultCode::from_number(code.number()), *code);
            assert_eq!(code.help().is_empty(), code.is_success() || *code == ResultCode::Canceled, "{code}");
        }
        assert!(ResultCode::NAMED.windows(2).all(|pair| pair[0].number() < pair[1].number()));
        assert_eq!(ResultCode::from_number(49).to_string(), "invalidCredentials (49)");
        assert_eq!(ResultCode::from_number(9999).to_string(), "other (9999)");
    }
}
