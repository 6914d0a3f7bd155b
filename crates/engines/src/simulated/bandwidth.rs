//! The bandwidth of links between nodes and of the nodes' memories, where it is limited: each
//! serves one line at a time.
//!
//!     request ──> the line is free ──> memory ──> link ── flight ──> arrives
//!
//! A line that no CPU has keeps the memory of its node busy for some time, and a line that comes
//! from another node the link from there. Both times are part of the flight, so without a queue
//! they add nothing to it. Requests are served in their order, except that a gap left free by an
//! earlier request, which still waits for its line, goes to the first later one that fits.

use super::Time;

/// The way of a line from node to node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The node that has the line.
    pub from: usize,
    /// The node that gets the line.
    pub to: usize,
    /// Whether the line comes from the memory of that node, because no CPU has it.
    pub is_memory: bool,
}

/// All links and memories of a host.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    /// How long a line keeps a link busy.
    link: Time,
    /// How long a line keeps a memory busy.
    memory: Time,
    nodes: usize,
    /// From each node to each other one, by source and then destination.
    links: Vec<Server>,
    memories: Vec<Server>,
    /// No request comes for an earlier time any more.
    now: Time,
}

impl Bandwidth {
    /// The links and memories of `nodes` nodes; `None` where all are infinitely fast.
    pub fn new(nodes: usize, link: Time, memory: Time) -> Option<Bandwidth> {
        (link > 0 || memory > 0).then(|| Bandwidth {
            link,
            memory,
            nodes,
            links: vec![Server::default(); nodes * nodes],
            memories: vec![Server::default(); nodes],
            now: 0,
        })
    }

    /// Notes that no request comes for an earlier time any more.
    pub fn passed(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// When a line leaves that is ready to at `ready`.
    pub fn departure(&mut self, route: Route, ready: Time) -> Time {
        let mut leaves = ready;
        if route.is_memory {
            leaves = self.memories[route.from].serve(leaves, self.memory, self.now);
        }
        if route.from != route.to {
            let link = &mut self.links[route.from * self.nodes + route.to];
            leaves = link.serve(leaves, self.link, self.now);
        }
        leaves
    }
}

/// A link or memory, which serves one line at a time.
#[derive(Clone, Debug, Default)]
struct Server {
    /// When it is busy: from, to. In order, with a gap between any two.
    busy: Vec<(Time, Time)>,
}

impl Server {
    /// Occupies the server for `time`, as early as it is free for that long from `ready` on.
    /// Returns the start.
    fn serve(&mut self, ready: Time, time: Time, now: Time) -> Time {
        if time == 0 {
            return ready;
        }
        let over = self.busy.partition_point(|&(_, to)| to <= now);
        self.busy.drain(..over);
        let mut start = ready;
        let mut index = self.busy.partition_point(|&(_, to)| to < ready);
        while let Some(&(from, to)) = self.busy.get(index) {
            if start + time <= from {
                break;
            }
            start = start.max(to);
            index += 1;
        }
        self.occupy(index, start, start + time);
        start
    }

    /// Adds a busy interval just before the one at `index`, and joins it with its neighbours.
    fn occupy(&mut self, index: usize, from: Time, to: Time) {
        let meets_next = self.busy.get(index).is_some_and(|next| next.0 == to);
        let meets_previous = index > 0 && self.busy[index - 1].1 == from;
        match (meets_previous, meets_next) {
            (true, true) => self.busy[index - 1].1 = self.busy.remove(index).1,
            (true, false) => self.busy[index - 1].1 = to,
            (false, true) => self.busy[index].0 = from,
            (false, false) => self.busy.insert(index, (from, to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_served_in_the_first_gap_that_is_long_enough() {
        let mut server = Server::default();
        // When the line is ready, when it is served; each takes 10.
        for (ready, expected) in [
            (100, 100),
            (100, 110),
            (150, 150),
            (95, 120),
            (95, 130),
            (95, 140),
            (50, 50),
            (62, 62),
        ] {
            assert_eq!(server.serve(ready, 10, 0), expected, "{ready} {:?}", server.busy);
        }
        assert_eq!(server.busy, [(50, 60), (62, 72), (100, 160)]);
        // Past intervals are forgotten.
        assert_eq!(server.serve(72, 10, 72), 72);
        assert_eq!(server.busy, [(72, 82), (100, 160)]);
        // The gap from 82 to 100 is too short.
        assert_eq!(server.serve(82, 20, 82), 160);
    }

    #[test]
    fn a_line_of_another_nodes_memory_waits_for_both() {
        let mut bandwidth = Bandwidth::new(2, 10, 4).unwrap();
        let own = Route { from: 0, to: 0, is_memory: true };
        let other = Route { to: 1, ..own };
        let cached = Route { is_memory: false, ..other };
        let leaves: Vec<Time> =
            [own, other, other, cached, own].map(|route| bandwidth.departure(route, 0)).to_vec();
        assert_eq!(leaves, [0, 4, 14, 24, 12]);
        assert_eq!(bandwidth.departure(Route { from: 1, to: 0, is_memory: false }, 0), 0);
        assert!(Bandwidth::new(2, 0, 0).is_none());
    }
}
