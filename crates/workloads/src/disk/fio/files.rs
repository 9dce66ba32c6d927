//! Which files a job works on, and how much of each.

use model::Level;

use super::super::settings;
use super::engines::Engine;
use super::sections::{Job, Options, Reader};
use super::translate::Draft;
use super::value;

impl Reader<'_> {
    /// Files, sizes and offsets of a job and its copies. Returns the bytes of one copy, if they are known.
    pub(super) fn files(&mut self, job: &Job, copies: u64, engine: Engine, draft: &mut Draft) -> Option<u64> {
        let options = &job.options;
        let per_copy = self.count(options, "nrfiles", 1024).unwrap_or(1);
        let own_path = options
            .get("libblkio_path")
            .filter(|_| matches!(engine, Engine::Elsewhere { .. }))
            .map(|written| written.value.clone());
        let named = match (own_path, options.get("filename")) {
            (Some(path), _) => Some(vec![path]),
            (None, Some(written)) => Some(value::file_names(&written.value)),
            (None, None) => None,
        };
        if named.as_ref().is_some_and(Vec::is_empty) {
            let at = options.get("filename").map(|written| written.at).unwrap_or(job.at);
            self.problem(at, "`filename` names no file", "write filename=PATH, or remove it");
        }
        let folders: Vec<String> = options
            .get("directory")
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
        if options.contains_key("filename") {
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
        let size = self.size(options, "size", &first).map(|size| size / count);
        let file_size = self.size(options, "filesize", &first);
        let bytes = file_size.or(size);
        if let Some(bytes) = bytes {
            draft.set(settings::SIZE.name, Level::Bytes(bytes));
        }
        let offset = self.size(options, "offset", &first).unwrap_or(0);
        let increment = self.size(options, "offset_increment", &first).unwrap_or(0);
        if offset > 0 {
            draft.set(settings::OFFSET.name, Level::Bytes(offset));
        }
        self.zones(options);
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
        let whole = || (self.surroundings.size_of)(&first).map(|whole| whole.saturating_sub(offset));
        bytes.map(|bytes| bytes * count).or_else(whole)
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
        let Some(written) = options.get("file_service_type") else { return };
        let order = written.value.split(':').next().unwrap_or_default();
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
                written.at,
                format!("file_service_type={} is not supported", written.value),
                "remove it: files take turns, block after block",
            ),
        }
    }

    /// `zonemode`: only that without zones.
    fn zones(&mut self, options: &Options) {
        let Some(written) = options.get("zonemode") else {
            for name in ["zonesize", "zonerange", "zoneskip"] {
                self.has_no_effect(options, name, "without zonemode");
            }
            return;
        };
        match written.value.as_str() {
            "none" => {}
            "strided" => self.problem(
                written.at,
                "zonemode=strided is not supported",
                "write rw=read:DISTANCE, which leaves a distance out after each block",
            ),
            mode => self.problem(
                written.at,
                format!("zonemode={mode} is not supported"),
                "take a device without write pointers",
            ),
        }
    }
}
