//! What a kernel is asked to have: fragments of a configuration, one for each need
//! (`kernels/*.config`), and those of the user after them. Each option that was asked for is
//! looked up in what the kernel made of it, because a kernel drops silently what it does not
//! know and what lacks something else.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt, fs};

use anyhow::{Context, Result, bail};
use host::nearest;
use serde::{Deserialize, Serialize};

macro_rules! fragments {
    ($($name:literal,)*) => {
        /// The fragments that come with knee, name and text, in the order they are merged.
        pub static FRAGMENTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../kernels/", $name, ".config"))),)*];
    };
}

fragments! {
    "boot",
    "guest",
    "workloads",
    "file-systems",
    "containers",
    "probes",
    "types",
    "typical",
}

/// The one whose options a kernel must have.
const BOOT: &str = "boot";

/// The one that needs pahole.
pub const TYPES: &str = "types";

/// Options by their old and new names. Of two, one is enough.
const RENAMED: &[(&str, &str)] = &[
    // "x86/bugs: Rename CONFIG_PAGE_TABLE_ISOLATION => CONFIG_MITIGATION_PAGE_TABLE_ISOLATION"
    // and its neighbours, Linux 6.9.
    ("CONFIG_PAGE_TABLE_ISOLATION", "CONFIG_MITIGATION_PAGE_TABLE_ISOLATION"),
    ("CONFIG_RETHUNK", "CONFIG_MITIGATION_RETHUNK"),
    ("CONFIG_RETPOLINE", "CONFIG_MITIGATION_RETPOLINE"),
    ("CONFIG_SPECULATION_MITIGATIONS", "CONFIG_CPU_MITIGATIONS"),
];

/// What a kernel is asked to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// A whole configuration to start from; otherwise the smallest that there can be.
    pub whole: Option<String>,
    /// What is asked beyond that; of two words on one option, the later counts.
    fragments: Vec<Fragment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    name: String,
    text: String,
}

/// An option that did not become what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untaken {
    /// As in `CONFIG_SMP`.
    pub option: String,
    /// As in `y`; `n` for one that shall not be set.
    pub asked: String,
    /// What it is; nothing where the configuration does not name it.
    pub got: Option<String>,
    /// The fragment that asked.
    pub fragment: String,
}

impl Configuration {
    /// All fragments that come with knee, but some.
    pub fn without(left_out: &[String]) -> Result<Configuration> {
        let names = || FRAGMENTS.iter().map(|(name, _)| *name);
        for name in left_out {
            if !names().any(|known| known == name) {
                let all: Vec<&str> = names().collect();
                let hint = nearest(name, names());
                bail!("no part of a configuration is called '{name}'{hint}: {}", all.join(", "));
            }
        }
        let kept = FRAGMENTS.iter().filter(|(name, _)| !left_out.iter().any(|out| out == name));
        let fragments =
            kept.map(|(name, text)| Fragment { name: name.to_string(), text: text.to_string() });
        Ok(Configuration { whole: None, fragments: fragments.collect() })
    }

    /// Adds a file of the user's.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let text = read(path)?;
        for (at, line) in text.lines().enumerate() {
            let plain = line.trim().is_empty() || line.starts_with('#');
            if !plain && option(line).is_none() {
                bail!(
                    "{}:{}: '{line}' is no option: write CONFIG_NAME=y, or # CONFIG_NAME is not set",
                    path.display(),
                    at + 1
                );
            }
        }
        self.fragments.push(Fragment { name: path.display().to_string(), text });
        Ok(())
    }

    /// Starts from a whole configuration, as a kernel has it in /boot or in /proc/config.gz.
    pub fn start_from(&mut self, path: &Path) -> Result<()> {
        let text = read(path)?;
        if !text.lines().any(|line| option(line).is_some()) {
            bail!("{} has no CONFIG_ line: is it compressed?", path.display());
        }
        self.whole = Some(text);
        Ok(())
    }

    /// The same without one fragment.
    pub fn less(&self, name: &str) -> Configuration {
        let mut less = self.clone();
        less.fragments.retain(|fragment| fragment.name != name);
        less
    }

    /// Whether this fragment is among them.
    pub fn has(&self, name: &str) -> bool {
        self.fragments.iter().any(|fragment| fragment.name == name)
    }

    /// The names of its fragments.
    pub fn names(&self) -> Vec<String> {
        self.fragments.iter().map(|fragment| fragment.name.clone()).collect()
    }

    /// What is asked, as a file that the kernel's own tools read: each option once.
    pub fn asked(&self) -> String {
        let line = |(option, (value, _)): (&str, (&str, &str))| match value {
            "n" => format!("# {option} is not set\n"),
            value => format!("{option}={value}\n"),
        };
        self.options().into_iter().map(line).collect()
    }

    /// The options that did not become in `config` what was asked.
    pub fn untaken(&self, config: &str) -> Vec<Untaken> {
        let got: BTreeMap<&str, &str> = config.lines().filter_map(option).collect();
        let is_set = |name: &str| got.get(name).is_some_and(|value| *value != "n");
        let other_name_took = |name: &str| {
            let mut pairs = RENAMED.iter();
            pairs.any(|(old, new)| (name == *old && is_set(new)) || (name == *new && is_set(old)))
        };
        let wrong = self.options().into_iter().filter(|(name, (asked, _))| {
            let nothing = ["n", "\"\""].contains(asked);
            let taken = got.get(name).map_or(nothing, |got| got == asked);
            !taken && !other_name_took(name)
        });
        let untaken = |(name, (asked, fragment)): (&str, (&str, &str))| Untaken {
            option: name.to_string(),
            asked: asked.to_string(),
            got: got.get(name).map(|value| value.to_string()),
            fragment: fragment.to_string(),
        };
        wrong.map(untaken).collect()
    }

    /// Each option with its value and the fragment that asks for it.
    fn options(&self) -> BTreeMap<&str, (&str, &str)> {
        let mut options = BTreeMap::new();
        for Fragment { name, text } in &self.fragments {
            for (option, value) in text.lines().filter_map(option) {
                options.insert(option, (value, name.as_str()));
            }
        }
        options
    }
}

