//! Sizes and times of a mechanism: declared once, set by whoever runs it.

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

/// Values for all settings of a mechanism.
#[derive(Clone, Debug)]
pub struct Settings(Vec<(&'static str, u64)>);

impl Settings {
    /// Each as `value` says.
    pub fn of(settings: &'static [Setting], value: impl Fn(&Setting) -> u64) -> Settings {
        Settings(settings.iter().map(|setting| (setting.name, value(setting))).collect())
    }

    /// As small as a search has them.
    pub fn searched(settings: &'static [Setting]) -> Settings {
        Settings::of(settings, |setting| setting.searched)
    }

    /// The value of one.
    ///
    /// # Panics
    /// If the mechanism does not declare it.
    pub fn get(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no setting {name} is declared")).1
    }
}

/// A search: how many tasks do how many operations each, and what is set other than
/// [`Setting::searched`].
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The number of tasks.
    pub tasks: usize,
    /// Operations of each.
    pub operations: u32,
    /// Settings by name.
    pub settings: &'static [(&'static str, u64)],
}

impl Scenario {
    /// So many tasks and operations, and nothing else.
    pub const fn of(tasks: usize, operations: u32) -> Scenario {
        Scenario { tasks, operations, settings: &[] }
    }

    /// The same with these settings.
    pub const fn with(self, settings: &'static [(&'static str, u64)]) -> Scenario {
        Scenario { settings, ..self }
    }

    /// Values for all settings.
    pub fn settings(&self, all: &'static [Setting]) -> Settings {
        let own = |name| self.settings.iter().find(|(own, _)| *own == name);
        Settings::of(all, |setting| own(setting.name).map_or(setting.searched, |own| own.1))
    }
}
