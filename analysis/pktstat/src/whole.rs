// SPDX-License-Identifier: GPL-2.0-or-later
//! All of a file: pieces are looked at by several threads, and joined in their order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use skblab_traffic::timing::tai_offset_ns;

use crate::columns::{Clocks, Cut, Layout};
use crate::density::Density;
use crate::digest::{Digester, Edge, Figures, Part, Wanted};
use crate::late::{Anomaly, Asked, Joined, Limit, Summary};
use crate::order::Order;
use crate::report::{FileReport, report};
use crate::source::{
    About, LACKS_SENT, LACKS_SEQUENCE, LARGE, Place, Refused, SMALL, Source, Stop, is_realtime,
};

/// Anomalies of one kind, as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// Packets in a row.
    pub least: u64,
    /// How late they are.
    pub late: Late,
}

/// A least latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Late {
    /// In nanoseconds.
    Ns(u64),
    /// So many times the median, which a first reading of the file finds.
    Medians(f64),
}

/// What is asked of a file.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it is; `None`: told from content or name.
    pub layout: Option<Layout>,
    /// What is an anomaly.
    pub kinds: Vec<Kind>,
    /// Where all anomalies are written to.
    pub list: Option<PathBuf>,
    /// Packets by their place.
    pub places: Range<u64>,
    /// Packets by when they came, nanoseconds after the first.
    pub after_ns: Range<i64>,
    /// Of one flow only.
    pub flow: Option<u16>,
    /// Also by flow.
    pub by_flow: bool,
    /// Sent and received are of one clock, whatever the file says.
    pub same_clock: bool,
    /// Bins over time, at most.
    pub most_bins: usize,
    /// How many threads look at pieces.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layout: None,
            kinds: Vec::new(),
            list: None,
            places: 0..u64::MAX,
            after_ns: i64::MIN..i64::MAX,
            flow: None,
            by_flow: false,
            same_clock: false,
            most_bins: 1000,
            threads: 1,
        }
    }
}

/// What comes of all pieces, in their order.
pub struct Whole<'a> {
    /// What was asked for.
    pub wanted: &'a Wanted,
    list: Option<BufWriter<File>>,
    joined: Vec<Joined>,
    /// Anomalies, by kind.
    pub summaries: Vec<Summary>,
    /// Loss and reordering.
    pub order: Order,
    /// Displacement.
    pub density: Density,
    /// Packets that count.
    pub packets: u64,
    /// The first of them.
    pub first: Option<Edge>,
    last: Option<Edge>,
    /// When the latest came.
    pub latest_ns: Option<i64>,
    /// Of what lies between pieces, and of all of them in the end.
    pub figures: Figures,
}

/// Lists of anomalies that may be made at once, each of a large piece.
const MOST_LISTS: usize = 16;
/// Each thread has all flows by itself.
const MOST_BY_FLOW: usize = 2;

const COLUMNS: &str = "least,late_ns,place,sequence,packets,first_ns,last_ns,duration_ns,min_ns,\
                       mean_ns,max_ns,open_begin,open_end";

impl<'a> Whole<'a> {
    fn new(wanted: &'a Wanted, list: Option<&Path>) -> io::Result<Self> {
        let begun = |list: &Path| {
            let mut list = BufWriter::new(File::create(list)?);
            writeln!(list, "{COLUMNS}")?;
            Ok(list)
        };
        let list = list.map(begun).transpose().map_err(|error| not_listed(&error))?;
        Ok(Self {
            wanted,
            list,
            joined: wanted.limits.iter().map(|&limit| Joined::new(limit)).collect(),
            summaries: wanted
                .limits
                .iter()
                .map(|_| Summary::new(wanted.most_bins, wanted.origin_ns))
                .collect(),
            order: Order::default(),
            density: Density::default(),
            packets: 0,
            first: None,
            last: None,
            latest_ns: None,
            figures: Figures::new(wanted),
        })
    }

