//! Whether a difference is of the code or of its place: both builds are linked again with other layouts. gcc and clang
//! take the linker from a folder that the environment names; there, a script adds padding in front of all code and data
//! and, for every second layout, turns the order of the objects around. cargo takes a compiler that links from the
//! environment: such a script again. Go's linker puts functions into the order of a seed (`-randlayout`, since Go 1.22).

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use analysis::blocks_at_most;
use anyhow::{Context, Result, ensure};
use bisection::{difference, is_in_layouts, least_counted};
use host::children;
use host::counted;
use host::job_control::RunningSince;
use records::{Opened, Record, Run};
use runner::End;
use schemars::JsonSchema;
use serde::Serialize;

use crate::build::Built;
use crate::confirm::Took;
use crate::log::StepRuns;
use crate::measurement::{
    Blocks, LAYOUT_RUNS, LAYOUTS, Measurement, Repeats, Subject, Values, disturbed_blocks,
    experiment, measure_while, values,
};
use crate::patience::Watch;
use crate::range::Commit;
use crate::session::{Progress, Session};
use crate::workshop::Workshop;

/// Links without the padding what is no program, such as objects and libraries.
const LINKER: &str = r#"#!/bin/sh
KNEE_LINKER=${0%/*}/host-${0##*/}
for word; do
    case $word in -r | -shared | --relocatable | --shared | -v | --version | -V) exec "$KNEE_LINKER" "$@" ;; esac
done
if [ "$KNEE_REVERSED" = 1 ]; then
    reversed=""
    for word; do
        case $word in
        -* | *crt*.o) ;;
        *[!A-Za-z0-9_./+-]*.o) exec "$KNEE_LINKER" "$KNEE_PADDING" "$@" ;;
        *.o) reversed="$word $reversed" ;;
        esac
    done
    set -- "$@" END
    while [ "$1" != END ]; do
        word=$1 && shift
        case $word in
        -* | *crt*.o) ;;
        *.o) word=${reversed%% *} && reversed=${reversed#* } ;;
        esac
        set -- "$@" "$word"
    done
    shift
fi
exec "$KNEE_LINKER" "$KNEE_PADDING" "$@"
"#;

/// What other layouts say about a change.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LayoutCheck {
    /// The change in each layout, as a share.
    pub changes: Vec<f64>,
    /// Standard error of each.
    pub errors: Vec<f64>,
    /// Whether they show half of the change on average, and none surely less.
    pub holds: bool,
    /// The runs, by commit and layout.
    #[serde(skip)]
    pub runs: Vec<StepRuns>,
    #[serde(skip)]
    pub record: String,
}

/// A linker that makes other layouts.
struct Linker {
    folder: PathBuf,
}

/// What links: the linker of gcc and clang, and the compiler of cargo.
const LINKERS: [&str; 2] = ["ld", "cc"];

impl Linker {
    /// Writes the script and the padding. An error where this host has no compiler or linker for it.
    fn new(folder: PathBuf, layouts: u32) -> Result<Linker> {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let linker = ask("cc", &["-print-prog-name=ld"])?;
        let found = |name: &str| ask("sh", &["-c", &format!("command -v {name}")]);
        let linker = if linker.contains('/') { linker } else { found("ld")? };
        // gcc would take a `real-ld` before an `ld`.
        for (name, host) in LINKERS.into_iter().zip([linker, found("cc")?]) {
            let script = folder.join(name);
            let writing = || format!("writing {}", script.display());
            fs::write(&script, LINKER).with_context(writing)?;
            fs::set_permissions(&script, Permissions::from_mode(0o700))?;
            symlink(host, folder.join(format!("host-{name}"))).with_context(writing)?;
        }
        let linker = Linker { folder };
        for layout in 1..=layouts {
            linker.pad(layout)?;
        }
        Ok(linker)
    }

