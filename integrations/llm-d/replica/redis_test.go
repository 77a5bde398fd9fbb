package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"takt-llm-d/fleet"
)

// server is a real server on its own port.
type server struct {
	t      *testing.T
	path   string
	folder string
	port   int
	more   []string
	run    *exec.Cmd
}

// redisServer starts a server, or skips the test. keep: its data survives it.
func redisServer(t *testing.T, keep bool) *server {
	t.Helper()
	s := &server{t: t, folder: t.TempDir(), more: []string{"--save", "", "--appendonly", "no"}}
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			s.path = path
			break
		}
	}
	if s.path == "" {
		t.Skip("needs valkey-server or redis-server (apt-get install redis-server)")
	}
	if keep {
		s.more = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = at.Addr().(*net.TCPAddr).Port
	at.Close()
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) url() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

func (s *server) start() {
	s.t.Helper()
	s.run = exec.Command(s.path, append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.folder}, s.more...)...)
	if err := s.run.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the server answers", func() bool {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.port), time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Second))
		fmt.Fprint(c, "PING\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.HasPrefix(line, "+PONG")
	})
}

func (s *server) kill() {
	if s.run != nil {
		s.run.Process.Kill()
		s.run.Wait()
		s.run = nil
	}
}

func (s *server) log() Log {
	s.t.Helper()
	log, err := OpenRedis(s.url(), "takt:test")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { log.Close() })
	return log
}

