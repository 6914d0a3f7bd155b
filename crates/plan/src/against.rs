//! Two experiments as two variants of one, so that what was measured at different times is measured
//! again in turn.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use records::{Axes, Experiment, Load, Many, Scalar, Variant};

/// One side: an experiment of one variant at most, and the name of its variant in the new
/// experiment.
pub struct Side {
    /// Name in tables.
    pub name: String,
    /// What was or is to be measured.
    pub experiment: Experiment,
}

/// An experiment with a variant for each side, `before` the baseline. Axes that `now` leaves open
/// are those of `before`. Fails where the sides differ in what a variant cannot change, or in nothing.
pub fn against(before: Side, mut now: Side) -> Result<Experiment> {
    let name = before.name.clone();
    now.experiment.axes = now.experiment.axes.over(&before.experiment.axes);
    let mut experiment = now.experiment.clone();
    let (mut a, mut b) = (own_variant(before)?, own_variant(now)?);
    let [load] = &mut experiment.loads[..] else {
        bail!("{} loads: --against re-measures one load; name one workload", experiment.loads.len())
    };
    load.axes = b.load.axes.over(&a.load.axes);
    same_command(&a.load, &b.load)?;
    same_source(&name, &a.load, &b.load)?;
    if a.load.workload() != b.load.workload() {
        for side in [&mut a, &mut b] {
            side.variant.workload.get_or_insert(side.load.name());
        }
    }
    set_parameters(load, &mut a, &mut b)?;
    let axes = [a.axes(), load.axes.over(&experiment.axes)];
    same_size(&axes[0], &axes[1])?;
    set_axes(&axes, &mut a.variant, &mut b.variant)?;
    let outer = [&mut experiment.axes, &mut load.axes];
    for axes in outer {
        drop_set_axes(axes, &a.variant, &b.variant);
    }
    let storage = [&a.experiment.storage, &b.experiment.storage];
    let makes_any = |side: &Folded| side.variant.file_system.is_some();
    ensure!(
        storage[0] == storage[1] || !(makes_any(&a) && makes_any(&b)),
        "{name} made its file systems elsewhere, or of another size: give the same --on, --size and \
         --policy"
    );
    if makes_any(&a) && !makes_any(&b) {
        experiment.storage = a.experiment.storage.clone();
    }
    if a.variant.guest != b.variant.guest {
        experiment.guest = None;
    }
    let unnamed = |variant: &Variant| Variant { name: String::new(), ..variant.clone() };
    ensure!(
        unnamed(&a.variant) != unnamed(&b.variant),
        "nothing differs from {name}: say what is to change, as in --set NAME=VALUE"
    );
    experiment.variants = vec![a.variant, b.variant];
    experiment.exclusions = Vec::new();
    Ok(experiment)
}

/// A side whose only variant holds all that the experiment sets for it.
struct Folded {
    experiment: Experiment,
    load: Load,
    variant: Variant,
}

impl Folded {
    fn axes(&self) -> Axes {
        self.load.axes.over(&self.experiment.axes)
    }
}

fn own_variant(side: Side) -> Result<Folded> {
    let Side { name, mut experiment } = side;
    let variant = match &mut experiment.variants[..] {
        [] => Variant::default(),
        [one] => std::mem::take(one),
        several => bail!("{name} has {} variants: with --against, it is one", several.len()),
    };
    let guest = experiment.guest(Some(&variant));
    let load = match &experiment.loads[..] {
        [load] => load.clone(),
        loads => bail!("{name} has {} loads: --against re-measures records of one", loads.len()),
    };
    let variant = Variant { name, factor: String::new(), guest, ..variant };
    Ok(Folded { load, variant, experiment })
}

fn same_command(a: &Load, b: &Load) -> Result<()> {
    let text = |load: &Load| load.command().map(|command| command.run.text());
    if text(a) == text(b) {
        return Ok(());
    }
    let shown = |load| text(load).unwrap_or_else(|| "a workload".to_string());
    bail!(
        "the commands differ ('{}' and '{}'): name what differs, as in --command './{{program}}' \
         --variant old=program=a --variant new=program=b",
        shown(a),
        shown(b)
    )
}

