//! The import graph of each crate's files, drawn from the text: who uses whom, re-exports followed.
//! Files may not use each other in a circle, but for a parent and the modules below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module of one crate: the names on the way to it from the crate's root.
type Module = Vec<String>;

/// The arrows of a crate: which modules each one uses.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Reads the files below a crate's `src` and draws their arrows.
pub fn graph(src: &Path) -> Graph {
    let mut texts = BTreeMap::new();
    collect(src, &mut Vec::new(), &mut texts);
    let mut names = BTreeMap::new();
    // A re-export may be of a re-export.
    for _ in 0..3 {
        for (module, text) in &texts {
            for (path, name) in imports(text, "pub use ") {
                if let Some(target) = resolve(&path, module, &texts, &names)
                    && target != *module
                {
                    names.insert((module.clone(), name), target);
                }
            }
        }
    }
    let arrows = texts.iter().map(|(module, text)| {
        let used = imports(text, "use ").into_iter().map(|(path, _)| path).chain(paths(text));
        let used = used.filter_map(|path| resolve(&path, module, &texts, &names));
        (module.clone(), used.filter(|target| !is_family(target, module)).collect())
    });
    arrows.collect()
}

/// Whether one of the modules is below the other.
fn is_family(a: &Module, b: &Module) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Groups of modules that use each other in a circle.
pub fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reachable = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut ahead = vec![from];
        while let Some(module) = ahead.pop() {
            for target in &graph[module] {
                if seen.insert(target) {
                    ahead.push(target);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reachable(module))).collect();
    let mut circles = BTreeSet::new();
    for (module, seen) in &all {
        let group: Vec<String> = seen
            .iter()
            .filter(|other| all[*other].contains(module))
            .map(|other| other.join("::"))
            .collect();
        if group.len() > 1 {
            circles.insert(group);
        }
    }
    circles.into_iter().collect()
}

/// The graph as lines of text: a module, then those that it uses.
pub fn drawn(graph: &Graph) -> String {
    let line = |(module, used): (&Module, &BTreeSet<Module>)| {
        let used: Vec<String> = used.iter().map(|target| target.join("::")).collect();
        format!("  {} -> {}\n", module.join("::"), used.join(" "))
    };
    graph.iter().filter(|(_, used)| !used.is_empty()).map(line).collect()
}

fn collect(folder: &Path, module: &mut Module, texts: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            module.push(stem);
            collect(&path, module, texts);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut own = module.clone();
            if !["lib", "main", "mod"].contains(&stem.as_str()) {
                own.push(stem);
            }
            texts.insert(own, product(&fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The text without comments and tests.
fn product(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_string();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// What the `use` items that begin so import: each path with the name that it gets.
fn imports(text: &str, begin: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let at_line_start = |at: &usize| text[..*at].trim_end_matches(' ').ends_with('\n') || *at == 0;
    for (at, _) in text.match_indices(begin).filter(|(at, _)| at_line_start(at)) {
        let item = text[at + begin.len()..].split(';').next().unwrap_or_default();
        expand(&item.split_whitespace().collect::<Vec<_>>().join(" "), &[], &mut found);
    }
    found
}

/// Takes `a::{b, c::d as e}` apart.
fn expand(tree: &str, prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
    if let Some((head, rest)) = tree.split_once('{') {
        let mut prefix = prefix.to_vec();
        prefix.extend(head.split("::").filter(|part| !part.is_empty()).map(str::to_string));
        let inner = rest.strip_suffix('}').unwrap_or(rest);
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in inner.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(inner[start..at].trim(), &prefix, found);
                    start = at + 1;
                }
                _ => (),
            }
        }
        return expand(inner[start..].trim(), &prefix, found);
    }
    let (path, name) = tree.split_once(" as ").map_or((tree, None), |(p, n)| (p, Some(n)));
    let mut whole = prefix.to_vec();
    whole.extend(path.split("::").filter(|part| !part.is_empty()).map(str::to_string));
    if whole.last().is_some_and(|last| last == "self") {
        whole.pop();
    }
    if let Some(last) = whole.last().cloned() {
        found.push((whole, name.map_or(last, str::to_string)));
    }
}

/// Paths of this crate that are written out where they are used.
fn paths(text: &str) -> Vec<Vec<String>> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = text.split(|letter| !is_part(letter));
    let own = words.filter(|word| {
        let is_own = word.starts_with("crate::") || word.starts_with("super::");
        // A group in braces follows: an import, which is read elsewhere.
        is_own && !word.ends_with("::")
    });
    own.map(|word| word.split("::").map(str::to_string).collect()).collect()
}

/// The module that a path leads to, as seen from `module`.
fn resolve(
    path: &[String],
    module: &Module,
    texts: &BTreeMap<Module, String>,
    names: &BTreeMap<(Module, String), Module>,
) -> Option<Module> {
    let mut rest = path;
    let mut at = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.clone(),
        child => {
            let below = [module.as_slice(), &[child.to_string()]].concat();
            return texts.contains_key(&below).then(|| {
                let own = [&["self".to_string()], path].concat();
                resolve(&own, module, texts, names)
            })?;
        }
    };
    while let Some((first, after)) = rest.split_first() {
        if !["crate", "self", "super"].contains(&first.as_str()) {
            break;
        }
        if first == "super" {
            at.pop()?;
        }
        rest = after;
    }
    for part in rest {
        let below = [at.as_slice(), std::slice::from_ref(part)].concat();
        if texts.contains_key(&below) {
            at = below;
        } else {
            return Some(names.get(&(at.clone(), part.clone())).cloned().unwrap_or(at));
        }
    }
    Some(at)
}

#[test]
fn a_circle_behind_a_re_export_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{\n    B, C as D,\n};\n");
    write("a.rs", "use crate::D;\npub struct A;\n// use crate::B;\n");
    write("b.rs", "use std::fs;\nfn f() { super::A }\n");
    let graph = graph(folder.path());
    assert_eq!(drawn(&graph), "  a -> b\n  b -> a\n");
    assert_eq!(circles(&graph), [["a", "b"]]);
    write("b.rs", "use std::fs;\n");
    assert_eq!(circles(&self::graph(folder.path())), Vec::<Vec<String>>::new());
}
