//! Which files a job works on, and how much of each.

use model::Level;

use super::super::settings;
use super::engines::Engine;
use super::sections::{At, Job, Options, Reader, Written};
use super::translate::Draft;
use super::value;

impl Reader<'_> {
    /// Files, sizes and offsets of a job and its copies. Returns the bytes of one copy, if they are known.
    pub(super) fn files(
        &mut self,
        job: &Job,
        (copies, block): (u64, u64),
        engine: Engine,
        draft: &mut Draft,
    ) -> Option<u64> {
        let block = block.max(1);
        let options = &job.options;
        let per_copy = self.count(options, "nrfiles", 1024).unwrap_or(1);
        let own_path = options
            .get("libblkio_path")
            .filter(|_| matches!(engine, Engine::Elsewhere { .. }))
            .map(|written| written.value.clone());
        let is_beside = !self.surroundings.targets.is_empty();
        let named = match (own_path, options.get("filename")) {
            _ if is_beside => Some(self.surroundings.targets.to_vec()),
            (Some(path), _) => Some(vec![path]),
            (None, Some(written)) => Some(self.named(written)),
            (None, None) => None,
        };
        if named.as_ref().is_some_and(Vec::is_empty) {
            let at = options.get("filename").map(|written| written.at).unwrap_or(job.at);
            self.problem(at, "`filename` names no file", "write filename=PATH, or remove it");
        }
        let folders: Vec<String> = options
            .get("directory")
            .filter(|_| !is_beside)
            .map(|written| value::file_names(&written.value))
            .unwrap_or_default()
            .iter()
            .map(|folder| folder.trim_end_matches('/').to_string())
            .collect();
        let in_folder = |name: &str, copy: u64| match folders.as_slice() {
            [] => name.to_string(),
            folders => format!("{}/{name}", folders[copy as usize % folders.len()]),
        };
        let mut of_copies: Vec<Vec<String>> = match &named {
            Some(names) if folders.len() <= 1 => vec![names.iter().map(|name| in_folder(name, 0)).collect()],
            Some(names) => {
                (0..copies).map(|copy| names.iter().map(|name| in_folder(name, copy)).collect()).collect()
            }
            None => {
                let format = self.format(options);
                let file = |copy: u64, file: u64| {
                    let name = format
                        .replace("$jobname", &job.name)
                        .replace("$clientuid", "localhost")
                        .replace("$jobnum", &copy.to_string())
                        .replace("$filenum", &file.to_string());
                    in_folder(&name, copy)
                };
                (0..copies).map(|copy| (0..per_copy).map(|number| file(copy, number)).collect()).collect()
            }
        };
        of_copies.dedup();
        if options.contains_key("filename") && !is_beside {
            self.has_no_effect(options, "nrfiles", "beside filename: the files named there are used");
            self.has_no_effect(options, "filename_format", "beside filename: the files named there are used");
        }
        let first = of_copies.first().and_then(|files| files.first()).cloned().unwrap_or_default();
        let count = of_copies.first().map_or(1, |files| files.len() as u64).max(1);
        if count > 1 {
            self.service(options, draft);
        }
        if options.contains_key("filesize") && options.contains_key("size") && !draft.is_time_based {
            self.has_no_effect(options, "size", "beside filesize, but on when fio would end");
        }
        // fio counts the size of a job over all its files.
        let is_share = |name: &str| options.get(name).is_some_and(|written| written.value.ends_with('%'));
        // A share is whole blocks, as in fio: less of a size, more of an offset.
        let down = |name: &str, bytes: u64| if is_share(name) { bytes / block * block } else { bytes };
        let up = |name: &str, bytes: u64| if is_share(name) { bytes.next_multiple_of(block) } else { bytes };
        let whole_size = self.size(options, "size", &first);
        let size = whole_size.map(|size| down("size", size / count));
        let file_size = self.size(options, "filesize", &first).map(|size| down("filesize", size));
        let bytes = file_size.or(size);
        if let Some(bytes) = bytes {
            draft.set(settings::SIZE.name, Level::Bytes(bytes));
        }
        let offset = self.size(options, "offset", &first).map_or(0, |offset| up("offset", offset));
        let increment = self.size(options, "offset_increment", &first);
        let increment = increment.map_or(0, |increment| up("offset_increment", increment));
        if offset > 0 {
            draft.set(settings::OFFSET.name, Level::Bytes(offset));
        }
        let names = |files: &[String]| Level::List(files.iter().cloned().map(Level::Text).collect());
        draft.copies = match (increment, of_copies.as_slice()) {
            (0, many) => many.iter().map(|files| vec![(settings::FILES.name.into(), names(files))]).collect(),
            (increment, many) => (0..copies)
                .map(|copy| {
                    let files = &many[copy as usize % many.len().max(1)];
                    let offset = offset.saturating_add(increment.saturating_mul(copy));
                    vec![
                        (settings::FILES.name.into(), names(files)),
                        (settings::OFFSET.name.into(), Level::Bytes(offset)),
                    ]
                })
                .collect(),
        };
        draft.passes = draft
            .copies
            .iter()
            .enumerate()
            .map(|(copy, _)| {
                let files = &of_copies[copy % of_copies.len().max(1)];
                let begin = offset.saturating_add(increment.saturating_mul(copy as u64));
                let of_file = |file: &String| {
                    bytes.or_else(|| {
                        (self.surroundings.size_of)(file).map(|whole| whole.saturating_sub(begin))
                    })
                };
                let all: Vec<u64> = files.iter().map_while(of_file).collect();
                let sum = all.iter().sum::<u64>();
                match whole_size.filter(|size| *size < sum) {
                    _ if all.len() < files.len() => Vec::new(),
                    Some(size) => vec![size],
                    None => all,
                }
            })
            .collect();
        let whole = || (self.surroundings.size_of)(&first).map(|whole| whole.saturating_sub(offset));
        bytes.map(|bytes| bytes * count).or_else(whole)
    }

    /// The files of `filename`. Those that are no storage are refused.
    fn named(&mut self, written: &Written) -> Vec<String> {
        const NO_STORAGE: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"];
        let names = value::file_names(&written.value);
        for name in names.iter().filter(|name| NO_STORAGE.contains(&name.as_str())) {
            self.problem(
                written.at,
                format!("`{name}` is no storage"),
                "name a file or device beside --fio, or write ioengine=null to see the cost of the load generator",
            );
        }
        names
    }

    /// The name of a file that is not named.
    fn format(&mut self, options: &Options) -> String {
        let Some(written) = options.get("filename_format") else {
            return "$jobname.$jobnum.$filenum".into();
        };
        let mut rest = written.value.clone();
        for known in ["$jobname", "$clientuid", "$jobnum", "$filenum"] {
            rest = rest.replace(known, "");
        }
        if rest.contains('$') || written.value.is_empty() {
            self.problem(
                written.at,
                format!("`{}` is no format of file names", written.value),
                "use $jobname, $jobnum and $filenum",
            );
        }
        written.value.clone()
    }

    /// In which order the files of a job take turns.
    fn service(&mut self, options: &Options, draft: &Draft) {
        let written = options.get("file_service_type");
        let value = written.map_or("roundrobin", |written| written.value.as_str());
        let order = value.split(':').next().unwrap_or_default();
        let is_random = draft
            .settings
            .iter()
            .any(|(name, level)| *name == settings::ACCESS.name && level.to_string() == "random");
        match (order, is_random) {
            ("roundrobin", false) | ("random", true) => {}
            ("roundrobin" | "sequential", true) => {
                self.note("file_service_type: a random operation goes to any of the files");
            }
            _ => self.problem(
                written.map_or(At::default(), |written| written.at),
                format!("file_service_type={value} is not supported"),
                "remove it: files take turns, block after block",
            ),
        }
    }
}
