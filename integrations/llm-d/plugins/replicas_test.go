package plugins

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"
	"github.com/prometheus/client_golang/prometheus"
)

func TestReplicasFaultsAreNamed(t *testing.T) {
	t.Setenv("TAKT_REPLICAS_URL", "")
	for parameters, says := range map[string]string{
		`{}`:                                 "TAKT_REPLICAS_URL",
		`{"url": "http://x", "stream": "s"}`: "url",
		`{"url": "redis://127.0.0.1:1/0"}`:   "stream",
		`{"url": "redis://127.0.0.1:1/0", "stream": "s", "markEvery": -1}`: "markEvery is -1",
		`{"url": "redis://x", "stream": "s", "leaseSeconds": -1}`:          "leaseSeconds is -1",
		`{"uri": "redis://x"}`: "uri",
	} {
		handle := plugin.NewEppHandle(context.Background(), nil)
		_, err := newScorer("it", plugin.StrictDecoder(json.RawMessage(`{"replicas": `+parameters+`}`)), handle)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), ScorerType) {
			t.Errorf("%s: %v: does not say %q", parameters, err, says)
		}
	}
}

// A scorer follows a real server named in its parameters.
func TestScorerFollowsTheLog(t *testing.T) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("needs redis-server (apt-get install redis-server)")
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := at.Addr().(*net.TCPAddr).Port
	at.Close()
	server := exec.Command(path, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		learned.SetShare(nil)
		sharing.Store(false)
	})
	registry := prometheus.NewRegistry()
	handle := plugin.NewEppHandle(ctx, nil, plugin.WithMetricsRecorder(registry))
	parameters := fmt.Sprintf(`{"placement": "least_outstanding_tokens", "replicas": {"url": "redis://127.0.0.1:%d/0", "stream": "s"}}`, port)
	p, err := newScorer("it", plugin.StrictDecoder(json.RawMessage(parameters)), handle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newScorer("other", plugin.StrictDecoder(json.RawMessage(parameters)), handle); err == nil || !strings.Contains(err.Error(), "another takt-scorer") {
		t.Fatal(err)
	}
	s, there := p.(*scorer), engines(3)
	// A log that answers late counts as disconnected for a while.
	followed := func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, family := range families {
			if family.GetName() == "takt_log_connected" && family.GetMetric()[0].GetGauge().GetValue() == 1 {
				seen++
			}
			if family.GetName() == "takt_log_items_total" && len(family.GetMetric()) == 12 {
				seen++
			}
		}
		return seen == 2 && s.fleet.Count().Engines == 3
	}
	for end := time.Now().Add(time.Minute); !followed(); time.Sleep(5 * time.Millisecond) {
		r := request(fmt.Sprint("shared", time.Now().UnixNano()), "shared flow", "x", true)
		s.RequestHeader(ctx, r)
		s.Score(ctx, r, there)
		if time.Now().After(end) {
			t.Fatal("engines and metrics never come back through the log")
		}
	}
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "XLEN s\r\n")
	if line, _ := bufio.NewReader(c).ReadString('\n'); line == ":0\r\n" || !strings.HasPrefix(line, ":") {
		t.Fatalf("the stream has %q records", line)
	}
}