/// One load is measured for both sides, so its file must be one.
fn same_source(name: &str, a: &Load, b: &Load) -> Result<()> {
    let sha256 = |load: &Load| {
        let compiled = load.own().and_then(|own| own.compiled.as_ref());
        compiled.map(|compiled| (compiled.sha256.clone(), compiled.headers.clone()))
    };
    let of = |load: &Load| (load.own().map(|own| own.flags.clone()), sha256(load));
    ensure!(
        of(a) == of(b),
        "{} is not the source that {name} measured: run it as a record of its own, and compare the records",
        b.name()
    );
    Ok(())
}

/// Parameters that differ become parameters of the variants.
fn set_parameters(load: &mut Load, a: &mut Folded, b: &mut Folded) -> Result<()> {
    let differing = |name: &&String| a.load.parameters.get(*name) != b.load.parameters.get(*name);
    let names = a.load.parameters.keys().chain(b.load.parameters.keys());
    let names: Vec<String> = names.filter(differing).cloned().collect();
    for side in [a, b] {
        let own: BTreeMap<String, Scalar> = names
            .iter()
            .filter_map(|name| Some((name, side.load.parameters.get(name)?)))
            .map(|(name, values)| Ok((name.clone(), single(name, values)?)))
            .collect::<Result<_>>()?;
        for (name, value) in own {
            side.variant.parameters.entry(name).or_insert(value);
        }
    }
    load.parameters.retain(|name, _| !names.contains(name));
    Ok(())
}

fn single<T: Clone>(name: &str, values: &Many<T>) -> Result<T> {
    match &values.0[..] {
        [one] => Ok(one.clone()),
        several => bail!(
            "{name} differs and has {} values: with --against, what differs has one value",
            several.len()
        ),
    }
}

/// Runs of different sizes cannot be compared.
fn same_size(a: &Axes, b: &Axes) -> Result<()> {
    let sizes = |axes: &Axes| {
        let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
        [
            ("--cpus", text(&axes.cpus)),
            ("--tasks", text(&axes.tasks)),
            ("--tasks-per-cpu", text(&axes.tasks_per_cpu)),
            ("--seconds", text(&axes.seconds)),
            ("--operations", text(&axes.operations_per_task)),
        ]
    };
    let differing = sizes(a).into_iter().zip(sizes(b)).find(|(a, b)| a != b);
    if let Some(((flag, _), _)) = differing {
        bail!("{flag} differs from what was measured before: leave it out, so that it is the same");
    }
    Ok(())
}

/// Forms, placements and directories that differ become those of the variants.
fn set_axes(axes: &[Axes; 2], a: &mut Variant, b: &mut Variant) -> Result<()> {
    let [before, now] = axes;
    for (variant, axes) in [(a, before), (b, now)] {
        if before.forms != now.forms && variant.form.is_none() {
            variant.form = axes.forms.as_ref().map(|many| single("--as", many)).transpose()?;
        }
        if before.placement != now.placement && variant.placement.is_none() {
            let placement = axes.placement.as_ref().map(|many| single("--placement", many));
            variant.placement = placement.transpose()?;
        }
        if before.dir != now.dir && variant.dir.is_none() {
            variant.dir = axes.dir.as_ref().map(|many| single("--dir", many)).transpose()?;
        }
    }
    Ok(())
}

