#include "takt/tool.h"

int main(int argc, char** argv) { return takt::tool::Main(argc, argv); }
