//! A checkpoint: a file, or a directory of files with an index and a configuration.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::Dtype;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::{Failure, Result, on};
use crate::header::{self, Header};
use crate::source::{self, Source, Stamp};

/// The size of the largest configuration or index that is read.
const MOST: u64 = 200_000_000;

/// Files that describe the packed weights of GPTQ and AWQ, where `config.json` does not.
pub(crate) const PACKED_CONFIGS: [&str; 2] = ["quantize_config.json", "quant_config.json"];
/// The extensions of files of tensors: of those that are read, and of those that are not.
const TENSORS: [&str; 9] =
    [".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".onnx_data"];

/// How deep directories are followed.
const DEEPEST: usize = 4;

/// Whether a file of this name has tensors. The case of its extension does not matter.
fn has_tensors(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TENSORS.iter().any(|end| name.ends_with(end))
}

/// Whether a name ends in `.SAFETENSORS` or another spelling than lower case: no loader finds such a file in a directory.
pub(crate) fn is_called_otherwise(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(TENSORS[0]) && !name.ends_with(TENSORS[0])
}

/// The name of a tensor. It is shared, because there may be 10^5 tensors, each of which is named in several places.
pub(crate) type Name = Arc<str>;

/// The shape of a tensor. It is shared by all tensors that have it.
pub(crate) type Shape = Arc<[usize]>;

/// The shapes that were met so far.
#[derive(Default)]
pub(crate) struct Shapes(HashSet<Shape>);

impl Shapes {
    /// Returns the shared shape that is equal to this one.
    pub(crate) fn of(&mut self, shape: &[usize]) -> Shape {
        if let Some(known) = self.0.get(shape) {
            return known.clone();
        }
        let new: Shape = shape.into();
        self.0.insert(new.clone());
        new
    }
}

/// A tensor in a file.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: Name,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Shape,
    /// The index of its file.
    pub(crate) shard: usize,
    /// The offset of its bytes in the file.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A safetensors file that is open.
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) source: Box<dyn Source>,
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    /// What the metadata of comfy-kitchen says of each layer that is quantised.
    pub(crate) layers: Map<String, Value>,
    pub(crate) stamp: Stamp,
    /// The hash of the header.
    pub(crate) sha256: String,
    pub(crate) header_len: u64,
}

impl Shard {
    /// Reads bytes of a tensor.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.source.read_at(buffer, offset).map_err(on(&self.path))
    }

    /// Checks that the file was not changed since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let changed = || {
            Failure::refused(format!("{}: the file was changed while it was read", self.path.display()))
                .help("run the command again when no other process writes the file")
        };
        let mut raw = vec![0; self.header_len as usize];
        if self.source.stamp().map_err(on(&self.path))? != self.stamp {
            return Err(changed());
        }
        self.source.read_at(&mut raw, 0).map_err(|_| changed())?;
        if hex(&Sha256::digest(&raw)) != self.sha256 {
            return Err(changed());
        }
        Ok(())
    }
}

/// All that is known of a checkpoint without reading the data of tensors.
pub(crate) struct Checkpoint {
    pub(crate) root: PathBuf,
    pub(crate) is_dir: bool,
    pub(crate) shards: Vec<Shard>,
    pub(crate) tensors: BTreeMap<Name, Arc<Tensor>>,
    pub(crate) config: Option<Value>,
    /// The contents of ModelOpt's `hf_quant_config.json`.
    pub(crate) quant_config: Option<Value>,
    /// The names and contents of AWQ's `quant_config.json` and GPTQ's `quantize_config.json`.
    pub(crate) packed_configs: Vec<(String, Value)>,
    /// The name of the index, and its metadata.
    pub(crate) index: Option<(String, Value)>,
    /// Files that a conversion copies.
    pub(crate) others: Vec<PathBuf>,
    /// The files to copy from directories without tensors (poolings, templates), relative to the checkpoint.
    pub(crate) below: Vec<PathBuf>,
    /// The names of files with weights in formats that are not read.
    pub(crate) skipped: Vec<String>,
    /// What else a conversion does not copy, and why: large directories in which no tensors were found, those that may not be read, and
    /// what is not a regular file.
    pub(crate) large: Vec<String>,
}

