//! Windows of time: what lasts is divided among them.

/// The windows of a trace.
pub struct Windows {
    edges_ns: Vec<u64>,
}

impl Windows {
    /// Windows between each two of these instants.
    pub fn new(edges_ns: &[u64]) -> Windows {
        Windows { edges_ns: edges_ns.to_vec() }
    }

    /// A time of 0 in each window.
    pub fn zeros(&self) -> Vec<u64> {
        vec![0; self.edges_ns.len().saturating_sub(1)]
    }

    /// The length of each window.
    pub fn lengths(&self) -> Vec<u64> {
        self.edges_ns.windows(2).map(|edges| edges[1] - edges[0]).collect()
    }

    /// Adds a time to the windows that it lies in.
    pub fn add(&self, ns: &mut [u64], from: u64, to: u64) {
        let first = self.edges_ns.partition_point(|edge| *edge <= from).saturating_sub(1);
        for (window, edges) in self.edges_ns.windows(2).enumerate().skip(first) {
            let (from, to) = (from.max(edges[0]), to.min(edges[1]));
            if from >= to {
                break;
            }
            ns[window] += to - from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_divided_among_its_windows() {
        let windows = Windows::new(&[10, 20, 30, 40]);
        let check = |from, to, expected: [u64; 3]| {
            let mut ns = windows.zeros();
            windows.add(&mut ns, from, to);
            assert_eq!(ns, expected, "{from} to {to}");
        };
        check(12, 15, [3, 0, 0]);
        check(5, 35, [10, 10, 5]);
        check(20, 30, [0, 10, 0]);
        check(40, 50, [0, 0, 0]);
    }
}
