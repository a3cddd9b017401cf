// Casts between vectors from C++ with lanecast.h alone, and throws if a value is lost.
//
//   cargo build --release -p lanecast-capi
//   c++ -std=c++17 -Icapi/include capi/examples/checked.cc target/release/liblanecast.a -lpthread -ldl -lm -o checked
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lanecast.h"

template <typename T> struct dtype_of;
template <> struct dtype_of<std::int64_t> { static constexpr lanecast_dtype value = LANECAST_DTYPE_INT64; };
template <> struct dtype_of<std::uint16_t> { static constexpr lanecast_dtype value = LANECAST_DTYPE_UINT16; };
template <> struct dtype_of<float> { static constexpr lanecast_dtype value = LANECAST_DTYPE_FLOAT32; };

template <typename To, typename From> std::vector<To> cast(const std::vector<From> &from)
{
    std::vector<To> to(from.size());
    lanecast_report report;
    const lanecast_status status = lanecast_cast_checked(dtype_of<From>::value, from.data(), dtype_of<To>::value,
                                                         to.data(), from.size(), nullptr, &report, nullptr);
    if (status == LANECAST_ERR_LOSSY)
        throw std::range_error("element " + std::to_string(report.first) + ", " + std::to_string(from[report.first]) +
                               ", does not fit in " + lanecast_dtype_name(dtype_of<To>::value));
    if (status != LANECAST_OK)
        throw std::runtime_error(lanecast_error_message());
    return to;
}

int main()
{
    for (float x : cast<float>(std::vector<std::int64_t>{1, -2, 16777217}))
        std::cout << std::fixed << x << '\n';
    try {
        cast<std::uint16_t>(std::vector<std::int64_t>{1, 65535, 65536});
    } catch (const std::range_error &error) {
        std::cout << error.what() << '\n';
        return 0;
    }
    return 1;
}
