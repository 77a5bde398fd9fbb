// llm-d's router with takt's plug-ins, which choose the engine, the next request and the next flow. docs/howto/llm_d.md
package main

import (
	"os"

	"github.com/llm-d/llm-d-router/cmd/epp/runner"
	ctrl "sigs.k8s.io/controller-runtime"

	"takt-llm-d/plugins"
)

func main() {
	plugins.Register()
	if runner.NewRunner().Run(ctrl.SetupSignalHandler()) != nil {
		os.Exit(1) // the runner has logged the error
	}
}
