//! The files of a load that a coordinator sends: in memory without a name, so that nothing is left of them, however the agent ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use engine::inputs::INPUT_BYTES_MAX;
use engine::workload::LoadError;
use rustix::fs::{MemfdFlags, memfd_create};
use sha2::{Digest, Sha256};

use crate::message::{FILE_PIECE_BYTES_MAX, InputHead};

/// Bytes that are requested and have not arrived. More would delay answers on a slow connection until the machine seems lost.
const ASKED_BYTES_MAX: u64 = 4 * FILE_PIECE_BYTES_MAX;

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(Sha256::digest(bytes).as_slice())
}

pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files that arrived, by their SHA-256: each is sent once, however many trials read it.
#[derive(Debug, Default)]
pub(crate) struct Received {
    files: BTreeMap<String, (u64, Arc<File>)>,
}

fn failed(why: impl std::fmt::Display) -> LoadError {
    LoadError::new(format!("the files of the load could not be received: {why}"), "")
}

impl Received {
    /// What is missing of the files of a trial, each once. Other files are dropped if there were too many otherwise.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn missing(&mut self, heads: &[InputHead]) -> Result<Vec<InputHead>, LoadError> {
        let total = |of: &mut dyn Iterator<Item = u64>| of.fold(0, u64::saturating_add);
        let mut seen = BTreeSet::new();
        let needed: Vec<&InputHead> = heads.iter().filter(|head| seen.insert(&head.sha256)).collect();
        if total(&mut needed.iter().map(|head| head.bytes)) > INPUT_BYTES_MAX {
            return Err(failed(format!("they are larger than {} MiB", INPUT_BYTES_MAX >> 20)));
        }
        let missing: Vec<InputHead> =
            needed.into_iter().filter(|head| !self.files.contains_key(&head.sha256)).cloned().collect();
        let kept = total(&mut self.files.values().map(|(bytes, _)| *bytes));
        if kept.saturating_add(total(&mut missing.iter().map(|head| head.bytes))) > INPUT_BYTES_MAX {
            self.files.retain(|sha256, _| seen.contains(sha256));
        }
        Ok(missing)
    }

    /// A file has arrived.
    ///
    /// # Errors
    /// When it is another one.
    pub(crate) fn add(&mut self, arrived: Arriving) -> Result<(), LoadError> {
        let Arriving { head, file, hash, .. } = arrived;
        if hexadecimal(hash.finalize().as_slice()) != head.sha256 {
            return Err(failed(format!("{} did not arrive whole", head.name)));
        }
        self.files.insert(head.sha256, (head.bytes, Arc::new(file)));
        Ok(())
    }

    /// The files of a trial by their names.
    pub(crate) fn named(&self, heads: &[InputHead]) -> BTreeMap<String, Arc<File>> {
        let named = |head: &InputHead| Some((head.name.clone(), self.files.get(&head.sha256)?.1.clone()));
        heads.iter().filter_map(named).collect()
    }
}

/// A file of which pieces arrive, in order.
#[derive(Debug)]
pub(crate) struct Arriving {
    head: InputHead,
    file: File,
    hash: Sha256,
    asked: u64,
    arrived: u64,
}

