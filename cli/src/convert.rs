//! `lanecast convert`: workers read, convert and write tiles (parts of tensors). A file gets its name once it is complete and verified.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::args::{Convert, FailOn, Progress, Resume};
use crate::checkpoint::{Checkpoint, PACKED_CONFIGS, hex, is_index};
use crate::config;
use crate::error::{Failure, Kind, Result, on, on_output};
use crate::header::byte_len;
use crate::inspect::from_option;
use crate::layout::{self, Recognised};
use crate::live::{Live, exists, remove_abandoned, remove_if_abandoned, temporary};
use crate::lock;
use crate::loss::{Losses, Sum, Worst, place};
use crate::out::{self, bytes, count, number};
use crate::plan::{Input, Job, OutShard, Output, Plan, label};
use crate::source::{self, Stamp, file_name, parent};
use crate::system;
use crate::threads;
use crate::tile::{self, Main, Scratch, Tile};

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The smallest `--memory`.
const LEAST_MEMORY: u64 = 1 << 20;

/// How many tiles are put into the queue at a time.
const TAKEN: usize = 64;

/// The directory, within that of the result, that holds a state for each complete file until all files are complete.
const STATES: &str = ".lanecast";
/// The file that replaces [`STATES`] when all files are complete.
const RECORD: &str = "lanecast.json";
/// The name of a temporary file by which the directory of the result tells whether it ignores case.
const CASE: &str = "case";

/// The state of a complete file of the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    plan: String,
    name: String,
    bytes: u64,
    sha256: String,
    losses: Losses,
    /// The source files that it was made from. [`RECORD`], by which results are compared, leaves them out.
    sources: BTreeMap<String, Stamp>,
}

/// Makes Ctrl-C set [`INTERRUPTED`] from now on.
pub(crate) fn listen() {
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst));
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Returns the error of a run that was interrupted while it wrote a directory, or a single file.
fn interrupted(dir: &Path, single: Option<&Path>) -> Failure {
    Failure::new(Kind::Interrupted, "interrupted").help(match single {
        Some(file) => format!("nothing was written: the same command begins {} anew", file.display()),
        None => {
            format!("complete files stay: the same command with --resume continues in {}", dir.display())
        }
    })
}

enum Task {
    Amax(Tile, usize),
    /// A tile, its number in the file of the result, and that file.
    Convert(Tile, usize, Arc<Live>),
}

/// What is still to be done, in order.
struct Queue {
    shards: VecDeque<usize>,
    /// Files that are being written and have tiles that are not in the queue yet.
    open: Vec<Open>,
    tasks: VecDeque<Task>,
    /// For each group, whether the tasks that find its largest magnitude have been queued.
    asked: Vec<bool>,
}

/// A file that is being written. Tiles are listed one job at a time: with many tensors, a list of all tiles would take much memory.
struct Open {
    live: Arc<Live>,
    /// How many of its jobs have been divided into tiles.
    jobs: usize,
    tiles: std::vec::IntoIter<Tile>,
    /// The number of the last tile that was handed out, from 1 on.
    number: usize,
}

/// The largest magnitude so far of tensors that share a scale or factor, as bits, and how many of their tiles are still to be searched.
struct Group {
    bits: u64,
    left: usize,
}

struct Work<'a> {
    it: &'a Checkpoint,
    plan: &'a Plan,
    args: &'a Convert,
    /// The directory that files are written to.
    dir: PathBuf,
    /// The path of the result, if it is one file.
    single: Option<PathBuf>,
    /// When the run began, which is the time of the states.
    began: SystemTime,
    tile: u64,
    /// How many files are written at a time.
    abreast: usize,
    /// Pairs of a group and the index of a job in it, sorted.
    members: Vec<(usize, usize)>,
    queue: Mutex<Queue>,
    groups: Mutex<Vec<Group>>,
    group_done: Condvar,
    failure: Mutex<Option<Failure>>,
    stop: AtomicBool,
    done: Mutex<Vec<State>>,
    bar: ProgressBar,
}

