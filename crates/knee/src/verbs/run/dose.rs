//! Doses of time: `--dose inside=0,200ns,600ns` makes points of a plan.

use anyhow::{Context, Result, bail, ensure};
use records::{Load, Many, Scalar, parse};
use workloads::{DELAYED_LOCKS, DelayedLock};

/// Times to add at one place of an operation.
#[derive(Clone, Debug)]
pub struct Dose {
    place: DosedPlace,
    times_ns: Vec<u64>,
}

/// The place of an operation to which time is added.
#[derive(Clone, Copy, Debug)]
enum DosedPlace {
    /// While the lock is held.
    Inside,
    /// Between two operations.
    Outside,
    /// While a kernel lock of one kind is held.
    Kernel(&'static DelayedLock),
}

impl DosedPlace {
    fn name(self) -> &'static str {
        match self {
            DosedPlace::Inside => "inside",
            DosedPlace::Outside => "outside",
            DosedPlace::Kernel(lock) => lock.kind,
        }
    }

    /// The parameter that has the time.
    fn parameter(self) -> &'static str {
        match self {
            DosedPlace::Inside => "hold_ns",
            DosedPlace::Outside => "idle_ns",
            DosedPlace::Kernel(lock) => lock.parameter.name,
        }
    }
}

/// `inside=0,200ns,600ns`.
pub fn parse(text: &str) -> Result<Dose> {
    let (place, times) = text.split_once('=').context("must be inside=TIMES or outside=TIMES")?;
    let kernel = DELAYED_LOCKS.iter().find(|lock| lock.kind == place);
    let place = match (place, kernel) {
        ("inside", _) => DosedPlace::Inside,
        ("outside", _) => DosedPlace::Outside,
        (_, Some(lock)) => DosedPlace::Kernel(lock),
        (other, None) => bail!(
            "'{other}' is no place for a dose: it must be inside or outside, or a kind of kernel lock \
             (mutex, rwsem, spinlock)"
        ),
    };
    let time = |word: &str| if word == "0" { Ok(0) } else { parse::time_ns(word) };
    let mut times_ns = times.split(',').map(time).collect::<Result<Vec<u64>>>()?;
    times_ns.sort_unstable();
    times_ns.dedup();
    ensure!(
        times_ns.len() >= laws::DOSES_MIN && times_ns[0] == 0,
        "name 0 and two other times at least: their differences say what time costs"
    );
    Ok(Dose { place, times_ns })
}

impl Dose {
    /// Makes the doses an axis of a load.
    pub fn add_to(&self, load: &mut Load) -> Result<()> {
        let (place, name) = (self.place.name(), self.place.parameter());
        let workload = plan::workload(&load.name())
            .with_context(|| format!("--dose {place}: only workloads of knee take doses"))?;
        let parameter = workload.parameters().find(|parameter| parameter.name == name);
        let default = match (self.place, parameter) {
            (DosedPlace::Kernel(_), _) => "0",
            (_, Some(parameter)) => parameter.default,
            (_, None) => bail!(
                "--dose {place}: {} has no parameter {name}; lock_* and file locks do, and kernel locks take \
                 --dose mutex, rwsem or spinlock",
                workload.name
            ),
        };
        let base = match load.parameters.get(name).map(|many| &many.0[..]) {
            None => default,
            Some([one]) => &one.0,
            Some(_) => bail!("--dose {place}: {name} has several values already; name one"),
        };
        // What varies, varies around the mean with the dose.
        let (mean, varies) = base.find('~').map_or((base, ""), |at| base.split_at(at));
        let mean = host::whole_ns(mean).or_else(|| mean.parse().ok());
        let mean = mean.with_context(|| format!("{name}={base} is no number of ns"))?;
        let values = self.times_ns.iter().map(|time| Scalar(format!("{}{varies}", mean + time)));
        load.parameters.insert(name.to_string(), Many(values.collect()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doses_are_added_to_what_is_there() {
        let mut load = Load::new("lock_mcs".to_string());
        load.parameters.insert("hold_ns".to_string(), Many(vec![Scalar("300ns".to_string())]));
        parse("inside=0,2us,200ns").unwrap().add_to(&mut load).unwrap();
        let values: Vec<&str> =
            load.parameters["hold_ns"].0.iter().map(|one| one.0.as_str()).collect();
        assert_eq!(values, ["300", "500", "2300"]);
        let why = parse("inside=0,1us,2us").unwrap().add_to(&mut load).unwrap_err();
        assert_eq!(why.to_string(), "--dose inside: hold_ns has several values already; name one");
        let mut other = Load::new("getppid".to_string());
        let why = parse("inside=0,1us,2us").unwrap().add_to(&mut other).unwrap_err();
        assert!(why.to_string().contains("getppid has no parameter hold_ns"), "{why}");
        for text in
            ["inside", "within=0,1us,2us", "inside=1us,2us,3us", "inside=0,1us", "inside=0,1,2"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
