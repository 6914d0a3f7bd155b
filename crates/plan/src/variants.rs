//! Variants: what an experiment compares. Factors are combined into the variants that blocks hold.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use host::{Placement, unknown_of};
use records::{CommandLine, Daemon, Experiment, FileSystem, Form, Guest, Scalar, Variant};

/// All combinations of the experiment's variants over its factors, without the excluded ones, in the
/// order written: the first is the baseline. Empty if nothing is compared.
pub fn combined(experiment: &Experiment) -> Result<Vec<Variant>> {
    check_names(&experiment.variants)?;
    check_exclusions(experiment)?;
    if experiment.variants.is_empty() {
        return Ok(Vec::new());
    }
    // Each variant with the names that it was made from, by factor.
    let mut combined: Vec<(BTreeMap<&str, &str>, Variant)> = vec![Default::default()];
    for factor in factors(&experiment.variants) {
        let levels = experiment.variants.iter().filter(|variant| variant.factor == factor);
        combined = combined
            .iter()
            .flat_map(|(names, so_far)| {
                levels.clone().map(|level| {
                    let mut names = names.clone();
                    names.insert(factor, &level.name);
                    Ok((names, merged(so_far, level)?))
                })
            })
            .collect::<Result<_>>()?;
        ensure!(combined.len() <= VARIANTS_MAX, "more than {VARIANTS_MAX} variants: use fewer");
    }
    let excluded = |names: &BTreeMap<&str, &str>| {
        experiment.exclusions.iter().any(|exclusion| {
            exclusion.iter().all(|(factor, which)| {
                names.get(factor.as_str()).is_some_and(|name| which.0.iter().any(|w| w == name))
            })
        })
    };
    combined.retain(|(names, _)| !excluded(names));
    let names: BTreeSet<&String> = combined.iter().map(|(_, variant)| &variant.name).collect();
    ensure!(
        names.len() == combined.len(),
        "two combinations of variants have the same name: use names without blanks"
    );
    ensure!(!combined.is_empty(), "every variant is excluded: shorten an [[exclude]]");
    Ok(combined.into_iter().map(|(_, variant)| variant).collect())
}

/// More variants are a mistake in a list: no table could show them.
const VARIANTS_MAX: usize = 256;

/// The factors in order of appearance.
fn factors(variants: &[Variant]) -> Vec<&str> {
    let mut factors: Vec<&str> = Vec::new();
    for variant in variants {
        if !factors.contains(&variant.factor.as_str()) {
            factors.push(&variant.factor);
        }
    }
    factors
}

fn check_names(variants: &[Variant]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for Variant { factor, name, .. } in variants {
        ensure!(seen.insert((factor, name)), "two variants are called '{name}': rename one");
    }
    Ok(())
}

fn check_exclusions(experiment: &Experiment) -> Result<()> {
    for exclusion in &experiment.exclusions {
        ensure!(!exclusion.is_empty(), "an [[exclude]] names nothing: it would exclude all");
        for (factor, names) in exclusion {
            let known = || experiment.variants.iter().filter(|v| v.factor == *factor);
            let all = factors(&experiment.variants);
            ensure!(
                known().next().is_some(),
                "[[exclude]]: {}",
                unknown_of("factor", factor, &all)
            );
            let known_names: Vec<&str> = known().map(|variant| variant.name.as_str()).collect();
            for name in &names.0 {
                ensure!(
                    known().any(|variant| variant.name == *name),
                    "[[exclude]]: {}",
                    unknown_of(&format!("variant of {factor}"), name, &known_names)
                );
            }
        }
    }
    Ok(())
}

