//! Generates synthetic people and groups, to fill directories and databases with realistic organizations.
//!
//! Person i is a function of the seed and i. It does not depend on the number of people, and is computed
//! without the others. Days are functions too: the seed, the day and the person's number determine who
//! changes, leaves or joins on a day. So the files of two days are generated independently and differ by the
//! changes of a day.
//!
//! ```
//! use plimsoll_people::{Population, Shares};
//!
//! let people = Population::new(1, 1000);
//! let mut records = people.records(25);
//! let mut cities = 0;
//! while let Some(person) = records.next() {
//!     cities += usize::from(person.get("l").is_some());
//! }
//! assert_eq!(cities, 1000);
//!
//! let tomorrow = Population::new(1, 1000).on_day(1, Shares::default())?;
//! assert_eq!(tomorrow.numbers_end(), 1010); // ten joined; about ten left
//! # Ok::<(), String>(())
//! ```
#![forbid(unsafe_code)]

mod attributes;
mod groups;
mod names;
mod organization;
mod population;
mod random;
mod write;

pub use attributes::{ATTRIBUTES, Attribute, Record, index_of};
pub use groups::{Group, LARGEST_GROUP, Members};
pub use population::{COUNT_MAX, DAY_MAX, Population, Records, Shares};
pub use write::{Base, Dialect, Format, Sink, Written, write_groups, write_people};
