// One broken promise of the embeddable library per build. tests/embed must find each.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

namespace takt {

#if defined(TAKT_PLANT_CLOCK)
auto Planted() { return std::chrono::steady_clock::now(); }
#elif defined(TAKT_PLANT_CHANCE)
auto Planted() { return std::random_device{}(); }
#elif defined(TAKT_PLANT_OUTPUT)
void Planted(int value) { std::printf("%d", value); }
#elif defined(TAKT_PLANT_ENVIRONMENT)
auto Planted() { return std::getenv("TAKT"); }
#elif defined(TAKT_PLANT_THREAD)
void Planted() {
  std::thread([] {}).join();
}
#elif defined(TAKT_PLANT_THROW)
void Planted() { throw std::runtime_error("planted"); }
#elif defined(TAKT_PLANT_STATIC)
int Planted() {
  static int calls = 0;
  return ++calls;
}
#elif defined(TAKT_PLANT_CONTRACTION)
double Planted(double a, double b, double c) { return a * b + c; }
#endif

}  // namespace takt