func TestRedisIsALog(t *testing.T) {
	s := redisServer(t, false)
	log, ctx := s.log(), context.Background()
	read := func(after string, most int) (string, []Record) {
		t.Helper()
		records, err := log.Read(ctx, after, most, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, r := range records {
			text += string(r.Value)
		}
		return text, records
	}
	if got, _ := read("", 9); got != "" {
		t.Fatal(got)
	}
	if position, _, err := log.Load(ctx); position != "" || err != nil {
		t.Fatal(position, err)
	}
	if err := log.Append(ctx, [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")}); err != nil {
		t.Fatal(err)
	}
	got, records := read("", 9)
	if got != "abcd" || time.Since(records[0].At) > time.Minute || !log.Before(records[0].Position, records[1].Position) {
		t.Fatal(got, records)
	}
	if got, _ = read(records[1].Position, 1); got != "c" {
		t.Fatal(got)
	}
	if err := log.Save(ctx, records[1].Position, []byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	if position, snapshot, err := log.Load(ctx); position != records[1].Position || string(snapshot) != `{"n":1}` || err != nil {
		t.Fatal(position, string(snapshot), err)
	}
	if err := log.Save(ctx, records[0].Position, []byte(`{"n":2}`)); err != nil { // an older one
		t.Fatal(err)
	}
	if position, _, _ := log.Load(ctx); position != records[1].Position {
		t.Fatal(position)
	}
	if err := log.Trim(ctx, records[2].Position); err != nil {
		t.Fatal(err)
	}
	if got, _ = read("", 9); got != "cd" {
		t.Fatal(got)
	}
	second := s.log().(*redisLog)
	second.doubt.Store(true)
	if _, err := second.Read(ctx, records[0].Position, 9, time.Millisecond); !errors.Is(err, ErrTrimmed) {
		t.Fatal(err)
	}
	if _, err := second.Read(ctx, records[0].Position, 2, time.Millisecond); !errors.Is(err, ErrTrimmed) {
		t.Fatal(err)
	}
	s.kill()
	if _, err := log.Read(ctx, records[3].Position, 9, time.Millisecond); err == nil {
		t.Fatal("there is no server")
	}
	s.start()
	if _, err := log.Read(ctx, records[3].Position, 9, time.Millisecond); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	if got, _ = read(records[3].Position, 9); got != "" {
		t.Fatal(got)
	}
	for _, bad := range [][2]string{{"http://x", "s"}, {"redis://127.0.0.1:1/0", ""}} {
		if _, err := OpenRedis(bad[0], bad[1]); err == nil {
			t.Fatal(bad)
		}
	}
}

// The server is killed and restarted while two replicas work, with and without its data. Both continue, and in the end
// they and a later replica know everything.
func TestReplicasSurviveARestartOfTheServer(t *testing.T) {
	for _, keep := range []bool{true, false} {
		s := redisServer(t, keep)
		nodes := []*node{start(t, s.log(), "least_outstanding_tokens", "a", quick), start(t, s.log(), "least_outstanding_tokens", "b", quick)}
		for i, n := range nodes {
			work(t, n, int64(i), 90, 1)
		}
		eventually(t, "all is published", settled(nodes...))
		s.kill()
		for i, n := range nodes {
			work(t, n, int64(10+i), 90, 0)
		}
		eventually(t, "they learn alone", func() bool {
			_, _, a := nodes[0].learner.Knows()
			return a == 58+30 && !nodes[0].replica.Count().Connected
		})
		s.start()
		t.Cleanup(func() {
			for _, n := range nodes {
				_, _, over := n.learner.Knows()
				t.Logf("kept %v: %d workflows, %+v", keep, over, n.replica.Count())
			}
		})
		eventually(t, "both know all", func() bool {
			_, _, a := nodes[0].learner.Knows()
			_, _, b := nodes[1].learner.Knows()
			return a == 118 && b == 118 && settled(nodes...)()
		})
		late := start(t, s.log(), "least_outstanding_tokens", "c", quick)
		eventually(t, "the late one has caught up", settled(append(nodes, late)...))
		if lost := nodes[0].replica.Count().Lost; (lost > 0) == keep {
			t.Fatalf("kept: %v, lost: %d", keep, lost)
		}
		same(t, append(nodes, late)...)
		if n := len(late.replica.state.k.Flights); n != 2 {
			t.Fatalf("%d in flight", n)
		}
	}
}

// A process is killed at work: its published items are known, and its requests in flight end.
func TestRequestsOfAKilledProcessEnd(t *testing.T) {
	if url := os.Getenv("TAKT_TEST_LOG"); url != "" { // this is the child process
		log, err := OpenRedis(url, "takt:test")
		if err != nil {
			t.Fatal(err)
		}
		options := quick
		options.Lease = 2 * time.Second
		n := start(t, log, "least_loaded", "child", options)
		for i := int64(0); ; i++ {
			work(t, n, i, 30, 1)
			eventually(t, "published", func() bool { return n.replica.Count().Pending == 0 })
			_, _, over := n.learner.Knows()
			fmt.Println("learnt", over)
		}
	}
	s := redisServer(t, true)
	options := quick
	options.Lease = 2 * time.Second
	n := start(t, s.log(), "least_loaded", "parent", options)
	child := exec.Command(os.Args[0], "-test.run=TestAProcessIsKilled$")
	child.Env = append(os.Environ(), "TAKT_TEST_LOG="+s.url())
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var known uint64
	lines := bufio.NewScanner(out)
	for known < 100 && lines.Scan() {
		fmt.Sscanf(lines.Text(), "learnt %d", &known)
	}
	child.Process.Kill()
	child.Wait()
	if known < 100 {
		t.Fatal("the other process has ended by itself")
	}
	eventually(t, "the other knows it", func() bool { _, _, over := n.learner.Knows(); return over >= known })
	eventually(t, "what was in flight has ended", func() bool { return n.replica.Count().Swept > 0 })
	n.end()
	if left := len(n.replica.state.k.Flights); left != 0 {
		t.Fatalf("%d in flight", left)
	}
	if _, _, over := n.learner.Knows(); over < known {
		t.Fatalf("%d of %d workflows", over, known)
	}
}

// The time from an event to its effect, through the server.
func BenchmarkPublishAndFollow(b *testing.B) {
	log, err := OpenRedis(os.Getenv("TAKT_BENCH_LOG"), "takt:bench")
	if os.Getenv("TAKT_BENCH_LOG") == "" || err != nil {
		b.Skip("needs TAKT_BENCH_LOG, the URL of a server")
	}
	f, err := fleet.New(fleet.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l := fleet.NewLearner(60e9)
	r := New(log, f, l, Options{})
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Add(1)
	go func() { defer done.Done(); r.Run(ctx) }()
	for !r.Count().Connected {
		time.Sleep(time.Millisecond)
	}
	b.ResetTimer()
	for i := range b.N {
		l.Begin(fmt.Sprint(i), nil, 9, 9, 0, 0, 1)
		for r.Count().Pending > 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	b.StopTimer()
	stop()
	done.Wait()
}
