//! What `--json` prints has the shape that `knee schema` says: of the verbs that print without measuring, and of one
//! example of each answer in crates/answers/tests/golden. UPDATE_EXPECT=1 writes the schemas there anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use serde_json::{Map, Value};

use crate::home::Home;
use crate::terminal::home_with_a_record;

/// Commands with an answer that is repeatable, by the name of the answer.
const PRINTED: &[(&str, &str)] = &[
    ("check", "check ticket --threads 2 --json"),
    ("check-mutants", "check test_and_set --mutants --json"),
    ("check-orderings", "check test_and_set --orderings --json"),
    ("compare", "compare compared --json"),
    ("show-algorithm", "show queued --json"),
    ("show-command", "show command:fio --json"),
    ("show-experiment", "show first-look --json"),
    ("show-host", "show icelake-2s --json"),
    ("show-metric", "show operations_per_s --json"),
    ("show-workload", "show getppid --json"),
    ("doctor", "doctor --json"),
    ("explain", "explain explained --json"),
    ("record-export", "record export --format json"),
    ("record-prune", "record prune --keep 1 --json"),
    ("list", "list --json"),
    ("list-algorithms", "list algorithms --json"),
    ("list-commands", "list commands --json"),
    ("list-experiments", "list experiments --json"),
    ("list-hosts", "list hosts --json"),
    ("list-metrics", "list metrics --json"),
    ("list-workloads", "list workloads --json"),
    ("simulate-replay-list", "simulate replay --json"),
    ("run", "run getppid --cpus 1 --blocks 1 --seconds 0.02 --json"),
    ("run-plan", "run first-look --plan --json"),
    ("show", "show --json"),
    (
        "simulate",
        "simulate ticket mcs --baseline ticket --cpus 1,2 --draws 2 --length 100us --json",
    ),
];

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../answers/tests/golden")
}

/// The names that `knee schema` lists.
fn names(home: &Home) -> Vec<String> {
    home.run("schema").stdout.lines().map(str::to_string).collect()
}

fn schema(home: &Home, name: &str) -> Value {
    serde_json::from_str(&home.run(&format!("schema {name}")).stdout).unwrap()
}

/// How a value departs from a schema, a line each. `at` is the place of the value.
fn deviations(value: &Value, schema: &Value, root: &Value, at: &str) -> Vec<String> {
    let mut found = by_parts(value, schema, root, at);
    if let Value::Object(fields) = value {
        let unknown = fields.keys().filter(|name| !has_property(name, schema, root));
        found.extend(unknown.map(|name| format!("{at}: {name} is not in the schema")));
    }
    found
}

/// Deviations, without looking for fields that the schema lacks: another part of it may have them.
fn by_parts(value: &Value, schema: &Value, root: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(target) = target(schema, root) {
        found.extend(by_parts(value, target, root, at));
    }
    for part in parts(schema, "allOf") {
        found.extend(by_parts(value, part, root, at));
    }
    for choice in ["anyOf", "oneOf"] {
        let options = parts(schema, choice).map(|part| by_parts(value, part, root, at));
        let fewest = options.min_by_key(Vec::len);
        found.extend(fewest.into_iter().flatten());
    }
    if !has_type(value, schema) {
        found.push(format!("{at}: {value} is not of type {}", schema["type"]));
    }
    let allowed = schema.get("const").map(std::slice::from_ref);
    let allowed = allowed.or_else(|| schema.get("enum")?.as_array().map(Vec::as_slice));
    if allowed.is_some_and(|allowed| !allowed.contains(value)) {
        found.push(format!("{at}: {value} is none of {allowed:?}"));
    }
    match value {
        Value::Object(fields) => found.extend(of_fields(fields, schema, root, at)),
        Value::Array(items) => {
            let of_item = |(index, item): (usize, &Value)| {
                let own = schema["prefixItems"].get(index).or_else(|| schema.get("items"));
                own.map_or(Vec::new(), |own| deviations(item, own, root, &format!("{at}[{index}]")))
            };
            found.extend(items.iter().enumerate().flat_map(of_item));
        }
        _ => (),
    }
    found
}

fn of_fields(fields: &Map<String, Value>, schema: &Value, root: &Value, at: &str) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten();
    let missing = required.filter(|name| !fields.contains_key(name.as_str().unwrap()));
    let mut found: Vec<String> = missing.map(|name| format!("{at}: {name} is missing")).collect();
    for (name, field) in fields {
        let own = schema["properties"].get(name);
        let more = schema.get("additionalProperties").filter(|_| own.is_none());
        if let Some(own) = own.or(more) {
            found.extend(deviations(field, own, root, &format!("{at}.{name}")));
        }
    }
    found
}