/// The variant with the settings of two variants of different factors.
fn merged(a: &Variant, b: &Variant) -> Result<Variant> {
    let name = [a.name.as_str(), b.name.as_str()];
    let name = name.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ");
    let set_once = |what: &str, both: bool| {
        ensure!(!both, "two factors set '{what}': the variant '{name}' is ambiguous");
        Ok(())
    };
    set_once("workload", a.workload.is_some() && b.workload.is_some())?;
    set_once("as", a.form.is_some() && b.form.is_some())?;
    set_once("placement", a.placement.is_some() && b.placement.is_some())?;
    set_once("dir", a.dir.is_some() && b.dir.is_some())?;
    set_once("file_system", a.file_system.is_some() && b.file_system.is_some())?;
    set_once("daemon", a.daemon.is_some() && b.daemon.is_some())?;
    set_once("binary", a.binary.is_some() && b.binary.is_some())?;
    let maps = |what: &str, a: &BTreeMap<String, Scalar>, b: &BTreeMap<String, Scalar>| {
        if let Some(key) = a.keys().find(|key| b.contains_key(*key)) {
            set_once(&format!("{what} {key}"), true)?;
        }
        Ok::<_, anyhow::Error>(a.clone().into_iter().chain(b.clone()).collect())
    };
    Ok(Variant {
        factor: String::new(),
        workload: a.workload.clone().or_else(|| b.workload.clone()),
        parameters: maps("parameter", &a.parameters, &b.parameters)?,
        form: a.form.or(b.form),
        placement: a.placement.or(b.placement),
        dir: a.dir.clone().or_else(|| b.dir.clone()),
        file_system: a.file_system.clone().or_else(|| b.file_system.clone()),
        environment: maps("the environment variable", &a.environment, &b.environment)?,
        sysctl: maps("sysctl", &a.sysctl, &b.sysctl)?,
        daemon: a.daemon.clone().or_else(|| b.daemon.clone()),
        under: [a.under.clone(), b.under.clone()].concat(),
        binary: a.binary.clone().or_else(|| b.binary.clone()),
        guest: merged_guest(a.guest.as_ref(), b.guest.as_ref())
            .with_context(|| format!("merging two factors into the variant '{name}'"))?,
        name,
    })
}

/// The guest with the settings of both.
fn merged_guest(a: Option<&Guest>, b: Option<&Guest>) -> Result<Option<Guest>> {
    match (a, b) {
        (Some(a), Some(b)) => a.and(b).map(Some),
        _ => Ok(a.or(b).cloned()),
    }
}

/// Reads `NAME=KEY=VALUE;KEY=VALUE…`, as `--variant` takes it.
pub fn parse(text: &str) -> Result<Variant> {
    parse_over(Variant::default(), text)
}

/// Reads `NAME=KEY=VALUE;KEY=VALUE…` as what is set beside, or instead of, the settings of another variant.
pub fn parse_over(base: Variant, text: &str) -> Result<Variant> {
    let (name, settings) = text.split_once('=').context(USAGE)?;
    let mut variant = Variant { name: name.trim().to_string(), ..base };
    for setting in settings.split(';').map(str::trim).filter(|s| !s.is_empty()) {
        let (key, value) =
            setting.split_once('=').with_context(|| format!("'{setting}' has no '=': {USAGE}"))?;
        set(&mut variant, key.trim(), value.trim())?;
    }
    Ok(variant)
}

const USAGE: &str = "must be NAME='KEY=VALUE;…', where a key is a parameter, workload, as, \
                     placement, dir, fs, fs.mkfs, fs.mount, env.NAME, sysctl.NAME, a file of /sys, daemon, daemon.ready, daemon.stop, under or binary";

