//! The dtypes of records, and their promotion.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::error::StructError;
use crate::formats::dtype::DType;
use crate::formats::layout::ByteOrder;
use crate::numpy::OrderedDType;
use crate::promotion::{Casting, Rules};

/// How deep records may be nested: deeper than any dtype in use, and not too deep for any stack.
pub(super) const MAX_LEVELS: usize = 32;

/// The dtype of one item of a buffer: an element, a record, or a sub-array of either.
///
/// It parses the strings that NumPy's `dtype(..)` takes (except spaces and signs within numbers, and byte orders before a
/// shape), and the texts of a dtype's `descr` and `str`.
///
/// ```
/// use lanecast::{records::ItemDType, DType};
///
/// let matrix: ItemDType = "(2,3)<f8".parse()?;
/// assert_eq!((matrix.shape(), matrix.itemsize()), (&[2, 3][..], 48));
/// assert_eq!(matrix.to_string(), "('<f8', (2, 3))");
/// assert_eq!("int8".parse::<ItemDType>()?, DType::I8.into());
/// # Ok::<(), lanecast::records::StructError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ItemDType {
    pub(super) base: ItemBase,
    pub(super) shape: Vec<usize>,
    pub(super) itemsize: usize,
}

/// The dtype of which an [`ItemDType`] is one or many.
///
/// ```
/// use lanecast::{records::{ItemBase, ItemDType}, DType};
/// let item: ItemDType = "3i1".parse()?;
/// assert_eq!(*item.base(), ItemBase::Element(DType::I8.into()));
/// # Ok::<(), lanecast::records::StructError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ItemBase {
    /// An element. Those of fewer than 8 bits take a byte each.
    Element(OrderedDType),
    /// A record of named fields.
    Record(StructDType),
}

/// The dtype of a record: named fields at offsets.
///
/// Two are equal if their names, titles, dtypes, offsets and sizes are, whether or not they were made
/// aligned.
///
/// ```
/// use lanecast::{promotion::{Casting, Rules}, records::StructDType};
///
/// let pixel: StructDType = "[('at', '<i4', (2,)), ('value', '<f4')]".parse()?;
/// assert_eq!((pixel.itemsize(), pixel.field("value").unwrap().offset), (12, 8));
///
/// let wide: StructDType = "[('at', '<i8', (2,)), ('value', '<f8')]".parse()?;
/// assert!(pixel.can_cast(&wide, Casting::Safe));
/// assert_eq!(pixel.promote(&wide, &Rules::NUMPY)?, wide);
/// # Ok::<(), lanecast::records::StructError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StructDType {
    pub(super) fields: Vec<Field>,
    pub(super) itemsize: usize,
    pub(super) aligned: bool,
    /// The depth of nested records: 1 if no field is a record.
    levels: usize,
}

/// One field of a [`StructDType`].
///
/// ```
/// use lanecast::records::StructDType;
/// let record: StructDType = "[(('The x', 'x'), '<i2')]".parse()?;
/// let x = record.field("x").unwrap();
/// assert_eq!((x.title.as_deref(), x.dtype.itemsize()), (Some("The x"), 2));
/// # Ok::<(), lanecast::records::StructError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// The name. No two fields of a record share one.
    pub name: String,
    /// The title besides the name, if there is one. Promotion and casting compare titles, too.
    pub title: Option<String>,
    /// The byte of the record at which it starts.
    pub offset: usize,
    /// The dtype of the field.
    pub dtype: ItemDType,
}

impl PartialEq for StructDType {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields && self.itemsize == other.itemsize
    }
}

impl Eq for StructDType {}

/// Hashes what equality compares.
impl Hash for StructDType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.fields, self.itemsize).hash(state);
    }
}

impl From<OrderedDType> for ItemDType {
    fn from(dtype: OrderedDType) -> Self {
        Self { base: ItemBase::Element(dtype), shape: Vec::new(), itemsize: dtype.dtype().itemsize() }
    }
}

impl From<DType> for ItemDType {
    /// Converts to an element in the byte order of the machine.
    fn from(dtype: DType) -> Self {
        OrderedDType::from(dtype).into()
    }
}

impl From<StructDType> for ItemDType {
    fn from(record: StructDType) -> Self {
        Self { itemsize: record.itemsize, base: ItemBase::Record(record), shape: Vec::new() }
    }
}

impl From<&StructDType> for ItemDType {
    fn from(record: &StructDType) -> Self {
        record.clone().into()
    }
}

impl From<&Self> for ItemDType {
    fn from(item: &Self) -> Self {
        item.clone()
    }
}

