//! The configuration requested for a kernel: fragments that come with knee, one for each purpose
//! (`kernels/*.config`), then those of the user. Each requested option is looked up in the resulting
//! `.config`, because Kconfig silently drops options that it does not know or whose dependencies
//! are not met.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use host::{Limit, given_file, unknown_of};
use schemars::JsonSchema;
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

/// Fragments that a kernel has only on request: they take as long to build as all others.
pub const ON_REQUEST: [&str; 3] = ["file-systems", "containers", "typical"];

/// The fragment whose options a kernel needs to boot.
const BOOT: &str = "boot";

/// The fragment that needs pahole.
pub const TYPES: &str = "types";

/// About as many lines as make prints of each fragment.
const STEPS: [(&str, usize); 5] =
    [("boot", 1550), ("probes", 200), ("types", 85), ("file-systems", 250), ("typical", 50)];

/// Options by which a build depends on chance.
const CHANCE: [&str; 5] = [
    "CONFIG_MODULE_SIG",
    "CONFIG_RANDSTRUCT_FULL",
    "CONFIG_RANDSTRUCT_PERFORMANCE",
    "CONFIG_GCC_PLUGIN_RANDSTRUCT",
    "CONFIG_GCC_PLUGIN_LATENT_ENTROPY",
];

/// Old and new names of renamed options. One of the two is enough.
const RENAMED: &[(&str, &str)] = &[
    // "x86/bugs: Rename CONFIG_PAGE_TABLE_ISOLATION => CONFIG_MITIGATION_PAGE_TABLE_ISOLATION"
    // and its neighbours, Linux 6.9.
    ("CONFIG_PAGE_TABLE_ISOLATION", "CONFIG_MITIGATION_PAGE_TABLE_ISOLATION"),
    ("CONFIG_RETHUNK", "CONFIG_MITIGATION_RETHUNK"),
    ("CONFIG_RETPOLINE", "CONFIG_MITIGATION_RETPOLINE"),
    ("CONFIG_SPECULATION_MITIGATIONS", "CONFIG_CPU_MITIGATIONS"),
];

/// The options requested for a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// A whole configuration to start from; otherwise the smallest one (allnoconfig).
    pub whole: Option<String>,
    /// Options beyond that; the last line about an option counts.
    fragments: Vec<Fragment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    name: String,
    text: String,
}

/// An option that did not get the requested value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnmetOption {
    /// Its name, such as `CONFIG_SMP`.
    pub option: String,
    /// The requested value, such as `y`; `n` for one that must not be set.
    pub asked: String,
    /// Its value; `None` where the configuration does not contain it.
    pub got: Option<String>,
    /// The fragment that requests it.
    pub fragment: String,
}

impl Configuration {
    /// The fragments that come with knee, those on request only if `added` names them, without those left out.
    pub fn of_parts(added: &[String], left_out: &[String]) -> Result<Configuration> {
        let is_wanted = |name: &str| {
            let is_named = |names: &[String]| names.iter().any(|named| named == name);
            !is_named(left_out) && (is_named(added) || !ON_REQUEST.contains(&name))
        };
        for name in added.iter().chain(left_out) {
            let known: Vec<&str> = FRAGMENTS.iter().map(|(name, _)| *name).collect();
            if !known.contains(&name.as_str()) {
                bail!("{}", unknown_of("configuration fragment", name, &known));
            }
        }
        let kept = FRAGMENTS.iter().filter(|(name, _)| is_wanted(name));
        let fragments =
            kept.map(|(name, text)| Fragment { name: name.to_string(), text: text.to_string() });
        Ok(Configuration { whole: None, fragments: fragments.collect() })
    }

    /// All fragments that come with knee except those left out.
    pub fn without(left_out: &[String]) -> Result<Configuration> {
        Configuration::of_parts(&ON_REQUEST.map(str::to_string), left_out)
    }