impl Work<'_> {
    /// Takes the next task. Several files are written at the same time, because the hash of a file is computed by one core.
    fn next(&self) -> Result<Option<Task>> {
        let mut queue = lock(&self.queue);
        while queue.tasks.is_empty() && !(queue.open.is_empty() && queue.shards.is_empty()) {
            if queue.open.is_empty() {
                let some = queue.shards.len().min(self.abreast);
                for shard in queue.shards.drain(..some).collect::<Vec<_>>() {
                    queue.open.extend(self.open(shard)?);
                }
            }
            self.refill(&mut queue);
        }
        Ok(queue.tasks.pop_front())
    }

    /// Begins to write a file. Returns None for a file without tiles, which is complete at once.
    fn open(&self, shard: usize) -> Result<Option<Open>> {
        let live = Arc::new(self.begin(shard)?);
        let jobs = self.plan.shards[shard].jobs.iter();
        let tiles =
            jobs.map(|&index| tile::tiles(index, &self.plan.jobs[index], self.tile).len()).sum::<usize>();
        live.expect(tiles);
        if tiles == 0 {
            self.finish(&live)?;
            return Ok(None);
        }
        Ok(Some(Open { live, jobs: 0, tiles: Vec::new().into_iter(), number: 0 }))
    }

    /// Queues tiles of the open files, one of each in turn, each preceded by the tasks that find the largest magnitude that it needs.
    fn refill(&self, queue: &mut Queue) {
        let Queue { open, tasks, asked, .. } = queue;
        let mut some = Vec::new();
        while some.len() < TAKEN && !open.is_empty() {
            open.retain_mut(|file| {
                let tile = self.tile_of(file, tasks, asked);
                some.extend(tile.map(|tile| Task::Convert(tile, file.number, file.live.clone())));
                tile.is_some()
            });
        }
        tasks.extend(some);
    }

    /// Returns the next tile of a file. Before the first tile of a group, puts the tasks that find its largest magnitude into `tasks`.
    fn tile_of(&self, file: &mut Open, tasks: &mut VecDeque<Task>, asked: &mut [bool]) -> Option<Tile> {
        loop {
            if let Some(tile) = file.tiles.next() {
                file.number += 1;
                return Some(tile);
            }
            let &index = self.plan.shards[file.live.shard].jobs.get(file.jobs)?;
            file.jobs += 1;
            let job = &self.plan.jobs[index];
            file.tiles = tile::tiles(index, job, self.tile).into_iter();
            if let Some(group) = job.output.group()
                && !std::mem::replace(&mut asked[group], true)
            {
                self.ask(group, tasks);
            }
        }
    }

    /// Adds the tasks that find the largest magnitude of a group.
    fn ask(&self, group: usize, tasks: &mut VecDeque<Task>) {
        let before = tasks.len();
        let members = &self.members[self.members.partition_point(|&(other, _)| other < group)..];
        for &(_, member) in members.iter().take_while(|&&(other, _)| other == group) {
            let parts = tile::tiles(member, &self.plan.jobs[member], self.tile);
            tasks.extend(parts.into_iter().map(|tile| Task::Amax(tile, group)));
        }
        lock(&self.groups)[group].left = tasks.len() - before;
    }

    fn target(&self, shard: usize) -> PathBuf {
        self.single.clone().unwrap_or_else(|| self.dir.join(&self.plan.shards[shard].name))
    }

    /// Creates the temporary file of a shard, and writes its header and the tensors whose contents the plan knows.
    fn begin(&self, shard: usize) -> Result<Live> {
        let planned = &self.plan.shards[shard];
        let live = Live::new(shard, self.target(shard), &self.dir, planned.bytes)?;
        self.bar.set_message(out::plain(planned.name.trim_end_matches(".safetensors")));
        let mut header = std::mem::take(&mut *lock(&planned.header));
        live.write(0, &header)?;
        let n = header.len();
        self.bar.inc(n as u64);
        live.hash(0, 0, &mut header, n, &self.stop);
        for &job in &planned.jobs {
            for out in &self.plan.jobs[job].outs {
                if let Some(known) = &out.bytes {
                    live.write(out.offset, known)?;
                    self.bar.inc(known.len() as u64);
                }
            }
        }
        Ok(live)
    }

    fn step(&self, task: Task, scratch: &mut Scratch) -> Result<()> {
        match task {
            Task::Amax(tile, group) => {
                let job = &self.plan.jobs[tile.job];
                let bits =
                    tile::amax(self.it, job, &tile, scratch).map_err(|failure| failure.tensor(&job.name))?;
                let mut groups = lock(&self.groups);
                groups[group].bits = groups[group].bits.max(bits);
                groups[group].left -= 1;
                if groups[group].left == 0 {
                    self.group_done.notify_all();
                }
                Ok(())
            }
            Task::Convert(tile, number, live) => self.convert(&tile, number, &live, scratch),
        }
    }

    /// Waits for the largest magnitude of a group. The tasks that find it come earlier in the queue, so other workers have them already.
    /// Returns None if the work is being stopped.
    fn amax(&self, group: usize) -> Option<f64> {
        let mut groups = lock(&self.groups);
        while groups[group].left > 0 {
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            groups = self.group_done.wait(groups).expect("no panics");
        }
        Some(f64::from_bits(groups[group].bits))
    }

    /// Converts and writes a tile; then hashes what is next in the file's order, and reads back what has been hashed.
    fn convert(&self, tile: &Tile, number: usize, live: &Live, scratch: &mut Scratch) -> Result<()> {
        let job = &self.plan.jobs[tile.job];
        let amax = match job.output.group() {
            None => None,
            Some(group) => match self.amax(group) {
                None => return Ok(()),
                found => found,
            },
        };
        let mut write = |offset: u64, bytes: &[u8]| {
            live.write(offset, bytes)?;
            self.bar.inc(bytes.len() as u64);
            Ok(())
        };
        let (loss, Main { offset, bytes, n }) = tile::convert(self.it, job, tile, amax, scratch, &mut write)?;
        lock(&live.losses).entry(tile.job).and_modify(|all| all.join(&loss)).or_insert(loss);
        if live.hash(number, offset, bytes, n, &self.stop) {
            self.finish(live)?;
        } else if !self.args.no_verify {
            live.read_back(scratch.bytes())?;
        }
        Ok(())
    }

    /// Completes a file: reads back and hashes the rest, synchronises it with the disk, gives it its name, and records its state.
    fn finish(&self, live: &Live) -> Result<()> {
        let planned = &self.plan.shards[live.shard];
        live.read_back_all(!self.args.no_verify)?;
        let sha256 = live.sha256(planned.bytes)?;
        for &index in &planned.sources {
            self.it.shards[index].check_unchanged()?;
        }
        let state = State {
            plan: self.plan.hash.clone(),
            name: planned.name.clone(),
            bytes: planned.bytes,
            sha256,
            losses: self.losses(live),
            sources: stamps(self.it, planned),
        };
        live.publish(self.single.is_none() || self.args.force)?;
        sync(&self.dir)?;
        if self.single.is_none() {
            let text = serde_json::to_vec(&state).expect("a state is JSON");
            publish_as_of(&state_path(&self.dir, &planned.name), &text, Some(self.began))?;
        }
        if self.args.progress == Progress::Plain && !self.args.quiet {
            let all = self.bar.length().unwrap_or(0);
            let seconds = self.bar.elapsed().as_secs_f64().max(1e-3);
            let (done, name) = (self.bar.position(), out::plain(&planned.name));
            let speed = done as f64 / seconds;
            let left = (all.saturating_sub(done) as f64 / speed.max(1.0)).ceil();
            let speed = bytes(speed as u64);
            out::note(format_args!("{done} of {all} bytes   {speed}/s   {left} s left   {name}"));
        }
        lock(&self.done).push(state);
        Ok(())
    }

    fn losses(&self, live: &Live) -> Losses {
        let losses = lock(&live.losses);
        let mut all = Losses::default();
        for &index in &self.plan.shards[live.shard].jobs {
            let job = &self.plan.jobs[index];
            if matches!(job.output, Output::Copy) {
                continue;
            }
            let mut loss = losses.get(&index).copied().unwrap_or_default();
            loss.at = tile::among_values(job, loss.at);
            let bytes_out = job.outs.iter().map(|out| byte_len(out.dtype, &out.shape)).sum();
            let sum = Sum { tensors: 1, bytes_in: job.input.bytes(), bytes_out, loss };
            let mut one = Losses::default();
            one.sums.insert(format!("{} -> {}", job.from(), job.to()), sum);
            if loss.max_abs > 0.0 {
                let shape = match (&job.input, &job.output) {
                    (input, Output::Quantise(_)) => tile::logical(input).0,
                    _ => job.outs[0].shape.to_vec(),
                };
                one.worst.push(Worst {
                    name: job.name.to_string(),
                    from: job.from(),
                    to: job.to(),
                    max_abs_error: loss.max_abs,
                    max_rel_error: loss.max_rel,
                    index: place(loss.at, &shape),
                });
            }
            all.join(&one);
        }
        all
    }

    fn worker(&self) {
        let mut scratch = Scratch::default();
        while !self.stop.load(Ordering::SeqCst) {
            if is_interrupted() {
                self.fail(interrupted(&self.dir, self.single.as_deref()));
                return;
            }
            match self.next() {
                Ok(None) => return,
                Ok(Some(task)) => {
                    if let Err(failure) = self.step(task, &mut scratch) {
                        self.fail(failure);
                    }
                }
                Err(failure) => self.fail(failure),
            }
        }
    }

    fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.stop.store(true, Ordering::SeqCst);
        // Notified under the lock under which `amax` checks `stop`, so that no waiting worker misses it.
        let _groups = lock(&self.groups);
        self.group_done.notify_all();
    }
}

/// Synchronises the names in a directory with the disk.
pub(crate) fn sync(dir: &Path) -> Result<()> {
    system::sync_directory(dir).map_err(on_output(dir))
}

/// Writes a small file by way of a temporary one, so that it never exists in part.
fn publish(dir: &Path, name: &str, contents: &[u8]) -> Result<()> {
    publish_as_of(&dir.join(name), contents, None)
}

