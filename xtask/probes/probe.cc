// Run under the emulator before anything is configured: the C++ run-time, its exceptions, threads and atomics.
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

int main() {
  std::atomic<long> sum{0};
  std::thread one([&] { for (int i = 0; i < 1000; i++) sum++; });
  std::thread two([&] { for (int i = 0; i < 1000; i++) sum++; });
  one.join();
  two.join();
  try {
    throw std::runtime_error("caught");
  } catch (const std::exception &error) {
    std::string what = error.what();
    std::printf("exception %s\nthreads %ld\n", what.c_str(), sum.load());
  }
  return 0;
}
