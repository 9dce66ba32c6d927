//! Tests of the database files.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::Running;

#[test]
fn the_files_of_the_database_are_for_their_owner_only() {
    let service = Running::new();
    service.user("ada");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(service.scratch.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["scim.db", "scim.db-shm", "scim.db-wal"]);
}
