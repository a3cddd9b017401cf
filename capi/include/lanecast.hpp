/* lanecast for C++17: casts between vectors, arrays, spans and strided views. Everything else is in lanecast.h, and lanecast::require makes
 * exceptions of its statuses.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef LANECAST_HPP
#define LANECAST_HPP

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

#include "lanecast.h"

namespace lanecast {

/* What a function of lanecast.h could not do, in its words. */
class error : public std::runtime_error {
public:
    explicit error(lanecast_status status) : std::runtime_error(lanecast_error_message()), status_(status) {}

    /* LANECAST_ERR_... */
    lanecast_status status() const noexcept { return status_; }

protected:
    error(lanecast_status status, const std::string &what) : std::runtime_error(what), status_(status) {}

private:
    lanecast_status status_;
};

/* A cast that was refused because elements would be lost. */
class lossy : public error {
public:
    explicit lossy(const lanecast_report &report)
        : error(LANECAST_ERR_LOSSY, "the cast loses element " + std::to_string(report.first) + " first, of " +
                                        std::to_string(report.elements)),
          report_(report)
    {
    }

    const lanecast_report &report() const noexcept { return report_; }

private:
    lanecast_report report_;
};

/* Throws an error unless a status is LANECAST_OK. */
inline void require(lanecast_status status)
{
    if (status != LANECAST_OK)
        throw error(status);
}

/* lanecast_options with their defaults, or those of a profile: "onnx", "numpy", .. */
struct options : lanecast_options {
    options() : lanecast_options() { require(lanecast_options_init(this)); }
    explicit options(const char *profile) : lanecast_options() { require(lanecast_options_profile(this, profile)); }
};

namespace detail {

template <typename T> constexpr bool is_known = false;
template <typename T> constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <typename T> constexpr lanecast_dtype integer_dtype()
{
    constexpr lanecast_dtype dtypes[2][4] = {
        {LANECAST_DTYPE_UINT8, LANECAST_DTYPE_UINT16, LANECAST_DTYPE_UINT32, LANECAST_DTYPE_UINT64},
        {LANECAST_DTYPE_INT8, LANECAST_DTYPE_INT16, LANECAST_DTYPE_INT32, LANECAST_DTYPE_INT64},
    };
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "an integer of up to 64 bits");
    return dtypes[std::is_signed_v<T>][sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
}

} // namespace detail

/* The dtype of a type: of bool, of integers by size and sign, of float, double and std::complex of both; where there are such
 * types, of std::float16_t and std::bfloat16_t. A specialisation tells it of another type, which has the bits of its dtype; what
 * has no type is said by lanecast::as. */
template <typename T, typename = void> struct dtype_of {
    static_assert(detail::is_known<T>, "the type has no dtype: specialise lanecast::dtype_of, or say the dtype by lanecast::as");
    static constexpr lanecast_dtype value = LANECAST_DTYPE_UINT8;
};
template <typename T> struct dtype_of<T, std::enable_if_t<detail::is_integer<T>>> {
    static constexpr lanecast_dtype value = detail::integer_dtype<T>();
};
template <> struct dtype_of<bool> {
    static_assert(sizeof(bool) == 1, "a bool of 8 bits");
    static constexpr lanecast_dtype value = LANECAST_DTYPE_BOOL;
};
template <> struct dtype_of<float> { static constexpr lanecast_dtype value = LANECAST_DTYPE_FLOAT32; };
template <> struct dtype_of<double> { static constexpr lanecast_dtype value = LANECAST_DTYPE_FLOAT64; };
template <> struct dtype_of<std::complex<float>> { static constexpr lanecast_dtype value = LANECAST_DTYPE_COMPLEX64; };
template <> struct dtype_of<std::complex<double>> { static constexpr lanecast_dtype value = LANECAST_DTYPE_COMPLEX128; };
#ifdef __STDCPP_FLOAT16_T__
template <> struct dtype_of<std::float16_t> { static constexpr lanecast_dtype value = LANECAST_DTYPE_FLOAT16; };
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <> struct dtype_of<std::bfloat16_t> { static constexpr lanecast_dtype value = LANECAST_DTYPE_BFLOAT16; };
#endif

template <typename T> constexpr lanecast_dtype dtype_v = dtype_of<std::remove_cv_t<T>>::value;

/* Elements of a dtype in memory: `Void` is const void, or void where they may be written. */
template <typename Void> struct elements {
    lanecast_dtype dtype;
    Void *data;
    /* Of the memory. */
    std::size_t bytes;
    std::size_t count;
};