/// Writes a small file as [`publish`] does, with this time of its last change.
fn publish_as_of(path: &Path, contents: &[u8], time: Option<SystemTime>) -> Result<()> {
    let dir = parent(path);
    let mut temp = temporary(dir, &file_name(path))?;
    temp.write_all(contents).map_err(on_output(path))?;
    // Not every file system lets times be set.
    _ = time.map(|time| temp.as_file().set_modified(time));
    temp.as_file().sync_all().map_err(on_output(path))?;
    temp.persist(path).map_err(|error| Failure::output(path, &error.error))?;
    sync(dir)
}

/// Copies a file by way of a temporary one, so that it never exists in part.
fn copy(from: &Path, dir: &Path) -> Result<()> {
    let path = dir.join(from.file_name().unwrap_or_default());
    let mut temp = temporary(dir, &file_name(from))?;
    let mut file = File::open(from).map_err(on(from))?;
    std::io::copy(&mut file, &mut temp).map_err(on_output(&path))?;
    temp.as_file().sync_all().map_err(on_output(dir))?;
    temp.persist(&path).map_err(|error| Failure::output(&path, &error.error))?;
    Ok(())
}

/// Returns the files that a rank writes. Files are dealt out by decreasing size, each to the rank with the fewest bytes so far.
fn mine(plan: &Plan, rank: usize, of: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..plan.shards.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(plan.shards[i].bytes), i));
    let mut load = vec![0u64; of];
    let mut mine = Vec::new();
    for i in order {
        let least = (0..of).min_by_key(|&rank| (load[rank], rank)).expect("at least one");
        load[least] += plan.shards[i].bytes;
        if least == rank {
            mine.push(i);
        }
    }
    mine.sort_unstable();
    mine
}

/// Checks that the directory in which a new file is to be made exists.
pub(crate) fn check_parent(dst: &Path) -> Result<()> {
    let parent = dst.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir());
    parent.map_or(Ok(()), |parent| {
        Err(Failure::refused(format!("{}: there is no directory {}", dst.display(), parent.display()))
            .help("create it, or write elsewhere"))
    })
}

/// Checks that `dst` is free, or a regular file. A device, a pipe, a directory or a link (`/dev/stdout`) is not replaced, even with
/// `--force`.
pub(crate) fn check_replaced(dst: &Path, instead: &str) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(dst) else { return Ok(()) };
    let what = match found.file_type() {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => "a link",
        _ => "a device or a pipe",
    };
    Err(Failure::refused(format!("{} is {what}, and is not replaced by a file", dst.display())).help(instead))
}

/// Checks that DST may be written, and that it and the source do not overlap.
fn check_paths(args: &Convert, it: &Checkpoint) -> Result<()> {
    let (src, dst) = (source::resolved(&args.src), source::resolved(&args.dst));
    let how = if src == dst {
        "is the source"
    } else if dst.starts_with(&src) {
        "lies in the source"
    } else if src.starts_with(&dst) && it.is_dir {
        "contains the source"
    } else {
        ""
    };
    if !how.is_empty() {
        return Err(Failure::refused(format!("DST {} {how}, {}", args.dst.display(), args.src.display()))
            .help("write elsewhere: the source is never changed"));
    }
    // Files of the source may be links into DST, where they would be replaced, or removed as left over.
    let files = if it.is_dir { fs::read_dir(&args.src).ok() } else { None };
    let files = files.into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let below = it.below.iter().map(|file| args.src.join(file));
    if let Some(path) = files.chain(below).find(|path| source::resolved(path).starts_with(&dst)) {
        return Err(Failure::refused(format!(
            "DST {} holds the source: {} is a link into it",
            args.dst.display(),
            path.display()
        ))
        .help("write elsewhere: the source is never changed"));
    }
    if !it.is_dir {
        let is_directory = args.dst.is_dir() || args.dst.as_os_str().as_encoded_bytes().ends_with(b"/");
        if is_directory {
            let file = args.dst.join(file_name(&args.src));
            return Err(Failure::refused(format!(
                "SRC {} is a file, but DST {} is a directory",
                args.src.display(),
                args.dst.display()
            ))
            .help(format!("name the file to write: {}", file.display())));
        }
        check_parent(&args.dst)?;
    }
    // Without a trailing `/`, by which a link would be followed.
    let dst: PathBuf = args.dst.components().collect();
    let Ok(metadata) = fs::symlink_metadata(dst) else { return Ok(()) };
    if metadata.is_symlink() {
        return Err(Failure::refused(format!("{} is a link", args.dst.display()))
            .help("name what it points to: nothing is written through links"));
    }
    if it.is_dir && !metadata.is_dir() {
        return Err(Failure::refused(format!(
            "SRC {} is a directory, but DST {} is a file",
            args.src.display(),
            args.dst.display()
        ))
        .help("name a directory that does not exist yet"));
    }
    if !it.is_dir {
        check_replaced(&args.dst, "name a file: it is written under another name first, and read back")?;
    }
    let empty = it.is_dir && fs::read_dir(&args.dst).is_ok_and(|mut entries| entries.next().is_none());
    let begun = it.is_dir && is_begun(&args.dst);
    let resumes = args.resume.is_some() && it.is_dir;
    let goes_on = begun && (resumes || args.rank.is_some());
    if empty || args.force || goes_on || args.dry_run {
        return Ok(());
    }
    let exists = exists(&args.dst);
    Err(match (resumes, begun) {
        (true, _) => {
            Failure { message: format!("{}, and no conversion has begun there", exists.message), ..exists }
        }
        (false, true) => exists.help("--resume continues it, --force replaces it"),
        (false, false) => exists,
    })
}

/// Whether a conversion has begun in a directory: it holds states or a record.
fn is_begun(dir: &Path) -> bool {
    [STATES, RECORD].iter().any(|name| dir.join(name).exists())
}

/// Returns the error of a DST that was made by another plan.
fn another_plan(args: &Convert) -> Failure {
    let dst = args.dst.display();
    // A rank that began anew would remove what other ranks are writing.
    let help = match args.rank {
        Some(_) => format!("remove {dst} before the first rank begins, or write elsewhere"),
        None => "--force starts over".to_owned(),
    };
    Failure::refused(format!("{dst} was made by another conversion"))
        .help(format!("the source, the options or the version of lanecast has changed: {help}"))
}

/// Whether the result at DST, or a file of it, was made by another plan.
fn is_of_another(plan: &Plan, dir: &Path) -> bool {
    #[derive(Deserialize)]
    struct Made {
        plan: String,
    }
    let states = fs::read_dir(dir.join(STATES)).into_iter().flatten().flatten();
    let all = states.map(|entry| entry.path()).chain([dir.join(RECORD)]);
    let mut made = all.filter_map(|path| serde_json::from_slice::<Made>(&fs::read(path).ok()?).ok());
    made.any(|made| made.plan != plan.hash)
}

/// Whether this run goes on with what others made by the same plan. What another plan made is an error, unless --force replaces it.
fn goes_on(args: &Convert, plan: &Plan) -> Result<bool> {
    let goes_on = args.resume.is_some() || args.rank.is_some();
    if !goes_on || !is_of_another(plan, &args.dst) {
        return Ok(goes_on);
    }
    if args.force && args.rank.is_none() { Ok(false) } else { Err(another_plan(args)) }
}

