//! diskspd's command line, cut at blanks. A name that begins with `n` does not exist; others have a size that follows from
//! their length.

use model::Load;
use workloads::disk::diskspd::{DiskspdNumbers, StreamNumbers, parse, report};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let flags: Vec<String> = text.split([' ', '\n']).map(str::to_string).collect();
    let size_of = |path: &str| (!path.starts_with('n')).then_some(1 << (path.len() % 50));
    match parse(&flags, &size_of) {
        Ok(run) => {
            let configured =
                engine::workload::WorkloadKind::configure(&workloads::disk::KIND, &run.settings());
            assert!(
                configured.is_ok() || run.profile_only,
                "{flags:?} became settings that cannot be: {}",
                configured.err().unwrap_or_default()
            );
            let load = Load::read(&run.load());
            assert!(
                load.is_ok(),
                "{flags:?} became a load that cannot be: {}",
                load.err().unwrap_or_default()
            );
            let streams = vec![StreamNumbers::default(); run.streams().len()];
            let numbers = DiskspdNumbers { seconds: 1.0, streams, ..DiskspdNumbers::default() };
            let report = report(&run, &numbers);
            assert!(report.contains("Total IO") || report.starts_with("<Results>"));
        }
        Err(problems) => assert!(!problems.is_empty(), "refused without a reason"),
    }
}
