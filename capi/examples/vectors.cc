// Casts between vectors from C++: to float8 and back, to packed float4, from a view, under scales, and refused if a value would be
// lost.
//
//   cargo build --release -p lanecast-capi
//   c++ -std=c++17 -Icapi/include capi/examples/vectors.cc target/release/liblanecast.a -lpthread -ldl -lm -o vectors
#include <array>
#include <cstdint>
#include <iostream>
#include <vector>

#include "lanecast.hpp"

int main()
{
    const std::vector<float> x{-0.3f, 1.75f, 300.0f, 65536.0f};

    // Dtypes that have a C++ type: to<T> makes a vector, and cast fills one.
    for (int i : lanecast::to<std::int32_t>(x))
        std::cout << i << ' ';

    // Dtypes that have none: lanecast::as takes bytes as float8, and as packed float4.
    std::vector<std::uint8_t> codes(x.size());
    lanecast::cast(x, lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, codes));
    std::array<float, 4> back{};
    lanecast::cast(lanecast::as(LANECAST_DTYPE_FLOAT8_E4M3FN, codes), back);
    std::array<std::uint8_t, 2> packed{};
    lanecast::options high;
    high.dst_packing = LANECAST_PACKING_HIGH_FIRST;
    lanecast::cast(x, lanecast::as(LANECAST_DTYPE_FLOAT4_E2M1FN, packed), high);
    std::cout << "| " << back[0] << ' ' << back[3] << " | " << std::hex << int{packed[0]} << ' ' << int{packed[1]}
              << std::dec << '\n';

    // A view: the matrix {{-0.3, 1.75}, {300, 65536}}, transposed. Strides are bytes.
    for (double value : lanecast::to<double>(lanecast::strided(x, {2, 2}, {4, 8})))
        std::cout << value << ' ';

    // Under scales: as float4 in blocks of 16 with a tensor scale (NVFP4), and back.
    lanecast::scaling nvfp4("nvfp4");
    nvfp4.tensor_form = LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY;
    const lanecast::quantized q = lanecast::quantize(x, {1, 4}, LANECAST_DTYPE_FLOAT4_E2M1FN, nvfp4);
    std::cout << "| " << q.codes.size() << " bytes, " << q.scales.size() << " scale: " << lanecast::dequantize<float>(q)[3]
              << '\n';

    // A cast that loses values: reported, or refused.
    std::vector<std::uint16_t> shorts(x.size());
    const lanecast_report report = lanecast::cast_checked(x, shorts);
    std::cout << report.above << " above, " << report.inexact << " rounded\n";
    try {
        lanecast::try_cast(x, shorts);
    } catch (const lanecast::lossy &error) {
        std::cout << error.what() << '\n';
    }
    try {
        lanecast::cast(x, packed);
    } catch (const std::invalid_argument &error) {
        std::cout << error.what() << '\n';
        return 0;
    }
    return 1;
}
