//! Structured dtypes against NumPy's recorded answers, and record casts against a plain loop over every
//! element.

#![cfg(feature = "records")]

mod recorded;

use std::collections::{BTreeMap, HashSet};

use lanecast::{numpy::*, promotion::*, records::*, *};
use proptest::prelude::*;
use recorded::rows;

fn item(text: &str) -> ItemDType {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn record(text: &str) -> StructDType {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn level(name: &str) -> Option<Casting> {
    (name != "-").then(|| name.parse().unwrap())
}

/// NumPy has no same_value between dtypes, and gives unsafe.
fn as_numpy_says(level: Option<Casting>) -> Option<Casting> {
    level.map(|level| if level == Casting::SameValue { Casting::Unsafe } else { level })
}

fn check_level(a: &ItemDType, b: &ItemDType, expected: &str) {
    assert_eq!(as_numpy_says(a.casting_to(b)), level(expected), "{a} -> {b}");
    for asked in Casting::ALL {
        assert_eq!(a.can_cast(b, asked), a.casting_to(b).is_some_and(|needed| needed <= asked), "{a} -> {b}");
    }
}

fn check_promotion(a: &ItemDType, b: &ItemDType, expected: &str) {
    let got = a.promote(b, &Rules::NUMPY).ok();
    assert_eq!(got, (expected != "-").then(|| recorded_item(expected)), "{a}, {b}");
}

/// Parses an item that was recorded on a little-endian machine, where `<` is the native order, as if on this machine.
fn recorded_item(text: &str) -> ItemDType {
    if cfg!(target_endian = "little") {
        return item(text);
    }
    let mirrored = |c| match c {
        '<' => '>',
        '>' => '<',
        c => c,
    };
    item(&text.chars().map(mirrored).collect::<String>())
}

#[test]
fn the_recorded_structures() {
    let mut seen = 0;
    for row in rows("item") {
        let [text, itemsize, alignment, native, offsets, descr, swapped] = row[..] else { panic!("{row:?}") };
        let dtype = item(text);
        assert_eq!(dtype.to_string().parse(), Ok(dtype.clone()), "{text}");
        if itemsize == "-" {
            continue;
        }
        let dtype = record(text);
        assert_eq!(dtype.to_string().parse(), Ok(dtype.clone()), "{text}");
        assert_eq!(dtype.itemsize().to_string(), itemsize, "{text}");
        assert_eq!(dtype.alignment().to_string(), alignment, "{text}");
        let found: Vec<_> = dtype.fields().iter().map(|field| field.offset.to_string()).collect();
        assert_eq!(found.join(","), offsets.replace('-', ""), "{text}");
        assert_eq!(dtype.descr().unwrap_or("-".to_owned()), descr, "{text}");
        // Recorded on a little-endian machine.
        if cfg!(target_endian = "little") {
            assert_eq!(u8::from(dtype.is_native()).to_string(), native, "{text}");
        }
        if dtype.is_native() {
            let other = if cfg!(target_endian = "little") { ByteOrder::Big } else { ByteOrder::Little };
            assert_eq!(dtype.new_byteorder(other), record(swapped), "{text}");
        }
        seen += 1;
    }
    assert!(seen >= 35, "{seen}");
}

#[test]
fn the_recorded_levels_and_promotions() {
    let items: Vec<ItemDType> = rows("item").into_iter().map(|row| recorded_item(row[0])).collect();
    let mut promotions: BTreeMap<(usize, usize), &str> = BTreeMap::new();
    for row in rows("promotes") {
        let [a, b, result] = row[..] else { panic!("{row:?}") };
        promotions.insert((a.parse().unwrap(), b.parse().unwrap()), result);
    }
    let mut cells = 0;
    for row in rows("levels") {
        let [a, levels] = row[..] else { panic!("{row:?}") };
        let a: usize = a.parse().unwrap();
        for (b, level) in levels.split(' ').enumerate() {
            check_level(&items[a], &items[b], level);
            let expected = promotions.remove(&(a, b)).unwrap_or("-");
            check_promotion(&items[a], &items[b], expected);
            cells += 1;
        }
    }
    assert_eq!(cells, items.len() * items.len());
    assert!(promotions.is_empty());
    for row in rows("pair") {
        let [a, b, level, promoted] = row[..] else { panic!("{row:?}") };
        let (a, b) = (recorded_item(a), recorded_item(b));
        check_level(&a, &b, level);
        check_promotion(&a, &b, promoted);
    }
}

/// The table of levels, case by case, as NumPy's documentation of structured dtypes groups them.
#[test]
fn what_decides_the_level() {
    let cases = [
        ("identical", "[('a','i4'),('b','f4')]", "[('a','i4'),('b','f4')]", "no"),
        ("widen each field", "[('a','i4'),('b','f4')]", "[('a','i8'),('b','f8')]", "safe"),
        ("narrow a field", "[('a','i8')]", "[('a','i4')]", "same_kind"),
        ("rename fields", "[('a','i4'),('b','f4')]", "[('x','i4'),('y','f4')]", "safe"),
        ("swapped order", "[('a','i4'),('b','i4')]", "[('b','i4'),('a','i4')]", "safe"),
        ("byte order", "[('a','<i4')]", "[('a','>i4')]", "equiv"),
        ("padding", "[('a','i1'),('b','i4')]", "[('a','i1'),('','|V3'),('b','i4')]", "equiv"),
        ("fewer fields", "[('a','i4'),('b','f4')]", "[('a','i4')]", "-"),
        ("more fields", "[('a','i4')]", "[('a','i4'),('b','f4')]", "-"),
        ("one field to an element", "[('a','i4')]", "f8", "unsafe"),
        ("two fields to an element", "[('a','i4'),('b','i4')]", "f8", "-"),
        ("an element to one field", "i4", "[('a','f8')]", "unsafe"),
        ("an element to two fields", "i4", "[('a','f8'),('b','f8')]", "unsafe"),
        ("float to integer", "[('a','f4')]", "[('a','i4')]", "same_value"),
        ("nested", "[('a',[('x','i4')])]", "[('a',[('x','i8')])]", "safe"),
        ("the same shape", "[('a','i4',(2,))]", "[('a','f8',(2,))]", "safe"),
        ("another shape", "[('a','i4',(2,))]", "[('a','f8',(3,))]", "unsafe"),
        ("an element to a sub-array", "[('a','i4')]", "[('a','i4',(2,))]", "safe"),
        ("titles", "[(('T','a'),'i4')]", "[('a','i4')]", "safe"),
        ("not of NumPy: float8", "[('a','float8_e5m2')]", "[('a','<f2')]", "safe"),
        ("not of NumPy: bfloat16", "[('a','bfloat16')]", "[('a','<f2')]", "same_kind"),
    ];
    for (case, from, to, expected) in cases {
        assert_eq!(item(from).casting_to(&item(to)), level(expected), "{case}");
    }
}

#[test]
fn every_recorded_record_cast() {
    let mut bytes = 0;
    for row in rows("record") {
        let [from, to, src, dst] = row[..] else { panic!("{row:?}") };
        let caster = RecordCaster::new(item(from), item(to), &CastOptions::numpy()).unwrap();
        let (src, dst) = (unhex(src), unhex(dst));
        let mut out = vec![0xA5; dst.len()];
        caster.cast(&src, &mut out, 3).unwrap();
        assert_eq!(out, dst, "{from} -> {to}");
        bytes += dst.len();
    }
    assert!(bytes > 10_000, "{bytes}");
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

/// The cast of one item, an element at a time: the meaning of [`RecordCaster`], without strides or tiles.
fn naive(from: &ItemDType, to: &ItemDType, src: &[u8], dst: &mut [u8]) {
    let one = |item: &ItemDType| match item.base() {
        ItemBase::Element(element) => ItemDType::from(*element),
        ItemBase::Record(record) => ItemDType::from(record),
    };
    let record = |item: &ItemDType| match item.base() {
        ItemBase::Record(record) if item.shape().is_empty() => Some(record.clone()),
        _ => None,
    };
    match (record(from), record(to)) {
        (Some(a), Some(b)) => {
            for (a, b) in a.fields().iter().zip(b.fields()) {
                naive(&a.dtype, &b.dtype, &src[a.offset..], &mut dst[b.offset..]);
            }
            return;
        }
        (None, Some(b)) => {
            for field in b.fields() {
                naive(from, &field.dtype, src, &mut dst[field.offset..]);
            }
            return;
        }
        (Some(a), None) => {
            return naive(&a.fields()[0].dtype, to, &src[a.fields()[0].offset..], dst);
        }
        (None, None) => {}
    }
    if let (ItemBase::Element(a), ItemBase::Element(b), [], []) =
        (from.base(), to.base(), from.shape(), to.shape())
    {
        let options = CastOptions::new().src_order(a.order()).dst_order(b.order());
        let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
        let (a, b) = (a.dtype(), b.dtype());
        return cast_bytes_with(&src[..a.itemsize()], a, &mut dst[..b.itemsize()], b, 1, &options).unwrap();
    }
    // For each item of the destination, the index of the item of the source that is cast to it.
    let (from_one, to_one) = (one(from), one(to));
    'items: for flat in 0..to.shape().iter().product() {
        let mut rest: usize = flat;
        let mut index = vec![0; to.shape().len()];
        for (place, n) in index.iter_mut().zip(to.shape()).rev() {
            *place = rest % n;
            rest /= n;
        }
        let mut source = 0;
        for (axis, &n) in from.shape().iter().enumerate() {
            let place = (axis + index.len()).checked_sub(from.shape().len()).map_or(0, |axis| index[axis]);
            let place = if n == 1 { 0 } else { place };
            if place >= n {
                continue 'items;
            }
            source = source * n + place;
        }
        let (src, dst) = (&src[source * from_one.itemsize()..], &mut dst[flat * to_one.itemsize()..]);
        naive(&from_one, &to_one, src, dst);
    }
}

/// Generates pairs of dtypes between which there is a cast.
fn item_pair(depth: u32) -> BoxedStrategy<(ItemDType, ItemDType)> {
    let element = || {
        (0..30u8, any::<bool>()).prop_map(|(code, big)| {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            OrderedDType::new(DType::from_code(code).unwrap(), order)
        })
    };
    let elements = (element(), element()).prop_map(|(a, b)| (ItemDType::from(a), ItemDType::from(b)));
    let shape = || prop::collection::vec(0..4usize, 0..3);
    let shapes =
        (shape(), shape(), any::<bool>()).prop_map(|(s, t, same)| (s.clone(), if same { s } else { t }));
    let shaped = |base: BoxedStrategy<(ItemDType, ItemDType)>| {
        (base, shapes.clone()).prop_map(|((a, b), (s, t))| (a.array(&s).unwrap(), b.array(&t).unwrap()))
    };
    if depth == 0 {
        return shaped(elements.boxed()).boxed();
    }
    // Only records of one field can be cast to another shape.
    let records = (record_pair(depth - 1), shape()).prop_map(|((a, b), s)| {
        (ItemDType::from(a).array(&s).unwrap(), ItemDType::from(b).array(&s).unwrap())
    });
    let repeated = (element(), record_pair(depth - 1)).prop_map(|(a, (_, b))| (a.into(), b.into()));
    let unwrapped = (item_pair(depth - 1), 0..5usize).prop_map(|((a, b), gap)| {
        let field = Field { name: "one".to_owned(), title: None, offset: gap, dtype: a };
        let itemsize = gap + field.dtype.itemsize();
        let is_record = matches!(b.base(), ItemBase::Record(_)) && b.shape().is_empty();
        let b = if is_record { b.array(&[2]).unwrap() } else { b };
        (StructDType::with_offsets(vec![field], itemsize).unwrap().into(), b)
    });
    let (elements, repeated, unwrapped) =
        (shaped(elements.boxed()), shaped(repeated.boxed()), shaped(unwrapped.boxed()));
    prop_oneof![4 => elements, 1 => records, 1 => repeated, 1 => unwrapped].boxed()
}

/// As NumPy 2.4 reads these texts: an aligned record aligns the records within it, and its size is a multiple of its alignment.
#[test]
fn records_within_aligned_ones_are_aligned() {
    for (text, size, offsets, within) in [
        (
            "'names': ['a', 'b'], 'formats': ['i1', [('x', 'i1'), ('y', '<i4')]], 'offsets': [0, 4], 'itemsize': 12",
            12,
            [0, 4],
            vec![0, 4],
        ),
        (
            "'names': ['a', 'b'], 'formats': ['i1', [('x', 'i1'), ('y', 'i4', (2,)), ('z', 'i1')]]",
            20,
            [0, 4],
            vec![0, 4, 12],
        ),
        ("'names': ['a', 'b'], 'formats': ['i1', 'i1,i4']", 12, [0, 4], vec![0, 4]),
        ("'names': ['a', 'b'], 'formats': ['i1', ('i1,i4', (2,))]", 20, [0, 4], vec![0, 4]),
        (
            "'names': ['a', 'b'], 'formats': ['i1', {'names': ['x', 'y'], 'formats': ['i1', 'i4'], 'aligned': False}]",
            12,
            [0, 4],
            vec![0, 4],
        ),
        ("'names': ['a', 'b'], 'formats': ['i4', 'i1'], 'offsets': [0, 4]", 8, [0, 4], vec![]),
    ] {
        let record: StructDType = format!("{{{text}, 'aligned': True}}").parse().unwrap();
        assert_eq!((record.itemsize(), record.alignment()), (size, 4), "{text}");
        let places: Vec<_> = record.fields().iter().map(|field| field.offset).collect();
        assert_eq!(places, offsets, "{text}");
        if let ItemBase::Record(inner) = record.fields()[1].dtype.base() {
            assert_eq!(inner.fields().iter().map(|field| field.offset).collect::<Vec<_>>(), within, "{text}");
        }
    }
    // An aligned record within a list that is not aligned is not placed at its alignment.
    let list: StructDType =
        "[('a', 'i1'), ('b', {'names': ['x', 'y'], 'formats': ['i1', 'i4'], 'aligned': True})]"
            .parse()
            .unwrap();
    assert_eq!((list.itemsize(), list.fields()[1].offset), (9, 1));
    // The size of a record that is not aligned says so.
    let packed: StructDType =
        "{'names': ['a', 'b'], 'formats': [[('x', 'u1', (2,)), ('y', '<f8')], '<i2'], 'offsets': [0, 10], 'itemsize': 12, 'aligned': True}".parse().unwrap();
    assert_eq!(packed.fields()[0].dtype.itemsize(), 10);
    assert!(
        "{'names': ['a'], 'formats': ['i4'], 'itemsize': 6, 'aligned': True}".parse::<StructDType>().is_err()
    );
    // Spaces behind a shape.
    for (text, same) in [("3 i4", "3i4"), ("(2,3)  f8", "(2,3)f8"), ("(2,)i4, 3 i2 , f4", "2i4,3i2,f4")] {
        assert_eq!(text.parse::<ItemDType>().unwrap(), same.parse().unwrap(), "{text}");
    }
}

/// Generates pairs of records with equally many fields: packed, aligned, or scattered with gaps and overlaps in any order.
fn record_pair(depth: u32) -> BoxedStrategy<(StructDType, StructDType)> {
    fn build(items: Vec<ItemDType>, layout: u8, gaps: &[usize], scatter: bool) -> StructDType {
        let named: Vec<_> = items.into_iter().enumerate().map(|(i, item)| (format!("f{i}"), item)).collect();
        match layout {
            0 => StructDType::packed(named).unwrap(),
            1 => StructDType::aligned(named).unwrap(),
            _ => {
                let mut end = 0;
                let mut fields: Vec<Field> = Vec::new();
                for ((name, dtype), gap) in named.into_iter().zip(gaps.iter().cycle()) {
                    // A scattered field may overlap others.
                    let offset = if scatter { *gap } else { end + gap };
                    end = end.max(offset + dtype.itemsize());
                    fields.push(Field { name, title: None, offset, dtype });
                }
                StructDType::with_offsets(fields, end + gaps[0]).unwrap()
            }
        }
    }
    let layout = || (0..4u8, prop::collection::vec(0..9usize, 3));
    (prop::collection::vec(item_pair(depth), 0..5), layout(), layout())
        .prop_map(|(items, (layout_a, gaps_a), (layout_b, gaps_b))| {
            let (a, b) = items.into_iter().unzip();
            (build(a, layout_a, &gaps_a, layout_a == 3), build(b, layout_b, &gaps_b, layout_b == 3))
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Casts of any record layouts give what the plain loop gives.
    #[test]
    fn record_casts_are_the_plain_loop((from, to) in record_pair(2), n in 0..40usize, seed in any::<u64>()) {
        let mut state = seed | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        let src: Vec<u8> = (0..n * from.itemsize()).map(|_| random()).collect();
        let mut expected = vec![0; n * to.itemsize()];
        let (from, to) = (ItemDType::from(from), ItemDType::from(to));
        let caster = RecordCaster::new(&from, &to, &CastOptions::new());
        prop_assert_eq!(caster.is_ok(), from.can_cast(&to, Casting::Unsafe));
        prop_assume!(caster.is_ok());
        for i in 0..n {
            let src = &src[i * from.itemsize()..(i + 1) * from.itemsize()];
            let dst = &mut expected[i * to.itemsize()..(i + 1) * to.itemsize()];
            naive(&from, &to, src, dst);
        }
        let mut out = vec![0xA5; n * to.itemsize()];
        caster.unwrap().cast(&src, &mut out, n).unwrap();
        prop_assert_eq!(out, expected, "{} -> {}", from, to);
    }

    /// Every layout prints as a text that parses to the same layout, and a cast exists where a level allows it.
    #[test]
    fn layouts_come_back((a, b) in record_pair(2)) {
        for dtype in [&a, &b] {
            prop_assert_eq!(&dtype.to_string().parse::<StructDType>().unwrap(), dtype);
            prop_assert_eq!(dtype.casting_to(dtype), Some(Casting::No));
        }
        prop_assert_eq!(a.casting_to(&b).is_some(), RecordCaster::new(&a, &b, &CastOptions::new()).is_ok());
    }

    /// No text makes the parser panic.
    #[test]
    fn no_text_panics(text in r#"[\[\]\(\)\{\}'",:|<>=0-9a-zéVTF \\]{0,40}"#) {
        let _ = text.parse::<ItemDType>();
    }

    /// A text with a part missing or doubled is an error or another dtype, never a panic.
    #[test]
    fn no_damaged_text_panics(
        (a, _) in record_pair(1),
        at in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let text = a.to_string();
        let cut = |i: usize| (0..=i).rev().find(|&i| text.is_char_boundary(i)).unwrap();
        let (at, to) = (cut(at.index(text.len() + 1)), cut(to.index(text.len() + 1)));
        let _ = format!("{}{}", &text[..at], &text[to..]).parse::<ItemDType>();
    }
}

/// Long fields, long runs and few records, which take other paths of the loop.
#[test]
fn large_records() {
    let pairs = [
        ("[('a','u1'),('b','<f4',(5000,))]", "[('a','<i4'),('b','<f8',(5000,))]", 3),
        ("[('a','<f4',(5000,))]", "[('a','<f8',(5000,))]", 3),
        ("[('a','<f4',(30,50))]", "[('a','<f8',(50,30))]", 5),
        ("[('a',[('x','u1'),('y','<c16')],(3000,))]", "[('a',[('x','<f4'),('y','<c8')],(3000,))]", 2),
        ("[('a','<i2')]", "[('a','<f4')]", 5000),
        ("[('a','<i2'),('b','u1')]", "[('a','<f4'),('b','u1')]", 5000),
        ("[('a','<i2')]", "[('a','<f4'),('','|V4')]", 5000),
        ("<i2", "[('a','<f4'),('b','u1',(3,))]", 5000),
        ("[('a','<u2',(3,))]", "[('a','<u2',(3,)),('','|V1')]", 3000),
        ("[('a','u1'),('b',[('c','>u2',(0,))],(3,))]", "[('a','u1'),('b',[('c','>u2',(4,))],(2,))]", 10),
    ];
    for (from, to, n) in pairs {
        let (from, to) = (item(from), item(to));
        let src: Vec<u8> = (0..n * from.itemsize()).map(|i| (i * 7 % 61) as u8).collect();
        let mut expected = vec![0; n * to.itemsize()];
        for i in 0..n {
            let (src, dst) = (&src[i * from.itemsize()..], &mut expected[i * to.itemsize()..]);
            naive(&from, &to, src, dst);
        }
        let mut out = vec![0xA5; n * to.itemsize()];
        RecordCaster::new(&from, &to, &CastOptions::new()).unwrap().cast(&src, &mut out, n).unwrap();
        assert!(out == expected, "{from} -> {to}");
    }
}

/// Very many dimensions do not overflow the stack.
#[test]
fn sub_arrays_of_many_dimensions() {
    let many = ItemDType::from(DType::F64).array(&[1; 200_000]).unwrap();
    let few = ItemDType::from(DType::F32).array(&[3]).unwrap();
    for (from, to, expected) in [(&few, &many, 1), (&few.clone().array(&[1; 200_000]).unwrap(), &few, 3)] {
        let caster = RecordCaster::new(from, to, &CastOptions::new()).unwrap();
        let src: Vec<u8> = [7f32; 6].iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut dst = vec![0; 2 * to.itemsize()];
        caster.cast(&src, &mut dst, 2).unwrap();
        let seven = if expected == 1 { 7f64.to_ne_bytes().to_vec() } else { 7f32.to_ne_bytes().to_vec() };
        assert_eq!(dst, seven.repeat(2 * expected));
    }
}

#[test]
fn record_casts_refuse_buffers_of_the_wrong_size() {
    let caster = RecordCaster::new(record("i4,u1"), record("f8,f4"), &CastOptions::new()).unwrap();
    for (source, destination, n) in
        [(9, 24, 2), (11, 24, 2), (10, 23, 2), (10, 25, 2), (10, 24, 1), (10, 24, 3), (0, 0, 1)]
    {
        let mut dst = vec![0xA5; destination];
        let error = caster.cast(&vec![0; source], &mut dst, n).unwrap_err();
        assert!(matches!(error, StructError::BufferSize { .. }), "{error:?}");
        assert!(dst.iter().all(|byte| *byte == 0xA5));
        let mut dst: Vec<u8> = Vec::with_capacity(destination);
        let dst = &mut dst.spare_capacity_mut()[..destination];
        assert_eq!(caster.cast_uninit(&vec![0; source], dst, n), Err(error));
    }
    // Every byte is initialised, of padding as of fields.
    let padded = RecordCaster::new(
        record("i4,u1"),
        StructDType::aligned([("a", DType::U8), ("b", DType::F32)]).unwrap(),
        &CastOptions::new(),
    )
    .unwrap();
    let (src, mut dst, mut memory) = ([1; 10], [0xA5; 16], Vec::with_capacity(16));
    padded.cast(&src, &mut dst, 2).unwrap();
    assert_eq!(padded.cast_uninit(&src, &mut memory.spare_capacity_mut()[..16], 2).unwrap(), dst);
    assert_eq!(caster.cast(&[], &mut [], usize::MAX), Err(StructError::TooLarge));
    caster.cast(&[], &mut [], 0).unwrap();
    assert_eq!(
        caster.cast(&[0; 10], &mut [0; 23], 2).unwrap_err().to_string(),
        "the destination has 23 bytes; 2 records need exactly 24"
    );
}

#[test]
fn errors_of_structures_say_what_is_wrong() {
    let parse = |text: &str| text.parse::<StructDType>().unwrap_err().to_string();
    assert_eq!(
        parse("[('a', 'i4'"),
        "cannot parse \"[('a', 'i4'\": expected a comma or the end of the list at byte 11"
    );
    assert_eq!(
        parse("[('a',)]"),
        "cannot parse \"[('a',)]\": expected a tuple of a name, a dtype and at most a shape at byte 1"
    );
    assert_eq!(parse("i4"), "cannot parse \"i4\": expected a record at byte 0");
    assert_eq!(
        parse("[('a', 'i4')] x"),
        "cannot parse \"[('a', 'i4')] x\": expected the end of the text at byte 14"
    );
    assert_eq!(
        parse("[('a', 'i4'), ('a', 'f4')]"),
        "the name or title \"a\" occurs twice; each must be unique"
    );
    assert_eq!(
        parse("[(('b', 'a'), 'i4'), ('b', 'f4')]"),
        "the name or title \"b\" occurs twice; each must be unique"
    );
    assert!(
        parse("[('a', 'i3')]")
            .starts_with("there is no dtype here that NumPy names \"i3\"; its names are bool,")
    );
    // NumPy's names of dtypes that elements cannot have here.
    for (text, code) in [
        ("[('a', '|V4')]", "|V4"),
        ("V8,f4", "V8"),
        ("3S5", "S5"),
        ("O", "O"),
        ("M8[s]", "M8[s]"),
        ("longdouble", "longdouble"),
    ] {
        let message = parse(text);
        assert!(
            message.starts_with(&format!("there is no dtype here that NumPy names {code:?}")),
            "{message}"
        );
    }
    assert_eq!(
        parse("{'names': ['a'], 'formats': ['f8'], 'offsets': [4], 'itemsize': 8}"),
        "the field \"a\" ends at byte 12, but the record has 8 bytes"
    );
    assert_eq!(
        parse("{'names': ['a'], 'formats': ['f8'], 'offsets': [4], 'aligned': True}"),
        "the field \"a\" is not at a multiple of its alignment, which an aligned record needs"
    );
    let huge = usize::MAX;
    assert_eq!(parse(&format!("[('a', 'f8', ({huge},))]")), "the size overflows the address space");
    assert_eq!(
        parse(&format!("[('a', 'u1', ({huge},)), ('b', 'u1')]")),
        "the size overflows the address space"
    );
    assert_eq!(parse(&format!("[('a', 'u1', ({huge}0,))]")), "the size overflows the address space");
    assert!(parse(&"[".repeat(100_000)).contains(": expected a literal with fewer levels"));
    assert!(
        parse(&format!("{}'i4'{}", "(".repeat(100_000), ")".repeat(100_000)))
            .contains(": expected a literal with fewer levels")
    );

    let promote = |a: &str, b: &str| item(a).promote(&item(b), &Rules::TORCH).unwrap_err().to_string();
    assert_eq!(promote("2i4", "3i4"), "the shapes are [2] and [3]; to promote, they must agree");
    assert_eq!(
        promote("i4,", "i4"),
        "a record and an element have no common dtype; both must be records, or both elements"
    );
    assert_eq!(promote("i4,", "u2,"), "torch defines no common dtype of uint16, int32");
    assert_eq!(
        promote("[(('T', 'a'), 'i4')]", "[('a', 'i4')]"),
        "the titles of the field \"a\" differ; to promote, they must agree"
    );
    let union = record("{'names': ['a', 'b'], 'formats': ['i4', 'i2'], 'offsets': [0, 2], 'itemsize': 4}");
    assert_eq!(
        union.descr().unwrap_err().to_string(),
        "the field \"b\" starts before the previous one ends, which a list of fields cannot express"
    );
    let error = RecordCaster::new(record("i4,i4"), record("i4,i4,i4"), &CastOptions::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the source has 2 fields; fields are cast by position, and the destination needs 3"
    );
}

/// Sub-arrays without elements, whose other dimensions may be of any size.
#[test]
fn empty_sub_arrays() {
    let huge = usize::MAX;
    let empty = item(&format!("[('a', 'f8', (0, {huge}, {huge})), ('b', 'u1')]"));
    assert_eq!(empty.itemsize(), 1);
    let mut out = [0xA5; 2];
    RecordCaster::new(&empty, &empty, &CastOptions::new()).unwrap().cast(&[3, 4], &mut out, 2).unwrap();
    assert_eq!(out, [3, 4]);
    let two = item("[('a', 'f4', (2,)), ('b', 'u1')]");
    let mut out = [0xA5; 9];
    RecordCaster::new(&empty, &two, &CastOptions::new()).unwrap().cast(&[3], &mut out, 1).unwrap();
    assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 0, 3]);
}

/// Our texts keep names that NumPy's own texts lose.
#[test]
fn dtypes_of_ml_dtypes_keep_their_names() {
    let text = "[('weight', 'bfloat16'), ('scale', 'float8_e8m0fnu', (4,)), ('code', 'int4')]";
    let dtype = record(text);
    assert_eq!(dtype.descr().unwrap(), text);
    assert_eq!((dtype.itemsize(), dtype.field("code").unwrap().offset), (7, 6));
    let wide = record("[('weight', '=f4'), ('scale', '=f4', (4,)), ('code', '=i2')]");
    assert!(dtype.can_cast(&wide, Casting::Safe));
    assert_eq!(dtype.promote(&wide, &Rules::LOSSLESS), Ok(wide));
}

/// Equal dtypes have equal hashes, whatever alignment they were made for.
#[test]
fn dtypes_are_keys() {
    let fields = [("a", DType::I32), ("b", DType::F32)];
    let [packed, aligned] = [StructDType::packed(fields), StructDType::aligned(fields)].map(Result::unwrap);
    assert_ne!(packed.alignment(), aligned.alignment());
    let keys: HashSet<ItemDType> = [&packed, &aligned].map(ItemDType::from).into();
    assert_eq!(keys.len(), 1);
    let items = ["u1", "<i2", ">i2", "2i2", "i2,i2", "[('f0', 'i2'), ('x', 'i2')]"].map(item);
    assert_eq!(items.iter().collect::<HashSet<_>>().len(), items.len());
}

/// A dtype prints as a text that parses to the same dtype, or cannot be printed.
#[test]
fn odd_dtypes_print_what_they_are() {
    let unnamed = StructDType::packed([("", DType::I32), ("f0", DType::I8)]).unwrap();
    assert!(unnamed.descr().is_err(), "a list would name it f0");
    let within = StructDType::packed([("a", ItemDType::from(&unnamed).array(&[2]).unwrap())]).unwrap();
    for dtype in [&unnamed, &within] {
        assert_eq!(dtype.to_string().parse(), Ok(dtype.clone()), "{dtype}");
    }
    assert_eq!(unnamed.to_string().parse::<StructDType>().unwrap().fields()[0].name, "");
    // Whether an extent of 0 comes first or last makes no difference.
    let root = 1usize << (usize::BITS / 2);
    for text in [format!("('(0,)i1', ({root}, {root}, 2))"), format!("('|i1', ({root}, {root}, 2, 0))")] {
        let empty = item(&text);
        assert_eq!((empty.itemsize(), empty.to_string().parse()), (0, Ok(empty.clone())), "{text}");
    }
    let error = format!("('(2,)i1', ({root}, {root}, 2))").parse::<ItemDType>();
    assert_eq!(error, Err(StructError::TooLarge));
}

/// Records nested as deep as the limit can be made, printed, parsed and cast; one more level is an error.
#[test]
fn records_within_records() {
    let wrap = |dtype: ItemDType| {
        let field = |name: &str, offset, dtype: &ItemDType| Field {
            name: name.into(),
            title: Some(format!("the {name}")),
            offset,
            dtype: dtype.clone(),
        };
        // Only a dictionary can express this order of offsets, and its text nests deepest.
        let size = dtype.itemsize();
        StructDType::with_offsets(vec![field("b", 1, &DType::I8.into()), field("a", 0, &dtype)], size.max(2))
    };
    let mut dtype = ItemDType::from(DType::U8);
    for level in 1.. {
        match wrap(dtype.clone()) {
            Ok(record) => {
                assert_eq!(record.to_string().parse(), Ok(record.clone()), "{level} levels");
                let list = StructDType::packed([("x", record.clone())]);
                assert!(level == 32 || list.is_ok());
                dtype = ItemDType::from(record).array(&[1]).unwrap();
            }
            Err(error) => {
                assert_eq!(error, StructError::TooDeep { levels: 33, most: 32 });
                assert_eq!(error.to_string(), "records are nested 33 levels deep; at most 32 are supported");
                break;
            }
        }
    }
    assert_eq!(dtype.to_string().parse(), Ok(dtype.clone()));
    let caster = RecordCaster::new(&dtype, &dtype, &CastOptions::new()).unwrap();
    let mut out = [0; 2];
    caster.cast(&[1, 2], &mut out, 1).unwrap();
    assert_eq!(out, [1, 2]);
    let text = "[('a', ".repeat(100_000);
    assert!(text.parse::<ItemDType>().is_err());
}

/// Offsets of fields without items may lie anywhere without overflow.
#[test]
fn no_items_at_the_end_of_the_address_space() {
    let far = item(&format!("[('', '|V{}'), ('f0', [('', '|V8'), ('f0', 'u1')], (0,))]", usize::MAX));
    let caster = RecordCaster::new(&far, &far, &CastOptions::new()).unwrap();
    caster.cast(&[], &mut [], 0).unwrap();
    let near = item("[('f0', [('', '|V8'), ('f0', 'u1')], (3,))]");
    RecordCaster::new(&near, &far, &CastOptions::new()).unwrap();
    RecordCaster::new(&far, &near, &CastOptions::new()).unwrap();
}
