//! What the user looks at, and what each key does to it. Pure: keys in, another screen out.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::board::{Board, Series};

/// Which picture is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Counters in rows.
    List,
    /// One counter over time.
    Plot,
    /// Keys and what could not be read.
    Help,
}

/// What the program is to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOutcome {
    /// Go on.
    Nothing,
    /// End.
    Quit,
}

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) view: View,
    /// The source whose counters are listed; none is the first screen.
    pub(crate) source: Option<String>,
    /// Title of the chosen counter. A title and not a place: rows change places.
    chosen: Option<String>,
    /// First row that is shown.
    pub(crate) top: usize,
    pub(crate) filter: String,
    /// The filter is being typed.
    pub(crate) typing: bool,
    /// What was seen when `p` was pressed; sampling continues.
    pub(crate) paused: Option<Box<Board>>,
    /// Rows the list has room for, as it was last drawn.
    pub(crate) room: usize,
}

impl Screen {
    /// The first screen.
    pub(crate) fn new() -> Self {
        Screen {
            view: View::List,
            source: None,
            chosen: None,
            top: 0,
            filter: String::new(),
            typing: false,
            paused: None,
            room: 10,
        }
    }

    /// What is on show: the present, or the moment of the pause.
    pub(crate) fn board<'a>(&'a self, live: &'a Board) -> &'a Board {
        self.paused.as_deref().unwrap_or(live)
    }

    /// The rows that are listed.
    pub(crate) fn rows(&self, board: &Board) -> Vec<usize> {
        board.rows(self.source.as_deref(), &self.filter)
    }

    /// Where the chosen counter is among `rows`; the first when it is not there.
    pub(crate) fn place(&self, board: &Board, rows: &[usize]) -> usize {
        let is_chosen =
            |at: &usize| board.series(*at).is_some_and(|series| Some(series.column.title()) == self.chosen);
        rows.iter().position(is_chosen).unwrap_or(0)
    }