impl Untaken {
    /// Whether a kernel without it is of no use here.
    pub fn is_needed(&self) -> bool {
        self.fragment == BOOT
    }
}

impl fmt::Display for Untaken {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Untaken { option, asked, got, fragment } = self;
        let got = got.as_deref().unwrap_or("not there");
        write!(f, "{option} is {got}, {asked} was asked ({fragment})")
    }
}

/// The option of a line and its value, if the line has one.
fn option(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (name, value) = match line.strip_prefix("# ") {
        Some(rest) => (rest.strip_suffix(" is not set")?, "n"),
        None => line.split_once('=')?,
    };
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_option = name.strip_prefix("CONFIG_").is_some_and(|rest| !rest.is_empty());
    (is_option && name.chars().all(word) && !value.is_empty()).then_some((name, value))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn configuration(fragments: &[(&str, &str)]) -> Configuration {
        let fragment = |(name, text): &(&str, &str)| Fragment {
            name: name.to_string(),
            text: text.to_string(),
        };
        Configuration { whole: None, fragments: fragments.iter().map(fragment).collect() }
    }

    #[track_caller]
    fn check(fragments: &[(&str, &str)], config: &str, expected: Expect) {
        let needed = |one: &Untaken| if one.is_needed() { ", needed" } else { "" };
        let line = |one: Untaken| format!("{one}{}\n", needed(&one));
        let untaken = configuration(fragments).untaken(config);
        expected.assert_eq(&untaken.into_iter().map(line).collect::<String>());
    }

    #[test]
    fn an_option_that_was_dropped_or_changed_is_named_with_who_asked() {
        let asked = [("boot", "CONFIG_SMP=y\nCONFIG_64BIT=y\n"), ("mine", "CONFIG_NR_CPUS=256\n")];
        check(&asked, "CONFIG_SMP=y\nCONFIG_64BIT=y\nCONFIG_NR_CPUS=256\n", expect![""]);
        check(
            &asked,
            "# CONFIG_SMP is not set\nCONFIG_NR_CPUS=8\n",
            expect![[r#"
                CONFIG_64BIT is not there, y was asked (boot), needed
                CONFIG_NR_CPUS is 8, 256 was asked (mine)
                CONFIG_SMP is n, y was asked (boot), needed
            "#]],
        );
    }

    #[test]
    fn what_shall_not_be_set_may_be_missing() {
        let asked = [("mine", "# CONFIG_A is not set\nCONFIG_KEYS=\"\"\n")];
        check(&asked, "CONFIG_B=y\n", expect![""]);
        check(
            &asked,
            "CONFIG_A=y\n",
            expect![[r#"
                CONFIG_A is y, n was asked (mine)
            "#]],
        );
    }

    #[test]
    fn the_later_word_on_an_option_counts_and_is_the_users_own_decision() {
        let asked = [("boot", "CONFIG_SMP=y\n"), ("mine", "# CONFIG_SMP is not set\n")];
        check(&asked, "# CONFIG_SMP is not set\n", expect![""]);
        assert_eq!(configuration(&asked).asked(), "# CONFIG_SMP is not set\n");
    }

    #[test]
    fn of_two_names_of_an_option_one_is_enough() {
        let asked =
            [("typical", "CONFIG_RETPOLINE=y\nCONFIG_MITIGATION_RETPOLINE=y\nCONFIG_RETHUNK=y\n")];
        check(
            &asked,
            "CONFIG_MITIGATION_RETPOLINE=y\n",
            expect![[r#"
                CONFIG_RETHUNK is not there, y was asked (typical)
            "#]],
        );
    }

    #[test]
    fn lines_of_fragments_are_options_or_words() {
        for (name, text) in FRAGMENTS {
            assert!(text.starts_with("# "), "{name} begins with what it is for");
            for line in text.lines() {
                let words = line.starts_with("# ") && !line.contains(" is not set");
                assert!(words || option(line).is_some(), "{name}: {line}");
            }
        }
    }

    #[test]
    fn an_option_belongs_to_one_fragment() {
        let mut known = BTreeMap::new();
        for (name, text) in FRAGMENTS {
            for (option, _) in text.lines().filter_map(option) {
                let other = known.insert(option, name);
                assert_eq!(other, None, "{option} is in {name} too");
            }
        }
    }

    #[test]
    fn files_with_other_lines_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine");
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            Configuration::default().add(&path).err().map(|why| why.to_string())
        };
        assert_eq!(said("# words\n\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x y\"\n"), None);
        assert!(said("CONFIG_A=y\nB=y\n").unwrap().contains("mine:2: 'B=y' is no option"));
        assert!(said("CONFIG_A y\n").unwrap().contains("is no option"));
        assert!(said("CONFIG_A=\n").unwrap().contains("is no option"));
    }

    #[test]
    fn a_part_that_does_not_exist_is_told_with_those_that_do() {
        let said = Configuration::without(&["type".to_string()]).unwrap_err().to_string();
        assert!(said.contains("did you mean 'types'?: boot, guest"), "{said}");
        let less = Configuration::without(&["types".to_string()]).unwrap();
        assert!(!less.has("types") && less.has("boot"));
    }
}
