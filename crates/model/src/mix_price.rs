//! What a stated mix of operations needs of a host, from what each of them costs: a question of `plimsoll size`.

use serde::{Deserialize, Serialize};

use crate::operation_io::MixGoal;

/// The format identifier of the document.
pub const MIX_PRICE_FORMAT: &str = "plimsoll.mix-price/1";

/// A resource of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PricedResource {
    /// CPUs of the system under test.
    Cpus,
    /// Reads, writes and flushes of the devices.
    DeviceRequests,
    /// Bytes read from and written to the devices.
    DeviceBytes,
    /// Bytes on the network, in the direction with more.
    NetworkBytes,
}

impl PricedResource {
    /// All of them, in the order in which they are shown.
    pub const ALL: [PricedResource; 4] = [
        PricedResource::Cpus,
        PricedResource::DeviceRequests,
        PricedResource::DeviceBytes,
        PricedResource::NetworkBytes,
    ];
}

/// The price list of operations, and the price of a mix of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixPrice {
    /// [`MIX_PRICE_FORMAT`].
    pub format: String,
    /// The run directory.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// The required load.
    pub goal: MixGoal,
    /// The planned utilization of each resource.
    pub planned_share: f64,
    /// What each operation of the mix costs.
    pub operations: Vec<PricedOperation>,
    /// What the mix needs of each resource.
    pub needs: Vec<PricedNeed>,
    /// Why there is no answer, and what to do; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refusal: String,
    /// What limits the answer, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What one operation costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PricedOperation {
    /// Its name.
    pub operation: String,
    /// The required rate.
    pub rate_per_s: f64,
    /// The rate at which it was measured.
    pub measured_per_s: f64,
    /// The cost per operation: seconds of CPU, requests, bytes. A resource that was not measured is absent.
    pub each: Vec<(PricedResource, f64)>,
}

/// What the mix needs of one resource, per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PricedNeed {
    /// The resource.
    pub resource: PricedResource,
    /// What the load uses: CPUs, requests/s, bytes/s.
    pub for_load: f64,
    /// What to buy: the same at the planned utilization.
    pub with_headroom: f64,
}
