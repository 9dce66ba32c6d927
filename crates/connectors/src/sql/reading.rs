//! Reads ahead: a thread reads rows and converts them to objects while earlier ones are staged.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::database::{Cell, Database, Fault};
use super::shape::{Query, Shape};
use crate::file::split;
use crate::{BATCH_BYTES, change_of};
use metadir::agent::{AgentError, DiscoveryError, Import, Imported, ImportedObject, Names};
use metadir::hologram::{Attribute, Builder};
use metadir::index_key::IndexKey;

/// Limits of a piece that is handed over, in objects and bytes; the first one that is reached counts.
const PIECE_OBJECTS: usize = 500;
const PIECE_BYTES: usize = 1 << 20;
/// Number of pieces in the queue.
const PIECES: usize = 2;

/// Converts rows to objects.
pub(super) struct Rows {
    table: String,
    /// Number of columns before those of the object.
    before: usize,
    /// The columns of the anchor.
    anchor: Vec<usize>,
    /// Attributes in ascending order, each with its column.
    order: Vec<(Attribute, usize)>,
    separator: Option<Vec<u8>>,
    builder: Builder,
    number: u64,
}

impl Rows {
    pub(super) fn new(
        shape: &Shape,
        query: &Query,
        names: &Names,
        separator: Option<Vec<u8>>,
        table: &str,
    ) -> Rows {
        let before = query.before;
        let mut order: Vec<(Attribute, usize)> = shape
            .attributes()
            .enumerate()
            .filter_map(|(at, name)| Some((names.attribute(name)?, before + at)))
            .collect();
        order.sort_unstable();
        order.dedup_by_key(|(attribute, _)| *attribute);
        Rows {
            table: table.into(),
            before,
            anchor: shape.anchor.iter().map(|at| before + at).collect(),
            order,
            separator,
            builder: Builder::default(),
            number: 0,
        }
    }

    fn wrong(&self, kind: &'static str, text: impl Into<String>) -> Imported {
        let place = format!("row {} of {}", self.number, self.table);
        Imported::Error(DiscoveryError { place, kind, text: text.into() })
    }

    fn imported(&mut self, cells: &[Cell<'_>]) -> Imported {
        self.number += 1;
        if cells.contains(&Cell::NotUtf8) {
            return self.wrong("invalid-attribute-value", "text that is not UTF-8");
        }
        if self.before > 0 {
            let of_change: Option<Vec<&[u8]>> = cells[..self.before - 1].iter().map(Cell::one).collect();
            let Some(of_change) = of_change else {
                return self.wrong("missing-anchor", "a change without a part of the anchor");
            };
            let is_there = match cells[self.before - 1].one() {
                None => true,
                Some(word) => match change_of(&word.trim_ascii().to_ascii_lowercase()) {
                    Some(is_there) => is_there,
                    None => {
                        let word = String::from_utf8_lossy(word);
                        return self
                            .wrong("missing-change-type", format!("{word:?} is not add, update or delete"));
                    }
                },
            };
            if !is_there || self.anchor.iter().any(|at| cells[*at] == Cell::None) {
                return Imported::Gone(IndexKey::of_parts(of_change.into_iter()));
            }
        }
        let anchor: Option<Vec<&[u8]>> = self.anchor.iter().map(|at| cells[*at].one()).collect();
        let Some(anchor) = anchor else {
            return self.wrong("missing-anchor", "a part of the anchor has no value");
        };
        let anchor = IndexKey::of_parts(anchor.into_iter());
        self.builder.clear();
        for (attribute, at) in &self.order {
            match (&cells[*at], &self.separator) {
                (Cell::None | Cell::NotUtf8, _) => {}
                (Cell::One(value), None) => self.builder.push(*attribute, value),
                (Cell::One(value), Some(separator)) => {
                    self.builder.push_all(*attribute, &mut split(value, separator));
                }
                (Cell::Several(values), _) => {
                    self.builder.push_all(*attribute, &mut values.iter().map(|value| &**value).collect());
                }
            }
        }
        Imported::Object(ImportedObject {
            anchor,
            dn: String::new(),
            image: self.builder.finish(),
            line: None,
        })
    }
}

/// A piece that is handed over; an error is the last one.
type Piece = Result<Vec<Imported>, AgentError>;

/// Begins to read a query in the current transaction.
pub(super) fn begin(
    mut database: Box<dyn Database>,
    query: Query,
    mut rows: Rows,
    watermark: Option<String>,
    failed: impl Fn(Fault) -> AgentError + Send + 'static,
) -> Result<Box<dyn Import>, AgentError> {
    let (sender, pieces) = sync_channel(PIECES);
    let table = rows.table.clone();
    let read = move || {
        let mut output = Output { sender, piece: Vec::new(), bytes: 0 };
        let done = database.rows(&query, &mut |cells| {
            let imported = rows.imported(cells);
            output.push(imported)
        });
        match done {
            Ok(()) => output.send(),
            // The receiver may be gone already.
            Err(fault) => output.send() && output.sender.send(Err(failed(fault))).is_ok(),
        };
    };
    let started = thread::Builder::new().name("sql".into()).spawn(read);
    let thread = started.map_err(|error| AgentError::system("starting a thread", error))?;
    let ahead = ReadAhead { pieces, piece: Vec::new().into_iter(), watermark, thread: Some(thread), table };
    Ok(Box::new(ahead))
}

struct Output {
    sender: SyncSender<Piece>,
    piece: Vec<Imported>,
    bytes: usize,
}

fn bytes(imported: &Imported) -> usize {
    match imported {
        Imported::Object(object) | Imported::Newer(object) => object.image.as_bytes().len(),
        Imported::Gone(_) | Imported::Present(_) | Imported::Error(_) => 0,
    }
}

impl Output {
    /// Adds an item; returns false if the receiver is gone.
    fn push(&mut self, imported: Imported) -> bool {
        self.bytes += bytes(&imported);
        self.piece.push(imported);
        (self.piece.len() < PIECE_OBJECTS && self.bytes < PIECE_BYTES) || self.send()
    }

    fn send(&mut self) -> bool {
        self.bytes = 0;
        let piece = std::mem::take(&mut self.piece);
        piece.is_empty() || self.sender.send(Ok(piece)).is_ok()
    }
}

/// The import whose rows a thread reads ahead.
struct ReadAhead {
    pieces: Receiver<Piece>,
    piece: std::vec::IntoIter<Imported>,
    watermark: Option<String>,
    thread: Option<thread::JoinHandle<()>>,
    table: String,
}

impl Import for ReadAhead {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        let mut size = 0;
        while batch.len() < most && size < BATCH_BYTES {
            if let Some(imported) = self.piece.next() {
                size += bytes(&imported);
                batch.push(imported);
                continue;
            }
            match self.pieces.recv() {
                Ok(piece) => self.piece = piece?.into_iter(),
                Err(_) => {
                    // The query is complete, unless the thread panicked.
                    let ended = self.thread.take().map(thread::JoinHandle::join);
                    return match ended {
                        Some(Err(_)) => {
                            let what = format!("reading {}", self.table);
                            Err(AgentError::system(what, "the thread that read it broke down"))
                        }
                        _ => Ok(()),
                    };
                }
            }
        }
        Ok(())
    }

    fn watermark(&self) -> Option<String> {
        self.watermark.clone()
    }
}
