//! Byte layouts of the dtypes of fewer than 8 bits, one bit at a time.

/// The layout of elements of fewer than 8 bits. Wider elements are whole little-endian bytes in
/// every layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// "One little-endian bit stream over the flattened buffer: element i sits at bits
    /// [i*w, (i+1)*w)."
    LowFirst,
    /// "One element per byte."
    OnePerByte,
    /// "The same stream filled from the most significant bit of each byte."
    HighFirst,
}

impl Packing {
    pub const ALL: [Packing; 3] = [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst];

    /// Returns the byte and the bit in it (0 = least significant) that hold bit `bit` of element `element`.
    fn place(self, element: usize, bit: usize, bits: usize) -> (usize, usize) {
        match self {
            _ if bits >= 8 => (element * bits.div_ceil(8) + bit / 8, bit % 8),
            Packing::LowFirst => {
                let position = element * bits + bit;
                (position / 8, position % 8)
            }
            Packing::OnePerByte => (element, bit),
            Packing::HighFirst => {
                // The most significant bit of the element comes first in the stream, and the most
                // significant bit of a byte is filled first.
                let position = element * bits + (bits - 1 - bit);
                (position / 8, 7 - position % 8)
            }
        }
    }
}

/// Returns the size of `n` elements: "a buffer of n elements has ceil(n*w/8) bytes".
pub fn bytes(n: usize, bits: u32, packing: Packing) -> usize {
    match packing {
        Packing::OnePerByte => n * (bits as usize).div_ceil(8),
        Packing::LowFirst | Packing::HighFirst => (n * bits as usize).div_ceil(8),
    }
}

/// Packs codes into bytes. "Pad bits are zero on output"; one per byte: "the unused high bits are
/// written as zero".
pub fn pack(codes: &[u128], bits: u32, packing: Packing) -> Vec<u8> {
    let mut out = vec![0; bytes(codes.len(), bits, packing)];
    for (i, code) in codes.iter().enumerate() {
        for bit in 0..bits as usize {
            let (byte, shift) = packing.place(i, bit, bits as usize);
            out[byte] |= ((code >> bit & 1) as u8) << shift;
        }
    }
    out
}

/// Unpacks the first `n` codes from bytes. "Pad bits are ignored on input"; one per byte: "the
/// unused high bits are ignored on input".
pub fn unpack(bytes: &[u8], n: usize, bits: u32, packing: Packing) -> Vec<u128> {
    let element = |i| {
        (0..bits as usize).fold(0, |code, bit| {
            let (byte, shift) = packing.place(i, bit, bits as usize);
            code | u128::from(bytes[byte] >> shift & 1) << bit
        })
    };
    (0..n).map(element).collect()
}
