// What lanecast.hpp promises, tried out. Prints the first line that is not so, and fails.
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "lanecast.hpp"

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            std::printf("line %d: %s\n", __LINE__, #what);                                                            \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (false)

template <typename Error, typename Call> static std::string message(Call call)
{
    try {
        call();
    } catch (const Error &error) {
        return error.what();
    }
    return "no such error";
}

static_assert(lanecast::dtype_v<bool> == LANECAST_DTYPE_BOOL);
static_assert(lanecast::dtype_v<signed char> == LANECAST_DTYPE_INT8);
static_assert(lanecast::dtype_v<const unsigned long long> == LANECAST_DTYPE_UINT64);
static_assert(lanecast::dtype_v<std::complex<double>> == LANECAST_DTYPE_COMPLEX128);
#ifdef __STDCPP_BFLOAT16_T__
static_assert(lanecast::dtype_v<std::bfloat16_t> == LANECAST_DTYPE_BFLOAT16);
#endif

// A type of somebody else's.
struct half {
    std::uint16_t bits;
};
template <> struct lanecast::dtype_of<half> {
    static constexpr lanecast_dtype value = LANECAST_DTYPE_FLOAT16;
};

// A container that can only be moved, and whose size is signed.
class matrix {
public:
    explicit matrix(std::size_t n) : memory_(std::make_unique<float[]>(n)), size_(static_cast<std::ptrdiff_t>(n)) {}
    float *data() { return memory_.get(); }
    const float *data() const { return memory_.get(); }
    std::ptrdiff_t size() const { return size_; }

private:
    std::unique_ptr<float[]> memory_;
    std::ptrdiff_t size_;
};

// A record, of which a view takes one field.
struct sample {
    double time;
    float value;
    std::int16_t channel;
};

static void views()
{
    // A matrix of 2 x 3, transposed on either side, and its columns backwards.
    const std::vector<float> matrix{1, 2, 3, 4, 5, 6};
    const auto columns = lanecast::strided(matrix, {3, 2}, {4, 12});
    CHECK((lanecast::to<int>(columns) == std::vector<int>{1, 4, 2, 5, 3, 6}));
    std::array<std::int64_t, 6> out{};
    lanecast::cast(lanecast::strided(matrix, {2, 3}, {12, 4}), lanecast::strided(out, {2, 3}, {8, 16}));
    CHECK((out == std::array<std::int64_t, 6>{1, 4, 2, 5, 3, 6}));
    lanecast::cast(matrix, lanecast::strided(out, {3, 2}, {8, 24}));
    CHECK((out == std::array<std::int64_t, 6>{1, 3, 5, 2, 4, 6}));
    CHECK((lanecast::to<int>(lanecast::strided(matrix, {2, 3}, {12, -4}, 8)) == std::vector<int>{3, 2, 1, 6, 5, 4}));
    // A field of records, a source that is repeated, one element without dimensions, and none at all.
    std::array<sample, 3> samples{{{0.1, 1.5f, 1}, {0.2, 2.5f, 2}, {0.3, 3.5f, 3}}};
    const std::ptrdiff_t stride = sizeof(sample);
    lanecast::cast(std::array<int, 3>{7, 8, 9},
                   lanecast::strided(lanecast::as(LANECAST_DTYPE_FLOAT32, samples), {3}, {stride}, offsetof(sample, value)));
    CHECK(samples[1].value == 8.0f && samples[1].time == 0.2 && samples[1].channel == 2);
    CHECK((lanecast::to<int>(lanecast::strided(matrix, {2, 2}, {0, 4})) == std::vector<int>{1, 2, 1, 2}));
    CHECK((lanecast::to<int>(lanecast::strided(matrix, {}, {}, 20)) == std::vector<int>{6}));
    CHECK(lanecast::to<int>(lanecast::strided(std::vector<float>(), {SIZE_MAX, 0, SIZE_MAX}, {400, 4, -4})).empty());
    // A shape that is only known at run time; elements that lie one per byte.
    const std::vector<int> shape{2, 2}, strides{1, 2};
    std::array<std::uint8_t, 4> nibbles{};
    lanecast::options each;
    each.dst_packing = LANECAST_PACKING_ONE_PER_BYTE;
    const auto narrow = lanecast::strided(lanecast::as(LANECAST_DTYPE_INT4, nibbles, 4), {shape.begin(), shape.end()},
                                          {strides.begin(), strides.end()});
    lanecast::cast(std::array<int, 4>{1, 2, 3, -1}, narrow, each);
    CHECK(nibbles[0] == 1 && nibbles[1] == 3 && nibbles[2] == 2 && nibbles[3] == 0xF);
    CHECK(message<lanecast::error>([&] { lanecast::cast(std::array<int, 4>{}, narrow); }) != "no such error");

    // On threads; what is lost, counted in the order of the view.
    std::vector<float> many(1000 * 300, 2.5f);
    std::vector<std::uint8_t> codes(many.size());
    many[1] = 256.0f;
    const auto tall = lanecast::strided(many, {300, 1000}, {4, 1200});
    lanecast::cast_parallel(tall, codes, 2);
    CHECK(codes[0] == 2 && codes[1000] == 255 && codes[299999] == 2);
    const lanecast_report report = lanecast::cast_checked(tall, codes);
    CHECK(report.above == 1 && report.first == 1000 && report.elements == many.size());
    CHECK(lanecast::check<std::uint8_t>(tall).first == 1000 && lanecast::check<float>(tall).first == UINT64_MAX);
    // Refused, whichever side is a view: nothing is written.
    std::vector<std::uint8_t> turned(many.size(), 9);
    const auto into = lanecast::strided(turned, {300, 1000}, {1, 300});
    const auto refused = [&](auto &&from, auto &&to) {
        return message<lanecast::lossy>([&] { lanecast::try_cast(from, to); });
    };
    CHECK(refused(tall, turned) == "the cast would lose elements; the first is at index 1000, of 300000 elements");
    CHECK(refused(tall, into) == "the cast would lose elements; the first is at index 1000, of 300000 elements");
    CHECK(refused(many, into) == "the cast would lose elements; the first is at index 1, of 300000 elements");
    CHECK(turned == std::vector<std::uint8_t>(many.size(), 9));
    many[1] = 255.0f;
    lanecast::try_cast(tall, into);
    CHECK(turned[1] == 255 && turned[0] == 2 && turned[1000] == 2);
    lanecast::try_cast(tall, turned);
    CHECK(turned[1] == 2 && turned[1000] == 255);
    lanecast::try_cast(lanecast::strided(std::vector<float>(), {0, 2}, {8, 4}), std::vector<int>());
    // Packed elements make no view; those of the options that look at one do not matter.
    CHECK(lanecast::check(tall, LANECAST_DTYPE_UINT4).above == 1);
    CHECK(message<lanecast::error>([&] { (void)lanecast::check(tall, 99); }).find("99") != std::string::npos);

    // Errors.
    const auto invalid = [](auto call) { return message<std::invalid_argument>(call); };
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {3, 2}, {4, 16}); }) ==
          "lanecast: a view of shape [3, 2] with these strides extends beyond the 24 bytes of its range");
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {3}, {-4}, 4); }).find("extends beyond the ") != std::string::npos);
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {}, {}, 24); }).find("extends beyond the ") != std::string::npos);
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {SIZE_MAX}, {PTRDIFF_MIN}); }).find("extends beyond ") != std::string::npos);
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {SIZE_MAX, 3}, {0, 4}); }) == "no such error");
    CHECK(invalid([&] { (void)lanecast::to<int>(lanecast::strided(matrix, {SIZE_MAX, 3}, {0, 4})); }) != "no such error");
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {3, 2}, {4}); }) ==
          "lanecast: a view of shape [3, 2] has 1 strides; it needs one for each dimension");
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {2, 3}, {3, 1}); }) ==
          "lanecast: strides and first count bytes, and 3 is not a multiple of the size of an element, 4");
    CHECK(invalid([&] { lanecast::cast(columns, lanecast::strided(out, {2, 3}, {24, 8})); }) ==
          "lanecast: the source has the shape [3, 2] and the destination [2, 3]; they must have the same shape");
    CHECK(invalid([&] { lanecast::cast(columns, codes); }) ==
          "lanecast: the source has 6 elements and the destination has 300000; they must have the same number");
    CHECK(invalid([&] { (void)lanecast::strided(matrix, {}, {}, 5); }).find("not a multiple") != std::string::npos);
    CHECK(message<lanecast::error>([&] {
              lanecast::cast(lanecast::strided(many, {2}, {4}), lanecast::strided(many, {2}, {4}, 4));
          }).find("overlap") != std::string::npos);
}