impl Arriving {
    /// Begins with an empty file.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn begin(head: InputHead) -> Result<Arriving, LoadError> {
        let file = memfd_create("plimsoll-input", MemfdFlags::CLOEXEC).map_err(failed)?;
        Ok(Arriving { head, file: file.into(), hash: Sha256::new(), asked: 0, arrived: 0 })
    }

    /// The next piece to request: the file, where it begins, its length. None while enough is requested.
    pub(crate) fn ask(&mut self) -> Option<(String, u64, u64)> {
        let bytes = FILE_PIECE_BYTES_MAX.min(self.head.bytes - self.asked);
        if bytes == 0 || self.asked - self.arrived >= ASKED_BYTES_MAX {
            return None;
        }
        let offset = self.asked;
        self.asked += bytes;
        Some((self.head.sha256.clone(), offset, bytes))
    }

    /// Takes a piece. One of a file that is not waited for any more is ignored.
    ///
    /// # Errors
    /// When it is not the piece that was requested.
    pub(crate) fn take(&mut self, sha256: &str, offset: u64, piece: &[u8]) -> Result<(), LoadError> {
        if sha256 != self.head.sha256 {
            return Ok(());
        }
        let bytes = piece.len() as u64;
        if offset != self.arrived || bytes == 0 || bytes > self.asked - self.arrived {
            return Err(failed(format!("a piece of {} was not requested", self.head.name)));
        }
        self.file.write_all_at(piece, offset).map_err(failed)?;
        self.hash.update(piece);
        self.arrived += bytes;
        Ok(())
    }

    /// Whether it is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.arrived == self.head.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::inputs::Inputs;
    use std::path::Path;

    fn head(name: &str, content: &[u8]) -> InputHead {
        InputHead { name: name.into(), sha256: sha256(content), bytes: content.len() as u64 }
    }

    fn receive(received: &mut Received, head: InputHead, content: &[u8]) -> Result<usize, LoadError> {
        let mut arriving = Arriving::begin(head)?;
        let (mut asked, mut pieces) = (Vec::new(), 0);
        while !arriving.is_whole() {
            while let Some(ask) = arriving.ask() {
                asked.push(ask);
            }
            assert!(asked.len() as u64 <= ASKED_BYTES_MAX / FILE_PIECE_BYTES_MAX);
            let (sha256, offset, bytes) = asked.remove(0);
            arriving.take("of another file", 0, b"late")?;
            arriving.take(&sha256, offset, &content[offset as usize..(offset + bytes) as usize])?;
            pieces += 1;
        }
        assert!(arriving.ask().is_none());
        received.add(arriving).map(|()| pieces)
    }

    #[test]
    fn files_arrive_in_pieces_and_each_once() {
        let large: Vec<u8> = (0..500_000_u32).map(|at| (at % 251) as u8).collect();
        let mut received = Received::default();
        for (content, pieces) in [(&large[..], 8), (b"ann\n", 1), (b"", 0)] {
            let heads = [head("a", content), head("b/c", content)];
            let missing = received.missing(&heads).unwrap();
            assert_eq!(missing, heads[..1]);
            assert_eq!(receive(&mut received, missing[0].clone(), content).unwrap(), pieces);
            assert_eq!(received.missing(&heads).unwrap(), []);
            let inputs = Inputs::sent(received.named(&heads));
            for name in ["a", "b/c"] {
                assert_eq!(*inputs.read(Path::new(name), u64::MAX).unwrap(), content);
            }
        }
    }

    #[test]
    fn what_is_not_the_file_is_refused() {
        let mut received = Received::default();
        let mut wrong = head("a", b"four");
        wrong.sha256 = sha256(b"five");
        assert!(receive(&mut received, wrong, b"four").unwrap_err().what.contains("whole"));
        for (offset, piece) in [(1, &b"our"[..]), (0, b""), (0, b"fours")] {
            let mut arriving = Arriving::begin(head("a", b"four")).unwrap();
            let asked = arriving.ask().unwrap();
            assert!(arriving.take(&asked.0, offset, piece).is_err(), "{offset} {piece:?}");
        }
        let huge = InputHead { name: "a".into(), sha256: "a".into(), bytes: u64::MAX };
        let other = InputHead { sha256: "b".into(), ..huge.clone() };
        assert!(received.missing(&[huge, other]).is_err());
    }

    #[test]
    fn files_of_earlier_trials_make_room() {
        let mut received = Received::default();
        receive(&mut received, head("a", b"a"), b"a").unwrap();
        receive(&mut received, head("b", b"b"), b"b").unwrap();
        let large = InputHead { name: "c".into(), sha256: "c".into(), bytes: INPUT_BYTES_MAX - 1 };
        assert_eq!(received.missing(&[head("a", b"a"), large.clone()]).unwrap(), [large]);
        assert_eq!(received.missing(&[head("a", b"a"), head("b", b"b")]).unwrap(), [head("b", b"b")]);
    }
}
