//! Figures that a report states: a file in which they were written down, or a table of results.

mod columns;
mod file;
mod table;

pub(crate) use file::FORMAT as FILE;
pub(crate) use table::FORMAT as TABLE;

/// The largest file of figures.
const BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use model::figure::{Figures, Quantity};

    use super::*;
    use crate::{Content, Fault, Options};

    fn read(format: &crate::Format, text: &str) -> Result<Vec<Figures>, Fault> {
        match (format.open)(Box::new(Cursor::new(text.as_bytes().to_vec())), &Options::default())? {
            Content::Figures(results) => Ok(results),
            _ => panic!("no figures"),
        }
    }

    fn shown(results: &[Figures]) -> Vec<String> {
        let of = |result: &Figures| {
            let figures = result.figures.iter().map(|figure| format!("{} {}", figure.quantity, figure.text));
            format!("{}: {}", result.name, figures.collect::<Vec<String>>().join(", "))
        };
        results.iter().map(of).collect()
    }

    #[test]
    fn a_row_for_each_result() {
        let text = "# from a report\nDisk;Block (KB);Outstanding;Threads;IOPS;Latency ms;read_iops;read_latency_ms\n\
                    old;8;4;2;1200,5;6,6;800;5\n\nnew;8;1;1;n/a;;;\n";
        let found = read(&TABLE, text).unwrap();
        assert_eq!(
            shown(&found),
            [
                "old: block size 8 kB, rate 1200,5/s, mean time 6,6 ms, in flight 4 x 2",
                "old: read: rate 800/s, mean time 5 ms, block size 8 kB",
                "new: block size 8 kB, in flight 1 x 1",
            ]
        );
        assert_eq!((found[0].line, found[2].line), (3, 5));
        assert_eq!(found[0].get(Quantity::InFlight).unwrap().value, 8.0);
    }

    #[test]
    fn a_row_for_each_measure() {
        let text = "measure,unit,before,after,general,note\nrecords,objects,100,100,,\nload_elapsed,minutes,10,5,,\n\
                    objects_loaded,objects/s,0.17,0.33,,\nrate_limit_ceiling,objects/s,,,2,\n\
                    disk_latency,ms,8,3,,\nrate_again,objects/s,9,9,,computed from both\n";
        let found = read(&TABLE, text).unwrap();
        assert_eq!(
            shown(&found),
            [
                "before: count 100, elapsed time 10 minutes, rate 0.17/s, ceiling 2/s",
                "after: count 100, elapsed time 5 minutes, rate 0.33/s, ceiling 2/s",
            ]
        );
        assert_eq!(found[1].base.as_deref(), Some("before"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(
            text in ".{0,80}",
            table in "((IOPS|MB/s|p99 ms|Threads|measure|unit|x_percent|[a-z%/ ]{0,8})[,;\t]){0,6}\n(([0-9.,]{0,9}|\"|[a-z /s]{0,6})[,;\t\n]){0,24}",
            toml in "(\\[\\[figures\\]\\]\n)?((name|base|rate|mean|p99|histogram|settings|x) = (\"[0-9a-z /.]{0,9}\"|[0-9]{1,4}|\\[\\[\"[0-9]ms\", ?[0-9]\\]\\]|\\{ a = 1 \\})\n){0,8}",
        ) {
            for format in [&FILE, &TABLE] {
                for text in [&text, &table, &toml] {
                    let _ = read(format, text);
                }
            }
        }
    }
}
