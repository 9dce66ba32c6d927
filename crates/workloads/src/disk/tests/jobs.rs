use super::super::settings::tests::settings;
use super::*;

fn jobs(texts: &[&str]) -> Result<Vec<Job>, Problems> {
    let mut all = settings(&[("files", "f"), ("size", "1MiB")]);
    all.set(JOBS.name, Level::List(texts.iter().map(|text| Level::Text((*text).into())).collect()));
    read(&all)
}

#[test]
fn a_job_is_what_differs_from_the_settings_beside_it() {
    let all = jobs(&[
        "log: access=sequential; read_percent=0%; files=/a\\,b,/c; threads=2; fsync_every=4",
        "data: outstanding=8; block_size=4KiB 50%, 8KiB 50%; start=2s; think=1ms",
        "late\\: one: rate=50/s; arrivals=poisson; threads=2; streams=per-thread",
    ])
    .unwrap();
    let names: Vec<&str> = all.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["log", "data", "late: one"]);
    assert_eq!(all[0].plan.files, [std::path::Path::new("/a,b"), std::path::Path::new("/c")]);
    assert_eq!((all[0].plan.kinds.write, all[0].plan.kinds.sync), (0, 1));
    assert_eq!((all[1].plan.kinds.read, all[1].plan.blocks.len(), all[1].delay), (2, 2, 2 * model::SECOND));
    assert_eq!(all[1].plan.size, Some(1 << 20));
    assert_eq!((all[2].plan.lanes, all[2].plan.threads), (2, 1));
    let lanes = all[2].lanes(&all[2].shape(&Shape::closed(1)), |_| 1);
    assert_eq!(lanes.len(), 2);
    assert_eq!(lanes[0].shape.describe(), "25/s, Poisson arrivals");
    assert_eq!(whole_shape(&all).describe(), "12 users, 1ms think time");
    assert_eq!(whole_shape(&all[2..]).describe(), "50/s, Poisson arrivals");
}

#[test]
fn every_mistake_in_jobs_is_reported() {
    for (texts, expected) in [
        (&["nameless"][..], "it has no name"),
        (&["a b:", "a-b:"], "the same names of operations"),
        (&[": access=random"], "it has no name"),
        (&["a: access"], "`access` has no `=`"),
        (&["a: acess=random"], "unknown setting `acess`"),
        (&["a: keep=true"], "`keep` holds for all jobs"),
        (&["a: threads=many"], "threads"),
        (&["a: stride=8KiB"], "job [a]: `stride` has no meaning"),
        (&["a: rate=5/s; think=1s"], "`rate` and `think`"),
        (&["a: arrivals=poisson"], "`arrivals` has no meaning"),
        (&["a: verify=true; read_percent=0%", "b: read_percent=50%"], "would verify blocks of `f`"),
    ] {
        let problems = jobs(texts).unwrap_err().to_string();
        assert!(problems.contains(expected), "{texts:?}: {problems}");
    }
    assert!(jobs(&["a: verify=true", "b: verify=true; block_size=8KiB"]).is_ok());
    let units: Vec<u64> = jobs(&["a: verify=true; block_size=8KiB", "b: verify=true; block_size=12KiB"])
        .unwrap()
        .iter()
        .map(|job| job.plan.unit())
        .collect();
    assert_eq!(units, [4096, 4096]);
}

#[test]
fn what_is_written_is_read_again() {
    let names = ["a", "a;b: c\\", "ä"];
    let files = Level::List(vec![Level::Text("/x;y,z\\".into()), Level::Text("/w".into())]);
    for name in names {
        let text = write(name, &[("files".into(), files.clone()), ("threads".into(), Level::Count(3))]);
        let job = &jobs(&[&text]).unwrap()[0];
        assert_eq!((job.name.as_str(), job.plan.threads), (name, 3), "{text}");
        assert_eq!(job.plan.files[0], std::path::Path::new("/x;y,z\\"));
        let text = without(&text, "files");
        assert_eq!(jobs(&[&text]).unwrap()[0].plan.files, [std::path::Path::new("f")], "{text}");
    }
}

#[test]
fn users_and_rates_are_shared_out_whole() {
    let users = |index| match part(&Shape::closed(10), index, 4) {
        Shape::Closed { users, .. } => users.largest(),
        Shape::Open { .. } => 0.0,
    };
    assert_eq!((0..4).map(users).collect::<Vec<_>>(), [3.0, 3.0, 2.0, 2.0]);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = (jobs(&[&text]).is_ok(), without(&text, "files"));
    }
}
