// Package replica keeps what several routers of one fleet know the same: what is in flight, and what was learnt. Each
// publishes what happens to it on one ordered log, and each follows that log; the log alone decides, so that replicas which
// have followed it to the same place agree bit for bit. docs/howto/llm_d_replicas.md
package replica

import (
	"context"
	"errors"
	"time"
)

// Record is a value of a log, where it is, and when the log took it, by the log's own clock, which never goes back.
type Record struct {
	Position string
	At       time.Time
	Value    []byte
}

// Log is an ordered log of values, with one snapshot beside it. A stream of Valkey or Redis is one (OpenRedis); a partition
// of Kafka with a compacted topic beside it, or a JetStream of NATS with a key-value bucket, can be.
type Log interface {
	// Append puts values at the end, in their order. After an error some of them may be there.
	Append(ctx context.Context, values [][]byte) error
	// Read gives at most so many records behind a position ("": from the first on). Where there are none it waits, and
	// gives none. ErrTrimmed, ErrLost, or the log cannot be reached now.
	Read(ctx context.Context, after string, most int, wait time.Duration) ([]Record, error)
	// Before says whether a position is before another.
	Before(a, b string) bool
	// Save keeps a snapshot of the state behind a position, unless one of a later position is kept.
	Save(ctx context.Context, position string, snapshot []byte) error
	// Load gives the newest snapshot; position "": there is none.
	Load(ctx context.Context) (position string, snapshot []byte, err error)
	// Trim drops what lies before a position.
	Trim(ctx context.Context, before string) error
	Close() error
}

var (
	// ErrTrimmed: records behind the position were dropped. A snapshot has what they told.
	ErrTrimmed = errors.New("the log was trimmed beyond this position")
	// ErrLost: the log does not have the record at the position, and has not trimmed it: it lost its end, or all.
	// Said once; the next read goes on behind the position.
	ErrLost = errors.New("the log has lost what was read of it")
)