    /// Adds a fragment from a file of the user's.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let text = read(path)?;
        for (index, line) in text.lines().enumerate() {
            let is_comment = line.trim().is_empty() || line.starts_with('#');
            if !is_comment && option(line).is_none() {
                bail!(
                    "{}:{}: '{line}' is not an option: write CONFIG_NAME=y or # CONFIG_NAME is not set",
                    path.display(),
                    index + 1
                );
            }
        }
        self.fragments.push(Fragment { name: path.display().to_string(), text });
        Ok(())
    }

    /// Starts from a whole configuration, as distributions install it in /boot.
    pub fn start_from(&mut self, path: &Path) -> Result<()> {
        let text = read(path)?;
        if !text.lines().any(|line| option(line).is_some()) {
            bail!(
                "{} has no CONFIG_ line: is it compressed, such as /proc/config.gz?",
                path.display()
            );
        }
        self.whole = Some(text);
        Ok(())
    }

    /// Leaves out what a build draws by chance: the key that signs modules, and the order of structures' fields.
    /// Then equal sources give equal images of a whole configuration, too.
    pub fn leave_out_chance(&mut self) {
        let text = CHANCE.map(|option| format!("# {option} is not set\n")).concat();
        self.fragments.push(Fragment { name: "equal builds".to_string(), text });
    }

    /// This configuration without one fragment.
    pub fn without_fragment(&self, name: &str) -> Configuration {
        let mut configuration = self.clone();
        configuration.fragments.retain(|fragment| fragment.name != name);
        configuration
    }

    /// Whether it has this fragment.
    pub fn has(&self, name: &str) -> bool {
        self.fragments.iter().any(|fragment| fragment.name == name)
    }

    pub fn names(&self) -> Vec<String> {
        self.fragments.iter().map(|fragment| fragment.name.clone()).collect()
    }

    /// About as many lines as make prints for a first build, of Linux 6.1; `None` if that depends on the user's
    /// options.
    pub fn about_steps(&self, is_first: bool) -> Option<usize> {
        let known = |name: &str| STEPS.iter().find(|(part, _)| *part == name).map(|(_, n)| *n);
        let is_known = is_first && self.whole.is_none();
        is_known.then(|| self.fragments.iter().filter_map(|part| known(&part.name)).sum())
    }

    /// The requested options with the fragment that asks for each, as `knee kernel config` prints them.
    pub fn described(&self) -> String {
        let mut text = String::new();
        for Fragment { name, .. } in &self.fragments {
            text += &format!("# {name}\n");
            let own = self.options().into_iter().filter(|(_, (_, fragment))| fragment == name);
            for (option, (value, _)) in own {
                text += &line(option, value);
            }
        }
        text
    }

    /// The requested options in the format of a `.config` file, each option once.
    pub fn asked(&self) -> String {
        self.options().into_iter().map(|(option, (value, _))| line(option, value)).collect()
    }

    /// The options that do not have the requested value in `config`.
    pub fn unmet(&self, config: &str) -> Vec<UnmetOption> {
        let got: BTreeMap<&str, &str> = config.lines().filter_map(option).collect();
        let is_set = |name: &str| got.get(name).is_some_and(|value| *value != "n");
        let is_set_by_other_name = |name: &str| {
            let mut pairs = RENAMED.iter();
            pairs.any(|(old, new)| (name == *old && is_set(new)) || (name == *new && is_set(old)))
        };
        let unmet_options = self.options().into_iter().filter(|(name, (asked, _))| {
            let may_be_absent = ["n", "\"\""].contains(asked);
            let is_met = got.get(name).map_or(may_be_absent, |got| got == asked);
            !is_met && !is_set_by_other_name(name)
        });
        let unmet = |(name, (asked, fragment)): (&str, (&str, &str))| UnmetOption {
            option: name.to_string(),
            asked: asked.to_string(),
            got: got.get(name).map(|value| value.to_string()),
            fragment: fragment.to_string(),
        };
        unmet_options.map(unmet).collect()
    }

    /// Each option with its value and the fragment that requests it.
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

impl UnmetOption {
    /// Whether a kernel without it does not boot.
    pub fn is_required(&self) -> bool {
        self.fragment == BOOT
    }
}

impl fmt::Display for UnmetOption {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let UnmetOption { option, asked, got, fragment } = self;
        let got = got.as_deref().unwrap_or("absent");
        write!(f, "{option} is {got}, but fragment {fragment} asks for {asked}")
    }
}

/// The number of options that have unlike values in two configurations. What names the compiler is left out.
pub fn differing_options(one: &str, other: &str) -> usize {
    let is_of_compiler = |name: &str| {
        let starts = ["CONFIG_CC_", "CONFIG_GCC_", "CONFIG_LD_", "CONFIG_AS_", "CONFIG_PAHOLE_"];
        starts.iter().any(|start| name.starts_with(start))
    };
    let options = |text| -> BTreeMap<&str, &str> {
        let set = str::lines(text).filter_map(option).filter(|(_, value)| *value != "n");
        set.filter(|(name, _)| !is_of_compiler(name)).collect()
    };
    let (one, other): (BTreeMap<&str, &str>, BTreeMap<&str, &str>) = (options(one), options(other));
    let names: BTreeSet<&str> = one.keys().chain(other.keys()).copied().collect();
    names.into_iter().filter(|name| one.get(name) != other.get(name)).count()
}

fn line(option: &str, value: &str) -> String {
    match value {
        "n" => format!("# {option} is not set\n"),
        value => format!("{option}={value}\n"),
    }
}

