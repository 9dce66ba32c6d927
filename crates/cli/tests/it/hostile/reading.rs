//! What is read: links, FIFOs and devices, files that take much memory, texts that a terminal would obey.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;

#[test]
fn no_link_fifo_or_device_in_a_record_is_followed_or_waited_for() {
    let link = |to: &Path| {
        let to = to.to_path_buf();
        move |path: &Path| {
            let _ = std::fs::remove_file(path);
            symlink(&to, path).unwrap();
        }
    };
    let mut cases = vec![
        hostile(
            "links-of-run",
            move |run, outside| {
                OF_RUN.iter().for_each(|name| link(&outside.join("precious"))(&run.join(name)))
            },
            "it is a symbolic link",
        ),
        hostile(
            "links-of-trials",
            move |run, outside| {
                OF_TRIAL.iter().for_each(|name| in_trials(run, name, link(&outside.join("precious"))));
            },
            "it is a symbolic link",
        ),
        hostile(
            "dangling-links",
            move |run, outside| {
                OF_RUN.iter().for_each(|name| link(&outside.join("new"))(&run.join(name)));
                OF_TRIAL[1..].iter().for_each(|name| in_trials(run, name, link(&outside.join("new"))));
            },
            "it is a symbolic link",
        ),
        hostile(
            "link-to-trials",
            |run, outside| {
                copy(&run.join("trials"), &outside.join("trials"));
                std::fs::remove_dir_all(run.join("trials")).unwrap();
                symlink(outside.join("trials"), run.join("trials")).unwrap();
            },
            "it is a symbolic link",
        ),
        hostile(
            "link-to-trial",
            |run, outside| {
                symlink(outside.join("trial"), run.join("trials/003-x.r1")).unwrap();
            },
            "it is a symbolic link",
        ),
        hostile(
            "fifos",
            |run, _| {
                OF_RUN.iter().for_each(|name| {
                    let _ = std::fs::remove_file(run.join(name));
                    fifo(&run.join(name));
                });
                OF_TRIAL[1..].iter().for_each(|name| in_trials(run, name, fifo));
            },
            "it is a FIFO",
        ),
        hostile("fifo-of-intervals", |run, _| in_trials(run, "intervals.csv", fifo), "it is a FIFO"),
        hostile("fifo-of-run", |run, _| in_trials(run, "run.json", fifo), "it is a FIFO"),
        hostile(
            "folders",
            |run, _| {
                for name in &OF_TRIAL[1..] {
                    in_trials(run, name, |path| std::fs::create_dir(path).unwrap());
                }
            },
            "Is a directory",
        ),
        hostile(
            "names",
            |run, _| {
                for name in ["..x", "...", "-rf", "a b\nc\u{1b}[2J", "$(touch executed)", "`touch executed`"]
                {
                    copy(&trials(run)[0], &run.join("trials").join(name));
                }
            },
            "A sweep",
        ),
    ];
    if !testkit::partly_lacks(testkit::Need::Root) {
        let zero = |path: &Path| special(rustix::fs::FileType::CharacterDevice, 1, 5)(path);
        cases.push(hostile(
            "devices",
            move |run, _| {
                OF_TRIAL[1..].iter().for_each(|name| in_trials(run, name, zero));
                std::fs::remove_file(run.join("plan.json")).unwrap();
                zero(&run.join("plan.json"));
            },
            "it is a device",
        ));
    } else {
        cases.push(hostile(
            "unreadable",
            |run, _| {
                for name in &OF_TRIAL[1..] {
                    in_trials(run, name, |path| {
                        std::fs::write(path, "x").unwrap();
                        std::fs::set_permissions(path, PermissionsExt::from_mode(0o000)).unwrap();
                    });
                }
            },
            "Permission denied",
        ));
    }
    check("hostile-links", SWEEP, Forms::All, cases);
}