    fn padding(&self, layout: u32) -> PathBuf {
        self.folder.join(format!("padding_{layout}.o"))
    }

    fn pad(&self, layout: u32) -> Result<()> {
        // Not a multiple of a cache line, nor twice the same within a page.
        let bytes = 16 * (37 * layout % 251 + 1);
        // R: linkers that drop what nothing refers to keep it.
        let section = |(name, flags)| {
            format!(".section {name}.knee,\"{flags}R\",@progbits\n.balign 16\n.skip {bytes}\n")
        };
        let sections = [(".text", "ax"), (".rodata", "a"), (".data", "aw")].map(section);
        let text = sections.concat() + ".section .note.GNU-stack,\"\",@progbits\n";
        let source = self.folder.join("padding.s");
        fs::write(&source, text)?;
        let (object, source) = (path_text(&self.padding(layout))?, path_text(&source)?);
        ask("cc", &["-c", "-o", &object, &source]).map(drop)
    }

    fn environment(&self, layout: u32) -> Vec<(&'static str, OsString)> {
        let reversed = if layout.is_multiple_of(2) { "1" } else { "0" };
        vec![
            ("COMPILER_PATH", self.folder.clone().into()),
            (CARGO_LINKER, self.folder.join("cc").into()),
            ("GOFLAGS", go_flags(layout)),
            ("KNEE_PADDING", self.padding(layout).into()),
            ("KNEE_REVERSED", reversed.into()),
        ]
    }
}

/// The variable by which cargo takes another compiler to link for this host.
const CARGO_LINKER: &str = match std::env::consts::ARCH.as_bytes() {
    b"aarch64" => "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
    _ => "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
};

/// The user's flags of go, and a seed.
fn go_flags(layout: u32) -> OsString {
    let mut flags = std::env::var_os("GOFLAGS").unwrap_or_default();
    flags.push(format!(" -ldflags=-randlayout={layout}"));
    flags
}

fn path_text(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(text.to_string())
}

/// The first line that a program prints.
fn ask(program: &str, arguments: &[&str]) -> Result<String> {
    let output = children::output(Command::new(program).args(arguments))
        .with_context(|| format!("starting {program}"))?;
    let error = String::from_utf8_lossy(&output.stderr).trim().to_string();
    ensure!(output.status.success(), "{program}: {}", error.lines().next().unwrap_or("it failed"));
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    Ok(text.lines().next().unwrap_or_default().to_string())
}

/// Two builds in other layouts, in pairs: the first layout of the old and the new one, the second of both, and so on. The
/// inner error says why the build allows no other layouts, or that as the first go, all take longer than `within_s`; `None` if
/// a signal asked knee to end. `plain`: what the builds are as the compiler lays them out.
pub(crate) fn relink(
    workshop: &Workshop,
    commits: [&Commit; 2],
    plain: [Option<String>; 2],
    layouts: u32,
    within_s: f64,
) -> Result<Result<Option<Vec<Subject>>, String>> {
    let since = RunningSince::now();
    let linker = match Linker::new(workshop.folder().join("linker"), layouts) {
        Ok(linker) => linker,
        Err(why) => return Ok(Err(format!("{why:#}"))),
    };
    let mut subjects = Vec::new();
    for layout in 1..=layouts {
        for (commit, plain) in commits.into_iter().zip(&plain) {
            let environment = linker.environment(layout);
            let build = match workshop.build_laid_out(commit, layout, &environment)? {
                Built::Done(build) => build,
                Built::Failed(why) => return Ok(Err(why)),
                Built::Interrupted => return Ok(Ok(None)),
            };
            if plain.as_ref() == Some(&build.key) {
                let why = "the build does not use the linker that its compiler is given";
                return Ok(Err(why.to_string()));
            }
            let name = format!("{}-layout-{layout}", commit.short());
            subjects.push(Subject::new(name, &build.folder));
        }
        let all_s = since.elapsed().as_secs_f64() * f64::from(layouts) / f64::from(layout);
        if layout < layouts && all_s > within_s {
            return Ok(Err(too_slow(all_s, within_s)));
        }
    }
    Ok(Ok(Some(subjects)))
}

