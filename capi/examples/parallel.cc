// Casts on the program's own threads from C++: the library calls a parallel loop, such as array libraries have.
//
//   cargo build --release -p lanecast-capi
//   c++ -std=c++17 -Icapi/include capi/examples/parallel.cc target/release/liblanecast.a -lpthread -ldl -lm -o parallel
#include <atomic>
#include <cstdint>
#include <iostream>
#include <thread>
#include <vector>

#include "lanecast.h"

// Calls the task for every index, each on whichever thread is free, and returns when all calls have returned.
extern "C" {
static void on_threads(void *context, std::size_t tasks, lanecast_task task, void *job)
{
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next++; i < tasks; i = next++)
            task(job, i);
    };
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < *static_cast<unsigned *>(context); i++)
        threads.emplace_back(work);
    work();
    for (std::thread &thread : threads)
        thread.join();
}
}

int main()
{
    std::vector<float> x(3000000);
    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = static_cast<float>(i % 200) + 0.5f;
    std::vector<std::uint8_t> bytes(x.size());

    unsigned threads = 3;
    lanecast_parallel how;
    lanecast_parallel_init(&how);
    how.threads = threads;
    how.parallel_for = on_threads;
    how.parallel_for_context = &threads;
    const lanecast_status status = lanecast_cast_parallel_with(LANECAST_DTYPE_FLOAT32, x.data(), LANECAST_DTYPE_UINT8,
                                                               bytes.data(), x.size(), nullptr, &how);
    if (status != LANECAST_OK) {
        std::cerr << lanecast_error_message() << '\n';
        return 1;
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); i++)
        wrong += bytes[i] != i % 200;
    std::cout << x.size() << " elements on " << threads << " threads, " << wrong << " wrong\n";
    return wrong == 0 ? 0 : 1;
}
