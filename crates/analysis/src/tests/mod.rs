//! Tests from records to the document, on systems with known properties.

mod arbitrary;
mod attribution;
mod changes;
mod comparing;
mod copies;
mod damage;
mod hosts;
mod in_flight;
mod in_turn;
mod limits;
mod loads;
mod mixed;
mod network;
mod proving;
pub(crate) mod read;
mod sensitivity;
mod services;
mod sizing;
mod smallest;
