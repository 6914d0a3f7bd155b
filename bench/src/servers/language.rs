//! The languages of drawn servers: whether they are installed, and how a program is built and started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use super::case::{Case, Start};
use super::template::Style;
use crate::output;

/// What a server is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    C,
    Cpp,
    Go,
    Java,
    Python,
    Rust,
}

impl Language {
    pub const ALL: [Language; 6] = [
        Language::C,
        Language::Cpp,
        Language::Go,
        Language::Java,
        Language::Python,
        Language::Rust,
    ];

    /// Those that can be built here; says why others cannot.
    pub fn installed() -> Vec<Language> {
        Language::ALL.into_iter().filter(|language| language.is_installed()).collect()
    }

    fn is_installed(self) -> bool {
        let asked = match self {
            Language::Go => "version",
            Language::Java => "-version",
            _ => "--version",
        };
        let why = output(Command::new(self.compiler()).arg(asked)).err();
        if let Some(why) = &why {
            eprintln!("no servers in {}: {why:#}", self.word());
        }
        why.is_none()
    }

    fn compiler(self) -> &'static str {
        match self {
            Language::C => "gcc",
            Language::Cpp => "g++",
            Language::Go if Path::new("/usr/local/go/bin/go").exists() => "/usr/local/go/bin/go",
            Language::Go => "go",
            Language::Java => "javac",
            Language::Python => "python3",
            Language::Rust => "rustc",
        }
    }

    /// The word of templates and tables.
    pub fn word(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Go => "go",
            Language::Java => "java",
            Language::Python => "python",
            Language::Rust => "rust",
        }
    }

    /// How functions and variables are written.
    pub fn style(self) -> Style {
        match self {
            Language::Go | Language::Java => Style::Camel,
            _ => Style::Snake,
        }
    }

    fn template(self) -> &'static str {
        match self {
            Language::C | Language::Cpp => include_str!("../../servers/server.c.in"),
            Language::Go => include_str!("../../servers/server.go.in"),
            Language::Java => include_str!("../../servers/Server.java.in"),
            Language::Python => include_str!("../../servers/server.py.in"),
            Language::Rust => include_str!("../../servers/server.rs.in"),
        }
    }
}

/// The program of a case, as it was drawn.
pub fn source_text(case: &Case) -> Result<String> {
    case.fillings.fill(case.language.template(), case.language.style())
}

/// A built server.
pub struct Program {
    language: Language,
    /// The executable; of Java, the folder of its classes and the name of its main class.
    file: PathBuf,
    main_class: String,
}

impl Program {
    /// Writes and builds the server of a case in a folder.
    pub fn build(case: &Case, folder: &Path) -> Result<Program> {
        let language = case.language;
        let style = language.style();
        let text = source_text(case)?;
        let main_class = case.fillings.written("Main", style)?;
        let name = case.fillings.written("main", Style::Snake)?;
        let source = folder.join(match language {
            Language::C => format!("{name}.c"),
            Language::Cpp => format!("{name}.cc"),
            Language::Go => format!("{name}.go"),
            Language::Java => format!("{main_class}.java"),
            Language::Python => format!("{name}.py"),
            Language::Rust => format!("{name}.rs"),
        });
        fs::write(&source, text).with_context(|| format!("writing {}", source.display()))?;
        let file = match language {
            Language::Python => source.clone(),
            Language::Java => folder.to_path_buf(),
            _ => folder.join(name),
        };
        if language != Language::Python {
            let debug = case.has_debug_information;
            output(&mut build_command(language, debug, &source, &file))?;
        }
        Ok(Program { language, file, main_class })
    }

    /// The command line of the program, before its own arguments.
    pub fn command(&self, start: &Start, is_unprivileged: bool) -> Result<Command> {
        let mut command = match self.language {
            Language::Java => {
                let mut java = Command::new("java");
                java.args(&start.flags).arg("-cp").arg(&self.file).arg(&self.main_class);
                java
            }
            Language::Python => {
                let mut python = Command::new(interpreter(is_unprivileged)?);
                python.arg(&self.file);
                python
            }
            _ => Command::new(&self.file),
        };
        command.envs(&start.environment);
        Ok(command)
    }
}

fn build_command(language: Language, has_debug: bool, source: &Path, file: &Path) -> Command {
    let mut command = Command::new(language.compiler());
    match language {
        Language::C | Language::Cpp => {
            command.args(["-O2", "-pthread"]);
            if has_debug {
                command.arg("-g");
            }
            command.arg("-o").arg(file).arg(source);
        }
        Language::Go => {
            command.arg("build");
            if !has_debug {
                command.arg("-ldflags=-w");
            }
            command.arg("-o").arg(file).arg(source);
        }
        Language::Rust => {
            command.args(["-O", "--edition", "2024"]);
            if has_debug {
                command.arg("-g");
            }
            command.arg("-o").arg(file).arg(source);
        }
        Language::Java => {
            command.arg("-d").arg(file);
            if has_debug {
                command.arg("-g");
            }
            command.arg(source);
        }
        Language::Python => unreachable!("Python is not compiled"),
    }
    command
}

/// The interpreter itself: the program in PATH may be a script that looks for it. That of another user is no program for
/// nobody.
fn interpreter(is_unprivileged: bool) -> Result<String> {
    if is_unprivileged {
        return Ok("/usr/bin/python3".to_string());
    }
    let said = output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?;
    Ok(String::from_utf8(said.stdout)?.trim().to_string())
}
