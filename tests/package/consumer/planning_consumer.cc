#include <takt/planning/milp.h>

int main() {
  takt::MilpModel model;
  model.columns.push_back({.name = "x", .cost = 1, .lower = 2, .upper = 3});
  return model.Validate().ok() ? 0 : 1;
}