impl ItemDType {
    /// Returns the dtype of a sub-array of items in C order. A sub-array of sub-arrays is one sub-array of both shapes.
    ///
    /// ```
    /// use lanecast::{records::ItemDType, DType};
    /// let rows = ItemDType::from(DType::F32).array(&[3])?;
    /// assert_eq!(rows.array(&[2])?, "(2,3)f4".parse()?);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The size overflows `usize`.
    pub fn array(self, shape: &[usize]) -> Result<Self, StructError> {
        let shape = [shape, &self.shape].concat();
        let one = match &self.base {
            ItemBase::Element(element) => element.dtype().itemsize(),
            ItemBase::Record(record) => record.itemsize,
        };
        // Any extent of 0 makes the size 0, even if the product of the others overflows.
        let itemsize = match shape.contains(&0) {
            true => 0,
            false => {
                shape.iter().try_fold(one, |size, &n| size.checked_mul(n)).ok_or(StructError::TooLarge)?
            }
        };
        Ok(Self { base: self.base, shape, itemsize })
    }

    /// The dtype of which it is one or many.
    ///
    /// ```
    /// use lanecast::records::{ItemBase, ItemDType};
    /// let pair: ItemDType = "i4,f8".parse()?;
    /// assert!(matches!(pair.base(), ItemBase::Record(record) if record.fields().len() == 2));
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub const fn base(&self) -> &ItemBase {
        &self.base
    }

