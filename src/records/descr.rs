//! NumPy's texts for structured dtypes: type strings such as `(2,3)f8,i4`, lists of fields (`descr`), and the
//! dictionaries that it prints for fields at offsets that a list cannot express.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::dtype::{Field, ItemBase, ItemDType, MAX_LEVELS, StructDType};
use super::error::StructError;
use crate::numpy::OrderedDType;

/// How deep literals may be nested. The text of a dtype needs less: three levels for each record, and those of a pair of a dtype and a
/// shape, and of a title and a name.
const MAX_DEPTH: usize = 3 * MAX_LEVELS + 4;

/// A Python literal, and the byte at which it starts.
struct Literal {
    at: usize,
    value: Value,
}

enum Value {
    Str(String),
    Int(usize),
    Bool(bool),
    None,
    List(Vec<Literal>),
    Tuple(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
}

/// Parses literals. `at` is always a character boundary.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    #[inline(never)]
    fn error(&self, at: usize, needed: &'static str) -> StructError {
        StructError::Syntax { text: self.text.to_owned(), at, needed }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space, and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, wanted: char, needed: &'static str) -> Result<(), StructError> {
        if self.take(wanted) { Ok(()) } else { Err(self.error(self.at, needed)) }
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, StructError> {
        let next = self.peek();
        let at = self.at;
        if depth > MAX_DEPTH {
            return Err(self.error(at, "a literal with fewer levels"));
        }
        let value = match next {
            Some(quote @ ('\'' | '"')) => Value::Str(self.string(quote)?),
            Some('[') => Value::List(self.sequence(']', depth)?.0),
            Some('(') => match self.sequence(')', depth)? {
                // Parentheses around one value without a comma are not a tuple.
                (mut one, false) if one.len() == 1 => one.remove(0).value,
                (items, _) => Value::Tuple(items),
            },
            Some('{') => Value::Dict(self.dict(depth)?),
            Some('0'..='9') => {
                let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
                let number = self.rest()[..digits].parse().map_err(|_| StructError::TooLarge)?;
                self.at += digits;
                Value::Int(number)
            }
            _ => {
                let words =
                    [("True", Value::Bool(true)), ("False", Value::Bool(false)), ("None", Value::None)];
                let found = words.into_iter().find(|(word, _)| self.rest().starts_with(word));
                let (word, value) = found.ok_or_else(|| self.error(at, "a Python literal"))?;
                self.at += word.len();
                value
            }
        };
        Ok(Literal { at, value })
    }

    /// Parses the items in brackets, and returns whether there was a comma.
    fn sequence(&mut self, close: char, depth: usize) -> Result<(Vec<Literal>, bool), StructError> {
        self.at += 1;
        let (mut items, mut comma) = (Vec::new(), false);
        while !self.take(close) {
            if !items.is_empty() {
                self.expect(',', "a comma or the end of the list")?;
                comma = true;
                if self.take(close) {
                    break;
                }
            }
            items.push(self.literal(depth + 1)?);
        }
        Ok((items, comma))
    }

    fn dict(&mut self, depth: usize) -> Result<Vec<(Literal, Literal)>, StructError> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.take('}') {
            if !items.is_empty() {
                self.expect(',', "a comma or the end of the dictionary")?;
                if self.take('}') {
                    break;
                }
            }
            let key = self.literal(depth + 1)?;
            self.expect(':', "a colon")?;
            items.push((key, self.literal(depth + 1)?));
        }
        Ok(items)
    }

    fn string(&mut self, quote: char) -> Result<String, StructError> {
        let start = self.at;
        self.at += 1;
        let mut string = String::new();
        loop {
            let next = self
                .rest()
                .chars()
                .next()
                .ok_or_else(|| self.error(start, "a string with a closing quote"))?;
            self.at += next.len_utf8();
            match next {
                _ if next == quote => return Ok(string),
                '\\' => string.push(self.escape()?),
                _ => string.push(next),
            }
        }
    }

    /// Parses what follows a backslash.
    fn escape(&mut self) -> Result<char, StructError> {
        let needed = "an escape sequence of Python";
        let at = self.at;
        let code = self.rest().chars().next().ok_or_else(|| self.error(at, needed))?;
        self.at += code.len_utf8();
        let digits = match code {
            '\\' | '\'' | '"' => return Ok(code),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Err(self.error(at, needed)),
        };
        let hex = self.rest().get(..digits).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let number = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        self.at += digits;
        number.and_then(char::from_u32).ok_or_else(|| self.error(at, needed))
    }

