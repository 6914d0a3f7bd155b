//! How to read the tables, for those who see one for the first time.

/// Verdicts of a comparison.
pub const VERDICTS: &[&str] = &[
    "Each row compares one variant with the baseline at one place: a workload on a number of CPUs.",
    "The change is the estimate, in brackets its interval: if the experiment were repeated many times, that \
     share of such intervals would hold the true change.",
    "“>= 2 %” means that the whole interval lies beyond the smallest change that matters. “same” means that \
     the change is shown to be smaller than that. “cannot tell” means that neither is shown; the notes say \
     how many more runs would decide.",
    "n counts what was compared, such as blocks with one run of each variant: not operations, not samples.",
    "In the drawing, the dot is the estimate, the bar its interval, the line no change, and the shaded zone \
     what counts as the same.",
];

/// Metrics beside the one that decides.
pub const ALSO: &[&str] = &[
    "Nobody decided beforehand to look at these metrics, so they are hints, not findings.",
    "adj. p is the probability of such a difference by chance, adjusted for the number of metrics that were \
     tested.",
];

/// Rates of a record.
pub const RATES: &[&str] = &[
    "Each row is a number of CPUs; n runs were made there, each with fresh tasks.",
    "stddev is the standard deviation of the runs. “per CPU” compares the rate of one CPU with that in the \
     first row: 100% would be linear scaling.",
    "fairness is Jain's index over tasks: 1 means that all completed as many operations. idle is the share \
     of time in which the CPUs under measurement had nothing to do.",
];

/// One metric of a record.
pub const METRIC: &[&str] = &[
    "Each row is a number of CPUs; n runs were made there. The metric, stddev (the standard deviation), min, median \
     and max are over runs.",
];

/// Resource usage and counters of a record.
pub const TOTALS: &[&str] = &[
    "Each row is a metric, each column a number of CPUs. Values are means over runs; a standard deviation of at least \
     2 % of the mean stands behind it. “/op” is per operation.",
];

/// Durations of single operations.
pub const LATENCIES: &[&str] = &[
    "p50, p99 and p99.9 are the durations that 50 %, 99 % and 99.9 % of operations stay below; each is the \
     mean over runs. max is the slowest operation of all runs.",
];

/// Simulated rates beside measured ones.
pub const BESIDE: &[&str] = &[
    "Rates of a simulation depend on numbers of the host that were found or assumed: compare how both grow from \
     the first CPU count, not operations/s. In brackets, the lowest and highest rate of all draws of these numbers.",
    "The simulation has the times inside and outside of the lock, the parameters and the CPU counts of the measured \
     load, except for those that --simulate names: “Do it again” has all of them.",
];

/// Doses of time.
pub const DOSES: &[&str] = &[
    "Time was added to each operation, a dose at a time. How much the rate falls says how serial that time is: \
     100 % is time in which no other task gets on.",
    "A gain is what the rate would grow by if that time were taken away, in brackets where a measurement of it \
     will lie.",
];

/// Forecasts.
pub const FORECAST: &[&str] = &[
    "Each row is a number of CPUs, with the rate by the law that explains the curve best, and the interval that holds \
     it 9 of 10 times if one of the laws is right.",
];

/// Differences at changed loads.
pub const FRAGILE: &[&str] = &[
    "Each row is a small change of the load, with the difference between both sides under it, and the probability that \
     the verdict is another one there.",
];

/// Points of a plan.
pub const PLAN: &[&str] = &[
    "Each row is a point: every block runs it once, in random order. “earlier stddev” is the standard deviation of runs \
     in the newest record of this host that has the point.",
];

/// Ledgers.
pub const LEDGER: &[&str] = &[
    "A ledger divides CPUs × time among all operations. Rows add up to the row above them, to the \
     nanosecond.",
    "exact rows were timed or counted at each event; sampled rows were divided by where samples fell.",
    "“by count” is the part of a change that comes from events that happen more or less often, “by cost” the \
     part from events that cost more or less each. “power” is the exponent with which a row grows with the \
     number of CPUs: 0 is constant, 1 is proportional.",
];

/// Flame graphs.
pub const FLAME: &[&str] = &[
    "Each frame is a function; its width is the CPU time per operation in it and in all that it calls, as \
     sampled. Callers stand above what they call.",
    "Of two sides, widths and order are those of the second; a frame is orange where it takes more time than \
     on the first side, blue where it takes less. What only the first side has stands in the lane at the \
     right, on the same scale.",
    "± is what chance does to a number of samples, at 95 %: it knows nothing of differences from run to run.",
];

/// Rates of a simulation.
pub const SIMULATED: &[&str] = &[
    "Nothing here was measured: the algorithm's own code ran in virtual time on a described host.",
    "In brackets stand the lowest and highest values of draws over all numbers that are known only as a \
     range. Absolute rates are not predicted: compare algorithms by ratios and shapes.",
    "The model's error is the factor by which these intervals have to be widened to contain nine tenths of the ratios \
     that publications report of such comparisons. A direction is named only where the widened interval excludes 1.",
];

/// Targets of a replay.
pub const REPLAY: &[&str] = &[
    "reported is what the publication says, predicted what the simulation gives; in brackets the lowest and \
     highest of all draws.",
    "With the model's error, the interval is widened by what other publications say of such comparisons. The direction \
     is right or wrong only where that excludes 1; else knee cannot tell.",
    "The grade says how close the prediction comes; “open” marks what the model does not explain. USL and \
     queueing are what simple laws say of the same numbers.",
];

/// Inputs of a replay.
pub const INPUTS: &[&str] = &[
    "found: a publication says the number; measured: knee measured it; assumed: nobody knows it, so that each draw \
     takes a value of the range; fitted: chosen so that one of the reported figures comes out.",
    "“chosen late” marks a number that was chosen after results had been seen.",
];

/// Curves over something else than CPUs.
pub const VALUES: &[&str] = &[
    "Each point is a value; a band around a line, where there is one, shows how far it may be off.",
];

/// Curves over CPUs.
pub const CURVES: &[&str] = &[
    "Points are means of runs, and the band is their standard deviation. The dotted line is linear scaling.",
    "A vertical mark is a knee: the fewest CPUs with 90 % of the highest rate; the zone around it is its 90 % \
     interval. A cliff is a step down that no smooth law explains.",
];