/// The option that a line sets, and its value.
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
    given_file::read_text(path, Limit { bytes: 16 << 20, what: "a configuration" })
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let required = |unmet: &UnmetOption| if unmet.is_required() { ", required" } else { "" };
        let line = |unmet: UnmetOption| format!("{unmet}{}\n", required(&unmet));
        let unmet = configuration(fragments).unmet(config);
        expected.assert_eq(&unmet.into_iter().map(line).collect::<String>());
    }

    #[test]
    fn an_option_that_was_dropped_or_changed_is_named_with_its_fragment() {
        let asked = [("boot", "CONFIG_SMP=y\nCONFIG_64BIT=y\n"), ("mine", "CONFIG_NR_CPUS=256\n")];
        check(&asked, "CONFIG_SMP=y\nCONFIG_64BIT=y\nCONFIG_NR_CPUS=256\n", expect![""]);
        check(
            &asked,
            "# CONFIG_SMP is not set\nCONFIG_NR_CPUS=8\n",
            expect![[r#"
                CONFIG_64BIT is absent, but fragment boot asks for y, required
                CONFIG_NR_CPUS is 8, but fragment mine asks for 256
                CONFIG_SMP is n, but fragment boot asks for y, required
            "#]],
        );
    }

    #[test]
    fn an_option_that_must_not_be_set_may_be_absent() {
        let asked = [("mine", "# CONFIG_A is not set\nCONFIG_KEYS=\"\"\n")];
        check(&asked, "CONFIG_B=y\n", expect![""]);
        check(
            &asked,
            "CONFIG_A=y\n",
            expect![[r#"
                CONFIG_A is y, but fragment mine asks for n
            "#]],
        );
    }

    #[test]
    fn the_last_line_about_an_option_counts_and_the_user_may_override_boot() {
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
                CONFIG_RETHUNK is absent, but fragment typical asks for y
            "#]],
        );
    }

    #[test]
    fn lines_of_fragments_are_options_or_comments() {
        for (name, text) in FRAGMENTS {
            assert!(text.starts_with("# "), "{name} begins with its purpose");
            for line in text.lines() {
                let is_comment = line.starts_with("# ") && !line.contains(" is not set");
                assert!(is_comment || option(line).is_some(), "{name}: {line}");
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
        let refusal = |text: &str| {
            fs::write(&path, text).unwrap();
            Configuration::default().add(&path).err().map(|why| why.to_string())
        };
        assert_eq!(
            refusal("# words\n\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x y\"\n"),
            None
        );
        assert!(refusal("CONFIG_A=y\nB=y\n").unwrap().contains("mine:2: 'B=y' is not an option"));
        assert!(refusal("CONFIG_A y\n").unwrap().contains("is not an option"));
        assert!(refusal("CONFIG_A=\n").unwrap().contains("is not an option"));
    }

    #[test]
    fn the_smallest_has_what_contended_lines_need_and_more_on_request() {
        let small = Configuration::of_parts(&[], &[]).unwrap();
        for option in ["CONFIG_KALLSYMS_ALL=y\n", "CONFIG_DEBUG_INFO_BTF=y\n", "CONFIG_64BIT=y\n"] {
            assert!(small.asked().contains(option), "{option}");
        }
        assert!(!small.has("typical") && !small.has("file-systems"));
        let more = Configuration::of_parts(&["typical".to_string()], &["types".to_string()]);
        let more = more.unwrap();
        assert!(more.has("typical") && !more.has("types") && !more.has("containers"));
        assert!(more.about_steps(true) < small.about_steps(true).map(|steps| steps + 1));
        assert_eq!(more.about_steps(false), None);
        let described = small.described();
        assert!(
            described.starts_with("# boot\n") && described.contains("\n# types\n"),
            "{described}"
        );
    }

    #[test]
    fn configurations_differ_by_options_that_are_not_the_compilers() {
        let one = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_GCC_VERSION=120200\nCONFIG_C=\"x\"\n";
        assert_eq!(differing_options(one, "CONFIG_C=\"x\"\nCONFIG_A=y\n"), 0);
        assert_eq!(differing_options(one, "CONFIG_C=\"y\"\nCONFIG_D=y\n"), 3);
    }

    #[test]
    fn an_unknown_fragment_is_refused_with_the_known_ones() {
        let error = Configuration::without(&["type".to_string()]).unwrap_err().to_string();
        assert!(error.contains("did you mean \"types\"? There are boot, guest"), "{error}");
        let rest = Configuration::without(&["types".to_string()]).unwrap();
        assert!(!rest.has("types") && rest.has("boot"));
    }
}
