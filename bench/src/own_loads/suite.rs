//! The folder of will-it-scale, and its own program for each test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::output;

pub struct Suite<'a> {
    pub folder: &'a Path,
    /// Where programs, records and caches go.
    pub home: &'a Path,
}

impl Suite<'_> {
    /// The files of the tests, or of those of which cases are named, in alphabetical order.
    pub fn tests(&self, cases: &[String]) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("tests");
        let files =
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        let files: Result<Vec<PathBuf>, _> =
            files.map(|file| file.map(|file| file.path())).collect();
        let is_wanted = |path: &PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            path.extension().is_some_and(|ending| ending == "c")
                && (cases.is_empty()
                    || cases.iter().any(|case| case.split(':').next() == Some(&*name)))
        };
        let mut files: Vec<PathBuf> = files?.into_iter().filter(is_wanted).collect();
        files.sort();
        ensure!(!files.is_empty(), "{}: no test to measure", folder.display());
        Ok(files)
    }

    /// A copy of their main program that ends with its input, as it would end after the seconds that it is asked for.
    pub fn main_that_ends_with_its_input(&self) -> Result<PathBuf> {
        let path = self.folder.join("main.c");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let ends = text.replacen("\t\tsleep(1);", "\t\tgetchar(); break;", 1);
        ensure!(ends != text, "{}: its loop is another one", path.display());
        let copy = self.home.join("main.c");
        fs::write(&copy, ends)?;
        Ok(copy)
    }

    /// Compiles a test as its Makefile does.
    pub fn build(&self, test: &Path, form: &str, main: &Path) -> Result<PathBuf> {
        let name = test.file_stem().unwrap_or_default().to_string_lossy();
        let program = self.home.join(format!("{name}_{form}"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-pthread"]);
        if form == "threads" {
            cc.arg("-DTHREADS");
        }
        cc.args([main, test]).args(["-lhwloc", "-o"]).arg(&program);
        output(&mut cc).context("compiling will-it-scale needs hwloc (libhwloc-dev)")?;
        Ok(program)
    }
}