fn set(variant: &mut Variant, key: &str, value: &str) -> Result<()> {
    let word = || Scalar(value.to_string());
    match key {
        "workload" => variant.workload = Some(value.to_string()),
        "as" => variant.form = Some(form(value)?),
        "placement" => variant.placement = Some(value.parse::<Placement>()?),
        "dir" => variant.dir = Some(value.into()),
        "fs" => variant.file_system = Some(FileSystem::parse(value)?),
        "daemon" => {
            variant.daemon.get_or_insert_default().run = CommandLine::Text(value.to_string());
        }
        "binary" => variant.binary = Some(value.into()),
        "under" => variant.under = value.split_whitespace().map(str::to_string).collect(),
        _ if key.starts_with('/') => {
            variant.sysctl.insert(key.to_string(), word());
        }
        _ => match key.split_once('.') {
            Some(("env", name)) => {
                variant.environment.insert(name.to_string(), word());
            }
            Some(("fs", what)) => {
                let made = variant.file_system.as_mut();
                let made = made.context("fs.mkfs and fs.mount need fs=KIND before, or --fs")?;
                match what {
                    "mkfs" => made.mkfs = value.to_string(),
                    "mount" => made.mount = value.to_string(),
                    _ => bail!("'fs.{what}' is not a setting: {USAGE}"),
                }
            }
            Some(("daemon", what)) => {
                let daemon = variant.daemon.as_mut();
                let daemon =
                    daemon.context("daemon.ready and daemon.stop need daemon=PROGRAM before")?;
                match what {
                    "ready" => daemon.ready = Daemon::parse_ready(value)?,
                    "stop" => daemon.stop = CommandLine::Text(value.to_string()),
                    _ => bail!("'daemon.{what}' is not a setting: {USAGE}"),
                }
            }
            Some(("sysctl", name)) => {
                variant.sysctl.insert(name.to_string(), word());
            }
            Some((kind, _)) => bail!("'{kind}' is not a kind of setting: {USAGE}"),
            None => {
                variant.parameters.insert(key.to_string(), word());
            }
        },
    }
    Ok(())
}

