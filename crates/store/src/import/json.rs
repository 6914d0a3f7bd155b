//! JSON of other tools: parsed whole, with errors that name the position and the remedy.

use anyhow::{Result, anyhow};
use serde_json::Value;

/// Parses the document in a text. Messages before it, as fio prints them, are skipped.
pub fn document(text: &str) -> Result<Value> {
    let start = start(text).ok_or_else(|| anyhow!("line 1: expected JSON that begins with {{"))?;
    let skipped = text[..start].matches('\n').count();
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let expected = "expected JSON; is the file truncated?";
    match values.next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(e)) => {
            // Its message ends with a position that does not count the skipped lines.
            let words = e.to_string();
            let words = words.split(" at line ").next().unwrap_or_default();
            Err(anyhow!("line {}, column {}: {words}; {expected}", e.line() + skipped, e.column()))
        }
        None => Err(anyhow!("line {}: no value; {expected}", skipped + 1)),
    }
}

/// Whether a document seems to have these keys, without parsing it.
pub fn looks_like(text: &str, keys: &[&str]) -> bool {
    let Some(start) = start(text) else { return false };
    let text = &text[start..];
    keys.iter().all(|key| {
        let quoted = format!("\"{key}\"");
        text.match_indices(&quoted)
            .any(|(at, _)| text[at + quoted.len()..].trim_start().starts_with(':'))
    })
}

/// The offset of the first line that begins an object.
fn start(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// A finite number of an object.
pub fn number(object: &Value, key: &str) -> Option<f64> {
    object.get(key)?.as_f64().filter(|value| value.is_finite())
}

/// A text of an object.
pub fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

/// How many numbers a value has.
pub fn numbers(value: &Value) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Array(parts) => parts.iter().map(numbers).sum(),
        Value::Object(parts) => parts.values().map(numbers).sum(),
        _ => 0,
    }
}
