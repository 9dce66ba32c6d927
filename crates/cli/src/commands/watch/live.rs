//! The terminal while it is watched: samples and keys in, pictures out, and the terminal as it was in the end.

use std::mem::ManuallyDrop;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use engine::source::HostRoot;
use model::quantity;
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event};
use report::text::{Quantity, is_hidden};

use super::Feed;
use super::board::Board;
use super::draw::{Surroundings, draw};
use super::rows;
use super::screen::{KeyOutcome, Screen};
use crate::carry_out::Failure;
use crate::hang_up::CLOSED;
use crate::output;

/// Pictures a second at most, however often the counters are read.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// The terminal, which is given back, also when something fails between.
struct Restored(ManuallyDrop<DefaultTerminal>);

impl Drop for Restored {
    fn drop(&mut self) {
        // Of a terminal that is gone, nothing can be restored. Its own drop would panic, because it reports that.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The keys, and other events of the terminal, from a thread of its own: crossterm reads a terminal that was closed again
/// and again, without an end.
fn events() -> std::io::Result<Receiver<Event>> {
    let (sender, events) = channel();
    std::thread::Builder::new().name("keys".into()).spawn(move || {
        while let Ok(event) = event::read()
            && sender.send(event).is_ok()
        {}
    })?;
    Ok(events)
}

/// Gives the thread that reads keys an input that never has any, instead of a terminal that was closed.
fn end_keys() -> std::io::Result<()> {
    let (never, sender) = std::io::pipe()?;
    rustix::stdio::dup2_stdin(&never)?;
    // It stays open: its end would be the end of the input.
    std::mem::forget(sender);
    Ok(())
}

/// Shows the counters until the user has seen enough. A panic, too, leaves the terminal as it was: `try_init` sees to it.
pub(super) fn run(feed: &mut Feed) -> Result<(), Failure> {
    let host = counters::host(&HostRoot::live());
    let host =
        format!("{} · {} CPUs · {}", host.name, host.cpus, Quantity::Bytes.show(host.memory_bytes as f64));
    let color = output::terminal(false).color;
    let cannot = |error: std::io::Error| Failure::failed(format!("the terminal cannot be used: {error}"));
    let mut terminal = Restored(ManuallyDrop::new(ratatui::try_init().map_err(cannot)?));
    let mut screen = Screen::new();
    let mut board = Board::new(|volume| counters::volume::disk_below(&HostRoot::live(), volume));
    board.add(0.0, 0.0, feed.sampler.readings());
    let mut drawn: Option<Instant> = None;
    let mut changed = true;
    let events = events().map_err(cannot)?;
    while !feed.is_over() {
        if feed.terminal.is_closed() {
            drop(terminal);
            end_keys().map_err(cannot)?;
            return feed.end_unseen(CLOSED);
        }
        if changed && drawn.is_none_or(|at| at.elapsed() >= DRAW_EVERY) {
            let around = Surroundings {
                host: &host,
                beat: format!(
                    "every {} · {}",
                    quantity::duration(feed.every),
                    clock_time(feed.seconds(feed.clock.now()))
                ),
                sources: &feed.sampler.status(),
                limits: &feed.sampler.limits(),
                hosts: rows::side_by_side(feed.sampler.readings()).unwrap_or_default(),
                color,
            };
            let written = terminal.0.draw(|frame| {
                draw(frame, &mut screen, &board, &around);
                make_visible(frame.buffer_mut());
            });
            if let Err(error) = written {
                match feed.terminal.is_closed() {
                    true => continue,
                    false => return Err(cannot(error)),
                }
            }
            (drawn, changed) = (Some(Instant::now()), false);
        }
        // Wakes for the next sample, a picture that was put off, or a signal.
        let wait = feed.wait().min(DRAW_EVERY);
        match events.recv_timeout(wait) {
            Ok(Event::Key(key)) if screen.key(key, &board) == KeyOutcome::Quit => return Ok(()),
            // A key is answered at once.
            Ok(_) => (drawn, changed) = (None, true),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(cannot(std::io::Error::other("its keys cannot be read")));
            }
        }
        if feed.wait().is_zero() && !feed.is_over() {
            let (begin_s, end_s) = feed.sample()?;
            board.add(end_s, end_s - begin_s, feed.sampler.readings());
            changed = true;
        }
    }
    Ok(())
}

/// Names of devices and processes are foreign text: nothing in a name moves the cursor or changes the text
/// around it.
fn make_visible(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().contains(is_hidden) {
            cell.set_symbol("\u{fffd}");
        }
    }
}

/// Seconds as `0:07`, `12:34`, `1:02:03`.
fn clock_time(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_as_on_a_clock() {
        for (seconds, expected) in [(0.0, "0:00"), (7.9, "0:07"), (754.0, "12:34"), (3723.0, "1:02:03")] {
            assert_eq!(super::clock_time(seconds), expected);
        }
    }
}