/// Parses `processes` or `threads`.
pub fn form(text: &str) -> Result<Form> {
    match text {
        "processes" => Ok(Form::Processes),
        "threads" => Ok(Form::Threads),
        _ => bail!("must be processes or threads"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(toml: &str, expected: expect_test::Expect) {
        let toml = format!("{toml}\n[[load]]\nworkload = 'getppid'");
        let shown = match Experiment::read(&toml).and_then(|e| combined(&e)) {
            Err(error) => format!("{error:#}\n"),
            Ok(variants) => variants
                .iter()
                .map(|v| serde_json::to_string(v).expect("plain data") + "\n")
                .collect(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn variants_of_one_factor_stand_as_they_are() {
        check(
            "[[variant]]\nname = 'wait'\n[[variant]]\nname = 'try'\nparameters = { mode = 'try' }\n\
             environment = { A = 1 }\nsysctl = { 'vm.swappiness' = 10 }",
            expect_test::expect![[r#"
                {"name":"wait"}
                {"name":"try","parameters":{"mode":"try"},"environment":{"A":"1"},"sysctl":{"vm.swappiness":"10"}}
            "#]],
        );
    }

    #[test]
    fn factors_are_combined_less_what_is_excluded() {
        check(
            "[[variant]]\nname = 'fast'\nfactor = 'speed'\n[[variant]]\nname = 'slow'\nfactor = 'speed'\n\
             parameters = { idle_ns = 10 }\n[[variant]]\nname = 'p'\nfactor = 'form'\nas = 'processes'\n\
             [[variant]]\nname = 't'\nfactor = 'form'\nas = 'threads'\n\
             [[exclude]]\nspeed = 'slow'\nform = ['t']",
            expect_test::expect![[r#"
                {"name":"fast p","as":"processes"}
                {"name":"fast t","as":"threads"}
                {"name":"slow p","parameters":{"idle_ns":"10"},"as":"processes"}
            "#]],
        );
    }

    #[test]
    fn mistakes_are_named() {
        check(
            "[[variant]]\nname = 'a'\n[[variant]]\nname = 'a'",
            expect_test::expect![[r#"
                two variants are called 'a': rename one
            "#]],
        );
        check(
            "[[variant]]\nname = 'fast'\nfactor = 'speed'\n[[exclude]]\nsped = 'fast'",
            expect_test::expect![[r#"
                [[exclude]]: no factor is called "sped"; did you mean "speed"? There is speed
            "#]],
        );
        check(
            "[[variant]]\nname = 'fast'\nfactor = 'speed'\n[[exclude]]\nspeed = 'fats'",
            expect_test::expect![[r#"
                [[exclude]]: no variant of speed is called "fats"; did you mean "fast"? There is fast
            "#]],
        );
        check(
            "[[variant]]\nname = 'a'\nfactor = 'x'\nas = 'threads'\n[[variant]]\nname = 'b'\nas = 'processes'",
            expect_test::expect![[r#"
                two factors set 'as': the variant 'a b' is ambiguous
            "#]],
        );
        check(
            "[[variant]]\nname = 'a'\ncolour = 'red'",
            expect_test::expect![[r#"
            reading the experiment: line 3: unknown key `variant.0.colour`
        "#]],
        );
    }

    fn check_flag(text: &str, expected: expect_test::Expect) {
        let shown = match parse(text) {
            Err(error) => format!("{error:#}"),
            Ok(variant) => serde_json::to_string(&variant).expect("plain data"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_flag_says_what_a_file_says() {
        check_flag("base=", expect_test::expect![[r#"{"name":"base"}"#]]);
        check_flag(
            "b=mode=try; as=threads;env.GLIBC_TUNABLES=glibc.malloc.arena_max=1;sysctl.vm.swappiness=0",
            expect_test::expect![[
                r#"{"name":"b","parameters":{"mode":"try"},"as":"threads","environment":{"GLIBC_TUNABLES":"glibc.malloc.arena_max=1"},"sysctl":{"vm.swappiness":"0"}}"#
            ]],
        );
        check_flag(
            "never=/sys/kernel/mm/transparent_hugepage/enabled=never",
            expect_test::expect![[
                r#"{"name":"never","sysctl":{"/sys/kernel/mm/transparent_hugepage/enabled":"never"}}"#
            ]],
        );
        check_flag(
            "c=under=numactl --interleave=all;workload=flock_own",
            expect_test::expect![[
                r#"{"name":"c","workload":"flock_own","under":["numactl","--interleave=all"]}"#
            ]],
        );
        check_flag(
            "wide=fs=xfs;fs.mkfs=-m crc=1,finobt=1 -d agcount=32;fs.mount=logbsize=262144",
            expect_test::expect![[
                r#"{"name":"wide","file_system":{"kind":"xfs","mkfs":"-m crc=1,finobt=1 -d agcount=32","mount":"logbsize=262144"}}"#
            ]],
        );
        check_flag(
            "wide=fs.mkfs=-q",
            expect_test::expect!["fs.mkfs and fs.mount need fs=KIND before, or --fs"],
        );
        check_flag(
            "d",
            expect_test::expect![
                "must be NAME='KEY=VALUE;…', where a key is a parameter, workload, as, placement, dir, fs, fs.mkfs, fs.mount, env.NAME, sysctl.NAME, a file of /sys, daemon, daemon.ready, daemon.stop, under or binary"
            ],
        );
        check_flag(
            "d=x",
            expect_test::expect![
                "'x' has no '=': must be NAME='KEY=VALUE;…', where a key is a parameter, workload, as, placement, dir, fs, fs.mkfs, fs.mount, env.NAME, sysctl.NAME, a file of /sys, daemon, daemon.ready, daemon.stop, under or binary"
            ],
        );
        check_flag(
            "d=sysclt.vm.x=1",
            expect_test::expect![
                "'sysclt' is not a kind of setting: must be NAME='KEY=VALUE;…', where a key is a parameter, workload, as, placement, dir, fs, fs.mkfs, fs.mount, env.NAME, sysctl.NAME, a file of /sys, daemon, daemon.ready, daemon.stop, under or binary"
            ],
        );
    }
}
