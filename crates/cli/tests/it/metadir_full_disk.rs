//! A metadirectory whose disk is full.

use std::process::Command;

use testkit::Need;

use crate::metadir::staff;
use crate::program::Place;

/// What both runs print, and their exit codes, on a file system of 3 MiB that then grows.
const SCRIPT: &str = "mount -t tmpfs -o size=3m tmpfs small || exit 77
cp metadirectory.toml small/
\"$0\" metadir run full --config small/metadirectory.toml
echo \"exit $?\"
\"$0\" metadir history --config small/metadirectory.toml
mount -o remount,size=60m small
\"$0\" metadir run full --config small/metadirectory.toml
echo \"exit $?\"";

#[test]
fn a_full_disk_is_named_and_the_run_continues_when_there_is_space() {
    if testkit::lacks(Need::Mount) {
        return;
    }
    let place = Place::new("full-disk");
    std::fs::write(place.path("staff.csv"), staff(20_000, |_| "Oslo")).unwrap();
    std::fs::create_dir(place.path("small")).unwrap();
    let config = "[store]\nsqlite = \"metadirectory.db\"\ncommit_objects = 1000\n\
        [metaverse.person]\nattributes = { id = \"text\", mail = \"text\" }\n\
        [agents.staff]\ntype = \"delimited\"\npath = \"../staff.csv\"\nanchor = \"employeeNumber\"\n\
        [[inbound]]\nagent = \"staff\"\nto = \"person\"\nproject = true\n\
        flow = { id = \"employeeNumber\", mail = \"mail\" }\n\
        [runs]\nfull = [\"staff full-import\", \"staff full-synchronization\"]\n";
    std::fs::write(place.path("metadirectory.toml"), config).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_plimsoll")])
        .current_dir(place.path(""))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let full = "the disk is full: small/metadirectory.db cannot grow; free some space and run it again: complete batches are kept";
    assert!(err.contains(&format!("error: staff full-import: {full}")), "{err}{out}");
    // Its history could be kept, and says the same.
    assert!(out.contains("exit 1\n") && out.contains(&format!("\n  {full}\n")), "{out}");
    let (_, after) = out.rsplit_once(full).unwrap();
    let import = after.lines().find(|line| line.starts_with("staff full-import: success")).unwrap();
    // Nothing that was complete is done again.
    assert!(import.contains(" stage-add") && import.contains(" stage-no-change"), "{import}");
    assert!(after.contains("20,000 disconnector-projected") && after.contains("exit 0"), "{after}");
}
