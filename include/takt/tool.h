// The tool as a library (target takt::tool): a program that registers policies of its own is a `takt` that knows them.
#ifndef TAKT_TOOL_H_
#define TAKT_TOOL_H_

namespace takt::tool {

// All that bin/takt does; the exit code. The commands plan, tune and cluster run the program takt-plan, which knows the
// names of takt alone. It reads files and writes to standard output, unlike the rest of the library.
//   int main(int argc, char** argv) {
//     if (!takt::RegisterPolicy(Mine{}, "mine").ok()) return 1;
//     return takt::tool::Main(argc, argv);
//   }
int Main(int argc, const char* const* argv);

}  // namespace takt::tool

#endif  // TAKT_TOOL_H_
