// Includes Catch2 2.13 or 3.
#ifndef TAKT_TESTS_CATCH_H_
#define TAKT_TESTS_CATCH_H_

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include "views.h"

#endif  // TAKT_TESTS_CATCH_H_
