// The command-line tool as a library (target takt::tool), for programs with policies of their own.
#ifndef TAKT_TOOL_H_
#define TAKT_TOOL_H_

namespace takt::tool {

// Runs the `takt` command line and returns the exit code. The commands plan, recommend, tune and cluster run
// the program takt-plan, which does not know added policies. Unlike the rest of the library, this function reads files
// and writes to standard output.
//   int main(int argc, char** argv) {
//     if (!takt::RegisterPolicy(Mine{}, "mine").ok()) return 1;
//     return takt::tool::Main(argc, argv);
//   }
int Main(int argc, const char* const* argv);

}  // namespace takt::tool

#endif  // TAKT_TOOL_H_
