//! What the load asks its server before it begins, in a session of its own.

use std::time::Duration;

use engine::workload::LoadError;
use ldap::Filter;
use ldap::message::{List, Scope, SearchRequest};
use ldap::session::{ClientCertificate, Options, SearchItem, Session, SessionError};

use super::settings::{Identity, LdapPlan};

/// How long the server may take for each step.
const PATIENCE: Duration = Duration::from_secs(5);

/// A session with the identity of the load.
pub(super) fn session(plan: &LdapPlan) -> Result<Session, SessionError> {
    let own = plan.tls.certificate.clone().zip(plan.tls.key.clone());
    let options = Options {
        connect_timeout: PATIENCE,
        response_timeout: PATIENCE,
        trust: plan.tls.trust(),
        client_certificate: own.map(|(certificate, key)| ClientCertificate { certificate, key }),
        ..Options::default()
    };
    let mut session = Session::connect(&plan.server, &options)?;
    match &plan.identity {
        Identity::Anonymous => {}
        Identity::Simple { dn, password } => session.bind(dn, password.reveal().as_bytes())?,
        Identity::External => session.bind_external()?,
    }
    Ok(session)
}

/// The default naming context of the server, or its first one (RFC 4512, section 5.1).
pub(super) fn naming_context(plan: &LdapPlan) -> Result<String, LoadError> {
    let unknown = |why: String| {
        LoadError::new(
            format!("the search has no `base`, and {} does not name one{why}", plan.server),
            "write it, such as \"dc=example,dc=com\"",
        )
    };
    match session(plan).and_then(|mut session| contexts(&mut session)) {
        Ok(Some(context)) => Ok(context),
        Ok(None) => Err(unknown(String::new())),
        Err(error) => Err(unknown(format!(": {error}"))),
    }
}

fn contexts(session: &mut Session) -> Result<Option<String>, SessionError> {
    const ATTRIBUTES: [&str; 2] = ["defaultNamingContext", "namingContexts"];
    let filter = Filter::Present("objectClass".into());
    let request = SearchRequest {
        scope: Scope::Base,
        attributes: List::from(&ATTRIBUTES),
        ..SearchRequest::subtree("", &filter)
    };
    let mut search = session.search(request, None)?;
    let mut found: [Option<String>; ATTRIBUTES.len()] = Default::default();
    while let Some(item) = search.next()? {
        let SearchItem::Entry { attributes, .. } = item else { continue };
        for attribute in attributes {
            let place = ATTRIBUTES.iter().position(|name| name.eq_ignore_ascii_case(attribute.name));
            let value = attribute.values.into_iter().next();
            let value = value.and_then(|value| std::str::from_utf8(value.0).ok().map(str::to_string));
            if let (Some(place), Some(value)) = (place, value) {
                found[place] = Some(value);
            }
        }
    }
    Ok(found.into_iter().flatten().next())
}