/// Returns the sizes and times of the source files that a file of the result is made from.
fn stamps(it: &Checkpoint, shard: &OutShard) -> BTreeMap<String, Stamp> {
    shard.sources.iter().map(|&i| (it.shards[i].name.clone(), it.shards[i].stamp)).collect()
}

/// Returns the path of the state of a file of the result.
fn state_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(STATES).join(format!("{name}.json"))
}

/// Whether a file of the result was made from the source files as they are now. A copy of the source may have other times.
fn is_of_now(it: &Checkpoint, plan: &Plan, state: &State) -> bool {
    plan.shards.iter().any(|shard| shard.name == state.name && stamps(it, shard) == state.sources)
}

/// Returns the states of the files that the same plan has completed already, checked as `how` says. Those of other files are removed, if
/// that is asked for: a later run, which may look less closely, would take the files for complete.
fn states(args: &Convert, plan: &Plan, how: Option<Resume>, removes: bool) -> Result<Vec<State>> {
    let dir = &args.dst;
    let mut found = Vec::new();
    for shard in &plan.shards {
        let path = state_path(dir, &shard.name);
        let Ok(text) = fs::read(&path) else { continue };
        let Ok(state) = serde_json::from_slice::<State>(&text) else { continue };
        // Another run may have begun since `is_of_another` looked.
        if state.plan != plan.hash {
            return Err(another_plan(args));
        }
        if state.name == shard.name && is_there(dir, &state, how)? {
            found.push(state);
        } else if removes {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(found)
}

/// Returns the losses and files in the record of a complete run of the same plan, unless a file is missing.
fn complete(plan: &Plan, dir: &Path, how: Option<Resume>) -> Result<Option<(Losses, Vec<State>)>> {
    #[derive(Deserialize)]
    struct Entry {
        name: String,
        bytes: u64,
        sha256: String,
    }
    #[derive(Deserialize)]
    struct Record {
        plan: String,
        files: Vec<Entry>,
        losses: Losses,
    }
    let Ok(text) = fs::read(dir.join(RECORD)) else { return Ok(None) };
    let Ok(record) = serde_json::from_slice::<Record>(&text) else { return Ok(None) };
    if record.plan != plan.hash {
        return Ok(None);
    }
    let mut all = Vec::new();
    for Entry { name, bytes, sha256 } in record.files {
        let (plan, losses, sources) = (record.plan.clone(), Losses::default(), BTreeMap::new());
        let state = State { plan, name, bytes, sha256, losses, sources };
        if !is_there(dir, &state, how)? {
            return Ok(None);
        }
        all.push(state);
    }
    Ok(Some((record.losses, all)))
}

/// Whether the record of a complete run, whose time is the beginning of that run, is older than a file of the source.
fn is_older(it: &Checkpoint, dir: &Path) -> bool {
    let made = fs::metadata(dir.join(RECORD)).and_then(|found| system::mtime(&found));
    // A record that is gone is that of another rank, which makes files again.
    made.is_ok_and(|made| it.shards.iter().any(|shard| shard.stamp.mtime > made))
}

/// Whether the file of a state exists with its size and, for [`Resume::Hash`], with its hash.
fn is_there(dir: &Path, state: &State, how: Option<Resume>) -> Result<bool> {
    let file = dir.join(&state.name);
    if !fs::symlink_metadata(&file).is_ok_and(|m| m.is_file() && m.len() == state.bytes) {
        return Ok(false);
    }
    if how != Some(Resume::Hash) {
        return Ok(true);
    }
    let (source, mut hash, mut at) = (source::open(&file)?, Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    while at < source.len() {
        let some = &mut buffer[..(1 << 20).min(source.len() - at) as usize];
        source.read_at(some, at).map_err(on(&file))?;
        hash.update(&*some);
        at += some.len() as u64;
    }
    Ok(hex(&hash.finalize()) == state.sha256)
}

/// Removes the temporary files that a killed run left behind for these shards and for the small files. A rank removes those of shards only:
/// another rank may be writing the small files now.
fn sweep(it: &Checkpoint, plan: &Plan, dir: &Path, shards: &[usize], is_rank: bool) -> Result<()> {
    let mut names: Vec<String> = shards.iter().map(|&i| plan.shards[i].name.clone()).collect();
    if !is_rank {
        names.extend(it.others.iter().chain(&it.below).map(|path| file_name(path)));
        names.extend(config::index_name(it, plan).map(str::to_owned));
        names.extend(["config.json", "hf_quant_config.json", RECORD, CASE].map(str::to_owned));
    }
    let mut places: BTreeSet<PathBuf> =
        it.below.iter().filter_map(|file| Some(dir.join(file.parent()?))).collect();
    places.extend([dir.to_owned(), dir.join(STATES)]);
    for place in places {
        let Ok(entries) = fs::read_dir(&place) else { continue };
        for entry in entries {
            let path = entry.map_err(on_output(&place))?.path();
            let name = file_name(&path);
            let ours = names.iter().any(|known| name.starts_with(&format!(".{known}.")));
            if ours && name.ends_with(".tmp") {
                match remove_if_abandoned(&path, !is_rank) {
                    // Another rank has removed it.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    removed => removed.map_err(on_output(&path))?,
                }
            }
        }
    }
    Ok(())
}

/// Returns how many bytes all buffers may take together (`--memory`).
fn budget(args: &Convert) -> Result<u64> {
    let memory = out::parse_size("--memory", &args.memory)?;
    if memory < LEAST_MEMORY {
        let what = format!("--memory {}: {} is too little", args.memory, count(memory, "byte"));
        return Err(Failure::usage(what).help("1M or more; for example 2G, which is 2 GiB"));
    }
    Ok(memory)
}

/// Prints the warnings about DST, the plan and files that are left out.
fn warn(args: &Convert, it: &Checkpoint, plan: &Plan) {
    let is_called_a_file = args.dst.extension().is_some_and(|end| end == "safetensors");
    if it.is_dir == is_called_a_file && !args.dry_run {
        let what = match it.is_dir {
            true => "becomes a directory, as SRC is one, but loaders take such a name for that of a file",
            false => "does not end in .safetensors, by which loaders recognise such a file",
        };
        out::note(format_args!("warning: {} {what}", out::plain(&args.dst.display().to_string())));
    }
    for warning in &plan.warnings {
        out::note(format_args!("warning: {}", out::plain(warning)));
    }
    let left_out: Vec<&str> = it.skipped.iter().chain(&it.large).map(|name| &name[..]).collect();
    if it.is_dir && !left_out.is_empty() {
        out::note(format_args!("warning: not read, and not copied: {}", out::plain(&left_out.join(", "))));
    }
}

/// Removes files of an earlier conversion that would be read with the result or in place of it, and that this one does not make. Any such
/// files of other origin are refused. Returns the configurations and the index of the earlier conversion that this one makes again.
fn clear(it: &Checkpoint, plan: &Plan, dir: &Path) -> Result<Vec<PathBuf>> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    #[derive(serde::Deserialize)]
    struct Record {
        files: Vec<Named>,
    }
    let record =
        fs::read(dir.join(RECORD)).ok().and_then(|text| serde_json::from_slice::<Record>(&text).ok());
    let states = fs::read_dir(dir.join(STATES)).into_iter().flatten().flatten();
    let states =
        states.filter_map(|entry| serde_json::from_slice::<Named>(&fs::read(entry.path()).ok()?).ok());
    let mut made: Vec<String> = states.map(|state| state.name).collect();
    let is_ours = record.is_some() || !made.is_empty();
    made.extend(record.into_iter().flat_map(|record| record.files).map(|file| file.name));
    let (mut stale, mut again) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(on_output(dir))? {
        let path = entry.map_err(on_output(dir))?.path();
        let name = file_name(&path);
        let ours = match &name[..] {
            "config.json" if config::config(it, plan).is_none() => is_ours,
            "hf_quant_config.json" if config::quant_config(it, plan).is_none() => is_ours,
            _ if PACKED_CONFIGS.contains(&&name[..]) && !has_packed_config(it, plan, &name) => is_ours,
            _ if is_index(&name) && config::index_name(it, plan) != Some(&name[..]) => is_ours,
            _ if name.ends_with(".safetensors") && plan.shards.iter().all(|shard| shard.name != name) => {
                made.contains(&name)
            }
            "config.json" | "hf_quant_config.json" => {
                again.push(path);
                continue;
            }
            _ if PACKED_CONFIGS.contains(&&name[..]) || is_index(&name) => {
                again.push(path);
                continue;
            }
            _ => continue,
        };
        if !ours {
            return Err(Failure::refused(format!(
                "{} was not made by a conversion, and would be read with the result",
                path.display()
            ))
            .help("remove it, or write elsewhere"));
        }
        stale.push(path);
    }
    stale.iter().try_for_each(|path| fs::remove_file(path).map_err(on_output(path)))?;
    if !is_ours {
        again.clear();
    }
    Ok(again)
}

/// Returns the first two names that differ in case alone.
fn alike<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<[&'a str; 2]> {
    let mut known = BTreeMap::new();
    names.into_iter().find_map(|name| Some([known.insert(name.to_lowercase(), name)?, name]))
}

/// Checks that no two files of the result are one file in this directory, where names that differ in case alone are one name.
fn check_case(plan: &Plan, dir: &Path) -> Result<()> {
    let Some([one, other]) = alike(plan.shards.iter().map(|shard| &shard.name[..])) else { return Ok(()) };
    let probe = temporary(dir, CASE)?;
    if !dir.join(file_name(probe.path()).to_uppercase()).exists() {
        return Ok(());
    }
    let what = format!("{}: {one} and {other} are one name there", dir.display());
    let help =
        "write where upper and lower case are told apart, or with --shard-size, which gives files new names";
    Err(Failure::refused(what).help(help))
}

/// Checks, before hours are spent, that the files beside the tensors can be read.
fn check_beside(it: &Checkpoint) -> Result<()> {
    let below = it.below.iter().map(|file| it.root.join(file));
    it.others.iter().cloned().chain(below).try_for_each(|path| File::open(&path).map(drop).map_err(on(&path)))
}

/// Removes what lies in the directory of the result and would be taken for a part of it. Returns what [`clear`] does.
fn prepare(args: &Convert, it: &Checkpoint, plan: &Plan, shards: &[usize]) -> Result<Vec<PathBuf>> {
    // Before anything is changed, so that a refusal leaves everything as it was.
    check_case(plan, &args.dst)?;
    check_beside(it)?;
    let again = if args.rank.is_none() { clear(it, plan, &args.dst)? } else { Vec::new() };
    sweep(it, plan, &args.dst, shards, args.rank.is_some())?;
    Ok(again)
}

/// Makes the directory of the result that of a conversion that is not complete: without configurations and index (`again`), with the states
/// that stay, and without a record. Returns the time.
fn begin(
    args: &Convert,
    again: &[PathBuf],
    changed: &[&State],
    was_recorded: bool,
    goes_on: bool,
) -> Result<SystemTime> {
    let dir = &args.dst;
    let states = dir.join(STATES);
    // First, while a record or states still say that they are those of a conversion.
    again.iter().try_for_each(|path| fs::remove_file(path).map_err(on_output(path)))?;
    if !goes_on && states.exists() {
        // The states of another plan, which --force discards.
        fs::remove_dir_all(&states).map_err(on_output(dir))?;
    }
    fs::create_dir_all(&states).map_err(on_output(dir))?;
    // Another rank must not take them for complete while they are made again.
    for state in changed {
        let _ = fs::remove_file(state_path(dir, &state.name));
    }
    // Under ranks, a record that was not there when the states were read is that of another rank, which finished last: it stays.
    if args.rank.is_none() || was_recorded {
        let _ = fs::remove_file(dir.join(RECORD));
    }
    sync(dir)?;
    // By the clock of the file system, which may be a server's, as that of the source.
    let now = temporary(&states, "now")?.as_file().metadata().and_then(|found| found.modified());
    Ok(now.unwrap_or_else(|_| SystemTime::now()))
}

/// A locked directory. It is unlocked explicitly: after closing alone, a process that was forked meanwhile would still hold the lock.
struct Locked(Option<File>);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.as_ref().map(File::unlock);
    }
}