/// An axis that a variant sets has its default elsewhere.
fn drop_set_axes(axes: &mut Axes, a: &Variant, b: &Variant) {
    if a.form.is_some() || b.form.is_some() {
        axes.forms = None;
    }
    if a.placement.is_some() || b.placement.is_some() {
        axes.placement = None;
    }
    if a.dir.is_some() || b.dir.is_some() {
        axes.dir = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variants of both sides in one experiment, and the load that they share.
    fn check(before: &str, now: &str, expected: expect_test::Expect) {
        let side = |name: &str, toml: &str| Side {
            name: name.to_string(),
            experiment: Experiment::read(toml).expect("an experiment"),
        };
        let shown = match against(side("before", before), side("now", now)) {
            Err(error) => format!("{error:#}\n"),
            Ok(Experiment { variants, loads, axes, guest, .. }) => {
                let json = |value: serde_json::Result<String>| value.expect("plain data") + "\n";
                let variants = variants.iter().map(|v| json(serde_json::to_string(v)));
                let shared = json(serde_json::to_string(&(axes, loads, guest)));
                variants.collect::<String>() + &shared
            }
        };
        expected.assert_eq(&shown);
    }

    const BRK: &str = "[[load]]\nworkload = 'brk'\n";

    #[test]
    fn what_differs_becomes_two_variants_and_the_rest_is_shared() {
        check(
            &format!(
                "axes = {{ cpus = [1, 2], as = 'threads' }}\n{BRK}parameters = {{ a = 1, b = 2 }}"
            ),
            &format!("{BRK}parameters = {{ a = 1, b = 3, c = 4 }}"),
            expect_test::expect![[r#"
                {"name":"before","parameters":{"b":"2"}}
                {"name":"now","parameters":{"b":"3","c":"4"}}
                [{"cpus":["1","2"],"as":["threads"]},[{"workload":"brk","parameters":{"a":["1"]}}],null]
            "#]],
        );
        check(
            &format!("axes = {{ dir = '/a', placement = 'cores' }}\n{BRK}"),
            &format!("axes = {{ dir = '/b', as = 'threads' }}\n{BRK}"),
            expect_test::expect![[r#"
                {"name":"before","dir":"/a"}
                {"name":"now","as":"threads","dir":"/b"}
                [{"placement":["cores"]},[{"workload":"brk"}],null]
            "#]],
        );
        check(
            BRK,
            "[[load]]\nworkload = 'getppid'\n",
            expect_test::expect![[r#"
            {"name":"before","workload":"brk"}
            {"name":"now","workload":"getppid"}
            [{},[{"workload":"getppid"}],null]
        "#]],
        );
    }

    #[test]
    fn a_variant_of_either_side_keeps_what_it_sets() {
        check(
            &format!("[[variant]]\nname = 'low'\nsysctl = {{ 'vm.swappiness' = 10 }}\n{BRK}"),
            &format!("[[variant]]\nname = 'x'\nfile_system = {{ kind = 'xfs' }}\n{BRK}"),
            expect_test::expect![[r#"
                {"name":"before","sysctl":{"vm.swappiness":"10"}}
                {"name":"now","file_system":{"kind":"xfs"}}
                [{},[{"workload":"brk"}],null]
            "#]],
        );
        check(
            &format!("[guest]\nkernel = 'old'\ncores = 4\n{BRK}"),
            &format!(
                "[guest]\ncores = 4\n[[variant]]\nname = 'new'\nguest = {{ kernel = 'new' }}\n{BRK}"
            ),
            expect_test::expect![[r#"
                {"name":"before","guest":{"kernel":"old","cores":4}}
                {"name":"now","guest":{"kernel":"new","cores":4}}
                [{},[{"workload":"brk"}],null]
            "#]],
        );
    }

    #[test]
    fn what_no_variant_can_change_is_refused() {
        check(
            BRK,
            BRK,
            expect_test::expect![[r#"
            nothing differs from before: say what is to change, as in --set NAME=VALUE
        "#]],
        );
        check(
            &format!("axes = {{ cpus = 1 }}\n{BRK}"),
            &format!("axes = {{ cpus = 2 }}\n{BRK}"),
            expect_test::expect![[r#"
                --cpus differs from what was measured before: leave it out, so that it is the same
            "#]],
        );
        check(
            &format!("{BRK}parameters = {{ a = [1, 2] }}"),
            &format!("{BRK}parameters = {{ a = 1 }}"),
            expect_test::expect![[r#"
                a differs and has 2 values: with --against, what differs has one value
            "#]],
        );
        check(
            "[[load]]\ncommand = { run = './a' }\n",
            "[[load]]\ncommand = { run = './b' }\n",
            expect_test::expect![[r#"
                the commands differ ('./a' and './b'): name what differs, as in --command './{program}' --variant old=program=a --variant new=program=b
            "#]],
        );
        check(
            &format!("{BRK}{BRK}"),
            &format!("axes = {{ as = 'threads' }}\n{BRK}"),
            expect_test::expect![[r#"
                before has 2 loads: --against re-measures records of one
            "#]],
        );
    }
}
