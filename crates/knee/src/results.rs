//! What was found in a record, in one sentence, so that records in a list do not look alike.

use anyhow::Result;
use pages::{comparison, record};
use reports::{Detail, shown_metrics};
use store::Listed;

use crate::verbs::compare;

/// To read the runs of a record with more of them takes longer than a list may.
const RUNS_MAX: u32 = 10_000;

/// Letters of a sentence in a list.
const LENGTH_MAX: usize = 160;

/// What was found in a finished record; empty if it cannot be told, or not soon.
pub fn result(listed: &Listed) -> String {
    if listed.runs > RUNS_MAX || !["whole", "partial"].contains(&listed.state.as_str()) {
        return String::new();
    }
    let said = first_answer(listed).unwrap_or_default();
    match said.char_indices().nth(LENGTH_MAX) {
        None => said,
        Some((end, _)) => format!("{} …", said[..end].trim_end()),
    }
}

fn first_answer(listed: &Listed) -> Result<String> {
    let opened = store::open(&listed.folder)?;
    let page = if opened.record.variants.len() > 1 {
        comparison(&compare::of_record(&opened)?, &[&opened], "")
    } else {
        let metrics = shown_metrics(&opened).shown;
        record(&opened, &Detail { metrics, ..Detail::default() }, "")
    };
    Ok(page.answers.into_iter().next().unwrap_or_default())
}