    /// Makes a dtype of any literal that NumPy takes for one.
    fn item(&self, literal: &Literal) -> Result<ItemDType, StructError> {
        match &literal.value {
            Value::Str(string) => type_string(string),
            Value::List(fields) => Ok(self.list(fields)?.into()),
            Value::Dict(items) => Ok(self.dictionary(literal.at, items)?.into()),
            Value::Tuple(pair) => match &pair[..] {
                [base, shape] => self.item(base)?.array(&self.shape(shape)?),
                _ => Err(self.error(literal.at, "a pair of a dtype and a shape")),
            },
            _ => Err(self.error(literal.at, "a dtype")),
        }
    }

    fn shape(&self, literal: &Literal) -> Result<Vec<usize>, StructError> {
        match &literal.value {
            Value::Int(n) => Ok(vec![*n]),
            Value::Tuple(items) => items.iter().map(|item| self.int(item)).collect(),
            _ => Err(self.error(literal.at, "a shape")),
        }
    }

    fn int(&self, literal: &Literal) -> Result<usize, StructError> {
        match literal.value {
            Value::Int(n) => Ok(n),
            _ => Err(self.error(literal.at, "a number")),
        }
    }

    fn str<'l>(&self, literal: &'l Literal) -> Result<&'l str, StructError> {
        match &literal.value {
            Value::Str(string) => Ok(string),
            _ => Err(self.error(literal.at, "a string")),
        }
    }

    fn items<'l>(&self, literal: &'l Literal) -> Result<&'l [Literal], StructError> {
        match &literal.value {
            Value::List(items) | Value::Tuple(items) => Ok(items),
            _ => Err(self.error(literal.at, "a list")),
        }
    }

    /// `[(name, dtype), (name, dtype, shape), ((title, name), dtype), ('', '|V3'), ...]`
    fn list(&self, entries: &[Literal]) -> Result<StructDType, StructError> {
        let mut fields: Vec<Field> = Vec::new();
        let mut end = 0usize;
        for entry in entries {
            let needed = "a tuple of a name, a dtype and at most a shape";
            let Value::Tuple(parts) = &entry.value else { return Err(self.error(entry.at, needed)) };
            let (name, dtype, shape) = match &parts[..] {
                [name, dtype] => (name, dtype, None),
                [name, dtype, shape] => (name, dtype, Some(shape)),
                _ => return Err(self.error(entry.at, needed)),
            };
            let (title, name) = match &name.value {
                Value::Tuple(pair) => match &pair[..] {
                    [title, name] => (Some(self.str(title)?.to_owned()), self.str(name)?),
                    _ => return Err(self.error(name.at, "a pair of a title and a name")),
                },
                _ => (None, self.str(name)?),
            };
            if let (true, Some(padding)) = (name.is_empty(), padding(dtype)) {
                end = end.checked_add(padding).ok_or(StructError::TooLarge)?;
                continue;
            }
            let dtype = self.item(dtype)?;
            let dtype = match shape {
                Some(shape) => dtype.array(&self.shape(shape)?)?,
                None => dtype,
            };
            let name = if name.is_empty() { format!("f{}", fields.len()) } else { name.to_owned() };
            let offset = end;
            end = end.checked_add(dtype.itemsize).ok_or(StructError::TooLarge)?;
            fields.push(Field { name, title, offset, dtype });
        }
        StructDType::with_offsets(fields, end)
    }

    /// `{'names': [..], 'formats': [..], 'offsets': [..], 'titles': [..], 'itemsize': n, 'aligned': True}`
    fn dictionary(&self, at: usize, items: &[(Literal, Literal)]) -> Result<StructDType, StructError> {
        let mut values = [const { None }; 6];
        for (key, value) in items {
            let keys = ["names", "formats", "offsets", "titles", "itemsize", "aligned"];
            let known = self.str(key)?;
            let index = keys.iter().position(|key| *key == known);
            let index = index.ok_or_else(|| {
                self.error(key.at, "one of names, formats, offsets, titles, itemsize and aligned")
            })?;
            values[index] = Some(value);
        }
        let [Some(names), Some(formats), offsets, titles, itemsize, aligned] = values else {
            return Err(self.error(at, "a dictionary with names and formats"));
        };
        let (names, formats) = (self.items(names)?, self.items(formats)?);
        let offsets = offsets.map(|offsets| self.items(offsets)).transpose()?;
        let titles = titles.map(|titles| self.items(titles)).transpose()?;
        let all = [Some(formats), offsets, titles];
        if all.into_iter().flatten().any(|list| list.len() != names.len()) {
            return Err(self.error(at, "a dictionary of lists of the same length"));
        }
        let aligned = match aligned.map(|literal| (&literal.value, literal.at)) {
            None => false,
            Some((Value::Bool(aligned), _)) => *aligned,
            Some((_, at)) => return Err(self.error(at, "True or False")),
        };
        let mut parts = Vec::with_capacity(names.len());
        for (i, (name, format)) in names.iter().zip(formats).enumerate() {
            let title = match titles.map(|titles| &titles[i]) {
                None | Some(Literal { value: Value::None, .. }) => None,
                Some(title) => Some(self.str(title)?.to_owned()),
            };
            parts.push((self.str(name)?.to_owned(), title, self.item(format)?));
        }
        // NumPy aligns all records within an aligned one.
        if aligned && offsets.is_none() {
            for (.., dtype) in &mut parts {
                dtype.align()?;
            }
        }
        let mut record = StructDType::in_sequence(parts, aligned)?;
        if let Some(offsets) = offsets {
            let mut largest = 1;
            record.itemsize = 0;
            for (i, field) in record.fields.iter_mut().enumerate() {
                field.offset = self.int(&offsets[i])?;
                if aligned {
                    // But where NumPy prints one, it does not say which records in it are aligned: those for which there is room.
                    let mut within = field.dtype.clone();
                    within.align()?;
                    let end = match offsets.get(i + 1).or(itemsize) {
                        Some(end) => self.int(end)?,
                        None => usize::MAX,
                    };
                    let size = itemsize.map_or(Ok(0), |itemsize| self.int(itemsize))?;
                    if (field.offset | size).is_multiple_of(within.alignment())
                        && field.offset.checked_add(within.itemsize).is_some_and(|size| size <= end)
                    {
                        field.dtype = within;
                    }
                    if !field.offset.is_multiple_of(field.dtype.alignment()) {
                        return Err(StructError::Misaligned { field: field.name.clone() });
                    }
                    largest = largest.max(field.dtype.alignment());
                }
                let end = field.offset.checked_add(field.dtype.itemsize).ok_or(StructError::TooLarge)?;
                record.itemsize = record.itemsize.max(end);
            }
            record.itemsize =
                record.itemsize.checked_next_multiple_of(largest).ok_or(StructError::TooLarge)?;
        }
        if let Some(itemsize) = itemsize {
            record.itemsize = self.int(itemsize)?;
            if !record.itemsize.is_multiple_of(record.alignment()) {
                return Err(self.error(itemsize.at, "a multiple of the alignment"));
            }
        }
        StructDType::checked(record.fields, record.itemsize, aligned)
    }
}