/// Why the builds of other layouts are not made.
pub(crate) fn too_slow(all_s: f64, left_s: f64) -> String {
    format!("their builds take {all_s:.0} s, and {left_s:.0} s of the budget are left")
}

/// The logarithms of the runs of [`relink`]'s builds, a pair for each layout; or why there are none.
pub(crate) fn in_layouts(
    record: &Opened,
    subjects: &[Subject],
    metric: &str,
) -> Result<Result<Vec<[Vec<f64>; 2]>, String>> {
    let mut logs = Vec::new();
    for pair in subjects.chunks_exact(2) {
        let mut of_pair = [Vec::new(), Vec::new()];
        for (subject, logs) in pair.iter().zip(&mut of_pair) {
            match values(record, &subject.name, metric, Blocks::Undisturbed)? {
                Values::Logs(values) => *logs = values,
                Values::Failed(why) => return Ok(Err(why)),
            }
        }
        logs.push(of_pair);
    }
    Ok(Ok(logs))
}

/// Why too few blocks in other layouts are left, if the host disturbed the rest.
pub(crate) fn too_disturbed(record: &Opened) -> Option<String> {
    let blocks = record.runs.last().map_or(0, |run| run.block + 1);
    let disturbed = disturbed_blocks(record);
    (blocks - disturbed < least_counted(LAYOUT_RUNS))
        .then(|| format!("the host disturbed {disturbed} of {}", counted(blocks as usize, "block")))
}