    /// The extents of the sub-array. Empty for a single item.
    ///
    /// ```
    /// assert!(lanecast::records::ItemDType::from(lanecast::DType::F32).shape().is_empty());
    /// ```
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The size in bytes.
    ///
    /// ```
    /// assert_eq!("i1,f8".parse::<lanecast::records::ItemDType>()?.itemsize(), 9);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub const fn itemsize(&self) -> usize {
        self.itemsize
    }

    /// The alignment in bytes: 1 for a record that was not made aligned.
    ///
    /// ```
    /// assert_eq!("(2,3)f8".parse::<lanecast::records::ItemDType>()?.alignment(), 8);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn alignment(&self) -> usize {
        match &self.base {
            ItemBase::Element(element) => element.dtype().alignment(),
            ItemBase::Record(record) => record.alignment(),
        }
    }

    /// Whether all elements in it have the byte order of this machine.
    ///
    /// ```
    /// assert!("i1,f8".parse::<lanecast::records::ItemDType>()?.is_native());
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn is_native(&self) -> bool {
        match &self.base {
            ItemBase::Element(element) => element.is_native(),
            ItemBase::Record(record) => record.is_native(),
        }
    }

    fn map(&self, element: &impl Fn(OrderedDType) -> OrderedDType) -> Self {
        let base = match &self.base {
            ItemBase::Element(dtype) => ItemBase::Element(element(*dtype)),
            ItemBase::Record(record) => ItemBase::Record(record.map(element)),
        };
        Self { base, shape: self.shape.clone(), itemsize: self.itemsize }
    }

    /// Returns the same dtype with all elements in another byte order.
    ///
    /// ```
    /// use lanecast::{records::ItemDType, ByteOrder};
    /// let item: ItemDType = "i1,<f8".parse()?;
    /// assert_eq!(item.new_byteorder(ByteOrder::Big), "i1,>f8".parse()?);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    #[must_use]
    pub fn new_byteorder(&self, order: ByteOrder) -> Self {
        self.map(&|element| element.new_byteorder(order))
    }

    /// The least level that allows a cast to `to`; None if there is no such cast.
    ///
    /// The fields of a record are cast by position, so their number must agree. Different names or titles are
    /// safe, different offsets equivalent. An item that is not a record is cast to every field of one, a record of
    /// one field is cast as that field, and a sub-array may be cast to another shape.
    ///
    /// ```
    /// use lanecast::{promotion::Casting, records::ItemDType};
    /// let cast = |from: &str, to: &str| Some(from.parse::<ItemDType>().ok()?.casting_to(&to.parse().ok()?)?);
    /// assert_eq!(cast("i4,f4", "i8,f8"), Some(Casting::Safe));
    /// assert_eq!(cast("i4", "i4,f4"), Some(Casting::Unsafe));
    /// assert_eq!(cast("i4,f4", "i4"), None);
    /// ```
    pub fn casting_to(&self, to: &Self) -> Option<Casting> {
        match (self.as_record(), to.as_record()) {
            (Some(from), Some(to)) => from.casting_to(to),
            (None, Some(to)) => {
                let castable = to.fields.iter().all(|field| self.casting_to(&field.dtype).is_some());
                castable.then_some(Casting::Unsafe)
            }
            (Some(from), None) => {
                let [field] = &from.fields[..] else { return None };
                field.dtype.casting_to(to).map(|_| Casting::Unsafe)
            }
            (None, None) => {
                let level = match (&self.base, &to.base) {
                    (ItemBase::Element(from), ItemBase::Element(to)) => from.casting_to(*to),
                    _ => self.one().casting_to(&to.one())?,
                };
                let repeated = self.shape.is_empty() && matches!(to.base, ItemBase::Element(_));
                let shape = if self.shape == to.shape {
                    Casting::No
                } else if repeated {
                    Casting::Safe
                } else {
                    Casting::Unsafe
                };
                Some(level.max(shape))
            }
        }
    }

    /// Aligns its record, as records within an aligned one are.
    pub(super) fn align(&mut self) -> Result<(), StructError> {
        if let ItemBase::Record(record) = &mut self.base {
            record.align()?;
            if self.itemsize > 0 {
                let all = self.shape.iter().try_fold(record.itemsize, |size, &n| size.checked_mul(n));
                self.itemsize = all.ok_or(StructError::TooLarge)?;
            }
        }
        Ok(())
    }

    /// The record, if it is a single one.
    pub(super) fn as_record(&self) -> Option<&StructDType> {
        match &self.base {
            ItemBase::Record(record) if self.shape.is_empty() => Some(record),
            _ => None,
        }
    }

    /// The dtype of a single item of the sub-array.
    pub(super) fn one(&self) -> Self {
        match &self.base {
            ItemBase::Element(element) => (*element).into(),
            ItemBase::Record(record) => record.into(),
        }
    }

    /// Whether the level allows a cast to `to`.
    ///
    /// ```
    /// use lanecast::{promotion::Casting, records::ItemDType};
    /// let [one, many]: [ItemDType; 2] = ["i4".parse()?, "3i4".parse()?];
    /// assert!(one.can_cast(&many, Casting::Safe) && !many.can_cast(&one, Casting::SameKind));
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn can_cast(&self, to: &Self, level: Casting) -> bool {
        self.casting_to(to).is_some_and(|needed| needed <= level)
    }

    /// Returns the common dtype of two items, in the byte order of the machine: elements promote by the ruleset, records field by field.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, records::ItemDType};
    /// let [a, b]: [ItemDType; 2] = ["3>i2".parse()?, "3u2".parse()?];
    /// assert_eq!(a.promote(&b, &Rules::NUMPY)?, "3i4".parse()?);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The shapes differ, only one of the two is a record, or as [`StructDType::promote`].
    pub fn promote(&self, other: &Self, rules: &Rules) -> Result<Self, StructError> {
        let base: Self = match (&self.base, &other.base) {
            (ItemBase::Element(a), ItemBase::Element(b)) => rules.promote(a.dtype(), b.dtype())?.into(),
            (ItemBase::Record(a), ItemBase::Record(b)) => a.promote(b, rules)?.into(),
            _ => return Err(StructError::RecordAndElement),
        };
        if self.shape != other.shape {
            return Err(StructError::Shapes { shapes: [self.shape.clone(), other.shape.clone()] });
        }
        base.array(&self.shape)
    }
}

impl StructDType {
    /// Makes a record of fields without gaps.
    ///
    /// ```
    /// use lanecast::{records::StructDType, DType};
    /// let record = StructDType::packed([("a", DType::I8), ("b", DType::I32)])?;
    /// assert_eq!(record.descr()?, "[('a', '|i1'), ('b', '<i4')]");
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Two names are the same, the size overflows `usize`, or records are nested more than 32 deep.
    pub fn packed<N: Into<String>, D: Into<ItemDType>>(
        fields: impl IntoIterator<Item = (N, D)>,
    ) -> Result<Self, StructError> {
        let fields = fields.into_iter().map(|(name, dtype)| (name.into(), None, dtype.into()));
        Self::in_sequence(fields.collect(), false)
    }

