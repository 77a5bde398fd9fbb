// Rules of other systems by name.
#include <takt/policy/registry.h>
#include <takt/rivals/rivals.h>

int main() {
  const bool unknown = !takt::MakePolicy("mlfq").ok();
  return unknown && takt::RegisterRivals().ok() && takt::MakePolicy("aged(mlfq)").ok() ? 0 : 1;
}