#[test]
fn a_small_record_takes_little_memory_and_time() {
    check(
        "hostile-sizes",
        one_trial(),
        Forms::One,
        vec![
            hostile(
                "sparse",
                |run, _| {
                    for name in ["plan.json", "host.json", "result.json"] {
                        sparse(1 << 40)(&run.join(name));
                    }
                    OF_TRIAL[1..].iter().for_each(|name| in_trials(run, name, sparse(1 << 40)));
                },
                "is larger than the limit of",
            ),
            hostile(
                "sparse-run",
                |run, _| in_trials(run, "run.json", sparse(1 << 40)),
                "is larger than the limit of",
            ),
            hostile(
                "gzip-of-zeros",
                |run, _| {
                    let bomb = made_by("head -c 700000000 /dev/zero | gzip -1");
                    in_trials(run, "readings.csv.gz", &bomb);
                },
                "a line is longer than",
            ),
            hostile(
                "gzip-of-rows",
                |run, _| {
                    let rows = format!("(echo titles; yes {INTERVAL} | head -c 300000000) | gzip -1");
                    in_trials(run, "intervals.csv.gz", made_by(&rows));
                },
                "more memory than its limit",
            ),
            hostile(
                "gzip-of-samples",
                |run, _| {
                    let columns = "$(seq -s, 300)";
                    let rows = format!(
                        "(echo begin_s,end_s,{columns} | sed 's/,/,a/g;s/,aend_s/,end_s/'; yes 0,1,{columns} | head -c 300000000) | gzip -1"
                    );
                    in_trials(run, "readings.csv.gz", made_by(&rows));
                },
                "more memory than its limit",
            ),
            hostile(
                "gzip-of-bad-lines",
                |run, _| in_trials(run, "intervals.csv.gz", made_by("yes | head -c 50000000 | gzip -1")),
                "lines cannot be read",
            ),
            hostile(
                "histogram-counts",
                |run, _| in_trials(run, "response.hlog", text(CLAIMS_COUNTS)),
                "response.hlog",
            ),
            hostile(
                "histogram-digits",
                |run, _| in_trials(run, "response.hlog", text(large_histograms(200))),
                "response.hlog",
            ),
            hostile(
                "deep-json",
                |run, _| {
                    for name in ["plan.json", "host.json", "result.json"] {
                        text(deep())(&run.join(name));
                    }
                    in_trials(run, "metrics.json", text(deep()));
                    in_trials(run, "events.jsonl", text(deep() + "\n"));
                },
                "plan.json",
            ),
            hostile("deep-run", |run, _| in_trials(run, "run.json", text(deep())), "run.json"),
            hostile(
                "deep-levels",
                |run, _| {
                    edit(&run.join("plan.json"), |plan| {
                        let nested = "{\"list\":[".repeat(100_000);
                        plan.replacen("\"level\": {", &format!("\"level\": {nested}{{"), 1)
                    });
                },
                "recursion limit",
            ),
            hostile(
                "million-columns",
                |run, _| in_trials(run, "readings.csv", text(titles(0, 1_000_000))),
                "a line is longer than",
            ),
            hostile(
                "many-columns",
                |run, _| {
                    let lines: String = (0..50).map(|at| titles(20_000 * at, 20_000)).collect();
                    in_trials(run, "readings.csv", text(lines + &"0,1\n".repeat(9000)));
                },
                "more than 16384 columns",
            ),
            hostile(
                "many-cells",
                |run, _| {
                    let row = "0,1".to_string() + &",".repeat(10_000) + "\n";
                    in_trials(run, "readings.csv", text(titles(0, 10_000) + &row.repeat(1000)));
                },
                "A sweep",
            ),
            hostile(
                "many-operations",
                |run, _| {
                    let rows: String =
                        (0..20_000).map(|at| INTERVAL.replace("read", &format!("o{at}")) + "\n").collect();
                    in_trials(run, "intervals.csv", text(format!("titles\n{rows}")));
                    let names: Vec<String> = (0..20_000).map(|at| format!("\"o{at}\"")).collect();
                    for trial in trials(run) {
                        edit(&trial.join("run.json"), |run| {
                            let begin = run.find("\"operations\": [").unwrap();
                            let end = begin + run[begin..].find(']').unwrap();
                            format!("{}\"operations\": [{}{}", &run[..begin], names.join(","), &run[end..])
                        });
                    }
                },
                "more than 256 operations",
            ),
            hostile(
                "many-trials",
                |run, _| {
                    for at in 0..11_000 {
                        std::fs::create_dir(run.join(format!("trials/9{at:05}"))).unwrap();
                    }
                },
                "more than 10000 trials",
            ),
            hostile(
                "endless-grid",
                |run, _| {
                    edit(&run.join("plan.json"), |plan| {
                        let begin = plan.find("\"vary\": [").unwrap() + "\"vary\": [".len();
                        let levels: Vec<String> =
                            (1..=1000).map(|at| format!("{{\"count\":{at}}}")).collect();
                        let factor =
                            |at| format!("{{\"path\":\"load.x{at}\",\"levels\":[{}]}},", levels.join(","));
                        let many: String = (0..10).map(factor).collect();
                        format!("{}{many}{}", &plan[..begin], &plan[begin..])
                            .replace("one_factor_at_a_time", "grid")
                    });
                },
                "",
            ),
            hostile(
                "largest-numbers",
                |run, _| {
                    let row = INTERVAL.replace(",1,", &format!(",{},", u64::MAX)).replace(",1,", ",1e308,");
                    let rows: String = ["0.0,1.0", "-1e300,1e300", "1e308,inf", "NaN,NaN", "5,-5"]
                        .map(|times| row.replace("0.0,1.0", times) + "\n")
                        .concat();
                    in_trials(run, "intervals.csv", text(format!("titles\n{rows}{rows}")));
                    let samples = "0,1,1e308\n-1e300,1e300,-1e308\nNaN,inf,NaN\n";
                    in_trials(run, "readings.csv", text(format!("begin_s,end_s,cpu.busy_share\n{samples}")));
                },
                "A sweep",
            ),
        ],
    );
}

