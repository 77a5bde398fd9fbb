// The version of takt. CMake reads it from this file.
#ifndef TAKT_VERSION_H_
#define TAKT_VERSION_H_

#define TAKT_VERSION_MAJOR 0
#define TAKT_VERSION_MINOR 1
#define TAKT_VERSION_PATCH 0
#define TAKT_VERSION "0.1.0"

#endif  // TAKT_VERSION_H_
