//! The package for Python: pip installs it without a network, it reads real records, and its notebook runs from top to bottom.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::home::Home;
use crate::skip::skip;

/// Runs the code of a notebook's cells, in one namespace. A cell that needs a library that is not here is left out with the
/// libraries of its name, and so are those that need what it would have made.
const RUN_CELLS: &str = r#"
import json, sys
cells = json.load(open(sys.argv[1], encoding="utf-8"))["cells"]
space, missing = {}, None
for number, cell in enumerate(cells):
    if cell["cell_type"] != "code":
        continue
    try:
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), space)
        print(f"ran: cell {number}")
    except (ImportError, NameError) as why:
        if isinstance(why, NameError) and missing is None:
            raise
        missing = missing or why
        print(f"skipped: cell {number}: {missing}")
"#;

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/python")
}

/// Python in a home where `knee` is the binary of this build and the package can be imported.
fn python(home: &Home, arguments: &[&str]) -> Option<Output> {
    let mut python = Command::new("python3");
    home.move_in(&mut python);
    python.args(arguments).env("PYTHONPATH", package()).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("KNEE", env!("CARGO_BIN_EXE_knee")).env("MPLBACKEND", "Agg");
    let output = python.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    match output.output() {
        Ok(output) => Some(output),
        Err(why) => {
            skip("the package for Python", &format!("python3: {why}"));
            None
        }
    }
}

fn said(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A home with a comparison of two variants and five blocks.
fn measured() -> Home {
    let home = Home::new();
    let ended = home.run(
        "run posix_lock_shared --variant wait= --variant try=mode=try --cpus 1 --seconds 0.02 --blocks 5",
    );
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    home
}

#[test]
fn records_are_tables() {
    let home = measured();
    let check = |code: &str, expected: &str| {
        let Some(output) = python(&home, &["-c", &format!("import knee\n{code}")]) else { return };
        assert_eq!(said(&output).trim(), expected, "{code}");
    };
    check("print(len(knee.runs(form='rows')) == knee.record()['runs_finished'])", "True");
    check(
        "row = knee.runs('last', form='rows', counters=True)[0]; print(row['cpus'], row['parameter.hold_ns'], row['operations_per_s'] > 0, any(name.startswith('counter.') for name in row))",
        "1 0 True True",
    );
    check(
        "print([(row['variant'], row['n']) for row in knee.verdicts('last', form='rows')][0][0])",
        "try",
    );
    check("print(sorted(row['variant'] for row in knee.runs('last', form='rows'))[0])", "try");
    check("print(len(knee.table([{'a': 1}, {'b': 2}])))", "2");
    check("print(knee.record()['format'], knee.folder().name == knee.record()['id'])", "2 True");
    check(
        "try: knee.answer('show', 'nonsense')\nexcept knee.KneeError as why: print('nonsense' in str(why))",
        "True",
    );
    let curves = "ROW = knee.curves('last', form='rows')[0]; print(ROW['metric'], ROW['mean'] > 0)";
    let ended = home.run("run getppid --cpus 1 --seconds 0.02 --blocks 2");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    check(curves, "operations_per_s True");
}

#[test]
fn the_notebook_runs() {
    let home = measured();
    let notebook = package().join("curve.ipynb");
    let arguments = ["-c", RUN_CELLS, notebook.to_str().expect("it is text")];
    let Some(output) = python(&home, &arguments) else { return };
    let said = said(&output);
    for line in said.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skip("the notebook", line);
    }
    assert!(said.lines().filter(|line| line.starts_with("ran: ")).count() >= 3, "{said}");
    assert!(said.contains("try against wait"), "{said}");
}

#[test]
fn pip_installs_the_package_without_a_network() {
    let home = Home::new();
    let Some(pip) = python(&home, &["-m", "pip", "--version"]) else { return };
    if !pip.status.success() {
        skip("pip installs the package", "python3 has no pip");
        return;
    }
    let copy = home.path("python");
    fs::create_dir(&copy).unwrap();
    for name in ["knee.py", "pack.py", "pyproject.toml"] {
        fs::copy(package().join(name), copy.join(name)).unwrap();
    }
    let target = home.path("installed");
    let arguments = ["-m", "pip", "install", "--quiet", "--no-index", "--target"];
    let paths = [target.to_str().unwrap(), copy.to_str().unwrap()];
    said(&python(&home, &[&arguments[..], &paths].concat()).expect("it was there"));
    let installed = fs::read(target.join("knee.py")).unwrap();
    assert_eq!(installed, fs::read(package().join("knee.py")).unwrap());
    // Its version is that of the binary.
    let version = home.run("--version").stdout.trim().replace("knee ", "");
    assert!(target.join(format!("knee-{version}.dist-info/METADATA")).is_file(), "{version}");
    let line = format!("__version__ = \"{version}\"");
    assert!(String::from_utf8(installed).unwrap().contains(&line), "{line}");
}
