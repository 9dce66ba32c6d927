//! How much the response time depends on the delay of each dependency.

/// The facts of a proxy, each after the path of its factor and a dot.
pub mod facts {
    /// The median delay that was really added on the way to the dependency.
    pub const ADDED_UP: &str = "added_up.p50";
    /// The same on the way back.
    pub const ADDED_DOWN: &str = "added_down.p50";
    /// Bytes in both directions since the delay was set.
    pub const BYTES: &str = "bytes";
    /// Exchanges that completed in the measured time.
    pub const MEASURED_EXCHANGES: &str = "measured.exchanges";
    /// Connections that were opened in the measured time.
    pub const MEASURED_CONNECTIONS: &str = "measured.connections";
}
