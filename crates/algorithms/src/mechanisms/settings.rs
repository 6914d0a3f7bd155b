//! Sizes, times and choices of a mechanism: declared by the mechanism, set by its user.

use super::ListedMechanism;

/// A number that the user can set.
#[derive(Debug)]
pub struct Setting {
    /// The name, which ends with the unit if there is one.
    pub name: &'static str,
    /// What the number means.
    pub about: &'static str,
    /// The value if the user gives none.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// The value under the checker: as small as possible without hiding behaviour.
    pub searched: u64,
}

impl Setting {
    /// A time, which is zero under the checker.
    pub const fn time(name: &'static str, about: &'static str, default: u64) -> Setting {
        Setting { name, about, default, min: 0, max: 1_000_000_000, searched: 0 }
    }
}

/// A word that the user can choose from a list.
#[derive(Debug)]
pub struct Choice {
    /// The name of the choice.
    pub name: &'static str,
    /// What the choice means.
    pub about: &'static str,
    /// The words to choose from; the first is the default.
    pub words: &'static [&'static str],
    /// The word under the checker.
    pub searched: &'static str,
}

/// Values of all settings and choices of a mechanism.
#[derive(Clone, Debug)]
pub struct Settings {
    numbers: Vec<(&'static str, u64)>,
    words: Vec<(&'static str, &'static str)>,
}

impl Settings {
    /// Asks the two functions for the value of each setting and each choice.
    pub fn new(
        mechanism: &ListedMechanism,
        number: impl Fn(&'static Setting) -> u64,
        word: impl Fn(&'static Choice) -> &'static str,
    ) -> Settings {
        let (settings, choices) = (mechanism.settings.iter(), mechanism.choices.iter());
        Settings {
            numbers: settings.map(|setting| (setting.name, number(setting))).collect(),
            words: choices.map(|choice| (choice.name, word(choice))).collect(),
        }
    }

    /// The default values.
    pub fn defaults(mechanism: &ListedMechanism) -> Settings {
        Settings::new(mechanism, |setting| setting.default, |choice| choice.words[0])
    }

    /// The values under the checker.
    pub fn searched(mechanism: &ListedMechanism) -> Settings {
        Settings::new(mechanism, |setting| setting.searched, |choice| choice.searched)
    }

    /// The value of a setting.
    ///
    /// # Panics
    /// If the mechanism does not declare the setting.
    pub fn get(&self, name: &str) -> u64 {
        lookup(&self.numbers, name).unwrap_or_else(|| panic!("no setting {name} is declared"))
    }

    /// The word of a choice.
    ///
    /// # Panics
    /// If the mechanism does not declare the choice.
    pub fn choice(&self, name: &str) -> &'static str {
        lookup(&self.words, name).unwrap_or_else(|| panic!("no choice {name} is declared"))
    }
}

fn lookup<T: Copy>(values: &[(&'static str, T)], name: &str) -> Option<T> {
    values.iter().find(|(declared, _)| *declared == name).map(|(_, value)| *value)
}

/// One search of the checker: tasks, operations, and the values that differ from
/// [`Setting::searched`] and [`Choice::searched`].
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Number of tasks.
    pub tasks: usize,
    /// Operations of each task.
    pub operations: u32,
    /// Settings by name.
    pub settings: &'static [(&'static str, u64)],
    /// Choices by name.
    pub choices: &'static [(&'static str, &'static str)],
}

impl Scenario {
    /// A search with this many tasks and operations of each, with no settings or choices changed.
    pub const fn new(tasks: usize, operations: u32) -> Scenario {
        Scenario { tasks, operations, settings: &[], choices: &[] }
    }

    /// Changes these settings.
    pub const fn with_settings(self, settings: &'static [(&'static str, u64)]) -> Scenario {
        Scenario { settings, ..self }
    }

    /// Changes these choices.
    pub const fn with_choices(self, choices: &'static [(&'static str, &'static str)]) -> Scenario {
        Scenario { choices, ..self }
    }

    /// The values of all settings and choices.
    pub fn settings(&self, mechanism: &ListedMechanism) -> Settings {
        let number =
            |setting: &Setting| lookup(self.settings, setting.name).unwrap_or(setting.searched);
        let word = |choice: &Choice| lookup(self.choices, choice.name).unwrap_or(choice.searched);
        Settings::new(mechanism, number, word)
    }
}
