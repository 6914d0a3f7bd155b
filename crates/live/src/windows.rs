//! Windows of time: what lasts is divided among them.

use records::live::Trace;

/// The windows of a trace: from each edge to the next, but for gaps.
pub struct Windows(Vec<(u64, u64)>);

impl Windows {
    pub fn of(trace: &Trace) -> Windows {
        let between = trace.edges_ns.windows(2).map(|edges| (edges[0], edges[1]));
        Windows(between.filter(|window| !trace.gaps_ns.contains(window)).collect())
    }

    /// A time of 0 in each window.
    pub fn zeros(&self) -> Vec<u64> {
        vec![0; self.0.len()]
    }

    /// The length of each window.
    pub fn lengths(&self) -> Vec<u64> {
        self.0.iter().map(|(begin, end)| end - begin).collect()
    }

    /// Counts an event in the window that it lies in.
    pub fn count(&self, times: &mut [u64], at: u64) {
        let window = self.0.partition_point(|(_, end)| *end <= at);
        if self.0.get(window).is_some_and(|(begin, _)| *begin <= at) {
            times[window] += 1;
        }
    }

    /// Adds a time to the windows that it lies in.
    pub fn add(&self, ns: &mut [u64], from: u64, to: u64) {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        for (window, (begin, end)) in self.0.iter().enumerate().skip(first) {
            let (from, to) = (from.max(*begin), to.min(*end));
            if *begin >= to {
                break;
            }
            ns[window] += to.saturating_sub(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_divided_among_its_windows() {
        let gap = Trace {
            edges_ns: vec![10, 20, 25, 30, 40],
            gaps_ns: vec![(20, 25)],
            ..Trace::default()
        };
        let windows = Windows::of(&gap);
        assert_eq!(windows.lengths(), [10, 5, 10]);
        let check = |from, to, expected: [u64; 3]| {
            let mut ns = windows.zeros();
            windows.add(&mut ns, from, to);
            assert_eq!(ns, expected, "{from} to {to}");
        };
        check(12, 15, [3, 0, 0]);
        check(5, 35, [10, 5, 5]);
        check(20, 30, [0, 5, 0]);
        check(21, 24, [0, 0, 0]);
        check(40, 50, [0, 0, 0]);
        let mut times = windows.zeros();
        [9, 10, 19, 20, 24, 25, 39, 40].iter().for_each(|at| windows.count(&mut times, *at));
        assert_eq!(times, [2, 1, 1]);
    }
}