/// The files of a directory that have tensors, and its index.
struct Listing {
    safetensors: Vec<String>,
    /// The name of the index, and its bytes.
    index: Option<(String, Vec<u8>)>,
    /// Whether the directory has the record of a conversion.
    is_recorded: bool,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Checkpoint {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::io(path, &error)
                .help("name a safetensors file or a directory; a model on a hub must be downloaded first"),
            _ => Failure::io(path, &error),
        })?;
        let mut it = Self {
            root: path.to_owned(),
            is_dir: metadata.is_dir(),
            shards: Vec::new(),
            tensors: BTreeMap::new(),
            config: None,
            quant_config: None,
            packed_configs: Vec::new(),
            index: None,
            others: Vec::new(),
            below: Vec::new(),
            skipped: Vec::new(),
            large: Vec::new(),
        };
        if !metadata.is_dir() {
            it.add(path)?;
            return Ok(it);
        }
        let Listing { safetensors, index, is_recorded } = it.listing()?;
        match index {
            Some((name, index)) => it.indexed(&name, &index, safetensors)?,
            None => it.unindexed(safetensors, is_recorded)?,
        }
        Ok(it)
    }

    /// Sorts the files of the directory by what they are.
    fn listing(&mut self) -> Result<Listing> {
        let path = self.root.clone();
        let mut files = BTreeSet::new();
        for entry in std::fs::read_dir(&path).map_err(on(&path))? {
            let entry = entry.map_err(on(&path))?;
            let file = entry.path();
            let name = source::file_name(&file);
            // Links are followed. Hidden files are ignored.
            if name.starts_with('.') {
                continue;
            }
            match std::fs::metadata(&file) {
                Ok(found) if found.is_file() => _ = files.insert(file),
                Ok(found) if found.is_dir() => {
                    let mut files = Vec::new();
                    match files_below(&path, Path::new(&entry.file_name()), DEEPEST, &mut files)? {
                        None => self.below.extend(files),
                        Some(Unread::Tensors) => self.skipped.push(name + "/"),
                        Some(Unread::Other(what)) => self.large.push(format!("{name}/ ({what})")),
                    }
                }
                Ok(_) if name.ends_with(TENSORS[0]) => {
                    let what = format!("{}: not a regular file", file.display());
                    return Err(Failure::refused(what).help("move it away, or put a file in its place"));
                }
                Ok(_) => self.large.push(name + " (not a regular file)"),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let what = format!("{} is a link to a file that does not exist", file.display());
                    return Err(Failure::refused(what).help("fetch the file, or remove the link"));
                }
                Err(error) => return Err(on(&file)(error)),
            }
        }
        self.skipped.sort_unstable();
        self.large.sort_unstable();
        self.below.sort_unstable();
        let mut listing = Listing { safetensors: Vec::new(), index: None, is_recorded: false };
        // A name that is not Unicode is made text for messages alone.
        for file in files {
            let name = source::file_name(&file);
            if name.ends_with(".safetensors") {
                listing.safetensors.push(name);
            } else if is_index(&name) {
                if let Some((other, _)) = &listing.index {
                    return Err(Failure::refused(format!(
                        "{}: two indexes, {other} and {name}",
                        path.display()
                    ))
                    .help("move one away"));
                }
                listing.index = Some((name.clone(), source::read_small(&file, MOST)?));
            } else if name == "config.json" {
                let config = json(&file)?;
                if !config.is_object() {
                    return Err(Failure::refused(format!("{}: not a JSON object", file.display()))
                        .help("correct it, or move it away: the configuration of a model is a JSON object"));
                }
                self.config = Some(config);
            } else if name == "hf_quant_config.json" {
                self.quant_config = Some(json(&file)?);
            } else if PACKED_CONFIGS.contains(&&name[..]) {
                self.packed_configs.push((name, json(&file)?));
                self.others.push(file);
            } else if has_tensors(&name) {
                self.skipped.push(name);
            } else if name == "lanecast.json" {
                listing.is_recorded = true;
            } else {
                self.others.push(file);
            }
        }
        Ok(listing)
    }

    /// Opens all files of a directory that has no index.
    fn unindexed(&mut self, there: Vec<String>, is_recorded: bool) -> Result<()> {
        let path = self.root.display();
        if there.is_empty() {
            let none = Failure::refused(format!("{path}: no safetensors file in it"));
            return Err(match self.skipped.iter().min_by_key(|name| name.ends_with('/')) {
                Some(other) if other.ends_with('/') => {
                    none.help(format!("if the checkpoint is in {other}, name that directory"))
                }
                Some(other) if is_called_otherwise(other) => {
                    none.help(format!("{other} is read if its name ends in .safetensors, in lower case"))
                }
                Some(other) => none.help(format!(
                    "{other} and the like are not read: fetch the checkpoint as safetensors, or save it as such"
                )),
                None => none.help("name a directory that has .safetensors files, or such a file"),
            });
        }
        // A conversion may have dropped all tensors of a file. Its record says which files there are.
        if let Some((name, missing)) = missing_part(&there).filter(|_| !is_recorded) {
            return Err(Failure::refused(format!(
                "{path}: {name} is there, but {missing}, which belongs to it, is not there"
            ))
            .help("fetch the file; if the files belong together in another way, fetch their index, too"));
        }
        for name in there {
            self.add(&self.root.join(name))?;
        }
        Ok(())
    }

    /// Opens the files that an index names, and compares it with their headers.
    fn indexed(&mut self, index_name: &str, bytes: &[u8], there: Vec<String>) -> Result<()> {
        let place = self.root.join(index_name);
        let bad = |what: String| Failure::refused(format!("{}: {what}", place.display()));
        let text = std::str::from_utf8(bytes).map_err(|error| bad(error.to_string()))?;
        #[derive(serde::Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            weight_map: &'a serde_json::value::RawValue,
            #[serde(default)]
            metadata: Value,
        }
        let raw: Raw<'_> = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let map =
            header::texts_without_twins(raw.weight_map.get()).map_err(|error| bad(error.to_string()))?;
        let names: BTreeSet<&String> = map.values().collect();
        if let Some(name) = names.iter().find(|name| !source::is_plain_name(name)) {
            return Err(bad(format!("{name:?} is not a plain file name"))
                .help("nothing outside of the directory is opened; correct the index"));
        }
        let mut missing = names.iter().filter(|name| !there.contains(name));
        if let Some(name) = missing.next() {
            return Err(match missing.count() {
                0 => bad(format!("it names {name}, which is not there")).help("fetch the file"),
                more => bad(format!(
                    "it names {name} and {more} more of {} files, which are not there",
                    names.len()
                ))
                .help("fetch the files"),
            });
        }
        self.skipped.extend(there.iter().filter(|name| !names.contains(name)).cloned());
        for name in names {
            self.add(&self.root.join(name))?;
        }
        for (tensor, file) in &map {
            match self.tensors.get(&tensor[..]) {
                None => {
                    return Err(bad(format!("it says that the tensor is in {file}, but no file has it"))
                        .tensor(tensor)
                        .help(format!("fetch {file} again, or the index that belongs to it")));
                }
                Some(found) if self.shards[found.shard].name != *file => {
                    let really = &self.shards[found.shard].name;
                    return Err(bad(format!("it says that the tensor is in {file}, but it is in {really}"))
                        .tensor(tensor)
                        .help("fetch the index that belongs to these files"));
                }
                _ => {}
            }
        }
        if let Some(tensor) = self.tensors.values().find(|tensor| !map.contains_key(&*tensor.name)) {
            let file = &self.shards[tensor.shard].name;
            return Err(bad(format!("it does not name the tensor, which is in {file}"))
                .tensor(&tensor.name)
                .help("fetch the index that belongs to these files"));
        }
        self.index = Some((index_name.to_owned(), raw.metadata));
        Ok(())
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let source = source::open(path)?;
        let stamp = source.stamp().map_err(on(path))?;
        let name = source::file_name(path);
        let header = Header::read(source.as_ref(), &path.display().to_string())?;
        let shard = self.shards.len();
        let mut shapes = Shapes::default();
        for (tensor, info) in header.tensors {
            let (from, to) = info.data_offsets;
            let tensor: Name = tensor.into();
            let new = Tensor {
                name: tensor.clone(),
                dtype: info.dtype,
                shape: shapes.of(&info.shape),
                shard,
                offset: header.data + from as u64,
                len: (to - from) as u64,
            };
            if let Some(old) = self.tensors.insert(tensor.clone(), new.into()) {
                let other = &self.shards[old.shard].name;
                let root = self.root.display();
                return Err(Failure::refused(format!(
                    "{root}: two files have the tensor: {other} and {name}"
                ))
                .tensor(&tensor)
                .help("move one of the files away"));
            }
        }
        let layers = layers(header.metadata.as_ref())
            .map_err(|error| Failure::refused(format!("{name}: _quantization_metadata: {error}")))?;
        self.shards.push(Shard {
            path: path.to_owned(),
            name,
            source,
            layers,
            metadata: header.metadata,
            stamp,
            sha256: hex(&Sha256::digest(&header.raw)),
            header_len: header.raw.len() as u64,
        });
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Tensor>> {
        self.tensors.get(name)
    }

    /// Reads the bytes of a small tensor.
    pub(crate) fn small(&self, tensor: &Tensor) -> Result<Vec<u8>> {
        if tensor.len > 1 << 20 {
            return Err(Failure::refused(format!(
                "it has {} bytes, but at most 1 MiB is expected",
                tensor.len
            ))
            .tensor(&tensor.name));
        }
        let mut bytes = vec![0; tensor.len as usize];
        self.shards[tensor.shard].read(&mut bytes, tensor.offset)?;
        Ok(bytes)
    }

    /// Returns the quantisation that the configuration claims.
    pub(crate) fn claims(&self) -> Option<&Value> {
        let config = self.config.as_ref()?;
        // A key with null says nothing.
        let of = |key: &str| config.get(key).is_some_and(|value| !value.is_null());
        let known = ["quantization_config", "compression_config"].into_iter().find(|key| of(key));
        match known {
            Some(key) => config.get(key),
            None => config.get("text_config")?.get("quantization_config").filter(|value| !value.is_null()),
        }
    }

    /// Returns what is said of packed integers under the first of these keys that is there, and the name of the file that says it:
    /// `config.json`, or a file that GPTQ and AWQ had before that. (That of AWQ says nothing of GPTQ.)
    pub(crate) fn claim_of_packed(&self, keys: &[&str]) -> Option<(&str, &Value)> {
        let method = self.claims().and_then(|claim| claim.get("quant_method")?.as_str());
        let is_of_other = move |name: &str| method == Some("gptq") && name == "quant_config.json";
        let own = self.packed_configs.iter().rev().map(|(name, value)| (&name[..], value));
        let own = own.filter(move |(name, _)| !is_of_other(name));
        let mut all = self.claims().map(|claim| ("config.json", claim)).into_iter().chain(own);
        let said = |claim: &Value, key: &&str| claim.get(*key).is_some_and(|value| !value.is_null());
        all.find_map(|(file, claim)| {
            let key = keys.iter().find(|key| said(claim, key))?;
            Some((file, &claim[*key]))
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.tensors.values().map(|tensor| tensor.len).sum()
    }
}

/// Reads the layers of ComfyUI's metadata: none, if there is no such text.
fn layers(metadata: Option<&BTreeMap<String, String>>) -> serde_json::Result<Map<String, Value>> {
    #[derive(serde::Deserialize)]
    struct Text {
        #[serde(default)]
        layers: Map<String, Value>,
    }
    let text = metadata.and_then(|metadata| metadata.get("_quantization_metadata"));
    text.map_or(Ok(Map::new()), |text| Ok(serde_json::from_str::<Text>(text)?.layers))
}

/// Why a directory is not copied.
enum Unread {
    /// It has tensors: it is a checkpoint of its own.
    Tensors,
    /// It is larger than what belongs to a checkpoint, or may not be read.
    Other(String),
}

/// Lists the files below a directory, relative to `root`. Returns why they are not copied, if they are not.
fn files_below(
    root: &Path,
    directory: &Path,
    deepest: usize,
    files: &mut Vec<PathBuf>,
) -> Result<Option<Unread>> {
    const MOST_FILES: usize = 1000;
    let path = root.join(directory);
    let mut unread = None;
    // Such as `lost+found`.
    let is_closed = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    let closed =
        |path: &Path, error: &std::io::Error| Ok(Some(Unread::Other(format!("{}: {error}", path.display()))));
    let entries = match std::fs::read_dir(&path) {
        Err(error) if is_closed(&error) => return closed(directory, &error),
        entries => entries.map_err(on(&path))?,
    };
    for entry in entries {
        let there = entry.map_err(on(&path))?.path();
        let (name, file) = (source::file_name(&there), directory.join(there.file_name().unwrap_or_default()));
        if name.starts_with('.') {
            continue;
        }
        let found = match std::fs::metadata(&there) {
            Err(error) if is_closed(&error) => return closed(&file, &error),
            found => found.map_err(on(&there))?,
        };
        if has_tensors(&name) {
            return Ok(Some(Unread::Tensors));
        }
        if !found.is_dir() {
            files.extend(found.is_file().then_some(file));
        } else if deepest == 1 {
            unread = Some(Unread::Other(format!("directories in it lie more than {DEEPEST} deep")));
        } else {
            match files_below(root, &file, deepest - 1, files)? {
                Some(Unread::Other(what)) => unread = Some(Unread::Other(what)),
                Some(tensors) => return Ok(Some(tensors)),
                None => {}
            }
        }
        if files.len() > MOST_FILES {
            return Ok(Some(Unread::Other(format!("more than {MOST_FILES} files"))));
        }
    }
    Ok(unread)
}

/// Whether a file of this name is an index. Those of Diffusers' variants are called `x.safetensors.index.fp16.json`.
pub(crate) fn is_index(name: &str) -> bool {
    name.contains(".safetensors.index.") && name.ends_with(".json")
}

/// Splits a name such as `model-00001-of-00003.safetensors` into `model`, `00001` and `00003`.
pub(crate) fn numbered(name: &str) -> Option<[&str; 3]> {
    let (start, all) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (start, number) = start.rsplit_once('-')?;
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    (is_number(number) && is_number(all)).then_some([start, number, all])
}

/// Returns the name of a numbered file that is there, and that of one that is missing beside it, if one is.
fn missing_part(names: &[String]) -> Option<(String, String)> {
    let there: HashSet<&str> = names.iter().map(|name| &name[..]).collect();
    let mut known = HashSet::new();
    for name in names {
        let Some([start, number, all]) = numbered(name) else { continue };
        let (Ok(n), width) = (all.parse::<u64>(), number.len()) else { continue };
        if !known.insert((start, all, width)) {
            continue;
        }
        let part = |i: u64| format!("{start}-{i:0width$}-of-{all}.safetensors");
        // Numbers begin with 1 or, in some checkpoints, with 0.
        let first = u64::from(!there.contains(&part(0)[..]));
        let mut parts = (first..first.saturating_add(n)).map(part);
        if let Some(missing) = parts.find(|part| !there.contains(&part[..])) {
            return Some((name.clone(), missing));
        }
    }
    None
}

fn json(path: &Path) -> Result<Value> {
    let bytes = source::read_small(path, MOST)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::refused(format!("{}: not JSON: {error}", path.display())))
}
