//! What the words of a line of kernels mean: workloads with values of parameters, and the images in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use records::{Form, NativeJob};
use workloads::{Family, Forms, ParameterKind, TaskForm, WORKLOADS, Workload};

/// The word for all workloads that the kernel has a part in.
const ALL: &str = "all";

/// Workloads that are counted in several settings where all are asked for, and those settings.
const SETTINGS: [(&str, &str); 1] = [("page_fault_anonymous", "never")];

/// The workload whose calls and objects are each a setting.
const PATH_CALL: &str = "path_call";

/// A workload as the line names it.
#[derive(Clone, Debug)]
pub struct CountedLoad {
    pub word: String,
    pub job: NativeJob,
    pub form: Form,
}

/// The workloads of these words, `all` replaced by what it stands for.
pub fn expand(words: &[String]) -> Result<Vec<String>> {
    let mut expanded: Vec<String> = Vec::new();
    let words = if words.is_empty() { vec![ALL.to_string()] } else { words.to_vec() };
    for word in words {
        let these = if word == ALL { every()? } else { vec![word] };
        let new: Vec<String> = these.into_iter().filter(|word| !expanded.contains(word)).collect();
        expanded.extend(new);
    }
    Ok(expanded)
}

/// Each workload whose operation is the kernel's, and each call of `path_call` on each kind of object.
fn every() -> Result<Vec<String>> {
    let mut words = Vec::new();
    let is_of_kernel = |workload: &&Workload| {
        !matches!(workload.spec.family, Family::UserLocks | Family::UserMechanisms)
    };
    for workload in WORKLOADS.iter().filter(is_of_kernel) {
        let name = workload.name;
        if name == PATH_CALL {
            for call in choices(workload, "call")? {
                let objects = choices(workload, "object")?.iter();
                words.extend(objects.map(|object| format!("{name}:{call}:{object}")));
            }
        } else if let Some((_, value)) = SETTINGS.iter().find(|(known, _)| *known == name) {
            words.push(format!("{name}:{value}"));
        } else {
            words.push(name.to_string());
        }
    }
    Ok(words)
}

fn choices(workload: &Workload, name: &str) -> Result<&'static [&'static str]> {
    let parameter = workload.parameters().find(|parameter| parameter.name == name);
    match parameter.map(|parameter| parameter.kind) {
        Some(ParameterKind::Choice(choices)) => Ok(choices),
        _ => bail!("internal error: {} has no choice of {name}", workload.name),
    }
}

/// The workloads that these words name.
pub fn loads(words: &[String]) -> Result<Vec<CountedLoad>> {
    words.iter().map(|word| load(word)).collect()
}

/// Parses NAME, NAME:VALUE or NAME:PARAMETER=VALUE.
fn load(word: &str) -> Result<CountedLoad> {
    let mut parts = word.split(':');
    let workload = plan::workload(parts.next().unwrap_or_default())?;
    let mut given = BTreeMap::new();
    for part in parts {
        let (name, value) = match part.split_once('=') {
            Some(pair) => pair,
            None => (parameter_with(workload, part)?, part),
        };
        given.insert(name.to_string(), value.to_string());
    }
    let values = workloads::Values::new(workload, &given).map_err(anyhow::Error::msg)?;
    let job = NativeJob {
        name: workload.name.to_string(),
        semantics: workload.spec.semantics,
        parameters: values.as_map().clone(),
    };
    let form = match workload.spec.forms {
        Forms::Only(TaskForm::Threads, _) => Form::Threads,
        _ => Form::Processes,
    };
    Ok(CountedLoad { word: word.to_string(), job, form })
}

/// The one parameter of a workload that has this choice.
fn parameter_with(workload: &Workload, value: &str) -> Result<&'static str> {
    let has = |kind: ParameterKind| match kind {
        ParameterKind::Choice(choices) => choices.contains(&value),
        _ => false,
    };
    let names: Vec<&str> = workload
        .parameters()
        .filter(|parameter| has(parameter.kind))
        .map(|parameter| parameter.name)
        .collect();
    match names[..] {
        [name] => Ok(name),
        [] => bail!("{}: no parameter can be '{value}': write PARAMETER=VALUE", workload.name),
        _ => bail!(
            "{}: {} can be '{value}': write PARAMETER={value}",
            workload.name,
            names.join(" and ")
        ),
    }
}

/// Folders below the one that was named, in which images are looked for: those of unpacked packages have
/// usr/lib/modules/RELEASE/vmlinuz.
const DEPTH: usize = 6;

/// The kernel images in a folder and below, with their names.
pub fn images(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut images = Vec::new();
    collect(folder, DEPTH, &mut images)?;
    images.sort();
    Ok(images.into_iter().map(|path| (name_of(&path), path)).collect())
}

fn collect(folder: &Path, depth: usize, images: &mut Vec<PathBuf>) -> Result<()> {
    let reading = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let kind = entry.file_type().with_context(reading)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, images)?;
        } else if kind.is_file() && (name.starts_with("vmlinuz") || name == "bzImage") {
            images.push(entry.path());
        }
    }
    Ok(())
}

/// The version in the name of an image, or of its folder: 6.1.0-57 of vmlinuz-6.1.0-57-cloud-amd64.
fn name_of(image: &Path) -> String {
    let text = |path: Option<&Path>| {
        path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
    };
    let file = text(Some(image));
    let release = file.strip_prefix("vmlinuz-").map(str::to_string);
    let release = release.unwrap_or_else(|| text(image.parent()));
    let parts = release.split('-');
    let version: Vec<&str> = parts
        .take_while(|part| part.starts_with(|c: char| c.is_ascii_digit()) || part.starts_with("rc"))
        .collect();
    if version.is_empty() { release } else { version.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_by_their_versions() {
        let check = |path: &str, name: &str| assert_eq!(name_of(Path::new(path)), name);
        check("k/boot/vmlinuz-6.1.0-57-cloud-amd64", "6.1.0-57");
        check("k/boot/vmlinuz-6.12.43+deb12-cloud-amd64", "6.12.43+deb12");
        check("k/usr/lib/modules/7.3.4+deb13-cloud-amd64/vmlinuz", "7.3.4+deb13");
        check("k/vmlinuz-6.19.0-rc3-dirty", "6.19.0-rc3");
        check("mine/bzImage", "mine");
    }

    #[test]
    fn words_name_workloads_with_values() {
        let parameters = |word: &str| load(word).map(|load| load.job.parameters);
        let open = parameters("path_call:open:file").unwrap();
        assert_eq!((open["call"].as_str(), open["object"].as_str()), ("open", "file"));
        assert_eq!(parameters("path_call:call=stat").unwrap()["call"], "stat");
        assert!(parameters("path_call:nothing").is_err());
        assert!(parameters("no_workload").is_err());
        let all = expand(&[ALL.to_string(), "stat".to_string()]).unwrap();
        assert!(all.len() >= 80, "{}", all.len());
        assert_eq!(loads(&all).unwrap().len(), all.len());
    }
}