fn has_type(value: &Value, schema: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    match schema.get("type") {
        None => true,
        Some(Value::Array(several)) => several.iter().any(is),
        Some(one) => is(one),
    }
}

/// Whether a schema, or any part of it, describes a field of this name.
fn has_property(name: &str, schema: &Value, root: &Value) -> bool {
    let describes_all =
        schema == &Value::Bool(true) || schema.get("additionalProperties").is_some();
    let is_free =
        schema.as_object().is_some_and(|fields| fields.keys().all(|k| k == "description"));
    describes_all
        || is_free
        || schema["properties"].get(name).is_some()
        || target(schema, root).is_some_and(|target| has_property(name, target, root))
        || ["allOf", "anyOf", "oneOf"]
            .iter()
            .flat_map(|key| parts(schema, key))
            .any(|part| has_property(name, part, root))
}

fn parts<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// What a `$ref` names.
fn target<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    let name = schema.get("$ref")?.as_str()?;
    if name == "#" {
        return Some(root);
    }
    Some(&root["$defs"][name.strip_prefix("#/$defs/")?])
}

#[track_caller]
fn check(name: &str, text: &str, schema: &Value) {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for value in values {
        let value = value.unwrap_or_else(|why| panic!("{name}: {why}: {text}"));
        let found = deviations(&value, schema, schema, name);
        assert!(found.is_empty(), "{name} is not as its schema says:\n{}", found.join("\n"));
    }
}

#[test]
fn schemas_stay_as_they_are() {
    let home = Home::new();
    for name in names(&home) {
        let text = home.run(&format!("schema {name}")).stdout;
        expect_file![golden_folder().join(format!("{name}.schema.json"))].assert_eq(&text);
    }
}

#[test]
fn every_answer_has_an_example_that_fits_its_schema() {
    let home = Home::new();
    let names = names(&home);
    for name in &names {
        let path = golden_folder().join(format!("{name}.json"));
        let Ok(text) = fs::read_to_string(&path) else { panic!("{} is missing", path.display()) };
        check(name, &text, &schema(&home, name));
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/answers.md");
    let page = fs::read_to_string(page).unwrap();
    let unlisted = names.iter().find(|name| !page.contains(&format!("`{name}`")));
    assert_eq!(unlisted, None, "docs/formats/answers.md does not list it");
    let files = fs::read_dir(golden_folder()).unwrap().flatten();
    let files: BTreeSet<String> =
        files.map(|file| file.file_name().into_string().unwrap()).collect();
    let expected = names.iter().flat_map(|n| [format!("{n}.json"), format!("{n}.schema.json")]);
    assert_eq!(files, expected.collect());
}

#[test]
fn what_verbs_print_fits_its_schema() {
    let home = home_with_a_record();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/test/records");
    for (name, arguments) in PRINTED {
        let arguments = arguments
            .replace("compared", &web.join("20261124-121413-a12a52").display().to_string())
            .replace("explained", &web.join("20261124-122907-191496").display().to_string());
        let ended = home.run(&arguments);
        assert!(!ended.stdout.is_empty(), "knee {arguments}: {}", ended.stderr);
        check(name, &ended.stdout, &schema(&home, name));
    }
}

#[test]
fn every_field_is_described() {
    let home = Home::new();
    let mut missing = BTreeSet::new();
    for name in names(&home) {
        undescribed(&schema(&home, &name), &name, &mut missing);
    }
    let missing: Vec<String> = missing.into_iter().collect();
    assert!(missing.is_empty(), "fields without a description:\n{}", missing.join("\n"));
}

/// The fields of a schema that no doc comment describes, by the type that has them.
fn undescribed(schema: &Value, of: &str, missing: &mut BTreeSet<String>) {
    let Value::Object(keys) = schema else { return };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        // A tag says which variant of an enum it is, and a variant of one value is described as such.
        let is_variant = schema.get("description").is_some()
            && schema["properties"].as_object().is_some_and(|fields| fields.len() == 1);
        if field.get("description").is_none() && field.get("const").is_none() && !is_variant {
            missing.insert(format!("{of}.{name}"));
        }
        undescribed(field, of, missing);
    }
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        undescribed(part, name, missing);
    }
    for (key, part) in keys {
        match part {
            Value::Array(parts) => parts.iter().for_each(|part| undescribed(part, of, missing)),
            part if key == "items" || key == "additionalProperties" => {
                undescribed(part, of, missing);
            }
            _ => (),
        }
    }
}
