//! Measures the CPU time that one thread needs to read and write LDIF and messages.
//!
//! `cargo run --release -p plimsoll-ldap --example cost`
//!
//! The entry has 25 attributes, one of which needs base64 and one of which is folded. The result is the best
//! of five.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::unwrap_used, reason = "an example may stop at the first surprise")]

use std::hint::black_box;
use std::time::Duration;

use plimsoll_ldap::Filter;
use plimsoll_ldap::ldif::{Options, Reader, write_attribute, write_dn};
use plimsoll_ldap::message::{Attribute, List, Message, Operation, SearchRequest, Value, scan};
use rustix::time::{ClockId, clock_gettime};

const DN: &str = "uid=user.123456,ou=people,dc=example,dc=com";
const TIMES: u32 = 200_000;

/// CPU time of one of `TIMES` calls, nanoseconds.
fn cost(mut act: impl FnMut()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let mut best = f64::MAX;
    for _ in 0..5 {
        let before = now();
        (0..TIMES).for_each(|_| act());
        best = best.min((now() - before).as_nanos() as f64 / f64::from(TIMES));
    }
    best
}

fn main() {
    let names: Vec<String> = (0..25).map(|at| format!("attribute{at}")).collect();
    let value = |at: usize| match at {
        3 => "Ænne Østergård".as_bytes().to_vec(),
        7 => vec![b'd'; 458],
        _ => format!("value number {at} of it").into_bytes(),
    };
    let values: Vec<Vec<u8>> = (0..25).map(value).collect();

    let mut out = Vec::new();
    let per_entry = cost(|| {
        out.clear();
        write_dn(&mut out, DN);
        for (name, value) in names.iter().zip(&values) {
            write_attribute(&mut out, name, value);
        }
        out.push(b'\n');
        black_box(&out);
    });
    let bytes = out.len();
    println!("LDIF, an entry of {bytes} bytes");
    println!("  written    {per_entry:6.0} ns  {:6.0} MB/s", bytes as f64 * 1e3 / per_entry);

    let file = out.repeat(1000);
    let mut reader = Reader::new(&file[..], Options::default());
    let per_entry = cost(|| {
        if black_box(reader.next().unwrap()).is_none() {
            reader = Reader::new(&file[..], Options::default());
        }
    });
    println!("  read       {per_entry:6.0} ns  {:6.0} MB/s", bytes as f64 * 1e3 / per_entry);

    let filter = Filter::parse("(uid=user.123456)").unwrap();
    let wanted = ["cn", "mail"];
    let search = SearchRequest {
        attributes: List::from(&wanted),
        ..SearchRequest::subtree("dc=example,dc=com", &filter)
    };
    let per_message = cost(|| {
        out.clear();
        Message::new(7, Operation::SearchRequest(search)).encode(&mut out);
        black_box(&out);
    });
    println!("messages");
    println!("  searchRequest encoded      {per_message:6.0} ns");

    let values: Vec<[Value<'_>; 1]> = values.iter().map(|value| [Value(value)]).collect();
    let attributes: Vec<Attribute<'_>> = names
        .iter()
        .zip(&values)
        .map(|(name, values)| Attribute { name, values: List::from(values) })
        .collect();
    out.clear();
    Message::new(7, Operation::SearchResultEntry { dn: DN, attributes: List::from(&attributes) })
        .encode(&mut out);
    let per_message = cost(|| {
        if let Operation::SearchResultEntry { attributes, .. } =
            Message::decode(black_box(&out)).unwrap().operation
        {
            let bytes: usize =
                attributes.iter().flat_map(|attribute| attribute.values).map(|value| value.0.len()).sum();
            black_box(bytes);
        }
    });
    println!("  searchResEntry decoded, every value looked at {per_message:6.0} ns");
    let per_message = cost(|| {
        black_box(scan(black_box(&out), usize::MAX).unwrap());
    });
    println!("  searchResEntry scanned     {per_message:6.0} ns");
}