/// Creates and locks the directory of the result: ranks share the lock, any other run holds it alone. Nothing is locked where the file
/// system has no locks, or where directories cannot be opened, as on Windows.
fn locked(args: &Convert) -> Result<Locked> {
    let dir = &args.dst;
    fs::create_dir_all(dir).map_err(on(dir))?;
    let Ok(file) = File::open(dir) else { return Ok(Locked(None)) };
    // A run that has just ended may hold the lock for a moment.
    for _ in 0..20 {
        let tried = if args.rank.is_some() { file.try_lock_shared() } else { file.try_lock() };
        match tried {
            Ok(()) => return Ok(Locked(Some(file))),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(50)),
            Err(TryLockError::Error(_)) => return Ok(Locked(None)),
        }
    }
    Err(Failure::refused(format!("{} is being written by another run", dir.display()))
        .help("wait until it has ended, or write elsewhere"))
}

pub(crate) fn run(args: &Convert) -> Result<()> {
    if let (Some(rank), Some(of)) = (args.rank, args.of)
        && rank >= of
    {
        return Err(Failure::usage(format!(
            "--rank {rank}: ranks count from 0, and are less than --of {of}"
        )));
    }
    let memory = budget(args)?;
    if [&args.src, &args.dst].iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::usage(
            "- is not a pipe here: checkpoints are read and written at several offsets",
        )
        .help("name a file or a directory; one that is called - is ./-"));
    }
    let start = Instant::now();
    let it = Checkpoint::open(&args.src)?;
    if args.rank.is_some() && !it.is_dir {
        return Err(
            Failure::usage("--rank: SRC is a single file").help("ranks share the files of a directory")
        );
    }
    let found = layout::recognise(&it, from_option(&args.from)?);
    let plan = Plan::new(&it, &found, args)?;
    check_paths(args, &it)?;
    warn(args, &it, &plan);
    if args.dry_run {
        return dry(&plan, &found, args);
    }
    drop(found);
    let existed = args.dst.exists();
    let locked = if it.is_dir { locked(args) } else { Ok(Locked(None)) };
    if locked.is_ok() {
        // Again, under the lock: another run may have begun in DST since the first check.
        check_paths(args, &it)?;
    }
    let goes_on = goes_on(args, &plan)?;
    // States are read before the record is looked for, because the rank that finishes last writes the record and then removes the states.
    let ready =
        if goes_on && it.is_dir { states(args, &plan, args.resume, locked.is_ok())? } else { Vec::new() };
    let was_recorded = args.dst.join(RECORD).exists();
    let completed = if goes_on { complete(&plan, &args.dst, args.resume)? } else { None };
    let is_older = completed.is_some() && is_older(&it, &args.dst);
    if let Some((losses, all)) = completed
        && (args.rank.is_some() || !is_older)
    {
        if args.rank.is_none() {
            clear(&it, &plan, &args.dst)?;
        } else if is_older {
            // Ranks may read copies of the source, of other times.
            out::note(format_args!(
                "warning: the result was made before the source files were last changed: copies of the source, or its data have changed (--force without --rank makes all files again)"
            ));
        }
        // The run may have been killed just after it wrote the record, or another rank may have been killed.
        let every: Vec<usize> = (0..plan.shards.len()).collect();
        sweep(&it, &plan, &args.dst, &every, args.rank.is_some())?;
        beside(&it, &plan, &args.dst)?;
        let _ = fs::remove_dir_all(args.dst.join(STATES));
        headline(args, &plan)?;
        report(args, &plan, &losses, &all)?;
        return limits(args, &losses);
    }
    // From here on, a lock that was not obtained is an error. Only a complete result needs none, as a lost rank may not have ended yet.
    let _locked = locked?;
    headline(args, &plan)?;
    listen();
    let shards = mine(&plan, args.rank.unwrap_or(0), args.of.unwrap_or(1));
    let (dir, again) = if it.is_dir {
        (args.dst.clone(), prepare(args, &it, &plan, &shards)?)
    } else {
        let parent = parent(&args.dst);
        remove_abandoned(parent, &file_name(&args.dst), &args.src);
        (parent.to_owned(), Vec::new())
    };
    let (ready, changed): (Vec<_>, Vec<_>) =
        ready.into_iter().partition(|state| is_of_now(&it, &plan, state));
    let of = |state: &State, i: usize| state.name == plan.shards[i].name;
    let changed: Vec<_> =
        changed.iter().filter(|state| shards.iter().any(|&shard| of(state, shard))).collect();
    let shards: Vec<usize> =
        shards.into_iter().filter(|&i| !ready.iter().any(|state| of(state, i))).collect();
    if let Err(failure) = room(&plan, &shards, &dir) {
        // The directory that this run created is removed, so that the same command works once there is room.
        if it.is_dir && !existed {
            let _ = fs::remove_dir(&dir);
        }
        return Err(failure);
    }
    let mut began = SystemTime::now();
    if it.is_dir {
        let again = if shards.is_empty() { &[] } else { &again[..] };
        began = begin(args, again, &changed, was_recorded, goes_on)?;
        if !changed.is_empty() && args.rank.is_none() && !args.quiet {
            let n = count(changed.len() as u64, "file");
            out::note(format_args!("{n} made again: the times of the source files have changed since"));
        }
    }
    // The source was opened before.
    began = began.checked_sub(start.elapsed()).unwrap_or(began);
    let mut all = work(args, &it, &plan, &dir, shards, memory, began).map_err(|failure| {
        match (failure.kind, &failure.help) {
            (Kind::System, Some(help)) if it.is_dir => {
                let help = format!("{help}; complete files stay, and --resume continues");
                failure.help(help)
            }
            _ => failure,
        }
    })?;
    all.extend(ready);
    if it.is_dir {
        let done = states(args, &plan, None, false)?;
        if done.len() < plan.shards.len() {
            // Another rank may have finished last meanwhile, written the record and removed the states.
            if let Some((losses, all)) = complete(&plan, &args.dst, None)? {
                let _ = fs::remove_dir(args.dst.join(STATES));
                report(args, &plan, &losses, &all)?;
                return limits(args, &losses);
            }
            if args.rank.is_none() {
                let all = count(plan.shards.len() as u64, "file");
                let what = format!("{}: {} of {all} complete", args.dst.display(), done.len());
                return Err(Failure::system(what)
                    .help("another run has written there: use --resume when it has ended"));
            }
            if !args.quiet {
                out::note(format_args!(
                    "{} of {} complete; other ranks make the others",
                    done.len(),
                    count(plan.shards.len() as u64, "file")
                ));
            }
        } else {
            let others: Vec<_> = done.iter().filter(|state| !is_of_now(&it, &plan, state)).collect();
            if !others.is_empty() {
                let n = count(others.len() as u64, "file");
                out::note(format_args!(
                    "warning: {n} made by other ranks from source files with other times: copies of the source, or its data have changed (--force without --rank makes all files again)"
                ));
            }
            // What has changed since the other ranks began is newer than the result, too.
            let times = others.iter().map(|state| {
                let state = fs::metadata(state_path(&dir, &state.name));
                state.and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
            });
            let as_of = times.fold(began, SystemTime::min);
            all = done;
            last(&it, &plan, &dir, &all, as_of)?;
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut losses = Losses::default();
    for state in &all {
        losses.join(&state.losses);
    }
    report(args, &plan, &losses, &all)?;
    limits(args, &losses)
}

/// Checks, before hours are spent, that the disk has room for all files, and that files may be that large.
fn room(plan: &Plan, shards: &[usize], dir: &Path) -> Result<()> {
    for shard in shards.iter().map(|&i| &plan.shards[i]) {
        system::check_size(shard.bytes).map_err(on(shard.name.as_ref()))?;
    }
    let needed: u64 = shards.iter().map(|&i| plan.shards[i].bytes).sum();
    let free = system::free(dir).map_err(on_output(dir))?;
    if needed > free {
        return Err(Failure::system(format!(
            "{}: {} are needed, but only {} are free",
            dir.display(),
            bytes(needed),
            bytes(free)
        ))
        .help("free some space, or write elsewhere"));
    }
    Ok(())
}

fn work(
    args: &Convert,
    it: &Checkpoint,
    plan: &Plan,
    dir: &Path,
    shards: Vec<usize>,
    memory: u64,
    began: SystemTime,
) -> Result<Vec<State>> {
    let jobs = plan.jobs.iter().enumerate();
    let mut members: Vec<_> = jobs.filter_map(|(index, job)| Some((job.output.group()?, index))).collect();
    members.sort_unstable();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // More threads than cores, because some wait for the disk.
    let more = if system::is_in_memory(&it.root) && system::is_in_memory(dir) { 0 } else { 2 };
    let threads = threads(args.threads, cores + more);
    // A tile needs buffers of up to about 16 times its bytes: its elements as float64, before and after, and the bytes of both files.
    let tile = (memory / threads as u64 / 16).clamp(1 << 16, 1 << 20);
    let largest = plan
        .jobs
        .iter()
        .filter(|job| !matches!((&job.input, &job.output), (Input::Plain(_), Output::Copy | Output::Cast(_))))
        .map(|job| {
            let (shape, rows) = match (&job.input, &job.output) {
                (Input::Scaled(weight, ..), _) => (&weight.shape[..], weight.format.block_rows),
                (Input::Plain(tensor), Output::Quantise(target)) => {
                    (&tensor.shape[..], target.format.block_rows)
                }
                (Input::Plain(tensor), _) => (&tensor.shape[..], 1),
            };
            // Without elements, an extent may be of any length.
            shape.last().filter(|_| !shape.contains(&0)).map_or(0, |&n| n as u64 * rows as u64)
        })
        .max()
        .unwrap_or(0);
    // A tile has at least one row of blocks: where these rows are long, memory suffices for fewer workers.
    let threads = threads.min((memory / (largest * 32).max(1)).max(1) as usize);
    let target = match args.progress {
        Progress::Auto if !args.quiet && std::io::stderr().is_terminal() => ProgressDrawTarget::stderr(),
        _ => ProgressDrawTarget::hidden(),
    };
    let total = shards.iter().map(|&i| plan.shards[i].bytes).sum();
    let bar = ProgressBar::with_draw_target(Some(total), target);
    if let Ok(style) = ProgressStyle::with_template(
        "{bar:16}  {decimal_bytes} / {decimal_total_bytes}   {decimal_bytes_per_sec}   ETA {eta}   {wide_msg}",
    ) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    let work = Work {
        it,
        plan,
        args,
        dir: dir.to_owned(),
        single: (!it.is_dir).then(|| args.dst.clone()),
        began,
        tile,
        abreast: cores,
        members,
        queue: Mutex::new(Queue {
            shards: shards.into(),
            open: Vec::new(),
            tasks: VecDeque::new(),
            asked: vec![false; plan.groups],
        }),
        groups: Mutex::new((0..plan.groups).map(|_| Group { bits: 0, left: 0 }).collect()),
        group_done: Condvar::new(),
        failure: Mutex::new(None),
        stop: AtomicBool::new(false),
        done: Mutex::new(Vec::new()),
        bar,
    };
    thread::scope(|scope| {
        for i in 0..threads {
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, || work.worker()) {
                let failure = Failure::system(format!("thread {} of {threads}: {error}", i + 1));
                work.fail(failure.help("--threads takes a smaller number"));
                break;
            }
        }
    });
    work.bar.finish_and_clear();
    match work.failure.into_inner().expect("no panics") {
        Some(failure) => Err(failure),
        None => Ok(work.done.into_inner().expect("no panics")),
    }
}

