//! Prints the coverage of 95 % intervals of a ratio, by machine and number of pairs.

#![allow(clippy::print_stdout, reason = "what it is for")]

#[path = "../tests/it/coverage.rs"]
mod coverage;

fn main() {
    println!("{:<20} {:>7} {:>9}", "inside a run", "windows", "covered");
    for memory in [0.0, 0.3, 0.5, 0.8] {
        for windows in [10, 20, 30, 60, 120, 300] {
            let covered = coverage::coverage_inside(memory, windows, 1_000, 7);
            println!("AR(1), {memory:<13} {windows:>7} {:>7.1} %", covered * 100.0);
        }
    }
    println!();
    println!("{:<20} {:>5} {:>9} {:>7}", "machine", "pairs", "covered", "width");
    for machine in coverage::MACHINES {
        for pairs in [3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30] {
            let found = coverage::coverage(&machine, pairs, 2_000, 7);
            println!(
                "{:<20} {pairs:>5} {:>7.1} % {:>5.1} %",
                machine.name,
                found.covered * 100.0,
                found.width * 100.0
            );
        }
    }
}
