//! The header of a safetensors file: checked when it is read, and written as the library safetensors writes it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{self, DeserializeSeed, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::error::{Failure, Result};
use crate::source::Source;

/// The size of the largest header that the library reads.
const MOST: u64 = 100_000_000;

/// Returns what a file is that is not safetensors, but of a kind that people try, and what to do with it.
fn foreign(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const PICKLED: &str = "if you trust it, load it with torch.load(.., weights_only=True), and write it with safetensors.torch.save_file";
    const ALL: [(&[u8], &str, &str); 13] = [
        (
            b"version https://git-lfs",
            "a Git LFS pointer in place of the file",
            "`git lfs pull` fetches the file",
        ),
        (b"GGUF", "a GGUF file", "convert the safetensors files that it was made from"),
        (b"PK\x03\x04", "a zip archive, as torch.save and numpy.savez write them", PICKLED),
        (b"\x80\x02", "a pickle, as torch.save wrote them", PICKLED),
        (b"\x80\x03", "a pickle", PICKLED),
        (b"\x80\x04", "a pickle", PICKLED),
        (b"\x80\x05", "a pickle", PICKLED),
        (b"\x93NUMPY", "a .npy file", "`lanecast cast` casts arrays"),
        (b"\x89HDF", "an HDF5 file", "write its tensors with safetensors first"),
        (
            b"<!DOCTYPE",
            "a page of HTML",
            "the download returned a web page in place of the file: fetch it again",
        ),
        (
            b"<!doctype",
            "a page of HTML",
            "the download returned a web page in place of the file: fetch it again",
        ),
        (b"<html", "a page of HTML", "the download returned a web page in place of the file: fetch it again"),
        (
            b"{",
            "JSON",
            "name the directory, or a safetensors file, in place of the index or the configuration",
        ),
    ];
    ALL.iter().find(|(first, ..)| head.starts_with(first)).map(|&(_, what, help)| (what, help))
}

/// A header that was checked.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    /// The tensors, in the order of their data.
    pub(crate) tensors: Vec<(String, TensorInfo)>,
    /// The offset at which the data begin.
    pub(crate) data: u64,
    /// The bytes of the header, its length included.
    pub(crate) raw: Vec<u8>,
}

struct Entries {
    metadata: Option<BTreeMap<String, String>>,
    tensors: Vec<(String, TensorInfo)>,
}

/// Reads a map of strings, in which no key may occur twice.
struct Texts;

impl<'de> Visitor<'de> for Texts {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, String>()? {
            if texts.contains_key(&key) {
                return Err(de::Error::custom(format!("the key \"{key}\" occurs twice")));
            }
            texts.insert(key, value);
        }
        Ok(texts)
    }
}

impl<'de> DeserializeSeed<'de> for Texts {
    type Value = BTreeMap<String, String>;

    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> std::result::Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

/// Reads a map of strings in which no key occurs twice, or null, which the library takes for none.
struct SomeTexts;

impl<'de> Visitor<'de> for SomeTexts {
    type Value = Option<BTreeMap<String, String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Texts.expecting(f)
    }

    fn visit_none<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: de::Deserializer<'de>>(self, d: D) -> std::result::Result<Self::Value, D::Error> {
        Texts.deserialize(d).map(Some)
    }
}

impl<'de> DeserializeSeed<'de> for SomeTexts {
    type Value = Option<BTreeMap<String, String>>;

    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> std::result::Result<Self::Value, D::Error> {
        d.deserialize_option(self)
    }
}

/// Reads tensors and metadata, in which no key may occur twice: the library would take the last of two equal keys.
struct NoTwins;

impl<'de> Visitor<'de> for NoTwins {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Entries, A::Error> {
        let mut entries = Entries { metadata: None, tensors: Vec::new() };
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(de::Error::custom(format!("the key \"{key}\" occurs twice")));
            }
            if key == "__metadata__" {
                entries.metadata = map.next_value_seed(SomeTexts)?;
            } else {
                let info = map.next_value().map_err(|error| de::Error::custom(format!("{key}: {error}")))?;
                entries.tensors.push((key, info));
            }
        }
        Ok(entries)
    }
}