/// Whether the result has this configuration of packed weights: that of the source, if some of them are left.
fn has_packed_config(it: &Checkpoint, plan: &Plan, name: &str) -> bool {
    let are_left =
        !plan.left.is_empty() || !plan.from.split('+').any(|layout| ["awq", "gptq"].contains(&layout));
    are_left && it.others.iter().any(|file| file_name(file) == name)
}

/// Writes the files of a result beside those of its tensors: copies, configurations and index.
fn beside(it: &Checkpoint, plan: &Plan, dir: &Path) -> Result<()> {
    let packed = config::packed_configs(it, plan);
    let is_rewritten = |name: &str| packed.iter().any(|(rewritten, _)| *rewritten == name);
    let stays = |file: &&PathBuf| {
        let name = file_name(file);
        !is_rewritten(&name) && (!PACKED_CONFIGS.contains(&&name[..]) || has_packed_config(it, plan, &name))
    };
    for file in it.others.iter().filter(stays) {
        copy(file, dir)?;
    }
    for file in &it.below {
        let to = dir.join(file.parent().unwrap_or(file));
        fs::create_dir_all(&to).map_err(on_output(&to))?;
        copy(&it.root.join(file), &to)?;
    }
    for (name, config) in &packed {
        publish(dir, name, config)?;
    }
    if let Some(config) = config::config(it, plan) {
        publish(dir, "config.json", &config)?;
    }
    if let Some(config) = config::quant_config(it, plan) {
        publish(dir, "hf_quant_config.json", &config)?;
    }
    if let Some(name) = config::index_name(it, plan) {
        publish(dir, name, &config::index(it, plan))?;
    }
    Ok(())
}

