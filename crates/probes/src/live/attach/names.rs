//! What the frames of walked stacks are called.

use std::collections::HashMap;

use perf_data::Symbols;
use records::live::{Trace, TracedFunction, TracedStack};

use super::WalkedStack;
use crate::live::cpython::joined;
use crate::live::function_names::NamedStacks;

/// Names the frames of stacks, each function once.
pub fn name_stacks(
    trace: &mut Trace,
    walked: &[WalkedStack],
    symbols: Option<&Symbols>,
    names: &NamedStacks,
    python: &[TracedFunction],
) {
    let mut known: HashMap<TracedFunction, u32> = HashMap::new();
    let mut functions = Vec::new();
    let mut index = |function: TracedFunction| {
        *known.entry(function.clone()).or_insert_with(|| {
            functions.push(function);
            functions.len() as u32 - 1
        })
    };
    for stack in walked {
        let of_kernel = stack.kernel.iter().filter_map(|address| symbols?.function(*address));
        let mut frames: Vec<u32> = of_kernel
            .map(|(name, _)| {
                let (name, object) = (name.to_string(), String::new());
                index(TracedFunction { name, object, is_named: true })
            })
            .collect();
        let kernel = frames.len() as u32;
        let of_program = names.of(&stack.user);
        let of_program = joined(of_program, stack.is_whole, &stack.python, python);
        frames.extend(of_program.into_iter().map(&mut index));
        trace.stacks.push(TracedStack {
            at_ns: stack.at_ns,
            task: stack.task,
            why: stack.why,
            frames,
            kernel,
            call: stack.call.clone(),
            user_offset: stack.user.first().map_or(0, |(_, offset)| *offset),
            is_whole: stack.is_whole,
            touches: stack.touches.clone(),
        });
    }
    trace.functions = functions;
}
