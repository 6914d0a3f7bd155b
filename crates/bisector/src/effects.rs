//! What a bisection builds and runs, for a reader who decides whether it goes on.

use records::{Effect, EffectKind};

use crate::Request;
use crate::range::Source;

/// The programs that a bisection starts, as they are started for each commit.
pub fn effects(request: &Request) -> Vec<Effect> {
    let Request { source, build, products, command, shell, kernels, .. } = request;
    let directory = match source {
        Source::Git { directory, .. } | Source::Steps { directory } => directory.display(),
    };
    let of_commit = format!("in a copy of each commit of {directory}");
    let effect = |kind, words, note: &str| Effect { kind, words, note: note.to_string() };
    let mut effects = Vec::new();
    if let Some(kernels) = kernels {
        let recipe = &kernels.recipe;
        let files = recipe.config_from.iter().chain(&recipe.config);
        let files = files.map(|file| file.display().to_string());
        let words = ["make".to_string(), format!("CC={}", recipe.compiler)];
        let words = words.into_iter().chain(files).collect();
        let note = format!("each in a virtual machine, which runs {}", kernels.workload);
        let booted = match source {
            Source::Git { .. } => {
                effects.push(effect(EffectKind::Build, words, &of_commit));
                "bzImage".to_string()
            }
            Source::Steps { .. } => directory.to_string(),
        };
        effects.push(effect(EffectKind::Boot, vec![booted], &note));
        return effects;
    }
    let in_shell = |line: &String| ["sh", "-c", line.as_str()].map(str::to_string).to_vec();
    effects.extend(build.iter().map(|line| effect(EffectKind::Build, in_shell(line), &of_commit)));
    let made = products.iter().map(|path| path.display().to_string());
    effects.extend(made.map(|path| effect(EffectKind::Reads, vec![path], "made by the build")));
    let line = if *shell { in_shell(command) } else { vec![command.clone()] };
    effects.push(effect(EffectKind::Command, line, &of_commit));
    effects
}