/// Writes the files that make the others a checkpoint (index and configuration), and the record; then removes the states.
fn last(it: &Checkpoint, plan: &Plan, dir: &Path, all: &[State], as_of: SystemTime) -> Result<()> {
    beside(it, plan, dir)?;
    let mut losses = Losses::default();
    for state in all {
        losses.join(&state.losses);
    }
    let files: Vec<_> =
        all.iter().map(|s| json!({ "name": s.name, "bytes": s.bytes, "sha256": s.sha256 })).collect();
    let record =
        json!({ "plan": plan.hash, "from": plan.from, "to": plan.to, "files": files, "losses": losses });
    let record = serde_json::to_vec_pretty(&record).expect("a record is JSON");
    // A source that was replaced while it was read is newer.
    publish_as_of(&dir.join(RECORD), &record, Some(as_of))?;
    // An error is ignored: another rank may have removed it.
    let _ = fs::remove_dir_all(dir.join(STATES));
    sync(dir)
}

fn numbers(plan: &Plan) -> (usize, usize) {
    let converted = plan.jobs.iter().filter(|job| !matches!(job.output, Output::Copy)).count();
    (plan.jobs.len() + plan.dropped.len(), converted)
}

/// Returns how many tensors of each kind are not in the result.
fn dropped(plan: &Plan) -> BTreeMap<&'static str, u64> {
    let mut kinds = BTreeMap::new();
    plan.dropped.values().for_each(|kind| *kinds.entry(*kind).or_default() += 1);
    kinds
}

/// Returns the counts of [`dropped`] as text, with what became of each kind.
fn dropped_line(plan: &Plan) -> String {
    let folded = if plan.plain.is_some() { "folded in" } else { "written anew" };
    let kinds = dropped(plan).into_iter().map(|(kind, n)| match kind {
        "scale" | "global_scale" | "zero_point" => {
            format!("{} ({folded})", count(n, &kind.replace('_', " ")))
        }
        "activation_scale" => format!("{} of activations", count(n, "scale")),
        "--drop" => format!("{} by --drop", number(n)),
        other => count(n, other),
    });
    kinds.collect::<Vec<_>>().join(", ")
}

fn as_json(plan: &Plan, losses: &Losses, files: Vec<Value>) -> Value {
    let (total, converted) = numbers(plan);
    let all = losses.all();
    json!({
        "from": plan.from, "to": plan.to,
        "tensors": {
            "total": total, "converted": converted, "kept": plan.kept.len(), "copied": plan.copied,
            "dropped": plan.dropped.len(),
        },
        "bytes_in": plan.jobs.iter().map(|job| job.input.bytes()).sum::<u64>(),
        "bytes_out": plan.shards.iter().map(|shard| shard.bytes).sum::<u64>(),
        "max_abs_error": all.max_abs, "max_rel_error": all.max_rel,
        "saturated": all.saturated, "nan": all.nan, "inf": all.inf,
        "dropped": plan.dropped.keys().collect::<Vec<_>>(), "dropped_kinds": dropped(plan), "worst": losses.worst, "files": files,
    })
}