/* Elements of a shape that lie bytes apart: what lanecast::strided makes. */
template <typename Void> struct view {
    lanecast_dtype dtype;
    /* The first one, all of whose indices are 0. */
    Void *data;
    std::vector<std::size_t> shape;
    std::vector<std::ptrdiff_t> strides;
};

namespace detail {

template <typename Range> using pointer = decltype(std::data(std::declval<Range &>()));
template <typename Range> using element = std::remove_pointer_t<pointer<Range>>;
template <typename T> using void_of = std::conditional_t<std::is_const_v<T>, const void, void>;

template <typename T, typename = void> struct is_range : std::false_type {};
template <typename T>
struct is_range<T, std::void_t<pointer<T>, decltype(std::size(std::declval<T &>()))>> : std::is_pointer<pointer<T>> {};

template <typename T> struct is_elements : std::false_type {};
template <typename Void> struct is_elements<elements<Void>> : std::true_type {};
template <typename T> struct is_view : std::false_type {};
template <typename Void> struct is_view<view<Void>> : std::true_type {};

/* Memory and its bytes; the dtype and the count are still to be said. */
template <typename Range> auto memory(Range &range)
{
    using Plain = std::remove_const_t<Range>;
    static_assert(is_elements<Plain>::value || is_range<Range>::value,
                  "no range that lies in memory: a std::vector (not of bool), std::array, std::span, array, or the like");
    if constexpr (is_elements<Plain>::value)
        return range;
    else if constexpr (is_range<Range>::value) {
        using T = element<Range>;
        return elements<void_of<T>>{LANECAST_DTYPE_UINT8, std::data(range), std::size_t(std::size(range)) * sizeof(T), 0};
    } else
        return elements<void>{};
}

/* A range as elements of the dtype of its type; elements and views as they are. */
template <typename Range> decltype(auto) of(Range &range)
{
    if constexpr (is_view<std::remove_const_t<Range>>::value)
        return static_cast<const Range &>(range);
    else {
        auto found = memory(range);
        if constexpr (!is_elements<std::remove_const_t<Range>>::value && is_range<Range>::value) {
            found.dtype = dtype_v<element<Range>>;
            found.count = found.bytes / sizeof(element<Range>);
        }
        return found;
    }
}

/* The width of a dtype. */
inline std::size_t bits_of(lanecast_dtype dtype)
{
    const std::size_t bits = lanecast_dtype_bits(dtype);
    if (bits == 0)
        /* There is no such dtype, and the library says so. */
        require(lanecast_cast(dtype, nullptr, dtype, nullptr, 0, nullptr));
    return bits;
}

/* How many elements of a dtype fit into some bytes. */
inline std::size_t fitting(lanecast_dtype dtype, std::size_t bytes, std::uint8_t packing)
{
    const std::size_t bits = bits_of(dtype);
    if (bits >= 8)
        return bytes / (bits / 8);
    if (packing == LANECAST_PACKING_ONE_PER_BYTE)
        return bytes;
    return bytes / bits * 8 + bytes % bits * 8 / bits;
}

/* An error unless elements have room. */
inline void check(const char *which, lanecast_dtype dtype, std::size_t bytes, std::size_t count, std::uint8_t packing)
{
    const std::size_t fits = fitting(dtype, bytes, packing);
    if (count > fits)
        throw std::invalid_argument("lanecast: the " + std::string(which) + " has room for " + std::to_string(fits) +
                                    " elements of " + lanecast_dtype_name(dtype) + ", not " + std::to_string(count));
}

/* A shape as it is written: [3, 4]. */
inline std::string text(const std::vector<std::size_t> &shape)
{
    std::string result = "[";
    for (const std::size_t length : shape)
        result += (result.size() == 1 ? "" : ", ") + std::to_string(length);
    return result + "]";
}

/* How many elements a shape has. */
inline std::size_t product(const std::vector<std::size_t> &shape)
{
    if (std::find(shape.begin(), shape.end(), 0u) != shape.end())
        return 0;
    std::size_t count = 1;
    for (const std::size_t length : shape) {
        if (count > SIZE_MAX / length)
            throw std::invalid_argument("lanecast: " + text(shape) + " are more elements than there are addresses");
        count *= length;
    }
    return count;
}

inline void same_count(std::size_t src, std::size_t dst)
{
    if (src != dst)
        throw std::invalid_argument("lanecast: the source has " + std::to_string(src) +
                                    " elements, and the destination " + std::to_string(dst));
}

template <typename From> std::size_t count(const From &from)
{
    if constexpr (is_view<From>::value)
        return product(from.shape);
    else
        return of(from).count;
}

/* Bytes from one element of a view to the next if nothing lies between them. */
inline std::size_t step_of(lanecast_dtype dtype)
{
    return (bits_of(dtype) + 7) / 8;
}

/* Elements in row-major order as a view of a shape, which has as many. */
template <typename Void> view<Void> shaped(const elements<Void> &dense, const std::vector<std::size_t> &shape)
{
    view<Void> result{dense.dtype, dense.data, shape, std::vector<std::ptrdiff_t>(shape.size())};
    std::size_t step = step_of(dense.dtype);
    for (std::size_t i = shape.size(); i-- > 0; step *= shape[i])
        result.strides[i] = static_cast<std::ptrdiff_t>(step);
    return result;
}

/* Compares both sides of a cast and calls a function of lanecast.h, with what is to be cast and the options: `cast`, or `cast_views` if
 * a side is a view. */
template <typename From, typename To, typename Cast, typename CastViews>
lanecast_status on(const From &from, To &to, const lanecast_options &how, Cast cast, CastViews cast_views)
{
    const auto &src = of(from);
    const auto &dst = of(to);
    using Source = std::decay_t<decltype(src)>;
    using Destination = std::decay_t<decltype(dst)>;
    static_assert(std::is_same_v<decltype(dst.data), void *>, "the destination must not be const");
    if constexpr (!is_view<Source>::value)
        check("source", src.dtype, src.bytes, src.count, how.src_packing);
    if constexpr (!is_view<Destination>::value)
        check("destination", dst.dtype, dst.bytes, dst.count, how.dst_packing);
    if constexpr (is_view<Source>::value && is_view<Destination>::value) {
        if (src.shape != dst.shape)
            throw std::invalid_argument("lanecast: the source is " + text(src.shape) + ", and the destination " + text(dst.shape));
        return cast_views(src.dtype, src.data, src.strides.data(), dst.dtype, dst.data, dst.strides.data(), src.shape.data(),
                          src.shape.size(), &how);
    } else if constexpr (is_view<Source>::value) {
        same_count(product(src.shape), dst.count);
        const auto whole = shaped(dst, src.shape);
        return on(src, whole, how, cast, cast_views);
    } else if constexpr (is_view<Destination>::value) {
        same_count(src.count, product(dst.shape));
        const auto whole = shaped(src, dst.shape);
        return on(whole, dst, how, cast, cast_views);
    } else {
        same_count(src.count, dst.count);
        return cast(src.dtype, src.data, dst.dtype, dst.data, src.count, &how);
    }
}

/* In place of a function that there is not. */
struct no_views {
    template <typename... With> lanecast_status operator()(const With &...) const
    {
        static_assert(sizeof...(With) == 0, "lanecast::try_cast takes no views: lanecast::cast_checked says what was lost");
        return LANECAST_OK;
    }
};

/* So many threads for a function that takes them so. */
inline lanecast_parallel on_threads(std::uint32_t threads)
{
    lanecast_parallel how;
    require(lanecast_parallel_init(&how));
    how.threads = threads;
    return how;
}

} // namespace detail

