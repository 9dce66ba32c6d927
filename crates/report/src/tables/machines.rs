//! The machines that took part in a trial.

use model::ResultDocument;
use model::result::TrialResult;
use model::run::MachineRun;

use crate::table::{Cell, Table};
use crate::text::{Quantity, Scale, time_ms};

/// What each machine did, and all of them; none if this machine was the only one.
pub(crate) fn machines(document: &ResultDocument) -> Option<Table> {
    let trial: &TrialResult = document.trials.iter().find(|trial| !trial.machines.is_empty())?;
    let title = match document.trials.len() {
        1 => "machines".to_string(),
        _ => format!("machines of trial {}", trial.trial),
    };
    let mut titles =
        vec!["machine", "?host", ">CPUs", ">operations", ">of all", ">threads busy", ">start within"];
    let some_lost = trial.machines.iter().any(|machine| machine.lost.is_some());
    titles.extend(some_lost.then_some("?lost"));
    let mut table = Table::new(&title, &titles);
    let all: u64 = trial.machines.iter().map(|machine| machine.completed).sum();
    let scale = Quantity::Count.scale([0.0]);
    for machine in &trial.machines {
        let mut cells = row(machine, all, &scale);
        cells.extend(some_lost.then(|| Cell::words(machine.lost.clone().unwrap_or_default())));
        table.row(cells);
    }
    if trial.machines.iter().filter(|machine| machine.drives).count() > 1 {
        let mut cells = vec![Cell::default(); titles.len()];
        cells[0] = Cell::words("all");
        cells[3] = Cell::number(all as f64, &scale);
        table.row(cells);
    }
    Some(table)
}

fn row(machine: &MachineRun, all: u64, scale: &Scale) -> Vec<Cell> {
    let share = |value: f64| Cell::shown(value, Quantity::Share.show(value));
    let drives = |cell: Cell| if machine.drives { cell } else { Cell::default() };
    let busy = machine.generator.as_ref().and_then(|used| {
        let busy = used.cpu_s / (f64::from(used.threads) * used.wall_s);
        busy.is_finite().then_some(busy)
    });
    // As far as its clock is known, and its first operations were late.
    let within = machine.clock_uncertainty_s.map(|known| (known + machine.start_late_s) * 1e3);
    vec![
        Cell::words(machine.name.clone()),
        Cell::words(machine.host.clone()),
        Cell::shown(f64::from(machine.cpus), machine.cpus.to_string()),
        drives(Cell::number(machine.completed as f64, scale)),
        drives(if all > 0 { share(machine.completed as f64 / all as f64) } else { Cell::default() }),
        busy.map_or_else(Cell::default, share),
        within.map_or_else(Cell::default, |within| drives(Cell::shown(within, time_ms(within)))),
    ]
}