/// The bytes of padding such as `'|V3'`, which NumPy's `descr` has for gaps.
fn padding(dtype: &Literal) -> Option<usize> {
    let Value::Str(string) = &dtype.value else { return None };
    string.strip_prefix('|').unwrap_or(string).strip_prefix('V')?.parse().ok()
}

/// Parses `f4`, `3f4` or `(2,3)f4`, or several of them separated by commas, which are a record.
fn type_string(text: &str) -> Result<ItemDType, StructError> {
    let mut depth = 0i32;
    let mut pieces: Vec<&str> = text
        .split(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && depth == 0
        })
        .collect();
    if let [one] = pieces[..] {
        return piece(one);
    }
    // A comma at the end makes even a single item a record.
    if pieces.last().is_some_and(|last| last.trim().is_empty()) {
        pieces.pop();
    }
    let fields = pieces.into_iter().enumerate();
    let fields = fields.map(|(i, text)| Ok((format!("f{i}"), piece(text.trim())?)));
    Ok(StructDType::packed(fields.collect::<Result<Vec<_>, StructError>>()?)?.into())
}

fn piece(text: &str) -> Result<ItemDType, StructError> {
    let mut parser = Parser { text, at: 0 };
    let shape = match text.as_bytes().first() {
        Some(b'(' | b'0'..=b'9') => {
            let literal = parser.literal(0)?;
            parser.peek();
            parser.shape(&literal)?
        }
        _ => Vec::new(),
    };
    ItemDType::from(parser.rest().parse::<OrderedDType>()?).array(&shape)
}

impl FromStr for ItemDType {
    type Err = StructError;

