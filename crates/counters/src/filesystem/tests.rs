use super::{KIND, real};
use crate::fixture::{Host, Probe};
use crate::mounts;

#[test]
fn only_file_systems_on_local_disks_are_read_each_once() {
    let host = Host::copy_of("metal");
    assert_eq!(real(&mounts::parse(host.text("proc/mounts").as_bytes())), ["/", "/boot", "/tank"]);
    let container =
        b"overlay / overlay rw 0 0\noverlay /var/lib/x overlay rw 0 0\n/dev/vda /etc/hosts ext4 rw 0 0\n";
    assert_eq!(real(&mounts::parse(container)), ["/", "/etc/hosts"]);
}

#[test]
fn file_systems_of_another_host_are_not_read() {
    let why = Host::copy_of("metal").try_open(&KIND, &[]).err().unwrap();
    assert!(why.0.contains("on the machine itself"));
}

#[test]
fn this_machine_has_a_file_system_that_is_partly_used() {
    let mut filesystem = Probe::live(&KIND, &[]);
    filesystem.read();
    let instances = filesystem.instances("filesystem.used_share");
    assert!(!instances.is_empty());
    for instance in instances {
        let share = filesystem.get("filesystem.used_share", instance).unwrap();
        assert!((0.0..=1.0).contains(&share), "{instance} {share}");
    }
}
