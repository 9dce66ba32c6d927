//! The whole way from records to the document, on systems whose truth is known.

mod arbitrary;
mod attribution;
mod changes;
mod comparing;
mod damage;
mod in_turn;
mod loads;
mod mixed;
mod proving;
pub(crate) mod read;
mod services;
mod sizing;