    /// Parses a type string, or the text of `descr` or `str` of a dtype in NumPy.
    fn from_str(text: &str) -> Result<Self, StructError> {
        // A unit of time, as in `M8[s]`, is not a list.
        let begins = text.trim_start().starts_with(['\'', '"', '[', '{', '(']);
        if !begins || !text.contains(['\'', '"', '[', '{']) {
            return type_string(text);
        }
        let mut parser = Parser { text, at: 0 };
        let literal = parser.literal(0)?;
        match parser.peek() {
            None => parser.item(&literal),
            Some(_) => Err(parser.error(parser.at, "the end of the text")),
        }
    }
}

impl FromStr for StructDType {
    type Err = StructError;

    /// Parses what [`ItemDType`] parses, if it is a single record.
    fn from_str(text: &str) -> Result<Self, StructError> {
        match text.parse()? {
            ItemDType { base: ItemBase::Record(record), shape, .. } if shape.is_empty() => Ok(record),
            _ => Err(StructError::Syntax { text: text.to_owned(), at: 0, needed: "a record" }),
        }
    }
}

/// Prints a string as Python's `repr` does.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains('\'') && !self.0.contains('"') { '"' } else { '\'' };
        write!(f, "{quote}")?;
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c == quote => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\x{:02x}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        write!(f, "{quote}")
    }
}

/// `(2,)`, `(2, 3)`
struct Tuple<'a>(&'a [usize]);

impl fmt::Display for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<_> = self.0.iter().map(usize::to_string).collect();
        write!(f, "({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
    }
}

/// Prints an item as in a list of fields: a type string with its quotes, or a record.
struct Base<'a>(&'a ItemBase);

impl fmt::Display for Base<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ItemBase::Element(element) => write!(f, "'{element}'"),
            ItemBase::Record(record) => write!(f, "{record}"),
        }
    }
}

impl StructDType {
    /// Returns the text of NumPy's `descr`: a list of fields, with entries such as `('', '|V3')` for a gap of
    /// three bytes.
    ///
    /// ```
    /// let record: lanecast::records::StructDType = "2i4,f8".parse()?;
    /// assert_eq!(record.descr()?, "[('f0', '<i4', (2,)), ('f1', '<f8')]");
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fields overlap, are not in the order of their offsets, or have an empty name.
    pub fn descr(&self) -> Result<String, StructError> {
        let mut entries = Vec::new();
        let mut end = 0;
        for Field { name, title, offset, dtype } in &self.fields {
            if name.is_empty() {
                return Err(StructError::NoName);
            }
            let gap = offset.checked_sub(end).ok_or_else(|| StructError::NoDescr { field: name.clone() })?;
            if gap > 0 {
                entries.push(format!("('', '|V{gap}')"));
            }
            let name = match title {
                Some(title) => format!("({}, {})", Quoted(title), Quoted(name)),
                None => Quoted(name).to_string(),
            };
            let base = match &dtype.base {
                ItemBase::Record(record) => record.descr()?,
                element => Base(element).to_string(),
            };
            entries.push(match &dtype.shape[..] {
                [] => format!("({name}, {base})"),
                shape => format!("({name}, {base}, {})", Tuple(shape)),
            });
            end = offset + dtype.itemsize;
        }
        if end < self.itemsize {
            entries.push(format!("('', '|V{}')", self.itemsize - end));
        }
        Ok(format!("[{}]", entries.join(", ")))
    }
}

impl fmt::Display for StructDType {
    /// Prints the list of fields, or NumPy's dictionary if there is no list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(descr) = self.descr() {
            return f.write_str(&descr);
        }
        let list = |text: &dyn Fn(&Field) -> String| -> String {
            self.fields.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        write!(f, "{{'names': [{}], ", list(&|field| Quoted(&field.name).to_string()))?;
        let format = |dtype: &ItemDType| match &dtype.shape[..] {
            [] => Base(&dtype.base).to_string(),
            _ => dtype.to_string(),
        };
        write!(f, "'formats': [{}], ", list(&|field| format(&field.dtype)))?;
        write!(f, "'offsets': [{}], ", list(&|field| field.offset.to_string()))?;
        if self.fields.iter().any(|field| field.title.is_some()) {
            let title =
                |field: &Field| field.title.as_ref().map_or("None".to_owned(), |t| Quoted(t).to_string());
            write!(f, "'titles': [{}], ", list(&title))?;
        }
        write!(f, "'itemsize': {}}}", self.itemsize)
    }
}

impl fmt::Display for ItemDType {
    /// Prints a type string, the text of a record, or a tuple of either and a shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.base, &self.shape[..]) {
            (ItemBase::Element(element), []) => write!(f, "{element}"),
            (base, []) => write!(f, "{}", Base(base)),
            (base, shape) => write!(f, "({}, {})", Base(base), Tuple(shape)),
        }
    }
}