fn parse_entries(text: &[u8]) -> serde_json::Result<Entries> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let entries = de::Deserializer::deserialize_map(&mut json, NoTwins)?;
    json.end()?;
    Ok(entries)
}

/// Reads a map of strings, the `weight_map` of an index, in which no key may occur twice either.
pub(crate) fn texts_without_twins(json: &str) -> serde_json::Result<BTreeMap<String, String>> {
    let mut json = serde_json::Deserializer::from_str(json);
    Texts.deserialize(&mut json)
}

impl Header {
    /// Reads and checks the header of a file.
    pub(crate) fn read(source: &dyn Source, file: &str) -> Result<Self> {
        let bad = |what: String| {
            Failure::refused(format!("{file}: {what}"))
                .help("fetch the file again: it is incomplete, damaged, or not a safetensors file")
        };
        let len = source.len();
        let failed = |error: std::io::Error| Failure::io(file.as_ref(), &error);
        let mut head = vec![0; len.min(32) as usize];
        source.read_at(&mut head, 0).map_err(failed)?;
        let bad = |what: String| match foreign(&head) {
            Some((what, help)) => Failure::refused(format!("{file}: {what}, not safetensors")).help(help),
            None => bad(what),
        };
        if len < 8 {
            return Err(bad(format!("the file has {len} bytes; a safetensors file has at least 8")));
        }
        let mut first = [0; 8];
        source.read_at(&mut first, 0).map_err(failed)?;
        let text = u64::from_le_bytes(first);
        if text > MOST {
            return Err(bad(format!("the header takes {text} bytes; at most {MOST} are read")));
        }
        if text > len - 8 {
            return Err(bad(format!("the header takes {text} bytes; the file has {len}")));
        }
        let mut raw = vec![0; 8 + text as usize];
        source.read_at(&mut raw, 0).map_err(failed)?;
        let (metadata, tensors) = Self::parse(&raw[8..], len - 8 - text).map_err(bad)?;
        Ok(Self { metadata, tensors, data: 8 + text, raw })
    }

    /// Checks the text of a header, which is followed by a number of bytes of data.
    fn parse(
        text: &[u8],
        data: u64,
    ) -> std::result::Result<(Option<BTreeMap<String, String>>, Infos), String> {
        std::str::from_utf8(text).map_err(|error| format!("the header is not UTF-8: {error}"))?;
        let Entries { metadata, mut tensors } =
            parse_entries(text).map_err(|error| format!("the header: {error}"))?;
        tensors.sort_by_key(|(_, info)| info.data_offsets);
        let mut end = 0;
        for (name, info) in &tensors {
            let (from, to) = info.data_offsets;
            if from != end {
                let how = if from < end { "overlap" } else { "leave a hole after" };
                return Err(format!(
                    "{name}: its data, bytes {from} to {to}, {how} the preceding data, which end at {end}"
                ));
            }
            let bytes = info
                .shape
                .iter()
                .try_fold(1usize, |n, &length| n.checked_mul(length))
                .and_then(|n| n.checked_mul(info.dtype.bitsize()))
                .ok_or_else(|| format!("{name}: the shape {:?} overflows", info.shape))?;
            if bytes % 8 != 0 {
                return Err(format!(
                    "{name}: {:?} of {} is not a whole number of bytes",
                    info.shape, info.dtype
                ));
            }
            if to.checked_sub(from) != Some(bytes / 8) {
                let there = to as i128 - from as i128;
                let (shape, dtype) = (&info.shape, info.dtype);
                return Err(format!(
                    "{name}: {shape:?} of {dtype} takes {} bytes; its offsets span {there}",
                    bytes / 8
                ));
            }
            end = to;
        }
        if end as u64 != data {
            return Err(format!("the tensors take {end} bytes; the file has {data} for them"));
        }
        // It must be valid for the library, too.
        let all = metadata.clone().map(|metadata| metadata.into_iter().collect());
        Metadata::new(all, tensors.clone()).map_err(|error| error.to_string())?;
        Ok((metadata, tensors))
    }
}

/// Tensors, in the order of their data.
type Infos = Vec<(String, TensorInfo)>;

/// Serialises a header as the library does, but with the metadata sorted.
struct Written<'a, I> {
    metadata: Option<&'a BTreeMap<String, String>>,
    tensors: I,
}

