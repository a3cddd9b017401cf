/* lanecast for C++17: casts between vectors, arrays, spans and strided views, reports of what these lose, and scaled casts.
 * Everything else is in lanecast.h, whose statuses lanecast::require turns into exceptions.
 *
 * Sizes, shapes and strides that do not fit are found here, and throw std::invalid_argument. A status of lanecast.h throws
 * lanecast::error, which has the status; try_cast throws lanecast::lossy, which is one and has the report.
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

/* A call of lanecast.h that failed, with its message. */
class error : public std::runtime_error {
public:
    /* The message is that of the last call of this thread that failed; the library keeps none of LANECAST_ERR_MEMORY. */
    explicit error(lanecast_status status)
        : std::runtime_error(status == LANECAST_ERR_MEMORY ? lanecast_strerror(status) : lanecast_error_message()),
          status_(status)
    {
    }

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
        : error(LANECAST_ERR_LOSSY, "the cast would lose elements; the first is at index " + std::to_string(report.first) +
                                        ", of " + std::to_string(report.elements) + " elements"),
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

/* lanecast_options, made with the defaults or those of a profile: "onnx", "numpy", .. */
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

/* The dtype of a type: bool, integers by size and sign, float, double, std::complex of both, and std::float16_t and
 * std::bfloat16_t where they exist. Specialise it for another type, which must have the bits of its dtype. For elements that
 * have no type of their own, use lanecast::as. */
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

/* Elements of a dtype that are contiguous in memory. Void is const void, or void if they may be written. */
template <typename Void> struct elements {
    lanecast_dtype dtype;
    Void *data;
    /* The size of the memory. */
    std::size_t bytes;
    /* The number of elements. */
    std::size_t count;
};

/* Elements of a shape that lie strides apart in memory. lanecast::strided makes it. */
template <typename Void> struct view {
    lanecast_dtype dtype;
    /* The element whose indices are all 0. */
    Void *data;
    std::vector<std::size_t> shape;
    /* In bytes. */
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

/* Returns the memory of a range and its size in bytes. The caller sets the dtype and the count. */
template <typename Range> auto memory(Range &range)
{
    using Plain = std::remove_const_t<Range>;
    static_assert(is_elements<Plain>::value || is_range<Range>::value,
                  "not a range that lies in memory: a std::vector (not of bool), std::array, std::span, array, or the like");
    if constexpr (is_elements<Plain>::value)
        return range;
    else if constexpr (is_range<Range>::value) {
        using T = element<Range>;
        return elements<void_of<T>>{LANECAST_DTYPE_UINT8, std::data(range), std::size_t(std::size(range)) * sizeof(T), 0};
    } else
        return elements<void>{};
}

/* Returns a range as elements of the dtype of its type, and elements and views as they are. */
template <typename Range> decltype(auto) of(Range &range)
{
    if constexpr (is_view<std::remove_const_t<Range>>::value)
        return static_cast<const Range &>(range);
    else {
        auto found = detail::memory(range);
        if constexpr (!is_elements<std::remove_const_t<Range>>::value && is_range<Range>::value) {
            found.dtype = dtype_v<element<Range>>;
            found.count = found.bytes / sizeof(element<Range>);
        }
        return found;
    }
}

/* As detail::of, but refuses views: the elements must lie in row-major order. */
template <typename Range> auto flat(Range &range)
{
    static_assert(!is_view<std::remove_const_t<Range>>::value,
                  "scaled casts take no views: lanecast::to makes a vector of one, and lanecast::cast writes to one");
    return detail::of(range);
}

/* Returns the width of a dtype in bits. */
inline std::size_t bits_of(lanecast_dtype dtype)
{
    const std::size_t bits = lanecast_dtype_bits(dtype);
    if (bits == 0)
        /* There is no such dtype. This call fails, and its message says so. */
        require(lanecast_cast(dtype, nullptr, dtype, nullptr, 0, nullptr));
    return bits;
}

/* Returns how many elements of a dtype fit into some bytes. */
inline std::size_t fitting(lanecast_dtype dtype, std::size_t bytes, std::uint8_t packing)
{
    const std::size_t bits = bits_of(dtype);
    if (bits >= 8)
        return bytes / (bits / 8);
    if (packing == LANECAST_PACKING_ONE_PER_BYTE)
        return bytes;
    return bytes / bits * 8 + bytes % bits * 8 / bits;
}

/* Throws unless some bytes have room for count elements. */
inline void check(const char *which, lanecast_dtype dtype, std::size_t bytes, std::size_t count, std::uint8_t packing)
{
    const std::size_t fits = fitting(dtype, bytes, packing);
    if (count > fits)
        throw std::invalid_argument("lanecast: the " + std::string(which) + " holds " + std::to_string(fits) + " elements of " +
                                    lanecast_dtype_name(dtype) + "; " + std::to_string(count) + " are needed");
}

/* Returns a shape as text: [3, 4]. */
inline std::string text(const std::vector<std::size_t> &shape)
{
    std::string result = "[";
    for (const std::size_t length : shape)
        result += (result.size() == 1 ? "" : ", ") + std::to_string(length);
    return result + "]";
}

inline std::uint32_t ndim(const std::vector<std::size_t> &shape)
{
    return static_cast<std::uint32_t>(shape.size());
}

/* Returns how many elements a shape has. */
inline std::size_t product(const std::vector<std::size_t> &shape)
{
    if (std::find(shape.begin(), shape.end(), 0u) != shape.end())
        return 0;
    std::size_t count = 1;
    for (const std::size_t length : shape) {
        if (count > SIZE_MAX / length)
            throw std::invalid_argument("lanecast: a range of shape " + text(shape) + " does not fit into the address space");
        count *= length;
    }
    return count;
}

inline void same_shape(const std::vector<std::size_t> &src, const std::vector<std::size_t> &dst)
{
    if (src != dst)
        throw std::invalid_argument("lanecast: the source has the shape " + text(src) + " and the destination " + text(dst) +
                                    "; they must have the same shape");
}

inline void same_count(std::size_t src, std::size_t dst)
{
    if (src != dst)
        throw std::invalid_argument("lanecast: the source has " + std::to_string(src) +
                                    " elements and the destination has " + std::to_string(dst) +
                                    "; they must have the same number");
}

template <typename From> std::size_t count(const From &from)
{
    if constexpr (is_view<From>::value)
        return product(from.shape);
    else
        return detail::of(from).count;
}

/* Returns the bytes from one element of a view to the next if nothing lies between them. */
inline std::size_t step_of(lanecast_dtype dtype)
{
    return (bits_of(dtype) + 7) / 8;
}

/* Returns elements in row-major order as a view of a shape, which must have as many elements. */
template <typename Void> view<Void> shaped(const elements<Void> &dense, const std::vector<std::size_t> &shape)
{
    view<Void> result{dense.dtype, dense.data, shape, std::vector<std::ptrdiff_t>(shape.size())};
    std::size_t step = step_of(dense.dtype);
    for (std::size_t i = shape.size(); i-- > 0; step *= shape[i])
        result.strides[i] = static_cast<std::ptrdiff_t>(step);
    return result;
}

/* Checks that both sides of a cast go together, and calls a function of lanecast.h with them and the options: cast, or
 * cast_views if a side is a view. */
template <typename From, typename To, typename Cast, typename CastViews>
lanecast_status on(const From &from, To &to, const lanecast_options &how, Cast cast, CastViews cast_views)
{
    const auto &src = detail::of(from);
    const auto &dst = detail::of(to);
    using Source = std::decay_t<decltype(src)>;
    using Destination = std::decay_t<decltype(dst)>;
    static_assert(std::is_same_v<decltype(dst.data), void *>, "the destination must not be const");
    if constexpr (!is_view<Source>::value)
        detail::check("source", src.dtype, src.bytes, src.count, how.src_packing);
    if constexpr (!is_view<Destination>::value)
        detail::check("destination", dst.dtype, dst.bytes, dst.count, how.dst_packing);
    if constexpr (is_view<Source>::value && is_view<Destination>::value) {
        same_shape(src.shape, dst.shape);
        return cast_views(src.dtype, src.data, src.strides.data(), dst.dtype, dst.data, dst.strides.data(),
                          src.shape.data(), src.shape.size(), &how);
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

/* Stands in for a function for views that lanecast.h does not have. */
struct no_views {
    template <typename... With> lanecast_status operator()(const With &...) const
    {
        static_assert(sizeof...(With) == 0, "this takes no views: lanecast::cast_checked does, without a bitmap and on the calling thread");
        return LANECAST_OK;
    }
};

/* Finds what a cast of elements, or of a view, would lose: returns LANECAST_ERR_LOSSY and a report, or another status. */
template <typename Void>
lanecast_status look(const elements<Void> &src, lanecast_dtype to, const lanecast_options &how, lanecast_report &report)
{
    detail::check("source", src.dtype, src.bytes, src.count, how.src_packing);
    return lanecast_check(src.dtype, src.data, to, src.count, &how, &report);
}

template <typename Void>
lanecast_status look(const view<Void> &src, lanecast_dtype to, const lanecast_options &how, lanecast_report &report)
{
    return lanecast_check_strided(src.dtype, src.data, src.strides.data(), to, src.shape.data(), src.shape.size(), &how,
                                  &report);
}

/* Returns the report of a call. Throws if its status is an error other than LANECAST_ERR_LOSSY. */
inline const lanecast_report &reported(lanecast_status status, const lanecast_report &report)
{
    if (status != LANECAST_ERR_LOSSY)
        require(status);
    return report;
}

/* Returns a lanecast_parallel with this many threads. */
inline lanecast_parallel on_threads(std::uint32_t threads)
{
    lanecast_parallel how;
    require(lanecast_parallel_init(&how));
    how.threads = threads;
    return how;
}

} // namespace detail

/* Returns memory as count elements of a dtype, such as 16-bit words that hold bfloat16:
 * lanecast::as(LANECAST_DTYPE_BFLOAT16, words, 100). Packed elements fill bytes from the low bits on, or as the options of the
 * cast say. The memory must outlive the result. */
template <typename Range> [[nodiscard]] auto as(lanecast_dtype dtype, Range &&range, std::size_t count)
{
    auto found = detail::memory(range);
    found.dtype = dtype;
    found.count = count;
    return found;
}

/* Returns the whole of some memory as elements of a dtype, packed if they have fewer than 8 bits:
 * lanecast::as(LANECAST_DTYPE_BFLOAT16, words). The memory must outlive the result. */
template <typename Range> [[nodiscard]] auto as(lanecast_dtype dtype, Range &&range)
{
    const auto found = detail::memory(range);
    return lanecast::as(dtype, found, detail::fitting(dtype, found.bytes, LANECAST_PACKING_LOW_FIRST));
}

/* Returns count elements at an address. The caller must make sure that there are so many: nothing checks it. */
template <typename T> [[nodiscard]] auto as(T *data, std::size_t count)
{
    return elements<detail::void_of<T>>{dtype_v<T>, data, count * sizeof(T), count};
}

/* Returns a strided view of memory. first is the byte at which the element with indices all 0 begins, and strides are the bytes
 * from an element to the next along each dimension. A stride may be negative; 0 repeats elements of a source.
 *
 * lanecast::strided(matrix, {columns, rows}, {4, 4 * columns}) is a matrix of floats, transposed. Elements of fewer than 8 bits
 * lie one per byte, and the options of the cast must say so. Throws unless all elements are in the memory, which must outlive
 * the view. */
template <typename Range>
[[nodiscard]] auto strided(Range &&range, std::vector<std::size_t> shape, std::vector<std::ptrdiff_t> strides,
                           std::size_t first = 0)
{
    const auto all = detail::of(range);
    using Void = std::remove_pointer_t<decltype(all.data)>;
    using Byte = std::conditional_t<std::is_const_v<Void>, const unsigned char, unsigned char>;
    if (shape.size() != strides.size())
        throw std::invalid_argument("lanecast: a view of shape " + detail::text(shape) + " has " +
                                    std::to_string(strides.size()) + " strides; it needs one for each dimension");
    const std::size_t step = detail::step_of(all.dtype);
    /* Where the range has elements of a type, numbers that are no multiples of their size are refused: they may count elements. */
    const auto check_bytes = [&](std::size_t bytes) {
        if (!detail::is_elements<std::decay_t<Range>>::value && bytes % step != 0)
            throw std::invalid_argument("lanecast: strides and first count bytes, and " + std::to_string(bytes) +
                                        " is not a multiple of the size of an element, " + std::to_string(step));
    };
    check_bytes(first);
    /* The bytes that the view takes before byte first, and from there on. */
    std::size_t before = 0, behind = step;
    bool fits = first <= all.bytes && behind <= all.bytes - first;
    for (std::size_t i = 0; i < shape.size(); i++) {
        if (shape[i] < 2)
            continue;
        const bool backwards = strides[i] < 0;
        const std::size_t stride = static_cast<std::size_t>(strides[i]), size = backwards ? 0 - stride : stride;
        check_bytes(size);
        std::size_t &side = backwards ? before : behind;
        const std::size_t room = backwards ? first : all.bytes - first;
        fits = fits && (size == 0 || shape[i] - 1 <= (room - side) / size);
        if (fits)
            side += (shape[i] - 1) * size;
    }
    const bool empty = std::find(shape.begin(), shape.end(), 0u) != shape.end();
    if (!fits && !empty)
        throw std::invalid_argument("lanecast: a view of shape " + detail::text(shape) + " with these strides extends beyond the " +
                                    std::to_string(all.bytes) + " bytes of its range");
    Void *const data = empty ? all.data : static_cast<Byte *>(all.data) + first;
    return view<Void>{all.dtype, data, std::move(shape), std::move(strides)};
}

/* Casts elements. Each side is a std::vector, std::array, std::span or array, or what lanecast::as or lanecast::strided makes of
 * one. Two views must have the same shape. If only one side is a view, the elements of the other lie in row-major order. */
template <typename From, typename To>
void cast(const From &from, To &&to, const lanecast_options &how = options())
{
    require(detail::on(from, to, how, lanecast_cast, lanecast_cast_strided));
}

/* As lanecast::cast, but on this many threads; 0: a pool of as many as there are cores. */
template <typename From, typename To>
void cast_parallel(const From &from, To &&to, std::uint32_t threads = 0, const lanecast_options &how = options())
{
    const lanecast_parallel on = detail::on_threads(threads);
    require(detail::on(
        from, to, how, [&](auto... with) { return lanecast_cast_parallel_with(with..., &on); },
        [&](auto... with) { return lanecast_cast_strided_parallel(with..., &on); }));
}

/* As lanecast::cast, but returns a report of what was lost. Elements of views are counted in row-major order. */
template <typename From, typename To>
lanecast_report cast_checked(const From &from, To &&to, const lanecast_options &how = options())
{
    lanecast_report report{};
    const lanecast_status status = detail::on(
        from, to, how, [&](auto... with) { return lanecast_cast_checked(with..., &report, nullptr); },
        [&](auto... with) { return lanecast_cast_strided_checked(with..., &report); });
    return detail::reported(status, report);
}

/* As lanecast::cast_checked, but also writes which elements were lost: bit i % 8 of byte i / 8 of validity is 0 if element i was.
 * validity gets the size that this takes. Neither side may be a view. */
template <typename From, typename To>
lanecast_report cast_checked(const From &from, To &&to, std::vector<std::uint8_t> &validity,
                             const lanecast_options &how = options())
{
    lanecast_report report{};
    const auto cast = [&](auto src_dtype, auto src, auto dst_dtype, auto dst, auto n, auto o) {
        validity.assign(n / 8 + (n % 8 != 0), 0);
        return lanecast_cast_checked(src_dtype, src, dst_dtype, dst, n, o, &report, validity.data());
    };
    return detail::reported(detail::on(from, to, how, cast, detail::no_views()), report);
}

/* As lanecast::cast_checked, but on this many threads; 0: a pool of as many as there are cores. Neither side may be a view. */
template <typename From, typename To>
lanecast_report cast_checked_parallel(const From &from, To &&to, std::uint32_t threads = 0,
                                      const lanecast_options &how = options())
{
    lanecast_report report{};
    const lanecast_parallel on = detail::on_threads(threads);
    const auto cast = [&](auto... with) { return lanecast_cast_checked_parallel(with..., &on, &report); };
    return detail::reported(detail::on(from, to, how, cast, detail::no_views()), report);
}

/* Returns a report of what a cast to a dtype would lose. Nothing is cast, and no room for results is needed. */
template <typename From>
[[nodiscard]] lanecast_report check(const From &from, lanecast_dtype to, const lanecast_options &how = options())
{
    lanecast_report report{};
    return detail::reported(detail::look(detail::of(from), to, how, report), report);
}

/* Returns a report of what a cast to the dtype of a type would lose: lanecast::check<std::uint8_t>(x).above. */
template <typename To, typename From>
[[nodiscard]] lanecast_report check(const From &from, const lanecast_options &how = options())
{
    return lanecast::check(from, dtype_v<To>, how);
}

/* As lanecast::cast, but if an element would be lost, throws lanecast::lossy, and nothing is written. Rounding is no loss.
 * Elements of a view are counted in row-major order. */
template <typename From, typename To>
void try_cast(const From &from, To &&to, const lanecast_options &how = options())
{
    const auto check = [&](lanecast_dtype dtype) {
        const lanecast_report report = lanecast::check(from, dtype, how);
        if (report.first != UINT64_MAX)
            throw lossy(report);
    };
    require(detail::on(
        from, to, how,
        [&](auto src_dtype, auto src, auto dst_dtype, auto... with) {
            check(dst_dtype);
            return lanecast_cast(src_dtype, src, dst_dtype, with...);
        },
        [&](auto src_dtype, auto src, auto src_strides, auto dst_dtype, auto... with) {
            check(dst_dtype);
            return lanecast_cast_strided(src_dtype, src, src_strides, dst_dtype, with...);
        }));
}

/* Casts elements to a new vector: lanecast::to<float>(bytes). */
template <typename To, typename From>
[[nodiscard]] std::vector<To> to(const From &from, const lanecast_options &how = options())
{
    static_assert(!std::is_same_v<To, bool>, "std::vector<bool> has no elements in memory");
    std::vector<To> result(detail::count(from));
    lanecast::cast(from, result, how);
    return result;
}

/* lanecast_scaling, made by its name: "mx", "nvfp4", "deepseek", .. */
struct scaling : lanecast_scaling {
    scaling(const lanecast_scaling &other) : lanecast_scaling(other) {}
    explicit scaling(const char *name) : lanecast_scaling() { require(lanecast_scaling_init(this, name)); }
};

/* Elements of a shape under scales, in memory of the caller's. lanecast::scaled makes it. */
template <typename Codes, typename Scales> struct scaled_elements {
    elements<Codes> codes;
    std::vector<std::size_t> shape;
    lanecast_scaling scaling;
    elements<Scales> scales;
    /* Its data is null if there are none. */
    elements<Scales> zero_points;
};

/* Elements of a shape under scales, in memory of their own. lanecast::quantize and lanecast::requantize make it. */
struct quantized {
    lanecast_dtype dtype;
    std::vector<std::size_t> shape;
    /* If a tensor scale was computed, it is set here. */
    lanecast::scaling scaling;
    /* The elements, packed as packing says. */
    std::vector<std::uint8_t> codes;
    /* The scales, laid out as the scaling says. lanecast::to<float>(lanecast::as(scaling.scale_dtype, scales)) are their values if
     * they are in native byte order. */
    std::vector<std::uint8_t> scales;
    /* LANECAST_PACKING_* of the codes, and LANECAST_ORDER_* of codes and scales: dst_packing and dst_order of the options. */
    std::uint8_t packing;
    std::uint8_t order;
};

/* Returns elements under scales in memory of the caller's. The dtype is that of the type of codes, or what lanecast::as says.
 * scales may be of any type, and must have the bytes that the scaling needs. There is one zero point for each scale, of the dtype
 * of the codes and packed as they are. The memory must outlive the result. */
template <typename Codes, typename Scales, typename ZeroPoints>
[[nodiscard]] auto scaled(Codes &&codes, std::vector<std::size_t> shape, const lanecast_scaling &by, Scales &&scales,
                          ZeroPoints &&zero_points)
{
    const auto all = detail::flat(codes);
    const auto of_scales = detail::memory(scales);
    const auto zeros = detail::memory(zero_points);
    /* void if both scales and zero points can be written, else const void. */
    using Void = std::remove_pointer_t<std::common_type_t<decltype(of_scales.data), decltype(zeros.data)>>;
    return scaled_elements<std::remove_pointer_t<decltype(all.data)>, Void>{
        all, std::move(shape), by, {of_scales.dtype, of_scales.data, of_scales.bytes, of_scales.count},
        {zeros.dtype, zeros.data, zeros.bytes, zeros.count}};
}

template <typename Codes, typename Scales>
[[nodiscard]] auto scaled(Codes &&codes, std::vector<std::size_t> shape, const lanecast_scaling &by, Scales &&scales)
{
    return lanecast::scaled(codes, std::move(shape), by, scales, elements<void>());
}

namespace detail {

/* Returns the bytes of count elements. */
inline std::size_t bytes_of(lanecast_dtype dtype, std::size_t count, std::uint8_t packing)
{
    const std::size_t bits = bits_of(dtype);
    if (bits < 8 && packing != LANECAST_PACKING_ONE_PER_BYTE)
        return count / 8 * bits + (count % 8 * bits + 7) / 8;
    return product({count, step_of(dtype)});
}

/* Returns the bytes of the codes of a shape. */
inline std::size_t code_bytes(lanecast_dtype dtype, const std::vector<std::size_t> &shape, const lanecast_scaling &by,
                              std::uint8_t packing)
{
    const std::size_t count = product(shape);
    if (by.row_bytes == 0 || count == 0)
        return bytes_of(dtype, count, packing);
    return product({shape.empty() ? 1 : count / shape.back(), by.row_bytes});
}

/* Returns the bytes of the scales of a shape, and how many scales there are. */
inline std::pair<std::size_t, std::size_t> scale_bytes(const std::vector<std::size_t> &shape, const lanecast_scaling &by)
{
    std::size_t bytes = 0;
    std::vector<std::size_t> lengths(shape.size());
    require(lanecast_scale_shape(shape.data(), ndim(shape), &by, lengths.data(), &bytes));
    return {bytes, product(lengths)};
}

inline void same_bytes(const char *what, const std::vector<std::size_t> &shape, std::size_t needed, std::size_t given)
{
    if (needed != given)
        throw std::invalid_argument("lanecast: the " + std::string(what) + " for the shape " + text(shape) + " take " +
                                    std::to_string(needed) + " bytes; there are " + std::to_string(given));
}

/* Throws unless codes, scales and zero points have the sizes that the shape needs. */
template <typename Codes, typename Scales> void check(const scaled_elements<Codes, Scales> &it, std::uint8_t packing)
{
    const std::size_t needed = code_bytes(it.codes.dtype, it.shape, it.scaling, packing);
    /* The buffer of codes may be longer if its count is that of the shape: then its first elements are meant. */
    if (it.codes.bytes < needed || it.codes.count != product(it.shape))
        same_bytes("elements", it.shape, needed, it.codes.bytes);
    const auto [bytes, count] = scale_bytes(it.shape, it.scaling);
    same_bytes("scales", it.shape, bytes, it.scales.bytes);
    if (it.zero_points.data != nullptr)
        same_bytes("zero points", it.shape, bytes_of(it.codes.dtype, count, packing), it.zero_points.bytes);
}

/* Throws unless data have as many elements as a shape, and room for them. */
template <typename Void>
void check(const char *which, const elements<Void> &data, const std::vector<std::size_t> &shape, std::uint8_t packing)
{
    const std::size_t count = product(shape);
    if (data.count != count)
        throw std::invalid_argument("lanecast: the shape " + text(shape) + " has " + std::to_string(count) + " elements, but the " +
                                    which + " has " + std::to_string(data.count));
    detail::check(which, data.dtype, data.bytes, data.count, packing);
}

template <typename T> struct is_scaled : std::is_same<T, quantized> {};
template <typename Codes, typename Scales> struct is_scaled<scaled_elements<Codes, Scales>> : std::true_type {};

/* Returns what lanecast::scaled made as it is, and a quantized as elements in its memory, writable unless it is const. */
template <typename Scaled> decltype(auto) under_scales(Scaled &it)
{
    static_assert(is_scaled<std::remove_const_t<Scaled>>::value, "not what lanecast::scaled or lanecast::quantize returns");
    if constexpr (std::is_same_v<std::remove_const_t<Scaled>, quantized>)
        return scaled(as(it.dtype, it.codes, product(it.shape)), it.shape, it.scaling, it.scales);
    else
        return static_cast<const Scaled &>(it);
}

/* Returns the options by which elements under scales are read. A quantized has packing and byte order of its own. */
template <typename From> lanecast_options reading(const From &from, lanecast_options how)
{
    if constexpr (std::is_same_v<From, quantized>) {
        how.src_packing = from.packing;
        how.src_order = from.order;
    }
    return how;
}

/* Returns memory for elements under scales. */
inline quantized room(lanecast_dtype dtype, const std::vector<std::size_t> &shape, const lanecast_scaling &by,
                      const lanecast_options &how)
{
    return {dtype,
            shape,
            by,
            std::vector<std::uint8_t>(code_bytes(dtype, shape, by, how.dst_packing)),
            std::vector<std::uint8_t>(scale_bytes(shape, by).first),
            how.dst_packing,
            how.dst_order};
}

/* Returns a scaling with the tensor scale that was found, if it has one to be computed. */
inline scaling with_factor(scaling by, float factor)
{
    const bool multiplies = by.tensor_form == LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY;
    if (multiplies || by.tensor_form == LANECAST_TENSOR_SCALE_COMPUTE_DIVIDE) {
        by.tensor_form = multiplies ? LANECAST_TENSOR_SCALE_MULTIPLY : LANECAST_TENSOR_SCALE_DIVIDE;
        by.tensor_scale = factor;
    }
    return by;
}

/* Quantises. compute is that of lanecast_quantize: 0 for given scales, 1 for scales that are found. */
template <typename From, typename Scales>
scaling quantize(const From &from, const scaled_elements<void, Scales> &to, std::uint8_t compute, const lanecast_options &how,
                 std::uint32_t threads)
{
    const auto src = detail::flat(from);
    detail::check("source", src, to.shape, how.src_packing);
    detail::check(to, how.dst_packing);
    const lanecast_parallel on = on_threads(threads);
    float factor = 0;
    /* Given scales and zero points are only read, so const may be cast away. */
    require(lanecast_quantize(src.dtype, src.data, to.codes.dtype, to.codes.data, to.shape.data(), ndim(to.shape),
                              &to.scaling, const_cast<void *>(to.scales.data), const_cast<void *>(to.zero_points.data),
                              compute, &factor, &how, threads == 1 ? nullptr : &on));
    return with_factor(to.scaling, factor);
}

} // namespace detail

/* Casts floats to elements under scales, in memory of the caller's. Scales are found from the data, and so are zero points, if to
 * has any, which the profile must be able to find. Returns the scaling by which the elements are read: if a tensor scale
 * was computed, it is set there. threads: 1 for the calling thread, 0 for a pool of as many as there are cores. */
template <typename From>
scaling quantize(const From &from, const scaled_elements<void, void> &to, const lanecast_options &how = options(),
                 std::uint32_t threads = 1)
{
    return detail::quantize(from, to, 1, how, threads);
}

/* Casts floats to elements under scales, in memory of their own. Scales are found from the data:
 * lanecast::quantize(x, {rows, columns}, LANECAST_DTYPE_FLOAT8_E4M3FN, lanecast::scaling("mx")). */
template <typename From>
[[nodiscard]] quantized quantize(const From &from, const std::vector<std::size_t> &shape, lanecast_dtype to,
                                 const lanecast_scaling &by, const lanecast_options &how = options(), std::uint32_t threads = 1)
{
    detail::check("source", detail::flat(from), shape, how.src_packing);
    quantized result = detail::room(to, shape, by, how);
    result.scaling = lanecast::quantize(from, detail::under_scales(result), how, threads);
    return result;
}

/* Casts floats to elements under given scales and zero points. */
template <typename From, typename Scales>
void quantize_given(const From &from, const scaled_elements<void, Scales> &to, const lanecast_options &how = options(),
                    std::uint32_t threads = 1)
{
    detail::quantize(from, to, 0, how, threads);
}

/* Casts elements under scales to floats. from is what lanecast::scaled or lanecast::quantize returns. What the latter returns has
 * its own packing and byte order, which replace those of the options. */
template <typename From, typename To>
void dequantize(const From &from, To &&to, const lanecast_options &how = options(), std::uint32_t threads = 1)
{
    const auto &src = detail::under_scales(from);
    const auto dst = detail::flat(to);
    static_assert(std::is_same_v<decltype(dst.data), void *>, "the destination must not be const");
    const lanecast_options reading = detail::reading(from, how);
    detail::check(src, reading.src_packing);
    detail::check("destination", dst, src.shape, how.dst_packing);
    const lanecast_parallel on = detail::on_threads(threads);
    require(lanecast_dequantize(src.codes.dtype, src.codes.data, dst.dtype, dst.data, src.shape.data(),
                                detail::ndim(src.shape), &src.scaling, src.scales.data, src.zero_points.data, &reading,
                                threads == 1 ? nullptr : &on));
}

/* Casts elements under scales to a new vector of floats: lanecast::dequantize<float>(q). */
template <typename To, typename From>
[[nodiscard]] std::vector<To> dequantize(const From &from, const lanecast_options &how = options(), std::uint32_t threads = 1)
{
    std::vector<To> result(detail::product(from.shape));
    lanecast::dequantize(from, result, how, threads);
    return result;
}

/* Casts elements under scales to elements under other scales, in memory of the caller's, with one rounding. The new scales are
 * found. Returns the scaling by which the new elements are read, as lanecast::quantize does. */
template <typename From>
scaling requantize(const From &from, const scaled_elements<void, void> &to, const lanecast_options &how = options(),
                   std::uint32_t threads = 1)
{
    const auto &src = detail::under_scales(from);
    detail::same_shape(src.shape, to.shape);
    const lanecast_options reading = detail::reading(from, how);
    detail::check(src, reading.src_packing);
    detail::check(to, how.dst_packing);
    if (to.zero_points.data != nullptr)
        throw std::invalid_argument("lanecast: requantize finds no zero points; to must have none");
    const lanecast_parallel on = detail::on_threads(threads);
    float factor = 0;
    require(lanecast_requantize(src.codes.dtype, src.codes.data, &src.scaling, src.scales.data, src.zero_points.data,
                                to.codes.dtype, to.codes.data, &to.scaling, to.scales.data, to.shape.data(),
                                detail::ndim(to.shape), &factor, &reading, threads == 1 ? nullptr : &on));
    return detail::with_factor(to.scaling, factor);
}

/* Casts elements under scales to elements under other scales, in memory of their own, with one rounding. */
template <typename From>
[[nodiscard]] quantized requantize(const From &from, lanecast_dtype to, const lanecast_scaling &by,
                                   const lanecast_options &how = options(), std::uint32_t threads = 1)
{
    quantized result = detail::room(to, from.shape, by, how);
    result.scaling = lanecast::requantize(from, detail::under_scales(result), how, threads);
    return result;
}

/* Returns what a quantisation lost. from has the floats; scaled is what lanecast::quantize made of them, or lanecast::scaled of
 * the result; how has the same options. blocks is nullptr, or receives the losses of each block, in the row-major order of the
 * scales. */
template <typename From, typename Scaled>
[[nodiscard]] lanecast_losses quantize_losses(const From &from, const Scaled &scaled, const lanecast_options &how = options(),
                                              std::vector<lanecast_losses> *blocks = nullptr)
{
    const auto src = detail::flat(from);
    const auto &codes = detail::under_scales(scaled);
    lanecast_options made = how;
    if constexpr (std::is_same_v<Scaled, quantized>) {
        made.dst_packing = scaled.packing;
        made.dst_order = scaled.order;
    }
    detail::check("source", src, codes.shape, made.src_packing);
    detail::check(codes, made.dst_packing);
    lanecast_losses all{};
    if (blocks != nullptr)
        blocks->assign(detail::scale_bytes(codes.shape, codes.scaling).second, lanecast_losses());
    require(lanecast_quantize_losses(src.dtype, src.data, codes.codes.dtype, codes.codes.data, codes.shape.data(),
                                     detail::ndim(codes.shape), &codes.scaling, codes.scales.data, codes.zero_points.data,
                                     &made, &all, blocks != nullptr ? blocks->data() : nullptr));
    return all;
}

/* As lanecast::quantize and lanecast::quantize_losses, but in one pass, on the calling thread. */
template <typename From>
[[nodiscard]] std::pair<quantized, lanecast_losses>
quantize_with_losses(const From &from, const std::vector<std::size_t> &shape, lanecast_dtype to, const lanecast_scaling &by,
                     const lanecast_options &how = options(), std::vector<lanecast_losses> *blocks = nullptr)
{
    const auto src = detail::flat(from);
    detail::check("source", src, shape, how.src_packing);
    std::pair<quantized, lanecast_losses> result{detail::room(to, shape, by, how), {}};
    quantized &made = result.first;
    if (blocks != nullptr)
        blocks->assign(detail::scale_bytes(shape, by).second, lanecast_losses());
    float factor = 0;
    require(lanecast_quantize_with_losses(src.dtype, src.data, to, made.codes.data(), shape.data(), detail::ndim(shape), &by,
                                          made.scales.data(), nullptr, 1, &factor, &how, &result.second,
                                          blocks != nullptr ? blocks->data() : nullptr));
    made.scaling = detail::with_factor(made.scaling, factor);
    return result;
}

} // namespace lanecast

#endif /* LANECAST_HPP */
