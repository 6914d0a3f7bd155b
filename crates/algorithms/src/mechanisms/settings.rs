//! Sizes, times and choices of a mechanism: declared once, set by whoever runs it.

use super::Mechanism;

/// One number that can be set.
#[derive(Debug)]
pub struct Setting {
    /// Its name, with the unit at the end where it has one.
    pub name: &'static str,
    /// What it changes.
    pub about: &'static str,
    /// What it is when not given.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// What it is in a search: as small as shows everything.
    pub searched: u64,
}

impl Setting {
    /// A time, which a search does not see.
    pub const fn time(name: &'static str, about: &'static str, default: u64) -> Setting {
        Setting { name, about, default, min: 0, max: 1_000_000_000, searched: 0 }
    }
}

/// One of some words.
#[derive(Debug)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// What it changes.
    pub about: &'static str,
    /// What it can be; the first where it is not given.
    pub words: &'static [&'static str],
    /// What it is in a search.
    pub searched: &'static str,
}

/// Values for all settings and choices of a mechanism.
#[derive(Clone, Debug)]
pub struct Settings {
    numbers: Vec<(&'static str, u64)>,
    words: Vec<(&'static str, &'static str)>,
}

impl Settings {
    /// Each as told.
    pub fn of<X: Mechanism>(
        number: impl Fn(&'static Setting) -> u64,
        word: impl Fn(&'static Choice) -> &'static str,
    ) -> Settings {
        Settings {
            numbers: X::SETTINGS.iter().map(|one| (one.name, number(one))).collect(),
            words: X::CHOICES.iter().map(|one| (one.name, word(one))).collect(),
        }
    }

    /// Each as it is when not given.
    pub fn default_of<X: Mechanism>() -> Settings {
        Settings::of::<X>(|setting| setting.default, |choice| choice.words[0])
    }

    /// As small as a search has them.
    pub fn searched<X: Mechanism>() -> Settings {
        Settings::of::<X>(|setting| setting.searched, |choice| choice.searched)
    }

    /// The number of one.
    ///
    /// # Panics
    /// If the mechanism does not declare it.
    pub fn get(&self, name: &str) -> u64 {
        found(&self.numbers, name)
    }

    /// The word of a choice.
    ///
    /// # Panics
    /// If the mechanism does not declare it.
    pub fn choice(&self, name: &str) -> &'static str {
        found(&self.words, name)
    }
}

fn found<T: Copy>(all: &[(&'static str, T)], name: &str) -> T {
    let found = all.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no setting {name} is declared")).1
}

/// A search: how many tasks do how many operations each, and what is set or chosen other than
/// [`Setting::searched`] and [`Choice::searched`].
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The number of tasks.
    pub tasks: usize,
    /// Operations of each.
    pub operations: u32,
    /// Settings by name.
    pub settings: &'static [(&'static str, u64)],
    /// Choices by name.
    pub choices: &'static [(&'static str, &'static str)],
}

impl Scenario {
    /// So many tasks and operations, and nothing else.
    pub const fn of(tasks: usize, operations: u32) -> Scenario {
        Scenario { tasks, operations, settings: &[], choices: &[] }
    }

    /// The same with these settings.
    pub const fn with(self, settings: &'static [(&'static str, u64)]) -> Scenario {
        Scenario { settings, ..self }
    }

    /// The same with these choices.
    pub const fn choosing(self, choices: &'static [(&'static str, &'static str)]) -> Scenario {
        Scenario { choices, ..self }
    }

    /// Values for all settings and choices.
    pub fn settings<X: Mechanism>(&self) -> Settings {
        let own = |name| self.settings.iter().find(|(own, _)| *own == name);
        let number = |setting: &Setting| own(setting.name).map_or(setting.searched, |own| own.1);
        let chosen = |name| self.choices.iter().find(|(own, _)| *own == name);
        let word = |choice: &Choice| chosen(choice.name).map_or(choice.searched, |own| own.1);
        Settings::of::<X>(number, word)
    }
}