impl<'a, I: Iterator<Item = (&'a str, Dtype, &'a [usize])> + Clone> Serialize for Written<'a, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(metadata) = self.metadata {
            map.serialize_entry("__metadata__", metadata)?;
        }
        let mut offset = 0;
        for (name, dtype, shape) in self.tensors.clone() {
            let end = offset + byte_len(dtype, shape) as usize;
            let info = TensorInfo { dtype, shape: shape.to_vec(), data_offsets: (offset, end) };
            map.serialize_entry(name, &info)?;
            offset = end;
        }
        map.end()
    }
}

/// Returns the bytes of a header, padded to a multiple of 8. Tensors come in the order of the library: from the last dtype to the first,
/// and then by name. Their data follow in that order, without gaps.
pub(crate) fn write<'a>(
    metadata: Option<&'a BTreeMap<String, String>>,
    tensors: impl Iterator<Item = (&'a str, Dtype, &'a [usize])> + Clone,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 8];
    serde_json::to_writer(&mut bytes, &Written { metadata, tensors })
        .map_err(|error| Failure::system(format!("the header cannot be written: {error}")))?;
    let padded = (bytes.len() - 8).next_multiple_of(8);
    if padded as u64 > MOST {
        return Err(Failure::refused(format!(
            "the header would take {padded} bytes: too many tensors for one file"
        ))
        .help("--shard-size divides the tensors of a directory into more files"));
    }
    bytes[..8].copy_from_slice(&(padded as u64).to_le_bytes());
    bytes.resize(8 + padded, b' ');
    Ok(bytes)
}