    /// The chosen counter: of the list, or the one being plotted although it left the list.
    pub(crate) fn chosen<'a>(&self, board: &'a Board) -> Option<&'a Series> {
        if self.view == View::Plot
            && let Some(series) = self.chosen.as_ref().and_then(|title| board.find(title))
        {
            return Some(series);
        }
        let rows = self.rows(board);
        rows.get(self.place(board, &rows)).and_then(|at| board.series(*at))
    }

    /// Moves the window of rows so that the chosen one is in it.
    pub(crate) fn scroll(&mut self, place: usize, rows: usize, room: usize) {
        self.room = room.max(1);
        let last_top = rows.saturating_sub(self.room);
        self.top = self.top.clamp(place.saturating_sub(self.room - 1), place).min(last_top);
    }

    /// Carries out a key.
    pub(crate) fn key(&mut self, key: KeyEvent, live: &Board) -> KeyOutcome {
        if key.kind == KeyEventKind::Release {
            return KeyOutcome::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => KeyOutcome::Quit,
                _ => KeyOutcome::Nothing,
            };
        }
        if self.typing {
            self.type_filter(key.code);
            return KeyOutcome::Nothing;
        }
        match key.code {
            KeyCode::Char('q') => return KeyOutcome::Quit,
            KeyCode::Esc | KeyCode::Backspace if self.view != View::List => self.view = View::List,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => {
                self.view = if self.view == View::Help { View::List } else { View::Help };
            }
            KeyCode::Char('p' | ' ') => {
                self.paused = match self.paused.take() {
                    Some(_) => None,
                    None => Some(Box::new(live.clone())),
                };
            }
            KeyCode::Char('/') => {
                self.view = View::List;
                self.typing = true;
            }
            KeyCode::Enter => self.enter(live),
            KeyCode::Up | KeyCode::Char('k') => self.go(live, -1),
            KeyCode::Down | KeyCode::Char('j') => self.go(live, 1),
            KeyCode::PageUp => self.go(live, -(self.room as isize)),
            KeyCode::PageDown => self.go(live, self.room as isize),
            KeyCode::Home => self.go(live, isize::MIN / 2),
            KeyCode::End => self.go(live, isize::MAX / 2),
            KeyCode::Left | KeyCode::BackTab => self.turn(live, -1),
            KeyCode::Right | KeyCode::Tab => self.turn(live, 1),
            _ => {}
        }
        KeyOutcome::Nothing
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        (self.chosen, self.top) = (None, 0);
    }

    fn enter(&mut self, live: &Board) {
        self.view = match self.view {
            View::List => {
                self.chosen = self.chosen(self.board(live)).map(|series| series.column.title());
                if self.chosen.is_some() { View::Plot } else { View::List }
            }
            _ => View::List,
        };
    }

    /// Chooses another row; in the plot, the counter of the next row.
    fn go(&mut self, live: &Board, by: isize) {
        let board = self.board(live);
        let rows = self.rows(board);
        let place = self.place(board, &rows).saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.chosen = rows.get(place).and_then(|at| board.series(*at)).map(|series| series.column.title());
    }

    /// The tabs in order: the first screen, then every source.
    pub(crate) fn tabs(board: &Board) -> Vec<Option<&str>> {
        [None].into_iter().chain(board.sources().into_iter().map(Some)).collect()
    }

    fn turn(&mut self, live: &Board, by: isize) {
        let tabs = Screen::tabs(self.board(live));
        let at = tabs.iter().position(|tab| *tab == self.source.as_deref()).unwrap_or(0) as isize;
        let next = (at + by).rem_euclid(tabs.len() as isize) as usize;
        self.source = tabs[next].map(str::to_string);
        (self.chosen, self.top, self.view) = (None, 0, View::List);
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::sample;
    use super::*;

    fn board() -> Board {
        let mut board = Board::default();
        board.add(
            1.0,
            1.0,
            &sample(&[
                ("cpu.busy_share", "", 0.9),
                ("pressure.io_some_share", "", 0.5),
                ("disk.queue_length", "vda", 3.0),
            ]),
        );
        board
    }

    fn press(screen: &mut Screen, board: &Board, keys: &[KeyCode]) {
        for key in keys {
            assert_eq!(screen.key(KeyEvent::from(*key), board), KeyOutcome::Nothing);
        }
    }

    fn chosen(screen: &Screen, board: &Board) -> String {
        screen.chosen(board).unwrap().column.title()
    }

    #[test]
    fn the_choice_stays_with_its_counter_when_rows_change_places() {
        let (mut screen, mut board) = (Screen::new(), board());
        press(&mut screen, &board, &[KeyCode::Down]);
        assert_eq!(chosen(&screen, &board), "pressure.io_some_share");
        for second in 2..8 {
            let values = [("cpu.busy_share", "", 0.1), ("pressure.io_some_share", "", 0.9)];
            board.add(f64::from(second), 1.0, &sample(&values));
        }
        assert_eq!(chosen(&screen, &board), "pressure.io_some_share");
        assert_eq!(screen.place(&board, &screen.rows(&board)), 0);
        press(&mut screen, &board, &[KeyCode::PageDown, KeyCode::Enter]);
        assert_eq!((screen.view, chosen(&screen, &board)), (View::Plot, "disk.queue_length{vda}".into()));
    }

    #[test]
    fn tabs_go_round() {
        let (mut screen, board) = (Screen::new(), board());
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(screen.source.clone().unwrap_or_default());
            press(&mut screen, &board, &[KeyCode::Right]);
        }
        assert_eq!(seen, ["", "cpu", "pressure", "disk", ""]);
        press(&mut screen, &board, &[KeyCode::Left, KeyCode::Left]);
        assert_eq!(screen.source.as_deref(), Some("disk"));
    }

    #[test]
    fn letters_are_a_filter_only_after_the_slash() {
        let (mut screen, board) = (Screen::new(), board());
        press(&mut screen, &board, &[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('u')]);
        assert_eq!(
            (screen.filter.as_str(), chosen(&screen, &board)),
            ("qu", "disk.queue_length{vda}".into())
        );
        press(&mut screen, &board, &[KeyCode::Char('z'), KeyCode::Enter, KeyCode::Enter]);
        assert_eq!(screen.view, View::List, "there is nothing to plot");
        press(&mut screen, &board, &[KeyCode::Esc]);
        assert_eq!(screen.filter, "");
        assert_eq!(screen.key(KeyEvent::from(KeyCode::Char('q')), &board), KeyOutcome::Quit);
    }

    #[test]
    fn control_c_quits_even_while_typing() {
        let (mut screen, board) = (Screen::new(), board());
        press(&mut screen, &board, &[KeyCode::Char('/')]);
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.key(key, &board), KeyOutcome::Quit);
    }

    #[test]
    fn a_pause_holds_the_picture_and_not_the_watch() {
        let (mut screen, mut board) = (Screen::new(), board());
        press(&mut screen, &board, &[KeyCode::Char('p')]);
        board.add(2.0, 1.0, &sample(&[("cpu.busy_share", "", 0.1)]));
        assert_eq!(screen.board(&board).find("cpu.busy_share").unwrap().now(), 0.9);
        press(&mut screen, &board, &[KeyCode::Char('p')]);
        assert_eq!(screen.board(&board).find("cpu.busy_share").unwrap().now(), 0.1);
    }

    #[test]
    fn the_window_follows_the_choice() {
        let mut screen = Screen::new();
        for (place, expected) in [(0, 0), (9, 0), (10, 1), (29, 20), (25, 20), (5, 5), (0, 0)] {
            screen.scroll(place, 30, 10);
            assert_eq!(screen.top, expected, "at {place}");
        }
        screen.scroll(0, 3, 10);
        assert_eq!(screen.top, 0);
        screen.scroll(0, 0, 0);
    }
}
