//! The names of the usual objects and counters in German and French Windows, and what they are in English.
//!
//! From the registry key `Perflib\009`, `\007` and `\00C`. Names that are not here stay as they are.

/// An object: English, German, French.
type Object = (&'static str, [&'static str; 2], &'static [Counter]);
/// A counter: English, and its names in other languages and versions.
type Counter = (&'static str, &'static [&'static str]);

const PROCESSOR: &[Counter] = &[
    ("% Processor Time", &["Prozessorzeit (%)", "% temps processeur"]),
    ("% User Time", &["Benutzerzeit (%)", "% temps utilisateur"]),
    ("% Privileged Time", &["Privilegierte Zeit (%)", "% temps privilégié"]),
    ("% Interrupt Time", &["Interruptzeit (%)", "% temps d'interruption"]),
    ("% DPC Time", &["DPC-Zeit (%)", "% temps DPC"]),
    ("% Idle Time", &["Leerlaufzeit (%)", "% d'inactivité"]),
    ("Interrupts/sec", &["Interrupts/s", "Interruptions/s"]),
];

const DISK: &[Counter] = &[
    ("% Disk Time", &["Zeit (%)", "Pourcentage du temps disque"]),
    ("% Disk Read Time", &["Lesezeit (%)", "Pourcentage du temps de lecture du disque"]),
    ("% Disk Write Time", &["Schreibzeit (%)", "Pourcentage du temps d'écriture du disque"]),
    ("% Idle Time", &["Leerlaufzeit (%)", "Pourcentage d'inactivité", "% d'inactivité"]),
    ("% Free Space", &["Freier Speicherplatz (%)", "% d'espace libre"]),
    ("Free Megabytes", &["MB frei", "Mégaoctets libres"]),
    (
        "Avg. Disk Queue Length",
        &[
            "Durchschnittl. Warteschlangenlänge des Datenträgers",
            "Longueur moyenne de file d'attente du disque",
        ],
    ),
    (
        "Current Disk Queue Length",
        &["Aktuelle Warteschlangenlänge", "Taille de file d'attente du disque actuelle"],
    ),
    ("Avg. Disk sec/Transfer", &["Mittlere Sek./Übertragung", "Moyenne disque s/transfert"]),
    ("Avg. Disk sec/Read", &["Mittlere Sek./Lesevorgänge", "Moyenne disque s/lecture"]),
    ("Avg. Disk sec/Write", &["Mittlere Sek./Schreibvorgänge", "Moyenne disque s/écriture"]),
    ("Disk Transfers/sec", &["Übertragungen/s", "Transferts disque/s"]),
    ("Disk Reads/sec", &["Lesevorgänge/s", "Lectures disque/s"]),
    ("Disk Writes/sec", &["Schreibvorgänge/s", "Écritures disque/s"]),
    ("Disk Bytes/sec", &["Bytes/s", "Octets disque/s"]),
    ("Disk Read Bytes/sec", &["Bytes gelesen/s", "Lectures disque, octets/s"]),
    ("Disk Write Bytes/sec", &["Bytes geschrieben/s", "Écritures disque, octets/s"]),
];

static OBJECTS: &[Object] = &[
    ("Processor", ["Prozessor", "Processeur"], PROCESSOR),
    ("Processor Information", ["Prozessorinformationen", "Informations sur le processeur"], PROCESSOR),
    ("PhysicalDisk", ["Physischer Datenträger", "Disque physique"], DISK),
    ("PhysicalDisk", ["Physikalischer Datenträger", "PhysicalDisk"], DISK),
    ("LogicalDisk", ["Logischer Datenträger", "Disque logique"], DISK),
    (
        "Memory",
        ["Arbeitsspeicher", "Mémoire"],
        &[
            ("Available MBytes", &["Verfügbare MB", "Verfügbare Megabytes", "Mégaoctets disponibles"]),
            ("Available Bytes", &["Verfügbare Bytes", "Octets disponibles"]),
            ("Pages/sec", &["Seiten/s", "Pages/s"]),
            ("Page Faults/sec", &["Seitenfehler/s", "Défauts de page/s"]),
            ("Pages Input/sec", &["Seiteneingabe/s", "Pages en entrée/s"]),
            ("Committed Bytes", &["Zugesicherte Bytes", "Octets validés"]),
            (
                "% Committed Bytes In Use",
                &["Zugesicherte verwendete Bytes (%)", "Pourcentage d'octets dédiés utilisés"],
            ),
        ],
    ),
    (
        "System",
        ["System", "Système"],
        &[
            (
                "Processor Queue Length",
                &["Prozessor-Warteschlangenlänge", "Longueur de la file du processeur"],
            ),
            ("Context Switches/sec", &["Kontextwechsel/s", "Changements de contexte/s"]),
            ("System Calls/sec", &["Systemaufrufe/s", "Appels système/s"]),
            ("Processes", &["Prozesse", "Processus"]),
            ("Threads", &["Threads"]),
        ],
    ),
    (
        "Process",
        ["Prozess", "Processus"],
        &[
            ("% Processor Time", &["Prozessorzeit (%)", "% temps processeur"]),
            ("% User Time", &["Benutzerzeit (%)", "% temps utilisateur"]),
            ("% Privileged Time", &["Privilegierte Zeit (%)", "% temps privilégié"]),
            ("Working Set", &["Arbeitsseiten", "Plage de travail"]),
            ("Private Bytes", &["Private Bytes", "Octets privés"]),
            ("Thread Count", &["Threadanzahl", "Nombre de threads"]),
            ("Handle Count", &["Handleanzahl", "Nombre de handles"]),
            ("IO Read Bytes/sec", &["E/A-Bytes gelesen/s", "Octets lus E/S/s"]),
        ],
    ),
    (
        "Network Interface",
        ["Netzwerkschnittstelle", "Interface réseau"],
        &[
            ("Bytes Total/sec", &["Gesamtanzahl Bytes/s", "Total des octets/s"]),
            ("Bytes Received/sec", &["Empfangene Bytes/s", "Octets reçus/s"]),
            ("Bytes Sent/sec", &["Bytes gesendet/s", "Gesendete Bytes/s", "Octets envoyés/s"]),
            ("Current Bandwidth", &["Aktuelle Bandbreite", "Bande passante actuelle"]),
            (
                "Output Queue Length",
                &["Länge der Ausgabewarteschlange", "Longueur de la file d'attente de sortie"],
            ),
            ("Packets/sec", &["Pakete/s", "Paquets/s"]),
        ],
    ),
];

/// What two spellings have in common: no case, one kind of apostrophe and blank.
fn key(name: &str) -> String {
    let plain = |c: char| match c {
        '’' => '\'',
        '\u{a0}' | '\u{202f}' => ' ',
        c => c,
    };
    name.trim().chars().map(plain).flat_map(char::to_lowercase).collect()
}

/// A path without its host in English, as far as its names are known.
pub(super) fn english(path: &str) -> String {
    let Some((object, instance, counter)) = parts(path) else { return path.to_string() };
    let matching = OBJECTS
        .iter()
        .filter(|(name, foreign, _)| foreign.iter().chain([name]).any(|known| key(known) == key(object)));
    for (name, _, counters) in matching {
        let counter =
            counters.iter().find(|(_, foreign)| foreign.iter().any(|known| key(known) == key(counter)));
        if let Some((counter, _)) = counter {
            return format!("{name}{instance}\\{counter}");
        }
    }
    path.to_string()
}

/// The object, the instance with its parentheses, and the counter.
fn parts(path: &str) -> Option<(&str, &str, &str)> {
    let backslash = path.find('\\')?;
    match path.find('(').filter(|open| *open < backslash) {
        None => Some((&path[..backslash], "", &path[backslash + 1..])),
        // An instance may have parentheses and backslashes itself.
        Some(open) => {
            let close = path.rfind(r")\")?;
            (close > open).then(|| (&path[..open], &path[open..=close], &path[close + 2..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_languages_are_known() {
        for (path, expected) in [
            (r"Prozessor(_Total)\Prozessorzeit (%)", r"Processor(_Total)\% Processor Time"),
            (r"Processeur(_Total)\% temps processeur", r"Processor(_Total)\% Processor Time"),
            (r"Prozess(w3wp#1)\Prozessorzeit (%)", r"Process(w3wp#1)\% Processor Time"),
            (r"Processus(w3wp)\% temps processeur", r"Process(w3wp)\% Processor Time"),
            (r"Arbeitsspeicher\Verfügbare MB", r"Memory\Available MBytes"),
            (
                r"Physikalischer Datenträger(0 C:)\Mittlere Sek./Lesevorgänge",
                r"PhysicalDisk(0 C:)\Avg. Disk sec/Read",
            ),
            (
                r"Disque physique(_Total)\Moyenne disque s/écriture",
                r"PhysicalDisk(_Total)\Avg. Disk sec/Write",
            ),
            (
                r"Interface réseau(Intel[R] (2))\Total des octets/s",
                r"Network Interface(Intel[R] (2))\Bytes Total/sec",
            ),
            (r"Systeme\Autre", r"Systeme\Autre"),
            (r"Processor(0)\% Processor Time", r"Processor(0)\% Processor Time"),
            ("none", "none"),
        ] {
            assert_eq!(english(path), expected);
        }
    }
}
