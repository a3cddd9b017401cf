/* lanecast for C++17: casts between vectors, arrays and spans. Everything else is in lanecast.h, and lanecast::require makes
 * exceptions of its statuses.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef LANECAST_HPP
#define LANECAST_HPP

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

namespace detail {

template <typename Range> using pointer = decltype(std::data(std::declval<Range &>()));
template <typename Range> using element = std::remove_pointer_t<pointer<Range>>;
template <typename T> using void_of = std::conditional_t<std::is_const_v<T>, const void, void>;

template <typename T, typename = void> struct is_range : std::false_type {};
template <typename T>
struct is_range<T, std::void_t<pointer<T>, decltype(std::size(std::declval<T &>()))>> : std::is_pointer<pointer<T>> {};

template <typename T> struct is_elements : std::false_type {};
template <typename Void> struct is_elements<elements<Void>> : std::true_type {};

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

/* A range as elements of the dtype of its type; elements as they are. */
template <typename Range> auto of(Range &range)
{
    auto found = memory(range);
    if constexpr (!is_elements<std::remove_const_t<Range>>::value && is_range<Range>::value) {
        found.dtype = dtype_v<element<Range>>;
        found.count = found.bytes / sizeof(element<Range>);
    }
    return found;
}

/* How many elements of a dtype fit into some bytes. */
inline std::size_t fitting(lanecast_dtype dtype, std::size_t bytes, std::uint8_t packing)
{
    const std::size_t bits = lanecast_dtype_bits(dtype);
    if (bits == 0)
        /* There is no such dtype, and the library says so. */
        require(lanecast_cast(dtype, nullptr, dtype, nullptr, 0, nullptr));
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

/* Compares both sides of a cast, and calls a function of lanecast.h that takes them, how many elements there are, and the options. */
template <typename From, typename To, typename Cast>
lanecast_status on(const From &from, To &to, const lanecast_options &how, Cast cast)
{
    const auto src = of(from);
    const auto dst = of(to);
    static_assert(!std::is_const_v<std::remove_pointer_t<decltype(dst.data)>>, "the destination must not be const");
    if (src.count != dst.count)
        throw std::invalid_argument("lanecast: the source has " + std::to_string(src.count) +
                                    " elements, and the destination " + std::to_string(dst.count));
    check("source", src.dtype, src.bytes, src.count, how.src_packing);
    check("destination", dst.dtype, dst.bytes, dst.count, how.dst_packing);
    return cast(src.dtype, src.data, dst.dtype, dst.data, src.count, &how);
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

/* Casts elements. Both sides are a std::vector, std::array, std::span, array, or what lanecast::as makes of one. */
template <typename From, typename To>
void cast(const From &from, To &&to, const lanecast_options &how = options())
{
    require(detail::on(from, to, how, lanecast_cast));
}

/* The same on so many threads; 0 for a pool of as many as there are cores. */
template <typename From, typename To>
void cast_parallel(const From &from, To &&to, std::uint32_t threads = 0, const lanecast_options &how = options())
{
    require(detail::on(from, to, how, [&](auto... with) { return lanecast_cast_parallel(with..., threads); }));
}

/* Casts, and says what that loses. */
template <typename From, typename To>
lanecast_report cast_checked(const From &from, To &&to, const lanecast_options &how = options())
{
    lanecast_report report;
    const lanecast_status status = detail::on(
        from, to, how, [&](auto... with) { return lanecast_cast_checked(with..., &report, nullptr); });
    if (status != LANECAST_ERR_LOSSY)
        require(status);
    return report;
}

/* Casts, unless that loses an element: then it throws lanecast::lossy, and nothing is written. Rounding is no loss. */
template <typename From, typename To>
void try_cast(const From &from, To &&to, const lanecast_options &how = options())
{
    require(detail::on(from, to, how, [](auto src_dtype, auto src, auto dst_dtype, auto dst, auto n, auto o) {
        lanecast_report report;
        const lanecast_status status = lanecast_check(src_dtype, src, dst_dtype, n, o, &report);
        if (status == LANECAST_ERR_LOSSY)
            throw lossy(report);
        require(status);
        return lanecast_cast(src_dtype, src, dst_dtype, dst, n, o);
    }));
}

/* A vector of what elements become: lanecast::to<float>(bytes). */
template <typename To, typename From>
[[nodiscard]] std::vector<To> to(const From &from, const lanecast_options &how = options())
{
    static_assert(!std::is_same_v<To, bool>, "std::vector<bool> has no elements in memory");
    std::vector<To> result(detail::of(from).count);
    cast(from, result, how);
    return result;
}

} // namespace lanecast

#endif /* LANECAST_HPP */
