//! How agents are found and claimed: small JSON messages, asked and answered.

use model::Host;
use serde::{Deserialize, Serialize};

use crate::message::{FORMAT, check_format};

/// Limit of such a message.
const BYTES_MAX: usize = 16 << 10;

/// A coordinator asks which agents are there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// [`FORMAT`].
    pub format: String,
}

/// An agent is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// [`FORMAT`].
    pub format: String,
    /// The agent, for as long as it runs.
    pub id: String,
    /// Its name: that of its host, or as it was started.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// CPUs of its host.
    pub cpus: u32,
    /// The coordinator that it works for.
    pub busy: Option<String>,
}

/// A coordinator wants an agent for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// [`FORMAT`].
    pub format: String,
    /// The run.
    pub run: String,
    /// The session: a random number that no other has.
    pub session: String,
    /// The host of the coordinator, for messages.
    pub coordinator: String,
}

/// What an agent says to that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Answer {
    /// It waits for the first message.
    Accepted,
    /// It works for this coordinator.
    Busy {
        /// Its host.
        coordinator: String,
    },
    /// It does not work for such a coordinator.
    Refused {
        /// Why.
        why: String,
    },
}

impl Question {
    /// The question of this program.
    pub fn new() -> Question {
        Question { format: FORMAT.into() }
    }
}

impl Default for Question {
    fn default() -> Self {
        Question::new()
    }
}

impl Claim {
    /// Whether an agent of this version can work for it.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        check_format(&self.format)?;
        match is_id(&self.run) && is_id(&self.session) && is_shown(&self.coordinator) {
            true => Ok(()),
            false => Err("its claim has no numbers of a run and a session".into()),
        }
    }
}

impl Offer {
    /// That of an agent on this host.
    pub fn new(id: &str, name: &str, host: &Host) -> Offer {
        Offer {
            format: FORMAT.into(),
            id: id.into(),
            name: name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            cpus: host.cpus,
            busy: None,
        }
    }

    /// Whether this program can use it: its format fits, and its texts can be parts of subjects and messages.
    pub fn is_usable(&self) -> bool {
        let texts = [&self.name, &self.version].into_iter().chain(&self.busy);
        check_format(&self.format).is_ok() && is_id(&self.id) && texts.into_iter().all(|text| is_shown(text))
    }
}

/// A random number that nobody can guess, for an agent, a run or a session.
///
/// # Errors
/// When the system has none.
pub fn new_id() -> Result<String, String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| format!("no random number: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a text may be part of a message to the user.
fn is_shown(text: &str) -> bool {
    text.len() <= 255 && !text.chars().any(char::is_control)
}

/// The bytes of a message.
pub fn write<T: Serialize>(message: &T) -> Vec<u8> {
    // Texts and numbers can always be written.
    serde_json::to_vec(message).unwrap_or_default()
}

/// A message; none for what is none or too long.
pub fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    (bytes.len() <= BYTES_MAX).then(|| serde_json::from_slice(bytes).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_send_is_used_only_if_it_can_be_part_of_a_subject() {
        let id = new_id().unwrap();
        let claim = |format: &str, run: &str| Claim {
            format: format.into(),
            run: run.into(),
            session: id.clone(),
            coordinator: "c".into(),
        };
        assert_eq!(claim(FORMAT, &id).check(), Ok(()));
        assert!(claim("plimsoll.machines/1.2", &id).check().unwrap_err().contains("same version"));
        for run in ["", ">", "a.b", &id[1..], &id.to_uppercase().replace('0', "A")] {
            assert!(claim(FORMAT, run).check().is_err(), "{run}");
        }
        let offer = Offer::new(&id, "gen1", &Host::default());
        assert!(offer.is_usable());
        assert!(!Offer { id: "*".into(), ..offer.clone() }.is_usable());
        assert!(!Offer { name: "a\u{1b}[2J".into(), ..offer.clone() }.is_usable());
        assert_eq!(read::<Offer>(&write(&offer)), Some(offer.clone()));
        let long = Offer { name: "x".repeat(BYTES_MAX), ..offer };
        assert_eq!(read::<Offer>(&write(&long)), None);
        assert_eq!(read::<Answer>(br#"{"answer":"accepted"}"#), Some(Answer::Accepted));
    }
}