#[test]
fn no_text_of_a_record_is_obeyed() {
    const BAD: &str = "\u{1b}]0;x\u{7}\u{1b}[2J\u{1b}[31m\u{9b}1m\u{202e}\u{7f}\r";
    let json = r"\u001b]0;x\u0007\u001b[2J\u001b[31m\u009b1m\u202e\u007f\r";
    check(
        "hostile-texts",
        SWEEP,
        Forms::All,
        vec![
            hostile(
                "escapes",
                move |run, _| {
                    edit(&run.join("plan.json"), |plan| plan.replace("A sweep", &format!("A sweep{json}")));
                    edit(&run.join("host.json"), |host| host.replace(": \"", &format!(": \"{json}")));
                    for trial in trials(run) {
                        edit(&trial.join("run.json"), |run| {
                            run.replace("\"nothing\"", &format!("\"nothing{json}\""))
                                .replace("\"completed\"", &format!("{{\"failed\": \"why{json}\"}}"))
                                .replace(
                                    "\"errors\": []",
                                    &format!("\"errors\": [{{\"operation\": \"nothing{json}\", \"text\": \"{json}\", \"count\": 3}}]"),
                                )
                                .replace(
                                    "\"doubts\": []",
                                    &format!("\"doubts\": [{{\"kind\": \"neighbour\", \"text\": \"{json}\", \"help\": \"{json}\"}}]"),
                                )
                                .replace("\"sources\": [", &format!("\"sources\": [{{\"source\": \"x{json}\", \"state\": {{\"unavailable\": \"{json}\"}}}},"))
                        });
                    }
                    let bad = BAD.replace('\r', "");
                    let rows = format!("titles\n{}\n", INTERVAL.replace("read", &format!("nothing{bad}")));
                    in_trials(run, "intervals.csv", text(rows));
                    let samples =
                        format!("begin_s,end_s,\"disk.utilization_share{{v{bad}}}\"\n0,1,1\n1,2,1\n");
                    in_trials(run, "readings.csv", text(samples));
                    in_trials(
                        run,
                        "events.jsonl",
                        text(format!("{{\"at_s\":0,\"kind\":\"workload\",\"text\":\"{json}\"}}\n")),
                    );
                },
                "␛]0;x␇",
            ),
            hostile(
                "escapes-in-errors",
                move |run, _| {
                    edit(&run.join("plan.json"), |plan| plan.replace("plimsoll.plan/1.0", json));
                    in_trials(run, "run.json", text(format!("{{\"format\": \"{json}\"}}")));
                },
                "␛]0;x␇",
            ),
            hostile(
                "newer-with-escapes",
                move |run, _| {
                    in_trials(run, "run.json", text(format!("{{\"format\": \"plimsoll.run/2.{json}\"}}")));
                },
                "␛]0;x␇",
            ),
            hostile(
                "paths-in-names",
                |run, _| {
                    for trial in trials(run) {
                        edit(&trial.join("run.json"), |run| {
                            run.replace("load.closed", "../../../../outside/precious")
                        });
                    }
                },
                "A sweep",
            ),
            hostile(
                "commands",
                |run, _| {
                    edit(&run.join("plan.json"), |plan| {
                        plan.replacen(
                            "\"workload\": {",
                            &format!("{}\"workload\": {{", target("touch executed")),
                            1,
                        )
                    });
                },
                "A sweep",
            ),
        ],
    );
}