impl Session {
    /// Measures a change in other layouts of both builds. `found` is its size as a logarithm. The inner error says why
    /// the build allows no other layouts; `None` if a signal asked knee to end.
    pub fn check_layouts(
        &mut self,
        change: usize,
        found: f64,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Result<Option<LayoutCheck>, String>> {
        if self.request.kernels.is_some() {
            return Ok(Err("kernels are linked in one order only".to_string()));
        }
        if self.request.build.is_none() {
            return Ok(Err("nothing is built".to_string()));
        }
        let commits = [self.parent(change), change].map(|commit| &self.range.commits[commit]);
        let plain = commits.map(|commit| self.key_of(&commit.id));
        match relink(self.workshop(), commits, plain, LAYOUTS, f64::INFINITY)? {
            Ok(Some(subjects)) => self.measure_layouts(change, found, &subjects, tell),
            Ok(None) => Ok(Ok(None)),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Takes the runs of other layouts that did not bear a change out as evidence: the search goes on with them.
    pub fn take_layouts(&mut self, check: &LayoutCheck) -> Result<()> {
        self.take_further(check.record.clone(), check.runs.clone())
    }

    fn measure_layouts(
        &mut self,
        change: usize,
        found: f64,
        subjects: &[Subject],
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Result<Option<LayoutCheck>, String>> {
        let repeats = Repeats::Times(blocks_at_most(LAYOUT_RUNS));
        let experiment =
            experiment(self.workshop().permitted()?, subjects, repeats, "bisect layouts")?;
        let since = RunningSince::now();
        let mut watch = Watch::new(self.patience_s(), subjects.len()).until(LAYOUT_RUNS);
        let after = |record: &Record, run: &Run| {
            watch.after(record, run, &mut |wait| tell(&Progress::Waiting(wait)))
        };
        let store = self.bisection.records();
        let Measurement { end, record } = measure_while(experiment, &store, false, after)?;
        if end == End::Interrupted {
            return Ok(Ok(None));
        }
        let record = record.context("no run of the layouts was kept")?;
        let waited_s = watch.waited_s();
        let took = Took { seconds: since.elapsed().as_secs_f64() - waited_s, waited_s };
        let what = format!("other layouts of {}", self.range.commits[change].short());
        if let Some(why) = too_disturbed(&record) {
            let why = format!("{why}; --wait 1h waits that long for a quiet host");
            self.note_comparison(&record, &what, &why, took)?;
            return Ok(Err(why));
        }
        let commits = [self.parent(change), change];
        let logs = match in_layouts(&record, subjects, &self.request.metric)? {
            Ok(logs) => logs,
            Err(why) => return Ok(Err(why)),
        };
        let differences: Vec<(f64, f64)> = logs.iter().map(|[a, b]| difference(a, b)).collect();
        let runs = (1..).zip(logs).flat_map(|(layout, logs)| {
            let of_commit = move |(commit, logs)| StepRuns { commit, layout, logs };
            commits.into_iter().zip(logs).map(of_commit)
        });
        let runs = runs.collect();
        let check = LayoutCheck {
            changes: differences.iter().map(|(size, _)| size.exp_m1()).collect(),
            errors: differences.iter().map(|(_, error)| *error).collect(),
            holds: is_in_layouts(&differences, found),
            runs,
            record: record.record.id.clone(),
        };
        let said =
            if check.holds { "the change is in them" } else { "the change is not in all of them" };
        self.note_comparison(&record, &what, said, took)?;
        Ok(Ok(Some(check)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::Linker;
    use crate::measurement::LAYOUTS;

    /// Builds a program that ends with status 0 in all layouts, if the host has what builds it.
    fn check(tool: &str, files: &[(&str, &str)], build: &str) {
        let has = |tool: &str| Command::new(tool).arg("--help").output().is_ok();
        let folder = tempfile::tempdir().unwrap();
        let linker = Linker::new(folder.path().join("linker"), LAYOUTS);
        let Some(linker) = linker.ok().filter(|_| has(tool)) else {
            println!("skipped: no cc, ld or {tool}");
            return;
        };
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut programs = Vec::new();
        for layout in 0..=LAYOUTS {
            let mut shell = Command::new("sh");
            shell.args(["-c", build]).current_dir(folder.path());
            if layout > 0 {
                shell.envs(linker.environment(layout));
            }
            let built = shell.output().unwrap();
            assert!(built.status.success(), "{tool}, layout {layout}: {built:?}");
            programs.push(fs::read(folder.path().join("app")).unwrap());
        }
        programs.sort();
        programs.dedup();
        assert_eq!(programs.len(), LAYOUTS as usize + 1, "{tool}: every layout is another");
    }

    const C: [(&str, &str); 3] = [
        ("a.c", "int b(void); int c(void); int main(void) { return b() + c() - 7; }"),
        ("b.c", "int b(void) { return 3; }"),
        ("c.c", "int c(void) { return 4; }"),
    ];
    const RUST: [(&str, &str); 2] = [
        (
            "Cargo.toml",
            "[workspace]\n[package]\nname = 'app'\nversion = '0.1.0'\nedition = '2021'\n\
             [[bin]]\nname = 'app'\npath = 'main.rs'\n",
        ),
        ("main.rs", "fn main() { assert!(std::env::args().count() == 1) }\n"),
    ];
    const GO: [(&str, &str); 2] =
        [("go.mod", "module app\ngo 1.20\n"), ("main.go", "package main\nfunc main() {}\n")];

    #[test]
    fn layouts_differ_and_work() {
        let objects = "cc -c a.c b.c c.c && cc -o app a.o b.o c.o && ./app";
        check("cc", &C, objects);
        // What nothing refers to is dropped, but for the padding.
        check("cc", &C, "cc -Wl,--gc-sections -ffunction-sections -o app a.c b.c c.c && ./app");
        let cargo = "rm -rf built && cargo build -q --offline --release --target-dir built && \
            cp built/release/app . && ./app";
        check("cargo", &RUST, cargo);
        check("go", &GO, "go build -o app . && ./app");
    }
}
