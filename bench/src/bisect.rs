//! Bisections of real C projects: 300 commits made from a seed, one of which adds 5 % of work to an operation. How often
//! the culprit is found, and in how many runs of those forecast.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output};

const COMMITS: usize = 300;
/// Source files, which take equal shares of an operation: doubling one adds 5 %.
const PARTS: usize = 20;
/// Rounds of each part in an operation.
const ROUNDS: u64 = 1000;

/// What one commit changes.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A document, or a comment: the program stays equal.
    Nothing,
    /// A constant of a part: the program differs and is as fast.
    Constant,
    /// A function that nothing calls: all that follows it moves.
    Function,
    /// A part works twice as long.
    Culprit,
}

/// The sources of a project as they are after some commits.
struct Sources {
    constants: [u64; PARTS],
    functions: [usize; PARTS],
    slow: Option<usize>,
    notes: usize,
}

impl Sources {
    fn part(&self, part: usize) -> String {
        let rounds = if self.slow == Some(part) { 2 * ROUNDS } else { ROUNDS };
        let mut text = format!(
            "unsigned long part_{part}(unsigned long x)\n{{\n    for (int i = 0; i < {rounds}; i++)\n        \
             x = x * 6364136223846793005UL + {}UL;\n    return x;\n}}\n",
            self.constants[part] | 1
        );
        for function in 0..self.functions[part] {
            text += &format!(
                "unsigned long more_{part}_{function}(unsigned long x)\n{{\n    return x / {}UL + x;\n}}\n",
                function + 3
            );
        }
        text
    }

    fn main() -> String {
        let declared: String =
            (0..PARTS).map(|part| format!("unsigned long part_{part}(unsigned long);\n")).collect();
        let called: String =
            (0..PARTS).map(|part| format!("        x = part_{part}(x);\n")).collect();
        format!(
            "#include <stdio.h>\n{declared}int main(void)\n{{\n    unsigned long x = 1;\n    \
             for (int i = 0; i < 3000; i++) {{\n{called}    }}\n    printf(\"%lu\\n\", x);\n    \
             return 0;\n}}\n"
        )
    }
}

/// Makes a project in `folder`; returns the culprit's id.
fn make(folder: &Path, random: &mut Xoshiro256PlusPlus) -> Result<String> {
    let culprit = random.random_range(1..=COMMITS);
    let mut sources =
        Sources { constants: [1; PARTS], functions: [0; PARTS], slow: None, notes: 0 };
    let objects: String = (0..PARTS).map(|part| format!(" part_{part}.o")).collect();
    let makefile = format!("CFLAGS = -O1\napp: main.o{objects}\n\t$(CC) -o $@ $^\n");
    let mut stream = commit_head(0);
    for (name, text) in [("Makefile", makefile), ("main.c", Sources::main())] {
        stream += &file(name, &text);
    }
    for part in 0..PARTS {
        stream += &file(&format!("part_{part}.c"), &sources.part(part));
    }
    for commit in 1..=COMMITS {
        let change = match random.random::<f64>() {
            _ if commit == culprit => Change::Culprit,
            p if p < 0.6 => Change::Nothing,
            p if p < 0.9 => Change::Constant,
            _ => Change::Function,
        };
        let part = random.random_range(0..PARTS);
        stream += &commit_head(commit);
        match change {
            Change::Nothing => {
                sources.notes += 1;
                stream += &file("NOTES.md", &format!("{} notes\n", sources.notes));
                continue;
            }
            Change::Constant => sources.constants[part] = random.random(),
            Change::Function => sources.functions[part] += 1,
            Change::Culprit => sources.slow = Some(part),
        }
        stream += &file(&format!("part_{part}.c"), &sources.part(part));
    }
    output(Command::new("git").args(["init", "-q", "-b", "main"]).arg(folder))?;
    let mut import = Command::new("git");
    import.arg("-C").arg(folder).args(["fast-import", "--quiet"]).stdin(Stdio::piped());
    let mut child = import.spawn().context("starting git")?;
    child.stdin.take().context("git has no input")?.write_all(stream.as_bytes())?;
    ensure!(child.wait()?.success(), "git fast-import failed");
    let listed =
        output(Command::new("git").arg("-C").arg(folder).args(["rev-list", "--reverse", "main"]))?;
    let ids = String::from_utf8(listed.stdout)?;
    Ok(ids.lines().nth(culprit).context("git lost the culprit")?.to_string())
}

/// The first of `path`, `path-1`, `path-2` that does not exist.
fn unused(path: &Path) -> PathBuf {
    let names = (1..).map(|number| PathBuf::from(format!("{}-{number}", path.display())));
    std::iter::once(path.to_path_buf()).chain(names).find(|path| !path.exists()).unwrap_or_default()
}

/// Keeps the answer of a bisection, and its folder with the log and the records of all runs.
fn keep(home: &Path, answer: &Value, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    fs::write(to.join("answer.json"), answer.to_string())?;
    let bisections = home.join("records/bisections");
    output(Command::new("cp").arg("-a").arg(bisections).arg(to)).map(drop)
}