/* Memory as `count` elements of a dtype, such as 16-bit integers that are bfloat16: lanecast::as(LANECAST_DTYPE_BFLOAT16, words).
 * Packed elements fill bytes from the low bits on, or as the options of the cast say. The memory must outlive what this returns. */
template <typename Range> [[nodiscard]] auto as(lanecast_dtype dtype, Range &&range, std::size_t count)
{
    auto found = detail::memory(range);
    found.dtype = dtype;
    found.count = count;
    return found;
}

/* The same of all that is in there, packed if they have fewer than 8 bits. */
template <typename Range> [[nodiscard]] auto as(lanecast_dtype dtype, Range &&range)
{
    const auto found = detail::memory(range);
    return as(dtype, found, detail::fitting(dtype, found.bytes, LANECAST_PACKING_LOW_FIRST));
}

/* `count` elements at an address, which there must be. */
template <typename T> [[nodiscard]] auto as(T *data, std::size_t count)
{
    return elements<detail::void_of<T>>{dtype_v<T>, data, count * sizeof(T), count};
}

/* A view of memory: elements of a shape that lie `strides` bytes apart along each dimension, of any sign, from the one at byte `first`
 * on. lanecast::strided(matrix, {columns, rows}, {4, 4 * columns}) is a matrix of floats, transposed. A stride of 0 repeats a source.
 * Elements of fewer than 8 bits lie one per byte, and the options of the cast must say so. Throws unless all are in the memory, which must
 * outlive the view. */
