//! Packed layouts, written out by hand.

use lanecast_oracle::packing::{Packing, bytes, pack, unpack};

#[test]
fn four_bits() {
    let codes = [0x1, 0x2, 0x3];
    assert_eq!(pack(&codes, 4, Packing::LowFirst), [0x21, 0x03]);
    assert_eq!(pack(&codes, 4, Packing::HighFirst), [0x12, 0x30]);
    assert_eq!(pack(&codes, 4, Packing::OnePerByte), [0x01, 0x02, 0x03]);
}

#[test]
fn two_bits() {
    let codes = [1, 2, 3, 0, 2];
    assert_eq!(pack(&codes, 2, Packing::LowFirst), [0b00_11_10_01, 0b10]);
    assert_eq!(
        pack(&codes, 2, Packing::HighFirst),
        [0b01_10_11_00, 0b10_00_00_00]
    );
    assert_eq!(pack(&codes, 2, Packing::OnePerByte), [1, 2, 3, 0, 2]);
}

#[test]
fn six_bits() {
    // Four elements in three bytes.
    let codes = [0b111111, 0b000000, 0b101010, 0b110011];
    assert_eq!(
        pack(&codes, 6, Packing::LowFirst),
        [0b0011_1111, 0b1010_0000, 0b1100_1110]
    );
    // The first element is the top six bits of byte 0.
    assert_eq!(
        pack(&codes, 6, Packing::HighFirst),
        [0b1111_1100, 0b0000_1010, 0b1011_0011]
    );
    assert_eq!(
        pack(&codes[..1], 6, Packing::HighFirst),
        [0b1111_1100],
        "pad bits are zero"
    );
}

#[test]
fn sizes() {
    for (n, two, four, six) in [
        (0, 0, 0, 0),
        (1, 1, 1, 1),
        (2, 1, 1, 2),
        (3, 1, 2, 3),
        (4, 1, 2, 3),
        (5, 2, 3, 4),
        (8, 2, 4, 6),
    ] {
        for packing in [Packing::LowFirst, Packing::HighFirst] {
            assert_eq!(bytes(n, 2, packing), two);
            assert_eq!(bytes(n, 4, packing), four);
            assert_eq!(bytes(n, 6, packing), six);
        }
        for bits in [2, 4, 6, 8] {
            assert_eq!(bytes(n, bits, Packing::OnePerByte), n);
        }
        assert_eq!(bytes(n, 32, Packing::LowFirst), 4 * n);
        assert_eq!(bytes(n, 32, Packing::OnePerByte), 4 * n);
        assert_eq!(bytes(n, 128, Packing::HighFirst), 16 * n);
    }
}

#[test]
fn pad_and_unused_bits_are_ignored_on_input_and_zero_on_output() {
    assert_eq!(unpack(&[0xFF], 1, 4, Packing::LowFirst), [0xF]);
    assert_eq!(unpack(&[0x5A], 1, 4, Packing::LowFirst), [0xA]);
    assert_eq!(unpack(&[0x5A], 1, 4, Packing::HighFirst), [0x5]);
    assert_eq!(unpack(&[0x12], 1, 4, Packing::OnePerByte), [0x2]);
    assert_eq!(unpack(&[0xFF], 1, 6, Packing::OnePerByte), [0x3F]);
    // Code bits above the width are dropped: int4 -1 is 0F.
    assert_eq!(pack(&[0xFF], 4, Packing::OnePerByte), [0x0F]);
    assert_eq!(pack(&[0xFF, 0], 4, Packing::LowFirst), [0x0F]);
}

#[test]
fn wide_elements_are_little_endian_bytes_in_every_layout() {
    for packing in Packing::ALL {
        assert_eq!(
            pack(&[0x1234, 0xABCD], 16, packing),
            [0x34, 0x12, 0xCD, 0xAB]
        );
        assert_eq!(unpack(&[0x34, 0x12], 1, 16, packing), [0x1234]);
        assert_eq!(pack(&[0x80], 8, packing), [0x80]);
        assert_eq!(
            unpack(&pack(&[u128::MAX - 5], 128, packing), 1, 128, packing),
            [u128::MAX - 5]
        );
    }
}

#[test]
fn round_trip() {
    for bits in [2, 4, 6, 8, 16] {
        for n in 0..70 {
            let codes: Vec<u128> = (0..n).map(|i| (i * 37 + 11) & ((1 << bits) - 1)).collect();
            for packing in Packing::ALL {
                let packed = pack(&codes, bits, packing);
                assert_eq!(packed.len(), bytes(codes.len(), bits, packing));
                assert_eq!(unpack(&packed, codes.len(), bits, packing), codes);
            }
        }
    }
}