/// Returns how many bytes a tensor has, whose shape was checked.
pub(crate) fn byte_len(dtype: Dtype, shape: &[usize]) -> u64 {
    (shape.iter().product::<usize>() as u64 * dtype.bitsize() as u64) / 8
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn refused(text: &str, data: u64) -> String {
        Header::parse(text.as_bytes(), data).unwrap_err()
    }

    /// As the library has it.
    #[test]
    fn metadata_may_be_null() {
        let text = br#"{"__metadata__":null}"#;
        assert_eq!(Header::parse(text, 0).unwrap().0, None);
        let file = [&[21, 0, 0, 0, 0, 0, 0, 0], &text[..]].concat();
        assert!(safetensors::SafeTensors::deserialize(&file).is_ok());
        let some = Header::parse(br#"{"__metadata__":{"a":"b"}}"#, 0).unwrap().0.unwrap();
        assert_eq!(some["a"], "b");
    }

    #[test]
    fn hostile_headers_are_refused() {
        let two = |a: &str, b: &str| {
            format!(
                r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{a}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{b}}}}}"#
            )
        };
        assert!(Header::parse(two("[0,4]", "[4,8]").as_bytes(), 8).is_ok());
        assert!(refused(&two("[0,4]", "[4,8]"), 9).contains("9 for them"));
        assert!(refused(&two("[0,4]", "[4,8]"), 7).contains("7 for them"));
        assert!(refused(&two("[0,4]", "[2,6]"), 6).contains("overlap"));
        assert!(refused(&two("[0,4]", "[0,4]"), 4).contains("overlap"));
        assert!(refused(&two("[0,4]", "[5,9]"), 9).contains("hole"));
        assert!(
            refused(&two("[4,0]", "[4,8]"), 8).starts_with('a')
                || refused(&two("[4,0]", "[4,8]"), 8).contains('b')
        );
        assert!(refused(&two("[0,4]", "[-4,8]"), 8).starts_with("the header: b"));
        assert!(refused(&two("[0,4]", "[4,8.5]"), 8).starts_with("the header: b"));
        assert!(refused(&two("[0,4]", "[4,1e3]"), 8).starts_with("the header: b"));
        assert!(refused(&two("[0,4]", "[4,99999999999999999999]"), 8).starts_with("the header: b"));
        assert!(refused(r#"{"a":{"dtype":"U9","shape":[4],"data_offsets":[0,4]}}"#, 4).contains("U9"));
        let huge = r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#;
        assert!(refused(huge, 0).contains("overflows"));
        assert!(
            refused(r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#, 1).contains("whole number")
        );
        let twin = r#""a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
        assert!(refused(&format!("{{{twin},{twin}}}"), 4).contains("twice"));
        assert!(refused(r#"{"__metadata__":{"k":"1","k":"1"}}"#, 0).contains("twice"));
        assert!(refused(r#"{"__metadata__":{"k":1}}"#, 0).contains("the header"));
        assert!(refused(r#"{"__metadata__":1}"#, 0).contains("the header"));
        assert!(refused(&"[".repeat(100_000), 0).contains("the header"));
        let deep = format!(r#"{{"a":{}}}"#, r#"{"x":"#.repeat(100_000));
        assert!(refused(&deep, 0).contains("the header"));
        assert!(Header::parse(b"\xFF{}", 0).unwrap_err().contains("UTF-8"));
        assert!(refused("{} x", 0).contains("the header"));
    }

    /// A damaged header is an error, or another valid header, whose tensors are within the file.
    #[test]
    fn damaged_headers_and_indexes_are_errors() {
        let header = r#"{"__metadata__":{"format":"pt"},"a.b":{"dtype":"BF16","shape":[2,4],"data_offsets":[0,16]},"c":{"dtype":"F8_E4M3","shape":[],"data_offsets":[16,17]},"d":{"dtype":"F4","shape":[0,3],"data_offsets":[17,17]},"\u00e9":{"dtype":"I64","shape":[1,1],"data_offsets":[17,25]}}"#;
        let index =
            r#"{"a.b":"model-00001-of-00002.safetensors","c":"../x","d":"model-00002-of-00002.safetensors"}"#;
        assert!(Header::parse(header.as_bytes(), 25).is_ok());
        let mut state = 1u64;
        let mut random = move |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        const PARTS: [&[u8]; 12] = [
            b"\"",
            b"{",
            b"[",
            b"]",
            b"}",
            b",",
            b"-1",
            b"99999999999999999999",
            b"1e9",
            b"null",
            b"\\u0000",
            b"\xFF",
        ];
        let (mut good, mut bad) = (0, 0);
        for _ in 0..30_000 {
            let mut text = header.as_bytes().to_vec();
            let mut names = index.as_bytes().to_vec();
            for text in [&mut text, &mut names] {
                for _ in 0..=random(3) {
                    let at = random(text.len());
                    match random(4) {
                        0 => text[at] = random(256) as u8,
                        1 => text[at] ^= 1 << random(8),
                        2 => drop(text.splice(at..at, PARTS[random(PARTS.len())].iter().copied())),
                        _ => drop(text.drain(at..(at + random(40)).min(text.len()))),
                    }
                }
            }
            match Header::parse(&text, 25) {
                Err(_) => bad += 1,
                Ok((_, tensors)) => {
                    good += 1;
                    for (name, info) in tensors {
                        let (from, to) = info.data_offsets;
                        assert!(from <= to && to <= 25, "{name}");
                        assert_eq!(byte_len(info.dtype, &info.shape), (to - from) as u64, "{name}");
                    }
                }
            }
            let _ = std::str::from_utf8(&names).map(texts_without_twins);
        }
        assert!(good > 100 && bad > 10_000, "{good} {bad}");
    }

    #[test]
    fn what_is_written_is_what_the_library_writes() {
        use safetensors::tensor::TensorView;
        let data = [7; 64];
        let shapes: Vec<(&str, Dtype, Vec<usize>)> = vec![
            ("b\"\u{e9}", Dtype::F32, vec![2, 4]),
            ("a", Dtype::BF16, vec![16]),
            ("c", Dtype::F8_E4M3, vec![]),
            ("z", Dtype::F32, vec![0, 3]),
            ("y", Dtype::F4, vec![6]),
        ];
        let views = shapes.iter().map(|(name, dtype, shape)| {
            (
                *name,
                TensorView::new(*dtype, shape.clone(), &data[..byte_len(*dtype, shape) as usize]).unwrap(),
            )
        });
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let theirs = safetensors::serialize(views, Some(metadata)).unwrap();
        let mut ours: Vec<_> = shapes.iter().map(|(n, d, s)| (*n, *d, &s[..])).collect();
        ours.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        let header = write(Some(&metadata), ours.into_iter()).unwrap();
        assert_eq!(header, theirs[..header.len()]);
    }
}