template <typename Range>
[[nodiscard]] auto strided(Range &&range, std::vector<std::size_t> shape, std::vector<std::ptrdiff_t> strides,
                           std::size_t first = 0)
{
    const auto all = detail::of(range);
    using Void = std::remove_pointer_t<decltype(all.data)>;
    using Byte = std::conditional_t<std::is_const_v<Void>, const unsigned char, unsigned char>;
    if (shape.size() != strides.size())
        throw std::invalid_argument("lanecast: " + std::to_string(strides.size()) + " strides of a view of " + detail::text(shape));
    const std::size_t step = detail::step_of(all.dtype);
    /* Bytes that the view takes before its first element, and from there on. */
    std::size_t before = 0, behind = step;
    bool fits = first <= all.bytes && behind <= all.bytes - first;
    for (std::size_t i = 0; i < shape.size(); i++) {
        if (shape[i] < 2)
            continue;
        const bool backwards = strides[i] < 0;
        const std::size_t stride = static_cast<std::size_t>(strides[i]), size = backwards ? 0 - stride : stride;
        if (!detail::is_elements<std::decay_t<Range>>::value && size % step != 0)
            /* Or else strides that count elements would do something. */
            throw std::invalid_argument("lanecast: strides are bytes, and " + std::to_string(strides[i]) +
                                        " is no multiple of the size of an element, " + std::to_string(step));
        std::size_t &side = backwards ? before : behind;
        const std::size_t room = backwards ? first : all.bytes - first;
        fits = fits && (size == 0 || shape[i] - 1 <= (room - side) / size);
        if (fits)
            side += (shape[i] - 1) * size;
    }
    const bool empty = std::find(shape.begin(), shape.end(), 0u) != shape.end();
    if (!fits && !empty)
        throw std::invalid_argument("lanecast: a view of " + detail::text(shape) + " leaves the " + std::to_string(all.bytes) +
                                    " bytes that it is of");
    Void *const data = empty ? all.data : static_cast<Byte *>(all.data) + first;
    return view<Void>{all.dtype, data, std::move(shape), std::move(strides)};
}

/* Casts elements. Both sides are a std::vector, std::array, std::span, array, or what lanecast::as or lanecast::strided makes of one; two
 * views have one shape, and what is cast to or from one view is in row-major order. */
template <typename From, typename To>
void cast(const From &from, To &&to, const lanecast_options &how = options())
{
    require(detail::on(from, to, how, lanecast_cast, lanecast_cast_strided));
}

/* The same on so many threads; 0 for a pool of as many as there are cores. */
template <typename From, typename To>
void cast_parallel(const From &from, To &&to, std::uint32_t threads = 0, const lanecast_options &how = options())
{
    const lanecast_parallel on = detail::on_threads(threads);
    require(detail::on(
        from, to, how, [&](auto... with) { return lanecast_cast_parallel_with(with..., &on); },
        [&](auto... with) { return lanecast_cast_strided_parallel(with..., &on); }));
}

/* Casts, and says what that loses. Elements of views are counted in row-major order. */
template <typename From, typename To>
lanecast_report cast_checked(const From &from, To &&to, const lanecast_options &how = options())
{
    lanecast_report report;
    const lanecast_status status = detail::on(
        from, to, how, [&](auto... with) { return lanecast_cast_checked(with..., &report, nullptr); },
        [&](auto... with) { return lanecast_cast_strided_checked(with..., &report); });
    if (status != LANECAST_ERR_LOSSY)
        require(status);
    return report;
}

/* Casts, unless that loses an element: then it throws lanecast::lossy, and nothing is written. Rounding is no loss. Neither side is a
 * view. */
template <typename From, typename To>
void try_cast(const From &from, To &&to, const lanecast_options &how = options())
{
    const auto cast_unless_lossy = [](auto src_dtype, auto src, auto dst_dtype, auto dst, auto n, auto o) {
        lanecast_report report;
        const lanecast_status status = lanecast_check(src_dtype, src, dst_dtype, n, o, &report);
        if (status == LANECAST_ERR_LOSSY)
            throw lossy(report);
        require(status);
        return lanecast_cast(src_dtype, src, dst_dtype, dst, n, o);
    };
    require(detail::on(from, to, how, cast_unless_lossy, detail::no_views()));
}

/* A vector of what elements become: lanecast::to<float>(bytes). */
template <typename To, typename From>
[[nodiscard]] std::vector<To> to(const From &from, const lanecast_options &how = options())
{
    static_assert(!std::is_same_v<To, bool>, "std::vector<bool> has no elements in memory");
    std::vector<To> result(detail::count(from));
    cast(from, result, how);
    return result;
}

} // namespace lanecast

#endif /* LANECAST_HPP */
