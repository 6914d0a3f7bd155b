//! What the frames of walked stacks are called.

use std::collections::HashMap;

use records::live::{StackTaken, Trace, TracedFunction, TracedStack};

use super::WalkedStack;
use crate::live::cpython::joined;
use crate::live::function_names::NamedStacks;

pub fn name_stacks(
    trace: &mut Trace,
    walked: &[WalkedStack],
    names: &NamedStacks,
    python: &[TracedFunction],
) {
    let mut known: HashMap<TracedFunction, u32> = HashMap::new();
    for stack in walked {
        let kernel = (!stack.kernel.is_empty()).then(|| TracedFunction {
            name: stack.kernel.clone(),
            object: String::new(),
            is_named: true,
        });
        let kernel_frames = u32::from(kernel.is_some());
        let functions = names.of(&stack.frames);
        let functions = joined(functions, stack.is_whole, &stack.python, python);
        let frames = kernel.into_iter().chain(functions).map(|function| {
            let next = known.len() as u32;
            *known.entry(function.clone()).or_insert_with(|| {
                trace.functions.push(function);
                next
            })
        });
        let frames = frames.collect();
        trace.stacks.push(TracedStack {
            task: stack.task,
            at_ns: stack.sampled_ns.unwrap_or(0),
            why: if stack.sampled_ns.is_some() { StackTaken::Sampled } else { StackTaken::Waits },
            frames,
            kernel: kernel_frames,
            user_offset: stack.frames.first().map_or(0, |(_, offset)| *offset),
            is_whole: stack.is_whole,
            touches: stack.touches.clone(),
            ..TracedStack::default()
        });
    }
}