    /// Makes a record in the layout of C: each offset is a multiple of the field's alignment, and the size one of the largest alignment.
    ///
    /// ```
    /// use lanecast::{records::StructDType, DType};
    /// let record = StructDType::aligned([("a", DType::I8), ("b", DType::I32)])?;
    /// assert_eq!((record.itemsize(), record.alignment()), (8, 4));
    /// assert_eq!(record.descr()?, "[('a', '|i1'), ('', '|V3'), ('b', '<i4')]");
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`StructDType::packed`].
    pub fn aligned<N: Into<String>, D: Into<ItemDType>>(
        fields: impl IntoIterator<Item = (N, D)>,
    ) -> Result<Self, StructError> {
        let fields = fields.into_iter().map(|(name, dtype)| (name.into(), None, dtype.into()));
        Self::in_sequence(fields.collect(), true)
    }

    /// Aligns the fields, unless there are gaps between them.
    fn align(&mut self) -> Result<(), StructError> {
        let (mut end, mut size, mut largest) = (0, 0usize, 1);
        let mut follows =
            |field: &Field| core::mem::replace(&mut end, field.offset + field.dtype.itemsize) == field.offset;
        if self.aligned || !self.fields.iter().all(&mut follows) || end != self.itemsize {
            return Ok(());
        }
        for field in &mut self.fields {
            field.dtype.align()?;
            let alignment = field.dtype.alignment();
            largest = largest.max(alignment);
            field.offset = size.checked_next_multiple_of(alignment).ok_or(StructError::TooLarge)?;
            size = field.offset.checked_add(field.dtype.itemsize).ok_or(StructError::TooLarge)?;
        }
        self.itemsize = size.checked_next_multiple_of(largest).ok_or(StructError::TooLarge)?;
        self.aligned = true;
        Ok(())
    }

    pub(super) fn in_sequence(
        fields: Vec<(String, Option<String>, ItemDType)>,
        aligned: bool,
    ) -> Result<Self, StructError> {
        let mut end = 0usize;
        let mut largest = 1;
        let mut placed = Vec::with_capacity(fields.len());
        for (name, title, dtype) in fields {
            let alignment = if aligned { dtype.alignment() } else { 1 };
            largest = largest.max(alignment);
            let offset = end.checked_next_multiple_of(alignment).ok_or(StructError::TooLarge)?;
            end = offset.checked_add(dtype.itemsize).ok_or(StructError::TooLarge)?;
            placed.push(Field { name, title, offset, dtype });
        }
        let itemsize = end.checked_next_multiple_of(largest).ok_or(StructError::TooLarge)?;
        Self::checked(placed, itemsize, aligned)
    }

    /// Makes a record of fields at given offsets, which may leave gaps, overlap, and be in any order.
    ///
    /// ```
    /// use lanecast::{records::{Field, StructDType}, DType};
    /// let field = |name: &str, offset, dtype: DType| {
    ///     Field { name: name.into(), title: None, offset, dtype: dtype.into() }
    /// };
    /// let union = StructDType::with_offsets(vec![field("whole", 0, DType::I32), field("low", 0, DType::I16)], 4)?;
    /// assert!(union.descr().is_err()); // no list can say that
    /// assert_eq!(union.to_string().parse::<StructDType>()?, union);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Two names are the same, a field ends behind the record, or records are nested more than 32 deep.
    pub fn with_offsets(fields: Vec<Field>, itemsize: usize) -> Result<Self, StructError> {
        Self::checked(fields, itemsize, false)
    }

    pub(super) fn checked(fields: Vec<Field>, itemsize: usize, aligned: bool) -> Result<Self, StructError> {
        let mut names: Vec<&str> =
            fields.iter().flat_map(|f| [Some(&f.name), f.title.as_ref()]).flatten().map(|n| &n[..]).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(StructError::DuplicateName { name: pair[0].to_owned() });
        }
        let within = fields.iter().map(|field| match &field.dtype.base {
            ItemBase::Element(_) => 0,
            ItemBase::Record(record) => record.levels,
        });
        let levels = 1 + within.max().unwrap_or(0);
        if levels > MAX_LEVELS {
            return Err(StructError::TooDeep { levels, most: MAX_LEVELS });
        }
        for field in &fields {
            let end = field.offset.checked_add(field.dtype.itemsize).ok_or(StructError::TooLarge)?;
            if end > itemsize {
                return Err(StructError::OutOfBounds { field: field.name.clone(), end, itemsize });
            }
        }
        Ok(Self { fields, itemsize, aligned, levels })
    }

    /// The fields, in the order in which they are cast.
    ///
    /// ```
    /// let record: lanecast::records::StructDType = "i4,f8".parse()?;
    /// let names: Vec<_> = record.fields().iter().map(|field| &field.name[..]).collect();
    /// assert_eq!(names, ["f0", "f1"]);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field with this name.
    ///
    /// ```
    /// let record: lanecast::records::StructDType = "i4,f8".parse()?;
    /// assert_eq!(record.field("f1").unwrap().offset, 4);
    /// assert!(record.field("f2").is_none());
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The size of a record in bytes.
    ///
    /// ```
    /// assert_eq!("i4,f8".parse::<lanecast::records::StructDType>()?.itemsize(), 12);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub const fn itemsize(&self) -> usize {
        self.itemsize
    }

    /// The largest alignment of the fields if the record was made aligned, else 1.
    ///
    /// ```
    /// assert_eq!("i4,f8".parse::<lanecast::records::StructDType>()?.alignment(), 1);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn alignment(&self) -> usize {
        let wanted = self.fields.iter().map(|field| field.dtype.alignment()).max().unwrap_or(1);
        if self.aligned { wanted } else { 1 }
    }

    /// Whether all elements in it have the byte order of this machine.
    ///
    /// ```
    /// assert!("i1,f8".parse::<lanecast::records::StructDType>()?.is_native());
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn is_native(&self) -> bool {
        self.fields.iter().all(|field| field.dtype.is_native())
    }

    fn map(&self, element: &impl Fn(OrderedDType) -> OrderedDType) -> Self {
        let field = |field: &Field| Field { dtype: field.dtype.map(element), ..field.clone() };
        Self { fields: self.fields.iter().map(field).collect(), ..*self }
    }

    /// Returns the same dtype with all elements in another byte order.
    ///
    /// ```
    /// use lanecast::{records::StructDType, ByteOrder};
    /// let record: StructDType = "i1,<f8".parse()?;
    /// assert_eq!(record.new_byteorder(ByteOrder::Big), "i1,>f8".parse()?);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    #[must_use]
    pub fn new_byteorder(&self, order: ByteOrder) -> Self {
        self.map(&|element| element.new_byteorder(order))
    }

    /// The least level that allows a cast to `to`; None if there is no such cast. See
    /// [`ItemDType::casting_to`].
    ///
    /// ```
    /// use lanecast::{promotion::Casting, records::StructDType};
    /// let [a, b]: [StructDType; 2] = ["[('x', 'i4')]".parse()?, "[('y', 'i2')]".parse()?];
    /// assert_eq!(b.casting_to(&a), Some(Casting::Safe)); // by position, whatever the names
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn casting_to(&self, to: &Self) -> Option<Casting> {
        if self.fields.len() != to.fields.len() {
            return None;
        }
        let mut level = if self.itemsize == to.itemsize { Casting::No } else { Casting::Equiv };
        for (a, b) in self.fields.iter().zip(&to.fields) {
            level = level.max(a.dtype.casting_to(&b.dtype)?);
            if (&a.name, &a.title) != (&b.name, &b.title) {
                level = level.max(Casting::Safe);
            }
            if a.offset != b.offset {
                level = level.max(Casting::Equiv);
            }
        }
        Some(level)
    }

    /// Whether the level allows a cast to `to`.
    ///
    /// ```
    /// use lanecast::{promotion::Casting, records::StructDType};
    /// let [a, b]: [StructDType; 2] = ["i4,f4".parse()?, "i4,".parse()?];
    /// assert!(!a.can_cast(&b, Casting::Unsafe)); // the number of fields differs
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    pub fn can_cast(&self, to: &Self, level: Casting) -> bool {
        self.casting_to(to).is_some_and(|needed| needed <= level)
    }

    /// Returns the common dtype of two records: one with the same names, whose fields are promoted. Whatever their offsets,
    /// it has no gaps, or is aligned if either of the two is.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, records::StructDType};
    /// let [a, b]: [StructDType; 2] = ["[('x', 'i4')]".parse()?, "[('x', 'f4')]".parse()?];
    /// assert_eq!(a.promote(&b, &Rules::NUMPY)?, "[('x', 'f8')]".parse()?);
    /// assert_eq!(a.promote(&b, &Rules::TORCH)?, b);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The names, their order or the titles differ, or a pair of fields does not promote.
    pub fn promote(&self, other: &Self, rules: &Rules) -> Result<Self, StructError> {
        let names = |record: &Self| record.fields.iter().map(|field| field.name.clone()).collect();
        if !self.fields.iter().map(|field| &field.name).eq(other.fields.iter().map(|field| &field.name)) {
            return Err(StructError::FieldNames { names: [names(self), names(other)] });
        }
        let mut fields = Vec::with_capacity(self.fields.len());
        for (a, b) in self.fields.iter().zip(&other.fields) {
            if a.title != b.title {
                return Err(StructError::FieldTitles { field: a.name.clone() });
            }
            fields.push((a.name.clone(), a.title.clone(), a.dtype.promote(&b.dtype, rules)?));
        }
        Self::in_sequence(fields, self.aligned || other.aligned)
    }
}
