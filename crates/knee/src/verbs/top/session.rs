//! What the screen shows and does: the list of programs, a look at chosen ones, and where in it the user is.

use std::time::{Duration, Instant};

use anyhow::Result;
use explanations::top::{self, Frame, Place, ScreenLine, ScreenPage, Seen, Step, Walk};
use host::full_screen::{Key, ScreenSize};
use host::signals;

use super::programs::Programs;
use crate::verbs::explain::running::{Look, Options};

/// Windows of a screen; each lasts a fifth of a second at least. The end of each costs time.
const WINDOWS: f64 = 5.0;
const WINDOW_MIN: f64 = 0.2;
/// Whoever waits for the first screen gets it after this part of the period.
const FIRST: f64 = 0.3;
/// Rows of programs that are printed, with what stands around them.
const LISTED: usize = 30;
/// The longest wait for a key.
const PATIENCE: Duration = Duration::from_millis(200);

/// The screen's state.
pub struct Session {
    given: Options,
    period: Duration,
    programs: Programs,
    /// When the programs were listed last.
    listed: Instant,
    look: Option<Look>,
    seen: Option<Seen>,
    walk: Walk,
    is_paused: bool,
    /// Why a look could not begin.
    failed: Option<String>,
    /// The size of the screen, if there is one.
    size: Option<ScreenSize>,
    is_changed: bool,
    /// How many answers and lists were made.
    made: u64,
}

impl Session {
    pub fn new(given: Options, period: Duration) -> Session {
        let first = if given.is_given() { Place::Overview } else { Place::Programs };
        Session {
            given,
            period,
            programs: Programs::begin(),
            listed: Instant::now(),
            look: None,
            seen: None,
            walk: Walk::from(first),
            is_paused: false,
            failed: None,
            size: None,
            is_changed: true,
            made: 0,
        }
    }

    /// Whether the command line names programs.
    pub fn has_subject(&self) -> bool {
        self.given.is_given()
    }

    /// Begins to look at what the command line names.
    ///
    /// # Errors
    /// No such process; or the kernel allows no look at it.
    pub fn begin(&mut self) -> Result<()> {
        if self.given.is_given() {
            self.look = Some(self.given.begin(self.window())?);
        }
        Ok(())
    }

    fn windows(&self) -> u32 {
        (self.period.as_secs_f64() / WINDOW_MIN).floor().clamp(1.0, WINDOWS) as u32
    }

    fn window(&self) -> Duration {
        self.period / self.windows()
    }

    /// Goes on, and says how long to wait for a key.
    pub fn advance(&mut self) -> Duration {
        if self.is_paused {
            return PATIENCE;
        }
        if let Some(options) = self.wanted() {
            self.begin_look(&options);
        }
        let is_first = self.size.is_some() && self.seen.is_none();
        let windows = if is_first {
            (FIRST * f64::from(self.windows())).ceil() as u32
        } else {
            self.windows()
        };
        match &mut self.look {
            Some(look) => {
                let had_ended = look.has_ended;
                let pause = look.advance();
                self.is_changed |= look.has_ended != had_ended;
                if look.may_be_cut(windows) {
                    self.refresh();
                }
                pause.min(PATIENCE)
            }
            None => {
                self.list_programs();
                PATIENCE
            }
        }
    }

    /// The programs that the user has chosen from the list, and that are not looked at yet.
    fn wanted(&self) -> Option<Options> {
        if self.look.is_some() || self.failed.is_some() {
            return None;
        }
        match self.walk.place() {
            Place::Program(name) => Some(self.given.at_name(name)),
            Place::Process(pid) => Some(self.given.at_process(*pid)),
            _ => None,
        }
    }

    fn begin_look(&mut self, options: &Options) {
        match options.begin(self.window()) {
            Ok(look) => self.look = Some(look),
            Err(why) => self.failed = Some(format!("{why:#}")),
        }
        self.is_changed = true;
    }

    fn list_programs(&mut self) {
        let is_first = self.size.is_some() && self.programs.is_empty();
        let wait = if is_first { self.period.mul_f64(FIRST) } else { self.period };
        if *self.walk.place() == Place::Programs && self.listed.elapsed() >= wait {
            let before = self.programs.page();
            self.programs.refresh();
            self.walk.follow(&before, &self.programs.page());
            self.listed = Instant::now();
            self.is_changed = true;
            self.made += 1;
        }
    }

    /// Makes a new answer of what was seen since the last.
    fn refresh(&mut self) {
        let Some(look) = &mut self.look else { return };
        if look.has_ended && self.seen.is_some() {
            // What was seen last stays, and others of the name or the group may come.
            return look.cut(|_| ());
        }
        let seen = look.cut(|observation| {
            let answer = live::answer(&observation);
            Seen { observation, answer }
        });
        let before = self.page();
        self.seen = Some(seen);
        let now = self.page();
        self.walk.follow(&before, &now);
        self.is_changed = true;
        self.made += 1;
    }

