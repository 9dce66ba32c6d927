//! A system without `type`: the program that opens the metadirectory provides the agent.

use std::fmt;
use std::sync::Arc;

use crate::agent::{Agent, AgentError, Names};
use crate::config::AgentConfig;
use crate::naming::Naming;

/// Opens an agent.
pub type Open = dyn Fn(&AgentConfig, &Names) -> Result<Box<dyn Agent>, AgentError> + Send + Sync;

/// A system whose agent the program provides.
#[derive(Clone)]
pub struct ProvidedSystem {
    /// How its objects are named.
    pub naming: Naming,
    /// Its attributes in addition to those that the configuration names.
    pub attributes: Vec<String>,
    /// Opens its agent.
    pub open: Arc<Open>,
}

impl fmt::Debug for ProvidedSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given")
            .field("naming", &self.naming)
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}

impl PartialEq for ProvidedSystem {
    fn eq(&self, other: &ProvidedSystem) -> bool {
        self.naming == other.naming
            && self.attributes == other.attributes
            && Arc::ptr_eq(&self.open, &other.open)
    }
}

impl Eq for ProvidedSystem {}
