//! A system of no `type`: the program that opens the metadirectory brings its agent along.

use std::fmt;
use std::sync::Arc;

use crate::agent::{Agent, AgentError, Names};
use crate::config::AgentConfig;
use crate::naming::Naming;

/// Opens an agent.
pub type Open = dyn Fn(&AgentConfig, &Names) -> Result<Box<dyn Agent>, AgentError> + Send + Sync;

/// A system that the program brings along.
#[derive(Clone)]
pub struct Given {
    /// How its objects are named.
    pub naming: Naming,
    /// Its attributes beside those that the configuration names.
    pub attributes: Vec<String>,
    /// Opens its agent.
    pub open: Arc<Open>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given")
            .field("naming", &self.naming)
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Given {
    fn eq(&self, other: &Given) -> bool {
        self.naming == other.naming
            && self.attributes == other.attributes
            && Arc::ptr_eq(&self.open, &other.open)
    }
}

impl Eq for Given {}