static void scales()
{
    // 3 rows of 40: blocks of 16 and 32 are shorter at the end of a row.
    const std::vector<std::size_t> shape{3, 40};
    std::vector<float> x(120);
    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = 0.02f * std::sin(0.7f * static_cast<float>(i));
    const auto is_near = [&](const std::vector<float> &back, float most) {
        for (std::size_t i = 0; i < x.size(); i++)
            if (!(std::abs(back[i] - x[i]) <= most * 0.02f))
                return false;
        return back.size() == x.size();
    };

    // MXFP8 and back; the same codes as in C, and on threads.
    const lanecast::scaling mx("mx");
    const lanecast::quantized q = lanecast::quantize(x, shape, LANECAST_DTYPE_FLOAT8_E4M3FN, mx);
    CHECK(q.codes.size() == 120 && q.scales.size() == 6 && q.shape == shape);
    CHECK(is_near(lanecast::dequantize<float>(q), 0.0625f));
    // How codes and scales lie is kept.
    lanecast::options lies;
    lies.dst_packing = LANECAST_PACKING_HIGH_FIRST;
    lies.dst_order = LANECAST_ORDER_BIG;
    const lanecast::scaling rows_of_float("per_row");
    for (const lanecast_dtype to : std::array<lanecast_dtype, 2>{LANECAST_DTYPE_INT4, LANECAST_DTYPE_INT16}) {
        const auto other = lanecast::quantize(x, shape, to, rows_of_float, lies);
        const auto native = lanecast::quantize(x, shape, to, rows_of_float);
        CHECK(other.codes != native.codes && other.scales != native.scales);
        CHECK(lanecast::dequantize<float>(other) == lanecast::dequantize<float>(native));
        CHECK(lanecast::requantize(other, LANECAST_DTYPE_INT8, mx).codes == lanecast::requantize(native, LANECAST_DTYPE_INT8, mx).codes);
    }
    std::vector<std::uint8_t> codes(120), scales(6);
    lanecast::require(lanecast_quantize(LANECAST_DTYPE_FLOAT32, x.data(), LANECAST_DTYPE_FLOAT8_E4M3FN, codes.data(),
                                        shape.data(), 2, &mx, scales.data(), nullptr, 1, nullptr, nullptr, nullptr));
    CHECK(codes == q.codes && scales == q.scales);
    CHECK(lanecast::quantize(x, shape, LANECAST_DTYPE_FLOAT8_E4M3FN, mx, lanecast::options(), 2).codes == q.codes);
    CHECK(lanecast::dequantize<float>(q, lanecast::options(), 0) == lanecast::dequantize<float>(q));
    CHECK(lanecast::to<float>(lanecast::as(q.scaling.scale_dtype, q.scales))[0] == 0x1p-14f);

    // NVFP4 with a tensor scale, from floats and from MXFP8, by way of bfloat16.
    lanecast::scaling nvfp4("nvfp4");
    nvfp4.tensor_form = LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY;
    const auto n = lanecast::quantize(x, shape, LANECAST_DTYPE_FLOAT4_E2M1FN, nvfp4);
    CHECK(n.codes.size() == 60 && n.scales.size() == 9);
    CHECK(n.scaling.tensor_form == LANECAST_TENSOR_SCALE_MULTIPLY && n.scaling.tensor_scale > 0.0f);
    CHECK(is_near(lanecast::dequantize<float>(n), 0.17f));
    CHECK(is_near(lanecast::dequantize<float>(lanecast::requantize(q, LANECAST_DTYPE_FLOAT4_E2M1FN, nvfp4)), 0.23f));
    std::vector<std::uint16_t> words(120);
    lanecast::dequantize(n, lanecast::as(LANECAST_DTYPE_BFLOAT16, words));
    CHECK(is_near(lanecast::to<float>(lanecast::as(LANECAST_DTYPE_BFLOAT16, words)), 0.18f));

    // Blocks of 128 x 128 of float8 in memory of the caller's: scales are found, are given, and are read.
    const lanecast::scaling blocks("deepseek");
    std::vector<std::uint8_t> e4m3(120);
    std::array<float, 1> inverse{};
    const auto weights = lanecast::scaled(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, e4m3), shape, blocks, inverse);
    CHECK(lanecast::quantize(x, weights).tensor_form == LANECAST_TENSOR_SCALE_NONE);
    CHECK(inverse[0] > 4e-5f && inverse[0] < 5e-5f && is_near(lanecast::dequantize<float>(weights), 0.0625f));
    const std::vector<std::uint8_t> found = e4m3;
    e4m3.assign(120, 0);
    const std::array<float, 1> given = inverse;
    lanecast::quantize_given(x, lanecast::scaled(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, e4m3), shape, blocks, given));
    CHECK(e4m3 == found);
    const auto read = lanecast::scaled(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, found), shape, blocks, given);
    std::vector<float> back(120);
    lanecast::dequantize(read, back);
    CHECK(is_near(back, 0.0625f));
    lanecast::requantize(read, lanecast::scaled(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, codes), shape, mx, scales));
    CHECK(scales == q.scales);

    // What is lost: of all, and of each block. One element is beyond the factor that is given, and one is nothing beside it.
    lanecast::scaling fixed("nvfp4");
    fixed.tensor_form = LANECAST_TENSOR_SCALE_MULTIPLY;
    fixed.tensor_scale = 0.001f;
    std::vector<float> odd(32, 1.0f);
    odd[17] = 1000.0f;
    odd[18] = 1e-6f;
    std::vector<lanecast_losses> of_blocks, of_both;
    const auto lost_of = lanecast::quantize_with_losses(odd, {2, 16}, LANECAST_DTYPE_FLOAT4_E2M1FN, fixed, lies, &of_both);
    const lanecast_losses lost = lanecast::quantize_losses(odd, lost_of.first, lanecast::options(), &of_blocks);
    CHECK(lost.elements == 32 && lost.saturated == 1 && lost.underflowed == 1 && of_blocks.size() == 2);
    CHECK(of_blocks[0].saturated == 0 && of_blocks[0].max_error < 0.05 && of_blocks[1].saturated == 1);
    CHECK(lost_of.second.total_error == lost.total_error && of_both[1].underflowed == of_blocks[1].underflowed);
    CHECK(lost_of.first.codes == lanecast::quantize(odd, {2, 16}, LANECAST_DTYPE_FLOAT4_E2M1FN, fixed, lies).codes);
    const auto with_factor = lanecast::quantize_with_losses(x, shape, LANECAST_DTYPE_FLOAT4_E2M1FN, nvfp4);
    CHECK(with_factor.first.codes == n.codes && with_factor.first.scaling.tensor_scale == n.scaling.tensor_scale);
    CHECK(with_factor.second.max_error == lanecast::quantize_losses(x, n).max_error && with_factor.second.saturated == 0);
    CHECK(lanecast::quantize_losses(x, read).elements == 120);

    // Zero points, given and found.
    const std::vector<float> steps{0.0f, 0.5f, 1.0f, 1.5f};
    std::array<std::uint8_t, 4> bytes{};
    lanecast::quantize_given(steps, lanecast::scaled(bytes, {4}, lanecast::scaling("per_tensor"), std::array<float, 1>{0.5f},
                                                     std::array<std::uint8_t, 1>{7}));
    CHECK((bytes == std::array<std::uint8_t, 4>{7, 8, 9, 10}));
    const std::array<std::uint8_t, 1> seven{7};
    std::array<float, 1> scale{0.5f};
    const auto shifted = lanecast::scaled(bytes, {4}, lanecast::scaling("per_tensor"), scale, seven);
    CHECK(lanecast::dequantize<float>(shifted) == steps);
    lanecast::scaling affine("compressed_tensors");
    affine.scale_dtype = LANECAST_DTYPE_FLOAT32;
    std::array<std::int8_t, 4> signs{};
    std::array<std::int8_t, 1> zero{};
    lanecast::quantize(steps, lanecast::scaled(signs, {4}, affine, scale, zero));
    CHECK(zero[0] == -128 && signs[0] == -128 && signs[3] == 127);

    // Rows that begin on a byte, the first elements of a longer buffer, nothing at all, and one element without dimensions.
    lanecast::scaling rows("per_tensor");
    rows.row_bytes = 4;
    std::vector<float> six{1, 2, 3, 4, 5, 6};
    CHECK(lanecast::quantize(six, {2, 3}, LANECAST_DTYPE_INT4, rows).codes.size() == 8);
    CHECK(lanecast::dequantize<float>(lanecast::quantize(six, {2, 3}, LANECAST_DTYPE_INT4, rows))[5] == 6.0f);
    std::array<std::uint8_t, 9> longer{};
    CHECK(lanecast::dequantize<float>(
              lanecast::scaled(lanecast::as(LANECAST_DTYPE_INT4, longer, 5), {5}, lanecast::scaling("per_tensor"), scale))
              .size() == 5);
    CHECK(lanecast::dequantize<float>(lanecast::quantize(std::vector<float>(), {0, 32}, LANECAST_DTYPE_INT8, mx)).empty());
    CHECK(lanecast::dequantize<float>(lanecast::quantize(std::array<float, 1>{3.0f}, {}, LANECAST_DTYPE_INT8,
                                                         lanecast::scaling("per_tensor")))[0] == 3.0f);

    // Errors.
    const auto invalid = [](auto call) { return message<std::invalid_argument>(call); };
    CHECK(message<lanecast::error>([] { lanecast::scaling("mxfp8"); }).find("mxfp8") != std::string::npos);
    CHECK(invalid([&] { (void)lanecast::quantize(x, {3, 41}, LANECAST_DTYPE_INT8, mx); }) ==
          "lanecast: the shape [3, 41] has 123 elements, but the source has 120");
    CHECK(invalid([&] { lanecast::dequantize(q, bytes); }) ==
          "lanecast: the shape [3, 40] has 120 elements, but the destination has 4");
    const auto with = [&](auto &&elements, auto &&of) {
        return invalid([&] { lanecast::dequantize(lanecast::scaled(elements, shape, mx, of), back); });
    };
    CHECK(with(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, codes), scales) == "no such error");
    CHECK(with(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, bytes), scales) ==
          "lanecast: the elements for the shape [3, 40] take 120 bytes; there are 4");
    CHECK(with(lanecast::as(LANECAST_DTYPE_FLOAT4_E2M1FN, codes), scales) ==
          "lanecast: the elements for the shape [3, 40] take 60 bytes; there are 120");
    CHECK(with(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, codes), bytes) ==
          "lanecast: the scales for the shape [3, 40] take 6 bytes; there are 4");
    CHECK(invalid([&] {
              lanecast::dequantize(lanecast::scaled(bytes, {4}, lanecast::scaling("per_tensor"), scale, codes), bytes);
          }) == "lanecast: the zero points for the shape [4] take 1 bytes; there are 120");
    CHECK(invalid([&] { lanecast::requantize(q, weights); }) == "no such error");
    CHECK(invalid([&] { lanecast::requantize(shifted, weights); }) ==
          "lanecast: the source has the shape [4] and the destination [3, 40]; they must have the same shape");
    CHECK(message<lanecast::error>([&] { (void)lanecast::quantize(x, shape, LANECAST_DTYPE_COMPLEX64, mx); }) != "no such error");
    CHECK(message<lanecast::error>([&] { (void)lanecast::quantize(x, shape, 99, mx); }).find("99") != std::string::npos);
    CHECK(message<lanecast::error>([&] {
              lanecast::quantize(x, lanecast::scaled(lanecast::as(LANECAST_DTYPE_INT8, x, 120), shape, mx, scales));
          }).find("overlap") != std::string::npos);
}