    fn join(&mut self, part: &Part) -> io::Result<()> {
        self.packets += part.packets;
        self.latest_ns = self.latest_ns.max(part.latest_ns);
        if let Some((first, last)) = part.ends {
            if let Some(before) = self.last {
                self.figures.follow(before, first, self.wanted.clocks.sent);
            }
            self.first = self.first.or(Some(first));
            self.last = Some(last);
        }
        for &run in &part.numbers {
            self.order.add(run);
            // Numbers run over all flows: those of one would seem far apart.
            if self.wanted.cut.flow.is_none() {
                self.density.add(run);
            }
        }
        for (at, runs) in part.late.iter().enumerate() {
            let (list, summary) = (&mut self.list, &mut self.summaries[at]);
            let limit = self.wanted.limits[at];
            let numbered = self.wanted.numbered;
            self.joined[at].add(runs, |anomaly| keep(list, summary, limit, numbered, anomaly))?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.density.end();
        for (at, joined) in self.joined.iter_mut().enumerate() {
            let (list, summary) = (&mut self.list, &mut self.summaries[at]);
            let limit = self.wanted.limits[at];
            let numbered = self.wanted.numbered;
            joined.end(|anomaly| keep(list, summary, limit, numbered, anomaly))?;
        }
        self.list.as_mut().map_or(Ok(()), Write::flush).map_err(|error| not_listed(&error))
    }
}

/// What is said of a list that cannot be written.
fn not_listed(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the list of anomalies cannot be written: {error}"))
}

/// Count an anomaly, and write it.
fn keep(
    list: &mut Option<BufWriter<File>>,
    summary: &mut Summary,
    limit: Limit,
    numbered: bool,
    anomaly: Anomaly,
) -> io::Result<()> {
    summary.add(anomaly);
    list.as_mut()
        .map_or(Ok(()), |list| write_line(list, limit, numbered, &anomaly))
        .map_err(|error| not_listed(&error))
}

fn write_line(
    list: &mut BufWriter<File>,
    limit: Limit,
    numbered: bool,
    anomaly: &Anomaly,
) -> io::Result<()> {
    let Anomaly { run, open_begin, open_end } = *anomaly;
    let latency = run.latency;
    write!(list, "{},{},{},", limit.least, limit.late_ns, run.place)?;
    if numbered {
        write!(list, "{}", run.sequence)?;
    }
    writeln!(
        list,
        ",{},{},{},{},{},{},{},{open_begin},{open_end}",
        latency.count,
        run.first_ns,
        run.last_ns,
        run.duration_ns(),
        latency.min,
        latency.mean().unwrap_or(0.0),
        latency.max
    )
}

/// What threads share: where the next piece is, and parts that wait for one before them.
struct Shared<'a> {
    place: Mutex<Place>,
    joining: Mutex<Joining<'a>>,
    joined: Condvar,
}

struct Joining<'a> {
    whole: Whole<'a>,
    waiting: BTreeMap<u64, Part>,
    spare: Vec<Part>,
    next: u64,
    stop: Option<Stop>,
}

impl Joining<'_> {
    /// Join all parts whose turn it is.
    fn join(&mut self) -> io::Result<()> {
        while let Some(part) = self.waiting.remove(&self.next) {
            self.whole.join(&part)?;
            self.next += 1;
            // New memory for each piece would cost more than what is written to it.
            self.spare.push(part.again());
        }
        Ok(())
    }
}

/// A thread that fails is an error of its own: what it held is as it was between two pieces.
fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that panics tells the others, which may wait for its piece.
struct Telling<'a, 'b>(&'a Shared<'b>);

impl Drop for Telling<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            hold(&self.0.joining).stop = Some(Stop::Damaged);
            self.0.joined.notify_all();
        }
    }
}

