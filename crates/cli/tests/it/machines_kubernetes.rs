//! The manifest of agents in Kubernetes, checked against the published schema.

use std::process::Command;

use testkit::{Need, lacks};

use crate::program::{Place, run};

/// The oldest and the newest version of Kubernetes that it is checked for.
const VERSIONS: [&str; 2] = ["1.27", "1.37"];

#[test]
fn the_manifest_is_valid_by_the_schema_of_jobs() {
    if lacks(Need::Package("kubernetes-validate")) {
        return;
    }
    let place = Place::new("kubernetes");
    let options: [&[&str]; 5] = [
        &[],
        &[
            "--namespace",
            "load",
            "--nats",
            "tls://nats.example.com/web",
            "--ca",
            "--allow",
            "web1,10.1.0.0/16",
        ],
        &[
            "--credentials",
            "token",
            "--nats",
            "tls://n1",
            "--image",
            "registry.example/plimsoll:1 # no comment",
            "--cpu",
            "500m",
        ],
        &[
            "--credentials",
            "user",
            "--nats",
            "tls://n1",
            "--secret",
            "mine",
            "--memory",
            "1Gi",
            "--idle",
            "10m",
        ],
        &["--credentials", "nkey", "--name", "gen"],
    ];
    for options in options {
        let arguments = [&["machines", "kubernetes", "--agents", "40"], options].concat();
        let printed = run(&place, &arguments);
        assert_eq!(printed.code, 0, "{}", printed.err);
        let file = place.path("job.yaml");
        std::fs::write(&file, &printed.out).unwrap();
        for version in VERSIONS {
            let validate = testkit::need::program("kubernetes-validate").unwrap();
            let checked =
                Command::new(validate).args(["--strict", "-k", version]).arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{options:?} {version}: {said}\n{}", printed.out);
        }
        // The check finds what is wrong.
        std::fs::write(&file, printed.out.replace("completions: 40", "completions: forty")).unwrap();
        let validate = testkit::need::program("kubernetes-validate").unwrap();
        let checked =
            Command::new(validate).args(["--strict", "-k", VERSIONS[1]]).arg(&file).output().unwrap();
        assert!(!checked.status.success(), "{checked:?}");
    }
}

#[test]
fn the_manifest_has_what_was_requested() {
    let place = Place::new("kubernetes-options");
    let printed = run(
        &place,
        &[
            "machines",
            "kubernetes",
            "--agents",
            "3",
            "--namespace",
            "load",
            "--nats",
            "tls://n1:4333/web",
            "--ca",
            "--allow",
            "web1",
        ],
    );
    for part in [
        "completionMode: Indexed\n  completions: 3\n  parallelism: 3\n",
        "namespace: \"load\"",
        "- \"tls://n1:4333/web\"\n",
        "- \"--allow\"\n            - \"web1\"\n",
        "- name: NATS_CREDS\n              value: /etc/plimsoll/nats.creds\n",
        "- name: NATS_CA\n              value: /etc/plimsoll/ca.crt\n",
        "secretName: plimsoll-nats\n",
        "runAsNonRoot: true",
        "restartPolicy: OnFailure",
        "kubectl create secret generic plimsoll-nats --namespace load --from-file=nats.creds=FILE --from-file=ca.crt=FILE",
    ] {
        assert!(printed.out.contains(part), "{part}: {}", printed.out);
    }
    for (options, why) in [
        (&["--agents", "0"][..], "0 is not in"),
        (&["--agents", "3", "--nats", "http://n1"], "--nats"),
        (&["--agents", "3", "--nats", "nats://me:pw@n1"], "NATS_PASSWORD"),
        (&["--agents", "3", "--name", "A b"], "--name: `A b` is not a name in Kubernetes"),
        (&["--agents", "3", "--namespace", "a-"], "--namespace"),
        (&["--agents", "3", "--cpu", "1\nfoo: bar"], "--cpu"),
        (&["--agents", "3", "--idle", "soon"], "--idle"),
        (&["--agents", "3", "--credentials", "token"], "tls://"),
        (&["--agents", "3", "--allow", "a b"], "--allow"),
    ] {
        let refused = run(&place, &[&["machines", "kubernetes"], options].concat());
        assert!(refused.code == 2 && refused.err.contains(why), "{why}: {} {}", refused.code, refused.err);
        assert!(!refused.err.contains("me:pw"), "{}", refused.err);
    }
}