/// Returns the row of a dry run's table for a job. For a weight that has scales, in the source or in the result, the shape is that of its
/// values; "stored as" is filled in where the stored shape is another.
fn planned(job: &Job, plan: &Plan, found: &Recognised) -> [String; 6] {
    let out = &job.outs[0];
    // A quantised weight that stays as it is. Anything else that is copied has no scales.
    let stays = found.weights.get(&job.name).filter(|_| matches!(job.output, Output::Copy));
    let (shape, from, to) = match stays {
        Some(weight) => {
            let layout = weight.layout.name().to_owned();
            (weight.logical(), layout.clone(), layout)
        }
        None => (tile::logical(&job.input).0, job.from(), job.to()),
    };
    let is_stored_so = shape[..] == out.shape[..];
    let stored = if is_stored_so { String::new() } else { format!("{} {:?}", label(out.dtype), out.shape) };
    let why = plan.kept.get(&job.name).copied().unwrap_or("").to_owned();
    [out::plain(&job.name), format!("{shape:?}"), from, to, stored, why]
}

fn dry(plan: &Plan, found: &Recognised, args: &Convert) -> Result<()> {
    if args.json {
        let files =
            plan.shards.iter().map(|s| json!({ "name": s.name, "bytes": s.bytes, "sha256": null })).collect();
        return out::json(&as_json(plan, &Losses::default(), files));
    }
    let (_, converted) = numbers(plan);
    out::line(format_args!(
        "{} -> {}   {}, {} converted, {} kept, {} copied, {} dropped",
        plan.from,
        plan.to,
        count(plan.shards.len() as u64, "file"),
        number(converted as u64),
        number(plan.kept.len() as u64),
        number(plan.copied as u64),
        number(plan.dropped.len() as u64)
    ))?;
    let mut rows = vec![["tensor", "shape", "from", "to", "stored as", "why"].map(str::to_owned)];
    rows.extend(plan.jobs.iter().map(|job| planned(job, plan, found)));
    out::table(rows)?;
    if !plan.dropped.is_empty() {
        out::line(format_args!("dropped: {}", dropped_line(plan)))?;
    }
    for shard in &plan.shards {
        out::line(format_args!("{}   {}", out::plain(&shard.name), bytes(shard.bytes)))?;
    }
    Ok(())
}

/// Prints a line about the whole conversion, the shares of all ranks included.
fn headline(args: &Convert, plan: &Plan) -> Result<()> {
    if args.json || args.quiet {
        return Ok(());
    }
    let (_, converted) = numbers(plan);
    out::line(format_args!(
        "{} -> {}   {}, {} converted, {} kept, {} copied",
        plan.from,
        plan.to,
        count(plan.shards.len() as u64, "file"),
        number(converted as u64),
        number(plan.kept.len() as u64),
        number(plan.copied as u64)
    ))
}

fn report(args: &Convert, plan: &Plan, losses: &Losses, all: &[State]) -> Result<()> {
    let quantised = plan.layout.as_ref().map(|(layout, _)| format!(" -> {}", layout.name()));
    // A factor that was computed from Inf makes numbers of all Inf under it, which `strange` counts.
    let has_nan = |(what, sum): (&String, &Sum)| {
        let is_strange = sum.loss.nan > 0 || sum.loss.inf > 0 || sum.loss.strange > 0;
        quantised.as_ref().is_some_and(|end| what.ends_with(end)) && is_strange
    };
    if losses.sums.iter().any(has_nan) {
        out::note(format_args!(
            "warning: NaN or Inf among the weights: elements that share a scale with them are lost, and readers may refuse their scale (--fail-on nan,inf,saturated makes that an error)"
        ));
    }
    if args.json {
        let files =
            all.iter().map(|s| json!({ "name": s.name, "bytes": s.bytes, "sha256": s.sha256 })).collect();
        return out::json(&as_json(plan, losses, files));
    }
    if args.quiet {
        return Ok(());
    }
    let titles = ["dtype", "tensors", "in", "out", "max abs", "max rel", "saturated", "NaN", "Inf"];
    // The columns NaN and Inf are empty, and take no width, if there are none at all: the table then fits a terminal of 80 columns.
    let [nan, inf] = [losses.all().nan, losses.all().inf];
    let if_any = |all: u64, n: u64| if all == 0 { String::new() } else { number(n) };
    let mut rows = vec![titles.map(str::to_owned)];
    for (what, sum) in &losses.sums {
        let loss = &sum.loss;
        rows.push([
            what.clone(),
            number(sum.tensors),
            bytes(sum.bytes_in),
            bytes(sum.bytes_out),
            format!("{:.1e}", loss.max_abs),
            format!("{:.1e}", loss.max_rel),
            number(loss.saturated),
            if_any(nan, loss.nan),
            if_any(inf, loss.inf),
        ]);
    }
    if rows.len() > 1 {
        out::table(rows)?;
    }
    if let Some(worst) = losses.worst.first() {
        let name = out::plain(&worst.name);
        out::line(format_args!(
            "worst: {name}, relative error {:.1e} at {:?}",
            worst.max_rel_error, worst.index
        ))?;
    }
    if !plan.dropped.is_empty() {
        out::line(format_args!("dropped: {}", dropped_line(plan)))?;
    }
    Ok(())
}

/// Fails, with exit code 1, if more was lost than the options allow. The result stays.
fn limits(args: &Convert, losses: &Losses) -> Result<()> {
    type Of = fn(&Worst) -> f64;
    let all = losses.all();
    let mut passed = Vec::new();
    // The tensors in which the limits were passed, as far as they are known.
    let mut names = BTreeSet::new();
    let errors: [(_, _, _, Of); 2] = [
        ("an absolute", all.max_abs, args.limits.max_abs_error, |worst| worst.max_abs_error),
        ("a relative", all.max_rel, args.limits.max_rel_error, |worst| worst.max_rel_error),
    ];
    for (what, found, limit, of) in errors {
        if let Some(limit) = limit.filter(|&limit| found > limit) {
            let worst = losses.worst.iter().find(|&worst| of(worst) == found);
            names.insert(worst.map(|worst| &worst.name[..]));
            passed.push(format!("{what} error of {found:.3e}, where {limit:.3e} is allowed"));
        }
    }
    let strange = if args.limits.are_there() { all.strange } else { 0 };
    if strange > 0 {
        names.insert(None);
        let n = count(strange, "element");
        passed.push(format!("{n} that became NaN or Inf, or changed from NaN or Inf to a number"));
    }
    for what in &args.fail_on {
        let (n, name) = match what {
            FailOn::Nan => (all.nan, "NaN"),
            FailOn::Inf => (all.inf, "Inf"),
            FailOn::Saturated => (all.saturated, "saturated elements"),
        };
        if n > 0 {
            names.insert(None);
            passed.push(format!("{} {name}", number(n)));
        }
    }
    if passed.is_empty() {
        return Ok(());
    }
    let help = match names.contains(&None) {
        true => "the result is kept; `lanecast inspect --stats` shows the range, NaN and Inf of each tensor",
        false => "the result is kept",
    };
    let failure = Failure::new(Kind::Limit, format!("beyond the limit: {}", passed.join(", "))).help(help);
    Err(match names.first() {
        Some(Some(name)) if names.len() == 1 => failure.tensor(name),
        _ => failure,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_that_differ_in_case_alone_are_alike() {
        assert_eq!(super::alike(["a", "B", "c", "b", "A"]), Some(["B", "b"]));
        assert_eq!(super::alike(["a", "b", "a.b"]), None);
    }
}