int main()
{
    views();
    scales();

    // Every kind of range on either side.
    const std::vector<double> x{1.5, -2.0, 300.0};
    int shorts[3];
    lanecast::cast(x, shorts);
    CHECK(shorts[0] == 1 && shorts[1] == -2 && shorts[2] == 300);
    std::array<std::complex<float>, 3> z{};
    lanecast::cast(shorts, z);
    CHECK(z[2] == std::complex<float>(300.0f, 0.0f));
    const bool flags[]{true, false};
    std::uint8_t bytes_of_flags[2];
    CHECK((lanecast::to<float>(flags) == std::vector<float>{1.0f, 0.0f}));
    CHECK((lanecast::to<std::int64_t>(std::initializer_list<float>{-1.9f}) == std::vector<std::int64_t>{-1}));
    CHECK(lanecast::to<double>(std::vector<float>()).empty());
    CHECK(lanecast::to<double>(std::array<float, 0>()).empty());
    matrix m(3);
    lanecast::cast(x, m);
    CHECK(lanecast::to<double>(m) == x);
    // Elements at an address.
    CHECK((lanecast::to<float>(lanecast::as(&shorts[1], 2)) == std::vector<float>{-2.0f, 300.0f}));
    lanecast::cast(std::array<float, 1>{9.0f}, lanecast::as(shorts, 1));
    CHECK(shorts[0] == 9);
    shorts[0] = 1;
#if __cplusplus >= 202002L
    const std::span<int> some = std::span<int>(shorts).subspan(1);
    CHECK((lanecast::to<float>(some) == std::vector<float>{-2.0f, 300.0f}));
    lanecast::cast(std::array<float, 2>{7.0f, 8.0f}, some);
    CHECK(shorts[0] == 1 && shorts[1] == 7 && shorts[2] == 8);
#endif

    // Dtypes that have no type, packed ones and parts of a byte.
    std::vector<std::uint16_t> words(3);
    lanecast::cast(x, lanecast::as(LANECAST_DTYPE_BFLOAT16, words));
    CHECK(words[0] == 0x3FC0 && (lanecast::to<double>(lanecast::as(LANECAST_DTYPE_BFLOAT16, words)) == x));
    CHECK(lanecast::to<half>(x)[1].bits == 0xC000);
    std::array<std::uint8_t, 2> packed{0xFF, 0xFF};
    lanecast::cast(x, lanecast::as(LANECAST_DTYPE_FLOAT4_E2M1FN, packed, 3));
    CHECK(packed[0] == 0xC3 && packed[1] == 0x07);
    lanecast::options each;
    each.dst_packing = LANECAST_PACKING_ONE_PER_BYTE;
    std::array<std::uint8_t, 3> bytes{};
    lanecast::cast(x, lanecast::as(LANECAST_DTYPE_FLOAT4_E2M1FN, bytes, 3), each);
    CHECK(bytes[0] == 0x3 && bytes[1] == 0xC && bytes[2] == 0x7);
    CHECK(lanecast::as(LANECAST_DTYPE_FLOAT6_E2M3FN, bytes).count == 4);

    // On threads, with options.
    std::vector<float> many(300000, 2.5f);
    std::vector<std::uint8_t> codes(many.size());
    lanecast::options nearest;
    nearest.int_rounding = LANECAST_ROUNDING_NEAREST_AWAY;
    lanecast::cast_parallel(many, codes, 2, nearest);
    CHECK(codes.front() == 3 && codes.back() == 3);

    // What is lost.
    many[7] = 256.0f;
    lanecast_report report = lanecast::cast_checked(many, codes);
    CHECK(report.elements == many.size() && report.above == 1 && report.first == 7 && report.inexact == many.size() - 1);
    std::vector<std::uint8_t> validity;
    CHECK(lanecast::cast_checked(many, codes, validity, nearest).first == 7 && validity.size() == many.size() / 8);
    CHECK(validity[0] == 0x7F && validity[1] == 0xFF && codes[7] == 255 && codes[8] == 3);
    CHECK(lanecast::cast_checked(flags, bytes_of_flags, validity).elements == 2 && validity[0] == 3 && validity.size() == 1);
    report = lanecast::cast_checked_parallel(many, codes, 2);
    CHECK(report.above == 1 && report.first == 7 && codes[8] == 2);
    CHECK(lanecast::check<std::uint8_t>(many).above == 1 && lanecast::check(many, LANECAST_DTYPE_BFLOAT16).inexact == 0);
    CHECK(message<lanecast::error>([&] { (void)lanecast::check(many, 99); }).find("99") != std::string::npos);
    CHECK(message<lanecast::error>([&] { lanecast::cast_checked(many, many, validity); }).find("overlap") != std::string::npos);
    codes.assign(codes.size(), 9);
    CHECK(message<lanecast::lossy>([&] { lanecast::try_cast(many, codes); }) ==
          "the cast would lose elements; the first is at index 7, of 300000 elements");
    CHECK(codes.front() == 9 && codes.back() == 9);
    many[7] = 0.0f;
    lanecast::try_cast(many, codes);
    CHECK(codes.front() == 2 && codes[7] == 0);

    // Errors.
    CHECK(message<std::invalid_argument>([&] { lanecast::cast(x, packed); }) ==
          "lanecast: the source has 3 elements and the destination has 2; they must have the same number");
    CHECK(message<std::invalid_argument>([&] { lanecast::cast(x, lanecast::as(LANECAST_DTYPE_FLOAT32, packed, 3)); }) ==
          "lanecast: the destination holds 0 elements of float32; 3 are needed");
    CHECK(message<std::invalid_argument>(
              [&] { lanecast::cast(x, lanecast::as(LANECAST_DTYPE_FLOAT4_E2M1FN, packed, 3), each); }) ==
          "lanecast: the destination holds 2 elements of float4_e2m1fn; 3 are needed");
    try {
        lanecast::cast(x, lanecast::as(99, packed));
        CHECK(false);
    } catch (const lanecast::error &error) {
        CHECK(error.status() == LANECAST_ERR_DTYPE && std::string(error.what()).find("99") != std::string::npos);
    }
    CHECK((message<lanecast::error>([] { lanecast::options("onyx"); }).find("onyx") != std::string::npos));
    const std::array<float, 1> large{1e9f};
    lanecast::cast(large, lanecast::as(LANECAST_DTYPE_FLOAT8_E5M2, bytes, 1), lanecast::options("torch"));
    CHECK(bytes[0] == 0x7C);
    lanecast::options wrong;
    wrong.rounding = 99;
    CHECK(message<lanecast::error>([&] { lanecast::cast(x, shorts, wrong); }) != "no such error");
    CHECK(message<lanecast::error>([&] { lanecast::cast(shorts, shorts); }) != "no such error");
    std::puts("all is as lanecast.hpp says");
}
