//! Measures how fast people are generated and written, without a disk: `cargo run --release -p
//! plimsoll-people --example speed [FORMAT]`.

extern crate plimsoll_people as people;

use std::time::Instant;

use people::{Base, Dialect, Format, Population, Shares, Sink, write_people};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const COUNT: u64 = 500_000;
    let only = std::env::args().nth(1);
    let people = Population::new(1, COUNT);
    for attributes in [8, 25] {
        let begun = Instant::now();
        let (mut records, mut bytes) = (people.records(attributes), 0);
        while let Some(record) = records.next() {
            bytes += record.values().map(|of| of.1.len()).sum::<usize>();
        }
        said("records", attributes, begun, bytes as u64);
    }
    let formats = [
        ("csv", Format::Csv),
        ("ldif", Format::Ldif(Base::parse("dc=example,dc=com")?)),
        ("copy", Format::Sql(Dialect::Postgres)),
        ("insert", Format::Sql(Dialect::Sqlite)),
        ("avp", Format::Avp),
    ];
    for (day, name) in [(0, ""), (1, ", day 1")] {
        let people = people.clone().on_day(day, Shares::default())?;
        for (format, of) in formats.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name)) {
            let begun = Instant::now();
            let (mut out, mut go_on) = (std::io::sink(), |_, _| true);
            let mut sink = Sink::new(&mut out, &mut go_on);
            write_people(&people, 25, of, &mut sink)?;
            said(&format!("{format}{name}"), 25, begun, sink.bytes());
        }
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "that is what it is for")]
fn said(what: &str, attributes: usize, begun: Instant, bytes: u64) {
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what:<16} {attributes:>2} attributes  {:>6.0} ns/person  {:>5.0} MB/s",
        seconds * 1e9 / 500_000.0,
        bytes as f64 / seconds / 1e6
    );
}