fn commit_head(commit: usize) -> String {
    let message = format!("commit {commit}");
    format!(
        "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\ndata {}\n{message}\n",
        1_700_000_000 + commit,
        message.len()
    )
}

fn file(name: &str, text: &str) -> String {
    format!("M 100644 inline {name}\ndata {}\n{text}\n", text.len())
}

/// Makes and bisects `--pairs` projects.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let mut projects = Vec::new();
    for number in 1..=options.pairs {
        let home = fresh_directory(&std::env::temp_dir())?;
        let folder = home.path().join("project");
        let culprit = make(&folder, &mut bench.random)?;
        let answer = bisect(bench, home.path(), &folder, &options.metric)?;
        let named = answer["named"].as_array().cloned().unwrap_or_default();
        let is_right = named == [Value::String(culprit.clone())];
        let project = Bisected::new(&answer, is_right);
        eprintln!(
            "bisect, {number} of {}: culprit {culprit:.12}, named {named:?}, {project}, ended as {}, confirmed {}",
            options.pairs,
            answer["answer"]["answer"],
            answer.pointer("/confirmed/0/confirmed").unwrap_or(&Value::Null)
        );
        let kept = match &options.records {
            Some(records) => Some(records.join(format!("bisect-{number}"))),
            // Why a bisection went beyond its forecast can only be read from its log.
            None if project.exceeds() => {
                Some(unused(&std::env::temp_dir().join("knee-bench-bisection")))
            }
            None => None,
        };
        if let Some(kept) = kept {
            keep(home.path(), &answer, &kept)?;
            eprintln!("its answer, log and records are in {}", kept.display());
        }
        projects.push(project);
    }
    let found = projects.iter().filter(|project| project.is_right).count() as f64;
    let figure =
        |name: &str, limit, values| Figure { name: name.to_string(), unit: "", limit, values };
    let each = |of: fn(&Bisected) -> f64| projects.iter().map(of).collect::<Vec<f64>>();
    Ok(vec![
        figure(
            "bisect: culprit of 300 commits named, share of projects",
            Limit::AtLeast(1.0),
            vec![found / projects.len() as f64],
        ),
        figure(
            "bisect: runs in all, as a multiple of what the forecast says that nine of ten keep to",
            Limit::AtMost(1.3),
            each(|project| (project.searched + project.compared) / project.all[2]),
        ),
        figure(
            "bisect: runs in all, as a multiple of the forecast's middle",
            Limit::None,
            each(|project| (project.searched + project.compared) / project.all[1]),
        ),
        figure(
            "bisect: runs of the search, as a multiple of what nine of ten keep to",
            Limit::None,
            each(|project| project.searched / project.search[2]),
        ),
        figure("bisect: runs of the search", Limit::None, each(|project| project.searched)),
        figure("bisect: runs of comparisons", Limit::None, each(|project| project.compared)),
        figure("bisect: builds of the search", Limit::None, each(|project| project.builds)),
    ])
}

/// What one bisection took, and what was forecast: a low number, the middle, and a high one.
struct Bisected {
    is_right: bool,
    searched: f64,
    compared: f64,
    builds: f64,
    search: [f64; 3],
    all: [f64; 3],
}

impl Bisected {
    /// Whether the search, or all of it, took more than nine of ten bisections were forecast to take.
    fn exceeds(&self) -> bool {
        self.searched > self.search[2] || self.searched + self.compared > self.all[2]
    }

    fn new(answer: &Value, is_right: bool) -> Bisected {
        let number = |path: &str| answer.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let forecast = |part: &str| {
            ["low", "middle", "high"].map(|at| number(&format!("/forecast/{part}/runs/{at}")))
        };
        Bisected {
            is_right,
            searched: number("/runs"),
            compared: number("/comparison_runs"),
            builds: number("/builds"),
            search: forecast("search"),
            all: forecast("all"),
        }
    }
}

impl fmt::Display for Bisected {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Bisected { searched, compared, builds, search, all, .. } = self;
        let forecast = |[low, middle, high]: &[f64; 3]| {
            format!("{low:.0} to {high:.0} forecast, {middle:.0} in the middle")
        };
        write!(
            f,
            "{searched} runs of the search ({}) and {compared} of comparisons, {} in all ({}), {builds} builds",
            forecast(search),
            searched + compared,
            forecast(all)
        )
    }
}

fn bisect(bench: &Bench, home: &Path, folder: &Path, metric: &str) -> Result<Value> {
    let mut command = bench.knee(home);
    command
        .args(["bisect", "--good", "main~300", "--bad", "main", "--json", "--cpus", "1", "--git"]);
    command.arg(folder).args(["--build", "make -s -j2", "--command", "./app", "--metric", metric]);
    let done = command.output().context("starting knee")?;
    let stderr = String::from_utf8_lossy(&done.stderr);
    ensure!([0, 1, 3].contains(&done.status.code().unwrap_or(-1)), "knee bisect failed: {stderr}");
    serde_json::from_slice(&done.stdout).with_context(|| format!("reading the answer: {stderr}"))
}