    /// Waits until there is a new screen. Without one, the programs have ended, or a signal came.
    pub fn wait_for_screen(&mut self) -> bool {
        let before = self.made;
        loop {
            let has_ended = self.look.as_ref().is_some_and(|look| look.has_ended);
            if signals::received().is_some() || (has_ended && self.seen.is_some()) {
                return false;
            }
            let pause = self.advance();
            if self.made != before {
                return true;
            }
            std::thread::sleep(pause);
        }
    }

    /// Whether there is something new to show since the last call.
    pub fn is_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    pub fn seen(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    /// The lines of a screen of a size.
    pub fn lines(&mut self, size: ScreenSize) -> Vec<ScreenLine> {
        self.size = Some(size);
        let (page, footer) = (self.page(), self.footer());
        top::lines(&page, &self.frame(size, &footer))
    }

    fn frame<'f>(&self, size: ScreenSize, footer: &'f str) -> Frame<'f> {
        Frame { columns: size.columns, rows: size.rows, footer, chosen: self.walk.chosen() }
    }

    /// The page as the screen has room for it.
    fn page(&self) -> ScreenPage {
        let page = self.whole_page();
        let is_overview =
            matches!(self.walk.place(), Place::Overview | Place::Program(_) | Place::Process(_));
        match self.size.filter(|_| is_overview) {
            Some(size) => page.shortened(&self.frame(size, "")),
            None => page,
        }
    }

    /// The page with all its rows.
    fn whole_page(&self) -> ScreenPage {
        let place = self.walk.place();
        if *place == Place::Programs {
            return self.programs.page();
        }
        if let Some(why) = &self.failed {
            let said = format!("knee cannot look at it: {why}. Esc leads back");
            return ScreenPage { title: "No look".to_string(), said, blocks: Vec::new() };
        }
        match &self.seen {
            Some(seen) => top::page(seen, place),
            None => {
                let words = self.look.as_ref().map_or("it", |look| &look.words);
                let title = format!("Looking at {words} …");
                ScreenPage { title, ..ScreenPage::default() }
            }
        }
    }

    /// The page as text, with all its rows; of programs, the first.
    pub fn text(&self, columns: usize) -> String {
        let mut page = self.whole_page();
        if *self.walk.place() == Place::Programs {
            page = page.shortened(&Frame { columns, rows: LISTED, footer: "", chosen: 0 });
        }
        let text = top::text(&page, columns);
        let notes = self.seen.as_ref().map(|seen| format!("\n{}\n", top::footer(&seen.answer)));
        format!("{text}{}", notes.unwrap_or_default())
    }

    /// The last line of the screen.
    fn footer(&self) -> String {
        let has_ended = self.look.as_ref().is_some_and(|look| look.has_ended);
        let state = match (self.is_paused, has_ended) {
            (true, _) => "PAUSED (p goes on)  ",
            (false, true) => "ENDED  ",
            (false, false) => "",
        };
        let notes = self.seen.as_ref().map(|seen| top::footer(&seen.answer)).unwrap_or_default();
        format!("{state}? keys  q quit  {notes}")
    }

    /// Does what a key says, and says whether to quit.
    pub fn press(&mut self, key: Key) -> bool {
        self.is_changed = true;
        let screenful = self.size.map_or(0, |size| size.rows).saturating_sub(6).max(1) as isize;
        let step = match key {
            Key::Letter('q') => return true,
            Key::Up | Key::Letter('k') => Step::Up,
            Key::Down | Key::Letter('j') => Step::Down,
            Key::PageUp => Step::Rows(-screenful),
            Key::PageDown => Step::Rows(screenful),
            Key::Home | Key::Letter('g') => Step::First,
            Key::End | Key::Letter('G') => Step::Last,
            Key::Enter | Key::Right | Key::Letter('l') => Step::In,
            Key::Escape | Key::Backspace | Key::Left | Key::Letter('h') => Step::Back,
            Key::Tab | Key::Letter('s') if *self.walk.place() == Place::Programs => {
                self.programs.turn();
                Step::First
            }
            Key::Tab | Key::Letter('s') => Step::NextBlock,
            Key::Letter('p' | ' ') => {
                self.pause();
                return false;
            }
            Key::Letter('?') => {
                if *self.walk.place() != Place::Keys && self.seen.is_some() {
                    self.walk.enter(Place::Keys);
                }
                return false;
            }
            Key::Letter(_) | Key::Other => return false,
        };
        self.step(step);
        false
    }

    fn step(&mut self, step: Step) {
        let page = self.page();
        self.walk.step(step, &page);
        if *self.walk.place() == Place::Programs {
            // Whoever comes back looks at nothing any more.
            (self.look, self.seen, self.failed) = (None, None, None);
        }
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        match &mut self.look {
            Some(look) if self.is_paused => look.rest(),
            Some(look) => look.resume(),
            None => {}
        }
    }
}