impl Shared<'_> {
    /// Look at pieces until there are no more.
    fn work(&self, source: &Source, wanted: &Wanted, threads: usize) -> Figures {
        let _telling = Telling(self);
        let mut digester = Digester::new(wanted);
        if let Err(stop) = self.pieces(source, &mut digester, wanted, threads) {
            let mut joining = hold(&self.joining);
            joining.stop = joining.stop.take().or(Some(stop));
            self.joined.notify_all();
        }
        digester.figures
    }

    fn pieces(
        &self,
        source: &Source,
        digester: &mut Digester,
        wanted: &Wanted,
        threads: usize,
    ) -> Result<(), Stop> {
        let mut buffer = Vec::new();
        loop {
            let Some(piece) = source.next(&mut hold(&self.place))? else { return Ok(()) };
            let spare = hold(&self.joining).spare.pop();
            let mut part = spare.unwrap_or_else(|| Part::new(wanted));
            source.read(&piece, &mut buffer, |data, place| digester.add(&mut part, data, place))?;
            let mut joining = hold(&self.joining);
            joining.waiting.insert(piece.number, part);
            joining.join()?;
            self.joined.notify_all();
            // Whoever has the piece that all wait for does not wait.
            let joining = self
                .joined
                .wait_while(joining, |it| it.waiting.len() > threads && it.stop.is_none())
                .unwrap_or_else(PoisonError::into_inner);
            if joining.stop.is_some() {
                return Ok(());
            }
        }
    }
}

