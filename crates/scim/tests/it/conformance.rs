//! The service, as an independent tester of SCIM 2.0 services sees it: scim2-cli, installed by `.ci/scim-tester`.

use std::process::{Command, Stdio};

use testkit::Need;

use crate::common::Running;

#[test]
fn an_independent_tester_finds_no_error() {
    if testkit::lacks(Need::Package("scim2")) {
        return;
    }
    let service = Running::new();
    let out = Command::new(testkit::need::program("scim2").unwrap())
        .args(["--url", &format!("http://{}/scim/v2", service.address), "test"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let of = |status: &str| text.lines().filter(|line| line.starts_with(status)).count();
    assert!(out.status.success() && of("ERROR") == 0 && of("CRITICAL") == 0, "{text}");
    // Users and groups are made, read, searched, replaced, patched and deleted.
    for check in
        ["object_creation", "object_query", "object_replacement", "object_deletion", "check_add_attribute"]
    {
        assert!(of(&format!("SUCCESS {check}")) >= 2, "{check}: {text}");
    }
}
