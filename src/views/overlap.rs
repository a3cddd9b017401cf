//! Whether two views have a byte in common.

use core::ops::RangeInclusive;

use crate::kernels::strided::MOST;

/// Whether two views have a byte in common, if their first elements are `distance` bytes apart. It is not inlined, so that its stack is free
/// again while they are cast.
#[inline(never)]
pub(super) fn meet(shape: &[usize], [src, dst]: [&[isize]; 2], distance: i128, sizes: [usize; 2]) -> bool {
    Between::new(shape, src, dst).meet(distance, sizes)
}

/// All distances between elements of two views: the distance of the first elements, plus a multiple of each stride.
struct Between {
    /// In descending order of the strides, which are positive.
    strides: [Times; 2 * MOST],
    len: usize,
}

#[derive(Clone, Copy)]
struct Times {
    stride: i128,
    least: i128,
    most: i128,
}

impl Between {
    /// The number of steps after which a search is given up.
    const PATIENCE: u32 = 1 << 14;

    fn new(shape: &[usize], src_strides: &[isize], dst_strides: &[isize]) -> Self {
        let none = Times { stride: 0, least: 0, most: 0 };
        let mut new = Self { strides: [none; 2 * MOST], len: 0 };
        for (&extent, (&src, &dst)) in shape.iter().zip(src_strides.iter().zip(dst_strides)) {
            // A step forward in the destination changes the distance as one backward in the source does.
            new.add(extent, dst as i128);
            new.add(extent, -(src as i128));
        }
        new
    }

    fn add(&mut self, extent: usize, stride: i128) {
        let times = extent as i128 - 1;
        if times == 0 || stride == 0 {
            return;
        }
        let size = stride.abs();
        let at = self.strides[..self.len].iter().take_while(|times| times.stride > size).count();
        if self.strides[..self.len].get(at).is_none_or(|times| times.stride != size) {
            self.strides.copy_within(at..self.len, at + 1);
            self.strides[at] = Times { stride: size, least: 0, most: 0 };
            self.len += 1;
        }
        if stride > 0 {
            self.strides[at].most += times;
        } else {
            self.strides[at].least -= times;
        }
    }

    /// Whether elements of these sizes have a byte in common, if the first ones are `distance` bytes apart.
    fn meet(&self, distance: i128, sizes: [usize; 2]) -> bool {
        let [source, destination] = sizes.map(|size| size as i128);
        let mut patience = Self::PATIENCE;
        search(&self.strides[..self.len], distance, 1 - destination..=source - 1, &mut patience)
    }
}

/// Whether adding multiples of the strides can bring the distance into a range. True, too, if it takes too long to find out.
fn search(strides: &[Times], distance: i128, range: RangeInclusive<i128>, patience: &mut u32) -> bool {
    let [times, smaller @ ..] = strides else { return range.contains(&distance) };
    // What the smaller strides can add at most bounds the multiples of this one. Usually a stride is larger than all that the smaller ones
    // can add, so few multiples are possible.
    let lowest: i128 = smaller.iter().map(|times| times.least * times.stride).sum();
    let highest: i128 = smaller.iter().map(|times| times.most * times.stride).sum();
    let from = -(distance + highest - range.start()).div_euclid(times.stride);
    let to = (range.end() - distance - lowest).div_euclid(times.stride);
    (from.max(times.least)..=to.min(times.most)).any(|n| {
        *patience = patience.saturating_sub(1);
        *patience == 0 || search(smaller, distance + n * times.stride, range.clone(), patience)
    })
}

#[cfg(test)]
mod tests {
    use super::meet;

    /// The positions of a view's bytes.
    fn places(start: i128, shape: &[usize], strides: &[isize], size: usize) -> Vec<i128> {
        let mut starts = vec![start];
        for (&extent, &stride) in shape.iter().zip(strides) {
            let further = |&at: &i128| (0..extent).map(move |i| at + i as i128 * stride as i128);
            starts = starts.iter().flat_map(further).collect();
        }
        starts.iter().flat_map(|&at| (0..size).map(move |i| at + i as i128)).collect()
    }

    #[test]
    fn views_meet_where_they_have_a_byte_in_common() {
        let mut state = 1_u64;
        let mut random = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let mut found = [0; 2];
        for _ in 0..20_000 {
            let shape: Vec<usize> = (0..random(4)).map(|_| 1 + random(4)).collect();
            let few = random(2) == 0;
            let stride = |n: usize| if few { [1, -2, 4, 12][n % 4] } else { n as isize - 20 };
            let src: Vec<isize> = shape.iter().map(|_| stride(random(41))).collect();
            let dst: Vec<isize> = shape.iter().map(|_| stride(random(41))).collect();
            let (distance, sizes) = (random(81) as i128 - 40, [1 << random(3), 1 << random(3)]);
            let from = places(0, &shape, &src, sizes[0]);
            let is_met = places(distance, &shape, &dst, sizes[1]).iter().any(|at| from.contains(at));
            found[usize::from(is_met)] += 1;
            assert_eq!(
                meet(&shape, [&src, &dst], distance, sizes),
                is_met,
                "{shape:?} {src:?} {dst:?} {distance} {sizes:?}"
            );
        }
        assert!(found.iter().all(|&n| n > 1000), "{found:?}");
    }

    #[test]
    fn what_is_hard_to_tell_meets() {
        // Coprime strides of about the same size, whose sums fill everything but a few places.
        let shape = [1 << 20; 6];
        let strides = [1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099];
        assert!(meet(&shape, [&strides, &strides.map(|s| s + 1)], 17, [1, 1]));
    }
}