/// All of a file, by several threads; `Stop::Damaged` asks for care.
fn by_pieces<'a>(
    source: &Source,
    wanted: &'a Wanted,
    list: Option<&Path>,
    threads: usize,
) -> Result<(Whole<'a>, Place), Stop> {
    let small = threads * wanted.limits.len() > MOST_LISTS;
    let blocks = if small { SMALL } else { LARGE };
    let shared = Shared {
        place: Mutex::new(source.begin(blocks)),
        joining: Mutex::new(Joining {
            whole: Whole::new(wanted, list)?,
            waiting: BTreeMap::new(),
            spare: Vec::new(),
            next: 0,
            stop: None,
        }),
        joined: Condvar::new(),
    };
    let figures = thread::scope(|scope| {
        let others = (1..threads).map(|_| scope.spawn(|| shared.work(source, wanted, threads)));
        let others = others.collect::<Vec<_>>();
        let mut figures = shared.work(source, wanted, threads);
        for other in others {
            match other.join() {
                Ok(found) => figures.merge(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        figures
    });
    let joining = shared.joining.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(stop) = joining.stop {
        return Err(stop);
    }
    let mut whole = joining.whole;
    whole.figures.merge(figures);
    whole.end()?;
    Ok((whole, shared.place.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// All of a file that is damaged: block by block.
fn with_care<'a>(
    source: &Source,
    wanted: &'a Wanted,
    list: Option<&Path>,
) -> io::Result<(Whole<'a>, Place)> {
    let mut whole = Whole::new(wanted, list)?;
    let mut digester = Digester::new(wanted);
    let mut joined = Ok(());
    let place = source.read_with_care(|place, data| {
        let mut part = Part::new(wanted);
        digester.add(&mut part, data, place);
        joined = whole.join(&part);
        joined.is_ok()
    })?;
    joined?;
    whole.figures.merge(digester.figures);
    whole.end()?;
    Ok((whole, place))
}

fn read<'a>(
    source: &Source,
    wanted: &'a Wanted,
    list: Option<&Path>,
    threads: usize,
) -> io::Result<(Whole<'a>, Place)> {
    let threads = if wanted.by_flow { threads.min(MOST_BY_FLOW) } else { threads };
    match by_pieces(source, wanted, list, threads) {
        Ok(found) => Ok(found),
        Err(Stop::Damaged) => with_care(source, wanted, list),
        Err(Stop::Io(error)) => Err(error),
    }
}

/// All figures of a file.
///
/// # Errors
/// If it is no such file, or cannot be read; if the list cannot be written.
pub fn analyse(path: &Path, options: &Options) -> Result<FileReport, Refused> {
    let source = Source::open(path, options.layout)?;
    let failed = |error: io::Error| {
        let shorter = error.kind() == io::ErrorKind::UnexpectedEof;
        let why = if shorter { "it became shorter meanwhile".into() } else { error.to_string() };
        Refused::Failed(format!("reading {}: {why}", path.display()))
    };
    let first_ns = source.first_ns().map_err(failed)?.unwrap_or(0);
    let mut wanted = wanted(&source.about, options, first_ns);
    let asked = if options.kinds.iter().any(|kind| matches!(kind.late, Late::Medians(_))) {
        wanted.only_latency = true;
        let (found, _) = read(&source, &wanted, None, options.threads).map_err(failed)?;
        asked(&options.kinds, found.figures.latency.median())
    } else {
        asked(&options.kinds, None)
    };
    wanted.only_latency = false;
    if wanted.has_latency() {
        wanted.limits = asked.iter().map(|asked| asked.limit).collect();
    }
    // Under its name once it is whole.
    let part = options.list.as_ref().map(|list| {
        let name = list.file_name().unwrap_or_default().to_string_lossy();
        list.with_file_name(format!(".{name}.{}.part", std::process::id()))
    });
    let found = read(&source, &wanted, part.as_deref(), options.threads);
    if let (Some(part), Some(list)) = (&part, &options.list) {
        let kept = if found.is_ok() { std::fs::rename(part, list) } else { Ok(()) };
        if kept.is_err() || found.is_err() {
            // It may not even be there; what matters is said below.
            let _ = std::fs::remove_file(part);
        }
        kept.map_err(|error| Refused::Failed(format!("writing {}: {error}", list.display())))?;
    }
    let (mut whole, place) = found.map_err(failed)?;
    if whole.figures.flows.has_too_many() && wanted.has_latency() {
        let largest = Wanted {
            only_flows: Some(whole.figures.flows.largest()),
            limits: Vec::new(),
            ..wanted.clone()
        };
        // By one thread: each has histograms of its own.
        let (found, _) = read(&source, &largest, None, 1).map_err(failed)?;
        whole.figures.flows.take_histograms(found.figures.flows);
    }
    Ok(report(path, &source.about, &whole, place, &asked))
}

fn wanted(about: &About, options: &Options, first_ns: i64) -> Wanted {
    let after = &options.after_ns;
    let offset = i64::try_from(tai_offset_ns()).unwrap_or(0);
    let clocks = about.header.map_or(
        Clocks { sent: true, one: true, realtime: false, tai_offset_ns: 0 },
        |header| Clocks {
            sent: about.bits & LACKS_SENT == 0,
            one: header.one_clock || options.same_clock,
            realtime: is_realtime(&header),
            tai_offset_ns: offset,
        },
    );
    let end =
        |after: i64| if after == i64::MAX { i64::MAX } else { first_ns.saturating_add(after) };
    let begin = if after.start == i64::MIN { i64::MIN } else { end(after.start) };
    Wanted {
        layout: about.layout,
        clocks,
        numbered: about.has(LACKS_SEQUENCE),
        cut: Cut {
            places: options.places.clone(),
            times_ns: begin..end(after.end),
            flow: options.flow,
        },
        limits: Vec::new(),
        most_bins: options.most_bins,
        origin_ns: first_ns,
        by_flow: options.by_flow && about.layout == Layout::Records,
        only_latency: false,
        only_flows: None,
    }
}

fn asked(kinds: &[Kind], median: Option<u64>) -> Vec<Asked> {
    let asked = |kind: &Kind| {
        let (late_ns, of_median) = match kind.late {
            Late::Ns(late_ns) => (late_ns, None),
            Late::Medians(times) => {
                // Too large a float becomes the largest number, and no packet is so late.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let late_ns = (median.unwrap_or(0) as f64 * times).ceil() as u64;
                (late_ns, Some(times))
            }
        };
        Asked { limit: Limit { least: kind.least, late_ns }, of_median }
    };
    kinds.iter().map(asked).collect()
}
