//! Sends a record to an endpoint.

use export::push::Endpoint;
use model::Study;

use crate::carry_out::Failure;
use crate::output;

/// The most bytes of a request, unless a single part is larger.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Sends the trials of a record, and says how much was sent.
pub(super) fn send(study: &Study, endpoint: &Endpoint) -> Result<(), Failure> {
    let mut waiting: Vec<String> = Vec::new();
    let (mut bytes, mut sent, mut rejected) = (0, 0_u64, None);
    let mut post = |waiting: &mut Vec<String>| {
        let body = export::request(waiting.iter().map(String::as_str));
        let taken = endpoint
            .send(&body)
            .map_err(|refusal| Failure::failed(format!("{}: {}", endpoint.shown(), refusal.why)))?;
        sent += waiting.len() as u64;
        waiting.clear();
        if let Some((_, what)) = taken {
            rejected.get_or_insert(what);
        }
        Ok(())
    };
    super::otlp(study, |part| {
        if bytes + part.len() > REQUEST_BYTES_MAX && !waiting.is_empty() {
            post(&mut waiting)?;
            bytes = 0;
        }
        bytes += part.len();
        waiting.push(part);
        Ok::<(), Failure>(())
    })?;
    if !waiting.is_empty() {
        post(&mut waiting)?;
    }
    match rejected {
        Some(what) => Err(Failure::failed(format!("{}: {what}", endpoint.shown()))),
        None => {
            output::say(&format!("sent {sent} intervals and samples to {}", endpoint.shown()));
            Ok(())
        }
    }
}
